//! Members of archives: those are linked that define what is asked for, as the system's linkers do
//! it, wherever the archive is on the command line.

use std::collections::{HashMap, HashSet, VecDeque};

use object::FileKind;
use patchpoint::image::{Definition, Graph, Object, Scope};

use crate::files;
use crate::problem::Problem;

/// A file to be linked, or a member of an archive, which need not be.
pub(super) struct Part {
    /// As it is called in what is printed.
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    is_member: bool,
}

/// The files and members of archives.
pub(super) fn parts(names: &[String]) -> Result<Vec<Part>, Problem> {
    let mut parts = Vec::new();
    for name in names {
        let bytes = files::read(name).map_err(|error| Problem::Read(error).of(name))?;
        if !matches!(FileKind::parse(&*bytes), Ok(FileKind::Archive)) {
            parts.push(Part {
                name: name.clone(),
                bytes,
                is_member: false,
            });
            continue;
        }
        let members = files::members(name, &bytes).map_err(|problem| problem.of(name))?;
        parts.extend(members.into_iter().map(|(name, bytes)| Part {
            name,
            bytes: bytes.into_owned(),
            is_member: true,
        }));
    }
    Ok(parts)
}

/// One graph of the files, and of the members that define what is asked for: `entry` first.
pub(super) fn graph<'p>(parts: &'p [Part], entry: Option<&str>) -> Result<Graph<'p>, Problem> {
    let mut linked = Linked::default();
    for part in parts.iter().filter(|part| !part.is_member) {
        linked.add(part)?;
    }
    let definitions = definitions(parts)?;
    linked.wanted.extend(entry.map(str::to_owned));
    while let Some(name) = linked.wanted.pop_front() {
        let member = definitions.get(&name).filter(|_| !linked.defined.contains(&name));
        if let Some(part) = member.and_then(|number| parts.get(*number)) {
            linked.add(part)?;
        }
    }
    linked
        .graph
        .ok_or_else(|| Problem::Run("nothing asks for a member of an archive: give an object".to_owned()))
}

/// What is linked so far.
#[derive(Default)]
struct Linked<'p> {
    graph: Option<Graph<'p>>,
    defined: HashSet<String>,
    /// What was asked for. Of what is defined by now, nothing comes.
    wanted: VecDeque<String>,
}

impl<'p> Linked<'p> {
    fn add(&mut self, part: &'p Part) -> Result<(), Problem> {
        let alone = read(part)?;
        for symbol in alone
            .symbols()
            .iter()
            .filter(|symbol| symbol.scope() != Scope::Local)
        {
            match symbol.definition() {
                Definition::Undefined { weak: false } => self.wanted.push_back(symbol.name().to_owned()),
                // Who asks weakly does without.
                Definition::Undefined { weak: true } => {}
                _ => {
                    self.defined.insert(symbol.name().to_owned());
                }
            }
        }
        match &mut self.graph {
            None => self.graph = Some(alone),
            Some(graph) => graph.add(&part.name, object(part)?)?,
        }
        Ok(())
    }
}

/// The first member that defines each name.
fn definitions(parts: &[Part]) -> Result<HashMap<String, usize>, Problem> {
    let mut definitions = HashMap::new();
    for (number, part) in parts.iter().enumerate().filter(|(_, part)| part.is_member) {
        let graph = read(part)?;
        let shared = graph
            .symbols()
            .iter()
            .filter(|symbol| symbol.scope() != Scope::Local);
        for symbol in shared {
            if !matches!(symbol.definition(), Definition::Undefined { .. }) {
                definitions.entry(symbol.name().to_owned()).or_insert(number);
            }
        }
    }
    Ok(definitions)
}

fn object(part: &Part) -> Result<Object<'_>, Problem> {
    Object::parse(&part.bytes).map_err(|error| Problem::from(error).of(&part.name))
}

fn read(part: &Part) -> Result<Graph<'_>, Problem> {
    Ok(Graph::new(&part.name, object(part)?))
}
