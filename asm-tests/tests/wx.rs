//! While one thread patches, another reads the process's maps without a pause: no mapping is ever
//! writable and executable. And the way without the loader, from stack map bytes and addresses to
//! patched code.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use asm_tests::NATIVE;
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::deopt::ExitStubs;
use patchpoint::engine::{Engine, LoadedCode, Status};
use patchpoint::image::{Adoption, Object, SegmentKind};
use patchpoint::memory::{Strategy, StrategyChoice};
use patchpoint::publish::SingleThreaded;
use patchpoint::sequence::{Sequence, Target, arg, result};
use patchpoint::site::{Module, Site};

const OBJECT: &str = "property.llc19.O2.o";
/// How long each strategy is watched.
const WATCHED: Duration = Duration::from_secs(1);

fn object() -> Vec<u8> {
    std::fs::read(NATIVE[0].path().join(OBJECT)).unwrap()
}

fn engine() -> Engine {
    // SAFETY: one thread patches and executes; the other only reads the maps.
    let world = unsafe { SingleThreaded::promise() };
    let exit_stubs = ExitStubs::new()
        .on_miss(|frame| frame.resume())
        .on_deopt(|frame| frame.resume());
    Engine::builder().world(world).exits(exit_stubs).build().unwrap()
}

/// Each test leaves room beside its pages, which another's threads and pages would take.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a jump reaches on RISC-V, either way: that much is left free on both sides of the pages,
/// for stubs.
const ROOM: usize = 1 << 20;

/// Private pages of somebody else's JIT, which stay mapped.
fn mapped(len: usize) -> *mut u8 {
    let (read_write, private) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping where the kernel likes.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            ROOM + len + ROOM,
            read_write,
            private,
            -1,
            0,
        )
    };
    assert_ne!(at, libc::MAP_FAILED);
    let pages = at.cast::<u8>().wrapping_add(ROOM);
    for room in [at, pages.wrapping_add(len).cast()] {
        // SAFETY: within the mapping, and nobody has used it.
        assert_eq!(unsafe { libc::munmap(room, ROOM) }, 0);
    }
    pages
}

/// The object linked into such pages, and described by its map and the addresses of its functions
/// only.
fn adopted(engine: &Engine, ask: StrategyChoice) -> LoadedCode {
    let object = object();
    let layout = Object::parse(&object).unwrap().layout().unwrap();
    let page = Len::new(4096);
    let (_, len) = layout.contiguous(CodeAddr::new(1 << 16), page).unwrap();
    let len = (len as usize).next_multiple_of(4096);
    let at = mapped(len);
    let start = CodeAddr::new(at.expose_provenance() as u64);
    let (addrs, size) = layout.contiguous(start, page).unwrap();
    assert!(size <= len as u64);
    let linked = layout
        .link(&addrs, &|name| asm_tests::resolve(name).map(CodeAddr::new))
        .unwrap();
    for segment in &linked.segments {
        let offset = (segment.addr.get() - start.get()) as usize;
        assert!(offset + segment.bytes.len() <= len);
        // SAFETY: within the pages, which nobody else knows.
        unsafe { std::ptr::copy_nonoverlapping(segment.bytes.as_ptr(), at.add(offset), segment.bytes.len()) };
    }
    let code = linked
        .segments
        .iter()
        .find(|segment| segment.kind == SegmentKind::Code)
        .unwrap();
    let pages = code.bytes.len().next_multiple_of(4096);
    let text = std::ptr::with_exposed_provenance_mut(code.addr.get() as usize);
    // SAFETY: whole pages of ours, which hold code only.
    assert_eq!(
        unsafe { libc::mprotect(text, pages, libc::PROT_READ | libc::PROT_EXEC) },
        0
    );

    let image = &linked.image;
    let mut adoption = Adoption::new(image.arch, image.endian, image.stack_maps.clone()).not_yet_run();
    for function in &linked.image.functions {
        adoption = adoption
            .function(&function.name, function.addr, function.len)
            .called_at(function.pointer);
    }
    // SAFETY: the pages stay mapped, hold the code that LLVM compiled with that map, and are this test's alone.
    let code = unsafe { adoption.promise() }.unwrap();
    engine.adopt(code, ask).unwrap()
}

fn loaded(engine: &Engine) -> LoadedCode {
    engine
        .load(&object(), |name| asm_tests::resolve(name).map(CodeAddr::new))
        .unwrap()
}

fn register(engine: &Engine, code: LoadedCode) -> Module {
    let source = NATIVE[0].source("property");
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { engine.register(code, |record| source.shape(record.id().get())) }.unwrap()
}

fn sequences(site: &Site) -> [Sequence; 4] {
    let by = site.id().get();
    if !site.shape().has_result() {
        return std::array::from_fn(|_| Sequence::new().jump(Target::Deopt));
    }
    let in_place = Sequence::new().mov(result(), 1u64);
    let in_stub = (0..20).fold(in_place.clone(), |s, _| s.add(result(), by));
    let missing = Sequence::new().guard_eq(arg(0), by, Target::Miss);
    [in_place, in_stub, missing, Sequence::new().mov(result(), by)]
}

/// The mappings that are writable and executable.
fn writable_and_executable(maps: &str) -> Vec<&str> {
    let both = |line: &&str| {
        let protection = line.split_whitespace().nth(1).unwrap_or("");
        protection.contains('w') && protection.contains('x')
    };
    maps.lines().filter(both).collect()
}

/// Ends the watch when it is dropped, also by a panic.
struct Release<'a>(&'a AtomicBool);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Patches every site in a loop, whole transactions too, while another thread reads the maps;
/// counts both.
fn watch(name: &str, engine: &Engine, module: &Module) {
    let (stop, scans, ready) = (AtomicBool::new(false), AtomicU64::new(0), AtomicBool::new(false));
    let sites: Vec<Site> = module.sites().collect();
    let mut patches = 0u64;
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
                let found = writable_and_executable(&maps);
                assert!(found.is_empty(), "{found:#?}");
                scans.fetch_add(1, Ordering::Relaxed);
                ready.store(true, Ordering::Relaxed);
            }
        });
        // The watcher is joined before a failure is told.
        let release = Release(&stop);
        let start = Instant::now();
        let enough = |patches| patches > 200 && scans.load(Ordering::Relaxed) > 20;
        while (start.elapsed() < WATCHED || !enough(patches)) && !watcher.is_finished() {
            for site in &sites {
                for sequence in sequences(site) {
                    engine.patch_site(site, &sequence).unwrap();
                    patches += 1;
                }
            }
            let mut restore = engine.transaction();
            for site in &sites {
                restore.restore(site).unwrap();
            }
            patches += restore.commit().unwrap().sites as u64;
        }
        drop(release);
        watcher.join().unwrap();
    });
    println!(
        "{name}: {patches} patches, {} scans of the maps",
        scans.load(Ordering::Relaxed)
    );
    assert!(patches > 200 && scans.load(Ordering::Relaxed) > 20);
}

#[test]
fn loaded_code_written_through_an_alias_is_never_writable_and_executable() {
    let _alone = alone();
    let engine = engine();
    let module = register(&engine, loaded(&engine));
    assert_eq!(module.areas()[0].strategy(), Strategy::Alias);
    watch("Alias", &engine, &module);
}

#[test]
fn adopted_code_that_is_toggled_is_never_writable_and_executable() {
    let _alone = alone();
    let engine = engine();
    let module = register(&engine, adopted(&engine, StrategyChoice::Toggle));
    assert_eq!(module.areas()[0].strategy(), Strategy::Toggle);
    watch("Toggle", &engine, &module);
}

#[test]
fn adopted_code_written_as_a_file_is_never_writable_and_executable() {
    let _alone = alone();
    let engine = engine();
    let module = register(&engine, adopted(&engine, StrategyChoice::ProcMem));
    assert_eq!(module.areas()[0].strategy(), Strategy::ProcMem);
    watch("ProcMem", &engine, &module);
}

#[test]
#[cfg_attr(emulated, ignore = "an emulator does not tell the flags of mappings")]
fn adopted_code_that_is_remapped_is_never_writable_and_executable() {
    let _alone = alone();
    let engine = engine();
    let module = register(&engine, adopted(&engine, StrategyChoice::Remap));
    assert_eq!(module.areas()[0].strategy(), Strategy::Remap);
    watch("Remap", &engine, &module);
}

/// The watch above sees what it is there to see.
#[test]
fn a_mapping_that_is_both_would_be_found() {
    let maps =
        "1000-2000 r-xp 0 0 0\n2000-3000 rwxp 0 0 0 [jit]\n3000-4000 rw-s 0 0 0\n4000-5000 -wxp 0 0 0\n";
    assert_eq!(writable_and_executable(maps).len(), 2);
}

#[test]
fn adopted_code_is_patched_run_restored_and_invalidated_by_every_strategy() {
    let _alone = alone();
    let choices = [
        StrategyChoice::Auto,
        StrategyChoice::ProcMem,
        StrategyChoice::Toggle,
        StrategyChoice::Remap,
    ];
    // An emulator does not tell the flags of mappings, without which nothing is remapped.
    for ask in choices.into_iter().take(if cfg!(emulated) { 3 } else { 4 }) {
        let engine = engine();
        let module = register(&engine, adopted(&engine, ask));
        let site = engine.sites(module.sites().next().unwrap().id()).unwrap()[0].clone();
        let function = site.function();
        let words = [[5u64; 16], [6; 16]];
        let call = || {
            module.release();
            let addr = function.entry().unwrap().get() as usize;
            // SAFETY: functions of the objects' contract take pointers to 16 words, or numbers.
            let entry: extern "C" fn(u64, u64) -> u64 = unsafe { std::mem::transmute(addr) };
            entry(words[0].as_ptr() as u64, words[1].as_ptr() as u64)
        };
        let answer = |value: u64| Sequence::new().mov(result(), value);
        assert!(site.shape().has_result());
        let mut answers = Vec::new();
        for value in [3, 4] {
            engine.patch_site(&site, &answer(value)).unwrap();
            answers.push(call());
        }
        assert_ne!(answers[0], answers[1]);
        engine.restore_site(&site).unwrap();
        assert_eq!(engine.status(&site), Status::Original);
        engine.patch_site(&site, &answer(3)).unwrap();
        engine.invalidate(&function).unwrap();
        // The handler resumes: what the patched site did.
        assert_eq!(call(), answers[0]);
        assert_eq!(engine.status(&site), Status::Invalidated);
    }
}
