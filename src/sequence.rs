//! What a runtime asks to be written into a site, and its assembly, as the crate `patchpoint-asm`
//! has them; the front page of that crate says how.
//!
//! ```
//! use patchpoint::sequence::{Field, Sequence, Target, arg, result};
//!
//! // Is the 32-bit shape, 8 bytes into the first argument, 0x17? Then the result is its third word.
//! let hit = Sequence::new()
//!     .guard_eq(u32::at(arg(0), 8), 0x17, Target::Miss)
//!     .load(result(), u64::at(arg(0), 24));
//! assert_eq!(hit.to_string(), "guard u32[arg(0)+8] == 0x17 else miss; result = u64[arg(0)+24]");
//! ```

pub use patchpoint_asm::hole::{Alike, ByteOrder, Class, Holds, Hole, Holes};
pub use patchpoint_asm::sequence::{
    Assembled, Environment, Field, Fit, Mem, Operand, OperandPart, Sequence, Source, Stub, StubCode, Target,
    TargetAddr, arg, assemble, assemble_out_of_line, assemble_stub, assemble_stub_template,
    assemble_template, float_arg, float_result, live, location, reg, result, stub_len, temp, text,
};
pub(crate) use patchpoint_asm::sequence::{Outline, class, is_single};
pub use patchpoint_asm::{Cond, Error, ErrorKind, Extension, Label, Width};
