//! Exit stubs in blocks: whose they are, and how long what they refer to stays.

use std::cell::Cell;
use std::ops::Range;

use super::*;
use crate::memory::{BlockForm, EmptyRoom, EmptyRooms};
use crate::sequence::Target;
use parking_lot::Mutex;

/// More than the first block has, so that there are two.
const SITES: u64 = 40;

/// What a handler does with its frame.
type Handled = Box<dyn Fn(&mut crate::deopt::Frame<'_>) + Send>;

/// An engine whose handlers note the ID of their site; `handled` is told before the frame goes on
/// at the site's end, which needs no exit stub any more.
fn noting(handled: Handled) -> (Engine, Arc<Mutex<Vec<u64>>>) {
    let ids = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&ids);
    let handled = Mutex::new(handled);
    let exit_stubs = ExitStubs::new()
        .on_miss(|frame| frame.resume())
        .on_deopt(move |frame| {
            (handled.lock())(frame);
            noted.lock().push(frame.site().id().get());
            let end = frame.site().range().end();
            // SAFETY: what is there returns.
            unsafe { frame.continue_at(end) }.unwrap()
        });
    let world = Shared(Arc::new(Moody::default()));
    let builder = Engine::builder().world(world).exits(exit_stubs);
    (builder.build().unwrap(), ids)
}

fn register(engine: &Engine, text: &Text, functions: &[Written]) -> Module {
    let code = engine
        .adopt_with(text.adopted(functions), &text.shared())
        .unwrap();
    let shape = functions[0].shape;
    // SAFETY: what is told is true of the code.
    unsafe { engine.register(code, |_| Some(shape)) }.unwrap()
}

fn invalidate_all(engine: &Engine, module: &Module) {
    let mut transaction = engine.transaction();
    for site in module.sites() {
        transaction.invalidate_site(&site).unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn each_exit_stub_is_of_its_site() {
    let (engine, ids) = noting(Box::new(|_| {}));
    let functions: Vec<Written> = (0..SITES).map(identity).collect();
    let text = Text::new(&functions);
    let module = register(&engine, &text, &functions);
    let miss = Sequence::new()
        .guard_eq(arg(0), 5u64, Target::Miss)
        .mov(result(), arg(0));
    // Those of both roles are in the same blocks.
    for site in module.sites().step_by(3) {
        engine.patch(site.id().get(), &miss).unwrap();
    }
    invalidate_all(&engine, &module);
    let sites: Vec<Site> = module.sites().collect();
    for site in sites.iter().rev() {
        call(site, 7);
    }
    let expected: Vec<u64> = (0..SITES).rev().collect();
    assert_eq!(*ids.lock(), expected);
    let stats = engine.stub_stats();
    drop(sites);
    // SAFETY: no thread executes the code.
    let proof = unsafe { GracePeriod::promise() };
    engine.unregister(module, &proof).unwrap();
    let after = engine.stub_stats();
    assert_eq!((after.slots, after.in_use), (0, 0));
    // All of it can be used again, by the same code as it was: another text may lie where memory for
    // exit stubs near the first does not reach.
    text.poke(text.range.start(), &laid_out(&functions));
    let module = register(&engine, &text, &functions);
    invalidate_all(&engine, &module);
    assert!(engine.stub_stats().reserved <= stats.reserved);
}

/// Rooms are taken for all sites of a transaction; of those without an exit stub they are free again,
/// after a refusal as well.
#[test]
fn rooms_that_a_transaction_did_not_need_are_free_again() {
    let (engine, _) = noting(Box::new(|_| {}));
    let functions: Vec<Written> = (0..SITES).map(identity).collect();
    let text = Text::new(&functions);
    let module = register(&engine, &text, &functions);
    let sites: Vec<Site> = module.sites().collect();
    let plain = Sequence::new().mov(result(), arg(0));
    let collect = |upto: usize| {
        let mut transaction = engine.transaction();
        transaction.invalidate_site(&sites[0]).unwrap();
        for site in &sites[1..upto] {
            transaction.patch_site(site, &plain).unwrap();
        }
        transaction
    };
    let mut refused = collect(10);
    let endless = Sequence::new().raw(&HOST.nop.repeat(100));
    let endless = endless.in_place_only();
    refused.patch_site(&sites[10], &endless).unwrap();
    assert!(refused.prepare().is_err());
    assert_eq!(engine.stub_stats().slots, 0);
    collect(30).commit().unwrap();
    assert_eq!(engine.stub_stats().slots, 1);
    // Nobody had those of the others: the next are in the same block.
    let reserved = engine.stub_stats().reserved;
    engine.invalidate_site(&sites[35]).unwrap();
    assert_eq!(
        (engine.stub_stats().slots, engine.stub_stats().reserved),
        (2, reserved)
    );
}

/// A handler that frees the exit stub through which it was called, and makes another meanwhile, has
/// its site until it ends.
#[test]
fn an_exit_stub_that_goes_under_its_handler() {
    let functions = [identity(1)];
    let others = [identity(2)];
    let (text, other_text) = (Text::new(&functions), Arc::new(Text::new(&others)));
    let held: Arc<Mutex<Option<Module>>> = Arc::default();
    let (module, slots) = (Arc::clone(&held), Arc::new(AtomicU64::new(9)));
    let (in_use, other) = (Arc::clone(&slots), Arc::clone(&other_text));
    let (engine, ids) = noting(Box::new(move |frame| {
        let Some(module) = module.lock().take() else {
            return;
        };
        let engine = frame.engine();
        // SAFETY: the thread that is in the exit stub goes on somewhere else.
        let proof = unsafe { GracePeriod::promise() };
        engine.unregister(module, &proof).unwrap();
        in_use.store(engine.stub_stats().slots, Ordering::Relaxed);
        let other = register(&engine, &other, &[identity(2)]);
        invalidate_all(&engine, &other);
    }));
    let module = register(&engine, &text, &functions);
    invalidate_all(&engine, &module);
    let site = module.sites().next().unwrap();
    module.release();
    let function = site.function().entry().unwrap().get() as usize;
    drop(site);
    *held.lock() = Some(module);
    // SAFETY: a function of one number, in the test's own memory.
    let function: extern "C" fn(u64) -> u64 =
        unsafe { std::mem::transmute(std::ptr::with_exposed_provenance::<u8>(function)) };
    function(7);
    assert_eq!(slots.load(Ordering::Relaxed), 0);
    let other = engine.modules().pop().unwrap();
    call(&other.sites().next().unwrap(), 7);
    assert_eq!(*ids.lock(), [1, 2]);
    // What could not be used of the block was freed.
    assert_eq!(engine.stub_stats().slots, 1);
}

/// What is kept for an exit stub goes with it: a module that is gone is not held.
#[test]
fn an_exit_stub_that_is_gone_holds_no_module() {
    let (engine, _) = noting(Box::new(|_| {}));
    let functions = [identity(1)];
    let text = Text::new(&functions);
    let module = register(&engine, &text, &functions);
    let description = Arc::new(());
    let site = module.sites().next().unwrap();
    site.describe(Arc::clone(&description)).unwrap();
    invalidate_all(&engine, &module);
    drop(site);
    assert_eq!(Arc::strong_count(&description), 2);
    // SAFETY: no thread executes the code.
    let proof = unsafe { GracePeriod::promise() };
    engine.unregister(module, &proof).unwrap();
    assert_eq!(Arc::strong_count(&description), 1);
}

/// A function whose work is in its site, a shadow of so many bytes, does it when its invalidated site
/// is resumed. Whether the exit stub is in a block.
fn resumes_its_work(reserved: u32) -> bool {
    let lab = Lab::new();
    let mut function = identity(1);
    let (add, len) = (HOST.increment, reserved as usize);
    let nops = HOST.nop.repeat(len / HOST.nop.len());
    // At its end: nops behind the last instruction take no room.
    function.bytes = [&nops[add.len()..], add, HOST.ret].concat();
    function.shape = CallShape::shadow(reserved);
    let functions = [function];
    let text = Text::new(&functions);
    let module = lab.register(&text, &functions);
    let site = module.sites().next().unwrap();
    let before = call(&site, 7);
    lab.engine.invalidate(&module.function("f0").unwrap()).unwrap();
    assert_eq!(call(&site, 7), before);
    assert_eq!(lab.deopts.load(Ordering::Relaxed), 1);
    let mut states = lab.engine.shared.states.lock();
    let slot = states.of(&site).unwrap().code().next().unwrap();
    lab.engine.shared.stubs.blocks_of(slot).unwrap()
}

/// A thread that resumes executes what the site held, where that is more than nops.
#[test]
fn real_instructions_are_not_skipped() {
    assert!(resumes_its_work(RESERVED));
}

/// What a site held is executed where it was moved to: in the room of a block, or, where that is too
/// short for it, in an exit stub of its own.
#[test]
fn real_instructions_of_any_length_are_executed() {
    let in_block = (RESERVED..=56)
        .step_by(8)
        .filter(|reserved| resumes_its_work(*reserved));
    let in_block = in_block.count();
    println!("{in_block} of 6 lengths are in blocks");
    // On PowerPC64 a room has place for all of these.
    assert!(in_block < 6 || cfg!(target_arch = "powerpc64"));
}

/// Sites that held other bytes than the one before.
#[test]
fn each_site_resumes_with_what_it_held() {
    let lab = Lab::new();
    let (add, nops) = (HOST.increment, nops());
    let mut functions: Vec<Written> = (0..6).map(identity).collect();
    for (number, function) in functions.iter_mut().enumerate() {
        // None, one or two of them.
        let work = add.repeat(number % 3);
        function.bytes = [&work, &nops[work.len()..], HOST.ret].concat();
        function.shape = CallShape::shadow(RESERVED);
    }
    let text = Text::new(&functions);
    let module = lab.register(&text, &functions);
    let sites: Vec<Site> = module.sites().collect();
    let before: Vec<u64> = sites.iter().map(|site| call(site, 7)).collect();
    for function in module.functions() {
        lab.engine.invalidate(&function).unwrap();
    }
    let after: Vec<u64> = sites.iter().map(|site| call(site, 7)).collect();
    assert_eq!(after, before);
    assert_eq!(lab.deopts.load(Ordering::Relaxed), 6);
}

/// A module whose memory is the engine's own, so that its sites can be in batches.
fn register_alias(lab: &Lab, text: &Text, functions: &[Written]) -> Module {
    let memory: Arc<dyn CodeMemory> = Arc::new(text.placed.memory());
    let code = lab.engine.adopt_with(text.adopted(functions), &memory).unwrap();
    let shape = |id: RecordId| functions.get(id.get() as usize).map(|one| one.shape);
    // SAFETY: what is told is true of the code that this test wrote.
    unsafe { lab.engine.register(code, |record| shape(record.id())) }.unwrap()
}

/// Sites that are invalidated in one transaction are a batch behind the first few, on every architecture.
#[test]
fn functions_that_are_invalidated_together_resume_each_for_itself() {
    const FUNCTIONS: u64 = 24;
    let lab = Lab::new();
    let (add, nops) = (HOST.increment, nops());
    let mut functions: Vec<Written> = (0..FUNCTIONS).map(identity).collect();
    for function in functions.iter_mut().skip(FUNCTIONS as usize / 2) {
        function.bytes = [add, &nops[add.len()..], HOST.ret].concat();
        function.shape = CallShape::shadow(RESERVED);
    }
    let text = Text::new(&functions);
    let module = register_alias(&lab, &text, &functions);
    let results = || module.sites().map(|site| call(&site, 7)).collect::<Vec<u64>>();
    let before = results();
    let mut transaction = lab.engine.transaction();
    for function in module.functions() {
        transaction.invalidate(&function).unwrap();
    }
    assert_eq!(transaction.commit().unwrap().sites as u64, FUNCTIONS);
    assert!(lab.engine.shared.states.lock().batches.len() > 0);
    assert_eq!(results(), before);
    assert_eq!(lab.deopts.load(Ordering::Relaxed), FUNCTIONS);
}

/// The rooms of a batch need not lie side by side: here every other one is another module's.
#[test]
fn exit_stubs_of_a_batch_resume_at_their_own_sites_wherever_their_rooms_are() {
    let lab = Lab::new();
    let mut functions: Vec<Written> = (0..80).map(identity).collect();
    for (number, function) in functions.iter_mut().enumerate() {
        // Behind the site: none, one or two of them.
        let work = HOST.increment.repeat(number % 3);
        function.bytes = [&nops(), &*work, HOST.ret].concat();
    }
    let texts = [(); 3].map(|()| Text::new(&functions));
    let [one, other, third] = texts
        .each_ref()
        .map(|text| register_alias(&lab, text, &functions));
    for (one, other) in one.sites().zip(other.sites()) {
        lab.engine.invalidate_site(&one).unwrap();
        lab.engine.invalidate_site(&other).unwrap();
    }
    // SAFETY: no thread executes the code.
    let proof = unsafe { GracePeriod::promise() };
    lab.engine.unregister(one, &proof).unwrap();
    let results = || third.sites().map(|site| call(&site, 7)).collect::<Vec<u64>>();
    let before = results();
    let mut transaction = lab.engine.transaction();
    for function in third.functions() {
        transaction.invalidate(&function).unwrap();
    }
    transaction.commit().unwrap();
    assert!(lab.engine.shared.states.lock().batches.len() > 0);
    for (number, (site, before)) in third.sites().zip(before).enumerate() {
        assert_eq!(call(&site, 7), before);
        assert_eq!(lab.deopts.load(Ordering::Relaxed), number as u64 + 1);
    }
}

/// Sites that get one sequence are a batch where its only distance is that to their exit stubs.
#[test]
fn sites_of_a_batch_that_are_patched_go_to_their_own_exit_stubs() {
    let lab = Lab::new();
    let functions: Vec<Written> = (0..80).map(identity).collect();
    let text = Text::new(&functions);
    let module = register_alias(&lab, &text, &functions);
    module.release();
    let in_batches = |number: u64| {
        let sequence = Sequence::new().guard_eq(arg(0), number, Target::Deopt);
        let sequence = sequence.mov(result(), arg(0));
        let mut transaction = lab.engine.transaction();
        for site in module.sites() {
            transaction.patch_site(&site, &sequence).unwrap();
        }
        assert_eq!(transaction.commit().unwrap().sites, 80);
        lab.engine.shared.states.lock().batches.len()
    };
    let deopts = || lab.deopts.load(Ordering::Relaxed);
    for round in 0..4_u64 {
        let (number, before) = (7 + round % 2, deopts());
        println!("{} batches in round {round}", in_batches(number));
        for (called, site) in (1..).zip(module.sites()) {
            match number {
                7 => assert_eq!((call(&site, 7), deopts()), (7, before)),
                _ => {
                    call(&site, 7);
                    assert_eq!(deopts(), before + called);
                    assert_eq!(call(&site, 8), 8);
                }
            }
        }
        // Of some, somebody asks for the state.
        let asked = module.sites().nth(round as usize * 7).unwrap();
        assert_eq!(lab.engine.status(&asked), Status::Patched);
    }
    let batches = lab.engine.shared.states.lock().batches.len();
    assert!(
        batches > 0
            || !cfg!(any(
                target_arch = "x86_64",
                target_arch = "aarch64",
                target_arch = "s390x"
            ))
    );
    lab.engine
        .invalidate(&module.functions().next().unwrap())
        .unwrap();
}

/// An instruction that depends on where it is, of as many bytes as what was copied before.
#[test]
#[cfg(target_arch = "x86_64")]
fn instructions_that_read_their_address_do_so_after_others_of_their_length() {
    let lab = Lab::new();
    // leaq 256(%rip),%rax
    let reads = [0x48, 0x8d, 0x05, 0, 1, 0, 0];
    let mut functions: Vec<Written> = (0..4).map(identity).collect();
    for (number, function) in functions.iter_mut().enumerate() {
        let work: &[u8] = if number % 2 == 0 { HOST.increment } else { &reads };
        function.bytes = [work, &nops()[work.len()..], HOST.ret].concat();
        function.shape = CallShape::shadow(RESERVED);
    }
    let text = Text::new(&functions);
    let module = lab.register(&text, &functions);
    let results = || module.sites().map(|site| call(&site, 7)).collect::<Vec<u64>>();
    let before = results();
    for function in module.functions() {
        lab.engine.invalidate(&function).unwrap();
    }
    assert_eq!(results(), before);
    assert_eq!(lab.deopts.load(Ordering::Relaxed), 4);
}

/// Code of a site that is too long for a room, and cannot be moved as it reads its own bytes.
#[test]
#[cfg(target_arch = "x86_64")]
fn an_exit_stub_on_its_own_that_cannot_be_made_takes_no_memory() {
    let lab = Lab::new();
    // movq (%rip),%rax
    let reads = [0x48, 0x8b, 0x05, 0, 0, 0, 0];
    let mut function = identity(0);
    function.bytes = [&reads[..], &[0x90; 60 - 7], HOST.ret].concat();
    function.shape = CallShape::shadow(60);
    let functions = [function];
    let text = Text::new(&functions);
    let module = lab.register(&text, &functions);
    let before = lab.engine.stub_stats();
    let refused = lab.engine.invalidate(&module.functions().next().unwrap());
    assert!(matches!(refused, Err(Error::Assemble(_))), "{refused:?}");
    let after = lab.engine.stub_stats();
    assert_eq!((after.slots, after.in_use), (before.slots, before.in_use));
}

/// A block of exit stubs in memory of the test's own.
struct OwnBlock {
    form: BlockForm,
    at: CodeAddr,
    exits: Arc<dyn ExitBlock>,
    /// That of the sites.
    memory: Alias,
}

impl OwnBlock {
    fn new(exits: &ExitStubs, request: &ExitRequest<'_>, text: &Text) -> Self {
        let found = exits.in_blocks(request.site, request.role, &request.resumption);
        let ((form, blocks), at) = (found.unwrap(), request.at);
        let (_, exits) = blocks.make(form, at, 8);
        Self {
            form,
            at,
            exits,
            memory: text.placed.memory(),
        }
    }

    /// The room of that number.
    fn room(&self, number: u32) -> EmptyRoom<'static> {
        let before = u64::from(self.form.shared + number * self.form.room);
        let at = CodeAddr::new(self.at.get() + before);
        EmptyRoom::of(number, at, vec![0; self.form.room as usize].leak())
    }

    /// Makes those of these numbers. Returns how many were made, and how many rooms were taken out.
    fn put(&self, numbers: Range<u32>, request: &ExitRequest<'_>) -> (usize, usize) {
        let (first, taken) = (self.room(numbers.start).at(), Cell::new(0));
        let mut bytes = vec![0; numbers.len() * self.form.room as usize];
        let rooms = EmptyRooms::of((numbers.start, first), self.form.room, &mut bytes, &taken);
        let (made, result) = AlikeSites::with((request.site, &self.memory), numbers.len() as u32, |sites| {
            self.exits.put_many(request, sites, rooms)
        });
        result.unwrap();
        (made, taken.get())
    }
}

/// What is kept for exit stubs that are made together goes with the last of them, in any order; of one that
/// cannot be made, nothing is kept.
#[test]
fn exit_stubs_that_are_made_together_go_each_for_itself() {
    let exits = ExitStubs::new().on_deopt(|frame| frame.resume());
    let (engine, _) = noting(Box::new(|_| {}));
    let functions: Vec<Written> = (0..4).map(identity).collect();
    let text = Text::new(&functions);
    let module = register(&engine, &text, &functions);
    let description = Arc::new(());
    let site = module.sites().next().unwrap();
    site.describe(Arc::clone(&description)).unwrap();
    let request = ExitRequest {
        site: &site,
        role: Role::Deopt,
        at: site.range().end(),
        resumption: ExitResumption::At(site.range().end()),
    };
    let block = OwnBlock::new(&exits, &request, &text);
    // It cannot go as far.
    let far = CodeAddr::new(site.range().end().get() ^ 1 << 46);
    let to_far = ExitRequest {
        resumption: ExitResumption::At(far),
        ..request
    };
    assert_eq!(block.put(2..5, &to_far), (0, 1));
    assert_eq!(block.put(1..3, &request), (2, 2));
    assert_eq!(block.put(4..6, &request), (2, 2));
    // Those in use are left alone, and so are those behind them.
    assert_eq!(block.put(3..7, &request), (1, 2));
    assert_eq!(block.put(6..7, &request), (1, 1));
    let (_, exits) = (request, block.exits);
    drop(site);
    // SAFETY: no thread executes the code.
    let proof = unsafe { GracePeriod::promise() };
    engine.unregister(module, &proof).unwrap();
    for number in [2, 6, 1, 5, 3] {
        exits.give(number);
        assert_eq!(Arc::strong_count(&description), 2, "after {number}");
    }
    exits.give(4);
    assert_eq!(Arc::strong_count(&description), 1);
}

#[test]
#[should_panic(expected = "exit stubs are made in rooms of their block")]
fn an_exit_stub_is_made_in_its_block_only() {
    let exits = ExitStubs::new().on_deopt(|frame| frame.resume());
    let (engine, _) = noting(Box::new(|_| {}));
    let functions = [identity(1)];
    let text = Text::new(&functions);
    let module = register(&engine, &text, &functions);
    let site = module.sites().next().unwrap();
    let end = site.range().end();
    let request = ExitRequest {
        site: &site,
        role: Role::Deopt,
        at: end,
        resumption: ExitResumption::At(end),
    };
    let block = OwnBlock::new(&exits, &request, &text);
    let at = CodeAddr::new(block.room(1).at().get() + 0x1_0000);
    let room = EmptyRoom::of(1, at, vec![0; block.form.room as usize].leak());
    let _ = block.exits.put(&request, room);
}
