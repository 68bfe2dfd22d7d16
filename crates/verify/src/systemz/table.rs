//! The instructions that are known, by operation code (Principles of Operation, appendix B).

/// A register operand's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum File {
    General,
    Float,
    /// Four bits that select condition codes.
    Mask,
}

/// What an immediate field means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Imm {
    Signed,
    Unsigned,
    /// Halfwords from the instruction's start.
    Distance,
}

/// Where the operands are (Principles of Operation, chapter 5, "Instruction Formats").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Rr(File, File),
    Rre(File, File),
    /// Of RRE the first operand only.
    RreOne(File),
    Ri(File, Imm),
    Ril(File, Imm),
    Rx(File),
    Rxy(File),
    Rs,
    Rsy,
    /// RS with an amount in place of an address, and one register.
    ShiftShort,
    /// RSY with an amount in place of an address.
    Shift,
    Si(Imm),
    Siy(Imm),
    Sil(Imm),
    /// RIE-f.
    Select,
    /// RIE-b.
    CompareRegisters,
    /// RIE-c.
    CompareImmediate,
}

impl Layout {
    /// The file of the first register.
    pub(super) const fn first_file(self) -> File {
        match self {
            Self::Rr(file, _)
            | Self::Rre(file, _)
            | Self::RreOne(file)
            | Self::Ri(file, _)
            | Self::Ril(file, _)
            | Self::Rx(file)
            | Self::Rxy(file) => file,
            _ => File::General,
        }
    }
}

/// What an instruction does beyond setting the condition code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// Nothing.
    Looks,
    /// Writes all or a part of the first register.
    Sets,
    /// Sets the first register to the immediate, shifted to the left by so many bits.
    Constant(u8),
    /// Sets the first register to all of the second.
    Copies,
    /// Writes so many bytes of memory.
    Stores(u8),
    /// Writes so many bytes of memory, and the first register.
    Swaps(u8),
    /// Reads the registers from the first to the second from memory.
    LoadsMany,
    /// Writes them to memory.
    StoresMany,
    Branch,
    Call,
    /// Decrements the first register, and branches unless it is 0 then.
    Counts,
}

/// One instruction.
#[derive(Debug)]
pub(super) struct KnownInstruction {
    /// The operation code, without the bits between its parts.
    op: u16,
    pub(super) name: &'static str,
    pub(super) layout: Layout,
    pub(super) does: Does,
}

/// The instruction that these bytes, left-aligned, are.
pub(super) fn find(bytes: [u8; 6]) -> Option<&'static KnownInstruction> {
    let [first, second, .., last] = bytes;
    let wide = u16::from(first) << 8;
    // Which bits belong to the operation code depends on its first byte.
    let op = match first {
        0xa5 | 0xa7 | 0xc0..=0xc6 | 0xcc => u16::from(first) << 4 | u16::from(second & 15),
        0x01 | 0xb2 | 0xb3 | 0xb9 | 0xe5 => wide | u16::from(second),
        0xe3 | 0xe7 | 0xeb..=0xed => wide | u16::from(last),
        _ => u16::from(first),
    };
    let at = KNOWN.binary_search_by_key(&op, |known| known.op).ok()?;
    KNOWN.get(at)
}

macro_rules! known {
    ($($op:literal $name:literal $layout:expr, $does:expr;)*) => {
        [$(KnownInstruction { op: $op, name: $name, layout: $layout, does: $does }),*]
    };
}

use Does::*;
use File::*;
use Imm::*;
use Layout::*;

/// In ascending order.
#[rustfmt::skip]
static KNOWN: [KnownInstruction; 288] = known! {
    0x07 "bcr" Rr(Mask, General), Branch;
    0x0d "basr" Rr(General, General), Call;
    0x10 "lpr" Rr(General, General), Sets;
    0x11 "lnr" Rr(General, General), Sets;
    0x12 "ltr" Rr(General, General), Sets;
    0x13 "lcr" Rr(General, General), Sets;
    0x14 "nr" Rr(General, General), Sets;
    0x15 "clr" Rr(General, General), Looks;
    0x16 "or" Rr(General, General), Sets;
    0x17 "xr" Rr(General, General), Sets;
    0x18 "lr" Rr(General, General), Sets;
    0x19 "cr" Rr(General, General), Looks;
    0x1a "ar" Rr(General, General), Sets;
    0x1b "sr" Rr(General, General), Sets;
    0x1e "alr" Rr(General, General), Sets;
    0x1f "slr" Rr(General, General), Sets;
    0x28 "ldr" Rr(Float, Float), Sets;
    0x38 "ler" Rr(Float, Float), Sets;
    0x40 "sth" Rx(General), Stores(2);
    0x41 "la" Rx(General), Sets;
    0x42 "stc" Rx(General), Stores(1);
    0x43 "ic" Rx(General), Sets;
    0x47 "bc" Rx(Mask), Branch;
    0x48 "lh" Rx(General), Sets;
    0x49 "ch" Rx(General), Looks;
    0x4a "ah" Rx(General), Sets;
    0x4b "sh" Rx(General), Sets;
    0x4c "mh" Rx(General), Sets;
    0x50 "st" Rx(General), Stores(4);
    0x54 "n" Rx(General), Sets;
    0x55 "cl" Rx(General), Looks;
    0x56 "o" Rx(General), Sets;
    0x57 "x" Rx(General), Sets;
    0x58 "l" Rx(General), Sets;
    0x59 "c" Rx(General), Looks;
    0x5a "a" Rx(General), Sets;
    0x5b "s" Rx(General), Sets;
    0x5e "al" Rx(General), Sets;
    0x5f "sl" Rx(General), Sets;
    0x60 "std" Rx(Float), Stores(8);
    0x68 "ld" Rx(Float), Sets;
    0x70 "ste" Rx(Float), Stores(4);
    0x71 "ms" Rx(General), Sets;
    0x78 "le" Rx(Float), Sets;
    0x88 "srl" ShiftShort, Sets;
    0x89 "sll" ShiftShort, Sets;
    0x8a "sra" ShiftShort, Sets;
    0x8b "sla" ShiftShort, Sets;
    0x91 "tm" Si(Unsigned), Looks;
    0x92 "mvi" Si(Unsigned), Stores(1);
    0x94 "ni" Si(Unsigned), Stores(1);
    0x95 "cli" Si(Unsigned), Looks;
    0x96 "oi" Si(Unsigned), Stores(1);
    0x97 "xi" Si(Unsigned), Stores(1);
    0xba "cs" Rs, Swaps(4);
    0xa50 "iihh" Ri(General, Unsigned), Sets;
    0xa51 "iihl" Ri(General, Unsigned), Sets;
    0xa52 "iilh" Ri(General, Unsigned), Sets;
    0xa53 "iill" Ri(General, Unsigned), Sets;
    0xa54 "nihh" Ri(General, Unsigned), Sets;
    0xa55 "nihl" Ri(General, Unsigned), Sets;
    0xa56 "nilh" Ri(General, Unsigned), Sets;
    0xa57 "nill" Ri(General, Unsigned), Sets;
    0xa58 "oihh" Ri(General, Unsigned), Sets;
    0xa59 "oihl" Ri(General, Unsigned), Sets;
    0xa5a "oilh" Ri(General, Unsigned), Sets;
    0xa5b "oill" Ri(General, Unsigned), Sets;
    0xa5c "llihh" Ri(General, Unsigned), Constant(48);
    0xa5d "llihl" Ri(General, Unsigned), Constant(32);
    0xa5e "llilh" Ri(General, Unsigned), Constant(16);
    0xa5f "llill" Ri(General, Unsigned), Constant(0);
    0xa70 "tmlh" Ri(General, Unsigned), Looks;
    0xa71 "tmll" Ri(General, Unsigned), Looks;
    0xa72 "tmhh" Ri(General, Unsigned), Looks;
    0xa73 "tmhl" Ri(General, Unsigned), Looks;
    0xa74 "brc" Ri(Mask, Distance), Branch;
    0xa75 "bras" Ri(General, Distance), Call;
    0xa76 "brct" Ri(General, Distance), Counts;
    0xa77 "brctg" Ri(General, Distance), Counts;
    0xa78 "lhi" Ri(General, Signed), Sets;
    0xa79 "lghi" Ri(General, Signed), Constant(0);
    0xa7a "ahi" Ri(General, Signed), Sets;
    0xa7b "aghi" Ri(General, Signed), Sets;
    0xa7c "mhi" Ri(General, Signed), Sets;
    0xa7d "mghi" Ri(General, Signed), Sets;
    0xa7e "chi" Ri(General, Signed), Looks;
    0xa7f "cghi" Ri(General, Signed), Looks;
    0xc00 "larl" Ril(General, Distance), Sets;
    0xc01 "lgfi" Ril(General, Signed), Constant(0);
    0xc04 "brcl" Ril(Mask, Distance), Branch;
    0xc05 "brasl" Ril(General, Distance), Call;
    0xc06 "xihf" Ril(General, Unsigned), Sets;
    0xc07 "xilf" Ril(General, Unsigned), Sets;
    0xc08 "iihf" Ril(General, Unsigned), Sets;
    0xc09 "iilf" Ril(General, Unsigned), Sets;
    0xc0a "nihf" Ril(General, Unsigned), Sets;
    0xc0b "nilf" Ril(General, Unsigned), Sets;
    0xc0c "oihf" Ril(General, Unsigned), Sets;
    0xc0d "oilf" Ril(General, Unsigned), Sets;
    0xc0e "llihf" Ril(General, Unsigned), Constant(32);
    0xc0f "llilf" Ril(General, Unsigned), Constant(0);
    0xc20 "msgfi" Ril(General, Signed), Sets;
    0xc21 "msfi" Ril(General, Signed), Sets;
    0xc24 "slgfi" Ril(General, Unsigned), Sets;
    0xc25 "slfi" Ril(General, Unsigned), Sets;
    0xc28 "agfi" Ril(General, Signed), Sets;
    0xc29 "afi" Ril(General, Signed), Sets;
    0xc2a "algfi" Ril(General, Unsigned), Sets;
    0xc2b "alfi" Ril(General, Unsigned), Sets;
    0xc2c "cgfi" Ril(General, Signed), Looks;
    0xc2d "cfi" Ril(General, Signed), Looks;
    0xc2e "clgfi" Ril(General, Unsigned), Looks;
    0xc2f "clfi" Ril(General, Unsigned), Looks;
    0xc42 "llhrl" Ril(General, Distance), Sets;
    0xc44 "lghrl" Ril(General, Distance), Sets;
    0xc45 "lhrl" Ril(General, Distance), Sets;
    0xc46 "llghrl" Ril(General, Distance), Sets;
    0xc47 "sthrl" Ril(General, Distance), Stores(2);
    0xc48 "lgrl" Ril(General, Distance), Sets;
    0xc4b "stgrl" Ril(General, Distance), Stores(8);
    0xc4c "lgfrl" Ril(General, Distance), Sets;
    0xc4d "lrl" Ril(General, Distance), Sets;
    0xc4e "llgfrl" Ril(General, Distance), Sets;
    0xc4f "strl" Ril(General, Distance), Stores(4);
    0xc64 "cghrl" Ril(General, Distance), Looks;
    0xc65 "chrl" Ril(General, Distance), Looks;
    0xc66 "clghrl" Ril(General, Distance), Looks;
    0xc67 "clhrl" Ril(General, Distance), Looks;
    0xc68 "cgrl" Ril(General, Distance), Looks;
    0xc6a "clgrl" Ril(General, Distance), Looks;
    0xc6c "cgfrl" Ril(General, Distance), Looks;
    0xc6d "crl" Ril(General, Distance), Looks;
    0xc6e "clgfrl" Ril(General, Distance), Looks;
    0xc6f "clrl" Ril(General, Distance), Looks;
    0xb252 "msr" Rre(General, General), Sets;
    0xb374 "lzer" RreOne(Float), Sets;
    0xb375 "lzdr" RreOne(Float), Sets;
    0xb3c1 "ldgr" Rre(Float, General), Sets;
    0xb3cd "lgdr" Rre(General, Float), Sets;
    0xb900 "lpgr" Rre(General, General), Sets;
    0xb901 "lngr" Rre(General, General), Sets;
    0xb902 "ltgr" Rre(General, General), Sets;
    0xb903 "lcgr" Rre(General, General), Sets;
    0xb904 "lgr" Rre(General, General), Copies;
    0xb906 "lgbr" Rre(General, General), Sets;
    0xb907 "lghr" Rre(General, General), Sets;
    0xb908 "agr" Rre(General, General), Sets;
    0xb909 "sgr" Rre(General, General), Sets;
    0xb90a "algr" Rre(General, General), Sets;
    0xb90b "slgr" Rre(General, General), Sets;
    0xb90c "msgr" Rre(General, General), Sets;
    0xb90f "lrvgr" Rre(General, General), Sets;
    0xb912 "ltgfr" Rre(General, General), Sets;
    0xb913 "lcgfr" Rre(General, General), Sets;
    0xb914 "lgfr" Rre(General, General), Sets;
    0xb916 "llgfr" Rre(General, General), Sets;
    0xb917 "llgtr" Rre(General, General), Sets;
    0xb918 "agfr" Rre(General, General), Sets;
    0xb919 "sgfr" Rre(General, General), Sets;
    0xb91a "algfr" Rre(General, General), Sets;
    0xb91b "slgfr" Rre(General, General), Sets;
    0xb91c "msgfr" Rre(General, General), Sets;
    0xb91f "lrvr" Rre(General, General), Sets;
    0xb920 "cgr" Rre(General, General), Looks;
    0xb921 "clgr" Rre(General, General), Looks;
    0xb926 "lbr" Rre(General, General), Sets;
    0xb927 "lhr" Rre(General, General), Sets;
    0xb930 "cgfr" Rre(General, General), Looks;
    0xb931 "clgfr" Rre(General, General), Looks;
    0xb980 "ngr" Rre(General, General), Sets;
    0xb981 "ogr" Rre(General, General), Sets;
    0xb982 "xgr" Rre(General, General), Sets;
    0xb984 "llgcr" Rre(General, General), Sets;
    0xb985 "llghr" Rre(General, General), Sets;
    0xb994 "llcr" Rre(General, General), Sets;
    0xb995 "llhr" Rre(General, General), Sets;
    0xe302 "ltg" Rxy(General), Sets;
    0xe304 "lg" Rxy(General), Sets;
    0xe308 "ag" Rxy(General), Sets;
    0xe309 "sg" Rxy(General), Sets;
    0xe30a "alg" Rxy(General), Sets;
    0xe30b "slg" Rxy(General), Sets;
    0xe30c "msg" Rxy(General), Sets;
    0xe30f "lrvg" Rxy(General), Sets;
    0xe312 "lt" Rxy(General), Sets;
    0xe314 "lgf" Rxy(General), Sets;
    0xe315 "lgh" Rxy(General), Sets;
    0xe316 "llgf" Rxy(General), Sets;
    0xe317 "llgt" Rxy(General), Sets;
    0xe318 "agf" Rxy(General), Sets;
    0xe319 "sgf" Rxy(General), Sets;
    0xe31a "algf" Rxy(General), Sets;
    0xe31b "slgf" Rxy(General), Sets;
    0xe31c "msgf" Rxy(General), Sets;
    0xe31e "lrv" Rxy(General), Sets;
    0xe31f "lrvh" Rxy(General), Sets;
    0xe320 "cg" Rxy(General), Looks;
    0xe321 "clg" Rxy(General), Looks;
    0xe324 "stg" Rxy(General), Stores(8);
    0xe32f "strvg" Rxy(General), Stores(8);
    0xe330 "cgf" Rxy(General), Looks;
    0xe331 "clgf" Rxy(General), Looks;
    0xe332 "ltgf" Rxy(General), Sets;
    0xe334 "cgh" Rxy(General), Looks;
    0xe33e "strv" Rxy(General), Stores(4);
    0xe33f "strvh" Rxy(General), Stores(2);
    0xe350 "sty" Rxy(General), Stores(4);
    0xe351 "msy" Rxy(General), Sets;
    0xe354 "ny" Rxy(General), Sets;
    0xe355 "cly" Rxy(General), Looks;
    0xe356 "oy" Rxy(General), Sets;
    0xe357 "xy" Rxy(General), Sets;
    0xe358 "ly" Rxy(General), Sets;
    0xe359 "cy" Rxy(General), Looks;
    0xe35a "ay" Rxy(General), Sets;
    0xe35b "sy" Rxy(General), Sets;
    0xe35e "aly" Rxy(General), Sets;
    0xe35f "sly" Rxy(General), Sets;
    0xe370 "sthy" Rxy(General), Stores(2);
    0xe371 "lay" Rxy(General), Sets;
    0xe372 "stcy" Rxy(General), Stores(1);
    0xe373 "icy" Rxy(General), Sets;
    0xe376 "lb" Rxy(General), Sets;
    0xe377 "lgb" Rxy(General), Sets;
    0xe378 "lhy" Rxy(General), Sets;
    0xe379 "chy" Rxy(General), Looks;
    0xe37a "ahy" Rxy(General), Sets;
    0xe37b "shy" Rxy(General), Sets;
    0xe37c "mhy" Rxy(General), Sets;
    0xe380 "ng" Rxy(General), Sets;
    0xe381 "og" Rxy(General), Sets;
    0xe382 "xg" Rxy(General), Sets;
    0xe390 "llgc" Rxy(General), Sets;
    0xe391 "llgh" Rxy(General), Sets;
    0xe394 "llc" Rxy(General), Sets;
    0xe395 "llh" Rxy(General), Sets;
    0xe544 "mvhhi" Sil(Signed), Stores(2);
    0xe548 "mvghi" Sil(Signed), Stores(8);
    0xe54c "mvhi" Sil(Signed), Stores(4);
    0xe554 "chhsi" Sil(Signed), Looks;
    0xe555 "clhhsi" Sil(Unsigned), Looks;
    0xe558 "cghsi" Sil(Signed), Looks;
    0xe559 "clghsi" Sil(Unsigned), Looks;
    0xe55c "chsi" Sil(Signed), Looks;
    0xe55d "clfhsi" Sil(Unsigned), Looks;
    0xeb04 "lmg" Rsy, LoadsMany;
    0xeb0a "srag" Shift, Sets;
    0xeb0b "slag" Shift, Sets;
    0xeb0c "srlg" Shift, Sets;
    0xeb0d "sllg" Shift, Sets;
    0xeb14 "csy" Rsy, Swaps(4);
    0xeb1c "rllg" Shift, Sets;
    0xeb1d "rll" Shift, Sets;
    0xeb24 "stmg" Rsy, StoresMany;
    0xeb30 "csg" Rsy, Swaps(8);
    0xeb51 "tmy" Siy(Unsigned), Looks;
    0xeb52 "mviy" Siy(Unsigned), Stores(1);
    0xeb54 "niy" Siy(Unsigned), Stores(1);
    0xeb55 "cliy" Siy(Unsigned), Looks;
    0xeb56 "oiy" Siy(Unsigned), Stores(1);
    0xeb57 "xiy" Siy(Unsigned), Stores(1);
    0xeb6a "asi" Siy(Signed), Stores(4);
    0xeb6e "alsi" Siy(Signed), Stores(4);
    0xeb7a "agsi" Siy(Signed), Stores(8);
    0xeb7e "algsi" Siy(Signed), Stores(8);
    0xebe4 "lang" Rsy, Swaps(8);
    0xebe6 "laog" Rsy, Swaps(8);
    0xebe7 "laxg" Rsy, Swaps(8);
    0xebe8 "laag" Rsy, Swaps(8);
    0xebea "laalg" Rsy, Swaps(8);
    0xebf4 "lan" Rsy, Swaps(4);
    0xebf6 "lao" Rsy, Swaps(4);
    0xebf7 "lax" Rsy, Swaps(4);
    0xebf8 "laa" Rsy, Swaps(4);
    0xebfa "laal" Rsy, Swaps(4);
    0xec55 "risbg" Select, Sets;
    0xec64 "cgrj" CompareRegisters, Branch;
    0xec65 "clgrj" CompareRegisters, Branch;
    0xec76 "crj" CompareRegisters, Branch;
    0xec77 "clrj" CompareRegisters, Branch;
    0xec7c "cgij" CompareImmediate, Branch;
    0xec7d "clgij" CompareImmediate, Branch;
    0xec7e "cij" CompareImmediate, Branch;
    0xec7f "clij" CompareImmediate, Branch;
    0xed64 "ley" Rxy(Float), Sets;
    0xed65 "ldy" Rxy(Float), Sets;
    0xed66 "stey" Rxy(Float), Stores(4);
    0xed67 "stdy" Rxy(Float), Stores(8);
};

#[cfg(test)]
mod tests {
    use super::KNOWN;

    #[test]
    fn the_table_is_in_order() {
        assert!(KNOWN.windows(2).all(|two| two[0].op < two[1].op));
    }
}
