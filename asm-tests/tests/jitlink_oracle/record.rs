//! What is kept of a link of llvm-jitlink's, so that it can be compared with where there is no
//! LLVM: places, and a hash of each section's bytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) sections: Vec<Sectioned>,
    pub(crate) entries: Vec<Slot>,
    pub(crate) stubs: Vec<Slot>,
}

/// A section; without a hash it is all zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sectioned {
    pub(crate) name: String,
    pub(crate) addr: u64,
    pub(crate) size: u64,
    pub(crate) hash: Option<u64>,
}

/// An entry of the global offset table, or a stub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) addr: u64,
    pub(crate) target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Name(String),
    Addr(u64),
}

/// FNV-1a, 64 bits.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn slots(text: &mut String, word: &str, slots: &[Slot]) {
    for slot in slots {
        match &slot.target {
            Target::Name(name) => writeln!(text, "{word} {:x} {name}", slot.addr),
            Target::Addr(addr) => writeln!(text, "{word} {:x} @{addr:x}", slot.addr),
        }
        .unwrap();
    }
}

/// By object.
pub(crate) fn write(records: &BTreeMap<String, Record>) -> String {
    let mut text = String::new();
    for (object, record) in records {
        writeln!(text, "object {object}").unwrap();
        for section in &record.sections {
            let hash = section
                .hash
                .map_or("zeros".to_owned(), |hash| format!("{hash:016x}"));
            writeln!(
                text,
                "section {:x} {:x} {hash} {}",
                section.addr, section.size, section.name
            )
            .unwrap();
        }
        slots(&mut text, "entry", &record.entries);
        slots(&mut text, "stub", &record.stubs);
    }
    text
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

pub(crate) fn read(text: &str) -> BTreeMap<String, Record> {
    let mut all = BTreeMap::new();
    let mut current = "";
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let record: &mut Record = all.entry(current.to_owned()).or_default();
        let slot = |addr, target: &str| Slot {
            addr: hex(addr),
            target: match target.strip_prefix('@') {
                Some(addr) => Target::Addr(hex(addr)),
                None => Target::Name(target.to_owned()),
            },
        };
        match words[..] {
            ["object", name] => current = name,
            ["section", addr, size, hash, name] => record.sections.push(Sectioned {
                name: name.to_owned(),
                addr: hex(addr),
                size: hex(size),
                hash: (hash != "zeros").then(|| hex(hash)),
            }),
            ["entry", addr, target] => record.entries.push(slot(addr, target)),
            ["stub", addr, target] => record.stubs.push(slot(addr, target)),
            _ => panic!("a line of the record: {line}"),
        }
    }
    all.remove("");
    all
}
