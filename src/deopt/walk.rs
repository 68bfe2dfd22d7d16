//! The compiled frames above the one in which a handler was called.
//!
//! Problem: a collector must find every reference on the stack, and a deoptimizer the frames that
//! called the one it leaves. Approach: from the captured registers, the unwind information of
//! each function tells where the caller's registers are, and the return address which record
//! describes the caller's values. Registers that a callee saved are known with the place where they
//! were saved, so that a moved reference can be written back.
//!
//! The walk ends where a return address is not in registered code: at a frame of the runtime.

#![allow(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Frame;
use super::host::{FRAME_ABOVE_STACK, before_low, in_order, state};
use super::unwinds;
use super::value::Value;
use crate::addr::{CodeAddr, DwarfReg};
use crate::deopt::{Error, Result};
use crate::engine::{Engine, WeakEngine};
use crate::memory::fork::gate::Writing;
use crate::site::{Function, Module, ModuleId, Site};
use crate::stackmap::{Constants, Location, LocationKind, Record, RecordRef, Statepoint};

/// Walks the stacks of an engine's code. It remembers the unwind information of modules, so one is
/// best kept; it does not keep the engine, so a handler may hold it.
pub struct Walker {
    engine: WeakEngine,
    /// The records by the addresses to which their calls return.
    records: Mutex<HashMap<ModuleId, Arc<BTreeMap<CodeAddr, RecordRef>>>>,
}

/// A register of a frame whose callees have run on: its value, and where it has been saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SavedRegister {
    value: u64,
    /// `None` while it is still in the register itself.
    at: Option<u64>,
}

type Registers = HashMap<DwarfReg, SavedRegister>;

impl Walker {
    /// A walker of the engine's code.
    #[must_use]
    pub fn new(engine: &Engine) -> Self {
        Self {
            engine: engine.downgrade(),
            records: Mutex::default(),
        }
    }

    /// The frames that called this one, the nearest first.
    #[must_use]
    pub fn callers<'w>(&'w self, frame: &'w Frame<'_>) -> Callers<'w> {
        let known = |reg: &u16| {
            let reg = DwarfReg::new(*reg);
            let at = None;
            Some((
                reg,
                SavedRegister {
                    value: frame.captured.base(reg)?,
                    at,
                },
            ))
        };
        let special = [state::STACK_POINTER.get(), state::RETURN_ADDRESS];
        let registers = state::CALLEE_SAVED
            .iter()
            .chain(&special)
            .filter_map(known)
            .collect();
        Callers {
            walker: self,
            frame: PhantomData,
            pc: frame.pc(),
            is_site: true,
            registers,
            outside: None,
            is_mirrored: frame.window.is_some(),
        }
    }

    /// Forgets a module that has been unregistered.
    pub fn forget(&self, module: ModuleId) {
        let _writing = Writing::enter();
        self.records.lock().remove(&module);
    }

    fn record_returning_to(&self, module: &Module, pc: CodeAddr) -> Result<Option<RecordRef>> {
        // Handlers run in a fork's child too, where the lock must be free.
        let _writing = Writing::enter();
        let mut all = self.records.lock();
        let records = match all.get(&module.id()) {
            Some(records) => records,
            None => {
                let records = Arc::new(module.record_addresses()?.collect());
                all.entry(module.id()).or_insert(records)
            }
        };
        Ok(records.get(&pc).copied())
    }
}

impl fmt::Debug for Walker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walker").finish_non_exhaustive()
    }
}

/// Iterates over the callers of a frame. After an error there is no further one.
pub struct Callers<'w> {
    walker: &'w Walker,
    frame: PhantomData<&'w ()>,
    /// The address in the frame whose caller comes next, and whether it is a site's, from which the
    /// frame was left, rather than a return address.
    pc: CodeAddr,
    is_site: bool,
    registers: Registers,
    outside: Option<CodeAddr>,
    /// Whether the frames are in a mirror.
    is_mirrored: bool,
}

impl<'w> Callers<'w> {
    /// The return address that ended the walk: it is in no registered code. `None` while it goes
    /// on.
    #[must_use]
    pub fn outside(&self) -> Option<CodeAddr> {
        self.outside
    }

    /// An address of the instruction that the frame is executing.
    fn executing(&self) -> CodeAddr {
        match self.is_site {
            true => self.pc,
            false => CodeAddr::new(self.pc.get().wrapping_sub(1)),
        }
    }

    fn step(&mut self) -> Result<Option<Caller<'w>>> {
        if self.is_mirrored {
            return Err(Error::Memory(crate::memory::Error::NotMirrored {
                what: "a walk to callers",
                mend: "keep what is asked of callers in shared data",
            }));
        }
        let executing = self.executing();
        let Some(engine) = self.walker.engine.upgrade() else {
            return Ok(None);
        };
        let Some(module) = engine.module_at(executing) else {
            return Ok(None);
        };
        let unwind = unwinds::covering(&module, executing)?;
        let unwind = unwind.ok_or(Error::UnwindMissing { pc: executing })?;
        let row = unwind.row(executing)?;
        let of = |reg: DwarfReg| self.registers.get(&reg).map(|known| known.value);
        // SAFETY: the frame is one of those above a frame that is at a registered site; its module's unwind
        // information, for which the runtime vouched, describes it.
        let frame = unsafe { row.frame(&of) }?;
        // SAFETY: as above.
        let back = unsafe { row.in_caller(DwarfReg::new(state::RETURN_ADDRESS), frame, &of) }?;
        let mut registers = Registers::new();
        for reg in state::CALLEE_SAVED.into_iter().map(DwarfReg::new) {
            // SAFETY: as above.
            let Ok(value) = (unsafe { row.in_caller(reg, frame, &of) }) else {
                continue;
            };
            let before = self.registers.get(&reg).and_then(|known| known.at);
            let at = row.saved_at(reg, frame).or(before);
            registers.insert(reg, SavedRegister { value, at });
        }
        let at = None;
        let value = frame.wrapping_sub(FRAME_ABOVE_STACK);
        registers.insert(state::STACK_POINTER, SavedRegister { value, at });
        (self.pc, self.is_site, self.registers) = (CodeAddr::new(back), false, registers);
        self.caller(&engine)
    }

    /// The frame that has been reached, if it is of registered code.
    fn caller(&mut self, engine: &Engine) -> Result<Option<Caller<'w>>> {
        let executing = self.executing();
        // A call of a live site's sequence returns into a stub, where the frame is as at the site.
        let from_stub = engine.site_of_stub(executing);
        if let Some(site) = &from_stub {
            (self.pc, self.is_site) = (site.addr(), true);
        }
        let Some(function) = engine.function_at(self.executing()) else {
            self.outside = Some(self.pc);
            return Ok(None);
        };
        let site = from_stub.or_else(|| engine.site_at(executing));
        let record = match &site {
            Some(_) => None,
            None => self.walker.record_returning_to(function.module(), self.pc)?,
        };
        Ok(Some(Caller {
            pc: self.pc,
            function,
            site,
            record,
            registers: self.registers.clone(),
            frame: PhantomData,
        }))
    }
}

impl<'w> Iterator for Callers<'w> {
    type Item = Result<Caller<'w>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.outside.is_some() {
            return None;
        }
        let step = self.step().transpose();
        if !matches!(step, Some(Ok(_))) && self.outside.is_none() {
            self.outside = Some(self.pc);
        }
        step
    }
}

impl fmt::Debug for Callers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers")
            .field("pc", &self.pc)
            .finish_non_exhaustive()
    }
}

/// A compiled frame that waits for a callee to return.
///
/// Of its registers those are known that the callee had to preserve.
#[derive(Clone)]
pub struct Caller<'w> {
    pc: CodeAddr,
    function: Function,
    site: Option<Site>,
    record: Option<RecordRef>,
    registers: Registers,
    /// The stack stays while the handler has its frame.
    frame: PhantomData<&'w ()>,
}

impl Caller<'_> {
    /// Where it goes on; for one that was left from a live site's stub, the site.
    #[must_use]
    pub fn pc(&self) -> CodeAddr {
        self.pc
    }

    /// Its function.
    #[must_use]
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// The site that holds the call, if one does.
    #[must_use]
    pub fn site(&self) -> Option<&Site> {
        self.site.as_ref()
    }

    /// Its stack pointer.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
    pub fn stack_pointer(&self) -> u64 {
        let known = self.register(state::STACK_POINTER);
        known.expect("the stack pointer of every frame is known")
    }

    /// A register, if it is known.
    #[must_use]
    pub fn register(&self, reg: DwarfReg) -> Option<u64> {
        self.registers.get(&reg).map(|known| known.value)
    }

    /// The record that describes its values: that of the site, or of the statepoint whose call
    /// returns here.
    #[must_use]
    pub fn record(&self) -> Option<(Record<'_>, Constants<'_>)> {
        match &self.site {
            Some(site) => site.record(),
            None => self.function.module().record(self.record?),
        }
    }

    /// The record as one of a statepoint, if it is one.
    #[must_use]
    pub fn statepoint(&self) -> Option<Statepoint<'_>> {
        let (record, constants) = self.record()?;
        match self.site {
            Some(_) => None,
            None => Statepoint::of(&record, constants),
        }
    }

    /// The value of a location of its record. Finding it there takes time in the number of
    /// locations.
    ///
    /// # Errors
    /// [`Error::CallerValue`]: the record has no such location, it is in a register that is not known, or larger than a value
    /// can be.
    pub fn read(&self, location: Location) -> Result<Value> {
        // protection: callers-values-are-their-records
        self.must_have(location)?;
        self.read_known(location)
    }

    /// The same of a location that is one of its record's.
    fn read_known(&self, location: Location) -> Result<Value> {
        self.place_of(location)?
            .read(location.size)
            .ok_or_else(|| self.no_value(location))
    }

    /// Writes a location of its record: after a collector has moved an object.
    ///
    /// # Errors
    /// [`Error::CallerValue`]: as for [`read`](Self::read); or the location is no place, or the value has not its
    /// size, or is in a register that no callee has saved: [`Frame::set_register`] writes that.
    pub fn write(&self, location: Location, value: Value) -> Result<()> {
        self.must_have(location)?;
        self.write_known(location, value)
    }

    fn write_known(&self, location: Location, value: Value) -> Result<()> {
        match self.place_of(location)? {
            Spot::Memory(at) if value.size() == location.size => {
                let (mut bytes, len) = (value.all_bytes(), value.bytes().len());
                let bytes = bytes.get_mut(..len).expect("a value is no longer than its room");
                in_order(bytes);
                // SAFETY: the record or the unwind information says that the frame has a value of this size there.
                unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
                Ok(())
            }
            _ => Err(self.no_value(location)),
        }
    }

    /// After a collector has moved objects: updates every reference of a statepoint's record, and
    /// what is derived from it, by the address that `moved` gives for the object at an address,
    /// always the same. Returns how many values were updated.
    ///
    /// # Errors
    /// [`Error::CallerValue`]: as for [`read`](Self::read) and [`write`](Self::write). Some may have been updated.
    pub fn move_references(&self, mut moved: impl FnMut(u64) -> u64) -> Result<usize> {
        let Some(statepoint) = self.statepoint() else {
            return Ok(0);
        };
        let pairs = || statepoint.references().enumerate();
        let word = |location| {
            let value = self.read_known(location)?.u64();
            value.ok_or_else(|| self.no_value(location))
        };
        let mut count = 0;
        // First what is derived: it needs the bases as they were.
        for (index, pair) in pairs().filter(|(_, pair)| pair.derived != pair.base) {
            if pairs()
                .take(index)
                .all(|(_, before)| before.derived != pair.derived)
            {
                let (base, derived) = (word(pair.base)?, word(pair.derived)?);
                let inside = derived.wrapping_sub(base);
                self.write_known(pair.derived, moved(base).wrapping_add(inside).into())?;
                count += 1;
            }
        }
        for (index, pair) in pairs() {
            if pairs().take(index).all(|(_, before)| before.base != pair.base) {
                self.write_known(pair.base, moved(word(pair.base)?).into())?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Refuses a location that is none of its record's: it could be the address of anything.
    fn must_have(&self, location: Location) -> Result<()> {
        let known = self.record().and_then(|(record, _)| {
            let mut locations = record.locations();
            locations.find(|known| *known == location)
        });
        known.map(drop).ok_or_else(|| self.no_value(location))
    }

    fn place_of(&self, location: Location) -> Result<Spot> {
        let base = |reg| self.registers.get(&reg).ok_or_else(|| self.no_value(location));
        let (_, constants) = self.record().ok_or_else(|| self.no_value(location))?;
        Ok(match location.kind {
            LocationKind::Register { reg, bit_offset: 0 } => match base(reg)? {
                SavedRegister { at: Some(at), .. } if location.size <= 8 => {
                    Spot::Memory(at.wrapping_add(before_low(8, location.size)))
                }
                known => Spot::Value(known.value),
            },
            LocationKind::Register { .. } => return Err(self.no_value(location)),
            LocationKind::Direct { reg, offset } => {
                Spot::Value(base(reg)?.value.wrapping_add_signed(offset.into()))
            }
            LocationKind::Indirect { reg, offset } => {
                Spot::Memory(base(reg)?.value.wrapping_add_signed(offset.into()))
            }
            LocationKind::Constant { value } => Spot::Value(i64::from(value) as u64),
            LocationKind::ConstantIndex { index } => {
                Spot::Value(constants.get(index).ok_or_else(|| self.no_value(location))?)
            }
        })
    }

    fn no_value(&self, location: Location) -> Error {
        Error::CallerValue {
            function: self.function.name().into(),
            pc: self.pc,
            location,
        }
    }
}

/// Where a value is.
enum Spot {
    Memory(u64),
    Value(u64),
}

impl Spot {
    fn read(self, size: u16) -> Option<Value> {
        match self {
            Self::Value(value) => Value::sign_extended(value as i64, size),
            Self::Memory(at) => {
                let mut bytes = [0; super::value::MAX];
                let to = bytes.get_mut(..usize::from(size))?;
                // SAFETY: the record or the unwind information says that the frame has a value of this size there.
                unsafe { core::ptr::copy_nonoverlapping(at as *const u8, to.as_mut_ptr(), to.len()) };
                in_order(to);
                Value::from_bytes(to)
            }
        }
    }
}

impl fmt::Debug for Caller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("function", &self.function)
            .field("pc", &self.pc)
            .field("site", &self.site.as_ref().map(Site::id))
            .finish_non_exhaustive()
    }
}
