//! Choosing the strategy for memory that the runtime allocated.

#![allow(unsafe_code)]

use std::fmt;
use std::sync::Arc;
use std::vec::Vec;

use crate::addr::CodeRange;
use crate::memory::{Error, Result};

use super::{CodeArea, CodeMemory, PageRun, ProcMem, Remap, Strategy, Toggle, remap};
use crate::image::AdoptedCode;

/// Which strategy is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum StrategyChoice {
    /// The first that works, of ProcMem and Toggle; before them Remap, if a page of it is remapped
    /// already, as the others cannot write such. A module that is
    /// [registered live](crate::engine::Registration::live) needs Remap, and gets it then.
    ///
    /// Remap is not taken for everything that it can be had for: it changes what the owner of the
    /// pages can do with them (see [`Remap`]), for a speed that a module which is patched under a
    /// stopped world does not need.
    #[default]
    Auto,
    /// Remap or an error.
    Remap,
    /// ProcMem or an error.
    ProcMem,
    /// Toggle or an error.
    Toggle,
}

impl StrategyChoice {
    fn candidates(self, range: CodeRange) -> Result<&'static [Strategy]> {
        Ok(match self {
            // protection: auto-joins-remapped-pages
            Self::Auto if is_remapped(range)? => &[Strategy::Remap],
            // protection: auto-falls-back
            Self::Auto => &[Strategy::ProcMem, Strategy::Toggle],
            Self::Remap => &[Strategy::Remap],
            Self::ProcMem => &[Strategy::ProcMem],
            Self::Toggle => &[Strategy::Toggle],
        })
    }
}

/// Whether some page of a range is remapped.
fn is_remapped(range: CodeRange) -> Result<bool> {
    let pages = PageRun::covering(&mut [range])?;
    Ok(pages.iter().any(|run| remap::is_remapped(run.range())))
}

/// What came of trying one strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The strategy.
    pub strategy: Strategy,
    /// Why it was not taken; `None` for the one that was.
    pub refusal: Option<Error>,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.refusal {
            None => write!(f, "{} works and was chosen", self.strategy),
            Some(error) => fmt::Display::fmt(error, f),
        }
    }
}

/// Foreign memory with its strategy.
#[derive(Clone, Debug)]
pub struct Adopted {
    memory: Arc<dyn CodeMemory>,
    verdicts: Vec<Verdict>,
}

impl Adopted {
    /// The memory.
    #[must_use]
    pub fn memory(&self) -> Arc<dyn CodeMemory> {
        Arc::clone(&self.memory)
    }

    /// What was tried in which order; the last was chosen.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

impl fmt::Display for Adopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, verdict) in self.verdicts.iter().enumerate() {
            write!(f, "{}{verdict}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// Registers code memory that someone else allocated, with the strategy asked for.
///
/// # Safety
///
/// As long as the result's memory exists: the range stays mapped as it is, read-execute; nobody
/// else changes its bytes or its protection; its owner agrees to its being changed, and to its
/// pages being made read-write while the world is stopped. What is written through the memory is as
/// for [`CodeArea::writable`]. Where it may be remapped, as asked for or because a page is so
/// already, what [`Remap::register`] demands of all of the pages.
///
/// # Errors
///
/// The refusal of the last strategy that was tried, mostly [`Error::StrategyUnavailable`].
pub unsafe fn adopt(range: CodeRange, ask: StrategyChoice) -> Result<Adopted> {
    let mut verdicts = Vec::new();
    for strategy in ask.candidates(range)?.iter().copied() {
        // SAFETY: the caller's promise covers all of them.
        match unsafe { register(range, strategy) } {
            Ok(memory) => {
                verdicts.push(Verdict {
                    strategy,
                    refusal: None,
                });
                return Ok(Adopted { memory, verdicts });
            }
            Err(error) => verdicts.push(Verdict {
                strategy,
                refusal: Some(error),
            }),
        }
    }
    let last = verdicts.pop().and_then(|verdict| verdict.refusal);
    Err(last.unwrap_or(Error::OutsideMemory {
        at: range.start(),
        len: range.len(),
        memory: range,
    }))
}

/// Finds the memory of every function of adopted code. Functions on the same or adjacent pages
/// share one.
///
/// # Errors
///
/// As [`adopt`], for the first pages that are refused.
pub fn adopt_code(code: &AdoptedCode, ask: StrategyChoice) -> Result<Vec<CodeArea>> {
    // SAFETY: the promise at the code's construction covers its functions and the pages they lie in.
    unsafe { adopt_ranges(code.image().code.clone(), ask) }
}

/// Gives adopted code memory that can be written live: Remap in place of what Auto has chosen.
///
/// # Errors
///
/// As [`adopt`]. The strategies that were chosen are gone then.
pub(crate) fn adopt_live(areas: Vec<CodeArea>) -> Result<Vec<CodeArea>> {
    let ranges = areas.iter().map(CodeArea::range).collect();
    // Whoever writes them otherwise keeps them from being remapped.
    drop(areas);
    // SAFETY: the areas were made of adopted code, for which that was promised.
    unsafe { adopt_ranges(ranges, StrategyChoice::Remap) }
}

/// The memory of ranges of code.
///
/// # Safety
///
/// As for [`adopt`], for all of them and what lies between those on adjacent pages.
unsafe fn adopt_ranges(mut ranges: Vec<CodeRange>, ask: StrategyChoice) -> Result<Vec<CodeArea>> {
    let runs = PageRun::covering(&mut ranges)?;
    let mut areas = Vec::with_capacity(ranges.len());
    for run in runs {
        let inside = || ranges.iter().filter(|range| run.range().contains(range.start()));
        let both = inside().next().zip(inside().next_back());
        let (first, last) = both.expect("a run covers the pages of some function");
        let len = last.end().get() - first.start().get();
        let span = CodeRange::new(first.start(), len).expect("it ends with the last of them");
        // SAFETY: the caller's promise.
        let memory = unsafe { adopt(span, ask) }?.memory();
        for range in inside() {
            areas.push(CodeArea::new(*range, &memory)?);
        }
    }
    Ok(areas)
}

/// Registers with one strategy.
///
/// # Safety
///
/// As for [`adopt`].
unsafe fn register(range: CodeRange, strategy: Strategy) -> Result<Arc<dyn CodeMemory>> {
    Ok(match strategy {
        // SAFETY: the caller's promise.
        Strategy::Remap => Arc::new(unsafe { Remap::register(range) }?),
        // SAFETY: the caller's promise.
        Strategy::ProcMem => Arc::new(unsafe { ProcMem::register(range) }?),
        // SAFETY: the caller's promise.
        _ => Arc::new(unsafe { Toggle::register(range) }?),
    })
}
