//! Which entries of the global offset table, and which stubs, nobody needs when everything has its
//! address: those of symbols that branches reach directly, and whose addresses code computes after
//! relaxation. They stay where they are; a runtime that links the same code again may leave them
//! out.

use alloc::vec::Vec;

use crate::error::Result;
use crate::fixups::Linker;
use crate::graph::{Edge, SymbolId};
use crate::phases::Resolved;

/// What of the tables is not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnusedTables {
    /// The symbols whose entries no edge refers to, but for those of stubs that are unused
    /// themselves.
    pub entries: Vec<SymbolId>,
    /// The symbols whose stubs no branch goes through.
    pub stubs: Vec<SymbolId>,
}

impl Resolved<'_> {
    /// The entries and stubs that are there and not used.
    ///
    /// # Errors
    /// A branch goes to a symbol without an address.
    pub fn unused_tables(&self) -> Result<UnusedTables> {
        self.linker().unused_tables()
    }
}

impl Linker<'_, '_> {
    fn unused_tables(&self) -> Result<UnusedTables> {
        let tables = &self.layout.graph.tables;
        let stubs = self.used_stubs()?;
        let is_used = |stubs: &[bool], symbol: SymbolId| stubs.get(symbol.index()) == Some(&true);
        let mut entries = alloc::vec![false; stubs.len()];
        for (id, section) in (0..)
            .map(crate::graph::SectionId)
            .zip(&self.layout.graph.sections)
        {
            let of_stubs = tables.stubs.section == Some(id);
            let used = |edge: &&Edge| {
                edge.relocation.formula().needs_got() && (!of_stubs || is_used(&stubs, edge.target))
            };
            for edge in section.edges.iter().filter(used) {
                if let Some(entry) = entries.get_mut(edge.target.index()) {
                    *entry = true;
                }
            }
        }
        let unused = |slots: &crate::graph::tables::Slots, used: &[bool]| {
            let all = slots.all().map(|(symbol, _)| symbol);
            all.filter(|symbol| !is_used(used, *symbol)).collect()
        };
        Ok(UnusedTables {
            entries: unused(&tables.entries, &entries),
            stubs: unused(&tables.stubs, &stubs),
        })
    }

    /// By symbol: whether a branch goes through its stub.
    fn used_stubs(&self) -> Result<Vec<bool>> {
        let graph = &self.layout.graph;
        let mut used = alloc::vec![false; graph.symbols.len()];
        for (section, place) in graph.sections.iter().zip(&self.layout.places) {
            let Some(place) = place else { continue };
            let start = self.address(*place);
            for edge in section
                .edges
                .iter()
                .filter(|edge| edge.relocation.formula().is_branch())
            {
                let at = start.wrapping_add(u64::from(edge.offset));
                if let (true, Some(used)) = (self.takes_stub(edge, at)?, used.get_mut(edge.target.index())) {
                    *used = true;
                }
            }
        }
        Ok(used)
    }
}
