//! From the bytes of a Mach-O object to the graph. Every offset, size, alignment and index of the
//! file is checked here, so that layout and linking need not fail on them.
//!
//! What differs from ELF:
//!
//! - Symbols keep the underscore that C names have in Mach-O; so resolvers are asked for `_puts`:
//!   [`ObjectFormat::c_name`] takes it away.
//! - Symbols have neither sizes nor types. One in code that is no label is a function, up to the next (`.alt_entry` says that
//!   a symbol is within a function and starts none).
//! - Sections have addresses in the file, and fields without an external symbol count in those: they become edges to the
//!   symbols of sections, which follow the file's own.
//! - Unwind information holds distances that the assembler has resolved, as a linker knows to mend them: [`frames`].
//! - `__LD,__compact_unwind` is ignored: it is made for a linker that encodes it for `libunwind`. Compilers leave out of
//!   `__eh_frame` what it says, on arm64 nearly everything; who wants frames to be found compiles with
//!   `-femit-dwarf-unwind=always`.
//! - Constructors (`__mod_init_func`) have no priorities.
//! - Debug information (`__DWARF`) and bitcode (`__LLVM`) are ignored.
//!
//! Source: `<mach-o/loader.h>`, `<mach-o/nlist.h>`, `<mach-o/reloc.h>` and the headers for both
//! architectures that these include, as Apple publishes them with its system's sources.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use object::LittleEndian;
use object::macho::{self, MachHeader64, Section64, SymtabCommand};
use object::read::macho::{LoadCommandIterator, MachHeader, Section as _, Segment as _};
use patchpoint_isa::Arch;

use crate::error::{Error, Result};
use crate::format::ObjectFormat;
use crate::graph::checks::{self, Texts, contradiction, malformed};
use crate::graph::init;
use crate::graph::{Graph, Section, SectionId, SectionRole, SymbolId};

mod arm64;
mod frames;
mod relocations;
mod roles;
mod symbols;
mod x86_64;

type Header = MachHeader64<LittleEndian>;
type RawSection = Section64<LittleEndian>;

const ENDIAN: LittleEndian = LittleEndian;

/// Reads a Mach-O relocatable object.
pub(super) fn read(bytes: &[u8]) -> Result<Graph<'_>> {
    let (arch, commands) = header(bytes)?;
    let reader = Reader {
        bytes,
        names: Texts::of_file(bytes.len()),
        commands: Commands::read(commands)?,
    };
    let mut graph = Graph::of_file(ObjectFormat::MachO, arch);
    graph.sections = reader.sections()?;
    reader.symbols(&mut graph)?;
    reader.edges(&mut graph)?;
    frames::complete(&mut graph, &reader.places())?;
    Ok(graph)
}

fn header(bytes: &[u8]) -> Result<(Arch, LoadCommandIterator<'_, LittleEndian>)> {
    let unsupported = |found: String| Error::ObjectUnsupported { found };
    let header = Header::parse(bytes, 0).map_err(malformed("the file header"))?;
    let subtype = header.cpusubtype(ENDIAN).id();
    let arch = match (header.cputype(ENDIAN), subtype) {
        (macho::CPU_TYPE_X86_64, _) => Arch::X86_64,
        (macho::CPU_TYPE_ARM64, macho::CPU_SUBTYPE_ARM64E) => {
            return Err(unsupported(
                "a Mach-O object for arm64e, whose pointers are signed: compile for arm64".into(),
            ));
        }
        (macho::CPU_TYPE_ARM64, _) => Arch::AArch64,
        (other, _) => return Err(unsupported(format!("a Mach-O file for machine {other:#x}"))),
    };
    let kind = header.filetype(ENDIAN);
    if kind != macho::MH_OBJECT {
        return Err(unsupported(format!("a Mach-O file of type {kind}")));
    }
    let commands = header
        .load_commands(ENDIAN, bytes, 0)
        .map_err(malformed("the load commands"))?;
    Ok((arch, commands))
}

/// What the load commands say of sections and symbols.
struct Commands<'data> {
    /// In the order by which symbols count them, from 1.
    sections: Vec<&'data RawSection>,
    symtab: Option<&'data SymtabCommand<LittleEndian>>,
}

impl<'data> Commands<'data> {
    fn read(mut commands: LoadCommandIterator<'data, LittleEndian>) -> Result<Self> {
        let mut read = Self {
            sections: Vec::new(),
            symtab: None,
        };
        let bad = malformed("a load command");
        while let Some(command) = commands.next().map_err(&bad)? {
            if let Some((segment, data)) = command.segment_64().map_err(&bad)? {
                let sections = segment
                    .sections(ENDIAN, data)
                    .map_err(malformed("a segment's sections"))?;
                read.sections.extend(sections);
            } else if let Some(symtab) = command.symtab().map_err(&bad)? {
                if read.symtab.replace(symtab).is_some() {
                    return Err(contradiction("a load command", "a second symbol table".into()));
                }
            }
        }
        Ok(read)
    }
}

struct Reader<'data> {
    bytes: &'data [u8],
    names: Texts,
    commands: Commands<'data>,
}

/// Where sections are in the file's addresses, ascending.
struct Places(Vec<PlaceInFile>);

#[derive(Clone, Copy)]
struct PlaceInFile {
    addr: u64,
    size: u64,
    /// The section's number.
    section: SectionId,
    /// Its symbol.
    symbol: SymbolId,
}

impl Places {
    /// The section that an address of the file lies in; an end belongs to what starts there, if
    /// anything does.
    fn find(&self, addr: u64) -> Option<PlaceInFile> {
        let after = self.0.partition_point(|place| place.addr <= addr);
        let place = *self.0.get(after.checked_sub(1)?)?;
        (addr - place.addr <= place.size).then_some(place)
    }
}

impl<'data> Reader<'data> {
    /// All sections under their numbers, which count from 1: under 0 there is one of nothing.
    fn sections(&self) -> Result<Vec<Section<'data>>> {
        let mut sections = Vec::with_capacity(self.commands.sections.len() + 1);
        sections.push(Section::nothing());
        for raw in &self.commands.sections {
            sections.push(self.section(raw)?);
        }
        Ok(sections)
    }

    fn section(&self, raw: &'data RawSection) -> Result<Section<'data>> {
        let segment = self.names.text(raw.segment_name())?;
        let name = self.names.text(raw.name())?;
        let name = format!("{segment},{name}");
        let flags = raw.flags(ENDIAN);
        let role = roles::role(&name, flags)?;
        let mut section = Section::nothing();
        section.role = role;
        if role != SectionRole::Ignored {
            // The exponent of a power of two.
            let align = 1_u64.checked_shl(raw.align(ENDIAN)).unwrap_or(0);
            section.align = match align {
                // Not 1, which 0 stands for in other formats.
                0 => checks::alignment(&name, u64::MAX)?,
                align => checks::alignment(&name, align)?,
            };
            section.size = checks::size(raw.size(ENDIAN))?;
            let data = raw.data(ENDIAN, self.bytes, raw.offset(ENDIAN).into());
            let data = data.map_err(|_| {
                contradiction(
                    "a section's bytes",
                    format!("those of {name} are not in the file"),
                )
            })?;
            section.bytes = Cow::Borrowed(data);
            section.list = roles::functions(flags);
            section.retained = flags.contains(macho::S_ATTR_NO_DEAD_STRIP) || section.list.is_some();
        }
        section.name = Cow::Owned(name);
        init::check(&section)?;
        Ok(section)
    }

    /// The number of symbols in the file; those of sections follow.
    fn symbol_count(&self) -> u32 {
        self.commands.symtab.map_or(0, |symtab| symtab.nsyms.get(ENDIAN))
    }

    /// The symbol of a section, by its number.
    fn section_symbol(&self, section: u32) -> SymbolId {
        SymbolId(self.symbol_count().saturating_add(section))
    }

    fn places(&self) -> Places {
        let raw = (1..).zip(&self.commands.sections);
        let mut places: Vec<_> = raw
            .map(|(number, raw)| PlaceInFile {
                addr: raw.addr(ENDIAN),
                size: raw.size(ENDIAN),
                section: SectionId(number),
                symbol: self.section_symbol(number),
            })
            .collect();
        // Of those at one address an empty one is found last.
        places.sort_by_key(|place| (place.addr, place.size));
        Places(places)
    }
}
