//! One instruction as text, as LLVM's disassembler writes it, with the names of registers.

use alloc::string::String;
use core::fmt::{self, Write};

use super::table::{self, OperandForm, Word};

pub(super) fn write(addr: u64, bits: u32, out: &mut String) {
    // Writing to a string does not fail.
    let _ = match (bits, table::find(bits)) {
        (super::NOP, _) => out.write_str("nop"),
        // bcctrl 20, 0
        (0x4e80_0421, _) => out.write_str("bctrl"),
        (_, Some(row)) => instruction(addr, row.name, row.form, Word(bits), out),
        (_, None) => write!(out, ".long {bits:#010x}"),
    };
}

/// A base register, where r0 stands for 0.
struct Base(u16);

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0"),
            number => write!(f, "r{number}"),
        }
    }
}

fn instruction(addr: u64, name: &str, form: OperandForm, word: Word, out: &mut String) -> fmt::Result {
    let (t, a, b) = (word.t(), word.a(), word.b());
    let suffix = if word.is_double() { "d" } else { "w" };
    match form {
        OperandForm::AddImmediate(shift) if a == 0 => {
            let name = if shift == 0 { "li" } else { "lis" };
            write!(out, "{name} r{t}, {}", word.si())
        }
        OperandForm::AddImmediate(_) => write!(out, "{name} r{t}, r{a}, {}", word.si()),
        OperandForm::OrImmediate(_) | OperandForm::LogicImmediate | OperandForm::LogicImmediateRecord => {
            write!(out, "{name} r{a}, r{t}, {}", word.ui())
        }
        OperandForm::Load { float, ds } | OperandForm::Store { float, ds, .. } => {
            let file = if float { 'f' } else { 'r' };
            let disp = if ds { word.ds() } else { word.si() };
            write!(out, "{name} {file}{t}, {disp}({})", Base(a))
        }
        OperandForm::StoreUpdate => write!(out, "{name} r{t}, {}(r{a})", word.ds()),
        OperandForm::LoadIndexed | OperandForm::StoreIndexed | OperandForm::StoreConditional => {
            write!(out, "{name} r{t}, {}, r{b}", Base(a))
        }
        OperandForm::Arithmetic => write!(out, "{name} r{t}, r{a}, r{b}"),
        OperandForm::ArithmeticUnary => write!(out, "{name} r{t}, r{a}"),
        OperandForm::Logic if t == b && name == "or" => write!(out, "mr r{a}, r{t}"),
        OperandForm::Logic | OperandForm::ShiftSigned => write!(out, "{name} r{a}, r{t}, r{b}"),
        OperandForm::LogicUnary => write!(out, "{name} r{a}, r{t}"),
        OperandForm::ShiftSignedWord => write!(out, "{name} r{a}, r{t}, {b}"),
        OperandForm::ShiftSignedDouble => write!(out, "{name} r{a}, r{t}, {}", word.shift()),
        OperandForm::RotateLeftEnd | OperandForm::RotateRightEnd | OperandForm::RotateBothEnds => {
            write!(out, "{name} r{a}, r{t}, {}, {}", word.shift(), word.end())
        }
        OperandForm::RotateWord => {
            let (first, last) = (word.0 >> 6 & 31, word.0 >> 1 & 31);
            write!(out, "{name} r{a}, r{t}, {b}, {first}, {last}")
        }
        OperandForm::Compare => write!(out, "{name}{suffix} cr{}, r{a}, r{b}", word.field()),
        OperandForm::CompareSigned => write!(out, "{name}{suffix}i cr{}, r{a}, {}", word.field(), word.si()),
        OperandForm::CompareUnsigned => {
            write!(out, "{name}{suffix}i cr{}, r{a}, {}", word.field(), word.ui())
        }
        OperandForm::FromLink | OperandForm::FromCount | OperandForm::ToLink | OperandForm::ToCount => {
            write!(out, "{name} r{t}")
        }
        OperandForm::FromFields if name == "mfcr" => write!(out, "{name} r{t}"),
        OperandForm::FromFields => write!(out, "{name} r{t}, {}", word.fields()),
        OperandForm::ToFields => write!(out, "{name} {}, r{t}", word.fields()),
        OperandForm::FloatMove => write!(out, "{name} f{t}, f{b}"),
        OperandForm::FromVector => write!(out, "{name} r{a}, vs{}", word.vector()),
        OperandForm::ToVector => write!(out, "{name} vs{}, r{a}", word.vector()),
        OperandForm::Jump | OperandForm::Branch => branch(addr, name, form, word, out),
        OperandForm::Return | OperandForm::JumpToCount | OperandForm::Trap | OperandForm::Barrier => {
            out.write_str(name)
        }
    }
}

fn branch(addr: u64, name: &str, form: OperandForm, word: Word, out: &mut String) -> fmt::Result {
    let (link, target) = (if word.links() { "l" } else { "" }, word.target(addr));
    if form == OperandForm::Jump {
        return write!(out, "{name}{link} {target:#x}");
    }
    let bit = ["lt", "gt", "eq", "so"]
        .get(usize::from(word.a() & 3))
        .unwrap_or(&"");
    let field = word.a() >> 2;
    match word.t() {
        16 => write!(out, "bdnz{link} {target:#x}"),
        18 => write!(out, "bdz{link} {target:#x}"),
        4 | 12 => {
            let name = if word.t() == 12 { "bt" } else { "bf" };
            write!(out, "{name}{link} cr{field}.{bit}, {target:#x}")
        }
        bo => write!(out, "bc{link} {bo}, {}, {target:#x}", word.a()),
    }
}
