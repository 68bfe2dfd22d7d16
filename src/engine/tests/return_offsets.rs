//! Offsets to which a call may return: kept as long as one may, and no longer.

use super::*;
use crate::verify;

/// LLVM's call of a number, as `llvm-objdump` shows it, and where it returns to.
struct LlvmCall {
    bytes: &'static [u8],
    return_offset: usize,
}

#[cfg(target_arch = "x86_64")]
const CALL: LlvmCall = LlvmCall {
    // movabsq $0x123456789abc,%r11; callq *%r11
    bytes: &[
        0x49, 0xbb, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0x00, 0x00, 0x41, 0xff, 0xd3,
    ],
    return_offset: 13,
};
#[cfg(target_arch = "aarch64")]
const CALL: LlvmCall = LlvmCall {
    // mov x16,#0x123400000000; movk x16,#0x5678,lsl #16; movk x16,#0x9abc; blr x16
    bytes: &[
        0x90, 0x46, 0xc2, 0xd2, 0x10, 0xcf, 0xaa, 0xf2, 0x90, 0x57, 0x93, 0xf2, 0x00, 0x02, 0x3f, 0xd6,
    ],
    return_offset: 16,
};
#[cfg(all(target_arch = "powerpc64", target_endian = "little"))]
const CALL: LlvmCall = LlvmCall {
    // li 12,4660; rldic 12,12,32,16; oris 12,12,22136; ori 12,12,39612; std 2,24(1); mtctr 12;
    // bctrl; ld 2,24(1)
    bytes: &[
        0x34, 0x12, 0x80, 0x39, 0x0a, 0x04, 0x8c, 0x79, 0x78, 0x56, 0x8c, 0x65, 0xbc, 0x9a, 0x8c, 0x61, 0x18,
        0x00, 0x41, 0xf8, 0xa6, 0x03, 0x89, 0x7d, 0x21, 0x04, 0x80, 0x4e, 0x18, 0x00, 0x41, 0xe8,
    ],
    return_offset: 28,
};
#[cfg(all(target_arch = "powerpc64", target_endian = "big"))]
const CALL: LlvmCall = if crate::arch::HOST_HAS_DESCRIPTORS {
    LlvmCall {
        // li 12,4660; rldic 12,12,32,16; oris 12,12,22136; ori 12,12,39612; std 2,40(1); ld
        // 2,8(12); ld 12,0(12); mtctr 12; bctrl; ld 2,40(1)
        bytes: &[
            0x39, 0x80, 0x12, 0x34, 0x79, 0x8c, 0x04, 0x0a, 0x65, 0x8c, 0x56, 0x78, 0x61, 0x8c, 0x9a, 0xbc,
            0xf8, 0x41, 0x00, 0x28, 0xe8, 0x4c, 0x00, 0x08, 0xe9, 0x8c, 0x00, 0x00, 0x7d, 0x89, 0x03, 0xa6,
            0x4e, 0x80, 0x04, 0x21, 0xe8, 0x41, 0x00, 0x28,
        ],
        return_offset: 36,
    }
} else {
    LlvmCall {
        // As on little-endian machines.
        bytes: &[
            0x39, 0x80, 0x12, 0x34, 0x79, 0x8c, 0x04, 0x0a, 0x65, 0x8c, 0x56, 0x78, 0x61, 0x8c, 0x9a, 0xbc,
            0xf8, 0x41, 0x00, 0x18, 0x7d, 0x89, 0x03, 0xa6, 0x4e, 0x80, 0x04, 0x21, 0xe8, 0x41, 0x00, 0x18,
        ],
        return_offset: 28,
    }
};
#[cfg(target_arch = "s390x")]
const CALL: LlvmCall = LlvmCall {
    // llilf %r1,1450744508; iihf %r1,4660; basr %r14,%r1
    bytes: &[
        0xc0, 0x1f, 0x56, 0x78, 0x9a, 0xbc, 0xc0, 0x18, 0x00, 0x00, 0x12, 0x34, 0x0d, 0xe1,
    ],
    return_offset: 14,
};
#[cfg(target_arch = "riscv64")]
const CALL: LlvmCall = LlvmCall {
    // lui ra,0x2468b; addiw ra,ra,-0x30f; slli ra,ra,0xd; addi ra,ra,0x6af; slli ra,ra,0x2; jalr ra
    bytes: &[
        0xb7, 0xb0, 0x68, 0x24, 0x9b, 0x80, 0x10, 0xcf, 0x93, 0x90, 0xd0, 0x00, 0x93, 0x80, 0xf0, 0x6a, 0x93,
        0x90, 0x20, 0x00, 0xe7, 0x80, 0x00, 0x00,
    ],
    return_offset: 24,
};

/// The nops behind the call.
const NOPS: usize = if matches!(ARCH, Arch::X86_64) {
    19
} else {
    60 - CALL.bytes.len() - 4
};
/// The length of the site.
const SITE: usize = CALL.bytes.len() + NOPS / HOST.nop.len() * HOST.nop.len();

/// A site that LLVM filled with a call to nobody and nops, then a return.
fn called(id: u64) -> Written {
    let nops = HOST.nop.repeat(NOPS / HOST.nop.len());
    Written {
        bytes: [CALL.bytes, &nops, HOST.ret].concat(),
        record: record(id)
            .at(0)
            .location(reg(RESULT, 8))
            .location(reg(ARGUMENT, 8)),
        shape: CallShape::any_reg(SITE as u32).result().args(1),
    }
}

/// What [`long`] adds after the first number.
const ONES: u64 = if matches!(ARCH, Arch::X86_64) {
    5
} else {
    SITE as u64 / 4 - 4
};

/// Without a call, longer than what is before the return offset.
fn long() -> Sequence {
    (0..ONES).fold(plus(1), |sequence, _| {
        sequence.add(result(), 1u64).in_place_only()
    })
}

fn one() -> (Lab, Text, Site) {
    let lab = Lab::new();
    let text = Text::new(&[called(1)]);
    let site = lab.register(&text, &[called(1)]).sites().next().unwrap();
    (lab, text, site)
}

/// The bytes from the return offset on are nops, from there on; on PowerPC behind what restores the
/// TOC pointer.
fn keeps(site: &Site) -> bool {
    let found = bytes(site);
    let restores = CALL.bytes.len() - CALL.return_offset;
    // What restores is decoded together with the branch around it.
    let boundaries = verify::boundaries(ARCH, site.addr(), &found);
    let boundary = boundaries.contains(&((CALL.return_offset - restores) as u32));
    let (restored, tail) = found[CALL.return_offset..].split_at(restores);
    let nops = verify::original(ARCH, site.addr(), tail);
    boundary && restored == &CALL.bytes[CALL.return_offset..] && nops == Ok(verify::Original::Nops)
}

/// Sites of one kind whose bytes are different: what is known of one is not taken for another.
#[test]
fn sites_with_calls_and_sites_without_are_told_apart() {
    let lab = Lab::new();
    let empty = |id| {
        let mut bytes = Vec::new();
        patchpoint_isa::nops::put(ARCH, SITE as u32, &mut bytes);
        bytes.extend(HOST.ret);
        Written { bytes, ..called(id) }
    };
    // In one module, and each in one of its own.
    let all = [called(1), empty(2), called(3), empty(4)];
    let alone = [[called(5)], [empty(6)], [called(7)], [empty(8)]];
    let modules = std::iter::once(&all[..]).chain(alone.iter().map(|one| &one[..]));
    let texts: Vec<Text> = modules
        .map(|written| {
            let text = Text::new(written);
            lab.register(&text, written).release();
            text
        })
        .collect();
    for id in 1..=8 {
        let site = lab.engine.sites(id).unwrap()[0].clone();
        lab.engine.patch(id, &plus(1)).unwrap();
        let mut states = lab.engine.shared.states.lock();
        let installed = &states.of(&site).unwrap().installed;
        let kept: &[u32] = if id % 2 == 1 {
            &[CALL.return_offset as u32]
        } else {
            &[]
        };
        assert_eq!(*installed.return_offsets, *kept, "{id}");
    }
    let originals = || lab.engine.shared.states.lock().originals();
    assert_eq!(originals(), 2, "all were changed, and both kinds are remembered");
    // Others get a state, and are not changed.
    let written = [called(9), empty(10), called(11)];
    let text = Text::new(&written);
    let module = lab.register(&text, &written);
    for site in module.sites() {
        assert_eq!(lab.engine.restore_site(&site).unwrap().sites, 0);
    }
    assert_eq!(originals(), 2);
    // SAFETY: nobody executes it.
    let grace_period = unsafe { GracePeriod::promise() };
    lab.engine.unregister(module, &grace_period).unwrap();
    assert_eq!(originals(), 2, "they are remembered");
    // More kinds than are remembered.
    let others = (1..=3).map(|count| {
        let mut written = empty(20 + count);
        written.bytes = HOST.increment.repeat(count as usize);
        let nops = SITE - written.bytes.len();
        patchpoint_isa::nops::put(ARCH, nops as u32, &mut written.bytes);
        written.bytes.extend(HOST.ret);
        written.shape = CallShape::shadow(SITE as u32);
        let written = [written];
        let text = Text::new(&written);
        let module = lab.register(&text, &written);
        let function = module.functions().next().unwrap();
        lab.engine.invalidate(&function).unwrap();
        text
    });
    let others: Vec<Text> = others.collect();
    assert_eq!(originals(), 4, "others are forgotten");
    drop((texts, others));
}

#[test]
fn code_that_has_not_run_has_no_return_offsets() {
    let (lab, _text, site) = one();
    lab.engine.patch(1, &long()).unwrap();
    assert!(!keeps(&site));
    assert_eq!(call(&site, 1), 2 + ONES);
}

#[test]
fn the_entries_of_a_module_are_given_when_it_is_released() {
    let (lab, _text, site) = one();
    let (module, function) = (site.module(), site.function());
    // SAFETY: the test's functions take two numbers or fewer and return one.
    let typed = || unsafe { function.typed::<extern "C" fn(u64) -> u64>() };
    for _ in 0..2 {
        refused!(function.entry(), Site(NotReleased));
        refused!(typed(), Site(NotReleased));
    }
    let error = function.entry().unwrap_err().to_string();
    assert!(
        error.contains("f0") && error.contains("`Module::release`"),
        "{error}"
    );
    // Who asks changes nothing: the place behind the call is still free.
    assert!(!module.is_released());
    lab.engine.patch(1, &long()).unwrap();
    assert!(!keeps(&site));

    module.release();
    module.release();
    assert!(module.is_released());
    assert_eq!(function.entry().unwrap(), function.pointer());
    assert_eq!(typed().unwrap()(1), 2 + ONES);
}

#[test]
fn code_that_may_have_run_keeps_its_return_offset_through_every_change() {
    let (lab, _text, site) = one();
    site.module().release();
    refused!(lab.engine.patch(1, &long()), Assemble(SequenceTooLong));
    lab.engine.patch(1, &plus(1)).unwrap();
    assert!(keeps(&site), "{:x?}", bytes(&site));
    assert_eq!(call(&site, 1), 2);
    lab.engine.patch(1, &plus_in_stub(9)).unwrap();
    assert!(keeps(&site) && call(&site, 1) == 10);
    refused!(lab.engine.patch(1, &long()), Assemble(SequenceTooLong));
    lab.engine.restore(1).unwrap();
    assert_eq!(bytes(&site), called(1).bytes[..SITE]);
    lab.engine.patch(1, &plus(1)).unwrap();
    lab.engine.invalidate(&site.function()).unwrap();
    assert!(keeps(&site) && call(&site, 1) == 2);
}

#[test]
fn what_was_lowered_before_the_code_was_let_run_is_lowered_again() {
    let (lab, _text, site) = one();
    lab.engine.shared.contention.expect_forever();
    let module = site.module().clone();
    *lab.engine.shared.when_ahead.lock() = Some(Box::new(move || module.release()));
    refused!(lab.engine.patch(1, &long()), Assemble(SequenceTooLong));
    assert_eq!(lab.engine.lock_stats().lowered_outside, 1);
    assert_eq!(bytes(&site), called(1).bytes[..SITE]);
}

#[test]
fn what_was_prepared_before_the_code_was_let_run_is_refused_after() {
    let (lab, _text, site) = one();
    let early = lab.engine.plan(1, &long()).unwrap();
    site.module().release();
    refused!(early.commit(), SiteChanged);
    assert_eq!(bytes(&site), called(1).bytes[..SITE]);
    // A plan that keeps the return offset anyway is made for it.
    lab.engine.plan(1, &plus(1)).unwrap().commit().unwrap();
}

#[test]
fn a_proof_of_a_transaction_holds_for_one_attempt() {
    let (lab, text, site) = one();
    site.module().release();
    lab.engine.patch(1, &plus(1)).unwrap();
    let mut change = lab.engine.transaction();
    change.patch(1, &long()).unwrap();
    // SAFETY: the only thread is here.
    change.grace_period(unsafe { GracePeriod::promise() });
    text.memory.fail_after(crate::memory::testing::Call::Write, 0);
    assert!(change.commit().is_err());
    refused!(change.commit(), Assemble(SequenceTooLong));
}

#[test]
fn after_a_grace_period_the_whole_site_is_free_again() {
    let (lab, _text, site) = one();
    site.module().release();
    lab.engine.patch(1, &plus(1)).unwrap();
    // SAFETY: the only thread is here.
    let grace_period = unsafe { GracePeriod::promise() };
    let mut transaction = lab.engine.transaction();
    transaction.patch(1, &long()).unwrap();
    transaction.grace_period(grace_period).commit().unwrap();
    assert!(!keeps(&site) && call(&site, 1) == 2 + ONES);
    // And stays free: nothing has returned there since.
    lab.engine.patch(1, &plus(2)).unwrap();
    lab.engine.patch(1, &long()).unwrap();
}

/// A C function that is called by sequences.
extern "C" fn twice(a: u64) -> u64 {
    a * 2
}

/// A site of the C convention that holds nothing but these nops.
fn only(nops: &[u8]) -> (Lab, Text, Site) {
    let lab = Lab::new();
    let functions = [Written {
        bytes: [nops, HOST.ret].concat(),
        record: record(1).at(0),
        shape: CallShape::c(nops.len() as u32).result().args(1),
    }];
    let text = Text::new(&functions);
    let code = lab.engine.adopt_with(text.adopted(&functions), &text.shared());
    // The record lists no live-outs, and so not the register with the return address either, which
    // calls lose.
    let registration = lab.engine.registration(code.unwrap()).trust_live_outs();
    // SAFETY: what is told is true of the object's code, or refused.
    let module = unsafe { registration.register(|_| functions[0].shape) }.unwrap();
    let site = module.sites().next().unwrap();
    site.module().release();
    (lab, text, site)
}

fn calling() -> Sequence {
    let target = CodeAddr::new(twice as extern "C" fn(u64) -> u64 as usize as u64);
    // SAFETY: it takes the site's argument.
    unsafe { Sequence::new().call(target, crate::arch::OnReturn::FollowsC) }
}

#[test]
fn a_call_in_a_sequence_leaves_a_return_offset_too_unless_it_ends_there() {
    let (lab, _text, site) = only(&HOST.nop.repeat(60 / HOST.nop.len() - 1));
    let last = calling();
    let inner = last.clone().add(result(), 1u64);
    let long = Sequence::new().raw(&HOST.increment.repeat(14)).in_place_only();

    lab.engine.patch(1, &last).unwrap();
    assert!(
        !bytes(&site).ends_with(HOST.nop),
        "the call is not the last instruction"
    );
    if ARCH.is_powerpc64() {
        // It returns to what restores the TOC pointer.
        refused!(lab.engine.patch(1, &long), Assemble(SequenceTooLong));
        return;
    }
    lab.engine.patch(1, &long).unwrap();
    lab.engine.patch(1, &inner).unwrap();
    refused!(lab.engine.patch(1, &long), Assemble(SequenceTooLong));
}

/// On the others all nops are as long as what instructions are a multiple of: a call returns into
/// the middle of none.
#[cfg(any(target_arch = "x86_64", target_arch = "s390x"))]
#[test]
fn original_bytes_come_back_only_where_they_keep_the_return_offsets_of_what_was_there() {
    // A nop of 7 bytes, or `brcl 0` twice and what makes a call of 6 or 14 bytes end in none.
    let (nops, before) = match ARCH {
        Arch::X86_64 => ([0x0f, 0x1f, 0x80, 0, 0, 0, 0].repeat(4), 0),
        _ => ([0xc0, 0x04, 0, 0, 0, 0].repeat(9), 2),
    };
    let (lab, _text, site) = only(&nops);
    let called = Sequence::new().raw(&HOST.increment.repeat(before));
    let target = CodeAddr::new(twice as extern "C" fn(u64) -> u64 as usize as u64);
    // SAFETY: it takes the site's argument.
    let called = unsafe { called.call(target, crate::arch::OnReturn::FollowsC) };
    lab.engine.patch(1, &called.add(result(), 1u64)).unwrap();
    // The call returns into the middle of one of the original nops.
    refused!(lab.engine.restore(1), ReturnOffsetLost);
    assert_eq!(lab.engine.status(&site), Status::Patched);
    // SAFETY: the only thread is here.
    let grace_period = unsafe { GracePeriod::promise() };
    let mut restore = lab.engine.transaction();
    restore.restore(&site).unwrap();
    restore.grace_period(grace_period).commit().unwrap();
    assert_eq!(bytes(&site), nops);
}
