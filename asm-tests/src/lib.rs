//! Real objects for the tests: sources, what llc 14 and 19 made of them, and what each function
//! must return.
//!
//! Problem: a test of a patched function needs to know what the function should then return, for
//! sources that nobody wants to calculate by hand. Approach: every source under `objects/ir` obeys
//! one contract, and LLVM itself compiles a reference from it. Each [`Folder`] has the objects of
//! one architecture; those of [`NATIVE`] run on this machine.
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
//! - What an object needs from outside is in [`resolve`], and what one with 32-bit addresses needs in [`resolve_for`].
#![expect(
    clippy::panic,
    reason = "test support: a fixture that is missing is a failed test"
)]

pub mod files;
mod folder;
pub mod frames;
mod ir;
pub mod jitlink;
pub mod live;
pub mod protections;
pub mod random_ir;
mod symbols;
pub mod tools;

pub use folder::{Folder, NATIVE};
pub use ir::{Function, Param, Site, Source, Target};
pub use symbols::{resolve, resolve_for};

use std::path::{Path, PathBuf};

use patchpoint::arch::Convention;

/// An object that is checked in.
#[derive(Clone, Debug)]
pub struct TestObject {
    /// Where it is.
    pub folder: Folder,
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
    /// What `llvm-readobj --stackmap` of the same LLVM prints for it. Only for x86-64.
    ///
    /// # Panics
    ///
    /// If the file is missing.
    #[must_use]
    pub fn readobj(&self) -> String {
        let name = self.name.strip_suffix(".o").unwrap_or(&self.name);
        String::from_utf8_lossy(&read(&self.folder.path().join(format!("{name}.readobj.txt")))).into_owned()
    }
}

impl TestObject {
    /// Whether LLVM may have another value in the register of an argument of a function's site: for
    /// PowerPC its fast selection of instructions puts C arguments in their registers and then
    /// forgets them, and a live value may get the same. No record tells.
    #[must_use]
    pub fn loses_arguments(&self, source: &Source, function: &str) -> bool {
        let lost = |site: &Site| {
            site.function == function
                && site.shape.convention() == Convention::C
                && site.shape.arg_count() > 0
                && site.live_values
        };
        let is_powerpc = self.folder.arch().is_powerpc64();
        is_powerpc && self.level == 0 && source.sites.iter().any(lost)
    }
}

/// Where the objects for x86-64 are.
#[must_use]
pub fn folder() -> PathBuf {
    Folder::X86_64.path()
}

fn sources_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("objects/ir")
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names in a folder with this suffix, without it, sorted.
fn names(folder: &Path, suffix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(suffix)?.to_owned()))
        .collect();
    names.sort();
    names
}

/// An instruction of this machine's that sets a register to 1 which functions preserve, and that no
/// checker refuses for another reason. The bytes are llvm-mc's for the text.
pub const SETS_PRESERVED: &[u8] = if cfg!(target_arch = "aarch64") {
    // mov x19,#1
    &[0x33, 0x00, 0x80, 0xd2]
} else if cfg!(all(target_arch = "powerpc64", target_endian = "little")) {
    // li 30,1
    &[0x01, 0x00, 0xc0, 0x3b]
} else if cfg!(target_arch = "powerpc64") {
    // li 30,1
    &[0x3b, 0xc0, 0x00, 0x01]
} else if cfg!(target_arch = "s390x") {
    // lghi %r13,1
    &[0xa7, 0xd9, 0x00, 0x01]
} else if cfg!(target_arch = "riscv64") {
    // li s1,1
    &[0x93, 0x04, 0x10, 0x00]
} else {
    // movl $1,%ebx
    &[0xbb, 0x01, 0x00, 0x00, 0x00]
};

/// Every object with a stack map that runs on this machine.
///
/// # Panics
///
/// If a folder cannot be read.
#[must_use]
pub fn native_objects() -> Vec<TestObject> {
    NATIVE.iter().flat_map(|folder| folder.objects()).collect()
}

/// Whether functions that say so run on this machine.
#[must_use]
pub fn has_avx() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Every object for x86-64 with a stack map: [`Folder::objects`].
///
/// # Panics
///
/// If the folder cannot be read.
#[must_use]
pub fn objects() -> Vec<TestObject> {
    Folder::X86_64.objects()
}

/// Every source as it was compiled for x86-64, in the order of their names.
///
/// # Panics
///
/// If a file cannot be read or has a line that breaks the contract.
#[must_use]
pub fn sources() -> Vec<Source> {
    let names = names(&sources_folder(), ".ll");
    names.iter().map(|name| source(name)).collect()
}

/// The source of this name as it was compiled for x86-64: [`Folder::source`].
///
/// # Panics
///
/// If the file cannot be read or has a line that breaks the contract.
#[must_use]
pub fn source(name: &str) -> Source {
    Folder::X86_64.source(name)
}

/// The reference functions of a source for x86-64: [`Folder::reference`].
///
/// # Panics
///
/// If the file cannot be read.
#[must_use]
pub fn reference(source: &str) -> Vec<u8> {
    Folder::X86_64.reference(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_compiler_and_level_is_in_every_folder() {
        for folder in Folder::ALL {
            let objects = folder.objects();
            for (llc, level) in folder.versions().iter().flat_map(|llc| [(*llc, 0), (*llc, 2)]) {
                let of_this = objects.iter().filter(|o| o.llc == llc && o.level == level);
                assert!(of_this.count() >= 8, "{folder:?} {llc} O{level}");
            }
            for object in &objects {
                assert!(folder.reference(&object.source).starts_with(b"\x7fELF"));
            }
        }
        for object in objects() {
            assert!(object.readobj().contains(&format!("File: {}\n", object.name)));
        }
    }

    #[test]
    fn every_source_keeps_the_contract() {
        for folder in Folder::ALL {
            let mut sites = 0;
            for source in names(&sources_folder(), ".ll")
                .iter()
                .map(|name| folder.source(name))
            {
                assert!(!source.sites.is_empty(), "{}", source.name);
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
            assert!(sites >= 70, "{folder:?} {sites}");
        }
    }
}
