//! What becomes of a COFF section.

use object::pe::{
    IMAGE_SCN_CNT_CODE, IMAGE_SCN_LNK_INFO, IMAGE_SCN_LNK_REMOVE, IMAGE_SCN_MEM_DISCARDABLE,
    IMAGE_SCN_MEM_EXECUTE, IMAGE_SCN_MEM_WRITE, SectionFlags,
};

use super::writable_code;
use crate::error::Result;
use crate::graph::SectionRole;
use crate::graph::checks::refuse;

/// By its name and characteristics.
pub(crate) fn role(name: &str, flags: SectionFlags) -> Result<SectionRole> {
    let has = |any| flags.intersects(any);
    // Of sections whose names differ behind a `$`, linkers make one, in the order of what follows.
    let (whole, _) = name.split_once('$').unwrap_or((name, ""));
    if has(IMAGE_SCN_LNK_REMOVE | IMAGE_SCN_LNK_INFO | IMAGE_SCN_MEM_DISCARDABLE) || is_for_linkers(whole) {
        return Ok(SectionRole::Ignored);
    }
    match whole {
        ".llvm_stackmaps" => return Ok(SectionRole::StackMaps),
        ".tls" => {
            return Err(refuse(
                name,
                "thread-local storage needs a thread runtime: keep such data in ordinary variables",
            ));
        }
        ".CRT" | ".ctors" | ".dtors" => {
            return Err(refuse(
                name,
                "nobody would run its constructors: call them by name after loading",
            ));
        }
        ".idata" => {
            return Err(refuse(
                name,
                "it is of an import library: resolve what that imports by name",
            ));
        }
        _ => {}
    }
    let is_code = has(IMAGE_SCN_CNT_CODE | IMAGE_SCN_MEM_EXECUTE);
    match (is_code, has(IMAGE_SCN_MEM_WRITE)) {
        (true, true) => Err(writable_code(name)),
        (true, false) => Ok(SectionRole::Code),
        (false, true) => Ok(SectionRole::Data),
        // Of compilers that unwind by DWARF.
        (false, false) if name == ".eh_frame" => Ok(SectionRole::EhFrame),
        (false, false) => Ok(SectionRole::ReadOnly),
    }
}

/// Tables of control flow guard, of which a linker makes others, and debug information.
fn is_for_linkers(whole: &str) -> bool {
    matches!(whole, ".gfids" | ".giats" | ".gljmp" | ".gehcont" | ".voltbl") || whole.starts_with(".debug")
}
