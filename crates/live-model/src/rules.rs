//! What is explored: the rules of an architecture, the sites, how much happens, and which step is
//! left out.

use std::fmt;

/// How many sites there are.
pub const SITES: usize = 2;
/// How many cores there can be.
pub const CORES: usize = 3;
/// How many slots there can be.
pub const SLOTS: usize = 4;
/// The pieces of a site: the gate, and two behind it.
pub const PIECES: usize = 3;

/// Whose rules cores follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Aligned quadwords, instructions of any length, coherent instruction caches.
    X86_64,
    /// Aligned words, exchanged only among certain instructions; caches are maintained.
    AArch64,
}

/// In which order a core may see what a quadword has held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchOrder {
    /// In any, also backwards: weaker than any processor. What is right here is right there.
    Any,
    /// Never backwards. A failure here is one of real processors.
    Forwards,
}

/// What a core may fetch ahead of a stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// Only that to which an instruction leads that the core may see.
    Followed,
    /// Anything, at any time.
    Anywhere,
}

/// The kind of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Closed by a patchable jump: the first instruction lies in an aligned quadword.
    PatchableJump,
    /// Closed by a trap: five bytes, of which two are in another quadword.
    Trap,
    /// The same, with two instructions where the other has one.
    TrapBeforeTwo,
    /// A call whose distance lies in one quadword.
    Call,
}

/// What a transaction asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangeKind {
    /// The original code goes on in a stub: arming a site of code that may be running. Eventual.
    Arm,
    /// New code, in a fresh stub (of a call: another target, by a stub). Eventual.
    Patch,
    /// The original code. Immediate.
    Restore,
    /// The exit stub, for good. Immediate.
    Invalidate,
    /// What is in a stub comes into the site.
    Settle,
    /// The trap becomes a jump to the stub.
    SettleAsJump,
}

/// Every kind.
pub const ALL_CHANGES: &[ChangeKind] = &[
    ChangeKind::Arm,
    ChangeKind::Patch,
    ChangeKind::Restore,
    ChangeKind::Invalidate,
    ChangeKind::Settle,
    ChangeKind::SettleAsJump,
];

/// A step of the protocol, or a rule that it keeps, which is left out to see what fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Settling waits for no grace period.
    Wait,
    /// Settling waits with the lock, for as long as it takes.
    LockGivenBack,
    /// Settling opens the gate before what was there.
    Rewriting,
    /// Opening is not preceded by a serialization of all cores.
    SerializationBeforeOpening,
    /// What is behind the gate is rewritten without a serialization since it was closed.
    SerializationAfterClosing,
    /// Closing writes the whole quadword.
    PreservedBytes,
    /// Settled code may begin with an instruction that is shorter than the patchable jump.
    LongFirstInstruction,
    /// An unaligned jump is exchanged without a trap.
    TrapGate,
    /// A stub is freed when nothing branches to it any more.
    GracePeriodOfStubs,
    /// The epoch for which a stub waits begins without a serialization of all cores.
    SerializationBeforeEpoch,
    /// Reports from before the epoch count.
    ReportsSinceTheEpoch,
    /// A checkpoint counts for stubs with calls.
    QuiescenceForCalls,
    /// A stub is filled when the gate goes there already.
    StubBeforeGate,
    /// A trap is noted when it has been written.
    TrapNotedFirst,
    /// A trap is forgotten when its site is opened.
    TrapKept,
    /// The handler's table keeps the stub of a site that was opened.
    TrapFollowsOpening,
    /// An immediate change does not serialize the cores.
    ImmediateSerialization,
    /// A failed exchange leaves those before it as they are.
    RollBack,
    /// What a transaction has made that is rolled back is freed at once.
    RolledBackIsRetired,
    /// The same, only where no exchange was made, but a trap was noted.
    NotedIsRetired,
    /// A commit does not look whether a site has changed since it was prepared.
    StillCurrent,
    /// Settling goes on after the wait whatever has become of the site.
    StillClosed,
    /// A grace period goes on counting when the site was opened in between.
    OpeningEndsTheWait,
    /// A site is restored by one store, whatever is behind the gate.
    OriginalBehindTheGate,
    /// Caches are not maintained for a stub.
    MaintainedStub,
    /// Caches are not maintained for gates.
    MaintainedGate,
    /// Caches are not maintained for what is behind the gate.
    MaintainedTail,
    /// Settled code begins with any instruction.
    ExchangeableFirst,
}

/// What is explored.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whose rules.
    pub rules: Rules,
    /// What a core may see.
    pub order: FetchOrder,
    /// What a core may have fetched of stubs.
    pub prefetch: Prefetch,
    /// The sites.
    pub sites: [Gate; SITES],
    /// How many cores execute them.
    pub cores: usize,
    /// How many writers change them.
    pub writers: usize,
    /// How many changes they make, together.
    pub changes: u8,
    /// Which.
    pub kinds: &'static [ChangeKind],
    /// How many exchanges, or barriers, are refused at most.
    pub faults: u8,
    /// How many stubs there is memory for.
    pub slots: usize,
    /// Whether the stubs call.
    pub calls: bool,
    /// Whether all cores serialize once more when a trap has been replaced.
    pub serialization_after_opening: bool,
    /// Whether all cores serialize between filling a stub and the exchange.
    pub serialization_before_gate: bool,
    /// What is left out.
    pub left_out: Option<LeftOut>,
}

impl Config {
    /// Two cores, two sites of patchable jumps, two writers that make three changes of all kinds,
    /// on the weakest machine.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            order: FetchOrder::Any,
            prefetch: Prefetch::Followed,
            sites: [Gate::PatchableJump; SITES],
            cores: 2,
            writers: 2,
            changes: 3,
            kinds: ALL_CHANGES,
            faults: 0,
            slots: 3,
            calls: false,
            serialization_after_opening: false,
            serialization_before_gate: false,
            left_out: None,
        }
    }

    pub(crate) fn without(&self, step: LeftOut) -> bool {
        self.left_out == Some(step)
    }

    /// Whether the site is closed by a trap.
    pub(crate) fn traps(&self, site: usize) -> bool {
        matches!(self.sites[site], Gate::Trap | Gate::TrapBeforeTwo) && !self.without(LeftOut::TrapGate)
    }

    /// How many bytes a jump has.
    pub(crate) fn jump_len(&self) -> u8 {
        match self.rules {
            Rules::X86_64 => 5,
            Rules::AArch64 => 4,
        }
    }

    /// How many bytes a trap has.
    pub(crate) fn trap_len(&self) -> u8 {
        match self.rules {
            Rules::X86_64 => 1,
            Rules::AArch64 => 4,
        }
    }

    /// Where the pieces begin, and the last ends. The bytes of a call's quadword that are not its
    /// own are those of others.
    pub(crate) fn bounds(&self, site: usize) -> [u8; PIECES + 1] {
        match (self.rules, self.sites[site]) {
            (Rules::X86_64, Gate::PatchableJump) => [0, 5, 8, 16],
            (Rules::X86_64, Gate::Trap | Gate::TrapBeforeTwo) => [0, 1, 2, 5],
            (Rules::X86_64, Gate::Call) => [0, 5, 5, 5],
            (Rules::AArch64, Gate::Call) => [0, 4, 4, 4],
            (Rules::AArch64, _) => [0, 4, 8, 12],
        }
    }

    /// How many bytes a site has.
    pub(crate) fn len(&self, site: usize) -> u8 {
        self.bounds(site)[PIECES]
    }

    /// In which unit a piece lies: what is seen as a whole.
    pub(crate) fn unit(&self, piece: usize) -> usize {
        match self.rules {
            Rules::X86_64 => [0, 0, 1][piece],
            Rules::AArch64 => piece,
        }
    }

    /// The lengths of the instructions of some code in place. Boundaries differ from one to the
    /// next, and come again; instructions reach from one quadword into the next.
    pub(crate) fn layout(&self, site: usize, code: u8) -> &'static [u8] {
        let is_odd = code % 2 == 1;
        match (self.rules, self.sites[site]) {
            (Rules::X86_64, Gate::Call) => &[5],
            (Rules::AArch64, Gate::Call) => &[4],
            (Rules::AArch64, _) => &[4, 4, 4],
            (_, Gate::PatchableJump) if code == 0 => &[5, 3, 8],
            (_, Gate::PatchableJump) if is_odd && self.without(LeftOut::LongFirstInstruction) => &[3, 7, 6],
            (_, Gate::PatchableJump) if is_odd => &[5, 5, 6],
            (_, Gate::PatchableJump) => &[9, 7],
            (_, Gate::TrapBeforeTwo) if code == 0 => &[2, 3],
            (_, Gate::Trap) if code == 0 => &[5],
            _ if is_odd => &[2, 3],
            _ => &[5],
        }
    }

    /// Whether the first instruction of some code is one that AArch64 lets be exchanged: that of
    /// the original code is a nop, and others are made to begin with one.
    pub(crate) fn begins_exchangeable(&self, code: u8) -> bool {
        code == 0 || !self.without(LeftOut::ExchangeableFirst)
    }
}

/// What must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A core executes bytes of different code as one instruction, begins inside an instruction, or
    /// goes on from one code in another.
    Mixture,
    /// A core is in a stub whose memory has been freed, or holds another by now.
    StubMemory,
    /// A core begins code that is not permitted any more, or not yet.
    NotPermitted,
    /// A trap that is not in the handler's table.
    UnknownTrap,
    /// A core may execute anything: an instruction was exchanged that may not be.
    Unpredictable,
    /// A transaction has failed, and a site is not as it was.
    NotRolledBack,
    /// A settled site does not hold the code that is installed.
    NotInPlace,
    /// An invalidated site is no more.
    Revived,
    /// Whoever has the lock can do nothing.
    Stuck,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mixture => "a core executes a mixture of two codes",
            Self::StubMemory => "a core is in a stub whose memory is freed or used again",
            Self::NotPermitted => "a core begins code that may not begin any more",
            Self::UnknownTrap => "a core is at a trap that nobody knows",
            Self::Unpredictable => "a core fetches a word that was exchanged against the rules",
            Self::NotRolledBack => "a transaction has failed, and a site is not as it was",
            Self::NotInPlace => "a settled site does not hold its code",
            Self::Revived => "an invalidated site is changed again",
            Self::Stuck => "the holder of the lock waits for ever",
        })
    }
}
