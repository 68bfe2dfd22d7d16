//! The rule for sites that are changed while threads execute them.

use core::ops::RangeInclusive;

#[cfg(test)]
use llvm_stackmaps::addr::CodeAddr;
use patchpoint_isa::{SiteContext, SiteName};

use super::dispatch::isa;
use super::facts::{DecodedCode, Dest, Exchange, Facts, Flow};
use crate::error::{Error, Result};

/// Checks that `old`, which the site holds, can be made `new` under execution: all bytes that
/// differ belong to one instruction, which is at the same place in both, lie inside one
/// naturally aligned quadword, and both instructions are of those that the architecture lets be
/// exchanged: see its decoder for the rule.
///
/// # Errors
/// [`Error::Exchange`].
pub fn check_exchange(site: &SiteContext<'_>, old: &[u8], new: &[u8]) -> Result<()> {
    let refused = |what| Error::Exchange {
        site: SiteName::of(site),
        what,
    };
    if old.len() != new.len() {
        return Err(refused("the old and the new bytes are not equally many"));
    }
    let Some(differing) = differing(site.addr.get(), old, new) else {
        return Ok(());
    };
    let (first, last) = (*differing.start(), *differing.end());
    let before = containing(site, old, first)?.ok_or_else(|| refused("the old bytes do not decode"))?;
    let after = containing(site, new, first)?.ok_or_else(|| refused("the new bytes do not decode"))?;
    // protection: constant-tail
    if (before.addr, before.len) != (after.addr, after.len) || last >= before.end() {
        return Err(refused("more than one instruction changes"));
    }
    let exchange = Exchange {
        before: &before,
        after: &after,
        old: bytes_of(site, old, &before),
        new: bytes_of(site, new, &after),
        differing,
    };
    // protection: exchangeable-instructions-only
    (isa(site.arch).exchange)(&exchange).map_err(refused)
}

/// The addresses of the first and the last byte that differ.
fn differing(addr: u64, old: &[u8], new: &[u8]) -> Option<RangeInclusive<u64>> {
    let differs = || old.iter().zip(new).map(|(a, b)| a != b);
    let first = differs().position(|differs| differs)?;
    let last = old
        .len()
        .checked_sub(1 + differs().rev().position(|differs| differs)?)?;
    Some(addr.wrapping_add(first as u64)..=addr.wrapping_add(last as u64))
}

fn bytes_of<'a>(site: &SiteContext<'_>, bytes: &'a [u8], facts: &Facts) -> &'a [u8] {
    let start = facts.addr.wrapping_sub(site.addr.get()) as usize;
    bytes
        .get(start..start.saturating_add(facts.len.into()))
        .expect("an instruction lies in the bytes from which it was decoded")
}

/// Checks that `old`, which a shadow holds, can be made `new` under execution: the first bytes
/// become the trap, which is no longer than any instruction, inside one naturally aligned quadword,
/// the instruction that was there may become a trap under execution, and nothing else changes.
///
/// # Errors
/// [`Error::Exchange`].
pub fn check_trap(site: &SiteContext<'_>, old: &[u8], new: &[u8]) -> Result<()> {
    let trap = isa(site.arch).trap;
    let at = site.addr.get();
    let one_store = at / 8 == at.wrapping_add(trap.len() as u64 - 1) / 8;
    let (kept, rest) = (old.get(trap.len()..), new.strip_prefix(trap));
    // protection: trap-replaces-an-instruction-only
    if !one_store || kept.is_none() || kept != rest {
        return Err(not_a_trap(site));
    }
    (isa(site.arch).trap_replaces)(old).map_err(|what| Error::Exchange {
        site: SiteName::of(site),
        what,
    })
}

/// Checks that `old` can be rewritten as `new` while threads come to a trap at the site's start, and
/// without waiting for any that came before: no thread can be between bytes that change. Either all
/// of them belong to the first of the old instructions, or that always jumps past them.
///
/// That nothing else branches or returns to between them is known of the site, not of its bytes.
///
/// # Errors
/// [`Error::Exchange`].
pub fn check_rewrite(site: &SiteContext<'_>, old: &[u8], new: &[u8]) -> Result<()> {
    let refused = |what| Error::Exchange {
        site: SiteName::of(site),
        what,
    };
    if old.len() != new.len() {
        return Err(refused("the old and the new bytes are not equally many"));
    }
    let at = site.addr.get();
    let Some(differing) = differing(at, old, new) else {
        return Ok(());
    };
    // What is behind a jump is whatever was there: nobody executes it.
    let first = first_of(site, old).ok_or_else(|| refused("the old bytes do not decode"))?;
    first_of(site, new).ok_or_else(|| refused("the new bytes do not decode"))?;
    let last = *differing.end();
    let jumps_past = match first.flow {
        Flow::Jump(Dest::Address(to)) => to <= at || to > last,
        _ => false,
    };
    // protection: nobody-is-between-rewritten-bytes
    match last < first.end() || jumps_past {
        true => Ok(()),
        false => Err(refused("a thread may be between the bytes that change")),
    }
}

fn not_a_trap(site: &SiteContext<'_>) -> Error {
    Error::Exchange {
        site: SiteName::of(site),
        what: "more changes than the first bytes, or not to a trap, or not by one aligned store",
    }
}

/// The first instruction of the bytes of a site.
pub(super) fn first_of(site: &SiteContext<'_>, bytes: &[u8]) -> Option<Facts> {
    let mut code = DecodedCode::new();
    // Whatever follows it may not decode.
    let _ = (isa(site.arch).decode)(site.addr.get(), bytes, &mut code);
    code.first()
        .copied()
        .filter(|first| first.addr == site.addr.get())
}

/// The instruction that holds the byte at `addr`.
fn containing(site: &SiteContext<'_>, bytes: &[u8], addr: u64) -> Result<Option<Facts>> {
    let mut code = DecodedCode::new();
    let decoded = (isa(site.arch).decode)(site.addr.get(), bytes, &mut code);
    Ok(code
        .into_iter()
        .find(|facts| decoded.is_ok() && facts.addr <= addr && addr < facts.end()))
}

/// The same for bytes at an address of which nothing else is known.
#[cfg(test)]
fn allowed(addr: u64, old: &[u8], new: &[u8]) -> bool {
    use llvm_stackmaps::Constants;
    use patchpoint_isa::{Arch, CallShape};
    let site = SiteContext {
        arch: Arch::X86_64,
        id: Default::default(),
        function: None,
        offset: Default::default(),
        addr: CodeAddr::new(addr),
        shape: CallShape::entry(old.len() as u32),
        record: None,
        constants: Constants::NONE,
        return_offsets: &[],
        trust_live_outs: false,
    };
    check_exchange(&site, old, new).is_ok()
}

#[cfg(test)]
mod tests {
    use super::allowed;

    const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
    const JUMP: [u8; 5] = [0xe9, 0x10, 0x20, 0x30, 0x00];

    fn site(before: &[u8], patchable_jump: &[u8], tail: &[u8]) -> Vec<u8> {
        [before, patchable_jump, tail].concat()
    }

    #[test]
    fn a_patchable_jump_in_one_quadword_may_change() {
        for before in 0..=3 {
            let before = &[0x90; 3][..before];
            let (nop, jump) = (site(before, &NOP, &[0x90; 4]), site(before, &JUMP, &[0x90; 4]));
            assert!(allowed(0x1000, &nop, &jump) && allowed(0x1000, &jump, &nop));
            assert!(allowed(0x1000, &nop, &nop));
        }
    }

    #[test]
    fn a_patchable_jump_across_a_boundary_may_not() {
        for at in 0x1004..0x1008 {
            let jump = site(&[], &JUMP, &[0x90]);
            assert!(!allowed(at, &site(&[], &NOP, &[0x90]), &jump), "{at:#x}");
        }
    }

    #[test]
    fn a_changed_byte_around_the_patchable_jump_is_refused() {
        let old = site(&[0x90], &NOP, &[0x66, 0x90]);
        assert!(!allowed(0x1000, &old, &site(&[0x90], &JUMP, &[0x90, 0x90])));
        assert!(!allowed(0x1000, &old, &site(&[0x90], &NOP, &[0x90, 0x90])));
        let old = site(&[0x66, 0x90], &NOP, &[]);
        assert!(!allowed(0x1000, &old, &site(&[0x90, 0x90], &JUMP, &[])));
    }

    #[test]
    fn other_instructions_are_refused() {
        let (mov, call) = ([0xb8, 1, 2, 3, 4], [0xe8, 1, 2, 3, 4]);
        assert!(!allowed(0x1000, &mov, &NOP) && !allowed(0x1000, &NOP, &call));
        assert!(!allowed(0x1000, &[0x90; 5], &NOP));
        // A short jump and three nops hold the same number of bytes.
        assert!(!allowed(0x1000, &NOP, &[0xeb, 0x03, 0x0f, 0x1f, 0x00]));
        assert!(!allowed(0x1000, &NOP, &[0x90; 6]));
    }
}
