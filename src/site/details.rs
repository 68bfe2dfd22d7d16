//! What a module keeps.
//!
//! Problem: what a thousand modules keep is in no cache, and who patches sites of each waits for every line of it
//! that it looks at. Approach: what lookups need is in one small block, whose count of handles they change; what
//! changes ask for is together at the front of another.

use core::any::Any;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::calls::Callees;
use super::describe::Descriptions;
use super::functions::Functions;
use super::kept::{RecordedBy, Sites};
use super::module::ModuleId;
use super::owner::Owner;
use super::told::FoundReturns;
use super::unwind_by::UnwindBy;
use crate::addr::{CodeAddr, RecordId};
use crate::arch::{Arch, CallShape};
use crate::image::EhFrame;
use crate::memory::{CodeArea, PlacedSegments};
use crate::stackmap::{Constants, OwnedMaps, Record, StackSize, Version};

/// What was told of the sites of a module, where that is more than their shapes.
pub(super) struct ToldRecords {
    pub(super) records: OwnedMaps,
    pub(super) returns: FoundReturns,
}

/// What a module is made of: first, in this order, what changes ask for.
#[repr(C)]
pub(crate) struct ModuleParts {
    pub(crate) id: ModuleId,
    pub(crate) arch: Arch,
    /// Its patchpoints and entry sites are armed.
    pub(crate) live: bool,
    pub(crate) trust_live_outs: bool,
    pub(crate) may_have_run: bool,
    /// Its C convention is that of Windows.
    pub(crate) windows: bool,
    pub(crate) unwind_by: UnwindBy,
    /// Sorted by address. Most modules have one, which is inline.
    pub(crate) areas: SmallVec<[CodeArea; 1]>,
    /// The engine that it is registered with.
    pub(crate) owner: Arc<Owner>,
    pub(crate) functions: Functions,
    pub(crate) maps: OwnedMaps,
    pub(crate) eh_frames: Box<[EhFrame]>,
    /// The memory of code that the engine loaded, which is freed with the module.
    pub(crate) _placed: Option<PlacedSegments>,
}

/// What handles refer to, whose count a lookup changes: the sites, and in a block of its own what
/// lookups do without, so that it is small: see [`super::unused`].
#[derive(Default)]
#[repr(C)]
pub(super) struct Inner {
    /// First: with the count, and what of the sites is asked for most, it fills a line.
    pub(super) details: Option<Box<Details>>,
    /// They do not overlap.
    pub(super) sites: Sites,
}

/// In this order, so that changes wait for few lines of it.
#[repr(C)]
pub(super) struct Details {
    pub(super) released: AtomicBool,
    /// The number of its list of states in its engine, once it has one.
    pub(super) states_at: AtomicU32,
    /// The place that it got last in a table of sites.
    pub(super) table_at: AtomicU32,
    pub(super) parts: ModuleParts,
    /// What the sites held when they were audited, each with the rest of its last instruction.
    /// Those that held the same share it.
    pub(super) originals: Box<[u8]>,
    pub(super) shapes: Box<[CallShape]>,
    pub(super) callees: Callees,
    /// Most modules have no told site: they pay one word.
    pub(super) told: Option<Box<ToldRecords>>,
    pub(super) on_demand: OnceLock<Box<OnDemand>>,
}

/// What is made when it is first asked for. Most modules are never asked: they pay two words.
#[derive(Default)]
pub(super) struct OnDemand {
    pub(super) descriptions: Descriptions,
    /// What [`crate::deopt`] has read of its unwind information.
    pub(super) unwinds: OnceLock<Box<dyn Any + Send + Sync>>,
    /// By the addresses of functions, ascending.
    pub(super) stack_sizes: OnceLock<Box<[(CodeAddr, StackSize)]>>,
}

impl Deref for Inner {
    type Target = Details;

    #[inline]
    fn deref(&self) -> &Details {
        let details = self.details.as_deref();
        details.expect("nobody has a handle of a module before it is filled")
    }
}

impl Inner {
    pub(super) fn on_demand(&self) -> &OnDemand {
        self.on_demand.get_or_init(Box::default)
    }

    /// What was made; without an allocation, `None` if nobody has asked for anything.
    pub(super) fn known_on_demand(&self) -> Option<&OnDemand> {
        self.on_demand.get().map(|known| &**known)
    }

    pub(super) fn site_count(&self) -> usize {
        self.sites.len()
    }

    /// The ID of the site of that number.
    pub(super) fn id(&self, index: u32) -> RecordId {
        if let Some(maps) = self.maps_of(index) {
            let id = maps.id_at(self.sites.origin(index).at);
            return id.expect(REFERRED);
        }
        let id = self.sites.entry_ids.get(self.sites.origin(index).at as usize);
        *id.expect("a site that no stack map records was given an ID")
    }

    /// The stack maps that have the record of a site, if it has one.
    pub(super) fn maps_of(&self, index: u32) -> Option<&OwnedMaps> {
        match self.sites.form_of(index).recorded {
            RecordedBy::Nobody => None,
            RecordedBy::StackMap => Some(&self.parts.maps),
            RecordedBy::Runtime => {
                let told = self.told.as_ref();
                Some(&told.expect("a module with a told site has what was told").records)
            }
        }
    }

    /// Whether the record of a site says the same as one of that version does that has so many
    /// locations and these bytes.
    pub(super) fn has_record_like(
        &self,
        index: u32,
        (version, locations, live): (Version, u16, &[u8]),
    ) -> bool {
        let at = self.sites.origin(index).at;
        let maps = self.maps_of(index);
        maps.is_some_and(|maps| maps.is_alike_at(at, version, locations, live))
    }

    /// The record of a site with the constants that it refers to, if it has one.
    pub(super) fn record(&self, index: u32) -> Option<(Record<'_>, Constants<'_>)> {
        let record = self.maps_of(index)?.at(self.sites.origin(index).at);
        Some(record.expect(REFERRED))
    }
}

const REFERRED: &str = "a record of which there was a reference is in the stack maps";
