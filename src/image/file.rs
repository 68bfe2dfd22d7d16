//! One relocatable object, read from its bytes.

use super::format::ObjectFormat;
use super::graph::Graph;
use super::layout::Layout;
use super::{coff, elf, macho};
use crate::arch::Arch;
use crate::error::Result;
use crate::stackmap::Endian;

/// A relocatable object, read and checked: the graph of one file.
///
/// It borrows the bytes that it was read from. [`Object::layout`] is the next step, or [`Graph::new`] if it is linked
/// together with others, or changed first.
#[derive(Clone, Debug)]
pub struct Object<'data> {
    /// Of a file without a name.
    pub(super) graph: Graph<'data>,
}

impl<'data> Object<'data> {
    /// Reads a relocatable object, as `llc -filetype=obj` or `clang -c` write it: ELF for any architecture of [`Arch`], Mach-O for
    /// x86-64 and arm64, COFF for x86-64. The format is told from the first bytes.
    ///
    /// A symbol's name is all of it: of one with a version (`name@VERSION`, as GNU's assembler writes it) the version is a
    /// part, and resolvers are asked for it so.
    ///
    /// # Errors
    /// Something else, a damaged file, thread-local storage that is not emulated ([`emulated_tls`](super::emulated_tls)), a
    /// section that needs more than loading (code that is writable, compression), an unknown relocation.
    pub fn parse(bytes: &'data [u8]) -> Result<Self> {
        let graph = match ObjectFormat::of(bytes)? {
            ObjectFormat::Elf => elf::read(bytes),
            ObjectFormat::MachO => macho::read(bytes),
            ObjectFormat::Coff => coff::read(bytes),
        }?;
        Ok(Self { graph })
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> ObjectFormat {
        self.graph.format
    }

    /// The architecture.
    #[must_use]
    pub fn arch(&self) -> Arch {
        self.graph.arch
    }

    /// The byte order of data, and of instructions.
    #[must_use]
    pub fn endian(&self) -> Endian {
        self.graph.endian()
    }

    /// What is in it.
    #[must_use]
    pub fn graph(&self) -> &Graph<'data> {
        &self.graph
    }

    /// Gives everything a place, as it is and without others.
    ///
    /// # Errors
    /// As [`Graph::layout`].
    pub fn layout(self) -> Result<Layout<'data>> {
        self.graph.layout()
    }
}
