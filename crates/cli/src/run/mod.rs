//! The command `run`: an engine with one module, a call before and a call after it was changed.

mod show;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use patchpoint::addr::CodeAddr;
use patchpoint::deopt::{ExitStubs, Frame};
use patchpoint::engine::Status;
use patchpoint::site::{self, Module, Site};
use patchpoint::verify::{self, Original};
use patchpoint::{Engine, Error, image};

use crate::args::{Argument, Arguments, Output, Run};
use crate::call;
use crate::files::{Input, Printed};
use crate::image::PlacedCode;
use crate::ir::Matches;
use crate::names::{Listed, Names};
use crate::object_file::ObjectFile;
use crate::paint::Paint;
use crate::problem::Problem;
use crate::progress::Progress;
use crate::shapes::{RecordShape, Shapes};
use crate::survey::RecordPlace;

/// What was done, in order.
struct Story<'r> {
    run: &'r Run,
    /// `None`: it was not asked for.
    before: Option<Result<Called, String>>,
    changes: Vec<AppliedChange>,
    after: Option<Result<Called, String>>,
    sites: Vec<SiteContent>,
}

/// A call and what came of it.
struct Called {
    result: u64,
    /// What the arrays hold then, by argument.
    arrays: Vec<Option<Vec<u64>>>,
    events: Vec<Event>,
}

/// An exit stub was entered.
#[derive(Clone)]
struct Event {
    what: &'static str,
    id: u64,
    function: String,
    offset: u32,
    values: Vec<String>,
}

struct AppliedChange {
    what: String,
    sites: usize,
}

/// What a site holds at the end.
struct SiteContent {
    place: RecordPlace,
    reserved: u32,
    status: Status,
    listing: Vec<Listed>,
}

type Events = Arc<Mutex<Vec<Event>>>;

pub(crate) fn render(run: &Run, input: &Input<'_>, paint: Paint) -> Result<Printed, Problem> {
    let story = tell(run, input.data)?;
    Ok(match run.known.format {
        Output::Text => Printed::Text(show::as_text(&story, paint)),
        Output::Json => Printed::Json(show::as_json(&story)),
    })
}

fn tell<'r>(run: &'r Run, data: &[u8]) -> Result<Story<'r>, Problem> {
    let shapes = Shapes::read(&run.known)?;
    // What is no object at all is said in the words of the other commands.
    let file = ObjectFile::parse(data)?;
    file.check_maps()?;
    // Records are known by their place in the section, wherever the code is.
    let matches = shapes.matches(&file, &PlacedCode::of(data, &file, None)?, true)?;
    let events = Events::default();
    let engine = engine(&events)?;
    let mut names = Names::default();
    let module = load(run, data, &engine, (&shapes, &matches), &mut names)?;
    let function = module.function(&run.call).map_err(|error| {
        let functions: Vec<_> = module.functions().map(|f| f.name().to_owned()).collect();
        Problem::Run(format!("{error}: it has {}", functions.join(", ")))
    })?;
    module.release();
    let entry = function.entry()?;
    let call = || {
        unknown_call_target(run, &engine, &module, &names)
            .map_or_else(|| Ok(execute(entry, &run.args, &events)), Err)
    };
    let changed = !run.patch.is_empty() || !run.invalidate.is_empty();
    let before = (!run.only_after || !changed).then(call);
    let changes = change(run, &engine, &module)?;
    let after = changed.then(call);
    if let (Some(Err(why)), None) | (_, Some(Err(why))) = (&before, &after) {
        return Err(Problem::Run(why.clone()));
    }
    let sites = held(&engine, &module, &names, &run.call)?;
    Ok(Story {
        run,
        before,
        changes,
        after,
        sites,
    })
}

fn engine(events: &Events) -> Result<Engine, Problem> {
    let (missed, deopted) = (Arc::clone(events), Arc::clone(events));
    let exit_stubs = ExitStubs::new()
        .on_miss(move |frame| {
            note(&missed, "miss", frame);
            // A site without a result needs none.
            let _ = frame.set_result(0);
            frame.resume()
        })
        .on_deopt(move |frame| {
            note(&deopted, "deopt", frame);
            frame.resume()
        });
    Ok(Engine::builder().world(call::world()).exits(exit_stubs).build()?)
}

fn note(events: &Events, what: &'static str, frame: &Frame<'_>) {
    let site = frame.context();
    let locations = site.record.map_or(0, |record| record.locations().len());
    let value = |index| match frame.value(index) {
        Ok(value) => match value.u64() {
            Some(number) => format!("{number:#x}"),
            None => crate::names::hex(value.bytes(), " "),
        },
        Err(error) => error.to_string(),
    };
    events.lock().unwrap_or_else(PoisonError::into_inner).push(Event {
        what,
        id: site.id.get(),
        function: site.function.unwrap_or("").to_owned(),
        offset: site.offset.get(),
        values: (0..locations).map(value).collect(),
    });
}

/// Loads and registers the object.
fn load(
    run: &Run,
    data: &[u8],
    engine: &Engine,
    (shapes, matches): (&Shapes, &Matches),
    names: &mut Names,
) -> Result<Module, Problem> {
    let resolved = std::cell::RefCell::new(Vec::new());
    let resolve = |name: &str| {
        let told = run.symbol.iter().find(|symbol| symbol.name == name);
        let addr = told.map(|symbol| CodeAddr::new(symbol.addr));
        let addr = addr.or_else(|| run.libc.then(|| call::symbol(name)).flatten())?;
        resolved.borrow_mut().push((addr, name.to_owned()));
        Some(addr)
    };
    let code = engine.load(data, resolve).map_err(|error| match error {
        Error::Link(image::Error::SymbolsUnresolved { symbols }) => Problem::Run(format!(
            "does not define {}: give --symbol NAME=ADDRESS, or --libc for the C library's",
            symbols.join(", ")
        )),
        error => error.into(),
    })?;
    let registration = engine.registration(code);
    let registration = if run.live {
        registration.live()
    } else {
        registration
    };
    let arch = patchpoint::arch::Arch::host();
    let mut progress = Progress::new("records");
    let module = call::register(registration, |record| {
        progress.step();
        let known = arch.map(|arch| shapes.of(arch, record, matches));
        Ok(match known {
            Some(Ok(RecordShape::Site(shape, _))) => Some(shape),
            // Without a length it is no site.
            Some(Ok(_) | Err(site::Error::ReservedLengthAmbiguous { .. })) | None => None,
            Some(Err(error)) => return Err(error),
        })
    })?;
    drop(progress);
    *names = Names::of_module(&module);
    for (addr, name) in resolved.into_inner() {
        names.add(addr, name);
    }
    Ok(module)
}

/// The first site, if any, that holds LLVM's own call to where nothing is known to be.
fn unknown_call_target(run: &Run, engine: &Engine, module: &Module, names: &Names) -> Option<String> {
    if run.trust_calls {
        return None;
    }
    module.sites().find_map(|site| {
        let target = called_by_llvm(engine, &site)?;
        if names.get(target).is_some() {
            return None;
        }
        let place = RecordPlace::of_site(&site);
        Some(format!(
            "record {} at {place} holds LLVM's call of {target}, and nothing is known to be there: give --patch {}=..., or \
             --trust-calls",
            place.id, place.id
        ))
    })
}

fn called_by_llvm(engine: &Engine, site: &Site) -> Option<CodeAddr> {
    if engine.status(site) != Status::Original {
        return None;
    }
    let bytes = site.read().ok()?;
    match verify::original(site.module().arch(), site.addr(), &bytes) {
        Ok(Original::LlvmCall { target, .. }) => Some(target),
        _ => None,
    }
}

fn execute(entry: CodeAddr, args: &Arguments, events: &Events) -> Called {
    let mut arrays: Vec<Option<Vec<u64>>> = args
        .0
        .iter()
        .map(|argument| match argument {
            Argument::Number(_) => None,
            Argument::Words(words) => Some(words.clone()),
        })
        .collect();
    let mut values = [0; call::MOST];
    for ((value, argument), array) in values.iter_mut().zip(&args.0).zip(&mut arrays) {
        *value = match (argument, array) {
            (Argument::Number(number), _) => *number,
            (Argument::Words(_), Some(words)) => words.as_mut_ptr().expose_provenance() as u64,
            (Argument::Words(_), None) => 0,
        };
    }
    let result = call::call(entry, values);
    Called {
        result,
        arrays,
        events: std::mem::take(&mut *events.lock().unwrap_or_else(PoisonError::into_inner)),
    }
}

fn change(run: &Run, engine: &Engine, module: &Module) -> Result<Vec<AppliedChange>, Problem> {
    let mut changes = Vec::new();
    for patch in &run.patch {
        let receipt = engine.patch(patch.id, &patch.sequence)?;
        changes.push(AppliedChange {
            what: format!("patched {} with {}", patch.id, patch.sequence),
            sites: receipt.sites,
        });
    }
    for name in &run.invalidate {
        let receipt = engine.invalidate(&module.function(name)?)?;
        changes.push(AppliedChange {
            what: format!("invalidated {name}"),
            sites: receipt.sites,
        });
    }
    Ok(changes)
}

/// The sites of the functions that were called or of which something was changed.
fn held(engine: &Engine, module: &Module, names: &Names, called: &str) -> Result<Vec<SiteContent>, Problem> {
    let changed = module
        .sites()
        .filter(|site| engine.status(site) != Status::Original);
    let mut functions: HashSet<CodeAddr> = changed.map(|site| site.function().addr()).collect();
    functions.extend(module.function(called).map(|function| function.addr()));
    let told = module
        .sites()
        .filter(|site| functions.contains(&site.function().addr()));
    let mut progress = Progress::new("sites");
    let held = told.map(|site| {
        progress.step();
        Ok(SiteContent {
            place: RecordPlace::of_site(&site),
            reserved: site.reserved().get(),
            status: engine.status(&site),
            listing: names.listing(module.arch(), site.addr(), &site.read()?, |addr| {
                let site = engine.site_of_stub(addr)?;
                Some(format!("a stub or exit stub of record {}", site.id()))
            }),
        })
    });
    held.collect()
}
