//! Programs in terms of a site, made at random: the vocabulary once more, for the interpreter to
//! read.

use super::host::HOST;
use super::machine::Data;
use llvm_stackmaps::fuzzing::Random;
use patchpoint::addr::{CodeAddr, DwarfReg};
use patchpoint::arch::{CallShape, Cond, Label, OnReturn};

use super::registers::ForValues;
use llvm_stackmaps::testing::{constant, constant_index, direct, indirect, reg};
use patchpoint::sequence::{
    self, Field, Operand, Sequence, Source, arg, float_arg, float_result, live, location, result, temp,
};
use patchpoint::stackmap::Location;

/// The one constant of the site's pool.
pub(super) const POOL: u64 = 0x1234_5678_9abc_def0;

/// How memory or a part of an operand is read: bytes, and whether with its sign.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadKind {
    pub(super) bytes: u32,
    pub(super) signed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Mem {
    pub(super) base: Operand,
    pub(super) disp: i32,
    pub(super) kind: ReadKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Whole(Operand),
    Part(Operand, ReadKind),
    Mem(Mem),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Miss,
    Deopt,
    End,
    Far,
    Label(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ValueChange {
    And(u64),
    Left(u8),
    Right(u8),
    RightSigned(u8),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    JumpIf(Cond, Value, Value, To),
    Guard(Cond, Value, Value, To),
    Move(Operand, Value),
    Add(Operand, Value),
    Change(Operand, ValueChange),
    Store(Mem, Value),
    AddToMem { to: Mem, value: Value, atomic: bool },
    Jump(To),
    Call { near: bool, follows_c: bool },
    Return,
    Bind(u32),
}

/// A site and a sequence for it.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) shape: CallShape,
    pub(super) locations: Vec<Location>,
    pub(super) live_outs: Vec<u16>,
    pub(super) trust_live_outs: bool,
    pub(super) steps: Vec<Step>,
}

/// Addresses outside of the site.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outside {
    pub(super) far: u64,
    /// A C function, and one that preserves all registers: nearby and far away.
    pub(super) callee: [u64; 2],
    pub(super) preserver: [u64; 2],
}

/// Distances at which some instruction of some architecture has another form, and one beyond.
const EDGES: [i32; 20] = [
    0, 1, 7, 8, 127, 128, 255, 256, 2040, 2047, 2048, 4095, 4096, 16380, 32760, 32764, 32767, 32768, 65_536,
    524_287,
];

impl Mem {
    fn real(self) -> sequence::Mem {
        match (self.kind.bytes, self.kind.signed) {
            (1, false) => u8::at(self.base, self.disp),
            (1, true) => i8::at(self.base, self.disp),
            (2, false) => u16::at(self.base, self.disp),
            (2, true) => i16::at(self.base, self.disp),
            (4, false) => u32::at(self.base, self.disp),
            (4, true) => i32::at(self.base, self.disp),
            (_, false) => u64::at(self.base, self.disp),
            (_, true) => i64::at(self.base, self.disp),
        }
    }
}

impl Value {
    fn real(self) -> Source {
        match self {
            Self::Whole(operand) => operand.into(),
            Self::Mem(mem) => mem.real().into(),
            Self::Part(operand, kind) => match (kind.bytes, kind.signed) {
                (1, false) => u8::of(operand).into(),
                (1, true) => i8::of(operand).into(),
                (2, false) => u16::of(operand).into(),
                (2, true) => i16::of(operand).into(),
                (4, false) => u32::of(operand).into(),
                (4, true) => i32::of(operand).into(),
                (_, false) => u64::of(operand).into(),
                (_, true) => i64::of(operand).into(),
            },
        }
    }
}

impl To {
    fn real(self, outside: &Outside) -> sequence::Target {
        match self {
            Self::Miss => sequence::Target::Miss,
            Self::Deopt => sequence::Target::Deopt,
            Self::End => sequence::Target::End,
            Self::Far => {
                // SAFETY: code that ends the run is placed there.
                unsafe { sequence::Target::addr(CodeAddr::new(outside.far)) }
            }
            Self::Label(n) => Label::new(n).into(),
        }
    }
}

impl Program {
    /// The sequence, as a runtime would write it.
    pub(super) fn sequence(&self, outside: &Outside) -> Sequence {
        self.steps
            .iter()
            .fold(Sequence::new(), |sequence, step| match *step {
                Step::JumpIf(cond, lhs, rhs, to) => {
                    sequence.jump_if(cond, lhs.real(), rhs.real(), to.real(outside))
                }
                Step::Guard(cond, lhs, rhs, to) => {
                    sequence.guard(cond, lhs.real(), rhs.real(), to.real(outside))
                }
                Step::Move(dst, value) => sequence.mov(dst, value.real()),
                Step::Add(dst, value) => sequence.add(dst, value.real()),
                Step::Change(dst, ValueChange::And(mask)) => sequence.and(dst, mask),
                Step::Change(dst, ValueChange::Left(by)) => sequence.shift_left(dst, by),
                Step::Change(dst, ValueChange::Right(by)) => sequence.shift_right(dst, by),
                Step::Change(dst, ValueChange::RightSigned(by)) => sequence.shift_right_signed(dst, by),
                Step::Store(to, value) => sequence.store(to.real(), value.real()),
                Step::AddToMem {
                    to,
                    value,
                    atomic: true,
                } => sequence.atomic_add(to.real(), value.real()),
                Step::AddToMem {
                    to,
                    value,
                    atomic: false,
                } => sequence.add_to_memory(to.real(), value.real()),
                Step::Jump(to) => sequence.jump(to.real(outside)),
                Step::Call {
                    near,
                    follows_c: true,
                } => {
                    let [nearby, far] = outside.callee;
                    let callee = CodeAddr::new(if near { nearby } else { far });
                    // SAFETY: such a function is placed there.
                    unsafe { sequence.call(callee, OnReturn::FollowsC) }
                }
                Step::Call {
                    near,
                    follows_c: false,
                } => {
                    let [nearby, far] = outside.preserver;
                    let callee = CodeAddr::new(if near { nearby } else { far });
                    // SAFETY: such a function is placed there.
                    unsafe { sequence.call(callee, OnReturn::PreservesAll) }
                }
                Step::Return => sequence.ret(),
                Step::Bind(n) => sequence.bind(Label::new(n)),
            })
    }
}

/// Makes programs.
pub(super) struct Maker<'r> {
    random: &'r mut Random,
    values: ForValues,
    /// Where pointers point to.
    heap: u64,
    /// How many there are of each kind of operand; one more is asked for now and then.
    args: usize,
    lives: usize,
}

impl<'r> Maker<'r> {
    pub(super) fn new(random: &'r mut Random, heap: u64) -> Self {
        Self {
            random,
            values: ForValues::of(super::ARCH),
            heap,
            args: 0,
            lives: 0,
        }
    }

    /// A number less than `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        *self.random.pick(all).unwrap()
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.random.below(n) == 0
    }

    /// A general register for values.
    fn general(&mut self) -> u16 {
        loop {
            let reg = self.one_of(self.values.general);
            if !HOST.excluded.contains(&reg) {
                return reg;
            }
        }
    }

    fn vector(&mut self) -> u16 {
        self.values.vectors.start() + self.random.below(16) as u16
    }

    pub(super) fn number(&mut self) -> u64 {
        let edge = self.one_of(&[
            0,
            1,
            0x17,
            127,
            128,
            255,
            256,
            2047,
            2048,
            4095,
            4096,
            0x7fff,
            0x8000,
            0xffff,
            0x1_0000,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            1 << 32,
            1 << 63,
        ]);
        match self.random.below(8) {
            0 => self.random.next(),
            1 => u64::wrapping_neg(edge),
            2 => self.random.next() as u32 as u64,
            _ => edge,
        }
    }

    /// What a register holds at the beginning: often a pointer.
    pub(super) fn initial(&mut self) -> u64 {
        match self.random.below(8) {
            0..=3 => self.heap + (self.random.below(64) as u64) * 8,
            4 => self.heap + self.random.below(64) as u64,
            _ => self.number(),
        }
    }

    fn disp(&mut self) -> i32 {
        let edge = self.one_of(&EDGES);
        match self.random.below(8) {
            0 => -edge,
            1 => !edge,
            2 => edge / 8 * 8,
            3..=5 => 8 * self.random.below(16) as i32,
            _ => edge,
        }
    }

    fn slot(&mut self) -> (u16, i32) {
        match self.one_in(3) {
            true => (HOST.stack_pointer, 256 + self.disp().abs()),
            false => (HOST.frame_pointer, self.disp() / 8 * 8),
        }
    }

    fn size(&mut self) -> u16 {
        self.one_of(&[8, 8, 8, 8, 8, 4, 2, 1])
    }

    fn value_location(&mut self) -> Location {
        let ((base, offset), size) = (self.slot(), self.size());
        match self.random.below(12) {
            0 => direct(base, offset),
            1..=3 => indirect(base, offset, size),
            4 => constant(self.number() as i32),
            5 => constant_index(0),
            6 => reg(self.vector(), 8),
            _ => reg(self.general(), size),
        }
    }

    fn shape(&mut self) -> CallShape {
        let reserved = self.one_of(&[8, 16, 32, 64, 128, 128, 256, 256, 512]);
        let shape = match self.random.below(11) {
            0 => CallShape::entry(reserved),
            1 => return CallShape::shadow(reserved),
            2..=4 => CallShape::c(reserved),
            8..=10 => self.told(reserved),
            _ => CallShape::any_reg(reserved),
        };
        let shape = shape.args(self.random.below(10) as u32);
        if self.one_in(5) { shape } else { shape.result() }
    }

    /// A told site with some registers free, mostly the flags, and the stack now and then.
    fn told(&mut self, reserved: u32) -> CallShape {
        let convention = match self.one_in(4) {
            true => patchpoint::arch::Convention::C,
            false => patchpoint::arch::Convention::AnyReg,
        };
        let count = self.random.below(8);
        let free = (0..count).map(|_| DwarfReg::new(self.general())).collect();
        let mut shape = CallShape::told(convention, reserved).free(free);
        if !self.one_in(4) {
            shape = shape.free_flags();
        }
        match self.one_in(2) {
            true => shape.free_stack(),
            false => shape,
        }
    }

    fn record(&mut self, shape: CallShape) -> Vec<Location> {
        let any_reg = has_record(shape) && shape.convention() == patchpoint::arch::Convention::AnyReg;
        let mut locations = Vec::new();
        if shape.kind() == patchpoint::arch::SiteKind::Entry {
            return locations;
        }
        if any_reg && shape.has_result() {
            let register = if self.one_in(12) {
                self.vector()
            } else {
                self.general()
            };
            locations.push(reg(register, 8));
        }
        let args = if any_reg { shape.arg_count() as usize } else { 0 };
        for _ in 0..args + self.random.below(4) {
            locations.push(self.value_location());
        }
        locations
    }

    fn operand(&mut self) -> Operand {
        let beyond = usize::from(self.one_in(20));
        let args = self.random.below(self.args + beyond) as u32;
        let lives = self.random.below(self.lives + beyond) as u32;
        match self.random.below(16) {
            0..=5 if self.args > 0 => arg(args),
            6..=8 if self.lives > 0 => live(lives),
            9 if self.lives > 0 => location(lives),
            10 if self.args > 0 => float_arg(args),
            11 => result(),
            12 => self.one_of(&[temp(), float_result()]),
            13 => Operand::Imm(self.number()),
            14 => Operand::Reg(DwarfReg::new(self.general())),
            _ => Operand::Imm(self.heap + 8 * self.random.below(64) as u64),
        }
    }

    fn kind(&mut self) -> ReadKind {
        ReadKind {
            bytes: self.one_of(&[1, 2, 4, 8, 8]),
            signed: self.one_in(3),
        }
    }

    fn mem(&mut self) -> Mem {
        Mem {
            base: self.operand(),
            disp: self.disp(),
            kind: self.kind(),
        }
    }

    fn value(&mut self) -> Value {
        match self.random.below(8) {
            0 | 1 => Value::Part(self.operand(), self.kind()),
            2 | 3 => Value::Mem(self.mem()),
            4 => Value::Whole(Operand::Imm(self.number())),
            _ => Value::Whole(self.operand()),
        }
    }

    fn destination(&mut self) -> Operand {
        match self.random.below(8) {
            0 | 1 => temp(),
            2 if self.one_in(2) => float_result(),
            3 if self.one_in(4) => Operand::Reg(DwarfReg::new(self.general())),
            4 if self.one_in(2) => Operand::Reg(DwarfReg::new(self.one_of(HOST.int_args))),
            _ => result(),
        }
    }

    fn to(&mut self) -> To {
        match self.random.below(10) {
            0..=3 => To::Miss,
            4 => To::Deopt,
            5 => To::End,
            6 => To::Far,
            n => To::Label((n & 1) as u32),
        }
    }

    fn cond(&mut self) -> Cond {
        self.one_of(&[
            Cond::Eq,
            Cond::Ne,
            Cond::Below,
            Cond::BelowOrEqual,
            Cond::Above,
            Cond::AboveOrEqual,
            Cond::Less,
            Cond::LessOrEqual,
            Cond::Greater,
            Cond::GreaterOrEqual,
        ])
    }

    fn change(&mut self) -> ValueChange {
        let by = self.random.below(64) as u8;
        match self.random.below(4) {
            0 => ValueChange::And(self.number()),
            1 => ValueChange::Left(by),
            2 => ValueChange::Right(by),
            _ => ValueChange::RightSigned(by),
        }
    }

    fn step(&mut self) -> Step {
        match self.random.below(24) {
            0..=3 => Step::Guard(self.cond(), self.value(), self.value(), self.to()),
            4..=6 => Step::JumpIf(self.cond(), self.value(), self.value(), self.to()),
            7..=10 => Step::Move(self.destination(), self.value()),
            11 | 12 => Step::Add(self.destination(), self.value()),
            13 => Step::Change(self.destination(), self.change()),
            14..=16 => Step::Store(self.mem(), self.value()),
            17..=19 => Step::AddToMem {
                to: self.mem(),
                value: self.value(),
                atomic: self.one_in(2),
            },
            20 => Step::Call {
                near: self.one_in(2),
                follows_c: true,
            },
            21 => Step::Call {
                near: self.one_in(2),
                follows_c: false,
            },
            22 => Step::Bind(self.random.below(2) as u32),
            _ => Step::Jump(self.to()),
        }
    }

    pub(super) fn program(&mut self) -> Program {
        let shape = self.shape();
        let locations = self.record(shape);
        self.args = shape.arg_count() as usize;
        let of_the_call = match shape.convention() {
            patchpoint::arch::Convention::AnyReg => self.args + usize::from(shape.has_result()),
            patchpoint::arch::Convention::C => 0,
        };
        self.lives = locations.len().saturating_sub(of_the_call);
        let mut live_outs = Vec::new();
        if has_record(shape) {
            live_outs.extend((0..self.random.below(3)).map(|_| 0));
            live_outs = live_outs.iter().map(|_| self.general()).collect();
        }
        let mut steps: Vec<_> = (0..1 + self.random.below(6)).map(|_| self.step()).collect();
        for n in 0..2 {
            let goes_there = |step: &Step| match step {
                Step::JumpIf(.., to) | Step::Guard(.., to) | Step::Jump(to) => *to == To::Label(n),
                _ => false,
            };
            let bound = steps
                .iter()
                .any(|step| matches!(step, Step::Bind(bound) if *bound == n));
            if steps.iter().any(goes_there) && !bound {
                let at = self.random.below(steps.len() + 1);
                steps.insert(at, Step::Bind(n));
            }
        }
        match shape.kind() {
            patchpoint::arch::SiteKind::Shadow => steps.push(Step::Jump(To::Deopt)),
            patchpoint::arch::SiteKind::Entry if self.one_in(2) => {
                steps.push(Step::Move(result(), self.value()));
                steps.push(Step::Return);
            }
            _ => {}
        }
        Program {
            shape,
            locations,
            live_outs,
            trust_live_outs: self.one_in(2),
            steps,
        }
    }
}

/// Whether the site's record tells of operands and of what is live.
fn has_record(shape: CallShape) -> bool {
    use patchpoint::arch::SiteKind;
    matches!(shape.kind(), SiteKind::Patchpoint | SiteKind::Told)
}

/// Where a location's slot is, if it has one.
pub(super) fn slot(location: &Location, data: &Data) -> Option<u64> {
    let patchpoint::stackmap::LocationKind::Indirect { reg, offset } = location.kind else {
        return None;
    };
    let base = match reg.get() == HOST.stack_pointer {
        true => data.stack_pointer(),
        false => data.frame_pointer(),
    };
    Some(base.wrapping_add_signed(offset.into()))
}
