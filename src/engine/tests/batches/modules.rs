//! Batches of sites of several modules.

use super::*;
use crate::engine::batch::failing::{self, Fails};
use crate::engine::change::Side;
use crate::publish::Vacated;

/// Functions of one engine, each in a module of its own.
struct Several(Vec<Many>);

impl Several {
    fn new(modules: &[&[Holds]]) -> Self {
        Self::of(modules, |builder| builder)
    }

    fn of(modules: &[&[Holds]], built: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Self {
        let (first, others) = modules.split_first().unwrap();
        let first = Many::of(first, built);
        let more = |holds: &&[Holds]| {
            let engine = first.engine.clone();
            let (placed, module) = Many::registered(&engine, holds);
            Many {
                engine,
                placed,
                holds: holds.to_vec(),
                module,
                handled: Arc::clone(&first.handled),
            }
        };
        let others: Vec<_> = others.iter().map(more).collect();
        Self([first].into_iter().chain(others).collect())
    }

    fn engine(&self) -> &Engine {
        &self.0[0].engine
    }

    fn release(&self) {
        self.0.iter().for_each(|many| many.module.release());
    }

    /// Asks for the same of all sites, at once or prepared first.
    fn commit(&self, at_once: bool, sequence: Option<&Sequence>) -> Result<Receipt> {
        let mut transaction = self.engine().transaction();
        for site in self.0.iter().flat_map(Many::sites) {
            match sequence {
                None => transaction.invalidate_site(&site)?,
                Some(sequence) => transaction.patch_site(&site, sequence)?,
            };
        }
        match at_once {
            true => transaction.commit(),
            false => transaction.prepare()?.commit(),
        }
    }

    fn batched(&self) -> Vec<Vec<usize>> {
        self.0.iter().map(Many::batched).collect()
    }

    /// How many sites are in batches.
    fn in_batches(&self) -> usize {
        self.batched().iter().map(Vec::len).sum()
    }

    /// All functions do what they did, each by way of the handlers of its sites.
    fn call_invalidated(&self) {
        for many in &self.0 {
            many.call(0..many.holds.len());
        }
    }

    /// What can be seen of each site: each goes to its own exit stub, if to one.
    fn looks(&self) -> Vec<impl PartialEq + std::fmt::Debug + use<>> {
        let engine = self.engine();
        let journal = engine.journal();
        let of_site = |many: &Many, number: usize| {
            let site = many.site(number);
            let held = bytes(&site);
            if held[0] == 0xe9 {
                let of = engine.site_of_stub(many.exit_stub(number)).unwrap();
                assert_eq!(of.key(), site.key());
            }
            let mut states = engine.shared.states.lock();
            let of_state = states.of(&site).map(|state| {
                let installed = state.installed;
                let offsets = installed.return_offsets.to_vec();
                (
                    installed.status,
                    installed.generation,
                    offsets,
                    state.code().count(),
                )
            });
            drop(states);
            // One that was to be changed, and was not, may have a state.
            let of_state = of_state.filter(|(_, generation, ..)| *generation > 0);
            let entries = journal.iter().filter(|entry| entry.site == site.key());
            let entries = entries.map(|entry| {
                assert_eq!(entry.name.as_ref().unwrap().addr, site.addr());
                (
                    entry.generation,
                    entry.became,
                    many.at(number, &entry.before),
                    many.at(number, &entry.after),
                )
            });
            (many.at(number, &held), of_state, entries.collect::<Vec<_>>())
        };
        let sites = self
            .0
            .iter()
            .flat_map(|many| (0..many.holds.len()).map(move |number| (many, number)));
        sites.map(|(many, number)| of_site(many, number)).collect()
    }
}

const MIXED: &[Holds] = &[Holds::Call, Holds::Nops, Holds::Call];

/// What is asked for of the sites of such modules comes to the same at once and prepared first. How many sites
/// were in batches, and in how many, after each.
fn stages(modules: &[&[Holds]], released: &[bool], stages: &[Option<&Sequence>]) -> Vec<(usize, usize)> {
    let [at_once, singly] = [(); 2].map(|()| Several::new(modules));
    for several in [&at_once, &singly] {
        let modules = several.0.iter().zip(released.iter().cycle());
        modules
            .filter(|(_, released)| **released)
            .for_each(|(many, _)| many.module.release());
    }
    let stages = stages.iter().map(|stage| {
        let receipt = at_once.commit(true, *stage).unwrap();
        assert_eq!(singly.commit(false, *stage).unwrap(), receipt);
        for (one, other) in at_once.0.iter().zip(&singly.0) {
            assert_eq!(one.called().1, other.called().1);
        }
        (at_once.in_batches(), at_once.0[0].batches())
    });
    let stages = stages.collect();
    assert_eq!(at_once.looks(), singly.looks());
    assert_eq!(at_once.0[0].batches(), 0, "all were asked about");
    stages
}

#[test]
fn sites_of_many_modules_are_as_those_that_were_prepared_first() {
    let all = [MIXED; 12];
    for released in [false, true] {
        // Of each form one or two are changed by themselves, as what fills the others is known only then.
        let is_most = |stages: Vec<(usize, usize)>| stages == [(33, 2)] || stages == [(32, 2)];
        assert!(is_most(stages(&all, &[released], &[None])));
        let hits = Sequence::new().guard_eq(arg(0), 7u64, Target::Miss);
        let hits = hits.mov(result(), arg(0));
        assert!(is_most(stages(&all, &[released], &[Some(&hits)])));
        // Batches of several parts are in the place of none.
        assert_eq!(
            stages(&all, &[released], &[Some(&hits), Some(&hits), None])[2],
            (0, 0)
        );
    }
    let several = Several::new(&all);
    several.release();
    several.commit(true, None).unwrap();
    several.call_invalidated();
    assert!(several.in_batches() > 20, "handlers do not ask for states");
}

/// What they resume with is moved once, and copied: each copy reads what its own module has, and goes on there.
#[test]
fn what_sites_of_many_modules_displace_refers_to_their_own() {
    const READS: &[Holds] = &[Holds::Call, Holds::Read, Holds::Read, Holds::Nops];
    for released in [false, true] {
        let all = [READS; 12];
        let in_batches = stages(&all, &[released], &[None]);
        assert!(in_batches[0].0 > 40, "{in_batches:?}");
        let several = Several::new(&all);
        if released {
            several.release();
        }
        several.commit(true, None).unwrap();
        several.call_invalidated();
    }
}

/// Sites are alike that hold the same, and no others.
#[test]
fn sites_of_other_modules_that_differ_are_in_no_batch_with_the_others() {
    for other in [Holds::OtherCall, Holds::Nops, Holds::LongNops] {
        let (calls, others) = ([Holds::Call; 3], [other; 3]);
        let mut all: Vec<&[Holds]> = vec![&calls; 10];
        all[5] = &others;
        for released in [false, true] {
            let [(in_batches, _)] = stages(&all, &[released], &[None])[..] else {
                panic!("there is one stage");
            };
            assert!(in_batches >= 25, "{other:?}: {in_batches}");
        }
    }
    // Those whose code was run keep the offsets to which calls return.
    let in_batches = stages(&[MIXED; 12], &[true, false], &[None]);
    println!("{in_batches:?}: of modules of which every second is released");
    let in_batches = stages(
        &[MIXED; 12],
        &[true, true, true, true, true, true, false],
        &[None],
    );
    assert!(in_batches[0].0 > 20, "{in_batches:?}");
}

#[test]
fn sites_of_modules_that_are_not_registered_are_refused() {
    let several = Several::new(&[MIXED; 8]);
    several.release();
    let (_placed, gone) = Many::registered(several.engine(), MIXED);
    gone.release();
    let mut transaction = several.engine().transaction();
    let sites = several.0.iter().flat_map(Many::sites);
    for site in sites.chain(gone.sites()) {
        transaction.invalidate_site(&site).unwrap();
    }
    // After it was asked for.
    // SAFETY: no thread executes the code.
    let proof = unsafe { GracePeriod::promise() };
    several.engine().unregister(gone, &proof).unwrap();
    refused!(transaction.commit(), Site(SiteForeign));
    drop(transaction);
    let stats = several.engine().stub_stats();
    assert_eq!((several.0[0].batches(), stats.in_use), (0, 0));
    several.commit(true, None).unwrap();
    several.call_invalidated();
}

/// A world in which code begins to be run just before it is stopped.
#[derive(Clone, Debug, Default)]
struct RunsCode(Arc<Mutex<Option<Module>>>);

// SAFETY: the test has one thread.
unsafe impl World for RunsCode {
    fn while_stopped(
        &self,
        vacated: &[Vacated],
        work: &mut dyn FnMut(&Stopped),
    ) -> crate::publish::Result<()> {
        if let Some(module) = self.0.lock().take() {
            module.release();
        }
        // SAFETY: as above.
        unsafe { SingleThreaded::promise() }.while_stopped(vacated, work)
    }
}

#[test]
fn a_batch_of_code_that_is_run_meanwhile_is_refused() {
    for number in [0, 5, 9] {
        let world = RunsCode::default();
        // Calls of what is run return into it.
        let several = Several::of(&[&[Holds::Call; 3][..]; 10], |builder| {
            builder.world(world.clone())
        });
        *world.0.lock() = Some(several.0[number].module.clone());
        refused!(several.commit(true, None), SiteChanged);
        let stats = several.engine().stub_stats();
        assert_eq!((several.0[0].batches(), stats.in_use), (0, 0));
        for many in &several.0 {
            many.call([]);
        }
        several.commit(true, None).unwrap();
        several.call_invalidated();
    }
}

#[test]
fn a_batch_of_several_modules_goes_with_the_last_of_them() {
    for reversed in [false, true] {
        let several = Several::new(&[MIXED; 10]);
        several.commit(true, None).unwrap();
        let engine = several.engine().clone();
        assert_eq!(several.0[0].batches(), 2);
        let mut left = several.0;
        if reversed {
            left.reverse();
        }
        while let Some(many) = left.pop() {
            let batched = many.batched();
            // Some have states by now.
            if let Some(number) = batched.first() {
                assert_eq!(engine.status(&many.site(*number)), Status::Invalidated);
            }
            for (number, other) in left.iter().flat_map(|other| [(0, other), (1, other)]) {
                let of = engine.site_of_stub(other.exit_stub(number)).unwrap();
                assert_eq!(of.key(), other.site(number).key());
            }
            many.unregister();
        }
        let stats = engine.stub_stats();
        assert_eq!((engine.shared.states.lock().batches.len(), stats.in_use), (0, 0));
        // Their numbers are used again.
        let modules = [(); 8].map(|()| Many::registered(&engine, MIXED));
        let mut transaction = engine.transaction();
        for site in modules.iter().flat_map(|(_, module)| module.sites()) {
            transaction.invalidate_site(&site).unwrap();
        }
        assert_eq!(transaction.commit().unwrap().sites, 24);
        for site in modules.iter().flat_map(|(_, module)| module.sites()) {
            assert_eq!(engine.status(&site), Status::Invalidated);
        }
    }
}

#[test]
fn a_batch_of_several_modules_is_rolled_back() {
    for after in [0, 1, 7, 20] {
        let several = Several::new(&[MIXED; 10]);
        several.release();
        let held = |several: &Several| {
            several
                .0
                .iter()
                .flat_map(Many::sites)
                .map(|site| bytes(&site))
                .collect::<Vec<_>>()
        };
        let before = held(&several);
        failing::set(Side::New, Some(Fails::Once(after)));
        refused!(several.commit(true, None), Memory(SystemCall));
        assert_eq!(failing::set(Side::New, None), None);
        let stats = several.engine().stub_stats();
        assert_eq!((several.0[0].batches(), stats.in_use), (0, 0));
        assert_eq!(held(&several), before);
        several.0.iter().for_each(|many| many.call([]));
        several.commit(true, None).unwrap();
        several.call_invalidated();
    }
}

/// What was changed behind the engine's back is named, wherever it is.
#[test]
fn bytes_of_a_batch_of_several_modules_are_compared() {
    for (module, number) in [(2, 1), (5, 0), (9, 2)] {
        let several = Several::new(&[MIXED; 10]);
        let many = &several.0[module];
        let site = many.site(number);
        let last = CodeAddr::new(site.addr().get() + u64::from(RESERVED) - 1);
        let original = bytes(&site);
        many.placed.memory().write(last, &[0xcc]).unwrap();
        match several.commit(true, None) {
            Err(Error::BytesChanged {
                site: named,
                expected,
                ..
            }) => {
                assert_eq!((*named, expected), (*site.name(), original.clone()));
            }
            other => panic!("{other:?}"),
        }
        many.placed.memory().write(last, &original[15..]).unwrap();
        several.commit(true, None).unwrap();
    }
}

/// Each site of so many modules gets a guard of the number that it is given, at once and prepared first.
fn guarded(modules: usize, number: impl Fn(u64) -> u64) -> [Several; 2] {
    let forms = std::vec![MIXED; modules];
    let both = [(); 2].map(|()| Several::new(&forms));
    for (several, at_once) in both.iter().zip([true, false]) {
        let mut transaction = several.engine().transaction();
        for (place, site) in (0u64..).zip(several.0.iter().flat_map(Many::sites)) {
            let guard = Sequence::new().guard_eq(arg(0), number(place), Target::Miss);
            transaction
                .patch_site(&site, &guard.mov(result(), arg(0)))
                .unwrap();
        }
        match at_once {
            true => transaction.commit().unwrap(),
            false => transaction.prepare().unwrap().commit().unwrap(),
        };
    }
    both
}

/// A site that is like no other opens a batch which none joins; a transaction of such sites seldom tries.
#[test]
fn where_all_sites_differ_none_is_in_a_batch() {
    let both = guarded(30, |place| place);
    assert_eq!(both[0].in_batches(), 0);
    assert_eq!(both[0].looks(), both[1].looks());
}

/// Behind sites that differ, those that are alike are found again.
#[test]
fn sites_that_are_alike_behind_many_that_differ_are_in_batches() {
    let both = guarded(90, |place| place.min(40));
    let in_batches = both[0].in_batches();
    assert!((20..230).contains(&in_batches), "{in_batches}");
    assert_eq!(both[0].looks(), both[1].looks());
}

/// Numbers that look random, and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % most
    }
}

/// What is asked for of some sites.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Hits,
    Misses,
    Deoptimizes,
    Restored,
    Invalidated,
}

/// Transactions over runs of sites, in any order, some of which cannot be written; and sites that are asked about in
/// between.
#[test]
fn any_transactions_come_to_the_same_at_once_and_prepared_first() {
    let guard = |number: u64, target| {
        Sequence::new()
            .guard_eq(arg(0), number, target)
            .mov(result(), arg(0))
    };
    let [hits, misses] = [7, 8].map(|number| guard(number, Target::Miss));
    let deoptimizes = guard(8, Target::Deopt);
    let (mut batched, mut over, mut failed) = (0, 0, 0);
    for seed in 0..24 {
        let mut dice = Dice(seed);
        let holds: Vec<Vec<Holds>> = (0..1 + dice.below(5))
            .map(|_| {
                let kinds = [Holds::Call, Holds::Nops, Holds::OtherCall, Holds::LongNops];
                let [one, other] = [(); 2].map(|()| kinds[dice.below(4)]);
                let mixed = dice.below(3) == 0;
                let of = |number: usize| if mixed && number % 2 == 1 { other } else { one };
                (0..8 + dice.below(20)).map(of).collect()
            })
            .collect();
        let holds: Vec<&[Holds]> = holds.iter().map(Vec::as_slice).collect();
        let both = [(); 2].map(|()| Several::new(&holds));
        // What was invalidated is asked for no more.
        let mut gone = std::collections::BTreeSet::new();
        for _ in 0..24 {
            // A module's code begins to be run.
            let released = dice.below(2 * holds.len());
            for several in &both {
                several
                    .0
                    .get(released)
                    .into_iter()
                    .for_each(|many| many.module.release());
            }
            let mut asked: Vec<(usize, usize, usize, Asked)> = Vec::new();
            let one = dice.below(10);
            for _ in 0..1 + dice.below(4) {
                let module = dice.below(holds.len());
                let len = holds[module].len();
                let first = if dice.below(2) == 0 { 0 } else { dice.below(len) };
                let end = if dice.below(2) == 0 {
                    len
                } else {
                    first + 1 + dice.below(len - first)
                };
                let what = match one {
                    0..=3 => Asked::Hits,
                    4..=6 => Asked::Misses,
                    7 => Asked::Deoptimizes,
                    8 => Asked::Restored,
                    _ if dice.below(4) == 0 => Asked::Invalidated,
                    _ => Asked::Misses,
                };
                let is_free = |(of, from, to, _): &(usize, usize, usize, Asked)| {
                    *of != module || end <= *from || *to <= first
                };
                if asked.iter().all(is_free) {
                    asked.push((module, first, end, what));
                }
            }
            let fails = (dice.below(6) == 0).then(|| Fails::Once(dice.below(30) as u32));
            let transactions = both.each_ref().map(|several| {
                let mut transaction = several.engine().transaction();
                for (module, first, end, what) in &asked {
                    for site in &several.0[*module].sites()[*first..*end] {
                        if gone.contains(&(*module, site.key().index)) {
                            continue;
                        }
                        match what {
                            Asked::Hits => transaction.patch_site(site, &hits),
                            Asked::Misses => transaction.patch_site(site, &misses),
                            Asked::Deoptimizes => transaction.patch_site(site, &deoptimizes),
                            Asked::Restored => transaction.restore(site),
                            Asked::Invalidated => transaction.invalidate_site(site),
                        }
                        .unwrap();
                    }
                }
                transaction
            });
            let [mut at_once, mut singly] = transactions;
            let before = both[0].batched();
            failing::set(Side::New, fails);
            let committed = at_once.commit();
            let has_failed = fails.is_some() && failing::set(Side::New, None).is_none();
            match committed {
                Ok(receipt) => assert_eq!(
                    singly.prepare().unwrap().commit().unwrap(),
                    receipt,
                    "{seed}: {asked:?}"
                ),
                Err(Error::Memory(_)) if has_failed => failed += 1,
                Err(error) => panic!("{seed}: {asked:?}: {error}"),
            }
            for (module, first, end, _) in asked.iter().filter(|asked| matches!(asked.3, Asked::Invalidated))
            {
                gone.extend((*first..*end).map(|number| (*module, number as u32)));
            }
            let now = both[0].batched();
            batched += now.iter().map(Vec::len).sum::<usize>();
            let stayed = asked.iter().map(|(module, first, end, _)| {
                let in_both =
                    |number: &usize| before[*module].contains(number) && now[*module].contains(number);
                (*first..*end).filter(in_both).count()
            });
            over += stayed.sum::<usize>();
            for (one, other) in both[0].0.iter().zip(&both[1].0) {
                assert_eq!(one.called().1, other.called().1, "{seed}: {asked:?}");
                let number = dice.below(one.holds.len());
                if dice.below(3) == 0 {
                    let [status, other] = [one, other].map(|many| many.engine.status(&many.site(number)));
                    assert_eq!(status, other, "{seed}: {asked:?}");
                }
            }
        }
        let looks = both.each_ref().map(Several::looks);
        for (number, (one, other)) in looks[0].iter().zip(&looks[1]).enumerate() {
            assert_eq!(one, other, "{seed}: {number}");
        }
        assert_eq!(
            both[0].engine().stub_stats().in_use,
            both[1].engine().stub_stats().in_use,
            "{seed}"
        );
        let [at_once, singly] = both;
        for several in [at_once, singly] {
            let engine = several.engine().clone();
            several.0.into_iter().for_each(|many| _ = many.unregister());
            assert_eq!(
                (
                    engine.shared.states.lock().batches.len(),
                    engine.stub_stats().in_use
                ),
                (0, 0)
            );
        }
    }
    println!(
        "{batched} times a site was in a batch, {over} times in one over another; {failed} transactions failed"
    );
    assert!(
        batched > 1000 && over > 100 && failed > 5,
        "{batched}, {over}, {failed}"
    );
}
