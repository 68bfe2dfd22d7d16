//! What commands read: files, members of archives, the standard input, and the files that a process
//! has mapped; and what comes of all of them together.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use object::FileKind;
use object::read::archive::{ArchiveFile, ArchiveMember};
use object::read::macho::{FatArch, MachOFatFile32, MachOFatFile64};
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::process::{Mapped, Process};
use crate::{demangle, ir, json};

/// One thing with code.
pub(crate) struct Input<'d> {
    /// As it is called in what is printed.
    pub(crate) name: &'d str,
    pub(crate) data: &'d [u8],
    /// It is the only one that was asked for.
    pub(crate) is_alone: bool,
    /// Where a process has it.
    pub(crate) mapped: Option<&'d Mapped>,
}

/// What came of all inputs.
pub(crate) struct Gathered<T> {
    pub(crate) items: Vec<T>,
    /// What went wrong, with the name of the input.
    pub(crate) problems: Vec<(String, Problem)>,
    /// It was about one file that is no archive.
    pub(crate) is_alone: bool,
}

/// What is to be printed of an input.
pub(crate) enum Printed {
    Text(String),
    /// Text that is told apart from what is before it.
    AsIs(String),
    Json(Value),
    /// A part of a page of HTML.
    Page(String),
}

impl Printed {
    /// Replaces symbols by names of the source. In pages they are replaced when they are made.
    pub(crate) fn demangle(&mut self) {
        match self {
            Self::Text(text) | Self::AsIs(text) => *text = demangle::text(text),
            Self::Json(value) => demangle::value(value),
            Self::Page(_) => {}
        }
    }
}

/// Does the same with all inputs. What goes wrong with one does not keep the others from being
/// done; what is not there in some is missing only where it is in none.
pub(crate) fn each<T>(
    files: &[String],
    pid: Option<u32>,
    one: impl FnMut(&Input<'_>) -> Result<T, Problem>,
) -> Gathered<T> {
    let mut each = Each {
        one,
        absent: None,
        gathered: Gathered {
            items: Vec::new(),
            problems: Vec::new(),
            is_alone: files.len() == 1,
        },
    };
    match pid {
        Some(pid) => each.process(pid),
        None => files.iter().for_each(|file| each.file(file)),
    }
    let mut gathered = each.gathered;
    if gathered.items.is_empty() && gathered.problems.is_empty() {
        gathered.problems.extend(each.absent);
    }
    gathered
}

struct Each<T, F> {
    one: F,
    /// The first input without that for which was asked.
    absent: Option<(String, Problem)>,
    gathered: Gathered<T>,
}

impl<T, F: FnMut(&Input<'_>) -> Result<T, Problem>> Each<T, F> {
    fn file(&mut self, file: &str) {
        let data = match read(file) {
            Ok(data) => data,
            Err(error) => return self.wrong(file, Problem::Read(error)),
        };
        self.content(file, &data);
    }

    fn content(&mut self, name: &str, data: &[u8]) {
        match FileKind::parse(data) {
            Ok(FileKind::MachOFat32) => {
                let parsed = MachOFatFile32::parse(data);
                self.universal(name, data, parsed.map(|file| file.arches()));
            }
            Ok(FileKind::MachOFat64) => {
                let parsed = MachOFatFile64::parse(data);
                self.universal(name, data, parsed.map(|file| file.arches()));
            }
            _ => self.part(name, data),
        }
    }

    /// A file, or what a universal one holds for an architecture, which is no universal file again.
    fn part(&mut self, name: &str, data: &[u8]) {
        if let Ok(FileKind::Archive) = FileKind::parse(data) {
            return self.archive(name, data);
        }
        let is_alone = self.gathered.is_alone;
        self.done(&Input {
            name,
            data,
            is_alone,
            mapped: None,
        });
    }

    /// What a universal file of Mach-O holds for each architecture: an object or an archive.
    fn universal<A: FatArch>(&mut self, name: &str, data: &[u8], arches: object::Result<&[A]>) {
        self.gathered.is_alone = false;
        let arches = match arches {
            Ok(arches) => arches,
            Err(error) => return self.wrong(name, Problem::Object(error)),
        };
        for arch in arches {
            let name = format!("{name}:{}", format!("{:?}", arch.architecture()).to_lowercase());
            match arch.data(data) {
                Ok(data) => self.part(&name, data),
                Err(error) => self.wrong(&name, Problem::Object(error)),
            }
        }
    }

    /// The members of an archive that are objects and have what is looked for.
    fn archive(&mut self, file: &str, data: &[u8]) {
        self.gathered.is_alone = false;
        let before = (self.gathered.items.len(), self.gathered.problems.len());
        let mut lacks_something = false;
        let members = match members(file, data) {
            Ok(members) => members,
            Err(problem) => return self.wrong(file, problem),
        };
        for (name, data) in members {
            let input = Input {
                name: &name,
                data: &data,
                is_alone: false,
                mapped: None,
            };
            match (self.one)(&input) {
                Err(Problem::NoStackMap) => {}
                Err(Problem::NoSuchId { id, have }) => {
                    lacks_something = true;
                    self.lacks(&name, Problem::NoSuchId { id, have });
                }
                done => self.note(&name, done),
            }
        }
        let after = (self.gathered.items.len(), self.gathered.problems.len());
        if before == after && !lacks_something {
            self.wrong(file, Problem::NoStackMap);
        }
    }

    fn process(&mut self, pid: u32) {
        let name = format!("process {pid}");
        let process = match Process::open(pid) {
            Ok(process) => process,
            Err(problem) => return self.wrong(&name, problem),
        };
        let mut found = false;
        for mapped in process.files() {
            let data = match mapped.data() {
                Ok(data) => data,
                Err(problem) => {
                    found = true;
                    self.wrong(mapped.path(), problem);
                    continue;
                }
            };
            // Other files with code are data of the process's, such as what a JIT has kept.
            if !is_object(&data) {
                continue;
            }
            let input = Input {
                name: mapped.path(),
                data: &data,
                is_alone: false,
                mapped: Some(&mapped),
            };
            match (self.one)(&input) {
                Err(Problem::NoStackMap) => continue,
                Err(problem @ (Problem::NoSuchId { .. } | Problem::NoSection(_))) => {
                    self.lacks(input.name, problem);
                }
                done => self.note(input.name, done),
            }
            found = true;
        }
        if !found {
            self.wrong(&name, Problem::NoStackMapInProcess);
        }
    }

    fn done(&mut self, input: &Input<'_>) {
        if ir::is_bitcode(input.data) {
            return self.wrong(input.name, Problem::BitcodeObject);
        }
        match (self.one)(input) {
            Err(Problem::NoSuchId { id, have }) if !input.is_alone => {
                self.lacks(input.name, Problem::NoSuchId { id, have });
            }
            done => self.note(input.name, done),
        }
    }

    fn note(&mut self, name: &str, done: Result<T, Problem>) {
        match done {
            Ok(item) => self.gathered.items.push(item),
            Err(problem) => self.wrong(name, problem),
        }
    }

    fn lacks(&mut self, name: &str, problem: Problem) {
        self.absent.get_or_insert_with(|| (name.to_owned(), problem));
    }

    fn wrong(&mut self, name: &str, problem: Problem) {
        self.gathered.problems.push((name.to_owned(), problem));
    }
}

impl<T> Gathered<T> {
    /// Nothing came of anything.
    pub(crate) fn wrong(file: String, problem: Problem) -> Self {
        Self {
            items: Vec::new(),
            problems: vec![(file, problem)],
            is_alone: true,
        }
    }
}

impl<T> Gathered<(Printed, T)> {
    /// Everything in one text: parts one below the other, objects of JSON in a list.
    pub(crate) fn print(&mut self, is_json: bool) -> Result<String, Problem> {
        let mut values = Vec::new();
        let mut text = String::new();
        let mut pages = String::new();
        for (printed, _) in self.items.drain(..) {
            match printed {
                Printed::Text(part) => {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(&part);
                }
                Printed::AsIs(part) => text.push_str(&part),
                Printed::Json(value) => values.push(value),
                Printed::Page(part) => pages.push_str(&part),
            }
        }
        if is_json {
            let wrong = self.problems.iter();
            values.extend(wrong.map(|(file, problem)| json!({ "file": file, "error": problem.to_string() })));
            return match (self.is_alone, values.as_slice()) {
                (true, [value]) => json::print(value),
                _ => json::print(&Value::Array(values)),
            };
        }
        if !pages.is_empty() {
            return Ok(crate::document::of(&pages));
        }
        Ok(text)
    }
}

/// The bytes of a file, or of the standard input.
pub(crate) fn read(file: &str) -> io::Result<Vec<u8>> {
    if file != "-" {
        return fs::read(file);
    }
    let mut data = Vec::new();
    io::stdin().lock().read_to_end(&mut data)?;
    Ok(data)
}

/// Whether it is of a kind that has code: archives hold other files, too.
fn is_object(data: &[u8]) -> bool {
    matches!(
        FileKind::parse(data),
        Ok(FileKind::Elf32
            | FileKind::Elf64
            | FileKind::MachO32
            | FileKind::MachO64
            | FileKind::Coff
            | FileKind::CoffBig
            | FileKind::Pe32
            | FileKind::Pe64)
    )
}

/// The name and the bytes of a member of an archive.
type Member<'d> = (String, Cow<'d, [u8]>);

/// The members of an archive that are objects, each with what it is called in what is printed.
pub(crate) fn members<'d>(file: &str, data: &'d [u8]) -> Result<Vec<Member<'d>>, Problem> {
    let archive = ArchiveFile::parse(data).map_err(Problem::Object)?;
    let mut members = Vec::new();
    for member in archive.members() {
        let member = member.map_err(Problem::Object)?;
        let data = member_data(file, data, &archive, &member)?;
        if is_object(&data) {
            let name = format!("{file}({})", String::from_utf8_lossy(member.name()));
            members.push((name, data));
        }
    }
    Ok(members)
}

/// A member's bytes: of a thin archive they are in a file, named from the archive's folder.
fn member_data<'d>(
    file: &str,
    data: &'d [u8],
    archive: &ArchiveFile<'_>,
    member: &ArchiveMember<'d>,
) -> Result<Cow<'d, [u8]>, Problem> {
    if !archive.is_thin() {
        return Ok(Cow::Borrowed(member.data(data).map_err(Problem::Object)?));
    }
    let name = String::from_utf8_lossy(member.name()).into_owned();
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let data = fs::read(folder.join(&name)).map_err(|error| Problem::ReadOther(name, error))?;
    Ok(Cow::Owned(data))
}
