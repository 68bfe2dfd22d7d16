//! What the library has to reach, each as a ratio within one run: against the least that could do
//! the same, against what others take for it, against what the library itself takes for a part.

mod bulk;
mod loading;
mod lookups;
mod patching;
mod reading;
mod report;
mod single;
mod states;
mod threads;

pub(crate) use patching::Patches;
pub use report::{json, table};

use crate::measure::Figure;

/// What a ratio, or an amount, should be.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// Ours against theirs, at most.
    AtMost(f64),
    /// Theirs against ours, at least: so many times faster.
    Faster(f64),
    /// So many bytes, at most.
    Bytes(f64),
    /// None: how many bytes, for information.
    Stated,
    /// None: how many there are of something.
    Counted,
    /// So many nanoseconds, at most.
    Time(f64),
    /// None: for information.
    None,
}

/// One row.
#[derive(Clone, Debug)]
pub struct Speed {
    /// What was measured.
    pub what: &'static str,
    /// Nanoseconds, or bytes.
    pub ours: Figure,
    /// What it is compared with, and its nanoseconds or why there are none; nothing for an amount.
    pub theirs: Option<(&'static str, Result<Figure, &'static str>)>,
    /// What is to be reached.
    pub goal: Goal,
}

impl Speed {
    fn against(what: &'static str, [ours, theirs]: [Figure; 2], with: &'static str, goal: Goal) -> Self {
        Self {
            what,
            ours,
            theirs: Some((with, Ok(theirs))),
            goal,
        }
    }

    /// The number of which the goal speaks; `None` where what it is compared with is not there.
    pub fn reached(&self) -> Option<f64> {
        let theirs = || self.theirs.as_ref()?.1.as_ref().ok();
        match self.goal {
            Goal::Bytes(_) | Goal::Stated | Goal::Counted | Goal::Time(_) => Some(self.ours.median),
            Goal::Faster(_) => Some(theirs()?.median / self.ours.median),
            Goal::AtMost(_) | Goal::None => Some(self.ours.median / theirs()?.median),
        }
    }

    /// Whether the goal is missed. What cannot be compared is not.
    pub fn is_missed(&self) -> bool {
        self.reached().is_some_and(|reached| match self.goal {
            Goal::AtMost(goal) | Goal::Bytes(goal) | Goal::Time(goal) => reached > goal,
            Goal::Faster(goal) => reached < goal,
            Goal::Stated | Goal::Counted | Goal::None => false,
        })
    }
}

/// Measures a part of the table.
type Measure = fn() -> Vec<Speed>;

/// All rows whose part of the table is asked for; all of them where none is.
pub fn all(parts: &[String]) -> Vec<Speed> {
    let known: [(&str, Measure); 8] = [
        ("patching", patching::all),
        ("bulk", bulk::all),
        ("single", single::all),
        ("reading", reading::all),
        ("lookups", lookups::all),
        ("states", states::all),
        ("threads", threads::all),
        ("loading", loading::all),
    ];
    let asked = |name: &str| parts.is_empty() || parts.iter().any(|part| part == name);
    let asked = known.into_iter().filter(|(name, _)| asked(name));
    asked.flat_map(|(_, measure)| measure()).collect()
}
