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

    /// Puts a value. `None` if it cannot hold that, so that another would be [read](Self::read), or
    /// is not in the code.
    #[inline]
    #[must_use]
    pub fn put(self, value: u64, signed: bool, code: &mut [u8]) -> Option<()> {
        // protection: a-hole-holds-its-whole-value
        if self.extend(value, signed) != value {
            return None;
        }
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
            assert_eq!(field(beside).put(u64::MAX, true, &mut code), None);
        }
        assert_eq!(code, [0; 6]);
        assert_eq!(field(2).put(7, false, &mut code), Some(()));
        assert_eq!(code, [0, 0, 7, 0, 0, 0]);
    }

    /// What is put is what is read back, or nothing is put.
    #[test]
    fn a_value_is_put_whole_or_not_at_all() {
        for (len, bits) in [(1, 8), (2, 16), (4, 32)] {
            let field = OpenField {
                at: 1,
                len,
                branch_end: None,
            };
            let edge = 1_u64 << (bits - 1);
            let values = [0, 1, edge - 1, edge, 2 * edge - 1, 2 * edge];
            for value in values.into_iter().flat_map(|value| [value, value.wrapping_neg()]) {
                for signed in [false, true] {
                    let mut code = [0x55; 10];
                    match field.put(value, signed, &mut code) {
                        Some(()) => assert_eq!(field.read(&code, signed), Some(value)),
                        None => assert_eq!(code, [0x55; 10]),
                    }
                }
                let fits = [false, true].map(|signed| field.put(value, signed, &mut [0; 10]).is_some());
                let signed = value as i64;
                let (least, limit) = (-(edge as i64), edge as i64);
                assert_eq!(
                    fits,
                    [value < 2 * edge, (least..limit).contains(&signed)],
                    "{value:#x}"
                );
            }
        }
    }
}
