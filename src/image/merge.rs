//! Several objects become one graph: what one defines others find.
//!
//! The first symbol of a name is the one that edges lead to; a definition that outranks the one there takes its place, and
//! the loser the place of the newcomer, where nobody finds it. So the edges that are there already stay as they are,
//! and each file's are changed once, when it is added. Cost: linear in what is added.
//!
//! Invariant: of each name that is not local, one symbol has edges and a scope other than local.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use std::collections::HashMap;

use super::MAX_SIZE;
use super::file::Object;
use super::graph::{Definition, Graph, Scope, SectionId, Strength, Symbol, SymbolId};
use crate::error::{Error, Result};

/// The symbols that are not local, by name.
pub(super) type Names<'data> = HashMap<Cow<'data, str>, SymbolId>;

impl<'data> Graph<'data> {
    /// The graph of one object. The name is for errors.
    #[must_use]
    pub fn new(name: impl Into<String>, object: Object<'data>) -> Self {
        let mut graph = object.graph;
        graph.files = alloc::vec![name.into()];
        graph
    }

    /// Adds an object. What it needs and others define, or the other way round, needs no resolver any more.
    ///
    /// Of definitions of one name a strong one counts before a common one, and that before a weak one; of common ones
    /// the larger, of others the first. A name is as visible as the file says that says least. What is local to a file
    /// stays so.
    ///
    /// # Errors
    /// Both define a symbol strongly, or the object is for another architecture: nothing is added then.
    pub fn add(&mut self, name: impl Into<String>, object: Object<'data>) -> Result<()> {
        let name = name.into();
        let Graph {
            arch,
            sections,
            symbols,
            ..
        } = object.graph;
        if arch != self.arch {
            return Err(Error::ObjectsDiffer {
                first: self.files.first().cloned().unwrap_or_default(),
                arch: self.arch,
                second: name,
                found: arch,
            });
        }
        self.index();
        self.check_duplicates(&name, &symbols)?;
        let bases = self.bases(sections.len(), symbols.len())?;
        self.files.push(name);
        let ids = self.take_symbols(symbols, &bases);
        for mut section in sections {
            section.file = bases.file;
            // An index that is not there stays one that nothing is under.
            section.about = section
                .about
                .map(|SectionId(id)| SectionId(id.saturating_add(bases.section)));
            for edge in &mut section.edges {
                // The reader has checked the index.
                edge.target = ids.get(edge.target.index()).copied().unwrap_or(edge.target);
            }
            self.sections.push(section);
        }
        Ok(())
    }

    /// Looks the first file's names up; of one file alone nobody asks for them.
    pub(super) fn index(&mut self) {
        if !self.names.is_empty() {
            return;
        }
        for (id, symbol) in (0..).map(SymbolId).zip(&self.symbols) {
            if symbol.is_shared() {
                self.names.entry(symbol.name.clone()).or_insert(id);
            }
        }
    }

    pub(super) fn check_duplicates(&self, file: &str, symbols: &[Symbol<'_>]) -> Result<()> {
        let strong = symbols
            .iter()
            .filter(|symbol| symbol.is_shared() && symbol.strength == Strength::Strong);
        for symbol in strong {
            let id = self.names.get(&symbol.name);
            let Some(first) = id.and_then(|id| self.symbols.get(id.index())) else {
                continue;
            };
            if first.strength == Strength::Strong {
                return Err(Error::SymbolDuplicate {
                    symbol: symbol.name.clone().into_owned(),
                    first: self
                        .files
                        .get(first.file())
                        .map_or("a pass", String::as_str)
                        .into(),
                    second: file.into(),
                });
            }
        }
        Ok(())
    }

    pub(super) fn bases(&self, sections: usize, symbols: usize) -> Result<Bases> {
        let base = |there: usize, more: usize| match u32::try_from(there.saturating_add(more)) {
            Ok(_) => Ok(there as u32),
            Err(_) => Err(Error::ImageTooLarge {
                size: there as u64,
                limit: MAX_SIZE,
            }),
        };
        Ok(Bases {
            file: base(self.files.len(), 1)?,
            // One more for common symbols.
            section: base(self.sections.len(), sections + 1)?,
            symbol: base(self.symbols.len(), symbols)?,
        })
    }

    /// Takes the symbols over. Returns where the edges to each of them lead from now on.
    pub(super) fn take_symbols(&mut self, symbols: Vec<Symbol<'data>>, bases: &Bases) -> Vec<SymbolId> {
        let mut ids = Vec::with_capacity(symbols.len());
        self.symbols.reserve(symbols.len());
        for (id, mut symbol) in (bases.symbol..).map(SymbolId).zip(symbols) {
            symbol.file = bases.file;
            if let Definition::Section(SectionId(section), _) = &mut symbol.definition {
                *section += bases.section;
            }
            let first = if symbol.is_shared() {
                *self.names.entry(symbol.name.clone()).or_insert(id)
            } else {
                id
            };
            if let Some(first) = self.symbols.get_mut(first.index()) {
                first.unite(&mut symbol);
            }
            self.symbols.push(symbol);
            ids.push(first);
        }
        ids
    }
}

/// What the indices of an added file count from.
pub(super) struct Bases {
    pub(super) file: u32,
    pub(super) section: u32,
    pub(super) symbol: u32,
}

impl Symbol<'_> {
    /// Whether other files may mean it by its name.
    fn is_shared(&self) -> bool {
        self.scope != Scope::Local && !self.name.is_empty()
    }

    /// Makes this symbol what both of the name together are, and the other one what nobody names.
    fn unite(&mut self, other: &mut Self) {
        let scope = self.scope.min(other.scope);
        let strictest = match (self.definition, other.definition) {
            (Definition::Common { align: a }, Definition::Common { align: b }) => Some(a.max(b)),
            _ => None,
        };
        let larger = strictest.is_some() && other.size > self.size;
        if other.strength > self.strength || larger {
            mem::swap(self, other);
        }
        if let Some(align) = strictest {
            self.definition = Definition::Common { align };
        }
        if matches!(other.definition, Definition::Common { .. }) {
            // It needs no room.
            other.definition = Definition::Undefined { weak: true };
        }
        self.scope = scope;
        other.scope = Scope::Local;
    }
}
