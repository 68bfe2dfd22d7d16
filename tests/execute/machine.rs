//! Memory for code and data, and a processor whose registers are all given.

use super::host;
use patchpoint::addr::{CodeAddr, CodeRange};
use patchpoint::publish::{Level, Publisher};

/// What is loaded into the registers, and what was found in them. The trampolines know the offsets.
#[repr(C, align(64))]
pub(super) struct Block {
    /// By DWARF number.
    pub(super) general: [u64; 32],
    pub(super) float: [u64; 32],
    /// Where to go.
    pub(super) code: u64,
    saved: u64,
    /// The lowest 6 bits say by which exit the code was left.
    pub(super) exit: u64,
    kept: u64,
    /// Where a function returns to, on architectures with a register for that alone.
    pub(super) link: u64,
}

/// Conventions of the host, written from its ABI.
pub(super) struct Host {
    /// The general register that holds the return address.
    pub(super) link: Option<u16>,
    /// Bytes of the stack that hold the return address at a function's first instruction.
    pub(super) return_address: u64,
    /// Registers that no program uses: the trampolines do, or the process.
    pub(super) excluded: &'static [u16],
    pub(super) int_args: &'static [u16],
    pub(super) first_float_arg: u16,
    pub(super) float_args: u16,
    /// Bytes from the stack pointer to the first argument on the stack, at a call.
    pub(super) stack_args: i32,
    /// The same at the first instruction of a function.
    pub(super) stack_args_at_entry: i32,
    /// Bytes from the stack pointer on that belong to whoever is called.
    pub(super) above_stack_pointer: i32,
    pub(super) int_result: u16,
    pub(super) float_result: u16,
    pub(super) stack_pointer: u16,
    pub(super) frame_pointer: u16,
}

/// Addresses of machine code.
#[derive(Clone, Copy)]
pub(super) struct Trampolines {
    /// A C function of one argument, a [`Block`]: loads all registers and goes to the code.
    pub(super) enter: u64,
    /// Stores all registers and returns from `enter`.
    pub(super) leave: u64,
    /// A C function: the first argument plus twice the second plus 5. Loses whatever it may.
    pub(super) callee: u64,
    /// Returns at once.
    pub(super) preserver: u64,
}

/// Fresh memory: anonymous, private, read and write; at `hint` if that is free.
fn map(hint: u64, len: usize) -> *mut u8 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh mapping; an address that is taken is only a hint.
    let at = unsafe { libc::mmap(hint as *mut _, len, protection, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at.cast()
}

/// Memory that is first written and then executed.
pub(super) struct CodeMemory {
    at: *mut u8,
    len: usize,
}

impl CodeMemory {
    pub(super) fn new(hint: u64, len: usize) -> Self {
        Self {
            at: map(hint, len),
            len,
        }
    }

    pub(super) fn addr(&self) -> u64 {
        self.at as u64
    }

    /// Before [`seal`](Self::seal).
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        let offset = (at - self.addr()) as usize;
        assert!(offset + bytes.len() <= self.len);
        // SAFETY: inside of the mapping, which is writable and nobody else's.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.add(offset), bytes.len()) };
    }

    /// From now on it is executable and no longer writable.
    pub(super) fn seal(&mut self) {
        // SAFETY: the mapping is this one's.
        let done = unsafe { libc::mprotect(self.at.cast(), self.len, libc::PROT_READ | libc::PROT_EXEC) };
        assert_eq!(done, 0);
        let range = CodeRange::new(CodeAddr::new(self.addr()), self.len as u64).unwrap();
        // SAFETY: the mapping is this one's, and readable.
        unsafe { Publisher::new().publish_code(&[range], Level::Eventual) }.unwrap();
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and nothing executes it.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}

/// Code that stays.
#[cfg(target_arch = "powerpc64")]
pub(super) fn executable(code: &[u8]) -> u64 {
    let mut memory = CodeMemory::new(0, 4096);
    memory.write(memory.addr(), code);
    memory.seal();
    let at = memory.addr();
    core::mem::forget(memory);
    at
}

/// Bytes of data, twice: those that the code sees, and the interpreter's.
pub(super) struct Data {
    real: *mut u8,
    model: Vec<u8>,
    /// What the interpreter has overwritten, for the case that it was in vain.
    undo: Vec<(usize, [u8; 8], usize)>,
    /// What changes unseen: below the stack pointer and a little above.
    hidden: core::ops::Range<u64>,
}

/// A program that is not executed because what it does is not defined.
#[derive(Debug)]
pub(super) struct Undefined;

impl Data {
    pub(super) fn new(fill: impl FnMut() -> u64) -> Self {
        let real = map(0, Self::LEN);
        let mut model = vec![0; Self::LEN];
        for (word, value) in model.chunks_exact_mut(8).zip(core::iter::repeat_with(fill)) {
            word.copy_from_slice(&value.to_ne_bytes());
        }
        // SAFETY: both have that length.
        unsafe { core::ptr::copy_nonoverlapping(model.as_ptr(), real, Self::LEN) };
        let stack_pointer = real as u64 + Self::STACK;
        let above = host::HOST.above_stack_pointer as u64;
        Self {
            real,
            model,
            undo: Vec::new(),
            hidden: stack_pointer - 0x1_0000..stack_pointer + above,
        }
    }

    const LEN: usize = 3 << 20;
    /// Where the stack pointer points.
    const STACK: u64 = 0x24_0000;

    pub(super) fn stack_pointer(&self) -> u64 {
        self.real as u64 + Self::STACK
    }

    pub(super) fn frame_pointer(&self) -> u64 {
        self.stack_pointer() + 0x6000
    }

    /// What pointers point to.
    pub(super) fn heap(&self) -> u64 {
        self.real as u64 + 0xc_0000
    }

    fn offset(&self, at: u64, len: usize) -> Result<usize, Undefined> {
        let end = at.checked_add(len as u64).ok_or(Undefined)?;
        let inside = at >= self.real as u64 && end <= self.real as u64 + Self::LEN as u64;
        let hidden = at < self.hidden.end && self.hidden.start < end;
        match inside && !hidden {
            true => Ok((at - self.real as u64) as usize),
            false => Err(Undefined),
        }
    }

    /// What the interpreter reads.
    pub(super) fn read(&self, at: u64, len: usize) -> Result<u64, Undefined> {
        let offset = self.offset(at, len)?;
        let bytes = self.model[offset..offset + len].iter();
        let push = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        Ok(match cfg!(target_endian = "big") {
            true => bytes.fold(0, push),
            false => bytes.rev().fold(0, push),
        })
    }

    /// What the interpreter writes.
    pub(super) fn write(&mut self, at: u64, len: usize, value: u64) -> Result<(), Undefined> {
        let offset = self.offset(at, len)?;
        let last = len - 1;
        let mut old = [0; 8];
        old[..len].copy_from_slice(&self.model[offset..offset + len]);
        self.undo.push((offset, old, len));
        for (index, byte) in self.model[offset..offset + len].iter_mut().enumerate() {
            let place = if cfg!(target_endian = "big") {
                last - index
            } else {
                index
            };
            *byte = (value >> (8 * place)) as u8;
        }
        Ok(())
    }

    /// Sets 8 bytes of both, hidden or not.
    pub(super) fn set(&mut self, at: u64, value: u64) {
        let offset = (at - self.real as u64) as usize;
        assert!(offset + 8 <= Self::LEN);
        self.model[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
        // SAFETY: inside of the mapping, which no code uses now.
        unsafe { core::ptr::copy_nonoverlapping(value.to_ne_bytes().as_ptr(), self.real.add(offset), 8) };
    }

    /// Undoes what was written since the last time.
    pub(super) fn undo(&mut self) {
        for (offset, old, len) in self.undo.drain(..).rev() {
            self.model[offset..offset + len].copy_from_slice(&old[..len]);
        }
    }

    /// Keeps it.
    pub(super) fn keep(&mut self) {
        self.undo.clear();
    }

    /// The first address at which code and interpreter differ, near one of the addresses, or
    /// anywhere.
    pub(super) fn difference(&self, near: Option<&[u64]>) -> Option<u64> {
        let offset = |at: u64| (at - self.real as u64) as usize;
        let hidden = offset(self.hidden.start)..offset(self.hidden.end);
        let window = |at: &u64| (offset(*at).saturating_sub(64), (offset(*at) + 64).min(Self::LEN));
        let whole = || vec![(0, Self::LEN)];
        let windows = near.map_or_else(whole, |near| near.iter().map(window).collect());
        // SAFETY: the mapping is this one's, and nothing writes now.
        let real = unsafe { core::slice::from_raw_parts(self.real, Self::LEN) };
        let seen = windows.into_iter().flat_map(|(from, to)| {
            let below = from..to.min(hidden.start).max(from);
            [below, from.max(hidden.end).min(to)..to]
        });
        let differs = |range: &core::ops::Range<usize>| real[range.clone()] != self.model[range.clone()];
        let mut range = seen.into_iter().find(differs)?;
        let at = range.find(|offset| real[*offset] != self.model[*offset])?;
        Some(self.real as u64 + at as u64)
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's.
        unsafe { libc::munmap(self.real.cast(), Self::LEN) };
    }
}

impl Block {
    pub(super) fn new() -> Self {
        Self {
            general: [0; 32],
            float: [0; 32],
            code: 0,
            saved: 0,
            exit: 0,
            kept: 0,
            link: 0,
        }
    }

    /// Executes the code until it leaves.
    pub(super) fn run(&mut self, trampolines: &Trampolines) {
        // SAFETY: that is the trampoline's signature; the code that it goes to leaves by `leave`, which restores
        // what a C function must, and was interpreted before: it stays inside of the data.
        let enter: unsafe extern "C" fn(&mut Self) =
            unsafe { core::mem::transmute(trampolines.enter as usize) };
        // SAFETY: as above.
        unsafe { enter(self) };
    }
}
