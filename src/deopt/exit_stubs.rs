//! The exit stubs of an engine: its sites, the runtime's handlers, and the unwind information of
//! its modules.

#![allow(unsafe_code, reason = "Exits is an unsafe trait")]

use std::any::Any;
use std::sync::Arc;

use super::c_function::{self, CCall, CFunction};
use super::exit_stub::{capture, encode_calling, stack};
use super::exit_table::{BlockExits, ExitTable};
use super::live_registers::{self, LiveRegistersContext, Plan};
use super::mirrored::Contexts;
use super::{Answer, ExitStubContext, ExitStubSite, Frame, Resume, UnwindInfo, max_len, state, unwinds};
use crate::addr::{CodeAddr, Len};
use crate::arch::{Arch, SiteContext};
use crate::engine::{ExitBlock, ExitBlocks, ExitCode, ExitRequest, ExitResumption, Exits, Role, SavedFrame};
use crate::memory::BlockForm;
use crate::site::{ModuleId, Site};
use crate::{Error, Result, deopt};

/// What the runtime does when compiled code reaches it. A panic ends the process.
type Handler = Arc<dyn for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync>;

/// Makes the exit stubs of an engine, which end in these handlers.
///
/// A handler may change sites, the one it comes from too. One that holds an
/// [`Engine`](crate::Engine) should hold it [weakly](crate::Engine::downgrade): the engine owns its
/// handlers.
#[derive(Default)]
pub struct ExitStubs {
    /// Whether the exit stubs for misses save the live registers only.
    live_registers: bool,
    /// What those that save everything have in common, in this process.
    exits: BlockExits,
    /// The exit stubs, where they are executed in a mirror.
    mirrored: Option<Contexts>,
}

/// The handlers of an engine.
#[derive(Clone, Default)]
pub(super) struct Handlers {
    miss: Option<Handler>,
    deopt: Option<Handler>,
}

impl Handlers {
    pub(super) fn of(&self, role: Role) -> Option<&Handler> {
        match role {
            Role::Miss => self.miss.as_ref(),
            Role::Deopt => self.deopt.as_ref(),
        }
    }
}

impl ExitStubs {
    /// Without handlers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The handler of `Target::Miss`: it computes the result, and resuming goes on at the site's
    /// end.
    #[must_use]
    pub fn on_miss<H>(mut self, handler: H) -> Self
    where
        H: for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync + 'static,
    {
        self.handlers().miss = Some(Arc::new(handler));
        self.live_registers = false;
        self
    }

    /// The same for a handler that only computes the result, and resumes: patchpoints whose record
    /// says what is live get exit stubs that save just that, and are faster. In such a [`Frame`]
    /// the registers are those that are live, the record's values and the arguments; it cannot be
    /// left, and the walk to its callers needs a frame pointer among them. Floating-point settings
    /// are those of the code.
    ///
    /// Which patchpoints: those with the C convention, and those with `anyregcc` whose record has
    /// live-outs (`-enable-patchpoint-liveness`). The others, and those where masks or other
    /// registers are live that cannot simply be stored, get exit stubs that save everything.
    #[must_use]
    pub fn on_live_register_miss<H>(self, handler: H) -> Self
    where
        H: for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync + 'static,
    {
        Self {
            live_registers: true,
            ..self.on_miss(handler)
        }
    }

    /// The same for a C function: it is called with the site and its arguments, and returns the
    /// result.
    #[must_use]
    pub fn on_miss_c(self, function: CFunction<CCall>) -> Self {
        self.on_live_register_miss(move |frame| c_function::answer(&function, frame))
    }

    /// The handler of invalidated sites and of `Target::Deopt`: resuming goes on as if nothing had
    /// happened, with what the site did before it was invalidated, or with its original
    /// instructions.
    #[must_use]
    pub fn on_deopt<H>(mut self, handler: H) -> Self
    where
        H: for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync + 'static,
    {
        self.handlers().deopt = Some(Arc::new(handler));
        self
    }

    fn handler(&self, role: Role) -> Option<&Handler> {
        self.exits.handlers.of(role)
    }

    /// No exit stub has been made yet.
    fn handlers(&mut self) -> &mut Handlers {
        Arc::make_mut(&mut self.exits.handlers)
    }

    /// Whether an exit stub saves the live registers only.
    fn saves_live_registers(&self, site: &Site, role: Role) -> bool {
        self.live_registers && role == Role::Miss && Plan::new(&site.context(&[])).is_some()
    }
}

// SAFETY: `encode` calls the capture routine, which saves everything, or everything that is live, and restores it; the
// context that the bytes point to is what is kept, and `max_len` bounds them for every address. The encodings and the
// routine are tested on every architecture.
unsafe impl Exits for ExitStubs {
    fn prepare(&self) {
        state::prepare();
    }

    fn handles(&self, role: Role) -> bool {
        self.handler(role).is_some()
    }

    fn bound(&self, site: &Site, role: Role, resumption: &ExitResumption<'_>) -> Result<Len> {
        let live_registers = match self.live_registers && role == Role::Miss {
            true => live_registers::max_len(&site.context(&[]))?,
            false => None,
        };
        Ok(live_registers.unwrap_or_else(|| max_len(site.module().arch(), &resume(site, *resumption))))
    }

    fn encode(&self, request: &ExitRequest<'_>) -> Result<ExitCode> {
        let (site, role) = (request.site, request.role);
        let handler = self.handler(role).cloned();
        let handler = handler.ok_or_else(|| Error::NoHandler {
            site: site.name(),
            role: role.name(),
        })?;
        let site: Arc<dyn ExitStubSite> = Arc::new(SiteExit {
            site: site.clone(),
            handler,
        });
        if self.live_registers && role == Role::Miss {
            // SAFETY: the site is registered, so its record has been audited against its code.
            let context = unsafe { LiveRegistersContext::new(Arc::clone(&site)) };
            if let Some(context) = context {
                let bytes = context.encode(request.at)?;
                let stack = context.stack().into();
                return Ok(ExitCode {
                    bytes,
                    stack,
                    keep: context,
                });
            }
        }
        // SAFETY: the site is registered, so its record has been audited against its code, and the unwind
        // information came with that code. The handler's answers are the runtime's promise.
        let context = unsafe { ExitStubContext::new(role, site) }?;
        let arch = request.site.module().arch();
        let resume = resume(request.site, request.resumption);
        if let Some(contexts) = &self.mirrored {
            let bytes = encode_calling(contexts.capture(), request.at, &context, resume)?;
            let stack = stack(arch, &context, contexts.capture());
            let keep = Box::new(contexts.keep(context));
            return Ok(ExitCode { bytes, stack, keep });
        }
        let bytes = encode_calling(capture(), request.at, &context, resume)?;
        let stack = stack(arch, &context, capture());
        Ok(ExitCode {
            bytes,
            stack,
            keep: context,
        })
    }

    fn in_blocks(
        &self,
        site: &Site,
        role: Role,
        resumption: &ExitResumption<'_>,
    ) -> Option<(BlockForm, &dyn ExitBlocks)> {
        let is_here = self.mirrored.is_none() && Arch::host() == Some(site.module().arch());
        let can_be = is_here && !self.saves_live_registers(site, role);
        let form = can_be.then(|| BlockExits::form(resumption)).flatten()?;
        Some((form, &self.exits))
    }

    unsafe fn capture_by(&mut self, routine: CodeAddr) -> Result<()> {
        // The routine of live-register exit stubs is this process's.
        self.live_registers = false;
        self.mirrored = Some(Contexts::new(routine));
        Ok(())
    }

    fn handle(&self, frame: &SavedFrame) -> Result<Option<u64>> {
        let contexts = self.mirrored.as_ref();
        contexts.map_or(Ok(None), |contexts| Ok(contexts.handle(frame)?))
    }

    fn check_leavable(&self, site: &Site) -> Result<()> {
        let unwind = unwinds::of_site(site)?;
        let missing = deopt::Error::UnwindMissing { pc: site.addr() };
        Ok(unwind.ok_or(missing)?.check_leavable(site.addr())?)
    }

    fn forget(&self, _: ModuleId) {}
}

// SAFETY: the exit stubs are those of `encode`, with the context and the routine's address in front of all of them. A
// table lives as long as its block, and an entry until its number is given back.
unsafe impl ExitBlocks for BlockExits {
    fn make(&self, form: BlockForm, at: CodeAddr, count: u32) -> (Vec<u8>, Arc<dyn ExitBlock>) {
        let table = ExitTable::new(self.clone(), form, at, count);
        (table.shared(), Arc::new(table))
    }
}

fn resume<'a>(site: &Site, resumption: ExitResumption<'a>) -> Resume<'a> {
    match resumption {
        ExitResumption::At(addr) => Resume::At(addr),
        ExitResumption::Displaced { bytes, .. } => Resume::Original {
            addr: site.addr(),
            bytes,
        },
    }
}

/// A site with the handler of one of its exit stubs.
struct SiteExit {
    site: Site,
    handler: Handler,
}

impl ExitStubSite for SiteExit {
    fn site(&self) -> SiteContext<'_> {
        self.site.context(&[])
    }

    fn registered(&self) -> Option<&Site> {
        Some(&self.site)
    }

    fn unwind(&self) -> deopt::Result<Option<&UnwindInfo>> {
        unwinds::of_site(&self.site)
    }

    fn description(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.site.any_description()
    }

    fn handle<'f>(&self, frame: &mut Frame<'f>) -> Answer<'f> {
        (self.handler)(frame)
    }
}
