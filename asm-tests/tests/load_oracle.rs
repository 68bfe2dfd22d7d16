//! Relocated bytes against LLVM's own loader: `llvm-rtdyld -verify` loads every object at the
//! addresses that our loader chose and compares each relocated field with what ours wrote there.
//! RISC-V, on which rtdyld does not work, is in `link_oracle.rs`.
//!
//! Left out is what rtdyld decides differently by design: where the global offset table and stubs
//! are, and common symbols; on SystemZ every call, for which it makes a stub; on PowerPC ELFv1 the
//! functions of the stack map, which are descriptors to it and code to us. Those have tests of
//! their own in `load.rs` and `load_cross.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use asm_tests::tools::is_there;
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::image::{
    Definition, Edge, Graph, Layout, LinkedImage, Object, Section, SectionRole, SegmentAddrs,
};
use patchpoint::stackmap::Endian;

const BASE: CodeAddr = CodeAddr::new(0x1000_0000);

/// A folder of objects, and the relocations whose fields rtdyld writes as we do: those with any
/// target, and those whose target must be a section of the object.
struct Target {
    folder: &'static str,
    triple: &'static str,
    anywhere: &'static [&'static str],
    inside: &'static [&'static str],
    /// How many fields there are at least in the objects of each version of LLVM, so that a comparison
    /// of nothing does not pass.
    at_least: usize,
}

const POWERPC_ANYWHERE: &[&str] = &[
    "R_PPC64_ADDR64",
    "R_PPC64_REL32",
    "R_PPC64_REL64",
    "R_PPC64_REL16_HA",
    "R_PPC64_REL16_LO",
    "R_PPC64_TOC",
    "R_PPC64_TOC16_DS",
    "R_PPC64_TOC16_HA",
    "R_PPC64_TOC16_LO",
    "R_PPC64_TOC16_LO_DS",
];

const TARGETS: &[Target] = &[
    Target {
        folder: "x86_64",
        triple: "x86_64-unknown-linux-gnu",
        anywhere: &[
            "R_X86_64_64",
            "R_X86_64_32",
            "R_X86_64_32S",
            "R_X86_64_PC32",
            "R_X86_64_PC64",
        ],
        inside: &["R_X86_64_PLT32"],
        at_least: 900,
    },
    Target {
        folder: "aarch64",
        triple: "aarch64-unknown-linux-gnu",
        anywhere: &[
            "R_AARCH64_ABS64",
            "R_AARCH64_PREL32",
            "R_AARCH64_PREL64",
            "R_AARCH64_ADR_PREL_PG_HI21",
            "R_AARCH64_ADD_ABS_LO12_NC",
            "R_AARCH64_LDST8_ABS_LO12_NC",
            "R_AARCH64_LDST16_ABS_LO12_NC",
            "R_AARCH64_LDST32_ABS_LO12_NC",
            "R_AARCH64_LDST64_ABS_LO12_NC",
            "R_AARCH64_LDST128_ABS_LO12_NC",
            "R_AARCH64_MOVW_UABS_G0_NC",
            "R_AARCH64_MOVW_UABS_G1_NC",
            "R_AARCH64_MOVW_UABS_G2_NC",
            "R_AARCH64_MOVW_UABS_G3",
        ],
        inside: &["R_AARCH64_CALL26", "R_AARCH64_JUMP26"],
        at_least: 500,
    },
    Target {
        folder: "powerpc64le",
        triple: "powerpc64le-unknown-linux-gnu",
        anywhere: POWERPC_ANYWHERE,
        inside: &["R_PPC64_REL24"],
        at_least: 500,
    },
    Target {
        folder: "powerpc64",
        triple: "powerpc64-unknown-linux-gnu",
        anywhere: POWERPC_ANYWHERE,
        inside: &["R_PPC64_REL24"],
        at_least: 500,
    },
    Target {
        folder: "powerpc64-elfv2",
        triple: "powerpc64-unknown-linux-musl",
        anywhere: POWERPC_ANYWHERE,
        inside: &["R_PPC64_REL24"],
        at_least: 500,
    },
    Target {
        folder: "s390x",
        triple: "s390x-unknown-linux-gnu",
        anywhere: &["R_390_64", "R_390_PC32", "R_390_PC32DBL"],
        inside: &[],
        at_least: 450,
    },
];

/// Symbols outside get addresses that depend on nothing but their names.
fn external(name: &str) -> u64 {
    0x2000_0000 + name.bytes().map(u64::from).sum::<u64>() * 0x10
}

fn tool(version: &str) -> Option<PathBuf> {
    let name = format!("llvm-rtdyld-{version}");
    let candidates = [
        PathBuf::from(&name),
        PathBuf::from(format!("/usr/lib/llvm-{version}/bin/llvm-rtdyld")),
    ];
    candidates.into_iter().find(|tool| is_there(tool))
}

/// The objects of a folder with the version of llc that made each, which their names tell.
fn objects(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("objects").join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            // Relocations of AArch64's tiny code model are not implemented there.
            let takes = !name.contains("-tiny.");
            let version = name.strip_suffix(".o")?.split_once(".llc")?.1.split('.').next()?;
            takes.then(|| (path.clone(), version.to_owned()))
        })
        .collect();
    found.sort();
    found
}

/// Whether the section is the global offset table or the stubs, which are not in the object: rtdyld
/// has its own in another place.
fn is_added(object: &Graph<'_>, section: &Section<'_>) -> bool {
    section.file() >= object.files().len()
}

/// Whether the field depends only on the addresses of sections and of symbols outside.
fn is_comparable(target: &Target, object: &Graph<'_>, section: &Section<'_>, edge: &Edge) -> bool {
    let (name, symbol) = (edge.relocation().name(), &object.symbols()[edge.target().index()]);
    let sections = object.sections();
    if is_added(object, section) {
        return false;
    }
    // Checks name sections, so those that share a name cannot be asked for.
    if sections
        .iter()
        .filter(|other| other.name() == section.name())
        .count()
        > 1
    {
        return false;
    }
    let target_name = match symbol.definition() {
        Definition::Section(id, _) => Some(sections[id.index()].name()),
        _ => None,
    };
    let has_toc = sections.iter().any(|section| section.name() == ".toc");
    if target_name == Some("COMMON") || symbol.definition() == Definition::GotBase && !has_toc {
        // Without that section rtdyld takes another one's address.
        return false;
    }
    if object.has_descriptors() && section.role() == SectionRole::StackMaps {
        return false;
    }
    if name == "R_PPC64_TOC" && !has_toc || name.starts_with("R_PPC64_TOC16") && target_name != Some(".toc") {
        // To other sections it counts from the section's start.
        return false;
    }
    // From section to section it goes by a stub on all but x86-64.
    let inside = target_name.is_some_and(|name| target.folder == "x86_64" || name == section.name());
    target.anywhere.contains(&name) || inside && target.inside.contains(&name)
}

/// The bytes as rtdyld reads them: as a number of the target's byte order.
fn number(bytes: &[u8], endian: Endian) -> u64 {
    let shift = |number, byte: &u8| number << 8 | u64::from(*byte);
    match endian {
        Endian::Little => bytes.iter().rev().fold(0, shift),
        Endian::Big => bytes.iter().fold(0, shift),
    }
}

fn bytes_at(linked: &LinkedImage, addr: CodeAddr, len: usize) -> &[u8] {
    let segment = linked
        .segments
        .iter()
        .find(|segment| addr.is_within(segment.addr, segment.size))
        .unwrap();
    let start = (addr.get() - segment.addr.get()) as usize;
    &segment.bytes[start..start + len]
}

/// The checks for rtdyld, one for each comparable field, and how many they are.
fn checks(
    target: &Target,
    name: &str,
    layout: &Layout<'_>,
    addrs: &SegmentAddrs,
    linked: &LinkedImage,
) -> (String, usize) {
    let (mut text, mut count) = (String::new(), 0);
    let object = layout.graph();
    for (index, section) in object.sections().iter().enumerate() {
        for edge in section
            .edges()
            .iter()
            .filter(|edge| is_comparable(target, object, section, edge))
        {
            let width = usize::from(edge.relocation().width());
            let bytes = match layout.section_addr(index, addrs) {
                Some(addr) => bytes_at(linked, addr.plus(Len::new(edge.offset())).unwrap(), width),
                None => {
                    assert_eq!(section.role(), SectionRole::StackMaps);
                    &linked.image.stack_maps[edge.offset() as usize..][..width]
                }
            };
            let value = number(bytes, object.endian());
            let place = format!("section_addr({name}, {}) + {:#x}", section.name(), edge.offset());
            writeln!(text, "# rtdyld-check: *{{{width}}}({place}) = {value:#x}").unwrap();
            count += 1;
        }
    }
    (text, count)
}

fn verify(tool: &PathBuf, target: &Target, path: &Path, spoil: bool) -> Result<usize, String> {
    let bytes = std::fs::read(path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let layout = Object::parse(&bytes).unwrap().layout().unwrap();
    let (addrs, _): (SegmentAddrs, _) = layout.contiguous(BASE, Len::new(4096)).unwrap();
    let linked = layout
        .link(&addrs, &|name| Some(CodeAddr::new(external(name))))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut text, count) = checks(target, name, &layout, &addrs, &linked);
    if spoil {
        text = text.replacen(" = 0x", " = 0x1", 1);
    }
    let file = std::env::temp_dir().join(format!(
        "patchpoint-{}-{}-{name}.check",
        std::process::id(),
        target.folder
    ));
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(tool);
    command.current_dir(path.parent().unwrap());
    command
        .args([&format!("-triple={}", target.triple), "-verify"])
        .arg(format!("-check={}", file.display()));
    for (index, section) in layout.graph().sections().iter().enumerate() {
        let addr = layout.section_addr(index, &addrs);
        let named = section.size() > 0 && section.name() != "COMMON" && !is_added(layout.graph(), section);
        if let Some(addr) = addr.filter(|_| named) {
            command.arg(format!("-map-section={name},{}={}", section.name(), addr.get()));
        }
    }
    for symbol in layout.graph().symbols() {
        if matches!(symbol.definition(), Definition::Undefined { .. }) && !symbol.name().is_empty() {
            command.arg(format!(
                "-dummy-extern={}={}",
                symbol.name(),
                external(symbol.name())
            ));
        }
    }
    let output = command.arg(name).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    if output.status.success() {
        return Ok(count);
    }
    Err(format!(
        "{}: {}",
        path.display(),
        String::from_utf8_lossy(&output.stderr)
    ))
}

fn compare(folder: &str) {
    let target = TARGETS.iter().find(|target| target.folder == folder).unwrap();
    // By version of LLVM, of which a machine may have one: what its tool says of how many fields.
    let mut versions = BTreeMap::new();
    for (path, version) in objects(folder) {
        // To start it takes as long as to compare an object.
        let (found, fields) = versions
            .entry(version.clone())
            .or_insert_with(|| (tool(&version), 0));
        match found {
            Some(tool) => {
                let verified = verify(tool, target, &path, false);
                *fields += verified.unwrap_or_else(|error| panic!("{error}"));
            }
            None => println!("skipped: no llvm-rtdyld-{version}"),
        }
    }
    assert!(!versions.is_empty());
    for (version, (_, fields)) in versions.iter().filter(|(_, (tool, _))| tool.is_some()) {
        println!("{folder}: {fields} fields of LLVM {version}'s objects are equal");
        assert!(*fields >= target.at_least, "{version}: {fields}");
    }
}

#[test]
fn x86_64_fields_are_those_of_llvm() {
    compare("x86_64");
}

#[test]
fn aarch64_fields_are_those_of_llvm() {
    compare("aarch64");
}

#[test]
fn powerpc64_fields_are_those_of_llvm() {
    compare("powerpc64");
}

#[test]
fn powerpc64le_fields_are_those_of_llvm() {
    compare("powerpc64le");
}

#[test]
fn powerpc64_elfv2_fields_are_those_of_llvm() {
    compare("powerpc64-elfv2");
}

#[test]
fn s390x_fields_are_those_of_llvm() {
    compare("s390x");
}

/// The comparison can fail: one spoilt value is noticed, in either byte order.
#[test]
fn a_wrong_field_is_noticed() {
    for target in TARGETS {
        let relocs = objects(target.folder)
            .into_iter()
            .find(|(path, _)| path.file_name().unwrap().to_str().unwrap().starts_with("relocs."));
        let Some((path, version)) = relocs else { continue };
        match tool(&version) {
            Some(tool) => assert!(verify(&tool, target, &path, true).is_err(), "{}", target.folder),
            None => println!("skipped: no llvm-rtdyld-{version}"),
        }
    }
}
