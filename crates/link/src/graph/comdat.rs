//! Sections that come in groups, and of several files' groups the one that stands for all (COMDAT).
//!
//! Problem: compilers put an inline function or an instance of a template into every object that
//! needs it, under one name; linked together, they are one. Approach: when a file is added, its
//! groups are looked up by name among those that are there, and by the rule of their format one of
//! the two is kept. The sections of the other go, and so does what tables say of them
//! ([`crate::graph::parts`]); symbols that they defined become references, which then find what is
//! kept.
//!
//! Sources: System V gABI, "Section Groups"; Microsoft PE format, "COMDAT Sections".
//!
//! Invariants: a section is in one group at most. Of each name, one group that can be chosen from
//! others is in the graph. A file that has several of one name is damaged or made by hand; the same
//! rule chooses from them, as linkers do.
//!
//! Cost: a lookup by name for each group of a file that is added. Where something goes, tables of
//! that file are taken apart; where a later, larger group takes an earlier one's place (COFF
//! alone), all that are there, once for each file.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::mem;
use std::collections::{HashMap, HashSet};

use crate::error::{Error, Result};
use crate::graph::descriptors::{Descriptors, Spot, is_descriptors};
use crate::graph::merge::Bases;
use crate::graph::parts::Table;
use crate::graph::{Definition, Graph, SectionId, Strength, Symbol, SymbolId};

/// Sections of a file that are kept or taken out together.
#[derive(Clone, Debug)]
pub struct SectionGroup<'data> {
    pub(crate) name: Cow<'data, str>,
    /// Which of the graph's files it is from.
    pub(crate) file: u32,
    pub(crate) selection: Option<Selection>,
    /// Of those that are loaded; the first is the one that is compared.
    pub(crate) sections: Vec<SectionId>,
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

impl SectionGroup<'_> {
    /// The name that groups of other files may have, too: in ELF the signature, in COFF the symbol
    /// of the first section.
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
pub(crate) type Comdats<'data> = HashMap<Cow<'data, str>, usize>;

/// What is kept of a graph's groups and of those of a file that is added to it.
#[derive(Default)]
pub(crate) struct Choice {
    /// By group of the file.
    fates: Vec<Fate>,
    /// What goes of the file; of most nothing.
    dropped: Gone,
    /// What goes of the graph.
    replaced: Gone,
}

impl Choice {
    /// Whether a symbol of the file goes with its section.
    pub(crate) fn drops(&self, symbol: &Symbol<'_>) -> bool {
        self.dropped.holds(symbol)
    }

    /// Whether a symbol that is there goes with its section.
    pub(crate) fn replaces(&self, symbol: &Symbol<'_>) -> bool {
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
            if let Some(new) = followers.remove(&id) {
                self.sections.extend(&new);
                waiting.extend(new);
            }
        }
    }

    fn holds(&self, symbol: &Symbol<'_>) -> bool {
        matches!(symbol.definition, Definition::Section(id, offset)
            if self.sections.contains(&id) || self.descriptors.contains(&(id, offset)))
    }

    /// Whether the relocation at this place is of a descriptor that goes: of its code's address or
    /// of its TOC pointer.
    fn describes(&self, (id, offset): Spot) -> bool {
        let toc_of = offset.checked_sub(8).map(|start| (id, start));
        self.descriptors.contains(&(id, offset))
            || toc_of.is_some_and(|start| self.descriptors.contains(&start))
    }
}

const INDEXED: &str = "groups are listed by their indexes";

enum Fate {
    Kept,
    Dropped,
    /// Kept in place of the graph's group with this index.
    Replacing(usize),
}

impl<'data> Graph<'data> {
    /// Decides between the groups that are there and those of a file that is to be added.
    pub(crate) fn choose(&self, file: &Graph<'_>) -> Result<Choice> {
        let mut fates = Vec::with_capacity(file.groups.len());
        let (mut dropped, mut replaced) = (HashSet::new(), HashSet::new());
        for group in &file.groups {
            let fate = self.fate(file, group)?;
            match fate {
                Fate::Kept => {}
                Fate::Dropped => dropped.extend(&group.sections),
                Fate::Replacing(index) => {
                    let ours = self.groups.get(index).expect(INDEXED);
                    replaced.extend(ours.sections());
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

    fn fate(&self, theirs: &Graph<'_>, group: &SectionGroup<'_>) -> Result<Fate> {
        let index = group
            .selection
            .and_then(|_| self.comdats.get(&group.name).copied());
        let Some(index) = index else {
            return Ok(Fate::Kept);
        };
        let ours = self.groups.get(index).expect(INDEXED);
        let first = || self.file_name(ours.file()).to_owned();
        let second = || theirs.file_name(group.file()).to_owned();
        let differ = |reason| Error::GroupsDiffer {
            group: group.name.clone().into_owned(),
            first: first(),
            second: second(),
            reason,
        };
        let [our, their] = [self.leader(ours), theirs.leader(group)];
        match choose_one((ours.selection, our), (group.selection, their)) {
            // protection: one-of-several-groups
            Ok(Chosen::First) => Ok(Fate::Dropped),
            Ok(Chosen::Second) => Ok(Fate::Replacing(index)),
            Err(Conflict::Twice) => Err(Error::SymbolDuplicate {
                symbol: group.name.clone().into_owned(),
                first: first(),
                second: second(),
            }),
            Err(Conflict::Differ(reason)) => Err(differ(reason)),
        }
    }

    /// Of several groups of one name in this file, keeps one. What named a symbol of another finds
    /// that of the one that is kept.
    ///
    /// # Errors
    /// They are not to be chosen from.
    pub(crate) fn choose_among_own(&mut self) -> Result<()> {
        let mut kept: HashMap<&str, usize> = HashMap::new();
        let mut losers = HashSet::new();
        let groups = self.groups.iter().enumerate();
        for (index, group) in groups.filter(|(_, group)| group.selection.is_some()) {
            let there = *kept.entry(&group.name).or_insert(index);
            let Some(first) = self.groups.get(there).filter(|_| there != index) else {
                continue;
            };
            let [our, their] = [self.leader(first), self.leader(group)];
            let loser = match choose_one((first.selection, our), (group.selection, their)) {
                Ok(Chosen::First) => index,
                Ok(Chosen::Second) => kept.insert(&group.name, index).unwrap_or(there),
                Err(Conflict::Twice) => {
                    return Err(malformed(
                        &group.name,
                        "there may be one of this name, but the file has two",
                    ));
                }
                Err(Conflict::Differ(reason)) => {
                    let reason = alloc::format!("the file has two of this name, and {reason}");
                    return Err(malformed(&group.name, &reason));
                }
            };
            losers.insert(loser);
        }
        if losers.is_empty() {
            return Ok(());
        }
        let mut index = 0..;
        let is_loser = |_: &SectionGroup<'_>| index.next().is_some_and(|index| losers.contains(&index));
        let (gone, groups) = mem::take(&mut self.groups)
            .into_iter()
            .partition::<Vec<_>, _>(is_loser);
        self.groups = groups;
        let sections = gone.iter().flat_map(|group| &group.sections).copied();
        let gone = Gone::new(self, sections.collect());
        let symbols = (0..).map(SymbolId).zip(&self.symbols);
        let lost = symbols.filter(|(_, symbol)| symbol.is_shared() && gone.holds(symbol));
        let lost: HashSet<SymbolId> = lost.map(|(id, _)| id).collect();
        self.discard(&gone);
        self.retarget_to_kept(&lost);
        Ok(())
    }

    /// Retargets edges to symbols that were lost with their sections to those of the same names
    /// that are kept. Where none is, all refer to the first that was lost, for which another file
    /// may have a definition.
    fn retarget_to_kept(&mut self, lost: &HashSet<SymbolId>) {
        let mut first: HashMap<&str, SymbolId> = HashMap::new();
        let ids = || (0..).map(SymbolId).zip(&self.symbols);
        for (id, symbol) in ids().filter(|(id, symbol)| symbol.is_shared() && !lost.contains(id)) {
            first.entry(&symbol.name).or_insert(id);
        }
        let mut ways = HashMap::new();
        for (id, symbol) in ids().filter(|(id, _)| lost.contains(id)) {
            let to = *first.entry(&symbol.name).or_insert(id);
            if to != id {
                ways.insert(id, to);
            }
        }
        for (from, to) in &ways {
            let Some(lost) = self.symbols.get_mut(from.index()) else {
                continue;
            };
            let mut lost = mem::replace(lost, Symbol::null());
            if let Some(kept) = self.symbols.get_mut(to.index()) {
                kept.unite(&mut lost);
            }
            if let Some(place) = self.symbols.get_mut(from.index()) {
                *place = lost;
            }
        }
        for edge in self.sections.iter_mut().flat_map(|section| &mut section.edges) {
            edge.target = ways.get(&edge.target).copied().unwrap_or(edge.target);
        }
    }

    /// The size and the bytes of a group's first section.
    fn leader(&self, group: &SectionGroup<'_>) -> (u32, &[u8]) {
        let first = group.sections.first().and_then(|id| self.section(*id));
        first.map_or((0, &[]), |section| (section.size, &*section.bytes))
    }

    /// Carries out what was chosen, in both, and takes the file's groups over.
    pub(crate) fn carry_out(&mut self, choice: Choice, file: &mut Graph<'data>, bases: &Bases) {
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

    fn add_group(&mut self, group: SectionGroup<'data>) {
        if group.selection.is_some() {
            let index = self.groups.len();
            self.comdats.entry(group.name.clone()).or_insert(index);
        }
        self.groups.push(group);
    }

    /// Looks up the first file's groups, as [`Graph::index`] does its symbols.
    pub(crate) fn index_groups(&mut self) {
        for group in mem::take(&mut self.groups) {
            self.add_group(group);
        }
    }

    /// Takes out what goes. What names its symbols refers to others from now on.
    fn discard(&mut self, gone: &Gone) {
        if gone.sections.is_empty() {
            return;
        }
        // protection: no-unwind-information-for-what-is-left-out
        self.discard_from_tables(gone);
        for symbol in self.symbols.iter_mut().filter(|symbol| gone.holds(symbol)) {
            symbol.definition = if symbol.is_shared() {
                // Not weakly: what is kept must have it, as nothing that referred to code may become 0.
                // protection: what-is-left-out-is-not-weak
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
                // protection: descriptors-of-what-is-left-out
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
        // protection: no-records-for-what-is-left-out
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

/// Which of two groups of one name is kept.
enum Chosen {
    First,
    Second,
}

/// Why none of two groups can be.
enum Conflict {
    /// There may be one.
    Twice,
    /// For this reason.
    Differ(&'static str),
}

/// Chooses from two groups of one name, each with its rule and the size and the bytes of its first
/// section.
fn choose_one(
    (our_rule, ours): (Option<Selection>, (u32, &[u8])),
    (their_rule, theirs): (Option<Selection>, (u32, &[u8])),
) -> core::result::Result<Chosen, Conflict> {
    match common_selection(our_rule, their_rule) {
        Some(Selection::Any) => Ok(Chosen::First),
        Some(Selection::NoDuplicates) => Err(Conflict::Twice),
        Some(Selection::SameSize) if ours.0 != theirs.0 => {
            Err(Conflict::Differ("their sizes are not the same"))
        }
        // protection: groups-that-differ
        Some(Selection::ExactMatch) if ours != theirs => {
            Err(Conflict::Differ("their bytes are not the same"))
        }
        Some(Selection::SameSize | Selection::ExactMatch) => Ok(Chosen::First),
        // protection: the-largest-group
        Some(Selection::Largest) if theirs.0 > ours.0 => Ok(Chosen::Second),
        Some(Selection::Largest) => Ok(Chosen::First),
        None => Err(Conflict::Differ("each is to be chosen by another rule")),
    }
}

/// The rule by which two groups are chosen from, if they have one: compilers make what is to be the
/// largest any where they were told to leave out types.
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
pub(crate) fn malformed(name: &str, reason: &str) -> Error {
    Error::ObjectMalformed {
        what: "a section group",
        reason: alloc::format!("{reason}, in `{name}`"),
    }
}

/// The sections that a reader has seen in groups.
#[derive(Default)]
pub(crate) struct Members(HashSet<SectionId>);

impl Members {
    /// Notes that the section is in a group, of this name.
    ///
    /// # Errors
    /// It is in another one.
    pub(crate) fn add(&mut self, id: SectionId, name: &str) -> Result<()> {
        // protection: a-section-is-in-one-group
        if self.0.insert(id) {
            return Ok(());
        }
        Err(malformed(name, "a section is in two groups"))
    }
}
