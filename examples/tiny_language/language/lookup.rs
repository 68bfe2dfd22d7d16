//! Misses of inline caches: the interpreter's answer, and an entry that knows it the next time.

use patchpoint::ic::{Action, Entry, Guard, Key, Learn, Miss, Pointer, Probe};
use patchpoint::sequence::{Field, Operand, arg};
use patchpoint::site::Site;
use patchpoint::{Error, arch};

use super::bytecode::{FunctionId, Method, Op};
use super::compiled::BytecodePlace;
use super::isolate::Isolate;
use super::object::{ClassId, Name, SHAPE_AT, slot_at};
use super::value::{TAG_BITS, Word};

/// What entries depend on that take a method or constant from a class.
pub(crate) fn class_key(class: ClassId) -> Key {
    Key::new(u64::from(class.0) << 1)
}

/// What entries that go to the compiled code of a function depend on.
pub(crate) fn code_key(function: FunctionId) -> Key {
    Key::new((function as u64) << 1 | 1)
}

/// What a site that has seen many shapes looks up by itself: where a field is.
pub(crate) fn probe(site: &Site) -> Option<Probe> {
    match BytecodePlace::of(site.id())?.op() {
        Op::Get { name, .. } => {
            let shape = u32::at(arg(0), SHAPE_AT);
            let probe = Probe::load::<u64>(name as u64, shape, arg(0));
            Some(probe.guard(Guard::masked(arg(0), TAG_BITS, 0)))
        }
        _ => None,
    }
}

/// Answers a miss.
pub(crate) fn lookup<'f>(miss: &mut Miss<'_, 'f>) -> Learn<'f> {
    try_lookup(miss).expect("the sites are as `Place::shape` says")
}

fn try_lookup<'f>(miss: &mut Miss<'_, 'f>) -> Result<Learn<'f>, Error> {
    let place = *miss
        .frame()
        .description::<BytecodePlace>()
        .expect("every site is described");
    let isolate = Isolate::current();
    let word = |miss: &Miss<'_, 'f>, index| Ok::<_, Error>(Word(miss.arg(index)?.u64().unwrap_or_default()));
    // An entry is made before the operation is done, which may change what it depends on: the
    // caches then see that something was retracted meanwhile, and do not install it.
    let entry = match place.op() {
        Op::Get { name, .. } => {
            let object = word(miss, 0)?;
            miss.set_result(isolate.get(object, name).0)?;
            get(isolate, object, name)
        }
        Op::Set { name, .. } => {
            let (object, value) = (word(miss, 0)?, word(miss, 1)?);
            let entry = set(isolate, object, name);
            isolate.set(object, name, value);
            entry
        }
        Op::Call { method, .. } => {
            let (receiver, argument) = (word(miss, 1)?, word(miss, 2)?);
            let entry = call(isolate, receiver, method);
            let result = isolate.call(receiver, method, argument);
            miss.set_result(result.0)?;
            entry
        }
        _ => None,
    };
    Ok(entry.map_or(Learn::Nothing, Learn::Entry))
}

/// An entry for objects of one shape.
fn of_shape(object: Operand, shape: u32, action: Action) -> Entry {
    Entry::new(action)
        .guard(Guard::masked(object, TAG_BITS, 0))
        .guard(Guard::equal(u32::at(object, SHAPE_AT), shape.into()))
}

fn get(isolate: &Isolate, object: Word, name: Name) -> Option<Entry> {
    let (number, shape) = isolate.shape_of(object)?;
    Some(match shape.slot(name) {
        Some(slot) => {
            let load = Action::load::<u64>(Pointer::plain(arg(0)), slot_at(slot));
            of_shape(arg(0), number, load)
        }
        None => {
            let constant = Action::constant(isolate.constant(shape.class, name).0);
            of_shape(arg(0), number, constant).depends_on(class_key(shape.class))
        }
    })
}

fn set(isolate: &Isolate, object: Word, name: Name) -> Option<Entry> {
    let (number, shape) = isolate.shape_of(object)?;
    let action = match shape.slot(name) {
        Some(slot) => Action::store::<u64>(Pointer::plain(arg(0)), slot_at(slot), arg(1)),
        None => {
            // The object gets the field: its value, and the shape that has it.
            let slot = slot_at(shape.fields.len());
            let new = isolate.runtime().shapes.with(&shape, name);
            Action::custom(move |sequence| {
                sequence
                    .store(u64::at(arg(0), slot), arg(1))
                    .store(u32::at(arg(0), SHAPE_AT), u64::from(new))
            })
        }
    };
    Some(of_shape(arg(0), number, action))
}

/// The arguments of a call are the isolate, the receiver and one more; so they are the callee's.
fn call(isolate: &Isolate, receiver: Word, method: Method) -> Option<Entry> {
    let (number, shape) = isolate.shape_of(receiver)?;
    let function = isolate.method(shape.class, method);
    let entry = isolate.runtime().tiers()?.entry(function)?;
    // SAFETY: compiled functions of the language follow the C convention and take what the site passes. The entry depends on
    // the code, which is unregistered only when no cache refers to it any more.
    let call = unsafe { Action::call(entry.addr(), arch::OnReturn::FollowsC) };
    let entry = of_shape(arg(1), number, call);
    Some(
        entry
            .depends_on(class_key(shape.class))
            .depends_on(code_key(function)),
    )
}
