//! The model: everything that can happen next, and what must hold then.

use crate::explore::{EndState, Explorable, Successor};
use crate::machine::Content;
use crate::rules::{CORES, Config, Failure};
use crate::state::{ModelEvent, Phase, SlotState, State, WRITERS, Writer};
use crate::{readers, writers};

/// A configuration of the protocol, to be explored.
#[derive(Clone, Debug)]
pub struct LiveModel {
    config: Config,
}

impl LiveModel {
    /// A model of that.
    ///
    /// # Panics
    /// For more cores or stubs than there is room for in a state.
    #[must_use]
    pub fn new(config: Config) -> Self {
        assert!(config.cores <= CORES && config.writers < WRITERS);
        assert!(config.slots <= crate::rules::SLOTS);
        Self { config }
    }
}

impl Explorable for LiveModel {
    type State = State;
    type Event = ModelEvent;
    type Failure = Failure;

    fn initial(&self) -> State {
        State::new(&self.config)
    }

    fn successors(&self, state: &State, into: &mut Vec<Successor<Self>>) {
        let config = &self.config;
        for number in 0..WRITERS {
            let before = into.len();
            writers::successors(config, state, number, into);
            let writer = &state.writers[number];
            // Nobody who has the lock waits for a thread.
            if writer.has_lock && !writer.is_in_barrier() && into.len() == before {
                let what = "has the lock, and waits";
                let (kind, site) = (Some(writer.kind), crate::state::NO_SITE);
                let event = ModelEvent::Writer {
                    writer: number,
                    what,
                    kind,
                    site,
                };
                into.push((event, Err(Failure::Stuck)));
            }
        }
        for core in 0..config.cores {
            writers::serialize(config, state, core, into);
            readers::successors(config, state, core, into);
        }
        for (_, next) in into.iter_mut() {
            if let Ok(state) = next {
                state.machine.drop_unfollowed(config);
                if let Err(failure) = state.check(config) {
                    *next = Err(failure);
                }
            }
        }
    }

    /// Cores are interchangeable, and so are writers.
    fn canonical(&self, state: &State) -> State {
        let mut state = *state;
        state.machine.cores[..self.config.cores].sort_unstable();
        state.writers[..2].sort_unstable();
        state
    }

    fn is_quiet(&self, state: &State) -> Option<EndState> {
        let is_idle = |writer: &Writer| writer.phase == Phase::Idle;
        if state.changes_left != 0 || !state.writers.iter().all(is_idle) {
            return None;
        }
        let is_kept = |slot: &SlotState| matches!(slot, SlotState::Retired | SlotState::Stamped);
        let waits = state.slots.iter().any(is_kept) || state.sites.iter().any(|site| site.is_stamped);
        debug_assert!(
            state
                .slots
                .iter()
                .zip(&state.machine.slots)
                .all(|(slot, content)| { *slot != SlotState::Free || *content == Content::FREE })
        );
        Some(if waits { EndState::Waits } else { EndState::Done })
    }

    fn kind_of(&self, event: &ModelEvent) -> &'static str {
        match event {
            ModelEvent::Reports(_) => "a core reports",
            ModelEvent::ReportsCheckpoint(_) => "a core reports a checkpoint",
            ModelEvent::Executes { .. } => "a core executes at a site",
            ModelEvent::InStub { .. } => "a core executes in a stub",
            ModelEvent::Returns { .. } => "a core returns into a stub",
            ModelEvent::Handler { .. } => "a handler looks up a trap",
            ModelEvent::Serializes(_) => "a core serializes",
            ModelEvent::Writer { what, .. } => what,
        }
    }

    fn describe(&self, state: &State) -> String {
        state.describe(&self.config)
    }
}
