//! Templates of every architecture, filled and checked on any host.
//!
//! Problem: the templates of an architecture that is not the host's are filled by no patch here.
//! Approach: sequences of every operation, of every width, with numbers around all sizes of
//! immediates, are made to templates and filled with other numbers; each result is compared with
//! what is assembled.

mod stubs;

use super::*;
use crate::addr::{CodeRange, FnOffset, RecordId};
use crate::arch::{Arch, CallShape, Cond};
use crate::sequence::{Field, Fit, Source, arg, assemble, assemble_template, result, temp};
use crate::stackmap::testing::{map, record, reg};

const SITE: u64 = 0x40_0000;

/// An `anyregcc` patchpoint, or the start of a function.
fn site(arch: Arch, is_entry: bool) -> SiteContext<'static> {
    let [to, from, other] = match arch {
        Arch::X86_64 => [0, 5, 4],
        Arch::AArch64 => [0, 1, 2],
        Arch::SystemZ => [2, 3, 4],
        Arch::RiscV64 => [10, 11, 12],
        _ => [3, 4, 5],
    };
    let locations = [reg(to, 8), reg(from, 8), reg(other, 8)];
    let (record, constants) = map()
        .function(0x1000, 24, [record(7).locations(locations)])
        .leak();
    let shape = match is_entry {
        true => CallShape::entry(256),
        false => CallShape::any_reg(256),
    };
    SiteContext {
        arch,
        id: RecordId::new(7),
        function: Some("f"),
        offset: FnOffset::new(4),
        addr: CodeAddr::new(SITE),
        shape: shape.result().args(2),
        record: (!is_entry).then_some(record),
        constants,
        return_offsets: &[],
        trust_live_outs: false,
    }
}

/// Numbers that repeat from run to run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }

    /// A number with so many bits, or near the edge of them.
    fn number(&mut self) -> u64 {
        const BITS: [u32; 18] = [1, 2, 3, 7, 8, 9, 11, 12, 13, 15, 16, 17, 19, 20, 24, 31, 32, 48];
        let bits = BITS[self.below(18) as usize];
        let low = self.next() & ((1 << bits) - 1);
        match self.below(8) {
            0 => (1_u64 << bits).wrapping_add(self.below(5)).wrapping_sub(2),
            1 => low.wrapping_neg(),
            2 => low << self.below(64 - u64::from(bits)),
            3 => self.next(),
            // A class's number, as they are often given.
            4 | 5 => low & !7,
            _ => low,
        }
    }

    /// A displacement: mostly one of a field.
    fn disp(&mut self) -> i32 {
        match self.below(8) {
            0 => self.number() as i32,
            1 => -(self.below(0x1000) as i32),
            2 => self.below(0x8_0000) as i32,
            3 => self.below(0x1000) as i32,
            _ => 8 * self.below(0x200) as i32,
        }
    }

    /// Another number like that, often of the same class.
    fn near(&mut self, number: u64) -> u64 {
        match self.below(4) {
            0 => number.wrapping_add(self.below(0x40) * 8),
            1 => number ^ self.below(0x100) << self.below(56),
            2 => number ^ self.below(0x1_0000),
            _ => number.wrapping_add(self.below(7)).wrapping_sub(3),
        }
    }
}

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

/// A number that a width can be.
fn cut(number: u64, width: u64) -> u64 {
    match width {
        0 => number as i8 as u64,
        1 => u64::from(number as u16),
        2 => number as i32 as u64,
        3 => u64::from(number as u32),
        _ => number,
    }
}

fn memory(width: u64, at: i32) -> Source {
    match width {
        0 => u8::at(arg(0), at).into(),
        1 => i16::at(arg(0), at).into(),
        2 => u32::at(arg(0), at).into(),
        3 => i32::at(arg(0), at).into(),
        _ => u64::at(arg(0), at).into(),
    }
}

/// The sequence of a kind with these numbers.
fn sequence(kind: u64, [a, b]: [u64; 2], [at, to]: [i32; 2]) -> Sequence {
    let (what, width) = (kind % 14, kind / 14 % 5);
    let cond = CONDITIONS[(kind / 70 % 10) as usize];
    let a = cut(a, width);
    let seq = Sequence::new();
    match what {
        0 | 1 => seq
            .guard(cond, memory(width, at), a, Target::Miss)
            .load(result(), u64::at(arg(0), to)),
        2 => seq.guard(cond, u64::of(arg(1)), b, Target::Deopt),
        3 => seq.guard(cond, u32::of(arg(1)), cut(b, 2), Target::Miss),
        4 => seq.guard(cond, u8::of(arg(1)), cut(b, 0), Target::Miss),
        5 => seq.mov(result(), b).jump(Target::Deopt),
        6 => seq.mov(result(), b).add(result(), a),
        7 => seq.mov(result(), arg(0)).and(result(), b),
        8 => match width {
            0 => seq.store(u8::at(arg(0), at), a),
            1 => seq.store(u16::at(arg(0), at), a),
            2 | 3 => seq.store(u32::at(arg(0), at), a),
            _ => seq.store(u64::at(arg(0), at), a),
        },
        9 => match width {
            0 => seq.add_to_memory(u8::at(arg(0), at), a),
            1 => seq.add_to_memory(u16::at(arg(0), at), a),
            2 | 3 => seq.add_to_memory(u32::at(arg(0), at), a),
            _ => seq.add_to_memory(u64::at(arg(0), at), a),
        },
        10 => match width {
            0..=3 => seq.atomic_add(u32::at(arg(0), at), cut(b, 2)),
            _ => seq.atomic_add(u64::at(arg(0), at), b),
        },
        11 => seq
            .mov(temp(), memory(width, at))
            .shift_left(temp(), 3)
            .add(temp(), b)
            .store(u64::at(arg(1), to), temp()),
        12 => seq.guard(cond, b, memory(width, at), Target::Miss),
        _ => seq.mov(result(), u64::at(arg(1), to)).mov(arg(1), 0u64),
    }
}

/// The template of a sequence that the checker accepts in place.
fn made(site: &SiteContext<'_>, environment: &Environment, sequence: &Sequence) -> Option<Template> {
    let Ok(Fit::InPlace(assembled)) = assemble_template(sequence, site, environment) else {
        return None;
    };
    verify::check(site, &assembled.code, &[], &assembled.declared).ok()?;
    let laid_out = LaidOut {
        code: &assembled.code,
        holes: &*assembled.holes?,
        declared: &assembled.declared,
        returns: &assembled.return_offsets,
        used: assembled.used,
    };
    let checked = verify::Template::of(site, &assembled.code, &assembled.declared)?;
    Template::of((0, sequence), checked, &laid_out)
}

/// The place of a site.
fn in_place(site: &SiteContext<'_>) -> Place {
    let len = site.shape.reserved().get();
    Place::Site(CodeRange::new(site.addr, len.into()).unwrap())
}

/// The code of a sequence, filled in, if it can be; the checker admits it.
fn filled(
    template: &Template,
    place: Place,
    environment: &Environment,
    sequence: &Sequence,
) -> Option<(Bytes, Contents)> {
    let (mut code, mut contents) = (Bytes::new(), Contents::new());
    code.extend_from_slice(template.code());
    template.put(place, sequence.outline(), environment, &mut code, &mut contents)?;
    assert!(
        template.checked.admits(place, &code, &contents),
        "{sequence:?} of {:?} at {place:?}: {code:02x?}",
        template.sequence
    );
    Some((code, contents))
}

/// That the checker admits nothing else: no other bit, and no other contents.
fn nothing_else_is_admitted(template: &Template, place: Place, (code, contents): (Bytes, Contents)) {
    let admits = |code: &[u8], contents: &[Content]| template.checked.admits(place, code, contents);
    for bit in 0..8 * code.len() {
        let mut damaged = code.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(!admits(&damaged, &contents), "bit {bit}");
    }
    for at in 0..contents.len() {
        let mut others = contents.clone();
        let other = match others[at] {
            Content::Value(value) => [Content::Value(value ^ 8), Content::More],
            Content::More => [Content::Value(0), Content::Target(place.at())],
            Content::Target(to) => [Content::Target(to.plus(Len::new(4)).unwrap()), Content::More],
        };
        for other in other {
            others[at] = other;
            assert!(!admits(&code, &others), "{others:?}");
        }
    }
}

struct Tally {
    /// Templates, and sequences for which there was none.
    made: [usize; 2],
    /// Filled, and refused.
    filled: [usize; 2],
}

fn try_all(arch: Arch) -> Tally {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut tally = Tally {
        made: [0; 2],
        filled: [0; 2],
    };
    for round in 0..1_500 {
        let site = site(arch, round % 2 == 0);
        let environment = |numbers: &mut Numbers| {
            let distance = [0x1000, 0x7000, 0x9_0000, 0x80_0000][numbers.below(4) as usize];
            let miss = SITE + distance + 4 * numbers.below(0x400);
            Environment {
                miss: Some(CodeAddr::new(miss)),
                deopt: Some(CodeAddr::new(miss + 0x200)),
            }
        };
        let kind = numbers.below(1 << 20);
        let values = [numbers.number(), numbers.number()];
        let disps = [numbers.disp(), numbers.disp()];
        let (first, env) = (sequence(kind, values, disps), environment(&mut numbers));
        let Some(template) = made(&site, &env, &first) else {
            tally.made[1] += 1;
            continue;
        };
        tally.made[0] += 1;
        let own = filled(&template, in_place(&site), &env, &first);
        // At the edge of what a shorter branch reaches, it is assembled.
        let Some(own) = own else {
            tally.filled[1] += 1;
            continue;
        };
        if round % 16 == 0 {
            nothing_else_is_admitted(&template, in_place(&site), own);
        }
        for _ in 0..12 {
            let values = values.map(|value| numbers.near(value));
            let disps = disps.map(|disp| numbers.near(disp as u64) as i32);
            let mut other = sequence(kind, values, disps);
            let env = environment(&mut numbers);
            let moved = SiteContext {
                addr: CodeAddr::new(SITE + 4 * numbers.below(0x40)),
                ..site
            };
            if other.outline().words() != first.outline().words() {
                other = first.clone();
            }
            let Some((code, _)) = filled(&template, in_place(&moved), &env, &other) else {
                tally.filled[1] += 1;
                continue;
            };
            let fresh = assemble(&other, &moved, &env);
            let Ok(Fit::InPlace(fresh)) = fresh else {
                panic!("{arch} {other:?} of {first:?}: {fresh:?}");
            };
            assert_eq!(&code[..], &fresh.code[..], "{arch} {other:?} of {first:?}");
            tally.filled[0] += 1;
        }
    }
    std::println!("{arch}: made {:?}, filled {:?}", tally.made, tally.filled);
    tally
}

fn is_filled_as_it_is_assembled(arch: Arch) {
    let Tally { made, filled } = try_all(arch);
    assert!(made[0] > 600 && filled[0] > 3_000, "{made:?} {filled:?}");
}

/// The inline cache that most patches are: one class after the other, and one field after the
/// other.
fn inline_caches_are_filled(arch: Arch) {
    let hit = |class: u64, at: i32| {
        Sequence::new()
            .guard_eq(u32::at(arg(0), 8), class, Target::Miss)
            .load(result(), u64::at(arg(0), at))
    };
    let environment = Environment {
        miss: Some(CodeAddr::new(SITE + 0x1_0000)),
        deopt: None,
    };
    let site = site(arch, false);
    for (first, at) in [(0x1_2345_u64, 0x100), (0x1234, 0x48)] {
        let template = made(&site, &environment, &hit(first, at));
        let template = template.unwrap_or_else(|| panic!("{arch} {first:#x}"));
        for number in 0..64_u64 {
            // All of the same classes of x86-64.
            let (class, at) = (first + 0x101 * number, at + 8 * (number as i32 % 6));
            let hit = hit(class, at);
            let filled = filled(&template, in_place(&site), &environment, &hit);
            let (code, _) = filled.unwrap_or_else(|| panic!("{arch} {class:#x} {at:#x}"));
            let Ok(Fit::InPlace(fresh)) = assemble(&hit, &site, &environment) else {
                panic!()
            };
            assert_eq!(&code[..], &fresh.code[..]);
        }
    }
}

#[test]
fn inline_caches_are_filled_on_every_architecture() {
    ARCHS.into_iter().for_each(inline_caches_are_filled);
}

/// What goes to an exit stub with an instruction that needs nothing of a site may do so at any of as many
/// bytes. Where it is farther, and a register is needed that marked sites do not leave free, it may not.
#[test]
fn what_needs_a_register_is_no_way_to_an_exit_for_any_site() {
    let exit = Sequence::new().jump(Target::Deopt);
    let admits = |arch, distance| {
        let site = site(arch, false);
        let environment = Environment {
            miss: None,
            deopt: Some(CodeAddr::new(SITE + distance)),
        };
        let Ok(Fit::InPlace(assembled)) = assemble_template(&exit, &site, &environment) else {
            panic!("{arch} {distance:#x}")
        };
        verify::check(&site, &assembled.code, &[], &assembled.declared).unwrap();
        let mut kinds = SiteKinds::default();
        let reserved = site.shape.reserved();
        let kind = kinds.of_exits(reserved, || site).unwrap();
        let is_admitted = kinds.admits(kind, &site, &assembled);
        let later = kinds.of_exits(reserved, || panic!("it is known"));
        assert_eq!(later, is_admitted.then_some(kind));
        is_admitted
    };
    for arch in ARCHS {
        assert!(admits(arch, 0x1000), "{arch}");
    }
    // Beyond a jump of 1 MiB.
    assert!(!admits(Arch::RiscV64, 0x1000_0000));
}

const ARCHS: [Arch; 7] = [
    Arch::X86_64,
    Arch::AArch64,
    Arch::PowerPc64,
    Arch::PowerPc64ElfV2,
    Arch::PowerPc64Le,
    Arch::SystemZ,
    Arch::RiscV64,
];

macro_rules! architectures {
    ($($name:ident: $arch:ident,)*) => {
        $(
            #[test]
            fn $name() {
                is_filled_as_it_is_assembled(Arch::$arch);
            }
        )*
    };
}

architectures! {
    x86_64: X86_64,
    aarch64: AArch64,
    powerpc64: PowerPc64,
    powerpc64_elfv2: PowerPc64ElfV2,
    powerpc64le: PowerPc64Le,
    s390x: SystemZ,
    riscv64: RiscV64,
}
