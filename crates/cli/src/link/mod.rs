//! The command `link`: one graph of all files, its checks, a call of its entry.
//!
//! The way of the data: [`Link`] says what is wanted; the files and [`members`] of archives are read,
//! and their checks found;
//! the library links the graph, into this process's memory or at an address that is only thought of
//! ([`place`]); on its way, when all bytes are final, [`view`] answers what the [`check`]s ask and
//! [`Linked`] keeps what is to be told; then the entry is called, and [`show`] tells it.

mod check;
mod members;
mod place;
mod show;
mod view;

use std::ffi::CString;
use std::fs;

use patchpoint::Error;
use patchpoint::addr::CodeAddr;
use patchpoint::arch::Arch;
use patchpoint::image::{
    self, Definition, Fixed, Graph, LinkedImage, MemoryManager, ObjectFormat, Passes, Scope, Section,
    SectionRole, SegmentKind, Symbol, SymbolLookup,
};

use crate::args::{Link, Output};
use crate::call::{self, Program};
use crate::paint::Paint;
use crate::problem::Problem;
use crate::{Outcome, json};
use check::Check;
use place::AtAddress;
use view::View;

/// A file's checks.
struct Checks {
    file: String,
    checks: Vec<Check>,
}

/// What is told of the linked graph.
struct Linked {
    arch: Arch,
    segments: Vec<(SegmentKind, CodeAddr, usize)>,
    /// By address.
    symbols: Vec<(CodeAddr, String)>,
    /// By file and check, as they were given.
    outcomes: Vec<Vec<check::Outcome>>,
}

/// All of it.
struct Story<'l> {
    link: &'l Link,
    checks: Vec<Checks>,
    linked: Linked,
    /// What the entry returned, if it was called.
    status: Option<u8>,
}

/// What is to be printed, and how it ended.
pub(crate) fn render(link: &Link, paint: Paint) -> Result<(String, Outcome), Problem> {
    let story = tell(link)?;
    let outcome = match story.status {
        Some(status) => Outcome::Ended(status),
        None if story.linked.all_hold() => Outcome::Fine,
        None => Outcome::Found,
    };
    let printed = match link.format {
        Output::Text => show::as_text(&story, paint),
        Output::Json => json::print(&show::as_json(&story))?,
    };
    Ok((printed, outcome))
}

fn tell(link: &Link) -> Result<Story<'_>, Problem> {
    let checks = link.check.iter().map(|file| read_checks(file, &link.check_name));
    let checks = checks.collect::<Result<Vec<_>, _>>()?;
    let parts = members::parts(&link.files)?;
    let entry = (!link.noexec).then_some(link.entry.as_str());
    let mut graph = members::graph(&parts, entry)?;
    define_handle(&mut graph)?;
    graph.set_size_limit(link.limit);
    check_defines(link, &mut graph)?;
    let mut linked = None;
    let mut passes = Passes::new().after_fix_ups(|fixed| {
        linked = Some(Linked::of(fixed, &checks, &link.define));
        Ok(())
    });
    if link.relax {
        passes = passes.before_fix_ups(image::relax);
    }
    let lookup = |name: &str| match defined(link, name) {
        None if !link.noexec => call::symbol(name),
        defined => defined,
    };
    let program = match link.noexec {
        true => {
            let memory = AtAddress(CodeAddr::new(link.base));
            link_into(&memory, graph, &mut passes, &lookup).map_err(|error| undefined(error, ""))?;
            None
        }
        false => Some(load(link, graph, &mut passes, &lookup)?),
    };
    drop(passes);
    // The passes have run where linking has succeeded.
    let linked = linked.ok_or_else(|| Problem::Run("was not linked".to_owned()))?;
    let status = match program {
        // protection: a-failing-check-keeps-the-program-from-running
        Some(program) if linked.all_hold() => Some(run(link, program)?),
        _ => None,
    };
    Ok(Story {
        link,
        checks,
        linked,
        status,
    })
}

fn read_checks(file: &str, names: &[String]) -> Result<Checks, Problem> {
    let bytes = fs::read(file).map_err(|error| Problem::Read(error).of(file))?;
    let names: Vec<&str> = match names {
        [] => check::NAMES.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    let checks = Check::all(&String::from_utf8_lossy(&bytes), &names);
    // protection: a-file-without-checks-is-no-success
    if checks.is_empty() {
        return Err(Problem::NoChecks(names.join(" or ")).of(file));
    }
    Ok(Checks {
        file: file.to_owned(),
        checks,
    })
}

/// What stands for a program or library where it registers destructors (Itanium C++ ABI, section
/// 3.3.5): the compiler has it in an object of its own that every link gets.
const HANDLE: &str = "__dso_handle";

fn define_handle(graph: &mut Graph<'_>) -> Result<(), Problem> {
    let wanted = graph.find(HANDLE).and_then(|id| graph.symbols().get(id.index()));
    if !wanted.is_some_and(|symbol| matches!(symbol.definition(), Definition::Undefined { .. })) {
        return Ok(());
    }
    let section = graph.add_section(Section::new(HANDLE, SectionRole::Data, vec![0; 8]))?;
    let symbol = Symbol::new(HANDLE, Definition::Section(section, 0)).with_scope(Scope::Hidden);
    graph.add_symbol(symbol)?;
    Ok(())
}

/// Links with nothing to wait for.
fn link_into<M: MemoryManager>(
    memory: &M,
    graph: Graph<'_>,
    passes: &mut Passes<'_>,
    lookup: &impl SymbolLookup<Error = image::Error>,
) -> patchpoint::Result<image::Linked<M::Finalized>>
where
    Error: From<M::Error>,
{
    Ok(image::at_once(image::link(graph, passes, memory, lookup))?)
}

/// Into this process, where it stays.
fn load(
    link: &Link,
    graph: Graph<'_>,
    passes: &mut Passes<'_>,
    lookup: &impl SymbolLookup<Error = image::Error>,
) -> Result<LinkedImage, Problem> {
    for library in &link.library {
        call::load_library(library).map_err(|why| Problem::SharedLibrary(why).of(library))?;
    }
    match Arch::host() {
        // protection: foreign-code-is-not-executed
        Some(host) if host == graph.arch() => {}
        host => return Err(Problem::Foreign(graph.arch(), host)),
    }
    let linked = link_into(&call::memory(CHUNK), graph, passes, lookup)
        .map_err(|error| undefined(error, ", or the object that defines it"))?;
    // What the program asks for at the process's end is called in it then.
    // protection: code-stays-until-the-process-ends
    std::mem::forget(linked.memory);
    Ok(linked.image)
}

/// The least that is reserved for a program.
const CHUNK: u64 = 2 << 20;

/// What is told of a symbol that the objects define would not count: that is said. That of the
/// address which COFF's 32-bit addresses count from becomes a definition.
fn check_defines(link: &Link, graph: &mut Graph<'_>) -> Result<(), Problem> {
    for told in &link.define {
        if graph.format() == ObjectFormat::Coff && told.name == IMAGE_BASE {
            let base = Symbol::new(IMAGE_BASE, Definition::Absolute(told.addr));
            graph.add_symbol(base.with_scope(Scope::Hidden))?;
            continue;
        }
        let found = graph
            .find(&told.name)
            .and_then(|id| graph.symbols().get(id.index()));
        if found.is_some_and(|symbol| !matches!(symbol.definition(), Definition::Undefined { .. })) {
            // protection: definitions-that-would-not-count-are-refused
            return Err(Problem::DefinedTwice(told.name.clone()));
        }
    }
    Ok(())
}

/// What COFF's 32-bit addresses count from.
const IMAGE_BASE: &str = "__ImageBase";

fn defined(link: &Link, name: &str) -> Option<CodeAddr> {
    let told = link.define.iter().find(|symbol| symbol.name == name)?;
    Some(CodeAddr::new(told.addr))
}

/// In this tool's words.
fn undefined(error: Error, or: &'static str) -> Problem {
    match error {
        Error::Link(image::Error::SymbolsUnresolved { symbols }) => Problem::Undefined(symbols, or),
        error => error.into(),
    }
}

/// Calls the entry.
fn run(link: &Link, image: LinkedImage) -> Result<u8, Problem> {
    let entry = image.symbol(&link.entry).ok_or_else(|| {
        let functions = image
            .image
            .functions
            .iter()
            .map(|function| function.name.as_str());
        let callable = functions.filter(|name| image.symbol(name).is_some());
        let have: Vec<&str> = callable.take(MOST_NAMED).collect();
        Problem::NoEntry {
            entry: link.entry.clone(),
            have: have.join(" or "),
        }
    })?;
    let named = link.files.first().into_iter().chain(&link.args);
    let args = named.map(|arg| CString::new(arg.as_str()).map_err(|_| Problem::ZeroByte(arg.clone())));
    let args = args.collect::<Result<Vec<_>, _>>()?;
    let environment = std::env::vars_os().filter_map(|(name, value)| {
        let entry = [name.into_encoded_bytes(), value.into_encoded_bytes()].join(&b'=');
        CString::new(entry).ok()
    });
    let program = Program {
        constructors: image.constructors,
        entry,
        destructors: image.destructors,
    };
    let status = call::start(program, args, environment.collect());
    // As a parent process sees it.
    status
        .map(|status| status as u8)
        .ok_or_else(|| Problem::Run("has destructors of which the C library takes no note".to_owned()))
}

/// So many functions are named to somebody who has named none of them.
const MOST_NAMED: usize = 8;

impl Linked {
    fn of(fixed: &Fixed<'_, '_>, checks: &[Checks], defines: &[crate::args::Symbol]) -> Self {
        let image = fixed.image();
        let view = View::of(fixed.resolved(), image, defines);
        let outcomes = checks.iter().map(|of_file| {
            let checks = of_file.checks.iter();
            checks.map(|check| check.evaluate(&view)).collect()
        });
        let segments = image.segments.iter();
        let mut symbols: Vec<_> = image
            .symbols()
            .map(|(name, addr)| (addr, name.to_owned()))
            .collect();
        symbols.sort();
        Self {
            arch: image.image.arch,
            segments: segments
                .map(|segment| (segment.kind, segment.addr, segment.size.as_usize()))
                .collect(),
            symbols,
            outcomes: outcomes.collect(),
        }
    }

    fn all_hold(&self) -> bool {
        let mut outcomes = self.outcomes.iter().flatten();
        outcomes.all(|outcome| matches!(outcome, check::Outcome::Holds(_)))
    }
}
