//! Executors that live and do not answer.

use std::process::Command;
use std::time::{Duration, Instant};

use patchpoint_remote::{Error, Options};

use crate::common::{self, Handlers, hit, setup_in};
use crate::{SOON, TURN};

/// A program that reads what it is told and says nothing.
#[test]
fn who_never_answers_is_abandoned() {
    let _turn = TURN.lock();
    let mut command = Command::new("sleep");
    command.arg("1000");
    let began = Instant::now();
    let error = Options::new()
        .deadline(Duration::from_millis(200))
        .spawn(command)
        .unwrap_err();
    let waited_ms = 200;
    assert!(
        matches!(error, Error::ExecutorSilent { waited_ms: found, .. } if found == waited_ms),
        "{error:?}"
    );
    assert!(began.elapsed() < SOON);
}

/// One that is stopped in the midst of it: an invalidation is rolled back, and everything after
/// fails as for one that is gone.
#[test]
fn who_is_stopped_is_abandoned() {
    let _turn = TURN.lock();
    for live in [false, true] {
        let options = Options::new().deadline(Duration::from_millis(300));
        let executor = options.spawn(common::command()).unwrap();
        let id = executor.id().unwrap();
        let handlers = Handlers {
            immediate: true,
            ..Handlers::default()
        };
        let mut setup = setup_in(executor, handlers, live);
        setup.engine.patch(78, &hit(0x17, 24)).unwrap();
        let site = setup.engine.sites(78).unwrap().into_iter().next().unwrap();
        let before = site.read().unwrap();
        common::stop(id);
        let error = Error::from(setup.engine.invalidate_site(&site).unwrap_err());
        assert!(matches!(error, Error::ExecutorSilent { .. }), "{error:?}");
        assert_eq!(site.read().unwrap(), before, "it was rolled back");
        let error = Error::from(setup.engine.patch(78, &hit(0x17, 16)).unwrap_err());
        assert!(matches!(error, Error::ExecutorGone { .. }), "{error:?}");
        let error = setup.get(0).unwrap_err();
        assert!(matches!(error, Error::ExecutorGone { .. }), "{error:?}");
    }
}

/// A call that takes longer than it may.
#[test]
fn a_call_has_the_deadline_that_it_was_given() {
    let _turn = TURN.lock();
    let executor = common::executor();
    let nap = executor.symbol("nap").unwrap().unwrap();
    let mut thread = executor.thread(64 << 10).unwrap();
    assert_eq!(thread.call(nap, &[20]), Ok(20));
    thread.set_deadline(Some(Duration::from_millis(100)));
    assert_eq!(thread.call(nap, &[1]), Ok(1));
    let began = Instant::now();
    let error = thread.call(nap, &[600_000]).unwrap_err();
    assert!(
        matches!(error, Error::ExecutorSilent { waited_ms: 100, .. }),
        "{error:?}"
    );
    drop((thread, executor));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

/// A thread that waits for a call without a deadline is told when the executor is abandoned for
/// another reason.
#[test]
fn who_waits_is_told_that_the_executor_was_abandoned() {
    let _turn = TURN.lock();
    let options = Options::new().deadline(Duration::from_millis(300));
    let executor = options.spawn(common::command()).unwrap();
    let nap = executor.symbol("nap").unwrap().unwrap();
    let mut thread = executor.thread(64 << 10).unwrap();
    let id = executor.id().unwrap();
    let began = Instant::now();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| thread.call(nap, &[600_000]).unwrap_err());
        std::thread::sleep(Duration::from_millis(50));
        common::stop(id);
        let error = executor.symbol("nap").unwrap_err();
        assert!(matches!(error, Error::ExecutorSilent { .. }), "{error:?}");
        let error = waits.join().unwrap();
        assert!(matches!(error, Error::ExecutorGone { .. }), "{error:?}");
    });
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}
