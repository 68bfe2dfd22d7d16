//! Call sites: calls of compiled code to functions, recorded while it was linked.

use std::collections::BTreeMap;

use super::details::ModuleParts;
use super::found::{FoundSites, SiteEntry};
use crate::addr::{CodeAddr, FnOffset, Len, RecordId};
use crate::arch::{Arch, CallShape, SiteKind, calls};
use crate::error::SiteName;
use crate::image::RecordedCall;
use crate::memory::CodeArea;
use crate::site::{Error, Result};
use patchpoint_link::stubs;

/// A call that is to be a site, under an ID of the runtime's choice.
pub(crate) struct CallSpec {
    pub(crate) id: RecordId,
    pub(crate) call: RecordedCall,
}

/// The addresses of a module's calls, by the function that they called when they were linked:
/// ascending by its name, and of one function in the order in which they were told.
#[derive(Default)]
pub(crate) struct Callees(Box<[(Box<str>, Vec<CodeAddr>)]>);

impl Callees {
    pub(super) fn new(calls: &[CallSpec]) -> Self {
        let mut callees: BTreeMap<&str, Vec<CodeAddr>> = BTreeMap::new();
        for CallSpec { call, .. } in calls {
            callees.entry(&call.callee).or_default().push(call.addr);
        }
        let owned = callees.into_iter().map(|(name, calls)| (name.into(), calls));
        Self(owned.collect())
    }

    pub(super) fn calls_of(&self, function: &str) -> &[CodeAddr] {
        let found = self.0.binary_search_by(|(name, _)| (**name).cmp(function));
        let found = found.ok().and_then(|at| self.0.get(at));
        found.map_or(&[], |(_, calls)| calls)
    }
}

/// Whether the last instruction, of RISC-V, links through ra, or not at all.
fn links_as_usual(bytes: &[u8]) -> bool {
    let last = bytes.last_chunk().map_or(0, |word| u32::from_le_bytes(*word));
    // protection: call-sites-link-as-usual
    matches!(last >> 7 & 31, 0 | 1)
}

/// Whether a call may go to a function with any TOC pointer: where there are such, the caller
/// restores its own behind the call. A jump does not come back to that.
fn leaves(arch: Arch, area: &CodeArea, addr: CodeAddr, bytes: &[u8]) -> bool {
    let Some(restore) = stubs::restore_behind_leaving(arch) else {
        return true;
    };
    let mut next = [0; 4];
    let behind = addr.plus(Len::new(bytes.len() as u32));
    let read = behind.is_some_and(|behind| area.memory().read(behind, &mut next).is_ok());
    // protection: toc-restored-behind-a-call
    read && next == restore && calls::links(arch, bytes)
}

/// A call becomes a site if it is in a function, and has a target.
pub(super) fn audit(parts: &ModuleParts, spec: &CallSpec, found: &mut FoundSites) -> Result<()> {
    let RecordedCall { callee, addr, len } = &spec.call;
    let index = parts.functions.containing(*addr);
    let outside = || Error::CallOutsideFunctions {
        callee: callee.clone(),
        at: *addr,
    };
    let (index, function) = index
        .and_then(|index| Some((index, parts.functions.get(index)?)))
        // protection: call-sites-are-in-functions
        .ok_or_else(outside)?;
    let area = CodeArea::containing(&parts.areas, *addr).ok_or_else(outside)?;
    let mut bytes = vec![0; len.as_usize()];
    area.memory().read(*addr, &mut bytes)?;
    let fixed = |why| Error::CallFixed {
        site: Box::new(SiteName {
            kind: Some(SiteKind::Call),
            id: spec.id,
            function: Some(function.name.into()),
            offset: FnOffset::new(
                u32::try_from(addr.distance_from(function.addr)).expect("the function contains the call"),
            ),
            addr: *addr,
        }),
        why,
    };
    if !leaves(parts.arch, area, *addr, &bytes) {
        return Err(fixed(
            "it does not restore the TOC pointer behind it, as calls do that leave the objects linked together: give the \
             function an entry site, and redirect that",
        ));
    }
    if parts.arch == Arch::RiscV64 && !links_as_usual(&bytes) {
        return Err(fixed(
            "it links through another register than ra, which stubs may use",
        ));
    }
    if calls::target(parts.arch, *addr, &bytes).is_none() {
        return Err(fixed("its bytes are no call"));
    }
    found.push(
        SiteEntry::new(spec.id, *addr, None, index, 0),
        CallShape::call(len.get()),
        &bytes,
    )
}

/// Modules with calls, of any architecture, in memory that is not executed.
#[cfg(test)]
pub(crate) mod testing {
    use std::sync::Arc;

    use super::super::{Functions, Module, ModuleId, ModuleParts, Owner, Unrecorded, UnwindBy, register};
    use super::*;
    use crate::addr::CodeRange;
    use crate::image::FunctionRange;
    use crate::memory::{CodeMemory, Snapshot};
    use crate::stackmap::OwnedMaps;

    /// Where the code starts.
    pub(crate) const START: u64 = 0x1000_0000;

    /// A function of 64 bytes, the code of which is given from its start, and calls in it at these
    /// offsets.
    pub(crate) fn module(arch: Arch, code: &[u8], calls: &[(u32, usize)]) -> Result<Module> {
        let addr = CodeAddr::new(START);
        let mut bytes = vec![0; 128];
        bytes[..code.len()].copy_from_slice(code);
        let memory: Arc<dyn CodeMemory> = Arc::new(Snapshot::new(addr, bytes).unwrap());
        let function = FunctionRange {
            name: "f".into(),
            addr,
            len: Len::new(64),
            pointer: addr,
        };
        let parts = ModuleParts {
            id: ModuleId(0),
            arch,
            windows: false,
            functions: Functions::new(&[function])?,
            maps: OwnedMaps::new(Vec::new(), arch.endian())?,
            areas: [CodeArea::new(CodeRange::new(addr, 128).unwrap(), &memory)?].into(),
            eh_frames: Box::default(),
            unwind_by: UnwindBy::EhFrame,
            trust_live_outs: false,
            may_have_run: false,
            live: true,
            owner: Owner::nobody(),
            _placed: None,
        };
        let spec = |(offset, len): &(u32, usize)| CallSpec {
            id: RecordId::new(7),
            call: RecordedCall {
                callee: "g".into(),
                addr: addr.plus(Len::new(*offset)).unwrap(),
                len: Len::new(*len as u32),
            },
        };
        let calls: Vec<CallSpec> = calls.iter().map(spec).collect();
        let unrecorded = Unrecorded {
            calls: &calls,
            ..Unrecorded::default()
        };
        Ok(register(parts, &unrecorded, &mut |_| Ok(None))?.module)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::module;
    use super::*;

    /// call +5
    const CALL: [u8; 5] = [0xe8, 0, 0, 0, 0];

    #[test]
    fn calls_are_found_by_their_callee() {
        let code = [&CALL[..], &CALL, &CALL].concat();
        let module = module(Arch::X86_64, &code, &[(0, 5), (10, 5)]).unwrap();
        let calls: Vec<_> = module.calls_of("g").collect();
        let of = |site: &crate::site::Site| (site.offset().get(), site.reserved().get(), site.id().get());
        assert_eq!(calls.iter().map(of).collect::<Vec<_>>(), [(0, 5, 7), (10, 5, 7)]);
        assert_eq!(module.calls_of("h").count(), 0);
        // The distance of the first is in one quadword, that of the other is not.
        let patchable_jumps = [
            calls[0].patchable_jump().unwrap(),
            calls[1].patchable_jump().unwrap(),
        ];
        assert_eq!(
            patchable_jumps.map(|patchable_jump| (patchable_jump.start().get() & 63, patchable_jump.len())),
            [(1, 4), (11, 4)]
        );
    }

    #[test]
    fn what_cannot_be_a_call_site_is_refused() {
        let outside = module(Arch::X86_64, &CALL, &[(64, 5)]).unwrap_err();
        assert!(matches!(outside, Error::CallOutsideFunctions { .. }), "{outside}");
        let overlapping = [0xe8, 0x20, 0, 0, 0];
        let overlap = module(Arch::X86_64, &overlapping, &[(0, 5), (3, 5)]).unwrap_err();
        assert!(matches!(overlap, Error::SitesOverlap { .. }), "{overlap}");
        // auipc t0 and jalr t0, of a millicode routine.
        let millicode = [0x97, 0x02, 0, 0, 0xe7, 0x82, 0x02, 0x10];
        // bl and nop; b and ld r2,24(r1).
        let (local, jump) = (
            [0xbd, 0x0a, 0, 0x48, 0, 0, 0, 0x60],
            [0xbc, 0x0a, 0, 0x48, 0x18, 0, 0x41, 0xe8],
        );
        for (arch, code, len) in [
            (Arch::PowerPc64Le, &local[..], 4),
            (Arch::PowerPc64Le, &jump, 4),
            (Arch::PowerPc64ElfV2, &[0x48, 0, 0x0a, 0xbd, 0x60, 0, 0, 0], 4),
            (
                Arch::PowerPc64ElfV2,
                &[0x48, 0, 0x0a, 0xbc, 0xe8, 0x41, 0, 0x18],
                4,
            ),
            // It restores the slot of the other convention.
            (
                Arch::PowerPc64ElfV2,
                &[0x48, 0, 0x0a, 0xbd, 0xe8, 0x41, 0, 0x28],
                4,
            ),
            (Arch::RiscV64, &millicode, 8),
            (Arch::AArch64, &[0; 2], 2),
        ] {
            let fixed = module(arch, code, &[(0, len)]).unwrap_err();
            assert!(matches!(fixed, Error::CallFixed { .. }), "{arch}: {fixed}");
        }
        // bl and ld r2,24(r1): the caller restores its TOC pointer.
        let leaves = [0xbd, 0x0a, 0, 0x48, 0x18, 0, 0x41, 0xe8];
        let big = [0x48, 0, 0x0a, 0xbd, 0xe8, 0x41, 0, 0x18];
        for (arch, leaves) in [(Arch::PowerPc64Le, leaves), (Arch::PowerPc64ElfV2, big)] {
            let module = module(arch, &leaves, &[(0, 4)]).unwrap();
            assert_eq!(module.calls_of("g").count(), 1, "{arch}");
        }
    }
}
