//! What the readers of all formats check alike: names, sizes, alignments, places, and how much a
//! file can claim.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use core::cell::Cell;

use llvm_stackmaps::addr::ByteOffset;

use crate::error::{Error, Result};
use crate::graph::{Definition, Section, SectionId, SectionRole};
use crate::relocation::Relocation;
use crate::{MAX_ALIGN, MAX_SIZE};

/// How many bytes of names there may be for each byte of the file. Names may share bytes, so their
/// sum is not bounded by the file's size; linkers that share tails stay far below this.
const NAMES_PER_BYTE: u64 = 16;

/// Turns bytes to names, as long as they are not too many.
pub(crate) struct Texts {
    /// The bytes that names may still have.
    left: Cell<u64>,
}

impl Texts {
    /// For a file of this many bytes.
    pub(crate) fn of_file(len: usize) -> Self {
        Self {
            left: Cell::new(NAMES_PER_BYTE.saturating_mul(len as u64)),
        }
    }

    /// A name as text, if all names up to it are not too many bytes.
    pub(crate) fn text<'n>(&self, name: &'n [u8]) -> Result<Cow<'n, str>> {
        let Some(left) = self.left.get().checked_sub(name.len() as u64) else {
            let reason = "they share their bytes so often that they are many times the file";
            return Err(contradiction("names", reason.into()));
        };
        self.left.set(left);
        Ok(String::from_utf8_lossy(name))
    }
}

/// The file cannot be read at `what`.
pub(crate) fn malformed(what: &'static str) -> impl Fn(object::read::Error) -> Error {
    move |reason| contradiction(what, reason.to_string())
}

/// The file can be read, but what it says cannot be.
pub(crate) fn contradiction(what: &'static str, reason: String) -> Error {
    Error::ObjectMalformed { what, reason }
}

/// How many more relocations a file can have: each takes bytes of its own, so that a few bytes
/// which many sections claim do not make lists without end.
pub(crate) struct Room(usize);

impl Room {
    /// That of a file of so many bytes, of which a relocation takes so many.
    pub(crate) fn of(file: &[u8], relocation: usize) -> Self {
        Self(file.len() / relocation)
    }

    /// Takes room for so many.
    pub(crate) fn take(&mut self, relocations: usize) -> Result<()> {
        let reason = "they are more than the file has room for: sections overlap";
        let left = self.0.checked_sub(relocations);
        self.0 = left.ok_or_else(|| contradiction("relocations", reason.into()))?;
        Ok(())
    }
}

pub(crate) fn refuse(section: &str, reason: &'static str) -> Error {
    Error::SectionRefused {
        section: section.into(),
        reason,
    }
}

/// The size of a section that is kept.
pub(crate) fn size(size: u64) -> Result<u32> {
    u32::try_from(size).map_err(|_| Error::ImageTooLarge {
        size,
        limit: MAX_SIZE,
    })
}

/// The alignment of a section that is kept.
pub(crate) fn alignment(section: &str, align: u64) -> Result<u32> {
    match u32::try_from(align.max(1)) {
        Ok(align) if align.is_power_of_two() && align <= MAX_ALIGN => Ok(align),
        _ => Err(refuse(section, "its alignment is no power of two up to 65536")),
    }
}

/// Zeros that are in no file are of data. Nothing else is made of them: who runs them, or reads a
/// table of them, has a damaged file.
pub(crate) fn zeros(section: &Section<'_>) -> Result<()> {
    let is_table = section.describes_code() || section.list.is_some();
    let may = matches!(
        section.role,
        SectionRole::Data | SectionRole::ReadOnly | SectionRole::Ignored
    );
    // protection: code-has-its-bytes
    if section.is_zero_filled() && (!may || is_table) {
        return Err(refuse(
            &section.name,
            "its bytes are in no file: code and tables about code have theirs there",
        ));
    }
    Ok(())
}

/// The place of a symbol in a section, by the section's index and the offset in it.
pub(crate) fn in_section(
    sections: &[Section<'_>],
    index: usize,
    value: u64,
    name: &str,
) -> Result<Definition> {
    let Some(section) = sections.get(index) else {
        let reason = format!("section {index} of symbol `{name}` is not there");
        return Err(contradiction("a symbol's section", reason));
    };
    if section.role == SectionRole::Ignored {
        return Ok(Definition::Refused("its section is not loaded"));
    }
    let offset = u32::try_from(value).ok().filter(|offset| *offset <= section.size);
    let (Some(offset), Ok(id)) = (offset, u32::try_from(index)) else {
        let reason = format!("{value:#x} of `{name}` is outside {}", section.name);
        return Err(contradiction("a symbol's offset", reason));
    };
    Ok(Definition::Section(SectionId(id), offset))
}

/// A common symbol of this alignment.
pub(crate) fn common(name: &str, align: u64) -> Result<Definition> {
    match u32::try_from(align.max(1)) {
        Ok(align) if align.is_power_of_two() && align <= MAX_ALIGN => Ok(Definition::Common { align }),
        _ => Err(refuse(
            name,
            "the alignment of a common symbol is no power of two up to 65536",
        )),
    }
}

/// The offset of an edge, if all that it changes is in the section's bytes.
pub(crate) fn place(section: &Section<'_>, relocation: Relocation, offset: u64) -> Result<u32> {
    let place = u32::try_from(offset).ok().filter(|_| {
        let end = offset.checked_add(u64::from(relocation.width()));
        end.is_some_and(|end| end <= section.bytes.len() as u64)
    });
    place.ok_or_else(|| Error::RelocationOutsideSection {
        relocation: relocation.name(),
        section: section.name.clone().into_owned(),
        offset: ByteOffset::new(offset),
        size: section.bytes.len() as u64,
    })
}
