//! Code in memory of others, which the engine remaps: LLVM's patchpoints, as a JIT of its own would
//! place them.
//!
//! The owner has two mappings, anonymous, and read-execute when they are adopted. Two generations
//! live side by side for a while, each in one of them. When a module is unregistered its pages are
//! the owner's again, who writes the code anew for the next generation but one: the same addresses
//! then hold other bytes.

use std::ptr;

use patchpoint::addr::{CodeAddr, Len};
use patchpoint::image::{Adoption, Layout, Object, SegmentAddrs};
use patchpoint::memory::{Strategy, StrategyChoice};
use patchpoint::{Engine, Result};

use super::super::compiled;
use super::loaded;
use super::parts::{Part, SiteKind};

/// A page of any of these machines.
const PAGE: u32 = 1 << 16;

/// Another JIT.
pub(super) struct Owner {
    layout: Layout<'static>,
    mappings: [Mapping; 2],
    callee: CodeAddr,
}

impl Owner {
    pub(super) fn new(callee: CodeAddr) -> Result<Self> {
        let layout = Object::parse(compiled::LIVE_STRESS)?.layout()?;
        let (_, len) = place(&layout, CodeAddr::new(0));
        Ok(Self {
            mappings: [(); 2].map(|()| Mapping::new(len as usize)),
            layout,
            callee,
        })
    }

    /// Writes the code for a generation, and lets the engine adopt it. That of the generation
    /// before the last is gone.
    pub(super) fn part(&self, engine: &Engine, generation: u64) -> Result<Part> {
        let mapping = &self.mappings[(generation % 2) as usize];
        let (addrs, _) = place(&self.layout, mapping.addr());
        let resolve = |name: &str| (name == "callee").then_some(self.callee);
        let linked = self.layout.link(&addrs, &resolve)?;
        // It may be: the engine gave the pages back.
        mapping.protect(libc::PROT_READ | libc::PROT_WRITE);
        for segment in &linked.segments {
            mapping.write(segment.addr, &segment.bytes);
        }
        let code = mapping.before(addrs.read_only);
        // The engine maintains the instruction caches for what it remaps.
        code.protect(libc::PROT_READ | libc::PROT_EXEC);

        let adoption = Adoption::from_object(compiled::LIVE_STRESS, |index, _| {
            self.layout.section_addr(index, &addrs)
        })?;
        // SAFETY: the mapping is there longer than the engine, nobody writes to it before its module is unregistered, and
        // no thread executes what was written just now.
        let adopted = unsafe { adoption.not_yet_run().promise() }?;
        let code = engine.adopt(adopted, StrategyChoice::Remap)?;
        assert!(code.areas().iter().all(|area| area.strategy() == Strategy::Remap));
        loaded::register(engine, SiteKind::Remapped, code)
    }
}

/// Where the object's segments are in a mapping, and how long that is. The code is first.
fn place(layout: &Layout<'_>, at: CodeAddr) -> (SegmentAddrs, u64) {
    let placed = layout.contiguous(at, Len::new(PAGE));
    placed.expect("a mapping is aligned, and long enough")
}

/// Pages of the example's own, or the first of them.
struct Mapping {
    at: *mut u8,
    len: usize,
}

// SAFETY: it is memory.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Aligned for pages of any size.
    fn new(len: usize) -> Self {
        let align = PAGE as usize;
        let (prot, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping where the kernel likes.
        let at = unsafe { libc::mmap(ptr::null_mut(), len + align, prot, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let at: *mut u8 = at.cast();
        // It is never unmapped: the rest in front of it is no matter.
        Self {
            at: at.map_addr(|addr| addr.next_multiple_of(align)),
            len,
        }
    }

    fn addr(&self) -> CodeAddr {
        CodeAddr::new(self.at.expose_provenance() as u64)
    }

    /// The part in front of an address.
    fn before(&self, end: CodeAddr) -> Self {
        Self {
            at: self.at,
            len: (end.get() - self.addr().get()) as usize,
        }
    }

    fn protect(&self, prot: libc::c_int) {
        // SAFETY: the pages are the example's, and no thread is in them.
        let done = unsafe { libc::mprotect(self.at.cast(), self.len, prot) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }

    fn write(&self, at: CodeAddr, bytes: &[u8]) {
        let offset = (at.get() - self.addr().get()) as usize;
        assert!(offset + bytes.len() <= self.len);
        // SAFETY: in the mapping, which is writable now and nobody else looks at.
        unsafe { self.at.add(offset).copy_from(bytes.as_ptr(), bytes.len()) };
    }
}
