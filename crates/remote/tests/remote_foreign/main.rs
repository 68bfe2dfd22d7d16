//! Patching a process that knows nothing of this library, while its threads run.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod child;
mod object;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use child::CHILD;
use object::{Object, any_reserved, call_reserved};
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::{Arch, OnReturn};
use patchpoint::engine::Status;
use patchpoint::image::{AdoptedCode, Adoption};
use patchpoint::memory::StrategyChoice;
use patchpoint::publish::SingleThreaded;
use patchpoint::sequence::{Sequence, Target, arg, result};
use patchpoint::site::{Candidate, Module, Site};
use patchpoint::stackmap::Endian;
use patchpoint::{CallShape, Engine};
use patchpoint_remote::Error;
use patchpoint_remote::foreign::Process;

/// No test: the child that the tests start, which is this program.
#[test]
fn child_process() {
    child::be();
}

/// A child, and an engine for it.
struct Setup {
    child: Child,
    says: BufReader<ChildStdout>,
    hears: ChildStdin,
    /// Where its code is, and its slow function.
    code: u64,
    slow: CodeAddr,
    process: Process,
    engine: Engine,
    module: Module,
}

fn adopted(code: u64) -> AdoptedCode {
    let object = Object::new(0);
    let addr = |at: u64| CodeAddr::new(code + at);
    let addrs: Vec<_> = object.functions.iter().map(|(_, at, _)| addr(*at)).collect();
    let adoption = Adoption::new(Arch::X86_64, Endian::Little, object.stack_maps.clone());
    let functions = object.functions.iter();
    let adoption = functions.fold(adoption, |adoption, (name, at, len)| {
        adoption.function(name.as_str(), addr(*at), Len::new(*len as u32))
    });
    // SAFETY: the child has that code there as long as it lives.
    unsafe { adoption.function_addresses(&addrs).unwrap().promise() }.unwrap()
}

fn shape(candidate: &Candidate<'_>) -> Option<CallShape> {
    match candidate.id().get() {
        107 => Some(CallShape::any_reg(any_reserved(7)).result().args(1)),
        207 => Some(CallShape::c(call_reserved(7)).result().args(1)),
        _ => None,
    }
}

fn setup(threads: usize, patience: Duration) -> Setup {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut child = command
        .args(["child_process", "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, threads.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut says = BufReader::new(child.stdout.take().unwrap());
    let [code, slow] = numbers(&mut says);
    // SAFETY: the child's code is changed by nobody else, and its threads have one stack each.
    let process = unsafe { Process::open(child.id(), patience) }.unwrap();
    let engine = process.engine().unwrap();
    let taken = process.adopt(&engine, adopted(code)).unwrap();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { engine.register(taken, shape) }.unwrap();
    Setup {
        hears: child.stdin.take().unwrap(),
        child,
        says,
        code,
        slow: CodeAddr::new(slow),
        process,
        engine,
        module,
    }
}

/// The numbers of the next line that the child says.
fn numbers<const N: usize>(says: &mut impl BufRead) -> [u64; N] {
    let mut lines = says.lines().map_while(Result::ok);
    // The harness of tests has begun a line.
    let line = lines.find_map(|line| line.split_once("child ").map(|(_, rest)| rest.to_owned()));
    let line = line.expect("the child lives");
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().expect("as many as are waited for")
}

impl Setup {
    fn tell(&mut self, what: &str) {
        writeln!(self.hears, "{what}").unwrap();
    }

    fn ask<const N: usize>(&mut self, what: &str) -> [u64; N] {
        self.tell(what);
        numbers(&mut self.says)
    }

    fn site(&self, id: u64) -> Site {
        self.module.sites().find(|site| site.id().get() == id).unwrap()
    }

    /// Of a version, for both kinds of sites: some call, and so leave a return address in the midst
    /// of theirs.
    fn sequence(&self, id: u64, version: u64) -> Sequence {
        match id == 207 && version % 4 == 1 {
            // SAFETY: the function can be called from the site.
            true => unsafe { Sequence::new().call(self.slow, OnReturn::FollowsC) }.add(result(), version),
            false => Sequence::new().mov(result(), arg(0)).add(result(), version),
        }
    }

    fn patch_both(&self, version: u64) -> patchpoint::Result<()> {
        let mut change = self.engine.transaction();
        change.quiescent();
        for id in [107, 207] {
            change.patch_site(&self.site(id), &self.sequence(id, version))?;
        }
        change.commit().map(drop)
    }

    /// Whether somebody traces a thread of the child.
    fn is_traced(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let status = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
        status
            .into_iter()
            .any(|status| !status.contains("TracerPid:\t0\n"))
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Threads execute both sites, threads come and go, signals arrive; every result is that of a
/// version, and none is older than one before.
#[test]
fn a_running_process_is_patched_thousands_of_times() {
    let mut setup = setup(2, Duration::from_secs(20));
    setup.patch_both(1).unwrap();
    setup.tell("go");
    let (versions, began) = (2000, Instant::now());
    for version in 2..=versions {
        setup.patch_both(version).unwrap();
    }
    let took = began.elapsed() / (versions as u32 - 1);
    assert!(!setup.is_traced());
    let [calls, failures, signals] = setup.ask("stop");
    println!("{calls} calls, {signals} signals, {took:?} for a transaction of two sites");
    assert_eq!(failures, 0);
    assert!(calls > 1000 && signals > 100, "{calls} calls, {signals} signals");
    assert_eq!(setup.ask("is original"), [0]);
    for id in [107, 207] {
        assert_eq!(setup.engine.status(&setup.site(id)), Status::Patched);
        setup.engine.restore(id).unwrap();
    }
    assert_eq!(setup.ask("is original"), [1]);
}

/// A thread that waits in a call from a site returns there: the change fails, and nothing has
/// changed; it succeeds when the thread has left.
#[test]
fn a_thread_in_a_site_is_waited_for() {
    let mut setup = setup(1, Duration::from_secs(2));
    setup.patch_both(1).unwrap();
    // Longer than the patience, which is long for a busy machine.
    setup.tell("8000");
    setup.tell("go");
    // Versions that call, until a thread is in such a call.
    let mut versions = (1..).map(|number| 4 * number + 1);
    let until = Instant::now() + Duration::from_secs(60);
    let (before, error) = loop {
        assert!(Instant::now() < until, "nobody minded the thread");
        let before = setup.site(207).read().unwrap();
        if let Err(error) = setup.patch_both(versions.next().unwrap()) {
            break (before, error);
        }
    };
    assert!(
        matches!(&error, patchpoint::Error::ThreadInSite { returns: true, .. }),
        "{error:?}: {error}"
    );
    assert_eq!(setup.site(207).read().unwrap(), before);
    assert!(!setup.is_traced());
    setup.tell("0");
    while let Err(error) = setup.patch_both(1000) {
        assert!(
            matches!(error, patchpoint::Error::ThreadInSite { .. }),
            "{error:?}"
        );
        assert!(Instant::now() < until, "{error}");
    }
    let [_, failures, _] = setup.ask("stop");
    assert_eq!(failures, 0);
}

/// One site is not what it should be: neither is changed.
#[test]
fn all_sites_are_changed_or_none() {
    let setup = setup(1, Duration::from_secs(20));
    setup.patch_both(2).unwrap();
    let [first, second] = [107, 207].map(|id| setup.site(id));
    let (before, place) = (first.read().unwrap(), second.range().end().get() - 1);
    let memory = std::fs::File::options()
        .write(true)
        .open(format!("/proc/{}/mem", setup.child.id()))
        .unwrap();
    let write = |byte: u8| std::os::unix::fs::FileExt::write_at(&memory, &[byte], place).unwrap();
    let was = *second.read().unwrap().last().unwrap();
    write(0xcc);
    let error = setup.patch_both(3).unwrap_err();
    assert!(
        matches!(&error, patchpoint::Error::BytesChanged { .. }),
        "{error:?}"
    );
    assert_eq!(first.read().unwrap(), before);
    assert!(!setup.is_traced());
    write(was);
    setup.patch_both(3).unwrap();
    assert_ne!(first.read().unwrap(), before);
}

#[test]
fn what_cannot_be_had_is_refused() {
    let mut setup = setup(1, Duration::from_secs(20));
    let site = setup.site(107);
    let before = site.read().unwrap();
    // A stub, and an exit stub.
    let long = (0..20).fold(Sequence::new().mov(result(), arg(0)), |long, _| {
        long.add(result(), 1_u64 << 40)
    });
    let refused = [
        setup.engine.patch_site(&site, &long).map(drop),
        setup
            .engine
            .patch_site(&site, &Sequence::new().jump(Target::Miss))
            .map(drop),
        setup.engine.invalidate_site(&site).map(drop),
    ];
    for refused in refused {
        assert!(refused.is_err());
    }
    assert_eq!(site.read().unwrap(), before);
    // A live module, and memory of this process.
    let taken = || setup.process.adopt(&setup.engine, adopted(setup.code)).unwrap();
    // SAFETY: what is told is true of the object's code, or refused.
    assert!(unsafe { setup.engine.registration(taken()).live().register(shape) }.is_err());
    let here = setup
        .engine
        .adopt(adopted(setup.code), StrategyChoice::Auto)
        .map(drop);
    assert!(
        matches!(
            here,
            Err(patchpoint::Error::Memory(
                patchpoint::memory::Error::NotMirrored { .. }
            ))
        ),
        "{here:?}"
    );
    // An engine whose world is this process.
    // SAFETY: this test has one thread.
    let world = unsafe { SingleThreaded::promise() };
    let other = Engine::builder().world(world).build().unwrap();
    let refused = setup.process.adopt(&other, adopted(setup.code)).map(drop);
    assert!(matches!(refused, Err(Error::ForeignEngine { .. })), "{refused:?}");
    // Addresses where no code is.
    for at in [0x1000, setup.code + (1 << 20)] {
        let refused = setup.process.adopt(&setup.engine, adopted(at)).map(drop);
        assert!(matches!(refused, Err(Error::ForeignRange { .. })), "{refused:?}");
    }
    // This process, and none.
    for id in [std::process::id(), u32::MAX >> 1] {
        // SAFETY: nothing is adopted.
        let refused = unsafe { Process::open(id, Duration::ZERO) }.map(drop);
        assert!(
            matches!(refused, Err(Error::ProcessRefused { .. })),
            "{refused:?}"
        );
    }
    setup.child.kill().unwrap();
    setup.child.wait().unwrap();
    let gone = Error::from(setup.patch_both(2).unwrap_err());
    assert!(matches!(gone, Error::ProcessGone { .. }), "{gone:?}");
}

/// A thread that is stopped by a signal stays so, and is patched all the same.
#[test]
fn a_stopped_process_is_patched_and_stays_stopped() {
    let mut setup = setup(1, Duration::from_secs(20));
    setup.patch_both(2).unwrap();
    setup.tell("go");
    let id = setup.child.id() as i32;
    // SAFETY: a child that has not been waited for.
    unsafe { libc::kill(id, libc::SIGSTOP) };
    std::thread::sleep(Duration::from_millis(50));
    setup.patch_both(3).unwrap();
    // It may take a moment for each to be stopped again.
    std::thread::sleep(Duration::from_millis(50));
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    assert!(status.contains("State:\tT"), "{status}");
    // SAFETY: as above.
    unsafe { libc::kill(id, libc::SIGCONT) };
    let [_, failures, _] = setup.ask("stop");
    assert_eq!(failures, 0);
}
