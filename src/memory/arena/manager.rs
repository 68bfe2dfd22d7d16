//! The arena as the memory of a link: nothing has to be waited for.

use std::future::{Future, ready};
use std::vec::Vec;

use super::{Arena, PlacedSegment, PlacedSegments, Placement, Reach, SegmentNeed};
use crate::addr::CodeAddr;
use crate::image::{self, LinkedImage, MemoryManager, SegmentAddrs, SegmentKind, SegmentRequest};
use crate::memory::{Error, Result};

impl MemoryManager for Arena {
    type Memory = Placement;
    type Finalized = PlacedSegments;
    type Error = Error;

    fn allocate(
        &self,
        segments: &[SegmentRequest; 3],
        reach: image::ImageReach,
    ) -> impl Future<Output = Result<(Placement, SegmentAddrs)>> {
        let needs = segments.map(|request| need(&request));
        let reach = match reach {
            image::ImageReach::Anywhere => Reach::Anywhere,
            image::ImageReach::Low2GiB => Reach::Low2GiB,
        };
        let placed = self.place(&needs, reach).map(|placement| {
            let addrs = addrs(placement.segments());
            (placement, addrs)
        });
        ready(placed)
    }

    fn finalize(
        &self,
        mut memory: Placement,
        image: &LinkedImage,
    ) -> impl Future<Output = Result<PlacedSegments>> {
        let filled: Result<Vec<()>> = image
            .segments
            .iter()
            .map(|segment| memory.fill(segment.addr, &segment.bytes))
            .collect();
        ready(filled.and_then(|_| memory.finalize()))
    }

    /// Dropping it frees the room.
    fn abandon(&self, memory: Placement) {
        drop(memory);
    }

    /// Dropping it does the same.
    fn deallocate(&self, finalized: PlacedSegments) -> Result<()> {
        drop(finalized);
        Ok(())
    }
}

fn addrs(segments: &[PlacedSegment]) -> SegmentAddrs {
    let start = |kind| {
        segments
            .iter()
            .find(|s| s.kind == kind)
            .map_or(CodeAddr::default(), |s| s.range.start())
    };
    SegmentAddrs {
        code: start(SegmentKind::Code),
        read_only: start(SegmentKind::ReadOnly),
        data: start(SegmentKind::Data),
    }
}

fn need(request: &SegmentRequest) -> SegmentNeed {
    SegmentNeed {
        kind: request.kind,
        len: u64::from(request.size.get()),
        align: u64::from(request.align.get()),
    }
}
