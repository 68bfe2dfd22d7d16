//! What a site is, and what is called there.

use core::fmt;

use llvm_stackmaps::addr::Len;

use crate::RegSet;

/// How a patchpoint passes its arguments, which decides what a sequence may clobber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Convention {
    /// `anyregcc`: arguments and result are wherever the register allocator put them; each is a
    /// location of the record, result first. Everything but the scratch register is preserved.
    AnyReg,
    /// The platform's C convention (`ccc`): arguments and result are where the ABI says and are not
    /// locations of the record. The caller-saved registers are free.
    C,
}

/// What a site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SiteKind {
    /// Reserved bytes filled with LLVM's call or nops.
    Patchpoint,
    /// The bytes after a stackmap: real instructions, patched destructively.
    Shadow,
    /// The first bytes of a function.
    Entry,
    /// Instructions of the function that its IR has marked by `!pcsections`: patched destructively.
    Marked,
    /// A call or jump of compiled code to a function, which can be retargeted: recorded while
    /// linking.
    Call,
    /// Whatever a runtime, or a compiler other than LLVM, says is there: nops, a call, a jump, some
    /// instructions. Its record is made of what was told.
    Told,
}

impl SiteKind {
    /// Whether the site holds instructions of the function itself, which a patch displaces: then no
    /// patchable jump can be put there while threads execute it.
    #[must_use]
    #[inline]
    pub const fn displaces(self) -> bool {
        matches!(self, Self::Shadow | Self::Marked)
    }
}

impl fmt::Display for SiteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Patchpoint => "patchpoint",
            Self::Shadow => "shadow",
            Self::Entry => "entry",
            Self::Marked => "marked site",
            Self::Call => "call site",
            Self::Told => "told site",
        })
    }
}

/// What the stack map does not record and the runtime that wrote the IR tells: the kind, the
/// reserved length, the convention, whether there is a result, the number of arguments.
///
/// ```
/// use patchpoint_isa::CallShape;
/// let shape = CallShape::any_reg(32).result().args(2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallShape {
    kind: SiteKind,
    convention: Convention,
    reserved: Len,
    has_result: bool,
    args: u32,
    /// Of a told site, besides what its convention leaves free.
    free: RegSet,
    has_free_flags: bool,
    has_free_stack: bool,
}

impl CallShape {
    const fn new(kind: SiteKind, convention: Convention, reserved: u32) -> Self {
        Self {
            kind,
            convention,
            reserved: Len::new(reserved),
            has_result: false,
            args: 0,
            free: RegSet::EMPTY,
            has_free_flags: false,
            has_free_stack: false,
        }
    }

    /// A patchpoint of `reserved` bytes called with `anyregcc`.
    #[must_use]
    #[inline]
    pub const fn any_reg(reserved: u32) -> Self {
        Self::new(SiteKind::Patchpoint, Convention::AnyReg, reserved)
    }

    /// A patchpoint of `reserved` bytes called with the C convention.
    #[must_use]
    #[inline]
    pub const fn c(reserved: u32) -> Self {
        Self::new(SiteKind::Patchpoint, Convention::C, reserved)
    }

    /// A stackmap with a shadow of `reserved` bytes.
    #[must_use]
    #[inline]
    pub const fn shadow(reserved: u32) -> Self {
        Self::new(SiteKind::Shadow, Convention::AnyReg, reserved)
    }

    /// The first `reserved` bytes of a function called with the C convention.
    #[must_use]
    #[inline]
    pub const fn entry(reserved: u32) -> Self {
        Self::new(SiteKind::Entry, Convention::C, reserved)
    }

    /// Marked instructions of `reserved` bytes.
    #[must_use]
    #[inline]
    pub const fn marked(reserved: u32) -> Self {
        Self::new(SiteKind::Marked, Convention::AnyReg, reserved)
    }

    /// A call of `len` bytes to a function that follows the C convention.
    #[must_use]
    #[inline]
    pub const fn call(len: u32) -> Self {
        Self::new(SiteKind::Call, Convention::C, len)
    }

    /// A told site of `reserved` bytes.
    ///
    /// With [`Convention::AnyReg`] arguments and result are in the registers of its record, and
    /// nothing is free that is not said to be: no register, no flags, nothing below the stack
    /// pointer. With [`Convention::C`] the site is one at which a C function could be called: what
    /// such a call may lose is free, the flags and the stack too.
    ///
    /// ```
    /// use patchpoint_isa::{CallShape, Convention, RegSet, x86_64};
    /// let shape = CallShape::told(Convention::AnyReg, 16).args(1).free(RegSet::of(&[x86_64::R10]));
    /// assert!(!shape.has_free_flags());
    /// ```
    #[must_use]
    #[inline]
    pub const fn told(convention: Convention, reserved: u32) -> Self {
        let mut shape = Self::new(SiteKind::Told, convention, reserved);
        shape.has_free_flags = matches!(convention, Convention::C);
        shape.has_free_stack = shape.has_free_flags;
        shape
    }

    /// Sequences of the told site may change these registers, besides those that its convention
    /// leaves free. At sites of other kinds this says nothing.
    #[must_use]
    #[inline]
    pub const fn free(mut self, regs: RegSet) -> Self {
        self.free = self.free.union(regs);
        self
    }

    /// Sequences of the told site may change the flags of arithmetic.
    #[must_use]
    #[inline]
    pub const fn free_flags(mut self) -> Self {
        self.has_free_flags = true;
        self
    }

    /// At the told site the stack is as at a call of a C function: the stack pointer is aligned for
    /// it, nothing below it is in use, and what callees own of the frame is theirs.
    #[must_use]
    #[inline]
    pub const fn free_stack(mut self) -> Self {
        self.has_free_stack = true;
        self
    }

    /// The patchpoint returns a value.
    #[must_use]
    #[inline]
    pub const fn result(mut self) -> Self {
        self.has_result = true;
        self
    }

    /// The patchpoint passes `count` arguments.
    #[must_use]
    #[inline]
    pub const fn args(mut self, count: u32) -> Self {
        self.args = count;
        self
    }

    /// The kind of the site.
    #[must_use]
    #[inline]
    pub const fn kind(&self) -> SiteKind {
        self.kind
    }

    /// The calling convention.
    #[must_use]
    #[inline]
    pub const fn convention(&self) -> Convention {
        self.convention
    }

    /// The number of reserved bytes.
    #[must_use]
    #[inline]
    pub const fn reserved(&self) -> Len {
        self.reserved
    }

    /// The same of so many reserved bytes.
    #[must_use]
    #[inline]
    pub const fn reserving(mut self, reserved: Len) -> Self {
        self.reserved = reserved;
        self
    }

    /// Whether the patchpoint returns a value.
    #[must_use]
    #[inline]
    pub const fn has_result(&self) -> bool {
        self.has_result
    }

    /// The number of arguments.
    #[must_use]
    #[inline]
    pub const fn arg_count(&self) -> u32 {
        self.args
    }

    /// The registers that a told site leaves free besides those of its convention.
    #[must_use]
    #[inline]
    pub const fn free_registers(&self) -> RegSet {
        self.free
    }

    /// Whether sequences of a told site may change the flags of arithmetic.
    #[must_use]
    #[inline]
    pub const fn has_free_flags(&self) -> bool {
        self.has_free_flags
    }

    /// Whether the stack of a told site is as at a call.
    #[must_use]
    #[inline]
    pub const fn has_free_stack(&self) -> bool {
        self.has_free_stack
    }
}
