//! Forks: what a child executes of the code that it has inherited, and that it changes none of it.

use std::sync::Mutex as StdMutex;
use std::sync::mpsc;

use super::*;
use crate::memory::testing::process::{End, end_of_child, in_child};
use crate::sequence::Target;

/// Two descriptors: what is written to the second is read from the first.
fn pipe() -> [libc::c_int; 2] {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    ends
}

fn wait_for_a_byte(from: libc::c_int) {
    let mut byte = 0_u8;
    // SAFETY: the place has room for the byte.
    let read = unsafe { libc::read(from, (&raw mut byte).cast(), 1) };
    assert_eq!(read, 1);
}

fn send_a_byte(to: libc::c_int) {
    // SAFETY: reads a byte that lives as long as the call.
    let sent = unsafe { libc::write(to, [1_u8].as_ptr().cast(), 1) };
    assert_eq!(sent, 1);
}

/// Forks, does `meanwhile` in the parent, and then `work` in the child.
fn child_after(meanwhile: impl FnOnce() + Send, work: impl FnOnce() -> bool) -> End {
    let (ready, done) = (pipe(), pipe());
    let end = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_for_a_byte(ready[0]);
            meanwhile();
            send_a_byte(done[1]);
        });
        end_of_child(|| {
            send_a_byte(ready[1]);
            wait_for_a_byte(done[0]);
            work()
        })
    });
    for descriptor in ready.into_iter().chain(done) {
        // SAFETY: opened by this function.
        unsafe { libc::close(descriptor) };
    }
    end
}

/// `result = 7` for 7, and otherwise to the handler of misses.
fn seven_or_miss() -> Sequence {
    Sequence::new()
        .guard_eq(arg(0), 7u64, Target::Miss)
        .mov(result(), arg(0))
}

/// The child has its own heap, so it must have its own code: what the parent's code refers to later is not there.
#[test]
fn a_child_never_executes_its_parents_later_patches() {
    let lab = Lab::new();
    let functions = [identity(1), identity(2), identity(3)];
    let text = Text::new(&functions);
    let _module = lab.register(&text, &functions);
    let [one, two, three] = [1_u64, 2, 3].map(|id| lab.engine.sites(id).unwrap()[0].clone());
    lab.engine.patch_site(&one, &plus(5)).unwrap();
    lab.engine.patch_site(&two, &plus_in_stub(10)).unwrap();
    let before = [call(&one, 1), call(&two, 1)];
    let patch = || {
        lab.engine.patch_site(&one, &plus(6)).unwrap();
        lab.engine.patch_site(&two, &seven_or_miss()).unwrap();
        lab.engine.patch_site(&three, &seven_or_miss()).unwrap();
        lab.engine.invalidate_site(&one).unwrap();
    };
    let end = child_after(patch, || {
        // The child's own heap goes its own way.
        let noise: Vec<Vec<u8>> = (0..4096).map(|n| vec![0x5a; 16 + n % 256]).collect();
        let found = [call(&one, 1), call(&two, 1)];
        found == before && bytes(&three) == nops() && noise.len() == 4096
    });
    assert_eq!(end, End::Returned(true));
    // And the parent does.
    let deopts = lab.deopts.load(Ordering::Relaxed);
    let _ = call(&one, 1);
    assert_eq!(lab.deopts.load(Ordering::Relaxed), deopts + 1);
    assert_eq!(call(&two, 7), 7);
}

/// Handlers of misses and of deoptimization run in the child, on its own heap.
#[test]
fn a_childs_handlers_are_its_own() {
    let lab = Lab::new();
    let functions = [identity(1), identity(2)];
    let text = Text::new(&functions);
    let _module = lab.register(&text, &functions);
    let [one, two] = [1_u64, 2].map(|id| lab.engine.sites(id).unwrap()[0].clone());
    lab.engine.patch_site(&one, &plus(5)).unwrap();
    lab.engine.invalidate_site(&one).unwrap();
    lab.engine.patch_site(&two, &seven_or_miss()).unwrap();
    let before = lab.deopts.load(Ordering::Relaxed);
    // The parent forgets what the child's code refers to.
    let forget = || {
        let restored = lab.engine.restore_site(&two);
        // SAFETY: no thread of this process is in a stub.
        let drained = unsafe { Drained::promise() };
        restored.and_then(|_| lab.engine.reclaim(&drained)).unwrap();
    };
    let end = child_after(forget, || {
        let first = call(&one, 1);
        let deopts = lab.deopts.load(Ordering::Relaxed) - before;
        (first, deopts, call(&two, 7)) == (6, 1, 7) && in_child(|| call(&one, 1) == 6)
    });
    assert_eq!(end, End::Returned(true));
    assert_eq!(lab.deopts.load(Ordering::Relaxed), before);
}

/// An engine whose lock is held by a thread of the parent's, in an observer, when the child is forked.
#[test]
fn a_child_is_refused_at_once_where_its_parent_held_the_lock() {
    let (held, is_held) = mpsc::channel();
    let (let_go, gone) = mpsc::channel::<()>();
    let (held, gone) = (StdMutex::new(held), StdMutex::new(gone));
    let slow = Arc::new(AtomicBool::new(false));
    let is_slow = Arc::clone(&slow);
    let engine = Engine::builder()
        .world(Shared(Arc::new(Moody::default())))
        .observer(move |_: &Event<'_>| {
            if is_slow.load(Ordering::Relaxed) {
                held.lock().unwrap().send(()).unwrap();
                let _ = gone.lock().unwrap().recv();
            }
        })
        .build()
        .unwrap();
    let functions = [identity(1), identity(2)];
    let text = Text::new(&functions);
    let code = engine.adopt_with(text.adopted(&functions), &text.shared()).unwrap();
    let shapes = |id: RecordId| functions.iter().find(|f| f.record.id == id.get()).map(|f| f.shape);
    let module = engine.register(code, |record| shapes(record.id())).unwrap();
    let one = engine.sites(1).unwrap()[0].clone();
    let function = module.function("f0").unwrap();
    slow.store(true, Ordering::Relaxed);
    let ends = std::thread::scope(|scope| {
        scope.spawn(|| engine.patch_site(&one, &plus(5)).unwrap());
        is_held.recv().unwrap();
        let refused = |work: &dyn Fn() -> bool| {
            end_of_child(|| {
                // SAFETY: a child that hangs is ended.
                unsafe { libc::alarm(10) };
                work()
            })
        };
        let ends = [
            refused(&|| engine.patch_site(&one, &plus(6)).is_err()),
            refused(&|| engine.invalidate(&function).is_err()),
            refused(&|| engine.restore(1).is_err()),
        ];
        drop(let_go);
        ends
    });
    assert_eq!(ends, [End::Returned(true); 3]);
}
