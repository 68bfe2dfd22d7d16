//! 64-bit PowerPC: a decoder of the instructions that the rules allow, turned into [`Facts`].
//!
//! Every word is one instruction, so all that is whole words decodes; what [`table`] does not list
//! is refused where a sequence would execute it. Listed are only instructions of which it is known
//! that they change registers and memory.
//!
//! # Calls
//!
//! A function may change r2, the TOC pointer, which belongs to the module. A call is therefore one
//! unit of several instructions, with the TOC pointer in its slot of the frame meanwhile, and no
//! other call and no other instruction that writes r2 is accepted:
//!
//! | ELFv2 | ELFv1 |
//! |---|---|
//! | `std r2,24(r1)` | `std r2,40(r1)` |
//! | | `ld r2,8(r12)`; `ld r12,0(r12)` |
//! | `mtctr r12`; `bctrl` | `mtctr r12`; `bctrl` |
//! | `ld r2,24(r1)` | `ld r2,40(r1)` |
//!
//! It returns before its last instruction. A thread that comes back to a site that was patched
//! meanwhile still has to restore r2: at such a return offset is `b .+8; ld r2,slot(r1)`, which
//! is a unit, too, and does nothing for those who come from above. So is the `ld` behind a `b` that
//! leaves, as to a stub. In original bytes there is also `bl` to a linker's stub, which
//! saves r2, with the restoring `ld` behind it.
//!
//! Condition field 0 can be kept in the link register, which is one unit, too: see [`kept`].
//!
//! Registers and conventions: 64-Bit ELF V2 ABI Specification 1.5, 2.2; 64-bit PowerPC ELF ABI
//! Supplement 1.9, 3.2. LLVM numbers registers as in `PPCRegisterInfo.td`.

mod branches;
mod decode;
mod kept;
mod open;
mod table;
mod text;

#[cfg(test)]
mod tests;

use alloc::string::String;

use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::RegSet;

use super::constants::Constants;
use super::facts::{
    Abi, DecodedCode, Dest, Exchange, ExchangePlace, Facts, Flow, Isa, StackPointer, StackStore, Undecodable,
    any_instruction,
};

pub(crate) static BIG_V1: Isa = Isa {
    decode: |addr, bytes, code| decode(&V1, addr, bytes, code),
    text: |addr, bytes, out| text(&V1, addr, bytes, out),
    patchpoint_call: |addr, bytes| patchpoint_call(&V1, addr, bytes),
    register,
    trap: &[0x7f, 0xe0, 0x00, 0x08],
    exchange,
    exchange_place: ExchangePlace::multiples_of(4),
    trap_replaces: any_instruction,
    return_offsets_restore: true,
    distance: |len| match len {
        4 => Some(&[0x03, 255, 255, 0xfc]),
        _ => None,
    },
    pair: |_, _, _| None,
    leaving: |addr, bytes| leaving(&V1, R11, &LEAVE_V1, addr, bytes),
    scalable: |_| None,
    fields: |code, is_target| {
        crate::open::fields(
            code,
            is_target,
            |addr, bytes, code| decode(&V1, addr, bytes, code),
            |facts, bytes| open::open(V1.read, facts, bytes),
        )
    },
    abi: Abi { red_zone: 288, ..ABI },
};

pub(crate) static BIG_V2: Isa = Isa {
    decode: |addr, bytes, code| decode(&V2_BIG, addr, bytes, code),
    text: |addr, bytes, out| text(&V2_BIG, addr, bytes, out),
    patchpoint_call: |addr, bytes| patchpoint_call(&V2_BIG, addr, bytes),
    register,
    trap: &[0x7f, 0xe0, 0x00, 0x08],
    exchange,
    exchange_place: ExchangePlace::multiples_of(4),
    trap_replaces: any_instruction,
    return_offsets_restore: true,
    distance: |len| match len {
        4 => Some(&[0x03, 255, 255, 0xfc]),
        _ => None,
    },
    pair: |_, _, _| None,
    leaving: |addr, bytes| leaving(&V2_BIG, R12, &LEAVE_V2, addr, bytes),
    scalable: |_| None,
    fields: |code, is_target| {
        crate::open::fields(
            code,
            is_target,
            |addr, bytes, code| decode(&V2_BIG, addr, bytes, code),
            |facts, bytes| open::open(V2_BIG.read, facts, bytes),
        )
    },
    abi: ABI,
};

pub(crate) static LITTLE: Isa = Isa {
    decode: |addr, bytes, code| decode(&V2, addr, bytes, code),
    text: |addr, bytes, out| text(&V2, addr, bytes, out),
    patchpoint_call: |addr, bytes| patchpoint_call(&V2, addr, bytes),
    register,
    trap: &[0x08, 0x00, 0xe0, 0x7f],
    exchange,
    exchange_place: ExchangePlace::multiples_of(4),
    trap_replaces: any_instruction,
    return_offsets_restore: true,
    distance: |len| match len {
        4 => Some(&[0xfc, 255, 255, 0x03]),
        _ => None,
    },
    pair: |_, _, _| None,
    leaving: |addr, bytes| leaving(&V2, R12, &LEAVE_V2, addr, bytes),
    scalable: |_| None,
    fields: |code, is_target| {
        crate::open::fields(
            code,
            is_target,
            |addr, bytes, code| decode(&V2, addr, bytes, code),
            |facts, bytes| open::open(V2.read, facts, bytes),
        )
    },
    abi: ABI,
};

/// ELFv1, big endian.
pub(crate) mod big_v1 {
    pub(crate) use super::BIG_V1 as ISA;
    pub(crate) use super::big_endian::branches;
}

/// ELFv2, big endian.
pub(crate) mod big_v2 {
    pub(crate) use super::BIG_V2 as ISA;
    pub(crate) use super::big_endian::branches;
}

/// ELFv2, little endian.
pub(crate) mod little {
    pub(crate) use super::LITTLE as ISA;

    /// Gives the offset of each instruction that branches, and its target.
    pub(crate) fn branches(start: u64, code: &[u8], _: &impl Fn(u64) -> bool, note: impl FnMut(usize, u64)) {
        crate::powerpc64::branches::branches(start, code, u32::from_le_bytes, note);
    }
}

mod big_endian {
    /// Gives the offset of each instruction that branches, and its target.
    pub(crate) fn branches(start: u64, code: &[u8], _: &impl Fn(u64) -> bool, note: impl FnMut(usize, u64)) {
        crate::powerpc64::branches::branches(start, code, u32::from_be_bytes, note);
    }
}

const fn reg(number: u16) -> DwarfReg {
    DwarfReg::new(number)
}

const fn range(first: u16, last: u16) -> RegSet {
    let mut set = RegSet::EMPTY;
    let mut number = first;
    while number <= last {
        set = set.with(reg(number));
        number += 1;
    }
    set
}

const R2: DwarfReg = reg(2);
const R11: DwarfReg = reg(11);
const R12: DwarfReg = reg(12);
const LR: DwarfReg = reg(65);
const CTR: DwarfReg = reg(66);
const XER: DwarfReg = reg(76);

/// The DWARF number of a condition field.
const fn field(number: u32) -> DwarfReg {
    reg(68 + (number & 7) as u16)
}

/// cr0, cr1, cr5 to cr7.
const VOLATILE_FIELDS: RegSet = range(68, 69).union(range(73, 75));

const ABI: Abi = Abi {
    known: range(0, 63).with(LR).with(CTR).union(range(68, 109)),
    // The 32-bit views of r0 to r31.
    parts: 1200..1232,
    scratch: RegSet::of(&[R12, LR, CTR]),
    scratch_at_any_reg: RegSet::of(&[reg(11), R12, LR, CTR, XER]),
    // Not r12, which holds the function's address, and not the link register.
    scratch_at_entry: RegSet::of(&[reg(11), CTR, XER]).union(VOLATILE_FIELDS),
    lost_in_any_call: RegSet::of(&[R12, LR, CTR]),
    // r14 to r31, f14 to f31, cr2 to cr4, v20 to v31, VRSAVE.
    callee_saved: range(14, 31)
        .union(range(46, 63))
        .union(range(70, 72))
        .union(range(97, 109)),
    // With the TOC and thread pointers.
    frame: RegSet::of(&[reg(1), R2, reg(13), reg(31)]),
    result: RegSet::of(&[reg(3), reg(33)]),
    returned: range(3, 10).union(range(33, 40)).with(reg(79)),
    red_zone: 512,
    // The back chain.
    return_address: 8,
    stack_align: 16,
    unnumbered_live_outs: false,
};

/// What depends on the convention and the order of bytes.
struct Convention {
    read: fn([u8; 4]) -> u32,
    /// The slot of r2 in the caller's frame.
    slot: u32,
    /// A call, from the first instruction that saves r2 to the one that restores it.
    call: &'static [u32],
}

/// `std r2,0(r1)`.
const SAVE: u32 = 0xf841_0000;
/// `ld r2,0(r1)`.
const RESTORE: u32 = 0xe841_0000;
/// `mtctr r12`, `bctrl`.
const ENTER: [u32; 2] = [0x7d89_03a6, 0x4e80_0421];
/// `mtctr r12; bctr`.
const LEAVE_V2: [u32; 2] = [ENTER[0], 0x4e80_0420];
/// `ld r12,0(r11); mtctr r12; ld r2,8(r11); ld r11,16(r11); bctr; trap`.
const LEAVE_V1: [u32; 6] = [
    0xe98b_0000,
    ENTER[0],
    0xe84b_0008,
    0xe96b_0010,
    0x4e80_0420,
    0x7fe0_0008,
];
/// `b .+8`.
const OVER: u32 = 0x4800_0008;
/// `ori r0,r0,0`.
const NOP: u32 = 0x6000_0000;

static V1: Convention = Convention {
    read: u32::from_be_bytes,
    slot: 40,
    // ld r2,8(r12); ld r12,0(r12)
    call: &[
        SAVE + 40,
        0xe84c_0008,
        0xe98c_0000,
        ENTER[0],
        ENTER[1],
        RESTORE + 40,
    ],
};

static V2: Convention = Convention {
    read: u32::from_le_bytes,
    slot: 24,
    call: &CALL_V2,
};

static V2_BIG: Convention = Convention {
    read: u32::from_be_bytes,
    slot: 24,
    call: &CALL_V2,
};

const CALL_V2: [u32; 4] = [SAVE + 24, ENTER[0], ENTER[1], RESTORE + 24];

impl Convention {
    fn words<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = u32> + use<'a, '_> {
        bytes
            .chunks_exact(4)
            .map(|word| (self.read)(word.try_into().expect("a chunk has four bytes")))
    }

    /// `b` or `bl` with `ld r2,slot(r1)` behind it, for those who return there: its word and
    /// target.
    fn restoring(&self, addr: u64, bytes: &[u8]) -> Option<(u32, u64)> {
        let mut words = self.words(bytes);
        let (branch, restore) = (words.next()?, words.next()?);
        let relative = branch & 0xfc00_0002 == 0x4800_0000 && restore == RESTORE + self.slot;
        let distance = ((branch & 0x03ff_fffc) << 6) as i32 >> 6;
        relative.then(|| (branch, addr.wrapping_add_signed(i64::from(distance))))
    }

    /// The target of `bl` to a linker's stub, which saves r2. A call without the restore is one to
    /// a function of the same module: who returns from that must not restore r2, as nobody saved
    /// it.
    fn linked_call(&self, addr: u64, bytes: &[u8]) -> Option<u64> {
        let (word, target) = self.restoring(addr, bytes)?;
        (word & 1 != 0).then_some(target)
    }

    fn starts_with(&self, bytes: &[u8], words: &[u32]) -> bool {
        bytes.len() >= words.len() * 4
            && self
                .words(bytes)
                .zip(words)
                .all(|(word, expected)| word == *expected)
    }
}

fn decode(
    convention: &Convention,
    addr: u64,
    bytes: &[u8],
    code: &mut DecodedCode,
) -> Result<(), Undecodable> {
    let first = code.len();
    let mut rest = bytes;
    let mut at = addr;
    while let Some((word, tail)) = rest.split_first_chunk::<4>() {
        let facts = if at % 4 != 0 {
            return Err(Undecodable {
                addr: at,
                cut_off: false,
            });
        } else if convention.starts_with(rest, convention.call) {
            call(at, convention.call.len())
        } else if let Some((word, target)) = convention.restoring(at, rest) {
            restoring(at, word, target)
        } else {
            decode::facts(at, (convention.read)(*word))
        };
        rest = rest.get(usize::from(facts.len)..).unwrap_or(tail);
        at = facts.end();
        code.push(facts);
    }
    let word = |at: u64| {
        let at = usize::try_from(at.wrapping_sub(addr)).ok()?;
        bytes.get(at..)?.first_chunk().copied().map(convention.read)
    };
    let new = code.get_mut(first..);
    kept::mark(
        new.expect("instructions were added behind those that were there"),
        word,
    );
    match rest {
        [] => Ok(()),
        _ => Err(Undecodable {
            addr: at,
            cut_off: true,
        }),
    }
}

/// The facts of something that does nothing.
fn nothing(addr: u64) -> Facts {
    Facts {
        addr,
        len: 4,
        nop: false,
        returns_at: None,
        unit: None,
        flow: Flow::Next,
        writes: RegSet::EMPTY,
        flags: false,
        stack: StackPointer::Keep,
        store: StackStore::None,
        constant: None,
        refused: None,
    }
}

fn call(addr: u64, words: usize) -> Facts {
    Facts {
        len: (words * 4) as u8,
        returns_at: Some((words * 4 - 4) as u8),
        // What it writes is what every call loses.
        flow: Flow::Call(Dest::Register(R12)),
        ..nothing(addr)
    }
}

/// A branch with the restore of r2 behind it, which only those execute who return there.
fn restoring(addr: u64, word: u32, target: u64) -> Facts {
    let facts = Facts {
        len: 8,
        returns_at: Some(4),
        ..nothing(addr)
    };
    match word {
        OVER => Facts { nop: true, ..facts },
        _ if word & 1 == 0 => Facts {
            flow: Flow::Jump(Dest::Address(target)),
            ..facts
        },
        _ => Facts {
            flow: Flow::Call(Dest::Address(target)),
            refused: Some("calls what may not save r2: save r2, call through r12 and CTR, and restore r2"),
            ..facts
        },
    }
}

fn text(convention: &Convention, addr: u64, bytes: &[u8], out: &mut String) -> Option<usize> {
    let word = bytes.first_chunk::<4>()?;
    text::write(addr, (convention.read)(*word), out);
    Some(4)
}

/// `li r12; rldic; oris; ori`, then the call, as LLVM's PPCAsmPrinter lowers PATCHPOINT; or what
/// the linker makes of its `bl` to a symbol.
fn patchpoint_call(convention: &Convention, addr: u64, bytes: &[u8]) -> Option<(u64, u32)> {
    if let Some(target) = convention.linked_call(addr, bytes) {
        return Some((target, 8));
    }
    let mut words = convention.words(bytes);
    let mut half = |opcode: u32| {
        let word = words.next()?;
        (word & 0xffff_0000 == opcode).then_some(u64::from(word & 0xffff))
    };
    let high = half(0x3980_0000)?;
    // rldic 12, 12, 32, 16
    let shifted = half(0x798c_0000)? == 0x040a;
    let middle = half(0x658c_0000)?;
    let low = half(0x618c_0000)?;
    let called = bytes
        .get(16..)
        .is_some_and(|rest| convention.starts_with(rest, convention.call));
    let len = 16 + convention.call.len() as u32 * 4;
    (shifted && called).then_some((high << 32 | middle << 16 | low, len))
}

/// One aligned word (Power ISA book II, 1.9, concurrent modification: an aligned word is stored at
/// once, and nothing is executed that is neither the old nor the new instruction) that is a nop or
/// a direct jump in both, or a direct call in both, of a call site.
fn exchange(exchange: &Exchange<'_>) -> Result<(), &'static str> {
    let both = |is: fn(&Facts) -> bool| {
        let mut sides = [exchange.before, exchange.after].into_iter();
        sides.all(|facts| facts.len == 4 && is(facts))
    };
    let plain = |facts: &Facts| facts.nop || matches!(facts.flow, Flow::Jump(Dest::Address(_)));
    // protection: calls-exchange-for-calls
    match both(plain) || both(|facts| matches!(facts.flow, Flow::Call(Dest::Address(_)))) {
        true => Ok(()),
        false => Err("an instruction changes that is no nop or direct jump, nor a direct call in both"),
    }
}

/// The target of a stub that a call leaves by: it saves r2, puts the address into r12 (ELFv2) or
/// the descriptor's into r11 (ELFv1), and goes there as calls do; nothing else.
fn leaving(convention: &Convention, register: DwarfReg, end: &[u32], addr: u64, bytes: &[u8]) -> Option<u64> {
    let middle = bytes.len().checked_sub(4 * (1 + end.len()))?;
    let (save, rest) = bytes.split_at_checked(4)?;
    let (address, last) = rest.split_at_checked(middle)?;
    let exact = last.len() == 4 * end.len()
        // protection: toc-saved-by-a-stub
        && convention.starts_with(save, &[SAVE + convention.slot])
        && convention.starts_with(last, end);
    let mut code = DecodedCode::new();
    decode(convention, addr.wrapping_add(4), address, &mut code).ok()?;
    let only = RegSet::of(&[register]);
    let builds = |facts: &Facts| {
        facts.flow == Flow::Next
            && facts.refused.is_none()
            && facts.store == StackStore::None
            && facts.stack == StackPointer::Keep
            && facts.writes.difference(only).is_empty()
    };
    let constants = code
        .iter()
        .fold(Constants::default(), |known, facts| known.after(facts));
    (exact && code.iter().all(builds)).then(|| constants.get(register))?
}

fn register(reg: DwarfReg) -> Option<&'static str> {
    const NAMES: [&[&str]; 4] = [
        &[
            "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
            "r15", "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28",
            "r29", "r30", "r31",
        ],
        &[
            "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12", "f13", "f14",
            "f15", "f16", "f17", "f18", "f19", "f20", "f21", "f22", "f23", "f24", "f25", "f26", "f27", "f28",
            "f29", "f30", "f31",
        ],
        &["cr0", "cr1", "cr2", "cr3", "cr4", "cr5", "cr6", "cr7"],
        &[
            "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
            "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",
            "v29", "v30", "v31",
        ],
    ];
    let [general, floating, fields, vectors] = NAMES;
    let of = |names: &[&'static str], first: u16| names.get(usize::from(reg.get() - first)).copied();
    match reg.get() {
        0..=31 => of(general, 0),
        32..=63 => of(floating, 32),
        65 => Some("lr"),
        66 => Some("ctr"),
        68..=75 => of(fields, 68),
        76 => Some("xer"),
        77..=108 => of(vectors, 77),
        109 => Some("vrsave"),
        _ => None,
    }
}
