//! The tables of the guide that say how many bytes something takes are what the library gives.
//!
//! `GUIDE_WRITE=1 cargo test -p guide` writes them anew, between the comments that name them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use patchpoint::CallShape;
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::{Arch, Convention, OnReturn, instructions};
use patchpoint::image::Object;
use patchpoint::sequence::{Environment, Field, Fit, Label, Sequence, Target, arg, assemble, result};
use patchpoint::site::{Site, survey};
use patchpoint_asm::backend_of;

/// The architectures, and the suffix of their objects.
const ARCHITECTURES: [(Arch, &str); 5] = [
    (Arch::X86_64, "o"),
    (Arch::AArch64, "aarch64.o"),
    (Arch::PowerPc64Le, "powerpc64le.o"),
    (Arch::SystemZ, "s390x.o"),
    (Arch::RiscV64, "riscv64.o"),
];

/// Room enough for whatever is measured.
const ROOM: u32 = 1024;
/// Where the code is said to be; the exit stub is near, the callee is not.
const CODE: u64 = 0x7000_0000_0000;
const EXIT_STUB: u64 = CODE + 0x8000;
const CALLEE: u64 = 0x5555_1234_5678;

fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The first site with that ID in one of the examples' objects.
fn site(object: &str, suffix: &str, id: u64, shape: CallShape) -> Site {
    let path = guide().join(format!("../examples/objects/{object}.{suffix}"));
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let layout = Object::parse(&bytes).unwrap().layout().unwrap();
    let (addrs, _) = layout.contiguous(CodeAddr::new(CODE), Len::new(4096)).unwrap();
    let linked = layout
        .link(&addrs, &|_| Some(CodeAddr::new(EXIT_STUB + 0x1000)))
        .unwrap();
    let wanted = |record: u64| (record == id).then_some(shape);
    let survey = survey(linked.image, linked.segments, |record| wanted(record.id().get())).unwrap();
    assert!(
        survey.refused.is_empty(),
        "{object}.{suffix}: {:?}",
        survey.refused
    );
    let mut sites = survey.module.sites();
    sites.next().expect("the object has the record")
}

/// How long a sequence is at a site that has room for it.
fn used(site: &Site, sequence: &Sequence) -> u32 {
    let mut context = site.context(&[]);
    context.shape = context.shape.reserving(Len::new(ROOM));
    // On RISC-V only the list of live-outs tells that a call may be there.
    context.trust_live_outs = context.shape.convention() == Convention::C;
    let environment = Environment {
        miss: sequence.uses(Target::Miss).then_some(CodeAddr::new(EXIT_STUB)),
        deopt: sequence.uses(Target::Deopt).then_some(CodeAddr::new(EXIT_STUB)),
    };
    match assemble(sequence, &context, &environment) {
        Ok(Fit::InPlace(assembled)) => assembled.used.get(),
        other => panic!("{}: {sequence}: {other:?}", site.module().arch()),
    }
}

/// A cache of so many shapes, each a guard and a load, and a miss behind the last.
fn cache(shapes: u32) -> Sequence {
    let mut sequence = Sequence::new();
    for number in 0..shapes {
        let next = match number + 1 == shapes {
            true => Target::Miss,
            false => Target::from(Label::new(number)),
        };
        sequence = sequence
            .guard_eq(u32::at(arg(0), 8), u64::from(0x17 + number), next)
            .load(result(), u64::at(arg(0), 24));
        if let Target::Label(label) = next {
            sequence = sequence.jump(Target::End).bind(label);
        }
    }
    sequence
}

fn row(table: &mut String, what: &str, of: impl Fn(Arch, &str) -> u32) {
    let lengths = ARCHITECTURES.map(|(arch, suffix)| of(arch, suffix).to_string());
    writeln!(table, "| {what} | {} |", lengths.join(" | ")).unwrap();
}

/// The table of sequences, as the library assembles them.
fn sequences() -> String {
    let mut table = String::from("| sequence | x86-64 | AArch64 | PowerPC64 LE | SystemZ | RISC-V |\n");
    table += "|---|---|---|---|---|---|\n";
    let get = |suffix: &str| {
        site(
            "inline_cache",
            suffix,
            78,
            CallShape::any_reg(32).result().args(1),
        )
    };
    let any = |what: &str, sequence: &Sequence, table: &mut String| {
        row(table, what, |_, suffix| used(&get(suffix), sequence));
    };
    any(
        "a way out: `jump miss`",
        &Sequence::new().jump(Target::Miss),
        &mut table,
    );
    any("`result = 23`", &Sequence::new().mov(result(), 23u64), &mut table);
    let pointer = Sequence::new().mov(result(), 0x7f12_3456_7890u64);
    any("`result = 0x7f1234567890`", &pointer, &mut table);
    let field = Sequence::new().load(result(), u64::at(arg(0), 24));
    any("`result = u64[arg(0)+24]`", &field, &mut table);
    any(
        "one shape: a guard on 32 bits, a load, else a miss",
        &cache(1),
        &mut table,
    );
    any("two shapes", &cache(2), &mut table);
    any("three shapes", &cache(3), &mut table);
    any("four shapes", &cache(4), &mut table);
    let word = Sequence::new()
        .guard_eq(u64::at(arg(0), 0), 0x7f12_3456_7890u64, Target::Miss)
        .load(result(), u64::at(arg(0), 24));
    any(
        "one class: a guard on a pointer of 64 bits, a load",
        &word,
        &mut table,
    );
    row(
        &mut table,
        "a call of a C function, at any distance",
        |arch, suffix| {
            let shape = CallShape::c(stressed(arch)).result().args(1);
            // SAFETY: nothing is executed.
            let call = unsafe { Sequence::new().call(CodeAddr::new(CALLEE), OnReturn::FollowsC) };
            used(&site("live_stress", suffix, 200, shape), &call)
        },
    );
    row(
        &mut table,
        "**a live site, at whatever address: at least**",
        |arch, _| live(arch),
    );
    table
}

/// The shortest site that has a patchable jump wherever it begins.
fn live(arch: Arch) -> u32 {
    let fits = |len: u32| {
        let unit = instructions::unit(arch) as usize;
        let addresses = (CODE..CODE + 16).step_by(unit);
        addresses.into_iter().all(|addr| {
            let jump = backend_of(arch).plan_patchable_jump(CodeAddr::new(addr), Len::new(len));
            jump.is_ok()
        })
    };
    (1..ROOM)
        .find(|len| fits(*len))
        .expect("there is room for a jump")
}

/// How many bytes the object of the stress test reserves at its first call, see `make.sh` there.
fn stressed(arch: Arch) -> u32 {
    match arch {
        Arch::X86_64 => 13,
        _ => 44,
    }
}

/// What is between the comments of that name on a page, and what is around it.
fn parts<'p>(page: &'p str, name: &str) -> [&'p str; 3] {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let from = page.find(&begin).expect("the page has the table") + begin.len();
    let to = from + page[from..].find(&end).expect("the table has an end");
    [&page[..from], &page[from..to], &page[to..]]
}

#[test]
fn lengths_of_sequences_are_those_of_the_assembler() {
    let path = guide().join("src/emitting.md");
    let page = fs::read_to_string(&path).unwrap();
    let [before, table, after] = parts(&page, "lengths of sequences");
    let measured = sequences();
    if std::env::var_os("GUIDE_WRITE").is_some() {
        fs::write(&path, [before, &measured, after].concat()).unwrap();
        return;
    }
    assert_eq!(
        table, measured,
        "GUIDE_WRITE=1 cargo test -p guide writes it anew"
    );
}
