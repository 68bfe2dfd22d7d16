//! The arena and the stub pool.

use std::string::String;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::addr::Len;
use crate::memory::Error;
use crate::publish::GracePeriod;

/// What a 32-bit displacement reaches, and a little less.
const WITHIN: u64 = (1 << 31) - (1 << 16);

fn near(code: CodeRange) -> Reach {
    let within = WITHIN;
    Reach::Near { code, within }
}

#[test]
fn an_image_has_its_segments_in_reach_and_with_their_protections() {
    let arena = Arena::default();
    let need = |kind, len, align| SegmentNeed { kind, len, align };
    let needs = [
        need(SegmentKind::Code, 1000, 64),
        need(SegmentKind::ReadOnly, 5000, 16),
        need(SegmentKind::Data, 10, 8192),
        need(SegmentKind::ReadOnly, 0, 1),
    ];
    let mut placement = arena.place(&needs, Reach::Anywhere).unwrap();
    let segments: Vec<PlacedSegment> = placement.segments().to_vec();
    for (segment, need) in segments.iter().zip(&needs) {
        assert_eq!((segment.kind, segment.range.len()), (need.kind, need.len));
        assert_eq!(segment.range.start().get() % need.align, 0);
        let bytes: Vec<u8> = (0..need.len).map(|i| i as u8).collect();
        placement.fill(segment.range.start(), &bytes).unwrap();
        assert!(placement.fill(segment.range.end(), &[1]).is_err());
        assert!(
            placement
                .fill(segment.range.start(), &vec![0; bytes.len() + 1])
                .is_err()
        );
    }
    let placed = placement.finalize().unwrap();
    let found: Vec<String> = segments
        .iter()
        .take(3)
        .map(|s| protection(s.range.start()))
        .collect();
    assert_eq!(found, ["r-xs", "r--p", "rw-p"]);
    let mut code = [0; 1000];
    placed
        .memory()
        .read(segments[0].range.start(), &mut code)
        .unwrap();
    assert!(code.iter().enumerate().all(|(i, b)| *b == i as u8));
    assert_eq!(arena.chunks().len(), 1);
    assert_eq!(arena.trim(), 0);
    drop(placed);
    assert_eq!(protection(segments[1].range.start()), "---p");
    assert!(arena.trim() > 0);
    assert!(!protection(segments[0].range.start()).contains('x'));
}

#[test]
fn images_share_a_chunk_and_reuse_what_was_freed() {
    let arena = Arena::new(1 << 16);
    let place = |len| {
        arena
            .place(&[code_need(len)], Reach::Anywhere)
            .unwrap()
            .finalize()
            .unwrap()
    };
    let at = |placed: &PlacedSegments| placed.segments()[0].range.start();
    let first = place(0x4000);
    let second = place(0x4000);
    assert_eq!(arena.chunks().len(), 1);
    let freed = at(&first);
    let memory = first.memory();
    drop(first);
    let mut left = [0; 16];
    memory.read(freed, &mut left).unwrap();
    assert_eq!(
        left,
        if cfg!(target_arch = "x86_64") {
            [0xcc; 16]
        } else {
            left
        }
    );
    assert_eq!(at(&place(0x4000)), freed);
    // Larger than a chunk: the arena grows by one that is large enough.
    let large = place(0x3_0000);
    assert_eq!(arena.chunks().len(), 2);
    drop((second, large));
}

#[test]
fn the_low_part_of_the_address_space_is_found() {
    let arena = Arena::default();
    // Two, as the second must get past the first.
    let needs = [
        code_need(3 << 20),
        SegmentNeed {
            kind: SegmentKind::Data,
            len: 1 << 20,
            align: 8,
        },
    ];
    let placed = [0, 1].map(|_| arena.place(&needs, Reach::Low2GiB).unwrap());
    for placement in &placed {
        assert!(placement.segments().iter().all(|s| s.range.end().get() < 1 << 31));
    }
}

#[test]
fn requests_that_no_chunk_can_hold_are_refused() {
    let arena = Arena::default();
    for (len, align) in [(1 << 31, 16), (u64::MAX, 16), (16, 0), (16, 3), (16, 1 << 40)] {
        for kind in [SegmentKind::Code, SegmentKind::Data] {
            let refused = arena.place(&[SegmentNeed { kind, len, align }], Reach::Anywhere);
            assert!(
                matches!(refused, Err(Error::SegmentRefused { index: 0, .. })),
                "{refused:?}"
            );
        }
    }
    let many = vec![code_need(1 << 29); 5];
    let refused = arena.place(&many, Reach::Anywhere);
    assert!(
        matches!(refused, Err(Error::SegmentRefused { index: 3, .. })),
        "{refused:?}"
    );
    assert!(arena.chunks().is_empty());
}

fn grace_period() -> GracePeriod {
    // SAFETY: nothing ever executes the slots of these tests.
    unsafe { GracePeriod::promise() }
}

#[test]
fn stubs_are_near_aligned_trapping_and_reused() {
    let pool = StubPool::new(Arena::default(), WITHIN);
    let foreign = Foreign::new(1);
    let slots: Vec<StubSlot> = (1..200)
        .map(|len| pool.alloc(Len::new(len), foreign.range).unwrap())
        .collect();
    for slot in &slots {
        assert_eq!(slot.addr().get() % 16, 0);
        assert!(i32::try_from(slot.addr().distance_from(foreign.range.start())).is_ok());
        let mut bytes = vec![0; slot.len().as_usize()];
        pool.memory(slot).unwrap().read(slot.addr(), &mut bytes).unwrap();
        if cfg!(target_arch = "x86_64") {
            assert!(bytes.iter().all(|b| *b == 0xcc), "{bytes:x?}");
        }
    }
    let used: u64 = slots.iter().map(|s| u64::from(s.len().get())).sum();
    let stats = pool.stats();
    assert_eq!((stats.in_use, stats.slots, stats.reclaimed), (used, 199, 0));
    let starts: Vec<CodeAddr> = slots.iter().map(StubSlot::addr).collect();
    for slot in slots {
        let (memory, at) = (pool.memory(&slot).unwrap(), slot.addr());
        memory.write(at, &[0x90; 16]).unwrap();
        pool.free(slot, &grace_period()).unwrap();
        let mut left = [0; 16];
        memory.read(at, &mut left).unwrap();
        assert_ne!(left, [0x90; 16]);
    }
    let stats = pool.stats();
    assert_eq!((stats.in_use, stats.slots, stats.reclaimed), (0, 0, used));
    let again = pool.alloc(Len::new(5), foreign.range).unwrap();
    assert!(starts.contains(&again.addr()), "{again:?} of {starts:?}");
    assert_eq!(pool.stats().reserved, stats.reserved);
}

/// What was found out about some stubs says nothing of others, nor of those that were retired
/// since.
#[test]
#[cfg(target_os = "linux")]
fn a_stub_is_freed_with_a_proof_about_it_only() {
    // In a process of its own, as other tests hold threads.
    assert!(in_child(|| {
        let pool = StubPool::new(Arena::default(), WITHIN);
        let foreign = Foreign::new(1);
        let alloc = || pool.alloc(Len::new(8), foreign.range).unwrap();
        // SAFETY: no thread executes the slots.
        let world = unsafe { crate::publish::SignalWorld::new() }.unwrap();
        let refused = |slot, proof| matches!(pool.free(slot, proof), Err(Error::NoGracePeriod { .. }));
        let [one, two] = [alloc().retire(), alloc().retire()];
        let (asked, later) = (one.range(), alloc());
        let proof = world.grace_period(&[asked, later.range()]).unwrap();
        refused(two, &proof)
            && refused(later.retire(), &proof)
            && refused(alloc(), &proof)
            && pool.free(one, &proof).is_ok()
            && pool.stats().slots == 3
    }));
}

#[test]
fn stubs_are_where_short_jumps_reach_them() {
    const SHORT: u64 = (1 << 20) - (1 << 16);
    let far = |slot: &StubSlot, code: CodeRange| {
        let (low, high) = (slot.addr().min(code.start()), slot.range().end().max(code.end()));
        high.get() - low.get() > SHORT
    };
    // A page with so many pages behind it that are not mapped, and mapped ones all around.
    let hole = |pages: u64| {
        let room = Foreign::new(1024);
        let (page, middle) = (sys::page_size(), plus(room.range.start(), 512 * sys::page_size()));
        // SAFETY: pages of the test's.
        unsafe { sys::unmap(middle.get() + page, pages * page) };
        (CodeRange::new(middle, page).unwrap(), room)
    };
    let near = |code, within| Reach::Near { code, within };
    // As many stubs as fit there.
    let fits = |pages: u64, stubs: u32| {
        let arena = Arena::new(SHORT / 4);
        // There is room in this chunk, but it is too far away.
        let _far_chunk = arena.place(&[code_need(64)], Reach::Anywhere).unwrap();
        let (code, _room) = hole(pages);
        let pool = StubPool::new(arena, SHORT);
        (0..stubs).all(|_| !far(&pool.alloc(Len::new(1024), code).unwrap(), code))
    };
    // The stub of code that fills its chunk.
    let beside = || {
        let (page, _room) = hole(511);
        let arena = Arena::new(SHORT / 4);
        let filled = arena
            .place(&[code_need(SHORT / 4 - 4096)], near(page, SHORT))
            .unwrap();
        let code = sub(filled.segments()[0].range, 0, 64);
        let pool = StubPool::new(arena, SHORT);
        !far(&pool.alloc(Len::new(1024), code).unwrap(), code)
    };
    // Some of as many rooms as would fill a slab.
    let block_fits = |pages: u64| {
        let (code, _room) = hole(pages);
        let pool = StubPool::new(Arena::new(SHORT / 4), SHORT);
        let form = BlockForm { shared: 16, room: 16 };
        let made = pool.add_block(form, code, 100_000, |_, _| (vec![0; 16], ()));
        made.is_ok() && pool.rooms(form, code, 1).unwrap().is_some()
    };
    // In children of one thread, so that nothing else is mapped there.
    assert!(in_child(|| block_fits(7)), "where there is no room for a slab");
    assert!(in_child(|| fits(511, 200)), "more than a slab, and than a chunk");
    assert!(
        in_child(|| fits(8, 10)),
        "where there is no room for a usual chunk"
    );
    assert!(in_child(beside), "beside code that fills its chunk");
}

#[test]
fn a_stub_that_cannot_be_near_is_refused() {
    let pool = StubPool::new(Arena::default(), WITHIN);
    let spread = CodeRange::new(CodeAddr::new(1 << 40), 1 << 33).unwrap();
    let refused = pool.alloc(Len::new(16), spread);
    assert!(
        matches!(refused, Err(Error::NoAddressSpace { .. })),
        "{refused:?}"
    );
    assert!(pool.alloc(Len::new(0), spread).is_err());
    let other = StubPool::new(Arena::default(), WITHIN);
    let slot = other.alloc(Len::new(16), Foreign::new(1).range).unwrap();
    assert!(pool.memory(&slot).is_err());
    assert!(pool.free(slot, &grace_period()).is_err());
}

#[test]
fn each_code_gets_its_own_reach() {
    let arena = Arena::default();
    let high = Foreign::new(1).range;
    let near_high = arena.place(&[code_need(64)], near(high)).unwrap();
    let low = arena.place(&[code_need(64)], Reach::Low2GiB).unwrap();
    let low = low.segments()[0].range;
    assert!(low.end().get() < 1 << 31);
    let in_reach = |a: CodeRange, b: CodeRange| i32::try_from(a.start().distance_from(b.start())).is_ok();
    assert!(in_reach(near_high.segments()[0].range, high));

    let pool = StubPool::new(arena, WITHIN);
    for _ in 0..2 {
        for near in [high, low] {
            let slot = pool.alloc(Len::new(32), near).unwrap();
            let slot = CodeRange::new(slot.addr(), 32).unwrap();
            assert!(in_reach(slot, near), "{slot} is not near {near}");
        }
    }
}
