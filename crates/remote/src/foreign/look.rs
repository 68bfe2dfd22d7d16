//! Whether a stopped thread of another process is in what is to be vacated, or may return there.
//!
//! Of the stack every word counts that is an address within: return addresses, and program counters
//! that signal handlers have saved. That needs no frame pointers and overlooks nothing on that
//! stack; a word that is such an address by accident makes a thread count as inside that is not.
//! Below the stack pointer nothing counts: there are the return addresses of calls that have
//! returned.

use patchpoint::addr::CodeAddr;
use patchpoint::publish::Vacated;

use super::Shared;
use super::system::Registers;
use crate::error::{Error, Result};

/// A stack is read in pieces of that many bytes.
const PIECE: u64 = 64 << 10;

/// Fails if the thread is inside, or may return there.
pub(super) fn check(process: &Shared, thread: i32, registers: &Registers, vacated: &[Vacated]) -> Result<()> {
    let inside = |at: u64, returns| {
        let at = CodeAddr::new(at);
        let range = vacated
            .iter()
            .map(Vacated::range)
            .find(|range| range.contains(at));
        range.map_or(Ok(()), |range| {
            Err(Error::Engine(patchpoint::Error::Publish(
                patchpoint::publish::Error::ThreadInside {
                    thread,
                    at,
                    range,
                    returns,
                },
            )))
        })
    };
    inside(registers.pc, false)?;
    // No return address of x86-64 is signed.
    let returns_inside = |word: u64| inside(word, true);
    registers
        .others
        .iter()
        .try_for_each(|held| returns_inside(*held))?;
    let (low, high) = stack(process, thread, registers.sp)?;
    let mut piece = vec![0; PIECE as usize];
    let mut at = low;
    while at < high {
        let len = PIECE.min(high - at) as usize;
        let words = piece.get_mut(..len).expect("no more than a piece is read");
        process.read(CodeAddr::new(at), words)?;
        for word in words.chunks_exact(8) {
            let word = word.try_into().expect("each chunk has 8 bytes");
            returns_inside(u64::from_ne_bytes(word))?;
        }
        at += len as u64;
    }
    Ok(())
}

/// What of a thread's stack is in use: from the stack pointer to the end of the mapping.
fn stack(process: &Shared, thread: i32, sp: u64) -> Result<(u64, u64)> {
    let pointer = CodeAddr::new(sp);
    let maps = process.maps()?;
    let mapping = maps.iter().find(|mapping| mapping.range.contains(pointer));
    let range = mapping.map(|mapping| mapping.range);
    let range = range.ok_or(Error::Engine(patchpoint::Error::Publish(
        patchpoint::publish::Error::ThreadOnOtherStack { thread, sp: pointer },
    )))?;
    Ok((sp & !7, range.end().get()))
}
