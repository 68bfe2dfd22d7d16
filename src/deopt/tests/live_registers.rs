//! What a live-register exit stub saves survives its handler, and it saves what is live.

use std::sync::Mutex;
use std::vec::Vec;

use super::machine::Memory;
use super::probe::{Image, Probe, place_trasher, trash, vector_count, width};
use super::site::TestSite;
use crate::addr::{CodeAddr, DwarfReg};
use crate::arch::CallShape;
use crate::deopt::live_registers::testing::leak;
use crate::deopt::{Error, Frame, Value};
use crate::stackmap::testing::{RecordSpec, record, reg};

const LEN: u32 = 32;

/// A probe through a live-register exit stub of a site with this record.
fn probe(
    shape: CallShape,
    spec: RecordSpec,
    handler: impl Fn(&mut Frame<'_>) + Send + Sync + 'static,
) -> Probe {
    let mut memory = Memory::new();
    let trasher = place_trasher(&mut memory);
    let exit_stub = memory.reserve(2048);
    let probe = Probe::place(&mut memory, |asm| {
        asm.jmp(exit_stub);
    });
    let site = CodeAddr::new(probe.collect.get() - u64::from(LEN));
    let mut site = TestSite::new(site, move |frame| {
        handler(frame);
        trash(trasher);
        trash_general();
        frame.resume()
    });
    (site.shape, site.record) = (shape, Some(leak(spec)));
    site.live_register_exit_stub(&mut memory, exit_stub);
    memory.seal();
    probe
}

/// Changes every general register that a C function may change.
fn trash_general() {
    // SAFETY: they are declared.
    unsafe {
        core::arch::asm!(
            "mov rax, -1; mov rcx, -1; mov rdx, -1; mov rsi, -1; mov rdi, -1",
            "mov r8, -1; mov r9, -1; mov r10, -1; mov r11, -1",
            clobber_abi("sysv64"),
        );
    }
}

/// rcx, rdx, rsi, rdi, r8, r9, r10.
const CALLER_SAVED: [u16; 7] = [2, 1, 4, 5, 8, 9, 10];
/// rbx, rbp, r12 to r15.
const CALLEE_SAVED: [u16; 6] = [3, 6, 12, 13, 14, 15];

fn vector(number: u16) -> u16 {
    if number < 16 { 17 + number } else { 51 + number }
}

/// An `anyregcc` patchpoint with a result in rax and an argument in rcx.
fn shape() -> CallShape {
    CallShape::any_reg(LEN).result().args(1)
}

fn spec() -> RecordSpec {
    record(7).location(reg(0, 8)).location(reg(2, 8)).live_out(7, 8)
}

#[test]
fn every_live_register_survives() {
    let mut live = spec();
    for reg in CALLER_SAVED {
        live = live.live_out(reg, 8);
    }
    for number in 0..vector_count() as u16 {
        live = live.live_out(vector(number), width() as u8);
    }
    let probe = probe(shape(), live, |frame| frame.set_result(42).unwrap());
    for seed in 1..5 {
        let input = Image::pattern(seed, 0);
        let output = probe.run(&input);
        for reg in CALLER_SAVED.into_iter().chain(CALLEE_SAVED) {
            let reg = usize::from(reg);
            assert_eq!(output.gprs[reg], input.gprs[reg], "general register dwarf:{reg}");
        }
        assert_eq!(output.vectors, input.vectors);
        assert_eq!(output.gprs[0], 42);
    }
}

/// Each vector register with each size that it can be live with.
#[test]
fn live_parts_of_vectors_survive() {
    for size in [16, 32, 64].into_iter().filter(|size| *size <= width()) {
        for number in 0..vector_count() as u16 {
            let live = spec().live_out(vector(number), size as u8);
            let probe = probe(shape(), live, |_| {});
            let input = Image::pattern(1, 0);
            let output = probe.run(&input);
            let number = usize::from(number);
            assert_eq!(output.vectors[number][..size], input.vectors[number][..size]);
            let other = (number + 1) % vector_count();
            assert_ne!(
                output.vectors[other], input.vectors[other],
                "nothing else is saved"
            );
        }
    }
}

#[test]
fn the_handler_sees_the_values_of_the_record() {
    static SEEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let live = spec()
        .location(reg(3, 8))
        .location(reg(18, 16))
        .location(crate::stackmap::testing::indirect(7, 8, 8));
    let probe = probe(shape(), live, |frame| {
        let mut seen = Vec::from([frame.arg(0).unwrap(), frame.live_value(0).unwrap()]);
        seen.push(frame.live_value(2).unwrap());
        let words = seen.iter().map(|value| value.u64().unwrap());
        *SEEN.lock().unwrap() = words.chain([frame.stack_pointer()]).collect();
        let vector = frame.live_value(1).unwrap();
        assert_eq!(vector.size(), 16);
        frame.set_value(3, vector).unwrap();
        frame.set_value(2, 5u64.into()).unwrap();
        // Neither live nor recorded.
        let unknown = frame.register(DwarfReg::new(4));
        assert!(
            matches!(unknown, Err(Error::FrameRegister { have: 0, .. })),
            "{unknown:?}"
        );
        // SAFETY: the code at that address can go on with the frame.
        let left = unsafe { frame.continue_at(CodeAddr::new(0)) };
        assert!(matches!(left, Err(Error::FrameNotWhole { .. })), "{left:?}");
    });
    let input = Image::pattern(3, 0);
    let output = probe.run(&input);
    let seen = SEEN.lock().unwrap().clone();
    assert_eq!(seen[..2], [input.gprs[2], input.gprs[3]]);
    assert_eq!(seen[3], output.gprs[7], "the stack pointer");
    assert_eq!(output.gprs[3], 5, "what is written is found");
    assert_eq!(output.vectors[1][..16], input.vectors[1][..16]);
}

#[test]
fn addresses_are_made_of_the_registers_as_they_were() {
    static SEEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let live = spec().location(crate::stackmap::testing::direct(6, 16));
    let probe = probe(shape(), live, |frame| {
        let address = |frame: &Frame<'_>| frame.live_value(0).unwrap().u64().unwrap();
        let before = address(frame);
        let rbp = DwarfReg::new(6);
        // SAFETY: the code of the test can go on with it.
        unsafe { frame.set_register(rbp, 1u64.into()) }.unwrap();
        // SAFETY: the code of the test can go on with it.
        unsafe { frame.set_register(rbp, Value::from_bytes(&[2, 0]).unwrap()) }.unwrap();
        assert_eq!(frame.register(rbp).unwrap().u64(), Some(2));
        *SEEN.lock().unwrap() = [before, address(frame)].to_vec();
    });
    let input = Image::pattern(5, 0);
    let output = probe.run(&input);
    let address = input.gprs[6].wrapping_add(16);
    assert_eq!(*SEEN.lock().unwrap(), [address, address]);
    assert_eq!(output.gprs[6], 2);
}

#[test]
fn arguments_of_the_c_convention_and_its_results() {
    static SEEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let probe = probe(CallShape::c(LEN).result().args(6), record(7), |frame| {
        let args = (0..6).map(|n| frame.arg(n).unwrap().u64().unwrap());
        *SEEN.lock().unwrap() = args.collect();
        assert!(frame.float_arg(5).unwrap().f64().is_some());
        frame.set_result(7).unwrap();
        frame.set_float_result(2.5).unwrap();
    });
    let input = Image::pattern(4, 0);
    let output = probe.run(&input);
    let args = [5, 4, 1, 2, 8, 9].map(|reg: usize| input.gprs[reg]);
    assert_eq!(*SEEN.lock().unwrap(), args);
    assert_eq!(output.gprs[0], 7);
    assert_eq!(output.vectors[0][..8], 2.5f64.to_le_bytes());
    for reg in CALLEE_SAVED.map(usize::from) {
        assert_eq!(output.gprs[reg], input.gprs[reg]);
    }
}
