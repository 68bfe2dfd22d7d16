//! Loading a large object against LLVM's own linker for JITs.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use patchpoint::addr::CodeAddr;

use super::{Goal, Speed};
use crate::measure::{Figure, time};
use crate::program;
use crate::subject;

const FUNCTIONS: usize = 20_000;
/// The other takes many seconds.
const TURNS: usize = 2;
/// Ours in a turn.
const LOADS: usize = 5;

/// The row, if there is the compiler.
pub(super) fn all() -> Vec<Speed> {
    let Some(file) = compiled() else {
        println!("loading: - there is no llc here that compiles the object\n");
        return Vec::new();
    };
    let rows = vec![row(&file)];
    _ = std::fs::remove_file(file);
    rows
}

fn row(file: &Path) -> Speed {
    let object = std::fs::read(file).unwrap();
    println!("an object of {FUNCTIONS} functions, {} bytes\n", object.len());
    let engine = subject::engine();
    let load = || {
        let mut code = None;
        let took = time(|| code = Some(engine.load(&object, |_| Some(CodeAddr::new(0x1000))).unwrap()));
        drop(code);
        took.as_nanos() as f64
    };
    let jitlink = Linker::find();
    let link = || match &jitlink {
        Some(linker) => time(|| linker.link(file)).as_nanos() as f64,
        None => 0.0,
    };
    let (mut loads, mut links) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        loads.extend((0..LOADS).map(|_| load()));
        links.push(link());
    }
    let [ours, theirs] = [loads, links].map(Figure::of);
    Speed {
        what: "loading an object of 20,000 functions with patchpoints",
        ours,
        theirs: Some((
            "llvm-jitlink -noexec, the whole process",
            match jitlink {
                Some(_) => Ok(theirs),
                None => Err("there is no llvm-jitlink here"),
            },
        )),
        goal: Goal::Faster(50.0),
    }
}

struct Linker(PathBuf);

impl Linker {
    fn find() -> Option<Self> {
        tool("llvm-jitlink").map(Self)
    }

    fn link(&self, file: &Path) {
        let mut command = Command::new(&self.0);
        let done = command.args(["-noexec", "-entry", "f0"]).arg(file).status();
        assert!(done.unwrap().success());
    }
}

/// A tool of LLVM 19, where Debian's package puts it or as it is found.
fn tool(name: &str) -> Option<PathBuf> {
    let places = [
        format!("/usr/lib/llvm-19/bin/{name}"),
        format!("{name}-19"),
        name.to_owned(),
    ];
    let runs = |place: &&String| {
        let mut command = Command::new(place);
        let command = command
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    places.iter().find(runs).map(PathBuf::from)
}

/// Functions of five patchpoints each, compiled.
fn compiled() -> Option<PathBuf> {
    let llc = tool("llc")?;
    let (source, object) = (program::temporary("large.ll"), program::temporary("large.o"));
    std::fs::write(&source, ir()).ok()?;
    let done = Command::new(llc)
        .args(["-O1", "-filetype=obj", "-mtriple=x86_64-linux-gnu", "-o"])
        .arg(&object)
        .arg(&source)
        .status();
    _ = std::fs::remove_file(source);
    done.ok()?.success().then_some(object)
}

fn ir() -> String {
    let mut ir = String::from(
        "declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)\n\
         declare void @use(i64)\n",
    );
    for function in 0..FUNCTIONS {
        let _ = writeln!(
            ir,
            "define i64 @f{function}(i64 %a, i64 %b, i64 %c, i64 %d) {{\n  %slot = alloca i64\n  %s0 = add i64 %a, %b"
        );
        for site in 0..5 {
            let id = 5 * function + site;
            let _ = writeln!(
                ir,
                "  %s{} = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 {id}, \
                 i32 32, ptr inttoptr (i64 73588229205 to ptr), i32 1, i64 %s{site}, i64 %b, i64 %c, i64 %d, \
                 i64 17, ptr %slot, i64 %a)",
                site + 1
            );
        }
        let _ = writeln!(ir, "  ret i64 %s5\n}}");
    }
    ir
}
