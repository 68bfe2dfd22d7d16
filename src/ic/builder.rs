//! What caches are told to be before there are any.

use std::fmt;

use super::caches::Caches;
use super::miss::{Learn, Lookup, Miss};
use super::policy::{Chain, Policy};
use super::probe::Probe;
use super::shared::SharedCache;
use super::stats::{Counting, Order};
#[cfg(doc)]
use crate::deopt::ExitStubs;
use crate::sequence::Sequence;
use crate::site::Site;

/// The generic path of a site, if it has one.
type GenericPath = Box<dyn Fn(&Site) -> Option<Sequence> + Send + Sync>;

/// What all caches have in common.
pub(super) struct Settings {
    pub(super) policy: Box<dyn Policy>,
    pub(super) counting: Counting,
    pub(super) order: Order,
    /// What a megamorphic site does.
    pub(super) generic: Option<GenericPath>,
    /// Whether lookups see every register.
    pub(super) whole_frames: bool,
}

/// Describes caches.
pub struct CachesBuilder {
    settings: Settings,
    shared_cache: Option<SharedCache>,
}

impl CachesBuilder {
    pub(super) fn new() -> Self {
        Self {
            settings: Settings {
                policy: Box::new(Chain::default()),
                counting: Counting::default(),
                order: Order::default(),
                generic: None,
                whole_frames: false,
            },
            shared_cache: None,
        }
    }

    /// Who decides what a cache becomes; [`Chain`] if nobody is named.
    #[must_use]
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.settings.policy = Box::new(policy);
        self
    }

    /// Whether hits are counted; they are not if nothing is said.
    #[must_use]
    pub fn counting(mut self, counting: Counting) -> Self {
        self.settings.counting = counting;
        self
    }

    /// In which order entries are tested; the most recent first if nothing is said.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.settings.order = order;
        self
    }

    /// What a megamorphic site does: the runtime's generic path, the same for all. If nothing is
    /// said, it misses.
    #[must_use]
    pub fn megamorphic(self, sequence: Sequence) -> Self {
        self.megamorphic_by(move |_| Some(sequence.clone()))
    }

    /// The same where sites have paths of their own: this is asked each time that one becomes
    /// megamorphic. One for which it has none misses. It must neither miss nor change caches: the
    /// cache is locked.
    ///
    /// ```
    /// use patchpoint::ic::Caches;
    /// use patchpoint::sequence::{Sequence, result};
    ///
    /// const GET_LENGTH: u64 = 7;
    /// let caches = Caches::builder().megamorphic_by(|site| match site.id().get() {
    ///     // What has no length has length 0.
    ///     GET_LENGTH => Some(Sequence::new().mov(result(), 0u64)),
    ///     _ => None,
    /// });
    /// # drop(caches);
    /// ```
    #[must_use]
    pub fn megamorphic_by<P>(mut self, path: P) -> Self
    where
        P: Fn(&Site) -> Option<Sequence> + Send + Sync + 'static,
    {
        self.settings.generic = Some(Box::new(path));
        self
    }

    /// Gives megamorphic sites a cache that all of them share, with room for so many entries
    /// (rounded up to a power of two between 16 and 16 million), which their code looks into by
    /// itself: `probe` says what a site that becomes megamorphic looks up, if anything. It is asked
    /// before [`megamorphic_by`](Self::megamorphic_by) is, and must neither miss nor change caches.
    ///
    /// What a site does not find there misses, and what the lookup hands over then is put there,
    /// for all sites with the same [`Probe`]. In an engine whose code is executed in a mirror there
    /// is none, and sites do as if `probe` had said so.
    #[must_use]
    pub fn shared_cache<P>(mut self, entries: usize, probe: P) -> Self
    where
        P: Fn(&Site) -> Option<Probe> + Send + Sync + 'static,
    {
        self.shared_cache = Some(SharedCache::new(entries, Box::new(probe)));
        self
    }

    /// Lets the lookup see the whole frame: every register, so that it can [leave](Learn::Leave)
    /// the frame and walk to its callers. Without it, misses save the registers that are live,
    /// where they are known (see [`ExitStubs::on_live_register_miss`]), which is faster.
    #[must_use]
    pub fn whole_frames(mut self) -> Self {
        self.settings.whole_frames = true;
        self
    }

    /// The caches, whose misses go to this lookup.
    #[must_use]
    pub fn lookup<L>(self, lookup: L) -> Caches
    where
        L: for<'f> Fn(&mut Miss<'_, 'f>) -> Learn<'f> + Send + Sync + 'static,
    {
        self.lookup_by(lookup)
    }

    /// The same for a type that implements [`Lookup`]: one of the runtime's, or a
    /// [`CFunction`](crate::deopt::CFunction) of a [`CMiss`](super::CMiss).
    #[must_use]
    pub fn lookup_by(self, lookup: impl Lookup + 'static) -> Caches {
        Caches::made(Box::new(lookup), self.settings, self.shared_cache)
    }
}

impl fmt::Debug for CachesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("counting", &self.settings.counting)
            .field("order", &self.settings.order)
            .finish_non_exhaustive()
    }
}
