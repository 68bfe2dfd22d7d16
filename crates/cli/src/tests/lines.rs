//! Damaged debug information.

use super::*;

fn read(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tool/ir");
    fs::read(folder.join(name)).unwrap()
}

fn lines(data: &[u8]) -> Result<String, Problem> {
    render(&inspect("x", Format::Json, &[]), data, Paint::Plain)
}

/// What is wrong with compressed sections is told.
#[test]
fn compressed_debug_information_is_as_its_header_says() {
    use object::{Object, ObjectSection};
    for (name, damaged) in [
        ("lines.zlib.o", "its zlib data is damaged"),
        ("lines.zstd.o", "its zstd data is damaged"),
    ] {
        let whole = read(name);
        let file = object::File::parse(&*whole).unwrap();
        let section = file.section_by_name(".debug_info").unwrap();
        let header = section.file_range().unwrap().0 as usize;
        // The size, and the first byte behind the header.
        for (at, bits, why) in [
            (8, 0x80, "its size is not the one that its header says"),
            (15, 0x80, "it would be too large"),
            (24, 0x81, damaged),
        ] {
            let mut data = whole.clone();
            data[header + at] ^= bits;
            let error = lines(&data).unwrap_err();
            assert_eq!(error.status(), 2);
            let error = error.to_string();
            assert!(
                error.contains(".debug_info") && error.contains(why),
                "{name}: {error}"
            );
        }
    }
}

#[test]
fn no_damaged_debug_information_makes_it_panic() {
    for name in [
        "lines.o",
        "lines.zlib.o",
        "lines.zstd.o",
        "lines.riscv64.o",
        "lines.macho.o",
        "lines.coff.o",
    ] {
        let mut data = read(name);
        assert!(lines(&data).unwrap().contains("/src/lines.cc"), "{name}");
        let (mut read, mut refused) = (0, 0);
        for at in (0..data.len()).step_by(19) {
            let old = data[at];
            data[at] = [old ^ 0x80, old ^ 1, 0xff][at % 3];
            match lines(&data) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
            data[at] = old;
        }
        // Most bytes are no structure, and some are.
        assert!(read > 50 && refused > 2, "{name}: {read} {refused}");
    }
}
