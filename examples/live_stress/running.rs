//! What readers execute, and how they check it: the part that is the same in whatever process they
//! are.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::super::compiled;
use crate::host::Symbol;

/// Functions per convention, and sites in all.
pub(crate) const KINDS: usize = 8;
pub(crate) const SITES: usize = 2 * KINDS;
/// What LLVM's callee, where it has left a call, and the callee of sequences add.
const CALLEE: u64 = 1 << 40;
const SLOW: u64 = 1 << 41;

/// What an executor has: both callees, and the readers' loop, which is a function of the address of
/// a [`Running`], a seed and a number of executions, and returns a [`Batch`] as a number.
pub(crate) fn symbols() -> [Symbol; 3] {
    [
        ("callee", callee as *const () as usize),
        ("slow", slow as *const () as usize),
        ("batch", batch_by_address as *const () as usize),
    ]
}

extern "C" fn callee(x: u64) -> u64 {
    x + CALLEE
}

/// Blocks now and then, while its caller may be patched.
extern "C" fn slow(x: u64) -> u64 {
    if x % 256 == 0 {
        std::thread::sleep(Duration::from_micros(20));
    }
    x + SLOW
}

/// xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// What a version of a site is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionKind {
    Restored,
    Calls,
    Adds,
}

pub(crate) fn kind(site: usize, version: u64) -> VersionKind {
    match (site >= KINDS, version % 8) {
        (true, 0) => VersionKind::Restored,
        (true, 1) => VersionKind::Calls,
        _ => VersionKind::Adds,
    }
}

/// What a version of a site adds to its argument.
fn value(site: usize, version: u64) -> u64 {
    match kind(site, version) {
        VersionKind::Restored if compiled::HAS_CALLEE => CALLEE,
        VersionKind::Restored => 0,
        VersionKind::Calls => SLOW + version,
        VersionKind::Adds => version,
    }
}

/// A module that readers execute. Both processes see it.
#[repr(C)]
pub(crate) struct Running {
    pub(crate) number: u64,
    /// The addresses of its functions.
    functions: [u64; SITES],
    /// By site: the last version that may be there, and the last that certainly is.
    pub(crate) announced: [AtomicU64; SITES],
    pub(crate) confirmed: [AtomicU64; SITES],
    /// Not 0 when another module has taken its place.
    over: AtomicU32,
}

impl Running {
    /// A module whose `any` functions have had their first version.
    ///
    /// # Safety
    /// Where the value is read, these are functions of one integer, as long as it is.
    pub(crate) unsafe fn new(number: u64, functions: [u64; SITES]) -> Self {
        let version = |number: usize| AtomicU64::new(u64::from(number < KINDS));
        Self {
            number,
            functions,
            announced: std::array::from_fn(version),
            confirmed: std::array::from_fn(version),
            over: AtomicU32::new(0),
        }
    }

    /// Executes a site.
    #[inline]
    pub(crate) fn call(&self, site: usize, x: u64) -> u64 {
        // SAFETY: the promise at construction.
        let function: extern "C" fn(u64) -> u64 =
            unsafe { std::mem::transmute(self.functions[site] as usize) };
        function(x)
    }

    /// Readers go on to the next.
    pub(crate) fn end(&self) {
        self.over.store(1, Ordering::Release);
    }
}

/// What was done without a pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) executions: u32,
    pub(crate) failures: u32,
}

impl Batch {
    fn number(self) -> u64 {
        u64::from(self.executions) << 32 | u64::from(self.failures)
    }

    pub(crate) fn of_number(number: u64) -> Self {
        Self {
            executions: (number >> 32) as u32,
            failures: number as u32,
        }
    }
}

/// Executes sites so many times, or until another module takes this one's place, and checks each
/// result.
pub(crate) fn batch(running: &Running, random: &mut Random, count: u32, mut between: impl FnMut()) -> Batch {
    let mut done = Batch::default();
    while done.executions < count && running.over.load(Ordering::Relaxed) == 0 {
        done.failures += u32::from(!execute(running, random));
        done.executions += 1;
        between();
    }
    done
}

extern "C" fn batch_by_address(running: u64, seed: u64, count: u64) -> u64 {
    // SAFETY: the controller calls this with one that it keeps until the call returns.
    let running = unsafe { &*(running as *const Running) };
    batch(running, &mut Random::new(seed), count as u32, || {}).number()
}

/// Executes a site. Whether the result is that of a version between those confirmed before and
/// announced after it.
#[inline]
fn execute(running: &Running, random: &mut Random) -> bool {
    let number = random.next();
    let (site, x) = ((number >> 60) as usize % SITES, number & 0xf_ffff);
    let from = running.confirmed[site].load(Ordering::Acquire);
    let found = running.call(site, x).wrapping_sub(x);
    let to = running.announced[site].load(Ordering::Acquire);
    let is_right = (from..=to).any(|version| value(site, version) == found);
    static SAID: AtomicU32 = AtomicU32::new(0);
    if !is_right && SAID.fetch_add(1, Ordering::Relaxed) < 10 {
        let module = running.number;
        eprintln!("module {module}, site {site}: {x:#x} became {found:#x} more, in versions {from}..={to}");
    }
    is_right
}
