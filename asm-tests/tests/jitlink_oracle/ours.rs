//! Our link of an object, with everything where a record says that llvm-jitlink put it: by passes,
//! as any runtime could.

use std::collections::BTreeMap;

use patchpoint::Result;
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::Arch;
use patchpoint::image::{
    self, Definition, Edge, Graph, Layout, LinkedImage, Object, Relocation, Resolved, Scope, Section,
    SectionId, SectionRole, SegmentAddrs, Symbol, SymbolId, relax,
};

use crate::record::{Record, Sectioned, Slot, Target};
use crate::theirs::BASE;

/// The object with its common symbols in sections of their own, as JITLink has them, and without
/// what none of its symbols refers to.
pub(crate) fn graph<'data>(name: &str, bytes: &'data [u8]) -> Result<Graph<'data>> {
    let mut graph = Graph::new(name, Object::parse(bytes)?);
    for index in 0..graph.symbols().len() {
        let symbol = &graph.symbols()[index];
        let Definition::Common { align } = symbol.definition() else {
            continue;
        };
        let (name, size) = (format!("common.{}", symbol.name()), symbol.size());
        let id = graph.find(symbol.name()).unwrap();
        let mut section = Section::new(name, SectionRole::Data, vec![0; size as usize]);
        section.set_align(align);
        let section = graph.add_section(section)?;
        graph
            .symbol_mut(id)
            .unwrap()
            .set_definition(Definition::Section(section, 0));
    }
    let named = graph.symbols().iter().filter(|symbol| is_defined(symbol));
    let roots: Vec<String> = named.map(|symbol| symbol.name().to_owned()).collect();
    graph.prune(roots.iter().map(String::as_str))?;
    for id in graph.section_ids() {
        // What JITLink goes by are the flags of ELF.
        if graph.sections()[id.index()].name().starts_with(".data.rel.ro") {
            graph.section_mut(id).unwrap().set_role(SectionRole::Data);
        }
    }
    graph.build_tables()?;
    Ok(graph)
}

pub(crate) fn is_defined(symbol: &Symbol<'_>) -> bool {
    let defined = matches!(
        symbol.definition(),
        Definition::Section(..) | Definition::Absolute(_)
    );
    defined && symbol.scope() != Scope::Local && !symbol.name().is_empty()
}

/// The sections that are placed, but those of the tables.
pub(crate) fn placed<'g, 'd>(graph: &'g Graph<'d>) -> impl Iterator<Item = (SectionId, &'g Section<'d>)> {
    let ids = graph.section_ids();
    ids.zip(graph.sections()).filter(|(_, section)| {
        section.role() != SectionRole::Ignored
            && section.size() > 0
            && !matches!(section.name(), ".got" | ".stubs")
    })
}

/// Our name of a section of theirs.
fn our_name(theirs: &str) -> &str {
    match theirs {
        "$__GOT" => ".got",
        "$__STUBS" => ".stubs",
        name => name,
    }
}

struct Places<'r>(BTreeMap<&'r str, &'r Sectioned>);

impl Places<'_> {
    fn of(&self, section: &Section<'_>) -> Option<u64> {
        self.0.get(section.name()).map(|section| section.addr)
    }

    /// The address that a symbol will have.
    fn symbol(&self, graph: &Graph<'_>, id: SymbolId) -> Option<u64> {
        match graph.symbols()[id.index()].definition() {
            Definition::Section(section, offset) => {
                Some(self.of(&graph.sections()[section.index()])? + u64::from(offset))
            }
            _ => None,
        }
    }
}

/// Which of our symbols each of their slots is for. Each of ours has to have one, and each of
/// theirs to be for one.
fn owners(
    graph: &Graph<'_>,
    places: &Places<'_>,
    what: &str,
    theirs: &[Slot],
    has: impl Fn(SymbolId) -> bool,
) -> std::result::Result<Vec<(u64, SymbolId)>, String> {
    let ours: Vec<SymbolId> = graph.symbol_ids().filter(|id| has(*id)).collect();
    let is_for = |slot: &Slot, id: SymbolId| match &slot.target {
        Target::Name(name) => graph.symbols()[id.index()].name() == name,
        Target::Addr(addr) => places.symbol(graph, id) == Some(*addr),
    };
    let mut found = Vec::new();
    for slot in theirs {
        let owner = ours.iter().find(|id| is_for(slot, **id));
        let owner = owner.ok_or_else(|| format!("jitlink alone has a {what} for {:?}", slot.target))?;
        found.push((slot.addr, *owner));
    }
    match ours.iter().find(|id| found.iter().all(|(_, other)| other != *id)) {
        Some(id) => Err(format!(
            "jitlink has no {what} for {}",
            graph.symbols()[id.index()].name()
        )),
        None => Ok(found),
    }
}

/// The bytes of a stub of JITLink's, and its edges as offset, relocation and addend: ours, but
/// without bytes between them.
fn stub(arch: Arch) -> (&'static [u8], &'static [(u32, u32, i64)]) {
    match arch {
        Arch::X86_64 => (&[0xff, 0x25, 0, 0, 0, 0], &[(2, 9, -4)]),
        _ => (
            &[0x10, 0, 0, 0x90, 0x10, 0x02, 0x40, 0xf9, 0, 0x02, 0x1f, 0xd6],
            &[(0, 311, 0), (4, 312, 0)],
        ),
    }
}

/// Gives entries and stubs their order.
fn arrange(graph: &mut Graph<'_>, places: &Places<'_>, record: &Record) -> std::result::Result<(), String> {
    let arch = graph.arch();
    let relocation = |number| Relocation::from_elf(arch, number).unwrap();
    let entries = owners(graph, places, "entry", &record.entries, |id| {
        graph.got_entry(id).is_some()
    })?;
    let stubs = owners(graph, places, "stub", &record.stubs, |id| {
        graph.stub(id).is_some()
    })?;
    if let Some((_, first)) = entries.first() {
        let (section, _) = graph.got_entry(*first).unwrap();
        let start = places.0[".got"].addr;
        let absolute = relocation(if arch == Arch::X86_64 { 1 } else { 257 });
        let mut edges = Vec::new();
        for (addr, owner) in &entries {
            graph.set_got_entry(*owner, section, (addr - start) as u32);
            edges.push(Edge::new((addr - start) as u32, absolute, *owner, 0));
        }
        let section = graph.section_mut(section).unwrap();
        *section.edges_mut() = edges;
        if arch == Arch::AArch64 {
            // JITLink's table is among the code there.
            section.set_role(SectionRole::Code);
        }
    }
    if let Some((_, first)) = stubs.first() {
        let (section, _) = graph.stub(*first).unwrap();
        let start = places.0[".stubs"].addr;
        let (mut bytes, mut edges) = (vec![0; places.0[".stubs"].size as usize], Vec::new());
        for (addr, owner) in &stubs {
            let at = (addr - start) as u32;
            graph.set_stub(*owner, section, at);
            let (code, fields) = stub(arch);
            bytes[at as usize..][..code.len()].copy_from_slice(code);
            edges.extend(fields.iter().map(|(offset, number, addend)| {
                Edge::new(at + offset, relocation(*number), *owner, *addend)
            }));
        }
        let section = graph.section_mut(section).unwrap();
        section.set_bytes(bytes);
        section.set_align(if arch == Arch::X86_64 { 1 } else { 4 });
        *section.edges_mut() = edges;
    }
    Ok(())
}

/// Puts all sections where they are in the record. Returns the addresses of the segments.
fn place(layout: &mut Layout<'_>, places: &Places<'_>) -> image::Result<SegmentAddrs> {
    let all: Vec<_> = layout
        .graph()
        .section_ids()
        .zip(layout.graph().sections())
        .filter_map(|(id, section)| {
            let addr = places.of(section)?;
            let segment = match section.role() {
                SectionRole::Code => 0,
                SectionRole::ReadOnly | SectionRole::EhFrame => 1,
                SectionRole::Data => 2,
                _ => return None,
            };
            Some((id, segment, addr))
        })
        .collect();
    let mut starts = [BASE; 3];
    for (kind, start) in starts.iter_mut().enumerate() {
        let addrs = all
            .iter()
            .filter(|(_, segment, _)| *segment == kind)
            .map(|(_, _, addr)| addr & !0xfff);
        *start = addrs.min().unwrap_or(BASE);
    }
    for (id, segment, addr) in all {
        layout.place_at(id, Len::new((addr - starts[segment]) as u32))?;
    }
    let [code, read_only, data] = starts.map(CodeAddr::new);
    Ok(SegmentAddrs {
        code,
        read_only,
        data,
    })
}

/// Links an object as a record of it says; returns the bytes of each section under the name that it
/// has there.
pub(crate) fn link(
    mut graph: Graph<'_>,
    record: &Record,
    outside: impl Fn(&str) -> Option<u64>,
) -> std::result::Result<BTreeMap<String, Vec<u8>>, String> {
    let places = Places(
        record
            .sections
            .iter()
            .map(|section| (our_name(&section.name), section))
            .collect(),
    );
    let mut ours: Vec<&str> = placed(&graph).map(|(_, section)| section.name()).collect();
    let mut theirs: Vec<&str> = places
        .0
        .keys()
        .copied()
        .filter(|name| !matches!(*name, ".got" | ".stubs"))
        .collect();
    ours.sort_unstable();
    theirs.sort_unstable();
    if ours != theirs {
        return Err(format!("sections: ours are {ours:?}, jitlink's {theirs:?}"));
    }
    arrange(&mut graph, &places, record)?;
    let said = |error: image::Error| error.to_string();
    let mut layout = graph.layout().map_err(said)?;
    let addrs = place(&mut layout, &places).map_err(said)?;
    let allocated = layout.allocate(addrs).map_err(said)?;
    let mut resolved = allocated
        .resolve(|name| outside(name).map(CodeAddr::new))
        .map_err(said)?;
    if resolved.graph().arch() == Arch::X86_64 {
        // JITLink rewrites loads from the table only there.
        keep_operations(&mut resolved);
        relax(&mut resolved).map_err(said)?;
    }
    let linked = resolved.link().map_err(said)?;
    let sections = record.sections.iter();
    Ok(sections
        .map(|section| (section.name.clone(), bytes_at(&linked, section)))
        .collect())
}

/// Takes the permission to be rewritten from instructions that JITLink leaves as they are:
/// comparisons and other operations, which we give the address in place of the entry where it has
/// 32 bits.
fn keep_operations(resolved: &mut Resolved<'_>) {
    let plain = Relocation::from_elf(Arch::X86_64, 9).unwrap();
    let ids: Vec<SectionId> = resolved.graph().section_ids().collect();
    for id in ids {
        let mut section = resolved.section_mut(id).unwrap();
        let opcodes: Vec<u8> = section.bytes_mut().to_vec();
        for edge in section.edges_mut() {
            let at = edge.offset() as usize;
            // Those that load, call or jump are rewritten.
            let relaxable = matches!(edge.relocation().number(), 41 | 42);
            if relaxable && !matches!(opcodes[at - 2], 0x8b | 0xff) {
                *edge = Edge::new(edge.offset(), plain, edge.target(), edge.addend());
            }
        }
    }
}

fn bytes_at(linked: &LinkedImage, section: &Sectioned) -> Vec<u8> {
    let (at, len) = (CodeAddr::new(section.addr), section.size as usize);
    let mut segments = linked.segments.iter();
    segments
        .find_map(|segment| segment.read(at, len))
        .unwrap()
        .to_vec()
}
