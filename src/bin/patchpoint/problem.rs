use std::io;

/// Why there is nothing to print. The name of the file stands before it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("cannot be read: {0}")]
    Read(io::Error),
    #[error("is no object file that this tool reads (ELF, Mach-O, COFF or PE): {0}")]
    Object(#[from] object::Error),
    #[error("has no stack map: expected a section .llvm_stackmaps, or __llvm_stackmaps in Mach-O")]
    NoStackMap,
    #[error("section {section}: {error}")]
    StackMap { section: String, error: Box<patchpoint::Error> },
    #[error("the report cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the output cannot be written: {0}")]
    Write(io::Error),
}
