//! One instruction's facts.

use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::RegSet;

use super::table::{self, OperandForm, Word};
use super::{CTR, LR, XER, field, nothing, reg};
use crate::facts::{Constant, Dest, Facts, Flow, StackPointer, StackStore, Step};

/// The stack pointer.
const SP: u16 = 1;

pub(super) fn facts(addr: u64, bits: u32) -> Facts {
    let unknown = || Facts {
        refused: Some("is not among the instructions that the checker knows: call a function that has it"),
        ..nothing(addr)
    };
    if bits == super::NOP {
        return Facts {
            nop: true,
            ..nothing(addr)
        };
    }
    let Some(row) = table::find(bits) else {
        return unknown();
    };
    let word = Word(bits);
    let mut facts = nothing(addr);
    facts.writes = writes(row.form, word);
    facts.constant = constant(row.form, word);
    facts.store = store(row.form, word);
    flow(row.form, word, &mut facts);
    if facts.writes.contains(reg(SP)) {
        facts.writes = facts.writes.without(reg(SP));
        facts.stack = match (row.form, word.a()) {
            (OperandForm::AddImmediate(shift), SP) => StackPointer::Add(word.si() << shift),
            (OperandForm::StoreUpdate, SP) => StackPointer::Add(word.ds()),
            _ => StackPointer::Lost,
        };
    }
    facts
}

fn general(number: u16) -> RegSet {
    RegSet::of(&[reg(number)])
}

fn floating(number: u16) -> RegSet {
    RegSet::of(&[reg(32 + number)])
}

/// The register whose first half is the floating-point register, or all of the vector register.
fn vector(number: u16) -> RegSet {
    match number {
        0..=31 => floating(number),
        _ => RegSet::of(&[reg(77 + number - 32)]),
    }
}

fn fields(mask: u32) -> RegSet {
    let written = (0..8).filter(|number| mask & 0x80 >> number != 0);
    written.map(field).collect()
}

fn writes(form: OperandForm, word: Word) -> RegSet {
    let (t, a) = (word.t(), word.a());
    match form {
        OperandForm::Load { float: true, .. } | OperandForm::FloatMove => floating(t),
        OperandForm::AddImmediate(_)
        | OperandForm::Load { .. }
        | OperandForm::LoadIndexed
        | OperandForm::Arithmetic
        | OperandForm::ArithmeticUnary
        | OperandForm::FromLink
        | OperandForm::FromCount
        | OperandForm::FromFields => general(t),
        OperandForm::OrImmediate(_)
        | OperandForm::LogicImmediate
        | OperandForm::StoreUpdate
        | OperandForm::Logic
        | OperandForm::LogicUnary
        | OperandForm::RotateLeftEnd
        | OperandForm::RotateRightEnd
        | OperandForm::RotateBothEnds
        | OperandForm::RotateWord
        | OperandForm::FromVector => general(a),
        OperandForm::LogicImmediateRecord => general(a).with(field(0)),
        OperandForm::ShiftSigned | OperandForm::ShiftSignedWord | OperandForm::ShiftSignedDouble => {
            general(a).with(XER)
        }
        OperandForm::StoreConditional => RegSet::of(&[field(0)]),
        OperandForm::Compare | OperandForm::CompareSigned | OperandForm::CompareUnsigned => {
            RegSet::of(&[field(word.field())])
        }
        OperandForm::ToLink => RegSet::of(&[LR]),
        OperandForm::ToCount => RegSet::of(&[CTR]),
        OperandForm::ToFields => fields(word.fields()),
        OperandForm::ToVector => vector(word.vector()),
        // A branch that counts.
        OperandForm::Branch if word.t() & 4 == 0 => RegSet::of(&[CTR]),
        OperandForm::Store { .. }
        | OperandForm::StoreIndexed
        | OperandForm::Jump
        | OperandForm::Branch
        | OperandForm::Return
        | OperandForm::JumpToCount
        | OperandForm::Trap
        | OperandForm::Barrier => RegSet::EMPTY,
    }
}

/// What an instruction writes by way of the stack pointer.
fn store(form: OperandForm, word: Word) -> StackStore {
    let uses_stack = word.a() == SP;
    match form {
        OperandForm::Store { bytes, ds, .. } if uses_stack => {
            let from = if ds { word.ds() } else { word.si() };
            StackStore::Range(from, from + bytes)
        }
        OperandForm::StoreUpdate if uses_stack => StackStore::Range(word.ds(), word.ds() + 8),
        OperandForm::StoreIndexed | OperandForm::StoreConditional if uses_stack || word.b() == SP => {
            StackStore::Anywhere
        }
        _ => StackStore::None,
    }
}

fn constant(form: OperandForm, word: Word) -> Option<Constant> {
    let (t, a) = (reg(word.t()), reg(word.a()));
    let rotated = |keep| Constant::Of {
        to: a,
        from: t,
        step: Step::Rotate {
            left: word.shift(),
            keep,
        },
    };
    // The bits from the highest up to, and those from, a position.
    let up_to = |last: u32| u64::MAX << (63 - last);
    let from = |first: u32| u64::MAX >> first;
    match form {
        OperandForm::AddImmediate(shift) if word.a() == 0 => {
            Some(Constant::Is(t, (word.si() << shift) as u64))
        }
        OperandForm::AddImmediate(shift) => Some(Constant::Of {
            to: t,
            from: a,
            step: Step::Add(word.si() << shift),
        }),
        OperandForm::OrImmediate(shift) => Some(Constant::Of {
            to: a,
            from: t,
            step: Step::Insert {
                keep: u64::MAX,
                bits: word.ui() << shift,
            },
        }),
        OperandForm::RotateLeftEnd => Some(rotated(from(word.end()))),
        OperandForm::RotateRightEnd => Some(rotated(up_to(word.end()))),
        OperandForm::RotateBothEnds if word.end() <= 63 - word.shift() => {
            Some(rotated(from(word.end()) & up_to(63 - word.shift())))
        }
        OperandForm::ToCount => Some(moved(CTR, t)),
        OperandForm::FromCount => Some(moved(t, CTR)),
        _ => None,
    }
}

fn moved(to: DwarfReg, from: DwarfReg) -> Constant {
    Constant::Of {
        to,
        from,
        step: Step::Add(0),
    }
}

fn flow(form: OperandForm, word: Word, facts: &mut Facts) {
    let target = Dest::Address(word.target(facts.addr));
    facts.flow = match form {
        OperandForm::Jump | OperandForm::Branch if word.links() => {
            facts.refused = Some(
                "calls without keeping the TOC pointer: save r2, call through r12 and CTR, and restore r2",
            );
            facts.writes = facts.writes.with(LR);
            Flow::Call(target)
        }
        OperandForm::Jump => Flow::Jump(target),
        // Always.
        OperandForm::Branch if word.t() & 20 == 20 => Flow::Jump(target),
        OperandForm::Branch => Flow::Branch(target),
        OperandForm::Return => Flow::Return { plain: true },
        OperandForm::JumpToCount => Flow::Jump(Dest::Register(CTR)),
        OperandForm::Trap => Flow::Trap,
        _ => Flow::Next,
    };
}
