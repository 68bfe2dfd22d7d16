//! The life of stubs under a model checker of threads: every interleaving, and every stale read
//! that the memory model allows.
//!
//! The model: two stubs, a patchable jump that says which one it goes to, and readers that follow
//! what their cores have fetched of it. Being in a stub is a read of its cell, freeing it a write:
//! the checker reports when they are not ordered.
//!
//! A core executes the patchable jump that it has fetched, whatever its thread has read since: no
//! order of memory accesses brings it a new one, serializing does. The barrier makes every core
//! fetch the patchable jump.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::{Retirable, RetireList, Until};
use crate::publish::{Epochs, Participant, QuiescentState};

impl Retirable for usize {}

struct Code {
    patchable_jump: AtomicUsize,
    /// The patchable jump as each core has it. It only ever changes from 0 to 1.
    fetched: [AtomicUsize; 2],
    stubs: [UnsafeCell<u32>; 2],
}

struct Model {
    code: Code,
    epochs: Epochs,
}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            code: Code {
                patchable_jump: AtomicUsize::new(0),
                fetched: [AtomicUsize::new(0), AtomicUsize::new(0)],
                stubs: [UnsafeCell::new(1), UnsafeCell::new(1)],
            },
            epochs: Epochs::default(),
        })
    }

    /// Executes the site once on a core: the patchable jump, then the stub that it goes to.
    fn execute(&self, core: usize) {
        let stub = self.code.fetched[core].load(Ordering::Acquire);
        self.code.stubs[stub].with(|_| ());
    }

    /// Makes a core fetch the patchable jump: what a thread does that attaches or comes back
    /// online.
    fn serialize(&self, core: usize) {
        let patchable_jump = self.code.patchable_jump.load(Ordering::Acquire);
        self.code.fetched[core].fetch_max(patchable_jump, Ordering::AcqRel);
    }

    /// The writer's part: exchange, retire, make every core serialize, stamp, and free whatever
    /// every thread has left.
    fn replace(&self, retire_list: &mut RetireList<usize>) {
        let old = self.code.patchable_jump.swap(1, Ordering::AcqRel);
        retire_list.retire(Until::Reported(QuiescentState::Checkpoint), old);
        (0..2).for_each(|core| self.serialize(core));
        retire_list.stamp(self.epochs.advance());
        self.free(retire_list);
    }

    fn free(&self, retire_list: &mut RetireList<usize>) -> usize {
        let free = retire_list.take_passed(self.epochs.passed());
        for stub in &free {
            self.code.stubs[*stub].with_mut(|_| ());
        }
        free.len()
    }
}

fn explore(reader: impl Fn(&Model, &Participant, usize) + Sync + Send + Clone + 'static, readers: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let model = Model::new();
        let threads: Vec<_> = (0..readers)
            .map(|core| {
                let (model, reader) = (Arc::clone(&model), reader.clone());
                thread::spawn(move || {
                    let participant = model.epochs.attach();
                    model.serialize(core);
                    reader(&model, &participant, core);
                    drop(participant);
                })
            })
            .collect();
        let mut retire_list = RetireList::default();
        model.replace(&mut retire_list);
        model.free(&mut retire_list);
        for thread in threads {
            thread.join().unwrap();
        }
        // With all threads detached nothing keeps the stub.
        model.free(&mut retire_list);
        assert!(retire_list.take_where(|_| true).is_empty());
    });
}

#[test]
fn loom_a_stub_is_not_freed_under_a_reader() {
    explore(
        |model, participant, core| {
            model.execute(core);
            participant.report(QuiescentState::Checkpoint);
            model.execute(core);
        },
        1,
    );
}

#[test]
fn loom_two_readers() {
    explore(
        |model, participant, core| {
            model.execute(core);
            participant.report(QuiescentState::Quiescent);
        },
        2,
    );
}

#[test]
fn loom_offline_and_online() {
    explore(
        |model, participant, core| {
            participant.offline(QuiescentState::Quiescent);
            participant.online(QuiescentState::Quiescent);
            model.serialize(core);
            model.execute(core);
        },
        1,
    );
}

/// The protection taken out: freeing without asking the threads.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_finds_a_free_without_a_drain() {
    loom::model(|| {
        let model = Model::new();
        let reader = Arc::clone(&model);
        let thread = thread::spawn(move || {
            let participant = reader.epochs.attach();
            reader.execute(0);
            participant.report(QuiescentState::Checkpoint);
        });
        let mut retire_list = RetireList::default();
        let old = model.code.patchable_jump.swap(1, Ordering::AcqRel);
        retire_list.retire(Until::Reported(QuiescentState::Checkpoint), old);
        for stub in retire_list.take_where(|_| true) {
            model.code.stubs[stub].with_mut(|_| ());
        }
        thread.join().unwrap();
    });
}

/// The protection taken out: the epoch begins before the patchable jump is exchanged.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_finds_an_epoch_that_begins_too_early() {
    loom::model(|| {
        let model = Model::new();
        let reader = Arc::clone(&model);
        let thread = thread::spawn(move || {
            let participant = reader.epochs.attach();
            participant.report(QuiescentState::Checkpoint);
            reader.execute(0);
        });
        let mut retire_list = RetireList::default();
        let epoch = model.epochs.advance();
        let old = model.code.patchable_jump.swap(1, Ordering::AcqRel);
        retire_list.retire(Until::Reported(QuiescentState::Checkpoint), old);
        retire_list.stamp(epoch);
        model.free(&mut retire_list);
        thread.join().unwrap();
    });
}

/// The protection taken out: no core is made to serialize before the epoch begins. The thread has
/// seen the epoch, and so the new patchable jump as data, but its core executes the old one.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_finds_a_missing_barrier() {
    loom::model(|| {
        let model = Model::new();
        let reader = Arc::clone(&model);
        let thread = thread::spawn(move || {
            let participant = reader.epochs.attach();
            reader.serialize(0);
            participant.report(QuiescentState::Checkpoint);
            reader.execute(0);
        });
        let mut retire_list = RetireList::default();
        let old = model.code.patchable_jump.swap(1, Ordering::AcqRel);
        retire_list.retire(Until::Reported(QuiescentState::Checkpoint), old);
        retire_list.stamp(model.epochs.advance());
        model.free(&mut retire_list);
        thread.join().unwrap();
    });
}
