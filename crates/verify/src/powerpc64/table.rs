//! The instructions that are known, by their bits (Power ISA 3.1B, books I and II).

/// The operands of an instruction, and what it does with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperandForm {
    /// rt = ra (or 0 for r0) + a signed immediate, shifted to the left by so many bits.
    AddImmediate(u32),
    /// ra = rs with an unsigned immediate, shifted to the left by so many bits.
    OrImmediate(u32),
    /// The same with other operations.
    LogicImmediate,
    /// ... that write cr0.
    LogicImmediateRecord,
    /// A load of a general register, or a floating-point register; `ds`: the displacement is a
    /// multiple of 4.
    Load {
        float: bool,
        ds: bool,
    },
    /// A store of so many bytes.
    Store {
        bytes: i64,
        float: bool,
        ds: bool,
    },
    /// A store of a doubleword that makes ra the address.
    StoreUpdate,
    /// Loads with two registers as address, with reservation, too.
    LoadIndexed,
    StoreIndexed,
    /// Writes cr0.
    StoreConditional,
    /// rt from ra and rb.
    Arithmetic,
    /// rt from ra.
    ArithmeticUnary,
    /// ra from rs and rb.
    Logic,
    /// ra from rs.
    LogicUnary,
    /// ra from rs and rb, or the immediate of a word or doubleword shift; writes the carry.
    ShiftSigned,
    ShiftSignedWord,
    ShiftSignedDouble,
    /// ra from rs by a rotation with a mask: which of its ends is given.
    RotateLeftEnd,
    RotateRightEnd,
    RotateBothEnds,
    RotateWord,
    /// Writes a condition field.
    Compare,
    CompareSigned,
    CompareUnsigned,
    /// rt from, or to, the link or count register.
    FromLink,
    FromCount,
    ToLink,
    ToCount,
    /// rt from condition fields.
    FromFields,
    /// To condition fields by mask.
    ToFields,
    /// A floating-point register from another.
    FloatMove,
    /// A general register from a vector register, or back.
    FromVector,
    ToVector,
    Jump,
    Branch,
    Return,
    JumpToCount,
    /// Stops.
    Trap,
    /// Waits for other accesses or instructions.
    Barrier,
}

/// One row: the bits that are fixed, what they are, the name, the operands.
pub(super) struct Row {
    mask: u32,
    value: u32,
    pub(super) name: &'static str,
    pub(super) form: OperandForm,
}

const fn row(mask: u32, value: u32, name: &'static str, form: OperandForm) -> Row {
    Row {
        mask,
        value,
        name,
        form,
    }
}

/// By primary opcode alone.
const fn op(opcode: u32, name: &'static str, form: OperandForm) -> Row {
    row(0xfc00_0000, opcode << 26, name, form)
}

/// By primary opcode and the two lowest bits.
const fn ds(opcode: u32, xo: u32, name: &'static str, form: OperandForm) -> Row {
    row(0xfc00_0003, opcode << 26 | xo, name, form)
}

/// By primary opcode 31, ten bits of extended opcode, and the lowest bit.
const fn x(xo: u32, name: &'static str, form: OperandForm) -> Row {
    row(0xfc00_07ff, 31 << 26 | xo << 1, name, form)
}

/// The same with the third register unused.
const fn x_unary(xo: u32, name: &'static str, form: OperandForm) -> Row {
    row(0xfc00_ffff, 31 << 26 | xo << 1, name, form)
}

/// By primary opcode 30, three bits of extended opcode, and the lowest bit.
const fn md(xo: u32, name: &'static str, form: OperandForm) -> Row {
    row(0xfc00_001d, 30 << 26 | xo << 2, name, form)
}

/// By all bits but the first register, or by all.
const fn spr(value: u32, name: &'static str, form: OperandForm) -> Row {
    row(0xfc1f_ffff, value, name, form)
}

const fn word(value: u32, name: &'static str, form: OperandForm) -> Row {
    row(u32::MAX, value, name, form)
}

const fn load(float: bool) -> OperandForm {
    OperandForm::Load { float, ds: false }
}

const fn store(bytes: i64) -> OperandForm {
    OperandForm::Store {
        bytes,
        float: false,
        ds: false,
    }
}

static ROWS: &[Row] = &[
    word(0x0000_0000, ".long 0", OperandForm::Trap),
    word(0x7fe0_0008, "trap", OperandForm::Trap),
    row(0xfc40_0000, 10 << 26, "cmpl", OperandForm::CompareUnsigned),
    row(0xfc40_0000, 11 << 26, "cmp", OperandForm::CompareSigned),
    op(14, "addi", OperandForm::AddImmediate(0)),
    op(15, "addis", OperandForm::AddImmediate(16)),
    op(16, "bc", OperandForm::Branch),
    op(18, "b", OperandForm::Jump),
    word(0x4e80_0020, "blr", OperandForm::Return),
    word(0x4e80_0420, "bctr", OperandForm::JumpToCount),
    word(0x4c00_012c, "isync", OperandForm::Barrier),
    row(0xfc00_0001, 21 << 26, "rlwinm", OperandForm::RotateWord),
    op(24, "ori", OperandForm::OrImmediate(0)),
    op(25, "oris", OperandForm::OrImmediate(16)),
    op(26, "xori", OperandForm::LogicImmediate),
    op(27, "xoris", OperandForm::LogicImmediate),
    op(28, "andi.", OperandForm::LogicImmediateRecord),
    op(29, "andis.", OperandForm::LogicImmediateRecord),
    md(0, "rldicl", OperandForm::RotateLeftEnd),
    md(1, "rldicr", OperandForm::RotateRightEnd),
    md(2, "rldic", OperandForm::RotateBothEnds),
    row(0xfc40_07ff, 31 << 26, "cmp", OperandForm::Compare),
    row(0xfc40_07ff, 31 << 26 | 32 << 1, "cmpl", OperandForm::Compare),
    op(32, "lwz", load(false)),
    op(34, "lbz", load(false)),
    op(36, "stw", store(4)),
    op(38, "stb", store(1)),
    op(40, "lhz", load(false)),
    op(42, "lha", load(false)),
    op(44, "sth", store(2)),
    op(48, "lfs", load(true)),
    op(50, "lfd", load(true)),
    op(
        52,
        "stfs",
        OperandForm::Store {
            bytes: 4,
            float: true,
            ds: false,
        },
    ),
    op(
        54,
        "stfd",
        OperandForm::Store {
            bytes: 8,
            float: true,
            ds: false,
        },
    ),
    ds(
        58,
        0,
        "ld",
        OperandForm::Load {
            float: false,
            ds: true,
        },
    ),
    ds(
        58,
        2,
        "lwa",
        OperandForm::Load {
            float: false,
            ds: true,
        },
    ),
    ds(
        62,
        0,
        "std",
        OperandForm::Store {
            bytes: 8,
            float: false,
            ds: true,
        },
    ),
    ds(62, 1, "stdu", OperandForm::StoreUpdate),
    x(21, "ldx", OperandForm::LoadIndexed),
    x(23, "lwzx", OperandForm::LoadIndexed),
    x(87, "lbzx", OperandForm::LoadIndexed),
    x(279, "lhzx", OperandForm::LoadIndexed),
    x(341, "lwax", OperandForm::LoadIndexed),
    x(343, "lhax", OperandForm::LoadIndexed),
    x(20, "lwarx", OperandForm::LoadIndexed),
    x(52, "lbarx", OperandForm::LoadIndexed),
    x(84, "ldarx", OperandForm::LoadIndexed),
    x(116, "lharx", OperandForm::LoadIndexed),
    x(149, "stdx", OperandForm::StoreIndexed),
    x(151, "stwx", OperandForm::StoreIndexed),
    x(215, "stbx", OperandForm::StoreIndexed),
    x(407, "sthx", OperandForm::StoreIndexed),
    row(
        0xfc00_07ff,
        31 << 26 | 150 << 1 | 1,
        "stwcx.",
        OperandForm::StoreConditional,
    ),
    row(
        0xfc00_07ff,
        31 << 26 | 214 << 1 | 1,
        "stdcx.",
        OperandForm::StoreConditional,
    ),
    row(
        0xfc00_07ff,
        31 << 26 | 694 << 1 | 1,
        "stbcx.",
        OperandForm::StoreConditional,
    ),
    row(
        0xfc00_07ff,
        31 << 26 | 726 << 1 | 1,
        "sthcx.",
        OperandForm::StoreConditional,
    ),
    x(40, "subf", OperandForm::Arithmetic),
    x(233, "mulld", OperandForm::Arithmetic),
    x(235, "mullw", OperandForm::Arithmetic),
    x(266, "add", OperandForm::Arithmetic),
    x_unary(104, "neg", OperandForm::ArithmeticUnary),
    x(24, "slw", OperandForm::Logic),
    x(27, "sld", OperandForm::Logic),
    x(28, "and", OperandForm::Logic),
    x(60, "andc", OperandForm::Logic),
    x(124, "nor", OperandForm::Logic),
    x(284, "eqv", OperandForm::Logic),
    x(316, "xor", OperandForm::Logic),
    x(412, "orc", OperandForm::Logic),
    x(444, "or", OperandForm::Logic),
    x(476, "nand", OperandForm::Logic),
    x(536, "srw", OperandForm::Logic),
    x(539, "srd", OperandForm::Logic),
    x_unary(26, "cntlzw", OperandForm::LogicUnary),
    x_unary(58, "cntlzd", OperandForm::LogicUnary),
    x_unary(922, "extsh", OperandForm::LogicUnary),
    x_unary(954, "extsb", OperandForm::LogicUnary),
    x_unary(986, "extsw", OperandForm::LogicUnary),
    x(792, "sraw", OperandForm::ShiftSigned),
    x(794, "srad", OperandForm::ShiftSigned),
    x(824, "srawi", OperandForm::ShiftSignedWord),
    row(
        0xfc00_07fd,
        31 << 26 | 413 << 2,
        "sradi",
        OperandForm::ShiftSignedDouble,
    ),
    spr(0x7c08_02a6, "mflr", OperandForm::FromLink),
    spr(0x7c09_02a6, "mfctr", OperandForm::FromCount),
    spr(0x7c08_03a6, "mtlr", OperandForm::ToLink),
    spr(0x7c09_03a6, "mtctr", OperandForm::ToCount),
    spr(0x7c00_0026, "mfcr", OperandForm::FromFields),
    row(0xfc10_0fff, 0x7c10_0026, "mfocrf", OperandForm::FromFields),
    row(0xfc10_0fff, 0x7c00_0120, "mtcrf", OperandForm::ToFields),
    row(0xfc10_0fff, 0x7c10_0120, "mtocrf", OperandForm::ToFields),
    row(0xfc1f_07ff, 63 << 26 | 72 << 1, "fmr", OperandForm::FloatMove),
    row(0xfc00_fffe, 31 << 26 | 51 << 1, "mfvsrd", OperandForm::FromVector),
    row(0xfc00_fffe, 31 << 26 | 179 << 1, "mtvsrd", OperandForm::ToVector),
    word(0x7c00_04ac, "sync", OperandForm::Barrier),
    word(0x7c20_04ac, "lwsync", OperandForm::Barrier),
    word(0x7c00_06ac, "eieio", OperandForm::Barrier),
];

/// The row of an instruction.
pub(super) fn find(word: u32) -> Option<&'static Row> {
    ROWS.iter().find(|row| word & row.mask == row.value)
}

/// An instruction's fields. Bit 0 of the manual is the highest of 32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word(pub(super) u32);

impl Word {
    /// Bits 6 to 10: rt or rs.
    pub(super) const fn t(self) -> u16 {
        (self.0 >> 21 & 31) as u16
    }

    /// Bits 11 to 15.
    pub(super) const fn a(self) -> u16 {
        (self.0 >> 16 & 31) as u16
    }

    /// Bits 16 to 20: rb, or the shift of a word.
    pub(super) const fn b(self) -> u16 {
        (self.0 >> 11 & 31) as u16
    }

    /// The sign-extended low half.
    pub(super) const fn si(self) -> i64 {
        self.0 as i16 as i64
    }

    /// The low half.
    pub(super) const fn ui(self) -> u64 {
        self.0 as u16 as u64
    }

    /// The displacement of a DS form.
    pub(super) const fn ds(self) -> i64 {
        (self.0 & 0xfffc) as u16 as i16 as i64
    }

    /// The six-bit shift of MD and XS forms.
    pub(super) const fn shift(self) -> u32 {
        self.0 >> 11 & 31 | (self.0 >> 1 & 1) << 5
    }

    /// The six-bit end of a mask in MD forms.
    pub(super) const fn end(self) -> u32 {
        self.0 >> 6 & 31 | self.0 & 32
    }

    /// The condition field that a comparison writes.
    pub(super) const fn field(self) -> u32 {
        self.0 >> 23 & 7
    }

    /// Whether a comparison is of doublewords.
    pub(super) const fn is_double(self) -> bool {
        self.0 >> 21 & 1 == 1
    }

    /// The mask of condition fields.
    pub(super) const fn fields(self) -> u32 {
        self.0 >> 12 & 0xff
    }

    /// A vector register, 0 to 63.
    pub(super) const fn vector(self) -> u16 {
        self.t() | ((self.0 & 1) as u16) << 5
    }

    /// Whether a branch writes the link register.
    pub(super) const fn links(self) -> bool {
        self.0 & 1 == 1
    }

    /// The target of a `b` or `bc` at an address.
    pub(super) const fn target(self, addr: u64) -> u64 {
        let distance = match self.0 >> 26 {
            18 => ((self.0 & 0x03ff_fffc) << 6) as i32 as i64 >> 6,
            _ => self.ds(),
        };
        match self.0 & 2 {
            0 => addr.wrapping_add_signed(distance),
            _ => distance as u64,
        }
    }
}
