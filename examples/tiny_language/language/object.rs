//! Objects, and the shapes that say what they have where.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use super::value::Word;

/// The name of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Name {
    Width,
    Height,
    Base,
    Mark,
    Captured,
}

pub(crate) const NAMES: [Name; 5] = [Name::Width, Name::Height, Name::Base, Name::Mark, Name::Captured];

/// An object. Only its isolate's thread uses it.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Object {
    pub(crate) shape: Cell<u32>,
    /// How many objects the isolate made before: what stands for it in results.
    pub(crate) number: Cell<u32>,
    pub(crate) slots: [Cell<Word>; NAMES.len()],
}

impl Object {
    /// Makes it a new one.
    pub(crate) fn begin(&self, shape: u32, number: u32) {
        self.shape.set(shape);
        self.number.set(number);
        self.slots.iter().for_each(|slot| slot.set(Word::NIL));
    }
}

/// Where guards find the shape, in bytes.
pub(crate) const SHAPE_AT: i32 = std::mem::offset_of!(Object, shape) as i32;

/// Where entries find a slot, in bytes.
pub(crate) fn slot_at(slot: usize) -> i32 {
    (std::mem::offset_of!(Object, slots) + slot * size_of::<Word>()) as i32
}

/// Names a class among those of all isolates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClassId(pub(crate) u32);

/// What objects have in common: their class, and which slot each field is in. A shape never
/// changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) class: ClassId,
    pub(crate) fields: Vec<Name>,
}

impl Shape {
    pub(crate) fn slot(&self, name: Name) -> Option<usize> {
        self.fields.iter().position(|field| *field == name)
    }

    fn with(&self, name: Name) -> Self {
        let mut fields = self.fields.clone();
        fields.push(name);
        Self { fields, ..*self }
    }
}

/// The shapes of a runtime, by number.
#[derive(Debug, Default)]
pub(crate) struct Shapes(RwLock<ShapeTable>);

#[derive(Debug, Default)]
struct ShapeTable {
    all: Vec<Arc<Shape>>,
    numbers: HashMap<Shape, u32>,
}

impl Shapes {
    pub(crate) fn get(&self, number: u32) -> Arc<Shape> {
        Arc::clone(&self.0.read().unwrap().all[number as usize])
    }

    /// The number of a shape, which is given one if it is new.
    pub(crate) fn number(&self, shape: Shape) -> u32 {
        if let Some(number) = self.0.read().unwrap().numbers.get(&shape) {
            return *number;
        }
        let mut known = self.0.write().unwrap();
        let next = known.all.len() as u32;
        let number = *known.numbers.entry(shape.clone()).or_insert(next);
        if number == next {
            known.all.push(Arc::new(shape));
        }
        number
    }

    /// The shape that an object gets with one more field.
    pub(crate) fn with(&self, shape: &Shape, name: Name) -> u32 {
        self.number(shape.with(name))
    }
}
