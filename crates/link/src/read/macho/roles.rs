//! What becomes of a Mach-O section.

use object::macho::{
    S_ATTR_DEBUG, S_ATTR_PURE_INSTRUCTIONS, S_ATTR_SELF_MODIFYING_CODE, S_ATTR_SOME_INSTRUCTIONS,
    S_DTRACE_DOF, S_INIT_FUNC_OFFSETS, S_INTERPOSING, S_LAZY_DYLIB_SYMBOL_POINTERS, S_LAZY_SYMBOL_POINTERS,
    S_MOD_INIT_FUNC_POINTERS, S_MOD_TERM_FUNC_POINTERS, S_NON_LAZY_SYMBOL_POINTERS, S_SYMBOL_STUBS,
    S_THREAD_LOCAL_INIT_FUNCTION_POINTERS, S_THREAD_LOCAL_REGULAR, S_THREAD_LOCAL_VARIABLE_POINTERS,
    S_THREAD_LOCAL_VARIABLES, S_THREAD_LOCAL_ZEROFILL, SectionFlags, SectionType,
};

use crate::error::Result;
use crate::graph::SectionRole;
use crate::graph::checks::refuse;
use crate::graph::init::FunctionList;

/// By its name, with the segment's before it, and its type and attributes.
pub(crate) fn role(name: &str, flags: SectionFlags) -> Result<SectionRole> {
    let (segment, section) = name.split_once(',').unwrap_or((name, ""));
    match (segment, section) {
        ("__LLVM_STACKMAPS", "__llvm_stackmaps") => return Ok(SectionRole::StackMaps),
        ("__LD", "__compact_unwind") | ("__DWARF" | "__LLVM", _) => return Ok(SectionRole::Ignored),
        _ if flags.contains(S_ATTR_DEBUG) => return Ok(SectionRole::Ignored),
        ("__DATA" | "__DATA_CONST", _) if is_objective_c(section) => {
            return Err(refuse(name, "Objective-C needs its runtime to be told of it"));
        }
        ("__TEXT", _) if section.starts_with("__swift") => {
            return Err(refuse(name, "Swift needs its runtime to be told of it"));
        }
        _ => {}
    }
    if let Some(reason) = needs_more(flags.typ()) {
        return Err(refuse(name, reason));
    }
    let is_code = flags.intersects(S_ATTR_PURE_INSTRUCTIONS | S_ATTR_SOME_INSTRUCTIONS);
    match (segment, section) {
        _ if flags.contains(S_ATTR_SELF_MODIFYING_CODE) => {
            Err(refuse(name, "it would be writable and executable at once"))
        }
        ("__TEXT", "__eh_frame") => Ok(SectionRole::EhFrame),
        _ if is_code && segment.starts_with("__DATA") => {
            Err(refuse(name, "it would be writable and executable at once"))
        }
        _ if is_code => Ok(SectionRole::Code),
        // Only relocation writes to constant data.
        ("__TEXT" | "__DATA_CONST", _) | ("__DATA", "__const") => Ok(SectionRole::ReadOnly),
        _ if functions(flags).is_some() => Ok(SectionRole::ReadOnly),
        _ => Ok(SectionRole::Data),
    }
}

/// The list of functions that a section is, if it is one: constructors or destructors, which have
/// no priorities here.
pub(crate) fn functions(flags: SectionFlags) -> Option<FunctionList> {
    match flags.typ() {
        S_MOD_INIT_FUNC_POINTERS => FunctionList::of_name(".init_array"),
        S_MOD_TERM_FUNC_POINTERS => FunctionList::of_name(".fini_array"),
        _ => None,
    }
}

/// All but the note that there is none of it.
fn is_objective_c(section: &str) -> bool {
    section.starts_with("__objc_") && section != "__objc_imageinfo"
}

/// Why a section of this type is not just loaded.
fn needs_more(kind: SectionType) -> Option<&'static str> {
    Some(match kind {
        S_THREAD_LOCAL_REGULAR
        | S_THREAD_LOCAL_ZEROFILL
        | S_THREAD_LOCAL_VARIABLES
        | S_THREAD_LOCAL_VARIABLE_POINTERS
        | S_THREAD_LOCAL_INIT_FUNCTION_POINTERS => {
            "thread-local storage needs a thread runtime: keep such data in ordinary variables"
        }
        S_INIT_FUNC_OFFSETS => "its constructors are distances, which linkers alone write",
        S_NON_LAZY_SYMBOL_POINTERS
        | S_LAZY_SYMBOL_POINTERS
        | S_LAZY_DYLIB_SYMBOL_POINTERS
        | S_SYMBOL_STUBS => {
            "the assembler wrote a linker's table by hand: refer to symbols with @GOTPCREL or @GOTPAGE"
        }
        S_INTERPOSING => "only a dynamic linker replaces functions by it",
        S_DTRACE_DOF => "only a linker makes probes of it",
        _ => return None,
    })
}
