//! Functions of this program, whose pages the engine remaps.
//!
//! They are such as a compiler leaves to be patched: with an aligned nop of five bytes at the
//! entry, as `-fpatchable-function-entry=5` asks for, and in their middle. A program's text cannot
//! be replaced, so there are two sets of them, for two generations that live side by side. A
//! generation ends with all sites restored; then it is unregistered, and the next but one registers
//! the same functions again.
//!
//! A function gets its argument twice. What is at the entry of `entry_K` may change the second one,
//! and that is returned.

use std::arch::global_asm;

use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::{Arch, Convention, RegSet, x86_64};
use patchpoint::image::Adoption;
use patchpoint::memory::StrategyChoice;
use patchpoint::site::SiteSpec;
use patchpoint::{Engine, Result};

use super::parts::{KnownSite, Part, SiteKind};
use super::running::Scheme;

global_asm!(
    ".macro live_stress_functions set",
    ".p2align 6",
    ".globl live_stress_own_text_\\set",
    ".hidden live_stress_own_text_\\set",
    ".type live_stress_own_text_\\set, @function",
    "live_stress_own_text_\\set:",
    // Two that begin with their sites.
    ".rept 2",
    ".p2align 6, 0xcc",
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
    "movq %rsi, %rax",
    "ret",
    ".endr",
    // Two with a site of five bytes behind eight others.
    ".rept 2",
    ".p2align 6, 0xcc",
    "subq $8, %rsp",
    "movq %rdi, %rax",
    "nop",
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
    "addq $8, %rsp",
    "ret",
    ".endr",
    // Two with more room, which can be settled.
    ".rept 2",
    ".p2align 6, 0xcc",
    "subq $8, %rsp",
    "movq %rdi, %rax",
    "nop",
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
    ".byte 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00",
    ".byte 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00",
    ".byte 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00",
    "addq $8, %rsp",
    "ret",
    ".endr",
    ".p2align 6, 0xcc",
    ".endm",
    // The first shares its page with the program's other functions, and so does the second.
    ".pushsection .text, \"ax\", @progbits",
    "live_stress_functions first",
    ".p2align 12, 0xcc",
    "live_stress_functions second",
    ".popsection",
    options(att_syntax)
);

unsafe extern "C" {
    safe fn live_stress_own_text_first();
    safe fn live_stress_own_text_second();
}

/// How long a function is, with what is behind it.
const STRIDE: u64 = 64;

/// Where the site of each function is, and how long.
const SITES: [(u32, u32); 6] = [(0, 5), (0, 5), (8, 5), (8, 5), (8, 32), (8, 32)];

/// Adopts the functions for a generation. Those of the generation before the last are not
/// registered any more.
pub(super) fn part(engine: &Engine, generation: u64) -> Result<Part> {
    let start = match generation % 2 {
        0 => live_stress_own_text_first as *const (),
        _ => live_stress_own_text_second as *const (),
    } as u64;
    let function = |number: usize| format!("own_text_{number}");
    let mut adoption = Adoption::without_stack_maps(Arch::X86_64);
    for number in 0..SITES.len() {
        let at = CodeAddr::new(start + STRIDE * number as u64);
        adoption = adoption.function(function(number), at, Len::new(STRIDE as u32));
    }
    // SAFETY: the program stays mapped, and nobody else writes to its text. These functions may have run, but every
    // thread has come back from them since, and none comes before the module is released.
    let adopted = unsafe { adoption.not_yet_run().promise() }?;
    let code = engine.adopt(adopted, StrategyChoice::Remap)?;

    let is_entry = |at: u32| at == 0;
    let specs = SITES.iter().enumerate().map(|(number, (at, reserved))| {
        let spec = SiteSpec::nops(&function(number), *at, *reserved).id(500 + number as u64);
        match is_entry(*at) {
            // The stack is not as for a call.
            true => spec
                .arg(x86_64::RDI)
                .result(x86_64::RSI)
                .free(RegSet::of(&[x86_64::RAX, x86_64::R10, x86_64::R11]))
                .free_flags(),
            false => spec.convention(Convention::C).args(1).returns(),
        }
    });
    let registration = engine.registration(code).sites(specs).live();
    // SAFETY: what is told is what the assembly says.
    let module = unsafe { registration.finish() }?;
    let known = SITES.iter().enumerate().map(|(number, (at, _))| {
        let scheme = Scheme::all(0);
        KnownSite {
            function: function(number),
            scheme: match is_entry(*at) {
                true => scheme.without_calls(),
                false => scheme,
            },
            is_nops: true,
        }
    });
    Ok(Part::new(SiteKind::OwnText, module, known.collect()))
}
