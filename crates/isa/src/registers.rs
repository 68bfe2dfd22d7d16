//! The names of registers.
//!
//! A stack map numbers registers as DWARF does, in the numbering that LLVM chose for each target:
//! the first that a register or one of its super-registers has. The tables follow `DwarfRegNum` in
//! LLVM's `llvm/lib/Target/X86/X86RegisterInfo.td`, `AArch64/AArch64RegisterInfo.td`,
//! `PowerPC/PPCRegisterInfo.td`, `SystemZ/SystemZRegisterInfo.td` and `RISCV/RISCVRegisterInfo.td`;
//! the names are those of assembly text. The tests compare every number with what LLVM's own tools
//! call it.

use core::fmt;

use crate::Arch;
use llvm_stackmaps::addr::DwarfReg;

/// The name of a register; it is written with [`Display`](fmt::Display).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegisterName {
    pub(crate) stem: &'static str,
    pub(crate) number: Option<u16>,
    pub(crate) suffix: &'static str,
}

impl RegisterName {
    pub(crate) const fn plain(stem: &'static str) -> Self {
        Self {
            stem,
            number: None,
            suffix: "",
        }
    }

    pub(crate) const fn numbered(stem: &'static str, number: u16) -> Self {
        Self {
            stem,
            number: Some(number),
            suffix: "",
        }
    }
}

impl fmt::Display for RegisterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.stem)?;
        if let Some(number) = self.number {
            write!(f, "{number}")?;
        }
        f.write_str(self.suffix)
    }
}

/// The name of the whole register that LLVM numbers `reg`, or `None` if it gives that number to
/// none.
///
/// ```
/// use llvm_stackmaps::addr::DwarfReg;
/// use patchpoint_isa::{Arch, registers::register_name};
/// let name = register_name(Arch::X86_64, DwarfReg::new(1)).unwrap();
/// assert_eq!(name.to_string(), "rdx");
/// ```
#[must_use]
pub fn register_name(arch: Arch, reg: DwarfReg) -> Option<RegisterName> {
    let reg = canonical(arch, reg).get();
    arch.isa().register_names().iter().find_map(|run| run.name(reg))
}

/// The name of the low `size` bytes of a register, where assembly has a name for them: `eax`,
/// `ymm3`, `w0`, `d8`; otherwise that of the whole register.
#[must_use]
pub fn register_view(arch: Arch, reg: DwarfReg, size: u16) -> Option<RegisterName> {
    let whole = register_name(arch, reg)?;
    let view = arch.isa().register_view(whole, reg.get(), size);
    Some(view.unwrap_or(whole))
}

/// The number of the whole register that holds `reg`: PowerPC's 1200 to 1231 are the 32-bit views
/// of `r0` to `r31`; every other number stands for itself.
#[must_use]
#[inline]
pub const fn canonical(arch: Arch, reg: DwarfReg) -> DwarfReg {
    match reg.get() {
        number @ 1200..=1231 if arch.is_powerpc64() => DwarfReg::new(number - 1200),
        _ => reg,
    }
}

/// Names of consecutive numbers.
pub(crate) enum NameRun {
    Numbered { first: u16, count: u16, stem: &'static str, from: u16, step: u16 },
    Named { first: u16, names: &'static [&'static str] },
}

/// `count` numbers from `first` on: `stem` with 0, 1, 2 and so on.
pub(crate) const fn run(first: u16, count: u16, stem: &'static str) -> NameRun {
    stepped(first, count, stem, 0, 1)
}

pub(crate) const fn stepped(first: u16, count: u16, stem: &'static str, from: u16, step: u16) -> NameRun {
    NameRun::Numbered {
        first,
        count,
        stem,
        from,
        step,
    }
}

pub(crate) const fn named(first: u16, names: &'static [&'static str]) -> NameRun {
    NameRun::Named { first, names }
}

impl NameRun {
    fn name(&self, reg: u16) -> Option<RegisterName> {
        match *self {
            Self::Numbered {
                first,
                count,
                stem,
                from,
                step,
            } => {
                let index = reg.checked_sub(first).filter(|index| *index < count)?;
                Some(RegisterName::numbered(stem, from + index * step))
            }
            Self::Named { first, names } => {
                let index = usize::from(reg.checked_sub(first)?);
                names.get(index).map(|name| RegisterName::plain(name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    fn name(arch: Arch, reg: u16) -> String {
        register_name(arch, DwarfReg::new(reg)).map_or_else(String::new, |name| name.to_string())
    }

    fn view(arch: Arch, reg: u16, size: u16) -> String {
        register_view(arch, DwarfReg::new(reg), size).unwrap().to_string()
    }

    /// What `llvm-dwarfdump` calls a register, in terms of the names used here.
    fn assembly_name(arch: Arch, llvm: &str) -> String {
        let lower = llvm.to_ascii_lowercase();
        let (stem, number) = lower.split_at(lower.find(|c: char| c.is_ascii_digit()).unwrap_or(lower.len()));
        match (arch, stem, number) {
            (_, "reg", _) => String::new(),
            (Arch::AArch64, "w", _) => format!("x{number}"),
            (Arch::AArch64, "b", _) => format!("v{number}"),
            (Arch::AArch64, "wsp", _) => "sp".into(),
            (Arch::AArch64, "pn", _) => format!("p{number}"),
            (Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2, "x" | "s", _) => {
                format!("r{number}")
            }
            (Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2, "vf", _) => format!("v{number}"),
            (Arch::PowerPc64 | Arch::PowerPc64Le | Arch::PowerPc64ElfV2, "lr" | "ctr", _) => stem.into(),
            (Arch::SystemZ, _, _) => {
                let number = number.trim_end_matches('d');
                let upper_half = stem == "f" && number.parse::<u16>().unwrap() > 15;
                format!("{}{number}", if upper_half { "v" } else { stem })
            }
            (Arch::RiscV64, "x" | "f", _) => riscv_abi_name(stem, number.trim_end_matches("_h")),
            _ => lower,
        }
    }

    /// The table of integer and floating-point registers in the RISC-V calling convention.
    fn riscv_abi_name(stem: &str, number: &str) -> String {
        let number: u16 = number.parse().unwrap();
        let (temporary, saved, argument) = match stem {
            "f" => ("ft", "fs", "fa"),
            _ => ("t", "s", "a"),
        };
        match (stem, number) {
            ("x", 0..=4) => ["zero", "ra", "sp", "gp", "tp"][usize::from(number)].into(),
            ("x", 5..=7) => format!("t{}", number - 5),
            ("f", 0..=7) => format!("{temporary}{number}"),
            (_, 8..=9) => format!("{saved}{}", number - 8),
            (_, 10..=17) => format!("{argument}{}", number - 10),
            (_, 18..=27) => format!("{saved}{}", number - 16),
            ("x", _) => format!("t{}", number - 25),
            _ => format!("ft{}", number - 20),
        }
    }

    #[test]
    fn every_number_has_the_name_that_llvm_gives_it() {
        let lists = [
            (Arch::X86_64, include_str!("registers/x86_64.txt")),
            (Arch::AArch64, include_str!("registers/aarch64.txt")),
            (Arch::PowerPc64, include_str!("registers/powerpc64le.txt")),
            (Arch::PowerPc64Le, include_str!("registers/powerpc64le.txt")),
            (Arch::PowerPc64ElfV2, include_str!("registers/powerpc64le.txt")),
            (Arch::SystemZ, include_str!("registers/s390x.txt")),
            (Arch::RiscV64, include_str!("registers/riscv64.txt")),
        ];
        for (arch, list) in lists {
            let llvm: Vec<&str> = list.lines().collect();
            assert_eq!(llvm.len(), 193);
            for (number, llvm) in (0..=160).chain(1200..=1231).zip(llvm) {
                assert_eq!(
                    name(arch, number),
                    assembly_name(arch, llvm),
                    "{arch} {number}: LLVM says {llvm}"
                );
            }
        }
    }

    #[test]
    fn views_by_size() {
        use Arch::{AArch64, PowerPc64, SystemZ, X86_64};
        let x86: Vec<String> = [1, 2, 4, 8].map(|size| view(X86_64, 5, size)).into();
        assert_eq!(x86, ["dil", "di", "edi", "rdi"]);
        let x86: Vec<String> = [1, 2, 4, 8].map(|size| view(X86_64, 12, size)).into();
        assert_eq!(x86, ["r12b", "r12w", "r12d", "r12"]);
        let vector: Vec<String> = [4, 16, 32, 64].map(|size| view(X86_64, 18, size)).into();
        assert_eq!(vector, ["xmm1", "xmm1", "ymm1", "zmm1"]);
        assert_eq!(view(X86_64, 82, 32), "ymm31");
        assert_eq!(view(X86_64, 145, 4), "r31d");
        assert_eq!(
            (view(AArch64, 30, 4), view(AArch64, 30, 8)),
            ("w30".into(), "x30".into())
        );
        let vector: Vec<String> = [1, 2, 4, 8, 16, 3].map(|size| view(AArch64, 95, size)).into();
        assert_eq!(vector, ["b31", "h31", "s31", "d31", "q31", "v31"]);
        assert_eq!(
            (view(SystemZ, 17, 8), view(SystemZ, 17, 16)),
            ("f2".into(), "v2".into())
        );
        assert_eq!(
            (view(PowerPc64, 1231, 4), name(PowerPc64, 31)),
            ("r31".into(), "r31".into())
        );
    }

    #[test]
    fn a_32_bit_view_is_a_part_of_its_whole_register() {
        let canonical = |arch, reg| canonical(arch, DwarfReg::new(reg)).get();
        assert_eq!(canonical(Arch::PowerPc64, 1203), 3);
        assert_eq!(canonical(Arch::PowerPc64, 1232), 1232);
        assert_eq!(canonical(Arch::X86_64, 1203), 1203);
        assert_eq!(register_name(Arch::X86_64, DwarfReg::new(u16::MAX)), None);
    }
}
