//! There is no routine: no context is made, so no ramp asks for one.

pub(in crate::deopt) fn address() -> u64 {
    0
}
