//! The tool on the objects in `asm-tests/objects/inspect`, in-process.

mod lines;
mod macho;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::args::{
    Check, CodeArgs, Format, Inspect, KnownArgs, Output, Plan, Reserved, Sites, VersionTwoArg,
};
use crate::files::{Gathered, Input, Printed};
use crate::paint::Paint;
use crate::problem::Problem;
use crate::shapes::Shapes;
use crate::{check, plan, sites};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../asm-tests/objects/inspect")
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(folder().join(name)).unwrap()
}

/// The names of all objects with stack maps that `llvm-readobj` describes.
fn objects() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".txt"))
        .map(|name| name.trim_end_matches(".txt").to_owned())
        .filter(|name| !name.starts_with("empty"))
        .collect();
    names.sort();
    assert!(names.len() > 20, "{names:?}");
    names
}

fn inspect(name: &str, format: Format, reserved: &[(u64, u32)]) -> Inspect {
    Inspect {
        files: vec![name.to_owned()],
        pid: None,
        lines: true,
        format,
        reserved: reserved
            .iter()
            .map(|&(id, bytes)| Reserved { id, bytes })
            .collect(),
        version_two: VersionTwoArg::Detected,
        pc_section: Vec::new(),
    }
}

/// The bytes as the only input of a command.
fn input(data: &[u8]) -> Input<'_> {
    Input {
        name: "x",
        data,
        is_alone: true,
        mapped: None,
    }
}

/// What `inspect` prints of a file with these bytes.
fn render(inspect: &Inspect, data: &[u8], paint: Paint) -> Result<String, Problem> {
    let input = Input {
        name: &inspect.files[0],
        ..input(data)
    };
    Ok(in_words(crate::render(inspect, &input, paint)?))
}

fn in_words(printed: Printed) -> String {
    let is_json = matches!(printed, Printed::Json(_));
    let mut gathered = Gathered {
        items: vec![(printed, ())],
        problems: Vec::new(),
        is_alone: true,
    };
    gathered.print(is_json).unwrap()
}

/// What is known of records, read.
fn shapes(code: &CodeArgs) -> Shapes {
    Shapes::read(&code.known).unwrap()
}

fn text(name: &str, reserved: &[(u64, u32)]) -> String {
    render(&inspect(name, Format::Text, reserved), &bytes(name), Paint::Plain).unwrap()
}

fn json(name: &str) -> Value {
    let json = render(&inspect(name, Format::Json, &[]), &bytes(name), Paint::Plain).unwrap();
    serde_json::from_str(&json).unwrap()
}

fn functions(name: &str) -> Vec<Value> {
    let maps = json(name)["maps"].as_array().unwrap().clone();
    let of = |map: &Value| map["functions"].as_array().unwrap().clone();
    maps.iter().flat_map(of).collect()
}

fn records(name: &str) -> Vec<Value> {
    let of = |function: &Value| function["records"].as_array().unwrap().clone();
    functions(name).iter().flat_map(of).collect()
}

fn has_two_maps(name: &str) -> bool {
    name.starts_with("joined") || name == "linked-x86_64.so"
}

#[test]
fn the_llvm_format_is_the_text_of_llvm_readobj() {
    for name in objects() {
        let printed = render(&inspect(&name, Format::Llvm, &[]), &bytes(&name), Paint::Colours).unwrap();
        let expected = fs::read_to_string(folder().join(format!("{name}.txt"))).unwrap();
        if has_two_maps(&name) {
            let rest = printed.strip_prefix(&expected).unwrap();
            let second = fs::read_to_string(folder().join("vector-x86_64.o.txt")).unwrap();
            let start = second.find("LLVM StackMap Version").unwrap();
            assert_eq!(rest, &second[start..], "{name}");
        } else {
            assert_eq!(printed, expected, "{name}");
        }
    }
}

#[test]
fn every_function_has_its_name_its_code_and_its_end() {
    for name in objects() {
        let functions = functions(&name);
        let names: Vec<_> = functions
            .iter()
            .map(|function| function["name"].as_str().unwrap().trim_start_matches('_'))
            .collect();
        let mut expected = vec!["get", "call_c", "values", "twice", "dynamic", "vector"];
        if name.starts_with("vector") {
            expected.drain(..5);
        } else if !has_two_maps(&name) {
            expected.pop();
        }
        assert_eq!(names, expected, "{name}");
        for function in &functions {
            let section = function["section"].as_str().unwrap();
            assert!(section == ".text" || section == "__text", "{name}: {section}");
            let size = function["size"].as_u64().unwrap();
            assert!((8..200).contains(&size), "{name}: {size}");
            assert_eq!(function["address"].is_u64(), !name.ends_with(".o"), "{name}");
            for record in function["records"].as_array().unwrap() {
                assert!(record["offset"].as_u64().unwrap() < size, "{name}: {record}");
            }
        }
    }
}

#[test]
fn without_symbols_a_function_ends_where_the_next_one_starts() {
    let functions = functions("stripped-x86_64.exe");
    assert_eq!(functions.len(), 5);
    for pair in functions.windows(2) {
        let number = |key| pair[0][key].as_u64().unwrap();
        assert_eq!(pair[0]["name"], Value::Null);
        assert_eq!(
            number("address") + number("size"),
            pair[1]["address"].as_u64().unwrap()
        );
    }
}

/// 40 bytes are reserved at record 7 and 48 at record 8: what is inferred must be just that, and
/// what is said to be the most must not be less.
#[test]
fn an_inferred_length_is_right() {
    let mut inferred = 0;
    for name in objects() {
        for record in records(&name) {
            let site = &record["site"];
            let found = site["reserved"].as_u64();
            let expected = match record["id"].as_u64() {
                Some(7) => 40,
                Some(8) => 48,
                _ => {
                    assert_eq!(found, None, "{name}: {record}");
                    continue;
                }
            };
            assert_eq!(record["kind"], "patchpoint", "{name}");
            match site["reserved_source"].as_str().unwrap() {
                "inferred" => assert_eq!(found, Some(expected), "{name}"),
                "at_most" => assert!(found.unwrap() >= expected, "{name}"),
                other => assert_eq!((other, found), ("unknown", None), "{name}"),
            }
            inferred += u32::from(site["reserved_source"] == "inferred");
        }
    }
    assert!(inferred > 20, "{inferred}");
}

#[test]
fn riscv_offsets_are_filled_in() {
    for (name, prologue) in [
        ("riscv64-19.o", 16),
        ("riscv64c-19.o", 8),
        ("riscv64r-19.o", 8),
        ("linked-riscv64.so", 8),
    ] {
        let offsets: Vec<_> = records(name)
            .iter()
            .map(|r| r["offset"].as_u64().unwrap())
            .collect();
        assert_eq!(offsets[0], prologue, "{name}");
        assert!(
            offsets[3] < offsets[4] && offsets[4] < offsets[5],
            "{name}: {offsets:?}"
        );
        let first = &records(name)[0]["site"]["instructions"][0];
        assert_eq!(first["is_nop"], true, "{name}: {first}");
    }
}

#[test]
fn the_text_is_this() {
    let text = text("x86_64-19.o", &[]);
    let start = text.find("\ncall_c").unwrap();
    let end = text.find("\nvalues").unwrap();
    let expected = "
call_c at .text+0x40, 54 bytes, stack 8 bytes
  record 8 at +0x4: patchpoint, 48 reserved bytes, inferred from what LLVM filled them with
    locations   1  rdi, 8 bytes
    live out       rax rbx rsp r12 r13 r14 r15
    code          +0x4  49 bb ef cd ab 89 67 45 23 01  mov r11, 0x123456789abcdef
                  +0xe  41 ff d3                       call r11
                 +0x11  2e 66 0f 1f 84 00 00 02 00 00  nop, 10 bytes
                 +0x1b  2e 66 0f 1f 84 00 00 02 00 00  nop, 10 bytes
                 +0x25  2e 66 0f 1f 84 00 00 02 00 00  nop, 10 bytes
                 +0x2f  0f 1f 44 00 08                 nop, 5 bytes
";
    assert_eq!(&text[start..end], expected);
    for line in [
        "    locations   1  r14, 8 bytes",
        "                2  ebx, 4 bytes",
        "                3  [rbp-20], 4 bytes",
        "                5  &[rbp-32], 8 bytes",
        "                6  #-1, 8 bytes",
        "                8  #4294967295 (large constant 0), 8 bytes",
        "               10  #-16843010 (undef, perhaps), 8 bytes",
        "    may stand for a record that was too large to be written",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.contains("dynamic at .text+0xe0, 42 bytes, stack of unknown size"));
}

#[test]
fn other_architectures_name_registers_and_group_bytes() {
    let aarch64 = text("aarch64-19.o", &[]);
    assert!(aarch64.contains("d503201f  nop, 4 bytes"), "{aarch64}");
    assert!(text("aarch64_be-19.o", &[]).contains("d503201f  nop, 4 bytes"));
    assert!(aarch64.contains("&[x29-"), "{aarch64}");
    let s390x = text("s390x-19.o", &[]);
    assert!(s390x.contains("c00400000000  nop, 6 bytes"), "{s390x}");
    let powerpc64 = text("powerpc64-19.o", &[]);
    assert!(powerpc64.contains("60000000  nop, 4 bytes"), "{powerpc64}");
    assert!(powerpc64.contains(" cr2:4 "), "{powerpc64}");
    assert!(text("powerpc64le-19.o", &[]).contains("60000000  nop, 4 bytes"));
    let riscv64 = text("riscv64c-19.o", &[]);
    assert!(riscv64.contains("0001  nop, 2 bytes"), "{riscv64}");
}

#[test]
fn a_given_length_is_shown_and_checked() {
    let shown = text("x86_64-19.o", &[(8, 13), (10, 20), (9, 17), (11, 4)]);
    assert!(shown.contains("record 8 at +0x4: patchpoint, 13 reserved bytes as given\n"));
    let call = shown
        .split("\ncall_c")
        .nth(1)
        .unwrap()
        .split("\nvalues")
        .next()
        .unwrap();
    assert!(call.contains("call r11") && !call.contains("nop"), "{call}");
    assert!(shown.contains("warning: 20 bytes reserved, and the next record is 8 bytes further"));
    assert!(shown.contains("warning: 17 bytes reserved, and the function ends after 16 bytes"));
    assert!(!shown.contains("warning: 4 bytes"));
}

#[test]
fn a_version_1_map_has_records_of_unknown_functions() {
    let map = &json("old-x86_64.o")["maps"][0];
    assert_eq!(map["version"], 1);
    assert_eq!(map["functions"].as_array().unwrap().len(), 3);
    assert_eq!(map["functions"][1]["stack_size"], Value::Null);
    let loose = map["records_of_unknown_functions"].as_array().unwrap();
    assert_eq!(loose.len(), 3);
    assert_eq!(loose[0]["locations"][5]["bit_offset"], 32);
    assert_eq!(loose[0]["locations"][4]["value"].as_u64(), Some(u64::MAX));
    assert_eq!(loose[0]["site"], Value::Null);
    assert!(text("old-x86_64.o", &[]).contains("  ebp from bit 32, 4 bytes"));
}

#[test]
fn code_shows_to_what_its_relocations_refer() {
    for name in ["vector-x86_64.o", "vector-aarch64.o", "joined-x86_64.o"] {
        let text = text(name, &[]);
        let calls: Vec<_> = text.lines().filter(|line| line.ends_with("; make")).collect();
        assert_eq!(calls.len(), 1, "{name}:\n{text}");
        assert!(
            !name.contains("x86_64") || calls[0].contains("  call "),
            "{calls:?}"
        );
    }
}

#[test]
fn colours_only_where_they_are_wanted() {
    let colourful = render(
        &inspect("x86_64-19.o", Format::Text, &[]),
        &bytes("x86_64-19.o"),
        Paint::Colours,
    )
    .unwrap();
    assert!(colourful.contains("\x1b[1m"));
    let plain: String = colourful
        .split("\x1b[")
        .enumerate()
        .map(|(index, part)| {
            if index == 0 {
                part
            } else {
                part.split_once('m').unwrap().1
            }
        })
        .collect();
    assert_eq!(plain, text("x86_64-19.o", &[]));
}

#[test]
fn what_is_no_object_or_has_no_map_is_refused_in_one_line() {
    let refused = |data: &[u8]| render(&inspect("x", Format::Text, &[]), data, Paint::Plain).unwrap_err();
    assert!(matches!(refused(b""), Problem::Object(_)));
    assert!(matches!(refused(b"! no object !"), Problem::Object(_)));
    let mut broken = bytes("x86_64-19.o");
    // The version of the first map in the section.
    let name = broken
        .windows(4)
        .position(|window| window == [3, 0, 0, 0])
        .unwrap();
    let at = (name..broken.len() - 16)
        .find(|&at| broken[at..].starts_with(&[3, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0]))
        .unwrap();
    broken[at] = 9;
    let problem = refused(&broken);
    let expected = format!(
        "section .llvm_stackmaps (at {at:#x} of the file): no stack map at 0x0: expected version 1, 2 or 3, found 9: give \
         the section from its start"
    );
    assert_eq!(problem.to_string(), expected);
}

/// Where the header leaves it to section 0 which section has the names of all, that one says so.
#[test]
fn the_names_of_sections_are_in_one_of_them() {
    let mut data = fs::read(folder().join("../../../examples/objects/inline_cache.o")).unwrap();
    let number = std::mem::replace(&mut data[62], 0xff);
    data[63] = 0xff;
    let first = u64::from_le_bytes(data[40..48].try_into().unwrap()) as usize;
    // As many bytes as names could be in.
    let size = u32::try_from(data.len()).unwrap();
    data[first + 32..first + 36].copy_from_slice(&size.to_le_bytes());
    let inspect = |data: &[u8]| render(&inspect("x", Format::Json, &[]), data, Paint::Plain);
    let error = inspect(&data).unwrap_err();
    assert_eq!(error.status(), 2);
    assert!(error.to_string().contains("Missing ELF e_shstrndx"), "{error}");
    data[first + 40] = number;
    assert!(inspect(&data).is_ok());
}

#[test]
fn no_damaged_object_makes_it_panic() {
    let render_both = |data: &[u8]| {
        for format in [Format::Text, Format::Json] {
            let _ = render(&inspect("x", format, &[(7, 40), (8, 1000)]), data, Paint::Plain);
        }
    };
    for name in [
        "vector-x86_64.o",
        "powerpc64-14.o",
        "riscv64c-19.o",
        "macho-arm64-14.o",
        "coff-x86_64-19.o",
    ] {
        let mut data = bytes(name);
        for len in (0..data.len()).step_by(37) {
            render_both(&data[..len]);
        }
        for at in (0..data.len()).step_by(13) {
            let old = data[at];
            data[at] = [old ^ 0x80, old ^ 1, 0xff][at % 3];
            render_both(&data);
            data[at] = old;
        }
    }
    no_damaged_table_makes_it_panic();
    let data = bytes("linked-powerpc64.so");
    for len in (0..data.len()).step_by(997) {
        render_both(&data[..len]);
    }
}

/// The same of tables that are no stack maps, and of flat maps.
fn no_damaged_table_makes_it_panic() {
    let shapes = [
        "pp_calls=instructions,u64,u32,u8,u16",
        "pp_functions_c=functions,compressed,u32,u8,u32",
    ];
    for (name, shapes) in [
        ("flat-proposal.x86_64.o", &[][..]),
        ("pc_sections.x86_64.o", &shapes[..]),
        ("covered.x86_64.o", &[]),
        ("gc_map.x86_64.o", &[]),
        ("linked.x86_64.exe", &[]),
    ] {
        let mut data = fs::read(folder().join("../metadata").join(name)).unwrap();
        let inspect = Inspect {
            pc_section: shapes.iter().map(|shape| shape.parse().unwrap()).collect(),
            ..inspect(name, Format::Text, &[])
        };
        for at in (0..data.len()).step_by(5) {
            let old = data[at];
            data[at] = [old ^ 0x80, old ^ 1, 0xff][at % 3];
            let _ = render(&inspect, &data, Paint::Plain);
            data[at] = old;
        }
        for len in (0..data.len()).step_by(37) {
            let _ = render(&inspect, &data[..len], Paint::Plain);
        }
    }
}

/// What the other commands print of bytes, in every format; what they refuse they refuse.
fn survey_all(data: &[u8]) {
    let code = |format| CodeArgs {
        lines: true,
        known: KnownArgs {
            shape: ["7=anyreg,40,result,args=2", "8=c,48", "*=4"]
                .map(|told| told.parse().unwrap())
                .to_vec(),
            format,
            ..KnownArgs::default()
        },
        ..CodeArgs::default()
    };
    let input = input(data);
    for format in [Output::Text, Output::Json] {
        let shapes = shapes(&code(format));
        let _ = sites::render(&Sites { code: code(format) }, &input, &shapes, Paint::Plain);
        let check = Check {
            code: code(format),
            live: true,
            trust_live_outs: true,
            baseline: Vec::new(),
            baseline_ir: Vec::new(),
        };
        let _ = check::render(&check, &input, &shapes, Paint::Plain);
        let plan = Plan {
            code: code(format),
            id: 8,
            seq: "if location(0) == 7 goto miss; goto deopt".parse().unwrap(),
            ran: true,
            trust_live_outs: false,
            html: false,
        };
        let _ = plan::render(&plan, &input, &shapes, (Paint::Plain, true));
        let page = Plan { html: true, ..plan };
        let _ = plan::render(&page, &input, &shapes, (Paint::Plain, false));
    }
}

#[test]
fn no_damaged_object_makes_a_survey_panic() {
    for name in [
        "vector-x86_64.o",
        "x86_64-19.o",
        "powerpc64-14.o",
        "riscv64c-19.o",
        "s390x-19.o",
        "macho-arm64-14.o",
        "coff-x86_64-19.o",
        "linked-aarch64.so",
        "old-x86_64.o",
    ] {
        let mut data = bytes(name);
        survey_all(&data);
        for len in (0..data.len()).step_by(data.len() / 40) {
            survey_all(&data[..len]);
        }
        for at in (0..data.len()).step_by(data.len().div_ceil(300)) {
            let old = data[at];
            data[at] = [old ^ 0x80, old ^ 1, 0xff][at % 3];
            survey_all(&data);
            data[at] = old;
        }
    }
}

#[test]
fn the_other_commands_have_colours_too() {
    let sites = Sites {
        code: CodeArgs::default(),
    };
    let data = bytes("x86_64-19.o");
    let printed = |paint| {
        let shapes = shapes(&sites.code);
        in_words(sites::render(&sites, &input(&data), &shapes, paint).unwrap())
    };
    assert!(printed(Paint::Colours).contains("\x1b[1m"));
    assert!(!printed(Paint::Plain).contains('\x1b'));
}
