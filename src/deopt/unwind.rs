//! Leaving a frame: where its caller's registers are, from `.eh_frame`.
//!
//! Problem: to return in place of compiled code, the registers that its prologue saved must be
//! restored. Approach: the section is read once into an index by address; a return evaluates the
//! one row that covers the site. All rules of DWARF are known but for the vendors' own ones; of
//! expressions those that need no more than registers and memory. Compilers use expressions for
//! frames of dynamic alignment.
//!
//! The rules: DWARF 5, section 6.4; the section's format: Linux Standard Base Core, part "Exception
//! Frames".

#![allow(unsafe_code)]

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use gimli::{
    AArch64, BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameOffset, Encoding, EndianSlice, Evaluation,
    EvaluationResult, Format, FrameDescriptionEntry, RegisterRule, RunTimeEndian, UnwindContext,
    UnwindSection, Vendor,
};

use super::answer::is_restored;
use super::conventions::Conventional;
use super::host::state;
use crate::addr::{CodeAddr, CodeRange, DwarfReg};
use crate::arch::Arch;
use crate::deopt::{Error, Result};
use crate::site::{Function, Module, UnwindBy};
use crate::stackmap::Endian;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
type Fde<'a> = FrameDescriptionEntry<Slice<'a>>;

const ENCODING: Encoding = Encoding {
    format: Format::Dwarf32,
    version: 4,
    address_size: 8,
};
/// More steps than any frame's expression takes; an endless one ends here.
const MAX_STEPS: u32 = 1000;

/// How the frames of loaded code are found: by a relocated `.eh_frame` section, or as its module
/// was [registered](crate::engine::Registration::unwind_by).
#[derive(Clone, Debug)]
pub struct UnwindInfo(Source);

#[derive(Clone, Debug)]
enum Source {
    Section(Section),
    Conventional(Conventional),
}

/// A section, with an index.
#[derive(Clone)]
struct Section {
    bytes: Arc<[u8]>,
    addr: CodeAddr,
    arch: Option<Arch>,
    /// Start, end (exclusive) and section offset of each entry, by start.
    index: Vec<(u64, u64, usize)>,
}

/// How to find the value that a register has in the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Saved {
    /// In memory at this offset from the frame address.
    At(i64),
    /// It is the frame address plus this offset.
    Frame(i64),
    /// In another register.
    In(DwarfReg),
    /// In memory at this offset from a register.
    AtRegister(DwarfReg, i64),
    /// In memory at the address that an expression computes from the frame address.
    AtComputed(Vec<u8>),
    /// Computed by an expression from the frame address.
    Computed(Vec<u8>),
}

/// How to find the frame address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// This register plus this offset.
    Register(DwarfReg, i64),
    /// The word to which this register points, plus this offset.
    Chained(DwarfReg, i64),
    /// Computed by an expression.
    Computed(Vec<u8>),
}

/// What is known of registers without a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnruledRegisters {
    /// They have what the caller has in them.
    Untouched,
    /// They may have been saved anywhere.
    Unknown,
}

/// What the unwind information says for one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnwindRow {
    pub(super) pc: CodeAddr,
    pub(super) endian: RunTimeEndian,
    pub(super) base: Base,
    /// The registers that have a rule.
    pub(super) saved: Vec<(DwarfReg, Saved)>,
    pub(super) others: UnruledRegisters,
}

impl UnwindInfo {
    /// Reads the bytes of an `.eh_frame` section of this machine's code, as they were relocated to
    /// are at `addr`. They are copied; nothing need be at that address.
    ///
    /// # Errors
    /// The bytes are not such a section.
    pub fn new(addr: CodeAddr, bytes: &[u8]) -> Result<Self> {
        Self::for_maybe(Arch::host(), addr, bytes)
    }

    /// Reads the section of code for any architecture: what [`can_return`](Self::can_return) says
    /// of it holds on every host.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn for_arch(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> Result<Self> {
        Self::for_maybe(Some(arch), addr, bytes)
    }

    fn for_maybe(arch: Option<Arch>, addr: CodeAddr, bytes: &[u8]) -> Result<Self> {
        Section::read(arch, addr, bytes).map(|section| Self(Source::Section(section)))
    }

    /// How the frames of a module's functions are found that was registered to do without unwind
    /// information.
    pub(super) fn conventional(module: &Module) -> Self {
        Self(Source::Conventional(Conventional::of(module)))
    }

    /// How the frames of a function are found.
    ///
    /// # Errors
    /// [`Error::UnwindMissing`]: the module has no unwind information for it; [`Error::UnwindFormat`].
    pub fn of(function: &Function) -> Result<Self> {
        let (module, pc) = (function.module(), function.addr());
        if module.unwind_by() != UnwindBy::EhFrame {
            return Ok(Self::conventional(module));
        }
        for frame in module.eh_frames() {
            let info = Self::new(frame.addr, &frame.bytes)?;
            if info.can_return(pc).is_ok() {
                return Ok(info);
            }
        }
        Err(Error::UnwindMissing { pc })
    }

    /// Whether [`Frame::return_to_caller`](super::Frame::return_to_caller) works at a site at `pc`.
    ///
    /// # Errors
    /// Nothing tells how the frame at `pc` is found, or a rule is not understood.
    pub fn can_return(&self, pc: CodeAddr) -> Result<()> {
        self.row(pc).map(drop)
    }

    /// Whether something is said of the frame at `pc`; whether that is understood is found out when
    /// it is asked for.
    pub(super) fn covers(&self, pc: CodeAddr) -> bool {
        match &self.0 {
            Source::Section(section) => section.offset_of(pc).is_some(),
            Source::Conventional(functions) => functions.row(pc).is_ok(),
        }
    }

    /// Whether a frame at `pc` can be left with all registers of its caller.
    pub(super) fn check_leavable(&self, pc: CodeAddr) -> Result<()> {
        let row = self.row(pc)?;
        row.check_saved(is_restored)?;
        row.check_others()
    }

    pub(super) fn row(&self, pc: CodeAddr) -> Result<UnwindRow> {
        match &self.0 {
            Source::Section(section) => section.row(pc),
            Source::Conventional(functions) => functions.row(pc),
        }
    }
}

impl Section {
    fn read(arch: Option<Arch>, addr: CodeAddr, bytes: &[u8]) -> Result<Self> {
        let mut index = Vec::new();
        let section = section(arch, bytes);
        let bases = bases(addr);
        let malformed = |error| Error::UnwindFormat {
            addr,
            reason: format!("{error}"),
        };
        let mut entries = section.entries(&bases);
        while let Some(entry) = entries.next().map_err(malformed)? {
            let CieOrFde::Fde(partial) = entry else { continue };
            let fde = partial.parse(EhFrame::cie_from_offset).map_err(malformed)?;
            index.push((fde.initial_address(), fde.end_address(), fde.offset()));
        }
        index.sort_unstable();
        Ok(Self {
            bytes: bytes.into(),
            addr,
            arch,
            index,
        })
    }

    fn row(&self, pc: CodeAddr) -> Result<UnwindRow> {
        let section = section(self.arch, &self.bytes);
        let bases = bases(self.addr);
        let fde = self.entry(&section, &bases, pc)?;
        let mut context = UnwindContext::new();
        let row = fde
            .unwind_info_for_address(&section, &bases, &mut context, pc.get())
            .map_err(|error| Error::UnwindFormat {
                addr: self.addr,
                reason: format!("{error}"),
            })?;
        let refused = |reason| Error::UnwindRule { pc, reason };
        let expression = |expression: &gimli::UnwindExpression<usize>| -> Result<Vec<u8>> {
            let found = expression.get(&section);
            let bytes = found.map_err(|error| refused(format!("{error}")))?;
            Ok(bytes.0.slice().to_vec())
        };
        let base = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                Base::Register(DwarfReg::new(register.0), *offset)
            }
            CfaRule::Expression(computed) => Base::Computed(expression(computed)?),
        };
        let mut saved = Vec::new();
        for (reg, rule) in row.registers() {
            let how = match rule {
                RegisterRule::Undefined | RegisterRule::SameValue => continue,
                RegisterRule::Offset(at) => Saved::At(*at),
                RegisterRule::ValOffset(by) => Saved::Frame(*by),
                RegisterRule::Register(other) => Saved::In(DwarfReg::new(other.0)),
                RegisterRule::Expression(computed) => Saved::AtComputed(expression(computed)?),
                RegisterRule::ValExpression(computed) => Saved::Computed(expression(computed)?),
                // Which AArch64 writes for a return address that is not signed.
                RegisterRule::Constant(0) if *reg == AArch64::RA_SIGN_STATE => continue,
                other => return Err(refused(format!("register {} is {other:?}", reg.0))),
            };
            saved.push((DwarfReg::new(reg.0), how));
        }
        let endian = endian(self.arch);
        Ok(UnwindRow {
            pc,
            endian,
            base,
            saved,
            others: UnruledRegisters::Untouched,
        })
    }

    /// Where the entry is that covers an address.
    fn offset_of(&self, pc: CodeAddr) -> Option<EhFrameOffset> {
        let after = self.index.partition_point(|(start, _, _)| *start <= pc.get());
        let (_, end, offset) = self.index.get(after.checked_sub(1)?)?;
        (pc.get() < *end).then_some(EhFrameOffset(*offset))
    }

    fn entry<'a>(
        &self,
        section: &EhFrame<Slice<'a>>,
        bases: &BaseAddresses,
        pc: CodeAddr,
    ) -> Result<Fde<'a>> {
        let offset = self.offset_of(pc).ok_or(Error::UnwindMissing { pc })?;
        section
            .fde_from_offset(bases, offset, EhFrame::cie_from_offset)
            .map_err(|error| Error::UnwindFormat {
                addr: self.addr,
                reason: format!("{error}"),
            })
    }
}

/// The general registers at the site, by DWARF number.
type Registers<'a> = &'a dyn Fn(DwarfReg) -> Option<u64>;

impl UnwindRow {
    /// The frame address: what the stack pointer is after the return.
    ///
    /// # Safety
    /// The row and the registers are those of a live frame, whose stack the row's rules describe.
    pub(super) unsafe fn frame(&self, registers: Registers<'_>) -> Result<u64> {
        match &self.base {
            Base::Register(reg, offset) => Ok(self.register(registers, *reg)?.wrapping_add_signed(*offset)),
            // SAFETY: as the caller promises.
            Base::Computed(expression) => unsafe { self.evaluate(expression, None, registers) },
            Base::Chained(reg, offset) => {
                let at = self.register(registers, *reg)?;
                // SAFETY: as the caller promises: the back chain of the frame is there.
                Ok(unsafe { (at as *const u64).read_unaligned() }.wrapping_add_signed(*offset))
            }
        }
    }

    /// The value that `reg` has in the caller of the frame at `frame`. A register without a rule
    /// has not been touched.
    ///
    /// # Safety
    /// As for [`frame`](Self::frame).
    pub(super) unsafe fn in_caller(
        &self,
        reg: DwarfReg,
        frame: u64,
        registers: Registers<'_>,
    ) -> Result<u64> {
        let rule = self.saved.iter().find(|(saved, _)| *saved == reg);
        let at = match rule.map(|(_, how)| how) {
            None if self.others == UnruledRegisters::Unknown && is_saved_by_some(reg) => {
                return Err(self.refused(format!(
                    "the function may have saved {reg}, it is not known where"
                )));
            }
            None => return self.register(registers, reg),
            Some(Saved::Frame(by)) => return Ok(frame.wrapping_add_signed(*by)),
            Some(Saved::In(other)) => return self.register(registers, *other),
            // SAFETY: as the caller promises.
            Some(Saved::Computed(how)) => return unsafe { self.evaluate(how, Some(frame), registers) },
            Some(Saved::At(by)) => frame.wrapping_add_signed(*by),
            Some(Saved::AtRegister(from, by)) => self.register(registers, *from)?.wrapping_add_signed(*by),
            // SAFETY: as the caller promises.
            Some(Saved::AtComputed(how)) => unsafe { self.evaluate(how, Some(frame), registers) }?,
        };
        // SAFETY: the rule says that the function saved a register there.
        Ok(unsafe { (at as *const u64).read_unaligned() })
    }

    /// Refuses a frame in a mirror whose rules read anything outside of its stack.
    pub(super) fn check_reads(&self, stack: CodeRange, registers: Registers<'_>) -> Result<()> {
        let Base::Register(reg, offset) = self.base else {
            return Err(self.refused(String::from("the frame address is not computed from a register")));
        };
        let frame = self.register(registers, reg)?.wrapping_add_signed(offset);
        for (reg, how) in &self.saved {
            let at = match how {
                Saved::At(by) => frame.wrapping_add_signed(*by),
                Saved::AtRegister(from, by) => self.register(registers, *from)?.wrapping_add_signed(*by),
                Saved::Frame(_) | Saved::In(_) => continue,
                Saved::AtComputed(_) | Saved::Computed(_) => {
                    return Err(self.refused(format!("{reg} is saved by an expression")));
                }
            };
            if !stack.contains_bytes(CodeAddr::new(at), 8) {
                return Err(self.refused(format!("{reg} is saved at {at:#x}, outside of the stack {stack}")));
            }
        }
        Ok(())
    }

    /// Refuses a function that saved a register which leaving its frame would not restore.
    pub(super) fn check_saved(&self, is_restored: impl Fn(DwarfReg) -> bool) -> Result<()> {
        match self.saved.iter().find(|(reg, _)| !is_restored(*reg)) {
            Some((reg, _)) => {
                Err(self.refused(format!("the function saved {reg}, which is not restored here")))
            }
            None => Ok(()),
        }
    }

    /// Whether every register that a function preserves is found, so that its frame can be left.
    pub(super) fn check_others(&self) -> Result<()> {
        match self.others {
            UnruledRegisters::Untouched => Ok(()),
            UnruledRegisters::Unknown => Err(self.refused(String::from(
                "the function may have saved registers, it is not known where",
            ))),
        }
    }

    /// Where in memory the function saved a register of its caller, if it did by a plain rule.
    pub(super) fn saved_at(&self, reg: DwarfReg, frame: u64) -> Option<u64> {
        let (_, how) = self.saved.iter().find(|(saved, _)| *saved == reg)?;
        match how {
            Saved::At(by) => Some(frame.wrapping_add_signed(*by)),
            _ => None,
        }
    }

    /// The register, and the distance, from which the frame address is computed, if it is by a
    /// plain rule.
    pub(super) fn base_register(&self) -> Option<(DwarfReg, i64)> {
        match self.base {
            Base::Register(reg, offset) => Some((reg, offset)),
            Base::Chained(..) | Base::Computed(_) => None,
        }
    }

    /// Whether every register that the function has saved is at a fixed distance from the frame
    /// address, so that a frame like it can be made.
    pub(super) fn check_plain(&self) -> Result<()> {
        self.check_others()?;
        match self.saved.iter().find(|(_, how)| !matches!(how, Saved::At(_))) {
            Some((reg, how)) => Err(self.refused(format!("{reg} is saved by the rule {how:?}"))),
            None => Ok(()),
        }
    }

    /// The registers that the function has saved in memory by plain rules, and where.
    pub(super) fn saved_in_memory(&self, frame: u64) -> impl Iterator<Item = (DwarfReg, u64)> + '_ {
        let place = move |(reg, how): &(DwarfReg, Saved)| match how {
            Saved::At(by) => Some((*reg, frame.wrapping_add_signed(*by))),
            _ => None,
        };
        self.saved.iter().filter_map(place)
    }

    fn register(&self, registers: Registers<'_>, reg: DwarfReg) -> Result<u64> {
        registers(reg).ok_or_else(|| self.refused(format!("the value of {reg} is not known")))
    }

    fn refused(&self, reason: String) -> Error {
        Error::UnwindRule { pc: self.pc, reason }
    }

    /// # Safety
    /// As for [`frame`](Self::frame).
    unsafe fn evaluate(&self, bytes: &[u8], frame: Option<u64>, registers: Registers<'_>) -> Result<u64> {
        let failed = |error| self.refused(format!("{error}"));
        let mut evaluation = Evaluation::new(EndianSlice::new(bytes, self.endian), ENCODING);
        if let Some(frame) = frame {
            evaluation.set_initial_value(frame);
        }
        evaluation.set_max_iterations(MAX_STEPS);
        let mut state = evaluation.evaluate().map_err(failed)?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.register(registers, DwarfReg::new(register.0))?;
                    evaluation.resume_with_register(gimli::Value::Generic(value))
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    // SAFETY: the expression reads what the function saved in its frame.
                    let word = unsafe { (address as *const u64).read_unaligned() };
                    evaluation.resume_with_memory(gimli::Value::Generic(word))
                }
                other => return Err(self.refused(format!("an expression needs {other:?}"))),
            }
            .map_err(failed)?;
        }
        let value = evaluation
            .value_result()
            .and_then(|value| value.to_u64(u64::MAX).ok());
        value.ok_or_else(|| self.refused(String::from("an expression has no value")))
    }
}

/// Whether a function may have saved a register for its caller: not where it returns to, which
/// always has a rule.
fn is_saved_by_some(reg: DwarfReg) -> bool {
    reg.get() != state::RETURN_ADDRESS
}

/// The byte order of an architecture; of this machine where it has none that is known.
pub(super) fn endian(arch: Option<Arch>) -> RunTimeEndian {
    let host = || match cfg!(target_endian = "big") {
        true => Endian::Big,
        false => Endian::Little,
    };
    match arch.map_or_else(host, Arch::endian) {
        Endian::Big => RunTimeEndian::Big,
        Endian::Little => RunTimeEndian::Little,
    }
}

fn section(arch: Option<Arch>, bytes: &[u8]) -> EhFrame<Slice<'_>> {
    let mut section = EhFrame::new(bytes, endian(arch));
    if arch == Some(Arch::AArch64) {
        // Its rule for signed return addresses has a number that others use differently.
        section.set_vendor(Vendor::AArch64);
    }
    section
}

fn bases(addr: CodeAddr) -> BaseAddresses {
    BaseAddresses::default().set_eh_frame(addr.get())
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Section")
            .field("addr", &self.addr)
            .field("entries", &self.index.len())
            .finish()
    }
}
