//! Recording calls: the edges that lead from code to functions, by the instructions that they fill.
//!
//! Of a call that the compiler has resolved itself, mostly one within a section to a function that is not global, there is no
//! edge, and it is not found; nor are calls through pointers and the global offset table.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::graph::{Definition, Edge, Section, SectionRole};
use super::layout::{Layout, SegmentAddrs};
use super::relocation::Formula;
use crate::addr::{CodeAddr, Len};

/// A call, or a jump from one function to the start of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    /// The symbol that is called.
    pub callee: String,
    /// Where the instruction starts.
    pub addr: CodeAddr,
    /// Its length in bytes.
    pub len: Len,
}

impl Layout<'_> {
    /// The calls of every function for which `wanted` returns true, when the segments are at these addresses. It is asked once
    /// for each symbol that code refers to.
    pub fn calls(&self, addrs: &SegmentAddrs, mut wanted: impl FnMut(&str) -> bool) -> Vec<RecordedCall> {
        let graph = self.graph();
        let mut answers: Vec<Option<bool>> = alloc::vec![None; graph.symbols().len()];
        let mut calls = Vec::new();
        for (index, section) in graph.sections().iter().enumerate() {
            let (SectionRole::Code, Some(start)) = (section.role(), self.section_addr(index, addrs)) else {
                continue;
            };
            for edge in section.edges() {
                let symbol = graph.symbols().get(edge.target().index());
                let (Some(symbol), Some(answer)) = (symbol, answers.get_mut(edge.target().index())) else {
                    continue;
                };
                let is_function =
                    symbol.function || matches!(symbol.definition(), Definition::Undefined { .. });
                if !is_function || !*answer.get_or_insert_with(|| wanted(symbol.name())) {
                    continue;
                }
                if let Some((offset, len)) = self.call(section, edge) {
                    calls.extend(start.plus(offset).map(|addr| RecordedCall {
                        callee: symbol.name().to_string(),
                        addr,
                        len,
                    }));
                }
            }
        }
        calls.sort_by_key(|call| call.addr);
        calls
    }

    /// The offset and length of the call that an edge fills.
    fn call(&self, section: &Section<'_>, edge: &Edge) -> Option<(Len, Len)> {
        let formula = edge.relocation().formula();
        if !formula.is_branch() && formula != Formula::Relative {
            return None;
        }
        let arch = self.graph().arch();
        let range = arch.call_around(section.bytes(), edge.offset() as usize, edge.addend())?;
        Some((Len::new(range.start as u32), Len::new(range.len() as u32)))
    }
}
