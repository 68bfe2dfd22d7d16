//! Symbols that linkers define where sections of one name begin and end, for programs that keep
//! arrays in sections: `__start_NAME` and `__stop_NAME` of ELF, where the name is an identifier of
//! C; `section$start$SEGMENT$SECTION`, `section$end$SEGMENT$SECTION`, `segment$start$SEGMENT` and
//! `segment$end$SEGMENT` of Mach-O.
//!
//! Problem: what is between the two symbols is one array, of which each object has a part.
//! Approach: where an edge refers to such a symbol and nobody defines it, the sections of that name
//! follow each other, in the order of the graph and with no more between them than their own
//! alignment wants; the first is aligned as the strictest of them is. So the parts of arrays whose
//! elements are as large as their alignment have no holes, as those of `ld` and `lld` have none.
//!
//! What linkers do, and this does too: a definition of an object or of a pass counts before these.
//! References that are weak find them, too; where there is no section of the name they are
//! undefined as any other symbol is, and the resolver is asked. A symbol is as visible as what
//! refers to it says, as with the linkers' default `-z start-stop-visibility=protected`. Sections
//! of one name of which some are writable are all in the data segment. When a graph is pruned, a
//! use of one of the symbols keeps all sections of the name (`-z nostart-stop-gc`, the default),
//! but those that are about code (`SHF_LINK_ORDER`), which stay with their code.
//!
//! What linkers do and this does not: the sections of a segment of Mach-O may be in memory of
//! several protections here, which is not contiguous. The symbols of such a segment are refused.
//!
//! Cost: linear in symbols and sections; nothing where no symbol has such a name.

use alloc::string::String;
use alloc::vec::Vec;
use std::collections::HashMap;

use crate::error::Result;
use crate::format::ObjectFormat;
use crate::graph::checks::refuse;
use crate::graph::{Definition, Graph, Section, SectionId, SectionRole, SymbolId};

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Start,
    Stop,
}

/// Of what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Bounded {
    /// The sections of this name.
    Sections(String),
    /// Those of this segment of Mach-O.
    Segment(String),
}

/// Sections that are placed one behind the other, in this order.
pub(crate) type SectionRow = Vec<SectionId>;

/// What a symbol's name says.
fn bound(format: ObjectFormat, name: &str) -> Option<(Bounded, End)> {
    let of = |rest: &'_ str, end| (String::from(rest), end);
    match format {
        ObjectFormat::Elf => {
            let start = name.strip_prefix("__start_").map(|rest| of(rest, End::Start));
            let found = start.or_else(|| Some(of(name.strip_prefix("__stop_")?, End::Stop)));
            let (section, end) = found.filter(|(section, _)| is_identifier(section))?;
            Some((Bounded::Sections(section), end))
        }
        ObjectFormat::MachO => {
            let (what, rest) = name.split_once('$')?;
            let (end, rest) = match rest.split_once('$')? {
                ("start", rest) => (End::Start, rest),
                ("end", rest) => (End::Stop, rest),
                _ => return None,
            };
            match what {
                // As the reader names it.
                "section" => Some((Bounded::Sections(rest.replacen('$', ",", 1)), end)),
                "segment" => Some((Bounded::Segment(rest.into()), end)),
                _ => None,
            }
        }
        ObjectFormat::Coff => None,
    }
}

/// Whether C can name it.
fn is_identifier(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let mut bytes = name.bytes();
    bytes.next().is_some_and(is_letter) && bytes.all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

impl Bounded {
    /// What a section can be bounded as: by its name, and by its segment's.
    fn of(format: ObjectFormat, section: &Section<'_>) -> [Option<Self>; 2] {
        let segment = section.name.split_once(',').map(|(segment, _)| segment);
        let segment = segment.filter(|_| format == ObjectFormat::MachO);
        [
            Some(Self::Sections(section.name.clone().into_owned())),
            segment.map(|segment| Self::Segment(segment.into())),
        ]
    }
}

/// The symbols that are to be defined, and the sections between them.
struct WantedBounds {
    symbols: Vec<(SymbolId, usize, End)>,
    /// By what bounds them.
    rows: Vec<(Bounded, SectionRow)>,
}

impl Graph<'_> {
    /// The sections that are between symbols of this kind which nobody defines. `of` says which
    /// symbols count.
    fn wanted_bounds(&self, of: impl Fn(SymbolId) -> bool) -> WantedBounds {
        let mut wanted = WantedBounds {
            symbols: Vec::new(),
            rows: Vec::new(),
        };
        let mut numbers: HashMap<Bounded, usize> = HashMap::new();
        for (id, symbol) in (0..).map(SymbolId).zip(&self.symbols) {
            if !matches!(symbol.definition, Definition::Undefined { .. }) || !of(id) {
                continue;
            }
            if let Some((bounded, end)) = bound(self.format, &symbol.name) {
                let number = *numbers.entry(bounded).or_insert_with_key(|bounded| {
                    wanted.rows.push((bounded.clone(), SectionRow::new()));
                    wanted.rows.len() - 1
                });
                wanted.symbols.push((id, number, end));
            }
        }
        if wanted.rows.is_empty() {
            return wanted;
        }
        for (id, section) in (0..).map(SectionId).zip(&self.sections) {
            if section.role == SectionRole::Ignored {
                continue;
            }
            for bounded in Bounded::of(self.format, section).into_iter().flatten() {
                let row = numbers
                    .get(&bounded)
                    .and_then(|number| wanted.rows.get_mut(*number));
                row.into_iter().for_each(|(_, row)| row.push(id));
            }
        }
        wanted
    }

    /// By symbol: the sections that a use of it keeps.
    pub(crate) fn kept_by_bounds(&self) -> HashMap<SymbolId, SectionRow> {
        let wanted = self.wanted_bounds(|_| true);
        let kept = |(id, number, _): &(SymbolId, usize, End)| {
            let (_, row) = wanted.rows.get(*number)?;
            let kept = row.iter().copied().filter(|id| {
                let section = self.section(*id);
                section.is_some_and(|section| section.about.is_none())
            });
            Some((*id, kept.collect()))
        };
        wanted.symbols.iter().filter_map(kept).collect()
    }

    /// Defines the symbols that edges refer to and nobody defines. Returns what has to be placed in
    /// a row for that.
    ///
    /// # Errors
    /// Sections of one name are code in one object and data in another.
    pub(crate) fn define_bounds(&mut self) -> Result<Vec<SectionRow>> {
        let mentioned = self.wanted();
        let mut wanted = self.wanted_bounds(|id| mentioned.get(id.index()) == Some(&true));
        let mut why_not = Vec::with_capacity(wanted.rows.len());
        for (bounded, row) in &mut wanted.rows {
            why_not.push(self.bring_together(bounded, row)?);
        }
        for (id, number, end) in &wanted.symbols {
            let Some((_, row)) = wanted.rows.get(*number) else {
                continue;
            };
            let at = match end {
                End::Start => row.first().map(|id| (*id, 0)),
                End::Stop => row.last().and_then(|id| Some((*id, self.section(*id)?.size))),
            };
            let definition = match (why_not.get(*number).copied().flatten(), at) {
                (Some(reason), _) => Definition::Refused(reason),
                (None, Some((section, offset))) => Definition::Section(section, offset),
                // There is none: somebody else may know the symbol.
                (None, None) => continue,
            };
            if let Some(symbol) = self.symbols.get_mut(id.index()) {
                symbol.definition = definition;
            }
        }
        // One that has others in it comes before those: a section's row is a part of its segment's.
        let rows = wanted.rows.into_iter().zip(why_not);
        let rows = rows.filter(|((_, row), why_not)| why_not.is_none() && !row.is_empty());
        let mut rows: Vec<_> = rows.map(|(row, _)| row).collect();
        rows.sort_by_key(|(bounded, _)| matches!(bounded, Bounded::Sections(_)));
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// Makes sections such that they can be placed in a row, and brings them into its order.
    /// Returns why that cannot be, where only the symbols are to be refused for it.
    fn bring_together(&mut self, bounded: &Bounded, row: &mut SectionRow) -> Result<Option<&'static str>> {
        let role = |id: &SectionId| self.section(*id).map(|section| section.role);
        let Some(first) = row.first().and_then(role) else {
            return Ok(None);
        };
        let all_are = |may: &[SectionRole]| {
            row.iter()
                .all(|id| role(id).is_some_and(|role| may.contains(&role)))
        };
        if first == SectionRole::StackMaps {
            return Ok(Some("its section is kept but not placed, so it has no address"));
        }
        match bounded {
            Bounded::Segment(_) if !all_are(&[first]) => {
                return Ok(Some(
                    "the sections of its segment are in memory of several protections: take the bounds of sections",
                ));
            }
            Bounded::Segment(_) => {
                // Those of one name follow each other, those whose zeros are in no file behind the
                // others.
                let mut ranks: HashMap<&str, (bool, usize)> = HashMap::new();
                let sections = &self.sections;
                let section = |id: &SectionId| sections.get(id.index());
                for (index, section) in row.iter().filter_map(section).enumerate() {
                    let rank = ranks.entry(&section.name).or_insert((true, index));
                    rank.0 &= section.is_zero_filled();
                }
                row.sort_by_key(|id| section(id).and_then(|section| ranks.get(&*section.name)));
            }
            Bounded::Sections(_) if all_are(&[first]) => {}
            Bounded::Sections(_) if all_are(&[SectionRole::ReadOnly, SectionRole::Data]) => {
                for id in &*row {
                    if let Some(section) = self.sections.get_mut(id.index()) {
                        section.role = SectionRole::Data;
                    }
                }
            }
            Bounded::Sections(name) => {
                return Err(refuse(
                    name,
                    "it is code in one object and data in another, and cannot have one start and one end",
                ));
            }
        }
        Ok(None)
    }
}
