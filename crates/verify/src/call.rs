//! The rule for call sites: what is there after a change is what was there, with another
//! target.

use alloc::vec::Vec;

use llvm_stackmaps::addr::CodeAddr;
use patchpoint_isa::{SiteContext, SiteName};

use super::dispatch::isa;
use super::facts::{DecodedCode, Dest, Facts, Flow, Sort};
use crate::error::{Error, Result};

/// Checks that `new` is the call or jump `old`, which is at the site, but with the target `to`:
/// only the bits of its operand differ, and it decodes to a branch of the same sort to that
/// address.
///
/// # Errors
/// [`Error::Call`].
pub fn check_call(site: &SiteContext<'_>, old: &[u8], new: &[u8], to: CodeAddr) -> Result<()> {
    let refused = |what| Error::Call {
        site: SiteName::of(site),
        what,
    };
    if old.len() != new.len() {
        return Err(refused("the old and the new bytes are not equally many"));
    }
    let distance = (isa(site.arch).distance)(old.len()).ok_or_else(|| refused("no call has this length"))?;
    let kept = |bytes: &[u8]| -> Vec<u8> {
        let kept = bytes.iter().zip(distance);
        kept.map(|(byte, distance)| byte & !distance).collect()
    };
    // protection: calls-stay-calls
    if kept(old) != kept(new) {
        return Err(refused("more than the distance of a call changes"));
    }
    let (was, is) = (branch(site, old), branch(site, new));
    match (was, is) {
        // protection: calls-get-the-target-asked-for
        (Some((was, _)), Some((is, target))) if was == is && target == to.get() => Ok(()),
        (Some(_), Some(_)) => Err(refused("the call does not have the target that it should")),
        _ => Err(refused("its bytes are no call")),
    }
}

/// Checks that a stub at `at`, to which a PowerPC call goes, leaves for the function `to`: it saves
/// the TOC pointer where the caller restores it from, and changes nothing that the function or its
/// caller could miss.
///
/// # Errors
/// [`Error::Call`].
pub fn check_leaving(site: &SiteContext<'_>, at: CodeAddr, stub: &[u8], to: CodeAddr) -> Result<()> {
    match (isa(site.arch).leaving)(at.get(), stub) {
        Some(target) if target == to.get() => Ok(()),
        _ => Err(Error::Call {
            site: SiteName::of(site),
            what: "its stub does not leave for the function as calls do",
        }),
    }
}

/// The branch that all of the bytes are, and its target.
fn branch(site: &SiteContext<'_>, bytes: &[u8]) -> Option<(Sort, u64)> {
    let isa = isa(site.arch);
    let mut code = DecodedCode::new();
    (isa.decode)(site.addr.get(), bytes, &mut code).ok()?;
    match code.as_slice() {
        [one] => direct(one),
        [first, second] => (isa.pair)(first, second, bytes),
        _ => None,
    }
}

fn direct(facts: &Facts) -> Option<(Sort, u64)> {
    match facts.flow {
        Flow::Call(Dest::Address(to)) => Some((Sort::Call, to)),
        Flow::Jump(Dest::Address(to)) => Some((Sort::Jump, to)),
        Flow::Branch(Dest::Address(to)) => Some((Sort::Branch, to)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use llvm_stackmaps::Constants;
    use patchpoint_isa::{Arch, CallShape};

    use super::*;

    fn site(arch: Arch, len: usize) -> SiteContext<'static> {
        SiteContext {
            arch,
            id: Default::default(),
            function: None,
            offset: Default::default(),
            addr: CodeAddr::new(0x1000_0000),
            shape: CallShape::call(len as u32),
            record: None,
            constants: Constants::NONE,
            return_offsets: &[],
            trust_live_outs: false,
        }
    }

    fn check(arch: Arch, old: &[u8], new: &[u8], to: u64) -> Result<()> {
        check_call(&site(arch, old.len()), old, new, CodeAddr::new(to))
    }

    type Case = (Arch, &'static [u8], &'static [u8], &'static [&'static [u8]]);

    /// Of each architecture: a call of +0x100, the same of +0x104, and what is no such change.
    #[test]
    fn only_the_target_of_a_call_may_change() {
        let cases: [Case; 9] = [
            (
                Arch::PowerPc64,
                &[0x48, 0, 0x01, 0x01],
                &[0x48, 0, 0x01, 0x05],
                &[&[0x48, 0, 0x01, 0x04], &[0x48, 0, 0x01, 0x07]],
            ),
            (
                Arch::PowerPc64ElfV2,
                &[0x48, 0, 0x01, 0x01],
                &[0x48, 0, 0x01, 0x05],
                &[&[0x48, 0, 0x01, 0x04], &[0x48, 0, 0x01, 0x07]],
            ),
            (
                Arch::PowerPc64Le,
                &[0x01, 0x01, 0, 0x48],
                &[0x05, 0x01, 0, 0x48],
                &[&[0x04, 0x01, 0, 0x48]],
            ),
            (
                Arch::X86_64,
                &[0xe8, 0xfb, 0, 0, 0],
                &[0xe8, 0xff, 0, 0, 0],
                &[&[0xe9, 0xff, 0, 0, 0], &[0xb8, 0xff, 0, 0, 0]],
            ),
            // jne
            (
                Arch::X86_64,
                &[0x0f, 0x85, 0xfa, 0, 0, 0],
                &[0x0f, 0x85, 0xfe, 0, 0, 0],
                &[&[0x0f, 0x84, 0xfe, 0, 0, 0]],
            ),
            (
                Arch::AArch64,
                &[0x40, 0, 0, 0x94],
                &[0x41, 0, 0, 0x94],
                &[&[0x41, 0, 0, 0x14]],
            ),
            (
                Arch::SystemZ,
                &[0xc0, 0xe5, 0, 0, 0, 0x80],
                &[0xc0, 0xe5, 0, 0, 0, 0x82],
                &[&[0xc0, 0xf4, 0, 0, 0, 0x82], &[0xc0, 0xd5, 0, 0, 0, 0x82]],
            ),
            // jal ra
            (
                Arch::RiscV64,
                &[0xef, 0, 0, 0x10],
                &[0xef, 0, 0x40, 0x10],
                &[&[0x6f, 0, 0x40, 0x10]],
            ),
            // auipc ra, 0; jalr ra, 0x100(ra)
            (
                Arch::RiscV64,
                &[0x97, 0, 0, 0, 0xe7, 0x80, 0, 0x10],
                &[0x97, 0, 0, 0, 0xe7, 0x80, 0x40, 0x10],
                &[&[0x97, 0, 0, 0, 0x67, 0x80, 0x40, 0x10]],
            ),
        ];
        for (arch, old, new, others) in cases {
            check(arch, old, new, 0x1000_0104).unwrap();
            check(arch, old, old, 0x1000_0100).unwrap();
            for (new, to) in [(new, 0x1000_0108), (old, 0x1000_0104)] {
                let refused = check(arch, old, new, to);
                assert!(matches!(refused, Err(Error::Call { .. })), "{arch}");
            }
            for other in others {
                let refused = check(arch, old, other, 0x1000_0104);
                assert!(matches!(refused, Err(Error::Call { .. })), "{arch} {other:02x?}");
                let short = check(arch, old, &other[..3], 0x1000_0104);
                assert!(matches!(short, Err(Error::Call { .. })));
            }
        }
        // By another register; what is no call at all, and stays so.
        let pair = [0x97, 0, 0, 0, 0xe7, 0x80, 0, 0x10];
        let other = [0x97, 0, 0, 0, 0xe7, 0x00, 0x01, 0x10];
        assert!(check(Arch::RiscV64, &pair, &other, 0x1000_0100).is_err());
        assert!(check(Arch::RiscV64, &other, &other, 0x1000_0100).is_err());
        let mov = [0xb8, 0xfb, 0, 0, 0];
        assert!(check(Arch::X86_64, &mov, &mov, 0x1000_0100).is_err());
    }
}
