//! The bytes of calls, gates and stubs, of every architecture, on any host.

use super::*;
use crate::arch::Arch;
use crate::site::testing::{START, module};

/// A call of +0x100 of each architecture, one of which is where its distance can be exchanged, and
/// the reach of gates.
const CALLS: [(Arch, &[u8], u32, u64); 8] = [
    (Arch::X86_64, &[0xe8, 0xfb, 0, 0, 0], 0, 1 << 31),
    (Arch::X86_64, &[0x0f, 0x85, 0xfa, 0, 0, 0], 6, 1 << 31),
    (Arch::AArch64, &[0x40, 0, 0, 0x94], 4, 1 << 27),
    (Arch::SystemZ, &[0xc0, 0xe5, 0, 0, 0, 0x80], 2, 1 << 32),
    (Arch::RiscV64, &[0x97, 0, 0, 0, 0xe7, 0x80, 0, 0x10], 4, 1 << 20),
    (Arch::PowerPc64, &[0x48, 0, 0x01, 0x01], 4, 1 << 25),
    (Arch::PowerPc64ElfV2, &[0x48, 0, 0x01, 0x01], 4, 1 << 25),
    (Arch::PowerPc64Le, &[0x01, 0x01, 0, 0x48], 8, 1 << 25),
];

/// The call at this offset of a function.
fn site(arch: Arch, call: &[u8], offset: u32) -> Site {
    let restore = stubs::restore_behind_leaving(arch);
    let behind = restore.as_ref().map_or(&[][..], |word| word);
    let code = [&vec![0; offset as usize][..], call, behind].concat();
    let module = module(arch, &code, &[(offset, call.len())]).unwrap();
    module.calls_of("g").next().unwrap()
}

fn plus(addr: CodeAddr, distance: i64) -> CodeAddr {
    CodeAddr::new(addr.get().wrapping_add_signed(distance))
}

#[test]
fn a_call_is_retargeted_by_an_exchange_that_is_allowed() {
    for (arch, call, offset, _) in CALLS {
        let site = site(arch, call, offset);
        let original = site.read().unwrap();
        assert_eq!(original, call);
        assert_eq!(
            calls::target(arch, site.addr(), call),
            Some(plus(site.addr(), 0x100))
        );
        let to = plus(site.addr(), 0x4320);
        let new = Branch::Call.to(&site, call, to).unwrap().unwrap();
        assert_eq!(calls::target(arch, site.addr(), &new), Some(to));
        let exchanged = verify::check_exchange(&Branch::Call.context(&site), call, &new);
        // RISC-V's are two instructions.
        assert_eq!(exchanged.is_ok(), arch != Arch::RiscV64, "{arch} {exchanged:?}");
        assert_eq!(site.patchable_jump().is_ok(), arch != Arch::RiscV64);
        let far = plus(site.addr(), 1 << 40);
        assert_eq!(Branch::Call.to(&site, call, far).unwrap(), None);
    }
}

/// On PowerPC both are one aligned word, but a jump keeps no return address.
#[test]
fn a_call_is_not_exchanged_for_a_jump() {
    for (arch, call, offset, _) in CALLS {
        if stubs::restore_behind_leaving(arch).is_none() {
            continue;
        }
        let site = site(arch, call, offset);
        let mut jump = call.to_vec();
        jump[if arch.is_big_endian() { 3 } else { 0 }] &= !1;
        let refused = verify::check_exchange(&Branch::Call.context(&site), call, &jump);
        assert!(matches!(refused, Err(verify::Error::Exchange { .. })), "{arch}");
    }
}

/// Where the distance lies in two words, neither the plan nor the checker lets it be exchanged.
#[test]
fn a_distance_in_two_words_is_not_exchanged() {
    for (arch, call, offset) in [(Arch::X86_64, CALLS[0].1, 4), (Arch::SystemZ, CALLS[3].1, 4)] {
        let site = site(arch, call, offset);
        let new = Branch::Call
            .to(&site, call, plus(site.addr(), 0x7654_3210))
            .unwrap();
        let refused = verify::check_exchange(&site.context(&[]), call, &new.unwrap());
        assert!(matches!(refused, Err(verify::Error::Exchange { .. })), "{arch}");
        assert!(
            matches!(
                site.patchable_jump(),
                Err(crate::site::Error::NoPatchableJump { .. })
            ),
            "{arch}"
        );
    }
}

#[test]
fn a_gate_is_a_jump_that_is_exchanged() {
    for (arch, call, offset, reach) in CALLS {
        let site = site(arch, call, offset);
        let range = CodeRange::new(CodeAddr::new(START + 0x8000), GATE.get().into()).unwrap();
        let gate = Gate {
            range,
            patchable_jump: backend_of(arch).plan_patchable_jump(range.start(), GATE).unwrap(),
            memory: Arc::clone(site.memory().unwrap()),
        };
        let branch = Branch::Gate(&gate);
        let retarget = |to| branch.to(&site, call, to).unwrap();
        let (one, other) = (
            retarget(plus(range.start(), 0x100)).unwrap(),
            retarget(plus(range.start(), -0x100)).unwrap(),
        );
        assert_eq!((one.len(), other.len()), (16, 16));
        verify::check_exchange(&branch.context(&site), &one, &other).unwrap();
        assert_ne!(
            gate.patchable_jump.of_site(&one),
            gate.patchable_jump.of_site(&other)
        );
        // As the decoder sees it.
        let lines = verify::disassemble(arch, range.start(), &one);
        let jump = lines
            .iter()
            .find(|line| line.addr == gate.patchable_jump.addr)
            .unwrap();
        assert!(jump.text.contains("10008100"), "{arch}: {}", jump.text);
        assert_eq!(retarget(plus(range.start(), reach as i64 + 16)), None);
        // Everything that the engine exchanges is in the patchable jump.
        let differing = one.iter().zip(&other).position(|(a, b)| a != b).unwrap() as u32;
        assert!((gate.patchable_jump.offset.get()..gate.patchable_jump.end().get()).contains(&differing));
    }
}

/// A stub reaches everything, and the checker finds nothing that the callee could miss.
#[test]
fn a_far_function_is_reached_by_a_stub() {
    for (arch, call, offset, _) in CALLS {
        let site = site(arch, call, offset);
        let at = plus(site.addr(), 0x4_0000);
        for to in [at.get() + 0x1000, START + (1 << 40), 0x7fff_1234_5670] {
            let code = far_code(&site, site.range(), at, CodeAddr::new(to)).unwrap();
            assert!(!code.is_empty(), "{arch}");
        }
    }
}

/// The unwind information of what is between a call and its callee: the return address is where
/// a call puts it.
#[cfg(all(feature = "backtrace", target_os = "linux", target_arch = "x86_64"))]
#[test]
fn gates_and_stubs_have_the_frame_of_a_function_that_starts() {
    use crate::deopt::unwind_entry;
    use crate::engine::{CodeKind, Event, Observer};
    use crate::image::{Graph, Object};
    use crate::publish::NeverStopped;
    use gimli::{BaseAddresses, CfaRule, EhFrame, EndianSlice, NativeEndian, Register, UnwindSection};
    use parking_lot::Mutex;

    #[derive(Clone, Default)]
    struct Frames(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Observer for Frames {
        fn observe(&self, event: &Event<'_>) {
            let Event::Placed(placed) = event else { return };
            assert_eq!(placed.kind, CodeKind::Call);
            // One function is in assembly, and has none.
            self.0.lock().extend(unwind_entry(placed));
        }
    }

    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/asm-tests/objects/calls/gcc.x86_64.O0.o"
    );
    let object = std::fs::read(path).unwrap();
    let frames = Frames::default();
    let engine = Engine::builder().world(NeverStopped).observer(frames.clone());
    let engine = engine.build().unwrap();
    let graph = Graph::new("calls", Object::parse(&object).unwrap());
    let far = |_: &str| Some(CodeAddr::new(0x1234_5678_9ab0));
    let named = |name: &str| (name == "callee").then_some(7.into());
    let code = engine.load_recording(graph, far, named).unwrap();
    let module = engine.registration(code).live();
    // SAFETY: what is told is true of the object's code, or refused.
    unsafe { module.register(|_| None::<CallShape>) }.unwrap();
    // SAFETY: what is there can be entered as the function can, or is not called.
    unsafe { engine.retarget("callee", CodeAddr::new(0x2234_5678_9ab0)) }.unwrap();
    let frames = frames.0.lock();
    // A stub for each call.
    assert!(frames.len() > engine.calls_of("callee").unwrap().len());
    for entry in &*frames {
        let section = EhFrame::from(EndianSlice::new(entry, NativeEndian));
        let bases = BaseAddresses::default();
        let mut entries = section.entries(&bases);
        let mut described = 0;
        while let Some(entry) = entries.next().unwrap() {
            let gimli::CieOrFde::Fde(partial) = entry else {
                continue;
            };
            let fde = partial.parse(EhFrame::cie_from_offset).unwrap();
            let mut context = gimli::UnwindContext::new();
            let row = fde
                .unwind_info_for_address(&section, &bases, &mut context, fde.initial_address())
                .unwrap();
            let expected = CfaRule::RegisterAndOffset {
                register: Register(7),
                offset: 8,
            };
            assert_eq!(row.cfa(), &expected);
            described += 1;
        }
        assert_eq!(described, 1);
    }
}

/// Of both conventions: the stub that calls leave by, and one for each word that is another.
#[test]
fn a_stub_that_leaves_does_just_that() {
    for (arch, call, offset, _) in CALLS {
        if !arch.is_powerpc64() {
            continue;
        }
        let site = site(arch, call, offset);
        let context = Branch::Call.context(&site);
        for to in [0x1234_5678_9abc_def0, 0xffff_ffff_ffff_fff0, 0x1000_0000, 0] {
            let (at, to) = (CodeAddr::new(0x7000_0000), CodeAddr::new(to));
            let stub = stubs::leaving(arch, to).unwrap();
            verify::check_leaving(&context, at, &stub, to).unwrap();
            assert!(verify::check_leaving(&context, at, &stub, CodeAddr::new(to.get() + 4)).is_err());
            for word in 0..stub.len() / 4 {
                // Of the instructions that make the address, their numbers; of the shift nothing,
                // whose mask may differ.
                let bits = match word {
                    1 | 2 | 4 | 5 => 0..16,
                    3 => 0..0,
                    _ => 0..32,
                };
                for bit in bits {
                    let mut other = stub.clone();
                    let byte = if arch.is_big_endian() {
                        3 - bit / 8
                    } else {
                        bit / 8
                    };
                    other[word * 4 + byte] ^= 1 << (bit % 8);
                    let checked = verify::check_leaving(&context, at, &other, to);
                    assert!(checked.is_err(), "{arch} word {word}, bit {bit}: {other:02x?}");
                }
                let mut short = stub.clone();
                short.drain(word * 4..word * 4 + 4);
                // Without an instruction that adds nothing the address is the same.
                let adds = to.get() == 0x1234_5678_9abc_def0;
                assert!(
                    !adds || verify::check_leaving(&context, at, &short, to).is_err(),
                    "{arch} {word}"
                );
            }
        }
    }
}
