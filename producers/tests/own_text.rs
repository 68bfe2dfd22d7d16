//! Functions of this program, compiled from C with `-fpatchable-function-entry`.
//!
//! Where they are the linker has said; how long they are is in the program's own unwind information.

use std::collections::HashMap;
use std::time::Duration;

use object::{Object, ObjectSection, ObjectSymbol};
use patchpoint::Engine;
use patchpoint::addr::CodeAddr;
use patchpoint::arch::Arch;
use patchpoint::image::Adoption;
use patchpoint::site::{EntrySpec, Site};
use patchpoint_producers::{Computes, Figures, Function, Subject, address, engine, lives};
use patchpoint_producers::{adopt, exercise, registered, restore, unregister};
use patchpoint_producers::{returned_or_handed_over, returning_or_handing_over};

/// Declares the functions of a variant, and lists them.
macro_rules! variant {
    ($module:ident: $($name:ident)*) => {
        mod $module {
            unsafe extern "C" {
                $(pub safe fn $name(x: u64) -> u64;)*
            }
            pub const FUNCTIONS: [(&str, super::Function); 4] = [$((stringify!($name), $name)),*];
        }
    };
}

variant!(gcc_aligned: gcc_aligned_0 gcc_aligned_1 gcc_aligned_2 gcc_aligned_3);
#[cfg(has_clang)]
variant!(clang_aligned: clang_aligned_0 clang_aligned_1 clang_aligned_2 clang_aligned_3);
variant!(gcc_running: gcc_running_0 gcc_running_1 gcc_running_2 gcc_running_3);
#[cfg(has_clang)]
variant!(clang_running: clang_running_0 clang_running_1 clang_running_2 clang_running_3);
variant!(gcc_crossing: gcc_crossing_0 gcc_crossing_1 gcc_crossing_2 gcc_crossing_3);
#[cfg(has_clang)]
variant!(clang_crossing: clang_crossing_0 clang_crossing_1 clang_crossing_2 clang_crossing_3);
variant!(gcc_lines: gcc_lines_0 gcc_lines_1 gcc_lines_2 gcc_lines_3);
#[cfg(has_clang)]
variant!(clang_lines: clang_lines_0 clang_lines_1 clang_lines_2 clang_lines_3);

/// What the functions compute.
const ORIGINALS: [Computes; 4] = [|x| x + 0x1000, |x| x + 0x1001, |x| x + 0x1002, |x| x + 0x1003];

/// How many bytes of nops there are at an entry.
const RESERVED: u32 = 5;

/// The unwind information of this program, which has that function: its address and bytes.
fn eh_frame((name, function): (&str, Function)) -> (CodeAddr, Vec<u8>) {
    let program = std::fs::read("/proc/self/exe").expect("a program can read itself");
    let program = object::File::parse(program.as_slice()).expect("it is one");
    let symbol = program
        .symbols()
        .find(|symbol| symbol.name() == Ok(name))
        .expect("it is not stripped");
    // How far from where the linker has placed it the program is.
    let bias = address(function).get() - symbol.address();
    let section = program.section_by_name(".eh_frame").expect("it can be unwound");
    let bytes = section.data().expect("it is in the file").to_vec();
    (CodeAddr::new(section.address() + bias), bytes)
}

/// Describes the functions, and no others, as the unwind information of the program does.
fn adoption(functions: &[(&str, Function)]) -> Adoption {
    let names: HashMap<CodeAddr, &str> = functions.iter().map(|(name, f)| (address(*f), *name)).collect();
    let (addr, bytes) = eh_frame(functions[0]);
    let whole = Adoption::without_stack_maps(Arch::X86_64)
        .eh_frame(addr, bytes)
        .functions_from_eh_frame(|addr| names.get(&addr).map(|name| (*name).into()))
        .expect("the linker has made it");
    let named = whole
        .functions()
        .filter(|function| names.contains_key(&function.addr));
    let adoption = named.fold(
        Adoption::without_stack_maps(Arch::X86_64),
        |adoption, function| adoption.function(function.name.clone(), function.addr, function.len),
    );
    assert_eq!(adoption.functions().count(), functions.len());
    adoption
}

/// Patches the functions of a variant for a while. If they have run, another thread executes them while
/// they are adopted and registered.
fn live_once(
    engine: &Engine,
    functions: &[(&str, Function); 4],
    has_run: bool,
    duration: Duration,
    figures: &mut Figures,
) {
    let register = || {
        let adoption = adoption(functions);
        // SAFETY: the functions are there for good; unless said, nobody has called them; nobody else writes to this
        // program's code.
        let code = unsafe { adopt(engine, adoption, has_run) };
        let entries = functions.iter().zip(0_u64..);
        let registration = entries.fold(engine.registration(code), |registration, ((name, _), id)| {
            registration.entry(EntrySpec::new(name, id, RESERVED).args(1).result())
        });
        // SAFETY: what is told is true of the functions.
        unsafe { registration.live().finish() }.expect("the nops are there")
    };
    let all = functions.iter().map(|(_, f)| *f).zip(ORIGINALS);
    let executed: Option<Vec<_>> = has_run.then(|| all.collect());
    let module = registered(engine, executed.as_deref(), register);
    let subject = |site: Site| {
        let number = site.id().get() as usize;
        Subject {
            site,
            function: functions[number].1,
            original: Some(ORIGINALS[number]),
            sequence: returning_or_handing_over,
            value: returned_or_handed_over,
        }
    };
    let subjects: Vec<Subject> = module.sites().map(subject).collect();
    assert_eq!(subjects.len(), functions.len());
    exercise(engine, &module, &subjects, duration, figures, || {}).expect("nothing is refused");
    restore(engine, &subjects).expect("nothing is refused");
    drop(subjects);
    // SAFETY: the thread that has executed it is gone; the sites were restored, and were nops.
    unsafe { unregister(engine, module) }.expect("it is registered");
    for ((name, function), original) in functions.iter().zip(ORIGINALS) {
        assert_eq!(function(7), original(7), "{name}");
    }
}

/// Again and again while the functions are called; the first time before anybody has called them, if
/// `has_run` does not say otherwise.
fn is_patched_live(producer: &'static str, functions: &[(&str, Function); 4], has_run: bool) {
    let (engine, mut figures) = (engine(), Figures::of(producer));
    let (lives, duration) = lives();
    for life in 0..lives {
        live_once(&engine, functions, has_run || life > 0, duration, &mut figures);
    }
    figures.finish();
}

#[test]
fn aligned_entries_of_gcc_are_patched_live() {
    is_patched_live("gcc, aligned entries", &gcc_aligned::FUNCTIONS, false);
}

#[test]
#[cfg(has_clang)]
fn aligned_entries_of_clang_are_patched_live() {
    is_patched_live("clang, aligned entries", &clang_aligned::FUNCTIONS, false);
}

/// Nothing is written when they are registered: gcc's five instructions stay.
#[test]
fn entries_of_gcc_that_run_are_patched_live() {
    is_patched_live("gcc, aligned entries that run", &gcc_running::FUNCTIONS, true);
}

#[test]
#[cfg(has_clang)]
fn entries_of_clang_that_run_are_patched_live() {
    is_patched_live("clang, aligned entries that run", &clang_running::FUNCTIONS, true);
}

#[test]
fn entries_of_gcc_that_cross_quadwords_are_patched_live() {
    is_patched_live(
        "gcc, entries that cross quadwords",
        &gcc_crossing::FUNCTIONS,
        false,
    );
}

#[test]
#[cfg(has_clang)]
fn entries_of_clang_that_cross_quadwords_are_patched_live() {
    is_patched_live(
        "clang, entries that cross quadwords",
        &clang_crossing::FUNCTIONS,
        false,
    );
}

#[test]
fn entries_of_gcc_that_cross_cache_lines_are_patched_live() {
    is_patched_live(
        "gcc, entries that cross cache lines",
        &gcc_lines::FUNCTIONS,
        false,
    );
}

#[test]
#[cfg(has_clang)]
fn entries_of_clang_that_cross_cache_lines_are_patched_live() {
    is_patched_live(
        "clang, entries that cross cache lines",
        &clang_lines::FUNCTIONS,
        false,
    );
}
