//! What is seen from outside of the process: a lookup that panics ends it, with a message that says
//! where; and the barrier of a retraction.

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

/// On some processors nothing else shows that it is missing: a thread goes on with the old entry
/// for a moment only.
#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(emulated, ignore = "an emulator does not trace system calls")]
fn a_retraction_has_one_barrier_and_an_entry_none() {
    use crate::memory::testing::process::{in_child, system_calls};
    if !in_child(|| {
        crate::publish::Publisher::new()
            .to_string()
            .contains("serialize by membarrier")
    }) {
        println!("no membarrier here");
        return;
    }
    let barriers = |work: fn(&Lab)| {
        let prepare = || {
            let runtime = Arc::new(Runtime::default());
            let lookup = Arc::clone(&runtime);
            let caches = Caches::builder().lookup(move |miss| lookup.lookup(miss));
            let lab = Lab::with(runtime, caches, true);
            lab.read(1);
            lab
        };
        let calls = system_calls(prepare, |lab| work(&lab));
        calls.iter().filter(|call| **call == libc::SYS_membarrier).count()
    };
    let retract = |lab: &Lab| assert_eq!(lab.caches.retract(&[Key::new(1)]).unwrap().caches, 1);
    assert_eq!([barriers(|lab| lab.read(2)), barriers(retract)], [0, 1]);
}
