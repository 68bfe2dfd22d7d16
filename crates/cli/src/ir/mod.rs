//! LLVM's IR, as far as it tells the shapes of sites: read by its grammar, and its calls matched to
//! the records of a stack map.

mod matching;
mod parse;
#[cfg(test)]
mod tests;
mod token;

use std::collections::{HashMap, HashSet};

use patchpoint::CallShape;

use crate::problem::Problem;

pub(crate) use matching::{Mangling, Matches, Verdict};

/// The IR that was given, of one file or several.
#[derive(Default)]
pub(crate) struct Program {
    functions: Vec<Function>,
    /// By the name in the IR, the functions and those that it is an alias of. Files may have one
    /// each.
    names: HashMap<String, Vec<usize>>,
    /// What global variables and aliases refer to.
    globals: HashMap<String, Vec<String>>,
    /// What has its address taken: any call of an unknown function may be one of it.
    taken: HashSet<String>,
}

struct Function {
    name: String,
    calls: Vec<Call>,
    refers_to: HashSet<String>,
    /// It calls what a value holds.
    calls_unknown: bool,
    /// It may be inlined into others.
    inlined: bool,
    /// It is one block.
    straight: bool,
}

/// A call that leaves a record.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    line: u32,
    id: u64,
    meaning: Meaning,
    /// `anyregcc` has the result as the first location ...
    has_result: bool,
    /// ... and then so many arguments.
    free: u32,
    /// The target is null: LLVM puts nops there.
    null: bool,
    /// The values that follow.
    live: Vec<Operand>,
}

/// What a call is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Meaning {
    Shape(CallShape),
    /// A patchpoint of another calling convention, by its name.
    Convention(String),
    Statepoint,
}

/// What an operand of a call tells of its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    /// The low bits of a constant location.
    Constant {
        bits: u32,
        value: u64,
    },
    Null,
    /// Any one location.
    One,
    /// Of a type that need not fit into one location.
    Wide,
}

/// What is wrong with a file, and where.
#[derive(Debug, PartialEq, Eq)]
struct Malformed {
    line: u32,
    why: String,
}

/// Whether a file holds LLVM's bitcode, bare or wrapped.
pub(crate) fn is_bitcode(bytes: &[u8]) -> bool {
    bytes.starts_with(b"BC\xc0\xde") || bytes.starts_with(&[0xde, 0xc0, 0x17, 0x0b])
}

impl Program {
    /// Adds a file of this name with these bytes.
    pub(crate) fn add_file(&mut self, file: &str, bytes: &[u8]) -> Result<(), Problem> {
        if is_bitcode(bytes) {
            return Err(Problem::Bitcode(file.to_owned()));
        }
        let text = String::from_utf8_lossy(bytes);
        self.add(&text).map_err(|malformed| Problem::Ir {
            file: file.to_owned(),
            line: malformed.line,
            why: malformed.why,
        })
    }
}
