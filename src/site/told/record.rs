//! The records of told sites: a stack map as LLVM would have written one.

use super::SiteSpec;
use crate::addr::DwarfReg;
use crate::arch::{Arch, RegSet, conventions, registers};
use crate::site::Result;
use crate::stackmap::{Endian, OwnedMaps};

/// What the format can say of one record.
pub(super) const MOST_LOCATIONS: usize = u16::MAX as usize;

/// The records of these sites, in their order. Sites that the audit refuses have one, too.
pub(super) fn records(arch: Arch, specs: &[SiteSpec]) -> Result<OwnedMaps> {
    let mut map = Writer {
        arch,
        bytes: Vec::new(),
    };
    if !specs.is_empty() {
        map.header(specs.len());
        specs.iter().for_each(|spec| map.record(spec));
    }
    Ok(OwnedMaps::new(map.bytes, arch.endian())?)
}

struct Writer {
    arch: Arch,
    bytes: Vec<u8>,
}

impl Writer {
    fn put<const N: usize>(&mut self, little: [u8; N]) {
        let mut bytes = little;
        if self.arch.endian() == Endian::Big {
            bytes.reverse();
        }
        self.bytes.extend(bytes);
    }

    fn u16(&mut self, value: u16) {
        self.put(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(value.to_le_bytes());
    }

    /// One function that has all records: which function a site is in is kept with the site.
    fn header(&mut self, records: usize) {
        self.bytes.extend([3, 0, 0, 0]);
        self.u32(1);
        self.u32(0);
        // More sites than that do not fit into memory.
        self.u32(records as u32);
        self.u64(0);
        self.u64(u64::MAX);
        self.u64(records as u64);
    }

    fn record(&mut self, spec: &SiteSpec) {
        let result = spec.result.iter();
        let all = result.chain(&spec.args).chain(&spec.values);
        // What has more is refused before anybody looks at its record.
        let locations: Vec<DwarfReg> = all.copied().take(MOST_LOCATIONS).collect();
        self.u64(spec.id.map_or(0, |id| id.get()));
        self.u32(spec.offset.get());
        self.u16(0);
        self.u16(locations.len() as u16);
        for reg in locations {
            self.bytes.extend([1, 0]);
            self.u16(self.size(reg));
            self.u16(reg.get());
            self.u16(0);
            self.u32(0); // all of the register
        }
        self.align();
        let live: Vec<DwarfReg> = spec.live.iter().collect();
        self.u16(0);
        self.u16(live.len() as u16);
        for reg in live {
            self.u16(reg.get());
            // At most 16.
            self.bytes.extend([0, self.size(reg) as u8]);
        }
        self.align();
    }

    fn is_vector(&self, reg: DwarfReg) -> bool {
        let vectors: RegSet = conventions::of(self.arch).vectors;
        vectors.contains(registers::canonical(self.arch, reg))
    }

    /// How many bytes of a register count.
    fn size(&self, reg: DwarfReg) -> u16 {
        match self.arch {
            Arch::X86_64 | Arch::AArch64 if self.is_vector(reg) => 16,
            // On the others the numbers of vectors are those of floating-point registers as well.
            _ => 8,
        }
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }
}
