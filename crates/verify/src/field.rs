//! Bytes of an instruction that may hold another value.

use llvm_stackmaps::addr::CodeAddr;

/// Bytes that may vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenField {
    /// Its first byte's offset.
    pub at: usize,
    /// How many bytes: 1, 2, 4 or 8.
    pub len: usize,
    /// Of a branch that leaves: the offset of the instruction's end, from which its distance
    /// counts.
    pub branch_end: Option<usize>,
}

impl OpenField {
    /// Its bytes in code, as a little-endian number, not extended.
    #[inline]
    fn raw(self, code: &[u8]) -> Option<u64> {
        let bytes = code.get(self.at..)?;
        // Each of a length that is known, where a copy is one load.
        Some(match self.len {
            1 => u64::from(*bytes.first()?),
            2 => u16::from_le_bytes(*bytes.first_chunk()?).into(),
            4 => u32::from_le_bytes(*bytes.first_chunk()?).into(),
            _ => u64::from_le_bytes(*bytes.first_chunk()?),
        })
    }

    /// What it holds, extended with zeros or with its sign.
    #[inline]
    pub fn read(self, code: &[u8], signed: bool) -> Option<u64> {
        Some(self.extend(self.raw(code)?, signed))
    }

    /// The low bytes of a number, as many as it has, extended with zeros or with their sign.
    #[inline]
    fn extend(self, value: u64, signed: bool) -> u64 {
        let unused = 64 - 8 * self.len as u32;
        let high = value << unused;
        match signed {
            true => ((high as i64) >> unused) as u64,
            false => high >> unused,
        }
    }

    /// Whether it can hold a value: what is read back is what was put.
    #[inline]
    pub fn can_hold(self, value: u64, signed: bool) -> bool {
        self.extend(value, signed) == value
    }

    /// Puts the low bytes of a number; `None` if the field is not in the code.
    #[inline]
    #[must_use]
    pub fn put(self, value: u64, code: &mut [u8]) -> Option<()> {
        let code = code.get_mut(self.at..)?;
        // As in `raw`.
        match self.len {
            1 => *code.first_chunk_mut()? = [value as u8],
            2 => *code.first_chunk_mut()? = (value as u16).to_le_bytes(),
            4 => *code.first_chunk_mut()? = (value as u32).to_le_bytes(),
            _ => *code.first_chunk_mut()? = value.to_le_bytes(),
        }
        Some(())
    }

    /// The branch's target in code at an address.
    #[inline]
    pub fn target(self, code: &[u8], at: CodeAddr) -> Option<u64> {
        let end = at.get().wrapping_add(self.branch_end? as u64);
        Some(end.wrapping_add(self.read(code, true)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_not_put_beside_the_code() {
        let field = |at| OpenField {
            at,
            len: 4,
            branch_end: None,
        };
        let mut code = [0; 6];
        for beside in [3, 6, 7] {
            assert_eq!(field(beside).put(u64::MAX, &mut code), None);
        }
        assert_eq!(code, [0; 6]);
        assert_eq!(field(2).put(7, &mut code), Some(()));
        assert_eq!(code, [0, 0, 7, 0, 0, 0]);
    }
}
