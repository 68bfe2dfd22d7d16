//! The least that could do the same as the library: bare stores and system calls, nothing compared,
//! nothing checked. Every page that compares with one of them takes it from here.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

use patchpoint::addr::CodeAddr;
use patchpoint::publish::{Level, Publisher, serialize};

use crate::pages::{self, PAGE};
use crate::subject::RESERVED;

/// So many times b, the unit of the tables: an aligned store of 8 bytes to a view, then serialize.
pub(crate) fn stores(view: u64, count: usize) {
    for at in 0..count as u64 {
        // SAFETY: the view is as long as the caller's count says, and aligned.
        unsafe { pages::store(view + 8 * at, black_box(at)) };
        serialize();
    }
}

/// Changes the reserved bytes of a site, or as many bytes in its place.
pub(crate) trait Limit {
    /// Where that is for a site.
    fn place(&self, site: CodeAddr) -> u64;

    /// Writes there.
    fn write(&self, at: u64, bytes: &[u8; RESERVED]);
}

/// Writes nothing.
pub(crate) struct Nothing;

impl Limit for Nothing {
    fn place(&self, site: CodeAddr) -> u64 {
        site.get()
    }

    #[inline]
    fn write(&self, _: u64, _: &[u8; RESERVED]) {}
}

/// Serializes and writes nothing.
pub(crate) struct Serialization;

impl Limit for Serialization {
    fn place(&self, site: CodeAddr) -> u64 {
        site.get()
    }

    #[inline]
    fn write(&self, _: u64, _: &[u8; RESERVED]) {
        serialize();
    }
}

/// A copy to the writable view of other code.
pub(crate) struct Copied {
    view: u64,
    pages: u64,
}

impl Copied {
    /// To a view of so many pages.
    pub(crate) fn new(pages: usize) -> Self {
        Self {
            view: pages::writable_view_of_code((pages + 1) * PAGE),
            pages: pages as u64,
        }
    }
}

impl Limit for Copied {
    /// As far in the view as the site is in its pages.
    fn place(&self, site: CodeAddr) -> u64 {
        self.view + site.get() % (self.pages * PAGE as u64)
    }

    #[inline]
    fn write(&self, at: u64, bytes: &[u8; RESERVED]) {
        // SAFETY: in the view, which is a page longer than the places in it.
        unsafe { pages::copy(at, black_box(bytes)) };
    }
}

/// `pwrite` to the site, which is in private memory.
pub(crate) struct Pwritten(File);

impl Pwritten {
    pub(crate) fn new() -> Self {
        let mut options = File::options();
        Self(options.write(true).open("/proc/self/mem").unwrap())
    }
}

impl Limit for Pwritten {
    fn place(&self, site: CodeAddr) -> u64 {
        site.get()
    }

    #[inline]
    fn write(&self, at: u64, bytes: &[u8; RESERVED]) {
        self.0.write_all_at(black_box(bytes), at).unwrap();
    }
}

/// A copy to the site, whose page is made writable and executable again.
pub(crate) struct Toggled;

impl Limit for Toggled {
    fn place(&self, site: CodeAddr) -> u64 {
        site.get()
    }

    #[inline]
    fn write(&self, at: u64, bytes: &[u8; RESERVED]) {
        let page = at & !(PAGE as u64 - 1);
        // SAFETY: the page is the measurement's and nothing runs there.
        unsafe { pages::protect(page, PAGE, true) };
        // SAFETY: read-write now.
        unsafe { pages::copy(at, black_box(bytes)) };
        // SAFETY: as above.
        unsafe { pages::protect(page, PAGE, false) };
    }
}

/// Writes to all places, and serializes once.
pub(crate) fn at_once(limit: &impl Limit, places: &[u64], bytes: &[u8; RESERVED]) {
    places.iter().for_each(|at| limit.write(*at, bytes));
    serialize();
}

/// Writes to all places, and serializes each time.
pub(crate) fn each(limit: &impl Limit, places: &[u64], bytes: &[u8; RESERVED]) {
    for at in places {
        limit.write(*at, bytes);
        serialize();
    }
}

/// The memory that changing sites for the first time reads and writes at least, whatever decides
/// what: of each its record, its bytes before and after, an exit stub with what that belongs to, and
/// its state. Nothing is decided, checked or looked up. As with an engine that is new, all but the records
/// and the sites is in memory that was allocated for it, whose pages may not be there yet.
pub(crate) struct FirstChanges {
    /// The view of the sites.
    sites: u64,
    records: Vec<[u64; 8]>,
}

/// What is kept to write a site, or to put back what it held.
struct Before {
    at: u64,
    old: [u8; RESERVED],
    new: [u8; RESERVED],
}

/// What is kept of sites that were changed.
pub(crate) struct Changed {
    _exit_stubs: Vec<[u8; RESERVED]>,
    _owners: Vec<[u64; 3]>,
    _states: Vec<[u64; 16]>,
}

impl FirstChanges {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            sites: pages::writable_view_of_code(count * RESERVED),
            records: (0..count as u64).map(|number| [number; 8]).collect(),
        }
    }

    /// Reads and writes that, as a transaction: first all but the sites, then these, then every core
    /// serializes.
    pub(crate) fn make(&self, publisher: &Publisher) -> Changed {
        let count = self.records.len();
        let (mut before, mut exit_stubs) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut owners, mut states) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (number, record) in self.records.iter().enumerate() {
            let at = self.sites + (number * RESERVED) as u64;
            let said = black_box(record).iter().fold(0, |all, word| all ^ word);
            let new = [number as u8; RESERVED];
            // SAFETY: the view has so many bytes for each.
            let old = unsafe { pages::read_array(at) };
            before.push(Before { at, old, new });
            exit_stubs.push(new);
            owners.push([said; 3]);
            states.push([said; 16]);
        }
        for Before { at, old, new } in black_box(&before) {
            // SAFETY: as above.
            unsafe {
                assert_eq!(pages::read_array(*at), *old);
                pages::copy(*at, new);
            }
        }
        publisher.serialize(Level::Immediate).unwrap();
        Changed {
            _exit_stubs: exit_stubs,
            _owners: owners,
            _states: states,
        }
    }
}
