//! The code of a file with its stack maps, at addresses: as the engine would load it, or as another
//! loader has laid it out.

use std::cell::RefCell;
use std::collections::BTreeMap;

use object::{BinaryFormat, Object as _, ObjectKind, ObjectSection, SectionIndex};
use patchpoint::addr::{CodeAddr, CodeRange, Len};
use patchpoint::image::{self, FunctionRange, Image, Object, Segment, SegmentKind};
use patchpoint::stackmap::{Endian, StackMap, StackMaps};

use crate::object_file::ObjectFile;
use crate::problem::Problem;
use crate::process::Mapped;
use crate::relocate::{CodePlace, relocate};
use crate::symbols::Symbols;

/// Where an object is placed that nothing has been told of: in reach of every code model.
pub(crate) const BASE: u64 = 0x1000_0000;
const PAGE: u32 = 0x1000;

/// How the file became code at addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageOrigin {
    /// By the engine's loader, at a base address.
    Loaded,
    /// It is linked: as it is in the file.
    Linked,
    /// It is linked, and a process has it in its memory.
    Running,
    /// It is no object for the engine's loader: its sections one after the other, and no relocation
    /// of code applied.
    Unlinked,
}

pub(crate) struct PlacedCode {
    pub(crate) image: Image,
    pub(crate) segments: Vec<Segment>,
    pub(crate) how: ImageOrigin,
    /// The symbols that the object defines, where it was loaded.
    pub(crate) symbols: Vec<(String, CodeAddr)>,
    /// Made-up addresses of symbols that the object does not define.
    pub(crate) outside: BTreeMap<u64, String>,
    /// The end of everything.
    pub(crate) end: u64,
}

impl PlacedCode {
    pub(crate) fn of(data: &[u8], file: &ObjectFile<'_>, mapped: Option<&Mapped>) -> Result<Self, Problem> {
        if let Some(mapped) = mapped {
            let bias = mapped.bias(&file.file)?;
            return Self::as_is(file, ImageOrigin::Running, bias);
        }
        match Object::parse(data) {
            Ok(object) => Self::load(object),
            Err(image::Error::ObjectUnsupported { .. }) => {
                let how = match file.file.kind() {
                    ObjectKind::Relocatable => ImageOrigin::Unlinked,
                    _ => ImageOrigin::Linked,
                };
                Self::as_is(file, how, 0)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn load(object: Object<'_>) -> Result<Self, Problem> {
        let layout = object.layout()?;
        let base = CodeAddr::new(BASE);
        // The base is a multiple of every alignment that an object may ask for.
        let (addrs, size) = layout.contiguous(base, Len::new(PAGE)).ok_or(Problem::TooLarge)?;
        let outside = RefCell::new(BTreeMap::new());
        let first = BASE + size + u64::from(PAGE);
        let linked = layout.link(&addrs, &|name| {
            let mut outside = outside.borrow_mut();
            let at = first + 16 * outside.len() as u64;
            outside.insert(at, name.to_owned());
            Some(CodeAddr::new(at))
        })?;
        let outside = outside.into_inner();
        let symbols = linked.symbols();
        Ok(Self {
            symbols: symbols.map(|(name, addr)| (name.to_owned(), addr)).collect(),
            end: first + 16 * outside.len() as u64,
            image: linked.image,
            segments: linked.segments,
            how: ImageOrigin::Loaded,
            outside,
        })
    }

    /// The code and functions that the stack maps name, so far from the addresses in the file.
    fn as_is(file: &ObjectFile<'_>, how: ImageOrigin, bias: u64) -> Result<Self, Problem> {
        let arch = file.arch().ok_or_else(|| Problem::NoArch(file.arch_name()))?;
        let starts = section_starts(file, how != ImageOrigin::Unlinked, bias);
        let mut symbols = Symbols::of(file);
        let mut functions = Vec::new();
        let mut stack_maps = Vec::new();
        for section in file.map_sections()? {
            let mut relocated = relocate(file, &section);
            let maps =
                StackMaps::parse(&relocated.data, file.endian()).map_err(|error| section.problem(error))?;
            let fields: Vec<u64> = maps
                .maps()
                .iter()
                .flat_map(StackMap::functions)
                .map(|function| function.byte_offset().get())
                .collect();
            for field in &fields {
                let target = relocated.target(file, *field);
                symbols.add_start(file, &target);
            }
            for field in fields {
                let code = symbols.function(file, relocated.target(file, field));
                let found = code.place.and_then(|place| address(&starts, place));
                // Of a function that is not there, the audit says so.
                let addr = CodeAddr::new(found.unwrap_or(0));
                put(&mut relocated.data, field, addr.get(), file.endian());
                if let (Some(_), Some(size)) = (found, code.size) {
                    functions.push(FunctionRange {
                        name: code.name.unwrap_or_else(|| "".into()),
                        addr,
                        len: Len::new(u32::try_from(size).unwrap_or(u32::MAX)),
                        pointer: addr,
                    });
                }
            }
            stack_maps.resize(stack_maps.len().next_multiple_of(8), 0);
            stack_maps.append(&mut relocated.data);
        }
        functions.sort_by_key(|function| function.addr);
        functions.dedup_by_key(|function| function.addr);
        let segments = segments(file, &starts);
        let code = segments
            .iter()
            .filter_map(|s| CodeRange::new(s.addr, s.bytes.len() as u64));
        let mut code: Vec<CodeRange> = code.collect();
        code.sort();
        Ok(Self {
            end: code.last().map_or(0, |range| range.end().get()),
            image: Image {
                arch,
                windows: matches!(file.file.format(), BinaryFormat::Coff | BinaryFormat::Pe),
                endian: file.endian(),
                stack_maps,
                functions,
                eh_frames: Vec::new(),
                code_tables: Vec::new(),
                code,
            },
            segments,
            how,
            symbols: Vec::new(),
            outside: BTreeMap::new(),
        })
    }
}

/// Where each section with code is, by its number: of a linked file so far from the address that it
/// has there.
pub(crate) fn section_starts(file: &ObjectFile<'_>, linked: bool, bias: u64) -> BTreeMap<usize, u64> {
    let mut next = BASE;
    let code = file
        .file
        .sections()
        .filter(|section| file.is_code(section) && section.size() > 0);
    code.map(|section| {
        let start = match linked {
            true => section.address().wrapping_add(bias),
            false => next,
        };
        next += section.size().next_multiple_of(u64::from(PAGE));
        (section.index().0, start)
    })
    .collect()
}

fn address(starts: &BTreeMap<usize, u64>, place: CodePlace) -> Option<u64> {
    starts.get(&place.section)?.checked_add(place.offset)
}

fn segments(file: &ObjectFile<'_>, starts: &BTreeMap<usize, u64>) -> Vec<Segment> {
    let segment = |(index, start): (&usize, &u64)| {
        let section = file.file.section_by_index(SectionIndex(*index)).ok()?;
        let bytes = section.data().ok()?.to_vec();
        Some(Segment {
            kind: SegmentKind::Code,
            addr: CodeAddr::new(*start),
            size: Len::of(&bytes)?,
            bytes,
        })
    };
    starts.iter().filter_map(segment).collect()
}

fn put(data: &mut [u8], at: u64, value: u64, endian: Endian) {
    let field = usize::try_from(at)
        .ok()
        .and_then(|at| data.get_mut(at..)?.get_mut(..8));
    if let Some(field) = field {
        field.copy_from_slice(&match endian {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        });
    }
}
