//! Where dynasm puts the bytes of architectures whose instructions it encodes as they are.

use alloc::vec::Vec;

use dynasmrt::{AssemblyOffset, DynasmApi};

/// Appends what dynasm encodes.
pub(super) struct Sink<'b>(pub(super) &'b mut Vec<u8>);

impl Extend<u8> for Sink<'_> {
    fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
        self.0.extend(bytes);
    }
}

impl<'a> Extend<&'a u8> for Sink<'_> {
    fn extend<I: IntoIterator<Item = &'a u8>>(&mut self, bytes: I) {
        self.0.extend(bytes);
    }
}

impl DynasmApi for Sink<'_> {
    fn offset(&self) -> AssemblyOffset {
        AssemblyOffset(self.0.len())
    }

    fn push(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn align(&mut self, alignment: usize, with: u8) {
        let len = self.0.len().next_multiple_of(alignment.max(1));
        self.0.resize(len, with);
    }
}
