//! The stack maps of real objects of every architecture, written as flat maps with what else is
//! known of the code: what is read back is what the original says, and what was told.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use asm_tests::{Folder, Source};
use patchpoint::addr::{CodeAddr, DwarfReg, Len};
use patchpoint::arch::Arch;
use patchpoint::image::{Image, ImageReach, Object};
use patchpoint::stackmap::flat::{Dialect, FlatFunction, FlatRecord, FlatWriter};
use patchpoint::stackmap::{FunctionRecord, Record, StackMap, StackMaps, Version};

const DIALECTS: [Dialect; 2] = [Dialect::Proposal, Dialect::Fork];

fn link(name: &str, bytes: &[u8]) -> Image {
    let layout = Object::parse(bytes).unwrap().layout().unwrap();
    let low = layout.reach() == ImageReach::Low2GiB;
    let base = CodeAddr::new(if low { 0x1000_0000 } else { 0x7f12_3450_0000 });
    let (addrs, _) = layout.contiguous(base, Len::new(1 << 16)).unwrap();
    let linked = layout.link(&addrs, &|_| base.plus(Len::new(0x8_0000)));
    linked.unwrap_or_else(|error| panic!("{name}: {error}")).image
}

fn stack_pointer(arch: Arch) -> DwarfReg {
    DwarfReg::new(match arch {
        Arch::X86_64 => 7,
        Arch::AArch64 => 31,
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => 1,
        Arch::SystemZ => 15,
        Arch::RiscV64 => 2,
    })
}

/// What the runtime that wrote the IR knows: the shapes of the source.
fn reserved(source: &Source, record: &Record<'_>) -> Len {
    source.shape(record.id().get()).unwrap().reserved()
}

fn function(image: &Image, of: &FunctionRecord<'_>) -> FlatFunction {
    let found = image.function_at(CodeAddr::new(of.address())).unwrap();
    FlatFunction::new(found.len, stack_pointer(image.arch))
}

fn compare(name: &str, original: &StackMap<'_>, flat: &StackMap<'_>, image: &Image, source: &Source) {
    assert!(original.constants().iter().eq(flat.constants().iter()), "{name}");
    assert_eq!(original.functions().len(), flat.frames().len(), "{name}");
    for ((was, is), frame) in original.functions().zip(flat.functions()).zip(flat.frames()) {
        assert_eq!(
            (was.address(), was.stack_size()),
            (is.address(), is.stack_size()),
            "{name}"
        );
        assert_eq!(FlatFunction::from(frame), function(image, &was), "{name}");
        let (was, is) = (was.records().unwrap(), is.records().unwrap());
        assert_eq!(was.len(), is.len(), "{name}");
        for (was, is) in was.zip(is) {
            assert_eq!((was.id(), was.offset()), (is.id(), is.offset()), "{name}");
            assert!(was.locations().eq(is.locations()), "{name}: {was:?} {is:?}");
            assert!(was.live_outs().eq(is.live_outs()), "{name}: {was:?} {is:?}");
            // Some reserve nothing, which is not told.
            assert_eq!(
                is.reserved().unwrap_or_default(),
                reserved(source, &was),
                "{name}"
            );
            assert_eq!(is.has_live_out_info(), Some(was.live_outs().len() > 0), "{name}");
        }
    }
}

#[test]
fn flat_maps_of_real_objects_say_what_the_originals_say() {
    let (mut objects, mut records) = (0, 0);
    for folder in Folder::ALL {
        for object in folder.objects() {
            let name = format!("{}/{}", folder.name(), object.name);
            let (image, source) = (link(&name, &object.bytes), folder.source(&object.source));
            let maps = StackMaps::parse(&image.stack_maps, image.endian).unwrap();
            objects += 1;
            for dialect in DIALECTS {
                let written = maps.maps().iter().map(|map| {
                    let told = |record: &Record<'_>| FlatRecord {
                        reserved: reserved(&source, record),
                        ..record.into()
                    };
                    let written = FlatWriter::new(dialect).write(map, |of| function(&image, of), told);
                    written.unwrap_or_else(|error| panic!("{name}: {error}"))
                });
                let section: Vec<u8> = written.flatten().collect();
                let flat = StackMaps::parse(&section, image.endian).unwrap();
                assert_eq!(flat.maps().len(), maps.maps().len(), "{name}");
                for (original, flat) in maps.maps().iter().zip(flat.maps()) {
                    assert_eq!(flat.version(), Version::Flat(dialect), "{name}");
                    compare(&name, original, flat, &image, &source);
                    records += flat.records().len();
                }
            }
        }
    }
    println!("{objects} objects, {records} records");
    assert!(objects > 200 && records > 6_000, "{objects} {records}");
}
