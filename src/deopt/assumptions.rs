//! What compiled code takes for granted, and discarding the code when that fails.
//!
//! A runtime compiles a function under assumptions: no subclass overrides this method, this global
//! is never written. It says so here before the code can run; when an assumption breaks, every
//! function that depends on it is invalidated in one transaction. Code that was compiled under an
//! assumption that has broken meanwhile is refused.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::deopt::{Error, Result};
use crate::engine::{Engine, Receipt};
use crate::memory::fork::Birth;
use crate::site::{Function, Module, ModuleId};

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
enum Known {
    Holds(Vec<Dependent>),
    Broken,
}

/// Sites of a function that follow each other, which are invalidated when an assumption breaks. They are looked up
/// when the function is said to depend on it: nothing is asked of a thousand modules when it breaks.
#[derive(Clone)]
struct Dependent {
    module: Module,
    id: ModuleId,
    sites: Range<u32>,
}

/// The assumptions of an engine's functions.
///
/// Threads that call this at once wait for each other, also while functions are invalidated; such a
/// thread must count as stopped for the runtime's [`World`](crate::publish::World), as one that
/// waits for the engine must.
pub struct Assumptions {
    known: Mutex<HashMap<Assumption, Known>>,
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
        let dependents: Vec<Dependent> = Dependent::of(function).collect();
        // Here, as later, when it breaks, the others could not be invalidated either.
        if dependents.is_empty() {
            let bare = crate::Error::NothingToInvalidate {
                function: function.name().into(),
                addr: function.addr(),
            };
            return Err(bare.into());
        }
        let on: Vec<Assumption> = on.into_iter().map(Into::into).collect();
        let broken = |assumption: &&Assumption| matches!(known.get(*assumption), Some(Known::Broken));
        // protection: broken-assumptions-stay-broken
        if let Some(broken) = on.iter().find(broken) {
            return Err(Error::AssumptionBroken {
                function: function.name().into(),
                assumption: broken.to_string(),
            });
        }
        for assumption in on {
            let found = known.entry(assumption).or_insert(Known::Holds(Vec::new()));
            if let Known::Holds(all) = found {
                all.extend_from_slice(&dependents);
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
        let found = match known.entry(assumption.into()) {
            Entry::Vacant(vacant) => vacant.insert(Known::Holds(Vec::new())),
            Entry::Occupied(occupied) => occupied.into_mut(),
        };
        let receipt = match found {
            // protection: failed-break-can-be-repeated
            Known::Holds(dependents) => invalidate(engine, dependents)?,
            Known::Broken => return Ok(Receipt::default()),
        };
        *found = Known::Broken;
        Ok(receipt)
    }

    /// Whether the assumption has broken. In a fork's child whose parent was breaking one, true: it
    /// is not known.
    pub fn is_broken(&self, assumption: impl Into<Assumption>) -> bool {
        self.birth
            .lock(&self.known)
            .is_none_or(|known| matches!(known.get(&assumption.into()), Some(Known::Broken)))
    }

    /// The assumption holds again, for functions that will be compiled; those that were invalidated
    /// stay so.
    pub fn renew(&self, assumption: impl Into<Assumption>) {
        let assumption = assumption.into();
        let Some(mut known) = self.birth.lock(&self.known) else {
            return;
        };
        if let Some(Known::Broken) = known.get(&assumption) {
            known.remove(&assumption);
        }
    }

    /// Forgets the functions of a module that has been unregistered.
    pub fn forget(&self, module: ModuleId) {
        let Some(mut known) = self.birth.lock(&self.known) else {
            return;
        };
        for found in known.values_mut() {
            if let Known::Holds(dependents) = found {
                // protection: forgotten-modules-of-assumptions
                dependents.retain(|dependent| dependent.id != module);
            }
        }
    }
}

impl Dependent {
    /// Those sites of a function which can be invalidated.
    fn of(function: &Function) -> impl Iterator<Item = Self> {
        let module = function.module();
        function.recorded(0).map(|sites| Self {
            module: module.clone(),
            id: module.id(),
            sites,
        })
    }
}

/// Every site once: a function may have been named twice, and functions may overlap.
fn invalidate(engine: &Engine, dependents: &mut [Dependent]) -> crate::Result<Receipt> {
    dependents.sort_by_key(|dependent| (dependent.id, dependent.sites.start));
    let mut all: Vec<(&Module, Range<u32>)> = Vec::with_capacity(dependents.len());
    for Dependent { module, sites, .. } in dependents {
        // Modules of two engines may have one name.
        // protection: dependents-of-one-module-go-together
        let goes_on = |last: &&mut (&Module, Range<u32>)| last.0.is_same(module) && sites.start <= last.1.end;
        match all.last_mut().filter(goes_on) {
            Some((_, before)) => before.end = before.end.max(sites.end),
            None => all.push((module, sites.clone())),
        }
    }
    engine.invalidate_sites(&all)
}

impl fmt::Debug for Assumptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.birth.lock(&self.known);
        let mut map = f.debug_map();
        for (assumption, found) in known.iter().flat_map(|known| known.iter()) {
            match found {
                Known::Holds(dependents) => map.entry(assumption, &dependents.len()),
                Known::Broken => map.entry(assumption, &"broken"),
            };
        }
        map.finish()
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;
    use crate::arch::CallShape;
    use crate::deopt::ExitStubs;
    use crate::engine::Status;
    use crate::memory::testing::objects as compiled;
    use crate::publish::SingleThreaded;

    #[test]
    fn sites_of_functions_that_overlap_are_invalidated_once() {
        // SAFETY: no code is run.
        let world = unsafe { SingleThreaded::promise() };
        let exit_stubs = ExitStubs::new().on_deopt(|frame| frame.resume());
        let engine = Engine::builder().world(world).exits(exit_stubs).build().unwrap();
        let code = engine.load(compiled::INLINE_CACHE, |_| None).unwrap();
        let shape = |id| (id == 78).then(|| CallShape::any_reg(32).result().args(1));
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe { engine.register(code, |record| shape(record.id().get())) }.unwrap();
        let count = module.sites().count() as u32;
        let of = |sites| Dependent {
            module: module.clone(),
            id: module.id(),
            sites,
        };
        let mut dependents = [of(1..count), of(0..2), of(0..1), of(0..1)];
        let receipt = invalidate(&engine, &mut dependents).unwrap();
        assert_eq!(receipt.sites, count as usize);
        assert!(
            module
                .sites()
                .all(|site| engine.status(&site) == Status::Invalidated)
        );
    }
}
