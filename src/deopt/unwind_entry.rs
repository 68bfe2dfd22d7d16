//! Unwind information for out-of-line code: its frame is that of the site's function; but what
//! is between a call and its callee has the frame with which a function starts.
//!
//! Stubs and exit stubs run in the frame of the function whose site branches there, so its caller
//! is found by the rules that hold at the site; where these count from the stack pointer, by as
//! much further as the code has lowered it, and where the function has not saved its link register,
//! from where the code has stored that.

use alloc::vec::Vec;

use gimli::write::{
    Address, CallFrameInstruction, CommonInformationEntry, EhFrame, EndianVec, Expression,
    FrameDescriptionEntry, FrameTable,
};
use gimli::{Encoding, Format, Register, RunTimeEndian};

use super::host::{FRAME_ABOVE_STACK, state};
#[cfg(target_arch = "powerpc64")]
use super::unwind::endian;
use super::unwind::{Base, Saved, UnwindRow};
use super::unwinds;
use crate::addr::{CodeRange, DwarfReg};
#[cfg(target_arch = "powerpc64")]
use crate::arch::Arch;
use crate::engine::{CodeKind, Placed};

const ENCODING: Encoding = Encoding {
    format: Format::Dwarf32,
    version: 1,
    address_size: 8,
};

/// The unwind information of out-of-line code, made from that of its module: an `.eh_frame` section
/// of this machine, without a terminator, whose pointers are relative to nothing. `None` where the function has no rules for the site, or none that can be written.
pub(crate) fn unwind_entry(placed: &Placed<'_>) -> Option<Vec<u8>> {
    let site = placed.site;
    // Behind a call the frame is not there yet, or no more.
    let at = match placed.kind {
        CodeKind::Call => site.function().addr(),
        _ => site.addr(),
    };
    let info = unwinds::covering(site.module(), at).ok()??;
    let row = info.row(at).ok()?;
    let start = Address::Constant(placed.range.start().get());
    let mut code = FrameDescriptionEntry::new(start, u32::try_from(placed.range.len()).ok()?);
    for stack in placed.stack() {
        let from = stack.from;
        code.add_instruction(from, frame(&row.base, stack.lowered.into())?);
        if from == 0 {
            // They count from the frame address, which stays where it is.
            for (reg, how) in always(&row) {
                code.add_instruction(0, rule(register(reg), &how)?);
            }
        }
        if !has_rule(&row, LINK) {
            code.add_instruction(from, link(stack.link)?);
        }
    }
    write(row.endian, code)
}

fn write(endian: RunTimeEndian, code: FrameDescriptionEntry) -> Option<Vec<u8>> {
    let mut table = FrameTable::default();
    let return_address = Register(state::RETURN_ADDRESS);
    let common = table.add_cie(CommonInformationEntry::new(ENCODING, 1, -8, return_address));
    table.add_fde(common, code);
    let mut section = EhFrame(EndianVec::<RunTimeEndian>::new(endian));
    table.write_eh_frame(&mut section).ok()?;
    Some(section.0.into_vec())
}

fn register(reg: DwarfReg) -> Register {
    Register(reg.get())
}

/// The same for the capture routine, where no assembler has written it down, and where it is.
#[cfg(target_arch = "powerpc64")]
pub(crate) fn of_capture() -> Option<(CodeRange, Vec<u8>)> {
    let routine = super::host::capture::unwinding()?;
    let start = Address::Constant(routine.range.start().get());
    let mut code = FrameDescriptionEntry::new(start, u32::try_from(routine.range.len()).ok()?);
    code.add_instruction(0, CallFrameInstruction::Cfa(register(state::STACK_POINTER), 0));
    let link = Saved::In(DwarfReg::new(routine.link));
    code.add_instruction(routine.from, rule(register(LINK), &link)?);
    for (reg, at) in routine.saved {
        code.add_instruction(routine.from, CallFrameInstruction::Offset(Register(reg), at));
    }
    let section = write(endian(Arch::host()), code)?;
    Some((routine.range, section))
}

/// The assembler has.
#[cfg(not(target_arch = "powerpc64"))]
pub(crate) fn of_capture() -> Option<(CodeRange, Vec<u8>)> {
    None
}

const LINK: DwarfReg = DwarfReg::new(state::RETURN_ADDRESS);

fn has_rule(row: &UnwindRow, reg: DwarfReg) -> bool {
    row.saved.iter().any(|(saved, _)| *saved == reg)
}

/// The rules that hold in all of the code.
fn always(row: &UnwindRow) -> Vec<(DwarfReg, Saved)> {
    let mut rules = row.saved.clone();
    if FRAME_ABOVE_STACK != 0 && !has_rule(row, state::STACK_POINTER) {
        // Unwinders take the frame address for the caller's stack pointer where no rule says
        // otherwise.
        rules.push((state::STACK_POINTER, Saved::Frame(-(FRAME_ABOVE_STACK as i64))));
    }
    rules
}

/// The rule for the return address in a function that has it in the link register still.
fn link(at: Option<u32>) -> Option<CallFrameInstruction> {
    match at {
        Some(at) => rule(
            register(LINK),
            &Saved::AtRegister(state::STACK_POINTER, at.into()),
        ),
        None => Some(CallFrameInstruction::SameValue(register(LINK))),
    }
}

/// The rule for the frame address where the code has lowered the stack pointer so far.
fn frame(base: &Base, lowered: i64) -> Option<CallFrameInstruction> {
    match base {
        Base::Register(reg, offset) => {
            let further = if *reg == state::STACK_POINTER { lowered } else { 0 };
            let offset = i32::try_from(offset.checked_add(further)?).ok()?;
            Some(CallFrameInstruction::Cfa(register(*reg), offset))
        }
        Base::Chained(reg, offset) => {
            let mut chain = Expression::new();
            chain.op_breg(register(*reg), 0);
            chain.op_deref();
            chain.op_plus_uconst(u64::try_from(*offset).ok()?);
            Some(CallFrameInstruction::CfaExpression(chain))
        }
        Base::Computed(bytes) => Some(CallFrameInstruction::CfaExpression(Expression::raw(
            bytes.clone(),
        ))),
    }
}

/// A rule of an unwinder; `None` where it has no room for the offset.
fn rule(reg: Register, how: &Saved) -> Option<CallFrameInstruction> {
    let offset = |by: i64| i32::try_from(by).ok();
    Some(match how {
        Saved::At(by) => CallFrameInstruction::Offset(reg, offset(*by)?),
        Saved::Frame(by) => CallFrameInstruction::ValOffset(reg, offset(*by)?),
        Saved::In(other) => CallFrameInstruction::Register(reg, register(*other)),
        Saved::AtRegister(from, by) => {
            let mut at = Expression::new();
            at.op_breg(register(*from), *by);
            CallFrameInstruction::Expression(reg, at)
        }
        Saved::AtComputed(bytes) => CallFrameInstruction::Expression(reg, Expression::raw(bytes.clone())),
        Saved::Computed(bytes) => CallFrameInstruction::ValExpression(reg, Expression::raw(bytes.clone())),
    })
}
