//! Resolves each symbol once, then applies every edge: one pass, no lookup by name.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::collections::HashMap;

use super::graph::{Definition, Edge, Section, SectionRole, SymbolId};
use super::layout::{Layout, Place, Reach, SLOT, SegmentAddrs, SegmentKind};
use super::relocation::Formula;
use super::{EhFrame, FunctionRange, Image};
use crate::addr::{ByteOffset, CodeAddr, CodeRange, Len};
use crate::error::{Error, Result};

/// A segment with its final bytes.
#[derive(Clone, Debug)]
pub struct Segment {
    /// What its memory must allow.
    pub kind: SegmentKind,
    /// Where the bytes must be when they are used.
    pub addr: CodeAddr,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// An object linked for given addresses: bytes to be put there, and what is known about them.
#[derive(Clone, Debug)]
pub struct LinkedImage {
    /// The segments that are not empty.
    pub segments: Vec<Segment>,
    /// What is registered.
    pub image: Image,
    symbols: HashMap<String, CodeAddr>,
}

impl LinkedImage {
    /// The address of a symbol that the object defines for others.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<CodeAddr> {
        self.symbols.get(name).copied()
    }

    /// All symbols that the object defines for others, in no order.
    pub fn symbols(&self) -> impl Iterator<Item = (&str, CodeAddr)> {
        self.symbols.iter().map(|(name, addr)| (name.as_str(), *addr))
    }
}

/// The value of a symbol.
#[derive(Clone, Copy)]
enum Value {
    Known(u64),
    /// Undefined, and the resolver does not know it.
    Missing,
    Refused(&'static str),
}

struct Linker<'a, 'data> {
    layout: &'a Layout<'data>,
    addrs: SegmentAddrs,
    /// By symbol.
    values: Vec<Value>,
    got: u64,
}

impl Layout<'_> {
    /// Resolves the symbols and relocates all bytes for these addresses. Nothing is written to memory that is executed.
    ///
    /// `resolve` is asked once for every undefined symbol that a relocation needs. `None` is an error, but for weak
    /// symbols, whose address is then 0.
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
        let [_, read_only, _] = &self.segments;
        // Without a read-only segment nothing refers to the table.
        let got = if read_only.size.get() == 0 {
            addrs.code
        } else {
            addrs.read_only
        };
        let mut linker = Linker {
            layout: self,
            addrs: *addrs,
            values: Vec::new(),
            got: got.get().wrapping_add(u64::from(self.got.place)),
        };
        linker.values = linker.resolve_all(resolve);
        linker.link()
    }

    fn check_segments(&self, addrs: &SegmentAddrs) -> Result<()> {
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
            if self.reach() == Reach::Low2GiB && end > 1 << 31 {
                let reason = "the object has 32-bit addresses: place it below 2 GiB, or compile it with \
                              -relocation-model=pic or -code-model=large";
                return Err(misplaced(kind, reason));
            }
            if ranges
                .iter()
                .any(|(other, other_end)| start < *other_end && *other < end)
            {
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

impl<'data> Linker<'_, 'data> {
    fn address(&self, place: Place) -> u64 {
        self.addrs
            .get(place.segment)
            .get()
            .wrapping_add(u64::from(place.offset))
    }

    fn resolve_all(&self, resolve: &dyn Fn(&str) -> Option<CodeAddr>) -> Vec<Value> {
        let object = &self.layout.object;
        let mut wanted = alloc::vec![false; object.symbols.len()];
        for edge in object.sections.iter().flat_map(|section| &section.edges) {
            if let Some(wanted) = wanted.get_mut(edge.target.index()) {
                *wanted = true;
            }
        }
        let values = object
            .symbols
            .iter()
            .zip(wanted)
            .map(|(symbol, wanted)| match symbol.definition {
                Definition::Absolute(value) => Value::Known(value),
                Definition::GotBase => Value::Known(self.got),
                Definition::Refused(reason) => Value::Refused(reason),
                Definition::Section(section, offset) => match self.layout.places.get(section.index()) {
                    Some(Some(place)) => Value::Known(self.address(*place).wrapping_add(u64::from(offset))),
                    _ => Value::Refused("its section is kept but not placed, so it has no address"),
                },
                Definition::Undefined { .. } if !wanted => Value::Missing,
                Definition::Undefined { weak } => match resolve(&symbol.name) {
                    Some(addr) => Value::Known(addr.get()),
                    None if weak => Value::Known(0),
                    None => Value::Missing,
                },
            });
        values.collect()
    }

    fn link(&self) -> Result<LinkedImage> {
        self.check_missing()?;
        let mut buffers = self
            .layout
            .segments
            .map(|request| alloc::vec![0; request.size.as_usize()]);
        let [code, _, _] = &mut buffers;
        // A stub or padding that is run by mistake traps.
        code.fill(0xcc);
        let mut eh_frames = Vec::new();
        for (section, place) in self.layout.object.sections.iter().zip(&self.layout.places) {
            let Some(place) = place else { continue };
            let at = self.address(*place);
            let Some(bytes) = self.fill(section, *place, &mut buffers) else {
                continue;
            };
            for edge in &section.edges {
                self.apply(section, edge, Some(at), bytes)?;
            }
            if section.role == SectionRole::EhFrame {
                eh_frames.push(EhFrame {
                    addr: CodeAddr::new(at),
                    bytes: bytes.to_vec(),
                });
            }
        }
        let stack_maps = self.stack_maps()?;
        self.fill_slots(&mut buffers)?;
        let segments = SegmentKind::ALL
            .into_iter()
            .zip(buffers)
            .filter(|(_, bytes)| !bytes.is_empty());
        let segments: Vec<_> = segments
            .map(|(kind, bytes)| Segment {
                kind,
                addr: self.addrs.get(kind),
                bytes,
            })
            .collect();
        let code = segments
            .iter()
            .filter(|segment| segment.kind == SegmentKind::Code)
            .filter_map(|segment| CodeRange::new(segment.addr, segment.bytes.len() as u64));
        let image = Image {
            arch: self.layout.object.arch(),
            endian: self.layout.object.endian(),
            stack_maps,
            functions: self.functions(),
            eh_frames,
            code: code.collect(),
        };
        Ok(LinkedImage {
            segments,
            image,
            symbols: self.symbols(),
        })
    }

    /// Puts a section's bytes into its place; returns them.
    fn fill<'b>(
        &self,
        section: &Section<'_>,
        place: Place,
        buffers: &'b mut [Vec<u8>; 3],
    ) -> Option<&'b mut [u8]> {
        let start = place.offset as usize;
        let buffer = buffers.get_mut(place.segment.index())?;
        let whole = buffer.get_mut(start..start.checked_add(section.size as usize)?)?;
        let (initialized, zeros) = whole.split_at_mut_checked(section.bytes.len())?;
        initialized.copy_from_slice(&section.bytes);
        zeros.fill(0);
        Some(whole)
    }

    fn stack_maps(&self) -> Result<Vec<u8>> {
        let mut all = alloc::vec![0; self.layout.stack_maps_size as usize];
        for (index, start) in &self.layout.stack_maps {
            let section = self.layout.object.sections.get(*index);
            let bytes = all.get_mut(*start as usize..);
            let (Some(section), Some(bytes)) = (section, bytes) else {
                continue;
            };
            let Some(bytes) = bytes.get_mut(..section.bytes.len()) else {
                continue;
            };
            bytes.copy_from_slice(&section.bytes);
            for edge in &section.edges {
                self.apply(section, edge, None, bytes)?;
            }
        }
        Ok(all)
    }

    /// The entries of the global offset table, and stubs: `jmp *[rip + distance to the entry]`.
    fn fill_slots(&self, buffers: &mut [Vec<u8>; 3]) -> Result<()> {
        let [code, read_only, _] = buffers;
        let (got, stubs) = (&self.layout.got, &self.layout.stubs);
        let entries = read_only.get_mut(got.place as usize..).unwrap_or_default();
        for (entry, owner) in entries.chunks_exact_mut(SLOT as usize).zip(&got.owners) {
            entry.copy_from_slice(&self.value(*owner)?.to_le_bytes());
        }
        let code = code.get_mut(stubs.place as usize..).unwrap_or_default();
        for (stub, owner) in code.chunks_exact_mut(SLOT as usize).zip(&stubs.owners) {
            let (Some(at), Some(entry)) = (self.stub(*owner), self.entry(*owner)) else {
                continue;
            };
            // The segments have been checked to be within 2 GiB of each other.
            let distance = (entry.wrapping_sub(at).wrapping_sub(6) as u32).to_le_bytes();
            if let [opcode, modrm, d0, d1, d2, d3, ..] = stub {
                (*opcode, *modrm) = (0xff, 0x25);
                [*d0, *d1, *d2, *d3] = distance;
            }
        }
        Ok(())
    }

    fn entry(&self, symbol: SymbolId) -> Option<u64> {
        let offset = self.layout.got.offset(symbol)?;
        Some(self.address(Place {
            segment: SegmentKind::ReadOnly,
            offset,
        }))
    }

    fn stub(&self, symbol: SymbolId) -> Option<u64> {
        let offset = self.layout.stubs.offset(symbol)?;
        Some(self.address(Place {
            segment: SegmentKind::Code,
            offset,
        }))
    }

    fn value(&self, symbol: SymbolId) -> Result<u64> {
        let name = || self.layout.object.symbol_name(symbol);
        match self.values.get(symbol.index()) {
            Some(Value::Known(value)) => Ok(*value),
            Some(Value::Refused(reason)) => Err(Error::SymbolRefused {
                symbol: name(),
                reason,
            }),
            Some(Value::Missing) | None => Err(Error::SymbolsUnresolved {
                symbols: alloc::vec![name()],
            }),
        }
    }

    /// Computes an edge's value and writes it. `at` is the section's address, if it has one.
    fn apply(&self, section: &Section<'_>, edge: &Edge, at: Option<u64>, bytes: &mut [u8]) -> Result<()> {
        let formula = edge.relocation.formula();
        if formula == Formula::Nothing {
            return Ok(());
        }
        let Some(place) = at.or((!formula.needs_place()).then_some(0)) else {
            return Err(Error::RelocationUnsupported {
                relocation: edge.relocation.name().into(),
                section: section.name.to_string(),
                offset: ByteOffset::new(u64::from(edge.offset)),
                reason: "it is relative to its place, but the section is kept without an address",
            });
        };
        let place = place.wrapping_add(u64::from(edge.offset));
        let value = self.compute(section, edge, place)?;
        let width = edge.relocation.width();
        if !edge.relocation.fit().admits(value, width) {
            return Err(self.out_of_reach(section, edge, place));
        }
        let start = edge.offset as usize;
        let field = start
            .checked_add(usize::from(width))
            .and_then(|end| bytes.get_mut(start..end));
        for (byte, new) in field.unwrap_or_default().iter_mut().zip(value.to_le_bytes()) {
            *byte = new;
        }
        Ok(())
    }

    fn compute(&self, section: &Section<'_>, edge: &Edge, place: u64) -> Result<u64> {
        let formula = edge.relocation.formula();
        let addend = edge.addend as u64;
        let entry = || {
            self.value(edge.target)?;
            self.entry(edge.target)
                .ok_or_else(|| self.out_of_reach(section, edge, place))
        };
        let value = match formula {
            Formula::Nothing => 0,
            Formula::Absolute => self.value(edge.target)?,
            Formula::Relative => self.value(edge.target)?.wrapping_sub(place),
            Formula::Branch => self.branch(edge, place)?,
            Formula::BranchFromGot | Formula::FromGot => self.value(edge.target)?.wrapping_sub(self.got),
            Formula::GotOffset => entry()?.wrapping_sub(self.got),
            Formula::GotEntry => entry()?.wrapping_sub(place),
            Formula::GotBase => self.got.wrapping_sub(place),
            Formula::Size => self
                .layout
                .object
                .symbols
                .get(edge.target.index())
                .map_or(0, |symbol| symbol.size),
        };
        Ok(value.wrapping_add(addend))
    }

    /// The distance to the target, or to its stub where the target itself is out of reach.
    fn branch(&self, edge: &Edge, place: u64) -> Result<u64> {
        let direct = self.value(edge.target)?.wrapping_sub(place);
        let fits = edge
            .relocation
            .fit()
            .admits(direct.wrapping_add(edge.addend as u64), edge.relocation.width());
        Ok(match self.stub(edge.target) {
            Some(stub) if !fits => stub.wrapping_sub(place),
            _ => direct,
        })
    }

    fn out_of_reach(&self, section: &Section<'_>, edge: &Edge, place: u64) -> Error {
        let absolute = edge.relocation.formula() == Formula::Absolute;
        Error::RelocationOutOfReach {
            relocation: edge.relocation.name(),
            section: section.name.to_string(),
            offset: ByteOffset::new(u64::from(edge.offset)),
            symbol: self.layout.object.symbol_name(edge.target),
            from: CodeAddr::new(place),
            to: CodeAddr::new(self.value(edge.target).unwrap_or(0)),
            bytes: edge.relocation.width(),
            mend: if absolute {
                "compile with -relocation-model=pic or -code-model=large, or place the target in the low 2 GiB"
            } else {
                "compile with -relocation-model=pic or -code-model=large, or place both within 2 GiB"
            },
        }
    }

    /// All symbols that nobody knows, each with the first place that needs it.
    fn check_missing(&self) -> Result<()> {
        let missing = |edge: &Edge| matches!(self.values.get(edge.target.index()), Some(Value::Missing));
        let mut seen = alloc::vec![false; self.values.len()];
        let mut symbols = Vec::new();
        for section in &self.layout.object.sections {
            for edge in section.edges.iter().filter(|edge| missing(edge)) {
                let Some(seen) = seen.get_mut(edge.target.index()) else {
                    continue;
                };
                if core::mem::replace(seen, true) {
                    continue;
                }
                let name = self.layout.object.symbol_name(edge.target);
                symbols.push(alloc::format!(
                    "`{name}` (for {}+{:#x})",
                    section.name,
                    edge.offset
                ));
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
        let object = &self.layout.object;
        let mut found = Vec::new();
        for (symbol, value) in object.symbols.iter().zip(&self.values) {
            let (Definition::Section(id, offset), Value::Known(addr)) = (symbol.definition, value) else {
                continue;
            };
            let Some(section) = object
                .section(id)
                .filter(|section| section.role == SectionRole::Code)
            else {
                continue;
            };
            if symbol.function {
                let room = section.size.saturating_sub(offset);
                let len = u32::try_from(symbol.size).unwrap_or(u32::MAX).min(room);
                found.push((*addr, len, room, symbol.name.to_string()));
            }
        }
        found.sort_by(|a, b| (a.0, &a.3).cmp(&(b.0, &b.3)));
        let mut functions: Vec<FunctionRange> = Vec::with_capacity(found.len());
        let mut next = u64::MAX;
        let mut current = u64::MAX;
        for (addr, len, room, name) in found.into_iter().rev() {
            if addr != current {
                (next, current) = (current, addr);
            }
            let gap = u32::try_from(next - addr).unwrap_or(u32::MAX);
            let len = if len == 0 { room.min(gap) } else { len };
            functions.push(FunctionRange {
                name,
                addr: CodeAddr::new(addr),
                len: Len::new(len),
            });
        }
        functions.reverse();
        functions
    }

    fn symbols(&self) -> HashMap<String, CodeAddr> {
        let symbols = self.layout.object.symbols.iter().zip(&self.values);
        let defined = symbols.filter_map(|(symbol, value)| match (symbol.definition, value) {
            (Definition::Section(..) | Definition::Absolute(_), Value::Known(addr)) if symbol.global => {
                Some((symbol.name.to_string(), CodeAddr::new(*addr)))
            }
            _ => None,
        });
        defined.collect()
    }
}
