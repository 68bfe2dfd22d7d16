//! For every rule: sequences that it must refuse, and neighbours of them that it must accept.

mod branches;
mod decoding;
mod independence;
mod original;
mod patchable_jumps;
mod random;
mod registers;
mod return_offsets;
mod stack;
mod state;

use alloc::string::ToString;
use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, RecordId};
use llvm_stackmaps::testing::{RecordSpec, indirect, map, record, reg};
use patchpoint_isa::{Arch, CallShape, Declared, DeclaredTarget, OnReturn, RegSet, SiteContext};

use super::{Checked, Chunk, check};
use crate::{Error, Result};

const SITE: usize = 0x40_0000;
const STUB: usize = 0x41_0000;
/// The reserved length of the test sites.
const LEN: u32 = 48;
const END: usize = SITE + LEN as usize;
/// Jumped to, never returns.
const EXIT_STUB: usize = 0x50_0000;
/// Called, preserves everything.
const HELPER: usize = 0x51_0000;
/// Called, follows the C convention.
const C_FUNCTION: usize = 0x52_0000;
/// Declared by nobody.
const UNDECLARED: usize = 0x53_0000;

const RAX: u16 = 0;
const RDX: u16 = 1;
const RCX: u16 = 2;
const RBX: u16 = 3;
const RSI: u16 = 4;
const RDI: u16 = 5;
const RBP: u16 = 6;
const R11: u16 = 11;
const XMM0: u16 = 17;
const XMM1: u16 = 18;

/// Assembles for the address `SITE`, or for another.
macro_rules! asm {
    (at $base:expr; $($t:tt)*) => {{
        #[allow(unused_imports)]
        use dynasmrt::{DynasmApi, DynasmLabelApi};
        let mut ops = dynasmrt::VecAssembler::<dynasmrt::x64::X64Relocation>::new($base);
        dynasmrt::dynasm!(ops ; .arch x64 ; $($t)*);
        ops.finalize().unwrap()
    }};
    ($($t:tt)*) => { asm!(at SITE; $($t)*) };
}

/// Asserts that a result is an error of a variant.
macro_rules! refused {
    ($result:expr, $variant:ident $($fields:tt)?) => {{
        let result = $result;
        assert!(
            matches!(result, Err(crate::Error::$variant { .. })),
            "expected {}, got {:#?}",
            stringify!($variant),
            result
        );
    }};
}

/// Asserts that a result is a refusal to write this register.
macro_rules! refused_register {
    ($result:expr, $variant:ident, $name:literal) => {{
        let result = $result;
        match &result {
            Err(crate::Error::$variant { register, .. }) if *register == $name => {}
            _ => panic!("expected {} of {}, got {result:#?}", stringify!($variant), $name),
        }
    }};
}

use asm;
use refused;
use refused_register;

/// A site, and what a sequence for it declares.
struct Case {
    site: SiteContext<'static>,
    declared: Declared,
}

impl Case {
    fn new(shape: CallShape, spec: Option<RecordSpec>) -> Self {
        let (record, constants) = map()
            .function(0x1000, 24, [spec.clone().unwrap_or_else(|| record(7))])
            .leak();
        let target = |addr: usize, on_return| DeclaredTarget {
            addr: CodeAddr::new(addr as u64),
            on_return,
        };
        Self {
            site: SiteContext {
                arch: Arch::X86_64,
                id: RecordId::new(7),
                function: Some("get"),
                offset: 4.into(),
                addr: CodeAddr::new(SITE as u64),
                shape,
                record: spec.map(|_| record),
                constants,
                return_offsets: &[],
                trust_live_outs: false,
            },
            declared: Declared {
                targets: [
                    target(EXIT_STUB, OnReturn::Never),
                    target(HELPER, OnReturn::PreservesAll),
                    target(C_FUNCTION, OnReturn::FollowsC),
                ]
                .to_vec(),
                outputs: RegSet::EMPTY,
                vouched: Vec::new(),
            },
        }
    }

    fn outputs(mut self, registers: &[u16]) -> Self {
        self.declared.outputs = registers.iter().map(|r| (*r).into()).collect();
        self
    }

    fn return_offsets(mut self, return_offsets: &'static [u32]) -> Self {
        self.site.return_offsets = return_offsets;
        self
    }

    fn trusting(mut self) -> Self {
        self.site.trust_live_outs = true;
        self
    }

    /// Checks the code, filled up with one-byte nops.
    fn check(&self, code: &[u8]) -> Result<Checked> {
        self.check_with(code, &[])
    }

    fn check_with(&self, code: &[u8], stubs: &[Chunk<'_>]) -> Result<Checked> {
        let mut code = code.to_vec();
        code.resize(self.site.shape.reserved().as_usize(), 0x90);
        check(&self.site, &code, stubs, &self.declared)
    }

    /// Checks a site that is a jump to a stub.
    fn check_stub(&self, code: &[u8]) -> Result<Checked> {
        self.check_with(&asm!(jmp extern STUB), &[stub(STUB, code)])
    }
}

fn stub(addr: usize, bytes: &[u8]) -> Chunk<'_> {
    Chunk {
        addr: CodeAddr::new(addr as u64),
        bytes,
    }
}

/// Result in rax, one argument in rdi, live values in rbx and at [rbp - 8].
fn any_reg() -> Case {
    let locations = [reg(RAX, 8), reg(RDI, 8), reg(RBX, 8), indirect(RBP, -8, 8)];
    let shape = CallShape::any_reg(LEN).result().args(1);
    Case::new(shape, Some(record(7).locations(locations)))
}

/// Live values in rcx and xmm1; r8 live out.
fn c() -> Case {
    let locations = [reg(RCX, 8), reg(XMM1, 8)];
    let shape = CallShape::c(LEN).result().args(2);
    Case::new(shape, Some(record(7).locations(locations).live_out(8, 8)))
}

/// No live values.
fn plain_c() -> Case {
    Case::new(CallShape::c(LEN).result().args(2), Some(record(7)))
}

/// A live value in rdi.
fn shadow() -> Case {
    Case::new(CallShape::shadow(LEN), Some(record(7).location(reg(RDI, 8))))
}

fn entry() -> Case {
    Case::new(CallShape::entry(LEN), None)
}

/// The code of a whole site of nops.
fn nops(len: u32) -> Vec<u8> {
    [0x90].repeat(len as usize)
}

fn is(error: &Error, needles: &[&str]) {
    let text = error.to_string();
    for needle in needles {
        assert!(text.contains(needle), "{needle:?} is not in {text:?}");
    }
}
