//! What llvm-jitlink made of an object: where it put everything, and all bytes.
//!
//! Its graph after fix-ups, which it prints, tells the places. The bytes come from checks that are
//! false, of which it prints both sides: its dump of sections shows only what symbols cover.
//!
//! One thing it gets wrong is put right, and counted: where it rewrites `call *foo@GOTPCREL(%rip)`
//! and `jmp` of that kind to direct ones, it writes foo's address in place of the distance (LLVM
//! 19, `x86_64.cpp`, `optimizeGOTAndStubAccesses`: the edge becomes a `Pointer32`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use crate::record::{Record, Sectioned, Slot, Target};

/// Where its slab begins; low, as code without PIC has addresses of 32 bits.
pub(crate) const BASE: u64 = 0x1000_0000;

const TOOL: &str = "llvm-jitlink-19";
const GOT: &str = "$__GOT";
const STUBS: &str = "$__STUBS";
const COMMON: &str = ".common";

/// Whether it is asked. What it answers does not depend on the machine that asks: under an emulator
/// what it answered before will do.
pub(crate) fn is_there() -> bool {
    // To start it takes as long as to link an object.
    static IS_THERE: LazyLock<bool> = LazyLock::new(|| !cfg!(emulated) && asm_tests::tools::is_there(TOOL));
    *IS_THERE
}

/// What it is asked: the object, an entry that it does not call, addresses of what is outside, and
/// how many bytes of each section to print.
pub(crate) struct Request<'a> {
    pub(crate) object: &'a Path,
    pub(crate) entry: &'a str,
    pub(crate) outside: &'a [(String, u64)],
    pub(crate) sections: &'a [(String, usize)],
    pub(crate) entries: usize,
    pub(crate) stubs: usize,
}

/// A section as it was printed.
#[derive(Default)]
struct Printed {
    /// Address, size, whether it has no bytes, name of a symbol at its start.
    blocks: Vec<(u64, u64, bool, String)>,
    /// Address and target.
    edges: Vec<(u64, String)>,
    /// Where the edges are that write an address of 32 bits.
    pointers: Vec<u64>,
}

/// What it made: places, the bytes of each section, and how many of its calls were put right.
pub(crate) struct Answer {
    pub(crate) record: Record,
    pub(crate) bytes: BTreeMap<String, Vec<u8>>,
    pub(crate) corrected: usize,
}

pub(crate) fn link(request: &Request<'_>) -> Result<Answer, String> {
    let file = request.object.file_name().unwrap().to_str().unwrap();
    let checks = std::env::temp_dir().join(format!("patchpoint-jitlink-{}-{file}.check", std::process::id()));
    let mut asked: Vec<(String, usize)> = request.sections.to_vec();
    asked.push((GOT.into(), request.entries * 8));
    asked.push((STUBS.into(), request.stubs * 12));
    std::fs::write(&checks, questions(file, &asked)).unwrap();
    let mut command = Command::new(TOOL);
    command.current_dir(request.object.parent().unwrap());
    command.args([
        "-noexec",
        "-no-process-syms",
        "-show-graphs=.*",
        "-slab-allocate=4Mb",
        "-slab-page-size=4096",
    ]);
    command.arg(format!("-slab-address={BASE:#x}"));
    command.arg(format!("-entry={}", request.entry));
    command.arg(format!("-check={}", checks.display()));
    command.args(
        request
            .outside
            .iter()
            .map(|(name, addr)| format!("-abs={name}={addr:#x}")),
    );
    let output = command.arg(file).output().unwrap();
    assert!(output.status.code().is_some(), "it crashes: {command:?}");
    std::fs::remove_file(&checks).unwrap();
    let (out, said) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let graph = out.find("Link graph ").or(said.find("Link graph "));
    if graph.is_none() {
        return Err(said.lines().next().unwrap_or_default().to_owned());
    }
    let printed = sections(if out.contains("Link graph ") { &out } else { &said });
    let mut bytes = answers(&out, &said);
    let corrected = correct_calls(&printed, &mut bytes);
    let (record, bytes) = record(&printed, bytes);
    Ok(Answer {
        record,
        bytes,
        corrected,
    })
}

/// Checks that no value passes, so that each is printed: no 4 bytes are this number.
fn questions(file: &str, sections: &[(String, usize)]) -> String {
    let mut text = String::new();
    for (section, size) in sections {
        let words = (0..size / 4 * 4).step_by(4).map(|at| (at, 4));
        for (at, width) in words.chain((size / 4 * 4..*size).map(|at| (at, 1))) {
            writeln!(
                text,
                "# jitlink-check: *{{{width}}}(section_addr({file}, {section})+{at}) = 0x100000000"
            )
            .unwrap();
        }
    }
    text
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16)
        .unwrap_or_else(|_| panic!("not hexadecimal: {text}"))
}

fn answers(out: &str, said: &str) -> BTreeMap<String, Vec<u8>> {
    let mut all: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for line in out.lines().chain(said.lines()) {
        let Some(rest) = line.strip_prefix("Expression '*{") else {
            continue;
        };
        let (width, rest) = rest.split_once("}(section_addr(").unwrap();
        let (_, rest) = rest.split_once(", ").unwrap();
        let (section, rest) = rest.split_once(")+").unwrap();
        let (at, rest) = rest.split_once(')').unwrap();
        // A section that is not there has no value.
        let Some((_, value)) = rest.split_once("is false: ") else {
            continue;
        };
        let value = hex(value.split_once(' ').unwrap().0) as u32;
        let bytes = all.entry(section.to_owned()).or_default();
        assert_eq!(bytes.len(), at.parse().unwrap(), "answers come in order: {line}");
        let width: usize = width.parse().unwrap();
        bytes.extend_from_slice(&value.to_le_bytes()[..width]);
    }
    all
}

fn sections(text: &str) -> BTreeMap<String, Printed> {
    let mut all: BTreeMap<String, Printed> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(name) = line
            .strip_prefix("section ")
            .and_then(|rest| rest.strip_suffix(':'))
        {
            current = name.to_owned();
            continue;
        }
        let Some(section) = (!current.is_empty()).then(|| all.entry(current.clone()).or_default()) else {
            continue;
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["block", addr, "size", "=", size, ..] => {
                let (addr, size) = (hex(addr), hex(size.trim_end_matches(',')));
                section
                    .blocks
                    .push((addr, size, line.contains("zero-fill"), String::new()));
            }
            [_, "(block", "+", _, "size:", .., name] => {
                if let Some(block) = section.blocks.last_mut() {
                    block.3 = name.to_owned();
                }
            }
            [addr, "(block", .., kind, "target", "=", target] => {
                section.edges.push((hex(addr), target.to_owned()));
                if kind == "Pointer32," {
                    section.pointers.push(hex(addr));
                }
            }

            _ => {}
        }
        if line.starts_with("Link graph")
            || line.starts_with("absolute symbols")
            || line.starts_with("external symbols")
        {
            current.clear();
        }
    }
    all.retain(|_, section| !section.blocks.is_empty());
    all
}

/// Makes the addresses in rewritten calls and jumps distances. Code that is not
/// position-independent has addresses of 32 bits, too, but not in such instructions.
fn correct_calls(printed: &BTreeMap<String, Printed>, bytes: &mut BTreeMap<String, Vec<u8>>) -> usize {
    let mut count = 0;
    for (name, section) in printed {
        let Some(bytes) = bytes.get_mut(name) else {
            continue;
        };
        let start = section.blocks.iter().map(|block| block.0).min().unwrap();
        for place in &section.pointers {
            let at = (place - start) as usize;
            let rewritten = bytes[..at].ends_with(&[0x67, 0xe8])
                || bytes[..at].ends_with(&[0xe9]) && bytes.get(at + 4) == Some(&0x90);
            if rewritten {
                let field: &mut [u8; 4] = bytes[at..].first_chunk_mut().unwrap();
                let next = *place as u32 + 4;
                *field = u32::from_le_bytes(*field).wrapping_sub(next).to_le_bytes();
                count += 1;
            }
        }
    }
    count
}

/// `NAME` or `addressable@ADDR+OFFSET`.
fn target(text: &str) -> Target {
    match text.strip_prefix("addressable@") {
        None => Target::Name(text.to_owned()),
        Some(rest) => {
            let (addr, offset) = rest.split_once('+').unwrap();
            Target::Addr(hex(addr) + hex(offset))
        }
    }
}

fn record(
    printed: &BTreeMap<String, Printed>,
    mut bytes: BTreeMap<String, Vec<u8>>,
) -> (Record, BTreeMap<String, Vec<u8>>) {
    let mut record = Record::default();
    for (addr, text) in printed.get(GOT).map(|got| &got.edges[..]).unwrap_or_default() {
        record.entries.push(Slot {
            addr: *addr,
            target: target(text),
        });
    }
    let stubs = printed.get(STUBS);
    for (start, size, ..) in stubs.map(|stubs| &stubs.blocks[..]).unwrap_or_default() {
        // Its edges refer to its entry.
        let mut edges = stubs.unwrap().edges.iter();
        let edge = edges
            .find(|(addr, _)| (*start..start + size).contains(addr))
            .unwrap();
        let Target::Addr(entry) = target(&edge.1) else {
            panic!("a stub refers to {}", edge.1)
        };
        let owner = record.entries.iter().find(|slot| slot.addr == entry);
        let entry = owner.unwrap_or_else(|| panic!("no entry at {entry:#x}: {:x?}", record.entries));
        record.stubs.push(Slot {
            addr: *start,
            target: entry.target.clone(),
        });
    }
    for (name, section) in printed {
        if name == COMMON {
            for (addr, size, _, symbol) in &section.blocks {
                let name = format!("common.{symbol}");
                record.sections.push(Sectioned {
                    name,
                    addr: *addr,
                    size: *size,
                    hash: None,
                });
            }
            continue;
        }
        let start = section.blocks.iter().map(|block| block.0).min().unwrap();
        let end = section
            .blocks
            .iter()
            .map(|block| block.0 + block.1)
            .max()
            .unwrap();
        let zero = section.blocks.iter().all(|block| block.2);
        let size = end - start;
        if let Some(bytes) = bytes.get_mut(name) {
            // The tables' sizes were not known when it was asked.
            assert!(
                bytes.len() as u64 >= size,
                "{name}: {} of {size} bytes were printed",
                bytes.len()
            );
            bytes.truncate(size as usize);
        }
        let hash = if zero {
            None
        } else {
            bytes.get(name).map(|bytes| crate::record::hash(bytes))
        };
        record.sections.push(Sectioned {
            name: name.clone(),
            addr: start,
            size,
            hash,
        });
    }
    record.sections.sort_by_key(|section| section.addr);
    record.entries.sort_by_key(|slot| slot.addr);
    record.stubs.sort_by_key(|slot| slot.addr);
    (record, bytes)
}
