//! Code that is not a sequence's, laid out as a sequence is.

use alloc::vec::Vec;

use llvm_stackmaps::addr::CodeAddr;
use patchpoint_isa::Arch;
use smallvec::SmallVec;

use super::layout::Layout;
use crate::backend::EncodedCode;
use crate::backend_of;

/// Lays out code that is not a sequence's: chooses the forms of the branches and writes the bytes;
/// `None` if a branch does not reach. `end` is the address to which
/// [`Dest::End`](crate::op::Dest::End) goes. Labels there are none.
#[must_use]
pub fn finish(arch: Arch, mut code: EncodedCode, end: CodeAddr) -> Option<Vec<u8>> {
    let mut layout = Layout {
        arch,
        backend: backend_of(arch),
        code: &mut code,
        labels: &[],
        end,
        fill: None,
        is_stub: false,
        before: SmallVec::new(),
    };
    layout.choose_forms().ok()?;
    let mut out = Vec::with_capacity(layout.len() as usize);
    layout.write(&mut out).ok()?;
    Some(out)
}
