//! What Remap refuses, and that nothing has changed then; and where the system does.

use super::*;

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
