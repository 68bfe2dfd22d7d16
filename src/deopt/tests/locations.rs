//! Every kind of location, read and written through a real exit stub.

use alloc::sync::Arc;
use alloc::vec::Vec;
use std::sync::Mutex;

use super::machine::{Memory, RAX};
use super::probe::{Image, Probe};
use super::site::TestSite;
use crate::arch::CallShape;
use crate::deopt::{Answer, Error, Frame, Resume, Value};
use crate::stackmap::testing::{
    MapSpec, constant, constant_index, direct, indirect, map, record, reg, sub_reg,
};
use crate::stackmap::{Constants, Location, Record};

const RBX: usize = 3;

/// Runs a probe through a site of this shape and record. The words of `memory` follow rbx.
fn run(
    shape: CallShape,
    (record, constants): (Record<'static>, Constants<'static>),
    words: &mut [u64],
    handler: impl for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync + 'static,
) -> (Image, Image) {
    let mut memory = Memory::new();
    let exit_stub = memory.reserve(128);
    let mut addr = exit_stub;
    let probe = Probe::place(&mut memory, |asm| {
        addr = asm.here();
        asm.jmp(exit_stub);
    });
    let mut site = TestSite::new(addr, handler);
    (site.shape, site.record, site.constants) = (shape, Some(record), constants);
    site.exit_stub(&mut memory, exit_stub, Resume::At(probe.collect));
    memory.seal();
    let mut input = Image::pattern(1, 0);
    input.gprs[RBX] = words.as_mut_ptr() as u64;
    let output = probe.run(&input);
    (input, output)
}

fn one_record(locations: impl IntoIterator<Item = Location>) -> (Record<'static>, Constants<'static>) {
    spec(locations).leak()
}

fn spec(locations: impl IntoIterator<Item = Location>) -> MapSpec {
    map()
        .constant(1 << 40)
        .constant(u64::MAX - 1)
        .function(0x1000, 24, [record(7).locations(locations)])
}

type Read = Vec<Result<Value, Error>>;

/// The live values of a site of this shape.
fn live_values(
    shape: CallShape,
    locations: impl IntoIterator<Item = Location>,
    words: &mut [u64],
) -> (Image, Read) {
    let read: Arc<Mutex<Read>> = Arc::default();
    let sink = Arc::clone(&read);
    let (input, _) = run(shape, one_record(locations), words, move |frame| {
        *sink.lock().unwrap() = frame.live_values().map(|(_, value)| value).collect();
        for (index, value) in frame.live_values().enumerate() {
            assert_eq!(value.1, frame.live_value(index));
            assert_eq!(value.1, frame.read(value.0));
        }
        let count = frame.live_values().len();
        frame.live_value(count).unwrap_err();
        frame.resume()
    });
    let read = core::mem::take(&mut *read.lock().unwrap());
    (input, read)
}

#[test]
fn every_kind_of_location_can_be_read() {
    let mut words = [0x1111, 0x8000_0000_0000_0002, 0x3333, 0x4444];
    let base = words.as_ptr() as u64;
    let locations = [
        reg(0, 8),
        reg(0, 4),
        sub_reg(0, 8, 1),
        sub_reg(0, 32, 4),
        reg(17, 16),
        reg(18, 8),
        direct(3, 24),
        indirect(3, 8, 8),
        indirect(3, 0, 2),
        indirect(3, 0, 32),
        constant(-5),
        constant_index(0),
        constant_index(1),
    ];
    let (input, read) = live_values(CallShape::shadow(8), locations, &mut words);
    let read: Vec<Value> = read.into_iter().map(Result::unwrap).collect();
    let rax = input.gprs[RAX];
    assert_eq!(read[0].u64(), Some(rax));
    assert_eq!((read[1].u64(), read[1].size()), (Some(rax & 0xffff_ffff), 4));
    assert_eq!((read[2].u64(), read[2].size()), (Some(rax >> 8 & 0xff), 1));
    assert_eq!(read[3].u64(), Some(rax >> 32));
    assert_eq!(read[4].bytes(), &input.vectors[0][..16]);
    assert_eq!(read[5].bytes(), &input.vectors[1][..8]);
    assert_eq!(read[6].u64(), Some(base + 24));
    assert_eq!(read[7].i64(), Some(i64::MIN + 2));
    assert_eq!(read[8].bytes(), [0x11, 0x11]);
    let all: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(read[9].bytes(), all);
    assert_eq!(read[10].i64(), Some(-5));
    assert_eq!(read[11].u64(), Some(1 << 40));
    assert_eq!(read[12].i64(), Some(-2));
}

#[test]
fn what_was_not_captured_is_an_error() {
    let locations = [
        reg(0, 16),
        reg(17, 65),
        reg(500, 8),
        sub_reg(0, 8, 8),
        sub_reg(0, -8, 1),
        sub_reg(0, 3, 1),
    ];
    let (_, read) = live_values(CallShape::shadow(8), locations, &mut []);
    for value in read {
        assert!(matches!(value, Err(Error::FrameRegister { .. })), "{value:?}");
    }
    let (_, read) = live_values(CallShape::shadow(8), [indirect(3, 0, 65)], &mut []);
    assert!(matches!(
        read[0],
        Err(Error::FrameValue {
            found: 65,
            limit: 64,
            ..
        })
    ));
}

#[test]
fn values_can_be_written_back() {
    let mut words = [1, 2, 3];
    let locations = [
        reg(0, 8),
        reg(17, 8),
        indirect(3, 8, 8),
        indirect(3, 16, 2),
        sub_reg(1, 8, 1),
    ];
    let (input, output) = run(CallShape::shadow(8), one_record(locations), &mut words, |frame| {
        frame.set_value(0, 10u64.into()).unwrap();
        frame.set_value(1, 2.5f64.into()).unwrap();
        frame.set_value(2, 20u64.into()).unwrap();
        frame
            .write(indirect(3, 16, 2), Value::from_bytes(&[0xee, 0xee]).unwrap())
            .unwrap();
        frame.set_value(4, Value::from_bytes(&[0xaa]).unwrap()).unwrap();
        assert_eq!(frame.value(2).unwrap().u64(), Some(20));
        // Bases are those at the site.
        // SAFETY: the code of the test can go on with it.
        unsafe { frame.set_register(crate::addr::DwarfReg::new(3), 0u64.into()) }.unwrap();
        assert_eq!(frame.value(2).unwrap().u64(), Some(20));
        frame.resume()
    });
    assert_eq!(words, [1, 20, 0xeeee]);
    assert_eq!((output.gprs[RAX], output.gprs[RBX]), (10, 0));
    assert_eq!(output.vectors[0][..8], 2.5f64.to_le_bytes());
    assert_eq!(
        output.vectors[0][8..],
        input.vectors[0][8..],
        "the rest of the register stays"
    );
    assert_eq!(output.gprs[1], input.gprs[1] & !0xff00 | 0xaa00);
}

#[test]
fn a_write_that_does_not_fit_is_refused_and_changes_nothing() {
    let mut words = [1, 2];
    let locations = [
        reg(0, 4),
        indirect(3, 0, 8),
        constant(1),
        constant_index(0),
        direct(3, 0),
        reg(7, 8),
    ];
    let (input, output) = run(CallShape::shadow(8), one_record(locations), &mut words, |frame| {
        let wide = Value::from_bytes(&[0xff; 16]).unwrap();
        for index in 0..=6 {
            frame.set_value(index, wide).unwrap_err();
        }
        frame.set_value(0, 1u64.into()).unwrap_err();
        for index in 2..=5 {
            frame.set_value(index, 1u64.into()).unwrap_err();
        }
        let forged = indirect(0, 0, 8);
        assert!(matches!(frame.read(forged), Err(Error::FrameLocation { .. })));
        assert!(matches!(
            frame.write(forged, 1u64.into()),
            Err(Error::FrameLocation { .. })
        ));
        frame.resume()
    });
    assert_eq!(words, [1, 2]);
    assert_eq!(input.gprs[RAX], output.gprs[RAX]);
}

#[test]
fn the_call_of_an_any_reg_patchpoint() {
    let mut words = [5, 6];
    let shape = CallShape::any_reg(32).result().args(2);
    let locations = [reg(8, 8), reg(9, 8), indirect(3, 8, 8), constant(3)];
    let (input, output) = run(shape, one_record(locations), &mut words, |frame| {
        let r9 = frame.register(crate::addr::DwarfReg::new(9)).unwrap();
        assert_eq!(frame.arg(0).unwrap(), r9);
        assert_eq!(frame.arg(1).unwrap().u64(), Some(6));
        assert!(matches!(frame.arg(2), Err(Error::FrameIndex { have: 2, .. })));
        frame.float_arg(0).unwrap_err();
        let live: Vec<_> = frame
            .live_values()
            .map(|(_, value)| value.unwrap().u64())
            .collect();
        assert_eq!(live, [Some(3)]);
        frame.set_result(0xabcd).unwrap();
        frame.resume()
    });
    assert_eq!(output.gprs[8], 0xabcd);
    assert_eq!(output.gprs[RAX], input.gprs[RAX]);
}

#[test]
fn the_call_of_a_c_patchpoint() {
    let shape = CallShape::c(32).result().args(8);
    let (input, output) = run(shape, one_record([reg(12, 8)]), &mut [], |frame| {
        for (index, reg) in [5, 4, 1, 2, 8, 9].into_iter().enumerate() {
            let value = frame.register(crate::addr::DwarfReg::new(reg)).unwrap();
            assert_eq!(frame.arg(index).unwrap(), value);
        }
        // The probe keeps a register at its stack pointer and the address of its output above that.
        let stack = frame.stack_pointer() as *const u64;
        // SAFETY: the probe's frame.
        let above = unsafe { stack.add(1).read() };
        assert_eq!(frame.arg(7).unwrap().u64(), Some(above));
        frame.arg(8).unwrap_err();
        let xmm7 = frame.register(crate::addr::DwarfReg::new(24)).unwrap();
        assert_eq!(frame.float_arg(7).unwrap(), xmm7);
        frame.float_arg(8).unwrap_err();
        assert_eq!(frame.live_values().len(), 1);
        frame.set_result(1).unwrap();
        frame.set_float_result(1.5).unwrap();
        frame.resume()
    });
    assert_eq!(output.gprs[RAX], 1);
    assert_eq!(output.vectors[0][..8], 1.5f64.to_le_bytes());
    assert_eq!(output.vectors[0][8..], input.vectors[0][8..]);
}

#[test]
fn the_stack_arguments_of_an_entry_are_above_the_return_address() {
    run(CallShape::entry(16).args(7), one_record([]), &mut [], |frame| {
        let stack = frame.stack_pointer() as *const u64;
        // SAFETY: the probe's frame.
        let above = unsafe { stack.add(1).read() };
        assert_eq!(frame.arg(6).unwrap().u64(), Some(above));
        frame.resume()
    });
}

#[test]
fn a_site_without_result_has_none_to_set() {
    run(CallShape::c(32), one_record([]), &mut [], |frame| {
        frame.set_result(1).unwrap_err();
        frame.set_float_result(1.0).unwrap_err();
        frame.resume()
    });
}
