//! Engines whose code is executed in a mirror: here one that executes nothing, and tells what it
//! was asked.

use std::cell::Cell;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use super::*;
use crate::deopt::{ForwardExit, forward_exits};
use crate::error::ProviderError;
use crate::image::Adoption;
use crate::memory::testing::objects as compiled;
use crate::memory::{MemoryFile, Mirror, StrategyChoice};
use crate::publish::{NeverStopped, Publication, Vacated};
use crate::sequence::{Field, Sequence, Target};
use crate::stackmap::Endian;

#[derive(Debug, Default)]
struct Glass {
    /// What is mapped, with its file.
    mapped: Mutex<Vec<(CodeRange, File)>>,
    read_only: Mutex<Vec<CodeRange>>,
    published: Mutex<Vec<CodeRange>>,
    /// Whether something else is wherever it is asked for a place.
    is_full: AtomicBool,
    is_broken: AtomicBool,
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("the glass is broken")]
struct Broken;

impl Glass {
    fn check(&self) -> std::result::Result<(), ProviderError> {
        match self.is_broken.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(ProviderError::new(Broken)),
        }
    }

    fn map(&self, at: CodeRange, file: MemoryFile) -> crate::memory::Result<bool> {
        self.check()?;
        if self.is_full.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let mut mapped = self.mapped.lock();
        assert!(mapped.iter().all(|(other, _)| !other.overlaps(at)));
        mapped.push((at, File::from(OwnedFd::from(file))));
        Ok(true)
    }

    /// What whoever executes the code would find there.
    fn holds(&self, range: CodeRange) -> Vec<u8> {
        let mapped = self.mapped.lock();
        let whole = |(at, _): &&(CodeRange, File)| at.contains_bytes(range.start(), range.len());
        let (at, file) = mapped.iter().find(whole).unwrap();
        let mut bytes = vec![0; range.len() as usize];
        let offset = range.start().get() - at.start().get();
        file.read_exact_at(&mut bytes, offset).unwrap();
        bytes
    }

    fn has_published(&self, range: CodeRange) -> bool {
        let published = std::mem::take(&mut *self.published.lock());
        published.iter().any(|one| one.overlaps(range))
    }
}

// SAFETY: nothing is executed.
unsafe impl Mirror for Glass {
    fn map_code(&self, at: CodeRange, file: MemoryFile) -> crate::memory::Result<bool> {
        self.map(at, file)
    }

    fn map_data(&self, at: CodeRange, file: MemoryFile) -> crate::memory::Result<bool> {
        self.map(at, file)
    }

    fn set_writable(&self, pages: CodeRange, writable: bool) -> crate::memory::Result<()> {
        self.check()?;
        let mut read_only = self.read_only.lock();
        read_only.retain(|range| !range.overlaps(pages));
        read_only.extend((!writable).then_some(pages));
        Ok(())
    }

    fn unmap(&self, range: CodeRange) {
        let mut mapped = self.mapped.lock();
        mapped.retain(|(at, _)| !range.contains_bytes(at.start(), at.len()));
    }
}

// SAFETY: as above.
unsafe impl Publication for Glass {
    fn check(&self, _: Level) -> crate::publish::Result<()> {
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    fn trap(&self, _: CodeAddr) -> Option<CodeAddr> {
        None
    }

    fn set_trap(&self, _: CodeAddr, _: Option<CodeAddr>) -> crate::publish::Result<()> {
        Ok(self.check()?)
    }

    fn maintain(&self, ranges: &[CodeRange]) -> crate::publish::Result<()> {
        self.publish(ranges, Level::Eventual)
    }

    fn publish(&self, ranges: &[CodeRange], _: Level) -> crate::publish::Result<()> {
        self.published.lock().extend(ranges);
        Ok(self.check()?)
    }
}

/// A world of this process's threads.
#[derive(Debug)]
struct Anywhere;

// SAFETY: it never calls the work.
unsafe impl World for Anywhere {
    fn while_stopped(&self, _: &[Vacated], _: &mut dyn FnMut(&Stopped)) -> crate::publish::Result<()> {
        Err(crate::publish::Error::WorldNotStopped {
            why: "it stops nobody",
        })
    }

    fn stops_anywhere(&self) -> bool {
        true
    }
}

fn mirroring(glass: &Arc<Glass>) -> Mirroring {
    let arena = Arena::mirrored(Arc::clone(glass) as Arc<dyn Mirror>, 1 << 20);
    Mirroring::new(arena, Arc::clone(glass) as Arc<dyn Publication>, NeverStopped)
}

fn builder(mirroring: Mirroring) -> EngineBuilder {
    // SAFETY: nothing is executed, in no place.
    unsafe { Engine::builder().mirrored(mirroring) }
}

/// An engine with a module of one patchpoint that is patched here.
fn loaded(glass: &Arc<Glass>) -> (Engine, Module, Site) {
    // SAFETY: nothing is executed.
    let world = unsafe { SingleThreaded::promise() };
    let exit_stubs = ExitStubs::new()
        .on_miss(|frame| frame.resume())
        .on_deopt(|frame| frame.resume());
    let mirroring = mirroring(glass).capture(CodeAddr::new(0x7000));
    let engine = builder(mirroring).world(world).exits(exit_stubs).build().unwrap();
    let code = engine.load(compiled::INLINE_CACHE, |_| None).unwrap();
    let shape = |id: u64| (id == 78).then(|| CallShape::any_reg(32).result().args(1));
    // SAFETY: what is told is true of the object's code.
    let module = unsafe { engine.register(code, |record| shape(record.id().get())) }.unwrap();
    let site = module.sites().next().unwrap();
    (engine, module, site)
}

fn hit(offset: i32) -> Sequence {
    Sequence::new()
        .guard_eq(u32::at(arg(0), 8), 0x17, Target::Miss)
        .load(result(), u64::at(arg(0), offset))
}

#[test]
fn what_is_written_here_is_executed_and_published_there() {
    let glass = Arc::new(Glass::default());
    let (engine, module, site) = loaded(&glass);
    glass.published.lock().clear();
    for offset in [16, 24] {
        let before = glass.holds(site.range());
        engine.patch_site(&site, &hit(offset)).unwrap();
        let after = glass.holds(site.range());
        assert_ne!(before, after);
        assert_eq!(after, site.read().unwrap());
        assert!(glass.has_published(site.range()));
    }
    engine.restore_site(&site).unwrap();
    assert!(glass.has_published(site.range()));
    // SAFETY: nothing is executed.
    engine
        .unregister(module, &unsafe { GracePeriod::promise() })
        .unwrap();
    drop((engine, site));
    assert!(glass.mapped.lock().is_empty(), "it was told what was freed");
}

/// What a site jumps to is published with it: exit stubs, and the stub of a sequence that has none.
#[test]
fn stubs_are_published_with_their_sites() {
    let glass = Arc::new(Glass::default());
    let (engine, _module, site) = loaded(&glass);
    let has_published = || {
        let mut states = engine.shared.states.lock();
        let state = states.of(&site).unwrap();
        assert!(state.code().next().is_some());
        state.code().all(|range| glass.has_published(range))
    };
    // Too long for the site.
    let long = (0..40).fold(Sequence::new().mov(result(), arg(0)), |long, _| {
        long.add(result(), 1u64)
    });
    glass.published.lock().clear();
    engine.patch_site(&site, &long).unwrap();
    assert!(has_published());
    glass.published.lock().clear();
    engine.patch_site(&site, &hit(16)).unwrap();
    assert!(has_published());
}

/// All or nothing holds for who publishes, too; its error is handed on as it is.
#[test]
fn what_cannot_be_published_is_rolled_back() {
    let glass = Arc::new(Glass::default());
    let (engine, _module, site) = loaded(&glass);
    engine.patch_site(&site, &hit(16)).unwrap();
    let before = site.read().unwrap();
    let mut change = engine.transaction();
    change.immediate().patch_site(&site, &hit(24)).unwrap();
    let prepared = change.prepare().unwrap();
    glass.is_broken.store(true, Ordering::Relaxed);
    let Err(Error::Provider(why)) = prepared.commit() else {
        panic!("it was published");
    };
    assert_eq!(why.get(), Some(&Broken));
    assert_eq!(why.to_string(), "the glass is broken");
    assert_eq!(site.read().unwrap(), before);
    assert_eq!(glass.holds(site.range()), before);
    glass.is_broken.store(false, Ordering::Relaxed);
    engine.patch_site(&site, &hit(24)).unwrap();
    assert_ne!(site.read().unwrap(), before);
}

#[test]
fn a_place_that_is_taken_there_is_not_used() {
    let glass = Arc::new(Glass::default());
    let arena = Arena::mirrored(Arc::clone(&glass) as Arc<dyn Mirror>, 1 << 20);
    let need = |kind| SegmentNeed {
        kind,
        len: 64,
        align: 16,
    };
    let place = |kind| arena.place(&[need(kind)], Reach::Anywhere);
    glass.is_full.store(true, Ordering::Relaxed);
    let refused = place(SegmentKind::Code).map(drop);
    assert!(
        matches!(refused, Err(crate::memory::Error::NoAddressSpace { .. })),
        "{refused:?}"
    );
    glass.is_full.store(false, Ordering::Relaxed);
    let read_only = place(SegmentKind::ReadOnly).unwrap().finalize().unwrap();
    let at = read_only.segments()[0].range;
    assert!(glass.read_only.lock().iter().any(|range| range.overlaps(at)));
    drop(read_only);
    assert!(glass.read_only.lock().is_empty(), "it can be written again");
}

#[test]
fn what_knows_only_this_process_is_refused() {
    let glass = Arc::new(Glass::default());
    let not_mirrored = |what: Result<()>| {
        assert!(
            matches!(what, Err(Error::Memory(crate::memory::Error::NotMirrored { .. }))),
            "{what:?}"
        )
    };
    not_mirrored(builder(mirroring(&glass)).world(Anywhere).build().map(drop));
    // Exits, where no routine is known that they could call.
    let exit_stubs = || ExitStubs::new().on_deopt(|frame| frame.resume());
    not_mirrored(builder(mirroring(&glass)).exits(exit_stubs()).build().map(drop));
    let (engine, ..) = loaded(&glass);
    let endian = if cfg!(target_endian = "big") {
        Endian::Big
    } else {
        Endian::Little
    };
    // SAFETY: it is code of no bytes.
    let adopted = unsafe { Adoption::new(ARCH, endian, Vec::new()).promise() }.unwrap();
    not_mirrored(engine.adopt(adopted, StrategyChoice::Auto).map(drop));
}

/// Who asks for the threads there is told which engines there are, and a word that no exit handed
/// over is nobody's.
#[test]
fn an_exit_of_nobody_is_not_handled() {
    let glass = Arc::new(Glass::default());
    let told = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&told);
    let mirroring = mirroring(&glass)
        .capture(CodeAddr::new(0x7000))
        .on_built(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
    let exit_stubs = ExitStubs::new().on_deopt(|frame| frame.resume());
    let engine = builder(mirroring).exits(exit_stubs).build().unwrap();
    assert_eq!(told.load(Ordering::Relaxed), 1);
    let stack = vec![0_u64; 1024];
    let range = CodeRange::new(CodeAddr::new(stack.as_ptr() as u64), 8192).unwrap();
    // SAFETY: nobody writes to the vector.
    let frame = unsafe { SavedFrame::new([range.start().get(); 3], range) };
    assert_eq!(engine.handle_exit(&frame), Ok(None));
}

/// Counts exits, and has each resume.
#[derive(Default)]
struct Counted(Cell<u64>);

// SAFETY: 0 resumes, which code at an exit can always do.
unsafe impl ForwardExit for Counted {
    fn forward(&self, [_, general, vectors]: [u64; 3]) -> u64 {
        let here = &raw const *self as u64;
        let is_near = |at: u64| at.abs_diff(here) < 64 << 10;
        assert!(is_near(general) && is_near(vectors), "saved on this stack");
        self.0.set(self.0.get() + 1);
        0
    }
}

/// Whom a thread was told to ask is asked, and no handler, as long as the work lasts: then whoever
/// was asked before.
#[test]
fn exits_are_forwarded_as_long_as_the_work_lasts() {
    let (lab, functions) = (Lab::new(), [identity(1)]);
    let text = Text::new(&functions);
    let module = lab.register(&text, &functions);
    let site = module.sites().next().unwrap();
    lab.engine.patch_site(&site, &plus(5)).unwrap();
    lab.engine.invalidate_site(&site).unwrap();
    let (outer, inner) = (Counted::default(), Counted::default());
    let counts = || (lab.deopts.load(Ordering::Relaxed), outer.0.get(), inner.0.get());
    assert_eq!(call(&site, 1), 6);
    assert_eq!(counts(), (1, 0, 0));
    forward_exits(&outer, || {
        assert_eq!(call(&site, 2), 7);
        assert_eq!(counts(), (1, 1, 0));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            forward_exits(&inner, || {
                assert_eq!(call(&site, 3), 8);
                std::panic::resume_unwind(Box::new(()));
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(counts(), (1, 1, 1));
        assert_eq!(call(&site, 4), 9);
        assert_eq!(counts(), (1, 2, 1));
        let others = std::thread::scope(|scope| scope.spawn(|| call(&site, 5)).join());
        assert_eq!(others.unwrap(), 10);
        assert_eq!(
            lab.deopts.load(Ordering::Relaxed),
            2,
            "another thread asks its handler"
        );
    });
    assert_eq!(call(&site, 6), 11);
    assert_eq!(counts(), (3, 2, 1));
}
