//! A leaf that keeps values in the red zone while its shadow executes: LLVM for x86-64 gives functions with a stackmap
//! a frame instead, other compilers need not.

use super::*;
use crate::sequence::Target;
use crate::stackmap::testing::indirect;

const RSP: u16 = 7;

/// `f(a, b) = a * b`, with `a` just below the stack pointer and `b` at the end of the red zone.
fn leaf() -> Written {
    let mut bytes = vec![
        0x48, 0x89, 0x7c, 0x24, 0xf8, // mov [rsp - 8], rdi
        0x48, 0x89, 0x74, 0x24, 0x80, // mov [rsp - 128], rsi
        0x31, 0xff, 0x31, 0xf6, // xor edi, edi; xor esi, esi
    ];
    let offset = bytes.len() as u32;
    bytes.extend([
        0x48, 0x8b, 0x44, 0x24, 0xf8, // mov rax, [rsp - 8]
        0x48, 0x0f, 0xaf, 0x44, 0x24, 0x80, // imul rax, [rsp - 128]
        0xc3, // ret
    ]);
    let record = record(1).at(offset);
    Written {
        bytes,
        record: record
            .location(indirect(RSP, -8, 8))
            .location(indirect(RSP, -128, 8)),
        shape: CallShape::shadow(11),
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
    let ramps = Ramps::new().on_deopt(move |frame| {
        let value = |index| frame.live_value(index).unwrap().u64().unwrap();
        sum.store(value(0) * 1000 + value(1), Ordering::Relaxed);
        frame.resume()
    });
    let mut lab = Lab::new();
    let builder = Engine::builder().world(Shared(Arc::clone(&lab.world)));
    lab.engine = builder.exits(ramps).build().unwrap();
    let text = Text::new(&[leaf()]);
    let module = lab.register(&text, &[leaf()]);
    lab.engine.invalidate(&module.function("f0").unwrap()).unwrap();
    assert_eq!(call2(&module.sites().next().unwrap(), 6, 7), 42);
    assert_eq!(seen.load(Ordering::Relaxed), 6007);
}

#[test]
fn a_sequence_that_would_overwrite_the_red_zone_is_refused() {
    let (lab, _text, site) = one();
    // A call pushes its return address there.
    let called = Sequence::new().call(CodeAddr::new(0x1000), crate::arch::OnReturn::PreservesAll);
    refused!(lab.engine.patch(1, &called.jump(Target::Deopt)), CallNotAllowed);
    // push r11, which the assembler does not look into; then lea rsp, [rsp + 8], which keeps the flags.
    let pushed = Sequence::new().raw(&[0x41, 0x53, 0x48, 0x8d, 0x64, 0x24, 8]);
    refused!(lab.engine.patch(1, &pushed.jump(Target::Deopt)), VerifyRedZone);
    refused!(lab.engine.patch(1, &Sequence::new()), ShadowFallsThrough);
    assert_eq!(
        (lab.engine.status(&site), call2(&site, 6, 7)),
        (Status::Original, 42)
    );
}
