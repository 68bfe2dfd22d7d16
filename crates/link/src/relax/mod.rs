//! Relaxation: code that loads an address from the global offset table computes it instead, where
//! the target is in reach.
//!
//! Lengths stay, so nothing moves. A load is rewritten only where its entry is what the built-in
//! pass makes or looks like that: eight bytes that nobody writes, with one edge that gives them the
//! symbol's address. Whoever has redirected an entry, or has put it where it can be written,
//! wants it to be read.
//!
//! | | what | where that is allowed |
//! |---|---|---|
//! | x86-64 | loads, calls, jumps, tests and two-operand instructions with `GOTPCRELX` relocations | AMD64 supplement, section B.2 |
//! | AArch64 | `adrp` and `ldr` of an entry, next to each other | AAELF64, "Relocation optimization" |
//! | RISC-V | `auipc` and `ld` of an entry, both marked with `RELAX` | psABI, "GOT load relaxation" |
//!
//! Nothing is done on SystemZ, whose ABI supplement does not speak of it, and on PowerPC, where the
//! entries are the compiler's own, in sections `.toc`, and what else reads them is not known.
//!
//! Branches through stubs need no pass: they go directly where that reaches. Entries and stubs that
//! nobody needs any more stay where they are
//! ([`Resolved::unused_tables`](crate::Resolved::unused_tables)).
//!
//! Cost: linear in the edges.

use alloc::vec::Vec;
use std::collections::{HashMap, HashSet};

use patchpoint_isa::Arch;

use crate::error::Result;
use crate::graph::descriptors::Spot;
use crate::graph::{Edge, Graph, Section, SectionId, SectionRole, SymbolId};
use crate::phases::Resolved;
use crate::relocation::{Formula, Relocation};

mod aarch64;
mod riscv64;
mod x86_64;

/// Rewrites every such load. A pass for [`Passes::before_fix_ups`](crate::Passes::before_fix_ups).
///
/// # Errors
/// None; its type is that of a pass.
pub fn relax(resolved: &mut Resolved<'_>) -> Result<()> {
    let arch = resolved.graph().arch();
    let rewrite = match arch {
        Arch::X86_64 => x86_64::rewrite,
        Arch::AArch64 => aarch64::rewrite,
        Arch::RiscV64 => riscv64::rewrite,
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 | Arch::SystemZ => return Ok(()),
    };
    let plain = Plain::find(resolved);
    let shared = riscv64::shared(resolved.graph());
    let ids: Vec<SectionId> = resolved.graph().section_ids().collect();
    for id in ids {
        let Some((section, start)) = loads(resolved.graph(), id).zip(resolved.section_addr(id)) else {
            continue;
        };
        let target = |symbol| plain.target(resolved, symbol);
        let code = CodeSection {
            id,
            section,
            start: start.get(),
            graph: resolved.graph(),
            shared: &shared,
        };
        let mut changes = Changes::new(arch);
        rewrite(&code, &target, &mut changes);
        changes.apply(resolved, id);
    }
    Ok(())
}

/// The section, if it is code with loads from the table, and not the stubs: those are for what is
/// out of reach.
fn loads<'g, 'd>(graph: &'g Graph<'d>, id: SectionId) -> Option<&'g Section<'d>> {
    let is_load = |edge: &Edge| edge.relocation.formula().needs_got();
    let is_stubs = graph.tables.stubs.section == Some(id);
    let section = graph.section(id)?;
    let found = section.role == SectionRole::Code && !is_stubs && section.edges.iter().any(is_load);
    found.then_some(section)
}

/// A section of code, and where it is.
struct CodeSection<'g, 'd> {
    id: SectionId,
    section: &'g Section<'d>,
    start: u64,
    graph: &'g Graph<'d>,
    /// Upper halves of RISC-V whose lower ones are in other sections, too.
    shared: &'g HashSet<Spot>,
}

impl CodeSection<'_, '_> {
    /// The address of an offset.
    fn place(&self, offset: u32) -> u64 {
        self.start.wrapping_add(u64::from(offset))
    }

    /// The bytes at an offset.
    fn bytes<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.section.bytes.get(offset as usize..)?.first_chunk().copied()
    }

    /// The instruction at an offset, where they have four bytes.
    fn word(&self, offset: u32) -> Option<u32> {
        self.bytes(offset).map(u32::from_le_bytes)
    }
}

/// The address that the entry of a symbol holds, if it may be passed by.
type Targets<'t> = &'t dyn Fn(SymbolId) -> Option<u64>;

/// The symbols whose entries may be passed by.
struct Plain(Vec<bool>);

impl Plain {
    fn find(resolved: &Resolved<'_>) -> Self {
        let graph = resolved.graph();
        let mut slots = HashMap::new();
        let mut sections = Vec::new();
        for (symbol, spot) in graph.tables.entries.all() {
            slots.insert(spot, symbol);
            sections.push(spot.0);
        }
        sections.sort_unstable();
        sections.dedup();
        let mut plain = alloc::vec![false; graph.symbols.len()];
        for id in sections {
            let Some(section) = graph
                .section(id)
                .filter(|section| section.role != SectionRole::Data)
            else {
                continue;
            };
            for edge in &section.edges {
                let owner = slots.get(&(id, edge.offset));
                let holds = owner == Some(&edge.target) && edge.addend == 0 && is_address(edge.relocation);
                if let (true, Some(plain)) = (holds, plain.get_mut(edge.target.index())) {
                    *plain = true;
                }
            }
        }
        Self(plain)
    }

    fn target(&self, resolved: &Resolved<'_>, symbol: SymbolId) -> Option<u64> {
        // protection: relaxation-reads-changed-entries
        let plain = self.0.get(symbol.index()) == Some(&true);
        plain
            .then(|| resolved.symbol_addr(symbol))?
            .map(llvm_stackmaps::addr::CodeAddr::get)
    }
}

fn is_address(relocation: Relocation) -> bool {
    relocation.formula() == Formula::Absolute && relocation.width() == 8
}

/// Up to four bytes that replace others.
struct Patch {
    offset: u32,
    bytes: [u8; 4],
    len: usize,
}

/// What changes in a section.
struct Changes {
    arch: Arch,
    patches: Vec<Patch>,
    /// By index, the edges that take the place of others.
    edges: Vec<(usize, Edge)>,
}

impl Changes {
    fn new(arch: Arch) -> Self {
        Self {
            arch,
            patches: Vec::new(),
            edges: Vec::new(),
        }
    }

    fn word(&mut self, offset: u32, word: u32) {
        self.bytes(offset, &word.to_le_bytes());
    }

    fn bytes(&mut self, offset: u32, new: &[u8]) {
        let mut bytes = [0; 4];
        for (byte, new) in bytes.iter_mut().zip(new) {
            *byte = *new;
        }
        self.patches.push(Patch {
            offset,
            bytes,
            len: new.len().min(4),
        });
    }

    /// Gives an edge another relocation, place and addend.
    fn edge(&mut self, index: usize, edge: &Edge, number: u32, offset: u32, addend: i64) {
        // Its number is of its architecture's table.
        if let Some(relocation) = Relocation::from_elf(self.arch, number) {
            self.edges
                .push((index, Edge::new(offset, relocation, edge.target, addend)));
        }
    }

    fn apply(self, resolved: &mut Resolved<'_>, id: SectionId) {
        if self.edges.is_empty() {
            return;
        }
        let Some(mut section) = resolved.section_mut(id) else {
            return;
        };
        for patch in &self.patches {
            let new = patch
                .bytes
                .get(..patch.len)
                .expect("there is room for each patch");
            let start = patch.offset as usize;
            let bytes = section.bytes_mut().get_mut(start..start + new.len());
            let bytes = bytes.expect("a relaxed instruction is in its section");
            bytes.copy_from_slice(new);
        }
        for (index, new) in self.edges {
            if let Some(edge) = section.edges_mut().get_mut(index) {
                *edge = new;
            }
        }
    }
}
