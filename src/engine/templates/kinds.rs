//! Kinds of sites: what assembling and checking look at, but for where a site is.
//!
//! Problem: whoever patches a site asks whether the same sequence was assembled for a site like it.
//! Approach: all that matters of a site is written as words, and equal words have one number. Most
//! sites are of the kind of the one before, which is compared as it lies in its record; and a way to
//! an exit stub needs nothing of a site, so that sites of as many bytes are of one kind for it.
//!
//! Invariants: sites of one kind differ only in address and name. What is filled at sites of other
//! kinds, as a way to an exit stub is, was checked as at a site of which nothing is known. At most
//! [`SITES`] kinds are told apart.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use smallvec::{SmallVec, smallvec};

use crate::addr::Len;
use crate::arch::{CallShape, Convention, SiteContext, SiteKind};
use crate::sequence::Assembled;
use crate::site::{ModuleId, Site};
use crate::stackmap::{Constants, Location, LocationKind, Record, Version};
use crate::verify;
use patchpoint_asm::live::PatchableJump;

/// How many kinds of sites are told apart; sites of further kinds are assembled for each time.
const SITES: usize = 4096;

/// The kinds that are known.
#[derive(Default)]
pub(in crate::engine) struct SiteKinds {
    /// The kinds of sites, by their words.
    sites: HashMap<Box<[u64]>, u32, RandomState>,
    /// The site that was asked for last, if it was of the same kind as the one before: most are.
    last_site: Option<KnownSite>,
    /// The number of its kind.
    last_kind: u32,
    /// What ways to exit stubs are of.
    exits: Vec<ExitKind>,
}

/// What a way to an exit stub is of: sites of as many bytes.
struct ExitKind {
    reserved: Len,
    /// The number of the kind; `None` where such a way needs more than any site leaves free.
    number: Option<u32>,
}

/// What makes a site one of its kind. Most records have few locations.
type Words = SmallVec<[u64; 16]>;

/// What makes a site one of its kind, as it lies in its record: words are made of it only where that
/// differs from the one before. With them, a site's first patch in a large transaction takes an eighth
/// more.
struct KnownSite {
    /// With that the next two are the same. Of the last site that was like it.
    form: (ModuleId, u32),
    shape: CallShape,
    trusts_live_outs: bool,
    jump: Option<[Len; 2]>,
    record: Option<(Version, u16)>,
    /// What its record says is live, which refers to no constants of its map.
    live: SmallVec<[u8; 128]>,
    number: u32,
}

impl KnownSite {
    /// What is known of a site of the kind of that number; `None` where its record alone does not say
    /// all.
    fn new(site: &Site, jump: Option<PatchableJump>, number: u32) -> Option<Self> {
        let record = site.record().map(|(record, _)| record);
        let refers = |location: Location| matches!(location.kind, LocationKind::ConstantIndex { .. });
        // protection: constants-are-not-known-by-their-index
        if record.iter().flat_map(Record::locations).any(refers) {
            return None;
        }
        Some(Self {
            form: site.form_key(),
            shape: site.shape(),
            trusts_live_outs: site.module().trusts_live_outs(),
            jump: jump.map(|jump| [jump.offset, jump.len]),
            record: record.map(|record| (record.version(), record.locations().len() as u16)),
            live: record.map_or_else(SmallVec::new, |record| record.live_bytes().into()),
            number,
        })
    }

    /// Whether a site is of the same kind, at first sight.
    fn is_like(&mut self, site: &Site, jump: Option<PatchableJump>) -> bool {
        let has_record = match self.record {
            // protection: the-kind-before-is-of-the-same-record
            Some((version, locations)) => site.has_record_like((version, locations, &self.live)),
            None => !site.has_record(),
        };
        let form = site.form_key();
        let has_shape = || {
            let trusts_live_outs = site.module().trusts_live_outs();
            self.shape == site.shape() && self.trusts_live_outs == trusts_live_outs
        };
        let is_like = has_record
            && (self.form == form || has_shape())
            && self.jump == jump.map(|jump| [jump.offset, jump.len]);
        if is_like {
            self.form = form;
        }
        is_like
    }
}

impl SiteKinds {
    /// The number of a site's kind, if it is known or can be. Live sites are of the same kind if
    /// their patchable jumps lie alike.
    pub(in crate::engine) fn of(&mut self, site: &Site, jump: Option<PatchableJump>) -> Option<u32> {
        if let Some(last) = &mut self.last_site {
            if last.is_like(site, jump) {
                return Some(last.number);
            }
            self.last_site = None;
        }
        let number = self.site(&site.context(&[]), jump)?;
        // Where each is of another kind than the one before, nothing is remembered in vain.
        if number == self.last_kind {
            self.last_site = KnownSite::new(site, jump, number);
        }
        self.last_kind = number;
        Some(number)
    }

    /// The number of the kind of all sites of as many bytes, if a way to an exit stub needs no more than
    /// any of them leaves free. To ask for the kind of each is a fifth of what it takes to invalidate a
    /// function.
    #[inline]
    pub(in crate::engine) fn of_exits<'a>(
        &mut self,
        reserved: Len,
        site: impl FnOnce() -> SiteContext<'a>,
    ) -> Option<u32> {
        match self.exits.iter().find(|exits| exits.reserved == reserved) {
            Some(exits) => exits.number,
            None => self.add_of_exits(&site()),
        }
    }

    #[cold]
    fn add_of_exits(&mut self, site: &SiteContext<'_>) -> Option<u32> {
        let number = self.site(&as_any(site), None)?;
        self.exits.push(ExitKind {
            reserved: site.shape.reserved(),
            number: Some(number),
        });
        Some(number)
    }

    /// Whether code that was checked at a site may be filled at sites of that kind. A way to an exit stub
    /// that may not be at any site of as many bytes is of each site's own kind from then on.
    pub(super) fn admits(&mut self, kind: u32, site: &SiteContext<'_>, assembled: &Assembled) -> bool {
        let mut exits = self.exits.iter_mut();
        let Some(exits) = exits.find(|exits| exits.number == Some(kind)) else {
            return true;
        };
        let (code, declared) = (&assembled.code, &assembled.declared);
        // protection: ways-to-exits-are-checked-for-any-site
        let is_admitted = verify::check(&as_any(site), code, &[], declared).is_ok();
        if !is_admitted {
            exits.number = None;
        }
        is_admitted
    }

    /// Whether that is the kind of all sites of as many bytes.
    pub(in crate::engine) fn is_of_exits(&self, kind: u32) -> bool {
        self.exits.iter().any(|exits| exits.number == Some(kind))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.sites.len()
    }

    /// The same of what is known of a site.
    fn site(&mut self, site: &SiteContext<'_>, jump: Option<PatchableJump>) -> Option<u32> {
        let mut words = words(site);
        // One gate is a template for the others: where it does not fit, it is assembled each time.
        words.extend(
            jump.map(|jump| 1 << 63 | u64::from(jump.offset.get()) << 32 | u64::from(jump.len.get())),
        );
        match self.sites.get(&*words) {
            Some(number) => Some(*number),
            None => self.add(&words),
        }
    }

    /// The number of sites of that kind that have such return offsets to keep, if it is known or can
    /// be.
    pub(in crate::engine) fn returning(&mut self, kind: u32, return_offsets: &[u32]) -> Option<u32> {
        // No site's own words begin like this.
        let mut words: SmallVec<[u64; 4]> = smallvec![u64::MAX, kind.into()];
        words.extend(return_offsets.iter().copied().map(u64::from));
        match self.sites.get(&*words) {
            Some(number) => Some(*number),
            None => self.add(&words),
        }
    }

    fn add(&mut self, words: &[u64]) -> Option<u32> {
        let number = u32::try_from(self.sites.len()).ok();
        let number = number.filter(|number| (*number as usize) < SITES)?;
        self.sites.insert(words.into(), number);
        Some(number)
    }
}

/// A site of as many bytes of which nothing is known: as at a marked one everything is live, so what may be
/// there and only goes away may be at any.
fn as_any<'a>(site: &SiteContext<'a>) -> SiteContext<'a> {
    SiteContext {
        shape: CallShape::marked(site.shape.reserved().get()),
        record: None,
        constants: Constants::NONE,
        trust_live_outs: false,
        ..*site
    }
}

/// All of a site that assembling and checking look at, but for its address, its return offsets and
/// its name.
fn words(site: &SiteContext<'_>) -> Words {
    let shape = site.shape;
    let kind: u64 = match shape.kind() {
        SiteKind::Patchpoint => 0,
        SiteKind::Shadow => 1,
        SiteKind::Entry => 2,
        SiteKind::Marked => 3,
        SiteKind::Call => 4,
        SiteKind::Told => 5,
    };
    let flags = [
        shape.convention() == Convention::C,
        shape.has_result(),
        site.trust_live_outs,
        site.record.is_some(),
        shape.has_free_flags(),
        shape.has_free_stack(),
    ];
    let flags = flags.iter().fold(0, |sum, flag| sum << 1 | u64::from(*flag));
    let mut words = Words::new();
    words.extend([
        kind | flags << 8 | u64::from(shape.reserved().get()) << 32,
        shape.arg_count().into(),
    ]);
    if shape.kind() == SiteKind::Told {
        let free = shape.free_registers().bits();
        // protection: told-sites-are-told-apart
        words.extend([free as u64, (free >> 64) as u64]);
    }
    if let Some(record) = site.record {
        let (locations, live_outs) = (record.locations(), record.live_outs());
        words.push(locations.len() as u64);
        locations.for_each(|location| words.extend(of_location(&location, site.constants)));
        words.extend(live_outs.map(|live| u64::from(live.reg.get()) | u64::from(live.size) << 16));
    }
    words
}

fn of_location(location: &Location, constants: Constants<'_>) -> [u64; 2] {
    let (kind, reg, value) = match location.kind {
        LocationKind::Register { reg, bit_offset } => (1, reg.get(), bit_offset as u64),
        LocationKind::Direct { reg, offset } => (2, reg.get(), offset as u64),
        LocationKind::Indirect { reg, offset } => (3, reg.get(), offset as u64),
        LocationKind::Constant { value } => (4, 0, value as u64),
        LocationKind::ConstantIndex { index } => {
            let value = constants.get(index);
            (5, 0, value.expect("the parser has checked the index"))
        }
    };
    [kind | u64::from(reg) << 8 | u64::from(location.size) << 32, value]
}
