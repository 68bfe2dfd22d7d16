//! x86-64: iced-x86's decoder and instruction tables, turned into [`Facts`].
//!
//! Instructions are accepted by instruction set: of the sets listed in [`is_plain`] it is known
//! that they change registers, arithmetic flags and memory only. The few others in those sets are
//! refused one by one.
//!
//! Registers and conventions: System V ABI, AMD64 supplement, sections 3.2.1 to 3.2.3, DWARF
//! numbers figure 3.36.

mod branches;

use alloc::string::String;
use core::cell::Cell;

pub(crate) use branches::branches;
use iced_x86::{
    Code, CpuidFeature, Decoder, DecoderError, DecoderOptions, FlowControl, Formatter, Instruction,
    InstructionInfo, InstructionInfoFactory, IntelFormatter, Mnemonic, OpAccess, OpKind, Register,
    RflagsBits, UsedMemory,
};
use llvm_stackmaps::addr::DwarfReg;
use patchpoint_isa::RegSet;
use smallvec::SmallVec;

use super::chunk::Chunk;
use super::facts::{
    Abi, Constant, DecodedCode, Dest, Exchange, ExchangePlace, Facts, Flow, Isa, StackPointer, StackStore,
    Undecodable, any_instruction,
};
use super::field::OpenField;

/// Whether only the distance of a call or jump changes.
fn retargets(exchange: &Exchange<'_>) -> bool {
    let to = |flow| match flow {
        Flow::Call(Dest::Address(_)) => Some(0),
        Flow::Branch(Dest::Address(_)) => Some(1),
        Flow::Jump(Dest::Address(_)) => Some(2),
        _ => None,
    };
    let (before, after) = (to(exchange.before.flow), to(exchange.after.flow));
    let operand = exchange.before.end().saturating_sub(4);
    exchange.before.len >= 5 && before.is_some() && before == after && *exchange.differing.start() >= operand
}

/// Two nops or direct jumps of 5 bytes, inside one naturally aligned quadword (AMD64 APM volume 2,
/// 7.6.1); or the distance of a call or jump, all of which is inside one.
fn exchange(exchange: &Exchange<'_>) -> Result<(), &'static str> {
    if retargets(exchange) {
        let end = exchange.before.end();
        // protection: checker-call-distances-lie-in-one-word
        return match (end - 4) / 8 == (end - 1) / 8 {
            true => Ok(()),
            false => Err("the changed distance crosses an 8-byte boundary"),
        };
    }
    let may = |facts: &Facts| facts.nop || matches!(facts.flow, Flow::Jump(Dest::Address(_)));
    let before = exchange.before;
    if before.len != 5 || !may(before) || !may(exchange.after) {
        return Err("an instruction changes that is no 5-byte nop or jump");
    }
    // protection: checker-patchable-jump-crosses-no-boundary
    if before.addr / 8 != (before.end() - 1) / 8 {
        return Err("the changed instruction crosses an 8-byte boundary");
    }
    Ok(())
}

pub(crate) static ISA: Isa = Isa {
    decode,
    text,
    patchpoint_call: |_, bytes| patchpoint_call(bytes),
    // int3 (Intel SDM volume 2).
    trap: &[0xcc],
    trap_replaces: any_instruction,
    return_offsets_restore: false,
    exchange,
    exchange_place: ExchangePlace::multiples_of(1),
    register: |reg| {
        NAMES
            .iter()
            .find(|(number, _)| *number == reg.get())
            .map(|(_, name)| *name)
    },
    distance: |len| match len {
        5 => Some(&[0, 255, 255, 255, 255]),
        6 => Some(&[0, 0, 255, 255, 255, 255]),
        _ => None,
    },
    pair: |_, _, _| None,
    leaving: |_, _| None,
    scalable: |_| None,
    fields,
    abi: Abi {
        known: KNOWN,
        parts: 0..0,
        scratch: RegSet::of(&[reg(11)]),
        scratch_at_any_reg: RegSet::of(&[reg(11)]),
        scratch_at_entry: RegSet::of(&[reg(11)]),
        lost_in_any_call: RegSet::of(&[reg(11)]),
        callee_saved: RegSet::of(&[reg(3), reg(6), reg(12), reg(13), reg(14), reg(15)]),
        frame: RegSet::of(&[reg(RSP), reg(6)]),
        result: RegSet::of(&[reg(0), reg(17)]),
        returned: RegSet::of(&[reg(0), reg(1), reg(17), reg(18)]),
        red_zone: 128,
        return_address: 8,
        stack_align: 16,
        unnumbered_live_outs: false,
    },
};

/// The stack pointer's DWARF number.
const RSP: u16 = 7;

const fn reg(number: u16) -> DwarfReg {
    DwarfReg::new(number)
}

macro_rules! registers {
    ($($number:literal $name:literal $iced:ident),* $(,)?) => {
        /// The names of the registers that hold values, by DWARF number.
        const NAMES: &[(u16, &str)] = &[$(($number, $name)),*];

        /// The registers that a location can name.
        const KNOWN: RegSet = RegSet::of(&[$(reg($number)),*]);

        /// The DWARF number of a full register: general 64-bit, vector 512-bit, or mask.
        const fn number(register: Register) -> Option<u16> {
            match register {
                $(Register::$iced => Some($number),)*
                _ => None,
            }
        }
    };
}

registers! {
    0 "rax" RAX, 1 "rdx" RDX, 2 "rcx" RCX, 3 "rbx" RBX, 4 "rsi" RSI, 5 "rdi" RDI, 6 "rbp" RBP, 7 "rsp" RSP,
    8 "r8" R8, 9 "r9" R9, 10 "r10" R10, 11 "r11" R11, 12 "r12" R12, 13 "r13" R13, 14 "r14" R14, 15 "r15" R15,
    17 "xmm0" ZMM0, 18 "xmm1" ZMM1, 19 "xmm2" ZMM2, 20 "xmm3" ZMM3, 21 "xmm4" ZMM4, 22 "xmm5" ZMM5,
    23 "xmm6" ZMM6, 24 "xmm7" ZMM7, 25 "xmm8" ZMM8, 26 "xmm9" ZMM9, 27 "xmm10" ZMM10, 28 "xmm11" ZMM11,
    29 "xmm12" ZMM12, 30 "xmm13" ZMM13, 31 "xmm14" ZMM14, 32 "xmm15" ZMM15,
    67 "xmm16" ZMM16, 68 "xmm17" ZMM17, 69 "xmm18" ZMM18, 70 "xmm19" ZMM19, 71 "xmm20" ZMM20, 72 "xmm21" ZMM21,
    73 "xmm22" ZMM22, 74 "xmm23" ZMM23, 75 "xmm24" ZMM24, 76 "xmm25" ZMM25, 77 "xmm26" ZMM26, 78 "xmm27" ZMM27,
    79 "xmm28" ZMM28, 80 "xmm29" ZMM29, 81 "xmm30" ZMM30, 82 "xmm31" ZMM31,
    118 "k0" K0, 119 "k1" K1, 120 "k2" K2, 121 "k3" K3, 122 "k4" K4, 123 "k5" K5, 124 "k6" K6, 125 "k7" K7,
}

thread_local! {
    /// What tells which registers an instruction uses, for the next code that this thread decodes. Made
    /// each time, it takes 300 instructions of a patch's 19,500. A thread that ends has none any more, and
    /// one in a signal handler finds that of the code around it taken: they make their own.
    static INFOS: Cell<Option<InstructionInfoFactory>> = const { Cell::new(None) };
}

fn decode(addr: u64, bytes: &[u8], code: &mut DecodedCode) -> Result<(), Undecodable> {
    let mut decoder = Decoder::with_ip(64, bytes, addr, DecoderOptions::NONE);
    let mut infos = INFOS.try_with(Cell::take).ok().flatten();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return Err(Undecodable {
                addr: instruction.ip(),
                cut_off: decoder.last_error() == DecoderError::NoMoreBytes,
            });
        }
        match instruction.mnemonic() {
            Mnemonic::Nop => code.push(nop(&instruction)),
            _ => code.push(facts(
                &instruction,
                Used::of(&instruction, &mut infos),
                ambiguous(bytes, addr, &instruction),
            )),
        }
    }
    // Where there is no place for it, it is made anew.
    let _ = INFOS.try_with(|place| place.set(infos));
    Ok(())
}

/// The fields of code that may vary in a [template](super::template), in their order; `None` for
/// code that can have none.
fn fields(code: Chunk<'_>, is_target: &dyn Fn(u64) -> bool) -> Option<SmallVec<[OpenField; 4]>> {
    let start = code.addr.get();
    let mut facts = DecodedCode::new();
    decode(start, code.bytes, &mut facts).ok()?;
    let mut decoder = Decoder::with_ip(64, code.bytes, start, DecoderOptions::NONE);
    let mut fields = SmallVec::new();
    for facts in facts {
        let instruction = decoder.decode();
        if instruction.is_ip_rel_memory_operand() {
            return None;
        }
        let at = usize::try_from(facts.addr.wrapping_sub(start)).ok()?;
        let offsets = decoder.get_constant_offsets(&instruction);
        let (offset, len) = (offsets.immediate_offset(), offsets.immediate_size());
        let immediate = OpenField::whole(at + offset, len);
        match facts.flow {
            Flow::Next => {}
            Flow::Return { .. } | Flow::Trap => continue,
            Flow::Jump(Dest::Address(to))
            | Flow::Branch(Dest::Address(to))
            | Flow::Call(Dest::Address(to)) => {
                match (is_target(to), len) {
                    (true, 4) => fields.push(OpenField {
                        counts_from: Some(at + usize::from(facts.len)),
                        ..immediate
                    }),
                    (true, _) => return None,
                    (false, _) => {}
                }
                continue;
            }
            Flow::Jump(_) | Flow::Branch(_) | Flow::Call(_) => return None,
        }
        if facts.is_closed() || uses_stack_pointer(&instruction) {
            continue;
        }
        if offsets.has_displacement() && matches!(offsets.displacement_size(), 1 | 4) {
            let (offset, len) = (offsets.displacement_offset(), offsets.displacement_size());
            fields.push(OpenField::whole(at + offset, len));
        }
        if offsets.has_immediate() && is_open_to_any_immediate(&instruction) {
            fields.push(immediate);
        }
    }
    Some(fields)
}

/// Whether the stack pointer is among an instruction's operands.
fn uses_stack_pointer(instruction: &Instruction) -> bool {
    let operands = (0..instruction.op_count()).map(|number| instruction.op_register(number));
    let mut registers = operands.chain([instruction.memory_base(), instruction.memory_index()]);
    registers.any(|register| full(register) == Register::RSP)
}

/// Whether the registers and flags that an instruction changes do not depend on its immediate.
fn is_open_to_any_immediate(instruction: &Instruction) -> bool {
    use Mnemonic::{Add, And, Cmp, Mov, Or, Sub, Test, Xor};
    matches!(
        instruction.mnemonic(),
        Mov | Cmp | Add | Sub | And | Or | Xor | Test
    )
}

/// Whether a branch has an operand size prefix: Intel's processors ignore it, AMD's cut the address
/// to 16 bits and take a shorter displacement.
fn ambiguous(bytes: &[u8], start: u64, instruction: &Instruction) -> bool {
    if instruction.flow_control() == FlowControl::Next {
        return false;
    }
    let at = usize::try_from(instruction.ip().wrapping_sub(start)).ok();
    let own = at.and_then(|at| bytes.get(at..));
    let own = own.expect("the instruction was decoded from these bytes");
    let prefixes = own.iter().take_while(
        |b| matches!(b, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3),
    );
    prefixes.into_iter().any(|b| *b == 0x66)
}

fn text(addr: u64, bytes: &[u8], out: &mut String) -> Option<usize> {
    let instruction = Decoder::with_ip(64, bytes, addr, DecoderOptions::NONE).decode();
    if instruction.is_invalid() {
        return None;
    }
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_branch_leading_zeros(false);
    options.set_space_after_operand_separator(true);
    formatter.format(&instruction, out);
    Some(instruction.len())
}

/// `movabs r11, target; call r11`, as LLVM's X86AsmPrinter lowers PATCHPOINT.
fn patchpoint_call(bytes: &[u8]) -> Option<(u64, u32)> {
    let (movabs, rest) = bytes.split_first_chunk::<2>()?;
    let (target, rest) = rest.split_first_chunk::<8>()?;
    let (call, _) = rest.split_first_chunk::<3>()?;
    let found = *movabs == [0x49, 0xbb] && *call == [0x41, 0xff, 0xd3];
    found.then_some((u64::from_le_bytes(*target), 13))
}

fn nop(instruction: &Instruction) -> Facts {
    Facts {
        addr: instruction.ip(),
        len: instruction.len() as u8,
        nop: true,
        returns_at: None,
        unit: None,
        flow: Flow::Next,
        writes: RegSet::EMPTY,
        flags: false,
        stack: StackPointer::Keep,
        store: StackStore::None,
        constant: None,
        refused: None,
    }
}

fn facts(instruction: &Instruction, Used { written, store }: Used, ambiguous: bool) -> Facts {
    let flow = flow(instruction);
    Facts {
        nop: false,
        flow,
        writes: written.values,
        flags: instruction.rflags_modified() != 0,
        stack: match flow {
            Flow::Call(_) | Flow::Return { .. } => StackPointer::Keep,
            _ if written.stack_pointer => stack_pointer(instruction),
            _ => StackPointer::Keep,
        },
        store,
        constant: constant(instruction),
        refused: refused(instruction, &written, ambiguous),
        ..nop(instruction)
    }
}

fn is_write(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

/// The full register that a register is part of.
fn full(register: Register) -> Register {
    register.full_register()
}

/// What an instruction uses.
struct Used {
    written: Written,
    store: StackStore,
}

impl Used {
    fn of(instruction: &Instruction, infos: &mut Option<InstructionInfoFactory>) -> Self {
        // They use none. A third of an inline cache are such, and to ask takes 200 instructions each.
        if instruction.is_jcc_short_or_near() || instruction.is_jmp_short_or_near() {
            return Self {
                written: Written::NOTHING,
                store: StackStore::None,
            };
        }
        let info = infos
            .get_or_insert_with(InstructionInfoFactory::new)
            .info(instruction);
        Self {
            written: Written::of(info),
            store: info.used_memory().iter().fold(StackStore::None, store),
        }
    }
}

/// The registers that an instruction writes.
struct Written {
    /// Those that hold values.
    values: RegSet,
    stack_pointer: bool,
    /// Whether there is another one, or an x87 or MMX register is used at all: reading one changes
    /// modes too.
    other: bool,
}

impl Written {
    const NOTHING: Self = Self {
        values: RegSet::EMPTY,
        stack_pointer: false,
        other: false,
    };

    fn of(info: &InstructionInfo) -> Self {
        let mut written = Self::NOTHING;
        for used in info.used_registers() {
            let register = used.register();
            match number(full(register)) {
                _ if register.is_mm() || register.is_st() => written.other = true,
                _ if !is_write(used.access()) => {}
                Some(RSP) => written.stack_pointer = true,
                Some(number) => written.values = written.values.with(reg(number)),
                None => written.other = true,
            }
        }
        written
    }
}

fn flow(instruction: &Instruction) -> Flow {
    let dest = || match instruction.op0_kind() {
        OpKind::NearBranch64 => Dest::Address(instruction.near_branch64()),
        OpKind::Register => {
            number(instruction.op0_register()).map_or(Dest::Unknown, |r| Dest::Register(reg(r)))
        }
        _ => Dest::Unknown,
    };
    match instruction.flow_control() {
        FlowControl::Next => Flow::Next,
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => Flow::Jump(dest()),
        FlowControl::ConditionalBranch => Flow::Branch(dest()),
        FlowControl::Call | FlowControl::IndirectCall => Flow::Call(dest()),
        FlowControl::Return => Flow::Return {
            plain: instruction.code() == Code::Retnq,
        },
        // A debugger may let the thread go on behind int3: only ud2 and its kin end a path.
        FlowControl::Interrupt => Flow::Next,
        FlowControl::Exception => Flow::Trap,
        FlowControl::XbeginXabortXend => Flow::Jump(Dest::Unknown),
    }
}

/// What an instruction that writes the stack pointer does to it.
fn stack_pointer(instruction: &Instruction) -> StackPointer {
    let to_rsp = instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::RSP;
    let amount = match instruction.mnemonic() {
        Mnemonic::Push | Mnemonic::Pushfq => Some(i64::from(instruction.stack_pointer_increment())),
        Mnemonic::Pop if !to_rsp => Some(i64::from(instruction.stack_pointer_increment())),
        Mnemonic::Add if to_rsp => immediate(instruction),
        Mnemonic::Sub if to_rsp => immediate(instruction).and_then(i64::checked_neg),
        Mnemonic::Lea if to_rsp => {
            let plain =
                instruction.memory_base() == Register::RSP && instruction.memory_index() == Register::None;
            plain.then_some(instruction.memory_displacement64() as i64)
        }
        _ => None,
    };
    amount.map_or(StackPointer::Lost, StackPointer::Add)
}

/// The sign-extended immediate that is the second operand.
fn immediate(instruction: &Instruction) -> Option<i64> {
    match instruction.op1_kind() {
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => Some(instruction.immediate(1) as i64),
        _ => None,
    }
}

/// Adds one memory access to what is written on the stack.
fn store(sum: StackStore, used: &UsedMemory) -> StackStore {
    if full(used.base()) != Register::RSP || !is_write(used.access()) {
        return sum;
    }
    let from = used.displacement() as i64;
    let size = used.memory_size().size() as i64;
    let plain = used.base() == Register::RSP && used.index() == Register::None && size > 0;
    match (sum, from.checked_add(size)) {
        (StackStore::None, Some(to)) if plain => StackStore::Range(from, to),
        (StackStore::Range(a, b), Some(to)) if plain => StackStore::Range(a.min(from), b.max(to)),
        _ => StackStore::Anywhere,
    }
}

/// The register that is set to a constant.
fn constant(instruction: &Instruction) -> Option<Constant> {
    let register = instruction.op0_register();
    let wide = register.is_gpr64() || register.is_gpr32();
    if instruction.op0_kind() != OpKind::Register || !wide {
        return None;
    }
    let value = match (instruction.mnemonic(), instruction.op1_kind()) {
        (Mnemonic::Mov, OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64) => {
            instruction.immediate(1)
        }
        (Mnemonic::Lea, _) if instruction.is_ip_rel_memory_operand() => instruction.ip_rel_memory_address(),
        _ => return None,
    };
    let value = match register.is_gpr64() {
        true => value,
        false => value & u64::from(u32::MAX),
    };
    Some(Constant::Is(reg(number(full(register))?), value))
}

fn refused(instruction: &Instruction, written: &Written, ambiguous: bool) -> Option<&'static str> {
    let mnemonic = instruction.mnemonic();
    let interrupt = instruction.flow_control() == FlowControl::Interrupt;
    if instruction.is_privileged() {
        return Some("is privileged: no sequence may execute it");
    }
    if interrupt && mnemonic != Mnemonic::Int3 {
        return Some("raises an interrupt: trap with ud2 or int3");
    }
    if ambiguous {
        return Some("has an operand size prefix, which processors do not agree about: leave it out");
    }
    if changes_system_flags(instruction) {
        return Some("changes the direction flag or flags of the system: use those of arithmetic only");
    }
    if written.other || matches!(mnemonic, Mnemonic::Cvtpi2ps | Mnemonic::Cvtpi2pd) {
        return Some(
            "changes a segment or control register, or x87 or MMX state: use general and vector registers",
        );
    }
    if matches!(mnemonic, Mnemonic::Ldmxcsr | Mnemonic::Vldmxcsr) {
        return Some("changes how floating-point instructions round and trap: call a function that does it");
    }
    if !instruction.cpuid_features().iter().all(|f| is_plain(*f)) {
        return Some(
            "is of an instruction set that is not known to change registers and memory only: call a function",
        );
    }
    None
}

fn changes_system_flags(instruction: &Instruction) -> bool {
    let system = RflagsBits::IF | RflagsBits::AC;
    // Nearly always: the questions below are four look-ups in tables.
    if instruction.rflags_modified() & (system | RflagsBits::DF) == 0 {
        return false;
    }
    let changed = instruction.rflags_written() | instruction.rflags_set() | instruction.rflags_undefined();
    changed & (system | RflagsBits::DF) != 0 || instruction.rflags_cleared() & system != 0
}

/// Whether the instructions of a set change only registers that hold values, arithmetic flags and
/// memory.
const fn is_plain(set: CpuidFeature) -> bool {
    use CpuidFeature as F;
    matches!(
        set,
        F::INTEL8086
            | F::INTEL186
            | F::INTEL286
            | F::INTEL386
            | F::INTEL486
            | F::X64
            | F::CMOV
            | F::CX8
            | F::CMPXCHG16B
            | F::MULTIBYTENOP
            | F::PAUSE
            | F::PREFETCHW
            | F::CET_IBT
            | F::ADX
            | F::BMI1
            | F::BMI2
            | F::LZCNT
            | F::MOVBE
            | F::POPCNT
            | F::TSC
            | F::SSE
            | F::SSE2
            | F::SSE3
            | F::SSSE3
            | F::SSE4_1
            | F::SSE4_2
            | F::AES
            | F::PCLMULQDQ
            | F::SHA
            | F::GFNI
            | F::AVX
            | F::AVX2
            | F::F16C
            | F::FMA
            | F::VAES
            | F::VPCLMULQDQ
            | F::AVX_VNNI
            | F::AVX512F
            | F::AVX512BW
            | F::AVX512CD
            | F::AVX512DQ
            | F::AVX512VL
            | F::AVX512_BITALG
            | F::AVX512_IFMA
            | F::AVX512_VBMI
            | F::AVX512_VBMI2
            | F::AVX512_VNNI
            | F::AVX512_VPOPCNTDQ
    )
}
