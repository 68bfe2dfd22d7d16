use alloc::string::ToString;

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::OnReturn;

use crate::error::Error;
use crate::op::{Cond, Label};
use crate::sequence::{
    Field, Sequence, Target, arg, float_arg, float_result, live, location, reg, result, temp,
};

/// Every statement and every kind of operand, in the order in which they are written.
fn everything() -> (Sequence, &'static str) {
    let here = CodeAddr::new(0x1234);
    let sequence = Sequence::new()
        .guard_eq(u32::at(arg(0), 8), 0x17, Target::Miss)
        .guard(Cond::Less, i16::of(live(1)), -5, Target::Deopt)
        .jump_if(Cond::AboveOrEqual, location(2), u64::MAX, Label::new(1))
        .jump_if(Cond::Ne, temp(), reg(DwarfReg::new(5)), Target::End)
        .jump_if(Cond::Eq, 1u64, 2u64, Target::to(here))
        .load(result(), i64::at(arg(0), -24))
        .mov(float_result(), float_arg(3))
        .store(u8::at(here, 0), 9)
        .add(temp(), u16::of(arg(1)))
        .and(temp(), 0xff)
        .shift_left(temp(), 3)
        .shift_right(temp(), 63)
        .shift_right_signed(temp(), 0)
        .bind(Label::new(1))
        .count(here)
        .atomic_count(here)
        .call_to(here, OnReturn::FollowsC)
        .call_to(here, OnReturn::PreservesAll)
        .call_to(here, OnReturn::Never)
        .raw(&[0x0f, 0x1f, 0])
        .raw(&[])
        .vouched_for(&[0x0f, 5], &[DwarfReg::new(0), DwarfReg::new(11)])
        .vouched_for(&[0x90], &[])
        .jump(Target::Miss)
        .ret()
        .trap()
        .in_place_only();
    let text = "in_place_only; guard u32[arg(0)+8] == 0x17 else miss; guard i16(live(1)) <s -5 else deopt; \
                if location(2) >=u -1 goto label(1); if temp != reg(5) goto end; if 1 == 2 goto 0x1234; \
                result = i64[arg(0)-24]; float_result = float_arg(3); u8[0x1234] = 9; temp += u16(arg(1)); \
                temp &= 0xff; temp <<= 3; temp >>u= 63; temp >>s= 0; label(1):; u64[0x1234] += 1; \
                atomic u64[0x1234] += 1; call 0x1234 follows_c; call 0x1234 preserves_all; call 0x1234 never; \
                raw 0f 1f 00; raw; vouched 0f 05 writes reg(0) reg(11); vouched 90; goto miss; return; trap";
    (sequence, text)
}

#[test]
fn every_statement_is_written_and_read() {
    let (sequence, text) = everything();
    assert_eq!(sequence.to_string(), text);
    assert_eq!(Sequence::from_any_text(text).unwrap(), sequence);
    let lines = alloc::format!("{sequence:#}");
    assert_eq!(lines.lines().count(), 27);
    assert_eq!(Sequence::from_any_text(&lines).unwrap(), sequence);
    assert_eq!(Sequence::new().to_string(), "");
    assert_eq!("".parse::<Sequence>().unwrap(), Sequence::new());
}

#[test]
fn there_is_more_than_one_way_to_type_it() {
    let (sequence, text) = everything();
    for typed in [
        text.replace(' ', "  "),
        text.replace("; ", "\n\n"),
        alloc::format!(" ;\n{text};; \n"),
        text.replace("raw 0f 1f 00", "raw 0F1f00")
            .replace("0x1234", "0x12_34"),
        text.replace("guard u32[arg(0)+8] == 0x17 else", "if u32[arg(0)+8] != 23 goto"),
        text.replace("u32[arg(0)+8] == 0x17", "u32[ arg( 0 ) + 0x8 ]==0x17"),
        text.replace("-1 ", "0xffffffffffffffff "),
    ] {
        assert_eq!(Sequence::from_any_text(&typed).unwrap(), sequence, "{typed}");
    }
}

#[test]
fn what_is_no_sequence_is_refused_with_its_place() {
    for (text, place, found, expected) in [
        ("wibble", (1, 1), "`wibble`", "a statement: guard"),
        ("+", (1, 1), "`+`", "a statement: guard"),
        ("trap; guard", (1, 12), "the end", "a value: "),
        ("guard arg(0) < 1 else miss", (1, 14), "`<`", "a comparison: "),
        ("guard rax == 1 else miss", (1, 7), "`rax`", "a value: an operand"),
        ("guard arg(0) == 1 miss", (1, 19), "`miss`", "else and"),
        ("guard arg(0) == 1 else rampe", (1, 24), "`rampe`", "a target: "),
        ("if arg(0) == 1 else miss", (1, 16), "`else`", "goto and"),
        ("if arg == 1 goto end", (1, 8), "`=`", "`(` and a number"),
        ("if arg(-1) == 1 goto end", (1, 8), "`-`", "a number from 0"),
        (
            "result = arg(4294967296)",
            (1, 14),
            "`4294967296`",
            "a number from 0",
        ),
        ("result = u32", (1, 13), "the end", "`[` and an address"),
        ("result = u32[arg(0)", (1, 20), "the end", "`]`, or"),
        (
            "result = u32[arg(0)+2147483648]",
            (1, 21),
            "`2147483648`",
            "a displacement of less",
        ),
        ("result = u33[arg(0)]", (1, 10), "`u33`", "a value: "),
        ("result = 1\n  temp := 2", (2, 8), "`:`", "= or +="),
        (
            "result = 1\ntemp = \ntrap",
            (2, 8),
            "the end of the line",
            "a value: ",
        ),
        ("u32(arg(0)) = 1", (1, 1), "`u32`", "a whole operand"),
        ("result == 1", (1, 8), "`=`", "= or +="),
        ("u32[arg(0)] == 1", (1, 13), "`=`", "= or +="),
        ("u32[arg(0)] &= 1", (1, 13), "`&`", "= or +="),
        ("atomic temp += 1", (1, 13), "`+`", "memory behind atomic"),
        ("atomic u32[temp] = 1", (1, 18), "`=`", "+=: only"),
        ("temp <<= 300", (1, 10), "`300`", "a number of bits"),
        ("call 0x10", (1, 10), "the end", "what the called code does"),
        ("call miss follows_c", (1, 6), "`miss`", "an address"),
        ("label(1)", (1, 9), "the end", "`:` behind"),
        ("raw 9", (1, 5), "`9`", "bytes of two"),
        ("raw +9", (1, 5), "`+`", "`;` or the end"),
        ("raw é0", (1, 5), "`é0`", "bytes of two"),
        (
            "vouched 90 writes rax",
            (1, 19),
            "`rax`",
            "a register by its DWARF",
        ),
        (
            "vouched 90 writes reg(128)",
            (1, 19),
            "`reg`",
            "a register by a DWARF",
        ),
        (
            "temp = reg(65536)",
            (1, 18),
            "the end",
            "a DWARF number of at most",
        ),
        ("trap trap", (1, 6), "`trap`", "`;` or the end"),
        (
            "temp = 18446744073709551616",
            (1, 8),
            "`18446744073709551616`",
            "a value: ",
        ),
        ("temp = -9223372036854775809", (1, 8), "`-`", "a value: "),
    ] {
        match Sequence::from_any_text(text) {
            Err(Error::SequenceText {
                line,
                column,
                found: f,
                expected: e,
            }) => {
                assert_eq!(((line, column), f.as_str()), (place, found), "{text}: {e}");
                assert!(e.starts_with(expected), "{text}: {e}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    let said = "guard arg(0) < 1".parse::<Sequence>().unwrap_err().to_string();
    let expected = "line 1, column 14 of the sequence: found `<`, expected a comparison: ==, !=, unsigned <u <=u >u >=u or \
                    signed <s <=s >s >=s";
    assert_eq!(said, expected);
}

#[test]
fn promises_are_read_only_by_who_gives_them() {
    let promise = "no call, no address as a target and no vouched bytes";
    for (text, column, found) in [
        ("call 0x10 follows_c", 1, "`call`"),
        ("trap; vouched 90", 7, "`vouched`"),
        ("goto 0x1234", 6, "`0x1234`"),
        ("guard arg(0) == 1 else 0x1234", 24, "`0x1234`"),
        ("if arg(0) == 1 goto 0x1234", 21, "`0x1234`"),
    ] {
        match text.parse::<Sequence>() {
            Err(Error::SequenceText {
                line: 1,
                column: at,
                found: what,
                expected,
            }) => {
                assert_eq!((at, what.as_str()), (column, found), "{text}");
                assert!(expected.starts_with(promise), "{text}: {expected}");
            }
            other => panic!("{text}: {other:?}"),
        }
        let sequence = Sequence::from_any_text(text).unwrap();
        assert_eq!(Sequence::from_any_text(&sequence.to_string()), Ok(sequence));
    }
    for text in [
        "goto deopt",
        "raw 90",
        "u64[0x1000] += 1",
        "guard arg(0) == 0x1234 else miss",
    ] {
        assert_eq!(text.parse::<Sequence>(), Sequence::from_any_text(text));
        assert!(text.parse::<Sequence>().is_ok(), "{text}");
    }
}

#[test]
fn no_text_makes_it_panic() {
    let (_, text) = everything();
    for from in 0..text.len() {
        for len in [1, 2, 7, 40] {
            let end = text.len().min(from + len);
            let _ = Sequence::from_any_text(&text[from..end]);
            let mut cut = alloc::string::String::from(&text[..from]);
            cut.push_str(&text[end..]);
            let _ = Sequence::from_any_text(&cut);
            cut.insert(from, 'é');
            let _ = Sequence::from_any_text(&cut);
        }
    }
}
