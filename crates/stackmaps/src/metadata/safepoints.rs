//! One table from the address of a safepoint to the roots of its frame, of whatever map it was
//! made; and with it, walking stacks.
//!
//! A collector stops a thread at a safepoint, knows the thread's stack pointer, and has to visit
//! the references in its frames. The table gives each frame's size and roots. It asks for memory by
//! a trait, so that it works on another process's stack, or a copy, too, and holds no unsafe code.
//! It finds a caller by the size of the frame alone; code whose return address is in another place,
//! or whose references stay in registers, needs unwind information: [`deopt::Walker`](crate::deopt)
//! walks that.

use alloc::vec::Vec;
use core::ops::Range;

use super::gc_map::{GcMap, RootKind};
use crate::addr::{CodeAddr, DwarfReg};
use crate::error::{Error, Result};
use crate::{Location, LocationKind, Record, StackMap, StackMaps, StackSize, Statepoint};

/// The memory of the stack that is walked: words of 8 bytes in the order of the machine that runs
/// it.
pub trait StackMemory {
    /// The word at an address; `None` where there is no stack.
    fn read(&self, addr: u64) -> Option<u64>;

    /// Replaces the word at an address; `None` where that cannot be done.
    fn write(&mut self, addr: u64, word: u64) -> Option<()>;
}

/// Where a function keeps its return address, and where its caller's frame begins: both from the
/// end of its own frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnSlot {
    offset: i64,
    beyond: u64,
}

impl ReturnSlot {
    /// x86-64: the call has pushed the return address, which the frame's size does not count.
    pub const X86_64: Self = Self { offset: 0, beyond: 8 };
    /// 64-bit PowerPC: in the third word of the caller's frame.
    pub const POWERPC64: Self = Self {
        offset: 16,
        beyond: 0,
    };

    /// The return address is `offset` bytes from the frame's end; the caller's stack pointer is
    /// `beyond` bytes from it.
    #[must_use]
    pub const fn new(offset: i64, beyond: u64) -> Self {
        Self { offset, beyond }
    }
}

/// A root: a word of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Root {
    /// Bytes from the stack pointer at the safepoint.
    pub offset: i32,
    /// What it holds.
    pub kind: RootKind,
    /// The word holds a pointer into the object that this word of the frame refers to.
    pub base: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    pc: CodeAddr,
    frame: StackSize,
    first: u32,
    count: u32,
}

/// The safepoints of any number of maps, by address.
#[derive(Clone, Debug, Default)]
pub struct Safepoints {
    /// Sorted by address.
    rows: Vec<Row>,
    roots: Vec<Root>,
    globals: Vec<CodeAddr>,
}

impl Safepoints {
    /// The safepoints of a plimmix map.
    ///
    /// # Errors
    /// [`Error::SafepointTwice`].
    pub fn from_gc_map(map: &GcMap<'_>) -> Result<Self> {
        let mut table = Self::default();
        for function in map.functions() {
            let roots = table.keep(function.roots().map(|root| Root {
                offset: root.offset,
                kind: root.kind,
                base: None,
            }));
            let frame = function.stack_size();
            table
                .rows
                .extend(function.safepoints().map(|pc| row(pc, frame, &roots)));
        }
        table.globals.extend(map.globals());
        table.sorted()
    }

    /// The statepoints of stack maps: of version 2 or 3, whose references LLVM has spilled into the
    /// frame, with addresses from the stack pointer, which is register `sp`. `entry` gives a
    /// function's first instruction for the address in the map: the address itself but on PowerPC
    /// ELFv1, where the map has that of a descriptor. Functions for which it gives `None` are left
    /// out.
    ///
    /// # Errors
    /// [`Error::SafepointRoot`] for a reference in another place, [`Error::SafepointAddress`], [`Error::SafepointTwice`].
    pub fn from_statepoints(
        maps: &StackMaps<'_>,
        sp: DwarfReg,
        entry: impl Fn(CodeAddr) -> Option<CodeAddr>,
    ) -> Result<Self> {
        let mut table = Self::default();
        for map in maps.maps() {
            table.add(map, sp, &entry)?;
        }
        table.sorted()
    }

    fn add(
        &mut self,
        map: &StackMap<'_>,
        sp: DwarfReg,
        entry: impl Fn(CodeAddr) -> Option<CodeAddr>,
    ) -> Result<()> {
        for function in map.functions() {
            let (Some(start), Some(records)) = (entry(CodeAddr::new(function.address())), function.records())
            else {
                continue;
            };
            for record in records {
                let Some(statepoint) = Statepoint::of(&record, map.constants()) else {
                    continue;
                };
                let outside = || Error::SafepointAddress {
                    function: start,
                    offset: record.offset(),
                };
                let pc = start.at(record.offset()).ok_or_else(outside)?;
                let roots = references(&statepoint, &record, sp)?;
                let roots = self.keep(roots.into_iter());
                self.rows.push(row(pc, function.stack_size(), &roots));
            }
        }
        Ok(())
    }

    fn keep(&mut self, roots: impl Iterator<Item = Root>) -> Range<usize> {
        let first = self.roots.len();
        self.roots.extend(roots);
        first..self.roots.len()
    }

    fn sorted(mut self) -> Result<Self> {
        self.rows.sort_by_key(|row| row.pc);
        let twice = |pair: &[Row]| match pair {
            [one, other] if one.pc == other.pc => Some(one.pc),
            _ => None,
        };
        match self.rows.windows(2).find_map(twice) {
            Some(pc) => Err(Error::SafepointTwice { pc }),
            None => Ok(self),
        }
    }

    /// Adds the safepoints and globals of another table, of other code.
    ///
    /// # Errors
    /// [`Error::SafepointTwice`]; nothing has been added then.
    pub fn merged(&self, other: &Self) -> Result<Self> {
        let mut table = self.clone();
        let by = table.roots.len() as u32;
        table.roots.extend(&other.roots);
        table.rows.extend(other.rows.iter().map(|row| Row {
            first: row.first + by,
            ..*row
        }));
        table.globals.extend(&other.globals);
        table.sorted()
    }

    /// How many safepoints there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The addresses of global variables that may hold references.
    #[must_use]
    pub fn globals(&self) -> &[CodeAddr] {
        &self.globals
    }

    /// The safepoint at an address: that of the instruction after a call.
    #[must_use]
    pub fn at(&self, pc: CodeAddr) -> Option<Safepoint<'_>> {
        let index = self.rows.binary_search_by_key(&pc, |row| row.pc).ok()?;
        let row = self.rows.get(index)?;
        let first = row.first as usize;
        let roots = self.roots.get(first..first + row.count as usize)?;
        Some(Safepoint {
            pc,
            frame: row.frame,
            roots,
        })
    }

    /// The frames of a stack, from that of the function whose safepoint is `pc` and whose stack
    /// pointer there is `sp`, outwards. Ends at the first address that is no safepoint of this
    /// table, see [`Frames::outside`].
    #[must_use]
    pub fn walk(&self, pc: CodeAddr, sp: u64, slot: ReturnSlot) -> Frames<'_> {
        Frames {
            table: self,
            pc,
            sp: Some(sp),
            slot,
        }
    }
}

fn row(pc: CodeAddr, frame: StackSize, roots: &Range<usize>) -> Row {
    Row {
        pc,
        frame,
        first: roots.start as u32,
        count: roots.len() as u32,
    }
}

/// The references of a statepoint as roots: each base once, and each pointer derived from it.
fn references(statepoint: &Statepoint<'_>, record: &Record<'_>, sp: DwarfReg) -> Result<Vec<Root>> {
    let refused = |location: Location| Error::SafepointRoot {
        id: record.id(),
        offset: record.offset(),
        location,
    };
    // A null reference is a constant: nothing to visit.
    let slot = |location: Location| match location.kind {
        LocationKind::Indirect { reg, offset } if reg == sp => Ok(Some(offset)),
        LocationKind::Constant { .. } | LocationKind::ConstantIndex { .. } => Ok(None),
        _ => Err(refused(location)),
    };
    let mut roots = Vec::new();
    let mut add = |root: Root| {
        if !roots.contains(&root) {
            roots.push(root);
        }
    };
    for pair in statepoint.references() {
        let (Some(base), Some(derived)) = (slot(pair.base)?, slot(pair.derived)?) else {
            continue;
        };
        add(pointer(base, None));
        if derived != base {
            add(pointer(derived, Some(base)));
        }
    }
    for location in statepoint.slots() {
        match location.kind {
            LocationKind::Direct { reg, offset } if reg == sp => add(pointer(offset, None)),
            _ => return Err(refused(location)),
        }
    }
    Ok(roots)
}

fn pointer(offset: i32, base: Option<i32>) -> Root {
    Root {
        offset,
        kind: RootKind::Pointer,
        base,
    }
}

/// A safepoint of the table.
#[derive(Clone, Copy, Debug)]
pub struct Safepoint<'t> {
    pc: CodeAddr,
    frame: StackSize,
    roots: &'t [Root],
}

/// Iterates over the roots of a safepoint.
pub type Roots<'t> = core::iter::Copied<core::slice::Iter<'t, Root>>;

impl<'t> Safepoint<'t> {
    /// Its address.
    #[must_use]
    pub fn pc(&self) -> CodeAddr {
        self.pc
    }

    /// The size of the frame in bytes.
    #[must_use]
    pub fn stack_size(&self) -> StackSize {
        self.frame
    }

    /// The roots of the frame.
    pub fn roots(&self) -> Roots<'t> {
        self.roots.iter().copied()
    }
}

/// The frames of a stack. See [`Safepoints::walk`].
#[derive(Clone, Debug)]
pub struct Frames<'t> {
    table: &'t Safepoints,
    pc: CodeAddr,
    /// `None` once a frame's end is unknown.
    sp: Option<u64>,
    slot: ReturnSlot,
}

impl<'t> Frames<'t> {
    /// The next frame. The memory is only borrowed for this, so that roots can be written in
    /// between.
    ///
    /// # Errors
    /// [`Error::SafepointStack`] where the stack cannot be read, and [`Error::SafepointFrame`] where the frame's size is not fixed, so that its caller
    /// cannot be found: both after the frame itself has been returned.
    pub fn next(&mut self, memory: &impl StackMemory) -> Result<Option<SafepointFrame<'t>>> {
        let Some(safepoint) = self.table.at(self.pc) else {
            return Ok(None);
        };
        let sp = self.sp.ok_or(Error::SafepointFrame { pc: self.pc })?;
        let StackSize::Known(size) = safepoint.frame else {
            self.sp = None;
            return Ok(Some(SafepointFrame { safepoint, sp }));
        };
        let stack = |addr| Error::SafepointStack { pc: self.pc, addr };
        let end = sp.checked_add(size).ok_or_else(|| stack(sp))?;
        let slot = end
            .checked_add_signed(self.slot.offset)
            .ok_or_else(|| stack(end))?;
        let caller = memory.read(slot).ok_or_else(|| stack(slot))?;
        self.sp = Some(end.checked_add(self.slot.beyond).ok_or_else(|| stack(end))?);
        self.pc = CodeAddr::new(caller);
        Ok(Some(SafepointFrame { safepoint, sp }))
    }

    /// The address at which walking goes on or has ended: a return address into code that the table
    /// does not know.
    #[must_use]
    pub fn outside(&self) -> CodeAddr {
        self.pc
    }

    /// The stack pointer that belongs to [`outside`](Self::outside).
    #[must_use]
    pub fn stack_pointer(&self) -> Option<u64> {
        self.sp
    }
}

/// A frame that was found by walking.
#[derive(Clone, Copy, Debug)]
pub struct SafepointFrame<'t> {
    safepoint: Safepoint<'t>,
    sp: u64,
}

impl<'t> SafepointFrame<'t> {
    /// The safepoint at which its function is.
    #[must_use]
    pub fn safepoint(&self) -> Safepoint<'t> {
        self.safepoint
    }

    /// Its stack pointer.
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        self.sp
    }

    fn addr(&self, offset: i32) -> Result<u64> {
        let pc = self.safepoint.pc;
        let addr = self.sp.checked_add_signed(i64::from(offset));
        addr.ok_or(Error::SafepointStack { pc, addr: self.sp })
    }

    fn word(&self, offset: i32, memory: &impl StackMemory) -> Result<u64> {
        let (pc, addr) = (self.safepoint.pc, self.addr(offset)?);
        memory.read(addr).ok_or(Error::SafepointStack { pc, addr })
    }

    /// The word of a root.
    ///
    /// # Errors
    /// [`Error::SafepointStack`].
    pub fn read(&self, root: Root, memory: &impl StackMemory) -> Result<u64> {
        self.word(root.offset, memory)
    }

    /// Replaces each root by what `moved` says of it; a derived pointer keeps its distance from its
    /// base. `moved` is asked once per base.
    ///
    /// # Errors
    /// [`Error::SafepointStack`]: nothing has been written if a word could not be read; if one could not be written, those before it have been.
    pub fn update(
        &self,
        memory: &mut impl StackMemory,
        mut moved: impl FnMut(Root, u64) -> u64,
    ) -> Result<()> {
        let mut new: Vec<(Root, u64, u64)> = Vec::with_capacity(self.safepoint.roots.len());
        for root in self.safepoint.roots() {
            let old = self.read(root, memory)?;
            // The base of a derived pointer comes before it.
            let base = root
                .base
                .and_then(|base| new.iter().find(|(root, ..)| root.offset == base));
            let word = match base {
                Some((_, from, to)) => to.wrapping_add(old.wrapping_sub(*from)),
                None => moved(root, old),
            };
            new.push((root, old, word));
        }
        let pc = self.safepoint.pc;
        for (root, _, word) in new {
            let addr = self.addr(root.offset)?;
            memory
                .write(addr, word)
                .ok_or(Error::SafepointStack { pc, addr })?;
        }
        Ok(())
    }
}
