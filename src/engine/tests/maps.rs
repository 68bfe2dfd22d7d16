//! Stack maps that do not fit the code, or say too little: written by hand, refused with the place.

use super::*;
use crate::stackmap::Version;
use crate::stackmap::testing::constant;

/// Two functions of [`identity`], and what becomes of registering them with a map made for their addresses.
fn with_map(make: impl FnOnce(&Text) -> MapSpec) -> Result<Module> {
    with_bytes(|text| make(text).bytes())
}

fn with_bytes(make: impl FnOnce(&Text) -> Vec<u8>) -> Result<Module> {
    let text = Text::new(&[identity(1), identity(2)]);
    let mut adoption = Adoption::new(ARCH, ARCH.endian(), make(&text)).not_yet_run();
    for index in 0..2 {
        adoption = adoption.function(format!("f{index}"), text.addr(index), Len::new(function_len()));
    }
    // SAFETY: nothing is patched or run here.
    let code = unsafe { adoption.promise() }?;
    let lab = Lab::new();
    let code = lab.engine.adopt_with(code, &text.shared())?;
    let registered = lab.engine.register(code, |_| identity(1).shape);
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
        let Err(Error::RecordOutsideFunction { site, len, .. }) = &refused else {
            panic!("{refused:?}");
        };
        assert_eq!((site.offset.get(), len.get()), (offset, function_len()));
    }
    // At the function's very end there may be a record, of which no byte can be reserved.
    refused!(one(identity(1).record.at(function_len())), SiteOutsideFunction);
}

#[test]
fn a_function_described_twice_is_refused() {
    let twice = with_map(|text| {
        let at = text.addr(0).get();
        map()
            .function(at, 8, [identity(1).record])
            .function(at, 8, [identity(2).record])
    });
    refused!(twice, StackMapFunctionTwice);
    // By two maps in one section, as a linker that kept both leaves them.
    let twice = with_bytes(|text| {
        let one = map()
            .function(text.addr(0).get(), 8, [identity(1).record])
            .bytes();
        [one.clone(), one].concat()
    });
    refused!(twice, StackMapFunctionTwice);
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
    let elsewhere = with_map(|text| map().function(text.addr(0).get() + 1, 8, [identity(1).record]));
    assert!(elsewhere.is_err(), "{elsewhere:?}");
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
        matches!(refused, Err(Error::RecordsWithoutFunction { functions: 2 })),
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
        matches!(none, Err(Error::RecordsWithoutFunction { functions: 0 })),
        "{none:?}"
    );
}

#[test]
fn a_record_that_llvm_could_not_encode_is_no_site() {
    refused!(one(record(u64::MAX)), RecordOverflowed);
    // The same ID with locations is an ID like others.
    one(identity(u64::MAX).record).unwrap();
}

#[test]
fn locations_that_the_shape_contradicts_are_refused() {
    refused!(one(record(1)), TooFewLocations);
    refused!(one(record(1).location(reg(RESULT, 8))), TooFewLocations);
    let constant_result = record(1).location(constant(4)).location(reg(ARGUMENT, 8));
    refused!(one(constant_result), ResultNotRegister);
}

#[test]
fn two_records_at_one_place_cannot_both_be_sites() {
    let both = || [identity(1).record, identity(2).record];
    refused!(
        with_map(|text| map().function(text.addr(0).get(), 8, both())),
        SitesOverlap
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
    refused!(Lab::new().engine.adopt_with(code, &text.shared()), OutsideMemory);
}

#[test]
fn an_engine_without_a_world_is_none() {
    refused!(Engine::builder().build(), NoWorld);
}
