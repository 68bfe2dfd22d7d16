//! What a linker would fill into a stack map section: addresses of functions, and on RISC-V the
//! offsets of records.

use std::collections::BTreeMap;

use object::{
    BinaryFormat, Object, ObjectKind, ObjectSection, ObjectSymbol, ObjectSymbolTable, Relocation,
    RelocationFlags, RelocationKind, RelocationTarget, SymbolKind, elf,
};

use crate::object_file::{MapSection, ObjectFile};

/// A place in a section, by its distance from the section's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CodePlace {
    /// The number of the section.
    pub(crate) section: usize,
    pub(crate) offset: u64,
}

/// What an address field refers to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    /// The name of the symbol that the relocation names, other than a section's.
    pub(crate) name: Option<String>,
    /// Where that is, unless it is undefined.
    pub(crate) place: Option<CodePlace>,
}

/// A section with its relocations applied.
#[derive(Default)]
pub(crate) struct Relocated {
    pub(crate) data: Vec<u8>,
    /// What the eight-byte fields refer to, by their offset in the section.
    targets: BTreeMap<u64, Target>,
}

pub(crate) fn relocate(file: &ObjectFile<'_>, section: &MapSection<'_>) -> Relocated {
    let mut relocated = Relocated {
        data: section.data.to_vec(),
        targets: BTreeMap::new(),
    };
    let Ok(in_file) = file.file.section_by_index(section.index) else {
        return relocated;
    };
    if file.file.kind() == ObjectKind::Relocatable {
        for (offset, relocation) in in_file.relocations() {
            relocated.apply(file, offset, &relocation);
        }
    } else {
        for (address, relocation) in file.file.dynamic_relocations().into_iter().flatten() {
            if let Some(offset) = address.checked_sub(section.address) {
                relocated.apply(file, offset, &relocation);
            }
        }
    }
    relocated
}

impl Relocated {
    /// What the eight bytes at `offset` refer to: through their relocation, or by the address they
    /// hold in a linked file.
    pub(crate) fn target(&self, file: &ObjectFile<'_>, offset: u64) -> Target {
        self.targets.get(&offset).cloned().unwrap_or_else(|| Target {
            name: None,
            place: read(file, &self.data, offset).and_then(|address| place_of(file, address)),
        })
    }

    fn apply(&mut self, file: &ObjectFile<'_>, offset: u64, relocation: &Relocation) {
        if is_address(file, relocation) {
            if let Some(field) = read(file, &self.data, offset) {
                self.targets.insert(offset, target(file, relocation, field));
            }
        } else if let Some(sign) = riscv_sum(file, relocation) {
            self.add(file, offset, relocation, sign);
        }
    }

    /// Adds a symbol's value to a 32-bit field, or subtracts it.
    fn add(&mut self, file: &ObjectFile<'_>, offset: u64, relocation: &Relocation, sign: Sign) {
        let RelocationTarget::Symbol(index) = relocation.target() else {
            return;
        };
        let Ok(symbol) = file.file.symbol_by_index(index) else {
            return;
        };
        let value = symbol.address().wrapping_add_signed(relocation.addend()) as u32;
        let Some(field) = usize::try_from(offset)
            .ok()
            .and_then(|start| self.data.get_mut(start..)?.get_mut(..4))
        else {
            return;
        };
        let old = file.uint(field) as u32;
        let new = match sign {
            Sign::Plus => old.wrapping_add(value),
            Sign::Minus => old.wrapping_sub(value),
        };
        // RISC-V is little endian.
        field.copy_from_slice(&new.to_le_bytes());
    }
}

enum Sign {
    Plus,
    Minus,
}

fn riscv_sum(file: &ObjectFile<'_>, relocation: &Relocation) -> Option<Sign> {
    if !matches!(
        file.file.architecture(),
        object::Architecture::Riscv32 | object::Architecture::Riscv64
    ) {
        return None;
    }
    match relocation.flags() {
        RelocationFlags::Elf {
            r_type: elf::R_RISCV_ADD32,
        } => Some(Sign::Plus),
        RelocationFlags::Elf {
            r_type: elf::R_RISCV_SUB32,
        } => Some(Sign::Minus),
        _ => None,
    }
}

/// Whether the relocation puts an address, and nothing but it, into a field of eight bytes. A
/// dynamic relocation relative to the load address has no symbol.
fn is_address(file: &ObjectFile<'_>, relocation: &Relocation) -> bool {
    let absolute = relocation.kind() == RelocationKind::Absolute && relocation.size() == 64;
    absolute || (file.file.kind() != ObjectKind::Relocatable && is_relative(file, relocation))
}

fn is_relative(file: &ObjectFile<'_>, relocation: &Relocation) -> bool {
    let RelocationFlags::Elf { r_type } = relocation.flags() else {
        return false;
    };
    let relative = match file.file.architecture() {
        object::Architecture::X86_64 => elf::R_X86_64_RELATIVE,
        object::Architecture::Aarch64 => elf::R_AARCH64_RELATIVE,
        object::Architecture::PowerPc64 => elf::R_PPC64_RELATIVE,
        object::Architecture::S390x => elf::R_390_RELATIVE,
        object::Architecture::Riscv64 => elf::R_RISCV_RELATIVE,
        _ => return false,
    };
    r_type == relative
}

/// The eight bytes of a field.
fn read(file: &ObjectFile<'_>, data: &[u8], offset: u64) -> Option<u64> {
    let start = usize::try_from(offset).ok()?;
    Some(file.uint(data.get(start..)?.get(..8)?))
}

/// What a relocation of a field that holds `field` refers to.
pub(crate) fn target(file: &ObjectFile<'_>, relocation: &Relocation, field: u64) -> Target {
    let implicit = if relocation.has_implicit_addend() {
        field
    } else {
        0
    };
    let addend = implicit.wrapping_add_signed(relocation.addend());
    match relocation.target() {
        RelocationTarget::Symbol(index) => symbol(file, index, addend).unwrap_or(Target {
            name: None,
            place: None,
        }),
        // The field or the addend holds the address at which the section is in the file.
        RelocationTarget::Section(index) => Target {
            name: None,
            place: file.file.section_by_index(index).ok().and_then(|section| {
                Some(CodePlace {
                    section: index.0,
                    offset: addend.checked_sub(section.address())?,
                })
            }),
        },
        // In Mach-O it is of no section, whatever lies at that address.
        RelocationTarget::Absolute if file.file.format() == BinaryFormat::MachO => Target::default(),
        _ => Target {
            name: None,
            place: place_of(file, addend),
        },
    }
}

fn symbol(file: &ObjectFile<'_>, index: object::SymbolIndex, addend: u64) -> Option<Target> {
    // A dynamic relocation counts in the table of dynamic symbols.
    let symbol = if file.file.kind() == ObjectKind::Relocatable {
        file.file.symbol_by_index(index).ok()?
    } else {
        file.file.dynamic_symbol_table()?.symbol_by_index(index).ok()?
    };
    let name = symbol.name().ok().filter(|name| !name.is_empty());
    let named = symbol.kind() != SymbolKind::Section && addend == 0;
    Some(Target {
        name: name.filter(|_| named).map(str::to_owned),
        place: symbol.section_index().and_then(|section| {
            let start = file.file.section_by_index(section).ok()?.address();
            Some(CodePlace {
                section: section.0,
                offset: symbol.address().wrapping_add(addend).checked_sub(start)?,
            })
        }),
    })
}

/// The section in which an address of a linked file lies.
pub(crate) fn place_of(file: &ObjectFile<'_>, address: u64) -> Option<CodePlace> {
    file.file.sections().find_map(|section| {
        let offset = address.checked_sub(section.address())?;
        let inside = section.address() != 0 && offset < section.size();
        inside.then(|| CodePlace {
            section: section.index().0,
            offset,
        })
    })
}
