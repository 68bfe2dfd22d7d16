//! Slots of the stub pool: how dense they lie.

use std::vec;
use std::vec::Vec;

use super::*;
use crate::addr::Len;
use crate::memory::BlockForm;

const WITHIN: u64 = (1 << 31) - (1 << 16);

/// A pool, and code in reach of which it is.
fn pool() -> (StubPool, PlacedSegments, CodeRange) {
    let arena = Arena::default();
    let need = SegmentNeed {
        kind: SegmentKind::Code,
        len: 64,
        align: 64,
    };
    let placed = arena.place(&[need], Reach::Anywhere).unwrap();
    let code = placed.segments()[0].range;
    (StubPool::new(arena, WITHIN), placed.finalize().unwrap(), code)
}

#[test]
fn what_a_slot_has_beyond_its_code_is_free_again() {
    let (pool, _placed, code) = pool();
    let slot = pool.alloc(Len::new(64), code).unwrap();
    let (at, traps) = (slot.addr(), pool.read(slot.range()).unwrap());
    let slot = pool.fill_and_shorten(slot, &[0x22; 17]).unwrap();
    assert_eq!((slot.addr(), slot.len()), (at, Len::new(32)));
    assert_eq!((pool.stats().slots, pool.stats().in_use), (1, 32));
    let bytes = pool.read(slot.range()).unwrap();
    assert_eq!(bytes, [&[0x22; 17], &traps[..15]].concat());
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
        pool.add_block(FORM, code, make).unwrap();
        let rooms = pool.rooms(FORM, code, 1000).unwrap().unwrap();
        let of = *rooms.block().owner::<(CodeRange, u32)>().unwrap();
        counts.push((rooms.len(), of.1, pool.stats().reserved - reserved));
        assert!(!of.0.overlaps(first.range()));
    }
    let grown = pool.stats().reserved - reserved;
    assert_eq!(counts, [(16, 16, 0), (32, 32, 0), (32, 32, 0), (128, 128, grown)]);
    assert!(grown > 0);
}
