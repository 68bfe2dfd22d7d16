//! Nothing is lost on the way through an exit stub but what the handler changed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::machine::{Asm, Memory, RAX, RDI, RDX, RSP};
use super::probe::{ALL_FLAGS, Image, Probe, place_trasher, trash, vector_count, width};
use super::site::TestSite;
use crate::addr::{CodeAddr, DwarfReg};
use crate::deopt::{Answer, Frame, Resume, Value};

/// Where the code is that ends the process.
const TRAP: CodeAddr = CodeAddr::new(0x10);

/// A probe through an exit stub whose handler trashes what it can, then calls `handler` with the
/// address at which the probe goes on.
pub(super) fn probe_through(
    resume_at_collect: bool,
    handler: impl for<'f> Fn(&mut Frame<'f>, CodeAddr) -> Answer<'f> + Send + Sync + 'static,
) -> Probe {
    let mut memory = Memory::new();
    let trasher = place_trasher(&mut memory);
    let exit_stub = memory.reserve(128);
    let mut site = TRAP;
    let probe = Probe::place(&mut memory, |asm: &mut Asm| {
        site = asm.here();
        asm.jmp(exit_stub);
    });
    let collect = probe.collect;
    let site = TestSite::new(site, move |frame: &mut Frame<'_>| {
        check_environment();
        let answer = handler(frame, collect);
        trash(trasher);
        answer
    });
    let resume = Resume::At(if resume_at_collect { collect } else { TRAP });
    site.exit_stub(&mut memory, exit_stub, resume);
    memory.seal();
    probe
}

/// What Rust code takes for granted.
fn check_environment() {
    let (mut flags, mut mxcsr, mut control): (u64, u32, u16) = (0, 0, 0);
    // SAFETY: reads the flags through the stack.
    unsafe { core::arch::asm!("pushfq", "pop {0}", inout(reg) flags) };
    // SAFETY: store the control words to locals.
    unsafe { core::arch::asm!("stmxcsr [{0}]", "fnstcw [{1}]", in(reg) &mut mxcsr, in(reg) &mut control) };
    assert_eq!(flags & 0x400, 0, "the direction flag is set in the handler");
    assert_eq!((mxcsr & 0xffc0, control), (0x1f80, 0x37f));
}

/// What is expected after a run: the stack pointer is not the test's to choose, bit 1 of the flags
/// is always set, and interrupts are on.
pub(super) fn expected(input: &Image, output: &Image) -> Image {
    let mut image = input.clone();
    image.gprs[RSP] = output.gprs[RSP];
    image.flags |= 0x202;
    image
}

/// Field by field, for a message that can be read.
pub(super) fn assert_same(expected: &Image, found: &Image) {
    for reg in 0..16 {
        assert_eq!(
            expected.gprs[reg], found.gprs[reg],
            "general register dwarf:{reg}"
        );
    }
    assert_eq!(expected.red_zone, found.red_zone, "red zone");
    assert_eq!(expected.flags, found.flags, "flags");
    for number in 0..32 {
        assert_eq!(
            expected.vectors[number], found.vectors[number],
            "vector register {number}"
        );
    }
    assert_eq!(expected, found);
}

#[test]
fn resuming_changes_nothing() {
    let probe = probe_through(true, |frame, _| frame.resume());
    for (seed, flags) in [(1, 0), (2, ALL_FLAGS), (3, 0x400), (4, 0x801), (5, 0xd4)] {
        let input = Image::pattern(seed, flags);
        let output = probe.run(&input);
        assert_same(&expected(&input, &output), &output);
    }
}

#[test]
fn continuing_at_another_address_changes_nothing() {
    let probe = probe_through(false, |frame, collect| {
        // SAFETY: the code of the test can go on with it.
        unsafe { frame.continue_at(collect) }.unwrap()
    });
    for (seed, flags) in [(1, 0), (2, ALL_FLAGS), (3, 0x400)] {
        let input = Image::pattern(seed, flags);
        let output = probe.run(&input);
        assert_same(&expected(&input, &output), &output);
    }
}

/// Everything that a frame can read, as an image.
fn seen(frame: &Frame<'_>) -> Image {
    let mut image = Image::zero();
    for (reg, word) in (0..).map(DwarfReg::new).zip(&mut image.gprs) {
        *word = frame.register(reg).unwrap().u64().unwrap();
    }
    for number in 0..vector_count() as u16 {
        let value = frame.register(vector(number)).unwrap();
        assert_eq!(value.bytes().len(), width());
        image.vectors[usize::from(number)][..width()].copy_from_slice(value.bytes());
    }
    if width() == 64 {
        for (reg, mask) in (118..).map(DwarfReg::new).zip(&mut image.masks) {
            *mask = frame.register(reg).unwrap().u64().unwrap();
        }
    }
    for (reg, number) in (33..).map(DwarfReg::new).zip(&mut image.stack) {
        number[..10].copy_from_slice(frame.register(reg).unwrap().bytes());
    }
    image.flags = frame.flags();
    image
}

fn vector(number: u16) -> DwarfReg {
    DwarfReg::new(if number < 16 {
        17 + number
    } else {
        67 + number - 16
    })
}

#[test]
fn the_handler_sees_every_register() {
    static SEEN: Mutex<Option<Image>> = Mutex::new(None);
    static STACK: AtomicU64 = AtomicU64::new(0);
    let probe = probe_through(true, |frame, _| {
        *SEEN.lock().unwrap() = Some(seen(frame));
        STACK.store(frame.stack_pointer(), Ordering::Relaxed);
        frame.resume()
    });
    let input = Image::pattern(6, ALL_FLAGS);
    let output = probe.run(&input);
    let mut seen = SEEN.lock().unwrap().take().unwrap();
    // Not registers of the frame.
    (seen.red_zone, seen.mxcsr, seen.control) = (input.red_zone, input.mxcsr, input.control);
    assert_same(&expected(&input, &output), &seen);
    assert_eq!(STACK.load(Ordering::Relaxed), output.gprs[RSP]);
}

fn write_all(frame: &mut Frame<'_>, image: &Image) {
    for (reg, word) in (0..).map(DwarfReg::new).zip(image.gprs) {
        if usize::from(reg.get()) == RSP {
            // SAFETY: the code of the test can go on with it.
            unsafe { frame.set_register(reg, word.into()) }.unwrap_err();
        } else {
            // SAFETY: the code of the test can go on with it.
            unsafe { frame.set_register(reg, word.into()) }.unwrap();
        }
    }
    for number in 0..vector_count() as u16 {
        let bytes = &image.vectors[usize::from(number)][..width()];
        // SAFETY: the code of the test can go on with it.
        unsafe { frame.set_register(vector(number), Value::from_bytes(bytes).unwrap()) }.unwrap();
    }
    if width() == 64 {
        for (reg, mask) in (118..).map(DwarfReg::new).zip(image.masks) {
            // SAFETY: the code of the test can go on with it.
            unsafe { frame.set_register(reg, mask.into()) }.unwrap();
        }
    }
    for (reg, number) in (33..).map(DwarfReg::new).zip(&image.stack) {
        let number = Value::from_bytes(&number[..10]).unwrap();
        // SAFETY: the code of the test can go on with it.
        unsafe { frame.set_register(reg, number) }.unwrap();
    }
    // SAFETY: the code of the test can go on with it.
    unsafe { frame.set_flags(image.flags) };
}

fn rewritten(input: &Image) -> Image {
    let mut image = Image::pattern(77, ALL_FLAGS & !input.flags);
    image.stack.iter_mut().for_each(|number| number[0] ^= 0x10);
    image
}

fn writes_are_seen(probe: Probe, input: &Image) {
    let output = probe.run(input);
    let mut wanted = expected(&rewritten(input), &output);
    (wanted.red_zone, wanted.mxcsr, wanted.control) = (input.red_zone, input.mxcsr, input.control);
    assert_same(&wanted, &output);
}

#[test]
fn what_the_handler_writes_is_what_the_code_finds() {
    for flags in [0, ALL_FLAGS] {
        let input = Image::pattern(8, flags);
        let new = rewritten(&input);
        let probe = probe_through(true, move |frame, _| {
            write_all(frame, &new);
            frame.resume()
        });
        writes_are_seen(probe, &input);
        let new = rewritten(&input);
        let probe = probe_through(false, move |frame, collect| {
            write_all(frame, &new);
            // SAFETY: the code at that address can go on with the frame.
            unsafe { frame.continue_at(collect) }.unwrap()
        });
        writes_are_seen(probe, &input);
    }
}

#[test]
fn only_the_flags_that_code_computes_with_can_be_set() {
    // All ones would mean single steps, alignment checks and more.
    let probe = probe_through(true, |frame, _| {
        // SAFETY: the code of the test can go on with it.
        unsafe { frame.set_flags(u64::MAX) };
        frame.resume()
    });
    let input = Image::pattern(10, 0);
    assert_eq!(probe.run(&input).flags, ALL_FLAGS | 0x202);
}

/// What XRSTOR reads to bring the components of its mask into their initial state.
#[repr(C, align(64))]
struct InitialState([u8; 576]);

#[test]
fn a_component_in_its_initial_state_can_be_read_and_written() {
    if width() == 16 {
        return;
    }
    let mut state = InitialState([0; 576]);
    let mut input = Image::pattern(9, 0);
    state.0[24..28].copy_from_slice(&(input.mxcsr as u32).to_le_bytes());
    let mut memory = Memory::new();
    let exit_stub = memory.reserve(128);
    let mut addr = exit_stub;
    let probe = Probe::place(&mut memory, |asm| {
        // Everything above the first 16 bytes, and the masks.
        asm.set(RDI, &raw const state as u64).set(RAX, 0xe4).set(RDX, 0);
        asm.op(&[0x48, 0x0f, 0xae], 5, RDI, 0);
        addr = asm.here();
        asm.jmp(exit_stub);
    });
    let part = [0x77; 20];
    let site = TestSite::new(addr, move |frame| {
        let high = frame.register(vector(3)).unwrap();
        assert!(high.bytes()[16..].iter().all(|byte| *byte == 0));
        // SAFETY: the code of the test can go on with it.
        unsafe { frame.set_register(vector(3), Value::from_bytes(&part).unwrap()) }.unwrap();
        frame.resume()
    });
    site.exit_stub(&mut memory, exit_stub, Resume::At(probe.collect));
    memory.seal();
    for vector in &mut input.vectors {
        vector[16..].fill(0);
    }
    input.vectors[16..].fill([0; 64]);
    input.masks = [0; 8];
    let output = probe.run(&input);
    let mut wanted = expected(&input, &output);
    (wanted.gprs[RDI], wanted.gprs[RAX], wanted.gprs[RDX]) = (&raw const state as u64, 0xe4, 0);
    wanted.vectors[3][..20].copy_from_slice(&part);
    assert_same(&wanted, &output);
}
