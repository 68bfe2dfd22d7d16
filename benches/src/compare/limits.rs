//! The least that each strategy needs: bare stores and system calls, nothing compared, nothing
//! checked.

use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use patchpoint::publish::{Level, Publisher, serialize};

use super::{Contender, Job, Offer};
use crate::measure::time;
use crate::pages::{self, Foreign, PAGE};
use crate::subject::RESERVED;

const SINGLES: usize = 32;
const THOUSAND: usize = 1000;

/// A store through a second mapping, `mprotect` twice, and `pwrite`.
pub(super) fn offers(job: Job) -> Vec<Offer> {
    match job {
        Job::Single => vec![
            Ok(store(SINGLES, PAGE, true)),
            Ok(mprotect_each()),
            Ok(pwrite(SINGLES, true)),
        ],
        Job::Batch => vec![
            Ok(store(THOUSAND, RESERVED, false)),
            Ok(mprotect_once()),
            Ok(pwrite(THOUSAND, false)),
        ],
        Job::Eventual => vec![Ok(quadword(None))],
        Job::Immediate => vec![Ok(quadword(Some(Publisher::new())))],
        Job::Invalidate => Vec::new(),
    }
}

/// Does `one` for each place, then what ends a batch.
fn each(count: usize, mut one: impl FnMut(usize, &[u8; RESERVED]) + 'static) -> impl FnMut() -> Duration {
    let mut turn = 0_u8;
    move || {
        turn = turn.wrapping_add(1);
        let bytes = [turn; RESERVED];
        time(|| (0..count).for_each(|number| one(number, black_box(&bytes))))
    }
}

fn store(count: usize, stride: usize, serialized: bool) -> Contender {
    let view = pages::writable_view_of_code(count * stride);
    let batch = each(count, move |number, bytes| {
        // SAFETY: in the view.
        unsafe { pages::copy(view + (number * stride) as u64, bytes) };
        if serialized || number + 1 == count {
            serialize();
        }
    });
    Contender::new("limit-store", count, batch)
}

fn mprotect_each() -> Contender {
    let code = Foreign::new(&vec![0xcc; SINGLES * PAGE]);
    let batch = each(SINGLES, move |number, bytes| {
        let at = code.at + (number * PAGE) as u64;
        // SAFETY: the page is the measurement's, and nothing runs there.
        unsafe { pages::protect(at, PAGE, true) };
        // SAFETY: read-write now.
        unsafe { pages::copy(at, bytes) };
        // SAFETY: as above.
        unsafe { pages::protect(at, PAGE, false) };
        serialize();
    });
    Contender::new("limit-mprotect", SINGLES, batch)
}

fn mprotect_once() -> Contender {
    let len = (THOUSAND * RESERVED).next_multiple_of(PAGE);
    let code = Foreign::new(&vec![0xcc; len]);
    let batch = each(THOUSAND, move |number, bytes| {
        if number == 0 {
            // SAFETY: the pages are the measurement's, and nothing runs there.
            unsafe { pages::protect(code.at, len, true) };
        }
        // SAFETY: read-write since the first.
        unsafe { pages::copy(code.at + (number * RESERVED) as u64, bytes) };
        if number + 1 == THOUSAND {
            // SAFETY: as above.
            unsafe { pages::protect(code.at, len, false) };
            serialize();
        }
    });
    Contender::new("limit-mprotect", THOUSAND, batch)
}

fn pwrite(count: usize, serialized: bool) -> Contender {
    let stride = if serialized { PAGE } else { RESERVED };
    let code = Foreign::new(&vec![0xcc; count * stride]);
    let file = std::fs::File::options()
        .write(true)
        .open("/proc/self/mem")
        .unwrap();
    let batch = each(count, move |number, bytes| {
        file.write_all_at(bytes, code.at + (number * stride) as u64)
            .unwrap();
        if serialized || number + 1 == count {
            serialize();
        }
    });
    Contender::new("limit-pwrite", count, batch)
}

/// An aligned store of 8 bytes; with a membarrier if `publisher`.
fn quadword(publisher: Option<Publisher>) -> Contender {
    let view = pages::writable_view_of_code(SINGLES * PAGE);
    let batch = each(SINGLES, move |number, bytes| {
        let word = u64::from_ne_bytes([bytes[0]; 8]);
        // SAFETY: in the view, aligned.
        unsafe { pages::store(view + (number * PAGE) as u64, word) };
        match &publisher {
            Some(publisher) => publisher.serialize(Level::Immediate).unwrap(),
            None => serialize(),
        }
    });
    Contender::new("limit-store", SINGLES, batch)
}
