//! By the rules of AArch64: words of a few instructions are exchanged, caches are maintained.

use crate::{holds, left_out};
use ChangeKind::{Invalidate, Patch, Restore, Settle};
use patchpoint_live_model::*;

fn aarch64() -> Config {
    Config::new(Rules::AArch64)
}

/// As small as a failure lets it be, on cores that see nothing older after something newer.
fn small(kinds: &'static [ChangeKind], changes: u8) -> Config {
    Config {
        order: FetchOrder::Forwards,
        kinds,
        changes,
        writers: 1,
        ..aarch64()
    }
}

#[test]
fn sites_of_branches() {
    holds("AArch64, two sites of branches", aarch64());
}

#[test]
fn refused_exchanges_and_stubs_that_call() {
    let config = Config {
        sites: [Gate::PatchableJump, Gate::Call],
        kinds: &[Patch, Restore, Settle],
        calls: true,
        faults: 1,
        writers: 1,
        ..aarch64()
    };
    holds("AArch64, a branch and a call; an exchange is refused", config);
}

left_out! {
    without_the_wait: Wait, small(&[Patch, Settle], 2), Unpredictable;
    without_isb_before_opening: SerializationBeforeOpening, small(&[Patch, Settle], 2), Unpredictable;
    without_isb_after_closing: SerializationAfterClosing, small(&[Patch, Settle], 2), Unpredictable;
    with_settled_code_that_begins_with_any_instruction: ExchangeableFirst, small(&[Patch, Settle], 2), Unpredictable;
    without_maintenance_of_a_stub: MaintainedStub, small(&[Patch], 1), StubMemory;
    without_maintenance_of_the_gate: MaintainedGate, small(&[Invalidate], 1), NotPermitted;
    without_maintenance_behind_the_gate: MaintainedTail, small(&[Patch, Settle], 2), Unpredictable;
    without_isb_after_an_invalidation: ImmediateSerialization, small(&[Invalidate], 1), NotPermitted;
    without_isb_before_the_epoch: SerializationBeforeEpoch, small(&[Patch], 2), StubMemory;
    without_a_grace_period_for_stubs: GracePeriodOfStubs, small(&[Patch], 2), StubMemory;
    with_a_stub_that_is_filled_after_the_exchange: StubBeforeGate, small(&[Patch], 1), StubMemory;
    with_the_original_over_other_code: OriginalBehindTheGate, small(&[Patch, Settle, Restore], 3), Mixture;
}
