//! Every operation with every class of operand: what it writes is its destination and what it was
//! given.

use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::RegSet;

use patchpoint_isa::aarch64::{SP, V3, V9, X0, X9, X16, X17, X19, X29, X30};

use crate::aarch64::AArch64;
use crate::backend::{Backend, EncodedCode, EncodingRefusal, Origin};
use crate::op::{Address, Base, Bits, Cond, Dest, Extension, Label, Op, OpValue, Width};

const FREE: [&[DwarfReg]; 4] = [&[], &[X16], &[X16, X17], &[X16, X17, X30]];
const WIDTHS: [Width; 4] = [Width::B1, Width::B2, Width::B4, Width::B8];
const DISPS: [i32; 12] = [
    0,
    8,
    -8,
    255,
    -256,
    -257,
    0x7ff8,
    0x8000,
    0xff_ffff,
    0x100_0000,
    i32::MAX,
    i32::MIN,
];

fn emit(op: &Op<'_>, free: &[DwarfReg]) -> Result<EncodedCode, EncodingRefusal> {
    let mut code = EncodedCode::new(Origin::At(CodeAddr::new(0x1000)));
    AArch64.emit(op, RegSet::of(free), &mut code)?;
    assert_eq!(code.bytes.len() % 4, 0, "{op:?}");
    Ok(code)
}

fn addresses() -> Vec<Address> {
    let bases = [
        Base::Reg(X19),
        Base::Reg(X0),
        Base::Reg(SP),
        Base::Slot { reg: X29, disp: -16 },
        Base::Slot {
            reg: SP,
            disp: 0x12_3450,
        },
        Base::Absolute(0x7fff_1234_5678),
        Base::Absolute(u64::MAX),
    ];
    let all = |base| {
        DISPS.map(|disp| Address {
            base,
            disp,
            number: None,
        })
    };
    bases.into_iter().flat_map(all).collect()
}

fn values(width: Width) -> Vec<OpValue> {
    let regs = [X0, X9, X19, X29, V3, V9].map(OpValue::Reg);
    let bits = u32::from(width.bytes()) * 8;
    let largest = u64::MAX >> (64 - bits);
    let imms = [
        0,
        1,
        largest,
        largest >> 1,
        (largest >> 1) + 1,
        u64::MAX,
        0xfff,
        0x1000,
    ];
    let frames = DISPS.map(|disp| OpValue::Frame { reg: X29, disp });
    let sp = OpValue::Frame { reg: SP, disp: 0 };
    regs.into_iter()
        .chain(imms.map(OpValue::imm))
        .chain(addresses().into_iter().map(OpValue::Mem))
        .chain(frames)
        .chain([sp])
        .collect()
}

/// Every operation that one of the values makes.
fn operations(value: OpValue, width: Width) -> Vec<(Op<'static>, Option<DwarfReg>)> {
    let mut ops = Vec::new();
    for (dst, extension) in [
        (X0, Extension::Zero),
        (X19, Extension::Sign),
        (V3, Extension::Zero),
    ] {
        let (src, dst_too) = (value, Some(dst));
        ops.push((
            Op::Move {
                dst,
                src,
                width,
                extension,
            },
            dst_too,
        ));
        ops.push((
            Op::AddToReg {
                dst,
                src,
                width,
                extension,
            },
            dst_too,
        ));
    }
    let near = Address {
        base: Base::Reg(X0),
        disp: 16,
        number: None,
    };
    let spilled = Address {
        base: Base::Slot { reg: SP, disp: 8 },
        disp: 24,
        number: None,
    };
    for to in [near, spilled] {
        let src = value;
        ops.push((Op::Store { to, src, width }, None));
        for atomic in [false, true] {
            ops.push((
                Op::AddToMem {
                    to,
                    src,
                    width,
                    atomic,
                },
                None,
            ));
        }
    }
    let other = OpValue::Reg(X9);
    for (lhs, rhs) in [
        (value, other),
        (other, value),
        (value, OpValue::imm(5)),
        (value, value),
    ] {
        for cond in [Cond::Ne, Cond::Below, Cond::Greater] {
            let dest = Dest::Label(Label::new(0));
            ops.push((
                Op::Branch {
                    cond,
                    lhs,
                    rhs,
                    width,
                    dest,
                },
                None,
            ));
        }
    }
    ops
}

#[test]
fn every_operation_is_encoded_or_refused() {
    let (mut encoded, mut refused) = (0, 0);
    for width in WIDTHS {
        for value in values(width) {
            for (op, dst) in operations(value, width) {
                for free in FREE {
                    match emit(&op, free) {
                        Ok(code) => {
                            let allowed = dst.into_iter().fold(RegSet::of(free), RegSet::with);
                            let more = code.clobbers.difference(allowed);
                            assert!(more.is_empty(), "{op:?} {free:?}: {more:?}");
                            encoded += 1;
                        }
                        Err(_) => refused += 1,
                    }
                }
            }
        }
    }
    assert!(encoded > 20_000 && refused > 5_000, "{encoded} {refused}");
}

#[test]
fn more_registers_never_hurt() {
    for width in WIDTHS {
        for value in values(width) {
            for (op, _) in operations(value, width) {
                let refused = |free: &[DwarfReg]| emit(&op, free).is_err();
                let by_count: Vec<_> = FREE.into_iter().map(refused).collect();
                assert!(by_count.is_sorted_by(|less, more| less >= more), "{op:?}");
            }
        }
    }
}

#[test]
fn two_registers_suffice_except_for_additions_in_memory_and_far_displacements() {
    for width in WIDTHS {
        for value in values(width) {
            for (op, _) in operations(value, width) {
                let Err(EncodingRefusal::NoScratch(_)) = emit(&op, &[X16, X17]) else {
                    continue;
                };
                // A spilled base or a fixed address takes one, a distance beyond all immediates
                // another.
                let excused = match op {
                    Op::AddToMem { .. } => true,
                    Op::Branch { lhs, rhs, .. } => [lhs, rhs].into_iter().any(far),
                    Op::Store { src, .. } => far(src),
                    _ => false,
                };
                assert!(excused, "{op:?}");
            }
        }
    }
}

fn far(value: OpValue) -> bool {
    matches!(value, OpValue::Mem(Address { base: Base::Slot { .. } | Base::Absolute(_), disp, number: None })
        if !(-0xff_ffff..=0xff_ffff).contains(&disp))
}

#[test]
fn immediates_that_do_not_fit_are_refused() {
    for (value, width) in [
        (0x100, Width::B1),
        (0x1_0000, Width::B2),
        (1 << 32, Width::B4),
        (0xffff_ff7f, Width::B1),
    ] {
        let src = OpValue::imm(value);
        let store = Op::Store {
            to: Address {
                base: Base::Reg(X0),
                disp: 0,
                number: None,
            },
            src,
            width,
        };
        let branch = Op::Branch {
            cond: Cond::Eq,
            lhs: OpValue::Reg(X0),
            rhs: src,
            width,
            dest: Dest::End,
        };
        for op in [store, branch] {
            let refusal = emit(&op, &[X16, X17]).unwrap_err();
            assert_eq!(refusal, EncodingRefusal::Immediate { value, width });
        }
    }
}

#[test]
fn the_stack_pointer_misaligned_targets_and_raw_bytes_are_refused() {
    let bits = Bits::Left(1);
    let refused = [
        Op::Bits {
            dst: SP,
            what: bits,
            number: None,
        },
        Op::Bits {
            dst: X0,
            what: Bits::Left(64),
            number: None,
        },
        Op::Jump(Dest::Addr(CodeAddr::new(0x1002))),
        Op::Call(CodeAddr::new(0x1001)),
        Op::Raw(&[0; 6]),
        Op::Bits {
            dst: DwarfReg::new(40),
            what: bits,
            number: None,
        },
    ];
    for op in refused {
        assert!(
            matches!(emit(&op, &[X16]), Err(EncodingRefusal::Unusable(_))),
            "{op:?}"
        );
    }
}

#[test]
fn nothing_between_the_halves_of_an_atomic_addition_touches_memory() {
    let to = Address {
        base: Base::Reg(X0),
        disp: 0,
        number: None,
    };
    let src = OpValue::Mem(Address {
        base: Base::Reg(X19),
        disp: 8,
        number: None,
    });
    let op = Op::AddToMem {
        to,
        src,
        width: Width::B4,
        atomic: true,
    };
    let code = emit(&op, &[X9, X16, X17]).unwrap();
    let words: Vec<_> = code
        .bytes
        .chunks(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect();
    // ldr w16, [x19, #8]; ldaxr w17, [x0]; add x17, x17, x16; stlxr w9, w17, [x0]; cbnz w9, to
    // ldaxr
    let expected = [0xb940_0a70, 0x885f_fc11, 0x8b10_0231, 0x8809_fc11, 0x35ff_ffa9];
    assert_eq!(words, expected);
}
