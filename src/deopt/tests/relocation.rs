//! Original instructions, executed in the exit stub.

use alloc::vec::Vec;

use super::machine::{Asm, Memory, RAX};
use super::probe::{ALL_FLAGS, Image, Probe};
use super::registers::{assert_same, expected};
use super::site::TestSite;
use crate::addr::CodeAddr;
use crate::arch::Arch;
use crate::deopt::{Error, Resume, encode, max_len};

const VALUE: u64 = 0x1122_3344_5566_7788;

/// A probe whose site held `original`, resumed with it. The callee sets rax; the datum is a word
/// that `original` can read.
fn probe_with(original: impl FnOnce(&mut Asm, Places)) -> Probe {
    let mut memory = Memory::new();
    let mut callee = Asm::new(memory.here());
    callee.set(RAX, VALUE).ret();
    let places = Places {
        callee: memory.place(&callee.bytes),
        datum: memory.place(&VALUE.to_le_bytes()),
    };
    let exit_stub = memory.reserve(256);
    let (mut site, mut bytes) = (exit_stub, Vec::new());
    let probe = Probe::place(&mut memory, |asm| {
        site = asm.here();
        let mut old = Asm::new(site);
        original(&mut old, places);
        bytes = old.bytes;
        asm.jmp(exit_stub);
        asm.bytes.resize(asm.bytes.len() + bytes.len() - 5, 0xcc);
    });
    let resume = Resume::Original {
        addr: site,
        bytes: &bytes,
    };
    TestSite::new(site, |frame| frame.resume()).exit_stub(&mut memory, exit_stub, resume);
    memory.seal();
    probe
}

#[derive(Clone, Copy)]
struct Places {
    callee: CodeAddr,
    datum: CodeAddr,
}

/// `mov rax, [rip + to]`
fn load_relative(asm: &mut Asm, to: CodeAddr) {
    let distance = to.distance_from(asm.here()) - 7;
    asm.raw(&[0x48, 0x8b, 0x05]).raw(&(distance as i32).to_le_bytes());
}

fn assert_sets_rax(probe: Probe) {
    let input = Image::pattern(1, ALL_FLAGS);
    let output = probe.run(&input);
    let mut wanted = expected(&input, &output);
    wanted.gprs[RAX] = VALUE;
    assert_same(&wanted, &output);
}

#[test]
fn a_rip_relative_load_reads_the_same_word() {
    assert_sets_rax(probe_with(|asm, places| load_relative(asm, places.datum)));
}

#[test]
fn instructions_that_are_the_same_everywhere_stay_as_they_are() {
    assert_sets_rax(probe_with(|asm, _| {
        // Two nops that are no encoder's.
        asm.raw(&[0x66, 0x66, 0x90, 0x0f, 0x1f, 0x80, 0, 0, 0, 0])
            .set(RAX, VALUE);
    }));
    // nop; call rax; mov eax, [rax]
    let bytes = [0x66, 0x66, 0x90, 0xff, 0xd0, 0x8b, 0x00];
    let (exit_stub, addr) = (0x20_0000, 0x10_0000);
    let code = encoded(exit_stub, addr, &bytes).unwrap();
    let at = code.windows(7).position(|window| window == bytes).unwrap();
    let jump = &code[at + 7..at + 12];
    let to = (addr + 7) as i64 - (exit_stub + at as u64 + 12) as i64;
    assert_eq!(jump, [&[0xe9], &(to as i32).to_le_bytes()[..]].concat());
    // Out of reach of a jump.
    let far = encoded(0x7000_0000_0000, addr, &bytes).unwrap();
    assert!(far.windows(8).any(|window| window == (addr + 7).to_le_bytes()));
}

#[test]
fn a_call_reaches_its_callee_and_comes_back() {
    let probe = probe_with(|asm, places| {
        // Clear of the red zone, as compiled code that calls is.
        asm.move_stack(-128).call(places.callee).move_stack(128);
    });
    assert_sets_rax(probe);
}

#[test]
fn branches_among_the_instructions_stay_among_them() {
    let probe = probe_with(|asm, places| {
        // jrcxz +8 (not taken: the pattern's rcx is not 0); jmp +7 over ud2, nops; then the load.
        asm.raw(&[0xe3, 2, 0xeb, 4, 0x0f, 0x0b, 0x90, 0x90]);
        load_relative(asm, places.datum);
    });
    assert_sets_rax(probe);
}

/// What of `bytes` at `addr` becomes an exit stub at `exit_stub`; `None` when it is refused.
fn encoded(exit_stub: u64, addr: u64, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let context = TestSite::new(CodeAddr::new(addr), |frame| frame.resume()).context();
    let resume = Resume::Original {
        addr: CodeAddr::new(addr),
        bytes,
    };
    let result = encode(CodeAddr::new(exit_stub), context, resume);
    if let Ok(code) = &result {
        assert!(
            code.len() <= max_len(Arch::X86_64, &resume).as_usize(),
            "{} bytes of {resume:?}",
            code.len()
        );
    }
    result
}

fn refusal(exit_stub: u64, addr: u64, bytes: &[u8]) -> alloc::string::String {
    match encoded(exit_stub, addr, bytes) {
        Err(Error::Assemble(patchpoint_asm::Error::Relocation { addr: at, reason, .. })) => {
            assert_eq!(at.get(), addr);
            reason
        }
        other => panic!("{bytes:x?} should be refused: {other:x?}"),
    }
}

#[test]
fn what_means_something_else_at_another_address_is_refused() {
    let (exit_stub, addr) = (0x20_0000, 0x10_0000);
    // Cut off; no instruction; a branch into the middle; a load from its own bytes; a load out of
    // reach.
    assert!(refusal(exit_stub, addr, &[0x90, 0x48, 0x8b]).contains("cut off"));
    assert!(refusal(exit_stub, addr, &[0x06]).contains("no instruction"));
    assert!(refusal(exit_stub, addr, &[0xeb, 0x01, 0x48, 0x89, 0xc0]).contains("into an instruction"));
    assert!(refusal(exit_stub, addr, &[0xe2, 0x01, 0x48, 0x89, 0xc0]).contains("into an instruction"));
    assert!(refusal(exit_stub, addr, &[0x48, 0x8b, 0x05, 0xf9, 0xff, 0xff, 0xff]).contains("replaced"));
    refusal(0x7000_0000_0000, 0x10_0000_0000, &[0x48, 0x8b, 0x05, 0, 1, 0, 0]);
    encoded(exit_stub, addr, &[0x48, 0x8b, 0x05, 0, 1, 0, 0]).unwrap();
}

#[test]
fn no_exit_stub_is_longer_than_announced() {
    let forms: [&[u8]; 10] = [
        // Below 4 GiB the encoder can keep this one in reach with a prefix.
        &[0x48, 0x8b, 0x05, 0, 0x10, 0, 0],
        &[0x90],
        &[0x74, 0x40],
        &[0xe3, 0x40],
        &[0xe2, 0x40],
        &[0xeb, 0x40],
        &[0xe8, 0, 1, 0, 0],
        &[0xe9, 0, 1, 0, 0],
        &[0x0f, 0x84, 0, 1, 0, 0],
        &[0x67, 0xe3, 0x40],
    ];
    for at in [0x20_0000, 0x20_0003, 0x7000_0000_0005] {
        for form in forms {
            // No more, or the short ones would branch among themselves.
            for count in 1..8 {
                encoded(at, 0x10_0000, &form.repeat(count)).unwrap();
            }
        }
        encoded(at, 0x10_0000, &forms[0].repeat(60)).unwrap();
        for first in forms {
            for second in forms {
                encoded(at, 0x10_0000, &[first, second].concat()).unwrap();
            }
        }
    }
}

#[test]
fn an_exit_stub_out_of_reach_jumps_through_an_address() {
    let context = TestSite::new(CodeAddr::new(0x10_0000), |frame| frame.resume()).context();
    let to = CodeAddr::new(0x7000_0000_1234);
    let resume = Resume::At(to);
    let bytes = encode(CodeAddr::new(0x20_0000), context, resume).unwrap();
    assert!(bytes.windows(8).any(|window| window == to.get().to_le_bytes()));
    assert!(bytes.windows(6).any(|window| window == [0xff, 0x25, 0, 0, 0, 0]));
    assert!(bytes.len() <= max_len(Arch::X86_64, &resume).as_usize());
    let near = encode(
        CodeAddr::new(0x20_0000),
        context,
        Resume::At(CodeAddr::new(0x10_0010)),
    )
    .unwrap();
    assert!(near.len() < bytes.len());
}
