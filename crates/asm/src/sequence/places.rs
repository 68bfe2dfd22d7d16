//! Operands to places: the locations of the record, the registers of the convention.

use llvm_stackmaps::LocationKind;
use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::SiteName;
use patchpoint_isa::conventions::Registers;
use patchpoint_isa::registers::canonical;
use patchpoint_isa::{Arch, Convention, SiteContext, SiteKind};

use super::operand::{Mem, Operand, Source};
use super::resolve::Resolver;
use crate::error::{Error, Result};
use crate::op::{Address, Base, OpValue, ValueNumber};
use crate::op::{Extension, Width};

/// A resolved value with the number of its bytes that are defined; `None` if all are.
#[derive(Clone, Copy)]
pub(super) struct ResolvedValue {
    value: OpValue,
    size: Option<u16>,
}

impl ResolvedValue {
    const fn all(value: OpValue) -> Self {
        Self { value, size: None }
    }
}

/// Whether the site has a result; a shadow or marked site has none, whatever its shape says.
pub(super) fn has_result(site: &SiteContext<'_>) -> bool {
    site.shape.has_result() && !site.shape.kind().displaces()
}

/// Where the site's result goes, if it has one. [`Free`](super::scratch::Free) keeps the answer.
#[inline]
pub(super) fn result_register(site: &SiteContext<'_>, registers: &Registers) -> Option<DwarfReg> {
    if !has_result(site) {
        return None;
    }
    if site.shape.convention() == Convention::C {
        return Some(registers.int_result);
    }
    match site.record?.locations().get(0)?.kind {
        LocationKind::Register { reg, bit_offset } if is_whole(site, registers, reg, bit_offset) => {
            Some(canonical(site.arch, reg))
        }
        _ => None,
    }
}

/// Whether a value in a register is where instructions look for one of its size: at the lowest bit,
/// but for short floating-point numbers of SystemZ, which are in the left half of their register.
fn is_whole(site: &SiteContext<'_>, registers: &Registers, reg: DwarfReg, bit_offset: i32) -> bool {
    let vector = registers.vectors.contains(canonical(site.arch, reg));
    bit_offset == 0 || (site.arch == Arch::SystemZ && vector && bit_offset == 32)
}

impl Resolver<'_, '_> {
    pub(super) fn unusable<T>(&self, why: &'static str) -> Result<T> {
        Err(Error::OperandUnusable {
            site: SiteName::of(self.site),
            op: self.op,
            why,
        })
    }

    pub(super) fn missing<T>(&self, operand: &'static str, index: u32, count: u32) -> Result<T> {
        Err(Error::NoSuchOperand {
            site: SiteName::of(self.site),
            op: self.op,
            operand,
            index,
            count,
        })
    }

    pub(super) fn width_error<T>(&self, needed: u16, have: u16) -> Result<T> {
        Err(Error::OperandWidth {
            site: SiteName::of(self.site),
            op: self.op,
            needed,
            have,
        })
    }

    /// `number` is that of an operand that is one of the sequence's values.
    pub(super) fn operand(&self, operand: Operand, number: Option<ValueNumber>) -> Result<ResolvedValue> {
        let known = match operand {
            Operand::Reg(reg) => ResolvedValue::all(OpValue::Reg(reg)),
            Operand::Temp => ResolvedValue::all(OpValue::Reg(self.temp()?)),
            Operand::Imm(value) => ResolvedValue::all(OpValue::Imm(value, number)),
            Operand::Result | Operand::FloatResult => {
                let size = self.written_size(operand);
                ResolvedValue {
                    value: OpValue::Reg(self.result(operand)?),
                    size,
                }
            }
            Operand::Arg(n) => self.arg(n)?,
            Operand::FloatArg(n) => self.float_arg(n)?,
            Operand::Live(n) => {
                let before = self.first_live();
                let Some(index) = before.checked_add(n) else {
                    return self.missing("live value", n, self.location_count().saturating_sub(before));
                };
                self.location(index, "live value", n, before)?
            }
            Operand::Location(n) => self.location(n, "location", n, 0)?,
        };
        let reg = match known.value {
            OpValue::Reg(reg) | OpValue::Frame { reg, .. } => Some(reg),
            OpValue::Mem(address) => address.base.reg(),
            OpValue::Imm(..) => None,
        };
        let gone = match operand {
            Operand::Arg(_) | Operand::FloatArg(_) | Operand::Live(_) | Operand::Location(_) => {
                self.flow.overwritten()
            }
            _ => self.flow.lost(),
        };
        match reg.filter(|reg| gone.contains(*reg)) {
            Some(reg) => Err(self.reads_lost(reg)),
            None => Ok(known),
        }
    }

    /// The register of [`Operand::Temp`].
    pub(super) fn temp(&self) -> Result<DwarfReg> {
        self.free.temp.ok_or_else(|| Error::NoScratch {
            site: SiteName::of(self.site),
            op: self.op,
            purpose: "a temporary value",
        })
    }

    pub(super) fn is_c(&self) -> bool {
        self.site.shape.convention() == Convention::C
    }

    fn first_live(&self) -> u32 {
        if self.is_c() {
            return 0;
        }
        u32::from(has_result(self.site)).saturating_add(self.site.shape.arg_count())
    }

    fn arg(&self, n: u32) -> Result<ResolvedValue> {
        let count = self.site.shape.arg_count();
        if n >= count {
            return self.missing("argument", n, count);
        }
        if !self.is_c() {
            let before = u32::from(has_result(self.site));
            return self.location(n.saturating_add(before), "argument", n, before);
        }
        if let Some(reg) = self.registers.int_args.get(n as usize) {
            return Ok(ResolvedValue::all(OpValue::Reg(*reg)));
        }
        let first = match self.site.shape.kind() {
            SiteKind::Entry => self.registers.stack_args_at_entry,
            _ => self.registers.stack_args,
        };
        let on_stack = n.saturating_sub(self.registers.int_args.len() as u32);
        let disp = i32::try_from(on_stack)
            .ok()
            .and_then(|k| k.checked_mul(8)?.checked_add(first));
        let Some(disp) = disp else {
            return self.missing("argument", n, count);
        };
        let base = Base::Reg(self.registers.stack_pointer);
        Ok(ResolvedValue::all(OpValue::Mem(Address {
            base,
            disp,
            number: None,
        })))
    }

    fn float_arg(&self, n: u32) -> Result<ResolvedValue> {
        if !self.is_c() {
            return self.arg(n);
        }
        let count = self
            .site
            .shape
            .arg_count()
            .min(self.registers.float_args.len() as u32);
        match self.registers.float_args.get(n as usize) {
            Some(reg) if n < count => Ok(ResolvedValue::all(OpValue::Reg(*reg))),
            _ => self.missing("floating-point argument in a register", n, count),
        }
    }

    fn location_count(&self) -> u32 {
        self.site
            .record
            .map_or(0, |record| record.locations().len() as u32)
    }

    /// The location at `index`; `operand`, `n` and `before` are for the error.
    fn location(&self, index: u32, operand: &'static str, n: u32, before: u32) -> Result<ResolvedValue> {
        let location = self
            .site
            .record
            .and_then(|record| record.locations().get(index as usize));
        let Some(location) = location else {
            return self.missing(operand, n, self.location_count().saturating_sub(before));
        };
        let size = Some(location.size);
        let whole = |reg| canonical(self.site.arch, reg);
        Ok(match location.kind {
            LocationKind::Register { reg, bit_offset }
                if !is_whole(self.site, self.registers, reg, bit_offset) =>
            {
                return self.unusable("a part of a register that does not start at its lowest bit");
            }
            // LLVM gives the size of the whole register.
            LocationKind::Register { reg, .. } if self.registers.vectors.contains(whole(reg)) => {
                ResolvedValue::all(OpValue::Reg(whole(reg)))
            }
            LocationKind::Register { reg, .. } => ResolvedValue {
                value: OpValue::Reg(whole(reg)),
                size,
            },
            LocationKind::Direct { reg, offset } => ResolvedValue::all(OpValue::Frame { reg, disp: offset }),
            LocationKind::Indirect { reg, offset } => {
                let address = Address {
                    base: Base::Reg(reg),
                    disp: offset,
                    number: None,
                };
                ResolvedValue {
                    value: OpValue::Mem(address),
                    size,
                }
            }
            LocationKind::Constant { value } => ResolvedValue::all(OpValue::imm(i64::from(value) as u64)),
            LocationKind::ConstantIndex { index } => match self.site.constants.get(index) {
                Some(value) => ResolvedValue::all(OpValue::imm(value)),
                None => return self.missing("constant", index, self.site.constants.len()),
            },
        })
    }

    pub(super) fn result(&self, operand: Operand) -> Result<DwarfReg> {
        let reg = match (operand, self.is_c()) {
            (Operand::FloatResult, true) if has_result(self.site) => Some(self.registers.float_result),
            _ => self.free.result,
        };
        match reg {
            Some(reg) => Ok(reg),
            None if has_result(self.site) => self.unusable("a result that is not in a register"),
            None => self.missing("result", 0, 0),
        }
    }

    /// How many bytes of a destination the code behind the site looks at, where that is known.
    pub(super) fn written_size(&self, dst: Operand) -> Option<u16> {
        let is_result = matches!(dst, Operand::Result | Operand::FloatResult);
        if !is_result || self.is_c() {
            return None;
        }
        let location = self.site.record?.locations().get(0)?;
        let vector = self
            .free
            .result
            .is_some_and(|reg| self.registers.vectors.contains(reg));
        (!vector).then_some(location.size)
    }

    fn address(&self, mem: &Mem, number: Option<ValueNumber>) -> Result<Address> {
        let known = self.operand(mem.base, None)?;
        if let Some(size) = known.size.filter(|size| *size < 8) {
            return self.width_error(8, size);
        }
        let disp = mem.disp;
        Ok(match known.value {
            OpValue::Reg(reg) => Address {
                base: Base::Reg(reg),
                disp,
                number,
            },
            OpValue::Imm(value, _) => Address {
                base: Base::Absolute(value),
                disp,
                number: None,
            },
            OpValue::Frame { reg, disp: slot } => match slot.checked_add(disp) {
                Some(disp) => Address {
                    base: Base::Reg(reg),
                    disp,
                    number: None,
                },
                None => return self.unusable("a displacement beyond 2 GiB"),
            },
            OpValue::Mem(Address {
                base: Base::Reg(reg),
                disp: slot,
                ..
            }) => Address {
                base: Base::Slot { reg, disp: slot },
                disp,
                number,
            },
            OpValue::Mem(_) => return self.unusable("a base that is read through a pointer"),
        })
    }

    /// A source, and its width where it names one.
    fn source(
        &self,
        source: &Source,
        number: Option<ValueNumber>,
    ) -> Result<(ResolvedValue, Option<(Width, Extension)>)> {
        match source {
            Source::Operand(operand) => Ok((self.operand(*operand, number)?, None)),
            Source::Part(part) => {
                let known = self.operand(part.operand, number)?;
                Ok((known, Some((part.width, part.extension))))
            }
            Source::Mem(mem) => {
                let value = OpValue::Mem(self.address(mem, number)?);
                let size = Some(mem.width.bytes());
                Ok((ResolvedValue { value, size }, Some((mem.width, mem.extension))))
            }
        }
    }

    /// The low `width` bytes of a value, which on big-endian machines are its last ones in memory.
    fn low_bytes(&self, known: ResolvedValue, width: Width) -> Result<OpValue> {
        let OpValue::Mem(address) = known.value else {
            return Ok(known.value);
        };
        if !self.site.arch.is_big_endian() {
            return Ok(known.value);
        }
        let before = i32::from(known.size.unwrap_or(8).saturating_sub(width.bytes()));
        match address.disp.checked_add(before) {
            Some(disp) => Ok(OpValue::Mem(Address {
                disp,
                number: address.number.filter(|_| before == 0),
                ..address
            })),
            None => self.unusable("a displacement beyond 2 GiB"),
        }
    }

    fn check_size(&self, known: ResolvedValue, width: Width) -> Result<()> {
        match known.size.filter(|size| *size < width.bytes()) {
            Some(size) => self.width_error(width.bytes(), size),
            None => Ok(()),
        }
    }

    /// Two values to compare and the width of the comparison.
    pub(super) fn compared(
        &self,
        [lhs, rhs]: [&Source; 2],
        numbers: [Option<ValueNumber>; 2],
    ) -> Result<(OpValue, OpValue, Width)> {
        let (lhs, left) = self.source(lhs, numbers[0])?;
        let (rhs, right) = self.source(rhs, numbers[1])?;
        let named = |named: Option<(Width, Extension)>| named.map(|(width, _)| width);
        let width = match (named(left), named(right)) {
            (Some(left), Some(right)) if left != right => {
                return self.width_error(left.max(right).bytes(), left.min(right).bytes());
            }
            (Some(width), _) | (None, Some(width)) => width,
            (None, None) => {
                let widths = [lhs, rhs].map(|known| known.size.and_then(Width::of));
                match widths {
                    [Some(left), Some(right)] => left.max(right),
                    [Some(width), None] | [None, Some(width)] => width,
                    [None, None] => Width::B8,
                }
            }
        };
        self.check_size(lhs, width)?;
        self.check_size(rhs, width)?;
        Ok((self.low_bytes(lhs, width)?, self.low_bytes(rhs, width)?, width))
    }

    /// A value that fills a destination of which `size` bytes matter.
    pub(super) fn extended(
        &self,
        src: &Source,
        number: Option<ValueNumber>,
        size: Option<u16>,
    ) -> Result<(OpValue, Width, Extension)> {
        let (known, named) = self.source(src, number)?;
        if let Some((width, extension)) = named {
            self.check_size(known, width)?;
            return Ok((self.low_bytes(known, width)?, width, extension));
        }
        if let Some(have) = known.size {
            let needed = size.unwrap_or(8);
            if have < needed {
                return self.width_error(needed, have);
            }
        }
        let width = match (known.value, known.size) {
            (OpValue::Mem(_), Some(size)) => match Width::of(size) {
                Some(width) => width,
                None => return self.unusable("a spilled value that is not 1, 2, 4 or 8 bytes"),
            },
            _ => Width::B8,
        };
        Ok((known.value, width, Extension::Zero))
    }

    /// A value to be written to memory, whose width is the memory's.
    pub(super) fn stored(
        &self,
        to: &Mem,
        src: &Source,
        numbers: [Option<ValueNumber>; 2],
    ) -> Result<(Address, OpValue, Width)> {
        let (known, named) = self.source(src, numbers[1])?;
        if let Some((width, _)) = named.filter(|(width, _)| *width != to.width) {
            return self.width_error(to.width.bytes(), width.bytes());
        }
        self.check_size(known, to.width)?;
        Ok((
            self.address(to, numbers[0])?,
            self.low_bytes(known, to.width)?,
            to.width,
        ))
    }
}
