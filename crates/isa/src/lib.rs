//! What is known of five architectures when compiled code is patched: registers and their DWARF
//! numbers, calling conventions, nops and calls as LLVM emits them, and which instructions may be
//! exchanged while threads execute them.
//!
//! Problem: whoever assembles a sequence for a site, whoever checks it and whoever links the code
//! have to mean the same by "the scratch register" and "the reserved bytes of a patchpoint", and
//! the checker must not believe what the assembler believes. Approach: this crate holds the
//! vocabulary, and the contract between assembler and checker: a [`SiteContext`] says what a site
//! holds, a [`Declared`] what a sequence may do there. Nothing here encodes a sequence, and nothing
//! decodes one.
//!
//! Everything is pure: every architecture can be asked on every host, without `std`. Nothing here
//! fails: what an architecture has not is `None`.
//!
//! # Who uses what
//!
//! The checker (`patchpoint-verify`) uses the vocabulary and the contract, which are at the crate's
//! root and in [`registers`]. It uses none of the facts in [`calls`], [`conventions`],
//! [`exchange`], [`instructions`] and [`nops`], by which the assembler and the engine go: it has
//! its own, so that a mistake in either is found by the other.
//!
//! # Structure
//!
//! An architecture is the folder of its name, reached through one `match`. The rest asks that and
//! knows no architecture.
//!
//! # An example
//!
//! ```
//! use patchpoint_isa::{Arch, RegSet, conventions, nops, registers, x86_64};
//!
//! // The scratch register of every patchpoint on x86-64 is r11, and an argument of C functions never is in it.
//! let convention = conventions::of(Arch::X86_64);
//! assert_eq!(convention.always_free, RegSet::of(&[x86_64::R11]));
//! assert!(!convention.int_args.contains(&x86_64::R11));
//! let name = registers::register_name(Arch::X86_64, x86_64::R11);
//! assert_eq!(name.map(|name| name.to_string()).as_deref(), Some("r11"));
//!
//! // What fills the rest of a site.
//! let mut bytes = Vec::new();
//! nops::put(Arch::X86_64, 3, &mut bytes);
//! assert_eq!(bytes, [0x0f, 0x1f, 0x00]); // nopl (%rax)
//! ```
#![no_std]

extern crate alloc;

#[macro_use]
mod constants;

pub mod aarch64;
mod arch;
pub mod calls;
mod context;
pub mod conventions;
mod dispatch;
pub mod exchange;
pub mod instructions;
mod isa;
pub mod nops;
pub mod powerpc64;
pub mod registers;
mod regset;
pub mod riscv64;
mod shape;
mod site;
pub mod systemz;
pub mod x86_64;

pub use arch::Arch;
pub use context::{Declared, DeclaredTarget, OnReturn, SiteContext, Vouched};
pub use regset::RegSet;
pub use shape::{CallShape, Convention, SiteKind};
pub use site::SiteName;
