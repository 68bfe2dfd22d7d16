//! Calls and jumps within a section that a compiler or an assembler has resolved: no edge tells a
//! linker of them.
//!
//! Approach: the section's functions are decoded one by one, and direct branches looked at that
//! go to the starts in question. Bytes that do not decode are skipped, so something may be
//! missed; addresses that are taken without a branch are not found. Each byte is decoded once.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::collections::{HashMap, HashSet};

use super::{Edge, FunctionPlace, Graph, Interposed, Replaced, Section, SectionId};
use crate::addr::CodeAddr;
use crate::arch::{Arch, instructions};
use crate::verify::DecodedFunction;

/// A call or jump that still goes to what was replaced, as there is no edge to redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bypass {
    /// The symbol to which it goes, as it was before it was replaced.
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

/// Where sections are thought to be while they are decoded.
const BASE: u64 = 1 << 40;

/// What was replaced in a section, by where it starts.
type Targets<'r> = HashMap<u32, &'r Replaced>;

/// The calls and jumps that still go to what a harness has replaced ([`Graph::add_harness`]), as
/// nothing tells a linker of them: by section and offset.
#[must_use]
pub fn bypasses(graph: &Graph<'_>, done: &Interposed) -> Vec<Bypass> {
    let mut targets: HashMap<SectionId, Targets<'_>> = HashMap::new();
    for replaced in &done.replaced {
        if let Some((section, offset)) = replaced.code {
            targets.entry(section).or_default().insert(offset, replaced);
        }
    }
    let mut found = Vec::new();
    if targets.is_empty() {
        return found;
    }
    for functions in graph
        .functions()
        .chunk_by(|one, other| one.section == other.section)
    {
        let id = functions.first().map(|function| function.section);
        let section = id.and_then(|id| graph.sections().get(id.index()).zip(targets.get(&id)));
        if let Some((section, targets)) = section {
            look_through(graph, section, functions, targets, &mut found);
        }
    }
    found
}

fn look_through(
    graph: &Graph<'_>,
    section: &Section<'_>,
    functions: &[FunctionPlace],
    targets: &Targets<'_>,
    found: &mut Vec<Bypass>,
) {
    let edges: HashSet<u32> = section.edges().iter().map(Edge::offset).collect();
    let arch = graph.arch();
    for function in functions {
        let (start, end) = (function.offset, function.offset.saturating_add(function.size));
        let Some(bytes) = section.bytes().get(start as usize..end as usize) else {
            continue;
        };
        let addr = CodeAddr::new(BASE + u64::from(start));
        let known = starts(arch, addr, bytes);
        for (from, to) in DecodedFunction::of(arch, addr, bytes, &known).branches() {
            let offset = |addr: u64| u32::try_from(addr.wrapping_sub(BASE)).ok();
            let (Some(first), Some(last)) = (offset(from.start), offset(from.end)) else {
                continue;
            };
            let target = offset(to).and_then(|to| Some((to, *targets.get(&to)?)));
            // What the function itself does is not what calls it, and an edge tells of the others.
            let Some((to, replaced)) = target.filter(|(to, _)| *to != start) else {
                continue;
            };
            // protection: calls-with-an-edge-bypass-nothing
            // protection: what-no-edge-tells-of
            if to != first && !(first..last).any(|at| edges.contains(&at)) {
                let caller = graph.symbols().get(function.symbol.index());
                found.push(Bypass {
                    symbol: replaced.symbol.clone(),
                    file: replaced.file.clone(),
                    section: section.name().to_string(),
                    offset: first,
                    caller: caller.map_or_else(String::new, |symbol| symbol.name().to_string()),
                });
            }
        }
    }
}

/// Where instructions start, for the decoder to go on behind what it does not know. Nobody knows on
/// x86-64.
fn starts(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> Vec<CodeAddr> {
    let (mut starts, mut at) = (Vec::new(), 0);
    while let Some(len) = bytes.get(at..).and_then(|rest| instructions::len(arch, rest)) {
        starts.push(CodeAddr::new(addr.get() + at as u64));
        at += len;
    }
    starts
}
