//! Code memory for other JITs: allocated, written, published, and given to an engine.

use parking_lot::Mutex;
use patchpoint::addr::{CodeAddr, CodeRange};
use patchpoint::memory::{Arena, PlacedSegment, PlacedSegments, Placement, Reach, SegmentKind, SegmentNeed};

use crate::error::{Misuse, Result, pp_error};
use crate::guard::boundary;
use crate::handle::{self, HandleOut, handle};
use crate::types::{Growing, GrowingOut, out, pp_bytes, read, slice};

/// Memory in which no page is ever writable and executable at once. It grows by chunks, and goes with
/// the last handle and the last that was placed in it.
pub struct pp_arena {
    _opaque: [u8; 0],
}

/// Segments with addresses, being filled: the code is not there for others.
pub struct pp_placement {
    _opaque: [u8; 0],
}

/// Segments that are complete. Freeing them unloads them.
pub struct pp_placed {
    _opaque: [u8; 0],
}

pub(crate) type ArenaBody = Arena;
handle!(pp_arena, ArenaBody, 0x7070_0011);
pub(crate) type PlacementBody = Mutex<Option<Placement>>;
handle!(pp_placement, PlacementBody, 0x7070_0012);
pub(crate) type PlacedBody = PlacedSegments;
handle!(pp_placed, PlacedBody, 0x7070_0013);

/// What a segment holds.
#[repr(C)]
pub enum pp_segment_kind {
    /// Code, executable.
    PP_SEGMENT_CODE = 0,
    /// Data that is only read when it is complete.
    PP_SEGMENT_READ_ONLY = 1,
    /// Data that is written.
    PP_SEGMENT_DATA = 2,
}

/// What is needed for a segment.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_segment_need {
    /// One of pp_segment_kind.
    pub kind: u32,
    /// Its length in bytes; may be 0.
    pub len: u64,
    /// Its alignment in bytes, a power of two.
    pub align: u64,
}

/// Where segments may lie. `size` comes first, see the head of this file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_reach {
    /// The size of this structure.
    pub size: usize,
    /// 0 for anywhere, 1 for the low 2 GiB, 2 for less than `within` bytes from all of the code.
    pub where_: u32,
    /// Where the code begins.
    pub code: u64,
    /// How long it is.
    pub code_len: u64,
    /// The distance in bytes, 4 GiB at most.
    pub within: u64,
}

// SAFETY: numbers.
unsafe impl Growing for pp_reach {}

/// A segment with its place. `size` comes first, see the head of this file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pp_segment {
    /// The size of this structure, written by the caller.
    pub size: usize,
    /// One of pp_segment_kind.
    pub kind: u32,
    /// The address at which it is executed or read.
    pub address: u64,
    /// Its length in bytes.
    pub len: u64,
}

// SAFETY: numbers.
unsafe impl Growing for pp_segment {}

impl From<PlacedSegment> for pp_segment {
    fn from(segment: PlacedSegment) -> Self {
        Self {
            size: 0,
            kind: match segment.kind {
                SegmentKind::Code => pp_segment_kind::PP_SEGMENT_CODE,
                SegmentKind::ReadOnly => pp_segment_kind::PP_SEGMENT_READ_ONLY,
                SegmentKind::Data => pp_segment_kind::PP_SEGMENT_DATA,
            } as u32,
            address: segment.range.start().get(),
            len: segment.range.len(),
        }
    }
}

/// An empty arena; nothing is mapped before something is placed. A chunk has room for `chunk_len` bytes
/// of code; 0 takes 2 MiB. To be freed by pp_arena_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_arena_new(chunk_len: u64, arena: *mut *mut pp_arena) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<ArenaBody>::new(arena)?;
        to.set(match chunk_len {
            0 => Arena::default(),
            some => Arena::new(some),
        });
        Ok(())
    })
}

/// Finds room for segments, all in one chunk, in this order. `reach` may be NULL for anywhere. To be
/// freed by pp_placement_free(), also when it has been finalized.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_arena_place(
    arena: *const pp_arena,
    needs: *const pp_segment_need,
    count: usize,
    reach: *const pp_reach,
    placement: *mut *mut pp_placement,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<PlacementBody>::new(placement)?;
        let arena = handle::get::<ArenaBody>(arena)?;
        let needs = slice(needs, count)?.iter();
        let needs = needs.map(need).collect::<Result<Vec<_>>>()?;
        let reach = match reach.is_null() {
            true => Reach::Anywhere,
            false => reach_of(&read(reach)?)?,
        };
        to.set(Mutex::new(Some(arena.place(&needs, reach)?)));
        Ok(())
    })
}

fn need(need: &pp_segment_need) -> Result<SegmentNeed> {
    Ok(SegmentNeed {
        kind: match need.kind {
            0 => SegmentKind::Code,
            1 => SegmentKind::ReadOnly,
            2 => SegmentKind::Data,
            other => return Err(Misuse::Number("pp_segment_kind", other.into()).into()),
        },
        len: need.len,
        align: need.align,
    })
}

/// No architecture's code reaches further without a register.
const MOST_WITHIN: u64 = 1 << 32;

fn reach_of(reach: &pp_reach) -> Result<Reach> {
    Ok(match reach.where_ {
        0 => Reach::Anywhere,
        1 => Reach::Low2GiB,
        // The arena searches no further: what was asked for and could not be had is refused.
        2 if reach.within > MOST_WITHIN => {
            return Err(Misuse::Number("distance within which code reaches", reach.within).into());
        }
        2 => Reach::Near {
            code: CodeRange::new(CodeAddr::new(reach.code), reach.code_len)
                .ok_or(Misuse::Number("length of the code of a pp_reach", reach.code_len))?,
            within: reach.within,
        },
        other => return Err(Misuse::Number("where of a pp_reach", other.into()).into()),
    })
}

/// Unmaps the chunks in which nothing is placed; `bytes` becomes how much address space that was.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_arena_trim(arena: *const pp_arena, bytes: *mut u64) -> *mut pp_error {
    boundary!({
        let to = out(bytes, 0)?;
        *to = handle::get::<ArenaBody>(arena)?.trim();
        Ok(())
    })
}

/// Frees a handle of an arena.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_arena_free(arena: *mut pp_arena) -> *mut pp_error {
    boundary!(handle::free::<ArenaBody>(arena))
}

const FINALIZED: Misuse = Misuse::Order("the segments have been finalized: place others");

fn segment(segments: &[PlacedSegment], index: usize) -> Result<pp_segment> {
    let found = segments.get(index).copied();
    Ok(found
        .ok_or(Misuse::Number("index of a segment", index as u64))?
        .into())
}

/// The segment at `index`, in the order in which they were asked for.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_placement_segment(
    placement: *const pp_placement,
    index: usize,
    to: *mut pp_segment,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::new(to)?;
        let body = handle::get::<PlacementBody>(placement)?;
        let placement = body.lock();
        to.set(segment(placement.as_ref().ok_or(FINALIZED)?.segments(), index)?);
        Ok(())
    })
}

/// Writes bytes into a segment.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_placement_fill(
    placement: *mut pp_placement,
    address: u64,
    bytes: pp_bytes,
) -> *mut pp_error {
    boundary!({
        let bytes = bytes.get()?;
        let body = handle::get::<PlacementBody>(placement)?;
        let mut placement = body.lock();
        let placement = placement.as_mut().ok_or(FINALIZED)?;
        Ok(placement.fill(CodeAddr::new(address), bytes)?)
    })
}

/// Ends filling: read-only segments become so, and the instruction cache agrees with the code. Where
/// other code may have run at these addresses before, call pp_serialize_all() before any thread runs
/// this; or each thread that may run it calls pp_serialize() before. What is placed is to be freed by
/// pp_placed_free().
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_placement_finalize(
    placement: *mut pp_placement,
    placed: *mut *mut pp_placed,
) -> *mut pp_error {
    boundary!({
        let to = HandleOut::<PlacedBody>::new(placed)?;
        let body = handle::get::<PlacementBody>(placement)?;
        let taken = body.lock().take();
        to.set(taken.ok_or(FINALIZED)?.finalize()?);
        Ok(())
    })
}

/// Frees a placement, and its room if it was not finalized.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_placement_free(placement: *mut pp_placement) -> *mut pp_error {
    boundary!(handle::free::<PlacementBody>(placement))
}

/// The segment at `index`, in the order in which they were asked for.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_placed_segment(
    placed: *const pp_placed,
    index: usize,
    to: *mut pp_segment,
) -> *mut pp_error {
    boundary!({
        let to = GrowingOut::new(to)?;
        to.set(segment(handle::get::<PlacedBody>(placed)?.segments(), index)?);
        Ok(())
    })
}

/// Frees what was placed, which unloads it.
///
/// # Safety
/// Promises that no thread executes it or holds addresses of it, and that every module that was made of
/// it is unregistered and gone with every handle of it. Threads: any. Handlers: yes. Stopped world: no.
/// Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_placed_free(placed: *mut pp_placed) -> *mut pp_error {
    boundary!(handle::free::<PlacedBody>(placed))
}
