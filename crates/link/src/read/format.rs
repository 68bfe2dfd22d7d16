//! The format of a file, told by its first bytes.

use alloc::format;
use alloc::string::String;

use crate::error::{Error, Result};
use crate::format::ObjectFormat;

/// `IMAGE_FILE_MACHINE_AMD64`, and the others that objects are likely to be of (PE format, "Machine
/// Types").
const COFF_X86_64: [u8; 2] = [0x64, 0x86];
const COFF_OTHERS: [([u8; 2], &str); 5] = [
    ([0x4c, 0x01], "32-bit x86"),
    ([0x64, 0xaa], "arm64"),
    ([0x4e, 0xa6], "arm64x"),
    ([0x41, 0xa6], "arm64ec"),
    ([0xc4, 0x01], "arm"),
];
/// The first bytes of a universal file, read as the others are: it is big-endian.
const UNIVERSAL: u32 = object::macho::FAT_MAGIC.swap_bytes();
const UNIVERSAL_64: u32 = object::macho::FAT_MAGIC_64.swap_bytes();
/// What large COFF objects and import libraries start with in place of a machine
/// (`ANON_OBJECT_HEADER`).
const ANONYMOUS: [u8; 4] = [0x00, 0x00, 0xff, 0xff];
/// Where such a file says its machine.
const ANONYMOUS_MACHINE: usize = 6;

/// The format of a file that starts so.
pub(super) fn of(bytes: &[u8]) -> Result<ObjectFormat> {
    if bytes.starts_with(&object::elf::ELFMAG) {
        return Ok(ObjectFormat::Elf);
    }
    let word = bytes.first_chunk::<4>().map(|word| u32::from_le_bytes(*word));
    let machine = |at: usize| bytes.get(at..)?.first_chunk::<2>().copied();
    let found: String = match (word, machine(0)) {
        (Some(object::macho::MH_MAGIC_64), _) => return Ok(ObjectFormat::MachO),
        (Some(object::macho::MH_MAGIC | object::macho::MH_CIGAM), _) => "a 32-bit Mach-O file".into(),
        (Some(object::macho::MH_CIGAM_64), _) => "a big-endian Mach-O file".into(),
        (Some(UNIVERSAL | UNIVERSAL_64), _) => {
            "a universal file: give the part for one architecture (lipo -thin)".into()
        }
        (_, Some(COFF_X86_64)) => return Ok(ObjectFormat::Coff),
        (_, Some(_)) if bytes.starts_with(&ANONYMOUS) => match machine(ANONYMOUS_MACHINE) {
            Some(COFF_X86_64) => return Ok(ObjectFormat::Coff),
            _ => "a large COFF object that is not for x86-64".into(),
        },
        (_, Some([b'M', b'Z'])) => "a linked Windows file".into(),
        (_, machine) => match COFF_OTHERS.iter().find(|(other, _)| Some(*other) == machine) {
            Some((_, name)) => format!("a COFF object for {name}"),
            None => "bytes that start neither as ELF nor as Mach-O nor as COFF".into(),
        },
    };
    Err(Error::ObjectUnsupported { found })
}
