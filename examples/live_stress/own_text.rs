//! Functions of this program, whose pages the engine remaps while threads execute them.
//!
//! They are such as a compiler leaves to be patched: with an aligned nop of five bytes at the entry,
//! as `-fpatchable-function-entry=5` asks for, with longer ones, with calls and jumps. A program's
//! text cannot be replaced, and nobody can be kept out of it: readers go on to execute the functions
//! while a generation ends with all of their sites restored, while nothing is registered, and while
//! the next generation registers them again.
//!
//! A function gets its argument twice. What is at the entry of the first ones may change the second
//! one, and that is returned.

use std::arch::global_asm;

use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::{Arch, Convention, RegSet, x86_64};
use patchpoint::image::Adoption;
use patchpoint::memory::StrategyChoice;
use patchpoint::site::SiteSpec;
use patchpoint::{Engine, Result};

use super::parts::{AsLoaded, KnownSite, Part, SiteKind};
use super::running::Scheme;

// They share their page with other functions of the program, and so do the copies that it is
// remapped to.
global_asm!(
    ".pushsection .text, \"ax\", @progbits",
    ".p2align 6, 0xcc",
    ".globl live_stress_own_text",
    ".hidden live_stress_own_text",
    ".type live_stress_own_text, @function",
    "live_stress_own_text:",
    // 0 and 1: the site is at the entry.
    ".rept 2",
    ".p2align 6, 0xcc",
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
    "movq %rsi, %rax",
    "ret",
    ".endr",
    // 2: in the middle.
    ".p2align 6, 0xcc",
    "subq $8, %rsp",
    "movq %rdi, %rax",
    "nop",
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
    "addq $8, %rsp",
    "ret",
    // 3: of several nops, between which threads may be.
    ".p2align 6, 0xcc",
    "subq $8, %rsp",
    "movq %rdi, %rax",
    "nop",
    ".byte 0x0f, 0x1f, 0x00",
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
    ".byte 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00",
    ".byte 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00",
    "addq $8, %rsp",
    "ret",
    // 4: a call.
    ".p2align 6, 0xcc",
    "subq $8, %rsp",
    "movq %rdi, %rax",
    "nop",
    ".byte 0xe8",
    ".long 1f - . - 4",
    "addq $8, %rsp",
    "ret",
    "1: leaq 0x20000000(%rdi), %rax",
    "ret",
    // 5: a jump over an instruction.
    ".p2align 6, 0xcc",
    "subq $8, %rsp",
    "movq %rdi, %rax",
    "nop",
    ".byte 0xe9",
    ".long 1f - . - 4",
    "addq $0x10000000, %rax",
    "1: addq $8, %rsp",
    "ret",
    ".p2align 6, 0xcc",
    ".popsection",
    options(att_syntax)
);

unsafe extern "C" {
    safe fn live_stress_own_text();
}

/// How long a function is, with what is behind it.
const STRIDE: u64 = 64;
/// What the call adds, and what is jumped over.
const CALLED: u64 = 0x2000_0000;
const SKIPPED: u64 = 0x1000_0000;

/// What the functions do.
const SCHEMES: [Scheme; 6] = [
    Scheme::all(0).without_calls(),
    Scheme::all(0).without_calls(),
    Scheme::all(0),
    Scheme::all(0),
    Scheme::all(CALLED),
    Scheme::all(0).with_behind(SKIPPED),
];

fn addr(number: usize) -> CodeAddr {
    CodeAddr::new(live_stress_own_text as *const () as u64 + STRIDE * number as u64)
}

/// Where the functions are called, whether they are registered or not.
pub(super) fn functions() -> impl Iterator<Item = (u64, Scheme)> {
    let function = |(number, scheme): (usize, &Scheme)| (addr(number).get(), *scheme);
    SCHEMES.iter().enumerate().map(function)
}

/// Adopts the functions.
pub(super) fn part(engine: &Engine) -> Result<Part> {
    let name = |number: usize| format!("own_text_{number}");
    let mut adoption = Adoption::without_stack_maps(Arch::X86_64);
    for number in 0..SCHEMES.len() {
        adoption = adoption.function(name(number), addr(number), Len::new(STRIDE as u32));
    }
    // SAFETY: the program stays mapped, and nobody else writes to its text, or changes its protection.
    let adopted = unsafe { adoption.promise() }?;
    let code = engine.adopt(adopted, StrategyChoice::Remap)?;

    let at_entry = |number| {
        // The stack is not as for a call.
        let spec = SiteSpec::nops(&name(number), 0, 5);
        let free = RegSet::of(&[x86_64::RAX, x86_64::R10, x86_64::R11]);
        spec.arg(x86_64::RDI).result(x86_64::RSI).free(free).free_flags()
    };
    let behind = |spec: SiteSpec| spec.convention(Convention::C).args(1).returns();
    let specs = [
        at_entry(0),
        at_entry(1),
        behind(SiteSpec::nops(&name(2), 8, 5)),
        behind(SiteSpec::nops(&name(3), 8, 26)),
        behind(SiteSpec::call(&name(4), 8, 5)),
        behind(SiteSpec::jump(&name(5), 8, 5)),
    ];
    let specs = (500_u64..).zip(specs).map(|(id, spec)| spec.id(id));
    let registration = engine.registration(code).sites(specs).live();
    // SAFETY: what is told is what the assembly says.
    let module = unsafe { registration.finish() }?;
    let known = SCHEMES.iter().enumerate().map(|(number, scheme)| KnownSite {
        function: name(number),
        scheme: *scheme,
        as_loaded: AsLoaded::InPlace,
    });
    Ok(Part::new(SiteKind::OwnText, module, known.collect()))
}
