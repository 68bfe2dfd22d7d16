//! Who wants to know what the engine does: an [`Observer`] is told of each event as it happens.
//!
//! Problem: profilers, debuggers and logs have to know where stubs are and what was changed when,
//! and an engine that nobody watches is not to pay for it; and they are code of others, which may
//! panic or call the engine again. Approach: the engine tells its observers before a change is
//! begun and when it is complete, with its books in order, never in between. A panic of an observer
//! is caught, so that the change, and what the other observers are told, does not depend on it, and
//! goes on in whoever made the change when that is whole and the lock free. The clock is read only
//! where there is an observer.
//!
//! Invariants: the address of code is told ([`Event::Placed`]) before the change that branches
//! there, and its return ([`Event::Reclaimed`]) before its bytes are given to anyone else.
//! Observers are told by the thread that holds the engine's lock, so that one that calls the engine
//! again can be told from a thread that only has to wait.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::change::ChangeSet;
use super::exit_stub::{ExitStub, ExitStubKind};
use super::state::{States, Status};
use super::{Role, Shared, StackAt};
use crate::addr::CodeRange;
use crate::arch::SiteKind;
use crate::invariant::OrAbort;
use crate::memory::{StubPool, StubSlot};
use crate::site::{Module, Site, SiteKey};
use crate::{Error, Result};

/// Is told what an engine does: given to
/// [`EngineBuilder::observer`](super::EngineBuilder::observer). A closure is one.
///
/// It is called on the thread that makes the change, with the engine's lock held, so that events
/// come in the order in which things happen. What it needs of the engine it can ask for later, when
/// the change has returned: an observer that calls the engine which is telling it, be it for a
/// state, panics, and one that waits for another thread which does waits for good.
///
/// An observer that panics keeps nothing from being done: the change is made, or refused, as
/// without it, and the other observers are told of everything. The first panic then goes on in the
/// caller of the engine, in place of what the call would have returned.
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
    /// A module is registered, and armed if it is live. It can be found, and so be run, when all
    /// observers were told.
    Registered {
        /// The module.
        module: &'a Module,
    },
    /// A module was unregistered. What belonged to its sites has been told as reclaimed.
    Unregistered {
        /// The module.
        module: &'a Module,
    },
    /// Out-of-line code of a site is in place, and nothing branches there yet. Where the change is
    /// not made after all, it is told as reclaimed.
    Placed(Placed<'a>),
    /// A site was patched, restored, invalidated or redirected.
    Changed(Changed<'a>),
    /// What is installed in a site was moved from its stub into it. The stub will be told as
    /// reclaimed.
    Settled {
        /// The site.
        site: &'a Site,
    },
    /// So many changes of a transaction are prepared, of so many: told every few thousand of one that
    /// is that long. Nothing has been written for it.
    Preparing {
        /// How many are.
        prepared: usize,
        /// How many it has.
        of: usize,
    },
    /// A transaction was refused, or has failed.
    Refused(Refused<'a>),
    /// Out-of-line code is reclaimed: no thread is in it.
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
    /// Where it is.
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
    /// [`memory::Error::Forked`](crate::memory::Error::Forked) in a fork's child.
    pub fn code(&self) -> Result<Vec<u8>> {
        Ok(self.stubs.read(self.range)?)
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
    /// A jump between a call site and what it calls. It runs in no frame of the site's function,
    /// but as the first instruction of what is called would.
    Call,
    /// A stub that the runtime has published.
    Published,
    /// A way to a handler.
    ExitStub(Role),
}

impl CodeKind {
    pub(super) const fn of(exit_stub: &ExitStub) -> Self {
        Self::ExitStub(match exit_stub.kind {
            ExitStubKind::Miss => Role::Miss,
            ExitStubKind::Deopt | ExitStubKind::Invalidated => Role::Deopt,
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
            Self::ExitStub(Role::Miss) => "miss exit stub",
            Self::ExitStub(Role::Deopt) => "deopt exit stub",
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

/// Out-of-line code that is reclaimed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reclaimed {
    /// The site it was made for.
    pub site: SiteKey,
    /// The change of the site that it was made for; 0 if for none.
    pub generation: u64,
    /// Where it was.
    pub range: CodeRange,
    /// How long it waited until no thread was in it, since nothing branched there any more. `None`
    /// if it did not have to.
    pub waited: Option<Duration>,
}

/// Out-of-line code to be freed. Mostly there is one piece, if any.
pub(super) type FreedCode = SmallVec<[(CodeOwner, StubSlot); 1]>;

/// Whose out-of-line code is.
#[derive(Clone, Copy)]
pub(super) struct CodeOwner {
    pub(super) site: SiteKey,
    pub(super) generation: u64,
}

/// What an observer has panicked with.
type Panic = Box<dyn Any + Send>;

/// Those that are told. Most engines have none.
#[derive(Default)]
pub(super) struct Observers {
    all: Vec<Box<dyn Observer>>,
    /// Who tells them at this moment, by [`this_thread`], or 0.
    teller: AtomicUsize,
    /// The first panic of one of them in the call under way.
    panic: Mutex<Option<Panic>>,
}

/// A number that no other thread has at this time; not 0.
fn this_thread() -> usize {
    thread_local!(static OWN: u8 = const { 0 });
    OWN.with(|own| std::ptr::from_ref(own).addr())
}

impl Observers {
    pub(super) fn add(&mut self, observer: Box<dyn Observer>) {
        self.all.push(observer);
    }

    /// Whether anybody is told.
    #[inline]
    pub(super) fn any(&self) -> bool {
        !self.all.is_empty()
    }

    /// The time, if anybody is told.
    #[inline]
    pub(super) fn now(&self) -> Option<Instant> {
        self.any().then(Instant::now)
    }

    /// Tells all of them. Whoever does holds the engine's lock, and has nothing in its hands that
    /// would be lost.
    #[cold]
    pub(super) fn tell(&self, event: &Event<'_>) {
        self.teller.store(this_thread(), Ordering::Relaxed);
        for observer in &self.all {
            // What an observer leaves broken is its own.
            // protection: observers-do-not-unwind-through-the-engine
            let told = catch_unwind(AssertUnwindSafe(|| observer.observe(event)));
            if let Err(panic) = told {
                self.panic.lock().get_or_insert(panic);
            }
        }
        self.teller.store(0, Ordering::Relaxed);
    }

    /// Refuses a call of the engine by an observer that it is telling: this thread holds the lock
    /// that it wants.
    #[cold]
    #[expect(clippy::panic, reason = "the alternative is to wait for good")]
    pub(super) fn refuse_own(&self) {
        // Only this thread writes its own number.
        if self.teller.load(Ordering::Relaxed) == this_thread() {
            panic!(
                "an observer calls the engine that is telling it: let it do so when the change has returned"
            );
        }
    }

    /// What an observer has panicked with since this was last asked.
    // protection: observers-are-told-of-what-is-final (2)
    pub(super) fn take_panic(&self) -> Option<Panic> {
        self.panic.lock().take()
    }

    /// Code is about to be reclaimed.
    pub(super) fn reclaimed(&self, owner: CodeOwner, range: CodeRange, waited: Option<Duration>) {
        if self.any() {
            self.tell(&Event::Reclaimed(Reclaimed {
                site: owner.site,
                generation: owner.generation,
                range,
                waited,
            }));
        }
    }
}

/// What is returned under the engine's lock: two words where it succeeds. An [`Error`] is seven
/// times as long, and copying the room for one behind the unlocking took 6 ns of a commit's 97.
pub(super) type Boxed<T> = core::result::Result<T, Box<Error>>;

impl Shared {
    /// Frees out-of-line code to which nothing branches, and in which no thread is: tells of it,
    /// then frees it.
    #[inline]
    pub(super) fn free_code(&self, given: FreedCode) {
        if !given.is_empty() {
            self.free_some(given);
        }
    }

    #[inline(never)] // Most commits free none.
    fn free_some(&self, given: FreedCode) {
        for (owner, slot) in &given {
            self.observers.reclaimed(*owner, slot.range(), None);
        }
        given.into_iter().for_each(|(_, slot)| self.stubs.discard(slot));
    }

    /// A transaction that began then was refused; returns why.
    #[cold]
    pub(super) fn refused(&self, states: &mut States, error: Error, since: Option<Instant>) -> Error {
        if let Some(since) = since {
            let after = since.elapsed();
            let site = error.site().map(|site| site.addr);
            let site = site.and_then(|addr| self.table.read().by_addr(addr));
            let state = site.as_ref().and_then(|site| states.of(site));
            self.observers.tell(&Event::Refused(Refused {
                error: &error,
                site: site.as_ref(),
                // What has no state was never changed.
                generation: site
                    .as_ref()
                    .map(|_| state.map_or(0, |state| state.installed.generation)),
                after,
            }));
        }
        error
    }

    /// Tells that a sequence was published for a site.
    #[cold]
    pub(super) fn tell_published(&self, site: &Site, code: &[(CodeKind, CodeRange, Vec<StackAt>)]) {
        for (kind, range, stack) in code {
            self.tell_code(site, *kind, *range, 0, stack);
        }
    }

    /// Tells that a module was registered, and its sites armed.
    pub(super) fn tell_registered(&self, module: &Module, states: &mut States) {
        if !self.observers.any() {
            return;
        }
        self.observers.tell(&Event::Registered { module });
        for site in module.sites().filter(|_| module.is_live()) {
            let armed = states.of(&site).and_then(|state| state.lasting.live.as_ref());
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

    /// Tells of the code that was made for a transaction. Nothing branches there yet.
    #[cold]
    pub(super) fn tell_made(&self, set: &ChangeSet) {
        for change in &set.changes {
            let site = &set.site(change);
            if let Some(stub) = &change.to_install().stub {
                let kind = CodeKind::at(site, CodeKind::Stub);
                self.tell_placed(site, kind, stub.slot.range(), stub.owner.generation);
            }
            for exit_stub in &change.exit_stubs {
                let (kind, range) = (CodeKind::of(exit_stub), exit_stub.range());
                self.tell_code(site, kind, range, exit_stub.generation, exit_stub.stack());
            }
        }
    }
}

/// Tells of the transaction that was committed last.
#[cold]
pub(super) fn committed(shared: &Shared, states: &States, since: Instant) {
    let committed = since.elapsed();
    let set = states.last().or_abort("a commit has left what it was made of");
    for change in &set.changes {
        let state = states
            .at(change.index)
            .or_abort("a site that was written has a state");
        shared.observers.tell(&Event::Changed(Changed {
            site: &set.site(change),
            became: state.installed.status,
            generation: state.installed.generation,
            sites: set.changes.len(),
            prepared: set.prepared,
            committed,
        }));
    }
}
