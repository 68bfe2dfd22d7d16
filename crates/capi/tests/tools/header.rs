//! The functions that the header declares.

use std::collections::BTreeSet;
use std::fs;

use super::root;

/// A function of the interface.
pub(crate) struct Declared {
    pub(crate) name: String,
    /// Each with its type and its name, as `const pp_engine *engine`.
    pub(crate) parameters: Vec<String>,
    /// What it returns.
    pub(crate) returns: String,
    /// The comment before it.
    pub(crate) comment: String,
}

pub(crate) fn text() -> String {
    fs::read_to_string(root().join("include/patchpoint.h")).unwrap()
}

/// The functions in their order: what begins a line outside of comments and braces, and has `pp_name(`.
pub(crate) fn declared() -> Vec<Declared> {
    let text = text();
    let library = text.split("/* What follows makes values").next().unwrap();
    let mut found = Vec::new();
    let (mut comment, mut statement) = (String::new(), String::new());
    for line in library.lines() {
        if let Some(said) = line.strip_prefix("//") {
            if statement.is_empty() {
                comment += said;
                comment.push('\n');
                continue;
            }
        }
        let begins = !line.starts_with([' ', '#', '/', '}']) && !line.is_empty();
        if begins || !statement.is_empty() {
            statement += line;
            statement.push(' ');
        }
        if line.ends_with(['{', '}']) {
            statement.clear();
        }
        if line.ends_with(';') || line.is_empty() {
            found.extend(function(&statement, &comment));
            statement.clear();
            comment.clear();
        }
    }
    assert!(
        found.len() > 150,
        "{} functions: is the header read right?",
        found.len()
    );
    found
}

fn function(statement: &str, comment: &str) -> Option<Declared> {
    if statement.starts_with("typedef") {
        return None;
    }
    let (before, parameters) = statement.trim().strip_suffix(");")?.split_once('(')?;
    let at = before
        .rfind(|c: char| !c.is_alphanumeric() && c != '_')
        .map_or(0, |at| at + 1);
    let (returns, name) = before.split_at(at);
    name.starts_with("pp_").then(|| Declared {
        name: name.into(),
        parameters: parameters
            .split(',')
            .map(|parameter| parameter.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|parameter| parameter != "void")
            .collect(),
        returns: returns.trim().into(),
        comment: comment.into(),
    })
}

/// The structures that begin with their size.
pub(crate) fn growing() -> BTreeSet<String> {
    let text = text();
    let structures = text.split("typedef struct {").skip(1);
    let structures = structures.filter_map(|body| {
        let (body, after) = body.split_once("\n} ")?;
        let first = body
            .lines()
            .find(|line| !line.trim().is_empty() && !line.trim().starts_with("//"))?;
        (first.trim() == "size_t size;").then(|| after.split(';').next().unwrap().to_owned())
    });
    structures.collect()
}
