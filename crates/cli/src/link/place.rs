//! Memory that is only thought of: what is linked is looked at and never runs.

use std::future::{Future, ready};

use patchpoint::Error;
use patchpoint::addr::CodeAddr;
use patchpoint::image::{self, ImageReach, LinkedImage, MemoryManager, SegmentAddrs, SegmentRequest};

const PAGE: u64 = 0x1000;

/// The segments in pages of their own, one after the other from this address on.
pub(super) struct AtAddress(pub(super) CodeAddr);

impl AtAddress {
    /// The first is placed where it is told to be: whether it may is checked by whoever asks.
    fn addrs(&self, segments: &[SegmentRequest; 3]) -> patchpoint::Result<SegmentAddrs> {
        let (mut at, mut first) = (self.0, true);
        let mut end = Some(at.get());
        let mut place = |request: &SegmentRequest| -> patchpoint::Result<CodeAddr> {
            let align = PAGE.max(request.align.get().into());
            if !std::mem::take(&mut first) {
                let next = end.and_then(|end| end.checked_next_multiple_of(align));
                at = CodeAddr::new(next.ok_or(image::Error::SegmentMisplaced {
                    segment: request.kind,
                    addr: at,
                    reason: "there is no room behind the others: give a lower base",
                })?);
            }
            end = at.get().checked_add(request.size.get().into());
            Ok(at)
        };
        let [code, read_only, data] = segments;
        Ok(SegmentAddrs {
            code: place(code)?,
            read_only: place(read_only)?,
            data: place(data)?,
        })
    }
}

impl MemoryManager for AtAddress {
    type Memory = ();
    type Finalized = ();
    type Error = Error;

    fn allocate(
        &self,
        segments: &[SegmentRequest; 3],
        _: ImageReach,
    ) -> impl Future<Output = patchpoint::Result<((), SegmentAddrs)>> {
        ready(self.addrs(segments).map(|addrs| ((), addrs)))
    }

    fn finalize(&self, (): (), _: &LinkedImage) -> impl Future<Output = patchpoint::Result<()>> {
        ready(Ok(()))
    }

    fn abandon(&self, (): ()) {}

    fn deallocate(&self, (): ()) -> patchpoint::Result<()> {
        Ok(())
    }
}
