//! Instructions moved to other addresses.
//!
//! A relative branch goes to where it went: one among the moved instructions is followed, a
//! conditional one becomes itself around a `b`. Instructions that read their own address are
//! refused.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use llvm_stackmaps::addr::CodeAddr;

use super::Flavor;
use super::insn;
use crate::error::{Error, Result};

/// What a conditional branch becomes: itself over a branch over a branch.
const LONGEST: u64 = 12;

/// A length that the relocated instructions and the jump behind them do not exceed.
pub(super) fn bound(bytes: &[u8]) -> u64 {
    (bytes.len() as u64)
        .div_ceil(4)
        .saturating_mul(LONGEST)
        .saturating_add(4)
}

/// What has to be done to move an instruction.
enum MoveKind {
    /// Nothing.
    Plain,
    /// `b` or `bl` to an address.
    Branch { to: u64, link: bool },
    /// `bc` to an address; `word` without its displacement.
    Conditional { to: u64, word: u32 },
}

impl MoveKind {
    fn len(&self) -> u64 {
        match self {
            Self::Plain | Self::Branch { .. } => 4,
            Self::Conditional { .. } => LONGEST,
        }
    }

    /// The instruction at `at`.
    fn of(word: u32, at: u64) -> core::result::Result<Self, String> {
        let (absolute, link) = (word & 2 != 0, word & 1 != 0);
        let refused = |what: &str| Err(format!("the instruction at {at:#x} {what}"));
        match word >> 26 {
            1 => refused("is a prefixed one, which may read its own address"),
            // addpcis
            19 if word & 0x3e == 4 => refused("reads its own address"),
            // A call of what follows is how code finds where it is.
            16 if link => refused("is a conditional call, or reads its own address"),
            16 | 18 if absolute => Ok(Self::Plain),
            18 => {
                let distance = i64::from(((word & 0x03ff_fffc) << 6) as i32 >> 6);
                let to = at.wrapping_add_signed(distance);
                match link && distance == 4 {
                    true => refused("reads its own address"),
                    false => Ok(Self::Branch { to, link }),
                }
            }
            16 => Ok(Self::Conditional {
                to: at.wrapping_add_signed(i64::from((word & 0xfffc) as u16 as i16)),
                word: word & 0xffff_0000,
            }),
            _ => Ok(Self::Plain),
        }
    }
}

/// The instructions of `bytes`, which were at `addr`, as they are executed at `at`, and a jump to
/// what followed them.
pub(super) fn relocate(flavor: Flavor, at: CodeAddr, addr: CodeAddr, bytes: &[u8]) -> Result<Vec<u8>> {
    moved(flavor, at.get(), addr.get(), bytes).map_err(|reason| Error::Relocation { addr, at, reason })
}

fn moved(flavor: Flavor, at: u64, addr: u64, bytes: &[u8]) -> core::result::Result<Vec<u8>, String> {
    if addr % 4 != 0 || at % 4 != 0 || bytes.len() % 4 != 0 {
        return Err(format!(
            "{} bytes at {addr:#x} are no whole instructions",
            bytes.len()
        ));
    }
    let words = bytes
        .chunks_exact(4)
        .filter_map(<[u8]>::first_chunk)
        .map(|word| flavor.word(*word));
    let mut places = Vec::with_capacity(bytes.len() / 4);
    let (mut from, mut to) = (addr, at);
    for word in words {
        let kind = MoveKind::of(word, from)?;
        let len = kind.len();
        places.push((from, to, word, kind));
        from = from.wrapping_add(4);
        to = to.wrapping_add(len);
    }
    let new_address = |target: u64| {
        let place = places.iter().find(|(from, ..)| *from == target);
        place.map_or(target, |(_, to, ..)| *to)
    };
    let mut out = Vec::with_capacity(places.len() * 4 + 4);
    let branch = |here: u64, target: u64| {
        let distance = target.wrapping_sub(here) as i64;
        insn::b_to(distance).ok_or_else(|| format!("no branch at {here:#x} reaches {target:#x}"))
    };
    for (_, here, word, kind) in &places {
        match *kind {
            MoveKind::Plain => flavor.put(*word, &mut out),
            MoveKind::Branch { to, link } => {
                flavor.put(branch(*here, new_address(to))? | u32::from(link), &mut out);
            }
            MoveKind::Conditional { to, word } => {
                flavor.put(word | 8, &mut out);
                flavor.put(insn::b(8), &mut out);
                flavor.put(branch(here.wrapping_add(8), new_address(to))?, &mut out);
            }
        }
    }
    flavor.put(branch(to, from)?, &mut out);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::{BIG_V1, BIG_V2, LITTLE};
    use super::*;
    use crate::backend::Backend;

    fn moved_words(words: &[u32], at: u64) -> core::result::Result<Vec<u32>, String> {
        let backend = &BIG_V1;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let (from, to) = (CodeAddr::new(0x1000), CodeAddr::new(at));
        match backend.relocate(to, from, &bytes) {
            Ok(code) => {
                assert!(code.len() as u64 <= backend.relocated_bound(from, &bytes));
                Ok(code
                    .chunks_exact(4)
                    .map(|w| u32::from_be_bytes(w.try_into().unwrap()))
                    .collect())
            }
            Err(Error::Relocation { reason, .. }) => Err(reason),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn what_does_not_depend_on_its_place_stays() {
        // add; ba 0x100; bctrl
        let words = [0x7c64_2a14, 0x4800_0102, 0x4e80_0421];
        let moved = moved_words(&words, 0x2000).unwrap();
        assert_eq!(moved[..3], words);
        // To 0x100c from 0x200c.
        assert_eq!(moved[3], 0x4bff_f000);
        let little: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let code = LITTLE
            .relocate(CodeAddr::new(0x2000), CodeAddr::new(0x1000), &little)
            .unwrap();
        assert_eq!(code[..12], little);
        let big: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let code = BIG_V2
            .relocate(CodeAddr::new(0x2000), CodeAddr::new(0x1000), &big)
            .unwrap();
        assert_eq!(code[..12], big);
    }

    #[test]
    fn branches_go_where_they_went() {
        // b 0x1100; bl 0x0f04; beq 0x1200
        let moved = moved_words(&[0x4800_0100, 0x4bff_ff01, 0x4182_01f8], 0x2000).unwrap();
        assert_eq!(moved[0], insn::b(0x1100 - 0x2000));
        assert_eq!(moved[1], insn::b(0x0f04 - 0x2004) | 1);
        assert_eq!(moved[2..5], [0x4182_0008, insn::b(8), insn::b(0x1200 - 0x2010)]);
        assert_eq!(moved[5], insn::b(0x100c - 0x2014));
    }

    #[test]
    fn branches_among_the_moved_are_followed() {
        // beq 0x1008; nop; nop; b 0x1000
        let moved = moved_words(&[0x4182_0008, insn::NOP, insn::NOP, 0x4bff_fff4], 0x2000).unwrap();
        assert_eq!(moved[..3], [0x4182_0008, insn::b(8), insn::b(8)]);
        assert_eq!(moved[5], insn::b(0x2000 - 0x2014));
    }

    #[test]
    fn what_means_something_else_at_another_address_is_refused() {
        // bcl 20, 31, .+4; bl .+4; addpcis 3, 0; a prefix
        for word in [0x429f_0005, 0x4800_0005, 0x4c60_0004, 0x0600_0000] {
            assert!(moved_words(&[word, insn::NOP], 0x2000).is_err(), "{word:#x}");
        }
        assert!(
            LITTLE
                .relocate(CodeAddr::new(0x2000), CodeAddr::new(0x1000), &[0; 6])
                .is_err()
        );
    }

    #[test]
    fn out_of_reach_is_refused() {
        let furthest = 0x1004 + (1 << 25) - 4;
        assert!(moved_words(&[insn::NOP], furthest - 4 + 4).is_ok());
        assert!(moved_words(&[insn::NOP], furthest + 4).is_err());
        // b 0x1100 is nearer to its target than to what follows.
        assert!(moved_words(&[0x4800_0100], 0x1004 + (1 << 25) - 4).is_ok());
    }
}
