//! Relocations of RISC-V that come in pairs: the lower 12 bits of a distance name the instruction
//! that holds the upper ones, and a number of variable length is the difference of two symbols
//! (psABI, "Relocations": `PCREL_LO12`, `SET_ULEB128`).
//!
//! Invariant: after [`Pairs::find`] every relocation of such a pair has its other half.

use alloc::format;
use alloc::vec::Vec;

use patchpoint_isa::Arch;

use crate::error::{Error, Result};
use crate::graph::descriptors::Spot;
use crate::graph::{Edge, Graph, Section, SectionId};
use crate::relocation::Formula;

/// The index of the edge that holds the upper bits, by its place. Places that no edge names are not
/// in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs(Vec<(Spot, u32)>);

impl Pairs {
    pub(crate) fn find(graph: &Graph<'_>) -> Result<Self> {
        if graph.arch != Arch::RiscV64 {
            return Ok(Self::default());
        }
        let mut uppers = Vec::new();
        for (id, section) in (0..).map(SectionId).zip(&graph.sections) {
            let edges = (0..).zip(&section.edges);
            uppers.extend(
                edges
                    .filter(|(_, edge)| edge.relocation.is_upper_half())
                    .map(|(index, edge)| ((id, edge.offset), index)),
            );
        }
        uppers.sort_unstable();
        let pairs = Self(uppers);
        for section in &graph.sections {
            for (index, edge) in section.edges.iter().enumerate() {
                pairs.check(graph, section, index, edge)?;
            }
        }
        Ok(pairs)
    }

    fn check(&self, graph: &Graph<'_>, section: &Section<'_>, index: usize, edge: &Edge) -> Result<()> {
        let halves = |other: Option<&Edge>, formula| {
            other.is_some_and(|other| other.offset == edge.offset && other.relocation.formula() == formula)
        };
        let complete = match edge.relocation.formula() {
            Formula::LowOfPair => edge.addend == 0 && self.upper(graph, edge).is_some(),
            Formula::UlebSet => halves(section.edges.get(index + 1), Formula::UlebSub),
            Formula::UlebSub => {
                index > 0
                    && halves(section.edges.get(index - 1), Formula::UlebSet)
                    && section
                        .bytes
                        .get(edge.offset as usize..)
                        .and_then(uleb_len)
                        .is_some()
            }
            _ => true,
        };
        if complete {
            return Ok(());
        }
        Err(Error::ObjectMalformed {
            what: "a relocation that comes in a pair",
            reason: format!(
                "{} at {}+{:#x} has no other half",
                edge.relocation.name(),
                section.name,
                edge.offset
            ),
        })
    }

    /// The edge that holds the upper bits of the value of which `low` holds the lower ones, with
    /// its section.
    pub(crate) fn upper<'o, 'd>(
        &self,
        graph: &'o Graph<'d>,
        low: &Edge,
    ) -> Option<(SectionId, &'o Section<'d>, &'o Edge)> {
        let spot = graph.spot(low.target.index(), 0)?;
        let index = self.0.binary_search_by_key(&spot, |(at, _)| *at).ok()?;
        let (_, edge) = self.0.get(index)?;
        let section = graph.section(spot.0)?;
        Some((spot.0, section, section.edges.get(*edge as usize)?))
    }
}

/// The length of the number of variable length that the bytes start with: at most that of 64 bits.
pub(crate) fn uleb_len(bytes: &[u8]) -> Option<usize> {
    const LONGEST: usize = 10;
    let last = bytes.iter().take(LONGEST).position(|byte| byte & 0x80 == 0)?;
    Some(last + 1)
}
