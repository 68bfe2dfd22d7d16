//! A site with a closure as its handler.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::machine::Memory;
use crate::addr::{CodeAddr, FnOffset, RecordId};
use crate::arch::{Arch, CallShape, SiteContext};
use crate::deopt::live_registers::testing;
use crate::deopt::{Answer, ExitStubContext, ExitStubSite, Frame, Resume, Role, UnwindInfo, encode, max_len};
use crate::stackmap::{Constants, Record};

type Handler = Box<dyn for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync>;

pub(super) struct TestSite {
    pub(super) addr: CodeAddr,
    pub(super) shape: CallShape,
    pub(super) record: Option<Record<'static>>,
    pub(super) constants: Constants<'static>,
    pub(super) unwind: Option<UnwindInfo>,
    handler: Handler,
}

impl TestSite {
    pub(super) fn new(
        addr: CodeAddr,
        handler: impl for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync + 'static,
    ) -> Self {
        Self {
            addr,
            shape: CallShape::shadow(16),
            record: None,
            constants: Constants::NONE,
            unwind: None,
            handler: Box::new(handler),
        }
    }

    /// The context of an exit stub for this site, which lives until the process ends.
    pub(super) fn context(self) -> &'static ExitStubContext {
        // SAFETY: each test describes its site truly.
        let context = unsafe { ExitStubContext::new(Role::Deopt, Arc::new(self)) };
        Box::leak(context.unwrap())
    }

    /// Writes an exit stub for this site to memory reserved for it.
    pub(super) fn exit_stub(self, memory: &mut Memory, at: CodeAddr, resume: Resume<'_>) {
        let bytes = encode(at, self.context(), resume).unwrap();
        assert!(bytes.len() <= max_len(Arch::X86_64, &resume).as_usize());
        memory.write(at, &bytes);
    }

    /// Writes a live-register exit stub for this site to memory reserved for it.
    pub(super) fn live_register_exit_stub(self, memory: &mut Memory, at: CodeAddr) {
        let resume = Resume::At(at);
        // SAFETY: each test describes its site truly.
        let bytes = unsafe { testing::exit_stub(Arc::new(self), at, resume) };
        memory.write(at, &bytes);
    }
}

impl ExitStubSite for TestSite {
    fn site(&self) -> SiteContext<'_> {
        SiteContext {
            arch: Arch::X86_64,
            id: RecordId::new(7),
            function: Some("test"),
            offset: FnOffset::new(0),
            addr: self.addr,
            shape: self.shape,
            record: self.record,
            constants: self.constants,
            return_offsets: &[],
            trust_live_outs: false,
        }
    }

    fn unwind(&self) -> crate::deopt::Result<Option<&UnwindInfo>> {
        Ok(self.unwind.as_ref())
    }

    fn handle<'f>(&self, frame: &mut Frame<'f>) -> Answer<'f> {
        (self.handler)(frame)
    }
}
