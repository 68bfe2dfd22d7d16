//! Instructions moved to other addresses.
//!
//! Branches are made longer where the distance needs it, and operands relative to the instruction
//! pointer are adjusted; what would change its meaning is refused.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock, Mnemonic,
};

use llvm_stackmaps::addr::CodeAddr;

use crate::error::{Error, Result};

/// The longer form of a jump: the instruction and its address.
const LONGEST_JUMP: u64 = 6 + 8;
/// What a branch can grow to when it is moved: a short branch over an indirect one and its address.
const LONGEST_BRANCH: u64 = 2 + 2 + 6 + 8;
/// The encoder aligns the addresses that far branches need.
const ALIGNMENT: u64 = 7;

/// A length that the relocated instructions and the jump behind them do not exceed.
pub(crate) fn bound(addr: CodeAddr, bytes: &[u8]) -> u64 {
    let moved: u64 = Decoder::with_ip(64, bytes, addr.get(), DecoderOptions::NONE)
        .iter()
        .map(|instruction| longest(&instruction))
        .sum();
    moved + LONGEST_JUMP + ALIGNMENT
}

/// The length that an instruction can have at another address. The encoder may add a prefix to one
/// that refers to memory.
fn longest(instruction: &Instruction) -> u64 {
    let len = instruction.len() as u64 + 1;
    if is_near_branch(instruction) {
        len.max(LONGEST_BRANCH)
    } else {
        len
    }
}

/// The instructions of `bytes` as they are executed at `at`, and a jump to what followed them.
pub(crate) fn relocate(at: CodeAddr, addr: CodeAddr, bytes: &[u8]) -> Result<Vec<u8>> {
    let refused = |reason| Error::Relocation { addr, at, reason };
    let end = addr.get().wrapping_add(bytes.len() as u64);
    let mut instructions: Vec<_> = Decoder::with_ip(64, bytes, addr.get(), DecoderOptions::NONE)
        .iter()
        .collect();
    for instruction in &instructions {
        // protection: displaced-code-means-the-same
        check(instruction, &instructions, addr.get()..end).map_err(refused)?;
    }
    if let Some(code) = as_they_are(at, &instructions, bytes, end) {
        return Ok(code);
    }
    // Part of the block, because the encoder puts the addresses that far branches need behind it.
    let on =
        Instruction::with_branch(Code::Jmp_rel32_64, end).map_err(|error| refused(format!("{error}")))?;
    instructions.push(on);
    let block = InstructionBlock::new(&instructions, at.get());
    BlockEncoder::encode(64, block, BlockEncoderOptions::NONE)
        .map(|code| code.code_buffer)
        .map_err(|error| refused(format!("{error}")))
}

/// Nothing but instructions that are the same everywhere, such as the calls of most patchpoints: their
/// bytes and a jump to `end`, without encoding them anew. The nops at their end do nothing before the jump.
fn as_they_are(at: CodeAddr, instructions: &[Instruction], bytes: &[u8], end: u64) -> Option<Vec<u8>> {
    if instructions.iter().any(depends_on_its_address) {
        return None;
    }
    let nops = instructions.iter().rev().take_while(|one| is_nop(one));
    let nops: usize = nops.map(Instruction::len).sum();
    let bytes = bytes.get(..bytes.len() - nops)?;
    let next = at.get().wrapping_add(bytes.len() as u64 + 5);
    let distance = i32::try_from(end.wrapping_sub(next) as i64).ok()?;
    Some([bytes, &[0xe9], &distance.to_le_bytes()].concat())
}

/// Whether it does nothing, not even a fault: its operand is not read.
fn is_nop(one: &Instruction) -> bool {
    one.mnemonic() == Mnemonic::Nop
}

/// If all of these are such instructions: how many bytes there are up to the last that is no nop.
pub(crate) fn same_anywhere(bytes: &[u8]) -> Option<usize> {
    let mut used = 0;
    for one in Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE) {
        // protection: only-what-is-the-same-is-copied
        if one.is_invalid() || depends_on_its_address(&one) {
            return None;
        }
        if !is_nop(&one) {
            used = one.next_ip() as usize;
        }
    }
    Some(used)
}

fn depends_on_its_address(one: &Instruction) -> bool {
    one.is_ip_rel_memory_operand() || is_near_branch(one)
}

/// Whether an instruction means the same at another address.
fn check(
    instruction: &Instruction,
    all: &[Instruction],
    range: core::ops::Range<u64>,
) -> core::result::Result<(), String> {
    let ip = instruction.ip();
    if instruction.is_invalid() {
        return Err(format!("no instruction at {ip:#x}, or cut off at the end"));
    }
    if instruction.is_ip_rel_memory_operand() && range.contains(&instruction.ip_rel_memory_address()) {
        return Err(format!(
            "the instruction at {ip:#x} reads the bytes that are replaced"
        ));
    }
    if is_near_branch(instruction) {
        let target = instruction.near_branch_target();
        if range.contains(&target) && !all.iter().any(|other| other.ip() == target) {
            return Err(format!(
                "the branch at {ip:#x} goes into an instruction at {target:#x}"
            ));
        }
    }
    Ok(())
}

fn is_near_branch(instruction: &Instruction) -> bool {
    use iced_x86::OpKind;
    matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch
            | FlowControl::Call
            | FlowControl::XbeginXabortXend
    ) && matches!(
        instruction.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said to be the same at every address is copied by relocating, and nothing else is.
    #[test]
    fn what_is_the_same_anywhere_is_copied() {
        let (from, to) = (CodeAddr::new(0x1000), CodeAddr::new(0x2345));
        let code: [(&[u8], bool); 7] = [
            // movabs r11, imm64; call r11; nop
            (
                &[0x49, 0xbb, 1, 2, 3, 4, 5, 6, 7, 8, 0x41, 0xff, 0xd3, 0x90],
                true,
            ),
            // add rax, [rbx + 8]
            (&[0x48, 0x03, 0x43, 8], true),
            // add rax, [rip + 64]
            (&[0x48, 0x03, 0x05, 64, 0, 0, 0], false),
            // call +64
            (&[0xe8, 64, 0, 0, 0], false),
            // je +0
            (&[0x74, 0], false),
            // Cut off; no instruction.
            (&[0x48, 0x03], false),
            (&[0x06], false),
        ];
        for (bytes, same) in code {
            let used = bytes.strip_suffix(&[0x90]).unwrap_or(bytes);
            assert_eq!(same_anywhere(bytes), same.then_some(used.len()), "{bytes:x?}");
            let moved = relocate(to, from, bytes);
            if same {
                assert_eq!(moved.unwrap()[..used.len()], *used);
            }
        }
    }

    #[test]
    fn nops_at_the_end_are_not_moved() {
        let (from, to) = (CodeAddr::new(0x1000), CodeAddr::new(0x1100));
        // inc eax; nop; inc eax; nops of two and three bytes.
        let code = [0xff, 0xc0, 0x90, 0xff, 0xc0, 0x66, 0x90, 0x0f, 0x1f, 0x00];
        let moved = relocate(to, from, &code).unwrap();
        // To 0x100a, from 0x110a.
        assert_eq!(
            moved,
            [0xff, 0xc0, 0x90, 0xff, 0xc0, 0xe9, 0x00, 0xff, 0xff, 0xff]
        );
    }
}
