//! Protections, and what becomes of them when the system refuses.

use std::vec;
use std::vec::Vec;

use super::*;
use crate::error::Errno;
use crate::memory::Error;

#[test]
fn toggle_opens_exactly_its_runs_and_closes_them() {
    let foreign = Foreign::new(5);
    // SAFETY: the pages are the test's.
    let toggle = unsafe { Toggle::register(foreign.range) }.unwrap();
    let page = sys::page_size();
    let mut sites = [
        sub(foreign.range, page - 4, 8),
        sub(foreign.range, 3 * page + 8, 8),
    ];
    let runs = PageRun::covering(&mut sites).unwrap();
    let protections = || {
        (0..5)
            .map(|i| protection(plus(foreign.range.start(), i * page)))
            .collect::<Vec<_>>()
    };
    stopped(|token| {
        toggle.begin(&runs, token).unwrap();
        assert_eq!(protections(), ["rw-p", "rw-p", "r-xp", "rw-p", "r-xp"]);
        toggle.write(sites[0].start(), &[1; 8]).unwrap();
        let closed = toggle.write(plus(foreign.range.start(), 2 * page), &[1]);
        assert!(matches!(closed, Err(Error::PageNotOpen { .. })), "{closed:?}");
        toggle.end(&runs).unwrap();
    });
    assert_eq!(protections(), ["r-xp"; 5]);
    let closed = toggle.write(sites[0].start(), &[1; 8]);
    assert!(matches!(closed, Err(Error::PageNotOpen { .. })), "{closed:?}");
}

/// Maps this test's own program, opened for reading, shared over a page: such a mapping can be
/// executed and never made writable.
fn make_unwritable(foreign: &Foreign, page: u64) {
    use std::os::fd::AsRawFd;
    let program = std::fs::File::open("/proc/self/exe").unwrap();
    let at = foreign.range.start().get() + page * sys::page_size();
    let at = std::ptr::with_exposed_provenance_mut(at as usize);
    let (prot, flags) = (
        libc::PROT_READ | libc::PROT_EXEC,
        libc::MAP_SHARED | libc::MAP_FIXED,
    );
    // SAFETY: over a page of the test's that nothing uses.
    let mapped = unsafe { libc::mmap(at, sys::page_size() as usize, prot, flags, program.as_raw_fd(), 0) };
    assert_eq!(mapped, at);
}

/// The third run's second page cannot be made writable: `mprotect` changes the page before it and
/// then fails.
#[test]
fn a_begin_that_is_refused_half_way_undoes_what_it_did() {
    let foreign = Foreign::new(8);
    make_unwritable(&foreign, 5);
    // SAFETY: the pages are the test's.
    let toggle = unsafe { Toggle::register(foreign.range) }.unwrap();
    let page = sys::page_size();
    let mut sites = [0, 2, 4].map(|i| sub(foreign.range, i * page, if i == 4 { page + 1 } else { 8 }));
    let runs = PageRun::covering(&mut sites).unwrap();
    assert_eq!(runs.len(), 3);
    stopped(|token| {
        let refused = toggle.begin(&runs, token);
        let Err(Error::SystemCall { at, errno, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((at, errno), (runs[2].range().start(), Errno(libc::EACCES)));
    });
    for i in 0..8 {
        assert_eq!(
            &protection(plus(foreign.range.start(), i * page))[..3],
            "r-x",
            "page {i}"
        );
    }
    assert!(matches!(
        toggle.write(foreign.range.start(), &[1]),
        Err(Error::PageNotOpen { .. })
    ));
}

/// A page that disappears while it is open cannot be given its protection back; the run before it
/// is.
#[test]
fn runs_that_cannot_be_closed_are_reported_and_the_others_closed() {
    // In a child of one thread, so that nothing else is mapped into the hole.
    assert!(in_child(|| {
        let foreign = Foreign::new(4);
        // SAFETY: the pages are the test's.
        let toggle = unsafe { Toggle::register(foreign.range) }.unwrap();
        let page = sys::page_size();
        let runs = PageRun::covering(&mut [2, 0].map(|i| sub(foreign.range, i * page, 8))).unwrap();
        let mut ok = true;
        stopped(|token| {
            toggle.begin(&runs, token).unwrap();
            // SAFETY: a page of the test's that nothing uses.
            unsafe { sys::unmap(runs[0].range().start().get(), page) };
            let lost = Error::ProtectionLost {
                runs: vec![runs[0].range()],
                errno: Errno(libc::ENOMEM),
            };
            ok &= toggle.end(&runs) == Err(lost);
        });
        ok && protection(runs[1].range().start()) == "r-xp"
    }));
}

/// A transaction over three runs, one of two pages: two protection changes for each, and no
/// question about mappings or anything else.
#[test]
#[cfg(target_os = "linux")]
fn a_transaction_asks_the_system_for_two_changes_per_run() {
    let calls = system_calls(
        || {
            let foreign = Foreign::new(7);
            // SAFETY: the pages are the test's.
            let toggle = unsafe { Toggle::register(foreign.range) }.unwrap();
            (foreign, toggle)
        },
        |(foreign, toggle)| {
            let page = sys::page_size();
            let mut sites = [8, 64, 2 * page, 5 * page - 4].map(|at| sub(foreign.range, at, 8));
            let runs = PageRun::covering(&mut sites).unwrap();
            stopped(|token| {
                toggle.begin(&runs, token).unwrap();
                for site in sites {
                    toggle.write(site.start(), &[0x90; 8]).unwrap();
                }
                toggle.end(&runs).unwrap();
            });
            std::mem::forget((foreign, toggle));
        },
    );
    let after_raise: Vec<_> = calls
        .into_iter()
        .skip_while(|call| *call != libc::SYS_mprotect)
        .collect();
    let mut expected = vec![libc::SYS_mprotect; 6];
    expected.push(libc::SYS_exit_group);
    assert_eq!(after_raise, expected);
}

/// ProcMem makes one call for each write, and Alias none.
#[test]
#[cfg(target_os = "linux")]
fn the_other_strategies_ask_for_a_write_or_for_nothing() {
    let calls = |through_alias: bool| {
        let calls = system_calls(
            || {
                let foreign = Foreign::new(1);
                // SAFETY: the pages are the test's.
                let proc_mem = unsafe { ProcMem::register(foreign.range) }.unwrap();
                let (placed, _) = aliased(4096);
                (foreign, proc_mem, placed)
            },
            |(foreign, proc_mem, placed)| {
                let alias = placed.memory();
                let memory: &dyn CodeMemory = if through_alias { &alias } else { &proc_mem };
                for offset in [0, 100] {
                    write_in_transaction(memory, plus(memory.range().start(), offset), &[1; 20]);
                }
                std::mem::forget((foreign, placed));
            },
        );
        let of_interest = [
            libc::SYS_pwrite64,
            libc::SYS_mprotect,
            libc::SYS_openat,
            libc::SYS_mmap,
            libc::SYS_exit_group,
        ];
        calls
            .into_iter()
            .filter(|call| of_interest.contains(call))
            .collect::<Vec<_>>()
    };
    assert_eq!(calls(true), [libc::SYS_exit_group]);
    assert_eq!(
        calls(false),
        [libc::SYS_pwrite64, libc::SYS_pwrite64, libc::SYS_exit_group]
    );
}
