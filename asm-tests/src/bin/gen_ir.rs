//! Writes a random source that obeys the contract of the objects: `gen_ir SEED > random_SEED.ll`.
//!
//! Values of every type are computed from the parameters, passed to random sites as arguments and
//! live values, and mixed into the result afterwards, so that a lost value changes it. Sources of
//! even seeds have neither floating-point code nor calls, and so keep their live-outs (see the
//! README of the objects).
#![expect(
    clippy::indexing_slicing,
    reason = "a generator that is run by hand; every index is taken below the length"
)]

use std::fmt::Write as _;

/// xorshift64*: the same source for the same seed everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }

    fn one_of<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        (!items.is_empty())
            .then(|| items.get(self.below(items.len())).cloned())
            .flatten()
    }
}

const CALL_VALUE: &str = "i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64";
const CALL_VOID: &str = "void (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.void";
const INTEGER_OPS: [&str; 6] = ["add", "sub", "mul", "xor", "or", "and"];
const CONSTANTS: [&str; 6] = ["0", "-1", "5", "4294967295", "-2147483649", "1311768467463790320"];

/// At O0 the fast register allocator wants everything that a record names in registers at once.
const MAX_INTEGERS: usize = 7;

struct Generator {
    random: Random,
    floats: bool,
    text: String,
    next_value: u32,
    next_id: u64,
    integers: Vec<String>,
    others: Vec<(&'static str, String)>,
    slots: Vec<String>,
}

impl Generator {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn fresh(&mut self) -> String {
        self.next_value += 1;
        format!("%v{}", self.next_value)
    }

    fn define(&mut self, expression: &str) -> String {
        let name = self.fresh();
        self.line(&format!("  {name} = {expression}"));
        name
    }

    fn integer(&mut self) -> String {
        let integers = self.integers.clone();
        self.random.one_of(&integers).unwrap_or_else(|| "7".to_owned())
    }

    fn compute(&mut self) {
        let (a, b) = (self.integer(), self.integer());
        let op = INTEGER_OPS[self.random.below(INTEGER_OPS.len())];
        let odd = self.random.next() | 1;
        let name = self.define(&format!("{op} i64 {a}, {b}"));
        let mixed = self.define(&format!("xor i64 {name}, {}", odd as i64));
        self.integers.push(mixed);
        match self.random.below(6) {
            0 => {
                let narrow = ["i8", "i16", "i32"][self.random.below(3)];
                let value = self.define(&format!("trunc i64 {a} to {narrow}"));
                self.others.push((narrow, value));
            }
            1 if self.floats => {
                let small = self.define(&format!("and i64 {b}, 65535"));
                let kind = ["float", "double"][self.random.below(2)];
                let value = self.define(&format!("sitofp i64 {small} to {kind}"));
                let value = self.define(&format!("fmul {kind} {value}, 1.250000e+00"));
                self.others.push((kind, value));
            }
            2 if self.floats => {
                let value = self.define(&format!(
                    "insertelement <2 x i64> zeroinitializer, i64 {a}, i32 1"
                ));
                self.others.push(("<2 x i64>", value));
            }
            _ => {}
        }
    }

    fn store_slot(&mut self) {
        let value = self.integer();
        let slots = self.slots.clone();
        if let Some(slot) = self.random.one_of(&slots) {
            self.line(&format!("  store volatile i64 {value}, ptr {slot}"));
        }
    }

    /// `count` live values, as operands of a call; integers among them at most `integers`.
    fn live_values(&mut self, count: usize, mut integers: usize) -> String {
        let mut operands = String::new();
        for _ in 0..count {
            let (others, slots) = (self.others.clone(), self.slots.clone());
            let operand = match self.random.below(5) {
                0 if integers > 0 => self.random.one_of(&others).inspect(|_| integers -= 1),
                1 => self.random.one_of(&slots).map(|slot| ("ptr", slot)),
                2 | 3 if integers > 0 => {
                    integers -= 1;
                    Some(("i64", self.integer()))
                }
                _ => self
                    .random
                    .one_of(&CONSTANTS)
                    .map(|constant| ("i64", constant.to_owned())),
            };
            if let Some((kind, value)) = operand {
                let _ = write!(operands, ", {kind} {value}");
            }
        }
        operands
    }

    fn site(&mut self) {
        let id = self.next_id;
        self.next_id += 1;
        let live = self.random.below(9);
        if self.random.below(4) == 0 {
            let live = self.live_values(live, MAX_INTEGERS);
            let shadow = self.random.below(33);
            let text = format!(
                "  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 {id}, i32 {shadow}{live})"
            );
            return self.line(&text);
        }
        let any_reg = self.random.below(3) != 0;
        let args = self.random.below(if any_reg { 5 } else { 9 });
        let mut operands = String::new();
        for _ in 0..args {
            let _ = write!(operands, ", i64 {}", self.integer());
        }
        operands += &self.live_values(live, MAX_INTEGERS.saturating_sub(args));
        let reserved = 24 + self.random.below(41);
        let convention = if any_reg { "anyregcc " } else { "" };
        if self.random.below(4) == 0 {
            let text = format!(
                "  call {convention}{CALL_VOID}(i64 {id}, i32 {reserved}, ptr null, i32 {args}{operands})"
            );
            return self.line(&text);
        }
        let call = format!(
            "call {convention}{CALL_VALUE}(i64 {id}, i32 {reserved}, ptr null, i32 {args}{operands})"
        );
        let result = self.define(&call);
        self.integers.push(result);
    }

    /// A diamond with a site on one side.
    fn branch(&mut self) {
        let (a, b) = (self.integer(), self.integer());
        let n = self.next_value;
        let less = self.define(&format!("icmp ult i64 {a}, {b}"));
        self.line(&format!(
            "  br i1 {less}, label %then{n}, label %else{n}\nthen{n}:"
        ));
        let id = self.next_id;
        self.next_id += 1;
        let live = self.live_values(4, 4);
        let x = self.define(&format!(
            "call anyregcc {CALL_VALUE}(i64 {id}, i32 32, ptr null, i32 2, i64 {a}, i64 {b}{live})"
        ));
        self.line(&format!("  br label %join{n}\nelse{n}:"));
        let y = self.define(&format!("sub i64 {a}, {b}"));
        self.line(&format!("  br label %join{n}\njoin{n}:"));
        let z = self.define(&format!("phi i64 [ {x}, %then{n} ], [ {y}, %else{n} ]"));
        self.integers.push(z);
    }

    fn mix(&mut self, sum: &str, value: &str) -> String {
        let scaled = self.define(&format!("mul i64 {sum}, 31"));
        self.define(&format!("add i64 {scaled}, {value}"))
    }

    /// Everything that was ever a live value goes into the result.
    fn finish(&mut self) {
        let mut sum = "17".to_owned();
        for value in std::mem::take(&mut self.integers) {
            sum = self.mix(&sum, &value);
        }
        for (kind, value) in std::mem::take(&mut self.others) {
            let wide = match kind {
                "double" => self.define(&format!("bitcast double {value} to i64")),
                "float" => {
                    let bits = self.define(&format!("bitcast float {value} to i32"));
                    self.define(&format!("zext i32 {bits} to i64"))
                }
                "<2 x i64>" => self.define(&format!("extractelement <2 x i64> {value}, i32 1")),
                _ => self.define(&format!("zext {kind} {value} to i64")),
            };
            sum = self.mix(&sum, &wide);
        }
        for slot in std::mem::take(&mut self.slots) {
            let value = self.define(&format!("load volatile i64, ptr {slot}"));
            sum = self.mix(&sum, &value);
        }
        self.line(&format!("  ret i64 {sum}\n}}"));
    }

    fn function(&mut self, name: &str) {
        self.next_value = 0;
        self.integers = vec!["%a".to_owned(), "%b".to_owned()];
        self.line(&format!(
            "\ndefine i64 @{name}(i64 %a, i64 %b) uwtable {{\nentry:"
        ));
        for _ in 0..self.random.below(4) {
            let slot = self.define("alloca i64");
            self.line(&format!("  store volatile i64 0, ptr {slot}"));
            self.slots.push(slot);
        }
        for _ in 0..4 + self.random.below(6) {
            match self.random.below(8) {
                0..=2 => self.compute(),
                3 => self.store_slot(),
                4 => self.branch(),
                _ => self.site(),
            }
        }
        self.compute();
        self.site();
        self.finish();
    }
}

fn main() {
    let Some(seed) = std::env::args().nth(1).and_then(|seed| seed.parse::<u64>().ok()) else {
        eprintln!("usage: gen_ir SEED > random_SEED.ll");
        std::process::exit(2);
    };
    let mut generator = Generator {
        random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        floats: seed % 2 == 1,
        text: String::new(),
        next_value: 0,
        next_id: 1000,
        integers: Vec::new(),
        others: Vec::new(),
        slots: Vec::new(),
    };
    if generator.floats {
        generator.line("; llc: -enable-patchpoint-liveness=false (floating-point code)");
    }
    generator.line(&format!(
        "; Generated: cargo run -p asm-tests --bin gen_ir -- {seed}"
    ));
    generator.line("declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)");
    generator.line("declare void @llvm.experimental.patchpoint.void(i64, i32, ptr, i32, ...)");
    generator.line("declare void @llvm.experimental.stackmap(i64, i32, ...)");
    for index in 0..6 {
        generator.function(&format!("random_{seed}_{index}"));
    }
    print!("{}", generator.text);
}
