//! The way in.

use alloc::vec::Vec;

use llvm_stackmaps::addr::CodeAddr;
use patchpoint_isa::{Arch, Declared, RegSet, SiteContext};

use super::facts::Isa;
use super::policy::Policy;
use super::walk;
use crate::Result;

/// Bytes at the address where they will be executed: a stub of the checked site.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The address of the first byte.
    pub addr: CodeAddr,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// What the checker found in code that it accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The registers that may have been written when control leaves the site, the scratch register and what
    /// calls lose included; the stack pointer excluded.
    pub clobbers: RegSet,
    /// The offsets in the site to which its own calls return, ascending, in bytes, without the site's end.
    pub landings: Vec<u32>,
}

/// Evaluates an expression in which a name stands for the module of an architecture: the one place where one is chosen.
macro_rules! of_arch {
    ($arch:expr, $isa:ident => $what:expr) => {
        match $arch {
            patchpoint_isa::Arch::X86_64 => {
                use crate::x86_64 as $isa;
                $what
            }
            patchpoint_isa::Arch::AArch64 => {
                use crate::aarch64 as $isa;
                $what
            }
            patchpoint_isa::Arch::PowerPc64 => {
                use crate::powerpc64::big_v1 as $isa;
                $what
            }
            patchpoint_isa::Arch::PowerPc64ElfV2 => {
                use crate::powerpc64::big_v2 as $isa;
                $what
            }
            patchpoint_isa::Arch::PowerPc64Le => {
                use crate::powerpc64::little as $isa;
                $what
            }
            patchpoint_isa::Arch::SystemZ => {
                use crate::systemz as $isa;
                $what
            }
            patchpoint_isa::Arch::RiscV64 => {
                use crate::riscv64 as $isa;
                $what
            }
        }
    };
}
pub(super) use of_arch;

/// The decoder of an architecture.
#[inline]
pub(super) fn isa(arch: Arch) -> &'static Isa {
    of_arch!(arch, isa => &isa::ISA)
}

/// Checks that `code`, in the place of the site's reserved bytes, and its stubs keep every rule of this
/// [crate](crate).
///
/// ```
/// use llvm_stackmaps::Constants;
/// use llvm_stackmaps::addr::{CodeAddr, RecordId};
/// use patchpoint_isa::{Arch, CallShape, Declared, SiteContext};
/// use patchpoint_verify::{Error, check};
///
/// let site = SiteContext {
///     arch: Arch::X86_64,
///     id: RecordId::new(7),
///     function: Some("get"),
///     offset: Default::default(),
///     addr: CodeAddr::new(0x1000),
///     shape: CallShape::entry(5),
///     record: None,
///     constants: Constants::NONE,
///     landings: &[],
///     trust_live_outs: false,
/// };
/// // mov r11, rdi; xchg ax, ax
/// check(&site, &[0x49, 0x89, 0xfb, 0x66, 0x90], &[], &Declared::default())?;
/// // mov rbx, rdi: the caller of the function needs rbx.
/// let refused = check(&site, &[0x48, 0x89, 0xfb, 0x66, 0x90], &[], &Declared::default());
/// assert!(matches!(refused, Err(Error::Clobber { register: "rbx", .. })));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
///
/// The first rule that is broken, as an [`Error`](crate::Error) with the site, the instruction
/// and how to mend it.
pub fn check(
    site: &SiteContext<'_>,
    code: &[u8],
    stubs: &[Chunk<'_>],
    declared: &Declared,
) -> Result<Checked> {
    let isa = isa(site.arch);
    let policy = Policy::of(site, isa, declared)?;
    walk::walk(site, isa, &policy, code, stubs, declared)
}
