//! The bytes of one exit stub.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::{ExitStubContext, aarch64, host, powerpc64, riscv64, systemz, x86_64};
use crate::addr::{CodeAddr, Len};
use crate::arch::Arch;
use crate::deopt::Result;
use crate::engine::StackAt;
use crate::memory::{BlockForm, short};

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

/// How the exit stubs of an architecture lie in a block. Of each only the distance to what the block
/// shares is its own, and how it resumes: by a jump, or by instructions that its site held.
pub(super) struct InBlock {
    /// Of blocks whose exit stubs resume by a jump.
    pub(super) form: BlockForm,
    /// Of blocks whose exit stubs have room for instructions, the shortest first; the last have room
    /// for those of most sites.
    pub(super) moving: &'static [BlockForm],
    /// So many bytes are around these instructions: what enters, and the jump.
    pub(super) around: u64,
    /// How far from its start the capture routine returns to.
    pub(super) returns: u64,
    pub(super) stack: &'static [StackAt],
    /// Writes what is before the resumption, where what the block shares is at an address.
    pub(super) enter: fn(&mut RoomCode<'_>, CodeAddr),
    /// Writes a jump to an address; `None` where none reaches it, or is no room for it.
    pub(super) jump: fn(&mut RoomCode<'_>, CodeAddr) -> Option<()>,
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
    at: CodeAddr,
    len: usize,
}

impl<'a> RoomCode<'a> {
    /// In the room at an address, of which nothing is written.
    pub(super) fn new(bytes: &'a mut [u8], at: CodeAddr) -> Self {
        Self { bytes, at, len: 0 }
    }

    /// Where the next byte goes.
    pub(super) fn next(&self) -> CodeAddr {
        CodeAddr::new(self.at.get().wrapping_add(self.len as u64))
    }

    /// Appends bytes; `None` if the room is too short for them.
    pub(super) fn put_if_room(&mut self, bytes: &[u8]) -> Option<()> {
        let is_room = bytes.len() <= self.bytes.len() - self.len;
        is_room.then(|| self.put(bytes))
    }

    /// What was written.
    #[cfg(test)]
    pub(super) fn written(&self) -> &[u8] {
        let written = self.bytes.get(..self.len);
        written.expect("what was written is in the room")
    }

    /// Appends bytes.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        let room = self.bytes.get_mut(self.len..end);
        short::copy(room.expect("a room is as long as its code"), bytes);
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

#[cfg(test)]
mod tests {
    use super::*;
    use patchpoint_asm::powerpc64::PowerPc64;

    const ALL: [Arch; 7] = [
        Arch::X86_64,
        Arch::AArch64,
        Arch::SystemZ,
        Arch::PowerPc64,
        Arch::PowerPc64Le,
        Arch::PowerPc64ElfV2,
        Arch::RiscV64,
    ];
    const CONTEXT: u64 = 0x1122_3344_5566_7788;
    const CAPTURE: u64 = 0x99aa_bbcc_dd00;
    const AT: CodeAddr = CodeAddr::new(0x7000_0000_1000);

    fn assembled(arch: Arch, at: CodeAddr, to: CodeAddr) -> Vec<u8> {
        let resume = Resume::At(to);
        match arch {
            Arch::X86_64 => x86_64::exit_stub::assemble(at, CONTEXT, CAPTURE, resume),
            Arch::AArch64 => aarch64::exit_stub::assemble(at, CONTEXT, CAPTURE, resume),
            Arch::SystemZ => systemz::exit_stub::assemble(at, CONTEXT, CAPTURE, resume),
            Arch::RiscV64 => riscv64::exit_stub::assemble(at, CONTEXT, CAPTURE, resume),
            _ => powerpc64::assemble(arch, at, CONTEXT, CAPTURE, resume),
        }
        .unwrap()
    }

    /// The code of a room.
    fn in_room(arch: Arch, at: CodeAddr, shared: CodeAddr, to: CodeAddr) -> Option<Vec<u8>> {
        let in_block = in_block(arch);
        assert!(in_block.moving.iter().is_sorted_by_key(|form| form.room));
        for moving in in_block.moving {
            assert!(in_block.form.room <= moving.room && in_block.form.shared == moving.shared);
        }
        let mut room = alloc::vec![0; in_block.form.room as usize];
        let mut code = RoomCode::new(&mut room, at);
        (in_block.enter)(&mut code, shared);
        (in_block.jump)(&mut code, to)?;
        assert_eq!(code.written().len() as u64, in_block.around);
        Some(code.written().to_vec())
    }

    /// With what it shares where an exit stub of its own has it, the code is the same.
    #[test]
    fn in_a_block_an_exit_stub_is_as_on_its_own() {
        for arch in ALL.into_iter().filter(|arch| PowerPc64::of(*arch).is_none()) {
            let to = CodeAddr::new(AT.get() + 0x800);
            let own = assembled(arch, AT, to);
            let (code, data) = own.split_at(own.len() - 16);
            assert_eq!(data, shared(arch, CONTEXT, CAPTURE));
            let at_data = CodeAddr::new(AT.get() + code.len() as u64);
            let room = in_room(arch, AT, at_data, to).unwrap();
            // Behind the jump there may be padding.
            let padding = code.strip_prefix(&*room);
            let padding = padding.unwrap_or_else(|| panic!("{arch:?}: {room:x?}, not {code:x?}"));
            assert!(padding.iter().all(|byte| matches!(byte, 0 | 0xcc)), "{arch:?}");
        }
    }

    #[test]
    fn on_powerpc64_the_middle_is_shared() {
        for arch in ALL.into_iter().filter(|arch| PowerPc64::of(*arch).is_some()) {
            let to = CodeAddr::new(AT.get() + 0x800);
            let at_shared = CodeAddr::new(AT.get() - 0x70);
            let texts = |at, code: &[u8]| {
                let lines = crate::verify::disassemble(arch, at, code).into_iter();
                lines.map(|line| line.text).collect::<Vec<_>>()
            };
            let own = texts(AT, &assembled(arch, AT, to));
            let room = texts(AT, &in_room(arch, AT, at_shared, to).unwrap());
            let shared = shared(arch, CONTEXT, CAPTURE);
            assert!(shared.len() <= in_block(arch).form.shared as usize);
            let shared = texts(at_shared, &shared);
            let (first, rest) = own.split_at(4);
            let (middle, last) = rest.split_at(rest.len() - 6);
            assert_eq!(room[..4], *first);
            assert_eq!(room[4], alloc::format!("bl {:#x}", at_shared.get()));
            assert_eq!(room[5..], last[1..]);
            assert_eq!(shared[..3], middle[..3]);
            assert_eq!(shared[3..5], ["mflr r12", "std r12, 1224(r1)"]);
            assert_eq!(shared[5..shared.len() - 1], middle[3..]);
            assert_eq!((&*shared[shared.len() - 1], &*last[0]), ("bctr", "bctrl"));
        }
    }

    /// What is before it is found as what is behind it, by every exit stub of the largest block.
    #[test]
    fn every_room_finds_what_is_shared() {
        let all = |arch| {
            let InBlock { form, moving, .. } = in_block(arch);
            let forms = core::iter::once(&form).chain(moving);
            forms.map(|form| (arch, *form)).collect::<Vec<_>>()
        };
        for (arch, form) in [Arch::X86_64, Arch::AArch64, Arch::RiscV64]
            .into_iter()
            .flat_map(all)
        {
            let BlockForm { shared, room } = form;
            for number in 0..8192 / u64::from(room) {
                let at = CodeAddr::new(AT.get() + u64::from(shared) + number * u64::from(room));
                let code = in_room(arch, at, AT, AT).unwrap();
                let lines = crate::verify::disassemble(arch, at, &code);
                let loads = match arch {
                    // The context is before what the call loads.
                    Arch::X86_64 => {
                        let distance = i32::from_le_bytes(code[7..11].try_into().unwrap());
                        [3, 11].map(|from| from + i64::from(distance))
                    }
                    Arch::AArch64 => [8, 12].map(|from: usize| {
                        let word = u32::from_le_bytes(code[from..][..4].try_into().unwrap());
                        from as i64 + i64::from((word << 8) as i32 >> 13 << 2)
                    }),
                    _ => {
                        let word = |at: usize| u32::from_le_bytes(code[at..][..4].try_into().unwrap());
                        let base = 12 + i64::from((word(12) & !0xfff) as i32);
                        [20, 16].map(|at| base + i64::from(word(at) as i32 >> 20))
                    }
                };
                let found = loads.map(|by| at.get().wrapping_add_signed(by));
                assert_eq!(found, [AT.get(), AT.get() + 8], "{arch:?} {number} {lines:?}");
            }
        }
    }

    #[test]
    fn what_no_jump_reaches_is_not_in_a_block() {
        for arch in ALL {
            let far = CodeAddr::new(AT.get() + (1 << 40));
            assert_eq!(in_room(arch, AT, AT, far), None, "{arch:?}");
        }
    }
}
