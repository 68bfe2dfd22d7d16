//! Which registers a site's sequences may write, from the site alone.

use llvm_stackmaps::addr::DwarfReg;
use llvm_stackmaps::{Location, LocationKind, Record};
use patchpoint_isa::{Arch, Convention, Declared, RegSet, SiteContext, SiteKind, SiteName};

use super::facts::{Abi, Isa};
use crate::error::{Error, Result};

/// The registers of a site.
pub(super) struct Policy {
    /// What may be written.
    pub(super) writable: RegSet,
    /// What must not have been written when control leaves for good by a jump: an exit stub reads
    /// it.
    pub(super) kept_for_exit_stubs: RegSet,
    /// What must not have been written when control goes on at the site's end, or in another
    /// function: return registers at an entry, which are free only on paths that return.
    pub(super) kept_for_the_function: RegSet,
    /// What a C function that is called returns, as far as the site has a use for it.
    pub(super) result: RegSet,
}

impl Policy {
    pub(super) fn of(site: &SiteContext<'_>, isa: &Isa, declared: &Declared) -> Result<Self> {
        let recorded = Recorded::of(site, isa)?;
        let abi = &isa.abi;
        let (free, result) = match (site.shape.kind(), site.shape.convention()) {
            (SiteKind::Entry, _) => (abi.scratch_at_entry.difference(recorded.values), abi.returned),
            (SiteKind::Shadow, _) => (abi.scratch.difference(recorded.values), RegSet::EMPTY),
            // Nobody has told what is live: everything is.
            // protection: marks-keep-registers
            (SiteKind::Marked | SiteKind::Call, _) => (RegSet::EMPTY, RegSet::EMPTY),
            // protection: told-sites-keep-registers
            (SiteKind::Told, Convention::AnyReg) => (free_as_told(site, abi, &recorded), recorded.result),
            (SiteKind::Told, Convention::C) => {
                let free = free_at_c(site, abi, &recorded).union(free_as_told(site, abi, &recorded));
                (free, result_of_call(site, abi))
            }
            (SiteKind::Patchpoint, Convention::AnyReg) => (
                abi.scratch_at_any_reg.difference(recorded.values),
                recorded.result,
            ),
            (SiteKind::Patchpoint, Convention::C) => {
                (free_at_c(site, abi, &recorded), result_of_call(site, abi))
            }
        };
        let writable = free.union(result.intersection(declared.outputs));
        refuse_outputs(site, isa, declared.outputs.difference(writable))?;
        let entry = site.shape.kind() == SiteKind::Entry;
        Ok(Self {
            writable,
            kept_for_exit_stubs: recorded.values,
            kept_for_the_function: if entry {
                abi.known.difference(free)
            } else {
                RegSet::EMPTY
            },
            result,
        })
    }
}

/// The registers that the platform's C convention makes a function keep for its caller, frame and
/// stack pointer aside: live at every patchpoint, unless the function has saved them, whether a
/// record lists them or not.
#[must_use]
pub fn callee_saved(arch: Arch) -> RegSet {
    super::dispatch::isa(arch).abi.callee_saved
}

/// Where a C call leaves its result, if the site has one.
fn result_of_call(site: &SiteContext<'_>, abi: &Abi) -> RegSet {
    match site.shape.has_result() {
        true => abi.result,
        false => RegSet::EMPTY,
    }
}

/// What a told site was said to leave free, if nothing that is needed is there.
fn free_as_told(site: &SiteContext<'_>, abi: &Abi, recorded: &Recorded) -> RegSet {
    let told = site.shape.free_registers().intersection(abi.known);
    // protection: told-operands-are-kept
    told.difference(recorded.values).difference(recorded.live_outs)
}

/// The registers of which the checker knows that patches and exits keep them: those that a told
/// site may name.
#[must_use]
pub fn kept_registers(arch: Arch) -> RegSet {
    super::dispatch::isa(arch).abi.known
}

/// What a C call may lose that nobody will look at.
fn free_at_c(site: &SiteContext<'_>, abi: &Abi, recorded: &Recorded) -> RegSet {
    let kept = match site.trust_live_outs {
        true => RegSet::EMPTY,
        // protection: checker-callee-saved-are-live-out
        false => abi.callee_saved,
    };
    abi.known
        .difference(recorded.values)
        // protection: checker-live-outs
        .difference(recorded.live_outs)
        .difference(abi.frame)
        .difference(kept)
}

fn refuse_outputs(site: &SiteContext<'_>, isa: &Isa, refused: RegSet) -> Result<()> {
    match first(refused) {
        None => Ok(()),
        Some(reg) => Err(Error::Output {
            site: SiteName::of(site),
            register: name(isa, reg),
        }),
    }
}

/// The register of a set that an error names. Sets are nearly always empty here, and iterating
/// costs.
pub(super) fn first(set: RegSet) -> Option<DwarfReg> {
    match set.is_empty() {
        true => None,
        false => set.iter().next(),
    }
}

/// The name of a register in errors.
pub(super) fn name(isa: &Isa, reg: DwarfReg) -> &'static str {
    (isa.register)(reg).unwrap_or("a register without a name")
}

/// The registers that the record names.
struct Recorded {
    /// Those that hold values at the site, or the base address of one.
    values: RegSet,
    /// Where the record wants the result.
    result: RegSet,
    live_outs: RegSet,
}

impl Recorded {
    fn of(site: &SiteContext<'_>, isa: &Isa) -> Result<Self> {
        let mut recorded = Self {
            values: RegSet::EMPTY,
            result: RegSet::EMPTY,
            live_outs: RegSet::EMPTY,
        };
        match &site.record {
            Some(record) => recorded.read(site, isa, record)?,
            None if matches!(
                site.shape.kind(),
                SiteKind::Entry | SiteKind::Marked | SiteKind::Call
            ) => {}
            None => {
                return Err(Error::NoRecord {
                    site: SiteName::of(site),
                });
            }
        }
        Ok(recorded)
    }

    fn read(&mut self, site: &SiteContext<'_>, isa: &Isa, record: &Record<'_>) -> Result<()> {
        let abi = &isa.abi;
        let result_first = matches!(site.shape.kind(), SiteKind::Patchpoint | SiteKind::Told)
            && site.shape.convention() == Convention::AnyReg
            && site.shape.has_result();
        // Loops without a way out, as in `not_kept`, which is asked only if not all are known.
        let mut all_in_sets = true;
        let mut whole = |reg: DwarfReg| {
            let set = RegSet::of(&[abi.whole(reg)]);
            all_in_sets &= !set.is_empty();
            set
        };
        let mut locations = record.locations();
        if result_first {
            let result = locations.next().and_then(|result| register_of(&result));
            self.result = result.map_or(RegSet::EMPTY, &mut whole);
        }
        locations.for_each(|location| {
            if let Some(reg) = register_of(&location) {
                // protection: checker-recorded-values
                self.values = self.values.union(whole(reg));
            }
        });
        record
            .live_outs()
            .for_each(|live| self.live_outs = self.live_outs.union(whole(live.reg)));
        let all = self.values.union(self.result).union(self.live_outs);
        if all_in_sets && all.difference(abi.known).is_empty() {
            return Ok(());
        }
        match not_kept(site.arch, record) {
            None => Ok(()),
            Some(register) => Err(Error::Register {
                site: SiteName::of(site),
                register,
            }),
        }
    }
}

/// What LLVM writes for a register without a DWARF number. On SystemZ these are pairs of registers,
/// both of which are then listed themselves, and the floating-point control register, which no
/// sequence may write.
const UNNUMBERED: DwarfReg = DwarfReg::new(u16::MAX);

/// The first register that a record names in which no patch and no exit is known to keep a value.
pub fn not_kept(arch: Arch, record: &Record<'_>) -> Option<DwarfReg> {
    let abi = &super::dispatch::isa(arch).abi;
    let is_kept = |reg: DwarfReg| abi.known.contains(abi.whole(reg));
    let of_locations = || record.locations().filter_map(|location| register_of(&location));
    let of_live_outs = || {
        let live_outs = record.live_outs().map(|live| live.reg);
        live_outs.filter(|reg| !abi.unnumbered_live_outs || *reg != UNNUMBERED)
    };
    // Every record that is registered comes here, and mostly each register is known by the number
    // that is there: two loops without a way out, and the whole question behind them.
    let (mut all, known) = (true, abi.known);
    of_locations().for_each(|reg| all &= known.contains(reg));
    record
        .live_outs()
        .for_each(|live| all &= known.contains(live.reg));
    match all {
        true => None,
        false => of_locations().chain(of_live_outs()).find(|reg| !is_kept(*reg)),
    }
}

/// The register that must keep its value for the location to be readable.
fn register_of(location: &Location) -> Option<DwarfReg> {
    match location.kind {
        LocationKind::Register { reg, .. }
        | LocationKind::Direct { reg, .. }
        | LocationKind::Indirect { reg, .. } => Some(reg),
        LocationKind::Constant { .. } | LocationKind::ConstantIndex { .. } => None,
    }
}
