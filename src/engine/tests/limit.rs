//! How much memory an image may take is what the engine was told.

use super::*;
use crate::image;

/// A gigabyte less 2 MiB, of which the object holds not a byte.
const ZEROS: u64 = (1 << 30) - (2 << 20);

/// `e_machine` and `e_flags` of an object for this machine.
const MACHINE: (u64, u64) = match ARCH {
    Arch::X86_64 => (62, 0),
    Arch::AArch64 => (183, 0),
    Arch::PowerPc64 => (21, 1),
    Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => (21, 2),
    Arch::SystemZ => (22, 0),
    Arch::RiscV64 => (243, 5),
};

/// Numbers, each in so many bytes, as this machine has them.
fn put(out: &mut Vec<u8>, fields: &[(u64, usize)]) {
    for (value, width) in fields {
        let bytes = value.to_le_bytes()[..*width].to_vec();
        match cfg!(target_endian = "big") {
            true => out.extend(bytes.iter().rev()),
            false => out.extend(bytes),
        }
    }
}

/// A function `get` that returns, and the symbol `zeros` of a `.bss` with [`ZEROS`] bytes: an
/// object of some 600 bytes.
fn small_object() -> Vec<u8> {
    const NAMES: &[u8] = b"\0.text\0.bss\0.symtab\0.strtab\0get\0zeros\0";
    let name = |name: &str| {
        let whole = [b"\0", name.as_bytes(), b"\0"].concat();
        let mut windows = NAMES.windows(whole.len());
        windows.position(|window| window == whole).unwrap() as u64 + 1
    };
    let mut symbols = vec![0; 24];
    let ret = HOST.ret.len() as u64;
    // Global; a function, an object.
    for (symbol, info, section, size) in [("get", 0x12, 1, ret), ("zeros", 0x11, 2, ZEROS)] {
        put(
            &mut symbols,
            &[(name(symbol), 4), (info, 1), (0, 1), (section, 2)],
        );
        put(&mut symbols, &[(0, 8), (size, 8)]);
    }
    // Type, flags, bytes, size where that is another, link, info, alignment, size of an entry.
    let sections = [
        (".text", 1, 6, HOST.ret, None, 0, 0, 16, 0),
        (".bss", 8, 3, &[], Some(ZEROS), 0, 0, 16, 0),
        (".symtab", 2, 0, &symbols, None, 4, 1, 8, 24),
        (".strtab", 3, 0, NAMES, None, 0, 0, 1, 0),
    ];
    let (mut contents, mut headers) = (Vec::new(), vec![0; 64]);
    for (called, kind, flags, bytes, size, link, info, align, entry) in sections {
        let start = 64 + contents.len() as u64;
        let size = size.unwrap_or(bytes.len() as u64);
        put(
            &mut headers,
            &[(name(called), 4), (kind, 4), (flags, 8), (0, 8), (start, 8)],
        );
        put(
            &mut headers,
            &[(size, 8), (link, 4), (info, 4), (align, 8), (entry, 8)],
        );
        contents.extend_from_slice(bytes);
    }
    let mut out = vec![
        0x7f,
        b'E',
        b'L',
        b'F',
        2,
        1 + u8::from(cfg!(target_endian = "big")),
        1,
    ];
    out.resize(16, 0);
    let (machine, flags) = MACHINE;
    put(&mut out, &[(1, 2), (machine, 2), (1, 4), (0, 8), (0, 8)]);
    put(
        &mut out,
        &[(64 + contents.len() as u64, 8), (flags, 4), (64, 2), (0, 4)],
    );
    put(&mut out, &[(64, 2), (sections.len() as u64 + 1, 2), (4, 2)]);
    [out, contents, headers].concat()
}

/// An engine with this limit, or that which it has by itself.
fn engine(limit: Option<u64>) -> Engine {
    let builder = Engine::builder().world(Shared(Arc::new(Moody::default())));
    let builder = match limit {
        Some(limit) => builder.image_limit(limit),
        None => builder,
    };
    builder.build().unwrap()
}

fn refused(limit: Option<u64>) -> Error {
    engine(limit)
        .load(&small_object(), |_| None)
        .map(|_| ())
        .unwrap_err()
}

#[test]
fn a_small_object_that_wants_a_gigabyte_is_refused() {
    assert!(small_object().len() < 700);
    for (told, limit) in [(None, 256 << 20), (Some(1 << 20), 1 << 20), (Some(ZEROS), ZEROS)] {
        let error = refused(told);
        let Error::Link(image::Error::ImageTooLarge { size, limit: found }) = error else {
            panic!("{error}")
        };
        // At least that: what is laid out before the zeros counts too.
        assert!((ZEROS..ZEROS + (1 << 20)).contains(&size), "{size}");
        assert_eq!(found, limit);
        let said = error.to_string();
        assert!(
            said.contains(&format!("at least {size} bytes, more than the limit of {limit}")),
            "{said}"
        );
        assert!(said.contains("raise it (EngineBuilder::image_limit"), "{said}");
    }
}

/// The limit of one engine is none of another's, and what it lets in has all its memory.
#[test]
fn an_engine_with_room_for_it_loads_it() {
    let roomy = engine(Some(1 << 30));
    let refused = refused(None);
    let code = roomy.load(&small_object(), |_| None).unwrap();
    assert!(
        matches!(refused, Error::Link(image::Error::ImageTooLarge { .. })),
        "{refused}"
    );
    let zeros = code.symbol("zeros").unwrap().get() as usize;
    for at in [0, ZEROS as usize / 2, ZEROS as usize - 1] {
        // SAFETY: the symbol is of so many bytes of data, which live as long as the code.
        let byte = unsafe { ((zeros + at) as *const u8).read_volatile() };
        assert_eq!(byte, 0, "{at:#x}");
    }
}
