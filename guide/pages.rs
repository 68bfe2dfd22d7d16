//! The chapters of the guide, whose blocks are compiled and run as documentation tests.
//!
//! A block runs in the folder `guide/`; lines that begin with `#` are not shown in the book. Where
//! a block is compiled and not run, or only shown, it says so by `no_run` or `text`.
#![cfg(all(doctest, target_arch = "x86_64", target_os = "linux"))]

macro_rules! chapters {
    ($($name:ident: $file:literal;)*) => {
        $(
            #[doc = include_str!(concat!("src/", $file))]
            pub mod $name {}
        )*
    };
}

chapters! {
    patchpoints: "patchpoints.md";
    first_patch: "first-patch.md";
    emitting: "emitting.md";
    placing: "load-or-adopt.md";
    caches: "inline-caches.md";
    deoptimizing: "deoptimizing.md";
    live: "live.md";
    threads: "threads.md";
    choosing: "which-mode.md";
    tools: "forks-signals-tools.md";
    architectures: "adding-an-architecture.md";
    measuring: "measuring.md";
}
