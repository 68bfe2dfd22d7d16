//! The audit of code that has LLVM's defects, of every architecture, on any host: objects are linked and registered, and
//! nothing is run.
#![allow(
    unsafe_code,
    reason = "linked bytes stand in for memory, which is an unsafe trait"
)]

use std::path::Path;
use std::sync::Arc;

use super::{Module, ModuleId, ModuleParts, register};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::CallShape;
use crate::error::{Error, Result};
use crate::image::{Object, Segment, SegmentKind};
use crate::memory::{CodeArea, CodeMemory, PageRun, Strategy};
use crate::publish::Stopped;
use crate::stackmap::OwnedMaps;
use crate::verify::{self, Original};

/// Where every symbol is that an object does not define.
const OUTSIDE: u64 = 0x1080_0000;

/// The code of a linked object, which is read and never written.
#[derive(Debug)]
struct Linked(Segment);

// SAFETY: nothing is written, and reading reads the bytes that the value owns.
unsafe impl CodeMemory for Linked {
    fn strategy(&self) -> Strategy {
        Strategy::Runtime
    }

    fn range(&self) -> CodeRange {
        CodeRange::new(self.0.addr, self.0.bytes.len() as u64).unwrap()
    }

    fn begin(&self, _: &[PageRun], _: &Stopped) -> Result<()> {
        unreachable!("nothing is patched")
    }

    fn write(&self, _: CodeAddr, _: &[u8]) -> Result<()> {
        unreachable!("nothing is patched")
    }

    fn read(&self, at: CodeAddr, into: &mut [u8]) -> Result<()> {
        let start = (at.get() - self.0.addr.get()) as usize;
        into.copy_from_slice(&self.0.bytes[start..start + into.len()]);
        Ok(())
    }

    fn end(&self, _: &[PageRun]) -> Result<()> {
        unreachable!("nothing is patched")
    }
}

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
    let code = linked
        .segments
        .iter()
        .find(|segment| segment.kind == SegmentKind::Code);
    let memory: Arc<dyn CodeMemory> = Arc::new(Linked(code.unwrap().clone()));
    let areas = linked
        .image
        .code
        .iter()
        .map(|range| CodeArea::new(*range, &memory));
    let parts = ModuleParts {
        id: ModuleId(1),
        arch: linked.image.arch,
        maps: OwnedMaps::new(&linked.image.stack_maps, linked.image.endian)?,
        areas: areas.collect::<Result<_>>()?,
        functions: linked.image.functions,
        eh_frames: linked.image.eh_frames,
        unwind_by: super::UnwindBy::EhFrame,
        trust_live_outs: false,
        may_have_run: false,
        live: false,
        _placed: None,
    };
    register(parts, &[], |_| shape)
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
