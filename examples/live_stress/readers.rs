//! The threads that execute sites without pause.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use patchpoint::Result;

use super::Shared;
use super::around::Sampled;
use super::running::{Batch, Random, Running, batch, symbols};
use crate::host::{Host, SharedValue};

/// How many executions a reader makes between two reports that it is outside of all code. A call
/// into another process takes as long as a thousand of them.
const BATCH: u32 = 64;
const BATCH_THERE: u32 = 1 << 14;

/// The generation that is current, which stays until the reader of that place is at a later one.
pub(super) fn current_for(shared: &Shared, place: usize) -> Arc<SharedValue<Running>> {
    // First: the writer, which makes another one current and looks here then, finds it, or has done
    // so before.
    shared.at[place].store(0, Ordering::SeqCst);
    let running = Arc::clone(&shared.current.lock().unwrap());
    shared.at[place].store(running.number, Ordering::Release);
    running
}

pub(super) fn read_until_stopped(shared: &Shared, reader: usize, seed: u64) -> Result<()> {
    read_some(shared, reader, seed, None)
}

/// The same, for so many batches at most.
pub(super) fn read_some(shared: &Shared, reader: usize, seed: u64, batches: Option<u32>) -> Result<()> {
    let read = read(shared, reader, seed, batches);
    // The writer waits for nobody who is not there any more.
    shared.at[reader].store(u64::MAX, Ordering::Release);
    if read.is_err() {
        shared.stop.store(true, Ordering::Release);
    }
    read
}

/// One reader: executes sites without pause.
fn read(shared: &Shared, reader: usize, seed: u64, batches: Option<u32>) -> Result<()> {
    let handle = shared.engine.attach_thread();
    let _sampled = Sampled::this_thread(shared);
    let [.., loops] = symbols();
    let (mut caller, loops) = (shared.host.caller()?, shared.host.symbol(loops)?);
    let mut random = Random::new(seed ^ (reader as u64 + 1) << 32);
    let mut running = current_for(shared, reader);
    let mut left = batches;
    while !shared.stop.load(Ordering::Acquire) && left != Some(0) {
        left = left.map(|left| left - 1);
        handle.quiescent();
        if shared.number.load(Ordering::Acquire) != running.number {
            running = Arc::clone(&shared.current.lock().unwrap());
        }
        shared.at[reader].store(running.number, Ordering::Release);
        let done = match shared.host {
            Host::Here => batch(&running, &mut random, BATCH, || handle.checkpoint()),
            Host::There(_) => {
                let args = [running.addr(), random.next(), u64::from(BATCH_THERE)];
                // SAFETY: the function is one of these arguments; what it executes stays until the writer has seen
                // this reader at a later generation.
                Batch::of_number(unsafe { caller.call(loops, args) }?)
            }
        };
        shared.executions[reader].fetch_add(done.executions.into(), Ordering::Relaxed);
        shared.failures.fetch_add(done.failures.into(), Ordering::Relaxed);
    }
    Ok(())
}
