//! The bytes that the encoder says hold the values and the targets of a sequence.

use super::*;
use crate::hole::{Holds, Hole};

fn template(sequence: &Sequence, site: &SiteContext<'_>) -> Assembled {
    let Fit::InPlace(assembled) = assemble_template(sequence, site, &ENV).unwrap() else {
        panic!("does not fit in place");
    };
    let plain = in_place(sequence, site);
    assert_eq!((&assembled.code, plain.holes.is_none()), (&plain.code, true));
    assembled
}

fn holes(assembled: &Assembled) -> &[Hole] {
    &assembled.holes.as_ref().unwrap().holes
}

/// Every operation that has values or targets, with others of the same classes for each `n`.
fn all(n: u64) -> Sequence {
    let disp = n as i32;
    seq()
        .guard_eq(u32::at(arg(0), 8 + disp), 0x1234 + n, Target::Miss)
        .guard(
            Cond::Below,
            u16::at(arg(0), 0x234 + disp),
            0x223 + n,
            Target::Deopt,
        )
        .guard_ne(
            u64::at(arg(1), 16 + disp),
            u64::at(live(1), 0x400 + disp),
            Target::Miss,
        )
        .guard_eq(u64::at(arg(0), 24 + disp), 0x1_2345_6780 + n, Target::Deopt)
        .guard_eq(u32::of(arg(1)), 0x3333 + n, Target::End)
        .store(u8::at(arg(0), 40 + disp), 0x21 + n)
        .store(u16::at(arg(0), 42 + disp), 0x2121 + n)
        .store(u32::at(live(1), 0x300 + disp), 0x21_2121 + n)
        .store(u64::at(arg(0), 48 + disp), arg(1))
        .add_to_memory(u64::at(arg(0), 56 + disp), 0x99 + n)
        .atomic_add(u32::at(arg(0), 64 + disp), 0x77_7777 + n)
        .mov(result(), 0x9876_5432_1000 + n)
        .add(result(), 0x4_0000 + n)
        .add(result(), u64::at(arg(0), 72 + disp))
        .and(result(), 0x8000_0000 + n)
        .and(result(), 0x7654_3210_0000 + n)
        .mov(result(), 0xfff_0000 + n)
        .jump_if(
            Cond::Less,
            u64::of(result()),
            (-0x1234_5678_i64 + n as i64) as u64,
            Target::End,
        )
        .load(result(), i8::at(arg(0), -0x70 + disp))
}

#[test]
fn filled_with_the_values_of_another_sequence_the_code_is_that_of_the_other() {
    let site = any_reg(400);
    let one = all(0);
    let assembled = template(&one, &site);
    let mut seen = (0, 0);
    for n in 1..7 {
        let other = all(n);
        assert_eq!(one.outline().words(), other.outline().words());
        let mut code = assembled.code.clone();
        for hole in holes(&assembled) {
            let (at, len) = (hole.at as usize, hole.field.len as usize);
            if let Holds::Value(number) = hole.holds {
                let low = |sequence: &Sequence| {
                    sequence.outline().values()[number as usize].to_le_bytes()[..len].to_vec()
                };
                assert_eq!(assembled.code[at..at + len], low(&one), "{hole:?}");
                code[at..at + len].copy_from_slice(&low(&other));
                seen.0 += 1;
            }
        }
        assert_eq!(code, in_place(&other, &site).code);
    }
    for hole in holes(&assembled) {
        if let Holds::Target(number) = hole.holds {
            let (at, end) = (hole.at as usize, u64::from(hole.reach.from));
            let distance = i32::from_le_bytes(assembled.code[at..at + 4].try_into().unwrap());
            let to = SITE.get().wrapping_add(end).wrapping_add_signed(distance.into());
            assert_eq!(
                ENV.address(one.outline().targets()[number as usize]),
                Some(CodeAddr::new(to))
            );
            seen.1 += 1;
        }
    }
    assert_eq!(seen, (6 * one.outline().values().len(), 4));
}

/// What is computed from a value and something of the record is no hole.
#[test]
fn a_displacement_that_is_a_sum_is_no_hole() {
    let frame = site(
        CallShape::any_reg(64).args(1),
        record(7).location(direct(RBP, -32)),
    );
    let assembled = template(&seq().store(u32::at(arg(0), 8), 0x1234), &frame);
    let held: Vec<Holds> = holes(&assembled).iter().map(|hole| hole.holds).collect();
    assert_eq!(held, [Holds::Value(1)]);
}

#[test]
fn a_short_branch_and_a_far_one_have_no_hole() {
    let site = any_reg(64);
    for addr in [SITE.get() + 90, FAR.get()] {
        let target = Target::to(CodeAddr::new(addr));
        let assembled = template(&seq().jump(target), &site);
        assert_eq!(holes(&assembled), []);
    }
}
