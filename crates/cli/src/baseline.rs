//! `check --baseline`: two builds side by side. What is new, what is gone, and what has changed of
//! the sites and of what is found in them.
//!
//! Code moves with every build, so a record is known by its function, its ID and its number among
//! those; a finding by its word and the record that it is about.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write;

use serde_json::{Value, json};

use crate::args::{Check, KnownArgs, Output};
use crate::check::{Finding, finding_json, finding_text, findings};
use crate::files::{self, Gathered, Input, Printed};
use crate::json::list;
use crate::paint::{Paint, Style};
use crate::shapes::Shapes;
use crate::sites::place_json;
use crate::survey::{Holds, RecordPlace, RecordRow, RecordState, Registered, Survey, kind};
use crate::words::{count, count_u64};
use crate::{Outcome, text};

/// A file of both builds, or of one of them.
struct Compared<'s> {
    new: Option<&'s Survey>,
    old: Option<&'s Survey>,
    rows: Rows<'s>,
    findings: Findings<'s>,
}

/// Records.
#[derive(Default)]
struct Rows<'s> {
    new: Vec<&'s RecordRow>,
    gone: Vec<&'s RecordRow>,
    changed: Vec<Changed<'s>>,
    /// Nothing but their offset is another.
    moved: usize,
    same: usize,
}

/// A record that both builds have.
struct Changed<'s> {
    row: &'s RecordRow,
    was: &'s RecordPlace,
    changes: Vec<Change>,
}

struct Change {
    what: &'static str,
    before: Value,
    after: Value,
}

struct Findings<'s> {
    new: Vec<Finding<'s>>,
    gone: Vec<Finding<'s>>,
    same: usize,
}

/// What is to be printed, and whether anything was found that is new and counts.
pub(crate) fn compare(check: &Check, paint: Paint) -> Gathered<(Printed, Outcome)> {
    let known = &check.code.known;
    let files = check.code.files.join(", ");
    let before = KnownArgs {
        ir: match check.baseline_ir.is_empty() {
            true => known.ir.clone(),
            false => check.baseline_ir.clone(),
        },
        ..known.clone()
    };
    let (shapes, shapes_before) = match (Shapes::read(known), Shapes::read(&before)) {
        (Ok(shapes), Ok(before)) => (shapes, before),
        (Err(problem), _) | (_, Err(problem)) => return Gathered::wrong(files, problem),
    };
    let survey = |input: &Input<'_>, shapes: &Shapes| Survey::of(input, shapes, check.code.lines);
    let new = files::each(&check.code.files, check.code.pid, |input| survey(input, &shapes));
    let old = files::each(&check.baseline, None, |input| {
        // What was told need not be of the build before.
        let input = Input {
            is_alone: false,
            ..*input
        };
        survey(&input, &shapes_before)
    });
    let mut problems = new.problems;
    if !new.is_alone {
        problems.extend(shapes.check_used().err().map(|problem| (files, problem)));
    }
    problems.extend(old.problems);
    // What cannot be read is neither new nor gone.
    // protection: only-whole-builds-are-compared
    if !problems.is_empty() {
        return Gathered {
            items: Vec::new(),
            problems,
            is_alone: true,
        };
    }
    let compared = pairs(&new.items, &old.items);
    let compared: Vec<_> = compared
        .into_iter()
        .map(|(new, old)| Compared::of(check, new, old))
        .collect();
    let found = compared
        .iter()
        .any(|file| file.findings.new.iter().any(|finding| finding.counts));
    let printed = match known.format {
        Output::Text => {
            let texts: Vec<String> = compared.iter().map(|file| file.text(paint)).collect();
            Printed::Text(texts.join("\n"))
        }
        Output::Json => Printed::Json(json!({ "files": list(&compared, Compared::json) })),
    };
    Gathered {
        items: vec![(printed, if found { Outcome::Found } else { Outcome::Fine })],
        is_alone: true,
        problems,
    }
}

/// The name without folders, of a member of an archive its own.
fn name(file: &str) -> &str {
    let member = file.strip_suffix(')').and_then(|file| file.rsplit_once('('));
    let name = member.map_or(file, |(_, member)| member);
    name.rsplit_once('/').map_or(name, |(_, name)| name)
}

/// Files of both builds that are the same; then those that only the build before has.
fn pairs<'s>(new: &'s [Survey], old: &'s [Survey]) -> Vec<(Option<&'s Survey>, Option<&'s Survey>)> {
    if let ([new], [old]) = (new, old) {
        return vec![(Some(new), Some(old))];
    }
    // Of files with one name, the first with the first.
    let mut by_name: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (number, old) in old.iter().enumerate() {
        by_name.entry(name(&old.file)).or_default().push_back(number);
    }
    let mut left: Vec<Option<&Survey>> = old.iter().map(Some).collect();
    let mut pairs = Vec::new();
    for new in new {
        let same = by_name.get_mut(name(&new.file)).and_then(VecDeque::pop_front);
        let old = same.and_then(|number| left.get_mut(number)?.take());
        pairs.push((Some(new), old));
    }
    pairs.extend(left.into_iter().flatten().map(|old| (None, Some(old))));
    pairs
}

/// What a record is known by in both builds.
type Key<'s> = (&'s str, u64, usize);

/// Records in the order of their addresses, each with its key.
fn keyed(survey: Option<&Survey>) -> Vec<(Key<'_>, &RecordRow)> {
    let mut counts: HashMap<(&str, u64), usize> = HashMap::new();
    let rows = survey.map_or(&[][..], |survey| &survey.rows);
    let keyed = rows.iter().map(|row| {
        let (function, id) = (row.place.function.as_str(), row.place.id);
        let number = counts.entry((function, id)).or_insert(0);
        *number += 1;
        ((function, id, *number), row)
    });
    keyed.collect()
}

impl<'s> Compared<'s> {
    fn of(check: &Check, new: Option<&'s Survey>, old: Option<&'s Survey>) -> Self {
        Self {
            new,
            old,
            rows: Rows::of(new, old),
            findings: Findings::of(check, new, old),
        }
    }

    fn text(&self, paint: Paint) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut out, paint);
        out
    }

    fn write(&self, out: &mut String, paint: Paint) -> std::fmt::Result {
        let file = |survey: Option<&Survey>| survey.map(|survey| paint.of(Style::Bold, &survey.file));
        match (file(self.new), file(self.old)) {
            (Some(new), Some(old)) => writeln!(out, "{new} against {old}")?,
            (Some(new), None) => writeln!(out, "{new}, which the build before has not")?,
            (None, Some(old)) => writeln!(out, "{old}, which this build has not")?,
            (None, None) => {}
        }
        let rows = &self.rows;
        let whole = |out: &mut String, title: &str, rows: &[&RecordRow]| {
            rows.iter().try_for_each(|row| {
                let id = paint.of(Style::Cyan, row.place.id);
                writeln!(out, "  {title:7} record {id} at {}: {}", row.place, state(row))
            })
        };
        whole(out, "new", &rows.new)?;
        whole(out, "gone", &rows.gone)?;
        for changed in &rows.changed {
            let place = &changed.row.place;
            let id = paint.of(Style::Cyan, place.id);
            writeln!(
                out,
                "  changed record {id} at {place}, which was at +{:#x}",
                changed.was.offset
            )?;
            for change in &changed.changes {
                let what = change.what.replace('_', " ");
                let (before, after) = (plain(&change.before), plain(&change.after));
                writeln!(
                    out,
                    "          {what}: {before} -> {}",
                    paint.of(Style::Green, after)
                )?;
            }
        }
        for (title, findings) in [("new", &self.findings.new), ("gone", &self.findings.gone)] {
            for finding in findings {
                writeln!(out, "  {title:7} {}", finding_text(finding, paint))?;
            }
        }
        let counted = |findings: &[Finding<'_>]| findings.iter().filter(|finding| finding.counts).count();
        let found = counted(&self.findings.new);
        let records = rows.new.len() + rows.changed.len() + rows.moved + rows.same;
        writeln!(
            out,
            "{}: {} new, {} gone, {} changed, {} moved, {} the same; {}, {} gone",
            count(records, "record"),
            rows.new.len(),
            rows.gone.len(),
            rows.changed.len(),
            rows.moved,
            rows.same,
            match found {
                0 => paint.of(Style::Green, "no new finding"),
                _ => paint.of(Style::Red, count(found, "new finding")),
            },
            counted(&self.findings.gone),
        )
    }

    fn json(&self) -> Value {
        let rows = &self.rows;
        let places = |rows: &[&RecordRow]| list(rows, |row| place_json(&row.place).into());
        let changed = |changed: &Changed<'_>| {
            let mut fields = place_json(&changed.row.place);
            let was = json!({ "offset": changed.was.offset, "address": changed.was.addr.get() });
            fields.insert("was".into(), was);
            let change = |change: &Change| json!({ "what": change.what, "before": change.before, "after": change.after });
            fields.insert("changes".into(), list(&changed.changes, change));
            Value::Object(fields)
        };
        json!({
            "file": self.new.map(|survey| survey.file.as_str()),
            "baseline": self.old.map(|survey| survey.file.as_str()),
            "records": self.new.map_or(0, |survey| survey.rows.len()),
            "sites": self.new.map_or(0, |survey| survey.module.sites().count()),
            "new": places(&rows.new),
            "gone": places(&rows.gone),
            "changed": list(&rows.changed, changed),
            "moved": rows.moved,
            "same": rows.same,
            "findings": {
                "new": list(&self.findings.new, finding_json),
                "gone": list(&self.findings.gone, finding_json),
                "same": self.findings.same,
            },
        })
    }
}

/// Text without its quotation marks.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl<'s> Rows<'s> {
    fn of(new: Option<&'s Survey>, old: Option<&'s Survey>) -> Self {
        let mut found = Self::default();
        let before: HashMap<Key<'_>, &RecordRow> = keyed(old).into_iter().collect();
        let mut both = HashSet::new();
        for (key, row) in keyed(new) {
            let Some(was) = before.get(&key) else {
                found.new.push(row);
                continue;
            };
            both.insert(key);
            let changes = match (new, old) {
                (Some(new), Some(old)) => changes((old, was), (new, row)),
                _ => Vec::new(),
            };
            match changes.is_empty() {
                true if was.place.offset == row.place.offset => found.same += 1,
                true => found.moved += 1,
                false => found.changed.push(Changed {
                    row,
                    was: &was.place,
                    changes,
                }),
            }
        }
        let gone = keyed(old).into_iter().filter(|(key, _)| !both.contains(key));
        found.gone = gone.map(|(_, row)| row).collect();
        found
    }
}

/// What becomes of a record, without addresses.
fn state(row: &RecordRow) -> String {
    match &row.state {
        RecordState::Registered(registered) => {
            let bytes = count_u64(registered.shape.reserved().get().into(), "byte");
            format!("{}, {bytes}, {} slack", kind(registered), registered.slack)
        }
        _ => word(row).to_owned(),
    }
}

fn word(row: &RecordRow) -> &'static str {
    match &row.state {
        RecordState::Registered(_) => "registered",
        RecordState::Refused(..) | RecordState::Unmatched(_) => "refused",
        RecordState::NoLength(_) => "without a length",
        RecordState::NoSite(_) => "no site",
        RecordState::Statepoint => "a statepoint",
    }
}

/// What is another of a record than before, each with its file.
fn changes(before: (&Survey, &RecordRow), after: (&Survey, &RecordRow)) -> Vec<Change> {
    let (was, is) = match (&before.1.state, &after.1.state) {
        (RecordState::Registered(was), RecordState::Registered(is)) => (was, is),
        _ => {
            let states = [("state", word(before.1).into(), word(after.1).into())];
            return states.into_iter().filter_map(change).collect();
        }
    };
    let both = |value: fn(&Registered) -> Value| (value(was), value(is));
    let pair = |what, (before, after): (Value, Value)| change((what, before, after));
    [
        pair("kind", both(|site| kind(site).into())),
        pair("reserved", both(|site| site.shape.reserved().get().into())),
        pair("slack", both(|site| site.slack.get().into())),
        pair("holds", (holds(before.0, was), holds(after.0, is))),
        pair("values", both(values)),
        pair("live_outs", both(live_outs)),
        pair(
            "return_offsets",
            both(|site| site.return_offsets.as_slice().into()),
        ),
        pair("patchable_jump", both(patchable_jump)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn change((what, before, after): (&'static str, Value, Value)) -> Option<Change> {
    (before != after).then_some(Change { what, before, after })
}

fn holds(survey: &Survey, site: &Registered) -> Value {
    match site.holds {
        Holds::Nops => "nops".into(),
        Holds::Instructions => "instructions".into(),
        Holds::Call(target) => {
            let name = survey.names.get(target).unwrap_or_else(|| target.to_string());
            format!("a call of {name}").into()
        }
    }
}

fn values(site: &Registered) -> Value {
    let places: Vec<String> = site.locations.iter().map(text::place).collect();
    places.join(", ").into()
}

fn live_outs(site: &Registered) -> Value {
    let names: Vec<String> = site.live_outs.iter().map(text::live_out).collect();
    names.join(" ").into()
}

fn patchable_jump(site: &Registered) -> Value {
    match &site.patchable_jump {
        Ok((offset, len)) => format!("at {offset}, {}", count_u64(*len, "byte")).into(),
        Err(_) => "none".into(),
    }
}

impl<'s> Findings<'s> {
    fn of(check: &Check, new: Option<&'s Survey>, old: Option<&'s Survey>) -> Self {
        let of = |survey: Option<&'s Survey>| survey.map_or_else(Vec::new, |survey| findings(check, survey));
        let (new, old) = (of(new), of(old));
        let mut before: HashMap<String, usize> = HashMap::new();
        for finding in &old {
            *before.entry(known_by(finding)).or_insert(0) += 1;
        }
        let mut left = before.clone();
        let mut same = 0;
        let new: Vec<_> = new
            .into_iter()
            .filter(|finding| match left.get_mut(&known_by(finding)) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    same += 1;
                    false
                }
                _ => true,
            })
            .collect();
        let gone = old
            .into_iter()
            .rev()
            .filter(|finding| match left.get_mut(&known_by(finding)) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    true
                }
                _ => false,
            });
        let mut gone: Vec<_> = gone.collect();
        gone.reverse();
        Self { new, gone, same }
    }
}

/// What a finding is known by in both builds.
fn known_by(finding: &Finding<'_>) -> String {
    match finding.place {
        Some(place) => format!("{} {} {}", finding.what, place.id, place.function),
        // Their messages may hold addresses, which are others in each build.
        None => format!("{} {}", finding.what, without_numbers(&finding.message)),
    }
}

fn without_numbers(message: &str) -> String {
    let words = message.split_whitespace();
    let words: Vec<_> = words.filter(|word| !word.contains("0x")).collect();
    words.join(" ")
}
