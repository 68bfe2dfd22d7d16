//! Every promise of a runtime's, once as a safe call, which must not compile, and once as an
//! `unsafe` one, which must.
//!
//! The table on the crate's front page says what is promised. Here each function of it comes with
//! the arguments that it takes, so that it cannot become safe unnoticed. Both examples are made of
//! the same text: the first can only fail for want of `unsafe`.

/// Both examples of each: what is at hand, and the call.
macro_rules! promises {
    ($($name:ident($($given:literal),*) $call:literal;)*) => { $(
        #[doc = concat!(
            "```compile_fail,E0133\n",
            "fn promise(", $($given, ", ",)* ") {\n    let _ = ", $call, ";\n}\n",
            "```\n\n```no_run\n",
            "fn promise(", $($given, ", ",)* ") {\n    let _ = unsafe { ", $call, " };\n}\n",
            "```\n",
        )]
        pub enum $name {}
    )* };
}

promises! {
    // Code: what it is, and what is said of it.
    AdoptionPromise("code: patchpoint::image::Adoption") "code.promise()";
    EngineRegister("engine: patchpoint::Engine", "code: patchpoint::engine::LoadedCode")
        "engine.register(code, |_| patchpoint::CallShape::c(32).args(6))";
    RegistrationRegister("code: patchpoint::engine::Registration<'_>")
        "code.trust_live_outs().unwind_by(patchpoint::site::UnwindBy::StackSizes).register(|_| None::<patchpoint::CallShape>)";
    RegistrationRegisterIds(
        "code: patchpoint::engine::Registration<'_>",
        "shapes: &std::collections::HashMap<patchpoint::addr::RecordId, patchpoint::CallShape>"
    ) "code.register_ids(shapes)";
    RegistrationFinish("code: patchpoint::engine::Registration<'_>", "site: patchpoint::site::SiteSpec")
        "code.site(site).finish()";

    // Addresses that code is to go to, and bytes that nobody can check.
    TargetAddr("to: patchpoint::addr::CodeAddr") "patchpoint::sequence::Target::addr(to)";
    SequenceCall("hit: patchpoint::sequence::Sequence", "to: patchpoint::addr::CodeAddr")
        "hit.call(to, patchpoint::arch::OnReturn::PreservesAll)";
    SequenceVouched("hit: patchpoint::sequence::Sequence") "hit.vouched(&[0x0f, 0x05], &[])";
    SequenceFromText("text: &str") "patchpoint::sequence::Sequence::from_text(text)";
    ActionCall("to: patchpoint::addr::CodeAddr")
        "patchpoint::ic::Action::call(to, patchpoint::arch::OnReturn::FollowsC)";
    EngineRedirect(
        "engine: patchpoint::Engine",
        "function: &patchpoint::site::Function",
        "to: patchpoint::addr::CodeAddr"
    ) "engine.redirect(function, to)";
    EngineRetarget("engine: patchpoint::Engine", "to: patchpoint::addr::CodeAddr") "engine.retarget(\"get\", to)";
    TransactionRedirect(
        "changes: &mut patchpoint::engine::Transaction<'_>",
        "function: &patchpoint::site::Function",
        "to: patchpoint::addr::CodeAddr"
    ) "changes.redirect(function, to)";
    TransactionRetarget("changes: &mut patchpoint::engine::Transaction<'_>", "to: patchpoint::addr::CodeAddr")
        "changes.retarget(\"get\", to)";

    // Handlers: how compiled code goes on.
    FrameContinueAt("frame: &patchpoint::deopt::Frame<'_>", "at: patchpoint::addr::CodeAddr") "frame.continue_at(at)";
    FrameContinueWithStack("frame: &patchpoint::deopt::Frame<'_>", "at: patchpoint::addr::CodeAddr")
        "frame.continue_with_stack(at, 0)";
    FrameSetRegister("frame: &mut patchpoint::deopt::Frame<'_>", "reg: patchpoint::addr::DwarfReg")
        "frame.set_register(reg, 0u64.into())";
    FrameSetFlags("frame: &mut patchpoint::deopt::Frame<'_>") "frame.set_flags(0)";
    ReplacementPush("frames: &mut patchpoint::deopt::Replacement<'_>", "next: patchpoint::addr::CodeAddr")
        "frames.push(next, 32)";
    ReplacementPushCompiled(
        "frames: &mut patchpoint::deopt::Replacement<'_>",
        "function: &patchpoint::site::Function",
        "next: patchpoint::addr::CodeAddr",
        "unwind: &patchpoint::deopt::UnwindInfo"
    ) "frames.push_compiled(function, next, unwind)";
    ReplacementCall("frames: patchpoint::deopt::Replacement<'_>", "function: patchpoint::addr::CodeAddr")
        "frames.call(function, &[])";
    ExitStubContextNew("site: std::sync::Arc<dyn patchpoint::deopt::ExitStubSite>")
        "patchpoint::deopt::ExitStubContext::new(patchpoint::engine::Role::Miss, site)";
    CFunctionNew("function: unsafe extern \"C\" fn(*mut std::ffi::c_void, *mut patchpoint::deopt::CCall)")
        "patchpoint::deopt::CFunction::new(function, std::ptr::null_mut())";

    // Memory: who writes it.
    CodeAreaWritable("area: &patchpoint::memory::CodeArea") "area.writable()";
    PlacedSegmentsWritable("placed: &patchpoint::memory::PlacedSegments") "placed.writable()";
    MemoryAdopt("range: patchpoint::addr::CodeRange")
        "patchpoint::memory::adopt(range, patchpoint::memory::StrategyChoice::Auto)";
    ToggleRegister("range: patchpoint::addr::CodeRange") "patchpoint::memory::Toggle::register(range)";
    ProcMemRegister("range: patchpoint::addr::CodeRange") "patchpoint::memory::ProcMem::register(range)";
    RemapRegister("range: patchpoint::addr::CodeRange") "patchpoint::memory::Remap::register(range)";

    // Code that is executed in a mirror.
    EngineBuilderMirrored("engine: patchpoint::engine::EngineBuilder", "by: patchpoint::engine::Mirroring") "engine.mirrored(by)";
    SavedFrameNew("words: [u64; 3]", "stack: patchpoint::addr::CodeRange")
        "patchpoint::engine::SavedFrame::new(words, stack)";
    ExitsCaptureBy("exits: &mut patchpoint::deopt::ExitStubs", "at: patchpoint::addr::CodeAddr")
        "patchpoint::engine::Exits::capture_by(exits, at)";

    // Threads: where they are.
    SingleThreadedPromise() "patchpoint::publish::SingleThreaded::promise()";
    StoppedPromise() "patchpoint::publish::Stopped::promise()";
    GracePeriodPromise() "patchpoint::publish::GracePeriod::promise()";
    AttachedPromise() "patchpoint::publish::Attached::promise()";
}

/// The same of what Linux alone has.
#[cfg(target_os = "linux")]
mod linux {
    promises! {
        SignalWorldNew() "patchpoint::publish::SignalWorld::new()";
        SignalWorldWithSignal() "patchpoint::publish::SignalWorld::with_signal(None)";
        TrapsSet("traps: &patchpoint::publish::trap::Traps", "at: patchpoint::addr::CodeAddr") "traps.set(at, at)";
    }
}

/// Code memory can be asked and read, but it is not handed out.
///
/// ```compile_fail,E0624
/// fn write(module: patchpoint::site::Module, at: patchpoint::addr::CodeAddr) {
///     let _ = module.areas()[0].memory().write(at, &[0xcc]);
/// }
/// ```
/// ```no_run
/// fn read(module: patchpoint::site::Module, at: patchpoint::addr::CodeAddr, into: &mut [u8]) {
///     let _ = module.areas()[0].read(at, into);
///     let _ = (module.areas()[0].strategy(), module.areas()[0].range());
/// }
/// ```
pub enum ModuleMemory {}

/// Nor is that of stubs.
///
/// ```compile_fail,E0624
/// fn write(pool: patchpoint::memory::StubPool, slot: patchpoint::memory::StubSlot) {
///     let _ = pool.fill(&slot, &[0xcc]);
/// }
/// ```
pub enum StubMemory {}

/// An address is not a target by itself.
///
/// ```compile_fail,E0277
/// fn jump(to: patchpoint::addr::CodeAddr) -> patchpoint::sequence::Sequence {
///     patchpoint::sequence::Sequence::new().jump(to)
/// }
/// ```
/// ```no_run
/// fn jump(to: patchpoint::addr::CodeAddr) -> patchpoint::sequence::Sequence {
///     patchpoint::sequence::Sequence::new().jump(unsafe { patchpoint::sequence::Target::addr(to) })
/// }
/// ```
pub enum AddressAsTarget {}

/// Who makes exit stubs makes code.
///
/// ```compile_fail,E0200
/// # use patchpoint::{Result, addr::Len, engine::{ExitCode, ExitRequest, ExitResumption, Exits, Role}, site::{ModuleId, Site}};
/// struct ExitStubs;
/// impl Exits for ExitStubs {
/// #   fn handles(&self, _: Role) -> bool { true }
/// #   fn bound(&self, _: &Site, _: Role, _: &ExitResumption<'_>) -> Result<Len> { Ok(Len::new(0)) }
/// #   fn encode(&self, _: &ExitRequest<'_>) -> Result<ExitCode> { todo!() }
/// #   fn check_leavable(&self, _: &Site) -> Result<()> { Ok(()) }
/// #   fn forget(&self, _: ModuleId) {}
/// }
/// ```
/// ```no_run
/// # use patchpoint::{Result, addr::Len, engine::{ExitCode, ExitRequest, ExitResumption, Exits, Role}, site::{ModuleId, Site}};
/// struct ExitStubs;
/// unsafe impl Exits for ExitStubs {
/// #   fn handles(&self, _: Role) -> bool { true }
/// #   fn bound(&self, _: &Site, _: Role, _: &ExitResumption<'_>) -> Result<Len> { Ok(Len::new(0)) }
/// #   fn encode(&self, _: &ExitRequest<'_>) -> Result<ExitCode> { todo!() }
/// #   fn check_leavable(&self, _: &Site) -> Result<()> { Ok(()) }
/// #   fn forget(&self, _: ModuleId) {}
/// }
/// ```
pub enum OwnExits {}
