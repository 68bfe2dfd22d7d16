//! The folders of objects: one for each architecture, and for each set of instructions that code is
//! compiled for.

use std::path::{Path, PathBuf};

use patchpoint::arch::Arch;

use crate::{Source, TestObject, names, read};

/// A folder of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Folder {
    /// x86-64.
    X86_64,
    /// AArch64.
    Aarch64,
    /// PowerPC64, little endian, `ELFv2`.
    Powerpc64le,
    /// PowerPC64, big endian, `ELFv1`.
    Powerpc64,
    /// PowerPC64, big endian, `ELFv2`.
    Powerpc64ElfV2,
    /// SystemZ.
    S390x,
    /// RISC-V without compressed instructions.
    Riscv64,
    /// RISC-V with compressed instructions.
    Riscv64c,
}

/// The folders whose objects run on this machine.
pub const NATIVE: &[Folder] = match Arch::host() {
    Some(Arch::X86_64) => &[Folder::X86_64],
    Some(Arch::AArch64) => &[Folder::Aarch64],
    Some(Arch::PowerPc64Le) => &[Folder::Powerpc64le],
    Some(Arch::PowerPc64) => &[Folder::Powerpc64],
    Some(Arch::PowerPc64ElfV2) => &[Folder::Powerpc64ElfV2],
    Some(Arch::SystemZ) => &[Folder::S390x],
    Some(Arch::RiscV64) => &[Folder::Riscv64, Folder::Riscv64c],
    _ => &[],
};

impl Folder {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::X86_64,
        Self::Aarch64,
        Self::Powerpc64le,
        Self::Powerpc64,
        Self::Powerpc64ElfV2,
        Self::S390x,
        Self::Riscv64,
        Self::Riscv64c,
    ];

    /// The folder's name under `objects/`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
            Self::Powerpc64le => "powerpc64le",
            Self::Powerpc64 => "powerpc64",
            Self::Powerpc64ElfV2 => "powerpc64-elfv2",
            Self::S390x => "s390x",
            Self::Riscv64 => "riscv64",
            Self::Riscv64c => "riscv64c",
        }
    }

    /// The architecture.
    #[must_use]
    pub const fn arch(self) -> Arch {
        match self {
            Self::X86_64 => Arch::X86_64,
            Self::Aarch64 => Arch::AArch64,
            Self::Powerpc64le => Arch::PowerPc64Le,
            Self::Powerpc64 => Arch::PowerPc64,
            Self::Powerpc64ElfV2 => Arch::PowerPc64ElfV2,
            Self::S390x => Arch::SystemZ,
            Self::Riscv64 | Self::Riscv64c => Arch::RiscV64,
        }
    }

    /// The versions of llc that emit stack maps for it.
    #[must_use]
    pub const fn versions(self) -> &'static [u32] {
        match self {
            Self::Riscv64 | Self::Riscv64c => &[19],
            _ => &[14, 19],
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("objects")
            .join(self.name())
    }

    /// Every object with a stack map, in the order of their names; the references are not among
    /// them.
    ///
    /// # Panics
    ///
    /// If the folder cannot be read.
    #[must_use]
    pub fn objects(self) -> Vec<TestObject> {
        let stems = names(&self.path(), ".o");
        stems.iter().filter_map(|stem| self.object(stem)).collect()
    }

    /// The object of this source, version and level, in the default models.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn object_of(self, source: &str, llc: u32, level: u32) -> TestObject {
        let stem = format!("{source}.llc{llc}.O{level}");
        self.object(&stem)
            .unwrap_or_else(|| panic!("{stem}: not the name of an object"))
    }

    fn object(self, stem: &str) -> Option<TestObject> {
        let mut parts = stem.split('.');
        let source = parts.next()?.to_owned();
        let llc = parts.next()?.strip_prefix("llc")?.parse().ok()?;
        let level = parts.next()?.strip_prefix('O')?.parse().ok()?;
        let name = format!("{stem}.o");
        Some(TestObject {
            folder: self,
            source,
            llc,
            level,
            variant: parts.next().unwrap_or("").to_owned(),
            bytes: read(&self.path().join(&name)),
            name,
        })
    }

    /// The source of this name as it was compiled for this folder.
    ///
    /// # Panics
    ///
    /// If the file cannot be read or has a line that breaks the contract.
    #[must_use]
    pub fn source(self, name: &str) -> Source {
        let path = crate::sources_folder().join(format!("{name}.ll"));
        let text = String::from_utf8_lossy(&read(&path)).into_owned();
        Source::parse(name, &text, self).unwrap_or_else(|line| panic!("{name}.ll: cannot read: {line}"))
    }

    /// The object with the reference functions of a source: the same names, every site replaced by
    /// what it is patched with. It has no stack map.
    ///
    /// # Panics
    ///
    /// If the file cannot be read.
    #[must_use]
    pub fn reference(self, source: &str) -> Vec<u8> {
        read(&self.path().join(format!("{source}.ref.o")))
    }

    /// The reserved length of a site whose source says `reserved`, which is meant for x86-64:
    /// on the others, instructions have at least two bytes and sequences are longer.
    pub(crate) const fn reserved(self, is_shadow: bool, reserved: u32) -> u32 {
        match self {
            Self::X86_64 => reserved,
            _ if is_shadow => reserved.next_multiple_of(4),
            _ => 2 * reserved.next_multiple_of(4),
        }
    }

    /// Whether a site whose source says a symbol as target has nops there, as LLVM emits garbage or
    /// crashes.
    pub(crate) const fn has_no_symbol_targets(self) -> bool {
        matches!(self, Self::Aarch64 | Self::Riscv64 | Self::Riscv64c)
    }
}
