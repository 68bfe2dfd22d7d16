//! Remap: pages of others, exchanged while threads execute them. What is refused is in `refusals`,
//! and what children have of them in `forks`.

mod forks;
mod refusals;

use std::format;
use std::os::fd::AsRawFd;
use std::string::{String, ToString};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::vec::Vec;

use super::*;
use crate::memory::Error;
use crate::memory::fork::gate::{self, Writing};
use crate::memory::remap::BEFORE_COMPARING;
use crate::memory::testing::host_code::{HOST, pointer};
use crate::memory::testing::process::{End, deny, deny_where, end_of_child, end_of_child_after};

const RX: i32 = libc::PROT_READ | libc::PROT_EXEC;
const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;

fn raw(at: CodeAddr) -> *mut libc::c_void {
    std::ptr::with_exposed_provenance_mut(at.get() as usize)
}

/// Pages of a JIT's that hold a function which returns 7 at the start of each, and are zero behind.
fn jitted(pages: u64) -> Foreign {
    let foreign = Foreign::with(pages, RW, libc::MAP_PRIVATE);
    for page in 0..pages {
        let at = plus(foreign.range.start(), page * sys::page_size());
        // SAFETY: a page of the test's that nobody executes yet.
        unsafe { raw::store(at.get(), HOST.seven) };
    }
    for page in 0..pages {
        foreign.protect_page(page, RX);
    }
    publish(foreign.range);
    foreign
}

/// Ends other threads, also where a test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn publish(range: CodeRange) {
    PUBLISHER.publish(&[range], Level::Eventual).unwrap();
}

fn page(foreign: &Foreign, index: u64) -> CodeRange {
    sub(foreign.range, index * sys::page_size(), sys::page_size())
}

fn call(at: CodeAddr) -> u64 {
    // SAFETY: a function without arguments that returns a number.
    let function: extern "C" fn() -> u64 = unsafe { std::mem::transmute(pointer(at)) };
    function()
}

fn remap(range: CodeRange) -> Result<Remap> {
    // SAFETY: pages of the test's, which nobody else writes.
    unsafe { Remap::register(range) }
}

/// Writes a function of a site's length, and calls it.
fn write_and_call(memory: &dyn CodeMemory, at: CodeAddr, code: &[u8]) -> u64 {
    memory.write(at, code).unwrap();
    publish(CodeRange::new(at, code.len() as u64).unwrap());
    call(at)
}

/// What `/proc/self/maps` has of remapped pages.
fn views() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let views = maps
        .lines()
        .filter(|line| line.contains("memfd:patchpoint remapped"));
    views.map(ToString::to_string).collect()
}

/// Executable mappings of this process whose line contains a text.
fn texts(of: &str) -> Vec<CodeRange> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let lines = maps
        .lines()
        .filter(|line| line.contains(" r-xp ") && line.contains(of));
    let bounds = lines.map(|line| {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        [start, end].map(|number| u64::from_str_radix(number, 16).unwrap())
    });
    bounds
        .map(|[start, end]| CodeRange::new(CodeAddr::new(start), end - start).unwrap())
        .collect()
}

#[test]
fn remapped_pages_are_written_through_their_view_and_given_back() {
    assert!(in_child(|| {
        let jit = jitted(1);
        let at = jit.range.start();
        for (code, expected) in [(HOST.five, 5), (HOST.seven, 7)] {
            let memory = remap(sub(jit.range, 0, 64)).unwrap();
            assert_eq!(memory.strategy(), Strategy::Remap);
            assert_eq!(call(at), 12 - expected);
            assert_eq!(protection(at), "r-xs");
            assert_eq!(write_and_call(&memory, at, code), expected);
            assert_eq!(memory.holds(at, code), Ok(true));
            // A transaction writes it as it writes the engine's own.
            let alias = memory.as_alias().unwrap();
            assert!(alias.holds(at, code).unwrap() && alias.range() == page(&jit, 0));
            let protections: Vec<String> = views()
                .iter()
                .map(|view| view.split_whitespace().nth(1).unwrap().into())
                .collect();
            assert!(protections.len() == 2 && protections.contains(&"rw-s".into()));
            // The file is sealed.
            // SAFETY: refused.
            assert_ne!(unsafe { libc::mprotect(raw(at), 4096, RW) }, 0);
            drop(memory);
            // The owner has private memory again, and can do with it what it likes.
            assert_eq!((call(at), protection(at).as_str()), (expected, "r-xp"));
            assert_eq!(views(), [""; 0]);
            jit.protect_page(0, RW);
            jit.protect_page(0, RX);
            assert_eq!(call(at), expected);
        }
        true
    }));
}

/// Two threads execute a page that is remapped and given back a thousand times, and patched
/// meanwhile.
#[test]
fn threads_execute_pages_while_these_are_exchanged() {
    const ROUNDS: u64 = 1000;
    let jit = jitted(2);
    // One on each page: the pages are remapped together.
    let functions = [0, 1].map(|index| page(&jit, index).start());
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let stops = StopOnDrop(&stop);
        let runners = [0, 1].map(|_| {
            scope.spawn(|| {
                let mut wrong = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..100 {
                        let results = functions.map(call);
                        wrong += u64::from(!results.iter().all(|result| [5, 7].contains(result)));
                    }
                    calls.fetch_add(200, Ordering::Relaxed);
                }
                wrong
            })
        });
        for round in 0..ROUNDS {
            let memory = remap(jit.range).unwrap();
            let (code, expected) = [(HOST.five, 5), (HOST.seven, 7)][round as usize % 2];
            for at in functions {
                // In one aligned quadword, and so by one store.
                memory.write(at, code).unwrap();
            }
            publish(jit.range);
            assert_eq!(functions.map(call), [expected; 2], "round {round}");
            drop(memory);
            assert_eq!(functions.map(call), [expected; 2], "round {round}");
        }
        while calls.load(Ordering::Relaxed) < 10_000 {
            std::thread::yield_now();
        }
        drop(stops);
        assert_eq!(runners.map(|runner| runner.join().unwrap()), [0; 2]);
    });
    std::eprintln!("{ROUNDS} rounds beside {calls:?} calls");
}

/// LLVM packs functions: the second that is adopted on a page shares its view, and one that goes
/// over its end has two.
#[test]
fn functions_that_share_pages_share_views() {
    assert!(in_child(|| {
        let jit = jitted(4);
        let start = jit.range.start();
        let size = sys::page_size();
        let first = remap(sub(jit.range, size, 64)).unwrap();
        let second = remap(sub(jit.range, size + 64, 64)).unwrap();
        assert_eq!(views().len(), 2);
        drop(first);
        assert_eq!(protection(plus(start, size)), "r-xs");
        // Over it on both sides.
        let third = remap(sub(jit.range, size - 32, 2 * size)).unwrap();
        assert_eq!(views().len(), 6);
        assert!(third.as_alias().is_none());
        let around = sub(jit.range, size - 20, 40);
        let bytes: Vec<u8> = (1..=40).collect();
        third.write(around.start(), &bytes).unwrap();
        let mut found = [0; 40];
        third.read(around.start(), &mut found).unwrap();
        assert_eq!(found[..], bytes);
        assert_eq!(third.holds(around.start(), &bytes), Ok(true));
        // The second sees what of that is on its page, and nothing outside was written.
        assert_eq!(
            second.as_alias().unwrap().holds(plus(start, size), &bytes[20..]),
            Ok(true)
        );
        for word in [plus(start, size - 8), plus(start, 2 * size)] {
            let mut old = [0; 8];
            third.read(word, &mut old).unwrap();
            let exchanged = third.live().unwrap().exchange(word, old, [9; 8]);
            assert_eq!((exchanged, third.holds(word, &[9; 8])), (Ok(()), Ok(true)));
        }
        assert_eq!(call(plus(start, 3 * size)), 7);
        drop(second);
        drop(third);
        views().is_empty() && call(plus(start, 3 * size)) == 7 && call(start) == 7
    }));
}

#[test]
fn nothing_outside_the_range_is_written() {
    let jit = jitted(1);
    let range = sub(jit.range, 68, 8);
    let memory = remap(range).unwrap();
    let outside = |done: Result<()>| matches!(done, Err(Error::OutsideMemory { .. }));
    assert!(outside(memory.write(plus(range.start(), 1), &[1; 8])));
    assert!(outside(memory.write(jit.range.start(), HOST.five)));
    let live = memory.live().unwrap();
    // The words at both ends are read whole, for an exchange, and no others.
    let is_read = |at| {
        let read = memory.read(plus(jit.range.start(), at), &mut [0; 8]);
        assert!(read.is_ok() || outside(read.clone()));
        read.is_ok()
    };
    assert_eq!(
        [56, 63, 64, 68, 72, 73, 80].map(is_read),
        [false, false, true, true, true, false, false]
    );
    // The word has four bytes of the range: these may change.
    let word = plus(jit.range.start(), 64);
    assert!(outside(live.exchange(word, [0; 8], [1; 8])));
    assert_eq!(live.exchange(word, [0; 8], [0, 0, 0, 0, 1, 2, 3, 4]), Ok(()));
    assert!(outside(live.exchange(
        plus(jit.range.start(), sys::page_size()),
        [0; 8],
        [0; 8]
    )));
    let runs = PageRun::covering(&mut [page(&jit, 0)]).unwrap();
    let next = sub(jit.range, 0, sys::page_size());
    let next = CodeRange::new(next.end(), 1).unwrap();
    let beyond = PageRun::covering(&mut [next]).unwrap();
    stopped(|token| {
        assert_eq!(memory.begin(&runs, token), Ok(()));
        assert!(outside(memory.begin(&beyond, token)));
    });
    assert_eq!(call(jit.range.start()), 7);
}

/// A file with code, as a dynamic linker maps it.
fn mapped_file(name: &str, sharing: i32) -> (CodeRange, std::path::PathBuf) {
    let path = std::env::temp_dir().join(format!("patchpoint-{name}-{}", std::process::id()));
    let size = sys::page_size();
    let mut text = HOST.seven.to_vec();
    text.resize(size as usize + 100, 0);
    std::fs::write(&path, &text).unwrap();
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    // SAFETY: a new mapping where the kernel likes.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            2 * size as usize,
            RX,
            sharing,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(at, libc::MAP_FAILED);
    let start = CodeAddr::new(at.expose_provenance() as u64);
    (CodeRange::new(start, 2 * size).unwrap(), path)
}

#[test]
fn text_of_a_file_is_remapped_and_the_file_unchanged() {
    let (range, path) = mapped_file("text", libc::MAP_PRIVATE);
    let before = std::fs::read(&path).unwrap();
    let memory = remap(range).unwrap();
    assert_eq!(call(range.start()), 7);
    assert_eq!(write_and_call(&memory, range.start(), HOST.five), 5);
    drop(memory);
    assert_eq!(call(range.start()), 5);
    assert!(std::fs::read(&path).unwrap() == before);
    std::fs::remove_file(path).unwrap();
    // SAFETY: mapped above, and nobody executes it.
    unsafe { sys::unmap(range.start().get(), range.len()) };
}

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.patchpoint_remapped, \"ax\", @progbits",
    ".p2align 12",
    ".globl patchpoint_own_text",
    ".hidden patchpoint_own_text",
    ".type patchpoint_own_text, @function",
    "patchpoint_own_text: mov $7, %eax",
    "ret",
    ".p2align 12, 0xcc",
    ".popsection",
    options(att_syntax)
);

/// This program's own text, in a page of its own, while another thread executes it.
#[test]
#[cfg(target_arch = "x86_64")]
fn own_text_is_remapped() {
    unsafe extern "C" {
        safe fn patchpoint_own_text() -> u64;
    }
    let at = CodeAddr::new(patchpoint_own_text as *const () as u64);
    let memory = remap(CodeRange::new(at, 6).unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stops = StopOnDrop(&stop);
        let runner = scope.spawn(|| {
            let mut seen = [0_u64; 2];
            while !stop.load(Ordering::Relaxed) {
                match patchpoint_own_text() {
                    5 => seen[0] += 1,
                    7 => seen[1] += 1,
                    wrong => panic!("{wrong}"),
                }
            }
            seen
        });
        for round in 0..2000 {
            let expected = [5, 7][round % 2];
            assert_eq!(
                write_and_call(&memory, at, [HOST.five, HOST.seven][round % 2]),
                expected
            );
        }
        drop(stops);
        runner.join().unwrap();
    });
    drop(memory);
    assert_eq!((patchpoint_own_text(), protection(at).as_str()), (7, "r-xp"));
}

/// A page of a transparent huge page: that is split.
#[test]
fn a_part_of_a_huge_page_is_remapped() {
    const HUGE: u64 = 2 << 20;
    let room = Foreign::with(2 * HUGE / sys::page_size(), RW, libc::MAP_PRIVATE);
    let start = room.range.start().get().next_multiple_of(HUGE);
    let at = CodeAddr::new(start + HUGE / 2);
    // SAFETY: pages of the test's.
    unsafe {
        libc::madvise(raw(CodeAddr::new(start)), HUGE as usize, libc::MADV_HUGEPAGE);
        raw::store(at.get(), HOST.seven);
        assert_eq!(
            libc::mprotect(raw(room.range.start()), room.range.len() as usize, RX),
            0
        );
    }
    let memory = remap(CodeRange::new(at, 64).unwrap()).unwrap();
    assert_eq!(call(at), 7);
    assert_eq!(write_and_call(&memory, at, HOST.five), 5);
}

/// Adjacent code of two mappings: each is remapped as it was.
#[test]
fn a_range_of_several_mappings_has_a_view_for_each() {
    let jit = jitted(2);
    let size = sys::page_size() as usize;
    let program = std::fs::File::open("/proc/self/exe").unwrap();
    let (at, flags) = (raw(page(&jit, 1).start()), libc::MAP_PRIVATE | libc::MAP_FIXED);
    // SAFETY: over a page of the test's that nothing uses.
    let mapped = unsafe { libc::mmap(at, size, RX, flags, program.as_raw_fd(), 0) };
    assert_eq!(mapped, at);
    let memory = remap(jit.range).unwrap();
    assert!(memory.as_alias().is_none());
    let boundary = sub(jit.range, size as u64 - 8, 16);
    memory.write(boundary.start(), &[7; 16]).unwrap();
    assert_eq!(memory.holds(boundary.start(), &[7; 16]), Ok(true));
    assert_eq!(memory.holds(plus(page(&jit, 1).start(), 8), &[0; 8]), Ok(true));
    assert_eq!(call(jit.range.start()), 7);
}

/// With PR_SET_MDWE, in a child as it cannot be undone.
#[test]
fn memory_deny_write_execute_leaves_remap() {
    assert!(in_child(|| {
        let jit = jitted(1);
        // PR_MDWE_REFUSE_EXEC_GAIN
        // SAFETY: concerns only this child.
        if unsafe { libc::prctl(libc::PR_SET_MDWE, 1_u64, 0_u64, 0_u64, 0_u64) } != 0 {
            std::eprintln!("left out: this kernel has no PR_SET_MDWE");
            return true;
        }
        let memory = remap(jit.range).unwrap();
        let written = write_and_call(&memory, jit.range.start(), HOST.five) == 5;
        let child = end_of_child(|| call(jit.range.start()) == 5);
        drop(memory);
        written && child == End::Returned(true) && call(jit.range.start()) == 5
    }));
}
