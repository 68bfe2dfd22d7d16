//! Verified patching of the patchpoints that LLVM leaves in compiled code.
//!
//! LLVM can leave *patchpoints* in the code that it compiles: reserved bytes, with a *stack map*
//! that says where each live value is. A JIT runtime rewrites those bytes while the program runs:
//! an inline cache that learns a shape, code that is discarded because an assumption broke. This
//! crate does the rewriting: it reads the stack maps, assembles what the runtime asks for in terms
//! of the record's values, checks the result with a decoder that shares nothing with the assembler,
//! and writes all reserved bytes of all sites of a transaction, or none, without ever making a page
//! writable and executable at once.
//!
//! # An example
//!
//! The object is in this repository with its IR. Its function `get` reads a property of an object
//! through a patchpoint of 32 bytes with ID 78; what `anyregcc` chose for the argument and the
//! result is in the record.
//!
#![cfg_attr(all(feature = "std", target_os = "linux"), doc = "```")]
#![cfg_attr(not(all(feature = "std", target_os = "linux")), doc = "```ignore")]
//! use patchpoint::deopt::ExitStubs;
//! use patchpoint::publish::SingleThreaded;
//! use patchpoint::sequence::{Field, Sequence, Target, arg, result};
//! use patchpoint::{CallShape, Engine};
//!
//! // What the runtime does when the cache has no answer, and when the code has been invalidated.
//! let exit_stubs = ExitStubs::new()
//!     .on_miss(|frame| {
//!         frame.set_result(0).expect("the shape has a result");
//!         frame.resume()
//!     })
//!     .on_deopt(|frame| frame.resume());
//! // SAFETY: this example has one thread.
//! let world = unsafe { SingleThreaded::promise() };
//! let engine = Engine::builder().world(world).exits(exit_stubs).build()?;
//!
//! # #[cfg(target_arch = "x86_64")]
//! let object = include_bytes!("../examples/objects/inline_cache.o");
//! # #[cfg(target_arch = "aarch64")]
//! # let object = include_bytes!("../examples/objects/inline_cache.aarch64.o");
//! # #[cfg(all(target_arch = "powerpc64", target_endian = "little"))]
//! # let object = include_bytes!("../examples/objects/inline_cache.powerpc64le.o");
//! # #[cfg(all(target_arch = "powerpc64", target_endian = "big"))]
//! # let object = match patchpoint::arch::Arch::host() {
//! #     Some(patchpoint::arch::Arch::PowerPc64) => &include_bytes!("../examples/objects/inline_cache.powerpc64.o")[..],
//! #     _ => include_bytes!("../examples/objects/inline_cache.powerpc64-elfv2.o"),
//! # };
//! # #[cfg(target_arch = "s390x")]
//! # let object = include_bytes!("../examples/objects/inline_cache.s390x.o");
//! # #[cfg(target_arch = "riscv64")]
//! # let object = include_bytes!("../examples/objects/inline_cache.riscv64.o");
//! let code = engine.load(object, |_symbol| None)?;
//! let shape = |id| (id == 78).then(|| CallShape::any_reg(32).result().args(1));
//! // SAFETY: that is the call in the IR, and what is patched and answered below is right for it.
//! let module = unsafe { engine.register(code, |record| shape(record.id().get())) }?;
//!
//! // If the word at offset 8 of the argument is 0x17, the result is the word at offset 24.
//! let hit = Sequence::new()
//!     .guard_eq(u64::at(arg(0), 8), 0x17, Target::Miss)
//!     .load(result(), u64::at(arg(0), 24));
//! engine.patch(78, &hit)?;
//!
//! module.release(); // its code may run from now on
//! let get = module.function("get")?;
//! // SAFETY: that is the function's signature in the IR, and the module stays registered.
//! let call = unsafe { get.typed::<extern "C" fn(&[u64; 4]) -> u64>() }?;
//! assert_eq!(call(&[0, 0x17, 0, 1234]), 1234);
//! assert_eq!(call(&[0, 0x18, 0, 1234]), 0); // a miss
//!
//! println!("{}", engine.plan(78, &hit)?); // address, slack, disassembly before and after
//! engine.invalidate(&get)?;
//! assert_eq!(engine.patch(78, &hit)?.invalidated, 1); // for good
//! # Ok::<(), patchpoint::Error>(())
//! ```
//!
//! # The life of a site
//!
//! 1. **Code in memory.** [`Engine::load`] links an object and places it in memory of the engine's;
//!    [`Engine::adopt`] takes over what another JIT has placed, from its stack map section and the addresses
//!    and sizes of its functions.
//! 2. **Registered.** The stack map does not say how many bytes a patchpoint reserves, nor what it is called
//!    with: the runtime tells a [`CallShape`] per record. Registration audits it against the function, the
//!    other records and the bytes that are there: LLVM's own promises about them are not always kept.
//! 3. **Released**: [`Module::release`](site::Module::release) says that its code may run from now on, and only then the
//!    entries of its functions are given. Into code that has not run no thread will return: a patch before that has all
//!    bytes of a site.
//! 4. **Patched** with a [`Sequence`](sequence::Sequence), as often as the runtime likes, in place where it
//!    fits, otherwise in a stub nearby to which the site jumps; **restored** to its original bytes.
//! 5. **Invalidated**, for good: the site goes to its exit stub, which hands the handler a
//!    [`Frame`](deopt::Frame) with every register and every value of the record.
//! 6. **Unregistered** with its module, once no thread is in it or will return to it.
//!
//! Each change is a [`Transaction`](engine::Transaction): collected, [prepared](engine::Transaction::prepare)
//! (assembled, checked, stubs placed) and [committed](engine::Prepared::commit) (compared, written, published,
//! read back).
//!
//! # Threads
//!
//! An [`Engine`] is shared between threads; changes are made one after the other. While sites are written no
//! other thread may execute them: the runtime implements [`World`](publish::World), which stops its threads,
//! or uses a world that is here: `publish::SignalWorld` stops attached threads by a signal, wherever they are, and
//! waits or fails while one is inside of what is to change; [`SingleThreaded`](publish::SingleThreaded) is a promise. Return addresses may point into sites while
//! they are patched: where a call was in a site of a released module, the engine keeps the byte after it
//! an instruction boundary with only nops behind it, or moves the new sequence out of line. A stub into
//! which a callee may return is freed by [`Engine::reclaim`], for which the runtime promises that its
//! threads are [`GracePeriod`](publish::GracePeriod).
//!
//! A module that is registered [live](engine::Registration::live), before its code first runs, is changed
//! while any number of threads execute it, and none is stopped. Its sites are armed once: nops, one *patchable jump*,
//! nops. From then on a patch puts its sequence into a stub and exchanges the patchable jump by one aligned store:
//! each execution runs the old sequence or the new one, never a mixture. [`Engine::settle`] moves what has not been
//! patched for a grace period from its stub into the site, where it fits, so that hot code runs in place. A shadow, which holds the function's own
//! instructions, is not armed; it is invalidated by a trap in place of its first instruction, from which the
//! process's SIGTRAP handler sends the thread to its exit stub. The threads that execute live code are
//! [attached](Engine::attach_thread) and report [checkpoints](publish::ThreadHandle::checkpoint), so that
//! old stubs can be [reclaimed](Engine::reclaim_passed).
//!
//! | | quiescent | live |
//! |---|---|---|
//! | the sequence is | in the site, where it fits | in a stub, and in the site when it is settled |
//! | while it changes | other threads are stopped | they run on |
//! | a patch or restore is seen | at once | soon: each thread runs old or new for a bounded time |
//! | an invalidation is seen | at once | at once |
//! | memory | any [strategy](memory::Strategy) | one that can exchange a word: Alias, and Remap for code that others placed |
//!
//! Of which memory, at which alignment, for which threads and for whose code all of this is true, and by which error the
//! rest is refused, is said in one table: *What is promised, and for whom*, in `SECURITY.md`.
//!
//! # What a runtime promises
//!
//! What can be checked is checked. What cannot is a promise, and each has an `unsafe` function that names it. Safe functions
//! alone write no code but in sites that were promised, free no code that is in use, and read no memory that was never promised.
//!
//! | promise | given by |
//! |---|---|
//! | these bytes are that compiled function, and stay mapped | [`Adoption::promise`](image::Adoption::promise), [`memory::adopt()`], [`Toggle::register`](memory::Toggle::register), [`ProcMem::register`](memory::ProcMem::register), [`Remap::register`](memory::Remap::register) |
//! | what is told of the code is true: shapes, entries, marks, told sites, trusted live-outs, how frames are found; what sequences load, store and leave as results there, and what handlers answer, is right for it; it does not run before it is released | [`Engine::register`], [`Registration::register`](engine::Registration::register), [`register_ids`](engine::Registration::register_ids), [`finish`](engine::Registration::finish) |
//! | there is code at this address that can be entered or called so | [`Target::addr`](sequence::Target::addr), [`Sequence::call`](sequence::Sequence::call), [`Action::call`](ic::Action::call), [`Engine::redirect`], [`Engine::retarget`] and those of [`Transaction`](engine::Transaction); any of them in text: [`Sequence::from_text`](sequence::Sequence::from_text) |
//! | these bytes, which nobody decodes, do what is said of them | [`Sequence::vouched`](sequence::Sequence::vouched) |
//! | compiled code can go on there, with these registers and these frames | [`Frame::continue_at`](deopt::Frame::continue_at), [`continue_with_stack`](deopt::Frame::continue_with_stack), [`set_register`](deopt::Frame::set_register), [`set_flags`](deopt::Frame::set_flags); [`Replacement::push`](deopt::Replacement::push), [`push_compiled`](deopt::Replacement::push_compiled), [`call`](deopt::Replacement::call) |
//! | this code of exit stubs does what exit stubs do; this C function can be called by them | `unsafe impl` [`Exits`](engine::Exits), [`ExitStubContext::new`](deopt::ExitStubContext::new), [`CFunction::new`](deopt::CFunction::new) |
//! | code is written by nobody else, and whole | [`CodeArea::writable`](memory::CodeArea::writable), [`PlacedSegments::writable`](memory::PlacedSegments::writable), `unsafe impl` [`CodeMemory`](memory::CodeMemory) and [`LiveMemory`](memory::LiveMemory), [`Publisher::publish_code`](publish::Publisher::publish_code) |
//! | where threads are, and that they are stopped | [`SingleThreaded::promise`](publish::SingleThreaded::promise), `SignalWorld::new`, `unsafe impl` [`World`](publish::World), [`Stopped::promise`](publish::Stopped::promise), [`GracePeriod::promise`](publish::GracePeriod::promise), [`Attached::promise`](publish::Attached::promise), `Traps::set` and `arm` |
//! | code is executed in a mirror of the engine's memory, and published there | [`EngineBuilder::mirrored`](engine::EngineBuilder::mirrored), `unsafe impl` [`Mirror`](memory::Mirror) and [`Publication`](publish::Publication); [`SavedFrame::new`](engine::SavedFrame::new), [`Exits::capture_by`](engine::Exits::capture_by), `unsafe impl` [`ForwardExit`](deopt::ForwardExit) |
//! | this manager's memory holds the code that its unwind information describes | `Unwound::new` (feature `backtrace`) |
//!
//! Loading writes only memory of the engine's, and executes nothing; whoever calls a function that was loaded does so by `unsafe` code of
//! their own, and keeps the engine and the module while it runs. What handlers do with a frame's own result and values, and what
//! sequences do with memory, is safe to write: it is covered by the promise of registering, as a wrong value can be as bad as a wrong
//! shape. Code that is executed in a [mirror](memory::Mirror) can harm whatever executes it there, not this process: the crate
//! `patchpoint-remote` has other processes execute it.
//!
//! # Errors
//!
//! Each room refuses by an error of its own: [`memory::Error`], [`publish::Error`], [`site::Error`],
//! [`deopt::Error`], [`image::AdoptionError`]; so do the crates below, whose errors are
//! [`image::Error`] (of linking), [`sequence::Error`], [`verify::Error`] and [`stackmap::Error`]. The
//! engine's is [`Error`]: each of theirs becomes one of its by `?`, as a variant, and is found in one
//! place whichever way it came. An engine knows exits by a trait only, so what `deopt` refuses is there
//! a [`ProviderError`](error::ProviderError), of which `deopt::Error::from` makes it again. Each says its
//! [kind](error::ErrorKind), of which there are few, and in its sentence where it was, what was needed
//! and found, and how to mend it.
//!
//! # Platforms
//!
//! | | reads stack maps | links ELF objects, assembles, checks | patches |
//! |---|---|---|---|
//! | x86-64 Linux | yes | yes, on any host | yes |
//! | AArch64, PowerPC64, SystemZ, RISC-V 64 Linux | yes | yes, on any host | yes; tested under an emulator, which shows nothing of concurrency |
//! | without `std` | yes | no | no |
//!
//! # Features
//!
//! `std` (default): everything but reading stack maps and naming registers, which are `no_std` with `alloc`.
//! `tracing`: an observer that hands events to `tracing`. `backtrace`: observers that tell GDB and
//! the process's unwinder how frames are found. `fuzzing`: the bodies of the fuzz targets.
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        reason = "a default in place of what cannot be missing hides a broken invariant"
    )
)]

extern crate alloc;

pub use llvm_stackmaps::{addr, metadata};

pub mod error;
pub mod stackmap;

pub mod arch;
#[cfg(feature = "std")]
pub mod sequence;
#[cfg(feature = "std")]
pub mod verify;

#[cfg(feature = "std")]
mod icache;
#[cfg(all(feature = "std", target_os = "linux"))]
mod interrupted;
#[cfg(feature = "std")]
mod invariant;

#[cfg(all(feature = "std", not(feature = "latency")))]
#[allow(dead_code, unreachable_pub, reason = "nobody can ask, see the feature")]
mod latency;
#[cfg(feature = "latency")]
pub mod latency;

#[cfg(feature = "std")]
pub mod image;
#[cfg(feature = "std")]
pub mod memory;
#[cfg(feature = "std")]
pub mod publish;
#[cfg(feature = "std")]
mod quiescence;

#[cfg(feature = "std")]
pub mod site;

#[cfg(feature = "std")]
pub mod engine;

#[cfg(feature = "std")]
pub mod deopt;

#[cfg(feature = "std")]
pub mod ic;

#[cfg(feature = "std")]
pub mod observe;

#[cfg(all(feature = "std", any(test, feature = "fuzzing")))]
pub mod fuzzing;

#[cfg(all(doctest, feature = "std"))]
mod promises;

pub use arch::{CallShape, Convention};
#[cfg(feature = "std")]
pub use engine::Engine;
#[cfg(feature = "std")]
pub use engine::error::{Error, Result};

/// The example of the README, which is run like those here.
#[cfg(all(doctest, target_arch = "x86_64", target_os = "linux", feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;
