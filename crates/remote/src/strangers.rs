//! Who is at the other end: strangers at a listener's place, and impostors at one to which
//! executors connect.

#![allow(unsafe_code)]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use crate::descriptors::{is_closed, pipe, send_copies};
use crate::handshake::{Handshake, Nonces, Outcome, Side, introduce};
use crate::listen::{Listener, MOST};
use crate::protocol::Message;
use crate::system::listen::{self as system, connect};
use crate::system::socket::{Socket, Trouble, within};
use crate::{Error, Options, Result, Service, Token};

/// Longer than a machine pauses.
const SOON: Duration = Duration::from_secs(120);

fn token() -> Token {
    Token::from_text(&"5a".repeat(32)).unwrap()
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(0, &mut bytes);
    bytes
}

fn heard(socket: &Socket) -> core::result::Result<Message, Trouble> {
    let mut into = [0; 1024];
    let (len, file) = socket.receive(&mut into, within(SOON))?;
    assert!(file.is_none());
    Ok(Message::decode(&into[..len]).unwrap().1)
}

/// An executor of this process.
fn executor(path: &Path, token: &Token) -> thread::JoinHandle<Result<()>> {
    let (path, token) = (path.to_owned(), token.clone());
    // SAFETY: whoever proves that he knows the token is this test's other side.
    thread::spawn(move || unsafe { Service::new().connect(path, &token) })
}

// ---- proofs ----

#[test]
fn a_proof_is_good_for_one_side_of_one_connection_and_one_token() {
    let other = Token::from_text(&"5b".repeat(32)).unwrap();
    let (one, two) = ([1; 32], [2; 32]);
    let nonces = Nonces {
        controller: one,
        executor: two,
    };
    let swapped = Nonces {
        controller: two,
        executor: one,
    };
    let proof = nonces.prove(Side::Executor, &token());
    assert!(nonces.check(Side::Executor, &token(), &proof));
    assert!(!nonces.check(Side::Controller, &token(), &proof));
    assert!(!nonces.check(Side::Executor, &other, &proof));
    assert!(!swapped.check(Side::Executor, &token(), &proof));
    for controller in [[0; 32], two] {
        let later = Nonces { controller, ..nonces };
        assert!(!later.check(Side::Executor, &token(), &proof));
    }
    for executor in [[0; 32], one] {
        let later = Nonces { executor, ..nonces };
        assert!(!later.check(Side::Executor, &token(), &proof));
    }
    for bit in 0..256 {
        let mut nearly = proof;
        nearly[bit / 8] ^= 1 << (bit % 8);
        assert!(!nonces.check(Side::Executor, &token(), &nearly), "bit {bit}");
    }
}

/// Computed by `openssl dgst -sha256 -mac HMAC -macopt hexkey:5a5a...`, of label and nonces.
#[test]
fn the_proof_is_the_one_that_is_described() {
    let nonces = Nonces {
        controller: [0xc0; 32],
        executor: [0xe0; 32],
    };
    let is = |side, text| {
        let proof = Token::from_text(text).unwrap();
        assert_eq!(&nonces.prove(side, &token()), proof.bytes(), "{side:?}");
    };
    is(
        Side::Controller,
        "d3079ec86ce617de38040dff5a9e93ba5108206bacec774315ad71b79eada25e",
    );
    is(
        Side::Executor,
        "2cc365a46e04cb2872a6d1bf91581619365e6b79de74c7267e93c672a5221b09",
    );
}

// ---- at the listener's place ----

#[test]
fn the_place_is_this_users_alone_and_is_taken_away() {
    let listener = Options::new().listen_in(std::env::temp_dir()).unwrap();
    let folder = listener.path().parent().unwrap().to_owned();
    let found = fs::symlink_metadata(&folder).unwrap();
    // SAFETY: takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    assert_eq!((found.mode() & 0o777, found.uid()), (0o700, user));
    assert!(listener.path().exists());
    drop(listener);
    assert!(!folder.exists());
}

#[test]
fn a_path_that_is_too_long_is_refused() {
    let long = std::env::temp_dir().join("x".repeat(100));
    fs::create_dir_all(&long).unwrap();
    let refused = Options::new().listen_in(&long).map(drop);
    assert!(
        matches!(refused, Err(Error::ExecutorRefused { errno, .. }) if errno.0 == libc::ENAMETOOLONG),
        "{refused:?}"
    );
    assert_eq!(fs::read_dir(&long).unwrap().count(), 0);
    fs::remove_dir(long).unwrap();
}

/// More than are asked for proofs at once, and none of them says anything: the time that each has
/// is not waited for.
#[test]
fn who_says_nothing_delays_nobody() {
    let mut listener = Options::new().listen().unwrap();
    listener.to_prove = SOON * 100;
    let (path, token) = (listener.path().to_owned(), listener.token().clone());
    let strangers = thread::spawn(move || {
        let idle: Vec<_> = (0..3 * MOST).map(|_| connect(&path).unwrap()).collect();
        (idle, executor(&path, &token))
    });
    drop(listener.accept(SOON).unwrap());
    let (_idle, executor) = strangers.join().unwrap();
    assert_eq!(executor.join().unwrap(), Ok(()));
}

/// Those that say something, and nothing that follows from it, neither.
#[test]
fn who_stops_halfway_delays_nobody() {
    let mut listener = Options::new().listen().unwrap();
    listener.to_prove = SOON * 100;
    let (path, token) = (listener.path().to_owned(), listener.token().clone());
    let nonce = encoded(&Message::Nonce { nonce: [7; 32] });
    let strangers = thread::spawn(move || {
        let begun = (0..3 * MOST).map(|_| {
            let socket = connect(&path).unwrap();
            socket.send(&nonce, None, None).unwrap();
            // Asked for its proof, so that all of them are.
            assert!(matches!(heard(&socket), Ok(Message::Challenge { .. })));
            socket
        });
        let begun: Vec<_> = begun.collect();
        (begun, executor(&path, &token))
    });
    drop(listener.accept(SOON).unwrap());
    let (_begun, executor) = strangers.join().unwrap();
    assert_eq!(executor.join().unwrap(), Ok(()));
}

/// Who has connected while another one was waited for is not forgotten.
#[test]
fn each_of_several_executors_is_accepted() {
    let listener = Options::new().listen().unwrap();
    let executors = [(); 4].map(|()| executor(listener.path(), listener.token()));
    for _ in &executors {
        drop(listener.accept(SOON).unwrap());
    }
    for executor in executors {
        assert_eq!(executor.join().unwrap(), Ok(()));
    }
}

/// Whatever a stranger says, with however many descriptors: its connection is ended, and nothing of
/// it stays open.
#[test]
fn strangers_leave_no_descriptors_open() {
    let listener = Options::new().listen().unwrap();
    let (path, token) = (listener.path().to_owned(), listener.token().clone());
    let strangers = thread::spawn(move || {
        let (read, write) = pipe();
        let nonce = encoded(&Message::Nonce { nonce: [7; 32] });
        for number in 0..200 {
            let socket = connect(&path).unwrap();
            let bytes = if number % 2 == 0 { &nonce[..] } else { b"x" };
            assert!(send_copies(&socket, bytes, &write, 1 + number % 3));
            assert_eq!(heard(&socket), Err(Trouble::Gone), "{number}");
        }
        (read, write, executor(&path, &token))
    });
    let accepted = listener.accept(SOON).unwrap();
    let (read, write, executor) = strangers.join().unwrap();
    assert!(is_closed(read, write), "the controller has one still");
    drop(accepted);
    assert_eq!(executor.join().unwrap(), Ok(()));
}

/// What somebody has heard who does not know the token is of no use: not said back, and not on
/// another connection.
#[test]
fn proofs_are_neither_reflected_nor_replayed() {
    let token = token();
    let (ours, theirs) = Socket::pair().unwrap();
    let mut handshake = Handshake::with(ours).unwrap();
    let say = |message: &Message| theirs.send(&encoded(message), None, None).unwrap();
    say(&Message::Nonce { nonce: [7; 32] });
    assert_eq!(handshake.go_on(&token), Outcome::Waits);
    let Ok(Message::Challenge { nonce, proof }) = heard(&theirs) else {
        panic!("no challenge");
    };
    assert!(nonce != [0; 32] && nonce != [7; 32]);
    say(&Message::Proof { proof });
    assert_eq!(handshake.go_on(&token), Outcome::Failed, "its own proof");

    // A whole handshake, of which everything that the executor said is said again.
    let mut said = Vec::new();
    for replay in [false, true] {
        let (ours, theirs) = Socket::pair().unwrap();
        let mut handshake = Handshake::with(ours).unwrap();
        let say = |message: &Message| theirs.send(&encoded(message), None, None).unwrap();
        if !replay {
            say(&Message::Nonce { nonce: [9; 32] });
            assert_eq!(handshake.go_on(&token), Outcome::Waits);
            let Ok(Message::Challenge { nonce, .. }) = heard(&theirs) else {
                panic!("no challenge");
            };
            let nonces = Nonces {
                controller: nonce,
                executor: [9; 32],
            };
            let proof = nonces.prove(Side::Executor, &token);
            said = vec![Message::Nonce { nonce: [9; 32] }, Message::Proof { proof }];
            say(&said[1]);
            assert_eq!(handshake.go_on(&token), Outcome::Proved);
        } else {
            said.iter().for_each(say);
            assert_eq!(handshake.go_on(&token), Outcome::Failed);
        }
    }
}

// ---- where executors connect ----

/// What an executor does that meets this challenge; and nothing that it says tells of the token.
fn meets(challenge: impl FnOnce([u8; 32]) -> Message) -> Result<()> {
    let place = system::Listener::bind_in(&std::env::temp_dir()).unwrap();
    let executor = executor(place.path(), &token());
    crate::system::socket::wait_for_any([place.socket()].into_iter(), within(SOON)).unwrap();
    let socket = place.accept().unwrap().unwrap();
    let Ok(Message::Nonce { nonce }) = heard(&socket) else {
        panic!("it says something else than a nonce first");
    };
    assert_ne!(&nonce, token().bytes());
    socket.send(&encoded(&challenge(nonce)), None, None).unwrap();
    let answer = heard(&socket);
    drop(socket);
    let outcome = executor.join().unwrap();
    match outcome {
        Err(Error::ControllerUnproven { .. }) => assert_eq!(answer, Err(Trouble::Gone)),
        _ => assert!(matches!(answer, Ok(Message::Proof { .. })), "{answer:?}"),
    }
    outcome
}

#[test]
fn impostors_are_not_obeyed() {
    let is_refused = |outcome| {
        assert!(
            matches!(outcome, Err(Error::ControllerUnproven { .. })),
            "{outcome:?}"
        )
    };
    let nonce = [3; 32];
    is_refused(meets(|_| Message::Hello));
    is_refused(meets(|_| Message::Bye));
    is_refused(meets(|executor| Message::Challenge {
        nonce: executor,
        proof: executor,
    }));
    // Of another executor, which was made to prove itself to somebody.
    is_refused(meets(|executor| {
        let nonces = Nonces {
            controller: nonce,
            executor,
        };
        let proof = nonces.prove(Side::Executor, &token());
        Message::Challenge { nonce, proof }
    }));
    // Of another connection.
    is_refused(meets(|_| {
        let nonces = Nonces {
            controller: nonce,
            executor: [4; 32],
        };
        let proof = nonces.prove(Side::Controller, &token());
        Message::Challenge { nonce, proof }
    }));
    // Its controller, which then goes away.
    let outcome = meets(|executor| {
        let nonces = Nonces {
            controller: nonce,
            executor,
        };
        let proof = nonces.prove(Side::Controller, &token());
        Message::Challenge { nonce, proof }
    });
    assert_eq!(outcome, Err(Error::ControllerGone));
}

// ---- another user ----

const STRANGER: &str = "PATCHPOINT_TEST_STRANGER";
const PLACE: &str = "PATCHPOINT_TEST_PLACE";
/// Whom nothing belongs to.
const NOBODY: u32 = 65534;

/// How a stranger ends that was kept out, and one that was not.
const KEPT_OUT: i32 = 10;
const HEARD_SOMETHING: i32 = 11;

/// No test: the process of another user that the tests start, which is this program. It knows the
/// token.
#[test]
fn stranger_process() {
    let Ok(what) = std::env::var(STRANGER) else {
        return;
    };
    // SAFETY: takes numbers.
    assert_eq!(unsafe { (libc::setgid(NOBODY), libc::setuid(NOBODY)) }, (0, 0));
    let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
    let kept_out = match what.as_str() {
        "reach" => matches!(connect(&place), Err(errno) if errno.0 == libc::EACCES),
        "speak" => {
            let socket = connect(&place).unwrap();
            // The connection may have ended already.
            let _ = socket.send(&encoded(&Message::Nonce { nonce: [7; 32] }), None, None);
            let (_read, write) = pipe();
            send_copies(&socket, b"x", &write, 2);
            heard(&socket) == Err(Trouble::Gone)
        }
        "listen" => {
            let place = system::Listener::bind_in(&place).unwrap();
            crate::system::socket::wait_for_any([place.socket()].into_iter(), within(SOON)).unwrap();
            let socket = place.accept().unwrap().unwrap();
            heard(&socket) == Err(Trouble::Gone)
        }
        _ => false,
    };
    std::process::exit(if kept_out { KEPT_OUT } else { HEARD_SOMETHING });
}

/// Starts it; `None`, and says so, if this user cannot.
fn stranger(what: &str, place: &Path) -> Option<Child> {
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("left out: only root can start a process of another user");
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["strangers::stranger_process", "--exact", "--test-threads=1"])
        .env(STRANGER, what)
        .env(PLACE, place)
        .stdout(Stdio::null());
    Some(command.spawn().unwrap())
}

#[test]
fn another_user_does_not_reach_the_place() {
    let listener = Options::new().listen_in(std::env::temp_dir()).unwrap();
    let Some(mut child) = stranger("reach", listener.path()) else {
        return;
    };
    assert_eq!(child.wait().unwrap().code(), Some(KEPT_OUT));
}

/// Even where the folder has been opened.
#[test]
fn another_user_is_turned_away_before_anything_is_said() {
    let listener = Options::new().listen_in(std::env::temp_dir()).unwrap();
    let path = listener.path();
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    open(path.parent().unwrap());
    open(path);
    let Some(mut child) = stranger("speak", path) else {
        return;
    };
    let (path, token) = (path.to_owned(), listener.token().clone());
    let after = thread::spawn(move || (child.wait().unwrap(), executor(&path, &token)));
    drop(listener.accept(SOON).unwrap());
    let (status, executor) = after.join().unwrap();
    assert_eq!(status.code(), Some(KEPT_OUT));
    assert_eq!(executor.join().unwrap(), Ok(()));
}

/// An executor says nothing to another user, and does not do what that wants.
#[test]
fn another_users_impostor_hears_nothing() {
    let folder = std::env::temp_dir().join(format!("patchpoint-impostor-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    if let Some(mut child) = stranger("listen", &folder) {
        let refused = loop {
            let place = fs::read_dir(&folder).unwrap().next();
            let place = place.map(|place| place.unwrap().path().join("socket"));
            // SAFETY: it is to be turned away before it is obeyed; the child that listens says nothing else.
            match place.map(|place| unsafe { Service::new().connect(place, &token()) }) {
                // It does not listen yet.
                None | Some(Err(Error::ExecutorRefused { .. })) => thread::sleep(Duration::from_millis(1)),
                Some(other) => break other,
            }
            assert_eq!(child.try_wait().unwrap(), None);
        };
        assert!(
            matches!(refused, Err(Error::ControllerUnproven { .. })),
            "{refused:?}"
        );
        assert_eq!(child.wait().unwrap().code(), Some(KEPT_OUT));
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_users_of_both_ends_are_asked_for_on_both_sides() {
    let (ours, theirs) = Socket::pair().unwrap();
    assert_eq!(ours.is_of_this_user(), Ok(true));
    let handshake = thread::spawn(move || {
        let mut handshake = Handshake::with(ours).unwrap();
        while handshake.go_on(&token()) == Outcome::Waits {
            thread::yield_now();
        }
    });
    assert_eq!(introduce(&theirs, &token()), Ok(()));
    handshake.join().unwrap();
}

#[test]
fn who_waits_is_told_that_nobody_came() {
    let listener: Listener = Options::new().listen().unwrap();
    let idle = connect(listener.path()).unwrap();
    let silent = listener.accept(Duration::from_millis(20)).map(drop);
    assert!(
        matches!(silent, Err(Error::ExecutorSilent { waited_ms: 20, .. })),
        "{silent:?}"
    );
    drop(idle);
}
