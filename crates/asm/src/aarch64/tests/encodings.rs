//! Every instruction, over registers, addressing modes and boundary values, against LLVM's
//! assembler.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use patchpoint_isa::{Arch, nops};

use super::branches;
use crate::aarch64::imm::{Disp, Halfword, Imm12, Logical, Shift};
use crate::aarch64::insn::{self, Base, Gpr, Mem, Source};
use crate::encodings::{Cases, Corpus, tests_of};
use crate::op::{Extension, Width};

tests_of!(CORPUS);

const CORPUS: Corpus = Corpus {
    name: "aarch64",
    recorded: include_str!("../../../encodings/aarch64.txt"),
    options: &["-triple=aarch64-linux-gnu"],
    directive: |_| "",
    enumerate: |cases| {
        moves(cases);
        memory(cases);
        exclusive(cases);
        immediates(cases);
        registers(cases);
        bits(cases);
        vectors(cases);
        control(cases);
        branches::cases(cases);
    },
};

const WIDTHS: [Width; 4] = [Width::B1, Width::B2, Width::B4, Width::B8];
const KINDS: [(Width, Extension); 8] = [
    (Width::B1, Extension::Zero),
    (Width::B1, Extension::Sign),
    (Width::B2, Extension::Zero),
    (Width::B2, Extension::Sign),
    (Width::B4, Extension::Zero),
    (Width::B4, Extension::Sign),
    (Width::B8, Extension::Zero),
    (Width::B8, Extension::Sign),
];

fn x(reg: u8) -> String {
    format!("x{reg}")
}

fn w(reg: u8) -> String {
    format!("w{reg}")
}

/// A register that is compared or stored.
fn sized(reg: u8, width: Width) -> String {
    match (reg, width) {
        (31, Width::B8) => "xzr".into(),
        (31, _) => "wzr".into(),
        (_, Width::B8) => x(reg),
        _ => w(reg),
    }
}

fn based(base: Base) -> String {
    match base {
        Base::SP => "sp".into(),
        Base(n) => x(n),
    }
}

fn address(mem: Mem) -> String {
    match mem {
        Mem::Disp(base, Disp::Scaled(disp), _) => format!("[{}, #{disp}]", based(base)),
        Mem::Disp(base, Disp::Unscaled(disp), _) => format!("[{}, #{disp}]", based(base)),
        Mem::Index(base, index) => format!("[{}, {}]", based(base), x(index.0)),
    }
}

/// x0 to x30.
fn gprs(cases: &Cases, plain: u8) -> Vec<u8> {
    cases.registers(plain, 30)
}

/// The same, and number 31: the stack pointer, or zero.
fn with_31(cases: &Cases, plain: u8) -> Vec<u8> {
    cases.values(&[plain, 0, 30, 31], 0..31)
}

fn bases(cases: &Cases, plain: u8) -> Vec<Base> {
    with_31(cases, plain).into_iter().map(Base).collect()
}

/// Memory by the forms of its address: a distance in units of the width, or one in bytes, or an
/// index, from a general register and from the stack pointer.
fn mems(cases: &Cases, width: Width) -> [Vec<Mem>; 6] {
    let size = i32::from(width.bytes());
    let scaled = cases.unsigned(12, 0x155).into_iter().map(|n| n as i32 * size);
    let scaled: Vec<_> = scaled.map(|disp| Disp::new(disp, width).unwrap()).collect();
    let unscaled = cases.signed(9, -75).into_iter().map(|n| n as i32);
    let unscaled: Vec<_> = unscaled
        .map(|disp| Disp::new(disp, width).unwrap())
        .filter(|disp| matches!(disp, Disp::Unscaled(_)))
        .collect();
    let based = |bases: &[Base], disps: &[Disp]| -> Vec<Mem> {
        let pairs = cases.vary(bases, disps).into_iter();
        pairs.map(|(base, disp)| Mem::Disp(base, disp, None)).collect()
    };
    let indexed = |bases: &[Base]| -> Vec<Mem> {
        let pairs = cases.vary(bases, &gprs(cases, 6)).into_iter();
        pairs.map(|(base, index)| Mem::Index(base, Gpr(index))).collect()
    };
    let general: Vec<_> = gprs(cases, 19).into_iter().map(Base).collect();
    [
        based(&general, &scaled),
        based(&[Base::SP], &scaled[..1]),
        based(&general, &unscaled),
        based(&[Base::SP], &unscaled[..1]),
        indexed(&general),
        indexed(&[Base::SP])[..1].to_vec(),
    ]
}

fn imms(cases: &Cases) -> Vec<(u64, Imm12)> {
    let bits = (0..24).map(|bit| 1 << bit);
    let values = cases.values(&[0x123, 0, 1, 0xfff, 0x1000, 0x5000, 0xff_f000], bits);
    values
        .into_iter()
        .map(|value| (value, Imm12::new(value).unwrap()))
        .collect()
}

/// Bitmasks of elements of every size.
fn logicals(cases: &Cases) -> Vec<(u64, Logical)> {
    let boundaries = [
        0x0ff0_0ff0_0ff0_0ff0,
        1,
        u64::MAX >> 1,
        0x5555_5555_5555_5555,
        0x00ff_00ff_00ff_00ff,
        0x8000_0001_8000_0001,
        0xffff_ffff,
        !1,
        1 << 63,
        0x0fff_ffff_ffff_fff0,
        0xf000_0000_0000_000f,
    ];
    let sizes = [2, 4, 8, 16, 32, 64u32];
    let all = sizes.into_iter().flat_map(|size| {
        let repeated = move |run: u64| (0..64 / size).fold(0, |value, n| value | run << (n * size));
        let runs = (1..size).map(move |ones| repeated((1 << ones) - 1));
        runs.flat_map(move |value| (0..size).map(move |by| value.rotate_right(by)))
    });
    let values = cases.values(&boundaries, all);
    values
        .into_iter()
        .map(|value| (value, Logical::new(value).unwrap()))
        .collect()
}

fn moves(cases: &mut Cases) {
    for (width, extension) in KINDS {
        for (dst, src) in cases.vary(&gprs(cases, 9), &gprs(cases, 21)) {
            let text = match (width, extension) {
                (Width::B8, _) => format!("mov {}, {}", x(dst), x(src)),
                (Width::B4, Extension::Zero) => format!("mov {}, {}", w(dst), w(src)),
                (Width::B4, Extension::Sign) => format!("sxtw {}, {}", x(dst), w(src)),
                (Width::B2, Extension::Zero) => format!("uxth {}, {}", w(dst), w(src)),
                (Width::B2, Extension::Sign) => format!("sxth {}, {}", x(dst), w(src)),
                (Width::B1, Extension::Zero) => format!("uxtb {}, {}", w(dst), w(src)),
                (Width::B1, Extension::Sign) => format!("sxtb {}, {}", x(dst), w(src)),
            };
            cases.add(text, |out| insn::mov(Gpr(dst), Gpr(src), width, extension, out));
        }
    }
    let parts = cases.vary(&[16, 0, 32, 48], &cases.unsigned(16, 0x1234));
    for (dst, (shift, value)) in cases.vary(&gprs(cases, 9), &parts) {
        let (value, dst) = (value as u32, Gpr(dst));
        let part = Halfword { value, shift };
        let operands = format!("{}, #{value}, lsl #{shift}", x(dst.0));
        cases.add(format!("movz {operands}"), |out| insn::movz(dst, part, out));
        cases.add(format!("movn {operands}"), |out| insn::movn(dst, part, out));
        cases.add(format!("movk {operands}"), |out| insn::movk(dst, part, out));
    }
    for (dst, (value, imm)) in cases.vary(&gprs(cases, 9), &logicals(cases)) {
        let text = format!("orr {}, xzr, #{value:#x}", x(dst));
        cases.add(text, |out| insn::mov_logical(Gpr(dst), imm, out));
    }
}

fn memory(cases: &mut Cases) {
    for width in WIDTHS {
        for mems in mems(cases, width) {
            loads_and_stores(cases, width, &mems);
        }
    }
}

fn loads_and_stores(cases: &mut Cases, width: Width, mems: &[Mem]) {
    let suffix = ["b", "h", "", ""][width as usize];
    for (reg, mem) in cases.vary(&with_31(cases, 9), mems) {
        let (unscaled, address) = (unscaled(mem), address(mem));
        let text = format!("st{unscaled}r{suffix} {}, {address}", sized(reg, width));
        cases.add(text, |out| insn::store(mem, Source(reg), width, out));
    }
    for (reg, mem) in cases.vary(&gprs(cases, 9), mems) {
        let (unscaled, address) = (unscaled(mem), address(mem));
        let text = format!("ld{unscaled}r{suffix} {}, {address}", sized(reg, width));
        cases.add(text, |out| insn::load(Gpr(reg), mem, width, Extension::Zero, out));
        if width != Width::B8 {
            let suffix = ["sb", "sh", "sw"][width as usize];
            let text = format!("ld{unscaled}r{suffix} {}, {address}", x(reg));
            cases.add(text, |out| insn::load(Gpr(reg), mem, width, Extension::Sign, out));
        }
    }
    let name = match width {
        Width::B4 => "s",
        Width::B8 => "d",
        _ => return,
    };
    for (reg, mem) in cases.vary(&cases.registers(9, 31), mems) {
        let (unscaled, address) = (unscaled(mem), address(mem));
        let text = format!("ld{unscaled}r {name}{reg}, {address}");
        cases.add(text, |out| insn::load_vector(reg, mem, width, out));
        let text = format!("st{unscaled}r {name}{reg}, {address}");
        cases.add(text, |out| insn::store_vector(mem, reg, width, out));
    }
}

fn unscaled(mem: Mem) -> &'static str {
    match mem {
        Mem::Disp(_, Disp::Unscaled(_), _) => "u",
        _ => "",
    }
}

fn exclusive(cases: &mut Cases) {
    for (width, suffix) in WIDTHS.into_iter().zip(["b", "h", "", ""]) {
        let operands = cases.vary(&gprs(cases, 9), &bases(cases, 19));
        for (reg, from) in &operands {
            let text = format!("ldaxr{suffix} {}, [{}]", sized(*reg, width), based(*from));
            cases.add(text, |out| insn::load_exclusive(Gpr(*reg), *from, width, out));
        }
        for (failed, (reg, to)) in cases.vary(&gprs(cases, 5), &operands) {
            // All three differ.
            if failed == reg || Base(failed) == to {
                continue;
            }
            let (src, to_text) = (sized(reg, width), based(to));
            let text = format!("stlxr{suffix} {}, {src}, [{to_text}]", w(failed));
            cases.add(text, |out| {
                insn::store_exclusive(Gpr(failed), Gpr(reg), to, width, out)
            });
        }
    }
}

fn immediates(cases: &mut Cases) {
    let imms = imms(cases);
    let general = |plain| -> Vec<_> { gprs(cases, plain).into_iter().map(Base).collect() };
    // Both forms of the immediate with each of the stack pointer's places.
    let forms = imms
        .iter()
        .copied()
        .filter(|(value, _)| [0x123, 0x5000].contains(value));
    let forms: Vec<_> = forms.collect();
    let with_sp = [(Base::SP, Base(21)), (Base(9), Base::SP), (Base::SP, Base::SP)];
    let with_sp = with_sp
        .into_iter()
        .flat_map(|regs| forms.iter().map(move |imm| (regs, *imm)));
    let general = cases.vary(&cases.vary(&general(9), &general(21)), &imms);
    for ((dst, base), (value, imm)) in general.into_iter().chain(with_sp) {
        let operands = format!("{}, {}, #{value:#x}", based(dst), based(base));
        cases.add(format!("add {operands}"), |out| {
            insn::add_imm(dst, base, imm, out)
        });
        cases.add(format!("sub {operands}"), |out| {
            insn::sub_imm(dst, base, imm, out)
        });
    }
    for width in [Width::B4, Width::B8] {
        for (reg, (value, imm)) in cases.vary(&gprs(cases, 9), &imms) {
            let operands = format!("{}, #{value:#x}", sized(reg, width));
            cases.add(format!("cmp {operands}"), |out| {
                insn::cmp_imm(Gpr(reg), imm, width, out)
            });
            cases.add(format!("cmn {operands}"), |out| {
                insn::cmn_imm(Gpr(reg), imm, width, out)
            });
        }
    }
}

fn registers(cases: &mut Cases) {
    for (width, extension) in KINDS {
        let extend = match extension {
            Extension::Zero => ["uxtb", "uxth", "uxtw"],
            Extension::Sign => ["sxtb", "sxth", "sxtw"],
        };
        let operands = cases.vary(&cases.vary(&gprs(cases, 9), &bases(cases, 21)), &gprs(cases, 6));
        for ((dst, base), rhs) in operands {
            let to = format!("{}, {}", x(dst), based(base));
            let text = match extend.get(width as usize) {
                Some(extend) => format!("add {to}, {}, {extend}", w(rhs)),
                None => format!("add {to}, {}", x(rhs)),
            };
            cases.add(text, |out| {
                insn::add(Gpr(dst), base, Gpr(rhs), width, extension, out)
            });
        }
        for (lhs, rhs) in cases.vary(&gprs(cases, 9), &gprs(cases, 6)) {
            let text = match width {
                Width::B8 | Width::B4 => format!("cmp {}, {}", sized(lhs, width), sized(rhs, width)),
                _ => format!("cmp {}, {}, {}", w(lhs), w(rhs), extend[width as usize]),
            };
            cases.add(text, |out| insn::cmp(Gpr(lhs), Gpr(rhs), width, extension, out));
        }
    }
}

fn bits(cases: &mut Cases) {
    let pairs = cases.vary(&gprs(cases, 9), &gprs(cases, 21));
    for ((dst, lhs), rhs) in cases.vary(&pairs, &gprs(cases, 6)) {
        let text = format!("and {}, {}, {}", x(dst), x(lhs), x(rhs));
        cases.add(text, |out| insn::and(Gpr(dst), Gpr(lhs), Gpr(rhs), out));
    }
    for ((dst, lhs), (value, imm)) in cases.vary(&pairs, &logicals(cases)) {
        let text = format!("and {}, {}, #{value:#x}", x(dst), x(lhs));
        cases.add(text, |out| insn::and_imm(Gpr(dst), Gpr(lhs), imm, out));
    }
    for ((dst, src), by) in cases.vary(&pairs, &cases.values(&[5, 0, 1, 31, 32, 63], 0..64)) {
        let (dst, src, shift) = (Gpr(dst), Gpr(src), Shift::new(by).unwrap());
        let operands = format!("{}, {}, #{by}", x(dst.0), x(src.0));
        cases.add(format!("lsl {operands}"), |out| insn::lsl(dst, src, shift, out));
        cases.add(format!("lsr {operands}"), |out| insn::lsr(dst, src, shift, out));
        cases.add(format!("asr {operands}"), |out| insn::asr(dst, src, shift, out));
    }
}

fn vectors(cases: &mut Cases) {
    let vectors = cases.registers(9, 31);
    for (dst, src) in cases.vary(&vectors, &cases.registers(21, 31)) {
        let text = format!("mov v{dst}.16b, v{src}.16b");
        cases.add(text, |out| insn::mov_vector(dst, src, out));
    }
    for (width, name) in [(Width::B4, "s"), (Width::B8, "d")] {
        for (vector, reg) in cases.vary(&vectors, &with_31(cases, 21)) {
            let text = format!("fmov {name}{vector}, {}", sized(reg, width));
            cases.add(text, |out| insn::mov_to_vector(vector, Source(reg), width, out));
        }
        for (vector, reg) in cases.vary(&vectors, &gprs(cases, 21)) {
            let text = format!("fmov {}, {name}{vector}", sized(reg, width));
            cases.add(text, |out| insn::mov_from_vector(Gpr(reg), vector, width, out));
        }
    }
}

fn control(cases: &mut Cases) {
    for reg in gprs(cases, 9) {
        cases.add(format!("br {}", x(reg)), |out| insn::br(Gpr(reg), out));
        cases.add(format!("blr {}", x(reg)), |out| insn::blr(Gpr(reg), out));
    }
    cases.add("ret", insn::ret);
    cases.add("udf #0", insn::trap);
    cases.add("nop", |out| nops::put(Arch::AArch64, 4, out));
}

#[test]
fn one_beyond_each_field_is_refused() {
    for value in [0x1001, 0x1fff, 0xff_ffff, 0x100_0000, u64::MAX] {
        assert_eq!(Imm12::new(value), None, "{value:#x}");
    }
    for value in [0, u64::MAX, 5, 0x1_0000_0001_0001] {
        assert_eq!(Logical::new(value), None, "{value:#x}");
    }
    for width in WIDTHS {
        let size = i32::from(width.bytes());
        // Between multiples of the width the unscaled form ends at 255.
        let odd = if size == 1 { None } else { Some(257) };
        for disp in [4096 * size, -257, i32::MAX, i32::MIN].into_iter().chain(odd) {
            assert_eq!(Disp::new(disp, width), None, "{disp} of {size}");
        }
    }
    assert_eq!(Shift::new(64), None);
}
