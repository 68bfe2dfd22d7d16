//! Forks: what a child has of the engine's memory, and that no fork comes between two bytes of a
//! transaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use super::*;
use crate::memory::Error;
use crate::memory::fork::gate::{self, Writing};
use crate::memory::fork::seat::{self, Seat};
use crate::memory::testing::host_code::{HOST, pointer};
use crate::memory::testing::process::{End, deny, end_of_child, end_of_child_after};

fn bytes(range: CodeRange) -> Vec<u8> {
    let mut found = std::vec![0; range.len() as usize];
    // SAFETY: code of the test's, which is readable.
    unsafe { raw::load(range.start().get(), &mut found) };
    found
}

/// Code that returns 7.
fn sevens() -> (PlacedSegments, CodeRange) {
    let (placed, range) = aliased(64);
    placed.memory().write(range.start(), HOST.seven).unwrap();
    PUBLISHER.publish(&[range], Level::Eventual).unwrap();
    (placed, range)
}

fn call(range: CodeRange) -> u64 {
    // SAFETY: code that returns 7.
    let function: extern "C" fn() -> u64 = unsafe { std::mem::transmute(pointer(range.start())) };
    function()
}

/// As `fork`, without the handlers of `pthread_atfork`. What the child returns is its exit status.
fn child_without_handlers(work: impl FnOnce() -> bool) -> End {
    let flags = i64::from(libc::SIGCHLD);
    let [first, second] = if cfg!(target_arch = "s390x") {
        [0, flags]
    } else {
        [flags, 0]
    };
    // SAFETY: makes a child with a copy of this thread's stack, as fork does.
    let child = unsafe { libc::syscall(libc::SYS_clone, first, second, 0_i64, 0_i64, 0_i64) };
    if child == 0 {
        let right = work();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    let ended = unsafe { libc::waitpid(child as i32, &raw mut status, 0) };
    assert_eq!(i64::from(ended), child);
    match libc::WIFEXITED(status) {
        true => End::Returned(libc::WEXITSTATUS(status) == 0),
        false => End::Killed(libc::WTERMSIG(status)),
    }
}

#[test]
fn a_child_and_its_child_have_copies_that_nobody_can_change() {
    let (placed, range) = sevens();
    let alias = placed.memory();
    let end = end_of_child_after(
        || alias.write(range.start(), &[0; 8]).unwrap(),
        || {
            let start = std::ptr::with_exposed_provenance_mut(range.start().get() as usize & !0xfff);
            let mut refused = true;
            for protection in [
                libc::PROT_WRITE,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
            ] {
                // SAFETY: refused, as the file is sealed and the mapping shared.
                refused &= unsafe { libc::mprotect(start, 4096, protection) } != 0;
            }
            let has_seven = || {
                let mut read = std::vec![0; HOST.seven.len()];
                let is_read = alias.read(range.start(), &mut read) == Ok(()) && read == HOST.seven;
                is_read && call(range) == 7 && protection(range.start()) == "r-xs"
            };
            refused && has_seven() && end_of_child(has_seven) == End::Returned(true)
        },
    );
    assert_eq!(end, End::Returned(true));
    assert_eq!(bytes(range)[..8], [0; 8]);
}

/// A process that was made by calling `clone` has no code, rather than its parent's, and unmaps
/// nothing of others.
#[test]
fn a_child_that_no_handler_saw_has_no_code() {
    let (placed, range) = sevens();
    let alias = placed.memory();
    let refused = child_without_handlers(|| {
        let mut read = [0; 4];
        let refused = [
            alias.read(range.start(), &mut read),
            alias.holds(range.start(), &read).map(drop),
            alias.write(range.start(), &read),
        ];
        refused
            .iter()
            .all(|refused| matches!(refused, Err(Error::Forked { .. })))
    });
    assert_eq!(refused, End::Returned(true));
    assert_eq!(
        child_without_handlers(|| call(range) == 7),
        End::Killed(libc::SIGSEGV)
    );
    let unmaps_nothing = child_without_handlers(|| {
        let at = std::ptr::with_exposed_provenance_mut::<libc::c_void>(range.start().get() as usize & !0xfff);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: replaces nothing.
        let own = unsafe { libc::mmap(at, 4096, libc::PROT_READ, flags, -1, 0) };
        drop((placed, alias));
        let mut resident = 0_u8;
        // SAFETY: writes one byte for the one page asked about.
        own == at && unsafe { libc::mincore(at, 4096, &raw mut resident) } == 0
    });
    assert_eq!(unmaps_nothing, End::Returned(true));
}

/// Where no copy can be made the child has no code, and what reads it through the library is
/// refused.
#[test]
fn without_memory_for_a_copy_a_child_has_no_code() {
    let (placed, range) = sevens();
    let alias = placed.memory();
    assert!(in_child(|| {
        // Memory of this process: what it inherited, its children inherit.
        let (own, place) = sevens();
        deny(&[libc::SYS_memfd_create], libc::EMFILE);
        let mut read = [0; 4];
        let refused = end_of_child(|| {
            matches!(
                own.memory().read(place.start(), &mut read),
                Err(Error::Forked { .. })
            )
        });
        let killed = end_of_child(|| call(place) == 7);
        let inherited =
            end_of_child(|| call(range) == 7 && alias.holds(range.start(), HOST.seven) == Ok(true));
        (refused, killed) == (End::Returned(true), End::Killed(libc::SIGSEGV))
            && inherited == End::Returned(true)
    }));
}

/// The system forbids that memory becomes executable; a copy never does.
#[test]
fn a_copy_needs_no_page_to_become_executable() {
    assert!(in_child(|| {
        // PR_MDWE_REFUSE_EXEC_GAIN
        // SAFETY: concerns only this child.
        if unsafe { libc::prctl(libc::PR_SET_MDWE, 1_u64, 0_u64, 0_u64, 0_u64) } != 0 {
            return true;
        }
        let (_placed, range) = sevens();
        end_of_child(|| call(range) == 7) == End::Returned(true)
    }));
}

/// A child sees all bytes of a transaction, or none.
#[test]
fn a_fork_waits_for_a_transaction() {
    assert_eq!(ends_beside(Writing::enter), [End::Returned(true); 20]);
}

/// The same of a transaction whose writer has a seat.
#[test]
fn a_fork_waits_for_a_commit() {
    let seat = Seat::default();
    assert_eq!(ends_beside(|| seat.enter()), [End::Returned(true); 20]);
}

/// How children end that are forked while a thread has written half of what it writes, and that
/// see the whole.
fn ends_beside(enter: impl Fn() -> Writing + Send) -> [End; 20] {
    let (placed, range) = aliased(64);
    let alias = placed.memory();
    let (half, is_half) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for round in 1..=20_u8 {
                let writing = enter();
                alias.write(range.start(), &[round; 32]).unwrap();
                half.send(()).unwrap();
                // The fork finds it like that, if it does not wait.
                std::thread::sleep(std::time::Duration::from_millis(20));
                let second = range.start().plus(crate::addr::Len::new(32)).unwrap();
                alias.write(second, &[round; 32]).unwrap();
                drop(writing);
            }
        });
        let whole = || {
            let found = bytes(range);
            found.iter().all(|byte| *byte == found[0])
        };
        [(); 20].map(|()| {
            is_half.recv().unwrap();
            end_of_child(whole)
        })
    })
}

/// Each writer that has a seat keeps the gate from being empty, and those for whom there is none.
#[test]
fn a_fork_waits_for_everyone_who_has_a_seat() {
    assert!(in_child(|| {
        let seats: Vec<Seat> = (0..40).map(|_| Seat::default()).collect();
        let mut inside: Vec<Writing> = seats.iter().map(Seat::enter).collect();
        gate::close();
        while let Some(writing) = inside.pop() {
            if gate::is_empty() {
                return false;
            }
            drop(writing);
        }
        let refused = seats.iter().all(|seat| seat.try_enter().is_none());
        refused && gate::is_empty() && !gate::was_broken()
    }));
}

/// A seat is somebody else's when its owner is gone.
#[test]
fn seats_are_taken_again() {
    assert!(in_child(|| {
        (0..1000).for_each(|_| drop(Seat::default()));
        let seats: Vec<Seat> = (0..40).map(|_| Seat::default()).collect();
        let all_have_one = seats.iter().all(Seat::is_own);
        drop(seats);
        !all_have_one && Seat::default().is_own()
    }));
}

/// Where forks have lost the barrier, one may not see who has a seat: its child gets no code.
#[test]
fn a_fork_without_its_barrier_gives_its_child_no_code() {
    assert!(in_child(|| {
        let (_placed, range) = sevens();
        let had_barrier = seat::has_barrier();
        let before = end_of_child(|| call(range) == 7);
        deny(&[libc::SYS_membarrier], libc::EPERM);
        let refused = end_of_child(|| call(range) == 7);
        // As in a process that never had one: writers have a fence.
        seat::find_barrier();
        let seat = Seat::default();
        let inside = seat.enter();
        let others = end_of_child(|| call(range) == 7);
        drop(inside);
        let after = end_of_child(|| call(range) == 7);
        let good = End::Returned(true);
        let none = End::Killed(libc::SIGSEGV);
        before == good && (refused == none || !had_barrier) && others == none && after == good
    }));
}

/// Where one side waits too long it goes on without the other: a lock that both need costs time,
/// and no deadlock.
#[test]
fn neither_side_waits_for_ever() {
    // In a process of its own, as everybody's forks wait meanwhile.
    assert!(in_child(|| {
        let (_placed, range) = sevens();
        // Who forks is a writer itself, as in a handler of a signal.
        let writing = Writing::enter();
        let end = end_of_child(|| call(range) == 7);
        drop(writing);
        // And afterwards all is as ever.
        end == End::Killed(libc::SIGSEGV) && end_of_child(|| call(range) == 7) == End::Returned(true)
    }));
    assert!(in_child(|| {
        gate::close();
        let refused = Writing::try_enter().is_none() && gate::is_empty() && !gate::was_broken();
        drop(Writing::enter());
        refused && gate::was_broken()
    }));
    assert!(in_child(|| {
        let seat = Seat::default();
        gate::close();
        let refused = seat.try_enter().is_none() && gate::is_empty() && !gate::was_broken();
        drop(seat.enter());
        refused && gate::was_broken()
    }));
}

/// The child goes on where the parent was: inside.
#[test]
fn a_writer_that_forks_leaves_the_gate_of_its_child_open() {
    assert!(in_child(|| {
        let mut writing = Some(Writing::enter());
        let end = end_of_child(|| {
            drop(writing.take());
            Writing::try_enter().is_some()
        });
        drop(writing);
        end == End::Returned(true) && Writing::try_enter().is_some()
    }));
}

/// With a seat too: the child has its own mark, in which nobody is.
#[test]
fn a_writer_with_a_seat_that_forks_is_not_inside_in_its_child() {
    assert!(in_child(|| {
        let seat = Seat::default();
        let mut writing = Some(seat.enter());
        let end = end_of_child(|| {
            let is_empty = seat::are_empty();
            drop(writing.take());
            is_empty && seat.try_enter().is_some()
        });
        !seat::are_empty() && end == End::Returned(true)
    }));
}

/// Threads that come and go, place and unload, while others fork.
#[test]
fn memory_comes_and_goes_while_others_fork() {
    assert!(in_child(|| {
        let (_placed, range) = sevens();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let (placed, range) = sevens();
                        assert_eq!(call(range), 7);
                        drop(placed);
                    }
                });
            }
            let ends: Vec<End> = (0..100).map(|_| end_of_child(|| call(range) == 7)).collect();
            stop.store(true, Ordering::Relaxed);
            ends.iter().all(|end| *end == End::Returned(true))
        })
    }));
}

#[test]
fn toggled_memory_is_refused_in_a_child() {
    let foreign = Foreign::new(1);
    // SAFETY: the pages are the test's.
    let toggle = unsafe { Toggle::register(foreign.range) }.unwrap();
    let runs = PageRun::covering(&mut [foreign.range]).unwrap();
    assert!(in_child(|| {
        let mut begun = None;
        stopped(|token| begun = Some(toggle.begin(&runs, token)));
        let forked = |done: Result<()>| matches!(done, Err(Error::Forked { .. }));
        begun.is_some_and(forked)
            && forked(toggle.write(foreign.range.start(), &[1]))
            && forked(toggle.end(&runs))
            && protection(foreign.range.start()) == "r-xp"
    }));
}
