//! The file that describes a piece of code: symbols at its addresses, and unwind information.

use object::elf;
use object::write::elf::{FileHeader, SectionHeader, Sym, Writer};

use crate::addr::{CodeAddr, CodeRange};
use crate::arch::Arch;
use crate::stackmap::Endian;

pub(super) struct File<'a> {
    pub(super) arch: Arch,
    /// Where the code is. The file does not contain it.
    pub(super) code: CodeRange,
    pub(super) symbols: Vec<(&'a str, CodeRange)>,
    /// Unwind information, and the address to which its pointers are relative.
    pub(super) eh_frame: Option<(CodeAddr, &'a [u8])>,
}

impl File<'_> {
    /// The file; `None` if it would be too large.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let endian = match self.arch.endian() {
            Endian::Little => object::Endianness::Little,
            Endian::Big => object::Endianness::Big,
        };
        let mut writer = Writer::new(endian, true, &mut bytes);
        self.write(&mut writer).ok()?;
        Some(bytes)
    }

    fn write<'s>(&'s self, writer: &mut Writer<'s>) -> object::write::Result<()> {
        writer.reserve_file_header();
        writer.reserve_null_section_index();
        let text = writer.reserve_section_index();
        let text_name = writer.add_section_name(b".text");
        let frame = self.eh_frame.map(|(addr, bytes)| {
            writer.reserve_section_index();
            (writer.add_section_name(b".eh_frame"), addr, bytes)
        });
        writer.reserve_symtab_section_index();
        writer.reserve_strtab_section_index();
        writer.reserve_shstrtab_section_index();
        writer.reserve_null_symbol_index();
        let mut symbols = Vec::new();
        for (name, range) in &self.symbols {
            writer.reserve_symbol_index(Some(text));
            symbols.push((writer.add_string(name.as_bytes()), range));
        }
        let frame_at = frame.map_or(0, |(_, _, bytes)| writer.reserve(bytes.len() as u64, 8));
        writer.reserve_symtab();
        writer.reserve_strtab()?;
        writer.reserve_shstrtab()?;
        writer.reserve_section_headers();

        writer.write_file_header(&self.header())?;
        if let Some((_, _, bytes)) = frame {
            writer.write_align(8);
            writer.write(bytes);
        }
        writer.write_null_symbol();
        for (name, range) in symbols {
            writer.write_symbol(&Sym {
                section: Some(text.0),
                st_name: writer.string_offset(Some(name)),
                st_info: elf::STB_GLOBAL | elf::STT_FUNC,
                st_other: elf::STV_DEFAULT.into(),
                st_shndx: elf::SHN_UNDEF,
                st_value: range.start().get(),
                st_size: range.len(),
            });
        }
        writer.write_strtab();
        writer.write_shstrtab();
        writer.write_null_section_header();
        writer.write_section_header(&SectionHeader {
            sh_name: writer.section_name_offset(Some(text_name)),
            sh_type: elf::SHT_NOBITS,
            sh_flags: elf::SHF_ALLOC | elf::SHF_EXECINSTR,
            sh_addr: self.code.start().get(),
            sh_offset: 0,
            sh_size: self.code.len(),
            sh_link: 0,
            sh_info: 0,
            sh_addralign: 1,
            sh_entsize: 0,
        });
        if let Some((name, addr, bytes)) = frame {
            writer.write_section_header(&SectionHeader {
                sh_name: writer.section_name_offset(Some(name)),
                sh_type: elf::SHT_PROGBITS,
                sh_flags: elf::SHF_ALLOC,
                sh_addr: addr.get(),
                sh_offset: frame_at,
                sh_size: bytes.len() as u64,
                sh_link: 0,
                sh_info: 0,
                sh_addralign: 8,
                sh_entsize: 0,
            });
        }
        // All but the null symbol are global.
        writer.write_symtab_section_header(1);
        writer.write_strtab_section_header();
        writer.write_shstrtab_section_header();
        Ok(())
    }

    fn header(&self) -> FileHeader {
        FileHeader {
            os_abi: elf::ELFOSABI_NONE,
            abi_version: 0,
            // Its addresses are final.
            e_type: elf::ET_EXEC,
            e_machine: elf::Machine(self.arch.elf_machine()),
            e_entry: 0,
            // Of PowerPC64: the version of the ABI.
            e_flags: elf::FileFlags(match self.arch {
                Arch::PowerPc64 => 1,
                Arch::PowerPc64Le | Arch::PowerPc64ElfV2 => 2,
                _ => 0,
            }),
        }
    }
}
