//! That the list of protections is about the marks in the sources; `cargo run -p asm-tests --bin
//! protections` takes each out.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use asm_tests::protections;

#[test]
fn every_mark_is_listed_and_what_is_listed_is_marked() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let all = protections::read_all().unwrap();
    let marks = protections::marks(&root).unwrap();
    let mut rotten = Vec::new();
    let mut listed = BTreeSet::new();
    for (one, edit) in all
        .iter()
        .flat_map(|one| one.edits.iter().map(move |edit| (one, edit)))
    {
        listed.insert(&edit.mark);
        let applied = match marks.get(&edit.mark) {
            Some(file) => edit
                .apply(&fs::read_to_string(file).unwrap())
                .map_err(|error| error.to_string()),
            None => Err(format!("nothing is marked as {}", edit.mark)),
        };
        rotten.extend(applied.err().map(|error| format!("{}: {error}", one.listed_in)));
    }
    let stray = marks.iter().filter(|(mark, _)| !listed.contains(mark));
    rotten.extend(stray.map(|(mark, file)| format!("{}: {mark} is not listed", file.display())));
    assert!(rotten.is_empty(), "{}", rotten.join("\n"));
    println!("{} protections at {} marks", all.len(), marks.len());
    assert!(!all.is_empty());
}
