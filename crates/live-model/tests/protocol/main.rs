//! The protocol of live patching, explored: it holds in every state, and fails with any of its
//! steps left out.
//!
//! Exhaustive for two cores, two sites and three changes of all kinds, by each architecture's
//! rules. `cargo test -p patchpoint-live-model -- --nocapture --test-threads 1` prints how many
//! states there are, and the way to each failure.

mod aarch64;
mod exchange;
mod symmetry;
mod x86_64;

use patchpoint_live_model::*;

/// The protocol holds in every state.
fn holds(name: &str, config: Config) -> Exploration<Failure> {
    let found = explore(&LiveModel::new(config));
    println!("{name}: {found}");
    let failure = found.failure.as_ref();
    let failure = failure.map(|failure| format!("{}\n{}", failure.failure, failure.trace));
    assert_eq!(failure, None, "{name}");
    found
}

/// It does not hold with that step left out. That it does with the step is what `holds` has shown
/// of a configuration that has all of this one's states.
fn fails(step: LeftOut, config: Config, expected: Failure) {
    let left_out = Some(step);
    let found = explore(&LiveModel::new(Config { left_out, ..config }));
    println!("without {step:?}: {} states up to a failure", found.states);
    let failure = found.failure.expect("without the step something fails");
    println!("{}", failure.trace);
    assert_eq!(failure.failure, expected);
}

/// Steps that are left out, each with a configuration in which that fails, and how.
macro_rules! left_out {
    ($($name:ident: $step:ident, $config:expr, $failure:ident;)*) => {$(
        #[test]
        fn $name() {
            crate::fails(LeftOut::$step, $config, Failure::$failure);
        }
    )*};
}

use left_out;
