//! The audit that makes a site of a record: everything that could be wrong with it is looked for
//! once, here.

use super::calls::{self, CallSpec, Callees};
use super::candidate::Candidate;
use super::code::FunctionCode;
use super::details::{ModuleParts, ToldRecords};
use super::entry::EntrySpec;
use super::found::{AllSites, AuditedBytes, FoundSites, NewModule, SiteEntry};
use super::functions::FunctionView;
use super::marked::{self, Marks};
use super::module::Module;
use super::told::{self, SiteSpec};
use crate::addr::{CodeAddr, FnOffset, Len};
use crate::arch::registers::register_name;
use crate::arch::{CallShape, Convention, SiteKind};
use crate::error::SiteName;
use crate::image::CodeTable;
use crate::site::{Error, Result};
use crate::stackmap::{self, Constants, LocationKind, Record, RecordRef, Records, StackMap, StackSize};
use crate::verify::{self, Original};

/// The sites of a module that no stack map records, as the runtime declares them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Unrecorded<'a> {
    pub(crate) entries: &'a [EntrySpec],
    pub(crate) marks: &'a [Marks],
    pub(crate) calls: &'a [CallSpec],
    pub(crate) told: &'a [SiteSpec],
    /// Where marks are looked for.
    pub(crate) code_tables: &'a [CodeTable],
}

/// Tells the shapes of records: by a pointer, so that the audit is compiled here, as one with what it
/// calls, and not once more in each crate that registers something.
pub(crate) type ShapeOf<'s> = dyn FnMut(&Candidate<'_>) -> Result<Option<CallShape>> + 's;

/// Audits every record for which `shape` gives a shape, and every entry site, and makes the module.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub(crate) fn register(
    parts: ModuleParts,
    unrecorded: &Unrecorded<'_>,
    shape: &mut ShapeOf<'_>,
) -> Result<NewModule> {
    register_or(parts, unrecorded, shape, &mut |refusal| Err(refusal.error))
}

/// The same, but `refused` decides about what is wrong: where it returns `Ok`, the module is made
/// without it.
///
/// # Errors
/// Those of `refused`, and what there can be no module with.
pub(super) fn register_or(
    parts: ModuleParts,
    unrecorded: &Unrecorded<'_>,
    shape: &mut ShapeOf<'_>,
    refused: &mut impl FnMut(Refusal) -> Result<()>,
) -> Result<NewModule> {
    let mut found = FoundSites::default();
    let mut seen = vec![false; parts.functions.len()];
    let code = FunctionCode::new(&parts);
    let mut audit = RecordAudit::new(&parts, &code);
    for (map, stack_map) in parts.maps.maps() {
        let owners = match attribute(&parts, &stack_map) {
            Ok(owners) => owners,
            Err(error) => {
                refused(error.into())?;
                continue;
            }
        };
        let (mut all, constants) = (stack_map.records(), stack_map.constants());
        found.reserve(all.len());
        for RecordsOwner { function, records } in owners {
            audit.take(&mut all, records);
            if seen
                .get_mut(function as usize)
                .is_some_and(|seen| std::mem::replace(seen, true))
            {
                // protection: functions-are-described-once
                refused(twice(&parts, function).into())?;
                continue;
            }
            audit.function(function, (map, constants), shape, &mut found, refused)?;
        }
    }
    for spec in unrecorded.entries {
        audit_entry(&parts, &code, spec, &mut found).or_else(|error| refused(error.into()))?;
    }
    for marks in unrecorded.marks {
        marked::audit(&parts, &code, marks, unrecorded.code_tables, &mut found, refused)?;
    }
    for call in unrecorded.calls {
        calls::audit(&parts, call, &mut found).or_else(|error| refused(error.into()))?;
    }
    let (records, returns) = told::audit(&parts, &code, unrecorded.told, &mut found, refused)?;
    let AllSites {
        shapes,
        sites,
        originals,
    } = found.finish(&parts, &code, refused)?;
    drop(code);
    let callees = Callees::new(unrecorded.calls);
    let told = ToldRecords { records, returns };
    let module = Module::new(parts, shapes, &sites, originals, callees, told);
    Ok(NewModule { module, sites })
}

/// What a registration would be refused for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The record, where the refusal is about one.
    pub site: Option<Box<SiteName>>,
    /// What is wrong.
    pub error: Error,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { site: None, error }
    }
}

fn twice(parts: &ModuleParts, function: u32) -> Error {
    let addr = parts.functions.addr(function);
    let addr = addr.expect("a function that was found is one of the module's");
    Error::StackMapFunctionTwice { addr }
}

/// A function that a stack map lists, and how many of the map's records are its own: those behind
/// the records of the functions that are listed before it.
struct RecordsOwner {
    function: u32,
    records: usize,
}

/// Finds the function of each group of records. No record is looked at for that.
fn attribute(parts: &ModuleParts, map: &StackMap<'_>) -> Result<Vec<RecordsOwner>> {
    let (functions, all) = (map.headers(), map.records().len());
    let count = functions.len();
    let unknown = || stackmap::Error::RecordsWithoutFunction {
        functions: count as u64,
    };
    if count == 0 && all > 0 {
        return Err(unknown().into());
    }
    // LLVM lists them as it lays them out.
    let mut next = 0;
    let mut owners = Vec::with_capacity(count);
    for function in functions {
        let addr = CodeAddr::new(function.address());
        // Version 1 does not say whose the records are, which is no question where there is one
        // function.
        let records = match function.record_count() {
            Some(records) => usize::try_from(records).expect("a map that was read has its records"),
            None if count == 1 => all,
            None => return Err(unknown().into()),
        };
        let index = match parts.functions.addr(next) {
            Some(start) if start == addr => Some(next),
            _ => parts.functions.starting_at(addr),
        };
        let function = index.ok_or(Error::StackMapFunction { addr })?;
        next = function + 1;
        owners.push(RecordsOwner { function, records });
    }
    Ok(owners)
}

/// The stack sizes that stack maps have, by the address of the function, ascending; of several the
/// first.
pub(super) fn stack_sizes(parts: &ModuleParts) -> Box<[(CodeAddr, StackSize)]> {
    let functions = parts.maps.maps().flat_map(|(_, map)| map.headers());
    let sizes = functions.map(|function| (CodeAddr::new(function.address()), function.stack_size()));
    let mut sizes: Vec<_> = sizes.collect();
    sizes.sort_by_key(|(addr, _)| *addr);
    sizes.dedup_by_key(|(addr, _)| *addr);
    sizes.into()
}

/// Every record with the address that its offset stands for.
pub(super) fn record_addresses(parts: &ModuleParts) -> Result<impl Iterator<Item = (CodeAddr, RecordRef)>> {
    let mut found = Vec::new();
    for (map, stack_map) in parts.maps.maps() {
        let mut all = stack_map.records();
        for RecordsOwner { function, records } in attribute(parts, &stack_map)? {
            let start = parts.functions.addr(function);
            let start = start.expect("a function that was found is one of the module's");
            let addresses = all.by_ref().take(records).filter_map(|record| {
                let addr = start.at(record.offset())?;
                Some((addr, parts.maps.reference(map, &record)))
            });
            found.extend(addresses);
        }
    }
    Ok(found.into_iter())
}

/// The audit of records, function by function. Its lists are used again for the next function: most
/// have a few records, and to allocate and free lists for them took a tenth of a registration.
struct RecordAudit<'p> {
    parts: &'p ModuleParts,
    code: &'p FunctionCode<'p>,
    /// Those of the function that is next, ascending by their offsets when they are looked at.
    records: Vec<Record<'p>>,
    /// The code of a function that no other overlaps.
    bytes: Vec<u8>,
}

impl<'p> RecordAudit<'p> {
    fn new(parts: &'p ModuleParts, code: &'p FunctionCode<'p>) -> Self {
        Self {
            parts,
            code,
            records: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Takes the records of the function that is next.
    fn take(&mut self, all: &mut Records<'p>, count: usize) {
        self.records.clear();
        self.records.extend(all.take(count));
    }

    /// Makes sites of the records that were taken, which are of the map with that number.
    fn function(
        &mut self,
        index: u32,
        (map, constants): (u32, Constants<'_>),
        shape: &mut ShapeOf<'_>,
        found: &mut FoundSites,
        refused: &mut impl FnMut(Refusal) -> Result<()>,
    ) -> Result<()> {
        let parts = self.parts;
        let function = parts.functions.get(index);
        let function = &function.expect("a function that was found is one of the module's");
        let code = match self.code.of(function, &mut self.bytes) {
            Ok(code) => code,
            Err(error) => return refused(error.into()),
        };
        self.records.sort_by_key(Record::offset);
        let mut groups = self.records.chunk_by(|a, b| a.offset() == b.offset()).peekable();
        while let Some(group) = groups.next() {
            let behind = groups.peek().and_then(|behind| behind.first());
            let next = behind.map(Record::offset);
            for record in group {
                let name = || record_name(function, record);
                let mut refuse = |error| {
                    let site = Some(name());
                    refused(Refusal { site, error })
                };
                let candidate = match candidate(parts, function, (record, constants), next, code) {
                    Ok(candidate) => candidate,
                    Err(error) => {
                        refuse(error)?;
                        continue;
                    }
                };
                // Referred to: a copy waits for the stores of its parts, a thirtieth of a registration.
                let told = shape(&candidate);
                let shape = match told {
                    Ok(Some(ref shape)) => shape,
                    Ok(None) => continue,
                    Err(error) => {
                        refuse(error)?;
                        continue;
                    }
                };
                let audited = audit_convention(parts, shape, name)
                    .and_then(|()| audit_record(&candidate, shape, function, next, found));
                match audited {
                    Ok(bytes) => {
                        let overhang = u8::try_from(bytes.all.len() - shape.reserved().as_usize());
                        let overhang = overhang.expect("no instruction is that long");
                        let reference = parts.maps.reference(map, record);
                        let site =
                            SiteEntry::new(record.id(), candidate.addr, Some(reference), index, overhang);
                        found.push_audited(site, shape, bytes)?;
                    }
                    Err(error) => refuse(error)?,
                }
            }
        }
        Ok(())
    }
}

const READ_WHOLE: &str = "a function was read as a whole";

/// What may be a site: the bytes from a record up to the next one.
fn candidate<'a>(
    parts: &ModuleParts,
    function: &FunctionView<'a>,
    (record, constants): (&'a Record<'a>, Constants<'a>),
    next: Option<FnOffset>,
    code: &'a [u8],
) -> Result<Candidate<'a>> {
    let (offset, len) = (record.offset(), function.len);
    // protection: record-within-its-function
    if offset.get() > len.get() {
        return Err(Error::RecordOutsideFunction {
            site: record_name(function, record),
            function: function.addr,
            len,
        });
    }
    let limit = next.map_or(len.get(), |next| next.get().min(len.get()));
    Ok(Candidate {
        arch: parts.arch,
        record,
        constants,
        function: function.name,
        addr: function
            .addr
            .at(offset)
            .expect("a function that was read has addresses"),
        bytes: code.get(offset.get() as usize..limit as usize).expect(READ_WHOLE),
        before: code.get(..offset.get() as usize).expect(READ_WHOLE),
        windows: parts.windows,
    })
}

/// Sites of the C convention are filled for that of the architecture, not for that of Windows.
pub(super) fn audit_convention(
    parts: &ModuleParts,
    shape: &CallShape,
    name: impl Fn() -> Box<SiteName>,
) -> Result<()> {
    // protection: sites-of-windows-are-refused
    if parts.windows && shape.convention() == Convention::C {
        return Err(Error::SiteConvention { site: name() });
    }
    Ok(())
}

/// Returns the bytes of the site, see [`audit_bytes`].
fn audit_record<'a>(
    candidate: &Candidate<'a>,
    shape: &CallShape,
    function: &FunctionView<'_>,
    next: Option<FnOffset>,
    found: &FoundSites,
) -> Result<AuditedBytes<'a>> {
    audit_extent(candidate, shape, function, next)?;
    audit_shape(candidate, shape)?;
    if shape.kind() == SiteKind::Patchpoint {
        let reserved = candidate.bytes.get(..shape.reserved().as_usize());
        let all = reserved.expect("the extent has been audited");
        if let Some(original) = found.audited(all) {
            return Ok(AuditedBytes {
                all,
                kept: Some(original),
            });
        }
    }
    let all = audit_bytes(candidate, shape)?;
    Ok(AuditedBytes { all, kept: None })
}

fn record_name(function: &FunctionView<'_>, record: &Record<'_>) -> Box<SiteName> {
    Box::new(SiteName {
        kind: None,
        id: record.id(),
        function: Some(function.name.into()),
        offset: record.offset(),
        // It may be malformed: this is said in errors.
        addr: function.addr.at(record.offset()).unwrap_or(function.addr),
    })
}

/// The reserved bytes lie in the function and before the next record.
fn audit_extent(
    candidate: &Candidate<'_>,
    shape: &CallShape,
    function: &FunctionView<'_>,
    next: Option<FnOffset>,
) -> Result<()> {
    let reserved = shape.reserved();
    // protection: reserved-bytes-are-not-none
    if reserved.get() == 0 {
        return Err(Error::SiteEmpty {
            site: candidate.name(),
        });
    }
    if let Some(recorded) = candidate
        .record
        .reserved()
        .filter(|recorded| *recorded < reserved)
    {
        return Err(Error::ReservedBeyondRecorded {
            site: candidate.name(),
            reserved,
            recorded,
        });
    }
    let start = u64::from(candidate.offset().get());
    let end = start + u64::from(reserved.get());
    // protection: site-within-its-function
    if end > u64::from(function.len.get()) {
        return Err(Error::SiteOutsideFunction {
            site: candidate.name(),
            reserved,
            len: function.len,
        });
    }
    match next {
        // protection: site-before-the-next-record
        Some(next) if u64::from(next.get()) < end => Err(Error::SiteOverlapsRecord {
            site: candidate.name(),
            reserved,
            next,
        }),
        _ => Ok(()),
    }
}

/// The record has the locations that the shape speaks of.
fn audit_shape(candidate: &Candidate<'_>, shape: &CallShape) -> Result<()> {
    // protection: overflowed-records-are-no-sites
    if candidate.record.may_be_overflow() {
        return Err(Error::RecordOverflowed {
            site: candidate.name(),
        });
    }
    // protection: registers-that-exits-lose-are-refused
    if let Some(register) = verify::not_kept(candidate.arch, candidate.record) {
        let name = register_name(candidate.arch, register);
        return Err(Error::RegisterNotKept {
            site: candidate.name(),
            register,
            name: name.map_or_else(|| "of no name".into(), |name| name.to_string()),
        });
    }
    if !matches!(shape.kind(), SiteKind::Patchpoint | SiteKind::Shadow) {
        return Err(Error::EntryHasNoRecord {
            site: candidate.name(),
        });
    }
    if shape.kind() != SiteKind::Patchpoint || shape.convention() != Convention::AnyReg {
        return Ok(());
    }
    let locations = candidate.record.locations();
    let needed = u64::from(shape.has_result()) + u64::from(shape.arg_count());
    // protection: shapes-fit-their-records
    if (locations.len() as u64) < needed {
        return Err(Error::TooFewLocations {
            site: candidate.name(),
            needed,
            have: locations.len() as u64,
        });
    }
    match locations.get(0) {
        Some(result) if shape.has_result() && !matches!(result.kind, LocationKind::Register { .. }) => {
            Err(Error::ResultNotRegister {
                site: candidate.name(),
                found: result.kind,
            })
        }
        _ => Ok(()),
    }
}

/// The bytes are what may be there. Returns them with the rest of the last instruction: LLVM
/// promises a shadow its length, not that an instruction ends with it.
fn audit_bytes<'a>(candidate: &Candidate<'a>, shape: &CallShape) -> Result<&'a [u8]> {
    let (site, reserved) = (|| candidate.name(), shape.reserved());
    let len = match shape.kind() {
        // protection: shadows-are-displaced-whole
        SiteKind::Shadow => covering(candidate, reserved),
        _ => reserved.as_usize(),
    };
    let bytes = candidate.bytes.get(..len);
    let bytes = bytes.expect("the extent has been audited");
    let original =
        verify::original(candidate.arch, candidate.addr, bytes).map_err(|error| Error::SiteUndecodable {
            site: site(),
            reserved,
            why: error.to_string(),
        })?;
    // protection: patchpoints-are-llvms
    if shape.kind() == SiteKind::Patchpoint && matches!(original, Original::Instructions { .. }) {
        return Err(Error::NotLlvmPatchpoint {
            site: site(),
            reserved,
        });
    }
    Ok(bytes)
}

/// The length of the instructions that the reserved bytes of a shadow begin in; the reserved length
/// where they do not decode that far.
fn covering(candidate: &Candidate<'_>, reserved: Len) -> usize {
    let longest = reserved.as_usize() + LONGEST_INSTRUCTION;
    let bytes = candidate.bytes.get(..longest).unwrap_or(candidate.bytes);
    let ends = verify::boundaries(candidate.arch, candidate.addr, bytes);
    let end = ends.into_iter().find(|end| *end >= reserved.get());
    Len::new(end.unwrap_or(reserved.get())).as_usize()
}

/// The longest instruction of any architecture, in bytes (x86-64).
pub(super) const LONGEST_INSTRUCTION: usize = 15;

/// An entry site holds nops only: a sequence there falls through into the function.
fn audit_entry(
    parts: &ModuleParts,
    code: &FunctionCode<'_>,
    spec: &EntrySpec,
    found: &mut FoundSites,
) -> Result<()> {
    let index = parts.functions.named(&spec.function);
    let Some((index, function)) = index.and_then(|i| Some((i, parts.functions.get(i)?))) else {
        return Err(Error::NoSuchFunction {
            name: spec.function.clone(),
        });
    };
    let reserved = spec.shape.reserved();
    // What lies outside of the function is refused below, under this name.
    let addr = function.addr.at(spec.offset).unwrap_or(function.addr);
    let name = || {
        Box::new(SiteName {
            kind: Some(SiteKind::Entry),
            id: spec.id,
            function: Some(function.name.into()),
            offset: spec.offset,
            addr,
        })
    };
    if reserved.get() == 0 {
        return Err(Error::SiteEmpty { site: name() });
    }
    audit_convention(parts, &spec.shape, name)?;
    let bytes = code.part_of(&function, spec.offset.get() as usize, reserved.as_usize())?;
    let Some(bytes) = bytes else {
        return Err(Error::SiteOutsideFunction {
            site: name(),
            reserved,
            len: function.len,
        });
    };
    if spec.offset.get() > 0 {
        // protection: entries-are-asked-where-they-are
        spec.check_start(parts.arch, &function, code.of(&function, &mut Vec::new())?, name)?;
    }
    match verify::original(parts.arch, addr, &bytes) {
        Ok(Original::Nops) => found.push(SiteEntry::new(spec.id, addr, None, index, 0), spec.shape, &bytes),
        // protection: entries-are-nops
        _ => Err(Error::EntryNotNops {
            site: name(),
            reserved,
        }),
    }
}
