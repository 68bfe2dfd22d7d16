//! Reading the other tables that are keyed by code addresses: PC sections, and the stack maps of
//! the plimmix collector.
//!
//! Problem: stack maps are not the only tables that name instructions of compiled code. LLVM's
//! `!pcsections` put the addresses of marked instructions and functions into sections of their own,
//! with constants beside them; its sanitizers do the same; a collector's plug-in writes its own
//! list of safepoints and roots. Approach: as for stack maps, a table is checked once, whole, and
//! read through views that need not fail. Invariant: no length, count or address is used before it
//! has been checked; a malformed table is an error with the offset of what is wrong.
//!
//! - [`PcSection`]: entries of a PC section, by a [`PcSectionShape`] that the caller gives, for the section does not say it.
//! - [`Covered`], and [`PcSectionShape::instructions`] for atomics: the tables of LLVM's sanitizers.
//! - [`GcMap`]: safepoints and roots, as plimmix writes them.
//! - [`Safepoints`]: either a [`GcMap`] or the statepoints of stack maps as one table from an address to its roots, which walks
//!   stacks and moves references.

mod covered;
mod cursor;
mod gc_map;
mod pc_section;
mod safepoints;
#[cfg(test)]
mod tests;

pub use covered::{Covered, CoveredFunction, CoveredFunctions, Features};
pub use gc_map::{GcFunction, GcFunctions, GcMap, GcRoot, GcRoots, RootKind};
pub use pc_section::{
    Entries, IntegerSize, PcSection, PcSectionConstants, PcSectionEntry, PcSectionShape, Pcs,
};
pub use safepoints::{Frames, ReturnSlot, Root, Roots, Safepoint, SafepointFrame, Safepoints, StackMemory};
