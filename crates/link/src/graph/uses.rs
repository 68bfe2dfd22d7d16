//! Redirecting uses of definitions, by the edges that there are.
//!
//! Edges name a symbol, or a place by way of another: for local symbols assemblers mostly name the
//! section, and add the offset. Such an edge is a use of a function if it refers to its very start,
//! and of a variable if that is all there is in its section. Where an instruction counts from its
//! own end, what it adds for that is known of calls, jumps and loads of addresses alone, which is
//! why other places in a section are left alone.
//!
//! Tables about code go on speaking of the code that they were made for.

use std::collections::HashMap;

use patchpoint_isa::{Arch, calls};

use crate::graph::descriptors::Spot;
use crate::graph::harness::Replaced;
use crate::graph::{Definition, Edge, Graph, Scope, Section, SectionId, SectionRole, SymbolId};
use crate::relocation::Formula;

/// The new targets of the uses of what is replaced.
#[derive(Default)]
pub(crate) struct Redirects {
    /// By the symbol that does not count any more, and by the one that does.
    by_symbol: HashMap<SymbolId, Redirect>,
    /// By the start of each function.
    by_start: HashMap<Spot, Redirect>,
    /// By the section of each variable that has it for itself.
    by_section: HashMap<SectionId, Redirect>,
}

#[derive(Clone, Copy)]
struct Redirect {
    /// The definition.
    from: SymbolId,
    /// The reference.
    to: SymbolId,
    /// Which report counts it.
    report: usize,
}

impl Redirects {
    pub(crate) fn add(
        &mut self,
        graph: &Graph<'_>,
        from: SymbolId,
        to: SymbolId,
        is_code: bool,
        report: usize,
    ) {
        let way = Redirect { from, to, report };
        self.by_symbol.insert(from, way);
        self.by_symbol.insert(to, way);
        if let Some(spot) = graph.spot(from.index(), 0) {
            if is_code {
                self.by_start.insert(spot, way);
            } else if graph.has_section_for_itself(from) {
                self.by_section.insert(spot.0, way);
            }
        }
    }

    /// Redirects the edges of a section to what counts now; those of tables about code to the code
    /// that they are about.
    pub(crate) fn redirect(&self, graph: &Graph<'_>, section: &mut Section<'_>, reports: &mut [Replaced]) {
        let is_table = section.describes_code();
        let is_code = section.role == SectionRole::Code;
        for edge in &mut section.edges {
            let named = self.by_symbol.get(&edge.target);
            if let (true, Some(way)) = (is_table, named) {
                edge.target = way.from;
            }
            // protection: unwind-information-of-what-is-replaced
            if is_table || !is_use(edge) {
                continue;
            }
            let way = match named {
                Some(way) => way,
                None => match self.aimed(graph, edge, is_code) {
                    Some((way, addend)) => {
                        edge.addend = addend;
                        way
                    }
                    None => continue,
                },
            };
            edge.target = way.to;
            if let Some(report) = reports.get_mut(way.report) {
                report.uses += 1;
            }
        }
    }

    /// What an edge by way of another local symbol, mostly its section's, refers to: with the
    /// addend from there on.
    fn aimed(&self, graph: &Graph<'_>, edge: &Edge, from_code: bool) -> Option<(&Redirect, i64)> {
        let symbol = graph.symbols.get(edge.target.index())?;
        let (Scope::Local, Definition::Section(id, offset)) = (symbol.scope, symbol.definition) else {
            return None;
        };
        if let Some(way) = self.by_section.get(&id) {
            return Some((way, edge.addend.checked_add(i64::from(offset))?));
        }
        let own = own_addend(graph.arch, edge, from_code)?;
        let aim = i64::from(offset).checked_add(edge.addend.checked_sub(own)?)?;
        let way = self.by_start.get(&(id, u32::try_from(aim).ok()?))?;
        Some((way, own))
    }
}

/// The addend of an edge to the very start of its symbol; `None` where that
/// cannot be told.
fn own_addend(arch: Arch, edge: &Edge, from_code: bool) -> Option<i64> {
    match edge.relocation.formula() {
        Formula::Absolute | Formula::FromGot => Some(0),
        // From data, distances may count from other places than their own.
        Formula::Relative | Formula::Branch | Formula::BranchNoToc | Formula::Page if from_code => {
            // protection: uses-by-way-of-sections
            Some(calls::addend(arch))
        }
        _ => None,
    }
}

/// Whether an edge says where its symbol is, not how far apart two are or what another relocation
/// says.
fn is_use(edge: &Edge) -> bool {
    !matches!(
        edge.relocation.formula(),
        Formula::Nothing
            | Formula::Size
            | Formula::LowOfPair
            | Formula::Add
            | Formula::Sub
            | Formula::UlebSet
            | Formula::UlebSub
    )
}
