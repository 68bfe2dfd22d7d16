use crate::Endian;
use crate::addr::{ByteOffset, CodeAddr};
use crate::bytes::Bytes;
use crate::error::{Error, Result};

/// A place in a table that moves on with each thing read.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) bytes: Bytes<'a>,
    pub(super) at: usize,
    /// What the table is, for errors.
    pub(super) table: &'static str,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(table: &'static str, data: &'a [u8], endian: Endian) -> Self {
        Self {
            bytes: Bytes { data, endian },
            at: 0,
            table,
        }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.data.len()
    }

    pub(super) fn offset(&self) -> ByteOffset {
        ByteOffset::new(self.at as u64)
    }

    pub(super) fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    /// Passes over `count` items of `size` bytes and returns where they start.
    pub(super) fn skip(&mut self, what: &'static str, count: u64, size: u64) -> Result<usize> {
        let (start, needed) = (self.at, count.saturating_mul(size));
        if needed == 0 {
            // Also behind the end, where an alignment went beyond it.
            return Ok(start);
        }
        let end = usize::try_from(needed)
            .ok()
            .and_then(|needed| start.checked_add(needed))
            .filter(|end| *end <= self.bytes.data.len());
        self.at = end.ok_or_else(|| self.truncated(what, needed))?;
        Ok(start)
    }

    pub(super) fn truncated(&self, what: &'static str, needed: u64) -> Error {
        Error::TableTruncated {
            table: self.table,
            what,
            at: self.offset(),
            needed,
            have: self.bytes.data.len().saturating_sub(self.at) as u64,
        }
    }

    /// An unsigned integer of 1, 2, 4 or 8 bytes.
    pub(super) fn uint(&mut self, what: &'static str, size: u8) -> Result<u64> {
        let (bytes, at) = (self.bytes, self.at);
        let value = match size {
            1 => bytes.u8(at).map(u64::from),
            2 => bytes.u16(at).map(u64::from),
            4 => bytes.u32(at).map(u64::from),
            _ => bytes.u64(at),
        };
        let value = value.ok_or_else(|| self.truncated(what, u64::from(size)))?;
        self.at += usize::from(size);
        Ok(value)
    }

    /// An i32 that counts something.
    pub(super) fn count(&mut self, what: &'static str) -> Result<u32> {
        let at = self.offset();
        let raw = self.uint(what, 4)? as u32;
        if i32::try_from(raw).is_err() {
            let (table, count) = (self.table, raw as i32);
            return Err(Error::TableCount {
                table,
                what,
                at,
                count,
            });
        }
        Ok(raw)
    }

    /// An unsigned LEB128 number of at most 64 bits. Source: DWARF 5, section 7.6.
    pub(super) fn leb128(&mut self, what: &'static str) -> Result<u64> {
        let start = *self;
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.uint(what, 1)?;
            let bits = byte & 0x7f;
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::TableNumber {
            table: self.table,
            what,
            at: start.offset(),
        })
    }

    /// The address that an entry gives relative to itself, where the table's first byte is at
    /// `base`.
    pub(super) fn relative_pc(&mut self, base: CodeAddr, wide: bool) -> Result<CodeAddr> {
        let at = self.offset();
        let distance = if wide {
            self.uint("an address", 8)? as i64
        } else {
            i64::from(self.uint("an address", 4)? as u32 as i32)
        };
        let pc = base.get().checked_add(at.get());
        pc.and_then(|entry| entry.checked_add_signed(distance))
            .map(CodeAddr::new)
            .ok_or(Error::TableAddress {
                table: self.table,
                at,
                base,
                distance,
            })
    }
}
