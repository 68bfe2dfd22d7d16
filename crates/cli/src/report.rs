//! What is to be said of a file, before it is said in text or JSON.

use std::cell::RefCell;
use std::collections::BTreeMap;

use object::{Object, ObjectKind, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex};
use patchpoint::addr::DwarfReg;
use patchpoint::arch::Arch;
use patchpoint::arch::registers::{RegisterName, register_view};
use patchpoint::stackmap::flat::{Dialect, FlatFrame, FlatFunction, FrameRegister};
use patchpoint::stackmap::{
    Constants, Endian, FunctionRecord, LiveOut, LocationKind, Record, StackMap, StackMaps, StackSize,
    Statepoint, Version, VersionTwo,
};

use crate::args::Inspect;
use crate::disassemble::{Instruction, decode};
use crate::lines::{Lines, SourceLine};
use crate::object_file::{MapSection, ObjectFile};
use crate::problem::Problem;
use crate::process::Mapped;
use crate::progress::Progress;
use crate::relocate::{CodePlace, Relocated, relocate};
use crate::site::{RecordCode, RecordKind, Site, kind, site};
use crate::symbols::Symbols;
use crate::tables::Tables;

pub(crate) struct Report {
    pub(crate) file: String,
    /// The process that has it in its memory.
    pub(crate) process: Option<u32>,
    pub(crate) format: &'static str,
    pub(crate) arch_name: &'static str,
    pub(crate) endian: Endian,
    pub(crate) maps: Vec<MapReport>,
    pub(crate) tables: Tables,
}

pub(crate) struct MapReport {
    pub(crate) section: String,
    pub(crate) byte_offset: u64,
    pub(crate) version: u8,
    pub(crate) layout: Layout,
    pub(crate) constants: Vec<u64>,
    pub(crate) functions: Vec<FunctionReport>,
    /// Records that version 1 does not attribute to one of several functions.
    pub(crate) loose: Vec<RecordReport>,
}

impl MapReport {
    fn has(&self, id: u64) -> bool {
        let of_functions = self.functions.iter().flat_map(|function| &function.records);
        of_functions.chain(&self.loose).any(|record| record.id == id)
    }
}

/// How records hold their locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Nested,
    Flat,
    FlatFork,
}

impl From<Version> for Layout {
    fn from(version: Version) -> Self {
        match version {
            Version::V1 | Version::V2 | Version::V3 => Self::Nested,
            Version::Flat(Dialect::Proposal) => Self::Flat,
            Version::Flat(Dialect::Fork) => Self::FlatFork,
        }
    }
}

/// What a flat map says of a function.
pub(crate) struct FrameReport {
    pub(crate) function: FlatFunction,
    pub(crate) has_live_out_info: bool,
    pub(crate) base: Option<RegisterName>,
    /// With their names.
    pub(crate) registers: Vec<(FrameRegister, Option<RegisterName>)>,
}

impl FrameReport {
    fn of(arch: Option<Arch>, frame: &FlatFrame<'_>) -> Self {
        let name = |reg, size| register_view(arch?, reg, size);
        let registers = frame.registers();
        Self {
            function: (*frame).into(),
            has_live_out_info: frame.has_live_out_info(),
            base: name(frame.base(), 8),
            registers: registers
                .map(|register| (register, name(register.reg, register.size.into())))
                .collect(),
        }
    }
}

pub(crate) struct FunctionReport {
    pub(crate) name: Option<String>,
    pub(crate) section: Option<String>,
    /// In the section.
    pub(crate) offset: Option<u64>,
    /// In a linked file, or in the process that has it in its memory.
    pub(crate) address: Option<u64>,
    pub(crate) size: Option<u64>,
    pub(crate) stack_size: Option<u64>,
    pub(crate) frame: Option<FrameReport>,
    pub(crate) records: Vec<RecordReport>,
}

pub(crate) struct RecordReport {
    pub(crate) id: u64,
    pub(crate) offset: u32,
    pub(crate) byte_offset: u64,
    pub(crate) may_be_overflow: bool,
    /// Whether live-outs were looked for, where the map tells it.
    pub(crate) has_live_out_info: Option<bool>,
    /// Where it is in the source, what was inlined first, where that was asked for and is known.
    pub(crate) source: Option<Vec<SourceLine>>,
    pub(crate) kind: RecordKind,
    /// What its locations are, where it is one of a statepoint.
    pub(crate) statepoint: Option<StatepointReport>,
    pub(crate) locations: Vec<LocationReport>,
    pub(crate) live_outs: Vec<LiveOutReport>,
    pub(crate) site: Option<Site>,
    /// What a process has there, where that is something else than its file has.
    pub(crate) now: Option<Vec<Instruction>>,
    /// What the relocations in the site refer to, by the offset in the function.
    pub(crate) references: BTreeMap<u64, String>,
}

/// What the record of a statepoint holds.
pub(crate) struct StatepointReport {
    /// The number of the calling convention.
    pub(crate) convention: u64,
    pub(crate) flags: u64,
    pub(crate) deopt_values: usize,
    /// Each is two locations, base and derived pointer.
    pub(crate) references: usize,
    /// The stack slots that hold references.
    pub(crate) slots: usize,
}

pub(crate) struct LocationReport {
    pub(crate) place: LocationKind,
    pub(crate) size: u16,
    pub(crate) register: Option<RegisterName>,
    /// The value of a constant, small or large.
    pub(crate) constant: Option<i128>,
}

pub(crate) struct LiveOutReport {
    pub(crate) reg: DwarfReg,
    pub(crate) size: u8,
    pub(crate) register: Option<RegisterName>,
}

impl Report {
    pub(crate) fn of(
        inspect: &Inspect,
        (name, data): (&str, &[u8]),
        file: &ObjectFile<'_>,
        mapped: Option<&Mapped>,
    ) -> Result<Self, Problem> {
        let sections = file.map_sections()?;
        let has_any = !sections.is_empty() || Tables::are_in(file, &inspect.pc_section);
        // Of other files of a process it does not matter where they are.
        let process = match mapped.filter(|_| has_any) {
            Some(mapped) => Some((mapped, mapped.bias(&file.file)?)),
            None => None,
        };
        let bias = process.map_or(0, |(_, bias)| bias);
        let tables = Tables::of(data, file, &inspect.pc_section, bias)?;
        if sections.is_empty() && tables.is_empty() {
            return Err(Problem::NoStackMap);
        }
        let mut reporter = Reporter {
            file,
            process,
            arch: file.arch(),
            symbols: Symbols::of(file),
            references: references(file),
            reserved: inspect
                .reserved
                .iter()
                .map(|known| (known.id, known.bytes))
                .collect(),
            two: inspect.version_two.into(),
            progress: RefCell::new(Progress::new("records")),
            lines: match inspect.lines {
                true => Lines::of(file)?,
                false => None,
            },
        };
        let mut maps = Vec::new();
        for section in &sections {
            maps.extend(reporter.section(section)?);
        }
        for known in &inspect.reserved {
            if !maps.iter().any(|map| map.has(known.id)) {
                return Err(Problem::Told {
                    place: "--reserved".to_owned(),
                    why: format!("no record has ID {}", known.id),
                });
            }
        }
        Ok(Self {
            file: name.to_owned(),
            process: mapped.map(Mapped::pid),
            format: file.format_name(),
            arch_name: file.arch_name(),
            endian: file.endian(),
            maps,
            tables,
        })
    }
}

struct Reporter<'f, 'data> {
    file: &'f ObjectFile<'data>,
    /// What has it in its memory, and how far from the addresses of the file.
    process: Option<(&'f Mapped, u64)>,
    arch: Option<Arch>,
    symbols: Symbols,
    references: BTreeMap<CodePlace, String>,
    reserved: BTreeMap<u64, u32>,
    two: VersionTwo,
    progress: RefCell<Progress>,
    lines: Option<Lines>,
}

/// A function's code, found in the file.
struct FunctionCode<'data> {
    place: CodePlace,
    address: u64,
    size: u64,
    /// From the function's start to the end of its section.
    bytes: &'data [u8],
}

impl<'data> Reporter<'_, 'data> {
    fn section(&mut self, section: &MapSection<'_>) -> Result<Vec<MapReport>, Problem> {
        let relocated = relocate(self.file, section);
        let maps = StackMaps::parse_with(&relocated.data, self.file.endian(), self.two)
            .map_err(|error| section.problem(error))?;
        for function in maps.maps().iter().flat_map(StackMap::functions) {
            let target = relocated.target(self.file, function.byte_offset().get());
            self.symbols.add_start(self.file, &target);
        }
        let report = |map| self.map(section, &relocated, map);
        maps.maps().iter().map(report).collect()
    }

    fn map(
        &self,
        section: &MapSection<'_>,
        relocated: &Relocated,
        map: &StackMap<'_>,
    ) -> Result<MapReport, Problem> {
        let constants = map.constants();
        let mut functions = Vec::new();
        let mut loose: Vec<Record<'_>> = Vec::new();
        let mut frames = map.frames();
        for function in map.functions() {
            let records = match function.records() {
                Some(records) => records.collect(),
                None if map.functions().len() == 1 => map.records().collect(),
                None => Vec::new(),
            };
            let frame = frames.next().map(|frame| FrameReport::of(self.arch, &frame));
            functions.push(FunctionReport {
                frame,
                ..self.function(relocated, &function, &records, constants)?
            });
        }
        if map.version() == Version::V1 && map.functions().len() != 1 {
            loose.extend(map.records());
        }
        let loose = loose
            .iter()
            .map(|record| self.record(record, constants, None, None));
        Ok(MapReport {
            section: section.name.clone(),
            byte_offset: map.byte_offset().get(),
            version: map.version().number(),
            layout: map.version().into(),
            constants: constants.iter().collect(),
            functions,
            loose: loose.collect::<Result<_, _>>()?,
        })
    }

    fn function(
        &self,
        relocated: &Relocated,
        function: &FunctionRecord<'_>,
        records: &[Record<'_>],
        constants: Constants<'_>,
    ) -> Result<FunctionReport, Problem> {
        let target = relocated.target(self.file, function.byte_offset().get());
        let code = self.symbols.function(self.file, target);
        let found = code
            .place
            .zip(code.size)
            .and_then(|(place, size)| self.code(place, size));
        let section = code
            .place
            .and_then(|place| self.file.file.section_by_index(SectionIndex(place.section)).ok());
        let linked = self.file.file.kind() != ObjectKind::Relocatable;
        let mut offsets: Vec<_> = records
            .iter()
            .map(|record| u64::from(record.offset().get()))
            .collect();
        offsets.sort_unstable();
        let reports = records.iter().map(|record| {
            self.progress.borrow_mut().step();
            let at = u64::from(record.offset().get());
            let after = offsets.partition_point(|offset| *offset <= at);
            self.record(record, constants, found.as_ref(), offsets.get(after).copied())
        });
        Ok(FunctionReport {
            frame: None,
            records: reports.collect::<Result<_, _>>()?,
            name: code.name,
            section: section
                .as_ref()
                .and_then(|section| section.name().ok().map(str::to_owned)),
            offset: code.place.map(|place| place.offset),
            address: found
                .as_ref()
                .map(|found| found.address.wrapping_add(self.bias()))
                .filter(|_| linked),
            size: code.size,
            stack_size: match function.stack_size() {
                StackSize::Known(bytes) => Some(bytes),
                StackSize::Unknown => None,
            },
        })
    }

    fn bias(&self) -> u64 {
        self.process.map_or(0, |(_, bias)| bias)
    }

    /// What the process has where the file has these instructions, if that is something else.
    fn now(&self, function: &FunctionCode<'_>, site: &Site) -> Result<Option<Vec<Instruction>>, Problem> {
        let (Some((mapped, bias)), Some(first)) = (self.process, site.instructions.first()) else {
            return Ok(None);
        };
        let before: Vec<u8> = site
            .instructions
            .iter()
            .flat_map(|one| one.bytes.iter().copied())
            .collect();
        let at = function.address.wrapping_add(bias).wrapping_add(first.offset);
        let now = mapped.read(at, before.len())?;
        let decoded = || decode(self.arch, self.file.endian(), &now, first.offset);
        // protection: inspect-says-what-a-process-holds
        Ok((now != before).then(decoded))
    }

    fn code(&self, place: CodePlace, size: u64) -> Option<FunctionCode<'data>> {
        let section = self
            .file
            .file
            .section_by_index(SectionIndex(place.section))
            .ok()?;
        let start = usize::try_from(place.offset).ok()?;
        Some(FunctionCode {
            place,
            address: section.address().checked_add(place.offset)?,
            size,
            bytes: section.data().ok()?.get(start..)?,
        })
    }

    fn record(
        &self,
        record: &Record<'_>,
        constants: Constants<'_>,
        function: Option<&FunctionCode<'_>>,
        next: Option<u64>,
    ) -> Result<RecordReport, Problem> {
        let offset = u64::from(record.offset().get());
        let code = function.and_then(|function| {
            Some(RecordCode {
                arch: self.arch,
                endian: self.file.endian(),
                bytes: function.bytes.get(usize::try_from(offset).ok()?..)?,
                before: function.bytes.get(..usize::try_from(offset).ok()?)?,
                offset,
                address: function.address.wrapping_add(offset),
                to_next: next.map(|next| next - offset),
                to_end: function.size.checked_sub(offset)?,
            })
        });
        let kind = kind(record, constants, code.as_ref());
        let statepoint = Statepoint::of(record, constants).filter(|_| kind == RecordKind::Statepoint);
        let given = self.reserved.get(&record.id().get()).copied();
        let site = code.map(|code| site(kind, &code, given, record.reserved()));
        let both = site.as_ref().zip(function);
        let now = match both {
            // Of a statepoint, nothing that is there belongs to it.
            Some((site, function)) if kind != RecordKind::Statepoint => self.now(function, site)?,
            _ => None,
        };
        // Without code nothing refers to anything.
        let references = both.map_or_else(BTreeMap::new, |(site, function)| {
            let end = site
                .instructions
                .last()
                .map_or(offset, |last| last.offset + last.bytes.len() as u64);
            self.references_in(function.place, offset, end)
        });
        let source = match (function, &self.lines) {
            (Some(function), Some(lines)) => Some(lines.at(CodePlace {
                section: function.place.section,
                offset: function.place.offset.saturating_add(offset),
            })?),
            _ => None,
        };
        Ok(RecordReport {
            source: source.filter(|source| !source.is_empty()),
            id: record.id().get(),
            offset: record.offset().get(),
            byte_offset: record.byte_offset().get(),
            may_be_overflow: record.may_be_overflow(),
            has_live_out_info: record.has_live_out_info(),
            kind,
            statepoint: statepoint.map(|statepoint| StatepointReport {
                convention: statepoint.calling_convention(),
                flags: statepoint.flags(),
                deopt_values: statepoint.deopt_values().count(),
                references: statepoint.references().count(),
                slots: statepoint.slots().count(),
            }),
            locations: record
                .locations()
                .map(|l| LocationReport::of(self.arch, l.kind, l.size, constants))
                .collect(),
            live_outs: record
                .live_outs()
                .map(|live_out| LiveOutReport::of(self.arch, live_out))
                .collect(),
            site,
            now,
            references,
        })
    }

    fn references_in(&self, function: CodePlace, from: u64, to: u64) -> BTreeMap<u64, String> {
        let at = |offset| CodePlace {
            section: function.section,
            offset: function.offset.saturating_add(offset),
        };
        self.references
            .range(at(from)..at(to.max(from)))
            .map(|(place, name)| (place.offset - function.offset, name.clone()))
            .collect()
    }
}

impl LocationReport {
    pub(crate) fn of(arch: Option<Arch>, place: LocationKind, size: u16, constants: Constants<'_>) -> Self {
        let name = |reg, size| register_view(arch?, reg, size);
        let (register, constant) = match place {
            LocationKind::Register { reg, .. } => (name(reg, size), None),
            // A base is an address, whatever the size of the value.
            LocationKind::Direct { reg, .. } | LocationKind::Indirect { reg, .. } => (name(reg, 8), None),
            LocationKind::Constant { value } => (None, Some(i128::from(value))),
            LocationKind::ConstantIndex { index } => (None, constants.get(index).map(i128::from)),
        };
        Self {
            place,
            size,
            register,
            constant,
        }
    }
}

impl LiveOutReport {
    pub(crate) fn of(arch: Option<Arch>, live_out: LiveOut) -> Self {
        Self {
            reg: live_out.reg,
            size: live_out.size,
            register: arch.and_then(|arch| register_view(arch, live_out.reg, u16::from(live_out.size))),
        }
    }
}

/// The symbols to which relocations in code refer, in a file that is not linked.
fn references(file: &ObjectFile<'_>) -> BTreeMap<CodePlace, String> {
    let mut references = BTreeMap::new();
    if file.file.kind() != ObjectKind::Relocatable {
        return references;
    }
    for section in file.file.sections().filter(|section| file.is_code(section)) {
        for (offset, relocation) in section.relocations() {
            if let Some(name) = referenced(file, relocation.target()) {
                references.insert(place(section.index(), offset), name);
            }
        }
    }
    references
}

fn place(section: SectionIndex, offset: u64) -> CodePlace {
    CodePlace {
        section: section.0,
        offset,
    }
}

fn referenced(file: &ObjectFile<'_>, target: RelocationTarget) -> Option<String> {
    let name = match target {
        RelocationTarget::Symbol(index) => {
            let symbol = file.file.symbol_by_index(index).ok()?;
            symbol.name().ok()?.to_owned()
        }
        RelocationTarget::Section(index) => file.file.section_by_index(index).ok()?.name().ok()?.to_owned(),
        _ => return None,
    };
    Some(name).filter(|name| !name.is_empty())
}
