//! Code without a stack map, of which the example tells itself: what an emitter of one's own, or
//! assembly, leaves to be patched. The object is `objects/told.s`.

use patchpoint::arch::Convention;
use patchpoint::image::{Graph, Object};
use patchpoint::site::SiteSpec;
use patchpoint::{Engine, Result};

use super::super::compiled;
use super::parts::{AsLoaded, KnownSite, Part, SiteKind};
use super::running::Scheme;

/// What its own callee adds, and what its instructions do that are jumped over.
const CALLED: u64 = 0x2000_0000;
const SKIPPED: u64 = 0x1000_0000;

/// What is at a site.
#[derive(Clone, Copy)]
enum Content {
    Nops,
    Call,
    Jump,
}
use Content::{Call, Jump, Nops};

/// What the object has, by the numbers of functions: where the site is, and how long.
const TOLD: [(Content, u32, u32); 8] = [
    (Nops, 8, 5),
    (Nops, 16, 8),
    (Nops, 13, 16),
    (Nops, 12, 32),
    (Call, 8, 5),
    (Call, 11, 14),
    (Jump, 9, 5),
    (Jump, 14, 17),
];

const UNALIGNED: [(Content, u32, u32); 8] = [
    (Nops, 60, 5),
    (Nops, 12, 5),
    (Call, 61, 5),
    (Call, 13, 5),
    (Jump, 63, 5),
    (Jump, 14, 5),
    (Nops, 13, 7),
    (Nops, 60, 8),
];

/// Loads a module of told or of unaligned sites.
pub(super) fn load(engine: &Engine, kind: SiteKind) -> Result<Part> {
    let (sites, first_id) = match kind {
        SiteKind::Unaligned => (UNALIGNED, 400),
        _ => (TOLD, 300),
    };
    let graph = Graph::new("told", Object::parse(compiled::TOLD)?);
    let code = engine.load_graph(graph, |_| None)?;
    let function = |number: usize| format!("{kind}_{number}");
    let specs = sites.iter().enumerate().map(|(number, (content, at, reserved))| {
        let (function, id) = (function(number), first_id + number as u64);
        let spec = match content {
            Nops => SiteSpec::nops(&function, *at, *reserved),
            Call => SiteSpec::call(&function, *at, *reserved),
            Jump => SiteSpec::jump(&function, *at, *reserved),
        };
        spec.id(id).convention(Convention::C).args(1).returns()
    });
    let registration = engine.registration(code).sites(specs).live();
    // SAFETY: what is told is what the source says; no thread is in the code yet.
    let module = unsafe { registration.finish() }?;
    let known = sites.iter().enumerate().map(|(number, (content, ..))| KnownSite {
        function: function(number),
        scheme: match content {
            Nops => Scheme::all(0),
            Call => Scheme::all(CALLED),
            Jump => Scheme::all(0).with_behind(SKIPPED),
        },
        as_loaded: match content {
            _ if kind == SiteKind::Unaligned => AsLoaded::InPlace,
            Nops => AsLoaded::Nops,
            Call | Jump => AsLoaded::Stub,
        },
    });
    Ok(Part::new(kind, module, known.collect()))
}
