//! What an instruction does, in terms of the rules.

use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::RegSet;

use super::decode::{Access, AddSub, Address, Insn, Logic, Operand, Wide};
use super::{LEN, STACK};
use crate::facts::{Constant, Dest, Facts, Flow, StackPointer, StackStore, Step};

/// Registers of the encoding that stand for zero or the stack pointer.
const R31: u8 = 31;
/// The stack pointer is aligned to so many bytes wherever memory is addressed by it (DDI 0487,
/// D1.8.2).
const ALIGN: i64 = 16;

const UNKNOWN: &str = "is not among the instructions that are known to change registers and memory only: \
                       call a function";

const UNPREDICTABLE: &str =
    "writes a register twice, or one that it stores: processors do not agree about it";

/// The facts of an instruction at `addr`.
pub(super) fn facts(addr: u64, insn: Insn) -> Facts {
    let mut facts = Facts {
        addr,
        len: LEN as u8,
        nop: insn == Insn::Hint { number: 0 },
        returns_at: None,
        unit: None,
        flow: flow(insn),
        writes: RegSet::EMPTY,
        flags: sets_flags(insn),
        stack: StackPointer::Keep,
        store: StackStore::None,
        constant: constant(insn),
        refused: refused(insn),
    };
    match insn {
        Insn::Bl { .. } | Insn::Blr { .. } => facts.writes = gpr(30),
        Insn::Adr { rd, .. } | Insn::MoveWide { rd, .. } | Insn::Bitfield { rd, .. } => {
            facts.writes = gpr(rd);
        }
        Insn::AddSub(op, operand) => add_sub(op, operand, &mut facts),
        Insn::Logical { op, rd, operand, .. } => {
            // The immediate form writes the stack pointer; a test, the other form and no register
            // write zero.
            let stack = matches!(operand, Operand::Imm(_)) && op != Logic::Test && rd == R31;
            facts.writes = gpr(rd);
            if stack {
                facts.stack = StackPointer::Lost;
            }
        }
        Insn::Memory(access, address) => memory(access, None, address, &mut facts),
        Insn::Pair { access, rt2, address } => memory(access, Some(rt2), address, &mut facts),
        Insn::Literal { access, .. } => facts.writes = data(access, access.rt),
        Insn::Exclusive {
            access, rn, status, ..
        } => {
            let address = Address::Offset {
                rn,
                by: 0,
                unscaled: false,
            };
            memory(access, None, address, &mut facts);
            facts.writes = facts.writes.union(status.map_or(RegSet::EMPTY, gpr));
        }
        Insn::Fmov { to_vector, rd, .. } => {
            facts.writes = if to_vector { vector(rd) } else { gpr(rd) };
        }
        Insn::MoveVector { rd, .. } => facts.writes = vector(rd),
        _ => {}
    }
    facts
}

fn sets_flags(insn: Insn) -> bool {
    matches!(
        insn,
        Insn::AddSub(AddSub { flags: true, .. }, _) | Insn::Logical { op: Logic::Test, .. }
    )
}

fn dwarf(reg: u8) -> DwarfReg {
    DwarfReg::new(reg.into())
}

/// A general register, where 31 is zero, to which writing does nothing.
fn gpr(reg: u8) -> RegSet {
    match reg {
        R31 => RegSet::EMPTY,
        _ => RegSet::of(&[dwarf(reg)]),
    }
}

fn vector(reg: u8) -> RegSet {
    RegSet::of(&[DwarfReg::new(64 + u16::from(reg))])
}

/// What a load writes to a register.
fn data(access: Access, rt: u8) -> RegSet {
    match (access.load, access.vector) {
        (false, _) => RegSet::EMPTY,
        (true, true) => vector(rt),
        (true, false) => gpr(rt),
    }
}

fn flow(insn: Insn) -> Flow {
    let at = Dest::Address;
    let through = |rn, plain| match plain && rn != R31 {
        true => Dest::Register(dwarf(rn)),
        false => Dest::Unknown,
    };
    match insn {
        Insn::B { to } => Flow::Jump(at(to)),
        Insn::Bl { to } => Flow::Call(at(to)),
        Insn::BCond { to, .. } | Insn::Cb { to, .. } | Insn::Tb { to, .. } => Flow::Branch(at(to)),
        Insn::Br { rn, plain } => Flow::Jump(through(rn, plain)),
        Insn::Blr { rn, plain } => Flow::Call(through(rn, plain)),
        Insn::Ret { rn, plain } => Flow::Return {
            plain: plain && rn == 30,
        },
        Insn::Udf { .. } => Flow::Trap,
        // A debugger may let the thread go on behind brk: only udf ends a path.
        _ => Flow::Next,
    }
}

fn constant(insn: Insn) -> Option<Constant> {
    match insn {
        Insn::Adr { rd, to, .. } if rd != R31 => Some(Constant::Is(dwarf(rd), to)),
        Insn::MoveWide {
            how,
            wide,
            rd,
            imm,
            shift,
        } if rd != R31 => {
            let bits = u64::from(imm) << shift;
            let half = if wide { u64::MAX } else { u64::from(u32::MAX) };
            let (to, from) = (dwarf(rd), dwarf(rd));
            Some(match how {
                Wide::Zero => Constant::Is(to, bits),
                Wide::Not => Constant::Is(to, !bits & half),
                Wide::Keep => {
                    let keep = !(0xffff << shift) & half;
                    let step = Step::Insert { keep, bits };
                    Constant::Of { to, from, step }
                }
            })
        }
        Insn::Logical {
            op: Logic::Or,
            not: false,
            rd,
            rn: R31,
            operand: Operand::Imm(imm),
            ..
        } if rd != R31 => Some(Constant::Is(dwarf(rd), imm)),
        Insn::AddSub(
            AddSub {
                wide: true,
                sub,
                flags: false,
                rd,
                rn,
            },
            Operand::Imm(imm),
        ) if rd != R31 && rn != R31 => {
            let imm = imm as i64;
            let step = Step::Add(if sub { -imm } else { imm });
            let (to, from) = (dwarf(rd), dwarf(rn));
            Some(Constant::Of { to, from, step })
        }
        _ => None,
    }
}

fn refused(insn: Insn) -> Option<&'static str> {
    match insn {
        _ if is_unpredictable(insn) => Some(UNPREDICTABLE),
        Insn::Unknown => Some(UNKNOWN),
        Insn::Exception => Some("enters the system: no sequence may do that"),
        Insn::Hint { number } if !plain_hint(number) => {
            Some("is a hint that waits, authenticates pointers or traces: use nop, yield or bti")
        }
        Insn::Br { plain: false, .. } | Insn::Blr { plain: false, .. } | Insn::Ret { plain: false, .. } => {
            Some("authenticates pointers: branch to addresses that the sequence itself loads")
        }
        _ => None,
    }
}

/// Where the manual leaves open what happens (DDI 0487, K1.1): a register that is written twice, or
/// moved while it is stored.
fn is_unpredictable(insn: Insn) -> bool {
    let moved = |address| match address {
        Address::Pre { rn, .. } | Address::Post { rn, .. } if rn != R31 => Some(rn),
        _ => None,
    };
    match insn {
        Insn::Memory(access, address) => !access.vector && moved(address) == Some(access.rt),
        Insn::Pair { access, rt2, address } => {
            let both = [access.rt, rt2];
            let overwritten = !access.vector && both.into_iter().any(|rt| moved(address) == Some(rt));
            overwritten || (access.load && access.rt == rt2)
        }
        Insn::Exclusive {
            access, rn, status, ..
        } => status.is_some_and(|status| status == access.rt || (status == rn && rn != R31)),
        _ => false,
    }
}

/// `nop`, `yield`, `csdb`, `bti` in its four forms.
const fn plain_hint(number: u8) -> bool {
    matches!(number, 0 | 1 | 20 | 32 | 34 | 36 | 38)
}

fn add_sub(op: AddSub, operand: Operand, facts: &mut Facts) {
    let names_stack = !matches!(operand, Operand::Shifted { .. }) && !op.flags;
    if !names_stack || op.rd != R31 {
        facts.writes = gpr(op.rd);
        return;
    }
    let by = match operand {
        Operand::Imm(imm) if op.rn == R31 && op.wide => i64::try_from(imm).ok(),
        _ => None,
    };
    match by {
        Some(by) => move_stack(if op.sub { -by } else { by }, facts),
        None => facts.stack = StackPointer::Lost,
    }
}

fn move_stack(by: i64, facts: &mut Facts) {
    facts.stack = StackPointer::Add(by);
    if by % ALIGN != 0 {
        facts.refused = Some("misaligns the stack pointer: move it by multiples of 16");
    }
}

fn memory(access: Access, second: Option<u8>, address: Address, facts: &mut Facts) {
    let count = if second.is_some() { 2 } else { 1 };
    let size = i64::from(access.size) * count;
    facts.writes = data(access, access.rt).union(second.map_or(RegSet::EMPTY, |rt| data(access, rt)));
    let range = |from| StackStore::Range(from, from + size);
    let (rn, store, moved) = match address {
        Address::Offset { rn, by, .. } => (rn, range(by), None),
        Address::Pre { rn, by } => (rn, range(by), Some(by)),
        Address::Post { rn, by } => (rn, range(0), Some(by)),
        Address::Index { rn, rm, kind, scaled } => (rn, indexed(rm, kind, scaled, size), None),
    };
    if dwarf(rn) != STACK {
        if moved.is_some() {
            facts.writes = facts.writes.union(gpr(rn));
        }
        return;
    }
    if let Some(by) = moved {
        move_stack(by, facts);
    }
    facts.store = if access.load { StackStore::None } else { store };
}

/// A store by an index: where it is a whole register, not shifted.
fn indexed(rm: u8, kind: u8, scaled: bool, size: i64) -> StackStore {
    const WHOLE: u8 = 0b011;
    if kind != WHOLE || scaled || rm == R31 {
        return StackStore::Anywhere;
    }
    let index = dwarf(rm);
    StackStore::Indexed { index, disp: 0, size }
}
