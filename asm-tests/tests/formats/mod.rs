//! What the tests of Mach-O and COFF have in common.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use asm_tests::jitlink::{self, Differs, Places, Relocated};

/// A folder of objects.
pub struct Folder {
    /// Under `objects`.
    pub path: &'static str,
    /// How much there is to compare, so that a comparison of nothing does not pass.
    pub bytes_at_least: usize,
    pub fields_at_least: usize,
    /// Objects that llvm-jitlink does not link.
    pub without: &'static [&'static str],
}

impl Folder {
    pub fn path(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("objects")
            .join(self.path)
    }

    fn record(&self) -> PathBuf {
        self.path().join("jitlink.txt")
    }
}

/// The objects of a folder that llvm-jitlink links.
fn linked(folder: &Folder) -> Vec<(PathBuf, Vec<u8>)> {
    let mut objects = objects(folder);
    objects.retain(|(path, _)| !folder.without.contains(&name(path)));
    objects
}

/// The objects of a folder, by their paths.
pub fn objects(folder: &Folder) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "o"));
    paths.sort();
    let read = |path: PathBuf| (path.clone(), std::fs::read(path).unwrap());
    paths.into_iter().map(read).collect()
}

fn name(path: &std::path::Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// What is recorded of an object: where everything is, and the hash of each section's bytes there.
fn record(path: &std::path::Path, places: &Places, ours: &[Relocated]) -> String {
    let mut text = format!("object {}\n{}", name(path), places.to_text());
    for section in ours {
        let hash = jitlink::hash(&section.bytes);
        writeln!(text, " bytes {} {hash:#x}", section.index).unwrap();
    }
    text
}

fn check_amount(folder: &Folder, all: &[Vec<Relocated>]) {
    let sections = all.iter().flatten();
    let (count, bytes, fields) = sections.fold((0, 0, 0), |(count, bytes, fields), section| {
        (count + 1, bytes + section.bytes.len(), fields + section.fields)
    });
    let objects = all.len();
    println!(
        "{}: {bytes} bytes with {fields} fields in {count} sections of {objects} objects are equal",
        folder.path
    );
    assert!(bytes >= folder.bytes_at_least && fields >= folder.fields_at_least);
}

/// Our bytes, which are those of jitlink.
fn equal(path: &std::path::Path, bytes: &[u8]) -> (Places, Vec<Relocated>) {
    let mut places = Places::ask(path, bytes);
    for _ in 0..10 {
        let ours = jitlink::relocated(bytes, &places);
        match jitlink::compare(path, bytes, &places, &ours) {
            Ok(_) => return (places, ours),
            Err(Differs::Bytes(said)) => panic!("{said}"),
            Err(Differs::Places(now)) => places = now,
        }
    }
    panic!("{}: placed otherwise every time", path.display());
}

/// Every byte of every section against llvm-jitlink. `PATCHPOINT_RECORD` writes the record anew.
pub fn compare(folder: &Folder) {
    if !jitlink::is_there() {
        println!("skipped: no llvm-jitlink-19");
        return;
    }
    let (mut text, mut all) = (String::new(), Vec::new());
    for (path, bytes) in linked(folder) {
        let (places, ours) = equal(&path, &bytes);
        text += &record(&path, &places, &ours);
        all.push(ours);
    }
    check_amount(folder, &all);
    if std::env::var_os("PATCHPOINT_RECORD").is_some() {
        std::fs::write(folder.record(), &text).unwrap();
    }
}

/// The same without llvm-jitlink.
pub fn compare_with_record(folder: &Folder) {
    let text = std::fs::read_to_string(folder.record()).unwrap();
    let mut recorded: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut object = "";
    for line in text.lines() {
        match line.strip_prefix("object ") {
            Some(name) => object = name,
            None => recorded.entry(object).or_default().push(line),
        }
    }
    let mut all = Vec::new();
    for (path, bytes) in linked(folder) {
        let lines = &recorded[name(&path)];
        let places = lines.iter().filter(|line| !line.starts_with(" bytes"));
        let places = Places::from_text(places.copied());
        let ours = jitlink::relocated(&bytes, &places);
        let mut expected = format!("object {}\n", name(&path));
        for line in lines {
            expected += line;
            expected.push('\n');
        }
        assert_eq!(record(&path, &places, &ours), expected);
        all.push(ours);
    }
    check_amount(folder, &all);
}

/// The comparison can fail.
pub fn check_comparison(folder: &Folder) {
    if !jitlink::is_there() {
        println!("skipped: no llvm-jitlink-19");
        return;
    }
    let (path, bytes) = objects(folder)
        .into_iter()
        .find(|(path, _)| name(path) == "relocations.o")
        .unwrap();
    let (places, mut ours) = equal(&path, &bytes);
    *ours[0].bytes.last_mut().unwrap() ^= 1;
    let compared = jitlink::compare(&path, &bytes, &places, &ours);
    assert!(matches!(compared, Err(Differs::Bytes(_))), "{compared:?}");
}
