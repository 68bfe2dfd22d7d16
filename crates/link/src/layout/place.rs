//! Sections at places of the caller's choice, for who has to agree with another linker, or keeps
//! what is used together close.
//!
//! Invariant: when segments get addresses, no two sections of one overlap, and each is aligned as
//! it asks to be. Cost: a sort of the sections, if one was moved.

use alloc::vec::Vec;

use llvm_stackmaps::addr::Len;

use crate::MAX_SIZE;
use crate::error::{Error, Result};
use crate::graph::{Section, SectionId, SectionRole};
use crate::layout::{EH_FRAME_END, Layout};

impl Layout<'_> {
    /// Moves a section to this offset in bytes from the start of its segment, which becomes larger
    /// if need be. The others stay where they are; move those in the way, too. Which segment it is
    /// in, its role says ([`Section::set_role`]).
    ///
    /// That it overlaps no other is checked when the segments get addresses.
    ///
    /// # Errors
    /// The section is not placed at all, the offset is not a multiple of its alignment, or the segment would be larger than 1 GiB.
    pub fn place_at(&mut self, id: SectionId, offset: Len) -> Result<()> {
        let misplaced = |reason| self.misplaced(id, offset, reason);
        let section = self.graph.section(id);
        let place = self.places.get(id.index()).copied().flatten();
        let (Some(section), Some(place)) = (section, place) else {
            return Err(misplaced("it has no place in a segment"));
        };
        // protection: moved-sections-are-aligned
        if offset.get() % section.align.max(1) != 0 {
            return Err(misplaced("the offset is not a multiple of its alignment"));
        }
        let end = u64::from(offset.get()) + extent(section);
        let (true, Ok(end)) = (end <= MAX_SIZE, u32::try_from(end)) else {
            return Err(misplaced("its end is more than 1 GiB from the segment's start"));
        };
        for request in self
            .segments
            .iter_mut()
            .filter(|request| request.kind == place.segment)
        {
            request.size = Len::new(request.size.get().max(end));
        }
        let last = offset.get().saturating_add(section.bytes.len() as u32);
        if let (false, Some(filled)) = (
            section.bytes.is_empty(),
            self.filled.get_mut(place.segment.index()),
        ) {
            *filled = last.max(*filled);
        }
        if let Some(Some(place)) = self.places.get_mut(id.index()) {
            place.offset = offset.get();
        }
        self.moved = true;
        Ok(())
    }

    /// Checks that sections which were moved are in nobody's way.
    pub(crate) fn check_overlaps(&self) -> Result<()> {
        if !self.moved {
            return Ok(());
        }
        let placed = (0..).map(SectionId).zip(&self.graph.sections).zip(&self.places);
        let mut placed: Vec<_> = placed
            .filter_map(|((id, section), place)| {
                let place = (*place)?;
                let start = u64::from(place.offset);
                Some((place.segment.index(), start, start + extent(section), id))
            })
            .filter(|(_, start, end, _)| start < end)
            .collect();
        placed.sort_unstable();
        for (first, second) in placed.iter().zip(placed.iter().skip(1)) {
            // protection: moved-sections-do-not-overlap
            if first.0 == second.0 && second.1 < first.2 {
                let offset = Len::new(u32::try_from(second.1).unwrap_or(u32::MAX));
                return Err(self.misplaced(second.3, offset, "it overlaps the section before it"));
            }
        }
        Ok(())
    }

    fn misplaced(&self, id: SectionId, offset: Len, reason: &'static str) -> Error {
        let section = self.graph.section(id);
        Error::SectionMisplaced {
            section: section.map_or_else(Default::default, |section| self.graph.section_name(section)),
            offset,
            reason,
        }
    }
}

/// The bytes that a section takes, with the zero that ends unwind information.
fn extent(section: &Section<'_>) -> u64 {
    let terminator = if section.role == SectionRole::EhFrame {
        EH_FRAME_END
    } else {
        0
    };
    u64::from(section.size) + terminator
}
