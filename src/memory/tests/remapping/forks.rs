//! Forks where pages are remapped: what children have of them, and what is written meanwhile.

use super::*;

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
            // Of others, some are about to find out that the gate is closed.
            gate::while_one_is_refused(|| match expected {
                5 => memory.write(at, code).unwrap(),
                _ => {
                    let (mut old, mut new) = ([0; 8], [0; 8]);
                    memory.read(at, &mut old).unwrap();
                    new[..code.len()].copy_from_slice(code);
                    memory.live().unwrap().exchange(at, old, new).unwrap();
                }
            });
            publish(jit.range);
            assert_eq!((call(at), protection(at).as_str()), (expected, "r-xs"));
        }
        true
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
