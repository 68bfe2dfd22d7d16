//! The code of a module's functions while it is registered.
//!
//! Problem: functions may overlap, by aliases, by entries in the middle of others or because a
//! damaged object says so, and an audit that reads and decodes each from its start to its end takes
//! the square of what is there. Approach: functions that overlap are one [`OverlapRun`], whose
//! bytes are read and decoded once for all of them. A function that no other overlaps is read when
//! it is looked at, and not kept.
//!
//! Cost: linear in the functions and in the bytes that one of them has.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::details::ModuleParts;
use super::functions::FunctionView;
use crate::addr::CodeAddr;
use crate::memory::CodeArea;
use crate::site::{Error, Result};
use crate::verify::DecodedFunction;

/// Reads the code of functions.
pub(super) struct FunctionCode<'a> {
    parts: &'a ModuleParts,
    /// In ascending address; each has several functions.
    runs: Vec<OverlapRun>,
}

/// Functions that overlap.
struct OverlapRun {
    start: u64,
    end: u64,
    bytes: OnceCell<Vec<u8>>,
}

/// What has been decoded, by the start of the run.
pub(super) type DecodedRuns = HashMap<u64, Rc<Decoded>>;

/// The instructions of a function, or of all functions of a run.
pub(super) struct Decoded {
    outline: DecodedFunction,
}

impl<'a> FunctionCode<'a> {
    pub(super) fn new(parts: &'a ModuleParts) -> Self {
        let mut runs: Vec<OverlapRun> = Vec::new();
        let mut last: Option<(u64, u64)> = None;
        for index in 0..parts.functions.len() as u32 {
            let function = parts.functions.get(index);
            let function = function.expect("the number is below that of functions");
            // One that is not all in code is refused when it is read.
            if function.len.get() == 0 || area(parts, &function).is_none() {
                continue;
            }
            let start = function.addr.get();
            let end = start.saturating_add(function.len.get().into());
            match last.filter(|(_, last_end)| start < *last_end) {
                Some((run_start, run_end)) => {
                    let run = (run_start, end.max(run_end));
                    match runs.last_mut().filter(|last| last.start == run_start) {
                        Some(known) => known.end = run.1,
                        None => runs.push(OverlapRun {
                            start: run.0,
                            end: run.1,
                            bytes: OnceCell::new(),
                        }),
                    }
                    last = Some(run);
                }
                None => last = Some((start, end)),
            }
        }
        Self { parts, runs }
    }

    /// The run that a function is one of.
    fn run(&self, function: &FunctionView<'_>) -> Option<&OverlapRun> {
        let start = function.addr.get();
        let after = self.runs.partition_point(|run| run.start <= start);
        // protection: functions-that-overlap-are-read-once
        let run = after.checked_sub(1).and_then(|before| self.runs.get(before))?;
        (function.len.get() > 0 && start < run.end && area(self.parts, function).is_some()).then_some(run)
    }

    /// The code of a function; it must lie in one of the module's code ranges. That of a function
    /// which no other overlaps is read into the list.
    pub(super) fn of<'b>(&'b self, function: &FunctionView<'_>, into: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let len = function.len.as_usize();
        let Some(run) = self.run(function) else {
            into.resize(len, 0);
            read(self.parts, function, function.addr, into)?;
            return Ok(into);
        };
        let bytes = self.bytes(run, function)?;
        let start = (function.addr.get() - run.start) as usize;
        // The run has all bytes of its functions.
        let code = bytes.get(start..).and_then(|code| code.get(..len));
        code.ok_or_else(|| outside(function))
    }

    /// Some of a function's code.
    pub(super) fn part_of(
        &self,
        function: &FunctionView<'_>,
        start: usize,
        len: usize,
    ) -> Result<Option<Vec<u8>>> {
        let end = start.checked_add(len);
        if end.is_none_or(|end| end > function.len.as_usize()) {
            return Ok(None);
        }
        let mut code = vec![0; len];
        let at = CodeAddr::new(function.addr.get().saturating_add(start as u64));
        read(self.parts, function, at, &mut code)?;
        Ok(Some(code))
    }

    /// The instructions of a function whose code this is. `known` are ascending addresses at which
    /// instructions start, of this function and of others, the same for all calls with the same
    /// `runs`.
    pub(super) fn decoded(
        &self,
        function: &FunctionView<'_>,
        code: &[u8],
        known: &[CodeAddr],
        runs: &mut DecodedRuns,
    ) -> Result<Rc<Decoded>> {
        let Some(run) = self.run(function) else {
            let starts = [function.addr];
            return Ok(Rc::new(self.decode(function.addr, code, &starts, known)));
        };
        if let Some(decoded) = runs.get(&run.start) {
            return Ok(Rc::clone(decoded));
        }
        let starts = self.parts.functions.starts_between(run.start, run.end);
        let bytes = self.bytes(run, function)?;
        let decoded = Rc::new(self.decode(CodeAddr::new(run.start), bytes, &starts, known));
        runs.insert(run.start, Rc::clone(&decoded));
        Ok(decoded)
    }

    /// Decodes from each start, none of which is before `addr`, to the next: where a function
    /// starts an instruction does, whatever the bytes before it decode as.
    fn decode(&self, addr: CodeAddr, code: &[u8], starts: &[CodeAddr], known: &[CodeAddr]) -> Decoded {
        let mut outline = DecodedFunction::default();
        let mut starts = starts.iter().peekable();
        while let Some(start) = starts.next() {
            let offset = |start: &CodeAddr| (start.get() - addr.get()) as usize;
            let to = starts
                .peek()
                .map_or(code.len(), |next| offset(next).min(code.len()));
            let bytes = code.get(offset(start)..to);
            let bytes = bytes.expect("functions of a run start in its bytes, in their order");
            count(bytes.len());
            outline.extend(self.parts.arch, *start, bytes, known);
        }
        Decoded { outline }
    }

    fn bytes<'r>(&self, run: &'r OverlapRun, function: &FunctionView<'_>) -> Result<&'r [u8]> {
        if let Some(bytes) = run.bytes.get() {
            return Ok(bytes);
        }
        let mut bytes = vec![0; usize::try_from(run.end - run.start).map_err(|_| outside(function))?];
        read(self.parts, function, CodeAddr::new(run.start), &mut bytes)?;
        Ok(run.bytes.get_or_init(|| bytes))
    }
}

impl Decoded {
    /// Whether the address is known to be inside of an instruction, behind its start.
    pub(super) fn splits(&self, addr: CodeAddr) -> bool {
        self.outline.splits(addr)
    }
}

fn outside(function: &FunctionView<'_>) -> Error {
    Error::FunctionOutsideCode {
        function: function.name.into(),
        addr: function.addr,
        len: function.len,
    }
}

/// The range of code that has all bytes of a function.
fn area<'p>(parts: &'p ModuleParts, function: &FunctionView<'_>) -> Option<&'p CodeArea> {
    let area = CodeArea::containing(&parts.areas, function.addr)?;
    area.range()
        .contains_bytes(function.addr, function.len.get().into())
        .then_some(area)
}

/// Reads bytes of a function, or of the run that it is in.
fn read(parts: &ModuleParts, function: &FunctionView<'_>, at: CodeAddr, bytes: &mut [u8]) -> Result<()> {
    if function.len.get() == 0 {
        return Ok(());
    }
    let area = area(parts, function).ok_or_else(|| outside(function))?;
    count(bytes.len());
    Ok(area.memory().read(at, bytes)?)
}

#[cfg(test)]
thread_local! {
    /// How many bytes were read or decoded by this thread.
    static WORK: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
pub(super) fn count(bytes: usize) {
    WORK.set(WORK.get() + bytes as u64);
}

#[cfg(not(test))]
pub(super) const fn count(_: usize) {}

/// How many bytes of code the audits of this thread have read or decoded.
#[cfg(test)]
pub(super) fn work() -> u64 {
    WORK.get()
}
