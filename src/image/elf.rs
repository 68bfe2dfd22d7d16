//! From the bytes of an ELF object to the graph. Every offset, size, alignment and index of the file is
//! checked here, so that layout and linking need not fail on them.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::Cell;
use core::mem::size_of;

use object::elf::{self, FileHeader64, Rela64, SectionHeader64, Sym64};
use object::read::elf::{FileHeader, SectionHeader, SectionTable, SymbolTable};
use object::{Endianness, SectionIndex, SymbolIndex};

use super::descriptors::Descriptors;
use super::file::Object;
use super::graph::{
    Definition, Edge, Graph, Scope, Section, SectionId, SectionRole, Strength, Symbol, SymbolId,
};
use super::merge::Names;
use super::pairs::Pairs;
use super::relocation::{self, Relocation};
use super::{MAX_ALIGN, MAX_SIZE, align};
use crate::addr::ByteOffset;
use crate::arch::Arch;
use crate::error::{Error, Result};

type Header = FileHeader64<Endianness>;

/// `SHN_X86_64_LCOMMON`: common symbols of the large data model.
const LARGE_COMMON: u16 = 0xff02;

impl<'data> Object<'data> {
    /// Reads an ELF relocatable object for any architecture of [`Arch`](crate::arch::Arch), as `llc -filetype=obj` or `clang -c` write it.
    ///
    /// # Errors
    /// Something else, a damaged file, a section that needs more than loading (constructors, thread-local
    /// storage, code that is writable, compression), an unknown relocation.
    pub fn parse(bytes: &'data [u8]) -> Result<Self> {
        let (header, endian, arch) = header(bytes)?;
        let sections = header
            .sections(endian, bytes)
            .map_err(malformed("the section table"))?;
        let table = sections
            .symbols(endian, bytes, elf::SHT_SYMTAB)
            .map_err(malformed("the symbol table"))?;
        let reader = Reader {
            bytes,
            endian,
            arch,
            names: Cell::new(NAMES_PER_BYTE.saturating_mul(bytes.len() as u64)),
            sections,
            table,
        };
        let mut graph = Graph {
            arch,
            files: alloc::vec![String::new()],
            sections: reader.sections()?,
            symbols: Vec::new(),
            names: Names::new(),
            changed: false,
            descriptors: Descriptors::default(),
            pairs: Pairs::default(),
        };
        reader.symbols(&mut graph)?;
        reader.edges(&mut graph)?;
        align::carry_out(&mut graph)?;
        Ok(Self { graph })
    }
}

fn header(bytes: &[u8]) -> Result<(&Header, Endianness, Arch)> {
    let unsupported = |found: String| Error::ObjectUnsupported { found };
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(unsupported(
            "bytes that do not start with the ELF magic number".into(),
        ));
    }
    if bytes.get(4) != Some(&elf::ELFCLASS64) {
        return Err(unsupported("an ELF file that is not 64-bit".into()));
    }
    let header = Header::parse(bytes).map_err(malformed("the file header"))?;
    let endian = header.endian().map_err(malformed("the file header"))?;
    let arch = Arch::from_elf(header.e_machine.get(endian), endian, header.e_flags.get(endian))?;
    let kind = header.e_type.get(endian);
    if kind != elf::ET_REL {
        return Err(unsupported(format!("an ELF file of type {kind}")));
    }
    Ok((header, endian, arch))
}

fn malformed(what: &'static str) -> impl Fn(object::read::Error) -> Error {
    move |reason| Error::ObjectMalformed {
        what,
        reason: reason.to_string(),
    }
}

/// How many bytes of names there may be for each byte of the file. Names may share bytes, so their sum is not
/// bounded by the file's size; linkers that share tails stay far below this.
const NAMES_PER_BYTE: u64 = 16;

struct Reader<'data> {
    bytes: &'data [u8],
    endian: Endianness,
    arch: Arch,
    /// The bytes that names may still have.
    names: Cell<u64>,
    sections: SectionTable<'data, Header>,
    table: SymbolTable<'data, Header>,
}

impl<'data> Reader<'data> {
    /// A name as text, if all names up to it are not too many bytes.
    fn name<'n>(&self, name: &'n [u8]) -> Result<Cow<'n, str>> {
        let Some(left) = self.names.get().checked_sub(name.len() as u64) else {
            let reason = "they share their bytes so often that they are many times the file".into();
            return Err(Error::ObjectMalformed {
                what: "names",
                reason,
            });
        };
        self.names.set(left);
        Ok(String::from_utf8_lossy(name))
    }

    /// All sections under their indices in the file.
    fn sections(&self) -> Result<Vec<Section<'data>>> {
        let mut sections = Vec::with_capacity(self.sections.len());
        for header in self.sections.iter() {
            sections.push(self.section(header)?);
        }
        Ok(sections)
    }

    fn section(&self, header: &'data SectionHeader64<Endianness>) -> Result<Section<'data>> {
        let name = self
            .sections
            .section_name(self.endian, header)
            .map_err(malformed("a section's name"))?;
        let name = self.name(name)?;
        let size = header.sh_size.get(self.endian);
        let role = role(self.arch, self.endian, &name, header)?;
        let (flags, link) = (header.sh_flags.get(self.endian), header.sh_link.get(self.endian));
        let linked = flags & u64::from(elf::SHF_LINK_ORDER) != 0;
        let mut section = Section {
            name,
            file: 0,
            role,
            align: 1,
            size: 0,
            bytes: Cow::Borrowed(&[]),
            edges: Vec::new(),
            about_code: linked,
            about: (linked && link > 0).then_some(SectionId(link)),
            retained: flags & u64::from(elf::SHF_GNU_RETAIN) != 0,
        };
        if role == SectionRole::Ignored {
            return Ok(section);
        }
        let align = header.sh_addralign.get(self.endian).max(1);
        section.align = match u32::try_from(align) {
            Ok(align) if align.is_power_of_two() && align <= MAX_ALIGN => align,
            _ => {
                return Err(refuse(
                    &section.name,
                    "its alignment is no power of two up to 65536",
                ));
            }
        };
        section.size = u32::try_from(size).map_err(|_| Error::ImageTooLarge {
            size,
            limit: MAX_SIZE,
        })?;
        section.bytes = Cow::Borrowed(
            header
                .data(self.endian, self.bytes)
                .map_err(malformed("a section's bytes"))?,
        );
        Ok(section)
    }

    /// The symbols under their indices in the file.
    fn symbols(&self, graph: &mut Graph<'data>) -> Result<()> {
        let mut symbols = Vec::with_capacity(self.table.len());
        for (index, raw) in self.table.enumerate() {
            let name = self
                .table
                .symbol_name(self.endian, raw)
                .map_err(malformed("a symbol's name"))?;
            let mut name = self.name(name)?;
            let section = usize::from(raw.st_shndx.get(self.endian));
            if let (elf::STT_SECTION, true, Some(section)) =
                (raw.st_type(), name.is_empty(), graph.sections.get(section))
            {
                name = self.name(section.name.as_bytes()).map(|_| section.name.clone())?;
            }
            let definition = self.definition(graph, index, raw, &name)?;
            symbols.push(Symbol {
                name,
                file: 0,
                definition,
                size: raw.st_size.get(self.endian),
                function: raw.st_type() == elf::STT_FUNC,
                scope: scope(raw),
                strength: self.strength(raw),
                other: raw.st_other,
            });
        }
        if symbols.is_empty() {
            symbols.push(Symbol::null());
        }
        graph.symbols = symbols;
        Ok(())
    }

    fn strength(&self, raw: &Sym64<Endianness>) -> Strength {
        let weak = raw.st_bind() == elf::STB_WEAK;
        match raw.st_shndx.get(self.endian) {
            elf::SHN_UNDEF if weak => Strength::WeakReference,
            elf::SHN_UNDEF => Strength::Reference,
            elf::SHN_COMMON | LARGE_COMMON => Strength::Common,
            _ if weak => Strength::Weak,
            _ => Strength::Strong,
        }
    }

    fn definition(
        &self,
        graph: &Graph<'data>,
        index: SymbolIndex,
        raw: &Sym64<Endianness>,
        name: &str,
    ) -> Result<Definition> {
        if index.0 == 0 {
            // The null symbol: relocations without a symbol name it, and it counts as 0.
            return Ok(Definition::Absolute(0));
        }
        match raw.st_type() {
            elf::STT_GNU_IFUNC => {
                return Ok(Definition::Refused(
                    "an indirect function must be run to be resolved",
                ));
            }
            elf::STT_TLS => return Ok(Definition::Refused("it is thread-local")),
            _ => {}
        }
        if self.arch.local_entry(raw.st_other).is_none() {
            return Ok(Definition::Refused(
                "the place of its local entry is reserved by the ABI",
            ));
        }
        let weak = raw.st_bind() == elf::STB_WEAK;
        let value = raw.st_value.get(self.endian);
        let section = self
            .table
            .symbol_section(self.endian, raw, index)
            .map_err(malformed("a symbol's section"))?;
        if let Some(section) = section {
            return in_section(graph, section, value, name);
        }
        match raw.st_shndx.get(self.endian) {
            elf::SHN_ABS => Ok(Definition::Absolute(value)),
            elf::SHN_COMMON | LARGE_COMMON => common(name, value),
            _ if name == self.arch.got_symbol() => Ok(Definition::GotBase),
            _ => Ok(Definition::Undefined { weak }),
        }
    }

    /// The relocations of every section that is placed or kept.
    fn edges(&self, graph: &mut Graph<'data>) -> Result<()> {
        let mut left = self.bytes.len() / size_of::<Rela64<Endianness>>();
        for header in self.sections.iter() {
            let kind = header.sh_type.get(self.endian);
            if !matches!(kind, elf::SHT_RELA | elf::SHT_REL | elf::SHT_CREL) {
                continue;
            }
            let symbols = graph.symbols.len();
            let index = header.sh_info.get(self.endian) as usize;
            let Some(section) = graph.sections.get_mut(index) else {
                let reason = format!("section {index} is not there");
                return Err(Error::ObjectMalformed {
                    what: "the target of a relocation section",
                    reason,
                });
            };
            if section.role == SectionRole::Ignored {
                continue;
            }
            let Some((edges, link)) = header
                .rela(self.endian, self.bytes)
                .map_err(malformed("relocations"))?
            else {
                return Err(refuse(
                    &section.name,
                    "its relocations are not of the type SHT_RELA",
                ));
            };
            if link != self.table.section() {
                let reason = "they refer to another symbol table".into();
                return Err(Error::ObjectMalformed {
                    what: "relocations",
                    reason,
                });
            }
            let Some(rest) = left.checked_sub(edges.len()) else {
                let reason = "they are more than the file has room for: sections overlap".into();
                return Err(Error::ObjectMalformed {
                    what: "relocations",
                    reason,
                });
            };
            left = rest;
            section.edges.reserve(edges.len());
            for raw in edges {
                let edge = self.edge(section, raw, symbols)?;
                section.edges.push(edge);
            }
        }
        Ok(())
    }

    fn edge(&self, section: &Section<'_>, raw: &Rela64<Endianness>, symbols: usize) -> Result<Edge> {
        let offset = raw.r_offset.get(self.endian);
        let number = raw.r_type(self.endian, false);
        let Some(relocation) = Relocation::from_elf(self.arch, number) else {
            let (relocation, reason) = relocation::why_refused(self.arch, number);
            return Err(Error::RelocationUnsupported {
                relocation,
                section: section.name.clone().into_owned(),
                offset: ByteOffset::new(offset),
                reason,
            });
        };
        let place = u32::try_from(offset).ok().filter(|_| {
            let end = offset.checked_add(u64::from(relocation.width()));
            end.is_some_and(|end| end <= section.bytes.len() as u64)
        });
        let Some(place) = place else {
            return Err(Error::RelocationOutsideSection {
                relocation: relocation.name(),
                section: section.name.clone().into_owned(),
                offset: ByteOffset::new(offset),
                size: section.bytes.len() as u64,
            });
        };
        let target = raw.r_sym(self.endian, false);
        // Index 0 without a symbol table is the undefined symbol: only relocations without a symbol use it.
        if target as usize >= symbols {
            let reason = format!("symbol {target} of {} at {offset:#x} is not there", section.name);
            return Err(Error::ObjectMalformed {
                what: "a relocation's symbol",
                reason,
            });
        }
        Ok(Edge {
            offset: place,
            target: SymbolId(target),
            addend: raw.r_addend.get(self.endian),
            relocation,
        })
    }
}

fn refuse(section: &str, reason: &'static str) -> Error {
    Error::SectionRefused {
        section: section.into(),
        reason,
    }
}

/// What becomes of a section, by its flags and, where flags do not tell, its name.
fn role(
    arch: Arch,
    endian: Endianness,
    name: &str,
    header: &SectionHeader64<Endianness>,
) -> Result<SectionRole> {
    let (flags, kind) = (header.sh_flags.get(endian), header.sh_type.get(endian));
    let has = |flag: u32| flags & u64::from(flag) != 0;
    if name == ".llvm_stackmaps" && kind == elf::SHT_PROGBITS {
        return Ok(SectionRole::StackMaps);
    }
    if !has(elf::SHF_ALLOC) || kind == elf::SHT_NULL || header.sh_size.get(endian) == 0 {
        return empty_role(has, kind);
    }
    if has(elf::SHF_TLS) {
        return Err(refuse(
            name,
            "thread-local storage needs a thread runtime: keep such data elsewhere",
        ));
    }
    if has(elf::SHF_COMPRESSED) {
        return Err(refuse(name, "it is compressed: write it uncompressed"));
    }
    if matches!(
        kind,
        elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY | elf::SHT_PREINIT_ARRAY
    ) || [".ctors", ".dtors", ".init", ".fini"].contains(&name)
    {
        return Err(refuse(
            name,
            "nobody would run its constructors: call them by name after loading",
        ));
    }
    match (has(elf::SHF_EXECINSTR), has(elf::SHF_WRITE)) {
        (true, true) => Err(refuse(name, "it would be writable and executable at once")),
        (true, false) => Ok(SectionRole::Code),
        (false, true) if !only_linker_writes(arch, name) => Ok(SectionRole::Data),
        (false, _) if name == ".eh_frame" => Ok(SectionRole::EhFrame),
        (false, _) => Ok(SectionRole::ReadOnly),
    }
}

/// Whether nothing but relocation writes to the section, though it is flagged as writable.
fn only_linker_writes(arch: Arch, name: &str) -> bool {
    name.starts_with(".data.rel.ro") || arch.is_powerpc() && (is_toc(name) || is_descriptors(name))
}

/// Whether the section is part of PowerPC's table of addresses, which code reaches by the TOC pointer.
pub(super) fn is_toc(name: &str) -> bool {
    name == ".toc" || name.starts_with(".toc.")
}

/// Whether the section holds the function descriptors of PowerPC ELFv1.
pub(super) fn is_descriptors(name: &str) -> bool {
    name == ".opd" || name.starts_with(".opd.")
}

/// An empty section is placed all the same if it could hold symbols, such as an unused `.text`.
fn empty_role(has: impl Fn(u32) -> bool, kind: u32) -> Result<SectionRole> {
    Ok(match kind {
        elf::SHT_PROGBITS | elf::SHT_NOBITS if has(elf::SHF_ALLOC) && !has(elf::SHF_TLS) => {
            if has(elf::SHF_EXECINSTR) {
                SectionRole::Code
            } else if has(elf::SHF_WRITE) {
                SectionRole::Data
            } else {
                SectionRole::ReadOnly
            }
        }
        _ => SectionRole::Ignored,
    })
}

fn in_section(graph: &Graph<'_>, index: SectionIndex, value: u64, name: &str) -> Result<Definition> {
    let Some(section) = graph.sections.get(index.0) else {
        let reason = format!("section {} of symbol `{name}` is not there", index.0);
        return Err(Error::ObjectMalformed {
            what: "a symbol's section",
            reason,
        });
    };
    if section.role == SectionRole::Ignored {
        return Ok(Definition::Refused("its section is not loaded"));
    }
    let offset = u32::try_from(value).ok().filter(|offset| *offset <= section.size);
    let (Some(offset), Ok(id)) = (offset, u32::try_from(index.0)) else {
        let reason = format!("{value:#x} of `{name}` is outside {}", section.name);
        return Err(Error::ObjectMalformed {
            what: "a symbol's offset",
            reason,
        });
    };
    Ok(Definition::Section(SectionId(id), offset))
}

/// A common symbol: its value is its alignment.
fn common(name: &str, align: u64) -> Result<Definition> {
    match u32::try_from(align.max(1)) {
        Ok(align) if align.is_power_of_two() && align <= MAX_ALIGN => Ok(Definition::Common { align }),
        _ => Err(refuse(
            name,
            "the alignment of a common symbol is no power of two up to 65536",
        )),
    }
}

fn scope(raw: &Sym64<Endianness>) -> Scope {
    match (raw.st_bind(), raw.st_visibility()) {
        (elf::STB_LOCAL, _) => Scope::Local,
        (_, elf::STV_HIDDEN | elf::STV_INTERNAL) => Scope::Hidden,
        _ => Scope::Exported,
    }
}
