//! A model of how code is changed while threads execute it: every state of a few cores, sites and
//! writers, explored.
//!
//! It stands beside `src/engine/live.rs` and its neighbours in the engine, and says in which order
//! they have to do what they do. It is a crate of its own, not a module of tests, so that none of
//! it is shipped, and so that its tests, which go through millions of states, are optimized where
//! the engine's are not. It depends on nothing, not even on the engine: what it says is not true
//! because the code says so.
//!
//! # The problem
//!
//! A *site* is a range of bytes in code that threads execute. The engine replaces its instructions,
//! and stops no thread. Three things make that hard.
//!
//! - Several instructions cannot be exchanged by one store, and a thread may be between any two of
//!   them, for as long as it likes: it is descheduled, or in a signal handler, or in a debugger.
//! - A core executes what it has *fetched*. That may be older than what memory holds, and older for
//!   one byte than for the next. No order of loads and stores changes that, only a *serializing*
//!   instruction on that very core does. `membarrier` makes every core execute one.
//! - Code out of line (*stubs*) is freed and its memory used again. A thread may be in it.
//!
//! # The protocol
//!
//! Four steps, of which a change needs some; with where they stand in the code:
//!
//! 1. **Close.** One exchange sends every thread that arrives to a stub, which does the new thing
//!    already: the patchable jump (`live::exchange`, `JumpExchange::make`), or a trap whose
//!    handler continues at the stub (`live::gate`, `live::trap`, `publish::trap`). From here on the patch
//!    is in effect. An ordinary patch ends here. An Immediate one serializes all cores before it
//!    returns (`live::publish`).
//! 2. **Wait.** Serialize all cores; then wait until every thread has reported a quiescent state
//!    (`publish::Epochs`). Then no thread is behind the gate.
//! 3. **Rewrite** what is behind the gate; serialize all cores.
//! 4. **Open.** Exchange the gate for the first bytes of the new code.
//!
//! Steps 2 to 4 are *settling*. It holds no lock while it waits, may be given up, and begins again
//! with what the site has become meanwhile. A stub to which nothing goes any more is *retired*; all
//! cores serialize; an epoch begins; when every thread has reported it, the stub is freed
//! (`Engine::reclaim_passed`). A transaction that fails is *rolled back*: its exchanges in turn.
//!
//! What each of the model's steps is in the code is said at the functions of `writers`. Of sites
//! whose gate is a trap the engine settles a jump to the stub, not the code itself, and changes
//! those whose old bytes are one instruction in one transaction, without the wait.
//!
//! # The rules that the model has shown
//!
//! Each is kept by the protocol as it is modelled; most are among the steps that are left out once
//! ([`LeftOut`]) to see the failure.
//!
//! - A gate is one store inside one aligned quadword, which leaves the other bytes of the quadword
//!   as they are: they are instructions at which threads are.
//! - The first instruction of what is settled is as long as the patchable jump, or longer: a thread
//!   behind a shorter one would go on inside the jump when the site is closed again. It may reach
//!   into the next quadword, which does not change while the site is open.
//! - **Closing is followed by a serialization before anything behind the gate is rewritten, also
//!   where there is nothing to wait for.** Where the old code was one instruction no thread is
//!   behind the gate, but a core may have fetched its first bytes.
//! - Reports count from after that serialization, and only while the site stays closed. When the
//!   wait is over, it is looked again whether the site is closed, and what is installed.
//! - Rewriting is followed by a serialization before the site is opened. None is needed after it
//!   was opened: not for a patchable jump, nor for a trap. A core may then go on seeing the gate:
//!   it goes to the stub, whose own epoch has a serialization, or to the handler.
//! - A trap is in the handler's table before it is written, and is kept there when the site is
//!   opened: no barrier and no serialization says that no thread is between its trap and the
//!   handler's look at the table. But the table says *execute the site again* then, before the
//!   change returns, and also when the site is rolled back to code in place. A late thread that was
//!   sent to the old stub would begin old code, which an Immediate change has ended.
//! - **What was only noted has been reachable.** A transaction that notes a trap of a site that has
//!   trapped before, and is then refused the exchange, retires its stub: a late thread may have
//!   been sent there.
//! - The original code comes back by one store only if its bytes are still behind the gate. Where
//!   others were settled there, the gate goes to the end of the site (for nops) or to a stub with
//!   the original, and is settled like any other.
//! - A stub's slot is filled before the gate goes there. A retired one is freed after: all cores
//!   serialize, an epoch begins, every thread reports. Stubs with calls need reports from without
//!   compiled frames.
//!
//! # The machine
//!
//! A core has a thread, which is outside, in a site before one of its instructions, in a stub, in
//! what a stub has called, or has trapped and is not yet in the handler. Outside, it may report,
//! come to any site, or stay for ever. In a site it executes the instruction that it *sees*:
//!
//! - **x86-64.** A core sees of each aligned quadword any value that it has held since the core
//!   last serialized, or holds; another one each time; of two quadwords values of any two times.
//!   One store into a quadword is seen wholly or not at all; what is written by several stores is
//!   seen in any state between. An instruction is decoded from what is seen: bytes of two codes in
//!   one instruction, or a thread in the middle of one, are a failure. That is weaker than what AMD
//!   documents for stores inside an aligned quadword (APM volume 2, 7.6.1), and than what was
//!   measured for the engine. Intel documents cross-modifying code only with a serializing
//!   instruction on the core that executes it (SDM volume 3, "Handling self- and cross-modifying
//!   code"); that a core executes the old or the new of an aligned store before that is what every
//!   JIT relies on. With [`FetchOrder::Forwards`] a core never sees older bytes after newer ones.
//!   What holds is explored without that, and what fails with it.
//! - **AArch64.** The same for words, but a word of which a core can see two values must have been
//!   exchanged between instructions of the architecture's list (DDI 0487, B2.2.5: B, BL, NOP, BRK,
//!   SVC, HVC, SMC, ISB): else the core may execute anything, which is a failure at once. And
//!   instruction caches are not coherent: unless the writer maintains them, a core may see old
//!   bytes even when it has serialized (ISB).
//! - **Stubs.** A core may have fetched what is in a stub once an instruction that it may see goes
//!   there. Before, it has fetched nothing of it: the first branch to new code brings new code, on
//!   which every JIT relies. Without that assumption ([`Prefetch::Anywhere`], which is explored
//!   too) all cores would have to serialize between filling a stub and the exchange, for every
//!   patch.
//!
//! A serialization can come at any time, by interrupts, signals and switches of threads. It takes
//! values away that a core may see, and adds none: everything that can happen after it can happen
//! without it. Hence only those that the protocol demands are modelled. The return from a handler
//! is one on x86-64 (`iretq`). What must not happen does not happen without it; but it is why a
//! thread that is told to execute a site again does not find the same trap for ever.
//!
//! What must hold in every state is in [`Failure`]. *Permitted* is the code of every change that
//! has begun since the last Immediate change was complete, and what that one has installed; a
//! thread that has begun older code may finish it. There is no deadlock: whoever has the lock never
//! waits for a thread, and a site whose wait is not over stays closed ([`EndState::Waits`]):
//! correct and slower.
//!
//! # Other architectures
//!
//! PowerPC: aligned words, `dcbst; sync; icbi; sync` by the writer, `isync` by the barrier:
//! AArch64's rules with a list of its own (b, bl, nop, trap), of which the engine uses the same.
//! RISC-V: the same with `riscv_flush_icache`, which is maintenance and serialization of all cores
//! in one; a 4-byte instruction must lie in an aligned word, and an instruction of 2 bytes counts
//! as a short first instruction does on x86-64. SystemZ: caches are coherent and instructions have
//! 2, 4 or 6 bytes: x86-64's rules, with aligned words for quadwords; a patchable jump is exchanged
//! by its mask or its aligned displacement. On all three what is settled begins with a nop where
//! the exchange of the gate for anything else is not permitted, as on AArch64.
//!
//! # What is not modelled
//!
//! - The order of memory accesses between reports and epochs, and threads that attach, detach, or
//!   go offline: see the loom tests of `engine::retire`.
//! - A roll-back that fails itself. The engine marks such sites as lost and keeps their stubs.
//! - Grace periods that are proven by other means, unregistering, forks, remote processes.
//! - Arming of code that has not run: nobody executes it. Arming of code that may be running is
//!   [`ChangeKind::Arm`].
//! - Two sites in one quadword. Writers have the lock, and each store leaves the rest as it is.
//! - Registers, stacks, and what code computes. Exit stubs are never freed.
//! - Threads that report what is not true. A thread that never reports is modelled.
//! - Levels are fixed by the kind of change: patches are Eventual, others Immediate.
//!
//! # Exploring
//!
//! Breadth first, by a small explorer of our own ([`explore()`]): what it does takes some hundred
//! lines, and a ready one would bring a web server with it. States are told apart by 128 bits of
//! hash; cores are interchangeable, and so are writers. A failure is shown by a shortest way to it.
//!
//! ```
//! use patchpoint_live_model::*;
//!
//! let kinds = &[ChangeKind::Patch];
//! let config = Config { changes: 1, kinds, ..Config::new(Rules::X86_64) };
//! let found = explore(&LiveModel::new(config.clone()));
//! assert!(found.failure.is_none());
//! println!("{found}");
//!
//! // The same, with the stub filled after the exchange.
//! let left_out = Some(LeftOut::StubBeforeGate);
//! let found = explore(&LiveModel::new(Config { left_out, ..config }));
//! println!("{}", found.failure.unwrap().trace);
//! ```
//!
//! `cargo test -p patchpoint-live-model -- --nocapture` prints how many states each configuration
//! has, and the way to each failure. Larger ones are ignored by default: see the tests.

#![expect(
    clippy::indexing_slicing,
    reason = "sites, cores and slots are small numbers; one that is not ends the test"
)]

mod explore;
mod machine;
mod model;
mod readers;
mod rules;
mod state;
mod writers;

pub use explore::{Counterexample, EndState, Explorable, Exploration, Successor, explore};
pub use model::LiveModel;
pub use rules::{
    ALL_CHANGES, CORES, ChangeKind, Config, Failure, FetchOrder, Gate, LeftOut, PIECES, Prefetch, Rules,
    SITES, SLOTS,
};
