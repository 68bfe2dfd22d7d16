//! Times of whole operations, which have no bare counterpart.

use std::hint::black_box;
use std::time::Duration;

use patchpoint::memory::StrategyChoice;
use patchpoint::publish::GracePeriod;
use patchpoint::site::Function;
use patchpoint::stackmap::{Endian, StackMaps};
use patchpoint::verify;

use crate::measure::{Effort, interleave, time};
use crate::report::Row;
use crate::subject::{self, Copies};

/// Copies of the example's object, of three records each, that have more than 20,000 records.
pub const COPIES: usize = 6_667;

fn single(what: &'static str, effort: Effort, mut work: impl FnMut() -> Duration) -> Row {
    let [ours] = interleave(effort, [&mut work]);
    Row {
        what,
        ours,
        bare: None,
        beside: false,
    }
}

fn each(batches: usize) -> Effort {
    Effort {
        batches,
        operations: 1,
    }
}

/// All of them.
pub fn all() -> Vec<Row> {
    let mut rows = large();
    rows.extend(one_site());
    rows.push(invalidate());
    rows
}

/// Parses every record with its locations and live-outs; returns how many records there are.
pub fn parse(section: &[u8]) -> usize {
    let maps = StackMaps::parse(section, Endian::Little).unwrap();
    let records = maps.records().inspect(|record| {
        record.locations().for_each(|location| _ = black_box(location));
        record.live_outs().for_each(|live_out| _ = black_box(live_out));
    });
    records.count()
}

fn large() -> Vec<Row> {
    let engine = subject::engine();
    let copies = Copies::new(&engine, COPIES, 0);
    assert_eq!(parse(&copies.stack_maps), 3 * COPIES);
    let parse = single("parse 20,001 records with all locations", each(51), || {
        time(|| _ = black_box(parse(black_box(&copies.stack_maps))))
    });
    let register = single("register 20,001 sites", each(11), || {
        let code = copies.adopt(&engine, StrategyChoice::ProcMem).unwrap();
        let mut module = None;
        // SAFETY: what is told is true of the object's code, or refused.
        let took = time(|| module = Some(unsafe { engine.register(code, subject::shape) }.unwrap()));
        let module = module.unwrap();
        assert_eq!(module.sites().count(), 3 * COPIES);
        // SAFETY: nothing runs there.
        engine
            .unregister(module, &unsafe { GracePeriod::promise() })
            .unwrap();
        took
    });
    vec![parse, register]
}

fn one_site() -> Vec<Row> {
    let engine = subject::engine();
    let module = subject::module(&engine);
    let site = subject::reads(&module).remove(0);
    let context = site.context(&[]);
    let sequences = [subject::hit(8), subject::hit(16)];
    let exit_stub = subject::a_exit_stub(&site);
    let assembled = subject::assemble(&sequences[0], &context, exit_stub);
    let effort = Effort {
        batches: 201,
        operations: 64,
    };
    let many = |work: &mut dyn FnMut(usize)| time(|| (0..effort.operations).for_each(work));
    vec![
        single("load an object of two functions", each(101), || {
            let mut code = None;
            let took = time(|| code = Some(subject::load(&engine, subject::INLINE_CACHE)));
            drop(code);
            took
        }),
        single("assemble an inline cache", effort, || {
            many(&mut |_| {
                drop(black_box(subject::assemble(
                    black_box(&sequences[0]),
                    &context,
                    exit_stub,
                )))
            })
        }),
        single("verify it", effort, || {
            many(&mut |_| {
                let checked = verify::check(&context, black_box(&assembled.code), &[], &assembled.declared);
                black_box(checked.unwrap());
            })
        }),
        single("patch_site: assemble, verify, write (Alias)", effort, || {
            many(&mut |turn| _ = black_box(engine.patch_site(&site, &sequences[turn % 2]).unwrap()))
        }),
        single("patch_site and restore_site (Alias)", effort, || {
            many(&mut |_| {
                engine.patch_site(&site, &sequences[0]).unwrap();
                engine.restore_site(&site).unwrap();
            })
        }),
    ]
}

/// Invalidation is for good, so each is of a function of its own.
fn invalidate() -> Row {
    let engine = subject::engine();
    let effort = Effort {
        batches: 51,
        operations: 8,
    };
    single("invalidate a function of two sites (Alias)", effort, || {
        let modules: Vec<_> = (0..effort.operations).map(|_| subject::module(&engine)).collect();
        let functions: Vec<Function> = modules
            .iter()
            .map(|m| m.function("sum_fields").unwrap())
            .collect();
        let took = time(|| {
            for function in &functions {
                black_box(engine.invalidate(function).unwrap());
            }
        });
        drop(functions);
        for module in modules {
            // SAFETY: nothing runs there.
            engine
                .unregister(module, &unsafe { GracePeriod::promise() })
                .unwrap();
        }
        took
    })
}
