//! COMDAT sections: each is a group of its own, with those that are associated with it.

use alloc::format;
use alloc::vec::Vec;
use std::collections::HashMap;

use object::pe::{
    ComdatSelection, IMAGE_COMDAT_SELECT_ANY, IMAGE_COMDAT_SELECT_ASSOCIATIVE,
    IMAGE_COMDAT_SELECT_EXACT_MATCH, IMAGE_COMDAT_SELECT_LARGEST, IMAGE_COMDAT_SELECT_NODUPLICATES,
    IMAGE_COMDAT_SELECT_SAME_SIZE, IMAGE_SCN_LNK_COMDAT, ImageAuxSymbolSection, SymbolSection,
};
use object::read::coff::{CoffHeader, Symbol as _};
use object::{LittleEndian as LE, SymbolIndex};

use super::Reader;
use crate::error::Result;
use crate::graph::checks::{malformed, refuse};
use crate::graph::comdat::{self, SectionGroup, Selection};
use crate::graph::{Graph, Scope, SectionId, SectionRole};

/// What the symbol of a COMDAT section says of it.
struct Comdat {
    section: SectionId,
    selection: ComdatSelection,
    associated: u32,
}

impl<'data, Header: CoffHeader> Reader<'data, Header> {
    /// Reads them in the order of symbols: of each section its own comes first, then the one that
    /// names the group.
    pub(crate) fn groups(&self, graph: &mut Graph<'data>) -> Result<()> {
        let mut waiting: HashMap<SectionId, Comdat> = HashMap::new();
        let mut names: Vec<(Comdat, usize)> = Vec::new();
        for (index, raw) in self.symbols.iter() {
            let Some(id) = self.comdat_section(raw.section_number()) else {
                continue;
            };
            if let Some(comdat) = waiting.remove(&id) {
                names.push((comdat, index.0));
            } else if raw.has_aux_section() {
                let comdat = self.comdat(id, index)?;
                if comdat.selection == IMAGE_COMDAT_SELECT_ASSOCIATIVE {
                    associate(graph, &comdat)?;
                } else {
                    waiting.insert(id, comdat);
                }
            }
        }
        if let Some(id) = waiting.keys().min() {
            let section = graph.section(*id);
            let section = section.expect("each that waits is one of the graph's");
            return Err(comdat::malformed(&section.name, "no symbol names it"));
        }
        for (comdat, symbol) in names {
            self.group(graph, &comdat, symbol)?;
        }
        Ok(())
    }

    /// The section with this number, if it is a COMDAT.
    fn comdat_section(&self, number: SymbolSection) -> Option<SectionId> {
        let number = number.index()?;
        let raw = self
            .sections
            .section(object::SectionIndex(number as usize))
            .ok()?;
        raw.characteristics
            .get(LE)
            .contains(IMAGE_SCN_LNK_COMDAT)
            .then_some(SectionId(number))
    }

    fn comdat(&self, section: SectionId, index: SymbolIndex) -> Result<Comdat> {
        let raw: &ImageAuxSymbolSection = self
            .symbols
            .aux_section(index)
            .map_err(malformed("a section's symbol"))?;
        let mut associated = u32::from(raw.number.get(LE));
        if Header::is_type_bigobj() {
            associated |= u32::from(raw.high_number.get(LE)) << 16;
        }
        Ok(Comdat {
            section,
            selection: raw.selection,
            associated,
        })
    }

    fn group(&self, graph: &mut Graph<'data>, comdat: &Comdat, symbol: usize) -> Result<()> {
        let (Some(section), Some(symbol)) = (graph.section(comdat.section), graph.symbols.get(symbol)) else {
            return Ok(());
        };
        if section.role == SectionRole::Ignored {
            return Ok(());
        }
        let selection = match comdat.selection {
            // One that only its object knows is no other object's.
            _ if symbol.scope == Scope::Local => None,
            IMAGE_COMDAT_SELECT_NODUPLICATES => Some(Selection::NoDuplicates),
            IMAGE_COMDAT_SELECT_ANY => Some(Selection::Any),
            IMAGE_COMDAT_SELECT_SAME_SIZE => Some(Selection::SameSize),
            IMAGE_COMDAT_SELECT_EXACT_MATCH => Some(Selection::ExactMatch),
            IMAGE_COMDAT_SELECT_LARGEST => Some(Selection::Largest),
            _ => return Err(refuse(&section.name, "its COMDAT selection is unknown")),
        };
        // The name is there once more.
        self.names.text(symbol.name.as_bytes())?;
        let group = SectionGroup {
            name: symbol.name.clone(),
            file: 0,
            selection,
            sections: alloc::vec![comdat.section],
        };
        graph.groups.push(group);
        Ok(())
    }
}

/// A section that goes where another one goes.
fn associate(graph: &mut Graph<'_>, comdat: &Comdat) -> Result<()> {
    let other = SectionId(comdat.associated);
    let is_there = other.0 > 0 && graph.section(other).is_some() && other != comdat.section;
    let Some(section) = graph.sections.get_mut(comdat.section.index()) else {
        return Ok(());
    };
    if !is_there {
        let reason = format!("section {}, which it is associated with, is not there", other.0);
        return Err(comdat::malformed(&section.name, &reason));
    }
    section.about = Some(other);
    Ok(())
}
