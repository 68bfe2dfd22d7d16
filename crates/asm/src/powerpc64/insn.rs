//! Instructions as words, by the forms of Power ISA 3.1B, book I, 1.6.
//!
//! Fields are cut to their width; whoever calls has checked that they fit.

use crate::hole::Run;
use crate::op::{Extension, Width};

/// A general register, 0 to 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gpr(pub(super) u8);

impl Gpr {
    /// The TOC pointer.
    pub(super) const TOC: Self = Self(2);
    /// The stack pointer.
    pub(super) const SP: Self = Self(1);

    const fn field(self, shift: u32) -> u32 {
        (self.0 as u32 & 31) << shift
    }
}

/// A condition field, 0 to 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field(pub(super) u8);

impl Field {
    /// The mask bit of the field in mtocrf and mfocrf.
    const fn mask(self) -> u32 {
        0x80 >> (self.0 & 7)
    }
}

/// `ori 0, 0, 0`.
pub(super) const NOP: u32 = 0x6000_0000;
/// The word that is no instruction now and ever (book I, appendix on illegal instructions).
pub(super) const ILLEGAL: u32 = 0;
/// `bclr 20, 0`.
pub(super) const BLR: u32 = xl(20, 0, 16, false);
/// `bcctr 20, 0`.
pub(super) const BCTR: u32 = xl(20, 0, 528, false);
/// `bcctrl 20, 0`.
pub(super) const BCTRL: u32 = xl(20, 0, 528, true);

/// The immediate of the format D, and of DS.
pub(super) const RUN_16: &[Run] = &[Run::new(0, 16, 0)];
pub(super) const RUN_14: &[Run] = &[Run::new(2, 14, 2)];

const fn d(opcode: u32, rt: u8, ra: Gpr, imm: u16) -> u32 {
    opcode << 26 | (rt as u32 & 31) << 21 | ra.field(16) | imm as u32
}

/// The displacement is a multiple of 4.
const fn ds(opcode: u32, rt: Gpr, ra: Gpr, disp: i16, xo: u32) -> u32 {
    d(opcode, rt.0, ra, disp as u16 & 0xfffc) | xo
}

const fn x(rt: u8, ra: Gpr, rb: Gpr, xo: u32) -> u32 {
    31 << 26 | (rt as u32 & 31) << 21 | ra.field(16) | rb.field(11) | xo << 1
}

const fn xl(bo: u32, bi: u32, xo: u32, link: bool) -> u32 {
    19 << 26 | bo << 21 | bi << 16 | xo << 1 | link as u32
}

const fn xfx(rt: Gpr, spr: u32, xo: u32) -> u32 {
    31 << 26 | rt.field(21) | (spr & 31) << 16 | (spr >> 5 & 31) << 11 | xo << 1
}

const fn md(rs: Gpr, ra: Gpr, shift: u8, mask: u8, xo: u32) -> u32 {
    let (shift, mask) = (shift as u32 & 63, mask as u32 & 63);
    30 << 26
        | rs.field(21)
        | ra.field(16)
        | (shift & 31) << 11
        | (mask & 31) << 6
        | (mask >> 5) << 5
        | xo << 2
        | (shift >> 5) << 1
}

/// `addi rt, ra, imm`; `ra` is not r0, which stands for 0 here.
pub(super) const fn addi(rt: Gpr, ra: Gpr, imm: i16) -> u32 {
    d(14, rt.0, ra, imm as u16)
}

/// `addis rt, ra, imm`; `ra` is not r0, which stands for 0 here.
pub(super) const fn addis(rt: Gpr, ra: Gpr, imm: i16) -> u32 {
    d(15, rt.0, ra, imm as u16)
}

/// `li rt, imm`.
pub(super) const fn li(rt: Gpr, imm: i16) -> u32 {
    addi(rt, Gpr(0), imm)
}

/// `lis rt, imm`.
pub(super) const fn lis(rt: Gpr, imm: i16) -> u32 {
    addis(rt, Gpr(0), imm)
}

pub(super) const fn ori(ra: Gpr, rs: Gpr, imm: u16) -> u32 {
    d(24, rs.0, ra, imm)
}

pub(super) const fn oris(ra: Gpr, rs: Gpr, imm: u16) -> u32 {
    d(25, rs.0, ra, imm)
}

pub(super) const fn xori(ra: Gpr, rs: Gpr, imm: u16) -> u32 {
    d(26, rs.0, ra, imm)
}

pub(super) const fn xoris(ra: Gpr, rs: Gpr, imm: u16) -> u32 {
    d(27, rs.0, ra, imm)
}

pub(super) const fn add(rt: Gpr, ra: Gpr, rb: Gpr) -> u32 {
    x(rt.0, ra, rb, 266)
}

/// `and ra, rs, rb`.
pub(super) const fn and(ra: Gpr, rs: Gpr, rb: Gpr) -> u32 {
    x(rs.0, ra, rb, 28)
}

/// `xor ra, rs, rb`.
pub(super) const fn xor(ra: Gpr, rs: Gpr, rb: Gpr) -> u32 {
    x(rs.0, ra, rb, 316)
}

/// `or ra, rs, rs`: mr.
pub(super) const fn mr(ra: Gpr, rs: Gpr) -> u32 {
    x(rs.0, ra, rs, 444)
}

/// Rotates to the left and clears the bits above `mask` (bit 0 is the highest).
pub(super) const fn rldicl(ra: Gpr, rs: Gpr, shift: u8, mask: u8) -> u32 {
    md(rs, ra, shift, mask, 0)
}

/// Rotates to the left and clears the bits below `mask` (bit 0 is the highest).
pub(super) const fn rldicr(ra: Gpr, rs: Gpr, shift: u8, mask: u8) -> u32 {
    md(rs, ra, shift, mask, 1)
}

/// Bit `bit` of the low word, bit 0 being its highest, as 0 or 1: `rlwinm ra, rs, bit + 1, 31, 31`.
pub(super) const fn extract_bit(ra: Gpr, rs: Gpr, bit: u8) -> u32 {
    let shift = (bit as u32 + 1) & 31;
    21 << 26 | rs.field(21) | ra.field(16) | shift << 11 | 31 << 6 | 31 << 1
}

/// Shifts to the right with the sign; changes the carry of XER.
pub(super) const fn sradi(ra: Gpr, rs: Gpr, shift: u8) -> u32 {
    let shift = shift as u32 & 63;
    31 << 26 | rs.field(21) | ra.field(16) | (shift & 31) << 11 | 413 << 2 | (shift >> 5) << 1
}

/// The low `width` bytes, extended; [`mr`] for 8.
pub(super) const fn extend(ra: Gpr, rs: Gpr, width: Width, extension: Extension) -> u32 {
    match (width, extension) {
        (Width::B1, Extension::Zero) => rldicl(ra, rs, 0, 56),
        (Width::B2, Extension::Zero) => rldicl(ra, rs, 0, 48),
        (Width::B4, Extension::Zero) => rldicl(ra, rs, 0, 32),
        (Width::B1, Extension::Sign) => x(rs.0, ra, Gpr(0), 954),
        (Width::B2, Extension::Sign) => x(rs.0, ra, Gpr(0), 922),
        (Width::B4, Extension::Sign) => x(rs.0, ra, Gpr(0), 986),
        (Width::B8, _) => mr(ra, rs),
    }
}

/// Whether the displacement of this access must be a multiple of 4.
pub(super) const fn is_ds(width: Width, extension: Extension) -> bool {
    matches!((width, extension), (Width::B8, _) | (Width::B4, Extension::Sign))
}

/// A load to a general register; a byte is extended with zeros only. `base` is not r0.
pub(super) const fn load(rt: Gpr, base: Gpr, disp: i16, width: Width, extension: Extension) -> u32 {
    match (width, extension) {
        (Width::B1, _) => d(34, rt.0, base, disp as u16),
        (Width::B2, Extension::Zero) => d(40, rt.0, base, disp as u16),
        (Width::B2, Extension::Sign) => d(42, rt.0, base, disp as u16),
        (Width::B4, Extension::Zero) => d(32, rt.0, base, disp as u16),
        (Width::B4, Extension::Sign) => ds(58, rt, base, disp, 2),
        (Width::B8, _) => ds(58, rt, base, disp, 0),
    }
}

/// A store from a general register. `base` is not r0.
pub(super) const fn store(rs: Gpr, base: Gpr, disp: i16, width: Width) -> u32 {
    match width {
        Width::B1 => d(38, rs.0, base, disp as u16),
        Width::B2 => d(44, rs.0, base, disp as u16),
        Width::B4 => d(36, rs.0, base, disp as u16),
        Width::B8 => ds(62, rs, base, disp, 0),
    }
}

/// `ld r2, slot(r1)`, behind a call.
pub(super) const fn load_toc(slot: i16) -> u32 {
    load(Gpr::TOC, Gpr::SP, slot, Width::B8, Extension::Zero)
}

/// Loads and reserves `[base]`.
pub(super) const fn load_reserve(rt: Gpr, base: Gpr, width: Width) -> u32 {
    let xo = match width {
        Width::B1 => 52,
        Width::B2 => 116,
        Width::B4 => 20,
        Width::B8 => 84,
    };
    x(rt.0, Gpr(0), base, xo)
}

/// Stores to `[base]` if it is still reserved; cr0 says whether.
pub(super) const fn store_conditional(rs: Gpr, base: Gpr, width: Width) -> u32 {
    let xo = match width {
        Width::B1 => 694,
        Width::B2 => 726,
        Width::B4 => 150,
        Width::B8 => 214,
    };
    x(rs.0, Gpr(0), base, xo) | 1
}

/// `lfs` or `lfd`.
pub(super) const fn load_float(frt: u8, base: Gpr, disp: i16, width: Width) -> u32 {
    let opcode = if matches!(width, Width::B4) { 48 } else { 50 };
    d(opcode, frt, base, disp as u16)
}

/// `stfs` or `stfd`.
pub(super) const fn store_float(frs: u8, base: Gpr, disp: i16, width: Width) -> u32 {
    let opcode = if matches!(width, Width::B4) { 52 } else { 54 };
    d(opcode, frs, base, disp as u16)
}

/// `fmr`.
pub(super) const fn fmr(frt: u8, frb: u8) -> u32 {
    63 << 26 | (frt as u32 & 31) << 21 | (frb as u32 & 31) << 11 | 72 << 1
}

/// `mfvsrd ra, vs`: the doubleword that a floating-point register is. `vs` is 0 to 63.
pub(super) const fn mfvsrd(ra: Gpr, vs: u8) -> u32 {
    x(vs, ra, Gpr(0), 51) | (vs as u32 >> 5 & 1)
}

/// `mtvsrd vs, ra`.
pub(super) const fn mtvsrd(vs: u8, ra: Gpr) -> u32 {
    x(vs, ra, Gpr(0), 179) | (vs as u32 >> 5 & 1)
}

/// `cmpw`, `cmpd` or the logical one of either.
pub(super) const fn compare(field: Field, ra: Gpr, rb: Gpr, doubleword: bool, signed: bool) -> u32 {
    let xo = if signed { 0 } else { 32 };
    x(field.0 << 2 | doubleword as u8, ra, rb, xo)
}

/// `cmpwi` or `cmpdi`.
pub(super) const fn compare_signed(field: Field, ra: Gpr, imm: i16, doubleword: bool) -> u32 {
    d(11, field.0 << 2 | doubleword as u8, ra, imm as u16)
}

/// `cmplwi` or `cmpldi`.
pub(super) const fn compare_unsigned(field: Field, ra: Gpr, imm: u16, doubleword: bool) -> u32 {
    d(10, field.0 << 2 | doubleword as u8, ra, imm)
}

pub(super) const fn mtlr(rs: Gpr) -> u32 {
    xfx(rs, 8, 467)
}

pub(super) const fn mflr(rt: Gpr) -> u32 {
    xfx(rt, 8, 339)
}

pub(super) const fn mtctr(rs: Gpr) -> u32 {
    xfx(rs, 9, 467)
}

pub(super) const fn mfctr(rt: Gpr) -> u32 {
    xfx(rt, 9, 339)
}

/// `mfocrf`: the field keeps its position in CR; the other bits are undefined.
pub(super) const fn mfocrf(rt: Gpr, field: Field) -> u32 {
    31 << 26 | rt.field(21) | 1 << 20 | field.mask() << 12 | 19 << 1
}

/// `mtocrf`.
pub(super) const fn mtocrf(field: Field, rs: Gpr) -> u32 {
    31 << 26 | rs.field(21) | 1 << 20 | field.mask() << 12 | 144 << 1
}

/// `b` by a distance that is a multiple of 4 in +-32 MiB.
pub(super) const fn b(distance: i32) -> u32 {
    18 << 26 | distance as u32 & 0x03ff_fffc
}

/// [`b`] by any distance, if it reaches.
pub(super) fn b_to(distance: i64) -> Option<u32> {
    let reaches = (-(1 << 25)..1 << 25).contains(&distance) && distance % 4 == 0;
    reaches.then(|| b(distance as i32))
}

/// `bc bo, bi` by a distance that is a multiple of 4 in +-32 KiB.
pub(super) const fn bc(bo: u8, bi: u8, distance: i16) -> u32 {
    16 << 26 | (bo as u32 & 31) << 21 | (bi as u32 & 31) << 16 | distance as u16 as u32 & 0xfffc
}
