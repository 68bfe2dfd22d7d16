//! What a transaction is asked for, before it is prepared.
//!
//! Problem: a large transaction names each of its sites, with the sequence that it gets. A handle of
//! the site and one of the sequence for each count up and down what all of them share: four times
//! for a site, each of which waits for whatever the processor has still to write. Approach: a module
//! and a sequence are kept once for those that follow each other with the same, and one handle of a
//! site goes from one to the next. Sites that follow each other in their module and get the same are
//! one entry. Who names sites by their ID has them looked up under the lock under which they are
//! changed.

use std::borrow::{Borrow, Cow};
use std::collections::HashSet;
use std::ops::Range;
use std::ptr;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use super::observe::Boxed;
use super::state::{States, Status};
use crate::addr::RecordId;
use crate::publish::Keyed;
use crate::sequence::Sequence;
use crate::site::{Module, ModuleId, Site, SiteKey, SiteTable, Sites};
use crate::{Error, Result};

/// So many sites of a transaction are looked through for one that is there twice, unless they came
/// in order; beyond, a set says so.
const FEW: usize = 8;

/// What becomes of a change of a site that has been invalidated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfInvalid {
    /// The transaction is refused: somebody named this very site.
    Refuse,
    /// The site is left as it is, and reported: it was meant as one of those with its ID.
    Leave,
}

/// What is to become of a site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Request<S = Sequence> {
    /// It gets this sequence.
    Patch(S),
    /// It gets its original bytes back.
    Restore,
    /// It gets a way to its exit stub, for good.
    Invalidate,
    /// It gets this sequence, which jumps away, and from now on no other but of that kind.
    Redirect(S),
    /// It calls the function to which this sequence jumps.
    Retarget(S),
}

impl<S> Request<S> {
    /// What the site is afterwards.
    #[inline]
    pub(super) fn status(&self) -> Status {
        match self {
            Self::Patch(_) | Self::Retarget(_) => Status::Patched,
            Self::Restore => Status::Original,
            Self::Invalidate => Status::Invalidated,
            Self::Redirect(_) => Status::Redirected,
        }
    }

    /// The same with something else for the sequence.
    #[inline]
    fn map<T>(self, of: impl FnOnce(S) -> T) -> Request<T> {
        match self {
            Self::Patch(sequence) => Request::Patch(of(sequence)),
            Self::Restore => Request::Restore,
            Self::Invalidate => Request::Invalidate,
            Self::Redirect(sequence) => Request::Redirect(of(sequence)),
            Self::Retarget(sequence) => Request::Retarget(of(sequence)),
        }
    }
}

impl Request {
    /// Whether another asks for the same of a site that goes to its exit stub, by a handle of one sequence: equal
    /// ones are not looked for, of which there may be as many as sites.
    #[inline]
    pub(super) fn is(&self, other: Request<&Sequence>) -> bool {
        match (self, other) {
            (Self::Invalidate, Request::Invalidate) => true,
            // Each has one of its own.
            (Self::Patch(one), Request::Patch(other)) => ptr::eq(one.outline(), other.outline()),
            _ => false,
        }
    }
}

impl Request {
    /// The same with a reference of the sequence.
    pub(super) fn by_ref(&self) -> Request<&Sequence> {
        match self {
            Self::Patch(sequence) => Request::Patch(sequence),
            Self::Restore => Request::Restore,
            Self::Invalidate => Request::Invalidate,
            Self::Redirect(sequence) => Request::Redirect(sequence),
            Self::Retarget(sequence) => Request::Retarget(sequence),
        }
    }
}

impl Request<&Sequence> {
    /// The same with a handle of the sequence.
    pub(super) fn cloned(self) -> Request {
        self.map(Sequence::clone)
    }
}

/// A site of which something is asked, by what is at hand of it.
pub(super) enum AskedSite<'a> {
    Own(Site),
    Named(&'a Site),
    /// By its number in its module. Who needs a handle gets the one that is kept there, which is made when the first
    /// of them does.
    Numbered(&'a Module, u32, &'a mut Option<Site>),
}

impl<'a> AskedSite<'a> {
    /// Its module, and its number in that.
    #[inline]
    pub(super) fn place(&self) -> (&Module, u32) {
        match self {
            Self::Own(site) => (site.module(), site.index()),
            Self::Named(site) => (site.module(), site.index()),
            Self::Numbered(module, index, _) => (module, *index),
        }
    }

    /// A handle of it.
    #[inline]
    pub(super) fn into_site(self) -> Cow<'a, Site> {
        match self {
            Self::Own(site) => Cow::Owned(site),
            Self::Named(site) => Cow::Borrowed(site),
            Self::Numbered(module, index, kept) => {
                let site = kept.get_or_insert_with(|| module.handle(index));
                site.go_to(index);
                Cow::Borrowed(site)
            }
        }
    }
}

/// Sites that are different ones, each with what is to become of it.
pub(super) trait Requests<'s>: Clone {
    /// How many.
    fn count(&self) -> usize;

    /// Hands each on, until one is refused, with how many sites are behind it in its module for which the
    /// same is asked. So many of them as that returns were taken with it.
    fn try_each(
        self,
        take: impl FnMut(AskedSite<'_>, Request<&'s Sequence>, IfInvalid, u32) -> Boxed<u32>,
    ) -> Boxed<()>;
}

/// Of whoever makes a change at once.
impl<'s, I> Requests<'s> for I
where
    I: ExactSizeIterator<Item = (Site, Request<&'s Sequence>, IfInvalid)> + Clone,
{
    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn try_each(
        mut self,
        mut take: impl FnMut(AskedSite<'_>, Request<&'s Sequence>, IfInvalid, u32) -> Boxed<u32>,
    ) -> Boxed<()> {
        self.try_for_each(|(site, request, if_invalid)| {
            take(AskedSite::Own(site), request, if_invalid, 0).map(drop)
        })
    }
}

/// One site, which somebody has named.
#[derive(Clone)]
pub(super) struct One<'s>(pub(super) &'s Site, pub(super) Request<&'s Sequence>);

impl<'s> Requests<'s> for One<'s> {
    #[inline]
    fn count(&self) -> usize {
        1
    }

    #[inline]
    fn try_each(
        self,
        mut take: impl FnMut(AskedSite<'_>, Request<&'s Sequence>, IfInvalid, u32) -> Boxed<u32>,
    ) -> Boxed<()> {
        take(AskedSite::Named(self.0), self.1, IfInvalid::Refuse, 0).map(drop)
    }
}

/// All sites of an ID.
#[derive(Clone)]
pub(super) struct AllOfId<'s> {
    sites: Sites,
    request: Request<&'s Sequence>,
}

impl<'s> Requests<'s> for AllOfId<'s> {
    #[inline]
    fn count(&self) -> usize {
        self.sites.len()
    }

    #[inline]
    fn try_each(
        self,
        mut take: impl FnMut(AskedSite<'_>, Request<&'s Sequence>, IfInvalid, u32) -> Boxed<u32>,
    ) -> Boxed<()> {
        // protection: every-site-of-an-id
        for site in self.sites {
            take(AskedSite::Own(site), self.request, IfInvalid::Leave, 0)?;
        }
        Ok(())
    }
}

/// So many modules are warmed before the first of them is asked. Without, a thousand functions of 500 modules take a
/// twelfth longer; in one pass, where each waits for what it finds the rest through, a thirtieth.
const WARMED: usize = 32;

/// Sites to be invalidated, by those that follow each other in a module. No site is there twice.
#[derive(Clone)]
pub(super) struct Invalidations<'m>(pub(super) &'m [(&'m Module, Range<u32>)]);

impl<'s> Requests<'s> for Invalidations<'_> {
    fn count(&self) -> usize {
        self.0.iter().map(|(_, sites)| sites.len()).sum()
    }

    #[inline]
    fn try_each(
        self,
        mut take: impl FnMut(AskedSite<'_>, Request<&'s Sequence>, IfInvalid, u32) -> Boxed<u32>,
    ) -> Boxed<()> {
        let request = (Request::Invalidate, IfInvalid::Refuse);
        for some in self.0.chunks(WARMED) {
            some.iter().for_each(|(module, _)| module.touch());
            some.iter().for_each(|(module, sites)| module.warm(sites.start));
            for (module, sites) in some {
                try_each_of((module, &mut None), sites.clone(), request, &mut take)?;
            }
        }
        Ok(())
    }
}

/// Hands on sites that follow each other in a module, of which the same is asked, with the handle of one of them
/// that is kept.
#[inline]
fn try_each_of<'s>(
    (module, kept): (&Module, &mut Option<Site>),
    sites: Range<u32>,
    (request, if_invalid): (Request<&'s Sequence>, IfInvalid),
    take: &mut impl FnMut(AskedSite<'_>, Request<&'s Sequence>, IfInvalid, u32) -> Boxed<u32>,
) -> Boxed<()> {
    let mut left = sites;
    while let Some(index) = left.next() {
        let (site, behind) = (AskedSite::Numbered(module, index, kept), left.len() as u32);
        left.start += take(site, request, if_invalid, behind)?;
    }
    Ok(())
}

/// What names sites: it is looked up under the lock of the engine under which they are changed.
pub(super) trait Named<'s> {
    /// The sites, each with what is to become of it.
    type Found: Requests<'s>;

    /// Looks them up.
    fn find(self, table: &Keyed<SiteTable>, states: &mut States) -> Boxed<Self::Found>;
}

/// Whoever has the sites has found them.
impl<'s, R: Requests<'s>> Named<'s> for R {
    type Found = R;

    #[inline]
    fn find(self, _: &Keyed<SiteTable>, _: &mut States) -> Boxed<R> {
        Ok(self)
    }
}

/// An ID, and what is to become of its sites.
pub(super) struct ById<'s>(pub(super) RecordId, pub(super) Request<&'s Sequence>);

impl<'s> Named<'s> for ById<'s> {
    type Found = AllOfId<'s>;

    #[inline(always)] // What a call of it returns is copied more than once: a twentieth of a patch.
    fn find(self, table: &Keyed<SiteTable>, states: &mut States) -> Boxed<AllOfId<'s>> {
        let Self(id, request) = self;
        let table = table.read_with(&states.table_key);
        match table.by_id_with(id, &mut states.kept_module) {
            Some(sites) => Ok(AllOfId { sites, request }),
            None => Err(Error::NoSuchSite { id }.into()),
        }
    }
}

/// What a transaction has collected.
#[derive(Default)]
pub(super) struct Collected {
    /// In order; the same is there again where another was in between.
    modules: SmallVec<[Module; 1]>,
    sequences: SmallVec<[Sequence; 1]>,
    asked: SmallVec<[Asked; 1]>,
    /// How many sites that are.
    count: usize,
    /// The keys of the sites, once they are more than [`FEW`], and not in order.
    sites: HashSet<SiteKey, RandomState>,
    is_unordered: bool,
}

/// What is asked for of sites that follow each other in a module.
struct Asked {
    /// The number of the module.
    module: u32,
    id: ModuleId,
    /// The numbers of the sites, of which there is one at least.
    sites: Range<u32>,
    /// With the number of its sequence.
    request: Request<u32>,
    if_invalid: IfInvalid,
}

impl Asked {
    fn key(&self, index: u32) -> SiteKey {
        let module = self.id;
        SiteKey { module, index }
    }

    fn keys(&self) -> impl Iterator<Item = SiteKey> + '_ {
        self.sites.clone().map(|index| self.key(index))
    }
}

impl Collected {
    /// How many sites.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The number behind the last of a module's sites that are asked for, if these came last.
    #[inline]
    pub(super) fn behind(&self, module: &Module) -> Option<u32> {
        let is_last = self.modules.last().is_some_and(|last| last.is_same(module));
        self.asked.last().filter(|_| is_last).map(|last| last.sites.end)
    }

    /// Adds what is to become of a site.
    ///
    /// # Errors
    /// [`Error::SiteTwice`].
    pub(super) fn add<S: Borrow<Sequence>>(
        &mut self,
        site: &Site,
        request: Request<S>,
        if_invalid: IfInvalid,
    ) -> Result<()> {
        let index = site.index();
        self.add_range(site.module(), index..index + 1, request, if_invalid)
    }

    /// The same of sites that follow each other, by their numbers. Some of them may have been added if
    /// another is refused.
    ///
    /// # Errors
    /// [`Error::SiteTwice`].
    pub(super) fn add_range<S: Borrow<Sequence>>(
        &mut self,
        module: &Module,
        sites: Range<u32>,
        request: Request<S>,
        if_invalid: IfInvalid,
    ) -> Result<()> {
        if sites.is_empty() {
            return Ok(());
        }
        if !self.modules.last().is_some_and(|last| last.is_same(module)) {
            self.modules.push(module.clone());
        }
        let sequences = &mut self.sequences;
        let request = request.map(|sequence| {
            let sequence = sequence.borrow();
            if !sequences.last().is_some_and(|last| last == sequence) {
                sequences.push(sequence.clone());
            }
            last_of(sequences.len())
        });
        let id = module.id();
        if self.follows((id, sites.start)) {
            self.push(id, sites, request, if_invalid);
            return Ok(());
        }
        for index in sites {
            // protection: one-change-of-a-site
            if !self.is_new(SiteKey { module: id, index }) {
                let site = module.handle(index).name();
                return Err(Error::SiteTwice { site });
            }
            self.push(id, index..index + 1, request, if_invalid);
        }
        Ok(())
    }

    /// Adds sites of the last module.
    fn push(&mut self, id: ModuleId, sites: Range<u32>, request: Request<u32>, if_invalid: IfInvalid) {
        self.count += sites.len();
        let module = last_of(self.modules.len());
        if let Some(last) = self.asked.last_mut() {
            let is_same = last.module == module && last.request == request && last.if_invalid == if_invalid;
            // protection: one-entry-is-of-sites-that-follow-each-other
            if is_same && last.sites.end == sites.start {
                last.sites.end = sites.end;
                return;
            }
        }
        self.asked.push(Asked {
            module,
            id,
            sites,
            request,
            if_invalid,
        });
    }

    /// Whether a site comes behind all that are asked for, as they came in order: then none of them, and
    /// none behind it, is there yet.
    fn follows(&self, (id, index): (ModuleId, u32)) -> bool {
        let last = self.asked.last().map(|last| (last.id, last.sites.end));
        !self.is_unordered && last.is_none_or(|last| last <= (id, index))
    }

    /// Whether nothing is asked for yet of a site, of which something will be.
    fn is_new(&mut self, key: SiteKey) -> bool {
        self.is_unordered = true;
        let mut asked = self.asked.iter().flat_map(Asked::keys);
        if self.sites.is_empty() && self.count < FEW {
            return asked.all(|asked| asked != key);
        }
        if self.sites.is_empty() {
            self.sites.extend(asked);
        }
        self.sites.insert(key)
    }

    /// Drops what was added last, until so many sites are left.
    pub(super) fn truncate(&mut self, len: usize) {
        while self.count > len {
            let last = self.asked.last_mut();
            let last = last.expect("each site that was counted was asked for");
            let index = last.sites.next_back();
            let index = index.expect("what is asked for is asked of one site at least");
            self.sites.remove(&last.key(index));
            self.count -= 1;
            if last.sites.is_empty() {
                self.asked.pop();
            }
        }
    }
}

/// The number of the last of so many.
fn last_of(len: usize) -> u32 {
    u32::try_from(len - 1).expect("memory has no room for as many as 32 bits count")
}

impl<'s> Requests<'s> for &'s Collected {
    #[inline]
    fn count(&self) -> usize {
        self.count
    }

    #[inline]
    fn try_each(
        self,
        mut take: impl FnMut(AskedSite<'_>, Request<&'s Sequence>, IfInvalid, u32) -> Boxed<u32>,
    ) -> Boxed<()> {
        let same_module = self.asked.chunk_by(|one, next| one.module == next.module);
        for asked in same_module {
            let module = asked.first().map(|first| first.module as usize);
            let module = module.and_then(|number| self.modules.get(number));
            let module = module.expect("the module of what was asked for is kept");
            let mut kept = None;
            for asked in asked {
                let request = asked.request.map(|number| {
                    let sequence = self.sequences.get(number as usize);
                    sequence.expect("the sequence of what was asked for is kept")
                });
                let request = (request, asked.if_invalid);
                try_each_of((module, &mut kept), asked.sites.clone(), request, &mut take)?;
            }
        }
        Ok(())
    }
}
