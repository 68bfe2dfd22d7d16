//! Every instruction that sequences are made of, against LLVM's assembler and disassembler.
//!
//! Sequences are enumerated with operands of every class and every boundary, and assembled as a
//! runtime has it done. `asm-tests/encodings/ARCH.txt` holds each instruction that occurs in them,
//! with what LLVM reads it as; the README beside it says how it is written. The variants of
//! PowerPC share a file, in which the bytes are in big-endian order, and what not all of them
//! have is marked with those that do.
//!
//! The tests compare it with what is assembled now, and, where LLVM 19 is installed, with LLVM: its
//! disassembler's text of each, and what its assembler makes of that text. And our listing of each
//! has to say what LLVM's text says.

mod cases;
mod listing;
mod llvm;
mod map;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::PathBuf;

use cases::{Case, Cases, KINDS, Machine, SITE};
use map::Location;
use patchpoint::CallShape;
use patchpoint::addr::{CodeAddr, FnOffset, RecordId};
use patchpoint::arch::{Arch, SiteContext, SiteKind};
use patchpoint::sequence::{Assembled, Environment, Fit, arg, assemble, assemble_out_of_line, live};
use patchpoint::stackmap::{Endian, StackMaps};
use patchpoint::verify;

const X86_64: Machine = Machine {
    arch: Arch::X86_64,
    file: "x86_64",
    general: &[0, 1, 2, 3, 4, 5, 8, 9, 10, 12, 13, 14, 15],
    vectors: &[17, 18, 19, 20, 24, 25, 31, 32],
    frame: [6, 7],
    unit: 1,
    reaches: &[8, 32],
};

const AARCH64: Machine = Machine {
    arch: Arch::AArch64,
    file: "aarch64",
    general: &[
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,
    ],
    vectors: &[64, 65, 71, 72, 79, 80, 95],
    frame: [29, 31],
    unit: 4,
    reaches: &[16, 21, 28, 33],
};

const POWERPC64LE: Machine = Machine {
    arch: Arch::PowerPc64Le,
    file: "powerpc64",
    general: &[
        3, 4, 5, 6, 7, 8, 9, 10, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
    ],
    vectors: &[32, 33, 34, 45, 46, 63],
    frame: [31, 1],
    unit: 4,
    reaches: &[16, 26, 32],
};

const POWERPC64: Machine = Machine {
    arch: Arch::PowerPc64,
    ..POWERPC64LE
};

const POWERPC64_ELFV2: Machine = Machine {
    arch: Arch::PowerPc64ElfV2,
    ..POWERPC64LE
};

const SYSTEMZ: Machine = Machine {
    arch: Arch::SystemZ,
    file: "systemz",
    general: &[2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13],
    vectors: &[16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31],
    frame: [11, 15],
    unit: 2,
    reaches: &[17, 33],
};

const RISCV64: Machine = Machine {
    arch: Arch::RiscV64,
    file: "riscv64",
    general: &[
        5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
    ],
    vectors: &[32, 33, 42, 43, 50, 63],
    frame: [8, 2],
    unit: 2,
    reaches: &[13, 21, 32],
};

const MACHINES: [Machine; 7] = [
    X86_64,
    AARCH64,
    POWERPC64,
    POWERPC64_ELFV2,
    POWERPC64LE,
    SYSTEMZ,
    RISCV64,
];

/// One case in so many is assembled. What depends on the host is not one operand or another but its
/// byte order, which few cases show as well.
const STRIDE: usize = if cfg!(emulated) { 13 } else { 1 };

/// What became of the cases.
#[derive(Debug, Default)]
struct CaseCounts {
    cases: usize,
    assembled: usize,
    /// By the kind of error.
    refused: BTreeMap<String, usize>,
    /// Instructions, in the order of bytes of the file, with their texts in our listing.
    instructions: BTreeMap<Vec<u8>, String>,
    /// Instructions in all sequences.
    total: usize,
}

impl CaseCounts {
    fn by(machine: &Machine) -> Self {
        let mut made = Self::default();
        for case in Cases::of(machine).iter().step_by(STRIDE) {
            made.cases += 1;
            made.add(machine.arch, case);
        }
        made
    }

    fn add(&mut self, arch: Arch, case: &Case) {
        match assembled(arch, case) {
            Ok(assembled) => {
                self.assembled += 1;
                self.cut(arch, CodeAddr::new(case.site), &assembled.code);
                if let Some(stub) = &assembled.stub {
                    self.cut(arch, stub.addr, &stub.bytes);
                }
            }
            Err(error) => {
                let name = format!("{error:?}");
                let name = name.split([' ', '{']).next().unwrap_or_default();
                *self.refused.entry(name.to_string()).or_default() += 1;
            }
        }
    }

    fn cut(&mut self, arch: Arch, mut addr: CodeAddr, code: &[u8]) {
        let (mut rest, mut previous) = (code, &[][..]);
        while !rest.is_empty() {
            let (bytes, tail) = rest.split_at(self.len_of_first(arch, addr, rest));
            self.total += 1;
            // Most are nops behind nops.
            if bytes != previous {
                let text = || verify::disassemble(arch, addr, bytes).swap_remove(0).text;
                let key = in_file(arch, bytes);
                self.instructions.entry(key).or_insert_with(text);
            }
            addr = CodeAddr::new(addr.get() + bytes.len() as u64);
            (rest, previous) = (tail, bytes);
        }
    }

    /// The length of the first instruction of the code: from its first byte, where that is so
    /// simple that we need not trust our own decoder.
    fn len_of_first(&self, arch: Arch, addr: CodeAddr, code: &[u8]) -> usize {
        match (arch, code[0]) {
            (Arch::X86_64, _) => {
                // No instruction is the beginning of another: what comes last before the code or
                // is its beginning is the one, if it is known.
                let up_to = (Bound::Unbounded, Bound::Included(code));
                let known = self.instructions.range::<[u8], _>(up_to).next_back();
                match known.filter(|(bytes, _)| code.starts_with(bytes)) {
                    Some((bytes, _)) => bytes.len(),
                    None => {
                        let first = &code[..code.len().min(LONGEST)];
                        verify::disassemble(arch, addr, first)[0].len.as_usize()
                    }
                }
            }
            // z/Architecture Principles of Operation, instruction lengths: the two leftmost bits.
            (Arch::SystemZ, first) => [2, 4, 4, 6][usize::from(first >> 6)],
            // The RISC-V instruction set manual, volume I, 1.5: the two lowest bits.
            (Arch::RiscV64, first) if first & 3 != 3 => 2,
            _ => 4,
        }
    }
}

/// Of x86-64 (Intel SDM volume 2, 2.3.11).
const LONGEST: usize = 15;

/// The bytes of an instruction of `arch` as they are in the file, and the other way round.
fn in_file(arch: Arch, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if arch == Arch::PowerPc64Le {
        bytes.reverse();
    }
    bytes
}

/// What the sequence of a case becomes.
fn assembled(arch: Arch, case: &Case) -> Result<Assembled, patchpoint::sequence::Error> {
    at_site(arch, case, |site, env| {
        match assemble(&case.sequence, site, env)? {
            Fit::InPlace(assembled) => Ok(assembled),
            Fit::OutOfLine { .. } => {
                assemble_out_of_line(&case.sequence, site, env, CodeAddr::new(SITE + 0x1000))
            }
        }
    })
}

/// Calls `work` with the site of the case, and where its exits are.
fn at_site<T>(arch: Arch, case: &Case, work: impl FnOnce(&SiteContext<'_>, &Environment) -> T) -> T {
    let bytes = map::map(&case.locations);
    let maps = StackMaps::parse(&bytes, Endian::Little).unwrap();
    let map = &maps.maps()[0];
    let site = SiteContext {
        arch,
        id: RecordId::new(7),
        function: None,
        offset: FnOffset::new(4),
        addr: CodeAddr::new(case.site),
        shape: case.shape,
        record: (case.shape.kind() != SiteKind::Entry).then(|| map.records().next().unwrap()),
        constants: map.constants(),
        return_offsets: &[],
        trust_live_outs: true,
    };
    let env = Environment {
        miss: Some(CodeAddr::new(SITE + 0x2000)),
        deopt: Some(CodeAddr::new(SITE + 0x7fff_0000)),
    };
    work(&site, &env)
}

fn path(machine: &Machine) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("encodings");
    folder.join(format!("{}.txt", machine.file))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(pair).collect()
}

/// The file: bytes with LLVM's texts, of those instructions that the machine has.
fn recorded(machine: &Machine) -> BTreeMap<Vec<u8>, String> {
    let file = std::fs::read_to_string(path(machine)).unwrap();
    let name = machine.arch.to_string();
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    let fields = lines.filter_map(|line| {
        let mut fields = line.split('\t');
        let (hex, text, only) = (fields.next()?, fields.next()?, fields.next());
        let has = only.is_none_or(|only| only.split(' ').any(|variant| variant == name));
        has.then(|| (bytes(hex), text.to_string()))
    });
    fields.collect()
}

/// What is defined never to be an instruction, which traps: on PowerPC (Power ISA, book I, 1.8.2),
/// and what Linux takes for a breakpoint on SystemZ.
fn is_none(bytes: &[u8]) -> bool {
    bytes == [0; 4] || bytes == [0, 1]
}

fn is_recorded(machine: &Machine, made: &CaseCounts) {
    println!(
        "{}: {} cases, {} assembled, {} instructions, {} different ones; refused: {:?}",
        machine.arch,
        made.cases,
        made.assembled,
        made.total,
        made.instructions.len(),
        made.refused
    );
    let recorded: BTreeSet<_> = recorded(machine).into_keys().collect();
    let now: BTreeSet<_> = made.instructions.keys().cloned().collect();
    let show = |set: Vec<&Vec<u8>>| set.iter().take(20).map(|bytes| hex(bytes)).collect::<Vec<_>>();
    let new: Vec<_> = now.difference(&recorded).collect();
    let gone: Vec<_> = recorded.difference(&now).collect();
    assert!(new.is_empty(), "{} not in the file: {:?}", new.len(), show(new));
    assert!(
        STRIDE > 1 || gone.is_empty(),
        "{} in the file only: {:?}",
        gone.len(),
        show(gone)
    );
}

fn is_llvms(machine: &Machine) {
    let arch = machine.arch;
    let Some(program) = llvm::llvm_mc() else {
        println!("skipped: llvm-mc 19 is not installed");
        return;
    };
    let recorded = recorded(machine);
    let instructions: Vec<_> = recorded.keys().filter(|bytes| !is_none(bytes)).collect();
    let instructions: Vec<_> = instructions.iter().map(|bytes| in_file(arch, bytes)).collect();
    let texts = llvm::disassemble(program, arch, &instructions);
    assert_eq!(
        texts.len(),
        instructions.len(),
        "LLVM finds other instructions in the bytes"
    );
    for (bytes, text) in instructions.iter().zip(&texts) {
        assert_eq!(recorded[&in_file(arch, bytes)], *text, "{}", hex(bytes));
    }
    let again = llvm::assemble(program, arch, &texts);
    let (mut identical, mut branches, mut others) = (0, 0, Vec::new());
    for ((bytes, text), again) in instructions.iter().zip(&texts).zip(&again) {
        let same = bytes.len() == again.len()
            && bytes
                .iter()
                .zip(again)
                .all(|(b, (value, mask))| b & mask == value & mask);
        match same {
            true if again.iter().all(|(_, mask)| *mask == 0xff) => identical += 1,
            true => branches += 1,
            false => others.push((
                bytes.clone(),
                text.clone(),
                again.iter().map(|(value, _)| *value).collect::<Vec<_>>(),
            )),
        }
    }
    // Other bytes for the same text: another encoding of the same instruction.
    let texts_again = llvm::disassemble(
        program,
        arch,
        &others.iter().map(|(.., again)| again.clone()).collect::<Vec<_>>(),
    );
    for ((bytes, text, _), again) in others.iter().zip(&texts_again) {
        let operation = |text: &str| text.split(' ').next().unwrap_or_default().to_string();
        // A shift by 1 has a form of its own.
        let text = text
            .strip_suffix(", 1")
            .filter(|_| text.starts_with('s'))
            .unwrap_or(text);
        let same = text == again || is_branch(text) && operation(text) == operation(again);
        assert!(same, "{}: {text} instead of {again}", hex(bytes));
    }
    println!(
        "{arch}: {identical} identical, {branches} identical but for a distance, {} the same instruction in other bytes",
        others.len()
    );
}

/// Whether LLVM's text is that of a branch to a distance, which its assembler may encode shorter.
fn is_branch(text: &str) -> bool {
    text.starts_with('j') || text.starts_with("call")
}

/// Our listing says what LLVM's disassembler says.
fn is_listed_alike(machine: &Machine, made: &CaseCounts) {
    let recorded = recorded(machine);
    let instructions = made.instructions.iter().filter(|(bytes, _)| !is_none(bytes));
    let both: Vec<_> = instructions
        .filter_map(|(bytes, ours)| Some((ours, recorded.get(bytes)?)))
        .collect();
    let is_alike = |ours: &str, llvms: &str| listing::is_alike(machine.arch, ours, llvms);
    let differ: Vec<_> = both
        .iter()
        .filter(|(ours, llvms)| !is_alike(ours, llvms))
        .collect();
    println!("{}: {} listings compared with LLVM's", machine.arch, both.len());
    let shown: Vec<_> = differ.iter().step_by(differ.len() / 20 + 1).collect();
    assert!(
        differ.is_empty(),
        "{}: {} are listed otherwise than by LLVM: {shown:#?}",
        machine.arch,
        differ.len()
    );
}

/// Writes the file that these machines share.
fn write(machines: &[&Machine]) {
    let program = llvm::llvm_mc().expect("llvm-mc 19");
    let mut variants: BTreeMap<Vec<u8>, Vec<Arch>> = BTreeMap::new();
    for machine in machines {
        for bytes in CaseCounts::by(machine).instructions.into_keys() {
            variants.entry(bytes).or_default().push(machine.arch);
        }
    }
    let (none, instructions): (Vec<_>, Vec<_>) = variants.keys().cloned().partition(|bytes| is_none(bytes));
    // The first is in the order of bytes of the file.
    let texts = llvm::disassemble(program, machines[0].arch, &instructions);
    assert_eq!(
        texts.len(),
        instructions.len(),
        "LLVM finds other instructions in the bytes"
    );
    let mut file = String::from(
        "# Instructions of sequences, and what LLVM 19 reads them as; see asm-tests/encodings/README.md.\n",
    );
    let none = none.iter().map(|bytes| (bytes, "none"));
    let texts = texts.iter().map(String::as_str);
    for (bytes, text) in instructions.iter().zip(texts).chain(none) {
        file.push_str(&format!("{}\t{text}", hex(bytes)));
        let having = &variants[bytes];
        if having.len() < machines.len() {
            let names: Vec<_> = having.iter().map(Arch::to_string).collect();
            file.push_str(&format!("\t{}", names.join(" ")));
        }
        file.push('\n');
    }
    std::fs::write(path(machines[0]), file).unwrap();
}

#[test]
#[ignore = "writes the files that the other tests read"]
fn write_encodings() {
    let files: BTreeSet<_> = MACHINES.iter().map(|machine| machine.file).collect();
    for file in files {
        let machines: Vec<_> = MACHINES.iter().filter(|machine| machine.file == file).collect();
        write(&machines);
    }
}

macro_rules! machines {
    ($($name:ident: $machine:ident,)*) => {
        $(
            #[test]
            fn $name() {
                let made = CaseCounts::by(&$machine);
                is_recorded(&$machine, &made);
                // What LLVM says does not depend on the machine that asks.
                if !cfg!(emulated) {
                    is_llvms(&$machine);
                }
                is_listed_alike(&$machine, &made);
            }
        )*
    };
}

machines! {
    x86_64: X86_64,
    aarch64: AARCH64,
    powerpc64le: POWERPC64LE,
    powerpc64: POWERPC64,
    powerpc64_elfv2: POWERPC64_ELFV2,
    systemz: SYSTEMZ,
    riscv64: RISCV64,
}

/// The order of bytes and the convention are two things. Of big-endian ELFv2 every sequence is that
/// of little-endian ELFv2 with each word the other way round; but what depends on the order itself,
/// the low bytes of a longer value in memory and what older big-endian processors lack, is as with
/// big-endian ELFv1.
#[test]
fn powerpc64_elfv2_has_the_convention_of_one_and_the_byte_order_of_the_other() {
    let swapped = |bytes: Vec<u8>| -> Vec<u8> {
        assert_eq!(bytes.len() % 4, 0);
        let words = bytes.chunks_exact(4);
        words.flat_map(|word| word.iter().rev().copied()).collect()
    };
    let made = |arch, case: &Case| {
        let chunks = |made: Assembled| (made.code, made.stub.map_or_else(Vec::new, |stub| stub.bytes));
        assembled(arch, case)
            .map(chunks)
            .map_err(|error| error.to_string())
    };
    let (mut convention, mut order) = (0, 0);
    for case in Cases::of(&POWERPC64_ELFV2).iter().step_by(STRIDE) {
        let found = made(Arch::PowerPc64ElfV2, case);
        let little = made(Arch::PowerPc64Le, case).map(|(code, stub)| (swapped(code), swapped(stub)));
        let descriptors = made(Arch::PowerPc64, case);
        let both = (found == little, found == descriptors);
        assert_ne!(both, (false, false), "{:?}: {found:02x?}", case.sequence);
        convention += usize::from(both == (true, false));
        order += usize::from(both == (false, true));
    }
    println!("{convention} are as with little-endian ELFv2 alone, {order} as with ELFv1 alone");
    assert!(
        convention > 100 / STRIDE && order > 1000 / STRIDE,
        "{convention} {order}"
    );
}

/// A probe of the cache that inline caches share can be had at every site, and the checker takes
/// it; but where the result is in the argument's register, x86-64 and POWER lack one.
#[test]
fn probes_can_be_had_and_are_checked() {
    for machine in &MACHINES {
        let [one, other] = [machine.general[1], machine.general[3]];
        let object = Location::Reg(other, 8);
        for class in KINDS {
            let any = |result| Case {
                shape: CallShape::any_reg(512).result().args(1),
                locations: vec![Location::Reg(result, 8), object],
                sequence: cases::probe(class, arg(0), 0xfff),
                site: SITE,
            };
            let c = Case {
                shape: CallShape::c(512).result().args(1),
                locations: vec![object],
                sequence: cases::probe(class, live(0), 0xfff),
                site: SITE,
            };
            let same = any(other);
            for case in [&any(one), &same, &c] {
                let has_more = matches!(machine.arch, Arch::AArch64 | Arch::SystemZ | Arch::RiscV64);
                let is_refused = std::ptr::eq(case, &same) && !has_more;
                match assembled(machine.arch, case) {
                    Ok(_) if is_refused => panic!("{:?} has another register", machine.arch),
                    Ok(assembled) => at_site(machine.arch, case, |site, _| {
                        let checked = verify::check(site, &assembled.code, &[], &assembled.declared);
                        checked.unwrap_or_else(|error| panic!("{error}"));
                    }),
                    Err(error) => assert!(is_refused, "{error} on {:?}", machine.arch),
                }
            }
        }
    }
}
