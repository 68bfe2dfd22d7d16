//! A stack map of one record, byte by byte (version 3 of the format).

/// Where a value is.
#[derive(Clone, Copy, Debug)]
pub enum Location {
    /// In a register.
    Reg(u16, u16),
    /// The address of a stack slot.
    Direct(u16, i32),
    /// In a stack slot.
    Indirect(u16, i32, u16),
    /// A small constant.
    Constant(i32),
    /// The constant of the pool.
    Pool,
}

/// The pool's constant.
pub const POOL: u64 = 0x1122_3344_5566_7788;

/// The bytes of the section.
pub fn map(locations: &[Location]) -> Vec<u8> {
    let mut out = vec![3, 0, 0, 0];
    for count in [1u32, 1, 1] {
        out.extend(count.to_le_bytes());
    }
    for word in [0x1000u64, 24, 1, POOL, 7] {
        out.extend(word.to_le_bytes());
    }
    out.extend(4u32.to_le_bytes());
    out.extend(0u16.to_le_bytes());
    out.extend((locations.len() as u16).to_le_bytes());
    for location in locations {
        let (kind, size, reg, value) = match *location {
            Location::Reg(reg, size) => (1u8, size, reg, 0),
            Location::Direct(reg, offset) => (2, 8, reg, offset),
            Location::Indirect(reg, offset, size) => (3, size, reg, offset),
            Location::Constant(value) => (4, 8, 0, value),
            Location::Pool => (5, 8, 0, 0),
        };
        out.extend([kind, 0]);
        out.extend(size.to_le_bytes());
        out.extend(reg.to_le_bytes());
        out.extend([0, 0]);
        out.extend(value.to_le_bytes());
    }
    out.resize(out.len().next_multiple_of(8), 0);
    out.extend([0; 4]);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}
