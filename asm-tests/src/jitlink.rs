//! Objects as llvm-jitlink 19 places them: where it puts what, the same object relocated for those
//! places by us, and whether its bytes are ours.
//!
//! Problem: its layout is not ours, so no image of ours is equal to one of its. Approach: each
//! section is linked by itself, at the address where jitlink has it, with everything that it refers
//! to where jitlink has that. Then all bytes must be equal, and jitlink itself says whether they
//! are (`-check`). Its places are recorded, with the hash of the bytes that it has agreed to, so
//! that a machine without it compares with the record.
//!
//! Entries of the global offset table and stubs are where jitlink puts its own, so edges to them
//! refer to them. What it rewrites, we rewrite here: loads of entries whose symbol is in the image,
//! which become `lea` on x86-64.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use patchpoint::addr::CodeAddr;
use patchpoint::image::{
    Definition, Edge, Graph, Layout, Object, Relocation, Section, SectionId, SectionRole, SegmentAddrs,
    Symbol,
};

const TOOL: &str = "llvm-jitlink-19";
/// Where jitlink puts the image.
const SLAB: &str = "0x10000000";
/// Where we put what is not looked at: below, so that the first of it is the image's lowest
/// address.
const OUTSIDE: u64 = 0x0f00_0000;

/// Where jitlink has what an object has or needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// By the index of the section.
    pub sections: BTreeMap<usize, u64>,
    /// Of common symbols, by name.
    pub symbols: BTreeMap<String, u64>,
    /// Of the entries of the global offset table, by symbol.
    pub entries: BTreeMap<String, u64>,
    /// Of the stubs, by symbol.
    pub stubs: BTreeMap<String, u64>,
    /// Where sections of a name start, which are one for jitlink.
    pub starts: BTreeMap<String, u64>,
}

/// A section with its relocated bytes.
#[derive(Debug)]
pub struct Relocated {
    /// Its index in the graph.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// How many fields in them were relocated.
    pub fields: usize,
}

/// Why a comparison was not one of equal bytes.
#[derive(Debug)]
pub enum Differs {
    /// Other bytes: what jitlink says.
    Bytes(String),
    /// The same, placed otherwise.
    Places(Places),
}

/// Whether the tool is there.
#[must_use]
pub fn is_there() -> bool {
    let mut command = Command::new("setarch");
    let output = command.args(["-R", TOOL, "--version"]).output();
    output.is_ok_and(|output| output.status.success())
}

/// The address of a symbol that the object does not define: out of reach, but for one that is named
/// so.
#[must_use]
pub fn external(graph: &Graph<'_>, name: &str) -> u64 {
    let sum = name.bytes().map(u64::from).sum::<u64>() * 0x10;
    if name == "_low" || name == "low" {
        return 0x1234_5678;
    }
    match graph.format() {
        // A relative field of COFF does not say that a stub would do.
        patchpoint::image::ObjectFormat::Coff => 0x1800_0000 + sum,
        _ => 0x7777_0000_0000 + sum,
    }
}

fn parse(bytes: &[u8]) -> Graph<'_> {
    Graph::new("object", Object::parse(bytes).unwrap())
}

fn run(path: &Path, graph: &Graph<'_>, checks: &str) -> std::process::Output {
    let file = path.file_name().unwrap().to_str().unwrap();
    let stem = format!("patchpoint-{}-{file}", std::process::id());
    let list = std::env::temp_dir().join(format!("{stem}.checks"));
    std::fs::write(&list, checks).unwrap();
    // The order of its entries follows from where its memory happens to be.
    let mut command = Command::new("setarch");
    command.args(["-R", TOOL]).current_dir(path.parent().unwrap());
    command.args(["-show-graphs", ".*"]);
    command.args(["-noexec", "-slab-allocate", "1Mb", "-slab-page-size", "4096"]);
    command.args(["-slab-address", SLAB, "-check", list.to_str().unwrap()]);
    command.arg(format!("-abs=__ImageBase={OUTSIDE:#x}"));
    let is_root = |symbol: &&Symbol<'_>| {
        symbol.scope() == patchpoint::image::Scope::Exported
            && matches!(symbol.definition(), Definition::Section(..))
            && symbol.strength() == patchpoint::image::Strength::Strong
    };
    let root = graph.symbols().iter().find(is_root).unwrap();
    command.args(["-entry", root.name()]);
    for symbol in graph.symbols() {
        if matches!(symbol.definition(), Definition::Undefined { .. }) && !symbol.name().is_empty() {
            let (name, addr) = (symbol.name(), external(graph, symbol.name()));
            command.arg(format!("-abs={name}={addr:#x}"));
        }
    }
    let output = command.arg(file).output().unwrap();
    std::fs::remove_file(list).unwrap();
    output
}

/// A block of a graph that jitlink prints.
#[derive(Debug, Default)]
struct Block {
    section: String,
    addr: u64,
    size: u64,
    /// Offsets and names.
    symbols: Vec<(u64, String)>,
    /// The target of its first edge.
    target: Option<String>,
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

fn blocks(text: &str) -> Vec<Block> {
    let (mut blocks, mut section): (Vec<Block>, _) = (Vec::new(), String::new());
    for line in text.lines() {
        if let Some(name) = line
            .strip_prefix("section ")
            .and_then(|rest| rest.strip_suffix(':'))
        {
            section = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("  block ") {
            let (addr, rest) = rest.split_once(" size = ").unwrap();
            blocks.push(Block {
                section: section.clone(),
                addr: hex(addr).unwrap(),
                size: hex(rest.split(',').next().unwrap()).unwrap(),
                ..Block::default()
            });
        } else if line == "Absolute symbols:" {
            break;
        } else if let Some((_, rest)) = line.split_once("(block + ") {
            let block = blocks.last_mut().unwrap();
            let (offset, rest) = rest.split_once(')').unwrap();
            if let Some((_, target)) = rest.split_once("target = ") {
                block.target.get_or_insert_with(|| target.to_owned());
            } else if let Some((_, name)) = rest.split_once("  -   ") {
                block.symbols.push((hex(offset).unwrap(), name.to_owned()));
            }
        }
    }
    blocks
}

/// The block of a section, or of its start: several sections of a COFF object have the same name.
fn start(graph: &Graph<'_>, index: usize, section: &Section<'_>, blocks: &[Block]) -> Option<u64> {
    let named: Vec<&Block> = blocks
        .iter()
        .filter(|block| block.section == section.name())
        .collect();
    let same = graph
        .sections()
        .iter()
        .filter(|other| other.name() == section.name());
    if same.count() == 1 {
        return named.iter().map(|block| block.addr).min();
    }
    let symbols = graph
        .symbols()
        .iter()
        .filter_map(|symbol| match symbol.definition() {
            Definition::Section(id, offset)
                if id.index() == index && symbol.scope() != patchpoint::image::Scope::Local =>
            {
                Some((u64::from(offset), symbol.name()))
            }
            _ => None,
        });
    let symbols: Vec<_> = symbols.collect();
    let has = |block: &Block, symbol: &(u64, &str)| {
        let mut all = block.symbols.iter();
        all.any(|(offset, name)| (*offset, name.as_str()) == *symbol)
    };
    let fits = |block: &&&Block| {
        block.size == u64::from(section.size()) && symbols.iter().all(|symbol| has(block, symbol))
    };
    let found: Vec<&&Block> = named.iter().filter(fits).collect();
    match found[..] {
        [one] => Some(one.addr),
        _ => None,
    }
}

impl Places {
    /// Asks jitlink.
    ///
    /// # Panics
    ///
    /// If it cannot link the object.
    #[must_use]
    pub fn ask(path: &Path, bytes: &[u8]) -> Self {
        let graph = parse(bytes);
        let output = run(path, &graph, "# jitlink-check: 1 = 1\n");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", path.display());
        Self::read(&graph, &String::from_utf8_lossy(&output.stdout))
    }

    /// From the graph that jitlink prints.
    fn read(graph: &Graph<'_>, printed: &str) -> Self {
        let blocks = blocks(printed);
        let mut places = Self::default();
        for (index, section) in graph.sections().iter().enumerate() {
            if section.role() != SectionRole::Ignored && section.size() > 0 {
                places
                    .sections
                    .extend(start(graph, index, section, &blocks).map(|at| (index, at)));
            }
        }
        for symbol in graph.symbols() {
            if let Definition::Common { .. } = symbol.definition() {
                let all = blocks
                    .iter()
                    .flat_map(|block| block.symbols.iter().map(move |s| (block, s)));
                let mut found = all.filter(|(_, (_, name))| name == symbol.name());
                let (block, (offset, _)) = found.next().unwrap();
                places
                    .symbols
                    .insert(symbol.name().to_owned(), block.addr + offset);
            }
        }
        for block in &blocks {
            let start = places.starts.entry(block.section.clone()).or_insert(block.addr);
            *start = block.addr.min(*start);
        }
        for block in blocks.iter().filter(|block| block.section == "$__GOT") {
            let symbol = block.target.clone().unwrap();
            places.entries.insert(symbol, block.addr);
        }
        for block in blocks.iter().filter(|block| block.section == "$__STUBS") {
            let entry = block.target.as_deref().unwrap();
            let entry = entry.strip_prefix("addressable@").unwrap();
            let entry = hex(entry.split('+').next().unwrap()).unwrap();
            let owner = places.entries.iter().find(|(_, at)| **at == entry).unwrap();
            places.stubs.insert(owner.0.clone(), block.addr);
        }
        places
    }

    fn of(&self, graph: &Graph<'_>, id: SectionId, symbol: &str) -> u64 {
        let section = graph.sections()[id.index()].name();
        let place = self.sections.get(&id.index());
        *place.unwrap_or_else(|| panic!("{section}, where {symbol} is, has no place: {self:?}"))
    }

    /// As lines of text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (index, at) in &self.sections {
            writeln!(text, " section {index} {at:#x}").unwrap();
        }
        for (kind, all) in [
            ("symbol", &self.symbols),
            ("entry", &self.entries),
            ("stub", &self.stubs),
            ("start", &self.starts),
        ] {
            for (name, at) in all {
                writeln!(text, " {kind} {name} {at:#x}").unwrap();
            }
        }
        text
    }

    /// From lines of text.
    ///
    /// # Panics
    ///
    /// If they are of another kind.
    #[must_use]
    pub fn from_text<'t>(lines: impl Iterator<Item = &'t str>) -> Self {
        let mut places = Self::default();
        for line in lines {
            let mut words = line.split_whitespace();
            let [kind, name, at] = [(); 3].map(|()| words.next().unwrap());
            let at = hex(at).unwrap();
            let names = match kind {
                "section" => {
                    places.sections.insert(name.parse().unwrap(), at);
                    continue;
                }
                "symbol" => &mut places.symbols,
                "entry" => &mut places.entries,
                "stub" => &mut places.stubs,
                "start" => &mut places.starts,
                _ => panic!("{line}"),
            };
            names.insert(name.to_owned(), at);
        }
        places
    }
}

/// Every section of an object that jitlink has placed, with its bytes for that place.
///
/// # Panics
///
/// If it cannot be linked there.
#[must_use]
pub fn relocated(bytes: &[u8], places: &Places) -> Vec<Relocated> {
    let graph = parse(bytes);
    let of_section = |(index, at): (&usize, &u64)| {
        let section = &graph.sections()[*index];
        (!section.bytes().is_empty()).then(|| one(graph.clone(), *index, *at, places))
    };
    places.sections.iter().filter_map(of_section).collect()
}

/// Links one section at its place.
fn one(mut graph: Graph<'_>, index: usize, at: u64, places: &Places) -> Relocated {
    let own = graph.section_ids().nth(index).unwrap();
    for id in graph.section_ids().filter(|id| *id != own) {
        let other = graph.section_mut(id).unwrap();
        other.edges_mut().clear();
        other.set_align(1);
    }
    let (role, name, len) = {
        let section = &graph.sections()[index];
        (section.role(), section.name().to_owned(), section.bytes().len())
    };
    // The segment of constants starts at a multiple of 8 at least.
    let pad = match role {
        SectionRole::ReadOnly => at % 8,
        _ => 0,
    };
    retarget_to_places(&mut graph, own, places, pad as u32);
    // As aligned as it is there, so that the segment's start is no less.
    let section = graph.section_mut(own).unwrap();
    section.set_align(1 << (at - pad).trailing_zeros().min(4));
    if pad > 0 {
        let bytes = [&vec![0; pad as usize], section.bytes()].concat();
        section.set_bytes(bytes);
    }
    let low = if role == SectionRole::Data {
        SectionRole::ReadOnly
    } else {
        SectionRole::Data
    };
    // The lowest segment is not empty.
    graph.add_section(Section::new("low", low, vec![0])).unwrap();
    let external = |graph: &Graph<'_>, name: &str| Some(CodeAddr::new(external(graph, name)));
    let layout = graph.layout().unwrap();
    let addrs = addresses(&layout, index, role, at - pad);
    let linked = layout
        .link(&addrs, &|name| external(layout.graph(), name))
        .unwrap_or_else(|error| panic!("{name} at {at:#x}: {error}"));
    let section = &layout.graph().sections()[index];
    let all = if role == SectionRole::StackMaps {
        linked.image.stack_maps.clone()
    } else {
        let holds = |segment: &&patchpoint::image::Segment| {
            let start = segment.addr.get();
            (start..start + u64::from(segment.size.get())).contains(&at)
        };
        let segment = linked.segments.iter().find(holds).unwrap();
        segment.bytes[(at - segment.addr.get()) as usize..].to_vec()
    };
    Relocated {
        index,
        name,
        bytes: all[..len].to_vec(),
        fields: section.edges().len(),
    }
}

/// Gives every edge of the section the address at which jitlink has its target, and moves it behind
/// so many bytes.
fn retarget_to_places(graph: &mut Graph<'_>, own: SectionId, places: &Places, pad: u32) {
    let edges = graph.sections()[own.index()].edges().to_vec();
    let targets: Vec<_> = edges
        .iter()
        .map(|edge| {
            let symbol = &graph.symbols()[edge.target().index()];
            (symbol.name().to_owned(), symbol.definition())
        })
        .collect();
    let mut changed = Vec::new();
    for (edge, (name, definition)) in edges.iter().zip(targets) {
        let there = match definition {
            Definition::Section(id, offset) if id != own || pad > 0 => {
                Some(places.of(graph, id, &name) + u64::from(offset))
            }
            Definition::Common { .. } => Some(places.symbols[&name]),
            _ => None,
        };
        if let Some(there) = there {
            let symbol = graph.symbol_mut(edge.target()).unwrap();
            symbol.set_definition(Definition::Absolute(there));
        }
        let edge = retargeted_edge(graph, own, *edge, &name, definition, places);
        let (relocation, target) = (edge.relocation(), edge.target());
        changed.push(Edge::new(edge.offset() + pad, relocation, target, edge.addend()));
    }
    *graph.section_mut(own).unwrap().edges_mut() = changed;
}

/// An edge to an entry or a stub, retargeted to jitlink's.
fn retargeted_edge(
    graph: &mut Graph<'_>,
    own: SectionId,
    edge: Edge,
    name: &str,
    definition: Definition,
    places: &Places,
) -> Edge {
    let arch = graph.arch();
    let plain = |number| Relocation::from_elf(arch, number).unwrap();
    let outside = matches!(definition, Definition::Undefined { .. });
    // R_X86_64_PC32, R_AARCH64_ADR_PREL_PG_HI21, _LDST64_ABS_LO12_NC, _PREL32
    let (to, relocation) = match edge.relocation().name() {
        // From the start of all sections of that name. R_X86_64_32
        "IMAGE_REL_AMD64_SECREL" => {
            let Definition::Section(id, offset) = definition else {
                panic!("{name} is in no section");
            };
            let start = places.starts[graph.sections()[id.index()].name()];
            let distance = places.of(graph, id, name) + u64::from(offset) - start;
            let symbol = Symbol::new(
                format!("{distance:#x} from start"),
                Definition::Absolute(distance),
            );
            let symbol = graph.add_symbol(symbol).unwrap();
            return Edge::new(edge.offset(), plain(10), symbol, edge.addend());
        }
        "X86_64_RELOC_GOT_LOAD" if !outside => {
            let bytes = graph.section_mut(own).unwrap().bytes_mut();
            let opcode = &mut bytes[edge.offset() as usize - 2];
            assert_eq!(*opcode, 0x8b);
            *opcode = 0x8d;
            return Edge::new(edge.offset(), plain(2), edge.target(), edge.addend());
        }
        "X86_64_RELOC_GOT_LOAD" | "X86_64_RELOC_GOT" => (&places.entries, plain(2)),
        "ARM64_RELOC_GOT_LOAD_PAGE21" => (&places.entries, plain(275)),
        "ARM64_RELOC_GOT_LOAD_PAGEOFF12" => (&places.entries, plain(286)),
        "ARM64_RELOC_POINTER_TO_GOT" => (&places.entries, plain(261)),
        "X86_64_RELOC_BRANCH" | "ARM64_RELOC_BRANCH26" if outside => (&places.stubs, edge.relocation()),
        _ => return edge,
    };
    let Some(at) = to.get(name).copied() else {
        panic!("{name} has no place: {places:?}")
    };
    let known = format!("{at:#x}");
    let id = graph.find(&known).unwrap_or_else(|| {
        let symbol = Symbol::new(known, Definition::Absolute(at));
        graph.add_symbol(symbol).unwrap()
    });
    Edge::new(edge.offset(), relocation, id, edge.addend())
}

/// Addresses for the segments, so that the section is at its own.
fn addresses(layout: &Layout<'_>, index: usize, role: SectionRole, at: u64) -> SegmentAddrs {
    let zero = CodeAddr::new(0);
    let from_zero = SegmentAddrs {
        code: zero,
        read_only: zero,
        data: zero,
    };
    let mut addrs = SegmentAddrs {
        code: CodeAddr::new(OUTSIDE + 0x40_0000),
        read_only: CodeAddr::new(OUTSIDE + if role == SectionRole::Data { 0 } else { 0x80_0000 }),
        data: CodeAddr::new(OUTSIDE),
    };
    let Some(offset) = layout.section_addr(index, &from_zero) else {
        return addrs;
    };
    let start = CodeAddr::new(at - offset.get());
    match role {
        SectionRole::Code => addrs.code = start,
        SectionRole::Data => addrs.data = start,
        _ => addrs.read_only = start,
    }
    addrs
}

/// Asks jitlink whether its bytes are these. Returns how many were compared.
///
/// # Errors
/// What it says, if they are not; or its places, if they are others this time.
///
/// # Panics
///
/// If it cannot be run.
pub fn compare(path: &Path, bytes: &[u8], places: &Places, ours: &[Relocated]) -> Result<usize, Differs> {
    let graph = parse(bytes);
    let file = path.file_name().unwrap().to_str().unwrap();
    let (mut checks, mut count) = (String::new(), 0);
    for section in ours {
        let base = places.sections[&section.index] - places.starts[&section.name];
        for (number, chunk) in section.bytes.chunks(8).enumerate() {
            let width = if chunk.len() == 8 { 8 } else { 1 };
            for (at, part) in chunk.chunks(width).enumerate() {
                let mut value = [0; 8];
                value[..width].copy_from_slice(part);
                let (value, offset) = (u64::from_le_bytes(value), base as usize + number * 8 + at);
                let place = format!("section_addr({file}, {}) + {offset:#x}", section.name);
                writeln!(checks, "# jitlink-check: *{{{width}}}({place}) = {value:#x}").unwrap();
            }
        }
        count += section.bytes.len();
    }
    let output = run(path, &graph, &checks);
    let now = Places::read(&graph, &String::from_utf8_lossy(&output.stdout));
    if now != *places {
        return Err(Differs::Places(now));
    }
    if output.status.success() {
        return Ok(count);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Differs::Bytes(format!("{}: {said}", path.display())))
}

/// A hash of bytes (FNV-1a, 64 bits), for a record.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
