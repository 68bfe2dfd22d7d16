//! The command `check`.

use std::fmt::Write;

use patchpoint::arch::{Arch, SiteKind};
use patchpoint::site::Error;
use serde_json::{Map, Value};

use crate::args::{Check, Output};
use crate::files::{Input, Printed};
use crate::json::list;
use crate::lines;
use crate::paint::{Paint, Style};
use crate::problem::Problem;
use crate::shapes::Shapes;
use crate::sites::{heading, heading_json, place_json};
use crate::survey::{Holds, RecordPlace, RecordRow, RecordState, Registered, Survey};
use crate::words;

/// Something that was found.
pub(crate) struct Finding<'s> {
    /// One of the words of the help text.
    pub(crate) what: &'static str,
    /// Whether it makes the exit status 1.
    pub(crate) counts: bool,
    pub(crate) place: Option<&'s RecordPlace>,
    pub(crate) message: String,
}

/// What is to be printed, and whether anything was found that counts.
pub(crate) fn render(
    check: &Check,
    input: &Input<'_>,
    shapes: &Shapes,
    paint: Paint,
) -> Result<(Printed, bool), Problem> {
    let survey = Survey::of(input, shapes, check.code.lines)?;
    let findings = findings(check, &survey);
    let found = findings.iter().any(|finding| finding.counts);
    let printed = match check.code.known.format {
        Output::Text => Printed::Text(as_text(&survey, &findings, paint)),
        Output::Json => Printed::Json(as_json(&survey, &findings)),
    };
    Ok((printed, found))
}

pub(crate) fn findings<'s>(check: &Check, survey: &'s Survey) -> Vec<Finding<'s>> {
    let mut findings: Vec<Finding<'_>> = survey
        .faults
        .iter()
        .map(|fault| Finding {
            what: "function",
            counts: true,
            place: None,
            message: fault.to_string(),
        })
        .collect();
    let unused = survey.unused.iter().map(|message| Finding {
        what: "unused",
        counts: false,
        place: None,
        message: message.clone(),
    });
    findings.extend(unused);
    if survey.untold {
        findings.extend(untold(survey));
    }
    for row in &survey.rows {
        of_row(check, survey, row, |what, counts, message| {
            findings.push(Finding {
                what,
                counts,
                place: Some(&row.place),
                message,
            });
        });
    }
    findings
}

/// Where nothing was told, what all the records lack is said once.
fn untold(survey: &Survey) -> Vec<Finding<'static>> {
    let count = |is: fn(&RecordState) -> bool| survey.rows.iter().filter(|row| is(&row.state)).count() as u64;
    let missing = count(|state| matches!(state, RecordState::NoLength(_)));
    let guessed =
        count(|state| matches!(state, RecordState::Registered(registered) if registered.may_be_shadow()));
    let finding = |what, counts, message| Finding {
        what,
        counts,
        place: None,
        message,
    };
    let mut found = Vec::new();
    if guessed > 0 {
        let guessed = words::count_u64(guessed, "record");
        let message = format!("taken for patchpoints by their nops, and may be shadows: {guessed}");
        found.push(finding("inferred", false, message));
    }
    if missing > 0 {
        let all = words::count_u64(survey.rows.len() as u64, "record");
        let message = format!(
            "nothing tells the length of {missing} of {all}: give --ir FILE, the IR that the file was compiled from, or --shape \
             ID=SHAPE"
        );
        found.push(finding("no-length", true, message));
    }
    found
}

fn of_row(
    check: &Check,
    survey: &Survey,
    row: &RecordRow,
    mut found: impl FnMut(&'static str, bool, String),
) {
    match &row.state {
        RecordState::NoSite(_) | RecordState::Statepoint => {}
        RecordState::NoLength(_) if survey.untold => {}
        RecordState::NoLength(why) => found("no-length", true, why.clone()),
        RecordState::Unmatched(why) => found("unmatched", true, why.clone()),
        RecordState::Refused(error, kind) => found(refused(error, *kind), true, error.to_string()),
        RecordState::Registered(registered) => {
            if let Some(message) = link_register(survey, registered) {
                found("link-register", true, message);
            }
            if registered.may_be_shadow() && !survey.untold {
                let bytes = words::count_u64(registered.shape.reserved().get().into(), "byte");
                let message =
                    format!("taken for a patchpoint of {bytes} by its nops, and may be a shadow: tell it");
                found("inferred", false, message);
            }
            if registered.now.is_some() {
                let message = "the process has other bytes there than its file: it is patched".to_owned();
                found("patched", false, message);
            }
            let patchpoint = registered.shape.kind() == SiteKind::Patchpoint;
            if let Err(error) = registered
                .patchable_jump
                .as_ref()
                .map_err(|error| error.to_string())
            {
                if patchpoint {
                    found("no-patchable-jump", check.live, error);
                }
            }
            // Where there are none at all nobody expects anything of them.
            let speaks = check.trust_live_outs || !registered.live_outs.is_empty();
            if patchpoint && speaks && !registered.saved.can_be_trusted() {
                let saved = registered.saved;
                let message = format!(
                    "live-outs name {} of {} registers that a function keeps for its caller, as older LLVMs write them: \
                     do not trust them",
                    saved.named, saved.of
                );
                found("live-outs", check.trust_live_outs, message);
            }
        }
    }
}

fn refused(error: &Error, kind: Option<SiteKind>) -> &'static str {
    match error {
        Error::SiteOutsideFunction { .. } | Error::SiteOverlapsRecord { .. }
            if kind == Some(SiteKind::Shadow) =>
        {
            "short-shadow"
        }
        Error::SiteOutsideFunction { .. } | Error::SiteOverlapsRecord { .. } | Error::SitesOverlap { .. } => {
            "overlap"
        }
        Error::NotLlvmPatchpoint { .. } | Error::SiteUndecodable { .. } => "not-patchpoint",
        Error::ReservedLengthAmbiguous { .. } => "no-length",
        Error::RecordOutsideFunction { .. } => "record-outside",
        Error::RecordOverflowed { .. } => "record-overflow",
        Error::TooFewLocations { .. } | Error::ResultNotRegister { .. } => "shape",
        _ => "refused",
    }
}

/// LLVM for RISC-V calls through ra at a patchpoint and does not save it.
fn link_register(survey: &Survey, registered: &Registered) -> Option<String> {
    let call = matches!(registered.holds, Holds::Call(_)) && survey.arch == Arch::RiscV64;
    let live = registered.live_outs.iter().any(|live| live.reg.get() == 1);
    (call && live).then(|| {
        "LLVM's call overwrites ra, which is live out: patch it before the code runs, or make the function save ra"
            .to_owned()
    })
}

/// A finding in one line.
pub(crate) fn finding_text(finding: &Finding<'_>, paint: Paint) -> String {
    let style = if finding.counts { Style::Red } else { Style::Yellow };
    let what = match finding.counts {
        true => format!("[{}]", finding.what),
        false => format!("note [{}]", finding.what),
    };
    // An error of the library's names its place itself.
    let place = finding
        .place
        .map(|place| format!("record {} at {place}", place.id))
        .filter(|place| !finding.message.contains(place.as_str()))
        .map_or(String::new(), |place| format!("{place}: "));
    let source = finding.place.and_then(|place| lines::words(&place.source));
    let source = source.map_or(String::new(), |source| format!(" ({source})"));
    format!("{} {place}{}{source}", paint.of(style, what), finding.message)
}

fn as_text(survey: &Survey, findings: &[Finding<'_>], paint: Paint) -> String {
    let mut out = heading(survey, paint);
    for finding in findings {
        let _ = writeln!(out, "{}", finding_text(finding, paint));
    }
    let counted = findings.iter().filter(|finding| finding.counts).count();
    let _ = writeln!(
        out,
        "{}, {}: {}",
        words::count_u64(survey.rows.len() as u64, "record"),
        words::count_u64(survey.module.sites().count() as u64, "site"),
        match counted {
            0 => paint.of(Style::Green, "nothing found"),
            _ => paint.of(Style::Red, words::count_u64(counted as u64, "finding")),
        }
    );
    out
}

fn as_json(survey: &Survey, findings: &[Finding<'_>]) -> Value {
    let mut fields = heading_json(survey);
    fields.insert("records".into(), survey.rows.len().into());
    fields.insert("sites".into(), survey.module.sites().count().into());
    fields.insert("findings".into(), list(findings, finding_json));
    Value::Object(fields)
}

pub(crate) fn finding_json(finding: &Finding<'_>) -> Value {
    let mut fields = Map::new();
    fields.insert("what".into(), finding.what.into());
    fields.insert("counts".into(), finding.counts.into());
    fields.extend(finding.place.map(place_json).into_iter().flatten());
    fields.insert("message".into(), finding.message.as_str().into());
    Value::Object(fields)
}
