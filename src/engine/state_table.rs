//! Where the state of a site is.
//!
//! Problem: every change looks for its site's state, and a large transaction gives each of its sites
//! one. A hash table of sites grows by moving all that is in it, has a cache line of its own for each
//! site, and the module of each would have to be looked for among those that are registered.
//! Approach: a module one of whose sites has a state has a list by the numbers of its sites, of four
//! bytes each, in which lie side by side what is changed together. It keeps the number of its list
//! itself. Whether a module is registered is asked when it gets its list.
//!
//! Invariants: a module that has a list is registered: it loses its list when it is unregistered. The
//! number that a module keeps says nothing of a module that has none.

use std::ops::Range;

use smallvec::SmallVec;

use crate::invariant::OrAbort;
use crate::site::{Module, Site, SiteKey};

/// The number of a site's place in [`States`](super::state::States).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateIndex(u32);

impl StateIndex {
    pub(super) const FIRST: Self = Self(0);

    pub(super) fn new(number: usize) -> Self {
        // No site has a state of less than a hundred bytes.
        let number = u32::try_from(number).ok();
        let number = number.filter(|number| *number < IN_BATCH - 1);
        Self(number.expect("memory has no room for as many states as 31 bits count"))
    }

    #[inline]
    pub(super) fn number(self) -> usize {
        self.0 as usize
    }
}

/// Where what is known of a site is that was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatePlace {
    /// It has a state, here.
    State(StateIndex),
    /// It is in a batch, in the part of that number.
    Batch(u32),
}

/// The lists of all modules that have one.
#[derive(Default)]
pub(super) struct StateTable {
    /// By their numbers.
    lists: Vec<Option<Places>>,
    /// Numbers that no list has any more.
    free: Vec<u32>,
}

/// The places of a module's sites.
pub(super) struct Places {
    module: Module,
    /// By the numbers of sites: one more than the number of the place; [`IN_BATCH`] more than the number
    /// of a part of a batch; 0 where there is none. Zeros that nobody has touched take no memory.
    places: SmallVec<[u32; FEW]>,
}

/// So many sites have their places in the list of lists: to allocate some is a hundred instructions of a module.
const FEW: usize = 4;

/// No state has such a number: it would take more than a hundred bytes.
const IN_BATCH: u32 = 1 << 31;

impl StateTable {
    /// The list of a module, if it has one. One of another engine, or that was registered once, may
    /// have the same name, but is not the same module.
    #[inline]
    pub(super) fn of(&self, module: &Module) -> Option<&Places> {
        let places = self.lists.get(module.states_at() as usize)?.as_ref();
        // protection: state-of-another-engine
        places.filter(|places| places.module.is_same(module))
    }

    /// Where the state of a site is, if it has one.
    #[inline]
    pub(super) fn get(&self, site: &Site) -> Option<StatePlace> {
        self.of(site.module())?.get(site.index())
    }

    /// Says where the state of a site is, whose module is registered.
    #[inline]
    pub(super) fn insert(&mut self, site: &Site, index: StateIndex) {
        let place = self.places(site.module()).get_mut(site.index() as usize);
        *place.expect("a module has as many sites as it says") = index.0 + 1;
    }

    /// Says that sites of a registered module are that part of a batch.
    pub(super) fn insert_part(&mut self, module: &Module, sites: Range<u32>, part: u32) {
        let places = self.places(module);
        let places = places.get_mut(sites.start as usize..sites.end as usize);
        let places = places.or_abort("the sites of a batch are some of its module's");
        places.fill(IN_BATCH + part);
    }

    /// What is known of a registered module's sites.
    #[inline]
    fn places(&mut self, module: &Module) -> &mut [u32] {
        if self.of(module).is_none() {
            self.add(module);
        }
        let number = module.states_at() as usize;
        let places = self.lists.get_mut(number).and_then(Option::as_mut);
        &mut places.expect("the module has a list").places
    }

    /// Gives a module its list.
    #[cold]
    fn add(&mut self, module: &Module) {
        let list = Some(Places {
            module: module.clone(),
            places: SmallVec::from_elem(0, module.site_count()),
        });
        let number = match self.free.pop() {
            Some(number) => {
                let place = self.lists.get_mut(number as usize);
                *place.expect("a number that became free was that of a list") = list;
                number
            }
            None => {
                self.lists.push(list);
                let number = u32::try_from(self.lists.len() - 1);
                number.expect("memory has no room for as many lists as 32 bits count")
            }
        };
        module.put_states_at(number);
    }

    /// Takes out the list of a module.
    pub(super) fn remove(&mut self, module: &Module) -> Option<Places> {
        self.of(module)?;
        let number = module.states_at();
        self.free.push(number);
        self.lists.get_mut(number as usize).and_then(Option::take)
    }

    /// All that were changed.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SiteKey, StatePlace)> {
        self.lists.iter().flatten().flat_map(Places::iter)
    }
}

impl StatePlace {
    #[inline]
    fn of(place: u32) -> Option<Self> {
        match place {
            0 => None,
            IN_BATCH.. => Some(Self::Batch(place - IN_BATCH)),
            _ => Some(Self::State(StateIndex(place - 1))),
        }
    }
}

impl Places {
    /// Where the state of the module's site of that number is, if it has one.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<StatePlace> {
        StatePlace::of(*self.places.get(index as usize)?)
    }

    /// Whether the site of that number was changed.
    #[inline]
    pub(super) fn has(&self, index: u32) -> bool {
        self.places.get(index as usize).is_some_and(|place| *place != 0)
    }

    /// How many of these sites, from the first on, have no state.
    pub(super) fn without(&self, sites: Range<u32>) -> u32 {
        sites.take_while(|index| !self.has(*index)).count() as u32
    }

    /// Whether all of these sites are in that part of a batch.
    pub(super) fn are_in(&self, part: u32, sites: Range<u32>) -> bool {
        let places = self.places.get(sites.start as usize..sites.end as usize);
        places.is_some_and(|places| places.iter().all(|place| *place == IN_BATCH + part))
    }

    /// All that were changed, in ascending address.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SiteKey, StatePlace)> {
        let module = self.module.id();
        let places = (0..).zip(&*self.places);
        places.filter_map(move |(index, place)| {
            let key = SiteKey { module, index };
            Some((key, StatePlace::of(*place)?))
        })
    }
}
