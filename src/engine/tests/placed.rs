//! Code that is placed is published before it can run: the instruction cache is maintained where it
//! is executed, and where other code was before, every thread serializes.

use super::*;
use crate::icache::testing::during;
use crate::memory::testing::objects::INLINE_CACHE;
use crate::publish::serialize_count;

pub(super) fn covers(maintained: &[CodeRange], range: CodeRange) -> bool {
    maintained
        .iter()
        .any(|one| one.contains_bytes(range.start(), range.len()))
}

fn load(lab: &Lab) -> (super::super::LoadedCode, Vec<CodeRange>) {
    during(|| lab.engine.load(INLINE_CACHE, |_| None).unwrap())
}

#[test]
fn loaded_code_is_published_before_anybody_has_it() {
    let lab = Lab::new();
    let before = serialize_count();
    let (code, maintained) = load(&lab);
    assert!(serialize_count() > before, "this core has fetched nothing older");
    assert!(!code.areas().is_empty());
    for area in code.areas() {
        assert!(covers(&maintained, area.range()), "{area:?}: {maintained:?}");
    }
}

/// What was executed there once is in no instruction cache, and what is there now is.
#[test]
fn memory_that_is_used_again_is_published_again() {
    let lab = Lab::new();
    let (code, _) = load(&lab);
    let first: Vec<CodeRange> = code.areas().iter().map(|area| area.range()).collect();
    let ((), traps) = during(|| drop(code));
    let (again, maintained) = load(&lab);
    assert!(again.is_reused());
    for (range, area) in first.iter().zip(again.areas()) {
        assert_eq!(*range, area.range(), "the arena gives the same room again");
        assert!(covers(&traps, *range), "{range}: {traps:?}");
        assert!(covers(&maintained, *range), "{range}: {maintained:?}");
    }
    let (other, _) = load(&lab);
    assert!(!other.is_reused(), "it is behind the others");
}

/// Where threads cannot be made to serialize, code is placed only where there was none.
#[test]
#[cfg(target_os = "linux")]
fn room_is_not_used_again_where_no_thread_can_be_told() {
    use crate::memory::testing::process::{deny, in_child};
    if cfg!(emulated) {
        return;
    }
    assert!(in_child(|| {
        deny(&[libc::SYS_membarrier], libc::EPERM);
        deny(&[libc::SYS_openat], libc::ENOENT);
        let lab = Lab::new();
        drop(lab.engine.load(INLINE_CACHE, |_| None).unwrap());
        matches!(
            lab.engine.load(INLINE_CACHE, |_| None),
            Err(Error::Publish(crate::publish::Error::NoBarrier { .. }))
        )
    }));
}

/// Stubs and exit stubs are out of line: they are written and maintained before the site branches
/// there.
#[test]
fn stubs_and_exit_stubs_are_published_with_their_site() {
    let (lab, _text, functions) = {
        let lab = Lab::new();
        let functions = [identity(1)];
        let text = Text::new(&functions);
        let module = lab.register(&text, &functions);
        (lab, text, module)
    };
    let site = functions.sites().next().unwrap();
    let stubs = || lab.engine.stub_stats();
    let before = stubs().in_use;
    let (patched, maintained) = during(|| lab.engine.patch(1, &plus_in_stub(9)));
    patched.unwrap();
    let outside: u64 = maintained
        .iter()
        .filter(|range| !range.overlaps(site.range()))
        .map(|range| range.len())
        .sum();
    assert!(stubs().in_use > before && outside >= stubs().in_use - before);
    assert!(covers(&maintained, site.range()));
    assert_eq!(call(&site, 4), 13);
    let before = stubs().in_use;
    let (invalidated, maintained) = during(|| lab.engine.invalidate(&functions.function("f0").unwrap()));
    invalidated.unwrap();
    let outside: u64 = maintained
        .iter()
        .filter(|range| !range.overlaps(site.range()))
        .map(|range| range.len())
        .sum();
    assert!(outside >= stubs().in_use.saturating_sub(before) && outside > 0);
    call(&site, 4);
    assert_eq!(lab.deopts.load(Ordering::Relaxed), 1);
}
