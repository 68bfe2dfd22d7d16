//! Every call of the memory, and the world, fails once or for good, at every step of every
//! transaction: each site is old afterwards, or what the error says of it.

use super::*;
use crate::error::Fate;
use crate::memory::testing::Call;

/// Some memories with some functions each, all registered.
struct Batch {
    lab: Lab,
    texts: Vec<Text>,
    sites: Vec<Site>,
    sequence: Sequence,
}

impl Batch {
    /// `count` sites over `memories` memories, patched once with `result = argument + 1` so that
    /// they can be called.
    fn new(memories: usize, count: usize, sequence: Sequence) -> Self {
        let lab = Lab::new();
        let (mut texts, mut sites) = (Vec::new(), Vec::new());
        for memory in 0..memories {
            let ids = (memory..count).step_by(memories);
            let functions: Vec<Written> = ids.map(|id| identity(id as u64)).collect();
            let text = Text::new(&functions);
            sites.extend(lab.register(&text, &functions).sites());
            texts.push(text);
        }
        for site in &sites {
            lab.engine.patch_site(site, &plus(1)).unwrap();
            assert_eq!(call(site, 10), 11);
        }
        Self {
            lab,
            texts,
            sites,
            sequence,
        }
    }

    fn transaction(&self) -> Transaction<'_> {
        let mut transaction = self.lab.engine.transaction();
        for site in &self.sites {
            transaction.patch_site(site, &self.sequence).unwrap();
        }
        transaction
    }

    /// All sites do what they did, and can be patched.
    fn is_as_before(&self) {
        for site in &self.sites {
            assert_eq!(
                (self.lab.engine.status(site), call(site, 10)),
                (Status::Patched, 11)
            );
        }
        self.transaction().commit().unwrap();
        assert!(self.sites.iter().all(|site| call(site, 10) == 17));
    }
}

const CALLS: [Call; 4] = [Call::Begin, Call::Write, Call::End, Call::Read];

/// The sizes of batches, with the sequence in the sites and in stubs.
fn batches() -> impl Iterator<Item = (usize, usize, Sequence)> {
    let sizes = (1..=3).flat_map(|memories| (memories..=5).map(move |count| (memories, count)));
    sizes.flat_map(|(m, c)| [(m, c, plus(7)), (m, c, plus_in_stub(7))])
}

#[test]
fn one_failure_at_any_step_leaves_every_site_old_and_no_stub() {
    let mut failures = 0;
    for (memories, count, sequence) in batches() {
        for failing in 0..memories {
            for which in CALLS {
                for after in 0.. {
                    let batch = Batch::new(memories, count, sequence.clone());
                    let before: Vec<Vec<u8>> = batch.sites.iter().map(bytes).collect();
                    let stats = batch.lab.engine.stub_stats();
                    let memory = &batch.texts[failing].memory;
                    memory.fail_after(which, after);
                    let committed = batch.transaction().commit();
                    if !memory.has_failed() {
                        committed.unwrap();
                        break;
                    }
                    failures += 1;
                    assert!(!batch.texts.iter().any(|text| text.memory.is_open()), "{which:?}");
                    match committed {
                        Err(
                            Error::Memory(crate::memory::Error::SystemCall {
                                call: "injected fault",
                                ..
                            })
                            | Error::Memory(crate::memory::Error::ProtectionLost { .. }),
                        ) => {}
                        // What a site holds could not be read once it was old again.
                        Err(Error::RollBackFailed { .. }) => panic!("one failure cannot lose a site"),
                        other => panic!("{which:?} {after}: {other:?}"),
                    }
                    assert!(batch.sites.iter().map(bytes).eq(before), "{which:?} {after}");
                    let now = batch.lab.engine.stub_stats();
                    assert_eq!((now.in_use, now.slots), (stats.in_use, stats.slots));
                    batch.is_as_before();
                }
            }
        }
    }
    println!("{failures} failures");
    assert!(failures > 300, "{failures}");
}

#[test]
fn a_world_that_refuses_leaves_every_site_old_and_no_stub() {
    for (memories, count, sequence) in batches() {
        let batch = Batch::new(memories, count, sequence);
        let stats = batch.lab.engine.stub_stats();
        batch.lab.world.refuses.store(true, Ordering::Relaxed);
        refused!(batch.transaction().commit(), Publish(WorldNotStopped));
        batch.lab.world.refuses.store(false, Ordering::Relaxed);
        assert_eq!(batch.lab.engine.stub_stats().in_use, stats.in_use);
        batch.is_as_before();
    }
}

#[test]
fn a_change_refused_while_it_is_prepared_frees_the_stubs_of_the_others() {
    let batch = Batch::new(2, 5, plus_in_stub(7));
    let stats = batch.lab.engine.stub_stats();
    let (last, others) = batch.sites.split_last().unwrap();
    let mut transaction = batch.lab.engine.transaction();
    for site in others {
        transaction.patch_site(site, &batch.sequence).unwrap();
    }
    let impossible = Sequence::new().mov(crate::sequence::reg(crate::addr::DwarfReg::new(KEPT)), 1u64);
    let stops = batch.lab.world.stops.load(Ordering::Relaxed);
    refused!(
        transaction.patch_site(last, &impossible).unwrap().commit(),
        Assemble(OverwritesLive)
    );
    assert_eq!(batch.lab.world.stops.load(Ordering::Relaxed), stops);
    assert_eq!(batch.lab.engine.stub_stats().in_use, stats.in_use);
    batch.is_as_before();
}

/// What is wrong for good while the transaction commits, and afterwards no more.
type Fault = (&'static str, fn(&FailingMemory<Alias>, u32));

const LASTING: [Fault; 4] = [
    ("writes", |memory, n| memory.fail_from(Call::Write, n)),
    ("ends", |memory, _| memory.fail_from(Call::End, 0)),
    ("an end, then begins", |memory, _| {
        memory.fail_after(Call::End, 0);
        memory.fail_from(Call::Begin, 1);
    }),
    ("a write, then ends", |memory, n| {
        memory.fail_after(Call::Write, n);
        memory.fail_from(Call::End, 0);
    }),
];

#[test]
fn where_rolling_back_fails_too_the_error_says_exactly_what_became_of_each_site() {
    let (mut fates, old) = ([0; 3], bytes_of(&plus(1)));
    for (memories, count, sequence) in batches() {
        for failing in 0..memories {
            for (what, fault) in LASTING {
                for n in 0..count as u32 {
                    let batch = Batch::new(memories, count, sequence.clone());
                    fault(&batch.texts[failing].memory, n);
                    let committed = batch.transaction().commit();
                    batch.texts[failing].memory.heal();
                    if let Err(Error::RollBackFailed { sites, .. }) = &committed {
                        reported_exactly(&batch, sites, &mut fates);
                    } else if committed.is_err() {
                        // Taking it back failed only where there was nothing to do.
                        assert!(
                            batch.sites.iter().map(bytes).all(|found| found == old),
                            "{what} {n}"
                        );
                        batch.is_as_before();
                    }
                }
            }
        }
    }
    println!("old but not executable, new, unknown: {fates:?}");
    assert!(fates.iter().all(|count| *count > 20), "{fates:?}");
}

fn reported_exactly(batch: &Batch, lost: &[(crate::error::SiteName, Fate)], fates: &mut [usize; 3]) {
    let engine = &batch.lab.engine;
    let old = bytes_of(&plus(1));
    assert!(!lost.is_empty());
    for site in &batch.sites {
        let is_old = bytes(site) == old;
        let Some((_, fate)) = lost.iter().find(|(name, _)| name.addr == site.addr()) else {
            assert!(is_old, "{site:?} is not in the report");
            assert_eq!(engine.status(site), Status::Patched);
            assert_eq!(call(site, 10), 11);
            engine.patch_site(site, &plus(2)).unwrap();
            assert_eq!(call(site, 10), 12);
            continue;
        };
        match fate {
            Fate::OldNotExecutable => assert!(is_old),
            Fate::New => {
                assert!(!is_old);
                // The new bytes are whole, and what they branch to is still there.
                assert_eq!(call(site, 10), 17);
            }
            Fate::Unknown => assert!(!is_old),
        }
        fates[*fate as usize] += 1;
        assert_eq!(engine.status(site), Status::Lost);
        refused!(engine.patch_site(site, &plus(2)), SiteLost);
        refused!(engine.restore_site(site), SiteLost);
        refused!(
            engine.transaction().invalidate_site(site).unwrap().commit(),
            SiteLost
        );
    }
}

/// What a site of [`identity`] holds with a sequence that needs no other address.
fn bytes_of(sequence: &Sequence) -> Vec<u8> {
    let lab = Lab::new();
    let text = Text::new(&[identity(0)]);
    let module = lab.register(&text, &[identity(0)]);
    let site = module.sites().next().unwrap();
    lab.engine.patch_site(&site, sequence).unwrap();
    bytes(&site)
}

#[test]
fn a_transaction_prepared_before_a_site_was_lost_is_refused() {
    let batch = Batch::new(1, 1, plus(7));
    let early = batch.transaction().prepare().unwrap();
    batch.texts[0].memory.fail_from(Call::End, 0);
    refused!(batch.transaction().commit(), RollBackFailed);
    batch.texts[0].memory.heal();
    let before = bytes(&batch.sites[0]);
    refused!(early.commit(), SiteLost);
    assert_eq!(bytes(&batch.sites[0]), before);
}

#[test]
fn the_stub_of_a_lost_site_is_kept_until_its_module_goes() {
    let batch = Batch::new(1, 1, plus_in_stub(7));
    let memory = &batch.texts[0].memory;
    memory.fail_after(Call::End, 0);
    memory.fail_from(Call::Begin, 1);
    refused!(batch.transaction().commit(), RollBackFailed);
    memory.heal();
    assert_eq!(batch.lab.engine.stub_stats().slots, 1);
    let module = batch.sites[0].module().clone();
    // SAFETY: the only thread is here.
    let grace_period = unsafe { GracePeriod::promise() };
    batch.lab.engine.unregister(module, &grace_period).unwrap();
    assert_eq!(batch.lab.engine.stub_stats().slots, 0);
}

#[test]
fn a_write_that_did_not_arrive_is_noticed_and_the_others_are_rolled_back() {
    let batch = Batch::new(2, 4, plus(7));
    batch.texts[1].memory.lose_writes(true);
    refused!(batch.transaction().commit(), BytesChanged);
    batch.texts[1].memory.lose_writes(false);
    batch.is_as_before();
}

/// One thread, of which is not known what it does when it goes on.
#[derive(Debug)]
#[cfg(target_os = "linux")]
struct Unknown;

// SAFETY: the test has one thread, which is the one that patches.
#[cfg(target_os = "linux")]
unsafe impl World for Unknown {
    fn while_stopped(
        &self,
        vacated: &[crate::publish::Vacated],
        work: &mut dyn FnMut(&Stopped),
    ) -> crate::publish::Result<()> {
        // SAFETY: as above.
        unsafe { SingleThreaded::promise() }.while_stopped(vacated, work)
    }
}

/// A thread may have fetched the new ones. What publishes is a system call, which can be counted.
#[test]
#[cfg(target_os = "linux")]
fn old_bytes_that_were_written_back_are_published() {
    use crate::memory::testing::process::{in_child, system_calls};
    if !in_child(|| Publisher::new().to_string().contains("serialize by membarrier")) {
        println!("no membarrier here");
        return;
    }
    let prepare = || {
        let mut lab = Lab::new();
        lab.engine = Engine::builder().world(Unknown).build().unwrap();
        let text = Text::new(&[identity(0)]);
        let module = lab.register(&text, &[identity(0)]);
        text.memory.fail_after(Call::Write, 0);
        (lab, text, module)
    };
    let calls = system_calls(prepare, |(lab, _text, _module)| {
        refused!(lab.engine.patch(0, &plus(7)), Memory(SystemCall));
    });
    let barriers = calls.iter().filter(|call| **call == libc::SYS_membarrier);
    assert_eq!(barriers.count(), 1);
}
