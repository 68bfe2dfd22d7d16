//! Return addresses that are signed: AArch64's pointer authentication.
//!
//! **Problem.** Code that is compiled so, as all of some distributions' libraries are, spills its
//! return address with a signature in the bits that an address does not need: on a stack it is not
//! the address to which it returns. Who looks for return addresses there and compares words would
//! overlook it.
//!
//! **Approach.** The signature is taken off every word before it is compared. `xpaclri` does that
//! for the link register as the system has set up addresses; it is among the hints, which
//! processors without the extension pass over (Arm ARM, C6.2, XPACLRI). What is no address becomes
//! some other word by it, and may be taken for an address within: then a thread counts as inside
//! that is not.

/// A return address as it is without a signature, if it may have one.
#[inline]
pub(crate) fn strip(word: u64) -> u64 {
    #[cfg(target_arch = "aarch64")]
    {
        aarch64::strip(word)
    }
    #[cfg(not(target_arch = "aarch64"))]
    word
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    #![allow(unsafe_code)]

    use core::arch::asm;

    #[inline]
    pub(super) fn strip(word: u64) -> u64 {
        let stripped;
        // SAFETY: changes x30 only. `xpaclri`, as a hint for assemblers that do not know it.
        unsafe {
            asm!("hint #7", inlateout("x30") word => stripped, options(pure, nomem, nostack, preserves_flags));
        }
        stripped
    }
}

/// What the instruction does, for tests on machines that have none: a signature is in the bits of
/// the mask, and bit 55 says what these are in an address (Arm ARM, `Strip`).
#[cfg(test)]
pub(crate) const fn without(word: u64, mask: u64) -> u64 {
    match word >> 55 & 1 {
        0 => word & !mask,
        _ => word | mask,
    }
}

/// The bits of a signature where addresses have 48 bits, and their top byte counts.
#[cfg(test)]
pub(crate) const MASK_48: u64 = 0xff7f << 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_taken_off() {
        let address = 0x0000_7f12_3456_7890;
        let kernel = 0xffff_8000_0012_3456;
        assert_eq!(without(0x3c55_7f12_3456_7890, MASK_48), address);
        assert_eq!(without(0x81aa_8000_0012_3456, MASK_48), kernel);
        for plain in [address, kernel, 0, u64::MAX] {
            assert_eq!(without(plain, MASK_48), plain);
        }
    }

    /// Where nothing is signed, nothing is taken off.
    #[test]
    fn addresses_stay_what_they_are() {
        let here = 0_u64;
        for plain in [
            0,
            1,
            0x1234_5678,
            &raw const here as u64,
            strip as *const () as u64,
        ] {
            assert_eq!(strip(plain), plain);
        }
    }

    /// By this processor, which may have no keys: then nothing is signed either.
    #[test]
    #[cfg(target_arch = "aarch64")]
    #[allow(unsafe_code)]
    fn what_the_processor_signs_is_stripped() {
        let address = addresses_stay_what_they_are as *const () as u64;
        for modifier in 0..64_u64 {
            let signed: u64;
            // SAFETY: changes x16 and x17 only: `pacia1716`, which signs x17 by x16, as a hint.
            unsafe {
                core::arch::asm!("hint #8", inlateout("x17") address => signed, in("x16") modifier,
                    options(nomem, nostack, preserves_flags));
            }
            assert_eq!(strip(signed), address, "{signed:#x}");
            assert_eq!(without(signed, MASK_48 & (signed ^ address)), address);
        }
    }
}
