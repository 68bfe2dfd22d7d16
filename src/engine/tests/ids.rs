//! Sites that share an ID.

use super::*;
use crate::publish::GracePeriod;

/// Two functions with the first ID, one with the second.
fn functions() -> [Written; 3] {
    [identity(7), identity(8), identity(7)]
}

fn addrs(engine: &Engine, id: u64) -> Vec<CodeAddr> {
    let sites = engine.sites(id).unwrap_or_default();
    sites.iter().map(Site::addr).collect()
}

#[test]
fn an_id_finds_all_its_sites_in_order_as_long_as_they_are_registered() {
    let lab = Lab::new();
    let texts = [(); 3].map(|()| Text::new(&functions()));
    let modules = texts.each_ref().map(|text| lab.register(text, &functions()));
    let both = |text: &Text| [text.addr(0), text.addr(2)];
    let all: Vec<CodeAddr> = texts.iter().flat_map(both).collect();
    assert_eq!(addrs(&lab.engine, 7), all);
    assert_eq!(addrs(&lab.engine, 8), texts.each_ref().map(|text| text.addr(1)));
    let [first, second, third] = modules;
    let unregister = |module| {
        // SAFETY: nothing runs there.
        let grace_period = unsafe { GracePeriod::promise() };
        lab.engine.unregister(module, &grace_period).unwrap();
    };
    unregister(second);
    assert_eq!(addrs(&lab.engine, 7), [both(&texts[0]), both(&texts[2])].concat());
    assert_eq!(addrs(&lab.engine, 8), [texts[0].addr(1), texts[2].addr(1)]);
    unregister(first);
    unregister(third);
    assert!(addrs(&lab.engine, 7).is_empty() && addrs(&lab.engine, 8).is_empty());
    // The list that was freed serves the next.
    let text = Text::new(&functions());
    let _module = lab.register(&text, &functions());
    assert_eq!(addrs(&lab.engine, 7), both(&text));
    assert_eq!(lab.engine.site_at(text.addr(1)).unwrap().id().get(), 8);
}

#[test]
fn a_site_is_in_a_transaction_once_however_many_there_are() {
    let functions: Vec<Written> = (0..12).map(identity).collect();
    let text = Text::new(&functions);
    let lab = Lab::new();
    let sites: Vec<Site> = lab.register(&text, &functions).sites().collect();
    for twice in 0..sites.len() {
        let mut transaction = lab.engine.transaction();
        for site in &sites {
            transaction.patch_site(site, &plus(1)).unwrap();
        }
        refused!(transaction.patch_site(&sites[twice], &plus(2)), SiteTwice);
    }
    let mut all = lab.engine.transaction();
    for site in &sites {
        all.patch_site(site, &plus(1)).unwrap();
    }
    assert_eq!(all.commit().unwrap().sites, sites.len());
}
