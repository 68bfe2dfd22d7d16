//! Marked sites: instructions that the IR has marked by `!pcsections`, which no stack map records.
//!
//! Problem: any instruction can be marked, so the site holds code of the function, and nothing
//! tells what is live there. Approach: as in a shadow, the instructions themselves are what is
//! patched; those that a sequence displaces run in an exit stub. A site is whole instructions, so
//! that a sequence may go on behind it. It has no locations, and everything counts as live: a
//! sequence may write no register and no flags, but for what the runtime vouches.
//!
//! What is looked for before a mark becomes a site: it is in a function, at the start of an
//! instruction; the site ends with an instruction, within the function; no record starts inside of
//! it. What is looked for at every site is, too: no other one has its bytes, and no branch goes
//! into it behind its start.

use std::collections::BTreeMap;

use super::audit::{LONGEST_INSTRUCTION, Refusal};
use super::code::FunctionCode;
use super::declared::{DeclaringFunction, audit_each};
use super::details::ModuleParts;
use super::found::{FoundSites, SiteEntry};
use crate::addr::{CodeAddr, Len, RecordId};
use crate::arch::{CallShape, SiteKind};
use crate::error::SiteName;
use crate::image::CodeTable;
use crate::metadata::{self, PcSection, PcSectionShape};
use crate::site::{Error, Result};
use crate::verify;

/// Declares that the instructions which a PC section marks are sites.
///
/// ```
/// use patchpoint::metadata::{IntegerSize, PcSectionShape};
/// use patchpoint::site::Marks;
///
/// // store i32 1, ptr %p, !pcsections !0
/// // !0 = distinct !{!"my_sites", !1}
/// // !1 = !{i64 7, i16 5}            ; ID 7, at least 5 bytes
/// let shape = PcSectionShape::instructions().constant(IntegerSize::Eight).constant(IntegerSize::Two);
/// let marks = Marks::new("my_sites", shape, 0).reserved(1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    section: String,
    shape: PcSectionShape,
    id: usize,
    reserved: Option<usize>,
}

impl Marks {
    /// The section of that name, whose entries have this shape. The constant with index `id`,
    /// counted from 0, is the ID of an entry's sites.
    ///
    /// Without [`reserved`](Self::reserved), a site is the marked instruction.
    #[must_use]
    pub fn new(section: impl Into<String>, shape: PcSectionShape, id: usize) -> Self {
        let section = section.into();
        Self {
            section,
            shape,
            id,
            reserved: None,
        }
    }

    /// The constant with this index is the reserved length, in bytes: a site is the marked
    /// instruction and those behind it in which so many bytes begin. That may be more bytes, as an
    /// instruction is displaced whole.
    #[must_use]
    pub fn reserved(mut self, constant: usize) -> Self {
        self.reserved = Some(constant);
        self
    }

    fn mark(&self, entry: &metadata::PcSectionEntry<'_>, at: CodeAddr) -> Result<MarkedInstruction> {
        let constant = |index: usize| {
            entry.constants().nth(index).ok_or_else(|| Error::MarkConstant {
                section: self.section.clone(),
                at: entry.byte_offset(),
                index,
            })
        };
        let reserved = self.reserved.map(constant).transpose()?;
        Ok(MarkedInstruction {
            at,
            id: RecordId::new(constant(self.id)?),
            // What is longer than any function is refused as it is.
            reserved: reserved.map(|len| Len::new(u32::try_from(len).unwrap_or(u32::MAX))),
        })
    }
}

/// An instruction that is marked.
struct MarkedInstruction {
    at: CodeAddr,
    id: RecordId,
    /// `None` for the instruction alone.
    reserved: Option<Len>,
}

/// Makes sites of what the tables of that name mark.
pub(super) fn audit(
    parts: &ModuleParts,
    code: &FunctionCode<'_>,
    marks: &Marks,
    tables: &[CodeTable],
    found: &mut FoundSites,
    refused: &mut impl FnMut(Refusal) -> Result<()>,
) -> Result<()> {
    let by_function = match by_function(parts, marks, tables, refused) {
        Ok(by_function) => by_function,
        Err(error) => return refused(error.into()),
    };
    let marked = by_function.values().flatten().map(|mark| mark.at);
    let mut starts: Vec<CodeAddr> = marked.collect();
    starts.sort_unstable();
    audit_each(
        parts,
        code,
        by_function,
        &starts,
        refused,
        |at, mut marks, refused| {
            marks.sort_by_key(|mark| mark.at);
            let marked = Marked { at };
            for mark in &marks {
                match marked.site(mark) {
                    Ok(bytes) => {
                        let site = SiteEntry::new(mark.id, mark.at, None, at.index, 0);
                        found.push(site, CallShape::marked(bytes.len() as u32), bytes)?;
                    }
                    Err(error) => refused(Refusal {
                        site: Some(marked.name(mark)),
                        error,
                    })?,
                }
            }
            Ok(())
        },
    )
}

/// All marks of the tables of that name, by the numbers of their functions.
fn by_function(
    parts: &ModuleParts,
    marks: &Marks,
    tables: &[CodeTable],
    refused: &mut impl FnMut(Refusal) -> Result<()>,
) -> Result<BTreeMap<u32, Vec<MarkedInstruction>>> {
    let section = || marks.section.clone();
    let mut by_function: BTreeMap<u32, Vec<MarkedInstruction>> = BTreeMap::new();
    let named = || tables.iter().filter(|table| table.name == marks.section);
    if named().next().is_none() {
        return Err(Error::NoSuchPcSection { section: section() });
    }
    for table in named() {
        let parsed = PcSection::parse(&table.bytes, table.addr, parts.arch.endian(), &marks.shape)?;
        for entry in parsed.entries() {
            for at in entry.pcs() {
                let mark = marks.mark(&entry, at)?;
                match parts.functions.containing(at) {
                    Some(function) => by_function.entry(function).or_default().push(mark),
                    None => refused(
                        Error::MarkOutsideFunctions {
                            section: section(),
                            at,
                        }
                        .into(),
                    )?,
                }
            }
        }
    }
    Ok(by_function)
}

/// A function with marks.
struct Marked<'a> {
    at: DeclaringFunction<'a>,
}

impl<'a> Marked<'a> {
    fn name(&self, mark: &MarkedInstruction) -> Box<SiteName> {
        Box::new(SiteName {
            kind: Some(SiteKind::Marked),
            id: mark.id,
            function: Some(self.at.function.name.into()),
            offset: self.at.offset(mark.at),
            addr: mark.at,
        })
    }

    /// The bytes of the site.
    fn site(&self, mark: &MarkedInstruction) -> Result<&'a [u8]> {
        let bytes = self.instructions(mark)?;
        let reserved = Len::new(bytes.len() as u32);
        let end = mark
            .at
            .plus(reserved)
            .expect("bytes that were read have addresses");
        let after = self.at.records.partition_point(|record| *record <= mark.at);
        match self.at.records.get(after) {
            // protection: marks-hold-no-record
            Some(record) if *record < end => Err(Error::SiteOverlapsRecord {
                site: self.name(mark),
                reserved,
                next: self.at.offset(*record),
            }),
            _ => Ok(bytes),
        }
    }

    /// The instructions in which the reserved bytes begin.
    fn instructions(&self, mark: &MarkedInstruction) -> Result<&'a [u8]> {
        let reserved = mark.reserved.unwrap_or(Len::new(1));
        if reserved.get() == 0 {
            return Err(Error::SiteEmpty {
                site: self.name(mark),
            });
        }
        let start = self.at.offset(mark.at).get() as usize;
        let rest = self.at.code.get(start..).expect("a function was read as a whole");
        if rest.len() < reserved.as_usize() {
            return Err(Error::SiteOutsideFunction {
                site: self.name(mark),
                reserved,
                len: self.at.function.len,
            });
        }
        let undecodable = |why: String| Error::SiteUndecodable {
            site: self.name(mark),
            reserved,
            why,
        };
        // protection: marks-start-with-an-instruction
        if self.at.decoded.splits(mark.at) {
            return Err(undecodable("it starts inside of an instruction".into()));
        }
        let seen = rest
            .get(..reserved.as_usize() + LONGEST_INSTRUCTION)
            .unwrap_or(rest);
        let ends = verify::boundaries(self.at.parts.arch, mark.at, seen);
        // protection: marks-take-whole-instructions
        let end = ends.into_iter().find(|end| *end >= reserved.get());
        let end = end.unwrap_or(reserved.get()) as usize;
        let bytes = rest.get(..end).expect("an instruction ends in what was decoded");
        verify::original(self.at.parts.arch, mark.at, bytes)
            .map_err(|error| undecodable(error.to_string()))?;
        Ok(bytes)
    }
}
