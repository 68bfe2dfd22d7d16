//! From text to trees.

use super::wrong::{CheckError, CheckErrorKind};

/// How many expressions may be inside each other: each is a call of a function here.
pub(super) const DEEPEST: usize = 64;

/// A chain of operations, done from left to right.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expr<'t> {
    pub(super) first: Term<'t>,
    pub(super) rest: Vec<(Op, Term<'t>)>,
}

/// A value, all of it or some of its bits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Term<'t> {
    /// Where it begins.
    pub(super) at: usize,
    pub(super) kind: TermKind<'t>,
    pub(super) slice: Option<Slice>,
}

/// From the bit `low` on, `bits` of them: 1 to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) low: u8,
    pub(super) bits: u8,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum TermKind<'t> {
    Number(u64),
    Symbol(&'t str),
    Inner(Box<Expr<'t>>),
    /// So many bytes at an address.
    Load(u8, Box<Expr<'t>>),
    DecodeOperand(InstructionRef<'t>, u64),
    NextPc(InstructionRef<'t>),
    /// Of two words the second is a symbol; of three the second a section and the third a symbol,
    /// or a symbol and a kind.
    Stub {
        file: &'t str,
        second: &'t str,
        third: Option<&'t str>,
    },
    GotEntry {
        file: &'t str,
        symbol: &'t str,
    },
    SectionAddr {
        file: &'t str,
        section: &'t str,
    },
}

/// The place of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InstructionRef<'t> {
    pub(super) symbol: &'t str,
    pub(super) offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    Sub,
    And,
    Or,
    ShiftLeft,
    ShiftRight,
}

const OPS: [(&str, Op); 6] = [
    ("+", Op::Add),
    ("-", Op::Sub),
    ("&", Op::And),
    ("|", Op::Or),
    ("<<", Op::ShiftLeft),
    (">>", Op::ShiftRight),
];

type Parsed<T> = Result<T, CheckError>;

/// The two sides of `A = B`.
pub(super) fn equation(text: &str) -> Parsed<(Expr<'_>, Expr<'_>)> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
    };
    parser.skip_spaces();
    let left = parser.expr()?;
    parser.expect("=", "an operator or =")?;
    let right = parser.expr()?;
    match parser.rest() {
        "" => Ok((left, right)),
        _ => Err(parser.unexpected("an operator or the end")),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

const WHOLE: &str = "the parser stops behind whole characters";

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).expect(WHOLE)
    }

    fn skip_spaces(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Takes what is next up to the first character that does not belong, and the spaces behind it.
    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        let taken = rest.get(..end).expect(WHOLE);
        self.at += end;
        self.skip_spaces();
        taken
    }

    fn skip(&mut self, token: &str) -> bool {
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
            self.skip_spaces();
        }
        is_next
    }

    fn expect(&mut self, token: &str, expected: &'static str) -> Parsed<()> {
        match self.skip(token) {
            true => Ok(()),
            false => Err(self.unexpected(expected)),
        }
    }

    fn unexpected(&self, expected: &'static str) -> CheckError {
        let rest = self.rest();
        let end = rest.find(|c| !is_in_symbol(c)).unwrap_or(rest.len());
        let token: String = rest
            .chars()
            .take(rest.get(..end).map_or(0, str::len).clamp(1, 40))
            .collect();
        let found = match token.is_empty() {
            true => "the end".to_owned(),
            false => format!("`{token}`"),
        };
        self.wrong(self.at, CheckErrorKind::Unexpected { expected, found })
    }

    fn wrong(&self, at: usize, why: CheckErrorKind) -> CheckError {
        CheckError { at, why }
    }

    fn expr(&mut self) -> Parsed<Expr<'t>> {
        self.depth += 1;
        // protection: checks-are-nested-to-a-bound
        if self.depth > DEEPEST {
            return Err(self.wrong(self.at, CheckErrorKind::TooDeep));
        }
        let first = self.term()?;
        let mut rest = Vec::new();
        while let Some(op) = self.op() {
            rest.push((op, self.term()?));
        }
        self.depth -= 1;
        Ok(Expr { first, rest })
    }

    fn op(&mut self) -> Option<Op> {
        OPS.into_iter()
            .find(|(token, _)| self.skip(token))
            .map(|(_, op)| op)
    }

    fn term(&mut self) -> Parsed<Term<'t>> {
        let at = self.at;
        let kind = match self.rest().chars().next() {
            Some('(') => {
                self.skip("(");
                let inner = TermKind::Inner(Box::new(self.expr()?));
                self.expect(")", "an operator or )")?;
                inner
            }
            Some('*') => self.load()?,
            Some(c) if c.is_ascii_digit() => TermKind::Number(self.number()?),
            // `.TOC.` starts with a period.
            Some(c) if c.is_ascii_alphabetic() || matches!(c, '_' | '.') => self.name()?,
            _ => return Err(self.unexpected("a number, a symbol, ( or *{SIZE}")),
        };
        let slice = if self.skip("[") { Some(self.slice()?) } else { None };
        Ok(Term { at, kind, slice })
    }

    fn number(&mut self) -> Parsed<u64> {
        let at = self.at;
        let digits = self.take(|c| c.is_ascii_alphanumeric());
        let (radix, digits) = digits
            .strip_prefix("0x")
            .map_or((10, digits), |digits| (16, digits));
        let unexpected = |parser: &mut Self| {
            parser.at = at;
            Err(parser.unexpected("a number, decimal or with 0x"))
        };
        if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
            return unexpected(self);
        }
        u64::from_str_radix(digits, radix).map_err(|_| self.wrong(at, CheckErrorKind::NumberTooLarge))
    }

    fn load(&mut self) -> Parsed<TermKind<'t>> {
        self.skip("*");
        self.expect("{", "{ and the number of bytes")?;
        let at = self.at;
        let size = self.number()?;
        let bytes = match size {
            1 => 1,
            2 => 2,
            4 => 4,
            8 => 8,
            _ => return Err(self.wrong(at, CheckErrorKind::LoadSize(size))),
        };
        self.expect("}", "}")?;
        Ok(TermKind::Load(bytes, Box::new(self.expr()?)))
    }

    /// What follows the bracket.
    fn slice(&mut self) -> Parsed<Slice> {
        let at = self.at;
        let high = self.number()?;
        self.expect(":", ":")?;
        let low = self.number()?;
        self.expect("]", "]")?;
        let numbers = (u8::try_from(high), u8::try_from(low));
        match numbers {
            (Ok(high @ ..=63), Ok(low)) if low <= high => Ok(Slice {
                low,
                bits: high - low + 1,
            }),
            _ => Err(self.wrong(at, CheckErrorKind::Slice { high, low })),
        }
    }

    /// A symbol, or a function with its arguments.
    fn name(&mut self) -> Parsed<TermKind<'t>> {
        match self.take(is_in_symbol) {
            "decode_operand" => {
                self.expect("(", "(")?;
                let code = self.code()?;
                self.expect(",", "+, or , and the number of the operand")?;
                let index = self.number()?;
                self.expect(")", ")")?;
                Ok(TermKind::DecodeOperand(code, index))
            }
            "next_pc" => {
                self.expect("(", "(")?;
                let code = self.code()?;
                self.expect(")", "+ or )")?;
                Ok(TermKind::NextPc(code))
            }
            "stub_addr" => {
                let (file, second) = self.two_words()?;
                let third = if self.skip(",") {
                    Some(self.word(",)")?)
                } else {
                    None
                };
                self.expect(")", ", or )")?;
                Ok(TermKind::Stub { file, second, third })
            }
            "got_addr" => {
                let (file, symbol) = self.two_words()?;
                self.expect(")", ")")?;
                Ok(TermKind::GotEntry { file, symbol })
            }
            "section_addr" => {
                self.expect("(", "(")?;
                let file = self.word(",)")?;
                self.expect(",", ",")?;
                // Those of Mach-O have a comma.
                let section = self.word(")")?;
                self.expect(")", ")")?;
                Ok(TermKind::SectionAddr { file, section })
            }
            symbol => Ok(TermKind::Symbol(symbol)),
        }
    }

    fn code(&mut self) -> Parsed<InstructionRef<'t>> {
        let symbol = self.take(is_in_symbol);
        if symbol.is_empty() {
            return Err(self.unexpected("a symbol"));
        }
        let offset = if self.skip("+") { self.number()? } else { 0 };
        Ok(InstructionRef { symbol, offset })
    }

    /// What follows the name of a function.
    fn two_words(&mut self) -> Parsed<(&'t str, &'t str)> {
        self.expect("(", "(")?;
        let first = self.word(",)")?;
        self.expect(",", ",")?;
        Ok((first, self.word(",)")?))
    }

    /// Files and sections have names that are no symbols: all up to one of these characters.
    fn word(&mut self, ends: &str) -> Parsed<&'t str> {
        match self.take(|c| !ends.contains(c)).trim_end() {
            "" => Err(self.unexpected("a name")),
            word => Ok(word),
        }
    }
}

fn is_in_symbol(c: char) -> bool {
    c.is_ascii_alphanumeric() || ":_.$".contains(c)
}
