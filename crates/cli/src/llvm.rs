//! The text of `llvm-readobj --stackmap`, of LLVM 14 and 19 alike: values as they are in the
//! file, without relocation; constants as if they were unsigned; locations and constants counted
//! from 1, but an index into the constants from 0. Unlike there, all maps are printed, not only the
//! first. A section whose name a linker cut is not looked for there either.

use std::fmt::{self, Write};

use object::BinaryFormat;
use patchpoint::stackmap::{Constants, Location, LocationKind, Record, StackMap, StackMaps, StackSize};

use crate::object_file::{ObjectFile, PE_NAME};
use crate::problem::Problem;

pub(crate) fn render(name: &str, file: &ObjectFile<'_>) -> Result<String, Problem> {
    let mut maps = Vec::new();
    let sections = file.map_sections()?;
    for section in sections.into_iter().filter(|section| section.name != PE_NAME) {
        let parsed = StackMaps::parse(section.data, file.endian()).map_err(|error| section.problem(error))?;
        maps.push(parsed);
    }
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = header(&mut out, name, file);
    for map in maps.iter().flat_map(StackMaps::maps) {
        let _ = print_map(&mut out, map);
    }
    Ok(out)
}

fn header(out: &mut String, name: &str, file: &ObjectFile<'_>) -> fmt::Result {
    writeln!(out, "\nFile: {name}")?;
    writeln!(out, "Format: {}", file.format_name())?;
    writeln!(out, "Arch: {}", file.arch_name())?;
    writeln!(out, "AddressSize: {}bit", file.address_bits())?;
    if file.file.format() == BinaryFormat::Elf {
        let load_name = file.load_name().unwrap_or_else(|| "<Not found>".to_owned());
        writeln!(out, "LoadName: {load_name}")?;
    }
    Ok(())
}

fn print_map(out: &mut String, map: &StackMap<'_>) -> fmt::Result {
    writeln!(out, "LLVM StackMap Version: {}", map.version().number())?;
    writeln!(out, "Num Functions: {}", map.functions().len())?;
    for function in map.functions() {
        let stack_size = match function.stack_size() {
            StackSize::Known(bytes) => bytes,
            StackSize::Unknown => u64::MAX,
        };
        write!(
            out,
            "  Function address: {}, stack size: {stack_size}",
            function.address()
        )?;
        if let Some(records) = function.records() {
            write!(out, ", callsite record count: {}", records.len())?;
        }
        writeln!(out)?;
    }
    let constants = map.constants();
    writeln!(out, "Num Constants: {}", constants.len())?;
    for (number, constant) in (1..).zip(constants.iter()) {
        writeln!(out, "  #{number}: {constant}")?;
    }
    writeln!(out, "Num Records: {}", map.records().len())?;
    for record in map.records() {
        print_record(out, &record, constants)?;
    }
    Ok(())
}

fn print_record(out: &mut String, record: &Record<'_>, constants: Constants<'_>) -> fmt::Result {
    let (id, offset) = (record.id().get(), record.offset().get());
    writeln!(out, "  Record ID: {id}, instruction offset: {offset}")?;
    writeln!(out, "    {} locations:", record.locations().len())?;
    for (number, location) in (1..).zip(record.locations()) {
        write!(out, "      #{number}: ")?;
        print_location(out, location, constants)?;
    }
    write!(out, "    {} live-outs: [ ", record.live_outs().len())?;
    for live_out in record.live_outs() {
        write!(out, "R#{} ({}-bytes) ", live_out.reg.get(), live_out.size)?;
    }
    writeln!(out, "]")
}

fn print_location(out: &mut String, location: Location, constants: Constants<'_>) -> fmt::Result {
    match location.kind {
        LocationKind::Register { reg, .. } => write!(out, "Register R#{}", reg.get()),
        LocationKind::Direct { reg, offset } => write!(out, "Direct R#{} + {offset}", reg.get()),
        LocationKind::Indirect { reg, offset } => write!(out, "Indirect [R#{} + {offset}]", reg.get()),
        LocationKind::Constant { value } => write!(out, "Constant {}", value as u32),
        LocationKind::ConstantIndex { index } => {
            let value = constants.get(index).expect("the reader has checked the index");
            write!(out, "ConstantIndex #{index} ({value})")
        }
    }?;
    writeln!(out, ", size: {}", location.size)
}
