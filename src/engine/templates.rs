//! Templates: sequences that were assembled and checked once for a kind of site, and are filled
//! with other values.
//!
//! Problem: most patches put a sequence into a site that has been put before, with another class or
//! field, into a site that is like this one; assembling and checking it anew is most of what such a
//! patch takes. Approach: what a sequence is without its values ([`Outline`]), and what a site is
//! without its address, together name a template. The second such patch makes it: it assembles the
//! sequence; the encoder says which bits hold what of which value ([`Hole`]), and where the checker
//! leaves these bits open, worth the same, the code is kept as a template. From then on a patch
//! fills the holes, and the checker [admits](verify::Template::admits) the result, value by value,
//! before it is written. That it reads what is asked for needs no table of the encoder's: the parts
//! that it finds of a value add up to that, but for a difference that is the same as in the code of
//! which the template was made.
//!
//! A live site has its sequence in a stub, which is filled in the same way: its template has a hole
//! more, the distance to the end of the site. The site itself gets a jump there, which is checked
//! once for each kind of site, too: see [`GateTemplate`].
//!
//! Invariants: a template is filled only for sites whose record, shape and conventions are those
//! for which its code was checked, word by word, and that have the same return offsets to keep; a way
//! to an exit stub was checked for any site of as many bytes. Each
//! value that may vary has a hole, and each open field is a hole; a sequence for which that does
//! not hold is assembled each time. What cannot be filled (a value for which the instructions are
//! others, a target out of reach, or so near that a branch there is short) is assembled, too; what
//! was filled and is not admitted is an error. The memory is bounded: at most [`SEQUENCES`] sequences are known,
//! at as many kinds of sites as [`kinds`] tells apart.

mod kinds;

use core::cell::Cell;
use core::hash::BuildHasher;
use std::collections::{HashMap, HashSet};
#[cfg(test)]
use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use self::kinds::SiteKinds;
use super::lower::AllAhead;
use crate::Result;
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::{Declared, OnReturn, SiteContext};
use crate::latency::{self, Stage};
use crate::memory::short::{self, Bytes};
use crate::sequence::{
    self, Alike, Assembled, ByteOrder, Class, Environment, Holds, Hole, Holes, Outline, Sequence, Target,
};
use crate::site::Site;
use crate::verify::{self, Chunk, Content, GateTemplate, OpenField, Place};
use patchpoint_asm::live::PatchableJump;

/// How many sequences are known; one more, and all are forgotten.
const SEQUENCES: usize = 1024;

/// What is known.
#[derive(Default)]
pub(super) struct Templates {
    /// The kinds of sites.
    pub(super) kinds: SiteKinds,
    /// Of each kind, what is known of sequences.
    known: Vec<KnownSequences>,
    /// Of each kind, its gate, where its sites are live and one was closed.
    gates: Vec<Option<GateTemplate>>,
    templates: Vec<Template>,
    /// What was lowered for changes that are being prepared.
    pub(super) ahead: AllAhead,
    /// How many sequences are known.
    len: usize,
    /// How often one was filled.
    #[cfg(test)]
    filled: Arc<AtomicUsize>,
}

/// What is known of sequences at a kind of site.
#[derive(Default)]
struct KnownSequences {
    /// Those that were assembled once, by a hash of the words of their outlines. To make a template then
    /// would be a third of a patch that may be the only one: 1.1 us of 3.0. Another outline with the same
    /// hash would cost that time, and nothing else. With the words instead, to note one takes twice as
    /// long: 600 of a patch's 16,700 instructions.
    noted: HashSet<u64, RandomState>,
    /// Those that were assembled again, by the words of their outlines.
    of: HashMap<Box<[u64]>, KnownSequence, RandomState>,
    /// The numbers of the two templates that were looked for last: those of most sites which are patched
    /// for the first time, and of caches that were empty. To look for one takes 60 to 130 instructions.
    last: Cell<[u32; 2]>,
}

/// What is known of a sequence at a kind of site.
enum KnownSequence {
    /// It has to be assembled each time.
    Varies,
    /// Its template has this number.
    Template(u32),
}

/// Code with holes: of a site, or of a live site's stub.
#[derive(Clone)]
pub(super) struct Template {
    /// The kind of sites for which it was assembled.
    kind: u32,
    /// The checker's view of it, in which the holes are open.
    checked: verify::Template,
    /// The sequence of which it was made.
    sequence: Sequence,
    /// The holes, in the order of the checker's fields, and what is in each.
    holes: SmallVec<[(Hole, FilledFrom); 4]>,
    /// What has to be the same of values, and is of those of which the template was made.
    alike: SmallVec<[(Alike, Class); 2]>,
    /// Whether the holes are whole words, for which nothing has to be alike: on x86-64.
    are_whole: bool,
    /// Offsets to which calls of the code return; a stub's are not asked for.
    pub(super) returns: Vec<u32>,
    /// The length of the code without nops.
    pub(super) used: Len,
    /// Whether something may return into it that it has called.
    pub(super) calls: bool,
    /// That of all templates, and what damages it when it is filled: a test of what finds that.
    #[cfg(test)]
    filled: Arc<AtomicUsize>,
    #[cfg(test)]
    damage: Cell<Option<Damage>>,
}

/// What damages code.
#[cfg(test)]
type Damage = fn(&mut [u8]);

/// What a hole is filled from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilledFrom {
    /// The value of that number, or its opposite, from which the checker's reading of it differs by
    /// as much as here.
    Value { number: usize, opposite: bool, differs: u64 },
    /// More of the same.
    More { number: usize },
    /// The distance to the target of that number.
    Target(usize),
    /// The distance from a stub to the end of its site.
    End,
}

/// What the holes of a template have to hold, in their order.
type Contents = SmallVec<[Content; 6]>;

/// Whether no two targets have the same address, and none that of the site's end: contracts of one
/// would then bind the other.
#[inline]
fn are_apart(targets: &[Target], environment: &Environment, end: CodeAddr) -> bool {
    match targets {
        [] => true,
        [one] => environment.address(*one) != Some(end),
        [others @ .., last] => {
            let last = environment.address(*last);
            let same = |other: &Target| environment.address(*other) == last;
            last != Some(end) && !others.iter().any(same) && are_apart(others, environment, end)
        }
    }
}

impl Templates {
    /// The gate of sites of that kind, once one of them was closed.
    #[inline]
    pub(super) fn gate(&self, kind: u32) -> Option<&GateTemplate> {
        self.gates.get(kind as usize)?.as_ref()
    }

    /// Keeps the gate of a site of that kind, whose bytes `code` were checked, and in which `jump` goes
    /// to `to`.
    pub(super) fn keep_gate(
        &mut self,
        kind: u32,
        site: &Site,
        code: &[u8],
        (jump, to): (PatchableJump, CodeAddr),
    ) {
        self.gates.resize_with(self.kinds.len(), || None);
        if let Some(gate) = self.gates.get_mut(kind as usize).filter(|gate| gate.is_none()) {
            let jump = (jump.offset.as_usize(), jump.end().as_usize());
            *gate = GateTemplate::of(&site.context(&[]), code, jump, to);
        }
    }

    /// Checks that a site of that kind may be made `new` by exchanging its patchable jump, and
    /// notes it for others.
    pub(super) fn check_exchange(
        &mut self,
        kind: Option<u32>,
        site: &Site,
        (old, new): (&[u8], &[u8]),
    ) -> Result<()> {
        let gate = kind.and_then(|kind| self.gates.get_mut(kind as usize)?.as_mut());
        let context = site.context(&[]);
        Ok(match gate {
            Some(gate) => gate.note(&context, old, new),
            None => verify::check_exchange(&context, old, new),
        }?)
    }

    /// Notes that sites of that kind may be rewritten behind a trap as this one was checked to be.
    pub(super) fn note_rewrite(
        &mut self,
        kind: Option<u32>,
        site: &Site,
        (old, new): (&[u8], &[u8]),
    ) -> Result<()> {
        match kind.and_then(|kind| self.gates.get_mut(kind as usize)?.as_mut()) {
            Some(gate) => Ok(gate.note_rewrite(&site.context(&[]), old, new)?),
            None => Ok(()),
        }
    }

    #[inline(never)]
    fn find(&self, (kind, outline): (u32, &Outline), last: &Cell<u32>) -> Option<&Template> {
        let known = self.known.get(kind as usize)?;
        for number in known.last.get() {
            if let Some(template) = self.guess((kind, outline), number) {
                last.set(number);
                return Some(template);
            }
        }
        let KnownSequence::Template(number) = *known.of.get(outline.words())? else {
            return None;
        };
        last.set(number);
        let [before, _] = known.last.get();
        known.last.set([number, before]);
        self.templates.get(number as usize)
    }

    /// The template of that number, if it is of that sequence at sites of that kind.
    #[inline]
    fn guess(&self, (kind, outline): (u32, &Outline), number: u32) -> Option<&Template> {
        let guess = self.templates.get(number as usize);
        guess.filter(|template| {
            // protection: guessed-templates-are-looked-at
            template.kind == kind && template.sequence.outline().words() == outline.words()
        })
    }

    /// The template of a sequence at sites of that kind. `last` is of the site: it is often the one
    /// with that number.
    #[inline]
    pub(super) fn template(&self, (kind, outline): (u32, &Outline), last: &Cell<u32>) -> Option<&Template> {
        let guess = self.guess((kind, outline), last.get());
        guess.or_else(|| self.find((kind, outline), last))
    }

    /// Damages what is filled: a test of what finds it.
    #[cfg(all(test, target_arch = "x86_64"))]
    pub(super) fn set_damage(&self, damage: Option<Damage>) {
        self.templates
            .iter()
            .for_each(|template| template.damage.set(damage));
    }

    /// Notes that a sequence is assembled. Whether its code is to be [kept](Self::keep) as a
    /// template: the second time.
    pub(super) fn note(&mut self, kind: u32, outline: &Outline) -> bool {
        let words = outline.words();
        self.known.resize_with(self.kinds.len(), KnownSequences::default);
        let Some(known) = self.known.get_mut(kind as usize) else {
            return false;
        };
        let hash = known.of.hasher().hash_one(words);
        if !known.noted.insert(hash) {
            return !known.of.contains_key(words);
        }
        if self.len == SEQUENCES {
            self.forget();
            // With the others: it is the first of those that are known from now on.
            return self.note(kind, outline);
        }
        self.len += 1;
        false
    }

    /// Forgets all sequences.
    #[cold]
    fn forget(&mut self) {
        self.len = 0;
        for known in &mut self.known {
            // protection: what-is-forgotten-takes-no-room
            known.noted.clear();
            // protection: what-is-forgotten-has-no-template
            known.of.clear();
        }
        self.templates.clear();
    }

    /// Keeps code that was assembled with its holes, and checked, as a template if it can be one.
    pub(super) fn keep(
        &mut self,
        (kind, sequence): (u32, &Sequence),
        (site, context): (&Site, &SiteContext<'_>),
        environment: &Environment,
        assembled: &Assembled,
    ) {
        let Some(holes) = assembled.holes.as_deref() else {
            return;
        };
        // Where a branch is short, the sequence may have a template at another site.
        // protection: short-branches-are-in-no-template
        if has_other_branches(sequence, holes) || !self.kinds.admits(kind, context, assembled) {
            return;
        }
        let checked = verify::Template::of(context, &assembled.code, &assembled.declared);
        self.keep_code(
            (kind, sequence),
            (site, environment),
            checked,
            &LaidOut {
                code: &assembled.code,
                holes,
                declared: &assembled.declared,
                returns: &assembled.return_offsets,
                used: assembled.used,
            },
        );
    }

    /// The same for a stub.
    pub(super) fn keep_stub(
        &mut self,
        (kind, sequence): (u32, &Sequence),
        site: &Site,
        environment: &Environment,
        (stub, holes, declared): (Chunk<'_>, &Holes, &Declared),
    ) {
        let checked = verify::Template::of_stub(&site.context(&[]), stub, declared);
        self.keep_code(
            (kind, sequence),
            (site, environment),
            checked,
            &LaidOut {
                code: stub.bytes,
                holes,
                declared,
                returns: &[],
                used: Len::default(),
            },
        );
    }

    fn keep_code(
        &mut self,
        (kind, sequence): (u32, &Sequence),
        (site, environment): (&Site, &Environment),
        checked: Option<verify::Template>,
        laid_out: &LaidOut<'_>,
    ) {
        let words = sequence.outline().words();
        // It may have been forgotten since.
        let is_noted = |known: &&mut KnownSequences| known.noted.contains(&known.of.hasher().hash_one(words));
        let Some(known) = self.known.get_mut(kind as usize).filter(is_noted) else {
            return;
        };
        let are_apart = are_apart(sequence.outline().targets(), environment, site.end());
        let checked = checked.filter(|_| are_apart);
        let found = match checked.and_then(|checked| Template::of((kind, sequence), checked, laid_out)) {
            Some(template) => {
                #[cfg(test)]
                let template = Template {
                    filled: Arc::clone(&self.filled),
                    ..template
                };
                self.templates.push(template);
                KnownSequence::Template(self.templates.len() as u32 - 1)
            }
            None => KnownSequence::Varies,
        };
        known.of.insert(words.into(), found);
    }

    /// How many sequences were filled in.
    #[cfg(all(test, target_arch = "x86_64"))]
    pub(super) fn filled(&self) -> usize {
        self.filled.load(Ordering::Relaxed)
    }

    /// How many templates there are.
    #[cfg(all(test, target_arch = "x86_64"))]
    pub(super) fn made(&self) -> usize {
        self.templates.len()
    }

    /// How many sequences are known: what is kept of them, not what was counted.
    #[cfg(all(test, target_arch = "x86_64"))]
    pub(super) fn len(&self) -> usize {
        self.known.iter().map(|known| known.noted.len()).sum()
    }
}

/// Code that was assembled with its holes, and checked.
struct LaidOut<'a> {
    code: &'a [u8],
    holes: &'a Holes,
    declared: &'a Declared,
    returns: &'a [u32],
    used: Len,
}

impl Template {
    /// Keeps those fields open that the encoder says are holes. `None` if the checker closes one of
    /// them, or a value that may vary has none.
    fn of(
        (kind, sequence): (u32, &Sequence),
        mut checked: verify::Template,
        laid_out: &LaidOut<'_>,
    ) -> Option<Self> {
        let outline = sequence.outline();
        let varies = |hole: &&Hole| match hole.holds {
            Holds::Value(number) => !is_alone(number, outline, &laid_out.holes.alike),
            Holds::Target(_) | Holds::End => true,
        };
        let hole_of = |field: &OpenField| {
            let all = laid_out.holes.holes.iter().filter(varies);
            all.copied().find(|hole| is_same(hole, field))
        };
        checked.keep(laid_out.code, |field| hole_of(field).is_some());
        let mut holes = SmallVec::<[(Hole, FilledFrom); 4]>::new();
        for (at, field) in checked.fields().iter().enumerate() {
            let (hole, read) = (hole_of(field)?, field.read(laid_out.code)?);
            // The encoder and the checker agree on which of them is the end.
            if (hole.holds == Holds::End) != checked.is_to_end(at) {
                return None;
            }
            let source = match hole.holds {
                Holds::Target(number) => FilledFrom::Target(number as usize),
                Holds::End => FilledFrom::End,
                Holds::Value(number) if hole.goes_on => {
                    // Only the fields together are the value.
                    let mut before = holes.iter_mut().rev().map(|(_, source)| source);
                    match before.find(|source| matches!(source, FilledFrom::Value { .. }))? {
                        FilledFrom::Value { differs, .. } => *differs = differs.wrapping_add(read),
                        _ => return None,
                    }
                    FilledFrom::More {
                        number: number as usize,
                    }
                }
                Holds::Value(number) => {
                    let value = *outline.values().get(number as usize)?;
                    let opposite = hole.part.negated != field.negated;
                    FilledFrom::Value {
                        number: number as usize,
                        opposite,
                        differs: read.wrapping_sub(signed(value, opposite)),
                    }
                }
            };
            holes.push((hole, source));
        }
        let has = |holds: Holds| holes.iter().any(|(hole, _)| hole.holds == holds);
        let mut values = outline.values().iter().enumerate();
        let mut targets = 0..outline.targets().len();
        // protection: each-value-has-a-hole
        let is_whole = values.all(|(number, _)| {
            let number = number as u32;
            is_alone(number, outline, &laid_out.holes.alike) || has(Holds::Value(number))
        }) && targets.all(|number| has(Holds::Target(number as u32)));
        // protection: each-hole-is-open
        let is_whole = is_whole && laid_out.holes.holes.iter().filter(varies).count() == holes.len();
        let class = |alike: &Alike| {
            let value = outline.values().get(alike.number as usize)?;
            Some((*alike, alike.class(*value)))
        };
        let alike: Option<_> = laid_out.holes.alike.iter().map(class).collect();
        let alike: SmallVec<_> = alike.filter(|_| is_whole)?;
        let are_whole = alike.is_empty() && holes.iter().all(|(hole, _)| hole.is_whole());
        Some(Self {
            kind,
            holes,
            alike,
            are_whole,
            checked,
            sequence: sequence.clone(),
            returns: laid_out.returns.into(),
            used: laid_out.used,
            // protection: stub-of-a-template-calls
            calls: laid_out
                .declared
                .targets
                .iter()
                .any(|t| t.on_return != OnReturn::Never),
            #[cfg(test)]
            filled: Arc::default(),
            #[cfg(test)]
            damage: Cell::new(None),
        })
    }

    /// The code, with zeros in its holes.
    pub(super) fn code(&self) -> &[u8] {
        self.checked.code()
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> Len {
        Len::of(self.checked.code()).expect("checked code is as long as a site or a stub is")
    }

    /// Makes the code of a sequence for that place of a site, and says whether the checker admits it.
    /// `None` if a hole cannot have what it should, or targets are not apart.
    #[inline(always)] // Of each kind of place apart: else a patch in place takes a hundred instructions more.
    pub(super) fn fill(
        &self,
        place: Place,
        outline: &Outline,
        environment: &Environment,
        code: &mut Bytes,
    ) -> Option<bool> {
        short::become_of(code, self.checked.code());
        // Once: whoever asks a list where its bytes are reads what may just have been put there.
        let code: &mut [u8] = code;
        let (targets, end) = (outline.targets(), place.site().end());
        let is_alone = targets.len() <= 1 && matches!(place, Place::Site(_));
        if !is_alone && !are_apart(targets, environment, end) {
            return None;
        }
        let mut contents = Contents::new();
        self.put(place, outline, environment, code, &mut contents)?;
        #[cfg(test)]
        self.damage(code);
        let _stage = latency::enter(Stage::Verify);
        Some(self.checked.admits(place, code, &contents))
    }

    /// Fills the holes, and says what each has to hold.
    #[inline(always)] // As `fill`.
    fn put(
        &self,
        place: Place,
        outline: &Outline,
        environment: &Environment,
        code: &mut [u8],
        contents: &mut Contents,
    ) -> Option<()> {
        match self.are_whole {
            true => {
                let put = |hole: &Hole, value, code: &mut [u8]| hole.put_whole(value, code);
                self.put_into(place, outline, environment, (code, contents), put)
            }
            false => self.put_bits(place, outline, environment, code, contents),
        }
    }

    /// Fills the holes with values that are alike, and says what each has to hold.
    // A function of its own: what puts bits is called, and the loop over whole words then keeps nothing
    // in registers.
    #[inline(never)]
    fn put_bits(
        &self,
        place: Place,
        outline: &Outline,
        environment: &Environment,
        code: &mut [u8],
        contents: &mut Contents,
    ) -> Option<()> {
        for (alike, class) in &self.alike {
            // protection: values-that-are-encoded-otherwise-are-refused
            if alike.class(*outline.values().get(alike.number as usize)?) != *class {
                return None;
            }
        }
        self.put_into(place, outline, environment, (code, contents), Hole::put)
    }

    #[inline(always)] // For each way to put apart.
    fn put_into(
        &self,
        place: Place,
        outline: &Outline,
        environment: &Environment,
        (code, contents): (&mut [u8], &mut Contents),
        put: impl Fn(&Hole, u64, &mut [u8]) -> Option<()>,
    ) -> Option<()> {
        let (values, targets) = (outline.values(), outline.targets());
        for (hole, source) in &self.holes {
            let (number, content) = match *source {
                FilledFrom::Value {
                    number,
                    opposite,
                    differs,
                } => {
                    let value = *values.get(number)?;
                    let content = signed(value, opposite).wrapping_add(differs);
                    (value, Content::Value(content))
                }
                FilledFrom::More { number } => (*values.get(number)?, Content::More),
                FilledFrom::Target(number) => {
                    let to = environment.address(*targets.get(number)?)?;
                    (distance(hole, place, to)?, Content::Target(to))
                }
                FilledFrom::End => {
                    let to = place.site().end();
                    (distance(hole, place, to)?, Content::Target(to))
                }
            };
            put(hole, number, code)?;
            contents.push(content);
        }
        Some(())
    }

    /// The same with the values that code has which was made of it: what is left to be filled in is where
    /// it branches to.
    pub(super) fn with_values_of(&self, code: &[u8]) -> Self {
        let mut template = self.clone();
        // protection: values-of-a-batch-are-the-sites
        template.checked.keep(code, |_| false);
        let is_distance = |source: &FilledFrom| matches!(source, FilledFrom::Target(_) | FilledFrom::End);
        template.holes.retain(|(_, source)| is_distance(source));
        template.alike.clear();
        template.are_whole = template.holes.iter().all(|(hole, _)| hole.is_whole());
        template
    }

    /// The branch, if that is all that is filled in: of a way to an exit stub, or of code that has its values.
    pub(super) fn lone_branch(&self) -> Option<LoneBranch<'_>> {
        let [(hole, FilledFrom::Target(_))] = &*self.holes else {
            return None;
        };
        let (template, checked) = (self, self.checked.lone_branch()?);
        Some(LoneBranch {
            template,
            hole,
            checked,
        })
    }

    #[cfg(test)]
    fn damage(&self, code: &mut [u8]) {
        self.filled.fetch_add(1, Ordering::Relaxed);
        if let Some(damage) = self.damage.get() {
            damage(code);
        }
    }
}

/// Code that is filled with nothing but where it branches to. As any other sequence, that takes a hundred
/// instructions more of each site of a batch.
pub(super) struct LoneBranch<'t> {
    template: &'t Template,
    hole: &'t Hole,
    checked: verify::LoneBranch<'t>,
}

impl LoneBranch<'_> {
    /// Makes copies of the template's code, side by side, what sites are to hold; of each there is its site, and
    /// where that is to branch. Returns how many were made before one whose branch would not reach.
    #[inline]
    pub(super) fn fill_in(
        &self,
        copies: &mut [u8],
        places: impl Iterator<Item = (CodeRange, CodeAddr)>,
    ) -> usize {
        let (hole, are_whole) = (self.hole, self.template.are_whole);
        let copies = copies.chunks_exact_mut(self.template.code().len());
        let filled = copies.zip(places).map_while(|(code, (site, to))| {
            let distance = distance(hole, Place::Site(site), to)?;
            match are_whole {
                true => hole.put_whole(distance, code)?,
                false => hole.put(distance, code)?,
            }
            #[cfg(test)]
            self.template.damage(code);
            Some(())
        });
        filled.count()
    }

    /// The number of the first that the checker does not admit of what was filled in, which lies side by side:
    /// of sites, and where each is to branch. All are filled before the first is checked, which would wait for
    /// what was just written: a twentieth of an invalidation.
    #[inline]
    pub(super) fn first_refused(
        &self,
        filled: &[u8],
        places: impl Iterator<Item = (CodeRange, CodeAddr)>,
    ) -> Option<usize> {
        let _stage = latency::enter(Stage::Verify);
        self.checked.first_refused(filled, places)
    }
}

/// The distance of a branch that goes to an address. `None` where the assembler takes another
/// instruction for what is nearer or farther.
#[inline]
fn distance(hole: &Hole, place: Place, to: CodeAddr) -> Option<u64> {
    let from = place.at().get().wrapping_add(u64::from(hole.reach.from));
    let distance = to.get().wrapping_sub(from);
    // protection: distances-of-other-instructions-are-refused
    hole.reach.contains(distance as i64).then_some(distance)
}

/// Whether a branch that leaves the site is in a form whose distance is no hole. At other sites it
/// may be in another.
fn has_other_branches(sequence: &Sequence, holes: &Holes) -> bool {
    let has = |number| {
        let holds = Holds::Target(number);
        holes.holes.iter().any(|hole| hole.holds == holds)
    };
    !(0..sequence.outline().targets().len() as u32).all(has)
}

/// Whether a value is the same in all sequences for which a template is filled: alone in its class,
/// or in that of one of its uses.
fn is_alone(number: u32, outline: &Outline, alike: &[Alike]) -> bool {
    let Some(value) = outline.values().get(number as usize) else {
        return false;
    };
    let mut of_value = alike.iter().filter(|alike| alike.number == number);
    sequence::is_single(sequence::class(*value))
        || of_value.any(|alike| matches!(alike.class(*value), Class::Only(_)))
}

/// A value, or its opposite.
fn signed(value: u64, opposite: bool) -> u64 {
    if opposite { value.wrapping_neg() } else { value }
}

/// Whether the encoder and the checker mean the same bits, worth the same.
fn is_same(hole: &Hole, field: &OpenField) -> bool {
    let order = match field.big_endian {
        true => ByteOrder::Big,
        false => ByteOrder::Little,
    };
    (hole.at as usize, hole.field.len as usize, hole.field.order) == (field.at, field.len, order)
        && hole.field.mask() == field.mask()
        && hole.lowest() == field.lowest()
        && matches!(hole.holds, Holds::Target(_) | Holds::End) == field.counts_from.is_some()
}

#[cfg(test)]
mod arch_tests;
