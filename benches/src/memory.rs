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

/// From now on the C library keeps what is freed. Whether it gives that back to the kernel depends on
/// what was measured before, and decides whether a large transaction takes 250 or 450 ns a site, in
/// whatever it is made.
pub fn keep_freed() {
    // SAFETY: both are settings of the allocator's.
    let are_set = unsafe {
        [
            libc::mallopt(libc::M_MMAP_MAX, 0),
            libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX),
        ]
    };
    assert_eq!(are_set, [1, 1]);
}
