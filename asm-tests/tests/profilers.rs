//! The real `perf` names functions and stubs by the jitdump; where it is installed and may record.
//!
//! The perf map it reads for anonymous memory only (`is_anon_memory` in tools/perf/util/map.c), so
//! that of the code here it names none by that.
//!
//! It records this program, which runs itself for that.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use patchpoint::deopt::ExitStubs;
use patchpoint::observe::JitDump;
use patchpoint::publish::NeverStopped;
use patchpoint::sequence::{Field, Sequence, Target, arg, result};
use patchpoint::{CallShape, Engine};

/// Where the program that is recorded writes.
const FOLDER: &str = "PATCHPOINT_PROFILED";
const OBJECT: &[u8] = include_bytes!("../../examples/objects/inline_cache.o");

/// What is recorded: a live inline cache that hits in one stub and then in another.
#[test]
fn profiled() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let exit_stubs = ExitStubs::new().on_miss(|frame| frame.resume());
    let builder = Engine::builder().world(NeverStopped).exits(exit_stubs);
    let dump = JitDump::create_in(folder).unwrap();
    let engine = builder.observer(dump).build().unwrap();
    let code = engine.load(OBJECT, |_| None).unwrap();
    let shape = CallShape::any_reg(32).result().args(1);
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe {
        engine
            .registration(code)
            .live()
            .register(|record| (record.id().get() == 78).then_some(shape))
    }
    .unwrap();
    module.release();
    let get = module.function("get").unwrap();
    // SAFETY: that is its signature in the IR, and the module stays registered.
    let get = unsafe { get.typed::<extern "C" fn(&[u64; 4]) -> u64>() }.unwrap();
    for offset in [16, 24] {
        let hit = Sequence::new()
            .guard_eq(u32::at(arg(0), 8), 0x17, Target::Miss)
            .load(result(), u64::at(arg(0), offset));
        engine.patch(78, &hit).unwrap();
        let object = [0, 0x17, 16, 24];
        for _ in 0..4_000_000 {
            // Eight, so that it is not all loop.
            let sum = [(); 8].map(|()| get(&object)).iter().sum::<u64>();
            assert_eq!(sum, 8 * offset as u64);
        }
    }
}

/// `perf` with arguments, in a folder.
fn perf(folder: &Path, arguments: &[&str]) -> Option<Output> {
    let mut perf = Command::new("perf");
    perf.args(arguments).current_dir(folder).env("HOME", folder);
    perf.env(FOLDER, folder).output().ok()
}

/// How many samples there are of each name that begins so.
fn samples(folder: &Path, data: &str, prefix: &str) -> Vec<(String, usize)> {
    let script = perf(folder, &["script", "-i", data, "-F", "ip,sym"]).unwrap();
    assert!(script.status.success(), "{script:?}");
    let text = String::from_utf8(script.stdout).unwrap();
    let mut found: Vec<(String, usize)> = Vec::new();
    let names = text
        .lines()
        .filter_map(|line| Some(line.trim().split_once(' ')?.1));
    for name in names.filter(|name| name.starts_with(prefix)) {
        match found.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => found.push((name.into(), 1)),
        }
    }
    found.sort();
    found
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn perf_names_functions_and_stubs() {
    if std::env::var_os(FOLDER).is_some() {
        return;
    }
    let folder = Folder(std::env::temp_dir().join(format!("patchpoint-profilers-{}", std::process::id())));
    fs::create_dir(&folder.0).unwrap();
    let program = std::env::current_exe().unwrap();
    let record = ["record", "-q", "-k", "1", "-e", "cpu-clock", "-o", "recorded"];
    let test = [program.to_str().unwrap(), "--exact", "profiled"];
    let recorded = perf(&folder.0, &[&record[..], &test[..]].concat());
    match recorded {
        Some(output) if output.status.success() => {}
        other => {
            println!("not shown: perf is not installed, or may not record: {other:?}");
            return;
        }
    }
    let injected = perf(
        &folder.0,
        &["inject", "--jit", "-i", "recorded", "-o", "injected"],
    )
    .unwrap();
    assert!(injected.status.success(), "{injected:?}");
    let found = samples(&folder.0, "injected", "get");
    println!("{found:?}");
    for name in ["get", "get+0x4.id78.stub1", "get+0x4.id78.stub2"] {
        let count = found.iter().find(|(known, _)| known == name);
        assert!(count.is_some_and(|(_, count)| *count > 5), "{name}: {found:?}");
    }
}
