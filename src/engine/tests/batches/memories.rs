//! Batches of a module that lies in several memories.

use super::*;
use crate::memory::{Strategy, StrategyChoice};

const PAGE: usize = 4096;

/// Functions with such sites, each on a page of its own that somebody else has mapped, with another page
/// between them, registered in one module whose pages are remapped: run by run, each a memory.
fn in_two_memories(engine: &Engine, holds: &[Holds]) -> Module {
    let (code, offsets) = code_of(holds);
    assert!(code.len() <= PAGE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let (prot, len) = (libc::PROT_READ | libc::PROT_WRITE, 3 * PAGE);
    // SAFETY: a new mapping where the kernel likes.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    let starts = [0, 2 * PAGE];
    for start in starts {
        // SAFETY: in the new mapping, which has three pages.
        unsafe { at.cast::<u8>().add(start).copy_from(code.as_ptr(), code.len()) };
    }
    let executable = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: the mapping is the test's.
    let made = unsafe { libc::mprotect(at, len, executable) };
    assert_eq!(made, 0);
    let starts = starts.map(|start| at.expose_provenance() as u64 + start as u64);
    let mut ids = FIRST_ID..;
    let mut records = |start: u64| {
        let records = ids.by_ref().zip(&offsets).map(|(id, offset)| {
            let record = record(id).at(*offset);
            record.location(reg(RESULT, 8)).location(reg(ARGUMENT, 8))
        });
        (start, records.collect::<Vec<_>>())
    };
    let [(first, of_first), (second, of_second)] = starts.map(&mut records);
    let maps = map()
        .function(first, 16, of_first)
        .function(second, 16, of_second);
    let len = Len::of(&code).unwrap();
    let adoption = Adoption::new(ARCH, ARCH.endian(), maps.bytes())
        .function("f0", CodeAddr::new(first), len)
        .function("f1", CodeAddr::new(second), len)
        .not_yet_run();
    // SAFETY: the mapping stays as long as the process, and nobody else writes there.
    let adopted = unsafe { adoption.promise() }.unwrap();
    let code = engine.adopt(adopted, StrategyChoice::Remap).unwrap();
    let shape = CallShape::any_reg(holds[0].len()).result().args(1);
    // SAFETY: what is told is true of the code.
    unsafe { engine.register(code, |_| Some(shape)) }.unwrap()
}

#[test]
fn a_batch_ends_with_its_memory() {
    const SITES: usize = 12;
    let holds = [Holds::Nops; SITES];
    let handled = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&handled);
    let exit_stubs = ExitStubs::new().on_deopt(move |frame| {
        noted.lock().push(frame.site().id().get());
        frame.resume()
    });
    // SAFETY: the test has one thread.
    let world = unsafe { SingleThreaded::promise() };
    let engine = Engine::builder().world(world).exits(exit_stubs).build().unwrap();
    let module = in_two_memories(&engine, &holds);
    assert_eq!(module.areas().len(), 2);
    assert!(
        module
            .areas()
            .iter()
            .all(|area| area.strategy() == Strategy::Remap)
    );
    // What a way to an exit stub is of has a template once two were made.
    for id in [FIRST_ID, FIRST_ID + 1] {
        engine.invalidate_site(&engine.sites(id).unwrap()[0]).unwrap();
    }
    let mut transaction = engine.transaction();
    for name in ["f0", "f1"] {
        transaction.invalidate(&module.function(name).unwrap()).unwrap();
    }
    assert_eq!(transaction.commit().unwrap().sites, 2 * SITES - 2);
    // Both functions have some.
    assert!(engine.shared.states.lock().batches.len() >= 2);
    let sites: Vec<Site> = module.sites().collect();
    for first in [0, SITES] {
        handled.lock().clear();
        let expected = holds.iter().fold(7, |number, holds| holds.work(number));
        assert_eq!(call(&sites[first], 7), expected);
        let ids = FIRST_ID + first as u64..FIRST_ID + (first + SITES) as u64;
        assert!(handled.lock().iter().copied().eq(ids));
    }
}
