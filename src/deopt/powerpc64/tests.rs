//! Ramps executed: every register seen, changed, kept, on the way back and on the way elsewhere.

#![allow(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::addr::{CodeAddr, DwarfReg, FnOffset, RecordId};
use crate::arch::{Arch, CallShape, SiteContext};
use crate::deopt::{Answer, Frame, RampContext, RampSite, Resume, Role, UnwindInfo, Value, encode, max_len};
use crate::stackmap::Constants;

type Handler = Box<dyn for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync>;

struct TestSite(Handler);

impl RampSite for TestSite {
    fn site(&self) -> SiteContext<'_> {
        SiteContext {
            arch: Arch::host().unwrap(),
            id: RecordId::new(7),
            function: Some("test"),
            offset: FnOffset::new(0),
            addr: CodeAddr::new(0x1000),
            shape: CallShape::shadow(16),
            record: None,
            constants: Constants::NONE,
            landings: &[],
            trust_live_outs: false,
        }
    }

    fn unwind(&self) -> Option<&UnwindInfo> {
        None
    }

    fn handle<'f>(&self, frame: &mut Frame<'f>) -> Answer<'f> {
        (self.0)(frame)
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
    let site = TestSite(Box::new(handler));
    // SAFETY: the test describes its site truly.
    let context = unsafe { RampContext::new(Role::Deopt, Arc::new(site)) }.unwrap();
    let mut words = before();
    let (ramp, elsewhere) = (base + 4096, base + 8192);
    words.push(0x4800_0000 | (4096 - words.len() as u32 * 4));
    let resume = Resume::At(CodeAddr::new(base + words.len() as u64 * 4));
    words.extend(after());
    let bytes = encode(CodeAddr::new(ramp), Box::leak(context), resume).unwrap();
    assert!(bytes.len() <= max_len(Arch::host().unwrap(), &resume).as_usize());
    // SAFETY: all of it lies in the mapping; then the mapping is made code.
    unsafe {
        core::ptr::copy_nonoverlapping(words.as_ptr(), start.cast(), words.len());
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), ramp as *mut u8, bytes.len());
        core::ptr::copy_nonoverlapping(after().as_ptr(), elsewhere as *mut u32, after().len());
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
    let descriptor = [program.start, 0, 0];
    let pointer = match cfg!(target_endian = "big") {
        true => descriptor.as_ptr() as u64,
        false => program.start,
    };
    // SAFETY: a function pointer of the convention, to code that follows it.
    let function: extern "C" fn(*mut Blocks) -> u64 = unsafe { core::mem::transmute(pointer) };
    assert_eq!(function(&raw mut blocks), 7);
    blocks
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
        frame.resume()
    });
    check(&run(&program), |block| {
        let value = |n: u64| n << 40 | 1;
        (block.r0, block.general[2], block.general[9]) = (1, value(5), value(12));
        (block.f1, block.lr, block.ctr) = (value(33), value(65), value(66));
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
