//! The tables that are no stack maps, for a person.

use std::fmt::{self, Write};

use crate::tables::{CoveredTable, GcTable, NamedAddress, PcTable, Tables};
use crate::words::count_u64;

pub(crate) fn write(out: &mut String, tables: &Tables) -> fmt::Result {
    tables
        .pc_sections
        .iter()
        .try_for_each(|table| pc_section(out, table))?;
    tables.covered.iter().try_for_each(|table| covered(out, table))?;
    tables.gc_maps.iter().try_for_each(|table| gc_map(out, table))
}

fn place(place: &NamedAddress) -> String {
    match (&place.name, place.address) {
        (Some(name), Some(address)) => format!("{name} ({address:#x})"),
        (Some(name), None) => name.clone(),
        (None, Some(address)) => format!("{address:#x}"),
        (None, None) => "(no name)".to_owned(),
    }
}

fn pc_section(out: &mut String, table: &PcTable) -> fmt::Result {
    let count = entries(table.entries.len());
    writeln!(out, "\nPC section {}: {count} of {}", table.section, table.shape)?;
    for entry in &table.entries {
        let places: Vec<_> = entry.places.iter().map(place).collect();
        write!(out, "  +{:#x}  {}", entry.byte_offset.get(), places.join(", "))?;
        if let Some(size) = entry.function_size {
            write!(out, ", {}", count_u64(size, "byte"))?;
        }
        let constants: Vec<_> = entry.constants.iter().map(u64::to_string).collect();
        if !constants.is_empty() {
            write!(out, ": {}", constants.join(" "))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn entries(count: usize) -> String {
    match count {
        1 => "1 entry".to_owned(),
        count => format!("{count} entries"),
    }
}

fn covered(out: &mut String, table: &CoveredTable) -> fmt::Result {
    let count = count_u64(table.functions.len() as u64, "function");
    writeln!(out, "\nsanitizers' table {}: {count}", table.section)?;
    for function in &table.functions {
        let size = count_u64(function.size, "byte");
        write!(
            out,
            "  +{:#x}  {}, {size}, features {:#x}",
            function.byte_offset.get(),
            place(&function.place),
            function.features
        )?;
        if function.has_atomics {
            write!(out, ", atomics")?;
        }
        if function.has_use_after_return {
            write!(out, ", use after return")?;
        }
        if let Some(bytes) = function.stack_arguments {
            write!(out, ", {} of arguments on the stack", count_u64(bytes, "byte"))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn gc_map(out: &mut String, table: &GcTable) -> fmt::Result {
    let functions = count_u64(table.functions.len() as u64, "function");
    let globals = count_u64(table.globals.len() as u64, "global");
    writeln!(out, "\nGC map {}: {functions}, {globals}", table.symbol)?;
    for function in &table.functions {
        let stack = match function.stack_size {
            Some(size) => count_u64(size, "byte"),
            None => "of unknown size".to_owned(),
        };
        let arguments = count_u64(function.stack_arguments.into(), "argument");
        writeln!(
            out,
            "  {}, stack {stack}, {arguments} on the stack",
            place(&function.place)
        )?;
        for safepoint in &function.safepoints {
            writeln!(out, "    safepoint {}", place(safepoint))?;
        }
        for (offset, kind) in &function.roots {
            writeln!(out, "    root [sp{offset:+}], {kind}")?;
        }
    }
    for global in &table.globals {
        writeln!(out, "  global {}", place(global))?;
    }
    Ok(())
}
