//! What of LLVM's IR matters here: each function's calls of `stackmap`, `patchpoint` and
//! `gc.statepoint`, and which functions could have been inlined into which.

use std::collections::{HashMap, HashSet};

use patchpoint::CallShape;

use super::token::{Token, Unclosed, tokens};
use super::{Call, Function, Malformed, Meaning, Operand, Program};

type Tokens<'t, 'a> = &'t [(u32, Token<'a>)];

impl Program {
    /// Adds a file.
    pub(super) fn add(&mut self, text: &str) -> Result<(), Malformed> {
        let tokens = tokens(text).map_err(|Unclosed(line)| Malformed {
            line,
            why: "a name or text in quotes has no end".to_owned(),
        })?;
        let mut module = Module::default();
        let mut at = 0;
        while let Some((_, token)) = tokens.get(at) {
            at = match token {
                Token::Word("define") => module.function(&tokens, at)?,
                Token::Word("attributes") => module.group(&tokens, at),
                Token::Global(name) if is_sign(&tokens, at + 1, '=') => module.global(name, &tokens, at + 2),
                _ => at + 1,
            };
        }
        module.finish(self);
        Ok(())
    }
}

/// A file while it is read.
#[derive(Default)]
struct Module {
    functions: Vec<Function>,
    /// The groups of attributes that forbid inlining.
    not_inlined: HashSet<String>,
    /// Those that each function has.
    groups: Vec<Vec<String>>,
    globals: HashMap<String, Vec<String>>,
    aliases: HashMap<String, String>,
    taken: HashSet<String>,
}

/// Whether a token is this sign.
fn is_sign(tokens: Tokens<'_, '_>, at: usize, sign: char) -> bool {
    tokens.get(at).is_some_and(|(_, token)| token.is_sign(sign))
}

fn opens(token: &Token<'_>) -> bool {
    matches!(token, Token::Sign('(' | '[' | '{' | '<'))
}

fn closes(token: &Token<'_>) -> bool {
    matches!(token, Token::Sign(')' | ']' | '}' | '>'))
}

/// Where what opens there has been closed.
fn behind(tokens: Tokens<'_, '_>, at: usize) -> Result<usize, Malformed> {
    let mut depth = 0_u64;
    for (offset, (_, token)) in tokens.iter().skip(at).enumerate() {
        if opens(token) {
            depth += 1;
        } else if closes(token) {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 {
            return Ok(at + offset + 1);
        }
    }
    Err(malformed(tokens, at, "what opens here is not closed"))
}

/// What is between the token that opens there and the one that closes it, the last before `end`.
fn between<'t, 'a>(tokens: Tokens<'t, 'a>, open: usize, end: usize) -> Tokens<'t, 'a> {
    let between = tokens.get(open + 1..end - 1);
    between.expect("another token closes what one has opened")
}

fn malformed(tokens: Tokens<'_, '_>, at: usize, why: &str) -> Malformed {
    let line = tokens.get(at).or(tokens.last()).map_or(1, |(line, _)| *line);
    Malformed {
        line,
        why: why.to_owned(),
    }
}

/// What follows ends a block.
const TERMINATORS: [&str; 11] = [
    "ret",
    "br",
    "switch",
    "indirectbr",
    "invoke",
    "callbr",
    "resume",
    "catchswitch",
    "catchret",
    "cleanupret",
    "unreachable",
];
const INTRINSIC: &str = "llvm.experimental.";

impl Module {
    /// Reads a definition, and returns where it ends.
    fn function(&mut self, tokens: Tokens<'_, '_>, define: usize) -> Result<usize, Malformed> {
        let mut at = define + 1;
        let name = loop {
            match tokens.get(at) {
                Some((_, Token::Global(name))) => break name.clone().into_owned(),
                Some((_, token)) if opens(token) => at = behind(tokens, at)?,
                Some(_) => at += 1,
                None => return Err(malformed(tokens, define, "a definition has no name")),
            }
        };
        at = behind(tokens, at + 1)?;
        let (mut inlined, mut groups) = (true, Vec::new());
        while !is_sign(tokens, at, '{') {
            at = match tokens.get(at) {
                None => return Err(malformed(tokens, define, "a definition has no body")),
                Some((_, Token::Word("prefix" | "prologue"))) => behind_constant(tokens, at + 1)?,
                Some((_, Token::Word("noinline" | "optnone"))) => {
                    inlined = false;
                    at + 1
                }
                Some((_, Token::Group(group))) => {
                    groups.push((*group).to_owned());
                    at + 1
                }
                Some((_, token)) if opens(token) => behind(tokens, at)?,
                Some((_, Token::Word("define" | "declare"))) => {
                    return Err(malformed(tokens, define, "a definition has no body"));
                }
                Some(_) => at + 1,
            };
        }
        let end = behind(tokens, at)?;
        let body = between(tokens, at, end);
        let mut function = Function {
            name,
            calls: Vec::new(),
            refers_to: HashSet::new(),
            calls_unknown: false,
            inlined,
            straight: false,
        };
        self.body(&mut function, body)?;
        self.functions.push(function);
        self.groups.push(groups);
        Ok(end)
    }

    fn body(&mut self, function: &mut Function, body: Tokens<'_, '_>) -> Result<(), Malformed> {
        let (mut last, mut ends, mut labels) = (None, 0, 0);
        for (at, (line, token)) in body.iter().enumerate() {
            match token {
                Token::Label if at > 0 => labels += 1,
                Token::Word(word) => {
                    if TERMINATORS.contains(word) {
                        ends += 1;
                    }
                    if matches!(*word, "call" | "invoke" | "callbr") {
                        last = Some(at);
                    }
                }
                // A call of what is in a value.
                Token::Local if is_sign(body, at + 1, '(') => function.calls_unknown = true,
                Token::Global(name) => match name.strip_prefix(INTRINSIC).zip(last) {
                    Some((name, call)) if is_sign(body, at + 1, '(') => {
                        let header = body.get(call + 1..at);
                        let header = header.expect("the call was before the function's name");
                        let found = site(name, header, body, at + 1);
                        let found = found.map_err(|why| Malformed { line: *line, why })?;
                        function
                            .calls
                            .extend(found.map(|site| Call { line: *line, ..site }));
                        last = None;
                    }
                    _ => {
                        function.refers_to.insert(name.clone().into_owned());
                        if !is_sign(body, at + 1, '(') {
                            self.taken.insert(name.clone().into_owned());
                        }
                    }
                },
                _ => {}
            }
        }
        function.straight = ends == 1 && labels == 0;
        Ok(())
    }

    fn group(&mut self, tokens: Tokens<'_, '_>, at: usize) -> usize {
        let group = match tokens.get(at + 1) {
            Some((_, Token::Group(group))) if is_sign(tokens, at + 3, '{') => *group,
            _ => return at + 1,
        };
        let Ok(end) = behind(tokens, at + 3) else {
            return at + 1;
        };
        let mut words = tokens.iter().take(end).skip(at);
        if words.any(|(_, token)| token.is("noinline") || token.is("optnone")) {
            self.not_inlined.insert(group.to_owned());
        }
        end
    }

    /// A global variable or an alias: what its value refers to. Returns where the next statement
    /// begins.
    fn global(&mut self, name: &str, tokens: Tokens<'_, '_>, start: usize) -> usize {
        let mut at = start;
        let (mut refers_to, mut alias) = (Vec::new(), false);
        while let Some((_, token)) = tokens.get(at) {
            let statement = match token {
                Token::Word(
                    "define" | "declare" | "attributes" | "target" | "module" | "source_filename",
                ) => true,
                Token::Global(_) | Token::Local | Token::Word(_) => is_sign(tokens, at + 1, '='),
                _ => false,
            };
            if statement {
                break;
            }
            match token {
                Token::Word("alias") => alias = true,
                Token::Global(found) => refers_to.push(found.clone().into_owned()),
                _ => {}
            }
            at += 1;
        }
        match refers_to.first() {
            Some(first) if alias => {
                self.aliases.insert(name.to_owned(), first.clone());
            }
            _ if matches!(name, "llvm.used" | "llvm.compiler.used") => {}
            _ => {
                self.taken.extend(refers_to.iter().cloned());
                self.globals.insert(name.to_owned(), refers_to);
            }
        }
        at
    }

    fn finish(mut self, program: &mut Program) {
        for (mut function, groups) in self.functions.drain(..).zip(self.groups) {
            function.inlined &= !groups.iter().any(|group| self.not_inlined.contains(group));
            let index = program.functions.len();
            program
                .names
                .entry(function.name.clone())
                .or_default()
                .push(index);
            program.functions.push(function);
        }
        for (name, refers_to) in self.globals {
            program.globals.entry(name).or_default().extend(refers_to);
        }
        for (alias, mut name) in self.aliases {
            program
                .globals
                .entry(alias.clone())
                .or_default()
                .push(name.clone());
            // Of an alias of an alias, the function; a file that LLVM takes has no circles.
            for _ in 0..8 {
                match program.globals.get(&name).and_then(|next| next.first()) {
                    Some(next) if !program.names.contains_key(&name) => name = next.clone(),
                    _ => break,
                }
            }
            if let Some(functions) = program.names.get(&name).cloned() {
                program.names.entry(alias).or_default().extend(functions);
            }
        }
        program.taken.extend(self.taken);
    }
}

/// Behind a type and a value of it.
fn behind_constant(tokens: Tokens<'_, '_>, at: usize) -> Result<usize, Malformed> {
    let one = |at: usize| match tokens.get(at) {
        Some((_, token)) if opens(token) => behind(tokens, at),
        Some(_) => Ok(at + 1),
        None => Err(malformed(tokens, at, "a definition has no body")),
    };
    let mut at = one(at)?;
    while is_sign(tokens, at, '*') {
        at += 1;
    }
    at = one(at)?;
    match tokens.get(at) {
        // c"text", or an expression of constants.
        Some((_, Token::Text(_))) => Ok(at + 1),
        Some((_, Token::Sign('('))) => behind(tokens, at),
        _ => Ok(at),
    }
}

/// A call of one of the three; the name is what follows `llvm.experimental.`, and `open` is where
/// its operands begin.
fn site(
    name: &str,
    header: Tokens<'_, '_>,
    body: Tokens<'_, '_>,
    open: usize,
) -> Result<Option<Call>, String> {
    let kind = match name.split('.').next() {
        Some(kind @ ("stackmap" | "patchpoint")) => kind,
        Some("gc") if name.starts_with("gc.statepoint") => "gc.statepoint",
        _ => return Ok(None),
    };
    let end = behind(body, open).map_err(|fault| fault.why)?;
    let operands = split(between(body, open, end));
    let number = |at: usize, bits: u32, what: &str| match operands.get(at).map(|tokens| operand(tokens)) {
        Some(Operand::Constant { bits: found, value }) if found == bits => Ok(value),
        _ => Err(format!("the call of {kind} has no i{bits} for its {what}")),
    };
    let id = number(0, 64, "ID")?;
    let bytes = number(1, 32, "number of bytes")?;
    let bytes = match i32::try_from(bytes) {
        Ok(bytes) => bytes.unsigned_abs(),
        Err(_) => return Err(format!("the call of {kind} reserves a negative number of bytes")),
    };
    let mut call = Call {
        line: 0,
        id,
        meaning: Meaning::Statepoint,
        free: 0,
        has_result: false,
        null: false,
        live: Vec::new(),
    };
    match kind {
        "gc.statepoint" => {}
        "stackmap" => {
            call.meaning = Meaning::Shape(CallShape::shadow(bytes));
            call.live = operands.iter().skip(2).map(|tokens| operand(tokens)).collect();
        }
        _ => {
            let count = number(3, 32, "number of arguments")?;
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            let live = operands.get(4..).and_then(|rest| rest.get(count as usize..));
            let live = live.ok_or_else(|| format!("the call of {kind} has fewer than {count} arguments"))?;
            call.live = live.iter().map(|tokens| operand(tokens)).collect();
            call.null = operands.get(2).is_some_and(|tokens| is_null(tokens));
            let (convention, has_result) = header_of(header);
            let shape = |shape: CallShape| match has_result {
                true => shape.result().args(count),
                false => shape.args(count),
            };
            call.meaning = match convention.as_deref() {
                Some("anyregcc" | "cc 13") => {
                    call.has_result = has_result;
                    call.free = count;
                    Meaning::Shape(shape(CallShape::any_reg(bytes)))
                }
                None | Some("ccc" | "cc 0") => Meaning::Shape(shape(CallShape::c(bytes))),
                // protection: other-conventions-are-not-c
                Some(other) => Meaning::Convention(other.to_owned()),
            };
        }
    }
    Ok(Some(call))
}

/// The operands between commas.
fn split<'t, 'a>(tokens: Tokens<'t, 'a>) -> Vec<Tokens<'t, 'a>> {
    let mut depth = 0_u64;
    let parts = tokens.split(|(_, token)| {
        if opens(token) {
            depth += 1;
        } else if closes(token) {
            depth = depth.saturating_sub(1);
        }
        depth == 0 && token.is_sign(',')
    });
    parts.filter(|part| !part.is_empty()).collect()
}

fn is_null(operand: Tokens<'_, '_>) -> bool {
    operand.last().is_some_and(|(_, token)| token.is("null"))
}

/// The number of bits of `iN`.
fn bits(token: &Token<'_>) -> Option<u32> {
    match token {
        Token::Word(word) => word.strip_prefix('i')?.parse().ok(),
        _ => None,
    }
}

/// What an operand's location tells of it.
fn operand(tokens: Tokens<'_, '_>) -> Operand {
    let pointer = tokens
        .iter()
        .any(|(_, token)| token.is("ptr") || token.is_sign('*'));
    let Some((_, first)) = tokens.first() else {
        return Operand::Wide;
    };
    match (bits(first), tokens.last()) {
        (Some(bits), Some((_, last))) if bits <= 64 && !is_sign(tokens, 1, '*') => match value(last, bits) {
            Some(value) if tokens.len() > 1 => Operand::Constant { bits, value },
            _ => Operand::One,
        },
        _ if pointer && (first.is("ptr") || is_sign(tokens, 1, '*')) && is_null(tokens) => Operand::Null,
        _ if pointer && !opens(first) => Operand::One,
        _ if first.is("float") || first.is("double") => Operand::One,
        _ => Operand::Wide,
    }
}

fn value(token: &Token<'_>, bits: u32) -> Option<u64> {
    let Token::Word(word) = token else { return None };
    let value = match *word {
        "true" => 1,
        "false" | "zeroinitializer" => 0,
        word => match word.strip_prefix("u0x").or_else(|| word.strip_prefix("s0x")) {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => word.parse::<i128>().ok()? as u64,
        },
    };
    Some(value & mask(bits))
}

/// The low bits of a number.
pub(super) fn mask(bits: u32) -> u64 {
    1_u64.checked_shl(bits).map_or(u64::MAX, |bit| bit - 1)
}

const TYPES: [&str; 14] = [
    "void",
    "half",
    "bfloat",
    "float",
    "double",
    "fp128",
    "x86_fp80",
    "ppc_fp128",
    "x86_mmx",
    "x86_amx",
    "ptr",
    "token",
    "metadata",
    "label",
];
/// What may come between `call` and a type besides a convention.
const ATTRIBUTES: [&str; 24] = [
    "nnan",
    "ninf",
    "nsz",
    "arcp",
    "contract",
    "afn",
    "reassoc",
    "fast",
    "zeroext",
    "signext",
    "noext",
    "inreg",
    "noalias",
    "nonnull",
    "noundef",
    "returned",
    "align",
    "alignstack",
    "dereferenceable",
    "dereferenceable_or_null",
    "addrspace",
    "range",
    "nofpclass",
    "initializes",
];

/// The calling convention between `call` and the function, if there is one, and whether
/// there is a result.
fn header_of(header: Tokens<'_, '_>) -> (Option<String>, bool) {
    let mut convention = None;
    let mut at = 0;
    while let Some((_, token)) = header.get(at) {
        match token {
            Token::Word("cc") => {
                if let Some((_, Token::Word(number))) = header.get(at + 1) {
                    convention = Some(format!("cc {number}"));
                }
                at += 1;
            }
            Token::Word(word) if TYPES.contains(word) || bits(token).is_some() => {
                return (convention, *word != "void" || is_sign(header, at + 1, '*'));
            }
            Token::Word(word) if ATTRIBUTES.contains(word) || word.parse::<u64>().is_ok() => {}
            Token::Word(word) => convention = Some((*word).to_owned()),
            // The parameters of an attribute.
            Token::Sign('(') => {
                at = behind(header, at).unwrap_or(header.len());
                continue;
            }
            Token::Sign('{' | '[' | '<') | Token::Local => break,
            _ => {}
        }
        at += 1;
    }
    (convention, true)
}
