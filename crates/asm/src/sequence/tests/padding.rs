//! What fills the reserved bytes: nops, return offsets, stubs.

use super::*;

fn lengths(assembled: &Assembled) -> Vec<u32> {
    verify::disassemble(Arch::X86_64, SITE, &assembled.code)
        .iter()
        .map(|line| line.len.get())
        .collect()
}

#[test]
fn nothing_is_nops() {
    let assembled = in_place(&seq(), &any_reg(24));
    assert_eq!(lengths(&assembled), [10, 10, 4]);
    assert_eq!((assembled.used.get(), assembled.slack().get()), (0, 24));
    assert!(assembled.clobbers.is_empty());
}

#[test]
fn a_final_call_returns_to_the_end_of_the_site() {
    let call = seq().call_to(HELPER, OnReturn::PreservesAll);
    let assembled = in_place(&call, &any_reg(16));
    assert_eq!(disassembly(SITE, &assembled.code)[2], "call 0x700000");
    assert_eq!(lengths(&assembled), [10, 1, 5]);
    assert!(assembled.return_offsets.is_empty());
    assert_eq!((assembled.used.get(), assembled.slack().get()), (5, 11));
    // The register is loaded behind the nops too; what comes before stays in front.
    let sequence = seq()
        .mov(result(), 1)
        .call_to(FAR, OnReturn::PreservesAll)
        .bind(label(1));
    let assembled = in_place(&sequence, &any_reg(32));
    assert_eq!(lengths(&assembled), [5, 10, 4, 10, 3]);
    // Branches go over the nops.
    let sequence = seq()
        .jump_if(Cond::Eq, arg(0), 0, label(1))
        .mov(result(), 1)
        .bind(label(1))
        .call_to(HELPER, OnReturn::PreservesAll);
    let assembled = in_place(&sequence, &any_reg(32));
    let text = disassembly(SITE, &assembled.code);
    assert_eq!(
        (text[1].as_str(), text.last().unwrap().as_str()),
        ("je short 0x40001b", "call 0x700000")
    );
}

#[test]
fn a_call_in_the_middle_is_a_return_offset() {
    let sequence = seq().call_to(HELPER, OnReturn::PreservesAll).mov(result(), 1);
    let assembled = in_place(&sequence, &any_reg(32));
    assert_eq!(assembled.return_offsets, [5]);
    assert_eq!(lengths(&assembled)[..2], [5, 5]);
}

#[test]
fn nops_are_split_at_return_offsets() {
    let site = SiteContext {
        return_offsets: &[13, 17],
        ..any_reg(32)
    };
    let assembled = in_place(&seq().mov(result(), 1), &site);
    assert_eq!(lengths(&assembled), [5, 8, 4, 10, 5]);
}

#[test]
fn code_ends_before_the_first_return_offset() {
    let site = SiteContext {
        return_offsets: &[13],
        ..any_reg(32)
    };
    let exact = seq()
        .mov(result(), 0x1234_5678_9abcu64)
        .jump_if(Cond::Eq, arg(0), arg(1), label(0))
        .bind(label(0));
    let Fit::OutOfLine { .. } = assemble(&exact, &site, &ENV).unwrap() else {
        panic!()
    };
    let fits = seq().mov(result(), 0x1234_5678_9abcu64).add(result(), arg(0));
    assert_eq!(in_place(&fits, &site).used.get(), 13);
    let assembled = out_of_line(&exact, &site, STUB);
    assert_eq!(lengths(&assembled), [5, 8, 10, 9]);
}

#[test]
fn a_final_call_returns_to_an_existing_return_offset() {
    let site = SiteContext {
        return_offsets: &[13],
        ..any_reg(32)
    };
    let assembled = in_place(&seq().call_to(HELPER, OnReturn::PreservesAll), &site);
    assert_eq!(lengths(&assembled), [8, 5, 10, 9]);
    assert_eq!(assembled.return_offsets, [13]);
}

#[test]
fn what_does_not_fit_goes_to_a_stub_and_comes_back() {
    let sequence = seq()
        .guard_eq(u32::at(arg(0), 8), 0x17, Target::Miss)
        .load(result(), u64::at(arg(0), 24));
    let assembled = out_of_line(&sequence, &any_reg(13), STUB);
    assert_eq!(disassembly(SITE, &assembled.code)[0], "jmp 0x410000");
    let stub = assembled.stub.unwrap();
    let expected = [
        "cmp dword ptr [rdi+0x8], 0x17",
        "jne 0x500000",
        "mov rax, [rdi+0x18]",
        "jmp 0x40000d",
    ];
    assert_eq!(disassembly(stub.addr, &stub.bytes), expected);
    assert_eq!(assembled.used.get(), 5);
    // One byte more, and it is installed in place.
    assert_eq!(in_place(&sequence, &any_reg(14)).used.get(), 14);
}

#[test]
fn a_stub_that_leaves_has_no_way_back() {
    let sequence = seq().mov(result(), 1).jump(Target::Deopt);
    let stub = out_of_line(&sequence, &any_reg(8), STUB).stub.unwrap();
    assert_eq!(
        disassembly(stub.addr, &stub.bytes),
        ["mov eax, 0x1", "jmp 0x600000"]
    );
}

#[test]
fn a_call_in_a_stub_goes_on_with_the_jump_back() {
    let sequence = seq().mov(result(), 1).call_to(HELPER, OnReturn::PreservesAll);
    let assembled = out_of_line(&sequence, &any_reg(8), STUB);
    assert!(assembled.return_offsets.is_empty());
    let stub = assembled.stub.unwrap();
    assert_eq!(
        disassembly(stub.addr, &stub.bytes),
        ["mov eax, 0x1", "call 0x700000", "jmp 0x400008"]
    );
}

#[test]
fn the_stub_may_be_anywhere_in_reach() {
    let high = SiteContext {
        addr: CodeAddr::new(0x7f00_0000_0000),
        ..any_reg(8)
    };
    let sequence = seq()
        .guard_eq(arg(0), arg(1), Target::Miss)
        .count(CodeAddr::new(0x7f00_7fff_ff00));
    for stub in [0x7f00_0000_0005 + 0x7fff_ff00, 0x7f00_0000_0005u64 - 0x7fff_ff00] {
        let assembled = out_of_line(&sequence, &high, CodeAddr::new(stub));
        assert_eq!(assembled.stub.unwrap().addr.get(), stub);
    }
    let far = CodeAddr::new(0x7f01_0000_0000);
    let error = assemble_out_of_line(&sequence, &high, &ENV, far).unwrap_err();
    assert!(
        matches!(error, Error::StubOutOfReach { stub, .. } if stub == far),
        "{error}"
    );
}

#[test]
fn a_stub_of_its_own_goes_to_the_end_of_the_site() {
    let site = any_reg(8);
    let sequence = seq().load(result(), u64::at(arg(0), 8));
    let mut len = Len::default();
    let room = |most| {
        len = most;
        Ok::<_, Error>(STUB)
    };
    let stub = assemble_stub(&sequence, &site, &ENV, room).unwrap();
    assert_eq!(stub_len(&sequence, &site, &ENV).unwrap(), len);
    assert_eq!(
        disassembly(STUB, &stub.code.bytes),
        ["mov rax, [rdi+0x8]", "jmp 0x400008"]
    );
    assert!(len >= Len::of(&stub.code.bytes).unwrap());
    assert!(stub.declared.outputs.contains(dwarf(RAX)));
    assert!(stub.clobbers.contains(dwarf(RAX)));
}

#[test]
fn shadows_are_filled_behind_the_jump() {
    let assembled = in_place(&seq().jump(Target::Deopt), &shadow(12));
    assert_eq!(lengths(&assembled), [5, 7]);
    let sequence = seq()
        .guard_eq(u64::at(live(0), 0), 0x1_0000_0000u64, Target::Miss)
        .jump(Target::Deopt);
    let stub = out_of_line(&sequence, &shadow(8), STUB).stub.unwrap();
    assert_eq!(disassembly(STUB, &stub.bytes).last().unwrap(), "jmp 0x600000");
}
