//! Finding sites: by ID, by address, by function; and reading the reserved length from LLVM's
//! bytes.

use super::*;
use patchpoint::addr::Len;
use patchpoint::arch::SiteKind;
use patchpoint::sequence::{Sequence, arg, result};

#[test]
fn an_id_names_all_its_sites_also_of_other_modules() {
    let (engine, _) = engine();
    let module = registered(&engine, nobody);
    let addrs = |sites: &[Site]| sites.iter().map(Site::addr).collect::<Vec<_>>();
    let found = addrs(&engine.sites(5).unwrap());
    let expected = module
        .sites()
        .filter(|site| site.id().get() == 5)
        .collect::<Vec<_>>();
    assert_eq!((found.len(), &found), (3, &addrs(&expected)));
    assert!(matches!(engine.sites(99), Err(Error::NoSuchSite { .. })));

    let second = registered(&engine, nobody);
    assert_eq!(addrs(&engine.sites(5).unwrap())[..3], found);
    assert_eq!(engine.sites(5).unwrap().len(), 6);
    let seven = Sequence::new().mov(result(), arg(0)).add(result(), 7u64);
    assert_eq!(engine.patch(5, &seven).unwrap().sites, 6);
    for module in [&module, &second] {
        assert_eq!(call(module, "same_ids", [1, 2]), 8 * 9);
        assert_eq!(call(module, "same_id_elsewhere", [1, 0]), 8);
    }
    assert_eq!(engine.restore(5).unwrap().sites, 6);
}

#[test]
fn an_address_finds_the_site_that_holds_it_to_the_byte() {
    let (engine, _) = engine();
    let module = registered(&engine, nobody);
    let at = |addr: u64| engine.site_at(CodeAddr::new(addr)).map(|site| site.key());
    for site in module.sites() {
        let (first, end) = (site.addr().get(), site.end().get());
        assert_eq!([at(first), at(end - 1)], [Some(site.key()); 2]);
        assert_ne!(at(first - 1), Some(site.key()));
        assert_ne!(at(end), Some(site.key()));
    }
    // Patchpoint 7 begins where 6 ends.
    let [six, seven] = [6, 7].map(|id| the_site(&engine, id));
    assert_eq!(
        (six.end(), at(six.end().get())),
        (seven.addr(), Some(seven.key()))
    );
    let code = module.areas()[0].range();
    for outside in [
        0,
        code.start().get() - 1,
        code.start().get(),
        code.end().get(),
        u64::MAX,
    ] {
        assert_eq!(at(outside), None);
    }
}

#[test]
fn a_function_has_its_sites_and_no_others() {
    let (engine, _) = engine();
    let module = registered(&engine, nobody);
    let ids = |name| -> Vec<u64> {
        let function = module.function(name).unwrap();
        function.sites().map(|site| site.id().get()).collect()
    };
    assert_eq!(
        [ids("calls"), ids("adjacent"), ids("same_ids")],
        [vec![1], vec![6, 7, 8], vec![5, 5]]
    );
    assert_eq!(ids("entered"), [0; 0]);
    let all: usize = module.functions().map(|function| function.sites().count()).sum();
    assert_eq!(all, module.sites().count());
}

#[test]
fn ids_without_records_are_told_and_records_without_shapes_are_no_sites() {
    let (engine, _) = engine();
    let registration = engine.registration(load(&engine, nobody));
    let shapes = [4, 5, 98, 97].map(|id| (RecordId::new(id), shape(RecordId::new(id.min(5))).unwrap()));
    // SAFETY: what is told is true of the object's code, or refused.
    let (module, missing) = unsafe { registration.register_ids(&shapes.into()) }.unwrap();
    assert_eq!(missing, [RecordId::new(97), RecordId::new(98)]);
    assert_eq!(module.sites().count(), 4);
    assert!(engine.sites(1).is_err());
}

#[test]
fn reserved_lengths_are_inferred_where_llvm_leaves_no_doubt() {
    let (engine, _) = engine();
    let mut seen = Vec::new();
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe {
        engine.register(load(&engine, nobody), |record| {
            let expected = shape(record.id()).unwrap();
            match (record.infer_reserved(), record.id().get()) {
                // Shadows hold instructions, be they nops.
                (_, 3 | 8) => {}
                // A call and nops, and only nops, with other instructions behind.
                (Ok(len), id) => assert_eq!(len, expected.reserved(), "{id}"),
                (Err(site::Error::ReservedLengthAmbiguous { .. }), id) => seen.push(id),
                other => panic!("{other:?}"),
            }
            assert!(record.room() >= expected.reserved());
            expected
        })
    }
    .unwrap();
    // Other nops end at the next record, or where an alignment's would.
    let module = registered(&engine, nobody);
    let mut expected: Vec<u64> = module
        .sites()
        .filter(|site| {
            let next = module.sites().any(|other| other.addr() == site.end());
            site.shape().kind() == SiteKind::Patchpoint && (next || site.end().get() % 16 == 0)
        })
        .map(|site| site.id().get())
        .collect();
    expected.sort_unstable();
    seen.sort_unstable();
    assert_eq!(seen, expected);
    assert!([6, 7, 9].iter().all(|id| seen.contains(id)) && !seen.contains(&4));
}

#[test]
fn nops_that_end_at_an_alignment_are_ambiguous() {
    let (engine, _) = engine();
    let mut answer = None;
    let shapes = |record: &patchpoint::site::Candidate<'_>| {
        if record.function() == "aligned_end" {
            answer = Some(record.infer_reserved());
        }
        None::<CallShape>
    };
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { engine.register(load(&engine, nobody), shapes) }.unwrap();
    assert!(
        matches!(answer, Some(Err(site::Error::ReservedLengthAmbiguous { seen, .. })) if seen == Len::new(ALIGNED)),
        "{answer:?}"
    );
}
