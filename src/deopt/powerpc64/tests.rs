//! Ramps executed: every register seen, changed, kept, on the way back and on the way elsewhere.

#![allow(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::addr::{CodeAddr, DwarfReg, FnOffset, RecordId};
use crate::arch::{Arch, CallShape, SiteContext};
use crate::deopt::lean::testing;
use crate::deopt::{Answer, Frame, RampSite, Resume, UnwindInfo, Value};
use crate::stackmap::testing::{record, reg};
use crate::stackmap::{Constants, Record};

type Handler = Box<dyn for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync>;

struct TestSite {
    addr: CodeAddr,
    /// `None` for a shadow.
    record: Option<Record<'static>>,
    handler: Handler,
}

impl RampSite for TestSite {
    fn site(&self) -> SiteContext<'_> {
        SiteContext {
            arch: Arch::host().unwrap(),
            id: RecordId::new(7),
            function: Some("test"),
            offset: FnOffset::new(0),
            addr: self.addr,
            shape: match self.record {
                Some(_) => CallShape::any_reg(4).result().args(1),
                None => CallShape::shadow(16),
            },
            record: self.record,
            constants: Constants::NONE,
            landings: &[],
            trust_live_outs: false,
        }
    }

    fn unwind(&self) -> Option<&UnwindInfo> {
        None
    }

    fn handle<'f>(&self, frame: &mut Frame<'f>) -> Answer<'f> {
        (self.handler)(frame)
    }
}

/// What the code loads before the ramp, or stores behind it.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    ctr: u64,
    xer: u64,
    cr: u64,
    lr: u64,
    f1: u64,
    f2: u64,
    v2: [u8; 16],
    r0: u64,
    /// r3 to r12.
    general: [u64; 10],
    unused: u64,
}

#[repr(C)]
struct Blocks {
    before: Block,
    after: Block,
}

const BEHIND: u32 = size_of::<Block>() as u32;

fn slots(of: u32) -> impl Fn(u32) -> Vec<u32> {
    // ld and std with r31 as base, by opcode.
    move |opcode: u32| {
        (4..13)
            .map(|n| opcode | n << 21 | 31 << 16 | (of + 72 + (n - 3) * 8))
            .collect()
    }
}

/// Loads the registers.
fn before() -> Vec<u32> {
    let ld_r0 = |offset: u32| 0xe800_0000 | 31 << 16 | offset;
    let mut words = Vec::from([
        // mflr r0; std r0, 16(r1); stdu r1, -128(r1); std r31, 120(r1); mr r31, r3
        0x7c08_02a6,
        0xf801_0010,
        0xf821_ff81,
        0xfbe1_0078,
        0x7c7f_1b78,
        // to CTR, XER, cr0, cr1, cr5 to cr7, LR
        ld_r0(0),
        0x7c09_03a6,
        ld_r0(8),
        0x7c01_03a6,
        ld_r0(16),
        0x7c0c_7120,
        ld_r0(24),
        0x7c08_03a6,
        // lfd f1, 32(r31); lfd f2, 40(r31); addi r4, r31, 48; lvx v2, 0, r4
        0xc83f_0020,
        0xc85f_0028,
        0x389f_0030,
        0x7c40_20ce,
        ld_r0(64),
    ]);
    words.extend(slots(0)(0xe800_0000));
    words
}

/// Stores them, and returns 7.
fn after() -> Vec<u32> {
    let std_r0 = |offset: u32| 0xf800_0000 | 31 << 16 | (BEHIND + offset);
    let mut words = Vec::from([std_r0(64), 0xf87f_0000 | (BEHIND + 72)]);
    words.extend(slots(BEHIND)(0xf800_0000));
    words.extend([
        0x7c09_02a6,
        std_r0(0),
        0x7c01_02a6,
        std_r0(8),
        0x7c00_0026,
        std_r0(16),
        0x7c08_02a6,
        std_r0(24),
        // stfd f1; stfd f2; addi r4, r31, ...; stvx v2, 0, r4
        0xd83f_0000 | (BEHIND + 32),
        0xd85f_0000 | (BEHIND + 40),
        0x389f_0000 | (BEHIND + 48),
        0x7c40_21ce,
        // ld r31, 120(r1); addi r1, r1, 128; ld r0, 16(r1); mtlr r0; li r3, 7; blr
        0xebe1_0078,
        0x3821_0080,
        0xe801_0010,
        0x7c08_03a6,
        0x3860_0007,
        0x4e80_0020,
    ]);
    words
}

/// Executable memory that stays, with the code: load, `b` to the ramp, store; and another store.
struct Program {
    start: u64,
    elsewhere: CodeAddr,
}

fn program(handler: impl for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync + 'static) -> Program {
    program_of(None, &before(), &after(), handler)
}

/// A program whose site is an `anyregcc` patchpoint, if there is a record.
fn program_of(
    record: Option<Record<'static>>,
    before: &[u32],
    after: &[u32],
    handler: impl for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync + 'static,
) -> Program {
    const SIZE: usize = 65536;
    // SAFETY: a new mapping.
    let start = unsafe {
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        libc::mmap(core::ptr::null_mut(), SIZE, access, flags, -1, 0)
    };
    assert_ne!(start, libc::MAP_FAILED);
    let base = start as u64;
    let mut words = before.to_vec();
    let site = TestSite {
        addr: CodeAddr::new(base + words.len() as u64 * 4),
        record,
        handler: Box::new(handler),
    };
    let (ramp, elsewhere) = (base + 4096, base + 8192);
    words.push(0x4800_0000 | (4096 - words.len() as u32 * 4));
    let resume = Resume::At(CodeAddr::new(base + words.len() as u64 * 4));
    words.extend(after);
    // SAFETY: the test describes its site truly.
    let bytes = unsafe { testing::ramp(Arc::new(site), CodeAddr::new(ramp), resume) };
    // SAFETY: all of it lies in the mapping; then the mapping is made code.
    unsafe {
        core::ptr::copy_nonoverlapping(words.as_ptr(), start.cast(), words.len());
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), ramp as *mut u8, bytes.len());
        core::ptr::copy_nonoverlapping(after.as_ptr(), elsewhere as *mut u32, after.len());
        assert_eq!(libc::mprotect(start, SIZE, libc::PROT_READ | libc::PROT_EXEC), 0);
    }
    Program {
        start: base,
        elsewhere: CodeAddr::new(elsewhere),
    }
}

fn run(program: &Program) -> Blocks {
    let before = Block {
        ctr: 0x1234_5678_9abc_def0,
        xer: 0x2000_0000,
        cr: 0x5a00_0936,
        lr: 0x7777_6666_5555_4444,
        f1: 1.5f64.to_bits(),
        f2: 2.5f64.to_bits(),
        v2: *b"0123456789abcdef",
        r0: 0xfeed_0000,
        general: core::array::from_fn(|n| 0xabcd_0000_0000 + n as u64),
        unused: 0,
    };
    let mut blocks = Blocks {
        before,
        after: Block {
            general: [0; 10],
            ..before
        },
    };
    blocks.before.general[0] = &raw const blocks as u64;
    call(program, &raw mut blocks);
    blocks
}

fn call<T>(program: &Program, blocks: *mut T) {
    let descriptor = [program.start, 0, 0];
    let pointer = match cfg!(target_endian = "big") {
        true => descriptor.as_ptr() as u64,
        false => program.start,
    };
    // SAFETY: a function pointer of the convention, to code that follows it.
    let function: extern "C" fn(*mut T) -> u64 = unsafe { core::mem::transmute(pointer) };
    assert_eq!(function(blocks), 7);
}

const VOLATILE_FIELDS: u64 = 0xff00_0fff;

fn check(blocks: &Blocks, but: impl FnOnce(&mut Block)) {
    let mut expected = blocks.before;
    but(&mut expected);
    let mut found = blocks.after;
    found.cr &= VOLATILE_FIELDS;
    expected.cr &= VOLATILE_FIELDS;
    assert_eq!(found, expected);
}

fn word(frame: &Frame<'_>, number: u16) -> u64 {
    frame.register(DwarfReg::new(number)).unwrap().u64().unwrap()
}

#[test]
fn a_resumed_frame_finds_everything_as_it_was() {
    let program = program(|frame| frame.resume());
    check(&run(&program), |_| {});
}

#[test]
fn every_register_is_seen() {
    let program = program(|frame| {
        for n in 4..13 {
            assert_eq!(word(frame, n), 0xabcd_0000_0000 + u64::from(n) - 3, "r{n}");
        }
        assert_eq!(
            (word(frame, 0), word(frame, 66)),
            (0xfeed_0000, 0x1234_5678_9abc_def0)
        );
        assert_eq!(
            (word(frame, 65), word(frame, 76)),
            (0x7777_6666_5555_4444, 0x2000_0000)
        );
        assert_eq!(
            (word(frame, 33), word(frame, 34)),
            (1.5f64.to_bits(), 2.5f64.to_bits())
        );
        assert_eq!(frame.flags() & VOLATILE_FIELDS, 0x5a00_0936);
        // cr0, cr1, cr5, cr7
        assert_eq!([68, 69, 73, 75].map(|n| word(frame, n)), [5, 10, 9, 6]);
        let mut vector = *b"0123456789abcdef";
        if cfg!(target_endian = "big") {
            vector.reverse();
        }
        assert_eq!(frame.register(DwarfReg::new(79)).unwrap().bytes(), vector);
        assert_eq!(word(frame, 1), frame.stack_pointer());
        assert_eq!(frame.stack_pointer() % 16, 0);
        frame.resume()
    });
    check(&run(&program), |_| {});
}

#[test]
fn what_is_written_is_found() {
    let program = program(|frame| {
        for n in [0, 5, 12, 33, 65, 66] {
            frame
                .set_register(DwarfReg::new(n), Value::from(u64::from(n) << 40 | 1))
                .unwrap();
        }
        frame
            .set_register(DwarfReg::new(75), Value::from_bytes(&[8]).unwrap())
            .unwrap();
        frame
            .set_register(DwarfReg::new(79), Value::from_bytes(&[0x61; 16]).unwrap())
            .unwrap();
        // A number of 4 bytes becomes the double that the register holds it as.
        let single = Value::from_bytes(&1.5f32.to_le_bytes()).unwrap();
        frame.set_register(DwarfReg::new(34), single).unwrap();
        assert_eq!(frame.register(DwarfReg::new(34)).unwrap().f64(), Some(1.5));
        frame.resume()
    });
    check(&run(&program), |block| {
        let value = |n: u64| n << 40 | 1;
        (block.r0, block.general[2], block.general[9]) = (1, value(5), value(12));
        (block.f1, block.lr, block.ctr) = (value(33), value(65), value(66));
        block.f2 = 1.5f64.to_bits();
        block.cr = block.cr & !15 | 8;
        block.v2 = [0x61; 16];
    });
}

#[test]
fn a_frame_goes_on_elsewhere_with_its_registers() {
    use core::sync::atomic::{AtomicU64, Ordering};
    static ELSEWHERE: AtomicU64 = AtomicU64::new(0);
    let program = program(|frame| {
        frame.set_register(DwarfReg::new(5), Value::from(55u64)).unwrap();
        frame
            .continue_at(CodeAddr::new(ELSEWHERE.load(Ordering::Relaxed)))
            .unwrap()
    });
    ELSEWHERE.store(program.elsewhere.get(), Ordering::Relaxed);
    check(&run(&program), |block| {
        block.general[2] = 55;
        // The last jump goes through it.
        block.ctr = program.elsewhere.get();
    });
}

/// Every register that a C function may change: r0, r3 to r12, f0 to f13, v0 to v19.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, PartialEq)]
struct Volatile {
    vectors: [u128; 20],
    floats: [u64; 14],
    general: [u64; 13],
    unused: u64,
}

const FLOATS: u32 = core::mem::offset_of!(Volatile, floats) as u32;
const GENERAL: u32 = core::mem::offset_of!(Volatile, general) as u32;

/// Loads them from r31 plus `at`, or stores them there. r0 goes last when it is loaded, and r10 is the index.
fn volatile(load: bool, at: u32) -> Vec<u32> {
    let pick = |load_word: u32, store_word: u32| if load { load_word } else { store_word };
    let general = |n: u32| pick(0xe800_0000, 0xf800_0000) | n << 21 | 31 << 16 | (at + GENERAL + 8 * n);
    let mut vectors = Vec::new();
    for n in 0..20 {
        // addi r10, r31, ...; lvx, stvx n, 0, r10
        vectors.extend([
            0x395f_0000 | (at + 16 * n),
            pick(0x7c00_00ce, 0x7c00_01ce) | n << 21 | 10 << 11,
        ]);
    }
    let floats = (0..14).map(|n| pick(0xc800_0000, 0xd800_0000) | n << 21 | 31 << 16 | (at + FLOATS + 8 * n));
    let all = [0].into_iter().chain(3..13).map(general);
    match load {
        true => vectors.into_iter().chain(floats).chain(all).collect(),
        false => all.chain(floats).chain(vectors).collect(),
    }
}

/// Result in r3, argument in r5; everything is live that can be.
#[test]
fn a_lean_ramp_keeps_every_live_register() {
    const AFTER: u32 = size_of::<Volatile>() as u32;
    let mut spec = record(7).location(reg(3, 8)).location(reg(5, 8)).live_out(1, 8);
    for n in [0].into_iter().chain(3..11).chain(14..32) {
        spec = spec.live_out(n, 8);
    }
    for n in 32..64 {
        spec = spec.live_out(n, 8);
    }
    for n in 77..109 {
        spec = spec.live_out(n, 16);
    }
    // The beginning and the end of a function, as above.
    let mut load = before()[..5].to_vec();
    load.extend(volatile(true, 0));
    let mut store = volatile(false, AFTER);
    store.extend(&after()[after().len() - 6..]);
    let program = program_of(Some(testing::leak(spec)), &load, &store, |frame| {
        let arg = frame.arg(0).unwrap().u64().unwrap();
        frame.set_result(!arg).unwrap();
        let sum = core::hint::black_box((0..100).map(f64::from).sum::<f64>());
        assert_eq!(sum, 4950.0);
        frame.resume()
    });
    let word = |n: usize| 0x0123_4567_89ab_cdef_u64.rotate_left(n as u32) ^ (n as u64) << 56;
    let before = Volatile {
        vectors: core::array::from_fn(|n| u128::from(word(n)) << 64 | u128::from(word(n + 20))),
        floats: core::array::from_fn(|n| word(n + 40)),
        general: core::array::from_fn(|n| word(n + 60)),
        unused: 0,
    };
    let mut blocks = [before, before];
    blocks[1].floats = [0; 14];
    call(&program, &raw mut blocks);
    let [_, mut found] = blocks;
    assert_eq!(found.general[3], !before.general[5]);
    // The result, the stack pointer and the TOC, and what is free at every patchpoint.
    for n in [1, 2, 3, 11, 12] {
        found.general[n] = before.general[n];
    }
    assert_eq!(found, before);
}
