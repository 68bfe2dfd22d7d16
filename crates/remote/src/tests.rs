//! Executors that lie: each answer that no executor gives is a typed error, and the end of it.

#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use patchpoint::addr::{CodeAddr, CodeRange};
use patchpoint::deopt::Capture;
use patchpoint::error::Errno;
use patchpoint::publish::Level;

use crate::channel::Channel;
use crate::protocol::{Access, Failure, Host, MACHINE, Message, View};
use crate::system::socket::Socket;
use crate::{Error, Executor, Options, Result, Service, Thread};

/// What a lying executor says.
enum Says {
    This(Message),
    /// Under another number.
    OutOfTurn(Message),
    /// With a descriptor.
    WithFile(Message),
    /// Bytes.
    Raw(Vec<u8>),
    Nothing,
    Goodbye,
}

fn honest() -> Host {
    Host {
        machine: MACHINE,
        capture: Capture::here().routine.get(),
        saved: Capture::here().vectors,
        shadow_stack: false,
    }
}

/// An executor of this process that answers so, and executes nothing.
fn lying(
    mut says: impl FnMut(Message, Option<OwnedFd>) -> Says + Send + 'static,
) -> (Result<Executor>, JoinHandle<()>) {
    let (ours, theirs) = Socket::pair().unwrap();
    let liar = std::thread::spawn(move || {
        let socket = Arc::new(theirs);
        let mut channel = Channel::new(Arc::clone(&socket));
        while let Ok((message, file)) = channel.hear(None) {
            let said = match says(message, file) {
                Says::This(message) => channel.reply(&message),
                Says::OutOfTurn(message) => channel.say(&message, None, None),
                Says::WithFile(message) => {
                    let (end, _) = Socket::pair().unwrap();
                    channel.say(&message, Some(&end.into_fd()), None)
                }
                Says::Raw(bytes) => socket
                    .send(&bytes, None, None)
                    .map_err(crate::channel::ReceiveError::Trouble),
                Says::Nothing => Ok(()),
                Says::Goodbye => return,
            };
            if said.is_err() {
                return;
            }
        }
    });
    let options = Options::new().deadline(Duration::from_millis(300));
    (Executor::greet(Arc::new(ours), None, options), liar)
}

fn hello() -> Says {
    Says::This(Message::Host { host: honest() })
}

#[test]
fn another_machine_is_refused() {
    let hosts = [
        Host {
            machine: MACHINE ^ 1,
            ..honest()
        },
        Host {
            saved: honest().saved + 64,
            ..honest()
        },
        Host {
            shadow_stack: true,
            ..honest()
        },
    ];
    for host in hosts {
        let (executor, liar) = lying(move |_, _| Says::This(Message::Host { host }));
        assert!(
            matches!(executor, Err(Error::ExecutorRefused { .. })),
            "{executor:?}"
        );
        drop(executor);
        liar.join().unwrap();
    }
}

/// What a request for a symbol ends in, if that is the answer, and that nothing comes after it.
fn outcome_of(answer: impl Fn() -> Says + Send + 'static) -> Result<Option<CodeAddr>> {
    let (executor, liar) = lying(move |message, _| match message {
        Message::Hello => hello(),
        _ => answer(),
    });
    let executor = executor.unwrap();
    let outcome = executor.symbol("f");
    if !matches!(outcome, Ok(_) | Err(Error::ExecutorRefused { .. })) {
        let after = executor.symbol("f");
        assert!(matches!(after, Err(Error::ExecutorGone { .. })), "{after:?}");
        let after = executor.check();
        assert!(matches!(after, Err(Error::ExecutorGone { .. })), "{after:?}");
    }
    drop(executor);
    liar.join().unwrap();
    outcome
}

#[test]
fn answers_that_are_none_are_refused() {
    let found = || Message::Found {
        addr: Some(CodeAddr::new(5)),
    };
    assert_eq!(
        outcome_of(move || Says::This(found())),
        Ok(Some(CodeAddr::new(5)))
    );
    let (why, errno) = (Failure::Range, Errno(1));
    let refused = outcome_of(move || Says::This(Message::Failed { why, errno }));
    assert!(
        matches!(refused, Err(Error::ExecutorRefused { errno: Errno(1), .. })),
        "{refused:?}"
    );

    let is_wrong = |outcome| {
        assert!(
            matches!(outcome, Err(Error::ExecutorAnswer { .. })),
            "{outcome:?}"
        )
    };
    is_wrong(outcome_of(|| Says::This(Message::Done)));
    is_wrong(outcome_of(|| Says::This(Message::Hello)));
    is_wrong(outcome_of(|| Says::Raw(vec![0; 16])));
    is_wrong(outcome_of(|| Says::Raw(vec![1])));
    is_wrong(outcome_of(|| Says::Raw(vec![7; crate::protocol::MOST + 1])));
    is_wrong(outcome_of(move || Says::OutOfTurn(found())));
    is_wrong(outcome_of(move || Says::WithFile(found())));
    let silent = outcome_of(|| Says::Nothing);
    assert!(
        matches!(silent, Err(Error::ExecutorSilent { waited_ms: 300, .. })),
        "{silent:?}"
    );
    let gone = outcome_of(|| Says::Goodbye);
    assert!(matches!(gone, Err(Error::ExecutorGone { .. })), "{gone:?}");
}

/// It says of every place that something is there.
#[test]
fn there_is_an_end_to_looking_for_a_place() {
    let (executor, liar) = lying(|message, _| match message {
        Message::Hello => hello(),
        Message::Map { .. } => Says::This(Message::Taken),
        _ => Says::This(Message::Done),
    });
    let executor = executor.unwrap();
    let refused = executor.share(4096).map(drop);
    assert!(
        matches!(
            refused,
            Err(Error::Engine(patchpoint::Error::Memory(
                patchpoint::memory::Error::NoAddressSpace { .. }
            )))
        ),
        "{refused:?}"
    );
    drop(executor);
    liar.join().unwrap();
}

/// A thread that answers a call so.
fn call(answer: Message) -> Result<u64> {
    let mut threads = Vec::new();
    let (executor, liar) = lying(move |message, file| {
        if let (Message::Thread { .. }, Some(file)) = (&message, file) {
            let socket = Arc::new(Socket::over(file).unwrap());
            let answer = answer.clone();
            threads.push(std::thread::spawn(move || {
                let mut channel = Channel::new(socket);
                while channel.hear(None).is_ok() && channel.reply(&answer).is_ok() {}
            }));
        }
        match message {
            Message::Hello => hello(),
            _ => Says::This(Message::Done),
        }
    });
    let executor = executor.unwrap();
    let mut thread: Thread = executor.thread(64 << 10).unwrap();
    let outcome = thread.call(CodeAddr::new(0x1000), &[]);
    drop((thread, executor));
    liar.join().unwrap();
    outcome
}

#[test]
fn threads_that_answer_what_they_cannot_are_abandoned() {
    assert_eq!(call(Message::Returned { value: 4 }), Ok(4));
    let wrong = [
        Message::Done,
        Message::Hello,
        Message::Go { word: 1 },
        // An exit stub that no engine has.
        Message::Exit {
            context: 0,
            raw: 0,
            save: 0,
        },
        Message::Exit {
            context: u64::MAX,
            raw: 8,
            save: 8,
        },
    ];
    for answer in wrong {
        let outcome = call(answer.clone());
        assert!(
            matches!(outcome, Err(Error::ExecutorAnswer { .. })),
            "{answer:?}: {outcome:?}"
        );
    }
}

// ---- the other side ----

/// What a service answers to requests, and how it ends.
fn served(requests: Vec<(Message, Option<OwnedFd>)>) -> (Vec<Message>, Result<()>) {
    let (ours, theirs) = Socket::pair().unwrap();
    // SAFETY: the controller is this test.
    let service = std::thread::spawn(move || unsafe { Service::new().run(theirs.into_fd()) });
    let mut channel = Channel::new(Arc::new(ours));
    let mut answers = Vec::new();
    for (request, file) in requests {
        channel.say(&request, file.as_ref(), None).unwrap();
        match channel.hear_answer(Some(Duration::from_secs(20))) {
            Ok(answer) => answers.push(answer),
            Err(_) => break,
        }
    }
    drop(channel);
    (answers, service.join().unwrap())
}

fn range(start: u64, len: u64) -> CodeRange {
    CodeRange::new(CodeAddr::new(start), len).unwrap()
}

#[test]
fn the_end_of_the_controller_is_told_from_its_goodbye() {
    assert_eq!(served(vec![(Message::Bye, None)]), (vec![Message::Done], Ok(())));
    assert_eq!(served(vec![]), (vec![], Err(Error::ControllerGone)));
}

#[test]
fn what_no_controller_asks_is_refused_and_ends_the_service() {
    let file = || Some(Socket::pair().unwrap().0.into_fd());
    let wrong = [
        (Message::Done, None),
        (Message::Go { word: 1 }, None),
        (Message::Hello, file()),
        (
            Message::Map {
                at: range(0x1000, 0x1000),
                view: View::Execute,
            },
            None,
        ),
        (
            Message::Thread {
                stack: range(0x1000, 0x1000),
            },
            None,
        ),
    ];
    for request in wrong {
        let asked = format!("{request:?}");
        let (answers, end) = served(vec![request]);
        assert_eq!(answers, [], "{asked}");
        assert!(
            matches!(end, Err(Error::ControllerRequest { .. })),
            "{asked}: {end:?}"
        );
    }
}

/// Requests that are well said and cannot be carried out leave the service as it was.
#[test]
fn what_cannot_be_done_is_refused_and_the_service_goes_on() {
    let file = || Some(Socket::pair().unwrap().0.into_fd());
    let plain = || Some(OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap()));
    let (code, free) = (
        range(served as *const () as usize as u64 & !0xfff, 0x1000),
        range(0x7000_0000_0000, 0x1000),
    );
    let failing = vec![
        (
            Message::Map {
                at: free,
                view: View::Execute,
            },
            file(),
        ),
        (
            Message::Map {
                at: free,
                view: View::Execute,
            },
            plain(),
        ),
        (
            Message::Map {
                at: free,
                view: View::Write,
            },
            plain(),
        ),
        (
            Message::Map {
                at: range(0x7000_0000_0001, 0x1000),
                view: View::Write,
            },
            plain(),
        ),
        (
            Message::Map {
                at: range(0x7000_0000_0000, 0),
                view: View::Write,
            },
            plain(),
        ),
        // Not what it was given: its own code, say.
        (
            Message::Protect {
                pages: code,
                access: Access::Write,
            },
            None,
        ),
        (Message::Maintain { ranges: vec![code] }, None),
        (
            Message::Publish {
                level: Level::Immediate,
                ranges: vec![free],
            },
            None,
        ),
        (Message::Thread { stack: code }, file()),
        (Message::Thread { stack: code }, plain()),
        (Message::End { stack: code }, None),
        (
            Message::Trap {
                at: code.start(),
                exit_stub: None,
            },
            None,
        ),
    ];
    let count = failing.len();
    let last = [(Message::Symbol { name: "f".into() }, None), (Message::Bye, None)];
    let (answers, end) = served(failing.into_iter().chain(last).collect());
    assert_eq!(end, Ok(()));
    let (failed, last) = answers.split_at(count);
    for (number, answer) in failed.iter().enumerate() {
        assert!(matches!(answer, Message::Failed { .. }), "{number}: {answer:?}");
    }
    assert_eq!(last, [Message::Found { addr: None }, Message::Done]);
}
