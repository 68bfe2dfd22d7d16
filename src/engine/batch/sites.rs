//! Which sites a batch has, and where they are.
//!
//! Problem: sites of a thousand modules are gone through eight times until they are written and filed. To
//! ask each module for the addresses of its sites each time is an eighth of the instructions, and of a thousand
//! modules little is in the nearest cache. Approach: the addresses lie side by side as long as the
//! batch is prepared and committed, whatever their modules; so do those of one memory.

use std::ops::Range;

use super::HAS_ALL;
use crate::addr::CodeAddr;
use crate::invariant::OrAbort;
use crate::memory::{Alias, CodeMemory};
use crate::site::Module;

/// Sites of a batch that follow each other in their module.
pub(super) struct Part {
    pub(super) module: Module,
    pub(super) sites: Range<u32>,
    /// How many sites of the batch come before.
    pub(super) before: usize,
    /// Its number among those of all batches, once it is committed.
    pub(super) number: u32,
}

impl Part {
    /// How many sites of the batch come before the next one's.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.before + self.sites.len()
    }

    /// The number in the batch of one of its sites.
    pub(super) fn number_of(&self, index: u32) -> usize {
        self.before + (index - self.sites.start) as usize
    }
}

/// The sites of a batch.
#[derive(Default)]
pub(super) struct BatchSites {
    /// How many have joined.
    count: usize,
    parts: Vec<Part>,
    /// Where each is, until what was committed is filed.
    addrs: Vec<CodeAddr>,
    /// The memories that they are in, each with how many are in it or in one before. Kept as long as `addrs`.
    memories: Vec<(Alias, usize)>,
}

/// Those that follow each other in one memory.
pub(super) struct OfMemory<'b> {
    pub(super) memory: &'b Alias,
    /// How many sites of the batch come before.
    pub(super) before: usize,
    pub(super) addrs: &'b [CodeAddr],
}

impl<'b> OfMemory<'b> {
    /// Each with its own of what lies side by side of all of the batch, so many bytes of each.
    #[inline(always)] // As `SiteBatch::unlike`.
    pub(super) fn with(&self, all: &'b [u8], len: usize) -> impl Iterator<Item = (CodeAddr, &'b [u8])> {
        let own = all.get(self.before * len..(self.before + self.addrs.len()) * len);
        let own = own.or_abort(HAS_ALL).chunks_exact(len);
        self.addrs.iter().copied().zip(own)
    }
}

impl BatchSites {
    /// How many have joined it.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Those of each module, or more of these.
    #[inline]
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub(super) fn parts_mut(&mut self) -> &mut [Part] {
        &mut self.parts
    }

    /// Where each is; of a batch that is filed, nothing.
    #[inline]
    pub(super) fn addrs(&self) -> &[CodeAddr] {
        &self.addrs
    }

    /// Those of each memory.
    #[inline]
    pub(super) fn by_memory(&self) -> impl Iterator<Item = OfMemory<'_>> {
        let mut before = 0;
        self.memories.iter().map(move |(memory, end)| {
            let addrs = self.addrs.get(before..*end).or_abort(HAS_ALL);
            let of = OfMemory {
                memory,
                before,
                addrs,
            };
            before = *end;
            of
        })
    }

    /// The memory and the address of the site of that number.
    pub(super) fn place(&self, number: usize) -> (&Alias, CodeAddr) {
        let mut memories = self.by_memory();
        let of = memories.find_map(|of| Some((of.memory, *of.addrs.get(number.checked_sub(of.before)?)?)));
        of.or_abort(HAS_ALL)
    }

    /// Adds sites that follow each other in a module, in one memory.
    pub(super) fn join(&mut self, (module, memory): (&Module, &Alias), sites: Range<u32>) {
        let (before, end) = (self.count, self.count + sites.len());
        self.count = end;
        self.addrs.extend(module.site_addrs(sites.clone()));
        let last = self.memories.last_mut();
        // protection: batches-are-of-one-memory (2)
        match last.filter(|(last, _)| last.range() == memory.range()) {
            Some((_, until)) => *until = end,
            None => self.memories.push((memory.clone(), end)),
        }
        let last = self.parts.last_mut();
        match last.filter(|last| last.sites.end == sites.start && last.module.is_same(module)) {
            Some(last) => last.sites.end = sites.end,
            None => self.parts.push(Part {
                module: module.clone(),
                sites,
                before,
                number: 0,
            }),
        }
    }

    /// Takes out the site of that number. Those behind it have one less.
    #[cold]
    pub(super) fn take_out(&mut self, number: usize) -> (Module, Range<u32>) {
        let at = self.parts.partition_point(|part| part.end() <= number);
        for part in self.parts.iter_mut().skip(at + 1) {
            part.before -= 1;
        }
        for (_, end) in self.memories.iter_mut().filter(|(_, end)| *end > number) {
            *end -= 1;
        }
        self.addrs.remove(number);
        self.count -= 1;
        let part = self.parts.get_mut(at).expect("one of the parts has the site");
        let index = part.sites.start + (number - part.before) as u32;
        let (module, behind) = (part.module.clone(), index + 1..part.sites.end);
        part.sites.end = index;
        let behind = Part {
            module: module.clone(),
            sites: behind,
            before: number,
            ..*part
        };
        if !behind.sites.is_empty() {
            self.parts.insert(at + 1, behind);
        }
        self.parts.retain(|part| !part.sites.is_empty());
        (module, index..index + 1)
    }

    /// Takes out all from that number on.
    #[cold]
    pub(super) fn split_off(&mut self, number: usize) -> Vec<(Module, Range<u32>)> {
        let mut behind = Vec::new();
        while self.parts.last().is_some_and(|last| last.end() > number) {
            let last = self.parts.last_mut().expect("sites are left");
            let (module, start) = (last.module.clone(), last.sites.start);
            let first = start + number.saturating_sub(last.before) as u32;
            behind.push((module, first..last.sites.end));
            last.sites.end = first;
            if first == start {
                self.parts.pop();
            }
        }
        behind.reverse();
        self.count = number;
        self.addrs.truncate(number);
        for (_, end) in &mut self.memories {
            *end = number.min(*end);
        }
        behind
    }

    /// Takes out all.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Keeps which sites these are, and not where they are.
    pub(super) fn forget_places(&mut self) {
        self.addrs = Vec::new();
        self.memories = Vec::new();
        // Mostly there is one, in room for more.
        self.parts.shrink_to_fit();
    }
}
