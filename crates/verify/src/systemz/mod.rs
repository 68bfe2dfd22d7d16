//! SystemZ: a decoder of the instructions that compiled code and sequences are made of, turned into
//! [`Facts`].
//!
//! The two leftmost bits of an instruction tell its length, so all code decodes into instructions;
//! one that the [`table`] does not know is refused where a sequence has it, and goes on to the next
//! in code that is there already. What is known changes general and floating-point registers, the
//! condition code and memory only: nothing that raises or masks floating-point exceptions, uses
//! access or control registers, or enters the kernel.
//!
//! Sources: z/Architecture Principles of Operation (SA22-7832), chapters 5 and 7, appendix B; ELF
//! Application Binary Interface, s390x Supplement, sections 1.1.4 (registers), 1.2.2 (stack
//! frames), table 1.11 (DWARF numbers).

mod branches;
mod fields;
mod open;
mod table;

#[cfg(test)]
mod tests;

use alloc::string::String;

pub(crate) use branches::branches;
use fields::Fields;
use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::RegSet;
use table::{Does, File, KnownInstruction, Layout};

use super::facts::{
    Abi, Constant, DecodedCode, Dest, Exchange, ExchangePlace, Facts, Flow, Isa, StackPointer, StackStore,
    Step, Undecodable, any_instruction,
};

pub(crate) static ISA: Isa = Isa {
    decode,
    text,
    patchpoint_call,
    trap: &[0x00, 0x01],
    trap_replaces: any_instruction,
    return_offsets_restore: false,
    exchange,
    // The distance of a branch of 6 bytes is an aligned word then, see `exchange`.
    exchange_place: ExchangePlace {
        unit: 4,
        remainder: 2,
        jumps_only: true,
    },
    register,
    distance: |len| match len {
        6 => Some(&[0, 0, 255, 255, 255, 255]),
        _ => None,
    },
    pair: |_, _, _| None,
    leaving: |_, _| None,
    scalable: |_| None,
    fields: |code, is_target| crate::open::fields(code, is_target, decode, open::open),
    abi: Abi {
        known: GENERAL.union(FLOATS).union(UPPER_VECTORS).union(ACCESS),
        parts: 0..0,
        scratch: FREE,
        scratch_at_any_reg: FREE,
        // r14 holds the return address.
        scratch_at_entry: RegSet::of(&[reg(0), reg(1)]),
        lost_in_any_call: FREE,
        // LLVM never allocates access registers; the first two hold the thread pointer.
        callee_saved: numbers(6, 13).union(numbers(24, 31)).union(ACCESS),
        frame: RegSet::of(&[reg(STACK_POINTER), reg(11)]),
        result: RegSet::of(&[reg(2), reg(16)]),
        // v24 is where the vector ABI returns vectors.
        returned: RegSet::of(&[reg(2), reg(16), reg(76)]),
        red_zone: 0,
        return_address: 0,
        stack_align: 8,
        unnumbered_live_outs: true,
    },
};

/// r15.
const STACK_POINTER: u16 = 15;
/// r14, which calls link through.
const LINK: u8 = 14;

/// The registers that LLVM clobbers at patchpoints and stackmaps.
const FREE: RegSet = RegSet::of(&[reg(0), reg(1), reg(14)]);
const GENERAL: RegSet = numbers(0, 15);
const FLOATS: RegSet = numbers(16, 31);
const ACCESS: RegSet = numbers(48, 63);
const UPPER_VECTORS: RegSet = numbers(68, 83);

const fn reg(number: u16) -> DwarfReg {
    DwarfReg::new(number)
}

/// The registers of these numbers.
const fn numbers(first: u16, last: u16) -> RegSet {
    let mut set = RegSet::EMPTY;
    let mut number = first;
    while number <= last {
        set = set.with(reg(number));
        number += 1;
    }
    set
}

const GENERAL_NAMES: [&str; 16] = [
    "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
];
/// From number 16 on.
const FLOAT_NAMES: [&str; 16] = [
    "f0", "f2", "f4", "f6", "f1", "f3", "f5", "f7", "f8", "f10", "f12", "f14", "f9", "f11", "f13", "f15",
];
/// From number 48 on.
const ACCESS_NAMES: [&str; 16] = [
    "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10", "a11", "a12", "a13", "a14", "a15",
];
/// From number 68 on.
const UPPER_NAMES: [&str; 16] = [
    "v16", "v18", "v20", "v22", "v17", "v19", "v21", "v23", "v24", "v26", "v28", "v30", "v25", "v27", "v29",
    "v31",
];

fn register(reg: DwarfReg) -> Option<&'static str> {
    let of = |names: &[&'static str; 16], first: u16| {
        let index = reg.get().checked_sub(first)?;
        names.get(usize::from(index)).copied()
    };
    of(&GENERAL_NAMES, 0)
        .or_else(|| of(&FLOAT_NAMES, 16))
        .or_else(|| of(&ACCESS_NAMES, 48))
        .or_else(|| of(&UPPER_NAMES, 68))
}

/// The number of a floating-point register as it is encoded.
fn float(n: u8) -> DwarfReg {
    let (half, index) = (u16::from(n & 1) * 4, u16::from(n & 7) / 2);
    let upper = if n < 8 { 0 } else { 8 };
    reg(16 + upper + half + index)
}

/// The length of the instruction that begins with this byte.
const fn length(first: u8) -> usize {
    match first >> 6 {
        0 => 2,
        1 | 2 => 4,
        _ => 6,
    }
}

fn decode(addr: u64, bytes: &[u8], code: &mut DecodedCode) -> Result<(), Undecodable> {
    let (mut rest, mut at) = (bytes, addr);
    while let Some(first) = rest.first() {
        let undecodable = |cut_off| Undecodable { addr: at, cut_off };
        let Some((instruction, tail)) = rest.split_at_checked(length(*first)) else {
            return Err(undecodable(true));
        };
        let is_trap = instruction == ISA.trap;
        if at % 2 != 0 || (*first == 0 && !is_trap) {
            return Err(undecodable(false));
        }
        let fields = Fields::of(at, instruction);
        code.push(match is_trap {
            true => Facts {
                flow: Flow::Trap,
                ..plain(&fields)
            },
            false => facts(&fields),
        });
        rest = tail;
        at = at.wrapping_add(instruction.len() as u64);
    }
    Ok(())
}

fn text(addr: u64, bytes: &[u8], out: &mut String) -> Option<usize> {
    let len = length(*bytes.first()?);
    let instruction = bytes.get(..len)?;
    if instruction == ISA.trap {
        out.push_str("trap");
        return Some(len);
    }
    if instruction.first() == Some(&0) {
        return None;
    }
    fields::write(&Fields::of(addr, instruction), out);
    Some(len)
}

/// `llilf %r1, low; iihf %r1, high; basr %r14, %r1`, the second where the address needs it, or
/// `brasl %r14` to a symbol, as LLVM's SystemZAsmPrinter lowers PATCHPOINT.
fn patchpoint_call(addr: u64, bytes: &[u8]) -> Option<(u64, u32)> {
    if let [0xc0, 0xe5, a, b, c, d, ..] = *bytes {
        let halfwords = i64::from(i32::from_be_bytes([a, b, c, d]));
        return Some((addr.wrapping_add_signed(halfwords * 2), 6));
    }
    let (low, rest) = bytes.strip_prefix(&[0xc0, 0x1f])?.split_first_chunk::<4>()?;
    let low = u64::from(u32::from_be_bytes(*low));
    const CALL: [u8; 2] = [0x0d, 0xe1];
    if rest.starts_with(&CALL) {
        return Some((low, 8));
    }
    let (high, rest) = rest.strip_prefix(&[0xc0, 0x18])?.split_first_chunk::<4>()?;
    let target = u64::from(u32::from_be_bytes(*high)) << 32 | low;
    rest.starts_with(&CALL).then_some((target, 14))
}

/// A branch is exchanged by one store to the part of it that changes: the mask, which makes it
/// always or never branch, or the distance, which the processor reads at once where it is an
/// aligned word. Instructions may be fetched piecemeal, so never both (Principles of Operation,
/// chapter 5, "Instruction Fetching"; Linux exchanges masks and distances of the same instruction
/// alike).
fn exchange(of: &Exchange<'_>) -> Result<(), &'static str> {
    const ALWAYS: u8 = 0xf4;
    const NEVER: u8 = 0x04;
    let start = of.before.addr;
    let (first, last) = (
        of.differing.start().wrapping_sub(start),
        of.differing.end().wrapping_sub(start),
    );
    // Calls and other branches keep what they are.
    let is_branch = |bytes: &[u8]| matches!(bytes, [0xc0, second, ..] if matches!(second & 15, 4 | 5));
    if is_branch(of.old) && of.old.get(..2) == of.new.get(..2) {
        return match start % 4 {
            2 => Ok(()),
            _ => Err("the distance that changes is no aligned word"),
        };
    }
    match (of.old, of.new) {
        ([0xc0, old @ (ALWAYS | NEVER), ..], [0xc0, new @ (ALWAYS | NEVER), ..]) => {
            if old != new && last > 1 {
                Err("the mask and the distance of a branch change at once")
            } else if first > 1 && start % 4 != 2 {
                Err("the distance that changes is no aligned word")
            } else {
                Ok(())
            }
        }
        _ => Err("an instruction changes that is no brcl that always or never branches"),
    }
}

/// Facts of an instruction that does nothing but go on.
fn plain(fields: &Fields) -> Facts {
    Facts {
        addr: fields.addr,
        len: fields.len,
        nop: false,
        returns_at: None,
        unit: None,
        flow: Flow::Next,
        writes: RegSet::EMPTY,
        flags: false,
        stack: StackPointer::Keep,
        store: StackStore::None,
        constant: None,
        refused: None,
    }
}

fn facts(fields: &Fields) -> Facts {
    let Some(known) = fields.known else {
        return Facts {
            refused: Some("is not known to change registers and memory only: call a function"),
            ..plain(fields)
        };
    };
    let written = written(fields, known);
    let facts = Facts {
        writes: written.without(reg(STACK_POINTER)),
        flags: may_set_condition(known),
        stack: match written.contains(reg(STACK_POINTER)) {
            true => stack_pointer(fields, known),
            false => StackPointer::Keep,
        },
        store: store(fields, known),
        constant: constant(fields, known),
        ..plain(fields)
    };
    match known.does {
        Does::Branch => branch(fields, known, facts),
        Does::Call => call(fields, known, facts),
        Does::Counts => Facts {
            flow: Flow::Branch(Dest::Address(fields.target)),
            ..facts
        },
        _ => facts,
    }
}

/// Whether the condition code may change. Of what computes, nothing is taken to leave it alone.
fn may_set_condition(known: &KnownInstruction) -> bool {
    match known.does {
        Does::Branch | Does::Call | Does::Counts | Does::LoadsMany | Does::StoresMany => false,
        Does::Constant(_) | Does::Copies => false,
        // Not those that change memory in place: `ni`, `asi` and so on.
        Does::Stores(_) => !known.name.starts_with("st") && !known.name.starts_with("mv"),
        Does::Sets | Does::Swaps(_) | Does::Looks => true,
    }
}

/// Every register that is written, the stack pointer included.
fn written(fields: &Fields, known: &KnownInstruction) -> RegSet {
    let general = |n: u8| RegSet::of(&[reg(n.into())]);
    let first = match known.layout.first_file() {
        File::Float => RegSet::of(&[float(fields.r1)]),
        File::General | File::Mask => general(fields.r1),
    };
    match known.does {
        Does::Sets | Does::Constant(_) | Does::Copies | Does::Swaps(_) | Does::Call => first,
        Does::Counts => first,
        Does::LoadsMany => fields
            .many()
            .fold(RegSet::EMPTY, |set, n| set.with(reg(n.into()))),
        Does::Looks | Does::Stores(_) | Does::StoresMany | Does::Branch => RegSet::EMPTY,
    }
}

/// What an instruction that writes r15 does to it.
fn stack_pointer(fields: &Fields, known: &KnownInstruction) -> StackPointer {
    let own = fields.base == STACK_POINTER as u8 && fields.index == 0;
    match (known.name, known.does) {
        ("aghi" | "agfi", _) => StackPointer::Add(fields.imm),
        ("la" | "lay", _) if own => StackPointer::Add(fields.disp),
        _ => StackPointer::Lost,
    }
}

fn store(fields: &Fields, known: &KnownInstruction) -> StackStore {
    let size = match known.does {
        Does::Stores(size) | Does::Swaps(size) => i64::from(size),
        Does::StoresMany => fields.many().count() as i64 * 8,
        _ => return StackStore::None,
    };
    let stack = STACK_POINTER as u8;
    match known.layout {
        Layout::Ril(..) => StackStore::None,
        // Either may be the index.
        _ if fields.base == stack => indexed(fields.index, fields.disp, size),
        _ if fields.index == stack => indexed(fields.base, fields.disp, size),
        _ => StackStore::None,
    }
}

fn indexed(register: u8, disp: i64, size: i64) -> StackStore {
    if register == 0 {
        return StackStore::Range(disp, disp.saturating_add(size));
    }
    let index = reg(register.into());
    StackStore::Indexed { index, disp, size }
}

/// The register that becomes a constant.
fn constant(fields: &Fields, known: &KnownInstruction) -> Option<Constant> {
    let to = reg(fields.r1.into());
    let of = |from, step| Constant::Of { to, from, step };
    match known.does {
        Does::Constant(shift) => Some(Constant::Is(to, (fields.imm as u64) << shift)),
        Does::Copies => Some(of(reg(fields.r2.into()), Step::Add(0))),
        _ => match known.name {
            "larl" => Some(Constant::Is(to, fields.target)),
            "iihf" => Some(of(
                to,
                Step::Insert {
                    keep: u64::from(u32::MAX),
                    bits: (fields.imm as u64) << 32,
                },
            )),
            "iilf" => Some(of(
                to,
                Step::Insert {
                    keep: !u64::from(u32::MAX),
                    bits: fields.imm as u64 & u64::from(u32::MAX),
                },
            )),
            "aghi" | "agfi" => Some(of(to, Step::Add(fields.imm))),
            _ => None,
        },
    }
}

/// A mask of 0 never branches, one of 15 always does. A register 0 as a target means not to branch.
fn branch(fields: &Fields, known: &KnownInstruction, facts: Facts) -> Facts {
    const ALWAYS: u8 = 15;
    let (dest, mask) = match known.layout {
        Layout::Rr(..) => (Dest::Register(reg(fields.r2.into())), fields.r1),
        Layout::Ri(..) | Layout::Ril(..) => (Dest::Address(fields.target), fields.r1),
        Layout::Rx(..) => (Dest::Unknown, fields.r1),
        // What compares first branches sometimes, whatever its mask.
        _ => (Dest::Address(fields.target), 1),
    };
    let through_register = matches!(known.layout, Layout::Rr(..));
    if through_register && fields.r2 == 0 && mask != 0 {
        // Serializes the processor.
        return facts;
    }
    match (mask, through_register && fields.r2 == LINK) {
        (0, _) => Facts { nop: true, ..facts },
        (ALWAYS, true) => Facts {
            flow: Flow::Return { plain: true },
            ..facts
        },
        (_, true) => Facts {
            refused: Some("returns sometimes: branch around a return"),
            ..facts
        },
        (ALWAYS, false) => Facts {
            flow: Flow::Jump(dest),
            ..facts
        },
        _ => Facts {
            flow: Flow::Branch(dest),
            ..facts
        },
    }
}

fn call(fields: &Fields, known: &KnownInstruction, facts: Facts) -> Facts {
    let dest = match known.layout {
        Layout::Rr(..) => Dest::Register(reg(fields.r2.into())),
        _ => Dest::Address(fields.target),
    };
    let no_target = matches!(known.layout, Layout::Rr(..)) && fields.r2 == 0;
    let refused = (fields.r1 != LINK || no_target)
        .then_some("links otherwise than a call through r14: take an address by larl");
    Facts {
        flow: Flow::Call(dest),
        refused,
        ..facts
    }
}
