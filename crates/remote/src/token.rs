//! What both sides of a connection know, and nobody else.

use std::fmt;

/// What an executor must know to connect, and by which it knows its controller. It is never sent:
/// both sides prove that they know it. Whoever knows it can be either: hand it over as a secret,
/// not on a command line.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl Token {
    /// The same from [text](Self::text); `None` for what is none.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let mut token = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (to, from) in token.iter_mut().zip(text.as_bytes().chunks(2)) {
            *to = u8::from_str_radix(core::str::from_utf8(from).ok()?, 16).ok()?;
        }
        Some(Self(token))
    }

    /// One of these bytes, which nobody can guess.
    pub(crate) fn of(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// As 64 hexadecimal digits.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}
