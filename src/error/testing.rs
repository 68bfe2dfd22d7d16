//! What the tests of all rooms' errors look for.

/// How many variants have a site, each of which the function `site` of that source names.
pub(crate) fn names_all_sites(source: &str) -> usize {
    let (code, _) = source.split_once("mod tests {").unwrap();
    let with_site = code.lines().filter(|line| line.contains("site: Box<SiteName>"));
    let mut named = 0;
    for line in with_site {
        let (variant, _) = line.trim_start().split_once(' ').unwrap();
        let arm = alloc::format!("Self::{variant} {{ site, .. }}");
        assert!(code.contains(&arm), "{line}");
        named += 1;
    }
    named
}
