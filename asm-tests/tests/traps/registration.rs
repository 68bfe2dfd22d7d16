//! What registration refuses: sites that overlap, that are shorter than promised, that are not what was told.

use super::*;

#[test]
fn the_shapes_of_the_source_are_right() {
    let (engine, _) = engine();
    assert_eq!(registered(&engine, nobody).sites().count(), 11);
}

#[test]
fn a_reserved_length_of_zero_is_refused() {
    refused!(
        with_shape(4, CallShape::any_reg(0).result().args(1)),
        SiteEmpty,
        4
    );
    refused!(with_shape(3, CallShape::shadow(0)), SiteEmpty, 3);
}

#[test]
fn a_patchpoint_told_too_long_or_too_short_is_refused() {
    let any = |len| with_shape(4, CallShape::any_reg(len).result().args(1));
    // Beyond it stand `pop rbp; ret`, and then the function ends.
    refused!(any(25), NotLlvmPatchpoint, 4);
    refused!(any(26), NotLlvmPatchpoint, 4);
    refused!(any(27), SiteOutsideFunction, 4);
    refused!(any(u32::MAX), SiteOutsideFunction, 4);
    // An instruction straddles its end.
    refused!(any(23), SiteUndecodable, 4);
    refused!(any(1), SiteUndecodable, 4);
    // Whole nops are all that can be seen of a patchpoint told shorter.
    any(20).unwrap();
    let c = |len| with_shape(1, CallShape::c(len).result().args(1));
    refused!(c(12), SiteUndecodable, 1);
    refused!(c(10), NotLlvmPatchpoint, 1);
    refused!(c(44), NotLlvmPatchpoint, 1);
    c(13).unwrap();
}

#[test]
fn a_site_told_into_the_next_record_is_refused() {
    refused!(
        with_shape(6, CallShape::any_reg(21).result().args(1)),
        SiteOverlapsRecord,
        6
    );
    refused!(
        with_shape(6, CallShape::any_reg(40).result().args(1)),
        SiteOverlapsRecord,
        6
    );
    // Also where that record is no site.
    let (engine, _) = engine();
    let only = |record: &patchpoint::site::Candidate<'_>| {
        (record.id().get() == 6).then(|| CallShape::any_reg(40).result().args(1))
    };
    refused!(
        engine.register(load(&engine, nobody), only),
        SiteOverlapsRecord,
        6
    );
}

#[test]
fn a_shadow_shorter_than_promised_is_refused() {
    let shadow = |len| with_shape(8, CallShape::shadow(len));
    shadow(12).unwrap();
    refused!(shadow(13), SiteOutsideFunction, 8);
    refused!(shadow(32), SiteOutsideFunction, 8);
    refused!(with_shape(3, CallShape::shadow(20)), SiteOutsideFunction, 3);
}

#[test]
fn a_shape_that_the_record_contradicts_is_refused() {
    refused!(
        with_shape(4, CallShape::any_reg(24).result().args(2)),
        TooFewLocations,
        4
    );
    refused!(
        with_shape(4, CallShape::any_reg(24).result().args(u32::MAX)),
        TooFewLocations,
        4
    );
    refused!(with_shape(4, CallShape::entry(24)), EntryHasNoRecord, 4);
    // A shadow's record with the shape of a patchpoint: real instructions.
    refused!(with_shape(3, CallShape::any_reg(13)), NotLlvmPatchpoint, 3);
    refused!(with_shape(3, CallShape::any_reg(16)), SiteUndecodable, 3);
}

#[test]
fn an_entry_that_overlaps_a_record_is_refused() {
    // Its 24 nops of patchpoint 4 again, as an entry.
    let again = EntrySpec::new("entry_then_site", 100, 4).at(patchpoint::addr::FnOffset::new(40));
    let refused = with_entry(again);
    assert!(matches!(&refused, Err(Error::SitesOverlap { .. })), "{refused:?}");
    let twice = || EntrySpec::new("entered", 100, 16);
    let (engine, _) = engine();
    let registration = engine
        .registration(load(&engine, nobody))
        .entry(twice())
        .entry(twice());
    let refused = registration.register(|record| shape(record.id()));
    assert!(matches!(&refused, Err(Error::SitesOverlap { .. })), "{refused:?}");
}

#[test]
fn a_refused_registration_leaves_nothing() {
    let (engine, _) = engine();
    let wrong = |_: &patchpoint::site::Candidate<'_>| CallShape::any_reg(33).result().args(1);
    assert!(engine.register(load(&engine, nobody), wrong).is_err());
    assert!(engine.modules().is_empty() && engine.sites(5).is_err());
    // And what the runtime's closure answers is the answer.
    let own = |_: &patchpoint::site::Candidate<'_>| -> Result<CallShape> { Err(Error::NoWorld) };
    assert_eq!(
        engine.register(load(&engine, nobody), own).err(),
        Some(Error::NoWorld)
    );
    registered(&engine, nobody);
}
