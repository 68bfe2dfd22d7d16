//! How a handler says how to go on.
//!
//! Everything that can be refused is refused when the answer is made, so that the handler can make
//! another. An answer cannot be carried to another frame: its lifetime is that of one call of a
//! handler.

#![allow(unsafe_code)]

use core::marker::PhantomData;

use super::Frame;
use super::frame::holds_doubles;
use super::host::{FRAME_ABOVE_STACK, state};
use super::lay::Laying;
use super::replace::{Replaced, Replacement, Saved};
use super::value::Value;
use crate::addr::{CodeAddr, CodeRange, DwarfReg};
use crate::arch::conventions;
use crate::deopt::{Error, Result};

/// Whether a frame's caller finds the register as it left it.
pub(super) fn is_restored(reg: DwarfReg) -> bool {
    let others = [state::RETURN_ADDRESS, state::STACK_POINTER.get()];
    state::CALLEE_SAVED.contains(&reg.get()) || others.contains(&reg.get())
}

/// Makes a lifetime stand for one frame: neither shorter nor longer ones can replace it.
pub(super) type Brand<'f> = PhantomData<fn(&'f ()) -> &'f ()>;

/// What a handler decided. Only a [`Frame`] makes one, and only for itself:
///
/// ```
/// use patchpoint::deopt::{Answer, Frame};
/// fn handle<'f>(frame: &mut Frame<'f>, _other: &Frame<'_>) -> Answer<'f> {
///     frame.resume()
/// }
/// ```
/// ```compile_fail
/// use patchpoint::deopt::{Answer, Frame};
/// fn handle<'f>(_frame: &mut Frame<'f>, other: &Frame<'_>) -> Answer<'f> {
///     other.resume()
/// }
/// ```
#[derive(Debug)]
#[must_use = "a handler returns it"]
pub struct Answer<'f> {
    exit: Exit,
    brand: Brand<'f>,
}

#[derive(Debug)]
enum Exit {
    Resume,
    Continue { at: CodeAddr, stack_pointer: u64 },
    Return { caller: CallerState, value: ReturnValue },
    Replace(Replaced),
}

/// What the dispatcher does at last.
pub(super) enum Step {
    /// Tells the routine to resume, or what to load.
    Answer(u64),
    /// Lays new frames.
    Lay(Laying),
}

/// What the caller of a compiled function finds when it returns.
#[derive(Debug)]
pub(super) struct CallerState {
    pub(super) return_to: CodeAddr,
    pub(super) stack_pointer: u64,
    pub(super) saved: Saved,
}

/// What a compiled function is made to return.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ReturnValue {
    /// Nothing: the result registers stay as they are.
    Void,
    /// An integer or pointer of up to 64 bits (rax).
    Int(u64),
    /// An integer of 128 bits, low half first, or two integers (rax, rdx).
    Pair(u64, u64),
    /// A `double` (xmm0).
    F64(f64),
    /// A `float` (xmm0).
    F32(f32),
    /// A vector (xmm0, ymm0 or zmm0; v0; v2 of PowerPC64; v24 of SystemZ): as many bytes as the
    /// value has; the rest of the register stays.
    Vector(Value),
}

impl<'f> Frame<'f> {
    /// Goes on as if nothing had happened, with the registers as they are in this frame now: behind
    /// an inline cache's site, or with the instructions that were at an invalidated one.
    // protection: answers-are-of-one-frame
    pub fn resume(&self) -> Answer<'f> {
        Self::answer(Exit::Resume)
    }

    /// Goes on at `at` with the registers as they are in this frame now, and the stack pointer of
    /// the site. Nothing is clobbered, the red zone included, but for the register that the last
    /// branch needs: r1 on SystemZ, CTR on PowerPC64, x17 on AArch64 hold the address.
    ///
    /// # Safety
    /// At `at` there is code that can go on with these registers and that stack, until it leaves the frame or returns from it.
    ///
    /// # Errors
    /// Only the live registers were saved. The thread has a shadow stack.
    // protection: promises-are-unsafe
    pub unsafe fn continue_at(&self, at: CodeAddr) -> Result<Answer<'f>> {
        // SAFETY: the caller promises the same.
        unsafe { self.continue_with_stack(at, self.stack_pointer()) }
    }

    /// As [`continue_at`](Self::continue_at), with another stack pointer.
    ///
    /// # Safety
    /// As for [`continue_at`](Self::continue_at); what lies below the stack pointer is not needed any more.
    ///
    /// # Errors
    /// The stack pointer is below the site's, where the handler itself runs, or not a multiple of 8 (of 16 on
    /// aarch64, powerpc64 and riscv64). Only the live registers were saved. The
    /// thread has a shadow stack.
    pub unsafe fn continue_with_stack(&self, at: CodeAddr, stack_pointer: u64) -> Result<Answer<'f>> {
        self.can_leave(stack_pointer)?;
        Ok(Self::answer(Exit::Continue { at, stack_pointer }))
    }

    /// Leaves the frame: its caller finds the value returned, and its own callee-saved registers
    /// and stack pointer, restored by the unwind information of the function. What was written to
    /// registers is lost, but for those that are free at a return.
    ///
    /// # Errors
    /// The function has no unwind information, or it cannot be applied, or has saved a register that would not be
    /// restored. The value does not fit its register. Only the live registers were saved. The
    /// thread has a shadow stack.
    pub fn return_to_caller(&self, value: ReturnValue) -> Result<Answer<'f>> {
        if let ReturnValue::Vector(vector) = value {
            self.read_register(state::VECTOR_RESULT, 0, vector.size())?;
        }
        let caller = self.caller()?;
        Ok(Self::answer(Exit::Return { caller, value }))
    }

    /// Starts to put other frames in the place of this one: the caller's registers and stack
    /// pointer are restored as by [`return_to_caller`](Self::return_to_caller), and frames can be
    /// pushed below it.
    ///
    /// # Errors
    /// As for [`return_to_caller`](Self::return_to_caller).
    pub fn replacement(&self) -> Result<Replacement<'f>> {
        if self.window.is_some() {
            return Err(Error::Memory(crate::memory::Error::NotMirrored {
                what: "the replacement of a frame",
                mend: "return to the caller, or continue at another place in the code",
            }));
        }
        Ok(Replacement::new(self, self.caller()?))
    }

    /// Puts the frames in the place of this one, and goes on in the innermost; or at the first
    /// instruction of the function that it [calls](Replacement::call). The registers that functions
    /// preserve are those of the replacement; the others are as in this frame now, but for the one
    /// that the last branch needs (see [`continue_at`](Self::continue_at)).
    pub fn replace(&self, new: Replacement<'f>) -> Answer<'f> {
        Self::answer(Exit::Replace(new.finish()))
    }

    fn must_be_whole(&self) -> Result<()> {
        // protection: lean-frames-are-not-left
        match self.captured.is_whole() {
            true => Ok(()),
            false => Err(Error::FrameNotWhole {
                id: self.site.id,
                addr: self.site.addr,
            }),
        }
    }

    fn caller(&self) -> Result<CallerState> {
        self.must_be_whole()?;
        let unwind = self.unwind()?;
        let unwind = unwind.ok_or(Error::UnwindMissing { pc: self.pc() })?;
        let row = unwind.row(self.pc())?;
        row.check_saved(is_restored)?;
        let registers = |reg| self.captured.base(reg);
        if let Some(window) = self.window {
            row.check_reads(window, &registers)?;
        }
        // SAFETY: the frame is at the site, and the exit stub's creator vouches for its unwind information.
        let frame = unsafe { row.frame(&registers) }?;
        let stack_pointer = frame.wrapping_sub(FRAME_ABOVE_STACK);
        self.can_leave(stack_pointer)?;
        let mut saved = [0; state::CALLEE_SAVED.len()];
        for (to, reg) in saved.iter_mut().zip(state::CALLEE_SAVED) {
            // SAFETY: as above.
            *to = unsafe { row.in_caller(DwarfReg::new(reg), frame, &registers) }?;
        }
        let return_address = DwarfReg::new(state::RETURN_ADDRESS);
        // SAFETY: as above.
        let return_to = unsafe { row.in_caller(return_address, frame, &registers) }?;
        Ok(CallerState {
            return_to: CodeAddr::new(return_to),
            stack_pointer,
            saved,
        })
    }

    fn answer(exit: Exit) -> Answer<'f> {
        Answer {
            exit,
            brand: PhantomData,
        }
    }

    fn can_leave(&self, stack_pointer: u64) -> Result<()> {
        let (id, addr, lowest) = (self.site.id, self.site.addr, self.stack_pointer());
        self.must_be_whole()?;
        let beyond = |window: CodeRange| stack_pointer > window.end().get();
        // protection: stack-pointer-only-moves-up
        if stack_pointer < lowest
            || self.window.is_some_and(beyond)
            || stack_pointer % conventions::of(self.site.arch).stack_unit != 0
        {
            return Err(Error::FrameStackPointer {
                id,
                addr,
                lowest,
                found: stack_pointer,
            });
        }
        if state::has_shadow_stack() {
            return Err(Error::FrameShadowStack { id, addr });
        }
        Ok(())
    }

    /// Carries an answer out, up to the last step.
    ///
    /// # Safety
    /// To be called last, by the dispatcher.
    #[allow(dead_code, reason = "nothing is captured on hosts without exit stubs")]
    #[inline]
    pub(super) unsafe fn carry_out(self, answer: Answer<'f>) -> Step {
        match answer.exit {
            Exit::Resume => Step::Answer(0),
            // SAFETY: the caller promises the same.
            exit => unsafe { self.leave_by(exit) },
        }
    }

    /// The same of any answer. As a call of its own, as the frame is long: moving it for those who
    /// resume, which most do, would take 100 instructions.
    ///
    /// # Safety
    /// As of [`carry_out`](Self::carry_out).
    #[inline(never)]
    unsafe fn leave_by(mut self, exit: Exit) -> Step {
        let (at, stack_pointer) = match exit {
            Exit::Resume => return Step::Answer(0),
            Exit::Continue { at, stack_pointer } => (at, stack_pointer),
            Exit::Return { caller, value } => {
                self.put_saved(&caller.saved);
                self.put_return_value(value);
                (caller.return_to, caller.stack_pointer)
            }
            Exit::Replace(new) => {
                self.put_saved(&new.saved);
                for (reg, value) in new.registers {
                    self.captured.write(reg, value.bytes());
                }
                return Step::Lay(Laying::new(new.at, new.stack_pointer, new.bytes));
            }
        };
        // SAFETY: `can_leave` has checked the stack pointer; what is above it belongs to the code at `at`, by the
        // promise of the exit stub's creator or by the unwind information.
        Step::Answer(unsafe { self.captured.leave(at, stack_pointer) })
    }

    /// What a function that preserves registers has in them when it goes on behind a call.
    fn put_saved(&mut self, saved: &Saved) {
        for (reg, value) in state::CALLEE_SAVED.into_iter().zip(saved) {
            self.captured.write(DwarfReg::new(reg), &value.to_le_bytes());
        }
        self.captured.clear_direction();
    }

    fn put_return_value(&mut self, value: ReturnValue) {
        let to = &mut self.captured;
        match value {
            ReturnValue::Void => {}
            ReturnValue::Int(value) => to.write(state::RESULT, &value.to_le_bytes()),
            ReturnValue::Pair(low, high) => {
                to.write(state::RESULT, &low.to_le_bytes());
                to.write(state::RESULT_HIGH, &high.to_le_bytes());
            }
            ReturnValue::F64(value) => to.write(state::FLOAT_RESULT, &value.to_le_bytes()),
            ReturnValue::F32(value) if holds_doubles(self.site.arch, state::FLOAT_RESULT) => {
                to.write(state::FLOAT_RESULT, Value::single_as_double(value).bytes());
            }
            ReturnValue::F32(value) => to.write(state::FLOAT_RESULT, &value.to_le_bytes()),
            ReturnValue::Vector(value) => to.write(state::VECTOR_RESULT, value.bytes()),
        }
    }
}
