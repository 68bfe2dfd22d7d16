//! The life of stubs under a model checker of threads: every interleaving, and every stale read that the memory
//! model allows.
//!
//! The model: two stubs, a head that says which one it leads to, and readers that follow it. Being in a stub is a
//! read of its cell, freeing it a write: the checker reports when they are not ordered.
//!
//! The barrier of `membarrier` is an acquire-release exchange of the head: readers of later epochs see it.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::Limbo;
use crate::publish::{Epochs, Participant, Rest};

struct Code {
    head: AtomicUsize,
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
                head: AtomicUsize::new(0),
                stubs: [UnsafeCell::new(1), UnsafeCell::new(1)],
            },
            epochs: Epochs::default(),
        })
    }

    /// Executes the site once: the head, then the stub that it leads to.
    fn execute(&self) {
        let stub = self.code.head.load(Ordering::Acquire);
        self.code.stubs[stub].with(|_| ());
    }

    /// The writer's part: exchange, retire, stamp, and free whatever every thread has left.
    fn replace(&self, limbo: &mut Limbo<usize>) {
        let old = self.code.head.swap(1, Ordering::AcqRel);
        limbo.retire(Rest::Checkpoint, old);
        limbo.stamp(self.epochs.advance());
        self.free(limbo);
    }

    fn free(&self, limbo: &mut Limbo<usize>) -> usize {
        let free = limbo.take_passed(self.epochs.passed());
        for stub in &free {
            self.code.stubs[*stub].with_mut(|_| ());
        }
        free.len()
    }
}

fn explore(reader: impl Fn(&Model, &Participant) + Sync + Send + Clone + 'static, readers: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let model = Model::new();
        let threads: Vec<_> = (0..readers)
            .map(|_| {
                let (model, reader) = (Arc::clone(&model), reader.clone());
                thread::spawn(move || {
                    let participant = model.epochs.attach();
                    reader(&model, &participant);
                    drop(participant);
                })
            })
            .collect();
        let mut limbo = Limbo::default();
        model.replace(&mut limbo);
        model.free(&mut limbo);
        for thread in threads {
            thread.join().unwrap();
        }
        // With all threads detached nothing keeps the stub.
        model.free(&mut limbo);
        assert!(limbo.take_where(|_| true).is_empty());
    });
}

#[test]
fn loom_a_stub_is_not_freed_under_a_reader() {
    explore(
        |model, participant| {
            model.execute();
            participant.report(Rest::Checkpoint);
            model.execute();
        },
        1,
    );
}

#[test]
fn loom_two_readers() {
    explore(
        |model, participant| {
            model.execute();
            participant.report(Rest::Quiescent);
        },
        2,
    );
}

#[test]
fn loom_offline_and_online() {
    explore(
        |model, participant| {
            participant.offline(Rest::Quiescent);
            participant.online(Rest::Quiescent);
            model.execute();
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
            reader.execute();
            participant.report(Rest::Checkpoint);
        });
        let mut limbo = Limbo::default();
        let old = model.code.head.swap(1, Ordering::AcqRel);
        limbo.retire(Rest::Checkpoint, old);
        for stub in limbo.take_where(|_| true) {
            model.code.stubs[stub].with_mut(|_| ());
        }
        thread.join().unwrap();
    });
}

/// The protection taken out: the epoch begins before the head is exchanged.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_finds_an_epoch_that_begins_too_early() {
    loom::model(|| {
        let model = Model::new();
        let reader = Arc::clone(&model);
        let thread = thread::spawn(move || {
            let participant = reader.epochs.attach();
            participant.report(Rest::Checkpoint);
            reader.execute();
        });
        let mut limbo = Limbo::default();
        let epoch = model.epochs.advance();
        let old = model.code.head.swap(1, Ordering::AcqRel);
        limbo.retire(Rest::Checkpoint, old);
        limbo.stamp(epoch);
        model.free(&mut limbo);
        thread.join().unwrap();
    });
}
