//! What the objects call and read outside themselves.
#![allow(unsafe_code, reason = "declares a function of the C library")]

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use patchpoint::addr::CodeAddr;
use patchpoint::image::{ImageReach, Object, SegmentKind};
use patchpoint::memory::{self, Arena, PlacedSegments, SegmentNeed};

const DATA: u64 = 23;
static EXT_DATA: AtomicU64 = AtomicU64::new(DATA);

/// A copy of the external data below 2 GiB, where a program keeps it that is linked for fixed
/// addresses.
fn low_data() -> u64 {
    static LOW: OnceLock<(PlacedSegments, u64)> = OnceLock::new();
    let place = || {
        let needs = [SegmentNeed {
            kind: SegmentKind::Data,
            len: 8,
            align: 8,
        }];
        let mut placement = Arena::new(1 << 16).place(&needs, memory::Reach::Low2GiB)?;
        let at = placement
            .segments()
            .first()
            .map_or_else(Default::default, |s| s.range.start());
        placement.fill(at, &DATA.to_ne_bytes())?;
        Ok::<_, patchpoint::Error>((placement.finalize()?, at.get()))
    };
    let (_, at) = LOW.get_or_init(|| place().unwrap_or_else(|error| panic!("{error}")));
    *at
}

extern "C" fn ext_add(a: u64, b: u64) -> u64 {
    a.wrapping_add(b)
}

extern "C" fn callee<const ID: u64>(a: u64) -> u64 {
    a.wrapping_add(ID)
}

extern "C" fn callee_void(_: u64) {}

unsafe extern "C" {
    /// What some targets call for a copy of a few bytes.
    fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
}

/// [`resolve`] for an object: one that has addresses in 32 bits finds what it reads outside itself
/// below 2 GiB.
///
/// # Panics
///
/// If there is no memory there.
pub fn resolve_for(object: &[u8]) -> impl Fn(&str) -> Option<CodeAddr> + use<> {
    let layout = Object::parse(object).and_then(Object::layout);
    let is_low = layout.is_ok_and(|layout| layout.reach() == ImageReach::Low2GiB);
    move |name| match name {
        "ext_data" if is_low => Some(CodeAddr::new(low_data())),
        _ => resolve(name).map(CodeAddr::new),
    }
}

/// The address in this process of a symbol that the objects need; `None` for those that must be
/// missing.
///
/// `callee_ID(x, ..)` returns `x + ID`, the contract of the site that calls it.
#[must_use]
pub fn resolve(name: &str) -> Option<u64> {
    let address = match name {
        "ext_add" => ext_add as extern "C" fn(u64, u64) -> u64 as usize,
        "ext_data" => EXT_DATA.as_ptr() as usize,
        "callee_600" => callee::<600> as extern "C" fn(u64) -> u64 as usize,
        "callee_601" => callee::<601> as extern "C" fn(u64) -> u64 as usize,
        "callee_602" => callee_void as extern "C" fn(u64) as usize,
        "memcpy" => memcpy as unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8 as usize,
        // Nothing is thrown, so nobody calls them.
        "__gxx_personality_v0" | "_Unwind_Resume" => callee_void as extern "C" fn(u64) as usize,
        _ => return None,
    };
    u64::try_from(address).ok()
}
