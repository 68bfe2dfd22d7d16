//! For a person.

use std::fmt::{self, Write};

use patchpoint::addr::DwarfReg;
use patchpoint::arch::registers::RegisterName;
use patchpoint::stackmap::LocationKind;

use crate::disassemble::Instruction;
use crate::lines;
use crate::paint::{Paint, Style};
use crate::report::{
    FrameReport, FunctionReport, Layout, LiveOutReport, LocationReport, MapReport, RecordReport, Report,
};
use crate::site::{RecordKind, Reserved};
use crate::words::{count, count_u64};

/// Writes the report.
pub(crate) fn render(report: &Report, paint: Paint) -> String {
    let mut text = Text {
        out: String::new(),
        paint,
    };
    // Writing to a string does not fail.
    let _ = text.report(report);
    text.out
}

struct Text {
    out: String,
    paint: Paint,
}

impl Text {
    fn paint(&self, style: Style, text: impl fmt::Display) -> String {
        self.paint.of(style, text)
    }

    fn report(&mut self, report: &Report) -> fmt::Result {
        let file = self.paint(Style::Bold, &report.file);
        write!(self.out, "{file}: {}, {}", report.format, report.arch_name)?;
        if let Some(pid) = report.process {
            write!(self.out, ", as it runs in process {pid}")?;
        }
        writeln!(self.out)?;
        for map in &report.maps {
            self.map(map)?;
        }
        crate::tables_text::write(&mut self.out, &report.tables)
    }

    fn map(&mut self, map: &MapReport) -> fmt::Result {
        let records = map.functions.iter().map(|f| f.records.len()).sum::<usize>() + map.loose.len();
        writeln!(
            self.out,
            "\nstack map version {}{} at {}+{:#x}: {}, {}, {}",
            map.version,
            layout(map.layout),
            map.section,
            map.byte_offset,
            count(map.functions.len(), "function"),
            count(records, "record"),
            count(map.constants.len(), "large constant"),
        )?;
        for function in &map.functions {
            self.function(function)?;
        }
        if !map.loose.is_empty() {
            writeln!(
                self.out,
                "\nversion 1 does not say to which functions these belong"
            )?;
        }
        for record in &map.loose {
            self.record(record)?;
        }
        Ok(())
    }

    fn function(&mut self, function: &FunctionReport) -> fmt::Result {
        let name = function.name.as_deref().unwrap_or("(no name)");
        write!(self.out, "\n{}", self.paint(Style::Bold, name))?;
        match (function.address, &function.section, function.offset) {
            (Some(address), _, _) => write!(self.out, " at {address:#x}")?,
            (None, Some(section), Some(offset)) => write!(self.out, " at {section}+{offset:#x}")?,
            _ => write!(self.out, ", whose code is not in this file")?,
        }
        if let Some(size) = function.size {
            write!(self.out, ", {}", count_u64(size, "byte"))?;
        }
        match function.stack_size {
            Some(size) => writeln!(self.out, ", stack {}", count_u64(size, "byte"))?,
            None => writeln!(self.out, ", stack of unknown size")?,
        }
        if let Some(frame) = &function.frame {
            self.frame(frame)?;
        }
        function.records.iter().try_for_each(|record| self.record(record))
    }

    fn frame(&mut self, frame: &FrameReport) -> fmt::Result {
        let told = &frame.function;
        let size = count_u64(u64::from(told.size.get()), "byte");
        let base = register(frame.base, told.base);
        write!(self.out, "  told: {size} of code, base {base}")?;
        for (is_so, word) in [
            (told.has_frame_pointer, "a frame pointer"),
            (told.has_variable_size, "of variable size"),
            (told.is_realigned, "realigned"),
            (frame.has_live_out_info, "live-outs looked for"),
        ] {
            if is_so {
                write!(self.out, ", {word}")?;
            }
        }
        writeln!(self.out)?;
        for (kept, name) in &frame.registers {
            let name = self.paint(Style::Green, register(*name, kept.reg));
            match kept.is_spilled {
                true => writeln!(
                    self.out,
                    "    keeps {name} in [{base}{:+}], {}",
                    kept.offset,
                    count_u64(kept.size.into(), "byte")
                )?,
                false => writeln!(self.out, "    leaves {name} alone")?,
            }
        }
        Ok(())
    }

    fn record(&mut self, record: &RecordReport) -> fmt::Result {
        let id = self.paint(Style::Cyan, record.id);
        write!(
            self.out,
            "  record {id} at +{:#x}: {}",
            record.offset,
            kind(record.kind)
        )?;
        match (&record.site, &record.statepoint) {
            (_, Some(statepoint)) => write!(
                self.out,
                ": {}, {}, {} of references",
                count(statepoint.deopt_values, "deoptimization value"),
                count(statepoint.references, "reference"),
                count(statepoint.slots, "slot"),
            )?,
            (Some(site), None) => write!(self.out, ", {}", reserved(site.reserved))?,
            (None, None) => {}
        }
        writeln!(self.out)?;
        if record.may_be_overflow {
            let note = "may stand for a record that was too large to be written";
            writeln!(self.out, "    {}", self.paint(Style::Yellow, note))?;
        }
        if let Some(warning) = record.site.as_ref().and_then(|site| site.warning.as_ref()) {
            let warning = format!("warning: {warning}");
            writeln!(self.out, "    {}", self.paint(Style::Yellow, warning))?;
        }
        if let Some(source) = record.source.as_deref().and_then(lines::words) {
            writeln!(self.out, "    source         {source}")?;
        }
        for (number, location) in (1..).zip(&record.locations) {
            let place = self.paint(Style::Green, place(location));
            let heading = if number == 1 { "locations" } else { "" };
            let bytes = count_u64(u64::from(location.size), "byte");
            writeln!(self.out, "    {heading:9} {number:3}  {place}, {bytes}")?;
        }
        if !record.live_outs.is_empty() {
            let names = record.live_outs.iter().map(live_out);
            let names: Vec<_> = names.map(|name| self.paint(Style::Green, name)).collect();
            writeln!(self.out, "    live out       {}", names.join(" "))?;
        }
        if record.has_live_out_info == Some(false) {
            writeln!(self.out, "    live-outs were not looked for")?;
        }
        match &record.site {
            // Of a statepoint, nothing that is there belongs to it.
            Some(site) if record.kind != RecordKind::Statepoint => {
                self.code("code", record, &site.instructions)?;
            }
            _ => {}
        }
        match &record.now {
            Some(now) => self.code("now", record, now),
            None => Ok(()),
        }
    }

    fn code(&mut self, word: &str, record: &RecordReport, instructions: &[Instruction]) -> fmt::Result {
        let width = instructions.iter().map(|i| i.encoding.len()).max().unwrap_or(0);
        for (index, instruction) in instructions.iter().enumerate() {
            let heading = if index == 0 { word } else { "" };
            let offset = format!("+{:#x}", instruction.offset);
            let text = words(instruction);
            write!(
                self.out,
                "    {heading:9} {offset:>8}  {:width$}",
                instruction.encoding
            )?;
            if !text.is_empty() {
                let style = if instruction.is_nop {
                    Style::Dim
                } else {
                    Style::Bold
                };
                write!(self.out, "  {}", self.paint(style, text))?;
            }
            let end = instruction.offset + instruction.bytes.len() as u64;
            for name in record
                .references
                .range(instruction.offset..end)
                .map(|(_, name)| name)
            {
                write!(self.out, "  {}", self.paint(Style::Dim, format!("; {name}")))?;
            }
            trim_end(&mut self.out);
            writeln!(self.out)?;
        }
        Ok(())
    }
}

fn trim_end(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
}

fn words(instruction: &Instruction) -> String {
    match &instruction.text {
        _ if instruction.is_cut => "(not a whole instruction)".to_owned(),
        Some(nop) if instruction.is_nop => {
            format!("{nop}, {}", count(instruction.bytes.len(), "byte"))
        }
        Some(text) => text.clone(),
        None => String::new(),
    }
}

fn layout(layout: Layout) -> &'static str {
    match layout {
        Layout::Nested => "",
        Layout::Flat => ", flat,",
        Layout::FlatFork => ", flat as in the fork,",
    }
}

fn kind(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Patchpoint => "patchpoint",
        RecordKind::Shadow => "shadow",
        RecordKind::Statepoint => "statepoint, whose call returns here",
        RecordKind::Unknown => "patchpoint or shadow",
    }
}

fn reserved(reserved: Reserved) -> String {
    match reserved {
        Reserved::Given(bytes) => format!("{} as given", count_u64(bytes, "reserved byte")),
        Reserved::Recorded(bytes) => {
            format!("{} as the stack map tells", count_u64(bytes, "reserved byte"))
        }
        Reserved::Inferred(bytes) => {
            let bytes = count_u64(bytes, "reserved byte");
            format!("{bytes}, inferred from what LLVM filled them with")
        }
        Reserved::AtMost(bytes) => {
            let bytes = count_u64(bytes, "reserved byte");
            format!("at most {bytes} (the last nops may have another reason: give --reserved)")
        }
        Reserved::Unknown => "reserved bytes not known (give --reserved)".to_owned(),
    }
}

/// LLVM records this where the value is undefined.
const UNDEF: i32 = 0xfefe_fefe_u32 as i32;

/// A location in the notation of the help text.
pub(crate) fn place(location: &LocationReport) -> String {
    let register = |reg| register(location.register, reg);
    match location.place {
        LocationKind::Register { reg, bit_offset: 0 } => register(reg),
        LocationKind::Register { reg, bit_offset } => format!("{} from bit {bit_offset}", register(reg)),
        LocationKind::Direct { reg, offset } => format!("&[{}{offset:+}]", register(reg)),
        LocationKind::Indirect { reg, offset } => format!("[{}{offset:+}]", register(reg)),
        LocationKind::Constant { value: UNDEF } => format!("#{UNDEF} (undef, perhaps)"),
        LocationKind::Constant { value } => format!("#{value}"),
        LocationKind::ConstantIndex { index } => match location.constant {
            Some(value) => format!("#{value} (large constant {index})"),
            None => format!("large constant {index}"),
        },
    }
}

/// A register, with the number of live bytes where that is not usual.
pub(crate) fn live_out(live_out: &LiveOutReport) -> String {
    let name = register(live_out.register, live_out.reg);
    match live_out.size {
        8 | 16 => name,
        size => format!("{name}:{size}"),
    }
}

/// The name of a register. LLVM writes 65535 for one that has no DWARF number.
pub(crate) fn register(name: Option<RegisterName>, reg: DwarfReg) -> String {
    match (name, reg.get()) {
        (Some(name), _) => name.to_string(),
        (None, u16::MAX) => "(no number)".to_owned(),
        (None, _) => reg.to_string(),
    }
}
