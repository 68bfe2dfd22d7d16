//! Sites that are changed in batches: what becomes of them is what becomes of sites with changes
//! of their own.

mod holds;
mod memories;
mod modules;
mod patched;
mod refused;

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::placed::covers;
use super::*;
use crate::engine::state_table::StatePlace;
use crate::icache::testing::during;
use crate::sequence::Target;
use crate::site::SiteSpec;
use holds::{Holds, RETURN_OFFSET, code_of};

/// The ID of the first site; the others follow.
const FIRST_ID: u64 = 100;

/// A function with many sites, in memory of the engine's own, and its engine.
struct Many {
    engine: Engine,
    placed: PlacedSegments,
    holds: Vec<Holds>,
    module: Module,
    /// The IDs of the sites whose handler was called, in that order.
    handled: Arc<Mutex<Vec<u64>>>,
}

impl Many {
    fn new(holds: &[Holds]) -> Self {
        Self::of(holds, |builder| builder)
    }

    /// In a released module.
    fn released(holds: &[Holds]) -> Self {
        let many = Self::new(holds);
        many.module.release();
        many
    }

    fn of(holds: &[Holds], built: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Self {
        let handled = Arc::new(Mutex::new(Vec::new()));
        let [missed, noted] = [(); 2].map(|()| Arc::clone(&handled));
        let exit_stubs = ExitStubs::new()
            .on_miss(move |frame| {
                missed.lock().push(frame.site().id().get());
                frame.resume()
            })
            .on_deopt(move |frame| {
                noted.lock().push(frame.site().id().get());
                frame.resume()
            });
        let world = Shared(Arc::new(Moody::default()));
        let builder = Engine::builder().world(world).exits(exit_stubs);
        let engine = built(builder).build().unwrap();
        let (placed, module) = Self::registered(&engine, holds);
        Self {
            engine,
            placed,
            holds: holds.to_vec(),
            module,
            handled,
        }
    }

    /// Places such a function, and registers it.
    fn registered(engine: &Engine, holds: &[Holds]) -> (PlacedSegments, Module) {
        let (placed, code) = Self::adopted(engine, holds, true);
        let shape = |id: RecordId| {
            let holds = holds.get((id.get() - FIRST_ID) as usize)?;
            Some(holds.shape())
        };
        // SAFETY: what is told is true of the code.
        let module = unsafe { engine.register(code, |record| shape(record.id())) }.unwrap();
        (placed, module)
    }

    /// Places such a function, whose sites may have records.
    fn adopted(engine: &Engine, holds: &[Holds], recorded: bool) -> (PlacedSegments, LoadedCode) {
        Self::adopted_with(engine, holds, |_| recorded.then_some([RESULT, ARGUMENT]))
    }

    /// The same where the records of sites name these registers, of the result and of the argument.
    fn adopted_with(
        engine: &Engine,
        holds: &[Holds],
        recorded: impl Fn(usize) -> Option<[u16; 2]>,
    ) -> (PlacedSegments, LoadedCode) {
        let (code, offsets) = code_of(holds);
        let need = SegmentNeed {
            kind: SegmentKind::Code,
            len: code.len() as u64,
            align: 64,
        };
        let mut placement = Arena::new(1 << 20).place(&[need], Reach::Anywhere).unwrap();
        let range = placement.segments()[0].range;
        placement.fill(range.start(), &code).unwrap();
        let placed = placement.finalize().unwrap();
        publish(range);
        let records = offsets.iter().enumerate().filter_map(|(number, offset)| {
            let record = record(FIRST_ID + number as u64).at(*offset);
            let registers = recorded(number)?;
            Some(
                registers
                    .into_iter()
                    .fold(record, |record, register| record.location(reg(register, 8))),
            )
        });
        let maps = map().function(range.start().get(), 16, records);
        let adoption = Adoption::new(ARCH, ARCH.endian(), maps.bytes()).not_yet_run();
        let adoption = adoption.function("f0", range.start(), Len::of(&code).unwrap());
        // SAFETY: the memory outlives the engine's use of it in every test, and is the test's alone.
        let adopted = unsafe { adoption.promise() }.unwrap();
        let memory: Arc<dyn CodeMemory> = Arc::new(placed.memory());
        (placed, engine.adopt_with(adopted, &memory).unwrap())
    }

    fn sites(&self) -> Vec<Site> {
        self.module.sites().collect()
    }

    fn site(&self, number: usize) -> Site {
        self.module.sites().nth(number).unwrap()
    }

    /// Invalidates the function, at once.
    fn invalidate(&self) -> Result<Receipt> {
        self.engine.invalidate(&self.module.function("f0").unwrap())
    }

    /// The same, prepared first: each site has a change of its own.
    fn invalidate_singly(&self) -> Receipt {
        let mut transaction = self.engine.transaction();
        let function = self.module.function("f0").unwrap();
        transaction.invalidate(&function).unwrap();
        let receipt = transaction.prepare().unwrap().commit().unwrap();
        assert_eq!(self.batches(), 0);
        receipt
    }

    fn batches(&self) -> usize {
        self.engine.shared.states.lock().batches.len()
    }

    /// Where the state of a site is, if it has one.
    fn place(&self, number: usize) -> Option<StatePlace> {
        let states = self.engine.shared.states.lock();
        states.table.get(&self.site(number))
    }

    /// Whether a site is in a batch, which asks nothing of its state.
    fn in_batch(&self, number: usize) -> bool {
        matches!(self.place(number), Some(StatePlace::Batch(_)))
    }

    /// The numbers of those that are.
    fn batched(&self) -> Vec<usize> {
        let all = 0..self.holds.len();
        all.filter(|number| self.in_batch(*number)).collect()
    }

    /// Calls the function: what it makes of a number, and the IDs of the sites whose handler was called.
    fn called(&self) -> (u64, Vec<u64>) {
        self.handled.lock().clear();
        let made = call(&self.site(0), 7);
        (made, self.handled.lock().clone())
    }

    /// Calls the function: it makes of the number what it did before, and comes to the handler of each of
    /// these sites, in their order.
    fn call(&self, invalidated: impl IntoIterator<Item = usize>) {
        let expected = self.holds.iter().fold(7, |number, holds| holds.work(number));
        let ids = invalidated.into_iter().map(|number| FIRST_ID + number as u64);
        assert_eq!(self.called(), (expected, ids.collect()));
    }

    /// What a site holds, where its jump goes apart: the ID of the site whose exit stub that is instead, or
    /// how far behind the first site it is.
    fn at(&self, number: usize, bytes: &[u8]) -> (Vec<u8>, Option<u64>) {
        let mut bytes = bytes.to_vec();
        if bytes == self.holds[number].bytes() {
            return (bytes, None);
        }
        // Those of other sequences depend on where they are.
        if bytes[0] != 0xe9 {
            return (vec![bytes[0]; bytes.len()], None);
        }
        let displacement = i32::from_le_bytes(bytes[1..5].try_into().unwrap());
        bytes[1..5].fill(0);
        let behind = self.site(number).addr().get() + 5;
        let to = CodeAddr::new(behind.wrapping_add_signed(displacement.into()));
        let of = self.engine.site_of_stub(to).map(|site| site.id().get());
        let other = || to.distance_from(self.site(0).addr()) as u64;
        (bytes, Some(of.unwrap_or_else(other)))
    }

    /// The address of the exit stub to which an invalidated site goes.
    fn exit_stub(&self, number: usize) -> CodeAddr {
        let found = bytes(&self.site(number));
        assert_eq!(found[0], 0xe9);
        let displacement = i32::from_le_bytes(found[1..5].try_into().unwrap());
        let behind = self.site(number).addr().get() + 5;
        CodeAddr::new(behind.wrapping_add_signed(displacement.into()))
    }

    fn stubs(&self) -> (u64, u64) {
        let stats = self.engine.stub_stats();
        (stats.in_use, stats.slots)
    }

    fn looks(&self) -> Looks {
        let sites = self.sites();
        let held = (0..)
            .zip(&sites)
            .map(|(number, site)| self.at(number, &bytes(site)));
        let held = held.collect();
        let mut journal = BTreeMap::new();
        for (expected, entry) in (1..).zip(self.engine.journal()) {
            assert_eq!(entry.number, expected);
            assert_eq!(entry.name.unwrap().addr, entry.addr);
            let number = sites.iter().position(|site| site.key() == entry.site).unwrap();
            assert_eq!(sites[number].addr(), entry.addr);
            let [before, after] = [&entry.before, &entry.after].map(|bytes| self.at(number, bytes));
            let entry = (entry.generation, entry.became, before, after);
            let entries: &mut Vec<_> = journal.entry(number).or_default();
            entries.push(entry);
        }
        let stubs = self.stubs();
        let in_batches = self.batched().len();
        let of_sites = |site: &Site| {
            let engine = &self.engine;
            let of_site = (
                engine.status(site),
                engine.stub_bytes(site),
                engine.reclaimed_bytes(site),
            );
            let mut states = engine.shared.states.lock();
            let of_state = states.of(site).map(|state| {
                let return_offsets = state.installed.return_offsets.to_vec();
                (state.code().count(), return_offsets)
            });
            (of_site, of_state)
        };
        let of_sites = sites.iter().map(of_sites).collect();
        // All have been asked about.
        assert_eq!((self.batches(), self.stubs()), (0, stubs));
        if in_batches > 0 {
            println!("{in_batches} of {} sites were in batches", sites.len());
        }
        Looks {
            held,
            journal,
            stubs,
            of_sites,
        }
    }

    fn unregister(self) -> Engine {
        // SAFETY: no thread executes the code.
        let proof = unsafe { GracePeriod::promise() };
        self.engine.unregister(self.module, &proof).unwrap();
        self.engine
    }
}

/// What is changed in the journal of a site: generation, status, bytes before and after.
type Entry = (u64, Status, (Vec<u8>, Option<u64>), (Vec<u8>, Option<u64>));

type OfSite = ((Status, u64, u64), Option<(usize, Vec<u32>)>);

/// What can be seen of sites, wherever they are.
#[derive(Debug, PartialEq)]
struct Looks {
    held: Vec<(Vec<u8>, Option<u64>)>,
    journal: BTreeMap<usize, Vec<Entry>>,
    stubs: (u64, u64),
    /// Status, bytes of stubs and of those that were freed; of one that was changed how many stubs and exit
    /// stubs, and the return offsets.
    of_sites: Vec<OfSite>,
}

/// Many of each kind, and both beside each other.
fn all_kinds() -> [Vec<Holds>; 3] {
    let both = [vec![Holds::Call; 20], vec![Holds::Nops; 20]].concat();
    [vec![Holds::Call; 30], vec![Holds::Nops; 30], both]
}

#[test]
fn sites_of_a_batch_are_as_those_that_were_prepared_first() {
    for holds in all_kinds() {
        for released in [false, true] {
            let [at_once, singly] = [Many::new(&holds), Many::new(&holds)];
            if released {
                [&at_once, &singly]
                    .into_iter()
                    .for_each(|many| many.module.release());
            }
            let receipt = at_once.invalidate().unwrap();
            assert!(at_once.batches() > 0);
            assert!(at_once.in_batch(3) && !at_once.in_batch(0));
            assert_eq!(singly.invalidate_singly(), receipt);
            assert_eq!(receipt.sites, holds.len());
            let looks = at_once.looks();
            assert_eq!(looks, singly.looks());
            assert_eq!(looks.stubs.1, holds.len() as u64);
            let goes_to: Vec<_> = looks.held.iter().filter_map(|(_, id)| *id).collect();
            assert!(goes_to.into_iter().eq((FIRST_ID..).take(holds.len())));
            for (holds, (_, of_state)) in holds.iter().zip(&looks.of_sites) {
                let is_kept = *holds == Holds::Call && released;
                let kept: &[u32] = if is_kept { &[RETURN_OFFSET as u32] } else { &[] };
                assert_eq!(*of_state, Some((1, kept.to_vec())));
            }
        }
    }
}

/// A call of a released module may return into its site: what is there then is nops from an instruction's
/// start on.
#[test]
fn return_offsets_are_kept_in_batches() {
    let many = Many::released(&[Holds::Call; 30]);
    many.invalidate().unwrap();
    assert!(many.in_batch(20));
    for site in many.sites() {
        let found = bytes(&site);
        let boundaries = crate::verify::boundaries(ARCH, site.addr(), &found);
        assert!(boundaries.contains(&(RETURN_OFFSET as u32)), "{found:x?}");
        let behind = crate::verify::original(ARCH, site.addr(), &found[RETURN_OFFSET..]);
        assert_eq!(behind, Ok(crate::verify::Original::Nops));
    }
    // They go on being kept when the site has a state.
    let site = many.site(20);
    let mut states = many.engine.shared.states.lock();
    let installed = states.of(&site).unwrap().installed;
    assert_eq!(*installed.return_offsets, [RETURN_OFFSET as u32]);
    assert!(installed.has_return_offsets());
}

/// An observer that wants nothing.
struct Deaf;

impl Observer for Deaf {
    fn observe(&self, _: &crate::engine::Event<'_>) {}
}

/// A world of one thread that says it stops threads anywhere.
#[derive(Debug)]
struct StopsAnywhere;

// SAFETY: the test has one thread.
unsafe impl World for StopsAnywhere {
    fn while_stopped(
        &self,
        vacated: &[crate::publish::Vacated],
        work: &mut dyn FnMut(&Stopped),
    ) -> crate::publish::Result<()> {
        // SAFETY: as above.
        unsafe { SingleThreaded::promise() }.while_stopped(vacated, work)
    }

    fn stops_anywhere(&self) -> bool {
        true
    }
}

#[test]
fn there_are_no_batches_where_each_site_is_looked_at() {
    let holds = [Holds::Call; 30];
    let observed = Many::of(&holds, |builder| builder.observer(Deaf));
    observed.invalidate().unwrap();
    assert_eq!(observed.batches(), 0);
    let stopping = Many::of(&holds, |builder| builder.world(StopsAnywhere));
    stopping.invalidate().unwrap();
    assert_eq!(stopping.batches(), 0);
    let prepared = Many::new(&holds);
    let mut transaction = prepared.engine.transaction();
    let function = prepared.module.function("f0").unwrap();
    transaction.invalidate(&function).unwrap();
    let prepared_first = transaction.prepare().unwrap();
    // A site that changes meanwhile is noticed, which is so of none in a batch.
    prepared.engine.patch_site(&prepared.site(20), &plus(1)).unwrap();
    refused!(prepared_first.commit(), SiteChanged);
    assert_eq!((prepared.batches(), prepared.stubs()), (0, (0, 0)));
    // What is lowered outside of the lock is prepared for each site.
    let ahead = Many::new(&holds);
    ahead.engine.shared.contention.expect_forever();
    let mut transaction = ahead.engine.transaction();
    let to_miss = Sequence::new().jump(Target::Miss);
    for site in ahead.sites() {
        transaction.patch_site(&site, &to_miss).unwrap();
    }
    transaction.commit().unwrap();
    assert!(ahead.engine.lock_stats().lowered_outside > 0);
    assert_eq!(ahead.batches(), 0);
}

#[test]
fn there_are_batches_also_where_threads_wait_for_each_other() {
    let waited = Many::new(&[Holds::Call; 30]);
    waited.engine.shared.contention.expect_forever();
    waited.invalidate().unwrap();
    assert_eq!(waited.batches(), 1);
    let sites = waited.sites();
    assert!(
        sites
            .iter()
            .all(|site| waited.engine.status(site) == Status::Invalidated)
    );
}

#[test]
fn a_site_of_a_batch_that_is_asked_for_has_a_state() {
    let many = Many::new(&[Holds::Call; 30]);
    many.invalidate().unwrap();
    let (stubs, of_first) = (many.stubs(), many.engine.stub_bytes(&many.site(0)));
    assert!(of_first > 0);
    // Each is asked for in another way first.
    let asks: [fn(&Many, &Site); 6] = [
        |many, site| assert_eq!(many.engine.status(site), Status::Invalidated),
        |many, site| assert!(many.engine.stub_bytes(site) > 0),
        |many, site| assert_eq!(many.engine.reclaimed_bytes(site), 0),
        |many, site| match many.engine.patch_site(site, &plus(1)) {
            Err(Error::SiteInvalidated { site: named }) => assert_eq!(*named, *site.name()),
            other => panic!("{other:?}"),
        },
        |many, site| refused!(many.engine.restore_site(site), SiteInvalidated),
        |many, site| assert_eq!(many.engine.invalidate_site(site).unwrap().sites, 0),
    ];
    let mut batched = many.batched();
    for ask in asks {
        let number = batched.remove(batched.len() / 2);
        let site = many.site(number);
        let before = bytes(&site);
        ask(&many, &site);
        assert_eq!(many.batched(), batched);
        assert_eq!(many.engine.status(&site), Status::Invalidated);
        assert_eq!(many.engine.stub_bytes(&site), of_first);
        refused!(many.engine.patch_site(&site, &plus(1)), SiteInvalidated);
        assert_eq!((bytes(&site), many.stubs()), (before, stubs));
    }
    let journal = many.engine.journal().len();
    assert_eq!(many.invalidate().unwrap().sites, 0);
    assert_eq!((many.engine.journal().len(), many.batches()), (journal, 0));
    assert_eq!(many.stubs(), stubs);
    many.call(0..30);
}

#[test]
fn an_address_in_an_exit_stub_names_its_site_of_a_batch() {
    let many = Many::new(&[Holds::Call; 30]);
    many.invalidate().unwrap();
    let len = many.engine.stub_bytes(&many.site(0)) as u32;
    let (batches, batched) = (many.batches(), many.batched());
    assert!(batched.len() > 20);
    for number in (0..30).rev() {
        let start = many.exit_stub(number);
        for offset in [0, len / 2, len - 1] {
            let found = many.engine.site_of_stub(start.plus(Len::new(offset)).unwrap());
            assert_eq!(found.unwrap().key(), many.site(number).key());
        }
    }
    // Nobody was asked for a state.
    assert_eq!((many.batches(), many.batched()), (batches, batched));
    let end = many.exit_stub(29).plus(Len::new(len)).unwrap();
    assert_eq!(many.engine.site_of_stub(end), None);
}

#[test]
fn a_batch_goes_with_its_module() {
    let asks: [fn(usize) -> bool; 4] = [|_| false, |at| at == 0, |at| at % 3 == 1, |_| true];
    for is_asked in asks {
        let many = Many::new(&[Holds::Call; 30]);
        let before = many.stubs();
        many.invalidate().unwrap();
        let (batched, batches) = (many.batched(), many.batches());
        for (at, number) in batched.iter().enumerate() {
            if is_asked(at) {
                assert_eq!(many.engine.status(&many.site(*number)), Status::Invalidated);
            }
        }
        assert_eq!(many.batches(), if is_asked(2) { 0 } else { batches });
        let engine = many.unregister();
        assert_eq!(engine.shared.states.lock().batches.len(), 0);
        let stats = engine.stub_stats();
        assert_eq!((stats.in_use, stats.slots), before);
        let reserved = stats.reserved;
        // The next has their rooms, and the number of their batch.
        let (_placed, module) = Many::registered(&engine, &[Holds::Nops; 30]);
        engine.invalidate(&module.function("f0").unwrap()).unwrap();
        let site = module.sites().last().unwrap();
        assert_eq!(engine.status(&site), Status::Invalidated);
        assert_eq!(engine.stub_stats().slots, 30);
        if engine.stub_stats().reserved != reserved {
            println!("the second text is out of reach of the first's exit stubs");
        }
    }
}

#[test]
fn a_thread_comes_from_each_site_of_a_batch_and_goes_on_as_before() {
    for holds in all_kinds() {
        let many = Many::released(&holds);
        many.call([]);
        many.invalidate().unwrap();
        assert!(many.batches() > 0);
        many.call(0..holds.len());
        assert!(many.batches() > 0, "handlers do not ask for states");
        // Nor does it matter whether they have some.
        assert_eq!(many.engine.status(&many.site(9)), Status::Invalidated);
        many.call(0..holds.len());
    }
}

/// A site that is changed, of another length, or that held something else, is not in a batch with those around
/// it.
#[test]
fn sites_that_differ_are_in_no_batch_with_the_others() {
    let alike = vec![Holds::Call; 30];
    let differing = |holds| {
        let mut sites = alike.clone();
        sites[15] = holds;
        sites
    };
    let nothing: fn(&Many) = |_| {};
    let long = |many: &Many| {
        let long = plus_in_stub(9).add(result(), 1u64).add(result(), 1u64);
        many.engine.patch_site(&many.site(15), &long).unwrap();
    };
    let miss = |many: &Many| {
        let miss = Sequence::new().guard_eq(arg(0), 5u64, Target::Miss);
        many.engine
            .patch_site(&many.site(15), &miss.mov(result(), arg(0)))
            .unwrap();
    };
    let restored = |many: &Many| {
        many.engine.patch_site(&many.site(15), &plus(1)).unwrap();
        many.engine.restore_site(&many.site(15)).unwrap();
    };
    let asked = |many: &Many| {
        assert_eq!(
            many.engine.restore_site(&many.site(15)).unwrap(),
            Receipt::default()
        );
    };
    let invalidated = |many: &Many| _ = many.engine.invalidate_site(&many.site(15)).unwrap();
    let in_place = |many: &Many| _ = many.engine.patch_site(&many.site(15), &plus(1)).unwrap();
    let nops = vec![Holds::Nops; 30];
    type Before = fn(&Many);
    let cases: [(&str, Vec<Holds>, Before); 13] = [
        ("longer", differing(Holds::LongNops), nothing),
        ("nops", differing(Holds::Nops), nothing),
        ("another call", differing(Holds::OtherCall), nothing),
        ("patched", alike.clone(), long),
        ("patched with a miss", alike.clone(), miss),
        ("restored", alike.clone(), restored),
        ("asked for", alike.clone(), asked),
        ("invalidated", alike.clone(), invalidated),
        ("patched in place", alike.clone(), in_place),
        ("patched nops", nops.clone(), long),
        ("patched nops with a miss", nops.clone(), miss),
        ("patched nops in place", nops.clone(), in_place),
        ("restored nops", nops.clone(), restored),
    ];
    for (what, holds, before) in cases {
        for released in [false, true] {
            let both = [(); 2].map(|()| {
                let many = match released {
                    true => Many::released(&holds),
                    false => Many::new(&holds),
                };
                before(&many);
                many
            });
            let [at_once, singly] = &both;
            let receipt = at_once.invalidate().unwrap();
            assert_eq!(receipt, singly.invalidate_singly(), "{what}");
            assert_eq!(receipt.sites, 30 - usize::from(what == "invalidated"));
            assert!(at_once.in_batch(10) && at_once.in_batch(25), "{what}");
            assert!(!at_once.in_batch(15) && at_once.batches() > 0, "{what}");
            match what.starts_with("patched") {
                // Its sequence is resumed.
                true => assert_eq!(at_once.called(), singly.called(), "{what}"),
                false => [at_once, singly].into_iter().for_each(|many| many.call(0..30)),
            }
            assert_eq!(at_once.looks(), singly.looks(), "{what}");
        }
    }
}

/// Batches are no longer than blocks of exit stubs.
#[test]
fn more_sites_than_a_block_has_exit_stubs() {
    let holds = [vec![Holds::Call; 8400], vec![Holds::Nops; 100]].concat();
    let [at_once, singly] = [(); 2].map(|()| Many::released(&holds));
    assert_eq!(at_once.invalidate().unwrap(), singly.invalidate_singly());
    let batches = at_once.batches();
    println!("{batches} batches");
    assert!(batches > 2);
    let in_none = (0..holds.len()).filter(|number| !at_once.in_batch(*number));
    assert!(in_none.count() <= batches + 4);
    at_once.call(0..holds.len());
    let stubs = at_once.stubs();
    assert_eq!((stubs, stubs.1), (singly.stubs(), 8500));
    for (number, site) in at_once.sites().iter().enumerate() {
        let both = [&at_once, &singly].map(|many| bytes(&many.site(number)));
        assert_eq!(both[0][..1], both[1][..1]);
        assert_eq!(both[0][5..], both[1][5..]);
        assert_eq!(at_once.engine.status(site), Status::Invalidated);
    }
    assert_eq!(at_once.batches(), 0);
    at_once.call(0..holds.len());
    let engine = at_once.unregister();
    let stats = engine.stub_stats();
    assert_eq!((stats.in_use, stats.slots), (0, 0));
}

/// The changes are sorted, behind which the batches come.
#[test]
fn a_batch_before_changes_at_lower_addresses() {
    let holds = [Holds::Call; 40];
    let both = [(); 2].map(|()| Many::new(&holds));
    let transactions = both.each_ref().map(|many| {
        let sites = many.sites();
        let mut transaction = many.engine.transaction();
        for site in &sites[20..] {
            transaction.invalidate_site(site).unwrap();
        }
        transaction.patch_site(&sites[3], &plus_in_stub(9)).unwrap();
        for site in sites[5..15].iter().rev() {
            transaction.invalidate_site(site).unwrap();
        }
        transaction
    });
    let [mut at_once, mut singly] = transactions;
    let receipt = at_once.commit().unwrap();
    assert!(both[0].in_batch(30));
    assert_eq!(singly.prepare().unwrap().commit().unwrap(), receipt);
    assert_eq!(both[1].batches(), 0);
    assert_eq!(receipt.sites, 31);
    let looks = both.each_ref().map(Many::looks);
    assert_eq!(looks[0], looks[1]);
}

/// Rooms of the block of the site before are taken, of no other that was used meanwhile.
#[test]
fn exit_stubs_of_a_batch_are_in_the_block_of_the_site_before() {
    let either = [[Holds::Nops, Holds::Call], [Holds::Call, Holds::Nops]];
    for (earlier, [few, most]) in (0..20).flat_map(|earlier| either.map(|either| (earlier, either))) {
        let many = Many::released(&[vec![few; 10], vec![most; 50]].concat());
        let sites = many.sites();
        // So many rooms of the first block for the others are in use.
        for site in &sites[10..10 + earlier] {
            many.engine.invalidate_site(site).unwrap();
        }
        let mut transaction = many.engine.transaction();
        for site in sites[..2].iter().chain(&sites[10 + earlier..]) {
            transaction.invalidate_site(site).unwrap();
        }
        assert_eq!(transaction.commit().unwrap().sites, 52 - earlier);
        assert!(!many.batched().is_empty());
        many.call([0, 1].into_iter().chain(10..60));
    }
}

/// Sites that are changed while threads execute them are exchanged, each for itself.
#[test]
fn live_sites_are_in_no_batch() {
    for holds in [[Holds::Call; 30], [Holds::Nops; 30]] {
        let many = Many::new(&[]);
        let (_placed, code) = Many::adopted(&many.engine, &holds, true);
        let shape = CallShape::any_reg(RESERVED).result().args(1);
        // SAFETY: what is told is true of the code.
        let live = unsafe { many.engine.registration(code).live().register(|_| shape) }.unwrap();
        let many = Many {
            module: live,
            holds: holds.to_vec(),
            ..many
        };
        many.call([]);
        assert_eq!(many.invalidate().unwrap().sites, 30);
        assert_eq!(many.batches(), 0);
        many.call(0..30);
    }
}

/// Offsets to which calls return are told of single sites, whatever these hold.
#[test]
fn told_return_offsets_are_of_their_sites() {
    let holds = [Holds::Nops; 20];
    let many = Many::new(&holds);
    let (_placed, code) = Many::adopted(&many.engine, &holds, false);
    let (_, offsets) = code_of(&holds);
    let told = |number: usize| (number % 4 == 3).then_some(7 + number as u32 % 3);
    let specs = offsets.iter().enumerate().map(|(number, offset)| {
        let spec = SiteSpec::nops("f0", *offset, RESERVED).id(1000 + number as u64);
        told(number).into_iter().fold(spec, SiteSpec::returns_to)
    });
    // SAFETY: what is told is true of the code.
    let module = unsafe { many.engine.registration(code).sites(specs).finish() }.unwrap();
    module.release();
    many.engine.invalidate(&module.function("f0").unwrap()).unwrap();
    for (number, site) in module.sites().enumerate() {
        assert_eq!(many.engine.status(&site), Status::Invalidated);
        let Some(offset) = told(number) else {
            continue;
        };
        let boundaries = crate::verify::boundaries(ARCH, site.addr(), &bytes(&site));
        assert!(boundaries.contains(&offset), "{number}: {boundaries:?}");
    }
}

/// Ranges that lie near each other are published as one, with all bytes of both.
#[test]
fn what_is_written_of_batches_is_published() {
    for holds in [[Holds::Call; 30], [Holds::Nops; 30]] {
        let many = Many::released(&holds);
        let (invalidated, maintained) = during(|| many.invalidate());
        assert_eq!(invalidated.unwrap().sites, 30);
        assert!(many.batched().len() > 20);
        let len = many.engine.stub_bytes(&many.site(0));
        for (number, site) in many.sites().iter().enumerate() {
            assert!(covers(&maintained, site.range()), "{number}: {maintained:?}");
            let exit_stub = CodeRange::new(many.exit_stub(number), len).unwrap();
            // When its slab was placed, and filled with traps, as a part of its block, and with its site.
            let times = maintained
                .iter()
                .filter(|range| covers(&[**range], exit_stub))
                .count();
            assert!(times >= 4, "{number}: {maintained:?}");
        }
    }
}
