//! Every function of every object is run: loaded, its sites filled with the contract's
//! instructions, and its result compared with the reference's. This shows that the loader relocates
//! right, that the stack maps' places are understood, and that the objects keep their contract,
//! before any engine is involved.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "the point is to run the code")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use asm_tests::{Function, NATIVE, Param, Source, TestObject, native_objects, resolve_for};
use patchpoint::CallShape;
use patchpoint::addr::{CodeAddr, CodeRange, Len, RecordId};
use patchpoint::arch::{Arch, SiteContext, SiteKind};
use patchpoint::image::{FunctionRange, ImageReach, LinkedImage, Object, SegmentKind};
use patchpoint::publish::{Level, Publisher};
use patchpoint::sequence::{Environment, Fit, Sequence, arg, assemble, result};
use patchpoint::stackmap::{Constants, Record, StackMaps};
use region::{Allocation, Protection};

/// An image in memory, readable and writable or readable and executable, never all three.
struct Loaded {
    linked: LinkedImage,
    memory: Allocation,
}

/// Low memory for objects that need it: each gets its own range below 2 GiB.
fn reserve(reach: ImageReach, size: usize) -> Allocation {
    if reach == ImageReach::Anywhere {
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

fn load(bytes: &[u8], patch: impl Fn(&mut LinkedImage)) -> patchpoint::Result<Loaded> {
    let layout = Object::parse(bytes)?.layout()?;
    let page = Len::new(region::page::size() as u32);
    let (_, size) = layout.contiguous(CodeAddr::new(0x10000), page).unwrap();
    let mut memory = reserve(layout.reach(), size as usize);
    let base = memory.as_mut_ptr::<u8>();
    let (addrs, _) = layout.contiguous(CodeAddr::new(base as u64), page).unwrap();
    let mut linked = layout.link(&addrs, &resolve_for(bytes))?;
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
        unsafe { region::protect(base.add(offset), segment.size.as_usize(), protection) }.unwrap();
        let range = CodeRange::new(segment.addr, segment.size.get().into()).unwrap();
        // SAFETY: the range is mapped and readable, see above.
        unsafe { Publisher::new().publish_code(&[range], Level::Eventual) }?;
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

/// What the contract wants in a site: the first argument plus the ID.
fn contract(shape: CallShape, id: RecordId) -> Sequence {
    match (shape.has_result(), shape.arg_count()) {
        (false, _) => Sequence::new(),
        (true, 0) => Sequence::new().mov(result(), id.get()),
        (true, _) => Sequence::new().mov(result(), arg(0)).add(result(), id.get()),
    }
}

/// The bytes that the contract wants in the site, padded with nops to the reserved length.
fn filling(
    source: &Source,
    constants: Constants<'_>,
    record: Record<'_>,
    start: CodeAddr,
) -> Option<Vec<u8>> {
    let shape = source
        .shape(record.id().get())
        .unwrap_or_else(|| panic!("{} unknown", record.id()));
    if shape.kind() != SiteKind::Patchpoint || shape.reserved().get() == 0 {
        return None;
    }
    let site = SiteContext {
        arch: Arch::host().unwrap(),
        id: record.id(),
        function: None,
        offset: record.offset(),
        addr: start.at(record.offset()).unwrap(),
        shape,
        record: Some(record),
        constants,
        return_offsets: &[],
        trust_live_outs: false,
    };
    let fit = assemble(&contract(shape, record.id()), &site, &Environment::default());
    match fit.unwrap_or_else(|error| panic!("{error}")) {
        Fit::InPlace(assembled) => Some(assembled.code),
        Fit::OutOfLine { stub_len } => panic!("{} needs a stub of {stub_len}", record.id()),
    }
}

fn patch(linked: &mut LinkedImage, source: &Source) {
    let image = &linked.image;
    let code = linked
        .segments
        .iter_mut()
        .find(|segment| segment.kind == SegmentKind::Code)
        .unwrap();
    let maps = StackMaps::parse(&image.stack_maps, image.endian).unwrap();
    for map in maps.maps() {
        for function in map.functions() {
            let FunctionRange { addr, len, .. } =
                image.function_at(CodeAddr::new(function.address())).unwrap();
            for record in function.records().unwrap() {
                let Some(filling) = filling(source, map.constants(), record, *addr) else {
                    continue;
                };
                assert!(record.offset().get() as usize + filling.len() <= len.as_usize());
                let start = (addr.get() - code.addr.get()) as usize + record.offset().get() as usize;
                code.bytes[start..start + filling.len()].copy_from_slice(&filling);
            }
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

fn compare(
    source: &Source,
    object: &TestObject,
    patched: &Loaded,
    reference: &Loaded,
    which: impl Fn(&Function) -> bool,
) -> usize {
    let mut calls = 0;
    for function in &source.functions {
        if function.avx && !asm_tests::has_avx() || !which(function) {
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
            assert_eq!(found, expected, "{}: {}({args:x?})", object.name, function.name);
            calls += 1;
        }
    }
    calls
}

#[test]
fn every_function_returns_what_its_reference_does() {
    let (mut calls, objects) = (0, native_objects());
    for object in &objects {
        let source = object.folder.source(&object.source);
        let reference = load(&object.folder.reference(&object.source), |_| {}).unwrap();
        let patched = load(&object.bytes, |linked| patch(linked, &source));
        let patched = patched.unwrap_or_else(|error| panic!("{}: {error}", object.name));
        let kept = |function: &Function| !object.loses_arguments(&source, &function.name);
        calls += compare(&source, object, &patched, &reference, kept);
    }
    println!("{calls} calls of functions from {} objects", objects.len());
    assert!(calls > 1500 && objects.len() >= 40);
}

/// Without patching, what has no result and what LLVM filled with calls to symbols.
#[test]
fn functions_whose_sites_need_no_patch_run_as_they_are() {
    let mut calls = 0;
    for object in native_objects() {
        if !["shadow", "calls"].contains(&object.source.as_str()) {
            continue;
        }
        let source = object.folder.source(&object.source);
        let as_it_is = |function: &Function| {
            let needs_patch = source.sites.iter().any(|site| {
                let calls_symbol = matches!(site.target, asm_tests::Target::Symbol(_));
                site.function == function.name && site.shape.has_result() && !calls_symbol
            });
            !needs_patch && function.name != "call_inner"
        };
        let reference = load(&object.folder.reference(&object.source), |_| {}).unwrap();
        let loaded = load(&object.bytes, |_| {}).unwrap();
        calls += compare(&source, &object, &loaded, &reference, as_it_is);
    }
    assert!(calls > 80 * NATIVE.len(), "{calls}");
}
