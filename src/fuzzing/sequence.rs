//! Any bytes as a site, its record and a sequence for it: what is assembled, the checker accepts.

#![allow(
    unsafe_code,
    reason = "addresses and bytes that nobody can check are promises"
)]

use core::ops::{Deref, DerefMut};
use std::string::ToString;
use std::vec::Vec;

use super::Choices;
use super::registers::ForValues;
use crate::Error;
use crate::addr::{CodeAddr, DwarfReg, FnOffset, RecordId};
use crate::arch::{Arch, CallShape, Cond, Label, OnReturn, SiteContext, SiteKind, conventions};
use crate::sequence::{
    self, Environment, Field, Fit, Mem, Operand, Sequence, Source, Target, arg, assemble,
    assemble_out_of_line, float_arg, float_result, live, location, reg, result, temp,
};
use crate::stackmap::testing::{RecordSpec, constant, constant_index, direct, indirect, map, record};
use crate::stackmap::{Endian, Location, StackMaps};
use crate::verify::{self, Chunk};
use patchpoint_asm::backend_of;

/// Assembles a sequence for a site, all of which the bytes describe, on the architecture that the
/// first byte chooses, in place or in a stub, and checks it.
///
/// # Panics
/// When the checker refuses what the assembler made of operations, but for a value that is lost on a path; or when
/// what a refusal says is empty; or when a sequence as text is not read as what it was.
pub fn sequence(data: &[u8]) {
    if let Some((first, rest)) = data.split_first() {
        assembles(arch_of(*first), rest);
    }
}

/// All architectures. New ones at the end: see [`arch_of`].
const ARCHS: [Arch; 7] = [
    Arch::X86_64,
    Arch::AArch64,
    Arch::PowerPc64,
    Arch::PowerPc64Le,
    Arch::SystemZ,
    Arch::RiscV64,
    Arch::PowerPc64ElfV2,
];

/// How many architectures there were when the first inputs were made.
const FIRST: u8 = 6;
/// From this byte on, the others are chosen: what an older input says by a lower one stays.
const LATER: u8 = 0xf0;

/// The architecture that a byte of an input chooses.
fn arch_of(choice: u8) -> Arch {
    let index = match choice.checked_sub(LATER) {
        None => choice % FIRST,
        Some(choice) => FIRST + choice % (ARCHS.len() as u8 - FIRST),
    };
    ARCHS.get(usize::from(index)).copied().unwrap_or(Arch::X86_64)
}

/// Choices for one architecture.
struct Chooser<'a> {
    choices: Choices<'a>,
    values: ForValues,
}

impl<'a> Deref for Chooser<'a> {
    type Target = Choices<'a>;

    fn deref(&self) -> &Choices<'a> {
        &self.choices
    }
}

impl DerefMut for Chooser<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.choices
    }
}

/// What assembler and checker say, if there is a site.
fn assembles(arch: Arch, data: &[u8]) -> Option<Result<(), Error>> {
    let choices = &mut Chooser {
        choices: Choices::new(data),
        values: ForValues::of(arch),
    };
    let unit = backend_of(arch).unit();
    let shape = shape(choices, unit);
    let spec = record_spec(choices, shape);
    let bytes = map().constant(1 << 40).function(0x40_0000, 64, [spec]).bytes();
    let maps = StackMaps::parse(&bytes, Endian::Little).ok()?;
    let map = maps.maps().first()?;
    let record = map.records().next()?;
    let return_offsets = return_offsets(choices, shape, unit);
    let site = SiteContext {
        arch,
        id: RecordId::new(7),
        function: Some("f"),
        offset: FnOffset::new(4),
        addr: CodeAddr::new(0x7000_0000_0000 + u64::from(choices.byte()) * u64::from(unit)),
        shape,
        record: (shape.kind() != SiteKind::Entry).then_some(record),
        constants: map.constants(),
        return_offsets: &return_offsets,
        trust_live_outs: choices.flag(),
    };
    let exit_stub = |at| Some(CodeAddr::new(site.addr.get() + at));
    let environment = Environment {
        miss: choices.flag().then(|| exit_stub(0x2000)).flatten(),
        deopt: choices.flag().then(|| exit_stub(0x3000)).flatten(),
    };
    let fits = |sequence: &Sequence| assemble(sequence, &site, &environment).map(drop);
    let (sequence, raw) = operations(choices, &fits);
    assert_eq!(
        // SAFETY: nothing is executed here.
        unsafe { Sequence::from_text(&sequence.to_string()) }.as_ref(),
        Ok(&sequence),
        "as text"
    );
    let assembled = match assemble(&sequence, &site, &environment) {
        Ok(Fit::InPlace(assembled)) => Ok(assembled),
        Ok(Fit::OutOfLine { stub_len }) => {
            let stub = CodeAddr::new(site.addr.get() + 0x4000);
            let made = assemble_out_of_line(&sequence, &site, &environment, stub);
            let len = made
                .as_ref()
                .ok()
                .and_then(|a| a.stub.as_ref())
                .map_or(0, |s| s.bytes.len());
            assert!(len <= stub_len.as_usize(), "{len} bytes in a stub of {stub_len}");
            made
        }
        Err(error) => Err(error),
    };
    Some(match assembled {
        Ok(assembled) => accepted(&site, &sequence, raw, &assembled).map_err(Error::from),
        Err(error) => {
            assert!(!std::string::ToString::to_string(&error).is_empty());
            Err(error.into())
        }
    })
}

/// What the checker says.
fn accepted(
    site: &SiteContext<'_>,
    sequence: &Sequence,
    raw: bool,
    assembled: &sequence::Assembled,
) -> Result<(), verify::Error> {
    let chunk = assembled.stub.as_ref().map(|stub| Chunk {
        addr: stub.addr,
        bytes: &stub.bytes,
    });
    match verify::check(site, &assembled.code, chunk.as_slice(), &assembled.declared) {
        Ok(checked) => {
            // A call that is never reached has no return offset.
            let known = |return_offset| assembled.return_offsets.contains(return_offset);
            assert!(
                raw || checked.return_offsets.iter().all(known),
                "{:?}, {:?}: {sequence:?} at {site:?}",
                checked.return_offsets,
                assembled.return_offsets
            );
            Ok(())
        }
        // What is lost on which path only the checker follows.
        Err(error) if raw || matches!(error, verify::Error::Lost { .. }) => Err(error),
        // Where the sequence stores below the stack pointer, that is what it asked for.
        Err(error @ verify::Error::RedZone { .. })
            if sequence.stores_through(conventions::of(site.arch).stack_pointer) =>
        {
            Err(error)
        }
        Err(error) => refused(site, sequence, assembled, &error),
    }
}

#[expect(clippy::panic, reason = "that is what the body is for")]
fn refused(
    site: &SiteContext<'_>,
    sequence: &Sequence,
    assembled: &sequence::Assembled,
    error: &verify::Error,
) -> ! {
    let listing = verify::disassemble(site.arch, site.addr, &assembled.code);
    panic!("{error}\n{sequence:#?}\n{site:#?}\n{assembled:#x?}\n{listing:#?}");
}

fn shape(choices: &mut Chooser<'_>, unit: u32) -> CallShape {
    let reserved = (u32::from(choices.below(64)) + 1) * unit;
    let shape = match choices.below(11) {
        0 => CallShape::entry(reserved),
        1 | 2 => CallShape::shadow(reserved),
        3 | 4 => CallShape::c(reserved),
        8..=10 => told(choices, reserved),
        _ => CallShape::any_reg(reserved),
    };
    if shape.kind() == SiteKind::Shadow {
        return shape;
    }
    let shape = shape.args(u32::from(choices.below(8)));
    if choices.flag() { shape.result() } else { shape }
}

/// A told site with some registers free. Of flags that are not free the assembler knows nothing: the
/// checker refuses whatever changes them.
fn told(choices: &mut Chooser<'_>, reserved: u32) -> CallShape {
    let convention = match choices.below(4) {
        0 => crate::arch::Convention::C,
        _ => crate::arch::Convention::AnyReg,
    };
    let free = (0..choices.below(8)).map(|_| DwarfReg::new(register(choices)));
    let shape = CallShape::told(convention, reserved)
        .free(free.collect())
        .free_flags();
    if choices.flag() { shape.free_stack() } else { shape }
}

/// Whether the record of a site tells of operands and of what is live.
fn has_operands(shape: CallShape) -> bool {
    matches!(shape.kind(), SiteKind::Patchpoint | SiteKind::Told)
}

/// A register that values are in: general, sometimes a vector register.
fn register(choices: &mut Chooser<'_>) -> u16 {
    let (general, first_vector) = (choices.values.general, *choices.values.vectors.start());
    match choices.below(5) {
        0 => first_vector + u16::from(choices.below(16)),
        _ => choices.pick(general, 0),
    }
}

fn value(choices: &mut Chooser<'_>) -> Location {
    let frame = choices.values.frame;
    let (base, offset) = (choices.pick(&frame, 0), offset(choices));
    let size = choices.pick(&[8, 8, 8, 4, 2, 1, 16], 8);
    match choices.below(8) {
        0 => direct(base, offset),
        1 | 2 => indirect(base, offset, size),
        3 => constant(offset),
        4 => constant_index(0),
        _ => crate::stackmap::testing::reg(register(choices), size),
    }
}

/// The distance of a slot from its base: near, around what an instruction can hold, sometimes
/// anything.
fn offset(choices: &mut Chooser<'_>) -> i32 {
    let near = i32::from(choices.byte() as i8);
    match choices.below(8) {
        0 => choices.word() as i32,
        1 => choices.pick(&[1 << 8, 1 << 9, 1 << 11, 1 << 12, 1 << 15, 1 << 19], 0) + near,
        2 => near - choices.pick(&[1 << 8, 1 << 9, 1 << 11, 1 << 12, 1 << 15, 1 << 19], 0),
        _ => near * 8,
    }
}

/// A record as registration lets pass: a location for result and arguments each, the result in a
/// register.
fn record_spec(choices: &mut Chooser<'_>, shape: CallShape) -> RecordSpec {
    let any_reg = has_operands(shape) && shape.convention() == crate::arch::Convention::AnyReg;
    let mut spec = record(7).at(4);
    if any_reg && shape.has_result() {
        spec = spec.location(crate::stackmap::testing::reg(register(choices), 8));
    }
    let args = if any_reg { shape.arg_count() } else { 0 };
    for _ in 0..args + u32::from(choices.below(5)) {
        spec = spec.location(value(choices));
    }
    if has_operands(shape) {
        for _ in 0..choices.below(4) {
            spec = spec.live_out(register(choices), 8);
        }
    }
    spec
}

fn return_offsets(choices: &mut Chooser<'_>, shape: CallShape, unit: u32) -> Vec<u32> {
    if !has_operands(shape) || choices.flag() {
        return Vec::new();
    }
    let return_offset = u32::from(choices.byte()) * unit % shape.reserved().get().max(1);
    if return_offset == 0 {
        Vec::new()
    } else {
        [return_offset].into()
    }
}

fn operand(choices: &mut Chooser<'_>) -> Operand {
    let n = u32::from(choices.below(6));
    match choices.below(10) {
        0 | 1 => arg(n),
        2 | 3 => live(n),
        4 => location(n),
        5 => choices.pick(&[float_arg(n), temp()], temp()),
        6 => float_result(),
        7 => reg(DwarfReg::new(
            u16::from(choices.byte()) % choices.values.last.max(1),
        )),
        8 => Operand::Imm(immediate(choices)),
        _ => result(),
    }
}

fn immediate(choices: &mut Chooser<'_>) -> u64 {
    match choices.below(4) {
        0 => u64::from(choices.byte()),
        1 => i64::from(choices.byte() as i8) as u64,
        2 => u64::from(choices.word() as u32),
        _ => choices.word(),
    }
}

fn memory(choices: &mut Chooser<'_>) -> Mem {
    let (base, disp) = (operand(choices), offset(choices));
    match choices.below(7) {
        0 => u8::at(base, disp),
        1 => u16::at(base, disp),
        2 => u32::at(base, disp),
        3 => i8::at(base, disp),
        4 => i16::at(base, disp),
        5 => i32::at(base, disp),
        _ => u64::at(base, disp),
    }
}

fn source(choices: &mut Chooser<'_>) -> Source {
    match choices.below(6) {
        0 => u32::of(operand(choices)).into(),
        1 => i8::of(operand(choices)).into(),
        2 => memory(choices).into(),
        _ => operand(choices).into(),
    }
}

fn target(choices: &mut Chooser<'_>) -> Target {
    let far = CodeAddr::new(0x1234_5678_9000);
    let at = choices.pick(
        &[
            0x7000_0000_7ffc,
            0x7000_0001_0002,
            0x7000_0010_0000,
            0x7000_0200_0000,
        ],
        0,
    );
    let near = CodeAddr::new(at);
    let label = Target::Label(Label::new(u32::from(choices.below(2))));
    choices.pick(
        &[
            Target::Miss,
            Target::Deopt,
            Target::End,
            outside(far),
            outside(near),
            label,
        ],
        Target::End,
    )
}

fn outside(addr: CodeAddr) -> Target {
    // SAFETY: nothing is executed here.
    unsafe { Target::addr(addr) }
}

const CONDITIONS: [Cond; 10] = [
    Cond::Eq,
    Cond::Ne,
    Cond::Below,
    Cond::BelowOrEqual,
    Cond::Above,
    Cond::AboveOrEqual,
    Cond::Less,
    Cond::LessOrEqual,
    Cond::Greater,
    Cond::GreaterOrEqual,
];

fn bits(sequence: Sequence, choices: &mut Chooser<'_>) -> Sequence {
    let (dst, by) = (operand(choices), choices.byte() % 66);
    match choices.below(4) {
        0 => sequence.and(dst, immediate(choices)),
        1 => sequence.shift_left(dst, by),
        2 => sequence.shift_right(dst, by),
        _ => sequence.shift_right_signed(dst, by),
    }
}

/// Up to eight operations and some that are at their end, and whether raw bytes are among them,
/// which may be anything. What cannot be assembled is mostly left away again: most sequences are to
/// be valid.
fn operations(
    choices: &mut Chooser<'_>,
    fits: &dyn Fn(&Sequence) -> Result<(), sequence::Error>,
) -> (Sequence, bool) {
    let mut sequence = Sequence::new();
    if choices.below(8) == 7 {
        sequence = sequence.in_place_only();
    }
    let mut raw = false;
    let keeps_all = choices.below(8) == 7;
    let (mut left, wanted) = (24, choices.below(9));
    let mut count = 0;
    while count < wanted && left > 0 && !choices.is_empty() {
        left -= 1;
        let (longer, is_raw) = operation(choices, sequence.clone());
        let open = matches!(
            fits(&longer),
            Ok(()) | Err(sequence::Error::LabelUnbound { .. } | sequence::Error::ShadowFallsThrough { .. })
        );
        // Raw bytes are seldom what the checker accepts.
        let chosen = open && (!is_raw || choices.below(4) == 3);
        if chosen || keeps_all {
            sequence = longer;
            raw |= is_raw;
            count += 1;
        }
    }
    if !keeps_all {
        sequence = finished(choices, sequence, fits);
    }
    (sequence, raw)
}

/// The sequence with the labels bound that it uses, and with a way out of a shadow.
fn finished(
    choices: &mut Chooser<'_>,
    mut sequence: Sequence,
    fits: &dyn Fn(&Sequence) -> Result<(), sequence::Error>,
) -> Sequence {
    for label in [0, 1].map(Label::new) {
        let uses = sequence.uses(Target::Label(label));
        if uses && matches!(fits(&sequence), Err(sequence::Error::LabelUnbound { .. })) {
            let bound = sequence.clone().bind(label);
            if !matches!(fits(&bound), Err(sequence::Error::LabelBoundTwice { .. })) {
                sequence = bound;
            }
        }
    }
    let beyond = outside(CodeAddr::new(0x7000_0010_0000));
    for to in [target(choices), target(choices), beyond] {
        if !matches!(fits(&sequence), Err(sequence::Error::ShadowFallsThrough { .. })) {
            break;
        }
        let left = sequence.clone().jump(to);
        if fits(&left).is_ok() {
            sequence = left;
        }
    }
    sequence
}

/// The sequence with one more operation, and whether that is raw bytes.
fn operation(choices: &mut Chooser<'_>, sequence: Sequence) -> (Sequence, bool) {
    let mut raw = false;
    let sequence = match choices.below(13) {
        0 | 1 => {
            let cond = choices.pick(&CONDITIONS, Cond::Eq);
            sequence.guard(cond, source(choices), source(choices), target(choices))
        }
        2..=4 => sequence.mov(operand(choices), source(choices)),
        5 => sequence.add(operand(choices), source(choices)),
        6 => sequence.store(memory(choices), source(choices)),
        7 => sequence.add_to_memory(memory(choices), source(choices)),
        8 => sequence.atomic_add(memory(choices), source(choices)),
        9 => sequence.jump(target(choices)),
        10 => {
            let returns = [OnReturn::FollowsC, OnReturn::PreservesAll, OnReturn::Never];
            let at = choices.pick(&[0x7000_0020_0000, 0x4321_0000_0000], 0);
            let (callee, on_return) = (CodeAddr::new(at), choices.pick(&returns, OnReturn::FollowsC));
            // SAFETY: nothing is executed here.
            unsafe { sequence.call(callee, on_return) }
        }
        11 => match choices.below(4) {
            3 => bits(sequence, choices),
            0 => sequence.ret(),
            1 => sequence.trap(),
            _ => {
                raw = true;
                sequence.raw(&choices.word().to_le_bytes())
            }
        },
        _ => sequence.bind(Label::new(u32::from(choices.below(2)))),
    };
    (sequence, raw)
}

#[cfg(test)]
mod tests {
    use core::cell::RefCell;
    use std::collections::BTreeMap;
    use std::string::String;

    use super::*;

    fn corpus() -> Vec<Vec<u8>> {
        crate::fuzzing::corpus("sequence")
    }

    #[test]
    fn each_architecture_is_chosen_and_older_inputs_keep_theirs() {
        for (choice, arch) in (0..LATER).zip(ARCHS[..6].iter().cycle()) {
            assert_eq!(arch_of(choice), *arch);
        }
        assert!(
            ARCHS
                .iter()
                .all(|arch| (0..=u8::MAX).any(|choice| arch_of(choice) == *arch))
        );
    }

    /// `Ok`, or the name of the refusal.
    fn name(made: &Result<(), Error>) -> String {
        let whole = match made {
            Ok(()) => "Ok".into(),
            Err(error) => std::format!("{error:?}"),
        };
        whole.split(' ').next().unwrap_or("").into()
    }

    /// A million each, in release: `PATCHPOINT_FUZZ_EXECUTIONS=1000000 cargo test --release --lib
    /// fuzzing`.
    fn the_checker_accepts_what_is_assembled(arch: Arch) {
        let executions = crate::fuzzing::executions(40_000);
        let tally = RefCell::new(BTreeMap::<String, u64>::new());
        let body = |data: &[u8]| {
            let outcome = assembles(arch, data).map_or_else(|| "no site".into(), |made| name(&made));
            *tally.borrow_mut().entry(outcome).or_default() += 1;
        };
        crate::fuzzing::mutate_and_run(&corpus(), body, executions, 0x5e9);
        let tally = tally.into_inner();
        std::println!("{arch}: of {executions}: {tally:?}");
        let assembled = tally.get("Ok").copied().unwrap_or(0);
        assert!(assembled * 2 > executions);
    }

    macro_rules! architectures {
        ($($name:ident: $arch:ident,)*) => {
            $(
                #[test]
                fn $name() {
                    the_checker_accepts_what_is_assembled(Arch::$arch);
                }
            )*
        };
    }

    architectures! {
        x86_64: X86_64,
        aarch64: AArch64,
        powerpc64: PowerPc64,
        powerpc64le: PowerPc64Le,
        s390x: SystemZ,
        riscv64: RiscV64,
        powerpc64_elfv2: PowerPc64ElfV2,
    }
}
