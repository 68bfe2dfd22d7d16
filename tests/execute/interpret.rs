//! What a program means: a second opinion, which shares nothing with `sequence/` and `arch/` but
//! the names of operands.

use super::host::{self, HOST};
use super::machine::{Data, Undefined};
use super::program::{Mem, POOL, Program, ReadKind, Step, To, Value, ValueChange};
use patchpoint::arch::{Cond, Convention, SiteKind};
use patchpoint::sequence::Operand;
use patchpoint::stackmap::LocationKind;
use patchpoint_isa::conventions;

/// How control left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    To(To),
    Return,
}

/// Registers by DWARF number; `None` where the value is not defined.
#[derive(Clone)]
pub(super) struct Registers {
    pub(super) general: [Option<u64>; 32],
    pub(super) float: [Option<u64>; 32],
    /// Whether only 4 bytes of it are defined: a number of single precision, in the form that the
    /// host has for it.
    pub(super) single: [bool; 32],
}

/// Where an operand is.
#[derive(Clone, Copy)]
enum Spot {
    General(u16),
    Float(usize),
    Temp,
    Memory(u64),
    Known(u64),
}

/// A spot and how many bytes of it count.
#[derive(Clone, Copy)]
struct SizedSpot {
    spot: Spot,
    size: u32,
}

impl SizedSpot {
    const fn whole(spot: Spot) -> Self {
        Self { spot, size: 8 }
    }
}

/// The state of an execution.
pub(super) struct Interpreter<'p> {
    pub(super) program: &'p Program,
    pub(super) registers: Registers,
    temp: Option<u64>,
    pub(super) data: &'p mut Data,
    /// The DWARF numbers of the registers that the program has written.
    pub(super) written: Vec<u16>,
    /// Addresses that were written.
    pub(super) touched: Vec<u64>,
}

fn low(value: u64, bytes: u32) -> u64 {
    value & (u64::MAX >> (64 - 8 * bytes))
}

fn extend(value: u64, kind: ReadKind) -> u64 {
    let unused = 64 - 8 * kind.bytes;
    match kind.signed {
        true => ((value << unused) as i64 >> unused) as u64,
        false => low(value, kind.bytes),
    }
}

fn holds(cond: Cond, lhs: u64, rhs: u64, bytes: u32) -> bool {
    let signed = |value| extend(value, ReadKind { bytes, signed: true }) as i64;
    let (left, right) = (low(lhs, bytes), low(rhs, bytes));
    match cond {
        Cond::Eq => left == right,
        Cond::Ne => left != right,
        Cond::Below => left < right,
        Cond::BelowOrEqual => left <= right,
        Cond::Above => left > right,
        Cond::AboveOrEqual => left >= right,
        Cond::Less => signed(lhs) < signed(rhs),
        Cond::LessOrEqual => signed(lhs) <= signed(rhs),
        Cond::Greater => signed(lhs) > signed(rhs),
        Cond::GreaterOrEqual => signed(lhs) >= signed(rhs),
    }
}

impl<'p> Interpreter<'p> {
    pub(super) fn new(program: &'p Program, registers: Registers, data: &'p mut Data) -> Self {
        Self {
            program,
            registers,
            temp: None,
            data,
            written: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// Executes all of it.
    pub(super) fn run(&mut self) -> Result<Exit, Undefined> {
        let mut at = 0;
        for _ in 0..100 {
            let Some(step) = self.program.steps.get(at) else {
                return Ok(Exit::To(To::End));
            };
            at += 1;
            match self.step(*step)? {
                None => {}
                Some(Exit::To(To::Label(label))) => {
                    let bound = |step: &Step| matches!(step, Step::Bind(bound) if *bound == label);
                    at = self.program.steps.iter().position(bound).ok_or(Undefined)?;
                }
                Some(exit) => return Ok(exit),
            }
        }
        Err(Undefined)
    }

    fn step(&mut self, step: Step) -> Result<Option<Exit>, Undefined> {
        let go = |goes, to| Ok(if goes { Some(Exit::To(to)) } else { None });
        match step {
            Step::JumpIf(cond, lhs, rhs, to) => go(self.compare(cond, lhs, rhs)?, to),
            Step::Guard(cond, lhs, rhs, to) => go(!self.compare(cond, lhs, rhs)?, to),
            Step::Jump(to) => go(true, to),
            Step::Return => Ok(Some(Exit::Return)),
            Step::Bind(_) => Ok(None),
            Step::Move(dst, value) => {
                self.assign(dst, value)?;
                Ok(None)
            }
            Step::Add(dst, value) => {
                let by = self.extended(value)?;
                let to = self.find(dst)?;
                let sum = self.get(to, 8)?.wrapping_add(by);
                self.set(to.spot, sum)?;
                Ok(None)
            }
            Step::Change(dst, change) => {
                let to = self.find(dst)?;
                let value = self.get(to, 8)?;
                let changed = match change {
                    ValueChange::And(mask) => value & mask,
                    ValueChange::Left(by) => value << by,
                    ValueChange::Right(by) => value >> by,
                    ValueChange::RightSigned(by) => (value as i64 >> by) as u64,
                };
                self.set(to.spot, changed)?;
                Ok(None)
            }
            Step::Store(to, value) => {
                let at = self.address(to)?;
                let value = self.of_width(value, to.kind.bytes)?;
                self.write(at, to.kind.bytes, value)?;
                Ok(None)
            }
            Step::AddToMem { to, value, atomic } => {
                let at = self.address(to)?;
                let by = self.of_width(value, to.kind.bytes)?;
                if atomic && at % u64::from(to.kind.bytes) != 0 {
                    return Err(Undefined);
                }
                let sum = self.data.read(at, to.kind.bytes as usize)?.wrapping_add(by);
                self.write(at, to.kind.bytes, sum)?;
                Ok(None)
            }
            Step::Call { follows_c, .. } => {
                self.call(follows_c)?;
                Ok(None)
            }
        }
    }

    /// The callee of the tests: the first argument plus twice the second plus 5.
    fn call(&mut self, follows_c: bool) -> Result<(), Undefined> {
        if !follows_c {
            return self.lose(self.lost_in_any_call());
        }
        // What is neither an argument of the site nor written is free for the encoder.
        let argument = |n: usize| {
            let reg = HOST.int_args[n];
            let known = n < self.program.shape.arg_count() as usize || self.written.contains(&reg);
            self.registers.general[usize::from(reg)].filter(|_| known)
        };
        let (first, second) = (argument(0), argument(1));
        let lost: Vec<_> = self.lost_in_c_call();
        self.lose(lost)?;
        self.temp = None;
        let result = first
            .zip(second)
            .map(|(a, b)| a.wrapping_add(b << 1).wrapping_add(5));
        // Where the site has no result, the register is as free as the others.
        if self.program.shape.has_result() {
            self.registers.general[usize::from(HOST.int_result)] = result;
            self.written.push(HOST.int_result);
        }
        Ok(())
    }

    fn lost_in_any_call(&self) -> Vec<u16> {
        HOST.link.into_iter().collect()
    }

    /// Whatever is not restored: which registers those are is the platform's affair, and the
    /// encoder's table is compared with the checker's in other tests.
    fn lost_in_c_call(&self) -> Vec<u16> {
        conventions::of(super::ARCH)
            .lost_in_c_call
            .iter()
            .map(|reg| reg.get())
            .collect()
    }

    fn lose(&mut self, lost: Vec<u16>) -> Result<(), Undefined> {
        for reg in lost {
            if let Some(index) = host::float(reg) {
                self.registers.float[index] = None;
            } else if let Some(value) = self.registers.general.get_mut(usize::from(reg)) {
                *value = None;
            }
        }
        Ok(())
    }

    fn compare(&self, cond: Cond, lhs: Value, rhs: Value) -> Result<bool, Undefined> {
        let named = |value| match value {
            Value::Part(_, kind) => Some(kind.bytes),
            Value::Mem(mem) => Some(mem.kind.bytes),
            Value::Whole(_) => None,
        };
        let size = |value| match value {
            Value::Whole(operand) if !matches!(operand, Operand::Imm(_)) => self.known_size(operand),
            _ => None,
        };
        let bytes = named(lhs)
            .or(named(rhs))
            .or_else(|| size(lhs).max(size(rhs)))
            .unwrap_or(8);
        Ok(holds(
            cond,
            self.of_width(lhs, bytes)?,
            self.of_width(rhs, bytes)?,
            bytes,
        ))
    }

    /// The size of a location that is a register or a slot.
    fn known_size(&self, operand: Operand) -> Option<u32> {
        let location = self.location_of(operand)?;
        match location.kind {
            LocationKind::Register { reg, .. } if host::float(reg.get()).is_some() => None,
            LocationKind::Register { .. } | LocationKind::Indirect { .. } => Some(location.size.into()),
            _ => None,
        }
    }

    fn assign(&mut self, dst: Operand, value: Value) -> Result<(), Undefined> {
        let to = self.find(dst)?;
        let kind = match value {
            Value::Part(_, kind) => Some(kind),
            Value::Mem(mem) => Some(mem.kind),
            Value::Whole(_) => None,
        };
        // A number of 4 bytes has its own form in registers for numbers, and narrower ones have
        // none.
        if let (Spot::Float(_), Some(kind)) = (to.spot, kind.filter(|kind| kind.bytes < 8)) {
            if kind.bytes < 4 || kind.signed {
                return Err(Undefined);
            }
            let single = match value {
                Value::Mem(_) | Value::Part(..) => self.of_width(value, 4)? as u32,
                Value::Whole(_) => return Err(Undefined),
            };
            return self.set_single(to.spot, single);
        }
        let value = self.extended(value)?;
        self.set(to.spot, value)
    }

    /// All 8 bytes of a value, extended as it says.
    fn extended(&self, value: Value) -> Result<u64, Undefined> {
        match value {
            Value::Whole(operand) => {
                let found = self.find(operand)?;
                self.get(found, found.size)
            }
            Value::Part(operand, kind) => Ok(extend(self.get(self.find(operand)?, kind.bytes)?, kind)),
            Value::Mem(mem) => {
                let value = self.data.read(self.address(mem)?, mem.kind.bytes as usize)?;
                Ok(extend(value, mem.kind))
            }
        }
    }

    /// The low bytes of a value.
    fn of_width(&self, value: Value, bytes: u32) -> Result<u64, Undefined> {
        match value {
            Value::Whole(operand) | Value::Part(operand, _) => self.get(self.find(operand)?, bytes),
            Value::Mem(mem) => self.data.read(self.address(mem)?, bytes as usize),
        }
    }

    fn get(&self, found: SizedSpot, bytes: u32) -> Result<u64, Undefined> {
        let value = match found.spot {
            Spot::General(reg) => self.registers.general[usize::from(reg)].ok_or(Undefined)?,
            Spot::Float(index) => {
                let value = self.registers.float[index].ok_or(Undefined)?;
                if bytes == 4 {
                    host::of_single(value).ok_or(Undefined)?.into()
                } else {
                    value
                }
            }
            Spot::Temp => self.temp.ok_or(Undefined)?,
            Spot::Memory(_) if found.size < bytes => return Err(Undefined),
            Spot::Memory(at) => self.data.read(at, found.size as usize)?,
            Spot::Known(value) => value,
        };
        Ok(low(value, bytes))
    }

    fn set(&mut self, spot: Spot, value: u64) -> Result<(), Undefined> {
        match spot {
            Spot::General(reg) => {
                self.written.push(reg);
                self.registers.general[usize::from(reg)] = Some(value);
            }
            Spot::Float(index) => {
                self.registers.float[index] = Some(value);
                self.registers.single[index] = false;
                let of_index = |reg: &u16| host::float(*reg) == Some(index);
                self.written.extend((0..128).find(of_index));
            }
            Spot::Temp => self.temp = Some(value),
            Spot::Memory(_) | Spot::Known(_) => return Err(Undefined),
        }
        Ok(())
    }

    fn set_single(&mut self, spot: Spot, value: u32) -> Result<(), Undefined> {
        self.set(spot, host::single(value))?;
        if let Spot::Float(index) = spot {
            self.registers.single[index] = true;
        }
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: u32, value: u64) -> Result<(), Undefined> {
        self.touched.push(at);
        self.data.write(at, bytes as usize, value)
    }

    fn address(&self, mem: Mem) -> Result<u64, Undefined> {
        let base = self.get(self.find(mem.base)?, 8)?;
        Ok(base.wrapping_add_signed(mem.disp.into()))
    }

    fn is_c(&self) -> bool {
        self.program.shape.convention() == Convention::C
    }

    fn location_of(&self, operand: Operand) -> Option<patchpoint::stackmap::Location> {
        let shape = self.program.shape;
        let has_result = shape.has_result() && matches!(shape.kind(), SiteKind::Patchpoint | SiteKind::Told);
        let results = usize::from(has_result && !self.is_c());
        let args = if self.is_c() {
            0
        } else {
            shape.arg_count() as usize
        };
        let index = match operand {
            Operand::Arg(n) | Operand::FloatArg(n) if !self.is_c() => results + n as usize,
            Operand::Live(n) => results + args + n as usize,
            Operand::Location(n) => n as usize,
            Operand::Result | Operand::FloatResult if !self.is_c() => 0,
            _ => return None,
        };
        self.program.locations.get(index).copied()
    }

    fn register(reg: u16) -> Spot {
        host::float(reg).map_or(Spot::General(reg), Spot::Float)
    }

    fn frame(&self, reg: u16, offset: i32) -> Result<u64, Undefined> {
        let base = self.registers.general[usize::from(reg)].ok_or(Undefined)?;
        Ok(base.wrapping_add_signed(offset.into()))
    }

    fn find(&self, operand: Operand) -> Result<SizedSpot, Undefined> {
        if let Some(location) = self.location_of(operand) {
            let size = u32::from(location.size);
            return Ok(match location.kind {
                LocationKind::Register { reg, .. } => SizedSpot {
                    spot: Self::register(reg.get()),
                    size,
                },
                LocationKind::Indirect { reg, offset } => SizedSpot {
                    spot: Spot::Memory(self.frame(reg.get(), offset)?),
                    size,
                },
                LocationKind::Direct { reg, offset } => {
                    SizedSpot::whole(Spot::Known(self.frame(reg.get(), offset)?))
                }
                LocationKind::Constant { value } => SizedSpot::whole(Spot::Known(i64::from(value) as u64)),
                LocationKind::ConstantIndex { .. } => SizedSpot::whole(Spot::Known(POOL)),
            });
        }
        Ok(SizedSpot::whole(match operand {
            Operand::Arg(n) => match HOST.int_args.get(n as usize) {
                Some(reg) => Spot::General(*reg),
                None => {
                    let first = match self.program.shape.kind() {
                        SiteKind::Entry => HOST.stack_args_at_entry,
                        _ => HOST.stack_args,
                    };
                    let offset = first + 8 * (n as i32 - HOST.int_args.len() as i32);
                    Spot::Memory(self.frame(HOST.stack_pointer, offset)?)
                }
            },
            Operand::FloatArg(n) if n < u32::from(HOST.float_args) => {
                Self::register(HOST.first_float_arg + n as u16)
            }
            Operand::Result => Spot::General(HOST.int_result),
            Operand::FloatResult => Self::register(HOST.float_result),
            Operand::Temp => Spot::Temp,
            Operand::Reg(reg) => Self::register(reg.get()),
            Operand::Imm(value) => Spot::Known(value),
            _ => return Err(Undefined),
        }))
    }
}
