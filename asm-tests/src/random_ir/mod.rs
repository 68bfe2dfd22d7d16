//! Random IR with sites of which the generator knows everything, compiled by LLVM, and what the
//! command-line tool makes of it.
//!
//! IDs repeat, with equal and with different shapes, within a function, across functions and by
//! inlining. What a record is of, is known by a second object, of the same IR but for the IDs:
//! there each call has its own. As IDs are in the stack map only, the code is the same, and so the
//! records of both objects are the same one by one. The tool is given the IR with the IDs that
//! repeat, as it was written and as `opt` left it, and must name for each record the shape of its
//! call, or refuse it.

mod compare;
mod json;
mod write;

use crate::tools::is_there;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use compare::{RecordRow, compare, rows};
use write::{Written, write};

/// xorshift64*: the same IR for the same seed everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Seeds are told apart from the first number on.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// What LLVM compiles for.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    triple: &'static str,
    /// Every length is a multiple of it.
    unit: u32,
    statepoints: bool,
    /// Conventions that are neither anyregcc nor C.
    conventions: &'static [&'static str],
    /// LLVM 14 writes stack maps for it, too.
    old: bool,
}

impl Target {
    /// As LLVM names it.
    #[must_use]
    pub fn triple(&self) -> &'static str {
        self.triple
    }
}

const fn target(triple: &'static str, unit: u32, statepoints: bool, old: bool) -> Target {
    Target {
        triple,
        unit,
        statepoints,
        // On x86-64 only, LLVM knows all of them.
        conventions: match (unit, statepoints) {
            (1, _) => &[
                "fastcc",
                "coldcc",
                "preserve_mostcc",
                "preserve_allcc",
                "cc 8",
                "cc  9",
            ],
            (_, true) => &["fastcc", "preserve_mostcc", "cc 8"],
            _ => &["fastcc", "cc  8"],
        },
        old,
    }
}

/// ELF for five architectures, Mach-O for two, COFF.
pub const TARGETS: [Target; 9] = [
    target("x86_64-unknown-linux-gnu", 1, true, true),
    target("aarch64-unknown-linux-gnu", 4, true, true),
    target("x86_64-apple-macosx", 1, true, true),
    target("x86_64-pc-windows-msvc", 1, true, false),
    target("riscv64-unknown-linux-gnu", 4, false, false),
    target("powerpc64le-unknown-linux-gnu", 4, false, true),
    target("arm64-apple-macosx", 4, true, true),
    target("s390x-unknown-linux-gnu", 2, false, true),
    target("powerpc64-unknown-linux-gnu", 4, false, true),
];

/// A version of LLVM, as its programs are called.
#[derive(Clone, Copy, Debug)]
pub struct Llvm {
    llc: &'static str,
    opt: &'static str,
    flags: &'static [&'static str],
    is_old: bool,
}

const LLVMS: [Llvm; 2] = [
    Llvm {
        llc: "llc-19",
        opt: "opt-19",
        flags: &[],
        is_old: false,
    },
    Llvm {
        llc: "llc-14",
        opt: "opt-14",
        flags: &["-opaque-pointers"],
        is_old: true,
    },
];

/// Those that are there.
#[must_use]
pub fn llvms() -> Vec<Llvm> {
    LLVMS
        .into_iter()
        .filter(|llvm| is_there(llvm.llc) && is_there(llvm.opt))
        .collect()
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The modules that were compiled and compared.
    pub modules: usize,
    /// Those that this LLVM does not compile, or whose code depends on the IDs.
    pub left_out: usize,
    /// The records of which the tool said what the call is.
    pub right: usize,
    /// Those among them that become sites.
    pub registered: usize,
    /// Statepoints that are shown as such.
    pub statepoints: usize,
    /// Those that were refused as the IR leaves several calls.
    pub ambiguous: usize,
    /// Those that were refused for their convention.
    pub conventions: usize,
    /// Those that were refused for another reason: what LLVM left there is no site.
    pub refused: usize,
    /// Records whose ID is that of calls of several shapes in the IR.
    pub doubtful: usize,
    /// Records that were taken for statepoints where no IR was given, and are none.
    pub mistaken: usize,
    /// What was said that is not so, with its module.
    pub wrong: Vec<String>,
}

impl Tally {
    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.modules += other.modules;
        self.left_out += other.left_out;
        self.right += other.right;
        self.registered += other.registered;
        self.statepoints += other.statepoints;
        self.ambiguous += other.ambiguous;
        self.conventions += other.conventions;
        self.refused += other.refused;
        self.doubtful += other.doubtful;
        self.mistaken += other.mistaken;
        self.wrong.extend(other.wrong);
    }

    /// The number of records that were compared.
    #[must_use]
    pub fn records(&self) -> usize {
        self.right + self.ambiguous + self.conventions + self.refused + self.wrong.len()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} modules ({} left out), {} records, {} of them with an ID of several shapes: {} right ({} sites, {} statepoints), {} \
             refused as ambiguous, {} by convention, {} by the audit, {} wrong; without IR, {} taken for statepoints",
            self.modules,
            self.left_out,
            self.records(),
            self.doubtful,
            self.right,
            self.registered,
            self.statepoints,
            self.ambiguous,
            self.conventions,
            self.refused,
            self.wrong.len(),
            self.mistaken
        )
    }
}

/// Where it is done.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// A folder for files.
    pub folder: PathBuf,
    /// The program `patchpoint`.
    pub tool: PathBuf,
}

/// Generates the module of a seed, compiles it, and compares. Which target, LLVM and level it is
/// for depends on the seed.
///
/// # Panics
///
/// If files cannot be written, or the tool does not run.
#[must_use]
pub fn module(place: &Workspace, llvms: &[Llvm], seed: u64) -> (Target, Tally) {
    let mut random = Random::new(seed);
    let llvm = random.one_of(llvms);
    // Half of them for the first.
    let target = match random.percent(30) {
        true => TARGETS[0],
        false => random.one_of(&TARGETS),
    };
    let mut tally = Tally::default();
    if llvm.is_old && !target.old {
        return (target, tally);
    }
    let written = write(&mut random, &target, llvm.is_old);
    let optimized = random.percent(50);
    let level = if random.percent(30) { "-O0" } else { "-O2" };
    match compiled(place, &llvm, &target, &written, optimized, level) {
        Some(compiled) => {
            tally.modules = 1;
            for (name, ir) in &compiled.irs {
                let what = format!("seed {seed}, {} {level} for {}, {name}", llvm.llc, target.triple);
                judge(place, &written, &compiled, ir, &what, &mut tally);
            }
        }
        None => tally.left_out = 1,
    }
    (target, tally)
}

/// An object with IDs that repeat, and what is known of its records.
struct Compiled {
    object: PathBuf,
    irs: Vec<(&'static str, PathBuf)>,
    /// The records of the object whose IDs do not repeat, each with its call.
    truth: Vec<(RecordRow, usize)>,
}

fn run(program: &str, args: &[&str]) -> bool {
    let output = Command::new(program).args(args).output();
    output.is_ok_and(|output| output.status.success())
}

fn compiled(
    place: &Workspace,
    llvm: &Llvm,
    target: &Target,
    written: &Written,
    optimized: bool,
    level: &str,
) -> Option<Compiled> {
    let path = |name: &str| place.folder.join(name);
    let put = |name: &str, text: &str| {
        let path = path(name);
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    };
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let unique = put("unique.ll", &written.text);
    let mut irs = vec![("as written", put("written.ll", &written.repeated(&written.text)))];
    let mut compiled = unique;
    if optimized {
        let out = path("unique.opt.ll");
        let args = ["-O2", "-S", &text(&compiled), "-o", &text(&out)];
        if !run(llvm.opt, &[llvm.flags, &args[..]].concat()) {
            return None;
        }
        let left = std::fs::read_to_string(&out).ok()?;
        irs.push(("as optimized", put("optimized.ll", &written.repeated(&left))));
        compiled = out;
    }
    let (_, repeated) = irs.last()?;
    let llc = |ir: &Path, object: &Path| {
        let triple = format!("-mtriple={}", target.triple);
        let (ir, object) = (text(ir), text(object));
        let args = [
            level,
            &triple,
            "-filetype=obj",
            "-enable-patchpoint-liveness=false",
            &ir,
            "-o",
            &object,
        ];
        run(llvm.llc, &[llvm.flags, &args[..]].concat())
    };
    let (truth, object) = (path("unique.o"), path("repeated.o"));
    if !llc(&compiled, &truth) || !llc(repeated, &object) {
        return None;
    }
    let known = rows(place, &truth, &["--shape", "*=none"]);
    let known: Vec<_> = known
        .into_iter()
        .map(|row| {
            let call = written.call_of(row.id).unwrap_or_else(|| panic!("{row:?}"));
            (row, call)
        })
        .collect();
    // Where two calls of one ID were merged, the code is another.
    let same = rows(place, &object, &["--shape", "*=none"]);
    let is_same = |(row, (known, call)): (&RecordRow, &(RecordRow, usize))| {
        row.place() == known.place() && row.id == written.calls[*call].id as u64
    };
    let all = same.len() == known.len() && same.iter().zip(&known).all(is_same);
    all.then_some(Compiled {
        object,
        irs,
        truth: known,
    })
}

fn judge(
    place: &Workspace,
    written: &Written,
    compiled: &Compiled,
    ir: &Path,
    what: &str,
    tally: &mut Tally,
) {
    if compiled.truth.is_empty() {
        return;
    }
    let ir = ir.to_string_lossy();
    let with_ir = rows(place, &compiled.object, &["--ir", &ir]);
    compare(written, &compiled.truth, &with_ir, what, tally);
    // Without any, a statepoint must be seen as one. Another record may look like one: constants
    // are what the program chose.
    for (row, (known, call)) in rows(place, &compiled.object, &[]).iter().zip(&compiled.truth) {
        let is_one = written.calls[*call].is_statepoint();
        // Of two records at one address the order is not told.
        if row.id != written.calls[*call].id as u64 {
            continue;
        }
        match (row.state == "statepoint", is_one) {
            (false, true) => tally
                .wrong
                .push(format!("{what}: without IR, {row:?} of {known:?}")),
            (true, false) => tally.mistaken += 1,
            _ => {}
        }
    }
}
