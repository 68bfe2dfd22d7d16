//! What is written, under every strategy.

#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::vec::Vec;

use super::*;
use crate::memory::Error;
use crate::memory::testing::host_code::{HOST, pointer};
use crate::memory::testing::{Call, FailingMemory};

/// Writes every length at every residue, and checks the bytes around.
fn writes_exactly(memory: &dyn CodeMemory) {
    let base = memory.range().start();
    for len in 0..40 {
        for offset in 16..32 {
            write_in_transaction(memory, base, &[0x90; 128]);
            let bytes: Vec<u8> = (0..len).map(|i| i as u8 + 1).collect();
            write_in_transaction(memory, plus(base, offset), &bytes);
            let mut found = [0; 128];
            memory.read(base, &mut found).unwrap();
            let mut expected = [0x90; 128];
            expected[offset as usize..][..len].copy_from_slice(&bytes);
            assert_eq!(found, expected, "{len} bytes at {offset}");
        }
    }
}

fn call(at: CodeAddr) -> u32 {
    // SAFETY: the tests put a function without arguments there.
    let function: extern "C" fn() -> u32 = unsafe { std::mem::transmute(pointer(at)) };
    function()
}

#[test]
fn what_is_written_is_executed_under_every_strategy() {
    let (placed, _) = aliased(4096);
    let foreign = Foreign::new(1);
    // SAFETY: the pages are the test's.
    let proc_mem = unsafe { ProcMem::register(foreign.range) }.unwrap();
    // SAFETY: as above.
    let toggle = unsafe { Toggle::register(foreign.range) }.unwrap();
    for memory in [&placed.memory() as &dyn CodeMemory, &proc_mem, &toggle] {
        for (value, code) in [(5, HOST.five), (7, HOST.seven), (5, HOST.five)] {
            write_in_transaction(memory, memory.range().start(), code);
            assert_eq!(call(memory.range().start()), value, "{}", memory.strategy());
        }
    }
}

#[test]
fn every_strategy_writes_what_was_asked_and_no_more() {
    let (placed, _) = aliased(4096);
    writes_exactly(&placed.memory());
    let foreign = Foreign::new(1);
    // SAFETY: the pages are the test's.
    writes_exactly(&unsafe { ProcMem::register(foreign.range) }.unwrap());
    // SAFETY: as above.
    writes_exactly(&unsafe { Toggle::register(foreign.range) }.unwrap());
}

#[test]
fn nothing_outside_the_registered_range_is_reached() {
    let foreign = Foreign::new(2);
    let inner = sub(foreign.range, 100, 50);
    // SAFETY: the pages are the test's.
    let proc_mem = unsafe { ProcMem::register(inner) }.unwrap();
    // SAFETY: as above.
    let toggle = unsafe { Toggle::register(inner) }.unwrap();
    let (placed, _) = aliased(4096);
    let alias = placed.memory();
    for memory in [&proc_mem as &dyn CodeMemory, &toggle, &alias] {
        let range = memory.range();
        for at in [
            CodeAddr::new(range.start().get() - 1),
            CodeAddr::new(range.end().get() - 3),
            CodeAddr::new(0),
        ] {
            let refused = memory.write(at, &[1, 2, 3, 4]);
            assert!(matches!(refused, Err(Error::OutsideMemory { .. })), "{refused:?}");
            let refused = memory.read(at, &mut [0; 4]);
            assert!(matches!(refused, Err(Error::OutsideMemory { .. })), "{refused:?}");
        }
        // The page next to it, which is mapped where the memory is foreign, and one far away.
        for away in [range.len() + sys::page_size(), 1 << 32] {
            let run = PageRun::covering(&mut [sub(range, away, 1)]).unwrap();
            stopped(|token| {
                let refused = memory.begin(&run, token);
                assert!(matches!(refused, Err(Error::OutsideMemory { .. })), "{refused:?}");
            });
        }
    }
}

#[test]
fn the_executed_view_can_never_be_made_writable() {
    let (_placed, range) = aliased(4096);
    let at = std::ptr::with_exposed_provenance_mut(range.start().get() as usize & !4095);
    for prot in [
        libc::PROT_READ | libc::PROT_WRITE,
        libc::PROT_WRITE | libc::PROT_EXEC,
        libc::PROT_WRITE,
    ] {
        // SAFETY: expected to be refused; where it is not, nothing else uses the page.
        let answer = unsafe { libc::mprotect(at, 4096, prot) };
        assert_eq!(answer, -1, "mprotect to {prot} went through");
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EACCES));
    }
    assert_eq!(protection(range.start()), "r-xs");
}

#[test]
fn an_exchange_is_refused_unless_it_is_one_store_of_the_expected_word() {
    let (placed, range) = aliased(64);
    let alias = placed.memory();
    let live = alias.live().unwrap();
    let word = range.start();
    live.write_unexecuted(word, &[7; 8]).unwrap();
    live.exchange(word, [7; 8], [8; 8]).unwrap();
    let changed = Error::WordChanged {
        at: word,
        expected: [7; 8],
        found: [8; 8],
    };
    assert_eq!(live.exchange(word, [7; 8], [9; 8]), Err(changed));
    let mut found = [0; 8];
    alias.read(word, &mut found).unwrap();
    assert_eq!(found, [8; 8]);
    for offset in 1..8 {
        let refused = live.exchange(plus(word, offset), [8; 8], [9; 8]);
        assert!(matches!(refused, Err(Error::NoAtomicStore { .. })), "{refused:?}");
    }

    let foreign = Foreign::new(1);
    // SAFETY: the pages are the test's.
    let proc_mem = unsafe { ProcMem::register(foreign.range) }.unwrap();
    let refused = proc_mem
        .live()
        .unwrap()
        .exchange(foreign.range.start(), [0; 8], [9; 8]);
    assert!(matches!(refused, Err(Error::NoAtomicStore { .. })), "{refused:?}");
    // SAFETY: as above.
    let toggle = unsafe { Toggle::register(foreign.range) }.unwrap();
    assert!(toggle.live().is_none());
}

/// The word that [`look`] looks at after every instruction, how often it has, and how often it saw
/// a mixture.
#[cfg(target_arch = "x86_64")]
static WATCHED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// The handler of the single-step trap.
#[cfg(target_arch = "x86_64")]
extern "C" fn look(_signal: libc::c_int) {
    let [word, looks, torn] = &WATCHED;
    let word = std::ptr::with_exposed_provenance::<AtomicU64>(word.load(Ordering::Relaxed) as usize);
    // SAFETY: the test's word, mapped and aligned.
    let seen = unsafe { &*word }.load(Ordering::Relaxed).to_le_bytes();
    looks.fetch_add(1, Ordering::Relaxed);
    torn.fetch_add(
        u64::from(seen[1..].iter().any(|b| *b != seen[1])),
        Ordering::Relaxed,
    );
}

/// Executes a function one instruction at a time.
#[cfg(target_arch = "x86_64")]
fn single_stepped(work: impl FnOnce()) {
    // SAFETY: sets the trap flag; the handler is installed.
    unsafe { std::arch::asm!("pushfq", "or dword ptr [rsp], 0x100", "popfq") };
    work();
    // SAFETY: clears it.
    unsafe { std::arch::asm!("pushfq", "and dword ptr [rsp], 0xfffffeff", "popfq") };
}

/// Looked at after every instruction, a word that is written holds the old bytes or the new. Only
/// x86-64 lets a program step through itself.
#[test]
#[cfg(target_arch = "x86_64")]
fn small_writes_within_a_word_are_one_store() {
    // In a child, as the handler is the process's.
    assert!(in_child(|| {
        let (placed, range) = aliased(64);
        let alias = placed.memory();
        let [word, looks, torn] = &WATCHED;
        word.store(range.start().get(), Ordering::Relaxed);
        let handler = look as extern "C" fn(libc::c_int);
        // SAFETY: the handler only uses atomics.
        unsafe { libc::signal(libc::SIGTRAP, handler as *const () as libc::sighandler_t) };
        for i in 0..20 {
            let bytes = [i; 7];
            single_stepped(|| alias.write(plus(range.start(), 1), &bytes).unwrap());
            single_stepped(|| {
                let old = [0, i, i, i, i, i, i, i];
                alias
                    .exchange(range.start(), old, [0, 99, 99, 99, 99, 99, 99, 99])
                    .unwrap();
            });
        }
        looks.load(Ordering::Relaxed) > 1000 && torn.load(Ordering::Relaxed) == 0
    }));
}

#[test]
fn failures_are_injected_once_where_asked() {
    let (placed, range) = aliased(64);
    let memory = FailingMemory::new(placed.memory());
    memory.fail_after(Call::Write, 1);
    memory.write(range.start(), &[1; 8]).unwrap();
    assert!(!memory.has_failed());
    assert!(memory.write(range.start(), &[2; 8]).is_err());
    let mut found = [0; 8];
    memory.read(range.start(), &mut found).unwrap();
    assert_eq!(found, [2, 2, 2, 2, 1, 1, 1, 1]);
    memory.write(range.start(), &[3; 8]).unwrap();
    assert_eq!((memory.count(Call::Write), memory.has_failed()), (3, true));
    memory.fail_after(Call::Begin, 0);
    stopped(|token| {
        assert!(memory.begin(&[], token).is_err());
        assert!(memory.begin(&[], token).is_ok());
    });
    memory.fail_after(Call::End, 0);
    assert!(matches!(memory.end(&[]), Err(Error::ProtectionLost { .. })));
}
