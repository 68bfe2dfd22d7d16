//! What a flat map says of a function.

use core::fmt;

use super::{Arrays, FRAME_REGISTER};
use crate::addr::{ByteOffset, DwarfReg, Len};
use crate::bytes::{Bytes, Endian};
use crate::version::{Dialect, StackSize};

/// Why the fields of a frame can be read.
const THERE: &str = "a checked map has all of its frames";

/// What a flat map says of a function and its frame.
#[derive(Clone, Copy)]
pub struct FlatFrame<'a> {
    pub(crate) at: usize,
    address: u64,
    function_size: u32,
    stack_size: u32,
    flags: u16,
    base: u16,
    dialect: Dialect,
    pub(crate) records: u16,
    registers: FrameRegisters<'a>,
}

impl<'a> FlatFrame<'a> {
    /// The one at `index` of the map at `map`, which were checked.
    pub(crate) fn read(data: &'a [u8], endian: Endian, dialect: Dialect, map: usize, index: u32) -> Self {
        let (bytes, arrays) = (Bytes { data, endian }, Arrays::read(data, endian, dialect, map));
        let at = arrays.frames + index as usize * dialect.frame_size();
        let half = |from: usize| bytes.u16(at + from).expect(THERE);
        let (registers, records) = match dialect {
            Dialect::Proposal => ((half(20), half(22)), half(24)),
            Dialect::Fork => ((0, 0), half(22)),
        };
        let (count, index) = (usize::from(registers.0), usize::from(registers.1));
        let raw = match count {
            // An index without a number says nothing.
            0 => &[],
            _ => {
                let start = arrays.registers + index * FRAME_REGISTER;
                let end = start + count * FRAME_REGISTER;
                let registers = bytes.data.get(start..end);
                registers.expect("a checked frame's registers lie in their array")
            }
        };
        Self {
            at,
            address: bytes.u64(at).expect(THERE),
            function_size: bytes.u32(at + 8).expect(THERE),
            stack_size: bytes.u32(at + 12).expect(THERE),
            flags: half(16),
            base: half(18),
            dialect,
            records,
            registers: FrameRegisters {
                raw,
                endian: bytes.endian,
            },
        }
    }

    /// As [`FunctionHeader::address`](crate::FunctionHeader::address).
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Where in the section it is; the address field is there.
    #[must_use]
    pub fn byte_offset(&self) -> ByteOffset {
        ByteOffset::new(self.at as u64)
    }

    /// The size of the function's code; 0 where the producer did not tell.
    #[must_use]
    pub fn function_size(&self) -> Len {
        Len::new(self.function_size)
    }

    /// The size of the frame, as version 3 counts it; unknown also where the frame has no fixed
    /// size.
    #[must_use]
    pub fn stack_size(&self) -> StackSize {
        match self.stack_size {
            u32::MAX => StackSize::Unknown,
            _ if self.has_variable_size() || self.is_realigned() => StackSize::Unknown,
            known => StackSize::Known(known.into()),
        }
    }

    /// Whether the function keeps a frame pointer: the base register is it.
    #[must_use]
    pub fn has_frame_pointer(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Whether the frame grows by dynamic allocas.
    #[must_use]
    pub fn has_variable_size(&self) -> bool {
        self.flags & 2 != 0
    }

    /// Whether the function aligns its stack.
    #[must_use]
    pub fn is_realigned(&self) -> bool {
        self.flags & 4 != 0
    }

    /// Whether live-outs were looked for at its records.
    #[must_use]
    pub fn has_live_out_info(&self) -> bool {
        self.flags & 8 != 0
    }

    /// The register from which the offsets of frame registers count.
    #[must_use]
    pub fn base(&self) -> DwarfReg {
        DwarfReg::new(self.base)
    }

    /// Whether [`registers`](Self::registers) are all that there are: the fork's dialect does not
    /// tell them.
    #[must_use]
    pub fn lists_registers(&self) -> bool {
        self.dialect == Dialect::Proposal
    }

    /// The registers that the function keeps for its caller and uses; none in the fork's dialect.
    #[must_use]
    pub fn registers(&self) -> FrameRegisters<'a> {
        self.registers
    }
}

impl fmt::Debug for FlatFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("address", &self.address)
            .field("function_size", &self.function_size())
            .field("stack_size", &self.stack_size())
            .field("flags", &self.flags)
            .field("base", &self.base())
            .field("registers", &self.registers)
            .finish()
    }
}

/// Where a function has a register that it keeps for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameRegister {
    /// The register.
    pub reg: DwarfReg,
    /// Bytes from the frame's base register to it, where it is spilled.
    pub offset: i16,
    /// Its size in bytes.
    pub size: u8,
    /// It is in memory; otherwise it is still in its register.
    pub is_spilled: bool,
}

/// Iterates over the frame registers of a function.
#[derive(Clone, Copy)]
pub struct FrameRegisters<'a> {
    raw: &'a [u8],
    endian: Endian,
}

impl Iterator for FrameRegisters<'_> {
    type Item = FrameRegister;

    fn next(&mut self) -> Option<FrameRegister> {
        let ([r0, r1, o0, o1, size, flags, _, _], rest) = self.raw.split_first_chunk::<FRAME_REGISTER>()?;
        self.raw = rest;
        Some(FrameRegister {
            reg: DwarfReg::new(self.endian.u16([*r0, *r1])),
            offset: self.endian.u16([*o0, *o1]) as i16,
            size: *size,
            is_spilled: flags & 1 != 0,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.raw.len() / FRAME_REGISTER;
        (left, Some(left))
    }
}

impl ExactSizeIterator for FrameRegisters<'_> {}

impl fmt::Debug for FrameRegisters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}
