//! The bytes at which a record points: how many are reserved, and what they hold.

use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::Arch;
use patchpoint::site::is_statepoint;
use patchpoint::stackmap::{Constants, Endian, Record, Statepoint};

use crate::disassemble::{Instruction, decode, llvm_call};
use crate::words::count_u64;

/// So many bytes are shown where nothing tells how many are reserved.
const SHOWN: u64 = 32;
/// LLVM's ID of statepoints that have none of their own.
const STATEPOINT: u64 = 0xabcd_ef00;

/// What a record stands for. The map does not say; this is what the record and the bytes leave
/// possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// It has live-outs, or LLVM's call is there.
    Patchpoint,
    /// Real instructions are there.
    Shadow,
    /// It begins as statepoints do, and a call returns to its offset.
    Statepoint,
    /// Nops may be a patchpoint's or fill up a shadow.
    Unknown,
}

/// How the number of reserved bytes is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// It was given on the command line.
    Given(u64),
    /// The stack map tells it.
    Recorded(u64),
    /// LLVM's call and nops end here, and an instruction follows that is none.
    Inferred(u64),
    /// The same, but the last nops may have another reason.
    AtMost(u64),
    Unknown,
}

pub(crate) struct Site {
    pub(crate) reserved: Reserved,
    pub(crate) instructions: Vec<Instruction>,
    /// What is wrong with the number of bytes that was given or recorded.
    pub(crate) warning: Option<String>,
}

/// The code from a record's offset on.
pub(crate) struct RecordCode<'a> {
    pub(crate) arch: Option<Arch>,
    pub(crate) endian: Endian,
    /// From the record's offset to the end of the section.
    pub(crate) bytes: &'a [u8],
    /// From the function's start to the record's offset.
    pub(crate) before: &'a [u8],
    pub(crate) offset: u64,
    /// The address of the first byte, as far as the file knows it: for its alignment.
    pub(crate) address: u64,
    /// The bytes to the next record, if that is in the function.
    pub(crate) to_next: Option<u64>,
    /// The bytes to the end of the function.
    pub(crate) to_end: u64,
}

impl RecordCode<'_> {
    fn limit(&self) -> u64 {
        let limit = self.to_next.map_or(self.to_end, |next| next.min(self.to_end));
        limit.min(self.bytes.len() as u64)
    }

    fn decode(&self, len: u64) -> Vec<Instruction> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(..len).unwrap_or(self.bytes);
        decode(self.arch, self.endian, bytes, self.offset)
    }
}

pub(crate) fn kind(
    record: &Record<'_>,
    constants: Constants<'_>,
    code: Option<&RecordCode<'_>>,
) -> RecordKind {
    let returns_here = |code: &RecordCode<'_>| {
        code.arch.is_some_and(|arch| {
            is_statepoint(arch, record, constants, CodeAddr::new(code.address), code.before)
        })
    };
    // Where the code is not there to be looked at, LLVM's ID tells.
    let has_id = record.id().get() == STATEPOINT && Statepoint::of(record, constants).is_some();
    if has_id || code.is_some_and(returns_here) {
        return RecordKind::Statepoint;
    }
    if record.live_outs().len() != 0 {
        return RecordKind::Patchpoint;
    }
    let Some(code) = code else {
        return RecordKind::Unknown;
    };
    if llvm_call(code.arch, code.bytes) != 0 {
        return RecordKind::Patchpoint;
    }
    match code.decode(code.limit().min(16)).first() {
        Some(first) if !first.is_nop => RecordKind::Shadow,
        _ => RecordKind::Unknown,
    }
}

pub(crate) fn site(
    kind: RecordKind,
    code: &RecordCode<'_>,
    given: Option<u32>,
    recorded: Option<Len>,
) -> Site {
    let reserved = match (given, recorded) {
        (Some(bytes), _) => Reserved::Given(u64::from(bytes)),
        // Of a statepoint they end where the record points.
        (None, Some(bytes)) if kind != RecordKind::Statepoint => Reserved::Recorded(u64::from(bytes.get())),
        (None, _) if kind == RecordKind::Patchpoint => infer(code),
        (None, _) => Reserved::Unknown,
    };
    let told = match reserved {
        Reserved::Given(bytes) | Reserved::Recorded(bytes) => Some(bytes),
        _ => None,
    };
    Site {
        instructions: shown(code, reserved),
        warning: told.and_then(|bytes| warning(code, bytes)),
        reserved,
    }
}

/// LLVM fills a patchpoint with its call, if it has a target, and nops.
fn infer(code: &RecordCode<'_>) -> Reserved {
    let limit = code.limit();
    let call = (llvm_call(code.arch, code.bytes) as u64).min(limit);
    let mut end = call;
    let start = usize::try_from(call).unwrap_or(usize::MAX);
    // The limit may be behind the bytes that are known.
    let after = code.bytes.get(start..).unwrap_or(&[]);
    let room = usize::try_from(limit - call).unwrap_or(usize::MAX);
    let mut last = 0;
    for instruction in decode(code.arch, code.endian, after.get(..room).unwrap_or(after), call) {
        if !instruction.is_nop {
            break;
        }
        last = instruction.bytes.len();
        end += last as u64;
    }
    if end == 0 {
        return Reserved::Unknown;
    }
    // What follows may be aligned, such as a loop or the next function; and on Windows one byte of
    // nop keeps a call and an epilogue apart.
    let aligned = code.address.wrapping_add(end) % 16 == 0;
    let single = code.arch == Some(Arch::X86_64) && last == 1;
    if aligned || single || end == limit {
        Reserved::AtMost(end)
    } else {
        Reserved::Inferred(end)
    }
}

/// The instructions that start in the reserved bytes, or in the first few where nobody knows.
fn shown(code: &RecordCode<'_>, reserved: Reserved) -> Vec<Instruction> {
    match reserved {
        Reserved::Given(bytes)
        | Reserved::Recorded(bytes)
        | Reserved::Inferred(bytes)
        | Reserved::AtMost(bytes) => code.decode(bytes),
        Reserved::Unknown => {
            // Decoded a little further, so that the last one is not cut.
            let limit = code.limit();
            let mut instructions = code.decode(limit.min(SHOWN + 16));
            let end = code.offset.saturating_add(SHOWN);
            instructions.retain(|instruction| instruction.offset < end);
            instructions
        }
    }
}

fn warning(code: &RecordCode<'_>, bytes: u64) -> Option<String> {
    if let Some(next) = code.to_next.filter(|next| *next < bytes) {
        return Some(format!(
            "{} reserved, and the next record is {} further",
            count_u64(bytes, "byte"),
            count_u64(next, "byte")
        ));
    }
    (code.to_end < bytes).then(|| {
        format!(
            "{} reserved, and the function ends after {}",
            count_u64(bytes, "byte"),
            count_u64(code.to_end, "byte")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two long nops, then `ret`.
    const NOPS: [u8; 17] = [
        0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0, 0xc3,
    ];

    fn code(bytes: &[u8], address: u64, to_next: Option<u64>, to_end: u64) -> RecordCode<'_> {
        RecordCode {
            arch: Some(Arch::X86_64),
            endian: Endian::Little,
            bytes,
            before: &[],
            offset: 4,
            address,
            to_next,
            to_end,
        }
    }

    #[test]
    fn nops_are_counted_only_where_nothing_else_explains_them() {
        let infer = |address, to_next, to_end| infer(&code(&NOPS, address, to_next, to_end));
        assert_eq!(infer(0x1004, None, 17), Reserved::Inferred(16));
        // What follows may be aligned to 16.
        assert_eq!(infer(0x1000, None, 17), Reserved::AtMost(16));
        // The next record, or the end of the function, cuts them short.
        assert_eq!(infer(0x1004, Some(8), 17), Reserved::AtMost(8));
        assert_eq!(infer(0x1004, Some(16), 17), Reserved::AtMost(16));
        assert_eq!(infer(0x1004, None, 16), Reserved::AtMost(16));
        assert_eq!(infer(0x1004, Some(0), 17), Reserved::Unknown);
        let real = [0xc3; 4];
        assert_eq!(super::infer(&code(&real, 0x1004, None, 4)), Reserved::Unknown);
    }

    #[test]
    fn what_is_not_known_is_shown_in_whole_instructions() {
        // Each `mov` has 7 bytes: 32 bytes end within the fifth.
        let moves = [0x48, 0xc7, 0xc0, 1, 0, 0, 0].repeat(10);
        let instructions = shown(&code(&moves, 0, None, 70), Reserved::Unknown);
        assert_eq!(instructions.len(), 5);
        assert!(instructions.iter().all(|instruction| !instruction.is_cut));
        let instructions = shown(&code(&moves, 0, Some(10), 70), Reserved::Unknown);
        let cut: Vec<_> = instructions
            .iter()
            .map(|instruction| instruction.is_cut)
            .collect();
        assert_eq!(cut, [false, true]);
    }
}
