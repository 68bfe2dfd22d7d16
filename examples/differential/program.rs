//! Random programs: straight lines of instructions over a heap of objects, most of which call
//! functions of the library.

use crate::language::bytecode::{FunctionId, Method, Op, Reg};
use crate::language::interpreter;
use crate::language::isolate::{CLASSES, CLOSURE, FIRST_SHARED, Isolate};
use crate::language::object::NAMES;
use crate::language::value::Word;

use super::random::Random;

/// The registers of a program: objects, integers, one for results and one for what an instruction
/// needs.
const OBJECTS: Reg = 5;
const INTEGERS: Reg = 3;
const RESULT: Reg = OBJECTS + INTEGERS;
const OPERAND: Reg = RESULT + 1;
const REGISTERS: Reg = OPERAND + 1;

/// What can be a method `step`. None of these calls methods, so every program ends.
const STEPS: [FunctionId; 12] = {
    use FunctionId::*;
    [
        Plus, Plus, Put, Put, Grow, Area, Scaler, Scaler, Morph, Redefine, Huge, Identity,
    ]
};
/// And a method `call`.
const CALLS: [FunctionId; 5] = {
    use FunctionId::*;
    [Adder, Plus, Put, Scaler, Identity]
};

/// A program and the seed that it was made of.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) seed: u64,
    pub(crate) ops: Vec<Op>,
}

/// What a program did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The result register after each instruction.
    pub(crate) results: Vec<String>,
    pub(crate) heap: Vec<String>,
}

impl Program {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut ops = Vec::new();
        for to in 0..OBJECTS {
            ops.push(Op::New {
                to,
                class: random.below(CLASSES),
            });
        }
        for to in OBJECTS..RESULT {
            ops.push(integer(&mut random, to));
        }
        let wanted = ops.len() + 20 + random.below(40);
        while ops.len() < wanted {
            add(&mut random, &mut ops);
        }
        Self { seed, ops }
    }

    /// Runs it in an isolate, which is as new.
    pub(crate) fn run(&self, isolate: &Isolate) -> Outcome {
        let mut registers = [Word::NIL; REGISTERS];
        let run = |op: &Op| {
            interpreter::execute(isolate, *op, &mut registers);
            isolate.show(registers[RESULT])
        };
        let results = self.ops.iter().map(run).collect();
        let outcome = Outcome {
            results,
            heap: isolate.dump(),
        };
        isolate.reset();
        outcome
    }
}

fn integer(random: &mut Random, to: Reg) -> Op {
    let value = match random.below(40) {
        0 => Word::LARGEST,
        1 => Word::integer(-(1 << 61)),
        2 => Word::integer((1 << 31) + 5),
        value => Word::integer(value as i64 / 2 - 4),
    };
    Op::Const { to, value }
}

/// Adds an instruction, with what makes its operand.
fn add(random: &mut Random, ops: &mut Vec<Op>) {
    let object = random.below(OBJECTS);
    // Nearly always an integer.
    let value = match random.below(12) {
        0 => random.below(RESULT),
        _ => OBJECTS + random.below(INTEGERS),
    };
    let count = Word::integer(random.below(9) as i64);
    let own = random.below(FIRST_SHARED);
    let name = random.of(&NAMES);
    let op = match random.below(32) {
        0..=4 => Op::Set { object, name, value },
        5..=6 => Op::Get {
            to: RESULT,
            object,
            name,
        },
        7..=9 => invoke(FunctionId::Area, object, value),
        10..=13 => invoke(FunctionId::Grow, object, value),
        14..=19 => {
            ops.push(Op::Const {
                to: OPERAND,
                value: count,
            });
            invoke(FunctionId::Total, object, OPERAND)
        }
        20..=22 => {
            ops.push(Op::Const {
                to: OPERAND,
                value: count,
            });
            invoke(FunctionId::Fold, object, OPERAND)
        }
        // A count that is no integer, or negative, or nothing.
        23 => invoke(FunctionId::Total, object, random.below(OBJECTS)),
        24..=25 => Op::Call {
            to: RESULT,
            receiver: random.below(RESULT),
            method: random.of(&[Method::Step, Method::Call]),
            arg: value,
        },
        26 => Op::SetClass {
            object,
            class: random.below(CLASSES),
        },
        27 => Op::SetMethod {
            class: own,
            method: Method::Step,
            function: random.of(&STEPS),
        },
        28 => Op::SetMethod {
            class: own,
            method: Method::Call,
            function: random.of(&CALLS),
        },
        29 => Op::SetConstant {
            class: own,
            name,
            value,
        },
        30 => match random.below(3) {
            0 => Op::SetScale { value },
            1 => {
                ops.push(Op::Const {
                    to: OPERAND,
                    value: Word::ONE,
                });
                Op::SetScale { value: OPERAND }
            }
            _ => Op::New {
                to: object,
                class: CLOSURE,
            },
        },
        _ => {
            let to = OBJECTS + random.below(INTEGERS);
            integer(random, to)
        }
    };
    ops.push(op);
}

fn invoke(function: FunctionId, first: Reg, second: Reg) -> Op {
    Op::Invoke {
        to: RESULT,
        function,
        args: [first, second],
    }
}
