//! Text that the interface hands out.

use crate::error::pp_error;
use crate::guard::boundary;
use crate::handle::{self, handle};
use crate::types::{out, pp_str};

/// Text of the library's.
pub struct pp_text {
    _opaque: [u8; 0],
}

/// Ended by a zero, which is not counted.
pub(crate) struct TextBody(Box<str>);
handle!(pp_text, TextBody, 0x7070_000d);

impl TextBody {
    pub(crate) fn new(mut text: String) -> Self {
        text.push('\0');
        Self(text.into())
    }
}

/// The text, lent as long as the handle is not freed. A zero follows it.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_text_get(text: *const pp_text, to: *mut pp_str) -> *mut pp_error {
    boundary!({
        let to = out(to, pp_str::EMPTY)?;
        let text = handle::get::<TextBody>(text)?;
        *to = pp_str {
            len: text.0.len() - 1,
            ..pp_str::of(&text.0)
        };
        Ok(())
    })
}

/// Frees text.
///
/// # Safety
/// Threads: any. Handlers: yes. Stopped world: no. Signal handlers: no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pp_text_free(text: *mut pp_text) -> *mut pp_error {
    boundary!(handle::free::<TextBody>(text))
}
