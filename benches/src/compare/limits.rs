//! The least that each strategy needs for many places, and for one that threads execute: bare stores
//! and system calls, nothing compared, nothing checked.

use std::hint::black_box;
use std::time::Duration;

use patchpoint::addr::CodeAddr;
use patchpoint::publish::{Level, Publisher, serialize};

use super::{Contender, Job, Offer, single};
use crate::commits::SITES;
use crate::limits::{Copied, Limit, Pwritten, at_once};
use crate::measure::time;
use crate::pages::{self, Foreign, PAGE};
use crate::subject::RESERVED;

const THOUSAND: usize = 1000;
const LEN: usize = (THOUSAND * RESERVED).next_multiple_of(PAGE);

/// A store through a second mapping, `mprotect` twice, and `pwrite`; or b, with a membarrier.
pub(super) fn offers(job: Job) -> Vec<Offer> {
    let ways = match job {
        Job::Batch => vec![copies(), mprotect(), pwrites()],
        Job::Eventual => vec![single::stores()],
        Job::Immediate => vec![membarriers()],
        Job::Single | Job::Invalidate => Vec::new(),
    };
    ways.into_iter().map(Ok).collect()
}

/// Writes other bytes each time.
fn batches(mut write: impl FnMut(&[u8; RESERVED]) + 'static) -> impl FnMut() -> Duration {
    let mut turn = 0_u8;
    move || {
        turn = turn.wrapping_add(1);
        let bytes = [turn; RESERVED];
        time(|| write(black_box(&bytes)))
    }
}

/// The places of a limit for code at that address.
fn places(limit: &impl Limit, start: u64) -> Vec<u64> {
    let place = |number| limit.place(CodeAddr::new(start + (number * RESERVED) as u64));
    (0..THOUSAND).map(place).collect()
}

fn copies() -> Contender {
    let limit = Copied::new(LEN / PAGE);
    let places = places(&limit, 0);
    let batch = batches(move |bytes| at_once(&limit, &places, bytes));
    Contender::new("limit-copy", THOUSAND, batch)
}

fn pwrites() -> Contender {
    let limit = Pwritten::new();
    let places = places(&limit, Foreign::new(&[0xcc; LEN]).at);
    let batch = batches(move |bytes| at_once(&limit, &places, bytes));
    Contender::new("limit-pwrite", THOUSAND, batch)
}

/// For all places at once.
fn mprotect() -> Contender {
    let code = Foreign::new(&[0xcc; LEN]);
    let batch = batches(move |bytes| {
        // SAFETY: the pages are the measurement's, and nothing runs there.
        unsafe { pages::protect(code.at, LEN, true) };
        for number in 0..THOUSAND {
            // SAFETY: read-write now.
            unsafe { pages::copy(code.at + (number * RESERVED) as u64, bytes) };
        }
        // SAFETY: as above.
        unsafe { pages::protect(code.at, LEN, false) };
        serialize();
    });
    Contender::new("limit-mprotect", THOUSAND, batch)
}

/// A store and a membarrier each.
fn membarriers() -> Contender {
    let (view, publisher) = (pages::writable_view_of_code(PAGE), Publisher::new());
    let batch = move || {
        time(|| {
            for at in 0..SITES as u64 {
                // SAFETY: in the view, aligned.
                unsafe { pages::store(view + 8 * at, black_box(at)) };
                publisher.serialize(Level::Immediate).unwrap();
            }
        })
    };
    Contender::new("limit-store", SITES, batch)
}
