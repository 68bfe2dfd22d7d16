//! What a COFF object tells the linker in its section `.drectve`, as far as it changes what symbols
//! are.
//!
//! | directive | |
//! |---|---|
//! | `/alternatename:NAME=DEFAULT` | the first symbol is the second, if no object defines it |
//! | `/include:NAME` | the symbol has to be there, and is kept where others are pruned |
//!
//! The others are of libraries, exports and output files, and are ignored.
//!
//! Source: Microsoft, "PE Format", section ".drectve"; for alternate names, which are in no
//! documentation, LLVM's `lld/COFF/Driver.cpp`.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use std::collections::HashMap;

use object::read::coff::CoffHeader;

use super::Reader;
use crate::error::Result;
use crate::graph::checks::{contradiction, malformed};
use crate::graph::{Definition, Graph, Scope, Strength, Symbol, SymbolId};

/// The section's name.
const DIRECTIVES: &[u8] = b".drectve";

/// The mark that text in UTF-8 may start with.
const MARK: &str = "\u{feff}";

impl<'data, Header: CoffHeader> Reader<'data, Header> {
    /// Reads all directives of the object.
    pub(crate) fn directives(&self, graph: &mut Graph<'data>) -> Result<()> {
        let mut included: Vec<Cow<'data, str>> = Vec::new();
        for raw in self.sections.iter() {
            let name = raw.name(self.symbols.strings());
            if name.map_err(malformed("a section's name"))? != DIRECTIVES {
                continue;
            }
            let bytes = raw.coff_data(self.bytes).map_err(|()| {
                contradiction(
                    "a section's bytes",
                    "those of .drectve are not in the file".into(),
                )
            })?;
            let text = self.names.text(bytes)?;
            for word in words(text.trim_start_matches(MARK)) {
                match directive(&word) {
                    Some(("alternatename", told)) => {
                        let Some((name, default)) = told.split_once('=') else {
                            let reason = alloc::format!("`{word}` names no default");
                            return Err(contradiction("a directive", reason));
                        };
                        graph
                            .alternates
                            .push((String::from(name).into(), String::from(default).into()));
                    }
                    Some(("include", name)) => included.push(String::from(name).into()),
                    _ => {}
                }
            }
        }
        if included.is_empty() {
            return Ok(());
        }
        let symbols = (0..).map(SymbolId).zip(&graph.symbols);
        let shared = symbols.filter(|(_, symbol)| symbol.is_shared());
        let mut known: HashMap<String, SymbolId> = shared
            .map(|(id, symbol)| (symbol.name.clone().into_owned(), id))
            .collect();
        for name in included {
            let new = u32::try_from(graph.symbols.len())
                .map_err(|_| contradiction("the symbol table", "it is too long".into()))?;
            let id = *known.entry(name.clone().into_owned()).or_insert(SymbolId(new));
            if id.0 == new {
                graph.symbols.push(Symbol {
                    name,
                    definition: Definition::Undefined { weak: false },
                    scope: Scope::Exported,
                    strength: Strength::Reference,
                    ..Symbol::null()
                });
            }
            graph.included.push(id);
        }
        Ok(())
    }
}

/// The words of a command line: what is between quotes belongs to one.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for letter in text.chars() {
        match letter {
            '"' => quoted = !quoted,
            ' ' | '\t' | '\r' | '\n' | '\0' if !quoted => words.push(core::mem::take(&mut word)),
            _ => word.push(letter),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// Its name, which may be in capitals, and what is told.
fn directive(word: &str) -> Option<(&'static str, &str)> {
    let (name, told) = word.strip_prefix(['/', '-'])?.split_once(':')?;
    let known = ["alternatename", "include"];
    let name = known.into_iter().find(|known| name.eq_ignore_ascii_case(known))?;
    (!told.is_empty()).then_some((name, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart() {
        let text = "  /DEFAULTLIB:\"a b.lib\" -Include:f\t/alternatename:x=y /EXPORT:\"q\",DATA\0";
        let words = words(text);
        assert_eq!(
            words,
            [
                "/DEFAULTLIB:a b.lib",
                "-Include:f",
                "/alternatename:x=y",
                "/EXPORT:q,DATA"
            ]
        );
        let known: Vec<_> = words.iter().filter_map(|word| directive(word)).collect();
        assert_eq!(known, [("include", "f"), ("alternatename", "x=y")]);
        assert_eq!(directive("/include:"), None);
    }
}
