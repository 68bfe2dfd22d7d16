//! Where everything goes, relative to three segments whose addresses are not known yet.
//!
//! Sections of one role follow each other in the graph's order, those whose zeros are in no file
//! (`.bss`) behind the others, so that nobody has to make those zeros: the memory has them.
//! Sections that passes have added come last: among them the stubs and the global offset table
//! ([`crate::graph::tables`]). On PowerPC the objects' own parts of the table, the `.toc` sections,
//! are before it. Cost: linear in sections and edges.

use alloc::rc::Rc;
use alloc::vec::Vec;
use std::collections::HashMap;

use llvm_stackmaps::addr::{CodeAddr, Len};

use crate::error::{Error, Result};
use crate::graph::bounds::SectionRow;
use crate::graph::descriptors::Descriptors;
use crate::graph::pairs::Pairs;
use crate::graph::tables::ENTRY;
use crate::graph::{Graph, Section, SectionId, SectionRole};
use crate::image::SegmentKind;
use crate::machine;
use crate::machine::is_toc;
use crate::read::Object;

mod place;

/// How much memory a segment needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRequest {
    /// What it is for.
    pub kind: SegmentKind,
    /// Its size in bytes; 0 where the graph has nothing of that kind.
    pub size: Len,
    /// What its address must be a multiple of: a power of two.
    pub align: Len,
}

/// Where the image may be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageReach {
    /// Anywhere, the segments within 2 GiB of each other.
    Anywhere,
    /// Below 2 GiB: the object was compiled for `-relocation-model=static` with the small or medium
    /// code model, and has addresses in 32 bits.
    Low2GiB,
}

/// Addresses of the three segments; where a segment's size is 0, its address is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentAddrs {
    /// Of the code.
    pub code: CodeAddr,
    /// Of the read-only data.
    pub read_only: CodeAddr,
    /// Of the data.
    pub data: CodeAddr,
}

impl SegmentAddrs {
    pub(crate) const fn get(&self, kind: SegmentKind) -> CodeAddr {
        match kind {
            SegmentKind::Code => self.code,
            SegmentKind::ReadOnly => self.read_only,
            SegmentKind::Data => self.data,
        }
    }
}

/// The place of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SectionPlace {
    pub(crate) segment: SegmentKind,
    pub(crate) offset: u32,
}

/// A graph with a place for everything in it. [`Layout::link`] is the next step.
#[derive(Clone, Debug)]
pub struct Layout<'data> {
    pub(crate) graph: Graph<'data>,
    pub(crate) segments: [SegmentRequest; 3],
    /// By segment: how many bytes there are before zeros that are in no file.
    pub(crate) filled: [u32; 3],
    /// By section.
    pub(crate) places: Vec<Option<SectionPlace>>,
    /// By section: the offset in the kept stack maps.
    pub(crate) stack_maps: Vec<(usize, u32)>,
    pub(crate) stack_maps_size: u32,
    /// The global offset table's start in the read-only segment.
    pub(crate) got_start: u32,
    reach: ImageReach,
    /// Whether sections were given other places than the layout's.
    pub(crate) moved: bool,
}

/// The zero that ends unwind information in memory, for whoever walks it from its address without
/// knowing its size (`__register_frame`). Compilers leave it to the linker.
pub(crate) const EH_FRAME_END: u64 = 4;

/// A segment that grows.
struct Growing {
    kind: SegmentKind,
    size: u64,
    align: u32,
    limit: u64,
}

impl Growing {
    fn new(kind: SegmentKind, limit: u64) -> Self {
        Self {
            kind,
            size: 0,
            align: 1,
            limit,
        }
    }

    fn push(&mut self, size: u64, align: u32) -> Result<SectionPlace> {
        let start = self.size.next_multiple_of(u64::from(align));
        let end = start.saturating_add(size);
        let (Ok(offset), true) = (u32::try_from(start), end <= self.limit) else {
            return Err(self.too_large(end));
        };
        self.size = end;
        self.align = self.align.max(align);
        Ok(SectionPlace {
            segment: self.kind,
            offset,
        })
    }

    fn size(&self) -> Result<u32> {
        u32::try_from(self.size).map_err(|_| self.too_large(self.size))
    }

    fn request(&self) -> Result<SegmentRequest> {
        Ok(SegmentRequest {
            kind: self.kind,
            size: Len::new(self.size()?),
            align: Len::new(self.align),
        })
    }

    const fn too_large(&self, size: u64) -> Error {
        Error::ImageTooLarge {
            size,
            limit: self.limit,
        }
    }
}

/// Sections that are placed in a row.
struct PlacedRow<'r> {
    sections: &'r [SectionId],
    /// Whether one of them has zeros that are in no file.
    zeros: bool,
}

/// The rows that there are.
struct Rows<'r> {
    /// The one that each section is in: of several, of which one has all others, that one.
    by_section: HashMap<SectionId, Rc<PlacedRow<'r>>>,
}

impl<'r> Rows<'r> {
    fn of(graph: &Graph<'_>, rows: &'r [SectionRow]) -> Self {
        let mut by_section = HashMap::new();
        for sections in rows {
            let zeros = |id: &SectionId| graph.section(*id).is_some_and(Section::is_zero_filled);
            let row = Rc::new(PlacedRow {
                sections,
                zeros: sections.iter().any(zeros),
            });
            for id in sections {
                by_section.entry(*id).or_insert_with(|| Rc::clone(&row));
            }
        }
        Self { by_section }
    }
}

/// The places of sections, while they are given.
struct Places {
    segments: [Growing; 3],
    /// What is read and not put into memory.
    maps: Growing,
    /// By section.
    all: Vec<Option<SectionPlace>>,
    /// By section: the offset in the maps.
    stack_maps: Vec<(usize, u32)>,
    got_start: u32,
    /// The sizes of the segments without zeros that are in no file.
    filled: [u32; 3],
}

impl Places {
    fn of(graph: &Graph<'_>, rows: &[SectionRow]) -> Result<Self> {
        let mut places = Self {
            segments: SegmentKind::ALL.map(|kind| Growing::new(kind, graph.size_limit)),
            maps: Growing::new(SegmentKind::ReadOnly, graph.size_limit),
            all: alloc::vec![None; graph.sections.len()],
            stack_maps: Vec::new(),
            got_start: 0,
            filled: [0; 3],
        };
        let rows = Rows::of(graph, rows);
        places.place_all(graph, &rows, false)?;
        places.place_table(graph)?;
        places.place_all(graph, &rows, true)?;
        for (section, place) in graph.sections.iter().zip(&places.all) {
            let (Some(place), false) = (place, section.bytes.is_empty()) else {
                continue;
            };
            let terminator = match section.role {
                SectionRole::EhFrame => EH_FRAME_END as u32,
                _ => 0,
            };
            let end = place.offset + section.bytes.len() as u32 + terminator;
            if let Some(filled) = places.filled.get_mut(place.segment.index()) {
                *filled = end.max(*filled);
            }
        }
        Ok(places)
    }

    /// Places for all sections but those of the table: those with bytes, or those with zeros that
    /// are in no file.
    fn place_all(&mut self, graph: &Graph<'_>, rows: &Rows<'_>, zeros: bool) -> Result<()> {
        for (index, (section, in_table)) in graph.sections.iter().zip(graph.in_table()).enumerate() {
            let is_table = in_table && section.role == SectionRole::ReadOnly;
            match rows.by_section.get(&SectionId(index as u32)) {
                Some(row)
                    if row.zeros == zeros && row.sections.first().is_some_and(|id| id.index() == index) =>
                {
                    self.place_row(graph, row)?;
                }
                None if !is_table && section.is_zero_filled() == zeros => {
                    let place = self.place(index, section, section.align)?;
                    self.put(index, place);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Places sections one behind the other, the first of them aligned as the strictest is: as
    /// linkers make one of them.
    fn place_row(&mut self, graph: &Graph<'_>, row: &PlacedRow<'_>) -> Result<()> {
        let sections = || {
            row.sections
                .iter()
                .filter_map(|id| Some((id.index(), graph.section(*id)?)))
        };
        // protection: arrays-are-aligned-as-their-strictest-part
        let mut first = sections().map(|(_, section)| section.align).max();
        for (index, section) in sections() {
            let place = self.place(index, section, first.take().unwrap_or(section.align))?;
            self.put(index, place);
        }
        Ok(())
    }

    fn put(&mut self, index: usize, place: Option<SectionPlace>) {
        if let Some(own) = self.all.get_mut(index) {
            *own = place;
        }
    }

    /// A place for the next section, if it is put into memory.
    fn place(&mut self, index: usize, section: &Section<'_>, align: u32) -> Result<Option<SectionPlace>> {
        let [code, read_only, data] = &mut self.segments;
        let (segment, terminator) = match section.role {
            SectionRole::Code => (code, 0),
            SectionRole::ReadOnly => (read_only, 0),
            SectionRole::EhFrame => (read_only, EH_FRAME_END),
            SectionRole::Data => (data, 0),
            SectionRole::StackMaps => {
                let map = self.maps.push(u64::from(section.size), section.align.max(8))?;
                self.stack_maps.push((index, map.offset));
                return Ok(None);
            }
            SectionRole::Ignored => return Ok(None),
        };
        let place = segment.push(u64::from(section.size) + terminator, align)?;
        Ok(Some(place))
    }

    /// Places for the sections of the global offset table, one behind the other.
    fn place_table(&mut self, graph: &Graph<'_>) -> Result<()> {
        let [_, read_only, _] = &mut self.segments;
        // Without entries, too, the table has an address for what is relative to it.
        self.got_start = read_only.push(0, machine::got_align(graph.arch))?.offset;
        let sections = graph.sections.iter().zip(graph.in_table());
        for ((section, in_table), place) in sections.zip(&mut self.all) {
            if section.role == SectionRole::ReadOnly && in_table {
                *place = Some(read_only.push(u64::from(section.size), section.align.max(ENTRY))?);
            }
        }
        Ok(())
    }

    /// The memory that the segments need.
    fn requests(&self) -> Result<[SegmentRequest; 3]> {
        let total = self.segments.iter().map(|segment| segment.size).sum();
        let [code, read_only, data] = &self.segments;
        // protection: images-have-a-limit
        if total > code.limit {
            return Err(code.too_large(total));
        }
        Ok([code.request()?, read_only.request()?, data.request()?])
    }
}

impl<'data> Object<'data> {
    /// Gives everything a place, as it is and without others.
    ///
    /// # Errors
    /// As [`Graph::layout`].
    pub fn layout(self) -> Result<Layout<'data>> {
        self.graph.layout()
    }
}

impl<'data> Graph<'data> {
    /// Gives every section a place in a segment, and room to what the relocations need.
    ///
    /// # Errors
    /// The image would be larger than its [limit](Self::set_size_limit); a relocation that comes in a pair has no other half; what was changed in the graph
    /// does not hold together.
    pub fn layout(mut self) -> Result<Layout<'data>> {
        // protection: bounds-are-defined
        let rows = self.define_bounds()?;
        self.use_alternates();
        // protection: later-passes-get-entries
        self.complete_tables()?;
        // protection: changes-are-checked-at-layout
        self.check()?;
        self.place_commons()?;
        self.descriptors = Descriptors::find(&self);
        self.pairs = Pairs::find(&self)?;
        let reach = self.reach();
        let places = Places::of(&self, &rows)?;
        Ok(Layout {
            segments: places.requests()?,
            filled: places.filled,
            places: places.all,
            stack_maps: places.stack_maps,
            stack_maps_size: places.maps.size()?,
            got_start: places.got_start,
            reach,
            moved: false,
            graph: self,
        })
    }

    /// By section: whether it is a part of the global offset table.
    fn in_table(&self) -> impl Iterator<Item = bool> + '_ {
        let built = self.tables.entries.section;
        (0..)
            .map(SectionId)
            .zip(&self.sections)
            .map(move |(id, section)| Some(id) == built || self.arch.is_powerpc64() && is_toc(&section.name))
    }

    /// Whether addresses must fit into 32 bits.
    fn reach(&self) -> ImageReach {
        let mut edges = self.sections.iter().flat_map(|section| &section.edges);
        if edges.any(|edge| edge.relocation.needs_low() && self.is_inside(edge)) {
            ImageReach::Low2GiB
        } else {
            ImageReach::Anywhere
        }
    }
}

impl<'data> Layout<'data> {
    /// The memory that the segments need. Their protections differ, so no two may share a page.
    #[must_use]
    pub fn segments(&self) -> &[SegmentRequest; 3] {
        &self.segments
    }

    /// How many bytes of a segment there are before zeros that are in no file. Code has all of its
    /// own: what is between functions traps.
    pub(crate) fn filled_len(&self, kind: SegmentKind) -> usize {
        let segments = self.segments.iter().zip(self.filled);
        let mut own = segments.filter(|(request, _)| request.kind == kind);
        own.next().map_or(0, |(request, filled)| match kind {
            SegmentKind::Code => request.size.as_usize(),
            // protection: zeros-are-left-to-the-memory
            SegmentKind::ReadOnly | SegmentKind::Data => Len::new(filled).as_usize(),
        })
    }

    /// Where they may be.
    #[must_use]
    pub fn reach(&self) -> ImageReach {
        self.reach
    }

    /// The address of the section with this index, if it is placed, when the segments are at these
    /// addresses.
    #[must_use]
    pub fn section_addr(&self, index: usize, addrs: &SegmentAddrs) -> Option<CodeAddr> {
        let place = (*self.places.get(index)?)?;
        addrs.get(place.segment).plus(Len::new(place.offset))
    }

    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &Graph<'data> {
        &self.graph
    }

    /// Addresses for one reservation at `base`: each segment starts on a page of its own, of `page`
    /// bytes (a power of two), in the order of [`SegmentKind::ALL`]. Returns them with the size of
    /// the reservation. `base` is a multiple of the page size and of every alignment; `None` if it
    /// is not, or the end is no address.
    #[must_use]
    pub fn contiguous(&self, base: CodeAddr, page: Len) -> Option<(SegmentAddrs, u64)> {
        let page = u64::from(page.get());
        let mut next = base.get();
        let mut starts = [base; 3];
        for (request, start) in self.segments.iter().zip(&mut starts) {
            let align = page.max(u64::from(request.align.get()));
            if !page.is_power_of_two() || base.get() % align != 0 {
                return None;
            }
            let at = next.checked_next_multiple_of(align)?;
            *start = CodeAddr::new(at);
            next = at.checked_add(u64::from(request.size.get()))?;
        }
        let [code, read_only, data] = starts;
        let end = next.checked_next_multiple_of(page)?;
        Some((
            SegmentAddrs {
                code,
                read_only,
                data,
            },
            end - base.get(),
        ))
    }
}
