//! For a program: all of the text, under keys that do not change.

use patchpoint::arch::registers::RegisterName;
use patchpoint::stackmap::flat::FrameRegister;
use patchpoint::stackmap::{Endian, LocationKind};
use serde_json::{Map, Number, Value, json};

use crate::disassemble::Instruction;
use crate::lines::SourceLine;
use crate::names::hex;
use crate::problem::Problem;
use crate::report::{
    FrameReport, FunctionReport, Layout, LiveOutReport, LocationReport, MapReport, RecordReport, Report,
    StatepointReport,
};
use crate::site::{RecordKind, Reserved, Site};
use crate::tables::{self, CoveredEntry, CoveredTable, GcEntry, GcTable, PcEntry, PcTable};
use crate::text;

pub(crate) fn render(report: &Report) -> Value {
    let endian = match report.endian {
        Endian::Little => "little",
        Endian::Big => "big",
    };
    let process = report.process.map(|pid| ("process", pid.into()));
    let rest = [
        ("format", report.format.into()),
        ("architecture", report.arch_name.into()),
        ("endian", endian.into()),
        ("maps", list(&report.maps, map)),
        ("pc_sections", list(&report.tables.pc_sections, pc_section)),
        ("covered", list(&report.tables.covered, covered)),
        ("gc_maps", list(&report.tables.gc_maps, gc_map)),
    ];
    let file = [("file", report.file.as_str().into())];
    chained(file.into_iter().chain(process).chain(rest))
}

/// Its fields in their order. The macro `json` would copy all that is inside.
pub(crate) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(
        fields
            .map(|(key, value)| (key.to_owned(), value))
            .into_iter()
            .collect(),
    )
}

/// Fields of which some are not always there.
fn chained<'a>(fields: impl Iterator<Item = (&'a str, Value)>) -> Value {
    Value::Object(fields.map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The text of a report.
pub(crate) fn print(value: &Value) -> Result<String, Problem> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}

pub(crate) fn list<T>(items: &[T], to_json: impl Fn(&T) -> Value) -> Value {
    items.iter().map(to_json).collect()
}

/// Places in the source, the innermost first.
pub(crate) fn source_lines(lines: &[SourceLine]) -> Value {
    list(
        lines,
        |line| json!({ "function": line.function, "file": line.file, "line": line.line, "column": line.column }),
    )
}

fn map(map: &MapReport) -> Value {
    let layout = match map.layout {
        Layout::Nested => "nested",
        Layout::Flat => "flat",
        Layout::FlatFork => "flat_fork",
    };
    object([
        ("section", map.section.as_str().into()),
        ("byte_offset", map.byte_offset.into()),
        ("version", map.version.into()),
        ("layout", layout.into()),
        ("constants", map.constants.clone().into()),
        ("functions", list(&map.functions, function)),
        ("records_of_unknown_functions", list(&map.loose, record)),
    ])
}

fn function(function: &FunctionReport) -> Value {
    object([
        ("name", function.name.clone().into()),
        ("section", function.section.clone().into()),
        ("offset", function.offset.into()),
        ("address", function.address.into()),
        ("size", function.size.into()),
        ("stack_size", function.stack_size.into()),
        ("frame", function.frame.as_ref().map(frame).into()),
        ("records", list(&function.records, record)),
    ])
}

fn frame(frame: &FrameReport) -> Value {
    let told = &frame.function;
    let register = |(kept, name): &(FrameRegister, Option<RegisterName>)| {
        object([
            ("register", name.map(|name| name.to_string()).into()),
            ("dwarf_register", kept.reg.get().into()),
            ("spilled", kept.is_spilled.into()),
            ("offset", kept.offset.into()),
            ("size", kept.size.into()),
        ])
    };
    object([
        ("function_size", told.size.get().into()),
        ("frame_pointer", told.has_frame_pointer.into()),
        ("variable_size", told.has_variable_size.into()),
        ("realigned", told.is_realigned.into()),
        ("live_out_info", frame.has_live_out_info.into()),
        ("base", frame.base.map(|name| name.to_string()).into()),
        ("dwarf_base", told.base.get().into()),
        ("registers", list(&frame.registers, register)),
    ])
}

fn place(place: &tables::NamedAddress) -> Value {
    object([
        ("name", place.name.clone().into()),
        ("address", place.address.into()),
    ])
}

fn pc_section(table: &PcTable) -> Value {
    let entry = |entry: &PcEntry| {
        object([
            ("byte_offset", entry.byte_offset.get().into()),
            ("places", list(&entry.places, place)),
            ("function_size", entry.function_size.into()),
            ("constants", entry.constants.clone().into()),
        ])
    };
    object([
        ("section", table.section.as_str().into()),
        ("shape", table.shape.as_str().into()),
        ("entries", list(&table.entries, entry)),
    ])
}

fn covered(table: &CoveredTable) -> Value {
    let function = |function: &CoveredEntry| {
        object([
            ("byte_offset", function.byte_offset.get().into()),
            ("name", function.place.name.clone().into()),
            ("address", function.place.address.into()),
            ("size", function.size.into()),
            ("features", function.features.into()),
            ("atomics", function.has_atomics.into()),
            ("use_after_return", function.has_use_after_return.into()),
            ("stack_arguments", function.stack_arguments.into()),
        ])
    };
    object([
        ("section", table.section.as_str().into()),
        ("functions", list(&table.functions, function)),
    ])
}

fn gc_map(table: &GcTable) -> Value {
    let root =
        |(offset, kind): &(i32, &str)| object([("offset", (*offset).into()), ("kind", (*kind).into())]);
    let function = |function: &GcEntry| {
        object([
            ("name", function.place.name.clone().into()),
            ("address", function.place.address.into()),
            ("stack_size", function.stack_size.into()),
            ("stack_arguments", function.stack_arguments.into()),
            ("safepoints", list(&function.safepoints, place)),
            ("roots", list(&function.roots, root)),
        ])
    };
    object([
        ("symbol", table.symbol.as_str().into()),
        ("functions", list(&table.functions, function)),
        ("globals", list(&table.globals, place)),
    ])
}

fn record(record: &RecordReport) -> Value {
    let kind = match record.kind {
        RecordKind::Patchpoint => "patchpoint",
        RecordKind::Shadow => "shadow",
        RecordKind::Statepoint => "statepoint",
        RecordKind::Unknown => "unknown",
    };
    let source = record.source.as_deref().map(source_lines);
    let start = [
        ("id", record.id.into()),
        ("offset", record.offset.into()),
        ("byte_offset", record.byte_offset.into()),
        ("kind", kind.into()),
        ("statepoint", record.statepoint.as_ref().map(statepoint).into()),
        ("may_be_overflow", record.may_be_overflow.into()),
        ("live_out_info", record.has_live_out_info.into()),
    ];
    let rest = [
        ("locations", list(&record.locations, location)),
        ("live_outs", list(&record.live_outs, live_out)),
        ("site", record.site.as_ref().map(|at| site(record, at)).into()),
    ];
    let source = source.map(|source| ("source", source));
    chained(start.into_iter().chain(source).chain(rest))
}

fn statepoint(statepoint: &StatepointReport) -> Value {
    object([
        ("convention", statepoint.convention.into()),
        ("flags", statepoint.flags.into()),
        ("deopt_values", statepoint.deopt_values.into()),
        ("references", statepoint.references.into()),
        ("slots", statepoint.slots.into()),
    ])
}

pub(crate) fn location(location: &LocationReport) -> Value {
    let name = location.register.map(|name| name.to_string());
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    let (kind, reg) = match location.place {
        LocationKind::Register { reg, .. } => ("register", Some(reg)),
        LocationKind::Direct { reg, .. } => ("direct", Some(reg)),
        LocationKind::Indirect { reg, .. } => ("indirect", Some(reg)),
        LocationKind::Constant { .. } => ("constant", None),
        LocationKind::ConstantIndex { .. } => ("constant_index", None),
    };
    put("kind", kind.into());
    put("text", text::place(location).into());
    put("size", location.size.into());
    if let Some(reg) = reg {
        put("register", name.into());
        put("dwarf_register", reg.get().into());
    }
    match location.place {
        LocationKind::Register { bit_offset, .. } => put("bit_offset", bit_offset.into()),
        LocationKind::Direct { offset, .. } | LocationKind::Indirect { offset, .. } => {
            put("offset", offset.into())
        }
        LocationKind::Constant { .. } => put("value", location.constant.and_then(number).into()),
        LocationKind::ConstantIndex { index } => {
            put("index", index.into());
            put("value", location.constant.and_then(number).into())
        }
    };
    Value::Object(fields)
}

fn number(value: i128) -> Option<Number> {
    Number::from_i128(value)
}

pub(crate) fn live_out(live_out: &LiveOutReport) -> Value {
    object([
        ("register", live_out.register.map(|name| name.to_string()).into()),
        ("dwarf_register", live_out.reg.get().into()),
        ("size", live_out.size.into()),
    ])
}

fn site(record: &RecordReport, site: &Site) -> Value {
    let (bytes, source) = match site.reserved {
        Reserved::Given(bytes) => (Some(bytes), "given"),
        Reserved::Recorded(bytes) => (Some(bytes), "recorded"),
        Reserved::Inferred(bytes) => (Some(bytes), "inferred"),
        Reserved::AtMost(bytes) => (Some(bytes), "at_most"),
        Reserved::Unknown => (None, "unknown"),
    };
    let fields = [
        ("reserved", bytes.into()),
        ("reserved_source", source.into()),
        ("warning", site.warning.clone().into()),
        (
            "instructions",
            list(&site.instructions, |one| instruction(record, one)),
        ),
    ];
    let now = record.now.as_ref();
    let now = now.map(|now| ("now", list(now, |one| instruction(record, one))));
    chained(fields.into_iter().chain(now))
}

fn instruction(record: &RecordReport, instruction: &Instruction) -> Value {
    let end = instruction.offset + instruction.bytes.len() as u64;
    let references = record.references.range(instruction.offset..end);
    object([
        ("offset", instruction.offset.into()),
        ("bytes", hex(&instruction.bytes, "").into()),
        ("text", instruction.text.clone().into()),
        ("is_nop", instruction.is_nop.into()),
        ("is_whole", (!instruction.is_cut).into()),
        ("references", references.map(|(_, name)| name.as_str()).collect()),
    ])
}
