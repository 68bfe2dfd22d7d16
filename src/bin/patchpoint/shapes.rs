//! What the stack map does not hold: kind, reserved length, convention, result and arguments of each record.
//!
//! It is told on the command line, in files of lines of the same form, or by the LLVM IR that the object was compiled from.
//! What is not told is taken from the stack map, where it is a flat one that tells lengths, or inferred from the bytes, where they leave no doubt.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::str::FromStr;

use object::BinaryFormat;
use patchpoint::CallShape;
use patchpoint::addr::CodeAddr;
use patchpoint::arch::{Arch, SiteKind, instructions};
use patchpoint::site::Candidate;
use patchpoint::verify;

use crate::args::{Code, number};
use crate::image;
use crate::ir::{Mangling, Matches, Program, Verdict};
use crate::object_file::ObjectFile;
use crate::problem::Problem;

/// What was told of the records with an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// They are no sites.
    No,
    /// Only their length: the rest is inferred.
    Bytes(u32),
    Whole(CallShape),
}

/// A shape and the records that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// The only function that is meant: an ID may stand for other sites elsewhere.
    pub(crate) function: Option<String>,
    /// `None`: all of which nothing else is told.
    pub(crate) id: Option<u64>,
    pub(crate) shape: Shape,
}

const EXPECTED: &str = "expected ID=SHAPE, such as 7=anyreg,32,result,args=1 or 8=c,40 or 9=shadow,16 or 10=24 or 11=none; get:7 \
                        stands for ID 7 in the function get alone, * for all others";

impl FromStr for Told {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A function's name may hold either sign.
        let (id, shape) = split(text).ok_or(EXPECTED)?;
        let (function, id) = match id.rsplit_once(':') {
            Some((function, id)) => (Some(function.trim().to_owned()), id),
            None => (None, id),
        };
        let id = match id.trim() {
            "*" if function.is_some() => return Err(EXPECTED.to_owned()),
            "*" => None,
            id => Some(record_id(id).ok_or(EXPECTED)?),
        };
        let shape = Shape::read(shape).ok_or(EXPECTED)?;
        shape.check()?;
        Ok(Self { function, id, shape })
    }
}

/// What stands before and behind the sign: the first behind which there is no other ID.
fn split(text: &str) -> Option<(&str, &str)> {
    let start = text.rfind(':').map_or(0, |colon| colon + 1);
    let sign = start + text.get(start..)?.find('=')?;
    Some((text.get(..sign)?, text.get(sign + 1..)?))
}

/// An ID, of which the IR may have written a negative number.
pub(crate) fn record_id(text: &str) -> Option<u64> {
    number(text).or_else(|| text.parse::<i64>().ok().map(|id| id as u64))
}

impl Shape {
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(',').map(str::trim);
        let make = match words.next()? {
            "none" => return words.next().is_none().then_some(Self::No),
            "anyreg" => CallShape::any_reg,
            "c" => CallShape::c,
            "shadow" => CallShape::shadow,
            bytes => {
                let bytes = u32::try_from(number(bytes)?).ok()?;
                return words.next().is_none().then_some(Self::Bytes(bytes));
            }
        };
        let reserved = u32::try_from(number(words.next()?)?).ok()?;
        let mut shape = make(reserved);
        let mut args = None;
        for word in words {
            shape = match word.split_once('=') {
                None if word == "result" && !shape.has_result() => shape.result(),
                Some(("args", count)) if args.is_none() => {
                    let count = count.parse().ok()?;
                    args = Some(count);
                    shape.args(count)
                }
                _ => return None,
            };
        }
        Some(Self::Whole(shape))
    }

    /// The number of reserved bytes.
    fn bytes(self) -> Option<u32> {
        match self {
            Self::No => None,
            Self::Bytes(bytes) => Some(bytes),
            Self::Whole(shape) => Some(shape.reserved().get()),
        }
    }

    /// Refuses what no call of LLVM's IR can be.
    fn check(self) -> Result<(), String> {
        if let Some(bytes) = self.bytes().filter(|bytes| i32::try_from(*bytes).is_err()) {
            return Err(format!("LLVM reserves at most {} bytes, not {bytes}", i32::MAX));
        }
        match self {
            Self::Whole(shape)
                if shape.kind() == SiteKind::Shadow && (shape.has_result() || shape.arg_count() > 0) =>
            {
                Err("a shadow has neither a result nor arguments".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Everything that was told.
#[derive(Default)]
pub(crate) struct Shapes {
    by_function: HashMap<(String, u64), Shape>,
    by_id: HashMap<u64, Shape>,
    others: Option<Shape>,
    /// What was told, with the file, if it was told in one, and the place in words.
    told: Vec<(Option<String>, String, Told)>,
    ir: Option<Program>,
    ir_files: Vec<String>,
}

/// Where the shape of a site comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Told,
    /// The length was told, and nothing else.
    LengthTold,
    /// The stack map tells the length, as flat ones may.
    Recorded,
    /// The length is inferred.
    Inferred,
}

/// What is known of a record.
pub(crate) enum Known {
    Site(CallShape, Source),
    /// It is no site, and why.
    NoSite(&'static str),
    /// It is one of a statepoint: its offset is where a call returns to.
    Statepoint,
    /// What was given speaks of it, and cannot be believed or followed.
    Refused(String),
    /// Nobody knows how long it is, and what it seems to be.
    NoLength(String),
}

impl Shapes {
    /// Reads the files that the command line names; what stands on the command line itself comes first.
    pub(crate) fn read(code: &Code) -> Result<Self, Problem> {
        let mut shapes = Self::default();
        let read = |file: &String| fs::read(file).map_err(|error| Problem::ReadOther(file.clone(), error));
        shapes.ir_files.clone_from(&code.ir);
        for file in &code.ir {
            let program = shapes.ir.get_or_insert_default();
            program.add_file(file, &read(file)?)?;
        }
        for file in &code.shapes {
            let bytes = read(file)?;
            for (line, text) in lines(&String::from_utf8_lossy(&bytes)) {
                let told: Told = text.parse().map_err(|expected| Problem::Shape {
                    file: file.clone(),
                    line,
                    expected,
                })?;
                shapes.tell(told.clone());
                let place = format!("{file}, line {line}");
                shapes.told.push((Some(file.clone()), place, told));
            }
        }
        for told in &code.shape {
            shapes.tell(told.clone());
            shapes.told.push((None, "--shape".to_owned(), told.clone()));
        }
        Ok(shapes)
    }

    /// Whether nothing at all was told.
    pub(crate) fn is_empty(&self) -> bool {
        self.told.is_empty() && self.ir.is_none()
    }

    /// Looks at all records of placed code, before [`Self::of`] is asked for each.
    ///
    /// # Errors
    /// What was told cannot be of this file.
    pub(crate) fn matches(&self, file: &ObjectFile<'_>, code: &image::Code) -> Result<Matches, Problem> {
        let mangling = match file.file.format() {
            BinaryFormat::MachO => Mangling::Underscore,
            _ => Mangling::None,
        };
        let mut matches = Matches::of(self.ir.as_ref(), mangling, code)?;
        if matches.is_foreign() {
            return Err(Problem::OtherIr(self.ir_files.join(", ")));
        }
        let mut used = HashSet::new();
        let mut unused: Vec<(&str, String)> = Vec::new();
        for (file, place, told) in &self.told {
            let problem = |why| Problem::Told {
                place: place.clone(),
                why,
            };
            let function = told.function.as_deref();
            match told.id.filter(|id| !matches.has(*id, function)) {
                None => {
                    used.insert(file);
                }
                Some(id) => {
                    let why = match function {
                        Some(name) => format!("no record of a function {name} has ID {id}"),
                        None => format!("no record has ID {id}"),
                    };
                    match file {
                        // protection: a-shape-of-no-record-is-refused
                        None => return Err(problem(why)),
                        Some(_) => unused.push((place, why)),
                    }
                }
            }
            let unit = instructions::unit(code.image.arch);
            if let Some(bytes) = told.shape.bytes().filter(|bytes| bytes % unit != 0) {
                return Err(problem(format!(
                    "no site has {}: instructions of {} are multiples of {unit}",
                    crate::text::count_u64(bytes.into(), "byte"),
                    code.image.arch
                )));
            }
        }
        // LLVM merges calls and leaves some out: what was written down of a source need not be all there, but something of it.
        let foreign = self.told.iter().filter_map(|(file, ..)| file.as_ref());
        if let Some(file) = foreign
            .into_iter()
            .find(|file| !used.contains(&Some((*file).clone())))
        {
            return Err(Problem::Told {
                place: file.clone(),
                why: "none of its shapes is of a record of this file".to_owned(),
            });
        }
        matches.unused = unused
            .into_iter()
            .map(|(place, why)| format!("{place}: {why}"))
            .collect();
        Ok(matches)
    }

    fn tell(&mut self, told: Told) {
        match (told.function, told.id) {
            (Some(function), Some(id)) => {
                self.by_function.insert((function, id), told.shape);
            }
            (None, Some(id)) => {
                // What an earlier file says of some functions counts no more.
                self.by_function.retain(|(_, known), _| *known != id);
                self.by_id.insert(id, told.shape);
            }
            (_, None) => self.others = Some(told.shape),
        }
    }

    /// What was told of the records with an ID in a function.
    fn told_of(&self, matches: &Matches, function: &str, id: u64) -> Option<Shape> {
        let named = |name: &str| self.by_function.get(&(name.to_owned(), id));
        let here = (!self.by_function.is_empty())
            .then(|| named(function).or_else(|| named(matches.plain(function)?)))
            .flatten();
        here.or_else(|| self.by_id.get(&id)).copied()
    }

    /// What is known of a record.
    ///
    /// # Errors
    /// Its bytes leave a doubt about the length.
    pub(crate) fn of(
        &self,
        arch: Arch,
        record: &Candidate<'_>,
        matches: &Matches,
    ) -> patchpoint::Result<Known> {
        let id = record.id().get();
        let told = self.told_of(matches, record.function(), id);
        if let Some(shape) = told {
            return Ok(as_told(arch, record, shape));
        }
        match (matches.verdict(&record.record()), self.others) {
            (Some(Verdict::Site(shape)), _) => return Ok(whole(*shape)),
            (Some(Verdict::Statepoint), _) => return Ok(Known::Statepoint),
            (Some(Verdict::Refused(why)), _) => return Ok(Known::Refused(why.clone())),
            _ if record.is_statepoint() => return Ok(Known::Statepoint),
            (_, Some(shape)) => return Ok(as_told(arch, record, shape)),
            (Some(Verdict::Unknown(why)), None) => return Ok(Known::Refused(why.clone())),
            (None, None) => {}
        }
        let patchpoint = seems_patchpoint(arch, record);
        if record.record().reserved().is_some() {
            let bytes = record.reserved()?.get();
            return Ok(Known::Site(only_length(bytes, patchpoint), Source::Recorded));
        }
        // protection: two-at-one-address-are-not-inferred
        if matches.is_shared(&record.record()) {
            return Ok(Known::NoLength(format!(
                "another record begins at the same address, and at most one of them reserves bytes: tell them, by --ir, --shape \
                 {id}=BYTES or {id}=none"
            )));
        }
        Ok(match patchpoint {
            true => Known::Site(
                only_length(record.infer_reserved()?.get(), true),
                Source::Inferred,
            ),
            false => Known::NoLength(format!(
                "real instructions stand there, as in a shadow: tell its length, by --ir, --shape {id}=shadow,BYTES or \
                 {id}=none"
            )),
        })
    }
}

fn as_told(arch: Arch, record: &Candidate<'_>, shape: Shape) -> Known {
    match shape {
        Shape::No => Known::NoSite("no site, as told"),
        Shape::Bytes(0) => Known::NoSite("reserves no bytes"),
        Shape::Bytes(bytes) => Known::Site(
            only_length(bytes, seems_patchpoint(arch, record)),
            Source::LengthTold,
        ),
        Shape::Whole(shape) => whole(shape),
    }
}

fn whole(shape: CallShape) -> Known {
    match shape.reserved().get() {
        0 => Known::NoSite("reserves no bytes"),
        _ => Known::Site(shape, Source::Told),
    }
}

/// The shape of a site of which only the length is known: of all conventions, that which lets a sequence overwrite the
/// least, and with no operands.
fn only_length(bytes: u32, patchpoint: bool) -> CallShape {
    match patchpoint {
        true => CallShape::any_reg(bytes),
        false => CallShape::shadow(bytes),
    }
}

/// Whether LLVM's call or a nop stands there, or the record has live-outs, which only patchpoints have.
fn seems_patchpoint(arch: Arch, record: &Candidate<'_>) -> bool {
    let bytes = record.bytes();
    let near = bytes.get(..64).unwrap_or(bytes);
    let prefix = verify::patchpoint_prefix(arch, CodeAddr::new(record.addr().get()), near);
    record.record().live_outs().len() > 0 || prefix.get() > 0
}

/// The lines that are not empty and no comments, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Result<Told, String> {
        text.parse()
    }

    fn whole(function: Option<&str>, id: u64, shape: CallShape) -> Result<Told, String> {
        Ok(Told {
            function: function.map(str::to_owned),
            id: Some(id),
            shape: Shape::Whole(shape),
        })
    }

    #[test]
    fn a_shape_is_told_in_words() {
        assert_eq!(
            told("7=anyreg,32,result,args=1"),
            whole(None, 7, CallShape::any_reg(32).result().args(1))
        );
        assert_eq!(told("0x8 = c, 40"), whole(None, 8, CallShape::c(40)));
        assert_eq!(told("-1=shadow,16"), whole(None, u64::MAX, CallShape::shadow(16)));
        assert_eq!(told("get:7=c,8"), whole(Some("get"), 7, CallShape::c(8)));
        assert_eq!(told("a::b=c:7=c,8"), whole(Some("a::b=c"), 7, CallShape::c(8)));
        let others = told("*=24").unwrap();
        assert_eq!((others.id, others.shape), (None, Shape::Bytes(24)));
        assert_eq!(told("9=none").unwrap().shape, Shape::No);
        for wrong in [
            "7",
            "=24",
            "7=",
            "x=24",
            "7=anyreg",
            "7=c,x",
            "7=24,result",
            "7=none,1",
            "7=c,8,args",
            "7=c,8,args=-1",
            "7=entry,8",
            "7=anyreg,8,result,result",
            "7=anyreg,8,args=1,args=2",
            "get:=8",
            "get:*=8",
        ] {
            assert!(told(wrong).unwrap_err().contains("such as"), "{wrong}");
        }
        for wrong in ["7=shadow,8,result", "7=shadow,8,args=1"] {
            assert!(told(wrong).unwrap_err().contains("neither a result"), "{wrong}");
        }
        for wrong in ["7=c,2147483648", "7=4294967295"] {
            assert!(told(wrong).unwrap_err().contains("at most 2147483647"), "{wrong}");
        }
    }

    #[test]
    fn the_last_word_on_an_id_counts_for_all_functions() {
        let mut shapes = Shapes::default();
        shapes.tell(told("get:7=8").unwrap());
        assert_eq!(shapes.by_function.len(), 1);
        shapes.tell(told("7=16").unwrap());
        assert_eq!((shapes.by_function.len(), shapes.by_id.len()), (0, 1));
    }

    #[test]
    fn comments_and_empty_lines_of_a_file_are_skipped() {
        let found: Vec<_> = lines("# sites\n\n  7=24\n8=none\n").collect();
        assert_eq!(found, [(3, "7=24"), (4, "8=none")]);
    }
}
