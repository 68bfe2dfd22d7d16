//! Every function of every object is run: loaded, its sites filled with the contract's instructions, and its
//! result compared with the reference's. This shows that the loader relocates right, that the stack maps'
//! places are understood, and that the objects keep their contract, before any engine is involved.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(unsafe_code, reason = "the point is to run the code")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use asm_tests::{Function, Param, Source};
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::{Convention, SiteKind};
use patchpoint::image::{FunctionRange, LinkedImage, Object, Reach, SegmentKind};
use patchpoint::stackmap::{Place, Record, StackMaps};
use region::{Allocation, Protection};

const PAGE: u32 = 4096;

/// An image in memory, readable and writable or readable and executable, never all three.
struct Loaded {
    linked: LinkedImage,
    memory: Allocation,
}

/// Low memory for objects that need it: each gets its own range below 2 GiB.
fn reserve(reach: Reach, size: usize) -> Allocation {
    if reach == Reach::Anywhere {
        return region::alloc(size, Protection::READ_WRITE).unwrap();
    }
    // A position-independent program has nothing between its lowest mappings and 2 GiB.
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000_0000);
    loop {
        let at = NEXT.fetch_add(0x10_0000, Ordering::Relaxed);
        assert!(at < 0x7000_0000, "no low memory left");
        if let Ok(memory) = region::alloc_at(at as *const u8, size, Protection::READ_WRITE) {
            return memory;
        }
    }
}

fn resolve(name: &str) -> Option<CodeAddr> {
    asm_tests::resolve(name).map(CodeAddr::new)
}

fn load(bytes: &[u8], patch: impl Fn(&mut LinkedImage)) -> patchpoint::Result<Loaded> {
    let layout = Object::parse(bytes)?.layout()?;
    let (_, size) = layout.contiguous(CodeAddr::new(0x10000), Len::new(PAGE)).unwrap();
    let mut memory = reserve(layout.reach(), size as usize);
    let base = memory.as_mut_ptr::<u8>();
    let (addrs, _) = layout
        .contiguous(CodeAddr::new(base as u64), Len::new(PAGE))
        .unwrap();
    let mut linked = layout.link(&addrs, &resolve)?;
    patch(&mut linked);
    for segment in &linked.segments {
        let offset = (segment.addr.get() - base as u64) as usize;
        assert!(offset + segment.bytes.len() <= memory.len());
        // SAFETY: the allocation is readable and writable, ours alone, and the range was just checked to be
        // in it.
        unsafe {
            base.add(offset)
                .copy_from_nonoverlapping(segment.bytes.as_ptr(), segment.bytes.len())
        };
        let protection = match segment.kind {
            SegmentKind::Code => Protection::READ_EXECUTE,
            SegmentKind::ReadOnly => Protection::READ,
            SegmentKind::Data => Protection::READ_WRITE,
        };
        // SAFETY: the pages belong to this segment alone, and nobody holds a reference into them.
        unsafe { region::protect(base.add(offset), segment.bytes.len(), protection) }.unwrap();
    }
    Ok(Loaded { linked, memory })
}

impl Loaded {
    fn call(&self, name: &str, args: [u64; 6]) -> u64 {
        let addr = self
            .linked
            .symbol(name)
            .unwrap_or_else(|| panic!("no {name}"))
            .get() as usize;
        assert!(self.memory.as_ptr_range::<u8>().contains(&(addr as *const u8)));
        // SAFETY: it is the code of a function that takes up to six integers and returns one; unused argument
        // registers do no harm.
        let function = unsafe {
            core::mem::transmute::<usize, extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64>(addr)
        };
        let [a, b, c, d, e, f] = args;
        function(a, b, c, d, e, f)
    }
}

/// The hardware numbers of the general registers in DWARF's order.
const HARDWARE: [u8; 16] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
const R11: u8 = 11;

fn two_registers(opcode: u8, to: u8, from: u8) -> [u8; 3] {
    [
        0x48 | (from >> 3) << 2 | to >> 3,
        opcode,
        0xc0 | (from & 7) << 3 | to & 7,
    ]
}

/// `result = first argument + ID`: as an immediate if it fits, else with r11 for the ID.
fn contract(result: u8, argument: Option<u8>, id: u64) -> Vec<u8> {
    if let (Some(argument), Ok(small)) = (argument, i32::try_from(id as i64)) {
        let mut code = two_registers(0x89, result, argument).to_vec();
        code.extend([0x48 | result >> 3, 0x81, 0xc0 | result & 7]);
        code.extend(small.to_le_bytes());
        return code;
    }
    let mut code = vec![0x49, 0xbb];
    code.extend(id.to_le_bytes());
    match argument {
        Some(argument) => {
            code.extend(two_registers(0x89, result, argument));
            code.extend(two_registers(0x01, result, R11));
        }
        None => code.extend(two_registers(0x89, result, R11)),
    }
    code
}

fn register(record: &Record<'_>, index: usize) -> u8 {
    match record.locations().get(index).unwrap().place {
        Place::Register { reg, bit_offset: 0 } => HARDWARE[usize::from(reg.get())],
        place => panic!("{}: location {index} is {place:?}", record.id()),
    }
}

/// The bytes that the contract wants in the site, padded with nops to the reserved length.
fn filling(source: &Source, record: &Record<'_>) -> Option<Vec<u8>> {
    let shape = source
        .shape(record.id().get())
        .unwrap_or_else(|| panic!("{} unknown", record.id()));
    if shape.kind() != SiteKind::Patchpoint {
        return None;
    }
    let mut code = match (shape.has_result(), shape.convention()) {
        (false, _) => Vec::new(),
        (true, Convention::AnyReg) => {
            let argument = (shape.arg_count() > 0).then(|| register(record, 1));
            contract(register(record, 0), argument, record.id().get())
        }
        (true, _) => contract(0, (shape.arg_count() > 0).then_some(7), record.id().get()),
    };
    let reserved = shape.reserved().as_usize();
    assert!(code.len() <= reserved, "{} reserves {reserved}", record.id());
    code.resize(reserved, 0x90);
    Some(code)
}

fn patch(linked: &mut LinkedImage, source: &Source) {
    let image = &linked.image;
    let code = linked
        .segments
        .iter_mut()
        .find(|segment| segment.kind == SegmentKind::Code)
        .unwrap();
    let maps = StackMaps::parse(&image.stack_maps, image.endian).unwrap();
    for function in maps.maps().iter().flat_map(|map| map.functions()) {
        let FunctionRange { addr, len, .. } = image.function_at(CodeAddr::new(function.address())).unwrap();
        for record in function.records().unwrap() {
            let Some(filling) = filling(source, &record) else {
                continue;
            };
            assert!(record.offset().get() as usize + filling.len() <= len.as_usize());
            let start = (addr.get() - code.addr.get()) as usize + record.offset().get() as usize;
            code.bytes[start..start + filling.len()].copy_from_slice(&filling);
        }
    }
}

/// Parameters: extremes, and a few that are nothing special.
const NUMBERS: [u64; 7] = [0, 1, 41, u64::MAX, 1 << 63, 0x0123_4567_89ab_cdef, 0xffff_ffff];

fn arguments(function: &Function, round: usize, words: &mut [u64; 16]) -> [u64; 6] {
    let mut args = [0; 6];
    for (index, param) in function.params.iter().enumerate() {
        args[index] = match param {
            Param::Int => NUMBERS[(round * (index + 1) + index) % NUMBERS.len()],
            Param::Pointer => words.as_mut_ptr() as u64,
        };
    }
    args
}

fn compare(source: &Source, name: &str, patched: &Loaded, reference: &Loaded) -> usize {
    let mut calls = 0;
    for function in &source.functions {
        if function.avx && !asm_tests::has_avx() {
            continue;
        }
        for round in 0..NUMBERS.len() {
            // The same memory for both, since its address may go into the result.
            let mut words = core::array::from_fn(|index| index as u64 * 0x0101_0101 + 7);
            let before = words;
            let args = arguments(function, round, &mut words);
            let expected = reference.call(&function.name, args);
            words.copy_from_slice(&before);
            let found = patched.call(&function.name, args);
            assert_eq!(found, expected, "{name}: {}({args:x?})", function.name);
            calls += 1;
        }
    }
    calls
}

#[test]
fn every_function_returns_what_its_reference_does() {
    let (mut calls, mut objects) = (0, 0);
    for object in asm_tests::objects() {
        let source = asm_tests::source(&object.source);
        let reference = load(&asm_tests::reference(&object.source), |_| {}).unwrap();
        let patched = load(&object.bytes, |linked| patch(linked, &source));
        let patched = patched.unwrap_or_else(|error| panic!("{}: {error}", object.name));
        calls += compare(&source, &object.name, &patched, &reference);
        objects += 1;
    }
    println!("{calls} calls of functions from {objects} objects");
    assert!(calls > 4000 && objects >= 112);
}

/// Without patching, what has no result and what LLVM filled with calls to symbols.
#[test]
fn functions_whose_sites_need_no_patch_run_as_they_are() {
    let mut calls = 0;
    for name in ["shadow", "calls"] {
        let mut source = asm_tests::source(name);
        let needs_patch = |function: &Function| {
            source.sites.iter().any(|site| {
                let calls_symbol = matches!(site.target, asm_tests::Target::Symbol(_));
                site.function == function.name && site.shape.has_result() && !calls_symbol
            }) || function.name == "call_inner"
        };
        let functions = source
            .functions
            .iter()
            .filter(|function| !needs_patch(function))
            .cloned()
            .collect();
        source.functions = functions;
        let reference = load(&asm_tests::reference(name), |_| {}).unwrap();
        for object in asm_tests::objects().iter().filter(|object| object.source == name) {
            calls += compare(
                &source,
                &object.name,
                &load(&object.bytes, |_| {}).unwrap(),
                &reference,
            );
        }
    }
    assert!(calls > 200, "{calls}");
}
