//! Instructions: x86-64 in words, the others in units, in words where the library knows them.

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter, Mnemonic};
use patchpoint::addr::CodeAddr;
use patchpoint::arch::{Arch, instructions};
use patchpoint::stackmap::Endian;
use patchpoint::verify;

pub(crate) struct Instruction {
    /// The distance from the start of the function.
    pub(crate) offset: u64,
    /// In the order in which they lie in memory.
    pub(crate) bytes: Vec<u8>,
    /// The bytes as disassemblers of the architecture group them.
    pub(crate) encoding: String,
    /// In words, where this tool has them.
    pub(crate) text: Option<String>,
    pub(crate) is_nop: bool,
    /// The bytes are no whole instruction.
    pub(crate) is_cut: bool,
}

/// The instructions in `bytes`, of which the first is at `offset` in its function.
pub(crate) fn decode(arch: Option<Arch>, endian: Endian, bytes: &[u8], offset: u64) -> Vec<Instruction> {
    if arch == Some(Arch::X86_64) {
        return decode_x86_64(bytes, offset);
    }
    let mut decoded = Vec::new();
    let mut rest = bytes;
    let mut at = offset;
    while !rest.is_empty() {
        let wanted = unit(arch, rest);
        let (head, tail) = rest.split_at(wanted.min(rest.len()));
        decoded.push(plain(arch, endian, head, at, head.len() < wanted));
        at += head.len() as u64;
        rest = tail;
    }
    decoded
}

fn decode_x86_64(bytes: &[u8], offset: u64) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(64, bytes, offset, DecoderOptions::NONE);
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    options.set_branch_leading_zeros(false);
    options.set_rip_relative_addresses(true);
    let mut decoded = Vec::new();
    let mut rest = bytes;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let is_cut = instruction.is_invalid();
        // An instruction that cannot be decoded gives no length to go on with.
        let len = if is_cut { rest.len() } else { instruction.len() };
        let (head, tail) = rest.split_at(len.min(rest.len()));
        rest = tail;
        let is_nop = instruction.mnemonic() == Mnemonic::Nop;
        let mut text = String::new();
        if is_nop {
            text.push_str("nop");
        } else if !is_cut {
            formatter.format(&instruction, &mut text);
        }
        decoded.push(Instruction {
            offset: instruction.ip(),
            bytes: head.to_vec(),
            encoding: spaced(head),
            text: Some(text).filter(|text| !text.is_empty()),
            is_nop,
            is_cut,
        });
        if is_cut {
            break;
        }
    }
    decoded
}

/// The length of the instruction at the start of `bytes`; one byte where nobody knows.
fn unit(arch: Option<Arch>, bytes: &[u8]) -> usize {
    arch.and_then(|arch| instructions::len(arch, bytes)).unwrap_or(1)
}

fn plain(arch: Option<Arch>, endian: Endian, bytes: &[u8], offset: u64, is_cut: bool) -> Instruction {
    // The code of big endian AArch64 is little endian all the same.
    let little = endian == Endian::Little || arch == Some(Arch::AArch64);
    let is_nop = is_nop(arch, bytes);
    let encoding = if little {
        bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect()
    } else {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    Instruction {
        offset,
        bytes: bytes.to_vec(),
        encoding,
        text: is_nop
            .then(|| "nop".to_owned())
            .or_else(|| arch.and_then(|arch| words(arch, bytes, offset))),
        is_nop,
        is_cut,
    }
}

/// What the library's decoder says of one instruction, which knows those that sites hold.
fn words(arch: Arch, bytes: &[u8], offset: u64) -> Option<String> {
    let lines = verify::disassemble(arch, CodeAddr::new(offset), bytes);
    match lines.as_slice() {
        [line] if line.text != "(bad)" => Some(line.text.clone()),
        _ => None,
    }
}

fn is_nop(arch: Option<Arch>, bytes: &[u8]) -> bool {
    match (arch, bytes) {
        (Some(Arch::AArch64), [0x1f, 0x20, 0x03, 0xd5]) => true,
        (Some(Arch::PowerPc64Le), [0, 0, 0, 0x60])
        | (Some(Arch::PowerPc64 | Arch::PowerPc64ElfV2), [0x60, 0, 0, 0]) => true,
        (Some(Arch::RiscV64), [0x13, 0, 0, 0] | [0x01, 0]) => true,
        // `bcr`, `bc` and `brcl` with a mask of 0.
        (Some(Arch::SystemZ), [0x07, 0..=0x0f] | [0x47, 0..=0x0f, _, _] | [0xc0, 0x04, _, _, _, _]) => true,
        _ => false,
    }
}

fn spaced(bytes: &[u8]) -> String {
    let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.join(" ")
}

/// The bytes of the call of a constant address with which LLVM begins a patchpoint, or 0.
pub(crate) fn llvm_call(arch: Option<Arch>, bytes: &[u8]) -> usize {
    match (arch, bytes) {
        // movabs r11, imm64; call r11
        (Some(Arch::X86_64), [0x49, 0xbb, _, _, _, _, _, _, _, _, 0x41, 0xff, 0xd3, ..]) => 13,
        (Some(Arch::AArch64), _) => aarch64_call(bytes),
        // llilf r1; iihf r1 unless it is 0; basr r14, r1
        (Some(Arch::SystemZ), [0xc0, 0x1f, _, _, _, _, rest @ ..]) => match rest {
            [0x0d, 0xe1, ..] => 8,
            [0xc0, 0x18, _, _, _, _, 0x0d, 0xe1, ..] => 14,
            _ => 0,
        },
        _ => 0,
    }
}

/// movz, movk, movk x16; blr x16
fn aarch64_call(bytes: &[u8]) -> usize {
    let mut words = bytes.chunks_exact(4).map(|word| {
        word.iter()
            .rev()
            .fold(0u32, |value, byte| value << 8 | u32::from(*byte))
    });
    let moves = [0xd280_0010, 0xf280_0010, 0xf280_0010];
    let moved = moves
        .iter()
        .all(|expected| words.next().is_some_and(|word| word & 0xff80_001f == *expected));
    if moved && words.next() == Some(0xd63f_0200) {
        16
    } else {
        0
    }
}
