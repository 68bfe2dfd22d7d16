//! Several files, archives and the standard input.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{json, list, refusal, root, stdout, tool};

const CACHE: &str = "examples/objects/inline_cache.o";
const STRESS: &str = "examples/objects/live_stress.o";

/// A folder of a test's own, which is deleted with this.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("patchpoint-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An archive as `ar` writes it, with short names.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = b"!<arch>\n".to_vec();
    for (name, data) in members {
        let name = format!("{name}/");
        let header = format!(
            "{name:16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            0,
            0,
            0,
            "644",
            data.len()
        );
        assert_eq!(header.len(), 60);
        out.extend(header.as_bytes());
        out.extend(*data);
        if data.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    out
}

fn bytes(file: &str) -> Vec<u8> {
    fs::read(root().join(file)).unwrap()
}

#[test]
fn several_files_are_printed_one_after_the_other() {
    for command in ["inspect", "sites", "check"] {
        let status = i32::from(command == "check");
        let alone = [CACHE, STRESS].map(|file| {
            // Nothing tells the lengths of shadows, which `check` minds.
            stdout(&[command, file], status)
        });
        let both = stdout(&[command, CACHE, STRESS], status);
        assert_eq!(both, alone.join("\n"), "{command}");
        let values = json(&[command, CACHE, STRESS], status);
        let alone = [CACHE, STRESS].map(|file| json(&[command, file], status));
        assert_eq!(list(&values), alone, "{command}");
    }
}

#[test]
fn one_bad_file_keeps_no_other_from_being_read() {
    let output = tool(&["sites", "missing.o", CACHE, "Cargo.toml", "--format", "json"]);
    assert_eq!(output.status.code(), Some(2));
    let lines = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    assert!(
        lines[0].starts_with("patchpoint: missing.o: cannot be read: "),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("patchpoint: Cargo.toml: is no object file"),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 2);
    let values: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(values[0]["file"], CACHE);
    assert_eq!(values[1]["file"], "missing.o");
    assert!(
        values[2]["error"]
            .as_str()
            .unwrap()
            .starts_with("is no object file")
    );
}

#[test]
fn a_shape_or_ir_need_be_of_one_file_only() {
    let ir = [
        "--ir",
        "examples/objects/inline_cache.ll",
        "--ir",
        "examples/objects/live_stress.ll",
    ];
    let of_both = json(&[&["check", CACHE, STRESS][..], &ir].concat(), 0);
    assert_eq!(of_both[0]["findings"], serde_json::json!([]));
    assert_eq!(of_both[1]["sites"], 30);
    let shape = ["--shape", "78=anyreg,32,result,args=1"];
    stdout(&[&["sites", CACHE, STRESS][..], &shape].concat(), 0);
    let output = tool(&["sites", CACHE, STRESS, "--shape", "77777=8"]);
    assert_eq!(output.status.code(), Some(1));
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        line,
        format!("patchpoint: {CACHE}, {STRESS}: --shape: no record has ID 77777\n")
    );
    let output = tool(&[
        "sites",
        CACHE,
        STRESS,
        "--ir",
        "crates/cli/tests/tool/ir/names.ll",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("names.ll has no call of a patchpoint")
    );
}

#[test]
fn an_id_need_be_in_one_file_only() {
    let args = [
        "plan", CACHE, STRESS, "--id", "78", "--shape", "78=32", "--seq", "trap",
    ];
    let planned = json(&args, 0);
    let files: Vec<_> = list(&planned)
        .iter()
        .map(|file| file["file"].as_str().unwrap())
        .collect();
    assert!(files.contains(&CACHE), "{files:?}");
    let line = refusal(&["plan", CACHE, STRESS, "--id", "77777", "--seq", "trap"], 1);
    assert!(
        line.starts_with(&format!("patchpoint: {CACHE}: no record has ID 77777; ")),
        "{line}"
    );
}

#[test]
fn of_an_archive_the_members_with_stack_maps_are_read() {
    let folder = Folder::new("archive");
    let path = folder.file("libsites.a");
    let (cache, stress) = (bytes(CACHE), bytes(STRESS));
    let without = bytes("asm-tests/objects/x86_64/shadow.ref.o");
    let members: [(&str, &[u8]); 4] = [
        ("notes.txt", b"no object"),
        ("cache.o", &cache),
        ("none.o", &without),
        ("stress.o", &stress),
    ];
    fs::write(&path, archive(&members)).unwrap();
    for command in ["inspect", "sites"] {
        let text = stdout(&[command, &path], 0);
        let alone = [(CACHE, "cache.o"), (STRESS, "stress.o")].map(|(file, member)| {
            stdout(&[command, file], 0).replacen(file, &format!("{path}({member})"), 1)
        });
        assert_eq!(text, alone.join("\n"), "{command}");
    }
    let sites = json(&["sites", &path], 0);
    assert_eq!(list(&sites).len(), 2);
    // Even one member is a list: a program need not look into the archive.
    fs::write(&path, archive(&members[..2])).unwrap();
    assert_eq!(list(&json(&["sites", &path], 0)).len(), 1);
    fs::write(&path, archive(&members[2..3])).unwrap();
    let line = refusal(&["sites", &path], 2);
    assert!(
        line.starts_with(&format!("patchpoint: {path}: has no stack map")),
        "{line}"
    );
    // Cut in the middle of a member.
    let whole = archive(&members);
    fs::write(&path, &whole[..whole.len() - 100]).unwrap();
    let output = tool(&["sites", &path]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(
        line.starts_with(&format!("patchpoint: {path}: is no object file")),
        "{line}"
    );
}

#[test]
fn a_member_whose_map_is_damaged_is_named() {
    let folder = Folder::new("damaged");
    let path = folder.file("lib.a");
    let (damaged, _) = crate::damaged("member");
    let members: [(&str, &[u8]); 2] = [("good.o", &bytes(CACHE)), ("bad.o", &fs::read(&damaged).unwrap())];
    fs::remove_file(damaged).unwrap();
    fs::write(&path, archive(&members)).unwrap();
    let output = tool(&["check", &path]);
    assert_eq!(output.status.code(), Some(2));
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(
        line.starts_with(&format!("patchpoint: {path}(bad.o): section .llvm_stackmaps")),
        "{line}"
    );
}

/// What the tool does with these bytes on its standard input.
fn with_stdin(args: &[&str], data: &[u8]) -> std::process::Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_patchpoint"))
        .args(args)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(data).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn the_standard_input_is_a_file_like_others() {
    let data = bytes(CACHE);
    let known = ["--ir", "examples/objects/inline_cache.ll"];
    let commands: [&[&str]; 4] = [
        &["inspect", "-"],
        &["sites", "-"],
        &["check", "-"],
        &["plan", "-", "--id", "78", "--seq", "trap"],
    ];
    for args in commands {
        let args = match args[0] {
            "inspect" => args.to_vec(),
            _ => [args, &known].concat(),
        };
        let output = with_stdin(&args, &data);
        assert!(output.status.success(), "{args:?}: {output:?}");
        let of_file: Vec<&str> = args
            .iter()
            .map(|arg| if *arg == "-" { CACHE } else { arg })
            .collect();
        let expected = stdout(&of_file, 0).replacen(CACHE, "-", 1);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }
    let output = with_stdin(&["sites", "-"], b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .starts_with("patchpoint: -: is no object file")
    );
}

/// Archives of the system's archiver: with long names, with a table of symbols, and with nothing but
/// the names of files.
#[test]
fn archives_of_the_system_are_read() {
    let folder = Folder::new("ar");
    let name = "a_member_whose_name_is_longer_than_the_field.o";
    fs::write(folder.file(name), bytes(CACHE)).unwrap();
    fs::write(folder.file("stress.o"), bytes(STRESS)).unwrap();
    for (archive, options) in [("fat.a", "rcs"), ("thin.a", "rcsT")] {
        let mut ar = Command::new("ar");
        ar.current_dir(&folder.0)
            .args([options, archive, name, "stress.o"]);
        let Ok(output) = ar.output() else {
            println!("not shown: there is no `ar`");
            return;
        };
        assert!(output.status.success(), "{output:?}");
        let path = folder.file(archive);
        let sites = json(&["sites", &path], 0);
        let files: Vec<_> = list(&sites)
            .iter()
            .map(|file| file["file"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(files, [format!("{path}({name})"), format!("{path}(stress.o)")]);
    }
    fs::remove_file(folder.file("stress.o")).unwrap();
    let line = refusal(&["sites", &folder.file("thin.a")], 2);
    assert!(line.contains("stress.o cannot be read"), "{line}");
}

/// The code of several architectures in one file, as Mach-O has it: an object, and an archive.
#[test]
fn each_architecture_of_a_universal_file_is_read() {
    let folder = Folder::new("universal");
    let objects = ["macho-x86_64-19.o", "macho-arm64-19.o"].map(|name| {
        (
            format!("asm-tests/objects/inspect/{name}"),
            bytes(&format!("asm-tests/objects/inspect/{name}")),
        )
    });
    let inner = archive(&[("get.o", &objects[1].1)]);
    let parts = [(0x0100_0007u32, &objects[0].1), (0x0100_000c, &inner)];
    let mut data = 0xcafe_babe_u32.to_be_bytes().to_vec();
    data.extend(2u32.to_be_bytes());
    let mut at = 4096;
    for (cpu, part) in parts {
        let fields = [cpu, 0, at, u32::try_from(part.len()).unwrap(), 12];
        data.extend(fields.iter().flat_map(|field| field.to_be_bytes()));
        at += 65536;
    }
    for (number, (_, part)) in parts.iter().enumerate() {
        data.resize(4096 + number * 65536, 0);
        data.extend(*part);
    }
    let path = folder.file("get.dylib");
    fs::write(&path, &data).unwrap();
    let sites = json(&["sites", &path], 0);
    for (number, (object, _)) in objects.iter().enumerate() {
        assert_eq!(
            sites[number]["sites"],
            json(&["sites", object], 0)["sites"],
            "{object}"
        );
    }
    assert_eq!(sites[0]["file"], format!("{path}:x86_64"));
    assert_eq!(sites[1]["file"], format!("{path}:aarch64(get.o)"));
    fs::write(&path, &data[..data.len() - 4096]).unwrap();
    let output = tool(&["sites", &path]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // One that says that it holds itself.
    data[16..20].copy_from_slice(&0u32.to_be_bytes());
    fs::write(&path, &data).unwrap();
    let output = tool(&["sites", &path]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
