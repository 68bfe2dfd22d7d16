//! Taking out what nobody needs: everything that no root refers to.
//!
//! Problem: a section is needed if one that is needed refers to it, but tables refer to all
//! functions there are. Approach: tables are taken apart ([`crate::graph::parts`]); a part is
//! needed with its function. So unwind information of a function goes with it, and what it refers
//! to stays with it; of a stack map the functions and records that are left stay, its numbers
//! changed. Sections about others (`SHF_LINK_ORDER`) stay with those, and sections of a group with
//! each other.
//!
//! The unit is the section: functions of one section live together (compile with
//! `-ffunction-sections` to have them apart). So do the functions of an object of PowerPC ELFv1,
//! whose descriptors are one section.
//!
//! Cost: linear in sections, edges and symbols.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use std::collections::{HashMap, HashSet};

use crate::error::{Error, Result};
use crate::graph::bounds::SectionRow;
use crate::graph::comdat::SectionGroup;
use crate::graph::cut::Cuts;
use crate::graph::parts::{Table, mend_frames, mend_maps};
use crate::graph::{Definition, Edge, Graph, Scope, SectionId, SectionRole, SymbolId};

impl Graph<'_> {
    /// Takes out all sections that none of the roots refers to: the symbols of these names, and the
    /// sections that the objects say are to be kept. Without a call of this, everything is kept.
    ///
    /// # Errors
    /// No object defines a root.
    pub fn prune<'n>(&mut self, roots: impl IntoIterator<Item = &'n str>) -> Result<()> {
        self.use_alternates();
        let mut missing: HashSet<&str> = roots.into_iter().collect();
        let mut marks = LiveMarker::new(self);
        for (symbol, named) in self.symbols.iter().zip(&mut marks.named) {
            let defined = matches!(
                symbol.definition,
                Definition::Section(..) | Definition::Common { .. } | Definition::Absolute(_)
            );
            if defined && symbol.scope != Scope::Local && missing.remove(&*symbol.name) {
                *named = true;
                if let Definition::Section(section, _) = symbol.definition {
                    marks.waiting.push(section);
                }
            }
        }
        if let Some(root) = missing.into_iter().min() {
            return Err(Error::RootUndefined { symbol: root.into() });
        }
        // protection: included-symbols-are-kept
        for id in &self.included {
            if let Some(named) = marks.named.get_mut(id.index()) {
                *named = true;
            }
            let symbol = self.symbols.get(id.index());
            if let Some(Definition::Section(section, _)) = symbol.map(|symbol| symbol.definition) {
                marks.waiting.push(section);
            }
        }
        marks.run();
        let LiveMarker {
            live, named, tables, ..
        } = marks;
        self.sweep(&live, &named);
        self.cut_tables(tables, &live);
        Ok(())
    }

    fn sweep(&mut self, live: &[bool], named: &[bool]) {
        let is_live = |id: SectionId| live.get(id.index()) == Some(&true);
        // protection: pruned-tables-are-forgotten
        self.tables.retain(is_live);
        for (symbol, named) in self.symbols.iter_mut().zip(named) {
            match symbol.definition {
                Definition::Section(id, _) if !is_live(id) => {
                    symbol.definition = Definition::Refused("its section was taken out: name it as a root");
                }
                Definition::Common { .. } if !named => {
                    symbol.definition = Definition::Refused("it was taken out: name it as a root");
                }
                _ => {}
            }
        }
        for (section, live) in self.sections.iter_mut().zip(live) {
            if !live {
                section.take_out();
            }
        }
    }

    /// Takes out the parts of tables that are not live. `live` says so of each section.
    pub(crate) fn cut_tables(&mut self, tables: Vec<(Table, Vec<bool>)>, live: &[bool]) {
        let mut cuts: Vec<Cuts> = Vec::new();
        cuts.resize_with(self.sections.len(), Cuts::default);
        let endian = self.endian();
        for (table, parts) in tables {
            let Some(cut) = cuts.get_mut(table.section) else {
                continue;
            };
            for (part, _) in table.parts.iter().zip(&parts).filter(|(_, live)| !**live) {
                cut.push(part.start, part.end - part.start);
            }
            let role = self.sections.get(table.section).map(|section| section.role);
            if cut.is_empty() || role == Some(SectionRole::Ignored) {
                *cut = Cuts::default();
                continue;
            }
            let is_live = |id: SectionId| live.get(id.index()) == Some(&true);
            let section = self.sections.get(table.section);
            let maps = section
                .filter(|section| section.role == SectionRole::StackMaps)
                .and_then(|section| mend_maps(self, section, &table.parts, is_live));
            let Some(section) = self.sections.get_mut(table.section) else {
                continue;
            };
            match maps {
                Some(bytes) => section.bytes = Cow::Owned(bytes),
                None => mend_frames(section, endian, &table.parts, cut),
            }
        }
        self.cut(&cuts);
    }
}

/// What is known to be live, and what is still to be looked at.
struct LiveMarker<'a, 'data> {
    graph: &'a Graph<'data>,
    /// By section.
    live: Vec<bool>,
    /// By symbol: whether something live refers to it.
    named: Vec<bool>,
    /// Each with what is live of it.
    tables: Vec<(Table, Vec<bool>)>,
    /// The parts about each section, as table and part; and the sections about it.
    parts: HashMap<SectionId, Vec<(usize, usize)>>,
    about: HashMap<SectionId, Vec<SectionId>>,
    /// The group that a section is in, by its index.
    group: HashMap<SectionId, usize>,
    /// By section: whether it is a table.
    is_table: Vec<bool>,
    waiting: Vec<SectionId>,
    /// By symbols that linkers define: the sections that they are the bounds of.
    bounded: HashMap<SymbolId, SectionRow>,
}

impl<'a, 'data> LiveMarker<'a, 'data> {
    fn new(graph: &'a Graph<'data>) -> Self {
        let mut marks = Self {
            graph,
            live: alloc::vec![false; graph.sections.len()],
            named: alloc::vec![false; graph.symbols.len()],
            tables: Vec::new(),
            parts: HashMap::new(),
            about: HashMap::new(),
            group: HashMap::new(),
            is_table: alloc::vec![false; graph.sections.len()],
            waiting: Vec::new(),
            bounded: graph.kept_by_bounds(),
        };
        for (index, group) in graph.groups.iter().enumerate() {
            marks.group.extend(group.sections.iter().map(|id| (*id, index)));
        }
        for (index, section) in graph.sections.iter().enumerate() {
            let id = SectionId(index as u32);
            if section.retained {
                marks.waiting.push(id);
            }
            if let Some(about) = section.about {
                marks.about.entry(about).or_default().push(id);
            }
            if matches!(section.role, SectionRole::EhFrame | SectionRole::StackMaps) {
                match Table::of(graph, index, section) {
                    Some(table) => marks.add(index, table),
                    // protection: what-is-not-understood-is-kept
                    None => marks.waiting.push(id),
                }
            }
        }
        marks
    }

    fn add(&mut self, section: usize, table: Table) {
        let number = self.tables.len();
        for (index, part) in table.parts.iter().enumerate() {
            if let Some(code) = part.code {
                self.parts.entry(code).or_default().push((number, index));
            }
        }
        if let Some(is_table) = self.is_table.get_mut(section) {
            *is_table = true;
        }
        let live = alloc::vec![false; table.parts.len()];
        self.tables.push((table, live));
    }

    fn run(&mut self) {
        while let Some(id) = self.waiting.pop() {
            let Some(live @ false) = self.live.get_mut(id.index()) else {
                continue;
            };
            *live = true;
            // A table that something names lives, but what it says of functions lives with them.
            if self.is_table.get(id.index()) != Some(&true) {
                let section = self.graph.section(id);
                let section = section.expect("every section has a mark");
                self.follow(section.edges.iter());
            }
            self.waiting.extend(self.about.get(&id).into_iter().flatten());
            // Once for each group.
            let group = self.group.get(&id).map(|group| {
                let group = self.graph.groups.get(*group);
                group.expect("groups are listed by their indexes")
            });
            for id in group.into_iter().flat_map(SectionGroup::sections) {
                self.group.remove(id);
                // protection: groups-are-kept-whole
                self.waiting.push(*id);
            }
            for (table, part) in self.parts.get(&id).cloned().into_iter().flatten() {
                self.part(table, part);
            }
        }
    }

    fn part(&mut self, number: usize, index: usize) {
        let graph = self.graph;
        let mut next = Some(index);
        while let Some(index) = next {
            let Some((table, live)) = self.tables.get_mut(number) else {
                return;
            };
            let (Some(live @ false), Some(part)) = (live.get_mut(index), table.parts.get(index)) else {
                return;
            };
            *live = true;
            next = part.needs;
            let id = SectionId(table.section as u32);
            let Some(section) = graph.section(id) else { return };
            let edges: Vec<Edge> = table.edges(section, part).copied().collect();
            self.waiting.push(id);
            self.follow(edges.iter());
        }
    }

    fn follow<'e>(&mut self, edges: impl Iterator<Item = &'e Edge>) {
        for edge in edges {
            let target = edge.target.index();
            if let Some(named) = self.named.get_mut(target) {
                *named = true;
            }
            let tables = self.graph.tables_of(edge);
            // protection: tables-live-with-their-users
            self.waiting.extend(tables.into_iter().flatten());
            let bounded = self.bounded.get(&edge.target);
            // protection: bounds-keep-sections
            self.waiting.extend(bounded.into_iter().flatten());
            let symbol = self.graph.symbols.get(target);
            if let Some(Definition::Section(id, _)) = symbol.map(|symbol| symbol.definition) {
                self.waiting.push(id);
            }
        }
    }
}
