//! The audit of told sites: nothing is believed that the code can show.

use std::collections::BTreeMap;

use super::{SiteSpec, ToldContent, record};
use crate::addr::{CodeAddr, DwarfReg, Len, RecordId};
use crate::arch::registers::{canonical, register_name};
use crate::arch::{Arch, Convention, RegSet, SiteKind, calls, conventions};
use crate::error::SiteName;
use crate::site::audit::{Refusal, audit_convention};
use crate::site::code::FunctionCode;
use crate::site::declared::{DeclaringFunction, audit_each};
use crate::site::details::ModuleParts;
use crate::site::found::{FoundSites, SiteEntry};
use crate::site::{Error, Result};
use crate::stackmap::{OwnedMaps, RecordRef};
use crate::verify::{self, Original};

/// Where return addresses may point that the runtime has told, by the address of the site,
/// ascending.
pub(in crate::site) type FoundReturns = Vec<(CodeAddr, u32)>;

/// Makes sites of what was told.
pub(in crate::site) fn audit(
    parts: &ModuleParts,
    code: &FunctionCode<'_>,
    specs: &[SiteSpec],
    found: &mut FoundSites,
    refused: &mut impl FnMut(Refusal) -> Result<()>,
) -> Result<(OwnedMaps, FoundReturns)> {
    let maps = record::records(parts.arch, specs)?;
    let references: Vec<RecordRef> = maps
        .maps()
        .flat_map(|(number, map)| {
            let records = map.records();
            records.map(move |record| (number, record)).collect::<Vec<_>>()
        })
        .map(|(number, record)| maps.reference(number, &record))
        .collect();
    let mut returns = FoundReturns::new();
    let by_function = by_function(parts, specs, &references, refused)?;
    let starts = starts(parts, &by_function);
    audit_each(parts, code, by_function, &starts, refused, |at, told, refused| {
        for (spec, reference) in told {
            let site = ToldSite { at, spec };
            match site.audit() {
                Ok((addr, id, bytes)) => {
                    let entry = SiteEntry::new(id, addr, Some(reference), at.index, 0);
                    found.push(entry.told(), spec.shape(), bytes)?;
                    returns.extend(spec.return_offsets.iter().map(|offset| (addr, *offset)));
                }
                Err(error) => refused(Refusal {
                    site: Some(site.name()),
                    error,
                })?,
            }
        }
        Ok(())
    })?;
    returns.sort_unstable();
    returns.dedup();
    Ok((maps, returns))
}

type ByFunction<'s> = BTreeMap<u32, Vec<(&'s SiteSpec, RecordRef)>>;

/// What was told, by the numbers of the functions.
fn by_function<'s>(
    parts: &ModuleParts,
    specs: &'s [SiteSpec],
    references: &[RecordRef],
    refused: &mut impl FnMut(Refusal) -> Result<()>,
) -> Result<ByFunction<'s>> {
    let mut by_function = ByFunction::new();
    for (spec, reference) in specs.iter().zip(references) {
        match parts.functions.named(&spec.function) {
            Some(function) => {
                let told = by_function.entry(function).or_default();
                told.push((spec, *reference));
            }
            None => refused(
                Error::NoSuchFunction {
                    name: spec.function.clone(),
                }
                .into(),
            )?,
        }
    }
    Ok(by_function)
}

/// Where told sites start, ascending.
fn starts(parts: &ModuleParts, by_function: &ByFunction<'_>) -> Vec<CodeAddr> {
    let mut starts = Vec::new();
    for (index, told) in by_function {
        if let Some(function) = parts.functions.addr(*index) {
            starts.extend(told.iter().filter_map(|(spec, _)| function.at(spec.offset)));
        }
    }
    starts.sort_unstable();
    starts
}

/// A site as it was told, and its function.
struct ToldSite<'a> {
    at: DeclaringFunction<'a>,
    spec: &'a SiteSpec,
}

impl<'a> ToldSite<'a> {
    /// What lies outside of the function is refused under the address of that.
    fn addr(&self) -> CodeAddr {
        let addr = self.at.function.addr.at(self.spec.offset);
        addr.unwrap_or(self.at.function.addr)
    }

    fn name(&self) -> Box<SiteName> {
        let known = SiteName {
            kind: Some(SiteKind::Told),
            // Without one it is refused for that.
            id: self.spec.id.unwrap_or(RecordId::new(0)),
            function: Some(self.at.function.name.into()),
            offset: self.spec.offset,
            addr: self.addr(),
        };
        Box::new(known)
    }

    fn refused<T>(&self, why: &'static str) -> Result<T> {
        Err(Error::ToldInconsistent {
            site: self.name(),
            why,
        })
    }

    /// The address of the site, its ID and its bytes.
    fn audit(&self) -> Result<(CodeAddr, RecordId, &'a [u8])> {
        let Some(id) = self.spec.id else {
            return self.refused("it has no ID: say `SiteSpec::id`");
        };
        audit_convention(self.at.parts, &self.spec.shape(), || self.name())?;
        self.check_operands()?;
        self.check_registers()?;
        let bytes = self.bytes()?;
        let original = self.check_content(bytes)?;
        self.check_return_offsets(bytes, &original)?;
        Ok((self.addr(), id, bytes))
    }

    // ---- what was told ----

    /// Arguments and result are told by registers or by a convention, not by both.
    fn check_operands(&self) -> Result<()> {
        let spec = self.spec;
        let by_registers = spec.result.is_some() || !spec.args.is_empty();
        let by_convention = spec.returns || spec.count > 0;
        match spec.convention {
            // protection: told-operands-are-told-once
            Convention::C if by_registers => self.refused(
                "its arguments and its result are where the C convention has them: say `args` and `returns`, or another \
                 convention",
            ),
            Convention::AnyReg if by_convention => self.refused(
                "nothing tells where its arguments and its result are: say `arg` and `result` with their registers, or \
                 the C convention",
            ),
            _ if spec.args.len() + spec.values.len() >= record::MOST_LOCATIONS => {
                self.refused("it has more arguments and values than a record can have")
            }
            _ => Ok(()),
        }
    }

    /// The registers are such as can be kept or changed, and none is both.
    fn check_registers(&self) -> Result<()> {
        let (arch, spec) = (self.at.parts.arch, self.spec);
        let whole = |reg: &DwarfReg| canonical(arch, *reg);
        let refused = |register: DwarfReg, why| {
            let name = register_name(arch, register);
            Err(Error::ToldRegister {
                site: self.name(),
                register,
                name: name.map_or_else(|| "of no name".into(), |name| name.to_string()),
                why,
            })
        };
        let named = spec.result.iter().chain(&spec.args).chain(&spec.values);
        let known = verify::kept_registers(arch);
        let unknown = |reg: &DwarfReg| !known.contains(whole(reg));
        let sets = spec.live.union(spec.free).iter();
        // protection: told-registers-are-known
        if let Some(reg) = named.copied().chain(sets).find(unknown) {
            return refused(reg, "is none in which patches and exits keep a value");
        }
        let stack_pointer = conventions::of(arch).stack_pointer;
        let is_changed = |reg| spec.free.contains(reg) || spec.result == Some(reg);
        // protection: told-sites-keep-the-stack-pointer
        if is_changed(stack_pointer) {
            return refused(stack_pointer, "is the stack pointer, which no sequence may set");
        }
        let values: RegSet = spec.values.iter().map(whole).collect();
        // protection: told-registers-are-free-or-live
        if let Some(reg) = spec.free.intersection(spec.live.union(values)).first() {
            return refused(
                reg,
                "is told to be free, and to be live or a value: it can be one of them",
            );
        }
        match spec.result.as_ref().map(whole) {
            Some(reg) if spec.live.contains(reg) => refused(
                reg,
                "is told to be live and the result: leave it out of what is live",
            ),
            _ => Ok(()),
        }
    }

    // ---- what the code shows ----

    /// The bytes of the site, which are whole instructions of its function.
    fn bytes(&self) -> Result<&'a [u8]> {
        let (addr, reserved) = (self.addr(), Len::new(self.spec.reserved));
        if reserved.get() == 0 {
            return Err(Error::SiteEmpty { site: self.name() });
        }
        let start = self.spec.offset.get() as usize;
        let bytes = self.at.code.get(start..);
        let bytes = bytes.and_then(|rest| rest.get(..reserved.as_usize()));
        // protection: told-sites-are-in-their-functions
        let bytes = bytes.ok_or_else(|| Error::SiteOutsideFunction {
            site: self.name(),
            reserved,
            len: self.at.function.len,
        })?;
        // protection: told-sites-start-with-an-instruction
        if self.at.decoded.splits(addr) {
            return Err(self.undecodable("it starts inside of an instruction".into()));
        }
        let end = addr.plus(reserved);
        let end = end.expect("bytes that were read have addresses");
        let after = self.at.records.partition_point(|record| *record <= addr);
        match self.at.records.get(after) {
            // protection: told-sites-hold-no-record
            Some(record) if *record < end => Err(Error::SiteOverlapsRecord {
                site: self.name(),
                reserved,
                next: self.at.offset(*record),
            }),
            _ => Ok(bytes),
        }
    }

    fn undecodable(&self, why: String) -> Error {
        Error::SiteUndecodable {
            site: self.name(),
            reserved: Len::new(self.spec.reserved),
            why,
        }
    }

    /// The bytes are what was told, and whole instructions.
    fn check_content(&self, bytes: &[u8]) -> Result<Original> {
        let (arch, addr) = (self.at.parts.arch, self.addr());
        let original =
            verify::original(arch, addr, bytes).map_err(|error| self.undecodable(error.to_string()))?;
        let (holds, told) = match &self.spec.content {
            ToldContent::Nops => (original == Original::Nops, "nops"),
            ToldContent::Call => {
                let is_llvms = matches!(original, Original::LlvmCall { .. });
                (is_llvms || is_call(arch, addr, bytes), "one call, and nops")
            }
            ToldContent::Jump => {
                let jump = verify::is_jump(arch, addr, without_nops(arch, addr, bytes));
                (jump, "one jump, and nops")
            }
            ToldContent::Instructions(told) => (told == bytes, "other bytes"),
        };
        // protection: told-sites-hold-what-was-told
        match holds {
            true => Ok(original),
            false => Err(Error::NotAsTold {
                site: self.name(),
                told,
                found: listing(arch, addr, bytes),
            }),
        }
    }

    /// Where a return address may point, an instruction starts, and only nops follow: a thread that
    /// returns there after a patch finds nothing else.
    fn check_return_offsets(&self, bytes: &[u8], original: &Original) -> Result<()> {
        let arch = self.at.parts.arch;
        let none = Vec::new();
        let (calls, llvms) = match original {
            Original::Nops => (&none, None),
            Original::LlvmCall { returns_at, .. } => (&none, Some(*returns_at)),
            Original::Instructions { calls } => (calls, None),
        };
        let ends = verify::boundaries(arch, self.addr(), bytes);
        for offset in self.spec.return_offsets.iter().chain(calls) {
            let refused = |why| {
                Err(Error::ToldReturnOffset {
                    site: self.name(),
                    return_offset: *offset,
                    why,
                })
            };
            // protection: told-return-offsets-are-boundaries
            if !ends.contains(offset) || *offset >= self.spec.reserved {
                return refused("is not where an instruction of the site starts behind its first");
            }
            if llvms == Some(*offset) {
                continue;
            }
            let tail = bytes.get(*offset as usize..);
            let tail = tail.expect("an instruction ends in the site");
            let behind = self.addr().plus(Len::new(*offset));
            let behind = behind.expect("bytes that were read have addresses");
            // protection: told-return-offsets-are-followed-by-nops
            if verify::original(arch, behind, tail) != Ok(Original::Nops) {
                return refused(
                    "is followed by instructions, which a thread that returns there would miss after a patch: let the \
                     site end there, or begin",
                );
            }
            if arch.is_powerpc64() {
                return refused(
                    "is where no TOC pointer is restored, which patched code does there on PowerPC: let the site end with \
                     the call",
                );
            }
        }
        Ok(())
    }
}

/// The bytes without the nops at their end.
fn without_nops(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> &[u8] {
    let ends = verify::boundaries(arch, addr, bytes);
    let is_rest = |end: &&u32| {
        let rest = bytes.get(**end as usize..).unwrap_or(&[]);
        addr.plus(Len::new(**end))
            .is_some_and(|behind| verify::original(arch, behind, rest) == Ok(Original::Nops))
    };
    let end = ends.iter().find(is_rest);
    end.and_then(|end| bytes.get(..*end as usize)).unwrap_or(bytes)
}

/// Whether the bytes are one call, by as many instructions as that takes, and nops.
fn is_call(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> bool {
    let call = without_nops(arch, addr, bytes);
    if verify::is_call(arch, addr, call) {
        return true;
    }
    // RISC-V: auipc and jalr.
    let last = call.len().checked_sub(4).and_then(|at| call.split_at_checked(at));
    arch == Arch::RiscV64
        && last.is_some_and(|(first, last)| {
            first.len() == 4 && calls::target(arch, addr, call).is_some() && verify::is_call(arch, addr, last)
        })
}

/// The instructions, for an error.
fn listing(arch: Arch, addr: CodeAddr, bytes: &[u8]) -> String {
    let lines = verify::disassemble(arch, addr, bytes);
    let text: Vec<&str> = lines.iter().map(|line| &*line.text).collect();
    text.join("; ")
}
