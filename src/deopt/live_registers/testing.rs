//! For the tests of the architectures: the exit stub that a site has.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::LiveRegistersContext;
use crate::addr::CodeAddr;
use crate::arch::SiteKind;
use crate::deopt::{ExitStubContext, ExitStubSite, Resume, encode, max_len};
use crate::engine::Role;
use crate::stackmap::Record;
use crate::stackmap::testing::{RecordSpec, map};

/// The exit stub of a site at `at`: a live-register one at a patchpoint, else one that saves
/// everything. Its context stays until the process ends.
///
/// # Safety
/// The site describes itself truly.
pub(in crate::deopt) unsafe fn exit_stub(
    site: Arc<dyn ExitStubSite>,
    at: CodeAddr,
    resume: Resume<'_>,
) -> Vec<u8> {
    let arch = site.site().arch;
    let (bytes, max) = match site.site().shape.kind() {
        SiteKind::Patchpoint => {
            let max = super::max_len(&site.site()).unwrap();
            // SAFETY: as the caller promises.
            let context = unsafe { LiveRegistersContext::new(site) };
            (Box::leak(context.unwrap()).encode(at), max.unwrap())
        }
        _ => {
            // SAFETY: as the caller promises.
            let context = unsafe { ExitStubContext::new(Role::Deopt, site) };
            let context = Box::leak(context.unwrap());
            (encode(at, context, resume), max_len(arch, &resume))
        }
    };
    let bytes = bytes.unwrap();
    assert!(bytes.len() <= max.as_usize(), "{} > {max}", bytes.len());
    bytes
}

/// A record that stays.
pub(in crate::deopt) fn leak(spec: RecordSpec) -> Record<'static> {
    map().function(0x1000, 24, [spec]).leak().0
}
