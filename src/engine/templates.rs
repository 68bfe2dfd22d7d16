//! Sequences that were assembled and checked before, to be filled in with other values.
//!
//! Problem: most patches put a sequence of a kind that was put before, with another class or field, into a site that is like
//! another; assembling and checking it anew is most of what such a patch takes. Approach: what a sequence is without its
//! values ([`Outline`]), and what a site is without its address, together name a template. The first such patch is only
//! noted; the second learns: it assembles the sequence once more with other values of the same classes, and finds by
//! the difference which value is in which field that the checker leaves open. From then on a patch fills these
//! fields, and the checker [admits](Template::admits) the result, field by field, before it is written.
//!
//! Invariants: a template is filled only for sites whose record, shape and conventions are those for which its code was
//! checked, word by word, and that have no landings to keep. Each value that may vary has a field, each open field a
//! value or a target; a sequence for which that cannot be found out is assembled each time. What cannot be filled
//! (a value that its field does not hold, a target out of reach, or so near that a branch there is short) is assembled,
//! too; what was filled and is not admitted is an error. The memory is bounded: at most [`SITES`] kinds of sites and
//! [`SEQUENCES`] sequences are known.

use core::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use smallvec::SmallVec;

use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::{SiteContext, SiteKind};
use crate::error::{Result, SiteName};
use crate::latency::{self, Stage};
use crate::memory::short::{self, Bytes};
use crate::sequence::{self, Assembled, Environment, Fit, Outline, Sequence, Target};
use crate::site::Site;
use crate::stackmap::{Constants, Location, Place};
use crate::verify::{self, Content, Field, Template};

/// How many kinds of sites are told apart; sites of further kinds are assembled for each time.
const SITES: usize = 4096;
/// How many sequences are known; one more, and all are forgotten.
const SEQUENCES: usize = 1024;

/// What is known.
#[derive(Default)]
pub(super) struct Templates {
    /// The kinds of sites, by their words.
    sites: HashMap<Box<[u64]>, u32>,
    /// Of each kind, what is known of sequences, by the words of their outlines.
    known: Vec<HashMap<Box<[u64]>, Known, BuildHasherDefault<WordHasher>>>,
    learnt: Vec<Learnt>,
    /// How many sequences are known.
    len: usize,
    /// Damages what was filled: a test of what finds it.
    #[cfg(test)]
    pub(super) damage: Option<fn(&mut [u8])>,
    #[cfg(test)]
    filled: Cell<usize>,
}

/// What is known of a sequence at a kind of site.
enum Known {
    /// It was assembled once.
    Noted,
    /// It has to be assembled each time.
    Varies,
    /// It has this number.
    Learnt(u32),
}

/// Code that can be filled.
struct Learnt {
    /// The kind of sites for which it was assembled.
    kind: u32,
    template: Template,
    /// The sequence of which it was learnt.
    sequence: Sequence,
    /// What is in each open field.
    sources: SmallVec<[From; 4]>,
    /// Offsets to which calls of the code return.
    returns: Vec<u32>,
    /// The length of the code without nops.
    used: Len,
}

/// What an open field is filled from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// The value of that number.
    Value { number: usize, signed: bool },
    /// The distance to the target of that number.
    Target(usize),
}

/// Code that was filled and admitted.
pub(super) struct Filled<'t> {
    /// A sequence of the same outline but for the values and targets.
    pub(super) like: &'t Sequence,
    pub(super) returns: &'t [u32],
    pub(super) used: Len,
}

/// Mixes words, one after the other. They are of sequences, of whose values they have classes only: whoever chooses
/// them could fill one bucket with a thousand, and no more.
#[derive(Default)]
pub(super) struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        let chunks = bytes.chunks_exact(8);
        let rest = chunks.remainder();
        for chunk in chunks.filter_map(<[u8]>::first_chunk) {
            self.write_u64(u64::from_le_bytes(*chunk));
        }
        rest.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, word: u64) {
        let product = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Whether no two targets have the same address: contracts of one would then bind the other.
#[inline]
fn are_apart(targets: &[Target], environment: &Environment) -> bool {
    targets.split_last().is_none_or(|(last, others)| {
        let same = |other: &Target| environment.address(*other) == environment.address(*last);
        !others.iter().any(same) && are_apart(others, environment)
    })
}

impl Templates {
    /// The number of a kind of site, if it is known or can be.
    pub(super) fn site(&mut self, site: &SiteContext<'_>) -> Option<u32> {
        let words = words(site);
        if let Some(number) = self.sites.get(&*words) {
            return Some(*number);
        }
        let number = u32::try_from(self.sites.len()).ok();
        let number = number.filter(|number| (*number as usize) < SITES)?;
        self.sites.insert(words.into(), number);
        self.known.push(HashMap::default());
        Some(number)
    }

    /// What has been learnt of a sequence at a kind of site. It is often that of which the number was `last`.
    #[inline]
    fn learnt(&self, (kind, outline): (u32, &Outline), last: &Cell<u32>) -> Option<&Learnt> {
        let guess = self.learnt.get(last.get() as usize);
        let is_it =
            |learnt: &&Learnt| learnt.kind == kind && learnt.sequence.outline().words() == outline.words();
        // protection: guessed-templates-are-looked-at
        guess.filter(is_it).or_else(|| self.find((kind, outline), last))
    }

    #[inline(never)]
    fn find(&self, (kind, outline): (u32, &Outline), last: &Cell<u32>) -> Option<&Learnt> {
        let known = self.known.get(kind as usize)?.get(outline.words())?;
        let Known::Learnt(number) = *known else {
            return None;
        };
        last.set(number);
        self.learnt.get(number as usize)
    }

    /// Makes the code of a sequence at `range`, a site of that kind, if it has been learnt and can be filled. `last` is of the
    /// site.
    ///
    /// # Errors
    /// [`verify::Error::Filled`]: what was filled is not what was asked for. `name` names the site then.
    #[inline]
    pub(super) fn fill(
        &self,
        (kind, outline, last): (u32, &Outline, &Cell<u32>),
        range: CodeRange,
        environment: &Environment,
        into: &mut Bytes,
        name: impl Fn() -> Box<SiteName>,
    ) -> Result<Option<Filled<'_>>> {
        let Some(learnt) = self.learnt((kind, outline), last) else {
            return Ok(None);
        };
        if outline.targets().len() > 1 && !are_apart(outline.targets(), environment) {
            return Ok(None);
        }
        let asked = Wanted {
            values: outline.values(),
            targets: outline.targets(),
            environment,
        };
        if learnt.fill(range.start(), asked, into).is_none() {
            return Ok(None);
        }
        #[cfg(test)]
        self.damage(into);
        let _stage = latency::enter(Stage::Verify);
        if !learnt.admits(range, into, asked) {
            return Err(verify::Error::Filled { site: name() }.into());
        }
        Ok(Some(Filled {
            like: &learnt.sequence,
            returns: &learnt.returns,
            used: learnt.used,
        }))
    }

    #[cfg(test)]
    fn damage(&self, code: &mut [u8]) {
        self.filled.set(self.filled.get() + 1);
        if let Some(damage) = self.damage {
            damage(code);
        }
    }

    /// Notes that the sequence was assembled and checked; the second time, learns to fill it.
    pub(super) fn learn(
        &mut self,
        (kind, sequence): (u32, &Sequence),
        site: &Site,
        environment: &Environment,
        assembled: &Assembled,
    ) {
        let words = sequence.outline().words();
        let Some(of_kind) = self.known.get_mut(kind as usize) else {
            return;
        };
        match of_kind.get_mut(words) {
            // A template of long branches may be learnt at another site.
            // protection: short-branches-are-not-learnt
            Some(Known::Noted) if leads_near(site.range(), sequence, environment) => {}
            Some(known @ Known::Noted) => {
                *known = Known::Varies;
                let site = site.context(&[]);
                if let Some(learnt) = Learnt::of((kind, sequence), &site, environment, assembled) {
                    *known = Known::Learnt(self.learnt.len() as u32);
                    self.learnt.push(learnt);
                }
            }
            Some(Known::Varies | Known::Learnt(_)) => {}
            None => self.note(kind, words),
        }
    }

    fn note(&mut self, kind: u32, words: &[u64]) {
        if self.len >= SEQUENCES {
            self.len = 0;
            self.known.iter_mut().for_each(HashMap::clear);
            self.learnt.clear();
        }
        if let Some(of_kind) = self.known.get_mut(kind as usize) {
            self.len += 1;
            of_kind.insert(words.into(), Known::Noted);
        }
    }

    /// How many sequences were filled in.
    #[cfg(all(test, target_arch = "x86_64"))]
    pub(super) fn filled(&self) -> usize {
        self.filled.get()
    }

    /// How many sequences are known.
    #[cfg(all(test, target_arch = "x86_64"))]
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

/// The values and targets of a sequence.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    values: &'a [u64],
    targets: &'a [Target],
    environment: &'a Environment,
}

impl Wanted<'_> {
    /// What has to be in a field.
    #[inline]
    fn content(self, from: From) -> Option<Content> {
        Some(match from {
            From::Value { number, signed } => Content::Value {
                value: *self.values.get(number)?,
                signed,
            },
            From::Target(number) => Content::Target(self.environment.address(*self.targets.get(number)?)?),
        })
    }
}

impl Learnt {
    /// Finds out where the values are, by assembling with others.
    fn of(
        (kind, sequence): (u32, &Sequence),
        site: &SiteContext<'_>,
        environment: &Environment,
        assembled: &Assembled,
    ) -> Option<Self> {
        let (values, targets) = (sequence.outline().values(), sequence.outline().targets());
        if !are_apart(targets, environment) {
            return None;
        }
        let others = others(values)?;
        let other = assemble_like(assembled, &sequence.with(&others, targets), site, environment)?;
        let both = [(values, &assembled.code[..]), (&others[..], &other[..])];
        let source = |field: &Field| match field.branch_end {
            Some(_) => {
                let to = CodeAddr::new(field.leads_to(&assembled.code, site.addr)?);
                let leads_there = |target: &Target| environment.address(*target) == Some(to);
                targets.iter().position(leads_there).map(From::Target)
            }
            None => value(*field, both),
        };
        let mut template = Template::of(site, &assembled.code, &assembled.declared)?;
        template.keep(&assembled.code, |field| source(field).is_some());
        let learnt = Self {
            kind,
            sources: template.fields().iter().filter_map(source).collect(),
            template,
            sequence: sequence.clone(),
            returns: assembled.landings.clone(),
            used: assembled.used,
        };
        (learnt.has_fields_for(both) && learnt.gives(both, site.addr, environment)).then_some(learnt)
    }

    /// Whether each value that varies has a field.
    fn has_fields_for(&self, [(values, _), (others, _)]: Both<'_>) -> bool {
        let has_field = |number| {
            let is_from = |from: &From| matches!(from, From::Value { number: n, .. } if *n == number);
            self.sources.iter().any(is_from)
        };
        let mut pairs = values.iter().zip(others).enumerate();
        pairs.all(|(number, (value, other))| value == other || has_field(number))
    }

    /// Whether filling makes both codes, at the address for which they were assembled, and both may be written.
    fn gives(&self, both: Both<'_>, at: CodeAddr, environment: &Environment) -> bool {
        both.iter().all(|(values, code)| {
            let asked = Wanted {
                values,
                targets: self.sequence.outline().targets(),
                environment,
            };
            let mut filled = Bytes::new();
            let is_filled = self.fill(at, asked, &mut filled).is_some();
            let range = CodeRange::new(at, code.len() as u64);
            is_filled && filled[..] == **code && range.is_some_and(|range| self.admits(range, code, asked))
        })
    }

    /// Whether the code may be written, and is what was asked for: see [`Template::admits`].
    #[inline]
    fn admits(&self, site: CodeRange, code: &[u8], asked: Wanted<'_>) -> bool {
        let contents = self.sources.iter().map(|from| asked.content(*from));
        self.template.admits(site, code, contents)
    }

    /// Makes the code for a site at that address; `None` if a field cannot hold what has to be there, or
    /// is not in the code.
    fn fill(&self, at: CodeAddr, asked: Wanted<'_>, code: &mut Bytes) -> Option<()> {
        short::assign(code, self.template.code());
        for (field, from) in self.template.fields().iter().zip(&self.sources) {
            match asked.content(*from)? {
                Content::Value { value, signed } => {
                    if !field.can_hold(value, signed) {
                        return None;
                    }
                    field.put(value, code)?;
                }
                Content::Target(to) => {
                    let from = at.get().wrapping_add(field.branch_end? as u64);
                    let distance = to.get().wrapping_sub(from) as i64;
                    // The assembler takes a shorter instruction for what is near.
                    if i32::try_from(distance).is_err() || NEAR.contains(&distance) {
                        return None;
                    }
                    field.put(distance as u64, code)?;
                }
            }
        }
        Some(())
    }
}

/// Where a target may be to which the assembler takes a short branch, from the end of a long one: it is behind that of the
/// short one, by as many bytes as this branch and those before it are shorter.
const NEAR: Range<i64> = -256..128;

/// Whether the sequence may have a short branch that leaves the site.
fn leads_near(site: CodeRange, sequence: &Sequence, environment: &Environment) -> bool {
    let near = NEAR.start..NEAR.end + site.len() as i64;
    let mut targets = sequence.outline().targets().iter();
    targets.any(|target| {
        let to = environment.address(*target);
        to.is_some_and(|to| near.contains(&to.distance_from(site.start())))
    })
}

/// Another value for each that may be another, no two alike.
fn others(values: &[u64]) -> Option<SmallVec<[u64; 6]>> {
    let mut others = SmallVec::new();
    for value in values {
        let class = sequence::class(*value);
        if sequence::is_single(class) {
            others.push(*value);
            continue;
        }
        let mut candidates = (1..128).flat_map(|by| [value.wrapping_add(by), value.wrapping_sub(by)]);
        let is_new = |other: &u64| !others.contains(other) && !values.contains(other);
        let other = candidates.find(|other| sequence::class(*other) == class && is_new(other))?;
        others.push(other);
    }
    Some(others)
}

/// The code of a sequence that is assembled and checked as another was, in place and with the same returns.
fn assemble_like(
    assembled: &Assembled,
    sequence: &Sequence,
    site: &SiteContext<'_>,
    environment: &Environment,
) -> Option<Vec<u8>> {
    let Ok(Fit::InPlace(other)) = sequence::assemble(sequence, site, environment) else {
        return None;
    };
    let checked = verify::check(site, &other.code, &[], &other.declared).ok()?;
    let is_alike = (other.used, &checked.landings) == (assembled.used, &assembled.landings);
    is_alike.then_some(other.code)
}

/// The codes of a sequence with two lots of values.
type Both<'a> = [(&'a [u64], &'a [u8]); 2];

/// The value that is in a field, both times.
fn value(field: Field, both: Both<'_>) -> Option<From> {
    let [(values, code), (others, other)] = both;
    let pairs = values.iter().zip(others).enumerate();
    let mut varying = pairs.filter(|(_, (value, other))| value != other);
    varying.find_map(|(number, (value, another))| {
        let holds = |signed: &bool| {
            field.read(code, *signed) == Some(*value) && field.read(other, *signed) == Some(*another)
        };
        let signed = [true, false].into_iter().find(holds)?;
        Some(From::Value { number, signed })
    })
}

/// All of a site that assembling and checking look at, but for its address, its landings and its name.
fn words(site: &SiteContext<'_>) -> Vec<u64> {
    let shape = site.shape;
    let kind: u64 = match shape.kind() {
        SiteKind::Patchpoint => 0,
        SiteKind::Shadow => 1,
        SiteKind::Entry => 2,
        SiteKind::Marked => 3,
        SiteKind::Call => 4,
    };
    let flags = [
        shape.convention() == crate::arch::Convention::C,
        shape.has_result(),
        site.trust_live_outs,
        site.record.is_some(),
    ];
    let flags = flags.iter().fold(0, |sum, flag| sum << 1 | u64::from(*flag));
    let mut words = vec![
        kind | flags << 8 | u64::from(shape.reserved().get()) << 32,
        shape.arg_count().into(),
    ];
    if let Some(record) = site.record {
        let (locations, live_outs) = (record.locations(), record.live_outs());
        words.push(locations.len() as u64);
        locations.for_each(|location| words.extend(of_location(&location, site.constants)));
        words.extend(live_outs.map(|live| u64::from(live.reg.get()) | u64::from(live.size) << 16));
    }
    words
}

fn of_location(location: &Location, constants: Constants<'_>) -> [u64; 2] {
    let (kind, reg, value) = match location.place {
        Place::Register { reg, bit_offset } => (1, reg.get(), bit_offset as u64),
        Place::Direct { reg, offset } => (2, reg.get(), offset as u64),
        Place::Indirect { reg, offset } => (3, reg.get(), offset as u64),
        Place::Constant { value } => (4, 0, value as u64),
        Place::ConstantIndex { index } => {
            let value = constants.get(index);
            (5, 0, value.expect("the parser has checked the index"))
        }
    };
    [kind | u64::from(reg) << 8 | u64::from(location.size) << 32, value]
}
