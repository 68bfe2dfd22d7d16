use crate::addr::ByteOffset;
use crate::error::{Error, Result};

/// The byte order of a stack map: that of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    #[inline]
    pub(super) fn u16(self, raw: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(raw),
            Self::Big => u16::from_be_bytes(raw),
        }
    }

    #[inline]
    pub(super) fn u32(self, raw: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(raw),
            Self::Big => u32::from_be_bytes(raw),
        }
    }

    #[inline]
    pub(super) fn u64(self, raw: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(raw),
            Self::Big => u64::from_be_bytes(raw),
        }
    }
}

/// Bytes with the order in which their integers are to be read.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) endian: Endian,
}

macro_rules! read {
    ($name:ident, $int:ty, $size:literal) => {
        #[inline]
        pub(crate) fn $name(self, at: usize) -> Option<$int> {
            let raw: [u8; $size] = self.data.get(at..)?.get(..$size)?.try_into().ok()?;
            Some(match self.endian {
                Endian::Little => <$int>::from_le_bytes(raw),
                Endian::Big => <$int>::from_be_bytes(raw),
            })
        }
    };
}

impl Bytes<'_> {
    #[inline]
    pub(crate) fn u8(self, at: usize) -> Option<u8> {
        self.data.get(at).copied()
    }
    read!(u16, u16, 2);
    read!(u32, u32, 4);
    read!(u64, u64, 8);
}

/// The error for bytes that end before `what`, which needs `needed` bytes at `at`.
pub(crate) fn truncated(what: &'static str, at: usize, needed: u64, have: usize) -> Error {
    Error::StackMapTruncated {
        what,
        at: ByteOffset::new(at as u64),
        needed,
        have: have.saturating_sub(at) as u64,
    }
}

/// The end of `count` items of `size` bytes at `at`, checked to lie inside the bytes.
pub(crate) fn span(data: &[u8], what: &'static str, at: usize, count: u64, size: u64) -> Result<usize> {
    let needed = count.saturating_mul(size);
    usize::try_from(needed)
        .ok()
        .and_then(|n| at.checked_add(n))
        .filter(|end| *end <= data.len())
        .ok_or_else(|| truncated(what, at, needed, data.len()))
}
