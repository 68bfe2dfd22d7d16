//! Recording calls: the edges from code to functions, by the instructions that they fill.
//!
//! Of a call that the compiler has resolved itself, mostly one within a section to a function that
//! is not global, there is no edge, and it is not found; nor are calls through pointers and the
//! global offset table.
//!
//! On PowerPC a call that is to be retargeted later has to save and restore the caller's TOC
//! pointer, which the linker does only for calls that leave the graph. So recorded calls of its own
//! functions name an absolute symbol in their place, which gets the function's address when that is
//! known. Cost: linear in symbols and edges.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::collections::HashMap;

use llvm_stackmaps::addr::{CodeAddr, Len};

use crate::error::Result;
use crate::graph::{Definition, Edge, Graph, Scope, Section, SectionRole, Symbol, SymbolId};
use crate::layout::{Layout, SegmentAddrs};
use crate::phases::Resolved;
use crate::relocation::Formula;
use crate::stubs::{self, has_room_to_restore};

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

/// Functions of a graph whose calls go through stubs, each with the symbol that the calls name
/// instead.
#[derive(Debug)]
#[must_use = "the symbols have no addresses until it resolves them"]
pub struct CalledByStub(HashMap<SymbolId, SymbolId>);

impl Graph<'_> {
    /// Makes the calls of every function in the graph for which `wanted` returns true go through a
    /// stub that saves the caller's TOC pointer, and restore it: so they may be retargeted to
    /// functions with another one. Does nothing where calls keep nothing.
    ///
    /// What is returned has to [resolve](CalledByStub::resolve) the symbols before fix-ups. A call
    /// without room for the restore stays as it is.
    ///
    /// # Errors
    /// [`Error::ImageTooLarge`](crate::Error::ImageTooLarge).
    pub fn call_by_stubs(&mut self, mut wanted: impl FnMut(&str) -> bool) -> Result<CalledByStub> {
        let mut by_stub = HashMap::new();
        if stubs::restore_behind_leaving(self.arch()).is_none() {
            return Ok(CalledByStub(by_stub));
        }
        for index in 0..self.symbols.len() {
            let Some(symbol) = self.symbols.get(index) else {
                break;
            };
            let inside = matches!(symbol.definition, Definition::Section(..));
            if !(inside && symbol.function && wanted(&symbol.name)) {
                continue;
            }
            let mut alias = Symbol::new(symbol.name.clone(), Definition::Absolute(0)).function(symbol.size);
            alias.scope = Scope::Local;
            let (function, alias) = (SymbolId(index as u32), self.add_symbol(alias)?);
            by_stub.insert(function, alias);
        }
        self.retarget_calls(&by_stub);
        Ok(CalledByStub(by_stub))
    }

    fn retarget_calls(&mut self, by_stub: &HashMap<SymbolId, SymbolId>) {
        let arch = self.arch();
        let code = self
            .sections
            .iter_mut()
            .filter(|section| section.role == SectionRole::Code);
        for section in code {
            for edge in &mut section.edges {
                let Some(alias) = by_stub.get(&edge.target) else {
                    continue;
                };
                // One that is outside of the section is refused when it is applied.
                let call = section.bytes.get(edge.offset as usize..);
                let is_call = edge.relocation.formula() == Formula::Branch && edge.addend == 0;
                if is_call && call.is_some_and(|call| has_room_to_restore(arch, call)) {
                    edge.target = *alias;
                }
            }
        }
    }
}

impl CalledByStub {
    /// Gives those symbols the addresses of the functions.
    pub fn resolve(&self, resolved: &mut Resolved<'_>) {
        for (function, alias) in &self.0 {
            if let Some(addr) = resolved.symbol_addr(*function) {
                resolved.set_symbol_addr(*alias, addr);
            }
        }
    }
}

impl Resolved<'_> {
    /// The calls of every function for which `wanted` returns true: see [`Layout::calls`].
    pub fn calls(&self, wanted: impl FnMut(&str) -> bool) -> Vec<RecordedCall> {
        let (layout, addrs) = self.layout();
        layout.calls(addrs, wanted)
    }
}

impl Layout<'_> {
    /// The calls of every function for which `wanted` returns true, when the segments are at these
    /// addresses. It is asked once for each symbol that code refers to.
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
        let range =
            patchpoint_isa::calls::around(arch, section.bytes(), edge.offset() as usize, edge.addend())?;
        Some((Len::new(range.start as u32), Len::new(range.len() as u32)))
    }
}
