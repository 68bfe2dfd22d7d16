//! The chapters of the guide and the READMEs of the crates, whose blocks are compiled and run as
//! documentation tests.
//!
//! A block runs in the folder `guide/`; lines that begin with `#` are not shown in the book. Where
//! a block is compiled and not run, or only shown, it says so by `no_run` or `text`. What is in C and C++ is for `c.sh`.
#![cfg(all(doctest, target_arch = "x86_64", target_os = "linux"))]

macro_rules! chapters {
    ($($name:ident: $file:literal;)*) => {
        $(
            #[doc = include_str!($file)]
            pub mod $name {}
        )*
    };
}

chapters! {
    patchpoints: "src/patchpoints.md";
    first_patch: "src/first-patch.md";
    emitting: "src/emitting.md";
    placing: "src/load-or-adopt.md";
    caches: "src/inline-caches.md";
    deoptimizing: "src/deoptimizing.md";
    live: "src/live.md";
    threads: "src/threads.md";
    choosing: "src/which-mode.md";
    tools: "src/forks-signals-tools.md";
    c_and_cpp: "src/c-and-cpp.md";
    architectures: "src/adding-an-architecture.md";
    measuring: "src/measuring.md";
}

// What the crates say of themselves, on the pages of their packages.
chapters! {
    stackmaps: "../crates/stackmaps/README.md";
    isa: "../crates/isa/README.md";
    assembler: "../crates/asm/README.md";
    verify: "../crates/verify/README.md";
    link: "../crates/link/README.md";
    remote: "../crates/remote/README.md";
    cli: "../crates/cli/README.md";
    capi: "../crates/capi/README.md";
}
