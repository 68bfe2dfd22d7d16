//! How it is told.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::Story;
use super::check::{Check, Outcome};
use crate::json::list;
use crate::paint::{Paint, Style};
use crate::words;

pub(super) fn as_text(story: &Story<'_>, paint: Paint) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_story(&mut out, story, paint);
    out
}

fn write_story(out: &mut String, story: &Story<'_>, paint: Paint) -> std::fmt::Result {
    if story.status.is_some() {
        // What the program has printed is all.
        return Ok(());
    }
    if story.link.noexec {
        write_map(out, story, paint)?;
    }
    let (mut all, mut failed) = (0, 0);
    for (file, check, outcome) in outcomes(story) {
        all += 1;
        if let Some((place, why)) = failure(file, check, outcome) {
            failed += 1;
            writeln!(out, "{}: {why}", paint.of(Style::Red, place))?;
        }
    }
    let checks = words::count_u64(all, "check");
    match failed {
        _ if all == 0 => Ok(()),
        0 => writeln!(out, "{checks}: {}", paint.of(Style::Green, "all hold")),
        _ => writeln!(
            out,
            "{checks}: {}",
            paint.of(Style::Red, format!("{failed} failed"))
        ),
    }
}

/// Where everything is.
fn write_map(out: &mut String, story: &Story<'_>, paint: Paint) -> std::fmt::Result {
    let linked = &story.linked;
    let files = words::count_u64(story.link.files.len() as u64, "file");
    writeln!(out, "{files}, {}", linked.arch)?;
    let mut symbols = linked.symbols.iter().peekable();
    for (kind, addr, size) in &linked.segments {
        let size = *size as u64;
        let bytes = words::count_u64(size, "byte");
        writeln!(out, "{addr}  {}, {bytes}", paint.of(Style::Bold, kind))?;
        let end = addr.get().saturating_add(size);
        while let Some((at, name)) = symbols.next_if(|(at, _)| at.get() < end) {
            // Those before the segment are absolute.
            writeln!(out, "{at}    {}", paint.of(Style::Cyan, name))?;
        }
    }
    Ok(())
}

fn outcomes<'s>(story: &'s Story<'_>) -> impl Iterator<Item = (&'s str, &'s Check, &'s Outcome)> {
    let files = story.checks.iter().zip(&story.linked.outcomes);
    files.flat_map(|(of_file, outcomes)| {
        let checks = of_file.checks.iter().zip(outcomes);
        checks.map(|(check, outcome)| (of_file.file.as_str(), check, outcome))
    })
}

/// Where and why a check fails, if it does.
fn failure(file: &str, check: &Check, outcome: &Outcome) -> Option<(String, String)> {
    match outcome {
        Outcome::Holds(_) => None,
        Outcome::Differs(left, right) => {
            let why = format!("`{}` is false: {left:#x} is not {right:#x}", check.text());
            Some((format!("{file}:{}", check.line()), why))
        }
        Outcome::Wrong(wrong) => {
            let place = check.place(wrong.at);
            let why = format!("`{}`: {}", check.text(), wrong.why);
            Some((format!("{file}:{}:{}", place.line, place.column), why))
        }
    }
}

pub(super) fn as_json(story: &Story<'_>) -> Value {
    let linked = &story.linked;
    let checks: Vec<_> = outcomes(story).collect();
    let mut value = json!({
        "files": story.link.files,
        "architecture": linked.arch.to_string(),
        "segments": list(&linked.segments, |(kind, addr, size)| json!({
            "kind": kind.to_string(),
            "address": addr.get(),
            "size": size,
        })),
        "symbols": list(&linked.symbols, |(addr, name)| json!({ "name": name, "address": addr.get() })),
        "checks": list(&checks, |(file, check, outcome)| check_json(file, check, outcome)),
    });
    if let (Some(status), Some(fields)) = (story.status, value.as_object_mut()) {
        fields.insert("entry".into(), story.link.entry.as_str().into());
        fields.insert("status".into(), status.into());
    }
    value
}

fn check_json(file: &str, check: &Check, outcome: &Outcome) -> Value {
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    put("file", file.into());
    put("line", check.line().into());
    put("text", check.text().into());
    let (word, left, right) = match outcome {
        Outcome::Holds(value) => ("holds", value, value),
        Outcome::Differs(left, right) => ("differs", left, right),
        Outcome::Wrong(wrong) => {
            let place = check.place(wrong.at);
            put("outcome", "wrong".into());
            put("line", place.line.into());
            put("column", place.column.into());
            put("message", wrong.why.to_string().into());
            return Value::Object(fields);
        }
    };
    put("outcome", word.into());
    put("left", (*left).into());
    put("right", (*right).into());
    Value::Object(fields)
}
