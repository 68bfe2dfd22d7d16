//! What the tests of LLVM's two JITs have in common: the module, what is told of its sites, and what
//! they are patched with.

use std::collections::HashMap;

use patchpoint::addr::RecordId;
use patchpoint::engine::Registration;
use patchpoint::site::{EntrySpec, Module, Site};
use patchpoint::{CallShape, Result};
use patchpoint_producers::{CALLEE, Computes, Function, Subject};
use patchpoint_producers::{added, added_or_called, adding, adding_or_calling, address, callee};
use patchpoint_producers::{returned_or_handed_over, returning_or_handing_over};

/// The IR. LLVM's parser looks for a zero behind it: what is given this has to copy it.
pub fn ir() -> String {
    include_str!("sites.ll").replace("CALLEE to", &format!("{} to", address(callee).get()))
}

/// The functions of the module.
pub const NAMES: [&str; 6] = ["any_0", "any_1", "call_0", "call_1", "entry_0", "entry_1"];

/// Registers the module live.
///
/// # Safety
/// As for [`patchpoint::Engine::register`], for the IR of this folder.
pub unsafe fn register(registration: Registration<'_>) -> Result<Module> {
    let shapes = [
        (100, CallShape::any_reg(32).result().args(1)),
        (101, CallShape::any_reg(17).result().args(1)),
        (200, CallShape::c(40).result().args(1)),
        (201, CallShape::c(16).result().args(1)),
    ];
    let shapes: HashMap<RecordId, CallShape> = shapes.map(|(id, shape)| (RecordId::new(id), shape)).into();
    let entry = |name, id: u64, reserved| EntrySpec::new(name, id, reserved).args(1).result();
    let registration = registration
        .entry(entry("entry_0", 300, 24))
        .entry(entry("entry_1", 301, 5));
    // SAFETY: the caller's promise.
    let (module, missing) = unsafe { registration.live().register_ids(&shapes) }?;
    assert!(missing.is_empty(), "{missing:?}");
    Ok(module)
}

/// The functions that can be executed as they were compiled, and what they return then.
pub fn executable(function: impl Fn(&str) -> Function) -> Vec<(Function, Computes)> {
    let original = |name: &str| -> Option<Computes> {
        match name.split_once('_')?.0 {
            "call" => Some(|x| x + CALLEE),
            "entry" => Some(|x| x + 77),
            _ => None,
        }
    };
    let both = NAMES.iter().map(|name| Some((function(name), original(name)?)));
    both.flatten().collect()
}

/// What is patched, with functions by their names.
pub fn subjects(module: &Module, function: impl Fn(&str) -> Function) -> Vec<Subject> {
    let subject = |site: Site| {
        let function = function(site.function().name());
        match site.id().get() / 100 {
            1 => Subject {
                site,
                function,
                original: None,
                sequence: adding,
                value: added,
            },
            2 => Subject {
                site,
                function,
                original: Some(|x| x + CALLEE),
                sequence: adding_or_calling,
                value: added_or_called,
            },
            _ => Subject {
                site,
                function,
                original: Some(|x| x + 77),
                sequence: returning_or_handing_over,
                value: returned_or_handed_over,
            },
        }
    };
    module.sites().map(subject).collect()
}
