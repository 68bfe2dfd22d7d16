//! The audit without an engine: of code for any architecture, on any host, all of it and not up to
//! the first fault.

use std::fmt;
use std::sync::Arc;

use super::audit::{Refusal, Unrecorded, register_or};
use super::candidate::{Candidate, IntoShape};
use super::details::ModuleParts;
use super::functions::Functions;
use super::marked::Marks;
use super::module::{Module, ModuleId};
use super::owner::Owner;
use super::unwind_by::UnwindBy;
use crate::image::{Image, Segment, SegmentKind};
use crate::memory::{CodeArea, CodeMemory, Snapshot};
use crate::site::Result;
use crate::stackmap::OwnedMaps;

/// What [`survey`] has found.
pub struct Survey {
    /// The sites that would be registered. No engine knows the module, and its code is in no
    /// memory: its sites can be assembled for and looked at, and nothing of it can be called or
    /// patched.
    pub module: Module,
    /// Everything for which a registration would be refused, in the order in which it was found.
    pub refused: Vec<Refusal>,
}

impl fmt::Debug for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Survey")
            .field("module", &self.module)
            .field("refused", &self.refused)
            .finish()
    }
}

/// Audits linked code as [`Engine::register`](crate::Engine::register) does, but goes on where that
/// would stop.
///
/// ```
/// # fn main() -> patchpoint::Result<()> {
/// # let bytes: &[u8] = include_bytes!("../../examples/objects/inline_cache.riscv64.o");
/// use patchpoint::CallShape;
/// use patchpoint::addr::{CodeAddr, Len};
/// use patchpoint::image::Object;
/// use patchpoint::site::survey;
///
/// let layout = Object::parse(bytes)?.layout()?;
/// let (addrs, _) = layout.contiguous(CodeAddr::new(0x1000_0000), Len::new(4096)).unwrap();
/// let linked = layout.link(&addrs, &|_symbol| None)?;
/// let survey = survey(linked.image, linked.segments, |_| CallShape::any_reg(2048).result().args(1))?;
/// assert_eq!(survey.module.sites().count(), 0);
/// // patchpoint 78 at get+0x4 reserves too many bytes, and so on
/// assert!(survey.refused.iter().all(|refusal| refusal.site.is_some()));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The stack map cannot be read, or the code does not lie in the segments.
pub fn survey<S: IntoShape>(
    image: Image,
    segments: Vec<Segment>,
    shape: impl FnMut(&Candidate<'_>) -> S,
) -> Result<Survey> {
    survey_with(image, segments, &[], shape)
}

/// The same with the instructions that PC sections mark.
///
/// # Errors
/// As [`survey`]. What is wrong with a mark is no error, but among what is refused.
pub fn survey_with<S: IntoShape>(
    image: Image,
    segments: Vec<Segment>,
    marks: &[Marks],
    mut shape: impl FnMut(&Candidate<'_>) -> S,
) -> Result<Survey> {
    let parts = parts(&image, segments)?;
    let mut refused = Vec::new();
    let unrecorded = Unrecorded {
        marks,
        code_tables: &image.code_tables,
        ..Unrecorded::default()
    };
    let mut shape = |record: &Candidate<'_>| shape(record).into_shape();
    let new = register_or(parts, &unrecorded, &mut shape, &mut |refusal| {
        refused.push(refusal);
        Ok(())
    })?;
    Ok(Survey {
        module: new.module,
        refused,
    })
}

/// A module's parts without an engine.
pub(super) fn parts(image: &Image, segments: Vec<Segment>) -> Result<ModuleParts> {
    let memories: Vec<Arc<dyn CodeMemory>> = segments
        .into_iter()
        .filter(|segment| segment.kind == SegmentKind::Code)
        .filter_map(|segment| Snapshot::new(segment.addr, segment.bytes))
        .map(|snapshot| Arc::new(snapshot) as _)
        .collect();
    let areas = image.code.iter().map(|range| {
        let holds = |memory: &&Arc<dyn CodeMemory>| memory.range().contains(range.start());
        let memory = memories.iter().find(holds);
        let memory = memory.ok_or_else(|| crate::memory::Error::OutsideMemory {
            at: range.start(),
            len: range.len(),
            memory: Default::default(),
        })?;
        CodeArea::new(*range, memory)
    });
    let areas = areas.collect::<crate::memory::Result<_>>()?;
    Ok(ModuleParts {
        id: ModuleId(u32::MAX),
        arch: image.arch,
        windows: image.windows,
        maps: OwnedMaps::new(image.stack_maps.clone(), image.endian)?,
        functions: Functions::new(&image.functions)?,
        areas,
        eh_frames: image.eh_frames.clone().into(),
        unwind_by: UnwindBy::EhFrame,
        trust_live_outs: false,
        may_have_run: false,
        live: false,
        owner: Owner::nobody(),
        _placed: None,
    })
}
