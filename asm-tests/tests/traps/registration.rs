//! What registration refuses: sites that overlap, that are shorter than promised, that are not what
//! was told.

use super::*;
use patchpoint::error::ProviderError;

#[test]
fn the_shapes_of_the_source_are_right() {
    let (engine, _) = engine();
    assert_eq!(registered(&engine, nobody).sites().count(), 11);
}

#[test]
fn a_reserved_length_of_zero_is_refused() {
    refused!(
        with_shape(4, CallShape::any_reg(0).result().args(1)),
        Site(SiteEmpty),
        4
    );
    refused!(with_shape(3, CallShape::shadow(0)), Site(SiteEmpty), 3);
}

/// Every length that site 4, of nops, and site 1, of a call and nops, could be told, against what
/// is there.
#[test]
fn a_patchpoint_told_too_long_or_too_short_is_refused() {
    let (engine, _) = engine();
    let _module = registered(&engine, nobody);
    let told = |id, len| match id {
        1 => with_shape(1, CallShape::c(len).result().args(1)),
        _ => with_shape(4, CallShape::any_reg(len).result().args(1)),
    };
    for (id, least) in [(4, 1), (1, HOST.call)] {
        let (room, mut boundaries) = rest(&the_site(&engine, id));
        if ARCH.is_powerpc64() {
            // The two instructions of a call are decoded as one where both are there.
            boundaries.push(4);
        }
        for len in 1..=room {
            match (boundaries.contains(&len), len >= least && len <= reserved(id)) {
                // An instruction straddles its end.
                (false, _) => refused!(told(id, len), Site(SiteUndecodable), id),
                // Whole nops are all that can be seen of a patchpoint told shorter.
                (true, true) => drop(told(id, len).unwrap()),
                // A part of the call, or what follows: the epilogue.
                (true, false) => refused!(told(id, len), Site(NotLlvmPatchpoint), id),
            }
        }
        refused!(told(id, room + 1), Site(SiteOutsideFunction), id);
        refused!(told(id, u32::MAX), Site(SiteOutsideFunction), id);
    }
}

#[test]
fn a_site_told_into_the_next_record_is_refused() {
    refused!(
        with_shape(6, CallShape::any_reg(reserved(6) + 1).result().args(1)),
        Site(SiteOverlapsRecord),
        6
    );
    refused!(
        with_shape(6, CallShape::any_reg(2 * reserved(6)).result().args(1)),
        Site(SiteOverlapsRecord),
        6
    );
    // Also where that record is no site.
    let (engine, _) = engine();
    let only = |record: &patchpoint::site::Candidate<'_>| {
        (record.id().get() == 6).then(|| CallShape::any_reg(2 * reserved(6)).result().args(1))
    };
    refused!(
        // SAFETY: what is told is true of the object's code, or refused.
        unsafe { engine.register(load(&engine, nobody), only) },
        Site(SiteOverlapsRecord),
        6
    );
}

#[test]
fn a_shadow_shorter_than_promised_is_refused() {
    let shadow = |len| with_shape(8, CallShape::shadow(len));
    shadow(12).unwrap();
    let (engine, _) = engine();
    let _module = registered(&engine, nobody);
    let (room, _) = rest(&the_site(&engine, 8));
    refused!(shadow(room + 1), Site(SiteOutsideFunction), 8);
    refused!(shadow(room + 20), Site(SiteOutsideFunction), 8);
    let (room, _) = rest(&the_site(&engine, 3));
    refused!(
        with_shape(3, CallShape::shadow(room + 4)),
        Site(SiteOutsideFunction),
        3
    );
}

#[test]
fn a_shape_that_the_record_contradicts_is_refused() {
    refused!(
        with_shape(4, CallShape::any_reg(reserved(4)).result().args(2)),
        Site(TooFewLocations),
        4
    );
    refused!(
        with_shape(4, CallShape::any_reg(reserved(4)).result().args(u32::MAX)),
        Site(TooFewLocations),
        4
    );
    refused!(
        with_shape(4, CallShape::entry(reserved(4))),
        Site(EntryHasNoRecord),
        4
    );
    // A shadow's record with the shape of a patchpoint: real instructions.
    let (engine, _) = engine();
    let _module = registered(&engine, nobody);
    let end = rest(&the_site(&engine, 3)).1[2];
    refused!(with_shape(3, CallShape::any_reg(end)), Site(NotLlvmPatchpoint), 3);
    refused!(
        with_shape(3, CallShape::any_reg(end + 1)),
        Site(SiteUndecodable),
        3
    );
}

#[test]
fn an_entry_that_overlaps_a_record_is_refused() {
    let (engine, _) = engine();
    let _module = registered(&engine, nobody);
    let site = the_site(&engine, 4);
    // The last of the nops of patchpoint 4 again, as an entry.
    let before = rest(&site).1.into_iter().filter(|at| *at < reserved(4)).max();
    let (last, len) = (before.unwrap(), reserved(4) - before.unwrap());
    let at = patchpoint::addr::FnOffset::new(site.offset().get() + last);
    let again = || EntrySpec::new("entry_then_site", 100, len);
    // It is not at the function's entry.
    refused!(with_entry(again().at(at)), Site(EntryNotAtStart), 100);
    // SAFETY: it is refused.
    let refused = with_entry(unsafe { again().promised_at(at) });
    assert!(
        matches!(
            &refused,
            Err(Error::Site(patchpoint::site::Error::SitesOverlap { .. }))
        ),
        "{refused:?}"
    );
    let twice = || EntrySpec::new("entered", 100, 16);
    let (engine, _) = super::engine();
    let registration = engine
        .registration(load(&engine, nobody))
        .entry(twice())
        .entry(twice());
    // SAFETY: what is told is true of the object's code, or refused.
    let refused = unsafe { registration.register(|record| shape(record.id())) };
    assert!(
        matches!(
            &refused,
            Err(Error::Site(patchpoint::site::Error::SitesOverlap { .. }))
        ),
        "{refused:?}"
    );
}

#[test]
fn a_refused_registration_leaves_nothing() {
    let (engine, _) = engine();
    let wrong = |_: &site::Candidate<'_>| CallShape::any_reg(reserved(5) + 1).result().args(1);
    // SAFETY: what is told is true of the object's code, or refused.
    assert!(unsafe { engine.register(load(&engine, nobody), wrong) }.is_err());
    assert!(engine.modules().is_empty() && engine.sites(5).is_err());
    // And what the runtime's closure answers is the answer.
    let why = ProviderError::new(std::io::Error::other("the runtime knows better"));
    let own = |_: &site::Candidate<'_>| -> site::Result<CallShape> { Err(why.clone().into()) };
    assert_eq!(
        // SAFETY: what is told is true of the object's code, or refused.
        unsafe { engine.register(load(&engine, nobody), own) }.err(),
        Some(Error::Provider(why))
    );
    registered(&engine, nobody);
}
