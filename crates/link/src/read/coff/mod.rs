//! From the bytes of a COFF object for x86-64 to the graph. Every offset, size, alignment and index
//! of the file is checked here, so that layout and linking need not fail on them.
//!
//! What differs from ELF:
//!
//! - Functions have the calling convention of Windows, also those that a runtime calls by their address
//!   (`extern "win64"`), and call what the resolver gives them by it.
//! - 32-bit addresses (`ADDR32NB`) and the symbol `__ImageBase` count from the lowest address of the image:
//!   [`LinkedImage::image_base`](crate::LinkedImage::image_base). They reach the image only; who has a handler of exceptions
//!   outside of it gives one that is in reach.
//! - Symbols have no sizes: a function reaches to the next.
//! - A section with a COMDAT selection is a group of its own, by the name of its first symbol, with those that are
//!   associated with it.
//! - A weak external symbol stands for its default, unless another object defines it.
//! - `__imp_f` is the place that holds the address of `f`: an entry of the global offset table.
//! - Unwind information (`.pdata`, `.xdata`) is placed like constants, and the former is kept among
//!   [`Image::code_tables`](crate::Image::code_tables), as only the system's unwinder reads it.
//! - Of what tells a linker something, `/alternatename:` and `/include:` in `.drectve` count; the others, debug information and
//!   tables of control flow guard are ignored.
//! - Where an object or a pass defines `__ImageBase`, 32-bit addresses count from that.
//!
//! Source: Microsoft, "PE Format", on objects; for large ones (`/bigobj`) the SDK's
//! `ANON_OBJECT_HEADER_BIGOBJ`, as the `object` crate reads them. What link.exe does with common
//! symbols: LLVM, `lld/COFF/Chunks.cpp`.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use object::LittleEndian as LE;
use object::pe::{self, AnonObjectHeaderBigobj, ImageFileHeader, ImageSectionHeader};
use object::read::coff::{CoffHeader, SectionTable, SymbolTable};
use patchpoint_isa::Arch;

use crate::error::{Error, Result};
use crate::format::ObjectFormat;
use crate::graph::checks::{self, Texts, contradiction, malformed, refuse};
use crate::graph::{Definition, Graph, Section, SectionId, SectionRole};

mod directives;
mod groups;
mod relocations;
mod roles;
mod symbols;

/// What a large object starts with in place of its machine.
const ANONYMOUS: [u8; 4] = [0x00, 0x00, 0xff, 0xff];

/// Reads a COFF relocatable object.
pub(super) fn read(bytes: &[u8]) -> Result<Graph<'_>> {
    if bytes.starts_with(&ANONYMOUS) {
        Reader::<AnonObjectHeaderBigobj>::read(bytes)
    } else {
        Reader::<ImageFileHeader>::read(bytes)
    }
}

struct Reader<'data, Header: CoffHeader> {
    bytes: &'data [u8],
    names: Texts,
    sections: SectionTable<'data>,
    symbols: SymbolTable<'data, &'data [u8], Header>,
}

impl<'data, Header: CoffHeader> Reader<'data, Header> {
    fn read(bytes: &'data [u8]) -> Result<Graph<'data>> {
        let mut offset = 0;
        let header = Header::parse(bytes, &mut offset).map_err(malformed("the file header"))?;
        if header.characteristics().contains(pe::IMAGE_FILE_EXECUTABLE_IMAGE) {
            let found = String::from("a linked COFF file");
            return Err(Error::ObjectUnsupported { found });
        }
        let reader = Self {
            bytes,
            names: Texts::of_file(bytes.len()),
            sections: header
                .sections(bytes, offset)
                .map_err(malformed("the section table"))?,
            symbols: header.symbols(bytes).map_err(malformed("the symbol table"))?,
        };
        let mut graph = Graph::of_file(ObjectFormat::Coff, Arch::X86_64);
        graph.sections = reader.sections()?;
        reader.symbols(&mut graph)?;
        reader.groups(&mut graph)?;
        reader.edges(&mut graph)?;
        reader.directives(&mut graph)?;
        // protection: one-file-keeps-one-comdat-of-a-name
        graph.choose_among_own()?;
        tie_unwind_tables(&mut graph);
        Ok(graph)
    }

    /// All sections under their numbers, which count from 1: under 0 there is one of nothing.
    fn sections(&self) -> Result<Vec<Section<'data>>> {
        let mut sections = Vec::with_capacity(self.sections.len() + 1);
        sections.push(Section::nothing());
        for raw in self.sections.iter() {
            sections.push(self.section(raw)?);
        }
        Ok(sections)
    }

    fn section(&self, raw: &'data ImageSectionHeader) -> Result<Section<'data>> {
        let name = raw
            .name(self.symbols.strings())
            .map_err(malformed("a section's name"))?;
        let mut section = Section::nothing();
        section.name = self.names.text(name)?;
        section.role = roles::role(&section.name, raw.characteristics.get(LE))?;
        if section.role == SectionRole::Ignored {
            return Ok(section);
        }
        section.align = checks::alignment(&section.name, raw.coff_alignment())?;
        section.size = checks::size(raw.size_of_raw_data.get(LE).into())?;
        let data = raw.coff_data(self.bytes).map_err(|()| {
            let reason = format!("those of {} are not in the file", section.name);
            contradiction("a section's bytes", reason)
        })?;
        section.bytes = Cow::Borrowed(data);
        section.about_code = section.name == PDATA;
        checks::zeros(&section)?;
        Ok(section)
    }
}

/// The table of functions with their unwind information.
const PDATA: &str = ".pdata";

/// Such a table is about the code that it speaks of: nobody needs it without. One that speaks of
/// several sections is kept.
fn tie_unwind_tables(graph: &mut Graph<'_>) {
    let code = |graph: &Graph<'_>, section: &Section<'_>| -> Option<SectionId> {
        let mut found = None;
        for edge in &section.edges {
            let symbol = graph.symbols.get(edge.target.index())?;
            let Definition::Section(id, _) = symbol.definition else {
                continue;
            };
            let is_code = graph
                .section(id)
                .is_some_and(|section| section.role == SectionRole::Code);
            if is_code && found.replace(id).is_some_and(|other| other != id) {
                return None;
            }
        }
        found
    };
    let tables = graph.sections.iter().enumerate();
    let tables = tables.filter(|(_, section)| section.about_code && section.about.is_none());
    let found: Vec<_> = tables
        .map(|(index, section)| (index, code(graph, section)))
        .collect();
    for (index, code) in found {
        if let Some(section) = graph.sections.get_mut(index) {
            section.about = code;
            section.retained = code.is_none();
        }
    }
}

/// What a section is refused for that only the writable code of others would need.
fn writable_code(name: &str) -> Error {
    refuse(name, "it would be writable and executable at once")
}
