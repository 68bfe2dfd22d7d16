//! Executors that connect to a place instead of being started with a connection.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use patchpoint_remote::{Error, Listener, Options, Token};

use crate::common::{self, Handlers, hit, setup_in};

/// Much less than the calls take that are not waited for, and longer than a machine pauses.
const SOON: Duration = Duration::from_secs(200);

/// An executor that connects there and says that.
fn start(listener: &Listener, token: &Token) -> Child {
    let mut command: Command = common::command();
    command
        .env(common::PLACE, listener.path())
        .env(common::TOKEN, token.text())
        .stdin(Stdio::null());
    command.spawn().unwrap()
}

fn end_of(mut child: Child) -> Option<i32> {
    let until = Instant::now() + SOON;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

#[test]
fn who_knows_the_token_is_the_executor() {
    let listener = Options::new().listen().unwrap();
    let child = start(&listener, listener.token());
    let executor = listener.accept(SOON).unwrap();
    assert_eq!(executor.id(), None);
    let mut setup = setup_in(executor, Handlers::default(), true);
    let one = setup.objects.put(&[0, 0x17, 111, 1234]);
    setup.engine.patch(78, &hit(0x17, 24)).unwrap();
    assert_eq!(setup.get(one), Ok(1234));
    drop(setup);
    assert_eq!(end_of(child), Some(0), "it was told that this is all");
}

#[test]
fn who_does_not_know_it_is_turned_away_and_others_are_not() {
    let listener = Options::new().listen().unwrap();
    let mut other = listener.token().text();
    let last = if other.ends_with('0') { "1" } else { "0" };
    other.replace_range(63.., last);
    let mut wrong = start(&listener, &Token::from_text(&other).unwrap());
    let end = loop {
        let refused = listener.accept(Duration::from_secs(1)).map(drop);
        assert!(
            matches!(refused, Err(Error::ExecutorSilent { .. })),
            "{refused:?}"
        );
        if let Some(end) = wrong.try_wait().unwrap() {
            break end.code();
        }
    };
    assert_eq!(
        end,
        Some(5),
        "it found that who listens there is not its controller"
    );
    let right = start(&listener, listener.token());
    drop(listener.accept(SOON).unwrap());
    assert_eq!(end_of(right), Some(0));
}

/// Who is not a child cannot be killed: what waits for it is told all the same.
#[test]
fn who_is_abandoned_is_not_waited_for() {
    let options = Options::new().deadline(Duration::from_millis(300));
    let listener = options.listen().unwrap();
    let child = start(&listener, listener.token());
    let executor = listener.accept(SOON).unwrap();
    let nap = executor.symbol("nap").unwrap().unwrap();
    let mut thread = executor.thread(64 << 10).unwrap();
    let began = Instant::now();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| thread.call(nap, &[600_000]).unwrap_err());
        std::thread::sleep(Duration::from_millis(50));
        common::stop(child.id());
        let error = executor.symbol("nap").unwrap_err();
        assert!(matches!(error, Error::ExecutorSilent { .. }), "{error:?}");
        let error = waits.join().unwrap();
        assert!(matches!(error, Error::ExecutorGone { .. }), "{error:?}");
    });
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    // SAFETY: as above.
    unsafe { libc::kill(child.id() as i32, libc::SIGCONT) };
    assert_eq!(end_of(child), Some(3), "it finds its controller gone");
}
