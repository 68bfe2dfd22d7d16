//! Every register that code of this architecture can see of itself, and the words of code that fill
//! them from memory, write them to memory, and destroy them. The encodings are those of Power ISA
//! 3.1B.

use alloc::vec::Vec;
use core::mem::offset_of;

/// All of them, but r1, which stays, and r13, which is the thread's.
#[repr(C, align(16))]
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Image {
    /// vs0 to vs31, whole: the first doublewords are f0 to f31.
    pub(super) scalars: [[u64; 2]; 32],
    /// v0 to v31, as they are in memory.
    pub(super) vectors: [[u8; 16]; 32],
    /// The vector status and control register, as it is in memory.
    pub(super) vscr: [u8; 16],
    /// r0 to r31.
    pub(super) general: [u64; 32],
    pub(super) fpscr: u64,
    pub(super) vrsave: u64,
    pub(super) ctr: u64,
    pub(super) lr: u64,
    pub(super) cr: u64,
    pub(super) xer: u64,
}

/// r1 and r13.
pub(super) const KEPT: [usize; 2] = [1, 13];

/// The decimal rounding mode; the sticky FX and XX; exceptions at overflow; binary rounding towards
/// zero.
const FPSCR: u64 = 0x0000_0005_8200_0041;
/// SO and CA, and the length of a string.
const XER: u64 = 0xa000_0015;

impl Image {
    pub(super) fn zero() -> Self {
        Self {
            scalars: [[0; 2]; 32],
            vectors: [[0; 16]; 32],
            vscr: [0; 16],
            general: [0; 32],
            fpscr: 0,
            vrsave: 0,
            ctr: 0,
            lr: 0,
            cr: 0,
            xer: 0,
        }
    }

    /// Different bytes everywhere.
    pub(super) fn pattern(seed: u64) -> Self {
        let mut next = seed << 32 | 0x9e37_79b9;
        let mut word = || {
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            next ^ next >> 29
        };
        let mut image = Self::zero();
        image.scalars.as_flattened_mut().fill_with(&mut word);
        image.vectors.as_flattened_mut().fill_with(|| word() as u8);
        // Not Java, and saturated: the low word of the register.
        let settings = 0x0001_0001_u128;
        image.vscr = settings.to_ne_bytes();
        image.general.fill_with(&mut word);
        KEPT.iter().for_each(|n| image.general[*n] = 0);
        (image.fpscr, image.xer) = (FPSCR, XER);
        (image.vrsave, image.cr) = (word() >> 32, word() >> 32);
        (image.ctr, image.lr) = (word(), word());
        image
    }

    /// The field of the condition register.
    pub(super) fn condition(&self, field: u64) -> u64 {
        self.cr >> (28 - 4 * field) & 15
    }
}

/// Field by field, for a message that can be read.
pub(super) fn assert_same(expected: &Image, found: &Image) {
    for n in 0..32 {
        assert_eq!(expected.general[n], found.general[n], "r{n}");
        assert_eq!(expected.scalars[n], found.scalars[n], "vs{n}");
        assert_eq!(expected.vectors[n], found.vectors[n], "v{n}");
    }
    assert_eq!(expected.vscr, found.vscr, "VSCR");
    for (name, expected, found) in [
        ("FPSCR", expected.fpscr, found.fpscr),
        ("VRSAVE", expected.vrsave, found.vrsave),
        ("CTR", expected.ctr, found.ctr),
        ("LR", expected.lr, found.lr),
        ("CR", expected.cr, found.cr),
        ("XER", expected.xer, found.xer),
    ] {
        assert_eq!(expected, found, "{name}: {expected:#x}, {found:#x}");
    }
}

// ---- code ----

/// The frame of the code: its caller's LR and CR, what a function preserves, where the output goes,
/// a doubleword.
const FRAME: u32 = 704;
const CR: u32 = 112;
const GENERAL: u32 = 120;
const FLOATS: u32 = GENERAL + 18 * 8;
const VECTORS: u32 = 416;
const VSCR: u32 = VECTORS + 12 * 16;
const OUTPUT: u32 = VSCR + 16;
const WORD: u32 = OUTPUT + 8;
const VRSAVE: u32 = WORD + 8;

const _: () = assert!(FLOATS + 18 * 8 <= VECTORS && VRSAVE + 8 <= FRAME && FRAME % 16 == 0);

const fn ld(to: u32, base: u32, at: u32) -> u32 {
    0xe800_0000 | to << 21 | base << 16 | at
}

const fn std(from: u32, base: u32, at: u32) -> u32 {
    0xf800_0000 | from << 21 | base << 16 | at
}

const fn lfd(to: u32, base: u32, at: u32) -> u32 {
    0xc800_0000 | to << 21 | base << 16 | at
}

const fn stfd(from: u32, base: u32, at: u32) -> u32 {
    0xd800_0000 | from << 21 | base << 16 | at
}

/// `addi r5, base, at`, and an instruction that takes its address from there.
const fn by_r5(word: u32, register: u32, base: u32, at: u32) -> [u32; 2] {
    [0x38a0_0000 | base << 16 | at, word | register << 21 | 5 << 11]
}

const LVX: u32 = 0x7c00_00ce;
const STVX: u32 = 0x7c00_01ce;
const LXVD2X: u32 = 0x7c00_0698;
const STXVD2X: u32 = 0x7c00_0798;
/// `mtvscr v0`; `mfvscr v0`.
const MTVSCR: u32 = 0x1000_0644;
const MFVSCR: u32 = 0x1000_0604;
/// `mtfsf 255, f0, 1, 0`, which writes all of the register; `mffs f0`.
const MTFSF: u32 = 0xfffe_058e;
const MFFS: u32 = 0xfc00_048e;
/// To r0 and from it: LR, CTR, XER, CR, VRSAVE.
const MFLR: u32 = 0x7c08_02a6;
const MTLR: u32 = 0x7c08_03a6;
const MFCTR: u32 = 0x7c09_02a6;
const MTCTR: u32 = 0x7c09_03a6;
const MFXER: u32 = 0x7c01_02a6;
const MTXER: u32 = 0x7c01_03a6;
const MFCR: u32 = 0x7c00_0026;
const MTCR: u32 = 0x7c0f_f120;
const MFVRSAVE: u32 = 0x7c00_42a6;
const MTVRSAVE: u32 = 0x7c00_43a6;
const BLR: u32 = 0x4e80_0020;

const fn at(offset: usize) -> u32 {
    offset as u32
}

const SCALARS_AT: u32 = at(offset_of!(Image, scalars));
const VECTORS_AT: u32 = at(offset_of!(Image, vectors));
const VSCR_AT: u32 = at(offset_of!(Image, vscr));
const GENERAL_AT: u32 = at(offset_of!(Image, general));
const FPSCR_AT: u32 = at(offset_of!(Image, fpscr));

/// Each special register by way of r0: where it is in an image, how it is read, how it is written.
const SPECIAL: [(u32, u32, u32); 5] = [
    (at(offset_of!(Image, vrsave)), MFVRSAVE, MTVRSAVE),
    (at(offset_of!(Image, ctr)), MFCTR, MTCTR),
    (at(offset_of!(Image, lr)), MFLR, MTLR),
    (at(offset_of!(Image, cr)), MFCR, MTCR),
    (at(offset_of!(Image, xer)), MFXER, MTXER),
];

fn general() -> impl Iterator<Item = u32> {
    (0..32).filter(|n| !KEPT.contains(&(*n as usize)))
}

/// The beginning of a function of an image to fill registers from and one to write them to: it
/// fills them.
pub(super) fn fill() -> Vec<u32> {
    let mut words = Vec::from([
        MFLR,
        std(0, 1, 16),
        MFCR,
        0xf821_0001 | (FRAME.wrapping_neg() & 0xffff),
    ]);
    words.push(std(0, 1, CR));
    for (n, slot) in (14..32).zip(0..) {
        words.extend([std(n, 1, GENERAL + 8 * slot), stfd(n, 1, FLOATS + 8 * slot)]);
    }
    for (n, slot) in (20..32).zip(0..) {
        words.extend(by_r5(STVX, n, 1, VECTORS + 16 * slot));
    }
    words.push(MFVSCR);
    words.extend(by_r5(STVX, 0, 1, VSCR));
    words.extend([MFVRSAVE, std(0, 1, VRSAVE), std(4, 1, OUTPUT)]);
    // mr r31, r3
    words.push(0x7c7f_1b78);
    words.extend(by_r5(LVX, 0, 31, VSCR_AT));
    words.extend([MTVSCR, lfd(0, 31, FPSCR_AT), MTFSF]);
    for n in 0..32 {
        words.extend(by_r5(LXVD2X, n, 31, SCALARS_AT + 16 * n));
        words.extend(by_r5(LVX, n, 31, VECTORS_AT + 16 * n));
    }
    for (at, _, write) in SPECIAL {
        words.extend([ld(0, 31, at), write]);
    }
    // The base last.
    words.extend(general().map(|n| ld(n, 31, GENERAL_AT + 8 * n)));
    words
}

/// The end of such a function: it writes the registers, and returns 7.
pub(super) fn store() -> Vec<u32> {
    let mut words = Vec::from([std(31, 1, WORD), ld(31, 1, OUTPUT)]);
    words.extend(
        general()
            .filter(|n| *n != 31)
            .map(|n| std(n, 31, GENERAL_AT + 8 * n)),
    );
    words.extend([ld(0, 1, WORD), std(0, 31, GENERAL_AT + 8 * 31)]);
    for (at, read, _) in SPECIAL {
        words.extend([read, std(0, 31, at)]);
    }
    for n in 0..32 {
        words.extend(by_r5(STXVD2X, n, 31, SCALARS_AT + 16 * n));
        words.extend(by_r5(STVX, n, 31, VECTORS_AT + 16 * n));
    }
    words.push(MFVSCR);
    words.extend(by_r5(STVX, 0, 31, VSCR_AT));
    words.extend([MFFS, stfd(0, 31, FPSCR_AT)]);
    // What the caller had: FPSCR 0, as programs start with.
    words.extend([0x3800_0000, std(0, 1, WORD), lfd(0, 1, WORD), MTFSF]);
    words.extend(by_r5(LVX, 0, 1, VSCR));
    words.extend([MTVSCR, ld(0, 1, VRSAVE), MTVRSAVE]);
    for (n, slot) in (20..32).zip(0..) {
        words.extend(by_r5(LVX, n, 1, VECTORS + 16 * slot));
    }
    for (n, slot) in (14..32).zip(0..) {
        words.extend([ld(n, 1, GENERAL + 8 * slot), lfd(n, 1, FLOATS + 8 * slot)]);
    }
    // addi r1, r1, FRAME; li r3, 7
    words.extend([ld(0, 1, CR), MTCR, 0x3821_0000 | FRAME]);
    words.extend([ld(0, 1, 16), MTLR, 0x3860_0007, BLR]);
    words
}

/// A function that changes all that one may change, and settings that one leaves alone: what a
/// handler might by chance leave as it is.
pub(super) fn trash() -> Vec<u32> {
    /// Below the stack pointer: nothing is called from here.
    const ONES: u32 = 0xfff0;
    // vxor v0, v0, v0
    let mut words = Vec::from([0x1000_04c4, MTVSCR]);
    // li r0, -1
    words.extend([0x3800_ffff, std(0, 1, ONES), std(0, 1, ONES + 8)]);
    // f14 to f31 are kept, the other halves of their registers are not: xxmrghd n, n, vs0.
    words.extend(by_r5(LXVD2X, 0, 1, ONES));
    words.extend((14..32).map(|n| 0xf000_0050 | n << 21 | n << 16));
    words.extend((1..14).flat_map(|n| by_r5(LXVD2X, n, 1, ONES)));
    words.extend((0..20).flat_map(|n| by_r5(LVX, n, 1, ONES)));
    words.extend([MTCTR, MTXER, MTVRSAVE]);
    // mtcrf for the fields 0, 1, 5, 6, 7.
    words.push(0x7c0c_7120);
    // Rounds to minus infinity, in decimal likewise: li r0, 3; sldi r0, r0, 32; ori r0, r0, 3.
    words.extend([0x3800_0003, 0x7800_07c6, 0x6000_0003]);
    words.extend([std(0, 1, ONES), lfd(0, 1, ONES), MTFSF]);
    words.extend((3..13).map(|n| 0x3800_ffff | n << 21));
    words.push(BLR);
    words
}
