//! Writes a random module.

use std::fmt::Write as _;

use super::{Random, Target};

/// What a call is, as the generator has written it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Shadow(u32),
    Patchpoint {
        any_reg: bool,
        bytes: u32,
        result: bool,
        args: u32,
    },
    /// A patchpoint of a convention that is neither.
    Other(String),
    Statepoint,
}

impl Shape {
    pub(super) fn bytes(&self) -> Option<u32> {
        match self {
            Self::Shadow(bytes) | Self::Patchpoint { bytes, .. } => Some(*bytes),
            Self::Other(_) | Self::Statepoint => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The ID that repeats.
    pub(super) id: i64,
    pub(super) shape: Shape,
}

impl Call {
    pub(super) fn is_statepoint(&self) -> bool {
        self.shape == Shape::Statepoint
    }
}

/// A module, in which each call has the ID [`FIRST`] and its number.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
}

/// No other number in the text looks like it.
const FIRST: u64 = 7_700_000;
const DIGITS: usize = 7;

impl Written {
    pub(super) fn call_of(&self, id: u64) -> Option<usize> {
        let number = usize::try_from(id.checked_sub(FIRST)?).ok()?;
        (number < self.calls.len()).then_some(number)
    }

    /// Whether the ID is that of calls of several shapes.
    pub(super) fn has_several(&self, id: u64) -> bool {
        let mut shapes = self.calls.iter().filter(|call| call.id as u64 == id);
        let first = shapes.next();
        first.is_some_and(|first| shapes.any(|call| call.shape != first.shape))
    }

    /// The text with the IDs that repeat.
    pub(super) fn repeated(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("77000") {
            let (before, from) = rest.split_at(at);
            let number = from.get(..DIGITS).and_then(|digits| digits.parse().ok());
            let call = number.and_then(|id| self.call_of(id));
            out.push_str(before);
            match call {
                Some(call) => {
                    let _ = write!(out, "{}", self.calls[call].id);
                    rest = &from[DIGITS..];
                }
                None => {
                    out.push_str(&from[..1]);
                    rest = &from[1..];
                }
            }
        }
        out.push_str(rest);
        out
    }
}

struct Writer<'r> {
    random: &'r mut Random,
    target: &'r Target,
    old: bool,
    text: String,
    calls: Vec<Call>,
    /// Few, so that they repeat.
    ids: Vec<i64>,
    /// Functions that may be called, and so inlined.
    helpers: Vec<String>,
    next: u32,
    /// What may be an operand, where the next instruction is written.
    values: Vec<String>,
    gc: bool,
}

const HEADER: &str = r#"; @llvm.experimental.stackmap(i64 1, i32 99) in a comment (
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare token @llvm.experimental.gc.statepoint.p0(i64, i32, ptr, i32, i32, ...)
declare void @ext(i64)
declare void @collect()
@text = constant [36 x i8] c"call @llvm.experimental.stackmap(;)\00"
"#;

/// Writes a module for a target; an old LLVM knows less.
pub(super) fn write(random: &mut Random, target: &Target, old: bool) -> Written {
    let ids = [7, 8, -3, 42, 2_882_400_000, i64::MIN + 5, 78];
    let count = 1 + random.below(4);
    let ids = (0..count).map(|_| random.one_of(&ids)).collect();
    let mut writer = Writer {
        random,
        target,
        old,
        text: format!("target triple = \"{}\"\n{HEADER}", target.triple),
        calls: Vec::new(),
        ids,
        helpers: Vec::new(),
        next: 0,
        values: Vec::new(),
        gc: false,
    };
    for helper in 0..writer.random.below(4) {
        writer.helper(helper);
    }
    for function in 0..2 + writer.random.below(4) {
        writer.main(function);
    }
    writer
        .text
        .push_str("attributes #0 = { nounwind }\nattributes #1 = { \"x\"=\"}{\" noinline }\n");
    if writer.random.percent(15) {
        writer.text = writer.text.replace('\n', "\r\n");
    }
    Written {
        text: writer.text,
        calls: writer.calls,
    }
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        match self.random.below(4) {
            0 => format!("%\"v({}\"", self.next),
            _ => format!("%v{}", self.next),
        }
    }

    fn value(&mut self) -> String {
        let at = self.random.below(self.values.len());
        self.values[at].clone()
    }

    fn name(&mut self, what: &str, number: usize) -> String {
        match self.random.below(5) {
            0 => format!("@\"{what} {number}\""),
            1 => format!("@\"{what}\\22{number}$\""),
            2 => format!("@_{what}{number}"),
            _ => format!("@{what}.{number}"),
        }
    }

    fn helper(&mut self, number: usize) {
        let name = self.name("helper", number);
        let linkage = self
            .random
            .one_of(&["internal ", "", "linkonce_odr ", "internal "]);
        let attribute = self.random.one_of(&["", "", "noinline ", "#1 ", "alwaysinline "]);
        self.function(&format!("define {linkage}i64 {name}"), attribute);
        self.helpers.push(name);
    }

    fn main(&mut self, number: usize) {
        let name = self.name("main", number);
        let start = self
            .random
            .one_of(&["define i64 ", "define dso_local noundef i64 ", "define\n  i64\t"]);
        self.function(&format!("{start}{name}"), "");
        if self.random.percent(30) {
            self.helpers.push(name);
        }
    }

    fn function(&mut self, start: &str, attribute: &str) {
        self.gc = self.target.statepoints && self.random.percent(40);
        let gc = if self.gc { "gc \"statepoint-example\" " } else { "" };
        self.line(&format!(
            "{start}(i64 %a, i64 noundef %b, ptr %p) {attribute}{gc}{{"
        ));
        if self.random.percent(60) {
            self.line("entry:");
        }
        self.line("  %slot = alloca i64");
        self.values = vec!["%a".to_owned(), "%b".to_owned()];
        self.items(4);
        match self.random.below(5) {
            0 => self.branch(),
            1 => self.repeat(),
            _ => {}
        }
        let value = self.value();
        self.line(&format!("  ret i64 {value}\n}}"));
    }

    fn branch(&mut self) {
        let (condition, value) = (self.fresh(), self.value());
        let before = self.values.clone();
        self.line(&format!("  {condition} = icmp slt i64 {value}, 5"));
        self.line(&format!(
            "  br i1 {condition}, label %left, label %\"ri ght\"\nleft:"
        ));
        self.items(3);
        self.line("  br label %joined\n\"ri ght\":");
        self.values.clone_from(&before);
        self.items(3);
        self.line("  br label %joined\njoined:");
        self.values = before;
        self.items(2);
    }

    fn repeat(&mut self) {
        let (condition, next) = (self.fresh(), self.fresh());
        self.line("  br label %before\nbefore:\n  br label %head\nhead:");
        self.line(&format!("  %i = phi i64 [ 0, %before ], [ {next}, %head ]"));
        self.values.push("%i".to_owned());
        self.items(3);
        self.line(&format!("  {next} = add i64 %i, 1"));
        let rounds = 2 + self.random.below(3);
        self.line(&format!("  {condition} = icmp eq i64 {next}, {rounds}"));
        self.line(&format!("  br i1 {condition}, label %out, label %head\nout:"));
        self.items(2);
    }

    fn items(&mut self, most: usize) {
        for _ in 0..1 + self.random.below(most) {
            match self.random.below(20) {
                0..=3 => {
                    let value = self.value();
                    for _ in 0..1 + self.random.below(6) {
                        self.line(&format!("  store volatile i64 {value}, ptr %p"));
                    }
                }
                4 => {
                    let value = self.value();
                    self.line(&format!("  call void @ext(i64 {value})"));
                }
                5 | 6 if !self.helpers.is_empty() => {
                    let (result, at) = (self.fresh(), self.random.below(self.helpers.len()));
                    let (helper, value) = (self.helpers[at].clone(), self.value());
                    self.line(&format!(
                        "  {result} = call i64 {helper}(i64 {value}, i64 1, ptr %p)"
                    ));
                    self.values.push(result);
                }
                7 => {
                    let (result, a, b) = (self.fresh(), self.value(), self.value());
                    self.line(&format!("  {result} = mul i64 {a}, {b}"));
                    self.values.push(result);
                }
                8 | 9 if self.gc => self.statepoint(),
                // The same call twice, with the same ID or not.
                10 => {
                    let live = self.live();
                    for _ in 0..2 {
                        self.stackmap(&live);
                    }
                }
                11..=14 => {
                    let live = self.live();
                    self.stackmap(&live);
                }
                _ => self.patchpoint(),
            }
        }
    }

    /// Notes a call, and returns the ID that it has in the text.
    fn call(&mut self, shape: Shape) -> String {
        let at = self.random.below(self.ids.len());
        let id = match self.random.percent(75) {
            true => self.ids[at],
            false => 1000 + self.calls.len() as i64,
        };
        self.calls.push(Call { id, shape });
        format!("i64 {}", FIRST + self.calls.len() as u64 - 1)
    }

    fn live(&mut self) -> Vec<String> {
        (0..self.random.below(4))
            .map(|_| match self.random.below(12) {
                0 => "i64 81985529216486895".to_owned(),
                1 => format!("i64 {}", self.random.below(3)),
                2 => "i32 -1".to_owned(),
                3 => "ptr null".to_owned(),
                4 if !self.old => "i1 true".to_owned(),
                5 if !self.old => "i8 200".to_owned(),
                6 => "ptr %slot".to_owned(),
                7 => "ptr %p".to_owned(),
                8 => "i64 undef".to_owned(),
                _ => format!("i64 {}", self.value()),
            })
            .collect()
    }

    fn bytes(&mut self, of: &[u32]) -> u32 {
        let bytes = self.random.one_of(of);
        let unit = self.target.unit;
        match unit {
            1 if self.random.percent(10) && bytes > 0 => bytes + 1,
            _ => bytes.next_multiple_of(unit),
        }
    }

    fn stackmap(&mut self, live: &[String]) {
        let bytes = self.bytes(&[0, 0, 4, 8, 16]);
        let id = self.call(Shape::Shadow(bytes));
        let operands = [&[id, format!("i32 {bytes}")], live].concat();
        self.written("", "", "void", "(i64, i32, ...)", "stackmap", &operands, "");
    }

    fn patchpoint(&mut self) {
        let convention = match self.random.below(20) {
            0..=6 => "",
            7..=14 => "anyregcc",
            15 => "cc 13",
            16 => "ccc",
            17 => "cc 0",
            _ => self.random.one_of(self.target.conventions),
        };
        let called = self.random.percent(25);
        let (bytes, target) = match called {
            true => (
                self.bytes(&[48, 56, 64]),
                "ptr inttoptr (i64 20015998341120 to ptr)",
            ),
            false => (self.bytes(&[0, 4, 8, 16, 24, 32]), "ptr null"),
        };
        let count = self.random.below(4);
        let result = self.random.percent(60);
        let shape = match convention {
            "" | "ccc" | "cc 0" | "anyregcc" | "cc 13" => Shape::Patchpoint {
                any_reg: matches!(convention, "anyregcc" | "cc 13"),
                bytes,
                result,
                args: count as u32,
            },
            other => Shape::Other(other.to_owned()),
        };
        let id = self.call(shape);
        let mut operands = vec![
            id,
            format!("i32 {bytes}"),
            target.to_owned(),
            format!("i32 {count}"),
        ];
        for _ in 0..count {
            let value = self.value();
            operands.push(format!("i64 {value}"));
        }
        operands.extend(self.live());
        let (name, ty, tail) = match result {
            true => (self.fresh(), "i64", "patchpoint.i64"),
            false => (String::new(), "void", "patchpoint.void"),
        };
        self.written(
            &name,
            convention,
            ty,
            "(i64, i32, ptr, i32, ...)",
            tail,
            &operands,
            "",
        );
        if result {
            self.values.push(name);
        }
    }

    fn statepoint(&mut self) {
        let bytes = match self.random.percent(25) {
            true => self.bytes(&[8, 16]),
            false => 0,
        };
        let id = self.call(Shape::Statepoint);
        let flags = 0;
        let operands = [
            id,
            format!("i32 {bytes}"),
            "ptr elementtype(void ()) @collect".to_owned(),
            "i32 0".to_owned(),
            format!("i32 {flags}"),
            "i32 0".to_owned(),
            "i32 0".to_owned(),
        ];
        let deopt = match self.random.below(3) {
            0 => {
                let value = self.value();
                format!(" [ \"deopt\"(i32 3, i64 {value}) ]")
            }
            _ => String::new(),
        };
        let name = self.fresh();
        let types = "(i64, i32, ptr, i32, i32, ...)";
        self.written(&name, "", "token", types, "gc.statepoint.p0", &operands, &deopt);
    }

    /// Writes a call in one of many ways.
    #[expect(clippy::too_many_arguments, reason = "the parts of a call, in their order")]
    fn written(
        &mut self,
        result: &str,
        convention: &str,
        ty: &str,
        types: &str,
        name: &str,
        operands: &[String],
        bundles: &str,
    ) {
        let assigned = match result {
            "" => String::new(),
            result => format!("{result} = "),
        };
        let tail = self.random.one_of(&["", "", "", "tail ", "notail "]);
        let function = match self.random.percent(10) {
            true => format!("@\"llvm.experimental.{name}\""),
            false => format!("@llvm.experimental.{name}"),
        };
        // An attribute of the result.
        let attribute = match ty {
            "i64" if self.random.percent(15) => "noundef ",
            _ => "",
        };
        let after = self.random.one_of(&["", "", " #0", " nounwind"]);
        // A statepoint is no tail call.
        let tail = if ty == "token" { "" } else { tail };
        let line = match self.random.below(6) {
            0 => {
                let operands = operands.join(" , ").replace(' ', "  ");
                format!(
                    "\t{assigned}{tail}call\t{convention}  {attribute}{ty}  {types}\t{function}(  {operands} ){after}{bundles}"
                )
            }
            1 => {
                let operands = operands.join(" ; a comment, ) with \" signs\n      ,");
                format!(
                    "  {assigned}{tail}call {convention} ; {function}(i64 1, i32 2)\n   {attribute}{ty}\n  {types}\n\n {function}(\n  \
                     {operands}\n  ){after}{bundles} ; )"
                )
            }
            _ => {
                let space = if convention.is_empty() { "" } else { " " };
                let operands = operands.join(", ");
                format!(
                    "  {assigned}{tail}call {convention}{space}{attribute}{ty} {types} {function}({operands}){after}{bundles}"
                )
            }
        };
        self.line(&line);
    }
}
