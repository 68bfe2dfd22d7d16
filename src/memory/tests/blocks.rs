//! Blocks of the stub pool.

use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::addr::Len;
use crate::memory::{Block, BlockForm, BlockRooms, EmptyRooms, Error};
use crate::publish::GracePeriod;

const FORM: BlockForm = BlockForm { shared: 32, room: 24 };

/// One room, with its block.
struct Room {
    slot: StubSlot,
    number: u32,
    block: Arc<Block>,
}

/// At most so many rooms of one block, of a new one if need be.
fn rooms(pool: &StubPool, near: CodeRange, most: usize) -> BlockRooms {
    pool.rooms(FORM, near, most).unwrap().unwrap_or_else(|| {
        let make = |range: CodeRange, count: u32| (vec![0x11; FORM.shared as usize], (range, count));
        pool.add_block(FORM, near, 0, make).unwrap();
        pool.rooms(FORM, near, most).unwrap().unwrap()
    })
}

fn room(pool: &StubPool, near: CodeRange) -> Room {
    let mut rooms = rooms(pool, near, 1);
    let number = rooms.take().unwrap().unwrap().number();
    assert!(rooms.take().is_none());
    let block = Arc::clone(rooms.block());
    let slot = block.slot(number);
    Room { slot, number, block }
}

fn of(room: &Room) -> (CodeRange, u32) {
    *room.block.owner::<(CodeRange, u32)>().unwrap()
}

fn bytes(pool: &StubPool, range: CodeRange) -> Vec<u8> {
    pool.read(range).unwrap()
}

#[test]
fn rooms_are_handed_out_in_order_and_are_apart() {
    let (pool, _placed, code) = pool();
    let rooms: Vec<Room> = (0..1000).map(|_| room(&pool, code)).collect();
    let mut blocks: Vec<(CodeRange, u32)> = rooms.iter().map(of).collect();
    for one in &rooms {
        let (block, count) = of(one);
        let before = u64::from(FORM.shared + one.number * FORM.room);
        assert!(one.number < count);
        assert_eq!(one.slot.addr().get(), block.start().get() + before);
        assert!(block.contains_bytes(one.slot.addr(), one.slot.range().len()));
        let shared = CodeRange::new(block.start(), FORM.shared.into()).unwrap();
        assert_eq!(bytes(&pool, shared), [0x11; 32]);
    }
    blocks.dedup();
    assert!(blocks.len() > 2 && blocks[0].1 < blocks[1].1, "{blocks:?}");
    for (n, block) in blocks.iter().enumerate() {
        assert!(blocks.iter().skip(n + 1).all(|other| !other.0.overlaps(block.0)));
    }
    let mut starts: Vec<_> = rooms.iter().map(|room| room.slot.addr()).collect();
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts.len(), rooms.len());
    let stats = pool.stats();
    assert_eq!((stats.slots, stats.in_use), (1000, 24_000));
}

/// What nobody has taken is not written, so that it needs no memory; what is taken holds traps.
#[test]
fn a_slab_is_written_as_far_as_it_is_used() {
    let (pool, _placed, code) = pool();
    let (block, _) = of(&room(&pool, code));
    // The block is at its end, but for its alignment, which is the slab's too.
    let start = (block.end().get() - pool.stats().reserved).next_multiple_of(64);
    let slab = CodeRange::new(CodeAddr::new(start), pool.stats().reserved).unwrap();
    let before = CodeRange::new(slab.start(), block.start().distance_from(slab.start()) as u64).unwrap();
    let page = sys::page_size();
    if before.len() <= 2 * page {
        // Where pages are large, a slab has too few.
        assert!(page > 4096);
        return;
    }
    let unused = CodeRange::new(slab.start(), before.len() - page).unwrap();
    let are_zeros = |range| bytes(&pool, range).iter().all(|byte| *byte == 0);
    let traps = bytes(&pool, room(&pool, code).slot.range());
    let trap = &traps[..4];
    let are_traps = |range| bytes(&pool, range).chunks_exact(4).all(|four| four == trap);
    assert!(trap != [0; 4] && are_traps(room(&pool, code).slot.range()) && are_zeros(unused));

    // Larger than the rest of the page.
    let make = |range: CodeRange, count: u32| (vec![0x11; 32], (range, count));
    pool.add_block(FORM, code, page as usize / 24, make).unwrap();
    let next = pool.rooms(FORM, code, 1000).unwrap().unwrap();
    let rooms = (next.block().room(0).start(), next.len() as u64 * 24);
    assert!(are_traps(CodeRange::new(rooms.0, rooms.1).unwrap()) && !are_zeros(unused));

    // Whoever takes slots does not wait for more.
    let slot = pool.alloc(Len::new(32), code).unwrap();
    assert!(are_traps(slot.range()) && slot.addr() == slab.start());
    let left = next.block().room(0).start().distance_from(slab.start()) as u64 - u64::from(FORM.shared);
    assert!(are_traps(CodeRange::new(slab.start(), left).unwrap()));
}

#[test]
fn a_room_that_is_freed_traps_and_is_used_again() {
    let (pool, _placed, code) = pool();
    let (first, second) = (room(&pool, code), room(&pool, code));
    let (range, neighbour) = (first.slot.range(), second.slot.range());
    let traps = bytes(&pool, range);
    for slot in [&first.slot, &second.slot] {
        pool.fill(slot, &[0x22; 24]).unwrap();
    }
    assert_ne!(bytes(&pool, range), traps);
    let retired = first.slot.retire();
    // SAFETY: no thread is in it.
    let proof = unsafe { GracePeriod::promise() };
    pool.free(retired, &proof).unwrap();
    assert_eq!(
        (bytes(&pool, range), bytes(&pool, neighbour)),
        (traps, vec![0x22; 24])
    );
    assert_eq!(room(&pool, code).slot.range(), range);
    assert_eq!(room(&pool, code).number, 2);
}

#[test]
fn a_room_is_freed_with_a_proof_about_it_only() {
    // In a process of its own, as other tests hold threads.
    assert!(in_child(|| {
        let (pool, _placed, code) = pool();
        // SAFETY: no thread executes the rooms.
        let world = unsafe { crate::publish::SignalWorld::new() }.unwrap();
        let [one, two] = [room(&pool, code).slot.retire(), room(&pool, code).slot.retire()];
        let proof = world.grace_period(&[one.range()]).unwrap();
        let refused = matches!(pool.free(two, &proof), Err(Error::NoGracePeriod { .. }));
        refused && pool.free(one, &proof).is_ok() && pool.stats().slots == 1
    }));
}

#[test]
fn a_block_goes_with_its_last_room_unless_it_is_the_only_one() {
    let (pool, _placed, code) = pool();
    let first = room(&pool, code);
    let (block, count) = of(&first);
    let rest: Vec<Room> = (1..count).map(|_| room(&pool, code)).collect();
    let other = room(&pool, code);
    assert!(of(&other).0 != block && pool.rooms(FORM, code, 1).unwrap().is_some());
    let held = Arc::clone(&first.block);
    for room in rest {
        pool.discard(room.slot);
    }
    assert!(Arc::strong_count(&held) > 2);
    let shared = CodeRange::new(block.start(), FORM.shared.into()).unwrap();
    assert_eq!(bytes(&pool, shared), [0x11; 32]);
    pool.discard(first.slot);
    drop(first.block);
    assert_eq!(Arc::strong_count(&held), 1, "the pool has dropped it");
    assert_ne!(bytes(&pool, shared), [0x11; 32]);
    // Its bytes can be had again.
    let whole = Len::new(block.len() as u32);
    assert_eq!(pool.alloc(whole, code).unwrap().len(), whole);
    // The other is the last one.
    let held = Arc::clone(&other.block);
    pool.discard(other.slot);
    assert_eq!(
        Arc::strong_count(&held),
        3,
        "the pool, this, and what `other` has left"
    );
}

#[test]
fn a_block_for_many_has_rooms_for_them_up_to_a_length() {
    let made = |wanted: usize| {
        let (pool, _placed, code) = pool();
        let make = |_: CodeRange, count: u32| (vec![0x11; FORM.shared as usize], count);
        pool.add_block(FORM, code, wanted, make).unwrap();
        // All are taken at once.
        let rooms = pool.rooms(FORM, code, usize::MAX).unwrap().unwrap();
        assert_eq!(rooms.block().owner::<u32>(), Some(&(rooms.len() as u32)));
        (rooms.len(), pool.stats().reserved)
    };
    let (few, slab) = made(0);
    assert_eq!(
        [few - 1, few, few + 1, 1000, 4000].map(|wanted| made(wanted).0),
        [few, few, few + 1, 1000, 4000]
    );
    let longest = 4 * slab;
    let most = (longest - u64::from(FORM.shared)) / u64::from(FORM.room);
    assert_eq!(made(100_000), (most as usize, longest));
}

#[test]
fn rooms_of_another_form_or_out_of_reach_are_of_other_blocks() {
    let (pool, _placed, code) = pool();
    let first = room(&pool, code);
    let wider = BlockForm { room: 32, ..FORM };
    assert!(pool.rooms(wider, code, 1).unwrap().is_none());
    let far = CodeAddr::new(code.start().get() ^ (1 << 40));
    let far = CodeRange::new(far, 64).unwrap();
    assert!(pool.rooms(FORM, far, 1).unwrap().is_none());
    // A slot that is no room of its block is nobody's.
    let start = CodeAddr::new(first.slot.addr().get() + 8);
    let inside = CodeRange::new(start, FORM.room.into()).unwrap();
    assert!(pool.blocks_of(inside).is_err());
    let longer = pool.add_block(FORM, code, 0, |_, _| (vec![0; 33], ()));
    assert!(matches!(longer, Err(Error::OutsideMemory { .. })));
    assert_eq!(pool.stats().slots, 1);
}

/// In whatever order they were freed.
#[test]
fn rooms_that_are_filled_together_lie_side_by_side() {
    let (pool, _placed, code) = pool();
    let used: Vec<Room> = (0..8).map(|_| room(&pool, code)).collect();
    for number in [4, 1, 6, 2] {
        pool.discard(used[number].block.slot(number as u32));
    }
    let mut taken = rooms(&pool, code, 4);
    let mut side_by_side = |most| {
        let numbers = |rooms: EmptyRooms<'_>| {
            let at = |number| used[0].block.slot(number).addr();
            let found = rooms.map(|room| (room.number(), room.at() == at(room.number())));
            found.collect::<Vec<_>>()
        };
        taken.take_side_by_side(most, numbers).unwrap().0
    };
    assert_eq!(side_by_side(3), [(1, true), (2, true)]);
    assert_eq!(side_by_side(2), [(4, true)]);
    assert_eq!(side_by_side(1), [(6, true)]);
}

#[test]
fn rooms_that_are_taken_together_are_of_one_block_and_come_back_unused() {
    let (pool, _placed, code) = pool();
    let mut taken = rooms(&pool, code, 10);
    assert_eq!((taken.len(), pool.stats().slots), (10, 10));
    assert!(taken.are_for(FORM, code, &pool));
    let used = taken.take_side_by_side(5, |rooms| {
        let all = rooms.len();
        (all, rooms.take(4).map(|room| room.number()).collect())
    });
    assert_eq!(used.unwrap(), ((5, vec![0, 1, 2, 3]), 4), "one was not taken out");
    let before = pool.stats();
    pool.give_rooms(&taken).unwrap();
    let after = pool.stats();
    let unused = 6 * u64::from(FORM.room);
    assert_eq!((after.slots, after.in_use), (4, before.in_use - unused));
    assert_eq!(after.reclaimed, before.reclaimed, "they were never in use");
    // The next who takes some gets those first.
    assert_eq!(room(&pool, code).number, 4);
    // No more than the block has, which another then goes on with.
    let (_, count) = of(&room(&pool, code));
    let rest = rooms(&pool, code, 1 << 20);
    assert_eq!(rest.len(), count as usize - 6);
    assert!(!Arc::ptr_eq(rooms(&pool, code, 1).block(), rest.block()));
}

#[test]
fn rooms_are_for_code_in_their_reach_and_of_their_form() {
    let (pool, _placed, code) = pool();
    let taken = rooms(&pool, code, 2);
    let far = CodeRange::new(CodeAddr::new(code.start().get() + (3 << 31)), 16).unwrap();
    assert!(taken.are_for(FORM, code, &pool) && !taken.are_for(FORM, far, &pool));
    let longer = BlockForm { room: 32, ..FORM };
    assert!(!taken.are_for(longer, code, &pool));
}
