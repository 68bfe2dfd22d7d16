//! The evaluator of checks against LLVM's: random expressions over an object without relocations,
//! whose bytes are the same wherever it is placed, have the values that `llvm-jitlink` finds. Where
//! that is missing, it is said and nothing is shown.
//!
//! Left out is what LLVM does not define or take: shifts by 64 and more, slices of 64 bits, spaces
//! behind numbers; and addresses by themselves, as its linker places the object at another address.

use super::*;

const FOLDER: &str = "asm-tests/objects/jitlink/x86_64";
const BASE: &str = "0x10000000";
const EXPRESSIONS: usize = 500;

/// Numbers that look random and are the same in every run (xorshift, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % end
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

struct Expressions<'t> {
    random: Random,
    /// Names of instructions, all in one section.
    symbols: Vec<&'t str>,
    /// Calls of `decode_operand` that have a value.
    operands: Vec<&'t str>,
}

impl Expressions<'_> {
    fn number(&mut self) -> String {
        let number = self.random.0 >> self.random.below(64);
        if self.random.below(2) == 0 {
            format!("{number}")
        } else {
            format!("{number:#x}")
        }
    }

    fn term(&mut self, depth: usize) -> String {
        let choices = if depth == 0 { 7 } else { 10 };
        let choice = self.random.below(choices);
        let (a, b) = (self.random.of(&self.symbols), self.random.of(&self.symbols));
        let size = 1 << self.random.below(4);
        let distance = self.random.below(100);
        match choice {
            0 | 1 => self.number(),
            2 => format!("({a}-{b})"),
            3 => format!("(next_pc({a}) - section_addr(operands.o, .text))"),
            4 => self.random.of(&self.operands).to_owned(),
            5 => format!("(*{{{size}}}main+{distance})"),
            6 => format!("(*{{{size}}}(main + {distance}-{distance}))"),
            7 => {
                let low = self.random.below(63);
                let high = low + self.random.below((63 - low).max(1));
                format!("({})[{high}:{low}]", self.chain(depth - 1))
            }
            _ => format!("({})", self.chain(depth - 1)),
        }
    }

    fn chain(&mut self, depth: usize) -> String {
        let mut text = self.term(depth);
        for _ in 0..self.random.below(4) {
            match self.random.below(6) {
                op @ (0 | 1) => text += &format!("{}{}", ["<<", ">>"][op], self.random.below(64)),
                op => text += &format!("{}{}", ["+", "-", "&", "|"][op - 2], self.term(depth)),
            }
        }
        text
    }
}

#[test]
fn random_expressions_have_the_values_that_llvm_finds() {
    let folder = root().join(FOLDER);
    let source = std::fs::read_to_string(folder.join("operands.s")).unwrap();
    let insns = source.lines().filter_map(|line| line.strip_prefix("\tinsn "));
    let checks = source
        .lines()
        .filter_map(|line| line.strip_prefix("# jitlink-check: "));
    let operands = checks.filter_map(|check| Some(check.split_once(" = ")?.0));
    let mut expressions = Expressions {
        random: Random(0x5eed_0123_4567_89ab),
        symbols: insns.filter_map(|line| Some(line.split_once(',')?.0)).collect(),
        operands: operands
            .filter(|left| left.starts_with("decode_operand("))
            .collect(),
    };
    assert!(expressions.symbols.len() > 30 && expressions.operands.len() > 30);
    let all: Vec<String> = (0..EXPRESSIONS).map(|_| expressions.chain(3)).collect();
    let file = std::env::temp_dir().join(format!("patchpoint-{}-random.s", std::process::id()));
    let path = file.to_str().unwrap();
    let write = |lines: Vec<String>| std::fs::write(&file, lines.concat()).unwrap();
    write(
        all.iter()
            .map(|text| format!("# jitlink-check: {text}=main\n"))
            .collect(),
    );
    let object = format!("{FOLDER}/operands.o");
    let value = json(&["link", &object, "--noexec", "--base", BASE, "--check", path], 1);
    let found = list(&value["checks"]);
    assert_eq!(found.len(), EXPRESSIONS);
    let values = found
        .iter()
        .map(|check| check["left"].as_u64().unwrap_or_else(|| panic!("{check}")));
    let values: Vec<u64> = values.collect();
    let lines = all.iter().zip(&values);
    write(
        lines
            .map(|(text, value)| format!("# jitlink-check: {text}={value:#x}\n"))
            .collect(),
    );
    let mut llvm = Command::new("llvm-jitlink-19");
    llvm.args(["-noexec", "-slab-allocate=1Mb", "-slab-page-size=4096"]);
    llvm.args([format!("-slab-address={BASE}"), format!("-check={path}")])
        .arg(folder.join("operands.o"));
    let output = llvm.output();
    std::fs::remove_file(&file).unwrap();
    let Ok(output) = output else {
        println!("skipped: no llvm-jitlink-19");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let different = values.iter().collect::<std::collections::HashSet<_>>().len();
    println!("{EXPRESSIONS} expressions, {different} values");
    assert!(different > EXPRESSIONS / 2);
}
