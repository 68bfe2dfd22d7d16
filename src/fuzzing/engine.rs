//! Any bytes as an object, through the whole engine: loaded, registered, patched, restored,
//! invalidated.
#![allow(
    unsafe_code,
    reason = "promises are unsafe functions; no code is executed here"
)]

use std::vec::Vec;

use super::Choices;
use crate::Engine;
use crate::addr::{CodeAddr, Len};
use crate::arch::CallShape;
use crate::deopt::ExitStubs;
use crate::engine::{LoadedCode, Status};
use crate::image::Object;
use crate::memory::Arena;
use crate::publish::{GracePeriod, SingleThreaded};
use crate::sequence::{Sequence, Target, arg, live, result};
use crate::site::{Candidate, Module, Site};
use crate::stackmap::LocationKind;

/// What one execution may allocate for zero fill.
const LIMIT: u32 = 1 << 20;
/// Of so many sites the engine is asked for everything.
const SITES: usize = 8;

/// Loads what follows the first 16 bytes as an object, which must not harm the engine, and does
/// everything with its sites that the first bytes choose.
///
/// # Panics
/// When bytes outside a site change, a restored site differs from what it was, or memory is lost.
pub fn engine(data: &[u8]) {
    let Some((choices, object)) = data.split_at_checked(16) else {
        return;
    };
    let layout = Object::parse(object).and_then(Object::layout);
    let too_large = |layout: crate::image::Layout<'_>| layout.segments().iter().any(|s| s.size.get() > LIMIT);
    if layout.is_ok_and(too_large) {
        return;
    }
    let arena = Arena::default();
    // SAFETY: this thread patches, and nothing executes what it patches.
    let world = unsafe { SingleThreaded::promise() };
    let exit_stubs = ExitStubs::new()
        .on_miss(|frame| frame.resume())
        .on_deopt(|frame| frame.resume());
    let engine = Engine::builder()
        .world(world)
        .exits(exit_stubs)
        .arena(arena.clone());
    let Ok(engine) = engine.build() else {
        return;
    };
    use_engine(&engine, &mut Choices::new(choices), object);
    assert_eq!((engine.stub_stats().slots, engine.modules().len()), (0, 0));
    drop(engine);
    arena.trim();
    assert!(
        arena.chunks().is_empty(),
        "something of the object is still loaded"
    );
}

fn use_engine(engine: &Engine, choices: &mut Choices<'_>, object: &[u8]) {
    let near = choices.flag();
    let resolve = |name: &str| {
        let at = if near { 0x1_0000 } else { 0x7fff_1234_0000 };
        Some(CodeAddr::new(at + name.len() as u64))
    };
    let Ok(code) = engine.load(object, resolve) else {
        return;
    };
    let before = contents(&code);
    let salt = choices.byte();
    // SAFETY: the code is never executed.
    let Ok(module) = (unsafe { engine.register(code, |record| shape(record, salt)) }) else {
        return;
    };
    let sites: Vec<Site> = module.sites().take(SITES).collect();
    for site in &sites {
        change(engine, choices, site);
    }
    restore(engine, &module, &before);
    if choices.flag() {
        for function in module.functions().take(SITES) {
            let _ = engine.invalidate(&function);
        }
        outside_is_unchanged(&module, &before);
    }
    // SAFETY: nothing executes the module.
    let grace_period = unsafe { GracePeriod::promise() };
    drop(sites);
    assert_eq!(engine.unregister(module, &grace_period), Ok(()));
    assert!(engine.reclaim(&grace_period).is_ok());
}

/// A shape that the record has, as far as that can be seen; sometimes any.
fn shape(record: &Candidate<'_>, salt: u8) -> Option<CallShape> {
    let mix = (record.id().get() as u8) ^ salt;
    let room = record.room().get();
    if mix & 31 == 31 {
        return Some(CallShape::any_reg(u32::from(salt)).result());
    }
    let Ok(reserved) = record.infer_reserved() else {
        let len = room.min(5 + u32::from(mix & 15));
        return (len > 0 && mix & 1 == 1).then_some(CallShape::shadow(len));
    };
    let locations = record.record().locations();
    let in_register = locations
        .get(0)
        .is_some_and(|l| matches!(l.kind, LocationKind::Register { .. }));
    match in_register {
        true => {
            let args = u32::try_from(locations.len()).map_or(0, |count| count - 1);
            Some(CallShape::any_reg(reserved.get()).result().args(args.min(2)))
        }
        false => Some(CallShape::c(reserved.get()).result()),
    }
}

fn change(engine: &Engine, choices: &mut Choices<'_>, site: &Site) {
    if choices.flag() {
        site.module().release();
    }
    let by = u64::from(choices.byte());
    let sequence = match choices.below(5) {
        0 => Sequence::new().mov(result(), arg(0)).add(result(), by),
        1 => Sequence::new().guard_eq(arg(0), by, Target::Miss),
        2 => Sequence::new().jump(Target::Deopt),
        3 => Sequence::new()
            .guard_eq(live(0), by << 40, Target::Deopt)
            .mov(result(), by),
        _ => Sequence::new(),
    };
    let was = engine.status(site);
    match engine.patch_site(site, &sequence) {
        Ok(_) => assert_eq!(engine.status(site), Status::Patched),
        Err(error) => {
            assert!(!std::string::ToString::to_string(&error).is_empty());
            assert_eq!(engine.status(site), was);
        }
    }
}

/// The code, area by area.
type Contents = Vec<Vec<u8>>;

fn contents(code: &LoadedCode) -> Contents {
    code.areas().iter().map(read).collect()
}

fn read(area: &crate::memory::CodeArea) -> Vec<u8> {
    let mut bytes = std::vec![0; usize::try_from(area.range().len()).unwrap_or(0)];
    assert_eq!(area.memory().read(area.range().start(), &mut bytes), Ok(()));
    bytes
}

fn restore(engine: &Engine, module: &Module, before: &Contents) {
    let restored = module.sites().all(|site| engine.restore_site(&site).is_ok());
    if restored {
        let now: Contents = module.areas().iter().map(read).collect();
        assert!(now == *before, "restored code differs");
    }
    outside_is_unchanged(module, before);
}

/// Nothing outside the sites has changed.
fn outside_is_unchanged(module: &Module, before: &Contents) {
    for (area, before) in module.areas().iter().zip(before) {
        let now = read(area);
        let mut at = area.range().start();
        for (new, old) in now.iter().zip(before) {
            assert!(new == old || module.site_at(at).is_some(), "{at} was changed");
            at = at.plus(Len::new(1)).unwrap_or(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects of the tests, with choices before them.
    fn corpus() -> Vec<Vec<u8>> {
        crate::fuzzing::corpus("engine")
    }

    // The corpus has objects of this architecture.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_corpus_is_patched() {
        let mut patched = 0;
        for seed in corpus() {
            let (_, object) = seed.split_at(16);
            // SAFETY: as above.
            let world = unsafe { SingleThreaded::promise() };
            let engine = Engine::builder().world(world).build().unwrap();
            let code = engine.load(object, |_| Some(CodeAddr::new(0x1_0000))).unwrap();
            // SAFETY: as above.
            let Ok(module) = (unsafe { engine.register(code, |record| shape(record, 0)) }) else {
                continue;
            };
            let mut sites = module.sites();
            patched += usize::from(sites.any(|site| engine.patch_site(&site, &Sequence::new()).is_ok()));
        }
        assert!(patched * 2 > corpus().len(), "{patched}");
    }

    #[test]
    fn damaged_objects_are_refused_or_work() {
        let executions = crate::fuzzing::executions(4_000);
        crate::fuzzing::mutate_and_run(&corpus(), engine, executions, 0xe461);
    }
}
