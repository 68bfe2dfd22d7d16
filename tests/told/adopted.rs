//! Objects that were compiled without stack maps, or were placed by another linker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::{Arch, Convention, RegSet, x86_64};
use patchpoint::image::{Adoption, AdoptionError, Image, Layout, Object, SegmentAddrs, SegmentKind};
use patchpoint::memory::{Arena, CodeMemory, PlacedSegments, Reach, SegmentNeed};
use patchpoint::sequence::{Field, Sequence, Target, arg, result, temp};
use patchpoint::site::{Module, SiteSpec};
use patchpoint::stackmap::{LocationKind, StackMaps};
use patchpoint::{CallShape, Engine, Result};

use crate::{engine, live_engine};

/// See `objects/make.sh`.
const PLAIN: &[u8] = include_bytes!("objects/plain.o");
const INLINE_CACHE: &[u8] = include_bytes!("../../examples/objects/inline_cache.o");
const ALL: [&[u8]; 8] = [
    PLAIN,
    INLINE_CACHE,
    include_bytes!("../../examples/objects/inline_cache.aarch64.o"),
    include_bytes!("../../examples/objects/inline_cache.powerpc64.o"),
    include_bytes!("../../examples/objects/inline_cache.powerpc64le.o"),
    include_bytes!("../../examples/objects/inline_cache.powerpc64-elfv2.o"),
    include_bytes!("../../examples/objects/inline_cache.riscv64.o"),
    include_bytes!("../../examples/objects/inline_cache.s390x.o"),
];

extern "C" fn callee(x: u64) -> u64 {
    x + 100
}

fn resolve(name: &str) -> Option<CodeAddr> {
    (name == "callee").then_some(CodeAddr::new(callee as *const () as u64))
}

/// The sites of the object.
fn sites() -> [SiteSpec; 2] {
    [
        SiteSpec::nops("twice", 8, 8)
            .id(1_u64)
            .arg(x86_64::RDI)
            .result(x86_64::RAX)
            // What the assembly says that it clobbers.
            .free(RegSet::of(&[x86_64::RCX]))
            .free_flags(),
        SiteSpec::call("outer", 1, 5)
            .id(2_u64)
            .convention(Convention::C)
            .args(1)
            .returns(),
    ]
}

fn call(module: &Module, name: &str, x: u64) -> u64 {
    module.release();
    // SAFETY: the functions of the object take a word and return one.
    let f = unsafe {
        module
            .function(name)
            .unwrap()
            .typed::<extern "C" fn(u64) -> u64>()
    };
    f.unwrap()(x)
}

fn patched_and_restored(engine: &Engine, module: &Module) {
    let both = || (call(module, "twice", 7), call(module, "outer", 7));
    assert_eq!(both(), (14, 108));
    let corrected = Sequence::new().mov(temp(), arg(0)).add(result(), temp());
    engine.patch(1_u64, &corrected).unwrap();
    let replaced = Sequence::new().mov(result(), arg(0)).add(result(), 1 << 20);
    engine.patch(2_u64, &replaced).unwrap();
    assert_eq!(both(), (21, (1 << 20) + 8));
    engine.restore(1_u64).unwrap();
    engine.restore(2_u64).unwrap();
    assert_eq!(both(), (14, 108));
    engine.invalidate(&module.function("outer").unwrap()).unwrap();
    assert_eq!(both(), (14, 108));
}

#[test]
fn an_object_without_stack_maps_is_loaded_and_patched() {
    let engine = engine();
    let code = engine.load(PLAIN, resolve).unwrap();
    assert!(code.image().stack_maps.is_empty());
    let site = code.symbol("twice_site").unwrap();
    let registration = engine.registration(code).sites(sites());
    // SAFETY: what is told is true of the object's code.
    let module = unsafe { registration.finish() }.unwrap();
    assert_eq!(module.sites().next().unwrap().addr(), site);
    patched_and_restored(&engine, &module);
}

#[test]
fn an_object_without_stack_maps_is_patched_under_a_thread() {
    let engine = live_engine();
    let code = engine.load(PLAIN, resolve).unwrap();
    let registration = engine.registration(code).sites(sites());
    // SAFETY: what is told is true of the object's code.
    let module = unsafe { registration.live().finish() }.unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let handle = engine.attach_thread();
            while !done.load(Ordering::Relaxed) {
                assert!(matches!(call(&module, "twice", 7), 14 | 21));
                assert!(matches!(call(&module, "outer", 7), 108 | 1_048_584));
                handle.quiescent();
            }
        });
        let corrected = Sequence::new().mov(temp(), arg(0)).add(result(), temp());
        let replaced = Sequence::new().mov(result(), arg(0)).add(result(), 1 << 20);
        for _ in 0..300 {
            engine.patch(1_u64, &corrected).unwrap();
            engine.patch(2_u64, &replaced).unwrap();
            thread::yield_now();
            engine.restore(1_u64).unwrap();
            engine.restore(2_u64).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    patched_and_restored(&engine, &module);
}

/// An object in memory where another linker has put it: this one stands for it.
struct Placed {
    layout: Layout<'static>,
    addrs: SegmentAddrs,
    /// What the linker knows, and somebody else's does not tell.
    image: Image,
    memory: Arc<dyn CodeMemory>,
    _placed: PlacedSegments,
}

impl Placed {
    fn new(object: &'static [u8]) -> Self {
        let layout = Object::parse(object).unwrap().layout().unwrap();
        let needs: Vec<SegmentNeed> = layout
            .segments()
            .iter()
            .map(|request| SegmentNeed {
                kind: request.kind,
                len: u64::from(request.size.get().max(1)),
                align: u64::from(request.align.get().max(16)),
            })
            .collect();
        let mut placement = Arena::default().place(&needs, Reach::Anywhere).unwrap();
        let at = |kind| {
            let mut own = placement.segments().iter().filter(|segment| segment.kind == kind);
            own.next().unwrap().range.start()
        };
        let addrs = SegmentAddrs {
            code: at(SegmentKind::Code),
            read_only: at(SegmentKind::ReadOnly),
            data: at(SegmentKind::Data),
        };
        let linked = layout.link(&addrs, &resolve).unwrap();
        for segment in &linked.segments {
            placement.fill(segment.addr, &segment.bytes).unwrap();
        }
        let placed = placement.finalize().unwrap();
        Self {
            layout,
            addrs,
            image: linked.image,
            // SAFETY: the engine alone writes through it, what it has checked.
            memory: Arc::new(unsafe { placed.writable() }),
            _placed: placed,
        }
    }

    fn told_by(&self, object: &[u8]) -> Adoption {
        Adoption::from_object(object, |index, _| self.layout.section_addr(index, &self.addrs)).unwrap()
    }

    /// The code as the engine takes it over; it has not run.
    fn adopt(&self, engine: &Engine, adoption: Adoption) -> Result<patchpoint::engine::LoadedCode> {
        // SAFETY: the memory is there longer than the engine uses it, and nobody else writes to it.
        let adopted = unsafe { adoption.not_yet_run().promise() }.unwrap();
        engine.adopt_with(adopted, &self.memory)
    }
}

#[test]
fn an_object_tells_of_the_code_that_another_linker_has_placed() {
    for is_live in [false, true] {
        let placed = Placed::new(PLAIN);
        let engine = if is_live { live_engine() } else { engine() };
        let code = placed.adopt(&engine, placed.told_by(PLAIN)).unwrap();
        let registration = engine.registration(code).sites(sites());
        let registration = if is_live {
            registration.live()
        } else {
            registration
        };
        // SAFETY: what is told is true of the object's code.
        let module = unsafe { registration.finish() }.unwrap();
        patched_and_restored(&engine, &module);
    }
}

#[test]
fn the_eh_frame_tells_the_sizes_of_functions() {
    let (engine, placed) = (engine(), Placed::new(PLAIN));
    let frames = &placed.image.eh_frames[0];
    let name = |addr: CodeAddr| {
        let known = placed
            .image
            .functions
            .iter()
            .find(|function| function.addr == addr);
        known.map(|function| function.name.clone())
    };
    let adoption = Adoption::without_stack_maps(Arch::X86_64)
        .eh_frame(frames.addr, frames.bytes.clone())
        .functions_from_eh_frame(name)
        .unwrap();
    let found: Vec<_> = adoption.functions().cloned().collect();
    assert_eq!(found, placed.image.functions);
    let code = placed.adopt(&engine, adoption).unwrap();
    let registration = engine.registration(code).sites(sites());
    // SAFETY: what is told is true of the object's code.
    let module = unsafe { registration.finish() }.unwrap();
    patched_and_restored(&engine, &module);

    // What is known stays, and what has no name gets one.
    let first = placed.image.functions[0].addr;
    let adoption = Adoption::without_stack_maps(Arch::X86_64)
        .function("mine", first, Len::new(17))
        .eh_frame(frames.addr, frames.bytes.clone())
        .functions_from_eh_frame(|_| None)
        .unwrap();
    let names: Vec<String> = adoption
        .functions()
        .map(|function| function.name.clone())
        .collect();
    let outer = placed.image.functions[1].addr;
    assert_eq!(names, ["mine".to_owned(), format!("function at {outer}")]);
    // Bytes that are none; descriptors, of which it does not tell.
    let damaged = Adoption::without_stack_maps(Arch::X86_64).eh_frame(frames.addr, vec![9; 24]);
    let refused = damaged.functions_from_eh_frame(|_| None);
    assert!(
        matches!(refused, Err(AdoptionError::EhFrame { .. })),
        "{refused:?}"
    );
    let big = Adoption::without_stack_maps(Arch::PowerPc64).eh_frame(CodeAddr::new(0x1000), {
        let linked = linked(include_bytes!("../../examples/objects/inline_cache.powerpc64.o"));
        linked.eh_frames[0].bytes.clone()
    });
    let refused = big.functions_from_eh_frame(|_| None);
    assert!(
        matches!(refused, Err(AdoptionError::Function { .. })),
        "{refused:?}"
    );
}

fn linked(object: &'static [u8]) -> Image {
    let layout = Object::parse(object).unwrap().layout().unwrap();
    let (addrs, _) = layout
        .contiguous(CodeAddr::new(0x2000_0000), Len::new(1 << 16))
        .unwrap();
    let known = |_: &str| Some(CodeAddr::new(0x2100_0000));
    layout.link(&addrs, &known).unwrap().image
}

/// What an object says of its placed code is what the linker says that has placed it.
#[test]
fn every_object_tells_what_the_linker_knows() {
    for object in ALL {
        let layout = Object::parse(object).unwrap().layout().unwrap();
        let (addrs, _) = layout
            .contiguous(CodeAddr::new(0x2000_0000), Len::new(1 << 16))
            .unwrap();
        let expected = linked(object);
        let adoption = Adoption::from_object(object, |index, _| layout.section_addr(index, &addrs)).unwrap();
        let functions: Vec<_> = adoption.functions().cloned().collect();
        assert!(
            !functions.is_empty() && functions == expected.functions,
            "{}",
            expected.arch
        );
        // SAFETY: nothing is executed.
        let image = unsafe { adoption.promise() }.unwrap().into_image();
        assert_eq!(image.stack_maps, expected.stack_maps, "{}", expected.arch);
        assert_eq!(image.eh_frames, expected.eh_frames, "{}", expected.arch);
        assert_eq!((image.arch, image.endian), (expected.arch, expected.endian));
    }
}

#[test]
fn sections_that_were_not_placed_have_no_functions() {
    let none = Adoption::from_object(PLAIN, |_, _| None).unwrap();
    assert_eq!(none.functions().count(), 0);
    // A stack map of functions without an address is refused, as is unwind information.
    let refused = Adoption::from_object(INLINE_CACHE, |_, _| None).unwrap_err();
    assert!(matches!(refused, AdoptionError::Link(_)), "{refused}");
    let frames = |_: usize, name: &str| (name == ".eh_frame").then_some(CodeAddr::new(0x1000));
    let refused = Adoption::from_object(PLAIN, frames).unwrap_err();
    assert!(matches!(refused, AdoptionError::Link(_)), "{refused}");
    assert!(Adoption::from_object(b"no object", |_, _| None).is_err());
}

/// A patchpoint with a record, of an object that another linker has placed.
#[test]
fn stack_maps_of_placed_objects_are_those_of_loaded_ones() {
    let (engine, placed) = (engine(), Placed::new(INLINE_CACHE));
    let code = placed.adopt(&engine, placed.told_by(INLINE_CACHE)).unwrap();
    let shape = |record: &patchpoint::site::Candidate<'_>| {
        (record.id().get() == 78).then(|| CallShape::any_reg(32).result().args(1))
    };
    // SAFETY: what is told is true of the object's code.
    let module = unsafe { engine.registration(code).register(shape) }.unwrap();
    engine
        .patch(78_u64, &Sequence::new().mov(result(), 4711))
        .unwrap();
    assert_eq!(call(&module, "get", 0), 4711);
}

/// LLVM's patchpoint, told as its record tells it: the same sequences become the same bytes.
#[test]
fn a_patchpoint_that_is_told_is_one() {
    let registers = |code: &patchpoint::engine::LoadedCode| {
        let maps = StackMaps::parse(&code.image().stack_maps, Arch::X86_64.endian()).unwrap();
        let record = maps.by_id(78.into()).next().unwrap();
        let registers: Vec<_> = record
            .locations()
            .map(|location| match location.kind {
                LocationKind::Register { reg, .. } => reg,
                other => panic!("{other}"),
            })
            .collect();
        (record.offset(), registers)
    };
    let shape = |record: &patchpoint::site::Candidate<'_>| {
        (record.id().get() == 78).then(|| CallShape::any_reg(32).result().args(1))
    };
    let (recorded, told) = (engine(), engine());
    let code = told.load(INLINE_CACHE, resolve).unwrap();
    let (offset, registers) = registers(&code);
    let spec = SiteSpec::nops("get", offset, 32)
        .id(78_u64)
        .result(registers[0])
        .arg(registers[1])
        // LLVM's scratch register.
        .free(RegSet::of(&[x86_64::R11]))
        .free_flags();
    // SAFETY: what is told is true of the object's code.
    let second = unsafe { told.registration(code).site(spec).finish() }.unwrap();
    let code = recorded.load(INLINE_CACHE, resolve).unwrap();
    // SAFETY: as above.
    let first = unsafe { recorded.registration(code).register(shape) }.unwrap();
    let object = [0_u64, 0x17, 4711, 0];
    let base = object.as_ptr() as u64;
    for (sequence, expected) in [
        (Sequence::new().mov(result(), arg(0)), base),
        (Sequence::new().mov(result(), u64::at(arg(0), 16)), 4711),
        (
            Sequence::new()
                .guard_eq(u32::at(arg(0), 8), 0x17, Target::Miss)
                .mov(result(), u64::at(arg(0), 16)),
            4711,
        ),
        (
            Sequence::new().mov(temp(), 1_u64 << 40).mov(result(), temp()),
            1 << 40,
        ),
    ] {
        let mut bytes = Vec::new();
        for (engine, module) in [(&recorded, &first), (&told, &second)] {
            engine.patch(78_u64, &sequence).unwrap();
            assert_eq!(call(module, "get", base), expected);
            let site = engine.sites(78_u64).unwrap()[0].clone();
            // Where a branch goes differs: each has exits of its own.
            let code = site.read().unwrap();
            let lines = patchpoint::verify::disassemble(Arch::X86_64, site.addr(), &code);
            let text = |line: &patchpoint::verify::ListingLine| match line.text.starts_with('j') {
                true => line.text.split(' ').next().unwrap().to_owned(),
                false => line.text.clone(),
            };
            bytes.push(lines.iter().map(text).collect::<Vec<_>>());
        }
        assert_eq!(bytes[0], bytes[1]);
    }
    // The same ID at sites of both kinds: one patch is for all of them.
    let both = engine();
    let specs = sites().map(|site| site.id(78_u64));
    let plain = both.load(PLAIN, resolve).unwrap();
    // SAFETY: as above.
    let plain = unsafe { both.registration(plain).sites(specs).finish() }.unwrap();
    let code = both.load(INLINE_CACHE, resolve).unwrap();
    // SAFETY: as above.
    let cache = unsafe { both.registration(code).register(shape) }.unwrap();
    let receipt = both.patch(78_u64, &Sequence::new().mov(result(), 12)).unwrap();
    // Two in the object with patchpoints.
    assert_eq!((receipt.sites, both.sites(78_u64).unwrap().len()), (4, 4));
    assert_eq!((call(&plain, "twice", 1), call(&plain, "outer", 1)), (12, 13));
    assert_eq!(call(&cache, "get", 1), 12);
}

/// What is refused registers nothing, and says where and how to mend it.
#[test]
fn a_wrong_spec_registers_nothing() {
    let engine = engine();
    for (spec, text) in [
        (
            SiteSpec::nops("twice", 4, 8).id(5_u64),
            "told site 5 at twice+0x4 (",
        ),
        (
            SiteSpec::nops("outer", 1, 5).id(5_u64),
            "was told to hold nops, and holds `call",
        ),
        (
            SiteSpec::call("outer", 0, 5).id(5_u64),
            "no whole instructions are there",
        ),
        (SiteSpec::nops("twice", 8, 8), "it has no ID: say `SiteSpec::id`"),
        (
            SiteSpec::nops("thrice", 8, 8).id(5_u64),
            "no function named \"thrice\"",
        ),
    ] {
        let code = engine.load(PLAIN, resolve).unwrap();
        // SAFETY: nothing is executed.
        let refused = unsafe { engine.registration(code).sites(sites()).site(spec).finish() };
        let error = refused.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(engine.modules().len(), 0);
    }
    // Two at one place.
    let code = engine.load(PLAIN, resolve).unwrap();
    let twice = sites().into_iter().chain(sites());
    // SAFETY: nothing is executed.
    let refused = unsafe { engine.registration(code).sites(twice).finish() };
    let error = refused.unwrap_err();
    assert!(
        matches!(
            &error,
            patchpoint::Error::Site(patchpoint::site::Error::SitesOverlap { .. })
        ),
        "{error}"
    );
}
