//! From the bytes of an ELF object to the graph. Every offset, size, alignment and index of the
//! file is checked here, so that layout and linking need not fail on them.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem::size_of;

use llvm_stackmaps::addr::ByteOffset;
use object::elf::{self, FileHeader64, Rela64, SectionHeader64, Sym64};
use object::read::elf::{FileHeader, SectionHeader, SectionTable, SymbolTable};
use object::{Endianness, SymbolIndex};
use patchpoint_isa::Arch;

use crate::error::{Error, Result};
use crate::format::ObjectFormat;
use crate::graph::checks::{
    self, Room, Texts, alignment, common, contradiction, in_section, malformed, place, refuse,
};
use crate::graph::comdat::{self, Members, SectionGroup, Selection};
use crate::graph::descriptors::is_descriptors;
use crate::graph::init::{self, FunctionList};
use crate::graph::{
    Definition, Edge, Graph, Scope, Section, SectionId, SectionRole, Strength, Symbol, SymbolId,
};
use crate::machine::{self, is_toc};
use crate::read::align;
use crate::relocation::{self, Relocation};

type Header = FileHeader64<Endianness>;

/// `SHN_X86_64_LCOMMON`: common symbols of the large data model.
const LARGE_COMMON: elf::SymbolSection = elf::SymbolSection(0xff02);

/// Reads an ELF relocatable object.
pub(crate) fn read(bytes: &[u8]) -> Result<Graph<'_>> {
    let (header, endian, arch) = header(bytes)?;
    let sections = header
        .sections(endian, bytes)
        .map_err(malformed("the section table"))?;
    // The header leaves the number of the names' section to section 0, which has none.
    let first = sections.iter().next().map(|first| first.sh_link.get(endian));
    // protection: names-of-sections-are-in-a-section
    if header.e_shstrndx.get(endian) == elf::SHN_XINDEX && first == Some(0) {
        return Err(contradiction(
            "the section table",
            "Missing ELF e_shstrndx".into(),
        ));
    }
    let table = sections
        .symbols(endian, bytes, elf::SHT_SYMTAB)
        .map_err(malformed("the symbol table"))?;
    let reader = Reader {
        bytes,
        endian,
        arch,
        names: Texts::of_file(bytes.len()),
        sections,
        table,
    };
    let mut graph = Graph::of_file(ObjectFormat::Elf, arch);
    graph.sections = reader.sections()?;
    reader.symbols(&mut graph)?;
    reader.groups(&mut graph)?;
    reader.edges(&mut graph)?;
    // protection: one-file-keeps-one-group-of-a-name
    graph.choose_among_own()?;
    align::carry_out(&mut graph)?;
    Ok(graph)
}

fn header(bytes: &[u8]) -> Result<(&Header, Endianness, Arch)> {
    let unsupported = |found: String| Error::ObjectUnsupported { found };
    if bytes.get(4) != Some(&elf::ELFCLASS64.0) {
        return Err(unsupported("an ELF file that is not 64-bit".into()));
    }
    let header = Header::parse(bytes).map_err(malformed("the file header"))?;
    let endian = header.endian().map_err(malformed("the file header"))?;
    let arch = machine::of_elf(header.e_machine.get(endian), endian, header.e_flags.get(endian))?;
    let kind = header.e_type.get(endian);
    if kind != elf::ET_REL {
        return Err(unsupported(format!("an ELF file of type {kind}")));
    }
    Ok((header, endian, arch))
}

struct Reader<'data> {
    bytes: &'data [u8],
    endian: Endianness,
    arch: Arch,
    names: Texts,
    sections: SectionTable<'data, Header>,
    table: SymbolTable<'data, Header>,
}

impl<'data> Reader<'data> {
    /// A file that says ELFv2 has no descriptors. `ld.lld -r` marks what it joins so, of whichever
    /// convention.
    fn check_convention(&self, section: &Section<'_>) -> Result<()> {
        let is_other = self.arch.is_powerpc64() && !self.arch.has_descriptors();
        if is_other && section.size > 0 && is_descriptors(&section.name) {
            return Err(refuse(
                &section.name,
                "the file says ELFv2, and these are the function descriptors of ELFv1: compile it for one of them \
                 (-mabi=elfv1 or elfv2); if ld.lld -r has joined objects of ELFv1, link those",
            ));
        }
        Ok(())
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
        let name = self.names.text(name)?;
        let size = header.sh_size.get(self.endian);
        let role = role(self.arch, self.endian, &name, header)?;
        let (flags, link) = (header.sh_flags.get(self.endian), header.sh_link.get(self.endian));
        let linked = flags.contains(elf::SHF_LINK_ORDER);
        let list = (role == SectionRole::ReadOnly)
            .then(|| FunctionList::of_name(&name))
            .flatten();
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
            // Nobody names what is called by itself.
            // protection: constructors-are-roots
            retained: flags.contains(elf::SHF_GNU_RETAIN) || list.is_some(),
            list,
        };
        if role == SectionRole::Ignored {
            return Ok(section);
        }
        section.align = alignment(&section.name, header.sh_addralign.get(self.endian))?;
        section.size = checks::size(size)?;
        // protection: descriptors-are-those-of-elf-v1
        self.check_convention(&section)?;
        section.bytes = Cow::Borrowed(
            header
                .data(self.endian, self.bytes)
                .map_err(malformed("a section's bytes"))?,
        );
        init::check(&section)?;
        checks::zeros(&section)?;
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
            let mut name = self.names.text(name)?;
            let section = usize::from(raw.st_shndx.get(self.endian).0);
            if let (elf::STT_SECTION, true, Some(section)) =
                (raw.st_type(), name.is_empty(), graph.sections.get(section))
            {
                name = self
                    .names
                    .text(section.name.as_bytes())
                    .map(|_| section.name.clone())?;
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
                other: raw.st_other.0,
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
            // protection: indirect-functions
            elf::STT_GNU_IFUNC => {
                return Ok(Definition::Refused(
                    "it is an indirect function, whose resolver must run first: load the resolver by itself, call it, and let \
                     your own resolver give its answer",
                ));
            }
            // Undefined ones are refused where they are used, and so are marks in the data, such as
            // `$d`.
            elf::STT_TLS
                if raw.st_shndx.get(self.endian) == elf::SHN_UNDEF
                    || raw.st_bind() == elf::STB_LOCAL && raw.st_size.get(self.endian) == 0 =>
            {
                return Ok(Definition::Refused("it is thread-local"));
            }
            // protection: thread-local-definitions
            elf::STT_TLS => return Err(self.thread_local(raw, index, name)),
            _ => {}
        }
        if machine::local_entry(self.arch, raw.st_other.0).is_none() {
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
            return in_section(&graph.sections, section.0, value, name);
        }
        match raw.st_shndx.get(self.endian) {
            elf::SHN_ABS => Ok(Definition::Absolute(value)),
            elf::SHN_COMMON | LARGE_COMMON => common(name, value),
            _ if name == machine::got_symbol(self.arch) => Ok(Definition::GotBase),
            _ => Ok(Definition::Undefined { weak }),
        }
    }

    fn thread_local(&self, raw: &Sym64<Endianness>, index: SymbolIndex, name: &str) -> Error {
        let section = self.table.symbol_section(self.endian, raw, index).ok().flatten();
        let header = section.and_then(|section| self.sections.section(section).ok());
        let place = header.and_then(|header| self.sections.section_name(self.endian, header).ok());
        Error::ThreadLocal {
            symbol: name.into(),
            place: String::from_utf8_lossy(place.unwrap_or(b"")).into_owned(),
        }
    }

    /// The groups of sections.
    fn groups(&self, graph: &mut Graph<'data>) -> Result<()> {
        let mut seen = Members::default();
        for header in self.sections.iter() {
            let Some((flags, members)) = header
                .group(self.endian, self.bytes)
                .map_err(malformed("a section group"))?
            else {
                continue;
            };
            let signature = graph.symbols.get(header.sh_info.get(self.endian) as usize);
            let link = header.link(self.endian);
            let Some(symbol) = signature.filter(|_| link == self.table.section()) else {
                return Err(contradiction("a section group", "its symbol is not there".into()));
            };
            // The name is there once more.
            self.names.text(symbol.name.as_bytes())?;
            let mut sections = Vec::new();
            for member in members {
                let id = SectionId(member.get(self.endian));
                let Some(section) = graph.section(id) else {
                    return Err(comdat::malformed(&symbol.name, "a section is not there"));
                };
                seen.add(id, &symbol.name)?;
                if section.role != SectionRole::Ignored {
                    sections.push(id);
                }
            }
            graph.groups.push(SectionGroup {
                name: symbol.name.clone(),
                file: 0,
                selection: flags.contains(elf::GRP_COMDAT).then_some(Selection::Any),
                sections,
            });
        }
        Ok(())
    }

    /// The relocations of every section that is placed or kept.
    fn edges(&self, graph: &mut Graph<'data>) -> Result<()> {
        let mut room = Room::of(self.bytes, size_of::<Rela64<Endianness>>());
        for header in self.sections.iter() {
            let kind = header.sh_type.get(self.endian);
            if !matches!(kind, elf::SHT_RELA | elf::SHT_REL | elf::SHT_CREL) {
                continue;
            }
            let index = header.sh_info.get(self.endian) as usize;
            let Some(section) = graph.sections.get_mut(index) else {
                let reason = format!("section {index} is not there");
                return Err(contradiction("the target of a relocation section", reason));
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
                let reason = "they refer to another symbol table";
                return Err(contradiction("relocations", reason.into()));
            }
            room.take(edges.len())?;
            section.edges.reserve(edges.len());
            for raw in edges {
                let edge = self.edge(section, raw, &graph.symbols)?;
                section.edges.push(edge);
            }
        }
        Ok(())
    }

    fn edge(&self, section: &Section<'_>, raw: &Rela64<Endianness>, symbols: &[Symbol<'_>]) -> Result<Edge> {
        let offset = raw.r_offset.get(self.endian);
        let number = raw.r_type(self.endian, false).0;
        let Some(relocation) = Relocation::from_elf(self.arch, number) else {
            let (relocation, reason) = relocation::why_refused(self.arch, number);
            // protection: thread-local-uses
            if reason == relocation::TLS {
                let place = format!("{relocation} at {}+{:#x}", section.name, offset);
                let symbol = symbols.get(raw.r_sym(self.endian, false) as usize);
                let symbol = symbol.map_or_else(String::new, |symbol| symbol.name.clone().into_owned());
                return Err(Error::ThreadLocal { symbol, place });
            }
            return Err(Error::RelocationUnsupported {
                relocation,
                section: section.name.clone().into_owned(),
                offset: ByteOffset::new(offset),
                reason,
            });
        };
        let place = place(section, relocation, offset)?;
        let target = raw.r_sym(self.endian, false);
        // Index 0 without a symbol table is the undefined symbol: only relocations without a symbol
        // use it.
        if target as usize >= symbols.len() {
            let reason = format!("symbol {target} of {} at {offset:#x} is not there", section.name);
            return Err(contradiction("a relocation's symbol", reason));
        }
        Ok(Edge {
            offset: place,
            target: SymbolId(target),
            addend: raw.r_addend.get(self.endian),
            relocation,
        })
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
    let has = |flag| flags.contains(flag);
    if name == ".llvm_stackmaps" && kind == elf::SHT_PROGBITS {
        return Ok(SectionRole::StackMaps);
    }
    if !has(elf::SHF_ALLOC) || kind == elf::SHT_NULL || header.sh_size.get(endian) == 0 {
        return empty_role(has, kind);
    }
    if has(elf::SHF_TLS) {
        // Its symbols are refused, and every other way there.
        return Ok(SectionRole::Ignored);
    }
    if has(elf::SHF_COMPRESSED) {
        return Err(refuse(name, "it is compressed: write it uncompressed"));
    }
    // protection: no-parts-of-functions
    if [".init", ".fini"].contains(&name) {
        return Err(refuse(
            name,
            "it is a part of a function that the linker of a whole program completes: write a constructor",
        ));
    }
    let is_list = matches!(
        kind,
        elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY | elf::SHT_PREINIT_ARRAY
    );
    if is_list && FunctionList::of_name(name).is_none() {
        return Err(refuse(
            name,
            "it lists constructors or destructors, but its name does not say which come first",
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
    name.starts_with(".data.rel.ro")
        || FunctionList::of_name(name).is_some()
        || arch.is_powerpc64() && (is_toc(name) || is_descriptors(name))
}

/// An empty section is placed all the same if it could hold symbols, such as an unused `.text`.
fn empty_role(has: impl Fn(elf::SectionFlags) -> bool, kind: elf::SectionType) -> Result<SectionRole> {
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

fn scope(raw: &Sym64<Endianness>) -> Scope {
    match (raw.st_bind(), raw.st_visibility()) {
        (elf::STB_LOCAL, _) => Scope::Local,
        (_, elf::STV_HIDDEN | elf::STV_INTERNAL) => Scope::Hidden,
        _ => Scope::Exported,
    }
}
