//! Several objects become one graph: what one defines others find.
//!
//! The first symbol of a name is the one that edges refer to; a definition that outranks the one
//! there takes its place, and the loser the place of the newcomer, where nobody finds it. So the
//! edges that are there already stay as they are, and each file's are changed once, when it is
//! added. Tables about code (unwind information, stack maps) refer to the losers: they describe
//! the code of their own file. Cost: linear in what is added; where a later strong definition
//! replaces a weak one, in the tables that are there, too.
//!
//! Invariant: of each name that is not local, one symbol has edges and a scope other than local.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::graph::comdat::Choice;
use crate::graph::{Definition, Graph, Scope, SectionId, Strength, Symbol, SymbolId};

/// The symbols that are not local, by name.
pub(crate) type Names<'data> = HashMap<Cow<'data, str>, SymbolId>;

impl<'data> Graph<'data> {
    /// Adds a graph that a reader has made of one file: see [`Graph::add`].
    pub(crate) fn join(&mut self, file: Graph<'data>) -> Result<()> {
        self.check_arch(&file)?;
        self.index();
        let choice = self.choose(&file)?;
        let name = file.files.first().map_or("", String::as_str);
        self.check_duplicates(name, &file.symbols, &choice)?;
        self.take(file, choice).map(|_| ())
    }

    /// Whether the other graph is for the same architecture and of the same format; one without
    /// files is of any.
    pub(crate) fn check_arch(&self, other: &Graph<'_>) -> Result<()> {
        let first = |graph: &Graph<'_>| graph.file_name(0).to_owned();
        // protection: objects-are-for-one-architecture
        if other.arch != self.arch {
            return Err(Error::ObjectsDiffer {
                first: first(self),
                arch: self.arch,
                second: first(other),
                found: other.arch,
            });
        }
        let both = !self.files.is_empty() && !other.files.is_empty();
        // protection: formats-are-not-mixed
        if both && other.format != self.format {
            return Err(Error::ObjectFormatsDiffer {
                first: first(self),
                format: self.format,
                second: first(other),
                found: other.format,
            });
        }
        Ok(())
    }

    /// Takes all that is in another graph over, but the groups that are not kept. Returns where the
    /// edges to each of its symbols refer from now on.
    pub(crate) fn take(&mut self, mut other: Graph<'data>, choice: Choice) -> Result<Vec<SymbolId>> {
        let bases = self.bases(other.sections.len(), other.symbols.len())?;
        self.carry_out(choice, &mut other, &bases);
        if self.files.is_empty() {
            self.format = other.format;
        }
        self.files.append(&mut other.files);
        self.changed |= other.changed;
        self.tables.complete = false;
        let ids = self.take_symbols(other.symbols, &bases);
        self.alternates.append(&mut other.alternates);
        let included = other.included.iter().filter_map(|id| ids.get(id.index()));
        self.included.extend(included);
        // protection: maps-of-what-loses
        self.stay_with_losers(&ids, &bases);
        for mut section in other.sections {
            section.file = bases.file_of(section.file);
            let describes_code = section.describes_code();
            // An index that is not there stays one that nothing is under.
            section.about = section
                .about
                .map(|SectionId(id)| SectionId(id.saturating_add(bases.section)));
            for edge in &mut section.edges {
                let own = SymbolId(edge.target.0.saturating_add(bases.symbol));
                edge.target = match self.symbols.get(own.index()) {
                    // protection: maps-of-what-lost
                    Some(symbol) if describes_code && symbol.is_in_file(section.file) => own,
                    // The reader has checked the index.
                    _ => ids.get(edge.target.index()).copied().unwrap_or(edge.target),
                };
            }
            self.sections.push(section);
        }
        Ok(ids)
    }

    /// Binds tables that are there to the definitions of their files for which those of the
    /// newcomer count now: these took the newcomer's places. Looks at all tables, if there are such
    /// definitions.
    fn stay_with_losers(&mut self, ids: &[SymbolId], bases: &Bases) {
        let mut losers = HashMap::new();
        for (own, first) in (bases.symbol..).map(SymbolId).zip(ids) {
            let symbol = self.symbols.get(own.index()).filter(|_| own != *first);
            if let Some(symbol) =
                symbol.filter(|symbol| symbol.file < bases.file && symbol.is_in_file(symbol.file))
            {
                losers.insert((symbol.file, *first), own);
            }
        }
        if losers.is_empty() {
            return;
        }
        let tables = self
            .sections
            .iter_mut()
            .filter(|section| section.describes_code());
        for section in tables {
            for edge in &mut section.edges {
                if let Some(loser) = losers.get(&(section.file, edge.target)) {
                    edge.target = *loser;
                }
            }
        }
    }

    /// Looks up the first file's names; of one file alone nobody asks for them.
    pub(crate) fn index(&mut self) {
        if !self.names.is_empty() {
            return;
        }
        self.index_groups();
        for (id, symbol) in (0..).map(SymbolId).zip(&self.symbols) {
            if symbol.is_shared() {
                self.names.entry(symbol.name.clone()).or_insert(id);
            }
        }
    }

    pub(crate) fn check_duplicates(&self, file: &str, symbols: &[Symbol<'_>], choice: &Choice) -> Result<()> {
        let strong = symbols.iter().filter(|symbol| {
            symbol.is_shared() && symbol.strength == Strength::Strong && !choice.drops(symbol)
        });
        for symbol in strong {
            let id = self.names.get(&symbol.name);
            let Some(first) = id.and_then(|id| self.symbols.get(id.index())) else {
                continue;
            };
            // protection: duplicates-are-refused
            if first.strength == Strength::Strong && !choice.replaces(first) {
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

    /// Lets names that nobody defines stand for what their objects say, where that is defined.
    pub(crate) fn use_alternates(&mut self) {
        if self.alternates.is_empty() {
            return;
        }
        self.index();
        for (name, default) in mem::take(&mut self.alternates) {
            let id = |name: &str| self.names.get(name).copied();
            let (Some(own), Some(default)) = (id(&name), id(&default)) else {
                continue;
            };
            let Some(default) = self.symbols.get(default.index()).cloned() else {
                continue;
            };
            let Some(symbol) = self.symbols.get_mut(own.index()) else {
                continue;
            };
            let is_missing = matches!(symbol.definition, Definition::Undefined { .. });
            if is_missing
                && matches!(
                    default.definition,
                    Definition::Section(..) | Definition::Absolute(_)
                )
            {
                // protection: alternate-names-count
                symbol.definition = default.definition;
                symbol.strength = Strength::Weak;
                (symbol.size, symbol.function, symbol.file) = (default.size, default.function, default.file);
            }
        }
    }

    pub(crate) fn bases(&self, sections: usize, symbols: usize) -> Result<Bases> {
        let base = |there: usize, more: usize| match u32::try_from(there.saturating_add(more)) {
            Ok(_) => Ok(there as u32),
            Err(_) => Err(self.too_large(there as u64)),
        };
        Ok(Bases {
            file: base(self.files.len(), 1)?,
            // One more for common symbols.
            section: base(self.sections.len(), sections + 1)?,
            symbol: base(self.symbols.len(), symbols)?,
        })
    }

    /// Takes the symbols over. Returns what the edges to each of them refer to from now on.
    pub(crate) fn take_symbols(&mut self, symbols: Vec<Symbol<'data>>, bases: &Bases) -> Vec<SymbolId> {
        let mut ids = Vec::with_capacity(symbols.len());
        self.symbols.reserve(symbols.len());
        for (id, mut symbol) in (bases.symbol..).map(SymbolId).zip(symbols) {
            symbol.file = bases.file_of(symbol.file);
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
pub(crate) struct Bases {
    pub(crate) file: u32,
    pub(crate) section: u32,
    pub(crate) symbol: u32,
}

impl Bases {
    /// The index of a file; what a pass has added stays so.
    pub(crate) fn file_of(&self, file: u32) -> u32 {
        file.saturating_add(self.file)
    }
}

impl Symbol<'_> {
    /// Whether other files may mean it by its name.
    pub(crate) fn is_shared(&self) -> bool {
        self.scope != Scope::Local && !self.name.is_empty()
    }

    /// Whether it is defined in a section, by this file.
    fn is_in_file(&self, file: u32) -> bool {
        self.file == file && matches!(self.definition, Definition::Section(..))
    }

    /// Makes this symbol what both of the name together are, and the other one what nobody names.
    pub(crate) fn unite(&mut self, other: &mut Self) {
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
        // protection: hidden-stays-hidden
        self.scope = scope;
        other.scope = Scope::Local;
    }
}
