//! Instructions as text, in the notation of the manual, with the aliases that people write.

use alloc::format;
use alloc::string::String;
use core::fmt::Write;

use super::decode::{Access, AddSub, Address, Insn, Logic, Operand, Wide};

const CONDS: [&str; 16] = [
    "eq", "ne", "hs", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le", "al", "nv",
];
const SHIFTS: [&str; 4] = ["lsl", "lsr", "asr", "ror"];
const EXTENDS: [&str; 8] = ["uxtb", "uxth", "uxtw", "uxtx", "sxtb", "sxth", "sxtw", "sxtx"];
const BARRIERS: [&str; 8] = ["", "", "", "", "dsb", "dmb", "isb", ""];

fn name(table: &[&'static str], index: u8) -> &'static str {
    table.get(usize::from(index)).copied().unwrap_or("?")
}

/// A register, where 31 is zero.
fn r(wide: bool, reg: u8) -> String {
    match (wide, reg) {
        (true, 31) => "xzr".into(),
        (false, 31) => "wzr".into(),
        (true, _) => format!("x{reg}"),
        (false, _) => format!("w{reg}"),
    }
}

/// A register, where 31 is the stack pointer.
fn sp(wide: bool, reg: u8) -> String {
    match (wide, reg) {
        (true, 31) => "sp".into(),
        (false, 31) => "wsp".into(),
        _ => r(wide, reg),
    }
}

/// Appends the text of an instruction; `word` is for those that have none.
pub(super) fn write(insn: Insn, word: u32, out: &mut String) {
    let text = match insn {
        Insn::Udf { imm } => format!("udf #{imm}"),
        Insn::Brk { imm } => format!("brk #{imm:#x}"),
        Insn::Hint { number } => hint(number),
        Insn::Barrier { kind, option } => format!("{} #{option}", name(&BARRIERS, kind)),
        Insn::B { to } => format!("b {to:#x}"),
        Insn::Bl { to } => format!("bl {to:#x}"),
        Insn::BCond { cond, hinted, to } => {
            let c = if hinted { "c" } else { "" };
            format!("b{c}.{} {to:#x}", name(&CONDS, cond))
        }
        Insn::Cb {
            nonzero,
            wide,
            rt,
            to,
        } => {
            let n = if nonzero { "n" } else { "" };
            format!("cb{n}z {}, {to:#x}", r(wide, rt))
        }
        Insn::Tb { nonzero, rt, bit, to } => {
            let n = if nonzero { "n" } else { "" };
            format!("tb{n}z {}, #{bit}, {to:#x}", r(bit > 31, rt))
        }
        Insn::Br { rn, plain: true } => format!("br {}", r(true, rn)),
        Insn::Blr { rn, plain: true } => format!("blr {}", r(true, rn)),
        Insn::Ret { rn: 30, plain: true } => "ret".into(),
        Insn::Ret { rn, plain: true } => format!("ret {}", r(true, rn)),
        Insn::Adr { rd, to, page } => {
            let p = if page { "p" } else { "" };
            format!("adr{p} {}, {to:#x}", r(true, rd))
        }
        Insn::MoveWide {
            how,
            wide,
            rd,
            imm,
            shift,
        } => move_wide(how, &r(wide, rd), imm, shift),
        Insn::AddSub(op, operand) => add_sub(op, operand),
        Insn::Logical {
            op,
            not,
            wide,
            rd,
            rn,
            operand,
        } => logical((op, not), wide, rd, rn, operand),
        Insn::Bitfield {
            signed,
            keeps,
            wide,
            rd,
            rn,
            immr,
            imms,
        } => bitfield(signed, keeps, wide, (rd, rn), (immr, imms)),
        Insn::Memory(access, at) => {
            let unscaled = matches!(at, Address::Offset { unscaled: true, .. });
            let u = if unscaled { "u" } else { "" };
            let mnemonic = format!("{}{u}r{}", direction(access), suffix(access));
            format!(
                "{mnemonic} {}, {}",
                data(access, access.rt),
                address(at, access.size)
            )
        }
        Insn::Pair {
            access,
            rt2,
            address: at,
        } => {
            let (first, second) = (data(access, access.rt), data(access, rt2));
            format!(
                "{}p {first}, {second}, {}",
                direction(access),
                address(at, access.size)
            )
        }
        Insn::Literal { access, to } => {
            let s = if access.signed { "sw" } else { "" };
            format!("ldr{s} {}, {to:#x}", data(access, access.rt))
        }
        Insn::Exclusive {
            access,
            rn,
            status,
            ordered,
        } => {
            let order = match (ordered, access.load) {
                (false, _) => "",
                (true, true) => "a",
                (true, false) => "l",
            };
            let status = status.map_or_else(String::new, |status| format!("{}, ", r(false, status)));
            let mnemonic = format!("{}{order}xr{}", direction(access), suffix(access));
            format!(
                "{mnemonic} {status}{}, [{}]",
                data(access, access.rt),
                sp(true, rn)
            )
        }
        Insn::Fmov {
            wide,
            to_vector,
            rd,
            rn,
        } => {
            let scalar = if wide { "d" } else { "s" };
            match to_vector {
                true => format!("fmov {scalar}{rd}, {}", r(wide, rn)),
                false => format!("fmov {}, {scalar}{rn}", r(wide, rd)),
            }
        }
        Insn::MoveVector { size: 4, rd, rn } => format!("fmov s{rd}, s{rn}"),
        Insn::MoveVector { size: 8, rd, rn } => format!("fmov d{rd}, d{rn}"),
        Insn::MoveVector { rd, rn, .. } => format!("mov v{rd}.16b, v{rn}.16b"),
        Insn::Exception | Insn::Br { .. } | Insn::Blr { .. } | Insn::Ret { .. } | Insn::Unknown => {
            format!(".inst {word:#010x}")
        }
    };
    out.push_str(&text);
}

fn hint(number: u8) -> String {
    match number {
        0 => "nop".into(),
        1 => "yield".into(),
        32 => "bti".into(),
        34 => "bti c".into(),
        36 => "bti j".into(),
        38 => "bti jc".into(),
        _ => format!("hint #{number}"),
    }
}

fn move_wide(how: Wide, rd: &str, imm: u16, shift: u8) -> String {
    let mnemonic = match how {
        Wide::Not => "movn",
        Wide::Zero => "movz",
        Wide::Keep => "movk",
    };
    match shift {
        0 => format!("{mnemonic} {rd}, #{imm:#x}"),
        _ => format!("{mnemonic} {rd}, #{imm:#x}, lsl #{shift}"),
    }
}

/// The last operand; an extension that says nothing new is left out.
fn operand(operand: Operand, wide: bool, plain: bool) -> String {
    match operand {
        Operand::Imm(imm) => format!("#{imm:#x}"),
        Operand::Shifted { rm, kind: 0, by: 0 } => r(wide, rm),
        Operand::Shifted { rm, kind, by } => format!("{}, {} #{by}", r(wide, rm), name(&SHIFTS, kind)),
        Operand::Extended { rm, kind, by } => {
            let mut text = r(wide && kind & 3 == 3, rm);
            let same = kind == if wide { 3 } else { 2 };
            if !(same && plain && by == 0) {
                let _ = write!(text, ", {}", name(&EXTENDS, kind));
            }
            if by != 0 {
                let _ = write!(text, " #{by}");
            }
            text
        }
    }
}

fn add_sub(op: AddSub, last: Operand) -> String {
    let AddSub {
        wide,
        sub,
        flags,
        rd,
        rn,
    } = op;
    let shifted = matches!(last, Operand::Shifted { .. });
    let first = if shifted { r(wide, rn) } else { sp(wide, rn) };
    let last = operand(last, wide, rn == 31 || rd == 31);
    let mnemonic = match (sub, flags) {
        (false, false) => "add",
        (true, false) => "sub",
        (false, true) if rd == 31 => return format!("cmn {first}, {last}"),
        (true, true) if rd == 31 => return format!("cmp {first}, {last}"),
        (false, true) => "adds",
        (true, true) => "subs",
    };
    let dst = if shifted || flags {
        r(wide, rd)
    } else {
        sp(wide, rd)
    };
    format!("{mnemonic} {dst}, {first}, {last}")
}

fn logical(op: (Logic, bool), wide: bool, rd: u8, rn: u8, last: Operand) -> String {
    let mnemonic = match op {
        (Logic::And, false) => "and",
        (Logic::And, true) => "bic",
        (Logic::Or, false) => "orr",
        (Logic::Or, true) => "orn",
        (Logic::Xor, false) => "eor",
        (Logic::Xor, true) => "eon",
        (Logic::Test, false) => "ands",
        (Logic::Test, true) => "bics",
    };
    let imm = matches!(last, Operand::Imm(_));
    let dst = match imm && op.0 != Logic::Test {
        true => sp(wide, rd),
        false => r(wide, rd),
    };
    let last_text = operand(last, wide, true);
    match (op, rn, last) {
        ((Logic::Or, false), 31, Operand::Shifted { kind: 0, by: 0, .. }) => {
            format!("mov {dst}, {last_text}")
        }
        _ => format!("{mnemonic} {dst}, {}, {last_text}", r(wide, rn)),
    }
}

fn bitfield(signed: bool, keeps: bool, wide: bool, (rd, rn): (u8, u8), (immr, imms): (u8, u8)) -> String {
    let (dst, top) = (r(wide, rd), if wide { 63 } else { 31 });
    let from = r(wide, rn);
    let narrow = r(false, rn);
    match (signed, keeps) {
        (true, _) if imms == top => format!("asr {dst}, {from}, #{immr}"),
        (true, _) if immr == 0 && imms == 7 => format!("sxtb {dst}, {narrow}"),
        (true, _) if immr == 0 && imms == 15 => format!("sxth {dst}, {narrow}"),
        (true, _) if immr == 0 && imms == 31 => format!("sxtw {dst}, {narrow}"),
        (true, _) => format!("sbfm {dst}, {from}, #{immr}, #{imms}"),
        (false, true) => format!("bfm {dst}, {from}, #{immr}, #{imms}"),
        (false, false) if imms == top => format!("lsr {dst}, {from}, #{immr}"),
        (false, false) if imms + 1 == immr => format!("lsl {dst}, {from}, #{}", top - imms),
        (false, false) if !wide && immr == 0 && imms == 7 => format!("uxtb {dst}, {narrow}"),
        (false, false) if !wide && immr == 0 && imms == 15 => format!("uxth {dst}, {narrow}"),
        (false, false) => format!("ubfm {dst}, {from}, #{immr}, #{imms}"),
    }
}

fn direction(access: Access) -> &'static str {
    if access.load { "ld" } else { "st" }
}

/// What follows the mnemonic of a load or store of one register.
fn suffix(access: Access) -> &'static str {
    match (access.vector, access.signed, access.size) {
        (false, false, 1) => "b",
        (false, false, 2) => "h",
        (false, true, 1) => "sb",
        (false, true, 2) => "sh",
        (false, true, _) => "sw",
        _ => "",
    }
}

/// The register that is loaded or stored.
fn data(access: Access, rt: u8) -> String {
    if !access.vector {
        return r(access.wide, rt);
    }
    let letter = match access.size {
        1 => 'b',
        2 => 'h',
        4 => 's',
        8 => 'd',
        _ => 'q',
    };
    format!("{letter}{rt}")
}

fn address(address: Address, size: u8) -> String {
    let base = |rn| sp(true, rn);
    match address {
        Address::Offset { rn, by: 0, .. } => format!("[{}]", base(rn)),
        Address::Offset { rn, by, .. } => format!("[{}, #{by}]", base(rn)),
        Address::Pre { rn, by } => format!("[{}, #{by}]!", base(rn)),
        Address::Post { rn, by } => format!("[{}], #{by}", base(rn)),
        Address::Index { rn, rm, kind, scaled } => {
            let index = r(kind & 1 == 1, rm);
            let by = size.trailing_zeros();
            match (kind, scaled) {
                (3, false) => format!("[{}, {index}]", base(rn)),
                (3, true) => format!("[{}, {index}, lsl #{by}]", base(rn)),
                (_, false) => format!("[{}, {index}, {}]", base(rn), name(&EXTENDS, kind)),
                (_, true) => format!("[{}, {index}, {} #{by}]", base(rn), name(&EXTENDS, kind)),
            }
        }
    }
}
