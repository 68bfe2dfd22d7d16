//! Relocated bytes against the GNU linker of each architecture: every object, and every set of
//! objects that refer to each other, is linked with a script that puts its sections where our
//! loader put them, and each relocated field is compared. For RISC-V, on which `llvm-rtdyld` does
//! not work, it is the only such comparison; for the others it adds what rtdyld cannot do.
//!
//! Left out is what linkers decide differently by design: where the global offset table is, calls
//! that need a stub, and on PowerPC ELFv1 the functions of the stack map. Those have tests of their
//! own in `load_cross.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use asm_tests::tools::is_there;
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::image::{
    Definition, Edge, Graph, Layout, LinkedImage, Object, Scope, Section, SectionRole, SegmentAddrs,
};

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
        folder: "powerpc64-elfv2",
        tools: "powerpc64-linux-gnu",
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
    Target {
        folder: "link/powerpc64-elfv2",
        tools: "powerpc64-linux-gnu",
        options: POWERPC_OPTIONS,
        far_calls: false,
        at_least: 50,
    },
];

const C: Target = Target {
    folder: "",
    tools: "",
    options: &[],
    far_calls: false,
    at_least: 40,
};

/// C programs of several files.
const SETS: &[Target] = &[
    Target {
        folder: "link/c/x86_64",
        tools: "x86_64-linux-gnu",
        options: &["--no-relax", "-z", "noseparate-code"],
        far_calls: true,
        ..C
    },
    Target {
        folder: "link/c/aarch64",
        tools: "aarch64-linux-gnu",
        ..C
    },
    Target {
        folder: "link/c/powerpc64",
        tools: "powerpc64-linux-gnu",
        options: POWERPC_OPTIONS,
        ..C
    },
    Target {
        folder: "link/c/powerpc64le",
        tools: "powerpc64le-linux-gnu",
        options: POWERPC_OPTIONS,
        ..C
    },
    Target {
        folder: "link/c/powerpc64_elfv2",
        tools: "powerpc64-linux-gnu",
        options: POWERPC_OPTIONS,
        ..C
    },
    Target {
        folder: "link/c/s390x",
        tools: "s390x-linux-gnu",
        far_calls: true,
        ..C
    },
    Target {
        folder: "link/c/riscv64",
        tools: "riscv64-linux-gnu",
        options: &["--no-relax"],
        far_calls: true,
        ..C
    },
];

/// Near enough for the tiny code model of AArch64, which reaches 1 MiB.
fn external(name: &str) -> u64 {
    BASE + 0x8_0000 + name.bytes().map(u64::from).sum::<u64>() * 0x10
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn file_name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn is_object(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "o")
}

/// What is linked together: each object of a folder by itself, or those of each folder whose name
/// starts so.
fn sets(folder: &str) -> Vec<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("objects").join(folder);
    if folder.is_dir() {
        let mut paths = entries(&folder);
        paths.retain(|path| is_object(path) && file_name(path).contains(".llc"));
        return paths.into_iter().map(|path| vec![path]).collect();
    }
    let start = format!("{}-", file_name(&folder));
    let mut folders = entries(folder.parent().unwrap());
    folders.retain(|path| file_name(path).starts_with(&start));
    let objects = |folder: PathBuf| {
        entries(&folder)
            .into_iter()
            .filter(|path| is_object(path))
            .collect()
    };
    folders.into_iter().map(objects).collect()
}

/// Where each section is for the linker: those of a file that share a name get one address, and are
/// not compared.
fn places(layout: &Layout<'_>, addrs: &SegmentAddrs) -> Vec<Option<u64>> {
    let sections = layout.graph().sections();
    let mut count = HashMap::new();
    for section in sections
        .iter()
        .filter(|section| section.role() != SectionRole::Ignored)
    {
        *count.entry((section.file(), section.name())).or_insert(0) += 1;
    }
    let mut maps = MAPS;
    let files = layout.graph().files().len();
    let mut place = |(index, section): (usize, &Section<'_>)| {
        // The global offset table and the stubs are in no file.
        if section.file() >= files || count.get(&(section.file(), section.name())) != Some(&1) {
            return None;
        }
        if section.role() != SectionRole::StackMaps {
            return layout.section_addr(index, addrs).map(CodeAddr::get);
        }
        let place = maps;
        maps += u64::from(section.size()).next_multiple_of(8);
        Some(place)
    };
    sections.iter().enumerate().map(&mut place).collect()
}

/// A script that puts each section of each file at its place. A first file that has none of a name
/// leaves it to no other.
fn script(graph: &Graph<'_>, places: &[Option<u64>], files: &[PathBuf]) -> String {
    // The first byte of the flat image is at a known address.
    let mut text = format!("SECTIONS {{\n .anchor {:#x} : {{ QUAD(0) QUAD(0) }}\n", BASE - 16);
    let mut placed: Vec<_> = graph
        .sections()
        .iter()
        .zip(places)
        .filter(|(section, _)| section.size() > 0)
        .collect();
    placed.sort_by_key(|(_, place)| **place);
    for (index, (section, place)) in placed.into_iter().enumerate() {
        let Some(place) = place else { continue };
        let file = files[section.file()].display();
        let input = match section.name() {
            "COMMON" => "*(COMMON)".to_owned(),
            name => format!("{file}({name})"),
        };
        // The first file's section keeps its name, by which the linker finds the table that it
        // counts from.
        let name = match (section.name(), section.file()) {
            ("COMMON", _) => "common".to_owned(),
            (name, 0) => name.to_owned(),
            (name, _) => format!("{name}.{index}"),
        };
        writeln!(text, " {name} {place:#x} : SUBALIGN(1) {{ {input} }}").unwrap();
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

/// What the GNU linker makes of the set: the bytes from 16 before [`BASE`] on.
fn link(target: &Target, set: &[PathBuf], layout: &Layout<'_>, places: &[Option<u64>]) -> Vec<u8> {
    let graph = layout.graph();
    let folder = target.folder.replace('/', "-");
    let prefix = format!("patchpoint-{}-{folder}-{}", std::process::id(), name_of(set));
    let file = |suffix: &str| std::env::temp_dir().join(format!("{prefix}.{suffix}"));
    let (script_file, linked, flat) = (file("ld"), file("elf"), file("bin"));
    let unmerged: Vec<_> = (0..set.len()).map(|index| file(&format!("{index}.o"))).collect();
    std::fs::write(&script_file, script(graph, places, &unmerged)).unwrap();

    for (index, (from, to)) in set.iter().zip(&unmerged).enumerate() {
        // Constants that are equal would be merged.
        let mut objcopy = Command::new(format!("{}-objcopy", target.tools));
        let sections = graph.sections().iter().filter(|section| section.file() == index);
        for section in sections
            .map(Section::name)
            .filter(|name| name.contains("rodata."))
        {
            objcopy.arg(format!(
                "--set-section-flags={section}=alloc,readonly,data,contents"
            ));
        }
        run(objcopy.arg(from).arg(to), from);
    }

    let path = &set[0];
    let mut ld = Command::new(format!("{}-ld", target.tools));
    ld.args(target.options);
    ld.args(["-static", "--no-gc-sections", "--no-check-sections", "-e", "0"]);
    for symbol in graph.symbols() {
        let outside = matches!(symbol.definition(), Definition::Undefined { .. });
        if outside && symbol.scope() != Scope::Local && !symbol.name().is_empty() {
            let (name, addr) = (symbol.name(), external(symbol.name()));
            ld.arg(format!("--defsym={name}={addr:#x}"));
        }
    }
    if set.len() > 1 {
        // In what order the linker places common symbols, no script says.
        for symbol in graph.symbols() {
            let Definition::Section(id, offset) = symbol.definition() else {
                continue;
            };
            if let ("COMMON", Some(place)) = (graph.sections()[id.index()].name(), places[id.index()]) {
                let at = place + u64::from(offset);
                ld.arg(format!("--defsym={}={at:#x}", symbol.name()));
            }
        }
    }
    ld.arg("-T")
        .arg(&script_file)
        .arg("-o")
        .arg(&linked)
        .args(&unmerged);
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
    for file in [script_file, linked, flat].iter().chain(&unmerged) {
        std::fs::remove_file(file).unwrap();
    }
    bytes
}

/// The object's, or that of its folder and how many there are.
fn name_of(set: &[PathBuf]) -> String {
    match set {
        [path] => file_name(path).to_owned(),
        _ => format!("{}-{}", file_name(set[0].parent().unwrap()), set.len()),
    }
}

/// Whether the field depends only on the addresses of sections and of symbols outside.
fn is_comparable(target: &Target, graph: &Graph<'_>, section: &Section<'_>, edge: &Edge) -> bool {
    let (name, symbol) = (edge.relocation().name(), &graph.symbols()[edge.target().index()]);
    let inside = matches!(symbol.definition(), Definition::Section(..));
    let is_call = ["CALL", "JUMP26", "PLT", "REL24"]
        .iter()
        .any(|part| name.contains(part));
    // The linker writes shorter pointers in the one, and in the other a TOC pointer that does not
    // depend on the place. Both are compared with rtdyld's.
    let rewritten = section.name() == ".eh_frame" && !name.contains("RISCV") || name.contains("REL16_");
    // Without a table of the object's own the linker takes another section's address for it.
    let of_toc =
        name.contains("TOC16") || name == "R_PPC64_TOC" || symbol.definition() == Definition::GotBase;
    let no_toc = of_toc && !graph.sections().iter().any(|section| section.name() == ".toc");
    if rewritten || no_toc || name.contains("GOT") || is_call && !inside && !target.far_calls {
        return false;
    }
    if name.starts_with("R_RISCV_PCREL_LO12") {
        let Definition::Section(id, offset) = symbol.definition() else {
            return false;
        };
        let mut uppers = graph.sections()[id.index()]
            .edges()
            .iter()
            .filter(|upper| upper.offset() == offset);
        return uppers.all(|upper| !upper.relocation().name().contains("GOT"));
    }
    !(graph.has_descriptors() && section.role() == SectionRole::StackMaps)
}

fn ours(linked: &LinkedImage, place: u64, len: usize) -> &[u8] {
    if (MAPS..MAPS + 0x10_0000).contains(&place) {
        return &linked.image.stack_maps[(place - MAPS) as usize..][..len];
    }
    let segment = linked
        .segments
        .iter()
        .find(|segment| CodeAddr::new(place).is_within(segment.addr, segment.size))
        .unwrap();
    &segment.bytes[(place - segment.addr.get()) as usize..][..len]
}

fn verify(target: &Target, set: &[PathBuf]) -> usize {
    let files: Vec<_> = set.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let mut graph = Graph::new(file_name(&set[0]), Object::parse(&files[0]).unwrap());
    for (path, bytes) in set.iter().zip(&files).skip(1) {
        graph.add(file_name(path), Object::parse(bytes).unwrap()).unwrap();
    }
    let layout = graph.layout().unwrap();
    let (addrs, _) = layout.contiguous(CodeAddr::new(BASE), Len::new(4096)).unwrap();
    let linked = layout
        .link(&addrs, &|name| Some(CodeAddr::new(external(name))))
        .unwrap();
    let graph = layout.graph();
    let places = places(&layout, &addrs);
    let theirs = link(target, set, &layout, &places);
    let mut count = 0;
    for (section, place) in graph.sections().iter().zip(&places) {
        let Some(start) = place else { continue };
        for edge in section
            .edges()
            .iter()
            .filter(|edge| is_comparable(target, graph, section, edge))
        {
            let place = start + u64::from(edge.offset());
            let len = usize::from(edge.relocation().width());
            let expected = &theirs[(place - BASE + 16) as usize..][..len];
            let found = ours(&linked, place, len);
            let (name, symbol) = (
                edge.relocation().name(),
                graph.symbols()[edge.target().index()].name(),
            );
            assert_eq!(
                found,
                expected,
                "{}: {name} at {}:{}+{:#x} for {symbol}",
                name_of(set),
                graph.files()[section.file()],
                section.name(),
                edge.offset()
            );
            count += usize::from(len > 0);
        }
    }
    count
}

fn compare(folder: &str) {
    let target = TARGETS
        .iter()
        .chain(SETS)
        .find(|target| target.folder == folder)
        .unwrap();
    let (ld, objcopy) = (
        format!("{}-ld", target.tools),
        format!("{}-objcopy", target.tools),
    );
    if !is_there(&ld) || !is_there(&objcopy) {
        println!("skipped: no {ld} or {objcopy}");
        return;
    }
    let sets = sets(folder);
    let fields: usize = sets.iter().map(|set| verify(target, set)).sum();
    println!("{folder}: {fields} fields of {} sets are equal", sets.len());
    assert!(fields >= target.at_least || sets.is_empty(), "{fields}");
}

/// What several files say of each other's symbols, and what is weak, common, hidden and local.
#[test]
fn fields_of_several_files_are_those_of_the_linker() {
    for target in SETS {
        compare(target.folder);
    }
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
fn powerpc64_elfv2_fields_are_those_of_the_linker() {
    compare("powerpc64-elfv2");
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
    compare("link/powerpc64-elfv2");
}
