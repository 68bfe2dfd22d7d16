//! What can be cached: every guard and action, on values that meet it and values that just do not.

use super::*;
use crate::Error;
use crate::sequence::{Sequence, result, temp};

/// What the lookup sets as result: the mark of a miss.
const MISSED: u64 = 0xdead;

/// A cache whose lookup hands over this entry and sets the mark.
fn lab(entry: Entry) -> Lab {
    let caches = Caches::builder().lookup(move |miss| {
        miss.set_result(MISSED).unwrap();
        Learn::Entry(entry.clone())
    });
    Lab::with(Arc::default(), caches, false)
}

fn constant(guard: Guard) -> Entry {
    Entry::new(Action::constant(7)).guard(guard)
}

/// The first call misses and learns; then `hits` are served and `misses` are not.
fn expect(entry: Entry, hits: &[(u64, u64)], misses: &[u64]) {
    let lab = lab(entry);
    assert_eq!(lab.call_word(hits[0].0), MISSED);
    assert_eq!(lab.cache.last_refusal(), None);
    assert_eq!(lab.cache.state(), CacheState::Monomorphic);
    for (word, result) in hits {
        assert_eq!(lab.call_word(*word), *result, "{word:#x}");
    }
    for word in misses {
        assert_eq!(lab.call_word(*word), MISSED, "{word:#x}");
    }
}

#[test]
fn small_integers_and_tags_in_low_bits() {
    let odd = constant(Guard::masked(arg(0), 1, 1));
    expect(odd, &[(5, 7), (u64::MAX, 7)], &[0, 4, u64::MAX - 1]);
    let byte = constant(Guard::masked(arg(0), 0xff, 0x42));
    expect(byte, &[(0x42, 7), (0x1_0042, 7)], &[0x43, 0x4200]);
    // The value of a small integer: two operations of the runtime's own.
    let untagged = Entry::new(Action::custom(|sequence| {
        sequence.mov(result(), arg(0)).shift_right_signed(result(), 1)
    }))
    .guard(Guard::masked(arg(0), 1, 1));
    expect(untagged, &[(85, 42), (-83i64 as u64, -42i64 as u64)], &[84]);
}

#[test]
fn values_in_the_high_bits() {
    let boxed_int = constant(Guard::high_bits(arg(0), 48, 0xfff9));
    expect(
        boxed_int,
        &[(0xfff9 << 48, 7), (0xfff9_0000_0000_0001, 7)],
        &[0, 0xfffa << 48, 0x7ff9 << 48],
    );
}

#[test]
fn pointers_plain_tagged_and_boxed() {
    let object = Object::new(3, [11, 22, 33, 44]);
    let at = &raw const object as u64;
    let other = Object::new(4, [0; 4]);
    let wrong = &raw const other as u64;
    let plain = Pointer::plain(arg(0));
    let by_shape = |pointer| {
        Entry::new(Action::load::<u64>(pointer, value_at(1))).guard(Guard::field::<u32>(pointer, SHAPE, 3))
    };
    expect(by_shape(plain), &[(at, 22)], &[wrong]);
    let tagged = Pointer::tagged(arg(0), 5);
    let entry = Entry::new(Action::load::<u32>(tagged, low_at(2, 4)))
        .guard(Guard::masked(arg(0), 7, 5))
        .guard(Guard::field::<u32>(tagged, SHAPE, 3));
    expect(entry, &[(at + 5, 33)], &[at, at + 1, wrong + 5]);
    let kind = 0xfffb << 48;
    let entry = by_shape(Pointer::boxed(arg(0), 48));
    expect(entry, &[(at | kind, 22), (at, 22)], &[wrong | kind]);
}

#[test]
fn a_class_behind_an_indirection_and_a_property_out_of_line() {
    let classes = [[1u64, 100], [2u64, 100]];
    let mut object = Object::new(0, [5, 6, 7, 8]);
    object.class = classes[0].as_ptr() as u64;
    let mut other = Object::new(0, [5, 6, 7, 8]);
    other.class = classes[1].as_ptr() as u64;
    let pointer = Pointer::plain(arg(0));
    let guard = Guard::through::<u64>(pointer, 0, 0, 1);
    let (at, wrong) = (&raw const object as u64, &raw const other as u64);
    let entry = Entry::new(Action::load_through::<u64>(pointer, 0, 8)).guard(guard);
    expect(entry, &[(at, 100)], &[wrong]);
}

#[test]
fn stores() {
    let mut object = Object::new(3, [0; 4]);
    let at = &raw mut object as u64;
    let pointer = Pointer::plain(arg(0));
    let entry = Entry::new(Action::store::<u16>(pointer, low_at(1, 2), 0x1234u16))
        .guard(Guard::field::<u32>(pointer, SHAPE, 3));
    let lab = lab(entry);
    assert_eq!(lab.call_word(at), MISSED);
    // SAFETY: the object is alive; compiled code writes it behind the compiler's back.
    let read = || unsafe { (at as *const Object).read_volatile().values };
    assert_eq!(read(), [0; 4]);
    lab.call_word(at);
    assert_eq!(read(), [0, 0x1234, 0, 0]);
}

#[test]
fn an_entry_that_the_site_refuses_is_not_tried_again_and_again() {
    // There is one argument.
    let lab = lab(constant(Guard::equal(arg(1), 0)));
    for _ in 0..16 {
        assert_eq!(lab.call_word(0), MISSED);
    }
    assert!(matches!(
        lab.cache.last_refusal(),
        Some(Error::Assemble(crate::sequence::Error::NoSuchOperand { .. }))
    ));
    let stats = lab.stats();
    assert_eq!((stats.refused, stats.installed, stats.misses), (5, 0, 16));
    assert_eq!(lab.cache.state(), CacheState::Uninitialized);
}

#[test]
fn fields_out_of_reach_are_refused() {
    let entry = Entry::new(Action::load::<u64>(Pointer::tagged(arg(0), 9), i32::MIN));
    let lab = lab(entry);
    assert_eq!(lab.call_word(0), MISSED);
    assert!(matches!(lab.cache.last_refusal(), Some(Error::CacheField { .. })));
}

#[test]
fn entries_say_what_they_are() {
    let entry = Entry::new(Action::custom(|sequence: Sequence| sequence.mov(temp(), 1))).depends_on(3);
    assert!(format!("{entry:?}").contains("custom"));
}

#[test]
fn hits_are_counted_where_a_guard_takes_the_free_register() {
    for counting in [Counting::Plain, Counting::Atomic] {
        let entry = constant(Guard::masked(arg(0), 7, 5));
        let caches = Caches::builder().counting(counting).lookup(move |miss| {
            miss.set_result(MISSED).unwrap();
            Learn::Entry(entry.clone())
        });
        let lab = Lab::with(Arc::default(), caches, false);
        assert_eq!(lab.call_word(5), MISSED);
        assert_eq!(lab.cache.last_refusal(), None);
        assert_eq!((lab.call_word(13), lab.call_word(21)), (7, 7));
        assert_eq!(lab.stats().hits, Some(2));
    }
}
