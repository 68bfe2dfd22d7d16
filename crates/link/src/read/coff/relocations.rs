//! The relocations of COFF for x86-64.

use alloc::format;
use core::mem::size_of;
use std::collections::HashMap;

use llvm_stackmaps::addr::ByteOffset;
use object::LittleEndian as LE;
use object::pe::{
    IMAGE_REL_AMD64_ABSOLUTE, IMAGE_REL_AMD64_ADDR32, IMAGE_REL_AMD64_ADDR32NB, IMAGE_REL_AMD64_ADDR64,
    IMAGE_REL_AMD64_REL32, IMAGE_REL_AMD64_REL32_1, IMAGE_REL_AMD64_REL32_2, IMAGE_REL_AMD64_REL32_3,
    IMAGE_REL_AMD64_REL32_4, IMAGE_REL_AMD64_REL32_5, IMAGE_REL_AMD64_SECREL, ImageRelocation,
    RelocationType,
};
use object::read::coff::CoffHeader;

use super::Reader;
use crate::error::{Error, Result};
use crate::graph::checks::{Room, contradiction, malformed, place};
use crate::graph::{Definition, Edge, Graph, Scope, Section, SectionRole, Strength, Symbol, SymbolId};
use crate::relocation::{self, Formula};

/// What the name of the place that holds a function's address starts with.
const IMPORTED: &str = "__imp_";

/// The symbols whose addresses are in a table, by the symbol for their place in it.
type Imports = HashMap<SymbolId, SymbolId>;

impl<'data, Header: CoffHeader> Reader<'data, Header> {
    /// The relocations of every section that is placed or kept.
    pub(crate) fn edges(&self, graph: &mut Graph<'data>) -> Result<()> {
        let imports = imports(graph)?;
        let mut room = Room::of(self.bytes, size_of::<ImageRelocation>());
        let Graph {
            sections, symbols, ..
        } = graph;
        for (raw, section) in self.sections.iter().zip(sections.iter_mut().skip(1)) {
            if section.role == SectionRole::Ignored {
                continue;
            }
            let relocations = raw
                .coff_relocations(self.bytes)
                .map_err(malformed("relocations"))?;
            room.take(relocations.len())?;
            section.edges.reserve(relocations.len());
            for relocation in relocations {
                let offset = relocation
                    .virtual_address
                    .get(LE)
                    .wrapping_sub(raw.virtual_address.get(LE));
                let target = SymbolId(relocation.symbol_table_index.get(LE));
                if target.index() >= symbols.len() {
                    let (section, target) = (&section.name, target.0);
                    let reason = format!("symbol {target} of {section} at {offset:#x} is not there");
                    return Err(contradiction("a relocation's symbol", reason));
                }
                let number = relocation.typ.get(LE);
                let edge = edge(section, offset, number, target, &imports)?;
                section.edges.extend(edge);
            }
        }
        Ok(())
    }
}

/// What stands for a place that holds an address is the symbol whose address it is.
fn imports(graph: &mut Graph<'_>) -> Result<Imports> {
    let mut imports = Imports::new();
    let places: alloc::vec::Vec<_> = (0..)
        .map(SymbolId)
        .zip(&graph.symbols)
        .filter(|(_, symbol)| matches!(symbol.definition, Definition::Undefined { .. }))
        .filter_map(|(id, symbol)| Some((id, symbol.name.strip_prefix(IMPORTED)?.into())))
        .collect();
    if places.is_empty() {
        return Ok(imports);
    }
    let shared = (0..).map(SymbolId).zip(&graph.symbols);
    let shared = shared.filter(|(_, symbol)| symbol.scope != Scope::Local);
    let mut known: HashMap<alloc::string::String, SymbolId> = shared
        .map(|(id, symbol)| (symbol.name.clone().into_owned(), id))
        .collect();
    for (place, name) in places {
        let name: alloc::string::String = name;
        let new = SymbolId(
            u32::try_from(graph.symbols.len())
                .map_err(|_| contradiction("the symbol table", "it is too long".into()))?,
        );
        let id = *known.entry(name.clone()).or_insert(new);
        if id == new {
            graph.symbols.push(Symbol {
                name: name.into(),
                definition: Definition::Undefined { weak: false },
                scope: Scope::Exported,
                strength: Strength::Reference,
                ..Symbol::null()
            });
        }
        imports.insert(place, id);
    }
    Ok(imports)
}

fn edge(
    section: &Section<'_>,
    offset: u32,
    number: RelocationType,
    target: SymbolId,
    imports: &Imports,
) -> Result<Option<Edge>> {
    let imported = imports.get(&target).copied();
    let (formula, behind) = match number {
        IMAGE_REL_AMD64_ABSOLUTE => return Ok(None),
        IMAGE_REL_AMD64_ADDR64 if imported.is_some() => (Formula::GotEntryAddress, 0),
        IMAGE_REL_AMD64_ADDR64 | IMAGE_REL_AMD64_ADDR32 => (Formula::Absolute, 0),
        IMAGE_REL_AMD64_ADDR32NB => (Formula::FromImageBase, 0),
        IMAGE_REL_AMD64_SECREL => (Formula::FromSection, 0),
        IMAGE_REL_AMD64_REL32
        | IMAGE_REL_AMD64_REL32_1
        | IMAGE_REL_AMD64_REL32_2
        | IMAGE_REL_AMD64_REL32_3
        | IMAGE_REL_AMD64_REL32_4
        | IMAGE_REL_AMD64_REL32_5 => {
            let formula = if imported.is_some() {
                Formula::GotEntry
            } else if number == IMAGE_REL_AMD64_REL32 && is_branch(section, offset) {
                Formula::Branch
            } else {
                Formula::Relative
            };
            // From the field's end, and as many bytes behind that as the number says.
            (formula, 4 + i64::from(number.0 - IMAGE_REL_AMD64_REL32.0))
        }
        _ => return Err(refused(section, offset, number, None)),
    };
    let through_table = matches!(formula, Formula::GotEntry | Formula::GotEntryAddress);
    let row = relocation::coff::of(number, formula);
    let Some(row) = row.filter(|_| imported.is_none() || through_table) else {
        let reason = "an imported address is in a table, to which this does not refer";
        return Err(refused(section, offset, number, Some(reason)));
    };
    let place = place(section, row, u64::from(offset))?;
    let field = section.bytes.get(place as usize..);
    let field = field.expect("it has been placed in the section");
    let added = match (row.width(), field.first_chunk::<8>(), field.first_chunk::<4>()) {
        (8, Some(field), _) => i64::from_le_bytes(*field),
        (_, _, Some(field)) => i64::from(i32::from_le_bytes(*field)),
        _ => 0,
    };
    let addend = added.wrapping_sub(behind);
    Ok(Some(Edge::new(place, row, imported.unwrap_or(target), addend)))
}

fn refused(
    section: &Section<'_>,
    offset: u32,
    number: RelocationType,
    reason: Option<&'static str>,
) -> Error {
    let (relocation, why) = relocation::coff::why_refused(number);
    Error::RelocationUnsupported {
        relocation,
        section: section.name.clone().into_owned(),
        offset: ByteOffset::new(offset.into()),
        reason: reason.unwrap_or(why),
    }
}

/// Whether the field is that of a call or jump, which may go to a stub. COFF does not say so, but
/// the byte before the field does: no operand relative to the instruction has such a byte there
/// (Intel SDM, volume 2, table 2-2: the ModR/M byte is 5 modulo 8).
fn is_branch(section: &Section<'_>, offset: u32) -> bool {
    let before = |count: usize| section.bytes.get((offset as usize).checked_sub(count)?).copied();
    let opcode = match (before(2), before(1)) {
        // CALL, JMP
        (_, Some(0xe8 | 0xe9)) => true,
        // Jcc: two bytes. 0x85 and 0x8d could be a ModR/M byte, but not of this kind: their upper
        // bits say another.
        (Some(0x0f), Some(0x80..=0x8f)) => true,
        _ => false,
    };
    opcode && section.role == SectionRole::Code
}
