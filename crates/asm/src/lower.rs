//! Resolved operations to instructions, as far as that is the same on every architecture.
//!
//! Problem: five architectures move, store and add in the same steps: which operand is in which
//! kind of register, what has to go through a free one, what no instruction can do. They differ in
//! the instructions. Approach: [`Lower`] holds the steps, and asks the architecture for one
//! instruction at a time; where its steps are others, it overrides one.
//!
//! Invariant: registers written are the operation's destination and registers that were free,
//! nothing else; each is noted in [`EncodedCode::clobbers`].

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::RegSet;

use crate::backend::{EncodedCode, EncodingRefusal, extended, immediate};
use crate::op::{Address, Bits, Cond, Dest, Extension, Op, OpValue, ValueNumber, Width};

/// A register as instructions name it: a general one, or one of floating-point numbers or vectors.
#[derive(Clone, Copy)]
pub(crate) enum Named<G, F> {
    General(G),
    Float(F),
}

/// Why a register without a name in instructions is refused.
pub(crate) const NAMELESS: EncodingRefusal =
    EncodingRefusal::Unusable("a register that instructions cannot name");
/// Why a part of an address is refused.
pub(crate) const PART_OF_ADDRESS: EncodingRefusal =
    EncodingRefusal::Unusable("part of the address of a stack slot");
/// What a register is taken for to add from.
pub(crate) const ADDEND: &str = "a value to add that is not in a register";

/// Only 4 and 8 bytes go to and from registers of floating-point numbers.
pub(crate) fn check_float(width: Width, extension: Extension) -> Result<(), EncodingRefusal> {
    match (width, extension) {
        (Width::B4, Extension::Zero) | (Width::B8, _) => Ok(()),
        _ => Err(EncodingRefusal::Unusable(
            "a floating-point or vector register for a value that is not 4 or 8 bytes, or is sign-extended",
        )),
    }
}

/// The same comparison, with a constant only where both are constants or on the right.
pub(crate) fn constant_last(cond: Cond, lhs: OpValue, rhs: OpValue) -> (Cond, OpValue, OpValue) {
    match (lhs, rhs) {
        (OpValue::Imm(..), OpValue::Reg(_) | OpValue::Mem(_) | OpValue::Frame { .. }) => {
            (cond.swapped(), rhs, lhs)
        }
        _ => (cond, lhs, rhs),
    }
}

/// One architecture's instructions, appended to some code.
pub(crate) trait Lower: Sized {
    /// A general register.
    type Gpr: Copy + PartialEq;
    /// A register of floating-point numbers or vectors.
    type Float: Copy;
    /// The operand of an instruction for memory.
    type Mem: Copy;
    /// The unit of instruction lengths, in bytes.
    const UNIT: usize;
    /// How a constant is extended that is stored from a register: as it is shorter to make.
    const STORED: Extension = Extension::Zero;

    // ---- registers ----

    /// The code.
    fn code(&mut self) -> &mut EncodedCode;

    /// The registers that are free.
    fn free(&mut self) -> &mut RegSet;

    /// The free register that is taken next for a value.
    fn any_free(&self) -> Option<DwarfReg>;

    /// The register as instructions name it, or why they do not.
    fn named(reg: DwarfReg) -> Result<Named<Self::Gpr, Self::Float>, EncodingRefusal>;

    /// A general register, or why it is none.
    fn gpr(reg: DwarfReg) -> Result<Self::Gpr, EncodingRefusal> {
        match Self::named(reg)? {
            Named::General(reg) => Ok(reg),
            Named::Float(_) => Err(EncodingRefusal::Unusable(
                "a floating-point or vector register where a general register is needed",
            )),
        }
    }

    /// Notes that an operation writes its destination.
    fn written(&mut self, dst: DwarfReg) -> Result<(), EncodingRefusal> {
        let code = self.code();
        code.clobbers = code.clobbers.with(dst);
        Ok(())
    }

    /// A free register.
    fn take(&mut self, purpose: &'static str) -> Result<Self::Gpr, EncodingRefusal> {
        let reg = self.any_free().ok_or(EncodingRefusal::NoScratch(purpose))?;
        self.take_this(reg)
    }

    /// That free register.
    fn take_this(&mut self, reg: DwarfReg) -> Result<Self::Gpr, EncodingRefusal> {
        let free = self.free();
        *free = free.without(reg);
        let code = self.code();
        code.clobbers = code.clobbers.with(reg);
        Self::gpr(reg)
    }

    /// Loads any value into a free register.
    fn in_temp(
        &mut self,
        value: OpValue,
        width: Width,
        extension: Extension,
        purpose: &'static str,
    ) -> Result<Self::Gpr, EncodingRefusal> {
        let free = *self.free();
        let reg = self.any_free().ok_or(EncodingRefusal::NoScratch(purpose))?;
        // On the way the same register may hold the address of the value.
        self.mov(reg, value, width, extension)?;
        *self.free() = free.without(reg);
        Self::gpr(reg)
    }

    /// The operand for a memory address, in an access of that width; may take registers.
    fn memory(&mut self, address: Address, width: Width) -> Result<Self::Mem, EncodingRefusal>;

    /// The same for an instruction that writes `dst`, which may hold the address until then.
    fn memory_before(
        &mut self,
        dst: DwarfReg,
        address: Address,
        width: Width,
    ) -> Result<Self::Mem, EncodingRefusal> {
        let free = *self.free();
        if address.base.reg() != Some(dst) {
            *self.free() = free.with(dst);
        }
        let memory = self.memory(address, width);
        *self.free() = free;
        memory
    }

    // ---- moves ----

    /// Copies the low bytes of a register and extends them.
    fn copy(&mut self, dst: Self::Gpr, src: Self::Gpr, width: Width, extension: Extension);

    /// Makes a register hold a constant, which is the value of that number.
    fn put_constant(&mut self, dst: Self::Gpr, value: u64, number: Option<ValueNumber>);

    /// Loads and extends.
    fn load(
        &mut self,
        dst: Self::Gpr,
        src: Address,
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal>;

    /// Makes a register hold the address `disp` bytes from where another points.
    fn put_address(&mut self, dst: Self::Gpr, base: DwarfReg, disp: i32) -> Result<(), EncodingRefusal>;

    /// Copies the low bytes of a floating-point register to a general one and extends them.
    fn mov_from_float(
        &mut self,
        dst: Self::Gpr,
        src: Self::Float,
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal>;

    /// Copies 4 or 8 bytes of a general register to a floating-point one.
    fn mov_to_float(&mut self, dst: Self::Float, src: Self::Gpr, width: Width)
    -> Result<(), EncodingRefusal>;

    /// Copies a floating-point register, unless it is the same.
    fn copy_float(&mut self, dst: Self::Float, src: Self::Float) -> Result<(), EncodingRefusal>;

    /// Loads 4 or 8 bytes into a floating-point register.
    fn load_float(&mut self, dst: Self::Float, src: Address, width: Width) -> Result<(), EncodingRefusal>;

    /// Makes a floating-point register hold 0, if there is an instruction for it.
    fn clear_float(&mut self, _dst: Self::Float, _width: Width) -> bool {
        false
    }

    /// Makes a floating-point register hold a constant that is not 0, or for which there is no such
    /// instruction.
    fn put_float_constant(
        &mut self,
        dst: Self::Float,
        (value, number): (u64, Option<ValueNumber>),
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal> {
        let purpose = "a constant for a floating-point or vector register";
        let bits = self.in_temp(OpValue::Imm(value, number), width, extension, purpose)?;
        self.mov_to_float(dst, bits, width)
    }

    /// Writes the low bytes of a value, extended, to all of `dst`.
    fn mov(
        &mut self,
        dst: DwarfReg,
        src: OpValue,
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal> {
        self.written(dst)?;
        match Self::named(dst)? {
            Named::General(dst) => self.value_to_gpr(dst, src, width, extension),
            Named::Float(dst) => self.value_to_float(dst, src, width, extension),
        }
    }

    /// The same for a general register.
    fn value_to_gpr(
        &mut self,
        dst: Self::Gpr,
        src: OpValue,
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal> {
        match src {
            OpValue::Reg(src) => match Self::named(src)? {
                Named::General(src) if src == dst && width == Width::B8 => Ok(()),
                Named::General(src) => {
                    self.copy(dst, src, width, extension);
                    Ok(())
                }
                Named::Float(src) => self.mov_from_float(dst, src, width, extension),
            },
            OpValue::Imm(value, number) => {
                self.put_constant(dst, extended(value, width, extension)?, number);
                Ok(())
            }
            OpValue::Mem(src) => self.load(dst, src, width, extension),
            OpValue::Frame { .. } if width != Width::B8 => Err(PART_OF_ADDRESS),
            OpValue::Frame { reg, disp } => self.put_address(dst, reg, disp),
        }
    }

    /// The same for a floating-point register.
    fn value_to_float(
        &mut self,
        dst: Self::Float,
        src: OpValue,
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal> {
        check_float(width, extension)?;
        match src {
            OpValue::Reg(src) => match Self::named(src)? {
                Named::General(src) => self.mov_to_float(dst, src, width),
                Named::Float(src) => self.copy_float(dst, src),
            },
            OpValue::Mem(src) => self.load_float(dst, src, width),
            OpValue::Imm(0, _) if self.clear_float(dst, width) => Ok(()),
            OpValue::Imm(value, number) => self.put_float_constant(dst, (value, number), width, extension),
            OpValue::Frame { .. } => Err(EncodingRefusal::Unusable(
                "an address for a floating-point or vector register",
            )),
        }
    }

    // ---- stores ----

    /// Stores the low bytes of a register.
    fn store_gpr(&mut self, to: Self::Mem, src: Self::Gpr, width: Width);

    /// Stores 4 or 8 bytes of a floating-point register.
    fn store_float(&mut self, to: Self::Mem, src: Self::Float, width: Width);

    /// Stores a constant, if there is an instruction for it.
    fn store_constant(
        &mut self,
        _to: Self::Mem,
        _value: i64,
        _number: Option<ValueNumber>,
        _width: Width,
    ) -> bool {
        false
    }

    /// Writes the low bytes of a value to memory.
    fn store(&mut self, to: Address, src: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        let to = self.memory(to, width)?;
        let src = match src {
            OpValue::Reg(src) => match Self::named(src)? {
                Named::General(src) => src,
                Named::Float(src) => {
                    check_float(width, Extension::Zero)?;
                    self.store_float(to, src, width);
                    return Ok(());
                }
            },
            OpValue::Imm(value, number) => {
                let constant = immediate(value, width)?;
                if self.store_constant(to, constant, number, width) {
                    return Ok(());
                }
                self.in_temp(src, width, Self::STORED, "an immediate to store")?
            }
            OpValue::Mem(_) | OpValue::Frame { .. } => {
                let purpose = "a value to store that is not in a register";
                self.in_temp(src, width, Extension::Zero, purpose)?
            }
        };
        self.store_gpr(to, src, width);
        Ok(())
    }

    // ---- arithmetic ----

    /// Adds a constant to all of a register.
    fn add_constant(
        &mut self,
        to: Self::Gpr,
        by: u64,
        number: Option<ValueNumber>,
    ) -> Result<(), EncodingRefusal>;

    /// Adds a value that is no constant as it is, if there is an instruction for it.
    fn add_directly(
        &mut self,
        to: Self::Gpr,
        by: OpValue,
        width: Width,
        extension: Extension,
    ) -> Result<bool, EncodingRefusal>;

    /// Adds all of a register.
    fn add(&mut self, to: Self::Gpr, by: Self::Gpr);

    /// Adds the low bytes of a value, extended, to all of `dst`.
    fn add_to_reg(
        &mut self,
        dst: DwarfReg,
        src: OpValue,
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal> {
        let reg = Self::gpr(dst)?;
        self.written(dst)?;
        if let OpValue::Imm(value, number) = src {
            return self.add_constant(reg, extended(value, width, extension)?, number);
        }
        if !self.add_directly(reg, src, width, extension)? {
            let by = self.in_temp(src, width, extension, ADDEND)?;
            self.add(reg, by);
        }
        Ok(())
    }

    /// Keeps the bits of the mask.
    fn and(&mut self, reg: Self::Gpr, mask: u64, number: Option<ValueNumber>) -> Result<(), EncodingRefusal>;

    /// Shifts by 0 to 63 bits: `how` is a shift.
    fn shift(&mut self, reg: Self::Gpr, how: Bits) -> Result<(), EncodingRefusal>;

    /// Changes all bits of `dst`.
    fn bits(
        &mut self,
        dst: DwarfReg,
        what: Bits,
        number: Option<ValueNumber>,
    ) -> Result<(), EncodingRefusal> {
        let reg = Self::gpr(dst)?;
        self.written(dst)?;
        match what {
            Bits::And(mask) => self.and(reg, mask, number),
            Bits::Left(_) | Bits::Right(_) | Bits::RightSigned(_) => self.shift(reg, what),
        }
    }

    /// Adds the low bytes of a value to memory.
    fn add_to_mem(&mut self, to: Address, src: OpValue, width: Width) -> Result<(), EncodingRefusal>;

    /// The same, atomically.
    fn add_atomically(&mut self, to: Address, src: OpValue, width: Width) -> Result<(), EncodingRefusal>;

    // ---- branches ----

    /// Branches if the condition holds between the low bytes of the values.
    fn branch(
        &mut self,
        cond: Cond,
        lhs: OpValue,
        rhs: OpValue,
        width: Width,
        dest: Dest,
    ) -> Result<(), EncodingRefusal>;

    /// Jumps.
    fn jump(&mut self, dest: Dest) -> Result<(), EncodingRefusal>;

    /// Calls.
    fn call(&mut self, addr: CodeAddr) -> Result<(), EncodingRefusal>;

    /// Returns.
    fn ret(&mut self);

    /// Raises the exception of an invalid instruction.
    fn trap(&mut self);

    /// Appends an operation.
    fn emit(&mut self, op: &Op<'_>) -> Result<(), EncodingRefusal> {
        match *op {
            Op::Move {
                dst,
                src,
                width,
                extension,
            } => self.mov(dst, src, width, extension)?,
            Op::Store { to, src, width } => self.store(to, src, width)?,
            Op::AddToReg {
                dst,
                src,
                width,
                extension,
            } => self.add_to_reg(dst, src, width, extension)?,
            Op::Bits { dst, what, number } => self.bits(dst, what, number)?,
            Op::AddToMem {
                to,
                src,
                width,
                atomic,
            } => match atomic {
                true => self.add_atomically(to, src, width)?,
                false => self.add_to_mem(to, src, width)?,
            },
            Op::Branch {
                cond,
                lhs,
                rhs,
                width,
                dest,
            } => self.branch(cond, lhs, rhs, width, dest)?,
            Op::Jump(dest) => self.jump(dest)?,
            Op::Call(addr) => self.call(addr)?,
            Op::Return => self.ret(),
            Op::Trap => self.trap(),
            Op::Raw(bytes) if bytes.len() % Self::UNIT != 0 => {
                return Err(EncodingRefusal::Unusable("bytes that are no whole instructions"));
            }
            Op::Raw(bytes) => self.code().bytes.extend_from_slice(bytes),
        }
        Ok(())
    }
}
