//! The vocabulary.

#![allow(
    unsafe_code,
    reason = "addresses and bytes that nobody can check are promises"
)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::{OnReturn, RegSet};
use smallvec::SmallVec;

use super::operand::{Field, Mem, Operand, Source, Target};
use super::outline::Outline;
use crate::op::Bits;
use crate::op::{Cond, Label};

/// One operation, unresolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    /// Goes to the target if the condition holds.
    Branch {
        cond: Cond,
        lhs: Source,
        rhs: Source,
        target: Target,
    },
    Move {
        dst: Operand,
        src: Source,
    },
    Store {
        to: Mem,
        src: Source,
    },
    Add {
        dst: Operand,
        src: Source,
    },
    Bits {
        dst: Operand,
        what: Bits,
    },
    AddToMem {
        to: Mem,
        src: Source,
        atomic: bool,
    },
    Jump(Target),
    Call {
        addr: CodeAddr,
        on_return: OnReturn,
    },
    Return,
    Trap,
    Raw(Vec<u8>),
    Vouched {
        bytes: Vec<u8>,
        writes: RegSet,
    },
    Bind(Label),
}

/// What a runtime asks for at a site: operations in order. Behind the last one the code goes on at
/// the end of the site.
///
/// Building cannot fail; whether the operations can be had at a site is found when it is assembled
/// for it. A clone shares the operations.
#[derive(Clone, Default)]
pub struct Sequence {
    body: Arc<Body>,
}

#[derive(Clone, Default)]
struct Body {
    /// There is room for those of an inline cache with one guard.
    operations: SmallVec<[Operation; 2]>,
    in_place_only: bool,
    /// Of all operations: who patches the same sequence into many sites reads it once.
    outline: Outline,
}

impl PartialEq for Sequence {
    fn eq(&self, other: &Self) -> bool {
        let both =
            || (self.operations(), self.is_in_place_only()) == (other.operations(), other.is_in_place_only());
        self.is_same(other) || both()
    }
}

impl Eq for Sequence {}

impl Hash for Sequence {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.operations(), self.is_in_place_only()).hash(state);
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequence")
            .field("operations", &self.operations())
            .field("in_place_only", &self.is_in_place_only())
            .finish()
    }
}

impl Sequence {
    /// Whether it branches to that target.
    #[must_use]
    pub fn uses(&self, target: Target) -> bool {
        match target {
            // No call goes there.
            Target::Miss | Target::Deopt => self.body.outline.targets.contains(&target),
            Target::End | Target::Label(_) | Target::Addr(_) => {
                self.operations().iter().any(|operation| match operation {
                    Operation::Branch { target: to, .. } | Operation::Jump(to) => *to == target,
                    _ => false,
                })
            }
        }
    }

    /// Whether it refuses to be put into a stub.
    #[inline]
    #[must_use]
    pub fn is_in_place_only(&self) -> bool {
        self.body.in_place_only
    }

    /// Whether it shares its operations with the other.
    #[inline]
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.body, &other.body)
    }

    /// Whether it stores through a register that it names.
    #[must_use]
    pub fn stores_through(&self, reg: DwarfReg) -> bool {
        self.operations().iter().any(|operation| match operation {
            Operation::Store { to, .. } | Operation::AddToMem { to, .. } => to.base == Operand::Reg(reg),
            _ => false,
        })
    }

    #[inline]
    pub(super) fn operations(&self) -> &[Operation] {
        &self.body.operations
    }

    /// What it is without its values.
    #[inline]
    #[must_use]
    pub fn outline(&self) -> &Outline {
        &self.body.outline
    }

    /// A sequence that does nothing: only nops.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn push(mut self, operation: Operation) -> Self {
        let body = Arc::make_mut(&mut self.body);
        body.outline.add(&operation);
        body.operations.push(operation);
        self
    }

    fn set_in_place_only(&mut self, only: bool) {
        let body = Arc::make_mut(&mut self.body);
        body.in_place_only = only;
        body.outline.in_place_only(only);
    }

    /// Refuses to be put into a stub where the reserved bytes do not suffice.
    #[must_use]
    pub fn in_place_only(mut self) -> Self {
        self.set_in_place_only(true);
        self
    }

    /// The same sequence, which may be put into a stub.
    #[must_use]
    pub fn anywhere(&self) -> Self {
        let mut sequence = self.clone();
        if sequence.is_in_place_only() {
            sequence.set_in_place_only(false);
        }
        sequence
    }

    /// Goes on only if `cond` holds between the two values, else to `target`.
    ///
    /// The width of the comparison is that of a side that names one (`u32::at`, `u32::of`), else
    /// the size of a location, else 8 bytes. Where an 8-byte value in memory is compared with a
    /// constant that no immediate can hold and no register is free, it is read in two halves.
    #[must_use]
    pub fn guard(
        self,
        cond: Cond,
        lhs: impl Into<Source>,
        rhs: impl Into<Source>,
        target: impl Into<Target>,
    ) -> Self {
        self.jump_if(cond.negated(), lhs, rhs, target)
    }

    /// Goes on only if the two values are equal, else to `target`.
    #[must_use]
    pub fn guard_eq(self, lhs: impl Into<Source>, rhs: impl Into<Source>, target: impl Into<Target>) -> Self {
        self.guard(Cond::Eq, lhs, rhs, target)
    }

    /// Goes on only if the two values differ, else to `target`.
    #[must_use]
    pub fn guard_ne(self, lhs: impl Into<Source>, rhs: impl Into<Source>, target: impl Into<Target>) -> Self {
        self.guard(Cond::Ne, lhs, rhs, target)
    }

    /// Goes to `target` if `cond` holds between the two values, else on. See
    /// [`guard`](Self::guard).
    #[must_use]
    pub fn jump_if(
        self,
        cond: Cond,
        lhs: impl Into<Source>,
        rhs: impl Into<Source>,
        target: impl Into<Target>,
    ) -> Self {
        self.push(Operation::Branch {
            cond,
            lhs: lhs.into(),
            rhs: rhs.into(),
            target: target.into(),
        })
    }

    /// Loads memory into `dst`, extended to all of it with zeros (`u8::at` and so on) or with the
    /// sign (`i8::at`). `dst` is the result or a register that is free at the site.
    #[must_use]
    pub fn load(self, dst: impl Into<Operand>, mem: Mem) -> Self {
        self.mov(dst, mem)
    }

    /// Writes a value to memory.
    #[must_use]
    pub fn store(self, to: Mem, src: impl Into<Source>) -> Self {
        self.push(Operation::Store { to, src: src.into() })
    }

    /// Writes a value to `dst`, which is the result or a register that is free at the site.
    #[must_use]
    pub fn mov(self, dst: impl Into<Operand>, src: impl Into<Source>) -> Self {
        self.push(Operation::Move {
            dst: dst.into(),
            src: src.into(),
        })
    }

    /// Adds a value to `dst`, which is the result, written before, or a register that is free at
    /// the site.
    #[must_use]
    pub fn add(self, dst: impl Into<Operand>, src: impl Into<Source>) -> Self {
        self.push(Operation::Add {
            dst: dst.into(),
            src: src.into(),
        })
    }

    fn bits(self, dst: impl Into<Operand>, what: Bits) -> Self {
        self.push(Operation::Bits {
            dst: dst.into(),
            what,
        })
    }

    /// Clears the bits of `dst` that `mask` has not. `dst` is the result, written before, or a
    /// register that is free at the site, as of the shifts.
    #[must_use]
    pub fn and(self, dst: impl Into<Operand>, mask: u64) -> Self {
        self.bits(dst, Bits::And(mask))
    }

    /// Shifts all of `dst` to the left by `by` bits, 0 to 63; zeros come in.
    #[must_use]
    pub fn shift_left(self, dst: impl Into<Operand>, by: u8) -> Self {
        self.bits(dst, Bits::Left(by))
    }

    /// Shifts all of `dst` to the right by `by` bits, 0 to 63; zeros come in.
    #[must_use]
    pub fn shift_right(self, dst: impl Into<Operand>, by: u8) -> Self {
        self.bits(dst, Bits::Right(by))
    }

    /// Shifts all of `dst` to the right by `by` bits, 0 to 63; copies of its sign come in.
    #[must_use]
    pub fn shift_right_signed(self, dst: impl Into<Operand>, by: u8) -> Self {
        self.bits(dst, Bits::RightSigned(by))
    }

    /// Adds a value to memory. Other threads may lose or see half of it.
    #[must_use]
    pub fn add_to_memory(self, to: Mem, src: impl Into<Source>) -> Self {
        self.push(Operation::AddToMem {
            to,
            src: src.into(),
            atomic: false,
        })
    }

    /// Adds a value to memory, atomically.
    #[must_use]
    pub fn atomic_add(self, to: Mem, src: impl Into<Source>) -> Self {
        self.push(Operation::AddToMem {
            to,
            src: src.into(),
            atomic: true,
        })
    }

    /// Adds 1 to the 64-bit counter at a fixed address. Other threads that count there may be lost.
    #[must_use]
    pub fn count(self, counter: CodeAddr) -> Self {
        self.add_to_memory(<u64 as Field>::at(counter, 0), 1u64)
    }

    /// Adds 1 to the 64-bit counter at a fixed address, atomically.
    #[must_use]
    pub fn atomic_count(self, counter: CodeAddr) -> Self {
        self.atomic_add(<u64 as Field>::at(counter, 0), 1u64)
    }

    /// Calls `addr`. Only patchpoints allow calls; a function that follows the C convention can be
    /// called only where that convention is the site's. As the last operation the call returns to
    /// the end of the site.
    ///
    /// # Safety
    ///
    /// As long as the sequence may be executed at a site, there is a function at `addr` that can be
    /// called there: with the arguments that the site passes, and what the sequence has changed of
    /// them. It leaves registers and stack as `on_return` says.
    #[must_use]
    pub unsafe fn call(self, addr: CodeAddr, on_return: OnReturn) -> Self {
        self.call_to(addr, on_return)
    }

    /// The same for who has that promise from its caller.
    pub(super) fn call_to(self, addr: CodeAddr, on_return: OnReturn) -> Self {
        self.push(Operation::Call { addr, on_return })
    }

    /// Jumps.
    #[must_use]
    pub fn jump(self, target: impl Into<Target>) -> Self {
        self.push(Operation::Jump(target.into()))
    }

    /// Returns from the function: at entry sites, where its frame is not set up yet.
    #[must_use]
    pub fn ret(self) -> Self {
        self.push(Operation::Return)
    }

    /// Stops with the exception of an invalid instruction.
    #[must_use]
    pub fn trap(self) -> Self {
        self.push(Operation::Trap)
    }

    /// Bytes as they are: machine code that may be at any address and that goes on behind its
    /// end. It is checked like anything else before it is written.
    #[must_use]
    pub fn raw(self, bytes: &[u8]) -> Self {
        self.push(Operation::Raw(bytes.into()))
    }

    /// Bytes that are not decoded, for instructions that the checker does not know. All of the rest
    /// is checked as ever: that the registers that they write may be written here, that nothing
    /// branches into the bytes, and everything around them.
    ///
    /// # Safety
    ///
    /// The bytes are whole instructions which may be at any address, go on behind their end,
    /// leave the stack pointer and the processor's modes alone, write no stack below the stack
    /// pointer, and write no registers but `writes` and the flags of arithmetic.
    #[must_use]
    pub unsafe fn vouched(self, bytes: &[u8], writes: &[DwarfReg]) -> Self {
        self.vouched_for(bytes, writes)
    }

    /// The same for who has that promise from its caller.
    pub(super) fn vouched_for(self, bytes: &[u8], writes: &[DwarfReg]) -> Self {
        self.push(Operation::Vouched {
            bytes: bytes.into(),
            writes: RegSet::of(writes),
        })
    }

    /// The position that branches to `label` go to.
    #[must_use]
    pub fn bind(self, label: Label) -> Self {
        self.push(Operation::Bind(label))
    }
}
