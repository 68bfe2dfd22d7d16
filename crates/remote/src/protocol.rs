//! The messages between controller and executor.
//!
//! A message is a header and a body, all numbers little endian:
//!
//! ```text
//!     u16 kind     u16 version of the protocol     u32 length of the body     u64 sequence number     body
//! ```
//!
//! Ranges are an address and a length of 8 bytes each; lists and texts fill the rest of the body.
//! An answer has the sequence number of its request. Nothing is taken from a message before it has
//! been checked: a length is that of the bytes which are there, a list has a bound, a range ends
//! within the address space, and nothing may follow.

use patchpoint::addr::{CodeAddr, CodeRange};
use patchpoint::arch::Arch;
use patchpoint::error::Errno;
use patchpoint::publish::Level;

/// What both sides must have in common: the messages, and how exit stubs call the routine there.
pub(crate) const VERSION: u16 = 4;
/// No message is longer, header included.
pub(crate) const MOST: usize = 16 << 10;
/// A message has no more ranges.
pub(crate) const MOST_RANGES: usize = 512;
/// Names of symbols are no longer, in bytes.
pub(crate) const LONGEST_NAME: usize = 4096;
/// How many integer arguments a call may have.
pub(crate) const ARGS: usize = 6;

const HEADER: usize = 16;

/// The number of this machine's architecture, with its byte order and conventions: both sides must
/// have the same.
pub(crate) const MACHINE: u32 = {
    // FNV-1a.
    let name = std::env::consts::ARCH.as_bytes();
    let mut hash: u32 = match Arch::host() {
        Some(Arch::PowerPc64ElfV2) => 2,
        _ if cfg!(target_endian = "big") => 1,
        _ => 0,
    };
    let mut rest = name;
    while let [first, after @ ..] = rest {
        hash = (hash ^ *first as u32).wrapping_mul(0x0100_0193);
        rest = after;
    }
    hash
};

/// What a view of a memory file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Code.
    Execute,
    /// Data.
    Write,
}

/// What may be done with pages of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing.
    None,
    /// They can be read.
    Read,
    /// They can be read and written.
    Write,
}

/// Why bytes are no message.
pub(crate) type DecodeError = &'static str;

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    // ---- controller to executor ----
    /// Who are you?
    Hello,
    /// Map the file that comes with this.
    Map { at: CodeRange, view: View },
    /// Change what may be done with data.
    Protect { pages: CodeRange, access: Access },
    /// Unmap all that was mapped within the range.
    Unmap { range: CodeRange },
    /// Make the instruction caches agree with memory.
    Maintain { ranges: Vec<CodeRange> },
    /// Publish what was written.
    Publish { level: Level, ranges: Vec<CodeRange> },
    /// Start a thread with this stack, on the connection that comes with this.
    Thread { stack: CodeRange },
    /// Where is that?
    Symbol { name: String },
    /// Call a function, in a thread.
    Call { at: CodeAddr, args: [u64; ARGS] },
    /// How a thread goes on that has left compiled code by an exit stub.
    Go { word: u64 },
    /// The trap at that address goes to an exit stub, or is none any more.
    Trap { at: CodeAddr, exit_stub: Option<CodeAddr> },
    /// Wait for the end of the thread with this stack.
    End { stack: CodeRange },
    /// That is all.
    Bye,
    /// To who has connected: something new to prove by, and the proof that the controller knows the
    /// token.
    Challenge { nonce: [u8; 32], proof: [u8; 32] },

    // ---- executor to controller ----
    /// Who has connected: something new for the controller to prove by.
    Nonce { nonce: [u8; 32] },
    /// The proof that who has connected knows the token.
    Proof { proof: [u8; 32] },
    /// Who the executor is.
    Host { host: Host },
    /// It is done.
    Done,
    /// Something else is there.
    Taken,
    /// The address of a symbol, or none.
    Found { addr: Option<CodeAddr> },
    /// It cannot be done.
    Failed { why: Failure, errno: Errno },
    /// The function has returned.
    Returned { value: u64 },
    /// The thread has left compiled code by an exit stub.
    Exit { context: u64, raw: u64, save: u64 },
}

/// What the controller must know of the executor's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// The number of its architecture.
    pub(crate) machine: u32,
    /// The routine that exit stubs call.
    pub(crate) capture: u64,
    /// How many bytes of vector registers that saves.
    pub(crate) saved: u64,
    /// Whether returns are checked by a shadow stack.
    pub(crate) shadow_stack: bool,
}

macro_rules! failures {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// Why an executor refuses.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Failure { $($(#[$doc])* $name,)* }

        impl Failure {
            fn number(self) -> u64 {
                match self { $(Self::$name => $number,)* }
            }

            fn of(number: u64) -> Result<Self, DecodeError> {
                match number {
                    $($number => Ok(Self::$name),)*
                    _ => Err("a failure of an unknown kind"),
                }
            }

            pub(crate) fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

failures! {
    /// A mapping.
    Mapping = 1, "the memory file cannot be mapped there";
    /// A protection.
    Protection = 2, "the protection of these pages cannot be changed";
    /// A range that belongs to nothing.
    Range = 3, "the range is not within what was mapped";
    /// A publication.
    Barrier = 4, "its threads cannot be made to serialize";
    /// A thread.
    Thread = 5, "the thread cannot be started";
    /// A thread that does not end.
    Busy = 6, "a thread that uses the memory has not ended";
    /// A trap.
    Trap = 8, "the handler of traps cannot be installed";
    /// A function.
    Function = 7, "the function is not within what was mapped";
}

impl Message {
    fn kind(&self) -> u16 {
        match self {
            Self::Hello => 1,
            Self::Map { .. } => 2,
            Self::Protect { .. } => 3,
            Self::Unmap { .. } => 4,
            Self::Maintain { .. } => 5,
            Self::Publish { .. } => 6,
            Self::Thread { .. } => 7,
            Self::Symbol { .. } => 8,
            Self::Call { .. } => 9,
            Self::Go { .. } => 10,
            Self::End { .. } => 11,
            Self::Bye => 12,
            Self::Trap { .. } => 13,
            Self::Challenge { .. } => 15,
            Self::Host { .. } => 65,
            Self::Done => 66,
            Self::Taken => 67,
            Self::Found { .. } => 68,
            Self::Failed { .. } => 69,
            Self::Returned { .. } => 70,
            Self::Exit { .. } => 71,
            Self::Nonce { .. } => 72,
            Self::Proof { .. } => 73,
        }
    }

    /// The bytes of the message; they replace what `out` holds.
    pub(crate) fn encode(&self, sequence: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend(self.kind().to_le_bytes());
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 4]);
        put(out, &[sequence]);
        self.encode_body(out);
        let len = (out.len() - HEADER) as u32;
        if let Some(place) = out.get_mut(4..8) {
            place.copy_from_slice(&len.to_le_bytes());
        }
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello | Self::Bye | Self::Done | Self::Taken => {}
            Self::Map { at, view } => {
                put_range(out, *at);
                put(out, &[u64::from(*view == View::Execute)]);
            }
            Self::Protect { pages, access } => {
                put_range(out, *pages);
                put(out, &[access_number(*access)]);
            }
            Self::Unmap { range } | Self::Thread { stack: range } | Self::End { stack: range } => {
                put_range(out, *range);
            }
            Self::Maintain { ranges } => ranges.iter().for_each(|range| put_range(out, *range)),
            Self::Publish { level, ranges } => {
                put(out, &[u64::from(*level == Level::Immediate)]);
                ranges.iter().for_each(|range| put_range(out, *range));
            }
            Self::Challenge { nonce, proof } => {
                out.extend(nonce);
                out.extend(proof);
            }
            Self::Nonce { nonce: bytes } | Self::Proof { proof: bytes } => out.extend(bytes),
            Self::Symbol { name } => out.extend(name.as_bytes()),
            Self::Call { at, args } => {
                put(out, &[at.get()]);
                put(out, args);
            }
            Self::Go { word } => put(out, &[*word]),
            Self::Host { host } => {
                let shadow = u64::from(host.shadow_stack);
                put(out, &[host.machine.into(), host.capture, host.saved, shadow]);
            }
            Self::Trap { at, exit_stub } => {
                put(
                    out,
                    &[
                        at.get(),
                        u64::from(exit_stub.is_some()),
                        exit_stub.map_or(0, CodeAddr::get),
                    ],
                );
            }
            Self::Found { addr } => put(out, &[u64::from(addr.is_some()), addr.map_or(0, CodeAddr::get)]),
            Self::Failed { why, errno } => put(out, &[why.number(), u64::from(errno.0.unsigned_abs())]),
            Self::Returned { value } => put(out, &[*value]),
            Self::Exit { context, raw, save } => put(out, &[*context, *raw, *save]),
        }
    }

    /// The message that the bytes are, with its sequence number.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(u64, Self), DecodeError> {
        let mut rest = Reader(bytes);
        let (kind, version) = (rest.u16()?, rest.u16()?);
        if version != VERSION {
            return Err("a message of another version of the protocol");
        }
        let len = rest.u32()?;
        let sequence = rest.word()?;
        if u64::from(len) != rest.0.len() as u64 || bytes.len() > MOST {
            return Err("a message of another length than it says");
        }
        let message = Self::decode_body(kind, &mut rest)?;
        match rest.0 {
            [] => Ok((sequence, message)),
            _ => Err("a message with something behind it"),
        }
    }

    fn decode_body(kind: u16, rest: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match kind {
            1 => Self::Hello,
            2 => Self::Map {
                at: rest.range()?,
                view: match rest.flag()? {
                    true => View::Execute,
                    false => View::Write,
                },
            },
            3 => Self::Protect {
                pages: rest.range()?,
                access: access(rest.word()?)?,
            },
            4 => Self::Unmap { range: rest.range()? },
            5 => Self::Maintain {
                ranges: rest.ranges()?,
            },
            6 => Self::Publish {
                level: match rest.flag()? {
                    true => Level::Immediate,
                    false => Level::Eventual,
                },
                ranges: rest.ranges()?,
            },
            7 => Self::Thread { stack: rest.range()? },
            8 => Self::Symbol { name: rest.text()? },
            9 => Self::Call {
                at: CodeAddr::new(rest.word()?),
                args: rest.words()?,
            },
            10 => Self::Go { word: rest.word()? },
            11 => Self::End { stack: rest.range()? },
            12 => Self::Bye,
            13 => Self::Trap {
                at: CodeAddr::new(rest.word()?),
                exit_stub: rest.maybe_addr()?,
            },
            // 14 was the token itself.
            15 => Self::Challenge {
                nonce: rest.take()?,
                proof: rest.take()?,
            },
            65 => Self::Host { host: rest.host()? },
            66 => Self::Done,
            67 => Self::Taken,
            68 => Self::Found {
                addr: rest.maybe_addr()?,
            },
            69 => {
                let [why, errno] = rest.words()?;
                let errno = i32::try_from(errno).map_err(|_| "an error number out of range")?;
                Self::Failed {
                    why: Failure::of(why)?,
                    errno: Errno(errno),
                }
            }
            70 => Self::Returned { value: rest.word()? },
            71 => {
                let [context, raw, save] = rest.words()?;
                Self::Exit { context, raw, save }
            }
            72 => Self::Nonce { nonce: rest.take()? },
            73 => Self::Proof { proof: rest.take()? },
            _ => return Err("a message of an unknown kind"),
        })
    }
}

fn access_number(access: Access) -> u64 {
    match access {
        Access::None => 0,
        Access::Read => 1,
        Access::Write => 2,
    }
}

fn access(number: u64) -> Result<Access, DecodeError> {
    match number {
        0 => Ok(Access::None),
        1 => Ok(Access::Read),
        2 => Ok(Access::Write),
        _ => Err("a protection of an unknown kind"),
    }
}

fn put(out: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

fn put_range(out: &mut Vec<u8>, range: CodeRange) {
    put(out, &[range.start().get(), range.len()]);
}

/// What has not been read yet.
struct Reader<'a>(&'a [u8]);

const SHORT: DecodeError = "a message that ends too early";

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16, DecodeError> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        self.take().map(u32::from_le_bytes)
    }

    fn word(&mut self) -> Result<u64, DecodeError> {
        self.take().map(u64::from_le_bytes)
    }

    fn words<const N: usize>(&mut self) -> Result<[u64; N], DecodeError> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.word()?;
        }
        Ok(words)
    }

    fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("a flag that is neither 0 nor 1"),
        }
    }

    fn maybe_addr(&mut self) -> Result<Option<CodeAddr>, DecodeError> {
        match (self.flag()?, self.word()?) {
            (true, addr) => Ok(Some(CodeAddr::new(addr))),
            (false, 0) => Ok(None),
            _ => Err("an address of nothing"),
        }
    }

    fn range(&mut self) -> Result<CodeRange, DecodeError> {
        let [start, len] = self.words()?;
        CodeRange::new(CodeAddr::new(start), len).ok_or("a range beyond the end of the address space")
    }

    fn ranges(&mut self) -> Result<Vec<CodeRange>, DecodeError> {
        if self.0.len() / 16 > MOST_RANGES {
            return Err("too many ranges");
        }
        let mut ranges = Vec::with_capacity(self.0.len() / 16);
        while !self.0.is_empty() {
            ranges.push(self.range()?);
        }
        Ok(ranges)
    }

    fn text(&mut self) -> Result<String, DecodeError> {
        let text = core::str::from_utf8(self.0).map_err(|_| "a name that is no UTF-8")?;
        self.0 = &[];
        Ok(text.into())
    }

    fn host(&mut self) -> Result<Host, DecodeError> {
        let [machine, capture, saved] = self.words()?;
        Ok(Host {
            machine: u32::try_from(machine).map_err(|_| "an architecture of an unknown number")?,
            capture,
            saved,
            shadow_stack: self.flag()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, len: u64) -> CodeRange {
        CodeRange::new(CodeAddr::new(start), len).unwrap()
    }

    fn all() -> Vec<Message> {
        let (one, two) = (range(0x7000_0000, 0x2000), range(0x9000, 1));
        let host = Host {
            machine: 62,
            capture: 0x1234_5678_9abc,
            saved: 832,
            shadow_stack: false,
        };
        vec![
            Message::Hello,
            Message::Map {
                at: one,
                view: View::Execute,
            },
            Message::Map {
                at: two,
                view: View::Write,
            },
            Message::Protect {
                pages: one,
                access: Access::Read,
            },
            Message::Unmap { range: one },
            Message::Maintain {
                ranges: vec![one, two],
            },
            Message::Publish {
                level: Level::Immediate,
                ranges: vec![two],
            },
            Message::Publish {
                level: Level::Eventual,
                ranges: vec![],
            },
            Message::Thread { stack: one },
            Message::Symbol {
                name: "grüße".into()
            },
            Message::Call {
                at: CodeAddr::new(7),
                args: [1, 2, 3, 4, 5, u64::MAX],
            },
            Message::Go { word: 9 },
            Message::End { stack: two },
            Message::Bye,
            Message::Nonce { nonce: [9; 32] },
            Message::Challenge {
                nonce: [8; 32],
                proof: [7; 32],
            },
            Message::Proof { proof: [6; 32] },
            Message::Trap {
                at: CodeAddr::new(5),
                exit_stub: Some(CodeAddr::new(6)),
            },
            Message::Trap {
                at: CodeAddr::new(5),
                exit_stub: None,
            },
            Message::Host { host },
            Message::Done,
            Message::Taken,
            Message::Found {
                addr: Some(CodeAddr::new(3)),
            },
            Message::Found { addr: None },
            Message::Failed {
                why: Failure::Busy,
                errno: Errno(16),
            },
            Message::Returned { value: u64::MAX },
            Message::Exit {
                context: 1,
                raw: 2,
                save: 3,
            },
        ]
    }

    fn encoded(message: &Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        message.encode(0x0102_0304_0506_0708, &mut bytes);
        bytes
    }

    #[test]
    fn every_message_comes_back_as_it_was() {
        for message in all() {
            let bytes = encoded(&message);
            assert_eq!(Message::decode(&bytes), Ok((0x0102_0304_0506_0708, message)));
        }
    }

    /// From the description at the head of the module, by hand.
    #[test]
    fn the_bytes_are_those_of_the_description() {
        let mut bytes = Vec::new();
        Message::Go { word: 0x1122 }.encode(5, &mut bytes);
        let expected = [
            [10, 0, 4, 0, 8, 0, 0, 0],
            [5, 0, 0, 0, 0, 0, 0, 0],
            [0x22, 0x11, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn what_is_cut_or_continued_is_refused() {
        for message in all() {
            let bytes = encoded(&message);
            for len in 0..bytes.len() {
                assert!(
                    Message::decode(&bytes[..len]).is_err(),
                    "{message:?} cut to {len}"
                );
            }
            let longer = [&bytes[..], &[0]].concat();
            assert!(Message::decode(&longer).is_err(), "{message:?} with a byte more");
        }
    }

    #[test]
    fn each_wrong_field_is_refused() {
        let wrong = |message: Message, at: usize, with: &[u8]| {
            let mut bytes = encoded(&message);
            bytes[at..at + with.len()].copy_from_slice(with);
            Message::decode(&bytes).unwrap_err()
        };
        let one = range(0x7000_0000, 0x2000);
        assert_eq!(wrong(Message::Done, 0, &[0]), "a message of an unknown kind");
        assert_eq!(
            wrong(Message::Done, 2, &[1]),
            "a message of another version of the protocol"
        );
        let map = Message::Map {
            at: one,
            view: View::Write,
        };
        assert_eq!(wrong(map.clone(), 32, &[2]), "a flag that is neither 0 nor 1");
        assert_eq!(
            wrong(map, 16, &[0xff; 8]),
            "a range beyond the end of the address space"
        );
        let protect = Message::Protect {
            pages: one,
            access: Access::None,
        };
        assert_eq!(wrong(protect, 32, &[3]), "a protection of an unknown kind");
        let failed = Message::Failed {
            why: Failure::Range,
            errno: Errno(1),
        };
        assert_eq!(wrong(failed.clone(), 16, &[99]), "a failure of an unknown kind");
        assert_eq!(wrong(failed, 24, &[0xff; 8]), "an error number out of range");
        let symbol = Message::Symbol { name: "ab".into() };
        assert_eq!(wrong(symbol, 16, &[0xff]), "a name that is no UTF-8");
    }

    #[test]
    fn there_is_an_end_to_lists() {
        let of = |count| Message::Maintain {
            ranges: vec![range(0, 1); count],
        };
        assert!(Message::decode(&encoded(&of(MOST_RANGES))).is_ok());
        assert!(encoded(&of(MOST_RANGES)).len() <= MOST);
        assert_eq!(
            Message::decode(&encoded(&of(MOST_RANGES + 1))),
            Err("too many ranges")
        );
    }

    /// A short form of the fuzz target, which runs it on messages that are nearly right.
    #[test]
    fn nothing_makes_the_decoder_panic() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for message in all().iter().cycle().take(200_000) {
            let mut bytes = encoded(message);
            for _ in 0..=next() % 3 {
                let at = next() as usize % bytes.len();
                bytes[at] = next() as u8;
            }
            bytes.truncate(1 + next() as usize % (2 * bytes.len()));
            crate::fuzzing::protocol(&bytes);
        }
    }
}
