//! How much memory the process has allocated, as its C library counts it.

/// The bytes in use, with what the allocator needs for them.
pub fn in_use() -> i64 {
    // SAFETY: it only reads the allocator's own figures.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as i64
}

/// What a block of so many bytes takes.
pub fn of_block(len: i64) -> i64 {
    let block = vec![0u8; len as usize];
    // SAFETY: the block is the allocator's.
    let usable = unsafe { libc::malloc_usable_size(block.as_ptr().cast_mut().cast()) };
    (usable + size_of::<usize>()) as i64
}
