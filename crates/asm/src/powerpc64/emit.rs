//! Resolved operations to instructions: [`Lower`] for PowerPC64. r0 is never taken as scratch: as a
//! base it means 0.

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::RegSet;

use super::constant;
use super::insn::{self, Field, Gpr};
use super::regs::{CR0, CTR, Hw, LR, R12, SCRATCH_ORDER, XER, hw};
use super::{Convention, Flavor};
use crate::backend::{BranchKind, EncodedCode, EncodingRefusal};
use crate::hole::{Class, Classes, Part};
use crate::lower::{Lower, NAMELESS, Named, check_float};
use crate::op::{Address, Base, Bits, Cond, Dest, Extension, OpValue, ValueNumber, Width};

/// A base that is not r0, and a displacement.
#[derive(Clone, Copy)]
pub(super) struct Mem {
    base: Gpr,
    disp: i16,
    /// Which value of the sequence the displacement is, and whether only multiples of 4 are.
    number: Option<ValueNumber>,
    aligned: bool,
}

impl Mem {
    /// With a displacement that is no value of the sequence.
    const fn fixed(base: Gpr, disp: i16) -> Self {
        Self {
            base,
            disp,
            number: None,
            aligned: false,
        }
    }
}

/// Of a displacement, whether instructions have it, of which some have only multiples of 4.
fn displacements(aligned: bool) -> Classes {
    Classes {
        of: |disp, aligned| match i16::try_from(disp as i64) {
            Ok(_) if aligned == 0 || disp % 4 == 0 => Class::Of(0),
            _ => Class::Only(disp),
        },
        with: aligned.into(),
    }
}

pub(super) struct Emitter<'c> {
    pub(super) flavor: Flavor,
    pub(super) code: &'c mut EncodedCode,
    pub(super) free: RegSet,
}

/// A register of VSX by its number, 0 to 63: the first half are those of floating-point numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Vsr(u8);

impl Vsr {
    /// The floating-point register that it is.
    fn float(self) -> Option<u8> {
        (self.0 < 32).then_some(self.0)
    }
}

impl Lower for Emitter<'_> {
    type Gpr = Gpr;
    type Float = Vsr;
    type Mem = Mem;
    const UNIT: usize = 4;

    fn code(&mut self) -> &mut EncodedCode {
        self.code
    }

    fn free(&mut self) -> &mut RegSet {
        &mut self.free
    }

    fn any_free(&self) -> Option<DwarfReg> {
        SCRATCH_ORDER.into_iter().find(|reg| self.free.contains(*reg))
    }

    fn named(reg: DwarfReg) -> Result<Named<Gpr, Vsr>, EncodingRefusal> {
        match hw(reg).ok_or(NAMELESS)? {
            Hw::Gpr(n) => Ok(Named::General(Gpr(n))),
            Hw::Float(n) => Ok(Named::Float(Vsr(n))),
            Hw::Vector(n) => Ok(Named::Float(Vsr(n + 32))),
        }
    }

    fn written(&mut self, dst: DwarfReg) -> Result<(), EncodingRefusal> {
        self.clobber(dst);
        Ok(())
    }

    /// What it takes on the way stays taken.
    fn in_temp(
        &mut self,
        value: OpValue,
        width: Width,
        extension: Extension,
        purpose: &'static str,
    ) -> Result<Gpr, EncodingRefusal> {
        let reg = self.take(purpose)?;
        self.value_to_gpr(reg, value, width, extension)?;
        Ok(reg)
    }

    fn memory(&mut self, address: Address, width: Width) -> Result<Mem, EncodingRefusal> {
        self.address(address, insn::is_ds(width, Extension::Zero), None)
    }

    fn copy(&mut self, dst: Gpr, src: Gpr, width: Width, extension: Extension) {
        self.put(insn::extend(dst, src, width, extension));
    }

    fn put_constant(&mut self, dst: Gpr, value: u64, number: Option<ValueNumber>) {
        self.code.uses(number, value, constant::CLASSES);
        constant::load(dst, value).put(self.flavor, &mut self.code.bytes);
        if number.is_some() {
            constant::name(self.flavor, value, self.code);
        }
    }

    fn load(
        &mut self,
        dst: Gpr,
        src: Address,
        width: Width,
        extension: Extension,
    ) -> Result<(), EncodingRefusal> {
        let src = self.address(src, insn::is_ds(width, extension), Some(dst))?;
        self.put(insn::load(dst, src.base, src.disp, width, extension));
        self.displaced(src, insn::is_ds(width, extension));
        if (width, extension) == (Width::B1, Extension::Sign) {
            self.put(insn::extend(dst, dst, width, extension));
        }
        Ok(())
    }

    fn put_address(&mut self, dst: Gpr, base: DwarfReg, disp: i32) -> Result<(), EncodingRefusal> {
        self.put_sum(dst, Self::gpr(base)?, (i64::from(disp), None))
    }

    fn mov_from_float(
        &mut self,
        dst: Gpr,
        src: Vsr,
        width: Width,
        _: Extension,
    ) -> Result<(), EncodingRefusal> {
        self.check_direct_moves(width)?;
        self.put(insn::mfvsrd(dst, src.0));
        Ok(())
    }

    fn mov_to_float(&mut self, dst: Vsr, src: Gpr, width: Width) -> Result<(), EncodingRefusal> {
        self.check_direct_moves(width)?;
        self.put(insn::mtvsrd(dst.0, src));
        Ok(())
    }

    fn copy_float(&mut self, dst: Vsr, src: Vsr) -> Result<(), EncodingRefusal> {
        match (dst.float(), src.float()) {
            // A number of 4 bytes is kept as one of 8.
            (Some(dst), Some(src)) if dst != src => self.put(insn::fmr(dst, src)),
            (Some(_), Some(_)) => {}
            _ => return Err(EncodingRefusal::Unusable("a copy of a vector register")),
        }
        Ok(())
    }

    fn load_float(&mut self, dst: Vsr, src: Address, width: Width) -> Result<(), EncodingRefusal> {
        if let Some(dst) = dst.float() {
            let src = self.address(src, false, None)?;
            self.put(insn::load_float(dst, src.base, src.disp, width));
            self.displaced(src, false);
            return Ok(());
        }
        self.check_direct_moves(width)?;
        let purpose = "a value for a vector register";
        let bits = self.in_temp(OpValue::Mem(src), width, Extension::Zero, purpose)?;
        self.mov_to_float(dst, bits, width)
    }

    fn store_gpr(&mut self, to: Mem, src: Gpr, width: Width) {
        self.put(insn::store(src, to.base, to.disp, width));
        self.displaced(to, insn::is_ds(width, Extension::Zero));
    }

    fn store_float(&mut self, to: Mem, src: Vsr, width: Width) {
        self.put(insn::store_float(src.0, to.base, to.disp, width));
        self.displaced(to, false);
    }

    /// The value first: on the way to it the register of the address is of use too.
    fn store(&mut self, to: Address, src: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        let purpose = "a value to store that is not in a register";
        let src = match src {
            OpValue::Reg(src) => match Self::named(src)? {
                Named::General(src) => src,
                Named::Float(src) if src.float().is_some() => {
                    check_float(width, Extension::Zero)?;
                    let to = self.address(to, false, None)?;
                    self.store_float(to, src, width);
                    return Ok(());
                }
                Named::Float(_) => self.in_temp(OpValue::Reg(src), width, Extension::Zero, purpose)?,
            },
            // Constants are shorter with their sign, loads without.
            OpValue::Imm(..) => self.in_temp(src, width, Extension::Sign, purpose)?,
            OpValue::Mem(_) | OpValue::Frame { .. } => self.in_temp(src, width, Extension::Zero, purpose)?,
        };
        let to = self.memory(to, width)?;
        self.store_gpr(to, src, width);
        Ok(())
    }

    fn add_constant(&mut self, to: Gpr, by: u64, number: Option<ValueNumber>) -> Result<(), EncodingRefusal> {
        self.put_sum(to, to, (by as i64, number))
    }

    fn add_directly(
        &mut self,
        to: Gpr,
        by: OpValue,
        width: Width,
        _: Extension,
    ) -> Result<bool, EncodingRefusal> {
        let OpValue::Reg(by) = by else {
            return Ok(false);
        };
        if width == Width::B8 {
            self.add(to, Self::gpr(by)?);
        }
        Ok(width == Width::B8)
    }

    fn add(&mut self, to: Gpr, by: Gpr) {
        self.put(insn::add(to, to, by));
    }

    fn and(&mut self, reg: Gpr, mask: u64, number: Option<ValueNumber>) -> Result<(), EncodingRefusal> {
        // Most masks are in a rotation, by where their ends are.
        self.code.uses(number, mask, Classes::ALONE);
        if mask == u64::MAX {
            return Ok(());
        }
        if mask == 0 {
            self.put(insn::li(reg, 0));
            return Ok(());
        }
        // Bits that are cleared at one end only: no constant is needed. The forms with an immediate
        // write cr0.
        if mask.wrapping_add(1).is_power_of_two() {
            self.put(insn::rldicl(reg, reg, 0, mask.leading_zeros() as u8));
        } else if (!mask).wrapping_add(1).is_power_of_two() {
            self.put(insn::rldicr(
                reg,
                reg,
                0,
                63 - mask.trailing_zeros().min(63) as u8,
            ));
        } else {
            let value = OpValue::imm(mask);
            let mask = self.in_temp(
                value,
                Width::B8,
                Extension::Zero,
                "a mask that no instruction has",
            )?;
            self.put(insn::and(reg, reg, mask));
        }
        Ok(())
    }

    fn shift(&mut self, reg: Gpr, how: Bits) -> Result<(), EncodingRefusal> {
        let word = match how {
            Bits::And(mask) => return self.and(reg, mask, None),
            Bits::Left(0) | Bits::Right(0) | Bits::RightSigned(0) => return Ok(()),
            Bits::Left(by) => insn::rldicr(reg, reg, by & 63, 63 - (by & 63)),
            Bits::Right(by) => insn::rldicl(reg, reg, 64 - (by & 63), by & 63),
            Bits::RightSigned(by) => {
                self.claim(XER, "the carry, which a signed shift writes")?;
                insn::sradi(reg, reg, by & 63)
            }
        };
        self.put(word);
        Ok(())
    }

    fn add_to_mem(&mut self, to: Address, src: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        let addend = self.addend(src, width)?;
        let to = self.address(to, insn::is_ds(width, Extension::Zero), None)?;
        let sum = self.take("a value of memory")?;
        self.put(insn::load(sum, to.base, to.disp, width, Extension::Zero));
        self.displaced(to, insn::is_ds(width, Extension::Zero));
        self.put_addend(sum, addend)?;
        self.store_gpr(to, sum, width);
        Ok(())
    }

    /// A loop of a load with reservation and a conditional store (Power ISA book II, 4.6.2 and
    /// B.2). It orders no other accesses.
    fn add_atomically(&mut self, to: Address, src: OpValue, width: Width) -> Result<(), EncodingRefusal> {
        if matches!(width, Width::B1 | Width::B2) && !self.flavor.has_isa_2_07() {
            return Err(EncodingRefusal::Unusable(
                "an atomic addition of 1 or 2 bytes, which older processors of big-endian systems lack",
            ));
        }
        let addend = self.addend(src, width)?;
        let to = match to {
            Address {
                base: Base::Reg(reg),
                disp: 0,
                ..
            } => Self::gpr(reg)?,
            _ => self.exact(to)?,
        };
        let sum = self.take("a value of memory")?;
        let field = Field(0);
        let saved = !self.free.contains(CR0);
        if saved {
            self.claim(LR, "condition field 0, which a conditional store writes")?;
            self.put(insn::mfocrf(sum, field));
            self.put(insn::mtlr(sum));
        } else {
            self.clobber(CR0);
        }
        let start = self.code.at();
        self.put(insn::load_reserve(sum, to, width));
        self.put_addend(sum, addend)?;
        self.put(insn::store_conditional(sum, to, width));
        // At most five instructions.
        let back = start.wrapping_sub(self.code.at()) as i16;
        self.put(insn::bc(4, 2, back));
        if saved {
            self.put(insn::mflr(sum));
            self.put(insn::mtocrf(field, sum));
        }
        Ok(())
    }

    fn branch(
        &mut self,
        cond: Cond,
        lhs: OpValue,
        rhs: OpValue,
        width: Width,
        dest: Dest,
    ) -> Result<(), EncodingRefusal> {
        self.compare_and_branch(cond, lhs, rhs, width, dest)
    }

    fn jump(&mut self, dest: Dest) -> Result<(), EncodingRefusal> {
        self.put_branch(BranchKind::Jump, dest, 0);
        Ok(())
    }

    /// As LLVM calls at patchpoints: through r12 and CTR, with the TOC pointer in its slot
    /// meanwhile.
    fn call(&mut self, addr: CodeAddr) -> Result<(), EncodingRefusal> {
        let r12 = Self::gpr(R12)?;
        self.claim(R12, "r12, through which functions are called")?;
        self.claim(CTR, "the count register, through which functions are called")?;
        self.claim(LR, "the link register")?;
        let slot = self.flavor.convention.toc_slot();
        self.put_constant(r12, addr.get(), None);
        self.put(insn::store(Gpr::TOC, Gpr::SP, slot, Width::B8));
        if self.flavor.convention == Convention::V1 {
            self.put(insn::load(Gpr::TOC, r12, 8, Width::B8, Extension::Zero));
            self.put(insn::load(r12, r12, 0, Width::B8, Extension::Zero));
        }
        self.put(insn::mtctr(r12));
        self.put(insn::BCTRL);
        self.put(insn::load_toc(slot));
        Ok(())
    }

    fn ret(&mut self) {
        self.put(insn::BLR);
    }

    fn trap(&mut self) {
        self.put(insn::ILLEGAL);
    }
}

impl Emitter<'_> {
    pub(super) fn put(&mut self, word: u32) {
        self.flavor.put(word, &mut self.code.bytes);
    }

    /// Notes that a register is written, and keeps it from being taken.
    pub(super) fn clobber(&mut self, reg: DwarfReg) {
        self.free = self.free.without(reg);
        self.code.clobbers = self.code.clobbers.with(reg);
    }

    /// A free register of that number.
    pub(super) fn claim(&mut self, reg: DwarfReg, purpose: &'static str) -> Result<(), EncodingRefusal> {
        match self.free.contains(reg) {
            true => {
                self.clobber(reg);
                Ok(())
            }
            false => Err(EncodingRefusal::NoScratch(purpose)),
        }
    }

    /// Branches; a far form goes through a free register and CTR.
    pub(super) fn put_branch(&mut self, kind: BranchKind, dest: Dest, detail: u8) {
        let scratch = match dest {
            Dest::Addr(_) if self.free.contains(CTR) => self.any_free(),
            Dest::Addr(_) | Dest::Label(_) | Dest::End => None,
        };
        self.code.branch_with(kind, dest, scratch, detail.into());
    }

    fn check_direct_moves(&self, width: Width) -> Result<(), EncodingRefusal> {
        if width != Width::B8 {
            return Err(EncodingRefusal::Unusable(
                "less than 8 bytes between a general and a vector register",
            ));
        }
        if !self.flavor.has_isa_2_07() {
            return Err(EncodingRefusal::Unusable(
                "a move between a general and a vector register, which older processors of big-endian systems lack",
            ));
        }
        Ok(())
    }

    /// The operand for a memory address. `aligned`: the displacement must be a multiple of 4.
    /// `temp` may be clobbered; else a register is taken where one is needed.
    pub(super) fn address(
        &mut self,
        address: Address,
        aligned: bool,
        temp: Option<Gpr>,
    ) -> Result<Mem, EncodingRefusal> {
        let temp = temp.filter(|temp| temp.0 != 0);
        match address.base {
            Base::Reg(reg) => self.near(Self::gpr(reg)?, (address.disp, address.number), aligned, temp),
            Base::Slot { reg, disp } => {
                let slot = self.near(Self::gpr(reg)?, (disp, None), true, temp)?;
                let base = match (temp, slot.base == Self::gpr(reg)?) {
                    (Some(temp), _) => temp,
                    (None, false) => slot.base,
                    (None, true) => self.take("a base that has been spilled")?,
                };
                self.put(insn::load(base, slot.base, slot.disp, Width::B8, Extension::Zero));
                self.near(base, (address.disp, address.number), aligned, Some(base))
            }
            Base::Absolute(base) => {
                let target = base.wrapping_add_signed(i64::from(address.disp));
                let low = match target as i16 {
                    low if aligned && low % 4 != 0 => 0,
                    low => low,
                };
                let base = self.temp(temp, "a fixed address")?;
                self.put_constant(base, target.wrapping_sub(low as u64), None);
                Ok(Mem::fixed(base, low))
            }
        }
    }

    fn temp(&mut self, temp: Option<Gpr>, purpose: &'static str) -> Result<Gpr, EncodingRefusal> {
        match temp {
            Some(temp) => Ok(temp),
            None => self.take(purpose),
        }
    }

    /// `[base + disp]` with a displacement that instructions have.
    fn near(
        &mut self,
        base: Gpr,
        (disp, number): (i32, Option<ValueNumber>),
        aligned: bool,
        temp: Option<Gpr>,
    ) -> Result<Mem, EncodingRefusal> {
        let fits = i16::try_from(disp).ok();
        if let Some(disp) = fits.filter(|disp| base.0 != 0 && !(aligned && disp % 4 != 0)) {
            return Ok(Mem {
                base,
                disp,
                number,
                aligned,
            });
        }
        // Several instructions may have the low part.
        self.code.uses(number, i64::from(disp) as u64, Classes::ALONE);
        let to = self.temp(temp, "a displacement that no instruction has, or a base in r0")?;
        match constant::split(i64::from(disp)) {
            Some((high, low)) if base.0 != 0 && !(aligned && low % 4 != 0) => {
                self.put(insn::addis(to, base, high));
                Ok(Mem::fixed(to, low))
            }
            _ => {
                self.put_sum(to, base, (i64::from(disp), None))?;
                Ok(Mem::fixed(to, 0))
            }
        }
    }

    /// An instruction whose immediate is a part of the number that is being encoded.
    pub(super) fn put_part(&mut self, word: u32, part: Part) {
        self.put(word);
        self.code.holds(4, self.flavor.field(insn::RUN_16), part);
    }

    /// Says that the last instruction has the displacement of `mem`, in the format DS or D.
    fn displaced(&mut self, mem: Mem, ds: bool) {
        let runs = if ds { insn::RUN_14 } else { insn::RUN_16 };
        if mem.number.is_some() {
            let classes = displacements(mem.aligned);
            self.code.uses(mem.number, i64::from(mem.disp) as u64, classes);
            self.code.holds(4, self.flavor.field(runs), Part::WHOLE);
        }
    }

    /// A register with the address itself.
    fn exact(&mut self, address: Address) -> Result<Gpr, EncodingRefusal> {
        let to = self.take("the address of an atomic addition")?;
        let mem = self.address(address, false, Some(to))?;
        self.put_sum(to, mem.base, (i64::from(mem.disp), mem.number))?;
        Ok(to)
    }
}
