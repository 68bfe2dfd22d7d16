//! Random told sites: what a sequence may change is random, and whatever it may not change is
//! compared after it was executed: registers, flags, the red zone.

use llvm_stackmaps::fuzzing::{Random, executions};
use patchpoint::Error;
use patchpoint::addr::DwarfReg;
use patchpoint::arch::{Cond, RegSet, x86_64};
use patchpoint::sequence::{Field, Operand, Sequence, Target, arg, live, result, temp};
use patchpoint::site::SiteSpec;

use crate::{Emitted, engine, function};

/// The hardware's numbers of the registers, by DWARF number.
const HARDWARE: [u8; 16] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
const RSP: usize = 7;
const RDI: usize = 5;

/// What the function is called with: registers by DWARF number, flags, and the red zone.
#[repr(C)]
struct State {
    registers: [u64; 16],
    flags: u64,
    red_zone: [u64; 16],
}

const FLAGS: usize = 16 * 8;
const RED_ZONE: usize = FLAGS + 8;

/// `mov r, [base + disp]`, or the other way round.
fn access(code: &mut Vec<u8>, opcode: u8, reg: u8, base: u8, disp: i32) {
    code.extend([
        0x48 | (reg >> 3) << 2 | base >> 3,
        opcode,
        0x80 | (reg & 7) << 3 | base & 7,
    ]);
    if base & 7 == 4 {
        code.push(0x24);
    }
    code.extend(disp.to_le_bytes());
}

const LOAD: u8 = 0x8b;
const STORE: u8 = 0x89;
const LEA: u8 = 0x8d;
const EXCHANGE: u8 = 0x87;
const RDI_: u8 = 7;
const RSP_: u8 = 4;
const RAX_: u8 = 0;

/// `f(state)`: loads all of the state, comes to the site with a stack pointer that is `pad` bytes
/// off its alignment, stores all of it. Returns the code and where the site is.
fn harness(reserved: usize, pad: i32) -> (Vec<u8>, u32) {
    // push rbx, rbp, r12 to r15
    let mut code = vec![0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57];
    code.push(0x57); // push rdi
    for word in 0..16 {
        access(&mut code, LOAD, RAX_, RDI_, RED_ZONE as i32 + 8 * word);
        access(&mut code, STORE, RAX_, RSP_, -136 - pad - 8 * word);
    }
    // The flags go through the stack, so the red zone is a word lower then.
    access(&mut code, LOAD, RAX_, RDI_, FLAGS as i32);
    code.extend([0x50, 0x9d]); // push rax; popfq
    for (dwarf, hardware) in (0..).zip(HARDWARE) {
        if dwarf != RSP as i32 && dwarf != RDI as i32 {
            access(&mut code, LOAD, hardware, RDI_, 8 * dwarf);
        }
    }
    // lea rsp: the words that were stored are those below it.
    access(&mut code, LEA, RSP_, RSP_, -128 - pad);
    access(&mut code, LOAD, 7, RDI_, 8 * RDI as i32);
    let site = code.len() as u32;
    code.extend(vec![0x90; reserved]);
    // The state, and what rdi was.
    access(&mut code, EXCHANGE, RDI_, RSP_, 128 + pad);
    for (dwarf, hardware) in (0..).zip(HARDWARE) {
        if dwarf != RSP as i32 && dwarf != RDI as i32 {
            access(&mut code, STORE, hardware, RDI_, 8 * dwarf);
        }
    }
    access(&mut code, LOAD, RAX_, RSP_, 128 + pad);
    access(&mut code, STORE, RAX_, RDI_, 8 * RDI as i32);
    for word in 0..16 {
        access(&mut code, LOAD, RAX_, RSP_, -8 - 8 * word);
        access(&mut code, STORE, RAX_, RDI_, RED_ZONE as i32 + 8 * word);
    }
    code.extend([0x9c, 0x58]); // pushfq; pop rax
    access(&mut code, STORE, RAX_, RDI_, FLAGS as i32);
    access(&mut code, LEA, RSP_, RSP_, 136 + pad);
    // pop r15 to r12, rbp, rbx; ret
    code.extend([0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3]);
    (code, site)
}

/// CF, PF, AF, ZF, SF, OF.
const ARITHMETIC: u64 = 0x8d5;

struct Asked {
    sequence: Sequence,
    /// What the sequence leaves as the result; `None` where it goes away before.
    result: Option<u64>,
}

fn general(random: &mut Random) -> DwarfReg {
    loop {
        let reg = random.below(16);
        if reg != RSP {
            return DwarfReg::new(reg as u16);
        }
    }
}

fn word(random: &mut Random) -> u64 {
    (0..4).fold(0, |sum, _| sum << 16 | random.below(1 << 16) as u64)
}

/// A sequence that sets the result, or leaves by a guard that fails.
fn asked(random: &mut Random, state: &State, operands: &[(Operand, DwarfReg)], cell: &u64) -> Asked {
    let value = |reg: DwarfReg| state.registers[usize::from(reg.get())];
    let (operand, reg) = operands[random.below(operands.len())];
    let mut sequence = Sequence::new();
    let mut sum = value(reg);
    if random.below(3) == 0 {
        let same = random.below(2) == 0;
        let with = if same { sum } else { !sum };
        sequence = sequence.guard(Cond::Eq, operand, with, Target::Miss);
        if !same {
            return Asked {
                sequence: sequence.mov(result(), 1),
                result: None,
            };
        }
    }
    let by_temp = random.below(2) == 0;
    let number = word(random) >> (8 * random.below(8));
    let dst = || if by_temp { temp() } else { result() };
    sequence = sequence.mov(dst(), operand).add(dst(), number);
    sum = sum.wrapping_add(number);
    if random.below(3) == 0 {
        sequence = sequence.add(dst(), u64::at(std::ptr::from_ref(cell) as u64, 0));
        sum = sum.wrapping_add(*cell);
    }
    if by_temp {
        sequence = sequence.mov(result(), temp());
    }
    Asked {
        sequence,
        result: Some(sum),
    }
}

#[test]
fn nothing_changes_that_was_not_said_to_be_free() {
    let mut random = Random::new(0x7e11_0001);
    let (mut executed, mut refused, mut missed, mut clobbered) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (wanted, cell) = (executions(3_000).min(200_000), 0x1234_5678_9abc_def0_u64);
    while executed < wanted {
        let reserved = [16, 32, 64, 96][random.below(4)];
        let (code, at) = harness(reserved, [0, 8][random.below(2)]);
        let (engine, emitted) = (engine(), Emitted::new(&code));
        let (result_reg, args) = (general(&mut random), [general(&mut random), general(&mut random)]);
        let value = general(&mut random);
        let mut free = RegSet::EMPTY;
        for _ in 0..random.below(6) {
            free = free.with(general(&mut random));
        }
        let mut live = RegSet::EMPTY;
        for _ in 0..random.below(4) {
            live = live.with(general(&mut random));
        }
        live = live.without(result_reg);
        free = free.difference(live).without(value);
        let (flags, stack) = (random.below(4) > 0, random.below(4) == 0);
        let mut spec = SiteSpec::nops("f", at, reserved as u32)
            .id(1_u64)
            .arg(args[0])
            .arg(args[1])
            .value(value)
            .result(result_reg)
            .free(free)
            .live(live);
        if flags {
            spec = spec.free_flags();
        }
        if stack {
            spec = spec.free_stack();
        }
        let module = emitted.register(&engine, [spec.clone()]).unwrap();
        let f = function(&module);
        let operands = [(arg(0), args[0]), (arg(1), args[1]), (self::live(0), value)];
        for _ in 0..8 {
            let mut state = State {
                registers: [(); 16].map(|()| word(&mut random)),
                flags: 0x202 | word(&mut random) & ARITHMETIC,
                red_zone: [(); 16].map(|()| word(&mut random)),
            };
            let before = state.registers;
            let (old_flags, old_zone) = (state.flags, state.red_zone);
            let asked = asked(&mut random, &state, &operands, &cell);
            match engine.patch(1_u64, &asked.sequence) {
                Ok(_) => {}
                Err(Error::Assemble(_) | Error::Check(_)) => {
                    refused += 1;
                    continue;
                }
                Err(other) => panic!("{other}"),
            }
            f(std::ptr::from_mut(&mut state) as u64);
            executed += 1;
            missed += u64::from(asked.result.is_none());
            for reg in (0..16_u16).filter(|reg| usize::from(*reg) != RSP) {
                let (was, is) = (before[usize::from(reg)], state.registers[usize::from(reg)]);
                let reg = DwarfReg::new(reg);
                let expected = match (reg == result_reg, asked.result) {
                    (true, Some(result)) => result,
                    // An exit resumes as if nothing had happened; what it was before may be gone.
                    _ => was,
                };
                let may_change =
                    free.contains(reg) && reg != result_reg && ![args[0], args[1], value].contains(&reg);
                clobbered += u64::from(may_change && is != expected);
                assert!(
                    may_change || is == expected,
                    "register {reg} is {is:#x} instead of {expected:#x}: {spec:?} {:?}",
                    asked.sequence
                );
            }
            assert!(
                flags || state.flags & ARITHMETIC == old_flags & ARITHMETIC,
                "{spec:?} {:?}",
                asked.sequence
            );
            // An exit stub steps over the red zone; a sequence keeps it, or has it.
            assert!(
                stack || state.red_zone == old_zone,
                "{spec:?} {:?}",
                asked.sequence
            );
        }
    }
    println!("{executed} executed, {refused} refused, {missed} missed, {clobbered} free registers changed");
    assert!(refused > 0 && missed * 20 > executed && clobbered * 50 > executed);
    assert_eq!(x86_64::RSP.get() as usize, RSP);
}
