//! Who wants to know what the engine does: an [`Observer`] is told of each event as it happens.
//!
//! Problem: profilers, debuggers and logs have to know where stubs stand and what was changed when, and an engine that
//! nobody watches is not to pay for it. Approach: the engine tells its observers when a change is complete and its own
//! books are in order, so that an observer which panics leaves the engine as it is; the clock is read only where
//! there is an observer.
//!
//! Invariants: the address of code is told ([`Event::Placed`]) before the change that leads there, and its return
//! ([`Event::Reclaimed`]) before its bytes are given to anyone else.

use std::time::{Duration, Instant};

use super::state::{Ramp, RampKind, SiteState, States, Status};
use super::{Role, Shared, StackAt};
use crate::addr::CodeRange;
use crate::arch::SiteKind;
use crate::error::{Error, Result};
use crate::memory::{StubPool, StubSlot};
use crate::site::{Module, Site, SiteKey};

/// Is told what an engine does: given to [`Builder::observer`](super::Builder::observer). A closure is one.
///
/// It is called on the thread that makes the change, mostly with the engine's lock held, so that events come in the
/// order in which things happen. It must not use the engine, which would wait for itself. What it needs of the engine
/// it can ask for later, on another thread or when the change has returned.
pub trait Observer: Send + Sync {
    /// Something has happened.
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

/// What has happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A module was registered, and armed if it is live.
    Registered {
        /// The module.
        module: &'a Module,
    },
    /// A module was unregistered. What belonged to its sites has been told as reclaimed.
    Unregistered {
        /// The module.
        module: &'a Module,
    },
    /// Out-of-line code of a site is in place.
    Placed(Placed<'a>),
    /// A site was patched, restored, invalidated or redirected.
    Changed(Changed<'a>),
    /// A transaction was refused, or has failed.
    Refused(Refused<'a>),
    /// Out-of-line code is given back: no thread is in it.
    Reclaimed(Reclaimed),
}

/// Out-of-line code of a site that is in place.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Placed<'a> {
    /// The site.
    pub site: &'a Site,
    /// What the code is.
    pub kind: CodeKind,
    /// Where it stands.
    pub range: CodeRange,
    /// The change of the site that it was made for; 0 if for none.
    pub generation: u64,
    stack: &'a [StackAt],
    stubs: &'a StubPool,
}

impl Placed<'_> {
    /// Its bytes.
    ///
    /// # Errors
    /// [`Error::Forked`] in a fork's child.
    pub fn code(&self) -> Result<Vec<u8>> {
        self.stubs.read(self.range)
    }

    /// How the stack differs from that at the site, by ascending offsets of the code.
    #[must_use]
    pub fn stack(&self) -> &[StackAt] {
        const SAME: StackAt = StackAt {
            from: 0,
            lowered: 0,
            link: None,
        };
        match self.stack {
            [] => &[SAME],
            some => some,
        }
    }
}

/// What out-of-line code of a site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodeKind {
    /// A sequence that did not fit, or of a live site.
    Stub,
    /// LLVM's own call, moved out of a site that was armed.
    Armed,
    /// A jump between a call site and what it calls. It runs in no frame of the site's function, but as the first
    /// instruction of what is called would.
    Call,
    /// A stub that the runtime has published.
    Published,
    /// A way to a handler.
    Ramp(Role),
}

impl CodeKind {
    pub(super) const fn of(ramp: &Ramp) -> Self {
        Self::Ramp(match ramp.kind {
            RampKind::Miss => Role::Miss,
            RampKind::Deopt | RampKind::Invalidated => Role::Deopt,
        })
    }

    /// What is of this kind at other sites.
    fn at(site: &Site, others: Self) -> Self {
        match site.shape().kind() {
            SiteKind::Call => Self::Call,
            _ => others,
        }
    }

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stub => "stub",
            Self::Armed => "armed",
            Self::Call => "call",
            Self::Published => "published",
            Self::Ramp(Role::Miss) => "miss ramp",
            Self::Ramp(Role::Deopt) => "deopt ramp",
        }
    }
}

/// A site that was changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Changed<'a> {
    /// The site.
    pub site: &'a Site,
    /// What it became: restored is [`Status::Original`].
    pub became: Status,
    /// Counts the changes of the site from 1.
    pub generation: u64,
    /// Of how many sites the transaction was.
    pub sites: usize,
    /// How long the transaction was prepared: assembled, checked, its stubs filled.
    pub prepared: Duration,
    /// How long it was committed: compared, written, published, read back.
    pub committed: Duration,
}

/// A transaction that was refused when it was prepared, or that failed when it was committed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refused<'a> {
    /// Why.
    pub error: &'a Error,
    /// The site for which it is refused, where it is one, and it is registered.
    pub site: Option<&'a Site>,
    /// How often that site had been changed.
    pub generation: Option<u64>,
    /// The time until then.
    pub after: Duration,
}

/// Out-of-line code that is given back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reclaimed {
    /// The site it was made for.
    pub site: SiteKey,
    /// The change of the site that it was made for; 0 if for none.
    pub generation: u64,
    /// Where it stood.
    pub range: CodeRange,
    /// How long it waited until no thread was in it, since nothing led there any more. `None` if it did not have to.
    pub waited: Option<Duration>,
}

/// Whose out-of-line code is.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) site: SiteKey,
    pub(super) generation: u64,
}

/// Those that are told. Most engines have none.
#[derive(Default)]
pub(super) struct Observers(pub(super) Vec<Box<dyn Observer>>);

impl Observers {
    /// Whether anybody is told.
    #[inline]
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// The time, if anybody is told.
    #[inline]
    pub(super) fn now(&self) -> Option<Instant> {
        self.any().then(Instant::now)
    }

    #[cold]
    pub(super) fn tell(&self, event: &Event<'_>) {
        self.0.iter().for_each(|observer| observer.observe(event));
    }

    /// Code is about to be given back.
    pub(super) fn reclaimed(&self, owner: Owner, slot: &StubSlot, waited: Option<Duration>) {
        if self.any() {
            self.tell(&Event::Reclaimed(Reclaimed {
                site: owner.site,
                generation: owner.generation,
                range: slot.range(),
                waited,
            }));
        }
    }
}

impl Shared {
    /// A transaction that began then was refused; returns why.
    #[cold]
    pub(super) fn refused(&self, states: &States, error: Error, since: Option<Instant>) -> Error {
        if let Some(since) = since {
            let after = since.elapsed();
            let site = error.site().map(|site| site.addr);
            let site = site.and_then(|addr| self.table.read().by_addr(addr));
            let state = site.as_ref().and_then(|site| states.of(site.key()));
            self.observers.tell(&Event::Refused(Refused {
                error: &error,
                site: site.as_ref(),
                // What has no state was never changed.
                generation: site
                    .as_ref()
                    .map(|_| state.map_or(0, |state| state.standing.generation)),
                after,
            }));
        }
        error
    }

    /// Tells that a sequence was published for a site.
    #[cold]
    pub(super) fn tell_published(&self, site: &Site, code: &[(CodeKind, CodeRange, Box<[StackAt]>)]) {
        for (kind, range, stack) in code {
            self.tell_code(site, *kind, *range, 0, stack);
        }
    }

    /// Tells that a module was registered, and its sites armed.
    pub(super) fn tell_registered(&self, module: &Module, states: &States) {
        if !self.observers.any() {
            return;
        }
        self.observers.tell(&Event::Registered { module });
        for site in module.sites().filter(|_| module.is_live()) {
            let armed = states
                .of(site.key())
                .and_then(|state| state.lasting.live.as_ref());
            for stub in armed.iter().flat_map(|armed| &armed.stubs) {
                self.tell_placed(&site, CodeKind::at(&site, CodeKind::Armed), stub.range(), 0);
            }
        }
    }

    fn tell_placed(&self, site: &Site, kind: CodeKind, range: CodeRange, generation: u64) {
        self.tell_code(site, kind, range, generation, &[]);
    }

    fn tell_code(&self, site: &Site, kind: CodeKind, range: CodeRange, generation: u64, stack: &[StackAt]) {
        self.observers.tell(&Event::Placed(Placed {
            site,
            kind,
            range,
            generation,
            stack,
            stubs: &self.stubs,
        }));
    }

    /// Tells of the ramps that were made for a change of a site.
    fn tell_ramps(&self, site: &Site, state: &SiteState, generation: u64) {
        let ramps = state.lasting.ramps.iter();
        for ramp in ramps.filter(|ramp| ramp.owner.generation == generation) {
            let range = ramp.slot.range();
            self.tell_code(site, CodeKind::of(ramp), range, generation, &ramp.stack);
        }
    }
}

/// Tells of the transaction that was committed last.
#[cold]
pub(super) fn committed(shared: &Shared, states: &States, since: Instant) {
    let committed = since.elapsed();
    let Some(work) = states.newest() else {
        return;
    };
    for (item, part) in work.both() {
        let Some(state) = states.at(part.place) else {
            continue;
        };
        let generation = state.standing.generation;
        let stub = state.standing.stub.as_ref();
        if let Some(stub) = stub.filter(|stub| stub.owner.generation == generation) {
            let kind = CodeKind::at(&item.site, CodeKind::Stub);
            shared.tell_placed(&item.site, kind, stub.slot.range(), generation);
        }
        shared.tell_ramps(&item.site, state, generation);
        shared.observers.tell(&Event::Changed(Changed {
            site: &item.site,
            became: state.standing.status,
            generation,
            sites: work.items.len(),
            prepared: work.prepared,
            committed,
        }));
    }
}
