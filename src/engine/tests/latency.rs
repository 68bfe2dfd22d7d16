//! What a thread that is measured is told of a change.

use super::*;
use crate::latency::{Latency, Stage, measured};

fn seen(latency: &Latency) -> Vec<&'static str> {
    let stages = Stage::ALL.into_iter().filter(|stage| latency.turns(*stage) > 0);
    stages.map(Stage::name).collect()
}

#[test]
fn every_stage_of_a_change_is_seen() {
    let functions = [identity(1)];
    let text = Text::new(&functions);
    let lab = Lab::new();
    let site = lab.register(&text, &functions).sites().next().unwrap();
    let (done, latency) = measured(|| lab.engine.patch(1, &plus_in_stub(9)));
    done.unwrap();
    assert_eq!(seen(&latency), Stage::ALL.map(Stage::name));
    let (done, latency) = measured(|| lab.engine.restore_site(&site));
    done.unwrap();
    assert_eq!(
        seen(&latency),
        ["plan", "permission", "write", "flush", "serialize"]
    );
    let ((), latency) = measured(|| ());
    assert_eq!(seen(&latency), ["plan"]);
}
