//! Which call of the IR a record is of. An ID may stand for several calls: a record is that of a
//! call only where everything that is certain of the call holds of the record, and no other call
//! could be meant that is something else.

use std::collections::{HashMap, HashSet};

use patchpoint::CallShape;
use patchpoint::addr::{CodeAddr, FnOffset, Len};
use patchpoint::arch::{Arch, SiteKind};
use patchpoint::image::FunctionRange;
use patchpoint::stackmap::{Constants, LocationKind, Record, StackMaps, Statepoint};
use patchpoint::verify::{self, Original};

use super::parse::mask;
use super::{Call, Function, Meaning, Operand, Program};
use crate::image::PlacedCode;
use crate::problem::Problem;
use crate::words::count_u64;

/// How a symbol is made of a name in the IR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mangling {
    /// It is the name.
    #[default]
    None,
    /// It is the name behind `_`, as in Mach-O.
    Underscore,
}

impl Mangling {
    /// The names in the IR whose symbol this is. A name that begins with the byte 1 is followed by
    /// the symbol itself.
    fn names(self, symbol: &str) -> impl Iterator<Item = String> {
        let plain = match self {
            Self::None => Some(symbol),
            // protection: symbols-of-mach-o-have-a-sign
            Self::Underscore => symbol.strip_prefix('_'),
        };
        let plain = plain.map(str::to_owned);
        plain.into_iter().chain([format!("\u{1}{symbol}")])
    }
}

/// What the IR says of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Site(CallShape),
    Statepoint,
    /// It speaks of the record, but not clearly, or of something that cannot be patched.
    Refused(String),
    /// It does not know the record.
    Unknown(String),
}

/// What is known of the records before any is looked at alone. Records are named by their place in
/// the section.
#[derive(Default)]
pub(crate) struct Matches {
    verdicts: HashMap<u64, Verdict>,
    /// Records at whose address another one begins.
    shared: HashSet<u64>,
    has_ir: bool,
    mangling: Mangling,
    /// What files of shapes say of records that are not there.
    pub(crate) unused: Vec<String>,
    /// The IDs of all records, each with the symbols of its functions.
    ids: HashMap<u64, HashSet<String>>,
}

/// The records of a function, in the order of the map, which is that in which LLVM wrote the code.
struct Records<'r> {
    symbol: &'r str,
    arch: Arch,
    records: Vec<Record<'r>>,
    /// Ascending.
    offsets: Vec<FnOffset>,
    constants: Constants<'r>,
    addr: CodeAddr,
    /// The function's code.
    code: &'r [u8],
}

impl Matches {
    /// Looks at all records of placed code.
    pub(crate) fn of(
        program: Option<&Program>,
        mangling: Mangling,
        code: &PlacedCode,
    ) -> Result<Self, Problem> {
        let image = &code.image;
        let functions: HashMap<u64, &FunctionRange> =
            image.functions.iter().map(|f| (f.addr.get(), f)).collect();
        let maps = StackMaps::parse(&image.stack_maps, image.endian)?;
        let mut matches = Self {
            has_ir: program.is_some(),
            mangling,
            ..Self::default()
        };
        let mut calls = program.map(Calls::of);
        for map in maps.maps() {
            let count = map.functions().len();
            for function in map.functions() {
                let records: Vec<_> = match function.records() {
                    Some(records) => records.collect(),
                    None if count == 1 => map.records().collect(),
                    None => continue,
                };
                let Some(range) = functions.get(&function.address()) else {
                    continue;
                };
                let mut offsets: Vec<_> = records.iter().map(Record::offset).collect();
                offsets.sort_unstable();
                let records = Records {
                    offsets,
                    symbol: &range.name,
                    arch: image.arch,
                    records,
                    constants: map.constants(),
                    addr: range.addr,
                    code: bytes_of(code, range),
                };
                matches.share(&records);
                for id in records.records.iter().map(|record| record.id().get()) {
                    let functions = matches.ids.entry(id).or_default();
                    if !functions.contains(&range.name) {
                        functions.insert(range.name.clone());
                    }
                }
                if let Some(calls) = &mut calls {
                    calls.judge(mangling, &records, &mut matches.verdicts);
                }
            }
        }
        Ok(matches)
    }

    fn share(&mut self, records: &Records<'_>) {
        let mut at: HashMap<FnOffset, Vec<u64>> = HashMap::new();
        for record in &records.records {
            at.entry(record.offset())
                .or_default()
                .push(record.byte_offset().get());
        }
        let shared = at.into_values().filter(|records| records.len() > 1);
        self.shared.extend(shared.flatten());
    }

    /// What the IR says of a record, where there is any.
    pub(crate) fn verdict(&self, record: &Record<'_>) -> Option<&Verdict> {
        self.verdicts.get(&record.byte_offset().get())
    }

    /// Whether another record begins at the same address: at most one of them has bytes.
    pub(crate) fn is_shared(&self, record: &Record<'_>) -> bool {
        self.shared.contains(&record.byte_offset().get())
    }

    /// Whether there is a record with this ID, in a function of this name if any is given.
    pub(crate) fn has(&self, id: u64, function: Option<&str>) -> bool {
        let symbols = self.ids.get(&id);
        symbols.is_some_and(|symbols| match function {
            None => true,
            Some(name) => symbols
                .iter()
                .any(|symbol| symbol == name || self.plain(symbol) == Some(name)),
        })
    }

    /// The name without the sign that Mach-O puts before it.
    pub(crate) fn plain<'n>(&self, symbol: &'n str) -> Option<&'n str> {
        match self.mangling {
            Mangling::None => None,
            Mangling::Underscore => symbol.strip_prefix('_'),
        }
    }

    /// Whether IR was given, and knows none of all records.
    pub(crate) fn is_foreign(&self) -> bool {
        let unknown = |verdict| matches!(verdict, &Verdict::Unknown(_));
        self.has_ir && !self.verdicts.is_empty() && self.verdicts.values().all(unknown)
    }
}

/// The code of a function, as far as it is there.
fn bytes_of<'c>(code: &'c PlacedCode, range: &FunctionRange) -> &'c [u8] {
    let find = || {
        let segment = code.segments.iter().find(|segment| {
            let len = Len::of(&segment.bytes);
            let len = len.expect("a segment has a length");
            range.addr.is_within(segment.addr, len)
        })?;
        let start = usize::try_from(range.addr.distance_from(segment.addr)).ok()?;
        let rest = segment.bytes.get(start..)?;
        Some(rest.get(..range.len.as_usize()).unwrap_or(rest))
    };
    find().unwrap_or(&[])
}

/// The IR's calls by their IDs, each with its function; and of each function that was asked for,
/// what may be inlined into it.
struct Calls<'p> {
    program: &'p Program,
    by_id: HashMap<u64, Vec<(usize, &'p Call)>>,
    inlined: HashMap<usize, HashSet<usize>>,
}

impl<'p> Calls<'p> {
    fn of(program: &'p Program) -> Self {
        let mut by_id: HashMap<u64, Vec<(usize, &Call)>> = HashMap::new();
        for (number, function) in program.functions.iter().enumerate() {
            for call in &function.calls {
                by_id.entry(call.id).or_default().push((number, call));
            }
        }
        Self {
            program,
            by_id,
            inlined: HashMap::new(),
        }
    }

    /// Says of each record of a function what it is.
    fn judge(&mut self, mangling: Mangling, records: &Records<'_>, verdicts: &mut HashMap<u64, Verdict>) {
        let names = mangling.names(records.symbol);
        let homes = names.filter_map(|name| self.program.names.get(&name)).flatten();
        let homes: Vec<usize> = homes.copied().collect();
        for (index, record) in records.records.iter().enumerate() {
            let verdict = self.verdict(&homes, records, (index, record));
            verdicts.insert(record.byte_offset().get(), verdict);
        }
    }

    fn verdict(
        &mut self,
        homes: &[usize],
        records: &Records<'_>,
        (index, record): (usize, &Record<'_>),
    ) -> Verdict {
        let (id, symbol) = (record.id().get(), records.symbol);
        if homes.is_empty() {
            return Verdict::Unknown(match symbol {
                "" => "its function has no name by which the IR knows it".to_owned(),
                name => format!("the IR has no function for {name}: give its IR, too"),
            });
        }
        let all = self.by_id.get(&id).map_or(&[][..], Vec::as_slice);
        // Mostly, all that have the ID are the same, wherever they are.
        if all.iter().any(|(home, _)| homes.contains(home)) {
            if let Ok(verdict) = records.verdict(record, all.iter().map(|(_, call)| *call)) {
                return verdict;
            }
        }
        let inside: HashSet<usize> = homes
            .iter()
            .flat_map(|home| {
                let inlined = self.inlined.entry(*home);
                inlined
                    .or_insert_with(|| self.program.inlined_into(*home))
                    .clone()
            })
            .collect();
        let calls = all.iter().filter(|(number, _)| inside.contains(number));
        let calls: Vec<&Call> = calls.map(|(_, call)| *call).collect();
        if calls.is_empty() {
            return Verdict::Unknown(format!(
                "the IR of {symbol} has no call with ID {id}: give the IR that the file was compiled from"
            ));
        }
        records
            .verdict(record, calls.into_iter())
            .unwrap_or_else(|several| {
                let only = match homes {
                    [home] if inside.len() == 1 => self.program.functions.get(*home),
                    _ => None,
                };
                let ordered = only.filter(|function| records.in_order(function));
                let call = ordered.and_then(|function| function.calls.get(index));
                call.map_or(Verdict::Refused(several), verdict_of)
            })
    }
}

impl Program {
    /// The functions whose calls may be in the code of this one: itself, and what may have been
    /// inlined. Those without calls are left out.
    pub(super) fn inlined_into(&self, home: usize) -> HashSet<usize> {
        let (mut found, mut seen) = (HashSet::from([home]), HashSet::from([home]));
        let mut open: Vec<&str> = Vec::new();
        let mut named: HashSet<&str> = HashSet::new();
        let mut unknown = false;
        let mut function = self.functions.get(home);
        loop {
            if let Some(function) = function {
                // protection: inlined-calls-count
                open.extend(function.refers_to.iter().map(String::as_str));
                if function.calls_unknown && !unknown {
                    unknown = true;
                    open.extend(self.taken.iter().map(String::as_str));
                }
            }
            function = None;
            let Some(name) = open.pop() else { break };
            if !named.insert(name) {
                continue;
            }
            open.extend(self.globals.get(name).into_iter().flatten().map(String::as_str));
            let numbers = self.names.get(name).map_or(&[][..], Vec::as_slice);
            for number in numbers {
                let Some(next) = self.functions.get(*number).filter(|next| next.inlined) else {
                    continue;
                };
                if !seen.insert(*number) {
                    continue;
                }
                if !next.calls.is_empty() {
                    found.insert(*number);
                }
                open.extend(next.refers_to.iter().map(String::as_str));
                if next.calls_unknown && !unknown {
                    unknown = true;
                    open.extend(self.taken.iter().map(String::as_str));
                }
            }
        }
        found
    }
}

fn verdict_of(call: &Call) -> Verdict {
    match &call.meaning {
        Meaning::Shape(shape) => Verdict::Site(*shape),
        Meaning::Statepoint => Verdict::Statepoint,
        Meaning::Convention(name) => Verdict::Refused(format!(
            "the IR calls it with the convention {name} (line {}): where its arguments are and what it preserves is known of \
             anyregcc and ccc alone",
            call.line
        )),
    }
}

impl Records<'_> {
    /// What all calls are that the record may be of; otherwise why that is not clear.
    fn verdict<'p>(
        &self,
        record: &Record<'_>,
        calls: impl Iterator<Item = &'p Call> + Clone,
    ) -> Result<Verdict, String> {
        let fitting: Vec<&Call> = calls.clone().filter(|call| self.fits(record, call)).collect();
        let Some(first) = fitting.first() else {
            let lines: Vec<_> = calls.take(8).map(|call| call.line.to_string()).collect();
            return Ok(Verdict::Refused(format!(
                "the record is that of no call with its ID (line {}): kind, operands or nops differ: give the IR that the file was \
                 compiled from",
                lines.join(", ")
            )));
        };
        // protection: records-of-several-shapes-are-refused
        if fitting.iter().all(|call| call.meaning == first.meaning) {
            return Ok(verdict_of(first));
        }
        let mut several: Vec<_> = fitting.iter().map(|call| describe(call)).collect();
        several.dedup();
        several.truncate(4);
        Err(format!(
            "the IR has several calls that the record may be of: {}: give them different IDs",
            several.join(", ")
        ))
    }

    /// Whether a record may be that of a call: what is compared here is certain, whatever LLVM does
    /// with the code.
    fn fits(&self, record: &Record<'_>, call: &Call) -> bool {
        let locations = record.locations();
        let no_live_outs = record.live_outs().len() == 0;
        let kind = match &call.meaning {
            Meaning::Statepoint => {
                return no_live_outs && Statepoint::of(record, self.constants).is_some();
            }
            // Live-outs come with patchpoints only.
            Meaning::Shape(shape) if shape.kind() == SiteKind::Shadow => no_live_outs,
            Meaning::Shape(shape) => !call.null || self.has_nops(record, shape.reserved()),
            Meaning::Convention(_) => true,
        };
        let ahead = usize::from(call.has_result) + call.free as usize;
        let wide = call.live.iter().filter(|live| **live == Operand::Wide).count();
        let least = ahead + call.live.len() - wide;
        let count = locations.len();
        let result = |at: Option<LocationKind>| matches!(at, Some(LocationKind::Register { .. }));
        kind && (count == least || wide > 0 && count > least)
            && (!call.has_result || result(locations.get(0).map(|location| location.kind)))
            // Nobody knows how many locations a wide one has.
            && (ahead..).zip(call.live.iter().take_while(|live| **live != Operand::Wide)).all(|(at, live)| {
                locations.get(at).is_some_and(|location| self.holds(location.kind, *live))
            })
    }

    fn holds(&self, place: LocationKind, live: Operand) -> bool {
        let constant = match place {
            LocationKind::Constant { value } => Some(i64::from(value) as u64),
            LocationKind::ConstantIndex { index } => self.constants.get(index),
            _ => None,
        };
        match live {
            Operand::Constant { bits, value } => match constant {
                Some(found) => found & mask(bits) == value,
                // A large one may be loaded, as on RISC-V.
                None => i32::try_from(value as i64).is_err(),
            },
            Operand::Null => constant.is_none_or(|found| found == 0),
            Operand::One | Operand::Wide => true,
        }
    }

    /// Whether so many bytes of nops are there, before the next record: LLVM puts them where a
    /// target is null.
    fn has_nops(&self, record: &Record<'_>, reserved: Len) -> bool {
        let start = record.offset().get() as usize;
        let later = self.offsets.partition_point(|other| *other <= record.offset());
        let next = self
            .offsets
            .get(later)
            .map_or(usize::MAX, |next| next.get() as usize);
        let end = start.saturating_add(reserved.as_usize());
        let bytes = self.code.get(start..end).filter(|_| end <= next);
        let addr = self.addr.at(record.offset());
        bytes.zip(addr).is_some_and(|(bytes, addr)| {
            bytes.is_empty() || verify::original(self.arch, addr, bytes) == Ok(Original::Nops)
        })
    }

    /// Whether the records are those of the function's calls, one by one. In a block LLVM keeps
    /// their order, for each may do anything; and where a function is one block, none is left out
    /// or written twice.
    fn in_order(&self, function: &Function) -> bool {
        // protection: order-is-that-of-one-block
        function.straight
            && function.calls.len() == self.records.len()
            && self.records.is_sorted_by_key(Record::offset)
            && function
                .calls
                .iter()
                .zip(&self.records)
                .all(|(call, record)| call.id == record.id().get() && self.fits(record, call))
    }
}

/// A call in words.
fn describe(call: &Call) -> String {
    let bytes = |shape: &CallShape| count_u64(shape.reserved().get().into(), "byte");
    let what = match &call.meaning {
        Meaning::Statepoint => "a statepoint".to_owned(),
        Meaning::Convention(name) => format!("a patchpoint of convention {name}"),
        Meaning::Shape(shape) if shape.kind() == SiteKind::Shadow => format!("a shadow of {}", bytes(shape)),
        Meaning::Shape(shape) => {
            let convention = match shape.convention() {
                patchpoint::arch::Convention::AnyReg => "anyregcc",
                _ => "C",
            };
            let result = if shape.has_result() { " and a result" } else { "" };
            let args = count_u64(shape.arg_count().into(), "argument");
            format!(
                "a {convention} patchpoint of {} with {args}{result}",
                bytes(shape)
            )
        }
    };
    format!("{what} (line {})", call.line)
}
