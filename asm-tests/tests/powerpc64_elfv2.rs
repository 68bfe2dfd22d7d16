//! Big-endian PowerPC64 with ELFv2, as musl and the BSDs have it, is run: what is linked and
//! patched here becomes the program of an emulator, which calls its functions. There is no standard
//! library of Rust to test with as a host; the code, the stubs, the table of contents and the bytes
//! of the sites are what an engine on such a machine would have written.
//!
//! Neither a compiler nor a linker is needed, but the emulator: `qemu-ppc64-static`, of an old
//! processor.
#![cfg(all(target_os = "linux", not(emulated)))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use asm_tests::{Folder, Param, Source, TestObject, files};
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::{Arch, Convention, OnReturn, SiteKind};
use patchpoint::image::{Graph, LinkedImage, Object, SegmentKind};
use patchpoint::sequence::{
    Assembled, Environment, Fit, Sequence, arg, assemble, assemble_out_of_line, result,
};
use patchpoint::site::{Site, survey};
use patchpoint::verify::{self, Chunk};

const EMULATOR: &str = "qemu-ppc64-static";
/// Without the instructions of Power ISA 2.07, which nobody promises there.
const PROCESSOR: &str = "970";

const PAGE: u64 = 1 << 16;
const IMAGE: u64 = 0x1000_0000;
const DRIVER: u64 = 0x2000_0000;
/// Functions that the objects call and do not have.
const OUTSIDE: u64 = 0x2010_0000;
const DATA: u64 = 0x2020_0000;
const TABLE: u64 = 0x2030_0000;

// Power ISA 3.1, book I. Operands are registers' numbers.
const BLR: u32 = 0x4e80_0020;
const ADD_R3_R4: u32 = 0x7c63_2214;
const ADD_R3_R11: u32 = 0x7c63_5a14;
/// What may follow a return only where the caller restores its TOC pointer.
const SPOIL_TOC: u32 = li(2, -1);

const fn li(to: u32, value: i16) -> u32 {
    addi(to, 0, value)
}

const fn addi(to: u32, from: u32, value: i16) -> u32 {
    0x3800_0000 | to << 21 | from << 16 | value as u16 as u32
}

const fn ld(to: u32, offset: u32, base: u32) -> u32 {
    0xe800_0000 | to << 21 | base << 16 | offset
}

/// `lis; ori; sldi 32; oris; ori`.
fn load(to: u32, value: u64) -> [u32; 5] {
    let half = |shift: u32| (value >> shift) as u32 & 0xffff;
    let both = to << 21 | to << 16;
    [
        0x3c00_0000 | to << 21 | half(48),
        0x6000_0000 | both | half(32),
        0x7800_07c6 | both,
        0x6400_0000 | both | half(16),
        0x6000_0000 | both | half(0),
    ]
}

/// Code that calls each function of the table, puts its result there, writes the whole table to the
/// standard output and exits.
fn driver(calls: usize, len: usize) -> Vec<u32> {
    let mut code = vec![0xf821_ff81]; // stdu r1, -128(r1)
    code.extend(load(31, TABLE));
    code.extend(load(30, calls as u64));
    let again = code.len();
    code.push(ld(12, 0, 31));
    code.extend((0..6).map(|n| ld(3 + n, 8 + 8 * n, 31)));
    code.extend([
        0x7d89_03a6, // mtctr r12
        0x4e80_0421, // bctrl
        0xf87f_0038, // std r3, 56(r31)
        addi(31, 31, Call::LEN as i16),
        addi(30, 30, -1),
        0x2c3e_0000, // cmpdi r30, 0
    ]);
    let back = (again as i32 - code.len() as i32) * 4;
    code.push(0x4082_0000 | back as u32 & 0xfffc); // bne
    // write(1, TABLE, len); exit_group(0)
    code.extend([li(0, 4), li(3, 1)]);
    code.extend(load(4, TABLE));
    code.extend(load(5, len as u64));
    code.extend([0x4400_0002, li(0, 234), li(3, 0), 0x4400_0002]);
    code
}

/// What stands for the functions of [`asm_tests::resolve`]. Each leaves another TOC pointer behind.
struct Outside {
    words: Vec<u32>,
    symbols: Vec<(&'static str, u64)>,
}

impl Outside {
    fn new() -> Self {
        let mut outside = Self {
            words: Vec::new(),
            symbols: vec![("ext_data", DATA)],
        };
        outside.function("ext_add", &[ADD_R3_R4]);
        for (name, number) in [("callee_600", 600), ("callee_601", 601), ("outside", 1)] {
            outside.function(name, &[addi(3, 3, number)]);
        }
        for name in ["callee_602", "__gxx_personality_v0", "_Unwind_Resume"] {
            outside.function(name, &[]);
        }
        outside.function(
            "memcpy",
            &[
                0x2c25_0000, // cmpdi r5, 0
                0x4182_001c, // beq to the end
                0x7ca9_03a6, // mtctr r5
                addi(7, 3, -1),
                addi(4, 4, -1),
                0x8cc4_0001, // lbzu r6, 1(r4)
                0x9cc7_0001, // stbu r6, 1(r7)
                0x4200_fff8, // bdnz .-8
            ],
        );
        outside
    }

    fn function(&mut self, name: &'static str, words: &[u32]) {
        let at = self.place(words);
        self.symbols.push((name, at.get()));
    }

    fn place(&mut self, words: &[u32]) -> CodeAddr {
        let at = OUTSIDE + 4 * self.words.len() as u64;
        self.words.extend(words);
        self.words.extend([SPOIL_TOC, BLR]);
        CodeAddr::new(at)
    }

    /// A function that returns its first argument and this number.
    fn adds(&mut self, number: u64) -> CodeAddr {
        let mut words = load(11, number).to_vec();
        words.push(ADD_R3_R11);
        self.place(&words)
    }

    fn resolve(&self, name: &str) -> Option<CodeAddr> {
        let found = self.symbols.iter().find(|symbol| symbol.0 == name);
        found.map(|symbol| CodeAddr::new(symbol.1))
    }
}

fn big(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A call of the program's: a row of its table.
struct Call {
    function: u64,
    args: [u64; 6],
}

impl Call {
    /// With its result.
    const LEN: usize = 64;
}

/// A part of a program's memory.
struct Loaded {
    addr: u64,
    bytes: Vec<u8>,
    /// `PF_X`, `PF_W`, `PF_R`.
    flags: u32,
}

/// An executable file of these parts that starts in the driver (System V gABI, chapters 4 and 5;
/// ELFv2 ABI, 3.1.1).
fn executable(parts: &[Loaded]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(b"\x7fELF\x02\x02\x01\0\0\0\0\0\0\0\0\0");
    file.extend([0, 2, 0, 21, 0, 0, 0, 1]);
    for word in [DRIVER, 64, 0] {
        file.extend(word.to_be_bytes());
    }
    // e_flags: ELFv2. With ELFv1 the emulator would take the entry for a descriptor.
    file.extend(2_u32.to_be_bytes());
    for half in [64, 56, parts.len() as u16, 64, 0, 0] {
        file.extend(half.to_be_bytes());
    }
    let mut at = PAGE;
    for part in parts {
        at += part.addr % PAGE;
        file.extend(1_u32.to_be_bytes());
        file.extend(part.flags.to_be_bytes());
        let len = part.bytes.len() as u64;
        for word in [at, part.addr, part.addr, len, len, PAGE] {
            file.extend(word.to_be_bytes());
        }
        at = (at + part.bytes.len() as u64).next_multiple_of(PAGE);
    }
    for part in parts {
        let start = file.len().next_multiple_of(PAGE as usize) + (part.addr % PAGE) as usize;
        file.resize(start, 0);
        file.extend(&part.bytes);
    }
    file
}

/// What the emulator makes of the calls: their results, and the memory behind the table.
fn run(
    name: &str,
    image: &LinkedImage,
    stubs: Loaded,
    outside: &Outside,
    calls: &[Call],
    memory: &[u64],
) -> (Vec<u64>, Vec<u64>) {
    let mut table: Vec<u64> = Vec::new();
    for call in calls {
        table.push(call.function);
        table.extend(call.args);
        table.push(0);
    }
    table.extend(memory);
    let table: Vec<u8> = table.into_iter().flat_map(u64::to_be_bytes).collect();
    let loaded = |addr, bytes, flags| Loaded { addr, bytes, flags };
    let mut parts: Vec<Loaded> = (image.segments.iter())
        .filter(|segment| segment.size.get() > 0)
        .map(|segment| {
            let mut bytes = segment.bytes.clone();
            // With its zeros: the emulator cannot add them to what is not writable.
            bytes.resize(segment.size.as_usize(), 0);
            let flags = match segment.kind {
                SegmentKind::Code => 5,
                SegmentKind::ReadOnly => 4,
                _ => 6,
            };
            Loaded {
                addr: segment.addr.get(),
                bytes,
                flags,
            }
        })
        .collect();
    parts.push(stubs);
    parts.push(loaded(DRIVER, big(&driver(calls.len(), table.len())), 5));
    parts.push(loaded(OUTSIDE, big(&outside.words), 5));
    parts.push(loaded(DATA, 23_u64.to_be_bytes().to_vec(), 6));
    let len = table.len();
    parts.push(loaded(TABLE, table, 6));

    let path = std::env::temp_dir().join(format!("patchpoint-{}-{name}.elfv2", std::process::id()));
    std::fs::write(&path, executable(&parts)).unwrap();
    // The emulator asks for it.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = Command::new("timeout");
    command.args(["120", EMULATOR, "-cpu", PROCESSOR]).arg(&path);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}: {:?} {said}",
        path.display(),
        output.status
    );
    std::fs::remove_file(&path).unwrap();
    assert_eq!(output.stdout.len(), len, "{name}: {said}");
    let words = output.stdout.chunks_exact(8);
    let words: Vec<u64> = words
        .map(|word| u64::from_be_bytes(word.try_into().unwrap()))
        .collect();
    let (table, memory) = words.split_at(calls.len() * Call::LEN / 8);
    let results = table.chunks_exact(8).map(|call| call[7]).collect();
    (results, memory.to_vec())
}

fn is_there() -> bool {
    let there = Command::new(EMULATOR).arg("-version").output().is_ok();
    if !there {
        println!("skipped: no {EMULATOR}");
    }
    there
}

fn link(name: &str, graph: Graph<'_>, outside: &Outside) -> LinkedImage {
    assert_eq!(graph.arch(), Arch::PowerPc64ElfV2, "{name}");
    let layout = graph.layout().unwrap();
    let page = Len::new(PAGE as u32);
    let (addrs, _) = layout.contiguous(CodeAddr::new(IMAGE), page).unwrap();
    let linked = layout.link(&addrs, &|name| outside.resolve(name));
    linked.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Room for stubs, behind the image.
fn stubs(image: &LinkedImage) -> Loaded {
    let ends = image
        .segments
        .iter()
        .map(|segment| segment.addr.get() + u64::from(segment.size.get()));
    Loaded {
        addr: ends.max().unwrap().next_multiple_of(PAGE),
        bytes: big(&[0x7fe0_0008]),
        flags: 5,
    }
}

/// C programs of three files: calls across files and out of them, tables of functions, common and
/// weak symbols.
#[test]
fn programs_of_several_files_run() {
    if !is_there() {
        return;
    }
    let (mut programs, expected) = (0, files::expected("link/c"));
    let sets = files::sets("link/c");
    for set in sets.iter().filter(|set| set.name.starts_with("powerpc64_elfv2-")) {
        for backwards in [false, true] {
            let outside = Outside::new();
            let image = link(&set.name, set.graph(backwards), &outside);
            let function = image.symbol("run").unwrap().get();
            let calls: Vec<Call> = (0..10)
                .map(|x| Call {
                    function,
                    args: [x, 0, 0, 0, 0, 0],
                })
                .collect();
            let stubs = stubs(&image);
            let (found, _) = run(&set.name, &image, stubs, &outside, &calls, &[]);
            let found: Vec<i64> = found.into_iter().map(|word| word as i64).collect();
            assert_eq!(found, expected, "{}", set.name);
            programs += 1;
        }
    }
    println!("{programs} programs");
    assert_eq!(programs, 6);
}

/// What the contract of the sources says that a site is patched with.
fn contract(site: &Site) -> Sequence {
    let (id, shape) = (site.id().get(), site.shape());
    match (shape.has_result(), shape.arg_count()) {
        (false, _) => Sequence::new(),
        (true, 0) => Sequence::new().mov(result(), id),
        (true, _) => Sequence::new().mov(result(), arg(0)).add(result(), id),
    }
}

/// The same by a call of a function of another module, where the convention is C's.
fn contract_by_call(site: &Site, outside: &mut Outside) -> Option<Sequence> {
    let shape = site.shape();
    let fits = shape.convention() == Convention::C && shape.has_result() && shape.arg_count() > 0;
    fits.then(|| {
        let function = outside.adds(site.id().get());
        // SAFETY: it is a function of the C convention that takes what the site passes.
        unsafe { Sequence::new().call(function, OnReturn::FollowsC) }
    })
}

/// The sequence for the site, checked: in a stub where it is to be or does not fit.
fn assembled(site: &Site, sequence: &Sequence, stub: CodeAddr, away: bool) -> patchpoint::Result<Assembled> {
    let (context, env) = (site.context(&[]), Environment::default());
    let assembled = match assemble(sequence, &context, &env)? {
        Fit::InPlace(assembled) if !away => assembled,
        _ => assemble_out_of_line(sequence, &context, &env, stub)?,
    };
    let chunk = assembled.stub.as_ref().map(|stub| Chunk {
        addr: stub.addr,
        bytes: &stub.bytes,
    });
    verify::check(&context, &assembled.code, chunk.as_slice(), &assembled.declared)?;
    Ok(assembled)
}

/// Patches every site of the image that is no shadow, and says how many in place, in stubs, and by
/// calls.
fn patch(
    object: &TestObject,
    source: &Source,
    image: &mut LinkedImage,
    outside: &mut Outside,
) -> (Loaded, [usize; 3]) {
    let wanted = |id| source.shape(id).filter(|shape| shape.reserved().get() > 0);
    let shape = |record: &patchpoint::site::Candidate<'_>| {
        wanted(record.id().get()).filter(|shape| shape.kind() != SiteKind::Shadow)
    };
    let survey = survey(image.image.clone(), image.segments.clone(), shape).unwrap();
    assert!(survey.refused.is_empty(), "{}: {:?}", object.name, survey.refused);
    let (mut stubs, mut counts) = (stubs(image), [0; 3]);
    for (index, site) in survey.module.sites().enumerate() {
        let away = index % 2 == 1;
        let at = CodeAddr::new(stubs.addr + stubs.bytes.len() as u64);
        // What is live in registers that a call loses, is refused.
        let call = contract_by_call(&site, outside).and_then(|call| assembled(&site, &call, at, away).ok());
        counts[2] += usize::from(call.is_some());
        let made = call.map_or_else(|| assembled(&site, &contract(&site), at, away), Ok);
        let made = made.unwrap_or_else(|error| panic!("{}: {site:?}: {error}", object.name));
        counts[usize::from(made.stub.is_some())] += 1;
        if let Some(stub) = &made.stub {
            assert_eq!(stub.addr, at);
            stubs.bytes.extend(&stub.bytes);
        }
        let holder =
            |segment: &&mut patchpoint::image::Segment| site.addr().is_within(segment.addr, segment.size);
        let segment = image.segments.iter_mut().find(holder).unwrap();
        let start = (site.addr().get() - segment.addr.get()) as usize;
        assert_eq!(made.code.len(), site.reserved().as_usize());
        segment.bytes[start..start + made.code.len()].copy_from_slice(&made.code);
    }
    (stubs, counts)
}

/// Every object is linked, every site of a call is patched, and every function returns and writes
/// what the reference does, which LLVM compiled without sites.
#[test]
fn patched_sites_do_what_the_references_do() {
    if !is_there() {
        return;
    }
    let (mut objects, mut all, mut patched) = (0, 0, [0; 3]);
    for object in Folder::Powerpc64ElfV2.objects() {
        let source = object.folder.source(&object.source);
        let mut outside = Outside::new();
        let graph = |bytes| Graph::new("object", Object::parse(bytes).unwrap());
        let mut image = link(&object.name, graph(&object.bytes), &outside);
        let (stubs_of_sites, counts) = patch(&object, &source, &mut image, &mut outside);
        for (sum, count) in patched.iter_mut().zip(counts) {
            *sum += count;
        }
        let reference = object.folder.reference(&object.source);
        let reference = link(&object.name, graph(&reference), &outside);

        let mut state = 1_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let kept =
            (source.functions.iter()).filter(|function| !object.loses_arguments(&source, &function.name));
        let chosen: Vec<_> = kept.flat_map(|function| (0..4).map(move |_| function)).collect();
        // 16 words for each of up to six pointers of each call.
        let mut memory = Vec::new();
        let behind = TABLE + (chosen.len() * Call::LEN) as u64;
        let mut calls = [Vec::new(), Vec::new()];
        for function in chosen {
            let mut args = [0; 6];
            for (arg, param) in args.iter_mut().zip(&function.params) {
                *arg = match param {
                    Param::Int => next() % 50,
                    Param::Pointer => behind + 8 * memory.len() as u64,
                };
                memory.extend((0..16).map(|_| next() % 1000));
            }
            for (calls, image) in calls.iter_mut().zip([&image, &reference]) {
                let function = image.symbol(&function.name).unwrap().get();
                calls.push(Call { function, args });
            }
        }
        if calls[0].is_empty() {
            continue;
        }
        let of_reference = stubs(&reference);
        let expected = run(
            &object.name,
            &reference,
            of_reference,
            &outside,
            &calls[1],
            &memory,
        );
        let found = run(&object.name, &image, stubs_of_sites, &outside, &calls[0], &memory);
        assert_eq!(found, expected, "{}", object.name);
        objects += 1;
        all += calls[0].len();
    }
    println!("{objects} objects, {all} calls, {patched:?} sites in place, in stubs, by calls");
    assert!(objects > 60 && all > 1000, "{objects} {all}");
    assert!(
        patched[0] > 300 && patched[1] > 200 && patched[2] > 100,
        "{patched:?}"
    );
}
