//! Sites: ranges of reserved bytes in loaded code that the engine may patch, and the table of them.
//!
//! Patchpoints and shadows have records in stack maps. Sites of the other kinds have none:
//! [entries](EntrySpec), which the runtime declares by function; instructions that the IR
//! [marks](Marks); calls, which are [recorded](crate::Engine::load_recording) while code is linked;
//! whatever else the runtime [tells](SiteSpec) of.
//!
//! Problem: a stack map says where a site starts but not how long it is, its IDs repeat, and LLVM
//! does not always keep what it promises. Approach: the runtime tells the shape of each record, and
//! registration audits the result against the function, the other records and the bytes that are
//! there; what is registered is never looked at with doubt again. Invariants of a registered
//! [`Module`]: each site lies inside one function and one code range, no two sites overlap, no
//! other record starts inside a site, no branch that names its target goes into a site behind its
//! first byte (jump tables and landing pads of exceptions are not looked at), and the bytes of a
//! site decode to an instruction boundary at its end (of a shadow: where its last instruction ends,
//! which LLVM may let reach beyond the reserved bytes).
//!
//! Cost: registration reads each byte of functions twice, however they overlap, and is n log n in
//! functions and records. Beyond the stack map a site takes about 40 bytes: 16 for itself, 20 for
//! its ID in the table (16, and 3 to 6 that are vacant), 4 for its share of the entries by address,
//! in dense code; where sites are far from each other, 20. If no other patchpoint of the module
//! holds the same bytes and has the same shape, and for every shadow, add its bytes and 12 for its
//! form. For a told site add its record: 24 bytes, 12 for each operand, 4 for each live register. A
//! function takes 16 bytes and its name, and a module about 700: measured with 50 sites in
//! a module, five in a function, all of that is 61 bytes for a site.

mod alike;
mod audit;
mod branches;
mod calls;
mod candidate;
mod code;
mod declared;
mod describe;
mod details;
mod entry;
mod error;
mod found;
mod function;
mod functions;
mod index;
mod kept;
mod marked;
mod module;
mod owner;
mod scalable;
mod sites;
mod survey;
mod table;
#[cfg(test)]
mod tests;
pub mod told;
mod unused;
mod unwind_by;

pub use audit::Refusal;
pub(crate) use audit::{ShapeOf, Unrecorded, register};
pub(crate) use calls::CallSpec;
#[cfg(test)]
pub(crate) use calls::testing;
pub use candidate::{Candidate, IntoShape, is_statepoint};
pub(crate) use details::ModuleParts;
pub use entry::EntrySpec;
pub use error::{Error, Result};
pub use function::Function;
pub(crate) use functions::Functions;
pub(crate) use kept::FormNumber;
pub use marked::Marks;
pub use module::{Module, ModuleId, Site, SiteKey};
pub(crate) use owner::Owner;
pub use sites::{IntoSites, Sites};
pub use survey::{Survey, survey, survey_with};
pub(crate) use table::SiteTable;
pub use told::SiteSpec;
pub use unwind_by::{Saves, UnwindBy};
