//! A frame that is pushed in place of a compiled one.

use super::host::{CALLEE_AREA, FRAME_ABOVE_STACK, in_order, own_return_slot, state};
use super::replace::{Replacement, Saved, index_of};
use super::unwind::UnwindRow;
use super::value::Value;
use crate::addr::{CodeAddr, DwarfReg};
use crate::arch::Arch;
use crate::deopt::{Error, Result};
use crate::stackmap::{Location, LocationKind};

/// The innermost frame of a [`Replacement`].
#[derive(Debug)]
pub struct NewFrame<'r, 'f> {
    pub(super) replacement: &'r mut Replacement<'f>,
    pub(super) size: u32,
    /// What its caller has in the registers.
    pub(super) caller: Saved,
    pub(super) return_to: CodeAddr,
}

impl NewFrame<'_, '_> {
    /// Its lowest address: its stack pointer while it calls the next frame, or when the thread goes
    /// on in it.
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        self.replacement.stack_pointer()
    }

    /// Where it returns to: where the frame outside it goes on, or the compiled function's return
    /// address.
    #[must_use]
    pub fn return_address(&self) -> CodeAddr {
        self.return_to
    }

    /// Writes a value at so many bytes from its stack pointer, in the order of memory.
    ///
    /// # Errors
    /// [`Error::NewFramePlace`]: it does not lie in the frame, nor in the part of its caller's that callees write (on
    /// PowerPC64 the first 24 bytes, on SystemZ the first 160).
    pub fn put(&mut self, offset: u32, value: Value) -> Result<()> {
        let size = value.bytes().len();
        let refused = Error::NewFramePlace {
            id: self.replacement.id,
            addr: self.replacement.addr,
            offset,
            len: size,
            size: self.size,
        };
        let start = offset as usize;
        // protection: new-frames-keep-their-bounds
        let room = self.size as usize + CALLEE_AREA;
        let place = self.replacement.bytes.get_mut(..room);
        let place = place.and_then(|place| place.get_mut(start..start.checked_add(size)?));
        let place = place.ok_or(refused)?;
        place.copy_from_slice(value.bytes());
        in_order(place);
        Ok(())
    }

    /// Writes the value that its caller has in a register, which it has to preserve: where its
    /// prologue saves it.
    ///
    /// # Errors
    /// [`Error::FrameRegister`]: functions do not preserve it. As [`put`](Self::put).
    pub fn save(&mut self, reg: DwarfReg, offset: u32) -> Result<()> {
        let value = index_of(reg).and_then(|index| self.caller.get(index)).copied();
        let value = value.ok_or_else(|| self.replacement.no_register(reg))?;
        self.put(offset, value.into())
    }

    /// Writes where it returns to, where its prologue saves it.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn save_return_address(&mut self, offset: u32) -> Result<()> {
        self.put(offset, self.return_to.get().into())
    }

    /// Writes what the conventions put at a place of theirs.
    pub(super) fn keep_conventions(&mut self) -> Result<()> {
        if matches!(
            self.replacement.arch,
            Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 | Arch::SystemZ
        ) {
            self.put(0, self.above().into())?;
        }
        if let Some(from_top) = own_return_slot() {
            self.save_return_address(self.size.wrapping_add_signed(from_top))?;
        }
        if self.replacement.arch == Arch::SystemZ {
            self.save_as_systemz()?;
        }
        Ok(())
    }

    /// Saves r6 to r15 where the save area has a place for each (ELF ABI, s390x Supplement,
    /// 1.2.2.2): functions store and load a range of them at once, and tell of those only that they
    /// use.
    fn save_as_systemz(&mut self) -> Result<()> {
        let area = self.size;
        for reg in 6..14 {
            self.save(DwarfReg::new(reg), area.wrapping_add(8 * u32::from(reg)))?;
        }
        self.save_return_address(area.wrapping_add(8 * 14))?;
        self.put(area.wrapping_add(8 * 15), self.above().into())
    }

    /// The stack pointer of its caller.
    fn above(&self) -> u64 {
        self.stack_pointer().wrapping_add(self.size.into())
    }

    /// Saves what the prologue has, and sets the frame pointer.
    pub(super) fn set_up(&mut self, row: &UnwindRow) -> Result<()> {
        let frame = self.above().wrapping_add(FRAME_ABOVE_STACK);
        if let Some((reg, offset)) = row
            .base_register()
            .filter(|(reg, _)| *reg != state::STACK_POINTER)
        {
            self.set_register(reg, frame.wrapping_sub(offset as u64))?;
        }
        let return_address = DwarfReg::new(state::RETURN_ADDRESS);
        let mut has_saved_return_address = false;
        for (reg, at) in row.saved_in_memory(frame) {
            let offset = self.offset_of(at)?;
            if reg == return_address {
                has_saved_return_address = true;
                self.save_return_address(offset)?;
            } else if reg == state::STACK_POINTER {
                self.put(offset, self.above().into())?;
            } else {
                self.save(reg, offset)?;
            }
        }
        if !has_saved_return_address {
            let return_to = self.return_to.get();
            self.replacement
                .registers
                .push((return_address, return_to.into()));
            self.replacement.keeps_return_address = true;
        }
        Ok(())
    }

    /// How far above its stack pointer an address is; one that is below lies in no frame.
    fn offset_of(&self, at: u64) -> Result<u32> {
        let offset = at
            .checked_sub(self.stack_pointer())
            .and_then(|offset| u32::try_from(offset).ok());
        offset.ok_or(Error::NewFramePlace {
            id: self.replacement.id,
            addr: self.replacement.addr,
            offset: u32::MAX,
            len: 0,
            size: self.size,
        })
    }

    /// Sets what a location of a record stands for at the place where the frame goes on: a
    /// register; a word that was spilled to the frame; or, where the location is the address of a
    /// slot, what is in the slot.
    ///
    /// Registers that functions do not preserve are those of the innermost frame: they are
    /// forgotten when another is pushed.
    ///
    /// # Errors
    /// [`Error::FrameValue`]: the location is a constant. [`Error::FrameRegister`]: it is relative to a register that
    /// is not known. As [`put`](Self::put).
    pub fn set(&mut self, location: Location, value: Value) -> Result<()> {
        match location.kind {
            LocationKind::Register { reg, bit_offset: 0 } => match (index_of(reg), value.u64()) {
                (Some(_), Some(word)) => self.set_register(reg, word),
                _ => {
                    self.replacement.registers.push((reg, value));
                    Ok(())
                }
            },
            _ => {
                let offset = self.offset_of(self.address_of(location)?)?;
                self.put(offset, value)
            }
        }
    }

    /// The address that a location stands for: of a slot, or of a spilled value.
    ///
    /// # Errors
    /// [`Error::FrameValue`]: it is no address. [`Error::FrameRegister`]: it is relative to a register that is not known.
    pub fn address_of(&self, location: Location) -> Result<u64> {
        let (LocationKind::Direct { reg, offset } | LocationKind::Indirect { reg, offset }) = location.kind
        else {
            return Err(Error::FrameValue {
                id: self.replacement.id,
                addr: self.replacement.addr,
                location,
                found: location.size,
                limit: 0,
            });
        };
        let base = match reg {
            state::STACK_POINTER => self.stack_pointer(),
            _ => self.replacement.register(reg)?,
        };
        Ok(base.wrapping_add_signed(offset.into()))
    }

    /// What its code has in a register that functions preserve, when it goes on.
    ///
    /// # Errors
    /// [`Error::FrameRegister`]: functions do not preserve it.
    pub fn set_register(&mut self, reg: DwarfReg, value: u64) -> Result<()> {
        let refused = self.replacement.no_register(reg);
        let slot = index_of(reg).and_then(|index| self.replacement.saved.get_mut(index));
        *slot.ok_or(refused)? = value;
        Ok(())
    }
}
