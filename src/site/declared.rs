//! The functions of sites that no stack map records: what the audits of marked and of told sites
//! share.
//!
//! Problem: such a site lies anywhere in a function, and whether an instruction starts there is known
//! only when the function is decoded, with all the places at which one is said to start. Approach:
//! each function that has some is read and decoded once, and its sites are looked at together. A
//! function that cannot be read or decoded is refused, and the others are looked at.

use std::collections::BTreeMap;

use super::audit::{Refusal, record_addresses};
use super::code::{Decoded, DecodedRuns, FunctionCode};
use super::details::ModuleParts;
use super::functions::FunctionView;
use crate::addr::{CodeAddr, FnOffset};
use crate::site::Result;

/// A function that has such sites.
#[derive(Clone, Copy)]
pub(super) struct DeclaringFunction<'a> {
    pub(super) parts: &'a ModuleParts,
    /// Its number.
    pub(super) index: u32,
    pub(super) function: FunctionView<'a>,
    pub(super) code: &'a [u8],
    pub(super) decoded: &'a Decoded,
    /// The addresses of all records, ascending.
    pub(super) records: &'a [CodeAddr],
}

impl DeclaringFunction<'_> {
    /// How far behind the function's start something in it lies.
    pub(super) fn offset(&self, at: CodeAddr) -> FnOffset {
        let offset = u32::try_from(at.distance_from(self.function.addr));
        FnOffset::new(offset.expect("what is in a site lies in the function"))
    }
}

/// Reads and decodes each function, and audits its sites with it. `starts` are the ascending
/// addresses at which instructions are said to start.
pub(super) fn audit_each<T, R: FnMut(Refusal) -> Result<()>>(
    parts: &ModuleParts,
    code: &FunctionCode<'_>,
    by_function: BTreeMap<u32, Vec<T>>,
    starts: &[CodeAddr],
    refused: &mut R,
    mut audit: impl FnMut(DeclaringFunction<'_>, Vec<T>, &mut R) -> Result<()>,
) -> Result<()> {
    // Of most modules there are none, and all records would be read for them.
    if by_function.is_empty() {
        return Ok(());
    }
    let mut records: Vec<CodeAddr> = match record_addresses(parts) {
        Ok(records) => records.map(|(addr, _)| addr).collect(),
        // That has been refused where the records were looked at.
        Err(_) => Vec::new(),
    };
    records.sort_unstable();
    let (mut runs, mut bytes) = (DecodedRuns::new(), Vec::new());
    for (index, sites) in by_function {
        let function = parts.functions.get(index);
        let function = function.expect("a site was found in one of the module's functions");
        let read = code.of(&function, &mut bytes).and_then(|bytes| {
            let decoded = code.decoded(&function, bytes, starts, &mut runs)?;
            Ok((bytes, decoded))
        });
        match read {
            Ok((bytes, decoded)) => {
                let function = DeclaringFunction {
                    parts,
                    index,
                    function,
                    code: bytes,
                    decoded: &decoded,
                    records: &records,
                };
                audit(function, sites, refused)?;
            }
            Err(error) => refused(error.into())?,
        }
    }
    Ok(())
}
