//! The body of the fuzz target.

use crate::protocol::Message;

/// Whatever the bytes are, they are refused or a message with exactly these bytes.
///
/// # Panics
/// If they are not, which is what the target looks for.
#[allow(clippy::panic, reason = "the body of a fuzz target")]
pub fn protocol(bytes: &[u8]) {
    if let Ok((sequence, message)) = Message::decode(bytes) {
        let mut again = Vec::new();
        message.encode(sequence, &mut again);
        assert!(again == bytes, "{message:?} is {again:?} and was {bytes:?}");
    }
}
