//! Lookups that are C functions.

use super::{Action, Entry, Guard, Learn, Lookup, Miss, Pointer};
use crate::addr::CodeAddr;
use crate::arch::OnReturn;
use crate::deopt::{CCall, CFunction};
use crate::sequence::arg;

/// A miss, as a C function sees and answers it: the call, with its result, and what to cache.
///
/// ```c
/// struct patchpoint_miss {
///     struct patchpoint_call call;
///     struct patchpoint_entry entry;
/// };
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct CMiss {
    /// The site, its arguments, the result.
    pub call: CCall,
    /// What to cache: [nothing](CEntry::NOTHING) unless it is set.
    pub entry: CEntry,
}

/// What a C function wants cached: a test of one word of the receiver, which is the site's first
/// argument and a pointer, and what to do where it holds. What it cannot say takes a [`Lookup`] in
/// Rust.
///
/// ```c
/// struct patchpoint_entry {
///     uint32_t action, guard_size;
///     int32_t guard_at, field_at;
///     uint64_t guard_value, value, key;
///     uint32_t field_size;
/// };
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CEntry {
    /// [`NOTHING`](Self::NOTHING), [`LOAD`](Self::LOAD), [`CONSTANT`](Self::CONSTANT) or
    /// [`CALL`](Self::CALL). Another number learns nothing.
    pub action: u32,
    /// The bytes of the receiver's word that is compared: 1, 2, 4 or 8. Another number learns
    /// nothing.
    pub guard_size: u32,
    /// Where in the receiver the word is, in bytes.
    pub guard_at: i32,
    /// Where in the receiver the field is that is loaded, in bytes.
    pub field_at: i32,
    /// What the word has to be.
    pub guard_value: u64,
    /// The constant, or the function that is called.
    pub value: u64,
    /// The [key](super::Key) on which the entry depends; 0 if it depends on none.
    pub key: u64,
    /// The bytes of the field: 1, 2, 4 or 8, extended by zeros. Another number learns nothing.
    pub field_size: u32,
}

impl CEntry {
    /// Nothing is to be cached.
    pub const NOTHING: u32 = 0;
    /// The result is a field of the receiver.
    pub const LOAD: u32 = 1;
    /// The result is `value`.
    pub const CONSTANT: u32 = 2;
    /// The function at `value`, which follows the C convention, is called with the site's
    /// arguments. That it can be ([`Sequence::call`](crate::sequence::Sequence::call)) is promised
    /// by who makes the [`CFunction`](crate::deopt::CFunction) which answers so.
    pub const CALL: u32 = 3;

    fn entry(&self) -> Option<Entry> {
        let receiver = Pointer::plain(arg(0));
        let action = match self.action {
            Self::LOAD => match self.field_size {
                1 => Action::load::<u8>(receiver, self.field_at),
                2 => Action::load::<u16>(receiver, self.field_at),
                4 => Action::load::<u32>(receiver, self.field_at),
                8 => Action::load::<u64>(receiver, self.field_at),
                _ => return None,
            },
            Self::CONSTANT => Action::constant(self.value),
            Self::CALL => Action::call_to(CodeAddr::new(self.value), OnReturn::FollowsC),
            _ => return None,
        };
        let (at, value) = (self.guard_at, self.guard_value);
        let guard = match self.guard_size {
            1 => Guard::field::<u8>(receiver, at, value),
            2 => Guard::field::<u16>(receiver, at, value),
            4 => Guard::field::<u32>(receiver, at, value),
            8 => Guard::field::<u64>(receiver, at, value),
            _ => return None,
        };
        let entry = Entry::new(action).guard(guard);
        Some(match self.key {
            0 => entry,
            key => entry.depends_on(key),
        })
    }
}

impl Lookup for CFunction<CMiss> {
    fn lookup<'f>(&self, miss: &mut Miss<'_, 'f>) -> Learn<'f> {
        let entry = CCall::of(miss.frame(), |call| {
            let entry = CEntry::default();
            let mut miss = CMiss { call, entry };
            self.call(&mut miss);
            (miss.call.result, miss.entry)
        });
        entry.entry().map_or(Learn::Nothing, Learn::Entry)
    }
}
