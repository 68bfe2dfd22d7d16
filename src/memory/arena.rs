//! Memory of the engine's own for loaded code, its data, and stubs.
//!
//! Chunks of contiguous address space are shared by many images. All segments of one placement are
//! in one chunk, so every 32-bit displacement between them reaches. Code is written through the
//! alias; data pages are private and writable until the placement is finalized, when the read-only
//! ones are made so for good.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::vec::Vec;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::addr::{CodeAddr, CodeRange};
use crate::memory::{Error, Result};

use super::SegmentKind;
use super::chunk::Chunk;
use super::fork::Birth;
use super::mirror::{Mirror, Mirrored};
use super::{Alias, CodeMemory, raw, reserve, sys};

mod manager;

/// Where a placement may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Reach {
    /// Anywhere; within the placement everything reaches everything by 32-bit displacements.
    #[default]
    Anywhere,
    /// In the low 2 GiB, for code compiled for the small code model without PIC (x86-64 psABI,
    /// section 3.5.1: all symbols below 2^31 - 2^24).
    Low2GiB,
    /// Where no byte is as far as that from any byte of the code.
    Near {
        /// The code.
        code: CodeRange,
        /// The distance in bytes. What is beyond 4 GiB is not searched: no displacement reaches there.
        within: u64,
    },
}

/// What is needed for one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentNeed {
    /// What it holds.
    pub kind: SegmentKind,
    /// Its length in bytes; may be 0.
    pub len: u64,
    /// Its alignment in bytes, a power of two.
    pub align: u64,
}

/// A segment with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedSegment {
    /// What it holds.
    pub kind: SegmentKind,
    /// The addresses at which it is executed or read.
    pub range: CodeRange,
}

/// The engine's memory. Clones share it; it grows by chunks and is unmapped with the last user.
///
/// A JIT of one's own can have its code there, and need neither a linker nor memory that is
/// remapped: it allocates, writes code, publishes it, and registers it with an engine, live if it
/// likes. Room for stubs is found near.
///
/// ```
/// use std::sync::Arc;
/// use patchpoint::addr::{CodeAddr, Len};
/// use patchpoint::arch::{Arch, CallShape};
/// use patchpoint::engine::Engine;
/// use patchpoint::image::Adoption;
/// use patchpoint::memory::{Arena, CodeMemory, Reach, SegmentKind, SegmentNeed};
/// use patchpoint::publish::{self, NeverStopped};
/// use patchpoint::sequence::{Sequence, Target};
/// use patchpoint::site::EntrySpec;
///
/// extern "C" fn eight() -> u64 {
///     8
/// }
///
/// # fn main() -> Result<(), patchpoint::Error> {
/// # if Arch::host() != Some(Arch::X86_64) { return Ok(()) }
/// // Sixteen bytes of nops at the entry, for patches; then `mov eax, 7; ret`.
/// let code: Vec<u8> = [&[0x90; 16][..], &[0xb8, 7, 0, 0, 0, 0xc3]].concat();
/// let arena = Arena::default();
///
/// // Allocate and write: the code is not there for others before it is finalized.
/// let need = SegmentNeed { kind: SegmentKind::Code, len: code.len() as u64, align: 16 };
/// let mut placement = arena.place(&[need], Reach::Anywhere)?;
/// let at = placement.segments()[0].range.start();
/// placement.fill(at, &code)?;
///
/// // Publish: `finalize` maintains the instruction cache. A thread that may have run other code at
/// // these addresses has to serialize.
/// let placed = placement.finalize()?;
/// publish::serialize();
///
/// // Register: no stack map, one entry site.
/// let empty_map = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec();
/// let adoption = Adoption::new(Arch::X86_64, Arch::X86_64.endian(), empty_map)
///     .function("seven", at, Len::of(&code).expect("22 bytes"))
///     .not_yet_run();
/// // SAFETY: `placed` outlives the module, nobody else writes the code, and it has not run.
/// let adopted = unsafe { adoption.promise()? };
/// // SAFETY: nothing is written through it but by the engine.
/// let memory: Arc<dyn CodeMemory> = Arc::new(unsafe { placed.writable() });
/// let engine = Engine::builder().world(NeverStopped).build()?;
/// let loaded = engine.adopt_with(adopted, &memory)?;
/// let registration = engine.registration(loaded).entry(EntrySpec::new("seven", 78_u64, 16)).live();
/// // SAFETY: what is told of the code is true.
/// let module = unsafe { registration.register(|_| None::<CallShape>)? };
/// module.release();
///
/// // SAFETY: the address of a function that takes nothing and returns a number.
/// let seven: extern "C" fn() -> u64 = unsafe { std::mem::transmute(at.get() as usize) };
/// assert_eq!(seven(), 7);
/// // SAFETY: it can be called as the function that it replaces.
/// let target = unsafe { Target::addr(CodeAddr::new(eight as usize as u64)) };
/// engine.patch(78, &Sequence::new().jump(target))?;
/// assert_eq!(seven(), 8);
/// # drop((engine, module));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Arena {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    chunk_len: u64,
    /// Where the code is executed, if not in this process.
    mirror: Option<Mirrored>,
    chunks: Mutex<Vec<Arc<Chunk>>>,
    birth: Birth,
}

impl Default for Arena {
    fn default() -> Self {
        Self::new(2 << 20)
    }
}

impl Arena {
    /// An empty arena; nothing is mapped before the first placement. A chunk has room for
    /// `chunk_len` bytes of code and as much of data, and for more where one placement needs more.
    #[must_use]
    pub fn new(chunk_len: u64) -> Self {
        Self::with(chunk_len, None)
    }

    /// The same, for code that is executed in a mirror, and in this process only read. Data is
    /// writable in both.
    #[must_use]
    pub fn mirrored(mirror: Arc<dyn Mirror>, chunk_len: u64) -> Self {
        Self::with(chunk_len, Some(Mirrored::by(mirror)))
    }

    fn with(chunk_len: u64, mirror: Option<Mirrored>) -> Self {
        Self {
            shared: Arc::new(Shared {
                chunk_len,
                mirror,
                chunks: Mutex::new(Vec::new()),
                birth: Birth::here(),
            }),
        }
    }

    /// Finds room for the segments, all in one chunk, in the order of `needs`.
    ///
    /// # Errors
    ///
    /// [`Error::SegmentRefused`] for an alignment that is no power of two or above 1 GiB, and for
    /// segments of 2 GiB and more; [`Error::NoAddressSpace`]; [`Error::SystemCall`];
    /// [`Error::EngineForked`] in a fork's child; those of a [`Mirror`].
    pub fn place(&self, needs: &[SegmentNeed], reach: Reach) -> Result<Placement> {
        if !self.shared.birth.is_here() {
            return Err(Error::EngineForked);
        }
        let total = Totals::of(needs)?;
        let mut chunks = self.shared.chunks.lock();
        let within = reserve::window(reach);
        for chunk in chunks.iter().filter(|chunk| within.overlaps(chunk.whole)) {
            if let Some(held) = TakenRoom::take(chunk, needs, within)? {
                return Ok(Placement { held });
            }
        }
        // In a small window there may be little room between what others have there.
        let usual = self.shared.chunk_len.min(within.len() / 64);
        let new = |least: u64| {
            let [code, data] = [total.code, total.data].map(|len| page_multiple(len.max(least)));
            let mirror = self.shared.mirror.as_ref();
            Chunk::new(code, data, |len| reserve::reserve(len, reach), mirror)
        };
        let chunk = Arc::new(match new(usual) {
            Err(Error::NoAddressSpace { .. }) => new(1)?,
            made => made?,
        });
        let held = TakenRoom::take(&chunk, needs, within)?.ok_or(Error::NoAddressSpace {
            len: total.code.saturating_add(total.data),
            within: chunk.whole,
        })?;
        chunks.push(chunk);
        Ok(Placement { held })
    }

    /// Unmaps the chunks in which nothing is placed. Returns how many bytes of address space were
    /// freed: none in a fork's child.
    pub fn trim(&self) -> u64 {
        if !self.shared.birth.is_here() {
            return 0;
        }
        let mut chunks = self.shared.chunks.lock();
        let before: u64 = chunks.iter().map(|chunk| chunk.whole.len()).sum();
        chunks.retain(|chunk| Arc::strong_count(chunk) > 1);
        before - chunks.iter().map(|chunk| chunk.whole.len()).sum::<u64>()
    }

    /// The process that made it.
    pub(super) fn birth(&self) -> Birth {
        self.shared.birth
    }

    /// The address ranges of the chunks, code and data. In a fork's child none, if a thread of the
    /// parent was placing something.
    #[must_use]
    pub fn chunks(&self) -> Vec<CodeRange> {
        let chunks = self.shared.birth.lock(&self.shared.chunks);
        let chunks = chunks.iter().flat_map(|chunks| chunks.iter());
        chunks.map(|chunk| chunk.whole).collect()
    }
}

fn page_multiple(len: u64) -> u64 {
    let page = sys::page_size();
    // No system has room for a length of which there is none.
    len.checked_next_multiple_of(page).unwrap_or(len)
}

/// Bytes that a fresh chunk needs for a request, alignment included.
struct Totals {
    code: u64,
    data: u64,
}

impl Totals {
    fn of(needs: &[SegmentNeed]) -> Result<Self> {
        const MOST: u64 = (1 << 31) - (1 << 20);
        let mut total = Self { code: 0, data: 0 };
        for (index, need) in needs.iter().enumerate() {
            let refused = |why| Error::SegmentRefused {
                index,
                len: need.len,
                align: need.align,
                why,
            };
            if !need.align.is_power_of_two() || need.align > 1 << 30 {
                return Err(refused("its alignment is no power of two of up to 1 GiB"));
            }
            if need.len > MOST {
                return Err(refused(
                    "32-bit displacements must reach all of an image; load less at once",
                ));
            }
            let sum = if need.kind == SegmentKind::Code {
                &mut total.code
            } else {
                &mut total.data
            };
            *sum += page_multiple(need.len + unit(need.kind).max(need.align));
            if total.code + total.data > MOST {
                return Err(refused(
                    "32-bit displacements must reach all of an image; load less at once",
                ));
            }
        }
        Ok(total)
    }
}

/// The smallest alignment, and the multiple in which room is taken.
fn unit(kind: SegmentKind) -> u64 {
    match kind {
        SegmentKind::Code => 16,
        SegmentKind::ReadOnly | SegmentKind::Data => sys::page_size(),
    }
}

/// Room taken in a chunk; freed when dropped.
#[derive(Debug)]
struct TakenRoom {
    chunk: Arc<Chunk>,
    // Stubs, of which there are many, have one segment, of code.
    segments: SmallVec<[PlacedSegment; 1]>,
    code: SmallVec<[CodeRange; 1]>,
    data: Vec<CodeRange>,
    /// Where some of the code is, there was other code before.
    is_reused: bool,
}

impl TakenRoom {
    /// Takes room for all segments within the range, or `None` and nothing when there is too
    /// little.
    fn take(chunk: &Arc<Chunk>, needs: &[SegmentNeed], within: CodeRange) -> Result<Option<Self>> {
        let mut held = Self {
            chunk: Arc::clone(chunk),
            segments: SmallVec::new(),
            code: SmallVec::new(),
            data: Vec::new(),
            is_reused: false,
        };
        for need in needs {
            let unit = unit(need.kind);
            let len = need.len.next_multiple_of(unit);
            let free = match need.kind {
                SegmentKind::Code => &chunk.free_code,
                SegmentKind::ReadOnly | SegmentKind::Data => &chunk.free_data,
            };
            let Some(room) = free.lock().take(len, need.align.max(unit), within) else {
                return Ok(None);
            };
            if need.kind == SegmentKind::Code {
                let end = room.end().get();
                held.is_reused |= room.start().get() < chunk.unused.fetch_max(end, Ordering::Relaxed);
            }
            match need.kind {
                SegmentKind::Code => held.code.push(room),
                SegmentKind::ReadOnly | SegmentKind::Data => held.data.push(room),
            }
            if need.kind == SegmentKind::Code {
                chunk.use_code(room.end());
            }
            if need.kind != SegmentKind::Code && !room.is_empty() {
                chunk.map_data(room)?;
            }
            let range = CodeRange::new(room.start(), need.len);
            let range = range.expect("a segment is no longer than its room");
            held.segments.push(PlacedSegment {
                kind: need.kind,
                range,
            });
        }
        Ok(Some(held))
    }

    fn alias(&self) -> Alias {
        Alias::new(Arc::clone(&self.chunk.code))
    }
}

impl Drop for TakenRoom {
    fn drop(&mut self) {
        let alias = self.alias();
        for room in self.code.drain(..) {
            // Whatever still jumps there traps. In a fork's child this is refused, and the parent's code is
            // kept.
            // protection: freed-code-traps
            if fill_with_traps(&alias, room).is_ok() {
                // protection: room-is-given-back
                self.chunk.free_code.lock().give(room);
            }
        }
        for room in self.data.drain(..).filter(|room| !room.is_empty()) {
            // protection: data-is-given-back
            self.chunk.free_data(room);
        }
    }
}

/// Instructions that trap, one after the other over 4 bytes, for the machine that executes them.
const TRAPS: [u8; 4] = if cfg!(target_arch = "aarch64") {
    0xd420_0000_u32.to_ne_bytes()
} else if cfg!(target_arch = "powerpc64") {
    0x7fe0_0008_u32.to_ne_bytes()
} else if cfg!(target_arch = "riscv64") {
    0x0010_0073_u32.to_ne_bytes()
} else if cfg!(target_arch = "s390x") {
    0x0001_0001_u32.to_ne_bytes()
} else {
    [0xcc; 4]
};

/// Many of them. They are not made when they are needed: a process that was made by `clone` is refused
/// here, and may wait for an allocator's lock for ever.
static MANY_TRAPS: [[u8; 4]; 256] = [TRAPS; 256];

/// Fills a range of code, a multiple of 4 bytes, with instructions that trap.
pub(super) fn fill_with_traps(alias: &Alias, range: CodeRange) -> Result<()> {
    let traps = MANY_TRAPS.as_flattened();
    // protection: freed-code-traps (2)
    let mut at = range.start();
    while at < range.end() {
        let left = (range.end().get() - at.get()) as usize;
        let bytes = traps.get(..left.min(traps.len()));
        let bytes = bytes.expect("no more are taken than there are");
        alias.write(at, bytes)?;
        at = CodeAddr::new(at.get() + bytes.len() as u64);
    }
    // protection: memory-given-back-is-maintained
    alias.maintain(range);
    Ok(())
}

/// Segments with addresses, being filled. Dropping it frees the room.
#[derive(Debug)]
pub struct Placement {
    held: TakenRoom,
}

impl Placement {
    /// The segments, in the order in which they were asked for.
    #[must_use]
    pub fn segments(&self) -> &[PlacedSegment] {
        &self.held.segments
    }

    /// Writes bytes into a segment.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideMemory`] for bytes that are not all in one segment.
    pub fn fill(&mut self, at: CodeAddr, bytes: &[u8]) -> Result<()> {
        let len = bytes.len() as u64;
        let segment = self
            .held
            .segments
            .iter()
            .find(|s| s.range.contains_bytes(at, len));
        let segment = segment.ok_or(Error::OutsideMemory {
            at,
            len,
            memory: self.held.chunk.whole,
        })?;
        if segment.kind == SegmentKind::Code {
            return self.held.alias().write(at, bytes);
        }
        // SAFETY: the segment's pages were mapped read-write for this placement, which nobody else writes to,
        // and whole pages, so that the quadwords around are in them too.
        unsafe { raw::store(at.get(), bytes) };
        Ok(())
    }

    /// Makes the read-only segments so, and ends filling: the instruction cache agrees with the
    /// code then. A thread that ran other code at these addresses has to
    /// [serialize](crate::publish::serialize()) before it runs this.
    ///
    /// # Errors
    ///
    /// [`Error::SystemCall`] when a protection is refused; the room is freed.
    #[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
    pub fn finalize(self) -> Result<PlacedSegments> {
        for segment in self
            .held
            .segments
            .iter()
            .filter(|s| s.kind == SegmentKind::ReadOnly)
        {
            let pages = CodeRange::new(segment.range.start(), page_multiple(segment.range.len()));
            let pages = pages.expect("a segment has whole pages");
            if !pages.is_empty() {
                // protection: read-only-data-is-read-only
                self.held.chunk.seal_data(pages)?;
            }
        }
        let alias = self.held.alias();
        let code = |segment: &&PlacedSegment| segment.kind == SegmentKind::Code && !segment.range.is_empty();
        // protection: placed-code-is-maintained
        for segment in self.held.segments.iter().filter(code) {
            alias.maintain(segment.range);
        }
        Ok(PlacedSegments { held: self.held })
    }
}

/// Segments that are complete. Dropping it unloads them: no thread may execute or hold addresses of
/// them then.
#[derive(Debug)]
pub struct PlacedSegments {
    held: TakenRoom,
}

impl PlacedSegments {
    /// The segments, in the order in which they were asked for.
    #[must_use]
    pub fn segments(&self) -> &[PlacedSegment] {
        &self.held.segments
    }

    /// Whether there was other code before where this is.
    pub(crate) fn is_reused(&self) -> bool {
        self.held.is_reused
    }

    /// The memory through which the code is patched, which writes whatever it is told to. It covers
    /// the whole chunk's code, that of others too.
    ///
    /// # Safety
    ///
    /// As for [`CodeArea::writable`](super::CodeArea::writable); and only the segments of this are
    /// written.
    #[must_use]
    pub unsafe fn writable(&self) -> Alias {
        self.memory()
    }

    /// The memory, for who writes what has been checked.
    pub(crate) fn memory(&self) -> Alias {
        self.held.alias()
    }

    /// The same, by a handle that all have whose code is in the same memory.
    pub(crate) fn shared_memory(&self) -> &Arc<dyn CodeMemory> {
        &self.held.chunk.memory
    }
}
