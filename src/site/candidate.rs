//! A record that may become a site, as the runtime sees it when it tells the shape.

use crate::addr::{CodeAddr, FnOffset, Len, RecordId};
use crate::arch::{Arch, CallShape};
use crate::error::{Error, Result, SiteName};
use crate::stackmap::{Constants, Record};
use crate::verify;

/// A record of a module that is being registered, for which the runtime tells the shape.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub(super) arch: Arch,
    pub(super) record: Record<'a>,
    pub(super) constants: Constants<'a>,
    pub(super) function: &'a str,
    pub(super) addr: CodeAddr,
    /// The code from the record's address to the next record or the end of the function.
    pub(super) bytes: &'a [u8],
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
        self.record
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
    pub fn room(&self) -> Len {
        Len::of(self.bytes).unwrap_or_default()
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

    /// The reserved length, as a [flat](crate::stackmap::flat) stack map tells it: nobody else needs to then.
    ///
    /// ```no_run
    /// # fn register(engine: &patchpoint::Engine, code: patchpoint::engine::Code) -> patchpoint::Result<()> {
    /// use patchpoint::CallShape;
    ///
    /// let shape = |record: &patchpoint::site::Candidate<'_>| {
    ///     Ok::<_, patchpoint::Error>(CallShape::any_reg(record.reserved()?.get()).result().args(1))
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

    /// The reserved length of a patchpoint, as the stack map tells it, or else from the call and nops that LLVM put there.
    ///
    /// # Errors
    /// [`Error::ReservedLengthAmbiguous`] where the nops could be more, or less, than the patchpoint's own:
    /// they end where an alignment or the function ends, or there are none and no call.
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
        if end.get() == 0 {
            return ambiguous("neither LLVM's call nor a nop stands there");
        }
        if end.as_usize() == seen.len() {
            return ambiguous("the nops reach to the next record, to the function's end, or too far");
        }
        match self.addr.plus(end) {
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

/// The most bytes that are looked at for a reserved length.
const LONGEST_INFERRED: usize = 4096;

/// What a closure that tells shapes may return: a shape, or `None` for a record that is no site, or an
/// error that ends the registration.
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
