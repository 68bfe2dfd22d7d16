//! What `run` and `link` are there for and safe code cannot do: executing what a file holds.
#![allow(
    unsafe_code,
    reason = "the command executes the code that its user names; nothing can be known of that code"
)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::OnceLock;

use patchpoint::addr::CodeAddr;
use patchpoint::engine::Registration;
use patchpoint::image::MemoryManager;
use patchpoint::memory::Arena;
use patchpoint::publish::SingleThreaded;
use patchpoint::sequence::Sequence;
use patchpoint::site::{Candidate, IntoShape, Module};

/// The most arguments of a call: those that every architecture passes in general registers, less
/// the few that some have.
pub(crate) const MOST: usize = 6;

/// The promise that no other thread executes the engine's code.
pub(crate) fn world() -> SingleThreaded {
    // SAFETY: this program starts no thread, and calls code of the engine's from one place only. Code that it calls may
    // start threads; that these do not execute code that is being patched is for whoever asks for it to be run.
    unsafe { SingleThreaded::promise() }
}

/// The sequence that the user has typed, as it is.
pub(crate) fn sequence(text: &str) -> patchpoint::Result<Sequence> {
    // SAFETY: `plan` executes nothing. `run` does what its user says: that what is at the addresses in the text can be called or
    // jumped to, and that bytes which are vouched for are what is said of them, the user asserts, as of the code.
    Ok(unsafe { Sequence::from_text(text) }?)
}

/// Registers the code of the file that the user names.
pub(crate) fn register<S: IntoShape>(
    registration: Registration<'_>,
    shape: impl FnMut(&Candidate<'_>) -> S,
) -> patchpoint::Result<Module> {
    // SAFETY: nothing of the code has run yet. Its shapes are what its user or its IR says of the records; that this is true, and
    // that the patches which are asked for suit the code, the user asserts, as of the code.
    unsafe { registration.register(shape) }
}

/// Calls a function with integers, and takes what the C convention returns an integer in.
pub(crate) fn call(function: CodeAddr, args: [u64; MOST]) -> u64 {
    type Function = extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64;
    // SAFETY: `function` is what the engine gave out as the entry of a function of a module that is registered while this
    // runs, in memory that can be executed, and a pointer has the size of an address. That the code there takes at most
    // six integers or pointers, as which it may use those that it is passed, and leaves the process sound, is what the
    // user of `patchpoint run FILE --call FUNCTION --args ...` asserts, as the user of a shell does of a program.
    let function: Function = unsafe { std::mem::transmute(function.get() as usize) };
    let [a, b, c, d, e, f] = args;
    function(a, b, c, d, e, f)
}

/// Memory of this process for a program that runs once, in chunks of this many bytes: under W^X,
/// and exceptions find their way through its code where the unwinder can be told.
pub(crate) fn memory(chunk: u64) -> impl MemoryManager<Error = patchpoint::memory::Error> {
    let arena = Arena::new(chunk);
    // SAFETY: what an arena finalizes is memory of this process, which holds the bytes until it is dropped, and [`start`] is only
    // called with code whose memory is kept. That unwind information describes the code that it came with is what the
    // user of `patchpoint link FILES` asserts, as of the code.
    // protection: exceptions-find-their-way
    #[cfg(target_os = "linux")]
    let arena = unsafe { patchpoint::observe::Unwound::new(arena) };
    arena
}

/// What C's start-up code calls, and what the end of the process.
pub(crate) struct Program {
    pub(crate) constructors: Vec<CodeAddr>,
    pub(crate) entry: CodeAddr,
    pub(crate) destructors: Vec<CodeAddr>,
}

/// Calls a program's constructors and its entry, each with the arguments and the environment, and
/// has C's library write out what it has printed. Its destructors are called when the process ends,
/// in whichever way: its code has to stay. `None` where the process cannot be told of them; a
/// process runs one program.
pub(crate) fn start(program: Program, args: Vec<CString>, environment: Vec<CString>) -> Option<c_int> {
    // A count that C cannot hold is none that a system passes to a process.
    let count = c_int::try_from(args.len()).unwrap_or(c_int::MAX);
    // C may write to them, and keep them until the process ends.
    let kept = |strings: Vec<CString>| {
        let mut pointers: Vec<*mut c_char> = strings.into_iter().map(CString::into_raw).collect();
        pointers.push(ptr::null_mut());
        pointers.leak().as_mut_ptr()
    };
    let (args, environment) = (kept(args), kept(environment));
    DESTRUCTORS.set(program.destructors).ok()?;
    // What the program registers is called before this, as with the system's start-up code.
    // SAFETY: the function takes and returns nothing, and stays in place as long as the process.
    if unsafe { libc::atexit(destruct) } != 0 {
        return None;
    }
    for constructor in program.constructors {
        main_at(constructor)(count, args, environment);
    }
    let status = main_at(program.entry)(count, args, environment);
    // SAFETY: a null pointer stands for all streams.
    unsafe { libc::fflush(ptr::null_mut()) };
    Some(status)
}

type Main = extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;

fn main_at(function: CodeAddr) -> Main {
    // SAFETY: as in `call`: the address is that of a function of code that the engine has placed and that is kept while the
    // process lives. That it can be called as `main`, or as a constructor is, of which C says the same but for what it
    // returns, is what the user of `patchpoint link FILES --entry FUNCTION` asserts.
    unsafe { std::mem::transmute::<usize, Main>(function.get() as usize) }
}

static DESTRUCTORS: OnceLock<Vec<CodeAddr>> = OnceLock::new();

extern "C" fn destruct() {
    for destructor in DESTRUCTORS.get().into_iter().flatten() {
        // SAFETY: as in `main_at`; destructors take and return nothing.
        let destructor: extern "C" fn() = unsafe { std::mem::transmute(destructor.get() as usize) };
        destructor();
    }
}

/// Makes the symbols of a shared library known to [`symbol`]; otherwise says why not.
#[cfg(unix)]
pub(crate) fn load_library(name: &str) -> Result<(), String> {
    let c_name = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: the name is a string that ends with a zero byte. Loading a library calls its constructors: that these may be called
    // is what whoever names it asserts.
    let found = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if !found.is_null() {
        return Ok(());
    }
    // SAFETY: after a failure it is a string that ends with a zero byte, until the next call of these functions, of which this
    // process has no other thread.
    let why = unsafe {
        let why = libc::dlerror();
        (!why.is_null()).then(|| CStr::from_ptr(why).to_string_lossy().into_owned())
    };
    Err(why.unwrap_or_else(|| "the system does not say why".into()))
}

/// On other systems none can be.
#[cfg(not(unix))]
pub(crate) fn load_library(_: &str) -> Result<(), String> {
    Err("this system has no dlopen".to_owned())
}

/// The address of a symbol of this process: of the C library, mostly.
#[cfg(unix)]
pub(crate) fn symbol(name: &str) -> Option<CodeAddr> {
    let c_name = CString::new(name).ok()?;
    // SAFETY: the name is a string that ends with a zero byte, and looking it up has no other effect.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c_name.as_ptr()) };
    let found = if found.is_null() {
        linked_in(name)?
    } else {
        found as u64
    };
    Some(CodeAddr::new(found))
}

/// What the GNU C library has for every program to link into itself, so that it is in no shared
/// object.
#[cfg(unix)]
fn linked_in(name: &str) -> Option<u64> {
    match name {
        "atexit" => Some(libc::atexit as *const () as u64),
        _ => None,
    }
}

/// On other systems none is known.
#[cfg(not(unix))]
pub(crate) fn symbol(_: &str) -> Option<CodeAddr> {
    None
}
