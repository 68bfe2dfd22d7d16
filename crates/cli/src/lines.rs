//! Places in the source, from DWARF.
//!
//! The debug information of a linked file speaks of the addresses in the file. That of a relocatable
//! one has relocations, which are applied here as if each section of code began at an address of its
//! own: functions in sections of their own would lie on top of each other otherwise. Records are
//! looked up by the place of their function in the file, whatever the address at which the tool
//! thinks that it is loaded.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::rc::Rc;

use addr2line::Context;
use gimli::{Dwarf, EndianRcSlice, Error, Reader as _, RunTimeEndian, Section as _, SectionId};
use object::{Object, ObjectKind, ObjectSection, Relocation, RelocationFlags, RelocationKind, elf};
use patchpoint::image::Image;
use patchpoint::stackmap::{Endian, StackMap, StackMaps};

use crate::decompress;
use crate::image::section_starts;
use crate::object_file::ObjectFile;
use crate::problem::Problem;
use crate::relocate::{self, CodePlace, relocate};
use crate::symbols::Symbols;

type Slice = EndianRcSlice<RunTimeEndian>;

/// A place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceLine {
    pub(crate) function: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
}

/// What a file's debug information says of its code.
pub(crate) struct Lines {
    context: Context<Slice>,
    /// Where the sections with code begin, as the debug information is read here.
    starts: BTreeMap<usize, u64>,
}

/// The functions of an image, with what the debug information of its file says of them.
pub(crate) struct ImageLines {
    lines: Lines,
    /// By the address in the image.
    functions: HashMap<u64, CodePlace>,
}

impl Lines {
    /// Of a file that has debug information.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(file: &ObjectFile<'_>) -> Result<Option<Self>, Problem> {
        let is_linked = file.file.kind() != ObjectKind::Relocatable;
        let starts = section_starts(file, is_linked, 0);
        let endian = match file.endian() {
            Endian::Little => RunTimeEndian::Little,
            Endian::Big => RunTimeEndian::Big,
        };
        let load = |id: SectionId| {
            let data = section(file, &starts, id.name())?;
            Ok::<_, Problem>(EndianRcSlice::new(Rc::from(data), endian))
        };
        let dwarf = Dwarf::load(load)?;
        if dwarf.debug_info.reader().is_empty() {
            return Ok(None);
        }
        let context = Context::from_dwarf(dwarf).map_err(Problem::Dwarf)?;
        Ok(Some(Self { context, starts }))
    }

    /// The place of an instruction in the source. Where the function was inlined that has it, where
    /// that was follows.
    pub(crate) fn at(&self, place: CodePlace) -> Result<Vec<SourceLine>, Problem> {
        let start = self.starts.get(&place.section);
        let Some(addr) = start.and_then(|start| start.checked_add(place.offset)) else {
            return Ok(Vec::new());
        };
        self.frames(addr).map_err(Problem::Dwarf)
    }

    fn frames(&self, addr: u64) -> Result<Vec<SourceLine>, Error> {
        let mut found = Vec::new();
        let mut frames = self.context.find_frames(addr).skip_all_loads()?;
        while let Some(frame) = frames.next()? {
            let name = frame.function.as_ref().map(|name| name.raw_name());
            let location = frame.location;
            let location = location.as_ref();
            found.push(SourceLine {
                function: name.transpose()?.map(|name| name.into_owned()),
                file: location.and_then(|at| at.file).map(str::to_owned),
                line: location.and_then(|at| at.line),
                column: location.and_then(|at| at.column),
            });
        }
        // A frame that says nothing but the function's name is no place.
        found.retain(|line| line.file.is_some());
        Ok(found)
    }
}

impl ImageLines {
    /// # Errors
    /// The debug information cannot be read.
    pub(crate) fn of(file: &ObjectFile<'_>, image: &Image) -> Result<Option<Self>, Problem> {
        let Some(lines) = Lines::of(file)? else {
            return Ok(None);
        };
        let mut symbols = Symbols::of(file);
        let mut places = Vec::new();
        for section in file.map_sections()? {
            let relocated = relocate(file, &section);
            let maps = StackMaps::parse(&relocated.data, file.endian());
            let maps = maps.map_err(|error| section.problem(error))?;
            for function in maps.maps().iter().flat_map(StackMap::functions) {
                let target = relocated.target(file, function.byte_offset().get());
                symbols.add_start(file, &target);
                places.push(symbols.function(file, target).place);
            }
        }
        // The image has the same functions in the same order, and knows their addresses.
        let maps = StackMaps::parse(&image.stack_maps, image.endian)?;
        let pointers = maps.maps().iter().flat_map(StackMap::functions);
        let pointers: Vec<u64> = pointers.map(|function| function.address()).collect();
        // Otherwise it is not known which is which.
        if pointers.len() != places.len() {
            return Ok(None);
        }
        let by_pointer: HashMap<u64, u64> = image
            .functions
            .iter()
            .map(|f| (f.pointer.get(), f.addr.get()))
            .collect();
        let functions = pointers.iter().zip(places).filter_map(|(pointer, place)| {
            let addr = by_pointer.get(pointer)?;
            Some((*addr, place?))
        });
        Ok(Some(Self {
            functions: functions.collect(),
            lines,
        }))
    }

    /// The place in the source of what is at a distance from the start of a function.
    pub(crate) fn at(&self, function: u64, offset: u32) -> Result<Vec<SourceLine>, Problem> {
        let Some(place) = self.functions.get(&function) else {
            return Ok(Vec::new());
        };
        self.lines.at(CodePlace {
            section: place.section,
            offset: place.offset.saturating_add(offset.into()),
        })
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file.as_deref().unwrap_or("?"))?;
        for number in [self.line, self.column].into_iter().map_while(|number| number) {
            write!(f, ":{number}")?;
        }
        Ok(())
    }
}

/// Places in words, the innermost first.
pub(crate) fn words(lines: &[SourceLine]) -> Option<String> {
    let words: Vec<String> = lines.iter().map(SourceLine::to_string).collect();
    (!words.is_empty()).then(|| words.join(", inlined at "))
}

/// The bytes of a section of debug information, relocated; none where it is not there.
fn section(file: &ObjectFile<'_>, starts: &BTreeMap<usize, u64>, name: &str) -> Result<Vec<u8>, Problem> {
    let Some(section) = decompress::section(file, name) else {
        return Ok(Vec::new());
    };
    let mut data = decompress::bytes(&section, name)?.into_owned();
    if file.file.kind() == ObjectKind::Relocatable {
        for (offset, relocation) in section.relocations() {
            // What refers to nothing that is here stays as it is.
            let _ = apply(file, starts, &mut data, offset, &relocation);
        }
    }
    Ok(data)
}

fn apply(
    file: &ObjectFile<'_>,
    starts: &BTreeMap<usize, u64>,
    data: &mut [u8],
    offset: u64,
    relocation: &Relocation,
) -> Option<()> {
    let change = change(file, relocation)?;
    let start = usize::try_from(offset).ok()?;
    let field = data.get_mut(start..)?.get_mut(..change.size)?;
    let old = file.uint(field);
    let place = relocate::target(file, relocation, old).place?;
    let value = match starts.get(&place.section) {
        Some(start) if !change.is_offset => start.wrapping_add(place.offset),
        // One section of debug information refers to another.
        _ => place.offset,
    };
    let new = match change.how {
        How::Set => value,
        How::Add => old.wrapping_add(value),
        How::Subtract => old.wrapping_sub(value),
    };
    let new = new & change.mask | old & !change.mask;
    match file.endian() {
        Endian::Little => field.copy_from_slice(new.to_le_bytes().get(..change.size)?),
        Endian::Big => field.copy_from_slice(new.to_be_bytes().get(8 - change.size..)?),
    }
    Some(())
}

/// What a relocation of debug information does.
struct Change {
    how: How,
    /// In bytes.
    size: usize,
    mask: u64,
    /// The value is the distance from the section's start, even of code.
    is_offset: bool,
}

enum How {
    Set,
    Add,
    Subtract,
}

fn change(file: &ObjectFile<'_>, relocation: &Relocation) -> Option<Change> {
    let size = usize::from(relocation.size() / 8);
    let simple = |is_offset| Change {
        how: How::Set,
        size,
        mask: u64::MAX,
        is_offset,
    };
    match relocation.kind() {
        RelocationKind::Absolute if matches!(size, 4 | 8) => return Some(simple(false)),
        RelocationKind::SectionOffset if size == 4 => return Some(simple(true)),
        _ => {}
    }
    let RelocationFlags::Elf { r_type } = relocation.flags() else {
        return None;
    };
    if file.file.architecture() != object::Architecture::Riscv64 {
        return None;
    }
    // RISC-V writes distances as sums, as its linker may shorten the code in between.
    let (how, size, mask) = match r_type {
        elf::R_RISCV_ADD8 => (How::Add, 1, u64::MAX),
        elf::R_RISCV_ADD16 => (How::Add, 2, u64::MAX),
        elf::R_RISCV_ADD32 => (How::Add, 4, u64::MAX),
        elf::R_RISCV_ADD64 => (How::Add, 8, u64::MAX),
        elf::R_RISCV_SUB6 => (How::Subtract, 1, 0x3f),
        elf::R_RISCV_SUB8 => (How::Subtract, 1, u64::MAX),
        elf::R_RISCV_SUB16 => (How::Subtract, 2, u64::MAX),
        elf::R_RISCV_SUB32 => (How::Subtract, 4, u64::MAX),
        elf::R_RISCV_SUB64 => (How::Subtract, 8, u64::MAX),
        elf::R_RISCV_SET6 => (How::Set, 1, 0x3f),
        elf::R_RISCV_SET8 => (How::Set, 1, u64::MAX),
        elf::R_RISCV_SET16 => (How::Set, 2, u64::MAX),
        elf::R_RISCV_SET32 => (How::Set, 4, u64::MAX),
        _ => return None,
    };
    Some(Change {
        how,
        size,
        mask,
        is_offset: false,
    })
}
