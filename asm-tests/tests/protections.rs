//! That the list of protections is still about the sources; `cargo run -p asm-tests --bin protections` takes each out.

use std::path::Path;

use asm_tests::protections;

#[test]
fn what_the_list_takes_out_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let all = protections::read_all().unwrap();
    let mut rotten = Vec::new();
    for (one, edit) in all
        .iter()
        .flat_map(|one| one.edits.iter().map(move |edit| (one, edit)))
    {
        let applied = match std::fs::read_to_string(root.join(&edit.file)) {
            Ok(text) => edit.apply(&text).map_err(|error| error.to_string()),
            Err(error) => Err(format!("{}: {error}", edit.file)),
        };
        rotten.extend(
            applied
                .err()
                .map(|error| format!("{} ({}): {error}", one.name, one.listed_in)),
        );
    }
    assert!(rotten.is_empty(), "{}", rotten.join("\n"));
    assert!(!all.is_empty());
}
