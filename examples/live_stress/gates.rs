//! Which sites are open, and how many gates were closed.
//!
//! A site is open when threads that arrive there execute its own bytes: those that it was left with,
//! or what was settled. Nobody has to know; it is counted here to tell what was exercised.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use patchpoint::engine::{Event, Observer, Status};
use patchpoint::site::SiteKey;

use super::parts::AsLoaded;

/// Hears of the sites that are settled. An engine has one only where sites are.
#[derive(Clone, Default)]
pub(super) struct Settlements(Arc<Mutex<HashSet<SiteKey>>>);

impl Observer for Settlements {
    fn observe(&self, event: &Event<'_>) {
        if let Event::Settled { site } = event {
            self.0.lock().unwrap().insert(site.key());
        }
    }
}

impl Settlements {
    /// Those since the last call.
    pub(super) fn take(&self) -> HashSet<SiteKey> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// The gate of a site.
#[derive(Clone, Copy)]
pub(super) struct Gate {
    as_loaded: AsLoaded,
    is_open: bool,
    /// Whether code was settled behind the gate, which has to be jumped over.
    has_code: bool,
}

impl Gate {
    /// Of a site that has not been changed.
    pub(super) fn new(as_loaded: AsLoaded) -> Self {
        Self {
            as_loaded,
            is_open: as_loaded != AsLoaded::Stub,
            has_code: false,
        }
    }

    /// The site was changed to that. Returns whether that has closed it.
    pub(super) fn change(&mut self, became: Status) -> bool {
        let was_open = self.is_open;
        self.is_open = became == Status::Original && self.as_loaded != AsLoaded::Stub && !self.has_code;
        was_open && !self.is_open
    }

    /// It was settled, and is in that status: its code is in place, or it jumps where a trap was.
    pub(super) fn settle(&mut self, status: Status) {
        self.is_open = true;
        self.has_code = status != Status::Original && self.as_loaded != AsLoaded::InPlace;
    }
}

/// How many traps threads have taken in this process.
pub(super) fn traps_taken() -> u64 {
    #[cfg(target_os = "linux")]
    return patchpoint::publish::trap::Traps::install().map_or(0, |traps| traps.taken());
    #[cfg(not(target_os = "linux"))]
    0
}
