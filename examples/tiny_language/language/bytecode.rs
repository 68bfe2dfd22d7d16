//! The interpreter's instructions, and the functions of the language's library in them.
//!
//! What has a compiled version has it in `examples/objects/tiny`, where the sites' IDs refer to
//! these instructions by their index.

use super::object::Name;
use super::value::Word;

/// A register of the interpreter.
pub(crate) type Reg = usize;

/// The name of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Method {
    Step,
    Call,
}

/// A function of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum FunctionId {
    Identity,
    Area,
    Grow,
    Total,
    Fold,
    Plus,
    Put,
    Adder,
    /// A method that sets `scale`, which `total` takes for granted.
    Scaler,
    /// A method that changes the class of its receiver.
    Morph,
    /// A method that replaces the method `step` of class 0.
    Redefine,
    /// A method whose results overflow.
    Huge,
}

/// All of them, each at the index of its number.
pub(crate) const FUNCTIONS: [FunctionId; 12] = {
    use FunctionId::*;
    [
        Identity, Area, Grow, Total, Fold, Plus, Put, Adder, Scaler, Morph, Redefine, Huge,
    ]
};

/// An instruction. Classes are those of the isolate, by index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Const {
        to: Reg,
        value: Word,
    },
    Add {
        to: Reg,
        left: Reg,
        right: Reg,
    },
    Multiply {
        to: Reg,
        left: Reg,
        right: Reg,
    },
    /// 1 or 0.
    Less {
        to: Reg,
        left: Reg,
        right: Reg,
    },
    Jump {
        to: usize,
    },
    /// Jumps if the register has 0.
    Unless {
        test: Reg,
        to: usize,
    },
    /// A field, or if the object has none of the name, the constant of its class.
    Get {
        to: Reg,
        object: Reg,
        name: Name,
    },
    /// Adds the field if there is none.
    Set {
        object: Reg,
        name: Name,
        value: Reg,
    },
    Call {
        to: Reg,
        receiver: Reg,
        method: Method,
        arg: Reg,
    },
    Invoke {
        to: Reg,
        function: FunctionId,
        args: [Reg; 2],
    },
    Scale {
        to: Reg,
    },
    SetScale {
        value: Reg,
    },
    New {
        to: Reg,
        class: usize,
    },
    SetClass {
        object: Reg,
        class: usize,
    },
    SetMethod {
        class: usize,
        method: Method,
        function: FunctionId,
    },
    SetConstant {
        class: usize,
        name: Name,
        value: Reg,
    },
    Return {
        value: Reg,
    },
}

/// A function's instructions, and how many registers they use. The first two have the arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytecode {
    pub(crate) ops: &'static [Op],
    pub(crate) registers: usize,
}

impl FunctionId {
    /// The function of that number.
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        FUNCTIONS.get(usize::try_from(number).ok()?).copied()
    }

    pub(crate) fn code(self) -> Bytecode {
        let (registers, ops): (usize, &'static [Op]) = match self {
            Self::Identity => (2, &[Op::Return { value: 1 }]),
            Self::Area => (4, AREA),
            Self::Grow => (3, GROW),
            Self::Total => (7, TOTAL),
            Self::Fold => (6, FOLD),
            Self::Plus => (3, PLUS),
            Self::Put => (2, PUT),
            Self::Adder => (3, ADDER),
            Self::Scaler => (4, SCALER),
            Self::Morph => (4, MORPH),
            Self::Redefine => (4, REDEFINE),
            Self::Huge => (3, HUGE),
        };
        Bytecode { ops, registers }
    }
}

const AREA: &[Op] = &[
    Op::Get {
        to: 2,
        object: 0,
        name: Name::Width,
    },
    Op::Get {
        to: 3,
        object: 0,
        name: Name::Height,
    },
    Op::Multiply {
        to: 2,
        left: 2,
        right: 3,
    },
    Op::Return { value: 2 },
];

const GROW: &[Op] = &[
    Op::Get {
        to: 2,
        object: 0,
        name: Name::Width,
    },
    Op::Add {
        to: 2,
        left: 2,
        right: 1,
    },
    Op::Set {
        object: 0,
        name: Name::Width,
        value: 2,
    },
    Op::Return { value: 2 },
];

/// r2 is the sum, r3 the index.
const TOTAL: &[Op] = &[
    Op::Const {
        to: 2,
        value: Word::ZERO,
    },
    Op::Const {
        to: 3,
        value: Word::ZERO,
    },
    Op::Less {
        to: 6,
        left: 3,
        right: 1,
    },
    Op::Unless { test: 6, to: 11 },
    Op::Call {
        to: 4,
        receiver: 0,
        method: Method::Step,
        arg: 3,
    },
    Op::Scale { to: 5 },
    Op::Multiply {
        to: 4,
        left: 4,
        right: 5,
    },
    Op::Add {
        to: 2,
        left: 2,
        right: 4,
    },
    Op::Const {
        to: 5,
        value: Word::ONE,
    },
    Op::Add {
        to: 3,
        left: 3,
        right: 5,
    },
    Op::Jump { to: 2 },
    Op::Return { value: 2 },
];

/// r2 is the value, r3 the index.
const FOLD: &[Op] = &[
    Op::Const {
        to: 2,
        value: Word::ZERO,
    },
    Op::Const {
        to: 3,
        value: Word::ZERO,
    },
    Op::Less {
        to: 4,
        left: 3,
        right: 1,
    },
    Op::Unless { test: 4, to: 8 },
    Op::Call {
        to: 2,
        receiver: 0,
        method: Method::Call,
        arg: 2,
    },
    Op::Const {
        to: 5,
        value: Word::ONE,
    },
    Op::Add {
        to: 3,
        left: 3,
        right: 5,
    },
    Op::Jump { to: 2 },
    Op::Return { value: 2 },
];

const PLUS: &[Op] = &[
    Op::Get {
        to: 2,
        object: 0,
        name: Name::Base,
    },
    Op::Add {
        to: 2,
        left: 2,
        right: 1,
    },
    Op::Return { value: 2 },
];

const PUT: &[Op] = &[
    Op::Set {
        object: 0,
        name: Name::Mark,
        value: 1,
    },
    Op::Return { value: 1 },
];

const ADDER: &[Op] = &[
    Op::Get {
        to: 2,
        object: 0,
        name: Name::Captured,
    },
    Op::Add {
        to: 2,
        left: 2,
        right: 1,
    },
    Op::Return { value: 2 },
];

// These do what they do from a certain argument on: a loop that calls them is in the middle then.

const SCALER: &[Op] = &[
    Op::Const {
        to: 2,
        value: Word::integer(3),
    },
    Op::Less {
        to: 3,
        left: 1,
        right: 2,
    },
    Op::Unless { test: 3, to: 4 },
    Op::Return { value: 1 },
    Op::SetScale { value: 2 },
    Op::Return { value: 1 },
];

const MORPH: &[Op] = &[
    Op::Const {
        to: 2,
        value: Word::integer(2),
    },
    Op::Less {
        to: 3,
        left: 1,
        right: 2,
    },
    Op::Unless { test: 3, to: 4 },
    Op::Return { value: 1 },
    Op::SetClass { object: 0, class: 1 },
    Op::Return { value: 2 },
];

const REDEFINE: &[Op] = &[
    Op::Const {
        to: 2,
        value: Word::integer(4),
    },
    Op::Less {
        to: 3,
        left: 1,
        right: 2,
    },
    Op::Unless { test: 3, to: 4 },
    Op::Return { value: 1 },
    Op::SetMethod {
        class: 0,
        method: Method::Step,
        function: FunctionId::Plus,
    },
    Op::Return { value: 2 },
];

const HUGE: &[Op] = &[
    Op::Const {
        to: 2,
        value: Word::LARGEST,
    },
    Op::Return { value: 2 },
];
