//! Sites that trap: shadows that were invalidated live, and gates of sites that no single store can
//! change. Linux.
//!
//! **Problem.** A shadow holds the function's own instructions, of any lengths, at which threads
//! may be. They cannot be exchanged for a jump of several bytes while threads execute them.
//! **Approach.** Only the first bytes change, to an instruction that traps and that is no longer
//! than any there, by one store, which no thread can see in part. A thread that executes it gets
//! SIGTRAP (SystemZ: SIGILL); the handler finds the address in a table and sends the thread to the
//! exit stub with all registers as they were. Threads that are past the first instruction go on
//! undisturbed: their instructions are all still there.
//!
//! **Invariants.** The table has the trap before the bytes are written. The handler takes no lock,
//! allocates nothing and keeps `errno`. A signal that is not from a trap of the table is handed to
//! whoever handled the signal before, or has the effect that it would have had: it is never
//! swallowed. A child of a fork has its own copy of the table and the handler.
//!
//! Everything but faults waits while the handler runs, so that one frame is all it takes of an
//! alternate stack, beside profilers' signals too; a handler that was there before is called with
//! its own mask, and as its own flags say.
//!
//! **Limits.** A thread that blocks the signal at a trap is killed by the kernel, as at every
//! breakpoint; a handler of that signal blocks it too, unless it was installed with `SA_NODEFER`.
//! Handlers that are installed for the signal after ours must hand on what is not theirs. A debugger
//! is told of each trap first: see below.
//!
//! **Cost.** A signal per execution of the site: meant for code that is on its way out, and for the
//! short time in which a site is rewritten.
//!
//! # Under GDB
//!
//! GDB takes SIGTRAP for its own: what is none of its breakpoints stops the program, and `continue`
//! then swallows the signal, so that the thread goes on behind the trap, in the midst of the
//! instruction that was there. `handle SIGTRAP nostop noprint pass` is no way out: GDB then passes on
//! what its own breakpoints raise as well, those included by which it sees libraries loaded, and
//! every program dies of it. What tells them apart is a catchpoint for a breakpoint instruction that
//! is in the program's memory, as GDB shows none of its own there. On x86-64, where the program
//! counter has to be put behind the instruction again:
//!
//! ```text
#![doc = include_str!("x86_64.gdb")]
//! ```
//!
//! `starti` is there because the condition needs a program; leave it out where GDB attaches to one.
//! The language is set because Rust's has no such casts. The program then takes its traps, and stops
//! at its other breakpoints as ever. In memory of the engine's only hardware breakpoints (`hbreak`)
//! can be set, as nothing can be written through what is executed. A `stepi` that comes to a trap
//! takes it and does not stop behind it. Each trap takes GDB the better part of a millisecond.

#![allow(unsafe_code)]

mod chain;
mod table;

use crate::addr::CodeAddr;
use crate::interrupted;
use crate::memory::LiveMemory;
use crate::publish::Result;
use crate::publish::turn::Turns;
use table::Table;

/// The instruction that traps in place of the one at `at` that begins with the byte `first`; no
/// longer than that. RISC-V has two, by the length of the instruction.
#[must_use]
pub fn instruction(at: CodeAddr, first: u8) -> &'static [u8] {
    interrupted::trap(at.get(), first)
}

static TABLE: Table = Table::new();
/// Writers of the table take turns.
static WRITERS: Turns = Turns::new();
static TRAPS: Traps = Traps { private: () };

/// The process's table of traps, whose handler is installed.
#[derive(Debug)]
pub struct Traps {
    private: (),
}

impl Traps {
    /// Installs the handler for the signals of traps, once, and keeps what was there to hand on to.
    ///
    /// # Errors
    ///
    /// [`Error::ThreadUnknown`](crate::publish::Error::ThreadUnknown) if the system refuses a
    /// handler.
    pub fn install() -> Result<&'static Self> {
        let _turn = WRITERS.wait(None);
        chain::install()?;
        Ok(&TRAPS)
    }

    /// The table, if its handler was installed.
    pub(crate) fn installed() -> Option<&'static Self> {
        chain::is_installed().then_some(&TRAPS)
    }

    /// Notes that the trapping instruction at `at` goes to `exit_stub`. The byte is written
    /// afterwards.
    ///
    /// # Safety
    ///
    /// Until the trap is cleared, and every thread that may have executed it by then is past it, a
    /// thread can go from the instruction boundary `at` to `exit_stub` with all registers as they
    /// are.
    pub unsafe fn set(&self, at: CodeAddr, exit_stub: CodeAddr) {
        let () = self.private;
        let _turn = WRITERS.wait(None);
        TABLE.set(at.get(), exit_stub.get());
    }

    /// Forgets the trap at `at`, whose byte is another one again or which nothing executes any
    /// more.
    pub fn clear(&self, at: CodeAddr) {
        let _turn = WRITERS.wait(None);
        if TABLE.find(at.get()).is_some() {
            TABLE.set(at.get(), 0);
        }
    }

    /// Notes the trap of a site of the engine's, which goes to the code that was made for it, or to the
    /// site itself once that is open again.
    pub(crate) fn note(&self, site: CodeAddr, to: CodeAddr) {
        // SAFETY: the site starts at an instruction boundary, as its registration has found. The code was checked to do at
        // that boundary what it may. An exit stub is freed only with the trap, when the module goes; a stub is retired when
        // another note is in force, and a thread that was sent there is in no quiescent state before it has left it.
        unsafe { self.set(site, to) };
    }

    /// Where the trap at `at` goes.
    #[must_use]
    pub fn exit_stub(&self, at: CodeAddr) -> Option<CodeAddr> {
        TABLE.find(at.get()).map(CodeAddr::new)
    }

    /// How many traps of the table threads have taken since the process started.
    #[must_use]
    pub fn taken(&self) -> u64 {
        chain::taken()
    }

    /// Makes the instruction at `at` a trap that goes to `exit_stub`: notes it, then writes its
    /// first bytes. It remains to publish them, at [`Level::Immediate`](super::Level::Immediate)
    /// where no thread may execute the old instruction any more.
    ///
    /// # Safety
    ///
    /// As for [`set`](Self::set); and nothing else writes the quadword meanwhile.
    ///
    /// # Errors
    ///
    /// Whatever the memory refuses; nothing has changed then.
    pub unsafe fn arm(&self, memory: &dyn LiveMemory, at: CodeAddr, exit_stub: CodeAddr) -> Result<()> {
        // SAFETY: the caller promises the same.
        unsafe { self.set(at, exit_stub) };
        // protection: trap-write-that-is-refused-leaves-no-note
        exchange(memory, at).inspect_err(|_| self.clear(at))
    }
}

/// Writes the trap, by one store, which no thread sees in part: of its byte, or of the quadword
/// around it.
fn exchange(memory: &dyn LiveMemory, at: CodeAddr) -> Result<()> {
    if let [_] = instruction(at, 0) {
        return Ok(memory.write_unexecuted(at, instruction(at, 0))?);
    }
    let offset = (at.get() % 8) as usize;
    let word = CodeAddr::new(at.get() - offset as u64);
    let mut old = [0; 8];
    memory.read(word, &mut old)?;
    let first = *old.get(offset).expect("an offset in a quadword is below 8");
    let mut new = old;
    for (to, from) in new.iter_mut().skip(offset).zip(instruction(at, first)) {
        *to = *from;
    }
    Ok(memory.exchange(word, old, new)?)
}

#[cfg(test)]
mod tests;
