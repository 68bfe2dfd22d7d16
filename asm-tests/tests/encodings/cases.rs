//! Every operation with operands of every class, at every boundary.

use patchpoint::CallShape;
use patchpoint::addr::{CodeAddr, DwarfReg};
use patchpoint::arch::{Arch, Cond, Extension, Label, OnReturn, Width};
use patchpoint::sequence::{
    Field, Mem, Operand, OperandPart, Sequence, Target, arg, float_arg, float_result, live, result, temp,
};

use super::map::Location;

/// What differs between architectures.
pub struct Machine {
    pub arch: Arch,
    /// The name of the file in which its instructions are, without the ending.
    pub file: &'static str,
    /// Registers that hold values, by DWARF number.
    pub general: &'static [u16],
    pub vectors: &'static [u16],
    /// Frame and stack pointer.
    pub frame: [u16; 2],
    /// The unit of lengths.
    pub unit: u32,
    /// The bits of the distances that branches reach, with their sign.
    pub reaches: &'static [u32],
}

/// One sequence at one site.
pub struct Case {
    pub shape: CallShape,
    pub locations: Vec<Location>,
    pub sequence: Sequence,
    pub site: u64,
}

pub const SITE: u64 = 0x7000_0000_0000;
const CONDITIONS: [Cond; 10] = [
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
];
pub const KINDS: [(Width, Extension); 8] = [
    (Width::B1, Extension::Zero),
    (Width::B1, Extension::Sign),
    (Width::B2, Extension::Zero),
    (Width::B2, Extension::Sign),
    (Width::B4, Extension::Zero),
    (Width::B4, Extension::Sign),
    (Width::B8, Extension::Zero),
    (Width::B8, Extension::Sign),
];

fn at((width, extension): (Width, Extension), base: Operand, disp: i32) -> Mem {
    match (width, extension) {
        (Width::B1, Extension::Zero) => u8::at(base, disp),
        (Width::B1, Extension::Sign) => i8::at(base, disp),
        (Width::B2, Extension::Zero) => u16::at(base, disp),
        (Width::B2, Extension::Sign) => i16::at(base, disp),
        (Width::B4, Extension::Zero) => u32::at(base, disp),
        (Width::B4, Extension::Sign) => i32::at(base, disp),
        (Width::B8, Extension::Zero) => u64::at(base, disp),
        (Width::B8, Extension::Sign) => i64::at(base, disp),
    }
}

fn of((width, extension): (Width, Extension), operand: Operand) -> OperandPart {
    match (width, extension) {
        (Width::B1, Extension::Zero) => u8::of(operand),
        (Width::B1, Extension::Sign) => i8::of(operand),
        (Width::B2, Extension::Zero) => u16::of(operand),
        (Width::B2, Extension::Sign) => i16::of(operand),
        (Width::B4, Extension::Zero) => u32::of(operand),
        (Width::B4, Extension::Sign) => i32::of(operand),
        (Width::B8, Extension::Zero) => u64::of(operand),
        (Width::B8, Extension::Sign) => i64::of(operand),
    }
}

/// The boundaries of displacements of all architectures, scaled and not, and one beyond each.
pub fn displacements() -> Vec<i32> {
    let mut all = vec![0, 1, 2, 3, 4, 7, 8, 16, i32::MAX, i32::MIN];
    for bits in [7, 8, 9, 11, 12, 15, 19, 20] {
        let edge = 1 << bits;
        all.extend([edge - 1, edge, -edge, -edge - 1]);
    }
    // The 12 bits of AArch64, scaled, and what is a multiple of 4 or 8 below a boundary.
    for scale in [2, 4, 8] {
        all.extend([4095 * scale, 4096 * scale, 4095 * scale + 1]);
    }
    all.extend([252, 32760, 32764, -32764, 0x7ff_fff8]);
    all
}

/// The boundaries of immediates of all architectures, and one beyond each.
pub fn immediates() -> Vec<u64> {
    let mut all = vec![
        0,
        1,
        2,
        u64::MAX,
        0x00ff_00ff_00ff_00ff,
        0x1234_5678_9abc_def0,
        0xffff_0000_ffff,
    ];
    for bits in [5, 6, 7, 8, 11, 12, 13, 15, 16, 24, 31, 32, 33, 47, 48, 63] {
        let edge = 1u64 << bits;
        all.extend([
            edge - 1,
            edge,
            edge + 1,
            edge.wrapping_neg(),
            edge.wrapping_neg() - 1,
        ]);
    }
    all
}

/// A jump's target: nothing is executed.
fn to(addr: CodeAddr) -> Target {
    // SAFETY: the code is only looked at.
    unsafe { Target::addr(addr) }
}

/// `value` as a number of that width, if it is one.
fn fits(value: u64, width: Width) -> bool {
    let bits = 8 * u32::from(width.bytes());
    bits == 64 || value >> bits == 0 || (value as i64) >> (bits - 1) == -1
}

/// What a site does that looks an object's class up in the cache that inline caches share, as
/// `src/ic/lower.rs` has it.
pub fn probe(class: (Width, Extension), object: Operand, mask: u64) -> Sequence {
    const SLOTS: u64 = 0x7f12_3456_7890;
    let (width, _) = class;
    let word = at((width, Extension::Zero), temp(), 0);
    Sequence::new()
        .mov(temp(), at(class, object, 8))
        .shift_right(temp(), 7)
        .add(temp(), at(class, object, 8))
        .and(temp(), mask)
        .shift_left(temp(), 3)
        .add(temp(), SLOTS)
        .load(temp(), u64::at(temp(), 0))
        .guard_eq(word, at(class, object, 8), Target::Miss)
        .guard_eq(u32::at(temp(), 8), 1, Target::Miss)
        .load(temp(), u64::at(temp(), 16))
        .add(temp(), object)
        .load(result(), u64::at(temp(), 0))
}

/// Collects cases.
pub struct Cases<'m> {
    machine: &'m Machine,
    pub all: Vec<Case>,
}

impl<'m> Cases<'m> {
    pub fn of(machine: &'m Machine) -> Vec<Case> {
        let mut cases = Self {
            machine,
            all: Vec::new(),
        };
        cases.registers();
        cases.memory();
        cases.constants();
        cases.comparisons();
        cases.additions();
        cases.bits();
        cases.branches();
        cases.conventions();
        cases.vectors();
        cases.probes();
        cases.nops();
        cases.all
    }

    fn add(&mut self, shape: CallShape, locations: &[Location], sequence: Sequence) {
        self.all.push(Case {
            shape,
            locations: locations.to_vec(),
            sequence,
            site: SITE,
        });
    }

    /// At an `anyregcc` patchpoint: the result, then the arguments.
    fn any(&mut self, result: u16, args: &[Location], sequence: Sequence) {
        let mut locations = vec![Location::Reg(result, 8)];
        locations.extend(args);
        let shape = CallShape::any_reg(512).result().args(args.len() as u32);
        self.add(shape, &locations, sequence);
    }

    /// The same at one of the C convention, where registers are free. The values are live.
    fn c(&mut self, lives: &[Location], sequence: Sequence) {
        self.add(CallShape::c(512).result().args(1), lives, sequence);
    }

    fn general(&self, n: usize) -> u16 {
        self.machine.general[n % self.machine.general.len()]
    }

    /// Places that an address can be based on, and places of values.
    fn bases(&self) -> Vec<Location> {
        let [frame, stack] = self.machine.frame;
        let mut all = vec![
            Location::Reg(self.general(3), 8),
            Location::Pool,
            Location::Constant(0x1000),
        ];
        for base in [frame, stack] {
            all.extend([Location::Direct(base, 16), Location::Indirect(base, -8, 8)]);
        }
        all
    }

    /// Every register as destination, source and base.
    fn registers(&mut self) {
        for n in 0..self.machine.general.len() {
            for other in [n + 1, n + 5, n] {
                let (dst, src) = (self.general(n), self.general(other));
                let args = [Location::Reg(src, 8)];
                for kind in KINDS {
                    self.any(dst, &args, Sequence::new().mov(result(), of(kind, arg(0))));
                    self.any(dst, &args, Sequence::new().load(result(), at(kind, arg(0), 8)));
                }
            }
            let args = [
                Location::Reg(self.general(n), 8),
                Location::Reg(self.general(n + 3), 8),
            ];
            let dst = self.general(n + 7);
            for kind in KINDS {
                let field = at(kind, arg(1), 16);
                self.any(dst, &args, Sequence::new().store(field, arg(0)));
                self.any(dst, &args, Sequence::new().add_to_memory(field, arg(0)));
                self.any(dst, &args, Sequence::new().atomic_add(field, arg(0)));
                let compared =
                    Sequence::new().jump_if(Cond::Less, of(kind, arg(0)), of(kind, arg(1)), Target::Miss);
                self.any(dst, &args, compared);
                let summed = Sequence::new().mov(result(), 5).add(result(), of(kind, arg(0)));
                self.any(dst, &args, summed);
            }
        }
    }

    /// Every displacement, of slots, of addresses in registers, slots, constants.
    fn memory(&mut self) {
        let (dst, src) = (self.general(0), self.general(6));
        for disp in displacements() {
            for kind in KINDS {
                for base in self.bases() {
                    let args = [base, Location::Reg(src, 8)];
                    self.any(dst, &args, Sequence::new().load(result(), at(kind, arg(0), disp)));
                    self.any(dst, &args, Sequence::new().store(at(kind, arg(0), disp), arg(1)));
                    self.c(&args, Sequence::new().store(at(kind, live(0), disp), 0x17));
                    self.c(
                        &args,
                        Sequence::new().add_to_memory(at(kind, live(0), disp), live(1)),
                    );
                    self.c(
                        &args,
                        Sequence::new().atomic_add(at(kind, live(0), disp), live(1)),
                    );
                    let guard = Sequence::new().guard_eq(at(kind, live(0), disp), 0x17, Target::Miss);
                    self.c(&args, guard);
                }
            }
            for base in self.machine.frame {
                for size in [8, 4, 2, 1] {
                    let slot = [Location::Indirect(base, disp, size)];
                    let kinds = KINDS.into_iter().filter(|(width, _)| width.bytes() <= size);
                    for kind in kinds {
                        self.any(dst, &slot, Sequence::new().mov(result(), of(kind, arg(0))));
                    }
                    self.any(dst, &slot, Sequence::new().guard_eq(arg(0), 0x17, Target::Miss));
                }
                self.any(
                    dst,
                    &[Location::Indirect(base, disp, 8)],
                    Sequence::new().load(result(), u64::at(arg(0), 8)),
                );
                self.any(
                    dst,
                    &[Location::Direct(base, disp)],
                    Sequence::new().mov(result(), arg(0)),
                );
                self.any(
                    dst,
                    &[Location::Direct(base, disp)],
                    Sequence::new().load(result(), u64::at(arg(0), 8)),
                );
            }
        }
    }

    fn constants(&mut self) {
        let place = [Location::Reg(self.general(2), 8)];
        for value in immediates() {
            self.any(self.general(1), &[], Sequence::new().mov(result(), value));
            self.c(&[], Sequence::new().mov(temp(), value).mov(result(), temp()));
            self.c(
                &[],
                Sequence::new().load(result(), u64::at(CodeAddr::new(value), 0)),
            );
            self.c(&[], Sequence::new().jump(to(CodeAddr::new(value & !3))));
            self.c(
                &[],
                // SAFETY: the function can be called from the site.
                unsafe { Sequence::new().call(CodeAddr::new(value & !3), OnReturn::FollowsC) },
            );
            for kind in KINDS.into_iter().filter(|(width, _)| fits(value, *width)) {
                self.any(
                    self.general(1),
                    &place,
                    Sequence::new().store(at(kind, arg(0), 8), value),
                );
                self.c(&place, Sequence::new().store(at(kind, live(0), 8), value));
            }
        }
        for value in [0, 1, -1, i32::MAX, i32::MIN] {
            self.any(
                self.general(1),
                &[Location::Constant(value)],
                Sequence::new().mov(result(), arg(0)),
            );
        }
        self.any(
            self.general(1),
            &[Location::Pool],
            Sequence::new().mov(result(), arg(0)),
        );
    }

    fn comparisons(&mut self) {
        let (one, two) = (
            Location::Reg(self.general(2), 8),
            Location::Reg(self.general(4), 8),
        );
        let slot = Location::Indirect(self.machine.frame[0], -16, 8);
        for cond in CONDITIONS {
            for kind in KINDS {
                for pair in [[one, two], [one, slot], [slot, one], [slot, slot]] {
                    let sides = (of(kind, live(0)), of(kind, live(1)));
                    self.c(
                        &pair,
                        Sequence::new().jump_if(cond, sides.0, sides.1, Target::Miss),
                    );
                    let field = at(kind, live(0), 8);
                    self.c(
                        &pair,
                        Sequence::new().jump_if(cond, field, live(1), Target::Deopt),
                    );
                    self.c(&pair, Sequence::new().guard(cond, live(1), field, Target::End));
                    let both = Sequence::new().guard(cond, field, at(kind, live(1), 16), Target::Miss);
                    self.c(&pair, both);
                }
                for value in immediates().into_iter().filter(|value| fits(*value, kind.0)) {
                    self.c(
                        &[one],
                        Sequence::new().jump_if(cond, of(kind, live(0)), value, Target::Miss),
                    );
                    if matches!(cond, Cond::Eq | Cond::Below | Cond::Less) {
                        let field = at(kind, live(0), 8);
                        self.c(&[one], Sequence::new().jump_if(cond, field, value, Target::Miss));
                        self.any(
                            self.general(1),
                            &[one],
                            Sequence::new().guard(cond, value, field, Target::Miss),
                        );
                    }
                }
            }
        }
    }

    fn additions(&mut self) {
        let [frame, _] = self.machine.frame;
        let values = [
            Location::Reg(self.general(2), 8),
            Location::Indirect(frame, -16, 8),
            Location::Direct(frame, 32),
        ];
        for value in immediates() {
            self.any(
                self.general(1),
                &[],
                Sequence::new().mov(result(), 1).add(result(), value),
            );
            for kind in KINDS.into_iter().filter(|(width, _)| fits(value, *width)) {
                let field = at(kind, live(0), 8);
                self.c(&values, Sequence::new().add_to_memory(field, value));
                self.c(&values, Sequence::new().atomic_add(field, value));
                self.any(
                    self.general(1),
                    &values[..1],
                    Sequence::new().atomic_add(at(kind, arg(0), 8), value),
                );
            }
        }
        for place in values {
            for kind in KINDS {
                let start = || Sequence::new().mov(result(), 1);
                self.c(&[place], start().add(result(), of(kind, live(0))));
                self.c(&[place], start().add(result(), at(kind, live(0), 24)));
                self.any(self.general(1), &[place], start().add(result(), live(0)));
            }
        }
        for counter in [0x1000, SITE + 0x1000, SITE + 0x8000_0000, 0x1234_5678_9ab8] {
            self.c(&[], Sequence::new().count(CodeAddr::new(counter)));
            self.c(&[], Sequence::new().atomic_count(CodeAddr::new(counter)));
            self.any(
                self.general(1),
                &[],
                Sequence::new().atomic_count(CodeAddr::new(counter)),
            );
        }
    }

    fn bits(&mut self) {
        for n in 0..self.machine.general.len() {
            let start = || Sequence::new().mov(result(), 1);
            let dst = self.general(n);
            for by in [0, 1, 31, 32, 63, 64] {
                self.any(dst, &[], start().shift_left(result(), by));
                self.any(dst, &[], start().shift_right(result(), by));
                self.any(dst, &[], start().shift_right_signed(result(), by));
            }
            self.any(dst, &[], start().and(result(), 0xff));
        }
        for mask in immediates() {
            self.any(
                self.general(1),
                &[],
                Sequence::new().mov(result(), 1).and(result(), mask),
            );
            self.c(
                &[],
                Sequence::new()
                    .mov(temp(), 1)
                    .and(temp(), mask)
                    .mov(result(), temp()),
            );
        }
    }

    /// Targets at every distance that a branch just reaches and just does not, forwards and
    /// backwards.
    fn branches(&mut self) {
        let place = [Location::Reg(self.general(2), 8)];
        for bits in self.machine.reaches {
            let (edge, unit) = (1i64 << (bits - 1), i64::from(self.machine.unit));
            for near in -8..=8 {
                for distance in [edge + near * unit, -edge + near * unit] {
                    let target = CodeAddr::new(SITE.wrapping_add_signed(distance));
                    self.c(&place, Sequence::new().jump(to(target)));
                    self.any(self.general(1), &place, Sequence::new().jump(to(target)));
                    for cond in CONDITIONS {
                        self.c(&place, Sequence::new().jump_if(cond, live(0), 0x17, to(target)));
                        self.c(&place, Sequence::new().jump_if(cond, live(0), 0, to(target)));
                    }
                    // SAFETY: the function can be called from the site.
                    self.c(&place, unsafe {
                        Sequence::new().call(target, OnReturn::FollowsC)
                    });
                    self.any(
                        self.general(1),
                        &place,
                        // SAFETY: the function can be called from the site.
                        unsafe { Sequence::new().call(target, OnReturn::PreservesAll) },
                    );
                }
            }
        }
        let nop = Sequence::new;
        for fill in [0usize, 1, 2, 8, 30, 31, 32, 33, 62, 63, 64] {
            let fill =
                |sequence: Sequence| (0..fill).fold(sequence, |s, _| s.store(u64::at(live(0), 8), live(0)));
            for cond in CONDITIONS {
                let label = Label::new(1);
                let forward = fill(nop().jump_if(cond, live(0), 0x17, label)).bind(label);
                self.c(&place, forward);
                let backward = fill(nop().bind(label)).jump_if(cond, live(0), 0x17, label);
                self.c(&place, backward);
            }
        }
    }

    /// Arguments of the C convention, on the stack too, and of functions.
    fn conventions(&mut self) {
        for n in 0..14 {
            for shape in [
                CallShape::c(256).result().args(14),
                CallShape::entry(256).result().args(14),
            ] {
                self.add(shape, &[], Sequence::new().mov(result(), arg(n)).ret());
                self.add(shape, &[], Sequence::new().mov(result(), arg(n)));
                self.add(shape, &[], Sequence::new().mov(float_result(), float_arg(n)));
                self.add(
                    shape,
                    &[],
                    Sequence::new().mov(float_result(), float_arg(n)).ret(),
                );
                self.add(shape, &[], Sequence::new().guard_eq(arg(n), 0x17, Target::Miss));
            }
        }
        for shape in [CallShape::entry(64), CallShape::shadow(64)] {
            self.add(shape, &[], Sequence::new().jump(Target::Deopt));
            self.add(shape, &[], Sequence::new().trap());
            self.add(shape, &[], Sequence::new().ret());
        }
    }

    fn vectors(&mut self) {
        let from = Location::Reg(self.general(3), 8);
        for (n, vector) in self.machine.vectors.iter().enumerate() {
            let other = self.machine.vectors[(n + 5) % self.machine.vectors.len()];
            for kind in KINDS {
                self.any(*vector, &[from], Sequence::new().mov(result(), of(kind, arg(0))));
                self.any(
                    self.general(n),
                    &[Location::Reg(*vector, 8)],
                    Sequence::new().mov(result(), of(kind, arg(0))),
                );
                self.any(
                    *vector,
                    &[Location::Reg(other, 8)],
                    Sequence::new().mov(result(), of(kind, arg(0))),
                );
                let values = [from, Location::Reg(*vector, 8)];
                for disp in [0, 8, 2047, 2048, 4096, -256, -257, 32760, 32768, 524_288] {
                    self.any(
                        *vector,
                        &[from],
                        Sequence::new().load(result(), at(kind, arg(0), disp)),
                    );
                    self.any(
                        self.general(n),
                        &values,
                        Sequence::new().store(at(kind, arg(0), disp), arg(1)),
                    );
                }
            }
            for value in [0u64, 1, u64::MAX] {
                self.any(*vector, &[], Sequence::new().mov(result(), value));
            }
        }
        let named = DwarfReg::new(self.machine.vectors[0]);
        self.c(&[from], Sequence::new().mov(named, live(0)).mov(result(), named));
    }

    /// Probes of the shared cache of inline caches.
    fn probes(&mut self) {
        let place = Location::Reg(self.general(3), 8);
        for kind in KINDS {
            for result in [1, 3] {
                self.any(self.general(result), &[place], probe(kind, arg(0), 0xfff));
            }
            self.c(&[place], probe(kind, live(0), 0xff_ffff));
        }
    }

    fn nops(&mut self) {
        for units in 1..=64 {
            self.add(CallShape::c(units * self.machine.unit), &[], Sequence::new());
        }
    }
}
