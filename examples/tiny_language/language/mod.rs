//! A small dynamic language on top of patchpoint: what the examples `tiny_language` and
//! `differential` run.
//!
//! ```text
//!     Isolate::invoke ──> interpreter ──────── hot ───────> tier: load, register, attach caches
//!           │                 ^                                      │
//!           └──> compiled code│ <────────────────────────────────────┘
//!                  │    │     │
//!      no entry ───┘    └─────┴── deopt: an assumption broke, or a case it was not compiled for
//!      lookup: the answer, and an entry for the cache
//! ```
//!
//! Read in this order: [`value`], [`object`], [`bytecode`] and [`interpreter`] are the language, in
//! which nothing knows of patching, but that [`isolate`] tells the runtime what it changes.
//! [`compiled`] says what the objects of LLVM's promise; [`tier`] makes code of them and gives it
//! up; [`lookup`] answers the misses of inline caches; [`deopt`] carries frames over into the
//! interpreter.
//!
//! Who executes the compiled code is the runtime's [`Host`](crate::host::Host): this process, or
//! another. What compiled code reads is in memory that the host sees: objects, and of an isolate
//! the globals. The interpreter, the lookups and the handlers are here in any case. They follow
//! pointers that they find in objects, and so trust that compiled code writes no others: what
//! another process cannot change is code.
//!
//! A runtime's threads each have an [`isolate`]: objects and classes of their own. They share
//! shapes, code, caches and assumptions, so that what one does changes the code under the others,
//! but never their results.
#![allow(dead_code, reason = "two examples and their tests each use a part")]

pub(crate) mod bytecode;
pub(crate) mod compiled;
pub(crate) mod deopt;
pub(crate) mod figures;
pub(crate) mod heap;
pub(crate) mod interpreter;
pub(crate) mod isolate;
pub(crate) mod lookup;
pub(crate) mod object;
pub(crate) mod runtime;
pub(crate) mod tier;
pub(crate) mod value;
