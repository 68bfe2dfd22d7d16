//! Random sequences at random sites: what is assembled passes the checker, and never a panic.

use llvm_stackmaps::Location;
use llvm_stackmaps::fuzzing::Random;

use patchpoint_isa::x86_64 as x86;

use super::*;

trait Choose {
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T;
    fn number(&mut self) -> u64;
    fn disp(&mut self) -> i32;
    fn gpr(&mut self) -> u16;
    fn location(&mut self) -> Location;
    fn site(&mut self) -> SiteContext<'static>;
    fn operand(&mut self) -> Operand;
    fn mem(&mut self) -> Mem;
    fn source(&mut self) -> Source;
    fn target(&mut self) -> Target;
    fn destination(&mut self) -> Operand;
    fn cond(&mut self) -> Cond;
    fn operation(&mut self, sequence: Sequence) -> Sequence;
    fn sequence(&mut self) -> Sequence;
}

impl Choose for Random {
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        *self.pick(all).unwrap()
    }

    fn number(&mut self) -> u64 {
        let edges = [
            0,
            1,
            127,
            128,
            255,
            256,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            1 << 32,
            u64::MAX,
            1 << 63,
        ];
        match self.below(4) {
            0 => self.next(),
            1 => self.one_of(&edges).wrapping_neg(),
            _ => self.one_of(&edges),
        }
    }

    fn disp(&mut self) -> i32 {
        let edges = [
            0,
            1,
            4,
            8,
            127,
            128,
            -128,
            -129,
            4096,
            i32::MAX,
            i32::MAX - 3,
            i32::MIN,
        ];
        self.one_of(&edges)
    }

    fn gpr(&mut self) -> u16 {
        self.one_of(&[0, 1, 2, 3, 4, 5, 8, 9, 10, 12, 13, 14, 15])
    }

    fn location(&mut self) -> Location {
        let size = self.one_of(&[8, 8, 8, 8, 4, 2, 1]);
        let slot = self.one_of(&[-8, -128, -136, 0, 16, i32::MIN]);
        match self.below(8) {
            0..=2 => reg(self.gpr(), size),
            3 => reg(17 + self.below(16) as u16, 16),
            4 => indirect(self.one_of(&[RBP, RSP]), slot, size),
            5 => direct(self.one_of(&[RBP, RSP]), slot),
            6 => constant(self.number() as i32),
            _ => constant_index(0),
        }
    }

    fn site(&mut self) -> SiteContext<'static> {
        let reserved = self.one_of(&[4, 5, 13, 16, 24, 32, 64, 128, 300]);
        let args = self.below(9) as u32;
        let shape = match self.below(8) {
            0..=3 => CallShape::any_reg(reserved).args(args),
            4 | 5 => CallShape::c(reserved).args(args),
            6 => CallShape::shadow(reserved),
            _ => CallShape::entry(reserved).args(args),
        };
        let has_result = shape.kind() != patchpoint_isa::SiteKind::Shadow && self.below(4) != 0;
        let shape = if has_result { shape.result() } else { shape };
        let mut spec = record(7);
        if shape.convention() == patchpoint_isa::Convention::AnyReg && has_result {
            spec = spec.location(if self.below(6) == 0 {
                reg(XMM9, 16)
            } else {
                reg(self.gpr(), 8)
            });
        }
        for _ in 0..args + 3 {
            spec = spec.location(self.location());
        }
        for _ in 0..self.below(3) {
            spec = spec.live_out(self.gpr(), 8);
        }
        let addr = self.one_of(&[SITE, CodeAddr::new(0x7f00_0000_0000), CodeAddr::new(0x10_0000)]);
        let return_offsets: &[u32] = match (self.below(6), shape.kind()) {
            (0, patchpoint_isa::SiteKind::Patchpoint) if reserved > 21 => &[13, 20],
            _ => &[],
        };
        let site = site(shape, spec);
        let record = site
            .record
            .filter(|_| shape.kind() != patchpoint_isa::SiteKind::Entry);
        SiteContext {
            addr,
            return_offsets,
            record,
            ..site
        }
    }

    fn operand(&mut self) -> Operand {
        match self.below(10) {
            0..=3 => arg(self.below(4) as u32),
            4..=6 => live(self.below(3) as u32),
            7 => Operand::Imm(self.number()),
            8 => reg_operand(self.one_of(&[x86::R11, x86::RAX, x86::R13, x86::R12])),
            _ => self.one_of(&[result(), float_result(), float_arg(0), location(1)]),
        }
    }

    fn mem(&mut self) -> Mem {
        let base = self.operand();
        let disp = self.disp();
        match self.below(8) {
            0 => u8::at(base, disp),
            1 => i8::at(base, disp),
            2 => u16::at(base, disp),
            3 => i16::at(base, disp),
            4 => u32::at(base, disp),
            5 => i32::at(base, disp),
            _ => u64::at(base, disp),
        }
    }

    fn source(&mut self) -> Source {
        let operand = self.operand();
        match self.below(6) {
            0 | 1 => operand.into(),
            2 => u8::of(operand).into(),
            3 => i32::of(operand).into(),
            4 => self.number().into(),
            _ => self.mem().into(),
        }
    }

    fn target(&mut self) -> Target {
        match self.below(8) {
            0..=2 => Target::Miss,
            3 => Target::Deopt,
            4 => Target::End,
            5 => Target::to(FAR),
            6 => label(self.below(2) as u32).into(),
            _ => Target::to(CodeAddr::new(0x7f00_7fff_0000)),
        }
    }

    fn destination(&mut self) -> Operand {
        self.one_of(&[
            result(),
            result(),
            result(),
            float_result(),
            reg_operand(x86::R11),
            reg_operand(x86::R8),
            temp(),
        ])
    }

    fn cond(&mut self) -> Cond {
        self.one_of(&[Cond::Eq, Cond::Ne, Cond::Below, Cond::LessOrEqual, Cond::Greater])
    }

    fn operation(&mut self, sequence: Sequence) -> Sequence {
        let counter = CodeAddr::new(self.one_of(&[0x1000, 0x50_0000, 0x7f00_0001_0000, 0x7fff_0000_0000]));
        match self.below(18) {
            0..=4 => sequence.guard(self.cond(), self.source(), self.source(), self.target()),
            5 | 6 => sequence.load(self.destination(), self.mem()),
            7 | 8 => sequence.store(self.mem(), self.source()),
            9 => sequence.mov(self.destination(), self.source()),
            10 => sequence.add(self.destination(), self.source()),
            11 => sequence.atomic_add(self.mem(), self.source()),
            12 => sequence.count(counter),
            13 => sequence.call_to(HELPER, self.one_of(&[OnReturn::PreservesAll, OnReturn::FollowsC])),
            14 => sequence.bind(label(self.below(2) as u32)),
            15 => sequence.and(self.destination(), self.next()),
            16 => sequence.shift_right_signed(self.destination(), self.below(66) as u8),
            _ => sequence.jump(self.target()),
        }
    }

    fn sequence(&mut self) -> Sequence {
        let mut sequence = seq();
        for _ in 0..=self.below(4) {
            sequence = self.operation(sequence);
        }
        match self.below(4) {
            0 => sequence.jump(Target::Deopt),
            1 => sequence.bind(label(0)).bind(label(1)),
            _ => sequence,
        }
    }
}

fn reg_operand(reg: DwarfReg) -> Operand {
    Operand::Reg(reg)
}

/// How often what happened.
#[derive(Debug, Default)]
struct OutcomeCounts {
    in_place: u32,
    out_of_line: u32,
    refused: u32,
}

fn try_one(random: &mut Random, seen: &mut OutcomeCounts) {
    let (site, sequence) = (random.site(), random.sequence());
    let env = Environment {
        miss: Some(MISS),
        deopt: Some(CodeAddr::new(0x7f00_0030_0000)),
    };
    match assemble(&sequence, &site, &env) {
        Err(_) => seen.refused += 1,
        Ok(Fit::InPlace(assembled)) => {
            seen.in_place += 1;
            check_random(&sequence, &site, &assembled);
        }
        Ok(Fit::OutOfLine { stub_len }) => {
            let distance = random.one_of(&[0x1_0000, 0x7ff0_0000, 0u64.wrapping_sub(0x7ff0_0000)]);
            let stub = CodeAddr::new(site.addr.get().wrapping_add(distance) & (u64::MAX >> 1));
            let Ok(assembled) = assemble_out_of_line(&sequence, &site, &env, stub) else {
                seen.refused += 1;
                return;
            };
            seen.out_of_line += 1;
            let len = Len::of(&assembled.stub.as_ref().unwrap().bytes).unwrap();
            assert!(len <= stub_len, "{len} > {stub_len}: {sequence:#?}");
            check_random(&sequence, &site, &assembled);
        }
    }
}

fn check_random(sequence: &Sequence, site: &SiteContext<'_>, assembled: &Assembled) {
    let stubs: Vec<_> = assembled
        .stub
        .iter()
        .map(|s| Chunk {
            addr: s.addr,
            bytes: &s.bytes,
        })
        .collect();
    // Stores to the stack through a location are the sequence's own doing, which the checker
    // judges.
    if let Err(error) = verify::check(site, &assembled.code, &stubs, &assembled.declared) {
        if matches!(error, verify::Error::RedZone { .. }) {
            return;
        }
        let stub = assembled
            .stub
            .as_ref()
            .map(|stub| disassembly(stub.addr, &stub.bytes));
        panic!(
            "{error}\n{sequence:#?}\n{site:#?}\n{:#?}\n{stub:#?}",
            disassembly(site.addr, &assembled.code)
        );
    }
}

#[test]
fn what_is_assembled_passes_the_checker() {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let mut seen = OutcomeCounts::default();
    for _ in 0..20_000 {
        try_one(&mut random, &mut seen);
    }
    assert!(
        seen.in_place > 200 && seen.out_of_line > 200 && seen.refused > 200,
        "{seen:?}"
    );
}
