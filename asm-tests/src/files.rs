//! Sets of objects that are linked together: the files of a folder.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use patchpoint::arch::Arch;
use patchpoint::image::{Graph, Object};

/// Objects of one folder, each with its name, by their names.
#[derive(Clone, Debug)]
pub struct Files {
    /// The folder's name, such as `x86_64-gcc-O2`.
    pub name: String,
    /// The names of the files with their bytes.
    pub files: Vec<(String, Vec<u8>)>,
}

/// The start of the names of the folders of objects for this machine.
pub const NATIVE_PREFIX: &str = match Arch::host() {
    Some(Arch::X86_64) => "x86_64-",
    Some(Arch::AArch64) => "aarch64-",
    Some(Arch::SystemZ) => "s390x-",
    Some(Arch::RiscV64) => "riscv64-",
    Some(Arch::PowerPc64Le) => "powerpc64le-",
    Some(Arch::PowerPc64ElfV2) => "powerpc64_elfv2-",
    _ => "powerpc64-",
};

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| fail(folder, error));
    let mut found: Vec<_> = entries
        .map(|entry| entry.unwrap_or_else(|error| fail(folder, error)).path())
        .collect();
    found.sort();
    found
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("objects").join(name)
}

fn fail<T>(path: &Path, error: impl Display) -> T {
    panic!("{}: {error}", path.display())
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The sets of objects in the folders of this folder under `objects`.
///
/// # Panics
///
/// If a file cannot be read.
#[must_use]
pub fn sets(folder: &str) -> Vec<Files> {
    let folder = self::folder(folder);
    let folders = entries(&folder).into_iter().filter(|path| path.is_dir());
    let read = |folder: PathBuf| {
        let files = entries(&folder).into_iter();
        let objects = files.filter(|path| path.extension().is_some_and(|extension| extension == "o"));
        let read = |path: PathBuf| {
            let bytes = std::fs::read(&path).unwrap_or_else(|error| fail(&path, error));
            (name(&path), bytes)
        };
        Files {
            name: name(&folder),
            files: objects.map(read).collect(),
        }
    };
    folders.map(read).filter(|set| !set.files.is_empty()).collect()
}

impl Files {
    /// Whether they are for this machine.
    #[must_use]
    pub fn is_native(&self) -> bool {
        self.name.starts_with(NATIVE_PREFIX)
    }

    /// The bytes of the file with this name.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn file(&self, name: &str) -> &[u8] {
        let found = self.files.iter().find(|file| file.0 == name);
        found.map_or_else(|| fail(Path::new(&self.name), name), |file| &file.1)
    }

    /// All of them as one graph, forwards or backwards: what it does, does not depend on it.
    ///
    /// # Panics
    ///
    /// If there are none, or they cannot be linked together.
    #[must_use]
    pub fn graph(&self, backwards: bool) -> Graph<'_> {
        let mut files: Vec<_> = self
            .files
            .iter()
            .map(|(name, bytes)| (name.as_str(), &**bytes))
            .collect();
        if backwards {
            files.reverse();
        }
        graph(&files).unwrap_or_else(|error| fail(Path::new(&self.name), error))
    }
}

/// These files as one graph.
///
/// # Errors
/// They cannot be linked together.
///
/// # Panics
///
/// If there are none.
pub fn graph<'data>(files: &[(&str, &'data [u8])]) -> patchpoint::Result<Graph<'data>> {
    let Some(((first, bytes), others)) = files.split_first() else {
        panic!("no files");
    };
    let mut graph = Graph::new(*first, Object::parse(bytes)?);
    for (name, bytes) in others {
        graph.add(*name, Object::parse(bytes)?)?;
    }
    Ok(graph)
}

/// What a program returns, line by line, as a file in this folder under `objects` has it.
///
/// # Panics
///
/// If there is no such file, or it has something else than numbers.
#[must_use]
pub fn expected(folder: &str) -> Vec<i64> {
    let path = self::folder(folder).join("expected.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| fail(&path, error));
    let number = |line: &str| line.parse().unwrap_or_else(|error| fail(&path, error));
    text.lines().map(number).collect()
}
