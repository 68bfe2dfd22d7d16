//! The fields of one instruction, and its text.

use alloc::string::String;
use core::fmt::Write;

use super::table::{self, File, Imm, KnownInstruction, Layout};

/// Where things are in an instruction, by its layout; what the layout has not is 0.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    pub(super) addr: u64,
    pub(super) len: u8,
    pub(super) known: Option<&'static KnownInstruction>,
    pub(super) r1: u8,
    /// The second register: R2, or R3 where an address follows.
    pub(super) r2: u8,
    pub(super) base: u8,
    pub(super) index: u8,
    pub(super) disp: i64,
    pub(super) imm: i64,
    /// The target of a distance.
    pub(super) target: u64,
    /// The bytes, left-aligned.
    bytes: [u8; 6],
}

impl Fields {
    pub(super) fn of(addr: u64, instruction: &[u8]) -> Self {
        let mut bytes = [0; 6];
        for (to, from) in bytes.iter_mut().zip(instruction) {
            *to = *from;
        }
        let mut fields = Self {
            addr,
            len: instruction.len() as u8,
            known: table::find(bytes),
            r1: bytes[1] >> 4,
            r2: bytes[1] & 15,
            base: 0,
            index: 0,
            disp: 0,
            imm: 0,
            target: 0,
            bytes,
        };
        if let Some(known) = fields.known {
            fields.read(known.layout);
        }
        fields
    }

    fn read(&mut self, layout: Layout) {
        let [_, b1, b2, b3, b4, b5] = self.bytes;
        match layout {
            Layout::Rr(..) => {}
            Layout::Rre(..) | Layout::RreOne(_) => (self.r1, self.r2) = (b3 >> 4, b3 & 15),
            Layout::Ri(_, imm) => self.immediate(imm, i64::from(i16::from_be_bytes([b2, b3])), 16),
            Layout::Ril(_, imm) => {
                self.immediate(imm, i64::from(i32::from_be_bytes([b2, b3, b4, b5])), 32);
            }
            Layout::Rx(_) => {
                self.index = b1 & 15;
                self.short_address();
            }
            Layout::Rxy(_) => {
                self.index = b1 & 15;
                self.long_address();
            }
            Layout::Rs | Layout::ShiftShort => self.short_address(),
            Layout::Rsy | Layout::Shift => self.long_address(),
            Layout::Si(imm) => {
                self.short_address();
                self.immediate(imm, i64::from(b1 as i8), 8);
            }
            Layout::Siy(imm) => {
                self.long_address();
                self.immediate(imm, i64::from(b1 as i8), 8);
            }
            Layout::Sil(imm) => {
                self.short_address();
                self.immediate(imm, i64::from(i16::from_be_bytes([b4, b5])), 16);
            }
            Layout::Select => {}
            Layout::CompareRegisters | Layout::CompareImmediate => {
                self.immediate(Imm::Distance, i64::from(i16::from_be_bytes([b2, b3])), 16);
            }
        }
    }

    fn immediate(&mut self, imm: Imm, signed: i64, bits: u32) {
        match imm {
            Imm::Signed => self.imm = signed,
            Imm::Unsigned => self.imm = signed & ((1 << bits) - 1),
            Imm::Distance => self.target = self.addr.wrapping_add_signed(signed.wrapping_mul(2)),
        }
    }

    fn short_address(&mut self) {
        let [_, _, b2, b3, ..] = self.bytes;
        self.base = b2 >> 4;
        self.disp = i64::from(b2 & 15) << 8 | i64::from(b3);
    }

    fn long_address(&mut self) {
        let [_, _, _, _, high, _] = self.bytes;
        self.short_address();
        self.disp |= i64::from(high as i8) << 12;
    }

    /// The registers from the first to the last, which may wrap around.
    pub(super) fn many(&self) -> impl Iterator<Item = u8> {
        let (first, count) = (self.r1, (self.r2.wrapping_sub(self.r1) & 15) + 1);
        (0..count).map(move |n| first.wrapping_add(n) & 15)
    }
}

struct Address<'f>(&'f Fields);

impl core::fmt::Display for Address<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Fields {
            base, index, disp, ..
        } = self.0;
        match (index, base) {
            (0, 0) => write!(f, "{disp}"),
            (0, base) => write!(f, "{disp}(%r{base})"),
            (index, 0) => write!(f, "{disp}(%r{index})"),
            (index, base) => write!(f, "{disp}(%r{index},%r{base})"),
        }
    }
}

struct Register(File, u8);

impl core::fmt::Display for Register {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            File::General => write!(f, "%r{}", self.1),
            File::Float => write!(f, "%f{}", self.1),
            File::Mask => write!(f, "{}", self.1),
        }
    }
}

/// The instruction in the assembler's notation; those that are not known as their bytes.
pub(super) fn write(fields: &Fields, out: &mut String) {
    let _ = try_write(fields, out);
}

fn try_write(fields: &Fields, out: &mut String) -> core::fmt::Result {
    let Some(known) = fields.known else {
        out.push_str(".insn");
        for byte in fields.bytes.iter().take(fields.len.into()) {
            write!(out, " {byte:02x}")?;
        }
        return Ok(());
    };
    out.push_str(known.name);
    let r1 = |file| Register(file, fields.r1);
    let address = Address(fields);
    let [_, _, b2, b3, b4, _] = fields.bytes;
    match known.layout {
        Layout::Rr(first, second) | Layout::Rre(first, second) => {
            write!(out, " {}, {}", r1(first), Register(second, fields.r2))
        }
        Layout::RreOne(first) => write!(out, " {}", r1(first)),
        Layout::Ri(first, Imm::Distance) | Layout::Ril(first, Imm::Distance) => {
            write!(out, " {}, {:#x}", r1(first), fields.target)
        }
        Layout::Ri(first, _) | Layout::Ril(first, _) => write!(out, " {}, {}", r1(first), fields.imm),
        Layout::Rx(first) | Layout::Rxy(first) => write!(out, " {}, {address}", r1(first)),
        Layout::Rs | Layout::Rsy | Layout::Shift => {
            write!(out, " {}, %r{}, {address}", r1(File::General), fields.r2)
        }
        Layout::ShiftShort => write!(out, " {}, {address}", r1(File::General)),
        Layout::Si(_) | Layout::Siy(_) | Layout::Sil(_) => write!(out, " {address}, {}", fields.imm),
        Layout::Select => write!(out, " %r{}, %r{}, {b2}, {b3}, {b4}", fields.r1, fields.r2),
        Layout::CompareRegisters => write!(
            out,
            " %r{}, %r{}, {}, {:#x}",
            fields.r1,
            fields.r2,
            b4 >> 4,
            fields.target
        ),
        Layout::CompareImmediate => {
            let imm = match known.name.starts_with("cl") {
                true => i64::from(b4),
                false => i64::from(b4 as i8),
            };
            write!(
                out,
                " %r{}, {imm}, {}, {:#x}",
                fields.r1, fields.r2, fields.target
            )
        }
    }
}
