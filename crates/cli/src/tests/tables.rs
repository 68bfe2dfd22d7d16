//! Flat maps and the tables that are no stack maps, of the objects in `asm-tests/objects/metadata`.

use super::*;

/// What is printed of an object of `asm-tests/objects/metadata`, with PC sections of these shapes.
fn metadata(name: &str, format: Format, shapes: &[&str]) -> Result<String, Problem> {
    metadata_as(name, format, shapes, VersionTwoArg::Detected)
}

fn metadata_as(name: &str, format: Format, shapes: &[&str], two: VersionTwoArg) -> Result<String, Problem> {
    let path = folder().join("../metadata").join(name);
    let inspect = Inspect {
        pc_section: shapes.iter().map(|shape| shape.parse().unwrap()).collect(),
        version_two: two,
        ..inspect(name, format, &[])
    };
    render(&inspect, &fs::read(path).unwrap(), Paint::Plain)
}

fn metadata_json(name: &str, shapes: &[&str]) -> Value {
    serde_json::from_str(&metadata(name, Format::Json, shapes).unwrap()).unwrap()
}

#[test]
fn a_flat_map_tells_what_others_do_not() {
    for (target, pointers, kept) in [
        ("x86_64", ["rbp", "rsp"], "rbx"),
        ("s390x", ["r11", "r15"], "r10"),
    ] {
        for (dialect, layout) in [("proposal", "flat"), ("fork", "flat_fork")] {
            let name = format!("flat-{dialect}.{target}.o");
            let map = metadata_json(&name, &[])["maps"][0].clone();
            assert_eq!(
                (&map["version"], &map["layout"]),
                (&2.into(), &layout.into()),
                "{name}"
            );
            assert_eq!(map["constants"][0].as_u64(), Some(0x0123_4567_89ab_cdef));
            let [first, second] = [0, 1].map(|index| map["functions"][index].clone());
            assert_eq!(
                (first["name"].as_str(), first["stack_size"].as_u64()),
                (Some("first"), Some(40))
            );
            assert_eq!(
                (second["name"].as_str(), &second["stack_size"]),
                (Some("second"), &Value::Null)
            );
            let (frame, other) = (&first["frame"], &second["frame"]);
            assert_eq!(frame["function_size"], first["size"], "{name}");
            assert_eq!(other["function_size"], second["size"], "{name}");
            assert_eq!([&frame["base"], &other["base"]], pointers, "{name}");
            let flags = ["frame_pointer", "variable_size", "realigned", "live_out_info"];
            let seen = |frame: &Value| flags.map(|flag| frame[flag].as_bool().unwrap());
            assert_eq!(seen(frame), [true, false, false, true], "{name}");
            assert_eq!(seen(other), [false, true, true, false], "{name}");
            let registers = frame["registers"].as_array().unwrap();
            match dialect {
                "fork" => assert!(registers.is_empty()),
                _ => {
                    assert_eq!(registers.len(), 2, "{name}");
                    assert_eq!(
                        (&registers[0]["register"], &registers[0]["offset"]),
                        (&kept.into(), &(-24).into())
                    );
                    assert_eq!(
                        (&registers[0]["spilled"], &registers[0]["size"]),
                        (&true.into(), &8.into())
                    );
                    assert_eq!(registers[1]["spilled"], false);
                }
            }
            let record = &first["records"][0];
            let reserved = if target == "x86_64" { 10 } else { 12 };
            assert_eq!(record["site"]["reserved_source"], "recorded", "{name}");
            assert_eq!(record["site"]["reserved"].as_u64(), Some(reserved), "{name}");
            assert_eq!(record["live_out_info"], true);
            assert_eq!(record["live_outs"][0]["register"], kept, "{name}");
            assert_eq!(record["locations"][0]["text"], format!("[{}-20]", pointers[0]));
            assert_eq!(
                record["locations"][1]["value"].as_u64(),
                Some(0x0123_4567_89ab_cdef)
            );
            assert_eq!(second["records"].as_array().unwrap().len(), 0);
        }
    }
    // Of other maps there is nothing to say.
    for function in functions("x86_64-19.o") {
        assert_eq!(function["frame"], Value::Null);
        assert_eq!(function["records"][0]["live_out_info"], Value::Null);
    }
    assert_eq!(json("x86_64-19.o")["maps"][0]["layout"], "nested");
}

#[test]
fn the_text_of_a_flat_map_is_this() {
    let expected = "\
flat-proposal.x86_64.o: elf64-x86-64, x86_64

stack map version 2, flat, at .llvm_stackmaps+0x0: 2 functions, 1 record, 1 large constant

first at .text+0x0, 21 bytes, stack 40 bytes
  told: 21 bytes of code, base rbp, a frame pointer, live-outs looked for
    keeps rbx in [rbp-24], 8 bytes
    leaves rbp alone
  record 7 at +0x5: patchpoint, 10 reserved bytes as the stack map tells
    locations   1  [rbp-20], 4 bytes
                2  #81985529216486895 (large constant 0), 8 bytes
    live out       rbx
    code          +0x5  0f 1f 44 00 08  nop, 5 bytes
                  +0xa  0f 1f 44 00 08  nop, 5 bytes

second at .text+0x15, 1 byte, stack of unknown size
  told: 1 byte of code, base rsp, of variable size, realigned
";
    let text = metadata("flat-proposal.x86_64.o", Format::Text, &[]).unwrap();
    assert_eq!(text, expected);
}

#[test]
fn what_version_two_is_can_be_said() {
    let said = |two| metadata_as("flat-fork.x86_64.o", Format::Text, &[], two);
    assert!(
        said(VersionTwoArg::FlatFork)
            .unwrap()
            .contains("flat as in the fork")
    );
    for wrong in [VersionTwoArg::Llvm, VersionTwoArg::Flat] {
        let Err(Problem::StackMap { .. }) = said(wrong) else {
            panic!("{wrong:?}");
        };
    }
}

/// The command that lists sites takes the reserved length from the map.
#[test]
fn sites_of_a_flat_map_need_no_shapes() {
    let name = "flat-proposal.x86_64.o";
    let bytes = fs::read(folder().join("../metadata").join(name)).unwrap();
    let code = CodeArgs {
        known: KnownArgs {
            format: Output::Json,
            ..KnownArgs::default()
        },
        ..CodeArgs::default()
    };
    let shapes = shapes(&code);
    let printed = sites::render(&Sites { code }, &input(&bytes), &shapes, Paint::Plain).unwrap();
    let printed = in_words(printed);
    let sites: Value = serde_json::from_str(&printed).unwrap();
    let site = &sites["sites"][0];
    assert_eq!(
        (&site["state"], &site["reserved_source"]),
        (&"registered".into(), &"recorded".into())
    );
    assert_eq!(site["reserved"].as_u64(), Some(10));
}

/// Of each entry its places, without the distance in the function, and constants.
fn entries(table: &Value) -> Vec<(Vec<String>, Vec<u64>)> {
    let name = |place: &Value| {
        assert_eq!(place["address"], Value::Null);
        let name = place["name"].as_str().unwrap();
        name.split('+').next().unwrap().to_owned()
    };
    let entry = |entry: &Value| {
        let constants = entry["constants"].as_array().unwrap();
        (
            entry["places"].as_array().unwrap().iter().map(name).collect(),
            constants
                .iter()
                .map(|constant| constant.as_u64().unwrap())
                .collect::<Vec<_>>(),
        )
    };
    let mut all: Vec<_> = table["entries"].as_array().unwrap().iter().map(entry).collect();
    // LLVM may order the instructions otherwise.
    all.sort_by(|(_, one), (_, other)| one.cmp(other));
    all
}

#[test]
fn pc_sections_of_told_shapes() {
    let targets = [
        "aarch64",
        "powerpc64",
        "powerpc64le",
        "powerpc64-elfv2",
        "riscv64",
        "s390x",
        "x86_64",
        "x86_64-large",
    ];
    for target in targets {
        let name = format!("pc_sections.{target}.o");
        // Whether addresses are wide is told by their relocations.
        let shapes = [
            "pp_calls=instructions,u64,u32,u8,u16",
            "pp_calls_c=instructions,compressed,u64,u32,u8,u16",
            "pp_shared=instructions,sharing=2,u64",
            "pp_functions=functions,u32,u8",
        ];
        let report = metadata_json(&name, &shapes);
        assert_eq!(report["maps"].as_array().unwrap().len(), 0);
        let tables = report["pc_sections"].as_array().unwrap();
        let table = |section: &str| tables.iter().find(|table| table["section"] == section).unwrap();
        let one = |function: &str, constants: &[u64]| (vec![function.to_owned()], constants.to_vec());
        let calls = [
            one("plain", &[1, 300, 5, 258]),
            one("plain", &[2, 0xffff_ffff, 255, 127]),
        ];
        assert_eq!(entries(table("pp_calls")), calls, "{name}");
        let compressed = [
            one("plain", &[2, 0xffff_ffff, 255, 127]),
            one("compressed", &[3, 128, 128, 0xffff]),
        ];
        assert_eq!(entries(table("pp_calls_c")), compressed, "{name}");
        let shared = (vec!["shared".to_owned(); 2], vec![4]);
        assert_eq!(entries(table("pp_shared")), [shared], "{name}");
        assert_eq!(entries(table("pp_functions")), [one("plain", &[7, 9])], "{name}");
        let size = table("pp_functions")["entries"][0]["function_size"].as_u64();
        assert!((8..200).contains(&size.unwrap()), "{name}");
    }
}

#[test]
fn a_pc_section_that_is_not_there_or_not_so_is_a_problem() {
    let name = "pc_sections.x86_64.o";
    let refused = |shapes: &[&str]| metadata(name, Format::Text, shapes).unwrap_err();
    assert!(matches!(refused(&["none=instructions"]), Problem::NoSection(section) if section == "none"));
    assert!(
        matches!(refused(&["pp_calls=instructions,u32"]), Problem::Table { table, .. } if table == "pp_calls")
    );
    // Without a shape there is nothing to say of it.
    assert!(matches!(refused(&[]), Problem::NoStackMap));
}

#[test]
fn the_sanitizers_tables_are_found_by_their_names() {
    let report = metadata_json("covered.x86_64.o", &[]);
    let covered = report["covered"][0].clone();
    assert_eq!(covered["section"], "sanmd_covered2");
    let functions: Vec<_> = covered["functions"].as_array().unwrap().to_vec();
    let seen: Vec<_> = functions
        .iter()
        .map(|function| {
            let flag = |key: &str| function[key].as_bool().unwrap();
            let name = function["name"].as_str().unwrap().to_owned();
            (
                name,
                flag("atomics"),
                flag("use_after_return"),
                function["stack_arguments"].as_u64(),
            )
        })
        .collect();
    let expected = [
        ("plain".to_owned(), false, false, None),
        ("atomic".to_owned(), true, false, None),
        ("on_the_stack".to_owned(), true, true, Some(64)),
    ];
    assert_eq!(seen, expected);
    assert!(
        functions
            .iter()
            .all(|function| function["size"].as_u64().unwrap() > 0)
    );
    let atomics = &report["pc_sections"][0];
    assert_eq!(
        (&atomics["section"], &atomics["shape"]),
        (&"sanmd_atomics2".into(), &"instructions".into())
    );
    let inside = (vec!["atomic".to_owned()], vec![]);
    assert_eq!(entries(atomics), [inside.clone(), inside]);
}

#[test]
fn a_gc_map_is_found_by_its_symbol() {
    let expected = "\
gc_map.x86_64.o: elf64-x86-64, x86_64

GC map _IMMIX_GC_MAP_test.pi: 2 functions, 1 global
  first, stack 40 bytes, 2 arguments on the stack
    safepoint first+0x1
    root [sp+8], pointer
    root [sp+16], trait
  second, stack of unknown size, 0 arguments on the stack
  global variable
";
    assert_eq!(metadata("gc_map.x86_64.o", Format::Text, &[]).unwrap(), expected);
    let map = metadata_json("gc_map.x86_64.o", &[])["gc_maps"][0].clone();
    assert_eq!(map["symbol"], "_IMMIX_GC_MAP_test.pi");
    let first = &map["functions"][0];
    assert_eq!(
        (first["name"].as_str(), first["stack_size"].as_u64()),
        (Some("first"), Some(40))
    );
    assert_eq!(first["safepoints"][0]["name"], "first+0x1");
    assert_eq!(
        first["roots"][1],
        serde_json::json!({ "offset": 16, "kind": "trait" })
    );
    assert_eq!(map["globals"][0]["name"], "variable");
}

#[test]
fn the_text_of_pc_sections_is_this() {
    let shapes = [
        "pp_calls=instructions,u64,u32,u8,u16",
        "pp_functions=functions,u32,u8",
    ];
    let text = metadata("pc_sections.x86_64.o", Format::Text, &shapes).unwrap();
    let expected = "
PC section pp_functions: 1 entry of functions,u32,u8
  +0x0  plain, 15 bytes: 7 9

PC section pp_calls: 2 entries of instructions,u64,u32,u8,u16
  +0x0  plain: 1 300 5 258
  +0x13  plain+0x7: 2 4294967295 255 127
";
    let start = text.find("\nPC section").unwrap();
    assert_eq!(&text[start..], expected);
    let text = metadata("covered.x86_64.o", Format::Text, &[]).unwrap();
    assert!(
        text.contains("features 0x7, atomics, use after return, 64 bytes of arguments on the stack\n"),
        "{text}"
    );
}

/// The places of a linked file have addresses: those of its symbols.
#[test]
fn the_tables_of_a_linked_file_have_addresses() {
    use object::{Object, ObjectSymbol};
    let bytes = fs::read(folder().join("../metadata/linked.x86_64.exe")).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let report = metadata_json("linked.x86_64.exe", &[]);
    let check = |place: &Value, after: u64| {
        let name = place["name"].as_str().unwrap();
        let symbol = file.symbol_by_name(name.split('+').next().unwrap()).unwrap();
        assert_eq!(
            place["address"].as_u64(),
            Some(symbol.address() + after),
            "{place}"
        );
    };
    let covered = report["covered"][0]["functions"].as_array().unwrap();
    assert_eq!(covered.len(), 3);
    covered.iter().for_each(|function| check(function, 0));
    let atomics = report["pc_sections"][0]["entries"].as_array().unwrap();
    assert_eq!(atomics.len(), 2);
    for entry in atomics {
        let name = entry["places"][0]["name"].as_str().unwrap();
        assert!(name.starts_with("atomic"), "{name}");
    }
    let map = &report["gc_maps"][0];
    let functions = map["functions"].as_array().unwrap();
    functions.iter().for_each(|function| check(function, 0));
    check(&functions[0]["safepoints"][0], 1);
    check(&map["globals"][0], 0);
}
