//! The command `sites`.

use std::fmt::Write;

use patchpoint::arch::{Convention, SiteKind};
use serde_json::{Map, Value, json};

use crate::args::{Output, Sites};
use crate::files::{Input, Printed};
use crate::image::ImageOrigin;
use crate::json::{self, list};
use crate::lines;
use crate::names::{Listed, listing_text};
use crate::paint::{Paint, Style};
use crate::problem::Problem;
use crate::shapes::{Shapes, Source};
use crate::survey::{Holds, RecordPlace, RecordRow, RecordState, Registered, Survey, kind};
use crate::text;
use crate::words;

pub(crate) fn render(
    sites: &Sites,
    input: &Input<'_>,
    shapes: &Shapes,
    paint: Paint,
) -> Result<Printed, Problem> {
    let survey = Survey::of(input, shapes, sites.code.lines)?;
    Ok(match sites.code.known.format {
        Output::Text => Printed::Text(as_text(&survey, paint)),
        Output::Json => Printed::Json(as_json(&survey)),
    })
}

/// What is said of one.
const STATEPOINT: &str =
    "a statepoint: the offset is where its call returns to, and nothing is reserved there";

/// The first line, and what is wrong with the maps as a whole.
pub(crate) fn heading(survey: &Survey, paint: Paint) -> String {
    let how = match survey.how {
        ImageOrigin::Loaded => "",
        ImageOrigin::Linked => ", as it is linked",
        ImageOrigin::Running => ", as it runs",
        ImageOrigin::Unlinked => {
            ", which the engine does not load: as it is, with no relocation of code applied"
        }
    };
    let file = paint.of(Style::Bold, &survey.file);
    let process = survey.process.map(|pid| format!(" in process {pid}"));
    let process = process.as_deref().unwrap_or("");
    format!("{file}: {}, {}{how}{process}\n", survey.format, survey.arch)
}

fn as_text(survey: &Survey, paint: Paint) -> String {
    let mut out = heading(survey, paint);
    for fault in &survey.faults {
        let fault = paint.of(Style::Red, format!("refused: {fault}"));
        let _ = writeln!(out, "{fault}");
    }
    let mut function = None;
    for row in &survey.rows {
        if function != Some(&row.place.function) {
            let _ = writeln!(out, "\n{}", paint.of(Style::Bold, name(&row.place)));
            function = Some(&row.place.function);
        }
        // Writing to a string does not fail.
        let _ = row_text(&mut out, survey, row, paint);
    }
    let count = |is: fn(&RecordState) -> bool| survey.rows.iter().filter(|row| is(&row.state)).count();
    let _ = writeln!(
        out,
        "\n{}: {} would be registered, {} refused, {} without a length{}",
        words::count_u64(survey.rows.len() as u64, "record"),
        count(|state| matches!(state, RecordState::Registered(_))),
        count(|state| matches!(state, RecordState::Refused(..) | RecordState::Unmatched(_))),
        count(|state| matches!(state, RecordState::NoLength(_))),
        match count(|state| matches!(state, RecordState::Statepoint)) {
            0 => String::new(),
            count => format!(", {}", words::count_u64(count as u64, "statepoint")),
        },
    );
    out
}

fn name(place: &RecordPlace) -> &str {
    match place.function.as_str() {
        "" => "(no name)",
        name => name,
    }
}

fn row_text(out: &mut String, survey: &Survey, row: &RecordRow, paint: Paint) -> std::fmt::Result {
    let id = paint.of(Style::Cyan, row.place.id);
    write!(out, "  record {id} at +{:#x}: ", row.place.offset)?;
    state_text(out, survey, row, paint)?;
    match lines::words(&row.place.source) {
        Some(source) => writeln!(out, "    {:10} {source}", "source"),
        None => Ok(()),
    }
}

fn state_text(out: &mut String, survey: &Survey, row: &RecordRow, paint: Paint) -> std::fmt::Result {
    match &row.state {
        RecordState::Refused(error, _) => {
            writeln!(out, "{}", paint.of(Style::Red, format!("refused: {error}")))
        }
        RecordState::Unmatched(why) => writeln!(out, "{}", paint.of(Style::Red, format!("refused: {why}"))),
        RecordState::Statepoint => writeln!(out, "{}", paint.of(Style::Dim, STATEPOINT)),
        RecordState::NoLength(why) => writeln!(out, "{}", paint.of(Style::Yellow, why)),
        RecordState::NoSite(why) => writeln!(out, "{}", paint.of(Style::Dim, why)),
        RecordState::Registered(registered) => registered_text(out, survey, registered, paint),
    }
}

fn registered_text(
    out: &mut String,
    survey: &Survey,
    registered: &Registered,
    paint: Paint,
) -> std::fmt::Result {
    let (shape, slack) = (registered.shape, registered.slack.get());
    let inferred = match registered.source {
        Source::Told | Source::LengthTold => "",
        Source::Recorded => " recorded",
        Source::Inferred => " inferred",
    };
    let bytes = words::count_u64(shape.reserved().get().into(), "byte");
    writeln!(out, "{}, {bytes}{inferred}, {slack} slack", kind(registered))?;
    let mut line = |title: &str, what: String| writeln!(out, "    {title:10} {what}");
    match registered.holds {
        Holds::Nops => line("holds", "nops".into())?,
        Holds::Instructions => line("holds", "the function's instructions".into())?,
        Holds::Call(target) => {
            // Where there is a name, it may be all that is known.
            let name = survey.names.get(target);
            let name = name.unwrap_or_else(|| target.to_string());
            line("holds", format!("LLVM's call of {name}"))?;
        }
    }
    if !registered.locations.is_empty() {
        let places = registered.locations.iter().map(text::place);
        let places: Vec<_> = places.map(|place| paint.of(Style::Green, place)).collect();
        line("values", places.join(", "))?;
    }
    if !registered.live_outs.is_empty() {
        let names = registered.live_outs.iter().map(text::live_out);
        let names: Vec<_> = names.map(|name| paint.of(Style::Green, name)).collect();
        line("live out", names.join(" "))?;
        if !registered.saved.can_be_trusted() {
            let few = format!(
                "only {} of {} registers that a function keeps for its caller: the others count as live too",
                registered.saved.named, registered.saved.of
            );
            line("", paint.of(Style::Yellow, few))?;
        }
    }
    if !registered.return_offsets.is_empty() {
        let return_offsets: Vec<_> = registered
            .return_offsets
            .iter()
            .map(|return_offset| format!("+{:#x}", registered.site.offset().get() + return_offset))
            .collect();
        line(
            "returns to",
            format!("{}, when the code has run", return_offsets.join(" ")),
        )?;
    }
    if registered.now.is_some() {
        let patched = "other bytes than the file has:".to_owned();
        line("now", paint.of(Style::Yellow, patched))?;
        out.push_str(&listing_text(&now(survey, registered), 15, paint));
    }
    let mut line = |title: &str, what: String| writeln!(out, "    {title:10} {what}");
    match &registered.patchable_jump {
        Ok((offset, len)) => {
            let at = registered.site.offset().get() + offset;
            line("live", format!("patchable jump at +{at:#x}, {len} bytes"))
        }
        Err(_) if shape.kind() == SiteKind::Shadow => line("live", "can be invalidated, by a trap".into()),
        Err(error) => line("live", paint.of(Style::Yellow, format!("no: {error}"))),
    }
}

/// What a process has at a site, where it is not what the file has.
pub(crate) fn now(survey: &Survey, registered: &Registered) -> Vec<Listed> {
    let site = &registered.site;
    let bytes = registered.now.as_deref().unwrap_or(&[]);
    survey.names.listing(survey.arch, site.addr(), bytes, |_| None)
}

fn how(survey: &Survey) -> &'static str {
    match survey.how {
        ImageOrigin::Loaded => "loaded",
        ImageOrigin::Linked => "linked",
        ImageOrigin::Running => "running",
        ImageOrigin::Unlinked => "unlinked",
    }
}

fn as_json(survey: &Survey) -> Value {
    let mut fields = heading_json(survey);
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    put("faults", list(&survey.faults, |fault| fault.to_string().into()));
    put("sites", list(&survey.rows, |row| row_json(survey, row)));
    Value::Object(fields)
}

/// The keys that say what it is about.
pub(crate) fn heading_json(survey: &Survey) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    put("file", survey.file.as_str().into());
    put("format", survey.format.into());
    put("architecture", survey.arch.to_string().into());
    put("how", how(survey).into());
    if let Some(pid) = survey.process {
        put("process", pid.into());
    }
    fields
}

/// The keys that say where a record is.
pub(crate) fn place_json(place: &RecordPlace) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    put("id", place.id.into());
    put("function", place.function.as_str().into());
    put("offset", place.offset.into());
    put("address", place.addr.get().into());
    if !place.source.is_empty() {
        put("source", json::source_lines(&place.source));
    }
    fields
}

fn row_json(survey: &Survey, row: &RecordRow) -> Value {
    let mut fields = place_json(&row.place);
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    let (state, why) = match &row.state {
        RecordState::Registered(_) => ("registered", None),
        RecordState::Refused(error, _) => ("refused", Some(error.to_string())),
        RecordState::NoLength(why) => ("no_length", Some(why.clone())),
        RecordState::Unmatched(why) => ("refused", Some(why.clone())),
        RecordState::NoSite(why) => ("no_site", Some((*why).to_owned())),
        RecordState::Statepoint => ("statepoint", Some(STATEPOINT.to_owned())),
    };
    put("state", state.into());
    if let Some(why) = why {
        put("why", why.into());
    }
    if let RecordState::Registered(registered) = &row.state {
        fields.extend(registered_json(survey, registered));
    }
    Value::Object(fields)
}

fn registered_json(survey: &Survey, registered: &Registered) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    let shape = registered.shape;
    let kind = match registered.may_be_shadow() {
        true => "patchpoint or shadow".to_owned(),
        false => shape.kind().to_string(),
    };
    put("kind", kind.into());
    // Otherwise only the length is known.
    if shape.kind() == SiteKind::Patchpoint && registered.source == Source::Told {
        let anyreg = shape.convention() == Convention::AnyReg;
        put("convention", if anyreg { "anyreg" } else { "c" }.into());
        put("result", shape.has_result().into());
        put("args", shape.arg_count().into());
    }
    put("reserved", shape.reserved().get().into());
    let source = match registered.source {
        Source::Told | Source::LengthTold => "told",
        Source::Recorded => "recorded",
        Source::Inferred => "inferred",
    };
    put("reserved_source", source.into());
    let holds = match registered.holds {
        Holds::Nops => "nops",
        Holds::Call(_) => "call",
        Holds::Instructions => "instructions",
    };
    put("holds", holds.into());
    if let Holds::Call(target) = registered.holds {
        put("target", target.get().into());
        put("target_name", survey.names.get(target).into());
    }
    put("slack", registered.slack.get().into());
    put("return_offsets", registered.return_offsets.as_slice().into());
    match &registered.patchable_jump {
        Ok((offset, len)) => put("patchable_jump", json!({ "offset": offset, "length": len })),
        Err(error) => put("no_patchable_jump", error.to_string().into()),
    };
    put("locations", list(&registered.locations, json::location));
    put("live_outs", list(&registered.live_outs, json::live_out));
    let saved = registered.saved;
    put("callee_saved", json!({ "named": saved.named, "of": saved.of }));
    if registered.now.is_some() {
        put("now", list(&now(survey, registered), Listed::json));
    }
    fields
}
