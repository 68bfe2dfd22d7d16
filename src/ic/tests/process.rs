//! A lookup that panics: the process ends, with a message that says where.

use super::*;
use crate::memory::testing::process::{End, end_and_message};

#[test]
fn a_panic_in_a_lookup_ends_the_process() {
    for whole in [false, true] {
        let (end, text) = end_and_message(|| {
            let builder = match whole {
                true => Caches::builder().whole_frames(),
                false => Caches::builder(),
            };
            let caches = builder.lookup(|_| panic!("in the lookup"));
            let lab = Lab::with(Arc::default(), caches, false);
            lab.call_word(0);
            true
        });
        assert_eq!(end, End::Killed(libc::SIGABRT), "{text}");
        let message = "patchpoint: the handler panicked in Frame { id: 78, pc: 0x";
        assert!(text.contains(message) && text.contains("in the lookup"), "{text}");
    }
}
