//! What the stack map does not hold: kind, reserved length, convention, result and arguments of each record.
//!
//! It is told on the command line, in files of lines of the same form, or by the LLVM IR that the object was compiled from.
//! What is not told is taken from the stack map, where it is a flat one that tells lengths, or inferred from the bytes, where they leave no doubt.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::str::FromStr;

use patchpoint::CallShape;
use patchpoint::addr::CodeAddr;
use patchpoint::arch::Arch;
use patchpoint::site::Candidate;
use patchpoint::verify;

use crate::args::{Code, number};
use crate::problem::Problem;
use crate::site::STATEPOINT;

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
        for word in words {
            shape = match word.split_once('=') {
                None if word == "result" => shape.result(),
                Some(("args", count)) => shape.args(count.parse().ok()?),
                _ => return None,
            };
        }
        Some(Self::Whole(shape))
    }
}

/// Everything that was told.
#[derive(Default)]
pub(crate) struct Shapes {
    by_function: HashMap<(String, u64), Shape>,
    by_id: HashMap<u64, Shape>,
    others: Option<Shape>,
    /// The files of IR, and the IDs in them.
    ir: (Vec<String>, HashSet<u64>),
}

/// Where the length of a site comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Told,
    /// The stack map tells it, as flat ones may.
    Recorded,
    Inferred,
}

/// What is known of a record.
pub(crate) enum Known {
    Site(CallShape, Source),
    /// It is no site, and why.
    NoSite(&'static str),
    /// Nobody knows how long it is, and what it seems to be.
    NoLength(String),
}

impl Shapes {
    /// Reads the files that the command line names; what stands on the command line itself comes first.
    pub(crate) fn read(code: &Code) -> Result<Self, Problem> {
        let mut shapes = Self::default();
        let read = |file: &String| {
            let text = fs::read_to_string(file);
            text.map_err(|error| Problem::ReadOther(file.clone(), error))
        };
        shapes.ir.0.clone_from(&code.ir);
        for file in &code.ir {
            for (function, id, shape) in sites_of_ir(&read(file)?) {
                shapes.ir.1.insert(id);
                shapes.by_id.insert(id, shape);
                shapes.by_function.insert((function, id), shape);
            }
        }
        for file in &code.shapes {
            for (line, told) in lines(&read(file)?) {
                let told = told.parse().map_err(|expected| Problem::Shape {
                    file: file.clone(),
                    line,
                    expected,
                })?;
                shapes.tell(told);
            }
        }
        code.shape.iter().for_each(|told| shapes.tell(told.clone()));
        Ok(shapes)
    }

    /// Whether the IR, if there is any, is of a file whose records have these IDs.
    pub(crate) fn check_ir(&self, ids: impl IntoIterator<Item = u64>) -> Result<(), Problem> {
        let (files, known) = &self.ir;
        match files.is_empty() || ids.into_iter().any(|id| known.contains(&id)) {
            true => Ok(()),
            false => Err(Problem::OtherIr(files.join(", "))),
        }
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

    /// What is known of a record.
    ///
    /// # Errors
    /// Its bytes leave a doubt about the length.
    pub(crate) fn of(&self, arch: Arch, record: &Candidate<'_>) -> patchpoint::Result<Known> {
        let id = record.id().get();
        let here = self.by_function.get(&(record.function().to_owned(), id));
        let shape = match here.or_else(|| self.by_id.get(&id)) {
            Some(shape) => Some(*shape),
            None if id == STATEPOINT => return Ok(Known::NoSite("a statepoint, by its ID")),
            None => self.others,
        };
        let patchpoint = seems_patchpoint(arch, record);
        Ok(match shape {
            Some(Shape::No) => Known::NoSite("no site, as told"),
            Some(Shape::Whole(shape)) if shape.reserved().get() == 0 => Known::NoSite("reserves no bytes"),
            Some(Shape::Whole(shape)) => Known::Site(shape, Source::Told),
            Some(Shape::Bytes(bytes)) if patchpoint => Known::Site(CallShape::c(bytes), Source::Told),
            Some(Shape::Bytes(bytes)) => Known::Site(CallShape::shadow(bytes), Source::Told),
            None if record.record().reserved().is_some() => {
                let bytes = record.reserved()?.get();
                let shape = if patchpoint {
                    CallShape::c
                } else {
                    CallShape::shadow
                };
                Known::Site(shape(bytes), Source::Recorded)
            }
            None if patchpoint => Known::Site(CallShape::c(record.infer_reserved()?.get()), Source::Inferred),
            None => Known::NoLength(format!(
                "real instructions stand there, as in a shadow: tell its length, by --ir, --shape {id}=shadow,BYTES or \
                 {id}=none"
            )),
        })
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

/// The sites of LLVM IR as text, each with its function: a call of `llvm.experimental.patchpoint` or `stackmap` stands on
/// one line.
fn sites_of_ir(text: &str) -> Vec<(String, u64, Shape)> {
    let mut function = String::new();
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(name) = defined(line) {
            function = name.to_owned();
        }
        found.extend(site_of_ir(line).map(|(id, shape)| (function.clone(), id, shape)));
    }
    found
}

/// The name of the function whose definition begins there.
fn defined(line: &str) -> Option<&str> {
    let (_, name) = line.strip_prefix("define ")?.split_once('@')?;
    let (name, _) = name.split_once('(')?;
    Some(name.trim_matches('"'))
}

fn site_of_ir(line: &str) -> Option<(u64, Shape)> {
    let line = line.trim_start();
    if line.starts_with(';') || line.starts_with("declare") {
        return None;
    }
    let (head, call) = line.split_once("@llvm.experimental.")?;
    let (name, args) = call.split_once('(')?;
    let mut args = arguments(args).into_iter();
    let id = record_id(args.next()?.strip_prefix("i64 ")?)?;
    let bytes = args.next()?.strip_prefix("i32 ")?.parse().ok()?;
    let shape = match name.split('.').next()? {
        "stackmap" => CallShape::shadow(bytes),
        "patchpoint" => {
            let count = args.nth(1)?.strip_prefix("i32 ")?.parse().ok()?;
            let shape = match head.contains("anyregcc") {
                true => CallShape::any_reg(bytes),
                false => CallShape::c(bytes),
            };
            match name.ends_with(".void") {
                true => shape.args(count),
                false => shape.result().args(count),
            }
        }
        _ => return None,
    };
    Some((id, Shape::Whole(shape)))
}

/// The arguments of a call up to its closing parenthesis.
fn arguments(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut start, mut depth) = (0, 0_u32);
    for (at, c) in text.char_indices() {
        let ends = match c {
            '(' | '[' | '<' | '{' => {
                depth += 1;
                false
            }
            ')' if depth == 0 => true,
            ')' | ']' | '>' | '}' => {
                depth = depth.saturating_sub(1);
                false
            }
            ',' => depth == 0,
            _ => false,
        };
        if ends {
            found.extend(text.get(start..at).map(str::trim));
            start = at + 1;
            if c == ')' {
                break;
            }
        }
    }
    found
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
            "get:=8",
            "get:*=8",
        ] {
            assert!(told(wrong).unwrap_err().contains("such as"), "{wrong}");
        }
    }

    #[test]
    fn the_ir_tells_shapes() {
        let text = "
            declare void @llvm.experimental.stackmap(i64, i32, ...)
            ; call void @llvm.experimental.stackmap(i64 1, i32 8)
define i64 @first(i64 %a) {
            call void (i64, i32, ...) @llvm.experimental.stackmap(i64 2, i32 16, i64 %x)
            %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 -3, i32 24, ptr inttoptr (i64 5 to ptr), i32 2, i64 %a, i64 %b)
define internal void @\"se cond\"() {
            call void (i64, i32, i8*, i32, ...) @llvm.experimental.patchpoint.void(i64 4, i32 32, i8* null, i32 0)
            call token @llvm.experimental.gc.statepoint.p0(i64 5, i32 6)";
        let site = |function: &str, id: i64, shape| (function.to_owned(), id as u64, Shape::Whole(shape));
        let expected = [
            site("first", 2, CallShape::shadow(16)),
            site("first", -3, CallShape::any_reg(24).result().args(2)),
            site("se cond", 4, CallShape::c(32)),
        ];
        assert_eq!(sites_of_ir(text), expected);
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
