//! Exploring every state of a model, breadth first.
//!
//! A state is known by a hash of 128 bits of its canonical form; the states themselves are kept
//! only until their successors have been made. The way to a violation is found again by following
//! the hashes from the initial state, and is a shortest one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::{self, Write};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// What can be explored.
pub trait Explorable {
    /// A state of everything.
    type State: Copy + Hash;
    /// What leads from one to another.
    type Event: Copy + fmt::Display;
    /// What must not be.
    type Failure: Copy + fmt::Debug + fmt::Display + PartialEq;

    /// Where everything begins.
    fn initial(&self) -> Self::State;
    /// All that can happen next.
    fn successors(&self, state: &Self::State, into: &mut Vec<Successor<Self>>);
    /// The same state, with what is interchangeable in a fixed order.
    fn canonical(&self, state: &Self::State) -> Self::State;
    /// Whether nobody has anything to do any more, but for cores that go on executing.
    fn is_quiet(&self, state: &Self::State) -> Option<EndState>;
    /// What kind of event it is, to count them.
    fn kind_of(&self, event: &Self::Event) -> &'static str;
    /// One line about a state, for those who read a trace.
    fn describe(&self, state: &Self::State) -> String;
}

/// An event, and the state or the failure that it leads to.
pub type Successor<M> = (
    <M as Explorable>::Event,
    Result<<M as Explorable>::State, <M as Explorable>::Failure>,
);

/// How it can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndState {
    /// Every change has been made, and nothing waits.
    Done,
    /// The same, but a site is closed, or a stub retired, for a core that has not reported.
    Waits,
}

/// What an exploration has found.
#[derive(Clone, Debug)]
pub struct Exploration<F> {
    /// How many states there are.
    pub states: usize,
    /// How many events lead from one to another.
    pub transitions: usize,
    /// Of the longest of the shortest ways to a state.
    pub depth: usize,
    /// How many states are the end of every change, with nothing that waits.
    pub done: usize,
    /// How many are that with something that waits for a core.
    pub waiting: usize,
    /// How often each kind of event leads from a state.
    pub events: BTreeMap<&'static str, usize>,
    /// The first failure.
    pub failure: Option<Counterexample<F>>,
}

/// A shortest way to a failure.
#[derive(Clone, Debug)]
pub struct Counterexample<F> {
    /// What fails.
    pub failure: F,
    /// What happens, one event a line, with what the sites hold then.
    pub trace: String,
    /// How many events there are.
    pub events: usize,
}

impl<F> fmt::Display for Exploration<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} states, {} transitions, depth {}, {} ends of which {} wait for a core",
            self.states,
            self.transitions,
            self.depth,
            self.done + self.waiting,
            self.waiting
        )
    }
}

/// Explores all states, or up to the first failure.
///
/// # Panics
/// If there are more than 2^32 states.
pub fn explore<M: Explorable>(model: &M) -> Exploration<M::Failure> {
    let mut found = Exploration {
        states: 0,
        transitions: 0,
        depth: 0,
        done: 0,
        waiting: 0,
        events: BTreeMap::new(),
        failure: None,
    };
    let mut known: HashMap<u128, u32, BuildHasherDefault<Taken>> = HashMap::default();
    // Of each state, its hash, the number of the state before it and its depth.
    let mut nodes: Vec<(u128, u32, u32)> = Vec::new();
    let mut frontier = VecDeque::new();
    let initial = model.canonical(&model.initial());
    let fingerprint = hash(&initial);
    known.insert(fingerprint, 0);
    nodes.push((fingerprint, 0, 0));
    frontier.push_back(initial);
    let mut successors = Vec::new();
    let mut at = 0;
    while let Some(state) = frontier.pop_front() {
        let depth = nodes[at].2;
        found.depth = depth as usize;
        match model.is_quiet(&state) {
            Some(EndState::Done) => found.done += 1,
            Some(EndState::Waits) => found.waiting += 1,
            None => {}
        }
        successors.clear();
        model.successors(&state, &mut successors);
        for (event, next) in &successors {
            found.transitions += 1;
            *found.events.entry(model.kind_of(event)).or_default() += 1;
            let next = match next {
                Ok(next) => model.canonical(next),
                Err(failure) => {
                    found.states = nodes.len();
                    found.failure = Some(trace(model, &nodes, at, (event, *failure)));
                    return found;
                }
            };
            let fingerprint = hash(&next);
            let number = u32::try_from(nodes.len()).expect("there are fewer than 2^32 states");
            known.entry(fingerprint).or_insert_with(|| {
                nodes.push((fingerprint, at as u32, depth + 1));
                frontier.push_back(next);
                number
            });
        }
        at += 1;
    }
    found.states = nodes.len();
    found
}

/// Finds the way to a state again. It is walked without bringing states into canonical form, so
/// that a core keeps its number.
fn trace<M: Explorable>(
    model: &M,
    nodes: &[(u128, u32, u32)],
    mut at: usize,
    (last, failure): (&M::Event, M::Failure),
) -> Counterexample<M::Failure> {
    let mut way = Vec::new();
    while at != 0 {
        way.push(nodes[at].0);
        at = nodes[at].1 as usize;
    }
    way.reverse();
    let mut state = model.initial();
    let mut text = String::new();
    let mut successors = Vec::new();
    for fingerprint in &way {
        successors.clear();
        model.successors(&state, &mut successors);
        let next = successors.iter().find_map(|(event, next)| {
            let next = next.ok()?;
            (hash(&model.canonical(&next)) == *fingerprint).then_some((event, next))
        });
        let (event, next) = next.expect("the successors of a state are always the same");
        state = next;
        let event = event.to_string();
        writeln!(text, "  {event:<62} {}", model.describe(&state)).expect("a string can be written");
    }
    // The last event is named by the cores of the canonical state; found again, by those of this
    // one.
    successors.clear();
    model.successors(&state, &mut successors);
    let again = successors.iter().find(|(_, next)| next.err() == Some(failure));
    let last = again.map_or_else(|| last.to_string(), |(event, _)| event.to_string());
    writeln!(text, "  {last}\n  FAILS: {failure}").expect("a string can be written");
    Counterexample {
        failure,
        trace: text,
        events: way.len() + 1,
    }
}

/// Two hashes of 64 bits.
fn hash<T: Hash>(state: &T) -> u128 {
    let mut hasher = Hasher128 {
        low: 0x9e37_79b9_7f4a_7c15,
        high: 0xc2b2_ae3d_27d4_eb4f,
        word: 0,
        bits: 0,
    };
    state.hash(&mut hasher);
    hasher.write_u64(u64::MAX);
    let (low, high) = (mix(hasher.low), mix(hasher.high ^ hasher.low));
    u128::from(high) << 64 | u128::from(low)
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let value = (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ (value >> 32)
}

/// Takes eight bytes at a time: a state has hundreds, most of them written one by one.
struct Hasher128 {
    low: u64,
    high: u64,
    /// Bytes that are not hashed yet.
    word: u64,
    bits: u32,
}

impl Hasher128 {
    #[inline]
    fn byte(&mut self, byte: u8) {
        self.word |= u64::from(byte) << self.bits;
        self.bits += 8;
        if self.bits == u64::BITS {
            self.take();
        }
    }

    #[inline]
    fn take(&mut self) {
        let wide = u128::from(self.low ^ self.word) * 0xe703_7ed1_a0b4_28db_u128;
        self.low = (wide as u64) ^ ((wide >> 64) as u64) ^ 0x8ebc_6af0_9c88_c6e3;
        self.high = (self.high.rotate_left(23) ^ self.word).wrapping_mul(0x589b_3ef5_2a09_2f6d);
        (self.word, self.bits) = (0, 0);
    }
}

impl Hasher for Hasher128 {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.byte(*byte));
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.byte(value);
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        // What was begun is another word: values of a type always come in the same order.
        if self.bits != 0 {
            self.take();
        }
        self.word = value;
        self.take();
    }

    /// Which variant it is.
    #[inline]
    fn write_isize(&mut self, value: isize) {
        self.byte(u8::try_from(value).expect("no type has so many variants"));
    }

    /// How long an array is.
    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.byte(u8::try_from(value).expect("arrays are short"));
    }

    fn finish(&self) -> u64 {
        self.low ^ self.high
    }
}

/// What is a hash already.
#[derive(Default)]
struct Taken(u64);

impl Hasher for Taken {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are hashes of 128 bits");
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two counters up to 3, which are interchangeable, and must not both be 3.
    struct Counters {
        limit: u8,
    }

    impl Explorable for Counters {
        type State = [u8; 2];
        type Event = usize;
        type Failure = u8;

        fn initial(&self) -> [u8; 2] {
            [0; 2]
        }

        fn successors(&self, state: &[u8; 2], into: &mut Vec<Successor<Self>>) {
            for counter in 0..2 {
                let mut next = *state;
                next[counter] += 1;
                if next[counter] <= 3 {
                    let fails = next.iter().sum::<u8>() == self.limit;
                    into.push((counter, if fails { Err(self.limit) } else { Ok(next) }));
                }
            }
        }

        fn canonical(&self, state: &[u8; 2]) -> [u8; 2] {
            let mut state = *state;
            state.sort_unstable();
            state
        }

        fn is_quiet(&self, state: &[u8; 2]) -> Option<EndState> {
            (*state == [3, 3]).then_some(EndState::Done)
        }

        fn kind_of(&self, _: &usize) -> &'static str {
            "counts"
        }

        fn describe(&self, state: &[u8; 2]) -> String {
            format!("{state:?}")
        }
    }

    #[test]
    fn every_state_is_found_once() {
        let found = explore(&Counters { limit: 100 });
        assert_eq!((found.states, found.done, found.depth), (10, 1, 6), "{found}");
        assert!(found.failure.is_none() && found.events["counts"] == found.transitions);
    }

    #[test]
    fn the_way_to_a_failure_is_a_shortest_one() {
        let failure = explore(&Counters { limit: 5 }).failure.unwrap();
        assert_eq!((failure.failure, failure.events), (5, 5));
        assert_eq!(failure.trace.lines().count(), 6, "{}", failure.trace);
    }
}
