//! The comparisons: writing through each strategy against the bare calls, and a hit against one
//! written by hand.

use std::hint::black_box;

use patchpoint::addr::CodeAddr;
use patchpoint::engine::{Engine, LoadedCode};
use patchpoint::memory::{Arena, CodeMemory, Reach, SegmentKind, SegmentNeed, StrategyChoice};
use patchpoint::publish::serialize;
use patchpoint::site::Module;
use patchpoint::verify;

use crate::commits::{Commits, SITES, STRIDE, Way, in_turn};
use crate::limits::{Copied, Limit, Pwritten, Toggled};
use crate::measure::{Effort, Figure, interleave, time};
use crate::pages::{self, PAGE};
use crate::report::Row;
use crate::subject::{self, HANDWRITTEN, INLINE_ASM, Object, RESERVED, SHAPE, SLOWER};

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

/// Commits against a limit.
fn against(mut ours: Commits, limit: &impl Limit) -> [Figure; 2] {
    let ours = std::cell::RefCell::new(&mut ours);
    let commits = Way::one_by_one(|| ours.borrow_mut().commits());
    let bare = Way::one_by_one(|| ours.borrow().bare(limit));
    pair(vec![commits, bare])
}

fn pair(ways: Vec<Way<'_>>) -> [Figure; 2] {
    in_turn(COMMITS.batches, ways).try_into().unwrap()
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
    Row::against(
        "Alias: commit of a prepared site of 32 bytes",
        against(Commits::loaded(), &Copied::new(1)),
        "bare copy of 32 bytes to the view, serialize",
        Some(3.0),
    )
}

/// The same code in a JIT's memory that was remapped, and in the engine's.
fn remap_commit() -> Row {
    let (mut remapped, mut alias) = (Commits::foreign(StrategyChoice::Remap), Commits::loaded());
    let ways = vec![
        Way::one_by_one(|| remapped.commits()),
        Way::one_by_one(|| alias.commits()),
    ];
    Row::against(
        "Remap: commit of a prepared site of 32 bytes",
        pair(ways),
        "Alias: commit of a prepared site of 32 bytes",
        Some(1.1),
    )
}

fn proc_mem_commit() -> Row {
    Row::against(
        "ProcMem: commit of a prepared site of 32 bytes",
        against(Commits::foreign(StrategyChoice::ProcMem), &Pwritten::new()),
        "bare pwrite of 32 bytes to the same place, serialize",
        Some(1.2),
    )
}

fn toggle_commit() -> Row {
    Row::against(
        "Toggle: commit of a prepared site of 32 bytes",
        against(Commits::foreign(StrategyChoice::Toggle), &Toggled),
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
