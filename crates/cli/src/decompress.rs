//! Sections of debug information, which compilers may compress.
//!
//! Problem: what the `object` crate decompresses zstd by needs a newer Rust than this tool promises.
//! Approach: `object` says how a section is compressed, and its bytes are decompressed here.

use std::borrow::Cow;

use flate2::{Decompress, FlushDecompress};
use object::{BinaryFormat, CompressionFormat, Object, ObjectSection, Section};
use ruzstd::decoding::FrameDecoder;

use crate::object_file::ObjectFile;
use crate::problem::Problem;

/// The section of debug information with this name. In ELF files one that was compressed by older
/// tools has another one.
pub(crate) fn section<'d, 'f>(file: &'f ObjectFile<'d>, name: &str) -> Option<Section<'d, 'f>> {
    file.file.section_by_name(name).or_else(|| {
        let kind = name.strip_prefix(".debug_")?;
        let is_elf = file.file.format() == BinaryFormat::Elf;
        let name = is_elf.then(|| format!(".zdebug_{kind}"))?;
        file.file.section_by_name(&name)
    })
}

/// The bytes of a section, as they were before they were compressed.
pub(crate) fn bytes<'d>(section: &Section<'d, '_>) -> Result<Cow<'d, [u8]>, Problem> {
    let compressed = section.compressed_data()?;
    let problem = |why| Problem::Compressed {
        section: String::from_utf8_lossy(section.name_bytes().unwrap_or_default()).into_owned(),
        why,
    };
    let mut bytes = Vec::new();
    // The header may claim any size.
    let size = usize::try_from(compressed.uncompressed_size);
    let size = size.map_err(|_| problem("it would be too large"))?;
    let mut reserve = || {
        let reserved = bytes.try_reserve_exact(size);
        reserved.map_err(|_| problem("it would be too large"))
    };
    match compressed.format {
        CompressionFormat::None => return Ok(Cow::Borrowed(compressed.data)),
        CompressionFormat::Zlib => {
            reserve()?;
            let mut decoder = Decompress::new(true);
            let done = decoder.decompress_vec(compressed.data, &mut bytes, FlushDecompress::Finish);
            done.map_err(|_| problem("its zlib data is damaged"))?;
        }
        CompressionFormat::Zstandard => {
            reserve()?;
            let done = FrameDecoder::new().decode_all_to_vec(compressed.data, &mut bytes);
            done.map_err(|_| problem("its zstd data is damaged"))?;
        }
        _ => return Err(problem("the way is unknown")),
    }
    // protection: decompressed-sections-have-their-size
    if bytes.len() != size {
        return Err(problem("its size is not the one that its header says"));
    }
    Ok(Cow::Owned(bytes))
}
