//! Damaged debug information.

use super::*;

#[test]
fn no_damaged_debug_information_makes_it_panic() {
    for name in [
        "lines.o",
        "lines.zlib.o",
        "lines.riscv64.o",
        "lines.macho.o",
        "lines.coff.o",
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tool/ir");
        let mut data = fs::read(folder.join(name)).unwrap();
        let lines = |data: &[u8]| render(&inspect("x", Format::Json, &[]), data, Paint::Plain);
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
