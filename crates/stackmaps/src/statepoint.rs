//! The records of `gc.statepoint`: what the numbers and locations of such a record mean.
//!
//! A record holds the calling convention, flags and a count as constants; that many values for
//! deoptimization; then pairs of locations, base and derived pointer of each reference that is live
//! across the call; then the stack slots that hold references themselves. The record's offset is
//! the return address of the call. Source: `docs/Statepoints.rst`, "Stack Map Format", and
//! `lib/CodeGen/StackMaps.cpp`.

use super::map::Constants;
use super::record::{Locations, Record};
use crate::location::{Location, LocationKind};

/// A record of a statepoint.
#[derive(Clone, Copy, Debug)]
pub struct Statepoint<'a> {
    locations: Locations<'a>,
    convention: u64,
    flags: u64,
    /// How many locations are for deoptimization.
    deopt: usize,
}

/// A reference that is live across a statepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The object.
    pub base: Location,
    /// A pointer to it or into it; equal to `base` if the reference is the object's address.
    pub derived: Location,
}

/// The greatest number of a calling convention (`CallingConv::MaxID`).
const LAST_CONVENTION: u64 = 1023;
/// The flags that there are (`StatepointFlags::MaskAll`).
const FLAGS: u64 = 3;
/// The locations before the values for deoptimization.
const HEADER: usize = 3;

impl<'a> Statepoint<'a> {
    /// Reads a record as one of a statepoint; `None` if it does not begin as those do: with the
    /// number of a calling convention, with flags that there are, and with no more values for
    /// deoptimization than it has locations. Other records may begin so, too: their live values are
    /// what the program chose.
    #[must_use]
    pub fn of(record: &Record<'a>, constants: Constants<'a>) -> Option<Self> {
        let locations = record.locations();
        let number = |at| constant(locations.get(at)?, constants);
        let deopt = usize::try_from(number(2)?).ok()?;
        let rest = locations.len().checked_sub(HEADER)?;
        let (convention, flags) = (number(0)?, number(1)?);
        let sound = convention <= LAST_CONVENTION && flags & !FLAGS == 0 && deopt <= rest;
        sound.then_some(Self {
            locations,
            convention,
            flags,
            deopt,
        })
    }

    /// The number of the calling convention, as LLVM counts them.
    #[must_use]
    pub fn calling_convention(&self) -> u64 {
        self.convention
    }

    /// The flags of the statepoint.
    #[must_use]
    pub fn flags(&self) -> u64 {
        self.flags
    }

    /// The values for deoptimization.
    pub fn deopt_values(&self) -> impl Iterator<Item = Location> + use<'a> {
        let locations = self.locations;
        (HEADER..HEADER + self.deopt).filter_map(move |at| locations.get(at))
    }

    /// The references. A stack slot that holds references ends them: it is no pointer that could
    /// move.
    pub fn references(&self) -> impl Iterator<Item = Reference> + use<'a> {
        let locations = self.locations;
        let first = HEADER + self.deopt;
        let pair = move |at: usize| {
            Some(Reference {
                base: locations.get(at)?,
                derived: locations.get(at + 1)?,
            })
        };
        (first..)
            .step_by(2)
            .map_while(pair)
            .take_while(|pair| !matches!(pair.base.kind, LocationKind::Direct { .. }))
    }

    /// The stack slots that hold references.
    pub fn slots(&self) -> impl Iterator<Item = Location> + use<'a> {
        let locations = self.locations;
        let first = HEADER + self.deopt + 2 * self.references().count();
        (first..).map_while(move |at| locations.get(at))
    }
}

fn constant(location: Location, constants: Constants<'_>) -> Option<u64> {
    match location.kind {
        LocationKind::Constant { value } => u64::try_from(value).ok(),
        LocationKind::ConstantIndex { index } => constants.get(index),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::testing::{constant, direct, indirect, map, record, reg};
    use super::super::{Endian, StackMaps};
    use super::*;

    fn read(bytes: &[u8]) -> (Vec<Location>, Vec<Reference>, Vec<Location>) {
        let maps = StackMaps::parse(bytes, Endian::Little).unwrap();
        let record = maps.records().next().unwrap();
        let statepoint = Statepoint::of(&record, maps.maps()[0].constants()).unwrap();
        assert_eq!((statepoint.calling_convention(), statepoint.flags()), (0, 2));
        (
            statepoint.deopt_values().collect(),
            statepoint.references().collect(),
            statepoint.slots().collect(),
        )
    }

    #[test]
    fn values_references_and_slots() {
        let header = record(1)
            .location(constant(0))
            .location(constant(2))
            .location(constant(1));
        let record = header
            .location(reg(3, 8))
            .location(indirect(7, 8, 8))
            .location(indirect(7, 8, 8))
            .location(indirect(7, 8, 8))
            .location(indirect(7, 16, 8))
            .location(direct(7, 24));
        let (deopt, references, slots) = read(&map().function(0, 8, [record]).bytes());
        assert_eq!((deopt.len(), references.len(), slots.len()), (1, 2, 1));
        assert_eq!(references[0].base, references[0].derived);
        assert_ne!(references[1].base, references[1].derived);
    }

    #[test]
    fn other_records_are_none() {
        let counts_too_many = record(1)
            .location(constant(0))
            .location(constant(0))
            .location(constant(1));
        let no_header = record(1)
            .location(reg(0, 8))
            .location(reg(1, 8))
            .location(reg(2, 8));
        let header = |convention, flags| {
            record(1)
                .location(constant(convention))
                .location(constant(flags))
                .location(constant(0))
        };
        for record in [
            record(1),
            counts_too_many,
            no_header,
            header(1024, 0),
            header(0, 4),
        ] {
            let bytes = map().function(0, 8, [record]).bytes();
            let maps = StackMaps::parse(&bytes, Endian::Little).unwrap();
            let record = maps.records().next().unwrap();
            assert!(Statepoint::of(&record, maps.maps()[0].constants()).is_none());
        }
    }
}
