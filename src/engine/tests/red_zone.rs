//! A leaf that keeps values in the red zone while its shadow executes: LLVM for x86-64 gives
//! functions with a stackmap a frame instead, other compilers need not. AArch64 on Linux, SystemZ
//! and RISC-V have no red zone.

use super::*;
use crate::sequence::Target;
use crate::stackmap::testing::indirect;

/// The stack pointer, what the red zone has, and how long the shadow is.
const STACK: u16 = if matches!(ARCH, Arch::X86_64) { 7 } else { 1 };
const ZONE: i32 = match ARCH {
    Arch::X86_64 => 128,
    Arch::PowerPc64 => 288,
    _ => 512,
};

/// Functions, their shadow's offset and its length: `f(a, b) = a * b`, with `a` just below the
/// stack pointer and `b` at the end of the red zone. Then what overwrites the zone and leaves the
/// stack pointer as it was.
struct Leaf {
    bytes: Vec<u8>,
    offset: u32,
    shadow: u32,
    overwrites: Vec<u8>,
}

#[cfg(target_arch = "x86_64")]
fn code() -> Leaf {
    Leaf {
        bytes: vec![
            0x48, 0x89, 0x7c, 0x24, 0xf8, // mov [rsp - 8], rdi
            0x48, 0x89, 0x74, 0x24, 0x80, // mov [rsp - 128], rsi
            0x31, 0xff, 0x31, 0xf6, // xor edi, edi; xor esi, esi
            0x48, 0x8b, 0x44, 0x24, 0xf8, // mov rax, [rsp - 8]
            0x48, 0x0f, 0xaf, 0x44, 0x24, 0x80, // imul rax, [rsp - 128]
            0xc3, // ret
        ],
        offset: 14,
        shadow: 11,
        // push r11, which the assembler does not look into; then lea rsp, [rsp + 8], which keeps
        // the flags.
        overwrites: vec![0x41, 0x53, 0x48, 0x8d, 0x64, 0x24, 8],
    }
}

#[cfg(target_arch = "powerpc64")]
fn code() -> Leaf {
    let end = -ZONE as u32 & 0xffff;
    let words = [
        0xf861_fff8,       // std 3,-8(1)
        0xf881_0000 | end, // std 4,-ZONE(1)
        0x3860_0000,       // li 3,0
        0x3880_0000,       // li 4,0
        0xe861_fff8,       // ld 3,-8(1)
        0xe881_0000 | end, // ld 4,-ZONE(1)
        0x7c63_21d2,       // mulld 3,3,4
        0x4e80_0020u32,    // blr
    ];
    let of = |word: u32| word.to_ne_bytes();
    Leaf {
        bytes: words.into_iter().flat_map(of).collect(),
        offset: 16,
        shadow: 12,
        // std 11,-16(1)
        overwrites: of(0xf961_fff0).to_vec(),
    }
}

fn leaf() -> Written {
    let Leaf {
        bytes,
        offset,
        shadow,
        ..
    } = code();
    Written {
        bytes,
        record: record(1)
            .at(offset)
            .location(indirect(STACK, -8, 8))
            .location(indirect(STACK, -ZONE, 8)),
        shape: CallShape::shadow(shadow),
    }
}

fn one() -> (Lab, Text, Site) {
    let lab = Lab::new();
    let text = Text::new(&[leaf()]);
    let site = lab.register(&text, &[leaf()]).sites().next().unwrap();
    (lab, text, site)
}

#[test]
fn an_invalidated_leaf_keeps_its_red_zone_through_the_handler() {
    let (lab, _text, site) = one();
    assert_eq!(call2(&site, 6, 7), 42);
    lab.engine.invalidate(&site.function()).unwrap();
    for a in 0..100 {
        assert_eq!(call2(&site, a, a + 3), a * (a + 3));
    }
    assert_eq!(lab.deopts.load(Ordering::Relaxed), 100);
}

#[test]
fn the_handler_reads_and_writes_the_values_there() {
    let seen = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&seen);
    let exit_stubs = ExitStubs::new().on_deopt(move |frame| {
        let value = |index| frame.live_value(index).unwrap().u64().unwrap();
        sum.store(value(0) * 1000 + value(1), Ordering::Relaxed);
        frame.resume()
    });
    let mut lab = Lab::new();
    let builder = Engine::builder().world(Shared(Arc::clone(&lab.world)));
    lab.engine = builder.exits(exit_stubs).build().unwrap();
    let text = Text::new(&[leaf()]);
    let module = lab.register(&text, &[leaf()]);
    lab.engine.invalidate(&module.function("f0").unwrap()).unwrap();
    assert_eq!(call2(&module.sites().next().unwrap(), 6, 7), 42);
    assert_eq!(seen.load(Ordering::Relaxed), 6007);
}

#[test]
fn a_sequence_that_would_overwrite_the_red_zone_is_refused() {
    let (lab, _text, site) = one();
    // What is called may write there.
    let callee = CodeAddr::new(0x1000);
    // SAFETY: it is refused.
    let called = unsafe { Sequence::new().call(callee, crate::arch::OnReturn::PreservesAll) };
    refused!(
        lab.engine.patch(1, &called.jump(Target::Deopt)),
        Assemble(CallNotAllowed)
    );
    let pushed = Sequence::new().raw(&code().overwrites);
    refused!(lab.engine.patch(1, &pushed.jump(Target::Deopt)), Check(RedZone));
    // On x86-64 it was in a stub; and there was an exit stub.
    assert_eq!(lab.engine.stub_stats().slots, 0);
    refused!(
        lab.engine.patch(1, &Sequence::new()),
        Assemble(ShadowFallsThrough)
    );
    assert_eq!(
        (lab.engine.status(&site), call2(&site, 6, 7)),
        (Status::Original, 42)
    );
}
