//! Sequences: what is put into sites.

use parking_lot::Mutex;
use patchpoint::addr::CodeAddr;
use patchpoint::arch::Label;
use patchpoint::sequence::Sequence;

use crate::error::{Misuse, Result, pp_error};
use crate::frame::reg;
use crate::guard::boundary;
use crate::handle::{self, HandleOut, handle};
use crate::operand::{cond, on_return, pp_operand, pp_source, pp_target};
use crate::text::{TextBody, pp_text};
use crate::types::{pp_bytes, pp_str, slice};

/// What is to be put into sites: operations in order, in terms of a site's values. Behind the last one
/// the code goes on at the end of the site.
pub struct pp_sequence {
    _opaque: [u8; 0],
}

pub(crate) type SequenceBody = Mutex<Sequence>;
handle!(pp_sequence, SequenceBody, 0x7070_000c);

/// A sequence as it is now.
///
/// # Safety
/// As for `handle::get`.
pub(crate) unsafe fn get(sequence: *const pp_sequence) -> Result<Sequence> {
    // SAFETY: the same.
    Ok(unsafe { handle::get::<SequenceBody>(sequence) }?.lock().clone())
}

/// # Safety
/// As for `handle::get`.
unsafe fn add(sequence: *mut pp_sequence, add: impl FnOnce(Sequence) -> Sequence) -> Result<()> {
    // SAFETY: the same.
    let body = unsafe { handle::get::<SequenceBody>(sequence) }?;
    let mut body = body.lock();
    *body = add(std::mem::take(&mut *body));
    Ok(())
}

/// An empty sequence, which does nothing. To be freed by pp_sequence_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_new(sequence: *mut *mut pp_sequence) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<SequenceBody>::new(sequence)?;
        to.set(Mutex::new(Sequence::new()));
        Ok(())
    })
}

/// The sequence that a text says, such as "guard u32[arg(0)+8] == 0x17 else miss; result =
/// u64[arg(0)+24]". README.md has the grammar. To be freed by pp_sequence_free().
///
/// # Safety
/// Promises of addresses and of bytes that are not decoded, where the text has some, what
/// pp_sequence_call(), pp_target and pp_sequence_vouched() promise. Threads: any. Handlers: yes.
/// Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_from_text(
    text: pp_str,
    sequence: *mut *mut pp_sequence,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<SequenceBody>::new(sequence)?;
        to.set(Mutex::new(Sequence::from_text(text.get()?)?));
        Ok(())
    })
}

/// The sequence as text, to be freed by pp_text_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_text(
    sequence: *const pp_sequence,
    text: *mut *mut pp_text,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<TextBody>::new(text)?;
        to.set(TextBody::new(get(sequence)?.to_string()));
        Ok(())
    })
}

/// A copy, to be freed by pp_sequence_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_clone(
    sequence: *const pp_sequence,
    clone: *mut *mut pp_sequence,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<SequenceBody>::new(clone)?;
        to.set(Mutex::new(get(sequence)?));
        Ok(())
    })
}

/// Adds: go on only if the condition (one of pp_cond) holds between the two values, else to the target.
///
/// # Safety
/// Promises what pp_target says. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_guard(
    sequence: *mut pp_sequence,
    condition: u32,
    left: pp_source,
    right: pp_source,
    target: pp_target,
) -> *mut pp_error {
    boundary!({
        let (condition, left, right) = (cond(condition)?, left.get()?, right.get()?);
        let target = target.get()?;
        add(sequence, |sequence| {
            sequence.guard(condition, left, right, target)
        })
    })
}

/// Adds: go to the target if the condition (one of pp_cond) holds between the two values, else on.
///
/// # Safety
/// Promises what pp_target says. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_jump_if(
    sequence: *mut pp_sequence,
    condition: u32,
    left: pp_source,
    right: pp_source,
    target: pp_target,
) -> *mut pp_error {
    boundary!({
        let (condition, left, right) = (cond(condition)?, left.get()?, right.get()?);
        let target = target.get()?;
        add(sequence, |sequence| {
            sequence.jump_if(condition, left, right, target)
        })
    })
}

/// Adds: write a value, or what is in memory, to the result or a register that is free at the site.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_move(
    sequence: *mut pp_sequence,
    to: pp_operand,
    from: pp_source,
) -> *mut pp_error {
    boundary!({
        let (to, from) = (to.get()?, from.get()?);
        add(sequence, |sequence| sequence.mov(to, from))
    })
}

/// Adds: write a value to memory, which is made by pp_at().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_store(
    sequence: *mut pp_sequence,
    to: pp_source,
    from: pp_source,
) -> *mut pp_error {
    boundary!({
        let (to, from) = (to.memory()?, from.get()?);
        add(sequence, |sequence| sequence.store(to, from))
    })
}

/// Adds: add a value to the result, written before, or to a register that is free at the site.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_add(
    sequence: *mut pp_sequence,
    to: pp_operand,
    from: pp_source,
) -> *mut pp_error {
    boundary!({
        let (to, from) = (to.get()?, from.get()?);
        add(sequence, |sequence| sequence.add(to, from))
    })
}

/// Adds: clear the bits of `to` that the mask has not.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_and(
    sequence: *mut pp_sequence,
    to: pp_operand,
    mask: u64,
) -> *mut pp_error {
    boundary!({
        let to = to.get()?;
        add(sequence, |sequence| sequence.and(to, mask))
    })
}

/// How pp_sequence_shift() shifts.
#[repr(C)]
pub enum pp_shift {
    /// To the left; zeros come in.
    PP_SHIFT_LEFT = 0,
    /// To the right; zeros come in.
    PP_SHIFT_RIGHT = 1,
    /// To the right; copies of the sign come in.
    PP_SHIFT_RIGHT_SIGNED = 2,
}

/// Adds: shift all of `to` by 0 to 63 bits, as one of pp_shift says.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_shift(
    sequence: *mut pp_sequence,
    how: u32,
    to: pp_operand,
    by: u8,
) -> *mut pp_error {
    boundary!({
        let to = to.get()?;
        let shift = match how {
            0 => Sequence::shift_left,
            1 => Sequence::shift_right,
            2 => Sequence::shift_right_signed,
            other => return Err(Misuse::Number("pp_shift", other.into()).into()),
        };
        add(sequence, |sequence| shift(sequence, to, by))
    })
}

/// Adds: add a value to memory, which is made by pp_at(), atomically or not.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_add_to_memory(
    sequence: *mut pp_sequence,
    to: pp_source,
    from: pp_source,
    atomic: bool,
) -> *mut pp_error {
    boundary!({
        let (to, from) = (to.memory()?, from.get()?);
        add(sequence, |sequence| match atomic {
            true => sequence.atomic_add(to, from),
            false => sequence.add_to_memory(to, from),
        })
    })
}

/// Adds: call the function at that address. `on_return` is one of pp_on_return.
///
/// # Safety
/// Promises, as long as the sequence may be executed, that there is a function which can be called
/// there with what the site passes, and which does as `on_return` says. Threads: any. Handlers: yes.
/// Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_call(
    sequence: *mut pp_sequence,
    address: u64,
    on_return: u32,
) -> *mut pp_error {
    boundary!({
        let on_return = self::on_return(on_return)?;
        // SAFETY: the caller promises the same.
        add(sequence, |sequence| unsafe {
            sequence.call(CodeAddr::new(address), on_return)
        })
    })
}

/// Adds: go to the target.
///
/// # Safety
/// Promises what pp_target says. Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_jump(sequence: *mut pp_sequence, target: pp_target) -> *mut pp_error {
    boundary!({
        let target = target.get()?;
        add(sequence, |sequence| sequence.jump(target))
    })
}

/// Adds: return from the function, at entry sites.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_return(sequence: *mut pp_sequence) -> *mut pp_error {
    boundary!(add(sequence, Sequence::ret))
}

/// Adds: stop with the exception of an invalid instruction.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_trap(sequence: *mut pp_sequence) -> *mut pp_error {
    boundary!(add(sequence, Sequence::trap))
}

/// Adds bytes as they are: machine code that may be at any address and goes on behind its end. It is
/// checked like anything else before it is written.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_raw(sequence: *mut pp_sequence, bytes: pp_bytes) -> *mut pp_error {
    boundary!({
        let bytes = bytes.get()?;
        add(sequence, |sequence| sequence.raw(bytes))
    })
}

/// Adds bytes that are not decoded, for instructions that the checker does not know.
///
/// # Safety
/// Promises that the bytes are whole instructions which may be at any address, go on behind their end,
/// leave the stack pointer and the processor's modes alone, write no stack below the stack pointer, and
/// write no registers but `writes` and the flags of arithmetic. Threads: any. Handlers: yes. Stopped
/// world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_vouched(
    sequence: *mut pp_sequence,
    bytes: pp_bytes,
    writes: *const u32,
    count: usize,
) -> *mut pp_error {
    boundary!({
        let bytes = bytes.get()?;
        let writes = slice(writes, count)?.iter().map(|number| reg(*number));
        let writes = writes.collect::<Result<Vec<_>>>()?;
        // SAFETY: the caller promises the same.
        add(sequence, |sequence| unsafe { sequence.vouched(bytes, &writes) })
    })
}

/// Adds the position to which branches to that label go.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_bind(sequence: *mut pp_sequence, label: u32) -> *mut pp_error {
    boundary!(add(sequence, |sequence| sequence.bind(Label::new(label))))
}

/// The sequence refuses to be put into a stub where the reserved bytes do not suffice.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_in_place_only(sequence: *mut pp_sequence) -> *mut pp_error {
    boundary!(add(sequence, Sequence::in_place_only))
}

/// Frees a sequence. Sites keep what was put into them.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_sequence_free(sequence: *mut pp_sequence) -> *mut pp_error {
    boundary!(handle::free::<SequenceBody>(sequence))
}
