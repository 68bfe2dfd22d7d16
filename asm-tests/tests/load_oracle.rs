//! Relocated bytes against LLVM's own loader: `llvm-rtdyld -verify` loads every object at the addresses that
//! our loader chose and compares each relocated field with what ours wrote there.
//!
//! Left out is what rtdyld decides differently by design: where the global offset table and stubs are, and
//! common symbols. Those have tests of their own in `load.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use asm_tests::TestObject;
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::image::{Definition, LinkedImage, Object, Relocation, SectionRole, SegmentAddrs};

const BASE: CodeAddr = CodeAddr::new(0x1000_0000);

/// Symbols outside get addresses in the order in which they are asked for.
fn external(name: &str) -> u64 {
    0x2000_0000 + name.bytes().map(u64::from).sum::<u64>() * 0x10
}

fn tool(version: u32) -> Option<PathBuf> {
    let name = format!("llvm-rtdyld-{version}");
    let candidates = [
        PathBuf::from(&name),
        PathBuf::from(format!("/usr/lib/llvm-{version}/bin/llvm-rtdyld")),
    ];
    candidates
        .into_iter()
        .find(|tool| Command::new(tool).arg("--version").output().is_ok())
}

/// Whether the field depends only on the addresses of sections and of symbols outside.
fn is_comparable(relocation: Relocation, definition: Definition, object: &Object<'_>) -> bool {
    let common = match definition {
        Definition::Section(id, _) => object.sections()[id.index()].name() == "COMMON",
        _ => false,
    };
    match relocation.name() {
        "R_X86_64_64" | "R_X86_64_32" | "R_X86_64_32S" | "R_X86_64_PC32" | "R_X86_64_PC64" => !common,
        "R_X86_64_PLT32" => matches!(definition, Definition::Section(..)) && !common,
        _ => false,
    }
}

fn bytes_at(linked: &LinkedImage, addr: CodeAddr, len: usize) -> u64 {
    let segment = linked
        .segments
        .iter()
        .find(|segment| addr.is_within(segment.addr, Len::of(&segment.bytes).unwrap()))
        .unwrap();
    let start = (addr.get() - segment.addr.get()) as usize;
    let mut bytes = [0; 8];
    bytes[..len].copy_from_slice(&segment.bytes[start..start + len]);
    u64::from_le_bytes(bytes)
}

/// The checks for rtdyld, one for each comparable field, and how many they are.
fn checks(
    name: &str,
    linked: &LinkedImage,
    section_addr: impl Fn(usize) -> Option<CodeAddr>,
    object: &Object<'_>,
) -> (String, usize) {
    let (mut text, mut count) = (String::new(), 0);
    for (index, section) in object.sections().iter().enumerate() {
        for edge in section.edges() {
            let definition = object.symbols()[edge.target().index()].definition();
            if !is_comparable(edge.relocation(), definition, object) {
                continue;
            }
            let width = usize::from(edge.relocation().width());
            let value = match section_addr(index) {
                Some(addr) => bytes_at(linked, addr.plus(Len::new(edge.offset())).unwrap(), width),
                None => {
                    assert_eq!(section.role(), SectionRole::StackMaps);
                    let start = edge.offset() as usize;
                    u64::from_le_bytes(linked.image.stack_maps[start..start + 8].try_into().unwrap())
                }
            };
            let place = format!("section_addr({name}, {}) + {:#x}", section.name(), edge.offset());
            writeln!(text, "# rtdyld-check: *{{{width}}}({place}) = {value:#x}").unwrap();
            count += 1;
        }
    }
    (text, count)
}

fn verify(tool: &PathBuf, object: &TestObject, spoil: bool) -> Result<usize, String> {
    let layout = Object::parse(&object.bytes).unwrap().layout().unwrap();
    let (addrs, _): (SegmentAddrs, _) = layout.contiguous(BASE, Len::new(4096)).unwrap();
    let linked = layout
        .link(&addrs, &|name| Some(CodeAddr::new(external(name))))
        .unwrap();
    let section_addr = |index| layout.section_addr(index, &addrs);
    let (mut text, count) = checks(&object.name, &linked, section_addr, layout.object());
    if spoil {
        text = text.replacen(" = 0x", " = 0x1", 1);
    }
    let file = std::env::temp_dir().join(format!("patchpoint-{}-{}.check", std::process::id(), object.name));
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(tool);
    command.current_dir(asm_tests::folder());
    command
        .args(["-triple=x86_64-unknown-linux-gnu", "-verify"])
        .arg(format!("-check={}", file.display()));
    for (index, section) in layout.object().sections().iter().enumerate() {
        if let Some(addr) = section_addr(index).filter(|_| section.size() > 0 && section.name() != "COMMON") {
            command.arg(format!(
                "-map-section={},{}={}",
                object.name,
                section.name(),
                addr.get()
            ));
        }
    }
    for symbol in layout.object().symbols() {
        if matches!(symbol.definition(), Definition::Undefined { .. }) && !symbol.name().is_empty() {
            command.arg(format!(
                "-dummy-extern={}={}",
                symbol.name(),
                external(symbol.name())
            ));
        }
    }
    let output = command.arg(&object.name).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    if output.status.success() {
        return Ok(count);
    }
    Err(format!(
        "{}: {}",
        object.name,
        String::from_utf8_lossy(&output.stderr)
    ))
}

#[test]
fn relocated_fields_are_those_of_llvm() {
    let (mut fields, mut objects) = (0, 0);
    for object in asm_tests::objects() {
        let Some(tool) = tool(object.llc) else {
            println!("skipped: no llvm-rtdyld-{}", object.llc);
            continue;
        };
        fields += verify(&tool, &object, false).unwrap_or_else(|error| panic!("{error}"));
        objects += 1;
    }
    println!("{fields} fields of {objects} objects are equal");
    assert!(objects == 0 || fields > 1000);
}

/// The comparison can fail: one spoilt value is noticed.
#[test]
fn a_wrong_field_is_noticed() {
    let object = asm_tests::objects()
        .into_iter()
        .find(|object| object.source == "relocs")
        .unwrap();
    match tool(object.llc) {
        Some(tool) => assert!(verify(&tool, &object, true).is_err()),
        None => println!("skipped: no llvm-rtdyld-{}", object.llc),
    }
}
