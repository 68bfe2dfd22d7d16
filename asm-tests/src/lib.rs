//! Real objects for the tests: sources, what llc 14 and 19 made of them, and what each function must return.
//!
//! Problem: a test of a patched function needs to know what the function should then return, for sources
//! that nobody wants to calculate by hand. Approach: every source under `objects/` obeys one contract, and
//! LLVM itself compiles a reference from it.
//!
//! The contract:
//!
//! - Every function takes at most six parameters, `i64` or `ptr` (to at least 16 readable and writable
//!   64-bit words), and returns an `i64`. [`Source::functions`] lists them.
//! - A site with a result is patched with `result = first argument + ID`, or `result = ID` where it has no
//!   argument. A site without a result is patched with anything that keeps to its convention, such as nops.
//!   [`Source::sites`] gives the shapes; within one source, an ID has one shape.
//! - Patched like that, a function returns what the function of the same name in [`reference()`] returns.
//! - A function whose sites all have no result, or that LLVM filled with a call to a symbol (see
//!   [`Site::target`]), does so unpatched, too.
//! - What an object needs from outside is in [`resolve`].
#![expect(
    clippy::panic,
    reason = "test support: a fixture that is missing is a failed test"
)]

mod ir;
pub mod live;
mod symbols;

pub use ir::{Function, Param, Site, Source, Target};
pub use symbols::resolve;

use std::path::{Path, PathBuf};

/// An object that is checked in.
#[derive(Clone, Debug)]
pub struct TestObject {
    /// The file name.
    pub name: String,
    /// The source's name, such as `live` for `live.ll`.
    pub source: String,
    /// The version of llc: 14 or 19.
    pub llc: u32,
    /// The optimization level: 0 or 2.
    pub level: u32,
    /// Relocation and code model, such as `pic-large`; empty for the default.
    pub variant: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl TestObject {
    /// What `llvm-readobj --stackmap` of the same LLVM prints for it.
    ///
    /// # Panics
    ///
    /// If the file is missing.
    #[must_use]
    pub fn readobj(&self) -> String {
        let name = self.name.strip_suffix(".o").unwrap_or(&self.name);
        String::from_utf8_lossy(&read(&folder().join(format!("{name}.readobj.txt")))).into_owned()
    }
}

/// Where the sources and objects are.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("objects/x86_64")
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names in the folder with this suffix, without it, sorted.
fn names(suffix: &str) -> Vec<String> {
    let folder = folder();
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(suffix)?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Every object with a stack map, in the order of their names; the references are not among them.
///
/// # Panics
///
/// If the folder cannot be read.
#[must_use]
pub fn objects() -> Vec<TestObject> {
    names(".o").into_iter().filter_map(|name| object(&name)).collect()
}

fn object(stem: &str) -> Option<TestObject> {
    let mut parts = stem.split('.');
    let source = parts.next()?.to_owned();
    let llc = parts.next()?.strip_prefix("llc")?.parse().ok()?;
    let level = parts.next()?.strip_prefix('O')?.parse().ok()?;
    let name = format!("{stem}.o");
    Some(TestObject {
        source,
        llc,
        level,
        variant: parts.next().unwrap_or("").to_owned(),
        bytes: read(&folder().join(&name)),
        name,
    })
}

/// Every source, in the order of their names.
///
/// # Panics
///
/// If a file cannot be read or has a line that breaks the contract.
#[must_use]
pub fn sources() -> Vec<Source> {
    names(".ll").iter().map(|name| source(name)).collect()
}

/// The source of this name.
///
/// # Panics
///
/// If the file cannot be read or has a line that breaks the contract.
#[must_use]
pub fn source(name: &str) -> Source {
    let text = String::from_utf8_lossy(&read(&folder().join(format!("{name}.ll")))).into_owned();
    Source::parse(name, &text).unwrap_or_else(|line| panic!("{name}.ll: cannot read: {line}"))
}

/// The object with the reference functions of a source: the same names, every site replaced by what it is
/// patched with. It has no stack map.
///
/// # Panics
///
/// If the file cannot be read.
#[must_use]
pub fn reference(source: &str) -> Vec<u8> {
    read(&folder().join(format!("{source}.ref.o")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_compilers_and_levels_are_there() {
        let objects = objects();
        for llc in [14, 19] {
            for level in [0, 2] {
                assert!(
                    objects
                        .iter()
                        .filter(|o| o.llc == llc && o.level == level)
                        .count()
                        >= 8
                );
            }
        }
        for object in &objects {
            assert!(object.readobj().contains(&format!("File: {}\n", object.name)));
        }
    }

    #[test]
    fn every_source_keeps_the_contract() {
        let mut sites = 0;
        for source in sources() {
            assert!(!source.sites.is_empty(), "{}", source.name);
            assert!(reference(&source.name).starts_with(b"\x7fELF"));
            for site in &source.sites {
                assert_eq!(
                    source.shape(site.id),
                    Some(site.shape),
                    "{} {}",
                    source.name,
                    site.id
                );
            }
            sites += source.sites.len();
        }
        assert!(sites >= 70, "{sites}");
    }
}
