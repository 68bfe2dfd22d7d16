//! The life of a site: changes that exclude each other, that come too late, or for somebody else's
//! site.

use super::*;
use crate::deopt::Assumptions;
use crate::memory::testing::Call;
use crate::site::Module;

/// A lab with one text, registered.
fn one(functions: &[Written]) -> (Lab, Text, Vec<Site>) {
    let (lab, text) = (Lab::new(), Text::new(functions));
    let sites = lab.register(&text, functions).sites().collect();
    (lab, text, sites)
}

fn grace_period() -> GracePeriod {
    // SAFETY: the only thread is here, in no code of a test.
    unsafe { GracePeriod::promise() }
}

#[test]
fn a_site_cannot_be_changed_twice_in_one_transaction() {
    let (lab, _text, sites) = one(&[identity(1), identity(1)]);
    let mut both = lab.engine.transaction();
    both.patch(1, &plus(2)).unwrap();
    refused!(both.patch_site(&sites[1], &plus(3)), SiteTwice);
    refused!(both.restore(&sites[0]), SiteTwice);
    refused!(both.invalidate_site(&sites[0]), SiteTwice);
    refused!(both.invalidate(&sites[1].function()), SiteTwice);
    refused!(both.patch(1, &plus(2)), SiteTwice);
    assert!(
        sites
            .iter()
            .all(|site| lab.engine.status(site) == Status::Original)
    );
}

/// Sites that come in order are told apart by that; others are looked for, few or many.
#[test]
fn a_site_that_is_there_twice_is_found_in_any_order() {
    let functions: Vec<Written> = (0..40).map(identity).collect();
    let (lab, _text, sites) = one(&functions);
    let forth: Vec<usize> = (0..sites.len()).collect();
    let back: Vec<usize> = forth.iter().rev().copied().collect();
    let few = vec![3, 1, 5];
    let late: Vec<usize> = (10..40).chain([0, 5, 2]).collect();
    for order in [forth, back, few, late] {
        let mut transaction = lab.engine.transaction();
        for at in &order {
            transaction.patch_site(&sites[*at], &plus(2)).unwrap();
            refused!(transaction.restore(&sites[*at]), SiteTwice);
        }
        for at in &order {
            refused!(transaction.restore(&sites[*at]), SiteTwice);
        }
        // What was refused as a part of more leaves nothing behind.
        let rest = (0..sites.len()).find(|at| !order.contains(at));
        if let Some(rest) = rest {
            transaction.patch_site(&sites[rest], &plus(2)).unwrap();
            refused!(transaction.restore(&sites[rest]), SiteTwice);
        }
        assert_eq!(
            transaction.commit().unwrap().sites,
            order.len() + rest.iter().len()
        );
        lab.engine.patch(0, &plus(9)).unwrap();
    }
}

#[test]
fn a_prepared_transaction_is_refused_whole_once_one_of_its_sites_has_changed() {
    let (lab, _text, sites) = one(&[identity(1), identity(2)]);
    let prepare = |sequence: &Sequence| {
        let mut transaction = lab.engine.transaction();
        transaction.patch(1, sequence).unwrap();
        transaction.patch(2, sequence).unwrap().prepare().unwrap()
    };
    let early = prepare(&plus_in_stub(9));
    lab.engine.patch(2, &plus(3)).unwrap();
    refused!(early.commit(), SiteChanged);
    assert_eq!(lab.engine.status(&sites[0]), Status::Original);
    assert_eq!(call(&sites[1], 10), 13);
    assert_eq!(lab.engine.stub_stats().slots, 0);

    // A change there and back is a change too: what returns into the site may be another by now.
    let early = prepare(&plus(9));
    lab.engine.patch(2, &plus(4)).unwrap();
    lab.engine.restore(2).unwrap();
    refused!(early.commit(), SiteChanged);
}

#[test]
fn a_byte_changed_behind_the_engine_keeps_the_whole_transaction_from_being_written() {
    let (lab, text, sites) = one(&[identity(1), identity(2), identity(3)]);
    let change = || {
        let mut transaction = lab.engine.transaction();
        transaction.patch(1, &plus(5)).unwrap();
        transaction.patch(2, &plus(5)).unwrap();
        transaction.patch(3, &plus(5)).unwrap();
        transaction
    };
    change().commit().unwrap();
    let before: Vec<_> = sites.iter().map(bytes).collect();
    let last = CodeAddr::new(sites[2].addr().get() + u64::from(RESERVED) - 1);
    text.poke(last, &[0xcc]);
    let mut restore = lab.engine.transaction();
    for site in &sites {
        restore.restore(site).unwrap();
    }
    match restore.commit() {
        Err(Error::BytesChanged {
            site,
            expected,
            found,
        }) => {
            assert_eq!((site.id.get(), &expected), (3, &before[2]));
            assert_eq!((found[15], &found[..15]), (0xcc, &before[2][..15]));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!([bytes(&sites[0]), bytes(&sites[1])], before[..2]);
    assert_eq!(
        (call(&sites[0], 1), lab.engine.status(&sites[2])),
        (6, Status::Patched)
    );
    // Once the byte is back, so is the site.
    text.poke(last, &before[2][15..]);
    lab.engine.restore(3).unwrap();
}

#[test]
fn a_byte_changed_before_the_first_patch_is_noticed() {
    let (lab, text, sites) = one(&[identity(1), identity(2)]);
    text.poke(sites[1].addr(), &[0xf4]);
    let mut both = lab.engine.transaction();
    both.patch(1, &plus(5)).unwrap();
    refused!(both.patch(2, &plus(5)).unwrap().commit(), BytesChanged);
    assert!(
        sites
            .iter()
            .all(|site| lab.engine.status(site) == Status::Original)
    );
    assert_eq!(bytes(&sites[0]), nops());
}

#[test]
fn an_invalidated_site_stays_so() {
    let (lab, _text, sites) = one(&[identity(1), identity(2)]);
    lab.engine.patch(1, &plus(5)).unwrap();
    let function = sites[0].function();
    assert_eq!(lab.engine.invalidate(&function).unwrap().sites, 1);
    let before = bytes(&sites[0]);
    refused!(lab.engine.patch(1, &plus(6)), SiteInvalidated);
    refused!(lab.engine.restore(1), SiteInvalidated);
    let mut both = lab.engine.transaction();
    both.patch(2, &plus(6)).unwrap();
    refused!(both.restore(&sites[0]).unwrap().commit(), SiteInvalidated);
    assert_eq!(lab.engine.status(&sites[1]), Status::Original);
    let stats = lab.engine.stub_stats();
    assert_eq!(lab.engine.invalidate(&function).unwrap().sites, 0);
    assert_eq!((bytes(&sites[0]), lab.engine.stub_stats()), (before, stats));
    // The handler resumes: the sequence is still what happens.
    assert_eq!((call(&sites[0], 10), lab.deopts.load(Ordering::Relaxed)), (15, 1));
}

#[test]
fn any_sequence_can_be_invalidated_and_is_resumed() {
    let sequences = [plus(5), plus(5).in_place_only(), plus_in_stub(5)];
    for (index, sequence) in sequences.iter().enumerate() {
        let (lab, _text, sites) = one(&[identity(1)]);
        lab.engine.patch(1, sequence).unwrap();
        assert_eq!(call(&sites[0], 10), 15);
        lab.engine
            .invalidate(&sites[0].function())
            .unwrap_or_else(|e| panic!("{index}: {e}"));
        assert_eq!((call(&sites[0], 10), lab.deopts.load(Ordering::Relaxed)), (15, 1));
        // The stub in which it resumes is the site's still, and nobody has to wait for it.
        assert_eq!(lab.engine.retired(), []);
        assert_eq!(lab.engine.stub_bytes(&sites[0]), lab.engine.stub_stats().in_use);
    }
}

#[test]
fn a_site_that_already_is_as_asked_for_is_not_written() {
    let (lab, text, sites) = one(&[identity(1)]);
    lab.engine.patch(1, &plus(5)).unwrap();
    lab.engine.restore(1).unwrap();
    let writes = text.memory.count(crate::memory::testing::Call::Write);
    assert_eq!(lab.engine.restore(1).unwrap().sites, 0);
    assert_eq!(text.memory.count(crate::memory::testing::Call::Write), writes);
    assert_eq!(bytes(&sites[0]), nops());
}

#[test]
fn what_commits_leave_is_in_the_journal_in_their_order() {
    let (lab, _text, sites) = one(&[identity(1), identity(2), identity(3)]);
    let plan = |number: usize| lab.engine.plan(number as u64 + 1, &plus(number as u64)).unwrap();
    let mut planned: Vec<_> = (0..3).map(|number| Some(plan(number))).collect();
    let order = [2, 0, 1];
    for number in order {
        planned[number].take().unwrap().commit().unwrap();
    }
    let journal = lab.engine.journal();
    assert_eq!(journal.len(), 3);
    for (at, (entry, number)) in journal.iter().zip(order).enumerate() {
        assert_eq!((entry.number, entry.generation), (at as u64 + 1, 1));
        assert_eq!(
            (entry.addr, entry.became),
            (sites[number].addr(), Status::Patched)
        );
        assert_eq!(
            (&*entry.before, &*entry.after),
            (&*nops(), &*bytes(&sites[number]))
        );
    }
}

/// Without it they would be kept for ever by who only prepares and commits.
#[test]
fn what_commits_leave_is_filed_when_the_next_is_prepared() {
    let (lab, _text, _) = one(&[identity(1)]);
    let left = || lab.engine.shared.states.lock().last().is_some();
    for by in 1..4 {
        let planned = lab.engine.plan(1, &plus(by)).unwrap();
        assert!(!left(), "{by}");
        planned.commit().unwrap();
        assert!(left(), "{by}");
    }
    assert_eq!(lab.engine.journal().len(), 3);
}

#[test]
fn nothing_of_a_transaction_keeps_a_module_that_is_gone() {
    let (lab, text, sites) = one(&[identity(1), identity(2)]);
    let mut change = lab.engine.transaction();
    change.patch(1, &plus(5)).unwrap();
    change.patch_site(&sites[1], &plus(6)).unwrap().commit().unwrap();
    let planned = lab.engine.plan(1, &plus(7)).unwrap();
    lab.engine.patch(1, &plus(8)).unwrap();
    refused!(planned.commit(), SiteChanged);
    lab.engine
        .unregister(sites[0].module().clone(), &grace_period())
        .unwrap();
    drop(sites);
    assert_eq!(Arc::strong_count(&text.memory), 1);
}

#[test]
fn a_site_or_module_of_another_engine_is_refused_and_harms_nothing() {
    let (mine, _text, sites) = one(&[identity(1)]);
    let (other, _other_text, other_sites) = one(&[identity(1)]);
    // Both are the first module of their engine.
    assert_eq!(sites[0].key(), other_sites[0].key());
    mine.engine.patch(1, &plus(5)).unwrap();
    refused!(
        mine.engine.patch_site(&other_sites[0], &plus(6)),
        Site(SiteForeign)
    );
    refused!(mine.engine.restore_site(&other_sites[0]), Site(SiteForeign));
    refused!(
        mine.engine.invalidate(&other_sites[0].function()),
        Site(SiteForeign)
    );
    let foreign = other_sites[0].module().clone();
    assert_eq!(
        mine.engine.unregister(foreign, &grace_period()),
        Err(Error::ModuleForeign)
    );
    assert_eq!((call(&sites[0], 1), mine.engine.sites(1).unwrap().len()), (6, 1));
    assert_eq!(mine.engine.status(&other_sites[0]), Status::Original);
    mine.engine.restore(1).unwrap();
    // Also where nothing would have to be written, by the state of the other site of that key.
    refused!(mine.engine.restore_site(&other_sites[0]), Site(SiteForeign));
    other.engine.patch(1, &plus(7)).unwrap();
}

/// What a change was made with is room for the next one, and holds memory until then.
#[test]
fn the_memory_of_an_unregistered_module_is_let_go() {
    let (lab, functions) = (Lab::new(), [identity(1)]);
    let text = Text::new(&functions);
    let memory = text.placed.memory();
    let before = memory.holders();
    let own: Arc<dyn CodeMemory> = Arc::new(memory.clone());
    let code = lab.engine.adopt_with(text.adopted(&functions), &own).unwrap();
    drop(own);
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { lab.engine.register(code, |_| functions[0].shape) }.unwrap();
    (1..4).for_each(|by| _ = lab.engine.patch(1, &plus(by)).unwrap());
    // What a commit of this leaves, nobody has filed yet.
    lab.engine.plan(1, &plus(9)).unwrap().commit().unwrap();
    assert!(memory.holders() > before);
    lab.engine.unregister(module, &grace_period()).unwrap();
    assert_eq!(memory.holders(), before);
}

/// A world of one thread, which is never told to stop anybody.
#[derive(Debug)]
struct Alone(SingleThreaded);

// SAFETY: the work is never called, and an error is returned; what is answered is the answer of a world of one thread.
unsafe impl World for Alone {
    fn while_stopped(
        &self,
        _vacated: &[crate::publish::Vacated],
        _work: &mut dyn FnMut(&Stopped),
    ) -> crate::publish::Result<()> {
        Err(crate::publish::Error::WorldNotStopped {
            why: "there is nobody to stop",
        })
    }

    fn already_stopped(&self) -> Option<&Stopped> {
        self.0.already_stopped()
    }

    fn resumption(&self) -> Resumption {
        self.0.resumption()
    }
}

/// What was installed in its sites is room for what is installed in others.
#[test]
fn sites_that_are_gone_leave_room_for_others() {
    let (lab, _text, sites) = one(&[identity(1), identity(2)]);
    lab.engine.patch(1, &plus(2)).unwrap();
    lab.engine.patch(2, &plus(2)).unwrap();
    let module = sites[0].module().clone();
    let count = || {
        lab.engine
            .shared
            .with_states(|states| Ok(states.installed_room.len()))
            .unwrap()
    };
    let before = count();
    drop(sites);
    lab.engine.unregister(module, &grace_period()).unwrap();
    assert_eq!(count(), before + 2);
}

#[test]
fn a_world_without_other_threads_stops_nobody() {
    // SAFETY: the test calls its code on this thread alone, which is the one that patches.
    let world = Alone(unsafe { SingleThreaded::promise() });
    let engine = Engine::builder().world(world).build().unwrap();
    let lab = Lab { engine, ..Lab::new() };
    let functions = [identity(1)];
    let text = Text::new(&functions);
    let site = lab.register(&text, &functions).sites().next().unwrap();
    lab.engine.patch(1, &plus(3)).unwrap();
    assert_eq!(call(&site, 10), 13);
    lab.engine.plan(1, &plus(4)).unwrap().commit().unwrap();
    assert_eq!(call(&site, 10), 14);
}

#[test]
fn changes_go_to_the_memory_of_their_site_by_turns() {
    let lab = Lab::new();
    let texts = [1, 2].map(|id| Text::new(&[identity(id)]));
    let sites = [0, 1].map(|at| {
        let module = lab.register(&texts[at], &[identity(at as u64 + 1)]);
        module.sites().next().unwrap()
    });
    for by in 3..9 {
        let of = usize::from(by % 2 == 0);
        lab.engine.patch_site(&sites[of], &plus(by)).unwrap();
        assert_eq!(call(&sites[of], 10), 10 + by);
    }
}

#[test]
fn an_unregistered_module_is_found_no_more_and_its_stubs_are_freed() {
    let functions = [identity(1), identity(2)];
    let (lab, text, sites) = one(&functions);
    lab.engine.patch(1, &plus_in_stub(8)).unwrap();
    lab.engine.invalidate(&sites[1].function()).unwrap();
    assert_eq!(lab.engine.stub_stats().slots, 2);
    let planned = lab.engine.plan(1, &plus_in_stub(9)).unwrap();
    let module = sites[0].module().clone();
    lab.engine.unregister(module.clone(), &grace_period()).unwrap();
    refused!(planned.commit(), SiteChanged);
    assert_eq!(
        (lab.engine.stub_stats().slots, lab.engine.stub_stats().in_use),
        (0, 0)
    );
    refused!(lab.engine.patch(1, &plus(1)), NoSuchSite);
    refused!(lab.engine.patch_site(&sites[0], &plus(1)), Site(SiteForeign));
    assert!(lab.engine.site_at(sites[0].addr()).is_none() && lab.engine.modules().is_empty());
    assert_eq!(
        lab.engine.unregister(module, &grace_period()),
        Err(Error::ModuleForeign)
    );

    // Once the code is what it was, it can be registered again.
    for site in &sites {
        text.poke(site.addr(), &nops());
    }
    let again = lab.register(&text, &functions);
    assert_eq!(lab.engine.patch(1, &plus(2)).unwrap().sites, 1);
    assert_eq!(call(&again.sites().next().unwrap(), 1), 3);
}

/// A thread may have been stopped while it holds the allocator's lock.
#[test]
#[cfg(target_os = "linux")]
fn memory_that_allocates_is_refused_where_threads_are_stopped_anywhere() {
    use crate::memory::testing::process::in_child;
    // In a process of its own, as other tests hold threads.
    assert!(in_child(|| {
        let functions = [identity(1)];
        let text = Text::new(&functions);
        // SAFETY: the text is the test's, and nothing executes it.
        let toggle = unsafe { crate::memory::Toggle::register(text.range) }.unwrap();
        // SAFETY: as above.
        let world = unsafe { crate::publish::SignalWorld::new() }.unwrap();
        let engine = Engine::builder().world(world).build().unwrap();
        let memory: Arc<dyn CodeMemory> = Arc::new(toggle);
        let adopted = engine.adopt_with(text.adopted(&functions), &memory);
        let refused = |range: &CodeRange, strategy: &str| strategy == "Toggle" && text.range.overlaps(*range);
        let at_once =
            matches!(&adopted, Err(Error::MemoryAllocates { range, strategy }) if refused(range, strategy));
        // What another engine has adopted, whose world stops no thread in the allocator.
        let lab = Lab::new();
        let code = lab.engine.adopt_with(text.adopted(&functions), &memory).unwrap();
        // SAFETY: what is told is true of the object's code, or refused.
        let registered = unsafe { engine.register(code, |_| functions[0].shape) };
        let later = matches!(&registered, Err(Error::MemoryAllocates { range, strategy }) if refused(range, strategy));
        at_once && later && engine.modules().is_empty()
    }));
}

/// What was found out about bytes says nothing of functions that can be called again.
#[test]
#[cfg(target_os = "linux")]
fn a_module_goes_by_a_promise_only() {
    use crate::memory::testing::process::in_child;
    let (lab, _text, sites) = one(&[identity(1)]);
    let module = sites[0].module().clone();
    // In a process of its own, as other tests hold threads.
    assert!(in_child(|| {
        // SAFETY: the child has no thread that executes code of the engine's.
        let world = unsafe { crate::publish::SignalWorld::new() }.unwrap();
        let areas: Vec<CodeRange> = module.areas().iter().map(|area| area.range()).collect();
        let found = world.grace_period(&areas).unwrap();
        let refused = lab.engine.unregister(module.clone(), &found);
        matches!(
            refused,
            Err(Error::Memory(crate::memory::Error::NoGracePeriod { .. }))
        ) && lab.engine.modules().len() == 1
    }));
    lab.engine.unregister(module, &grace_period()).unwrap();
}

#[test]
fn what_was_prepared_for_a_module_is_not_done_to_its_successor() {
    let functions = [identity(1)];
    let (lab, text, sites) = one(&functions);
    let planned = lab.engine.plan(1, &plus(9)).unwrap();
    lab.engine
        .unregister(sites[0].module().clone(), &grace_period())
        .unwrap();
    // It gets the place that has become free, and is as the other was.
    lab.register(&text, &functions);
    let successor = lab.engine.plan(1, &plus(2)).unwrap();
    refused!(planned.commit(), SiteChanged);
    assert_eq!(bytes(&sites[0]), nops());
    assert_eq!(successor.commit().unwrap().sites, 1);
}

#[test]
fn sites_of_many_modules_are_written_in_any_order() {
    let lab = Lab::new();
    let functions = [identity(1), identity(2)];
    let texts: Vec<Text> = (0..4).map(|_| Text::new(&functions)).collect();
    let modules: Vec<Module> = texts.iter().map(|text| lab.register(text, &functions)).collect();
    let sites: Vec<Site> = modules.iter().flat_map(|module| module.sites()).collect();
    // Each memory comes up twice, with others in between, and its second site first.
    let mixed = [5, 1, 7, 3, 0, 4, 2, 6].map(|at: usize| &sites[at]);
    let mut change = lab.engine.transaction();
    for (by, site) in mixed.iter().enumerate() {
        change.patch_site(site, &plus(1 + by as u64)).unwrap();
    }
    assert_eq!(change.commit().unwrap().sites, 8);
    let begun = texts.iter().map(|text| text.memory.count(Call::Begin));
    assert!(begun.eq([1; 4]), "each memory is made writable once");
    for (by, site) in mixed.iter().enumerate() {
        assert_eq!(call(site, 10), 11 + by as u64);
    }
    let journal = lab.engine.journal();
    assert_eq!(journal.len(), 8);
    for entry in &journal {
        let site = sites.iter().find(|site| site.addr() == entry.addr).unwrap();
        assert_eq!((entry.generation, &*entry.after), (1, &*bytes(site)));
        assert_eq!(*entry.before, *nops());
    }
    // A byte of one keeps the others from being restored.
    texts[2].poke(sites[5].addr(), &[0xf4]);
    let mut restore = lab.engine.transaction();
    for site in mixed {
        restore.restore(site).unwrap();
    }
    match restore.commit() {
        Err(Error::BytesChanged { site, .. }) => assert_eq!(site.addr, sites[5].addr()),
        other => panic!("{other:?}"),
    }
    assert!(
        sites
            .iter()
            .all(|site| lab.engine.status(site) == Status::Patched)
    );
}

#[test]
fn code_is_registered_once_at_a_time() {
    let (lab, text, _sites) = one(&[identity(1), identity(2)]);
    let code = lab
        .engine
        .adopt_with(text.adopted(&[identity(1)]), &text.shared())
        .unwrap();
    refused!(
        // SAFETY: what is told is true of the object's code, or refused.
        unsafe { lab.engine.register(code, |_| identity(1).shape) },
        Site(CodeAlreadyRegistered)
    );
    assert_eq!(lab.engine.sites(1).unwrap().len(), 1);
}

#[test]
fn every_site_of_an_id_is_patched_in_every_module_or_none_is() {
    let lab = Lab::new();
    let functions = [identity(1), identity(1)];
    let texts = [Text::new(&functions), Text::new(&functions)];
    let modules = texts.iter().map(|text| lab.register(text, &functions));
    let sites: Vec<Site> = modules
        .flat_map(|module| module.sites().collect::<Vec<_>>())
        .collect();
    assert_eq!(lab.engine.patch(1, &plus(4)).unwrap().sites, 4);
    assert!(sites.iter().all(|site| call(site, 1) == 5));
    // A site of one cannot take it.
    let mut with_none = lab.engine.transaction();
    with_none.patch(1, &plus(6)).unwrap();
    texts[1].memory.fail_after(Call::Write, 1);
    assert!(with_none.commit().is_err());
    assert!(sites.iter().all(|site| call(site, 1) == 5));
}

#[test]
fn an_id_is_patched_where_it_is_valid_and_the_rest_is_reported() {
    let lab = Lab::new();
    let functions = [identity(1), identity(1)];
    let texts = [Text::new(&functions), Text::new(&functions)];
    let modules = texts.each_ref().map(|text| lab.register(text, &functions));
    let sites: Vec<Site> = modules.iter().flat_map(Module::sites).collect();
    lab.engine.patch(1, &plus(9)).unwrap();
    lab.engine.invalidate(&sites[3].function()).unwrap();
    let plan = lab.engine.plan(1, &plus(4)).unwrap();
    let shown = plan.to_string();
    assert!(
        shown.contains(&format!("{}: invalidated, stays as it is", sites[3].name())),
        "{shown}"
    );
    assert_eq!(plan.invalidated(), &sites[3..]);
    let receipt = plan.commit().unwrap();
    assert_eq!((receipt.sites, receipt.invalidated), (3, 1));
    let values = |sites: &[Site]| sites.iter().map(|site| call(site, 1)).collect::<Vec<_>>();
    // The handler of the last resumes: what was there is what happens.
    assert_eq!(values(&sites), [5, 5, 5, 10]);
    // Of one module only.
    let receipt = modules[1].patch(1, &plus(7)).unwrap();
    assert_eq!((receipt.sites, receipt.invalidated), (1, 1));
    assert_eq!(values(&sites), [5, 5, 8, 10]);
    let receipt = lab.engine.restore(1).unwrap();
    assert_eq!((receipt.sites, receipt.invalidated), (3, 1));
    assert!(
        sites[..3]
            .iter()
            .all(|site| lab.engine.status(site) == Status::Original)
    );
    // Nothing is to be restored, which is no failure; nothing can be patched, which is one.
    assert_eq!(modules[1].restore(1).unwrap().sites, 0);
    lab.engine.invalidate(&sites[2].function()).unwrap();
    refused!(modules[1].patch(1, &plus(7)), SiteInvalidated);
    refused!(modules[1].restore(1), SiteInvalidated);
    assert_eq!(modules[0].patch(1, &plus(7)).unwrap().sites, 2);
    // Who names a site means that one.
    refused!(sites[3].patch(&plus(7)), SiteInvalidated);
    assert_eq!(sites[0].restore().unwrap().sites, 1);
    refused!(modules[0].patch(2, &plus(7)), NoSuchSite);
}

#[test]
fn what_a_transaction_refuses_loses_nothing_of_it() {
    let (lab, text, sites) = one(&[identity(1), identity(2), identity(2)]);
    let mut change = lab.engine.transaction();
    change.patch_site(&sites[0], &plus(3)).unwrap();
    change.patch_site(&sites[2], &plus(3)).unwrap();
    // The first of the two sites with that ID would be new.
    refused!(change.patch(2, &plus(4)), SiteTwice);
    change.patch_site(&sites[1], &plus(5)).unwrap();
    // One that cannot be committed can be, once what keeps it from that is gone.
    text.memory.fail_after(Call::Write, 1);
    assert!(change.commit().is_err());
    assert_eq!(change.commit().unwrap().sites, 3);
    let values = |sites: &[Site]| sites.iter().map(|site| call(site, 1)).collect::<Vec<_>>();
    assert_eq!(values(&sites), [4, 6, 4]);
    // It is as new.
    assert_eq!(change.commit().unwrap().sites, 0);
    change.restore(&sites[0]).unwrap();
    assert_eq!(change.commit().unwrap().sites, 1);
}

#[test]
fn an_invalidation_that_finds_nothing_is_refused() {
    let (lab, _text, sites) = one(&[identity(1)]);
    let function = sites[0].function();
    assert_eq!(lab.engine.invalidate(&function).unwrap().sites, 1);
    assert_eq!(
        lab.engine.invalidate(&function).unwrap().sites,
        0,
        "it is already"
    );
    // A record that is no site, as nobody gives it a shape.
    let bare = Text::new(&[identity(1)]);
    let code = lab
        .engine
        .adopt_with(bare.adopted(&[identity(1)]), &bare.shared())
        .unwrap();
    // SAFETY: what is told is true of the code, or refused.
    let module = unsafe { lab.engine.register(code, |_| None::<CallShape>) }.unwrap();
    let bare = module.function("f0").unwrap();
    refused!(lab.engine.invalidate(&bare), NothingToInvalidate);
    refused!(
        Assumptions::new()
            .depend(&bare, ["it holds"])
            .map_err(Error::from),
        NothingToInvalidate
    );
    let mut both = lab.engine.transaction();
    refused!(both.invalidate(&bare), NothingToInvalidate);
}

#[test]
fn modules_know_their_engine_as_long_as_it_is() {
    let lab = Lab::new();
    let functions = [identity(1)];
    let text = Text::new(&functions);
    let module = lab.register(&text, &functions);
    let engine = module.engine().unwrap();
    assert!(lab.engine.downgrade().names(&engine));
    drop((engine, lab));
    refused!(module.engine(), EngineGone);
    refused!(module.patch(1, &plus(1)), EngineGone);
}

#[test]
fn modules_that_share_a_page_are_rolled_back_together() {
    // Two memories over one page, each of which takes the page's permission to write away when it
    // ends.
    let functions = [identity(1)];
    let page = toggled_page(&[identity(1), identity(2)]);
    let lab = Lab::new();
    let mut sites = Vec::new();
    for (index, memory) in page.iter().enumerate() {
        let at = memory.range.start();
        let maps = map()
            .function(at.get(), 8, [identity(index as u64).record])
            .bytes();
        let adoption = Adoption::new(ARCH, ARCH.endian(), maps).not_yet_run();
        let adoption = adoption
            .function("f", at, Len::of(&identity(0).bytes).unwrap())
            .called_at(CodeAddr::new(pointer(at) as u64));
        // SAFETY: the page is mapped for good, and the test's alone.
        let code = unsafe { adoption.promise() }.unwrap();
        let code = lab.engine.adopt_with(code, &memory.shared()).unwrap();
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe { lab.engine.register(code, |_| functions[0].shape) }.unwrap();
        sites.extend(module.sites());
    }
    let both = || {
        let mut both = lab.engine.transaction();
        for site in &sites {
            both.patch_site(site, &plus(3)).unwrap();
        }
        both
    };
    for failing in &page {
        failing.memory.fail_after(crate::memory::testing::Call::Write, 0);
        refused!(both().commit(), Memory(SystemCall));
        assert!(sites.iter().all(|site| bytes(site) == nops()));
    }
    both().commit().unwrap();
    assert!(sites.iter().all(|site| call(site, 1) == 4));
}

/// A function in a page, of which others are neighbours.
struct Neighbour {
    memory: Arc<FailingMemory<crate::memory::Toggle>>,
    range: CodeRange,
}

impl Neighbour {
    fn shared(&self) -> Arc<dyn CodeMemory> {
        Arc::clone(&self.memory) as Arc<dyn CodeMemory>
    }
}

/// A page that stays mapped, read-execute.
fn toggled_page(functions: &[Written]) -> Vec<Neighbour> {
    let (len, anonymous) = (4096, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping where the kernel likes.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_WRITE, anonymous, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    for (index, function) in functions.iter().enumerate() {
        // SAFETY: within the page.
        let at = unsafe { page.cast::<u8>().add(index * STRIDE) };
        // SAFETY: as above, and nobody else knows the page.
        unsafe { std::ptr::copy_nonoverlapping(function.bytes.as_ptr(), at, function.bytes.len()) };
    }
    // SAFETY: our page.
    let protected = unsafe { libc::mprotect(page, len, libc::PROT_READ | libc::PROT_EXEC) };
    assert_eq!(protected, 0);
    let start = page.expose_provenance() as u64;
    let neighbour = |index: usize| {
        let at = CodeAddr::new(start + (index * STRIDE) as u64);
        let range = CodeRange::new(at, identity(0).bytes.len() as u64).unwrap();
        publish(range);
        // SAFETY: the page stays as it is.
        let toggle = unsafe { crate::memory::Toggle::register(range) }.unwrap();
        let memory = Arc::new(FailingMemory::new(toggle));
        Neighbour { memory, range }
    };
    (0..functions.len()).map(neighbour).collect()
}

/// Exits that make nothing and count what they are to forget.
struct Forgetful(Arc<AtomicU64>);

// SAFETY: it makes no code.
unsafe impl Exits for Forgetful {
    fn handles(&self, _: Role) -> bool {
        false
    }

    fn bound(&self, _: &Site, _: Role, _: &super::super::ExitResumption<'_>) -> Result<Len> {
        Ok(Len::new(1))
    }

    fn encode(&self, request: &ExitRequest<'_>) -> Result<ExitCode> {
        Err(Error::Site(crate::site::Error::SiteForeign {
            site: request.site.name(),
        }))
    }

    fn check_leavable(&self, site: &Site) -> Result<()> {
        Err(Error::Site(crate::site::Error::SiteForeign { site: site.name() }))
    }

    fn forget(&self, _: ModuleId) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn whoever_makes_exit_stubs_learns_that_a_module_is_gone() {
    let (mut lab, forgotten) = (Lab::new(), Arc::new(AtomicU64::new(0)));
    let builder = Engine::builder().world(Shared(Arc::clone(&lab.world)));
    lab.engine = builder.exits(Forgetful(Arc::clone(&forgotten))).build().unwrap();
    let text = Text::new(&[identity(1)]);
    let module = lab.register(&text, &[identity(1)]);
    refused!(lab.engine.invalidate(&module.function("f0").unwrap()), NoHandler);
    lab.engine.unregister(module, &grace_period()).unwrap();
    assert_eq!(forgotten.load(Ordering::Relaxed), 1);
}
