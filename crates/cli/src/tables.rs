//! The tables about code that are no stack maps: PC sections, the sanitizers' tables, plimmix GC
//! maps.
//!
//! An object is linked as the engine does it, so that the tables hold addresses; a linked file is
//! taken as it is. Sections are found by their names, GC maps by their symbols. What an entry
//! of a PC section consists of nobody but the user can tell.

use std::collections::BTreeMap;
use std::str::FromStr;

use object::{
    Architecture, BinaryFormat, Object, ObjectKind, ObjectSection, ObjectSymbol, Relocation, RelocationFlags,
    SymbolKind, elf,
};
use patchpoint::addr::{ByteOffset, CodeAddr, Len};
use patchpoint::image::{CodeTable, FunctionRange};
use patchpoint::metadata::{Covered, GcMap, IntegerSize, PcSection, PcSectionShape, RootKind};
use patchpoint::stackmap::{Endian, StackSize};

use crate::image::PlacedCode;
use crate::names::Names;
use crate::number::number;
use crate::object_file::ObjectFile;
use crate::problem::Problem;

const COVERED: &str = "sanmd_covered2";
const ATOMICS: &str = "sanmd_atomics2";
/// The name of the source file follows.
const GC_MAP: &str = "_IMMIX_GC_MAP_";

/// What the entries of a PC section consist of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PcSpec {
    pub(crate) section: String,
    text: String,
    shape: PcSectionShape,
}

const EXPECTED: &str = "expected SECTION=SHAPE, such as calls=instructions,u64,u8 or fns=functions,compressed: words are instructions, \
                        functions, sharing=COUNT, compressed, wide, and u8, u16, u32, u64 for each constant";

impl FromStr for PcSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (section, words) = text.split_once('=')?;
            let mut all = words.split(',').map(str::trim);
            let mut shape = match all.next()? {
                "instructions" => PcSectionShape::instructions(),
                "functions" => PcSectionShape::functions(),
                _ => return None,
            };
            for word in all {
                shape = match word {
                    "wide" => shape.wide(),
                    "compressed" => shape.compressed(),
                    "u8" => shape.constant(IntegerSize::One),
                    "u16" => shape.constant(IntegerSize::Two),
                    "u32" => shape.constant(IntegerSize::Four),
                    "u64" => shape.constant(IntegerSize::Eight),
                    _ => shape.sharing(u16::try_from(number(word.strip_prefix("sharing=")?)?).ok()?),
                };
            }
            Some(Self {
                section: section.to_owned(),
                text: words.to_owned(),
                shape,
            })
        };
        read().ok_or_else(|| EXPECTED.to_owned())
    }
}

/// A place in code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedAddress {
    pub(crate) name: Option<String>,
    /// In a linked file, or in the process that has it in its memory.
    pub(crate) address: Option<u64>,
}

#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) pc_sections: Vec<PcTable>,
    pub(crate) covered: Vec<CoveredTable>,
    pub(crate) gc_maps: Vec<GcTable>,
}

pub(crate) struct PcTable {
    pub(crate) section: String,
    pub(crate) shape: String,
    pub(crate) entries: Vec<PcEntry>,
}

pub(crate) struct PcEntry {
    pub(crate) byte_offset: ByteOffset,
    pub(crate) places: Vec<NamedAddress>,
    pub(crate) function_size: Option<u64>,
    pub(crate) constants: Vec<u64>,
}

pub(crate) struct CoveredTable {
    pub(crate) section: String,
    pub(crate) functions: Vec<CoveredEntry>,
}

pub(crate) struct CoveredEntry {
    pub(crate) byte_offset: ByteOffset,
    pub(crate) place: NamedAddress,
    pub(crate) size: u64,
    pub(crate) features: u64,
    pub(crate) has_atomics: bool,
    pub(crate) has_use_after_return: bool,
    pub(crate) stack_arguments: Option<u64>,
}

pub(crate) struct GcTable {
    pub(crate) symbol: String,
    pub(crate) functions: Vec<GcEntry>,
    pub(crate) globals: Vec<NamedAddress>,
}

pub(crate) struct GcEntry {
    pub(crate) place: NamedAddress,
    pub(crate) stack_size: Option<u64>,
    pub(crate) stack_arguments: u32,
    pub(crate) safepoints: Vec<NamedAddress>,
    /// Bytes from the stack pointer, and the kind.
    pub(crate) roots: Vec<(i32, &'static str)>,
}

impl Tables {
    /// Those that a file has, and those that are asked for; so far from a linked file's addresses.
    pub(crate) fn of(
        data: &[u8],
        file: &ObjectFile<'_>,
        specs: &[PcSpec],
        bias: u64,
    ) -> Result<Self, Problem> {
        let names: Vec<&str> = file
            .file
            .sections()
            .filter_map(|section| section.name().ok())
            .collect();
        if let Some(spec) = specs.iter().find(|spec| !names.contains(&spec.section.as_str())) {
            return Err(Problem::NoSection(spec.section.clone()));
        }
        if !Self::are_in(file, specs) {
            return Ok(Self::default());
        }
        let source = match file.file.kind() {
            ObjectKind::Relocatable => Source::link(data, file)?,
            _ => Source::as_is(file, bias)?,
        };
        source.read(specs)
    }

    /// Whether a file has any, or any are asked for.
    pub(crate) fn are_in(file: &ObjectFile<'_>, specs: &[PcSpec]) -> bool {
        let mut names = file.file.sections().filter_map(|section| section.name().ok());
        let has_tables = names.any(|name| [COVERED, ATOMICS].contains(&name));
        let has_any = has_tables || !specs.is_empty() || gc_symbols(file).next().is_some();
        file.file.format() == BinaryFormat::Elf && has_any
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pc_sections.is_empty() && self.covered.is_empty() && self.gc_maps.is_empty()
    }
}

/// The symbols of GC maps that the file defines.
fn gc_symbols<'f>(file: &'f ObjectFile<'_>) -> impl Iterator<Item = (String, u64)> + 'f {
    let symbols = file.file.symbols().filter(|symbol| symbol.is_definition());
    symbols.filter_map(|symbol| {
        let name = symbol.name().ok().filter(|name| name.starts_with(GC_MAP))?;
        Some((name.to_owned(), symbol.address()))
    })
}

/// Tables at addresses.
struct Source {
    tables: Vec<CodeTable>,
    /// Names, and bytes from the symbol on.
    gc_maps: Vec<(String, Vec<u8>)>,
    names: Names,
    endian: Endian,
    /// How far from the addresses of the file, if that is linked.
    bias: Option<u64>,
    /// The sections whose addresses take eight bytes.
    wide: Vec<String>,
}

impl Source {
    fn link(data: &[u8], file: &ObjectFile<'_>) -> Result<Self, Problem> {
        let code = PlacedCode::of(data, file, None)?;
        let symbols: BTreeMap<&str, CodeAddr> = code
            .symbols
            .iter()
            .map(|(name, addr)| (name.as_str(), *addr))
            .collect();
        let gc_maps = gc_symbols(file).filter_map(|(name, _)| {
            let addr = *symbols.get(name.as_str())?;
            let segment = code
                .segments
                .iter()
                .find(|segment| addr.is_within(segment.addr, segment.size))?;
            let at = usize::try_from(addr.distance_from(segment.addr)).ok()?;
            Some((name, segment.bytes.get(at..)?.to_vec()))
        });
        let gc_maps = gc_maps.collect();
        let mut names = Names::of(&code.image.functions, code.outside);
        for (name, addr) in &code.symbols {
            names.add(*addr, name);
        }
        Ok(Self {
            tables: code.image.code_tables,
            gc_maps,
            names,
            endian: file.endian(),
            bias: None,
            wide: wide_sections(file),
        })
    }

    fn as_is(file: &ObjectFile<'_>, bias: u64) -> Result<Self, Problem> {
        let mut tables = Vec::new();
        for section in file.file.sections() {
            let Ok(name) = section.name() else { continue };
            tables.push(CodeTable {
                name: name.to_owned(),
                addr: CodeAddr::new(section.address()),
                bytes: section.data()?.to_vec(),
            });
        }
        let from = |addr: u64| {
            let section = tables.iter().find(|table| {
                let end = table.addr.get().saturating_add(table.bytes.len() as u64);
                table.addr.get() != 0 && (table.addr.get()..end).contains(&addr)
            })?;
            let at = usize::try_from(addr - section.addr.get()).ok()?;
            Some(section.bytes.get(at..)?.to_vec())
        };
        let gc_maps = gc_symbols(file).filter_map(|(name, addr)| Some((name, from(addr)?)));
        Ok(Self {
            gc_maps: gc_maps.collect(),
            names: names_in(file),
            tables,
            endian: file.endian(),
            bias: Some(bias),
            wide: wide_sections(file),
        })
    }

    fn read(&self, specs: &[PcSpec]) -> Result<Tables, Problem> {
        let mut read = Tables::default();
        for table in &self.tables {
            let in_table = |error: patchpoint::Error| Problem::Table {
                table: table.name.clone(),
                error: Box::new(error),
            };
            let atomics = (table.name == ATOMICS).then(|| PcSpec {
                section: ATOMICS.to_owned(),
                text: "instructions".to_owned(),
                shape: PcSectionShape::instructions(),
            });
            let asked = specs.iter().filter(|spec| spec.section == table.name);
            for spec in asked.chain(&atomics) {
                read.pc_sections
                    .push(self.pc_section(table, spec).map_err(in_table)?);
            }
            if table.name == COVERED {
                read.covered.push(self.covered(table).map_err(in_table)?);
            }
        }
        for (symbol, bytes) in &self.gc_maps {
            let table = self.gc_map(symbol, bytes).map_err(|error| Problem::Table {
                table: symbol.clone(),
                error: Box::new(error),
            });
            read.gc_maps.push(table?);
        }
        Ok(read)
    }

    fn place(&self, addr: CodeAddr) -> NamedAddress {
        NamedAddress {
            name: self.names.get(addr),
            address: self.bias.map(|bias| addr.get().wrapping_add(bias)),
        }
    }

    fn pc_section(&self, table: &CodeTable, spec: &PcSpec) -> patchpoint::Result<PcTable> {
        let shape = match self.wide.contains(&table.name) {
            true => spec.shape.clone().wide(),
            false => spec.shape.clone(),
        };
        let section = PcSection::parse(&table.bytes, table.addr, self.endian, &shape)?;
        let entries = section.entries().map(|entry| PcEntry {
            byte_offset: entry.byte_offset(),
            places: entry.pcs().map(|pc| self.place(pc)).collect(),
            function_size: entry.function_size(),
            constants: entry.constants().collect(),
        });
        Ok(PcTable {
            section: table.name.clone(),
            shape: spec.text.clone(),
            entries: entries.collect(),
        })
    }

    fn covered(&self, table: &CodeTable) -> patchpoint::Result<CoveredTable> {
        let wide = self.wide.contains(&table.name);
        let covered = Covered::parse(&table.bytes, table.addr, self.endian, wide)?;
        let functions = covered.functions().map(|function| CoveredEntry {
            byte_offset: function.byte_offset,
            place: self.place(function.entry),
            size: function.size,
            features: function.features.get(),
            has_atomics: function.features.has_atomics(),
            has_use_after_return: function.features.has_use_after_return(),
            stack_arguments: function.stack_arguments,
        });
        Ok(CoveredTable {
            section: table.name.clone(),
            functions: functions.collect(),
        })
    }

    fn gc_map(&self, symbol: &str, bytes: &[u8]) -> patchpoint::Result<GcTable> {
        let map = GcMap::parse(bytes, self.endian)?;
        let functions = map.functions().map(|function| GcEntry {
            place: self.place(function.entry()),
            stack_size: match function.stack_size() {
                StackSize::Known(size) => Some(size),
                StackSize::Unknown => None,
            },
            stack_arguments: function.stack_arguments(),
            safepoints: function.safepoints().map(|pc| self.place(pc)).collect(),
            roots: function
                .roots()
                .map(|root| (root.offset, kind(root.kind)))
                .collect(),
        });
        Ok(GcTable {
            symbol: symbol.to_owned(),
            functions: functions.collect(),
            globals: map.globals().map(|global| self.place(global)).collect(),
        })
    }
}

fn kind(kind: RootKind) -> &'static str {
    match kind {
        RootKind::Atomic => "atomic",
        RootKind::Trait => "trait",
        RootKind::Complex => "complex",
        RootKind::Pointer => "pointer",
        RootKind::Other => "other",
    }
}

/// The sections whose addresses have pointer size: all of 64-bit PowerPC's, and those that have
/// such relocations, which a linked file has no more.
fn wide_sections(file: &ObjectFile<'_>) -> Vec<String> {
    let is_relocatable = file.file.kind() == ObjectKind::Relocatable;
    let power = file.file.architecture() == Architecture::PowerPc64;
    let has_wide = |section: &object::Section<'_, '_>| {
        let mut relocations = section.relocations();
        power || is_relocatable && relocations.any(|(_, relocation)| is_wide(file, &relocation))
    };
    let wide = file.file.sections().filter(has_wide);
    wide.filter_map(|section| section.name().ok().map(str::to_owned))
        .collect()
}

/// Whether a relocation puts a distance into eight bytes.
fn is_wide(file: &ObjectFile<'_>, relocation: &Relocation) -> bool {
    let RelocationFlags::Elf { r_type } = relocation.flags() else {
        return false;
    };
    r_type
        == match file.file.architecture() {
            Architecture::X86_64 => elf::R_X86_64_PC64,
            Architecture::Aarch64 => elf::R_AARCH64_PREL64,
            Architecture::S390x => elf::R_390_PC64,
            Architecture::Riscv64 => elf::R_RISCV_ADD64,
            _ => return false,
        }
}

/// The names of a linked file's functions and variables.
fn names_in(file: &ObjectFile<'_>) -> Names {
    let mut functions = Vec::new();
    let mut variables = Vec::new();
    for symbol in file.file.symbols().filter(|symbol| symbol.is_definition()) {
        let Ok(name) = symbol.name() else { continue };
        let addr = CodeAddr::new(symbol.address());
        match file.symbol_kind(&symbol) {
            SymbolKind::Text => functions.push(FunctionRange {
                name: name.to_owned(),
                addr,
                len: Len::new(u32::try_from(symbol.size()).unwrap_or(u32::MAX)),
                pointer: addr,
            }),
            SymbolKind::Data => variables.push((addr, name.to_owned())),
            _ => {}
        }
    }
    let mut names = Names::of(&functions, BTreeMap::new());
    for (addr, name) in variables {
        names.add(addr, name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_words() {
        let read = |text: &str| text.parse::<PcSpec>().map(|spec| (spec.section, spec.shape));
        let shape = PcSectionShape::instructions()
            .sharing(2)
            .constant(IntegerSize::Eight)
            .constant(IntegerSize::One);
        assert_eq!(
            read("a=instructions, sharing=2,u64,u8"),
            Ok(("a".to_owned(), shape))
        );
        let shape = PcSectionShape::functions()
            .wide()
            .compressed()
            .constant(IntegerSize::Two)
            .constant(IntegerSize::Four);
        assert_eq!(read("b=functions,wide,compressed,u16,u32").unwrap().1, shape);
        for wrong in ["a", "a=", "a=u8", "a=functions,u9", "a=instructions,sharing=x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
