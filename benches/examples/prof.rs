use benches::subject;
fn main() {
    let engine = subject::engine();
    let modules: Vec<_> = (0..16).map(|_| subject::module(&engine)).collect();
    let sites: Vec<_> = modules.iter().flat_map(subject::reads).collect();
    let seqs = [subject::hit(8), subject::hit(16)];
    let mut total = std::time::Duration::ZERO;
    let mut empty = std::time::Duration::ZERO;
    for i in 0..20000 {
        for s in &sites {
            let p = engine
                .transaction()
                .patch_site(s, &seqs[i % 2])
                .unwrap()
                .prepare()
                .unwrap();
            total += benches::measure::time(|| commit(p));
            empty += benches::measure::time(|| ());
        }
    }
    println!(
        "{} {}",
        total.as_nanos() / 20000 / 32,
        empty.as_nanos() / 20000 / 32
    );
}
#[inline(never)]
fn commit(p: patchpoint::engine::Prepared<'_>) {
    p.commit().unwrap();
}
