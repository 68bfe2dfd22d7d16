//! What the sites of batches hold, and functions of them.

use super::*;

/// What a site holds when it is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// LLVM's call of [`plus_three`], and nops.
    Call,
    /// The same of [`times_five`].
    OtherCall,
    Nops,
    /// Half as many again.
    LongNops,
    /// A read of a constant behind it, and a jump over that.
    Read,
}

impl Holds {
    pub(super) fn len(self) -> u32 {
        match self {
            Self::LongNops => RESERVED + RESERVED / 2,
            _ => RESERVED,
        }
    }

    pub(super) fn shape(self) -> CallShape {
        match self {
            // Its instructions are the program's.
            Self::Read => CallShape::shadow(self.len()),
            _ => CallShape::any_reg(self.len()).result().args(1),
        }
    }

    pub(super) fn bytes(self) -> Vec<u8> {
        let target = match self {
            Self::Read => {
                // addq 9(%rip),%rbx; jmp +12, over what is behind the site; nopl (%rax)
                let add = [0x48, 0x03, 0x1d, 9, 0, 0, 0];
                return [&add[..], &[0xe9, 12, 0, 0, 0], &[0x0f, 0x1f, 0x40, 0]].concat();
            }
            Self::Call => plus_three as extern "C" fn(u64) -> u64,
            Self::OtherCall => times_five,
            Self::Nops | Self::LongNops => return vec![HOST.nop[0]; self.len() as usize],
        };
        // movabsq $target,%r11; callq *%r11; nopl (%rax)
        let target = (target as usize as u64).to_le_bytes();
        [&[0x49, 0xbb][..], &target, &[0x41, 0xff, 0xd3, 0x0f, 0x1f, 0x00]].concat()
    }

    /// What the function makes of its number there.
    pub(super) fn work(self, number: u64) -> u64 {
        match self {
            Self::Call => plus_three(number),
            Self::OtherCall => times_five(number),
            Self::Nops | Self::LongNops => number.wrapping_add(1),
            Self::Read => number.wrapping_add(ADDED),
        }
    }
}

/// The constant behind a site, whose bytes trap.
const ADDED: u64 = 0xcccc_cccc_cccc_cccc;

/// Where the call of a site returns to.
pub(super) const RETURN_OFFSET: usize = 13;

extern "C" fn plus_three(number: u64) -> u64 {
    number.wrapping_add(3)
}

extern "C" fn times_five(number: u64) -> u64 {
    number.wrapping_mul(5)
}

/// The code of a function that keeps its number in %rbx, and where its sites are.
pub(super) fn code_of(holds: &[Holds]) -> (Vec<u8>, Vec<u32>) {
    // pushq %rbx; movq %rdi,%rbx
    let mut code = vec![0x53, 0x48, 0x89, 0xfb];
    let (mut offsets, added) = (Vec::new(), ADDED.to_le_bytes());
    for holds in holds {
        let (before, after): (&[u8], &[u8]) = match holds {
            // movq %rbx,%rdi; the site; movq %rax,%rbx
            Holds::Call | Holds::OtherCall => (&[0x48, 0x89, 0xdf], &[0x48, 0x89, 0xc3]),
            // incq %rbx; the site
            Holds::Nops | Holds::LongNops => (&[0x48, 0xff, 0xc3], &[]),
            // The site; the constant
            Holds::Read => (&[], &added),
        };
        code.extend(before);
        offsets.push(code.len() as u32);
        code.extend(holds.bytes());
        code.extend(after);
    }
    // movq %rbx,%rax; popq %rbx; retq
    code.extend([0x48, 0x89, 0xd8, 0x5b, 0xc3]);
    (code, offsets)
}
