//! What the chapters show besides Rust is what the repository has: IR, the recipe for GDB, files
//! and commands.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(path: &str) -> String {
    let path = guide().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The chapters, by the names of their files.
fn chapters() -> BTreeSet<String> {
    let entries = fs::read_dir(guide().join("src")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .collect()
}

/// The blocks of a page that begin with this after the backquotes, without their fences.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        let block: Vec<&str> = lines
            .by_ref()
            .take_while(|line| line.trim_start() != "```")
            .collect();
        if info == language {
            blocks.push(block.join("\n"));
        }
    }
    blocks
}

/// Every block of a language in all chapters.
fn all_blocks(language: &str) -> Vec<(String, String)> {
    let of = |name: &String| {
        let blocks = blocks(&read(&format!("src/{name}")), language);
        blocks
            .into_iter()
            .map(|block| (name.clone(), block))
            .collect::<Vec<_>>()
    };
    chapters().iter().flat_map(of).collect()
}

#[test]
fn every_chapter_is_in_the_contents_and_its_blocks_are_tested() {
    let (summary, tested) = (read("src/SUMMARY.md"), read("pages.rs"));
    let chapters = chapters();
    assert!(chapters.len() > 10, "{chapters:?}");
    for name in chapters {
        assert!(
            summary.contains(&format!("]({name})")),
            "{name} is not in SUMMARY.md"
        );
        assert!(
            tested.contains(&format!("\"src/{name}\"")),
            "{name} is not in pages.rs"
        );
    }
}

#[test]
fn links_between_chapters_go_somewhere() {
    let mut links = 0;
    for name in chapters() {
        let page = read(&format!("src/{name}"));
        // Not in blocks: there the same characters are a lambda of C++.
        let text: String = page.split("```").step_by(2).collect();
        for part in text.split("](").skip(1) {
            let link = part.split(')').next().unwrap();
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            assert!(
                guide().join("src").join(file).exists(),
                "{name} refers to {link}, which is not there"
            );
            if file.ends_with(".md") && !anchor.is_empty() {
                let other = read(&format!("src/{file}"));
                let titles = other.lines().filter(|line| line.starts_with('#'));
                let mut anchors = titles.map(|title| {
                    let title = title.trim_start_matches('#').trim().to_lowercase();
                    let kept = title
                        .chars()
                        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
                    kept.collect::<String>().replace(' ', "-")
                });
                assert!(anchors.any(|known| known == anchor), "{name} refers to {link}");
            }
            links += 1;
        }
    }
    assert!(links > 20, "{links} links");
}

/// LLVM has compiled what is shown of IR, as it is in the examples' object, but for where lines
/// end.
#[test]
fn shown_ir_is_that_of_the_object() {
    let in_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let source = in_one_line(&read("../examples/objects/inline_cache.ll"));
    let shown = all_blocks("llvm");
    assert!(shown.len() >= 2, "{shown:?}");
    for (name, block) in shown {
        for paragraph in block.split("\n\n") {
            let paragraph = in_one_line(paragraph);
            assert!(
                source.contains(&paragraph),
                "{name} shows what is in no object: {paragraph}"
            );
        }
    }
}

/// What needs LLVM in Rust is compiled and run with its example.
#[test]
fn the_program_with_inkwell_is_the_example() {
    let example = read("../examples/inkwell/src/bin/first.rs");
    let shown = all_blocks("rust,ignore");
    assert_eq!(shown.len(), 1, "every other block is tested here");
    assert_eq!(shown[0].1, example.trim_end());
}

#[test]
fn the_recipe_for_gdb_is_the_file() {
    let recipe = read("../src/publish/trap/x86_64.gdb");
    let shown = all_blocks("text");
    assert!(
        shown.iter().any(|(_, block)| *block == recipe.trim_end()),
        "{shown:?}"
    );
}

/// Examples and pages of benchmarks that commands name are there, in blocks and in sentences.
#[test]
fn commands_name_what_is_there() {
    let pages = read("../benches/src/main.rs").to_lowercase();
    let mut named = 0;
    let names = chapters().into_iter().map(|name| format!("src/{name}"));
    for name in names.chain(["../README.md".to_owned(), "../CONTRIBUTING.md".to_owned()]) {
        for line in read(&name).lines() {
            let line = line.replace('`', " ");
            let words: Vec<&str> = line.split_whitespace().collect();
            for pair in words.windows(2) {
                if pair[0] == "--example" {
                    let folders = ["../examples", "../crates/remote/examples"];
                    let is_there = |folder: &str| {
                        let folder = guide().join(folder);
                        let file = folder.join(format!("{}.rs", pair[1]));
                        file.exists() || folder.join(pair[1]).join("main.rs").exists()
                    };
                    assert!(folders.into_iter().any(is_there), "{name}: {line}");
                    named += 1;
                }
                if pair[0] == "--" && line.contains("-p benches") {
                    assert!(pages.contains(pair[1]), "{name}: {line}");
                    named += 1;
                }
            }
        }
    }
    assert!(named >= 10, "{named} commands");
}
