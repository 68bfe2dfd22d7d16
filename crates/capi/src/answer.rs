//! What a handler sets, and how it answers.

use patchpoint::addr::CodeAddr;
use patchpoint::deopt::{Arg, ReturnValue, Value};
use patchpoint::stackmap::{Location, LocationKind};

use crate::error::{Misuse, Result, pp_error};
use crate::frame::{Open, pp_frame, pp_value, reg, with};
use crate::guard::boundary;
use crate::types::slice;

/// How pp_frame_return() returns.
#[repr(C)]
pub enum pp_return_kind {
    /// Nothing: the result registers stay as they are.
    PP_RETURN_VOID = 0,
    /// The integer or pointer `low`.
    PP_RETURN_INT = 1,
    /// 128 bits, or two integers: `low` and `high`.
    PP_RETURN_PAIR = 2,
    /// A double, whose bits are `low`.
    PP_RETURN_F64 = 3,
    /// A float, whose bits are the lower half of `low`.
    PP_RETURN_F32 = 4,
}

/// How an argument of pp_frame_replace_call() is passed.
#[repr(C)]
pub enum pp_argument_kind {
    /// An integer or pointer.
    PP_ARGUMENT_INT = 0,
    /// A double, whose bits are the value.
    PP_ARGUMENT_F64 = 1,
}

/// An argument of pp_frame_replace_call().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_argument {
    /// One of pp_argument_kind.
    pub kind: u32,
    /// The value.
    pub value: u64,
}

/// A value that a new frame is to have: see pp_frame_replace_push().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_frame_slot {
    /// How far from the frame's stack pointer.
    pub offset: u32,
    /// 0 for the value, 1 for the callee-saved register `reg` of the frame's caller, 2 for the address
    /// to which the frame returns.
    pub what: u32,
    /// The DWARF number of the register.
    pub reg: u32,
    /// The value.
    pub value: u64,
}

/// A register that code finds in a new frame: see pp_frame_replace_push().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_register_value {
    /// The DWARF number of the register.
    pub reg: u32,
    /// The value.
    pub value: u64,
}

/// Sets the result of the site to an integer or pointer: what the code finds when it goes on.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_set_result(frame: *mut pp_frame, value: u64) -> *mut pp_error {
    boundary!(with(frame, |open| Ok(open.frame().set_result(value)?)))
}

/// Sets the result of the site to a floating-point number.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_set_float_result(frame: *mut pp_frame, value: f64) -> *mut pp_error {
    boundary!(with(frame, |open| Ok(open.frame().set_float_result(value)?)))
}

/// Answers: go on as if nothing had happened, behind the site of a miss, or with the instructions
/// that were at an invalidated one. What is written to the frame is what the code finds.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_resume(frame: *mut pp_frame) -> *mut pp_error {
    boundary!(with(frame, |open| {
        open.answer = Some(open.frame().resume());
        Ok(())
    }))
}

/// Answers: go on at that address, with the registers as they are in the frame when the handler
/// returns, and the stack pointer of the site.
///
/// # Safety
/// Promises that code there can go on with these registers and that stack. Threads: the handler's.
/// Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_continue_at(frame: *mut pp_frame, address: u64) -> *mut pp_error {
    boundary!(with(frame, |open| {
        // SAFETY: the caller promises the same.
        open.answer = Some(unsafe { open.frame().continue_at(CodeAddr::new(address)) }?);
        Ok(())
    }))
}

/// As pp_frame_continue_at(), with another stack pointer, which is not below the site's.
///
/// # Safety
/// As for pp_frame_continue_at(), and what lies below the stack pointer is not needed any more.
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_continue_with_stack(
    frame: *mut pp_frame,
    address: u64,
    stack_pointer: u64,
) -> *mut pp_error {
    boundary!(with(frame, |open| {
        let at = CodeAddr::new(address);
        // SAFETY: the caller promises the same.
        let answer = unsafe { open.frame().continue_with_stack(at, stack_pointer) };
        open.answer = Some(answer?);
        Ok(())
    }))
}

/// Answers: leave the frame. Its caller finds the value returned, and its own callee-saved registers,
/// which the function's unwind information tells: compile it with `uwtable`. `kind` is one of
/// pp_return_kind.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_return(
    frame: *mut pp_frame,
    kind: u32,
    low: u64,
    high: u64,
) -> *mut pp_error {
    boundary!({
        let value = match kind {
            0 => ReturnValue::Void,
            1 => ReturnValue::Int(low),
            2 => ReturnValue::Pair(low, high),
            3 => ReturnValue::F64(f64::from_bits(low)),
            4 => ReturnValue::F32(f32::from_bits(low as u32)),
            other => return Err(Misuse::Number("pp_return_kind", other.into()).into()),
        };
        with(frame, |open| {
            open.answer = Some(open.frame().return_to_caller(value)?);
            Ok(())
        })
    })
}

/// Answers as pp_frame_return(), with a vector: as many bytes as the value has.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_return_vector(
    frame: *mut pp_frame,
    value: *const pp_value,
) -> *mut pp_error {
    boundary!({
        let value = value.as_ref().ok_or(Misuse::Null("the value"))?.get()?;
        with(frame, |open| {
            let value = ReturnValue::Vector(value);
            open.answer = Some(open.frame().return_to_caller(value)?);
            Ok(())
        })
    })
}

/// Begins to put other frames in the place of this one, below its caller's; what was begun before is
/// forgotten. It changes nothing before pp_frame_replace() or pp_frame_replace_call() answers so.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_replace_begin(frame: *mut pp_frame) -> *mut pp_error {
    boundary!(with(frame, |open| {
        open.replacement = Some(open.frame().replacement()?);
        Ok(())
    }))
}

/// The replacement that was begun.
fn begun(open: &mut Open) -> Result<&mut patchpoint::deopt::Replacement<'static>> {
    let begun = open.replacement.as_mut();
    begun.ok_or_else(|| Misuse::Order("no replacement has been begun: call pp_frame_replace_begin()").into())
}

/// Adds a frame of `size` bytes whose code goes on at `next`: where its callee returns to, or for the
/// innermost one where the thread goes on. The slots are written to it, and the code finds the values
/// in the registers, which are those that functions preserve, or for the innermost frame any.
///
/// # Safety
/// Promises that code can go on at `next` with this frame. Threads: the handler's. Handlers: only
/// there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_replace_push(
    frame: *mut pp_frame,
    next: u64,
    size: u32,
    slots: *const pp_frame_slot,
    slot_count: usize,
    registers: *const pp_register_value,
    register_count: usize,
) -> *mut pp_error {
    boundary!({
        let slots = slice(slots, slot_count)?;
        let registers = slice(registers, register_count)?;
        with(frame, |open| {
            // SAFETY: the caller promises the same.
            let mut new = unsafe { begun(open)?.push(CodeAddr::new(next), size) }?;
            for slot in slots {
                match slot.what {
                    0 => new.put(slot.offset, slot.value.into())?,
                    1 => new.save(reg(slot.reg)?, slot.offset)?,
                    2 => new.save_return_address(slot.offset)?,
                    other => return Err(Misuse::Number("what of a pp_frame_slot", other.into()).into()),
                }
            }
            for register in registers {
                let location = Location {
                    kind: LocationKind::Register {
                        reg: reg(register.reg)?,
                        bit_offset: 0,
                    },
                    size: 8,
                };
                new.set(location, Value::from(register.value))?;
            }
            Ok(())
        })
    })
}

/// The stack pointer of the innermost frame of the replacement, and where it goes on.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_replace_state(
    frame: *const pp_frame,
    stack_pointer: *mut u64,
    next: *mut u64,
) -> *mut pp_error {
    boundary!({
        let (to_stack, to_next) = (crate::types::out(stack_pointer, 0)?, crate::types::out(next, 0)?);
        with(frame, |open| {
            let replacement = begun(open)?;
            *to_stack = replacement.stack_pointer();
            *to_next = replacement.next().get();
            Ok(())
        })
    })
}

/// Answers: go on in the innermost of the new frames.
///
/// # Safety
/// Threads: the handler's. Handlers: only there. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_replace(frame: *mut pp_frame) -> *mut pp_error {
    boundary!(with(frame, |open| {
        begun(open)?;
        let replacement = open.replacement.take();
        open.answer = replacement.map(|new| open.frame().replace(new));
        Ok(())
    }))
}

/// Answers: call a function with the C convention from the innermost of the new frames, or, where none
/// was pushed, in the place of the compiled function. Its arguments are integers, pointers and doubles.
///
/// # Safety
/// Promises that the function can be called so. Threads: the handler's. Handlers: only there. Stopped
/// world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_frame_replace_call(
    frame: *mut pp_frame,
    function: u64,
    arguments: *const pp_argument,
    count: usize,
) -> *mut pp_error {
    boundary!({
        let arguments = slice(arguments, count)?.iter();
        let arguments: Vec<Arg> = arguments
            .map(|argument| match argument.kind {
                0 => Ok(Arg::Int(argument.value)),
                1 => Ok(Arg::F64(f64::from_bits(argument.value))),
                other => Err(Misuse::Number("pp_argument_kind", other.into()).into()),
            })
            .collect::<Result<_>>()?;
        with(frame, |open| {
            begun(open)?;
            let Some(replacement) = open.replacement.take() else {
                return Ok(());
            };
            // SAFETY: the caller promises the same.
            let replacement = unsafe { replacement.call(CodeAddr::new(function), &arguments) }?;
            open.answer = Some(open.frame().replace(replacement));
            Ok(())
        })
    })
}
