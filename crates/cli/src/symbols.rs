//! Functions: their names, where their code is, and where it ends.

use std::collections::BTreeSet;
use std::ops::Bound;

use object::read::pe::ExportTable;
use object::{Object, ObjectSection, ObjectSymbol, SectionIndex, SymbolKind};
use patchpoint::arch::Arch;

use crate::object_file::{MapSection, ObjectFile};
use crate::relocate::{CodePlace, Relocated, Target, place_of, relocate};

/// The symbols of a file, and the function descriptors of PowerPC's first ELF convention.
pub(crate) struct Symbols {
    /// Sorted by place, the best name for a place first.
    symbols: Vec<Symbol>,
    /// Where functions start of which only a stack map tells.
    starts: BTreeSet<CodePlace>,
    descriptors: Option<(SectionIndex, Relocated)>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    place: CodePlace,
    rank: u8,
    name: String,
    size: u64,
}

/// A function as the file shows it.
pub(crate) struct CodeOf {
    pub(crate) name: Option<String>,
    pub(crate) place: Option<CodePlace>,
    /// How many bytes from `place` on belong to the function.
    pub(crate) size: Option<u64>,
}

impl Symbols {
    pub(crate) fn of(file: &ObjectFile<'_>) -> Self {
        let all = file.file.symbols().chain(file.file.dynamic_symbols());
        let mut symbols: Vec<_> = all.filter_map(|symbol| read(file, &symbol)).collect();
        symbols.extend(exports(file));
        symbols.sort();
        Self {
            symbols,
            starts: BTreeSet::new(),
            descriptors: descriptors(file),
        }
    }

    /// Remembers where a function of a stack map starts: the one before it ends there.
    pub(crate) fn add_start(&mut self, file: &ObjectFile<'_>, target: &Target) {
        let place = target
            .place
            .and_then(|entry| self.through_descriptor(file, entry));
        self.starts.extend(place);
    }

    /// The function to which an address field refers.
    pub(crate) fn function(&self, file: &ObjectFile<'_>, target: Target) -> CodeOf {
        let entry = target.place;
        let name = target.name.or_else(|| {
            entry
                .and_then(|entry| self.at(entry))
                .map(|symbol| symbol.name.clone())
        });
        let place = entry.and_then(|entry| self.through_descriptor(file, entry));
        // A descriptor's symbol has the size of the code.
        let size = entry
            .and_then(|entry| self.at(entry))
            .map(|symbol| symbol.size)
            .filter(|size| *size != 0);
        CodeOf {
            name,
            place,
            size: size.or_else(|| place.and_then(|place| self.up_to_next(file, place))),
        }
    }

    fn through_descriptor(&self, file: &ObjectFile<'_>, entry: CodePlace) -> Option<CodePlace> {
        match &self.descriptors {
            Some((section, relocated)) if section.0 == entry.section => {
                relocated.target(file, entry.offset).place
            }
            _ => Some(entry),
        }
    }

    fn at(&self, place: CodePlace) -> Option<&Symbol> {
        let first = self.symbols.partition_point(|symbol| symbol.place < place);
        self.symbols.get(first).filter(|symbol| symbol.place == place)
    }

    /// The bytes up to the next symbol or function, or to the end of the section.
    fn up_to_next(&self, file: &ObjectFile<'_>, place: CodePlace) -> Option<u64> {
        let symbol = self.symbols.partition_point(|symbol| symbol.place <= place);
        let symbol = self.symbols.get(symbol).map(|symbol| symbol.place);
        let start = self
            .starts
            .range((Bound::Excluded(place), Bound::Unbounded))
            .next()
            .copied();
        let next = symbol
            .into_iter()
            .chain(start)
            .filter(|next| next.section == place.section)
            .min();
        let end = match next {
            Some(next) => next.offset,
            None => file
                .file
                .section_by_index(SectionIndex(place.section))
                .ok()?
                .size(),
        };
        end.checked_sub(place.offset)
    }
}

/// What a linked PE file exports: it has no other symbols.
fn exports(file: &ObjectFile<'_>) -> Vec<Symbol> {
    let table = match &file.file {
        object::File::Pe32(pe) => pe.export_table(),
        object::File::Pe64(pe) => pe.export_table(),
        _ => return Vec::new(),
    };
    // Malformed, they name nothing.
    let Ok(Some(exports)) = table.and_then(|table| table.as_ref().map(exported).transpose()) else {
        return Vec::new();
    };
    let base = file.file.relative_address_base();
    let symbol = |(name, addr): (&[u8], u32)| {
        Some(Symbol {
            place: place_of(file, base.wrapping_add(addr.into()))?,
            rank: 0,
            name: String::from_utf8_lossy(name).into_owned(),
            size: 0,
        })
    };
    exports.into_iter().filter_map(symbol).collect()
}

/// The names in a table of exports, but for those that stand for another file's, with their
/// addresses from the base of the file on.
fn exported<'d>(table: &ExportTable<'d>) -> object::Result<Vec<(&'d [u8], u32)>> {
    let all = table.name_iter().map(|(name, index)| {
        let (name, addr) = (table.name_from_pointer(name)?, table.address_by_index(index)?);
        Ok((!table.is_forward(addr)).then_some((name, addr)))
    });
    all.filter_map(object::Result::transpose).collect()
}

fn read<'data>(file: &ObjectFile<'data>, symbol: &impl ObjectSymbol<'data>) -> Option<Symbol> {
    let kind_rank = match file.symbol_kind(symbol) {
        SymbolKind::Text => 0,
        SymbolKind::Unknown | SymbolKind::Label => 2,
        _ => return None,
    };
    let name = symbol.name().ok()?;
    // `$x` and its like mark code and data for disassemblers.
    if name.is_empty() || name.starts_with('$') || !symbol.is_definition() && kind_rank == 0 {
        return None;
    }
    let section = symbol.section_index()?;
    let start = file.file.section_by_index(section).ok()?.address();
    Some(Symbol {
        place: CodePlace {
            section: section.0,
            offset: symbol.address().checked_sub(start)?,
        },
        rank: kind_rank + u8::from(!symbol.is_global()),
        name: name.to_owned(),
        size: symbol.size(),
    })
}

fn descriptors(file: &ObjectFile<'_>) -> Option<(SectionIndex, Relocated)> {
    let has_descriptors = file.arch().is_some_and(Arch::has_descriptors);
    if file.file.architecture() != object::Architecture::PowerPc64 || !has_descriptors {
        return None;
    }
    let section = file.file.section_by_name(".opd")?;
    let as_read = MapSection {
        index: section.index(),
        name: ".opd".to_owned(),
        address: section.address(),
        data: section.data().ok()?,
        at: section.file_range().map_or(0, |(at, _)| at),
    };
    Some((section.index(), relocate(file, &as_read)))
}
