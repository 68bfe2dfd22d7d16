//! What readers execute, and how they check it: the part that is the same in whatever process they
//! are.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::host::Symbol;

/// How many sites there are at most.
pub(crate) const MOST_SITES: usize = 64;
/// What the functions add that are called: by compiled code, where LLVM has left a call, and by
/// sequences.
pub(crate) const CALLEE: u64 = 1 << 40;
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

/// What the versions of a site are, and what its function adds to its argument in each of them.
/// Words alone, as another process may hold it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scheme {
    /// What the function adds when the site is as its code was loaded.
    original: u64,
    /// What it adds to every other version, as with code behind a jump that was patched.
    behind: u64,
    /// Whether there are versions that are restored, and such that call a function; not 0 for yes.
    restores: u64,
    calls: u64,
}

/// What a version of a site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionKind {
    Restored,
    Calls,
    Adds,
}

impl Scheme {
    /// One that has no behaviour of its own, and from which nothing can be called.
    pub(crate) const ADDS: Self = Self {
        original: 0,
        behind: 0,
        restores: 0,
        calls: 0,
    };

    /// Every kind of version: as it was loaded it adds that.
    pub(crate) const fn all(original: u64) -> Self {
        Self {
            original,
            restores: 1,
            calls: 1,
            ..Self::ADDS
        }
    }

    /// The same, but nothing can be called there.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const fn without_calls(self) -> Self {
        Self { calls: 0, ..self }
    }

    /// The same, with what is executed behind the site if that does not jump over it.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const fn with_behind(self, behind: u64) -> Self {
        Self { behind, ..self }
    }

    pub(crate) fn restores(&self) -> bool {
        self.restores != 0
    }

    /// The version that there is at first.
    pub(crate) fn first(&self) -> u64 {
        u64::from(!self.restores())
    }

    pub(crate) fn kind(&self, version: u64) -> VersionKind {
        match version % 8 {
            0 if self.restores != 0 => VersionKind::Restored,
            1 if self.calls != 0 => VersionKind::Calls,
            _ => VersionKind::Adds,
        }
    }

    /// The next version that is restored.
    pub(crate) fn next_restored(version: u64) -> u64 {
        version + (8 - version % 8)
    }

    /// What a version adds to the argument.
    fn value(&self, version: u64) -> u64 {
        match self.kind(version) {
            VersionKind::Restored => self.original,
            VersionKind::Calls => self.behind + SLOW + version,
            VersionKind::Adds => self.behind + version,
        }
    }
}

/// A generation of code that readers execute: the functions of a site each. Both processes see it.
#[repr(C)]
pub(crate) struct Running {
    pub(crate) number: u64,
    /// How many sites there are.
    count: u64,
    /// By site: the address of its function, and what that does.
    functions: [u64; MOST_SITES],
    schemes: [Scheme; MOST_SITES],
    /// By site: the last version that may be there, and the last that certainly is.
    pub(crate) announced: [AtomicU64; MOST_SITES],
    pub(crate) confirmed: [AtomicU64; MOST_SITES],
    /// Not 0 when another generation has taken its place.
    over: AtomicU32,
}

impl Running {
    /// A generation whose sites have their first versions.
    ///
    /// # Panics
    /// There are no sites, or more than [`MOST_SITES`].
    ///
    /// # Safety
    /// Where the value is read, these are functions of two integers, as long as it is.
    pub(crate) unsafe fn new(number: u64, sites: &[(u64, Scheme)]) -> Self {
        assert!((1..=MOST_SITES).contains(&sites.len()), "{} sites", sites.len());
        let of = |site: usize| sites.get(site).copied().unwrap_or((0, Scheme::ADDS));
        let first = |site: usize| AtomicU64::new(of(site).1.first());
        Self {
            number,
            count: sites.len() as u64,
            functions: std::array::from_fn(|site| of(site).0),
            schemes: std::array::from_fn(|site| of(site).1),
            announced: std::array::from_fn(first),
            confirmed: std::array::from_fn(first),
            over: AtomicU32::new(0),
        }
    }

    /// How many sites there are.
    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }

    pub(crate) fn scheme(&self, site: usize) -> &Scheme {
        &self.schemes[site]
    }

    /// Executes a site. Its function gets its argument twice: see `own_text`.
    #[inline]
    pub(crate) fn call(&self, site: usize, x: u64) -> u64 {
        // SAFETY: the promise at construction.
        let function: extern "C" fn(u64, u64) -> u64 =
            unsafe { std::mem::transmute(self.functions[site] as usize) };
        function(x, x)
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

/// Executes sites so many times, or until another generation takes this one's place, and checks each
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
    let (site, x) = ((number >> 32) as usize % running.count(), number & 0xf_ffff);
    let from = running.confirmed[site].load(Ordering::Acquire);
    let found = running.call(site, x).wrapping_sub(x);
    let to = running.announced[site].load(Ordering::Acquire);
    let scheme = running.scheme(site);
    let is_right = (from..=to).any(|version| scheme.value(version) == found);
    static SAID: AtomicU32 = AtomicU32::new(0);
    if !is_right && SAID.fetch_add(1, Ordering::Relaxed) < 10 {
        let generation = running.number;
        eprintln!(
            "generation {generation}, site {site}: {x:#x} became {found:#x} more, in versions {from}..={to}"
        );
    }
    is_right
}
