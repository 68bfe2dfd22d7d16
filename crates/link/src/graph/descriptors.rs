//! Function descriptors of PowerPC ELFv1: the symbol of a function names three words in `.opd`, the
//! first of which is the address of its code (64-bit PowerPC ELF ABI Supplement 1.9, section
//! 3.2.1).
//!
//! Stack maps and pointers to functions hold addresses of descriptors. Sites are in code, so each
//! descriptor of the object is read here once, by the relocation of its first word.

use alloc::vec::Vec;

use crate::graph::{Definition, Graph, SectionId, SectionRole};
use crate::relocation::Formula;

/// Whether the section holds the function descriptors of PowerPC ELFv1.
pub(crate) fn is_descriptors(name: &str) -> bool {
    name == ".opd" || name.starts_with(".opd.")
}

/// Where a byte of the object is: a section and the offset in it.
pub(crate) type Spot = (SectionId, u32);

/// The code of each descriptor, by the descriptor's place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descriptors(Vec<(Spot, Spot)>);

impl Descriptors {
    pub(crate) fn find(graph: &Graph<'_>) -> Self {
        let mut found = Vec::new();
        if !graph.arch.has_descriptors() {
            return Self(found);
        }
        for (index, section) in graph.sections.iter().enumerate() {
            if !is_descriptors(&section.name) {
                continue;
            }
            let words = section.edges.iter().filter(|edge| {
                edge.relocation.formula() == Formula::Absolute && edge.relocation.width() == 8
            });
            for edge in words {
                let Some(spot) = graph.spot(edge.target.index(), edge.addend) else {
                    continue;
                };
                let in_code = graph
                    .section(spot.0)
                    .is_some_and(|section| section.role == SectionRole::Code && spot.1 < section.size);
                if in_code {
                    found.push(((SectionId(index as u32), edge.offset), spot));
                }
            }
        }
        found.sort_unstable();
        Self(found)
    }

    /// All of them, each with its code.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Spot, Spot)> {
        self.0.iter()
    }

    /// The code of the descriptor at this place, if there is one.
    pub(crate) fn code(&self, descriptor: Spot) -> Option<Spot> {
        let index = self.0.binary_search_by_key(&descriptor, |(at, _)| *at).ok()?;
        self.0.get(index).map(|(_, code)| *code)
    }
}

impl Graph<'_> {
    /// What a symbol and an addend refer to within the graph.
    pub(crate) fn spot(&self, symbol: usize, addend: i64) -> Option<Spot> {
        let Definition::Section(section, offset) = self.symbols.get(symbol)?.definition else {
            return None;
        };
        let offset = i64::from(offset).checked_add(addend)?;
        Some((section, u32::try_from(offset).ok()?))
    }

    /// The code of the function whose descriptor a symbol and an addend refer to.
    pub(crate) fn described(&self, symbol: usize, addend: i64) -> Option<Spot> {
        self.descriptors.code(self.spot(symbol, addend)?)
    }
}
