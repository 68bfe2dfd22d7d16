//! What the command `run` is told.

use std::str::FromStr;

use clap::Parser;
use patchpoint::sequence::Sequence;

use crate::call;
use crate::number::{number, record_id};

use super::KnownArgs;

/// Calls a function of an object, patches sites, calls it again.
///
/// The object is for this machine's architecture. It executes the code in the file, with all that
/// it may do: run only what you would run as a program. Records whose shape is neither told nor to
/// be inferred are left alone. A miss returns 0 and a deoptimization resumes; both are printed.
#[derive(Parser, Clone)]
#[command(after_help = "\
Examples:
  patchpoint run get.o --call get --args '[0,0x17,0,1234]' --only-after \\
      --shape 78=anyreg,32,result,args=1 \\
      --patch '78=guard u32[arg(0)+8] == 0x17 else miss; result = u64[arg(0)+24]'
  patchpoint run add.o --call add --args 1,2 --ir add.ll --live --invalidate add
  patchpoint run sort.o --call sort --args 0x10 --libc --symbol my_hook=0x7f0012345000

An argument is a number, or [a,b,c], which passes the address of an array of 64-bit words; at most six. The result is read \
as a 64-bit number.

JSON: {file, function, calls: [{when: before | after, args, result, arrays, events: [{what: miss | deopt, id, function, \
offset, values}]}], changes: [{what, sites}], sites: [{id, function, offset, address, reserved, status, \
listing: [{address, bytes, text, is_nop, refers_to}]}]}; a call that is not made has `why` in place of its result. The sites \
are those of the functions that were called or changed.")]
pub(crate) struct Run {
    /// The object file; - is the standard input
    pub(crate) file: String,

    #[command(flatten)]
    pub(crate) known: KnownArgs,

    /// The function
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) call: String,

    /// Its arguments, separated by commas
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pub(crate) args: Arguments,

    /// Writes a sequence into the sites with an ID, between the two calls; may be given again. See
    /// `plan --help`
    #[arg(long, value_name = "ID=SEQUENCE", allow_hyphen_values = true)]
    pub(crate) patch: Vec<Patch>,

    /// Invalidates a function between the two calls, after the patches; may be given again
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) invalidate: Vec<String>,

    /// Registers the module live
    #[arg(long)]
    pub(crate) live: bool,

    /// Looks symbols that the object does not define up in this process: the C library's
    #[arg(long)]
    pub(crate) libc: bool,

    /// The address of a symbol that the object does not define; may be given again
    #[arg(long, value_name = "NAME=ADDRESS")]
    pub(crate) symbol: Vec<Symbol>,

    /// Calls only after the patches: in a patchpoint without a call the result is undefined until
    /// then
    #[arg(long)]
    pub(crate) only_after: bool,

    /// Calls although a site that LLVM filled with a call has a target where nothing is known to be
    #[arg(long)]
    pub(crate) trust_calls: bool,
}

/// The arguments of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments(pub(crate) Vec<Argument>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    Number(u64),
    Words(Vec<u64>),
}

impl FromStr for Arguments {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            "expected at most six numbers or [arrays], separated by commas, such as 1,0x10,[1,2]".to_owned()
        };
        let mut arguments = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (argument, after) = match rest.strip_prefix('[') {
                Some(words) => {
                    let (words, after) = words.split_once(']').ok_or_else(expected)?;
                    let words = words
                        .split(',')
                        .filter(|word| !word.trim().is_empty())
                        .map(record_id);
                    let words = words.collect::<Option<Vec<u64>>>().ok_or_else(expected)?;
                    let after = after.trim_start();
                    (
                        Argument::Words(words),
                        after.strip_prefix(',').or(after.is_empty().then_some("")),
                    )
                }
                None => {
                    let (number, after) = rest.split_once(',').unwrap_or((rest, ""));
                    let number = record_id(number.trim()).ok_or_else(expected)?;
                    (Argument::Number(number), Some(after))
                }
            };
            arguments.push(argument);
            rest = after.ok_or_else(expected)?.trim_start();
        }
        match arguments.len() {
            0..=6 => Ok(Self(arguments)),
            _ => Err(expected()),
        }
    }
}

/// A sequence for the sites with an ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    pub(crate) id: u64,
    pub(crate) sequence: Sequence,
}

impl FromStr for Patch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected ID=SEQUENCE, such as 7=result = 1";
        let (id, sequence) = text.split_once('=').ok_or(expected)?;
        Ok(Self {
            id: record_id(id.trim()).ok_or(expected)?,
            sequence: call::sequence(sequence).map_err(|error| error.to_string())?,
        })
    }
}

/// The address of a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) addr: u64,
}

impl FromStr for Symbol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (name, addr) = text.split_once('=')?;
            let name = name.to_owned();
            Some(Self {
                name,
                addr: number(addr)?,
            })
        };
        read().ok_or_else(|| "expected NAME=ADDRESS, such as hook=0x7f0012345000".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_numbers_and_arrays() {
        use Argument::{Number, Words};
        let read = |text: &str| text.parse::<Arguments>().map(|arguments| arguments.0);
        assert_eq!(read(""), Ok(vec![]));
        assert_eq!(
            read("1, -1,0x10"),
            Ok(vec![Number(1), Number(u64::MAX), Number(16)])
        );
        assert_eq!(
            read("[1,-2] , 3,[]"),
            Ok(vec![Words(vec![1, -2_i64 as u64]), Number(3), Words(vec![])])
        );
        for wrong in ["x", "1,,2", "[1", "[1]2", "[x]", "1,2,3,4,5,6,7"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patches_and_symbols_are_split_at_their_first_sign() {
        let patch: Patch = "0x10=result = 1".parse().unwrap();
        assert_eq!(
            (patch.id, patch.sequence.to_string().as_str()),
            (16, "result = 1")
        );
        assert!("7=rsult = 1".parse::<Patch>().unwrap_err().contains("column 1"));
        assert!("result = 1".parse::<Patch>().unwrap_err().contains("ID=SEQUENCE"));
        let symbol: Symbol = "f=0x10".parse().unwrap();
        assert_eq!((symbol.name.as_str(), symbol.addr), ("f", 16));
        assert!("f".parse::<Symbol>().is_err());
    }
}
