//! Relocated bytes against the GNU linker of each architecture: every object is linked with a script that puts its sections
//! where our loader put them, and each relocated field is compared. For RISC-V, on which `llvm-rtdyld` does not work, it
//! is the only such comparison; for the others it adds what rtdyld cannot do.
//!
//! Left out is what linkers decide differently by design: where the global offset table is, calls that need a stub, and
//! on PowerPC ELFv1 the functions of the stack map. Those have tests of their own in `load_cross.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use patchpoint::addr::{CodeAddr, Len};
use patchpoint::image::{Definition, Edge, Layout, LinkedImage, Object, Section, SectionRole, SegmentAddrs};

const BASE: u64 = 0x1000_0000;
/// Where the linker puts the stack maps, which have no address with us.
const MAPS: u64 = 0x1100_0000;

struct Target {
    folder: &'static str,
    tools: &'static str,
    options: &'static [&'static str],
    /// Whether a call reaches what is outside without a stub.
    far_calls: bool,
    at_least: usize,
}

const POWERPC_OPTIONS: &[&str] = &["--no-toc-optimize", "--no-opd-optimize", "--no-multi-toc"];

const TARGETS: &[Target] = &[
    Target {
        folder: "aarch64",
        tools: "aarch64-linux-gnu",
        options: &[],
        far_calls: false,
        at_least: 500,
    },
    Target {
        folder: "powerpc64",
        tools: "powerpc64-linux-gnu",
        options: POWERPC_OPTIONS,
        far_calls: false,
        at_least: 500,
    },
    Target {
        folder: "powerpc64le",
        tools: "powerpc64le-linux-gnu",
        options: POWERPC_OPTIONS,
        far_calls: false,
        at_least: 500,
    },
    Target {
        folder: "s390x",
        tools: "s390x-linux-gnu",
        options: &[],
        far_calls: true,
        at_least: 500,
    },
    Target {
        folder: "riscv64",
        tools: "riscv64-linux-gnu",
        options: &["--no-relax"],
        far_calls: true,
        at_least: 200,
    },
    Target {
        folder: "riscv64c",
        tools: "riscv64-linux-gnu",
        options: &["--no-relax"],
        far_calls: true,
        at_least: 200,
    },
    Target {
        folder: "link/riscv64",
        tools: "riscv64-linux-gnu",
        options: &["--no-relax"],
        far_calls: true,
        at_least: 200,
    },
    Target {
        folder: "link/powerpc64le",
        tools: "powerpc64le-linux-gnu",
        options: POWERPC_OPTIONS,
        far_calls: false,
        at_least: 50,
    },
];

/// Near enough for the tiny code model of AArch64, which reaches 1 MiB.
fn external(name: &str) -> u64 {
    BASE + 0x8_0000 + name.bytes().map(u64::from).sum::<u64>() * 0x10
}

fn is_there(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

fn objects(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("objects").join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths
        .filter(|path| path.file_name().unwrap().to_str().unwrap().contains(".llc"))
        .filter(|path| path.extension().is_some_and(|extension| extension == "o"))
        .collect();
    found.sort();
    found
}

/// Where each section is for the linker: those that share a name get one address, and are not compared.
fn places(layout: &Layout<'_>, addrs: &SegmentAddrs) -> Vec<Option<u64>> {
    let sections = layout.object().sections();
    let mut count = HashMap::new();
    for section in sections
        .iter()
        .filter(|section| section.role() != SectionRole::Ignored)
    {
        *count.entry(section.name()).or_insert(0) += 1;
    }
    let place = |(index, section): (usize, &Section<'_>)| match section.role() {
        _ if count.get(section.name()) != Some(&1) => None,
        SectionRole::StackMaps => Some(MAPS),
        _ => layout.section_addr(index, addrs).map(CodeAddr::get),
    };
    sections.iter().enumerate().map(place).collect()
}

fn script(object: &Object<'_>, places: &[Option<u64>]) -> String {
    // The first byte of the flat image is at a known address.
    let mut text = format!("SECTIONS {{\n .anchor {:#x} : {{ QUAD(0) QUAD(0) }}\n", BASE - 16);
    let mut placed: Vec<_> = object
        .sections()
        .iter()
        .zip(places)
        .filter(|(section, _)| section.size() > 0)
        .collect();
    placed.sort_by_key(|(_, place)| **place);
    for (section, place) in placed {
        let Some(place) = place else { continue };
        let (name, input) = match section.name() {
            "COMMON" => ("common", "COMMON"),
            name => (name, name),
        };
        writeln!(text, " {name} {place:#x} : SUBALIGN(1) {{ *({input}) }}").unwrap();
    }
    // The linker's own, which is not compared.
    for (index, name) in [".got", ".got.plt", ".plt", ".iplt", ".rela.iplt", ".igot.plt"]
        .iter()
        .enumerate()
    {
        writeln!(
            text,
            " {name} {:#x} : {{ *({name}) }}",
            BASE as usize + 0x4_0000 + index * 0x1000
        )
        .unwrap();
    }
    text.push_str(" .rest 0x19000000 : { *(*) }\n}\n");
    text
}

fn run(command: &mut Command, path: &Path) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", path.display());
}

/// What the GNU linker makes of the object: the bytes from 16 before [`BASE`] on.
fn link(target: &Target, path: &Path, object: &Object<'_>, script: &str) -> Vec<u8> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let folder = target.folder.replace('/', "-");
    let prefix = format!("patchpoint-{}-{folder}-{name}", std::process::id());
    let file = |suffix: &str| std::env::temp_dir().join(format!("{prefix}.{suffix}"));
    let (script_file, unmerged, linked, flat) = (file("ld"), file("o"), file("elf"), file("bin"));
    std::fs::write(&script_file, script).unwrap();

    // Constants that are equal would be merged.
    let mut objcopy = Command::new(format!("{}-objcopy", target.tools));
    let sections = object.sections().iter().map(Section::name);
    for section in sections.filter(|name| name.contains("rodata.")) {
        objcopy.arg(format!(
            "--set-section-flags={section}=alloc,readonly,data,contents"
        ));
    }
    run(objcopy.arg(path).arg(&unmerged), path);

    let mut ld = Command::new(format!("{}-ld", target.tools));
    ld.args(target.options);
    ld.args(["-static", "--no-gc-sections", "--no-check-sections", "-e", "0"]);
    for symbol in object.symbols() {
        if matches!(symbol.definition(), Definition::Undefined { .. }) && !symbol.name().is_empty() {
            let (name, addr) = (symbol.name(), external(symbol.name()));
            ld.arg(format!("--defsym={name}={addr:#x}"));
        }
    }
    ld.arg("-T")
        .arg(&script_file)
        .arg("-o")
        .arg(&linked)
        .arg(&unmerged);
    run(&mut ld, path);

    let mut objcopy = Command::new(format!("{}-objcopy", target.tools));
    objcopy.args(["-O", "binary"]);
    objcopy.args([
        "--remove-section=.rest",
        "--remove-section=*got*",
        "--remove-section=*plt*",
    ]);
    run(objcopy.arg(&linked).arg(&flat), path);
    let bytes = std::fs::read(&flat).unwrap();
    for file in [script_file, unmerged, linked, flat] {
        std::fs::remove_file(file).unwrap();
    }
    bytes
}

/// Whether the field depends only on the addresses of sections and of symbols outside.
fn is_comparable(target: &Target, object: &Object<'_>, section: &Section<'_>, edge: &Edge) -> bool {
    let (name, symbol) = (edge.relocation().name(), &object.symbols()[edge.target().index()]);
    let inside = matches!(symbol.definition(), Definition::Section(..));
    let is_call = ["CALL", "JUMP26", "PLT", "REL24"]
        .iter()
        .any(|part| name.contains(part));
    // The linker writes shorter pointers in the one, and in the other a TOC pointer that does not depend on the place. Both
    // are compared with rtdyld's.
    let rewritten = section.name() == ".eh_frame" && !name.contains("RISCV") || name.contains("REL16_");
    // Without a table of the object's own the linker takes another section's address for it.
    let of_toc =
        name.contains("TOC16") || name == "R_PPC64_TOC" || symbol.definition() == Definition::GotBase;
    let no_toc = of_toc && !object.sections().iter().any(|section| section.name() == ".toc");
    if rewritten || no_toc || name.contains("GOT") || is_call && !inside && !target.far_calls {
        return false;
    }
    if name.starts_with("R_RISCV_PCREL_LO12") {
        let Definition::Section(id, offset) = symbol.definition() else {
            return false;
        };
        let mut uppers = object.sections()[id.index()]
            .edges()
            .iter()
            .filter(|upper| upper.offset() == offset);
        return uppers.all(|upper| !upper.relocation().name().contains("GOT"));
    }
    !(object.has_descriptors() && section.role() == SectionRole::StackMaps)
}

fn ours(linked: &LinkedImage, place: u64, len: usize) -> &[u8] {
    if (MAPS..MAPS + 0x10_0000).contains(&place) {
        return &linked.image.stack_maps[(place - MAPS) as usize..][..len];
    }
    let segment = linked
        .segments
        .iter()
        .find(|segment| CodeAddr::new(place).is_within(segment.addr, Len::of(&segment.bytes).unwrap()))
        .unwrap();
    &segment.bytes[(place - segment.addr.get()) as usize..][..len]
}

fn verify(target: &Target, path: &Path) -> usize {
    let bytes = std::fs::read(path).unwrap();
    let layout = Object::parse(&bytes).unwrap().layout().unwrap();
    let (addrs, _) = layout.contiguous(CodeAddr::new(BASE), Len::new(4096)).unwrap();
    let linked = layout
        .link(&addrs, &|name| Some(CodeAddr::new(external(name))))
        .unwrap();
    let object = layout.object();
    let places = places(&layout, &addrs);
    let theirs = link(target, path, object, &script(object, &places));
    let mut count = 0;
    for (section, place) in object.sections().iter().zip(&places) {
        let Some(start) = place else { continue };
        for edge in section
            .edges()
            .iter()
            .filter(|edge| is_comparable(target, object, section, edge))
        {
            let place = start + u64::from(edge.offset());
            let len = usize::from(edge.relocation().width());
            let expected = &theirs[(place - BASE + 16) as usize..][..len];
            let found = ours(&linked, place, len);
            let (name, symbol) = (
                edge.relocation().name(),
                object.symbols()[edge.target().index()].name(),
            );
            assert_eq!(
                found,
                expected,
                "{}: {name} at {}+{:#x} for {symbol}",
                path.display(),
                section.name(),
                edge.offset()
            );
            count += usize::from(len > 0);
        }
    }
    count
}

fn compare(folder: &str) {
    let target = TARGETS.iter().find(|target| target.folder == folder).unwrap();
    let (ld, objcopy) = (
        format!("{}-ld", target.tools),
        format!("{}-objcopy", target.tools),
    );
    if !is_there(&ld) || !is_there(&objcopy) {
        println!("skipped: no {ld} or {objcopy}");
        return;
    }
    let objects = objects(folder);
    let fields: usize = objects.iter().map(|path| verify(target, path)).sum();
    println!("{folder}: {fields} fields of {} objects are equal", objects.len());
    assert!(fields >= target.at_least || objects.is_empty(), "{fields}");
}

#[test]
fn aarch64_fields_are_those_of_the_linker() {
    compare("aarch64");
}

#[test]
fn powerpc64_fields_are_those_of_the_linker() {
    compare("powerpc64");
}

#[test]
fn powerpc64le_fields_are_those_of_the_linker() {
    compare("powerpc64le");
}

#[test]
fn s390x_fields_are_those_of_the_linker() {
    compare("s390x");
}

#[test]
fn riscv64_fields_are_those_of_the_linker() {
    compare("riscv64");
}

#[test]
fn riscv64_compressed_fields_are_those_of_the_linker() {
    compare("riscv64c");
}

#[test]
fn relaxed_riscv64_fields_are_those_of_the_linker() {
    compare("link/riscv64");
}

#[test]
fn power10_fields_are_those_of_the_linker() {
    compare("link/powerpc64le");
}
