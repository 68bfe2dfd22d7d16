//! That nothing is lost where cores and writers are taken for interchangeable.

use patchpoint_live_model::*;

/// The same model, in which each core and each writer is itself.
struct WithoutSymmetry(LiveModel);

impl Explorable for WithoutSymmetry {
    type State = <LiveModel as Explorable>::State;
    type Event = <LiveModel as Explorable>::Event;
    type Failure = Failure;

    fn initial(&self) -> Self::State {
        self.0.initial()
    }

    fn successors(&self, state: &Self::State, into: &mut Vec<Successor<Self>>) {
        self.0.successors(state, into);
    }

    fn canonical(&self, state: &Self::State) -> Self::State {
        *state
    }

    fn is_quiet(&self, state: &Self::State) -> Option<EndState> {
        self.0.is_quiet(state)
    }

    fn kind_of(&self, event: &Self::Event) -> &'static str {
        self.0.kind_of(event)
    }

    fn describe(&self, state: &Self::State) -> String {
        self.0.describe(state)
    }
}

/// Two cores and two writers can be exchanged in four ways.
#[test]
fn without_symmetry_the_same_is_found() {
    for rules in [Rules::X86_64, Rules::AArch64] {
        let config = Config {
            changes: 2,
            faults: 1,
            ..Config::new(rules)
        };
        let with = explore(&LiveModel::new(config.clone()));
        let without = explore(&WithoutSymmetry(LiveModel::new(config)));
        println!("with symmetry: {with}\nwithout: {without}");
        assert!(with.failure.is_none() && without.failure.is_none());
        assert!(with.states < without.states && without.states <= 4 * with.states);
        assert!(with.events.keys().eq(without.events.keys()));
    }
}

/// And a failure is found as soon.
#[test]
fn without_symmetry_failures_are_as_near() {
    for left_out in [
        LeftOut::GracePeriodOfStubs,
        LeftOut::SerializationBeforeEpoch,
        LeftOut::StillCurrent,
    ] {
        let config = Config {
            changes: 2,
            kinds: &[ChangeKind::Patch, ChangeKind::Invalidate],
            left_out: Some(left_out),
            ..Config::new(Rules::X86_64)
        };
        let with = explore(&LiveModel::new(config.clone())).failure.unwrap();
        let without = explore(&WithoutSymmetry(LiveModel::new(config))).failure.unwrap();
        assert_eq!(
            (with.failure, with.events),
            (without.failure, without.events),
            "{left_out:?}"
        );
    }
}
