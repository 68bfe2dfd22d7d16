//! The comparisons: writing through each strategy against the bare calls, and a hit against one
//! written by hand.

use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use patchpoint::addr::CodeAddr;
use patchpoint::engine::{Engine, LoadedCode, Prepared};
use patchpoint::memory::{Arena, CodeMemory, Reach, SegmentKind, SegmentNeed, StrategyChoice};
use patchpoint::publish::serialize;
use patchpoint::sequence::Sequence;
use patchpoint::site::{Module, Site};
use patchpoint::verify;

use crate::measure::{Effort, Figure, interleave, time};
use crate::pages::{self, PAGE};
use crate::report::Row;
use crate::subject::{self, Copies, HANDWRITTEN, INLINE_ASM, Object, RESERVED, SHAPE, SLOWER};

/// The sites that the commits of a batch change, one each.
const SITES: usize = 32;

/// More than a page, so that every site is on one of its own and they do not all compete for one
/// set of the cache.
const STRIDE: usize = PAGE + 256;

const COMMITS: Effort = Effort {
    batches: 401,
    operations: SITES,
};

/// All of them.
pub fn all() -> Vec<Row> {
    let mut rows = vec![alias_write()];
    rows.extend(commits());
    rows.extend(hits());
    rows
}

/// A prepared site through each strategy.
pub fn commits() -> [Row; 4] {
    [alias_commit(), remap_commit(), proc_mem_commit(), toggle_commit()]
}

/// Prepares a transaction for each site, one after the other, and commits it, or does the bare
/// thing in its place; only that counts. Preparing goes before both, as it leaves the caches in a
/// state that matters. From commit to commit a site goes back and forth between two sequences, so
/// that each changes bytes.
struct Commits<'e> {
    engine: &'e Engine,
    sites: Vec<Site>,
    sequences: [Sequence; 2],
    next: usize,
}

impl<'e> Commits<'e> {
    fn new(engine: &'e Engine, sites: Vec<Site>) -> Self {
        assert_eq!(sites.len(), SITES);
        Self {
            engine,
            sites,
            sequences: [subject::hit(8), subject::hit(16)],
            next: 0,
        }
    }

    /// A batch of commits.
    fn commits(&mut self) -> Duration {
        self.next ^= 1;
        self.each(|_, prepared| time(|| _ = black_box(prepared.commit().unwrap())))
    }

    /// A batch of what is compared with them. `bare` returns the time that counts.
    fn bare(&self, bare: impl Fn(&Site) -> Duration) -> Duration {
        self.each(|site, _| bare(site))
    }

    fn each(&self, timed: impl Fn(&Site, Prepared<'_>) -> Duration) -> Duration {
        let sequence = &self.sequences[self.next];
        let one = |site| {
            let mut transaction = self.engine.transaction();
            transaction.patch_site(site, sequence).unwrap();
            timed(site, transaction.prepare().unwrap())
        };
        self.sites.iter().map(one).sum()
    }

    /// Commits and the bare thing in turn, without what taking the time adds to an operation that
    /// serializes: what one takes longer than the second of two, in the same state of the caches.
    /// The time of nothing would be too much, as a part of the clock's own work goes on beside the
    /// operation: a copy would then take less than serializing does.
    fn compare(mut self, bare: impl Fn(&Site) -> Duration) -> [Figure; 2] {
        let this = std::cell::RefCell::new(&mut self);
        let twice = || {
            serialize();
            serialize();
        };
        let ways: [&mut dyn FnMut() -> Duration; 4] = [
            &mut || this.borrow_mut().commits(),
            &mut || this.borrow().bare(&bare),
            &mut || this.borrow().bare(|_| time(serialize)),
            &mut || this.borrow().bare(|_| time(twice)),
        ];
        let [commits, bare, once, twice] = interleave(COMMITS, ways);
        let clock = 2.0 * once.median - twice.median;
        [commits, bare].map(|figure| figure.less(clock))
    }
}

/// 32 bytes, other ones for each number.
fn bytes(number: usize) -> [u8; RESERVED] {
    [number as u8; RESERVED]
}

fn alias_write() -> Row {
    let need = SegmentNeed {
        kind: SegmentKind::Code,
        len: (SITES * STRIDE) as u64,
        align: PAGE as u64,
    };
    let placed = Arena::default()
        .place(&[need], Reach::Anywhere)
        .unwrap()
        .finalize()
        .unwrap();
    let start = placed.segments()[0].range.start().get();
    // SAFETY: nothing executes what is placed.
    let alias = unsafe { placed.writable() };
    let memory: &dyn CodeMemory = black_box(&alias);
    let view = pages::writable_view_of_code(SITES * STRIDE);
    let at = |base: u64, number: usize| base + (number * STRIDE) as u64;
    let mut ours = || {
        time(|| {
            for number in 0..SITES {
                memory
                    .write(CodeAddr::new(at(start, number)), black_box(&bytes(number)))
                    .unwrap();
                serialize();
            }
        })
    };
    let mut bare = || {
        time(|| {
            for number in 0..SITES {
                // SAFETY: in the view.
                unsafe { pages::copy(at(view, number), black_box(&bytes(number))) };
                serialize();
            }
        })
    };
    let figures = interleave(COMMITS, [&mut ours, &mut bare]);
    Row::against(
        "Alias: CodeMemory::write of 32 bytes, serialize",
        figures,
        "bare copy of 32 bytes to the view, serialize",
        None,
    )
}

fn alias_commit() -> Row {
    let engine = subject::engine();
    let modules: Vec<Module> = (0..SITES / 2).map(|_| subject::module(&engine)).collect();
    let sites = modules.iter().flat_map(subject::reads).collect();
    let view = pages::writable_view_of_code(STRIDE);
    let figures = Commits::new(&engine, sites).compare(|site| {
        // Where the site is in its page.
        let at = view + site.addr().get() % (PAGE - RESERVED) as u64;
        let bytes = installed(site);
        time(|| {
            // SAFETY: in the view.
            unsafe { pages::copy(at, black_box(&bytes)) };
            serialize();
        })
    });
    Row::against(
        "Alias: commit of a prepared site of 32 bytes",
        figures,
        "bare copy of 32 bytes to the view, serialize",
        Some(3.0),
    )
}

/// Sites in a JIT's memory, one on each page, and the bytes that are there.
fn foreign_sites(engine: &Engine, ask: StrategyChoice) -> (Module, Vec<Site>) {
    let code = Copies::new(engine, SITES, STRIDE).adopt(engine, ask).unwrap();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { engine.register(code, subject::shape) }.unwrap();
    let sites = subject::reads(&module).into_iter().step_by(2).collect();
    (module, sites)
}

/// What a site holds, to be written there once more.
fn installed(site: &Site) -> Vec<u8> {
    // SAFETY: the site's code stays mapped.
    unsafe { pages::read(site.addr().get(), RESERVED) }
}

/// The same code in a JIT's memory that was remapped, and in the engine's.
fn remap_commit() -> Row {
    let engine = subject::engine();
    let (_remapped, sites) = foreign_sites(&engine, StrategyChoice::Remap);
    let mut remapped = Commits::new(&engine, sites);
    let modules: Vec<Module> = (0..SITES / 2).map(|_| subject::module(&engine)).collect();
    let mut alias = Commits::new(&engine, modules.iter().flat_map(subject::reads).collect());
    let figures = interleave(COMMITS, [&mut || remapped.commits(), &mut || alias.commits()]);
    Row::against(
        "Remap: commit of a prepared site of 32 bytes",
        figures,
        "Alias: commit of a prepared site of 32 bytes",
        Some(1.1),
    )
}

fn proc_mem_commit() -> Row {
    let engine = subject::engine();
    let (_module, sites) = foreign_sites(&engine, StrategyChoice::ProcMem);
    let file = std::fs::File::options()
        .write(true)
        .open("/proc/self/mem")
        .unwrap();
    let figures = Commits::new(&engine, sites).compare(|site| {
        let (at, bytes) = (site.addr().get(), installed(site));
        time(|| {
            file.write_all_at(&bytes, at).unwrap();
            serialize();
        })
    });
    Row::against(
        "ProcMem: commit of a prepared site of 32 bytes",
        figures,
        "bare pwrite of 32 bytes to the same place, serialize",
        Some(1.2),
    )
}

fn toggle_commit() -> Row {
    let engine = subject::engine();
    let (_module, sites) = foreign_sites(&engine, StrategyChoice::Toggle);
    let figures = Commits::new(&engine, sites).compare(|site| {
        let (at, bytes) = (site.addr().get(), installed(site));
        let page = at & !(PAGE as u64 - 1);
        time(|| {
            // SAFETY: the page is the measurement's and nothing runs there.
            unsafe { pages::protect(page, PAGE, true) };
            // SAFETY: read-write now; the bytes are those that are there already.
            unsafe { pages::copy(at, &bytes) };
            // SAFETY: as above.
            unsafe { pages::protect(page, PAGE, false) };
            serialize();
        })
    });
    Row::against(
        "Toggle: commit of a prepared site of 32 bytes",
        figures,
        "bare mprotect pair on the same page, copy, serialize",
        Some(1.15),
    )
}

/// The objects over which the loop goes.
const OBJECTS: usize = 1000;

const HITS: Effort = Effort {
    batches: 1001,
    operations: 8 * OBJECTS,
};

type SumFields = extern "C" fn(*const *const Object, u64) -> u64;

/// The compiled loop, in three ways, and once with a check that is slower on purpose.
pub struct Loops {
    engine: Engine,
    patched: Module,
    // The code stays mapped as long as these.
    handwritten: LoadedCode,
    inline_asm: LoadedCode,
    slower: LoadedCode,
}

impl Loops {
    /// Loads all and patches the first. Their entries lie alike in cache lines: where a loop starts
    /// in one can cost more than what is measured.
    pub fn new() -> Self {
        let engine = subject::engine();
        let patched = subject::module(&engine);
        engine.patch(subject::READ, &subject::hit(8)).unwrap();
        patched.release();
        let want = patched.function("sum_fields").unwrap().addr().get() % 64;
        // Loads that do not suit are kept until one does, else the next would get the same place.
        let load = |object| {
            let mut loads = Vec::new();
            loop {
                let code = subject::load(&engine, object);
                if code.symbol("sum_fields").unwrap().get() % 64 == want {
                    return code;
                }
                loads.push(code);
                assert!(loads.len() < 64, "no load begins {want} bytes into a cache line");
            }
        };
        Self {
            handwritten: load(HANDWRITTEN),
            inline_asm: load(INLINE_ASM),
            slower: load(SLOWER),
            patched,
            engine,
        }
    }

    fn addrs(&self) -> [CodeAddr; 4] {
        let patched = self.patched.function("sum_fields").unwrap().entry().unwrap();
        let symbol = |code: &LoadedCode| code.symbol("sum_fields").unwrap();
        [
            patched,
            symbol(&self.handwritten),
            symbol(&self.inline_asm),
            symbol(&self.slower),
        ]
    }

    /// The functions: patched, written by hand, with inline assembly, slower on purpose.
    pub fn functions(&self) -> [SumFields; 4] {
        // SAFETY: each is the C function that its source says, mapped as long as the engine.
        self.addrs()
            .map(|addr| unsafe { std::mem::transmute::<usize, SumFields>(addr.get() as usize) })
    }

    /// Their disassembly.
    pub fn show(&self) -> String {
        let names = [
            "patched",
            "written by hand",
            "inline assembly",
            "slower on purpose",
        ];
        let len = self.patched.function("sum_fields").unwrap().len().as_usize();
        // The others have no nops in the loop, and are shorter by about as much.
        let lens = [len, len - 19, len - 16, len - 13];
        let mut out = String::new();
        for ((name, addr), len) in names.iter().zip(self.addrs()).zip(lens) {
            // SAFETY: code that was loaded; the room taken for it is longer than the function.
            let code = unsafe { pages::read(addr.get(), len) };
            out += &format!(
                "sum_fields, {name}, {} bytes into a cache line:\n",
                addr.get() % 64
            );
            for line in verify::disassemble(self.engine.modules()[0].arch(), addr, &code) {
                out += &format!("  {:x}  {}\n", line.addr.get(), line.text);
            }
        }
        out
    }

    /// The bytes of the patched site that are nops.
    pub fn padding(&self) -> usize {
        let site = subject::reads(&self.patched).pop().unwrap();
        let assembled = subject::assemble(&subject::hit(8), &site.context(&[]), subject::a_exit_stub(&site));
        assembled.slack().as_usize()
    }
}

impl Default for Loops {
    fn default() -> Self {
        Self::new()
    }
}

/// The objects, and what the loop has to return for them.
pub fn objects() -> (Vec<Object>, u64) {
    let object = |property| Object {
        shape: u64::from(SHAPE),
        property,
    };
    let objects: Vec<Object> = (0..OBJECTS as u64).map(object).collect();
    let count = OBJECTS as u64;
    let sum = objects.iter().map(|object| object.property).sum::<u64>() + count + count / 2;
    (objects, sum)
}

fn hits() -> Vec<Row> {
    let loops = Loops::new();
    let (objects, sum) = objects();
    let pointers: Vec<*const Object> = objects.iter().map(std::ptr::from_ref).collect();
    let [patched, handwritten, inline_asm, slower] = loops.functions().map(|function| {
        let pointers = pointers.clone();
        move || {
            time(|| {
                for _ in 0..HITS.operations / OBJECTS {
                    assert_eq!(function(black_box(pointers.as_ptr()), OBJECTS as u64), sum);
                }
            })
        }
    });
    let (mut a, mut b, mut c, mut d) = (patched, handwritten, inline_asm, slower);
    let [patched, handwritten, inline_asm, slower] = interleave(HITS, [&mut a, &mut b, &mut c, &mut d]);
    vec![
        Row::against(
            "hit in the patched loop, per object",
            [patched.clone(), handwritten.clone()],
            "the same loop, check written by hand, no nops",
            Some(1.05),
        ),
        Row::against(
            "hit in the patched loop, per object",
            [patched, inline_asm],
            "the same source, check as inline assembly",
            None,
        ),
        Row::against(
            "sensitivity: one more dependent load in the check",
            [slower, handwritten],
            "the same loop, check written by hand, no nops",
            None,
        ),
    ]
}
