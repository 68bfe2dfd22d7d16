//! The audit of code that has LLVM's defects, of every architecture, on any host: objects are linked and registered, and
//! nothing is run.
use std::path::Path;

use super::{Module, survey};
use crate::addr::{CodeAddr, Len};
use crate::arch::CallShape;
use crate::error::{Error, Result};
use crate::image::Object;
use crate::verify::{self, Original};

/// Where every symbol is that an object does not define.
const OUTSIDE: u64 = 0x1080_0000;

/// Links an object and registers its only record with this shape.
fn audit(object: &str, shape: CallShape) -> Result<Module> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("asm-tests/objects")
        .join(object);
    let bytes = std::fs::read(&path).unwrap();
    let layout = Object::parse(&bytes)?.layout()?;
    let (addrs, _) = layout
        .contiguous(CodeAddr::new(0x1000_0000), Len::new(0x1_0000))
        .unwrap();
    let linked = layout.link(&addrs, &|_| Some(CodeAddr::new(OUTSIDE)))?;
    let survey = survey(linked.image, linked.segments, |_| shape)?;
    match survey.refused.into_iter().next() {
        Some(refusal) => Err(refusal.error),
        None => Ok(survey.module),
    }
}

/// Shadows of 32 bytes, of which AArch64 with call frame information and RISC-V with compressed instructions have fewer:
/// what is promised reaches into the next function.
#[test]
fn a_shadow_shorter_than_promised_is_refused() {
    for object in ["defects/cfi.aarch64.o", "defects/compressed.riscv64c.o"] {
        let refused = audit(object, CallShape::shadow(32)).unwrap_err();
        match &refused {
            Error::SiteOutsideFunction { site, reserved, len } => {
                assert_eq!((site.id.get(), reserved.get()), (1, 32), "{object}");
                assert!(site.offset.get() + 32 > len.get());
            }
            other => panic!("{object}: {other}"),
        }
        // What is there is a site.
        let room = match refused {
            Error::SiteOutsideFunction { site, len, .. } => len.get() - site.offset.get(),
            _ => 0,
        };
        let module = audit(object, CallShape::shadow(room)).unwrap();
        let site = module.sites().next().unwrap();
        assert_eq!(site.reserved().get(), room, "{object}");
        assert!(room >= 8, "{object}: {room}");
    }
}

/// Reserved bytes of just the length that LLVM says its call has: the call ends behind them.
#[test]
fn a_call_that_ends_behind_its_reserved_bytes_is_refused() {
    for (object, said, needed) in [
        ("defects/tight.powerpc64le.o", 28, 32),
        ("defects/tight.powerpc64.o", 36, 40),
    ] {
        let shape = |reserved| CallShape::c(reserved).result().args(1);
        let refused = audit(object, shape(said)).unwrap_err();
        assert!(
            matches!(refused, Error::NotLlvmPatchpoint { .. }),
            "{object}: {refused}"
        );
        // Told the true length, it is LLVM's call.
        let module = audit(object, shape(needed)).unwrap();
        assert_eq!(module.sites().count(), 1);
    }
}

/// Too few bytes were reserved for the call, which LLVM emits all the same.
#[test]
fn a_call_longer_than_was_asked_for_is_refused() {
    for arch in ["aarch64", "powerpc64le", "powerpc64", "s390x"] {
        let object = std::format!("defects/short.{arch}.o");
        let shape = CallShape::c(4).result().args(1);
        let refused = audit(&object, shape).unwrap_err();
        let expected = matches!(
            refused,
            Error::NotLlvmPatchpoint { .. }
                | Error::SiteUndecodable { .. }
                | Error::SiteOverlapsRecord { .. }
        );
        assert!(expected, "{object}: {refused}");
    }
}

/// For a symbol as target LLVM emits a call to an address of its own process on AArch64, which nothing tells from a
/// constant target: the site is registered, and has to be patched before it runs.
#[test]
fn a_call_to_a_symbol_on_aarch64_looks_like_one_to_a_constant() {
    let module = audit("defects/symbol.aarch64.o", CallShape::c(32).result().args(2)).unwrap();
    let site = module.sites().next().unwrap();
    let original = verify::original(module.arch(), site.addr(), &site.read().unwrap()).unwrap();
    match original {
        Original::LlvmCall { target, .. } => assert_ne!(target.get(), OUTSIDE),
        other => panic!("{other:?}"),
    }
}
