//! Patches a site a number of times: in place or live with a shape that was seen before and with
//! new values, or each time with a fresh shape. `asm-tests/cross.sh --count` counts the instructions
//! that this takes.
//!
//!     cargo run --release -p asm-tests --example seen_patches -- place|live|fresh NUMBER
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "../../examples/objects/mod.rs"]
mod compiled;

use patchpoint::addr::CodeAddr;
use patchpoint::deopt::ExitStubs;
use patchpoint::publish::{GracePeriod, SingleThreaded};
use patchpoint::sequence::{Field, Sequence, Target, arg, result};
use patchpoint::{CallShape, Engine};

/// The IDs of the property read, and of the stackmap, in the IR.
const READ: u64 = 78;
const LOOP: u64 = 90;

/// An inline cache of which only the constants are new each time.
fn hit(number: u64) -> Sequence {
    let field = 256 + 8 * (number % 64) as i32;
    Sequence::new()
        .guard_eq(u32::at(arg(0), 0), 0x1000 + number % 1024, Target::Miss)
        .load(result(), u64::at(arg(0), field))
}

/// A shape of its own, of some thousands.
fn shaped(number: u64) -> Sequence {
    let of = |step: u64| number / step % 4;
    let add = |sequence: Sequence, kind| match kind {
        0 => sequence.add(result(), 3_u8),
        1 => sequence.and(result(), 0x7f),
        2 => sequence.shift_left(result(), 3),
        _ => sequence.shift_right(result(), 3),
    };
    let sequence = Sequence::new().load(result(), u64::at(arg(0), 8));
    [1, 4, 16, 64, 256, 1024].into_iter().map(of).fold(sequence, add)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next();
    let is_live = mode.as_deref() == Some("live");
    let is_fresh = mode.as_deref() == Some("fresh");
    let number = arguments.next().expect("how often").parse::<u64>().unwrap();

    let exit_stubs = ExitStubs::new()
        .on_miss(|frame| frame.resume())
        .on_deopt(|frame| frame.resume());
    // SAFETY: this program has one thread.
    let world = unsafe { SingleThreaded::promise() };
    let engine = Engine::builder().world(world).exits(exit_stubs).build().unwrap();
    let code = engine.load(compiled::INLINE_CACHE, |_| None::<CodeAddr>).unwrap();
    let registration = engine.registration(code);
    let registration = if is_live {
        registration.live()
    } else {
        registration
    };
    let shape = |id| match id {
        READ => Some(CallShape::any_reg(32).result().args(1)),
        LOOP => Some(CallShape::shadow(24)),
        _ => None,
    };
    // SAFETY: that is what the IR says of the two.
    let module = unsafe { registration.register(|record| shape(record.id().get())) }.unwrap();
    for number in 0..number {
        engine
            .patch(READ, &if is_fresh { shaped(number) } else { hit(number) })
            .unwrap();
        if is_live {
            // SAFETY: no thread executes the sites.
            engine.reclaim(&unsafe { GracePeriod::promise() }).unwrap();
        }
    }
    drop(module);
}
