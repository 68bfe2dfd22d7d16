//! Sections that are taken apart function by function: unwind information and stack maps. Each part
//! of such a table is needed with the code that it describes, not the other way round.
//!
//! Approach: a table is a list of parts, each with the section of code that it describes, the edges
//! that refer out of it, and the part that it cannot be without. Bytes outside of all parts stay. A
//! table that is not understood has none: it is kept with all that it refers to.
//!
//! Sources: Linux Standard Base 5.0, section 10.6 (`.eh_frame`); LLVM, "Stack maps and patch
//! points", on the format.

use alloc::vec::Vec;

use llvm_stackmaps::{Endian, StackMaps};

use crate::graph::cut::Cuts;
use crate::graph::{Edge, Graph, Section, SectionId, SectionRole};

/// A part of a table.
pub(crate) struct TablePart {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The code that it describes; of none, it is live only when another part needs it.
    pub(crate) code: Option<SectionId>,
    /// The edges to follow when it is live, as a range of the table's order.
    edges: (usize, usize),
    /// The part that it needs.
    pub(crate) needs: Option<usize>,
}

/// A section taken apart.
pub(crate) struct Table {
    pub(crate) section: usize,
    pub(crate) parts: Vec<TablePart>,
    /// The indices of the section's edges, ascending by offset.
    order: Vec<u32>,
}

impl Table {
    /// The parts of a section, if it is one of those and understood.
    pub(crate) fn of(graph: &Graph<'_>, index: usize, section: &Section<'_>) -> Option<Self> {
        let mut order: Vec<u32> = (0..section.edges.len() as u32).collect();
        order.sort_by_key(|index| ordered(section, *index).offset);
        let reader = Reader {
            graph,
            section,
            order: &order,
        };
        let parts = match section.role {
            SectionRole::EhFrame => reader.frames()?,
            SectionRole::StackMaps => reader.functions()?,
            _ => return None,
        };
        Some(Self {
            section: index,
            parts,
            order,
        })
    }

    /// The edges of a part but the one that names the code.
    pub(crate) fn edges<'s>(
        &self,
        section: &'s Section<'_>,
        part: &TablePart,
    ) -> impl Iterator<Item = &'s Edge> {
        let range = self.order.get(part.edges.0..part.edges.1);
        let range = range.expect("a part's edges are some of the table's");
        range.iter().map(|index| ordered(section, *index))
    }
}

/// The edge of a section with that index, one of a table's order.
fn ordered<'s>(section: &'s Section<'_>, index: u32) -> &'s Edge {
    let edge = section.edges.get(index as usize);
    edge.expect("the order is of the section's edges")
}

struct Reader<'a, 'data> {
    graph: &'a Graph<'data>,
    section: &'a Section<'data>,
    order: &'a [u32],
}

/// The size of an entry's length, and that of its identifier.
const WORD: u32 = 4;
/// A length of this, and the real one follows in 64 bits.
const EXTENDED: u32 = u32::MAX;

impl Reader<'_, '_> {
    fn word(&self, at: u32) -> Option<u32> {
        read_word(&self.section.bytes, self.graph.endian(), at)
    }

    /// The first edge at or behind an offset, as an index into the order.
    fn first_edge(&self, offset: u32) -> usize {
        self.order.partition_point(|index| {
            let edge = self.section.edges.get(*index as usize);
            edge.is_some_and(|edge| edge.offset < offset)
        })
    }

    /// The code that the edge at this offset refers to.
    fn code_at(&self, offset: u32) -> Option<SectionId> {
        let index = *self.order.get(self.first_edge(offset))?;
        let edge = self.section.edges.get(index as usize)?;
        let spot = self.graph.spot(edge.target.index(), edge.addend)?;
        // Descriptors are not known before there is a need.
        let (section, _) = self.graph.descriptors.code(spot).unwrap_or(spot);
        (edge.offset == offset).then_some(section)
    }

    /// The entries of unwind information: of a function (FDE), or what several have in common
    /// (CIE).
    fn frames(&self) -> Option<Vec<TablePart>> {
        let (mut parts, mut at) = (Vec::<TablePart>::new(), 0);
        while u64::from(at) < self.section.bytes.len() as u64 {
            let len = self.word(at)?;
            if len == 0 {
                break;
            }
            let id_at = at.checked_add(WORD)?;
            let end = id_at.checked_add(len)?;
            if len == EXTENDED || len < WORD || end as usize > self.section.bytes.len() {
                return None;
            }
            let mut part = TablePart {
                start: at,
                end,
                code: None,
                edges: (self.first_edge(at), self.first_edge(end)),
                needs: None,
            };
            if !self.is_common(id_at)? {
                let common = self.common_of(id_at)?;
                part.needs = Some(parts.binary_search_by_key(&common, |part| part.start).ok()?);
                // An entry that ends before has none; what is there is of the next.
                let function_at = id_at.checked_add(WORD).filter(|at| *at < end)?;
                part.code = Some(self.code_at(function_at)?);
                // What follows the field that names the code.
                part.edges.0 = self.first_edge(function_at.checked_add(1)?);
            }
            parts.push(part);
            at = end;
        }
        Some(parts)
    }

    /// Whether the entry whose identifier is here is a CIE: 0 is there, and no relocation.
    fn is_common(&self, id_at: u32) -> Option<bool> {
        Some(self.word(id_at)? == 0 && self.edge_at(id_at).is_none())
    }

    fn edge_at(&self, offset: u32) -> Option<&Edge> {
        let index = *self.order.get(self.first_edge(offset))?;
        let edge = self.section.edges.get(index as usize)?;
        (edge.offset == offset).then_some(edge)
    }

    /// The place of the CIE of the FDE whose identifier is here: the distance back to it, or a
    /// relocation to it.
    fn common_of(&self, id_at: u32) -> Option<u32> {
        let Some(edge) = self.edge_at(id_at) else {
            return id_at.checked_sub(self.word(id_at)?);
        };
        let (section, offset) = self.graph.spot(edge.target.index(), edge.addend)?;
        let own = self.graph.section(section)?;
        core::ptr::eq(own, self.section).then_some(offset)
    }

    /// The functions of stack maps: each has an entry in the header and a run of records.
    fn functions(&self) -> Option<Vec<TablePart>> {
        let maps = StackMaps::parse(&self.section.bytes, self.graph.endian()).ok()?;
        let mut parts = Vec::new();
        let starts = maps
            .maps()
            .iter()
            .skip(1)
            .map(|map| offset_of(map.byte_offset().get()));
        let ends = starts.chain([u32::try_from(self.section.bytes.len()).ok()]);
        for (map, end) in maps.maps().iter().zip(ends) {
            let end = end?;
            let mut records = map.records().map(|record| record.byte_offset().get());
            let mut start = records.next().map_or(Some(end), offset_of)?;
            let functions: Vec<_> = map.headers().collect();
            // Both lists ascend, and the one comes behind the other.
            let mut runs = Vec::new();
            for function in &functions {
                let entry = offset_of(function.byte_offset().get())?;
                let code = self.code_at(entry)?;
                parts.push(TablePart::described(entry, entry.checked_add(FUNCTION)?, code));
                let count = usize::try_from(function.record_count()?).ok()?;
                let next = match count.checked_sub(1) {
                    None => start,
                    Some(skipped) => records.nth(skipped).map_or(Some(end), offset_of)?,
                };
                if next > start {
                    runs.push(TablePart::described(start, next, code));
                }
                start = next;
            }
            parts.append(&mut runs);
        }
        Some(parts)
    }
}

/// The size of a function's entry in stack maps of versions 2 and 3.
const FUNCTION: u32 = 24;

fn offset_of(at: u64) -> Option<u32> {
    u32::try_from(at).ok()
}

impl TablePart {
    fn described(start: u32, end: u32, code: SectionId) -> Self {
        Self {
            start,
            end,
            code: Some(code),
            edges: (0, 0),
            needs: None,
        }
    }
}

fn read_word(bytes: &[u8], endian: Endian, at: u32) -> Option<u32> {
    let bytes = *bytes.get(at as usize..)?.first_chunk()?;
    Some(match endian {
        Endian::Little => u32::from_le_bytes(bytes),
        Endian::Big => u32::from_be_bytes(bytes),
    })
}

fn write_word(bytes: &mut [u8], endian: Endian, at: u32, word: u32) {
    let Some(field) = bytes
        .get_mut(at as usize..)
        .and_then(|rest| rest.first_chunk_mut())
    else {
        return;
    };
    *field = match endian {
        Endian::Little => word.to_le_bytes(),
        Endian::Big => word.to_be_bytes(),
    };
}

/// Changes the distances from FDEs to their CIEs for what is cut between them; those that
/// relocations hold change with their symbols.
pub(crate) fn mend_frames(section: &mut Section<'_>, endian: Endian, parts: &[TablePart], cuts: &Cuts) {
    for part in parts {
        let Some(common) = part.needs.and_then(|common| parts.get(common)) else {
            continue;
        };
        let id_at = part.start + WORD;
        if read_word(&section.bytes, endian, id_at) == Some(id_at - common.start) {
            let distance = cuts.moved(id_at) - cuts.moved(common.start);
            // protection: unwind-information-finds-its-other-half
            write_word(section.bytes.to_mut(), endian, id_at, distance);
        }
    }
}

/// Where the numbers of functions and of records are in a stack map.
const FUNCTIONS_AT: u32 = 4;
const RECORDS_AT: u32 = 12;

/// Changes the numbers of functions and records to those of the functions that are live. `live`
/// says so of the code that each function is in.
pub(crate) fn mend_maps(
    graph: &Graph<'_>,
    section: &Section<'_>,
    parts: &[TablePart],
    live: impl Fn(SectionId) -> bool,
) -> Option<Vec<u8>> {
    let endian = graph.endian();
    let maps = StackMaps::parse(&section.bytes, endian).ok()?;
    let mut bytes = section.bytes.to_vec();
    for map in maps.maps() {
        let start = offset_of(map.byte_offset().get())?;
        let (mut functions, mut records) = (0, 0);
        for function in map.headers() {
            let entry = offset_of(function.byte_offset().get())?;
            let part = parts.binary_search_by_key(&entry, |part| part.start).ok()?;
            if parts.get(part)?.code.is_some_and(&live) {
                functions += 1;
                records += u32::try_from(function.record_count()?).ok()?;
            }
        }
        write_word(&mut bytes, endian, start + FUNCTIONS_AT, functions);
        // protection: a-stack-map-without-the-dead-says-so
        write_word(&mut bytes, endian, start + RECORDS_AT, records);
    }
    Some(bytes)
}
