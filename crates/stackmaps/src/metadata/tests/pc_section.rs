use alloc::vec;
use alloc::vec::Vec;

use crate::Endian;
use crate::addr::{ByteOffset, CodeAddr};
use crate::error::Error;
use crate::metadata::{Covered, IntegerSize, PcSection, PcSectionShape};

const BASE: CodeAddr = CodeAddr::new(0x1000);

fn shape() -> PcSectionShape {
    let shape = PcSectionShape::functions().compressed();
    shape.constant(IntegerSize::Eight).constant(IntegerSize::One)
}

/// The function `distance` bytes from the entry, of 300 bytes, with the constants 128 and 129.
fn entry(distance: i32) -> Vec<u8> {
    let mut bytes = distance.to_le_bytes().to_vec();
    bytes.extend([0xac, 0x02, 0x80, 0x01, 0x81]);
    bytes
}

#[test]
fn entries_start_where_the_one_before_ends() {
    let bytes = [entry(-16), entry(0x20)].concat();
    let shape = shape();
    let section = PcSection::parse(&bytes, BASE, Endian::Little, &shape).unwrap();
    let found: Vec<_> = section
        .entries()
        .map(|entry| {
            (
                entry.byte_offset().get(),
                entry.pc().unwrap().get(),
                entry.function_size(),
            )
        })
        .collect();
    assert_eq!(found, [(0, 0xff0, Some(300)), (9, 0x1029, Some(300))]);
    assert!(section.entries().all(|entry| entry.constants().eq([128, 129])));
}

#[test]
fn every_truncation_is_an_error_at_its_place() {
    let bytes = [entry(0), entry(4)].concat();
    for end in (1..bytes.len()).filter(|end| *end != 9) {
        let error = PcSection::parse(&bytes[..end], BASE, Endian::Little, &shape()).map(|_| ());
        let Err(Error::TableTruncated { at, needed, have, .. }) = error else {
            panic!("{end}: {error:?}");
        };
        assert_eq!(at.get() + have, end as u64);
        assert!(needed > have);
    }
}

#[test]
fn numbers_have_at_most_64_bits() {
    let shape = PcSectionShape::instructions()
        .compressed()
        .constant(IntegerSize::Eight);
    let read = |number: &[u8]| {
        let bytes = [&[0; 4], number].concat();
        let section = PcSection::parse(&bytes, BASE, Endian::Little, &shape)?;
        Ok(section.entries().next().unwrap().constants().next().unwrap())
    };
    let most = [vec![0xff; 9], vec![1]].concat();
    assert_eq!(read(&most), Ok(u64::MAX));
    // A producer may pad.
    assert_eq!(read(&[0x85, 0x80, 0x00]), Ok(5));
    for beyond in [
        [vec![0xff; 9], vec![2]].concat(),
        vec![0xff; 11],
        [vec![0x80; 10], vec![0]].concat(),
    ] {
        let refused = read(&beyond);
        assert!(
            matches!(refused, Err(Error::TableNumber { at, .. }) if at.get() == 4),
            "{refused:?}"
        );
    }
}

#[test]
fn addresses_stay_in_the_address_space() {
    let shape = PcSectionShape::instructions();
    let read = |base: u64, distance: i32| {
        let bytes = distance.to_be_bytes();
        let section = PcSection::parse(&bytes, CodeAddr::new(base), Endian::Big, &shape)?;
        Ok(section.entries().next().unwrap().pc().unwrap().get())
    };
    assert_eq!(read(16, -16), Ok(0));
    assert_eq!(read(u64::MAX - 16, 16), Ok(u64::MAX));
    let at = ByteOffset::new(0);
    for (base, distance) in [(16, -17), (u64::MAX - 16, 17)] {
        let expected = Error::TableAddress {
            table: "PC section",
            at,
            base: CodeAddr::new(base),
            distance: i64::from(distance),
        };
        assert_eq!(read(base, distance), Err(expected));
    }
}

#[test]
fn wide_addresses() {
    let shape = PcSectionShape::instructions().wide().sharing(2);
    let bytes = [(-1_i64 << 40).to_be_bytes(), 0x10_i64.to_be_bytes()].concat();
    let base = CodeAddr::new(1 << 44);
    let section = PcSection::parse(&bytes, base, Endian::Big, &shape).unwrap();
    let entry = section.entries().next().unwrap();
    let pcs: Vec<_> = entry.pcs().map(CodeAddr::get).collect();
    assert_eq!(pcs, [(1 << 44) - (1 << 40), (1 << 44) + 0x18]);
}

#[test]
fn features_say_whether_arguments_follow() {
    let bytes = [0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 7, 4, 0x40];
    let covered = Covered::parse(&bytes, BASE, Endian::Little, false).unwrap();
    let found: Vec<_> = covered
        .functions()
        .map(|function| {
            (
                function.byte_offset.get(),
                function.size,
                function.stack_arguments,
            )
        })
        .collect();
    assert_eq!(
        found,
        [(0, 5, None), (6, 7, Some(0x40))].map(|(at, size, arguments)| (at as u64, size as u64, arguments))
    );
    let cut = Covered::parse(&bytes[..12], BASE, Endian::Little, false).map(|_| ());
    assert!(matches!(cut, Err(Error::TableTruncated { .. })), "{cut:?}");
}
