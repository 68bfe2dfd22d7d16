//! Objects made by hand, of any architecture, with whatever is to be tested.

use alloc::vec;
use alloc::vec::Vec;

use llvm_stackmaps::Endian;
use patchpoint_isa::Arch;

pub(crate) const CODE: u64 = 0x6;
pub(crate) const DATA: u64 = 0x3;
pub(crate) const READ_ONLY: u64 = 0x2;

/// Where the relocation is, its number, the index of the symbol, the addend.
pub(crate) type Rela = (u64, u32, u32, i64);

pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) flags: u64,
    pub(crate) align: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) relas: Vec<Rela>,
}

#[derive(Clone, Copy)]
pub(crate) struct Symbol {
    pub(crate) name: &'static str,
    /// The index of the section, from 1 on in the order given; 0 for undefined symbols.
    pub(crate) section: u16,
    pub(crate) value: u64,
    pub(crate) size: u64,
    /// `STT_FUNC` is 2, `STT_TLS` 6; with [`WEAK`] or [`LOCAL`] if it is not global.
    pub(crate) kind: u8,
    pub(crate) other: u8,
}

/// `STB_WEAK`, in the upper half of `st_info`.
pub(crate) const WEAK: u8 = 0x20;
/// Stands for `STB_LOCAL`, which is 0.
pub(crate) const LOCAL: u8 = 0xf0;
pub(crate) const ABSOLUTE: u16 = 0xfff1;
pub(crate) const COMMON: u16 = 0xfff2;

/// An undefined symbol.
pub(crate) const OUTSIDE: Symbol = Symbol {
    name: "outside",
    section: 0,
    value: 0,
    size: 0,
    kind: 0,
    other: 0,
};

pub(crate) fn code(bytes: Vec<u8>, relas: Vec<Rela>) -> Section {
    Section {
        name: ".text",
        flags: CODE,
        align: 4,
        bytes,
        relas,
    }
}

/// A byte of data for a symbol to be at.
pub(crate) fn data() -> Section {
    Section {
        name: ".data",
        flags: DATA,
        align: 1,
        bytes: vec![0],
        relas: Vec::new(),
    }
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|index| u8::from_str_radix(&text[2 * index..2 * index + 2], 16).unwrap())
        .collect()
}

fn machine(arch: Arch) -> (u16, u32) {
    match arch {
        Arch::X86_64 => (62, 0),
        Arch::AArch64 => (183, 0),
        Arch::PowerPc64 => (21, 1),
        Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => (21, 2),
        Arch::SystemZ => (22, 0),
        Arch::RiscV64 => (243, 5),
    }
}

struct Writer {
    bytes: Vec<u8>,
    big: bool,
}

impl Writer {
    fn put(&mut self, value: u64, width: usize) {
        let bytes = value.to_le_bytes();
        let mut bytes = bytes[..width].to_vec();
        if self.big {
            bytes.reverse();
        }
        self.bytes.extend(bytes);
    }

    fn put_all(&mut self, fields: &[(u64, usize)]) {
        for (value, width) in fields {
            self.put(*value, *width);
        }
    }
}

/// A section group: its flags, the index of its symbol, and those of its sections.
pub(super) type GroupSpec<'a> = (u32, u32, &'a [u32]);

/// An object with these sections and symbols. Symbol 0 is the null symbol; the first given has
/// index 1.
pub(crate) fn object(arch: Arch, sections: &[Section], symbols: &[Symbol]) -> Vec<u8> {
    grouped(arch, sections, symbols, &[])
}

/// An object with groups of its sections, too.
pub(super) fn grouped(
    arch: Arch,
    sections: &[Section],
    symbols: &[Symbol],
    groups: &[GroupSpec<'_>],
) -> Vec<u8> {
    let big = arch.endian() == Endian::Big;
    let new = || Writer {
        bytes: Vec::new(),
        big,
    };
    let (mut out, mut names) = (new(), vec![0]);
    let mut name = |text: &str| {
        let at = names.len() as u64;
        names.extend_from_slice(text.as_bytes());
        names.push(0);
        at
    };
    let mut table = new();
    table.bytes.resize(24, 0);
    for symbol in symbols {
        let info = match symbol.kind & 0xf0 {
            0 => symbol.kind | 0x10,
            LOCAL => symbol.kind & 0xf,
            _ => symbol.kind,
        };
        let info = u64::from(info);
        table.put_all(&[(name(symbol.name), 4), (info, 1), (symbol.other.into(), 1)]);
        table.put_all(&[(symbol.section.into(), 2), (symbol.value, 8), (symbol.size, 8)]);
    }
    let symtab = sections.len() as u64 * 2 + 1;
    // Name, type, flags, bytes, link, info, alignment, entry size.
    let mut headers = Vec::new();
    for section in sections {
        headers.push((
            name(section.name),
            1,
            section.flags,
            section.bytes.clone(),
            // With `SHF_LINK_ORDER` it is about the first section.
            section.flags >> 7 & 1,
            0,
            section.align,
            0,
        ));
    }
    for (index, section) in (1..).zip(sections) {
        let mut relas = new();
        for (offset, number, target, addend) in &section.relas {
            let info = u64::from(*target) << 32 | u64::from(*number);
            relas.put_all(&[(*offset, 8), (info, 8), (*addend as u64, 8)]);
        }
        headers.push((name(".rela"), 4, 0, relas.bytes, symtab, index, 8, 24));
    }
    headers.push((name(".symtab"), 2, 0, table.bytes, symtab + 1, 1, 8, 24));
    let strtab = name(".strtab");
    headers.push((strtab, 3, 0, names, 0, 0, 1, 0));
    for (flags, symbol, members) in groups {
        let mut words = new();
        words.put((*flags).into(), 4);
        members.iter().for_each(|member| words.put((*member).into(), 4));
        headers.push((0, 17, 0, words.bytes, symtab, u64::from(*symbol), 4, 4));
    }
    let (machine, flags) = machine(arch);
    let contents: u64 = headers.iter().map(|header| header.3.len() as u64).sum();
    out.bytes
        .extend_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1 + u8::from(big), 1]);
    out.bytes.resize(16, 0);
    out.put_all(&[
        (1, 2),
        (machine.into(), 2),
        (1, 4),
        (0, 8),
        (0, 8),
        (64 + contents, 8),
    ]);
    let count = headers.len() as u64 + 1;
    out.put_all(&[
        (flags.into(), 4),
        (64, 2),
        (0, 2),
        (0, 2),
        (64, 2),
        (count, 2),
        (symtab + 1, 2),
    ]);
    let mut table = new();
    table.bytes.resize(64, 0);
    for (name, kind, flags, bytes, link, info, align, entry) in headers {
        let (offset, size) = (out.bytes.len() as u64, bytes.len() as u64);
        table.put_all(&[(name, 4), (kind, 4), (flags, 8), (0, 8), (offset, 8), (size, 8)]);
        table.put_all(&[(link, 4), (info, 4), (align, 8), (entry, 8)]);
        out.bytes.extend(bytes);
    }
    out.bytes.extend(table.bytes);
    out.bytes
}
