//! The objects that are checked in, with what the IR says of their sites.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::root;

/// The folders of objects that are compiled from `asm-tests/objects/ir`.
pub(crate) const FOLDERS: [&str; 8] = [
    "x86_64",
    "aarch64",
    "powerpc64",
    "powerpc64le",
    "powerpc64-elfv2",
    "s390x",
    "riscv64",
    "riscv64c",
];

/// An object of the corpus.
pub(crate) struct Object {
    /// From the crate's folder.
    pub(crate) path: String,
    pub(crate) folder: &'static str,
    /// The name of the source without `.ll`.
    pub(crate) source: String,
    /// The kind and reserved length of each site that has one, by ID.
    pub(crate) reserved: BTreeMap<u64, (bool, u32)>,
    /// A file for `--shapes`.
    pub(crate) shapes: PathBuf,
}

/// All objects of a folder that have stack maps.
pub(crate) fn objects(folder: &'static str) -> Vec<Object> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("asm-tests/objects").join(folder)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".o") || name.ends_with(".ref.o") {
            continue;
        }
        let source = name.split('.').next().unwrap().to_owned();
        let (reserved, shapes) = shapes(folder, &source);
        found.push(Object {
            path: format!("asm-tests/objects/{folder}/{name}"),
            folder,
            source,
            reserved,
            shapes,
        });
    }
    assert!(found.len() > 30, "{folder}: {}", found.len());
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Reads the shapes of a source as the objects of the folder were compiled: for others than
/// x86-64 with longer sites, see `asm-tests/objects/README.md`.
fn shapes(folder: &str, source: &str) -> (BTreeMap<u64, (bool, u32)>, PathBuf) {
    let text = fs::read_to_string(root().join(format!("asm-tests/objects/ir/{source}.ll"))).unwrap();
    let mut reserved = BTreeMap::new();
    let mut lines = String::from("# of the IR\n\n");
    let mut left_out = false;
    for line in text.lines() {
        // Functions that need AVX are compiled for x86-64 only.
        if line.starts_with("define ") {
            left_out = folder != "x86_64" && line.contains("+avx");
        }
        if left_out || !line.starts_with("  ") {
            continue;
        }
        let Some((head, call)) = line.split_once("@llvm.experimental.") else {
            continue;
        };
        let (name, args) = call.split_once('(').unwrap();
        let args: Vec<&str> = args.split(", ").collect();
        let id = args[0].strip_prefix("i64 ").unwrap();
        let bytes: u32 = args[1]
            .strip_prefix("i32 ")
            .unwrap()
            .trim_end_matches(')')
            .parse()
            .unwrap();
        let shadow = name == "stackmap";
        let bytes = match (folder, shadow) {
            ("x86_64", _) => bytes,
            (_, true) => bytes.next_multiple_of(4),
            (_, false) => 2 * bytes.next_multiple_of(4),
        };
        let shape = if shadow {
            format!("shadow,{bytes}")
        } else {
            let convention = if head.contains("anyregcc") { "anyreg" } else { "c" };
            let result = if name.ends_with(".void") { "" } else { ",result" };
            let count = args[3].strip_prefix("i32 ").unwrap().trim_end_matches(')');
            format!("{convention},{bytes}{result},args={count}")
        };
        lines.push_str(&format!("{id}={shape}\n"));
        if bytes > 0 {
            let id = id
                .parse::<i64>()
                .map_or_else(|_| id.parse().unwrap(), |id| id as u64);
            reserved.insert(id, (shadow, bytes));
        }
    }
    // Tests that run at the same time write the same.
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{folder}.{source}.shapes"));
    let own = path.with_extension(format!("{:?}", std::thread::current().id()));
    fs::write(&own, lines).unwrap();
    fs::rename(&own, &path).unwrap();
    (reserved, path)
}
