//! Cross-loading: the objects of every architecture are linked on this machine, whatever it is, and
//! what is known of the result is looked at. Nothing is run.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use asm_tests::Folder;
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::deopt::UnwindInfo;
use patchpoint::image::{ImageReach, LinkedImage, Object, SegmentKind};
use patchpoint::stackmap::StackMaps;

const PAGE: Len = Len::new(1 << 16);
const LOW: CodeAddr = CodeAddr::new(0x1000_0000);
const HIGH: CodeAddr = CodeAddr::new(0x7f12_3450_0000);

/// Addresses outside depend on nothing but the name; `distance` from the image is near or far.
fn link(name: &str, bytes: &[u8], base: CodeAddr, distance: u64) -> LinkedImage {
    let layout = Object::parse(bytes).unwrap().layout().unwrap();
    let base = if layout.reach() == ImageReach::Low2GiB {
        LOW
    } else {
        base
    };
    let (addrs, _) = layout.contiguous(base, PAGE).unwrap();
    let resolve = |name: &str| {
        let offset = 0x8_0000 + name.len() as u64 * 0x10;
        (!name.contains("missing")).then(|| CodeAddr::new(base.get() + distance + offset))
    };
    let linked = layout.link(&addrs, &resolve);
    linked.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every object of a folder that has a stack map, by its name.
fn for_all(folder: Folder, mut check: impl FnMut(&str, &[u8])) {
    let objects = folder.objects();
    assert!(!objects.is_empty(), "{}", folder.name());
    for object in objects {
        check(&format!("{}/{}", folder.name(), object.name), &object.bytes);
    }
}

#[test]
fn every_stack_map_knows_its_functions() {
    let mut records = 0;
    for folder in Folder::ALL {
        for_all(folder, |name, bytes| {
            let image = link(name, bytes, HIGH, 0).image;
            let maps = StackMaps::parse(&image.stack_maps, image.endian).unwrap();
            assert_eq!(image.arch.endian(), image.endian, "{name}");
            for function in maps.maps().iter().flat_map(|map| map.functions()) {
                let addr = CodeAddr::new(function.address());
                let found = image
                    .function_at(addr)
                    .unwrap_or_else(|| panic!("{name}: {addr}"));
                assert_eq!(found.addr, addr, "{name}");
                assert_eq!(found.pointer != addr, image.arch.has_descriptors(), "{name}");
                for record in function.records().unwrap() {
                    assert!(record.offset().get() <= found.len.get(), "{name}");
                    records += 1;
                }
            }
        });
    }
    println!("{records} records");
    assert!(records > 3000, "{records}");
}

/// The unwind information has a row that is understood for each record of a function that it
/// covers.
#[test]
fn unwind_information_of_every_architecture_is_read() {
    for folder in Folder::ALL {
        let (mut covered, mut not) = (0, 0);
        for_all(folder, |name, bytes| {
            let image = link(name, bytes, HIGH, 0).image;
            let infos: Vec<_> = image
                .eh_frames
                .iter()
                .map(|frame| UnwindInfo::for_arch(image.arch, frame.addr, &frame.bytes).unwrap())
                .collect();
            let maps = StackMaps::parse(&image.stack_maps, image.endian).unwrap();
            for function in maps.maps().iter().flat_map(|map| map.functions()) {
                for record in function.records().unwrap() {
                    let pc = CodeAddr::new(function.address() + u64::from(record.offset().get()));
                    match infos.iter().map(|info| info.can_return(pc)).find(Result::is_ok) {
                        Some(_) => covered += 1,
                        None => {
                            // Either no entry covers it, or its row is understood.
                            for info in &infos {
                                let error = info.can_return(pc).unwrap_err();
                                assert!(
                                    matches!(error, patchpoint::deopt::Error::UnwindMissing { .. }),
                                    "{name}: {error}"
                                );
                            }
                            not += 1;
                        }
                    }
                }
            }
        });
        println!(
            "{}: {covered} records covered, {not} without an entry",
            folder.name()
        );
        assert!(
            covered > 100 && not * 4 < covered,
            "{}: {covered} {not}",
            folder.name()
        );
    }
}

/// What is far away is reached through stubs and tables, wherever it is and wherever the image is;
/// but for code models that cannot. The same addresses give the same bytes.
#[test]
fn far_symbols_are_reached() {
    for folder in Folder::ALL {
        for_all(folder, |name, bytes| {
            // Without a table, or without stubs, an address outside must be near.
            let reach = Object::parse(bytes).unwrap().layout().unwrap().reach();
            if reach == ImageReach::Low2GiB || name.contains("static") || name.contains("-tiny") {
                return;
            }
            let far = link(name, bytes, HIGH, 0x1000_0000_0000);
            let near = link(name, bytes, HIGH, 0);
            for (far, near) in far.segments.iter().zip(&near.segments) {
                assert_eq!(
                    (far.kind, far.addr, far.bytes.len()),
                    (near.kind, near.addr, near.bytes.len())
                );
            }
            let again = link(name, bytes, HIGH, 0x1000_0000_0000);
            let code = |linked: &LinkedImage| {
                let segments = linked.segments.iter();
                segments
                    .filter(|s| s.kind == SegmentKind::Code)
                    .map(|s| s.bytes.clone())
                    .collect::<Vec<_>>()
            };
            assert_eq!(code(&far), code(&again), "{name}");
        });
    }
}
