//! Nothing is lost on the way through an exit stub but what the handler changed.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::c_void;
use core::mem::offset_of;

use crate::addr::{CodeAddr, DwarfReg, FnOffset, RecordId};
use crate::arch::{Arch, CallShape, SiteContext};
use crate::deopt::live_registers::testing;
use crate::deopt::{Answer, Error, ExitStubSite, Frame, Resume, ReturnValue, UnwindInfo, Value};
use crate::stackmap::testing::{record, reg};
use crate::stackmap::{Constants, Record};

/// All that code can see of itself.
#[repr(C, align(16))]
#[derive(Clone, Debug, PartialEq)]
struct Image {
    vectors: [[u8; 16]; 32],
    gprs: [u64; 31],
    nzcv: u64,
    fpsr: u64,
    fpcr: u64,
}

const SIZE: usize = 64 * 1024;
/// Where the exit stub is in the memory of a test.
const EXIT_STUB: u64 = 4096;
/// Round towards zero, flush to zero.
const FPCR: u64 = 0x01c0_0000;

impl Image {
    fn zero() -> Self {
        Self {
            vectors: [[0; 16]; 32],
            gprs: [0; 31],
            nzcv: 0,
            fpsr: 0,
            fpcr: 0,
        }
    }

    /// Different bytes everywhere.
    fn pattern(seed: u64, nzcv: u64) -> Self {
        let mut next = seed << 32 | 0x9e37_79b9;
        let mut word = || {
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            next ^ next >> 29
        };
        let mut image = Self::zero();
        for vector in &mut image.vectors {
            vector.fill_with(|| word() as u8);
        }
        image.gprs.fill_with(&mut word);
        (image.nzcv, image.fpsr, image.fpcr) = (nzcv, 0x9f, FPCR);
        image
    }
}

// A function that fills every register, executes the branch at `site`, and stores them all again at
// `collect`.
core::arch::global_asm!(
    ".pushsection .text",
    ".globl patchpoint_probe",
    "patchpoint_probe:",
    "stp x29, x30, [sp, #-192]!",
    "stp x19, x20, [sp, #16]",
    "stp x21, x22, [sp, #32]",
    "stp x23, x24, [sp, #48]",
    "stp x25, x26, [sp, #64]",
    "stp x27, x28, [sp, #80]",
    "stp d8, d9, [sp, #96]",
    "stp d10, d11, [sp, #112]",
    "stp d12, d13, [sp, #128]",
    "stp d14, d15, [sp, #144]",
    "str x1, [sp, #160]",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "ldr q\\n, [x0, #16 * \\n]",
    ".endr",
    "ldr x2, [x0, #{nzcv}]",
    "msr nzcv, x2",
    "ldr x2, [x0, #{fpsr}]",
    "msr fpsr, x2",
    "ldr x2, [x0, #{fpcr}]",
    "msr fpcr, x2",
    ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,0",
    "ldr x\\n, [x0, #{gprs} + 8 * \\n]",
    ".endr",
    ".globl patchpoint_probe_site",
    "patchpoint_probe_site:",
    "b .",
    ".globl patchpoint_probe_collect",
    "patchpoint_probe_collect:",
    "stp x0, x1, [sp, #-16]!",
    "ldr x0, [sp, #176]",
    ".irp n, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30",
    "str x\\n, [x0, #{gprs} + 8 * \\n]",
    ".endr",
    "ldp x2, x3, [sp], #16",
    "str x2, [x0, #{gprs}]",
    "str x3, [x0, #{gprs} + 8]",
    "mrs x2, nzcv",
    "str x2, [x0, #{nzcv}]",
    "mrs x2, fpsr",
    "str x2, [x0, #{fpsr}]",
    "mrs x2, fpcr",
    "str x2, [x0, #{fpcr}]",
    "msr fpcr, xzr",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "str q\\n, [x0, #16 * \\n]",
    ".endr",
    "ldp x19, x20, [sp, #16]",
    "ldp x21, x22, [sp, #32]",
    "ldp x23, x24, [sp, #48]",
    "ldp x25, x26, [sp, #64]",
    "ldp x27, x28, [sp, #80]",
    "ldp d8, d9, [sp, #96]",
    "ldp d10, d11, [sp, #112]",
    "ldp d12, d13, [sp, #128]",
    "ldp d14, d15, [sp, #144]",
    "ldp x29, x30, [sp], #192",
    "ret",
    ".globl patchpoint_probe_end",
    "patchpoint_probe_end:",
    ".popsection",
    gprs = const offset_of!(Image, gprs),
    nzcv = const offset_of!(Image, nzcv),
    fpsr = const offset_of!(Image, fpsr),
    fpcr = const offset_of!(Image, fpcr),
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
            arch: Arch::AArch64,
            id: RecordId::new(7),
            function: Some("probe"),
            offset: FnOffset::new(0),
            addr: self.addr,
            shape: match self.record {
                Some(_) => CallShape::any_reg(4).result().args(1),
                None => CallShape::shadow(16),
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
        check_environment();
        let answer = (self.handler)(frame, self.collect);
        trash();
        answer
    }
}

/// What Rust code takes for granted.
fn check_environment() {
    let fpcr: u64;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mrs {}, fpcr", out(reg) fpcr) };
    assert_eq!(fpcr, 0);
}

/// Destroys what a handler might by chance leave alone.
fn trash() {
    // SAFETY: what is changed is declared, or restored by this function's epilogue.
    unsafe {
        core::arch::asm!(
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "movi v\\n\\().16b, #0x5a",
            ".endr",
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18",
            "mov x\\n, #-1",
            ".endr",
            "mov x9, #0x600000",
            "msr fpcr, x9",
            "msr nzcv, xzr",
            "msr fpsr, xzr",
            out("v8") _, out("v9") _, out("v10") _, out("v11") _, out("v12") _, out("v13") _,
            out("v14") _, out("v15") _,
            clobber_abi("C"),
        );
    }
}

impl Probe {
    /// A probe whose site is a jump to an exit stub with this handler.
    fn through(
        unwind: Option<fn(u64) -> UnwindInfo>,
        resume_at_collect: bool,
        handler: impl for<'f> Fn(&mut Frame<'f>, CodeAddr) -> Answer<'f> + Send + Sync + 'static,
    ) -> Self {
        Self::of(unwind, None, resume_at_collect, handler)
    }

    /// The same, of an `anyregcc` patchpoint if there is a record.
    fn of(
        unwind: Option<fn(u64) -> UnwindInfo>,
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
        let base_addr = base as u64;
        let at = |offset| CodeAddr::new(base_addr + offset);
        let collect = at(offset(patchpoint_probe_collect));
        let site = TestSite {
            addr: at(offset(patchpoint_probe_site)),
            collect,
            unwind: unwind.map(|unwind| unwind(base_addr)),
            record,
            handler: Box::new(handler),
        };
        let resume = Resume::At(if resume_at_collect { collect } else { at(0x8000) });
        // SAFETY: the site is described as it is.
        let exit_stub = unsafe { testing::exit_stub(Arc::new(site), at(EXIT_STUB), resume) };
        let len = offset(patchpoint_probe_end) as usize;
        let start = patchpoint_probe as *const () as *const u8;
        // SAFETY: the code between the labels.
        let mut code: Vec<u8> = unsafe { core::slice::from_raw_parts(start, len) }.to_vec();
        let site = offset(patchpoint_probe_site);
        let jump = 0x1400_0000 | ((EXIT_STUB - site) / 4) as u32;
        code[site as usize..site as usize + 4].copy_from_slice(&jump.to_le_bytes());
        for (to, bytes) in [(0, &code), (EXIT_STUB, &exit_stub)] {
            // SAFETY: both fit into the mapping.
            unsafe {
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), (base_addr + to) as *mut u8, bytes.len())
            };
        }
        let executable = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: the mapping of this value.
        assert_eq!(
            unsafe { libc::mprotect(base.cast::<c_void>(), SIZE, executable) },
            0
        );
        flush(base_addr, SIZE);
        Self { base: base_addr }
    }

    /// Runs it; the image, and the results in x0 and d0. Registers that a callee preserves are
    /// checked.
    fn run(&self, input: &Image) -> (Image, u64, f64) {
        let mut output = Image::zero();
        let (result, float): (u64, f64);
        let (mut x20, mut x24, mut x28) = (20_u64, 24_u64, 28_u64);
        let (mut d8, mut d12, mut d15) = (8.0_f64, 12.0_f64, 15.0_f64);
        // SAFETY: a probe was placed there, which follows the convention.
        unsafe {
            core::arch::asm!(
                "blr x2",
                in("x2") self.base,
                inout("x0") input as *const Image => result,
                in("x1") &raw mut output,
                inout("x20") x20,
                inout("x24") x24,
                inout("x28") x28,
                inout("v8") d8,
                inout("v12") d12,
                inout("v15") d15,
                lateout("v0") float,
                clobber_abi("C"),
            );
        }
        assert_eq!((x20, x24, x28), (20, 24, 28));
        assert_eq!((d8, d12, d15), (8.0, 12.0, 15.0));
        (output, result, float)
    }
}

fn flush(base: u64, len: usize) {
    unsafe extern "C" {
        fn __clear_cache(from: *const u8, to: *const u8);
    }
    let from = base as *const u8;
    // SAFETY: maintains the caches of a mapping.
    unsafe { __clear_cache(from, from.add(len)) };
}

/// Field by field, for a message that can be read.
fn assert_same(expected: &Image, found: &Image) {
    for reg in 0..31 {
        assert_eq!(expected.gprs[reg], found.gprs[reg], "x{reg}");
    }
    for reg in 0..32 {
        assert_eq!(expected.vectors[reg], found.vectors[reg], "v{reg}");
    }
    assert_eq!(expected, found);
}

const FLAGS: [u64; 5] = [0, 0xf000_0000, 0x8000_0000, 0x6000_0000, 0x1000_0000];

#[test]
fn resuming_changes_nothing() {
    let probe = Probe::through(None, true, |frame, _| frame.resume());
    for (seed, flags) in (1..).zip(FLAGS) {
        let input = Image::pattern(seed, flags);
        assert_same(&input, &probe.run(&input).0);
    }
}

#[test]
fn continuing_at_another_address_changes_only_x17() {
    // SAFETY: the code that goes on is this test's, and made to look at just that.
    let probe = Probe::through(None, false, |frame, collect| {
        unsafe { frame.continue_at(collect) }.unwrap()
    });
    for (seed, flags) in (1..).zip(FLAGS) {
        let mut input = Image::pattern(seed, flags);
        let output = probe.run(&input).0;
        input.gprs[17] = probe.base + offset(patchpoint_probe_collect);
        assert_same(&input, &output);
    }
}

#[test]
fn a_frame_shows_every_register_and_takes_every_write() {
    for resume in [true, false] {
        let probe = Probe::through(None, resume, move |frame, collect| {
            assert_eq!(frame.flags(), 0xa000_0000);
            // SAFETY: the code that goes on is this test's, and made to look at just that.
            unsafe { frame.set_flags(0x5000_00ff) };
            let (seen, new) = (Image::pattern(1, 0), Image::pattern(2, 0));
            for n in 0..31 {
                let reg = DwarfReg::new(n);
                assert_eq!(
                    frame.register(reg).unwrap().u64(),
                    Some(seen.gprs[usize::from(n)])
                );
                // SAFETY: the code that goes on is this test's, and made to look at just that.
                unsafe { frame.set_register(reg, new.gprs[usize::from(n)].into()) }.unwrap();
            }
            for n in 0..32 {
                let reg = DwarfReg::new(64 + n);
                let value = frame.register(reg).unwrap();
                assert_eq!(value.bytes(), seen.vectors[usize::from(n)]);
                let vector = new.vectors[usize::from(n)];
                // SAFETY: the code that goes on is this test's, and made to look at just that.
                unsafe { frame.set_register(reg, Value::from_bytes(&vector).unwrap()) }.unwrap();
            }
            // SAFETY: the code that goes on is this test's, and made to look at just that.
            assert!(unsafe { frame.set_register(DwarfReg::new(31), 0_u64.into()) }.is_err());
            assert!(frame.register(DwarfReg::new(46)).is_err());
            match resume {
                true => frame.resume(),
                // SAFETY: the code that goes on is this test's, and made to look at just that.
                false => unsafe { frame.continue_at(collect) }.unwrap(),
            }
        });
        let output = probe.run(&Image::pattern(1, 0xa000_0000)).0;
        let mut expected = Image::pattern(2, 0x5000_0000);
        if !resume {
            expected.gprs[17] = probe.base + offset(patchpoint_probe_collect);
        }
        assert_same(&expected, &output);
    }
}

#[test]
fn the_stack_pointer_is_that_of_the_site_and_aligned() {
    let probe = Probe::through(None, true, |frame, collect| {
        let sp = frame.stack_pointer();
        assert_eq!(sp, frame.register(DwarfReg::new(31)).unwrap().u64().unwrap());
        for wrong in [sp - 16, sp + 8] {
            // SAFETY: the code that goes on is this test's, and made to look at just that.
            let refused = unsafe { frame.continue_with_stack(collect, wrong) };
            assert!(matches!(refused, Err(Error::FrameStackPointer { .. })));
        }
        frame.resume()
    });
    let input = Image::pattern(9, 0);
    assert_same(&input, &probe.run(&input).0);
}

/// An `.eh_frame` for the probe at its site: what its prologue has saved.
fn unwind(base: u64) -> UnwindInfo {
    // DW_CFA_def_cfa sp, 192
    let mut rules = alloc::vec![0x0c, 31, 0xc0, 0x01];
    // DW_CFA_offset, in words of 8 bytes below the frame address.
    let saved = |reg: u8, at: u8| [0x80 | reg, (192 - at) / 8];
    rules.extend([saved(29, 0), saved(30, 8)].concat());
    for reg in 19..=28 {
        rules.extend(saved(reg, 16 + 8 * (reg - 19)));
    }
    for reg in 8..16 {
        // DW_CFA_offset_extended v8 to v15
        rules.extend([0x05, 64 + reg, (192 - 96 - 8 * (reg - 8)) / 8]);
    }
    let entry = |id: u32, body: &[u8]| {
        let mut entry = id.to_le_bytes().to_vec();
        entry.extend(body);
        entry.resize(entry.len().next_multiple_of(8) + 4, 0);
        [&(entry.len() as u32).to_le_bytes()[..], &entry].concat()
    };
    // Version 1, no augmentation, code in bytes, data in words downwards, x30 returns.
    let cie = entry(0, &[1, 0, 1, 0x78, 30]);
    let body = [&base.to_le_bytes()[..], &0x1000_u64.to_le_bytes(), &rules].concat();
    let fde = entry(cie.len() as u32 + 4, &body);
    let section = [&cie[..], &fde, &[0; 4]].concat();
    UnwindInfo::new(CodeAddr::new(base + 0x9000), &section).unwrap()
}

#[test]
fn returning_restores_what_the_callers_need() {
    let probe = Probe::through(Some(unwind), false, |frame, _| {
        let value = ReturnValue::Int(0x1234_5678_9abc_def0);
        frame.return_to_caller(value).unwrap()
    });
    let (_, result, _) = probe.run(&Image::pattern(3, 0));
    assert_eq!(result, 0x1234_5678_9abc_def0);
    let probe = Probe::through(Some(unwind), false, |frame, _| {
        frame.return_to_caller(ReturnValue::F64(2.5)).unwrap()
    });
    let (_, _, float) = probe.run(&Image::pattern(4, 0));
    assert!((float - 2.5).abs() < f64::EPSILON);
}

/// Result in x0, argument in x3; everything is live that can be.
#[test]
fn a_live_register_exit_stub_keeps_every_live_register() {
    let mut spec = record(7).location(reg(0, 8)).location(reg(3, 8)).live_out(31, 8);
    for n in (0..16).chain(18..30) {
        spec = spec.live_out(n, 8);
    }
    for n in 64..96 {
        spec = spec.live_out(n, 16);
    }
    let probe = Probe::of(None, Some(testing::leak(spec)), true, |frame, _| {
        let arg = frame.arg(0).unwrap().u64().unwrap();
        frame.set_result(!arg).unwrap();
        frame.resume()
    });
    for seed in 1..5 {
        let mut input = Image::pattern(seed, 0);
        (input.fpcr, input.fpsr) = (0, 0);
        let (mut output, ..) = probe.run(&input);
        assert_eq!(output.gprs[0], !input.gprs[3]);
        // What a call may lose at every patchpoint.
        for n in [0, 16, 17, 30] {
            output.gprs[n] = input.gprs[n];
        }
        (output.nzcv, output.fpsr, output.fpcr) = (0, 0, 0);
        assert_same(&input, &output);
    }
}
