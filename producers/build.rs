//! Compiles functions with nops at their entries, by each compiler that is there.
//!
//! | variant | entry |
//! |---|---|
//! | `aligned`, `running` | in one quadword |
//! | `crossing` | begins five bytes behind the start of a quadword, so that it ends in the next |
//! | `lines` | the same across the end of a cache line |

use std::path::PathBuf;
use std::process::Command;

/// By variant: its name, the nops in all and in front of the function's label, and its alignment.
const VARIANTS: [(&str, &str, &str); 4] = [
    ("aligned", "-fpatchable-function-entry=5", "-falign-functions=16"),
    ("running", "-fpatchable-function-entry=5", "-falign-functions=16"),
    (
        "crossing",
        "-fpatchable-function-entry=10,5",
        "-falign-functions=16",
    ),
    (
        "lines",
        "-fpatchable-function-entry=66,61",
        "-falign-functions=64",
    ),
];

fn main() {
    println!("cargo::rerun-if-changed=entries/entries.c");
    println!("cargo::rustc-check-cfg=cfg(has_clang)");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo gives it"));
    let clang = ["clang-19", "clang-14", "clang"].into_iter().find(|name| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    });
    if clang.is_some() {
        println!("cargo::rustc-cfg=has_clang");
    }
    for (compiler, command) in [("gcc", Some("gcc")), ("clang", clang)] {
        let Some(command) = command else {
            println!("cargo::warning=there is no clang: its entries are not tested");
            continue;
        };
        for (variant, nops, alignment) in VARIANTS {
            let name = format!("{compiler}_{variant}");
            cc::Build::new()
                .compiler(command)
                .file("entries/entries.c")
                .define("VARIANT", name.as_str())
                .opt_level(2)
                .flag(nops)
                .flag(alignment)
                .out_dir(out.join(&name))
                .compile(&name);
        }
    }
}
