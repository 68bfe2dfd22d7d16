//! Mach-O objects of clang, llc and llvm-mc 19 for x86-64 and arm64: every relocation, against
//! llvm-jitlink 19 byte for byte.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::BTreeSet;

#[path = "formats/mod.rs"]
mod formats;

use formats::{Folder, objects};
use patchpoint::addr::CodeAddr;
use patchpoint::deopt::UnwindInfo;
use patchpoint::image::{LinkedImage, Object, SegmentAddrs};

const FOLDERS: [Folder; 2] = [
    Folder {
        path: "macho/x86_64",
        bytes_at_least: 8_000,
        fields_at_least: 300,
        without: &["pairs.o"],
    },
    Folder {
        path: "macho/arm64",
        bytes_at_least: 8_000,
        fields_at_least: 300,
        without: &["pairs.o"],
    },
];

#[test]
fn bytes_are_those_of_jitlink() {
    for folder in &FOLDERS {
        formats::compare(folder);
    }
}

#[test]
fn bytes_are_those_recorded_of_jitlink() {
    for folder in &FOLDERS {
        formats::compare_with_record(folder);
    }
}

#[test]
fn a_wrong_byte_is_noticed() {
    for folder in &FOLDERS {
        formats::check_comparison(folder);
    }
}

/// The numbers of all relocations of an object, as the file has them.
fn numbers(object: &[u8]) -> BTreeSet<u8> {
    let word = |at: usize| u32::from_le_bytes(object[at..at + 4].try_into().unwrap()) as usize;
    let mut found = BTreeSet::new();
    let mut command = 32;
    for _ in 0..word(16) {
        // LC_SEGMENT_64: its sections follow it.
        if word(command) == 0x19 {
            for section in (0..word(command + 64)).map(|index| command + 72 + index * 80) {
                let debug = word(section + 64) & 0x0200_0000 != 0;
                let relocations = (0..word(section + 60)).map(|index| word(section + 56) + index * 8);
                found.extend(
                    relocations
                        .filter(|_| !debug)
                        .map(|at| (word(at + 4) >> 28) as u8),
                );
            }
        }
        command += word(command + 4);
    }
    found
}

#[test]
fn every_relocation_type_occurs() {
    // X86_64_RELOC_UNSIGNED to _SIGNED_4, ARM64_RELOC_UNSIGNED to _ADDEND without those of
    // thread-local storage (8 and 9): all but those that are refused.
    let all: [BTreeSet<u8>; 2] = [(0..=8).collect(), (0..=7).chain([10]).collect()];
    for (folder, all) in FOLDERS.iter().zip(all) {
        let found: BTreeSet<u8> = objects(folder)
            .iter()
            .flat_map(|(_, bytes)| numbers(bytes))
            .collect();
        assert_eq!(found, all, "{}", folder.path);
    }
}

/// Links an object with its segments far apart from where they are in relation to each other in the
/// file.
fn link(bytes: &[u8]) -> LinkedImage {
    let layout = Object::parse(bytes).unwrap().layout().unwrap();
    let addrs = SegmentAddrs {
        code: CodeAddr::new(0x5000_0000),
        read_only: CodeAddr::new(0x1000_0000),
        data: CodeAddr::new(0x3000_0000),
    };
    layout
        .link(&addrs, &|_| Some(CodeAddr::new(0x4000_0000)))
        .unwrap()
}

/// What llvm-jitlink does not link: the differences are those of the symbols' addresses, with what
/// the source adds.
#[test]
fn pairs_are_differences() {
    for folder in &FOLDERS {
        let bytes = std::fs::read(folder.path().join("pairs.o")).unwrap();
        let linked = link(&bytes);
        let symbol = |name| linked.symbol(name).unwrap().get();
        let [first, second, weak, value, pairs] =
            ["_first", "_second", "_weak", "_value", "_pairs"].map(symbol);
        let data = linked
            .segments
            .iter()
            .find(|segment| pairs.wrapping_sub(segment.addr.get()) < segment.bytes.len() as u64)
            .unwrap();
        let at = |offset: usize| &data.bytes[(pairs - data.addr.get()) as usize + offset..];
        let long = |offset| i64::from_le_bytes(*at(offset).first_chunk().unwrap());
        let short = |offset| i32::from_le_bytes(*at(offset).first_chunk().unwrap());
        let less = |a: u64, b: u64| a.wrapping_sub(b) as i64;
        assert_eq!(long(0), less(second, value));
        assert_eq!(long(8), less(value, second) + 5);
        // `Llocal` is 8 bytes before `_value`.
        assert_eq!(long(16), less(value, first));
        assert_eq!(long(24), less(first, weak) - 3);
        assert_eq!(i64::from(short(32)), less(value, first) + 7);
        assert_eq!(i64::from(short(36)), less(weak, value));
    }
}

/// The unwind information refers to the functions, wherever the sections are.
#[test]
fn frames_of_every_function_are_found() {
    for folder in &FOLDERS {
        let mut functions = 0;
        for (path, bytes) in objects(folder) {
            let name = path.file_name().unwrap().to_str().unwrap();
            if !name.starts_with("program.") && !name.starts_with("property.") {
                continue;
            }
            let image = link(&bytes).image;
            let [frames] = &image.eh_frames[..] else {
                panic!("{name}: {image:?}")
            };
            let info = UnwindInfo::for_arch(image.arch, frames.addr, &frames.bytes).unwrap();
            for function in &image.functions {
                info.can_return(function.addr)
                    .unwrap_or_else(|error| panic!("{name}: {}: {error}", function.name));
                functions += 1;
            }
        }
        println!("{}: frames of {functions} functions are found", folder.path);
        assert!(functions >= 40, "{functions}");
    }
}
