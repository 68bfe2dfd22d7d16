//! Frames without unwind information: what the conventions and stack maps say of them.
//!
//! Frame pointers and back chains: System V x86-64 ABI, 3.2.2; AAPCS64, 6.4.6; 64-Bit ELF V2 ABI
//! 1.5, 2.2.2; ELF ABI, s390x Supplement, 1.2.2; RISC-V psABI, "Frame Pointer Convention". Where
//! LLVM puts what AArch64 and RISC-V leave open is as in its frame lowering.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use super::unwind::{Base, Saved, UnruledRegisters, UnwindRow};
use crate::addr::{CodeAddr, DwarfReg};
use crate::arch::{Arch, SiteKind};
use crate::deopt::{Error, Result};
use crate::site::{Module, Saves, UnwindBy};
use crate::stackmap::StackSize;
use crate::stackmap::flat::{FlatFrame, FlatFunction};

/// A function: its start, its end, and the size of its frame where the stack map tells it.
#[derive(Clone, Copy, Debug)]
struct KnownFunction {
    start: u64,
    end: u64,
    size: Option<u64>,
}

/// The functions of a module whose frames are as the conventions say.
#[derive(Clone, Debug)]
pub(super) struct Conventional {
    arch: Arch,
    by: UnwindBy,
    /// By start.
    functions: Vec<KnownFunction>,
    /// The ends of entry sites, where no frame has been made yet, with their starts.
    entries: Vec<(u64, u64)>,
    /// What a flat stack map tells of functions, by their starts, where that is asked for.
    frames: BTreeMap<u64, ToldFrame>,
}

/// What a flat stack map tells of a function.
#[derive(Clone, Debug)]
struct ToldFrame {
    frame: FlatFunction,
    lists_registers: bool,
}

impl From<FlatFrame<'_>> for ToldFrame {
    fn from(frame: FlatFrame<'_>) -> Self {
        Self {
            lists_registers: frame.lists_registers(),
            frame: frame.into(),
        }
    }
}

/// How the frame address is found from a frame pointer.
enum FrameBase {
    /// It is so far below.
    Above(i64),
    /// It does not; the size of the frame does.
    BySize,
    /// The back chain does, to so far below.
    ByChain(i64),
}

/// Where an architecture has things, by offsets from the frame address.
struct Layout {
    stack_pointer: u16,
    frame_pointer: u16,
    found: FrameBase,
    return_address: u16,
    saved_return_address: Saved,
    saved_frame_pointer: Saved,
    /// How far the frame address is above the stack pointer of a function that has made no frame.
    at_entry: i64,
}

fn layout(arch: Arch) -> Layout {
    match arch {
        Arch::X86_64 => Layout {
            stack_pointer: 7,
            frame_pointer: 6,
            found: FrameBase::Above(16),
            return_address: 16,
            saved_return_address: Saved::At(-8),
            saved_frame_pointer: Saved::At(-16),
            at_entry: 8,
        },
        Arch::AArch64 => Layout {
            stack_pointer: 31,
            frame_pointer: 29,
            found: FrameBase::BySize,
            return_address: 30,
            saved_return_address: Saved::AtRegister(DwarfReg::new(29), 8),
            saved_frame_pointer: Saved::AtRegister(DwarfReg::new(29), 0),
            at_entry: 0,
        },
        Arch::RiscV64 => Layout {
            stack_pointer: 2,
            frame_pointer: 8,
            found: FrameBase::Above(0),
            return_address: 1,
            saved_return_address: Saved::At(-8),
            saved_frame_pointer: Saved::At(-16),
            at_entry: 0,
        },
        Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => Layout {
            stack_pointer: 1,
            frame_pointer: 31,
            found: FrameBase::ByChain(0),
            return_address: 65,
            saved_return_address: Saved::At(16),
            saved_frame_pointer: Saved::At(-8),
            at_entry: 0,
        },
        Arch::SystemZ => Layout {
            stack_pointer: 15,
            frame_pointer: 11,
            found: FrameBase::ByChain(160),
            return_address: 14,
            // In its caller's save area, which ends at the frame address.
            saved_return_address: Saved::At(8 * 14 - 160),
            saved_frame_pointer: Saved::At(8 * 11 - 160),
            at_entry: 160,
        },
    }
}

impl ToldFrame {
    fn has_frame_pointer(&self, layout: &Layout) -> bool {
        self.frame.has_frame_pointer && self.frame.base.get() == layout.frame_pointer
    }
}

impl Conventional {
    pub(super) fn of(module: &Module) -> Self {
        let functions = module.functions().map(|function| KnownFunction {
            start: function.addr().get(),
            end: function.addr().get().saturating_add(function.len().get().into()),
            size: match function.stack_size() {
                Some(StackSize::Known(size)) => Some(size),
                _ => None,
            },
        });
        let entries = module
            .sites()
            .filter(|site| site.shape().kind() == SiteKind::Entry);
        let asked = module.unwind_by() == UnwindBy::FrameRecords;
        let frames = module.frames().filter(|_| asked);
        Self {
            frames: frames.map(|frame| (frame.address(), frame.into())).collect(),
            arch: module.arch(),
            by: module.unwind_by(),
            functions: functions.collect(),
            entries: entries
                .map(|site| (site.addr().get(), site.end().get()))
                .collect(),
        }
    }

    /// What holds at `pc`.
    pub(super) fn row(&self, pc: CodeAddr) -> Result<UnwindRow> {
        let missing = Error::UnwindMissing { pc };
        let after = self
            .functions
            .partition_point(|function| function.start <= pc.get());
        let function = after.checked_sub(1).and_then(|last| self.functions.get(last));
        let function = function
            .filter(|function| pc.get() < function.end)
            .ok_or(missing)?;
        let layout = layout(self.arch);
        let at_entry = |(start, end): &(u64, u64)| (*start..*end).contains(&pc.get());
        if self.entries.iter().any(at_entry) {
            return Ok(self.entry_row(pc, &layout));
        }
        if self.by == UnwindBy::FrameRecords {
            return self.told_row(pc, function, &layout);
        }
        let others = match self.by {
            UnwindBy::FramePointers(Saves::Nothing) => UnruledRegisters::Untouched,
            _ => UnruledRegisters::Unknown,
        };
        let mut saved = vec![(
            DwarfReg::new(layout.return_address),
            layout.saved_return_address.clone(),
        )];
        if matches!(self.by, UnwindBy::FramePointers(_)) || self.arch == Arch::AArch64 {
            let frame_pointer = DwarfReg::new(layout.frame_pointer);
            saved.push((frame_pointer, layout.saved_frame_pointer.clone()));
        }
        Ok(UnwindRow {
            pc,
            endian: super::unwind::endian(Some(self.arch)),
            base: self.base(pc, function, &layout)?,
            saved,
            others,
        })
    }

    /// What a flat stack map tells.
    fn told_row(&self, pc: CodeAddr, function: &KnownFunction, layout: &Layout) -> Result<UnwindRow> {
        let refused = |reason| Error::UnwindRule { pc, reason };
        let told = self.frames.get(&function.start);
        let told = told.ok_or_else(|| refused("no flat stack map has its function".into()))?;
        let base = match layout.found {
            FrameBase::Above(above) if told.has_frame_pointer(layout) => {
                Base::Register(told.frame.base, above)
            }
            _ => self.by_size(pc, function, layout)?,
        };
        let mut saved = Vec::new();
        for register in told.frame.registers.iter().filter(|register| register.is_spilled) {
            if register.size != 8 {
                let (size, reg) = (register.size, register.reg);
                return Err(refused(format!("it saved {size} bytes of {reg}, 8 are known")));
            }
            let offset = i64::from(register.offset);
            saved.push((
                register.reg,
                match base {
                    // From the frame address, a frame like it can be made.
                    Base::Register(from, above) if from == told.frame.base => Saved::At(offset - above),
                    _ => Saved::AtRegister(told.frame.base, offset),
                },
            ));
        }
        let mut by_convention = |reg, how: &Saved| {
            let reg = DwarfReg::new(reg);
            if !told.frame.registers.iter().any(|register| register.reg == reg) {
                saved.push((reg, how.clone()));
            }
        };
        by_convention(layout.return_address, &layout.saved_return_address);
        if told.has_frame_pointer(layout) {
            by_convention(layout.frame_pointer, &layout.saved_frame_pointer);
        }
        Ok(UnwindRow {
            pc,
            endian: super::unwind::endian(Some(self.arch)),
            base,
            saved,
            others: if told.lists_registers {
                UnruledRegisters::Untouched
            } else {
                UnruledRegisters::Unknown
            },
        })
    }

    /// The frame address, by the size that the stack map tells.
    fn by_size(&self, pc: CodeAddr, function: &KnownFunction, layout: &Layout) -> Result<Base> {
        let size = function.size.and_then(|size| i64::try_from(size).ok());
        let size = size.ok_or_else(|| Error::UnwindRule {
            pc,
            reason: "the stack map has no fixed stack size for its function".into(),
        })?;
        // What the stack map does not count is what is there before the function makes its frame.
        let stack = DwarfReg::new(layout.stack_pointer);
        Ok(Base::Register(stack, size.saturating_add(layout.at_entry)))
    }

    /// The frame address.
    fn base(&self, pc: CodeAddr, function: &KnownFunction, layout: &Layout) -> Result<Base> {
        let stack = DwarfReg::new(layout.stack_pointer);
        match (self.by, &layout.found) {
            (UnwindBy::StackSizes, _) | (_, FrameBase::BySize) => self.by_size(pc, function, layout),
            (_, FrameBase::Above(above)) => Ok(Base::Register(DwarfReg::new(layout.frame_pointer), *above)),
            (_, FrameBase::ByChain(above)) => Ok(Base::Chained(stack, *above)),
        }
    }

    /// Nothing has been saved yet but what the call has.
    fn entry_row(&self, pc: CodeAddr, layout: &Layout) -> UnwindRow {
        let return_address = DwarfReg::new(layout.return_address);
        let saved = match self.arch {
            Arch::X86_64 => vec![(return_address, Saved::At(-8))],
            _ => Vec::new(),
        };
        UnwindRow {
            pc,
            endian: super::unwind::endian(Some(self.arch)),
            base: Base::Register(DwarfReg::new(layout.stack_pointer), layout.at_entry),
            saved,
            others: UnruledRegisters::Untouched,
        }
    }
}
