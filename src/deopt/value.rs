use core::fmt;

/// The most bytes that a value can have: a 512-bit vector.
pub(super) const MAX: usize = 64;

/// The value of a location: its bytes, least significant first, as many as the location has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Value {
    bytes: [u8; MAX],
    len: u8,
}

impl Value {
    /// A value of these bytes; `None` for more than 64.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut value = Self {
            bytes: [0; MAX],
            len: u8::try_from(bytes.len()).ok()?,
        };
        value.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(value)
    }

    /// A signed constant, sign-extended or cut to `size` bytes; `None` for more than 64.
    #[must_use]
    pub fn sign_extended(constant: i64, size: u16) -> Option<Self> {
        let size = usize::from(size);
        let fill = if constant < 0 { 0xff } else { 0 };
        let mut bytes = [fill; MAX];
        for (to, from) in bytes.iter_mut().zip(constant.to_le_bytes()) {
            *to = from;
        }
        Self::from_bytes(bytes.get(..size)?)
    }

    /// The bytes.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
    pub fn bytes(&self) -> &[u8] {
        let bytes = self.bytes.get(..usize::from(self.len));
        bytes.expect("a value is no longer than its room")
    }

    /// The bytes, and zeros behind them.
    pub(super) const fn all_bytes(&self) -> [u8; MAX] {
        self.bytes
    }

    /// The size in bytes.
    #[must_use]
    pub fn size(&self) -> u16 {
        u16::from(self.len)
    }

    /// As an unsigned integer; `None` when it has more than 8 bytes.
    #[must_use]
    pub fn u64(&self) -> Option<u64> {
        if self.len > 8 {
            return None;
        }
        // Bytes beyond the size are 0.
        self.low().map(u64::from_le_bytes)
    }

    /// As a signed integer, sign-extended from its size; `None` when it has more than 8 bytes.
    #[must_use]
    pub fn i64(&self) -> Option<i64> {
        let raw = self.u64()? as i64;
        let unused = 64 - 8 * u32::from(self.len);
        Some(raw.checked_shl(unused)?.checked_shr(unused).unwrap_or(0))
    }

    /// The low 8 bytes as a floating-point number; `None` when there are fewer.
    #[must_use]
    pub fn f64(&self) -> Option<f64> {
        (self.len >= 8).then(|| self.low().map(f64::from_le_bytes))?
    }

    /// The low 4 bytes as a floating-point number; `None` when there are fewer.
    #[must_use]
    pub fn f32(&self) -> Option<f32> {
        (self.len >= 4).then(|| self.low().map(f32::from_le_bytes))?
    }

    /// A number of single precision in the double format, in which some registers hold it, and
    /// where the bits of what is no number go along (Power ISA book I, 4.6.2).
    pub(super) fn single_as_double(number: f32) -> Self {
        let bits = number.to_bits();
        if number.is_nan() {
            let (sign, fraction) = (u64::from(bits >> 31), u64::from(bits & 0x007f_ffff));
            return Self::from(sign << 63 | 0x7ff << 52 | fraction << 29);
        }
        Self::from(f64::from(number))
    }

    /// The number of single precision that a register holds as a double.
    pub(super) fn double_as_single(number: f64) -> Self {
        let bits = number.to_bits();
        let single = match number.is_nan() {
            true => (bits >> 32) as u32 & 0xff80_0000 | (bits >> 29) as u32 & 0x007f_ffff,
            false => (number as f32).to_bits(),
        };
        Self {
            len: 4,
            ..Self::from(u64::from(single))
        }
    }

    fn low<const N: usize>(&self) -> Option<[u8; N]> {
        self.bytes.first_chunk().copied()
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::of(value.to_le_bytes())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::of(value.to_le_bytes())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::of(value.to_le_bytes())
    }
}

impl Value {
    fn of(low: [u8; 8]) -> Self {
        let mut bytes = [0; MAX];
        for (to, from) in bytes.iter_mut().zip(low) {
            *to = from;
        }
        Self { bytes, len: 8 }
    }
}

impl fmt::Debug for Value {
    /// The number in hexadecimal, most significant digit first, all bytes of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        for byte in self.bytes().iter().rev() {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn integers_extend_from_their_size() {
        let value = Value::from_bytes(&[0xfe, 0xff]).unwrap();
        assert_eq!((value.u64(), value.i64()), (Some(0xfffe), Some(-2)));
        assert_eq!(Value::from(u64::MAX).i64(), Some(-1));
        assert_eq!(Value::from_bytes(&[]).unwrap().u64(), Some(0));
        assert_eq!(Value::from_bytes(&[]).unwrap().i64(), None);
        assert_eq!(Value::from_bytes(&[0; 9]).unwrap().u64(), None);
        assert!(Value::from_bytes(&[0; 65]).is_none());
    }

    #[test]
    fn constants_extend_to_their_size() {
        assert_eq!(Value::sign_extended(-1, 16).unwrap().bytes(), [0xff; 16]);
        assert_eq!(Value::sign_extended(-2, 1).unwrap().bytes(), [0xfe]);
        assert_eq!(Value::sign_extended(5, 4).unwrap().bytes(), [5, 0, 0, 0]);
        assert!(Value::sign_extended(0, 65).is_none());
    }

    #[test]
    fn floats_need_their_bytes() {
        assert_eq!(Value::from(1.5f64).f64(), Some(1.5));
        let single = Value::from_bytes(&2.5f32.to_le_bytes()).unwrap();
        assert_eq!((single.f32(), single.f64()), (Some(2.5), None));
        assert_eq!(std::format!("{single:?}"), "0x40200000");
    }

    #[test]
    fn numbers_of_single_precision_are_the_same_as_doubles() {
        let numbers = [
            0.0,
            -0.0,
            1.5,
            f32::MIN_POSITIVE,
            f32::from_bits(1),
            f32::MAX,
            f32::INFINITY,
        ];
        // Quiet and signalling.
        let none = [0x7fc0_0001, 0x7f80_0001, 0xffbf_ffff].map(f32::from_bits);
        for number in numbers.into_iter().chain(none) {
            let double = Value::single_as_double(number).f64().unwrap();
            let back = Value::double_as_single(double);
            assert_eq!(
                (back.size(), back.f32().unwrap().to_bits()),
                (4, number.to_bits())
            );
        }
        let expected = 0xfff7_ffff_e000_0000;
        assert_eq!(
            Value::single_as_double(f32::from_bits(0xffbf_ffff)).u64(),
            Some(expected)
        );
    }
}
