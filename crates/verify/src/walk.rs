//! The rules, along every path. Knows no architecture.
//!
//! A state per instruction (stack depth, registers written so far, a register known to hold a
//! constant) is carried along the control flow until nothing changes. States only lose knowledge
//! where paths join, so this ends: each instruction is visited again at most once per register.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use llvm_stackmaps::addr::CodeAddr;
use patchpoint_isa::{Declared, OnReturn, RegSet, SiteContext, SiteKind, SiteName};
use smallvec::SmallVec;

use super::chunk::Chunk;
use super::constants::Constants;
use super::facts::{DecodedCode, Dest, Facts, Flow, Isa, StackPointer, StackStore, Undecodable};
use super::policy::{self, Policy};
use crate::error::{Error, InstructionAt, Result};

/// What the checker found in code that it accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The registers that may have been written when control leaves the site, the scratch register
    /// and what calls lose included; the stack pointer excluded.
    pub clobbers: RegSet,
    /// The offsets in the site to which its own calls return, ascending, in bytes, without the
    /// site's end.
    pub return_offsets: Vec<u32>,
}

/// What is known before an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PathState {
    /// The stack pointer's distance from its value on entry to the site, in bytes; never positive.
    depth: i64,
    written: RegSet,
    known: Constants,
}

/// The site or a stub.
struct CodePart<'a> {
    start: u64,
    end: u64,
    bytes: &'a [u8],
    /// Its instructions: indices into all of them.
    first: usize,
    last: usize,
}

/// Where a store goes, from and to, from the stack pointer as it was on entry to the site; `None`
/// where that is not known.
fn stored(store: StackStore, before: &PathState) -> Option<(i64, i64)> {
    let (from, to) = match store {
        StackStore::Range(from, to) => (from, to),
        StackStore::Indexed { index, disp, size } => {
            // protection: checker-adds-up-indexes
            let from = disp.checked_add(before.known.get(index)? as i64)?;
            (from, from.checked_add(size)?)
        }
        StackStore::None | StackStore::Anywhere => return None,
    };
    before.depth.checked_add(from).zip(before.depth.checked_add(to))
}

struct Walk<'a> {
    site: &'a SiteContext<'a>,
    isa: &'a Isa,
    policy: &'a Policy,
    declared: &'a Declared,
    /// The site, then the stubs.
    parts: SmallVec<[CodePart<'a>; 2]>,
    code: DecodedCode,
    states: SmallVec<[Option<PathState>; 8]>,
    pending: SmallVec<[usize; 4]>,
    clobbers: RegSet,
}

/// Checks everything that depends on the code. Without that of the site, control enters at the first
/// stub.
pub(super) fn walk(
    site: &SiteContext<'_>,
    isa: &Isa,
    policy: &Policy,
    code: Option<&[u8]>,
    stubs: &[Chunk<'_>],
    declared: &Declared,
) -> Result<Checked> {
    let mut walk = Walk {
        site,
        isa,
        policy,
        declared,
        parts: SmallVec::new(),
        code: DecodedCode::new(),
        states: SmallVec::new(),
        pending: SmallVec::new(),
        clobbers: RegSet::EMPTY,
    };
    match code {
        Some(code) => walk.decode_site(code)?,
        None => walk.leave_out_site()?,
    }
    walk.decode(stubs)?;
    // protection: checker-empty-stub
    if walk.code.is_empty() {
        return Err(Error::StubEnd {
            at: walk.describe(site.addr.get()),
        });
    }
    walk.check_return_offsets()?;
    walk.run()?;
    Ok(Checked {
        clobbers: walk.clobbers,
        return_offsets: walk.own_return_offsets(),
    })
}

impl<'a> Walk<'a> {
    // ---- rule 1: decoding ----

    fn decode_site(&mut self, code: &'a [u8]) -> Result<()> {
        let needed = self.site.shape.reserved();
        // protection: checker-exact-length
        if code.len() as u64 != u64::from(needed.get()) || code.is_empty() {
            return Err(Error::Length {
                site: SiteName::of(self.site),
                needed,
                have: code.len() as u64,
            });
        }
        self.decode_part(self.site.addr, code)
    }

    /// The site is there, but has no instructions to which anything could go.
    fn leave_out_site(&mut self) -> Result<()> {
        let len = self.site.shape.reserved().get();
        let (start, end) = self.range(self.site.addr, len.into())?;
        self.parts.push(CodePart {
            start,
            end,
            bytes: &[],
            first: 0,
            last: 0,
        });
        Ok(())
    }

    fn decode(&mut self, stubs: &[Chunk<'a>]) -> Result<()> {
        for stub in stubs {
            self.decode_part(stub.addr, stub.bytes)?;
        }
        self.states.resize(self.code.len(), None);
        Ok(())
    }

    /// Where a part starts and ends that is free of the others.
    fn range(&self, addr: CodeAddr, len: u64) -> Result<(u64, u64)> {
        let start = addr.get();
        // protection: checker-stubs-do-not-overlap
        let free = |end: &u64| self.parts.iter().all(|p| *end <= p.start || p.end <= start);
        match start.checked_add(len).filter(free) {
            Some(end) => Ok((start, end)),
            None => Err(Error::Overlap {
                site: SiteName::of(self.site),
                stub: self.parts.len().saturating_sub(1) as u64,
                addr,
            }),
        }
    }

    fn decode_part(&mut self, addr: CodeAddr, bytes: &'a [u8]) -> Result<()> {
        let (start, end) = self.range(addr, bytes.len() as u64)?;
        let first = self.code.len();
        let decoded = self.decode_bytes(start, bytes);
        self.parts.push(CodePart {
            start,
            end,
            bytes,
            first,
            last: self.code.len(),
        });
        decoded.map_err(|fault| {
            // protection: checker-undecodable
            let at = self.describe(fault.addr);
            match fault.cut_off {
                true => Error::CutOff { at },
                false => Error::Undecodable { at },
            }
        })
    }

    /// Decodes what is between the bytes that are vouched for.
    fn decode_bytes(&mut self, start: u64, bytes: &[u8]) -> core::result::Result<(), Undecodable> {
        let (mut rest, mut at) = (bytes, start);
        for vouched in &self.declared.vouched {
            let range = vouched.range;
            let before = range.start().get().checked_sub(at).map(|before| before as usize);
            let Some((decoded, behind)) = before.and_then(|before| rest.split_at_checked(before)) else {
                continue;
            };
            let Some(behind) = behind.get(range.len() as usize..) else {
                continue;
            };
            (self.isa.decode)(at, decoded, &mut self.code)?;
            self.code.extend(Facts::vouched(range, vouched.writes));
            (rest, at) = (behind, range.end().get());
        }
        (self.isa.decode)(at, rest, &mut self.code)
    }

    // ---- rule 6: return offsets ----

    fn check_return_offsets(&self) -> Result<()> {
        for &return_offset in self.site.return_offsets {
            self.check_return_offset(return_offset)?;
        }
        Ok(())
    }

    fn check_return_offset(&self, return_offset: u32) -> Result<()> {
        let site = || SiteName::of(self.site);
        // protection: checker-shadows-have-no-return-offsets
        if self.site.shape.kind().displaces() {
            return Err(Error::ShadowReturnOffset {
                site: site(),
                return_offset,
            });
        }
        let addr = self.site.addr.get().wrapping_add(u64::from(return_offset));
        let inside = return_offset < self.site.shape.reserved().get();
        let at = match self.isa.return_offsets_restore {
            true => self.returned_to(addr),
            false => self.boundary(addr),
        };
        // protection: checker-return-offset-is-a-boundary
        let Some(at) = at.filter(|_| inside) else {
            return Err(Error::ReturnOffset {
                site: site(),
                return_offset,
            });
        };
        let tail = self.code.get(at..self.site_end());
        let tail = tail.expect("an instruction of the site is before the site's end");
        // protection: checker-return-offset-tail
        match tail.iter().find(|f| !f.nop) {
            None => Ok(()),
            Some(f) => Err(Error::ReturnOffsetTail {
                at: self.describe(f.addr),
                return_offset,
            }),
        }
    }

    /// Behind the last instruction of the site.
    fn site_end(&self) -> usize {
        self.parts.first().expect("the site is the first part").last
    }

    /// The instruction behind the code in the site that is made to be returned into at an address.
    fn returned_to(&self, addr: u64) -> Option<usize> {
        let mut code = self.code.iter().take(self.site_end());
        let made = code.position(|f| f.returns_at.is_some() && f.return_address() == addr)?;
        Some(made + 1)
    }

    /// Offsets in the site after the calls that control can reach.
    fn own_return_offsets(&self) -> Vec<u32> {
        let Some(site) = self.parts.first() else {
            return Vec::new();
        };
        let code = self.code.iter().zip(&self.states).take(site.last);
        code.filter(|(f, state)| state.is_some() && matches!(f.flow, Flow::Call(_)))
            .map(|(f, _)| f.return_address())
            .filter(|to| *to < site.end)
            .filter_map(|to| u32::try_from(to.wrapping_sub(site.start)).ok())
            .collect()
    }

    // ---- the walk ----

    fn run(&mut self) -> Result<()> {
        let entry = PathState {
            depth: 0,
            written: RegSet::EMPTY,
            known: Constants::default(),
        };
        self.join(0, 0, &entry)?;
        while let Some(index) = self.pending.pop() {
            self.visit(index)?;
        }
        Ok(())
    }

    /// Control comes to `to` from `from` with `state`.
    fn join(&mut self, from: usize, to: usize, state: &PathState) -> Result<()> {
        let Some(slot) = self.states.get_mut(to) else {
            return Ok(());
        };
        match slot {
            None => *slot = Some(*state),
            // protection: checker-stack-joins
            Some(before) if before.depth != state.depth => {
                let (depth, other) = (state.depth, before.depth);
                return Err(Error::StackJoin {
                    at: self.at(to),
                    from: self.offset(from),
                    depth,
                    other,
                });
            }
            Some(before) => {
                let joined = PathState {
                    depth: state.depth,
                    written: state.written.union(before.written),
                    known: before.known.and(state.known),
                };
                if *before == joined {
                    return Ok(());
                }
                *before = joined;
            }
        }
        self.pending.push(to);
        Ok(())
    }

    fn visit(&mut self, index: usize) -> Result<()> {
        let (Some(facts), Some(Some(before))) = (self.code.get(index), self.states.get(index)) else {
            return Ok(());
        };
        // protection: checker-refused-instructions
        if let Some(what) = facts.refused {
            return Err(Error::Refused {
                at: self.at(index),
                what,
            });
        }
        // protection: checker-clobbers
        self.check_writes(index, facts.writes)?;
        self.check_flags(index, facts)?;
        // protection: checker-red-zone
        self.check_store(index, facts, before)?;
        let after = &PathState {
            depth: self.moved(index, facts, before.depth)?,
            written: before.written.union(facts.writes),
            known: before.known.after(facts),
        };
        let flow = facts.flow;
        self.clobbers = self.clobbers.union(facts.writes);
        match flow {
            Flow::Next => self.fall(index, after),
            // The target is read before a link is written, which may be in the same register.
            Flow::Jump(dest) => self.jump(index, self.resolve(index, dest)?, after),
            Flow::Branch(dest) => {
                self.jump(index, self.resolve(index, dest)?, after)?;
                self.fall(index, after)
            }
            Flow::Call(dest) => self.call(index, self.resolve(index, dest)?, *after),
            Flow::Return { plain } => self.ret(index, plain, after),
            Flow::Trap => Ok(()),
        }
    }

    // ---- rule 4: registers ----

    fn check_writes(&self, index: usize, writes: RegSet) -> Result<()> {
        match policy::first(writes.difference(self.policy.writable)) {
            None => Ok(()),
            Some(reg) => Err(Error::Clobber {
                at: self.at(index),
                register: policy::name(self.isa, reg),
            }),
        }
    }

    /// At a marked site, or one that was told and not said to have free flags, somebody may look at
    /// flags of arithmetic later.
    fn check_flags(&self, index: usize, facts: &Facts) -> Result<()> {
        let are_kept = match self.site.shape.kind() {
            // protection: marks-keep-flags
            SiteKind::Marked => true,
            // protection: told-sites-keep-flags
            SiteKind::Told => !self.site.shape.has_free_flags(),
            SiteKind::Patchpoint | SiteKind::Shadow | SiteKind::Entry | SiteKind::Call => false,
        };
        match facts.flags && are_kept {
            true => Err(Error::Flags { at: self.at(index) }),
            false => Ok(()),
        }
    }

    fn check_kept(&self, index: usize, written: RegSet, kept: RegSet) -> Result<()> {
        match policy::first(written.intersection(kept)) {
            None => Ok(()),
            Some(reg) => Err(Error::Lost {
                at: self.at(index),
                register: policy::name(self.isa, reg),
            }),
        }
    }

    // ---- rule 5: stack ----

    fn moved(&self, index: usize, facts: &Facts, depth: i64) -> Result<i64> {
        let moved = match facts.stack {
            StackPointer::Keep => Some(depth),
            StackPointer::Add(by) => depth.checked_add(by),
            StackPointer::Lost => None,
        };
        match moved {
            None => Err(Error::StackLost { at: self.at(index) }),
            // protection: checker-stack-is-not-popped
            Some(depth) if depth > 0 => Err(Error::StackPopped {
                at: self.at(index),
                by: depth,
            }),
            Some(depth) => Ok(depth),
        }
    }

    fn check_store(&self, index: usize, facts: &Facts, before: &PathState) -> Result<()> {
        let kind = self.site.shape.kind();
        let is_free = match kind {
            // For LLVM a patchpoint is a call: what is below the stack pointer is free.
            SiteKind::Patchpoint => true,
            // protection: told-sites-keep-the-red-zone
            SiteKind::Told => self.site.shape.has_free_stack(),
            SiteKind::Shadow | SiteKind::Entry | SiteKind::Marked | SiteKind::Call => false,
        };
        if is_free || facts.store == StackStore::None {
            return Ok(());
        }
        let abi = &self.isa.abi;
        let protected_end = match kind {
            SiteKind::Entry => abi.return_address,
            _ => 0,
        };
        let range = stored(facts.store, before);
        match range {
            Some((from, to)) if to <= -abi.red_zone || from >= protected_end => Ok(()),
            _ => Err(Error::RedZone {
                at: self.at(index),
                zone: abi.red_zone,
            }),
        }
    }

    fn check_level(&self, index: usize, depth: i64) -> Result<()> {
        match depth {
            // protection: checker-stack-balance
            0 => Ok(()),
            _ => Err(Error::StackExit {
                at: self.at(index),
                depth,
            }),
        }
    }

    // ---- rules 2 and 3: branches and ends ----

    fn fall(&mut self, index: usize, state: &PathState) -> Result<()> {
        let part = self.parts.iter().position(|p| (p.first..p.last).contains(&index));
        let Some((number, part)) = part.and_then(|n| Some((n, self.parts.get(n)?))) else {
            return Ok(());
        };
        if index + 1 < part.last {
            return self.join(index, index + 1, state);
        }
        match number {
            0 => self.leave_by_end(index, state),
            // protection: checker-stubs-do-not-run-off
            _ => Err(Error::StubEnd { at: self.at(index) }),
        }
    }

    fn leave_by_end(&self, index: usize, state: &PathState) -> Result<()> {
        // protection: checker-shadow-does-not-reach-its-end
        if self.site.shape.kind() == SiteKind::Shadow {
            return Err(Error::ShadowEnd { at: self.at(index) });
        }
        self.check_level(index, state.depth)?;
        self.check_kept(index, state.written, self.policy.kept_for_the_function)
    }

    fn jump(&mut self, index: usize, to: u64, state: &PathState) -> Result<()> {
        if let Some(target) = self.boundary(to).filter(|target| self.may_enter(index, *target)) {
            return self.join(index, target, state);
        }
        // protection: checker-boundaries
        if self.is_inside(to) {
            return Err(self.inside(index, to));
        }
        if self.parts.first().is_some_and(|site| site.end == to) {
            return self.leave_by_end(index, state);
        }
        let entry = self.site.shape.kind() == SiteKind::Entry;
        for on_return in self.contracts(index, to)? {
            if on_return != OnReturn::Never && !entry {
                return Err(Error::JumpReturns {
                    at: self.at(index),
                    target: CodeAddr::new(to),
                });
            }
        }
        self.check_level(index, state.depth)?;
        // protection: checker-values-for-exit-stubs
        self.check_kept(index, state.written, self.policy.kept_for_exit_stubs)?;
        self.check_kept(index, state.written, self.policy.kept_for_the_function)
    }

    fn call(&mut self, index: usize, to: u64, mut state: PathState) -> Result<()> {
        if self.is_inside(to) {
            return Err(self.inside(index, to));
        }
        self.check_called_from(index)?;
        let mut lost = RegSet::EMPTY;
        for on_return in self.contracts(index, to)? {
            lost = lost.union(self.check_contract(index, to, on_return, &state)?);
        }
        self.clobbers = self.clobbers.union(lost);
        state.written = state.written.union(lost);
        state.known = state.known.without(lost);
        self.fall(index, &state)
    }

    /// A callee has a frame, and changes the flags.
    fn check_called_from(&self, index: usize) -> Result<()> {
        let shape = &self.site.shape;
        if shape.kind() != SiteKind::Told {
            return Ok(());
        }
        // protection: told-sites-call-where-they-may
        match (shape.has_free_stack(), shape.has_free_flags()) {
            (true, true) => Ok(()),
            (false, _) => Err(Error::StackNotFree { at: self.at(index) }),
            (true, false) => Err(Error::Flags { at: self.at(index) }),
        }
    }

    /// What a call of a target under this contract loses.
    fn check_contract(
        &self,
        index: usize,
        to: u64,
        on_return: OnReturn,
        state: &PathState,
    ) -> Result<RegSet> {
        let abi = &self.isa.abi;
        let lost = match on_return {
            OnReturn::Never => {
                // protection: checker-calls-that-never-return
                return Err(Error::CallNever {
                    at: self.at(index),
                    target: CodeAddr::new(to),
                });
            }
            OnReturn::PreservesAll => abi.lost_in_any_call,
            OnReturn::FollowsC => abi.known.difference(abi.callee_saved).difference(abi.frame),
        };
        // A site that has a result expects a call to deliver it, declared or not.
        // protection: checker-calls-lose-registers
        self.check_writes(index, lost.difference(self.policy.result))?;
        // protection: checker-stack-alignment
        if on_return == OnReturn::FollowsC && state.depth % abi.stack_align != 0 {
            // Only sites come here at which the stack is aligned for a call.
            return Err(Error::StackAlign {
                at: self.at(index),
                depth: state.depth,
                align: abi.stack_align,
            });
        }
        Ok(lost)
    }

    fn ret(&self, index: usize, plain: bool, state: &PathState) -> Result<()> {
        // protection: checker-returns
        if self.site.shape.kind() != SiteKind::Entry || !plain {
            return Err(Error::Return { at: self.at(index) });
        }
        self.check_level(index, state.depth)
    }

    /// Where the instruction goes, by what is known before it.
    fn resolve(&self, index: usize, dest: Dest) -> Result<u64> {
        let before = self.states.get(index).copied().flatten();
        match dest {
            Dest::Address(to) => Some(to),
            Dest::Register(reg) => before.and_then(|before| before.known.get(reg)),
            Dest::Unknown => None,
        }
        .ok_or_else(|| Error::Indirect { at: self.at(index) })
    }

    /// What is declared of a target: at least one contract; all of them bind.
    fn contracts(&self, index: usize, to: u64) -> Result<impl Iterator<Item = OnReturn> + use<'a>> {
        let declared: &'a Declared = self.declared;
        // protection: checker-declared-targets
        let of = move || declared.targets.iter().filter(move |t| t.addr.get() == to);
        match of().next() {
            None => Err(Error::Undeclared {
                at: self.at(index),
                target: CodeAddr::new(to),
            }),
            Some(_) => Ok(of().map(|t| t.on_return)),
        }
    }

    // ---- addresses ----

    fn part_of(&self, addr: u64) -> Option<&CodePart<'a>> {
        self.parts.iter().find(|p| (p.start..p.end).contains(&addr))
    }

    fn is_inside(&self, addr: u64) -> bool {
        self.part_of(addr).is_some()
    }

    /// The instruction that starts at an address.
    fn boundary(&self, addr: u64) -> Option<usize> {
        let part = self.part_of(addr)?;
        let code = self.code.get(part.first..part.last)?;
        let index = code.binary_search_by_key(&addr, |f| f.addr).ok()?;
        Some(part.first + index)
    }

    /// Whether a branch may go into the unit to which its target belongs.
    fn may_enter(&self, from: usize, target: usize) -> bool {
        let unit = |index: usize| self.code.get(index).and_then(|f| f.unit);
        unit(target).is_none_or(|start| unit(from) == Some(start))
    }

    // ---- errors ----

    fn inside(&self, index: usize, to: u64) -> Error {
        Error::BranchInside {
            at: self.at(index),
            target: CodeAddr::new(to),
        }
    }

    fn offset(&self, index: usize) -> u64 {
        let addr = self.code.get(index).map_or(0, |f| f.addr);
        self.part_of(addr).map_or(0, |p| addr.wrapping_sub(p.start))
    }

    fn at(&self, index: usize) -> Box<InstructionAt> {
        self.describe(self.code.get(index).map_or(0, |f| f.addr))
    }

    fn describe(&self, addr: u64) -> Box<InstructionAt> {
        let number = self.parts.iter().position(|p| (p.start..p.end).contains(&addr));
        let part = number.and_then(|n| self.parts.get(n));
        let offset = part.map_or(0, |p| addr.wrapping_sub(p.start));
        let bytes = part
            .and_then(|p| p.bytes.get(usize::try_from(offset).ok()?..))
            // An address outside of the code is told as one of bytes that are no instruction.
            .unwrap_or(&[]);
        let mut text = String::new();
        if (self.isa.text)(addr, bytes, &mut text).is_none() {
            text = String::from("(bad)");
        }
        Box::new(InstructionAt {
            site: *SiteName::of(self.site),
            stub: number.and_then(|n| u32::try_from(n.checked_sub(1)?).ok()),
            offset,
            addr: CodeAddr::new(addr),
            text,
        })
    }
}
