//! Source: ELF for the Arm 64-bit Architecture (AAELF64), "Relocation optimization". Encodings: Arm
//! Architecture Reference Manual, section C6.2, under the mnemonics named here.
//!
//! | before | after | the address |
//! |---|---|---|
//! | `adrp x0, :got:foo; ldr x0, [x0, :got_lo12:foo]` | `nop; adr x0, foo` | within 1 MiB |
//! | | `adrp x0, foo; add x0, x0, :lo12:foo` | within 4 GiB |
//!
//! As the ABI has it: the two instructions follow each other, both relocations are of one symbol
//! and add nothing, and one register is written, read and written again, so that nobody else can
//! use what `adrp` leaves in it.

use super::{Changes, CodeSection, Edge, Targets};
use crate::relocation::Fit;

const GOT_PAGE: u32 = object::elf::R_AARCH64_ADR_GOT_PAGE.0;
const GOT_LOW: u32 = object::elf::R_AARCH64_LD64_GOT_LO12_NC.0;
const NONE: u32 = object::elf::R_AARCH64_NONE.0;
const ADR: u32 = object::elf::R_AARCH64_ADR_PREL_LO21.0;
const PAGE: u32 = object::elf::R_AARCH64_ADR_PREL_PG_HI21.0;
const LOW: u32 = object::elf::R_AARCH64_ADD_ABS_LO12_NC.0;

const NOP: u32 = 0xd503_201f;
const REGISTER: u32 = 0x1f;
const PAGE_MASK: u64 = 0xfff;

pub(super) fn rewrite(code: &CodeSection<'_, '_>, target: Targets<'_>, changes: &mut Changes) {
    let edges = &code.section.edges;
    for (index, (page, low)) in edges.iter().zip(edges.iter().skip(1)).enumerate() {
        if !is_pair(page, low) {
            continue;
        }
        let (Some(register), Some(target)) = (register(code, page.offset), target(page.target)) else {
            continue;
        };
        let (first, second) = (page.offset, low.offset);
        let near = target.wrapping_sub(code.place(second));
        let pages = (target & !PAGE_MASK).wrapping_sub(code.place(first) & !PAGE_MASK);
        if Fit::signed(21).check(near).is_ok() {
            changes.word(first, NOP);
            changes.edge(index, page, NONE, first, 0);
            changes.word(second, 0x1000_0000 | register);
            changes.edge(index + 1, low, ADR, second, 0);
        } else if Fit::signed(33).check(pages).is_ok() {
            changes.edge(index, page, PAGE, first, 0);
            changes.word(second, 0x9100_0000 | register << 5 | register);
            changes.edge(index + 1, low, LOW, second, 0);
        }
    }
}

fn is_pair(page: &Edge, low: &Edge) -> bool {
    let numbers = (page.relocation.number(), low.relocation.number());
    numbers == (GOT_PAGE, GOT_LOW)
        && page.target == low.target
        && (page.addend, low.addend) == (0, 0)
        && page.offset.checked_add(4) == Some(low.offset)
}

/// The one register of `adrp x, page; ldr x, [x, low]`.
fn register(code: &CodeSection<'_, '_>, at: u32) -> Option<u32> {
    let (page, load) = (code.word(at)?, code.word(at.checked_add(4)?)?);
    let register = page & REGISTER;
    // protection: relaxation-of-one-register
    let alike = load & REGISTER == register && load >> 5 & REGISTER == register;
    // As a base, 31 is the stack pointer.
    let found =
        page & 0x9f00_0000 == 0x9000_0000 && load & 0xffc0_0000 == 0xf940_0000 && alike && register != 31;
    found.then_some(register)
}
