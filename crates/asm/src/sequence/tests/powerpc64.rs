//! Return offsets at PowerPC64 sites, where who returns has to restore r2.

use super::*;

const NOP: u32 = 0x6000_0000;
const OVER: u32 = 0x4800_0008;

fn words(arch: Arch, bytes: &[u8]) -> Vec<u32> {
    let read = match arch {
        Arch::PowerPc64Le => u32::from_le_bytes,
        _ => u32::from_be_bytes,
    };
    let words = bytes.chunks_exact(4).map(|word| read(word.try_into().unwrap()));
    words.collect()
}

/// A linker's call is one instruction, so there is no room before its return offset for a jump over
/// the restore; a jump to a stub needs none.
#[test]
fn a_return_offset_behind_the_first_instruction() {
    for (arch, restore) in [
        (Arch::PowerPc64Le, 0xe841_0018),
        (Arch::PowerPc64ElfV2, 0xe841_0018),
        (Arch::PowerPc64, 0xe841_0028),
    ] {
        let at = |return_offsets| SiteContext {
            arch,
            return_offsets,
            ..site(CallShape::c(16).result().args(1), record(7))
        };
        let adds = (1..4u64).fold(seq(), |adds, number| adds.add(result(), number));
        let there = STUB.get() - SITE.get();
        let jump = 0x4800_0000 | u32::try_from(there).unwrap();
        for (return_offsets, expected) in [
            (&[4][..], [jump, restore, NOP, NOP]),
            (&[8], [jump, OVER, restore, NOP]),
            (&[12], [jump, NOP, OVER, restore]),
        ] {
            let assembled = out_of_line(&adds, &at(return_offsets), STUB);
            assert_eq!(words(arch, &assembled.code), expected, "{return_offsets:?}");
        }
        let nothing = in_place(&seq(), &at(&[4]));
        assert_eq!(words(arch, &nothing.code), [OVER, restore, NOP, NOP]);
        let refused = assemble(&adds.in_place_only(), &at(&[4]), &ENV).unwrap_err();
        assert!(
            matches!(
                refused,
                Error::SequenceTooLong {
                    stub_would_fit: true,
                    ..
                }
            ),
            "{refused}"
        );
    }
}
