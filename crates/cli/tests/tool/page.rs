//! `plan --html`: a page of the functions of sites.

use crate::{refusal, stdout};

const OBJECT: &str = "asm-tests/objects/x86_64/random_2.llc19.O2.o";
const LINES: &str = "crates/cli/tests/tool/ir/lines.o";

fn page(args: &[&str], status: i32) -> String {
    let page = stdout(&[&["plan"][..], args, &["--html"]].concat(), status);
    assert!(page.starts_with("<!DOCTYPE html>\n") && page.ends_with("</html>\n"));
    page
}

/// Tags are closed in the order in which they are opened, and nothing is left out.
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.split_once("<html").unwrap().1;
    rest = rest.split_once('>').unwrap().1;
    let style = rest.split_once("<style>").unwrap();
    let body = style.1.split_once("</style>").unwrap().1;
    rest = body;
    while let Some((text, tag)) = rest.split_once('<') {
        assert!(!text.contains('>'), "{text}");
        let (tag, after) = tag.split_once('>').unwrap();
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        rest = after;
        let name = tag.split([' ', '/']).next().unwrap();
        match tag.strip_prefix('/') {
            Some(closed) if open.is_empty() => assert!(["head", "html"].contains(&closed)),
            Some(closed) => assert_eq!(open.pop(), Some(closed), "{tag}"),
            None if tag.ends_with('/') => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_page_shows_functions_sites_values_and_branches() {
    let seq = "guard u64[arg(0)+8] == 0x17 else miss";
    let page = page(
        &[
            OBJECT,
            "--ir",
            "asm-tests/objects/ir/random_2.ll",
            "--id",
            "1007",
            "--seq",
            seq,
        ],
        0,
    );
    assert_well_formed(&page);
    for expected in [
        "<h2>random_2_1</h2>",
        // The whole function, not only its sites.
        "<td class=\"at\">+0</td><td class=\"bytes\">55</td><td class=\"what\">push rbp</td>",
        "<td class=\"what\">ret</td>",
        // A site with a card, and one without.
        "<a class=\"badge\" href=\"#site-1000023c\">anyregcc patchpoint 1007</a>",
        "<div class=\"card\" id=\"site-1000023c\">",
        "<span class=\"badge\">anyregcc patchpoint 1006</span>",
        "<td>arg(0)</td><td><code>rdi</code></td><td>8 bytes</td>",
        "<h4>Before</h4>",
        "<h4>After</h4>",
        // The sequence has none of HTML's signs left.
        "guard u64[arg(0)+8] == 0x17 else miss</div>",
    ] {
        assert!(page.contains(expected), "{expected}\n{page}");
    }
    // The one branch, which jumps over a site.
    assert_eq!(page.matches("<path class=\"line\"").count(), 1, "{page}");
    let rows = page.split("<h4>").next().unwrap().matches("<tr class=").count();
    assert_eq!(rows, 54);
    assert!(page.contains("252 bytes, 54 instructions"));
}

/// One file: nothing is fetched, nothing runs.
#[test]
fn a_page_needs_nothing_else() {
    let page = page(&[LINES, "--id", "2", "--seq", "trap"], 0);
    for foreign in [
        "<script",
        "http",
        "src=",
        "url(",
        "@import",
        "<link",
        "javascript",
    ] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
}

#[test]
fn names_are_escaped_and_demangled() {
    let args = [LINES, "--id", "2", "--seq", "if location(0) <u 5 goto end"];
    let plain = page(&args, 1);
    assert_well_formed(&plain);
    assert!(
        plain.contains("<h2>_ZN5shape4areaEPi</h2>") && plain.contains("location(0) &lt;u "),
        "{plain}"
    );
    assert!(plain.contains("<p class=\"wrong\">refused: "));
    let page = page(&[&args[..], &["--demangle", "--lines"]].concat(), 1);
    assert_well_formed(&page);
    assert!(page.contains("<h2>shape::area(int*)</h2>"), "{page}");
    assert!(
        page.contains("/src/lines.cc:4:3, inlined at /src/lines.cc:13:9; "),
        "{page}"
    );
    assert!(!page.contains("_ZN"), "{page}");
}

#[test]
fn pages_of_several_files_are_one_page() {
    let page = page(
        &[
            LINES,
            "crates/cli/tests/tool/ir/lines.macho.o",
            "--id",
            "2",
            "--seq",
            "trap",
        ],
        0,
    );
    assert_well_formed(&page);
    assert_eq!(page.matches("<h1>").count(), 2);
    assert_eq!(page.matches("<html").count(), 1);
}

/// For architectures whose instructions the tool does not know in words, too.
#[test]
fn branches_are_found_for_every_architecture() {
    for arch in ["aarch64", "powerpc64le", "s390x", "riscv64"] {
        let object = format!("crates/cli/tests/tool/ir/lines.{arch}.o");
        let page = page(&[&object, "--id", "1", "--shape", "1=c,32", "--seq", "trap"], 0);
        assert_well_formed(&page);
        assert_eq!(page.matches("<path class=\"line\"").count(), 1, "{arch}: {page}");
    }
}

#[test]
fn a_page_is_no_json() {
    let message = refusal(
        &[
            "plan", LINES, "--id", "2", "--seq", "trap", "--html", "--format", "json",
        ],
        2,
    );
    assert!(message.contains("cannot be used with"), "{message}");
}
