//! The command `plan`: what [`Transaction::prepare`](patchpoint::engine::Transaction::prepare)
//! would write, with nothing to write it into.

use std::fmt::Write;

use patchpoint::addr::CodeAddr;
use patchpoint::sequence::{self, Assembled, Environment, Fit, Sequence, Target};
use patchpoint::site::Site;
use patchpoint::verify::{self, Chunk};
use serde_json::{Map, Value, json};

use crate::args::{Output, Plan};
use crate::files::{Input, Printed};
use crate::json::list;
use crate::lines;
use crate::names::{Listed, Names, listing_text};
use crate::page;
use crate::paint::{Paint, Style};
use crate::planned::{Planned, Written};
use crate::problem::Problem;
use crate::shapes::Shapes;
use crate::sites::{self, heading, place_json};
use crate::survey::{RecordState, Registered, Survey, kind};

/// The distance between an exit stub, another, and a stub: more than any has.
const ROOM: u64 = 0x1000;
/// What every architecture's jumps reach.
const NEAR: u64 = 0x8_0000;

/// What is to be printed, and whether the sequence is refused for a site.
pub(crate) fn render(
    plan: &Plan,
    input: &Input<'_>,
    shapes: &Shapes,
    (paint, demangle): (Paint, bool),
) -> Result<(Printed, bool), Problem> {
    let survey = Survey::of(input, shapes, plan.code.lines)?;
    let planned = of_survey(plan, &survey)?;
    let refused = planned.iter().any(|site| site.outcome.is_err());
    let printed = match plan.code.known.format {
        _ if plan.html => Printed::Page(page::functions(plan, &survey, &planned, demangle)?),
        Output::Text => Printed::Text(as_text(plan, &survey, &planned, paint)),
        Output::Json => Printed::Json(as_json(plan, &survey, &planned)),
    };
    Ok((printed, refused))
}

fn of_survey<'s>(plan: &Plan, survey: &'s Survey) -> Result<Vec<Planned<'s>>, Problem> {
    let rows: Vec<_> = survey.rows.iter().filter(|row| row.place.id == plan.id).collect();
    if rows.is_empty() {
        return Err(no_such_id(plan.id, survey));
    }
    let mut planned = Vec::new();
    let mut why = Vec::new();
    for row in rows {
        match &row.state {
            RecordState::Registered(registered) => planned.push(Planned {
                place: &row.place,
                registered,
                outcome: written(plan, survey, registered),
            }),
            RecordState::Refused(error, _) => why.push(error.to_string()),
            RecordState::Unmatched(reason) | RecordState::NoLength(reason) => {
                why.push(format!("at {}: {reason}", row.place));
            }
            RecordState::Statepoint => why.push(format!("at {}: a statepoint is no site", row.place)),
            RecordState::NoSite(reason) => why.push(format!("at {}: {reason}", row.place)),
        }
    }
    match planned.is_empty() {
        true => Err(Problem::NoSite {
            id: plan.id,
            why: why.join("; "),
        }),
        false => Ok(planned),
    }
}

fn no_such_id(id: u64, survey: &Survey) -> Problem {
    let mut ids: Vec<_> = survey.rows.iter().map(|row| row.place.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let shown: Vec<_> = ids.iter().take(20).map(u64::to_string).collect();
    let more = if ids.len() > shown.len() { " and more" } else { "" };
    let have = match shown.as_slice() {
        [] => "the file has no records".to_owned(),
        shown => format!("the file has {}{more}", shown.join(", ")),
    };
    Problem::NoSuchId { id, have }
}

/// Made-up addresses for a site's exit stubs and stub.
struct Around {
    miss: CodeAddr,
    deopt: CodeAddr,
    stub: CodeAddr,
}

impl Around {
    /// Behind all code, where a jump reaches that far.
    fn of(site: &Site, end: u64) -> Self {
        let behind = end.next_multiple_of(ROOM);
        let near = site.end().get().next_multiple_of(ROOM).saturating_add(NEAR / 2);
        let first = if behind.saturating_sub(site.addr().get()) < NEAR {
            behind
        } else {
            near
        };
        Self {
            miss: CodeAddr::new(first),
            deopt: CodeAddr::new(first.saturating_add(ROOM)),
            stub: CodeAddr::new(first.saturating_add(2 * ROOM)),
        }
    }
}

fn written(plan: &Plan, survey: &Survey, registered: &Registered) -> Result<Written, patchpoint::Error> {
    let site = &registered.site;
    let around = Around::of(site, survey.end);
    let return_offsets: &[u32] = if plan.ran { &registered.return_offsets } else { &[] };
    let assembled = assemble(plan, site, return_offsets, &around)?;
    let mut names = survey.names.clone();
    names.add(around.miss, "miss");
    names.add(around.deopt, "deopt");
    names.add(site.end(), "the end of the site");
    names.add(around.stub, "the stub");
    let list = |addr, bytes: &[u8]| listing(&names, site, addr, bytes);
    Ok(Written {
        used: assembled.used,
        slack: assembled.slack(),
        before: match &registered.now {
            Some(_) => sites::now(survey, registered),
            None => list(site.addr(), &site.read()?),
        },
        after: list(site.addr(), &assembled.code),
        stub: assembled
            .stub
            .as_ref()
            .map(|stub| (stub.addr, list(stub.addr, &stub.bytes))),
        return_offsets: assembled.return_offsets,
    })
}

fn listing(names: &Names, site: &Site, addr: CodeAddr, bytes: &[u8]) -> Vec<Listed> {
    names.listing(site.module().arch(), addr, bytes, |_| None)
}

/// Assembles and checks the sequence, in place where it fits there.
fn assemble(
    plan: &Plan,
    site: &Site,
    return_offsets: &[u32],
    around: &Around,
) -> Result<Assembled, patchpoint::Error> {
    let mut context = site.context(return_offsets);
    context.trust_live_outs = plan.trust_live_outs;
    let seq: &Sequence = &plan.seq;
    let environment = Environment {
        miss: seq.uses(Target::Miss).then_some(around.miss),
        deopt: seq.uses(Target::Deopt).then_some(around.deopt),
    };
    let mut assembled = match sequence::assemble(seq, &context, &environment)? {
        Fit::InPlace(assembled) => assembled,
        Fit::OutOfLine { .. } => sequence::assemble_out_of_line(seq, &context, &environment, around.stub)?,
    };
    let chunk = assembled.stub.as_ref().map(|stub| Chunk {
        addr: stub.addr,
        bytes: &stub.bytes,
    });
    let checked = verify::check(&context, &assembled.code, chunk.as_slice(), &assembled.declared)?;
    // Of what the bytes do, the checker is believed.
    assembled.return_offsets = checked.return_offsets;
    Ok(assembled)
}

fn as_text(plan: &Plan, survey: &Survey, planned: &[Planned<'_>], paint: Paint) -> String {
    let mut out = heading(survey, paint);
    let _ = writeln!(out, "{}", paint.of(Style::Green, &plan.seq));
    for site in planned {
        // Writing to a string does not fail.
        let _ = site_text(&mut out, plan, site, paint);
    }
    out
}

fn site_text(out: &mut String, plan: &Plan, planned: &Planned<'_>, paint: Paint) -> std::fmt::Result {
    let reserved = planned.registered.shape.reserved();
    let reserved = crate::words::count_u64(reserved.get().into(), "byte");
    let id = paint.of(Style::Cyan, plan.id);
    let source = lines::words(&planned.place.source);
    let source = source.map_or(String::new(), |source| format!(" ({source})"));
    write!(
        out,
        "\n{} {id} at {}{source}: {reserved} reserved",
        kind(planned.registered),
        planned.place
    )?;
    let written = match &planned.outcome {
        Ok(written) => written,
        Err(error) => return writeln!(out, "\n  {}", paint.of(Style::Red, format!("refused: {error}"))),
    };
    writeln!(out, ", {} used, {} slack", written.used, written.slack)?;
    let mut part =
        |title: &str, lines: &[Listed]| write!(out, "  {title}\n{}", listing_text(lines, 4, paint));
    part("before", &written.before)?;
    part("after", &written.after)?;
    match &written.stub {
        Some((_, lines)) => part("stub", lines),
        None => Ok(()),
    }
}

fn as_json(plan: &Plan, survey: &Survey, planned: &[Planned<'_>]) -> Value {
    json!({
        "file": survey.file,
        "architecture": survey.arch.to_string(),
        "id": plan.id,
        "sequence": plan.seq.to_string(),
        "sites": list(planned, site_json),
    })
}

fn site_json(planned: &Planned<'_>) -> Value {
    let mut fields: Map<String, Value> = place_json(planned.place);
    fields.remove("id");
    fields.insert(
        "reserved".into(),
        planned.registered.shape.reserved().get().into(),
    );
    let more = match &planned.outcome {
        Err(error) => json!({ "why": error.to_string() }),
        Ok(written) => json!({
            "used": written.used.get(),
            "slack": written.slack.get(),
            "before": list(&written.before, Listed::json),
            "after": list(&written.after, Listed::json),
            "stub": written.stub.as_ref().map(|(addr, lines)| json!({
                "address": addr.get(),
                "listing": list(lines, Listed::json),
            })),
            "return_offsets": written.return_offsets,
        }),
    };
    if let Value::Object(more) = more {
        fields.extend(more);
    }
    Value::Object(fields)
}
