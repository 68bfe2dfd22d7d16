//! Testing functions of built objects: a harness replaces what they call, and reaches what is local
//! to them.
//!
//! Problem: a function of an object is to be tested with other callees than it was built with, some
//! of which the object itself defines, and it may be local. Approach: before a harness, a graph of
//! its own, is joined to the tested graph, every definition there that it replaces becomes a
//! reference, so that the usual rules find the harness's; what is replaced stays as a local symbol,
//! for unwind information and stack maps speak of it. Local symbols that the harness needs get a
//! second, exported name.
//!
//! A use is redirected where there is an edge. The assembler resolves calls within a section to
//! functions that are local, and leaves none; a compiler copies callees into their callers. The
//! first can be found by decoding the code, which a linker does not: [`Replaced::code`] and
//! [`Graph::functions`] tell a decoder where to look, and `patchpoint::image::bypasses` is one. Of
//! the second nothing is left to find. Compile with `-O0 -ffunction-sections -fdata-sections`, or
//! `-fno-inline`, to have neither.
//!
//! Names mean what the linker would find: the symbol of that name that is not local, and where the
//! tested objects define none, the local one, which only one of them may have.
//!
//! Cost: linear in sections, symbols and edges. A graph that gets no harness has no cost.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::graph::descriptors::Descriptors;
use crate::graph::uses::Redirects;
use crate::graph::{Definition, Graph, Scope, SectionId, SectionRole, Strength, Symbol, SymbolId};

/// What a harness has done to the objects that it tests: see [`Graph::add_harness`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "what could not be replaced is listed here"]
pub struct Interposed {
    /// Definitions for which the harness's count now, in the order of its symbols.
    pub replaced: Vec<Replaced>,
    /// Symbols that the tested objects need, do not define, and get of the harness.
    pub supplied: Vec<String>,
    /// Local symbols that the harness reaches by their names.
    pub reached: Vec<String>,
}

/// A definition for which a harness's counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The symbol.
    pub symbol: String,
    /// The file whose definition it was.
    pub file: String,
    /// Whether it was local to that file.
    pub local: bool,
    /// How many edges refer to the harness's now.
    pub uses: usize,
    /// Where it is, as code that branches there without an edge still finds it: its section, and
    /// the offset in it in bytes. That of a function is where its code is. `None` if it is in no
    /// section.
    pub code: Option<(SectionId, u32)>,
}

/// A symbol of the tested objects that the harness names.
#[derive(Clone, Copy)]
struct TestedSymbol {
    id: SymbolId,
    local: bool,
}

/// What is to be done, when nothing can fail any more.
#[derive(Default)]
struct Plan {
    replaced: Vec<TestedSymbol>,
    /// The harness's reference, and the local symbol that it is to reach.
    reached: Vec<(SymbolId, SymbolId)>,
    supplied: Vec<String>,
}

impl<'data> Graph<'data> {
    /// Joins a harness to the objects that are there, which it tests: what it defines replaces what
    /// they define, be it strong or local, and what it needs and they define as local symbols it
    /// finds. Among themselves, the harness's objects are linked as others are; its weak
    /// definitions count as weak ones.
    ///
    /// What is replaced is left in the graph, as a function of that name that nothing refers to:
    /// [`prune`](Graph::prune) takes it out. A local symbol that is reached is found by its name in
    /// the image, too.
    ///
    /// A harness of functions of this process is a graph without objects ([`Graph::empty`]), with a
    /// symbol at the address of each: a reference there, to [`Definition::Undefined`], is a local
    /// symbol that is to be reached.
    ///
    /// # Errors
    /// It names a symbol that two tested objects define as local; it replaces a local variable, to which other uses than by its
    /// name refer; it is for another architecture. Nothing is changed then.
    pub fn add_harness(&mut self, mut harness: Graph<'data>) -> Result<Interposed> {
        self.check_arch(&harness)?;
        self.index();
        harness.index();
        let plan = self.plan(&harness)?;
        // protection: variables-that-share-a-section
        self.check_variables(&plan.replaced)?;
        let choice = self.choose(&harness)?;
        self.bases(
            harness.sections.len(),
            harness.symbols.len() + 2 * plan.replaced.len(),
        )?;

        let replaced = self.give_way(&plan.replaced);
        let mut reached = Vec::with_capacity(plan.reached.len());
        for (reference, local) in plan.reached {
            // It gets a definition of its own.
            if let Some(symbol) = harness.symbols.get_mut(reference.index()) {
                symbol.scope = Scope::Local;
            }
            reached.push((reference, local, self.symbol_name(local)));
        }
        let ids = self.take(harness, choice)?;
        for (reference, local, _) in &reached {
            if let Some(id) = ids.get(reference.index()) {
                self.name_local(*id, *local);
            }
        }
        Ok(Interposed {
            replaced,
            supplied: plan.supplied,
            reached: reached.into_iter().map(|(_, _, name)| name).collect(),
        })
    }

    /// Finds what the harness's symbols mean here.
    fn plan(&self, harness: &Graph<'_>) -> Result<Plan> {
        let locals = self.locals(harness);
        let mut plan = Plan::default();
        for (id, symbol) in (0..).map(SymbolId).zip(&harness.symbols) {
            if !symbol.is_shared() || harness.names.get(&symbol.name) != Some(&id) {
                continue;
            }
            let shared = self.names.get(&symbol.name).copied();
            let defined = shared.filter(|id| self.defines(*id) && !self.is_common(*id));
            let local = || match locals.get(&*symbol.name) {
                Some(Local::One(id)) => Ok(Some(*id)),
                Some(Local::Two(first, second)) => Err(Error::LocalAmbiguous {
                    symbol: symbol.name.to_string(),
                    first: self.file_of(*first),
                    second: self.file_of(*second),
                }),
                None => Ok(None),
            };
            match symbol.strength {
                Strength::Strong => match (defined, shared) {
                    (Some(id), _) => plan.replaced.push(TestedSymbol { id, local: false }),
                    (None, shared) => {
                        plan.supplied.extend(shared.map(|_| symbol.name.to_string()));
                        plan.replaced
                            .extend(local()?.map(|id| TestedSymbol { id, local: true }));
                    }
                },
                Strength::Reference | Strength::WeakReference
                    if !shared.is_some_and(|id| self.defines(id)) =>
                {
                    plan.reached.extend(local()?.map(|local| (id, local)));
                }
                _ => {}
            }
        }
        Ok(plan)
    }

    /// The local symbols of the tested objects that have a name of the harness's.
    fn locals(&self, harness: &Graph<'_>) -> HashMap<&str, Local> {
        let mut found = HashMap::new();
        for (id, symbol) in (0..).map(SymbolId).zip(&self.symbols) {
            let is_local = symbol.scope == Scope::Local && self.defines(id) && !self.names_section(symbol);
            if is_local && harness.names.contains_key(&symbol.name) {
                found
                    .entry(&*symbol.name)
                    // protection: a-local-name-of-two-files
                    .and_modify(|local: &mut Local| *local = Local::Two(local.first(), id))
                    .or_insert(Local::One(id));
            }
        }
        found
    }

    /// Whether it gives way to definitions by itself.
    fn is_common(&self, id: SymbolId) -> bool {
        let symbol = self.symbols.get(id.index());
        symbol.is_some_and(|symbol| symbol.strength == Strength::Common)
    }

    fn defines(&self, id: SymbolId) -> bool {
        let symbol = self.symbols.get(id.index());
        symbol.is_some_and(|symbol| {
            matches!(
                symbol.definition,
                Definition::Section(..) | Definition::Common { .. } | Definition::Absolute(_)
            )
        })
    }

    /// Whether it is a section's symbol, which has the section's name.
    fn names_section(&self, symbol: &Symbol<'_>) -> bool {
        match symbol.definition {
            Definition::Section(id, 0) => self
                .section(id)
                .is_some_and(|section| section.name == symbol.name),
            // Those of files have their names.
            Definition::Absolute(_) => true,
            _ => false,
        }
    }

    fn file_of(&self, id: SymbolId) -> String {
        let file = self.symbols.get(id.index()).map_or(0, Symbol::file);
        self.file_name(file).into()
    }

    /// Refuses to replace a local variable that shares its section with others: uses of it count
    /// from the section's start, and an instruction does not say how far they go beyond the place
    /// that they name.
    fn check_variables(&self, replaced: &[TestedSymbol]) -> Result<()> {
        let variables = replaced
            .iter()
            .filter(|found| found.local && !self.is_code(found.id));
        match variables
            .map(|found| found.id)
            .find(|id| !self.has_section_for_itself(*id))
        {
            None => Ok(()),
            Some(id) => Err(Error::LocalNotReplaceable {
                symbol: self.symbol_name(id),
                file: self.file_of(id),
            }),
        }
    }

    /// Whether a symbol is a whole section.
    pub(crate) fn has_section_for_itself(&self, id: SymbolId) -> bool {
        let symbol = self.symbols.get(id.index());
        match symbol.map(|symbol| (symbol.definition, symbol.size)) {
            Some((Definition::Section(section, 0), size)) => self
                .section(section)
                .is_some_and(|section| size > 0 && u64::from(section.size) == size),
            _ => false,
        }
    }

    fn is_code(&self, id: SymbolId) -> bool {
        let symbol = self.symbols.get(id.index());
        let section = symbol.and_then(|symbol| match symbol.definition {
            Definition::Section(section, _) => self.section(section),
            _ => None,
        });
        symbol.is_some_and(|symbol| symbol.function)
            || section.is_some_and(|section| section.role == SectionRole::Code)
    }

    /// Makes references of definitions, and redirects what uses them.
    fn give_way(&mut self, replaced: &[TestedSymbol]) -> Vec<Replaced> {
        let mut ways = Redirects::default();
        let mut reports = Vec::with_capacity(replaced.len());
        if replaced.is_empty() {
            return reports;
        }
        let descriptors = Descriptors::find(self);
        for found in replaced {
            let code = self.code_of(found.id, &descriptors);
            let symbol = self.symbol_name(found.id);
            let (file, is_code) = (self.file_of(found.id), self.is_code(found.id));
            let new = self.split(*found);
            let (from, to) = if found.local {
                (found.id, new)
            } else {
                (new, found.id)
            };
            ways.add(self, from, to, is_code, reports.len());
            reports.push(Replaced {
                symbol,
                file,
                local: found.local,
                uses: 0,
                code,
            });
        }
        let mut sections = core::mem::take(&mut self.sections);
        for section in &mut sections {
            ways.redirect(self, section, &mut reports);
        }
        self.sections = sections;
        self.tables.complete = false;
        reports
    }

    /// Makes two of a symbol: its definition, local, and a reference that others share. The one
    /// that is new is returned: the reference of what was local, else the definition.
    fn split(&mut self, found: TestedSymbol) -> SymbolId {
        let new = SymbolId(self.symbols.len() as u32);
        let Some(symbol) = self.symbols.get_mut(found.id.index()) else {
            return new;
        };
        let mut reference = symbol.clone();
        reference.definition = Definition::Undefined { weak: false };
        (reference.strength, reference.function, reference.size) = (Strength::Reference, false, 0);
        let name = symbol.name.clone();
        if !found.local {
            let mut definition = core::mem::replace(symbol, reference);
            definition.scope = Scope::Local;
            self.symbols.push(definition);
            return new;
        }
        // Another file's reference of the name may be there.
        let shared = *self.names.entry(name).or_insert(new);
        if shared == new {
            reference.scope = Scope::Exported;
            self.symbols.push(reference);
        }
        shared
    }

    /// Gives a local symbol a second name, that of the reference.
    fn name_local(&mut self, reference: SymbolId, local: SymbolId) {
        let Some(definition) = self
            .symbols
            .get(local.index())
            .map(|local| (local.definition, local.other))
        else {
            return;
        };
        let Some(symbol) = self.symbols.get_mut(reference.index()) else {
            return;
        };
        (symbol.definition, symbol.other) = definition;
        symbol.strength = Strength::Strong;
        // Where a tested object needs such a symbol from another object, that is not this one.
        let first = *self.names.entry(symbol.name.clone()).or_insert(reference);
        if first == reference {
            symbol.scope = Scope::Exported;
        }
    }
}

/// The local symbols of a name: of more than two, two.
enum Local {
    One(SymbolId),
    Two(SymbolId, SymbolId),
}

impl Local {
    fn first(&self) -> SymbolId {
        match self {
            Self::One(first) | Self::Two(first, _) => *first,
        }
    }
}
