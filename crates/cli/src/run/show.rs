//! How it is told.

use std::fmt::Write;

use patchpoint::engine::Status;
use serde_json::{Value, json};

use super::{Called, Event, SiteContent, Story};
use crate::args::Argument;
use crate::json::list;
use crate::names::{Listed, listing_text};
use crate::paint::{Paint, Style};
use crate::sites::place_json;
use crate::words;

pub(super) fn as_text(story: &Story<'_>, paint: Paint) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_story(&mut out, story, paint);
    out
}

fn write_story(out: &mut String, story: &Story<'_>, paint: Paint) -> std::fmt::Result {
    let call = format!("{}({})", story.run.call, arguments(story));
    if let Some(before) = &story.before {
        write_call(out, &call, story, before, paint)?;
    }
    for change in &story.changes {
        let sites = words::count_u64(change.sites as u64, "site");
        writeln!(out, "{} ({sites})", paint.of(Style::Cyan, &change.what))?;
    }
    if let Some(after) = &story.after {
        write_call(out, &call, story, after, paint)?;
    }
    for held in &story.sites {
        let status = paint.of(Style::Green, status(held.status));
        let reserved = words::count_u64(held.reserved.into(), "byte");
        let id = paint.of(Style::Cyan, held.place.id);
        writeln!(out, "\nrecord {id} at {}, {reserved}: {status}", held.place)?;
        out.push_str(&listing_text(&held.listing, 2, paint));
    }
    Ok(())
}

fn write_call(
    out: &mut String,
    call: &str,
    story: &Story<'_>,
    called: &Result<Called, String>,
    paint: Paint,
) -> std::fmt::Result {
    let called = match called {
        Ok(called) => called,
        Err(why) => {
            return writeln!(
                out,
                "{call} {}",
                paint.of(Style::Yellow, format!("not called: {why}"))
            );
        }
    };
    let result = paint.of(Style::Bold, number(called.result));
    writeln!(out, "{call} = {result}")?;
    for (index, (array, argument)) in called.arrays.iter().zip(&story.run.args.0).enumerate() {
        match (array, argument) {
            (Some(words), Argument::Words(before)) if words != before => {
                writeln!(out, "  argument {index} is then {}", words_text(words))?;
            }
            _ => {}
        }
    }
    for event in &called.events {
        let what = paint.of(Style::Yellow, event.what);
        let place = format!("{}+{:#x}", event.function, event.offset);
        let values = event.values.join(", ");
        writeln!(out, "  {what} at record {}, {place}; values: {values}", event.id)?;
    }
    Ok(())
}

/// As a person may want to see it: small ones as they are, others in hexadecimal too.
fn number(value: u64) -> String {
    match value as i64 {
        small @ -9..=9 => small.to_string(),
        signed => format!("{signed} ({value:#x})"),
    }
}

fn arguments(story: &Story<'_>) -> String {
    let argument = |argument: &Argument| match argument {
        Argument::Number(number) => (*number as i64).to_string(),
        Argument::Words(words) => words_text(words),
    };
    let arguments: Vec<_> = story.run.args.0.iter().map(argument).collect();
    arguments.join(", ")
}

fn words_text(words: &[u64]) -> String {
    let words: Vec<_> = words.iter().map(|word| (*word as i64).to_string()).collect();
    format!("[{}]", words.join(", "))
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Original => "original",
        Status::Patched => "patched",
        Status::Invalidated => "invalidated",
        Status::Redirected => "redirected",
        Status::Lost => "lost",
        _ => "unknown",
    }
}

pub(super) fn as_json(story: &Story<'_>) -> Value {
    let calls = [("before", story.before.as_ref()), ("after", story.after.as_ref())];
    let calls = calls
        .iter()
        .filter_map(|(when, called)| Some(call_json(story, when, (*called)?)));
    json!({
        "file": story.run.file,
        "function": story.run.call,
        "calls": calls.collect::<Vec<_>>(),
        "changes": list(&story.changes, |change| json!({ "what": change.what, "sites": change.sites })),
        "sites": list(&story.sites, held_json),
    })
}

fn call_json(story: &Story<'_>, when: &str, called: &Result<Called, String>) -> Value {
    let argument = |argument: &Argument| match argument {
        Argument::Number(number) => json!(number),
        Argument::Words(words) => json!(words),
    };
    let args = list(&story.run.args.0, argument);
    match called {
        Err(why) => json!({ "when": when, "args": args, "why": why }),
        Ok(called) => json!({
            "when": when,
            "args": args,
            "result": called.result,
            "arrays": called.arrays,
            "events": list(&called.events, event_json),
        }),
    }
}

fn event_json(event: &Event) -> Value {
    json!({
        "what": event.what,
        "id": event.id,
        "function": event.function,
        "offset": event.offset,
        "values": event.values,
    })
}

fn held_json(held: &SiteContent) -> Value {
    let mut fields = place_json(&held.place);
    fields.insert("reserved".into(), held.reserved.into());
    fields.insert("status".into(), status(held.status).into());
    fields.insert("listing".into(), list(&held.listing, Listed::json));
    Value::Object(fields)
}
