//! The frame that an exit stub makes below the red zone, by offsets from its stack pointer.
//!
//! The saved general registers are highest: the registers with which a frame is left are put into
//! their place, or above, while the vectors below are still to be restored.

#![cfg_attr(
    not(target_arch = "powerpc64"),
    allow(dead_code, reason = "the routine is of the host")
)]

/// Bytes below the stack pointer that belong to a leaf function, and to signal handlers (64-Bit ELF
/// V2 ABI Specification 1.5, 2.2.3.4; ELFv1 asks for less).
pub(super) const RED_ZONE: u64 = 512;

/// The header and the parameter save area of ELFv1, which are the larger ones: 48 and 64 bytes.
const HEADER: u16 = 112;

/// vs0 to vs31, 16 bytes each; where there are no such registers, f0 to f31 in the first 8 of them.
pub(super) const SCALARS: u16 = HEADER;
/// v0 to v31.
pub(super) const VECTORS: u16 = SCALARS + 512;
/// The vector status and control register.
pub(super) const VSCR: u16 = VECTORS + 512;
/// What [`RawState`](super::state::RawState) begins with.
pub(super) const STATE: u16 = VSCR + 16;
pub(super) const FPSCR: u16 = STATE;
pub(super) const VRSAVE: u16 = STATE + 8;
pub(super) const CR: u16 = STATE + 16;
pub(super) const XER: u16 = STATE + 24;
/// Which registers the processor has, see [`HAS_VECTORS`] and [`HAS_SCALARS`].
pub(super) const FEATURES: u16 = STATE + 32;
pub(super) const DISPATCH: u16 = STATE + 40;
pub(super) const CONTEXT: u16 = STATE + 48;
pub(super) const CTR: u16 = STATE + 56;
pub(super) const LR: u16 = STATE + 64;
/// Where the routine returns to, of an exit stub in a block.
pub(super) const RETURN: u16 = STATE + 72;
/// r0 to r31.
pub(super) const GENERAL: u16 = STATE + 80;
/// A multiple of 16.
pub(super) const FRAME: u16 = GENERAL + 256 + RED_ZONE as u16;

/// The bit of [`FEATURES`] for v0 to v31, VSCR and VRSAVE.
pub(super) const HAS_VECTORS: u16 = 1;
/// The bit of [`FEATURES`] for vs0 to vs31.
pub(super) const HAS_SCALARS: u16 = 2;

const _: () = assert!(FRAME % 16 == 0 && SCALARS % 16 == 0 && VSCR % 16 == 0);
