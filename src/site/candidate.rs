//! A record that may become a site, as the runtime sees it when it tells the shape.

use crate::addr::{CodeAddr, FnOffset, Len, RecordId};
use crate::arch::{Arch, CallShape};
use crate::error::SiteName;
use crate::site::{Error, Result};
use crate::stackmap::{Constants, Record, Statepoint};
use crate::verify::{self, Original};

/// A record of a module that is being registered, for which the runtime tells the shape.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub(super) arch: Arch,
    pub(super) record: &'a Record<'a>,
    pub(super) constants: Constants<'a>,
    pub(super) function: &'a str,
    pub(super) addr: CodeAddr,
    /// The code from the record's address to the next record or the end of the function.
    pub(super) bytes: &'a [u8],
    /// The code of the function up to the record's address.
    pub(super) before: &'a [u8],
    pub(super) windows: bool,
}

impl<'a> Candidate<'a> {
    /// The record's ID.
    #[must_use]
    pub fn id(&self) -> RecordId {
        self.record.id()
    }

    /// The record.
    #[must_use]
    pub fn record(&self) -> Record<'a> {
        *self.record
    }

    /// The large constants that the record's locations refer to.
    #[must_use]
    pub fn constants(&self) -> Constants<'a> {
        self.constants
    }

    /// The name of the function.
    #[must_use]
    pub fn function(&self) -> &'a str {
        self.function
    }

    /// The address at which the record's offset points.
    #[must_use]
    pub fn addr(&self) -> CodeAddr {
        self.addr
    }

    /// The code from the record's address to the next record or the end of the function.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The longest reserved length that would not reach the next record or the function's end.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "an invariant says why it does not")]
    pub fn room(&self) -> Len {
        Len::of(self.bytes).expect("no function is longer than a length can say")
    }

    /// Where the record is, for errors.
    pub(super) fn name(&self) -> Box<SiteName> {
        Box::new(SiteName {
            kind: None,
            id: self.id(),
            function: Some(self.function.into()),
            offset: self.offset(),
            addr: self.addr,
        })
    }

    /// The reserved length, as a [flat](crate::stackmap::flat) stack map tells it: nobody else
    /// needs to then.
    ///
    /// ```no_run
    /// # fn register(engine: &patchpoint::Engine, code: patchpoint::engine::LoadedCode) -> patchpoint::Result<()> {
    /// use patchpoint::CallShape;
    ///
    /// let shape = |record: &patchpoint::site::Candidate<'_>| {
    ///     Ok::<_, patchpoint::site::Error>(CallShape::any_reg(record.reserved()?.get()).result().args(1))
    /// };
    /// // SAFETY: in this code every record is a patchpoint of `anyregcc` with a result and an argument.
    /// unsafe { engine.register(code, shape) }?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::ReservedLengthNotTold`] where the stack map does not tell it.
    pub fn reserved(&self) -> Result<Len> {
        let told = self.record.reserved();
        told.ok_or_else(|| Error::ReservedLengthNotTold { site: self.name() })
    }

    /// Whether the record seems to be one of a statepoint: it begins as those do, and a call ends
    /// where its offset points, or the nops of a statepoint that reserves bytes. Such a record is
    /// no site: its offset is where the call returns to, and what is there belongs to the
    /// function.
    #[must_use]
    pub fn is_statepoint(&self) -> bool {
        is_statepoint(self.arch, self.record, self.constants, self.addr, self.before)
    }

    /// The reserved length of a patchpoint, as the stack map tells it, or else from the call and
    /// nops that LLVM put there.
    ///
    /// # Errors
    /// [`Error::ReservedLengthAmbiguous`] where the nops could be more, or less, than the patchpoint's own:
    /// they end where an alignment or the function ends, or there are none and no call; or where the record is one of a
    /// [statepoint](Self::is_statepoint).
    pub fn infer_reserved(&self) -> Result<Len> {
        if let Some(told) = self.record.reserved() {
            return Ok(told);
        }
        let seen = self.bytes.get(..LONGEST_INFERRED).unwrap_or(self.bytes);
        let end = verify::patchpoint_prefix(self.arch, self.addr, seen);
        let ambiguous = |why| {
            Err(Error::ReservedLengthAmbiguous {
                site: self.name(),
                seen: end,
                why,
            })
        };
        // protection: a-statepoint-has-no-length
        if self.is_statepoint() {
            return ambiguous("the record is one of a statepoint, whose offset is where a call returns to");
        }
        if end.get() == 0 {
            return ambiguous("neither LLVM's call nor a nop is there");
        }
        if end.as_usize() == seen.len() {
            return ambiguous("the nops reach to the next record, to the function's end, or too far");
        }
        if self.windows && self.arch == Arch::X86_64 && ends_with_short_nop(self.arch, self.addr, seen, end) {
            return ambiguous(
                "the last nop is a single byte, as that which keeps a call and an epilogue of Windows apart",
            );
        }
        match self.addr.plus(end) {
            // protection: guessed-lengths-are-certain
            Some(after) if after.get() % 16 != 0 => Ok(end),
            _ => ambiguous("the nops end at a multiple of 16 and may belong to an alignment"),
        }
    }

    /// The offset of the record from its function's start.
    #[must_use]
    pub fn offset(&self) -> FnOffset {
        self.record.offset()
    }
}

/// Whether a record seems to be one of a statepoint, which no stack map says: it has no live-outs
/// and begins with the numbers of [`Statepoint`], and `before`, the code of its function up to its
/// address, ends with a call, or with the nops that LLVM puts in its place where a statepoint
/// reserves bytes.
#[must_use]
pub fn is_statepoint(
    arch: Arch,
    record: &Record<'_>,
    constants: Constants<'_>,
    addr: CodeAddr,
    before: &[u8],
) -> bool {
    // LLVM has them for these.
    matches!(arch, Arch::X86_64 | Arch::AArch64 | Arch::RiscV64)
        && record.live_outs().len() == 0
        && Statepoint::of(record, constants).is_some()
        && (1..=LONGEST_CALL).any(|len| ends_with_call(arch, addr, before, len))
}

/// Whether the last of the instructions that end at `end` has one byte.
fn ends_with_short_nop(arch: Arch, addr: CodeAddr, bytes: &[u8], end: Len) -> bool {
    let ends = verify::boundaries(arch, addr, bytes.get(..end.as_usize()).unwrap_or(bytes));
    let mut last = ends.iter().rev().copied();
    let (last, before) = (last.next(), last.next().unwrap_or(0));
    last.is_some_and(|last| last - before == 1)
}

/// Whether the last `len` bytes are a call that returns to their end, or nops.
fn ends_with_call(arch: Arch, addr: CodeAddr, before: &[u8], len: usize) -> bool {
    let start = before.len().checked_sub(len);
    let Some(bytes) = start.and_then(|start| before.get(start..)) else {
        return false;
    };
    let from = CodeAddr::new(addr.get().wrapping_sub(len as u64));
    verify::is_call(arch, from, bytes) || verify::original(arch, from, bytes) == Ok(Original::Nops)
}

/// The longest call of a register, of memory or of a symbol, in bytes: of memory on x86-64, with
/// all prefixes; on the others two instructions of four.
const LONGEST_CALL: usize = 9;

/// The most bytes that are looked at for a reserved length.
const LONGEST_INFERRED: usize = 4096;

/// What a closure that tells shapes may return: a shape, or `None` for a record that is no site, or
/// an error that ends the registration: a reason of its own as a
/// [`ProviderError`](crate::error::ProviderError).
pub trait IntoShape {
    /// The shape, if the record is a site.
    ///
    /// # Errors
    /// What the closure returned.
    fn into_shape(self) -> Result<Option<CallShape>>;
}

impl IntoShape for CallShape {
    fn into_shape(self) -> Result<Option<CallShape>> {
        Ok(Some(self))
    }
}

impl IntoShape for Option<CallShape> {
    fn into_shape(self) -> Result<Option<CallShape>> {
        Ok(self)
    }
}

impl<T: IntoShape> IntoShape for Result<T> {
    fn into_shape(self) -> Result<Option<CallShape>> {
        self?.into_shape()
    }
}
