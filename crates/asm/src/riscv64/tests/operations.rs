//! Every operation with every class of operand: it writes its destination and what it was given,
//! and what it refuses it refuses with a reason. What they compute is compared with an interpreter
//! where code is executed.

use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::RegSet;

use patchpoint_isa::riscv64::{A0, FA3, GP, RA, S0, S3, SP, T0, T1, T3, T4};

use crate::backend::{Backend, EncodedCode, EncodingRefusal, Origin};
use crate::op::{Address, Base, Bits, Cond, Dest, Extension, Label, Op, OpValue, Width};
use crate::riscv64::RiscV64;

const FREE: [&[DwarfReg]; 4] = [&[], &[T0], &[T0, T1], &[T0, T1, T3, T4]];
const WIDTHS: [Width; 4] = [Width::B1, Width::B2, Width::B4, Width::B8];
const DISPS: [i32; 8] = [0, 8, -8, 0x7ff, 0x800, -0x801, i32::MAX, i32::MIN];

/// The registers that the instructions write, by the field that names them in all that have one.
fn written(code: &[u8]) -> Vec<u16> {
    let words = code
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    let reg = |word: u32| (word >> 7 & 31) as u16;
    let written = words.filter_map(|word| match word & 0x7f {
        // Loads, arithmetic, upper immediates, atomics.
        0x03 | 0x13 | 0x1b | 0x33 | 0x37 | 0x2f => Some(reg(word)),
        // Loads of and moves to floating-point registers, and moves from them.
        0x07 => Some(32 + reg(word)),
        0x53 if word >> 28 == 0xe => Some(reg(word)),
        0x53 => Some(32 + reg(word)),
        // Stores.
        0x23 | 0x27 => None,
        other => panic!("{other:#x}"),
    });
    written.filter(|reg| *reg != 0).collect()
}

fn addresses() -> Vec<Address> {
    let bases = [
        Base::Reg(S3),
        Base::Reg(SP),
        Base::Slot { reg: S0, disp: -16 },
        Base::Slot {
            reg: SP,
            disp: 0x12_3450,
        },
        Base::Absolute(0x7fff_1234_5678),
        Base::Absolute(0x10),
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

fn values() -> Vec<OpValue> {
    let imms = [0, 1, 0x7f, 0x80, 0xffff, 0x1_0000, u64::MAX, 1 << 40].map(OpValue::imm);
    let regs = [A0, S3, FA3].map(OpValue::Reg);
    let frames = DISPS.map(|disp| OpValue::Frame { reg: SP, disp });
    let mems = addresses().into_iter().map(OpValue::Mem);
    imms.into_iter().chain(regs).chain(frames).chain(mems).collect()
}

fn operations(src: OpValue, width: Width) -> Vec<(Op<'static>, Option<DwarfReg>)> {
    let mut ops = Vec::new();
    for extension in [Extension::Zero, Extension::Sign] {
        for dst in [A0, S3, FA3] {
            ops.push((
                Op::Move {
                    dst,
                    src,
                    width,
                    extension,
                },
                Some(dst),
            ));
            ops.push((
                Op::AddToReg {
                    dst,
                    src,
                    width,
                    extension,
                },
                Some(dst),
            ));
        }
    }
    for disp in [16, 0x1_0000] {
        for base in [Base::Reg(A0), Base::Slot { reg: SP, disp: 8 }] {
            let to = Address {
                base,
                disp,
                number: None,
            };
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
    }
    for mask in [0, 0xff, 0xffff, !7, 0xffff << 48, 0x00ff_00ff] {
        ops.push((
            Op::Bits {
                dst: A0,
                what: Bits::And(mask),
                number: None,
            },
            Some(A0),
        ));
    }
    for what in [Bits::Left(0), Bits::Right(63), Bits::RightSigned(5)] {
        ops.push((
            Op::Bits {
                dst: A0,
                what,
                number: None,
            },
            Some(A0),
        ));
    }
    ops
}

#[test]
fn nothing_is_written_but_the_destination_and_what_is_free() {
    let (mut emitted, mut refused) = (0, 0);
    for (value, width) in values()
        .into_iter()
        .flat_map(|value| WIDTHS.map(|width| (value, width)))
    {
        for (op, dst) in operations(value, width) {
            for free in FREE {
                let mut code = EncodedCode::new(Origin::At(CodeAddr::new(0x1000)));
                match RiscV64.emit(&op, RegSet::of(free), &mut code) {
                    Err(_) => refused += 1,
                    Ok(()) => {
                        emitted += 1;
                        let allowed = RegSet::of(free).union(dst.into_iter().collect());
                        for reg in written(&code.bytes).into_iter().map(DwarfReg::new) {
                            assert!(allowed.contains(reg), "{op:?} with {free:?} writes {reg}");
                            assert!(code.clobbers.contains(reg), "{op:?} does not tell of {reg}");
                        }
                    }
                }
            }
        }
    }
    assert!(emitted > 20_000 && refused > 1_000, "{emitted} {refused}");
}

fn emit(op: &Op<'_>, free: &[DwarfReg]) -> Result<EncodedCode, EncodingRefusal> {
    let mut code = EncodedCode::new(Origin::At(CodeAddr::new(0x1000)));
    RiscV64.emit(op, RegSet::of(free), &mut code).map(|()| code)
}

#[test]
fn comparisons_need_no_register_where_both_are_in_one() {
    let dest = Dest::Label(Label::new(0));
    let (lhs, rhs) = (OpValue::Reg(A0), OpValue::Reg(S3));
    for (width, instructions) in [(Width::B8, 0), (Width::B4, 2)] {
        let op = Op::Branch {
            cond: Cond::Less,
            lhs,
            rhs,
            width,
            dest,
        };
        let code = emit(&op, &[T0, T1]).unwrap();
        assert_eq!((code.bytes.len(), code.branches.len()), (4 * instructions, 1));
        assert_eq!(emit(&op, &[]).is_ok(), width == Width::B8);
    }
    let zero = Op::Branch {
        cond: Cond::Ne,
        lhs,
        rhs: OpValue::imm(0),
        width: Width::B8,
        dest,
    };
    assert!(emit(&zero, &[]).unwrap().bytes.is_empty());
}

#[test]
fn what_cannot_be_had_is_refused() {
    let unusable = |op: &Op<'_>| {
        assert!(
            matches!(emit(op, &[T0, T1, T3]), Err(EncodingRefusal::Unusable(_))),
            "{op:?}"
        )
    };
    let (src, width, extension) = (OpValue::imm(1), Width::B8, Extension::Zero);
    for dst in [SP, GP, DwarfReg::new(0), DwarfReg::new(64)] {
        unusable(&Op::Move {
            dst,
            src,
            width,
            extension,
        });
    }
    let to = Address {
        base: Base::Reg(A0),
        disp: 0,
        number: None,
    };
    unusable(&Op::AddToMem {
        to,
        src,
        width: Width::B2,
        atomic: true,
    });
    unusable(&Op::Raw(&[0x01]));
    unusable(&Op::Jump(Dest::Addr(CodeAddr::new(0x1001))));
    let wide = Op::Move {
        dst: A0,
        src: OpValue::imm(0x100),
        width: Width::B1,
        extension,
    };
    assert!(matches!(emit(&wide, &[]), Err(EncodingRefusal::Immediate { .. })));
    let call = emit(&Op::Call(CodeAddr::new(0x2000)), &[]).unwrap();
    assert!(call.clobbers.contains(RA));
}
