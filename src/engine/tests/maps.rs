//! Stack maps that do not fit the code, or say too little: written by hand, refused with the place.

use super::*;
use crate::addr::DwarfReg;
use crate::site::Candidate;
use crate::stackmap::flat::{Dialect, FlatFunction, FlatRecord, FlatWriter};
use crate::stackmap::testing::constant;
use crate::stackmap::{self, StackMaps, Version};

/// Two functions of [`identity`], and what becomes of registering them with a map made for their
/// addresses.
fn with_map(make: impl FnOnce(&Text) -> MapSpec) -> Result<Module> {
    with_bytes(|text| make(text).bytes())
}

fn with_bytes(make: impl FnOnce(&Text) -> Vec<u8>) -> Result<Module> {
    with_shape(make, |_| Ok(identity(1).shape))
}

fn with_shape(
    make: impl FnOnce(&Text) -> Vec<u8>,
    shape: impl FnMut(&Candidate<'_>) -> crate::site::Result<CallShape>,
) -> Result<Module> {
    let text = Text::new(&[identity(1), identity(2)]);
    let mut adoption = Adoption::new(ARCH, ARCH.endian(), make(&text)).not_yet_run();
    for index in 0..2 {
        adoption = adoption.function(format!("f{index}"), text.addr(index), Len::new(function_len()));
    }
    // SAFETY: nothing is patched or run here.
    let code = unsafe { adoption.promise() }?;
    let lab = Lab::new();
    let code = lab.engine.adopt_with(code, &text.shared())?;
    // SAFETY: what is told is true of the object's code, or refused.
    let registered = unsafe { lab.engine.register(code, shape) };
    assert_eq!(lab.engine.modules().len(), usize::from(registered.is_ok()));
    registered
}

/// The length of a function.
fn function_len() -> u32 {
    identity(1).bytes.len() as u32
}

/// One function with one record.
fn one(record: RecordSpec) -> Result<Module> {
    with_map(|text| map().function(text.addr(0).get(), 8, [record]))
}

#[test]
fn a_map_that_fits_is_taken() {
    assert_eq!(one(identity(1).record).unwrap().sites().count(), 1);
}

#[test]
fn a_record_beyond_its_function_is_refused() {
    // In the padding, in the next function, and far away.
    for offset in [function_len() + 1, 64, 1 << 20, u32::MAX] {
        let refused = one(identity(1).record.at(offset));
        let Err(Error::Site(crate::site::Error::RecordOutsideFunction { site, len, .. })) = &refused else {
            panic!("{refused:?}");
        };
        assert_eq!((site.offset.get(), len.get()), (offset, function_len()));
    }
    // At the function's very end there may be a record, of which no byte can be reserved.
    refused!(
        one(identity(1).record.at(function_len())),
        Site(SiteOutsideFunction)
    );
}

#[test]
fn a_function_described_twice_is_refused() {
    let twice = with_map(|text| {
        let at = text.addr(0).get();
        map()
            .function(at, 8, [identity(1).record])
            .function(at, 8, [identity(2).record])
    });
    refused!(twice, Site(StackMapFunctionTwice));
    // By two maps in one section, as a linker that kept both leaves them.
    let twice = with_bytes(|text| {
        let one = map()
            .function(text.addr(0).get(), 8, [identity(1).record])
            .bytes();
        [one.clone(), one].concat()
    });
    refused!(twice, Site(StackMapFunctionTwice));
    // Two maps of two functions are two maps.
    let both = with_bytes(|text| {
        let one = |index: usize| {
            map()
                .function(text.addr(index).get(), 8, [identity(1).record])
                .bytes()
        };
        [one(0), one(1)].concat()
    });
    assert_eq!(both.unwrap().sites().count(), 2);
}

#[test]
fn a_function_that_is_not_there_is_refused() {
    let outside = with_map(|text| map().function(text.addr(0).get() + 1, 8, [identity(1).record]));
    assert!(outside.is_err(), "{outside:?}");
}

#[test]
fn records_of_version_1_need_one_function_to_belong_to() {
    let version_1 = |functions: &[usize]| {
        with_map(|text| {
            let start = map().version(Version::V1);
            functions.iter().fold(start, |map, index| {
                map.function(text.addr(*index).get(), 8, [identity(1).record])
            })
        })
    };
    assert_eq!(version_1(&[0]).unwrap().sites().count(), 1);
    let refused = version_1(&[0, 1]);
    assert!(
        matches!(
            refused,
            Err(Error::Tables(stackmap::Error::RecordsWithoutFunction {
                functions: 2
            }))
        ),
        "{refused:?}"
    );
    // No function at all, with a record.
    let none = with_bytes(|text| {
        let spec = map()
            .version(Version::V1)
            .function(text.addr(0).get(), 8, [identity(1).record]);
        let mut bytes = spec.bytes();
        bytes[4..8].fill(0);
        bytes.drain(16..32);
        bytes
    });
    assert!(
        matches!(
            none,
            Err(Error::Tables(stackmap::Error::RecordsWithoutFunction {
                functions: 0
            }))
        ),
        "{none:?}"
    );
}

#[test]
fn a_record_that_llvm_could_not_encode_is_no_site() {
    refused!(one(record(u64::MAX)), Site(RecordOverflowed));
    // The same ID with locations is an ID like others.
    one(identity(u64::MAX).record).unwrap();
}

#[test]
fn locations_that_the_shape_contradicts_are_refused() {
    refused!(one(record(1)), Site(TooFewLocations));
    refused!(one(record(1).location(reg(RESULT, 8))), Site(TooFewLocations));
    let constant_result = record(1).location(constant(4)).location(reg(ARGUMENT, 8));
    refused!(one(constant_result), Site(ResultNotRegister));
}

#[test]
fn two_records_at_one_place_cannot_both_be_sites() {
    let both = || [identity(1).record, identity(2).record];
    refused!(
        with_map(|text| map().function(text.addr(0).get(), 8, both())),
        Site(SitesOverlap)
    );
}

#[test]
fn a_function_that_leaves_its_memory_is_refused() {
    let text = Text::new(&[identity(1)]);
    let at = text.range.start();
    let len = Len::new(u32::try_from(text.memory.range().len()).unwrap() + 1);
    let maps = map().function(at.get(), 8, [identity(1).record]).bytes();
    let adoption = Adoption::new(ARCH, ARCH.endian(), maps).function("f", at, len);
    // SAFETY: nothing is patched or run here.
    let code = unsafe { adoption.promise() }.unwrap();
    refused!(
        Lab::new().engine.adopt_with(code, &text.shared()),
        Memory(OutsideMemory)
    );
}

#[test]
fn an_engine_without_a_world_is_none() {
    refused!(Engine::builder().build(), NoWorld);
}

/// The map of one function with one record, written flat.
fn flat(text: &Text, dialect: Dialect, reserved: u32) -> Vec<u8> {
    let spec = map().function(text.addr(0).get(), 8, [identity(1).record]);
    let bytes = spec.bytes();
    let maps = StackMaps::parse(&bytes, ARCH.endian()).unwrap();
    let written = FlatWriter::new(dialect).write(
        &maps.maps()[0],
        |_| FlatFunction::new(Len::new(function_len()), DwarfReg::default()),
        |record| FlatRecord {
            reserved: Len::new(reserved),
            ..record.into()
        },
    );
    written.unwrap()
}

#[test]
fn a_flat_map_tells_the_reserved_length() {
    for dialect in [Dialect::Proposal, Dialect::Fork] {
        for infers in [false, true] {
            let registered = with_shape(
                |text| flat(text, dialect, RESERVED),
                |record| {
                    let reserved = if infers {
                        record.infer_reserved()?
                    } else {
                        record.reserved()?
                    };
                    Ok(CallShape::any_reg(reserved.get()).result().args(1))
                },
            );
            let site = registered.unwrap().sites().next().unwrap();
            assert_eq!(site.reserved(), Len::new(RESERVED));
        }
    }
    // Others do not, nor do flat ones that say 0.
    let from_record = |record: &Candidate<'_>| Ok(CallShape::any_reg(record.reserved()?.get()));
    let version_3 = |text: &Text| {
        let spec = map().function(text.addr(0).get(), 8, [identity(1).record]);
        spec.bytes()
    };
    refused!(with_shape(version_3, from_record), Site(ReservedLengthNotTold));
    let silent = |text: &Text| flat(text, Dialect::Proposal, 0);
    refused!(with_shape(silent, from_record), Site(ReservedLengthNotTold));
}

#[test]
fn no_more_bytes_are_taken_than_a_flat_map_reserves() {
    let told = |reserved| with_bytes(|text| flat(text, Dialect::Proposal, reserved));
    assert!(told(RESERVED).is_ok());
    let refused = told(RESERVED - 4);
    let Err(Error::Site(crate::site::Error::ReservedBeyondRecorded {
        reserved, recorded, ..
    })) = refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!((reserved.get(), recorded.get()), (RESERVED, RESERVED - 4));
    // Fewer are the runtime's choice.
    assert!(told(RESERVED + 4).is_ok());
}
