//! What compiled code takes for granted, and discarding the code when that fails.
//!
//! A runtime compiles a function under assumptions: no subclass overrides this method, this global
//! is never written. It says so here before the code can run; when an assumption breaks, every
//! function that depends on it is invalidated in one transaction. Code that was compiled under an
//! assumption that has broken meanwhile is refused.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::deopt::{Error, Result};
use crate::engine::{Engine, Receipt};
use crate::memory::fork::Birth;
use crate::site::{Function, ModuleId};

/// Names an assumption, by a number or a name that the runtime chooses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Assumption(Name);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Name {
    Number(u64),
    Text(Arc<str>),
}

impl From<u64> for Assumption {
    fn from(number: u64) -> Self {
        Self(Name::Number(number))
    }
}

impl From<&str> for Assumption {
    fn from(name: &str) -> Self {
        Self(Name::Text(name.into()))
    }
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Name::Number(number) => write!(f, "{number}"),
            Name::Text(name) => write!(f, "`{name}`"),
        }
    }
}

impl fmt::Debug for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is known of an assumption that somebody depends on, or that has broken.
enum Installed {
    Holds(Vec<Function>),
    Broken,
}

/// The assumptions of an engine's functions.
///
/// Threads that call this at once wait for each other, also while functions are invalidated; such a
/// thread must count as stopped for the runtime's [`World`](crate::publish::World), as one that
/// waits for the engine must.
pub struct Assumptions {
    known: Mutex<HashMap<Assumption, Installed>>,
    birth: Birth,
}

impl Default for Assumptions {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            birth: Birth::here(),
        }
    }
}

impl Assumptions {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The function is valid only while these hold. To be said before its code can run.
    ///
    /// # Errors
    /// The engine's [`NothingToInvalidate`](crate::Error::NothingToInvalidate) if the function has no site that could be;
    /// [`Error::AssumptionBroken`] if one of them does not hold any more: the function depends on none of them then, and is not to
    /// be entered. [`memory::Error::EngineForked`](crate::memory::Error::EngineForked) in a fork's child whose parent was breaking one.
    pub fn depend<A: Into<Assumption>>(
        &self,
        function: &Function,
        on: impl IntoIterator<Item = A>,
    ) -> Result<()> {
        let mut known = self
            .birth
            .lock(&self.known)
            .ok_or(Error::Memory(crate::memory::Error::EngineForked))?;
        // Here, as later, when it breaks, the others could not be invalidated either.
        if !function.sites().any(|site| site.is_recorded()) {
            let bare = crate::Error::NothingToInvalidate {
                function: function.name().into(),
                addr: function.addr(),
            };
            return Err(bare.into());
        }
        let on: Vec<Assumption> = on.into_iter().map(Into::into).collect();
        let broken = |assumption: &&Assumption| matches!(known.get(*assumption), Some(Installed::Broken));
        // protection: broken-assumptions-stay-broken
        if let Some(broken) = on.iter().find(broken) {
            return Err(Error::AssumptionBroken {
                function: function.name().into(),
                assumption: broken.to_string(),
            });
        }
        for assumption in on {
            let installed = known
                .entry(assumption)
                .or_insert_with(|| Installed::Holds(Vec::new()));
            if let Installed::Holds(functions) = installed {
                functions.push(function.clone());
            }
        }
        Ok(())
    }

    /// The assumption does not hold any more: every function that depends on it is invalidated, in
    /// one transaction. When this returns, no thread begins to execute a site of theirs as it was.
    /// Breaking a broken one changes nothing.
    ///
    /// # Errors
    /// As [`Transaction::commit`](crate::engine::Transaction::commit): the assumption counts as holding then, and can be
    /// broken again.
    pub fn break_one(&self, engine: &Engine, assumption: impl Into<Assumption>) -> crate::Result<Receipt> {
        engine.check_here()?;
        let mut known = self.known.lock();
        let installed = match known.entry(assumption.into()) {
            Entry::Vacant(vacant) => vacant.insert(Installed::Holds(Vec::new())),
            Entry::Occupied(occupied) => occupied.into_mut(),
        };
        let functions = match installed {
            Installed::Holds(functions) => core::mem::take(functions),
            Installed::Broken => return Ok(Receipt::default()),
        };
        match invalidate(engine, &functions) {
            Ok(receipt) => {
                *installed = Installed::Broken;
                Ok(receipt)
            }
            Err(error) => {
                // protection: failed-break-can-be-repeated
                *installed = Installed::Holds(functions);
                Err(error)
            }
        }
    }

    /// Whether the assumption has broken. In a fork's child whose parent was breaking one, true: it
    /// is not known.
    pub fn is_broken(&self, assumption: impl Into<Assumption>) -> bool {
        self.birth
            .lock(&self.known)
            .is_none_or(|known| matches!(known.get(&assumption.into()), Some(Installed::Broken)))
    }

    /// The assumption holds again, for functions that will be compiled; those that were invalidated
    /// stay so.
    pub fn renew(&self, assumption: impl Into<Assumption>) {
        let assumption = assumption.into();
        let Some(mut known) = self.birth.lock(&self.known) else {
            return;
        };
        if let Some(Installed::Broken) = known.get(&assumption) {
            known.remove(&assumption);
        }
    }

    /// Forgets the functions of a module that has been unregistered.
    pub fn forget(&self, module: ModuleId) {
        let Some(mut known) = self.birth.lock(&self.known) else {
            return;
        };
        for installed in known.values_mut() {
            if let Installed::Holds(functions) = installed {
                // protection: forgotten-modules-of-assumptions
                functions.retain(|function| function.module().id() != module);
            }
        }
    }
}

/// Every function once, whatever it depends on twice.
fn invalidate(engine: &Engine, functions: &[Function]) -> crate::Result<Receipt> {
    // Each is asked once: it may be in a module of its own, of which nothing is in the caches.
    let keyed = functions
        .iter()
        .map(|function| ((function.module().id(), function.addr()), function));
    let mut distinct: Vec<_> = keyed.collect();
    distinct.sort_by_key(|(key, _)| *key);
    distinct.dedup_by_key(|(key, _)| *key);
    let mut transaction = engine.transaction();
    for (_, function) in distinct {
        transaction.invalidate(function)?;
    }
    transaction.commit()
}

impl fmt::Debug for Assumptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.birth.lock(&self.known);
        let mut map = f.debug_map();
        for (assumption, installed) in known.iter().flat_map(|known| known.iter()) {
            match installed {
                Installed::Holds(functions) => map.entry(assumption, &functions.len()),
                Installed::Broken => map.entry(assumption, &"broken"),
            };
        }
        map.finish()
    }
}
