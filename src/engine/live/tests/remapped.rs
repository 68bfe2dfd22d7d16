//! Code that others placed, registered live: it is remapped, and patched while another thread
//! executes it.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::addr::CodeRange;
use crate::engine::LoadedCode;
use crate::memory::{self, Strategy, StrategyChoice};
use crate::publish::{GracePeriod, Level, Publisher};

const PAGE: usize = 1 << 16;

/// A page of a JIT's, or two of the smallest: functions of 16 bytes of nops that then return 7, near
/// the start and in the middle. The first begins inside of a quadword, in which its patchable jump
/// is: what comes before it there is not of the range that is adopted.
struct Jit {
    start: CodeAddr,
}

impl Jit {
    fn new() -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the kernel likes.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, prot, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let code = Entries::code(16);
        for offset in Self::OFFSETS {
            // SAFETY: in the new mapping.
            unsafe { at.cast::<u8>().add(offset).copy_from(code.as_ptr(), code.len()) };
        }
        let jit = Self {
            start: CodeAddr::new(at.expose_provenance() as u64),
        };
        assert_eq!(jit.protect(libc::PROT_READ | libc::PROT_EXEC), 0);
        let range = CodeRange::new(jit.start, PAGE as u64).unwrap();
        Publisher::new().publish(&[range], Level::Eventual).unwrap();
        jit
    }

    const OFFSETS: [usize; 2] = [if cfg!(target_arch = "x86_64") { 66 } else { 68 }, PAGE / 2];

    fn pointer(&self) -> *mut libc::c_void {
        std::ptr::with_exposed_provenance_mut(self.start.get() as usize)
    }

    fn protect(&self, prot: i32) -> i32 {
        // SAFETY: the page is the test's.
        unsafe { libc::mprotect(self.pointer(), PAGE, prot) }
    }

    fn function(&self, index: usize) -> CodeAddr {
        CodeAddr::new(self.start.get() + Self::OFFSETS[index] as u64)
    }

    fn adopt(&self, engine: &Engine, index: usize, ask: StrategyChoice) -> LoadedCode {
        adopt(engine, self.function(index), ask)
    }
}

impl Drop for Jit {
    fn drop(&mut self) {
        // SAFETY: mapped by this, and no module of it is left.
        unsafe { libc::munmap(self.pointer(), PAGE) };
    }
}

/// The function there, as `f`.
fn adopt(engine: &Engine, at: CodeAddr, ask: StrategyChoice) -> LoadedCode {
    let no_records = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec();
    let arch = Arch::host().unwrap();
    let adoption = Adoption::new(arch, arch.endian(), no_records)
        .function("f", at, Len::of(&Entries::code(16)).unwrap())
        .called_at(CodeAddr::new(pointer(at) as u64))
        .not_yet_run();
    // SAFETY: the code stays mapped as long as the module exists, and nobody else writes there.
    let code = unsafe { adoption.promise() }.unwrap();
    engine.adopt(code, ask).unwrap()
}

/// Registers it live, with the nops as site `id`.
fn register(engine: &Engine, code: LoadedCode, id: u64) -> crate::Result<Module> {
    let registration = engine
        .registration(code)
        .entry(EntrySpec::new("f", id, 16))
        .live();
    // SAFETY: what is told is true of the code that this test wrote.
    unsafe { registration.register(|_| None::<CallShape>) }
}

/// Patches a live site while another thread executes its function.
fn patch_beside_a_thread(engine: &Engine, module: &Module, id: u64) {
    let function = entry(module, "f");
    let (calls, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let handle = engine.attach_thread();
            let mut wrong = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                wrong += u64::from(![7, 40, 41].contains(&function(0)));
                calls.fetch_add(1, Ordering::Relaxed);
                handle.quiescent();
            }
            wrong
        });
        let mut round = 0;
        while round < 2000 || calls.load(Ordering::Relaxed) < 10_000 {
            engine.patch(id, &returning::<40>()).unwrap();
            assert_eq!(function(0), 40);
            engine.patch(id, &returning::<41>()).unwrap();
            assert_eq!(function(0), 41);
            engine.restore(id).unwrap();
            assert_eq!(function(0), 7);
            round += 3;
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(thread.join().unwrap(), 0);
    });
}

/// Two functions on one page, of two modules: the second shares what was remapped for the first.
#[test]
fn code_of_another_jit_is_patched_live() {
    let engine = engine();
    let jit = Jit::new();
    let strategy = |module: &Module| module.areas()[0].strategy();
    let first = jit.adopt(&engine, 0, StrategyChoice::Auto);
    assert_ne!(first.areas()[0].strategy(), Strategy::Remap);
    let first = register(&engine, first, 0).unwrap();
    let second = register(&engine, jit.adopt(&engine, 1, StrategyChoice::Remap), 1).unwrap();
    assert_eq!([&first, &second].map(strategy), [Strategy::Remap; 2]);
    for (module, id) in [(&first, 0), (&second, 1)] {
        patch_beside_a_thread(&engine, module, id);
    }
    // The owner has the page back with the last of them.
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: no thread is in the code.
    let grace_period = unsafe { GracePeriod::promise() };
    engine.unregister(first, &grace_period).unwrap();
    assert_ne!(jit.protect(writable), 0);
    engine.unregister(second, &grace_period).unwrap();
    assert_eq!(jit.protect(writable), 0);
}

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.patchpoint_live_text, \"ax\", @progbits",
    ".p2align 12",
    ".globl patchpoint_live_text",
    ".hidden patchpoint_live_text",
    ".type patchpoint_live_text, @function",
    "patchpoint_live_text: .fill 16, 1, 0x90",
    "mov $7, %eax",
    "ret",
    ".p2align 12, 0xcc",
    ".popsection",
    options(att_syntax)
);

/// A function of this program.
#[test]
#[cfg(target_arch = "x86_64")]
fn own_text_is_patched_live() {
    unsafe extern "C" {
        safe fn patchpoint_live_text() -> u64;
    }
    let engine = engine();
    let at = CodeAddr::new(patchpoint_live_text as *const () as u64);
    let module = register(&engine, adopt(&engine, at, StrategyChoice::Auto), 5).unwrap();
    assert_eq!(module.areas()[0].strategy(), Strategy::Remap);
    patch_beside_a_thread(&engine, &module, 5);
    engine.patch(5, &returning::<40>()).unwrap();
    assert_eq!(patchpoint_live_text(), 40);
}

/// What cannot be remapped is refused when it is registered, with the reason; and so is what was
/// asked for by name and cannot be live.
#[test]
fn what_cannot_be_remapped_is_not_registered_live() {
    let engine = engine();
    let jit = Jit::new();
    // SAFETY: changes nothing in this process.
    let advised = unsafe { libc::madvise(jit.pointer(), PAGE, libc::MADV_DONTFORK) };
    assert_eq!(advised, 0);
    let refused = register(&engine, jit.adopt(&engine, 0, StrategyChoice::Auto), 0).unwrap_err();
    let text = refused.to_string();
    assert!(
        matches!(
            refused,
            Error::Memory(memory::Error::StrategyUnavailable {
                strategy: "Remap",
                ..
            })
        ) && text.contains("MADV_DONTFORK"),
        "{text}"
    );
    for ask in [StrategyChoice::ProcMem, StrategyChoice::Toggle] {
        let refused = register(&engine, jit.adopt(&engine, 0, ask), 0);
        assert!(matches!(refused, Err(Error::ArmedMemory { .. })), "{refused:?}");
    }
    assert_eq!(engine.sites(0).map(|sites| sites.len()).unwrap_or(0), 0);
    // Arming that is refused gives the page back.
    let jit = Jit::new();
    let registration = engine
        .registration(jit.adopt(&engine, 0, StrategyChoice::Auto))
        .entry(EntrySpec::new("f", 0_u64, 1))
        .live();
    // SAFETY: what is told is true of the code that this test wrote.
    assert!(unsafe { registration.register(|_| None::<CallShape>) }.is_err());
    assert_eq!(jit.protect(libc::PROT_READ | libc::PROT_WRITE), 0);
}

/// Profilers and debuggers are told of code that was adopted and remapped, as of any other: its
/// name in `/proc/self/maps` says nothing any more.
#[test]
fn what_was_remapped_is_announced() {
    use crate::observe::{JitDump, PerfMap};
    let folder = std::env::temp_dir().join(format!("patchpoint-remapped-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let map = PerfMap::at(folder.join("perf.map")).unwrap();
    let dump = JitDump::create_in(&folder).unwrap();
    let builder = Engine::builder().world(NeverStopped);
    let builder = builder.observer(map.clone()).observer(dump.clone());
    #[cfg(all(
        feature = "backtrace",
        not(all(target_arch = "powerpc64", target_endian = "big"))
    ))]
    let (builder, gdb) = {
        let gdb = crate::observe::Gdb::new();
        (builder.observer(gdb.clone()), gdb)
    };
    let engine = builder.build().unwrap();
    let jit = Jit::new();
    let (at, len) = (jit.function(1), Entries::code(16).len());
    let module = register(&engine, jit.adopt(&engine, 1, StrategyChoice::Auto), 0).unwrap();
    assert_eq!(module.areas()[0].strategy(), Strategy::Remap);
    let mut code = vec![0; len];
    module.areas()[0].read(at, &mut code).unwrap();
    // Its name and, behind that, its bytes as they were armed.
    let record = [b"f\0", code.as_slice()].concat();
    let dumped = std::fs::read(dump.path()).unwrap();
    assert!(dumped.windows(record.len()).any(|bytes| bytes == record));
    engine.patch(0, &returning::<40>()).unwrap();
    let map = std::fs::read_to_string(map.path()).unwrap();
    let lines: Vec<&str> = map.lines().collect();
    assert_eq!(lines[0], format!("{:x} {len:x} f", at.get()));
    assert!(lines[1].ends_with(".id0.stub1"), "{lines:?}");
    let dumped = std::fs::read(dump.path()).unwrap();
    assert!(dumped.windows(11).any(|bytes| bytes == b".id0.stub1\0"));
    #[cfg(all(
        feature = "backtrace",
        not(all(target_arch = "powerpc64", target_endian = "big"))
    ))]
    assert_eq!(format!("{gdb:?}"), "Gdb { modules: 1, placed: 1 }");
    std::fs::remove_dir_all(folder).unwrap();
}

/// A module is armed in what is executed, also while others fork: a thread that came to execute the
/// site as it was would return into it when it is armed.
#[test]
fn a_module_is_not_armed_while_copies_stand_in() {
    assert!(in_child(|| {
        let engine = engine();
        let jit = Jit::new();
        let code = jit.adopt(&engine, 0, StrategyChoice::Remap);
        let at = jit.function(0);
        let executed = || {
            // SAFETY: code of the test's, which is readable.
            unsafe { std::slice::from_raw_parts(jit.pointer().cast::<u8>().add(Jit::OFFSETS[0]), 16) }
                .to_vec()
        };
        let before = executed();
        // As another thread's fork does; it takes too long.
        crate::memory::fork::gate::close();
        assert!(crate::memory::fork::stand_in());
        let module = register(&engine, code, 0).unwrap();
        let site = module.site_at(at).unwrap();
        let mut armed = [0; 16];
        site.module().areas()[0].read(at, &mut armed).unwrap();
        executed() != before && executed() == armed
    }));
}
