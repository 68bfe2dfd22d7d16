//! What the stack map does not hold: kind, reserved length, convention, result and arguments of
//! each record.
//!
//! It is told on the command line, in files of lines of the same form, or by the LLVM IR that the
//! object was compiled from. What is not told is taken from the stack map, where it is a flat one
//! that tells lengths, or inferred from the bytes, where they leave no doubt.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs;

use object::BinaryFormat;
use patchpoint::CallShape;
use patchpoint::addr::CodeAddr;
use patchpoint::arch::{Arch, instructions};
use patchpoint::site::Candidate;
use patchpoint::verify;

use crate::args::KnownArgs;
use crate::image;
use crate::ir::{Mangling, Matches, Program, Verdict};
use crate::object_file::ObjectFile;
use crate::problem::Problem;
use crate::told::{Shape, ToldShape};

/// Everything that was told.
#[derive(Default)]
pub(crate) struct Shapes {
    by_function: HashMap<(String, u64), Shape>,
    by_id: HashMap<u64, Shape>,
    others: Option<Shape>,
    /// What was told, with the file, if it was told in one, and the place in words.
    told: Vec<(Option<String>, String, ToldShape)>,
    ir: Option<Program>,
    ir_files: Vec<String>,
    used: RefCell<Used>,
}

/// What of the told has been of use, in all inputs together.
#[derive(Default)]
struct Used {
    /// By its number.
    told: HashSet<usize>,
    /// How many inputs there were, and of how many the IR knows something.
    inputs: usize,
    known_inputs: usize,
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
pub(crate) enum RecordShape {
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
    /// Reads the files that the command line names; what is on the command line itself comes
    /// first.
    pub(crate) fn read(known: &KnownArgs) -> Result<Self, Problem> {
        let mut shapes = Self::default();
        let read = |file: &String| fs::read(file).map_err(|error| Problem::ReadOther(file.clone(), error));
        shapes.ir_files.clone_from(&known.ir);
        for file in &known.ir {
            let program = shapes.ir.get_or_insert_default();
            program.add_file(file, &read(file)?)?;
        }
        for file in &known.shapes {
            let bytes = read(file)?;
            for (line, text) in lines(&String::from_utf8_lossy(&bytes)) {
                let told: ToldShape = text.parse().map_err(|expected| Problem::Shape {
                    file: file.clone(),
                    line,
                    expected,
                })?;
                shapes.tell(told.clone());
                let place = format!("{file}, line {line}");
                shapes.told.push((Some(file.clone()), place, told));
            }
        }
        for told in &known.shape {
            shapes.tell(told.clone());
            shapes.told.push((None, "--shape".to_owned(), told.clone()));
        }
        Ok(shapes)
    }

    /// Whether nothing at all was told.
    pub(crate) fn is_empty(&self) -> bool {
        self.told.is_empty() && self.ir.is_none()
    }

    /// Looks at all records of placed code, before [`Self::of`] is asked for each. Where this is not
    /// the only input, [`Self::check_used`] says at the end what was of no use in any.
    ///
    /// # Errors
    /// What was told cannot be of this file.
    pub(crate) fn matches(
        &self,
        file: &ObjectFile<'_>,
        code: &image::PlacedCode,
        is_alone: bool,
    ) -> Result<Matches, Problem> {
        let mangling = match file.file.format() {
            BinaryFormat::MachO => Mangling::Underscore,
            _ => Mangling::None,
        };
        let mut matches = Matches::of(self.ir.as_ref(), mangling, code)?;
        let mut used = self.used.borrow_mut();
        used.inputs += 1;
        used.known_inputs += usize::from(!matches.is_foreign());
        let unit = instructions::unit(code.image.arch);
        for (number, (_, place, told)) in self.told.iter().enumerate() {
            let function = told.function.as_deref();
            if told.id.is_some_and(|id| !matches.has(id, function)) {
                continue;
            }
            used.told.insert(number);
            if let Some(bytes) = told.shape.bytes().filter(|bytes| bytes % unit != 0) {
                return Err(Problem::Told {
                    place: place.clone(),
                    why: format!(
                        "no site has {}: instructions of {} are multiples of {unit}",
                        crate::words::count_u64(bytes.into(), "byte"),
                        code.image.arch
                    ),
                });
            }
        }
        drop(used);
        if is_alone {
            self.check_used()?;
            matches.unused = self.unused();
        }
        Ok(matches)
    }

    /// Refuses what was told and is of no use in all inputs together.
    ///
    /// # Errors
    /// What was told on the command line is of no record, or nothing of a file is.
    pub(crate) fn check_used(&self) -> Result<(), Problem> {
        let used = self.used.borrow();
        if used.inputs == 0 {
            return Ok(());
        }
        if used.known_inputs == 0 {
            return Err(Problem::OtherIr(self.ir_files.join(", ")));
        }
        let mut useful = HashSet::new();
        for (number, (file, place, told)) in self.told.iter().enumerate() {
            match (used.told.contains(&number), file) {
                (true, file) => {
                    useful.insert(file);
                }
                // protection: a-shape-of-no-record-is-refused
                (false, None) => return Err(of_no_record(place, told)),
                (false, Some(_)) => {}
            }
        }
        // LLVM merges calls and leaves some out: what was written down of a source need not be all
        // there, but something of it.
        let mut files = self.told.iter().map(|(file, ..)| file);
        match files.find(|file| file.is_some() && !useful.contains(file)) {
            Some(Some(file)) => Err(Problem::Told {
                place: file.clone(),
                why: "none of its shapes is of a record of this file".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// What files of shapes say of records that are not there.
    fn unused(&self) -> Vec<String> {
        let used = self.used.borrow();
        let told = self.told.iter().enumerate();
        told.filter(|(number, (file, ..))| file.is_some() && !used.told.contains(number))
            .map(|(_, (_, place, told))| of_no_record(place, told).to_string())
            .collect()
    }

    fn tell(&mut self, told: ToldShape) {
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
    ) -> patchpoint::site::Result<RecordShape> {
        let id = record.id().get();
        let told = self.told_of(matches, record.function(), id);
        if let Some(shape) = told {
            return Ok(as_told(arch, record, shape));
        }
        match (matches.verdict(&record.record()), self.others) {
            (Some(Verdict::Site(shape)), _) => return Ok(whole(*shape)),
            (Some(Verdict::Statepoint), _) => return Ok(RecordShape::Statepoint),
            (Some(Verdict::Refused(why)), _) => return Ok(RecordShape::Refused(why.clone())),
            _ if record.is_statepoint() => return Ok(RecordShape::Statepoint),
            (_, Some(shape)) => return Ok(as_told(arch, record, shape)),
            (Some(Verdict::Unknown(why)), None) => return Ok(RecordShape::Refused(why.clone())),
            (None, None) => {}
        }
        let patchpoint = seems_patchpoint(arch, record);
        if record.record().reserved().is_some() {
            let bytes = record.reserved()?.get();
            return Ok(RecordShape::Site(
                only_length(bytes, patchpoint),
                Source::Recorded,
            ));
        }
        // protection: two-at-one-address-are-not-inferred
        if matches.is_shared(&record.record()) {
            return Ok(RecordShape::NoLength(format!(
                "another record begins at the same address, and at most one of them reserves bytes: tell them, by --ir, --shape \
                 {id}=BYTES or {id}=none"
            )));
        }
        Ok(match patchpoint {
            true => RecordShape::Site(
                only_length(record.infer_reserved()?.get(), true),
                Source::Inferred,
            ),
            false => RecordShape::NoLength(format!(
                "real instructions are there, as in a shadow: tell its length, by --ir, --shape {id}=shadow,BYTES or \
                 {id}=none"
            )),
        })
    }
}

fn as_told(arch: Arch, record: &Candidate<'_>, shape: Shape) -> RecordShape {
    match shape {
        Shape::No => RecordShape::NoSite("no site, as told"),
        Shape::Bytes(0) => RecordShape::NoSite("reserves no bytes"),
        Shape::Bytes(bytes) => RecordShape::Site(
            only_length(bytes, seems_patchpoint(arch, record)),
            Source::LengthTold,
        ),
        Shape::Whole(shape) => whole(shape),
    }
}

fn whole(shape: CallShape) -> RecordShape {
    match shape.reserved().get() {
        0 => RecordShape::NoSite("reserves no bytes"),
        _ => RecordShape::Site(shape, Source::Told),
    }
}

/// The shape of a site of which only the length is known: of all conventions, that which lets a
/// sequence overwrite the least, and with no operands.
fn only_length(bytes: u32, patchpoint: bool) -> CallShape {
    match patchpoint {
        true => CallShape::any_reg(bytes),
        false => CallShape::shadow(bytes),
    }
}

/// Whether LLVM's call or a nop is there, or the record has live-outs, which only patchpoints
/// have.
fn seems_patchpoint(arch: Arch, record: &Candidate<'_>) -> bool {
    let bytes = record.bytes();
    let near = bytes.get(..64).unwrap_or(bytes);
    let prefix = verify::patchpoint_prefix(arch, CodeAddr::new(record.addr().get()), near);
    record.record().live_outs().len() > 0 || prefix.get() > 0
}

fn of_no_record(place: &str, told: &ToldShape) -> Problem {
    Problem::Told {
        place: place.to_owned(),
        why: match (told.id, &told.function) {
            (Some(id), Some(name)) => format!("no record of a function {name} has ID {id}"),
            (Some(id), None) => format!("no record has ID {id}"),
            (None, _) => "there is no record".to_owned(),
        },
    }
}

/// The lines that are not empty and no comments, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_on_an_id_counts_for_all_functions() {
        let mut shapes = Shapes::default();
        shapes.tell("get:7=8".parse().unwrap());
        assert_eq!(shapes.by_function.len(), 1);
        shapes.tell("7=16".parse().unwrap());
        assert_eq!((shapes.by_function.len(), shapes.by_id.len()), (0, 1));
    }

    #[test]
    fn comments_and_empty_lines_of_a_file_are_skipped() {
        let found: Vec<_> = lines("# sites\n\n  7=24\n8=none\n").collect();
        assert_eq!(found, [(3, "7=24"), (4, "8=none")]);
    }
}
