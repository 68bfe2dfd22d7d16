//! Threads that execute patched code without pause.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::ratios::{self, Loops};

/// On cache lines of its own: what the allocator puts beside it is changed by the measured thread.
#[derive(Default)]
#[repr(align(128))]
struct Shared {
    stop: AtomicBool,
    paused: AtomicBool,
    rounds: AtomicU64,
}

/// The threads.
pub(super) struct Busy {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    /// Starts them, and returns when they execute.
    pub(super) fn start(threads: usize) -> Self {
        let shared = Arc::<Shared>::default();
        let one = |_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || execute(&shared))
        };
        let busy = Self {
            threads: (0..threads).map(one).collect(),
            shared,
        };
        busy.wait_for_a_round();
        busy
    }

    pub(super) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Does something while they are paused.
    pub(super) fn while_paused<T>(&self, work: impl FnOnce() -> T) -> T {
        self.shared.paused.store(true, Ordering::Relaxed);
        let done = work();
        self.shared.paused.store(false, Ordering::Relaxed);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
        self.wait_for_a_round();
        done
    }

    /// Ends them.
    pub(super) fn stop(self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.thread().unpark();
            thread.join().unwrap();
        }
    }

    fn wait_for_a_round(&self) {
        let before = self.shared.rounds.load(Ordering::Relaxed);
        while !self.threads.is_empty() && self.shared.rounds.load(Ordering::Relaxed) == before {
            std::thread::yield_now();
        }
    }
}

fn execute(shared: &Shared) {
    let loops = Loops::new();
    let (objects, sum) = ratios::objects();
    let pointers: Vec<_> = objects.iter().map(std::ptr::from_ref).collect();
    let [patched, ..] = loops.functions();
    while !shared.stop.load(Ordering::Relaxed) {
        if shared.paused.load(Ordering::Relaxed) {
            std::thread::park_timeout(std::time::Duration::from_millis(100));
            continue;
        }
        assert_eq!(patched(black_box(pointers.as_ptr()), pointers.len() as u64), sum);
        shared.rounds.fetch_add(1, Ordering::Relaxed);
    }
}
