//! Exit stubs that are executed: a routine fills every register, jumps to an exit stub in place of
//! its site, and writes down every register when it comes back.

#![allow(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::sync::Mutex;

use crate::addr::{CodeAddr, DwarfReg, FnOffset, RecordId};
use crate::arch::{Arch, CallShape, SiteContext};
use crate::deopt::live_registers::testing;
use crate::deopt::{Answer, ExitStubSite, Frame, Resume, ReturnValue, UnwindInfo, Value};
use crate::stackmap::testing::{indirect, map, record, reg, sub_reg};
use crate::stackmap::{Constants, Record};

/// Every register, as the routine takes and gives them.
#[repr(C, align(16))]
#[derive(Clone, Debug, PartialEq)]
struct Registers {
    vectors: [[u64; 2]; 32],
    /// r0 to r14.
    gprs: [u64; 15],
    /// Floating-point control, and condition code with program mask.
    fpc: u32,
    flags: u32,
    /// a2 to a15. The first two hold the thread pointer.
    access: [u32; 14],
}

core::arch::global_asm!(
    ".text",
    ".globl {probe}, {site}, {back}, {end}, {call}",
    ".p2align 4",
    "{probe}:",
    "stmg %r6, %r15, 48(%r15)",
    "aghi %r15, -400",
    "std %f8, 160(%r15)",
    "std %f9, 168(%r15)",
    "std %f10, 176(%r15)",
    "std %f11, 184(%r15)",
    "std %f12, 192(%r15)",
    "std %f13, 200(%r15)",
    "std %f14, 208(%r15)",
    "std %f15, 216(%r15)",
    "stg %r3, 240(%r15)",
    "mvghi 232(%r15), -2",
    "lfpc 632(%r2)",
    // vlm %v0, %v15, 0(%r2); vlm %v16, %v31, 256(%r2)
    ".byte 0xe7, 0x0f, 0x20, 0x00, 0x00, 0x36, 0xe7, 0x0f, 0x21, 0x00, 0x0c, 0x36",
    "lam %a2, %a15, 640(%r2)",
    "l %r0, 636(%r2)",
    "spm %r0",
    "lmg %r0, %r14, 512(%r2)",
    "{site}:",
    ".byte 0, 0, 0, 0, 0, 0",
    "{back}:",
    "stmg %r0, %r14, 248(%r15)",
    "ipm %r0",
    "lg %r1, 240(%r15)",
    "mvc 512(120,%r1), 248(%r15)",
    "nilf %r0, 0x3f000000",
    "st %r0, 636(%r1)",
    "stfpc 632(%r1)",
    "stam %a2, %a15, 640(%r1)",
    // vstm %v0, %v15, 0(%r1); vstm %v16, %v31, 256(%r1)
    ".byte 0xe7, 0x0f, 0x10, 0x00, 0x00, 0x3e, 0xe7, 0x0f, 0x11, 0x00, 0x0c, 0x3e",
    "lghi %r0, 0",
    "sfpc %r0",
    "lg %r2, 232(%r15)",
    "ld %f8, 160(%r15)",
    "ld %f9, 168(%r15)",
    "ld %f10, 176(%r15)",
    "ld %f11, 184(%r15)",
    "ld %f12, 192(%r15)",
    "ld %f13, 200(%r15)",
    "ld %f14, 208(%r15)",
    "ld %f15, 216(%r15)",
    "lmg %r6, %r15, 448(%r15)",
    "br %r14",
    "{end}:",
    "{call}:",
    "stmg %r6, %r15, 48(%r15)",
    "aghi %r15, -224",
    "std %f8, 160(%r15)",
    "std %f9, 168(%r15)",
    "std %f10, 176(%r15)",
    "std %f11, 184(%r15)",
    "std %f12, 192(%r15)",
    "std %f13, 200(%r15)",
    "std %f14, 208(%r15)",
    "std %f15, 216(%r15)",
    "lgr %r6, %r4",
    "ld %f8, 8(%r6)",
    "ld %f9, 16(%r6)",
    "ld %f10, 24(%r6)",
    "ld %f11, 32(%r6)",
    "ld %f12, 40(%r6)",
    "ld %f13, 48(%r6)",
    "ld %f14, 56(%r6)",
    "ld %f15, 64(%r6)",
    "basr %r14, %r5",
    // vst %v24, 72(%r6)
    ".byte 0xe7, 0x80, 0x60, 0x48, 0x08, 0x0e",
    "std %f0, 0(%r6)",
    "std %f8, 8(%r6)",
    "std %f9, 16(%r6)",
    "std %f10, 24(%r6)",
    "std %f11, 32(%r6)",
    "std %f12, 40(%r6)",
    "std %f13, 48(%r6)",
    "std %f14, 56(%r6)",
    "std %f15, 64(%r6)",
    "ld %f8, 160(%r15)",
    "ld %f9, 168(%r15)",
    "ld %f10, 176(%r15)",
    "ld %f11, 184(%r15)",
    "ld %f12, 192(%r15)",
    "ld %f13, 200(%r15)",
    "ld %f14, 208(%r15)",
    "ld %f15, 216(%r15)",
    "lmg %r6, %r15, 272(%r15)",
    "br %r14",
    call = sym patchpoint_test_call,
    probe = sym patchpoint_test_probe,
    site = sym patchpoint_test_site,
    back = sym patchpoint_test_back,
    end = sym patchpoint_test_end,
);

unsafe extern "C" {
    fn patchpoint_test_probe();
    fn patchpoint_test_site();
    fn patchpoint_test_back();
    fn patchpoint_test_end();
    /// Calls the routine with f8 to f15 as the eight behind the first, and writes down what they
    /// are then, f0 as the first, and v24 as the last two.
    fn patchpoint_test_call(given: &Registers, taken: &mut Registers, floats: &mut [f64; 11], routine: u64);
}

const SIZE: usize = 64 * 1024;
const EXIT_STUB: usize = 4096;

fn offset(of: unsafe extern "C" fn()) -> usize {
    of as usize - patchpoint_test_probe as usize
}

/// The routine, copied next to its exit stub.
struct Machine {
    base: usize,
}

type Handler = Box<dyn for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync>;

struct TestSite {
    addr: CodeAddr,
    shape: CallShape,
    record: Option<Record<'static>>,
    constants: Constants<'static>,
    unwind: Option<UnwindInfo>,
    handler: Handler,
}

impl ExitStubSite for TestSite {
    fn site(&self) -> SiteContext<'_> {
        SiteContext {
            arch: Arch::SystemZ,
            id: RecordId::new(7),
            function: Some("probe"),
            offset: FnOffset::new(0),
            addr: self.addr,
            shape: self.shape,
            record: self.record,
            constants: self.constants,
            return_offsets: &[],
            trust_live_outs: false,
        }
    }

    fn unwind(&self) -> crate::deopt::Result<Option<&UnwindInfo>> {
        Ok(self.unwind.as_ref())
    }

    fn handle<'f>(&self, frame: &mut Frame<'f>) -> Answer<'f> {
        let answer = (self.handler)(frame);
        trash();
        answer
    }
}

impl Machine {
    fn new() -> Self {
        // SAFETY: a fresh anonymous mapping.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        Self { base: base as usize }
    }

    fn at(&self, offset: usize) -> CodeAddr {
        CodeAddr::new((self.base + offset) as u64)
    }

    fn site(
        &self,
        handler: impl for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync + 'static,
    ) -> TestSite {
        TestSite {
            addr: self.at(offset(patchpoint_test_site)),
            shape: CallShape::shadow(6),
            record: None,
            constants: Constants::NONE,
            unwind: None,
            handler: Box::new(handler),
        }
    }

    /// Makes the site jump to an exit stub that resumes behind it, and runs the routine.
    fn run(&self, site: TestSite, registers: &Registers) -> (i64, Registers) {
        let back = self.at(offset(patchpoint_test_back));
        self.run_resuming(site, Resume::At(back), registers)
    }

    fn run_resuming(&self, site: TestSite, resume: Resume<'_>, registers: &Registers) -> (i64, Registers) {
        let mut given = registers.clone();
        given.vectors = [[0; 2]; 32];
        let result = self.place(site, resume, |routine| {
            // SAFETY: the routine is there, and takes and gives these.
            let run: extern "C" fn(&Registers, &mut Registers) -> i64 =
                unsafe { core::mem::transmute(routine) };
            run(registers, &mut given)
        });
        (result, given)
    }

    /// The routine with its site made a jump to an exit stub, while `run` runs.
    fn place<R>(&self, site: TestSite, resume: Resume<'_>, run: impl FnOnce(usize) -> R) -> R {
        // SAFETY: each test describes its site truly.
        let exit_stub = unsafe { testing::exit_stub(Arc::new(site), self.at(EXIT_STUB), resume) };
        let distance = (EXIT_STUB - offset(patchpoint_test_site)) as u32 / 2;
        let jump = [&[0xc0, 0xf4], &distance.to_be_bytes()[..]].concat();
        // SAFETY: the mapping is as large, is not executed now, and the routine is what its symbols say.
        unsafe {
            libc::mprotect(self.base as *mut _, SIZE, libc::PROT_READ | libc::PROT_WRITE);
            let base = self.base as *mut u8;
            core::ptr::copy_nonoverlapping(
                patchpoint_test_probe as *const u8,
                base,
                offset(patchpoint_test_end),
            );
            core::ptr::copy_nonoverlapping(jump.as_ptr(), base.add(offset(patchpoint_test_site)), 6);
            core::ptr::copy_nonoverlapping(exit_stub.as_ptr(), base.add(EXIT_STUB), exit_stub.len());
            libc::mprotect(self.base as *mut _, SIZE, libc::PROT_READ | libc::PROT_EXEC);
        }
        run(self.base)
    }
}

/// All different.
fn registers() -> Registers {
    let word = |n: u64| 0x0101_0101_0101_0101 * n ^ 0xf0e1_d2c3_b4a5_9687;
    Registers {
        vectors: core::array::from_fn(|n| [word(2 * n as u64 + 1), word(2 * n as u64 + 2)]),
        gprs: core::array::from_fn(|n| word(n as u64 + 100)),
        // Inexact; rounds to plus infinity, in decimal to the nearest; data exception code 0.
        fpc: 0x0008_0012,
        flags: 0x2200_0000,
        access: core::array::from_fn(|n| word(n as u64 + 150) as u32),
    }
}

fn dwarf(number: u16) -> DwarfReg {
    DwarfReg::new(number)
}

#[test]
fn a_handler_that_resumes_changes_nothing() {
    for flags in [0, 0x1200_0000, 0x2000_0000, 0x3200_0000] {
        let machine = Machine::new();
        let mut before = registers();
        before.flags = flags;
        let site = machine.site(|frame| frame.resume());
        let (result, after) = machine.run(site, &before);
        assert_eq!(result, -2);
        assert_eq!(after, before);
    }
}

#[test]
fn a_handler_sees_every_register() {
    static SEEN: Mutex<Vec<(u16, Value)>> = Mutex::new(Vec::new());
    let machine = Machine::new();
    let site = machine.site(|frame| {
        let seen = (0..128).filter_map(|n| Some((n, frame.register(dwarf(n)).ok()?)));
        SEEN.lock().unwrap().extend(seen);
        assert_eq!(frame.flags(), 0x2200_0000);
        assert_eq!(frame.stack_pointer() % 8, 0);
        frame.resume()
    });
    let given = registers();
    machine.run(site, &given);
    let seen = SEEN.lock().unwrap();
    assert_eq!(seen.len(), 16 + 16 + 16);
    for (number, value) in seen.iter() {
        let name = crate::arch::registers::register_name(Arch::SystemZ, dwarf(*number)).unwrap();
        let name = alloc::format!("{name}");
        let n: usize = name[1..].parse().unwrap();
        match &name[..1] {
            "r" if n == 15 => {}
            "r" => assert_eq!(value.u64(), Some(given.gprs[n]), "{name}"),
            "f" => assert_eq!(value.u64(), Some(given.vectors[n][0]), "{name}"),
            _ => {
                let [high, low] = given.vectors[n];
                let whole = [low.to_le_bytes(), high.to_le_bytes()].concat();
                assert_eq!(value.bytes(), whole, "{name}");
            }
        }
    }
}

#[test]
fn what_a_handler_writes_is_what_the_code_finds() {
    let machine = Machine::new();
    let site = machine.site(|frame| {
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.set_register(dwarf(4), Value::from(4u64)) }.unwrap();
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.set_register(dwarf(13), Value::from(13u64)) }.unwrap();
        // f9, f2 as a short number, v16.
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.set_register(dwarf(28), Value::from(9.5f64)) }.unwrap();
        let short = Value::from_bytes(&2.5f32.to_le_bytes()).unwrap();
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.set_register(dwarf(17), short) }.unwrap();
        let whole: Vec<u8> = (0..16).collect();
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.set_register(dwarf(68), Value::from_bytes(&whole).unwrap()) }.unwrap();
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        assert!(unsafe { frame.set_register(dwarf(15), Value::from(1u64)) }.is_err());
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.set_flags(0x1000_0000) };
        frame.resume()
    });
    let mut expected = registers();
    let (_, after) = machine.run(site, &expected);
    expected.gprs[4] = 4;
    expected.gprs[13] = 13;
    expected.vectors[9][0] = 9.5f64.to_bits();
    let right = expected.vectors[2][0] & u64::from(u32::MAX);
    expected.vectors[2][0] = u64::from(2.5f32.to_bits()) << 32 | right;
    expected.vectors[16] = [0x0f0e_0d0c_0b0a_0908, 0x0706_0504_0302_0100];
    // The program mask stays.
    expected.flags = 0x1200_0000;
    assert_eq!(after, expected);
}

#[test]
fn locations_are_read_and_written_in_the_order_of_this_machine() {
    let machine = Machine::new();
    // -2 is at 232(%r15).
    let locations = [
        reg(4, 8),
        sub_reg(4, 32, 4),
        reg(4, 4),
        sub_reg(16, 32, 4),
        reg(16, 8),
        reg(16, 16),
        indirect(15, 232, 8),
        indirect(15, 236, 4),
    ];
    let (record, constants) = map().function(0, 400, [record(7).locations(locations)]).leak();
    let mut site = machine.site(|frame| {
        let given = registers();
        let value = |index| frame.value(index).unwrap();
        assert_eq!(value(0).u64(), Some(given.gprs[4]));
        assert_eq!(value(1).u64(), Some(given.gprs[4] >> 32));
        assert_eq!(value(2).u64(), Some(given.gprs[4] & 0xffff_ffff));
        assert_eq!(value(3).u64(), Some(given.vectors[0][0] >> 32));
        assert_eq!(value(4).u64(), Some(given.vectors[0][0]));
        assert_eq!(value(5).size(), 16);
        assert_eq!(value(5).bytes()[..8], given.vectors[0][1].to_le_bytes());
        assert_eq!(value(6).i64(), Some(-2));
        assert_eq!(value(7).i64(), Some(-2));
        let four = |value: u32| Value::from_bytes(&value.to_le_bytes()).unwrap();
        frame.set_value(1, four(0x1111)).unwrap();
        frame.set_value(3, four(0x2222)).unwrap();
        // The low four bytes of the eight.
        frame.set_value(6, four(0x3333)).unwrap();
        frame.resume()
    });
    (site.record, site.constants) = (Some(record), constants);
    let mut expected = registers();
    let (result, after) = machine.run(site, &expected);
    expected.gprs[4] = expected.gprs[4] & 0xffff_ffff | 0x1111 << 32;
    let right = expected.vectors[0][0] & 0xffff_ffff;
    expected.vectors[0][0] = 0x2222 << 32 | right;
    assert_eq!(after, expected);
    assert_eq!(result, 0xffff_ffff_0000_3333u64 as i64);
}

#[test]
fn a_frame_continues_at_another_address_with_its_registers() {
    let machine = Machine::new();
    let back = machine.at(offset(patchpoint_test_back));
    let site = machine.site(move |frame| {
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.set_register(dwarf(4), Value::from(44u64)) }.unwrap();
        // SAFETY: the code that goes on is this test's, and made to look at just that.
        unsafe { frame.continue_at(back) }.unwrap()
    });
    let mut expected = registers();
    // Where it would resume there is nothing.
    let far_away = Resume::At(machine.at(8192));
    let (result, after) = machine.run_resuming(site, far_away, &expected);
    expected.gprs[4] = 44;
    // It holds the address.
    expected.gprs[1] = back.get();
    assert_eq!((result, after), (-2, expected));
}

#[test]
fn displaced_instructions_are_executed_in_the_exit_stub() {
    let machine = Machine::new();
    let site_at = machine.at(offset(patchpoint_test_site));
    // lgr %r4, %r5; bcr 0, %r0
    let original = Resume::Original {
        addr: site_at,
        bytes: &[0xb9, 0x04, 0x00, 0x45, 0x07, 0x00],
    };
    let mut expected = registers();
    let site = machine.site(|frame| frame.resume());
    let (_, after) = machine.run_resuming(site, original, &expected);
    expected.gprs[4] = expected.gprs[5];
    assert_eq!(after, expected);
}

/// The routine's unwind information: DWARF 5, section 6.4.
fn unwind(machine: &Machine) -> UnwindInfo {
    let sized = |mut body: Vec<u8>| {
        body.resize(body.len().next_multiple_of(8) + 4, 0);
        [&(body.len() as u32).to_be_bytes()[..], &body].concat()
    };
    // Version 1, "zR", units of 1 and -8, return address in r14, absolute pointers; CFA at r15 +
    // 160.
    let cie = sized(
        [
            &[0, 0, 0, 0, 1][..],
            b"zR\0",
            &[1, 0x78, 14, 1, 0, 0x0c, 15, 0xa0, 1],
        ]
        .concat(),
    );
    let back_to_cie = (cie.len() as u32 + 4).to_be_bytes();
    let mut rules = Vec::from([0x0e, 0xb0, 0x04]);
    // r6 to r15 at CFA - 112 and up, f8 to f15 at CFA - 400 and up.
    rules.extend((6..16).flat_map(|reg: u8| [0x80 | reg, 14 - (reg - 6)]));
    for (reg, slot) in [24, 28, 25, 29, 26, 30, 27, 31]
        .into_iter()
        .zip((43..=50u8).rev())
    {
        rules.extend([0x80 | reg, slot]);
    }
    let start = machine.base.to_be_bytes();
    let fde = sized(
        [
            &back_to_cie[..],
            &start,
            &(SIZE as u64).to_be_bytes(),
            &[0],
            &rules,
        ]
        .concat(),
    );
    let section = [&cie[..], &fde, &[0; 4]].concat();
    UnwindInfo::new(CodeAddr::new(0x1000), &section).unwrap()
}

#[test]
fn a_frame_is_left_with_a_value_and_its_callers_registers() {
    let machine = Machine::new();
    let far_away = Resume::At(machine.at(8192));
    for value in [
        ReturnValue::Int(0x1234_5678_9abc),
        ReturnValue::F64(1.5),
        ReturnValue::Void,
    ] {
        let mut site = machine.site(move |frame| frame.return_to_caller(value).unwrap());
        site.unwind = Some(unwind(&machine));
        let (result, after) = machine.run_resuming(site, far_away, &registers());
        // The routine's caller would not have survived wrong registers; its own end was never
        // reached.
        assert_eq!(after.vectors, [[0; 2]; 32]);
        match value {
            ReturnValue::Int(value) => assert_eq!(result as u64, value),
            _ => assert_eq!(result as u64, registers().gprs[2]),
        }
    }
}

/// Leaves the routine with this value; f0, and v24.
fn leave_with(value: ReturnValue) -> (u64, [u64; 2]) {
    let machine = Machine::new();
    let mut site = machine.site(move |frame| frame.return_to_caller(value).unwrap());
    site.unwind = Some(unwind(&machine));
    let mut floats: [f64; 11] = core::array::from_fn(|n| n as f64 + 0.25);
    let before = floats;
    machine.place(site, Resume::At(machine.at(8192)), |routine| {
        let (given, mut taken) = (registers(), registers());
        // SAFETY: the routine keeps the convention, which this is about; the pointers are valid.
        unsafe { patchpoint_test_call(&given, &mut taken, &mut floats, routine as u64) };
    });
    assert_eq!(floats[1..9], before[1..9], "f8 to f15 are the caller's");
    (floats[0].to_bits(), [floats[9].to_bits(), floats[10].to_bits()])
}

#[test]
fn numbers_and_vectors_are_returned_where_the_caller_looks() {
    let (float, _) = leave_with(ReturnValue::F32(2.5));
    assert_eq!((float >> 32) as u32, 2.5f32.to_bits());
    let whole = core::array::from_fn::<u8, 16, _>(|n| n as u8);
    let (_, vector) = leave_with(ReturnValue::Vector(Value::from_bytes(&whole).unwrap()));
    assert_eq!(vector, [0x0f0e_0d0c_0b0a_0908, 0x0706_0504_0302_0100]);
}

/// Result in r2, argument in r4; everything is live that LLVM can name.
#[test]
fn a_live_register_exit_stub_keeps_every_live_register() {
    let mut spec = record(7).location(reg(2, 8)).location(reg(4, 8)).live_out(15, 8);
    for n in 2..14 {
        spec = spec.live_out(n, 8);
    }
    for n in 16..32 {
        spec = spec.live_out(n, if n % 2 == 0 { 8 } else { 16 });
    }
    let machine = Machine::new();
    let mut site = machine.site(|frame| {
        let arg = frame.arg(0).unwrap().u64().unwrap();
        frame.set_result(!arg).unwrap();
        frame.resume()
    });
    site.shape = CallShape::any_reg(6).result().args(1);
    site.record = Some(testing::leak(spec));
    let mut before = registers();
    before.fpc = 0;
    let (result, after) = machine.run(site, &before);
    assert_eq!((result, after.gprs[2]), (-2, !before.gprs[4]));
    assert_eq!(after.gprs[3..14], before.gprs[3..14]);
    // By the numbers of the vectors whose halves they are.
    let numbers = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15];
    for (dwarf, n) in (16..).zip(numbers) {
        let live = if dwarf % 2 == 0 { 1 } else { 2 };
        assert_eq!(after.vectors[n][..live], before.vectors[n][..live], "v{n}");
    }
}

/// Changes what a C function may change, and access registers, which nothing restores but the exit
/// stub.
fn trash() {
    // SAFETY: what is changed is declared, or the upper half of a register whose lower half a function preserves, or a
    // register that Rust code does not use.
    unsafe {
        core::arch::asm!(
            ".irp n, 0,1,2,3,4,5",
            "lghi %r\\n, -1",
            ".endr",
            ".irp n, 2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "sar %a\\n, %r1",
            ".endr",
            // The right halves of v0 to v15: vleig %v0, -1, 1
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            ".byte 0xe7, \\n * 16, 0xff, 0xff, 0x10, 0x42",
            ".endr",
            // vone %v16
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            ".byte 0xe7, \\n * 16, 0xff, 0xff, 0x08, 0x44",
            ".endr",
            ".irp n, 0,1,2,3,4,5,6,7",
            "lzdr %f\\n",
            ".endr",
            "lghi %r0, 3",
            "sfpc %r0",
            // Condition 3, and the other program mask that nothing looks at.
            "llilh %r0, 0x3100",
            "spm %r0",
            "lghi %r0, -1",
            clobber_abi("C"),
        );
    }
}
