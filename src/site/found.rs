//! The sites that the audits of a registration have found, up to the last looks at all of them
//! together: that none overlap, that no branch goes into one, that exits save what is live there.
//!
//! Problem: most sites of a module are alike, and there may be a million of them. Approach: what
//! they have in common is audited and kept once: shapes, and the bytes of patchpoints, which are
//! LLVM's call and nops and mean the same wherever they are.

use core::ops::Range;
use std::collections::HashMap;

use super::audit::Refusal;
use super::branches;
use super::code::FunctionCode;
use super::details::ModuleParts;
use super::functions::FunctionView;
use super::kept::RecordedBy;
use super::module::Module;
use super::scalable::ScalableVectors;
use crate::addr::{CodeAddr, FnOffset, Len, RecordId};
use crate::arch::{Arch, CallShape, SiteKind};
use crate::error::SiteName;
use crate::image;
use crate::site::{Error, Result};
use crate::stackmap::RecordRef;

/// One site that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct SiteEntry {
    pub(super) id: RecordId,
    pub(super) addr: CodeAddr,
    pub(super) recorded: RecordedBy,
    /// Where its record is, if it has one.
    pub(super) record: u32,
    pub(super) function: u32,
    pub(super) shape: u16,
    /// Kind and reserved length are those of the shape, for who goes through all sites.
    pub(super) kind: SiteKind,
    pub(super) reserved: Len,
    /// How many bytes the last instruction of a shadow extends beyond it.
    pub(super) overhang: u8,
    /// Where its bytes start among those of the module's sites.
    pub(super) original: u32,
}

impl SiteEntry {
    /// A site whose shape is yet to be numbered, and whose bytes are yet to be kept.
    pub(super) fn new(
        id: RecordId,
        addr: CodeAddr,
        record: Option<RecordRef>,
        function: u32,
        overhang: u8,
    ) -> Self {
        Self {
            id,
            addr,
            recorded: record.map_or(RecordedBy::Nobody, |_| RecordedBy::StackMap),
            record: record.map_or(0, RecordRef::offset),
            function,
            shape: 0,
            kind: SiteKind::Entry,
            reserved: Len::default(),
            overhang,
            original: 0,
        }
    }

    /// The same, with a record that was made of what was told.
    pub(super) fn told(self) -> Self {
        Self {
            recorded: RecordedBy::Runtime,
            ..self
        }
    }

    /// The addresses of its reserved bytes.
    pub(super) fn bytes(&self) -> Range<u64> {
        let start = self.addr.get();
        start..start.saturating_add(self.reserved.get().into())
    }
}

/// A module that no table has yet, with its sites as they were found. What a table needs of them is
/// at hand there; of the module it would be gathered from all over the stack maps.
pub(crate) struct NewModule {
    pub(crate) module: Module,
    /// In ascending address.
    pub(super) sites: Vec<SiteEntry>,
}

/// What a site holds.
pub(super) struct AuditedBytes<'a> {
    /// The reserved bytes, and of a shadow the rest of the last instruction.
    pub(super) all: &'a [u8],
    /// Where the same bytes are kept, if they are those of an earlier patchpoint.
    pub(super) kept: Option<u32>,
}

/// The sites found so far.
#[derive(Default)]
pub(super) struct FoundSites {
    sites: Vec<SiteEntry>,
    /// The bytes of one site after the other.
    originals: Vec<u8>,
    shapes: Vec<CallShape>,
    numbers: HashMap<CallShape, u16>,
    last_shape: Option<(CallShape, u16)>,
    /// Where patchpoints' bytes are that were audited: LLVM's call and nops, which mean the same
    /// wherever they are.
    patchpoints: HashMap<Vec<u8>, u32>,
    last_patchpoint: Option<(u32, u32)>,
}

/// What has been found, when nothing more is to come.
pub(super) struct AllSites {
    pub(super) shapes: Vec<CallShape>,
    /// In ascending address; none overlap.
    pub(super) sites: Vec<SiteEntry>,
    /// What they hold.
    pub(super) originals: Vec<u8>,
}

impl FoundSites {
    /// Makes room for so many more.
    pub(super) fn reserve(&mut self, more: usize) {
        self.sites.reserve(more);
    }

    /// Adds a site without a record of LLVM's, that holds these bytes.
    pub(super) fn push(&mut self, site: SiteEntry, shape: CallShape, bytes: &[u8]) -> Result<()> {
        let all = bytes;
        self.push_audited(site, &shape, AuditedBytes { all, kept: None })
    }

    /// Adds a site that holds these bytes.
    pub(super) fn push_audited(
        &mut self,
        site: SiteEntry,
        shape: &CallShape,
        bytes: AuditedBytes<'_>,
    ) -> Result<()> {
        let original = match bytes.kept {
            Some(original) => original,
            None => self.keep(bytes.all, shape.kind() == SiteKind::Patchpoint)?,
        };
        let number = self.number(shape)?;
        self.sites.push(SiteEntry {
            shape: number,
            kind: shape.kind(),
            reserved: shape.reserved(),
            original,
            ..site
        });
        Ok(())
    }

    /// Where the same bytes are, if they have been audited as a patchpoint's: what is found about
    /// them does not depend on their address.
    pub(super) fn audited(&self, bytes: &[u8]) -> Option<u32> {
        // Mostly those of the last one.
        if let Some((start, end)) = self.last_patchpoint {
            if self.originals.get(start as usize..end as usize) == Some(bytes) {
                return Some(start);
            }
        }
        self.patchpoints.get(bytes).copied()
    }

    fn keep(&mut self, bytes: &[u8], patchpoint: bool) -> Result<u32> {
        let len = |originals: &[u8]| {
            u32::try_from(originals.len()).map_err(|_| image::Error::ImageTooLarge {
                size: originals.len() as u64,
                limit: u32::MAX.into(),
            })
        };
        let start = len(&self.originals)?;
        self.originals.extend_from_slice(bytes);
        if patchpoint {
            self.last_patchpoint = Some((start, len(&self.originals)?));
            self.patchpoints.insert(bytes.into(), start);
        }
        Ok(start)
    }

    fn number(&mut self, shape: &CallShape) -> Result<u16> {
        match &self.last_shape {
            Some((last, number)) if last == shape => Ok(*number),
            _ => {
                let number = self.any_number(*shape)?;
                self.last_shape = Some((*shape, number));
                Ok(number)
            }
        }
    }

    fn any_number(&mut self, shape: CallShape) -> Result<u16> {
        if let Some(number) = self.numbers.get(&shape) {
            return Ok(*number);
        }
        let number = u16::try_from(self.shapes.len()).map_err(|_| Error::TooManyShapes {
            limit: u16::MAX.into(),
        })?;
        self.shapes.push(shape);
        self.numbers.insert(shape, number);
        Ok(number)
    }

    /// The sites in ascending address, none of which overlap: one that an earlier one reaches into
    /// is left out, as is one that a branch goes into.
    pub(super) fn finish(
        mut self,
        parts: &ModuleParts,
        code: &FunctionCode<'_>,
        refused: &mut impl FnMut(Refusal) -> Result<()>,
    ) -> Result<AllSites> {
        // LLVM lists records as it lays out their code: mostly that is so already, and one look at
        // the sites tells it, which are more than fit into a cache.
        let are_apart = self.sites.is_sorted_by(ends_before);
        if !are_apart {
            self.sites.sort_by_key(|site| site.addr);
        }
        self.refuse_scalable_vectors(parts, code, refused)?;
        self.refuse_branches_into(parts, refused)?;
        if !are_apart {
            self.refuse_overlaps(parts, refused)?;
        }
        Ok(AllSites {
            shapes: self.shapes,
            sites: self.sites,
            originals: self.originals,
        })
    }

    /// Leaves out the sites into which an earlier one reaches.
    fn refuse_overlaps(
        &mut self,
        parts: &ModuleParts,
        refused: &mut impl FnMut(Refusal) -> Result<()>,
    ) -> Result<()> {
        let mut last: Option<SiteEntry> = None;
        let mut failed = Ok(());
        self.sites.retain(|next| {
            // protection: sites-do-not-overlap
            let Some(site) = last.filter(|site| !ends_before(site, next)) else {
                last = Some(*next);
                return true;
            };
            let other = entry_name(parts, next);
            let refusal = Refusal {
                site: Some(other.clone()),
                error: Error::SitesOverlap {
                    site: entry_name(parts, &site),
                    reserved: site.reserved,
                    other,
                },
            };
            if failed.is_ok() {
                failed = refused(refusal);
            }
            false
        });
        failed
    }

    /// Leaves out the sites of which no record tells what is live, in functions with vectors that
    /// no exit saves.
    fn refuse_scalable_vectors(
        &mut self,
        parts: &ModuleParts,
        code: &FunctionCode<'_>,
        refused: &mut impl FnMut(Refusal) -> Result<()>,
    ) -> Result<()> {
        if !matches!(parts.arch, Arch::AArch64 | Arch::RiscV64) {
            return Ok(());
        }
        let mut failed = Ok(());
        let mut vectors = ScalableVectors::default();
        self.sites.retain(|site| {
            let kind = site.kind;
            // Where a patchpoint or a call is, no such register is live: every call loses them.
            if matches!(kind, SiteKind::Patchpoint | SiteKind::Call) || failed.is_err() {
                return true;
            }
            let function = function_of(parts, site);
            let found = match vectors.first_in(parts.arch, code, &function) {
                Ok(found) => found,
                Err(error) => {
                    failed = Err(error);
                    return true;
                }
            };
            // protection: scalable-vectors-are-refused
            let Some(at) = found else {
                return true;
            };
            let site = Box::new(SiteName {
                kind: Some(kind),
                ..*entry_name(parts, site)
            });
            failed = refused(Refusal {
                site: Some(site.clone()),
                error: Error::ScalableVectors { site, at },
            });
            false
        });
        failed
    }

    /// Leaves out the sites into which a branch goes behind their first byte.
    fn refuse_branches_into(
        &mut self,
        parts: &ModuleParts,
        refused: &mut impl FnMut(Refusal) -> Result<()>,
    ) -> Result<()> {
        let found = branches::into_sites(parts, &self.sites);
        if found.is_empty() {
            return Ok(());
        }
        let mut failed = Ok(());
        self.sites.retain(|site| {
            let branch = branches::first_into(&found, &site.bytes());
            let Some(branch) = branch.filter(|_| failed.is_ok()) else {
                return branch.is_none();
            };
            let site = Box::new(SiteName {
                kind: Some(site.kind),
                ..*entry_name(parts, site)
            });
            failed = refused(Refusal {
                site: Some(site.clone()),
                error: Error::BranchIntoSite {
                    site,
                    from: branch.from,
                    to: branch.to,
                },
            });
            false
        });
        failed
    }
}

/// Whether a site ends where the next one starts, or before.
fn ends_before(site: &SiteEntry, next: &SiteEntry) -> bool {
    let distance = next.addr.get().checked_sub(site.addr.get());
    distance.is_some_and(|distance| distance >= site.reserved.get().into())
}

fn function_of<'p>(parts: &'p ModuleParts, site: &SiteEntry) -> FunctionView<'p> {
    let function = parts.functions.get(site.function);
    function.expect("a site was found in one of the module's functions")
}

fn entry_name(parts: &ModuleParts, site: &SiteEntry) -> Box<SiteName> {
    let FunctionView {
        name, addr: start, ..
    } = function_of(parts, site);
    let offset = u32::try_from(site.addr.distance_from(start));
    let offset = offset.expect("a site was found in its function");
    Box::new(SiteName {
        kind: None,
        id: site.id,
        function: Some(name.into()),
        offset: FnOffset::new(offset),
        addr: site.addr,
    })
}
