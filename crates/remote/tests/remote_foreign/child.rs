//! The process that is patched: it has compiled code in memory of its own, executes it by several
//! threads and checks each result, and knows nothing of who changes it.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::object::Object;

/// What makes this program the child: how many threads it has.
pub(crate) const CHILD: &str = "PATCHPOINT_TEST_CHILD";

/// What LLVM's callee adds, and the callee of sequences.
pub(crate) const CALLEE: u64 = 1 << 40;
pub(crate) const SLOW: u64 = 1 << 41;
/// The functions that the threads call.
pub(crate) const FUNCTIONS: [&str; 2] = ["any_7", "call_7"];

extern "C" fn callee(x: u64) -> u64 {
    x + CALLEE
}

/// How long the callee of sequences takes, in milliseconds.
static NAP: AtomicU64 = AtomicU64::new(0);

extern "C" fn slow(x: u64) -> u64 {
    match NAP.load(Ordering::Relaxed) {
        0 => std::hint::spin_loop(),
        millis => std::thread::sleep(Duration::from_millis(millis)),
    }
    x + SLOW
}

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_alarm(_: i32) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Signals come all the time, to whatever thread.
fn alarms() {
    let every = libc::timeval {
        tv_sec: 0,
        tv_usec: 500,
    };
    let timer = libc::itimerval {
        it_interval: every,
        it_value: every,
    };
    let handler = on_alarm as extern "C" fn(i32) as usize;
    // SAFETY: the handler adds to an atomic.
    unsafe {
        libc::signal(libc::SIGALRM, handler);
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
}

/// Code in private memory that can be read and executed.
fn map(object: &Object) -> u64 {
    let (len, private) = (object.text.len(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let rw = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory, which stays, and is written before it is executed.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), len, rw, private, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        std::ptr::copy_nonoverlapping(object.text.as_ptr(), at.cast(), len);
        assert_eq!(libc::mprotect(at, len, libc::PROT_READ | libc::PROT_EXEC), 0);
        at as u64
    }
}

/// Calls a function and takes apart what it has added: the version of its site. `None` for what no
/// version adds.
fn call(function: u64, x: u64) -> Option<u64> {
    // SAFETY: a function of the object, of that signature.
    let function: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(function as usize) };
    let added = function(x).wrapping_sub(x);
    let version = match added {
        CALLEE => 0,
        SLOW.. => added - SLOW,
        _ => added,
    };
    (version < CALLEE).then_some(version)
}

/// Calls both until the end; versions only grow. Returns calls and failures.
fn read(functions: [u64; 2], over: &AtomicBool) -> (u64, u64) {
    let (mut calls, mut failures, mut last) = (0, 0, [0; 2]);
    while !over.load(Ordering::Relaxed) {
        let which = calls as usize % 2;
        match call(functions[which], calls) {
            Some(version) if version >= last[which] => last[which] = version,
            found => {
                failures += 1;
                eprintln!("{}: {found:?} after {}", FUNCTIONS[which], last[which]);
            }
        }
        calls += 1;
    }
    (calls, failures)
}

/// No test: is the child, if this process was started as one.
pub(crate) fn be() {
    let Ok(threads) = std::env::var(CHILD) else {
        return;
    };
    let threads: usize = threads.parse().unwrap();
    let object = Object::new(callee as *const () as u64);
    let at = map(&object);
    println!("child {at} {}", slow as *const () as u64);
    let functions = FUNCTIONS.map(|name| at + object.function(name).0);
    let over = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.as_str() {
            "go" => {
                alarms();
                for _ in 0..threads {
                    let over = Arc::clone(&over);
                    readers.push(std::thread::spawn(move || read(functions, &over)));
                }
                // Threads come and go.
                let over = Arc::clone(&over);
                readers.push(std::thread::spawn(move || {
                    let (mut calls, mut failures) = (0, 0);
                    while !over.load(Ordering::Relaxed) {
                        let one = std::thread::spawn(move || call(functions[0], 77));
                        failures += u64::from(one.join().unwrap().is_none());
                        calls += 1;
                    }
                    (calls, failures)
                }));
            }
            "stop" => {
                over.store(true, Ordering::Relaxed);
                let all = readers.drain(..).map(|reader| reader.join().unwrap());
                let (calls, failures) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                println!("child {calls} {failures} {}", SIGNALS.load(Ordering::Relaxed));
            }
            "is original" => {
                // SAFETY: mapped, and nobody writes now.
                let now = unsafe { std::slice::from_raw_parts(at as *const u8, object.text.len()) };
                println!("child {}", u64::from(now == object.text));
            }
            other => NAP.store(other.parse().unwrap(), Ordering::Relaxed),
        }
    }
    std::process::exit(0);
}
