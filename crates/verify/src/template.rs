//! Code that was checked once, and may be written again with other constants in it.
//!
//! Problem: checking an inline cache takes ten times as long as writing it, and a runtime writes
//! the same one over and over, with another class and another field each time. Approach: of code
//! that [`check`](super::check) has accepted, a [`Template`] keeps the bytes, and knows of each
//! whether it is open: a displacement, an immediate or the distance of a branch that no rule looks
//! at, as the decoder finds them. Code is admitted later if
//!
//! 1. its closed bits are those that were checked;
//! 2. each open distance has the target that was asked for in its place, which is outside of the site;
//! 3. the other open fields hold the values that were asked for. Of a value that several
//!    instructions make, the fields hold parts, which the decoder adds up as the processor does.
//!
//! # Why that is enough
//!
//! An instruction's length, its kind and its registers are in bits that are closed: on x86-64 in its
//! prefixes, its opcode and its ModRM and SIB bytes, elsewhere in the bits of its word that are no
//! immediate. Admitted code decodes into the same instructions at the same offsets. A rule then
//! comes to another verdict only if it looks at the contents of a field, or at the address:
//!
//! - rules 2 and 3 look at the targets of branches. Those inside of the site are closed, and relative. Those that leave have
//!   a target, by 2 above, that the sequence declares under the same contract as the one that was checked. A branch through
//!   a register would need a constant: code with one has no template, nor has code that addresses memory
//!   relative to itself;
//! - rule 5 looks at what is added to the stack pointer, and where memory relative to it is written: in instructions
//!   that change or use the stack pointer nothing is open, and code that writes the stack at a distance in a register, which
//!   may be a constant, has no template;
//! - rule 4, 6 and 7 look at none. So that it stays so, immediates are open only in the few instructions whose registers
//!   and flags do not depend on them; a shift by 0, for example, is another thing than one by 1. Nor is anything open in
//!   instructions that are a unit with others, as the decoder finds these by their bits, or in nops.
//!
//! What the rules know of the site (its record, shape, convention and return offsets) is not asked
//! here: a template is for sites that have the same. Whoever keeps templates sees to it; see
//! `engine/templates`.
//!
//! By 3, a value in a wrong field is refused even though every rule holds.

use alloc::boxed::Box;

use llvm_stackmaps::addr::{CodeAddr, CodeRange};
use patchpoint_isa::{Declared, SiteContext};
use smallvec::SmallVec;

use super::chunk::Chunk;
use super::dispatch::isa;
use super::field::OpenField;

/// What has to be in an open field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// This value, together with the fields behind it that hold [more](Self::More) of it.
    Value(u64),
    /// More of the value of the field before.
    More,
    /// The distance to this address.
    Target(CodeAddr),
}

/// Code that was checked, and which bits of it may vary.
#[derive(Clone, Debug)]
pub struct Template {
    /// The code, with zeros in its open fields.
    code: Box<[u8]>,
    /// The bits that are closed.
    closed: Box<[u8]>,
    fields: SmallVec<[OpenField; 4]>,
}

impl Template {
    /// The template of code that `check` has just accepted for this site, without stubs. All fields
    /// are open that may be. `None` for code that cannot have one.
    pub fn of(site: &SiteContext<'_>, code: &[u8], declared: &Declared) -> Option<Self> {
        if !site.return_offsets.is_empty() || !declared.vouched.is_empty() {
            return None;
        }
        let chunk = Chunk {
            addr: site.addr,
            bytes: code,
        };
        let is_target = |to: u64| declared.targets.iter().any(|target| target.addr.get() == to);
        let mut template = Self {
            code: code.into(),
            closed: code.iter().map(|_| 0xff).collect(),
            fields: (isa(site.arch).fields)(chunk, &is_target)?,
        };
        for field in template.fields.clone() {
            template.mark(field, |code, closed, open, _| {
                *code &= !open;
                *closed &= !open;
            });
        }
        Some(template)
    }

    /// Changes the bytes of a field: the code, the mask; given which bits are the field's, and where
    /// the byte is.
    fn mark(&mut self, field: OpenField, change: impl Fn(&mut u8, &mut u8, u8, usize)) {
        let both = self.code.iter_mut().zip(self.closed.iter_mut()).enumerate();
        for ((at, (code, closed)), open) in both.skip(field.at).zip(field.bytes()).take(field.len) {
            change(code, closed, open, at);
        }
    }

    /// The open fields, in their order.
    #[inline]
    #[must_use]
    pub fn fields(&self) -> &[OpenField] {
        &self.fields
    }

    /// Keeps only some fields open; the others are closed with what the checked code has there.
    ///
    /// # Panics
    /// If that is not the code of which the template was made: it has no such bytes.
    pub fn keep(&mut self, checked: &[u8], keep: impl Fn(&OpenField) -> bool) {
        for field in self.fields.clone() {
            if !keep(&field) {
                self.mark(field, |code, closed, open, at| {
                    let checked = checked.get(at).expect("the checked code has all fields");
                    *code |= checked & open;
                    *closed |= open;
                });
            }
        }
        self.fields.retain(|field| keep(field));
    }

    /// The code with zeros in its open fields.
    #[inline]
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// Whether code for a site at that address may be written: see the head of this file. There is
    /// one content for each open field.
    #[inline]
    pub fn admits(&self, site: CodeRange, code: &[u8], contents: &[Content]) -> bool {
        if code.len() != self.code.len() || contents.len() != self.fields.len() {
            return false;
        }
        let bytes = code.iter().zip(&self.code).zip(&self.closed);
        let different = bytes.fold(0, |sum, ((code, checked), closed)| {
            sum | (code ^ checked) & closed
        });
        // What is missing of the value whose fields are read.
        let mut missing = 0_u64;
        for (field, content) in self.fields.iter().zip(contents) {
            let Some(read) = field.read(code) else {
                return false;
            };
            let holds = match (*content, field.counts_from) {
                // protection: a-value-is-there-as-a-whole
                (Content::Value(value), None) => {
                    let is_whole = missing == 0;
                    missing = value.wrapping_sub(read);
                    is_whole
                }
                (Content::More, None) => {
                    missing = missing.wrapping_sub(read);
                    true
                }
                (Content::Target(to), Some(_)) => {
                    let is_there = field.target(code, site.start()) == Some(to.get());
                    is_there && !site.contains(to) && site.end() != to
                }
                _ => false,
            };
            if !holds {
                return false;
            }
        }
        different == 0 && missing == 0
    }
}

#[cfg(test)]
mod tests;
