//! The state of everything: the machine, what the engine knows of the sites, and its writers.

use std::fmt;

use crate::machine::{At, Content, Held, Machine, Piece};
use crate::rules::{ChangeKind, Config, Failure, Gate, LeftOut, SITES, SLOTS};

/// Where a closed site's gate goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Form {
    /// The site is open: its code is in place.
    InPlace,
    /// To a stub.
    Stub(u8),
    /// To the end of the site: the original code, out of place.
    End,
    /// To the exit stub.
    Exit,
}

/// What the trap handler's table has for a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Entry {
    /// Nothing.
    None,
    /// Continue there.
    To(Form),
    /// Execute the site again: it was opened meanwhile.
    Again,
}

/// What is behind a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Tail {
    /// All of that.
    Whole(Piece),
    /// It is being rewritten, or that has failed.
    Torn,
}

/// What is known of a site.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SiteState {
    /// The code that is installed, by its bit.
    pub(crate) installed: u8,
    pub(crate) form: Form,
    pub(crate) tail: Tail,
    pub(crate) entry: Entry,
    /// Whether its grace period has begun: every core has serialized since it was closed.
    pub(crate) is_stamped: bool,
    /// How many codes it has had.
    pub(crate) codes: u8,
    /// The codes that a core may begin, as bits.
    pub(crate) permitted: u8,
}

/// The life of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum SlotState {
    Free,
    /// Taken by a transaction, or a site goes there.
    Used,
    /// Nothing goes there any more.
    Retired,
    /// The same, and its epoch has begun.
    Stamped,
}

/// Where a writer is in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Phase {
    Idle,
    /// Prepared; it takes the lock next.
    Prepared,
    /// All cores serialize before the first exchange.
    BarrierBeforeGate,
    /// The trap of that site is noted next.
    Note(u8),
    /// The gate of that site is exchanged next.
    Exchange(u8),
    /// The rest of an unaligned jump is written next, where no trap is used.
    ExchangeRest(u8),
    /// That site is rolled back next.
    Undo(u8),
    /// What the failed transaction has made is retired next.
    Fail,
    /// All cores serialize, so that the change is immediate.
    BarrierAfterChange,
    /// The states of the sites are changed next.
    Record,
    /// All cores serialize, so that the wait begins.
    BarrierBeforeWait,
    /// It waits, without the lock.
    Waiting,
    /// That piece of that site is rewritten next.
    Rewrite(u8, u8),
    /// All cores serialize before the sites are opened.
    BarrierBeforeOpening,
    /// That site is opened next.
    Open(u8),
    /// All cores serialize once more.
    BarrierAfterOpening,
    /// What the sites have become is recorded next.
    Settled,
    /// All cores serialize, so that an epoch can begin: reclaiming.
    BarrierBeforeEpoch,
}

/// A writer, and its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Writer {
    pub(crate) phase: Phase,
    pub(crate) kind: ChangeKind,
    pub(crate) has_lock: bool,
    /// Its sites, as bits.
    pub(crate) sites: u8,
    /// The stubs that it has made.
    pub(crate) slots: [u8; SITES],
    /// The code in them.
    pub(crate) codes: [u8; SITES],
    /// Another has changed one of its sites since it was prepared.
    pub(crate) is_stale: bool,
    /// What was there when it took the lock.
    pub(crate) old: [(Piece, Entry); SITES],
    /// Its sites whose gate has been exchanged, or that have been opened.
    pub(crate) done: u8,
    /// Its sites whose trap has been noted.
    pub(crate) noted: u8,
}

impl Writer {
    pub(crate) const IDLE: Self = Self {
        phase: Phase::Idle,
        kind: ChangeKind::Patch,
        has_lock: false,
        sites: 0,
        slots: [0; SITES],
        codes: [0; SITES],
        is_stale: false,
        old: [(Piece::code(0), Entry::None); SITES],
        done: 0,
        noted: 0,
    };

    pub(crate) fn is_settling(&self) -> bool {
        matches!(self.kind, ChangeKind::Settle | ChangeKind::SettleAsJump)
    }

    /// Whether its change needs stubs.
    pub(crate) fn makes_stubs(&self) -> bool {
        matches!(self.kind, ChangeKind::Arm | ChangeKind::Patch)
    }

    /// The first of its sites from that one on.
    pub(crate) fn next_site(&self, from: usize) -> Option<u8> {
        each(self.sites).find(|site| *site >= from).map(|site| site as u8)
    }

    /// Whether it is in the middle of a barrier.
    pub(crate) fn is_in_barrier(&self) -> bool {
        matches!(
            self.phase,
            Phase::BarrierBeforeGate
                | Phase::BarrierAfterChange
                | Phase::BarrierBeforeWait
                | Phase::BarrierBeforeOpening
                | Phase::BarrierAfterOpening
                | Phase::BarrierBeforeEpoch
        )
    }
}

/// The sites that are bits of a number.
pub(crate) fn each(sites: u8) -> impl DoubleEndedIterator<Item = usize> {
    (0..SITES).filter(move |site| sites & 1 << site != 0)
}

/// How many writers there are: two, and whoever reclaims.
pub(crate) const WRITERS: usize = 3;
/// Whoever reclaims.
pub(crate) const RECLAIMER: usize = 2;

/// Everything.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) machine: Machine,
    pub(crate) sites: [SiteState; SITES],
    pub(crate) slots: [SlotState; SLOTS],
    pub(crate) writers: [Writer; WRITERS],
    pub(crate) changes_left: u8,
    pub(crate) faults_left: u8,
}

/// The bit of an invalidated site's code.
pub(crate) const INVALID: u8 = 7;

impl State {
    pub(crate) fn new(config: &Config) -> Self {
        let site = SiteState {
            installed: 0,
            form: Form::InPlace,
            tail: Tail::Whole(Piece::code(0)),
            entry: Entry::None,
            is_stamped: false,
            codes: 1,
            permitted: 1,
        };
        Self {
            machine: Machine::new(),
            sites: [site; SITES],
            slots: [SlotState::Free; SLOTS],
            writers: [Writer::IDLE; WRITERS],
            changes_left: config.changes,
            faults_left: config.faults,
        }
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.writers.iter().any(|writer| writer.has_lock)
    }

    /// The code to which a gate goes.
    pub(crate) fn code_of(&self, form: Form, site: usize) -> u8 {
        match form {
            Form::Stub(slot) => match self.machine.slots[usize::from(slot)].code() {
                Some((_, code)) => code,
                None => self.sites[site].installed,
            },
            Form::End => 0,
            Form::Exit => INVALID,
            Form::InPlace => self.sites[site].installed,
        }
    }

    // ---- cores ----

    /// Whether a core may begin that code of a site now.
    pub(crate) fn begin(&self, site: usize, code: u8) -> Result<(), Failure> {
        match self.sites[site].permitted & 1 << code {
            0 => Err(Failure::NotPermitted),
            _ => Ok(()),
        }
    }

    /// Whether every core is in memory that holds what it executes.
    pub(crate) fn check(&self, config: &Config) -> Result<(), Failure> {
        for core in &self.machine.cores[..config.cores] {
            if let At::Stub { slot, site, code, .. } | At::Callee { slot, site, code } = core.at {
                let slot = usize::from(slot);
                if self.machine.slots[slot] != Content::of(site, code) {
                    return Err(Failure::StubMemory);
                }
            }
        }
        Ok(())
    }

    /// The grace period of a site begins: reports count from now on.
    pub(crate) fn stamp_site(&mut self, config: &Config, site: usize) {
        if !self.sites[site].is_stamped && !config.without(LeftOut::ReportsSinceTheEpoch) {
            for core in &mut self.machine.cores {
                core.reported_sites &= !(1 << site);
            }
        }
        self.sites[site].is_stamped = true;
    }

    /// A site was opened: threads may be behind its gate again.
    pub(crate) fn void_stamp(&mut self, config: &Config, site: usize) {
        if config.without(LeftOut::OpeningEndsTheWait) {
            return;
        }
        self.sites[site].is_stamped = false;
        for core in &mut self.machine.cores {
            core.reported_sites &= !(1 << site);
        }
    }

    pub(crate) fn has_reported_site(&self, config: &Config, site: usize) -> bool {
        let cores = &self.machine.cores[..config.cores];
        cores.iter().all(|core| core.reported_sites & 1 << site != 0)
    }

    /// Whether a thread could be behind the gate of a site when it is closed.
    pub(crate) fn needs_wait(&self, config: &Config, site: usize) -> bool {
        match self.sites[site].tail {
            Tail::Whole(piece) => match piece.is() {
                Held::Code(code) => config.layout(site, code).len() > 1,
                _ => false,
            },
            Tail::Torn => true,
        }
    }

    // ---- slots ----

    pub(crate) fn free_slot(&self, config: &Config) -> Option<usize> {
        (0..config.slots).find(|slot| self.slots[*slot] == SlotState::Free)
    }

    /// Frees a slot: it holds traps then.
    pub(crate) fn free(&mut self, config: &Config, slot: usize) {
        self.slots[slot] = SlotState::Free;
        self.machine.store_slot(config, slot, Content::FREE);
        for core in &mut self.machine.cores {
            core.reported_slots &= !(1 << slot);
        }
    }

    /// Nothing goes to a slot any more.
    pub(crate) fn retire(&mut self, config: &Config, slot: usize) {
        match config.without(LeftOut::GracePeriodOfStubs) {
            true => self.free(config, slot),
            false => self.slots[slot] = SlotState::Retired,
        }
    }

    /// The epoch of every retired slot begins.
    pub(crate) fn stamp_slots(&mut self, config: &Config) {
        for slot in 0..config.slots {
            if self.slots[slot] == SlotState::Retired {
                self.slots[slot] = SlotState::Stamped;
                if !config.without(LeftOut::ReportsSinceTheEpoch) {
                    for core in &mut self.machine.cores {
                        core.reported_slots &= !(1 << slot);
                    }
                }
            }
        }
    }

    pub(crate) fn has_passed(&self, config: &Config, slot: usize) -> bool {
        let cores = &self.machine.cores[..config.cores];
        self.slots[slot] == SlotState::Stamped
            && cores.iter().all(|core| core.reported_slots & 1 << slot != 0)
    }

    /// One line for those who read a trace: the pieces of each site, where the handler's table
    /// sends a thread, what is in the stubs, and the cores that are not outside.
    pub(crate) fn describe(&self, config: &Config) -> String {
        let mut text = Vec::new();
        for site in 0..SITES {
            let [gate, behind, last] = self.machine.sites[site];
            text.push(match config.sites[site] {
                Gate::Call => format!("[{gate}]"),
                _ => format!("[{gate} {behind} {last}]"),
            });
            match self.sites[site].entry {
                Entry::None => {}
                Entry::Again => text.push("(again)".into()),
                Entry::To(Form::Stub(slot)) => text.push(format!("(s{slot})")),
                Entry::To(form) => text.push(format!("({form:?})")),
            }
        }
        for slot in 0..config.slots {
            if self.machine.slots[slot] != Content::FREE {
                text.push(format!("s{slot}={}", self.machine.slots[slot]));
            }
        }
        for (number, core) in self.machine.cores[..config.cores].iter().enumerate() {
            let at = match core.at {
                At::Outside => continue,
                At::Site { site, code, offset } => format!("site {site}+{offset} in c{code}"),
                At::Stub { slot, .. } => format!("s{slot}"),
                At::Callee { slot, .. } => format!("callee of s{slot}"),
                At::Handler { site } => format!("handler for site {site}"),
            };
            text.push(format!("core {number}: {at}"));
        }
        text.join(" ")
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelEvent {
    /// A core reports that it is in no site and no stub.
    Reports(usize),
    /// A core in a callee reports a checkpoint.
    ReportsCheckpoint(usize),
    /// A core executes the instruction at an offset of a site.
    Executes { core: usize, site: usize, offset: u8 },
    /// A core executes an instruction of a stub.
    InStub { core: usize, slot: u8 },
    /// A core returns from what a stub has called.
    Returns { core: usize, slot: u8 },
    /// The handler looks up where a core goes on.
    Handler { core: usize, site: u8 },
    /// A core serializes, by the barrier that is under way.
    Serializes(usize),
    /// A writer makes its next step.
    Writer { writer: usize, what: &'static str, kind: Option<ChangeKind>, site: u8 },
}

/// An event, and what it leads to.
pub(crate) type Step = (ModelEvent, Result<State, Failure>);

/// The site of an event that has none, or several.
pub(crate) const NO_SITE: u8 = u8::MAX;

impl fmt::Display for ModelEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reports(core) => write!(f, "core {core}: reports"),
            Self::ReportsCheckpoint(core) => write!(f, "core {core}: reports a checkpoint"),
            Self::Executes { core, site, offset } => {
                write!(f, "core {core}: executes at site {site}+{offset}")
            }
            Self::InStub { core, slot } => write!(f, "core {core}: executes in stub s{slot}"),
            Self::Returns { core, slot } => write!(f, "core {core}: returns into stub s{slot}"),
            Self::Handler { core, site } => write!(f, "core {core}: its handler looks up site {site}"),
            Self::Serializes(core) => write!(f, "core {core}: serializes"),
            Self::Writer {
                writer,
                what,
                kind,
                site,
            } => {
                match *writer {
                    RECLAIMER => f.write_str("reclaiming: ")?,
                    writer => write!(f, "writer {writer}: ")?,
                }
                if let Some(kind) = kind {
                    write!(f, "{kind:?}: ")?;
                }
                f.write_str(what)?;
                match *site {
                    NO_SITE => Ok(()),
                    site => write!(f, " of site {site}"),
                }
            }
        }
    }
}
