//! What a megamorphic site looks up in the shared cache, and what of an entry can be kept there.
//!
//! A shared entry has one word for the action: where in the object the field is, or the result. All
//! else that an entry says is in the code of the probe, so an entry fits a probe only if it says
//! the same.

use smallvec::SmallVec;

use super::entry::{Act, Boxing, Entry, FieldAt, Guard, Pointer, Test};
use crate::arch::{Extension, Width};
use crate::sequence::{Field, Mem, Operand, Source};

/// What a megamorphic site looks up in the shared cache: a class and the site's selector (the
/// property or method that it asks for), and what it does with the word that it finds.
///
/// Sites whose probes are equal use each other's entries, whatever registers they have their values
/// in. An [`Entry`] that a lookup hands over
/// goes into the shared cache if its guards are those of the probe and one that the class is equal
/// to something, and its action is the probe's.
///
/// A probe needs two free registers, on POWER three. At an `anyregcc` site of x86-64 and POWER one
/// of them is the result's, so that cannot be an argument's too. A site that lacks one is refused a
/// probe ([`Cache::last_refusal`](super::Cache::last_refusal) says so), and does what a megamorphic
/// site without one does.
///
/// ```
/// use patchpoint::ic::{Action, Caches, Entry, Guard, Learn, Pointer, Probe};
/// use patchpoint::sequence::{Field, arg};
///
/// // Objects have a 32-bit shape at 8. All sites read a property, which is their ID.
/// let caches = Caches::builder()
///     .shared_cache(4096, |site| {
///         Some(Probe::load::<u64>(site.id().get(), u32::at(arg(0), 8), arg(0)))
///     })
///     .lookup(|_| {
///         // This is an entry that such probes can have.
///         Learn::Entry(
///             Entry::new(Action::load::<u64>(Pointer::plain(arg(0)), 24))
///                 .guard(Guard::equal(u32::at(arg(0), 8), 0x17)),
///         )
///     });
/// # drop(caches);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Probe {
    selector: u64,
    pub(super) guards: SmallVec<[Guard; 1]>,
    pub(super) class: Source,
    pub(super) action: ProbeAction,
}

/// What is done with the word that is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ProbeAction {
    /// It is how far behind the object's address the field is that is the result. The field is the
    /// one at 0.
    Load { object: Operand, field: Mem },
    /// It is the result.
    Constant,
}

/// What is kept of an entry in the shared cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) class: u64,
    pub(super) word: u64,
}

impl Probe {
    /// The result is a field of the object that is at `object`: an entry says how far behind.
    #[must_use]
    pub fn load<F: Field>(
        selector: impl Into<u64>,
        class: impl Into<Source>,
        object: impl Into<Operand>,
    ) -> Self {
        let (object, field) = (object.into(), F::at(Operand::Imm(0), 0));
        Self::new(selector, class, ProbeAction::Load { object, field })
    }

    /// The result is a constant, which an entry has.
    #[must_use]
    pub fn constant(selector: impl Into<u64>, class: impl Into<Source>) -> Self {
        Self::new(selector, class, ProbeAction::Constant)
    }

    fn new(selector: impl Into<u64>, class: impl Into<Source>, action: ProbeAction) -> Self {
        Self {
            selector: selector.into(),
            guards: SmallVec::new(),
            class: class.into(),
            action,
        }
    }

    /// Looks only where this holds, else misses: that a value is an object at all. Guards are
    /// tested in order, before the class is read.
    #[must_use]
    pub fn guard(mut self, guard: Guard) -> Self {
        self.guards.push(guard);
        self
    }

    /// Width and extension of the class's word.
    pub(super) fn class_type(&self) -> (Width, Extension) {
        self.class.read_as().unwrap_or((Width::B8, Extension::Zero))
    }

    /// What the shared cache keeps of the entry; `None` if the entry says something else than this
    /// probe.
    pub(super) fn keeps(&self, entry: &Entry) -> Option<Kept> {
        let word = match (&entry.action().0, self.action) {
            (Act::Constant(value), ProbeAction::Constant) => *value,
            (
                Act::Load { from, field },
                ProbeAction::Load {
                    object,
                    field: probed,
                },
            ) => {
                let by = field.disp_of(*from)?;
                let same = from.value == object && field.of_type() == probed;
                same.then_some(i64::from(by) as u64)?
            }
            _ => return None,
        };
        // protection: shared-entries-have-the-guards-of-the-probe
        let (last, before) = entry.guards().split_last()?;
        (before == self.guards.as_slice()).then_some(())?;
        let (compared, to) = match &last.0 {
            Test::Equal { value, to } => (*value, *to),
            Test::FieldEqual { pointer, field, to } => {
                let by = field.disp_of(*pointer)?;
                (field.of_type().of(pointer.value, by)?.into(), *to)
            }
            _ => return None,
        };
        (compared == self.class).then_some(())?;
        let class = self.class_as_read(to)?;
        Some(Kept { class, word })
    }

    /// The 64 bits that a register has that the class was read into; `None` if no class is this.
    fn class_as_read(&self, class: u64) -> Option<u64> {
        let (width, extension) = self.class_type();
        let signed = width.sign_extend(class)? as u64;
        let unused = 64 - 8 * u32::from(width.bytes());
        Some(match extension {
            Extension::Sign => signed,
            Extension::Zero => signed << unused >> unused,
        })
    }
}

impl FieldAt {
    /// How far behind the pointer's value the field is; `None` if the value has to be taken apart
    /// first.
    fn disp_of(self, pointer: Pointer) -> Option<i32> {
        match pointer.boxing {
            Boxing::Plain => Some(self.disp()),
            Boxing::Tagged(tag) => self.disp().checked_sub(tag),
            Boxing::Boxed(_) => None,
        }
    }
}
