//! Libraries that others use to change code.

use std::hint::black_box;
use std::time::Duration;

use asmkit::{Arch, CodeBuffer, JitAllocator, rewrite_region_span};
use dynasmrt::ExecutableBuffer;
use static_keys::{define_static_key_false, static_branch_unlikely};

use super::{Contender, Job, Offer, cannot};
use crate::measure::time;
use crate::pages::{Foreign, PAGE};
use crate::subject::RESERVED;

/// All of them.
pub(super) fn offers(job: Job) -> Vec<Offer> {
    match job {
        Job::Single => vec![
            Ok(region()),
            Ok(retour()),
            cannot("detour", NO_DETOUR),
            Ok(static_keys()),
            Ok(asmkit(1, SINGLES)),
            Ok(dynasmrt(1)),
        ],
        Job::Batch => vec![
            cannot("region", "one place at a time, nothing rolled back"),
            cannot("retour", "one function at a time, nothing rolled back"),
            cannot("detour", NO_DETOUR),
            cannot("static-keys", "a key at a time, nothing rolled back"),
            Ok(asmkit(THOUSAND, THOUSAND)),
            Ok(dynasmrt(THOUSAND)),
        ],
        Job::Eventual | Job::Immediate => vec![
            cannot(
                "region",
                "not while threads execute it: a copy is no atomic store",
            ),
            cannot("retour", "not while threads execute it: says so itself"),
            cannot("detour", NO_DETOUR),
            cannot(
                "static-keys",
                "not while threads execute it: enable is unsafe for that reason",
            ),
            cannot(
                "asmkit",
                "regions not while threads execute them; jumps without a barrier",
            ),
            cannot("dynasmrt-toggle", "the code is not executable meanwhile"),
        ],
        Job::Invalidate => Vec::new(),
    }
}

/// retour continues it.
const NO_DETOUR: &str = "its last version, 0.8.1, does not compile with this compiler";

const SINGLES: usize = 16;
const THOUSAND: usize = 1000;

/// Does something so many times, with the number of the time.
fn each(count: usize, mut one: impl FnMut(usize) + 'static) -> impl FnMut() -> Duration {
    let mut turn = 0;
    move || {
        time(|| {
            for _ in 0..count {
                turn += 1;
                one(turn);
            }
        })
    }
}

/// `protect_with_handle`, a copy, and the handle's drop, which puts the protection back.
fn region() -> Contender {
    let code = Foreign::new(&[0xcc; PAGE]);
    let at = std::ptr::with_exposed_provenance_mut::<u8>(code.at as usize);
    let batch = each(SINGLES, move |turn| {
        let bytes = [turn as u8; RESERVED];
        // SAFETY: the page is the measurement's, and nothing runs there.
        let handle = unsafe { region::protect_with_handle(at, RESERVED, region::Protection::READ_WRITE) };
        // SAFETY: writable as long as the handle is there.
        unsafe { at.copy_from_nonoverlapping(black_box(&bytes).as_ptr(), RESERVED) };
        drop(handle.unwrap());
    });
    Contender::new("region", SINGLES, batch)
}

#[inline(never)]
extern "C" fn original(value: u64) -> u64 {
    black_box(value).wrapping_mul(3).rotate_left(7)
}

#[inline(never)]
extern "C" fn replacement(value: u64) -> u64 {
    black_box(value).wrapping_add(1)
}

/// A function is redirected, and back.
fn retour() -> Contender {
    let (target, to) = (original as *const (), replacement as *const ());
    // SAFETY: both are functions of the same type, and no other thread calls them.
    let detour = unsafe { retour::RawDetour::new(target, to) }.unwrap();
    let batch = each(SINGLES, move |turn| {
        // SAFETY: no other thread calls the function.
        let changed = unsafe {
            match turn % 2 {
                0 => detour.disable(),
                _ => detour.enable(),
            }
        };
        changed.unwrap();
        debug_assert_eq!(
            black_box(original as extern "C" fn(u64) -> u64)(1) == 2,
            turn % 2 == 1
        );
    });
    Contender::new("retour", SINGLES, batch)
}

define_static_key_false!(KEY);

#[inline(never)]
fn branch() -> u64 {
    if static_branch_unlikely!(KEY) {
        return black_box(1);
    }
    black_box(0)
}

/// A branch is switched on, and off.
fn static_keys() -> Contender {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(static_keys::global_init);
    let batch = each(SINGLES, |turn| {
        // SAFETY: no other thread executes the branch.
        unsafe {
            match turn % 2 {
                0 => KEY.disable(),
                _ => KEY.enable(),
            }
        }
        debug_assert_eq!(branch(), (turn % 2) as u64);
    });
    // It has to be somewhere for there to be something to change.
    black_box(branch());
    Contender::new("static-keys", SINGLES, batch)
}

/// Regions of reserved bytes are rewritten.
fn asmkit(regions: usize, operations: usize) -> Contender {
    let mut buffer = CodeBuffer::new(asmkit::Environment::new(Arch::X64));
    let marks: Vec<_> = {
        let mut assembler = asmkit::x86::Assembler::new(&mut buffer);
        let reserve = |_| assembler.reserve_patch_region(RESERVED as u32, 1).unwrap();
        (0..regions).map(reserve).collect()
    };
    let code = buffer.finish().unwrap();
    let places: Vec<_> = marks.into_iter().map(|mark| code.location_of(mark)).collect();
    let mut allocator = JitAllocator::new(Default::default());
    let mut span = code.allocate(&mut allocator).unwrap();
    let batch = each(operations, move |turn| {
        let bytes = [turn as u8; 13];
        let place = places[turn % places.len()];
        // SAFETY: the span holds the code, and nothing runs there.
        unsafe { rewrite_region_span(&mut allocator, &mut span, place, black_box(&bytes)) }.unwrap();
    });
    Contender::new("asmkit", operations, batch)
}

/// Memory is made writable, so many places are changed in it, and it is made executable again.
fn dynasmrt(places: usize) -> Contender {
    let mut assembler = dynasmrt::x64::Assembler::new().unwrap();
    for _ in 0..places {
        assembler.extend([0xcc; RESERVED]);
    }
    let mut code = Some(assembler.finalize().unwrap());
    let batch = each(SINGLES, move |turn| {
        let bytes = [turn as u8; RESERVED];
        let mut writable = code
            .take()
            .and_then(|code: ExecutableBuffer| code.make_mut().ok())
            .unwrap();
        for place in writable.chunks_exact_mut(RESERVED) {
            place.copy_from_slice(black_box(&bytes));
        }
        code = writable.make_exec().ok();
    });
    Contender::new("dynasmrt-toggle", SINGLES * places, batch)
}
