//! What was exercised, and whether that is all that was promised.

use super::parts::SiteKind;
use super::{Config, behind};

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) executions: u64,
    pub(super) kinds: [KindTotals; SiteKind::ALL.len()],
    pub(crate) invalidations: u64,
    pub(crate) modules: u64,
    pub(crate) reclaimed: u64,
    /// Gates that were closed and opened, and sites that waited for a grace period.
    pub(crate) closes: u64,
    pub(crate) opens: u64,
    pub(crate) waits: u64,
    /// Traps that threads took at gates.
    pub(crate) traps: u64,
    pub(crate) deoptimized: u64,
    /// Profilers' signals, those that found a thread behind a gate, children, threads that came and
    /// went, patches by handlers.
    pub(crate) signals: u64,
    pub(crate) behind: u64,
    pub(crate) children: u64,
    pub(crate) threads: u64,
    pub(crate) patches_by_handlers: u64,
    pub(crate) failures: u64,
}

/// What was done to the sites of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KindTotals {
    /// Also those that call a function.
    pub(crate) patches: u64,
    pub(crate) calls: u64,
    pub(crate) restores: u64,
    /// How many modules were of code that had been one before.
    pub(crate) again: u64,
}

impl Totals {
    pub(crate) fn of_kind(&mut self, kind: SiteKind) -> &mut KindTotals {
        &mut self.kinds[kind as usize]
    }

    pub(crate) fn kind(&self, kind: SiteKind) -> KindTotals {
        self.kinds[kind as usize]
    }

    pub(crate) fn patches(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.patches).sum()
    }

    pub(crate) fn restores(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.restores).sum()
    }

    /// Whether the writer has done everything at least once, and readers met it.
    pub(super) fn has_all(&self, config: &Config) -> bool {
        let is_done = |kind: &SiteKind| {
            let done = self.kind(*kind);
            let again = !kind.comes_again() || done.again > 0;
            done.patches > 0 && done.calls > 0 && done.restores > 0 && again
        };
        let by_traps = |kind: &SiteKind| matches!(kind, SiteKind::Unaligned | SiteKind::OwnText);
        let invalidates = config.sites.iter().any(|kind| !kind.is_running());
        // Elsewhere hardly anybody is ever behind a gate: what is not in place is in stubs.
        let in_place =
            |kind: &SiteKind| matches!(kind, SiteKind::Loaded | SiteKind::Told | SiteKind::Remapped);
        let finds =
            config.settles && config.disturbed && config.sites.iter().any(in_place) && behind::CAN_LOOK;
        config.sites.iter().all(is_done)
            && self.reclaimed > 0
            && self.closes > 0
            && (self.opens > 0 || !config.settles)
            && ((self.invalidations > 0 && self.deoptimized > 0) || !invalidates)
            && (self.traps > 0 || !config.sites.iter().any(by_traps))
            && (self.behind > 0 || !finds)
    }
}
