use serde_json::Value;

use crate::corpus::{FOLDERS, objects};
use crate::{assert_documented, json, list, refusal, stdout};

const HIT: &str = "guard u32[arg(0)+8] == 0x17 else miss; result = u64[arg(0)+24]";

fn bytes(listing: &Value) -> String {
    let lines = list(listing).iter();
    lines.map(|line| line["bytes"].as_str().unwrap()).collect()
}

#[test]
fn the_text_is_this() {
    let text = stdout(
        &[
            "plan",
            "examples/objects/inline_cache.riscv64.o",
            "--id",
            "78",
            "--shape",
            "78=anyreg,32,result,args=1",
            "--seq",
            HIT,
        ],
        0,
    );
    let expected = "\
examples/objects/inline_cache.riscv64.o: elf64-littleriscv, riscv64
guard u32[arg(0)+8] == 0x17 else miss; result = u64[arg(0)+24]

anyregcc patchpoint 78 at get+0x8: 32 bytes reserved, 20 used, 12 slack
  before
    10000008  13 00 00 00  nop, 4 bytes
    1000000c  13 00 00 00  nop, 4 bytes
    10000010  13 00 00 00  nop, 4 bytes
    10000014  13 00 00 00  nop, 4 bytes
    10000018  13 00 00 00  nop, 4 bytes
    1000001c  13 00 00 00  nop, 4 bytes
    10000020  13 00 00 00  nop, 4 bytes
    10000024  13 00 00 00  nop, 4 bytes
  after
    10000008  83 22 85 00  lw t0, 8(a0)
    1000000c  13 03 70 01  addi t1, zero, 23
    10000010  63 84 62 00  beq t0, t1, 0x10000018  ; get+0x18
    10000014  6f 20 d0 7e  jal zero, 0x10003000  ; miss
    10000018  03 34 85 01  ld s0, 24(a0)
    1000001c  13 00 00 00  nop, 4 bytes
    10000020  13 00 00 00  nop, 4 bytes
    10000024  13 00 00 00  nop, 4 bytes
";
    assert!(text.starts_with(expected), "{text}");
    assert!(
        text.contains("\nanyregcc patchpoint 78 at sum_fields+0x58: "),
        "{text}"
    );
}

/// For every site of every object: exactly the reserved bytes, before as in the file and after all
/// of them decoded.
#[test]
fn every_site_of_the_corpus_can_be_planned() {
    let mut sites = 0;
    for object in FOLDERS.iter().flat_map(|folder| objects(folder)) {
        let Some((id, (shadow, _))) = object.reserved.iter().next() else {
            continue;
        };
        if object.path.contains("riscv64c/") && *shadow {
            // Some are too short: see `check`.
            continue;
        }
        let (id, seq) = (id.to_string(), if *shadow { "trap" } else { "goto end" });
        let shapes = object.shapes.to_str().unwrap();
        let args = [
            "plan",
            &object.path,
            "--shapes",
            shapes,
            "--id",
            &id,
            "--seq",
            seq,
        ];
        let report = json(&args, 0);
        for site in list(&report["sites"]) {
            let reserved = site["reserved"].as_u64().unwrap();
            let (before, after) = (bytes(&site["before"]), bytes(&site["after"]));
            assert_eq!(before.len() as u64, 2 * reserved, "{}: {site}", object.path);
            assert_eq!(after.len() as u64, 2 * reserved, "{}: {site}", object.path);
            assert_eq!(
                site["used"].as_u64().unwrap() == 0,
                !shadow,
                "{}: {site}",
                object.path
            );
            for line in list(&site["after"]) {
                assert_ne!(line["text"], "(bad)", "{}: {line}", object.path);
                assert!(*shadow || line["is_nop"] == true, "{}: {line}", object.path);
            }
            sites += 1;
        }
    }
    println!("{sites} sites");
    assert!(sites > 500, "{sites}");
}

/// The same on this machine by the engine, for sequences that mean the same at every address.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod by_the_engine {
    #![allow(unsafe_code, reason = "an engine needs a promise about threads")]

    use patchpoint::addr::CodeAddr;
    use patchpoint::publish::SingleThreaded;
    use patchpoint::sequence::Sequence;
    use patchpoint::{CallShape, Engine};

    use std::fs;

    use super::{bytes, json, list, objects};

    fn shape(text: &str) -> CallShape {
        let words: Vec<&str> = text.split(',').collect();
        let reserved = words[1].parse().unwrap();
        let shape = match words[0] {
            "anyreg" => CallShape::any_reg(reserved),
            "c" => CallShape::c(reserved),
            _ => CallShape::shadow(reserved),
        };
        words
            .iter()
            .skip(2)
            .fold(shape, |shape, word| match word.strip_prefix("args=") {
                Some(count) => shape.args(count.parse().unwrap()),
                None => shape.result(),
            })
    }

    #[test]
    fn what_is_shown_is_what_the_engine_writes() {
        let mut compared = 0;
        for object in objects("x86_64") {
            let text = fs::read_to_string(&object.shapes).unwrap();
            // SAFETY: nothing of the engine's code is executed.
            let world = unsafe { SingleThreaded::promise() };
            let engine = Engine::builder().world(world).build().unwrap();
            let data = fs::read(crate::root().join(&object.path)).unwrap();
            let code = engine
                .load(&data, |_| Some(CodeAddr::new(0x1000)))
                .unwrap_or_else(|_| {
                    // What must be near is defined near.
                    let near = CodeAddr::new(0x7000_0000);
                    engine.load(&data, |_| Some(near)).unwrap()
                });
            // SAFETY: what is told is true of the object's code, or refused.
            let module = unsafe {
                engine.register(code, |record| {
                    let id = record.id().get();
                    let line = text.lines().find_map(|line| {
                        let (of, shape) = line.split_once('=')?;
                        (of.parse() == Ok(id) || of.parse::<i64>().map(|id| id as u64) == Ok(id))
                            .then_some(shape)
                    });
                    line.map(shape).filter(|shape| shape.reserved().get() > 0)
                })
            }
            .unwrap();
            for id in object.reserved.keys().take(3) {
                let Some(first) = module.sites().find(|site| site.id().get() == *id) else {
                    continue;
                };
                let seq = match (first.shape().kind(), first.shape().has_result()) {
                    (patchpoint::arch::SiteKind::Shadow, _) => "trap",
                    (_, true) => "result = 0x123456; if result == 7 goto label(1); result += 1; label(1):",
                    (_, false) => "trap",
                };
                let sequence: Sequence = seq.parse().unwrap();
                let shapes = object.shapes.to_str().unwrap();
                let id_text = id.to_string();
                let args = [
                    "plan",
                    &object.path,
                    "--shapes",
                    shapes,
                    "--id",
                    &id_text,
                    "--seq",
                    seq,
                ];
                let (done, planned) = (engine.patch(*id, &sequence), crate::tool(&args));
                assert_eq!(
                    done.is_ok(),
                    planned.status.success(),
                    "{args:?}: {done:?}\n{planned:?}"
                );
                if done.is_err() {
                    continue;
                }
                let report = json(&args, 0);
                let sites: Vec<_> = module.sites().filter(|site| site.id().get() == *id).collect();
                assert_eq!(list(&report["sites"]).len(), sites.len(), "{}", object.path);
                for (shown, site) in list(&report["sites"]).iter().zip(&sites) {
                    if !shown["stub"].is_null() {
                        continue;
                    }
                    let written: String = site.read().unwrap().iter().map(|b| format!("{b:02x}")).collect();
                    assert_eq!(bytes(&shown["after"]), written, "{}: {site:?}", object.path);
                    compared += 1;
                }
            }
        }
        println!("{compared} sites");
        assert!(compared > 200, "{compared}");
    }
}

#[test]
fn the_sequence_that_is_printed_can_be_given_again() {
    let object = "examples/objects/inline_cache.o";
    let ir = "examples/objects/inline_cache.ll";
    for seq in [
        HIT,
        "if u32[arg(0)+0x8] == 23 goto label(1)\ngoto miss\nlabel(1):\nresult = 0x10",
        "in_place_only; result = -1; temp = 7; temp <<= 3; result += temp",
        "atomic u64[0x123456789000] += 1; goto deopt",
        "call 0x10002000 preserves_all",
        "raw 0f1f00 90",
        "",
    ] {
        let report = json(&["plan", object, "--ir", ir, "--id", "78", "--seq", seq], 0);
        let text = report["sequence"].as_str().unwrap();
        let again = json(&["plan", object, "--ir", ir, "--id", "78", "--seq", text], 0);
        assert_eq!(report, again, "{seq}");
        assert_documented("plan", &report);
    }
}

#[test]
fn what_does_not_fit_is_in_a_stub() {
    let object = "examples/objects/inline_cache.o";
    let args = [
        "plan",
        object,
        "--ir",
        "examples/objects/inline_cache.ll",
        "--id",
        "78",
        "--seq",
    ];
    let long = "u64[arg(0)+8] = 1; u64[arg(0)+16] = 2; u64[arg(0)+24] = 3; u64[arg(0)+32] = 4; result = 5";
    let report = json(&[&args[..], &[long]].concat(), 0);
    for site in list(&report["sites"]) {
        assert_eq!(site["after"][0]["refers_to"], "the stub", "{site}");
        let stub = list(&site["stub"]["listing"]);
        assert_eq!(stub.last().unwrap()["refers_to"], "the end of the site", "{site}");
        assert_eq!(stub[0]["address"], site["stub"]["address"]);
    }
    let text = stdout(&[&args[..], &[long]].concat(), 0);
    assert!(
        text.contains("  stub\n") && text.contains("; the stub\n"),
        "{text}"
    );
    let text = stdout(&[&args[..], &[&format!("in_place_only; {long}")]].concat(), 1);
    assert!(
        text.contains("  refused: ") && text.contains("raise numBytes"),
        "{text}"
    );
}

/// Where LLVM's call is, a call may return behind it once the code has run.
#[test]
fn return_offsets_are_kept_where_the_code_may_have_run() {
    let object = "asm-tests/objects/x86_64/calls.llc19.O2.o";
    let args = [
        "plan",
        object,
        "--ir",
        "asm-tests/objects/ir/calls.ll",
        "--id",
        "603",
        "--seq",
        "result = 0x123456789; result += 0x1234; result += 0x1234",
    ];
    let fresh = json(&args, 0);
    assert!(fresh["sites"][0]["stub"].is_null(), "{fresh}");
    let ran = json(&[&args[..], &["--ran"]].concat(), 0);
    assert!(ran["sites"][0]["stub"].is_object(), "{ran}");
    let address = ran["sites"][0]["address"].as_u64().unwrap();
    let after = list(&ran["sites"][0]["after"]);
    let return_offset = after
        .iter()
        .find(|line| line["address"].as_u64() == Some(address + 13))
        .unwrap();
    assert_eq!(return_offset["is_nop"], true, "{ran}");
}

/// A register that a callee must keep is free where the list of live-outs is trusted and does not
/// name it.
#[test]
fn trusted_live_outs_free_registers() {
    let object = "asm-tests/objects/inspect/x86_64-14.o";
    // xor rbx, rbx
    let args = [
        "plan",
        object,
        "--shape",
        "8=c,48",
        "--id",
        "8",
        "--seq",
        "raw 48 31 db",
    ];
    let text = stdout(&args, 1);
    assert!(text.contains("writes rbx, whose value is needed"), "{text}");
    stdout(&[&args[..], &["--trust-live-outs"]].concat(), 0);
}

#[test]
fn what_cannot_be_planned_is_said() {
    let object = "examples/objects/inline_cache.o";
    let line = refusal(&["plan", object, "--id", "79", "--seq", "trap"], 1);
    assert_eq!(
        line,
        format!("patchpoint: {object}: no record has ID 79; the file has 78, 90\n")
    );
    let line = refusal(&["plan", object, "--id", "90", "--seq", "trap"], 1);
    assert!(
        line.contains("nothing of ID 90 can be patched: at sum_fields+0x52: real"),
        "{line}"
    );
    let message = refusal(&["plan", object, "--id", "78", "--seq", "result == 1"], 2);
    assert!(
        message.contains("line 1, column 8 of the sequence: found `=`"),
        "{message}"
    );
    let shape = ["--shape", "90=shadow,24"];
    let text = stdout(
        &[&["plan", object, "--id", "90", "--seq", "goto end"][..], &shape].concat(),
        1,
    );
    assert!(text.contains("refused: ") && text.contains("exit stub"), "{text}");
    let report = json(
        &[&["plan", object, "--id", "90", "--seq", "goto end"][..], &shape].concat(),
        1,
    );
    assert!(report["sites"][0]["why"].is_string(), "{report}");
    assert!(report["sites"][0]["after"].is_null(), "{report}");
}

/// Those of SystemZ are branches that are never taken, to themselves.
#[test]
fn a_nop_refers_to_nothing() {
    let object = "examples/objects/inline_cache.s390x.o";
    let args = [
        "plan",
        object,
        "--id",
        "78",
        "--shape",
        "78=anyreg,32,result,args=1",
        "--seq",
        "result = 1",
    ];
    let plan = json(&args, 0);
    let before = list(&plan["sites"][0]["before"]);
    assert!(before.len() > 3);
    for line in before {
        assert_eq!(
            (&line["is_nop"], &line["refers_to"]),
            (&true.into(), &Value::Null),
            "{line}"
        );
    }
}
