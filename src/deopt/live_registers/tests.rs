//! Which registers are saved, and how they are encoded, on every architecture. That they survive is
//! tested where the architecture can be executed.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::machine::Machine;
use super::plan::Plan;
use super::testing::leak;
use crate::addr::{CodeAddr, FnOffset, RecordId};
use crate::arch::{Arch, CallShape, SiteContext, conventions};
use crate::stackmap::Constants;
use crate::stackmap::testing::{RecordSpec, direct, record, reg};

fn site(arch: Arch, shape: CallShape, spec: RecordSpec, trusted: bool) -> SiteContext<'static> {
    SiteContext {
        arch,
        id: RecordId::new(7),
        function: None,
        offset: FnOffset::new(0),
        addr: CodeAddr::new(0x1000),
        shape,
        record: Some(leak(spec)),
        constants: Constants::NONE,
        return_offsets: &[],
        trust_live_outs: trusted,
    }
}

/// The saved registers and their bytes, in order of their numbers; `None` for an exit stub.
fn saved(arch: Arch, shape: CallShape, spec: RecordSpec) -> Option<Vec<(u16, u16)>> {
    let [trusted, untrusted] = [true, false].map(|trusted| {
        let plan = Plan::new(&site(arch, shape, spec.clone(), trusted))?;
        let mut saved: Vec<_> = plan
            .slots
            .iter()
            .map(|slot| (slot.reg.get(), slot.size))
            .collect();
        saved.sort_unstable();
        Some(saved)
    });
    // What a runtime can vouch for is what the dispatcher preserves anyway; but on RISC-V ra.
    if arch != Arch::RiscV64 {
        assert_eq!(trusted, untrusted);
    }
    untrusted
}

const ALL: [Arch; 7] = [
    Arch::X86_64,
    Arch::AArch64,
    Arch::PowerPc64,
    Arch::PowerPc64Le,
    Arch::PowerPc64ElfV2,
    Arch::SystemZ,
    Arch::RiscV64,
];

fn any_reg() -> CallShape {
    CallShape::any_reg(32).result().args(1)
}

/// Result and argument in registers of these numbers, and the stack pointer live.
fn spec(arch: Arch, result: u16, arg: u16) -> RecordSpec {
    let stack_pointer = conventions::of(arch).stack_pointer.get();
    let spec = record(7).location(reg(result, 8)).location(reg(arg, 8));
    spec.live_out(stack_pointer, 8)
}

#[test]
fn only_live_and_recorded_registers_are_saved() {
    for (arch, live, size) in [
        (Arch::X86_64, 18, 16),
        (Arch::AArch64, 65, 16),
        (Arch::PowerPc64, 78, 16),
        (Arch::PowerPc64ElfV2, 78, 16),
        (Arch::SystemZ, 17, 8),
    ] {
        let spec = spec(arch, 2, 4).live_out(5, 8).live_out(live, size);
        let expected = Vec::from([(2, 8), (4, 8), (5, 8), (live, size.into())]);
        assert_eq!(saved(arch, any_reg(), spec), Some(expected), "{arch}");
    }
}

#[test]
fn what_a_function_preserves_is_not_saved() {
    // Callee-saved: general, and the low 8 bytes of vectors where they are.
    for (arch, general, vector) in [
        (Arch::X86_64, 12, None),
        (Arch::AArch64, 20, Some(72)),
        (Arch::PowerPc64Le, 20, Some(50)),
        (Arch::PowerPc64ElfV2, 20, Some(50)),
        (Arch::SystemZ, 8, Some(24)),
    ] {
        let mut live = spec(arch, 2, 4).live_out(general, 8);
        if let Some(vector) = vector {
            live = live.live_out(vector, 8);
        }
        assert_eq!(
            saved(arch, any_reg(), live.clone()),
            Some(Vec::from([(2, 8), (4, 8)])),
            "{arch}"
        );
    }
    for (arch, vector) in [(Arch::AArch64, 72), (Arch::SystemZ, 24)] {
        let wide = spec(arch, 2, 4).live_out(vector, 16);
        assert_eq!(
            saved(arch, any_reg(), wide).unwrap().last(),
            Some(&(vector, 16)),
            "the upper half is lost: {arch}"
        );
    }
}

/// What LLVM's own call loses is not live.
#[test]
fn what_is_free_at_every_patchpoint_is_not_saved() {
    for (arch, free) in [
        (Arch::X86_64, 11),
        (Arch::AArch64, 30),
        (Arch::PowerPc64, 12),
        (Arch::PowerPc64ElfV2, 12),
        (Arch::SystemZ, 14),
    ] {
        let spec = spec(arch, 2, 4).live_out(free, 8);
        let expected = Some(Vec::from([(2, 8), (4, 8)]));
        assert_eq!(saved(arch, any_reg(), spec), expected, "{arch}");
    }
}

#[test]
fn bases_of_stack_slots_are_saved() {
    let spec = record(7)
        .location(reg(0, 8))
        .location(direct(6, -16))
        .live_out(7, 8);
    let saved = saved(Arch::X86_64, any_reg(), spec).unwrap();
    assert_eq!(saved, [(0, 8), (6, 8)]);
}

#[test]
fn where_it_is_not_known_what_is_live_everything_is_saved() {
    let unlisted = record(7).location(reg(0, 8)).location(reg(2, 8));
    for arch in ALL {
        assert_eq!(saved(arch, any_reg(), unlisted.clone()), None, "{arch}");
        let listed = spec(arch, 2, 4);
        assert_eq!(saved(arch, CallShape::shadow(32), listed), None, "{arch}");
        // LLVM's mark of a register that has no number.
        let unnumbered = spec(arch, 2, 4).live_out(u16::MAX, 4);
        assert_eq!(saved(arch, any_reg(), unnumbered), None, "{arch}");
        let live_registers = saved(arch, CallShape::c(32).result().args(2), record(7));
        assert!(
            live_registers.is_some(),
            "LLVM's call loses what a C function does: {arch}"
        );
    }
    // A mask, a condition, an upper vector, a scalable vector.
    for (arch, reg) in [
        (Arch::X86_64, 119),
        (Arch::PowerPc64, 68),
        (Arch::PowerPc64ElfV2, 68),
        (Arch::SystemZ, 68),
        (Arch::AArch64, 96),
    ] {
        let spec = spec(arch, 2, 4).live_out(reg, 8);
        assert_eq!(saved(arch, any_reg(), spec), None, "{arch}");
    }
}

/// f8 and f20 under LLVM's numbers for vs8 and vs20, of which a C function keeps half or nothing.
#[test]
fn where_a_vector_and_scalar_register_is_live_everything_is_saved() {
    for arch in [Arch::PowerPc64, Arch::PowerPc64Le, Arch::PowerPc64ElfV2] {
        for reg in [40, 52] {
            let whole = spec(arch, 2, 4).live_out(reg, 16);
            assert_eq!(saved(arch, any_reg(), whole), None, "{arch}");
        }
    }
}

#[test]
fn a_site_of_the_c_convention_saves_arguments_and_results() {
    let shape = CallShape::c(32).result().args(2);
    let saved = |arch| saved(arch, shape, record(7)).unwrap();
    assert_eq!(saved(Arch::X86_64), [(0, 8), (4, 8), (5, 8), (17, 16), (18, 16)]);
    assert_eq!(saved(Arch::AArch64), [(0, 8), (1, 8), (64, 16), (65, 16)]);
    for arch in [Arch::PowerPc64, Arch::PowerPc64Le, Arch::PowerPc64ElfV2] {
        assert_eq!(saved(arch), [(3, 8), (4, 8), (33, 8), (34, 8)], "{arch}");
    }
    assert_eq!(saved(Arch::SystemZ), [(2, 8), (3, 8), (16, 8), (17, 8)]);
    // LLVM links its call through ra without saving it.
    assert_eq!(saved(Arch::RiscV64), [(1, 8), (10, 8), (11, 8), (42, 8), (43, 8)]);
    let trusted = Plan::new(&site(Arch::RiscV64, shape, record(7), true)).unwrap();
    assert!(trusted.slots.iter().all(|slot| slot.reg.get() != 1));
}

fn hex(put: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = Vec::new();
    put(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As `llvm-mc-19` encodes `movups [rsp+0x1010],xmm0`, `vmovups` with 32 and 64 bytes; `str q31,
/// [sp, #0x210]`; `stfd 13, 0x208(1)`; `li 12, 0x210`, `stvx 31, 1, 12`; `std %f0, 0x208(%r15)`,
/// `vst %v10, 0x210(%r15)`; `fsd f0, 0x1f8(sp)`; and the loads.
#[test]
fn vectors_are_stored_and_loaded_as_llvm_does() {
    for (arch, reg, size, at, store, load) in [
        (Arch::X86_64, 17, 16, 4112, "0f11842410100000", "0f10842410100000"),
        (
            Arch::X86_64,
            31,
            16,
            4112,
            "440f11b42410100000",
            "440f10b42410100000",
        ),
        (
            Arch::X86_64,
            20,
            32,
            4112,
            "c5fc119c2410100000",
            "c5fc109c2410100000",
        ),
        (
            Arch::X86_64,
            32,
            32,
            4112,
            "c57c11bc2410100000",
            "c57c10bc2410100000",
        ),
        (
            Arch::X86_64,
            18,
            64,
            4112,
            "62f17c48118c2410100000",
            "62f17c48108c2410100000",
        ),
        (
            Arch::X86_64,
            30,
            64,
            4112,
            "62717c4811ac2410100000",
            "62717c4810ac2410100000",
        ),
        (
            Arch::X86_64,
            67,
            64,
            4112,
            "62e17c4811842410100000",
            "62e17c4810842410100000",
        ),
        (
            Arch::X86_64,
            82,
            64,
            4112,
            "62617c4811bc2410100000",
            "62617c4810bc2410100000",
        ),
        (Arch::AArch64, 64, 8, 520, "e00701fd", "e00741fd"),
        (Arch::AArch64, 95, 16, 528, "ff87803d", "ff87c03d"),
        (Arch::PowerPc64, 45, 8, 520, "d9a10208", "c9a10208"),
        (
            Arch::PowerPc64,
            108,
            16,
            528,
            "398002107fe161ce",
            "398002107fe160ce",
        ),
        (Arch::PowerPc64ElfV2, 45, 8, 520, "d9a10208", "c9a10208"),
        (
            Arch::PowerPc64ElfV2,
            108,
            16,
            528,
            "398002107fe161ce",
            "398002107fe160ce",
        ),
        (Arch::PowerPc64Le, 45, 8, 520, "0802a1d9", "0802a1c9"),
        (
            Arch::PowerPc64Le,
            108,
            16,
            528,
            "10028039ce61e17f",
            "10028039ce60e17f",
        ),
        (Arch::SystemZ, 16, 8, 520, "6000f208", "6800f208"),
        (Arch::SystemZ, 22, 8, 520, "6050f208", "6850f208"),
        (Arch::SystemZ, 25, 16, 528, "e7a0f210000e", "e7a0f2100006"),
        (Arch::SystemZ, 31, 16, 528, "e7f0f210000e", "e7f0f2100006"),
        (Arch::RiscV64, 32, 8, 504, "273c011e", "0730811f"),
        (Arch::RiscV64, 63, 8, 536, "273cf121", "873f8121"),
    ] {
        let (machine, number) = (Machine::of(arch), crate::addr::DwarfReg::new(reg));
        assert_eq!(hex(|out| machine.store(number, size, at, out)), store, "{arch}");
        assert_eq!(hex(|out| machine.load(number, size, at, out)), load, "{arch}");
    }
}

/// What a live-register exit is made of depends on the order of bytes alone.
#[test]
fn exits_of_both_conventions_of_powerpc64_are_the_same() {
    let of = |arch| {
        let machine = Machine::of(arch);
        let mut out = Vec::new();
        machine.lower_stack(816, &mut out);
        for (reg, size) in [(3, 8), (31, 8), (33, 8), (70, 4), (79, 16)] {
            machine.store(crate::addr::DwarfReg::new(reg), size, 544, &mut out);
            machine.load(crate::addr::DwarfReg::new(reg), size, 544, &mut out);
        }
        machine.raise_stack(816, &mut out);
        out
    };
    let little = of(Arch::PowerPc64Le);
    let swapped: Vec<u8> = little
        .chunks_exact(4)
        .flat_map(|word| word.iter().rev().copied())
        .collect();
    assert_eq!(of(Arch::PowerPc64ElfV2), swapped);
    assert_eq!(of(Arch::PowerPc64), swapped);
}

/// As `llvm-mc-19` encodes `lea rsp,[rsp-816]`, `sub sp,sp,#816`, `stdu 1,-816(1)`, `lay
/// %r15,-816(%r15)`, `addi sp,sp,-816`, and the other way.
#[test]
fn the_stack_pointer_is_moved_as_llvm_does() {
    for (arch, lower, raise) in [
        (Arch::X86_64, "488da424d0fcffff", "488da42430030000"),
        (Arch::AArch64, "ffc30cd1", "ffc30c91"),
        (Arch::PowerPc64, "f821fcd1", "38210330"),
        (Arch::PowerPc64ElfV2, "f821fcd1", "38210330"),
        (Arch::PowerPc64Le, "d1fc21f8", "30032138"),
        (Arch::SystemZ, "e3f0fcd0ff71", "e3f0f3300071"),
        (Arch::RiscV64, "130101cd", "13010133"),
    ] {
        let machine = Machine::of(arch);
        assert_eq!(hex(|out| machine.lower_stack(816, out)), lower, "{arch}");
        assert_eq!(hex(|out| machine.raise_stack(816, out)), raise, "{arch}");
    }
}
