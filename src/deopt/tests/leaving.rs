//! Leaving a frame: with a value to its caller, or with another stack pointer; exit stubs within
//! handlers.

use alloc::vec::Vec;
use std::sync::atomic::{AtomicU64, Ordering};

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};

use super::machine::{Asm, Memory, RAX, RSP};
use super::probe::{ALL_FLAGS, Image, Probe};
use super::registers::{assert_same, expected, probe_through};
use super::site::TestSite;
use crate::addr::{CodeAddr, DwarfReg, Len, RecordId};
use crate::arch::CallShape;
use crate::deopt::{Answer, Error, Frame, Result, Resume, ReturnValue, UnwindInfo, Value};
use crate::stackmap::{Endian, StackMaps};

/// The reader of objects wants them aligned.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);
static LEAVE: &Aligned<[u8]> = &Aligned(*include_bytes!("../testdata/leave.o"));

const CALLEE_SAVED: [usize; 6] = [3, 6, 12, 13, 14, 15];
/// Where the unwind information pretends to be, from the code.
const UNWIND_DISTANCE: u64 = 0x10_0000;

/// The object of `testdata/leave.ll`, placed.
struct Leave {
    text: CodeAddr,
    unwind: UnwindInfo,
    /// By ID: entry and patchpoint.
    functions: Vec<(u64, CodeAddr, CodeAddr)>,
}

impl Leave {
    fn place(memory: &mut Memory) -> Self {
        let file = object::File::parse(&LEAVE.0).unwrap();
        let section = |name| file.section_by_name(name).unwrap();
        let text = memory.place(section(".text").data().unwrap());
        let unwind_at = CodeAddr::new(text.get() + UNWIND_DISTANCE);
        let mut unwind = section(".eh_frame").data().unwrap().to_vec();
        for (at, relocation) in section(".eh_frame").relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else {
                panic!("a relocation against a symbol");
            };
            assert_eq!(file.symbol_by_index(symbol).unwrap().address(), 0);
            let to = text.get() as i64 + relocation.addend();
            let relative = to - (unwind_at.get() + at) as i64;
            unwind[at as usize..][..4].copy_from_slice(&(relative as i32).to_le_bytes());
        }
        let maps = StackMaps::parse(section(".llvm_stackmaps").data().unwrap(), Endian::Little).unwrap();
        let starts = ["fixed", "dynamic", "aligned"].map(|name| {
            let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
            text.plus(Len::new(symbol.address() as u32)).unwrap()
        });
        let functions = starts
            .iter()
            .zip(maps.records())
            .map(|(start, record)| (record.id().get(), *start, start.at(record.offset()).unwrap()))
            .collect();
        Self {
            text,
            unwind: UnwindInfo::new(unwind_at, &unwind).unwrap(),
            functions,
        }
    }
}

/// Calls each function of the object from a probe, leaves it with what `handler` answers, and
/// checks what the caller finds.
fn leave_each(
    handler: impl for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Copy + Send + Sync + 'static,
    check: impl Fn(&Image, &Image),
) {
    for (index, at_entry) in (0..6).map(|case| (case % 3, case > 2)) {
        let mut memory = Memory::new();
        let leave = Leave::place(&mut memory);
        let (_, entry, patchpoint) = leave.functions[index];
        let patchpoint = if at_entry { entry } else { patchpoint };
        let exit_stub = memory.reserve(128);
        let mut patch = Asm::new(patchpoint);
        patch.jmp(exit_stub);
        memory.write(patchpoint, &patch.bytes);
        let probe = Probe::place(&mut memory, |asm| {
            asm.set(5, 100).call(entry);
        });
        let mut site = TestSite::new(patchpoint, handler);
        site.shape = CallShape::c(16).result();
        site.unwind = Some(leave.unwind);
        site.exit_stub(&mut memory, exit_stub, Resume::At(CodeAddr::new(0x10)));
        memory.seal();
        let input = Image::pattern(index as u8, 0xd5);
        let output = probe.run(&input);
        for reg in CALLEE_SAVED {
            assert_eq!(
                input.gprs[reg], output.gprs[reg],
                "dwarf:{reg} of function {index}"
            );
        }
        assert_eq!((output.mxcsr, output.control), (input.mxcsr, input.control));
        check(&input, &output);
    }
}

#[test]
fn a_value_is_returned_and_the_callers_registers_are_back() {
    leave_each(
        |frame| {
            // Lost, as the caller's are restored.
            for reg in [3, 12] {
                // SAFETY: the code of the test can go on with it.
                unsafe { frame.set_register(DwarfReg::new(reg), 1u64.into()) }.unwrap();
            }
            // SAFETY: the code of the test can go on with it.
            unsafe { frame.set_flags(ALL_FLAGS) };
            frame
                .return_to_caller(ReturnValue::Int(0x1234_5678_9abc))
                .unwrap()
        },
        |_, output| {
            assert_eq!(output.gprs[RAX], 0x1234_5678_9abc);
            assert_eq!(output.flags & 0x400, 0, "the direction flag at a return");
        },
    );
}

#[test]
fn each_kind_of_value_is_returned_in_its_register() {
    leave_each(
        |frame| frame.return_to_caller(ReturnValue::Pair(1, 2)).unwrap(),
        |_, output| assert_eq!((output.gprs[RAX], output.gprs[1]), (1, 2)),
    );
    leave_each(
        |frame| frame.return_to_caller(ReturnValue::F64(1.5)).unwrap(),
        |input, output| {
            assert_eq!(output.vectors[0][..8], 1.5f64.to_le_bytes());
            assert_eq!(output.vectors[0][8..], input.vectors[0][8..]);
        },
    );
    leave_each(
        |frame| frame.return_to_caller(ReturnValue::F32(1.5)).unwrap(),
        |_, output| assert_eq!(output.vectors[0][..4], 1.5f32.to_le_bytes()),
    );
    leave_each(
        |frame| {
            let wide = Value::from_bytes(&[3; 65 - 1]).unwrap();
            let fits = frame.register(DwarfReg::new(17)).unwrap().bytes().len() == 64;
            assert_eq!(frame.return_to_caller(ReturnValue::Vector(wide)).is_ok(), fits);
            let vector = Value::from_bytes(&[7; 16]).unwrap();
            frame.return_to_caller(ReturnValue::Vector(vector)).unwrap()
        },
        |_, output| assert_eq!(output.vectors[0][..16], [7; 16]),
    );
    leave_each(
        |frame| {
            // SAFETY: the code of the test can go on with it.
            unsafe { frame.set_register(DwarfReg::new(0), 9u64.into()) }.unwrap();
            frame.return_to_caller(ReturnValue::Void).unwrap()
        },
        |_, output| assert_eq!(output.gprs[RAX], 9),
    );
}

#[test]
fn without_unwind_information_there_is_no_return() {
    let probe = probe_through(true, |frame, _| {
        let refused = frame.return_to_caller(ReturnValue::Void).unwrap_err();
        assert_eq!(refused, Error::UnwindMissing { pc: frame.pc() });
        frame.resume()
    });
    probe.run(&Image::pattern(1, 0));
}

#[test]
fn the_index_finds_what_it_covers() {
    let mut memory = Memory::new();
    let leave = Leave::place(&mut memory);
    for (_, entry, patchpoint) in &leave.functions {
        leave.unwind.can_return(*entry).unwrap();
        leave.unwind.can_return(*patchpoint).unwrap();
    }
    // Padding between functions; before and behind all.
    for pc in [0x4b, 0x11c, u64::MAX] {
        let pc = CodeAddr::new(leave.text.get().wrapping_add(pc));
        assert_eq!(leave.unwind.can_return(pc), Err(Error::UnwindMissing { pc }));
    }
}

#[test]
fn malformed_unwind_information_is_refused() {
    let file = object::File::parse(&LEAVE.0).unwrap();
    let bytes = file
        .section_by_name(".eh_frame")
        .unwrap()
        .data()
        .unwrap()
        .to_vec();
    let read = |bytes: &[u8]| UnwindInfo::new(CodeAddr::new(0x1000), bytes);
    read(&bytes).unwrap();
    read(&[]).unwrap();
    for len in 1..bytes.len() {
        // Cut between entries it is a section; anywhere else it is not, and nothing panics.
        let _: Result<UnwindInfo> = read(&bytes[..len]);
    }
    assert!(matches!(read(&bytes[..30]), Err(Error::UnwindFormat { .. })));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            if let Ok(info) = read(&flipped) {
                (0..0x120)
                    .step_by(13)
                    .for_each(|pc| drop(info.can_return(CodeAddr::new(0x1020 + pc))));
            }
        }
    }
}

#[test]
fn the_stack_pointer_can_only_move_up() {
    static ADDR: AtomicU64 = AtomicU64::new(0);
    let mut memory = Memory::new();
    let exit_stub = memory.reserve(128);
    let mut addr = exit_stub;
    let probe = Probe::place(&mut memory, |asm| {
        // A frame of 64 bytes that only its answer removes.
        asm.move_stack(-64);
        addr = asm.here();
        asm.jmp(exit_stub);
    });
    ADDR.store(probe.collect.get(), Ordering::Relaxed);
    let site = TestSite::new(addr, |frame| {
        let (at, rsp) = (CodeAddr::new(ADDR.load(Ordering::Relaxed)), frame.stack_pointer());
        for bad in [rsp - 8, rsp + 4, 0] {
            // SAFETY: the code at that address can go on with the frame.
            let refused = unsafe { frame.continue_with_stack(at, bad) }.unwrap_err();
            let id = RecordId::new(7);
            let addr = frame.pc();
            assert_eq!(
                refused,
                Error::FrameStackPointer {
                    id,
                    addr,
                    lowest: rsp,
                    found: bad
                }
            );
        }
        // SAFETY: the code at that address can go on with the frame.
        unsafe { frame.continue_with_stack(at, rsp + 64) }.unwrap()
    });
    site.exit_stub(&mut memory, exit_stub, Resume::At(CodeAddr::new(0x10)));
    memory.seal();
    // The probe's red zone is that of its own stack pointer, which the exit stub did not skip.
    let input = Image::pattern(5, ALL_FLAGS);
    let output = probe.run(&input);
    let mut wanted = expected(&input, &output);
    wanted.red_zone[8..].copy_from_slice(&output.red_zone[8..]);
    // From the new stack pointer down, 64 bytes are the old frame and then comes its red zone.
    wanted.red_zone[..8].copy_from_slice(&input.red_zone[..8]);
    assert_same(&wanted, &output);
    assert_ne!(output.gprs[RSP], 0);
}

#[test]
fn a_handler_may_run_code_that_reaches_another_exit_stub() {
    static DEPTH: AtomicU64 = AtomicU64::new(0);
    fn nest<'f>(frame: &mut Frame<'f>) -> Answer<'f> {
        let depth = DEPTH.fetch_add(1, Ordering::Relaxed);
        if depth < 5 {
            through_exit_stubs(depth as u8);
        }
        frame.resume()
    }
    fn through_exit_stubs(seed: u8) {
        let probe = probe_through(true, |frame, _| nest(frame));
        let input = Image::pattern(seed, ALL_FLAGS);
        let output = probe.run(&input);
        assert_same(&expected(&input, &output), &output);
    }
    through_exit_stubs(50);
    assert_eq!(DEPTH.load(Ordering::Relaxed), 6);
}

/// TF: a signal after each instruction.
#[cfg(target_os = "linux")]
const STEP: u64 = 0x100;

#[cfg(target_os = "linux")]
static STEPS: AtomicU64 = AtomicU64::new(0);

#[cfg(target_os = "linux")]
/// Overwrites what nobody may rely on: the interrupted code's stack below its red zone.
extern "C" fn on_step(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    STEPS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the system passes the interrupted context.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    let stack_pointer = registers[libc::REG_RSP as usize] as u64;
    let below = (stack_pointer - 128 - 512) as *mut [u8; 512];
    // SAFETY: stack below the red zone of the interrupted code; this handler has a stack of its own.
    unsafe { below.write_unaligned([0xcd; 512]) };
}

#[cfg(target_os = "linux")]
/// Installs the handler, on a stack of its own.
fn step_signals() {
    let size = 256 * 1024;
    let stack = libc::stack_t {
        ss_sp: alloc::vec![0u8; size].leak().as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: size,
    };
    // SAFETY: memory that stays.
    assert_eq!(unsafe { libc::sigaltstack(&stack, core::ptr::null_mut()) }, 0);
    // SAFETY: all zero is a valid value of this structure.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = on_step as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: a complete action.
    let done = unsafe { libc::sigaction(libc::SIGTRAP, &action, core::ptr::null_mut()) };
    assert_eq!(done, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_after_each_instruction_destroys_nothing() {
    step_signals();
    let resumed = probe_through(true, |frame, _| frame.resume());
    let continued = probe_through(false, |frame, collect| {
        // SAFETY: the code at that address can go on with the frame.
        unsafe { frame.continue_at(collect) }.unwrap()
    });
    for probe in [resumed, continued] {
        let before = STEPS.load(Ordering::Relaxed);
        let input = Image::pattern(3, ALL_FLAGS | STEP);
        let output = probe.run(&input);
        assert_same(&expected(&input, &output), &output);
        assert!(STEPS.load(Ordering::Relaxed) - before > 200);
    }
}

#[test]
fn threads_share_an_exit_stub() {
    let probe = probe_through(true, |frame, _| frame.resume());
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            scope.spawn(move || {
                for round in 0..500u32 {
                    let input = Image::pattern(thread.wrapping_mul(64) ^ round as u8, ALL_FLAGS);
                    let output = probe.run(&input);
                    assert_same(&expected(&input, &output), &output);
                }
            });
        }
    });
}

#[test]
fn a_register_that_would_not_be_restored_is_not_passed_over() {
    let mut memory = Memory::new();
    let leave = Leave::place(&mut memory);
    let (_, _, patchpoint) = leave.functions[0];
    let row = leave.unwind.row(patchpoint).unwrap();
    row.check_saved(|_| true).unwrap();
    let refused = row.check_saved(|reg| reg.get() != 12).unwrap_err();
    assert!(matches!(refused, Error::UnwindRule { pc, .. } if pc == patchpoint));
}
