//! What a cache knows of one shape: guards, and what to do where they hold.

#![allow(unsafe_code, reason = "an address is a promise")]

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::addr::CodeAddr;
use crate::arch::{Extension, OnReturn, Width};
use crate::sequence::{Field, Mem, Operand, Sequence, Source};

/// What an entry depends on: a class, a shape, a global assumption. The runtime chooses the
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

impl Key {
    /// The key of that number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<u64> for Key {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

/// A pointer among the site's values, and how it is made of what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pointer {
    pub(super) value: Operand,
    pub(super) boxing: Boxing,
}

/// What is to be done with a value before it can be dereferenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Boxing {
    Plain,
    /// It is this much too large.
    Tagged(i32),
    /// Only so many low bits are the address.
    Boxed(u8),
}

impl Pointer {
    /// The value is the pointer.
    #[inline]
    #[must_use]
    pub fn plain(value: impl Into<Operand>) -> Self {
        Self {
            value: value.into(),
            boxing: Boxing::Plain,
        }
    }

    /// The value is the pointer plus a tag in its low bits, which a guard has found to be this one.
    /// Taking the tag off costs nothing: it becomes part of displacements.
    #[inline]
    #[must_use]
    pub fn tagged(value: impl Into<Operand>, tag: u8) -> Self {
        Self {
            value: value.into(),
            boxing: Boxing::Tagged(tag.into()),
        }
    }

    /// The low `bits` bits of the value are the pointer, the others say what it is: NaN-boxing.
    /// Needs a register that is free at the site.
    #[must_use]
    pub fn boxed(value: impl Into<Operand>, bits: u8) -> Self {
        Self {
            value: value.into(),
            boxing: Boxing::Boxed(bits.min(64)),
        }
    }
}

/// A field behind an address: its type and its displacement in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FieldAt {
    width: Width,
    extension: Extension,
    disp: i32,
}

impl FieldAt {
    #[inline]
    fn new<F: Field>(disp: i32) -> Self {
        Self {
            width: F::WIDTH,
            extension: F::EXTENSION,
            disp,
        }
    }

    /// The field of the object at `base` plus `by`; `None` beyond 2 GiB.
    pub(super) fn of(self, base: Operand, by: i32) -> Option<Mem> {
        self.of_type().of(base, self.disp.checked_add(by)?)
    }

    /// The field of that type at 0 of nothing.
    pub(super) fn of_type(self) -> Mem {
        let nothing = Operand::Imm(0);
        match (self.width, self.extension) {
            (Width::B1, Extension::Zero) => u8::at(nothing, 0),
            (Width::B1, Extension::Sign) => i8::at(nothing, 0),
            (Width::B2, Extension::Zero) => u16::at(nothing, 0),
            (Width::B2, Extension::Sign) => i16::at(nothing, 0),
            (Width::B4, Extension::Zero) => u32::at(nothing, 0),
            (Width::B4, Extension::Sign) => i32::at(nothing, 0),
            (Width::B8, Extension::Zero) => u64::at(nothing, 0),
            (Width::B8, Extension::Sign) => i64::at(nothing, 0),
        }
    }

    pub(super) fn disp(self) -> i32 {
        self.disp
    }
}

/// What must hold for an entry to apply. The guards of an entry are tested in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Guard(pub(super) Test);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Test {
    /// A value, or memory behind one, is this.
    Equal { value: Source, to: u64 },
    /// A field is this.
    FieldEqual { pointer: Pointer, field: FieldAt, to: u64 },
    /// The field behind a pointer that is a field is this.
    ThroughEqual { pointer: Pointer, at: i32, field: FieldAt, to: u64 },
    /// The bits of a value under the mask are these.
    Masked { value: Operand, mask: u64, to: u64 },
    /// The bits of a value from this one upwards are these.
    High { value: Operand, from: u8, to: u64 },
}

impl Guard {
    /// A value, a part of it, or memory behind it is `to`: a type tag, a shape word, an interned
    /// name.
    #[inline]
    #[must_use]
    pub fn equal(value: impl Into<Source>, to: u64) -> Self {
        Self(Test::Equal {
            value: value.into(),
            to,
        })
    }

    /// The field at `disp` of an object is `to`: its type tag, shape or class.
    #[inline]
    #[must_use]
    pub fn field<F: Field>(pointer: Pointer, disp: i32, to: u64) -> Self {
        Self(Test::FieldEqual {
            pointer,
            field: FieldAt::new::<F>(disp),
            to,
        })
    }

    /// At `at` the object holds a pointer to another, whose field at `disp` is `to`: the shape of
    /// its class. Needs a register that is free at the site.
    #[must_use]
    pub fn through<F: Field>(pointer: Pointer, at: i32, disp: i32, to: u64) -> Self {
        Self(Test::ThroughEqual {
            pointer,
            at,
            field: FieldAt::new::<F>(disp),
            to,
        })
    }

    /// The bits of the value that `mask` has are `to`: the tag of a small integer or of a pointer.
    /// Needs a register that is free at the site, unless the mask is 0xff, 0xffff, 0xffffffff or
    /// all bits.
    #[inline]
    #[must_use]
    pub fn masked(value: impl Into<Operand>, mask: u64, to: u64) -> Self {
        Self(Test::Masked {
            value: value.into(),
            mask,
            to,
        })
    }

    /// The bits of the value from number `from` (0 to 63) upwards are `to`: the kind of a NaN-boxed
    /// value. Needs a register that is free at the site.
    #[must_use]
    pub fn high_bits(value: impl Into<Operand>, from: u8, to: u64) -> Self {
        Self(Test::High {
            value: value.into(),
            from,
            to,
        })
    }
}

/// What an entry does where its guards hold.
#[derive(Clone)]
pub struct Action(pub(super) Act);

#[derive(Clone)]
pub(super) enum Act {
    Load { from: Pointer, field: FieldAt },
    LoadThrough { pointer: Pointer, at: i32, field: FieldAt },
    Store { to: Pointer, field: FieldAt, value: Source },
    Call { target: CodeAddr, on_return: OnReturn },
    Constant(u64),
    Custom(Arc<dyn Fn(Sequence) -> Sequence + Send + Sync>),
}

impl Action {
    /// The result is the field at `disp` of an object, extended as its type says.
    #[inline]
    #[must_use]
    pub fn load<F: Field>(from: Pointer, disp: i32) -> Self {
        let field = FieldAt::new::<F>(disp);
        Self(Act::Load { from, field })
    }

    /// At `at` the object holds a pointer to another; the result is the field at `disp` of that
    /// one: a property that is kept out of line, or in a prototype.
    #[inline]
    #[must_use]
    pub fn load_through<F: Field>(pointer: Pointer, at: i32, disp: i32) -> Self {
        let field = FieldAt::new::<F>(disp);
        Self(Act::LoadThrough { pointer, at, field })
    }

    /// The field at `disp` of an object becomes the value.
    #[inline]
    #[must_use]
    pub fn store<F: Field>(to: Pointer, disp: i32, value: impl Into<Source>) -> Self {
        Self(Act::Store {
            to,
            field: FieldAt::new::<F>(disp),
            value: value.into(),
        })
    }

    /// Calls a method with the site's arguments, where they are: a C function at a site with the C
    /// convention; at an `anyregcc` site only code that preserves every register but the result.
    ///
    /// # Safety
    /// As for [`Sequence::call`]; for as long as a cache has the entry, and until the stubs that it had by then are freed.
    #[must_use]
    pub unsafe fn call(target: CodeAddr, on_return: OnReturn) -> Self {
        Self::call_to(target, on_return)
    }

    /// The same for who has that promise from its caller.
    pub(super) fn call_to(target: CodeAddr, on_return: OnReturn) -> Self {
        Self(Act::Call { target, on_return })
    }

    /// The result is a constant.
    #[inline]
    #[must_use]
    pub fn constant(value: u64) -> Self {
        Self(Act::Constant(value))
    }

    /// Appends operations of the runtime's own. They end by going on behind the last one, and
    /// neither bind labels nor branch to [`Target::Miss`](crate::sequence::Target::Miss) after
    /// something has been written.
    #[must_use]
    pub fn custom(append: impl Fn(Sequence) -> Sequence + Send + Sync + 'static) -> Self {
        Self(Act::Custom(Arc::new(append)))
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Act::Load { from, field } => write!(f, "load {field:?} of {from:?}"),
            Act::LoadThrough { pointer, at, field } => {
                write!(f, "load {field:?} behind +{at:#x} of {pointer:?}")
            }
            Act::Store { to, field, value } => write!(f, "store {value:?} to {field:?} of {to:?}"),
            Act::Call { target, on_return } => write!(f, "call {target} ({on_return:?})"),
            Act::Constant(value) => write!(f, "constant {value:#x}"),
            Act::Custom(_) => f.write_str("custom"),
        }
    }
}

/// One entry of a cache. It never changes once it has been handed over. A clone shares what it has.
#[derive(Clone, Debug)]
pub struct Entry(Arc<Parts>);

/// What an entry has.
#[derive(Clone, Debug)]
struct Parts {
    guards: SmallVec<[Guard; 2]>,
    action: Action,
    keys: SmallVec<[Key; 2]>,
}

impl Entry {
    /// An entry that always applies, until it gets guards.
    #[inline]
    #[must_use]
    pub fn new(action: Action) -> Self {
        Self(Arc::new(Parts {
            guards: SmallVec::new(),
            action,
            keys: SmallVec::new(),
        }))
    }

    /// Applies only where this holds too.
    #[inline]
    #[must_use]
    pub fn guard(mut self, guard: Guard) -> Self {
        Arc::make_mut(&mut self.0).guards.push(guard);
        self
    }

    /// Is valid only until the key is [retracted](super::Caches::retract).
    #[inline]
    #[must_use]
    pub fn depends_on(mut self, key: impl Into<Key>) -> Self {
        Arc::make_mut(&mut self.0).keys.push(key.into());
        self
    }

    /// What must hold, in the order in which it is tested.
    #[inline]
    pub(super) fn guards(&self) -> &[Guard] {
        &self.0.guards
    }

    /// What it does then.
    #[inline]
    pub(super) fn action(&self) -> &Action {
        &self.0.action
    }

    /// What it depends on.
    #[inline]
    pub(super) fn keys(&self) -> &[Key] {
        &self.0.keys
    }

    /// Whether it is the same entry, not one like it.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether both apply to the same values, as far as can be seen.
    pub(super) fn serves_the_same(&self, other: &Self) -> bool {
        self.guards() == other.guards()
    }
}
