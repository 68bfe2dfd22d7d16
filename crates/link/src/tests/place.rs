//! Sections at places of the caller's choice.

use super::build::{Section as Made, code, data, hex, object};
use super::*;
use crate::error::{Error, Result};

const BASE: u64 = 0x7000_0000_0000;
const ADDRS: SegmentAddrs = SegmentAddrs {
    code: CodeAddr::new(BASE),
    read_only: CodeAddr::new(BASE + 0x1_0000),
    data: CodeAddr::new(BASE + 0x2_0000),
};

/// Two sections of code, 16 bytes each, aligned to 8; unwind information of 8 bytes; data.
fn layout() -> Layout<'static> {
    let text = |name| Made {
        name,
        align: 8,
        ..code(hex("90909090909090909090909090909090"), Vec::new())
    };
    let frames = Made {
        name: ".eh_frame",
        flags: super::build::READ_ONLY,
        align: 4,
        bytes: vec![1; 8],
        relas: Vec::new(),
    };
    let constants = Made {
        name: ".rodata",
        bytes: vec![2; 8],
        relas: Vec::new(),
        ..frames
    };
    let sections = [text(".text.a"), text(".text.b"), frames, constants, data()];
    let bytes = object(Arch::X86_64, &sections, &[]).leak();
    Object::parse(bytes).unwrap().layout().unwrap()
}

fn id(layout: &Layout<'_>, name: &str) -> SectionId {
    let mut ids = layout.graph().section_ids();
    ids.find(|id| layout.graph().sections()[id.index()].name() == name)
        .unwrap()
}

fn linked(moves: &[(&str, u32)]) -> Result<LinkedImage> {
    let mut layout = layout();
    for (name, offset) in moves {
        let section = id(&layout, name);
        layout.place_at(section, Len::new(*offset))?;
    }
    layout.link(&ADDRS, &|_| None)
}

#[test]
fn sections_go_where_they_are_told() {
    let image = linked(&[(".text.a", 0x40), (".text.b", 0x8)]).unwrap();
    let code = &image.segments[0].bytes;
    assert_eq!(code.len(), 0x50);
    let nops: Vec<usize> = (0..code.len()).filter(|at| code[*at] == 0x90).collect();
    assert_eq!(nops, (0x8..0x18).chain(0x40..0x50).collect::<Vec<_>>());
    // What is between them traps.
    assert!(code[0x18..0x40].iter().all(|byte| *byte == 0xcc));
}

fn misplaced(section: &str, offset: u32, reason: &'static str) -> Error {
    Error::SectionMisplaced {
        section: section.into(),
        offset: Len::new(offset),
        reason,
    }
}

#[test]
fn sections_do_not_overlap() {
    let overlaps = "it overlaps the section before it";
    // The second code section is at 16.
    for (offset, wrong) in [
        (0, Some(0)),
        (8, Some(8)),
        (16, Some(16)),
        (24, Some(24)),
        (32, None),
    ] {
        let found = linked(&[(".text.a", offset)]).err();
        let Some(offset) = wrong else {
            assert_eq!(found, None);
            continue;
        };
        if offset == 0 {
            assert_eq!(found, None, "it is where it was");
        } else if offset <= 16 {
            assert_eq!(found, Some(misplaced(".text.b", 16, overlaps)));
        } else {
            assert_eq!(found, Some(misplaced(".text.a", offset, overlaps)));
        }
    }
    // Nor with the zero that ends unwind information.
    assert_eq!(
        linked(&[(".eh_frame", 0x20), (".rodata", 0x28)]).err(),
        Some(misplaced(".rodata", 0x28, overlaps))
    );
    assert!(linked(&[(".eh_frame", 0x20), (".rodata", 0x2c)]).is_ok());
    // Other segments are at other addresses.
    assert!(linked(&[(".data", 8)]).is_ok());
}

#[test]
fn places_that_are_none_are_refused() {
    assert_eq!(
        linked(&[(".text.a", 0x44)]).unwrap_err(),
        misplaced(".text.a", 0x44, "the offset is not a multiple of its alignment")
    );
    assert_eq!(
        linked(&[(".text.a", 0xffff_fff8)]).unwrap_err(),
        misplaced(
            ".text.a",
            0xffff_fff8,
            "its end is more than 1 GiB from the segment's start"
        )
    );
    assert_eq!(
        linked(&[(".symtab", 0)]).unwrap_err(),
        misplaced(".symtab", 0, "it has no place in a segment")
    );
    let mut layout = layout();
    let nobody = SectionId(1000);
    assert!(layout.place_at(nobody, Len::new(0)).is_err());
}

#[test]
fn a_role_says_which_segment_a_section_is_in() {
    let mut graph = layout().graph;
    let constants = graph
        .section_ids()
        .find(|id| graph.sections()[id.index()].name() == ".rodata");
    graph
        .section_mut(constants.unwrap())
        .unwrap()
        .set_role(SectionRole::Data);
    let layout = graph.layout().unwrap();
    let addr = layout.section_addr(constants.unwrap().index(), &ADDRS).unwrap();
    assert!(addr.is_within(ADDRS.data, layout.segments()[2].size));
}

/// A gigabyte of zeros that is in no file, less 2 MiB, and a byte of data behind it in the file.
fn zeros() -> Vec<u8> {
    let zeros = Made {
        name: ".bss",
        bytes: vec![0],
        ..data()
    };
    let named = |section, size| build::Symbol {
        name: if section == 1 { "zeros" } else { "data" },
        section,
        size,
        ..build::OUTSIDE
    };
    let mut bytes = object(
        Arch::X86_64,
        &[zeros, data(), code(hex("c3"), Vec::new())],
        &[named(1, 0), named(2, 1)],
    );
    // Its header: of type SHT_NOBITS, of that size.
    let headers = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize;
    let header = &mut bytes[headers + 64..headers + 128];
    header[4..8].copy_from_slice(&8_u32.to_le_bytes());
    header[32..40].copy_from_slice(&ZEROS.to_le_bytes());
    bytes
}

const ZEROS: u64 = (1 << 30) - (2 << 20);

/// What is in no file is left to the memory, which is new: nothing of that size is made.
#[test]
fn zeros_that_are_in_no_file_are_not_made() {
    let bytes = zeros();
    let mut graph = Graph::new("it.o", Object::parse(&bytes).unwrap());
    graph.set_size_limit(u64::MAX);
    assert_eq!(graph.size_limit(), 1 << 30);
    let layout = graph.layout().unwrap();
    let linked = layout.link(&ADDRS, &|_| None).unwrap();
    let data = &linked.segments[1];
    assert_eq!(data.kind, SegmentKind::Data);
    // The data in the file, though it comes behind the zeros there, and what aligns those.
    assert!(data.bytes.capacity() <= 16, "{}", data.bytes.capacity());
    assert!(u64::from(data.size.get()) > ZEROS);
    assert_eq!(linked.symbol("data"), Some(ADDRS.data));
    let zeros = linked.symbol("zeros").unwrap();
    assert_eq!(data.read(zeros, 4), Some(vec![0; 4]));
    let last = CodeAddr::new(ADDRS.data.get() + u64::from(data.size.get()) - 1);
    assert_eq!(data.read(last, 1), Some(vec![0]));
    assert_eq!(data.read(last, 2), None);
}

/// The limit is the caller's; what needs more is told it, its need, and how to raise it.
#[test]
fn an_image_beyond_its_limit_is_refused() {
    let bytes = zeros();
    let layout = |limit: Option<u64>| {
        let mut graph = Graph::new("it.o", Object::parse(&bytes).unwrap());
        limit.into_iter().for_each(|limit| graph.set_size_limit(limit));
        graph.layout().map(|_| ())
    };
    let error = layout(None).unwrap_err();
    assert!(
        matches!(error, Error::ImageTooLarge { size, limit } if size > ZEROS && limit == 256 << 20),
        "{error}"
    );
    let said = error.to_string();
    assert!(
        said.contains("268435456: raise it (EngineBuilder::image_limit"),
        "{said}"
    );
    assert_eq!(layout(Some(ZEROS + (1 << 20))), Ok(()));
    // Data, code and zeros are each below the limit, and together above.
    let error = layout(Some(ZEROS + 1)).unwrap_err();
    assert!(matches!(error, Error::ImageTooLarge { .. }), "{error}");
    let error = layout(Some(1 << 30));
    assert_eq!(error, Ok(()));
}

/// Code and tables have their bytes in the file.
#[test]
fn code_of_zeros_that_are_in_no_file_is_refused() {
    let mut bytes = zeros();
    let headers = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize;
    bytes[headers + 64 + 8..headers + 64 + 16].copy_from_slice(&build::CODE.to_le_bytes());
    let error = Object::parse(&bytes).unwrap_err();
    assert!(matches!(error, Error::SectionRefused { .. }), "{error}");
}
