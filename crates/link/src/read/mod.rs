//! From the bytes of a relocatable object to the graph: every offset, size, alignment and index of
//! the file is checked here.

use alloc::string::String;

use llvm_stackmaps::Endian;
use patchpoint_isa::Arch;

use crate::error::Result;
use crate::format::ObjectFormat;
use crate::graph::Graph;

mod align;
mod coff;
mod elf;
mod format;
mod macho;

/// A relocatable object, read and checked: the graph of one file.
///
/// It borrows the bytes that it was read from. [`Object::layout`] is the next step, or
/// [`Graph::new`] if it is linked together with others, or changed first.
#[derive(Clone, Debug)]
pub struct Object<'data> {
    /// Of a file without a name.
    pub(crate) graph: Graph<'data>,
}

impl<'data> Object<'data> {
    /// Reads a relocatable object, as `llc -filetype=obj` or `clang -c` write it: ELF for any
    /// architecture of [`Arch`], Mach-O for x86-64 and arm64, COFF for x86-64. The format is told
    /// from the first bytes.
    ///
    /// A symbol's name is all of it: of one with a version (`name@VERSION`, as GNU's assembler
    /// writes it) the version is a part, and resolvers are asked for it so.
    ///
    /// # Errors
    /// Something else, a damaged file, thread-local storage that is not emulated ([`Error::ThreadLocal`](crate::Error::ThreadLocal)), a
    /// section that needs more than loading (code that is writable, compression), an unknown relocation.
    pub fn parse(bytes: &'data [u8]) -> Result<Self> {
        let graph = match format::of(bytes)? {
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
}

impl<'data> Graph<'data> {
    /// The graph of one object. The name is for errors.
    #[must_use]
    pub fn new(name: impl Into<String>, object: Object<'data>) -> Self {
        let mut graph = object.graph;
        graph.files = alloc::vec![name.into()];
        graph
    }

    /// Adds an object. What it needs and others define, or the other way round, needs no resolver
    /// any more.
    ///
    /// Of definitions of one name a strong one counts before a common one, and that before a weak
    /// one; of common ones the larger, of others the first. A name is as visible as the file says
    /// that says least. What is local to a file stays so. Of groups of one name one is kept, by the
    /// rule of [`Selection`](crate::Selection).
    ///
    /// # Errors
    /// Both define a symbol strongly, their groups of one name are not to be chosen from, or the object is for another
    /// architecture or of another format: nothing is added then.
    pub fn add(&mut self, name: impl Into<String>, object: Object<'data>) -> Result<()> {
        let mut file = object.graph;
        file.files = alloc::vec![name.into()];
        self.join(file)
    }
}
