//! The interface fuzzed through its own header: the calls are made of what it declares, so that no
//! function is left out. What they get is in `c/fuzz.c`; `fuzz.sh` runs it for long and under
//! AddressSanitizer.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that finds nothing fails"
)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod tools;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use tools::header::{Declared, declared, growing};
use tools::{compile, object, root, run};

/// What would run or read what the fuzzer makes up, and so gets no handle that is right: functions
/// whose promises about memory nobody can check.
const UNCHECKED: [&str; 2] = ["pp_adopt", "pp_adopt_placed"];

/// What the expression for a parameter is.
fn argument(function: &str, parameter: &str, growing: &BTreeSet<String>, fixed: &mut Fixed) -> String {
    let at = parameter.rfind(['*', ' ']).unwrap() + 1;
    let (kind, name) = parameter.split_at(at);
    let kind = kind.trim().trim_start_matches("const ").to_owned();
    let pointed = kind.trim_end_matches([' ', '*']);
    if kind.ends_with("**") {
        return match pointed {
            "void" => fixed.number("void *"),
            _ => fixed.handle(pointed),
        };
    }
    if !kind.ends_with('*') {
        return match kind.as_str() {
            "pp_str" => "some_text(self)".into(),
            "pp_bytes" => "some_bytes(self)".into(),
            "pp_operand" => "some_operand(self)".into(),
            "pp_source" => "some_source(self)".into(),
            "pp_target" => "some_target(self)".into(),
            "pp_pointer" => "some_pointer(self)".into(),
            "pp_finalizer" => "NULL".into(),
            "pp_handler" => "next(self) % 8 ? handler : NULL".into(),
            "pp_observer" => "next(self) % 8 ? observer : NULL".into(),
            "pp_policy" => "next(self) % 8 ? policy : NULL".into(),
            "pp_symbol_lookup" => "next(self) % 8 ? symbols : NULL".into(),
            "pp_section_lookup" => "next(self) % 8 ? sections : NULL".into(),
            "pp_shape_choice" => "next(self) % 8 ? shapes : NULL".into(),
            "size_t" if fixed.array => std::mem::take(&mut fixed.array_len),
            "size_t" if name == "room" => "sizeof room".into(),
            "bool" => "next(self) % 2".into(),
            // A world that is asked to wait for a day does.
            "uint64_t" if name.ends_with("_ms") => "SMALL".into(),
            "double" => "1.5".into(),
            // Their meanings are few.
            "uint32_t" => "next(self) % 8 ? SMALL : (uint32_t)N".into(),
            "uint8_t" | "uint64_t" | "int32_t" | "size_t" => format!("({kind})N"),
            other => panic!("{function}: what is {other}?"),
        };
    }
    if growing.contains(pointed) {
        return fixed.structure(pointed);
    }
    match (pointed, name) {
        ("void", _) => "NULL".into(),
        ("uint8_t", "bytes") => "next(self) % 8 ? room : NULL".into(),
        ("uint64_t", "addresses") if !parameter.starts_with("const") => {
            "next(self) % 8 ? (uint64_t *)(void *)room : NULL".into()
        }
        ("pp_value", _) if parameter.starts_with("const") => "next(self) % 8 ? &value : NULL".into(),
        ("uint64_t" | "size_t" | "bool" | "pp_value" | "pp_str", _) if !parameter.starts_with("const") => {
            fixed.number(pointed)
        }
        (_, "keys" | "writes" | "slots" | "registers" | "arguments" | "addresses" | "needs") => {
            (fixed.array, fixed.array_len) = (true, "next(self) % 4".into());
            format!("next(self) % 4 ? ({pointed} *)(void *)array : NULL")
        }
        _ if UNCHECKED.contains(&function) => "NULL".into(),
        _ => format!("({pointed} *)any(self)"),
    }
}

/// What is declared around a call.
#[derive(Default)]
struct Fixed {
    declarations: String,
    after: String,
    count: usize,
    array: bool,
    array_len: String,
}

impl Fixed {
    fn variable(&mut self) -> String {
        self.count += 1;
        format!("made{}", self.count)
    }

    fn handle(&mut self, kind: &str) -> String {
        let name = self.variable();
        writeln!(self.declarations, "        {kind} *{name} = NULL;").unwrap();
        writeln!(self.after, "        keep(self, {name});").unwrap();
        format!("next(self) % 16 ? &{name} : NULL")
    }

    fn number(&mut self, kind: &str) -> String {
        let name = self.variable();
        writeln!(self.declarations, "        {kind} {name};").unwrap();
        format!("next(self) % 8 ? &{name} : NULL")
    }

    fn structure(&mut self, kind: &str) -> String {
        let name = self.variable();
        writeln!(
            self.declarations,
            "        union {{ {kind} value; size_t size; char room[sizeof({kind}) + 64]; }} {name};\n        memset(&{name}, \
             0, sizeof {name});\n        fill_{kind}(self, &{name}.value);\n        {name}.size = some_size(self, \
             sizeof({kind}), {name}.room);"
        )
        .unwrap();
        format!("next(self) % 8 ? &{name}.value : NULL")
    }
}

/// The calls of all functions, one of which is chosen each time.
fn calls(functions: &[Declared]) -> String {
    let growing = growing();
    let mut text = String::from("/* Made by tests/fuzz.rs of the header. */\n");
    writeln!(text, "#define FUNCTIONS {}", functions.len()).unwrap();
    for structure in &growing {
        if !has_fill(structure) {
            let nothing = format!("#define fill_{structure}(self, value) ((void)(self), (void)(value))");
            writeln!(text, "{nothing}").unwrap();
        }
    }
    text += "static void one_call(fuzzer *self) {\n    uint64_t array[64];\n    uint8_t room[64];\n    pp_value value;\n";
    text += "    size_t i;\n    for (i = 0; i < 64; i++)\n        array[i] = next(self) % 4 ? next(self) % 8 : N;\n";
    text += "    memset(&value, 0, sizeof value);\n    value.len = (uint32_t)(next(self) % 70);\n    (void)room;\n";
    writeln!(text, "    switch (next(self) % {}) {{", functions.len()).unwrap();
    for (index, function) in functions.iter().enumerate() {
        let mut fixed = Fixed::default();
        let mut arguments = Vec::new();
        for parameter in &function.parameters {
            arguments.push(argument(&function.name, parameter, &growing, &mut fixed));
        }
        let call = format!("{}({})", function.name, arguments.join(", "));
        let call = match function.returns.as_str() {
            // What accepts it is freed by it.
            "pp_error *" => format!("done(self, {call})"),
            _ => format!("self->calls++, (void){call}"),
        };
        writeln!(
            text,
            "    case {index}: {{\n{}        {call};\n{}        break;\n    }}",
            fixed.declarations, fixed.after
        )
        .unwrap();
    }
    text += "    }\n}\n";
    text
}

/// Whether `fuzz.c` fills that structure.
fn has_fill(structure: &str) -> bool {
    let source = fs::read_to_string(root().join("tests/c/fuzz.c")).unwrap();
    source.contains(&format!("void fill_{structure}(fuzzer"))
}

/// Writes the calls where the environment says, for `fuzz.sh`, or else for that test. Tests that run at
/// the same time write the same file, so that each is there whole at any time.
fn write_calls(test: &str) -> PathBuf {
    let folder = env::var_os("PATCHPOINT_FUZZ_CALLS");
    let folder = folder.map_or_else(
        || PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fuzz"),
        PathBuf::from,
    );
    fs::create_dir_all(&folder).unwrap();
    let written = folder.join(format!("fuzz_calls.h.{test}"));
    fs::write(&written, calls(&declared())).unwrap();
    fs::rename(written, folder.join("fuzz_calls.h")).unwrap();
    folder
}

/// For `fuzz.sh`, which compiles them itself.
#[test]
fn calls_are_written() {
    let text = fs::read_to_string(write_calls("written").join("fuzz_calls.h")).unwrap();
    for function in declared() {
        assert!(text.contains(&format!("{}(", function.name)), "{}", function.name);
    }
}

#[test]
fn no_function_can_be_misused_unnoticed() {
    let folder = write_calls("misused");
    let include = format!("-I{}", folder.display());
    let source = root().join("tests/c/fuzz.c");
    let binary = compile("cc", &["-std=gnu99", &include], &source, "fuzz");
    let object = object().canonicalize().unwrap();
    for seed in ["1", "2"] {
        // Some functions make files where they are.
        let told = run(Command::new(&binary)
            .arg(&object)
            .args([seed, "20000"])
            .current_dir(&folder));
        assert!(told.contains("40000 calls"), "{told}");
    }
}
