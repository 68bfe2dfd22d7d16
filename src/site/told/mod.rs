//! Told sites: places in code of which a runtime, or a compiler other than LLVM, says what is
//! there.
//!
//! Problem: an emitter of one's own, Cranelift, `asm goto` and assembly leave places to be patched,
//! and write no stack map about them. Nobody knows then how long they are, what is in them, where
//! the values are that a sequence works on, and which registers it may change. Approach: a
//! [`SiteSpec`] tells all of that, and registration audits it against the code as it audits the
//! rest: the site lies in its function, starts and ends with an instruction, holds what was told,
//! and nothing else begins in it or branches into it. What was told of operands becomes a record
//! like LLVM's, so that sequences, handlers and the checker find arguments, result and values where
//! they look for those of a patchpoint.
//!
//! Nothing counts as free that was not said to be. At a site that tells registers a sequence has no
//! scratch register, changes no flags, pushes nothing and calls nothing, unless
//! [`free`](SiteSpec::free), [`free_flags`](SiteSpec::free_flags) and
//! [`free_stack`](SiteSpec::free_stack) say that it may. A site with the C
//! [convention](SiteSpec::convention) is one at which a C function could be called.
//!
//! Told sites are patched, restored, armed and [invalidated](crate::Engine::invalidate) as
//! patchpoints are. The instructions that a patch replaces are not executed any more; an exit that
//! resumes executes them in its stub.
//!
//! # An example
//!
//! A function that an emitter has made: `lea rax, [rdi + rdi]`, five bytes of nops, `ret`. In the nops
//! the result can be corrected.
//!
#![cfg_attr(all(target_arch = "x86_64", target_os = "linux", not(miri)), doc = "```")]
#![cfg_attr(
    not(all(target_arch = "x86_64", target_os = "linux", not(miri))),
    doc = "```ignore"
)]
//! use std::sync::Arc;
//!
//! use patchpoint::addr::Len;
//! use patchpoint::arch::{Arch, x86_64};
//! use patchpoint::image::Adoption;
//! use patchpoint::memory::{Arena, CodeMemory, Reach, SegmentKind, SegmentNeed};
//! use patchpoint::publish::SingleThreaded;
//! use patchpoint::sequence::{Sequence, arg, result};
//! use patchpoint::site::SiteSpec;
//! use patchpoint::Engine;
//!
//! # fn main() -> patchpoint::Result<()> {
//! let code = [0x48, 0x8d, 0x04, 0x3f, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3];
//! let need = SegmentNeed { kind: SegmentKind::Code, len: 4096, align: 64 };
//! let mut placement = Arena::default().place(&[need], Reach::Anywhere)?;
//! let start = placement.segments()[0].range.start();
//! placement.fill(start, &code)?;
//! let placed = placement.finalize()?;
//!
//! // SAFETY: this example has one thread.
//! let engine = Engine::builder().world(unsafe { SingleThreaded::promise() }).build()?;
//! let adoption = Adoption::without_stack_maps(Arch::X86_64).function("twice", start, Len::new(10));
//! // SAFETY: the function is there as long as `placed` is, and nobody else writes to it.
//! let adopted = unsafe { adoption.not_yet_run().promise() }?;
//! // SAFETY: the engine alone writes through it, what it has checked.
//! let memory: Arc<dyn CodeMemory> = Arc::new(unsafe { placed.writable() });
//! let code = engine.adopt_with(adopted, &memory)?;
//! let site = SiteSpec::nops("twice", 4, 5)
//!     .id(78)
//!     .arg(x86_64::RDI)
//!     .result(x86_64::RAX)
//!     .free_flags(); // nobody looks at them before the return
//! // SAFETY: what is told of the function is true.
//! let module = unsafe { engine.registration(code).site(site).finish() }?;
//! module.release();
//!
//! // SAFETY: it takes a number and returns one.
//! let twice = unsafe { module.function("twice")?.typed::<extern "C" fn(u64) -> u64>() }?;
//! assert_eq!(twice(4), 8);
//! engine.patch(78, &Sequence::new().add(result(), arg(0)))?;
//! assert_eq!(twice(4), 12);
//! engine.restore(78)?;
//! assert_eq!(twice(4), 8);
//! # drop(module);
//! # drop(placed);
//! # Ok(())
//! # }
//! ```

mod audit;
mod record;
#[cfg(test)]
mod tests;

use crate::addr::{DwarfReg, FnOffset, RecordId};
use crate::arch::{CallShape, Convention, RegSet};

pub(super) use audit::{FoundReturns, audit};

/// What a told site holds before it is patched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ToldContent {
    Nops,
    Call,
    Jump,
    Instructions(Vec<u8>),
}

/// Tells of a site: where it is, what stands there, where its values are, and what a sequence may
/// change. The [module](self) says more.
///
/// Registers are given by their DWARF numbers, as the modules of [`arch`](crate::arch) name them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a site is registered with `Registration::site`"]
pub struct SiteSpec {
    pub(super) function: String,
    pub(super) offset: FnOffset,
    pub(super) reserved: u32,
    pub(super) id: Option<RecordId>,
    content: ToldContent,
    convention: Convention,
    /// Of the C convention.
    count: u32,
    returns: bool,
    /// Of the other one.
    result: Option<DwarfReg>,
    args: Vec<DwarfReg>,
    values: Vec<DwarfReg>,
    live: RegSet,
    free: RegSet,
    free_flags: bool,
    free_stack: bool,
    return_offsets: Vec<u32>,
}

impl SiteSpec {
    fn new(function: &str, offset: FnOffset, reserved: u32, content: ToldContent) -> Self {
        Self {
            function: function.into(),
            offset,
            reserved,
            id: None,
            content,
            convention: Convention::AnyReg,
            count: 0,
            returns: false,
            result: None,
            args: Vec::new(),
            values: Vec::new(),
            live: RegSet::EMPTY,
            free: RegSet::EMPTY,
            free_flags: false,
            free_stack: false,
            return_offsets: Vec::new(),
        }
    }

    /// `reserved` bytes of nops, `offset` bytes into the function.
    pub fn nops(function: &str, offset: impl Into<FnOffset>, reserved: u32) -> Self {
        Self::new(function, offset.into(), reserved, ToldContent::Nops)
    }

    /// One call, and nops if it is shorter than `reserved` bytes. A patch replaces the call.
    ///
    /// That a call is there says nothing of what is free: see [`convention`](Self::convention).
    pub fn call(function: &str, offset: impl Into<FnOffset>, reserved: u32) -> Self {
        Self::new(function, offset.into(), reserved, ToldContent::Call)
    }

    /// One jump that is always taken, to an address that it names, and nops if it is shorter than
    /// `reserved` bytes.
    pub fn jump(function: &str, offset: impl Into<FnOffset>, reserved: u32) -> Self {
        Self::new(function, offset.into(), reserved, ToldContent::Jump)
    }

    /// Just these instructions, whole ones.
    pub fn instructions(function: &str, offset: impl Into<FnOffset>, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        // What is longer than any function is refused as it is.
        let reserved = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Self::new(
            function,
            offset.into(),
            reserved,
            ToldContent::Instructions(bytes),
        )
    }

    /// The ID by which the site is patched. Several sites may have it.
    pub fn id(mut self, id: impl Into<RecordId>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// By which convention arguments and result are passed. If nothing is said it is
    /// [`Convention::AnyReg`]: by the registers that are told.
    ///
    /// [`Convention::C`] says that a C function could be called at the site, whatever is there:
    /// [arguments](Self::args) and [result](Self::returns) are where the platform's convention has
    /// them, the stack pointer is aligned, nothing below it is in use, and what such a call may
    /// lose is free but for arguments, [values](Self::value) and what is told to be
    /// [live](Self::live).
    pub fn convention(mut self, convention: Convention) -> Self {
        self.convention = convention;
        self
    }

    /// How many arguments the site passes by the C convention.
    pub fn args(mut self, count: u32) -> Self {
        self.count = count;
        self
    }

    /// The code behind the site looks for a result where the C convention leaves one.
    pub fn returns(mut self) -> Self {
        self.returns = true;
        self
    }

    /// One more argument: a value of 8 bytes in a general register, or what a vector register
    /// holds. Sequences have it by [`arg`](crate::sequence::arg), counted from 0. It is kept, so
    /// that an exit can read it, also if the register is told to be free.
    pub fn arg(mut self, reg: DwarfReg) -> Self {
        self.args.push(reg);
        self
    }

    /// The register that sequences set by [`result`](crate::sequence::result). One that does not
    /// set it leaves what is there.
    pub fn result(mut self, reg: DwarfReg) -> Self {
        self.result = Some(reg);
        self
    }

    /// One more value that handlers and sequences can read, by [`live`](crate::sequence::live),
    /// counted from 0: a register, which is kept.
    pub fn value(mut self, reg: DwarfReg) -> Self {
        self.values.push(reg);
        self
    }

    /// These registers are looked at behind the site: they are kept, whatever the convention says.
    pub fn live(mut self, regs: RegSet) -> Self {
        self.live = self.live.union(regs);
        self
    }

    /// These registers may be changed: nobody behind the site looks at what they hold there.
    pub fn free(mut self, regs: RegSet) -> Self {
        self.free = self.free.union(regs);
        self
    }

    /// The flags of arithmetic may be changed. Guards do that on x86-64, AArch64 and SystemZ. On
    /// PowerPC condition fields are registers, and RISC-V has none.
    pub fn free_flags(mut self) -> Self {
        self.free_flags = true;
        self
    }

    /// The stack is as at a call of a C function: the stack pointer is aligned for it, nothing
    /// below it is in use, and what callees own of the caller's frame is theirs.
    pub fn free_stack(mut self) -> Self {
        self.free_stack = true;
        self
    }

    /// A return address on some stack may point that many bytes into the site, behind which there
    /// are nops only. Calls that are in the site are found without that.
    pub fn returns_to(mut self, offset: u32) -> Self {
        self.return_offsets.push(offset);
        self
    }

    /// What the assembler and the checker are told of it.
    fn shape(&self) -> CallShape {
        let mut shape = CallShape::told(self.convention, self.reserved).free(self.free);
        let (has_result, args) = match self.convention {
            Convention::C => (self.returns, self.count),
            // Fewer than a record can have.
            Convention::AnyReg => (self.result.is_some(), self.args.len() as u32),
        };
        shape = shape.args(args);
        if has_result {
            shape = shape.result();
        }
        if self.free_flags {
            shape = shape.free_flags();
        }
        match self.free_stack {
            true => shape.free_stack(),
            false => shape,
        }
    }
}
