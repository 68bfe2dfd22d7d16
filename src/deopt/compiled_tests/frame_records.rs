//! Frames that are walked and left by what a flat stack map tells of them: made of the version 3
//! map of the same object, with where the unwind information says that registers are saved.

use super::object;
use crate::addr::{CodeAddr, DwarfReg, Len};
use crate::arch::CallShape;
use crate::deopt::unwind::{Base, Saved};
use crate::deopt::{ExitStubs, ReturnValue, UnwindInfo, Walker};
use crate::engine::{Engine, LoadedCode};
use crate::publish::SingleThreaded;
use crate::site::{Module, UnwindBy};
use crate::stackmap::flat::{Dialect, FlatFunction, FlatRecord, FlatWriter, FrameRegister};
use crate::stackmap::{FunctionRecord, StackMap, StackMaps};
use crate::{Error, Result};

use std::sync::{Arc, OnceLock};

/// What the unwind information says of a function at its first record, in the words of a flat map.
fn told(code: &LoadedCode, of: &FunctionRecord<'_>) -> FlatFunction {
    let start = CodeAddr::new(of.address());
    let first = of.records().unwrap().next().unwrap();
    let pc = start.at(first.offset()).unwrap();
    let info = code.image().eh_frames.iter().find_map(|frame| {
        let info = UnwindInfo::new(frame.addr, &frame.bytes).unwrap();
        info.can_return(pc).is_ok().then_some(info)
    });
    let row = info.unwrap().row(pc).unwrap();
    let Base::Register(base, above) = row.base else {
        panic!("{row:?}");
    };
    let register = |(reg, how): &(DwarfReg, Saved)| {
        let Saved::At(by) = how else {
            panic!("{how:?}");
        };
        FrameRegister {
            reg: *reg,
            offset: i16::try_from(above + by).unwrap(),
            size: 8,
            is_spilled: true,
        }
    };
    let stack_pointer = crate::deopt::host::state::STACK_POINTER;
    FlatFunction {
        has_frame_pointer: base != stack_pointer,
        registers: row.saved.iter().map(register).collect(),
        ..FlatFunction::new(code.image().function_at(start).unwrap().len, base)
    }
}

fn flat(code: &LoadedCode, dialect: Dialect, change: &impl Fn(&mut FlatFunction)) -> Vec<u8> {
    let maps = StackMaps::parse(&code.image().stack_maps, code.image().endian).unwrap();
    let write = |map: &StackMap<'_>| {
        let function = |of: &FunctionRecord<'_>| {
            let mut told = told(code, of);
            if dialect == Dialect::Fork {
                told.registers.clear();
            }
            change(&mut told);
            told
        };
        let record = |record: &crate::stackmap::Record<'_>| FlatRecord {
            reserved: Len::new(if record.id().get() == 1 { 48 } else { 8 }),
            ..record.into()
        };
        FlatWriter::new(dialect).write(map, function, record).unwrap()
    };
    maps.maps().iter().flat_map(write).collect()
}

/// `inner` is left when it is reached: `middle` and `outer` then decide whether that was right.
/// Returns the callers that were found.
fn leave(dialect: Dialect, change: impl Fn(&mut FlatFunction)) -> Result<Vec<String>> {
    let walker: Arc<OnceLock<Walker>> = Arc::default();
    let names: Arc<parking_lot::Mutex<Vec<String>>> = Arc::default();
    let (walks, seen) = (Arc::clone(&walker), Arc::clone(&names));
    let exit_stubs = ExitStubs::new().on_deopt(move |frame| {
        for caller in walks.get().unwrap().callers(frame) {
            seen.lock().push(caller.unwrap().function().name().to_owned());
        }
        frame.return_to_caller(ReturnValue::Void).unwrap()
    });
    // SAFETY: every test runs its code on its own thread alone.
    let alone = unsafe { SingleThreaded::promise() };
    let engine = Engine::builder().world(alone).exits(exit_stubs).build().unwrap();
    let code = engine.load(object!("walk"), |_| None).unwrap();
    let section = flat(&code, dialect, &change);
    // SAFETY: what is told is true of the object's code, or refused.
    let module: Module = unsafe {
        engine
            .registration(code.with_stack_maps(section))
            .unwind_by(UnwindBy::FrameRecords)
            .leavable()
            .register(|record| -> crate::site::Result<Option<CallShape>> {
                if record.id().get() != 1 {
                    return Ok(None);
                }
                Ok(Some(CallShape::c(record.reserved()?.get())))
            })
    }?;
    assert!(walker.set(Walker::new(&engine)).is_ok());
    engine.invalidate(&module.function("inner").unwrap()).unwrap();
    module.release();
    let entry = module.function("outer").unwrap().entry().unwrap().get();
    // SAFETY: that is the function's signature in the IR; the module stays registered.
    let outer: extern "C" fn(u64, &mut [u64; 20]) -> u64 = unsafe { std::mem::transmute(entry as usize) };
    let mut words = std::array::from_fn(|n| n as u64);
    assert_eq!(outer(10, &mut words), 30 * 7 + 30);
    assert_eq!(words, std::array::from_fn(|n| n as u64));
    let names = names.lock().clone();
    Ok(names)
}

#[test]
fn frames_are_walked_and_left_by_frame_registers() {
    assert_eq!(leave(Dialect::Proposal, |_| ()).unwrap(), ["middle", "outer"]);
}

fn refused(dialect: Dialect, change: impl Fn(&mut FlatFunction), why: &str) {
    let error = leave(dialect, change).unwrap_err();
    assert!(
        matches!(&error, Error::SiteNotLeavable { reason, .. } if reason.contains(why)),
        "{error}"
    );
}

#[test]
fn what_is_not_told_is_not_guessed() {
    refused(Dialect::Fork, |_| (), "it is not known where");
    let narrow = |function: &mut FlatFunction| {
        for register in &mut function.registers {
            register.size = 4;
        }
    };
    refused(Dialect::Proposal, narrow, "no unwind information");
    let no_size = |function: &mut FlatFunction| {
        function.has_frame_pointer = false;
        function.has_variable_size = true;
    };
    refused(Dialect::Proposal, no_size, "no unwind information");
}
