//! Unwind information for out-of-line code: its frame is that of the site's function.
//!
//! Stubs and ramps run in the frame of the function whose site leads there, so its caller is found by the rules
//! that hold at the site; where these count from the stack pointer, by as much further as the code has lowered it.

use alloc::vec::Vec;

use gimli::write::{
    Address, CallFrameInstruction, CommonInformationEntry, EhFrame, EndianVec, Expression,
    FrameDescriptionEntry, FrameTable,
};
use gimli::{Encoding, Format, Register, RunTimeEndian};

use super::host::state;
use super::unwind::{Base, Row, Saved};
use super::unwinds::Unwinds;
use crate::addr::DwarfReg;
use crate::engine::Placed;
use crate::site::ModuleId;

const ENCODING: Encoding = Encoding {
    format: Format::Dwarf32,
    version: 1,
    address_size: 8,
};

/// Makes the unwind information of out-of-line code from that of modules.
#[derive(Default)]
pub(crate) struct UnwindEntries(Unwinds);

impl UnwindEntries {
    /// An `.eh_frame` section of this machine, without a terminator, whose pointers are relative to nothing. `None` where
    /// the function has no rules for the site, or none that can be written.
    pub(crate) fn of(&self, placed: &Placed<'_>) -> Option<Vec<u8>> {
        let site = placed.site;
        let info = self.0.covering(site.module(), site.addr()).ok()??;
        let row = info.row(site.addr()).ok()?;
        let start = Address::Constant(placed.range.start().get());
        let mut code = FrameDescriptionEntry::new(start, u32::try_from(placed.range.len()).ok()?);
        for (offset, lowered) in placed.lowered() {
            code.add_instruction(*offset, frame(&row.base, (*lowered).into())?);
            if *offset == 0 {
                // They count from the frame address, which stays where it is.
                for (reg, how) in &row.saved {
                    code.add_instruction(0, rule(register(*reg), how));
                }
            }
        }
        write(&row, code)
    }

    /// The module is gone.
    pub(crate) fn forget(&self, module: ModuleId) {
        self.0.forget(module);
    }
}

fn write(row: &Row, code: FrameDescriptionEntry) -> Option<Vec<u8>> {
    let mut table = FrameTable::default();
    let return_address = Register(state::RETURN_ADDRESS);
    let common = table.add_cie(CommonInformationEntry::new(ENCODING, 1, -8, return_address));
    table.add_fde(common, code);
    let mut section = EhFrame(EndianVec::<RunTimeEndian>::new(row.endian));
    table.write_eh_frame(&mut section).ok()?;
    Some(section.0.into_vec())
}

fn register(reg: DwarfReg) -> Register {
    Register(reg.get())
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

fn rule(reg: Register, how: &Saved) -> CallFrameInstruction {
    let offset = |by: i64| i32::try_from(by).unwrap_or(0);
    match how {
        Saved::At(by) => CallFrameInstruction::Offset(reg, offset(*by)),
        Saved::Frame(by) => CallFrameInstruction::ValOffset(reg, offset(*by)),
        Saved::In(other) => CallFrameInstruction::Register(reg, register(*other)),
        Saved::AtRegister(from, by) => {
            let mut at = Expression::new();
            at.op_breg(register(*from), *by);
            CallFrameInstruction::Expression(reg, at)
        }
        Saved::AtComputed(bytes) => CallFrameInstruction::Expression(reg, Expression::raw(bytes.clone())),
        Saved::Computed(bytes) => CallFrameInstruction::ValExpression(reg, Expression::raw(bytes.clone())),
    }
}
