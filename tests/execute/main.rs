//! Random sequences, executed on this processor and by an interpreter: registers and memory must be
//! the same.
//!
//! A [program](program) is made at random together with a site, registers and memory. The
//! interpreter goes first; what it finds undefined (a value that nobody wrote, memory outside of
//! the test's) is not executed. The rest is assembled as a runtime would have it, in place or in a
//! stub, checked, and entered by a trampoline that loads every register; each way out goes to one
//! that stores them all.
//!
//! Compared are the exit, all memory but what lies below the stack pointer, and every register but
//! those that the site clobbers and the sequence does not name. The test runs wherever the host's
//! architecture has an assembler.
#![cfg(all(
    target_os = "linux",
    any(
        target_arch = "aarch64",
        target_arch = "powerpc64",
        target_arch = "riscv64",
        target_arch = "s390x",
        target_arch = "x86_64"
    )
))]
#![allow(unsafe_code, reason = "executes machine code")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the lints know tests by their attribute, and all of this serves only a test"
)]

#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "powerpc64", path = "powerpc64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
#[cfg_attr(target_arch = "s390x", path = "s390x.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
mod host;
mod interpret;
mod machine;
mod program;
#[path = "../../src/fuzzing/registers.rs"]
#[expect(dead_code, reason = "the fuzz body of sequences asks for more of it")]
mod registers;

use llvm_stackmaps::fuzzing::{Random, executions};
use llvm_stackmaps::testing::{map, record};
use patchpoint::addr::{CodeAddr, DwarfReg, FnOffset, RecordId};
use patchpoint::arch::{self, Arch, Convention, RegSet, SiteContext, SiteKind};
use patchpoint::sequence::{Assembled, Environment, Fit, assemble, assemble_out_of_line};
use patchpoint::stackmap::{Endian, StackMaps};
use patchpoint::verify::{self, Chunk};
use patchpoint::{Error, Result};
use patchpoint_asm::backend::Backend;
use patchpoint_asm::backend_of;
use patchpoint_isa::conventions;

use host::HOST;
use interpret::{Exit, Interpreter, Registers};
use machine::{Block, CodeMemory, Data, Trampolines};
use program::{Maker, Outside, POOL, Program, To};

const ARCH: Arch = match Arch::host() {
    Some(host) => host,
    None => Arch::X86_64,
};

/// Whether function pointers of this machine are those of descriptors.
#[cfg(target_arch = "powerpc64")]
const HAS_DESCRIPTORS: bool = ARCH.has_descriptors();

fn backend() -> &'static dyn Backend {
    backend_of(ARCH)
}

/// Programs that are written before any of them runs.
const BATCH: usize = 64;
/// Room for one: the site, its exits, its stub.
const ROOM: u64 = 0x2000;
const EXITS: u64 = 0x1000;
const STUB: u64 = 0x1800;

/// By which exit the code was left, as the trampolines tell it.
const NAMES: [Exit; 5] = [
    Exit::To(To::End),
    Exit::To(To::Miss),
    Exit::To(To::Deopt),
    Exit::To(To::Far),
    Exit::Return,
];

/// A program in memory.
struct Ready {
    program: Program,
    assembled: Assembled,
    code: u64,
    /// Where a return goes.
    back: u64,
    general: [u64; 32],
    float: [u64; 32],
    /// Slots and arguments on the stack.
    stack: Vec<(u64, u64)>,
}

/// How often what happened.
#[derive(Debug, Default)]
struct ProgramCounts {
    undefined: u64,
    refused: u64,
    /// Steps that were left out because the assembler refused them.
    dropped: u64,
    executed: u64,
    out_of_line: u64,
    exits: [u64; NAMES.len()],
    calls: u64,
}

struct Bench {
    random: Random,
    data: Data,
    block: Box<Block>,
    trampolines: Trampolines,
    /// How the callee and the preserver among them are called.
    functions: [u64; 2],
    /// Far from everything.
    far: CodeMemory,
    seen: ProgramCounts,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let data = Data::new(|| random.next());
        let trampolines = host::trampolines();
        let block = Box::new(Block::new());
        let mut far = CodeMemory::new(0x10_0000_0000, 4096);
        far.write(far.addr(), &host::exit(far.addr(), &block, 3, trampolines.leave));
        far.seal();
        Self {
            random,
            data,
            block,
            functions: [trampolines.callee, trampolines.preserver].map(host::function),
            trampolines,
            far,
            seen: ProgramCounts::default(),
        }
    }

    fn outside(&self, at: u64) -> Outside {
        Outside {
            far: self.far.addr(),
            callee: [at + EXITS + 0x180, self.functions[0]],
            preserver: [at + EXITS + 0x200, self.functions[1]],
        }
    }

    /// A program that the assembler takes, in memory at `at`.
    fn ready(&mut self, memory: &mut CodeMemory, at: u64) -> Ready {
        loop {
            let mut maker = Maker::new(&mut self.random, self.data.heap());
            let program = maker.program();
            let general = core::array::from_fn(|_| maker.initial());
            let float = core::array::from_fn(|_| maker.initial());
            let unit = u64::from(backend().unit());
            let code = at + unit * maker.below(16) as u64;
            let mut ready = Ready {
                stack: self.stack(&program),
                program,
                assembled: nothing(),
                code,
                back: at + EXITS + 4 * 0x40,
                general,
                float,
            };
            self.point(&mut ready);
            let Some(assembled) = self.mended(&mut ready, at) else {
                self.seen.refused += 1;
                continue;
            };
            ready.assembled = assembled;
            self.write(memory, &ready, at);
            return ready;
        }
    }

    /// Assembles it without the steps that the assembler refuses: most sites do not have all that a
    /// random step names.
    fn mended(&mut self, ready: &mut Ready, at: u64) -> Option<Assembled> {
        loop {
            let refused = match self.assembled(ready, at) {
                Ok(assembled) => return Some(assembled),
                Err(error) => refused_step(&error)?,
            };
            if refused >= ready.program.steps.len() || ready.program.steps.len() == 1 {
                return None;
            }
            ready.program.steps.remove(refused);
            self.seen.dropped += 1;
        }
    }

    /// What the slots of the record hold, and the arguments on the stack.
    fn stack(&mut self, program: &Program) -> Vec<(u64, u64)> {
        let mut maker = Maker::new(&mut self.random, self.data.heap());
        let first = match program.shape.kind() {
            SiteKind::Entry => HOST.stack_args_at_entry,
            _ => HOST.stack_args,
        };
        let first = self.data.stack_pointer().wrapping_add_signed(first.into());
        let args = (0..10).map(|n| first + 8 * n);
        let slots = program
            .locations
            .iter()
            .filter_map(|l| program::slot(l, &self.data));
        args.chain(slots).map(|at| (at, maker.initial())).collect()
    }

    /// Stack, frame and return address.
    fn point(&self, ready: &mut Ready) {
        ready.general[usize::from(HOST.stack_pointer)] = self.data.stack_pointer();
        ready.general[usize::from(HOST.frame_pointer)] = self.data.frame_pointer();
        if let Some(link) = HOST.link {
            ready.general[usize::from(link)] = ready.back;
        } else if ready.program.shape.kind() == SiteKind::Entry && HOST.return_address > 0 {
            ready.stack.push((self.data.stack_pointer(), ready.back));
        }
    }

    fn assembled(&self, ready: &Ready, at: u64) -> Result<Assembled> {
        let program = &ready.program;
        let mut spec = record(7).at(4);
        for location in &program.locations {
            spec = spec.location(*location);
        }
        for reg in &program.live_outs {
            spec = spec.live_out(*reg, 8);
        }
        let bytes = map().constant(POOL).function(0x40_0000, 64, [spec]).bytes();
        let maps = StackMaps::parse(&bytes, Endian::Little).unwrap();
        let map = &maps.maps()[0];
        let kind = program.shape.kind();
        let site = SiteContext {
            arch: ARCH,
            id: RecordId::new(7),
            function: Some("f"),
            offset: FnOffset::new(4),
            addr: CodeAddr::new(ready.code),
            shape: program.shape,
            record: (kind != SiteKind::Entry).then(|| map.records().next().unwrap()),
            constants: map.constants(),
            return_offsets: &[],
            trust_live_outs: program.trust_live_outs,
        };
        let env = Environment {
            miss: Some(CodeAddr::new(at + EXITS + 0x40)),
            deopt: Some(CodeAddr::new(at + EXITS + 0x80)),
        };
        let sequence = program.sequence(&self.outside(at));
        let assembled = match assemble(&sequence, &site, &env)? {
            Fit::InPlace(assembled) => assembled,
            Fit::OutOfLine { .. } => assemble_out_of_line(&sequence, &site, &env, CodeAddr::new(at + STUB))?,
        };
        let stub = assembled.stub.as_ref().map(|stub| Chunk {
            addr: stub.addr,
            bytes: &stub.bytes,
        });
        // What the checker refuses is not executed: other tests show that it is little.
        verify::check(&site, &assembled.code, stub.as_slice(), &assembled.declared)?;
        Ok(assembled)
    }

    fn write(&self, memory: &mut CodeMemory, ready: &Ready, at: u64) {
        memory.write(ready.code, &ready.assembled.code);
        if let Some(stub) = &ready.assembled.stub {
            assert!(stub.bytes.len() as u64 <= ROOM - STUB);
            memory.write(stub.addr.get(), &stub.bytes);
        }
        let mut exit = |at: u64, id: u64, to: u64| memory.write(at, &host::exit(at, &self.block, id, to));
        let leave = self.trampolines.leave;
        exit(ready.code + ready.assembled.code.len() as u64, 0, leave);
        for id in [1, 2, 4] {
            exit(at + EXITS + id * 0x40, id, leave);
        }
        let outside = self.outside(at);
        let mut near = |at: u64, to: u64| memory.write(at, &host::near(at, &self.block, to));
        near(outside.callee[0], self.trampolines.callee);
        near(outside.preserver[0], self.trampolines.preserver);
    }

    /// Interprets and executes one; whether it was executed.
    fn execute(&mut self, ready: &Ready) -> bool {
        for (at, value) in &ready.stack {
            self.data.set(*at, *value);
        }
        let before = Registers {
            general: ready.general.map(Some),
            float: ready.float.map(Some),
            single: [false; 32],
        };
        let mut interpreter = Interpreter::new(&ready.program, before, &mut self.data);
        let exit = interpreter.run();
        let (mut registers, written, touched) =
            (interpreter.registers, interpreter.written, interpreter.touched);
        let Ok(exit) = exit else {
            self.data.undo();
            self.seen.undefined += 1;
            return false;
        };
        self.block.general = ready.general;
        self.block.float = ready.float;
        self.block.code = ready.code;
        self.block.link = ready.back;
        if std::env::var_os("PATCHPOINT_EXECUTE_TRACE").is_some() {
            std::eprintln!("{}", describe(ready));
        }
        self.block.run(&self.trampolines);
        self.data.keep();
        if exit == Exit::Return {
            let popped = self.data.stack_pointer() + HOST.return_address;
            registers.general[usize::from(HOST.stack_pointer)] = Some(popped);
        }
        self.compare(ready, exit, &registers, &written, &touched);
        self.count(ready, exit);
        true
    }

    fn compare(&self, ready: &Ready, exit: Exit, registers: &Registers, written: &[u16], touched: &[u64]) {
        let left = NAMES[(self.block.exit & 63) as usize];
        assert!(
            left == exit,
            "left by {left:?} instead of {exit:?}: {}",
            describe(ready)
        );
        if let Some(at) = self.data.difference(Some(touched)) {
            panic!("memory differs at {at:#x}: {}", describe(ready));
        }
        let clobbered = clobbered(&ready.program, written);
        for dwarf in (0..128).filter(|dwarf| !clobbered.contains(DwarfReg::new(*dwarf))) {
            let (expected, found) = match host::float(dwarf) {
                Some(index) if registers.single[index] => {
                    // Whatever the rest of it is.
                    let number = |value| host::of_single(value).map_or(value, u64::from);
                    (
                        registers.float[index].map(number),
                        number(self.block.float[index]),
                    )
                }
                Some(index) => (registers.float[index], self.block.float[index]),
                None if dwarf < 32 && !HOST.excluded.contains(&dwarf) => {
                    let index = usize::from(dwarf);
                    (registers.general[index], self.block.general[index])
                }
                None => continue,
            };
            let same = expected.is_none_or(|expected| expected == found) || !is_general(dwarf);
            assert!(
                same,
                "register {dwarf} is {found:#x?} instead of {expected:#x?}: {}",
                describe(ready)
            );
        }
    }

    fn count(&mut self, ready: &Ready, exit: Exit) {
        let seen = &mut self.seen;
        seen.executed += 1;
        seen.out_of_line += u64::from(ready.assembled.stub.is_some());
        if let Some(index) = NAMES.iter().position(|name| *name == exit) {
            seen.exits[index] += 1;
        }
        let is_call = |step: &program::Step| matches!(step, program::Step::Call { .. });
        seen.calls += u64::from(ready.program.steps.iter().any(is_call));
    }

    /// Executes a batch.
    fn batch(&mut self) {
        let mut memory = CodeMemory::new(0, BATCH * ROOM as usize);
        let places = (0..BATCH as u64).map(|n| memory.addr() + n * ROOM);
        let places: Vec<_> = places.collect();
        let ready: Vec<_> = places.iter().map(|at| self.ready(&mut memory, *at)).collect();
        memory.seal();
        for one in &ready {
            self.execute(one);
        }
        assert_eq!(
            self.data.difference(None),
            None,
            "one of a batch wrote to another place"
        );
    }
}

/// The step that an error is about.
fn refused_step(error: &Error) -> Option<usize> {
    use patchpoint_asm::Error;
    let patchpoint::Error::Assemble(error) = error else {
        // What the checker refuses is not executed: other tests show that it is little.
        return None;
    };
    match error {
        Error::NoScratch { op, .. }
        | Error::NoSuchOperand { op, .. }
        | Error::OperandUnusable { op, .. }
        | Error::OperandWidth { op, .. }
        | Error::ImmediateTooWide { op, .. }
        | Error::OverwritesLive { op, .. }
        | Error::ReadsLost { op, .. }
        | Error::ReturnNotAllowed { op, .. }
        | Error::CallNotAllowed { op, .. }
        | Error::LabelUnbound { op, .. }
        | Error::LabelBoundTwice { op, .. } => usize::try_from(*op).ok(),
        _ => None,
    }
}

fn nothing() -> Assembled {
    Assembled {
        code: Vec::new(),
        stub: None,
        declared: patchpoint::arch::Declared::default(),
        clobbers: RegSet::EMPTY,
        return_offsets: Vec::new(),
        used: patchpoint::addr::Len::new(0),
        holes: None,
    }
}

/// Whether it is a register that the trampolines load and store.
fn is_general(dwarf: u16) -> bool {
    dwarf < 32 && usize::from(dwarf) < general_count() || host::float(dwarf).is_some()
}

const fn general_count() -> usize {
    if cfg!(any(target_arch = "x86_64", target_arch = "s390x")) {
        16
    } else {
        32
    }
}

/// Registers that may hold anything afterwards.
fn clobbered(program: &Program, written: &[u16]) -> RegSet {
    let registers = conventions::of(ARCH);
    let shape = program.shape;
    let is_c = shape.convention() == Convention::C;
    let set = |numbers: &mut dyn Iterator<Item = u16>| numbers.map(DwarfReg::new).collect::<RegSet>();
    let has_result = matches!(shape.kind(), SiteKind::Patchpoint | SiteKind::Told);
    let skip = usize::from(!is_c && shape.has_result() && has_result);
    let recorded = program
        .locations
        .iter()
        .skip(skip)
        .filter_map(|location| match location.kind {
            patchpoint::stackmap::LocationKind::Register { reg, .. } => Some(reg),
            _ => None,
        });
    let recorded: RegSet = recorded.collect();
    let mut needed = recorded;
    // That a result is live behind the site says that it is one.
    let of_c = [HOST.int_result, HOST.float_result];
    let is_result = |reg: &u16| is_c && shape.has_result() && of_c.contains(reg);
    let live_outs = program.live_outs.iter().copied();
    needed = needed.union(set(&mut live_outs.filter(|reg| !is_result(reg))));
    if is_c {
        let count = shape.arg_count() as usize;
        needed = needed.union(set(&mut HOST.int_args.iter().copied().take(count)));
        let floats = (0..HOST.float_args.min(count as u16)).map(|n| HOST.first_float_arg + n);
        needed = needed.union(set(&mut { floats }));
    }
    let free = match shape.kind() {
        SiteKind::Entry => registers.free_at_entry,
        SiteKind::Marked | SiteKind::Call => RegSet::EMPTY,
        SiteKind::Told if is_c => registers.lost_in_c_call.union(shape.free_registers()),
        SiteKind::Told => shape.free_registers(),
        SiteKind::Shadow => registers.always_free,
        SiteKind::Patchpoint if is_c => registers.always_free.union(registers.lost_in_c_call),
        SiteKind::Patchpoint => registers.free_at_any_reg,
    };
    let mut clobbered = free.difference(needed);
    let result = match program.locations.first().map(|location| location.kind) {
        Some(patchpoint::stackmap::LocationKind::Register { reg, .. })
            // That it is live behind the site says that the result is. At a told site it holds what it held, if no
            // sequence writes it.
            if skip == 1 && !recorded.contains(reg) && shape.kind() == SiteKind::Patchpoint =>
        {
            Some(reg)
        }
        _ => None,
    };
    clobbered = clobbered.union(result.into_iter().collect());
    clobbered.difference(set(&mut written.iter().copied()))
}

fn describe(ready: &Ready) -> String {
    let listing = |at, code: &[u8]| -> Vec<_> {
        let lines = verify::disassemble(ARCH, CodeAddr::new(at), code);
        lines.into_iter().map(|line| (line.addr, line.text)).collect()
    };
    let stub = ready.assembled.stub.as_ref();
    let stub = stub.map(|stub| listing(stub.addr.get(), &stub.bytes));
    format!(
        "{:#?}\n{:#?}\n{stub:#?}\ngeneral {:#x?}\nstack {:#x?}\nbytes {:02x?}",
        ready.program,
        listing(ready.code, &ready.assembled.code),
        ready.general,
        ready.stack,
        ready.assembled.code,
    )
}

/// As many as `PATCHPOINT_FUZZ_EXECUTIONS` says, from the seed `PATCHPOINT_FUZZ_SEED`.
#[test]
fn random_sequences_do_what_the_interpreter_says() {
    let seed = std::env::var("PATCHPOINT_FUZZ_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let mut bench = Bench::new(seed.unwrap_or(0x5eed_0004));
    let wanted = executions(10_000);
    while bench.seen.executed < wanted {
        bench.batch();
    }
    println!("{ARCH}: {:?}", bench.seen);
    let often = |count: u64| count * 200 > wanted;
    assert!(bench.seen.exits.into_iter().all(often), "{:?}", bench.seen);
    assert!(
        often(bench.seen.out_of_line) && often(bench.seen.calls),
        "{:?}",
        bench.seen
    );
}
