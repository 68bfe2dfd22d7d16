//! Memory for the stubs of quiescent sites cannot be had.

use super::*;
use crate::memory::testing::process::{deny, in_child};

const SITES: usize = 5;

/// Five sites whose sequence is installed in place, in an engine with little memory for stubs.
fn patched() -> (Engine, Text, Vec<Site>) {
    // SAFETY: the child has one thread.
    let world = unsafe { SingleThreaded::promise() };
    let builder = Engine::builder().world(world).arena(Arena::new(64 * 1024));
    let engine = builder.build().unwrap();
    let functions: Vec<Written> = (0..SITES as u64).map(identity).collect();
    let text = Text::new(&functions);
    let code = engine
        .adopt_with(text.adopted(&functions), &text.shared())
        .unwrap();
    let shape = CallShape::any_reg(RESERVED).result().args(1);
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { engine.register(code, |_| Some(shape)) }.unwrap();
    let sites: Vec<Site> = module.sites().collect();
    sites
        .iter()
        .for_each(|site| _ = engine.patch_site(site, &plus(1)).unwrap());
    (engine, text, sites)
}

fn transaction<'e>(engine: &'e Engine, sites: &[Site]) -> Transaction<'e> {
    let mut transaction = engine.transaction();
    for site in sites {
        transaction.patch_site(site, &plus_in_stub(7)).unwrap();
    }
    transaction
}

fn is_no_memory(error: &Error) -> bool {
    match error {
        Error::Memory(crate::memory::Error::SystemCall { errno, .. }) => errno.0 == libc::ENOMEM,
        // No mapping near the sites was granted.
        error => matches!(error, Error::Memory(crate::memory::Error::NoAddressSpace { .. })),
    }
}

#[test]
fn a_patch_of_several_sites_without_memory_for_every_stub_changes_none_and_keeps_no_stub() {
    assert!(in_child(|| {
        let (engine, _text, sites) = patched();
        // Stubs of a change that is never made, until there is no memory for one more than the
        // first piece has.
        let mut held = vec![transaction(&engine, &sites[..1]).prepare().unwrap()];
        deny(&[libc::SYS_mmap, libc::SYS_memfd_create], libc::ENOMEM);
        let full = loop {
            match transaction(&engine, &sites[..1]).prepare() {
                Ok(prepared) => held.push(prepared),
                Err(error) => break error,
            }
            assert!(held.len() < 100_000, "memory without end");
        };
        assert!(is_no_memory(&full), "{full:?}");
        let before: Vec<Vec<u8>> = sites.iter().map(bytes).collect();
        // With room for one more each time.
        for _ in 0..SITES {
            let slots = engine.stub_stats().slots;
            let refused = transaction(&engine, &sites).commit().unwrap_err();
            assert!(is_no_memory(&refused), "{refused:?}");
            assert_eq!(engine.stub_stats().slots, slots);
            assert!(sites.iter().map(bytes).eq(before.iter().cloned()));
            assert!(sites.iter().all(|site| call(site, 10) == 11));
            assert!(held.pop().is_some());
        }
        transaction(&engine, &sites).commit().unwrap();
        sites.iter().all(|site| call(site, 10) == 17)
    }));
}
