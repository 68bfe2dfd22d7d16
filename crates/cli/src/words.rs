//! Words that the texts of several commands share.

/// So many of something, in the plural where that is right.
pub(crate) fn count(number: usize, what: &str) -> String {
    count_u64(number as u64, what)
}

pub(crate) fn count_u64(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
