//! The bytes of one exit stub.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::{ExitStubContext, aarch64, host, powerpc64, riscv64, systemz, x86_64};
use crate::addr::{CodeAddr, Len};
use crate::arch::Arch;
use crate::deopt::Result;
use crate::engine::StackAt;
use crate::memory::BlockForm;

/// What an exit stub does when its handler answers [`resume`](super::Frame::resume).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Resume<'a> {
    /// Goes on at an address: the site's end.
    At(CodeAddr),
    /// Executes the instructions that were at the site before it was patched, moved into the exit
    /// stub, and goes on behind them. A call among them has its return address in the exit stub.
    Original {
        /// Where they were.
        addr: CodeAddr,
        /// All of them; whole instructions.
        bytes: &'a [u8],
    },
}

/// A length that no exit stub of the architecture with this resumption exceeds, in bytes.
#[must_use]
pub fn max_len(arch: Arch, resume: &Resume<'_>) -> Len {
    let len = match arch {
        Arch::X86_64 => x86_64::exit_stub::max_len(resume),
        Arch::AArch64 => aarch64::exit_stub::max_len(resume),
        Arch::SystemZ => systemz::exit_stub::max_len(resume),
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => powerpc64::max_len(arch, resume),
        Arch::RiscV64 => riscv64::exit_stub::max_len(resume),
    };
    Len::new(u32::try_from(len).unwrap_or(u32::MAX))
}

/// One field of a table of these.
pub(super) const fn stack_at(from: u32, lowered: u32, link: Option<u32>) -> StackAt {
    StackAt { from, lowered, link }
}

/// How the stack of an exit stub with that context differs from that at the site; by ascending
/// offsets.
pub(super) fn stack(arch: Arch, context: &ExitStubContext, capture: u64) -> Cow<'static, [StackAt]> {
    match arch {
        Arch::X86_64 => Cow::Borrowed(&x86_64::exit_stub::STACK),
        Arch::AArch64 => Cow::Borrowed(&aarch64::exit_stub::STACK),
        Arch::SystemZ => Cow::Borrowed(&systemz::exit_stub::STACK),
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => {
            let context = &raw const *context as u64;
            Cow::Owned(powerpc64::stack(arch, context, capture).to_vec())
        }
        Arch::RiscV64 => Cow::Borrowed(&riscv64::exit_stub::STACK),
    }
}

/// How the exit stubs of an architecture lie in a block. Of each only the distances to what the
/// block shares and to where it resumes are its own.
pub(super) struct InBlock {
    pub(super) form: BlockForm,
    /// How far from its start the capture routine returns to.
    pub(super) returns: u64,
    pub(super) stack: &'static [StackAt],
    /// Writes the one at an address, of the block at another, which resumes at a third; `None`
    /// where no jump reaches that.
    pub(super) put: fn(&mut RoomCode<'_>, CodeAddr, CodeAddr, CodeAddr) -> Option<()>,
}

pub(super) const fn in_block(arch: Arch) -> InBlock {
    match arch {
        Arch::X86_64 => x86_64::exit_stub::IN_BLOCK,
        Arch::AArch64 => aarch64::exit_stub::IN_BLOCK,
        Arch::SystemZ => systemz::exit_stub::IN_BLOCK,
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => powerpc64::in_block(arch),
        Arch::RiscV64 => riscv64::exit_stub::IN_BLOCK,
    }
}

/// What the exit stubs of a block share: how they come to the routine at `capture`, with
/// `context`.
pub(super) fn shared(arch: Arch, context: u64, capture: u64) -> Vec<u8> {
    match arch {
        Arch::X86_64 | Arch::AArch64 | Arch::RiscV64 => [context, capture].map(u64::to_le_bytes).concat(),
        Arch::SystemZ => [context, capture].map(u64::to_be_bytes).concat(),
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => {
            powerpc64::shared(arch, context, capture)
        }
    }
}

/// Code that is written into the room of a block.
pub(super) struct RoomCode<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> RoomCode<'a> {
    pub(super) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, len: 0 }
    }

    /// Appends bytes.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        let room = self.bytes.get_mut(self.len..end);
        room.expect("a room is as long as its code")
            .copy_from_slice(bytes);
        self.len = end;
    }
}

/// The bytes of an exit stub for `at`, where execution enters it. They call with `context`,
/// which must stay where it is while a thread can reach the exit stub or be in it.
///
/// # Errors
/// The original instructions cannot be executed at another address: they do not decode, jump between or read their own
/// bytes, or refer to something out of reach.
pub fn encode(at: CodeAddr, context: &ExitStubContext, resume: Resume<'_>) -> Result<Vec<u8>> {
    encode_calling(capture(), at, context, resume)
}

/// The routine that exit stubs of this process call.
pub(super) fn capture() -> u64 {
    host::capture::address()
}

/// An exit stub that calls this routine.
pub(super) fn encode_calling(
    capture: u64,
    at: CodeAddr,
    context: &ExitStubContext,
    resume: Resume<'_>,
) -> Result<Vec<u8>> {
    let arch = context.site.site().arch;
    let context = &raw const *context as u64;
    match arch {
        Arch::X86_64 => x86_64::exit_stub::assemble(at, context, capture, resume),
        Arch::AArch64 => aarch64::exit_stub::assemble(at, context, capture, resume),
        Arch::SystemZ => systemz::exit_stub::assemble(at, context, capture, resume),
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => {
            powerpc64::assemble(arch, at, context, capture, resume)
        }
        Arch::RiscV64 => riscv64::exit_stub::assemble(at, context, capture, resume),
    }
}
