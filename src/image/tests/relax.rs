//! Instructions that load from the global offset table, and what they become.

use super::build::{OUTSIDE, Rela, code, hex, object};
use super::*;

const BASE: u64 = 0x7000_0000_0000;
const GOTPCREL: u32 = 9;
const GOTPCRELX: u32 = 41;
const REX_GOTPCRELX: u32 = 42;

fn addrs() -> SegmentAddrs {
    SegmentAddrs {
        code: CodeAddr::new(BASE),
        read_only: CodeAddr::new(BASE + 0x1000),
        data: CodeAddr::new(BASE + 0x2000),
    }
}

/// The code when the symbol is at `target`, relaxed or not.
fn linked(bytes: &str, rela: Rela, target: u64, relaxed: bool) -> alloc::string::String {
    let bytes = object(Arch::X86_64, &[code(hex(bytes), vec![rela])], &[OUTSIDE]);
    let layout = Object::parse(&bytes).unwrap().layout().unwrap();
    let mut resolved = layout
        .allocate(addrs())
        .unwrap()
        .resolve(|_| Some(CodeAddr::new(target)))
        .unwrap();
    if relaxed {
        relax(&mut resolved).unwrap();
    }
    let linked = resolved.link().unwrap();
    let code = linked.segments[0].bytes.iter().take(8);
    code.map(|byte| alloc::format!("{byte:02x}")).collect()
}

/// Before and after as llvm-mc 19 encodes them, for a target 0x12345678 behind the start. The number is the field's offset.
#[rustfmt::skip]
const FORMS: &[(&str, u64, u32, &str)] = &[
    // mov/lea to rax, to r9, to edi; call; jmp.
    ("488b0500000000cc", 3, REX_GOTPCRELX, "488d0571563412cc"),
    ("4c8b0d00000000cc", 3, REX_GOTPCRELX, "4c8d0d71563412cc"),
    ("8b3d00000000cccc", 2, GOTPCRELX,     "8d3d72563412cccc"),
    ("ff1500000000cccc", 2, GOTPCRELX,     "67e872563412cccc"),
    ("ff2500000000cccc", 2, GOTPCRELX,     "e97356341290cccc"),
];

#[test]
fn forms_become_what_the_assembler_makes() {
    for (before, field, number, after) in FORMS {
        let rela = (*field, *number, 1, -4);
        let target = BASE + 0x1234_5678;
        assert_eq!(linked(before, rela, target, true), *after);
        // Without the pass the table is used, and nothing but the field changes.
        let (start, end) = (2 * *field as usize, 2 * *field as usize + 8);
        let kept = linked(before, rela, target, false);
        assert_eq!((&kept[..start], &kept[end..]), (&before[..start], &before[end..]));
    }
}

/// To the last byte in reach, and not beyond.
#[test]
fn what_is_out_of_reach_stays() {
    for (before, field, number, after) in FORMS {
        let rela = (*field, *number, 1, -4);
        let length = if *after == "e97356341290cccc" {
            5
        } else {
            field + 4
        };
        let next = BASE + length;
        for (target, reached) in [
            (next + 0x7fff_ffff, true),
            (next + 0x8000_0000, false),
            (next - 0x8000_0000, true),
            (next - 0x8000_0001, false),
        ] {
            let opcode = 2 * *field as usize - 4;
            let found = linked(before, rela, target, true);
            let same = found[opcode..opcode + 2] == before[opcode..opcode + 2];
            assert_eq!(!same, reached, "{before} {target:#x}: {found}");
            if !reached {
                assert_eq!(found, linked(before, rela, target, false));
            }
        }
    }
}

/// Another instruction, another relocation, or another addend: as it was.
#[test]
fn what_may_not_be_rewritten_stays() {
    let target = BASE + 0x1234_5678;
    for (bytes, rela) in [
        // add rax, [rip + x]; mov rax, [rcx + x]; mov without the relocation that allows it; the word after the address.
        ("48030500000000cc", (3, REX_GOTPCRELX, 1, -4)),
        ("488b8100000000cc", (3, REX_GOTPCRELX, 1, -4)),
        ("488b0500000000cc", (3, GOTPCREL, 1, -4)),
        ("488b0500000000cc", (3, REX_GOTPCRELX, 1, 0)),
        // At the start of the section there is no instruction.
        ("00000000cccccccc", (0, GOTPCRELX, 1, -4)),
        ("8b00000000cccccc", (1, GOTPCRELX, 1, -4)),
    ] {
        assert_eq!(
            linked(bytes, rela, target, true),
            linked(bytes, rela, target, false)
        );
    }
}
