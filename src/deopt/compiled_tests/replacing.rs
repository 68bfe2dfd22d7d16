//! A compiled frame replaced by those of functions that were inlined into it, and by a call.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::object;
use crate::addr::CodeAddr;
use crate::arch::CallShape;
use crate::deopt::host::state;
use crate::deopt::{Answer, Arg, Error, ExitStubs, Frame, Result, UnwindInfo, Value};
use crate::engine::Engine;
use crate::publish::SingleThreaded;
use crate::site::{Function, Module, Site};

/// What `inner`'s patchpoint returns.
const CALLED: u64 = 1000;

/// The functions into whose frames a frame of `fast` is taken apart.
struct Slow {
    module: Module,
    outer: Site,
    inner: Site,
    unwind: UnwindInfo,
}

impl Slow {
    fn function(&self, name: &str) -> Function {
        self.module.function(name).unwrap()
    }
}

struct Lab {
    _engine: Engine,
    slow: Arc<OnceLock<Slow>>,
    failed: Arc<Mutex<Option<Error>>>,
}

impl Lab {
    fn new(
        handler: impl for<'f> Fn(&mut Frame<'f>, &Slow) -> Result<Answer<'f>> + Send + Sync + 'static,
    ) -> Self {
        let slow: Arc<OnceLock<Slow>> = Arc::default();
        let failed: Arc<Mutex<Option<Error>>> = Arc::default();
        let (known, fails) = (Arc::clone(&slow), Arc::clone(&failed));
        let exit_stubs = ExitStubs::new().on_deopt(move |frame| {
            handler(frame, known.get().unwrap()).unwrap_or_else(|error| {
                *fails.lock() = Some(error);
                frame.resume()
            })
        });
        // SAFETY: every test runs its code on its own thread alone.
        let alone = unsafe { SingleThreaded::promise() };
        let engine = Engine::builder().world(alone).exits(exit_stubs).build().unwrap();
        let code = engine.load(object!("replace"), |_| None).unwrap();
        // SAFETY: what is told is true of the object's code, or refused.
        let module = unsafe { engine.register(code, |_| CallShape::c(48).result()) }.unwrap();
        let site = |id: u64| engine.sites(id).unwrap()[0].clone();
        let fast = module.function("fast").unwrap();
        let made = Slow {
            outer: site(11),
            inner: site(12),
            unwind: UnwindInfo::of(&fast).unwrap(),
            module: module.clone(),
        };
        assert!(slow.set(made).is_ok());
        engine.invalidate(&fast).unwrap();
        module.release();
        Self {
            _engine: engine,
            slow,
            failed,
        }
    }

    /// Calls `caller`, checks what it computed from `value` and from its registers, and returns an
    /// error of the handler.
    fn run(&self, value: impl Fn(u64, u64) -> u64) -> Option<Error> {
        let caller = self.slow.get().unwrap().function("caller").entry().unwrap().get();
        // SAFETY: that is the function's signature in the IR; the module stays registered.
        let caller: extern "C" fn(&[u64; 20], &[f64; 20], u64, u64) -> u64 =
            unsafe { std::mem::transmute(caller as usize) };
        for x in [0, 1, 12345, u64::MAX] {
            let y = x ^ 77;
            let words = std::array::from_fn(|n| x.wrapping_mul(31) ^ (n as u64) << 20);
            let numbers = std::array::from_fn(|n| (n * n) as f64);
            let found = caller(&words, &numbers, x, y);
            if let Some(error) = self.failed.lock().take() {
                return Some(error);
            }
            assert_eq!(found, expected(value(x, y), &words, &numbers), "x = {x}");
        }
        None
    }
}

/// What `caller` makes of the value of `fast`.
fn expected(value: u64, words: &[u64; 20], numbers: &[f64; 20]) -> u64 {
    let first = value.wrapping_add(words[0]);
    let sum = words[1..]
        .iter()
        .fold(first, |sum, word| sum.wrapping_mul(3).wrapping_add(*word));
    let float: f64 = (value & 255) as f64 + numbers.iter().sum::<f64>();
    sum.wrapping_add(float as u64)
}

/// What `fast` computes when its patchpoint returns `called`.
fn fast(x: u64, y: u64, called: u64) -> u64 {
    let inner = called.wrapping_add(x.wrapping_add(y).wrapping_mul(y ^ 85));
    outer(x, y, inner)
}

fn outer(x: u64, y: u64, inner: u64) -> u64 {
    inner.wrapping_add(x).wrapping_mul(y) ^ x.wrapping_mul(3)
}

fn live(frame: &Frame<'_>) -> Result<[u64; 5]> {
    let mut values = [0; 5];
    for (at, value) in values.iter_mut().enumerate() {
        *value = frame.live_value(at)?.u64().unwrap_or(0);
    }
    Ok(values)
}

/// `outer` in the middle of calling `inner`, in which a call has just returned.
fn take_apart<'f>(frame: &mut Frame<'f>, slow: &Slow) -> Result<Answer<'f>> {
    let [x, y, a, p, q] = live(frame)?;
    let mut new = frame.replacement()?;
    let (above, returns_to) = (new.stack_pointer(), new.next());
    // SAFETY: the frames are filled with what the code there expects, or are not laid.
    let mut outer = unsafe { new.push_compiled(&slow.function("outer"), slow.outer.end(), &slow.unwind) }?;
    assert_eq!(outer.return_address(), returns_to);
    let (record, _) = slow.outer.record().unwrap();
    for (location, value) in record.locations().zip([x, y, a]) {
        outer.set(location, value.into())?;
    }
    // SAFETY: the frames are filled with what the code there expects, or are not laid.
    let mut inner = unsafe { new.push_compiled(&slow.function("inner"), slow.inner.end(), &slow.unwind) }?;
    assert_eq!(inner.return_address(), slow.outer.end());
    let (record, _) = slow.inner.record().unwrap();
    let [at_p, slots] = [0, 1].map(|index| record.locations().get(index).unwrap());
    inner.set(at_p, p.into())?;
    let at_slots = inner.address_of(slots)?;
    let offset = u32::try_from(at_slots - inner.stack_pointer()).unwrap();
    inner.put(offset + 56, q.into())?;
    assert_eq!(new.len(), 2);
    assert!(above - new.stack_pointer() > 24_000);
    // SAFETY: the code of the test can go on with it.
    unsafe { frame.set_register(state::RESULT, CALLED.into()) }?;
    Ok(frame.replace(new))
}

#[test]
fn inlined_functions_go_on_in_frames_of_their_own() {
    let lab = Lab::new(take_apart);
    assert_eq!(lab.run(|x, y| fast(x, y, CALLED)), None);
}

#[test]
fn many_frames_reach_far_below_the_old_one() {
    // outer(outer(.. inner ..)): 30 frames of inner would be 720 KiB.
    let lab = Lab::new(|frame, slow| {
        let [x, y, a, ..] = live(frame)?;
        let mut new = frame.replacement()?;
        let (record, _) = slow.outer.record().unwrap();
        for _ in 0..1000 {
            // SAFETY: the frames are filled with what the code there expects, or are not laid.
            let mut outer =
                unsafe { new.push_compiled(&slow.function("outer"), slow.outer.end(), &slow.unwind) }?;
            for (location, value) in record.locations().zip([x, y, a]) {
                outer.set(location, value.into())?;
            }
        }
        // SAFETY: the code of the test can go on with it.
        unsafe { frame.set_register(state::RESULT, 5u64.into()) }?;
        Ok(frame.replace(new))
    });
    assert_eq!(
        lab.run(|x, y| (0..1000).fold(5, |inner, _| outer(x, y, inner))),
        None
    );
}

#[test]
fn no_frame_is_as_a_return() {
    let lab = Lab::new(|frame, _| {
        // SAFETY: the code of the test can go on with it.
        unsafe { frame.set_register(state::RESULT, 99u64.into()) }?;
        Ok(frame.replace(frame.replacement()?))
    });
    assert_eq!(lab.run(|_, _| 99), None);
}

extern "C" fn better(x: u64, y: f64, z: u64) -> u64 {
    std::hint::black_box(x.wrapping_mul(10).wrapping_add(y as u64).wrapping_add(z))
}

/// What a function pointer holds, as loaded code has it.
fn pointer(function: extern "C" fn(u64, f64, u64) -> u64) -> CodeAddr {
    CodeAddr::new(function as usize as u64)
}

#[test]
fn another_function_goes_on_in_place_of_the_frame() {
    let lab = Lab::new(|frame, _| {
        let [x, y, ..] = live(frame)?;
        let args = [Arg::Int(x), Arg::F64(2.0), Arg::Int(y)];
        // SAFETY: the frames are filled with what the code there expects, or are not laid.
        let new = unsafe { frame.replacement()?.call(pointer(better), &args) }?;
        Ok(frame.replace(new))
    });
    assert_eq!(
        lab.run(|x, y| x.wrapping_mul(10).wrapping_add(2).wrapping_add(y)),
        None
    );
}

#[test]
fn a_new_frame_can_call_a_function() {
    let lab = Lab::new(|frame, slow| {
        let [x, y, a, ..] = live(frame)?;
        let mut new = frame.replacement()?;
        // SAFETY: the frames are filled with what the code there expects, or are not laid.
        let mut outer =
            unsafe { new.push_compiled(&slow.function("outer"), slow.outer.end(), &slow.unwind) }?;
        let (record, _) = slow.outer.record().unwrap();
        for (location, value) in record.locations().zip([x, y, a]) {
            outer.set(location, value.into())?;
        }
        // SAFETY: the frames are filled with what the code there expects, or are not laid.
        let new = unsafe { new.call(pointer(better), &[Arg::Int(1), Arg::F64(2.0), Arg::Int(3)]) }?;
        Ok(frame.replace(new))
    });
    assert_eq!(lab.run(|x, y| outer(x, y, 15)), None);
}

#[test]
fn what_does_not_fit_is_refused() {
    let lab = Lab::new(|frame, slow| {
        let at = slow.outer.end();
        let mut new = frame.replacement()?;
        let before = new.stack_pointer();
        for size in [4, 12, (1 << 20) + 16, 0xffff_fff0] {
            assert!(
                // SAFETY: the frames are filled with what the code there expects, or are not laid.
                matches!(unsafe { new.push(at, size) }, Err(Error::NewFrame { .. })),
                "{size}"
            );
        }
        new.set_lowest(before - 320);
        assert!(matches!(
            // SAFETY: the frames are filled with what the code there expects, or are not laid.
            unsafe { new.push(at, 336) },
            Err(Error::NewFrame { .. })
        ));
        assert_eq!(
            (new.len(), new.stack_pointer(), new.is_empty()),
            (0, before, true)
        );
        // SAFETY: the frames are filled with what the code there expects, or are not laid.
        let mut outer = unsafe { new.push(at, 320) }?;
        let word = Value::from(1u64);
        for offset in [320 + 160, 1000, u32::MAX] {
            assert!(
                matches!(outer.put(offset, word), Err(Error::NewFramePlace { .. })),
                "{offset}"
            );
        }
        // No function preserves the register of its result.
        assert!(matches!(
            outer.save(state::RESULT, 0),
            Err(Error::FrameRegister { .. })
        ));
        assert!(matches!(
            outer.set_register(state::RESULT, 0),
            Err(Error::FrameRegister { .. })
        ));
        new.set_lowest(0);
        // The outer frame is above the inner one, in the same bytes.
        // SAFETY: the frames are filled with what the code there expects, or are not laid.
        let mut inner = unsafe { new.push(at, 32) }?;
        assert!(inner.put(16, word).is_ok());
        assert!(matches!(
            inner.put(32 + 160, word),
            Err(Error::NewFramePlace { .. })
        ));
        let many = [Arg::Int(0); 9];
        assert!(matches!(
            // SAFETY: the frames are filled with what the code there expects, or are not laid.
            unsafe { new.call(pointer(better), &many) },
            Err(Error::FrameIndex { .. })
        ));
        let mut new = frame.replacement()?;
        // SAFETY: the frames are not laid.
        unsafe { new.push(at, 1 << 19) }?;
        // Nothing was answered but this.
        // SAFETY: the code of the test can go on with it.
        unsafe { frame.set_register(state::RESULT, 7u64.into()) }?;
        Ok(frame.replace(frame.replacement()?))
    });
    assert_eq!(lab.run(|_, _| 7), None);
}

#[test]
fn a_frame_that_keeps_its_return_address_calls_nobody() {
    let lab = Lab::new(|frame, slow| {
        let mut new = frame.replacement()?;
        let id = slow.function("id");
        // In no stack map.
        assert!(matches!(
            // SAFETY: the frames are filled with what the code there expects, or are not laid.
            unsafe { new.push_compiled(&id, id.addr(), &slow.unwind) },
            Err(Error::NewFrame { .. })
        ));
        let fast = slow.function("fast");
        let site = fast.sites().next().unwrap();
        // SAFETY: the frames are filled with what the code there expects, or are not laid.
        unsafe { new.push_compiled(&fast, site.end(), &slow.unwind) }?;
        // SAFETY: the frames are filled with what the code there expects, or are not laid.
        let again = unsafe { new.push(slow.outer.end(), 64) };
        if cfg!(any(target_arch = "x86_64", target_arch = "powerpc64")) {
            assert!(again.is_ok());
        }
        // SAFETY: the code of the test can go on with it.
        unsafe { frame.set_register(state::RESULT, 7u64.into()) }?;
        Ok(frame.replace(frame.replacement()?))
    });
    assert_eq!(lab.run(|_, _| 7), None);
}
