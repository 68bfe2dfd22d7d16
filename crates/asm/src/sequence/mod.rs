//! What a runtime asks to be written into a site, and its assembly.
//!
//! Problem: a runtime wants to say "compare the shape of the first argument, load its third field
//! into the result" once, and each site has those values in other places. Approach: a [`Sequence`]
//! names operands in terms of the record; [`assemble`] resolves them at one site to registers,
//! memory and constants, hands the resolved operations to the architecture's encoder, chooses the
//! shortest form of each branch, and pads. Nothing here touches the code itself, and any host
//! assembles for any architecture.
//!
//! Invariants of what is assembled: it has exactly the reserved length; it writes only the result
//! and registers that are free at the site; it leaves every return offset an instruction boundary
//! with only nops behind it; a call that ends it returns to the end of the site.
//!
//! Cost: a few allocations per assembly, time linear in the operations (squared in the branches, of
//! which there are few).
//!
//! ```
//! use patchpoint_asm::sequence::{Field, Sequence, Target, arg, result};
//!
//! // Is the 32-bit shape, 8 bytes into the first argument, 0x17? Then the result is its third word.
//! let hit = Sequence::new()
//!     .guard_eq(u32::at(arg(0), 8), 0x17, Target::Miss)
//!     .load(result(), u64::at(arg(0), 24));
//! ```

mod assemble;
mod builder;
mod finish;
mod flow;
mod layout;
mod operand;
mod outline;
mod places;
mod resolve;
mod scratch;
#[cfg(test)]
mod tests;
pub mod text;

pub use assemble::{
    Assembled, Environment, Fit, Stub, StubCode, assemble, assemble_out_of_line, assemble_stub,
    assemble_stub_template, assemble_template, stub_len,
};
pub use builder::Sequence;
pub use finish::finish;
pub use operand::{
    Field, Mem, Operand, OperandPart, Source, Target, TargetAddr, arg, float_arg, float_result, live,
    location, reg, result, temp,
};
pub use outline::{Outline, class, is_single};
