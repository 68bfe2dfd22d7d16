//! Caches on other sites than reads: calls with the C convention, writes, values on the stack; and
//! what a lookup sees.

use super::*;
use crate::Error;
use crate::addr::CodeAddr;
use crate::arch::OnReturn;
use crate::deopt::{self, ReturnValue};
use crate::sequence::live;
use crate::stackmap::LocationKind;

/// A lab whose lookup also does what `also` does to the miss, with a cache at the first site of
/// that function.
fn lab_at(
    function: &str,
    builder: CachesBuilder,
    lookup: impl for<'f> Fn(&mut Miss<'_, 'f>) -> Learn<'f> + Send + Sync + 'static,
) -> (Lab, Cache) {
    let lab = Lab::with(Arc::default(), builder.lookup(lookup), false);
    let site = lab.module.function(function).unwrap().sites().next().unwrap();
    let cache = lab.caches.attach(&lab.engine, &site).unwrap();
    (lab, cache)
}

fn pointer_to(object: &Object) -> u64 {
    std::ptr::from_ref(object) as u64
}

/// The method: what it is called with, put together.
extern "C" fn combine(object: &Object, a: u64, b: u64) -> u64 {
    object.values[0] + 10 * a + 100 * b
}

#[test]
fn a_method_is_called_with_the_arguments_of_the_site() {
    let (lab, cache) = lab_at("method", Caches::builder(), |miss| {
        let [object, a, b] = [0, 1, 2].map(|n| miss.arg(n).unwrap().u64().unwrap());
        assert_eq!((a, b), (2, 3));
        // Found by calling it, as a runtime does.
        // SAFETY: the test passes objects.
        let result = combine(unsafe { &*(object as *const Object) }, a, b);
        miss.set_result(result).unwrap();
        let target = CodeAddr::new(combine as *const () as u64);
        Learn::Entry(
            Entry::new(Action::call_to(target, OnReturn::FollowsC)).guard(Guard::field::<u32>(
                Pointer::plain(arg(0)),
                SHAPE,
                4,
            )),
        )
    });
    // SAFETY: that is the function's signature in the IR.
    let method: extern "C" fn(&Object, u64, u64) -> u64 =
        unsafe { std::mem::transmute(lab.function("method")) };
    let object = Object::new(4, [7, 0, 0, 0]);
    // What is live across the call is 6.
    assert_eq!(method(&object, 2, 3), 7 + 20 + 300 + 6);
    if Arch::host() == Some(Arch::RiscV64) {
        // A call loses ra, which LLVM does not save where there is only a patchpoint.
        let refusal = cache.last_refusal();
        assert!(
            matches!(
                refusal,
                Some(Error::Assemble(crate::sequence::Error::OverwritesLive { .. }))
            ),
            "{refusal:?}"
        );
        return;
    }
    assert_eq!(
        (cache.state(), cache.last_refusal()),
        (CacheState::Monomorphic, None)
    );
    assert_eq!(method(&object, 2, 3), 7 + 20 + 300 + 6);
    assert_eq!(method(&object, 5, 1), 7 + 50 + 100 + 5);
    assert_eq!(lab.caches.stats(&cache).misses, 1);
}

#[test]
fn a_write_stores_the_argument_of_the_site() {
    let (lab, cache) = lab_at("set", Caches::builder(), |_| {
        let pointer = Pointer::plain(arg(0));
        Learn::Entry(
            Entry::new(Action::store::<u64>(pointer, value_at(2), arg(1)))
                .guard(Guard::field::<u32>(pointer, SHAPE, 4)),
        )
    });
    // SAFETY: that is the function's signature in the IR.
    let set: extern "C" fn(*mut Object, u64) -> u64 = unsafe { std::mem::transmute(lab.function("set")) };
    let mut object = Object::new(4, [1, 2, 3, 4]);
    let mut other = Object::new(5, [1, 2, 3, 4]);
    assert_eq!(set(&raw mut object, 9), 9);
    assert_eq!(object.values, [1, 2, 3, 4], "the lookup has stored nothing");
    assert_eq!((set(&raw mut object, 9), object.values), (9, [1, 2, 9, 4]));
    assert_eq!((set(&raw mut other, 9), other.values), (9, [1, 2, 3, 4]));
    assert_eq!(lab.caches.stats(&cache).misses, 2);
}

/// How many pointers are live at `spilled`, and how far apart.
const SPILLED_POINTERS: u64 = 40;

#[test]
fn values_in_stack_slots_are_read_where_they_are() {
    let (lab, cache) = lab_at("spilled", Caches::builder(), |miss| {
        let object = miss.arg(0).unwrap().u64().unwrap();
        let record = miss.frame().context().record.unwrap();
        let behind = record.locations().skip(2);
        let spilled = behind
            .enumerate()
            .filter(|(_, location)| matches!(location.kind, LocationKind::Indirect { .. }));
        let (index, _) = spilled.last().expect("there are more values than registers");
        let value = miss.frame().live_value(index).unwrap().u64().unwrap();
        assert_eq!(value, object + 8 * (index as u64 + 1));
        miss.set_result(1).unwrap();
        // The object again, from the pointer in the slot.
        let (pointer, back) = (Pointer::plain(live(index as u32)), 8 * (index as i32 + 1));
        Learn::Entry(
            Entry::new(Action::load::<u64>(pointer, value_at(3) - back)).guard(Guard::field::<u32>(
                pointer,
                SHAPE - back,
                4,
            )),
        )
    });
    // SAFETY: that is the function's signature in the IR.
    let spilled: extern "C" fn(&Object) -> u64 = unsafe { std::mem::transmute(lab.function("spilled")) };
    let object = Object::new(4, [1, 2, 3, 4]);
    let sum = (1..=SPILLED_POINTERS)
        .map(|k| pointer_to(&object) + 8 * k)
        .fold(0, u64::wrapping_add);
    assert_eq!(
        spilled(&object).wrapping_sub(sum),
        1,
        "every live value is as it was"
    );
    assert_eq!(
        (cache.state(), cache.last_refusal()),
        (CacheState::Monomorphic, None)
    );
    assert_eq!(spilled(&object).wrapping_sub(sum), 4);
    let other = Object::new(5, [1, 2, 3, 4]);
    spilled(&other);
    assert_eq!(lab.caches.stats(&cache).misses, 2);
}

/// A lookup that may leave the frame has to ask for all of it.
#[test]
fn a_frame_is_left_where_it_is_whole() {
    for whole in [false, true] {
        let builder = match whole {
            true => Caches::builder().whole_frames(),
            false => Caches::builder(),
        };
        let (lab, _) = lab_at("get_twice", builder, move |miss| {
            match miss.frame().return_to_caller(ReturnValue::Int(99)) {
                Ok(answer) => Learn::Leave(answer),
                Err(error) => {
                    assert!(matches!(error, deopt::Error::FrameNotWhole { .. }), "{error}");
                    assert!(!whole);
                    miss.set_result(5).unwrap();
                    Learn::Nothing
                }
            }
        });
        let sites: Vec<_> = lab.module.function("get_twice").unwrap().sites().collect();
        lab.caches.attach(&lab.engine, &sites[1]).unwrap();
        // SAFETY: that is the function's signature in the IR.
        let twice: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(lab.function("get_twice")) };
        assert_eq!(twice(0), if whole { 99 } else { 5 + 3 * 5 });
    }
}
