//! From sequences to text.

use core::fmt;

use patchpoint_isa::OnReturn;

use super::operand::{Mem, Operand, OperandPart, Source, Target};
use super::{CONDITIONS, Operation, Sequence};
use crate::op::Bits;
use crate::op::{Cond, Extension, Width};

impl fmt::Display for Sequence {
    /// Statements that [`FromStr`](core::str::FromStr) reads as the same sequence, separated by `;
    /// `, or with `{:#}` by line ends.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if f.alternate() { "\n" } else { "; " };
        let mut first = true;
        let mut separate = |f: &mut fmt::Formatter<'_>| match core::mem::take(&mut first) {
            true => Ok(()),
            false => f.write_str(separator),
        };
        if self.is_in_place_only() {
            separate(f)?;
            f.write_str("in_place_only")?;
        }
        for operation in self.operations() {
            separate(f)?;
            statement(f, operation)?;
        }
        Ok(())
    }
}

fn statement(f: &mut fmt::Formatter<'_>, operation: &Operation) -> fmt::Result {
    match operation {
        Operation::Branch {
            cond,
            lhs,
            rhs,
            target,
        } => branch(f, *cond, lhs, rhs, *target),
        Operation::Move { dst, src } => write!(f, "{dst} = {src}"),
        Operation::Store { to, src } => write!(f, "{to} = {src}"),
        Operation::Add { dst, src } => write!(f, "{dst} += {src}"),
        Operation::Bits { dst, what } => match what {
            Bits::And(mask) => write!(f, "{dst} &= {}", Operand::Imm(*mask)),
            Bits::Left(by) => write!(f, "{dst} <<= {by}"),
            Bits::Right(by) => write!(f, "{dst} >>u= {by}"),
            Bits::RightSigned(by) => write!(f, "{dst} >>s= {by}"),
        },
        Operation::AddToMem { to, src, atomic } => {
            let atomic = if *atomic { "atomic " } else { "" };
            write!(f, "{atomic}{to} += {src}")
        }
        Operation::Jump(target) => write!(f, "goto {target}"),
        Operation::Call { addr, on_return } => write!(f, "call {addr} {}", contract(*on_return)),
        Operation::Return => f.write_str("return"),
        Operation::Trap => f.write_str("trap"),
        Operation::Raw(bytes) => hex(f, "raw", bytes),
        Operation::Vouched { bytes, writes } => {
            hex(f, "vouched", bytes)?;
            if !writes.is_empty() {
                f.write_str(" writes")?;
            }
            writes
                .iter()
                .try_for_each(|reg| write!(f, " {}", Operand::Reg(reg)))
        }
        Operation::Bind(label) => write!(f, "{}:", Target::Label(*label)),
    }
}

fn branch(f: &mut fmt::Formatter<'_>, cond: Cond, lhs: &Source, rhs: &Source, target: Target) -> fmt::Result {
    match target {
        Target::Miss | Target::Deopt => {
            write!(f, "guard {lhs} {} {rhs} else {target}", symbol(cond.negated()))
        }
        _ => write!(f, "if {lhs} {} {rhs} goto {target}", symbol(cond)),
    }
}

fn symbol(cond: Cond) -> &'static str {
    let found = CONDITIONS.iter().find(|(_, known)| *known == cond);
    found.map_or("", |(symbol, _)| symbol)
}

fn contract(on_return: OnReturn) -> &'static str {
    match on_return {
        OnReturn::Never => "never",
        OnReturn::PreservesAll => "preserves_all",
        OnReturn::FollowsC => "follows_c",
    }
}

fn hex(f: &mut fmt::Formatter<'_>, word: &str, bytes: &[u8]) -> fmt::Result {
    f.write_str(word)?;
    bytes.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
}

fn field(width: Width, extension: Extension) -> impl fmt::Display {
    let sign = match extension {
        Extension::Zero => 'u',
        Extension::Sign => 'i',
    };
    alloc::format!("{sign}{}", width.bytes() * 8)
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arg(n) => write!(f, "arg({n})"),
            Self::FloatArg(n) => write!(f, "float_arg({n})"),
            Self::Live(n) => write!(f, "live({n})"),
            Self::Location(n) => write!(f, "location({n})"),
            Self::Result => f.write_str("result"),
            Self::FloatResult => f.write_str("float_result"),
            Self::Temp => f.write_str("temp"),
            Self::Reg(reg) => write!(f, "reg({})", reg.get()),
            Self::Imm(value) => match *value as i64 {
                small @ -4096..10 => write!(f, "{small}"),
                _ => write!(f, "{value:#x}"),
            },
        }
    }
}

impl fmt::Display for Mem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}", field(self.width, self.extension), self.base)?;
        match self.disp {
            0 => {}
            disp => write!(f, "{disp:+}")?,
        }
        f.write_str("]")
    }
}

impl fmt::Display for OperandPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", field(self.width, self.extension), self.operand)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operand(operand) => operand.fmt(f),
            Self::Part(part) => part.fmt(f),
            Self::Mem(mem) => mem.fmt(f),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Miss => f.write_str("miss"),
            Self::Deopt => f.write_str("deopt"),
            Self::End => f.write_str("end"),
            Self::Label(label) => write!(f, "label({})", label.get()),
            Self::Addr(addr) => write!(f, "{}", addr.get()),
        }
    }
}
