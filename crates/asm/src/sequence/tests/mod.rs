//! What is assembled at sites of every kind, read back by the checker's disassembler; everything
//! that is assembled here also passes the checker itself.

mod aarch64;
mod branches;
mod flow;
mod holes;
mod operands;
mod padding;
mod powerpc64;
mod random;
mod refusals;
mod registers;
mod systemz;
mod vouched;

use alloc::string::String;
use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, DwarfReg, FnOffset, Len, RecordId};
use llvm_stackmaps::testing::{RecordSpec, constant, constant_index, direct, indirect, map, record, reg};
use patchpoint_isa::{Arch, CallShape, OnReturn, SiteContext};
use patchpoint_verify as verify;
use patchpoint_verify::Chunk;

use super::*;
use crate::error::Error;
use crate::op::{Cond, Label};

const SITE: CodeAddr = CodeAddr::new(0x40_0000);
const MISS: CodeAddr = CodeAddr::new(0x50_0000);
const DEOPT: CodeAddr = CodeAddr::new(0x60_0000);
const HELPER: CodeAddr = CodeAddr::new(0x70_0000);
const FAR: CodeAddr = CodeAddr::new(0x7fff_1234_5678);
const STUB: CodeAddr = CodeAddr::new(0x41_0000);
const ENV: Environment = Environment {
    miss: Some(MISS),
    deopt: Some(DEOPT),
};

const RAX: u16 = 0;
const RDX: u16 = 1;
const RBX: u16 = 3;
const RSI: u16 = 4;
const RDI: u16 = 5;
const RBP: u16 = 6;
const RSP: u16 = 7;
const R10: u16 = 10;
const R12: u16 = 12;
const R13: u16 = 13;
const XMM0: u16 = 17;
const XMM9: u16 = 26;

/// A site with the constant 0x1122334455667788 in its pool.
fn site(shape: CallShape, spec: RecordSpec) -> SiteContext<'static> {
    let (record, constants) = map()
        .constant(0x1122_3344_5566_7788)
        .function(0x1000, 24, [spec])
        .leak();
    SiteContext {
        arch: Arch::X86_64,
        id: RecordId::new(7),
        function: Some("get"),
        offset: FnOffset::new(4),
        addr: SITE,
        shape,
        record: Some(record),
        constants,
        return_offsets: &[],
        trust_live_outs: false,
    }
}

/// `anyregcc`: result in rax, arguments in rdi and rsi, live values in rbx and at [rbp - 8].
fn any_reg(reserved: u32) -> SiteContext<'static> {
    let locations = [
        reg(RAX, 8),
        reg(RDI, 8),
        reg(RSI, 8),
        reg(RBX, 8),
        indirect(RBP, -8, 8),
    ];
    site(
        CallShape::any_reg(reserved).result().args(2),
        record(7).locations(locations),
    )
}

/// C: two arguments, a result, rbx live.
fn c(reserved: u32) -> SiteContext<'static> {
    site(
        CallShape::c(reserved).result().args(2),
        record(7).location(reg(RBX, 8)),
    )
}

/// A shadow with rdi live.
fn shadow(reserved: u32) -> SiteContext<'static> {
    site(CallShape::shadow(reserved), record(7).location(reg(RDI, 8)))
}

fn entry(reserved: u32) -> SiteContext<'static> {
    let site = site(CallShape::entry(reserved).args(2).result(), record(7));
    SiteContext { record: None, ..site }
}

fn seq() -> Sequence {
    Sequence::new()
}

fn check(site: &SiteContext<'_>, assembled: &Assembled) {
    let stubs: Vec<_> = assembled
        .stub
        .iter()
        .map(|s| Chunk {
            addr: s.addr,
            bytes: &s.bytes,
        })
        .collect();
    let checked = verify::check(site, &assembled.code, &stubs, &assembled.declared)
        .unwrap_or_else(|error| panic!("{error}\n{:#?}", disassembly(SITE, &assembled.code)));
    assert_eq!(checked.return_offsets, assembled.return_offsets);
    assert!(
        checked.clobbers.difference(assembled.clobbers).is_empty(),
        "{checked:?} {:?}",
        assembled.clobbers
    );
    assert_eq!(Len::of(&assembled.code), Some(site.shape.reserved()));
}

fn in_place(sequence: &Sequence, site: &SiteContext<'_>) -> Assembled {
    match assemble(sequence, site, &ENV).unwrap_or_else(|error| panic!("{error}")) {
        Fit::InPlace(assembled) => {
            check(site, &assembled);
            assembled
        }
        Fit::OutOfLine { stub_len } => panic!("needs a stub of {stub_len} bytes"),
    }
}

fn out_of_line(sequence: &Sequence, site: &SiteContext<'_>, stub: CodeAddr) -> Assembled {
    let Fit::OutOfLine { stub_len } = assemble(sequence, site, &ENV).unwrap() else {
        panic!("fits in place");
    };
    let assembled = assemble_out_of_line(sequence, site, &ENV, stub).unwrap();
    check(site, &assembled);
    let len = Len::of(&assembled.stub.as_ref().unwrap().bytes).unwrap();
    assert!(len <= stub_len, "{len} > {stub_len}");
    assembled
}

fn disassembly(addr: CodeAddr, bytes: &[u8]) -> Vec<String> {
    verify::disassemble(Arch::X86_64, addr, bytes)
        .into_iter()
        .map(|line| line.text)
        .collect()
}

/// The instructions before the padding.
#[track_caller]
fn expect(sequence: &Sequence, site: &SiteContext<'_>, expected: &[&str]) {
    let assembled = in_place(sequence, site);
    assert_eq!(
        disassembly(site.addr, &assembled.code[..assembled.used.as_usize()]),
        expected
    );
}

#[track_caller]
fn refused(sequence: &Sequence, site: &SiteContext<'_>) -> Error {
    match assemble(sequence, site, &ENV) {
        Err(error) => error,
        Ok(fit) => panic!("accepted: {fit:#?}"),
    }
}

fn dwarf(reg: u16) -> DwarfReg {
    DwarfReg::new(reg)
}

fn label(n: u32) -> Label {
    Label::new(n)
}

#[test]
fn a_call_before_the_final_one_returns_before_the_nops_between_them() {
    let map = llvm_stackmaps::testing::record(7).leak();
    let site = SiteContext {
        shape: CallShape::c(32),
        record: Some(map),
        ..entry(32)
    };
    let called = CodeAddr::new(0x41_0000);
    let twice = Sequence::new()
        .call_to(called, patchpoint_isa::OnReturn::FollowsC)
        .call_to(called, patchpoint_isa::OnReturn::FollowsC);
    let Fit::InPlace(assembled) = assemble(&twice, &site, &Environment::default()).unwrap() else {
        panic!()
    };
    assert_eq!(
        (assembled.code.first(), assembled.code.get(27)),
        (Some(&0xe8), Some(&0xe8))
    );
    assert_eq!(assembled.return_offsets, [5]);
}
