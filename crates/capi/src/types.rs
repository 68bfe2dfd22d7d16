//! Plain values of the interface: strings, bytes, shapes, numbers that something has; and how
//! structures are read and written that later versions may make longer.

use std::ffi::c_char;
use std::mem::{MaybeUninit, size_of};

use crate::error::{Failure, Misuse};

/// A string: UTF-8, not ended by a zero. Null with length 0 is the empty string.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_str {
    /// The first byte.
    pub data: *const c_char,
    /// The number of bytes.
    pub len: usize,
}

/// Bytes. Null with length 0 are none.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_bytes {
    /// The first byte.
    pub data: *const u8,
    /// The number of bytes.
    pub len: usize,
}

impl pp_str {
    pub(crate) const EMPTY: Self = Self {
        data: std::ptr::null(),
        len: 0,
    };

    /// A string that is lent as long as whatever has it.
    pub(crate) const fn of(text: &str) -> Self {
        Self {
            data: text.as_ptr().cast(),
            len: text.len(),
        }
    }

    /// The string.
    ///
    /// # Safety
    /// What it says is there stays there, and as it is, until the caller is done.
    pub(crate) unsafe fn get<'a>(self) -> Result<&'a str, Failure> {
        let bytes = pp_bytes {
            data: self.data.cast(),
            len: self.len,
        };
        // SAFETY: the same.
        let bytes = unsafe { bytes.get() }?;
        std::str::from_utf8(bytes).map_err(|error| Misuse::Utf8(error.valid_up_to()).into())
    }
}

impl pp_bytes {
    pub(crate) const fn of(bytes: &[u8]) -> Self {
        Self {
            data: bytes.as_ptr(),
            len: bytes.len(),
        }
    }

    /// The bytes.
    ///
    /// # Safety
    /// As for [`pp_str::get`].
    pub(crate) unsafe fn get<'a>(self) -> Result<&'a [u8], Failure> {
        // SAFETY: the same.
        unsafe { slice(self.data, self.len) }
    }
}

/// So many values in a row; null is right for none.
///
/// # Safety
/// They are there, and stay as they are, until the caller is done.
pub(crate) unsafe fn slice<'a, T>(data: *const T, count: usize) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    // protection: null-strings-are-refused
    if data.is_null() {
        return Err(Misuse::Null("the start of what has a length").into());
    }
    // protection: lengths-beyond-memory-are-refused
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Misuse::Length(count).into());
    }
    // SAFETY: neither null nor longer than anything can be; the rest the caller says.
    Ok(unsafe { std::slice::from_raw_parts(data, count) })
}

/// A structure that begins with its size, so that later versions can add to its end.
///
/// # Safety
/// It is `repr(C)`, its first field is a `usize`, and any bytes are a valid value of it, zeros above
/// all.
pub(crate) unsafe trait Growing: Copy {
    /// The size that it had at first.
    const LEAST: usize = size_of::<Self>();
}

/// Longer structures of this kind will not be.
const MOST: usize = 1 << 16;

fn size_in<T: Growing>(size: usize) -> Result<usize, Failure> {
    // protection: wrong-sizes-are-refused
    match (T::LEAST..=MOST).contains(&size) {
        true => Ok(size),
        false => Err(Misuse::Size {
            found: size,
            needed: T::LEAST,
        }
        .into()),
    }
}

/// A structure that a caller gives. One of a later version is fine as long as what this one does
/// not know of it is 0; what one of an earlier version has not is 0.
///
/// # Safety
/// It is null, or there is a structure of the size that it says.
pub(crate) unsafe fn read<T: Growing>(from: *const T) -> Result<T, Failure> {
    if from.is_null() {
        return Err(Misuse::Null("a structure").into());
    }
    // SAFETY: it begins with its size.
    let size = size_in::<T>(unsafe { from.cast::<usize>().read_unaligned() })?;
    // SAFETY: it has as many bytes as it says.
    let bytes = unsafe { slice(from.cast::<u8>(), size) }?;
    let (known, unknown) = bytes.split_at(size.min(size_of::<T>()));
    if let Some(at) = unknown.iter().position(|byte| *byte != 0) {
        return Err(Misuse::Unknown(size_of::<T>() + at).into());
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: no more than the structure has; zeros and these bytes are a valid value.
    unsafe {
        std::ptr::copy_nonoverlapping(known.as_ptr(), value.as_mut_ptr().cast(), known.len());
        Ok(value.assume_init())
    }
}

/// Where a structure is to be put whose size the caller has written.
pub(crate) struct GrowingOut<T: Growing> {
    to: *mut T,
    size: usize,
}

impl<T: Growing> GrowingOut<T> {
    /// # Safety
    /// It is null, or there is room for as many bytes as the room's first word says.
    pub(crate) unsafe fn new(to: *mut T) -> Result<Self, Failure> {
        if to.is_null() {
            return Err(Misuse::Null("the room for a structure").into());
        }
        // SAFETY: it begins with its size.
        let size = size_in::<T>(unsafe { to.cast::<usize>().read_unaligned() })?;
        Ok(Self { to, size })
    }

    /// The same where the caller may have no wish for it.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub(crate) unsafe fn maybe(to: *mut T) -> Result<Option<Self>, Failure> {
        // SAFETY: the same.
        (!to.is_null()).then(|| unsafe { Self::new(to) }).transpose()
    }

    /// Writes all but the size, as far as there is room, and zeros behind it.
    pub(crate) fn set(self, value: T) {
        const SIZE: usize = size_of::<usize>();
        let known = self.size.min(size_of::<T>());
        let from = std::ptr::from_ref(&value).cast::<u8>();
        let to = self.to.cast::<u8>();
        // SAFETY: the room is as long as was said, and the value as long as its type.
        unsafe {
            std::ptr::copy_nonoverlapping(from.add(SIZE), to.add(SIZE), known - SIZE);
            to.add(known).write_bytes(0, self.size - known);
        }
    }
}

/// Where a plain value is to be put.
///
/// # Safety
/// It is null, or may be written.
pub(crate) unsafe fn out<'a, T: Copy>(to: *mut T, empty: T) -> Result<&'a mut T, Failure> {
    if to.is_null() {
        return Err(Misuse::Null("the place for a result").into());
    }
    // SAFETY: the caller says that it may be written, and a plain value needs no drop.
    unsafe {
        to.write(empty);
        Ok(&mut *to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As long as this version's, and a byte of a later one.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Later {
        now: Now,
        later: u64,
    }

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Now {
        size: usize,
        value: u64,
    }

    // SAFETY: its size is first, and any bytes are a valid value.
    unsafe impl Growing for Now {}

    fn read_with(size: usize, later: u64) -> Result<Now, Failure> {
        let now = Now { size, value: 7 };
        let room = Later { now, later };
        // SAFETY: sizes that are longer than the room are refused before they are used.
        unsafe { read((&raw const room).cast()) }
    }

    #[test]
    fn sizes_that_no_version_has_are_refused_before_anything_is_read() {
        for size in [0, 1, 8, 15, MOST + 1, usize::MAX] {
            assert!(read_with(size, 0).is_err(), "{size}");
            let mut room = Now { size, value: 7 };
            // SAFETY: the same.
            assert!(unsafe { GrowingOut::new(&raw mut room) }.is_err(), "{size}");
        }
        assert_eq!(read_with(16, 1).unwrap(), Now { size: 16, value: 7 });
        assert_eq!(read_with(24, 0).unwrap(), Now { size: 24, value: 7 });
        assert!(
            read_with(24, 1).is_err(),
            "it asks for what this version does not know"
        );
    }
}
