//! Where the checks of a file are.

/// A check as it is in a file: all of it, its lines joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::link) struct Check {
    text: String,
    /// Where in the text each of its lines begins, and its place there. There is at least one.
    pieces: Vec<(usize, TextPosition)>,
}

/// A place in a file; both count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::link) struct TextPosition {
    pub(in crate::link) line: usize,
    pub(in crate::link) column: usize,
}

impl Check {
    /// The equation.
    pub(in crate::link) fn text(&self) -> &str {
        &self.text
    }

    /// The line on which it begins.
    pub(in crate::link) fn line(&self) -> usize {
        self.place(0).line
    }

    /// Where a byte of the text is in the file.
    pub(in crate::link) fn place(&self, at: usize) -> TextPosition {
        let piece = self.pieces.iter().rev().find(|(start, _)| *start <= at);
        let (start, place) = piece.copied().unwrap_or((0, TextPosition { line: 1, column: 1 }));
        TextPosition {
            line: place.line,
            column: place.column + at.saturating_sub(start),
        }
    }
}

/// All checks under these names. One goes on where its line ends with a backslash, on the next line
/// that has the name, too, as in LLVM.
pub(super) fn find(text: &str, names: &[&str]) -> Vec<Check> {
    let mut found = Vec::new();
    let mut open: Option<Check> = None;
    for (line, number) in text.lines().zip(1..) {
        let Some((column, rest)) = said(line, names) else {
            // What should go on and does not is wrong as it is.
            // protection: a-check-that-is-cut-off-is-wrong
            found.extend(open.take());
            continue;
        };
        let body = rest.trim();
        let (body, goes_on) = body.strip_suffix('\\').map_or((body, false), |body| (body, true));
        let check = open.get_or_insert_with(|| Check {
            text: String::new(),
            pieces: Vec::new(),
        });
        let place = TextPosition {
            line: number,
            column: column + (rest.len() - rest.trim_start().len()) + 1,
        };
        check.pieces.push((check.text.len(), place));
        check.text.push_str(body);
        if !goes_on {
            found.extend(open.take());
        }
    }
    found.extend(open);
    found
}

/// What follows the name of a check, and from which byte of the line on. Before it there may
/// only be what begins a comment.
fn said<'t>(line: &'t str, names: &[&str]) -> Option<(usize, &'t str)> {
    names.iter().find_map(|name| {
        let (before, after) = line.split_once(name)?;
        let rest = after.strip_prefix(':')?;
        let only_marks = !before.contains(|c: char| c.is_alphanumeric() || "_-`'\"".contains(c));
        only_marks.then(|| (line.len() - rest.len(), rest))
    })
}
