use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::gc_map::Writer;
use crate::addr::{CodeAddr, DwarfReg};
use crate::error::Error;
use crate::metadata::{GcMap, ReturnSlot, RootKind, SafepointFrame, Safepoints, StackMemory};
use crate::testing::{constant, direct, indirect, map, record, reg};
use crate::{Endian, StackMaps, StackSize};

const SP: DwarfReg = DwarfReg::new(7);

/// A stack that can be read where it has words.
struct Stack(BTreeMap<u64, u64>);

impl StackMemory for Stack {
    fn read(&self, addr: u64) -> Option<u64> {
        self.0.get(&addr).copied()
    }

    fn write(&mut self, addr: u64, word: u64) -> Option<()> {
        self.0.get_mut(&addr).map(|old| *old = word)
    }
}

/// `inner` at 0x1010 has a frame of 3 words with a root in the second; `outer` at 0x2020 one of 2
/// words with roots in both.
fn table() -> Safepoints {
    let bytes = Writer::map(
        Endian::Little,
        &[
            (0x2000, 2, 0, &[0x2020, 0x2008], &[(0, 3), (8, 1)]),
            (0x1000, 3, 0, &[0x1010], &[(8, 3)]),
            (0x3000, -1, 0, &[0x3004], &[(0, 3)]),
        ],
        &[0x9000],
    );
    Safepoints::from_gc_map(&GcMap::parse(&bytes, Endian::Little).unwrap()).unwrap()
}

/// From 0x100: the frame of `inner`, its return address, that of `outer`, and its.
fn stack() -> Stack {
    let words = [1, 0x50, 3, 0x2020, 0x60, 0x70, 0x7777];
    Stack(
        (0..)
            .zip(words)
            .map(|(index, word)| (0x100 + index * 8, word))
            .collect(),
    )
}

fn roots(frame: &SafepointFrame<'_>, stack: &Stack) -> Vec<u64> {
    let read = |root| frame.read(root, stack).unwrap();
    frame.safepoint().roots().map(read).collect()
}

#[test]
fn frames_are_found_by_their_sizes() {
    let (table, stack) = (table(), stack());
    assert_eq!((table.len(), table.globals()), (4, &[CodeAddr::new(0x9000)][..]));
    let mut frames = table.walk(CodeAddr::new(0x1010), 0x100, ReturnSlot::X86_64);
    let inner = frames.next(&stack).unwrap().unwrap();
    assert_eq!(
        (inner.stack_pointer(), roots(&inner, &stack)),
        (0x100, [0x50].to_vec())
    );
    let outer = frames.next(&stack).unwrap().unwrap();
    assert_eq!(
        (outer.stack_pointer(), roots(&outer, &stack)),
        (0x120, [0x60, 0x70].to_vec())
    );
    assert_eq!(outer.safepoint().roots().nth(1).unwrap().kind, RootKind::Trait);
    assert!(frames.next(&stack).unwrap().is_none());
    assert_eq!(
        (frames.outside().get(), frames.stack_pointer()),
        (0x7777, Some(0x138))
    );
    assert!(table.at(CodeAddr::new(0x2021)).is_none());
}

#[test]
fn a_return_address_in_the_callers_frame() {
    let words = [1, 2, 3, 0x60, 0x70, 0x2020, 5, 0x7777];
    let stack = Stack(
        (0..)
            .zip(words)
            .map(|(index, word)| (0x100 + index * 8, word))
            .collect(),
    );
    let table = table();
    let mut frames = table.walk(CodeAddr::new(0x1010), 0x100, ReturnSlot::POWERPC64);
    frames.next(&stack).unwrap().unwrap();
    let outer = frames.next(&stack).unwrap().unwrap();
    assert_eq!(
        (outer.stack_pointer(), roots(&outer, &stack)),
        (0x118, [0x60, 0x70].to_vec())
    );
}

#[test]
fn a_stack_that_ends_and_a_frame_of_unknown_size() {
    let table = table();
    let mut frames = table.walk(CodeAddr::new(0x1010), 0x118, ReturnSlot::X86_64);
    let cut = frames.next(&Stack(BTreeMap::new())).map(|_| ());
    assert!(
        matches!(cut, Err(Error::SafepointStack { addr: 0x130, .. })),
        "{cut:?}"
    );
    let mut frames = table.walk(CodeAddr::new(0x1010), u64::MAX - 8, ReturnSlot::X86_64);
    assert!(matches!(frames.next(&stack()), Err(Error::SafepointStack { .. })));

    let mut frames = table.walk(CodeAddr::new(0x3004), 0x120, ReturnSlot::X86_64);
    let frame = frames.next(&stack()).unwrap().unwrap();
    assert_eq!(frame.safepoint().stack_size(), StackSize::Unknown);
    assert_eq!(roots(&frame, &stack()), [0x60]);
    let further = frames.next(&stack()).map(|_| ());
    assert!(
        matches!(further, Err(Error::SafepointFrame { .. })),
        "{further:?}"
    );
}

fn statepoints(bytes: &[u8]) -> Result<Safepoints, Error> {
    let maps = StackMaps::parse(bytes, Endian::Little).unwrap();
    Safepoints::from_statepoints(&maps, SP, |addr| (addr.get() != 0xdead).then_some(addr))
}

/// A statepoint with two references, one of them twice and with a pointer into it, a null, and a
/// slot.
fn statepoint() -> Vec<u8> {
    let header = record(1)
        .at(0x10)
        .location(constant(0))
        .location(constant(0))
        .location(constant(1));
    let references = header
        .location(reg(3, 8))
        .location(indirect(7, 8, 8))
        .location(indirect(7, 16, 8))
        .location(indirect(7, 8, 8))
        .location(indirect(7, 8, 8))
        .location(constant(0))
        .location(constant(0))
        .location(indirect(7, 24, 8))
        .location(indirect(7, 24, 8));
    let other = record(2).at(0x20).location(reg(0, 8));
    map()
        .function(0x4000, 40, [references.location(direct(7, 32)), other])
        .bytes()
}

#[test]
fn statepoints_make_the_same_table() {
    let table = statepoints(&statepoint()).unwrap();
    assert_eq!(table.len(), 1);
    let safepoint = table.at(CodeAddr::new(0x4010)).unwrap();
    assert_eq!(safepoint.stack_size(), StackSize::Known(40));
    let found: Vec<_> = safepoint.roots().map(|root| (root.offset, root.base)).collect();
    assert_eq!(found, [(8, None), (16, Some(8)), (24, None), (32, None)]);
}

#[test]
fn derived_pointers_keep_their_distance() {
    let table = statepoints(&statepoint()).unwrap();
    let words = [0, 0x500, 0x518, 0x600, 0x700, 0x7777];
    let mut stack = Stack((0..).zip(words).map(|(index, word)| (index * 8, word)).collect());
    let mut frames = table.walk(CodeAddr::new(0x4010), 0, ReturnSlot::X86_64);
    let frame = frames.next(&stack).unwrap().unwrap();
    let mut asked = Vec::new();
    let moved = |_, object: u64| {
        asked.push(object);
        object + 0x1000
    };
    frame.update(&mut stack, moved).unwrap();
    let now: Vec<_> = stack.0.values().copied().collect();
    assert_eq!(now, [0, 0x1500, 0x1518, 0x1600, 0x1700, 0x7777]);
    assert_eq!(asked, [0x500, 0x600, 0x700]);

    // A word that is not there: nothing has been written.
    stack.0.remove(&32);
    let cut = frame.update(&mut stack, |_, _| 0);
    assert!(
        matches!(cut, Err(Error::SafepointStack { addr: 32, .. })),
        "{cut:?}"
    );
    assert!(stack.0.values().all(|word| *word == 0 || *word > 0x1000));
}

#[test]
fn what_the_stack_pointer_does_not_find_is_refused() {
    let with = |location| {
        let header = record(9)
            .location(constant(0))
            .location(constant(0))
            .location(constant(0));
        let pair = header.location(location).location(indirect(7, 8, 8));
        statepoints(&map().function(0x4000, 8, [pair]).bytes())
    };
    for location in [reg(3, 8), indirect(6, -8, 8)] {
        let refused = with(location);
        assert!(
            matches!(&refused, Err(Error::SafepointRoot { id, .. }) if id.get() == 9),
            "{refused:?}"
        );
    }
    // A function that has not been kept.
    let bytes = map()
        .function(
            0xdead,
            8,
            [record(1)
                .location(constant(0))
                .location(constant(0))
                .location(constant(0))],
        )
        .bytes();
    assert!(statepoints(&bytes).unwrap().is_empty());
}

#[test]
fn two_safepoints_at_one_address_are_refused_and_tables_are_merged() {
    let (gc, statepoints) = (table(), statepoints(&statepoint()).unwrap());
    let both = gc.merged(&statepoints).unwrap();
    assert_eq!(both.len(), gc.len() + statepoints.len());
    let of = |table: &Safepoints, pc| table.at(CodeAddr::new(pc)).unwrap().roots().collect::<Vec<_>>();
    assert_eq!(of(&both, 0x4010), of(&statepoints, 0x4010));
    assert_eq!(of(&both, 0x2020), of(&gc, 0x2020));
    let twice = both.merged(&gc).map(|_| ());
    assert!(matches!(twice, Err(Error::SafepointTwice { .. })), "{twice:?}");
}
