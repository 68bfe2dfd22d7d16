//! The audit of code that has LLVM's defects, of every architecture, on any host: objects are
//! linked and registered, and nothing is run.
use std::path::Path;
use std::vec::Vec;

use super::{Marks, Module, survey, survey_with};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::{Arch, CallShape};
use crate::error::{ErrorKind, ProviderError};
use crate::image::{CodeTable, FunctionRange, Image, Object, Segment, SegmentKind};
use crate::metadata::{IntegerSize, PcSectionShape};
use crate::site::{Error, Result};
use crate::stackmap::Endian;
use crate::stackmap::testing::{MapSpec, map, record};
use crate::verify::{self, Original};

/// Where every symbol is that an object does not define.
const OUTSIDE: u64 = 0x1080_0000;

/// Links an object and registers its only record with this shape.
fn audit(object: &str, shape: CallShape) -> Result<Module> {
    audit_some(object, |_| true, shape)
}

/// Links an object and registers the records with these IDs with this shape.
fn audit_some(object: &str, wanted: impl Fn(u64) -> bool, shape: CallShape) -> Result<Module> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("asm-tests/objects")
        .join(object);
    let bytes = std::fs::read(&path).unwrap();
    let layout = Object::parse(&bytes)?.layout()?;
    let (addrs, _) = layout
        .contiguous(CodeAddr::new(0x1000_0000), Len::new(0x1_0000))
        .unwrap();
    let linked = layout.link(&addrs, &|_| Some(CodeAddr::new(OUTSIDE)))?;
    let survey = survey(linked.image, linked.segments, |record| {
        Some(shape).filter(|_| wanted(record.id().get()))
    })?;
    match survey.refused.into_iter().next() {
        Some(refusal) => Err(refusal.error),
        None => Ok(survey.module),
    }
}

/// Shadows of 32 bytes, of which AArch64 with call frame information and RISC-V with compressed
/// instructions have fewer: what is promised reaches into the next function.
#[test]
fn a_shadow_shorter_than_promised_is_refused() {
    for object in ["defects/cfi.aarch64.o", "defects/compressed.riscv64c.o"] {
        let refused = audit(object, CallShape::shadow(32)).unwrap_err();
        match &refused {
            Error::SiteOutsideFunction { site, reserved, len } => {
                assert_eq!((site.id.get(), reserved.get()), (1, 32), "{object}");
                assert!(site.offset.get() + 32 > len.get());
            }
            other => panic!("{object}: {other}"),
        }
        // What is there is a site.
        let room = match refused {
            Error::SiteOutsideFunction { site, len, .. } => len.get() - site.offset.get(),
            _ => 0,
        };
        let module = audit(object, CallShape::shadow(room)).unwrap();
        let site = module.sites().next().unwrap();
        assert_eq!(site.reserved().get(), room, "{object}");
        assert!(room >= 8, "{object}: {room}");
    }
}

/// Reserved bytes of just the length that LLVM says its call has: the call ends behind them.
#[test]
fn a_call_that_ends_behind_its_reserved_bytes_is_refused() {
    for (object, said, needed) in [
        ("defects/tight.powerpc64le.o", 28, 32),
        ("defects/tight.powerpc64-elfv2.o", 28, 32),
        ("defects/tight.powerpc64.o", 36, 40),
    ] {
        let shape = |reserved| CallShape::c(reserved).result().args(1);
        let refused = audit(object, shape(said)).unwrap_err();
        assert!(
            matches!(refused, Error::NotLlvmPatchpoint { .. }),
            "{object}: {refused}"
        );
        // Told the true length, it is LLVM's call.
        let module = audit(object, shape(needed)).unwrap();
        assert_eq!(module.sites().count(), 1);
    }
}

/// Too few bytes were reserved for the call, which LLVM emits all the same.
#[test]
fn a_call_longer_than_was_asked_for_is_refused() {
    for arch in ["aarch64", "powerpc64le", "powerpc64", "powerpc64-elfv2", "s390x"] {
        let object = std::format!("defects/short.{arch}.o");
        let shape = CallShape::c(4).result().args(1);
        let refused = audit(&object, shape).unwrap_err();
        let expected = matches!(
            refused,
            Error::NotLlvmPatchpoint { .. }
                | Error::SiteUndecodable { .. }
                | Error::SiteOverlapsRecord { .. }
        );
        assert!(expected, "{object}: {refused}");
    }
}

/// For a symbol as target LLVM emits a call to an address of its own process on AArch64, which
/// nothing tells from a constant target: the site is registered, and has to be patched before it
/// runs.
#[test]
fn a_call_to_a_symbol_on_aarch64_looks_like_one_to_a_constant() {
    let module = audit("defects/symbol.aarch64.o", CallShape::c(32).result().args(2)).unwrap();
    let site = module.sites().next().unwrap();
    let original = verify::original(module.arch(), site.addr(), &site.read().unwrap()).unwrap();
    match original {
        Original::LlvmCall { target, .. } => assert_ne!(target.get(), OUTSIDE),
        other => panic!("{other:?}"),
    }
}

/// Code of nops with a function `f` of 64 bytes, and another at +0x40 of which the map tells and
/// the image does not.
fn nops(map: &[u8]) -> (Image, Vec<Segment>) {
    let addr = CodeAddr::new(0x40_0000);
    let range = CodeRange::new(addr, 128).unwrap();
    let image = Image {
        arch: Arch::X86_64,
        windows: false,
        endian: Endian::Little,
        stack_maps: map.to_vec(),
        functions: std::vec![FunctionRange {
            name: "f".into(),
            addr,
            len: Len::new(64),
            pointer: addr,
        }],
        eh_frames: Vec::new(),
        code_tables: Vec::new(),
        code: std::vec![range],
    };
    let segment = Segment {
        kind: SegmentKind::Code,
        addr,
        bytes: std::vec![0x90; 128],
        size: Len::new(128),
    };
    (image, std::vec![segment])
}

/// A survey goes on behind what a registration would stop at.
#[test]
fn a_survey_says_all_that_is_wrong() {
    let records = [
        record(1).at(4),
        // Starts where the first does.
        record(2).at(4),
        record(3).at(12),
        // Reaches into the next.
        record(4).at(30),
        record(5).at(34),
        // The shape is an error of the caller's.
        record(6).at(44),
        record(7).at(80),
        record(8).at(56),
    ];
    let map = map().function(0x40_0000, 64, records).bytes();
    let (image, segments) = nops(&map);
    let survey = survey(image, segments, |record| match record.id().get() {
        6 => Err(ProviderError::new(std::io::Error::other("told wrong")).into()),
        8 => Ok(None),
        _ => Ok(Some(CallShape::c(8))),
    })
    .unwrap();
    let ids: Vec<u64> = survey.module.sites().map(|site| site.id().get()).collect();
    assert_eq!(ids, [1, 3, 5]);
    let refused: Vec<_> = survey
        .refused
        .iter()
        .map(|refusal| (refusal.site.as_ref().unwrap().id.get(), &refusal.error))
        .collect();
    assert_eq!(refused.len(), 4, "{refused:?}");
    for (id, error) in refused {
        let expected = match id {
            2 => matches!(error, Error::SitesOverlap { .. }),
            4 => matches!(error, Error::SiteOverlapsRecord { .. }),
            6 => error.kind() == ErrorKind::Provider,
            7 => matches!(error, Error::RecordOutsideFunction { .. }),
            _ => false,
        };
        assert!(expected, "{id}: {error}");
    }
    // 5 bytes of one quadword, which the first of these has not.
    let heads: Vec<_> = survey.module.sites().map(|site| site.patchable_jump()).collect();
    assert!(
        matches!(heads[0], Err(Error::NoPatchableJump { .. })),
        "{:?}",
        heads[0]
    );
    assert_eq!(heads[2], Ok(CodeRange::new(CodeAddr::new(0x40_0022), 5).unwrap()));
    let site = survey.module.sites().next().unwrap();
    assert_eq!(site.read().unwrap(), [0x90; 8]);
}

#[test]
fn a_survey_says_what_is_wrong_with_whole_functions() {
    let map = map()
        .function(0x40_0000, 64, [record(1).at(4)])
        .function(0x40_0000, 64, [record(2).at(4)])
        .bytes();
    let (image, segments) = nops(&map);
    let survey = survey(image, segments, |_| CallShape::c(8)).unwrap();
    assert_eq!(survey.module.sites().count(), 1);
    let refusal = &survey.refused[0];
    assert!(refusal.site.is_none());
    assert!(
        matches!(refusal.error, Error::StackMapFunctionTwice { .. }),
        "{}",
        refusal.error
    );
}

/// The bytes of a survey cannot be taken for code that can be patched.
#[test]
fn a_survey_is_not_written() {
    let map = map().function(0x40_0000, 64, [record(1).at(4)]).bytes();
    let (image, segments) = nops(&map);
    let survey = survey(image, segments, |_| CallShape::c(8)).unwrap();
    let site = survey.module.sites().next().unwrap();
    let memory = site.memory().unwrap();
    let refused = |error| matches!(error, crate::memory::Error::StrategyUnavailable { .. });
    assert!(refused(memory.write(site.addr(), &[0xcc]).unwrap_err()));
    assert_eq!(site.read().unwrap(), [0x90; 8]);
    let mut into = [0; 2];
    let beyond = memory.read(CodeAddr::new(0x40_007f), &mut into);
    assert!(matches!(beyond, Err(crate::memory::Error::OutsideMemory { .. })));
    // Another one's segments do not hold the image's code.
    let (image, _) = nops(&map);
    let another = super::survey(image, Vec::new(), |_| CallShape::c(8));
    assert!(matches!(
        another,
        Err(Error::Memory(crate::memory::Error::OutsideMemory { .. }))
    ));
}

/// A PC section at 0x50_0000 that marks these instructions, each with its ID and a length.
fn table(marks: &[(u64, u64, u16)]) -> CodeTable {
    let base = 0x50_0000;
    let mut bytes = Vec::new();
    for (at, id, len) in marks {
        let distance = *at as i64 - (base + bytes.len() as i64);
        bytes.extend_from_slice(&(distance as i32).to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
    }
    CodeTable {
        name: "sites".into(),
        addr: CodeAddr::new(base as u64),
        bytes,
    }
}

/// Everything that a mark is audited for, in code with instructions of several bytes.
#[test]
fn what_is_wrong_with_a_mark_is_said() {
    let map = map().function(0x40_0000, 64, [record(1).at(30)]).bytes();
    let (mut image, mut segments) = nops(&map);
    // mov eax, 1; then nops. At 40, bytes that are no instruction; behind, a loop of two nops.
    segments[0].bytes[4..9].copy_from_slice(&[0xb8, 1, 0, 0, 0]);
    segments[0].bytes[40] = 0x06;
    segments[0].bytes[50..52].copy_from_slice(&[0xeb, 0xfc]);
    let marks = [
        (0x40_0004, 1, 1),
        // In the middle of the instruction.
        (0x40_0006, 2, 1),
        (0x40_0010, 3, 0),
        // The record is inside.
        (0x40_001c, 4, 3),
        // It starts where the record does.
        (0x40_001e, 5, 2),
        // Reaches into the bytes that do not decode.
        (0x40_0026, 6, 3),
        // Behind those: the target of the jump in the middle, and at the start.
        (0x40_002d, 7, 4),
        (0x40_0030, 8, 2),
        // Behind the function.
        (0x40_0044, 9, 1),
    ];
    image.code_tables = std::vec![table(&marks)];
    let shape = PcSectionShape::instructions()
        .constant(IntegerSize::Eight)
        .constant(IntegerSize::Two);
    let marks = [Marks::new("sites", shape, 0).reserved(1)];
    let survey = survey_with(image, segments, &marks, |_| None::<CallShape>).unwrap();
    let sites = survey.module.sites();
    let sites: Vec<_> = sites
        .map(|site| (site.id().get(), site.reserved().get()))
        .collect();
    assert_eq!(sites, [(1, 5), (5, 2), (8, 2)]);
    let refused = |id| {
        let mut all = survey.refused.iter();
        let of = |refusal: &&super::Refusal| refusal.site.as_ref().map_or(9, |site| site.id.get()) == id;
        &all.find(of).unwrap().error
    };
    assert_eq!(survey.refused.len(), 6, "{:?}", survey.refused);
    assert!(matches!(refused(2), Error::SiteUndecodable { .. }));
    assert!(matches!(refused(3), Error::SiteEmpty { .. }));
    assert!(matches!(refused(4), Error::SiteOverlapsRecord { next, .. } if next.get() == 30));
    assert!(matches!(refused(6), Error::SiteUndecodable { .. }));
    assert!(matches!(refused(7), Error::BranchIntoSite { from, .. } if from.get() == 0x40_0032));
    assert!(matches!(refused(9), Error::MarkOutsideFunctions { at, .. } if at.get() == 0x40_0044));
}

/// A record cannot make a site of a kind that has none.
#[test]
fn a_record_is_no_mark() {
    let map = map().function(0x40_0000, 64, [record(1).at(4)]).bytes();
    for shape in [CallShape::entry(8), CallShape::marked(8)] {
        let (image, segments) = nops(&map);
        let survey = survey(image, segments, |_| shape).unwrap();
        assert!(matches!(survey.refused[0].error, Error::EntryHasNoRecord { .. }));
    }
}

/// Functions at these distances from the start of the code, of these lengths.
fn functions_of(image: &mut Image, all: &[(u64, u32)]) {
    let functions = all.iter().enumerate().map(|(index, (start, len))| {
        let addr = CodeAddr::new(0x40_0000 + start);
        FunctionRange {
            name: std::format!("f{index}"),
            addr,
            len: Len::new(*len),
            pointer: addr,
        }
    });
    image.functions = functions.collect();
}

/// The lists of one function's audit are used for the next one: each has its own records and code,
/// also behind one that is described twice, and in whatever order the map has them.
#[test]
fn each_function_has_its_own_records_and_code() {
    let (long, short, last) = (0x40_0000, 0x40_0040, 0x40_0050);
    let map = map()
        .function(last, 8, [record(40).at(30), record(41).at(9), record(42).at(9)])
        .function(long, 8, [record(10).at(4)])
        .function(long, 8, [record(20), record(21)])
        .function(short, 8, [record(30).at(2)])
        .bytes();
    let (mut image, mut segments) = nops(&map);
    functions_of(&mut image, &[(0, 64), (0x40, 16), (0x50, 48)]);
    image.code = std::vec![CodeRange::new(CodeAddr::new(long), 0x80).unwrap()];
    // nop, cmc, clc
    segments[0].bytes = [[0x90; 64].as_slice(), &[0xf5; 16], &[0xf8; 48]].concat();
    let mut seen = Vec::new();
    let survey = survey(image, segments, |record| {
        let code = [record.before, record.bytes()].concat();
        assert!(code.iter().all(|byte| *byte == code[0]), "{code:?}");
        let id = record.id().get();
        seen.push((id, code[0], record.before.len(), record.bytes().len()));
        (id != 42).then_some(CallShape::shadow(2))
    })
    .unwrap();
    let expected = [
        (41, 0xf8, 9, 21),
        (42, 0xf8, 9, 21),
        (40, 0xf8, 30, 18),
        (10, 0x90, 4, 60),
        (30, 0xf5, 2, 14),
    ];
    assert_eq!(seen, expected);
    let twice = |refusal: &super::Refusal| matches!(&refusal.error, Error::StackMapFunctionTwice { addr } if addr.get() == long);
    assert!(
        matches!(&*survey.refused, [one] if twice(one)),
        "{:?}",
        survey.refused
    );
    // In ascending address.
    let sites = survey.module.sites();
    let sites: Vec<_> = sites.map(|site| (site.id().get(), site.addr().get())).collect();
    assert_eq!(
        sites,
        [(10, long + 4), (30, short + 2), (41, last + 9), (40, last + 30)]
    );
}

/// The code of a function that is read into the list of a longer one ends where the function does.
#[test]
fn the_code_of_a_function_ends_with_it() {
    let (mut image, segments) = nops(&[]);
    functions_of(&mut image, &[(0, 64), (0x40, 16), (0x50, 32)]);
    let parts = super::survey::parts(&image, segments).unwrap();
    let (code, mut bytes) = (super::code::FunctionCode::new(&parts), Vec::new());
    for (index, len) in [(0, 64), (1, 16), (2, 32)] {
        let function = parts.functions.get(index).unwrap();
        assert_eq!(code.of(&function, &mut bytes).unwrap(), std::vec![0x90; len]);
    }
}

/// Sites of functions that overlap, which no audit of one record compares: in either order.
#[test]
fn sites_overlap_in_whatever_order_they_are_found() {
    let first = |map: MapSpec| map.function(0x40_0000, 8, [record(1).at(28), record(2).at(60)]);
    let second = |map: MapSpec| map.function(0x40_0020, 8, [record(3).at(3), record(4).at(4)]);
    for map in [second(first(map())), first(second(map()))] {
        let (mut image, segments) = nops(&map.bytes());
        functions_of(&mut image, &[(0, 64), (0x20, 32)]);
        let reserved = |id| if id == 1 { 8 } else { 1 };
        let survey = survey(image, segments, |record| {
            CallShape::c(reserved(record.id().get()))
        })
        .unwrap();
        let overlap = |refusal: &super::Refusal| match &refusal.error {
            Error::SitesOverlap { site, other, .. } => (site.id.get(), other.id.get()),
            other => panic!("{other}"),
        };
        assert_eq!(survey.refused.iter().map(overlap).collect::<Vec<_>>(), [(1, 3)]);
        let ids: Vec<_> = survey.module.sites().map(|site| site.id().get()).collect();
        assert_eq!(ids, [1, 4, 2]);
    }
}

/// Functions that all reach to the end of the code, as a damaged object may have them: with a
/// record of each, and a mark in each. The bytes that are read and decoded are counted, not the
/// time: the marks' audit reads and decodes each once, and the search for branches into sites does
/// so again.
#[test]
fn functions_that_overlap_are_read_once() {
    const COUNT: u64 = 1 << 11;
    const SIZE: u64 = 1 << 15;
    let start = 0x40_0000;
    let mut all = map();
    for index in 0..COUNT {
        all = all.function(start + index * 8, 64, [record(index).at(4)]);
    }
    let (mut image, mut segments) = nops(&all.bytes());
    segments[0].bytes = std::vec![0x90; SIZE as usize];
    image.code = std::vec![CodeRange::new(CodeAddr::new(start), SIZE).unwrap()];
    image.functions = (0..COUNT)
        .map(|index| FunctionRange {
            name: std::format!("f{index}"),
            addr: CodeAddr::new(start + index * 8),
            len: Len::new((SIZE - index * 8) as u32),
            pointer: CodeAddr::new(start + index * 8),
        })
        .collect();
    let marked: Vec<_> = (0..COUNT)
        .map(|index| (start + index * 8 + 6, COUNT + index, 1))
        .collect();
    image.code_tables = std::vec![table(&marked)];
    let shape = PcSectionShape::instructions()
        .constant(IntegerSize::Eight)
        .constant(IntegerSize::Two);
    let marks = [Marks::new("sites", shape, 0).reserved(1)];
    let before = super::code::work();
    let survey = survey_with(image, segments, &marks, |_| CallShape::shadow(1)).unwrap();
    let work = super::code::work() - before;
    assert_eq!(survey.refused, []);
    assert_eq!(survey.module.sites().count() as u64, 2 * COUNT);
    assert!(work <= 4 * SIZE, "{work} bytes of {SIZE}");
    // And of those that contain it the last one is the site's function.
    for site in survey.module.sites() {
        let index = (site.addr().get() - start) / 8;
        assert_eq!(site.function().name(), std::format!("f{index}"));
    }
}

/// A branch of a function that contains another one into a site of that is one into the site, too;
/// and where an inner function starts an instruction does, whatever the bytes before it decode as.
#[test]
fn functions_that_overlap_are_decoded_from_each_start() {
    let (mut image, mut segments) = nops(&map().function(0x40_0000, 64, []).bytes());
    // At 0 a jump to 22, in the middle of a mark's site; before `inner`, at 16, the start of a long
    // instruction.
    segments[0].bytes[0..2].copy_from_slice(&[0xeb, 20]);
    segments[0].bytes[14..16].copy_from_slice(&[0x48, 0xb8]);
    let inner = FunctionRange {
        name: "inner".into(),
        addr: CodeAddr::new(0x40_0010),
        len: Len::new(16),
        pointer: CodeAddr::new(0x40_0010),
    };
    image.functions.push(inner);
    image.code_tables = std::vec![table(&[(0x40_0014, 1, 4), (0x40_0012, 2, 2), (0x40_0024, 3, 1)])];
    let shape = PcSectionShape::instructions()
        .constant(IntegerSize::Eight)
        .constant(IntegerSize::Two);
    let marks = [Marks::new("sites", shape, 0).reserved(1)];
    let survey = survey_with(image, segments, &marks, |_| None::<CallShape>).unwrap();
    let sites = survey.module.sites();
    let sites: Vec<_> = sites
        .map(|site| (site.id().get(), site.function().name().to_owned()))
        .collect();
    // Behind the inner one the outer one goes on.
    assert_eq!(sites, [(2, "inner".into()), (3, "f".into())]);
    assert_eq!(survey.refused.len(), 1, "{:?}", survey.refused);
    let error = &survey.refused[0].error;
    assert!(
        matches!(error, Error::BranchIntoSite { from, .. } if from.get() == 0x40_0000),
        "{error}"
    );
}

/// Shadows of which LLVM's count is too large: behind their bytes a loop begins, to whose head the
/// function branches. The instructions in between are not all known to the checker.
#[test]
fn a_shadow_with_the_head_of_a_loop_is_refused() {
    // The reserved bytes, and the offset of the loop. On x86-64 and SystemZ LLVM keeps its word,
    // but nothing holds the runtime to it.
    for (arch, reserved, head) in [
        ("aarch64", 16, 0xc),
        ("riscv64", 16, 4),
        ("riscv64c", 16, 4),
        ("powerpc64le", 16, 0x20),
        ("powerpc64-elfv2", 16, 0x1c),
        ("powerpc64", 16, 0x1c),
        ("s390x", 20, 0x1a),
        ("x86_64", 28, 0x20),
    ] {
        let object = std::format!("defects/fence.{arch}.o");
        let refused = audit(&object, CallShape::shadow(reserved)).unwrap_err();
        let text = refused.to_string();
        let Error::BranchIntoSite { site, from, to } = refused else {
            panic!("{object}: {refused}");
        };
        let start = site.addr.get() - u64::from(site.offset.get());
        assert_eq!((site.id.get(), to.get() - start), (1, head), "{object}: {text}");
        assert_eq!(site.function.as_deref(), Some("countdown"));
        assert!(to < from, "{object}: {text}");
        assert!(
            text.contains(&from.to_string()) && text.contains("countdown+0x"),
            "{text}"
        );
        // Up to the head of the loop it is a site.
        let room = head as u32 - site.offset.get();
        let module = audit(&object, CallShape::shadow(room)).unwrap();
        assert_eq!(module.sites().next().unwrap().reserved().get(), room, "{object}");
    }
}

/// Sites of every kind, with a branch of the function, or of another one, to each byte of them.
#[test]
fn no_site_of_any_kind_has_a_branch_into_it() {
    let base = 0x40_0000_u64;
    let call = [0xe8, 0x40, 0, 0, 0];
    let kinds = ["patchpoint", "shadow", "marked", "entry", "call"];
    // `f` takes 64 bytes, and the other function is behind it.
    for from in [base + 40, base + 72] {
        for kind in kinds {
            // The offset of the site and its length.
            let (offset, len) = match kind {
                "entry" => (0, 8),
                "call" => (16, 5),
                _ => (16, 8),
            };
            for to in offset..=offset + len {
                let records = match kind {
                    "patchpoint" | "shadow" => std::vec![record(1).at(offset)],
                    _ => Vec::new(),
                };
                let (mut image, mut segments) = nops(&map().function(base, 64, records).bytes());
                image.functions.push(FunctionRange {
                    name: "g".into(),
                    addr: CodeAddr::new(base + 64),
                    len: Len::new(64),
                    pointer: CodeAddr::new(base + 64),
                });
                let branch = (base + u64::from(to)).wrapping_sub(from + 5) as u32;
                let at = (from - base) as usize;
                segments[0].bytes[at] = 0xe9;
                segments[0].bytes[at + 1..at + 5].copy_from_slice(&branch.to_le_bytes());
                if kind == "call" {
                    segments[0].bytes[16..21].copy_from_slice(&call);
                }
                image.code_tables = std::vec![table(&[(base + 16, 1, 8)])];
                let marks_shape = PcSectionShape::instructions()
                    .constant(IntegerSize::Eight)
                    .constant(IntegerSize::Two);
                let marks = [Marks::new("sites", marks_shape, 0).reserved(1)];
                let shape = match kind {
                    "shadow" => CallShape::shadow(8),
                    _ => CallShape::c(8),
                };
                let entries = [super::EntrySpec::new("f", 1, 8)];
                let calls = [super::CallSpec {
                    id: crate::addr::RecordId::new(1),
                    call: crate::image::RecordedCall {
                        callee: "h".into(),
                        addr: CodeAddr::new(base + 16),
                        len: Len::new(5),
                    },
                }];
                let mut unrecorded = super::Unrecorded::default();
                match kind {
                    "marked" => {
                        unrecorded.marks = &marks;
                        unrecorded.code_tables = &image.code_tables;
                    }
                    "entry" => unrecorded.entries = &entries,
                    "call" => unrecorded.calls = &calls,
                    _ => {}
                }
                let registered = super::survey::parts(&image, segments)
                    .and_then(|parts| super::register(parts, &unrecorded, &mut |_| Ok(Some(shape))))
                    .map(|new| new.module);
                let says = std::format!("{kind}, from {from:#x} to +{to:#x}");
                if to == offset || to == offset + len {
                    assert_eq!(registered.unwrap().sites().count(), 1, "{says}");
                    continue;
                }
                match registered.unwrap_err() {
                    Error::BranchIntoSite {
                        site,
                        from: branch,
                        to: target,
                    } => {
                        assert_eq!(
                            (branch.get(), target.get()),
                            (from, base + u64::from(to)),
                            "{says}"
                        );
                        assert_eq!((site.id.get(), site.offset.get()), (1, offset), "{says}");
                        assert!(site.to_string().starts_with(kind), "{says}: {site}");
                    }
                    other => panic!("{says}: {other}"),
                }
            }
        }
    }
}

/// Values in scalable vectors: a shadow says nothing of them, and a patchpoint's record names what
/// they are measured by.
#[test]
fn what_no_exit_saves_is_refused() {
    for (object, at) in [
        ("defects/scalable.aarch64.o", 8),
        ("defects/scalable.riscv64.o", 0),
    ] {
        let refused = audit_some(object, |id| id == 1, CallShape::shadow(4)).unwrap_err();
        let Error::ScalableVectors { site, at: found } = &refused else {
            panic!("{object}: {refused}");
        };
        let start = site.addr.get() - u64::from(site.offset.get());
        assert_eq!(
            (site.id.get(), found.get() - start),
            (1, at),
            "{object}: {refused}"
        );
    }
    let shape = CallShape::any_reg(32).result().args(1);
    let refused = audit_some("defects/scalable.aarch64.o", |id| id == 2, shape).unwrap_err();
    assert!(
        matches!(&refused, Error::RegisterNotKept { register, name, .. } if register.get() == 46 && name == "vg"),
        "{refused}"
    );
    // RISC-V's calls lose all vectors, and no register measures them.
    audit_some("defects/scalable.riscv64.o", |id| id == 2, shape).unwrap();
}

/// Registers that records may name, and those that no exit saves.
#[test]
fn registers_that_no_exit_saves_are_refused_by_name() {
    for (arch, kept, lost) in [
        (
            Arch::X86_64,
            &[0, 15, 17, 32, 67, 82, 118, 125][..],
            &[130, 145][..],
        ),
        (Arch::AArch64, &[0, 31, 64, 95], &[46, 47, 48, 63, 96, 127]),
        (Arch::PowerPc64Le, &[0, 31, 32, 63, 77, 108, 1200], &[]),
        (Arch::PowerPc64ElfV2, &[0, 31, 32, 63, 77, 108, 1200], &[]),
        (Arch::SystemZ, &[0, 15, 16, 31, 68, 83], &[]),
        (Arch::RiscV64, &[0, 31, 32, 63], &[96, 127]),
    ] {
        for (numbers, is_kept) in [(kept, true), (lost, false)] {
            for number in numbers {
                let in_location = record(1).location(crate::stackmap::testing::reg(*number, 8));
                let in_live_out = record(1).live_out(*number, 8);
                for record in [in_location, in_live_out] {
                    let found = verify::not_kept(arch, &record.leak());
                    assert_eq!(found.is_none(), is_kept, "{arch}: {number}");
                }
            }
        }
    }
}
