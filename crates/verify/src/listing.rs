//! Disassembly for people. Not used while patching.

use alloc::string::String;
use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, Len};
use patchpoint_isa::Arch;

/// One instruction, or one byte that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingLine {
    /// The address.
    pub addr: CodeAddr,
    /// The length in bytes.
    pub len: Len,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The instruction (Intel notation on x86-64); `(bad)` for a byte at which none starts.
    pub text: String,
}

/// Disassembles bytes at `addr`, all of them, in lines without gaps.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
pub fn disassemble(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> Vec<ListingLine> {
    let isa = super::dispatch::isa(arch);
    let mut lines = Vec::new();
    let mut rest = bytes;
    let mut at = addr.get();
    while !rest.is_empty() {
        let mut text = String::new();
        let len = (isa.text)(at, rest, &mut text).unwrap_or_else(|| {
            text = String::from("(bad)");
            1
        });
        let (bytes, tail) = rest.split_at_checked(len.max(1)).unwrap_or((rest, &[]));
        lines.push(ListingLine {
            addr: CodeAddr::new(at),
            len: Len::of(bytes).expect("an instruction is short"),
            bytes: bytes.to_vec(),
            text,
        });
        at = at.wrapping_add(bytes.len() as u64);
        rest = tail;
    }
    lines
}
