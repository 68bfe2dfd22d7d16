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
//! prefixes, its opcode and its ModRM and SIB bytes, on others in the bits of its word that are no
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
//! - rules 4, 6 and 7 look at none: return offsets are boundaries of the same instructions. So that
//!   it stays so, immediates are open only in the few instructions whose registers and flags do not
//!   depend on them; a shift by 0, for example, is another thing than one by 1. Nor is anything open in
//!   instructions that are a unit with others, as the decoder finds these by their bits, or in nops.
//!
//! What the rules know of the site (its record, shape, convention and return offsets) is not asked
//! here: a template is for sites that have the same. Whoever keeps templates sees to it; see
//! `engine/templates`.
//!
//! By 3, a value in a wrong field is refused even though every rule holds.
//!
//! # Stubs
//!
//! A stub is another piece of the same code, at another distance from its site each time. Every
//! branch that leaves it is an open field, also those to the site's end; there is no template of a
//! stub that branches into its site. What a stub and its site do together is what they did when
//! they were checked, if the site, too, goes to the stub's first byte: its gate has a template of its
//! own, [`GateTemplate`].

use alloc::boxed::Box;
use core::ops::{BitAnd, BitXor};

use llvm_stackmaps::addr::{CodeAddr, CodeRange};
use patchpoint_isa::{Declared, SiteContext};
use smallvec::SmallVec;

use super::chunk::Chunk;
use super::dispatch::isa;
use super::exchange::{check_exchange, check_rewrite, check_trap, first_of};
use super::facts::{DecodedCode, Dest, ExchangePlace, Flow};
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
    /// Whether all of them are whole words, which are read without a call.
    are_whole: bool,
    /// Which of the fields is the distance from a stub to the end of its site.
    to_end: u32,
}

/// Where code of a template is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is the site.
    Site(CodeRange),
    /// It is a stub of the site.
    Stub {
        /// The stub's first byte.
        at: CodeAddr,
        /// The site.
        site: CodeRange,
    },
}

impl Place {
    /// The address of the code.
    #[inline]
    #[must_use]
    pub fn at(self) -> CodeAddr {
        match self {
            Self::Site(site) => site.start(),
            Self::Stub { at, .. } => at,
        }
    }

    /// The site.
    #[inline]
    #[must_use]
    pub fn site(self) -> CodeRange {
        let (Self::Site(site) | Self::Stub { site, .. }) = self;
        site
    }

    /// Whether a branch there goes to an address, whose distance counts from an offset in the code.
    #[inline]
    fn goes(self, (from, distance): (usize, u64), to: CodeAddr) -> bool {
        let from = self.at().get().wrapping_add(from as u64);
        from.wrapping_add(distance) == to.get()
    }

    /// The same of a lone branch, and whether it may leave code of that many bytes there for the address.
    #[inline]
    fn branches(
        self,
        (from, distance): (usize, Option<u64>),
        to: CodeAddr,
        (to_end, len): (bool, usize),
    ) -> bool {
        // protection: lone-branches-go-to-their-target
        let goes = distance.is_some_and(|distance| self.goes((from, distance), to));
        // protection: lone-branches-leave-their-site
        goes && self.leaves_for(to, to_end, len)
    }

    /// Whether code of `len` bytes there may leave for an address: the end of the site only as that.
    #[inline]
    fn leaves_for(self, to: CodeAddr, to_end: bool, len: usize) -> bool {
        let site = self.site();
        let is_outside = !site.contains(to) && (site.end() == to) == to_end;
        is_outside && to.get().wrapping_sub(self.at().get()) >= len as u64
    }
}

impl Template {
    /// The template of code that `check` has just accepted for this site, without stubs. All fields
    /// are open that may be. `None` for code that cannot have one.
    pub fn of(site: &SiteContext<'_>, code: &[u8], declared: &Declared) -> Option<Self> {
        let is_target = |to: u64| declared.targets.iter().any(|target| target.addr.get() == to);
        let code = Chunk {
            addr: site.addr,
            bytes: code,
        };
        Self::of_code(site, code, declared, &is_target)
    }

    /// The template of a stub that `check` has just accepted with its site.
    pub fn of_stub(site: &SiteContext<'_>, stub: Chunk<'_>, declared: &Declared) -> Option<Self> {
        let end = site.addr.plus(site.shape.reserved())?.get();
        let leaves = |to: u64| to.wrapping_sub(stub.addr.get()) >= stub.bytes.len() as u64;
        let mut template = Self::of_code(site, stub, declared, &leaves)?;
        for (number, field) in template.fields.iter().enumerate() {
            let Some(to) = field.target(stub.bytes, stub.addr) else {
                continue;
            };
            // protection: stubs-branch-to-the-end-or-to-targets
            match to == end {
                true => template.to_end |= 1_u32.checked_shl(number as u32)?,
                false if declared.targets.iter().any(|target| target.addr.get() == to) => {}
                false => return None,
            }
        }
        Some(template)
    }

    fn of_code(
        site: &SiteContext<'_>,
        code: Chunk<'_>,
        declared: &Declared,
        leaves: &dyn Fn(u64) -> bool,
    ) -> Option<Self> {
        if !declared.vouched.is_empty() {
            return None;
        }
        let mut template = Self {
            code: code.bytes.into(),
            closed: code.bytes.iter().map(|_| 0xff).collect(),
            fields: (isa(site.arch).fields)(code, leaves)?,
            are_whole: false,
            to_end: 0,
        };
        template.are_whole = template.fields.iter().all(OpenField::is_whole);
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
    /// Distances stay open: they are others at another address.
    ///
    /// # Panics
    /// If that is not the code of which the template was made: it has no such bytes.
    pub fn keep(&mut self, checked: &[u8], keep: impl Fn(&OpenField) -> bool) {
        // protection: distances-stay-open
        let keep = |field: &OpenField| field.counts_from.is_some() || keep(field);
        let is_to_end = |number: usize| is_in(self.to_end, number);
        let kept = (0..).zip(&self.fields).filter(|(_, field)| keep(field));
        let kept = kept.enumerate().filter(|(_, (number, _))| is_to_end(*number));
        self.to_end = kept.fold(0, |sum, (number, _)| sum | 1 << number);
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

    /// Which of the fields is the distance from a stub to the end of its site.
    #[inline]
    #[must_use]
    pub fn is_to_end(&self, number: usize) -> bool {
        is_in(self.to_end, number)
    }

    /// Whether code for that place may be written: see the head of this file. There is one content
    /// for each open field.
    #[inline]
    pub fn admits(&self, place: Place, code: &[u8], contents: &[Content]) -> bool {
        if code.len() != self.code.len() || contents.len() != self.fields.len() {
            return false;
        }
        self.is_like(code)
            && match self.are_whole {
                true => self.holds(place, code, contents, |field, code| field.read_whole(code)),
                false => self.holds_bits(place, code, contents),
            }
    }

    /// The branch, if its distance is the only open field.
    #[inline]
    #[must_use]
    pub fn lone_branch(&self) -> Option<LoneBranch<'_>> {
        let [field] = &*self.fields else {
            return None;
        };
        let (template, from) = (self, field.counts_from?);
        Some(LoneBranch {
            template,
            field,
            from,
        })
    }

    /// Whether code of the same length differs from this in open fields only.
    #[inline(always)] // Called, it is 18 instructions more of each patch.
    fn is_like(&self, code: &[u8]) -> bool {
        let (checked, closed) = (&*self.code, &*self.closed);
        // The ends of what most sites, stubs and gates have, which may overlap, are two words: byte by byte
        // they are 40 more of the 3,000 to 4,000 instructions of a patch.
        match code.len() {
            4..=8 => are_like([code, checked, closed].map(|bytes| ends(bytes, u32::from_ne_bytes))),
            9..=16 => are_like([code, checked, closed].map(|bytes| ends(bytes, u64::from_ne_bytes))),
            17..=32 => are_like([code, checked, closed].map(|bytes| ends(bytes, u128::from_ne_bytes))),
            _ => {
                let bytes = code.iter().zip(checked).zip(closed);
                bytes.fold(0, |sum, ((code, checked), closed)| {
                    sum | (code ^ checked) & closed
                }) == 0
            }
        }
    }

    /// The number of the first of codes of the same length that differs in more.
    #[inline(never)] // What it needs of registers is all that there are.
    fn first_unlike<'c>(&self, mut codes: impl Iterator<Item = &'c [u8]>) -> Option<usize> {
        let (checked, closed) = (&*self.code, &*self.closed);
        match checked.len() {
            // As for one, with the words of what was checked at hand.
            17..=32 => {
                let [checked, closed] = [checked, closed].map(|bytes| ends(bytes, u128::from_ne_bytes));
                codes.position(|code| !are_like([ends(code, u128::from_ne_bytes), checked, closed]))
            }
            _ => codes.position(|code| !self.is_like(code)),
        }
    }

    // A function of its own: what reads bits is called, and the loop over whole words then keeps nothing
    // in registers.
    #[inline(never)]
    fn holds_bits(&self, place: Place, code: &[u8], contents: &[Content]) -> bool {
        self.holds(place, code, contents, OpenField::read)
    }

    /// Whether the fields hold what they should.
    #[inline(always)] // For each way to read apart.
    fn holds(
        &self,
        place: Place,
        code: &[u8],
        contents: &[Content],
        read: impl Fn(&OpenField, &[u8]) -> Option<u64>,
    ) -> bool {
        // What is missing of the value whose fields are read.
        let mut missing = 0_u64;
        for (number, (field, content)) in self.fields.iter().zip(contents).enumerate() {
            let Some(read) = read(field, code) else {
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
                (Content::Target(to), Some(from)) => {
                    place.goes((from, read), to) && place.leaves_for(to, self.is_to_end(number), code.len())
                }
                _ => false,
            };
            if !holds {
                return false;
            }
        }
        missing == 0
    }
}

/// Code in which nothing may vary but how far one branch goes: of gates, and of ways to exit stubs. What
/// [`Template::admits`] asks of it takes as a list of contents 66 instructions more of a live patch.
#[derive(Clone, Copy, Debug)]
pub struct LoneBranch<'t> {
    template: &'t Template,
    field: &'t OpenField,
    from: usize,
}

impl LoneBranch<'_> {
    /// Whether code for that place may be written which branches to an address: see the head of this file.
    #[inline]
    #[must_use]
    pub fn admits(&self, place: Place, code: &[u8], to: CodeAddr) -> bool {
        // protection: lone-branches-are-like-the-checked
        let is_like = code.len() == self.template.code.len() && self.template.is_like(code);
        let branch = (self.from, self.distance(code));
        is_like && place.branches(branch, to, (self.template.is_to_end(0), code.len()))
    }

    /// The number of the first of many for which that is not so. Their codes lie side by side; of each there is
    /// its site, and where its branch goes to. One without these, or that is cut off, is refused.
    ///
    /// One question is asked of all before the next: together they need more registers than there are, and take
    /// twice as many instructions.
    #[inline]
    pub fn first_refused(
        &self,
        codes: &[u8],
        mut places: impl Iterator<Item = (CodeRange, CodeAddr)>,
    ) -> Option<usize> {
        let mut each = codes.chunks_exact(self.template.code.len());
        // protection: codes-that-are-cut-off-are-refused
        let cut_off = (!each.remainder().is_empty()).then_some(each.len());
        // protection: many-lone-branches-are-like-the-checked
        let unlike = self.template.first_unlike(each.clone());
        // By values: what is behind references is read again for each, which is a fifteenth of a batch.
        let (from, to_end) = (self.from, self.template.is_to_end(0));
        let four = (self.template.are_whole && self.field.len == 4).then_some(self.field.at);
        let astray = each.position(|code| {
            // protection: many-lone-branches-go-to-their-targets
            !places.next().is_some_and(|(site, to)| {
                let distance = match four {
                    Some(at) => super::field::read_four(at, code),
                    None => self.distance(code),
                };
                Place::Site(site).branches((from, distance), to, (to_end, code.len()))
            })
        });
        [unlike, astray, cut_off].into_iter().flatten().min()
    }

    /// How far it goes.
    #[inline]
    fn distance(&self, code: &[u8]) -> Option<u64> {
        match self.template.are_whole {
            true => self.field.read_whole(code),
            false => self.field.read(code),
        }
    }
}

/// The first and the last word of bytes, if there are as many.
#[inline(always)] // Called, it makes the words in memory.
fn ends<T, const N: usize>(bytes: &[u8], word: impl Fn([u8; N]) -> T) -> Option<[T; 2]> {
    Some([word(*bytes.first_chunk()?), word(*bytes.last_chunk()?)])
}

/// Whether words of code are like the checked ones where these are closed.
#[inline(always)] // As `ends`.
fn are_like<T>([code, checked, closed]: [Option<[T; 2]>; 3]) -> bool
where
    T: Copy + Default + PartialEq + BitXor<Output = T> + BitAnd<Output = T>,
{
    let (Some(code), Some(checked), Some(closed)) = (code, checked, closed) else {
        return false;
    };
    let is_like = |code: T, checked: T, closed: T| (code ^ checked) & closed == T::default();
    // protection: both-ends-of-code-are-like-the-checked
    is_like(code[0], checked[0], closed[0]) && is_like(code[1], checked[1], closed[1])
}

/// Whether a gate is nops, and a jump to a stub: whoever comes there finds everything as it was before the
/// site.
fn only_jumps(site: &SiteContext<'_>, gate: Chunk<'_>, stub: CodeAddr) -> bool {
    let mut code = DecodedCode::new();
    let decoded = (isa(site.arch).decode)(gate.addr.get(), gate.bytes, &mut code);
    decoded.is_ok()
        && code.split_last().is_some_and(|(jump, before)| {
            let goes = jump.flow == Flow::Jump(Dest::Address(stub.get()));
            let changes = !jump.writes.is_empty() || jump.flags || jump.is_closed() || jump.refused.is_some();
            // protection: gates-do-nothing-but-jump
            goes && !changes && before.iter().all(|facts| facts.nop)
        })
}

/// Whether a set has a number; it has none above 31.
#[inline]
fn is_in(set: u32, number: usize) -> bool {
    set.checked_shr(number as u32).is_some_and(|set| set & 1 != 0)
}

/// The gate of a live site, checked once: what is before the patchable jump, and the jump. It may be
/// written again with another target, at sites at which the jump lies alike. What comes after it in the
/// stub can be checked without it: see [`check_stub`](super::check_stub).
#[derive(Clone, Debug)]
pub struct GateTemplate {
    /// The site up to the end of the jump.
    code: Template,
    /// The offset of the jump.
    at: usize,
    /// Where the jump has to lie.
    place: ExchangePlace,
    /// What may be exchanged for this gate: another that jumps, by `None`.
    before: SmallVec<[Option<Box<[u8]>>; 2]>,
    /// What may be rewritten as this gate behind a trap, in the same way.
    rewritten: SmallVec<[Option<Box<[u8]>>; 2]>,
}

impl GateTemplate {
    /// The template of a site that [`check`](super::check) has just accepted, which holds nops, at
    /// offset `at` a jump to a stub of the site's, and nops. `None` where there is none.
    pub fn of(
        site: &SiteContext<'_>,
        code: &[u8],
        (at, end): (usize, usize),
        stub: CodeAddr,
    ) -> Option<Self> {
        let gate = Chunk {
            addr: site.addr,
            bytes: code.get(..end)?,
        };
        if !only_jumps(site, gate, stub) {
            return None;
        }
        let code = Template::of_code(site, gate, &Declared::default(), &|to| to == stub.get())?;
        let is_jump = code.lone_branch().is_some_and(|jump| jump.field.at >= at);
        is_jump.then_some(Self {
            code,
            at,
            place: isa(site.arch).exchange_place,
            before: SmallVec::new(),
            rewritten: SmallVec::new(),
        })
    }

    /// Whether a site that holds `old` may be made `new`, in which the jump goes to a stub, while
    /// threads execute it: by [`check`](super::check) as far as the gate, and by
    /// [`check_exchange`]. `false` also where that is not known yet: see [`note`](Self::note).
    #[inline]
    #[must_use]
    pub fn admits(&self, site: CodeRange, stub: CodeAddr, (old, new): (&[u8], &[u8])) -> bool {
        let end = self.code.code.len();
        let (Some(old_gate), Some(new_gate)) = (old.get(..end), new.get(..end)) else {
            return false;
        };
        let from = site.start().get().wrapping_add(self.at as u64);
        let last = from.wrapping_add((end - self.at) as u64 - 1);
        // protection: gates-are-one-store
        let is_one_store = self.place.has(from) && from / 8 == last / 8;
        // protection: nothing-behind-a-gate-changes
        let is_alike = old.get(end..) == new.get(end..);
        is_alike
            && is_one_store
            && self.goes_to(site, stub, new_gate)
            && self.is_among(&self.before, old_gate)
    }

    /// Whether a site that holds `code` does nothing but go to a stub: then it and a stub that passes
    /// [`check_stub`](super::check_stub) would pass [`check`](super::check).
    #[inline]
    #[must_use]
    pub fn goes_to(&self, site: CodeRange, stub: CodeAddr, code: &[u8]) -> bool {
        let (gate, jump) = (code.get(..self.code.code.len()), self.code.lone_branch());
        let both = gate.zip(jump);
        both.is_some_and(|(gate, jump)| jump.admits(Place::Site(site), gate, stub))
    }

    /// Whether a site that holds `old` may be rewritten as `new`, in which the jump goes to a stub,
    /// behind a trap at its start: by [`check`](super::check) as far as the gate, by
    /// [`check_rewrite`], and by [`check_trap`] of both. `false` also where that is not known yet: see
    /// [`note_rewrite`](Self::note_rewrite).
    #[inline]
    #[must_use]
    pub fn admits_rewrite(&self, site: CodeRange, stub: CodeAddr, (old, new): (&[u8], &[u8])) -> bool {
        let end = self.code.code.len();
        let (Some(old_gate), Some(new_gate)) = (old.get(..end), new.get(..end)) else {
            return false;
        };
        // protection: rewriting-ends-with-the-gate
        old.get(end..) == new.get(end..)
            && self.goes_to(site, stub, new_gate)
            && self.is_among(&self.rewritten, old_gate)
    }

    /// Whether this gate differs from the one that was checked by the distance of its jump only.
    #[inline]
    fn is_jump(&self, gate: &[u8]) -> bool {
        self.code.is_like(gate)
    }

    /// Whether what is in this gate is among what was noted.
    #[inline]
    fn is_among(&self, noted: &[Option<Box<[u8]>>], old: &[u8]) -> bool {
        // The last first: what a site held before it got its first jump was noted before.
        noted.iter().rev().any(|noted| match noted {
            None => self.is_jump(old),
            Some(bytes) => *old == **bytes,
        })
    }

    /// What is to be noted of a gate: its bytes, or that it is a jump.
    fn noted(&self, gate: &[u8]) -> Option<Box<[u8]>> {
        (!self.is_jump(gate)).then(|| gate.into())
    }

    /// Notes that a site that holds `old` can be made `new` by [`check_exchange`], which is asked: so
    /// can others whose gates are alike.
    ///
    /// # Errors
    /// As [`check_exchange`].
    pub fn note(&mut self, site: &SiteContext<'_>, old: &[u8], new: &[u8]) -> super::Result<()> {
        // protection: exchanges-are-checked-before-they-are-noted
        check_exchange(site, old, new)?;
        let end = self.code.code.len();
        if let (Some(old_gate), Some(new_gate)) = (old.get(..end), new.get(..end)) {
            let is_new = old != new && !self.is_among(&self.before, old_gate);
            // protection: what-is-allowed-of-jumps-is-noted-of-jumps
            let holds_at_others = !self.place.jumps_only || self.is_jump(old_gate);
            if is_new && holds_at_others && self.is_jump(new_gate) {
                self.before.push(self.noted(old_gate));
            }
        }
        Ok(())
    }

    /// Notes that a site that holds `old` can be rewritten as `new` behind a trap by [`check_rewrite`],
    /// and both begin with a trap meanwhile by [`check_trap`], which are asked: so can others whose
    /// gates are alike.
    ///
    /// Of all that these look at, only the distance of the jump is another at another site: a trap is as
    /// long as instructions are aligned, so that it is one store wherever one begins. The distance
    /// matters where the rewriting is allowed because the old jump goes past what changes; that is not
    /// noted. Noted is where one instruction is as long as the gate: then nothing but that changes.
    ///
    /// # Errors
    /// As these.
    pub fn note_rewrite(&mut self, site: &SiteContext<'_>, old: &[u8], new: &[u8]) -> super::Result<()> {
        // protection: rewritings-are-checked-before-they-are-noted
        check_rewrite(site, old, new)?;
        let trap = isa(site.arch).trap;
        for bytes in [old, new] {
            // What is shorter is refused, as it is not equally long.
            let behind = bytes.get(trap.len()..).unwrap_or(&[]);
            check_trap(site, bytes, &[trap, behind].concat())?;
        }
        let end = self.code.code.len();
        let first = first_of(site, old).map(|first| usize::from(first.len));
        // protection: noted-rewritings-are-of-one-instruction
        let is_one = self.at == 0 && first.is_some_and(|first| first >= end);
        if let (Some(old_gate), Some(new_gate)) = (old.get(..end), new.get(..end)) {
            let is_new = is_one && !self.is_among(&self.rewritten, old_gate);
            // protection: noted-rewritings-are-to-jumps
            if is_new && self.is_jump(new_gate) {
                self.rewritten.push(self.noted(old_gate));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
