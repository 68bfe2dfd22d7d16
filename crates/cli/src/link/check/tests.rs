use std::collections::HashMap;

use patchpoint::arch::Arch;

use super::lines::find;
use super::wrong::CheckErrorKind;
use super::*;

/// Some bytes at an address, and names.
struct Fake {
    arch: Arch,
    start: u64,
    bytes: Vec<u8>,
    symbols: HashMap<&'static str, u64>,
}

impl Target for Fake {
    fn arch(&self) -> Arch {
        self.arch
    }

    fn bytes(&self, addr: u64, size: u64) -> Option<Vec<u8>> {
        let start = usize::try_from(addr.checked_sub(self.start)?).ok()?;
        self.bytes.get(start..)?.get(..size as usize).map(<[u8]>::to_vec)
    }

    fn room(&self, addr: u64) -> u64 {
        (self.start + self.bytes.len() as u64).saturating_sub(addr)
    }

    fn symbol(&self, name: &str) -> Result<u64, Unknown> {
        self.symbols
            .get(name)
            .copied()
            .ok_or(Unknown::Symbol(name.into()))
    }

    fn section(&self, file: &str, section: &str) -> Result<u64, Unknown> {
        match (file, section) {
            ("a b.o", ".text") => Ok(self.start),
            ("a b.o", "__TEXT,__text") => Ok(0x7000),
            ("a b.o", _) => Err(Unknown::Section {
                file: file.into(),
                section: section.into(),
            }),
            _ => Err(Unknown::File(file.into())),
        }
    }

    fn symbolic(&self, which: Symbolic, file: &str, symbol: &str) -> Result<u64, Unknown> {
        match (which, file, symbol) {
            (Symbolic::Stub, "a b.o", "far") => Ok(0x8000),
            (Symbolic::GotEntry, "a b.o", "far") => Ok(0x9000),
            (_, "a b.o", _) => Err(Unknown::Entry(symbol.into(), which.name())),
            _ => Err(Unknown::File(file.into())),
        }
    }
}

/// At 0x1000: `addl $0x12345678, %eax; jne .+2`, two bytes that are no instruction, and -2 in eight
/// bytes.
fn fake() -> Fake {
    let mut bytes = vec![0x05, 0x78, 0x56, 0x34, 0x12, 0x75, 0x00, 0x06, 0x06];
    bytes.extend((-2_i64).to_le_bytes());
    Fake {
        arch: Arch::X86_64,
        start: 0x1000,
        bytes,
        symbols: HashMap::from([
            ("add", 0x1000),
            ("jne", 0x1005),
            ("bad", 0x1007),
            ("data", 0x1009),
            ("_x.$:y", 5),
        ]),
    }
}

fn check(text: &str) -> Outcome {
    let all = find(&format!("# jitlink-check: {text}"), &NAMES);
    assert_eq!(all.len(), 1);
    all[0].evaluate(&fake())
}

/// The value of an expression.
fn value(text: &str) -> u64 {
    match check(&format!("{text} = 1")) {
        Outcome::Holds(value) | Outcome::Differs(value, _) => value,
        Outcome::Wrong(wrong) => panic!("{text}: {} at {}", wrong.why, wrong.at),
    }
}

fn wrong(text: &str) -> CheckError {
    match check(text) {
        Outcome::Wrong(wrong) => wrong,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn operators_group_from_the_left_and_none_comes_before_others() {
    for (text, expected) in [
        ("10 - 3 - 2", 5),
        ("1 | 6 & 4", 4),
        ("1 | (6 & 4)", 5),
        ("1 + 1 << 4", 0x20),
        ("0x100 >> 4 + 4", 0x14),
        ("0-1", u64::MAX),
        ("0xffffffffffffffff + 2", 1),
        ("1 << 64", 0),
        ("1 >> 0x100000000", 0),
        ("_x.$:y + 1", 6),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn slices_are_of_what_is_before_them() {
    for (text, expected) in [
        ("0xabcd[15:8]", 0xab),
        ("0xabcd[7:4] + 1", 0xd),
        ("(0xab00 + 0xcd)[11:4]", 0xbc),
        ("data[3:0]", 9),
        ("(0-1)[63:0]", u64::MAX),
        ("(0-1)[63:63]", 1),
        ("(*{2}add)[15:8]", 0x78),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn loads_reach_as_far_as_they_can() {
    for (text, expected) in [
        ("*{1}add", 5),
        ("*{4}add + 1", 0x1234_5678),
        ("(*{4}(add + 1)) + 1", 0x1234_5679),
        ("*{8}data", -2_i64 as u64),
        ("*{4}data[31:0]", 0xffff_fffe),
        ("*{2}section_addr(a b.o, .text) + 1", 0x5678),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
    let mut big = fake();
    big.arch = Arch::SystemZ;
    let all = find("// rtdyld-check:*{4}add + 1 = 0x78563412", &NAMES);
    assert_eq!(all[0].evaluate(&big), Outcome::Holds(0x7856_3412));
}

#[test]
fn instructions_stubs_and_entries_are_found() {
    for (text, expected) in [
        ("decode_operand(add, 0)", 0x1234_5678),
        ("decode_operand(add + 5, 1)", 5),
        ("next_pc(add)", 0x1005),
        ("next_pc( add + 5 )", 0x1007),
        ("stub_addr(a b.o, far)", 0x8000),
        ("stub_addr(a b.o,.text,far) + 1", 0x8001),
        ("stub_addr(a b.o/.text, far)", 0x8000),
        ("got_addr(a b.o, far)", 0x9000),
        ("section_addr(a b.o, .text)", 0x1000),
        ("section_addr(a b.o, __TEXT,__text) + 1", 0x7001),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn what_does_not_hold_has_both_values() {
    assert_eq!(check("add = 0x1000"), Outcome::Holds(0x1000));
    assert_eq!(check("add + 1 = 0x1000"), Outcome::Differs(0x1001, 0x1000));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, at, says) in [
        ("add", 3, "expected an operator or =, found the end"),
        (
            "add = ",
            5,
            "expected a number, a symbol, ( or *{SIZE}, found the end",
        ),
        ("add = 1 2", 8, "expected an operator or the end, found `2`"),
        ("add == 1", 5, "found `=`"),
        ("(add = 1", 5, "expected an operator or ), found `=`"),
        ("1x = 1", 0, "expected a number, decimal or with 0x, found `1x`"),
        ("0x = 1", 0, "expected a number"),
        ("0x1ffffffffffffffff = 1", 0, "more than 64 bits"),
        ("*4}add = 1", 1, "expected { and the number of bytes"),
        ("*{3}add = 1", 2, "a load of 3 bytes: give 1, 2, 4 or 8"),
        (
            "*{4}add+100 = 1",
            0,
            "4 bytes at 0x1064 are not all in what was linked",
        ),
        ("*{8}data+1 = 1", 0, "8 bytes at 0x100a are not all"),
        ("1[3:4] = 1", 2, "the bits 3 to 4: give the higher first"),
        ("1[64:0] = 1", 2, "63 at most"),
        ("1 + nothing = 1", 4, "no symbol `nothing` has an address"),
        (
            "decode_operand(add) = 1",
            18,
            "expected +, or , and the number of the operand, found `)`",
        ),
        ("decode_operand(, 1) = 1", 15, "expected a symbol, found `,`"),
        (
            "decode_operand(add, 1) = 1",
            0,
            "(05 78 56 34 12) has 1 operands, counted from 0",
        ),
        ("decode_operand(bad, 0) = 1", 0, "no instruction at 0x1007"),
        (
            "next_pc(add+17) = 1",
            0,
            "1 bytes at 0x1011 are not all in what was linked",
        ),
        (
            "next_pc(add+0x7fffffffffffffff) = 1",
            0,
            "are not all in what was linked",
        ),
        ("stub_addr(b.o, far) = 1", 0, "no file `b.o` was linked"),
        ("stub_addr(a b.o, near) = 1", 0, "`near` has no stub"),
        (
            "stub_addr(a b.o, far, thumb) = 1",
            0,
            "stubs have no kinds on this architecture: leave out `thumb`",
        ),
        ("got_addr(a b.o, far, x) = 1", 19, "expected ), found `,`"),
        ("got_addr(a b.o) = 1", 14, "expected ,, found `)`"),
        ("section_addr(a b.o, ) = 1", 20, "expected a name, found `)`"),
        (
            "section_addr(a b.o, .data) = 1",
            0,
            "`a b.o` has no section `.data`",
        ),
        ("ä = 1", 0, "found `ä`"),
    ] {
        let wrong = wrong(text);
        assert_eq!(wrong.at, at, "{text}: {}", wrong.why);
        assert!(wrong.why.to_string().contains(says), "{text}: {}", wrong.why);
    }
}

#[test]
fn a_register_has_no_value() {
    let mut fake = fake();
    // movl $7, 8(%rbx,%rcx,4)
    fake.bytes[..8].copy_from_slice(&[0xc7, 0x44, 0x8b, 0x08, 0x07, 0, 0, 0]);
    let all = find("# jitlink-check: decode_operand(add, 2) = 0", &NAMES);
    let Outcome::Wrong(wrong) = all[0].evaluate(&fake) else {
        panic!()
    };
    assert!(
        wrong
            .why
            .to_string()
            .contains("is a register: give the number of an immediate, 1 or 3 or 5")
    );
}

#[test]
fn hostile_texts_end() {
    let open = "(".repeat(100_000);
    assert_eq!(wrong(&format!("{open} = 1")).why, CheckErrorKind::TooDeep);
    assert_eq!(
        wrong(&format!("{} = 1", "*{1}".repeat(100_000))).why,
        CheckErrorKind::TooDeep
    );
    // A chain is as long as it likes.
    assert_eq!(value(&format!("0{}", "+1".repeat(100_000))), 100_000);
    let nested = format!("{}1{}", "(".repeat(63), ")".repeat(63));
    assert_eq!(value(&nested), 1);
    assert_eq!(value(&format!("{nested} + {nested}")), 2);
}

#[test]
fn checks_are_found_behind_signs_of_a_comment() {
    let text = "\
# jitlink-check: a = 1
\tcall far # jitlink-check: b = 1
  // rtdyld-check:c = \\\r
  // rtdyld-check:    1 \\
/* nothing */
jitlink-check: d = 2 \\";
    let found = find(text, &NAMES);
    let texts: Vec<_> = found.iter().map(|check| (check.line(), check.text())).collect();
    assert_eq!(texts, [(1, "a = 1"), (3, "c = 1 "), (6, "d = 2 ")]);
    let place = found[1].place(4);
    assert_eq!((place.line, place.column), (4, 23));
    let place = found[1].place(0);
    assert_eq!((place.line, place.column), (3, 19));
    assert!(find("# lines with `jitlink-check:`, my-jitlink-check: a = 1", &NAMES).is_empty());
    assert_eq!(find("; mine: a = 1", &["mine"])[0].text(), "a = 1");
    assert!(find("; mine: a = 1", &NAMES).is_empty());
}
