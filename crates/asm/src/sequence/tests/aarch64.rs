//! Sequences at AArch64 sites, as text.

use super::*;

fn at(shape: CallShape, spec: RecordSpec) -> SiteContext<'static> {
    SiteContext {
        arch: Arch::AArch64,
        ..site(shape, spec)
    }
}

/// `anyregcc`: result in x0, arguments in x1 and x2, live values in x20 and at [x29 - 8].
fn any_reg(reserved: u32) -> SiteContext<'static> {
    let locations = [reg(0, 8), reg(1, 8), reg(2, 8), reg(20, 8), indirect(29, -8, 8)];
    at(
        CallShape::any_reg(reserved).result().args(2),
        record(7).locations(locations),
    )
}

#[track_caller]
fn expect(sequence: &Sequence, site: &SiteContext<'_>, expected: &[&str]) {
    let Ok(Fit::InPlace(assembled)) = assemble(sequence, site, &ENV) else {
        panic!("it does not fit in place");
    };
    check(site, &assembled);
    let lines = verify::disassemble(Arch::AArch64, site.addr, &assembled.code);
    let texts: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
    let (code, padding) = texts.split_at(expected.len());
    assert_eq!(code, expected);
    assert!(padding.iter().all(|text| *text == "nop"));
}

#[test]
fn an_inline_cache_is_four_instructions() {
    let hit = seq()
        .guard_eq(u32::at(arg(0), 8), 0x17u32, Target::Miss)
        .load(result(), u64::at(arg(0), 24));
    let expected = [
        "ldr w16, [x1, #8]",
        "cmp w16, #0x17",
        "b.ne 0x500000",
        "ldr x0, [x1, #24]",
    ];
    expect(&hit, &any_reg(24), &expected);
}

#[test]
fn a_far_target_is_reached_through_x16() {
    let load = [
        "movz x16, #0x5678",
        "movk x16, #0x1234, lsl #16",
        "movk x16, #0x7fff, lsl #32",
    ];
    expect(
        &seq().jump(Target::to(FAR)),
        &any_reg(16),
        &[&load[..], &["br x16"]].concat(),
    );
    let guard = seq().guard_eq(arg(0), arg(1), Target::to(FAR));
    let over = ["cmp x1, x2", "b.eq 0x400018"];
    expect(&guard, &any_reg(32), &[&over[..], &load, &["br x16"]].concat());
}

#[test]
fn a_call_loses_the_link_register() {
    let call = seq().call_to(HELPER, OnReturn::PreservesAll);
    expect(&call, &any_reg(4), &["bl 0x700000"]);
    let locations = [reg(0, 8), reg(1, 8), reg(2, 8), reg(30, 8)];
    let live = at(
        CallShape::any_reg(8).result().args(2),
        record(7).locations(locations),
    );
    let refused = assemble(&call, &live, &ENV).unwrap_err();
    assert!(
        matches!(&refused, Error::OverwritesLive { name, .. } if name == "x30"),
        "{refused}"
    );
    assert!(assemble(&seq().mov(result(), 1u64), &live, &ENV).is_ok());
}

#[test]
fn counting_takes_three_registers() {
    let count = seq().atomic_count(CodeAddr::new(0x9000));
    let expected = [
        "movz x16, #0x9000",
        "ldaxr x17, [x16]",
        "add x17, x17, #0x1",
        "stlxr w30, x17, [x16]",
        "cbnz w30, 0x400004",
    ];
    expect(&count, &any_reg(24), &expected);
    // x30 holds the return address at an entry.
    let entry = SiteContext {
        record: None,
        ..at(CallShape::entry(24), record(7))
    };
    let refused = assemble(&count, &entry, &ENV).unwrap_err();
    assert!(matches!(refused, Error::NoScratch { .. }), "{refused}");
}

#[test]
fn sites_are_whole_instructions() {
    let nothing = seq().mov(result(), 1u64);
    let refused = |site: SiteContext<'_>, unit_of: &str| {
        let error = assemble(&nothing, &site, &ENV).unwrap_err();
        assert!(
            matches!(error, Error::NotWholeInstructions { what, unit: 4, .. } if what == unit_of),
            "{error}"
        );
    };
    for reserved in [17, 18, 19] {
        refused(any_reg(reserved), "reserved length");
    }
    let addr = CodeAddr::new(0x40_0002);
    refused(SiteContext { addr, ..any_reg(16) }, "address");
    let return_offsets = &[4, 6];
    refused(
        SiteContext {
            return_offsets,
            ..any_reg(16)
        },
        "return_offset",
    );
    let return_offsets = &[4, 8];
    assert!(
        assemble(
            &nothing,
            &SiteContext {
                return_offsets,
                ..any_reg(16)
            },
            &ENV
        )
        .is_ok()
    );
}

#[test]
fn stubs_are_within_128_mib() {
    let sequence = seq().mov(result(), 1u64).mov(result(), 2u64);
    let site = any_reg(4);
    let stub = |distance: i64| {
        let at = CodeAddr::new((1_u64 << 40).wrapping_add_signed(distance));
        let addr = CodeAddr::new(1 << 40);
        assemble_out_of_line(&sequence, &SiteContext { addr, ..site }, &ENV, at)
    };
    // The jump back starts behind the two moves, and ends behind the site.
    assert!(stub((128 << 20) - 4).is_ok());
    assert!(matches!(stub(128 << 20), Err(Error::StubOutOfReach { .. })));
    assert!(stub(-(128 << 20) + 8).is_ok());
    assert!(stub(-(128 << 20)).is_ok());
    assert!(matches!(
        stub(-(128 << 20) - 4),
        Err(Error::StubOutOfReach { .. })
    ));
}
