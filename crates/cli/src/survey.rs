//! The records of a file as the engine sees them when it registers: what becomes a site, and what
//! does not and why.

use std::collections::HashMap;

use patchpoint::CallShape;
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::registers::canonical;
use patchpoint::arch::{Arch, Convention, SiteKind};
use patchpoint::error::SiteName;
use patchpoint::site::{Candidate, Error, Module, Site, survey};
use patchpoint::verify::{self, Original};

use crate::files::Input;
use crate::image::{ImageOrigin, PlacedCode};
use crate::lines::{ImageLines, SourceLine};
use crate::names::Names;
use crate::object_file::ObjectFile;
use crate::problem::Problem;
use crate::process::Mapped;
use crate::progress::Progress;
use crate::report::{LiveOutReport, LocationReport};
use crate::shapes::{RecordShape, Shapes, Source};

pub(crate) struct Survey {
    pub(crate) file: String,
    pub(crate) format: &'static str,
    pub(crate) arch: Arch,
    pub(crate) how: ImageOrigin,
    /// The process that has it in its memory.
    pub(crate) process: Option<u32>,
    pub(crate) names: Names,
    /// By address.
    pub(crate) rows: Vec<RecordRow>,
    /// What is wrong with the maps as a whole.
    pub(crate) faults: Vec<Error>,
    pub(crate) module: Module,
    /// What files of shapes say of records that are not there.
    pub(crate) unused: Vec<String>,
    /// Whether nothing was told of the records.
    pub(crate) untold: bool,
    /// The end of all addresses in use.
    pub(crate) end: u64,
}

/// A record.
pub(crate) struct RecordRow {
    pub(crate) place: RecordPlace,
    pub(crate) state: RecordState,
}

/// Where a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    pub(crate) id: u64,
    pub(crate) function: String,
    /// In the function.
    pub(crate) offset: u32,
    pub(crate) addr: CodeAddr,
    /// In the source, what was inlined first; none where that is not known or not asked for.
    pub(crate) source: Vec<SourceLine>,
}

pub(crate) enum RecordState {
    Registered(Box<Registered>),
    /// With its kind, where it was told or inferred.
    Refused(Error, Option<SiteKind>),
    /// What was given does not tell clearly what it is, or it is something that cannot be patched.
    Unmatched(String),
    NoLength(String),
    NoSite(&'static str),
    Statepoint,
}

/// A record that becomes a site.
pub(crate) struct Registered {
    pub(crate) site: Site,
    pub(crate) shape: CallShape,
    pub(crate) source: Source,
    pub(crate) holds: Holds,
    /// The reserved bytes that nothing needs before a patch: all but LLVM's call.
    pub(crate) slack: Len,
    /// Where calls that are there may return to, when the code has run.
    pub(crate) return_offsets: Vec<u32>,
    /// Where the patchable jump would be if the module were live, and its length; or why there
    /// is none.
    pub(crate) patchable_jump: Result<(u32, u64), Error>,
    pub(crate) locations: Vec<LocationReport>,
    pub(crate) live_outs: Vec<LiveOutReport>,
    pub(crate) saved: Saved,
    /// What a process has there, where that is something else than its file has.
    pub(crate) now: Option<Vec<u8>>,
}

/// What a site holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Nops,
    Call(CodeAddr),
    Instructions,
}

/// How many of the registers that a function keeps for its caller its live-outs name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) named: usize,
    pub(crate) of: usize,
}

impl Saved {
    /// An LLVM that lists them names nearly all, one that forgets them only those that the function
    /// uses.
    pub(crate) fn can_be_trusted(self) -> bool {
        self.named * 3 >= self.of
    }
}

impl Survey {
    pub(crate) fn of(input: &Input<'_>, shapes: &Shapes, lines: bool) -> Result<Self, Problem> {
        let file = ObjectFile::parse(input.data)?;
        if file.map_sections()?.is_empty() {
            return Err(Problem::NoStackMap);
        }
        file.check_maps()?;
        let code = PlacedCode::of(input.data, &file, input.mapped)?;
        let arch = code.image.arch;
        let matches = shapes.matches(&file, &code, input.is_alone)?;
        let lines = match lines {
            true => ImageLines::of(&file, &code.image)?,
            false => None,
        };
        let mut told = HashMap::new();
        let mut rows = Vec::new();
        let mut progress = Progress::new("records");
        let names = Names::of(&code.image.functions, code.outside);
        let found = survey(code.image, code.segments, |record| {
            progress.step();
            let row = |state| RecordRow {
                place: RecordPlace::of(record),
                state,
            };
            Ok(match shapes.of(arch, record, &matches)? {
                RecordShape::Site(shape, source) => {
                    told.insert((record.addr(), record.id()), (shape.kind(), source));
                    Some(shape)
                }
                RecordShape::NoSite(why) => {
                    rows.push(row(RecordState::NoSite(why)));
                    None
                }
                RecordShape::NoLength(why) => {
                    rows.push(row(RecordState::NoLength(why)));
                    None
                }
                RecordShape::Refused(why) => {
                    rows.push(row(RecordState::Unmatched(why)));
                    None
                }
                RecordShape::Statepoint => {
                    rows.push(row(RecordState::Statepoint));
                    None
                }
            })
        })?;
        drop(progress);
        let mut faults = Vec::new();
        for refusal in found.refused {
            match refusal.site {
                Some(site) => {
                    let kind = told.get(&(site.addr, site.id)).map(|(kind, _)| *kind);
                    rows.push(RecordRow {
                        place: RecordPlace::named(&site),
                        state: match refusal.error {
                            Error::ReservedLengthAmbiguous { seen, why, .. } => {
                                RecordState::NoLength(ambiguous(site.id.get(), seen, why))
                            }
                            error => RecordState::Refused(error, kind),
                        },
                    });
                }
                None => faults.push(refusal.error),
            }
        }
        let mut progress = Progress::new("sites");
        for site in found.module.sites() {
            progress.step();
            let source = told.get(&(site.addr(), site.id())).map(|(_, source)| *source);
            rows.push(RecordRow {
                place: RecordPlace::of_site(&site),
                state: RecordState::Registered(Box::new(registered(site, source.unwrap_or(Source::Told))?)),
            });
        }
        drop(progress);
        for row in &mut rows {
            if let Some(lines) = &lines {
                let function = row.place.addr.get().wrapping_sub(row.place.offset.into());
                row.place.source = lines.at(function, row.place.offset)?;
            }
            if let (Some(mapped), RecordState::Registered(registered)) = (input.mapped, &mut row.state) {
                let before = registered.site.read()?;
                let now = mapped.read(row.place.addr.get(), before.len())?;
                registered.now = Some(now).filter(|now| *now != before);
            }
        }
        // Records of the same place stay in their order.
        rows.sort_by_key(|row| row.place.addr);
        Ok(Self {
            file: input.name.to_owned(),
            process: input.mapped.map(Mapped::pid),
            format: file.format_name(),
            arch,
            how: code.how,
            names,
            rows,
            faults,
            module: found.module,
            unused: matches.unused,
            untold: shapes.is_empty(),
            end: code.end,
        })
    }
}

impl RecordPlace {
    fn of(record: &Candidate<'_>) -> Self {
        Self {
            id: record.id().get(),
            function: record.function().to_owned(),
            offset: record.offset().get(),
            addr: record.addr(),
            source: Vec::new(),
        }
    }

    fn named(site: &SiteName) -> Self {
        Self {
            id: site.id.get(),
            function: site.function.as_deref().unwrap_or("").to_owned(),
            offset: site.offset.get(),
            addr: site.addr,
            source: Vec::new(),
        }
    }

    pub(crate) fn of_site(site: &Site) -> Self {
        Self {
            id: site.id().get(),
            function: site.function().name().to_owned(),
            offset: site.offset().get(),
            addr: site.addr(),
            source: Vec::new(),
        }
    }
}

impl std::fmt::Display for RecordPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let function = match self.function.as_str() {
            "" => "(no name)",
            name => name,
        };
        write!(f, "{function}+{:#x}", self.offset)
    }
}

fn ambiguous(id: u64, seen: Len, why: &str) -> String {
    format!(
        "its length cannot be inferred after {}: {why}: tell it, by --ir, --shape {id}=BYTES or {id}=none",
        crate::words::count_u64(seen.get().into(), "byte")
    )
}

fn registered(site: Site, source: Source) -> Result<Registered, Problem> {
    let (arch, shape) = (site.module().arch(), site.shape());
    let bytes = site.read()?;
    let reserved = shape.reserved();
    let (holds, slack, return_offsets) = match verify::original(arch, site.addr(), &bytes) {
        Ok(Original::Nops) => (Holds::Nops, reserved, Vec::new()),
        Ok(Original::LlvmCall { target, returns_at }) => {
            let call = called(arch, site.addr(), &bytes);
            let inside = Some(returns_at).filter(|at| *at < reserved.get());
            let slack = reserved.get().saturating_sub(call.get());
            (Holds::Call(target), Len::new(slack), inside.into_iter().collect())
        }
        Ok(Original::Instructions { calls }) => (Holds::Instructions, Len::default(), calls),
        // A shadow need not end with an instruction.
        Err(_) => (Holds::Instructions, Len::default(), Vec::new()),
    };
    let patchable_jump = site.patchable_jump().map(|patchable_jump| {
        let offset = patchable_jump.start().distance_from(site.addr());
        let offset = u32::try_from(offset).expect("a patchable jump lies in its site");
        (offset, patchable_jump.len())
    });
    let (mut locations, mut live_outs, mut saved) = (Vec::new(), Vec::new(), Saved { named: 0, of: 0 });
    if let Some((record, constants)) = site.record() {
        locations.extend(
            record
                .locations()
                .map(|l| LocationReport::of(Some(arch), l.kind, l.size, constants)),
        );
        live_outs.extend(record.live_outs().map(|live| LiveOutReport::of(Some(arch), live)));
        if shape.kind() == SiteKind::Patchpoint {
            let all = verify::callee_saved(arch);
            saved = Saved {
                of: all.iter().count(),
                named: all
                    .iter()
                    .filter(|reg| record.live_outs().any(|live| canonical(arch, live.reg) == *reg))
                    .count(),
            };
        }
    }
    Ok(Registered {
        shape,
        source,
        holds,
        slack,
        return_offsets,
        patchable_jump,
        locations,
        live_outs,
        saved,
        now: None,
        site,
    })
}

/// The length of LLVM's call: what is left of its bytes and nops without the nops.
fn called(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> Len {
    let ends = verify::boundaries(arch, addr, bytes);
    let call = ends.into_iter().find(|end| {
        let rest = bytes.get(Len::new(*end).as_usize()..);
        let rest = rest.expect("instructions end in the bytes that were decoded");
        let after = addr.plus(Len::new(*end)).expect("a site's bytes have addresses");
        matches!(verify::original(arch, after, rest), Ok(Original::Nops))
    });
    Len::new(call.expect("behind LLVM's call are nops, or nothing"))
}

impl Registered {
    /// What holds nothing but nops may be a patchpoint or a shadow, where nobody tells.
    pub(crate) fn may_be_shadow(&self) -> bool {
        self.source == Source::Inferred && self.holds == Holds::Nops && self.live_outs.is_empty()
    }
}

/// The kind and convention of a site in words.
pub(crate) fn kind(registered: &Registered) -> &'static str {
    match (registered.shape.kind(), registered.shape.convention()) {
        (SiteKind::Shadow, _) => "shadow",
        _ if registered.may_be_shadow() => "patchpoint or shadow",
        _ if registered.source != Source::Told => "patchpoint",
        (_, Convention::AnyReg) => "anyregcc patchpoint",
        _ => "patchpoint",
    }
}
