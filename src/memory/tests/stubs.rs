//! Slots of the stub pool: how dense they lie.

use std::vec;
use std::vec::Vec;

use super::*;
use crate::addr::Len;
use crate::memory::{BlockForm, StubRoom};
use crate::publish::GracePeriod;

#[test]
fn what_a_slot_has_beyond_its_code_is_free_again() {
    let (pool, _placed, code) = pool();
    let slot = pool.alloc(Len::new(64), code).unwrap();
    let (at, traps) = (slot.addr(), pool.read(slot.range()).unwrap());
    let slot = pool.fill_and_shorten(slot, &[0x22; 17]).unwrap();
    assert_eq!((slot.addr(), slot.len()), (at, Len::new(32)));
    assert_eq!((pool.stats().slots, pool.stats().in_use), (1, 32));
    let bytes = pool.read(slot.range()).unwrap();
    assert_eq!(bytes, [&[0x22; 17], &traps[17..32]].concat());
    let next = pool.alloc(Len::new(32), code).unwrap();
    assert_eq!(next.addr(), slot.range().end());
    assert_eq!(pool.read(next.range()).unwrap(), traps[..32]);
    // All of it is needed.
    let next = pool.fill_and_shorten(next, &[0x33; 20]).unwrap();
    assert_eq!(next.len(), Len::new(32));
    let too_long = pool.fill_and_shorten(next, &[0x44; 33]);
    assert!(matches!(too_long, Err(Error::OutsideMemory { .. })));
    assert_eq!((pool.stats().slots, pool.stats().in_use), (1, 32));
}

#[test]
fn a_slab_is_used_up_before_another_is_taken() {
    const FORM: BlockForm = BlockForm { shared: 32, room: 32 };
    let (pool, _placed, code) = pool();
    let make = |range: CodeRange, count: u32| (vec![0x11; 32], (range, count));
    let first = pool.alloc(Len::new(16), code).unwrap();
    let reserved = pool.stats().reserved;
    // There is room for one of 16, and for two of 32.
    let most = reserved as u32 - 16 - 3200;
    let _most = pool.alloc(Len::new(most), code).unwrap();
    let mut counts = Vec::new();
    for _ in 0..4 {
        pool.add_block(FORM, code, 0, make).unwrap();
        let rooms = pool.rooms(FORM, code, 1000).unwrap().unwrap();
        let of = *rooms.block().owner::<(CodeRange, u32)>().unwrap();
        counts.push((rooms.len(), of.1, pool.stats().reserved - reserved));
        assert!(!of.0.overlaps(first.range()));
    }
    let grown = pool.stats().reserved - reserved;
    assert_eq!(counts, [(16, 16, 0), (32, 32, 0), (32, 32, 0), (128, 128, grown)]);
    assert!(grown > 0);
}

/// A stub of so many bytes.
fn stub(room: &mut StubRoom, pool: &StubPool, len: u32, near: CodeRange) -> StubSlot {
    let at = room.next(pool, Len::new(len), near).unwrap();
    let slot = room.fill(pool, &vec![len as u8; len as usize]).unwrap();
    assert_eq!((slot.addr(), slot.len().get()), (at, len.next_multiple_of(16)));
    slot
}

#[test]
fn stubs_of_a_piece_are_slots_like_others() {
    let (pool, _placed, code) = pool();
    let mut room = StubRoom::default();
    let mut slots: Vec<_> = (1..100).map(|len| stub(&mut room, &pool, len, code)).collect();
    slots.push(pool.alloc(Len::new(600), code).unwrap());
    slots.push(stub(&mut room, &pool, 700, code));
    let in_use = slots.iter().map(|slot| slot.range().len()).sum();
    assert_eq!((pool.stats().slots, pool.stats().in_use), (101, in_use));
    for (n, slot) in slots.iter().enumerate() {
        let others = slots.iter().skip(n + 1);
        assert!(
            others
                .into_iter()
                .all(|other| !other.range().overlaps(slot.range()))
        );
    }
    let ranges: Vec<_> = slots.iter().map(StubSlot::range).collect();
    for (range, len) in ranges.iter().zip(1..100_usize) {
        let bytes = pool.read(*range).unwrap();
        assert_eq!(bytes[..len], vec![len as u8; len]);
    }
    let traps = pool.alloc(Len::new(16), code).unwrap();
    let trap = pool.read(traps.range()).unwrap()[..4].to_vec();
    for slot in slots.into_iter().chain([traps]) {
        // SAFETY: no thread is in it.
        pool.free(slot.retire(), &unsafe { GracePeriod::promise() })
            .unwrap();
    }
    for range in ranges {
        assert_eq!(pool.read(range).unwrap(), trap.repeat(range.len() as usize / 4));
    }
    assert_eq!((pool.stats().slots, pool.stats().in_use), (0, 0));
}

#[test]
fn what_is_left_of_a_piece_is_used_by_others() {
    let (pool, _placed, code) = pool();
    let mut room = StubRoom::default();
    let first = stub(&mut room, &pool, 32, code);
    let reserved = pool.stats().reserved;
    // What was left of the piece is too short, and free again.
    let most = (reserved - 512) as u32;
    let second = stub(&mut room, &pool, most, code);
    assert_eq!(second.addr().get(), first.addr().get() + 32);
    let third = pool.alloc(Len::new(480), code).unwrap();
    assert_eq!(
        (third.range().end(), pool.stats().reserved),
        (CodeAddr::new(first.addr().get() + reserved), reserved)
    );
    // Nothing is taken where code is longer than what is left.
    let too_long = room.fill(&pool, &[1; 16]);
    assert!(matches!(too_long, Err(Error::OutsideMemory { .. })));
    assert_eq!(pool.stats().slots, 3);
    let refused = room.next(&pool, Len::new(0), code);
    assert!(matches!(refused, Err(Error::SegmentRefused { .. })));
}

#[test]
fn a_piece_serves_code_that_it_is_in_reach_of() {
    const SHORT: u64 = 1 << 20;
    let arena = Arena::new(8 << 20);
    let placed = arena.place(&[code_need(64)], Reach::Anywhere).unwrap();
    let start = placed.segments()[0].range.start();
    let pool = StubPool::new(arena, SHORT);
    let mut room = StubRoom::default();
    for before in [0, 6 << 20, 0] {
        let near = CodeRange::new(CodeAddr::new(start.get() + before), 64).unwrap();
        let slot = stub(&mut room, &pool, 32, near);
        assert!(near.start().distance_from(slot.addr()).unsigned_abs() < SHORT);
    }
    assert_eq!((pool.stats().slots, pool.stats().in_use), (3, 96));
}
