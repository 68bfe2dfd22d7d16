//! Calls and jumps within a section that a compiler or an assembler has resolved: no edge tells of them.
//!
//! Approach: the section's functions are decoded one by one, and direct branches looked at that lead to the starts in
//! question. Bytes that do not decode are skipped, so something may be missed; addresses that are taken without a branch are
//! not found. Each byte is decoded once.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::collections::{HashMap, HashSet};

use super::descriptors::{Descriptors, Spot};
use super::graph::{Graph, Section, SectionId, SymbolId};
use crate::addr::CodeAddr;
use crate::arch::Arch;
use crate::verify::Outline;

/// A call or jump that leads to what was replaced, as there is no edge to lead elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bypass {
    /// The symbol to which it leads, as it was before it was replaced.
    pub symbol: String,
    /// The file that it is in.
    pub file: String,
    /// The section that it is in.
    pub section: String,
    /// Where the instruction starts, in bytes from the section's start.
    pub offset: u32,
    /// The function that it is in.
    pub caller: String,
}

/// A function in a section: its offset, its size, its symbol.
type Function = (u32, u32, SymbolId);

/// Where sections are thought to be while they are decoded.
const BASE: u64 = 1 << 40;

impl Graph<'_> {
    /// The branches without an edge that lead to the starts of these functions, by section and offset.
    pub(super) fn bypasses(&self, replaced: &[SymbolId]) -> Vec<Bypass> {
        let descriptors = Descriptors::find(self);
        let spot = |id: SymbolId| {
            let spot = self.spot(id.index(), 0)?;
            Some(descriptors.code(spot).unwrap_or(spot))
        };
        let mut targets: HashMap<SectionId, HashMap<u32, SymbolId>> = HashMap::new();
        for id in replaced {
            if let Some((section, offset)) = spot(*id) {
                targets.entry(section).or_default().insert(offset, *id);
            }
        }
        let mut found = Vec::new();
        if targets.is_empty() {
            return found;
        }
        for (id, functions) in self.functions_in(&targets, spot) {
            if let (Some(section), Some(targets)) = (self.section(id), targets.get(&id)) {
                self.look_through(section, &functions, targets, &mut found);
            }
        }
        found
    }

    /// The functions of sections, by section and offset, none within another.
    fn functions_in<T>(
        &self,
        sections: &HashMap<SectionId, T>,
        spot: impl Fn(SymbolId) -> Option<Spot>,
    ) -> Vec<(SectionId, Vec<Function>)> {
        let mut found: HashMap<SectionId, Vec<Function>> = HashMap::new();
        for (id, symbol) in (0..).map(SymbolId).zip(&self.symbols) {
            let Some((section, offset)) = spot(id).filter(|_| symbol.function) else {
                continue;
            };
            if sections.contains_key(&section) {
                let size = u32::try_from(symbol.size).unwrap_or(u32::MAX);
                found.entry(section).or_default().push((offset, size, id));
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_unstable_by_key(|(section, _)| *section);
        for (_, functions) in &mut found {
            functions.sort_unstable();
            let mut end = 0;
            functions.retain(|(offset, size, _)| {
                let apart = *offset >= end && *size > 0;
                if apart {
                    end = offset.saturating_add(*size);
                }
                apart
            });
        }
        found
    }

    fn look_through(
        &self,
        section: &Section<'_>,
        functions: &[Function],
        targets: &HashMap<u32, SymbolId>,
        found: &mut Vec<Bypass>,
    ) {
        let edges: HashSet<u32> = section.edges.iter().map(|edge| edge.offset).collect();
        for (start, size, function) in functions {
            let end = start.saturating_add(*size);
            let Some(bytes) = section.bytes.get(*start as usize..end as usize) else {
                continue;
            };
            let addr = CodeAddr::new(BASE + u64::from(*start));
            let known = instructions(self.arch, addr, bytes);
            for (from, to) in Outline::of(self.arch, addr, bytes, &known).branches() {
                let offset = |addr: u64| u32::try_from(addr.wrapping_sub(BASE)).ok();
                let (Some(first), Some(last)) = (offset(from.start), offset(from.end)) else {
                    continue;
                };
                let target = offset(to).and_then(|to| Some((to, *targets.get(&to)?)));
                // What the function itself does is not what calls it, and an edge tells of the others.
                let Some((to, symbol)) = target.filter(|(to, _)| to != start) else {
                    continue;
                };
                if to != first && !(first..last).any(|at| edges.contains(&at)) {
                    found.push(Bypass {
                        symbol: self.symbol_name(symbol),
                        file: self.file_name(section.file()).to_owned(),
                        section: section.name.to_string(),
                        offset: first,
                        caller: self.symbol_name(*function),
                    });
                }
            }
        }
    }
}

/// Where instructions start, for the decoder to go on behind what it does not know. Nobody knows on x86-64.
fn instructions(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> Vec<CodeAddr> {
    let (mut starts, mut at) = (Vec::new(), 0);
    while let Some(first) = bytes.get(at) {
        starts.push(CodeAddr::new(addr.get() + at as u64));
        at += match arch {
            Arch::X86_64 => break,
            Arch::AArch64 | Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => 4,
            Arch::RiscV64 => {
                if first & 3 == 3 {
                    4
                } else {
                    2
                }
            }
            Arch::SystemZ => match first >> 6 {
                0 => 2,
                3 => 6,
                _ => 4,
            },
        };
    }
    starts
}
