//! The way in.

use patchpoint_isa::{Declared, SiteContext};

use super::chunk::Chunk;
use super::dispatch::isa;
use super::policy::Policy;
use super::walk::{self, Checked};
use crate::error::Result;

/// Checks that `code`, in the place of the site's reserved bytes, and its stubs keep every rule of
/// this [crate](crate).
///
/// ```
/// use llvm_stackmaps::Constants;
/// use llvm_stackmaps::addr::{CodeAddr, RecordId};
/// use patchpoint_isa::{Arch, CallShape, Declared, SiteContext};
/// use patchpoint_verify::{Error, check};
///
/// let site = SiteContext {
///     arch: Arch::X86_64,
///     id: RecordId::new(7),
///     function: Some("get"),
///     offset: Default::default(),
///     addr: CodeAddr::new(0x1000),
///     shape: CallShape::entry(5),
///     record: None,
///     constants: Constants::NONE,
///     return_offsets: &[],
///     trust_live_outs: false,
/// };
/// // mov r11, rdi; xchg ax, ax
/// check(&site, &[0x49, 0x89, 0xfb, 0x66, 0x90], &[], &Declared::default())?;
/// // mov rbx, rdi: the caller of the function needs rbx.
/// let refused = check(&site, &[0x48, 0x89, 0xfb, 0x66, 0x90], &[], &Declared::default());
/// assert!(matches!(refused, Err(Error::Clobber { register: "rbx", .. })));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
///
/// The first rule that is broken, as an [`Error`](crate::Error) with the site, the instruction
/// and how to mend it.
pub fn check(
    site: &SiteContext<'_>,
    code: &[u8],
    stubs: &[Chunk<'_>],
    declared: &Declared,
) -> Result<Checked> {
    let isa = isa(site.arch);
    let policy = Policy::of(site, isa, declared)?;
    walk::walk(site, isa, &policy, Some(code), stubs, declared)
}

/// Checks the stub of a live site, whose own bytes go there by a gate that is
/// [admitted](crate::GateTemplate::goes_to), and changes nothing before. What is accepted here is accepted
/// by [`check`] together with such a site.
///
/// # Errors
/// As [`check`]; besides where the stub goes into the site, or that has return offsets to keep: then
/// `check` has to be asked.
pub fn check_stub(site: &SiteContext<'_>, stub: Chunk<'_>, declared: &Declared) -> Result<Checked> {
    let isa = isa(site.arch);
    let policy = Policy::of(site, isa, declared)?;
    walk::walk(site, isa, &policy, None, &[stub], declared)
}
