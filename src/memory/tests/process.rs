//! What the process allows: which strategy for which memory, forks, hardening, and W^X as seen from
//! outside.

use std::string::ToString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::memory::Error;
use crate::memory::testing::process::deny;

#[test]
fn memory_that_a_strategy_cannot_write_is_refused_at_registration() {
    let unavailable = |result: Result<()>, text: &str| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::StrategyUnavailable { .. }), "{error:?}");
        assert!(error.to_string().contains(text), "{error}");
    };
    // In a child of one thread, so that nothing else is mapped into the hole.
    assert!(in_child(|| {
        let hole = Foreign::new(6);
        // Of several pages, as one is mapped to try the strategy, and may get the first.
        let start = hole.range.start().get() + sys::page_size();
        // SAFETY: pages of the test's.
        unsafe { sys::unmap(start, 4 * sys::page_size()) };
        // SAFETY: the pages are the test's.
        unavailable(unsafe { Toggle::register(hole.range) }.map(drop), "not mapped");
        // SAFETY: as above.
        unavailable(unsafe { ProcMem::register(hole.range) }.map(drop), "not mapped");
        true
    }));

    // Writable too: qemu-user lists a page that is only readable with the executable ones next to
    // it.
    let mixed = Foreign::new(2);
    mixed.protect_page(1, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: as above.
    unavailable(
        unsafe { Toggle::register(mixed.range) }.map(drop),
        "not mapped read-execute",
    );

    let shared = Foreign::with(1, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_SHARED);
    // SAFETY: as above.
    unavailable(
        unsafe { ProcMem::register(shared.range) }.map(drop),
        "shared mapping",
    );
    // SAFETY: as above.
    unavailable(
        unsafe { Toggle::register(sub(mixed.range, 0, 0)) }.map(drop),
        "empty",
    );
}

/// The kernel would write any of them through `/proc/self/mem`. In a child, as others look for such
/// mappings here.
#[test]
fn only_code_that_nobody_may_write_is_adopted() {
    assert!(in_child(|| {
        for (prot, name) in [
            (libc::PROT_READ, "r--p"),
            (libc::PROT_READ | libc::PROT_WRITE, "rw-p"),
            (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC, "rwxp"),
        ] {
            // A page of code, and one that is none.
            let mixed = Foreign::new(2);
            mixed.protect_page(1, prot);
            // qemu-user lists a page that is only readable with the executable ones next to it.
            if protection(plus(mixed.range.start(), sys::page_size())) != name {
                continue;
            }
            for ask in [
                StrategyChoice::ProcMem,
                StrategyChoice::Toggle,
                StrategyChoice::Auto,
            ] {
                // SAFETY: the pages are the test's.
                let refused = unsafe { adopt(mixed.range, ask) }.unwrap_err();
                assert!(
                    matches!(refused, Error::StrategyUnavailable { .. }),
                    "{refused:?}"
                );
                let text = refused.to_string();
                assert!(text.contains("not mapped read-execute"), "{text}");
                assert!(text.contains("register less"), "{text}");
                // SAFETY: as above.
                assert!(unsafe { adopt(sub(mixed.range, 0, 64), ask) }.is_ok(), "{name}");
            }
        }
        true
    }));
}

#[test]
fn auto_takes_the_first_that_works_and_says_why() {
    let private = Foreign::new(1);
    // SAFETY: the pages are the test's.
    let adopted = unsafe { adopt(private.range, StrategyChoice::Auto) }.unwrap();
    assert_eq!(adopted.memory().strategy(), Strategy::ProcMem);
    assert_eq!(adopted.to_string(), "ProcMem works and was chosen");

    let shared = Foreign::with(1, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_SHARED);
    // SAFETY: as above.
    let adopted = unsafe { adopt(shared.range, StrategyChoice::Auto) }.unwrap();
    assert_eq!(adopted.memory().strategy(), Strategy::Toggle);
    assert!(adopted.verdicts()[0].refusal.is_some());
    let text = adopted.to_string();
    assert!(
        text.contains("shared mapping") && text.ends_with("Toggle works and was chosen"),
        "{text}"
    );

    // SAFETY: as above.
    assert!(unsafe { adopt(shared.range, StrategyChoice::ProcMem) }.is_err());
    // SAFETY: as above.
    let adopted = unsafe { adopt(private.range, StrategyChoice::Toggle) }.unwrap();
    assert_eq!(adopted.memory().strategy(), Strategy::Toggle);
}

/// A child must not be able to change its parent's code, and unloading in it must not touch the
/// parent either.
#[test]
fn a_forked_child_is_refused_and_the_parent_undisturbed() {
    let (placed, range) = aliased(64);
    let alias = placed.memory();
    alias.write(range.start(), &[0x90; 64]).unwrap();
    let foreign = Foreign::new(1);
    // SAFETY: the pages are the test's.
    let proc_mem = unsafe { ProcMem::register(foreign.range) }.unwrap();
    let parents = alias.clone();
    let status = in_child(|| {
        let forked = |result| matches!(result, Err(Error::Forked { .. }));
        let refused = forked(alias.write(range.start(), &[1; 64]))
            && forked(alias.exchange(range.start(), [0x90; 8], [1; 8]))
            && forked(proc_mem.write(foreign.range.start(), &[1]));
        let mut begun = false;
        stopped(|token| begun = !forked(alias.begin(&[], token)) || !forked(proc_mem.begin(&[], token)));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut views = maps.lines().filter(|line| line.contains("memfd:patchpoint"));
        let writable = views.any(|line| line.contains(" rw-"));
        drop(placed);
        refused && !begun && !writable
    });
    assert!(status, "the child could write, or did not get that far");
    let mut kept = [0; 64];
    parents.read(range.start(), &mut kept).unwrap();
    assert_eq!(kept, [0x90; 64]);
    parents.write(range.start(), &[0xc3]).unwrap();
}

/// Where the parent has the writable view, the child may have mapped something of its own.
#[test]
fn a_forked_child_that_unloads_unmaps_nothing_of_its_own() {
    let (placed, range) = aliased(64);
    let view = placed.memory().writable(range.start(), 1).unwrap() & !(sys::page_size() - 1);
    assert!(in_child(|| {
        let (flags, prot) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ);
        let at = std::ptr::with_exposed_provenance_mut(view as usize);
        // SAFETY: replaces nothing.
        let own = unsafe { libc::mmap(at, 4096, prot, flags | libc::MAP_FIXED_NOREPLACE, -1, 0) };
        drop(placed);
        own == at && protection(CodeAddr::new(view)) == "r--p"
    }));
}

/// With PR_SET_MDWE, in a child as it cannot be undone: ProcMem and Alias work, Toggle is
/// refused.
#[test]
#[cfg(target_os = "linux")]
fn memory_deny_write_execute_leaves_the_others() {
    let answer = in_child(|| {
        // PR_MDWE_REFUSE_EXEC_GAIN
        // SAFETY: concerns only this child.
        if unsafe { libc::prctl(libc::PR_SET_MDWE, 1_u64, 0_u64, 0_u64, 0_u64) } != 0 {
            return true;
        }
        let foreign = Foreign::new(1);
        // SAFETY: the pages are the test's.
        let toggle = unsafe { adopt(foreign.range, StrategyChoice::Toggle) };
        // SAFETY: as above.
        let auto = unsafe { adopt(foreign.range, StrategyChoice::Auto) };
        let (_placed, range) = aliased(64);
        matches!(toggle, Err(Error::StrategyUnavailable { .. }))
            && auto.is_ok_and(|adopted| adopted.memory().strategy() == Strategy::ProcMem)
            && protection(range.start()) == "r-xs"
    });
    assert!(answer);
}

/// One thread patches in a loop while this one reads the list of mappings, both often.
fn never_writable_and_executable(memory: Arc<dyn CodeMemory>) {
    let name = memory.strategy();
    let (patches, enough) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut scans = 0;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let at = memory.range().start();
            while !enough.load(Ordering::Relaxed) {
                let patch = patches.fetch_add(1, Ordering::Relaxed);
                write_in_transaction(&*memory, at, &[patch as u8; 15]);
            }
        });
        while (scans < 200 || patches.load(Ordering::Relaxed) < 1000) && !writer.is_finished() {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let both = maps.lines().find(|line| {
                let protection = line.split_whitespace().nth(1).unwrap();
                protection.contains('w') && protection.contains('x')
            });
            if let Some(both) = both {
                enough.store(true, Ordering::Relaxed);
                panic!("{name}: {both}");
            }
            scans += 1;
        }
        enough.store(true, Ordering::Relaxed);
    });
    std::eprintln!("{name}: {patches:?} patches, {scans} scans of the mappings");
}

#[test]
fn no_mapping_is_ever_writable_and_executable() {
    let (placed, _) = aliased(4096);
    never_writable_and_executable(Arc::new(placed.memory()));
    let choices = [
        StrategyChoice::Remap,
        StrategyChoice::ProcMem,
        StrategyChoice::Toggle,
    ];
    // An emulator does not tell the flags of mappings.
    for ask in choices.into_iter().skip(usize::from(cfg!(emulated))) {
        let foreign = Foreign::new(1);
        // SAFETY: the pages are the test's.
        never_writable_and_executable(unsafe { adopt(foreign.range, ask) }.unwrap().memory());
    }
}

/// Where the kernel refuses such writes (`proc_mem.force_override=never`), they fail with EIO.
#[test]
#[cfg(target_os = "linux")]
fn where_writes_to_the_memory_file_are_refused_auto_takes_toggle() {
    assert!(in_child(|| {
        let foreign = Foreign::new(1);
        deny(&[libc::SYS_pwrite64], libc::EIO);
        // SAFETY: the pages are the test's.
        let adopted = unsafe { adopt(foreign.range, StrategyChoice::Auto) }.unwrap();
        adopted.memory().strategy() == Strategy::Toggle && adopted.to_string().contains("force_override")
    }));
}

/// Without `/proc` protections cannot be read: the promise that the memory is read-execute has to
/// do.
#[test]
#[cfg(target_os = "linux")]
fn without_proc_auto_takes_toggle() {
    assert!(in_child(|| {
        let foreign = Foreign::new(2);
        let hole = Foreign::new(2);
        // SAFETY: a page of the test's.
        unsafe { sys::unmap(hole.range.start().get() + sys::page_size(), sys::page_size()) };
        deny(&[libc::SYS_openat], libc::ENOENT);
        // SAFETY: the pages are the test's.
        let adopted = unsafe { adopt(foreign.range, StrategyChoice::Auto) }.unwrap();
        write_in_transaction(&*adopted.memory(), foreign.range.start(), &[1; 20]);
        // SAFETY: as above.
        let refused = unsafe { adopt(hole.range, StrategyChoice::Auto) };
        adopted.memory().strategy() == Strategy::Toggle
            && adopted.to_string().contains("/proc/self/mem cannot be opened")
            && matches!(refused, Err(Error::StrategyUnavailable { why, .. }) if why.contains("not mapped"))
    }));
}

/// Memory files that cannot be had are an error of placing, and leave no address space behind.
#[test]
#[cfg(target_os = "linux")]
fn without_memory_files_nothing_is_placed() {
    assert!(in_child(|| {
        deny(&[libc::SYS_memfd_create], libc::ENOSYS);
        let arena = Arena::default();
        let refused = arena.place(&[code_need(64)], Reach::Anywhere);
        arena.chunks().is_empty()
            && matches!(
                refused,
                Err(Error::SystemCall {
                    call: "memfd_create",
                    ..
                })
            )
    }));
}

/// The bytes of all mappings.
fn mapped() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let len = |line: &str| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(u64::from_str_radix(end, 16).ok()? - u64::from_str_radix(start, 16).ok()?)
    };
    maps.lines().filter_map(len).sum()
}

/// Neither its address space nor its writable view.
#[test]
fn what_was_dropped_leaves_nothing_mapped() {
    assert!(in_child(|| {
        drop(aliased(64));
        let before = mapped();
        (0..20).for_each(|_| drop(aliased(64)));
        // A chunk has 4 MiB, and the view of its code 2.
        mapped() < before + (1 << 20)
    }));
}

/// Without its seals the executed view could be made writable.
#[test]
#[cfg(target_os = "linux")]
fn a_file_that_cannot_be_sealed_is_not_mapped_executable() {
    assert!(in_child(|| {
        deny(&[libc::SYS_fcntl], libc::EPERM);
        let refused = Arena::default().place(&[code_need(64)], Reach::Anywhere);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        // Those of the parent's other tests are inherited, but never their writable views.
        let writable = maps
            .lines()
            .filter(|line| line.contains("memfd:patchpoint") && line.contains(" rw-"));
        matches!(
            refused,
            Err(Error::SystemCall {
                call: "fcntl(F_ADD_SEALS)",
                ..
            })
        ) && writable.count() == 0
    }));
}
