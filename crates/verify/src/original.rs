//! What a site holds before anything was patched.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use llvm_stackmaps::addr::{CodeAddr, Len};
use patchpoint_isa::Arch;

use super::facts::{DecodedCode, Dest, Facts, Flow};
use super::nops;
use crate::error::{Error, Result};

/// What the reserved bytes hold before the first patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Original {
    /// Only nops: a patchpoint without a target, or reserved space.
    Nops,
    /// The call that LLVM emits for a patchpoint with a target, then only nops.
    LlvmCall {
        /// The target.
        target: CodeAddr,
        /// The offset to which the call returns, in bytes: a return offset unless it is the end.
        returns_at: u32,
    },
    /// Something else: in a shadow or entry site real instructions, in a patchpoint nothing that
    /// LLVM emits.
    Instructions {
        /// The offsets to which calls return, ascending, in bytes, without the end.
        calls: Vec<u32>,
    },
}

/// Has the decoder and the disassembler of an architecture make the tables that they make at their first use.
///
/// Who decodes while another thread makes them waits. In the child of a fork that thread is gone, and in a
/// signal handler it may be the one that was interrupted: either would wait for ever. So this is called before
/// the process forks, or decodes in a handler. An engine has done so for its own architecture.
///
/// # Panics
/// If the decoder does not know its own architecture's trap, which is a mistake in this crate.
pub fn prepare_decoder(arch: Arch) {
    let isa = super::dispatch::isa(arch);
    (isa.decode)(0, isa.trap, &mut DecodedCode::new()).expect("a trap decodes");
    (isa.text)(0, isa.trap, &mut String::new()).expect("a trap decodes");
}

/// Decodes the reserved bytes of a site that was not patched yet, which are at `addr`.
///
/// A patchpoint holds only [`Original::Nops`] or [`Original::LlvmCall`]; anything else there means
/// that the reserved length or the address is wrong.
///
/// # Errors
///
/// [`Error::Original`] if an instruction is cut off by the end or does not decode: then the
/// reserved length is wrong, or LLVM's count of a shadow was.
pub fn original(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> Result<Original> {
    let isa = super::dispatch::isa(arch);
    let refused = |at: u64, what| Error::Original {
        addr,
        reserved: bytes.len() as u64,
        offset: at.wrapping_sub(addr.get()),
        what,
    };
    if addr.get().checked_add(bytes.len() as u64).is_none() {
        return Err(refused(addr.get(), "would wrap around the address space"));
    }
    // Most patchpoints; decoding them is most of what the first patch of a site takes.
    if nops::are_nops(arch, bytes) {
        return Ok(Original::Nops);
    }
    let mut code = DecodedCode::with_capacity(bytes.len() / 3);
    (isa.decode)(addr.get(), bytes, &mut code).map_err(|fault| {
        let what = match fault.cut_off {
            true => "is cut off by the end of the reserved bytes",
            false => "does not decode",
        };
        refused(fault.addr, what)
    })?;
    Ok(classify(
        (isa.patchpoint_call)(addr.get(), bytes),
        addr.get(),
        &code,
    ))
}

fn classify(call: Option<(u64, u32)>, start: u64, code: &[Facts]) -> Original {
    if code.iter().all(|f| f.nop) {
        return Original::Nops;
    }
    if let Some((target, len)) = call {
        let after = start.wrapping_add(u64::from(len));
        if code.iter().filter(|f| f.addr >= after).all(|f| f.nop) {
            let call = code.iter().find(|f| f.end() == after);
            let returns = call.map_or(after, Facts::return_address);
            return Original::LlvmCall {
                target: CodeAddr::new(target),
                returns_at: u32::try_from(returns.wrapping_sub(start)).unwrap_or(len),
            };
        }
    }
    let end = code.last().map_or(start, Facts::end);
    let calls = code
        .iter()
        .filter(|f| matches!(f.flow, Flow::Call(_)))
        .map(Facts::return_address)
        .filter(|to| *to != end)
        .filter_map(|to| u32::try_from(to.wrapping_sub(start)).ok())
        .collect();
    Original::Instructions { calls }
}

/// The offsets in bytes at which the instructions of `bytes` end, ascending, up to the first that
/// does not decode.
#[must_use]
pub fn boundaries(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> Vec<u32> {
    let offset = |f: &Facts| u32::try_from(f.end().wrapping_sub(addr.get())).ok();
    decodable(arch, addr, bytes).iter().filter_map(offset).collect()
}

/// Whether the bytes are one instruction, a call that returns to their end.
pub fn is_call(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> bool {
    is_one(arch, addr, bytes, |f| {
        matches!(f.flow, Flow::Call(_)) && f.return_address() == f.end()
    })
}

/// Whether the bytes are one instruction, which always jumps to an address that it names.
pub fn is_jump(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> bool {
    is_one(arch, addr, bytes, |f| {
        matches!(f.flow, Flow::Jump(Dest::Address(_)))
    })
}

fn is_one(arch: Arch, addr: CodeAddr, bytes: &[u8], it: impl Fn(&Facts) -> bool) -> bool {
    let mut code = DecodedCode::new();
    let wraps = addr.get().checked_add(bytes.len() as u64).is_none();
    let decodes = !wraps && (super::dispatch::isa(arch).decode)(addr.get(), bytes, &mut code).is_ok();
    decodes && matches!(code.as_slice(), [one] if it(one))
}

/// How many of the bytes from `addr` on look like a patchpoint's: LLVM's call, if there is one, and
/// nops.
#[must_use]
pub fn patchpoint_prefix(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> Len {
    let isa = super::dispatch::isa(arch);
    let call = (isa.patchpoint_call)(addr.get(), bytes).map_or(0, |(_, len)| len);
    let after = addr.get().wrapping_add(u64::from(call));
    let code = decodable(arch, addr, bytes);
    let nops = code.iter().skip_while(|f| f.addr < after).take_while(|f| f.nop);
    let end = nops.last().map_or(after, Facts::end);
    // Of more bytes than a length can say, as many as it can.
    Len::new(u32::try_from(end.wrapping_sub(addr.get())).unwrap_or(u32::MAX))
}

/// The instructions of a function, as far as they decode.
#[derive(Default)]
pub struct DecodedFunction(DecodedCode);

impl DecodedFunction {
    /// Decodes a function from its start. Behind bytes that do not decode, which may be data, it
    /// goes on at the next of `known`: ascending addresses at which instructions start.
    pub fn of(arch: Arch, addr: CodeAddr, bytes: &[u8], known: &[CodeAddr]) -> Self {
        let mut outline = Self::default();
        outline.extend(arch, addr, bytes, known);
        outline
    }

    /// Decodes more code, which follows all that was decoded.
    pub fn extend(&mut self, arch: Arch, addr: CodeAddr, bytes: &[u8], known: &[CodeAddr]) {
        let mut from = addr;
        if addr.get().checked_add(bytes.len() as u64).is_none() {
            return;
        }
        loop {
            let skipped = usize::try_from(from.distance_from(addr)).unwrap_or(usize::MAX);
            // Some are behind this code.
            let Some(rest) = bytes.get(skipped..) else {
                return;
            };
            let Err(fault) = (super::dispatch::isa(arch).decode)(from.get(), rest, &mut self.0) else {
                return;
            };
            let next = known.partition_point(|known| known.get() <= fault.addr);
            match known.get(next) {
                Some(next) => from = *next,
                None => return,
            }
        }
    }

    /// Whether the address is known to be inside of an instruction, behind its start.
    pub fn splits(&self, addr: CodeAddr) -> bool {
        let after = self.0.partition_point(|facts| facts.addr < addr.get());
        let before = after.checked_sub(1).and_then(|before| self.0.get(before));
        before.is_some_and(|before| addr.get() < before.end())
    }

    /// The branches whose targets the instruction says: the addresses of the instruction, and that
    /// of its target.
    pub fn branches(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        self.0.iter().filter_map(|facts| match facts.flow {
            Flow::Jump(Dest::Address(to))
            | Flow::Branch(Dest::Address(to))
            | Flow::Call(Dest::Address(to)) => Some((facts.addr..facts.end(), to)),
            _ => None,
        })
    }
}

fn decodable(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> DecodedCode {
    let mut code = DecodedCode::new();
    if addr.get().checked_add(bytes.len() as u64).is_some() {
        // What precedes the first undecodable instruction is kept.
        let _ = (super::dispatch::isa(arch).decode)(addr.get(), bytes, &mut code);
    }
    code
}
