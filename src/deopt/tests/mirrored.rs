//! Frames of threads in a mirror, of which anything may be said.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use std::sync::Mutex;

use super::site::TestSite;
use crate::addr::{CodeAddr, CodeRange, DwarfReg};
use crate::deopt::mirrored::{Contexts, KnownContext};
use crate::deopt::state::{RawState, saved_len};
use crate::deopt::{Answer, Error, ExitStubContext, Frame, Result, ReturnValue, Role, Value};
use crate::engine::SavedFrame;
use crate::stackmap::testing::{indirect, map, record};

const RBX: usize = 3;

/// A stack as the routine leaves it: the save area, the registers, the frame of the site above.
struct Stack(Vec<u64>);

/// In words.
const SAVE: usize = 1024;
const RAW: usize = 2048;
const GENERAL: usize = RAW + core::mem::offset_of!(RawState, gprs) / 8;
const WORDS: usize = 4096;

impl Stack {
    fn new() -> Self {
        Self(vec![0; WORDS])
    }

    fn at(&self, word: usize) -> u64 {
        &raw const self.0[word] as u64
    }

    fn range(&self) -> CodeRange {
        CodeRange::new(CodeAddr::new(self.at(0)), WORDS as u64 * 8).unwrap()
    }

    fn saved(&self, kept: &KnownContext) -> SavedFrame {
        self.said([kept.address(), self.at(RAW), self.at(SAVE)])
    }

    fn said(&self, words: [u64; 3]) -> SavedFrame {
        // SAFETY: a vector of the test's, which nobody refers to while the frame is handled.
        unsafe { SavedFrame::new(words, self.range()) }
    }
}

fn contexts(
    handler: impl for<'f> Fn(&mut Frame<'f>) -> Answer<'f> + Send + Sync + 'static,
) -> (Contexts, KnownContext) {
    let mut site = TestSite::new(CodeAddr::new(0x1000), handler);
    let word = indirect(RBX as u16, 0, 8);
    let (record, constants) = map().function(0x1000, 24, [record(7).locations([word])]).leak();
    (site.record, site.constants) = (Some(record), constants);
    let contexts = Contexts::new(CodeAddr::new(0x9999));
    // SAFETY: no exit stub is made of it.
    let context = unsafe { ExitStubContext::new(Role::Deopt, Arc::new(site)) }.unwrap();
    let kept = contexts.keep(context);
    (contexts, kept)
}

fn answer(saved: &SavedFrame, contexts: &Contexts) -> Result<Option<u64>> {
    contexts.handle(saved)
}

#[test]
fn a_frame_on_the_stack_is_handled() {
    let (contexts, kept) = contexts(|frame| {
        assert_eq!(frame.live_value(0).unwrap().u64(), Some(77));
        frame.set_value(0, Value::from(78_u64)).unwrap();
        // SAFETY: the code of the test can go on with it.
        unsafe { frame.set_register(DwarfReg::new(0), Value::from(5_u64)) }.unwrap();
        frame.resume()
    });
    let mut stack = Stack::new();
    stack.0[RAW + 100] = 77;
    stack.0[GENERAL + RBX] = stack.at(RAW + 100);
    assert_eq!(answer(&stack.saved(&kept), &contexts), Ok(Some(0)));
    assert_eq!((stack.0[RAW + 100], stack.0[GENERAL]), (78, 5));
}

/// A context is looked up, never followed.
#[test]
fn a_context_of_nobody_is_not_handled() {
    let (contexts, kept) = contexts(|frame| frame.resume());
    let stack = Stack::new();
    let saved = stack.saved(&kept);
    let other = stack.said([saved.context() + 8, saved.general(), saved.vectors()]);
    assert_eq!(answer(&other, &contexts), Ok(None));
    drop(kept);
    assert_eq!(answer(&saved, &contexts), Ok(None), "its exit stub is gone");
}

#[test]
fn what_was_saved_outside_of_the_stack_is_refused() {
    let (contexts, kept) = contexts(|_| unreachable!("nothing is to be looked at"));
    let stack = Stack::new();
    let good = stack.saved(&kept);
    let raw = |raw| stack.said([good.context(), raw, good.vectors()]);
    let save = |save| stack.said([good.context(), good.general(), save]);
    let end = stack.range().end().get();
    let wrong = [
        raw(0),
        raw(u64::MAX),
        raw(stack.at(0) - 8),
        raw(end - size_of::<RawState>() as u64),
        raw(end - size_of::<RawState>() as u64 + 8),
        raw(good.general() + 1),
        raw(good.vectors() + 64),
        save(0),
        save(u64::MAX - 7),
        save(stack.at(0) - 64),
        save(end - saved_len() as u64 + 64),
        save(good.general() - saved_len() as u64 + 8),
    ];
    for saved in wrong {
        let refused = answer(&saved, &contexts);
        assert!(
            matches!(refused, Err(Error::SavedFrame { .. })),
            "{saved:x?}: {refused:?}"
        );
    }
}

/// Whatever a register says, memory of this process is neither read nor written for the frame.
#[test]
fn registers_point_to_the_stack_only() {
    let results = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&results);
    let (contexts, kept) = contexts(move |frame| {
        let read = frame.live_value(0).map(drop);
        let written = frame.set_value(0, Value::from(1_u64));
        seen.lock().unwrap().extend([read, written]);
        frame.resume()
    });
    let mut stack = Stack::new();
    let own = 42_u64;
    let (start, end) = (stack.at(0), stack.range().end().get());
    for at in [
        &raw const own as u64,
        start - 8,
        start - 1,
        end - 7,
        end,
        0,
        u64::MAX,
    ] {
        stack.0[GENERAL + RBX] = at;
        assert_eq!(answer(&stack.saved(&kept), &contexts), Ok(Some(0)));
    }
    assert_eq!(own, 42);
    let results = results.lock().unwrap();
    assert_eq!(results.len(), 14);
    for result in &*results {
        assert!(matches!(result, Err(Error::FrameOutside { .. })), "{result:?}");
    }
}

/// Leaving the frame by an answer that would lay words outside of the stack is refused, and so is
/// what needs more than the stack.
#[test]
fn a_frame_is_left_within_the_stack_only() {
    let (contexts, kept) = contexts(|frame| {
        let end = frame.stack_pointer();
        // SAFETY: the code at that address can go on with the frame.
        let beyond =
            unsafe { frame.continue_with_stack(CodeAddr::new(0x2000), end + WORDS as u64 * 8) }.map(drop);
        assert!(
            matches!(beyond, Err(Error::FrameStackPointer { .. })),
            "{beyond:?}"
        );
        let replaced = frame.replacement().map(drop);
        assert!(
            matches!(
                replaced,
                Err(Error::Memory(crate::memory::Error::NotMirrored { .. }))
            ),
            "{replaced:?}"
        );
        let returned = frame.return_to_caller(ReturnValue::Int(1)).map(drop);
        assert!(
            matches!(returned, Err(Error::UnwindMissing { .. })),
            "{returned:?}"
        );
        // SAFETY: the code at that address can go on with the frame.
        unsafe { frame.continue_with_stack(CodeAddr::new(0x2000), end + 64) }.unwrap()
    });
    let stack = Stack::new();
    let block = answer(&stack.saved(&kept), &contexts).unwrap().unwrap();
    assert!(stack.range().contains_bytes(CodeAddr::new(block), 18 * 8));
    let at = (block - stack.at(0)) as usize / 8;
    assert_eq!(stack.0[at + 17], 0x2000, "where it goes on");
}
