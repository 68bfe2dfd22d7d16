use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, Len};
use llvm_stackmaps::{Endian, StackMaps};
use patchpoint_isa::Arch;

use super::*;
use crate::error::Error;

mod bounds;
mod branches;
pub(super) mod build;
mod comdat;
mod damage;
mod fields;
mod formats;
mod harness;
mod init;
mod merge;
mod passes;
mod place;
mod powerpc64;
mod prune;
mod relax;
mod riscv64;
mod session;
mod tables;

/// The object of the example: two functions, three records.
const OBJECT: &[u8] = include_bytes!("../../../../examples/objects/inline_cache.o");
const BASE: CodeAddr = CodeAddr::new(0x7f00_0000_0000);
const PAGE: Len = Len::new(4096);

/// The fuzz target's body, without another reader of what was linked.
fn fuzz_body(bytes: &[u8]) {
    crate::fuzzing::image(bytes, |_| {});
}

fn linked() -> LinkedImage {
    let layout = Object::parse(OBJECT).unwrap().layout().unwrap();
    let (addrs, _) = layout.contiguous(BASE, PAGE).unwrap();
    layout.link(&addrs, &|_| None).unwrap()
}

#[test]
fn segments_are_on_pages_of_their_own() {
    let layout = Object::parse(OBJECT).unwrap().layout().unwrap();
    let (addrs, size) = layout.contiguous(BASE, PAGE).unwrap();
    assert_eq!(
        (addrs.code, addrs.read_only),
        (BASE, CodeAddr::new(BASE.get() + 0x1000))
    );
    assert_eq!(size, 0x2000, "no data");
    let [code, read_only, data] = layout.segments();
    assert!(code.size.get() > 0 && read_only.size.get() > 0 && data.size.get() == 0);
    assert_eq!(code.align, Len::new(16));
    assert_eq!(layout.contiguous(CodeAddr::new(BASE.get() + 16), PAGE), None);
    assert_eq!(layout.contiguous(CodeAddr::new(u64::MAX - 0xfff), PAGE), None);
    assert_eq!(layout.contiguous(BASE, Len::new(3000)), None);
}

#[test]
fn functions_maps_and_unwind_information() {
    let LinkedImage { image, segments, .. } = linked();
    let names: Vec<_> = image
        .functions
        .iter()
        .map(|function| function.name.as_str())
        .collect();
    assert_eq!(names, ["get", "sum_fields"]);
    let sum_fields = &image.functions[1];
    assert_eq!(image.function_at(sum_fields.addr), Some(sum_fields));
    let last = CodeAddr::new(sum_fields.addr.get() + u64::from(sum_fields.len.get()) - 1);
    assert_eq!(image.function_at(last), Some(sum_fields));
    assert_eq!(image.function_at(CodeAddr::new(last.get() + 1)), None);
    assert_eq!(image.function_at(CodeAddr::new(BASE.get() - 1)), None);

    let maps = StackMaps::parse(&image.stack_maps, image.endian).unwrap();
    let addresses = maps.maps()[0]
        .functions()
        .map(|function| CodeAddr::new(function.address()));
    assert!(addresses.eq(image.functions.iter().map(|function| function.addr)));

    // The unwind information that is kept is what lies in the segment.
    let [frame] = &image.eh_frames[..] else {
        panic!("{:?}", image.eh_frames)
    };
    let segment = segments
        .iter()
        .find(|segment| segment.kind == SegmentKind::ReadOnly)
        .unwrap();
    let start = (frame.addr.get() - segment.addr.get()) as usize;
    assert_eq!(segment.bytes[start..start + frame.bytes.len()], frame.bytes);
    assert_eq!(segment.bytes[start + frame.bytes.len()..][..4], [0; 4]);
}

#[test]
fn every_truncation_is_an_error_or_loads() {
    assert!(Object::parse(OBJECT).is_ok());
    for len in 0..OBJECT.len() {
        fuzz_body(&OBJECT[..len]);
        if len < 64 {
            assert!(Object::parse(&OBJECT[..len]).is_err());
        }
    }
}

#[test]
fn no_flipped_bit_panics() {
    let mut loaded = 0;
    let mut bytes = OBJECT.to_vec();
    for index in 0..bytes.len() {
        for mask in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
            bytes[index] ^= mask;
            fuzz_body(&bytes);
            loaded += u32::from(Object::parse(&bytes).is_ok());
            bytes[index] ^= mask;
        }
    }
    // Most damage is in bytes that parsing need not understand: the mutations do get past the
    // header.
    assert!(loaded > 5000, "{loaded}");
}

/// Pairs of bytes replaced at random by what numbers are made of: 0, 1, extremes.
#[test]
fn no_random_damage_panics() {
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let mut bytes = OBJECT.to_vec();
        for _ in 0..1 + next() % 6 {
            let at = next() as usize % bytes.len();
            bytes[at] = [0, 1, 0x7f, 0x80, 0xff, next() as u8][next() as usize % 6];
        }
        fuzz_body(&bytes);
    }
}

/// Callers that treat kinds of errors alike find each where its sentence says what is wrong.
#[test]
fn errors_have_their_kinds() {
    let refused = |bytes: &[u8]| Object::parse(bytes).unwrap_err().kind();
    assert_eq!(refused(b"no object"), ErrorKind::Unsupported);
    assert_eq!(refused(&OBJECT[..100]), ErrorKind::Malformed);
    let graph = || Graph::new("it", Object::parse(OBJECT).unwrap());
    let root = graph().prune(["nobody"]).unwrap_err();
    assert_eq!(root.kind(), ErrorKind::NotFound);
    let twice = graph().add("again", Object::parse(OBJECT).unwrap()).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Refused);
    let mut small = graph();
    small.set_size_limit(100);
    let large = small.layout().unwrap_err();
    assert_eq!(large.kind(), ErrorKind::Refused);
    let said = large.to_string();
    assert!(
        said.contains("EngineBuilder::image_limit of an engine")
            && said.contains("Graph::set_size_limit without one"),
        "{said}"
    );
    let waits = at_once::<(), Error>(core::future::pending()).unwrap_err();
    assert_eq!(waits.kind(), ErrorKind::Busy);
}

#[test]
fn what_is_no_object_is_named() {
    let cases: [(&[u8], &str); 3] = [
        (
            b"",
            "cannot load bytes that start neither as ELF nor as Mach-O nor as COFF",
        ),
        (
            b"\x7fELF\x01\x01\x01",
            "cannot load an ELF file that is not 64-bit",
        ),
        (b"\x7fELF\x02\x01\x01", "malformed object: the file header: "),
    ];
    for (bytes, expected) in cases {
        let error = Object::parse(bytes).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let mut other = OBJECT.to_vec();
    other[18] = 40;
    let error = Object::parse(&other).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot load an ELF file for machine 40, little-endian"),
        "{error}"
    );
    let mut other = OBJECT.to_vec();
    other[16] = 3;
    let error = Object::parse(&other).unwrap_err().to_string();
    assert!(error.starts_with("cannot load an ELF file of type 3"), "{error}");
}

/// Where in the file the header of a section is, and its bytes.
fn section(name: &[u8]) -> (usize, usize) {
    use object::LittleEndian as LE;
    use object::read::elf::{FileHeader, SectionHeader};
    let header = object::elf::FileHeader64::<LE>::parse(OBJECT).unwrap();
    let sections = header.sections(LE, OBJECT).unwrap();
    let (index, section) = sections.section_by_name(LE, name).unwrap();
    let headers = header.e_shoff.get(LE) as usize;
    (headers + index.0 * 64, section.sh_offset(LE) as usize)
}

/// Where the header leaves it to section 0 which one has the names, that one says so.
#[test]
fn the_names_of_sections_are_in_one_of_them() {
    let mut damaged = OBJECT.to_vec();
    let number = std::mem::replace(&mut damaged[62], 0xff);
    damaged[63] = 0xff;
    let first = u64::from_le_bytes(damaged[40..48].try_into().unwrap()) as usize;
    // As many bytes as names could be in.
    damaged[first + 32..first + 36].copy_from_slice(&(OBJECT.len() as u32).to_le_bytes());
    let error = Object::parse(&damaged).unwrap_err().to_string();
    assert!(
        error.starts_with("malformed object: the section table"),
        "{error}"
    );
    damaged[first + 40] = number;
    assert!(Object::parse(&damaged).is_ok());
}

#[test]
fn damaged_relocations_are_named_with_their_place() {
    let (_, at) = section(b".rela.llvm_stackmaps");
    let with = |offset: usize, bytes: &[u8]| {
        let mut damaged = OBJECT.to_vec();
        damaged[at + offset..at + offset + bytes.len()].copy_from_slice(bytes);
        Object::parse(&damaged).unwrap_err()
    };
    let size = linked().image.stack_maps.len() as u64;
    for offset in [size - 7, size, u64::MAX - 3] {
        let expected = Error::RelocationOutsideSection {
            relocation: "R_X86_64_64",
            section: ".llvm_stackmaps".into(),
            offset: llvm_stackmaps::addr::ByteOffset::new(offset),
            size,
        };
        assert_eq!(with(0, &offset.to_le_bytes()), expected);
    }
    let error = with(8, &200_u32.to_le_bytes()).to_string();
    assert!(
        error.starts_with("relocation type 200 at .llvm_stackmaps+0x10 cannot be applied"),
        "{error}"
    );
    let error = with(12, &9999_u32.to_le_bytes()).to_string();
    assert!(
        error.contains("symbol 9999 of .llvm_stackmaps at 0x10 is not there"),
        "{error}"
    );
}

#[test]
fn the_bytes_of_an_object_may_have_any_alignment() {
    let mut shifted = vec![0; 8];
    shifted.extend_from_slice(OBJECT);
    for shift in 0..8 {
        let bytes = &mut shifted[shift..shift + OBJECT.len()];
        bytes.copy_from_slice(OBJECT);
        assert!(Object::parse(bytes).is_ok(), "{shift}");
    }
}

/// Headers may claim the same bytes many times over: what comes of it stays in proportion to the
/// file.
#[test]
fn sections_that_share_bytes_do_not_multiply() {
    let (header, _) = section(b".rela.eh_frame");
    let mut damaged = OBJECT.to_vec();
    damaged[header + 24..header + 32].fill(0);
    let all = OBJECT.len() as u64 / 24 * 24;
    damaged[header + 32..header + 40].copy_from_slice(&all.to_le_bytes());
    let error = Object::parse(&damaged).unwrap_err().to_string();
    assert!(error.contains("more than the file has room for"), "{error}");

    // A table of symbols that all have the same long name.
    let (header, strings) = section(b".strtab");
    let mut damaged = OBJECT.to_vec();
    damaged.resize(40_000, b'x');
    damaged.push(0);
    let at = damaged.len();
    for _ in 0..100 {
        let mut symbol = [0_u8; 24];
        symbol[..4].copy_from_slice(&(OBJECT.len() as u32 - strings as u32).to_le_bytes());
        damaged.extend_from_slice(&symbol);
    }
    let size = (damaged.len() - strings) as u64;
    damaged[header + 32..header + 40].copy_from_slice(&size.to_le_bytes());
    let (header, _) = section(b".symtab");
    damaged[header + 24..header + 32].copy_from_slice(&(at as u64).to_le_bytes());
    damaged[header + 32..header + 40].copy_from_slice(&2400_u64.to_le_bytes());
    let error = Object::parse(&damaged).unwrap_err().to_string();
    assert!(error.contains("malformed object: names"), "{error}");
}

/// The unwind information is relocated: an independent reader finds each function at its address.
#[test]
fn unwind_information_describes_the_functions() {
    use gimli::UnwindSection;
    let image = linked().image;
    let [frame] = &image.eh_frames[..] else {
        panic!("{:?}", image.eh_frames)
    };
    let section = gimli::EhFrame::new(&frame.bytes, gimli::LittleEndian);
    let bases = gimli::BaseAddresses::default().set_eh_frame(frame.addr.get());
    let mut entries = section.entries(&bases);
    let mut found = Vec::new();
    while let Some(entry) = entries.next().unwrap() {
        if let gimli::CieOrFde::Fde(partial) = entry {
            let fde = partial.parse(gimli::EhFrame::cie_from_offset).unwrap();
            found.push((CodeAddr::new(fde.initial_address()), fde.len()));
        }
    }
    let functions = image.functions.iter().map(|f| (f.addr, u64::from(f.len.get())));
    assert!(functions.eq(found));
}
