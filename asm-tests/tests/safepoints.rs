//! A collector on the stack of running code: found by the sizes of frames, references in them are
//! visited and moved.
//!
//! The table is made of the statepoints of LLVM's object, and once more of a plimmix map with the
//! same safepoints.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::cell::RefCell;

use patchpoint::addr::{CodeAddr, DwarfReg};
use patchpoint::metadata::{GcMap, ReturnSlot, Root, RootKind, Safepoints, StackMemory};
use patchpoint::publish::SingleThreaded;
use patchpoint::site::Module;
use patchpoint::stackmap::{Endian, StackMaps, StackSize};
use patchpoint::{CallShape, Engine};

const OBJECT: &[u8] = include_bytes!("../objects/metadata/roots.x86_64.o");

static OLD: [[u64; 4]; 2] = [[900; 4]; 2];
static NEW: [[u64; 4]; 2] = [[1, 2, 3, 4], [5, 6, 7, 8]];

/// Where the word that a reference points to is now: in the first word of an object, or, for what a
/// plimmix map cannot say to be derived, in any.
fn moved(root: Root, word: u64) -> u64 {
    let inside = |old: &[u64; 4]| {
        let offset = word.wrapping_sub(old.as_ptr() as u64);
        (offset < 32 && (offset == 0 || root.kind == RootKind::Other)).then_some(offset)
    };
    let mut found = OLD
        .iter()
        .zip(&NEW)
        .filter_map(|(old, new)| Some(inside(old)? + new.as_ptr() as u64));
    found.next().expect("a reference to an object")
}

/// The stack of this thread.
struct Live;

impl StackMemory for Live {
    fn read(&self, addr: u64) -> Option<u64> {
        // SAFETY: the walk gives addresses in the frames between the collector and this test, which stay while it runs.
        Some(unsafe { std::ptr::read_volatile(addr as *const u64) })
    }

    fn write(&mut self, addr: u64, word: u64) -> Option<()> {
        // SAFETY: as above; the frames' words are changed by nobody else.
        unsafe { std::ptr::write_volatile(addr as *mut u64, word) };
        Some(())
    }
}

type Collector = Box<dyn FnMut(CodeAddr, u64)>;

thread_local! {
    static COLLECTOR: RefCell<Option<Collector>> = const { RefCell::new(None) };
}

extern "C" fn collect(pc: u64, sp: u64) {
    COLLECTOR.with_borrow_mut(|collector| collector.as_mut().unwrap()(CodeAddr::new(pc), sp));
}

// Passes on where it returns to and the stack pointer there.
std::arch::global_asm!(
    ".globl collect_from_here",
    "collect_from_here:",
    "mov rdi, [rsp]",
    "lea rsi, [rsp + 8]",
    "sub rsp, 8",
    "call {collect}",
    "add rsp, 8",
    "ret",
    collect = sym collect,
);

unsafe extern "C" {
    safe fn collect_from_here();
}

/// The code, and its stack map section. Nothing in it is patched.
fn load() -> (Engine, Module, Vec<u8>) {
    // SAFETY: the test runs its code on its own thread alone.
    let alone = unsafe { SingleThreaded::promise() };
    let engine = Engine::builder().world(alone).build().unwrap();
    let here = CodeAddr::new(collect_from_here as *const () as u64);
    let code = engine
        .load(OBJECT, |name| (name == "collect").then_some(here))
        .unwrap();
    let maps = code.image().stack_maps.clone();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { engine.register(code, |_| None::<CallShape>) }.unwrap();
    (engine, module, maps)
}

/// Runs `outer` with a collector that uses the table; what it saw of each frame: how many roots, of
/// them how many derived.
fn run(module: &Module, table: &Safepoints) -> (u64, Vec<(usize, usize)>) {
    let (table, seen) = (table.clone(), std::rc::Rc::new(RefCell::new(Vec::new())));
    let frames_seen = std::rc::Rc::clone(&seen);
    let collector = move |pc, sp| {
        let mut frames = table.walk(pc, sp, ReturnSlot::X86_64);
        while let Some(frame) = frames.next(&Live).unwrap() {
            let roots = frame.safepoint().roots();
            let derived = roots.clone().filter(|root| root.base.is_some()).count();
            frames_seen.borrow_mut().push((roots.len(), derived));
            frame.update(&mut Live, moved).unwrap();
        }
        assert!(table.at(frames.outside()).is_none());
    };
    COLLECTOR.set(Some(Box::new(collector)));
    module.release();
    let entry = module.function("outer").unwrap().entry().unwrap();
    // SAFETY: that is the function's signature in the IR; the module stays registered while it runs.
    let outer: extern "C" fn(*const u64, u64, *const u64) -> u64 =
        unsafe { std::mem::transmute(entry.get() as usize) };
    let result = outer(OLD[0].as_ptr(), 2, OLD[1].as_ptr());
    (result, seen.take())
}

fn statepoints(maps: &[u8]) -> Safepoints {
    let maps = StackMaps::parse(maps, Endian::Little).unwrap();
    Safepoints::from_statepoints(&maps, DwarfReg::new(7), Some).unwrap()
}

const RESULT: u64 = 1 + 10 * 3 + 100 * 5 + 1000 * 5;

#[test]
fn the_references_of_every_frame_follow_a_move() {
    let (_engine, module, maps) = load();
    let (result, seen) = run(&module, &statepoints(&maps));
    assert_eq!(seen, [(1, 0), (3, 1)]);
    assert_eq!(result, RESULT);
}

/// What the plug-in would write of the same code: each safepoint with its frame in words and its
/// roots. It knows no derived pointers: here, the collector has to be told that word otherwise.
fn gc_map(table: &Safepoints, maps: &[u8]) -> Vec<u8> {
    let parsed = StackMaps::parse(maps, Endian::Little).unwrap();
    let map = &parsed.maps()[0];
    let mut bytes = vec![1, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend((map.functions().len() as u32).to_le_bytes());
    for function in map.functions() {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let record = function.records().unwrap().next().unwrap();
        let pc = function.address() + u64::from(record.offset().get());
        let roots = table.at(CodeAddr::new(pc)).unwrap().roots();
        let StackSize::Known(size) = function.stack_size() else {
            panic!("fixed frames");
        };
        bytes.extend(function.address().to_le_bytes());
        for word in [size as u32 / 8, 0, roots.len() as u32, 1] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(pc.to_le_bytes());
        for root in roots {
            bytes.extend(root.offset.to_le_bytes());
            bytes.extend(if root.base.is_some() { 4_u32 } else { 3 }.to_le_bytes());
        }
    }
    bytes.extend([0; 4]);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

#[test]
fn a_plimmix_map_of_the_same_code_walks_it_too() {
    let (_engine, module, maps) = load();
    let bytes = gc_map(&statepoints(&maps), &maps);
    let map = GcMap::parse(&bytes, Endian::Little).unwrap();
    assert_eq!(map.byte_len(), bytes.len());
    let table = Safepoints::from_gc_map(&map).unwrap();
    let (result, seen) = run(&module, &table);
    assert_eq!(seen, [(1, 0), (3, 0)]);
    assert_eq!(result, RESULT);
}
