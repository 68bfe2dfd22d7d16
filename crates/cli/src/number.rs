//! Numbers as the command line and files of shapes write them.

/// A decimal number, or a hexadecimal one behind `0x`.
pub(crate) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// An ID, of which the IR may have written a negative number.
pub(crate) fn record_id(text: &str) -> Option<u64> {
    number(text).or_else(|| text.parse::<i64>().ok().map(|id| id as u64))
}
