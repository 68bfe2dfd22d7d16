//! Sites that PC sections mark: of objects of every architecture, linked and audited on this
//! machine; really changed where the machine can run them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::{Arch, SiteKind};
use patchpoint::image::Object;
use patchpoint::metadata::{IntegerSize, PcSectionShape};
use patchpoint::site::{self, Marks, Survey, survey_with};
use patchpoint::{CallShape, stackmap};

const OBJECTS: [(Arch, &[u8]); 7] = [
    (
        Arch::X86_64,
        include_bytes!("../objects/metadata/marked.x86_64.o"),
    ),
    (
        Arch::AArch64,
        include_bytes!("../objects/metadata/marked.aarch64.o"),
    ),
    (
        Arch::PowerPc64Le,
        include_bytes!("../objects/metadata/marked.powerpc64le.o"),
    ),
    (
        Arch::PowerPc64,
        include_bytes!("../objects/metadata/marked.powerpc64.o"),
    ),
    (
        Arch::PowerPc64ElfV2,
        include_bytes!("../objects/metadata/marked.powerpc64-elfv2.o"),
    ),
    (
        Arch::SystemZ,
        include_bytes!("../objects/metadata/marked.s390x.o"),
    ),
    (
        Arch::RiscV64,
        include_bytes!("../objects/metadata/marked.riscv64.o"),
    ),
];

/// The section, with an ID and a reserved length in each entry, of so many instructions.
fn marks(arch: Arch, section: &str, sharing: u16) -> Marks {
    let shape = PcSectionShape::instructions().sharing(sharing);
    let shape = match arch {
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => shape.wide(),
        _ => shape,
    };
    Marks::new(
        section,
        shape.constant(IntegerSize::Eight).constant(IntegerSize::Two),
        0,
    )
    .reserved(1)
}

fn survey(object: &[u8], marks: Marks) -> Survey {
    let layout = Object::parse(object).unwrap().layout().unwrap();
    let (addrs, _) = layout
        .contiguous(CodeAddr::new(0x1000_0000), Len::new(1 << 16))
        .unwrap();
    let linked = layout
        .link(&addrs, &|_| Some(CodeAddr::new(0x1010_0000)))
        .unwrap();
    survey_with(linked.image, linked.segments, &[marks], |_| CallShape::shadow(0)).unwrap()
}

/// The ID, function, offset and length of every site.
fn sites(survey: &Survey) -> Vec<(u64, String, u32, u32)> {
    let site = |site: patchpoint::site::Site| {
        assert_eq!(site.shape().kind(), SiteKind::Marked);
        assert!(site.record().is_none() && !site.is_recorded());
        (
            site.id().get(),
            site.function().name().to_owned(),
            site.offset().get(),
            site.reserved().get(),
        )
    };
    survey.module.sites().map(site).collect()
}

#[test]
fn marked_instructions_are_sites_with_their_constants() {
    for (arch, object) in OBJECTS {
        // Offset and length as llvm-objdump has them: the instructions in which 5 bytes begin.
        let (store, load) = match arch {
            Arch::X86_64 => ((0, 7), (3, 7)),
            Arch::SystemZ => ((0, 6), (0, 6)),
            _ => ((0, 8), (0, 8)),
        };
        let survey = survey(object, marks(arch, "pp_sites", 1));
        assert_eq!(survey.refused, [], "{arch}");
        let expected = [
            (10, "store".to_owned(), store.0, store.1),
            (20, "load".to_owned(), load.0, load.1),
        ];
        assert_eq!(sites(&survey), expected, "{arch}");
        for site in survey.module.sites() {
            assert!(matches!(
                site.patchable_jump(),
                Err(site::Error::ShadowNotArmed { .. })
            ));
        }
    }
}

#[test]
fn an_atomic_operation_has_a_site_for_each_instruction() {
    for (arch, object) in OBJECTS {
        let offsets: &[(u32, u32)] = match arch {
            Arch::X86_64 => &[(2, 2)],
            Arch::AArch64 => &[(4, 4), (8, 4), (12, 4)],
            // The barriers.
            Arch::PowerPc64Le => &[(0, 4), (16, 4)],
            Arch::PowerPc64 | Arch::PowerPc64ElfV2 => &[(0, 4), (20, 4)],
            Arch::SystemZ => &[(4, 4), (8, 4), (12, 4)],
            // A call, which loses the mark.
            _ => continue,
        };
        let survey = survey(object, marks(arch, "pp_exchange", offsets.len() as u16));
        assert_eq!(survey.refused, [], "{arch}");
        let found: Vec<_> = sites(&survey)
            .into_iter()
            .map(|(.., at, len)| (at, len))
            .collect();
        assert_eq!(found, offsets, "{arch}");
    }
}

#[test]
fn what_cannot_be_a_site_is_refused() {
    for (arch, object) in OBJECTS {
        let refused = |marks: Marks| {
            let survey = survey(object, marks);
            assert_eq!(survey.module.sites().count(), 0, "{arch}");
            let refusal = survey.refused.into_iter().next().unwrap();
            (refusal.site, refusal.error)
        };
        let (site, error) = refused(marks(arch, "pp_into", 1));
        match error {
            site::Error::BranchIntoSite {
                site: named,
                from,
                to,
            } => {
                assert_eq!((site.as_ref(), named.id.get()), (Some(&named), 40));
                assert!(named.addr < to && to < from, "{arch}: {from} {to}");
            }
            other => panic!("{arch}: {other}"),
        }
        let (_, error) = refused(marks(arch, "pp_long", 1));
        assert!(
            matches!(&error, site::Error::SiteOutsideFunction { site, reserved, .. }
                if (site.id.get(), reserved.get()) == (50, 4096)),
            "{arch}: {error}"
        );
        let (site, error) = refused(marks(arch, "pp_nothing", 1));
        assert!(
            site.is_none() && matches!(error, site::Error::NoSuchPcSection { .. }),
            "{error}"
        );
        let (_, error) = refused(marks(arch, "pp_sites", 1).reserved(2));
        assert!(
            matches!(error, site::Error::MarkConstant { index: 2, .. }),
            "{arch}: {error}"
        );
        // The wrong shape, too.
        let (_, error) = refused(marks(arch, "pp_sites", 2));
        assert!(
            matches!(
                error,
                site::Error::Tables(stackmap::Error::TableTruncated { .. })
                    | site::Error::MarkOutsideFunctions { .. }
            ),
            "{arch}: {error}"
        );
    }
}

/// Sites that would overlap: the section is used twice.
#[test]
fn two_marks_cannot_have_the_same_bytes() {
    for (arch, object) in OBJECTS {
        let layout = Object::parse(object).unwrap().layout().unwrap();
        let base = CodeAddr::new(0x1000_0000);
        let (addrs, _) = layout.contiguous(base, Len::new(1 << 16)).unwrap();
        let linked = layout
            .link(&addrs, &|_| Some(CodeAddr::new(0x1010_0000)))
            .unwrap();
        let twice = [marks(arch, "pp_sites", 1), marks(arch, "pp_sites", 1)];
        let survey = survey_with(linked.image, linked.segments, &twice, |_| CallShape::shadow(0)).unwrap();
        assert_eq!(survey.module.sites().count(), 2);
        let overlap = |error: &site::Error| matches!(error, site::Error::SitesOverlap { .. });
        assert!(
            survey.refused.iter().all(|refusal| overlap(&refusal.error)),
            "{arch}"
        );
        assert_eq!(survey.refused.len(), 2);
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod running {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;
    use patchpoint::deopt::ExitStubs;
    use patchpoint::engine::Status;
    use patchpoint::publish::{NeverStopped, SingleThreaded, World};
    use patchpoint::sequence::{Field, Sequence, Target};
    use patchpoint::site::Module;
    use patchpoint::{Engine, Error};

    type Object = [u64; 129];
    type Store = extern "C" fn(&mut Object, u64);
    /// `store` stores here.
    const AT: usize = 128;

    const STORE: u64 = 10;
    const LOAD: u64 = 20;

    struct Fixture {
        engine: Engine,
        module: Module,
        entered: Arc<AtomicU64>,
    }

    impl Fixture {
        fn new(world: impl World + 'static, live: bool) -> Self {
            let entered = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&entered);
            let exit_stubs = ExitStubs::new()
                .on_miss(|frame| frame.resume())
                .on_deopt(move |frame| {
                    assert_eq!(frame.live_values().count(), 0);
                    count.fetch_add(1, Ordering::Relaxed);
                    frame.resume()
                });
            let engine = Engine::builder().world(world).exits(exit_stubs).build().unwrap();
            let other = |_: &str| Some(CodeAddr::new(0x1000));
            let code = engine.load(OBJECTS[0].1, other).unwrap();
            let registration = engine
                .registration(code)
                .marked(marks(Arch::X86_64, "pp_sites", 1));
            let registration = if live { registration.live() } else { registration };
            // SAFETY: what is told is true of the object's code, or refused.
            let module = unsafe { registration.register(|_| CallShape::shadow(0)) }.unwrap();
            Self {
                engine,
                module,
                entered,
            }
        }

        fn stopped() -> Self {
            // SAFETY: the tests that use it run the code on this thread only.
            Self::new(unsafe { SingleThreaded::promise() }, false)
        }

        fn store(&self) -> Store {
            self.module.release();
            let entry = self.module.function("store").unwrap().entry().unwrap();
            // SAFETY: the IR gives the function this signature; the module outlives its calls.
            unsafe { std::mem::transmute(entry.get() as usize) }
        }

        fn load(&self) -> extern "C" fn(&u64, u64) -> u64 {
            self.module.release();
            let entry = self.module.function("load").unwrap().entry().unwrap();
            // SAFETY: as above.
            unsafe { std::mem::transmute(entry.get() as usize) }
        }
    }

    fn stored(store: Store, value: u64) -> u64 {
        let mut object = [0; AT + 1];
        store(&mut object, value);
        assert!(object[..AT].iter().all(|word| *word == 0));
        object[AT]
    }

    /// mov qword ptr [rdi + 0x400], 0x55: longer than the site.
    const OTHER: [u8; 11] = [0x48, 0xc7, 0x87, 0, 4, 0, 0, 0x55, 0, 0, 0];
    /// mov dword ptr [rdi + 0x400], esi: shorter.
    const NARROW: [u8; 6] = [0x89, 0xb7, 0, 4, 0, 0];

    #[test]
    fn a_marked_store_is_replaced_and_restored() {
        let fixture = Fixture::stopped();
        let (engine, store) = (&fixture.engine, fixture.store());
        let original = engine.sites(STORE).unwrap()[0].read().unwrap();
        for round in 0..100 {
            let value = 0x1_0000_0000 | round;
            assert_eq!(stored(store, value), value);
            engine.patch(STORE, &Sequence::new().raw(&NARROW)).unwrap();
            assert_eq!(stored(store, value), round);
            engine.patch(STORE, &Sequence::new().raw(&OTHER)).unwrap();
            assert_eq!(stored(store, value), 0x55);
            // A jump to the stub, and nops.
            assert_eq!(engine.sites(STORE).unwrap()[0].read().unwrap()[0], 0xe9);
            engine.restore(STORE).unwrap();
            assert_eq!(engine.sites(STORE).unwrap()[0].read().unwrap(), original);
        }
        let (journal, last) = (engine.journal(), engine.sites(STORE).unwrap()[0].key());
        let last = journal.iter().rfind(|entry| entry.site == last).unwrap();
        assert_eq!((&last.after[..], last.became), (&original[..], Status::Original));
    }

    /// Instructions with operands of this sequence write what somebody may need: registers, flags.
    #[test]
    fn everything_is_live() {
        let fixture = Fixture::stopped();
        let refused = |sequence: Sequence| fixture.engine.patch(STORE, &sequence).unwrap_err();
        // mov r11d, 1
        let error = refused(Sequence::new().raw(&[0x41, 0xbb, 1, 0, 0, 0]));
        assert!(
            matches!(
                error,
                Error::Check(patchpoint::verify::Error::Clobber { register: "r11", .. })
            ),
            "{error}"
        );
        // add dword ptr [rdi], 1; cmp edi, 1
        for changes in [&[0x83, 0x07, 1][..], &[0x83, 0xff, 1]] {
            let error = refused(Sequence::new().raw(changes));
            assert!(
                matches!(error, Error::Check(patchpoint::verify::Error::Flags { .. })),
                "{error}"
            );
        }
        let error = refused(Sequence::new().count(CodeAddr::new(0x7fff_1234_5678)));
        assert!(error.site().is_some(), "{error}");
        let error = refused(Sequence::new().load(
            patchpoint::sequence::result(),
            u64::at(patchpoint::sequence::arg(0), 0),
        ));
        assert!(error.site().is_some(), "{error}");
        assert_eq!(stored(fixture.store(), 9), 9);
        // The runtime vouches for it: lock add qword ptr [rdi + 0x400], rsi
        let add = [0xf0, 0x48, 0x01, 0xb7, 0, 4, 0, 0];
        // SAFETY: that is what these instructions do.
        let sequence = unsafe { Sequence::new().vouched(&add, &[]) };
        fixture.engine.patch(STORE, &sequence).unwrap();
        let mut object = [1; AT + 1];
        fixture.store()(&mut object, 41);
        assert_eq!(object[AT], 42);
    }

    #[test]
    fn an_invalidated_mark_runs_its_instructions_in_the_exit_stub() {
        let fixture = Fixture::stopped();
        let engine = &fixture.engine;
        // It has no record to go by: a function is invalidated by those that have.
        let function = fixture.module.function("store").unwrap();
        let nothing = engine.invalidate(&function);
        assert!(
            matches!(nothing, Err(Error::NothingToInvalidate { .. })),
            "{nothing:?}"
        );
        // Nor is it an entry.
        // SAFETY: what is there can be entered as the function can, or is not called.
        let redirected = unsafe { engine.redirect(&function, CodeAddr::new(0x1000)) };
        assert!(matches!(redirected, Err(Error::NoEntrySite { .. })));
        for id in [STORE, LOAD] {
            let site = engine.sites(id).unwrap()[0].clone();
            engine.invalidate_site(&site).unwrap();
            assert_eq!(engine.status(&site), Status::Invalidated);
            assert!(matches!(engine.restore(id), Err(Error::SiteInvalidated { .. })));
        }
        assert_eq!(stored(fixture.store(), 77), 77);
        assert_eq!(fixture.load()(&1000, 1), 1001 << 4);
        assert_eq!(fixture.entered.load(Ordering::Relaxed), 2);
    }

    /// A way to the handler and back, of a sequence.
    #[test]
    fn a_sequence_may_leave_for_the_handler() {
        let fixture = Fixture::stopped();
        fixture
            .engine
            .patch(LOAD, &Sequence::new().jump(Target::Deopt))
            .unwrap();
        assert_eq!(fixture.load()(&1000, 1), 1001 << 4);
        assert_eq!(fixture.entered.load(Ordering::Relaxed), 1);
        fixture.engine.restore(LOAD).unwrap();
        assert_eq!(fixture.load()(&1000, 1), 1001 << 4);
        assert_eq!(fixture.entered.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_live_mark_is_invalidated_by_a_trap_under_execution() {
        let fixture = Fixture::new(NeverStopped, true);
        let (engine, store) = (&fixture.engine, fixture.store());
        let refused = engine.patch(STORE, &Sequence::new().raw(&NARROW)).unwrap_err();
        assert!(
            matches!(refused, Error::Site(site::Error::ShadowNotArmed { .. })),
            "{refused}"
        );
        let (done, calls) = (AtomicBool::new(false), AtomicU64::new(0));
        let wait = |more: u64| {
            let seen = calls.load(Ordering::Relaxed);
            while calls.load(Ordering::Relaxed) < seen + more {
                std::hint::spin_loop();
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut value = 0;
                    while !done.load(Ordering::Relaxed) {
                        value += 1;
                        assert_eq!(stored(store, value), value);
                        calls.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            wait(1000);
            assert_eq!(fixture.entered.load(Ordering::Relaxed), 0);
            engine.invalidate_site(&engine.sites(STORE).unwrap()[0]).unwrap();
            let before = fixture.entered.load(Ordering::Relaxed);
            wait(1000);
            assert!(fixture.entered.load(Ordering::Relaxed) >= before + 990);
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(engine.sites(STORE).unwrap()[0].read().unwrap()[0], 0xcc);
    }
}
