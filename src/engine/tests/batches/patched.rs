//! Batches of sites that get a sequence, and get another afterwards.

use super::*;
use crate::engine::Transaction;
use crate::engine::batch::failing::{self, Fails};
use crate::engine::change::Side;
use crate::error::Fate;

/// Hands on what a site is called with, unless that is another number.
fn hands_on(number: u64) -> Sequence {
    let sequence = Sequence::new().guard_eq(arg(0), number, Target::Miss);
    sequence.mov(result(), arg(0))
}

/// The same, which otherwise does what the site did.
fn deoptimizes(number: u64) -> Sequence {
    let sequence = Sequence::new().guard_eq(arg(0), number, Target::Deopt);
    sequence.mov(result(), arg(0))
}

/// What is asked for of a function's sites.
type Stage = fn(&mut Transaction<'_>, &[Site]) -> Result<()>;

fn patch(transaction: &mut Transaction<'_>, sites: &[Site], sequence: &Sequence) -> Result<()> {
    sites
        .iter()
        .try_for_each(|site| transaction.patch_site(site, sequence).map(drop))
}

const HITS: Stage = |transaction, sites| patch(transaction, sites, &hands_on(7));
const MISSES: Stage = |transaction, sites| patch(transaction, sites, &hands_on(8));
const DEOPTIMIZES: Stage = |transaction, sites| patch(transaction, sites, &deoptimizes(8));
const RESTORE: Stage = |transaction, sites| {
    sites
        .iter()
        .try_for_each(|site| transaction.restore(site).map(drop))
};
const INVALIDATE: Stage = |transaction, sites| {
    sites
        .iter()
        .try_for_each(|site| transaction.invalidate_site(site).map(drop))
};
/// To where the function ends.
const JUMPS: Stage = |transaction, sites| {
    let last = sites.last().unwrap();
    let end = match last.original()[0] {
        // Behind the move of what it has returned.
        0x49 => last.end().plus(Len::new(3)).unwrap(),
        _ => last.end(),
    };
    // SAFETY: the function is as long there as its module.
    let target = unsafe { Target::addr(end) };
    patch(transaction, sites, &Sequence::new().jump(target))
};

impl Many {
    /// Commits what is asked for, at once or prepared first.
    fn commit(&self, at_once: bool, stage: Stage) -> Result<Receipt> {
        let mut transaction = self.engine.transaction();
        stage(&mut transaction, &self.sites())?;
        match at_once {
            true => transaction.commit(),
            false => transaction.prepare()?.commit(),
        }
    }
}

/// What comes of these stages, at once and prepared first, is the same. How many sites were in batches after the last.
fn stages(holds: &[Holds], released: bool, stages: &[Stage]) -> usize {
    let [at_once, singly] = [(); 2].map(|()| match released {
        true => Many::released(holds),
        false => Many::new(holds),
    });
    let mut in_batches = 0;
    for stage in stages {
        let receipt = at_once.commit(true, *stage).unwrap();
        assert_eq!(singly.commit(false, *stage).unwrap(), receipt);
        in_batches = at_once.batched().len();
        assert_eq!(singly.batches(), 0);
        let [(made, ids), (made_singly, ids_singly)] = [&at_once, &singly].map(Many::called);
        assert_eq!(ids, ids_singly);
        // Where a site has missed, nobody says what it makes.
        if ids.is_empty() {
            assert_eq!(made, made_singly);
        }
        assert_eq!(
            at_once.batched().len(),
            in_batches,
            "handlers do not ask for states"
        );
    }
    assert_eq!(at_once.looks(), singly.looks());
    assert_eq!(at_once.called().1, singly.called().1);
    in_batches
}

#[test]
fn sites_of_a_batch_are_patched_as_those_that_were_prepared_first() {
    for holds in all_kinds() {
        for released in [false, true] {
            let most = holds.len() - 6;
            for patch in [HITS, MISSES, DEOPTIMIZES] {
                assert!(stages(&holds, released, &[patch]) >= most);
            }
            // Others take the place of a batch.
            assert!(stages(&holds, released, &[HITS, MISSES]) >= most);
            assert!(stages(&holds, released, &[MISSES, HITS, MISSES, HITS]) >= most);
            assert!(stages(&holds, released, &[HITS, MISSES, DEOPTIMIZES]) == 0);
            // Sites that are changed otherwise have states.
            for last in [RESTORE, INVALIDATE, DEOPTIMIZES, JUMPS] {
                assert_eq!(stages(&holds, released, &[HITS, last]), 0);
                assert_eq!(stages(&holds, released, &[HITS, MISSES, last]), 0);
            }
            assert_eq!(stages(&holds, released, &[HITS, RESTORE, MISSES]), 0);
        }
    }
}

/// What was patched does what its sequence says.
#[test]
fn sites_of_a_batch_execute_their_sequence() {
    for holds in all_kinds() {
        let (many, all) = (Many::released(&holds), FIRST_ID..FIRST_ID + holds.len() as u64);
        let all: Vec<u64> = all.collect();
        many.commit(true, HITS).unwrap();
        let hit = holds.iter().fold(7, |number, holds| match holds {
            Holds::Call | Holds::OtherCall => number,
            _ => holds.work(number),
        });
        assert_eq!(many.called(), (hit, vec![]));
        many.commit(true, MISSES).unwrap();
        assert_eq!(many.called().1, all);
        many.commit(true, HITS).unwrap();
        assert_eq!(many.called(), (hit, vec![]));
        assert!(many.batched().len() > 20);
        // Handlers of other numbers than that of the batch are asked for by its exit stubs.
        let other = Many::released(&holds);
        other.commit(true, DEOPTIMIZES).unwrap();
        assert!(other.batched().len() > 20);
        other.call(0..holds.len());
    }
}

/// Sites that are not all that is left of a batch, or do not hold what it says, have states.
#[test]
fn what_is_not_all_of_a_batch_is_in_none_afterwards() {
    fn of(sites: &[Site], from: usize, to: usize) -> &[Site] {
        &sites[from..to]
    }
    let parts: [(&str, Stage, bool); 7] = [
        ("the first half", |to, sites| MISSES(to, of(sites, 0, 15)), false),
        (
            "all but the last",
            |to, sites| MISSES(to, of(sites, 0, 29)),
            false,
        ),
        (
            "one in the middle",
            |to, sites| MISSES(to, of(sites, 15, 16)),
            false,
        ),
        ("its end", |to, sites| MISSES(to, of(sites, 12, 30)), false),
        (
            "two halves",
            |to, sites| {
                MISSES(to, of(sites, 15, 30))?;
                MISSES(to, of(sites, 0, 15))
            },
            false,
        ),
        ("its first", |to, sites| MISSES(to, of(sites, 3, 4)), true),
        ("the others", |to, sites| MISSES(to, of(sites, 0, 3)), true),
    ];
    for (what, part, whole) in parts {
        for holds in [[Holds::Call; 30], [Holds::Nops; 30]] {
            let in_batches = stages(&holds, true, &[HITS, HITS, part]);
            println!("{what}: {in_batches} of 30 sites are in batches");
            let in_batches = stages(&holds, true, &[HITS, part, HITS, MISSES]);
            assert!(in_batches > 20 || !whole, "{what}: {in_batches}");
        }
    }
}

/// A site that was changed more often than those of the batch behind it, or has other exit stubs, has none
/// behind it.
#[test]
fn a_site_that_is_otherwise_than_a_batch_is_not_over_it() {
    for holds in [[Holds::Call; 30], [Holds::Nops; 30]] {
        for before in [HITS, RESTORE, DEOPTIMIZES] {
            let both = [(); 2].map(|()| Many::released(&holds));
            for (many, at_once) in both.iter().zip([true, false]) {
                let all = many.sites();
                let some = |stage: Stage, sites: &[Site]| {
                    let mut transaction = many.engine.transaction();
                    stage(&mut transaction, sites).unwrap();
                    match at_once {
                        true => transaction.commit(),
                        false => transaction.prepare().unwrap().commit(),
                    }
                };
                some(HITS, &all).unwrap();
                let first = (0..30).find(|number| many.in_batch(*number));
                assert_eq!(first, at_once.then_some(2));
                some(before, &all[1..2]).unwrap();
                some(MISSES, &all[1..2]).unwrap();
                some(MISSES, &all).unwrap();
                // Those behind it are as the others were.
                assert_eq!(many.in_batch(3), at_once);
            }
            let [at_once, singly] = &both;
            assert_eq!(at_once.called().1, singly.called().1);
            assert_eq!(at_once.looks(), singly.looks());
        }
    }
}

/// Sites that were changed one by one have states: none joins another in a batch, and it is not tried for ever.
#[test]
fn sites_that_have_states_are_in_no_batch() {
    for holds in all_kinds() {
        let both = [(); 2].map(|()| Many::released(&holds));
        for (many, at_once) in both.iter().zip([true, false]) {
            for site in many.sites() {
                many.engine.patch_site(&site, &hands_on(7)).unwrap();
            }
            many.commit(at_once, MISSES).unwrap();
            assert_eq!(many.batches(), 0);
        }
        let [at_once, singly] = &both;
        assert_eq!(at_once.called().1, singly.called().1);
        assert_eq!(at_once.looks(), singly.looks());
    }
}

/// Sites of which the records say something else have no template in common.
#[test]
fn sites_with_other_records_are_in_no_batch_with_the_others() {
    let holds = [Holds::Nops; 40];
    // In runs of ten, the argument is in another register: in one of them there is another number.
    let argument = |number: usize| if number / 10 % 2 == 1 { RESULT } else { ARGUMENT };
    let both = [(); 2].map(|()| {
        let many = Many::new(&[]);
        let (placed, code) =
            Many::adopted_with(&many.engine, &holds, |number| Some([RESULT, argument(number)]));
        let shape = CallShape::any_reg(RESERVED).result().args(1);
        // SAFETY: what is told is true of the code.
        let module = unsafe { many.engine.register(code, |_| Some(shape)) }.unwrap();
        module.release();
        let holds = holds.to_vec();
        Many {
            module,
            holds,
            placed,
            ..many
        }
    });
    let [at_once, singly] = &both;
    for stage in [MISSES, HITS, MISSES] {
        assert_eq!(
            at_once.commit(true, stage).unwrap(),
            singly.commit(false, stage).unwrap()
        );
        assert!(at_once.batched().len() > 20);
        for (number, site) in at_once.sites().iter().enumerate() {
            // The guard says which register it compares.
            let both = [&at_once, &singly].map(|many| bytes(&many.site(number)));
            assert_eq!(both[0][..6], both[1][..6], "{}", site.id());
        }
    }
    // A way to an exit stub is the same everywhere.
    at_once.invalidate().unwrap();
    singly.invalidate_singly();
    assert_eq!(at_once.looks(), singly.looks());
}

/// Two of the same engine, of which the second is patched as a batch that is in the place of another.
fn patched() -> (Many, Vec<Vec<u8>>, usize) {
    let many = Many::released(&[Holds::Call; 30]);
    many.commit(true, HITS).unwrap();
    let (held, in_batch) = (many.sites().iter().map(bytes).collect(), many.batched().len());
    assert!(in_batch > 20);
    (many, held, in_batch)
}

/// All is as it was when the sites were patched once.
fn is_patched_as_before(many: &Many, held: &[Vec<u8>], stubs: (u64, u64)) {
    assert!(many.sites().iter().map(bytes).eq(held.iter().cloned()));
    assert_eq!((many.stubs(), many.engine.journal().len()), (stubs, held.len()));
    assert_eq!(many.called(), (7, vec![]));
    for site in many.sites() {
        assert_eq!(many.engine.status(&site), Status::Patched);
    }
    assert_eq!(many.stubs(), stubs);
    many.commit(true, MISSES).unwrap();
    assert_eq!(many.called().1.len(), held.len());
}

#[test]
fn a_batch_over_another_is_rolled_back_to_what_that_has_written() {
    for after in [0, 1, 10, 20] {
        let (many, held, in_batch) = patched();
        let stubs = many.stubs();
        failing::set(Side::New, Some(Fails::Once(after)));
        refused!(many.commit(true, MISSES), Memory(SystemCall));
        assert_eq!(failing::set(Side::New, None), None);
        assert_eq!(many.batches(), 0, "{in_batch} have states");
        is_patched_as_before(&many, &held, stubs);
    }
}

#[test]
fn bytes_that_somebody_else_changed_keep_a_batch_over_another_from_being_written() {
    for number in [0, 3, 15, 29] {
        let (many, mut held, _) = patched();
        let (stubs, site) = (many.stubs(), many.site(number));
        let last = CodeAddr::new(site.addr().get() + u64::from(RESERVED) - 1);
        many.placed.memory().write(last, &[0xcc]).unwrap();
        match many.commit(true, MISSES) {
            Err(Error::BytesChanged {
                site: named,
                expected,
                ..
            }) => {
                assert_eq!((*named, &expected), (*site.name(), &held[number]));
            }
            other => panic!("{other:?}"),
        }
        let behind = held[number].pop().unwrap();
        many.placed.memory().write(last, &[behind]).unwrap();
        held[number].push(behind);
        publish(site.range());
        is_patched_as_before(&many, &held, stubs);
    }
}

/// What a later site of the transaction is refused for.
#[test]
fn a_batch_over_another_that_is_refused_leaves_the_exit_stubs() {
    let (many, held, _) = patched();
    let (_placed, other) = Many::registered(&many.engine, &[Holds::Nops]);
    let other = other.sites().next().unwrap();
    many.engine.invalidate_site(&other).unwrap();
    let (stubs, batched) = (many.stubs(), many.batched());
    let mut transaction = many.engine.transaction();
    MISSES(&mut transaction, &many.sites()).unwrap();
    transaction.patch_site(&other, &hands_on(7)).unwrap();
    refused!(transaction.commit(), SiteInvalidated);
    assert_eq!((many.stubs(), many.batched()), (stubs, batched));
    assert!(many.sites().iter().map(bytes).eq(held));
    many.commit(true, MISSES).unwrap();
    assert_eq!(many.called().1.len(), 30);
}

#[test]
fn sites_of_a_batch_over_another_that_cannot_be_rolled_back_are_lost() {
    let (many, held, _) = patched();
    let (stubs, batched) = (many.stubs(), many.batched());
    failing::set(Side::New, Some(Fails::Once(10)));
    failing::set(Side::Old, Some(Fails::ForGood(4)));
    let patched = many.commit(true, MISSES);
    assert_eq!(failing::set(Side::New, None), None);
    failing::set(Side::Old, None);
    let Err(Error::RollBackFailed { sites, .. }) = patched else {
        panic!("{patched:?}");
    };
    assert_eq!(sites.len(), 7);
    for (number, site) in many.sites().iter().enumerate() {
        let lost = sites.iter().find(|(name, _)| *name == *site.name());
        match lost {
            None => {
                assert_eq!(
                    (many.engine.status(site), bytes(site)),
                    (Status::Patched, held[number].clone())
                );
            }
            Some((_, fate)) => {
                assert!(batched.contains(&number));
                assert_eq!(many.engine.status(site), Status::Lost);
                assert!(matches!(fate, Fate::New | Fate::Unknown));
            }
        }
    }
    // No exit stub is freed: sites go there, whatever they hold.
    assert_eq!((many.batches(), many.stubs()), (0, stubs));
    assert_eq!(many.unregister().stub_stats().slots, 0);
}
