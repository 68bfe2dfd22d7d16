//! Code at an address.

use llvm_stackmaps::addr::CodeAddr;

/// Bytes at the address where they will be executed: a stub of the checked site.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The address of the first byte.
    pub addr: CodeAddr,
    /// The bytes.
    pub bytes: &'a [u8],
}
