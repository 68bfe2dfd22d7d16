//! What is known of code that another linker has placed, from the object and the addresses of its
//! sections.
//!
//! Problem: a JIT that has a linker of its own (MCJIT, ORC) tells where it has put each section of
//! an object, and not where functions start and end; the stack maps and the unwind information in
//! the object have no addresses yet. Approach: the graph is laid out as it would be here, and then
//! gets the places that were told. Symbols follow from them, and what describes code is relocated;
//! code and data are not touched.

use alloc::string::ToString;
use alloc::vec::Vec;

use llvm_stackmaps::addr::CodeAddr;

use super::Linker;
use crate::error::{Error, Result};
use crate::format::ObjectFormat;
use crate::graph::{Graph, SectionId, SectionRole};
use crate::image::{CodeTable, EhFrame, Image, SegmentKind};
use crate::layout::{Layout, SectionPlace, SegmentAddrs};

impl Graph<'_> {
    /// The functions, stack maps, unwind information and tables of code that another linker has
    /// placed. `address` is asked for the address of each section that is loaded, by its index and
    /// name; `None` is for what was not placed, or is of no interest: nothing is known of its code
    /// then.
    ///
    /// The sections have to be in memory as the object has them. A linker that makes code shorter
    /// (relaxation on RISC-V) or leaves functions out moves the rest to other offsets.
    ///
    /// [`Image::code`] is empty.
    ///
    /// # Errors
    /// As [`Graph::layout`]; sections of one kind are 4 GiB or more apart; what is in the stack maps, or in unwind information and
    /// tables that have an address, refers to a section that has none, or to a symbol that the object does not define.
    pub fn placed(self, mut address: impl FnMut(SectionId, &str) -> Option<CodeAddr>) -> Result<Image> {
        // What laying out adds is in no memory.
        let count = self.sections.len();
        let mut layout = self.layout()?;
        let told: Vec<Option<(SegmentKind, CodeAddr)>> = (0..)
            .map(SectionId)
            .zip(&layout.graph.sections)
            .zip(&layout.places)
            .map(|((id, section), place)| {
                let own = place.filter(|_| id.index() < count)?;
                Some((own.segment, address(id, &section.name)?))
            })
            .collect();
        let addrs = place(&mut layout, &told)?;
        let values = Linker::new(&layout, addrs, &[]).resolve_all(&mut |_| None);
        Linker::new(&layout, addrs, &values).describe()
    }
}

/// Gives the sections the places that were told.
fn place(layout: &mut Layout<'_>, told: &[Option<(SegmentKind, CodeAddr)>]) -> Result<SegmentAddrs> {
    let lowest = |kind| {
        let own = told.iter().flatten().filter(|(segment, _)| *segment == kind);
        own.map(|(_, addr)| *addr).min().unwrap_or(CodeAddr::new(0))
    };
    let addrs = SegmentAddrs {
        code: lowest(SegmentKind::Code),
        read_only: lowest(SegmentKind::ReadOnly),
        data: lowest(SegmentKind::Data),
    };
    for (place, told) in layout.places.iter_mut().zip(told) {
        *place = match *told {
            None => None,
            Some((segment, addr)) => {
                let distance = addr.get() - addrs.get(segment).get();
                let offset = u32::try_from(distance).map_err(|_| Error::SegmentMisplaced {
                    segment,
                    addr,
                    reason: "another section of its kind is 4 GiB or more away: leave one of them out",
                })?;
                Some(SectionPlace { segment, offset })
            }
        };
    }
    Ok(addrs)
}

impl Linker<'_, '_> {
    /// What describes code, relocated.
    fn describe(&self) -> Result<Image> {
        let graph = &self.layout.graph;
        let (mut eh_frames, mut code_tables) = (Vec::new(), Vec::new());
        for (section, place) in graph.sections.iter().zip(&self.layout.places) {
            let is_eh_frame = section.role == SectionRole::EhFrame;
            let Some(place) = place.filter(|_| is_eh_frame || section.about_code) else {
                continue;
            };
            let addr = CodeAddr::new(self.address(place));
            let mut bytes = section.bytes.to_vec();
            self.apply_all(section, Some(addr.get()), &mut bytes)?;
            if is_eh_frame {
                eh_frames.push(EhFrame { addr, bytes });
            } else {
                let name = section.name.to_string();
                code_tables.push(CodeTable { name, addr, bytes });
            }
        }
        Ok(Image {
            arch: graph.arch(),
            windows: graph.format == ObjectFormat::Coff,
            endian: graph.endian(),
            stack_maps: self.stack_maps()?,
            functions: self.functions(),
            eh_frames,
            code_tables,
            code: Vec::new(),
        })
    }
}
