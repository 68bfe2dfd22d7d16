//! Sections of debug information, which compilers may compress.
//!
//! Problem: what the `object` crate decompresses zstd by needs a newer Rust than this tool promises.
//! Approach: `object` says how a section is compressed, and its bytes are decompressed here.

use std::borrow::Cow;
use std::io::Read;

use flate2::{Decompress, FlushDecompress};
use object::{BinaryFormat, CompressionFormat, Object, ObjectSection, Section};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

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

/// The bytes of the section with this name, as they were before they were compressed.
pub(crate) fn bytes<'d>(section: &Section<'d, '_>, name: &str) -> Result<Cow<'d, [u8]>, Problem> {
    let compressed = section.compressed_data()?;
    let problem = |why| Problem::Compressed {
        section: name.to_owned(),
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
            zstd(compressed.data, size, &mut bytes).ok_or_else(|| problem("its zstd data is damaged"))?;
        }
        _ => return Err(problem("the way is unknown")),
    }
    // protection: decompressed-sections-have-their-size
    if bytes.len() != size {
        return Err(problem("its size is not the one that its header says"));
    }
    Ok(Cow::Owned(bytes))
}

/// Appends what the frames of zstd data hold, but not much more than is wanted.
fn zstd(mut data: &[u8], wanted: usize, bytes: &mut Vec<u8>) -> Option<()> {
    while !data.is_empty() && bytes.len() <= wanted {
        let mut frame = match StreamingDecoder::new(&mut data) {
            Ok(frame) => frame,
            // Of something else than what was compressed.
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                data = data.get(length as usize..)?;
                continue;
            }
            Err(_) => return None,
        };
        // protection: decompressed-sections-do-not-grow
        let room = (wanted - bytes.len()) as u64 + 1;
        frame.by_ref().take(room).read_to_end(bytes).ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    #[test]
    fn frames_of_zstd_follow_each_other_and_end_when_there_is_enough() {
        let frame = |byte, len| compress_to_vec(&vec![byte; len][..], CompressionLevel::Fastest);
        // A frame to skip: its number, its length, and that many bytes.
        let other = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let all = [frame(1, 5), other, frame(2, 3)].concat();
        let mut bytes = Vec::new();
        assert_eq!(zstd(&all, 8, &mut bytes), Some(()));
        assert_eq!(bytes, [1, 1, 1, 1, 1, 2, 2, 2]);
        assert_eq!(zstd(&all[..all.len() - 1], 8, &mut Vec::new()), None);
        // However much there would be.
        let mut bytes = Vec::new();
        let _ = zstd(&frame(0, 1 << 20), 100, &mut bytes);
        assert_eq!(bytes.len(), 101);
    }
}
