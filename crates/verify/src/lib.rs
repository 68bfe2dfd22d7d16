//! The independent checker of what is about to be written.
//!
//! It sees only bytes, the site with its record, and what the sequence declares; it shares no table
//! and no code with the assembler, so that a mistake there is found here: this crate depends on
//! nothing that assembles, and of `patchpoint-isa` it uses the vocabulary and the contract of a
//! site, not the facts by which sequences are assembled. Raw bytes from a runtime pass through it
//! like anything else. The code is the site's bytes and those of its stubs; control enters at the
//! site's first byte and, from calls made by earlier sequences, at the site's return offsets.
//!
//! # Rules
//!
//! 1. **Decoding.** The site's code has exactly the reserved length. Site and stubs decode linearly from first to
//!    last byte, also where control cannot come, and the last instruction ends at the last byte. Bytes that the
//!    sequence declares as vouched for are not decoded: they are one instruction that writes what is declared.
//! 2. **Branches** go to an instruction boundary of the site or of a stub, to the site's end, or to a declared
//!    target. Jumps leave only to targets that never return, except that an entry site may hand the function over
//!    to any declared target. Calls go only to declared targets that return. A branch through a register is
//!    allowed where a constant that the code itself loads is certain to be in it; one through memory never.
//! 3. **Ends.** A stub never runs off its end. A shadow never reaches the site's end: the instructions that were
//!    there are gone. `ret` is only in an entry site. Every path ends in one of these ways, in a trap, or
//!    runs in a loop: backward branches are allowed, and a loop that never ends is not found here.
//! 4. **Registers.** Written, wholly or partly, are only:
//!    at an `anyregcc` patchpoint the scratch register, and the result if it is declared;
//!    at a C patchpoint what is neither recorded, nor live out, nor callee-saved, and the result if it is declared;
//!    at a shadow the scratch register; at an entry the scratch register, and on paths that return the declared
//!    return registers. A callee-saved register that a C patchpoint's live-outs omit is free only if
//!    `SiteContext::trust_live_outs`. A call writes what its target's contract leaves open. What is written
//!    counts as lost even if it is restored later. No recorded value is lost before a jump that never returns:
//!    an exit stub reads all of them. At a marked site, of which no record tells what is live, nothing may be written. The flags of
//!    arithmetic are free everywhere but there. At a told site what was told to be free may be written, and with the C
//!    convention what is free at a C patchpoint; its flags only if that was told.
//! 5. **Stack.** The depth is known everywhere, the same on every path, never above where it was on entry, and
//!    the same as on entry at every exit. In a shadow, marked or entry site, and a told one without a free stack, the red zone is not written (stack memory is
//!    written only after the stack pointer was lowered past it), and at an entry not the return address. Calls of
//!    C functions find the stack aligned; a told site calls only with a free stack. Stores into the function's own frame, recorded slots included, are the
//!    runtime's business, and so are stores through any register but the stack pointer.
//! 6. **Return offsets** are instruction boundaries followed only by nops up to the end; on PowerPC64 the TOC pointer is
//!    restored there first. A shadow or marked site can have none.
//! 7. **Processor state.** No instruction changes modes, segments, control registers, the direction flag, the
//!    x87 or MMX state, or enters the kernel. Only instruction sets known to be free of that are accepted. Whether the
//!    processor has them is not asked.
//! 8. **Calls.** A call site stays the call or jump that it was, with another target: see [`check_call`].
//! 9. **Exchanges.** A live site is changed by exchanging one instruction, see [`check_exchange`]; a shadow by making
//!    its first instruction a trap, see [`check_trap`]. Behind a trap at the site's start those bytes are rewritten
//!    between which no thread can be, see [`check_rewrite`]. Where it is known that a site does nothing but go to its
//!    stub, the stub keeps these rules alone, see [`check_stub`].
//!
//! # Structure
//!
//! `walk` holds the rules and knows no architecture; it works on `facts`, one per instruction,
//! which a decoder per architecture delivers together with its ABI. `policy` turns the site into
//! sets of registers. One decoding pass and one walk along the control flow; nothing is formatted
//! unless it is refused. `template` admits code that differs from checked code in constants only, in
//! place, in stubs, and as the gates of live sites.
//!
//! An architecture is the file or folder of its name, chosen in one `match` (`of_arch!` in
//! `dispatch`); the other files know none.
//!
//! # An example
//!
//! ```
//! use llvm_stackmaps::addr::CodeAddr;
//! use patchpoint_isa::Arch;
//! use patchpoint_verify::{Original, disassemble, original};
//!
//! // What LLVM left in a patchpoint of 16 bytes with a call: movabs r11, 0x1000; call r11; nopl (%rax).
//! let site = CodeAddr::new(0x7000);
//! let code = [0x49, 0xbb, 0x00, 0x10, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xd3, 0x0f, 0x1f, 0x00];
//! assert_eq!(disassemble(Arch::X86_64, site, &code).len(), 3);
//! let found = original(Arch::X86_64, site, &code)?;
//! assert_eq!(found, Original::LlvmCall { target: CodeAddr::new(0x1000), returns_at: 13 });
//! # Ok::<(), patchpoint_verify::Error>(())
//! ```
//!
//! # Cost
//!
//! Linear in the number of instructions, times the number of stubs: about half a microsecond for an
//! inline cache of 32 bytes. An instruction where paths join is visited again only when they know
//! less than before, which happens at most once per register.

#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        reason = "a default in place of what cannot be missing hides a broken invariant"
    )
)]

extern crate alloc;

mod aarch64;
mod branches;
mod call;
mod check;
mod chunk;
mod constants;
mod dispatch;
mod error;
mod exchange;
mod facts;
mod field;
mod listing;
mod nops;
mod open;
mod original;
mod policy;
mod powerpc64;
mod riscv64;
mod scalable;
mod scan;
mod systemz;
mod template;
mod walk;
mod x86_64;

#[cfg(test)]
mod tests;

pub use branches::{DirectBranch, branches_to};
pub use call::{check_call, check_leaving};
pub use check::{check, check_stub};
pub use chunk::Chunk;
pub use error::{Error, ErrorKind, InstructionAt, Result};
pub use exchange::{check_exchange, check_rewrite, check_trap};
pub use field::OpenField;
pub use listing::{ListingLine, disassemble};
pub use nops::are_nops;
pub use original::{
    DecodedFunction, Original, boundaries, is_call, is_jump, original, patchpoint_prefix, prepare_decoder,
};
pub use policy::{callee_saved, kept_registers, not_kept};
pub use scalable::first_scalable;
pub use template::{Content, GateTemplate, LoneBranch, Place, Template};
pub use walk::Checked;
