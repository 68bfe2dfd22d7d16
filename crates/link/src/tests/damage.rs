//! Damaged objects of every architecture: refused, or linked without harm.

use super::*;

/// The seeds of the fuzz target that are of other architectures than the rest of these tests.
fn objects() -> Vec<(std::string::String, Vec<u8>)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/image");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let is_named = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().contains('-');
    let files = files.filter(is_named);
    let read = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        (name, std::fs::read(path).unwrap())
    };
    let mut objects: Vec<_> = files.map(read).collect();
    objects.sort();
    assert!(objects.len() >= 7, "{}", objects.len());
    objects
}

#[test]
fn undamaged_they_link() {
    for (name, bytes) in objects() {
        let layout = Object::parse(&bytes).unwrap().layout().unwrap();
        let base = CodeAddr::new(0x1000_0000);
        let (addrs, _) = layout.contiguous(base, PAGE).unwrap();
        let linked = layout.link(&addrs, &|_| Some(CodeAddr::new(0x1080_0000)));
        assert!(linked.is_ok(), "{name}: {linked:?}");
        fuzz_body(&bytes);
    }
}

#[test]
fn no_truncation_panics() {
    for (_, bytes) in objects() {
        for len in (0..bytes.len()).step_by(37) {
            fuzz_body(&bytes[..len]);
        }
        // The section table is at the end.
        assert!(Object::parse(&bytes[..bytes.len() - 1]).is_err());
    }
}

#[test]
fn no_flipped_bit_panics() {
    for (name, mut bytes) in objects() {
        let mut loaded = 0;
        for at in (0..bytes.len()).step_by(9) {
            let bit = 1 << (at / 9 % 8);
            bytes[at] ^= bit;
            fuzz_body(&bytes);
            loaded += usize::from(Object::parse(&bytes).is_ok());
            bytes[at] ^= bit;
        }
        assert!(loaded > bytes.len() / 36, "{name}: {loaded}");
    }
}

/// Relocations with numbers and addends of every kind, in sections of every kind.
#[test]
fn no_other_relocation_panics() {
    for (name, bytes) in objects() {
        let object = Object::parse(&bytes).unwrap();
        let big = object.endian() == Endian::Big;
        let put = |bytes: &mut [u8], at: usize, value: u32| {
            let value = if big {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            };
            bytes[at..at + 4].copy_from_slice(&value);
        };
        let relocation = |at: usize| {
            let entry = &bytes[at..at + 24];
            // An entry's address and addend are small numbers, its symbol and type too.
            entry.chunks(4).filter(|word| word[1..3] == [0, 0]).count() >= 4
        };
        let entries: Vec<_> = (0..bytes.len() - 24)
            .step_by(8)
            .filter(|at| relocation(*at))
            .collect();
        assert!(entries.len() > 20, "{name}");
        for (index, at) in entries.iter().enumerate().step_by(11) {
            for number in (index as u32 % 7..140).step_by(7) {
                let mut damaged = bytes.clone();
                // Where the type is, of a number of 64 bits.
                put(
                    &mut damaged,
                    at + if big { 12 } else { 8 },
                    number + if index % 2 == 0 { 0 } else { 200 },
                );
                fuzz_body(&damaged);
            }
        }
    }
}
