//! The table of all sites of an engine: by ID, by address, by module.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::found::{NewModule, SiteEntry};
use super::index::{Index, SitePlace};
use super::kept::KeptSite;
use super::module::{Module, ModuleId, Site, SiteKey};
use super::sites::Sites;
use crate::addr::{CodeAddr, CodeRange, Len, RecordId};
use crate::memory::CodeArea;
use crate::site::{Error, Result};

/// Every registered module and every site, found by ID and by address.
///
/// A lookup waits for memory a few times and does little else: for the entry of an [`Index`]; for
/// the module, of which it makes a handle, which counts; and by address for the site itself, at the
/// same time.
///
/// By address: the index has an entry for each [granule](GRANULE) of code in which there are bytes
/// of sites of a module, with the first of them. From there it is a few sites to the one that is
/// looked for.
#[derive(Default)]
pub(crate) struct SiteTable {
    /// Modules by their places, which are used again: there are no more than modules at a time.
    modules: Vec<Option<Module>>,
    /// The sites of each, so that a lookup by address waits for them and for the module at the same
    /// time. Not in one list with the modules, for which lookups by ID wait too: that is shorter so.
    sites: Vec<Option<Arc<[KeptSite]>>>,
    vacant: Vec<u32>,
    /// The place of each module, by its ID.
    by_module: Index,
    /// Code ranges by their start, with the place of their module; they do not overlap.
    ranges: BTreeMap<CodeAddr, (CodeRange, u32)>,
    /// The first site of each module in each granule.
    by_granule: Index,
    /// The one site of an ID, or the number of the list of several.
    by_id: Index,
    /// The sites of an ID that has several, in order of registration. Those of an ID that has lost
    /// them are empty.
    shared: Vec<SmallVec<[SitePlace; 2]>>,
    /// Which of those are empty.
    unused: Vec<u32>,
}

/// The bytes of a granule, as a power of two: few sites, and in dense code many granules fit into
/// the caches.
const GRANULE: u32 = 8;

/// No module has this place.
const SEVERAL: u32 = u32::MAX - 1;

/// Who has an ID.
enum Holder {
    One(SitePlace),
    /// The number of a list.
    Several(usize),
}

impl From<SitePlace> for Holder {
    fn from(place: SitePlace) -> Self {
        match place.module {
            SEVERAL => Self::Several(place.index as usize),
            _ => Self::One(place),
        }
    }
}

/// The granules in which a module has sites, each with the first of them. The sites are in ascending
/// order.
fn granules(sites: impl Iterator<Item = (CodeAddr, Len)>) -> impl Iterator<Item = (u64, u32)> {
    let mut next = 0;
    let of_site = move |(index, (addr, len)): (u32, (CodeAddr, Len))| {
        let last = addr.get().saturating_add(u64::from(len.get()).saturating_sub(1)) >> GRANULE;
        // One before has all granules below.
        let first = (addr.get() >> GRANULE).max(next);
        next = last + 1;
        (first..=last).map(move |granule| (granule, index))
    };
    (0..).zip(sites).flat_map(of_site)
}

/// So many IDs are warmed before the first of them is added. Without, registering 100,000 records takes a twenty-fifth
/// longer.
const WARMED: usize = 16;

/// Whatever forgets a module, or the last site of an ID, takes it out of all lists.
const LISTED: &str = "what is listed is there";

impl SiteTable {
    /// Adds a module.
    ///
    /// # Errors
    /// [`Error::CodeAlreadyRegistered`]: one of its code ranges belongs to a module already.
    pub(crate) fn insert(&mut self, new: &NewModule) -> Result<()> {
        let module = &new.module;
        self.check(module)?;
        let code = || module.areas().iter().map(CodeArea::range);
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.modules.push(None);
            self.sites.push(None);
            // A module takes hundreds of bytes.
            self.modules.len() as u32 - 1
        });
        for range in code() {
            self.ranges.insert(range.start(), (range, place));
        }
        self.add_sites(&new.sites, place);
        let at = SitePlace {
            module: place,
            index: 0,
        };
        self.by_module.insert(module.id().0.into(), at);
        module.put_table_at(place);
        let vacant = self
            .modules
            .get_mut(place as usize)
            .zip(self.sites.get_mut(place as usize));
        let (known, sites) = vacant.expect("a place that was freed is still there");
        *known = Some(module.clone());
        *sites = Some(Arc::clone(module.kept()));
        Ok(())
    }

    /// Whether a module can be inserted.
    ///
    /// # Errors
    /// [`Error::CodeAlreadyRegistered`].
    pub(crate) fn check(&self, module: &Module) -> Result<()> {
        for range in module.areas().iter().map(CodeArea::range) {
            // protection: code-is-registered-once
            if let Some(other) = self.overlapping(range) {
                return Err(Error::CodeAlreadyRegistered { range, other });
            }
        }
        Ok(())
    }

    fn add_sites(&mut self, sites: &[SiteEntry], place: u32) {
        let at = |index| SitePlace { module: place, index };
        let granules: Vec<_> = granules(sites.iter().map(|site| (site.addr, site.reserved))).collect();
        // Where there is no room, all entries move, an eighth more each time.
        self.by_granule.reserve(granules.len());
        for (granule, index) in granules {
            self.by_granule.insert(granule, at(index));
        }
        self.by_id.reserve(sites.len());
        let mut indices = 0..;
        for some in sites.chunks(WARMED) {
            some.iter().for_each(|site| self.by_id.warm(site.id.get()));
            for (site, index) in some.iter().zip(&mut indices) {
                self.add(site.id, at(index));
            }
        }
    }

    fn add(&mut self, id: RecordId, site: SitePlace) {
        let Some(known) = self.by_id.find_or_insert(id.get(), site) else {
            return;
        };
        match Holder::from(*known) {
            Holder::Several(list) => self.shared.get_mut(list).expect(LISTED).push(site),
            Holder::One(first) => {
                let list = self.unused.pop().unwrap_or_else(|| {
                    self.shared.push(SmallVec::new());
                    // Fewer than there are sites.
                    self.shared.len() as u32 - 1
                });
                let sites = self.shared.get_mut(list as usize);
                sites.expect(LISTED).extend([first, site]);
                *known = SitePlace {
                    module: SEVERAL,
                    index: list,
                };
            }
        }
    }

    /// Takes a module out, if it is the one that is registered under its ID.
    pub(crate) fn remove(&mut self, module: &Module) -> Option<Module> {
        let place = self.place_of(module)?;
        self.by_module.remove(module.id().0.into(), |_| true);
        for area in module.areas() {
            self.ranges.remove(&area.range().start());
        }
        for (granule, _) in granules(module.extents()) {
            // protection: lookups-lose-one-module
            self.by_granule.remove(granule, |site| site.module == place);
        }
        let mut ids: Vec<RecordId> = module.ids().map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().for_each(|id| self.forget(id, place));
        self.vacant.push(place);
        let sites = self.sites.get_mut(place as usize).and_then(Option::take);
        drop(sites.expect(LISTED));
        let known = self.modules.get_mut(place as usize).and_then(Option::take);
        Some(known.expect(LISTED))
    }

    /// Takes all sites of a module from an ID.
    fn forget(&mut self, id: RecordId, module: u32) {
        match self.by_id.get(id.get()).map(Holder::from) {
            Some(Holder::One(site)) if site.module == module => self.by_id.remove(id.get(), |_| true),
            Some(Holder::Several(list)) => {
                let sites = self.shared.get_mut(list).expect(LISTED);
                sites.retain(|site| site.module != module);
                if sites.is_empty() {
                    *sites = SmallVec::new();
                    self.unused.push(list as u32);
                    self.by_id.remove(id.get(), |_| true);
                }
            }
            _ => {}
        }
    }

    fn overlapping(&self, range: CodeRange) -> Option<CodeRange> {
        let (_, (other, _)) = self.ranges.range(..range.end()).next_back()?;
        other.overlaps(range).then_some(*other)
    }

    /// The module in a place that is listed somewhere.
    #[inline]
    fn module(&self, place: u32) -> &Module {
        let known = self.modules.get(place as usize).and_then(Option::as_ref);
        known.expect(LISTED)
    }

    /// The sites with that ID, in order of registration, if there are any.
    #[inline(always)] // As `by_id_with`.
    pub(crate) fn by_id(&self, id: RecordId) -> Option<Sites> {
        self.by_id_with(id, &mut None)
    }

    /// The same, one of which uses up `kept`, if that is a handle of its module.
    #[inline(always)] // As a call of its own it would copy the sites once more.
    pub(crate) fn by_id_with(&self, id: RecordId, kept: &mut Option<Module>) -> Option<Sites> {
        let mut site = |place: &SitePlace| self.module(place.module).handle_by(kept, place.index);
        Some(match Holder::from(self.by_id.get(id.get())?) {
            Holder::One(place) => Sites::one(site(&place)),
            Holder::Several(list) => self.shared.get(list).expect(LISTED).iter().map(site).collect(),
        })
    }

    /// The site that contains `addr`.
    pub(crate) fn by_addr(&self, addr: CodeAddr) -> Option<Site> {
        let mut firsts = self.by_granule.all(addr.get() >> GRANULE);
        firsts.find_map(|first| {
            let sites = self.sites.get(first.module as usize).and_then(Option::as_ref);
            self.module(first.module)
                .site_from(sites.expect(LISTED), first.index, addr)
        })
    }

    /// The module whose code contains `addr`.
    pub(crate) fn module_at(&self, addr: CodeAddr) -> Option<&Module> {
        let (_, (range, place)) = self.ranges.range(..=addr).next_back()?;
        range.contains(addr).then(|| self.module(*place))
    }

    fn module_with(&self, id: ModuleId) -> Option<(u32, &Module)> {
        let place = self.by_module.get(id.0.into())?.module;
        Some((place, self.module(place)))
    }

    /// The place of this very module.
    fn place_of(&self, module: &Module) -> Option<u32> {
        // To look for its ID waits for memory: a twenty-fifth of invalidating many modules.
        let place = module.table_at();
        let known = self.modules.get(place as usize)?.as_ref()?;
        // protection: site-of-another-engine
        known.is_same(module).then_some(place)
    }

    /// Whether this very module is registered.
    pub(crate) fn has(&self, module: &Module) -> bool {
        self.place_of(module).is_some()
    }

    /// The site of that key.
    pub(crate) fn get(&self, key: SiteKey) -> Option<Site> {
        let (_, module) = self.module_with(key.module)?;
        module.site(key.index)
    }

    /// All modules.
    pub(crate) fn modules(&self) -> impl Iterator<Item = &Module> {
        self.modules.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{Arch, CallShape};
    use crate::image::FunctionRange;
    use crate::memory::{CodeMemory, Snapshot};
    use crate::site::audit::register;
    use crate::site::{Functions, ModuleParts, Owner, Unrecorded, UnwindBy};
    use crate::stackmap::testing::{map, record};
    use crate::stackmap::{Endian, OwnedMaps};

    const START: u64 = 0x40_0000;
    /// Several are in a granule, and their sites lie across its borders.
    const CODE: u64 = 100;
    const MODULES: u64 = 40;

    /// A module of nops with one function: sites of `reserved` bytes each 6 bytes behind the one
    /// before, with the IDs 1, 2 and so on, but for the last, whose ID is its module's.
    fn module(number: u64, at: u64, len: u64, reserved: u64) -> NewModule {
        let addr = CodeAddr::new(at);
        let starts: Vec<u64> = (3..)
            .step_by(6 + reserved as usize)
            .take_while(|start| start + reserved <= len)
            .collect();
        let last = *starts.last().unwrap();
        let records = (1..).zip(&starts).map(|(id, start)| {
            let id = if *start == last { 1000 + number } else { id };
            record(id).at(*start as u32)
        });
        let map = map().function(at, 8, records).bytes();
        let memory: Arc<dyn CodeMemory> = Arc::new(Snapshot::new(addr, vec![0x90; len as usize]).unwrap());
        let function = FunctionRange {
            name: "f".into(),
            addr,
            len: Len::new(len as u32),
            pointer: addr,
        };
        let parts = ModuleParts {
            id: ModuleId(number as u32),
            arch: Arch::X86_64,
            windows: false,
            functions: Functions::new(&[function]).unwrap(),
            maps: OwnedMaps::new(map, Endian::Little).unwrap(),
            areas: [CodeArea::new(CodeRange::new(addr, len).unwrap(), &memory).unwrap()].into(),
            eh_frames: Box::default(),
            unwind_by: UnwindBy::EhFrame,
            trust_live_outs: false,
            may_have_run: false,
            live: false,
            owner: Owner::nobody(),
            _placed: None,
        };
        let shape = CallShape::c(reserved as u32);
        register(parts, &Unrecorded::default(), &mut |_| Ok(Some(shape))).unwrap()
    }

    /// Everything is found as a walk over all sites finds it.
    fn check(table: &SiteTable, modules: &[Module]) {
        let sites: Vec<Site> = modules.iter().flat_map(Module::sites).collect();
        let keys = |sites: &[Site]| sites.iter().map(Site::key).collect::<Vec<_>>();
        for addr in START - 1..START + MODULES * CODE + 2000 {
            let addr = CodeAddr::new(addr);
            let expected = sites
                .iter()
                .find(|site| site.range().contains(addr))
                .map(Site::key);
            assert_eq!(table.by_addr(addr).map(|site| site.key()), expected, "{addr}");
        }
        for id in (0..10).chain(1000..1000 + MODULES + 2) {
            let expected: Vec<Site> = sites
                .iter()
                .filter(|site| site.id().get() == id)
                .cloned()
                .collect();
            let expected = (!expected.is_empty()).then(|| keys(&expected));
            assert_eq!(table.by_id(id.into()).map(|sites| keys(&sites)), expected, "{id}");
        }
        for site in &sites {
            assert_eq!(table.get(site.key()).map(|site| site.addr()), Some(site.addr()));
        }
    }

    #[test]
    fn sites_are_found_while_modules_come_and_go() {
        let mut table = SiteTable::default();
        let mut new: Vec<NewModule> = (0..MODULES)
            .map(|number| module(number, START + number * CODE, CODE, 1 + number % 20))
            .collect();
        // A site of several granules.
        new.push(module(MODULES, START + MODULES * CODE, 1500, 1400));
        for new in &new {
            table.insert(new).unwrap();
        }
        let again = table.insert(&new[3]);
        assert!(matches!(again, Err(Error::CodeAlreadyRegistered { .. })));
        let mut modules: Vec<Module> = new.into_iter().map(|new| new.module).collect();
        check(&table, &modules);
        // Two for each, but for the long site.
        assert!(table.by_granule.len() as u64 <= 2 * MODULES + 7);
        let mut odd = Vec::new();
        for (number, module) in modules.drain(..).enumerate() {
            match number % 2 {
                0 => assert!(table.remove(&module).unwrap().is_same(&module)),
                _ => odd.push(module),
            }
        }
        check(&table, &odd);
        // Another at a place that is vacant.
        let next = module(MODULES + 1, START, CODE, 3);
        table.insert(&next).unwrap();
        odd.push(next.module);
        check(&table, &odd);
        assert_eq!(table.modules.len() as u64, MODULES + 1);
        for module in &odd {
            assert!(table.remove(module).is_some() && table.remove(module).is_none());
        }
        check(&table, &[]);
        let empty = |index: &Index| index.len() == 0;
        assert!(empty(&table.by_granule) && empty(&table.by_id) && empty(&table.by_module));
        assert!(table.ranges.is_empty() && table.shared.iter().all(|list| list.is_empty()));
    }
}
