//! The body of the fuzz target `image`.

use alloc::string::ToString;
use alloc::vec::Vec;

use llvm_stackmaps::StackMaps;
use llvm_stackmaps::addr::{CodeAddr, Len};

use crate::layout::SegmentAddrs;
use crate::{Definition, Graph, Layout, LinkedImage, Object, Scope, Section, SectionRole, Segment};

/// How large the images are, which need not have bytes for zeros that are in no file.
const LIMIT: u64 = 1 << 26;

/// Any bytes, laid out and linked if they are an object, for low and for high addresses, with
/// symbols outside that are near and that are far. What comes of it is read as the engine reads it.
///
/// # Panics
///
/// If the linked bytes disagree with the layout, bytes change that no relocation names, or the same
/// addresses give other bytes: each a defect.
pub fn image(data: &[u8], read: impl Fn(&LinkedImage)) {
    let Ok(object) = Object::parse(data) else { return };
    let mut graph = Graph::new("it", object);
    graph.set_size_limit(LIMIT);
    let Ok(layout) = graph.layout() else { return };
    check_pruned(data);
    check_twice(data);
    check_tested(data);
    for (base, outside) in [
        (0x1_0000, 0x1234_5678_0000),
        (0x1000_0000, 0x1080_0000),
        (0x7f00_0000_0000, 0x7f00_0080_0000),
    ] {
        let Some((addrs, _)) = layout.contiguous(CodeAddr::new(base), Len::new(4096)) else {
            continue;
        };
        let resolve = |name: &str| Some(CodeAddr::new(outside + 16 * name.len() as u64));
        if let Ok(linked) = layout.link(&addrs, &resolve) {
            check_sizes(&layout, &linked);
            check_bytes(&layout, &addrs, &linked);
            let again = layout.link(&addrs, &resolve);
            let segments = again.map(|again| again.segments);
            let same = |other: &[Segment]| {
                other
                    .iter()
                    .zip(&linked.segments)
                    .all(|(a, b)| a.bytes == b.bytes)
            };
            assert!(segments.is_ok_and(|segments| same(&segments)), "linked twice");
            read_maps(&linked);
            read(&linked);
        }
    }
}

/// Without what one of its symbols does not need, twice: what is left needs all that is left.
fn check_pruned(data: &[u8]) {
    let Ok(object) = Object::parse(data) else { return };
    let mut graph = Graph::new("it", object);
    let roots = graph.symbols().iter();
    let root = roots
        .filter(|symbol| symbol.scope() != Scope::Local)
        .find(|symbol| matches!(symbol.definition(), Definition::Section(..)))
        .map(|symbol| symbol.name().to_string());
    let Some(root) = root else { return };
    let sizes = |graph: &Graph<'_>| -> Vec<u32> { graph.sections().iter().map(Section::size).collect() };
    if graph.prune([root.as_str()]).is_ok() {
        let once = sizes(&graph);
        assert_eq!(graph.prune([root.as_str()]), Ok(()));
        assert_eq!(once, sizes(&graph), "pruned twice");
        let _ = graph.layout();
    }
}

/// Together with itself, if nothing of it may be there only once: of each group that may be chosen,
/// one is left.
fn check_twice(data: &[u8]) {
    let (Ok(first), Ok(second)) = (Object::parse(data), Object::parse(data)) else {
        return;
    };
    let mut graph = Graph::new("first", first);
    if graph.add("second", second).is_err() {
        return;
    }
    let chosen = graph.groups().iter().filter(|group| group.selection().is_some());
    assert!(
        chosen.clone().all(|group| group.file() == 0),
        "a group is there twice"
    );
    link_somewhere(graph);
}

/// Tested by itself: all that it defines for others is replaced.
fn check_tested(data: &[u8]) {
    let (Ok(first), Ok(second)) = (Object::parse(data), Object::parse(data)) else {
        return;
    };
    let mut graph = Graph::new("first", first);
    if graph.add_harness(Graph::new("second", second)).is_ok() {
        link_somewhere(graph);
    }
}

fn link_somewhere(graph: Graph<'_>) {
    let Ok(layout) = graph.layout() else { return };
    if let Some((addrs, _)) = layout.contiguous(CodeAddr::new(0x1_0000), Len::new(4096)) {
        let _ = layout.link(&addrs, &|_| Some(CodeAddr::new(0x1_0000)));
    }
}

fn check_sizes(layout: &Layout<'_>, linked: &LinkedImage) {
    for segment in &linked.segments {
        let mut requests = layout.segments().iter();
        let request = requests.find(|request| request.kind == segment.kind);
        let size = request.map(|request| request.size.as_usize());
        assert_eq!(size, Some(segment.size.as_usize()));
        assert!(segment.bytes.len() <= segment.size.as_usize());
    }
}

/// Every byte of a section is what it was, but where a relocation writes: its field, a number of
/// variable length, or the instruction behind a call on PowerPC.
fn check_bytes(layout: &Layout<'_>, addrs: &SegmentAddrs, linked: &LinkedImage) {
    const LONGEST: u32 = 10;
    for (index, section) in layout.graph().sections().iter().enumerate() {
        let Some(at) = layout.section_addr(index, addrs) else {
            continue;
        };
        let mut segments = linked.segments.iter();
        let holder = segments.find(|segment| at.is_within(segment.addr, segment.size));
        let Some(found) = holder.and_then(|segment| {
            let start = usize::try_from(at.get() - segment.addr.get()).ok()?;
            segment.bytes.get(start..)?.get(..section.bytes().len())
        }) else {
            assert!(section.role() == SectionRole::Ignored || section.bytes().is_empty());
            continue;
        };
        let mut written = alloc::vec![false; found.len()];
        for edge in section.edges() {
            let width = match edge.relocation().width() {
                0 => LONGEST,
                4 if layout.graph().arch.is_powerpc64() => 8,
                width => u32::from(width),
            };
            let range = edge.offset() as usize..edge.offset().saturating_add(width) as usize;
            let end = range.end.min(written.len());
            if let Some(written) = written.get_mut(range.start..end) {
                written.fill(true);
            }
        }
        for ((before, after), written) in section.bytes().iter().zip(found).zip(written) {
            assert!(written || before == after, "a byte of {} changed", section.name());
        }
    }
}

/// Errors are fine, panics are not.
fn read_maps(linked: &LinkedImage) {
    let image = &linked.image;
    if let Ok(maps) = StackMaps::parse(&image.stack_maps, image.endian) {
        for function in maps.maps().iter().flat_map(|map| map.functions()) {
            let _ = image.function_at(CodeAddr::new(function.address()));
        }
    }
}
