//! The example `osr` computes what it should, on every architecture, and goes up and down as often
//! as its items say.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "../examples/osr/runtime.rs"]
mod runtime;

use runtime::{Runtime, weigh};

/// Items below 1000, and large ones at these places.
fn items(large: &[usize]) -> Vec<u64> {
    let item = |index| match large.contains(&index) {
        true => 7000 + index as u64,
        false => index as u64 % 1000,
    };
    (0..5000).map(item).collect()
}

#[test]
fn a_loop_goes_up_and_down_with_its_variables() {
    for (limit, large, moves) in [
        // Never up.
        (u64::MAX, &[70, 3000][..], (0, 0)),
        // Up once.
        (100, &[][..], (1, 0)),
        // Down at each large item, and up again 100 rounds later, or not any more.
        (100, &[500][..], (2, 1)),
        (100, &[50, 500, 4000, 4999][..], (3, 3)),
        // Up at once.
        (1, &[0, 1, 2, 3, 10][..], (6, 5)),
    ] {
        let runtime = Runtime::new(limit).unwrap();
        let items = items(large);
        assert_eq!(runtime.weigh(&items), weigh(&items), "{limit} {large:?}");
        assert_eq!(runtime.moves(), moves, "{limit} {large:?}");
    }
}

#[test]
fn a_loop_that_goes_up_and_down_often_uses_no_more_stack() {
    // 2,000 times: 128 bytes that were left each time would be more than the thread has.
    let work = || {
        let items = vec![5000; 4000];
        let runtime = Runtime::new(1).unwrap();
        assert_eq!(runtime.weigh(&items), weigh(&items));
        runtime.moves()
    };
    let thread = std::thread::Builder::new().stack_size(160 * 1024).spawn(work);
    let (up, down) = thread.unwrap().join().unwrap();
    assert!(up >= 2000 && down >= 2000, "{up} {down}");
}
