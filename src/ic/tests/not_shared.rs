//! A shared cache at sites that cannot look into it: they do without, and say why.

use super::*;

#[test]
fn a_site_without_a_register_for_the_probe_does_without() {
    let policy = Chain {
        limit: 0,
        back_off: 0,
        cool_down: 0,
    };
    let probe = |site: &crate::site::Site| {
        Some(Probe::load::<u64>(
            site.id().get(),
            u32::at(arg(0), SHAPE),
            arg(0),
        ))
    };
    let lab = Lab::new(Caches::builder().policy(policy).shared_cache(4096, probe));
    (0..20).for_each(|shape| lab.runtime.define(shape, shape as usize % 4));
    for _ in 0..3 {
        (0..20).for_each(|shape| lab.read(shape));
    }
    assert_eq!(lab.cache.state(), CacheState::Megamorphic);
    assert_eq!(lab.lookups(), 60);
    let refusal = lab.cache.last_refusal().unwrap().to_string();
    assert!(refusal.contains("a second value to compare"), "{refusal}");
}
