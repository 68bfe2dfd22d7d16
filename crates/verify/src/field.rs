//! Bytes of an instruction that may hold another value.

use llvm_stackmaps::addr::CodeAddr;

/// Bytes that may vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its first byte's offset.
    pub at: usize,
    /// How many bytes: 1, 2, 4 or 8.
    pub len: usize,
    /// Of a branch that leaves: the offset of the instruction's end, from which its distance counts.
    pub branch_end: Option<usize>,
}

impl Field {
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

    /// Puts the low bytes of a number.
    ///
    /// # Panics
    /// If the field is not in the code.
    #[inline]
    pub fn put(self, value: u64, code: &mut [u8]) {
        const INSIDE: &str = "a field lies in the code of its template";
        let code = code.get_mut(self.at..).expect(INSIDE);
        // As in `raw`.
        match self.len {
            1 => *code.first_chunk_mut().expect(INSIDE) = [value as u8],
            2 => *code.first_chunk_mut().expect(INSIDE) = (value as u16).to_le_bytes(),
            4 => *code.first_chunk_mut().expect(INSIDE) = (value as u32).to_le_bytes(),
            _ => *code.first_chunk_mut().expect(INSIDE) = value.to_le_bytes(),
        }
    }

    /// Where the branch leads in code that stands at an address.
    #[inline]
    pub fn leads_to(self, code: &[u8], at: CodeAddr) -> Option<u64> {
        let end = at.get().wrapping_add(self.branch_end? as u64);
        Some(end.wrapping_add(self.read(code, true)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a field lies in the code of its template")]
    fn a_value_is_not_put_beside_the_code() {
        let field = Field {
            at: 2,
            len: 4,
            branch_end: None,
        };
        field.put(7, &mut [0; 5]);
    }
}
