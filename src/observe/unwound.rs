//! Unwind information of linked graphs, known to the process's unwinder as long as their memory
//! exists.
//!
//! Problem: an exception that passes through linked code, or a backtrace, ends the process or ends
//! there if nobody has told the unwinder of its frames; and one that is still told of memory which
//! is something else by then reads whatever is there. Approach: a memory manager around another
//! one: what it finalizes it registers, and what it deallocates it deregisters before. So it goes
//! with every [`link`](crate::image::link) whose memory it has, whatever passes run.
//!
//! Who registers code with an engine has [`Unwinder`](super::Unwinder) for the same.

#![allow(unsafe_code)]

use std::fmt;
use std::vec::Vec;

use super::unwinder::Section;
use crate::arch::Arch;
use crate::image::{EhFrame, ImageReach, LinkedImage, MemoryManager, SegmentAddrs, SegmentRequest};

/// A memory manager whose code the process's unwinder knows: C++ exceptions pass through it and are
/// caught in it, and backtraces go on.
///
/// Graphs for another architecture than the process's are linked as the manager would, and not
/// registered.
#[derive(Clone, Debug)]
pub struct Unwound<M>(M);

/// Memory whose unwind information is registered; deregistered when this is dropped.
pub struct Registered<F> {
    // Dropped before the memory.
    sections: Vec<Section>,
    memory: F,
}

impl<M: MemoryManager> Unwound<M> {
    /// Registers the unwind information of what this manager finalizes.
    ///
    /// # Safety
    /// What the manager finalizes is memory of this process, which holds the image's bytes at their addresses until it is
    /// deallocated or dropped, and no frame of that code is on a stack then. The graphs' unwind information describes their code,
    /// as that of compilers does: the unwinder trusts it.
    #[must_use]
    pub const unsafe fn new(manager: M) -> Self {
        Self(manager)
    }

    /// The manager.
    #[must_use]
    pub const fn manager(&self) -> &M {
        &self.0
    }
}

impl<F> Registered<F> {
    /// The memory.
    #[must_use]
    pub const fn memory(&self) -> &F {
        &self.memory
    }

    /// How many sections of unwind information the unwinder knows.
    #[must_use]
    pub fn sections(&self) -> usize {
        self.sections.len()
    }
}

impl<M: MemoryManager> MemoryManager for Unwound<M> {
    type Memory = M::Memory;
    type Finalized = Registered<M::Finalized>;
    type Error = M::Error;

    async fn allocate(
        &self,
        segments: &[SegmentRequest; 3],
        reach: ImageReach,
    ) -> Result<(Self::Memory, SegmentAddrs), M::Error> {
        self.0.allocate(segments, reach).await
    }

    async fn finalize(&self, memory: Self::Memory, image: &LinkedImage) -> Result<Self::Finalized, M::Error> {
        let memory = self.0.finalize(memory, image).await?;
        let ours = Arch::host() == Some(image.image.arch);
        let frames = image
            .image
            .eh_frames
            .iter()
            .filter(|frame| ours && describes_code(frame));
        // SAFETY: the caller of `new` has promised that it is there, with the terminator that the layout puts behind it, and stays
        // until the memory goes, before which it is deregistered.
        let sections = frames.map(|frame| unsafe { Section::in_memory(frame.addr) });
        Ok(Registered {
            sections: sections.collect(),
            memory,
        })
    }

    fn abandon(&self, memory: Self::Memory) {
        self.0.abandon(memory);
    }

    fn deallocate(&self, finalized: Self::Finalized) -> Result<(), M::Error> {
        // protection: unwind-information-is-taken-back
        drop(finalized.sections);
        self.0.deallocate(finalized.memory)
    }
}

/// Whether there is an entry of a function. The unwinder of GCC 13 and later ends the process when
/// a section without one is deregistered.
fn describes_code(frame: &EhFrame) -> bool {
    let mut rest = &frame.bytes[..];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_ne_bytes(*length) as usize;
        match (after.split_at_checked(length), after.first_chunk::<4>()) {
            // A common entry has 0 there (LSB, "Exception Frames").
            // protection: unwind-information-of-functions
            (Some(_), Some(id)) if length >= 4 && *id != [0; 4] => return true,
            (Some((_, behind)), _) if length > 0 => rest = behind,
            _ => return false,
        }
    }
    false
}

impl<F> fmt::Debug for Registered<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered")
            .field("sections", &self.sections.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::CodeAddr;

    fn is_worth_telling(records: &[(u32, u32, usize)]) -> bool {
        let mut bytes = Vec::new();
        for (length, id, rest) in records {
            bytes.extend(length.to_ne_bytes());
            bytes.extend(id.to_ne_bytes());
            bytes.resize(bytes.len() + rest, 0);
        }
        describes_code(&EhFrame {
            addr: CodeAddr::new(0),
            bytes,
        })
    }

    #[test]
    fn sections_without_a_function_are_left_out() {
        assert!(!is_worth_telling(&[]));
        assert!(!is_worth_telling(&[(12, 0, 8)]));
        assert!(!is_worth_telling(&[(12, 0, 8), (4, 0, 0)]));
        assert!(is_worth_telling(&[(12, 0, 8), (4, 0x14, 0)]));
        assert!(is_worth_telling(&[(4, 8, 0)]));
        // What is cut off, or says that it is longer than all there is, ends there.
        assert!(!is_worth_telling(&[(12, 0, 8), (5, 0x14, 0)]));
        assert!(!is_worth_telling(&[(12, 0, 8), (u32::MAX, 0x14, 0)]));
        assert!(!is_worth_telling(&[(12, 0, 8), (0, 0x14, 0), (4, 0x14, 0)]));
    }
}
