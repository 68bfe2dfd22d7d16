//! The table of all sites of an engine: by ID, by address, by module.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher};

use super::module::{Module, ModuleId, Site, SiteKey};
use crate::addr::{CodeAddr, CodeRange, RecordId};
use crate::error::{Error, Result};
use crate::memory::CodeArea;

/// Every registered module, found by its address ranges, and every site by its ID.
///
/// A lookup waits for memory a few times and does little else, so what it needs stands together: modules beside their
/// ranges, and the one site of an ID beside the ID.
#[derive(Default)]
pub(crate) struct SiteTable {
    modules: HashMap<ModuleId, Module, Numbers>,
    /// Code ranges by their start, with their module; they do not overlap.
    ranges: BTreeMap<CodeAddr, (CodeRange, Module)>,
    by_id: HashMap<RecordId, Holder, Numbers>,
    /// The sites of an ID that has several, in order of registration. Those of an ID that has lost them are empty.
    shared: Vec<Vec<SiteKey>>,
    /// Which of those are empty.
    unused: Vec<u32>,
}

/// Who has an ID: a site, or several. It is as small as a key, as there is one for each site.
#[derive(Clone, Copy)]
struct Holder(SiteKey);

impl Holder {
    /// No module has this number.
    const SEVERAL: ModuleId = ModuleId(u32::MAX);

    const fn several(list: u32) -> Self {
        Self(SiteKey {
            module: Self::SEVERAL,
            index: list,
        })
    }

    /// The one site, or the number of the list of several.
    fn get(self) -> core::result::Result<SiteKey, usize> {
        match self.0.module == Self::SEVERAL {
            true => Err(self.0.index as usize),
            false => Ok(self.0),
        }
    }
}

/// Hashes one number, with a secret: IDs are the runtime's, but what it compiles may choose them.
#[derive(Clone)]
struct Numbers {
    secret: u64,
}

impl Default for Numbers {
    fn default() -> Self {
        let secret = RandomState::new().hash_one(0);
        Self { secret }
    }
}

impl BuildHasher for Numbers {
    type Hasher = NumberHasher;

    fn build_hasher(&self) -> NumberHasher {
        NumberHasher(self.secret)
    }
}

struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // Both halves of the product: its upper bits depend on all bits of the number, its lower ones on the lower.
        let product = u128::from(self.0 ^ number) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
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
            self.ranges.insert(range.start(), (range, module.clone()));
        }
        for (id, key) in module.ids() {
            self.add(id, key);
        }
        self.modules.insert(module.id(), module);
        Ok(())
    }

    fn add(&mut self, id: RecordId, key: SiteKey) {
        let Some(holder) = self.by_id.get_mut(&id) else {
            self.by_id.insert(id, Holder(key));
            return;
        };
        match holder.get() {
            Err(list) => self.shared.get_mut(list).into_iter().for_each(|l| l.push(key)),
            Ok(first) => {
                let list = self.unused.pop().unwrap_or_else(|| {
                    self.shared.push(Vec::new());
                    // Fewer than there are sites.
                    self.shared.len() as u32 - 1
                });
                if let Some(keys) = self.shared.get_mut(list as usize) {
                    keys.extend([first, key]);
                }
                *holder = Holder::several(list);
            }
        }
    }

    /// Takes a module out, if it is the one that is registered under its ID.
    pub(crate) fn remove(&mut self, module: &Module) -> Option<Module> {
        let id = module.id();
        self.modules.get(&id).filter(|known| known.is_same(module))?;
        let module = self.modules.remove(&id)?;
        for area in module.areas() {
            self.ranges.remove(&area.range().start());
        }
        let mut ids: Vec<RecordId> = module.ids().map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().for_each(|id| self.forget(id, module.id()));
        Some(module)
    }

    /// Takes all sites of a module from an ID.
    fn forget(&mut self, id: RecordId, module: ModuleId) {
        match self.by_id.get(&id).map(|holder| holder.get()) {
            Some(Ok(key)) if key.module == module => _ = self.by_id.remove(&id),
            Some(Err(list)) => {
                let Some(keys) = self.shared.get_mut(list) else {
                    return;
                };
                keys.retain(|key| key.module != module);
                if keys.is_empty() {
                    *keys = Vec::new();
                    self.unused.push(list as u32);
                    self.by_id.remove(&id);
                }
            }
            _ => {}
        }
    }

    fn overlapping(&self, range: CodeRange) -> Option<CodeRange> {
        let (_, (other, _)) = self.ranges.range(..range.end()).next_back()?;
        other.overlaps(range).then_some(*other)
    }

    /// The sites with that ID, in order of registration.
    pub(crate) fn by_id(&self, id: RecordId) -> impl Iterator<Item = Site> + '_ {
        let holder = self.by_id.get(&id).map(|holder| holder.get());
        let (one, several): (_, &[SiteKey]) = match holder {
            None => (None, &[]),
            Some(Ok(key)) => (Some(key), &[]),
            Some(Err(list)) => (None, self.shared.get(list).map_or(&[], Vec::as_slice)),
        };
        let keys = one.into_iter().chain(several.iter().copied());
        keys.filter_map(|key| self.get(key))
    }

    /// The site that contains `addr`.
    pub(crate) fn by_addr(&self, addr: CodeAddr) -> Option<Site> {
        self.module_at(addr)?.site_at(addr)
    }

    /// The module whose code contains `addr`.
    pub(crate) fn module_at(&self, addr: CodeAddr) -> Option<&Module> {
        let (_, (range, module)) = self.ranges.range(..=addr).next_back()?;
        range.contains(addr).then_some(module)
    }

    /// Whether this very module is registered.
    pub(crate) fn has(&self, module: &Module) -> bool {
        self.modules
            .get(&module.id())
            .is_some_and(|known| known.is_same(module))
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
