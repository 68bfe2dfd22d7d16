//! Nothing is lost on the way through an exit stub but what the handler changed.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ffi::c_void;
use core::mem::offset_of;

use crate::addr::{CodeAddr, DwarfReg, FnOffset, Len, RecordId};
use crate::arch::{Arch, CallShape, SiteContext};
use crate::deopt::live_registers::testing;
use crate::deopt::{Answer, Error, ExitStubSite, Frame, Resume, ReturnValue, UnwindInfo, Value};
use crate::stackmap::testing::{record, reg};
use crate::stackmap::{Constants, Record};
use patchpoint_asm::backend::Backend;
use patchpoint_asm::riscv64::RiscV64;

/// All that code can see of itself: x0 to x31, f0 to f31, fcsr. x0, sp, gp and tp stay as they are.
#[repr(C)]
#[derive(Clone, Debug, PartialEq)]
struct Image {
    gprs: [u64; 32],
    floats: [u64; 32],
    fcsr: u64,
}

const SIZE: usize = 64 * 1024;
/// Where the exit stub is in the memory of a test.
const EXIT_STUB: u64 = 4096;
const KEPT: [usize; 4] = [0, 2, 3, 4];

impl Image {
    fn zero() -> Self {
        Self {
            gprs: [0; 32],
            floats: [0; 32],
            fcsr: 0,
        }
    }

    /// Different bytes everywhere.
    fn pattern(seed: u64) -> Self {
        let mut next = seed << 32 | 0x9e37_79b9;
        let mut word = || {
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            next ^ next >> 29
        };
        let mut image = Self::zero();
        image.gprs.fill_with(&mut word);
        image.floats.fill_with(&mut word);
        KEPT.iter().for_each(|n| image.gprs[*n] = 0);
        // Rounds towards zero; inexact.
        image.fcsr = 0x21;
        image
    }
}

// A function that fills every register, executes the jump at `site`, and stores them all again at
// `collect`.
core::arch::global_asm!(
    ".option push",
    ".option arch, +d",
    ".option norelax",
    ".pushsection .text",
    ".p2align 3",
    ".globl patchpoint_probe",
    "patchpoint_probe:",
    "addi sp, sp, -528",
    "sd ra, 0(sp)",
    ".irp n, 8,9,18,19,20,21,22,23,24,25,26,27",
    "sd x\\n, 8 * \\n(sp)",
    ".endr",
    ".irp n, 8,9,18,19,20,21,22,23,24,25,26,27",
    "fsd f\\n, 248 + 8 * \\n(sp)",
    ".endr",
    "sd a1, 224(sp)",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "fld f\\n, {floats} + 8 * \\n(a0)",
    ".endr",
    "ld t0, {fcsr}(a0)",
    "fscsr t0",
    ".irp n, 1,5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,10",
    "ld x\\n, 8 * \\n(a0)",
    ".endr",
    ".p2align 2",
    ".globl patchpoint_probe_site",
    "patchpoint_probe_site:",
    ".word 0x6f",
    ".globl patchpoint_probe_collect",
    "patchpoint_probe_collect:",
    "sd a0, 232(sp)",
    "ld a0, 224(sp)",
    ".irp n, 1,5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "sd x\\n, 8 * \\n(a0)",
    ".endr",
    "ld t0, 232(sp)",
    "sd t0, 80(a0)",
    "frcsr t0",
    "sd t0, {fcsr}(a0)",
    "fscsr zero",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "fsd f\\n, {floats} + 8 * \\n(a0)",
    ".endr",
    "ld ra, 0(sp)",
    ".irp n, 8,9,18,19,20,21,22,23,24,25,26,27",
    "ld x\\n, 8 * \\n(sp)",
    ".endr",
    ".irp n, 8,9,18,19,20,21,22,23,24,25,26,27",
    "fld f\\n, 248 + 8 * \\n(sp)",
    ".endr",
    "addi sp, sp, 528",
    "ret",
    ".globl patchpoint_probe_end",
    "patchpoint_probe_end:",
    ".popsection",
    ".option pop",
    floats = const offset_of!(Image, floats),
    fcsr = const offset_of!(Image, fcsr),
);

unsafe extern "C" {
    fn patchpoint_probe();
    fn patchpoint_probe_site();
    fn patchpoint_probe_collect();
    fn patchpoint_probe_end();
}

/// The distance of a label of the probe from its start.
fn offset(label: unsafe extern "C" fn()) -> u64 {
    label as *const () as u64 - patchpoint_probe as *const () as u64
}

/// A probe that is executable.
struct Probe {
    base: u64,
}

type Handler = Box<dyn for<'f> Fn(&mut Frame<'f>, CodeAddr) -> Answer<'f> + Send + Sync>;

struct TestSite {
    addr: CodeAddr,
    collect: CodeAddr,
    unwind: Option<UnwindInfo>,
    /// `None` for a shadow.
    record: Option<Record<'static>>,
    handler: Handler,
}

impl ExitStubSite for TestSite {
    fn site(&self) -> SiteContext<'_> {
        SiteContext {
            arch: Arch::RiscV64,
            id: RecordId::new(7),
            function: Some("probe"),
            offset: FnOffset::new(0),
            addr: self.addr,
            shape: match self.record {
                Some(_) => CallShape::c(4).result().args(2),
                None => CallShape::shadow(4),
            },
            record: self.record,
            constants: Constants::NONE,
            return_offsets: &[],
            trust_live_outs: false,
        }
    }

    fn unwind(&self) -> crate::deopt::Result<Option<&UnwindInfo>> {
        Ok(self.unwind.as_ref())
    }

    fn handle<'f>(&self, frame: &mut Frame<'f>) -> Answer<'f> {
        let fcsr: u64;
        // SAFETY: reads a register. Rust code takes for granted that it is 0.
        unsafe { core::arch::asm!("frcsr {}", out(reg) fcsr) };
        assert_eq!(fcsr, 0);
        let answer = (self.handler)(frame, self.collect);
        // What a handler may leave behind.
        // SAFETY: what is changed is declared.
        unsafe {
            core::arch::asm!(
                "li t0, 0x45",
                "fscsr t0",
                ".irp n, 0,1,2,3,4,5,6,7,10,11,12,13,14,15,16,17,28,29,30,31",
                "fcvt.d.l f\\n, t0",
                ".endr",
                ".irp n, 5,6,7,10,11,12,13,14,15,16,17,28,29,30,31",
                "li x\\n, -1",
                ".endr",
                clobber_abi("C")
            );
        }
        answer
    }
}

impl Probe {
    /// A probe whose site is a jump to an exit stub with this handler.
    fn through(
        resume_at_collect: bool,
        handler: impl for<'f> Fn(&mut Frame<'f>, CodeAddr) -> Answer<'f> + Send + Sync + 'static,
    ) -> Self {
        Self::of(None, resume_at_collect, handler)
    }

    /// The same, of a patchpoint with the C convention if there is a record.
    fn of(
        record: Option<Record<'static>>,
        resume_at_collect: bool,
        handler: impl for<'f> Fn(&mut Frame<'f>, CodeAddr) -> Answer<'f> + Send + Sync + 'static,
    ) -> Self {
        // SAFETY: a fresh anonymous mapping.
        let base = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(core::ptr::null_mut(), SIZE, access, kind, -1, 0)
        };
        assert_ne!(base, libc::MAP_FAILED);
        let at = |offset| CodeAddr::new(base as u64 + offset);
        let collect = at(offset(patchpoint_probe_collect));
        let addr = at(offset(patchpoint_probe_site));
        let site = TestSite {
            addr,
            collect,
            unwind: None,
            record,
            handler: Box::new(handler),
        };
        let resume = Resume::At(if resume_at_collect { collect } else { at(0x8000) });
        // SAFETY: the site is described as it is.
        let exit_stub = unsafe { testing::exit_stub(Arc::new(site), at(EXIT_STUB), resume) };
        let patchable_jump = RiscV64.plan_patchable_jump(addr, Len::new(4)).unwrap();
        let jump = RiscV64.jump(patchable_jump, at(EXIT_STUB)).unwrap();
        let len = offset(patchpoint_probe_end) as usize;
        // SAFETY: all lies in the mapping, which nobody executes yet; the code is that between the labels.
        unsafe {
            let to = base.cast::<u8>();
            core::ptr::copy_nonoverlapping(patchpoint_probe as *const () as *const u8, to, len);
            core::ptr::copy_nonoverlapping(jump.as_ptr(), to.add(offset(patchpoint_probe_site) as usize), 4);
            core::ptr::copy_nonoverlapping(exit_stub.as_ptr(), to.add(EXIT_STUB as usize), exit_stub.len());
            let executable = libc::PROT_READ | libc::PROT_EXEC;
            assert_eq!(libc::mprotect(base.cast::<c_void>(), SIZE, executable), 0);
        }
        crate::publish::serialize();
        Self { base: base as u64 }
    }

    fn run(&self, input: &Image) -> Image {
        let mut output = Image::zero();
        // SAFETY: a probe was placed there, which follows the convention.
        let probe: extern "C" fn(&Image, &mut Image) = unsafe { core::mem::transmute(self.base as usize) };
        probe(input, &mut output);
        output
    }
}

/// Field by field, for a message that can be read.
fn assert_same(expected: &Image, found: &Image) {
    for reg in 0..32 {
        assert_eq!(expected.gprs[reg], found.gprs[reg], "x{reg}");
        assert_eq!(expected.floats[reg], found.floats[reg], "f{reg}");
    }
    assert_eq!(expected, found);
}

fn dwarf(number: usize) -> DwarfReg {
    DwarfReg::new(number as u16)
}

#[test]
fn resuming_changes_nothing() {
    let probe = Probe::through(true, |frame, _| frame.resume());
    for seed in 1..5 {
        let input = Image::pattern(seed);
        assert_same(&input, &probe.run(&input));
    }
}

#[test]
fn continuing_at_another_address_changes_only_t1() {
    // SAFETY: the code that goes on is this test's, and made to look at just that.
    let probe = Probe::through(false, |frame, collect| {
        unsafe { frame.continue_at(collect) }.unwrap()
    });
    for seed in 1..5 {
        let mut input = Image::pattern(seed);
        let output = probe.run(&input);
        input.gprs[6] = probe.base + offset(patchpoint_probe_collect);
        assert_same(&input, &output);
    }
}

#[test]
fn a_handler_sees_every_register() {
    let probe = Probe::through(true, |frame, _| {
        let given = Image::pattern(9);
        for n in (0..32).filter(|n| !KEPT.contains(n)) {
            assert_eq!(
                frame.register(dwarf(n)).unwrap().u64(),
                Some(given.gprs[n]),
                "x{n}"
            );
        }
        for n in 0..32 {
            assert_eq!(
                frame.register(dwarf(32 + n)).unwrap().u64(),
                Some(given.floats[n]),
                "f{n}"
            );
        }
        assert_eq!((frame.flags(), frame.stack_pointer() % 16), (given.fcsr, 0));
        assert_eq!(frame.register(dwarf(0)).unwrap().u64(), Some(0));
        assert!(frame.register(dwarf(64)).is_err());
        frame.resume()
    });
    probe.run(&Image::pattern(9));
}

#[test]
fn what_a_handler_writes_is_what_the_code_finds() {
    let probe = Probe::through(true, |frame, _| {
        for n in [1, 5, 6, 10, 31, 32, 63] {
            // SAFETY: the code that goes on is this test's, and made to look at just that.
            unsafe { frame.set_register(dwarf(n), Value::from(n as u64)) }.unwrap();
        }
        let short = Value::from_bytes(&2.5f32.to_le_bytes()).unwrap();
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.set_register(dwarf(42), short) }.unwrap();
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.set_flags(0x61) };
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        assert!(unsafe { frame.set_register(dwarf(2), Value::from(1u64)) }.is_err());
        frame.resume()
    });
    let mut input = Image::pattern(3);
    let output = probe.run(&input);
    for n in [1, 5, 6, 10, 31] {
        input.gprs[n] = n as u64;
    }
    (input.floats[0], input.floats[31]) = (32, 63);
    // In its box of ones.
    input.floats[10] = 0xffff_ffff_0000_0000 | u64::from(2.5f32.to_bits());
    input.fcsr = 0x61;
    assert_same(&input, &output);
}

#[test]
fn leaving_a_frame_without_unwind_information_is_refused() {
    let probe = Probe::through(true, |frame, _| {
        let refused = frame.return_to_caller(ReturnValue::Int(1));
        assert!(matches!(refused, Err(Error::UnwindMissing { .. })));
        frame.resume()
    });
    probe.run(&Image::pattern(3));
}

/// The registers that a function preserves, and ra, for which there is no live-out.
#[test]
fn a_live_register_exit_stub_keeps_every_live_register() {
    let mut spec = record(7).location(reg(31, 8)).location(reg(60, 8));
    for n in (8..10).chain(18..28) {
        spec = spec.live_out(n, 8).live_out(32 + n, 8);
    }
    let probe = Probe::of(Some(testing::leak(spec)), true, |frame, _| {
        let args = [0, 1].map(|n| frame.arg(n).unwrap().u64().unwrap());
        let float = frame.float_arg(1).unwrap().u64().unwrap();
        frame.set_result(args[0] ^ args[1]).unwrap();
        frame.set_float_result(f64::from_bits(float)).unwrap();
        frame.resume()
    });
    for seed in 1..5 {
        let mut input = Image::pattern(seed);
        input.fcsr = 0;
        let output = probe.run(&input);
        assert_eq!(output.gprs[10], input.gprs[10] ^ input.gprs[11]);
        assert_eq!(output.floats[10], input.floats[11]);
        // Preserved, ra, and the recorded t6 and ft8.
        for n in (8..10).chain(18..28) {
            assert_eq!(output.gprs[n], input.gprs[n], "x{n}");
            assert_eq!(output.floats[n], input.floats[n], "f{n}");
        }
        assert_eq!((output.gprs[1], output.gprs[31]), (input.gprs[1], input.gprs[31]));
        assert_eq!(output.floats[28], input.floats[28]);
    }
}
