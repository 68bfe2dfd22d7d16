//! From text to sequences: one function per kind of phrase, each of which says what it expected
//! where.

#![allow(unsafe_code, reason = "text can hold promises")]

use alloc::string::String;
use alloc::vec::Vec;
use core::str::FromStr;

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::{OnReturn, RegSet};

use super::operand::{Mem, Operand, OperandPart, Source, Target};
use super::{CONDITIONS, Sequence};
use crate::error::{Error, Result};
use crate::op::{Cond, Extension, Label, Width};

impl FromStr for Sequence {
    type Err = Error;

    /// Reads statements that are separated by `;` or line ends. `Display` writes them so. Calls,
    /// addresses as targets and vouched bytes are promises: only [`Sequence::from_text`] reads
    /// them.
    ///
    /// # Errors
    /// [`Error::SequenceText`], with the place and what was expected there.
    fn from_str(text: &str) -> Result<Self> {
        Reader::new(text, Promises::Refused).sequence()
    }
}

impl Sequence {
    /// Reads all statements, those too that promise something of an address or of bytes.
    /// [`FromStr`] reads the others.
    ///
    /// # Safety
    ///
    /// What the text says is as [`Sequence::call`], [`Sequence::vouched`] and [`Target::addr`]
    /// demand.
    ///
    /// # Errors
    /// [`Error::SequenceText`], with the place and what was expected there.
    pub unsafe fn from_text(text: &str) -> Result<Self> {
        Self::from_any_text(text)
    }

    /// The same for who does not execute it, or has that promise from its caller.
    pub(super) fn from_any_text(text: &str) -> Result<Self> {
        Reader::new(text, Promises::Read).sequence()
    }
}

/// What becomes of statements that are `unsafe` to build.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promises {
    Read,
    Refused,
}

/// What is expected in place of a promise that nobody gives.
const PROMISE: &str =
    "no call, no address as a target and no vouched bytes, which the unsafe Sequence::from_text alone reads";

const STATEMENT: &str = "a statement: guard A == B else miss, if A == B goto end, result = A, u64[A+8] = A, +=, &=, \
                         goto, call, return, trap, raw, vouched, label(1):, in_place_only";
const OPERAND: &str = "an operand: arg(0), float_arg(0), live(0), location(0), result, float_result, temp, reg(5) by its \
                       DWARF number, or a number such as 23, -1, 0x17";
const VALUE: &str = "a value: an operand such as arg(0) or 0x17, its low bytes as in u32(arg(0)), or memory as in \
                     u32[arg(0)+8]";
const TARGET: &str = "a target: miss, deopt, end, label(1) or an address";
const COMPARISON: &str = "a comparison: ==, !=, unsigned <u <=u >u >=u or signed <s <=s >s >=s";
const ASSIGNMENT: &str =
    "= or +=, or of an operand &=, <<=, >>u= (zeros come in) or >>s= (copies of the sign come in)";
const CONTRACT: &str =
    "what the called code does: follows_c, preserves_all (every register) or never (returns)";

struct Reader<'t> {
    text: &'t str,
    /// What has not been read yet.
    rest: &'t str,
    promises: Promises,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, promises: Promises) -> Self {
        Self {
            text,
            rest: text,
            promises,
        }
    }

    fn sequence(mut self) -> Result<Sequence> {
        let mut sequence = Sequence::new();
        loop {
            self.skip(|c| c.is_whitespace() || c == ';');
            if self.rest.is_empty() {
                return Ok(sequence);
            }
            sequence = self.statement(sequence)?;
            self.end_of_statement()?;
        }
    }

    /// Refuses what comes next, a promise, unless somebody has given it.
    fn promise(&mut self) -> Result<()> {
        match self.promises {
            Promises::Read => Ok(()),
            Promises::Refused => Err(self.expected(PROMISE)),
        }
    }

    fn skip(&mut self, blank: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(blank);
    }

    /// What comes next in the statement.
    fn next(&mut self) -> &'t str {
        self.skip(|c| c != '\n' && c.is_whitespace());
        self.rest
    }

    /// The letters, digits and underscores that come next; none where there is something else.
    fn peek_word(&mut self) -> &'t str {
        let next = self.next();
        let end = next
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(next.len());
        next.split_at(end).0
    }

    fn advance(&mut self, by: &str) {
        let behind = self.rest.get(by.len()..);
        self.rest = behind.expect("what was seen next is there");
    }

    fn take(&mut self, expected: &str) -> bool {
        let found = self.next().starts_with(expected);
        if found {
            self.advance(expected);
        }
        found
    }

    fn take_word(&mut self, expected: &str) -> bool {
        let found = self.peek_word() == expected;
        if found {
            self.advance(expected);
        }
        found
    }

    fn need(&mut self, symbol: &str, expected: &'static str) -> Result<()> {
        match self.take(symbol) {
            true => Ok(()),
            false => Err(self.expected(expected)),
        }
    }

    /// The refusal of what comes next.
    fn expected(&mut self, expected: &'static str) -> Error {
        let word = self.peek_word();
        let found = match self.rest.chars().next() {
            None => String::from("the end"),
            Some('\n') => String::from("the end of the line"),
            Some(_) if !word.is_empty() => alloc::format!("`{word}`"),
            Some(other) => alloc::format!("`{other}`"),
        };
        let read = self.text.len() - self.rest.len();
        let (read, _) = self.text.split_at(read);
        let line = read.rsplit_once('\n').map_or(read, |(_, line)| line);
        Error::SequenceText {
            line: read.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            found,
            expected,
        }
    }

    fn end_of_statement(&mut self) -> Result<()> {
        match self.next().chars().next() {
            None | Some(';' | '\n') => Ok(()),
            Some(_) => Err(self.expected("`;` or the end of the line behind a statement")),
        }
    }

    fn statement(&mut self, sequence: Sequence) -> Result<Sequence> {
        let word = self.peek_word();
        if matches!(word, "call" | "vouched") {
            self.promise()?;
        }
        match word {
            "label" => return self.bind(sequence),
            "guard" | "if" | "goto" | "call" | "atomic" | "return" | "trap" | "raw" | "vouched"
            | "in_place_only" => self.advance(word),
            "" if !self.rest.starts_with('-') => return Err(self.expected(STATEMENT)),
            _ => return self.assignment(sequence),
        }
        Ok(match word {
            "guard" => {
                let (lhs, cond, rhs) = self.comparison()?;
                self.keyword("else", "else and a target")?;
                sequence.guard(cond, lhs, rhs, self.target()?)
            }
            "if" => {
                let (lhs, cond, rhs) = self.comparison()?;
                self.keyword("goto", "goto and a target")?;
                sequence.jump_if(cond, lhs, rhs, self.target()?)
            }
            "goto" => sequence.jump(self.target()?),
            "call" => sequence.call_to(self.addr()?, self.contract()?),
            "atomic" => self.atomic(sequence)?,
            "return" => sequence.ret(),
            "trap" => sequence.trap(),
            "raw" => sequence.raw(&self.bytes()?),
            "vouched" => sequence.vouched_for(&self.bytes()?, &self.writes()?),
            _ => sequence.in_place_only(),
        })
    }

    fn keyword(&mut self, word: &str, expected: &'static str) -> Result<()> {
        match self.take_word(word) {
            true => Ok(()),
            false => Err(self.expected(expected)),
        }
    }

    fn bind(&mut self, sequence: Sequence) -> Result<Sequence> {
        let label = self.label()?;
        self.need(
            ":",
            "`:` behind a label that is bound here; goto label(1) branches to it",
        )?;
        Ok(sequence.bind(label))
    }

    fn label(&mut self) -> Result<Label> {
        self.advance("label");
        self.index().map(Label::new)
    }

    fn comparison(&mut self) -> Result<(Source, Cond, Source)> {
        let lhs = self.value()?;
        let Some((symbol, cond)) = CONDITIONS
            .iter()
            .find(|(symbol, _)| self.next().starts_with(symbol))
        else {
            return Err(self.expected(COMPARISON));
        };
        self.advance(symbol);
        Ok((lhs, *cond, self.value()?))
    }

    fn atomic(&mut self, sequence: Sequence) -> Result<Sequence> {
        const MEMORY: &str = "memory behind atomic, as in atomic u64[0x1000] += 1";
        let Source::Mem(to) = self.value()? else {
            return Err(self.expected(MEMORY));
        };
        self.need("+=", "+=: only additions are atomic")?;
        Ok(sequence.atomic_add(to, self.value()?))
    }

    fn assignment(&mut self, sequence: Sequence) -> Result<Sequence> {
        let start = self.rest;
        // A word that begins no value begins no statement either.
        let to = self.value().map_err(|error| {
            if self.rest == start {
                self.expected(STATEMENT)
            } else {
                error
            }
        })?;
        match to {
            Source::Mem(to) if self.take("+=") => Ok(sequence.add_to_memory(to, self.value()?)),
            Source::Mem(to) => {
                self.assigned("= or +=")?;
                Ok(sequence.store(to, self.value()?))
            }
            Source::Operand(to) => self.assign(sequence, to),
            Source::Part(_) => {
                self.rest = start;
                Err(self.expected("a whole operand, or memory, to be written"))
            }
        }
    }

    /// The sign of an assignment, which is no comparison.
    fn assigned(&mut self, expected: &'static str) -> Result<()> {
        match self.next().starts_with("==") {
            true => Err(self.expected(expected)),
            false => self.need("=", expected),
        }
    }

    fn assign(&mut self, sequence: Sequence, to: Operand) -> Result<Sequence> {
        const SHIFT: &str = "a number of bits";
        Ok(if self.take("+=") {
            sequence.add(to, self.value()?)
        } else if self.take("&=") {
            sequence.and(to, self.number("a mask such as 0xff")?)
        } else if self.take("<<=") {
            sequence.shift_left(to, self.small(SHIFT)?)
        } else if self.take(">>u=") {
            sequence.shift_right(to, self.small(SHIFT)?)
        } else if self.take(">>s=") {
            sequence.shift_right_signed(to, self.small(SHIFT)?)
        } else {
            self.assigned(ASSIGNMENT)?;
            sequence.mov(to, self.value()?)
        })
    }

    fn value(&mut self) -> Result<Source> {
        let Some((width, extension)) = field(self.peek_word()) else {
            return Ok(Source::Operand(self.operand(VALUE)?));
        };
        let word = self.peek_word();
        self.advance(word);
        if self.take("(") {
            let operand = self.operand(OPERAND)?;
            self.need(")", "`)`")?;
            return Ok(Source::Part(OperandPart {
                operand,
                width,
                extension,
            }));
        }
        self.need("[", "`[` and an address, or `(` and an operand, behind a type")?;
        let base = self.operand(OPERAND)?;
        let disp = self.displacement()?;
        self.need("]", "`]`, or a displacement such as +8")?;
        Ok(Source::Mem(Mem {
            base,
            disp,
            width,
            extension,
        }))
    }

    fn displacement(&mut self) -> Result<i32> {
        let negative = match self.next().chars().next() {
            Some('+') => false,
            Some('-') => true,
            _ => return Ok(0),
        };
        self.advance("+");
        let start = self.rest;
        let number = self.unsigned().and_then(|number| i64::try_from(number).ok());
        let disp = number.map(|number| if negative { -number } else { number });
        disp.and_then(|disp| i32::try_from(disp).ok()).ok_or_else(|| {
            self.rest = start;
            self.expected("a displacement of less than 2 GiB")
        })
    }

    fn operand(&mut self, expected: &'static str) -> Result<Operand> {
        let word = self.peek_word();
        let indexed = |make: fn(u32) -> Operand| Some(make);
        let make = match word {
            "arg" => indexed(Operand::Arg),
            "float_arg" => indexed(Operand::FloatArg),
            "live" => indexed(Operand::Live),
            "location" => indexed(Operand::Location),
            _ => None,
        };
        if let Some(make) = make {
            self.advance(word);
            return self.index().map(make);
        }
        let known = match word {
            "result" => Operand::Result,
            "float_result" => Operand::FloatResult,
            "temp" => Operand::Temp,
            "reg" => return self.register().map(Operand::Reg),
            _ => return self.number(expected).map(Operand::Imm),
        };
        self.advance(word);
        Ok(known)
    }

    fn register(&mut self) -> Result<DwarfReg> {
        const REGISTER: &str = "a register by its DWARF number, as in reg(5)";
        if !self.take_word("reg") {
            return Err(self.expected(REGISTER));
        }
        let number = self.index()?;
        let number = u16::try_from(number).map_err(|_| self.expected("a DWARF number of at most 65535"))?;
        Ok(DwarfReg::new(number))
    }

    /// A number in parentheses.
    fn index(&mut self) -> Result<u32> {
        self.need("(", "`(` and a number, as in arg(0)")?;
        let start = self.rest;
        let number = self.unsigned().and_then(|number| u32::try_from(number).ok());
        let number = number.ok_or_else(|| {
            self.rest = start;
            self.expected("a number from 0 on, as in arg(0)")
        })?;
        self.need(")", "`)`")?;
        Ok(number)
    }

    fn small(&mut self, expected: &'static str) -> Result<u8> {
        let start = self.rest;
        let number = self.unsigned().and_then(|number| u8::try_from(number).ok());
        number.ok_or_else(|| {
            self.rest = start;
            self.expected(expected)
        })
    }

    fn addr(&mut self) -> Result<CodeAddr> {
        self.number("an address such as 0x7f0012345000")
            .map(CodeAddr::new)
    }

    /// A number of 64 bits, or a negative one, of which these are the bits.
    fn number(&mut self, expected: &'static str) -> Result<u64> {
        self.next();
        let start = self.rest;
        let negative = self.take("-");
        let number = self.unsigned();
        let number = match negative {
            true => number
                .filter(|number| *number <= 1 << 63)
                .map(|number| number.wrapping_neg()),
            false => number,
        };
        number.ok_or_else(|| {
            self.rest = start;
            self.expected(expected)
        })
    }

    fn unsigned(&mut self) -> Option<u64> {
        let word = self.peek_word();
        let digits: String = word.chars().filter(|c| *c != '_').collect();
        let number = match digits.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        self.advance(word);
        number.ok()
    }

    fn target(&mut self) -> Result<Target> {
        let word = self.peek_word();
        let target = match word {
            "miss" => Target::Miss,
            "deopt" => Target::Deopt,
            "end" => Target::End,
            "label" => return self.label().map(Target::Label),
            _ => {
                let mut before = Self { ..*self };
                let number = self.number(TARGET)?;
                // protection: text-promises-nothing
                return before.promise().map(|()| Target::to(CodeAddr::new(number)));
            }
        };
        self.advance(word);
        Ok(target)
    }

    fn contract(&mut self) -> Result<OnReturn> {
        let word = self.peek_word();
        let contract = match word {
            "follows_c" => OnReturn::FollowsC,
            "preserves_all" => OnReturn::PreservesAll,
            "never" => OnReturn::Never,
            _ => return Err(self.expected(CONTRACT)),
        };
        self.advance(word);
        Ok(contract)
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let word = self.peek_word();
            if word.is_empty() || word == "writes" {
                return Ok(bytes);
            }
            let pairs = (0..word.len())
                .step_by(2)
                .map(|at| word.get(at..at + 2).filter(|pair| !pair.starts_with('+')));
            let read: Option<Vec<u8>> = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
            bytes.extend(read.ok_or_else(|| self.expected("bytes of two hexadecimal digits each"))?);
            self.advance(word);
        }
    }

    fn writes(&mut self) -> Result<Vec<DwarfReg>> {
        let mut registers = Vec::new();
        if self.take_word("writes") {
            while !self.peek_word().is_empty() {
                let start = self.rest;
                let register = self.register()?;
                if !RegSet::EMPTY.with(register).contains(register) {
                    self.rest = start;
                    return Err(self.expected("a register by a DWARF number that one can be written by"));
                }
                registers.push(register);
            }
        }
        Ok(registers)
    }
}

/// The width and extension of a type.
fn field(word: &str) -> Option<(Width, Extension)> {
    Some(match word {
        "u8" => (Width::B1, Extension::Zero),
        "u16" => (Width::B2, Extension::Zero),
        "u32" => (Width::B4, Extension::Zero),
        "u64" => (Width::B8, Extension::Zero),
        "i8" => (Width::B1, Extension::Sign),
        "i16" => (Width::B2, Extension::Sign),
        "i32" => (Width::B4, Extension::Sign),
        "i64" => (Width::B8, Extension::Sign),
        _ => return None,
    })
}
