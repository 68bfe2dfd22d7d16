//! Entry sites: reserved bytes at the start of a function, which no stack map records.
//!
//! Problem: a sequence of an entry site may use the registers that a caller leaves to its callee,
//! return for the function, and jump to another function in its place. All that is true at a
//! function's entry, and a few instructions later it is not. Approach: what runs between the
//! function's first byte and the site must change nothing, and nothing of the function's own may
//! go there; else the site is refused, unless the runtime promises what the bytes do not show.

#![allow(unsafe_code)]

use super::functions::FunctionView;
use crate::addr::{CodeAddr, FnOffset, Len, RecordId};
use crate::arch::instructions::Prologue;
use crate::arch::{Arch, CallShape};
use crate::error::SiteName;
use crate::site::{Error, Result};
use crate::verify::{self, DecodedFunction, Original};

/// Declares reserved bytes at the start of a function, such as the nops that LLVM emits for
/// `"patchable-function-entry"="N"` (`llvm/docs/LangRef`, function attributes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntrySpec {
    pub(super) function: String,
    pub(super) id: RecordId,
    pub(super) offset: FnOffset,
    pub(super) shape: CallShape,
    /// Whether the runtime has promised that the state there is that of an entry.
    is_promised: bool,
}

impl EntrySpec {
    /// The first `reserved` bytes of `function`, under an ID of the runtime's choice.
    #[must_use]
    pub fn new(function: &str, id: impl Into<RecordId>, reserved: u32) -> Self {
        Self {
            function: function.into(),
            id: id.into(),
            offset: FnOffset::new(0),
            shape: CallShape::entry(reserved),
            is_promised: false,
        }
    }

    /// The function takes `count` arguments, which sequences there may then name.
    #[must_use]
    pub fn args(mut self, count: u32) -> Self {
        self.shape = self.shape.args(count);
        self
    }

    /// The function returns an integer or a pointer, which a sequence there that returns may then
    /// set.
    #[must_use]
    pub fn result(mut self) -> Self {
        self.shape = self.shape.result();
        self
    }

    /// The bytes start `offset` bytes into the function: after an `endbr64`, for example.
    ///
    /// In front of them may be one landing pad (`endbr64`, `bti`, `lpad`) or the instructions by
    /// which a function of PowerPC ELFv2 finds its TOC pointer, and nops. Behind anything else, and
    /// where a branch of the function goes to them, the registration is refused with
    /// [`Error::EntryNotAtStart`].
    #[must_use]
    pub fn at(mut self, offset: FnOffset) -> Self {
        (self.offset, self.is_promised) = (offset, false);
        self
    }

    /// As [`at`](Self::at), whatever runs before.
    ///
    /// # Safety
    ///
    /// Whenever a thread comes to that offset of the function, also by a branch, it is as at the
    /// function's entry: the stack pointer, the return address and where it is, the arguments, and
    /// every register that a callee must keep are as the caller left them; and the code behind the
    /// site uses no other register that the convention leaves to callees.
    #[must_use]
    pub unsafe fn promised_at(self, offset: FnOffset) -> Self {
        Self {
            is_promised: true,
            ..self.at(offset)
        }
    }

    /// Refuses a site at which the state is not known to be that at the function's entry.
    pub(super) fn check_start(
        &self,
        arch: Arch,
        function: &FunctionView<'_>,
        code: &[u8],
        name: impl Fn() -> Box<SiteName>,
    ) -> Result<()> {
        let Some(before) = code
            .get(..self.offset.get() as usize)
            .filter(|before| !before.is_empty())
        else {
            return Ok(());
        };
        if self.is_promised {
            return Ok(());
        }
        let refused = |at, why| Error::EntryNotAtStart {
            site: name(),
            at,
            why,
        };
        let prologue = Prologue::of(arch, before);
        if let Some(at) = first_effect(arch, function.addr, before, prologue.len()) {
            // protection: entries-are-at-the-entry
            return Err(refused(at, "runs before it"));
        }
        let start = function.addr.at(self.offset);
        let start = start.expect("the code before it has addresses");
        let is_inside = |to| function.addr.get() < to && to <= start.get();
        // Behind that is the local entry, to which the function itself may branch: as a call does.
        let local = match prologue {
            Prologue::Toc => function
                .addr
                .plus(Len::new(prologue.len() as u32))
                .map(CodeAddr::get),
            Prologue::None | Prologue::LandingPad => None,
        };
        let outline = DecodedFunction::of(arch, function.addr, code, &[]);
        let mut branches = outline.branches();
        match branches.find(|(_, to)| is_inside(*to) && Some(*to) != local) {
            // protection: entries-are-not-branched-to
            Some((from, _)) => Err(refused(CodeAddr::new(from.start), "branches there")),
            None => Ok(()),
        }
    }
}

/// The first instruction of these that may do something, behind so many bytes of a prologue.
fn first_effect(arch: Arch, addr: CodeAddr, code: &[u8], prologue: usize) -> Option<CodeAddr> {
    let rest = code.get(prologue..)?;
    let mut at = addr.plus(Len::new(prologue as u32))?;
    let mut begin = 0;
    for end in verify::boundaries(arch, at, rest) {
        let instruction = rest.get(begin..end as usize);
        let instruction = instruction.expect("instructions end in the bytes that were decoded");
        at = addr.plus(Len::new((prologue + begin) as u32))?;
        if verify::original(arch, at, instruction) != Ok(Original::Nops) {
            return Some(at);
        }
        begin = end as usize;
    }
    match begin == rest.len() {
        true => None,
        // It does not decode, or the site begins in its middle.
        false => addr.plus(Len::new((prologue + begin) as u32)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arch: Arch, code: &[u8], spec: &EntrySpec) -> Result<()> {
        let addr = CodeAddr::new(0x40_0000);
        let function = FunctionView {
            name: "f",
            addr,
            len: Len::of(code).unwrap(),
            pointer: addr,
        };
        let name = || {
            Box::new(SiteName {
                kind: None,
                id: spec.id,
                function: None,
                offset: spec.offset,
                addr,
            })
        };
        spec.check_start(arch, &function, code, name)
    }

    /// Where the offending instruction of a site at that offset is, and why it offends.
    fn refused(arch: Arch, code: &[u8], offset: u32) -> Option<(u64, &'static str)> {
        let spec = EntrySpec::new("f", 1_u64, 4).at(FnOffset::new(offset));
        // SAFETY: nothing is executed.
        let promised = unsafe { spec.clone().promised_at(FnOffset::new(offset)) };
        assert_eq!(check(arch, code, &promised), Ok(()));
        // The last word counts.
        let again = check(arch, code, &promised.at(FnOffset::new(offset)));
        match check(arch, code, &spec) {
            Ok(()) => None,
            Err(Error::EntryNotAtStart { at, why, .. }) => {
                assert!(again.is_err());
                Some((at.get() - 0x40_0000, why))
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// Each word the other way round.
    fn swapped(code: &[u8]) -> Vec<u8> {
        let words = code.chunks_exact(4);
        words.flat_map(|word| word.iter().rev().copied()).collect()
    }

    const ENDBR: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

    #[test]
    fn behind_landing_pads_and_nops_an_entry_is_one() {
        let x86 = [&ENDBR[..], &[0x90; 12], &[0xc3]].concat();
        for offset in [0, 4, 5, 12] {
            assert_eq!(refused(Arch::X86_64, &x86, offset), None, "{offset}");
        }
        let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
        // bti c; nop; nop; ret
        let aarch64 = words(&[0xd503_245f, 0xd503_201f, 0xd503_201f, 0xd65f_03c0]);
        // lpad 0; nop; nop; ret
        let riscv = words(&[0x17, 0x13, 0x13, 0x8067]);
        // addis 2,12,1; addi 2,2,8; nop; nop; b .-12 (to the local entry, as a call); blr
        let power = words(&[
            0x3c4c_0001,
            0x3842_0008,
            0x6000_0000,
            0x6000_0000,
            0x4bff_fff8,
            0x4e80_0020,
        ]);
        assert_eq!(refused(Arch::AArch64, &aarch64, 4), None);
        assert_eq!(refused(Arch::AArch64, &aarch64, 8), None);
        assert_eq!(refused(Arch::RiscV64, &riscv, 4), None);
        assert_eq!(refused(Arch::PowerPc64Le, &power, 8), None);
        assert_eq!(refused(Arch::PowerPc64Le, &power, 12), None);
        let big = swapped(&power);
        assert_eq!(refused(Arch::PowerPc64ElfV2, &big, 8), None);
        assert_eq!(refused(Arch::PowerPc64ElfV2, &big, 12), None);
        assert_eq!(
            refused(Arch::PowerPc64ElfV2, &big, 4),
            Some((0, "runs before it"))
        );
        // With descriptors there is no such thing, in either order of bytes.
        assert_eq!(refused(Arch::PowerPc64, &big, 8), Some((0, "runs before it")));
        // Half of it, and what looks like it in another place.
        assert_eq!(refused(Arch::PowerPc64Le, &power, 4), Some((0, "runs before it")));
        assert_eq!(refused(Arch::PowerPc64, &power, 8).map(|found| found.0), Some(0));
    }

    #[test]
    fn behind_other_code_an_entry_is_none() {
        // push rbx; nops; pop rbx; ret
        let pushed = [&[0x53][..], &[0x90; 8], &[0x5b, 0xc3]].concat();
        assert_eq!(refused(Arch::X86_64, &pushed, 1), Some((0, "runs before it")));
        assert_eq!(refused(Arch::X86_64, &pushed, 5), Some((0, "runs before it")));
        // Behind the landing pad too.
        let pushed = [&ENDBR[..], &pushed].concat();
        assert_eq!(refused(Arch::X86_64, &pushed, 5), Some((4, "runs before it")));
        // In the middle of a nop, and of the pad.
        let long = [&[0x0f, 0x1f, 0x40, 0x00][..], &[0x90; 8], &[0xc3]].concat();
        assert_eq!(refused(Arch::X86_64, &long, 4), None);
        assert_eq!(refused(Arch::X86_64, &long, 2), Some((0, "runs before it")));
        assert_eq!(refused(Arch::X86_64, &pushed, 2), Some((0, "runs before it")));
        // mflr r0; nop; nop: the return address is in another place soon.
        let saved: Vec<u8> = [0x7c08_02a6_u32, 0x6000_0000, 0x6000_0000]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        assert_eq!(refused(Arch::PowerPc64Le, &saved, 4), Some((0, "runs before it")));
        let saved = swapped(&saved);
        assert_eq!(
            refused(Arch::PowerPc64ElfV2, &saved, 4),
            Some((0, "runs before it"))
        );
    }

    #[test]
    fn what_the_function_branches_to_itself_is_no_entry() {
        // Nops, of which the last are in a loop: dec edi; jne -N; ret
        let looping = |back: u8| [&[0x90; 8][..], &[0xff, 0xcf, 0x75, back, 0xc3]].concat();
        // To offset 4: where the site begins, and in front of it.
        assert_eq!(
            refused(Arch::X86_64, &looping(0xf8), 4),
            Some((10, "branches there"))
        );
        assert_eq!(
            refused(Arch::X86_64, &looping(0xf8), 6),
            Some((10, "branches there"))
        );
        // Behind the site, or to the function's start, where it calls itself again.
        assert_eq!(refused(Arch::X86_64, &looping(0xfc), 4), None);
        assert_eq!(refused(Arch::X86_64, &looping(0xf4), 4), None);
    }
}
