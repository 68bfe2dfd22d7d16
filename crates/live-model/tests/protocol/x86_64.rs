//! By the rules of x86-64.

use crate::{holds, left_out};
use ChangeKind::{Arm, Invalidate, Patch, Restore, Settle, SettleAsJump};
use patchpoint_live_model::*;

/// What is explored if nothing else is said.
fn x86_64() -> Config {
    Config::new(Rules::X86_64)
}

/// One writer, and as little else as a failure needs, on processors as they are: a failure that
/// needs a core to see older bytes after newer ones would be none of theirs.
fn small(sites: [Gate; SITES], kinds: &'static [ChangeKind], changes: u8) -> Config {
    Config {
        order: FetchOrder::Forwards,
        sites,
        kinds,
        changes,
        writers: 1,
        ..x86_64()
    }
}

const JUMPS: [Gate; SITES] = [Gate::PatchableJump; SITES];
const TRAPS: [Gate; SITES] = [Gate::Trap; SITES];
const JUMP_AND_TRAP: [Gate; SITES] = [Gate::PatchableJump, Gate::Trap];

// ---- what holds ----

/// And everything that can happen does: no step is only modelled.
#[test]
fn sites_of_patchable_jumps() {
    let found = holds("two patchable jumps", x86_64());
    for event in [
        "a core reports",
        "a core executes at a site",
        "a core executes in a stub",
        "a core serializes",
        "prepares the change",
        "takes the lock",
        "exchanges the gate",
        "records the change",
        "finds that the wait is over",
        "gives up: its sites stay closed",
        "finds its sites changed",
        "rewrites behind the gate",
        "opens the gate",
        "records what has settled",
        "serializes all cores for an epoch",
        "frees a stub",
    ] {
        assert!(
            found.events.get(event).is_some_and(|times| *times > 0),
            "{event}: {:#?}",
            found.events
        );
    }
    // Ends in which a site is closed, or a stub retired, for a core that does not report.
    assert!(found.done > 0 && found.waiting > 0, "{found}");
}

#[test]
fn a_patchable_jump_and_a_trap() {
    let found = holds(
        "a patchable jump and a trap",
        Config {
            sites: JUMP_AND_TRAP,
            ..x86_64()
        },
    );
    assert!(found.events["a handler looks up a trap"] > 0 && found.events["notes the trap"] > 0);
}

#[test]
fn traps_before_one_instruction_and_before_two() {
    let sites = [Gate::Trap, Gate::TrapBeforeTwo];
    holds("two traps", Config { sites, ..x86_64() });
}

#[test]
fn a_call_and_stubs_that_call() {
    let sites = [Gate::PatchableJump, Gate::Call];
    let kinds = &[Patch, Restore, Settle];
    let found = holds(
        "a patchable jump and a call, with stubs that call",
        Config {
            sites,
            kinds,
            calls: true,
            ..x86_64()
        },
    );
    assert!(found.events["a core returns into a stub"] > 0);
}

#[test]
fn refused_exchanges() {
    for sites in [JUMPS, JUMP_AND_TRAP] {
        let kinds = &[Patch, Restore, Settle];
        let config = Config {
            sites,
            kinds,
            faults: 1,
            writers: 1,
            ..x86_64()
        };
        let found = holds("an exchange is refused", config);
        for event in [
            "is refused the exchange",
            "finds the change refused",
            "is refused the rewriting",
            "is refused the opening",
            "rolls back the gate",
            "retires what it made",
        ] {
            assert!(found.events.contains_key(event), "{event}");
        }
    }
}

/// Settled code is closed, and what is in place is rewritten, while threads are in it.
#[test]
fn settled_again() {
    let kinds = &[Patch, Settle];
    for (cores, sites) in [(1, JUMPS), (1, [Gate::TrapBeforeTwo; SITES])] {
        holds(
            "settled twice",
            Config {
                sites,
                kinds,
                cores,
                changes: 4,
                writers: 1,
                ..x86_64()
            },
        );
    }
}

/// Nothing is wrong with a core that goes on seeing the trap when a site has been opened: the table
/// has the site for as long as its module is there.
#[test]
fn a_barrier_after_opening_changes_nothing() {
    for serialization_after_opening in [false, true] {
        let (kinds, changes) = (&[Patch, Settle, SettleAsJump], 3);
        let small = Config {
            sites: TRAPS,
            kinds,
            changes,
            writers: 1,
            ..x86_64()
        };
        holds(
            "a trap, opened",
            Config {
                serialization_after_opening,
                ..small
            },
        );
    }
}

/// If a core could have fetched stubs to which nothing has led it, it would have to serialize
/// between the filling of a stub and the exchange.
#[test]
fn where_anything_can_have_been_fetched_stubs_need_a_barrier() {
    let prefetch = Prefetch::Anywhere;
    let config = Config {
        prefetch,
        changes: 2,
        sites: JUMP_AND_TRAP,
        ..x86_64()
    };
    let found = explore(&LiveModel::new(config.clone()));
    assert_eq!(found.failure.unwrap().failure, Failure::StubMemory);
    let serialization_before_gate = true;
    holds(
        "anything can have been fetched",
        Config {
            serialization_before_gate,
            ..config
        },
    );
}

// ---- what fails ----

left_out! {
    without_the_wait: Wait, small(JUMPS, &[Patch, Settle], 2), Mixture;
    without_the_wait_behind_a_trap: Wait, small([Gate::TrapBeforeTwo; 2], &[Patch, Settle], 2), Mixture;
    without_the_wait_for_code_that_was_running: Wait, small([Gate::TrapBeforeTwo; 2], &[Arm, SettleAsJump], 2), Mixture;
    with_a_wait_that_keeps_the_lock: LockGivenBack, small(JUMPS, &[Patch, Settle], 2), Stuck;
    without_rewriting: Rewriting, small(JUMPS, &[Patch, Settle], 2), NotInPlace;
    without_serialization_before_opening: SerializationBeforeOpening, small(JUMPS, &[Patch, Settle], 2), Mixture;
    without_serialization_before_the_first_byte:
        SerializationBeforeOpening, small(TRAPS, &[Patch, SettleAsJump], 2), Mixture;
    without_serialization_after_the_jump: SerializationAfterClosing, small(JUMPS, &[Patch, Settle], 2), Mixture;
    without_serialization_after_the_trap:
        SerializationAfterClosing, small(TRAPS, &[Patch, SettleAsJump], 2), Mixture;
    without_preserved_bytes: PreservedBytes, small(JUMPS, &[Patch], 1), Mixture;
    with_a_short_first_instruction: LongFirstInstruction, small(JUMPS, &[Patch, Settle], 3), Mixture;
    without_a_trap_where_a_jump_is_unaligned: TrapGate, small(TRAPS, &[Patch], 1), Mixture;
    without_a_grace_period_for_stubs: GracePeriodOfStubs, small(JUMPS, &[Patch], 2), StubMemory;
    without_serialization_before_the_epoch: SerializationBeforeEpoch, small(JUMPS, &[Patch], 2), StubMemory;
    with_reports_from_before_the_retirement: ReportsSinceTheEpoch, small(JUMPS, &[Patch], 2), StubMemory;
    with_reports_from_before_the_wait: ReportsSinceTheEpoch, small(JUMPS, &[Patch, Settle], 2), Mixture;
    with_checkpoints_for_stubs_that_call:
        QuiescenceForCalls, Config { calls: true, ..small(JUMPS, &[Patch], 2) }, StubMemory;
    with_a_stub_that_is_filled_after_the_exchange: StubBeforeGate, small(JUMPS, &[Patch], 1), StubMemory;
    with_a_stub_that_is_filled_after_the_trap: StubBeforeGate, small(TRAPS, &[Patch], 1), StubMemory;
    with_a_trap_that_is_noted_late: TrapNotedFirst, small(TRAPS, &[Patch], 1), UnknownTrap;
    with_a_trap_that_is_forgotten_at_opening: TrapKept, small(TRAPS, &[Patch, Settle], 2), UnknownTrap;
    with_a_trap_that_goes_to_the_old_stub_for_ever:
        TrapFollowsOpening, small(TRAPS, &[Patch, Restore], 2), NotPermitted;
    without_the_barrier_of_an_invalidation:
        ImmediateSerialization, small(JUMPS, &[Invalidate], 1), NotPermitted;
    without_the_barrier_of_an_invalidation_by_a_trap:
        ImmediateSerialization, small(TRAPS, &[Invalidate], 1), NotPermitted;
    without_roll_back: RollBack, Config { faults: 1, ..small(JUMPS, &[Patch], 1) }, NotRolledBack;
    with_rolled_back_stubs_freed:
        RolledBackIsRetired, Config { faults: 1, ..small(JUMPS, &[Patch], 1) }, StubMemory;
    with_stubs_freed_of_traps_that_were_only_noted:
        NotedIsRetired, Config { faults: 1, ..small(TRAPS, &[Patch], 2) }, StubMemory;
    without_a_look_at_what_has_changed:
        StillCurrent, Config { writers: 2, ..small(JUMPS, &[Patch, Invalidate], 2) }, Revived;
    without_a_look_after_the_wait:
        StillClosed, Config { writers: 2, ..small(JUMPS, &[Patch, Restore, Settle], 3) }, Mixture;
    with_a_wait_from_before_an_opening:
        OpeningEndsTheWait, Config { writers: 2, cores: 1, ..small(JUMPS, &[Patch, Restore, Settle], 4) }, Mixture;
    with_the_original_over_other_code:
        OriginalBehindTheGate, small(JUMPS, &[Patch, Settle, Restore], 3), Mixture;
}

// ---- more of it ----

/// `cargo test --release -p patchpoint-live-model -- --ignored --nocapture --test-threads 1`:
/// minutes, and gigabytes.
#[test]
#[ignore = "takes minutes and gigabytes"]
fn three_cores() {
    holds(
        "three cores",
        Config {
            sites: JUMP_AND_TRAP,
            cores: 3,
            ..x86_64()
        },
    );
}

#[test]
#[ignore = "takes minutes and gigabytes"]
fn four_changes() {
    holds(
        "four changes",
        Config {
            sites: JUMP_AND_TRAP,
            changes: 4,
            writers: 1,
            ..x86_64()
        },
    );
}

#[test]
#[ignore = "takes minutes and gigabytes"]
fn two_refusals() {
    let config = Config {
        sites: JUMP_AND_TRAP,
        faults: 2,
        ..x86_64()
    };
    holds("three changes, two refusals", config);
}
