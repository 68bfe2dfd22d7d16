//! From trees to values.

use patchpoint::addr::CodeAddr;
use patchpoint::arch::Arch;
use patchpoint::stackmap::Endian;
use patchpoint::verify::disassemble;

use super::operands::{Operand, operands};
use super::parse::{Expr, InstructionRef, Op, Slice, Term, TermKind};
use super::wrong::{CheckError, CheckErrorKind, Unknown};
use crate::names::hex;

/// The longest instruction of any architecture: x86-64's.
const LONGEST: u64 = 15;

/// What is known of linked code. All addresses are those at which it will run.
pub(in crate::link) trait Target {
    fn arch(&self) -> Arch;
    /// The bytes at an address, all of them or none.
    fn bytes(&self, addr: u64, size: u64) -> Option<Vec<u8>>;
    /// How many bytes there are from an address on, in one segment.
    fn room(&self, addr: u64) -> u64;
    fn symbol(&self, name: &str) -> Result<u64, Unknown>;
    fn section(&self, file: &str, section: &str) -> Result<u64, Unknown>;
    /// The address of what stands for a symbol.
    fn symbolic(&self, which: Symbolic, file: &str, symbol: &str) -> Result<u64, Unknown>;
}

/// What stands for a symbol that may be far away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::link) enum Symbolic {
    Stub,
    GotEntry,
}

impl Symbolic {
    pub(in crate::link) const fn name(self) -> &'static str {
        match self {
            Self::Stub => "stub",
            Self::GotEntry => "entry in the global offset table",
        }
    }
}

type Value = Result<u64, CheckError>;

pub(super) fn value(expr: &Expr<'_>, target: &impl Target) -> Value {
    let first = term(&expr.first, target)?;
    expr.rest.iter().try_fold(first, |left, (op, right)| {
        let right = term(right, target)?;
        let by = u32::try_from(right).unwrap_or(u32::MAX);
        Ok(match op {
            Op::Add => left.wrapping_add(right),
            Op::Sub => left.wrapping_sub(right),
            Op::And => left & right,
            Op::Or => left | right,
            // All bits are gone then.
            Op::ShiftLeft => left.checked_shl(by).unwrap_or(0),
            Op::ShiftRight => left.checked_shr(by).unwrap_or(0),
        })
    })
}

fn term(term: &Term<'_>, target: &impl Target) -> Value {
    let wrong = |why| CheckError { at: term.at, why };
    let unknown = |unknown| wrong(CheckErrorKind::Unknown(unknown));
    let value = match &term.kind {
        TermKind::Number(number) => *number,
        TermKind::Symbol(name) => target.symbol(name).map_err(unknown)?,
        TermKind::Inner(inner) => value(inner, target)?,
        TermKind::Load(size, addr) => load(target, value(addr, target)?, *size).map_err(wrong)?,
        TermKind::DecodeOperand(code, index) => operand(target, *code, *index).map_err(wrong)?,
        TermKind::NextPc(code) => {
            let (addr, insn) = instruction(target, *code).map_err(wrong)?;
            addr.wrapping_add(insn.bytes.len() as u64)
        }
        TermKind::SectionAddr { file, section } => target.section(file, section).map_err(unknown)?,
        TermKind::Stub { file, second, third } => stub(target, file, second, *third).map_err(unknown)?,
        TermKind::GotEntry { file, symbol } => target
            .symbolic(Symbolic::GotEntry, file, symbol)
            .map_err(unknown)?,
    };
    Ok(term.slice.map_or(value, |slice| sliced(value, slice)))
}

fn sliced(value: u64, slice: Slice) -> u64 {
    let spare = 64_u32.saturating_sub(slice.bits.into());
    let mask = u64::MAX.checked_shr(spare).unwrap_or(0);
    value.checked_shr(slice.low.into()).unwrap_or(0) & mask
}

fn load(target: &impl Target, addr: u64, size: u8) -> Result<u64, CheckErrorKind> {
    let size = u64::from(size);
    let bytes = target
        .bytes(addr, size)
        .ok_or(CheckErrorKind::NotLinked { addr, size })?;
    let append = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    Ok(match target.arch().endian() {
        Endian::Little => bytes.iter().rev().fold(0, append),
        Endian::Big => bytes.iter().fold(0, append),
    })
}

/// `(FILE, SYMBOL)` as LLVM's `JITLink` has it, or `(FILE, SECTION, SYMBOL)` and `(FILE/SECTION,
/// SYMBOL)` as `RuntimeDyld`, whose stubs belong to sections.
fn stub(target: &impl Target, file: &str, second: &str, third: Option<&str>) -> Result<u64, Unknown> {
    let stub = |file, symbol| target.symbolic(Symbolic::Stub, file, symbol);
    if let Some(third) = third {
        return match target.section(file, second) {
            Ok(_) => stub(file, third),
            Err(Unknown::Section { .. }) => Err(Unknown::StubKind(third.to_owned())),
            Err(unknown) => Err(unknown),
        };
    }
    match (stub(file, second), file.rsplit_once('/')) {
        (Err(Unknown::File(_)), Some((file, section))) => {
            target.section(file, section)?;
            stub(file, second)
        }
        (found, _) => found,
    }
}

/// An instruction in words and bytes.
struct Instruction {
    bytes: Vec<u8>,
    text: String,
}

fn instruction(target: &impl Target, code: InstructionRef<'_>) -> Result<(u64, Instruction), CheckErrorKind> {
    let addr = target.symbol(code.symbol)?.wrapping_add(code.offset);
    let size = target.room(addr).min(LONGEST);
    #[expect(
        clippy::disallowed_methods,
        reason = "where there are none there is no instruction, which is said below"
    )]
    let bytes = target.bytes(addr, size).unwrap_or_default();
    let lines = disassemble(target.arch(), CodeAddr::new(addr), &bytes);
    let whole = lines.into_iter().next().filter(|line| line.text != "(bad)");
    let found = whole.and_then(|line| {
        let bytes = bytes.get(..line.bytes.len())?;
        Some(Instruction {
            bytes: bytes.to_vec(),
            text: line.text,
        })
    });
    match found {
        Some(insn) => Ok((addr, insn)),
        None if bytes.is_empty() => Err(CheckErrorKind::NotLinked { addr, size: 1 }),
        None => Err(CheckErrorKind::NoInstruction {
            addr,
            bytes: hex(&bytes, " "),
        }),
    }
}

fn operand(target: &impl Target, code: InstructionRef<'_>, index: u64) -> Result<u64, CheckErrorKind> {
    let (addr, insn) = instruction(target, code)?;
    let (text, bytes) = (insn.text, hex(&insn.bytes, " "));
    let Some(all) = operands(target.arch(), &insn.bytes) else {
        return Err(CheckErrorKind::NoOperands { addr, text, bytes });
    };
    match usize::try_from(index).ok().and_then(|index| all.get(index)) {
        Some(Operand::Immediate(value)) => Ok(*value as u64),
        Some(_) => Err(CheckErrorKind::NotImmediate {
            index,
            immediates: immediates(&all),
            text,
            bytes,
        }),
        None => Err(CheckErrorKind::NoOperand {
            index,
            count: all.len(),
            text,
            bytes,
        }),
    }
}

/// The numbers of the operands that have a value.
fn immediates(all: &[Operand]) -> String {
    let numbered = all.iter().enumerate();
    let immediates = numbered.filter(|(_, operand)| matches!(operand, Operand::Immediate(_)));
    let numbers: Vec<String> = immediates.map(|(index, _)| index.to_string()).collect();
    match numbers.is_empty() {
        true => "of which it has none".to_owned(),
        false => numbers.join(" or "),
    }
}
