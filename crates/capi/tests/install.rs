//! What `install.sh` installs: a program is compiled by what pkg-config says, linked with the shared
//! library, and run; each symbol has a version.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that finds nothing fails"
)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod tools;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tools::header::declared;
use tools::{has, object, root, run};

#[test]
fn what_is_installed_is_found_and_works() {
    let prefix = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("installed");
    run(Command::new(root().join("install.sh"))
        .env("PROFILE", "dev")
        .arg(&prefix));
    let told = run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(prefix.join("lib/libpatchpoint_c.so")));
    let versioned = told
        .lines()
        .filter(|line| line.ends_with("@@PATCHPOINT_0.1"))
        .count();
    assert_eq!(versioned, declared().len(), "{told}");

    let binary = prefix.join("cache");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=gnu99", "-o"])
        .arg(&binary)
        .arg(root().join("tests/c/cache.c"));
    if has("pkg-config") {
        let path = prefix.join("lib/pkgconfig");
        let flags = run(Command::new("pkg-config").env("PKG_CONFIG_PATH", path).args([
            "--cflags",
            "--libs",
            "patchpoint >= 0.1",
        ]));
        compiler.args(flags.split_whitespace());
    } else {
        compiler.arg("-I").arg(prefix.join("include"));
        compiler.arg("-L").arg(prefix.join("lib")).arg("-lpatchpoint_c");
    }
    run(&mut compiler);
    let told = run(Command::new(&binary)
        .env("LD_LIBRARY_PATH", prefix.join("lib"))
        .arg(object()));
    assert!(told.starts_with("cache: "), "{told}");

    if has("cmake") {
        let project = prefix.join("project");
        fs::create_dir_all(&project).unwrap();
        let source = root().join("tests/c/cache.c");
        let lists = format!(
            "cmake_minimum_required(VERSION 3.10)\nproject(p C)\nfind_package(patchpoint 0.1 REQUIRED)\n\
             foreach(kind patchpoint static)\nadd_executable(by_${{kind}} {})\n\
             target_link_libraries(by_${{kind}} patchpoint::${{kind}})\nendforeach()\n",
            source.display()
        );
        fs::write(project.join("CMakeLists.txt"), lists).unwrap();
        let build = project.join("build");
        run(Command::new("cmake")
            .arg("-S")
            .arg(&project)
            .arg("-B")
            .arg(&build)
            .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
        run(Command::new("cmake").arg("--build").arg(&build));
        for binary in ["by_patchpoint", "by_static"] {
            let told = run(Command::new(build.join(binary))
                .env("LD_LIBRARY_PATH", prefix.join("lib"))
                .arg(object()));
            assert!(told.starts_with("cache: "), "{told}");
        }
    }
}
