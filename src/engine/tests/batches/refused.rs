//! Batches whose transaction is refused, or fails: nothing is left of them, or what is left is known.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::engine::batch::FEWEST;
use crate::engine::batch::failing::{self, Fails};
use crate::engine::change::Side;
use crate::error::Fate;
use crate::memory::testing::Call;
use crate::memory::{BlockForm, EmptyRoom, EmptyRooms};
use crate::site::ModuleId;

#[test]
fn bytes_that_somebody_else_changed_in_a_batch_keep_all_from_being_written() {
    for (number, released) in [(2, false), (15, true), (29, false)] {
        let many = Many::new(&[Holds::Call; 30]);
        if released {
            many.module.release();
        }
        // Behind the first invalidations, so that the batch is of all sites from the third on.
        let site = many.site(number);
        let original = bytes(&site);
        let last = CodeAddr::new(site.addr().get() + u64::from(RESERVED) - 1);
        many.placed.memory().write(last, &[0xcc]).unwrap();
        let before: Vec<_> = many.sites().iter().map(bytes).collect();
        match many.invalidate() {
            Err(Error::BytesChanged {
                site: named,
                expected,
                found,
            }) => {
                assert_eq!((*named, expected), (*site.name(), original.clone()));
                assert_eq!(found, before[number]);
            }
            other => panic!("{other:?}"),
        }
        let sites = many.sites();
        assert!(sites.iter().map(bytes).eq(before));
        assert_eq!((many.batches(), many.stubs()), (0, (0, 0)));
        assert!(many.engine.journal().is_empty());
        for site in &sites {
            assert_eq!(many.engine.status(site), Status::Original);
            assert_eq!(many.engine.stub_bytes(site), 0);
        }
        many.placed.memory().write(last, &original[15..]).unwrap();
        publish(site.range());
        many.call([]);
        assert_eq!(many.invalidate().unwrap().sites, 30);
        many.call(0..30);
    }
}

/// A function in memory that fails, of the same engine.
fn other_text(many: &Many) -> (Text, Site) {
    let functions = [identity(1)];
    let text = Text::new(&functions);
    let code = many
        .engine
        .adopt_with(text.adopted(&functions), &text.shared())
        .unwrap();
    // SAFETY: what is told is true of the code.
    let module = unsafe { many.engine.register(code, |_| Some(functions[0].shape)) }.unwrap();
    let site = module.sites().next().unwrap();
    (text, site)
}

/// Invalidates both functions in one transaction.
fn invalidate_both(many: &Many, other: &Site) -> Result<Receipt> {
    let mut transaction = many.engine.transaction();
    let function = many.module.function("f0").unwrap();
    transaction.invalidate(&function).unwrap();
    transaction.invalidate(&other.function()).unwrap();
    transaction.commit()
}

#[test]
fn a_batch_is_rolled_back_with_what_cannot_be_written() {
    let mut failures = 0;
    for which in [Call::Begin, Call::Write, Call::End, Call::Read] {
        for after in 0.. {
            let many = Many::new(&[Holds::Call; 30]);
            let (text, other) = other_text(&many);
            let before: Vec<_> = many.sites().iter().map(bytes).collect();
            text.memory.fail_after(which, after);
            let committed = invalidate_both(&many, &other);
            if !text.memory.has_failed() {
                assert_eq!(committed.unwrap().sites, 31);
                assert!(many.batches() > 0);
                break;
            }
            failures += 1;
            match which {
                Call::End => refused!(committed, Memory(ProtectionLost)),
                _ => refused!(committed, Memory(SystemCall)),
            }
            is_as_before(&many, &before);
            assert_eq!(many.engine.status(&other), Status::Original);
            assert_eq!(invalidate_both(&many, &other).unwrap().sites, 31);
            many.call(0..30);
        }
    }
    assert!(failures >= 4, "{failures}");
}

/// The sites hold that, are as if nothing had been, and execute.
fn is_as_before(many: &Many, before: &[Vec<u8>]) {
    let sites = many.sites();
    assert_eq!((many.batches(), many.stubs()), (0, (0, 0)));
    assert!(many.engine.journal().is_empty());
    for (site, before) in sites.iter().zip(before) {
        assert_eq!(bytes(site), *before);
        assert_eq!(many.engine.status(site), Status::Original);
        assert_eq!(many.engine.stub_bytes(site), 0);
    }
    many.call([]);
}

#[test]
fn a_batch_is_rolled_back_with_what_did_not_arrive() {
    let many = Many::new(&[Holds::Nops; 30]);
    let (text, other) = other_text(&many);
    let before: Vec<_> = many.sites().iter().map(bytes).collect();
    text.memory.lose_writes(true);
    match invalidate_both(&many, &other) {
        Err(Error::BytesChanged { site, .. }) => assert_eq!(*site, *other.name()),
        other => panic!("{other:?}"),
    }
    text.memory.lose_writes(false);
    is_as_before(&many, &before);
    assert_eq!(invalidate_both(&many, &other).unwrap().sites, 31);
    many.call(0..30);
}

/// Memory of the engine's own does not fail: here it is told to.
#[test]
fn a_write_that_fails_in_a_batch_rolls_all_sites_back() {
    for after in [0, 1, 10, 20] {
        let many = Many::new(&[Holds::Call; 30]);
        let (_text, other) = other_text(&many);
        let before: Vec<_> = many.sites().iter().map(bytes).collect();
        failing::set(Side::New, Some(Fails::Once(after)));
        refused!(invalidate_both(&many, &other), Memory(SystemCall));
        assert_eq!(failing::set(Side::New, None), None);
        is_as_before(&many, &before);
        assert_eq!(many.engine.status(&other), Status::Original);
        assert_eq!(bytes(&other), nops());
        assert_eq!(invalidate_both(&many, &other).unwrap().sites, 31);
        many.call(0..30);
    }
}

#[test]
fn a_write_of_a_batch_that_did_not_arrive_is_noticed() {
    for at in [0, 10, 24] {
        let [many, other] = [(); 2].map(|()| Many::new(&[Holds::Call; 30]));
        let before: Vec<_> = many.sites().iter().map(bytes).collect();
        other.invalidate().unwrap();
        let number = other.batched()[at];
        failing::set(Side::New, Some(Fails::Unsaid(at as u32)));
        match many.invalidate() {
            Err(Error::BytesChanged {
                site,
                expected,
                found,
            }) => {
                assert_eq!(*site, *many.site(number).name());
                assert_eq!(expected[..1], bytes(&other.site(number))[..1]);
                assert_eq!(expected[5..], bytes(&other.site(number))[5..]);
                assert_eq!(found, before[number]);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(failing::set(Side::New, None), None);
        is_as_before(&many, &before);
    }
}

/// Invalidates a function where the eleventh write of batches fails, and those of the old bytes do so too:
/// what is then lost, by the places of sites among those of batches.
fn lost(fails: Fails) -> Vec<(usize, Fate)> {
    let batched = {
        let many = Many::new(&[Holds::Call; 30]);
        many.invalidate().unwrap();
        many.batched()
    };
    let many = Many::new(&[Holds::Call; 30]);
    let before: Vec<_> = many.sites().iter().map(bytes).collect();
    failing::set(Side::New, Some(Fails::Once(10)));
    failing::set(Side::Old, Some(fails));
    let invalidated = many.invalidate();
    assert_eq!(failing::set(Side::New, None), None);
    failing::set(Side::Old, None);
    let Err(Error::RollBackFailed { cause, sites }) = invalidated else {
        panic!("{invalidated:?}");
    };
    refused!(Err::<(), _>(*cause), Memory(SystemCall));
    let found = sites.iter().map(|(name, fate)| {
        let number = (many.sites().iter().position(|site| *site.name() == *name)).unwrap();
        (number, *fate)
    });
    let found: Vec<_> = found.collect();
    for (number, site) in many.sites().iter().enumerate() {
        let Some((_, fate)) = found.iter().find(|(lost, _)| *lost == number) else {
            assert_eq!(many.engine.status(site), Status::Original);
            assert_eq!(bytes(site), before[number]);
            assert_eq!(many.engine.stub_bytes(site), 0);
            continue;
        };
        assert_ne!(bytes(site), before[number]);
        assert_eq!(many.engine.status(site), Status::Lost);
        refused!(many.engine.invalidate_site(site), SiteLost);
        // Threads may be in their exit stubs.
        if *fate == Fate::New {
            let exit_stub = many.engine.site_of_stub(many.exit_stub(number));
            assert_eq!(exit_stub.unwrap().key(), site.key());
        }
    }
    assert_eq!((many.batches(), many.stubs().1), (0, found.len() as u64));
    assert_eq!(many.unregister().stub_stats().slots, 0);
    let at = |number| batched.iter().position(|batched| *batched == number).unwrap();
    found.iter().map(|(number, fate)| (at(*number), *fate)).collect()
}

#[test]
fn sites_of_a_batch_that_cannot_be_rolled_back_are_lost() {
    // Half of the old bytes are there, or of the new ones.
    assert_eq!(lost(Fails::Once(4)), [(4, Fate::Unknown)]);
    let new = (4..10).map(|at| (at, Fate::New));
    let expected: Vec<_> = new.chain([(10, Fate::Unknown)]).collect();
    assert_eq!(lost(Fails::ForGood(4)), expected);
}

/// A live site was reachable before the batch was rolled back: what was made for the batch was not.
#[test]
fn exit_stubs_of_a_batch_that_is_rolled_back_beside_live_sites_are_freed() {
    for first in [false, true] {
        let many = Many::new(&[Holds::Call; 30]);
        let before: Vec<_> = many.sites().iter().map(bytes).collect();
        let (_text, live) = live_text(&many);
        let armed = bytes(&live);
        let mut transaction = many.engine.transaction();
        if first {
            transaction.invalidate_site(&live).unwrap();
        }
        let function = many.module.function("f0").unwrap();
        transaction.invalidate(&function).unwrap();
        if !first {
            transaction.invalidate_site(&live).unwrap();
        }
        failing::set(Side::New, Some(Fails::Once(10)));
        refused!(transaction.commit(), Memory(SystemCall));
        assert_eq!(failing::set(Side::New, None), None);
        assert_eq!(bytes(&live), armed);
        assert!(many.sites().iter().map(bytes).eq(before));
        assert_eq!(many.engine.status(&live), Status::Original);
        // That of the live site, in which threads may be.
        assert_eq!((many.stubs().1, many.batches()), (1, 0));
        many.call([]);
        assert_eq!(many.invalidate().unwrap().sites, 30);
        many.call(0..30);
    }
}

/// A live shadow of the same engine.
fn live_text(many: &Many) -> (Text, Site) {
    let functions = [Written {
        shape: CallShape::shadow(RESERVED),
        record: record(1).at(0),
        ..identity(1)
    }];
    let text = Text::new(&functions);
    let code = many
        .engine
        .adopt_with(text.adopted(&functions), &text.shared())
        .unwrap();
    let registration = many.engine.registration(code).live();
    // SAFETY: what is told is true of the code that this test wrote.
    let live = unsafe { registration.register(|_| CallShape::shadow(RESERVED)) }.unwrap();
    let live = live.sites().next().unwrap();
    (text, live)
}

/// What is unlike is named by a number that counts batches behind the changes, however these came.
#[test]
fn the_site_that_is_unlike_is_named_in_any_order() {
    for (number, released) in [(35, false), (3, true), (8, false)] {
        let many = Many::new(&[Holds::Call; 40]);
        let sites = many.sites();
        let last = CodeAddr::new(sites[number].addr().get() + u64::from(RESERVED) - 1);
        many.placed.memory().write(last, &[0xcc]).unwrap();
        if released {
            many.module.release();
        }
        let mut transaction = many.engine.transaction();
        for site in sites[20..].iter().chain(&sites[..10]) {
            transaction.invalidate_site(site).unwrap();
        }
        match transaction.commit() {
            Err(Error::BytesChanged { site, .. }) => assert_eq!(*site, *sites[number].name()),
            other => panic!("{other:?}"),
        }
        assert_eq!(many.stubs(), (0, 0));
    }
}

/// Exits of which one is not made.
struct Picky {
    inner: ExitStubs,
    choice: Arc<Mutex<Option<Choice>>>,
    /// A site that was asked about, for which there are blocks.
    site: Mutex<Option<Site>>,
}

/// Whether the exit stub of a site with that ID is not in a block; whether it cannot be made at all.
type Choice = (fn(u64, u64) -> bool, u64, bool);

impl Picky {
    fn new(choice: &Arc<Mutex<Option<Choice>>>) -> Self {
        Self {
            inner: ExitStubs::new().on_deopt(|frame| frame.resume()),
            choice: Arc::clone(choice),
            site: Mutex::new(None),
        }
    }
}

struct PickyBlock {
    inner: Arc<dyn ExitBlock>,
    choice: Arc<Mutex<Option<Choice>>>,
    made: Mutex<Vec<u32>>,
}

impl PickyBlock {
    /// Whether the exit stub of a site is not in the block.
    fn refuse(&self, site: &Site) -> Result<bool> {
        match *self.choice.lock() {
            Some((is_chosen, of, false)) => Ok(is_chosen(site.id().get(), of)),
            Some((is_chosen, of, true)) if is_chosen(site.id().get(), of) => {
                Err(Error::NothingToInvalidate {
                    function: "f0".into(),
                    addr: site.addr(),
                })
            }
            _ => Ok(false),
        }
    }

    fn note(&self, number: u32) {
        let mut made = self.made.lock();
        assert!(!made.contains(&number), "{number} was not given back");
        made.push(number);
    }
}

// SAFETY: all code is made by the inner one.
unsafe impl Exits for Picky {
    fn handles(&self, role: Role) -> bool {
        self.inner.handles(role)
    }

    fn bound(&self, site: &Site, role: Role, resumption: &ExitResumption<'_>) -> Result<Len> {
        self.inner.bound(site, role, resumption)
    }

    fn encode(&self, request: &ExitRequest<'_>) -> Result<ExitCode> {
        self.inner.encode(request)
    }

    fn in_blocks(
        &self,
        site: &Site,
        role: Role,
        resumption: &ExitResumption<'_>,
    ) -> Option<(BlockForm, &dyn ExitBlocks)> {
        *self.site.lock() = Some(site.clone());
        let (form, _) = self.inner.in_blocks(site, role, resumption)?;
        Some((form, self))
    }

    fn check_leavable(&self, site: &Site) -> Result<()> {
        self.inner.check_leavable(site)
    }

    fn forget(&self, module: ModuleId) {
        self.inner.forget(module);
    }
}

// SAFETY: as above.
unsafe impl ExitBlocks for Picky {
    fn make(&self, form: BlockForm, at: CodeAddr, count: u32) -> (Vec<u8>, Arc<dyn ExitBlock>) {
        let site = self.site.lock().take().unwrap();
        let at_end = ExitResumption::At(site.range().end());
        let (_, blocks) = self.inner.in_blocks(&site, Role::Deopt, &at_end).unwrap();
        let (shared, inner) = blocks.make(form, at, count);
        let (choice, made) = (Arc::clone(&self.choice), Mutex::default());
        (shared, Arc::new(PickyBlock { inner, choice, made }))
    }
}

impl ExitBlock for PickyBlock {
    fn put(&self, request: &ExitRequest<'_>, room: EmptyRoom<'_>) -> Result<bool> {
        let number = room.number();
        let is_made = !self.refuse(request.site)? && self.inner.put(request, room)?;
        if is_made {
            self.note(number);
        }
        Ok(is_made)
    }

    fn put_many(
        &self,
        first: &ExitRequest<'_>,
        sites: AlikeSites<'_>,
        rooms: EmptyRooms<'_>,
    ) -> (usize, Result<()>) {
        let all = rooms.len();
        assert_eq!(sites.len(), all);
        for (made, (site, room)) in sites.iter().zip(rooms).enumerate() {
            match self.put(&first.of_like(&site, room.at()), room) {
                Ok(true) => {}
                Ok(false) => return (made, Ok(())),
                Err(error) => return (made, Err(error)),
            }
        }
        (all, Ok(()))
    }

    fn stack(&self) -> &'static [StackAt] {
        self.inner.stack()
    }

    fn give(&self, number: u32) {
        let mut made = self.made.lock();
        if let Some(at) = made.iter().position(|made| *made == number) {
            made.swap_remove(at);
            self.inner.give(number);
        }
    }
}

/// The site with that number, whose exit stub is not as the others'.
fn picky(number: usize, cannot_be_made: bool) -> (Many, Arc<Mutex<Option<Choice>>>) {
    let is_it: fn(u64, u64) -> bool = |id, chosen| id == chosen;
    picky_of((is_it, FIRST_ID + number as u64, cannot_be_made))
}

fn picky_of(choice: Choice) -> (Many, Arc<Mutex<Option<Choice>>>) {
    let choice = Arc::new(Mutex::new(Some(choice)));
    let many = Many::of(&[Holds::Call; 30], |builder| builder.exits(Picky::new(&choice)));
    many.module.release();
    (many, choice)
}

/// Such a one is in no batch; those around it are in one.
#[test]
fn a_site_whose_exit_stub_is_in_no_block_is_in_no_batch() {
    for number in [2, 3, 9, 20] {
        let [(at_once, _), (singly, _)] = [(); 2].map(|()| picky(number, false));
        assert_eq!(at_once.invalidate().unwrap(), singly.invalidate_singly());
        assert!(!at_once.in_batch(number));
        assert!(at_once.batched().len() > 20 && at_once.batches() == 1);
        at_once.called();
        assert_eq!(at_once.looks(), singly.looks());
        let stats = at_once.unregister().stub_stats();
        assert_eq!((stats.in_use, stats.slots), (0, 0));
    }
}

/// Its sites are as before, and the next transaction finds nothing of it.
#[test]
fn what_panics_in_the_midst_of_a_batch_leaves_no_promises() {
    let panics: fn(u64, u64) -> bool = |id, chosen| {
        assert_ne!(id, chosen, "no exit stub");
        false
    };
    let (many, choice) = picky_of((panics, FIRST_ID + 20, false));
    let before: Vec<_> = many.sites().iter().map(bytes).collect();
    for _ in 0..3 {
        let refused = catch_unwind(AssertUnwindSafe(|| many.invalidate()));
        assert!(refused.is_err());
        let now: Vec<_> = many.sites().iter().map(bytes).collect();
        assert_eq!(now, before);
    }
    *choice.lock() = None;
    assert_eq!(many.invalidate().unwrap().sites, 30);
    assert!(many.batched().len() > 20, "{:?}", many.batched());
    many.called();
    let rooms = many
        .engine
        .shared
        .states
        .lock()
        .exit_rooms
        .borrow()
        .promised_rooms();
    assert_eq!(rooms, 0);
}

/// Batches are filled again behind each, so after some of them the others are in none.
#[test]
fn where_many_exit_stubs_are_in_no_block_the_others_are_in_no_batch() {
    let is_odd: fn(u64, u64) -> bool = |id, _| id % 2 == 1;
    let [(at_once, _), (singly, _)] = [(); 2].map(|()| picky_of((is_odd, 0, false)));
    assert_eq!(at_once.invalidate().unwrap(), singly.invalidate_singly());
    assert!(
        (4..10).contains(&at_once.batched().len()),
        "{:?}",
        at_once.batched()
    );
    at_once.called();
    assert_eq!(at_once.looks(), singly.looks());
    let stats = at_once.unregister().stub_stats();
    assert_eq!((stats.in_use, stats.slots), (0, 0));
}

/// What was made for sites before it is freed, and nothing is written.
#[test]
fn an_exit_stub_of_a_batch_that_cannot_be_made_refuses_the_transaction() {
    for number in [2, 3, 9, 20] {
        let (many, choice) = picky(number, true);
        let before: Vec<_> = many.sites().iter().map(bytes).collect();
        match many.invalidate() {
            Err(Error::NothingToInvalidate { addr, .. }) => assert_eq!(addr, many.site(number).addr()),
            other => panic!("{other:?}"),
        }
        is_as_before(&many, &before);
        *choice.lock() = None;
        assert_eq!(many.invalidate().unwrap().sites, 30);
        assert_eq!(many.stubs().1, 30);
    }
}

/// Where their block stays, as it has another, their rooms are used again.
#[test]
fn exit_stubs_of_a_refused_batch_leave_their_rooms() {
    let (many, choice) = picky(20, true);
    many.engine.invalidate_site(&many.site(29)).unwrap();
    // More often than there are rooms that were never used.
    for _ in 0..8 {
        refused!(many.invalidate(), NothingToInvalidate);
        assert_eq!(many.stubs().1, 1);
    }
    *choice.lock() = None;
    // Those that were changed by themselves in one of these transactions have states.
    let (with_state, without): (Vec<usize>, Vec<usize>) =
        (0..29).partition(|number| many.place(*number).is_some());
    assert!(with_state.len() < 15, "{with_state:?}");
    assert_eq!(many.invalidate().unwrap().sites, 29);
    assert_eq!(many.stubs().1, 30);
    // The others are in batches but for the first of each, and those where there are few more.
    let in_none = without.iter().filter(|number| !many.in_batch(**number)).count();
    assert!(in_none < many.batches() + FEWEST, "{in_none}");
    many.called();
}

/// A change that is refused behind a batch.
#[test]
fn a_transaction_that_is_refused_frees_the_exit_stubs_of_its_batches() {
    let many = Many::new(&[Holds::Call; 30]);
    let (_text, other) = other_text(&many);
    let before: Vec<_> = many.sites().iter().map(bytes).collect();
    let endless = Sequence::new().raw(&HOST.nop.repeat(100)).in_place_only();
    let mut transaction = many.engine.transaction();
    let function = many.module.function("f0").unwrap();
    transaction.invalidate(&function).unwrap();
    transaction.patch_site(&other, &endless).unwrap();
    refused!(transaction.commit(), Assemble(SequenceTooLong));
    is_as_before(&many, &before);
}
