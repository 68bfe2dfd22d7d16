//! A lookup that panics: the process ends, with a message that says where.

use std::process::Command;

use super::*;

const VARIABLE: &str = "PATCHPOINT_TEST_LOOKUP_PANICS";
const NAME: &str = "ic::tests::process::a_panic_in_a_lookup_ends_the_process";

#[test]
#[cfg_attr(emulated, ignore = "an emulated process cannot start another one")]
fn a_panic_in_a_lookup_ends_the_process() {
    if let Some(kind) = std::env::var_os(VARIABLE) {
        let builder = match kind == "whole" {
            true => Caches::builder().whole_frames(),
            false => Caches::builder(),
        };
        let caches = builder.lookup(|_| panic!("in the lookup"));
        let lab = Lab::with(Arc::default(), caches, false);
        lab.call_word(0);
        // Not reached: the parent would see success.
        std::process::exit(0);
    }
    for kind in ["lean", "whole"] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([NAME, "--exact", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, kind)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{text}");
        assert!(text.contains("in the lookup"), "{text}");
        let message = "patchpoint: the handler panicked in Frame { id: 78, pc: 0x";
        assert!(text.contains(message), "{text}");
    }
}
