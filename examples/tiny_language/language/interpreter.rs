//! The plain interpreter: what the language means.

use super::bytecode::{FunctionId, Op, Reg};
use super::isolate::Isolate;
use super::value::Word;

/// Calls a function.
pub(crate) fn call(isolate: &Isolate, function: FunctionId, args: [Word; 2]) -> Word {
    let mut registers = vec![Word::NIL; function.code().registers];
    registers[..2].copy_from_slice(&args);
    run(isolate, function, 0, &mut registers)
}

/// Goes on in a function at an instruction: from the start, or where compiled code was left.
pub(crate) fn run(isolate: &Isolate, function: FunctionId, mut pc: usize, registers: &mut [Word]) -> Word {
    isolate.runtime().figures.interpreted();
    let ops = function.code().ops;
    loop {
        match execute(isolate, ops[pc], registers) {
            NextInstruction::Following => pc += 1,
            NextInstruction::At(to) => pc = to,
            NextInstruction::Done(value) => return value,
        }
    }
}

/// Where the interpreter goes on behind an instruction.
pub(crate) enum NextInstruction {
    Following,
    At(usize),
    Done(Word),
}

/// Executes one instruction.
pub(crate) fn execute(isolate: &Isolate, op: Op, r: &mut [Word]) -> NextInstruction {
    let number = |r: &[Word], reg: Reg| r[reg].number();
    match op {
        Op::Const { to, value } => r[to] = value,
        Op::Add { to, left, right } => r[to] = Word::integer(number(r, left) + number(r, right)),
        Op::Multiply { to, left, right } => {
            r[to] = Word::integer(number(r, left).saturating_mul(number(r, right)));
        }
        Op::Less { to, left, right } => r[to] = Word::integer((number(r, left) < number(r, right)).into()),
        Op::Jump { to } => return NextInstruction::At(to),
        Op::Unless { test, to } if r[test] == Word::ZERO => return NextInstruction::At(to),
        Op::Unless { .. } => {}
        Op::Get { to, object, name } => r[to] = isolate.get(r[object], name),
        Op::Set { object, name, value } => isolate.set(r[object], name, r[value]),
        Op::Call {
            to,
            receiver,
            method,
            arg,
        } => r[to] = isolate.call(r[receiver], method, r[arg]),
        Op::Invoke { to, function, args } => r[to] = isolate.invoke(function, args.map(|reg| r[reg])),
        Op::Scale { to } => r[to] = isolate.scale(),
        Op::SetScale { value } => isolate.set_scale(r[value]),
        Op::New { to, class } => r[to] = isolate.create(class),
        Op::SetClass { object, class } => isolate.set_class(r[object], class),
        Op::SetMethod {
            class,
            method,
            function,
        } => isolate.set_method(class, method, function),
        Op::SetConstant { class, name, value } => isolate.set_constant(class, name, r[value]),
        Op::Return { value } => return NextInstruction::Done(r[value]),
    }
    NextInstruction::Following
}
