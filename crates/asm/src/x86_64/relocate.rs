//! Instructions moved to other addresses.
//!
//! Branches that leave get distances of four bytes, or more where these do not reach, and operands
//! relative to the instruction pointer are adjusted; what would change its meaning is refused.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, IcedError, Instruction,
    InstructionBlock, Mnemonic, Register,
};

use llvm_stackmaps::addr::CodeAddr;
use smallvec::{SmallVec, smallvec};

use crate::backend::Moved;
use crate::error::{Error, Result};
use crate::relocated::Relocated;

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
pub(crate) fn relocate(at: CodeAddr, addr: CodeAddr, bytes: &[u8]) -> Result<Relocated> {
    let refused = |reason| Error::Relocation { addr, at, reason };
    let end = addr.get().wrapping_add(bytes.len() as u64);
    let mut instructions: SmallVec<[Instruction; 8]> = SmallVec::new();
    instructions.extend(Decoder::with_ip(64, bytes, addr.get(), DecoderOptions::NONE));
    for instruction in &instructions {
        // protection: displaced-code-means-the-same
        check(instruction, &instructions, addr.get()..end).map_err(refused)?;
    }
    if let Some(code) = as_they_are(at, &instructions, bytes, end) {
        return Ok(code);
    }
    let code = encode_anew(at, instructions, end).map_err(|error| refused(format!("{error}")))?;
    Ok(Relocated::fixed(code))
}

/// Instructions as they are executed at `at`, and a jump to `end`.
fn encode_anew(
    at: CodeAddr,
    mut instructions: SmallVec<[Instruction; 8]>,
    end: u64,
) -> core::result::Result<Vec<u8>, IcedError> {
    // Part of the block, because the encoder puts the addresses that far branches need behind it.
    instructions.push(Instruction::with_branch(Code::Jmp_rel32_64, end)?);
    let block = InstructionBlock::new(&instructions, at.get());
    BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).map(|code| code.code_buffer)
}

/// The same where each instruction keeps its bytes but for a distance, as most do: encoding a block anew
/// takes some 6,000 instructions. The nops at the end do nothing before the jump. `None` where one has
/// another form there, or what it refers to is moved as well, or out of its reach.
fn as_they_are(at: CodeAddr, instructions: &[Instruction], bytes: &[u8], end: u64) -> Option<Relocated> {
    let from = end.wrapping_sub(bytes.len() as u64);
    let mut code = Vec::with_capacity(2 * bytes.len() + LONGEST_JUMP as usize);
    let mut distances = SmallVec::new();
    let (mut left, mut used) = (bytes, 0);
    for one in instructions {
        let (old, behind) = left.split_at_checked(one.len())?;
        left = behind;
        if one.is_ip_rel_memory_operand() {
            let (before, after) = old.split_at_checked(distance_of(one, old)?)?;
            code.extend_from_slice(before);
            distances.push(code.len());
            put_distance(&mut code, at, one.ip_rel_memory_address(), after.get(4..)?)?;
        } else if is_near_branch(one) {
            let to = one.near_branch_target();
            // protection: branches-to-what-is-moved-are-encoded-anew
            if (from..end).contains(&to) {
                return None;
            }
            code.extend_from_slice(&long_branch(old)?);
            distances.push(code.len());
            put_distance(&mut code, at, to, &[])?;
        } else {
            code.extend_from_slice(old);
        }
        if !is_nop(one) {
            used = code.len();
        }
    }
    code.truncate(used);
    code.push(0xe9);
    distances.push(code.len());
    put_distance(&mut code, at, end, &[])?;
    Some(Relocated::with_distances(code, distances))
}

/// Where in an instruction the distance of its operand is, if that has four bytes and counts in 64 bits.
fn distance_of(one: &Instruction, bytes: &[u8]) -> Option<usize> {
    let mut decoder = Decoder::with_ip(64, bytes, one.ip(), DecoderOptions::NONE);
    let decoded = decoder.decode();
    let offsets = decoder.get_constant_offsets(&decoded);
    let is_whole = one.memory_base() == Register::RIP && offsets.displacement_size() == 4;
    is_whole.then_some(offsets.displacement_offset())
}

/// The opcode of a branch with a distance of four bytes, if it has one.
fn long_branch(branch: &[u8]) -> Option<SmallVec<[u8; 2]>> {
    Some(match *branch {
        [0xeb, _] | [0xe9, _, _, _, _] => smallvec![0xe9],
        [0xe8, _, _, _, _] => smallvec![0xe8],
        [condition @ 0x70..=0x7f, _] => smallvec![0x0f, condition + 0x10],
        [0x0f, condition @ 0x80..=0x8f, _, _, _, _] => smallvec![0x0f, condition],
        _ => return None,
    })
}

/// Appends the distance of an address from the end of the instruction, which has these bytes behind it,
/// in code at `at`.
fn put_distance(code: &mut Vec<u8>, at: CodeAddr, to: u64, behind: &[u8]) -> Option<()> {
    let end = code.len() as u64 + 4 + behind.len() as u64;
    let distance = to.wrapping_sub(at.get().wrapping_add(end)) as i64;
    // protection: distances-that-do-not-fit-are-encoded-anew
    let distance = i32::try_from(distance).ok()?;
    code.extend_from_slice(&distance.to_le_bytes());
    code.extend_from_slice(behind);
    Some(())
}

/// Whether it does nothing, not even a fault: its operand is not read.
fn is_nop(one: &Instruction) -> bool {
    one.mnemonic() == Mnemonic::Nop
}

/// What [`relocate`] makes of these where all distances have four bytes. `None` where one is no instruction, or
/// has no form with such a distance. Those that branch among themselves are encoded anew, and may be longer:
/// an exit stub that has too little room for them is made on its own.
pub(crate) fn moved(bytes: &[u8]) -> Option<Moved> {
    let (mut len, mut same) = (0, true);
    let mut moved = Moved { len, same };
    let mut left = bytes;
    for one in Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE) {
        let (old, behind) = left.split_at_checked(one.len())?;
        left = behind;
        if one.is_invalid() {
            return None;
        }
        // protection: only-what-is-the-same-is-copied
        same &= !depends_on_its_address(&one);
        len += match is_near_branch(&one) {
            true => long_branch(old)?.len() + 4,
            false => old.len(),
        };
        if !is_nop(&one) {
            moved = Moved { len, same };
        }
    }
    Some(moved)
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

    /// They take as many bytes as is said, and those that are said to be the same at every address are copied.
    #[test]
    fn what_is_known_of_moved_instructions_is_so() {
        let (from, to) = (CodeAddr::new(0x1000), CodeAddr::new(0x2345));
        let code: [(&[u8], bool); 9] = [
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
            // je +64; nop
            (&[0x74, 64, 0x90], false),
            // jmp -64; add rax, [rbx + 8]
            (&[0xeb, 0xbe, 0x48, 0x03, 0x43, 8], false),
            // nop [rip + 64]
            (&[0x0f, 0x1f, 0x05, 64, 0, 0, 0], true),
            // Cut off; no instruction.
            (&[0x48, 0x03], false),
            (&[0x06], false),
        ];
        for (bytes, same) in code {
            let code = relocate(to, from, bytes);
            let Some(moved) = moved(bytes) else {
                assert!(!same && code.is_err(), "{bytes:x?}");
                continue;
            };
            assert_eq!(moved.same, same, "{bytes:x?}");
            // What is relocated has a jump behind it.
            let code = code.unwrap();
            assert_eq!(moved.len, code.code().len() - 5, "{bytes:x?}");
            if same {
                assert_eq!(code.code()[..moved.len], bytes[..moved.len]);
            }
        }
    }

    fn decoded(at: CodeAddr, code: &[u8]) -> SmallVec<[Instruction; 8]> {
        let decoder = Decoder::with_ip(64, code, at.get(), DecoderOptions::NONE);
        decoder.into_iter().collect()
    }

    /// What instructions do, wherever they are: without the nops at their end.
    fn meaning(at: u64, code: &[u8]) -> Vec<(Mnemonic, Vec<u64>)> {
        let one = |one: Instruction| {
            let mut operands = Vec::new();
            if is_near_branch(&one) {
                operands.push(one.near_branch_target());
            } else {
                // Of an operand relative to the instruction pointer the address is all there is.
                let address = one.memory_displacement64();
                operands.extend([address, one.memory_base() as u64, one.memory_index() as u64]);
                let kinds = (0..one.op_count()).map(|number| (one.op_kind(number), one.op_register(number)));
                operands.extend(kinds.flat_map(|(kind, register)| [kind as u64, register as u64]));
                operands.extend((0..one.op_count()).filter_map(|number| one.try_immediate(number).ok()));
            }
            (one.mnemonic(), operands)
        };
        let all = Decoder::with_ip(64, code, at, DecoderOptions::NONE)
            .into_iter()
            .map(one);
        let mut all: Vec<_> = all.collect();
        let does_something = |one: &(Mnemonic, _)| one.0 != Mnemonic::Nop;
        all.truncate(all.iter().rposition(does_something).map_or(0, |last| last + 1));
        all
    }

    /// What keeps its bytes but for distances does the same as what is encoded anew.
    #[test]
    fn code_with_other_distances_does_the_same() {
        let parts: [&[u8]; 14] = [
            // movabsq; callq *%r11
            &[0x49, 0xbb, 1, 2, 3, 4, 5, 6, 7, 8, 0x41, 0xff, 0xd3],
            // add rax, [rip + 64]; cmp dword [rip + 64], 7; mov [rip + 64], imm32
            &[0x48, 0x03, 0x05, 64, 0, 0, 0],
            &[0x83, 0x3d, 64, 0, 0, 0, 7],
            &[0x48, 0xc7, 0x05, 64, 0, 0, 0, 1, 2, 3, 4],
            // lea rax, [rip - 256]; movups xmm0, [rip + 64]; jmp [rip + 64]
            &[0x48, 0x8d, 0x05, 0, 0xff, 0xff, 0xff],
            &[0x0f, 0x10, 0x05, 64, 0, 0, 0],
            &[0xff, 0x25, 64, 0, 0, 0],
            // call, jmp, je +0x1000; jmp, jne +100
            &[0xe8, 0, 16, 0, 0],
            &[0xe9, 0, 16, 0, 0],
            &[0x0f, 0x84, 0, 16, 0, 0],
            &[0xeb, 100],
            &[0x75, 100],
            // inc eax; nop
            &[0xff, 0xc0],
            &[0x66, 0x90],
        ];
        let from = CodeAddr::new(0x7000_0000);
        for (first, second, third) in (0..14_usize.pow(3)).map(|n| (n % 14, n / 14 % 14, n / 196)) {
            let code = [parts[first], parts[second], parts[third]].concat();
            let end = from.get() + code.len() as u64;
            let instructions = decoded(from, &code);
            for at in [0x7000_1003, 0x7100_0000, 0x6ff0_0000].map(CodeAddr::new) {
                let moved = as_they_are(at, &instructions, &code, end).unwrap();
                let moved = moved.into_code();
                assert!(moved.len() as u64 <= bound(from, &code));
                let anew = encode_anew(at, instructions.clone(), end).unwrap();
                let [moved, anew] = [moved, anew].map(|code| meaning(at.get(), &code));
                let (jump, before) = anew.split_last().unwrap();
                let used = before.iter().rposition(|one| one.0 != Mnemonic::Nop);
                let before = &before[..used.map_or(0, |last| last + 1)];
                assert_eq!(moved.split_last(), Some((jump, before)), "{code:02x?} at {at}");
            }
        }
    }

    /// What is relocated once and shifted is as if it had been relocated from there.
    #[test]
    fn shifted_code_is_as_if_it_was_relocated_by_itself() {
        // je +100; add rax, [rip + 64]; call +0x1000; mov [rip + 64], imm32; inc eax
        let code = [
            &[0x74, 100, 0x48, 0x03, 0x05, 64, 0, 0, 0, 0xe8, 0, 16, 0, 0][..],
            &[0x48, 0xc7, 0x05, 64, 0, 0, 0, 1, 2, 3, 4, 0xff, 0xc0],
        ];
        let code = code.concat();
        let (from, at) = (CodeAddr::new(0x7000_0000), CodeAddr::new(0x7000_4000));
        let first = relocate(at, from, &code).unwrap();
        for (farther, higher) in [
            (0, 32),
            (192, 0),
            (-192, 32),
            (1 << 20, -(1 << 24)),
            (3 << 30, 3 << 30),
        ] {
            let to = |addr: CodeAddr, by: i64| CodeAddr::new(addr.get().wrapping_add_signed(by));
            let alone = relocate(to(at, higher), to(from, farther), &code).unwrap();
            let mut shifted = first.clone();
            assert!(shifted.shift(farther - higher));
            assert_eq!(shifted, alone);
        }
        // One that is encoded anew there.
        let mut far = first.clone();
        assert!(!far.shift(1 << 40) && far == first);
    }

    /// What refers to what is moved with it, or has no form with a distance of four bytes.
    #[test]
    fn code_of_other_forms_is_encoded_anew() {
        let from = CodeAddr::new(0x7000_0000);
        let code: [&[u8]; 6] = [
            // je to the next; jmp to itself
            &[0x74, 0, 0xff, 0xc0],
            &[0xff, 0xc0, 0xeb, 0xfc],
            // jrcxz, loop
            &[0xe3, 100],
            &[0xe2, 100],
            // je with a hint; add eax, [eip + 64]
            &[0x3e, 0x74, 100],
            &[0x67, 0x03, 0x05, 64, 0, 0, 0],
        ];
        for code in code {
            let end = from.get() + code.len() as u64;
            let at = CodeAddr::new(0x7000_1000);
            assert_eq!(
                as_they_are(at, &decoded(from, code), code, end),
                None,
                "{code:02x?}"
            );
            relocate(at, from, code).unwrap();
        }
        // Out of reach.
        let far = CodeAddr::new(0x7fff_0000_0000);
        let call = [0xe8, 0, 16, 0, 0];
        assert_eq!(
            as_they_are(far, &decoded(from, &call), &call, from.get() + 5),
            None
        );
        relocate(far, from, &call).unwrap();
    }

    #[test]
    fn nops_at_the_end_are_not_moved() {
        let (from, to) = (CodeAddr::new(0x1000), CodeAddr::new(0x1100));
        // inc eax; nop; inc eax; nops of two and three bytes.
        let code = [0xff, 0xc0, 0x90, 0xff, 0xc0, 0x66, 0x90, 0x0f, 0x1f, 0x00];
        let moved = relocate(to, from, &code).unwrap();
        // To 0x100a, from 0x110a.
        assert_eq!(
            moved.code(),
            [0xff, 0xc0, 0x90, 0xff, 0xc0, 0xe9, 0x00, 0xff, 0xff, 0xff]
        );
    }
}
