//! Linked programs and shared objects, and processes that run them: linked here, by the system's
//! compiler, where there is one.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json as value};

use crate::files::Folder;
use crate::{assert_documented, json, list, root, stdout, tool};

const OBJECT: &str = "asm-tests/objects/x86_64/property.llc19.O2.o";
const IR: &str = "asm-tests/objects/ir/property.ll";

/// A program that says where a function of the object is. When it reads a byte it patches the
/// function's site with a breakpoint, then it puts a copy over all of its code, and then it ends.
const MAIN: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
extern char get[];
int main(void) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    /* Where the program's code is mapped. */
    unsigned long start_of, end_of;
    char line[512], mode[8], *start = 0, *end = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %7s", &start_of, &end_of, mode) == 3 && start_of <= (unsigned long)get
            && (unsigned long)get < end_of) {
            start = (char *)start_of;
            end = (char *)end_of;
        }
    }
    printf("%p\n", (void *)get);
    fflush(stdout);
    getchar();
    int memory = open("/proc/self/mem", O_RDWR);
    if (pwrite(memory, "\xcc", 1, (off_t)(get + 4)) != 1) return 1;
    puts("patched");
    fflush(stdout);
    getchar();
    long size = (long)(end - start);
    int copy = memfd_create("code", 0);
    if (write(copy, start, size) != size) return 2;
    if (mmap(start, size, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, copy, 0) != start) return 3;
    puts("remapped");
    fflush(stdout);
    getchar();
    return 0;
}
"#;

/// Links the object by the system's compiler with these options, if there is one that knows them.
fn link(folder: &Folder, name: &str, options: &[&str]) -> Option<String> {
    let main = folder.file("main.c");
    std::fs::write(&main, MAIN).unwrap();
    let path = folder.file(name);
    let mut cc = Command::new("cc");
    cc.args(options).arg("-o").arg(&path).arg(root().join(OBJECT));
    if !options.contains(&"-shared") {
        cc.arg(&main);
    }
    let output = cc.output().ok()?;
    if !output.status.success() {
        println!("not shown: {options:?}: {output:?}");
        return None;
    }
    Some(path)
}

/// The name, ID, offset and state of each record.
fn sites(report: &Value) -> Vec<(String, u64, u64, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let site = |site: &Value| {
        (
            text(&site["function"]),
            site["id"].as_u64().unwrap(),
            site["offset"].as_u64().unwrap(),
            text(&site["state"]),
        )
    };
    list(&report["sites"]).iter().map(site).collect()
}

/// What becomes of the address fields of a stack map in each form of linked file: filled in, left to
/// relocations with and without a symbol, or to packed ones, which are applied in place.
const FORMS: [(&str, &[&str]); 7] = [
    ("static", &["-static"]),
    ("fixed", &["-no-pie"]),
    ("pie", &["-pie"]),
    ("packed", &["-pie", "-Wl,-z,pack-relative-relocs"]),
    ("library", &["-shared"]),
    ("symbolic", &["-shared", "-Wl,-Bsymbolic"]),
    ("stripped", &["-pie", "-s"]),
];

#[test]
fn a_linked_file_has_the_sites_of_its_objects() {
    let folder = Folder::new("programs");
    let expected = sites(&json(&["sites", OBJECT, "--ir", IR], 0));
    assert_eq!(expected.len(), 6);
    let mut linked = 0;
    for (name, options) in FORMS {
        let Some(path) = link(&folder, name, options) else {
            continue;
        };
        linked += 1;
        let stripped = name == "stripped";
        let report = match stripped {
            // Without names the IR does not know the functions; the lengths are told.
            true => json(
                &[
                    "sites", &path, "--shape", "78=32", "--shape", "79=24", "--shape", "80=48", "--shape",
                    "81=24",
                ],
                0,
            ),
            false => json(&["sites", &path, "--ir", IR], 0),
        };
        assert_eq!(report["how"], "linked");
        let found = sites(&report);
        let mut expected = expected.clone();
        if stripped {
            expected.iter_mut().for_each(|site| site.0.clear());
        }
        let mut found_sorted = found.clone();
        found_sorted.sort();
        expected.sort();
        assert_eq!(found_sorted, expected, "{name}");
        if !stripped {
            stdout(&["check", &path, "--ir", IR], 0);
            let planned = json(
                &[
                    "plan",
                    &path,
                    "--ir",
                    IR,
                    "--id",
                    "80",
                    "--seq",
                    "result = arg(0)",
                ],
                0,
            );
            assert_eq!(planned["sites"][0]["function"], "method");
            let inspected = json(&["inspect", &path], 0);
            assert_eq!(inspected["maps"][0]["functions"][0]["name"], "get");
        }
    }
    if Command::new("cc").arg("--version").output().is_ok() {
        assert!(linked >= 4, "{linked}");
    }
}

/// A child that is killed with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn of(path: &str) -> Self {
        let mut program = Command::new(path);
        Self(
            program
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }

    /// A line that the program prints.
    fn line(&mut self) -> String {
        let mut line = Vec::new();
        let stdout = self.0.stdout.as_mut().unwrap();
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            assert_eq!(stdout.read(&mut byte).unwrap(), 1, "the program ended");
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap().trim().to_owned()
    }

    fn go_on(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

#[test]
fn a_process_is_read_at_its_addresses_with_what_it_holds() {
    let folder = Folder::new("process");
    for (name, options) in [("pie", &["-pie"][..]), ("fixed", &["-no-pie"])] {
        let Some(path) = link(&folder, name, options) else {
            return;
        };
        let mut running = Running::of(&path);
        let get = u64::from_str_radix(running.line().trim_start_matches("0x"), 16).unwrap();
        let pid = running.pid();
        let args = ["sites", "--pid", &pid, "--ir", IR];
        let report = json(&args, 0);
        assert_documented("sites", &report[0]);
        assert_eq!(list(&report).len(), 1, "{report}");
        let report = &report[0];
        assert_eq!(
            (&report["file"], &report["how"]),
            (&value!(path), &value!("running"))
        );
        assert_eq!(report["process"].to_string(), pid);
        assert_eq!(report["sites"][0]["address"].as_u64(), Some(get + 4));
        assert!(
            list(&report["sites"]).iter().all(|site| site["now"].is_null()),
            "{report}"
        );
        let inspect = ["inspect", "--pid", &pid];
        let inspected = json(&inspect, 0);
        assert_documented("inspect", &inspected[0]);
        assert_eq!(inspected[0]["process"].to_string(), pid);
        let site_of = |inspected: &Value| {
            let function = &inspected[0]["maps"][0]["functions"][0];
            assert_eq!(function["address"].as_u64(), Some(get), "{inspected}");
            let records = list(&function["records"]);
            let record = records.iter().find(|record| record["id"] == 78).unwrap();
            record["site"].clone()
        };
        assert_eq!(site_of(&inspected).get("now"), None);
        for args in [&args[..], &inspect] {
            let text = stdout(args, 0);
            assert!(
                text.contains(&format!(", as it runs in process {pid}\n")),
                "{text}"
            );
        }

        running.go_on();
        assert_eq!(running.line(), "patched");
        let report = json(&args, 0);
        assert_eq!(report[0]["sites"][0]["now"][0]["bytes"], "cc", "{report}");
        let site = site_of(&json(&inspect, 0));
        assert_eq!(site["now"][0]["bytes"], "cc", "{site}");
        assert_eq!(
            site["instructions"][0]["is_nop"], true,
            "as the file has it: {site}"
        );
        assert_eq!(list(&site["now"])[0]["offset"], 4, "{site}");
        let text = stdout(&inspect, 0);
        assert_eq!(text.matches("    now ").count(), 1, "{text}");
        let changed = list(&report[0]["sites"])
            .iter()
            .filter(|site| !site["now"].is_null());
        assert_eq!(changed.count(), 1);
        let text = stdout(&args, 0);
        assert!(
            text.contains("    now        other bytes than the file has:\n"),
            "{text}"
        );
        let check = stdout(&["check", "--pid", &pid, "--ir", IR], 0);
        assert!(check.contains("note [patched] record 78 at get+0x4: "), "{check}");
        let planned = json(
            &["plan", "--pid", &pid, "--ir", IR, "--id", "78", "--seq", "trap"],
            0,
        );
        assert_eq!(planned[0]["sites"][0]["before"][0]["bytes"], "cc", "{planned}");
        // It executes a copy of its code from now on, which is no file's.
        running.go_on();
        assert_eq!(running.line(), "remapped");
        assert_eq!(json(&args, 0), report);
        let page = stdout(
            &[
                "plan", "--pid", &pid, "--ir", IR, "--id", "78", "--seq", "trap", "--html",
            ],
            0,
        );
        assert!(page.contains("<td class=\"bytes\">cc</td>"), "{page}");
    }
}

#[test]
fn a_process_without_maps_or_that_is_not_there_is_said() {
    let pid = std::process::id().to_string();
    let output = tool(&["sites", "--pid", &pid]);
    assert_eq!(output.status.code(), Some(2));
    let line = String::from_utf8(output.stderr).unwrap();
    // The test need not be one that the tool may look into.
    let may_not = line.contains("one of yours that you may debug");
    assert!(
        may_not || line.contains("executes no file that has a stack map"),
        "{line}"
    );
    assert!(
        line.starts_with(&format!("patchpoint: process {pid}: ")),
        "{line}"
    );
    let line = crate::refusal(&["check", "--pid", "4294967295"], 2);
    assert!(line.contains("does not run"), "{line}");
    for command in ["sites", "inspect"] {
        let message = crate::refusal(&[command, "--pid", &pid, OBJECT], 2);
        assert!(message.contains("cannot be used with"), "{message}");
    }
}
