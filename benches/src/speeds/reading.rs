//! Reading a large stack map against LLVM's own reader, and registering its records against reading
//! them.

use std::hint::black_box;
use std::time::Duration;

use patchpoint::publish::GracePeriod;
use patchpoint::stackmap::{Endian, LiveOut, Location, LocationKind, StackMaps, StackSize};

use super::{Goal, Speed};
use crate::made::{SyntheticModules, shape};
use crate::measure::{Effort, interleave, time};
use crate::program::{self, Program};
use crate::subject;

const RECORDS: usize = 100_000;

const EFFORT: Effort = Effort {
    batches: 31,
    operations: 1,
};

/// Both rows.
pub(super) fn all() -> Vec<Speed> {
    let made = SyntheticModules::new(RECORDS, 1);
    let map = made.map(0);
    let sum = visit(&map);
    let engine = subject::engine();
    let mut read = || time(|| assert_eq!(visit(black_box(&map)), sum));
    let mut register = || {
        let code = made.code(&engine, 0, map.clone());
        let mut module = None;
        // SAFETY: what is told is true of the object's code, or refused.
        let took = time(|| module = Some(unsafe { engine.register(code, shape) }.unwrap()));
        // SAFETY: nothing runs there.
        let grace_period = unsafe { GracePeriod::promise() };
        engine.unregister(module.unwrap(), &grace_period).unwrap();
        took
    };
    let what = "reading a map of 13 MB, 100,000 records, every field";
    let with = "LLVM's StackMapParser";
    let mut theirs = parser(&map).map(|mut program| {
        move || {
            let answer = program.ask("read");
            assert_eq!(answer[1], sum, "both visit the same fields");
            Duration::from_nanos(answer[0])
        }
    });
    let mut nothing = || Duration::ZERO;
    let other: &mut dyn FnMut() -> Duration = match &mut theirs {
        Some(theirs) => theirs,
        None => &mut nothing,
    };
    let [read, register, other] = interleave(EFFORT, [&mut read, &mut register, other]);
    let other = match theirs {
        Some(_) => Ok(other),
        None => Err("there is no clang with LLVM's headers here"),
    };
    vec![
        Speed {
            what,
            ours: read.clone(),
            theirs: Some((with, other)),
            goal: Goal::AtMost(1.0),
        },
        Speed::against(
            "registering those records as sites",
            [register, read],
            "reading them",
            Goal::AtMost(5.0),
        ),
    ]
}

/// LLVM's reader, which has the map in a file.
fn parser(map: &[u8]) -> Option<Program> {
    // Where Debian's package puts the headers; elsewhere the compiler has to find them.
    let args = [
        "-O3",
        "-DNDEBUG",
        "-std=c++17",
        "-I/usr/lib/llvm-19/include",
        // Only headers are used, no library of LLVM's.
        "-DLLVM_DISABLE_ABI_BREAKING_CHECKS_ENFORCING=1",
    ];
    let compiled = program::compiled("stackmap-parser", "stackmap_parser/main.cc", &args)?;
    let file = program::temporary("map");
    std::fs::write(&file, map).ok()?;
    let mut program = Program::start(&compiled, [&file])?;
    // When it has answered it has read the file.
    program.ask("read");
    for file in [compiled, file] {
        _ = std::fs::remove_file(file);
    }
    Some(program)
}

/// The sum of every field, in the order in which the other program adds them: functions, constants,
/// records.
fn visit(section: &[u8]) -> u64 {
    let maps = StackMaps::parse(section, Endian::Little).unwrap();
    let mut sum = 0u64;
    let mut add = |field: u64| sum = sum.wrapping_add(field);
    for map in maps.maps() {
        for function in map.headers() {
            add(function.address());
            add(match function.stack_size() {
                StackSize::Known(size) => size,
                StackSize::Unknown => u64::MAX,
            });
            add(function.record_count().unwrap_or(0));
        }
        map.constants().iter().for_each(&mut add);
        for record in map.records() {
            add(record.id().get());
            add(record.offset().get().into());
            let locations = record.locations();
            locations.for_each(|location| add(of_location(&location)));
            record.live_outs().for_each(|live| add(of_live_out(&live)));
        }
    }
    sum
}

fn of_location(location: &Location) -> u64 {
    let (kind, value) = match location.kind {
        LocationKind::Register { reg, .. } => (1, u64::from(reg.get())),
        LocationKind::Direct { reg, offset } => (2, u64::from(reg.get()).wrapping_add_signed(offset.into())),
        LocationKind::Indirect { reg, offset } => {
            (3, u64::from(reg.get()).wrapping_add_signed(offset.into()))
        }
        LocationKind::Constant { value } => (4, i64::from(value) as u64),
        LocationKind::ConstantIndex { index } => (5, index.into()),
    };
    value.wrapping_add(kind + u64::from(location.size))
}

fn of_live_out(live: &LiveOut) -> u64 {
    u64::from(live.reg.get()) + u64::from(live.size)
}
