#![allow(unsafe_code)]

use core::any::Any;
use core::fmt;
use core::marker::PhantomData;

use super::ExitStubSite;
use super::answer::Brand;
use super::host::{before_low, in_order, state};
use super::live_registers::Registers;
use super::unwind::UnwindInfo;
use super::value::{MAX, Value};
use crate::addr::{CodeAddr, CodeRange, DwarfReg};
use crate::arch::{Arch, Convention, SiteContext, SiteKind, conventions};
use crate::deopt::{Error, Result};
use crate::engine::{Engine, Role};
use crate::site::Site;
use crate::stackmap::{Location, LocationKind, Locations};

/// A compiled function's frame at a site: all registers as they were when the exit stub was
/// entered, or those that are live (see
/// [`ExitStubs::on_live_register_miss`](super::ExitStubs::on_live_register_miss)), and the values
/// of the site's record.
///
/// What is written here is what the code finds when the frame is resumed or continued. Addresses of
/// [`Direct`](LocationKind::Direct) and [`Indirect`](LocationKind::Indirect) locations are always
/// computed from the registers as they were at the site.
pub struct Frame<'f> {
    pub(super) captured: Registers<'f>,
    /// By reference: it is long, and each exit would copy it.
    pub(super) site: &'f SiteContext<'f>,
    /// Asked for what most handlers do not need.
    exit: &'f dyn ExitStubSite,
    role: Role,
    /// The stack, where the frame is one in a mirror: nothing else is read or written for it.
    pub(super) window: Option<CodeRange>,
    brand: Brand<'f>,
}

impl<'f> Frame<'f> {
    #[allow(dead_code, reason = "nothing is captured on hosts without exit stubs")]
    pub(super) fn new(
        captured: Registers<'f>,
        (exit, site): (&'f dyn ExitStubSite, &'f SiteContext<'f>),
        role: Role,
    ) -> Self {
        Self {
            captured,
            site,
            exit,
            role,
            window: None,
            brand: PhantomData,
        }
    }

    /// The same for a frame in a mirror, whose registers are not to be trusted with an address
    /// outside of this.
    pub(super) fn within(self, window: CodeRange) -> Self {
        Self {
            window: Some(window),
            ..self
        }
    }

    /// The unwind information of the site's function, if there is any.
    pub(super) fn unwind(&self) -> Result<Option<&'f UnwindInfo>> {
        self.exit.unwind()
    }

    /// Refuses an address at which a mirror has nothing of this frame.
    fn check_window(&self, at: u64, len: usize) -> Result<()> {
        match self.window {
            Some(window) if !window.contains_bytes(CodeAddr::new(at), len as u64) => {
                Err(Error::FrameOutside {
                    id: self.site.id,
                    addr: self.site.addr,
                    at,
                    stack: window,
                })
            }
            _ => Ok(()),
        }
    }

    /// The site: what a handler patches, or describes.
    ///
    /// # Panics
    /// The exit stub was made by hand, by [`ExitStubContext::new`](super::ExitStubContext::new), for a site that no engine knows. Then its
    /// [context](Self::context) is all that is known of it.
    #[must_use]
    pub fn site(&self) -> &'f Site {
        self.exit
            .registered()
            .expect("this frame is of an exit stub that was made by hand: ask for its context")
    }

    /// The engine of the site.
    ///
    /// # Panics
    /// As [`site`](Self::site); and if the last handle of the engine has been dropped while its code was executed, which whoever
    /// calls that code promises not to do.
    #[must_use]
    pub fn engine(&self) -> Engine {
        let engine = self.site().module().engine();
        engine.expect("an engine is kept while its code is executed")
    }

    /// What an assembler and a checker know of the site: its ID, its address, its shape and its
    /// record.
    #[must_use]
    pub fn context(&self) -> &SiteContext<'f> {
        self.site
    }

    /// Why the exit stub was entered.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// What the runtime has [attached](crate::site::Site::describe) to the site, if it is of this
    /// type.
    #[must_use]
    pub fn description<T: Any>(&self) -> Option<&'f T> {
        self.exit.description()?.downcast_ref()
    }

    /// The address of the site's first byte, from which the frame came.
    #[must_use]
    pub fn pc(&self) -> CodeAddr {
        self.site.addr
    }

    /// The stack pointer at the site.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
    pub fn stack_pointer(&self) -> u64 {
        let captured = self.captured.base(state::STACK_POINTER);
        captured.expect("every exit stub captures the stack pointer")
    }

    /// The flags register (rflags); 0 in a frame of which only live registers were saved. On
    /// AArch64 NZCV; on SystemZ condition code and program mask, where INSERT PROGRAM MASK puts
    /// them.
    #[must_use]
    pub fn flags(&self) -> u64 {
        self.captured.flags()
    }

    /// Sets the flags that code computes with (CF, PF, AF, ZF, SF, DF, OF; N, Z, C, V; the
    /// condition code); the others stay.
    ///
    /// # Safety
    /// As for [`set_register`](Self::set_register).
    pub unsafe fn set_flags(&mut self, flags: u64) {
        self.captured.set_flags(flags);
    }

    // ---- registers ----

    /// The whole of a register: 8 bytes of a general one; of a vector register as many as the
    /// machine has.
    ///
    /// # Errors
    /// The register was not captured.
    pub fn register(&self, reg: DwarfReg) -> Result<Value> {
        let (_, width) = self.captured.read(reg);
        match width {
            0 => Err(self.no_register(reg, 0, 8, width)),
            _ => self.read_register(reg, 0, whole_size(self.site.arch, reg, width)),
        }
    }

    /// Writes the low bytes of a register; the others stay. The result and the record's values are
    /// written by [`set_result`](Self::set_result) and [`set_value`](Self::set_value), which are
    /// safe.
    ///
    /// # Safety
    /// If the frame is resumed or continued, the code that goes on can go on with this value in the register.
    ///
    /// # Errors
    /// The register has not as many bytes, was not captured, or is the stack pointer, which only an
    /// [answer](Self::continue_with_stack) can change.
    pub unsafe fn set_register(&mut self, reg: DwarfReg, value: Value) -> Result<()> {
        self.write_register(reg, 0, value)
    }

    fn no_register(&self, reg: DwarfReg, bit_offset: i32, size: u16, have: usize) -> Error {
        Error::FrameRegister {
            id: self.site.id,
            addr: self.site.addr,
            reg,
            bit_offset,
            size,
            have: have as u16,
        }
    }

    pub(super) fn read_register(&self, reg: DwarfReg, bit_offset: i32, size: u16) -> Result<Value> {
        if let Some(word) = self.word_at(reg, bit_offset, size) {
            return Ok(word.into());
        }
        let (bytes, width) = self.captured.read(reg);
        if size == 4 && holds_doubles(self.site.arch, reg) {
            let number = bytes.get(..width).and_then(|bytes| bytes.last_chunk());
            let number = number.ok_or_else(|| self.no_register(reg, bit_offset, size, width))?;
            return Ok(Value::double_as_single(f64::from_le_bytes(*number)));
        }
        let first = first_bit(self.site.arch, reg, bit_offset, size, width);
        part(first, size, width)
            .and_then(|part| bytes.get(part))
            .and_then(Value::from_bytes)
            .ok_or_else(|| self.no_register(reg, bit_offset, size, width))
    }

    /// The word of a register that has no more, if that is what is asked for.
    #[inline]
    fn word_at(&self, reg: DwarfReg, bit_offset: i32, size: u16) -> Option<u64> {
        let whole = (bit_offset, size) == (0, 8);
        whole.then(|| self.captured.word(reg)).flatten()
    }

    fn write_register(&mut self, reg: DwarfReg, bit_offset: i32, value: Value) -> Result<()> {
        // protection: stack-pointer-is-not-written
        if reg == state::STACK_POINTER {
            return Err(self.no_register(reg, bit_offset, value.size(), 0));
        }
        if let (0, 8, Some(word)) = (bit_offset, value.size(), value.u64()) {
            if self.captured.set_word(reg, word) {
                return Ok(());
            }
        }
        let (mut bytes, width) = self.captured.read(reg);
        let value = match value.f32().filter(|_| value.size() == 4) {
            Some(number) if holds_doubles(self.site.arch, reg) => Value::single_as_double(number),
            _ => value,
        };
        let size = value.size();
        let refused = || self.no_register(reg, bit_offset, size, width);
        let first = first_bit(self.site.arch, reg, bit_offset, size, width);
        let part = part(first, size, width).ok_or_else(refused)?;
        let end = part.end;
        let to = bytes.get_mut(part).ok_or_else(refused)?;
        to.copy_from_slice(value.bytes());
        if let Some(new) = bytes.get(..end) {
            self.captured.write(reg, new);
        }
        Ok(())
    }

    // ---- locations ----

    /// The value of a location of the site's record. Finding it there takes time in the number of
    /// locations; [`value`](Self::value) and [`live_values`](Self::live_values) do without.
    ///
    /// # Errors
    /// The record has no such location, or its value cannot be read.
    pub fn read(&self, location: Location) -> Result<Value> {
        self.must_have(location)?;
        self.read_known(location)
    }

    /// The value of the location at `index` of the site's record: at an `anyregcc` patchpoint the
    /// result, if it has one, and the arguments come first.
    ///
    /// # Errors
    /// The record has no such location, or its value cannot be read.
    pub fn value(&self, index: usize) -> Result<Value> {
        let location = self.location(index)?;
        self.read_known(location)
    }

    /// The live values: the locations behind the result and the arguments, in order.
    #[must_use]
    pub fn live_values(&self) -> Values<'_, 'f> {
        Values {
            frame: self,
            next: self.first_live(),
        }
    }

    /// The live value at `index`.
    ///
    /// # Errors
    /// There are fewer, or it cannot be read.
    pub fn live_value(&self, index: usize) -> Result<Value> {
        let (first, count) = (self.first_live(), self.location_count());
        let location = first
            .checked_add(index)
            .and_then(|at| self.locations()?.get(at))
            .ok_or_else(|| self.no_index("live value", index, count.saturating_sub(first)))?;
        self.read_known(location)
    }

    /// Writes the value of a location of the site's record: a register, or a spilled value in
    /// memory.
    ///
    /// # Errors
    /// The record has no such location, the value has not its size, or it is a constant or an address.
    pub fn write(&mut self, location: Location, value: Value) -> Result<()> {
        self.must_have(location)?;
        self.write_known(location, value)
    }

    /// Writes the value of the location at `index` of the site's record.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn set_value(&mut self, index: usize, value: Value) -> Result<()> {
        let location = self.location(index)?;
        self.write_known(location, value)
    }

    fn locations(&self) -> Option<Locations<'f>> {
        self.site.record.map(|record| record.locations())
    }

    fn location_count(&self) -> usize {
        self.locations().map_or(0, |locations| locations.len())
    }

    fn location(&self, index: usize) -> Result<Location> {
        self.locations()
            .and_then(|locations| locations.get(index))
            .ok_or_else(|| self.no_index("location", index, self.location_count()))
    }

    fn no_index(&self, what: &'static str, index: usize, have: usize) -> Error {
        Error::FrameIndex {
            id: self.site.id,
            addr: self.site.addr,
            what,
            index,
            have,
        }
    }

    fn is_any_reg_call(&self) -> bool {
        matches!(self.site.shape.kind(), SiteKind::Patchpoint | SiteKind::Told)
            && self.site.shape.convention() == Convention::AnyReg
    }

    fn first_arg(&self) -> usize {
        usize::from(self.site.shape.has_result())
    }

    fn first_live(&self) -> usize {
        if self.is_any_reg_call() {
            self.first_arg() + self.site.shape.arg_count() as usize
        } else {
            0
        }
    }

    fn must_have(&self, location: Location) -> Result<()> {
        if self
            .locations()
            .is_some_and(|mut all| all.any(|other| other == location))
        {
            return Ok(());
        }
        Err(Error::FrameLocation {
            id: self.site.id,
            addr: self.site.addr,
            location,
        })
    }

    fn no_value(&self, location: Location, found: u16, limit: u16) -> Error {
        Error::FrameValue {
            id: self.site.id,
            addr: self.site.addr,
            location,
            found,
            limit,
        }
    }

    /// `location` is one of the record's, or computed from the site's shape.
    fn read_known(&self, location: Location) -> Result<Value> {
        let size = location.size;
        let too_wide = || self.no_value(location, size, MAX as u16);
        match location.kind {
            LocationKind::Register { reg, bit_offset } => self.read_register(reg, bit_offset, size),
            LocationKind::Direct { reg, offset } => Ok(Value::from(self.address(reg, offset)?)),
            LocationKind::Indirect { reg, offset } => {
                let from = self.address(reg, offset)?;
                self.check_window(from, size.into())?;
                let from = from as *const u8;
                let mut bytes = [0; MAX];
                let to = bytes.get_mut(..usize::from(size)).ok_or_else(too_wide)?;
                // SAFETY: the record, which the exit stub's creator vouches for, says that the compiled code has a
                // spilled value of this size there; the base is the register as it was at the site.
                unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
                in_order(to);
                Value::from_bytes(to).ok_or_else(too_wide)
            }
            LocationKind::Constant { value } => Value::sign_extended(value.into(), size).ok_or_else(too_wide),
            LocationKind::ConstantIndex { index } => {
                let value = self.site.constants.get(index).ok_or_else(|| {
                    self.no_index("constant", index as usize, self.site.constants.len() as usize)
                })?;
                Value::sign_extended(value as i64, size).ok_or_else(too_wide)
            }
        }
    }

    fn write_known(&mut self, location: Location, value: Value) -> Result<()> {
        match location.kind {
            LocationKind::Register { reg, bit_offset } if value.size() <= location.size => {
                self.write_register(reg, bit_offset, value)
            }
            // protection: values-fit-their-locations
            LocationKind::Indirect { reg, offset } if value.size() <= location.size => {
                let before = before_low(location.size, value.size());
                let to = self.address(reg, offset)?.wrapping_add(before);
                let (mut from, len) = (value.all_bytes(), value.bytes().len());
                self.check_window(to, len)?;
                let to = to as *mut u8;
                let from = from.get_mut(..len).expect("a value is no longer than its room");
                in_order(from);
                // SAFETY: as in `read_known`; the value is not longer than what the record says is there.
                unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
                Ok(())
            }
            LocationKind::Register { .. } | LocationKind::Indirect { .. } => {
                Err(self.no_value(location, value.size(), location.size))
            }
            LocationKind::Direct { .. }
            | LocationKind::Constant { .. }
            | LocationKind::ConstantIndex { .. } => Err(self.no_value(location, value.size(), 0)),
        }
    }

    fn address(&self, reg: DwarfReg, offset: i32) -> Result<u64> {
        self.captured
            .base(reg)
            .map(|base| base.wrapping_add_signed(offset.into()))
            .ok_or_else(|| self.no_register(reg, 0, 8, 0))
    }

    // ---- the call ----

    /// The patchpoint's argument at `index`, as a number of 8 bytes or fewer; fewer are extended
    /// with zeros.
    ///
    /// # Errors
    /// As [`arg`](Self::arg); and the argument has more than 8 bytes.
    pub fn arg_u64(&self, index: usize) -> Result<u64> {
        let value = self.arg(index)?;
        value.u64().ok_or_else(|| Error::FrameWide {
            id: self.site.id,
            addr: self.site.addr,
            what: "argument",
            index,
            size: value.size(),
        })
    }

    /// The live value at `index`, as a number of 8 bytes or fewer; fewer are extended with zeros.
    ///
    /// # Errors
    /// As [`live_value`](Self::live_value); and the value has more than 8 bytes.
    pub fn live_u64(&self, index: usize) -> Result<u64> {
        let value = self.live_value(index)?;
        value.u64().ok_or_else(|| Error::FrameWide {
            id: self.site.id,
            addr: self.site.addr,
            what: "live value",
            index,
            size: value.size(),
        })
    }

    /// The patchpoint's argument at `index`. With `anyregcc` it has the size of its location. With
    /// the C convention all arguments are taken to be integers of 8 bytes (see
    /// [`float_arg`](Self::float_arg)), in registers and, beyond those of the convention, on the
    /// stack.
    ///
    /// # Errors
    /// The shape has fewer arguments, or its value cannot be read.
    pub fn arg(&self, index: usize) -> Result<Value> {
        let count = self.site.shape.arg_count() as usize;
        if index >= count {
            return Err(self.no_index("argument", index, count));
        }
        if self.is_any_reg_call() {
            return self.value(self.first_arg() + index);
        }
        if let Some(reg) = state::ARGS.get(index) {
            return self.read_register(DwarfReg::new(*reg), 0, 8);
        }
        let slot = index
            .checked_sub(state::ARGS.len())
            .and_then(|slot| i32::try_from(slot).ok()?.checked_mul(8))
            .and_then(|slot| slot.checked_add(self.first_stack_arg()))
            .ok_or_else(|| self.no_index("argument", index, count))?;
        self.read_known(Location {
            kind: LocationKind::Indirect {
                reg: state::STACK_POINTER,
                offset: slot,
            },
            size: 8,
        })
    }

    /// The distance of the first argument on the stack from the stack pointer.
    fn first_stack_arg(&self) -> i32 {
        let registers = conventions::of(self.site.arch);
        match self.site.shape.kind() {
            SiteKind::Entry => registers.stack_args_at_entry,
            _ => registers.stack_args,
        }
    }

    /// The floating-point or vector argument at `index` among those of its kind, of a patchpoint or
    /// entry with the C convention: the whole register.
    ///
    /// # Errors
    /// It is not passed in a register, or the convention is another.
    pub fn float_arg(&self, index: usize) -> Result<Value> {
        let mut regs = state::FLOAT_ARGS;
        match regs.nth(index) {
            Some(reg) if !self.is_any_reg_call() => self.register(DwarfReg::new(reg)),
            _ => Err(self.no_index("floating-point argument", index, state::FLOAT_ARGS.len())),
        }
    }

    /// Sets the result of the patchpoint to an integer.
    ///
    /// # Errors
    /// The shape has no result, or it is not in an 8-byte register.
    pub fn set_result(&mut self, value: u64) -> Result<()> {
        self.set_result_in(state::RESULT, value.into())
    }

    /// Sets the result of the patchpoint to a floating-point number.
    ///
    /// # Errors
    /// The shape has no result, or it is not in a register of 8 bytes or more.
    pub fn set_float_result(&mut self, value: f64) -> Result<()> {
        self.set_result_in(state::FLOAT_RESULT, value.into())
    }

    /// Sets the result to a word, or to as many of its low bytes as the result has.
    pub(super) fn set_word(&mut self, word: u64) -> Result<()> {
        let size = match self.is_any_reg_call() {
            true => self.location(0)?.size,
            false => 8,
        };
        let bytes = word.to_le_bytes();
        let low = bytes.get(..usize::from(size)).unwrap_or(&bytes);
        self.set_result_in(state::RESULT, Value::from_bytes(low).unwrap_or(word.into()))
    }

    fn set_result_in(&mut self, by_convention: DwarfReg, value: Value) -> Result<()> {
        if !self.site.shape.has_result() {
            return Err(self.no_index("result", 0, 0));
        }
        if self.is_any_reg_call() {
            self.set_value(0, value)
        } else {
            self.write_register(by_convention, 0, value)
        }
    }
}

/// Whether this is the number of a floating-point register which is the left half of a vector
/// register: f0 to f15 of SystemZ, f0 to f31 of PowerPC64. The vector register has the same number.
fn is_left_half(arch: Arch, reg: DwarfReg) -> bool {
    match arch {
        Arch::SystemZ => (16..32).contains(&reg.get()),
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => (32..64).contains(&reg.get()),
        Arch::X86_64 | Arch::AArch64 | Arch::RiscV64 => false,
    }
}

/// The size of a register under its number, of which `width` bytes were captured.
fn whole_size(arch: Arch, reg: DwarfReg, width: usize) -> u16 {
    match is_left_half(arch, reg) {
        true => 8,
        false => width as u16,
    }
}

/// Whether numbers of single precision are in this register in the double format: in those of
/// PowerPC64 for floating-point numbers.
pub(super) fn holds_doubles(arch: Arch, reg: DwarfReg) -> bool {
    arch.is_powerpc64() && (32..64).contains(&reg.get())
}

/// The lowest bit of a value in the `width` captured bytes of a register. What fits a
/// floating-point register is in the left half of the vector register, and short numbers of SystemZ
/// in the left half of that.
fn first_bit(arch: Arch, reg: DwarfReg, bit_offset: i32, size: u16, width: usize) -> i32 {
    if !is_left_half(arch, reg) || size > 8 {
        return bit_offset;
    }
    let half = if width > 8 { 64 } else { 0 };
    match (bit_offset, size) {
        (0, 0..=4) if arch == Arch::SystemZ => half + 32,
        _ => bit_offset.saturating_add(half),
    }
}

/// The bytes of a part of a register of `width` bytes, if it has them.
fn part(bit_offset: i32, size: u16, width: usize) -> Option<core::ops::Range<usize>> {
    let bits = usize::try_from(bit_offset).ok().filter(|bits| bits % 8 == 0)?;
    let start = bits / 8;
    let end = start.checked_add(usize::from(size))?;
    (end <= width).then_some(start..end)
}

impl fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("id", &self.site.id)
            .field("pc", &self.pc())
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// Iterates over the live values of a frame, each with its location.
#[derive(Clone, Debug)]
pub struct Values<'a, 'f> {
    frame: &'a Frame<'f>,
    next: usize,
}

impl Iterator for Values<'_, '_> {
    type Item = (Location, Result<Value>);

    fn next(&mut self) -> Option<Self::Item> {
        let location = self.frame.locations()?.get(self.next)?;
        self.next += 1;
        Some((location, self.frame.read_known(location)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.frame.location_count().saturating_sub(self.next);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Values<'_, '_> {}
