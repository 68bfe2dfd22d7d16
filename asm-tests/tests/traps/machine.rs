//! What the tests know of this machine.

use patchpoint::addr::DwarfReg;
#[cfg(target_arch = "aarch64")]
use patchpoint::arch::aarch64::{X1, X9, X10, X19};
#[cfg(target_arch = "powerpc64")]
use patchpoint::arch::powerpc64::{R4, R11, R12, R30};
#[cfg(target_arch = "riscv64")]
use patchpoint::arch::riscv64::{A1, S1, T0, T1};
#[cfg(target_arch = "s390x")]
use patchpoint::arch::systemz::{R3, R4, R5, R13};
#[cfg(target_arch = "x86_64")]
use patchpoint::arch::x86_64::{R10, R11, RBX, RSI};

/// One architecture. The bytes are llvm-mc's for the text next to them.
pub(super) struct Machine {
    /// The object; its source is `traps.ll` beside it.
    pub(super) object: &'static [u8],
    /// The length of LLVM's call at sites 1 and 2.
    pub(super) call: u32,
    /// A register that functions preserve, which [`asm_tests::SETS_PRESERVED`] writes: where it can
    /// be, the one in which `recurses` keeps its argument.
    pub(super) preserved: DwarfReg,
    /// Registers that the C convention clobbers, and that hold no argument.
    pub(super) free: [DwarfReg; 2],
    /// That of a function's second argument. The first may be in that of the result.
    pub(super) argument: DwarfReg,
    /// Adds 0 to the result of a C site, in 4 bytes.
    pub(super) adds_nothing: [u8; 4],
    /// Writes into the red zone, where there is one.
    pub(super) writes_red_zone: Option<&'static [u8]>,
    /// Whether an entry has the two registers free that a counter needs. `ELFv2` has one, r11.
    pub(super) counts_at_entry: bool,
    /// `result = argument + number` at a C site has at most so many bytes.
    pub(super) add: u32,
}

#[cfg(target_arch = "x86_64")]
pub(super) const HOST: Machine = Machine {
    object: include_bytes!("../../objects/traps/traps.x86_64.o"),
    call: 13,
    preserved: RBX,
    free: [R10, R11],
    argument: RSI,
    // addq $0,%rax; xchg would be a nop.
    adds_nothing: [0x48, 0x83, 0xc0, 0],
    // pushq %rax; popq %rax
    writes_red_zone: Some(&[0x50, 0x58]),
    counts_at_entry: true,
    add: 7,
};

#[cfg(target_arch = "aarch64")]
pub(super) const HOST: Machine = Machine {
    object: include_bytes!("../../objects/traps/traps.aarch64.o"),
    call: 16,
    preserved: X19,
    free: [X9, X10],
    argument: X1,
    // add x0,x0,#0
    adds_nothing: [0x00, 0x00, 0x00, 0x91],
    writes_red_zone: None,
    counts_at_entry: true,
    add: 4,
};

#[cfg(all(target_arch = "powerpc64", target_endian = "little"))]
pub(super) const HOST: Machine = Machine {
    object: include_bytes!("../../objects/traps/traps.powerpc64le.o"),
    // bl, and the TOC pointer restored.
    call: 8,
    preserved: R30,
    free: [R11, R12],
    argument: R4,
    // addi 3,3,0
    adds_nothing: [0x00, 0x00, 0x63, 0x38],
    // std 11,-8(1)
    writes_red_zone: Some(&[0xf8, 0xff, 0x61, 0xf9]),
    counts_at_entry: false,
    add: 4,
};

#[cfg(all(target_arch = "powerpc64", target_endian = "big"))]
pub(super) const HOST: Machine = Machine {
    object: include_bytes!("../../objects/traps/traps.powerpc64.o"),
    // bl, and the TOC pointer restored.
    call: 8,
    preserved: R30,
    free: [R11, R12],
    argument: R4,
    // addi 3,3,0
    adds_nothing: [0x38, 0x63, 0x00, 0x00],
    // std 11,-8(1)
    writes_red_zone: Some(&[0xf9, 0x61, 0xff, 0xf8]),
    counts_at_entry: false,
    add: 4,
};

#[cfg(target_arch = "s390x")]
pub(super) const HOST: Machine = Machine {
    object: include_bytes!("../../objects/traps/traps.s390x.o"),
    call: 6,
    preserved: R13,
    free: [R4, R5],
    argument: R3,
    // aghi %r2,0
    adds_nothing: [0xa7, 0x2b, 0x00, 0x00],
    writes_red_zone: None,
    counts_at_entry: true,
    add: 4,
};

#[cfg(target_arch = "riscv64")]
pub(super) const HOST: Machine = Machine {
    object: include_bytes!("../../objects/traps/traps.riscv64.o"),
    call: 28,
    // s0, where it is kept, may be a frame pointer, which is live whatever a list says.
    preserved: S1,
    free: [T0, T1],
    argument: A1,
    // addi a0,a0,0
    adds_nothing: [0x13, 0x05, 0x05, 0x00],
    writes_red_zone: None,
    counts_at_entry: true,
    add: 4,
};

/// The number in the source that stands for the address of the function, where LLVM can call
/// numbers only.
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const PLACEHOLDER: u64 = 20_015_998_343_869;

/// The object with `callee` in its calls, where LLVM cannot call symbols.
pub(super) fn object(callee: u64) -> Vec<u8> {
    #[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
    return calling(callee);
    #[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64")))]
    {
        let _ = callee;
        HOST.object.to_vec()
    }
}

#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
fn calling(callee: u64) -> Vec<u8> {
    let bytes = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let (old, new) = (bytes(&number(PLACEHOLDER)), bytes(&number(callee)));
    let mut object = HOST.object.to_vec();
    // LLVM's own way to the placeholder need not be ours: the last instruction and the length are.
    let starts: Vec<usize> = (0..object.len() - old.len())
        .filter(|at| object[*at..].starts_with(&old))
        .collect();
    assert_eq!(starts.len(), 2, "the calls of sites 1 and 2");
    for at in starts {
        object[at..at + new.len()].copy_from_slice(&new);
    }
    object
}

/// movz x16,..,lsl #32; movk x16,..,lsl #16; movk x16,..
#[cfg(target_arch = "aarch64")]
fn number(number: u64) -> [u32; 3] {
    assert!(number >> 48 == 0);
    let part = |by: u32| (number >> by & 0xffff) as u32;
    [
        0xd2c0_0010 | part(32) << 5,
        0xf2a0_0010 | part(16) << 5,
        0xf280_0010 | part(0) << 5,
    ]
}

/// lui ra; addiw ra; slli ra,12; addi ra; slli ra,BY; addi ra, where BY is what LLVM has for the
/// placeholder.
#[cfg(target_arch = "riscv64")]
fn number(number: u64) -> [u32; 6] {
    // The placeholder has a zero that LLVM shifts in.
    let by = if number == PLACEHOLDER { 13 } else { 12 };
    let low = |value: i64| value << 52 >> 52;
    let first = low(number as i64);
    let rest = number as i64 - first >> by;
    let second = low(rest);
    let rest = rest - second >> 12;
    let third = low(rest);
    let upper = rest - third >> 12;
    assert!((0..1 << 19).contains(&upper), "{number:#x}");
    let addi = |value: i64| 0x0000_8093 | (value as u32) << 20;
    let slli = |by: u32| 0x0000_9093 | by << 20;
    [
        0x0000_00b7 | (upper as u32) << 12,
        0x0000_809b | (third as u32) << 20,
        slli(12),
        addi(second),
        slli(by),
        addi(first),
    ]
}
