//! What the tool says of an object, and whether it is so.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::json::Value;
use super::write::{Shape, Written};
use super::{Tally, Workspace};

/// A record in what `patchpoint sites` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordRow {
    pub(super) id: u64,
    function: String,
    offset: u64,
    pub(super) state: String,
    why: String,
    shape: Option<Shape>,
}

impl RecordRow {
    pub(super) fn place(&self) -> (&str, u64) {
        (&self.function, self.offset)
    }
}

/// The records of an object.
pub(super) fn rows(place: &Workspace, object: &Path, more: &[&str]) -> Vec<RecordRow> {
    let output = Command::new(&place.tool)
        .args(["sites", &object.to_string_lossy(), "--format", "json"])
        .args(more)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", place.tool.display()));
    let text = String::from_utf8_lossy(&output.stdout);
    let value = Value::read(&text).unwrap_or_else(|| panic!("{output:?}"));
    if let Some(error) = value.get("error").text() {
        // All functions were removed with their calls.
        assert!(
            error.starts_with("has no stack map"),
            "{}: {error}",
            object.display()
        );
        return Vec::new();
    }
    assert!(output.status.success(), "{output:?}");
    assert!(value.get("faults").list().is_empty(), "{value:?}");
    value.get("sites").list().iter().map(row).collect()
}

fn row(site: &Value) -> RecordRow {
    let number = |key: &str| {
        let number = site.get(key).number();
        number.unwrap_or_else(|| panic!("{key} of {site:?}"))
    };
    let text = |key: &str| site.get(key).text().unwrap_or_default().to_owned();
    let small = |key: &str| number(key) as u32;
    let shape = (text("state") == "registered").then(|| match text("kind").as_str() {
        "shadow" => Shape::Shadow(small("reserved")),
        // Without a convention it is inferred: that is no shape of the IR.
        _ if text("convention").is_empty() => Shape::Other("inferred".to_owned()),
        _ => Shape::Patchpoint {
            any_reg: text("convention") == "anyreg",
            bytes: small("reserved"),
            result: *site.get("result") == Value::Bool(true),
            args: small("args"),
        },
    });
    RecordRow {
        id: number("id"),
        function: text("function"),
        offset: number("offset"),
        state: text("state"),
        why: text("why"),
        shape,
    }
}

/// Compares what is said of each record with its call. Those of one ID at one address are compared
/// as a set: the tool does not print which of them is which.
pub(super) fn compare(
    written: &Written,
    truth: &[(RecordRow, usize)],
    said: &[RecordRow],
    what: &str,
    tally: &mut Tally,
) {
    type RecordGroup<'a> = (Vec<&'a Shape>, Vec<&'a RecordRow>);
    let mut groups: BTreeMap<(u64, &str, u64), RecordGroup<'_>> = BTreeMap::new();
    for (row, call) in truth {
        let call = &written.calls[*call];
        let key = (call.id as u64, row.function.as_str(), row.offset);
        groups.entry(key).or_default().0.push(&call.shape);
    }
    for row in said {
        let key = (row.id, row.function.as_str(), row.offset);
        groups.entry(key).or_default().1.push(row);
    }
    for ((id, ..), (mut shapes, rows)) in groups {
        let several = written.has_several(id);
        if shapes.len() != rows.len() {
            tally.wrong.push(format!("{what}: {rows:?} for {shapes:?}"));
            continue;
        }
        // What is refused fits any of them: last.
        let (refused, sure): (Vec<&RecordRow>, Vec<&RecordRow>) =
            rows.into_iter().partition(|row| row.state == "refused");
        for row in sure {
            tally.doubtful += usize::from(several);
            let fits = |shape: &&Shape| match row.state.as_str() {
                "registered" => row.shape.as_ref() == Some(*shape),
                "statepoint" => **shape == Shape::Statepoint,
                "no_site" => shape.bytes() == Some(0),
                _ => false,
            };
            match shapes.iter().position(fits) {
                Some(at) => {
                    tally.right += 1;
                    tally.registered += usize::from(row.state == "registered");
                    tally.statepoints += usize::from(row.state == "statepoint");
                    shapes.remove(at);
                }
                None => tally.wrong.push(format!("{what}: {row:?} is one of {shapes:?}")),
            }
        }
        for row in refused {
            tally.doubtful += usize::from(several);
            let count = match row.why.as_str() {
                why if why.contains("several calls") => &mut tally.ambiguous,
                why if why.contains("with the convention") => &mut tally.conventions,
                // The IR is that of the object.
                why if why.starts_with("the IR") || why.starts_with("the record is") => {
                    tally.wrong.push(format!("{what}: {row:?} is one of {shapes:?}"));
                    continue;
                }
                _ => &mut tally.refused,
            };
            *count += 1;
        }
    }
}
