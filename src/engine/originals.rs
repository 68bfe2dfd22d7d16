//! What sites hold that have not been changed.
//!
//! Problem: most sites of a large transaction have never been changed, and most of these hold the
//! same. Nothing is allocated for each; but a counted pointer to what they share is counted up when a
//! site gets its state, and down when it is changed: two locked instructions, a thirtieth of what a
//! first patch takes. Approach: sites have the number of what they share in a list, which is changed
//! behind the engine's lock and counts them itself. What else is to be known of a site for its changes
//! is found with that, mostly for one that is like it.
//!
//! Invariants: what is in the list has a user, and has no stub; it is never changed.

use super::exits::ExitResumption;
use super::installed::Installed;
use super::state::returns_of;
use crate::Result;
use crate::addr::{CodeAddr, Len};
use crate::arch::{Arch, SiteKind};
use crate::site::{ModuleId, Site};
use crate::verify;
use patchpoint_asm::backend::Moved;
use patchpoint_asm::backend_of;

/// The number of what a site held when it was registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OriginalIndex(u32);

impl OriginalIndex {
    pub(super) const FIRST: Self = Self(0);
}

/// What sites hold that have not been changed.
#[derive(Default)]
pub(super) struct Originals {
    all: Vec<Option<Original>>,
    free: Vec<OriginalIndex>,
    /// At most [`RECENT`], the last first.
    recent: Vec<RecentOriginal>,
}

struct Original {
    installed: Installed,
    /// How many sites hold it, and one more for [`Originals::recent`]: no more than have states.
    users: u32,
}

/// So many are remembered. Modules that were compiled from like sources have the same few kinds of sites:
/// where each of them asks anew, it is a tenth of invalidating its functions.
const RECENT: usize = 4;

/// What a site held that was asked about lately. Where calls return to in it depends on the bytes, the
/// architecture and the length alone; so does whether it is nops.
struct RecentOriginal {
    form: (ModuleId, u32),
    facts: SiteFacts,
    key: (Arch, Len),
    displaced: Box<[u8]>,
    index: OriginalIndex,
}

/// What is known of a site, and of what it held when it was registered.
#[derive(Clone, Copy)]
pub(super) struct SiteFacts {
    /// Whether it is a call site. It is asked for each change.
    pub(super) is_call: bool,
    /// What a sequence displaces.
    displaces: Displaces,
}

/// What a sequence displaces, which a thread has to execute that resumes as if it were there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Displaces {
    /// Nops up to the site's end, which need not be executed.
    Nops,
    /// Instructions that take so many bytes where they are moved to, and whether they are the same there.
    Moved { len: u8, same: bool },
    /// Others: they take more than any room has for them, or that is not known.
    Others,
}

impl SiteFacts {
    /// Of a site in which sequences displace these bytes.
    pub(super) fn of(site: &Site, displaced: &[u8]) -> Self {
        let arch = site.module().arch();
        let is_whole = displaced.len() == site.reserved().as_usize();
        Self {
            is_call: is_call(site),
            // protection: only-nops-are-skipped
            displaces: match is_whole && verify::are_nops(arch, displaced) {
                true => Displaces::Nops,
                false => Displaces::others(arch, displaced),
            },
        }
    }

    /// Where a thread goes on that resumes as if the site still held that.
    #[inline]
    pub(super) fn resumption<'s>(
        self,
        end: CodeAddr,
        displaced: impl FnOnce() -> &'s [u8],
    ) -> ExitResumption<'s> {
        let moved = match self.displaces {
            Displaces::Nops => return ExitResumption::At(end),
            Displaces::Moved { len, same } => Some(Moved {
                len: len.into(),
                same,
            }),
            Displaces::Others => None,
        };
        ExitResumption::Displaced {
            bytes: displaced(),
            moved,
        }
    }
}

impl Displaces {
    fn others(arch: Arch, displaced: &[u8]) -> Self {
        let Some(Moved { len, same }) = backend_of(arch).moved(displaced) else {
            return Self::Others;
        };
        u8::try_from(len).map_or(Self::Others, |len| Self::Moved { len, same })
    }
}

const IN_USE: &str = "what a site holds is in the list as long as the site has not been changed";

impl Originals {
    /// What a site holds that has not been changed, of which it is a user from now on, and what is known
    /// of it. Most are like the one that was asked about before, or hold the same.
    #[inline(always)] // Called, it takes 43 instructions of a site's first patch.
    pub(super) fn of(&mut self, site: &Site) -> Result<(OriginalIndex, SiteFacts)> {
        let form = site.form_key();
        // protection: forms-are-of-one-module
        if let Some(last) = self.recent.first().filter(|last| last.form == form) {
            let (index, facts) = (last.index, last.facts);
            return Ok((self.add_user(index), facts));
        }
        let key = (site.module().arch(), site.reserved());
        let displaced = site.displaced();
        let is_told = site.is_told();
        // protection: returns-are-those-of-the-bytes
        let holds_it = |one: &RecentOriginal| one.key == key && *one.displaced == *displaced;
        let known = self.recent.iter().position(holds_it).filter(|_| !is_told);
        if let Some(mut last) = known.map(|at| self.recent.remove(at)) {
            last.form = form;
            last.facts.is_call = is_call(site);
            let (index, facts) = (last.index, last.facts);
            self.recent.insert(0, last);
            return Ok((self.add_user(index), facts));
        }
        let returns = returns_of(site, displaced)?;
        let index = self.add(Installed::original(site.original(), &returns));
        let facts = SiteFacts::of(site, displaced);
        if !is_told {
            let index = self.add_user(index);
            let last = RecentOriginal {
                form,
                facts,
                key,
                displaced: displaced.into(),
                index,
            };
            self.recent.insert(0, last);
            while self.recent.len() > RECENT {
                let forgotten = self.recent.pop().expect("there are more than that");
                self.lose_user(forgotten.index);
            }
        }
        Ok((index, facts))
    }

    #[inline]
    pub(super) fn get(&self, index: OriginalIndex) -> &Installed {
        let original = self.all.get(index.0 as usize).and_then(Option::as_ref);
        &original.expect(IN_USE).installed
    }

    /// One of its users has been changed, or is gone.
    #[inline]
    pub(super) fn lose_user(&mut self, index: OriginalIndex) {
        let place = self.all.get_mut(index.0 as usize).expect(IN_USE);
        let original = place.as_mut().expect(IN_USE);
        original.users -= 1;
        // protection: originals-go-with-their-last-site
        if original.users == 0 {
            *place = None;
            self.free.push(index);
        }
    }

    #[inline]
    fn add_user(&mut self, index: OriginalIndex) -> OriginalIndex {
        let original = self.all.get_mut(index.0 as usize).and_then(Option::as_mut);
        original.expect(IN_USE).users += 1;
        index
    }

    /// Adds one that has one user.
    pub(super) fn add(&mut self, installed: Installed) -> OriginalIndex {
        let original = Some(Original { installed, users: 1 });
        if let Some(index) = self.free.pop() {
            *self
                .all
                .get_mut(index.0 as usize)
                .expect("a place that became free is still there") = original;
            return index;
        }
        self.all.push(original);
        let index = u32::try_from(self.all.len() - 1);
        OriginalIndex(index.expect("memory has no room for as many as 32 bits count"))
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }
}

/// Whether it is a call site.
fn is_call(site: &Site) -> bool {
    site.shape().kind() == SiteKind::Call
}
