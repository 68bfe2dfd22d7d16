//! Memory, and what cores see of it.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::rules::{CORES, Config, Failure, FetchOrder, LeftOut, PIECES, Prefetch, Rules, SITES, SLOTS};

/// What a piece of a site holds: bytes of some code in place, or of a jump, at the offsets where
/// the piece lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Piece(u8);

impl Piece {
    /// How many codes of a site there can be.
    pub(crate) const CODES: u8 = 6;
    /// A jump to the end of the site: the original code, where that is nops, without its bytes.
    pub(crate) const END: Self = Self(10);
    /// A jump to the exit stub, which is never freed.
    pub(crate) const EXIT: Self = Self(11);
    /// The trap.
    pub(crate) const TRAP: Self = Self(12);
    /// Bytes of no instruction.
    pub(crate) const FILLER: Self = Self(13);

    /// Bytes of the code of that number; the original is 0.
    pub(crate) const fn code(code: u8) -> Self {
        assert!(
            code < Self::CODES,
            "there is a number for the code of each change"
        );
        Self(code)
    }

    /// A jump to a slot.
    pub(crate) const fn jump(slot: u8) -> Self {
        assert!((slot as usize) < SLOTS, "there is such a slot");
        Self(Self::CODES + slot)
    }

    /// What it is.
    pub(crate) const fn is(self) -> Held {
        match self.0 {
            code if code < Self::CODES => Held::Code(code),
            10 => Held::End,
            11 => Held::Exit,
            12 => Held::Trap,
            13 => Held::Filler,
            slot => Held::Jump(slot - Self::CODES),
        }
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is() {
            Held::Code(code) => write!(f, "c{code}"),
            Held::Jump(slot) => write!(f, "->s{slot}"),
            Held::End => f.write_str("->end"),
            Held::Exit => f.write_str("->exit"),
            Held::Trap => f.write_str("trap"),
            Held::Filler => f.write_str("?"),
        }
    }
}

/// What a piece is a part of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    Code(u8),
    Jump(u8),
    End,
    Exit,
    Trap,
    Filler,
}

/// Code in a slot: that of a site, or traps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Content(u8);

impl Content {
    /// What is in a slot that nobody has.
    pub(crate) const FREE: Self = Self(0);

    /// Code of a site.
    pub(crate) const fn of(site: u8, code: u8) -> Self {
        Self(1 + site * Piece::CODES + code)
    }

    /// The site and the number.
    pub(crate) const fn code(self) -> Option<(u8, u8)> {
        match self.0.checked_sub(1) {
            Some(code) => Some((code / Piece::CODES, code % Piece::CODES)),
            None => None,
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code() {
            Some((site, code)) => write!(f, "c{code}/{site}"),
            None => f.write_str("free"),
        }
    }
}

/// What a location has held that may still be seen, but for what it holds now: oldest first, or
/// sorted where the order does not count.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    len: u8,
    values: [u8; 7],
}

impl Hash for Seen {
    /// As one word, of which there are many in a state.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let [a, b, c, d, e, f, g] = self.values;
        hasher.write_u64(u64::from_le_bytes([self.len, a, b, c, d, e, f, g]));
    }
}

impl Seen {
    pub(crate) fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        self.values.iter().copied().take(self.len.into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The location has held `old` and holds `new` now.
    fn push(&mut self, order: FetchOrder, old: u8, new: u8) {
        let all = self.iter().chain([old]);
        let mut all: Vec<u8> = match order {
            FetchOrder::Any => all.filter(|value| *value != new).collect(),
            FetchOrder::Forwards => all.collect(),
        };
        if order == FetchOrder::Any {
            all.sort_unstable();
            all.dedup();
        }
        assert!(
            all.len() <= self.values.len(),
            "there is room for what may be seen"
        );
        *self = Self::default();
        self.len = all.len() as u8;
        self.values[..all.len()].copy_from_slice(&all);
    }

    /// A core has seen the value at that index: it sees none before it any more.
    fn forget_before(&mut self, index: usize) {
        let kept: Vec<u8> = self.iter().skip(index).collect();
        *self = Self::default();
        self.len = kept.len() as u8;
        self.values[..kept.len()].copy_from_slice(&kept);
    }
}

/// Where a core's thread is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum At {
    /// In code of which the model knows nothing. It may report, and may come to a site.
    Outside,
    /// In code in place, which it has begun, before the instruction at that offset.
    Site { site: u8, code: u8, offset: u8 },
    /// In a stub, before the first or the second of its instructions.
    Stub { slot: u8, site: u8, code: u8, second: bool },
    /// In what a stub has called.
    Callee { slot: u8, site: u8, code: u8 },
    /// It has executed a trap, and will be asked where it goes.
    Handler { site: u8 },
}

/// A core, which has one thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Core {
    pub(crate) at: At,
    /// By site and unit, what it may see besides what is there.
    pub(crate) sites: [[Seen; PIECES]; SITES],
    /// By slot.
    pub(crate) slots: [Seen; SLOTS],
    /// The sites, as bits, for whose grace period it has reported.
    pub(crate) reported_sites: u8,
    /// The slots, as bits.
    pub(crate) reported_slots: u8,
    /// Whether it has serialized since the barrier began that is under way.
    pub(crate) has_serialized: bool,
}

/// The code memory and the cores.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Machine {
    pub(crate) sites: [[Piece; PIECES]; SITES],
    pub(crate) slots: [Content; SLOTS],
    /// What instruction caches may hold that have not been maintained.
    cached_sites: [[Seen; PIECES]; SITES],
    cached_slots: [Seen; SLOTS],
    pub(crate) cores: [Core; CORES],
}

/// An instruction that a core can execute next, of what it may see.
pub(crate) enum Fetched {
    /// The whole instruction of that length, of that.
    Whole(Held, u8),
    Fails(Failure),
}

impl Machine {
    pub(crate) fn new() -> Self {
        let core = Core {
            at: At::Outside,
            sites: [[Seen::default(); PIECES]; SITES],
            slots: [Seen::default(); SLOTS],
            reported_sites: 0,
            reported_slots: 0,
            has_serialized: false,
        };
        Self {
            sites: [[Piece::code(0); PIECES]; SITES],
            slots: [Content::FREE; SLOTS],
            cached_sites: [[Seen::default(); PIECES]; SITES],
            cached_slots: [Seen::default(); SLOTS],
            cores: [core; CORES],
        }
    }

    // ---- writing ----

    /// What a unit of a site holds, in one number.
    fn unit(&self, config: &Config, site: usize, unit: usize) -> u8 {
        let [gate, behind, last] = self.sites[site];
        match (config.rules, unit) {
            (Rules::X86_64, 0) => gate.0 | behind.0 << 4,
            (Rules::X86_64, _) => last.0,
            (Rules::AArch64, _) => self.sites[site][unit].0,
        }
    }

    /// A piece of a unit that holds that.
    fn piece_of(config: &Config, value: u8, piece: usize) -> Piece {
        match (config.rules, piece) {
            (Rules::X86_64, 0) => Piece(value & 0xf),
            (Rules::X86_64, 1) => Piece(value >> 4),
            _ => Piece(value),
        }
    }

    /// One store into the unit in which a piece lies, which changes that piece only, or, where it
    /// is said, the one behind it too.
    pub(crate) fn store(&mut self, config: &Config, site: usize, piece: usize, new: &[Piece]) {
        let unit = config.unit(piece);
        let old = self.unit(config, site, unit);
        self.sites[site][piece..piece + new.len()].copy_from_slice(new);
        let new = self.unit(config, site, unit);
        if old == new {
            return;
        }
        for core in &mut self.cores[..config.cores] {
            core.sites[site][unit].push(config.order, old, new);
        }
        if config.rules == Rules::AArch64 {
            let step = match piece {
                0 => LeftOut::MaintainedGate,
                _ => LeftOut::MaintainedTail,
            };
            // Maintained by the address that is executed, before anything else is done.
            if config.without(step) {
                self.cached_sites[site][unit].push(FetchOrder::Any, old, new);
            }
        }
    }

    /// Writes a slot.
    pub(crate) fn store_slot(&mut self, config: &Config, slot: usize, new: Content) {
        let old = self.slots[slot];
        self.slots[slot] = new;
        if old == new {
            return;
        }
        for core in &mut self.cores[..config.cores] {
            core.slots[slot].push(config.order, old.0, new.0);
        }
        if config.rules == Rules::AArch64 && config.without(LeftOut::MaintainedStub) {
            self.cached_slots[slot].push(FetchOrder::Any, old.0, new.0);
        }
    }

    // ---- seeing ----

    /// What a core may see of a location, each with its place in the order.
    fn visible(seen: &Seen, cached: &Seen, now: u8) -> impl Iterator<Item = (usize, u8)> + Clone + use<> {
        let (seen, cached) = (*seen, *cached);
        let fetched = (0..usize::from(seen.len)).map(move |index| (index, seen.values[index]));
        let newest = std::iter::once((seen.len.into(), now));
        let cached = (0..usize::from(cached.len)).map(move |index| (0, cached.values[index]));
        fetched.chain(newest).chain(cached)
    }

    fn visible_unit(
        &self,
        config: &Config,
        core: usize,
        site: usize,
        unit: usize,
    ) -> impl Iterator<Item = (usize, u8)> + Clone + use<> {
        let now = self.unit(config, site, unit);
        Self::visible(
            &self.cores[core].sites[site][unit],
            &self.cached_sites[site][unit],
            now,
        )
    }

    /// What a core may find in a slot, and what it may see from then on.
    pub(crate) fn look_into(&self, config: &Config, core: usize, slot: usize) -> Vec<(Content, Self)> {
        let (machine, order) = (*self, config.order);
        let seen = &self.cores[core].slots[slot];
        let visible = Self::visible(seen, &self.cached_slots[slot], self.slots[slot].0);
        let look = |(index, value)| {
            let mut next = machine;
            if order == FetchOrder::Forwards {
                next.cores[core].slots[slot].forget_before(index);
            }
            (Content(value), next)
        };
        visible.map(look).collect()
    }

    /// Every instruction that a core can execute at an offset of a site, and what it may see from
    /// then on.
    pub(crate) fn fetch(
        &self,
        config: &Config,
        core: usize,
        site: usize,
        offset: u8,
    ) -> Vec<(Fetched, Self)> {
        let bounds = config.bounds(site);
        let piece_at = |byte: u8| (1..=PIECES).find(|end| byte < bounds[*end]).map(|end| end - 1);
        let first = piece_at(offset).expect("a core is inside the site");
        let unit = config.unit(first);
        if config.rules == Rules::AArch64 && !self.may_be_seen(config, core, site, unit) {
            return vec![(Fetched::Fails(Failure::Unpredictable), *self)];
        }
        let mut found = Vec::new();
        for (index, value) in self.visible_unit(config, core, site, unit) {
            let next = self.having_seen(config, core, (site, unit), index);
            let held = Self::piece_of(config, value, first);
            let Some((start, len)) = instruction(config, site, held, offset) else {
                found.push((Fetched::Fails(Failure::Mixture), next));
                continue;
            };
            let Some(last) = piece_at(offset + len - 1) else {
                found.push((Fetched::Fails(Failure::Mixture), next));
                continue;
            };
            let other = (first..=last).find(|piece| config.unit(*piece) != unit);
            let mut here = (first..=last).filter(|piece| config.unit(*piece) == unit);
            let is_whole = start == offset && here.all(|piece| Self::piece_of(config, value, piece) == held);
            let whole = |is_whole: bool| match is_whole {
                true => Fetched::Whole(held.is(), len),
                false => Fetched::Fails(Failure::Mixture),
            };
            // No instruction has more than two parts.
            let Some(other) = other else {
                found.push((whole(is_whole), next));
                continue;
            };
            let other_unit = config.unit(other);
            for (index, value) in next.visible_unit(config, core, site, other_unit) {
                let is_whole = is_whole && Self::piece_of(config, value, other) == held;
                let next = next.having_seen(config, core, (site, other_unit), index);
                found.push((whole(is_whole), next));
            }
        }
        found
    }

    /// The AArch64 rule: a word of which a core may see two things is one of the instructions that
    /// may be exchanged, before and after.
    fn may_be_seen(&self, config: &Config, core: usize, site: usize, unit: usize) -> bool {
        let now = self.unit(config, site, unit);
        let mut values = self
            .visible_unit(config, core, site, unit)
            .map(|(_, value)| value);
        let may_be_exchanged = |value| unit == 0 && exchangeable(config, Piece(value));
        values.clone().all(|value| value == now) || values.all(may_be_exchanged)
    }

    fn having_seen(&self, config: &Config, core: usize, (site, unit): (usize, usize), index: usize) -> Self {
        let mut next = *self;
        if config.order == FetchOrder::Forwards {
            next.cores[core].sites[site][unit].forget_before(index);
        }
        next
    }

    // ---- serializing ----

    /// A core drops what it has fetched.
    pub(crate) fn serialize(&mut self, core: usize) {
        self.cores[core].sites = [[Seen::default(); PIECES]; SITES];
        self.cores[core].slots = [Seen::default(); SLOTS];
    }

    /// Whether a core sees nothing but what is there.
    pub(crate) fn is_current(&self, core: usize) -> bool {
        let core = &self.cores[core];
        core.sites.iter().flatten().chain(&core.slots).all(Seen::is_empty)
    }

    /// Forgets what cores cannot have fetched: slots to which nothing leads that they may see.
    pub(crate) fn drop_unfollowed(&mut self, config: &Config) {
        if config.prefetch == Prefetch::Anywhere {
            return;
        }
        for core in 0..config.cores {
            for slot in 0..config.slots {
                if !self.cores[core].slots[slot].is_empty() && !self.is_followed(config, core, slot) {
                    self.cores[core].slots[slot] = Seen::default();
                }
            }
        }
    }

    fn is_followed(&self, config: &Config, core: usize, slot: usize) -> bool {
        let jump = Piece::jump(slot as u8);
        let is_inside = match self.cores[core].at {
            At::Stub { slot: inside, .. } | At::Callee { slot: inside, .. } => usize::from(inside) == slot,
            _ => false,
        };
        let leads = |site| {
            self.visible_unit(config, core, site, 0)
                .any(|(_, value)| Self::piece_of(config, value, 0) == jump)
        };
        is_inside || (0..SITES).any(leads)
    }
}

/// The instruction of which a byte is a part: where it begins, and its length.
fn instruction(config: &Config, site: usize, held: Piece, byte: u8) -> Option<(u8, u8)> {
    let single = |len: u8| (byte < len).then_some((0, len));
    match held.is() {
        Held::Code(code) => {
            let mut start = 0;
            config.layout(site, code).iter().find_map(|len| {
                let this = (start, *len);
                start += len;
                (byte < start).then_some(this)
            })
        }
        Held::Jump(_) | Held::End | Held::Exit => single(config.jump_len()),
        Held::Trap => single(config.trap_len()),
        Held::Filler => None,
    }
}

/// Whether AArch64 lets the first word of a site be exchanged for another, or another for it.
fn exchangeable(config: &Config, word: Piece) -> bool {
    match word.is() {
        Held::Code(code) => config.begins_exchangeable(code),
        Held::Jump(_) | Held::End | Held::Exit | Held::Trap => true,
        Held::Filler => false,
    }
}
