//! Exit stubs executed: every register seen, changed, kept, on the way back and on the way
//! on other hosts.

#![allow(unsafe_code)]

mod image;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::addr::{CodeAddr, DwarfReg, FnOffset, RecordId};
use crate::arch::{Arch, CallShape, SiteContext};
use crate::deopt::live_registers::testing;
use crate::deopt::{Answer, ExitStubSite, Frame, Resume, UnwindInfo, Value};
use crate::stackmap::testing::{record, reg};
use crate::stackmap::{Constants, Record};
use image::{Image, KEPT, assert_same};

type Handler = Box<dyn for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync>;

struct TestSite {
    addr: CodeAddr,
    shape: CallShape,
    record: Option<Record<'static>>,
    handler: Handler,
    /// Where a function is that destroys what a handler may.
    trash: u64,
}

impl ExitStubSite for TestSite {
    fn site(&self) -> SiteContext<'_> {
        SiteContext {
            arch: Arch::host().unwrap(),
            id: RecordId::new(7),
            function: Some("test"),
            offset: FnOffset::new(0),
            addr: self.addr,
            shape: self.shape,
            record: self.record,
            constants: Constants::NONE,
            return_offsets: &[],
            trust_live_outs: false,
        }
    }

    fn unwind(&self) -> crate::deopt::Result<Option<&UnwindInfo>> {
        Ok(None)
    }

    fn handle<'f>(&self, frame: &mut Frame<'f>) -> Answer<'f> {
        let answer = (self.handler)(frame);
        // As long as it is called.
        let pointer = Pointer::to(self.trash);
        // SAFETY: the program's function was placed there.
        let trash: extern "C" fn() -> u64 = unsafe { core::mem::transmute(pointer.get()) };
        trash();
        answer
    }
}

/// A function pointer of the convention to code.
struct Pointer([u64; 3]);

impl Pointer {
    fn to(code: u64) -> Self {
        Self([code, 0, 0])
    }

    fn get(&self) -> u64 {
        match crate::arch::HOST_HAS_DESCRIPTORS {
            // The compiler does not know that a call reads it.
            true => core::hint::black_box(&self.0).as_ptr() as u64,
            false => self.0[0],
        }
    }
}

/// Executable memory that stays, with the code: fill, `b` to the exit stub, store; and another
/// store.
struct Program {
    start: u64,
    other_code: CodeAddr,
}

const SIZE: usize = 65536;
/// Where the parts are behind the program.
const EXIT_STUB: u64 = 8192;
const OTHER_CODE: u64 = 16384;
const TRASH: u64 = 24576;

fn program(handler: impl for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync + 'static) -> Program {
    program_of(CallShape::shadow(16), None, handler)
}

/// A program whose site has this shape and record.
fn program_of(
    shape: CallShape,
    record: Option<Record<'static>>,
    handler: impl for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync + 'static,
) -> Program {
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
    let (mut words, store, trash) = (image::fill(), image::store(), image::trash());
    let site = TestSite {
        addr: CodeAddr::new(base + words.len() as u64 * 4),
        shape,
        record,
        handler: Box::new(handler),
        trash: base + TRASH,
    };
    words.push(0x4800_0000 | (EXIT_STUB as u32 - words.len() as u32 * 4));
    let resume = Resume::At(CodeAddr::new(base + words.len() as u64 * 4));
    words.extend(&store);
    // SAFETY: the test describes its site truly.
    let exit_stub = unsafe { testing::exit_stub(Arc::new(site), CodeAddr::new(base + EXIT_STUB), resume) };
    let bytes = |words: &[u32]| {
        words
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect::<Vec<_>>()
    };
    for (at, bytes) in [
        (0, bytes(&words)),
        (EXIT_STUB, exit_stub),
        (OTHER_CODE, bytes(&store)),
        (TRASH, bytes(&trash)),
    ] {
        assert!(bytes.len() <= 8192);
        // SAFETY: it lies in the mapping.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), (base + at) as *mut u8, bytes.len()) };
    }
    // SAFETY: the mapping is made code.
    assert_eq!(
        unsafe { libc::mprotect(start, SIZE, libc::PROT_READ | libc::PROT_EXEC) },
        0
    );
    Program {
        start: base,
        other_code: CodeAddr::new(base + OTHER_CODE),
    }
}

fn run(program: &Program, input: &Image) -> Image {
    let (pointer, mut output) = (Pointer::to(program.start), Image::zero());
    // SAFETY: a function pointer of the convention, to code that follows it.
    let function: extern "C" fn(&Image, &mut Image) -> u64 = unsafe { core::mem::transmute(pointer.get()) };
    assert_eq!(function(input, &mut output), 7);
    output
}

const SEEDS: core::ops::Range<u64> = 1..5;

fn dwarf(number: usize) -> DwarfReg {
    DwarfReg::new(number as u16)
}

fn word(frame: &Frame<'_>, number: usize) -> u64 {
    frame.register(dwarf(number)).unwrap().u64().unwrap()
}

/// Bytes in memory from the least significant on, or back.
fn in_order(mut bytes: [u8; 16]) -> [u8; 16] {
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
    bytes
}

#[test]
fn a_resumed_frame_finds_everything_as_it_was() {
    let program = program(|frame| frame.resume());
    for input in SEEDS.map(Image::pattern) {
        assert_same(&input, &run(&program, &input));
    }
}

#[test]
fn every_register_is_seen() {
    let program = program(|frame| {
        let given = Image::pattern(9);
        for n in (0..32).filter(|n| !KEPT.contains(n)) {
            assert_eq!(word(frame, n), given.general[n], "r{n}");
            assert_eq!(word(frame, 1200 + n), given.general[n], "r{n}");
        }
        for n in 0..32 {
            assert_eq!(word(frame, 32 + n), given.scalars[n][0], "f{n}");
            let vector = frame.register(dwarf(77 + n)).unwrap();
            assert_eq!(vector.bytes(), in_order(given.vectors[n]), "v{n}");
        }
        let special = [65, 66, 76, 109].map(|n| word(frame, n));
        assert_eq!(special, [given.lr, given.ctr, given.xer, given.vrsave]);
        assert_eq!(frame.flags(), given.cr);
        for field in 0..8 {
            assert_eq!(
                word(frame, 68 + field),
                given.condition(field as u64),
                "cr{field}"
            );
        }
        assert_eq!(word(frame, 1), frame.stack_pointer());
        assert_eq!(frame.stack_pointer() % 16, 0);
        frame.resume()
    });
    let input = Image::pattern(9);
    assert_same(&input, &run(&program, &input));
}

/// Of a vector and scalar register the number is that of its floating-point register, with 16
/// bytes.
#[test]
fn a_location_has_the_whole_of_a_vector_and_scalar_register() {
    let spec = record(7).locations((32..64).flat_map(|n| [reg(n, 16), reg(n, 8)]));
    let program = program_of(CallShape::shadow(16), Some(testing::leak(spec)), |frame| {
        let given = Image::pattern(5);
        for n in 0..32 {
            let [high, low] = given.scalars[n];
            let whole = u128::from(high) << 64 | u128::from(low);
            let value = frame.value(2 * n).unwrap();
            assert_eq!(value.bytes(), whole.to_le_bytes(), "vs{n}");
            assert_eq!(frame.value(2 * n + 1).unwrap().u64(), Some(high), "f{n}");
            let new = Value::from_bytes(&(!whole).to_le_bytes()).unwrap();
            if n % 2 == 0 {
                frame.set_value(2 * n, new).unwrap();
            } else {
                frame.set_value(2 * n + 1, Value::from(n as u64)).unwrap();
            }
        }
        frame.resume()
    });
    let mut input = Image::pattern(5);
    let output = run(&program, &input);
    for (n, scalar) in input.scalars.iter_mut().enumerate() {
        match n % 2 {
            0 => *scalar = scalar.map(|half| !half),
            _ => scalar[0] = n as u64,
        }
    }
    assert_same(&input, &output);
}

#[test]
fn what_is_written_is_found() {
    let program = program(|frame| {
        let new = Image::pattern(4);
        for n in (0..32).filter(|n| !KEPT.contains(n)) {
            // SAFETY: the code that goes on is this test's, and made to look at just that.
            unsafe { frame.set_register(dwarf(n), new.general[n].into()) }.unwrap();
        }
        for n in 0..32 {
            // SAFETY: the code that goes on is this test's, and made to look at just that.
            unsafe { frame.set_register(dwarf(32 + n), new.scalars[n][0].into()) }.unwrap();
            let vector = Value::from_bytes(&in_order(new.vectors[n])).unwrap();
            // SAFETY: the code that goes on is this test's, and made to look at just that.
            unsafe { frame.set_register(dwarf(77 + n), vector) }.unwrap();
        }
        for (n, value) in [(65, new.lr), (66, new.ctr), (109, new.vrsave)] {
            // SAFETY: the code that goes on is this test's, and made to look at just that.
            unsafe { frame.set_register(dwarf(n), value.into()) }.unwrap();
        }
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.set_flags(new.cr) };
        let field = Value::from_bytes(&[8]).unwrap();
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.set_register(dwarf(75), field) }.unwrap();
        // A number of 4 bytes becomes the double that the register holds it as.
        let single = Value::from_bytes(&1.5f32.to_le_bytes()).unwrap();
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.set_register(dwarf(34), single) }.unwrap();
        assert_eq!(frame.register(dwarf(34)).unwrap().f64(), Some(1.5));
        frame.resume()
    });
    let (input, mut expected) = (Image::pattern(3), Image::pattern(4));
    let output = run(&program, &input);
    expected.cr = expected.cr & !15 | 8;
    expected.scalars[2][0] = 1.5f64.to_bits();
    for (scalar, before) in expected.scalars.iter_mut().zip(input.scalars) {
        scalar[1] = before[1];
    }
    assert_same(&expected, &output);
}

#[test]
fn a_frame_goes_on_at_another_address_with_its_registers() {
    static AT: AtomicU64 = AtomicU64::new(0);
    let program = program(|frame| {
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.set_register(dwarf(5), Value::from(55u64)) }.unwrap();
        let other_code = CodeAddr::new(AT.load(Ordering::Relaxed));
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.continue_at(other_code) }.unwrap()
    });
    AT.store(program.other_code.get(), Ordering::Relaxed);
    for mut input in SEEDS.map(Image::pattern) {
        let output = run(&program, &input);
        input.general[5] = 55;
        // The last jump goes through it.
        input.ctr = program.other_code.get();
        assert_same(&input, &output);
    }
}

/// Result in r3, argument in r5; everything is live that can be.
#[test]
fn a_live_register_exit_stub_keeps_every_live_register() {
    let mut spec = record(7).location(reg(3, 8)).location(reg(5, 8)).live_out(1, 8);
    for n in [0].into_iter().chain(3..11).chain(14..32) {
        spec = spec.live_out(n, 8);
    }
    for n in 32..64 {
        spec = spec.live_out(n, 8);
    }
    for n in 70..73 {
        spec = spec.live_out(n, 4);
    }
    for n in 77..109 {
        spec = spec.live_out(n, 16);
    }
    let shape = CallShape::any_reg(4).result().args(1);
    let program = program_of(shape, Some(testing::leak(spec)), |frame| {
        let arg = frame.arg(0).unwrap().u64().unwrap();
        frame.set_result(!arg).unwrap();
        frame.resume()
    });
    for input in SEEDS.map(Image::pattern) {
        // The handler runs with the settings of the code, so those that it may have are given.
        let input = Image { fpscr: 0, ..input };
        let mut found = run(&program, &input);
        assert_eq!(found.general[3], !input.general[5]);
        // The result, and what is free at every patchpoint.
        for n in [3, 11, 12] {
            found.general[n] = input.general[n];
        }
        // The second halves are of no live register, cr0, cr1 and cr5 to cr7 neither.
        for (found, given) in found.scalars.iter_mut().zip(input.scalars) {
            found[1] = given[1];
        }
        found.cr = found.cr & 0x00ff_f000 | input.cr & 0xff00_0fff;
        let (vscr, fpscr, vrsave) = (input.vscr, input.fpscr, input.vrsave);
        let (ctr, lr, xer) = (input.ctr, input.lr, input.xer);
        found = Image {
            vscr,
            fpscr,
            vrsave,
            ctr,
            lr,
            xer,
            ..found
        };
        assert_same(&input, &found);
    }
}
