//! Operations with operands of every kind.

use super::*;

/// `anyregcc` with one live value at that location, no arguments, result in rax.
fn with_live(location: llvm_stackmaps::Location) -> SiteContext<'static> {
    site(
        CallShape::any_reg(64).result(),
        record(7).locations([reg(RAX, 8), location]),
    )
}

#[test]
fn a_base_is_a_register_a_slot_a_frame_address_or_a_constant() {
    let load = seq().load(result(), u64::at(live(0), 24));
    expect(&load, &with_live(reg(RDX, 8)), &["mov rax, [rdx+0x18]"]);
    expect(&load, &with_live(reg(RSP, 8)), &["mov rax, [rsp+0x18]"]);
    expect(&load, &with_live(reg(R12, 8)), &["mov rax, [r12+0x18]"]);
    expect(&load, &with_live(direct(RBP, -32)), &["mov rax, [rbp-0x8]"]);
    expect(
        &load,
        &with_live(indirect(RBP, -8, 8)),
        &["mov r11, [rbp-0x8]", "mov rax, [r11+0x18]"],
    );
    expect(&load, &with_live(constant(0x1000)), &["mov rax, [0x1018]"]);
    let far = ["mov r11, 0x11223344556677a0", "mov rax, [r11]"];
    expect(&load, &with_live(constant_index(0)), &far);
    let zero = seq().load(result(), u64::at(live(0), 0));
    expect(&zero, &with_live(reg(RDX, 8)), &["mov rax, [rdx]"]);
    expect(&zero, &with_live(reg(R13, 8)), &["mov rax, [r13]"]);
}

#[test]
fn a_value_is_a_register_a_slot_a_frame_address_or_a_constant() {
    let mov = seq().mov(result(), live(0));
    expect(&mov, &with_live(reg(RDX, 8)), &["mov rax, rdx"]);
    expect(&mov, &with_live(indirect(RSP, 16, 8)), &["mov rax, [rsp+0x10]"]);
    expect(&mov, &with_live(direct(RBP, -32)), &["lea rax, [rbp-0x20]"]);
    expect(&mov, &with_live(direct(RBP, 0)), &["mov rax, rbp"]);
    expect(&mov, &with_live(constant(-1)), &["mov rax, 0xffffffffffffffff"]);
    expect(&mov, &with_live(constant(5)), &["mov eax, 0x5"]);
    expect(
        &mov,
        &with_live(constant_index(0)),
        &["mov rax, 0x1122334455667788"],
    );
    expect(&mov, &with_live(reg(RAX, 8)), &[]);
}

#[test]
fn loads_extend() {
    let load = |mem| seq().load(result(), mem);
    expect(
        &load(u8::at(arg(0), 1)),
        &any_reg(16),
        &["movzx eax, byte ptr [rdi+0x1]"],
    );
    expect(
        &load(i8::at(arg(0), 1)),
        &any_reg(16),
        &["movsx rax, byte ptr [rdi+0x1]"],
    );
    expect(
        &load(u16::at(arg(0), 2)),
        &any_reg(16),
        &["movzx eax, word ptr [rdi+0x2]"],
    );
    expect(
        &load(i16::at(arg(0), 2)),
        &any_reg(16),
        &["movsx rax, word ptr [rdi+0x2]"],
    );
    expect(&load(u32::at(arg(0), 4)), &any_reg(16), &["mov eax, [rdi+0x4]"]);
    expect(
        &load(i32::at(arg(0), 4)),
        &any_reg(16),
        &["movsxd rax, [rdi+0x4]"],
    );
    expect(
        &load(u64::at(arg(0), 128)),
        &any_reg(16),
        &["mov rax, [rdi+0x80]"],
    );
    expect(
        &load(i64::at(arg(0), i32::MIN)),
        &any_reg(16),
        &["mov rax, [rdi-0x80000000]"],
    );
}

#[test]
fn parts_of_values_extend() {
    let mov = |part| seq().mov(result(), part);
    expect(&mov(u8::of(arg(0))), &any_reg(16), &["movzx eax, dil"]);
    expect(&mov(i8::of(arg(1))), &any_reg(16), &["movsx rax, sil"]);
    expect(&mov(u32::of(arg(0))), &any_reg(16), &["mov eax, edi"]);
    expect(&mov(i32::of(arg(0))), &any_reg(16), &["movsxd rax, edi"]);
    expect(
        &mov(u16::of(live(1))),
        &any_reg(16),
        &["movzx eax, word ptr [rbp-0x8]"],
    );
}

#[test]
fn stores_take_registers_and_immediates_and_spilled_values() {
    let store = |to, src: Source| seq().store(to, src);
    expect(
        &store(u8::at(arg(0), 3), arg(1).into()),
        &any_reg(16),
        &["mov [rdi+0x3], sil"],
    );
    expect(
        &store(u16::at(arg(0), 3), arg(1).into()),
        &any_reg(16),
        &["mov [rdi+0x3], si"],
    );
    expect(
        &store(u32::at(arg(0), 3), 7.into()),
        &any_reg(16),
        &["mov dword ptr [rdi+0x3], 0x7"],
    );
    expect(
        &store(u8::at(arg(0), 3), 255.into()),
        &any_reg(16),
        &["mov byte ptr [rdi+0x3], 0xff"],
    );
    let minus_one = ["mov qword ptr [rdi+0x3], 0xffffffffffffffff"];
    expect(
        &store(u64::at(arg(0), 3), (-1i32).into()),
        &any_reg(16),
        &minus_one,
    );
    let wide = ["mov r11d, 0x80000000", "mov [rdi+0x3], r11"];
    expect(
        &store(u64::at(arg(0), 3), 0x8000_0000u32.into()),
        &any_reg(16),
        &wide,
    );
    let spilled = ["mov r11, [rbp-0x8]", "mov [rdi], r11"];
    expect(&store(u64::at(arg(0), 0), live(1).into()), &any_reg(16), &spilled);
    let half = ["mov r11d, [rbp-0x8]", "mov [rdi], r11d"];
    expect(&store(u32::at(arg(0), 0), live(1).into()), &any_reg(16), &half);
}

#[test]
fn guards_compare_every_width_with_boundary_immediates() {
    let guard = |mem, value: u64| seq().guard_eq(mem, value, Target::Miss);
    let with = |compare| [compare, "jne 0x500000"];
    let site = any_reg(32);
    expect(
        &guard(u8::at(arg(0), 8), 127),
        &site,
        &with("cmp byte ptr [rdi+0x8], 0x7f"),
    );
    expect(
        &guard(u8::at(arg(0), 8), 255),
        &site,
        &with("cmp byte ptr [rdi+0x8], 0xff"),
    );
    expect(
        &guard(u16::at(arg(0), 8), 0xffff),
        &site,
        &with("cmp word ptr [rdi+0x8], 0xffff"),
    );
    expect(
        &guard(u16::at(arg(0), 8), 128),
        &site,
        &with("cmp word ptr [rdi+0x8], 0x80"),
    );
    expect(
        &guard(u32::at(arg(0), 8), 0xffff_ffff),
        &site,
        &with("cmp dword ptr [rdi+0x8], 0xffffffff"),
    );
    expect(
        &guard(u32::at(arg(0), 8), 0x8000_0000),
        &site,
        &with("cmp dword ptr [rdi+0x8], 0x80000000"),
    );
    expect(
        &guard(u64::at(arg(0), 8), 0x7fff_ffff),
        &site,
        &with("cmp qword ptr [rdi+0x8], 0x7fffffff"),
    );
    let sign = "cmp qword ptr [rdi+0x8], 0xffffffff80000000";
    expect(
        &guard(u64::at(arg(0), 8), i64::from(i32::MIN) as u64),
        &site,
        &with(sign),
    );
    let wide = ["mov r11d, 0x80000000", "cmp [rdi+0x8], r11", "jne 0x500000"];
    expect(&guard(u64::at(arg(0), 8), 0x8000_0000), &site, &wide);
    let wide = ["mov r11, 0x123456789abcdef", "cmp [rdi+0x8], r11", "jne 0x500000"];
    expect(&guard(u64::at(arg(0), 8), 0x0123_4567_89ab_cdef), &site, &wide);
}

#[test]
fn a_wide_immediate_is_compared_in_halves_when_the_scratch_register_is_taken() {
    // The result cannot be used here: it is written by nothing.
    let guard = seq().guard_eq(u64::at(live(1), 8), 0x0123_4567_0000_0005u64, Target::Miss);
    let expected = [
        "mov r11, [rbp-0x8]",
        "cmp dword ptr [r11+0x8], 0x5",
        "jne 0x500000",
        "cmp dword ptr [r11+0xc], 0x1234567",
        "jne 0x500000",
    ];
    expect(&guard, &any_reg(48), &expected);
    let other = seq().guard_ne(u64::at(live(1), 8), 0x0123_4567_0000_0005u64, Target::Miss);
    assert!(matches!(
        refused(&other, &any_reg(48)),
        Error::NoScratch { op: 0, .. }
    ));
}

#[test]
fn guards_compare_values_of_every_kind() {
    let site = any_reg(32);
    let guard = |lhs: Source, rhs: Source| seq().guard(Cond::Below, lhs, rhs, Target::Deopt);
    let jump = "jae 0x600000";
    expect(
        &guard(arg(0).into(), arg(1).into()),
        &site,
        &["cmp rdi, rsi", jump],
    );
    expect(
        &guard(arg(0).into(), live(1).into()),
        &site,
        &["cmp rdi, [rbp-0x8]", jump],
    );
    expect(
        &guard(live(1).into(), arg(0).into()),
        &site,
        &["cmp [rbp-0x8], rdi", jump],
    );
    let fields = ["mov r11d, [rsi]", "cmp [rdi], r11d", jump];
    expect(
        &guard(u32::at(arg(0), 0).into(), u32::at(arg(1), 0).into()),
        &site,
        &fields,
    );
    expect(
        &guard(u8::of(arg(0)).into(), 3.into()),
        &site,
        &["cmp dil, 0x3", jump],
    );
    expect(&guard(arg(0).into(), 0.into()), &site, &["test rdi, rdi", jump]);
    // Exchanged operands exchange the condition.
    expect(
        &guard(3.into(), arg(0).into()),
        &site,
        &["cmp rdi, 0x3", "jbe 0x600000"],
    );
    let frame = with_live(direct(RBP, -16));
    expect(
        &guard(live(0).into(), 9.into()),
        &frame,
        &["lea r11, [rbp-0x10]", "cmp r11, 0x9", jump],
    );
    let both = with_live(constant(4));
    expect(
        &guard(live(0).into(), 4.into()),
        &both,
        &["mov r11d, 0x4", "cmp r11, 0x4", jump],
    );
}

#[test]
fn conditions_are_negated_in_guards() {
    let conditions = [
        (Cond::Eq, "jne"),
        (Cond::Ne, "je"),
        (Cond::Below, "jae"),
        (Cond::BelowOrEqual, "ja"),
        (Cond::Above, "jbe"),
        (Cond::AboveOrEqual, "jb"),
        (Cond::Less, "jge"),
        (Cond::LessOrEqual, "jg"),
        (Cond::Greater, "jle"),
        (Cond::GreaterOrEqual, "jl"),
    ];
    for (cond, jump) in conditions {
        let guard = seq().guard(cond, arg(0), arg(1), Target::Miss);
        expect(
            &guard,
            &any_reg(16),
            &["cmp rdi, rsi", &alloc::format!("{jump} 0x500000")],
        );
        let jump_if = seq().jump_if(cond.negated(), arg(0), arg(1), Target::Miss);
        assert_eq!(
            in_place(&guard, &any_reg(16)).code,
            in_place(&jump_if, &any_reg(16)).code
        );
    }
}

#[test]
fn bits_of_a_temporary_and_of_the_result() {
    let taken_apart = seq()
        .mov(temp(), arg(0))
        .and(temp(), 7)
        .guard_eq(temp(), 1, Target::Miss)
        .mov(result(), arg(0))
        .shift_right_signed(result(), 3)
        .shift_left(result(), 1)
        .shift_right(result(), 0)
        .and(result(), 0xffff_ffff);
    expect(
        &taken_apart,
        &any_reg(48),
        &[
            "mov r11, rdi",
            "and r11, 0x7",
            "cmp r11, 0x1",
            "jne 0x500000",
            "mov rax, rdi",
            "sar rax, 0x3",
            "shl rax, 0x1",
            "and eax, 0xffffffff",
        ],
    );
    let two = seq().mov(temp(), arg(0)).and(temp(), 1 << 40);
    assert!(matches!(refused(&two, &any_reg(48)), Error::NoScratch { .. }));
    let far = seq().mov(result(), arg(0)).shift_left(result(), 64);
    assert!(matches!(
        refused(&far, &any_reg(48)),
        Error::OperandUnusable { .. }
    ));
}

#[test]
fn additions() {
    let add = |value: Source| seq().mov(result(), arg(0)).add(result(), value);
    let first = "mov rax, rdi";
    expect(&add(1.into()), &any_reg(32), &[first, "inc rax"]);
    expect(
        &add((-128).into()),
        &any_reg(32),
        &[first, "add rax, 0xffffffffffffff80"],
    );
    expect(&add(128.into()), &any_reg(32), &[first, "add rax, 0x80"]);
    let wide = [first, "mov r11, 0x100000000", "add rax, r11"];
    expect(&add((1u64 << 32).into()), &any_reg(32), &wide);
    expect(&add(arg(1).into()), &any_reg(32), &[first, "add rax, rsi"]);
    expect(&add(live(1).into()), &any_reg(32), &[first, "add rax, [rbp-0x8]"]);
    expect(
        &add(i8::at(arg(1), 4).into()),
        &any_reg(32),
        &[first, "movsx r11, byte ptr [rsi+0x4]", "add rax, r11"],
    );
    expect(
        &seq().add_to_memory(u16::at(arg(0), 2), 1),
        &any_reg(32),
        &["inc word ptr [rdi+0x2]"],
    );
    expect(
        &seq().atomic_add(u32::at(arg(0), 2), 5),
        &any_reg(32),
        &["lock add dword ptr [rdi+0x2], 0x5"],
    );
    expect(
        &seq().atomic_add(u64::at(arg(0), 2), arg(1)),
        &any_reg(32),
        &["lock add [rdi+0x2], rsi"],
    );
}

#[test]
fn counters_are_reached_by_the_shortest_way() {
    let near = seq().count(CodeAddr::new(0x1_0040_0100));
    let atomic = seq().atomic_count(FAR);
    let low = seq().count(CodeAddr::new(0x1000));
    let far_site = SiteContext {
        addr: CodeAddr::new(0x1_0040_0000),
        ..any_reg(32)
    };
    expect(&near, &far_site, &["inc qword ptr [0x100400100]"]);
    assert_eq!(in_place(&near, &far_site).used.get(), 7);
    expect(&low, &any_reg(32), &["inc qword ptr [0x1000]"]);
    assert_eq!(in_place(&low, &any_reg(32)).used.get(), 8);
    expect(
        &atomic,
        &any_reg(32),
        &["mov r11, 0x7fff12345678", "lock inc qword ptr [r11]"],
    );
}

#[test]
fn vector_registers_are_moved_loaded_and_stored() {
    let double = site(
        CallShape::any_reg(32).result().args(1),
        record(7).locations([reg(XMM0, 16), reg(XMM9, 16), reg(RDX, 8), indirect(RBP, -8, 8)]),
    );
    expect(&seq().mov(result(), arg(0)), &double, &["movaps xmm0, xmm9"]);
    expect(&seq().mov(result(), live(0)), &double, &["movq xmm0, rdx"]);
    expect(
        &seq().mov(result(), u32::of(live(0))),
        &double,
        &["movd xmm0, edx"],
    );
    expect(&seq().mov(result(), live(1)), &double, &["movsd xmm0, [rbp-0x8]"]);
    expect(
        &seq().load(result(), u32::at(live(0), 4)),
        &double,
        &["movss xmm0, [rdx+0x4]"],
    );
    expect(
        &seq().load(result(), u64::at(live(0), 4)),
        &double,
        &["movsd xmm0, [rdx+0x4]"],
    );
    expect(&seq().mov(result(), 0), &double, &["xorps xmm0, xmm0"]);
    let one = ["mov r11, 0x3ff0000000000000", "movq xmm0, r11"];
    expect(&seq().mov(result(), 1.0f64.to_bits()), &double, &one);
    expect(
        &seq().store(u64::at(live(0), 8), arg(0)),
        &double,
        &["movsd [rdx+0x8], xmm9"],
    );
    expect(
        &seq().store(u32::at(live(0), 8), arg(0)),
        &double,
        &["movss [rdx+0x8], xmm9"],
    );
    let bits = site(
        CallShape::any_reg(32).result().args(1),
        record(7).locations([reg(RAX, 8), reg(XMM9, 16)]),
    );
    expect(&seq().mov(result(), arg(0)), &bits, &["movq rax, xmm9"]);
    expect(
        &seq().mov(result(), i32::of(arg(0))),
        &bits,
        &["movd eax, xmm9", "movsxd rax, eax"],
    );
}

#[test]
fn arguments_of_the_c_convention() {
    let spec = || record(7);
    let many = site(CallShape::c(32).result().args(9), spec());
    let load = |n| seq().load(result(), u64::at(arg(n), 0));
    expect(&load(0), &many, &["mov rax, [rdi]"]);
    expect(&load(3), &many, &["mov rax, [rcx]"]);
    expect(&load(5), &many, &["mov rax, [r9]"]);
    expect(&load(6), &many, &["mov r11, [rsp]", "mov rax, [r11]"]);
    expect(&load(8), &many, &["mov r11, [rsp+0x10]", "mov rax, [r11]"]);
    expect(
        &seq().mov(float_result(), float_arg(1)),
        &many,
        &["movaps xmm0, xmm1"],
    );
    let entry = SiteContext {
        shape: CallShape::entry(32).args(8).result(),
        ..entry(32)
    };
    expect(
        &seq().mov(result(), arg(6)).ret(),
        &entry,
        &["mov rax, [rsp+0x8]", "ret"],
    );
}

#[test]
fn locations_and_live_values_are_counted_from_their_own_start() {
    let mov = |operand| seq().mov(result(), operand);
    expect(&mov(location(1)), &any_reg(16), &["mov rax, rdi"]);
    expect(&mov(location(3)), &any_reg(16), &["mov rax, rbx"]);
    expect(&mov(live(0)), &any_reg(16), &["mov rax, rbx"]);
    expect(&mov(live(0)), &c(16), &["mov rax, rbx"]);
}
