//! Single instructions against LLVM's assembler: what the tests of all encoders share.
//!
//! An encoder can take the bits of another operation, put a field in the wrong place or make it too
//! narrow, exchange two operands, or overlook that a register or a value has an encoding of its
//! own. None of that depends on how the other operands were chosen. So each operand in turn takes
//! its boundary values while the others keep a plain one ([`Cases::vary`]), instead of all
//! combinations.
//!
//! An architecture gives a [`Corpus`]: a function that enumerates texts in LLVM's syntax together
//! with what is encoded here for them, and the file in `encodings/` with what LLVM makes of the
//! same texts. The file holds boundary values only ([`Values::Boundaries`]), so that it can be read
//! and a machine without LLVM checks something. Where LLVM 19 is installed, every register and
//! every bit of each field ([`Values::All`]) are compared with it directly. All bytes in the file
//! come from LLVM; `asm-tests/encodings/README.md` says how it is written.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use std::io::Write;
use std::process::{Command, Stdio};

use object::{Object, ObjectSection, ObjectSymbol};

/// How many values an operand takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// A plain one and the boundaries.
    Boundaries,
    /// Every register, and of a number each single bit too.
    All,
}

/// Instructions as text and as they are encoded here.
pub(crate) struct Cases {
    values: Values,
    by_text: BTreeMap<String, Vec<u8>>,
}

impl Cases {
    /// Adds what `emit` appends.
    pub(crate) fn add(&mut self, text: impl Into<String>, emit: impl FnOnce(&mut Vec<u8>)) {
        let (text, mut bytes) = (text.into(), Vec::new());
        emit(&mut bytes);
        let before = self.by_text.insert(text.clone(), bytes.clone());
        assert!(
            before.is_none_or(|before| before == bytes),
            "{text}: encoded in two ways"
        );
    }

    /// The values of an operand: `boundaries`, the first of which is the plain one, or `all` too.
    pub(crate) fn values<T: Copy + PartialEq>(
        &self,
        boundaries: &[T],
        all: impl IntoIterator<Item = T>,
    ) -> Vec<T> {
        let mut values = boundaries.to_vec();
        if self.values == Values::All {
            values.extend(all.into_iter().filter(|value| !boundaries.contains(value)));
        }
        values
    }

    /// The numbers of registers up to `last`: a plain one and both ends.
    pub(crate) fn registers(&self, plain: u8, last: u8) -> Vec<u8> {
        self.values(&[plain, 0, last], 0..=last)
    }

    /// The values of a signed field of so many bits: a plain one, zero, and both ends of both
    /// signs.
    pub(crate) fn signed(&self, bits: u32, plain: i64) -> Vec<i64> {
        let least = -1 << (bits - 1);
        let each_bit = (0..bits - 1).flat_map(|bit| [1 << bit, -1 << bit]);
        self.values(&[plain, 0, -1, least, !least], each_bit)
    }

    /// The values of an unsigned field of so many bits: a plain one, both ends, and the highest bit
    /// alone, which would be a sign.
    pub(crate) fn unsigned(&self, bits: u32, plain: u64) -> Vec<u64> {
        let greatest = u64::MAX >> (64 - bits);
        let each_bit = (0..bits).map(|bit| 1 << bit);
        self.values(&[plain, 0, 1 << (bits - 1), greatest], each_bit)
    }

    /// Each of `a` with the first, plain one of `b`, and each of `b` with the first of `a`. To vary
    /// three operands, vary the third with such pairs, the first of which is the plain one.
    ///
    /// Of all values, every pair too, or where those are too many, each value in some more pairs.
    pub(crate) fn vary<A: Copy, B: Copy>(&self, a: &[A], b: &[B]) -> Vec<(A, B)> {
        const MANY: usize = 950;
        let (first, second) = (a.iter().map(|a| (*a, b[0])), b.iter().map(|b| (a[0], *b)));
        let mut pairs: Vec<_> = first.chain(second.skip(1)).collect();
        match self.values {
            Values::Boundaries => {}
            Values::All if a.len() * b.len() <= MANY => {
                pairs.extend(a.iter().flat_map(|a| b.iter().map(|b| (*a, *b))));
            }
            Values::All => {
                let longer = a.len().max(b.len());
                let more = (0..longer).map(|n| (a[n % a.len()], b[(n + 5) % b.len()]));
                pairs.extend(more);
            }
        }
        pairs
    }
}

/// What is compared of an architecture.
pub(crate) struct Corpus {
    /// Of the file in `encodings/`, without its ending.
    pub(crate) name: &'static str,
    /// What the file holds.
    pub(crate) recorded: &'static str,
    /// How LLVM is told of the architecture.
    pub(crate) options: &'static [&'static str],
    /// The directive that LLVM needs before a text, if it needs one.
    pub(crate) directive: fn(&str) -> &'static str,
    /// Adds the instructions.
    pub(crate) enumerate: fn(&mut Cases),
}

/// The tests of the corpus `$corpus`.
macro_rules! tests_of {
    ($corpus:expr) => {
        #[test]
        fn encodings_are_those_recorded() {
            $corpus.is_recorded();
        }

        // What LLVM makes of a text does not depend on the machine that asks.
        #[test]
        #[cfg_attr(emulated, ignore = "is the same natively, and slow here")]
        fn recorded_encodings_are_those_of_llvm() {
            $corpus.is_llvms();
        }

        #[test]
        #[cfg_attr(emulated, ignore = "is the same natively, and slow here")]
        fn every_register_and_bit_is_encoded_as_by_llvm() {
            $corpus.is_encoded_as_by_llvm();
        }

        #[test]
        #[ignore = "writes the file that the other tests read"]
        fn write_encodings() {
            $corpus.write();
        }
    };
}
pub(crate) use tests_of;

impl Corpus {
    fn cases(&self, values: Values) -> BTreeMap<String, Vec<u8>> {
        let mut cases = Cases {
            values,
            by_text: BTreeMap::new(),
        };
        (self.enumerate)(&mut cases);
        cases.by_text
    }

    fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        let lines = self.recorded.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split_once('\t').expect("a text and its bytes"))
    }

    /// What is encoded is what the file holds, no more and no less.
    pub(crate) fn is_recorded(&self) {
        let (ours, recorded): (_, BTreeMap<_, _>) = (self.cases(Values::Boundaries), self.lines().collect());
        let of_file = |text: &str| recorded.get(text).copied().unwrap_or("nothing, in the file");
        compare(
            ours.iter()
                .map(|(text, bytes)| (&**text, hex(bytes), of_file(text))),
        );
        let texts: BTreeSet<_> = ours.keys().map(String::as_str).collect();
        let gone: Vec<_> = recorded.keys().filter(|text| !texts.contains(*text)).collect();
        assert!(gone.is_empty(), "in the file only: {gone:#?}");
    }

    /// What the file holds is what LLVM makes of its texts.
    pub(crate) fn is_llvms(&self) {
        let lines: Vec<_> = self.lines().collect();
        let texts: Vec<_> = lines.iter().map(|(text, _)| *text).collect();
        let Some(theirs) = self.assemble_with_llvm(&texts) else {
            return std::println!("skipped: llvm-mc 19 is not installed");
        };
        compare(
            lines
                .iter()
                .zip(&theirs)
                .map(|((text, recorded), theirs)| (*text, recorded.to_string(), theirs.as_str())),
        );
    }

    /// What is encoded with all values is what LLVM makes of the same texts.
    pub(crate) fn is_encoded_as_by_llvm(&self) {
        let ours = self.cases(Values::All);
        let texts: Vec<_> = ours.keys().map(String::as_str).collect();
        let Some(theirs) = self.assemble_with_llvm(&texts) else {
            return std::println!("skipped: llvm-mc 19 is not installed");
        };
        std::println!("{}: {} instructions compared", self.name, ours.len());
        compare(
            ours.iter()
                .zip(&theirs)
                .map(|((text, bytes), theirs)| (&**text, hex(bytes), theirs.as_str())),
        );
    }

    /// Writes the file.
    pub(crate) fn write(&self) {
        let ours = self.cases(Values::Boundaries);
        let texts: Vec<_> = ours.keys().map(String::as_str).collect();
        let bytes = self.assemble_with_llvm(&texts).expect("llvm-mc 19");
        let mut file = format!(
            "# What llvm-mc {} makes of each text; see asm-tests/encodings/README.md.\n",
            self.options.join(" ")
        );
        for (text, bytes) in texts.iter().zip(bytes) {
            file.push_str(&format!("{text}\t{bytes}\n"));
        }
        let path = format!("{}/encodings/{}.txt", env!("CARGO_MANIFEST_DIR"), self.name);
        std::fs::write(path, file).unwrap();
    }

    /// What LLVM 19 makes of the texts; `None` where it is not installed.
    ///
    /// A label is before each, since nothing else tells which of the object's bytes are whose
    /// for every architecture: listings show no bytes for some, and a prefix is an instruction of
    /// its own for others.
    fn assemble_with_llvm(&self, texts: &[&str]) -> Option<Vec<String>> {
        let mut child = Command::new(llvm_mc()?)
            .args(self.options)
            .arg("-filetype=obj")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let line = |(n, text): (usize, &&str)| {
            let (directive, text) = ((self.directive)(text), text.replace("; ", "\n"));
            format!("{directive}\ntext{n}:\n{text}\n")
        };
        let input: String = texts.iter().enumerate().map(line).collect();
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success(), "llvm-mc refuses a text");
        let object = object::File::parse(&*output.stdout).unwrap();
        let section = object.section_by_name(".text").unwrap();
        assert_eq!(section.relocations().count(), 0, "a text refers to a symbol");
        let code = section.data().unwrap();
        let mut starts = vec![0; texts.len()];
        for symbol in object.symbols() {
            if let Some(n) = symbol.name().unwrap().strip_prefix("text") {
                starts[n.parse::<usize>().unwrap()] = symbol.address() as usize;
            }
        }
        starts.push(code.len());
        Some(
            starts
                .windows(2)
                .map(|ends| hex(&code[ends[0]..ends[1]]))
                .collect(),
        )
    }
}

/// The program, where version 19 is installed.
fn llvm_mc() -> Option<&'static str> {
    ["llvm-mc-19", "llvm-mc"].into_iter().find(|program| {
        let version = Command::new(program).arg("--version").output();
        version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("version 19."))
    })
}

/// Of each text, what it is and what it should be.
fn compare<'a>(all: impl Iterator<Item = (&'a str, String, &'a str)>) {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (text, bytes, expected) in all {
        count += 1;
        if bytes != expected {
            wrong.push(format!("{text}: {bytes} instead of {expected}"));
        }
    }
    assert!(count > 0);
    let shown = &wrong[..wrong.len().min(20)];
    assert!(
        wrong.is_empty(),
        "{} of {count} are different: {shown:#?}",
        wrong.len()
    );
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
