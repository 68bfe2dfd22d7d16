//! Lists of functions, beyond what real objects have.

use alloc::format;

use super::build::{Section, Symbol, code, object};
use super::*;

/// The number of the relocation that writes 64 bits.
fn absolute(arch: Arch) -> u32 {
    match arch {
        Arch::SystemZ => 22,
        _ => 1,
    }
}

/// A list with these numbers, the second of which is the address of a function 8 bytes into the
/// code.
fn listing(arch: Arch, name: &'static str, bytes: Vec<u8>) -> Vec<u8> {
    let list = Section {
        name,
        flags: build::DATA,
        align: 8,
        relas: vec![(8, absolute(arch), 1, 0)],
        bytes,
    };
    let function = Symbol {
        name: "function",
        section: 1,
        value: 8,
        ..build::OUTSIDE
    };
    object(arch, &[code(vec![0; 16], Vec::new()), list], &[function])
}

#[test]
fn entries_that_name_nothing_are_left_out() {
    for arch in [Arch::X86_64, Arch::SystemZ] {
        let bytes = [[0xff; 8], [0; 8], [0; 8]].concat();
        let bytes = listing(arch, ".ctors", bytes);
        let layout = Object::parse(&bytes).unwrap().layout().unwrap();
        assert_eq!(layout.segments()[2].size.get(), 0, "nobody writes to it");
        let (addrs, _) = layout.contiguous(BASE, PAGE).unwrap();
        let linked = layout.link(&addrs, &|_| None).unwrap();
        let expected = BASE.plus(Len::new(8)).unwrap();
        assert_eq!(
            (linked.constructors, linked.destructors),
            (vec![expected], vec![])
        );
    }
}

#[test]
fn what_is_no_list_of_addresses_is_refused() {
    for name in [".init_array", ".fini_array.5", ".ctors", ".dtors.9"] {
        let error = Object::parse(&listing(Arch::X86_64, name, vec![0; 20])).unwrap_err();
        let expected = "cannot be loaded: it lists functions, but its size is not that of addresses";
        assert_eq!(error.to_string(), format!("section {name} {expected}"));
    }
}
