//! What the rules need to know of one instruction and of one architecture. A decoder per
//! architecture fills them.

use alloc::string::String;
use core::ops::{Range, RangeInclusive};

use llvm_stackmaps::addr::{CodeRange, DwarfReg};
use patchpoint_isa::RegSet;
use smallvec::SmallVec;

use super::chunk::Chunk;
use super::field::OpenField;

/// Where control goes after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// To the next instruction.
    Next,
    /// Always to the destination.
    Jump(Dest),
    /// To the destination or to the next instruction.
    Branch(Dest),
    /// To the destination, which may return to the next instruction.
    Call(Dest),
    /// To the caller, which finds its stack as it left it if `plain`.
    Return { plain: bool },
    /// To a fault handler, never to the next instruction.
    Trap,
}

/// Where a branch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dest {
    /// To this address.
    Address(u64),
    /// To the address in this register.
    Register(DwarfReg),
    /// To an address that is read from memory, or by a mechanism that is not understood.
    Unknown,
}

/// What an instruction does to the stack pointer. A call counts with its return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StackPointer {
    Keep,
    /// Adds so many bytes.
    Add(i64),
    /// Makes it something that cannot be followed.
    Lost,
}

/// What an instruction writes in memory that is addressed by the stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StackStore {
    None,
    /// From and to (exclusive), in bytes from the stack pointer before the instruction.
    Range(i64, i64),
    /// `size` bytes from the stack pointer, `disp` and the index on: a distance beyond what an
    /// instruction can say.
    #[allow(dead_code, reason = "x86-64 and RISC-V say every distance otherwise")]
    Indexed {
        index: DwarfReg,
        disp: i64,
        size: i64,
    },
    /// At an offset that is not a constant.
    Anywhere,
}

/// How a register comes to hold a constant.
#[allow(dead_code, reason = "x86-64 loads constants by one instruction")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Constant {
    /// The register becomes this value.
    Is(DwarfReg, u64),
    /// `to` becomes what the step makes of the constant in `from`, if one is certain to be there.
    Of { to: DwarfReg, from: DwarfReg, step: Step },
}

/// What is done to a constant. Architectures build long ones by several instructions.
#[allow(dead_code, reason = "each architecture needs some of them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Adds, modulo 2^64.
    Add(i64),
    /// Adds, and extends the sign of the low 32 bits.
    AddWord(i64),
    /// Rotates to the left by so many bits, then keeps the bits of the mask: shifts, too.
    Rotate { left: u32, keep: u64 },
    /// Keeps the bits of the mask and sets those of `bits`.
    Insert { keep: u64, bits: u64 },
}

impl Step {
    /// The constant after the step.
    pub(super) const fn apply(self, value: u64) -> u64 {
        match self {
            Self::Add(by) => value.wrapping_add_signed(by),
            Self::AddWord(by) => value.wrapping_add_signed(by) as i32 as u64,
            Self::Rotate { left, keep } => value.rotate_left(left) & keep,
            Self::Insert { keep, bits } => value & keep | bits,
        }
    }
}

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Its address.
    pub(super) addr: u64,
    /// Its length in bytes.
    pub(super) len: u8,
    /// Does nothing, and is of the forms meant for that.
    pub(super) nop: bool,
    /// For code that can be returned into before its end: how many bytes from its start. Calls
    /// without return to their end.
    pub(super) returns_at: Option<u8>,
    /// Where the unit starts to which this instruction belongs, unless it is its first: nobody else
    /// branches here.
    pub(super) unit: Option<u64>,
    pub(super) flow: Flow,
    /// Every register that it may write in part or whole, without the stack pointer and flags.
    pub(super) writes: RegSet,
    /// May change flags of arithmetic that are in no register which can be named.
    pub(super) flags: bool,
    pub(super) stack: StackPointer,
    pub(super) store: StackStore,
    /// The register that becomes a constant, or stays one.
    pub(super) constant: Option<Constant>,
    /// Why no sequence may execute it.
    pub(super) refused: Option<&'static str>,
}

/// The rule of architectures where a trap may replace every instruction that is executed at that
/// moment.
pub(super) const fn any_instruction(_: &[u8]) -> Result<(), &'static str> {
    Ok(())
}

impl Facts {
    /// Whether nothing of the instruction may be open in a template.
    pub(super) fn is_closed(&self) -> bool {
        self.nop || self.stack != StackPointer::Keep || self.store != StackStore::None
    }

    /// Bytes that are not decoded, as one unit: its pieces are as long as a length can say.
    pub(super) fn vouched(range: CodeRange, writes: RegSet) -> impl Iterator<Item = Self> {
        let (start, end) = (range.start().get(), range.end().get());
        (start..end).step_by(u8::MAX.into()).map(move |addr| Self {
            addr,
            len: (end - addr).min(u8::MAX.into()) as u8,
            nop: false,
            returns_at: None,
            unit: (addr != start).then_some(start),
            flow: Flow::Next,
            writes,
            flags: false,
            stack: StackPointer::Keep,
            store: StackStore::None,
            constant: None,
            refused: None,
        })
    }

    /// The address after it.
    pub(super) const fn end(&self) -> u64 {
        self.addr.wrapping_add(self.len as u64)
    }

    /// The address to which a call returns, or a thread may return where it does nothing for
    /// others.
    pub(super) const fn return_address(&self) -> u64 {
        match self.returns_at {
            Some(at) => self.addr.wrapping_add(at as u64),
            None => self.end(),
        }
    }
}

/// Why bytes do not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Undecodable {
    /// The address of the instruction.
    pub(super) addr: u64,
    /// The instruction is cut off by the end; otherwise there is no such instruction.
    pub(super) cut_off: bool,
}

/// The instructions of code. Those of most sites and stubs take no memory of their own: a kilobyte is more
/// than allocators are quick for, and was 400 instructions of a patch's 19,500.
pub(super) type DecodedCode = SmallVec<[Facts; 8]>;

/// Decodes all bytes at an address.
pub(super) type Decode = fn(u64, &[u8], &mut DecodedCode) -> Result<(), Undecodable>;

/// The target and the length of the call with which bytes at an address begin.
pub(super) type PatchpointCall = fn(u64, &[u8]) -> Option<(u64, u32)>;

/// Of two instructions and their bytes: what they are if they call or jump together, and where they
/// target.
pub(super) type Pair = fn(&Facts, &Facts, &[u8]) -> Option<(Sort, u64)>;

/// Of code, given which addresses are targets: its fields.
pub(super) type Fields = fn(Chunk<'_>, &dyn Fn(u64) -> bool) -> Option<SmallVec<[OpenField; 4]>>;

/// Where an exchange of two instructions, which was found to be allowed, is allowed at other sites.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExchangePlace {
    /// At this address, as far as it matters: what is left of it by `unit`, a power of two.
    pub(super) unit: u64,
    pub(super) remainder: u64,
    /// Whether the two have to differ in nothing but where they jump.
    pub(super) jumps_only: bool,
}

impl ExchangePlace {
    /// At multiples of that.
    pub(super) const fn multiples_of(unit: u64) -> Self {
        Self {
            unit,
            remainder: 0,
            jumps_only: false,
        }
    }

    /// Whether an address is one of these.
    #[inline]
    pub(super) const fn has(&self, addr: u64) -> bool {
        addr & (self.unit - 1) == self.remainder
    }
}

/// An architecture: its decoder, and the conventions that its sites are bound to.
pub(super) struct Isa {
    /// Appends the instructions of all bytes, which start at the address and do not wrap around.
    pub(super) decode: Decode,
    /// The first instruction of the bytes at the address, as text, with its length; `None` if it
    /// does not decode.
    pub(super) text: fn(u64, &[u8], &mut String) -> Option<usize>,
    /// What LLVM emits as the call of a patchpoint, before the nops.
    pub(super) patchpoint_call: PatchpointCall,
    /// The name of a register.
    pub(super) register: fn(DwarfReg) -> Option<&'static str>,
    /// The instruction that traps and is no longer than any other.
    pub(super) trap: &'static [u8],
    /// Whether the first of these instructions, which are in a shadow, may become the trap under
    /// execution; if not, why.
    pub(super) trap_replaces: fn(&[u8]) -> Result<(), &'static str>,
    /// Whether a thread that returns to a return offset has to find code that was made for it, not
    /// just nops.
    pub(super) return_offsets_restore: bool,
    /// Whether one instruction may become another under execution; if not, why.
    pub(super) exchange: fn(&Exchange<'_>) -> Result<(), &'static str>,
    /// Where that depends on nothing but what the two instructions are, and not on where a branch
    /// goes: inside of one quadword.
    pub(super) exchange_place: ExchangePlace,
    /// Which bits of a direct call or jump of so many bytes are its distance.
    pub(super) distance: fn(usize) -> Option<&'static [u8]>,
    /// What two instructions with these bytes are that together call or jump, and their target.
    pub(super) pair: Pair,
    /// The target of a stub by which a call leaves for a function of other conventions, if it does
    /// just that.
    pub(super) leaving: fn(u64, &[u8]) -> Option<u64>,
    /// The offset of the first instruction on vectors of unknown length.
    pub(super) scalable: fn(&[u8]) -> Option<usize>,
    /// The fields of code that may vary, in their order, given which addresses are targets; `None`
    /// for code that can have none.
    pub(super) fields: Fields,
    pub(super) abi: Abi,
}

/// How a call site is retargeted.
#[derive(PartialEq, Eq)]
pub(super) enum Sort {
    Call,
    Jump,
    Branch,
}

/// One instruction that becomes another while threads execute it: at the same address, of the same
/// length.
#[allow(dead_code, reason = "not every architecture needs all")]
pub(super) struct Exchange<'a> {
    pub(super) before: &'a Facts,
    pub(super) after: &'a Facts,
    /// Its bytes before.
    pub(super) old: &'a [u8],
    /// Its bytes afterwards.
    pub(super) new: &'a [u8],
    /// The addresses of the first and the last byte that differ.
    pub(super) differing: RangeInclusive<u64>,
}

/// The platform's C convention, and what LLVM reserves.
pub(super) struct Abi {
    /// Registers that a location or live-out can name.
    pub(super) known: RegSet,
    /// Further numbers: those of the parts of registers 0, 1, 2 and so on.
    pub(super) parts: Range<u16>,
    /// The registers that LLVM keeps free at patchpoints and stackmaps, which calls may lose.
    pub(super) scratch: RegSet,
    /// The registers that are free at `anyregcc` patchpoints.
    pub(super) scratch_at_any_reg: RegSet,
    /// The registers that are free at the first instruction of a function.
    pub(super) scratch_at_entry: RegSet,
    /// What every call loses, also one of a target that preserves all registers.
    pub(super) lost_in_any_call: RegSet,
    pub(super) callee_saved: RegSet,
    /// The stack and frame pointers.
    pub(super) frame: RegSet,
    /// The registers in which a C patchpoint's one result may be.
    pub(super) result: RegSet,
    /// All registers in which a C function may return.
    pub(super) returned: RegSet,
    /// Bytes below the stack pointer that belong to the function.
    pub(super) red_zone: i64,
    /// Bytes above the stack pointer at a function's entry that hold the return address.
    pub(super) return_address: i64,
    /// The alignment of the stack pointer at a call, in bytes.
    pub(super) stack_align: i64,
    /// Live-outs can name a register that LLVM does not number, as 65535.
    pub(super) unnumbered_live_outs: bool,
}

impl Abi {
    /// The whole register that this number names, or a part of which it names.
    #[inline]
    pub(super) fn whole(&self, reg: DwarfReg) -> DwarfReg {
        match self.parts.contains(&reg.get()) {
            true => DwarfReg::new(reg.get() - self.parts.start),
            false => reg,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Step;

    #[test]
    fn steps_build_constants() {
        let value = 0x8765_4321;
        assert_eq!(Step::Add(-1).apply(0), u64::MAX);
        assert_eq!(Step::AddWord(1).apply(0x7fff_ffff), 0xffff_ffff_8000_0000);
        assert_eq!(Step::AddWord(0).apply(value), 0xffff_ffff_8765_4321);
        let left = Step::Rotate {
            left: 32,
            keep: !0 << 32,
        };
        assert_eq!(left.apply(0x1_0000_0000 | value), value << 32);
        let insert = Step::Insert {
            keep: !0xffff_0000,
            bits: 0x1234_0000,
        };
        assert_eq!(insert.apply(value), 0x1234_4321);
    }
}
