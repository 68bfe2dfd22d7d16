//! The independent checker of what is about to be written, as the crate `patchpoint-verify` has it;
//! the front page of that crate lists its rules. It shares no table and no code with the assembler.
//!
//! ```
//! use patchpoint::addr::CodeAddr;
//! use patchpoint::arch::Arch;
//! use patchpoint::verify::{Original, disassemble, original};
//!
//! let code = [0x0f, 0x1f, 0x44, 0x00, 0x00];
//! assert_eq!(original(Arch::X86_64, CodeAddr::new(0x1000), &code)?, Original::Nops);
//! assert_eq!(disassemble(Arch::X86_64, CodeAddr::new(0x1000), &code)[0].text, "nop [rax+rax]");
//! # Ok::<(), patchpoint::verify::Error>(())
//! ```

pub use patchpoint_verify::{
    Checked, Chunk, DirectBranch, Error, ErrorKind, InstructionAt, ListingLine, Original, boundaries,
    branches_to, callee_saved, check, check_call, check_exchange, check_rewrite, check_stub, check_trap,
    disassemble, original, patchpoint_prefix, prepare_decoder,
};
pub(crate) use patchpoint_verify::{
    Content, DecodedFunction, GateTemplate, LoneBranch, OpenField, Place, Template, are_nops, check_leaving,
    first_scalable, is_call, is_jump, kept_registers, not_kept,
};
