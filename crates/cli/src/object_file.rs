//! An object file: its format, its stack map sections.

use object::read::elf::{ElfFile, FileHeader, SectionHeader as _};
use object::{
    Architecture, BinaryFormat, FileFlags, Object, ObjectSection, ObjectSymbol, SectionIndex, SectionKind,
    SubArchitecture, SymbolKind, elf,
};
use patchpoint::arch::Arch;
use patchpoint::image;
use patchpoint::stackmap::{Endian, StackMaps};

use crate::problem::Problem;

const ELF_NAME: &str = ".llvm_stackmaps";
const MACHO_NAME: &str = "__llvm_stackmaps";
/// What is left of the name in a linked PE file, which has room for eight bytes.
pub(crate) const PE_NAME: &str = ".llvm_st";

/// The segment and section of Mach-O that functions are in.
const MACHO_CODE: (&str, &str) = ("__TEXT", "__text");

/// The names of the segment and section.
fn macho_names<'s, 'd: 's>(section: &'s impl ObjectSection<'d>) -> Option<(&'s str, &'s str)> {
    Some((section.segment_name().ok()??, section.name().ok()?))
}

/// Whether the header leaves the number of the section with the names to section 0, and that one
/// has none.
fn is_nameless<Header: FileHeader>(elf: &ElfFile<'_, Header>) -> bool {
    let (endian, first) = (elf.endian(), elf.elf_section_table().iter().next());
    elf.elf_header().e_shstrndx(endian) == elf::SHN_XINDEX
        && first.is_some_and(|first| first.sh_link(endian) == 0)
}

pub(crate) struct ObjectFile<'data> {
    pub(crate) file: object::File<'data>,
}

/// A section that holds stack maps, as it is in the file.
pub(crate) struct MapSection<'data> {
    pub(crate) index: SectionIndex,
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) data: &'data [u8],
    /// Where it begins in the file.
    pub(crate) at: u64,
}

impl MapSection<'_> {
    /// What is wrong with its stack maps, with the place.
    pub(crate) fn problem(&self, error: impl Into<patchpoint::Error>) -> Problem {
        Problem::StackMap {
            section: self.name.clone(),
            at: self.at,
            error: Box::new(error.into()),
        }
    }
}

impl<'data> ObjectFile<'data> {
    pub(crate) fn parse(data: &'data [u8]) -> Result<Self, Problem> {
        let file = object::File::parse(data)?;
        let is_nameless = match &file {
            object::File::Elf32(elf) => is_nameless(elf),
            object::File::Elf64(elf) => is_nameless(elf),
            _ => false,
        };
        // protection: inspected-sections-have-names
        if is_nameless {
            return Err(Problem::from(image::Error::ObjectMalformed {
                what: "the section table",
                reason: "Missing ELF e_shstrndx".into(),
            }));
        }
        Ok(Self { file })
    }

    pub(crate) fn map_sections(&self) -> Result<Vec<MapSection<'data>>, Problem> {
        let pe = self.file.format() == BinaryFormat::Pe;
        let mut found = Vec::new();
        for section in self.file.sections() {
            let Ok(name) = section.name() else { continue };
            if name == ELF_NAME || name == MACHO_NAME || (pe && name == PE_NAME) {
                found.push(MapSection {
                    index: section.index(),
                    name: name.to_owned(),
                    address: section.address(),
                    data: section.data()?,
                    at: section.file_range().map_or(0, |(at, _)| at),
                });
            }
        }
        Ok(found)
    }

    /// Whether functions are in the section. In Mach-O they are in the one of that name: others with
    /// instructions are not looked into.
    pub(crate) fn is_code<'d>(&self, section: &impl ObjectSection<'d>) -> bool {
        match self.file.format() {
            BinaryFormat::MachO => macho_names(section) == Some(MACHO_CODE),
            _ => section.kind() == SectionKind::Text,
        }
    }

    /// What a symbol is. In Mach-O it does not say so, but the usual names of sections do: in others
    /// it may be anything.
    pub(crate) fn symbol_kind<'d>(&self, symbol: &impl ObjectSymbol<'d>) -> SymbolKind {
        let kind = symbol.kind();
        if self.file.format() != BinaryFormat::MachO || kind == SymbolKind::Section {
            return kind;
        }
        let section = symbol.section_index();
        let section = section.and_then(|index| self.file.section_by_index(index).ok());
        match section.as_ref().and_then(macho_names) {
            Some(MACHO_CODE) => SymbolKind::Text,
            Some((
                "__TEXT",
                "__const" | "__cstring" | "__literal4" | "__literal8" | "__literal16" | "__eh_frame"
                | "__gcc_except_tab",
            ))
            | Some(("__DATA", "__data" | "__const" | "__bss" | "__common")) => SymbolKind::Data,
            Some(("__DATA", "__thread_data" | "__thread_bss" | "__thread_vars")) => SymbolKind::Tls,
            _ => SymbolKind::Unknown,
        }
    }

    /// Whether the stack maps can be read that it has.
    pub(crate) fn check_maps(&self) -> Result<(), Problem> {
        for section in self.map_sections()? {
            StackMaps::parse(section.data, self.endian()).map_err(|error| section.problem(error))?;
        }
        Ok(())
    }

    pub(crate) fn endian(&self) -> Endian {
        if self.file.is_little_endian() {
            Endian::Little
        } else {
            Endian::Big
        }
    }

    /// The architecture, where its registers are known.
    pub(crate) fn arch(&self) -> Option<Arch> {
        match self.file.architecture() {
            Architecture::X86_64 | Architecture::X86_64_X32 => Some(Arch::X86_64),
            Architecture::Aarch64 | Architecture::Aarch64_Ilp32 => Some(Arch::AArch64),
            Architecture::PowerPc64 if self.file.is_little_endian() => Some(Arch::PowerPc64Le),
            Architecture::PowerPc64 if self.is_elf_v2() => Some(Arch::PowerPc64ElfV2),
            Architecture::PowerPc | Architecture::PowerPc64 => Some(Arch::PowerPc64),
            Architecture::S390x => Some(Arch::SystemZ),
            Architecture::Riscv32 | Architecture::Riscv64 => Some(Arch::RiscV64),
            _ => None,
        }
    }

    /// Whether the header names the second version of PowerPC64's ABI (ELFv2 ABI, section 3.1.1).
    /// `ld.lld` names it of everything that it links: with function descriptors it is the first.
    fn is_elf_v2(&self) -> bool {
        let says = matches!(self.file.flags(), FileFlags::Elf { e_flags, .. } if e_flags.ppc64_abi() == 2);
        says && self.file.section_by_name(".opd").is_none()
    }

    /// The number of bits of an address, as the format says (not the field in a stack map, which
    /// has 64).
    pub(crate) fn address_bits(&self) -> u8 {
        let is_64 = match self.file.format() {
            BinaryFormat::Coff | BinaryFormat::Pe => matches!(
                self.file.architecture(),
                Architecture::X86_64 | Architecture::Aarch64
            ),
            _ => self.file.is_64(),
        };
        if is_64 { 64 } else { 32 }
    }

    /// The architecture in LLVM's words (`Triple::getArchTypeName`).
    pub(crate) fn arch_name(&self) -> &'static str {
        let little = self.file.is_little_endian();
        match self.file.architecture() {
            Architecture::X86_64 | Architecture::X86_64_X32 => "x86_64",
            Architecture::I386 => "i386",
            Architecture::Aarch64 if self.file.sub_architecture() == Some(SubArchitecture::Arm64EC) => {
                "aarch64"
            }
            Architecture::Aarch64 if little => "aarch64",
            Architecture::Aarch64 => "aarch64_be",
            Architecture::Aarch64_Ilp32 if self.file.format() == BinaryFormat::MachO => "aarch64_32",
            Architecture::Aarch64_Ilp32 => "aarch64",
            Architecture::PowerPc if little => "powerpcle",
            Architecture::PowerPc => "powerpc",
            Architecture::PowerPc64 if little => "powerpc64le",
            Architecture::PowerPc64 => "powerpc64",
            Architecture::S390x => "s390x",
            Architecture::Riscv32 => "riscv32",
            Architecture::Riscv64 => "riscv64",
            _ => "unknown",
        }
    }

    /// The format in LLVM's words (`ObjectFile::getFileFormatName`).
    pub(crate) fn format_name(&self) -> &'static str {
        match self.file.format() {
            BinaryFormat::Elf => self.elf_name(),
            BinaryFormat::MachO => match self.file.architecture() {
                Architecture::X86_64 => "Mach-O 64-bit x86-64",
                Architecture::I386 => "Mach-O 32-bit i386",
                Architecture::Aarch64 => "Mach-O arm64",
                Architecture::Aarch64_Ilp32 => "Mach-O arm64 (ILP32)",
                Architecture::PowerPc => "Mach-O 32-bit ppc",
                Architecture::PowerPc64 => "Mach-O 64-bit ppc64",
                _ if self.file.is_64() => "Mach-O 64-bit unknown",
                _ => "Mach-O 32-bit unknown",
            },
            _ => match self.file.architecture() {
                Architecture::X86_64 => "COFF-x86-64",
                Architecture::I386 => "COFF-i386",
                Architecture::Aarch64 => "COFF-ARM64",
                Architecture::Arm => "COFF-ARM",
                _ => "COFF-<unknown arch>",
            },
        }
    }

    fn elf_name(&self) -> &'static str {
        let little = self.file.is_little_endian();
        match (self.file.architecture(), self.file.is_64()) {
            (Architecture::X86_64, true) => "elf64-x86-64",
            (Architecture::X86_64_X32, _) => "elf32-x86-64",
            (Architecture::I386, _) => "elf32-i386",
            (Architecture::Aarch64, _) if little => "elf64-littleaarch64",
            (Architecture::Aarch64, _) => "elf64-bigaarch64",
            (Architecture::Aarch64_Ilp32, _) => "elf32-littleaarch64",
            (Architecture::PowerPc64, _) if little => "elf64-powerpcle",
            (Architecture::PowerPc64, _) => "elf64-powerpc",
            (Architecture::PowerPc, _) if little => "elf32-powerpcle",
            (Architecture::PowerPc, _) => "elf32-powerpc",
            (Architecture::S390x, _) => "elf64-s390",
            (Architecture::Riscv64, _) => "elf64-littleriscv",
            (Architecture::Riscv32, _) => "elf32-littleriscv",
            (_, true) => "elf64-unknown",
            (_, false) => "elf32-unknown",
        }
    }

    /// The `DT_SONAME` of a shared object.
    pub(crate) fn load_name(&self) -> Option<String> {
        const SONAME: u64 = 14;
        let word = if self.file.is_64() { 8 } else { 4 };
        let dynamic = self.file.section_by_name(".dynamic")?.data().ok()?;
        let strings = self.file.section_by_name(".dynstr")?.data().ok()?;
        let entry = dynamic
            .chunks_exact(2 * word)
            .map(|entry| entry.split_at(word))
            .find(|(tag, _)| self.uint(tag) == SONAME)?;
        let start = usize::try_from(self.uint(entry.1)).ok()?;
        let name = strings.get(start..)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// At most eight bytes as a number, in the order of the file.
    pub(crate) fn uint(&self, bytes: &[u8]) -> u64 {
        let append = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        if self.file.is_little_endian() {
            bytes.iter().rev().fold(0, append)
        } else {
            bytes.iter().fold(0, append)
        }
    }
}
