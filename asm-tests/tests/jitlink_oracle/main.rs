//! All bytes of linked C objects against llvm-jitlink 19, which links each at fixed addresses; ours
//! are linked at the same ones: every section at the place where it has it, the entries of the
//! global offset table and the stubs in its order. The set of sections has to be the same, too, so
//! pruning is compared as well.
//!
//! `expected.txt` beside the objects has what jitlink made, as places and hashes: it is compared
//! with where there is no LLVM. Where there is, it is asked again, and what it answers is compared
//! byte by byte; its stubs and entries are in another order each time. With `PATCHPOINT_RECORD=1`
//! its answers become `expected.txt`.
//!
//! Loads from the table are rewritten by `relax` where jitlink rewrites them: on x86-64 alone, and
//! there in loads, calls and jumps, not in comparisons and other operations
//! (`ours::keep_operations`).
//!
//! What differs by design is named in [`DIFFERENT`], each with the reason; an object that stops
//! being different fails the test.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

mod ours;
mod record;
mod theirs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use patchpoint::image::{Definition, Graph};

use record::{Record, hash};

/// An object that one of both does not link, or not alike: what its name ends in, what the
/// comparison says, and why.
struct Different {
    object: &'static str,
    said: &'static str,
    why: &'static str,
}

const DIFFERENT: &[Different] = &[Different {
    object: "/tls.o",
    said: "thread-local",
    why: "thread-local storage is refused",
}];

/// At least so many are compared.
const OBJECTS: usize = 264;
const SECTIONS: usize = 1_790;
const BYTES: usize = 373_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("objects/jitlink_c")
}

/// Paths of the objects, from the folder on.
fn objects() -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let entry = entry.unwrap();
        let folder = entry.file_name().into_string().unwrap();
        if !folder.starts_with("x86_64-") && !folder.starts_with("aarch64-") {
            continue;
        }
        for object in std::fs::read_dir(entry.path()).unwrap() {
            found.push(format!(
                "{folder}/{}",
                object.unwrap().file_name().into_string().unwrap()
            ));
        }
    }
    found.sort();
    found
}

/// Where what is outside is. Half of it is so far away that only the table reaches it, unless the
/// code needs all of it near. Of AArch64 no branch reaches any of it: JITLink does not let those
/// pass by their stubs.
fn outside(object: &str, name: &str) -> Option<u64> {
    // Weak references to nothing.
    if name.starts_with("maybe") {
        return None;
    }
    let at = hash(name.as_bytes());
    let far = at & 1 == 1 && object.contains("-pic");
    Some(if far { 0x7000_0000_0000 } else { 0x2000_0000 } + (at >> 1 & 0xfff) * 16)
}

fn compare(name: &str, ours: &BTreeMap<String, Vec<u8>>, record: &Record) -> Result<usize, String> {
    let mut count = 0;
    for section in &record.sections {
        let bytes = &ours[&section.name];
        match section.hash {
            Some(expected) if hash(bytes) != expected => {
                return Err(format!("{name}: {} differs", section.name));
            }
            None if bytes.iter().any(|byte| *byte != 0) => {
                return Err(format!("{name}: {} is not zero", section.name));
            }
            _ => count += bytes.len(),
        }
    }
    Ok(count)
}

/// Asks jitlink, and shows the first difference in full.
fn ask(name: &str, graph: &Graph<'_>) -> Result<theirs::Answer, String> {
    let undefined = graph
        .symbols()
        .iter()
        .filter(|symbol| matches!(symbol.definition(), Definition::Undefined { .. }));
    let outside: Vec<(String, u64)> = undefined
        .filter_map(|symbol| Some((symbol.name().to_owned(), outside(name, symbol.name())?)))
        .collect();
    let sections: Vec<(String, usize)> = ours::placed(graph)
        .filter(|(_, section)| section.bytes().iter().any(|byte| *byte != 0) || !section.edges().is_empty())
        .map(|(_, section)| {
            let terminator = if section.name() == ".eh_frame" { 4 } else { 0 };
            (section.name().to_owned(), section.size() as usize + terminator)
        })
        .collect();
    let entry = graph
        .symbols()
        .iter()
        .find(|symbol| ours::is_defined(symbol))
        .unwrap();
    let ids = || graph.symbol_ids();
    theirs::link(&theirs::Request {
        object: &folder().join(name),
        entry: entry.name(),
        outside: &outside,
        sections: &sections,
        entries: ids().filter(|id| graph.got_entry(*id).is_some()).count(),
        stubs: ids().filter(|id| graph.stub(*id).is_some()).count(),
    })
}

fn first_difference(ours: &BTreeMap<String, Vec<u8>>, theirs: &BTreeMap<String, Vec<u8>>) -> Option<String> {
    theirs.iter().find_map(|(section, theirs)| {
        let ours = &ours[section];
        let at = ours.iter().zip(theirs).position(|(a, b)| a != b)?;
        let around = at.saturating_sub(4)..(at + 8).min(theirs.len());
        Some(format!(
            "{section}+{at:#x}: {:02x?}, jitlink {:02x?}",
            &ours[around.clone()],
            &theirs[around]
        ))
    })
}

/// How much of an object is equal, with how many calls of jitlink's put right.
#[derive(Clone, Copy, Default)]
struct Equal {
    sections: usize,
    bytes: usize,
    corrected: usize,
}

/// Compares one object.
fn check(name: &str, record: Option<&Record>, fresh: &mut BTreeMap<String, Record>) -> Result<Equal, String> {
    let bytes = std::fs::read(folder().join(name)).unwrap();
    let read = || ours::graph(name, &bytes).map_err(|error| format!("{name}: {error}"));
    // What is refused needs no record.
    drop(read()?);
    let outside = |symbol: &str| outside(name, symbol);
    let mut equal = None;
    if theirs::is_there() {
        let asked = ask(name, &read()?).map_err(|error| format!("{name}: jitlink: {error}"))?;
        let linked = ours::link(read()?, &asked.record, outside).map_err(|error| format!("{name}: {error}"));
        fresh.insert(name.to_owned(), asked.record.clone());
        let linked = linked?;
        if let Some(difference) = first_difference(&linked, &asked.bytes) {
            return Err(format!("{name}: {difference}"));
        }
        let bytes = compare(name, &linked, &asked.record)?;
        equal = Some(Equal {
            sections: linked.len(),
            bytes,
            corrected: asked.corrected,
        });
    }
    if let Some(record) = record {
        let linked = ours::link(read()?, record, outside).map_err(|error| format!("{name}: {error}"))?;
        let bytes = compare(name, &linked, record)?;
        let corrected = equal.map_or(0, |equal| equal.corrected);
        equal = Some(Equal {
            sections: linked.len(),
            bytes,
            corrected,
        });
    }
    equal.ok_or_else(|| format!("{name}: it is not in expected.txt"))
}

#[test]
fn all_bytes_are_those_of_jitlink() {
    let file = folder().join("expected.txt");
    let recording = std::env::var_os("PATCHPOINT_RECORD").is_some();
    let records = match std::fs::read_to_string(&file) {
        Ok(text) if !recording => record::read(&text),
        _ => BTreeMap::new(),
    };
    if !theirs::is_there() {
        println!("no llvm-jitlink-19: compared with what it made before");
    }
    let (mut fresh, mut wrong) = (BTreeMap::new(), Vec::new());
    let (mut count, mut all, mut different) = (0, Equal::default(), 0);
    for name in objects() {
        let known = DIFFERENT.iter().find(|known| name.ends_with(known.object));
        match (check(&name, records.get(&name), &mut fresh), known) {
            (Ok(equal), None) => {
                count += 1;
                all.sections += equal.sections;
                all.bytes += equal.bytes;
                all.corrected += equal.corrected;
            }
            (Ok(_), Some(known)) => {
                wrong.push(format!("{name}: it is not different any more: {}", known.why))
            }
            (Err(error), Some(known)) if error.contains(known.said) => {
                println!("{name}: {}", known.why);
                different += 1;
            }
            (Err(error), _) => wrong.push(error),
        }
    }
    println!(
        "{count} objects are equal, {} sections, {} bytes, {} of jitlink's calls put right; {different} are different by design",
        all.sections, all.bytes, all.corrected
    );
    if recording {
        std::fs::write(&file, record::write(&fresh)).unwrap();
    }
    assert!(wrong.is_empty(), "{} objects:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= OBJECTS && all.sections >= SECTIONS && all.bytes >= BYTES);
}

/// With a symbol 16 bytes from where jitlink had it, an object is not equal any more.
#[test]
fn a_difference_is_noticed() {
    let records = record::read(&std::fs::read_to_string(folder().join("expected.txt")).unwrap());
    for name in ["x86_64-gcc-pic-O2/strings.o", "aarch64-clang-nopic-O2/data.o"] {
        let bytes = std::fs::read(folder().join(name)).unwrap();
        let linked = |moved: u64| {
            let graph = ours::graph(name, &bytes).unwrap();
            let outside = |symbol: &str| outside(name, symbol).map(|addr| addr + moved);
            ours::link(graph, &records[name], outside).unwrap()
        };
        assert!(compare(name, &linked(0), &records[name]).is_ok());
        let error = compare(name, &linked(16), &records[name]).unwrap_err();
        assert!(error.contains("differs"), "{error}");
    }
}
