//! Comparing our listing of an instruction with LLVM's text of it.
//!
//! Both are taken apart into words and numbers. What is only a habit is left away: punctuation, the
//! prefixes of registers, the width of an operand in memory that a register tells, the field of
//! condition register 0. Names that stand for others with certain operands are written out. Where a
//! branch goes to is left away too: ours is an address, LLVM's a distance.

use patchpoint::arch::Arch;

/// A word or a number of an instruction's text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TextPart {
    Word(String),
    Number(i64),
}

use TextPart::{Number, Word};

fn word(word: &str) -> TextPart {
    Word(word.to_owned())
}

/// Addresses of code are higher, operands are lower or negative.
const LOWEST_ADDRESS: i64 = 0x1_0000_0000;

/// Whether both say the same.
pub fn is_alike(arch: Arch, ours: &str, llvms: &str) -> bool {
    let (mut ours, mut llvms) = (parts(arch, ours), parts(arch, llvms));
    if is_branch(arch, &ours) {
        ours.pop();
        llvms.pop();
    }
    // Data at an address, for LLVM at a distance.
    if let [.., Word(base), Number(_)] = llvms.as_slice() {
        if base == "rip" && matches!(ours.last(), Some(Number(LOWEST_ADDRESS..))) {
            ours.pop();
            llvms.truncate(llvms.len() - 2);
        }
    }
    ours.len() == llvms.len() && ours.iter().zip(&llvms).all(|(a, b)| is_same(a, b))
}

fn is_branch(arch: Arch, parts: &[TextPart]) -> bool {
    let [Word(name), .., Number(LOWEST_ADDRESS..)] = parts else {
        return false;
    };
    let prefixes: &[&str] = match arch {
        Arch::SystemZ => &["j", "bras", "larl", "cgrj", "cgij", "crj", "cij", "cl"],
        Arch::X86_64 => &["j", "call"],
        Arch::AArch64 => &["b", "cb", "tb", "adr"],
        _ => &["b", "j"],
    };
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Immediates may be written with or without a sign, in the width of their operation.
fn is_same(ours: &TextPart, llvms: &TextPart) -> bool {
    match (ours, llvms) {
        (Number(a), Number(b)) => [0, 1 << 8, 1 << 16, 1 << 32].contains(&a.abs_diff(*b)),
        _ => ours == llvms,
    }
}

fn parts(arch: Arch, text: &str) -> Vec<TextPart> {
    let text = text.split("//").next().unwrap_or(text).to_lowercase();
    let separator = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
    // A minus comes right before its number.
    let text = text.replace("- ", "-").replace('-', " -");
    let words = text.split(separator).filter(|word| !word.is_empty());
    let words = words.filter(|word| !is_habit(arch, word));
    let mut parts: Vec<TextPart> = words.map(|word| part(arch, word)).collect();
    match arch {
        Arch::X86_64 => x86_64(&mut parts),
        Arch::AArch64 => aarch64(&mut parts),
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => powerpc64(&mut parts),
        Arch::SystemZ => systemz(&mut parts),
        _ => riscv64(&mut parts),
    }
    parts
}

fn is_habit(arch: Arch, word: &str) -> bool {
    let habits: &[&str] = match arch {
        // A prefix for the code segment only makes a nop longer.
        Arch::X86_64 => &[
            "byte", "word", "dword", "qword", "xmmword", "ptr", "short", "near", "cs",
        ],
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => &["cr0"],
        _ => &[],
    };
    word == "." || habits.contains(&word)
}

fn part(arch: Arch, text: &str) -> TextPart {
    let digits = text.trim_start_matches('.');
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => (-1_i64, digits),
        None => (1, digits),
    };
    let number = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    };
    let register = || {
        let prefixes = ["r", "f", "vs", "cr"].iter();
        let mut numbers = prefixes.filter_map(|prefix| text.strip_prefix(prefix)?.parse().ok());
        numbers.next().filter(|_| arch.is_powerpc64())
    };
    match number
        .map(|number: u64| sign.wrapping_mul(number as i64))
        .or_else(register)
    {
        Some(number) => Number(number),
        None => word(text),
    }
}

/// The name of the instruction.
fn name(parts: &[TextPart]) -> String {
    match parts.first() {
        Some(Word(name)) => name.clone(),
        _ => String::new(),
    }
}

fn x86_64(parts: &mut Vec<TextPart>) {
    // A displacement of nothing may be left away.
    parts.retain(|part| *part != Number(0));
    if name(parts) == "movabs" {
        parts[0] = word("mov");
    }
    if *parts == [word("xchg"), word("ax"), word("ax")] {
        *parts = vec![word("nop")];
    }
}

fn aarch64(parts: &mut Vec<TextPart>) {
    let name = name(parts);
    let is_wide = matches!(name.as_str(), "movz" | "movn");
    // A shifted immediate, of which LLVM may write the value.
    if let [.., Number(number), Word(shifted), Number(shift)] = parts.as_slice() {
        if shifted == "lsl" && (is_wide || *shift == 12) {
            let shifted = number << shift;
            parts.truncate(parts.len() - 3);
            parts.push(Number(shifted));
        }
    }
    if let (Some(Number(number)), "movn") = (parts.last_mut(), name.as_str()) {
        *number = !*number;
    }
    // Moves, in other instructions' encodings (Arm Architecture Reference Manual, C6.2: MOV).
    let moved = match parts.as_slice() {
        [_, to, from] if is_wide => Some((to, from)),
        [_, to, zero, from @ Number(_)] if name == "orr" && *zero == word("xzr") => Some((to, from)),
        [_, to, from, Number(0)] if name == "add" && [to, from].contains(&&word("sp")) => Some((to, from)),
        _ => None,
    };
    if let Some((to, from)) = moved {
        *parts = vec![word("mov"), to.clone(), from.clone()];
    }
}

fn powerpc64(parts: &mut Vec<TextPart>) {
    let name = name(parts);
    // Shifts are rotations under a mask (Power ISA, book I, C.7).
    let rotation = match (name.as_str(), parts.as_slice()) {
        ("clrldi", [.., Number(by)]) => Some(("rldicl", vec![0, *by])),
        ("sldi", [.., Number(by)]) => Some(("rldicr", vec![*by, 63 - by])),
        ("srwi", [.., Number(by)]) => Some(("rlwinm", vec![32 - by, *by, 31])),
        _ => None,
    };
    if let Some((name, operands)) = rotation {
        parts[0] = word(name);
        parts.pop();
        parts.extend(operands.into_iter().map(Number));
    }
    // Floating-point registers are the first halves of vector-scalar registers (Power ISA, book I,
    // 7.2.1.1).
    match name.as_str() {
        "mffprd" => parts[0] = word("mfvsrd"),
        "mtfprd" => parts[0] = word("mtvsrd"),
        _ => {}
    }
    // A bit of the condition register has a name, and a number.
    if matches!(name.as_str(), "bt" | "bf") {
        let names = ["cr0.lt", "cr0.gt", "cr0.eq", "cr0.so"].map(word);
        if let Some(bit) = names.iter().position(|name| parts.get(1) == Some(name)) {
            parts[1] = Number(bit as i64);
        }
    }
}

/// The masks of branches, and what clears the rest, are parts of LLVM's names (Principles of
/// Operation, BRANCH ON CONDITION).
fn systemz(parts: &mut Vec<TextPart>) {
    const CONDITIONS: [&str; 16] = [
        "nop", "o", "h", "nle", "l", "nhe", "lh", "ne", "e", "nlh", "he", "nl", "le", "nh", "no", "",
    ];
    let renamed = match (name(parts).as_str(), parts.get(1), parts.get(4)) {
        ("brc", Some(Number(mask @ 0..16)), _) => format!("j{}", CONDITIONS[*mask as usize]),
        ("brcl", Some(Number(mask @ 0..16)), _) => format!("jg{}", CONDITIONS[*mask as usize]),
        ("bcr", Some(Number(0)), _) => "nopr".to_owned(),
        ("bcr", Some(Number(15)), _) => "br".to_owned(),
        ("bc", Some(Number(0)), _) => "nop".to_owned(),
        ("risbg", _, Some(Number(end @ 128..))) => {
            parts[4] = Number(end - 128);
            parts[0] = word("risbgz");
            return;
        }
        _ => return,
    };
    parts.remove(1);
    parts[0] = Word(renamed);
}

fn riscv64(parts: &mut Vec<TextPart>) {
    if *parts == [word("nop")] {
        *parts = vec![word("addi"), word("zero"), word("zero"), Number(0)];
    }
}
