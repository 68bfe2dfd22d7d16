use alloc::vec::Vec;

use crate::addr::CodeAddr;
use crate::error::Error;
use crate::metadata::{GcMap, GcRoot, RootKind};
use crate::{Endian, StackSize};

/// A map as the plug-in writes it.
pub(super) struct Writer {
    bytes: Vec<u8>,
    endian: Endian,
}

/// A function: its address, its frame in words, its arguments on the stack, its safepoints, and
/// offset and kind of its roots.
pub(super) type FunctionRecord<'a> = (u64, i32, i32, &'a [u64], &'a [(i32, i32)]);

impl Writer {
    fn i32(&mut self, value: i32) {
        match self.endian {
            Endian::Little => self.bytes.extend(value.to_le_bytes()),
            Endian::Big => self.bytes.extend(value.to_be_bytes()),
        }
    }

    fn u64(&mut self, value: u64) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        match self.endian {
            Endian::Little => self.bytes.extend(value.to_le_bytes()),
            Endian::Big => self.bytes.extend(value.to_be_bytes()),
        }
    }

    pub(super) fn map(endian: Endian, functions: &[FunctionRecord<'_>], globals: &[u64]) -> Vec<u8> {
        let mut writer = Self {
            bytes: Vec::new(),
            endian,
        };
        writer.i32(1);
        writer.i32(0);
        writer.i32(functions.len() as i32);
        for (entry, frame, arguments, safepoints, roots) in functions {
            writer.u64(*entry);
            for count in [*frame, *arguments, roots.len() as i32, safepoints.len() as i32] {
                writer.i32(count);
            }
            safepoints.iter().for_each(|pc| writer.u64(*pc));
            for (offset, kind) in *roots {
                writer.i32(*offset);
                writer.i32(*kind);
            }
        }
        writer.i32(globals.len() as i32);
        writer.bytes.resize(writer.bytes.len().next_multiple_of(8), 0);
        globals.iter().for_each(|global| writer.u64(*global));
        writer.bytes
    }
}

const FUNCTIONS: [FunctionRecord<'static>; 3] = [
    (
        0x1000,
        3,
        0,
        &[0x1010, 0x1020],
        &[(0, 0), (8, 1), (-8, 2), (16, 3), (24, 4)],
    ),
    (0x2000, 0, 2, &[], &[]),
    (0x3000, -1, 1, &[0x3004], &[(0, 3)]),
];

fn sample(endian: Endian) -> Vec<u8> {
    Writer::map(endian, &FUNCTIONS, &[0x9000, 0x9008])
}

#[test]
fn every_field_in_both_byte_orders() {
    for endian in [Endian::Little, Endian::Big] {
        let mut bytes = sample(endian);
        let len = bytes.len();
        bytes.extend([0xee; 5]);
        let map = GcMap::parse(&bytes, endian).unwrap();
        assert_eq!(map.byte_len(), len);
        assert_eq!(map.functions().len(), 3);
        let functions: Vec<_> = map.functions().collect();
        for (function, expected) in functions.iter().zip(&FUNCTIONS) {
            assert_eq!(function.entry().get(), expected.0);
            assert_eq!(function.stack_arguments(), expected.2 as u32);
            assert!(
                function
                    .safepoints()
                    .map(CodeAddr::get)
                    .eq(expected.3.iter().copied())
            );
            assert_eq!(function.roots().len(), expected.4.len());
        }
        let sizes: Vec<_> = functions.iter().map(|function| function.stack_size()).collect();
        assert_eq!(
            sizes,
            [StackSize::Known(24), StackSize::Known(0), StackSize::Unknown]
        );
        let root = |offset, kind| GcRoot { offset, kind };
        let expected = [
            root(0, RootKind::Atomic),
            root(8, RootKind::Trait),
            root(-8, RootKind::Complex),
            root(16, RootKind::Pointer),
            root(24, RootKind::Other),
        ];
        assert!(functions[0].roots().eq(expected));
        assert!(map.globals().map(CodeAddr::get).eq([0x9000, 0x9008]));
    }
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = sample(Endian::Little);
    for end in 0..bytes.len() {
        let error = GcMap::parse(&bytes[..end], Endian::Little).map(|_| ());
        assert!(
            matches!(error, Err(Error::TableTruncated { .. })),
            "{end}: {error:?}"
        );
    }
}

#[test]
fn what_no_plug_in_writes_is_refused() {
    let with = |at: usize, value: i32| {
        let mut bytes = sample(Endian::Little);
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        GcMap::parse(&bytes, Endian::Little).map(|_| ())
    };
    assert!(matches!(with(0, 2), Err(Error::GcMapVersion { found: 2, .. })));
    assert!(matches!(with(8, -1), Err(Error::TableCount { count: -1, .. })));
    // The roots and the safepoints of the first function, and the kind of its first root.
    assert!(matches!(with(32, -5), Err(Error::TableCount { at, .. }) if at.get() == 32));
    assert!(matches!(
        with(36, i32::MAX),
        Err(Error::TableTruncated {
            what: "the safepoints",
            ..
        })
    ));
    assert!(matches!(with(60, 5), Err(Error::GcMapRootKind { at, kind: 5 }) if at.get() == 60));
}

#[test]
fn the_padding_before_no_globals_may_be_missing() {
    for endian in [Endian::Little, Endian::Big] {
        let bytes = Writer::map(endian, &[(0x1000, 2, 0, &[0x1004], &[])], &[]);
        assert_eq!(bytes.len(), 56);
        for len in 52..=56 {
            let map = GcMap::parse(&bytes[..len], endian).unwrap();
            assert_eq!((map.globals().len(), map.byte_len()), (0, len));
        }
        assert!(GcMap::parse(&bytes[..51], endian).is_err());
    }
}
