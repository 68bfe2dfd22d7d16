//! Remap: pages of others, exchanged while threads execute them; what is refused, and that nothing
//! has changed then; what children have of them.

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

/// All that a child executes between the fork and the end of its handlers, and all else that there
/// is, is remapped: the program, the C library, its loader.
#[test]
fn a_child_runs_where_all_text_of_its_parent_is_remapped() {
    assert!(in_child(|| {
        let program = std::env::current_exe().unwrap();
        let program = program.file_name().unwrap().to_str().unwrap();
        let mut memories = Vec::new();
        for text in [program, "libc.so", "ld-linux", "libgcc_s"]
            .into_iter()
            .flat_map(texts)
        {
            memories.push(remap(text).unwrap());
        }
        assert!(!memories.is_empty() && texts(program).is_empty());
        let ends = [(); 3].map(|()| {
            end_of_child(|| {
                let allocated: Vec<String> = (0..100).map(|number| number.to_string()).collect();
                // The child has private memory, and may begin anew.
                let own = texts("memfd:patchpoint").len() >= memories.len();
                own && allocated.len() == 100 && end_of_child(|| true) == End::Returned(true)
            })
        });
        drop(memories);
        ends == [End::Returned(true); 3] && views().is_empty()
    }));
}

/// What the parent patches later does not reach the child, and the parent goes on as before.
#[test]
fn a_child_keeps_what_it_was_forked_with() {
    assert!(in_child(|| {
        let jit = jitted(1);
        let at = jit.range.start();
        let memory = remap(jit.range).unwrap();
        let end = end_of_child_after(
            || assert_eq!(write_and_call(&memory, at, HOST.five), 5),
            || {
                let mut read = std::vec![0; HOST.seven.len()];
                let is_read = memory.read(at, &mut read) == Ok(()) && read == HOST.seven;
                let forked = matches!(memory.write(at, HOST.five), Err(Error::Forked { .. }));
                let mut begun = None;
                stopped(|token| begun = Some(memory.begin(&[], token)));
                let refused = matches!(begun, Some(Err(Error::Forked { .. })));
                // It is the child's, who can have it remapped for an engine of its own.
                let own = remap(jit.range).unwrap();
                let changed = write_and_call(&own, at, HOST.five) == 5;
                let shared = protection(at) == "r-xs";
                drop(own);
                drop(memory.as_alias().cloned());
                is_read && forked && refused && changed && shared && protection(at) == "r-xp" && call(at) == 5
            },
        );
        assert_eq!(end, End::Returned(true));
        assert_eq!((call(at), protection(at).as_str()), (5, "r-xs"));
        // After the fork the parent writes what it executes.
        assert_eq!(write_and_call(&memory, at, HOST.seven), 7);
        assert_eq!(views().len(), 2);
        end_of_child(|| call(at) == 7) == End::Returned(true)
    }));
}

/// Threads execute and remap while others fork.
#[test]
fn pages_are_remapped_while_others_fork() {
    assert!(in_child(|| {
        let (kept, other) = (jitted(1), jitted(1));
        let memory = remap(kept.range).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _writing = Writing::enter();
                    memory.write(kept.range.start(), HOST.five).unwrap();
                    memory.write(kept.range.start(), HOST.seven).unwrap();
                }
            });
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let memory = remap(other.range).unwrap();
                    assert_eq!(call(other.range.start()), 7);
                    drop(memory);
                }
            });
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert!([5, 7].contains(&call(kept.range.start())));
                }
            });
            let both = || call(kept.range.start()) == 7 && call(other.range.start()) == 7;
            let ends: Vec<End> = (0..100).map(|_| end_of_child(both)).collect();
            stop.store(true, Ordering::Relaxed);
            ends.iter().all(|end| *end == End::Returned(true))
        })
    }));
}

/// A fork that takes too long is not waited for: what is written then is executed here, and the
/// child has none.
#[test]
fn a_writer_that_waits_no_longer_writes_what_is_executed() {
    assert!(in_child(|| {
        let jit = jitted(1);
        let at = jit.range.start();
        let memory = remap(jit.range).unwrap();
        // As before a fork.
        gate::close();
        assert!(crate::memory::fork::stand_in());
        assert_eq!((call(at), protection(at).as_str()), (7, "r-xp"));
        let writing = Writing::enter();
        assert_eq!(protection(at), "r-xs");
        assert_eq!(write_and_call(&memory, at, HOST.five), 5);
        // And nothing stands in while it writes.
        assert!(crate::memory::fork::stand_in() && protection(at) == "r-xs");
        drop(writing);
        true
    }));
    assert!(in_child(|| {
        let jit = jitted(1);
        let _memory = remap(jit.range).unwrap();
        let writing = Writing::enter();
        let end = end_of_child(|| call(jit.range.start()) == 7);
        drop(writing);
        let again = end_of_child(|| call(jit.range.start()) == 7);
        (end, again) == (End::Killed(libc::SIGSEGV), End::Returned(true))
    }));
}

/// Also what a runtime writes itself, without waiting for a fork that is under way.
#[test]
fn what_is_written_beside_a_fork_is_executed() {
    assert!(in_child(|| {
        let jit = jitted(1);
        let at = jit.range.start();
        let memory = remap(jit.range).unwrap();
        for code in [HOST.five, HOST.seven] {
            gate::close();
            assert!(crate::memory::fork::stand_in() && protection(at) == "r-xp");
            let expected = 12 - call(at);
            match expected {
                5 => memory.write(at, code).unwrap(),
                _ => {
                    let (mut old, mut new) = ([0; 8], [0; 8]);
                    memory.read(at, &mut old).unwrap();
                    new[..code.len()].copy_from_slice(code);
                    memory.live().unwrap().exchange(at, old, new).unwrap();
                }
            }
            publish(jit.range);
            assert_eq!((call(at), protection(at).as_str()), (expected, "r-xs"));
        }
        true
    }));
}

/// Refused with a text, and everything as it was.
fn is_refused(range: CodeRange, text: &str) {
    let before = (protection(range.start()), views());
    let refused = remap(range).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::StrategyUnavailable {
                strategy: "Remap",
                ..
            }
        ),
        "{refused:?}"
    );
    let said = refused.to_string();
    assert!(said.contains(text), "{said}");
    assert_eq!((protection(range.start()), views()), before, "{said}");
}

#[test]
fn what_cannot_be_remapped_is_refused_with_the_reason() {
    assert!(in_child(|| {
        // Behind a page that could be: nothing of it is remapped either.
        for (prot, text) in [
            (libc::PROT_READ, "not mapped read-execute"),
            (RW, "not mapped read-execute"),
            (RW | libc::PROT_EXEC, "not mapped read-execute"),
            (libc::PROT_EXEC, "not mapped read-execute"),
        ] {
            let jit = jitted(2);
            jit.protect_page(1, prot);
            is_refused(jit.range, text);
            assert!(remap(page(&jit, 0)).is_ok());
        }
        let hole = jitted(3);
        // SAFETY: a page of the test's.
        unsafe { sys::unmap(page(&hole, 1).start().get(), sys::page_size()) };
        is_refused(hole.range, "not mapped");
        is_refused(page(&hole, 1), "not mapped");
        is_refused(sub(hole.range, 8, 0), "empty");
        let (shared, path) = mapped_file("shared", libc::MAP_SHARED);
        std::fs::remove_file(path).unwrap();
        is_refused(shared, "shared mapping");
        let advised = |advice: i32| {
            let jit = jitted(2);
            let at = raw(page(&jit, 1).start());
            // SAFETY: changes nothing in this process.
            assert_eq!(unsafe { libc::madvise(at, sys::page_size() as usize, advice) }, 0);
            jit
        };
        is_refused(advised(libc::MADV_DONTFORK).range, "MADV_DONTFORK");
        is_refused(advised(libc::MADV_DONTDUMP).range, "property");
        let locked = jitted(1);
        // SAFETY: pages of the test's.
        match unsafe { libc::mlock(raw(locked.range.start()), 4096) } {
            0 => is_refused(locked.range, "mlock"),
            _ => std::eprintln!("left out: nothing can be locked here"),
        }
        let vdso = texts("[vdso]");
        vdso.iter().for_each(|vdso| is_refused(*vdso, "kernel"));
        true
    }));
}

/// What not every system has.
#[test]
fn what_others_rely_on_is_refused_with_the_reason() {
    assert!(in_child(|| {
        const SYS_MSEAL: libc::c_long = 462;
        let size = sys::page_size() as usize;
        let sealed = jitted(1);
        // SAFETY: pages of this child's.
        match unsafe { libc::syscall(SYS_MSEAL, raw(sealed.range.start()), size, 0) } {
            0 => is_refused(sealed.range, "sealed"),
            _ => std::eprintln!("left out: this kernel has no mseal"),
        }
        // Without privileges: faults of this process alone.
        const USER_MODE_ONLY: libc::c_int = 1;
        // SAFETY: makes a descriptor.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, USER_MODE_ONLY) } as i32;
        let registered = jitted(1);
        // struct uffdio_api; struct uffdio_register with UFFDIO_REGISTER_MODE_MISSING
        // (include/uapi/linux/userfaultfd.h).
        let mut api = [0xaa_u64, 0, 0];
        let mut register = [registered.range.start().get(), size as u64, 1, 0];
        // SAFETY: the places are as long as the calls read and write.
        let done = fd >= 0
            && unsafe { libc::ioctl(fd, 0xc018_aa3f, api.as_mut_ptr()) } == 0
            && unsafe { libc::ioctl(fd, 0xc020_aa00, register.as_mut_ptr()) } == 0;
        match done {
            true => is_refused(registered.range, "userfaultfd"),
            false => std::eprintln!("left out: nothing can be registered with userfaultfd here"),
        }
        let key = jitted(1);
        // SAFETY: takes a key of this child's, and guards a page of the test's with it.
        let guarded = unsafe {
            let taken = libc::syscall(libc::SYS_pkey_alloc, 0, 0);
            taken > 0 && libc::syscall(libc::SYS_pkey_mprotect, raw(key.range.start()), size, RX, taken) == 0
        };
        match guarded {
            true => is_refused(key.range, "protection key"),
            false => std::eprintln!("left out: this machine has no protection keys"),
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
        // SAFETY: a new mapping where the kernel likes.
        let huge = unsafe { libc::mmap(std::ptr::null_mut(), 2 << 20, RX, flags, -1, 0) };
        match huge == libc::MAP_FAILED {
            false => {
                let start = CodeAddr::new(huge.expose_provenance() as u64);
                is_refused(CodeRange::new(start, 4096).unwrap(), "huge pages");
            }
            true => std::eprintln!("left out: no huge pages are reserved here"),
        }
        true
    }));
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

/// ProcMem and Toggle cannot write remapped pages; so none is both.
#[test]
fn a_page_is_written_by_one_strategy() {
    for ask in [StrategyChoice::ProcMem, StrategyChoice::Toggle] {
        let jit = jitted(1);
        let [first, second] = [0, 64].map(|at| sub(jit.range, at, 64));
        // SAFETY: the pages are the test's.
        let other = unsafe { adopt(first, ask) }.unwrap();
        let refused = remap(second).unwrap_err().to_string();
        assert!(refused.contains("another module's code"), "{refused}");
        drop(other);
        let memory = remap(second).unwrap();
        // SAFETY: as above.
        let refused = unsafe { adopt(first, ask) }.unwrap_err().to_string();
        assert!(
            refused.contains("remapped") && refused.contains("ask for Remap"),
            "{refused}"
        );
        // SAFETY: as above.
        let joined = unsafe { adopt(first, StrategyChoice::Auto) }.unwrap();
        assert_eq!(joined.to_string(), "Remap works and was chosen");
        assert_eq!(write_and_call(&*joined.memory(), first.start(), HOST.five), 5);
        drop((joined, memory));
        // SAFETY: as above.
        assert!(unsafe { adopt(first, ask) }.is_ok());
    }
}

/// The system refuses one step: nothing has changed.
#[test]
fn a_refusal_of_the_system_leaves_the_pages_as_they_were() {
    const MMAP: libc::c_long = libc::SYS_mmap;
    let cases: [(&str, &dyn Fn()); 7] = [
        ("memfd_create", &|| deny(&[libc::SYS_memfd_create], libc::EMFILE)),
        ("ftruncate", &|| deny(&[libc::SYS_ftruncate], libc::ENOSPC)),
        ("pwrite", &|| deny(&[libc::SYS_pwrite64], libc::ENOSPC)),
        ("madvise", &|| deny(&[libc::SYS_madvise], libc::EPERM)),
        ("fcntl(F_ADD_SEALS)", &|| deny(&[libc::SYS_fcntl], libc::EPERM)),
        ("mmap of the executable view", &|| {
            deny_where(MMAP, 2, libc::PROT_EXEC, libc::EACCES)
        }),
        ("mmap over the pages", &|| {
            deny_where(MMAP, 3, libc::MAP_FIXED, libc::ENOMEM)
        }),
    ];
    for (step, refuse) in cases {
        let is_right = in_child(|| {
            let jit = jitted(1);
            refuse();
            let refused = remap(jit.range).unwrap_err();
            let is_told = matches!(refused, Error::SystemCall { call, .. } if call == step);
            let range = jit.range.start();
            is_told && views().is_empty() && protection(range) == "r-xp" && call(range) == 7
        });
        assert!(is_right, "{step}");
    }
    // The last step, after the pages were exchanged: they are private again.
    assert!(in_child(|| {
        let jit = jitted(1);
        // As MADV_DONTFORK of the writable view, at another place, was not refused.
        let low = jit.range.start().get() as u32 as i32;
        deny_where(libc::SYS_madvise, 0, low, libc::EPERM);
        let refused = remap(jit.range).unwrap_err();
        let is_told = matches!(refused, Error::SystemCall { call: "madvise", .. });
        is_told && protection(jit.range.start()) == "r-xp" && call(jit.range.start()) == 7
    }));
    // Giving back: nobody can write them any more, and children have them.
    assert!(in_child(|| {
        let jit = jitted(1);
        let at = jit.range.start();
        let memory = remap(jit.range).unwrap();
        deny(&[libc::SYS_memfd_create], libc::EMFILE);
        drop(memory);
        let lines = views();
        let child = end_of_child(|| call(at) == 7);
        lines.len() == 1 && protection(at) == "r-xs" && child == End::Returned(true)
    }));
}

/// Where no copy can be made, a child has nothing there.
#[test]
fn without_memory_for_a_copy_a_child_has_no_remapped_code() {
    assert!(in_child(|| {
        let jit = jitted(1);
        let memory = remap(jit.range).unwrap();
        deny(&[libc::SYS_memfd_create], libc::EMFILE);
        let mut read = [0; 4];
        let refused = end_of_child(|| {
            matches!(
                memory.read(jit.range.start(), &mut read),
                Err(Error::Forked { .. })
            )
        });
        let killed = end_of_child(|| call(jit.range.start()) == 7);
        (refused, killed) == (End::Returned(true), End::Killed(libc::SIGSEGV))
    }));
    // Where only what stands in cannot be mapped, the child's handler maps the copy.
    assert!(in_child(|| {
        let jit = jitted(1);
        let memory = remap(jit.range).unwrap();
        deny(&[libc::SYS_mremap], libc::ENOMEM);
        let end = end_of_child(|| call(jit.range.start()) == 7 && protection(jit.range.start()) == "r-xp");
        end == End::Returned(true) && write_and_call(&memory, jit.range.start(), HOST.five) == 5
    }));
}

#[test]
fn bytes_that_change_meanwhile_are_a_refusal() {
    let jit = jitted(1);
    BEFORE_COMPARING.set(|pages| {
        let file = sys::SelfMem::open().unwrap();
        // SAFETY: a page of the test's, which nobody executes.
        unsafe { file.write(pages.start().get() + 100, &[1]) }.unwrap();
    });
    is_refused(jit.range, "have changed");
    BEFORE_COMPARING.set(|_| ());
    let memory = remap(jit.range).unwrap();
    assert_eq!(memory.holds(plus(jit.range.start(), 100), &[1]), Ok(true));
}

/// Against the promise its owner unmaps the code, and has other code there: that is noticed where
/// it is adopted, and never mapped over.
#[test]
fn what_its_owner_has_mapped_anew_stays() {
    assert!(in_child(|| {
        let jit = jitted(1);
        let at = jit.range.start();
        let memory = remap(jit.range).unwrap();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: over a page of the test's.
        unsafe { libc::mmap(raw(at), 4096, RW, flags, -1, 0) };
        // SAFETY: a page of the test's.
        unsafe { raw::store(at.get(), HOST.five) };
        jit.protect_page(0, RX);
        is_refused(jit.range, "was remapped before");
        drop(memory);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let start = format!("{:x}-", at.get());
        let line = maps.lines().find(|line| line.starts_with(&start)).unwrap();
        let kept = line.contains(" r-xp ") && !line.contains("memfd") && call(at) == 5;
        let again = remap(jit.range).unwrap();
        kept && write_and_call(&again, at, HOST.seven) == 7
    }));
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

/// Without `/proc` nothing is known of the pages.
#[test]
fn without_proc_nothing_is_remapped() {
    assert!(in_child(|| {
        let jit = jitted(1);
        deny(&[libc::SYS_openat], libc::ENOENT);
        let refused = remap(jit.range).unwrap_err().to_string();
        refused.contains("/proc/self/smaps") && call(jit.range.start()) == 7
    }));
}

/// As many mappings as a process may have, but a few: each step of remapping and of forks is done
/// or refused, and none half.
#[test]
fn where_there_is_room_for_few_mappings_nothing_is_lost() {
    assert!(in_child(|| {
        let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
        let limit: u64 = limit.trim().parse().unwrap();
        if limit > 100_000 {
            std::eprintln!("left out: {limit} mappings are allowed");
            return true;
        }
        // Every other page gets another protection: a mapping each. The code is before them, so that what the
        // system tells of it comes first.
        let reserved = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
        let many = Foreign::with(limit + 32, libc::PROT_NONE, reserved);
        let size = sys::page_size();
        let protect = |index: u64, prot: i32| {
            let at = raw(plus(many.range.start(), index * size));
            // SAFETY: pages of the test's.
            unsafe { libc::mprotect(at, size as usize, prot) == 0 }
        };
        for index in [1, 5, 6, 7] {
            assert!(protect(index, RW));
            // SAFETY: a page of the test's that nobody executes yet.
            unsafe { raw::store(page(&many, index).start().get(), HOST.seven) };
            assert!(protect(index, RX));
        }
        publish(sub(many.range, 0, 8 * size));
        let memory = remap(page(&many, 1)).unwrap();
        let at = memory.range().start();
        let mut used = 0;
        while protect(2 * used + 17, libc::PROT_READ) {
            used += 1;
        }
        let mut wrong = Vec::new();
        for left in 0..12 {
            let child = end_of_child(|| {
                // Where its handler has had no more room, there is nothing.
                !sys::is_mapped(page(&many, 1)) || call(at) == 7
            });
            let written =
                write_and_call(&memory, at, HOST.five) == 5 && write_and_call(&memory, at, HOST.seven) == 7;
            let middle = page(&many, 6);
            let refused = match remap(middle) {
                Ok(memory) => write_and_call(&memory, middle.start(), HOST.seven) == 7,
                Err(error) => matches!(error, Error::SystemCall { .. }),
            };
            let there = call(middle.start()) == 7;
            if child != End::Returned(true) || !(written && refused && there) {
                wrong.push((left, child, written, refused, there));
            }
            // Two mappings fewer.
            used -= 1;
            protect(2 * used + 17, libc::PROT_NONE);
        }
        std::eprintln!("{wrong:?}");
        wrong.is_empty()
    }));
}
