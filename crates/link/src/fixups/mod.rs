//! Resolves each symbol once, applies every edge, and gathers what is known about the result. One
//! pass, no lookup by name.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use std::collections::HashMap;

use llvm_stackmaps::addr::{CodeAddr, CodeRange, Len};

use crate::error::{Error, Result};
use crate::format::{IMAGE_BASE, ObjectFormat};
use crate::graph::descriptors::Spot;
use crate::graph::init::Lists;
use crate::graph::tables::Slots;
use crate::graph::{Definition, Edge, Graph, Scope, Section, SectionRole};
use crate::image::{CodeTable, EhFrame, FunctionRange, Image, SegmentKind};
use crate::layout::{ImageReach, Layout, SectionPlace, SegmentAddrs};
use crate::machine;

mod apply;
mod placed;

/// A segment with its final bytes.
#[derive(Clone)]
pub struct Segment {
    /// What its memory must allow.
    pub kind: SegmentKind,
    /// Where the bytes must be when they are used.
    pub addr: CodeAddr,
    /// The bytes. They may be fewer than the size: zeros follow, which new memory has anyway.
    pub bytes: Vec<u8>,
    /// How much memory it takes, in bytes.
    pub size: Len,
}

impl Segment {
    /// Bytes of it, with zeros where they are behind those that it has; `None` if they are not all
    /// in the segment.
    #[must_use]
    pub fn read(&self, at: CodeAddr, len: usize) -> Option<Vec<u8>> {
        let start = at.get().checked_sub(self.addr.get())?;
        let end = start.checked_add(len as u64)?;
        if end > u64::from(self.size.get()) {
            return None;
        }
        let there = self.bytes.get(usize::try_from(start).ok()?..).unwrap_or(&[]);
        let mut bytes = there.get(..len).unwrap_or(there).to_vec();
        bytes.resize(len, 0);
        Some(bytes)
    }
}

impl fmt::Debug for Segment {
    /// Without the bytes, which may be many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.size;
        write!(f, "Segment({} at {}, {size} bytes)", self.kind, self.addr)
    }
}

/// A graph linked for given addresses: bytes to be put there, and what is known about them.
#[derive(Clone, Debug)]
pub struct LinkedImage {
    /// The segments that are not empty.
    pub segments: Vec<Segment>,
    /// What is registered.
    pub image: Image,
    /// The functions that the objects want called before their others, in this order: of a function
    /// what a pointer to it holds. Nothing calls them but the runtime, once their code is in memory
    /// and registered. They take no arguments; GNU's C library gives its own `argc`, `argv` and
    /// `envp`.
    ///
    /// Constructors of C++ may call `__cxa_atexit`, with the address of `__dso_handle`, to have
    /// destructors called at the end: the resolver says where both are.
    pub constructors: Vec<CodeAddr>,
    /// The functions that the objects want called after all others, in this order, before the
    /// memory is freed.
    pub destructors: Vec<CodeAddr>,
    got: CodeAddr,
    image_base: CodeAddr,
    symbols: HashMap<String, CodeAddr>,
    /// By the symbol that they stand for.
    entries: HashMap<String, CodeAddr>,
    stubs: HashMap<String, CodeAddr>,
}

impl LinkedImage {
    /// The address of a symbol that the graph defines for others and does not hide: of a function
    /// what a pointer to it holds, which on PowerPC ELFv1 is the address of its descriptor.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<CodeAddr> {
        self.symbols.get(name).copied()
    }

    /// The address that code and relocations count from to reach the global offset table: its
    /// start, but on PowerPC 0x8000 behind it, which is the TOC pointer that the image's functions
    /// expect in r2. `None` where there is no read-only segment to hold it.
    #[must_use]
    pub fn got(&self) -> Option<CodeAddr> {
        let holds = |segment: &Segment| segment.kind == SegmentKind::ReadOnly;
        self.segments.iter().any(holds).then_some(self.got)
    }

    /// The address of the entry in the global offset table that stands for a symbol, wherever the
    /// symbol is: of those of one name that are local to files, for the first that has an entry.
    #[must_use]
    pub fn got_entry(&self, symbol: &str) -> Option<CodeAddr> {
        self.entries.get(symbol).copied()
    }

    /// The address of the stub that stands for a symbol, as [`got_entry`](Self::got_entry).
    #[must_use]
    pub fn stub(&self, symbol: &str) -> Option<CodeAddr> {
        self.stubs.get(symbol).copied()
    }

    /// What COFF's 32-bit addresses count from: the lowest address of all segments, or what the
    /// graph defines as the symbol `__ImageBase`. On Windows, `RtlAddFunctionTable` takes it with
    /// the table of functions, which is the `.pdata` among [`Image::code_tables`].
    #[must_use]
    pub fn image_base(&self) -> CodeAddr {
        self.image_base
    }

    /// All symbols that the graph defines for others, not hidden from them, in no order.
    pub fn symbols(&self) -> impl Iterator<Item = (&str, CodeAddr)> {
        self.symbols.iter().map(|(name, addr)| (name.as_str(), *addr))
    }
}

/// The value of a symbol.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    Known(u64),
    /// Undefined, and the resolver does not know it.
    Missing,
    Refused(&'static str),
}

pub(crate) struct Linker<'a, 'data> {
    pub(crate) layout: &'a Layout<'data>,
    addrs: SegmentAddrs,
    /// By symbol; none before they are resolved.
    pub(crate) values: &'a [Value],
    /// The address that stands for the global offset table; on PowerPC the TOC pointer.
    pub(crate) got: u64,
    /// The lowest address of all segments, unless the graph defines another.
    pub(crate) image_base: u64,
}

impl<'a, 'data> Linker<'a, 'data> {
    pub(crate) fn new(layout: &'a Layout<'data>, addrs: SegmentAddrs, values: &'a [Value]) -> Self {
        let [_, read_only, _] = &layout.segments;
        // Without a read-only segment nothing refers to the table.
        let got = if read_only.size.get() == 0 {
            addrs.code
        } else {
            addrs.read_only
        };
        let got = got
            .get()
            .wrapping_add(u64::from(layout.got_start))
            .wrapping_add(machine::got_bias(layout.graph.arch));
        let placed = layout.segments.iter().filter(|request| request.size.get() != 0);
        let lowest = placed.map(|request| addrs.get(request.kind).get()).min();
        let mut linker = Self {
            layout,
            addrs,
            values,
            got,
            image_base: lowest.unwrap_or(0),
        };
        if let Some(base) = linker.defined_image_base() {
            // protection: the-image-base-can-be-defined
            linker.image_base = base;
        }
        linker
    }
}

impl Layout<'_> {
    /// Resolves the symbols and relocates all bytes for these addresses. Nothing is written to
    /// memory that is executed.
    ///
    /// `resolve` is asked once for every undefined symbol that a relocation needs. `None` is an
    /// error, but for weak symbols, whose address is then 0. Where functions are known by
    /// descriptors ([`Graph::has_descriptors`](crate::Graph::has_descriptors)), the address of a
    /// function is that of its descriptor, as a pointer to it is.
    ///
    /// # Errors
    /// A segment is misaligned, overlaps another or is more than 2 GiB away from it; a symbol is not found; a
    /// target is out of a relocation's reach.
    pub fn link(
        &self,
        addrs: &SegmentAddrs,
        resolve: &dyn Fn(&str) -> Option<CodeAddr>,
    ) -> Result<LinkedImage> {
        self.check_segments(addrs)?;
        let values = Linker::new(self, *addrs, &[]).resolve_all(&mut |name| resolve(name));
        Linker::new(self, *addrs, &values).link()
    }

    pub(crate) fn check_segments(&self, addrs: &SegmentAddrs) -> Result<()> {
        self.check_overlaps()?;
        let misplaced = |segment, reason| Error::SegmentMisplaced {
            segment,
            addr: addrs.get(segment),
            reason,
        };
        let mut ranges = Vec::new();
        for request in &self.segments {
            let (kind, start) = (request.kind, addrs.get(request.kind).get());
            if request.size.get() == 0 {
                continue;
            }
            if start % u64::from(request.align.get().max(1)) != 0 {
                return Err(misplaced(
                    kind,
                    "the address is not a multiple of the segment's alignment",
                ));
            }
            let Some(end) = start.checked_add(u64::from(request.size.get())) else {
                return Err(misplaced(
                    kind,
                    "the segment's end is behind the end of the address space",
                ));
            };
            // protection: small-code-lies-low
            if self.reach() == ImageReach::Low2GiB && end > 1 << 31 {
                let reason = "the object has 32-bit addresses: place it below 2 GiB, or compile it with \
                              -relocation-model=pic or -code-model=large";
                return Err(misplaced(kind, reason));
            }
            if ranges
                .iter()
                .any(|(other, other_end)| start < *other_end && *other < end)
            {
                // protection: segments-do-not-overlap
                return Err(misplaced(kind, "it overlaps another segment"));
            }
            ranges.push((start, end));
        }
        let lowest = ranges.iter().map(|range| range.0).min().unwrap_or(0);
        let far = self.segments.iter().find(|request| {
            let end = addrs
                .get(request.kind)
                .get()
                .saturating_add(u64::from(request.size.get()));
            // protection: segments-reach-each-other
            request.size.get() != 0 && end - lowest >= 1 << 31
        });
        far.map_or(Ok(()), |far| {
            Err(misplaced(
                far.kind,
                "it is 2 GiB or more away from another segment: place them in one reservation",
            ))
        })
    }
}

impl Graph<'_> {
    /// By symbol: whether an edge refers to it, or it has to be there anyway.
    pub(crate) fn wanted(&self) -> Vec<bool> {
        let mut wanted = alloc::vec![false; self.symbols.len()];
        let edges = self.sections.iter().flat_map(|section| &section.edges);
        let targets = edges.map(|edge| edge.target);
        for id in targets.chain(self.included.iter().copied()) {
            if let Some(wanted) = wanted.get_mut(id.index()) {
                *wanted = true;
            }
        }
        wanted
    }
}

/// What is gathered of sections while they are written.
#[derive(Default)]
struct Written {
    eh_frames: Vec<EhFrame>,
    code_tables: Vec<CodeTable>,
    lists: Lists,
}

/// Where code is.
fn code_of(segments: &[Segment]) -> Vec<CodeRange> {
    let code = segments
        .iter()
        .filter(|segment| segment.kind == SegmentKind::Code);
    let ranges = code.filter_map(|segment| CodeRange::new(segment.addr, segment.bytes.len() as u64));
    ranges.collect()
}

/// Repeats a unit over all bytes.
fn fill_with(bytes: &mut [u8], unit: &[u8]) {
    if let [byte] = unit {
        // protection: padding-traps
        return bytes.fill(*byte);
    }
    for bytes in bytes.chunks_mut(unit.len().max(1)) {
        for (byte, new) in bytes.iter_mut().zip(unit) {
            *byte = *new;
        }
    }
}

impl Linker<'_, '_> {
    pub(crate) fn address(&self, place: SectionPlace) -> u64 {
        self.addrs
            .get(place.segment)
            .get()
            .wrapping_add(u64::from(place.offset))
    }

    /// The address of a byte of a section that is placed.
    pub(crate) fn spot(&self, (section, offset): Spot) -> Option<u64> {
        let place = self.layout.places.get(section.index()).copied().flatten()?;
        Some(self.address(place).wrapping_add(u64::from(offset)))
    }

    /// What the graph defines as the address that COFF's 32-bit addresses count from, in place of
    /// the lowest one.
    fn defined_image_base(&self) -> Option<u64> {
        let graph = &self.layout.graph;
        if graph.format != ObjectFormat::Coff {
            return None;
        }
        let id = graph.find(IMAGE_BASE)?;
        match graph.symbols.get(id.index())?.definition {
            Definition::Absolute(base) => Some(base),
            Definition::Section(id, offset) => self.spot((id, offset)),
            _ => None,
        }
    }

    pub(crate) fn resolve_all(&self, resolve: &mut dyn FnMut(&str) -> Option<CodeAddr>) -> Vec<Value> {
        let graph = &self.layout.graph;
        let values =
            graph
                .symbols
                .iter()
                .zip(graph.wanted())
                .map(|(symbol, wanted)| match symbol.definition {
                    Definition::Absolute(value) => Value::Known(value),
                    Definition::GotBase => Value::Known(self.got),
                    Definition::ImageBase => Value::Known(self.image_base),
                    Definition::Refused(reason) => Value::Refused(reason),
                    Definition::Section(section, offset) => match self.layout.places.get(section.index()) {
                        Some(Some(place)) => {
                            Value::Known(self.address(*place).wrapping_add(u64::from(offset)))
                        }
                        _ => Value::Refused("its section is kept but not placed, so it has no address"),
                    },
                    // Common symbols have a section by now.
                    Definition::Undefined { .. } | Definition::Common { .. } if !wanted => Value::Missing,
                    Definition::Common { .. } => Value::Refused("it has no place yet"),
                    Definition::Undefined { weak } => match resolve(&symbol.name) {
                        Some(addr) => Value::Known(addr.get()),
                        None if weak => Value::Known(0),
                        None => Value::Missing,
                    },
                });
        values.collect()
    }

    pub(crate) fn link(&self) -> Result<LinkedImage> {
        // protection: missing-symbols-are-errors
        self.check_missing()?;
        let mut buffers = SegmentKind::ALL.map(|kind| alloc::vec![0; self.layout.filled_len(kind)]);
        let written = self.write_sections(&mut buffers)?;
        let segments = self.segments(buffers);
        let graph = &self.layout.graph;
        let image = Image {
            arch: graph.arch(),
            windows: graph.format == ObjectFormat::Coff,
            endian: graph.endian(),
            stack_maps: self.stack_maps()?,
            functions: self.functions(),
            eh_frames: written.eh_frames,
            code_tables: written.code_tables,
            code: code_of(&segments),
        };
        let (constructors, destructors) = written.lists.in_order();
        Ok(LinkedImage {
            segments,
            image,
            constructors,
            destructors,
            got: CodeAddr::new(self.got),
            image_base: CodeAddr::new(self.image_base),
            symbols: self.symbols(),
            entries: self.named(&graph.tables.entries),
            stubs: self.named(&graph.tables.stubs),
        })
    }

    /// Puts all sections into their places, relocated.
    fn write_sections(&self, buffers: &mut [Vec<u8>; 3]) -> Result<Written> {
        let [code, _, _] = buffers;
        let graph = &self.layout.graph;
        // A stub or padding that is run by mistake traps.
        fill_with(code, machine::trap(graph.arch));
        let mut written = Written::default();
        for (section, place) in graph.sections.iter().zip(&self.layout.places) {
            let Some(place) = place else { continue };
            let at = self.address(*place);
            let Some(bytes) = self.fill(section, *place, buffers) else {
                continue;
            };
            self.apply_all(section, Some(at), bytes)?;
            written.lists.add(section, bytes, graph.endian());
            if section.role == SectionRole::EhFrame {
                written.eh_frames.push(EhFrame {
                    addr: CodeAddr::new(at),
                    bytes: bytes.to_vec(),
                });
            }
            if section.about_code {
                written.code_tables.push(CodeTable {
                    name: section.name.to_string(),
                    addr: CodeAddr::new(at),
                    bytes: bytes.to_vec(),
                });
            }
        }
        Ok(written)
    }

    /// The segments that are not empty, of these bytes.
    fn segments(&self, buffers: [Vec<u8>; 3]) -> Vec<Segment> {
        let all = self.layout.segments.iter().zip(buffers);
        let segments = all.filter(|(request, _)| request.size.get() != 0);
        let segments = segments.map(|(request, bytes)| Segment {
            kind: request.kind,
            addr: self.addrs.get(request.kind),
            bytes,
            size: request.size,
        });
        segments.collect()
    }

    /// Puts a section's bytes into its place; returns them, without zeros that follow.
    fn fill<'b>(
        &self,
        section: &Section<'_>,
        place: SectionPlace,
        buffers: &'b mut [Vec<u8>; 3],
    ) -> Option<&'b mut [u8]> {
        let start = place.offset as usize;
        let buffer = buffers.get_mut(place.segment.index())?;
        // Zeros that follow are there already, or are the memory's.
        let bytes = buffer.get_mut(start..start.checked_add(section.bytes.len())?)?;
        bytes.copy_from_slice(&section.bytes);
        Some(bytes)
    }

    fn stack_maps(&self) -> Result<Vec<u8>> {
        let mut all = alloc::vec![0; self.layout.stack_maps_size as usize];
        for (index, start) in &self.layout.stack_maps {
            let section = self.layout.graph.sections.get(*index);
            let bytes = all.get_mut(*start as usize..);
            let (Some(section), Some(bytes)) = (section, bytes) else {
                continue;
            };
            let Some(bytes) = bytes.get_mut(..section.bytes.len()) else {
                continue;
            };
            bytes.copy_from_slice(&section.bytes);
            self.apply_all(section, None, bytes)?;
        }
        Ok(all)
    }

    /// All symbols that nobody knows, each with the first place that needs it.
    fn check_missing(&self) -> Result<()> {
        let missing = |edge: &Edge| matches!(self.values.get(edge.target.index()), Some(Value::Missing));
        let mut seen = alloc::vec![false; self.values.len()];
        let mut symbols = Vec::new();
        for section in &self.layout.graph.sections {
            for edge in section.edges.iter().filter(|edge| missing(edge)) {
                let Some(seen) = seen.get_mut(edge.target.index()) else {
                    continue;
                };
                if core::mem::replace(seen, true) {
                    continue;
                }
                let name = self.layout.graph.symbol_name(edge.target);
                let place = self.layout.graph.section_name(section);
                symbols.push(alloc::format!("`{name}` (for {place}+{:#x})", edge.offset));
            }
        }
        for id in &self.layout.graph.included {
            let is_missing = matches!(self.values.get(id.index()), Some(Value::Missing));
            if is_missing && seen.get(id.index()) == Some(&false) {
                let name = self.layout.graph.symbol_name(*id);
                symbols.push(alloc::format!("`{name}` (for /include)"));
            }
        }
        if symbols.is_empty() {
            Ok(())
        } else {
            Err(Error::SymbolsUnresolved { symbols })
        }
    }

    /// The functions by address. One without a size reaches to the next, or to its section's end.
    fn functions(&self) -> Vec<FunctionRange> {
        let graph = &self.layout.graph;
        let mut found = Vec::new();
        for (symbol, value) in graph.symbols.iter().zip(self.values) {
            let (Definition::Section(id, offset), Value::Known(pointer)) = (symbol.definition, value) else {
                continue;
            };
            // A descriptor stands for its code.
            let (id, offset) = graph.descriptors.code((id, offset)).unwrap_or((id, offset));
            let Some(addr) = self.spot((id, offset)) else {
                continue;
            };
            let Some(section) = graph
                .section(id)
                .filter(|section| section.role == SectionRole::Code)
            else {
                continue;
            };
            if symbol.function {
                let room = section.size.saturating_sub(offset);
                let len = u32::try_from(symbol.size).unwrap_or(u32::MAX).min(room);
                found.push((addr, len, room, symbol.name.to_string(), *pointer));
            }
        }
        found.sort_by(|a, b| (a.0, &a.3).cmp(&(b.0, &b.3)));
        let mut functions: Vec<FunctionRange> = Vec::with_capacity(found.len());
        let mut next = u64::MAX;
        let mut current = u64::MAX;
        for (addr, len, room, name, pointer) in found.into_iter().rev() {
            if addr != current {
                (next, current) = (current, addr);
            }
            let gap = u32::try_from(next - addr).unwrap_or(u32::MAX);
            let len = if len == 0 { room.min(gap) } else { len };
            functions.push(FunctionRange {
                name,
                addr: CodeAddr::new(addr),
                len: Len::new(len),
                pointer: CodeAddr::new(pointer),
            });
        }
        functions.reverse();
        functions
    }

    /// The addresses of entries or stubs, by their symbols' names.
    fn named(&self, slots: &Slots) -> HashMap<String, CodeAddr> {
        let mut named = HashMap::new();
        for (symbol, spot) in slots.all() {
            if let Some(addr) = self.spot(spot) {
                let name = self.layout.graph.symbol_name(symbol);
                named.entry(name).or_insert(CodeAddr::new(addr));
            }
        }
        named
    }

    fn symbols(&self) -> HashMap<String, CodeAddr> {
        let symbols = self.layout.graph.symbols.iter().zip(self.values);
        let defined = symbols.filter_map(|(symbol, value)| match (symbol.definition, value) {
            (Definition::Section(..) | Definition::Absolute(_), Value::Known(addr))
                if symbol.scope == Scope::Exported =>
            {
                Some((symbol.name.to_string(), CodeAddr::new(*addr)))
            }
            _ => None,
        });
        defined.collect()
    }
}
