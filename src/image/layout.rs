//! Where everything goes, relative to three segments whose addresses are not known yet.
//!
//! Sections of one role follow each other in the file's order. Behind the code come stubs, one for every
//! symbol outside the graph that a branch leads to; behind the read-only data the global offset table, with
//! an entry for every symbol that a relocation or a stub wants one for. On PowerPC the table starts with the objects' own
//! parts of it, the `.toc` sections. Whether a stub is used is decided when the addresses are known; its room is there in any
//! case. Cost: linear in sections and edges.

use alloc::vec::Vec;
use core::fmt;

use super::MAX_SIZE;
use super::descriptors::Descriptors;
use super::elf::is_toc;
use super::graph::{Definition, Edge, Graph, SectionRole, SymbolId};
use super::pairs::Pairs;
use super::relocation::Formula;
use crate::addr::{CodeAddr, Len};
use crate::error::{Error, Result};

/// What a segment's memory must allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// Read and execute.
    Code,
    /// Read.
    ReadOnly,
    /// Read and write.
    Data,
}

impl SegmentKind {
    /// All of them, in the order in which [`Layout::contiguous`] places them.
    pub const ALL: [Self; 3] = [Self::Code, Self::ReadOnly, Self::Data];

    pub(super) const fn index(self) -> usize {
        match self {
            Self::Code => 0,
            Self::ReadOnly => 1,
            Self::Data => 2,
        }
    }
}

impl fmt::Display for SegmentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Code => "code",
            Self::ReadOnly => "read-only data",
            Self::Data => "data",
        })
    }
}

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
pub enum Reach {
    /// Anywhere, the segments within 2 GiB of each other.
    Anywhere,
    /// Below 2 GiB: the object was compiled for `-relocation-model=static` with the small or medium code
    /// model, and has addresses in 32 bits.
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
    pub(super) const fn get(&self, kind: SegmentKind) -> CodeAddr {
        match kind {
            SegmentKind::Code => self.code,
            SegmentKind::ReadOnly => self.read_only,
            SegmentKind::Data => self.data,
        }
    }
}

/// The place of a section, stub or entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: SegmentKind,
    pub(super) offset: u32,
}

/// A graph with a place for everything in it. [`Layout::link`] is the next step.
#[derive(Clone, Debug)]
pub struct Layout<'data> {
    pub(super) graph: Graph<'data>,
    pub(super) segments: [SegmentRequest; 3],
    /// By section.
    pub(super) places: Vec<Option<Place>>,
    /// By section: the offset in the kept stack maps.
    pub(super) stack_maps: Vec<(usize, u32)>,
    pub(super) stack_maps_size: u32,
    /// The global offset table's start in the read-only segment.
    pub(super) got_start: u32,
    pub(super) got: Slots,
    pub(super) stubs: Slots,
    reach: Reach,
}

/// Numbered slots that some symbols have: entries of the global offset table, or stubs.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    pub(super) place: u32,
    /// Of one, in bytes.
    pub(super) size: u32,
    /// The symbol of each slot.
    pub(super) owners: Vec<SymbolId>,
    by_symbol: Vec<Option<u32>>,
}

/// The zero that ends unwind information in memory, for whoever walks it from its address without knowing its
/// size (`__register_frame`). Compilers leave it to the linker.
const EH_FRAME_END: u64 = 4;

/// The size of an entry of the global offset table.
const ENTRY: u32 = 8;

/// The alignment of the stubs.
const STUBS_ALIGN: u32 = 16;

impl Slots {
    fn new(symbols: usize, size: u32) -> Self {
        Self {
            place: 0,
            size,
            owners: Vec::new(),
            by_symbol: alloc::vec![None; symbols],
        }
    }

    fn want(&mut self, symbol: SymbolId) {
        let next = self.owners.len() as u32;
        if let Some(slot @ None) = self.by_symbol.get_mut(symbol.index()) {
            *slot = Some(next);
            self.owners.push(symbol);
        }
    }

    /// The offset of the symbol's slot in its segment.
    pub(super) fn offset(&self, symbol: SymbolId) -> Option<u32> {
        let slot = self.by_symbol.get(symbol.index()).copied().flatten()?;
        self.place.checked_add(slot.checked_mul(self.size)?)
    }

    fn total(&self) -> u64 {
        self.owners.len() as u64 * u64::from(self.size)
    }
}

/// A segment that grows.
struct Growing {
    kind: SegmentKind,
    size: u64,
    align: u32,
}

impl Growing {
    fn push(&mut self, size: u64, align: u32) -> Result<Place> {
        let start = self.size.next_multiple_of(u64::from(align));
        let end = start.saturating_add(size);
        let (Ok(offset), true) = (u32::try_from(start), end <= MAX_SIZE) else {
            return Err(Error::ImageTooLarge {
                size: end,
                limit: MAX_SIZE,
            });
        };
        self.size = end;
        self.align = self.align.max(align);
        Ok(Place {
            segment: self.kind,
            offset,
        })
    }
}

impl<'data> Graph<'data> {
    /// Gives every section a place in a segment, and room to what the relocations need.
    ///
    /// # Errors
    /// The image would be larger than 1 GiB; a relocation that comes in a pair has no other half; what was changed in the graph
    /// does not hold together.
    pub fn layout(mut self) -> Result<Layout<'data>> {
        self.check()?;
        self.place_commons()?;
        self.descriptors = Descriptors::find(&self);
        self.pairs = Pairs::find(&self)?;
        let (got, stubs, reach) = self.slots();
        let growing = |kind| Growing {
            kind,
            size: 0,
            align: 1,
        };
        let mut segments = SegmentKind::ALL.map(growing);
        let mut maps = growing(SegmentKind::ReadOnly);
        let mut layout = Layout {
            segments: SegmentKind::ALL.map(|kind| SegmentRequest {
                kind,
                size: Len::new(0),
                align: Len::new(1),
            }),
            places: alloc::vec![None; self.sections.len()],
            stack_maps: Vec::new(),
            stack_maps_size: 0,
            got_start: 0,
            got,
            stubs,
            reach,
            graph: self,
        };
        let [code, read_only, data] = &mut segments;
        let toc = |name: &str| layout.graph.arch.is_powerpc() && is_toc(name);
        for (index, (section, place)) in layout.graph.sections.iter().zip(&mut layout.places).enumerate() {
            let segment = match section.role {
                SectionRole::ReadOnly if toc(&section.name) => continue,
                SectionRole::Code => &mut *code,
                SectionRole::ReadOnly | SectionRole::EhFrame => &mut *read_only,
                SectionRole::Data => &mut *data,
                SectionRole::StackMaps => {
                    let start = maps.push(u64::from(section.size), section.align.max(8))?;
                    layout.stack_maps.push((index, start.offset));
                    continue;
                }
                SectionRole::Ignored => continue,
            };
            let terminator = if section.role == SectionRole::EhFrame {
                EH_FRAME_END
            } else {
                0
            };
            *place = Some(segment.push(u64::from(section.size) + terminator, section.align)?);
        }
        if !layout.stubs.owners.is_empty() {
            layout.stubs.place = code.push(layout.stubs.total(), STUBS_ALIGN)?.offset;
        }
        // Without entries, too, the table has an address for what is relative to it.
        let start = read_only.push(0, layout.graph.arch.got_align())?.offset;
        for (section, place) in layout.graph.sections.iter().zip(&mut layout.places) {
            if section.role == SectionRole::ReadOnly && toc(&section.name) {
                *place = Some(read_only.push(u64::from(section.size), section.align.max(ENTRY))?);
            }
        }
        layout.got.place = read_only.push(layout.got.total(), ENTRY)?.offset;
        layout.got_start = start;
        layout.stack_maps_size = size_of(&maps)?;
        layout.check_total(&segments)?;
        for (request, grown) in layout.segments.iter_mut().zip(&segments) {
            request.size = Len::new(size_of(grown)?);
            request.align = Len::new(grown.align);
        }
        Ok(layout)
    }

    /// Which symbols need an entry or a stub, and whether addresses must fit into 32 bits.
    fn slots(&self) -> (Slots, Slots, Reach) {
        let count = self.symbols.len();
        let mut got = Slots::new(count, ENTRY);
        let mut stubs = Slots::new(count, self.arch.stub_size());
        let mut reach = Reach::Anywhere;
        for edge in self.sections.iter().flat_map(|section| &section.edges) {
            if edge.relocation.formula().needs_got() {
                got.want(edge.target);
            }
            if edge.relocation.formula().is_branch() && self.may_need_stub(edge) {
                stubs.want(edge.target);
                if self.arch.stub_needs_got() {
                    got.want(edge.target);
                }
            }
            if edge.relocation.needs_low() && self.is_inside(edge) {
                reach = Reach::Low2GiB;
            }
        }
        (got, stubs, reach)
    }

    fn is_inside(&self, edge: &Edge) -> bool {
        let symbol = self.symbols.get(edge.target.index());
        matches!(
            symbol.map(|symbol| symbol.definition),
            Some(Definition::Section(..) | Definition::GotBase)
        )
    }

    /// Whether a branch may have to go through a stub: to the outside always, within the graph where caller and callee do
    /// not agree about the TOC pointer.
    fn may_need_stub(&self, edge: &Edge) -> bool {
        !self.is_inside(edge) || self.needs_toc_stub(edge)
    }

    /// Whether a branch within the graph has to go through a stub because its caller has no TOC pointer and its callee
    /// needs one, or the caller has one that the callee may change (ELFv2 ABI, section 3.4.1: 1 in the three bits).
    pub(super) fn needs_toc_stub(&self, edge: &Edge) -> bool {
        let other = self
            .symbols
            .get(edge.target.index())
            .map_or(0, |symbol| symbol.other);
        if !self.arch.is_powerpc() || self.arch.has_descriptors() {
            return false;
        }
        match edge.relocation.formula() {
            Formula::Branch => other >> 5 == 1,
            Formula::BranchNoToc => other >> 5 > 1,
            _ => false,
        }
    }
}

fn size_of(segment: &Growing) -> Result<u32> {
    u32::try_from(segment.size).map_err(|_| Error::ImageTooLarge {
        size: segment.size,
        limit: MAX_SIZE,
    })
}

impl<'data> Layout<'data> {
    fn check_total(&self, segments: &[Growing]) -> Result<()> {
        let total = segments.iter().map(|segment| segment.size).sum();
        if total > MAX_SIZE {
            return Err(Error::ImageTooLarge {
                size: total,
                limit: MAX_SIZE,
            });
        }
        Ok(())
    }

    /// The memory that the segments need. Their protections differ, so no two may share a page.
    #[must_use]
    pub fn segments(&self) -> &[SegmentRequest; 3] {
        &self.segments
    }

    /// Where they may be.
    #[must_use]
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// The address of the section with this index, if it is placed, when the segments are at these addresses.
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

    /// Addresses for one reservation at `base`: each segment starts on a page of its own, of `page` bytes (a
    /// power of two), in the order of [`SegmentKind::ALL`]. Returns them with the size of the reservation.
    /// `base` is a multiple of the page size and of every alignment; `None` if it is not, or the end is no
    /// address.
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
