//! What is known of linked code: its functions, its stack maps, its unwind information, its tables.
//! The same describes code that others have placed.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use llvm_stackmaps::Endian;
use llvm_stackmaps::addr::{CodeAddr, CodeRange, Len};
use patchpoint_isa::Arch;

/// What a segment's memory must allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// Read and execute.
    Code,
    /// Read.
    ReadOnly,
    /// Read and write.
    Data,
}

impl SegmentKind {
    /// All of them, in the order in which [`Layout::contiguous`](crate::Layout::contiguous) places
    /// them.
    pub const ALL: [Self; 3] = [Self::Code, Self::ReadOnly, Self::Data];

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Code => 0,
            Self::ReadOnly => 1,
            Self::Data => 2,
        }
    }
}

impl fmt::Display for SegmentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Code => "code",
            Self::ReadOnly => "read-only data",
            Self::Data => "data",
        })
    }
}

/// Code with its stack maps: what is registered.
#[derive(Clone)]
pub struct Image {
    /// The architecture of the code.
    pub arch: Arch,
    /// Whether the code has the C convention of Windows, as that of COFF objects has. Patchpoints
    /// of that convention and entry sites are not registered then, as their registers are others
    /// than those of the engine's sequences.
    pub windows: bool,
    /// The byte order of the stack maps.
    pub endian: Endian,
    /// The stack map section, with the functions' addresses as they are in memory: those of code,
    /// never of descriptors.
    pub stack_maps: Vec<u8>,
    /// The functions, ascending by address.
    pub functions: Vec<FunctionRange>,
    /// Unwind information, at the addresses that it was relocated for.
    pub eh_frames: Vec<EhFrame>,
    /// Tables about the code that came with it, such as PC sections.
    pub code_tables: Vec<CodeTable>,
    /// The ranges that code is in, ascending.
    pub code: Vec<CodeRange>,
}

/// A function in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionRange {
    /// The symbol.
    pub name: String,
    /// The address of its first byte.
    pub addr: CodeAddr,
    /// Its length in bytes.
    pub len: Len,
    /// What a pointer to it holds: the address of its first byte, but on PowerPC ELFv1 that of its
    /// descriptor.
    pub pointer: CodeAddr,
}

/// An `.eh_frame` section.
#[derive(Clone, PartialEq, Eq)]
pub struct EhFrame {
    /// Its address: its pointers are relative to it.
    pub addr: CodeAddr,
    /// Its bytes. In the segment, a terminator of four zero bytes follows them.
    pub bytes: Vec<u8>,
}

/// A section about code: those that LLVM makes of `!pcsections`, and others that linkers keep
/// together with the code they are about (`SHF_LINK_ORDER` in the ELF specification).
#[derive(Clone, PartialEq, Eq)]
pub struct CodeTable {
    /// Its name. Several sections may have it.
    pub name: String,
    /// Its address: the distances in a PC section count from their own places.
    pub addr: CodeAddr,
    /// Its bytes, relocated for that address.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for CodeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CodeTable({} at {}, {} bytes)",
            self.name,
            self.addr,
            self.bytes.len()
        )
    }
}

impl fmt::Debug for EhFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EhFrame(at {}, {} bytes)", self.addr, self.bytes.len())
    }
}

impl fmt::Debug for Image {
    /// Without the bytes, which may be many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("arch", &self.arch)
            .field("stack_maps", &format_args!("{} bytes", self.stack_maps.len()))
            .field("functions", &self.functions)
            .field("eh_frames", &self.eh_frames)
            .field("code_tables", &self.code_tables)
            .field("code", &self.code)
            .finish_non_exhaustive()
    }
}

impl Image {
    /// The function that an address lies in.
    #[must_use]
    pub fn function_at(&self, addr: CodeAddr) -> Option<&FunctionRange> {
        let after = self.functions.partition_point(|function| function.addr <= addr);
        let candidates = self.functions.get(..after)?;
        // A handful of aliases may share a start.
        candidates
            .iter()
            .rev()
            .take(8)
            .find(|function| addr.is_within(function.addr, function.len))
    }
}
