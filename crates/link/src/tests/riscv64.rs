//! Relocations in pairs, differences, and alignment by taking nops away.

use super::build::{OUTSIDE, READ_ONLY, Section as Made, Symbol, code, hex, object};
use super::*;

const BASE: u64 = 0x7000_0000_0000;
const ADDRS: SegmentAddrs = SegmentAddrs {
    code: CodeAddr::new(BASE),
    read_only: CodeAddr::new(BASE + 0x10_0000),
    data: CodeAddr::new(BASE + 0x20_0000),
};
const GOT_HI20: u32 = 20;
const PCREL_HI20: u32 = 23;
const LO12_I: u32 = 24;
const LO12_S: u32 = 25;
const ALIGN: u32 = 43;

fn link(sections: &[Made], symbols: &[Symbol], outside: u64) -> crate::error::Result<LinkedImage> {
    let bytes = object(Arch::RiscV64, sections, symbols);
    Object::parse(&bytes)?
        .layout()?
        .link(&ADDRS, &|_| Some(CodeAddr::new(outside)))
}

fn label(value: u64) -> Symbol {
    Symbol {
        name: "label",
        section: 1,
        value,
        ..OUTSIDE
    }
}

/// The lower half belongs to the distance from the upper half's place, not from its own; several
/// may share one.
#[test]
fn the_lower_half_of_a_distance_is_that_of_its_upper_half() {
    let mut text = hex("130000009702000013830200");
    text.extend(hex("23b06200"));
    let relas = vec![(4, PCREL_HI20, 1, 4), (8, LO12_I, 2, 0), (12, LO12_S, 2, 0)];
    let linked = link(
        &[code(text.clone(), relas)],
        &[OUTSIDE, label(4)],
        BASE + 0x1234_5800,
    )
    .unwrap();
    // The distance is 0x12345800: auipc 0x12346; addi -0x800; sd -0x800.
    assert_eq!(linked.segments[0].bytes[4..16], hex("976234121383028023b06280"));
    // Through the table: the upper half's distance is that of the entry.
    let relas = vec![(4, GOT_HI20, 1, 0), (8, LO12_I, 2, 0)];
    let linked = link(&[code(text, relas)], &[OUTSIDE, label(4)], 77).unwrap();
    assert_eq!(linked.segments[0].bytes[4..12], hex("970210001383c2ff"));
    assert_eq!(linked.segments[1].bytes, 77_u64.to_le_bytes());
}

#[test]
fn a_half_without_its_other_half_is_refused() {
    let cases = [
        // No upper half at the label; an addend; a label outside; differences of variable length.
        vec![(8, PCREL_HI20, 1, 0), (4, LO12_I, 2, 0)],
        vec![(0, PCREL_HI20, 1, 0), (4, LO12_I, 2, 4)],
        vec![(0, PCREL_HI20, 1, 0), (4, LO12_I, 1, 0)],
        vec![(0, 60, 1, 0)],
        vec![(0, 61, 1, 0)],
        vec![(0, 60, 1, 0), (1, 61, 1, 0)],
        vec![(0, 61, 1, 0), (0, 60, 1, 0)],
    ];
    for relas in cases {
        let error = link(&[code(vec![0; 12], relas.clone())], &[OUTSIDE, label(0)], 0).unwrap_err();
        assert!(
            error.to_string().contains("has no other half"),
            "{relas:?} {error}"
        );
    }
}

fn table(bytes: Vec<u8>, relas: Vec<super::build::Rela>) -> Made {
    Made {
        name: ".rodata",
        flags: READ_ONLY,
        align: 8,
        bytes,
        relas,
    }
}

/// ADD and SUB count from what is there; SET replaces it; 6 bits leave the other two.
#[test]
fn differences() {
    let symbols = [
        Symbol {
            value: 0x30,
            ..label(0)
        },
        Symbol {
            value: 0x0c,
            ..label(0)
        },
    ];
    let cases = [
        (vec![(0, 33, 1, 0), (0, 37, 2, 0)], "05", "29"),
        (vec![(0, 34, 1, 0), (0, 38, 2, 0)], "0500", "2900"),
        (vec![(0, 35, 1, 0), (0, 39, 2, 0)], "05000000", "29000000"),
        (
            vec![(0, 36, 1, 2), (0, 40, 2, 0)],
            "0500000000000000",
            "2b00000000000000",
        ),
        (vec![(0, 53, 1, 0), (0, 52, 2, 0)], "7f", "64"),
        (vec![(0, 54, 1, 0), (0, 37, 2, 0)], "7f", "24"),
        (vec![(0, 55, 1, 0), (0, 38, 2, 0)], "7f7f", "2400"),
        (vec![(0, 56, 1, 0), (0, 39, 2, 0)], "7f7f7f7f", "24000000"),
        // A number of variable length keeps its length.
        (vec![(0, 60, 1, 0), (0, 61, 2, 0)], "807f", "a400"),
        (vec![(0, 60, 1, 0), (0, 61, 2, 0)], "00", "24"),
        (vec![(0, 60, 1, 0x5b), (0, 61, 2, 0)], "00", "7f"),
    ];
    for (relas, before, after) in cases {
        let sections = [code(vec![0; 0x40], vec![]), table(hex(before), relas.clone())];
        let linked = link(&sections, &symbols, 0).unwrap();
        assert_eq!(
            linked.segments[1].bytes[..before.len() / 2],
            hex(after),
            "{relas:?}"
        );
    }
    // One more than its bits hold.
    let relas = vec![(0, 60, 1, 0x5c), (0, 61, 2, 0)];
    let error = link(
        &[code(vec![0; 0x40], vec![]), table(hex("00"), relas)],
        &symbols,
        0,
    )
    .unwrap_err();
    assert!(
        matches!(
            error,
            Error::RelocationOutOfReach {
                value: 0x80,
                bits: 7,
                ..
            }
        ),
        "{error}"
    );
    // No end within the section.
    let relas = vec![(0, 60, 1, 0), (0, 61, 2, 0)];
    assert!(
        link(
            &[code(vec![0; 0x40], vec![]), table(hex("80"), relas)],
            &symbols,
            0
        )
        .is_err()
    );
}

/// Nops that are not needed go, and all that is behind them moves: instructions, relocations,
/// symbols, sizes, and the differences in other sections.
#[test]
fn alignment_takes_away_what_is_not_needed() {
    // c.nop; 14 bytes of room; ret; 6 bytes of room; ret
    let mut text = hex("0100");
    text.extend([0xaa; 14]);
    text.extend(hex("82800000"));
    text.extend([0xaa; 6]);
    text.extend(hex("8280"));
    let mut section = code(text, vec![(2, ALIGN, 0, 14), (20, ALIGN, 0, 6), (20, 51, 0, 0)]);
    section.align = 16;
    let symbol = |name, value, size| Symbol {
        name,
        section: 1,
        value,
        size,
        kind: 2,
        other: 0,
    };
    let symbols = [
        OUTSIDE,
        symbol("first", 0, 16),
        symbol("second", 16, 4),
        symbol("third", 26, 2),
    ];
    let maps = table(vec![0; 4], vec![(0, 35, 4, 0), (0, 39, 3, 0)]);
    let linked = link(&[section, maps], &symbols, 0).unwrap();
    let found: Vec<_> = linked
        .image
        .functions
        .iter()
        .map(|f| (&f.name[..], f.addr.get() - BASE, f.len.get()))
        .collect();
    // The first needs all 14 bytes; the second only 4 of 6, from offset 20 to 24.
    assert_eq!(found, [("first", 0, 16), ("second", 16, 4), ("third", 24, 2)]);
    let bytes = &linked.segments[0].bytes;
    assert_eq!(bytes.len(), 26);
    assert_eq!(bytes[20..26], hex("130000008280"));
    assert_eq!(linked.segments[1].bytes[..4], 8_u32.to_le_bytes());
}

#[test]
fn alignment_that_cannot_be_is_refused() {
    let cases = [
        // More than the section's own alignment; odd; behind the end; overlapping.
        vec![(0, ALIGN, 0, 14)],
        vec![(0, ALIGN, 0, 3)],
        vec![(0, ALIGN, 0, -2)],
        vec![(14, ALIGN, 0, 6)],
        vec![(2, ALIGN, 0, 6), (4, ALIGN, 0, 6)],
        vec![(1, ALIGN, 0, 6)],
    ];
    for relas in cases {
        let mut section = code(vec![0; 16], relas.clone());
        section.align = 8;
        let error = link(&[section], &[], 0).unwrap_err();
        assert!(error.to_string().contains("R_RISCV_ALIGN"), "{relas:?} {error}");
    }
}
