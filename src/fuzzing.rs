//! Fuzz bodies, and a plain runner for them.
//!
//! A body takes any bytes and panics when something that must hold does not. The targets under
//! `fuzz/` call a body in one line; `cargo test` runs each body over its corpus and over some
//! thousands of mutations of it. [`mutate_and_run`] is deterministic: the same seed gives the same
//! inputs on every machine.

mod engine;
mod registers;
mod sequence;

use crate::deopt::UnwindInfo;
pub use engine::engine;
use llvm_stackmaps::fuzzing::Choices;
pub use llvm_stackmaps::fuzzing::{executions, flat, metadata, mutate_and_run, stackmap};
pub use sequence::sequence;

/// Any bytes as an object, which is linked; then its unwind information is read as the engine reads
/// it.
///
/// # Panics
///
/// As [`patchpoint_link::fuzzing::image`].
pub fn image(data: &[u8]) {
    patchpoint_link::fuzzing::image(data, |linked| {
        let image = &linked.image;
        for frame in &image.eh_frames {
            // Errors are fine, panics are not.
            if let Ok(info) = UnwindInfo::for_arch(image.arch, frame.addr, &frame.bytes) {
                for function in image.functions.iter().take(8) {
                    let _ = info.can_return(function.addr);
                }
            }
        }
    });
}

/// The inputs that are checked in for a target.
#[cfg(test)]
fn corpus(target: &str) -> std::vec::Vec<std::vec::Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let files = std::fs::read_dir(folder.join(target)).unwrap();
    let mut inputs: std::vec::Vec<_> = files
        .map(|file| std::fs::read(file.unwrap().path()).unwrap())
        .collect();
    // A folder has its files in no order.
    inputs.sort();
    inputs
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_object_makes_the_loader_panic() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/image");
        let files = std::fs::read_dir(folder).unwrap();
        let mut seeds: std::vec::Vec<_> = files
            .map(|file| std::fs::read(file.unwrap().path()).unwrap())
            .collect();
        seeds.sort();
        super::mutate_and_run(&seeds, super::image, super::executions(4_000), 0x1ace);
    }
}
