//! The functions of a graph, by where their code is.

use alloc::vec::Vec;

use crate::graph::descriptors::{Descriptors, Spot};
use crate::graph::{Graph, SectionId, SymbolId};

/// Where a function of a graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionPlace {
    /// The section of its code.
    pub section: SectionId,
    /// Where it starts, in bytes from the section's start.
    pub offset: u32,
    /// Its size in bytes, as its symbol says; never 0.
    pub size: u32,
    /// Its symbol.
    pub symbol: SymbolId,
}

impl Graph<'_> {
    /// The functions that have a size, by section and offset. None starts within the one before it:
    /// of several names of one function the first is here. Where functions are known by
    /// descriptors, as on PowerPC ELFv1, the place is that of the code.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionPlace> {
        let descriptors = Descriptors::find(self);
        let mut found: Vec<FunctionPlace> = (0..)
            .map(SymbolId)
            .zip(&self.symbols)
            .filter(|(_, symbol)| symbol.function && symbol.size > 0)
            .filter_map(|(symbol, known)| {
                let (section, offset) = self.code_of(symbol, &descriptors)?;
                Some(FunctionPlace {
                    section,
                    offset,
                    size: u32::try_from(known.size).unwrap_or(u32::MAX),
                    symbol,
                })
            })
            .collect();
        found.sort_unstable();
        let mut end = (SectionId(0), 0);
        found.retain(|function| {
            let apart = end.0 != function.section || function.offset >= end.1;
            if apart {
                end = (function.section, function.offset.saturating_add(function.size));
            }
            apart
        });
        found
    }

    /// Where the code of a function is, or a symbol of anything else.
    pub(crate) fn code_of(&self, symbol: SymbolId, descriptors: &Descriptors) -> Option<Spot> {
        let spot = self.spot(symbol.index(), 0)?;
        Some(descriptors.code(spot).unwrap_or(spot))
    }
}
