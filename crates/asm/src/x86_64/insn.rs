//! The instructions, encoded by dynasm.
#![expect(clippy::useless_conversion, reason = "dynasm converts every register number")]

use alloc::vec::Vec;

use dynasmrt::{DynasmApi, dynasm};

use super::encode::{Asm, Gpr, Mem, Rm, mem};
use crate::backend::EncodedCode;
use crate::op::{Extension, Width};

/// An instruction without a memory operand.
macro_rules! regs {
    ($asm:expr, $($insn:tt)*) => {
        dynasm!($asm; .arch x64; $($insn)*)
    };
}

/// An immediate, in the width in which it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Imm {
    I8(i8),
    I16(i16),
    I32(i32),
}

impl Imm {
    /// The shortest immediate of an arithmetic instruction of that width for `value`, which is one
    /// of that width sign-extended. `None` for what needs 64 bits.
    pub(super) fn shortest(value: i64, width: Width) -> Option<Self> {
        match i8::try_from(value) {
            Ok(value) => Some(Self::I8(value)),
            Err(_) => Self::full(value, width),
        }
    }

    /// The immediate of a move of that width.
    pub(super) fn full(value: i64, width: Width) -> Option<Self> {
        match width {
            Width::B1 => i8::try_from(value).ok().map(Self::I8),
            Width::B2 => i16::try_from(value).ok().map(Self::I16),
            Width::B4 | Width::B8 => i32::try_from(value).ok().map(Self::I32),
        }
    }

    /// The immediate in one byte; all of it if it is one byte.
    fn low8(self) -> i8 {
        self.low32() as i8
    }

    /// The immediate, sign-extended or cut to two bytes.
    fn low16(self) -> i16 {
        self.low32() as i16
    }

    /// The immediate, sign-extended to four bytes.
    fn low32(self) -> i32 {
        match self {
            Self::I8(value) => value.into(),
            Self::I16(value) => value.into(),
            Self::I32(value) => value,
        }
    }

    /// Its length in bytes.
    pub(super) fn len(self) -> u32 {
        match self {
            Self::I8(_) => 1,
            Self::I16(_) => 2,
            Self::I32(_) => 4,
        }
    }
}

/// Encodes the same instruction for each width: `[reg]` stands for the register.
macro_rules! each_width {
    ($width:expr, $b1:expr, $b2:expr, $b4:expr, $b8:expr) => {
        match $width {
            Width::B1 => $b1,
            Width::B2 => $b2,
            Width::B4 => $b4,
            Width::B8 => $b8,
        }
    };
}

impl Gpr {
    /// Sets all 64 bits to `value`, in the shortest form that leaves the flags.
    pub(super) fn put_constant(self, value: u64, out: &mut Vec<u8>) {
        let mut asm = Asm::new(out);
        let signed = value as i64;
        if u32::try_from(value).is_ok() {
            regs!(asm, mov Rd(self.0), DWORD value as i32);
        } else if let Ok(value) = i32::try_from(signed) {
            regs!(asm, mov Rq(self.0), DWORD value);
        } else {
            regs!(asm, mov Rq(self.0), QWORD signed);
        }
        asm.finish();
    }

    /// The length of what [`put_constant`](Self::put_constant) appends.
    pub(super) fn constant_len(self, value: u64) -> u32 {
        if u32::try_from(value).is_ok() {
            5 + u32::from(self.0 >> 3)
        } else if i32::try_from(value as i64).is_ok() {
            7
        } else {
            10
        }
    }
}

/// `jmp target`.
pub(super) fn jump_to(target: Gpr, out: &mut Vec<u8>) {
    let mut asm = Asm::new(out);
    regs!(asm, jmp Rq(target.0));
    asm.finish();
}

/// `call target`.
pub(super) fn call_to(target: Gpr, out: &mut Vec<u8>) {
    let mut asm = Asm::new(out);
    regs!(asm, call Rq(target.0));
    asm.finish();
}

/// `ret`.
pub(super) fn ret(out: &mut Vec<u8>) {
    let mut asm = Asm::new(out);
    regs!(asm, ret);
    asm.finish();
}

/// `ud2`.
pub(super) fn trap(out: &mut Vec<u8>) {
    let mut asm = Asm::new(out);
    regs!(asm, ud2);
    asm.finish();
}

/// `mov dst, src` of 4 or 8 bytes, and the extending moves of the others.
pub(super) fn mov(dst: Gpr, src: Gpr, width: Width, extension: Extension, out: &mut Vec<u8>) {
    let (d, s) = (dst.0, src.0);
    let mut asm = Asm::new(out).operand(src, width);
    match (width, extension) {
        (Width::B8, _) => regs!(asm, mov Rq(d), Rq(s)),
        (Width::B4, Extension::Zero) => regs!(asm, mov Rd(d), Rd(s)),
        (Width::B4, Extension::Sign) => regs!(asm, movsxd Rq(d), Rd(s)),
        (Width::B2, Extension::Zero) => regs!(asm, movzx Rd(d), Rw(s)),
        (Width::B2, Extension::Sign) => regs!(asm, movsx Rq(d), Rw(s)),
        (Width::B1, Extension::Zero) => regs!(asm, movzx Rd(d), Rb(s)),
        (Width::B1, Extension::Sign) => regs!(asm, movsx Rq(d), Rb(s)),
    }
    asm.finish();
}

/// A load that extends.
pub(super) fn load(dst: Gpr, src: Mem, width: Width, extension: Extension, code: &mut EncodedCode) {
    let d = dst.0;
    let mut asm = Asm::with_mem(code);
    match (width, extension) {
        (Width::B8, _) => mem!(asm, src, (mov Rq(d), QWORD), ()),
        (Width::B4, Extension::Zero) => mem!(asm, src, (mov Rd(d), DWORD), ()),
        (Width::B4, Extension::Sign) => mem!(asm, src, (movsxd Rq(d), DWORD), ()),
        (Width::B2, Extension::Zero) => mem!(asm, src, (movzx Rd(d), WORD), ()),
        (Width::B2, Extension::Sign) => mem!(asm, src, (movsx Rq(d), WORD), ()),
        (Width::B1, Extension::Zero) => mem!(asm, src, (movzx Rd(d), BYTE), ()),
        (Width::B1, Extension::Sign) => mem!(asm, src, (movsx Rq(d), BYTE), ()),
    }
    asm.finish_mem(src, 0);
}

/// `lea dst, src`.
pub(super) fn lea(dst: Gpr, src: Mem, code: &mut EncodedCode) {
    let mut asm = Asm::with_mem(code);
    mem!(asm, src, (lea Rq(dst.0),), ());
    asm.finish_mem(src, 0);
}

/// `mov to, src`.
pub(super) fn store(to: Mem, src: Gpr, width: Width, code: &mut EncodedCode) {
    let s = src.0;
    let mut asm = Asm::with_mem(code).operand(src, width);
    each_width!(
        width,
        mem!(asm, to, (mov BYTE), (, Rb(s))),
        mem!(asm, to, (mov WORD), (, Rw(s))),
        mem!(asm, to, (mov DWORD), (, Rd(s))),
        mem!(asm, to, (mov QWORD), (, Rq(s)))
    );
    asm.finish_mem(to, 0);
}

/// `mov to, value`; `value` is [`Imm::full`].
pub(super) fn store_imm(to: Mem, value: Imm, width: Width, code: &mut EncodedCode) {
    let mut asm = Asm::with_mem(code);
    match (width, value) {
        (_, Imm::I8(value)) => mem!(asm, to, (mov BYTE), (, BYTE value)),
        (_, Imm::I16(value)) => mem!(asm, to, (mov WORD), (, WORD value)),
        (Width::B8, Imm::I32(value)) => mem!(asm, to, (mov QWORD), (, DWORD value)),
        (_, Imm::I32(value)) => mem!(asm, to, (mov DWORD), (, DWORD value)),
    }
    asm.finish_mem(to, value.len());
}

/// `movd` or `movq dst, src` to a vector register.
pub(super) fn mov_to_vector(dst: u8, src: Gpr, width: Width, out: &mut Vec<u8>) {
    let mut asm = Asm::new(out);
    match width {
        Width::B8 => regs!(asm, movq Rx(dst), Rq(src.0)),
        _ => regs!(asm, movd Rx(dst), Rd(src.0)),
    }
    asm.finish();
}

/// `movd` or `movq dst, src` from a vector register.
pub(super) fn mov_from_vector(dst: Gpr, src: u8, width: Width, out: &mut Vec<u8>) {
    let mut asm = Asm::new(out);
    match width {
        Width::B8 => regs!(asm, movq Rq(dst.0), Rx(src)),
        _ => regs!(asm, movd Rd(dst.0), Rx(src)),
    }
    asm.finish();
}

/// `movaps dst, src`.
pub(super) fn mov_vector(dst: u8, src: u8, out: &mut Vec<u8>) {
    let mut asm = Asm::new(out);
    regs!(asm, movaps Rx(dst), Rx(src));
    asm.finish();
}

/// `xorps reg, reg`.
pub(super) fn clear_vector(reg: u8, out: &mut Vec<u8>) {
    let mut asm = Asm::new(out);
    regs!(asm, xorps Rx(reg), Rx(reg));
    asm.finish();
}

/// `movss` or `movsd dst, src`.
pub(super) fn load_vector(dst: u8, src: Mem, width: Width, code: &mut EncodedCode) {
    let mut asm = Asm::with_mem(code);
    match width {
        Width::B8 => mem!(asm, src, (movsd Rx(dst), QWORD), ()),
        _ => mem!(asm, src, (movss Rx(dst), DWORD), ()),
    }
    asm.finish_mem(src, 0);
}

/// `movss` or `movsd to, src`.
pub(super) fn store_vector(to: Mem, src: u8, width: Width, code: &mut EncodedCode) {
    let mut asm = Asm::with_mem(code);
    match width {
        Width::B8 => mem!(asm, to, (movsd QWORD), (, Rx(src))),
        _ => mem!(asm, to, (movss DWORD), (, Rx(src))),
    }
    asm.finish_mem(to, 0);
}

/// `test reg, reg`.
pub(super) fn test(reg: Gpr, width: Width, out: &mut Vec<u8>) {
    let r = reg.0;
    let mut asm = Asm::new(out).operand(reg, width);
    each_width!(
        width,
        regs!(asm, test Rb(r), Rb(r)),
        regs!(asm, test Rw(r), Rw(r)),
        regs!(asm, test Rd(r), Rd(r)),
        regs!(asm, test Rq(r), Rq(r))
    );
    asm.finish();
}

/// `inc rm`; `lock` for memory.
pub(super) fn inc(rm: Rm, width: Width, lock: bool, code: &mut EncodedCode) {
    match rm {
        Rm::Reg(reg) => {
            let r = reg.0;
            let mut asm = Asm::new(&mut code.bytes).operand(reg, width);
            each_width!(
                width,
                regs!(asm, inc Rb(r)),
                regs!(asm, inc Rw(r)),
                regs!(asm, inc Rd(r)),
                regs!(asm, inc Rq(r))
            );
            asm.finish();
        }
        Rm::Mem(to) => {
            put_lock(lock, code);
            let mut asm = Asm::with_mem(code);
            each_width!(
                width,
                mem!(asm, to, (inc BYTE), ()),
                mem!(asm, to, (inc WORD), ()),
                mem!(asm, to, (inc DWORD), ()),
                mem!(asm, to, (inc QWORD), ())
            );
            asm.finish_mem(to, 0);
        }
    }
}

/// The prefix that makes the next instruction atomic; for dynasm it is part of an instruction.
fn put_lock(lock: bool, code: &mut EncodedCode) {
    if lock {
        code.bytes.push(0xf0);
    }
}

/// Defines the instructions of an arithmetic group.
macro_rules! arithmetic {
    ($name:ident) => {
        /// The forms of one arithmetic instruction.
        pub(super) mod $name {
            use super::*;

            /// `op rm, reg`; `lock` for memory.
            pub(in super::super) fn rm_reg(rm: Rm, reg: Gpr, width: Width, lock: bool, code: &mut EncodedCode) {
                let s = reg.0;
                match rm {
                    Rm::Reg(dst) => {
                        let d = dst.0;
                        let mut asm = Asm::new(&mut code.bytes).operand(reg, width).operand(dst, width);
                        each_width!(
                            width,
                            regs!(asm, $name Rb(d), Rb(s)),
                            regs!(asm, $name Rw(d), Rw(s)),
                            regs!(asm, $name Rd(d), Rd(s)),
                            regs!(asm, $name Rq(d), Rq(s))
                        );
                        asm.finish();
                    }
                    Rm::Mem(to) => {
                        put_lock(lock, code);
                        let mut asm = Asm::with_mem(code).operand(reg, width);
                        each_width!(
                            width,
                            mem!(asm, to, ($name BYTE), (, Rb(s))),
                            mem!(asm, to, ($name WORD), (, Rw(s))),
                            mem!(asm, to, ($name DWORD), (, Rd(s))),
                            mem!(asm, to, ($name QWORD), (, Rq(s)))
                        );
                        asm.finish_mem(to, 0);
                    }
                }
            }

            /// `op reg, mem`.
            #[allow(dead_code, reason = "not every instruction of the group is needed with memory")]
            pub(in super::super) fn reg_mem(reg: Gpr, src: Mem, width: Width, code: &mut EncodedCode) {
                let d = reg.0;
                let mut asm = Asm::with_mem(code).operand(reg, width);
                each_width!(
                    width,
                    mem!(asm, src, ($name Rb(d), BYTE), ()),
                    mem!(asm, src, ($name Rw(d), WORD), ()),
                    mem!(asm, src, ($name Rd(d), DWORD), ()),
                    mem!(asm, src, ($name Rq(d), QWORD), ())
                );
                asm.finish_mem(src, 0);
            }

            /// `op rm, value`; `value` is [`Imm::shortest`], `lock` for memory.
            pub(in super::super) fn rm_imm(rm: Rm, value: Imm, width: Width, lock: bool, code: &mut EncodedCode) {
                match rm {
                    Rm::Reg(Gpr(0)) => accumulator_imm(value, width, &mut code.bytes),
                    Rm::Reg(reg) => reg_imm(reg, value, width, &mut code.bytes),
                    Rm::Mem(to) => {
                        put_lock(lock, code);
                        mem_imm(to, value, width, code);
                    }
                }
            }

            /// rax and its parts have shorter forms.
            fn accumulator_imm(value: Imm, width: Width, out: &mut Vec<u8>) {
                let mut asm = Asm::new(out);
                match (width, value) {
                    (Width::B1, Imm::I8(value)) => regs!(asm, $name al, BYTE value),
                    (Width::B2, Imm::I16(value)) => regs!(asm, $name ax, WORD value),
                    (Width::B4, Imm::I32(value)) => regs!(asm, $name eax, DWORD value),
                    (Width::B8, Imm::I32(value)) => regs!(asm, $name rax, DWORD value),
                    _ => return reg_imm(Gpr(0), value, width, out),
                }
                asm.finish();
            }

            fn reg_imm(reg: Gpr, value: Imm, width: Width, out: &mut Vec<u8>) {
                let r = reg.0;
                let mut asm = Asm::new(out).operand(reg, width);
                match width {
                    Width::B1 => regs!(asm, $name Rb(r), BYTE value.low8()),
                    Width::B2 => regs!(asm, $name Rw(r), WORD value.low16()),
                    Width::B4 => regs!(asm, $name Rd(r), DWORD value.low32()),
                    Width::B8 => regs!(asm, $name Rq(r), DWORD value.low32()),
                }
                asm.shorten_imm(width, value);
                asm.finish();
            }

            fn mem_imm(to: Mem, value: Imm, width: Width, code: &mut EncodedCode) {
                let mut asm = Asm::with_mem(code);
                match width {
                    Width::B1 => mem!(asm, to, ($name BYTE), (, BYTE value.low8())),
                    Width::B2 => mem!(asm, to, ($name WORD), (, WORD value.low16())),
                    Width::B4 => mem!(asm, to, ($name DWORD), (, DWORD value.low32())),
                    Width::B8 => mem!(asm, to, ($name QWORD), (, DWORD value.low32())),
                }
                asm.shorten_imm(width, value);
                asm.finish_mem(to, value.len());
            }
        }
    };
}

arithmetic!(add);
arithmetic!(and);
arithmetic!(cmp);

/// Shifts of all 64 bits by a constant.
pub(super) mod shift {
    use super::*;

    macro_rules! shifts {
        ($($name:ident: $insn:ident;)*) => {
            $(
                #[doc = concat!("`", stringify!($insn), " reg, by`.")]
                pub(in super::super) fn $name(reg: Gpr, by: u8, out: &mut Vec<u8>) {
                    if by != 0 {
                        let mut asm = Asm::new(out);
                        regs!(asm, $insn Rq(reg.0), BYTE by as i8);
                        asm.finish();
                    }
                }
            )*
        };
    }

    shifts! { left: shl; right: shr; right_signed: sar; }
}
