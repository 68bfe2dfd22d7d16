//! The instructions that are known, by their bits (Power ISA 3.1B, books I and II).

/// The operands of an instruction, and what it does with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
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
    pub(super) form: Form,
}

const fn row(mask: u32, value: u32, name: &'static str, form: Form) -> Row {
    Row {
        mask,
        value,
        name,
        form,
    }
}

/// By primary opcode alone.
const fn op(opcode: u32, name: &'static str, form: Form) -> Row {
    row(0xfc00_0000, opcode << 26, name, form)
}

/// By primary opcode and the two lowest bits.
const fn ds(opcode: u32, xo: u32, name: &'static str, form: Form) -> Row {
    row(0xfc00_0003, opcode << 26 | xo, name, form)
}

/// By primary opcode 31, ten bits of extended opcode, and the lowest bit.
const fn x(xo: u32, name: &'static str, form: Form) -> Row {
    row(0xfc00_07ff, 31 << 26 | xo << 1, name, form)
}

/// The same with the third register unused.
const fn x_unary(xo: u32, name: &'static str, form: Form) -> Row {
    row(0xfc00_ffff, 31 << 26 | xo << 1, name, form)
}

/// By primary opcode 30, three bits of extended opcode, and the lowest bit.
const fn md(xo: u32, name: &'static str, form: Form) -> Row {
    row(0xfc00_001d, 30 << 26 | xo << 2, name, form)
}

/// By all bits but the first register, or by all.
const fn spr(value: u32, name: &'static str, form: Form) -> Row {
    row(0xfc1f_ffff, value, name, form)
}

const fn word(value: u32, name: &'static str, form: Form) -> Row {
    row(u32::MAX, value, name, form)
}

const fn load(float: bool) -> Form {
    Form::Load { float, ds: false }
}

const fn store(bytes: i64) -> Form {
    Form::Store {
        bytes,
        float: false,
        ds: false,
    }
}

static ROWS: &[Row] = &[
    word(0x0000_0000, ".long 0", Form::Trap),
    word(0x7fe0_0008, "trap", Form::Trap),
    row(0xfc40_0000, 10 << 26, "cmpl", Form::CompareUnsigned),
    row(0xfc40_0000, 11 << 26, "cmp", Form::CompareSigned),
    op(14, "addi", Form::AddImmediate(0)),
    op(15, "addis", Form::AddImmediate(16)),
    op(16, "bc", Form::Branch),
    op(18, "b", Form::Jump),
    word(0x4e80_0020, "blr", Form::Return),
    word(0x4e80_0420, "bctr", Form::JumpToCount),
    word(0x4c00_012c, "isync", Form::Barrier),
    row(0xfc00_0001, 21 << 26, "rlwinm", Form::RotateWord),
    op(24, "ori", Form::OrImmediate(0)),
    op(25, "oris", Form::OrImmediate(16)),
    op(26, "xori", Form::LogicImmediate),
    op(27, "xoris", Form::LogicImmediate),
    op(28, "andi.", Form::LogicImmediateRecord),
    op(29, "andis.", Form::LogicImmediateRecord),
    md(0, "rldicl", Form::RotateLeftEnd),
    md(1, "rldicr", Form::RotateRightEnd),
    md(2, "rldic", Form::RotateBothEnds),
    row(0xfc40_07ff, 31 << 26, "cmp", Form::Compare),
    row(0xfc40_07ff, 31 << 26 | 32 << 1, "cmpl", Form::Compare),
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
        Form::Store {
            bytes: 4,
            float: true,
            ds: false,
        },
    ),
    op(
        54,
        "stfd",
        Form::Store {
            bytes: 8,
            float: true,
            ds: false,
        },
    ),
    ds(
        58,
        0,
        "ld",
        Form::Load {
            float: false,
            ds: true,
        },
    ),
    ds(
        58,
        2,
        "lwa",
        Form::Load {
            float: false,
            ds: true,
        },
    ),
    ds(
        62,
        0,
        "std",
        Form::Store {
            bytes: 8,
            float: false,
            ds: true,
        },
    ),
    ds(62, 1, "stdu", Form::StoreUpdate),
    x(21, "ldx", Form::LoadIndexed),
    x(23, "lwzx", Form::LoadIndexed),
    x(87, "lbzx", Form::LoadIndexed),
    x(279, "lhzx", Form::LoadIndexed),
    x(341, "lwax", Form::LoadIndexed),
    x(343, "lhax", Form::LoadIndexed),
    x(20, "lwarx", Form::LoadIndexed),
    x(52, "lbarx", Form::LoadIndexed),
    x(84, "ldarx", Form::LoadIndexed),
    x(116, "lharx", Form::LoadIndexed),
    x(149, "stdx", Form::StoreIndexed),
    x(151, "stwx", Form::StoreIndexed),
    x(215, "stbx", Form::StoreIndexed),
    x(407, "sthx", Form::StoreIndexed),
    row(
        0xfc00_07ff,
        31 << 26 | 150 << 1 | 1,
        "stwcx.",
        Form::StoreConditional,
    ),
    row(
        0xfc00_07ff,
        31 << 26 | 214 << 1 | 1,
        "stdcx.",
        Form::StoreConditional,
    ),
    row(
        0xfc00_07ff,
        31 << 26 | 694 << 1 | 1,
        "stbcx.",
        Form::StoreConditional,
    ),
    row(
        0xfc00_07ff,
        31 << 26 | 726 << 1 | 1,
        "sthcx.",
        Form::StoreConditional,
    ),
    x(40, "subf", Form::Arithmetic),
    x(233, "mulld", Form::Arithmetic),
    x(235, "mullw", Form::Arithmetic),
    x(266, "add", Form::Arithmetic),
    x_unary(104, "neg", Form::ArithmeticUnary),
    x(24, "slw", Form::Logic),
    x(27, "sld", Form::Logic),
    x(28, "and", Form::Logic),
    x(60, "andc", Form::Logic),
    x(124, "nor", Form::Logic),
    x(284, "eqv", Form::Logic),
    x(316, "xor", Form::Logic),
    x(412, "orc", Form::Logic),
    x(444, "or", Form::Logic),
    x(476, "nand", Form::Logic),
    x(536, "srw", Form::Logic),
    x(539, "srd", Form::Logic),
    x_unary(26, "cntlzw", Form::LogicUnary),
    x_unary(58, "cntlzd", Form::LogicUnary),
    x_unary(922, "extsh", Form::LogicUnary),
    x_unary(954, "extsb", Form::LogicUnary),
    x_unary(986, "extsw", Form::LogicUnary),
    x(792, "sraw", Form::ShiftSigned),
    x(794, "srad", Form::ShiftSigned),
    x(824, "srawi", Form::ShiftSignedWord),
    row(0xfc00_07fd, 31 << 26 | 413 << 2, "sradi", Form::ShiftSignedDouble),
    spr(0x7c08_02a6, "mflr", Form::FromLink),
    spr(0x7c09_02a6, "mfctr", Form::FromCount),
    spr(0x7c08_03a6, "mtlr", Form::ToLink),
    spr(0x7c09_03a6, "mtctr", Form::ToCount),
    spr(0x7c00_0026, "mfcr", Form::FromFields),
    row(0xfc10_0fff, 0x7c10_0026, "mfocrf", Form::FromFields),
    row(0xfc10_0fff, 0x7c00_0120, "mtcrf", Form::ToFields),
    row(0xfc10_0fff, 0x7c10_0120, "mtocrf", Form::ToFields),
    row(0xfc1f_07ff, 63 << 26 | 72 << 1, "fmr", Form::FloatMove),
    row(0xfc00_fffe, 31 << 26 | 51 << 1, "mfvsrd", Form::FromVector),
    row(0xfc00_fffe, 31 << 26 | 179 << 1, "mtvsrd", Form::ToVector),
    word(0x7c00_04ac, "sync", Form::Barrier),
    word(0x7c20_04ac, "lwsync", Form::Barrier),
    word(0x7c00_06ac, "eieio", Form::Barrier),
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
