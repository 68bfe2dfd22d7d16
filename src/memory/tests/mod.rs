//! Tests of the strategies against the system: what is written, what is refused, and that W^X holds
//! throughout.
#![allow(unsafe_code)]

mod blocks;
mod figures;
#[cfg(target_os = "linux")]
mod forks;
mod placing;
mod process;
#[cfg(all(target_os = "linux", not(emulated)))]
mod remapping;
mod stubs;
mod toggling;
mod views;
mod writing;

use std::string::String;

use super::*;
use crate::addr::{CodeAddr, CodeRange};
use crate::memory::testing::process as child;
use crate::publish::{Level, Publisher, SingleThreaded, Stopped, World, serialize};

static PUBLISHER: std::sync::LazyLock<Publisher> = std::sync::LazyLock::new(Publisher::new);

/// As [`child::in_child`], when no other thread is about to make what the child needs: it would
/// wait for it for ever.
fn in_child(work: impl FnOnce() -> bool) -> bool {
    std::sync::LazyLock::force(&PUBLISHER);
    child::in_child(work)
}

/// As [`child::system_calls`], in such a child.
fn system_calls<T>(prepare: impl FnOnce() -> T, work: impl FnOnce(T)) -> std::vec::Vec<libc::c_long> {
    std::sync::LazyLock::force(&PUBLISHER);
    child::system_calls(prepare, work)
}

fn code_need(len: u64) -> SegmentNeed {
    SegmentNeed {
        kind: SegmentKind::Code,
        len,
        align: 64,
    }
}

fn aliased(len: u64) -> (PlacedSegments, CodeRange) {
    let placed = Arena::default()
        .place(&[code_need(len)], Reach::Anywhere)
        .unwrap()
        .finalize()
        .unwrap();
    let range = placed.segments()[0].range;
    (placed, range)
}

/// How far from its code a pool's stubs are.
const WITHIN: u64 = (1 << 31) - (1 << 16);

/// A pool of stubs, and code in reach of which it is.
fn pool() -> (StubPool, PlacedSegments, CodeRange) {
    let arena = Arena::default();
    let placed = arena.place(&[code_need(64)], Reach::Anywhere).unwrap();
    let code = placed.segments()[0].range;
    (StubPool::new(arena, WITHIN), placed.finalize().unwrap(), code)
}

/// Pages mapped read-execute by someone who is not the engine; unmapped on drop.
struct Foreign {
    range: CodeRange,
}

impl Foreign {
    fn new(pages: u64) -> Self {
        Self::with(pages, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE)
    }

    /// Between two pages that cannot be touched. The kernel merges mappings that touch each other
    /// and have one protection, also with those of other tests, and an emulator leaves what was
    /// merged out of `/proc/self/maps` where it protects the parts differently itself.
    fn with(pages: u64, prot: i32, sharing: i32) -> Self {
        let page = sys::page_size();
        let len = pages * page;
        let map = |at: *mut libc::c_void, len: u64, prot: i32, flags: i32| {
            // SAFETY: a new mapping where the kernel likes, or over pages of it that nothing uses yet.
            let mapped = unsafe { libc::mmap(at, len as usize, prot, flags | libc::MAP_ANONYMOUS, -1, 0) };
            assert_ne!(mapped, libc::MAP_FAILED);
            mapped.expose_provenance() as u64
        };
        let start = page
            + map(
                std::ptr::null_mut(),
                len + 2 * page,
                libc::PROT_NONE,
                libc::MAP_PRIVATE,
            );
        let at = std::ptr::with_exposed_provenance_mut(start as usize);
        map(at, len, prot, sharing | libc::MAP_FIXED);
        Self {
            range: CodeRange::new(CodeAddr::new(start), len).unwrap(),
        }
    }

    fn protect_page(&self, page: u64, prot: i32) {
        let at = self.range.start().get() + page * sys::page_size();
        let at = std::ptr::with_exposed_provenance_mut(at as usize);
        // SAFETY: one of our pages.
        assert_eq!(unsafe { libc::mprotect(at, sys::page_size() as usize, prot) }, 0);
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let page = sys::page_size();
        // SAFETY: mapped by us, with a page on each side.
        unsafe { sys::unmap(self.range.start().get() - page, self.range.len() + 2 * page) };
    }
}

fn stopped(work: impl FnOnce(&Stopped)) {
    // SAFETY: the tests patch memory of their own.
    let world = unsafe { SingleThreaded::promise() };
    let mut work = Some(work);
    world
        .while_stopped(&[], &mut |stopped| (work.take().unwrap())(stopped))
        .unwrap();
}

fn plus(at: CodeAddr, by: u64) -> CodeAddr {
    CodeAddr::new(at.get() + by)
}

fn sub(range: CodeRange, offset: u64, len: u64) -> CodeRange {
    CodeRange::new(plus(range.start(), offset), len).unwrap()
}

/// The protection column of the mapping that holds an address.
fn protection(at: CodeAddr) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| {
        let (range, _) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let bounds = (
            u64::from_str_radix(start, 16).unwrap(),
            u64::from_str_radix(end, 16).unwrap(),
        );
        bounds.0 <= at.get() && at.get() < bounds.1
    });
    line.map_or("none".into(), |line| {
        line.split_whitespace().nth(1).unwrap().into()
    })
}

fn write_in_transaction(memory: &dyn CodeMemory, at: CodeAddr, bytes: &[u8]) {
    let runs = PageRun::covering(&mut [CodeRange::new(at, bytes.len() as u64).unwrap()]).unwrap();
    stopped(|token| {
        memory.begin(&runs, token).unwrap();
        memory.write(at, bytes).unwrap();
        memory.end(&runs).unwrap();
    });
    let written = CodeRange::new(at, bytes.len() as u64).unwrap();
    PUBLISHER.publish(&[written], Level::Eventual).unwrap();
}
