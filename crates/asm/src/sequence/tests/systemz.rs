//! SystemZ: where big-endian machines have the low bytes of a value, branches to 4 GiB and beyond,
//! and calls.

use llvm_stackmaps::testing::sub_reg;

use patchpoint_isa::systemz::{R4, R14};

use super::*;

const AT: CodeAddr = CodeAddr::new(0x10_0000_0000);
const NEAR: CodeAddr = CodeAddr::new(0x10_ffff_fffe);
const BEYOND: CodeAddr = CodeAddr::new(0x11_0000_0000);

fn systemz(shape: CallShape, spec: RecordSpec) -> SiteContext<'static> {
    SiteContext {
        arch: Arch::SystemZ,
        addr: AT,
        ..site(shape, spec)
    }
}

/// `anyregcc`: result in r2, an argument in r3; live are 8, 4 and 2 bytes on the stack, and a
/// constant.
fn at_any_reg() -> SiteContext<'static> {
    let locations = [
        reg(2, 8),
        reg(3, 8),
        indirect(15, 160, 8),
        indirect(15, 168, 4),
        indirect(15, 172, 2),
        constant(7),
    ];
    systemz(
        CallShape::any_reg(48).result().args(1),
        record(7).locations(locations),
    )
}

#[track_caller]
fn lines(sequence: &Sequence, site: &SiteContext<'_>) -> Vec<String> {
    let assembled = in_place(sequence, site);
    verify::disassemble(
        Arch::SystemZ,
        site.addr,
        &assembled.code[..assembled.used.as_usize()],
    )
    .into_iter()
    .map(|line| line.text)
    .collect()
}

#[test]
fn low_bytes_are_at_the_highest_addresses() {
    let site = at_any_reg();
    for (part, text) in [
        (u8::of(live(0)), "llgc %r2, 167(%r15)"),
        (u16::of(live(0)), "llgh %r2, 166(%r15)"),
        (u32::of(live(0)), "llgf %r2, 164(%r15)"),
        (u64::of(live(0)), "lg %r2, 160(%r15)"),
        (i8::of(live(1)), "lgb %r2, 171(%r15)"),
        (u32::of(live(1)), "llgf %r2, 168(%r15)"),
        (u8::of(live(2)), "llgc %r2, 173(%r15)"),
    ] {
        assert_eq!(lines(&seq().mov(result(), part), &site), [text]);
    }
    // Memory that the sequence itself names is read where it says.
    let load = seq().load(result(), u8::at(arg(0), 4));
    assert_eq!(lines(&load, &site), ["llgc %r2, 4(%r3)"]);
    // In comparisons and stores the width of the other side counts.
    let guard = seq().guard_eq(u32::at(arg(0), 8), live(0), Target::Miss);
    assert_eq!(
        lines(&guard, &site)[..2],
        ["llgf %r0, 8(%r3)", "cl %r0, 164(%r15)"]
    );
    let store = seq().store(u16::at(arg(0), 8), live(0));
    assert_eq!(lines(&store, &site), ["llgh %r0, 166(%r15)", "sth %r0, 8(%r3)"]);
    // A spilled pointer is read whole.
    let through = seq().load(result(), u8::at(live(0), 2));
    assert_eq!(lines(&through, &site), ["lg %r1, 160(%r15)", "llgc %r2, 2(%r1)"]);
}

#[test]
fn stack_arguments_are_extended_to_eight_bytes() {
    let site = systemz(CallShape::c(48).result().args(7), record(7));
    let narrow = seq().mov(result(), u8::of(arg(5)));
    assert_eq!(lines(&narrow, &site), ["llgc %r2, 167(%r15)"]);
    let whole = seq().mov(result(), arg(6));
    assert_eq!(lines(&whole, &site), ["lg %r2, 168(%r15)"]);
}

#[test]
fn a_short_floating_point_number_is_in_the_left_half_of_its_register() {
    let locations = [reg(2, 8), sub_reg(17, 32, 4)];
    let shape = CallShape::any_reg(48).result().args(1);
    let site = systemz(shape, record(7).locations(locations));
    let bits = seq().mov(result(), u32::of(arg(0)));
    assert_eq!(lines(&bits, &site), ["lgdr %r2, %f2", "srlg %r2, %r2, 32"]);
    let result_in_f2 = systemz(
        CallShape::any_reg(48).result(),
        record(7).location(sub_reg(17, 32, 4)),
    );
    let load = seq().load(result(), u32::at(reg_operand(3), 0));
    assert_eq!(lines(&load, &result_in_f2), ["le %f2, 0(%r3)"]);
}

fn reg_operand(number: u16) -> Operand {
    Operand::Reg(dwarf(number))
}

#[test]
fn the_high_half_of_a_general_register_is_refused() {
    let shape = CallShape::any_reg(48).result().args(1);
    let argument = systemz(shape, record(7).locations([reg(2, 8), sub_reg(3, 32, 4)]));
    let of_argument = seq().mov(result(), u32::of(arg(0)));
    assert!(matches!(
        refused(&of_argument, &argument),
        Error::OperandUnusable { .. }
    ));
    let in_high = systemz(shape, record(7).locations([sub_reg(2, 32, 4), reg(3, 8)]));
    assert!(matches!(
        refused(&seq().mov(result(), 1u32), &in_high),
        Error::OperandUnusable { .. }
    ));
}

#[test]
fn branches_reach_four_gib_and_go_through_a_register_beyond() {
    let site = systemz(CallShape::any_reg(48), record(7).location(reg(3, 8)));
    let to = |addr: CodeAddr| lines(&seq().jump(Target::to(addr)), &site);
    assert_eq!(to(CodeAddr::new(AT.get() + 0xfffe)), ["brc 15, 0x100000fffe"]);
    assert_eq!(to(CodeAddr::new(AT.get() + 0x1_0000)), ["brcl 15, 0x1000010000"]);
    assert_eq!(to(NEAR), ["brcl 15, 0x10fffffffe"]);
    assert_eq!(to(BEYOND), ["llihl %r1, 17", "bcr 15, %r1"]);
    let beyond = CodeAddr::new(BEYOND.get() + 4 * 0x1_0000_0000);
    let guard = seq().guard_eq(arg0(), 1u64, Target::to(beyond));
    assert_eq!(
        lines(&guard, &site),
        [
            "cghi %r3, 1",
            "brc 8, 0x100000000e",
            "llihl %r1, 21",
            "bcr 15, %r1"
        ]
    );
    let odd = Target::to(CodeAddr::new(AT.get() + 0x101));
    assert!(matches!(
        refused(&seq().jump(odd), &site),
        Error::TargetOutOfReach { .. }
    ));
}

fn arg0() -> Operand {
    location(0)
}

#[test]
fn calls_link_through_r14_and_the_last_one_returns_to_the_end() {
    let site = systemz(CallShape::c(24).result(), record(7));
    let assembled = in_place(&seq().call_to(NEAR, OnReturn::FollowsC), &site);
    let nops_then_call = [&[0xc0, 0x04, 0, 0, 0, 0].repeat(3)[..], &[0xc0, 0xe5]].concat();
    assert_eq!(assembled.code[..20], nops_then_call);
    assert!(assembled.return_offsets.is_empty());
    let far = in_place(&seq().call_to(FAR, OnReturn::PreservesAll), &site);
    assert_eq!(far.code[22..], [0x0d, 0xe1]);
    assert!(far.clobbers.contains(R14));
}

#[test]
fn an_entry_keeps_its_return_address() {
    let entry = SiteContext {
        record: None,
        ..systemz(CallShape::entry(48).args(2).result(), record(7))
    };
    let count = seq().count(CodeAddr::new(0x7fff_0000_0000));
    let code = lines(&count, &entry);
    assert!(code.iter().all(|line| !line.contains("r14")), "{code:?}");
    let early = seq().mov(result(), 5u64).ret();
    assert_eq!(lines(&early, &entry), ["lghi %r2, 5", "bcr 15, %r14"]);
    assert!(matches!(
        refused(&seq().mov(Operand::Reg(R14), 5u64), &entry),
        Error::OverwritesLive { .. }
    ));
    let at_patchpoint = systemz(CallShape::c(48), record(7));
    in_place(
        &seq().mov(Operand::Reg(R14), 5u64).mov(Operand::Reg(R4), 5u64),
        &at_patchpoint,
    );
}

#[test]
fn odd_lengths_and_addresses_are_refused() {
    let odd = systemz(CallShape::any_reg(47), record(7));
    assert!(matches!(
        refused(&seq(), &odd),
        Error::NotWholeInstructions { unit: 2, .. }
    ));
}
