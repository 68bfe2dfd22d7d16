//! The bytes of one live-register exit stub: operations as the sequences of sites have them, and
//! what these have no words for.
//!
//! ```text
//!     lower the stack pointer
//!     store each slot
//!     call dispatch(context, slots)
//!     load those that are needed
//!     raise the stack pointer
//!     jump to the end of the site
//! ```

use alloc::vec::Vec;

use super::machine::Machine;
use super::plan::{Plan, Slot};
use crate::addr::{CodeAddr, DwarfReg, Len};
use crate::arch::{Arch, RegSet, SiteContext, conventions};
use crate::deopt::host::state;
use crate::deopt::{Error, Result};
use crate::engine::StackAt;
use patchpoint_asm::backend::{Backend, BranchKind, EncodedCode, EncodingRefusal, Origin};
use patchpoint_asm::backend_of;
use patchpoint_asm::op::{Address, Base, Dest, Extension, Op, OpValue, Width};
use patchpoint_asm::sequence::finish;

/// What becomes of an operation.
type Coded<T = ()> = core::result::Result<T, EncodingRefusal>;

/// Longer than any address that a context can have.
const ANY_CONTEXT: u64 = 0x7edc_ba98_7654_3210;

/// A length that the live-register exit stub does not exceed, wherever near the site it is.
pub(super) fn max_len(site: &SiteContext<'_>, plan: &Plan, dispatch: u64) -> Result<Len> {
    let code = Writer::write(site, plan, Origin::Near(site.addr), ANY_CONTEXT, dispatch);
    let extra = code.as_ref().map_or(0, |code| code.extra);
    let bytes = finished(site, site.addr, code)?;
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    Ok(Len::new(len.saturating_add(extra)))
}

/// How the stack differs from that at the site, up to the last instructions.
pub(super) fn stack(arch: Arch, plan: &Plan) -> Vec<StackAt> {
    let link = DwarfReg::new(state::RETURN_ADDRESS);
    let slot = plan.slots.iter().find(|slot| slot.reg == link);
    let mut writer = Writer::new(arch, Origin::Near(CodeAddr::default()));
    let mut stack = Vec::from([StackAt::default()]);
    let mut lowered = |writer: &Writer, link| {
        stack.push(StackAt {
            from: writer.code.bytes.len() as u32,
            lowered: plan.frame,
            link,
        });
    };
    writer.lower(plan);
    lowered(&writer, None);
    // None was refused when the code was written.
    if let (Ok(()), Some(slot)) = (writer.store_all(plan), slot) {
        lowered(&writer, Some(plan.header + slot.offset));
    }
    stack
}

/// The live-register exit stub at `at`.
pub(super) fn assemble(
    site: &SiteContext<'_>,
    plan: &Plan,
    at: CodeAddr,
    context: u64,
    dispatch: u64,
) -> Result<Vec<u8>> {
    let code = Writer::write(site, plan, Origin::At(at), context, dispatch);
    finished(site, at, code)
}

fn finished(site: &SiteContext<'_>, at: CodeAddr, code: Coded<EncodedCode>) -> Result<Vec<u8>> {
    let end = CodeAddr::new(site.addr.get().wrapping_add(site.shape.reserved().get().into()));
    let out_of_reach = Error::ExitStubOutOfReach {
        exit_stub: at,
        to: end,
    };
    // The operations are chosen so that none is refused; what is left is the distance.
    code.ok()
        .and_then(|code| finish(site.arch, code, end))
        .ok_or(out_of_reach)
}

struct Writer {
    backend: &'static dyn Backend,
    machine: Machine,
    stack_pointer: DwarfReg,
    code: EncodedCode,
}

impl Writer {
    fn new(arch: Arch, origin: Origin) -> Self {
        let backend = backend_of(arch);
        Self {
            backend,
            machine: Machine::of(arch),
            stack_pointer: conventions::of(arch).stack_pointer,
            code: EncodedCode::new(origin),
        }
    }

    fn lower(&mut self, plan: &Plan) {
        let machine = self.machine;
        self.raw(|out| machine.lower_stack(plan.frame, out));
    }

    fn store_all(&mut self, plan: &Plan) -> Coded {
        let mut slots = plan.slots.iter();
        slots.try_for_each(|slot| self.store(slot, plan.header))
    }

    fn write(
        site: &SiteContext<'_>,
        plan: &Plan,
        origin: Origin,
        context: u64,
        dispatch: u64,
    ) -> Coded<EncodedCode> {
        let registers = conventions::of(site.arch);
        let mut writer = Self::new(site.arch, origin);
        let machine = writer.machine;
        writer.lower(plan);
        writer.store_all(plan)?;
        // What is live has been stored.
        let mut free = registers.caller_saved.union(registers.special);
        for (reg, value) in registers.int_args.iter().zip([
            OpValue::imm(context),
            OpValue::Frame {
                reg: registers.stack_pointer,
                disp: plan.header as i32,
            },
        ]) {
            free = free.without(*reg);
            writer.mov(*reg, value, free)?;
        }
        writer.emit(&Op::Call(CodeAddr::new(dispatch)), free)?;
        for slot in plan.slots.iter().filter(|slot| slot.back) {
            writer.load(slot, plan.header)?;
        }
        writer.raw(|out| machine.raise_stack(plan.frame, out));
        writer.code.branch(BranchKind::Jump, Dest::End, None);
        Ok(writer.code)
    }

    fn emit(&mut self, op: &Op<'_>, free: RegSet) -> Coded {
        self.backend.emit(op, free, &mut self.code)
    }

    fn raw(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.code.bytes);
    }

    fn mov(&mut self, dst: DwarfReg, src: OpValue, free: RegSet) -> Coded {
        let (width, extension) = (Width::B8, Extension::Zero);
        let op = Op::Move {
            dst,
            src,
            width,
            extension,
        };
        self.emit(&op, free)
    }

    fn address(&self, slot: &Slot, header: u32) -> Address {
        Address {
            base: Base::Reg(self.stack_pointer),
            disp: (header + slot.offset) as i32,
            number: None,
        }
    }

    fn store(&mut self, slot: &Slot, header: u32) -> Coded {
        let to = self.address(slot, header);
        let machine = self.machine;
        if machine.is_vector(slot.reg) {
            self.raw(|out| machine.store(slot.reg, slot.size, to.disp as u32, out));
            return Ok(());
        }
        let (src, width) = (OpValue::Reg(slot.reg), Width::B8);
        self.emit(&Op::Store { to, src, width }, RegSet::EMPTY)
    }

    fn load(&mut self, slot: &Slot, header: u32) -> Coded {
        let from = self.address(slot, header);
        let machine = self.machine;
        if machine.is_vector(slot.reg) {
            self.raw(|out| machine.load(slot.reg, slot.size, from.disp as u32, out));
            return Ok(());
        }
        self.mov(slot.reg, OpValue::Mem(from), RegSet::EMPTY)
    }
}
