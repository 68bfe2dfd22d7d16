//! Direct branches of whole functions (z/Architecture Principles of Operation, general
//! instructions, branch-relative).

use crate::scan::target;

/// Gives the offset of each instruction that branches, and its target.
pub(crate) fn branches(start: u64, code: &[u8], _: &impl Fn(u64) -> bool, mut note: impl FnMut(usize, u64)) {
    let mut at = 0;
    while let Some(rest) = code.get(at..) {
        let Some([first, second]) = rest.first_chunk() else {
            return;
        };
        let half = || rest.get(2..4).and_then(|half| half.try_into().ok());
        let short = || half().map(|half| i64::from(i16::from_be_bytes(half)));
        let distance = match (first, second & 15) {
            // With an empty mask these are nops.
            (0xa7 | 0xc0, 4) if second >> 4 == 0 => None,
            // brc, bras, brct, brctg; brxh, brxle
            (0xa7, 4..=7) | (0x84 | 0x85, _) => short(),
            // brcl, brasl; exrl, which executes what it points at; brcth
            (0xc0, 4 | 5) | (0xc6, 0) | (0xcc, 6) => {
                let word = rest.get(2..6).and_then(|word| word.try_into().ok());
                word.map(|word| i64::from(i32::from_be_bytes(word)))
            }
            // brxhg, brxlg; cgrj, clgrj; crj, clrj; cgij, clgij; cij, clij
            (0xec, _) => match rest.get(5) {
                Some(0x44 | 0x45 | 0x64 | 0x65 | 0x76 | 0x77 | 0x7c..=0x7f) => short(),
                _ => None,
            },
            _ => None,
        };
        if let Some(halves) = distance {
            note(at, target(start, at, halves * 2));
        }
        at += match first >> 6 {
            0 => 2,
            3 => 6,
            _ => 4,
        };
    }
}
