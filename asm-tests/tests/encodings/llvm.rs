//! LLVM's assembler and disassembler.

use std::io::Write;
use std::process::{Command, Stdio};

use patchpoint::arch::Arch;

/// The options for an architecture.
fn options(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::AArch64 => &["-triple=aarch64", "-mattr=+lse"],
        Arch::PowerPc64 | Arch::PowerPc64ElfV2 => &["-triple=powerpc64"],
        Arch::PowerPc64Le => &["-triple=powerpc64le"],
        Arch::SystemZ => &["-triple=s390x", "-mcpu=z13"],
        Arch::RiscV64 => &["-triple=riscv64", "-mattr=+m,+a,+f,+d,+c", "-M", "no-aliases"],
        _ => &["-triple=x86_64"],
    }
}

fn run(program: &str, options: &[&str], input: String) -> Option<String> {
    let mut command = Command::new(program);
    command
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let mut stdin = child.stdin.take()?;
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().ok()?;
    writer.join().ok()?.ok()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.is_empty(), "{program} {options:?}: {errors}");
    String::from_utf8(output.stdout).ok()
}

/// The program, where version 19 is installed: others write some instructions otherwise.
pub fn llvm_mc() -> Option<&'static str> {
    ["llvm-mc-19", "llvm-mc"].into_iter().find(|program| {
        let version = Command::new(program).arg("--version").output();
        version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("version 19."))
    })
}

/// The text of each instruction: as many as there are.
pub fn disassemble(program: &str, arch: Arch, instructions: &[Vec<u8>]) -> Vec<String> {
    let hex = |bytes: &Vec<u8>| {
        bytes
            .iter()
            .map(|byte| format!("{byte:#04x} "))
            .collect::<String>()
            + "\n"
    };
    let input: String = instructions.iter().map(hex).collect();
    let mut all = vec!["--disassemble"];
    all.extend(options(arch));
    if arch == Arch::X86_64 {
        all.push("--output-asm-variant=1");
    }
    let output = run(program, &all, input).expect("llvm-mc disassembles");
    let lines = output.lines().filter(|line| !line.trim().starts_with(".text"));
    let spaces = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = lines.map(|line| spaces(line.split("# encoding").next().unwrap_or(line)));
    let mut texts = Vec::new();
    let mut prefix = String::new();
    for line in lines.filter(|line| !line.is_empty()) {
        match line.as_str() {
            // An instruction of its own for LLVM, on x86-64.
            "lock" => prefix = line + " ",
            _ => texts.push(core::mem::take(&mut prefix) + &line),
        }
    }
    let mut at = 0;
    for (text, bytes) in texts.iter_mut().zip(instructions) {
        relative(arch, text, at, bytes.len() as i64);
        at += bytes.len() as i64;
    }
    texts
}

/// Writes the target of a branch as a distance from the instruction, which is at `at` for LLVM:
/// on SystemZ it tells where the target is, on x86-64 how far from the instruction's end.
fn relative(arch: Arch, text: &mut String, at: i64, len: i64) {
    let Some((rest, target)) = text.rsplit_once([' ', ',']) else {
        return;
    };
    let distance = match arch {
        Arch::SystemZ => {
            let target = target
                .strip_prefix("0x")
                .and_then(|hex| u64::from_str_radix(hex, 16).ok());
            target.map(|target| target as i64 - at)
        }
        Arch::X86_64 if text.starts_with('j') || text.starts_with("call") => {
            target.parse().ok().map(|distance: i64| distance + len)
        }
        _ => None,
    };
    if let Some(distance) = distance {
        *text = format!("{rest} .{distance:+}");
    }
}

/// What the texts assemble to: each byte with a mask of its bits that are known. Those of a
/// branch's distance are not.
pub fn assemble(program: &str, arch: Arch, texts: &[String]) -> Vec<Vec<(u8, u8)>> {
    let mut all = vec!["-show-encoding"];
    all.extend(options(arch));
    if arch == Arch::X86_64 {
        all.push("-x86-asm-syntax=intel");
    }
    let line = |text: &String| match arch {
        Arch::RiscV64 if text.starts_with("c.") => format!(".option rvc\n{text}\n"),
        Arch::RiscV64 => format!(".option norvc\n{text}\n"),
        // The prefix is an instruction of its own for LLVM.
        Arch::X86_64 => format!("{}\n", text.trim_start_matches("lock ").replace(" .", " target")),
        _ => format!("{text}\n"),
    };
    let output = run(program, &all, texts.iter().map(line).collect()).expect("llvm-mc assembles");
    let encodings = output
        .lines()
        .filter_map(|line| line.split_once("encoding: [")?.1.split_once(']'));
    let bytes = encodings.map(|(bytes, _)| bytes.split(',').map(byte).collect::<Vec<_>>());
    let lock = |text: &String| text.starts_with("lock ").then_some((0xf0, 0xff));
    let all: Vec<_> = bytes.collect();
    assert_eq!(all.len(), texts.len());
    let with_lock = texts.iter().zip(all);
    with_lock
        .map(|(text, bytes)| lock(text).into_iter().chain(bytes).collect())
        .collect()
}

/// `0x12`, `A`, `0x12'A'` or `0b0001AAAA`.
fn byte(text: &str) -> (u8, u8) {
    let text = text.trim();
    if let Some(bits) = text.strip_prefix("0b") {
        let known = |bit: char| if matches!(bit, '0' | '1') { '1' } else { '0' };
        let value = |bit: char| if bit == '1' { '1' } else { '0' };
        let parse = |f: &dyn Fn(char) -> char| {
            u8::from_str_radix(&bits.chars().map(f).collect::<String>(), 2).unwrap()
        };
        return (parse(&value), parse(&known));
    }
    let Some(hex) = text.strip_prefix("0x") else {
        return (0, 0);
    };
    // Whatever a fixup still changes is not known.
    match hex.split_once('\'') {
        Some(_) => (0, 0),
        None => (u8::from_str_radix(hex, 16).unwrap(), 0xff),
    }
}
