//! Compares what `patchpoint sites --ir` says of random IR with what the IR is:
//! `cargo run -p asm-tests --bin random_ir -- --count 800 --seed 1`.
//!
//! It needs llc and opt of LLVM 19 (`llc-19`) or 14 (`llc-14`) on the path, and the tool, which
//! `cargo build -p patchpoint-cli` puts beside it; or `--tool PROGRAM`. Where RANDOM_IR_KEEP is set
//! in the environment, the files of the last module stay.
#![expect(clippy::panic, reason = "a program that is run by hand")]

use std::collections::BTreeMap;
use std::process::ExitCode;

use asm_tests::random_ir::{Tally, Workspace, llvms, module};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (mut count, mut seed, mut tool) = (400, 1, None);
    while let Some(arg) = args.next() {
        let value = args.next().unwrap_or_else(|| panic!("{arg} has no value"));
        let number = || {
            value
                .parse()
                .unwrap_or_else(|_| panic!("{arg} {value}: no number"))
        };
        match arg.as_str() {
            "--count" => count = number(),
            "--seed" => seed = number(),
            "--tool" => tool = Some(value.into()),
            _ => panic!("--count MODULES, --seed NUMBER or --tool PROGRAM, not {arg}"),
        }
    }
    let tool = tool.unwrap_or_else(|| {
        let here = std::env::current_exe().unwrap_or_default();
        here.with_file_name("patchpoint")
    });
    assert!(
        tool.exists(),
        "{} is missing: build it with cargo build -p patchpoint-cli",
        tool.display()
    );
    let llvms = llvms();
    assert!(
        !llvms.is_empty(),
        "neither llc-19 and opt-19 nor llc-14 and opt-14 are on the path"
    );
    let folder = std::env::temp_dir().join(format!("random_ir-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let place = Workspace { folder, tool };
    let (mut all, mut by_target) = (Tally::default(), BTreeMap::<_, Tally>::new());
    for seed in seed..seed + count {
        let (target, tally) = module(&place, &llvms, seed);
        for wrong in &tally.wrong {
            println!("wrong: {wrong}");
        }
        by_target.entry(target.triple()).or_default().add(tally.clone());
        all.add(tally);
    }
    if std::env::var_os("RANDOM_IR_KEEP").is_some() {
        println!("{}", place.folder.display());
        return ExitCode::FAILURE;
    }
    // What cannot be removed is left to the system.
    let _ = std::fs::remove_dir_all(&place.folder);
    for (triple, tally) in by_target {
        println!("{triple}: {tally}");
    }
    println!("all, from seed {seed}: {all}");
    match all.wrong.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
