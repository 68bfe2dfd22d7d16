//! Lookups that are C functions. What C would be compiled to is here what Rust is.

use core::ffi::c_void;

use super::*;
use crate::deopt::CFunction;

/// The data of the lookup.
struct Data {
    place: usize,
    action: u32,
    calls: AtomicU64,
}

unsafe extern "C" fn lookup(data: *mut c_void, miss: *mut CMiss) {
    // SAFETY: `lab` and the caches pass both.
    let (data, miss) = unsafe { (&*data.cast::<Data>(), &mut *miss) };
    data.calls.fetch_add(1, Ordering::Relaxed);
    assert_eq!((miss.call.id, miss.call.result), (GET, 0));
    // SAFETY: so many are there.
    let args = unsafe { core::slice::from_raw_parts(miss.call.args, miss.call.arg_count) };
    let [object] = args else {
        panic!("{args:?}");
    };
    // SAFETY: the tests pass objects.
    let object = unsafe { &*(*object as *const Object) };
    miss.call.result = object.values[data.place];
    miss.entry = CEntry {
        action: data.action,
        guard_size: 4,
        guard_at: SHAPE,
        guard_value: object.shape.into(),
        field_at: value_at(data.place),
        field_size: 8,
        value: 77,
        key: u64::from(object.shape) + 1,
    };
}

fn lab(data: &'static Data) -> Lab {
    let data = std::ptr::from_ref(data).cast_mut().cast();
    // SAFETY: the function takes such data, which stays and is shared.
    let function = unsafe { CFunction::new(lookup, data) };
    Lab::with(Arc::default(), Caches::builder().lookup_by(function), false)
}

fn data(action: u32) -> &'static Data {
    Box::leak(Box::new(Data {
        place: 2,
        action,
        calls: AtomicU64::new(0),
    }))
}

#[test]
fn a_c_function_gives_the_result_and_what_to_cache() {
    let data = data(CEntry::LOAD);
    let lab = lab(data);
    for shape in [1, 2, 1, 2] {
        let object = Object::new(shape, [5, 6, 7 + u64::from(shape), 8]);
        let found = lab.call_word(&raw const object as u64);
        assert_eq!(found, 7 + u64::from(shape));
    }
    assert_eq!(data.calls.load(Ordering::Relaxed), 2);
    assert_eq!(lab.cache.state(), CacheState::Polymorphic);
    assert_eq!(lab.caches.retract(&[Key::new(2)]).unwrap().caches, 1);
    assert_eq!(lab.cache.entries().len(), 1);
}

#[test]
fn a_constant_of_a_c_function_is_the_result() {
    let data = data(CEntry::CONSTANT);
    let lab = lab(data);
    let object = Object::new(1, [5, 6, 7, 8]);
    let call = || lab.call_word(&raw const object as u64);
    assert_eq!([call(), call()], [7, 77]);
    assert_eq!(data.calls.load(Ordering::Relaxed), 1);
}

#[test]
fn an_action_that_there_is_not_learns_nothing() {
    for action in [CEntry::NOTHING, 9] {
        let data = data(action);
        let lab = lab(data);
        let object = Object::new(1, [5, 6, 7, 8]);
        let call = || lab.call_word(&raw const object as u64);
        assert_eq!([call(), call()], [7, 7]);
        assert_eq!(data.calls.load(Ordering::Relaxed), 2);
        assert_eq!(lab.cache.state(), CacheState::Uninitialized);
    }
}

/// What a C header would say of their layout.
#[test]
fn the_records_are_laid_out_as_their_declarations_say() {
    use core::mem::offset_of;
    let word = size_of::<usize>();
    assert_eq!(offset_of!(CMiss, call.arg_count), 16 + word);
    assert_eq!(offset_of!(CMiss, entry), 24 + 2 * word);
    assert_eq!(
        [
            offset_of!(CEntry, guard_at),
            offset_of!(CEntry, guard_value),
            offset_of!(CEntry, field_size)
        ],
        [8, 16, 40]
    );
}
