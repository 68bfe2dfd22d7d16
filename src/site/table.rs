//! The table of all sites of an engine: by ID, by address, by module.

use std::collections::{BTreeMap, HashMap};

use super::module::{Module, ModuleId, Site, SiteKey};
use crate::addr::{CodeAddr, CodeRange, RecordId};
use crate::error::{Error, Result};
use crate::memory::CodeArea;

/// Every registered module, found by its address ranges, and every site by its ID.
#[derive(Default)]
pub(crate) struct SiteTable {
    modules: HashMap<ModuleId, Module>,
    /// Code ranges by their start, with their module; they do not overlap.
    ranges: BTreeMap<CodeAddr, (CodeRange, ModuleId)>,
    by_id: HashMap<RecordId, Vec<SiteKey>>,
}

impl SiteTable {
    /// Adds a module.
    ///
    /// # Errors
    /// [`Error::CodeAlreadyRegistered`]: one of its code ranges belongs to a module already.
    pub(crate) fn insert(&mut self, module: Module) -> Result<()> {
        let code = || module.areas().iter().map(CodeArea::range);
        for range in code() {
            if let Some(other) = self.overlapping(range) {
                return Err(Error::CodeAlreadyRegistered { range, other });
            }
        }
        for range in code() {
            self.ranges.insert(range.start(), (range, module.id()));
        }
        for site in module.sites() {
            self.by_id.entry(site.id()).or_default().push(site.key());
        }
        self.modules.insert(module.id(), module);
        Ok(())
    }

    /// Takes a module out, if it is the one that is registered under its ID.
    pub(crate) fn remove(&mut self, module: &Module) -> Option<Module> {
        let id = module.id();
        self.modules.get(&id).filter(|known| known.is_same(module))?;
        let module = self.modules.remove(&id)?;
        for area in module.areas() {
            self.ranges.remove(&area.range().start());
        }
        for site in module.sites() {
            if let Some(keys) = self.by_id.get_mut(&site.id()) {
                keys.retain(|key| key.module != id);
                if keys.is_empty() {
                    self.by_id.remove(&site.id());
                }
            }
        }
        Some(module)
    }

    fn overlapping(&self, range: CodeRange) -> Option<CodeRange> {
        let (_, (other, _)) = self.ranges.range(..range.end()).next_back()?;
        other.overlaps(range).then_some(*other)
    }

    /// The sites with that ID, in order of registration.
    pub(crate) fn by_id(&self, id: RecordId) -> impl Iterator<Item = Site> + '_ {
        self.by_id
            .get(&id)
            .into_iter()
            .flatten()
            .filter_map(|key| self.get(*key))
    }

    /// The site that contains `addr`.
    pub(crate) fn by_addr(&self, addr: CodeAddr) -> Option<Site> {
        self.module_at(addr)?.site_at(addr)
    }

    /// The module whose code contains `addr`.
    pub(crate) fn module_at(&self, addr: CodeAddr) -> Option<&Module> {
        let (_, (range, id)) = self.ranges.range(..=addr).next_back()?;
        self.modules.get(id).filter(|_| range.contains(addr))
    }

    /// The site of that key.
    pub(crate) fn get(&self, key: SiteKey) -> Option<Site> {
        self.modules.get(&key.module)?.site(key.index)
    }

    /// All modules.
    pub(crate) fn modules(&self) -> impl Iterator<Item = &Module> {
        self.modules.values()
    }
}
