//! The objects of an isolate: where they are, so that whoever executes its compiled code sees them.

use patchpoint::Result;

use super::object::Object;
use super::value::Word;
use crate::host::{Host, SharedValue};

const PER_CHUNK: usize = 64;

/// Objects that stay where they are until all are freed.
pub(crate) struct Heap {
    host: Host,
    chunks: Vec<SharedValue<[Object; PER_CHUNK]>>,
    used: usize,
}

impl Heap {
    pub(crate) fn new(host: &Host) -> Self {
        Self {
            host: host.clone(),
            chunks: Vec::new(),
            used: 0,
        }
    }

    /// An object of a shape, without fields.
    pub(crate) fn create(&mut self, shape: u32) -> Result<Word> {
        if self.used == self.chunks.len() * PER_CHUNK {
            let chunk = std::array::from_fn(|_| Object::default());
            self.chunks.push(self.host.place(chunk)?);
        }
        let object = &self.chunks[self.used / PER_CHUNK][self.used % PER_CHUNK];
        object.begin(shape, self.used as u32);
        self.used += 1;
        Ok(Word::pointer(object))
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).take(self.used)
    }

    /// Frees all. Nobody may have one any more.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }
}
