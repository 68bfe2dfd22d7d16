//! Code that is not a sequence's, laid out as a sequence is.

use alloc::vec::Vec;

use super::layout::Layout;
use crate::addr::CodeAddr;
use crate::arch::backend::Code;
use crate::arch::{Arch, backend_of};

/// Chooses the forms of the branches and writes the code; `None` if one does not reach. `end` is where `Dest::End` is.
pub(crate) fn finish(arch: Arch, mut code: Code, end: CodeAddr) -> Option<Vec<u8>> {
    let mut layout = Layout {
        arch,
        backend: backend_of(arch),
        code: &mut code,
        labels: &[],
        end,
        fill: None,
        before: Vec::new(),
    };
    layout.choose_forms().ok()?;
    let mut out = Vec::with_capacity(layout.len() as usize);
    layout.write(&mut out).ok()?;
    Some(out)
}
