//! Which registers a sequence may use at a site.
//!
//! Free are: the registers that LLVM itself clobbers at every site; at a patchpoint with the C
//! convention the caller-saved registers that hold no argument, no recorded value and no live-out;
//! at a told site what was told, and what its convention says; and the result register until the sequence writes it, if nothing else is there. Registers that
//! the sequence names itself are left to it.

use llvm_stackmaps::LocationKind;
use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::conventions::Registers;
use patchpoint_isa::registers::canonical;
use patchpoint_isa::{Convention, OnReturn, RegSet, SiteContext, SiteKind};

use super::builder::{Operation, Sequence};
use super::operand::{Operand, Source};
use super::places::{has_result, result_register};

/// The registers of one site, for one sequence.
#[derive(Debug)]
pub(super) struct Free {
    /// Free for the lowering throughout.
    scratch: RegSet,
    /// The result register, if it is free up to and including the operation of that index.
    result_until: Option<(DwarfReg, usize)>,
    /// The register of [`Operand::Temp`], if the sequence names it and one is free.
    pub(super) temp: Option<DwarfReg>,
    /// What the sequence may write by name.
    pub(super) writable: RegSet,
    /// Registers that the record's locations need.
    pub(super) recorded: RegSet,
    /// Registers of results that only a return may find changed: the function itself has another
    /// use for them.
    pub(super) kept_for_the_function: RegSet,
    /// Registers whose values are needed behind the site.
    pub(super) needed: RegSet,
    /// Registers that arguments of the C convention may be in: never scratch, but the sequence may
    /// name them.
    pub(super) arguments: RegSet,
    /// The register of the site's result, if it has one.
    pub(super) result: Option<DwarfReg>,
    /// Registers that the site's result may be in.
    pub(super) results: RegSet,
}

impl Free {
    pub(super) fn new(sequence: &Sequence, site: &SiteContext<'_>, registers: &Registers) -> Self {
        let entry = site.shape.kind() == SiteKind::Entry;
        let result = result_register(site, registers);
        let (recorded, live_outs) = (recorded(site), live_outs(site));
        let arguments = arguments(site, registers);
        let results = results(site, registers, result);
        let told = is_told(site);
        let unseen = match site.trust_live_outs && is_c(site) {
            true => RegSet::EMPTY,
            false if told => registers
                .live_unless_trusted
                .difference(site.shape.free_registers()),
            false => registers.live_unless_trusted,
        };
        let needed = recorded.union(live_outs.difference(results)).union(unseen);
        let free_here = match site.shape.kind() {
            SiteKind::Patchpoint if is_c(site) => registers.always_free.union(registers.lost_in_c_call),
            SiteKind::Patchpoint => registers.free_at_any_reg,
            SiteKind::Shadow => registers.always_free,
            SiteKind::Entry => registers.free_at_entry,
            SiteKind::Marked | SiteKind::Call => RegSet::EMPTY,
            SiteKind::Told if is_c(site) => registers.lost_in_c_call.union(site.shape.free_registers()),
            SiteKind::Told => site.shape.free_registers(),
        };
        let writable = free_here.difference(needed).difference(results);
        let (named, uses_temp) = named(sequence);
        let general = match told {
            // Whoever says that such a register is free has saved it, or never had it.
            true => registers.caller_saved.union(registers.kept_by_calls),
            false => registers.caller_saved,
        };
        let scratch = writable
            .intersection(general.union(registers.special))
            .difference(named)
            .difference(arguments);
        // The registers that are free everywhere are the only ones that far branches may count on.
        let temp = uses_temp
            .then(|| {
                let general = scratch.difference(registers.special);
                general
                    .difference(registers.always_free)
                    .first()
                    .or(general.first())
            })
            .flatten();
        let scratch = scratch.difference(temp.into_iter().collect());
        let result_until = result
            .filter(|reg| !entry && !registers.vectors.contains(*reg))
            // Where no call is, the register may hold something for those who do not come to that.
            // protection: told-results-are-no-scratch
            .filter(|_| !told || is_c(site))
            .filter(|reg| !recorded.union(arguments).union(named).contains(*reg))
            .and_then(|reg| first_write(sequence, site, live_outs.contains(reg)).map(|at| (reg, at)));
        Self {
            scratch,
            result_until,
            temp,
            writable,
            recorded,
            kept_for_the_function: if entry { results } else { RegSet::EMPTY },
            needed,
            arguments,
            result,
            results,
        }
    }

    /// The registers that the lowering of the operation at `index` may clobber.
    pub(super) fn at(&self, index: usize) -> RegSet {
        match self.result_until {
            Some((reg, until)) if index <= until => self.scratch.with(reg),
            _ => self.scratch,
        }
    }
}

fn is_told(site: &SiteContext<'_>) -> bool {
    site.shape.kind() == SiteKind::Told
}

fn is_c(site: &SiteContext<'_>) -> bool {
    site.shape.convention() == Convention::C
}

fn results(site: &SiteContext<'_>, registers: &Registers, result: Option<DwarfReg>) -> RegSet {
    match result {
        Some(int) if is_c(site) => RegSet::of(&[int, registers.float_result]),
        other => other.into_iter().collect(),
    }
}

/// Registers of all locations, but for that of an `anyregcc` result.
fn recorded(site: &SiteContext<'_>) -> RegSet {
    let result = usize::from(!is_c(site) && has_result(site));
    let locations = site.record.iter().flat_map(|record| record.locations());
    locations
        .skip(result)
        .filter_map(|location| match location.kind {
            LocationKind::Register { reg, .. }
            | LocationKind::Direct { reg, .. }
            | LocationKind::Indirect { reg, .. } => Some(canonical(site.arch, reg)),
            LocationKind::Constant { .. } | LocationKind::ConstantIndex { .. } => None,
        })
        .collect()
}

fn live_outs(site: &SiteContext<'_>) -> RegSet {
    let live_outs = site.record.iter().flat_map(|record| record.live_outs());
    live_outs
        .map(|live_out| canonical(site.arch, live_out.reg))
        .collect()
}

/// Registers that may hold arguments of the C convention.
fn arguments(site: &SiteContext<'_>, registers: &Registers) -> RegSet {
    if !is_c(site) {
        return RegSet::EMPTY;
    }
    let count = site.shape.arg_count() as usize;
    let ints = registers.int_args.iter().take(count);
    ints.chain(registers.float_args.iter().take(count))
        .copied()
        .collect()
}

/// Registers that the sequence names, and whether it names the temporary one.
fn named(sequence: &Sequence) -> (RegSet, bool) {
    let (mut named, mut uses_temp) = (RegSet::EMPTY, false);
    for operation in sequence.operations() {
        operation.each_operand(|operand, _| match operand {
            Operand::Reg(reg) => named = named.with(reg),
            Operand::Temp => uses_temp = true,
            _ => {}
        });
    }
    (named, uses_temp)
}

/// The first operation that writes the result, if the result is not read until then and no
/// operation can be executed twice. Where the function needs the register of the integer result, a
/// floating-point one does not replace it.
fn first_write(sequence: &Sequence, site: &SiteContext<'_>, needs_integer: bool) -> Option<usize> {
    let is_result = |operand| match operand {
        Operand::Result => true,
        Operand::FloatResult => !(is_c(site) && needs_integer),
        // The record of an `anyregcc` patchpoint begins with its result.
        Operand::Location(0) => !is_c(site) && has_result(site),
        _ => false,
    };
    for (index, operation) in sequence.operations().iter().enumerate() {
        if matches!(
            operation,
            Operation::Bind(_) | Operation::Raw(_) | Operation::Vouched { .. }
        ) {
            return None;
        }
        let (mut reads, mut writes) = (false, operation.follows_c());
        let mut writes_integer = writes || !is_c(site);
        operation.each_operand(|operand, access| {
            if is_result(operand) {
                reads |= access != Access::Write;
                writes |= access == Access::Write;
                writes_integer |= operand == Operand::Result;
            }
        });
        if reads {
            return None;
        }
        if writes {
            let rest = || sequence.operations().iter().skip(index);
            let can_come_back = rest().any(|op| matches!(op, Operation::Bind(_)));
            // Where only the other result was written, somebody may read what is in this register.
            // protection: results-that-are-read-are-no-scratch
            let reads_integer = !writes_integer && rest().any(reads_result);
            return (!can_come_back && !reads_integer).then_some(index);
        }
    }
    None
}

/// Whether an operation reads the integer result.
fn reads_result(operation: &Operation) -> bool {
    let mut reads = false;
    operation.each_operand(|operand, access| {
        reads |= operand == Operand::Result && access != Access::Write;
    });
    reads
}

/// How an operation uses an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    ReadWrite,
}

impl Operation {
    /// Whether this calls a function that follows the C convention.
    pub(super) fn follows_c(&self) -> bool {
        matches!(
            self,
            Self::Call {
                on_return: OnReturn::FollowsC,
                ..
            }
        )
    }

    fn each_operand(&self, mut visit: impl FnMut(Operand, Access)) {
        let of = |source: &Source| match *source {
            Source::Operand(operand) => operand,
            Source::Part(part) => part.operand,
            Source::Mem(mem) => mem.base,
        };
        match self {
            Self::Branch { lhs, rhs, .. } => {
                visit(of(lhs), Access::Read);
                visit(of(rhs), Access::Read);
            }
            Self::Move { dst, src } => {
                visit(of(src), Access::Read);
                visit(*dst, Access::Write);
            }
            Self::Add { dst, src } => {
                visit(of(src), Access::Read);
                visit(*dst, Access::ReadWrite);
            }
            Self::Bits { dst, .. } => visit(*dst, Access::ReadWrite),
            Self::Store { to, src } | Self::AddToMem { to, src, .. } => {
                visit(of(src), Access::Read);
                visit(to.base, Access::Read);
            }
            Self::Vouched { writes, .. } => writes
                .iter()
                .for_each(|reg| visit(Operand::Reg(reg), Access::Write)),
            Self::Jump(_) | Self::Call { .. } | Self::Return | Self::Trap | Self::Raw(_) | Self::Bind(_) => {}
        }
    }
}
