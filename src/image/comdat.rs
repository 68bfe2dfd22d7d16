//! Sections that come in groups, and of several files' groups the one that stands for all (COMDAT).
//!
//! Problem: compilers put an inline function or an instance of a template into every object that needs it, under one name;
//! linked together, they are one. Approach: when a file is added, its groups are looked up by name among those that are
//! there, and by the rule of their format one of the two is kept. The sections of the other go, and so does what tables say
//! of them ([`super::parts`]); symbols that they defined become references, which then find what is kept.
//!
//! Sources: System V gABI, "Section Groups"; Microsoft PE format, "COMDAT Sections".
//!
//! Invariants: a section is in one group at most. Of each name, one group that can be chosen from others is in the graph,
//! unless one file has several.
//!
//! Cost: a lookup by name for each group of a file that is added. Where something goes, tables of that file are taken apart;
//! where a later, larger group takes an earlier one's place (COFF alone), all that are there, once for each file.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::mem;
use std::collections::{HashMap, HashSet};

use super::descriptors::{Descriptors, Spot};
use super::elf::is_descriptors;
use super::graph::{Definition, Graph, SectionId, Strength, Symbol};
use super::merge::Bases;
use super::parts::Table;
use crate::error::{Error, Result};

/// Sections of a file that are kept or taken out together.
#[derive(Clone, Debug)]
pub struct Group<'data> {
    pub(super) name: Cow<'data, str>,
    /// Which of the graph's files it is from.
    pub(super) file: u32,
    pub(super) selection: Option<Selection>,
    /// Of those that are loaded; the first is the one that is compared.
    pub(super) sections: Vec<SectionId>,
}

/// Which of several files' groups of one name is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// The first: those of ELF (`GRP_COMDAT`), and COFF's `SELECT_ANY`.
    Any,
    /// The one there is: two are an error.
    NoDuplicates,
    /// The first, if the first sections of both have the same size.
    SameSize,
    /// The first, if the first sections of both have the same bytes before relocation.
    ExactMatch,
    /// The one whose first section is the largest, of equal ones the first.
    Largest,
}

impl Group<'_> {
    /// The name that groups of other files may have, too: in ELF the signature, in COFF the symbol of the first section.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The index in [`Graph::files`] of the file that it is from.
    #[must_use]
    pub fn file(&self) -> usize {
        self.file as usize
    }

    /// Which of several is kept; `None` where each file keeps its own.
    #[must_use]
    pub fn selection(&self) -> Option<Selection> {
        self.selection
    }

    /// The sections.
    #[must_use]
    pub fn sections(&self) -> &[SectionId] {
        &self.sections
    }
}

/// The groups that are chosen from others, by name: their indices in the graph.
pub(super) type Comdats<'data> = HashMap<Cow<'data, str>, usize>;

/// What is kept of a graph's groups and of those of a file that is added to it.
#[derive(Default)]
pub(super) struct Choice {
    /// By group of the file.
    fates: Vec<Fate>,
    /// What goes of the file; of most nothing.
    dropped: Gone,
    /// What goes of the graph.
    replaced: Gone,
}

impl Choice {
    /// Whether a symbol of the file goes with its section.
    pub(super) fn drops(&self, symbol: &Symbol<'_>) -> bool {
        self.dropped.holds(symbol)
    }

    /// Whether a symbol that is there goes with its section.
    pub(super) fn replaces(&self, symbol: &Symbol<'_>) -> bool {
        self.replaced.holds(symbol)
    }
}

/// Sections that go, with those about them.
#[derive(Default)]
struct Gone {
    sections: HashSet<SectionId>,
    /// The descriptors of functions in them.
    descriptors: HashSet<Spot>,
}

impl Gone {
    fn new(graph: &Graph<'_>, sections: HashSet<SectionId>) -> Self {
        let mut gone = Self {
            sections,
            descriptors: HashSet::new(),
        };
        if !gone.sections.is_empty() {
            gone.add_followers(graph);
            let all = Descriptors::find(graph);
            let of_code = all.iter().filter(|(_, code)| gone.sections.contains(&code.0));
            gone.descriptors = of_code.map(|(descriptor, _)| *descriptor).collect();
        }
        gone
    }

    /// Adds the sections about those that go, and those about them.
    fn add_followers(&mut self, graph: &Graph<'_>) {
        let mut followers: HashMap<SectionId, Vec<SectionId>> = HashMap::new();
        for (id, section) in (0..).map(SectionId).zip(&graph.sections) {
            if let Some(about) = section.about {
                followers.entry(about).or_default().push(id);
            }
        }
        let mut waiting: Vec<SectionId> = self.sections.iter().copied().collect();
        while let Some(id) = waiting.pop() {
            let new = followers.remove(&id).unwrap_or_default();
            self.sections.extend(&new);
            waiting.extend(new);
        }
    }

    fn holds(&self, symbol: &Symbol<'_>) -> bool {
        matches!(symbol.definition, Definition::Section(id, offset)
            if self.sections.contains(&id) || self.descriptors.contains(&(id, offset)))
    }

    /// Whether the relocation at this place is of a descriptor that goes: of its code's address or of its TOC pointer.
    fn describes(&self, (id, offset): Spot) -> bool {
        let toc_of = offset.checked_sub(8).map(|start| (id, start));
        self.descriptors.contains(&(id, offset))
            || toc_of.is_some_and(|start| self.descriptors.contains(&start))
    }
}

enum Fate {
    Kept,
    Dropped,
    /// Kept in place of the graph's group with this index.
    Replacing(usize),
}

impl<'data> Graph<'data> {
    /// Decides between the groups that are there and those of a file that is to be added.
    pub(super) fn choose(&self, file: &Graph<'_>) -> Result<Choice> {
        let mut fates = Vec::with_capacity(file.groups.len());
        let (mut dropped, mut replaced) = (HashSet::new(), HashSet::new());
        for group in &file.groups {
            let fate = self.fate(file, group)?;
            match fate {
                Fate::Kept => {}
                Fate::Dropped => dropped.extend(&group.sections),
                Fate::Replacing(index) => {
                    let ours = self.groups.get(index).map(Group::sections);
                    replaced.extend(ours.unwrap_or_default());
                }
            }
            fates.push(fate);
        }
        Ok(Choice {
            fates,
            dropped: Gone::new(file, dropped),
            replaced: Gone::new(self, replaced),
        })
    }

    fn fate(&self, theirs: &Graph<'_>, group: &Group<'_>) -> Result<Fate> {
        let index = group
            .selection
            .and_then(|_| self.comdats.get(&group.name).copied());
        let Some((index, ours)) = index.and_then(|index| Some((index, self.groups.get(index)?))) else {
            return Ok(Fate::Kept);
        };
        let first = || self.files.get(ours.file()).cloned().unwrap_or_default();
        let second = || theirs.files.get(group.file()).cloned().unwrap_or_default();
        let differ = |reason| Error::GroupsDiffer {
            group: group.name.clone().into_owned(),
            first: first(),
            second: second(),
            reason,
        };
        let [our, their] = [self.leader(ours), theirs.leader(group)];
        match common_selection(ours.selection, group.selection) {
            Some(Selection::Any) => Ok(Fate::Dropped),
            Some(Selection::NoDuplicates) => Err(Error::SymbolDuplicate {
                symbol: group.name.clone().into_owned(),
                first: first(),
                second: second(),
            }),
            Some(Selection::SameSize) if our.0 != their.0 => Err(differ("their sizes are not the same")),
            Some(Selection::ExactMatch) if our != their => Err(differ("their bytes are not the same")),
            Some(Selection::SameSize | Selection::ExactMatch) => Ok(Fate::Dropped),
            Some(Selection::Largest) if their.0 > our.0 => Ok(Fate::Replacing(index)),
            Some(Selection::Largest) => Ok(Fate::Dropped),
            None => Err(differ("each is to be chosen by another rule")),
        }
    }

    /// The size and the bytes of a group's first section.
    fn leader(&self, group: &Group<'_>) -> (u32, &[u8]) {
        let first = group.sections.first().and_then(|id| self.section(*id));
        first.map_or((0, &[]), |section| (section.size, &*section.bytes))
    }

    /// Carries out what was chosen, in both, and takes the file's groups over.
    pub(super) fn carry_out(&mut self, choice: Choice, file: &mut Graph<'data>, bases: &Bases) {
        file.discard(&choice.dropped);
        self.discard(&choice.replaced);
        for (mut group, fate) in mem::take(&mut file.groups).into_iter().zip(choice.fates) {
            group.file = bases.file_of(group.file);
            for SectionId(id) in &mut group.sections {
                *id += bases.section;
            }
            match fate {
                Fate::Kept => self.add_group(group),
                Fate::Dropped => {}
                Fate::Replacing(index) => {
                    if let Some(ours) = self.groups.get_mut(index) {
                        *ours = group;
                    }
                }
            }
        }
    }

    fn add_group(&mut self, group: Group<'data>) {
        if group.selection.is_some() {
            let index = self.groups.len();
            self.comdats.entry(group.name.clone()).or_insert(index);
        }
        self.groups.push(group);
    }

    /// Looks up the first file's groups, as [`Graph::index`] does its symbols.
    pub(super) fn index_groups(&mut self) {
        for group in mem::take(&mut self.groups) {
            self.add_group(group);
        }
    }

    /// Takes out what goes. What names its symbols looks elsewhere from now on.
    fn discard(&mut self, gone: &Gone) {
        if gone.sections.is_empty() {
            return;
        }
        self.discard_from_tables(gone);
        for symbol in self.symbols.iter_mut().filter(|symbol| gone.holds(symbol)) {
            symbol.definition = if symbol.is_shared() {
                // Not weakly: what is kept must have it, as nothing may lead to 0 that led to code.
                symbol.strength = Strength::Reference;
                Definition::Undefined { weak: false }
            } else {
                Definition::Refused("its section is in a group for which that of another object is kept")
            };
        }
        for (id, section) in (0..).map(SectionId).zip(&mut self.sections) {
            if gone.sections.contains(&id) {
                section.take_out();
            } else if is_descriptors(&section.name) {
                section.edges.retain(|edge| !gone.describes((id, edge.offset)));
            }
        }
    }

    /// Takes out what tables say of sections that go, and what nothing else of a table needs then.
    fn discard_from_tables(&mut self, gone: &Gone) {
        // What a table says of a descriptor it says of its code.
        self.descriptors = Descriptors::find(self);
        let mut tables = Vec::new();
        for (index, section) in self.sections.iter().enumerate() {
            if let Some(table) = Table::of(self, index, section) {
                let live = live_parts(&table, gone);
                tables.push((table, live));
            }
        }
        self.descriptors = Descriptors::default();
        let ids = (0..self.sections.len() as u32).map(SectionId);
        let live: Vec<bool> = ids.map(|id| !gone.sections.contains(&id)).collect();
        self.cut_tables(tables, &live);
    }
}

/// Which parts of a table are about something that stays, or needed by one that is.
fn live_parts(table: &Table, gone: &Gone) -> Vec<bool> {
    let mut live = alloc::vec![false; table.parts.len()];
    for (index, part) in table.parts.iter().enumerate() {
        if part.code.is_some_and(|code| !gone.sections.contains(&code)) {
            for index in part.needs.into_iter().chain([index]) {
                live.get_mut(index).into_iter().for_each(|live| *live = true);
            }
        }
    }
    live
}

/// The rule by which two groups are chosen from, if they have one: compilers make what is to be the largest any where they
/// were told to leave out types.
fn common_selection(ours: Option<Selection>, theirs: Option<Selection>) -> Option<Selection> {
    match (ours?, theirs?) {
        (ours, theirs) if ours == theirs => Some(ours),
        (Selection::Any, Selection::Largest) | (Selection::Largest, Selection::Any) => {
            Some(Selection::Largest)
        }
        _ => None,
    }
}

/// What a reader of groups must refuse.
pub(super) fn malformed(name: &str, reason: &str) -> Error {
    Error::ObjectMalformed {
        what: "a section group",
        reason: alloc::format!("{reason}, in `{name}`"),
    }
}

/// The sections that a reader has seen in groups.
#[derive(Default)]
pub(super) struct Members(HashSet<SectionId>);

impl Members {
    /// Notes that the section is in a group, of this name.
    ///
    /// # Errors
    /// It is in another one.
    pub(super) fn add(&mut self, id: SectionId, name: &str) -> Result<()> {
        if self.0.insert(id) {
            return Ok(());
        }
        Err(malformed(name, "a section is in two groups"))
    }
}
