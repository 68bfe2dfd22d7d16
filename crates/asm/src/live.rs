//! The patchable jumps of live sites.
//!
//! A live site is leading nops, one patchable jump, and trailing nops. The nops are written when
//! the site is armed and never again: a thread may be between any two of their instructions at any
//! time. The patchable jump is one instruction, or the part of one, that a single aligned store
//! exchanges.

use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, Len};
use patchpoint_isa::{Arch, nops};

/// The most bytes that a patchable jump has.
const MOST: usize = 8;

/// The bytes of a patchable jump: at most one quadword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JumpBytes {
    bytes: [u8; MOST],
    len: u8,
}

impl JumpBytes {
    /// These bytes.
    ///
    /// # Panics
    /// They are more than a quadword.
    #[inline]
    #[must_use]
    pub fn new(from: &[u8]) -> Self {
        let mut bytes = [0; MOST];
        let room = bytes.get_mut(..from.len());
        room.expect("a patchable jump lies in one quadword")
            .copy_from_slice(from);
        Self {
            bytes,
            // At most 8.
            len: from.len() as u8,
        }
    }
}

impl JumpBytes {
    /// The lowest bytes of a little-endian quadword. Made of single bytes, they would be copied
    /// before these are stored: a patch of a live site took 518 ns for 487 (`benches speeds`).
    ///
    /// # Panics
    /// They are more than a quadword.
    #[inline]
    #[must_use]
    pub(crate) fn of_quadword(word: u64, len: u8) -> Self {
        assert!(usize::from(len) <= MOST, "a patchable jump lies in one quadword");
        Self {
            bytes: (word & u64::MAX >> (64 - 8 * u32::from(len.max(1)))).to_le_bytes(),
            len,
        }
    }
}

impl core::ops::Deref for JumpBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let bytes = self.bytes.get(..usize::from(self.len));
        bytes.expect("a patchable jump was given no more bytes than there is room for")
    }
}

/// The place of the patchable jump of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchableJump {
    /// Its distance from the site's start.
    pub offset: Len,
    /// Its address.
    pub addr: CodeAddr,
    /// Its length.
    pub len: Len,
}

/// A site has no room for a patchable jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPatchableJump {
    /// The least length of a site at this address that has.
    pub needed: Len,
}

impl PatchableJump {
    /// The patchable jump at this offset of the site at `addr`, if a site of `len` bytes holds it.
    ///
    /// # Errors
    /// The site is too short.
    #[inline]
    pub fn within(
        addr: CodeAddr,
        len: Len,
        offset: Len,
        patchable_jump: Len,
    ) -> Result<Self, NoPatchableJump> {
        let needed = Len::new(offset.get().saturating_add(patchable_jump.get()));
        let start = addr.plus(offset).filter(|_| len >= needed);
        Ok(Self {
            offset,
            addr: start.ok_or(NoPatchableJump { needed })?,
            len: patchable_jump,
        })
    }

    /// The bytes of the site up to the patchable jump's end.
    #[inline]
    #[must_use]
    pub fn end(self) -> Len {
        Len::new(self.offset.get().saturating_add(self.len.get()))
    }

    /// All bytes of an armed site of `len` bytes: leading nops, patchable jump, trailing nops.
    #[must_use]
    pub fn armed(self, arch: Arch, len: Len, bytes: JumpBytes) -> Vec<u8> {
        let mut out = Vec::with_capacity(len.as_usize());
        nops::put(arch, self.offset.get(), &mut out);
        out.extend_from_slice(&bytes);
        nops::put(arch, len.get().saturating_sub(self.end().get()), &mut out);
        out
    }

    /// Makes the patchable jump in the bytes of an armed site these.
    ///
    /// # Panics
    /// The site is shorter than that.
    #[inline]
    pub fn put(self, bytes: JumpBytes, site: &mut [u8]) {
        let room = site.get_mut(self.offset.as_usize()..self.end().as_usize());
        room.expect("a site holds its patchable jump")
            .copy_from_slice(&bytes);
    }

    /// The patchable jump in the bytes of an armed site.
    #[must_use]
    #[inline]
    pub fn of_site(self, site: &[u8]) -> Option<JumpBytes> {
        let bytes = site.get(self.offset.as_usize()..self.end().as_usize())?;
        Some(JumpBytes::new(bytes))
    }
}
