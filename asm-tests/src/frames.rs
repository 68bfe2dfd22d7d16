//! What unwind information is for.

use patchpoint::image::Image;
use patchpoint::stackmap::Endian;

/// How many entries for functions a loaded image's unwind information has.
pub fn entries(image: &Image) -> usize {
    let word = |bytes: &[u8], at: usize| {
        let raw = bytes[at..at + 4].try_into().unwrap();
        match image.endian {
            Endian::Little => u32::from_le_bytes(raw),
            Endian::Big => u32::from_be_bytes(raw),
        }
    };
    let mut count = 0;
    for frame in &image.eh_frames {
        let mut at = 0;
        while at < frame.bytes.len() {
            // What is no CIE.
            count += usize::from(word(&frame.bytes, at + 4) != 0);
            at += 4 + word(&frame.bytes, at) as usize;
        }
    }
    count
}
