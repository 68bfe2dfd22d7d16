//! Going through the code of a whole function.

/// What is `distance` bytes from the instruction at the offset `at`.
pub(super) fn target(start: u64, at: usize, distance: i64) -> u64 {
    start.wrapping_add(at as u64).wrapping_add_signed(distance)
}

/// The low `bits` of a number, as a signed one.
pub(super) const fn signed(value: u32, bits: u32) -> i64 {
    let unused = 32 - bits;
    ((value << unused) as i32 >> unused) as i64
}

/// Gives aligned words one after the other; says how far the next one is.
pub(super) fn words(code: &[u8], word: impl Fn([u8; 4]) -> u32, mut each: impl FnMut(usize, u32) -> usize) {
    let mut at = 0;
    while let Some(bytes) = code.get(at..).and_then(|rest| rest.first_chunk()) {
        // protection: branches-are-found-behind-unknown-instructions
        at += each(at, word(*bytes));
    }
}

/// The offset of the first instruction of which that is said, along with its length.
pub(super) fn first(code: &[u8], is_scalable: impl Fn(&[u8]) -> Option<(bool, usize)>) -> Option<usize> {
    let mut at = 0;
    loop {
        let (found, len) = is_scalable(code.get(at..)?)?;
        if found {
            return Some(at);
        }
        at += len;
    }
}
