//! Leaving compiled code: the interpreter goes on where it was.
//!
//! Every site's live values are the isolate and all registers of the interpreter at the site's
//! instruction, so there is nothing to reconstruct: they are read, the interpreter runs to the
//! function's end, and the compiled frame is made to return its result.

use patchpoint::deopt::{Answer, Error, Frame, ReturnValue};

use super::compiled::{BytecodePlace, SitePurpose};
use super::interpreter;
use super::isolate::Isolate;
use super::value::Word;

/// The interpreter's registers of a frame: all live values but the first, which is the isolate's
/// globals.
fn registers_of(frame: &Frame<'_>) -> Result<Vec<Word>, Error> {
    let word = |value: patchpoint::deopt::Value| Word(value.u64().unwrap_or_default());
    let values = frame.live_values().skip(1);
    values.map(|(_, value)| value.map(word)).collect()
}

/// A frame has come to a site that is invalidated, or that stands for what the code cannot do.
pub(crate) fn leave<'f>(frame: &mut Frame<'f>) -> Answer<'f> {
    let left = try_leave(frame);
    left.expect("every function has unwind information, and every site a state")
}

fn try_leave<'f>(frame: &Frame<'f>) -> Result<Answer<'f>, Error> {
    let place = *frame
        .description::<BytecodePlace>()
        .expect("every site is described");
    let isolate = Isolate::current();
    let mut registers = registers_of(frame)?;
    let runtime = isolate.runtime();
    match (place.kind, runtime.tiers()) {
        (SitePurpose::Rare, Some(tiers)) => {
            runtime.figures.rare_exits();
            tiers.rare_exits(place.function);
        }
        _ => runtime.figures.left(),
    }
    let result = interpreter::run(isolate, place.function, place.pc, &mut registers);
    frame.return_to_caller(ReturnValue::Int(result.0))
}
