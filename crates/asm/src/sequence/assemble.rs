//! From a sequence and a site to bytes.

use alloc::boxed::Box;
use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, CodeRange, Len};
use patchpoint_isa::SiteName;
use patchpoint_isa::{Declared, RegSet, SiteContext, SiteKind, Vouched, conventions};
use smallvec::SmallVec;

use super::builder::{Operation, Sequence};
use super::layout::{self, CodePosition, Fill, Layout, Unreachable};
use super::operand::Target;
use super::resolve::Resolver;
use super::scratch::Free;
use crate::backend::{Backend, Branch, BranchForm, BranchKind, EncodedCode, EncodingRefusal, Origin};
use crate::backend_of;
use crate::error::{Error, Result};
use crate::hole::{Holds, Holes};
use crate::op::{Dest, Label, Op};

/// What a site offers to the sequences that are written there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The site's exit stub for [`Target::Miss`].
    pub miss: Option<CodeAddr>,
    /// The site's exit stub for [`Target::Deopt`].
    pub deopt: Option<CodeAddr>,
}

impl Environment {
    /// The address of a target outside of the sequence, where there is one.
    #[inline]
    #[must_use]
    pub const fn address(&self, target: Target) -> Option<CodeAddr> {
        match target {
            Target::Miss => self.miss,
            Target::Deopt => self.deopt,
            Target::Addr(addr) => Some(addr.get()),
            Target::End | Target::Label(_) => None,
        }
    }
}

/// Code outside its site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StubCode {
    /// Where it was assembled for.
    pub addr: CodeAddr,
    /// The code.
    pub bytes: Vec<u8>,
}

/// A sequence assembled for one site.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// The bytes of the site: exactly as many as are reserved.
    pub code: Vec<u8>,
    /// The rest of the sequence, where the reserved bytes did not suffice. [`code`](Self::code)
    /// jumps there.
    pub stub: Option<StubCode>,
    /// What the sequence is allowed to do. The jump to the stub is not among its targets.
    pub declared: Declared,
    /// Registers that the sequence writes, and those that its calls lose.
    pub clobbers: RegSet,
    /// Offsets in the site to which calls in it return, ascending, other than its end.
    pub return_offsets: Vec<u32>,
    /// The length of the code in the site without nops.
    pub used: Len,
    /// Where values and targets of the sequence are in [`code`](Self::code), if that was asked for
    /// and there is no stub: see [`assemble_template`].
    pub holes: Option<Box<Holes>>,
}

impl Assembled {
    /// The reserved bytes that are nops.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "it never does")]
    pub fn slack(&self) -> Len {
        let reserved = Len::of(&self.code).expect("the code is as long as the site, whose length is a `Len`");
        Len::new(reserved.get().saturating_sub(self.used.get()))
    }
}

/// A sequence assembled as a stub of its own, to which the caller branches.
#[derive(Clone, Debug)]
pub struct Stub {
    /// The code. Where the sequence does not leave otherwise, it ends by a jump to the end of the
    /// site.
    pub code: StubCode,
    /// What the sequence is allowed to do.
    pub declared: Declared,
    /// Registers that the sequence writes, and those that its calls lose.
    pub clobbers: RegSet,
    /// Where values and targets of the sequence, and the end of the site, are in the code, if that
    /// was asked for: see [`assemble_stub_template`].
    pub holes: Option<Box<Holes>>,
}

/// Whether a sequence fits into the reserved bytes.
#[derive(Clone, Debug)]
pub enum Fit {
    /// It fits.
    InPlace(Assembled),
    /// It needs a stub near the site, see [`assemble_out_of_line`].
    OutOfLine {
        /// The most bytes that the stub can need, wherever in reach of a jump from the site it
        /// is.
        stub_len: Len,
    },
}

/// Assembles a sequence for a site: in place if it fits there.
///
/// # Errors
/// [`Error::SequenceTooLong`] if it does not fit and either a stub is forbidden or there is no room for the
/// jump to it; otherwise what the sequence asks for cannot be had at the site, and the error names the
/// operation and the reason.
pub fn assemble(sequence: &Sequence, site: &SiteContext<'_>, env: &Environment) -> Result<Fit> {
    Job::new(sequence, site, env)?.assemble()
}

/// The same, where what is in place is to be a template: it says where its
/// [holes](Assembled::holes) are.
///
/// # Errors
/// As [`assemble`].
pub fn assemble_template(sequence: &Sequence, site: &SiteContext<'_>, env: &Environment) -> Result<Fit> {
    let mut job = Job::new(sequence, site, env)?;
    job.names_holes = true;
    job.assemble()
}

/// Assembles a sequence for a site into a stub at `stub`, to which the code in place jumps, and
/// which ends by a jump to the end of the site unless the sequence leaves otherwise.
///
/// # Errors
/// As [`assemble`]; besides [`Error::StubOutOfReach`].
pub fn assemble_out_of_line(
    sequence: &Sequence,
    site: &SiteContext<'_>,
    env: &Environment,
    stub: CodeAddr,
) -> Result<Assembled> {
    let job = Job::new(sequence, site, env)?;
    let jump = job.jump_to(stub);
    let used = Len::new(job.backend.branch_len(&jump, jump.form));
    job.check_room_for_jump(used)?;
    if !job.backend.reaches(&jump, jump.form, site.addr.get(), stub.get()) {
        return Err(Error::StubOutOfReach {
            site: SiteName::of(site),
            stub,
        });
    }
    let body = job.stub(stub)?;
    let mut code = Vec::with_capacity(site.shape.reserved().as_usize());
    job.backend
        .put_branch(&jump, site.addr.get(), stub.get(), &mut code);
    layout::pad(
        site.arch,
        site.return_offsets,
        site.shape.reserved(),
        true,
        &mut code,
    );
    Ok(Assembled {
        code,
        stub: Some(body.code),
        declared: body.declared,
        clobbers: body.clobbers,
        return_offsets: Vec::new(),
        used,
        holes: None,
    })
}

/// The most bytes that a stub of its own can need for a sequence, in reach of a jump from the site.
///
/// # Errors
/// As [`assemble`].
pub fn stub_len(sequence: &Sequence, site: &SiteContext<'_>, env: &Environment) -> Result<Len> {
    let job = Job::new(sequence, site, env)?;
    job.lower_near(&mut Lowered::new(Origin::Near(site.addr)))
}

/// Assembles a sequence into a stub of its own near the site, to which the caller branches. `room` is told
/// how many bytes it can need at most, in reach of a jump from the site, and returns where they are.
/// Operands are those of the site.
///
/// # Errors
/// As [`assemble`]; what `room` returns.
pub fn assemble_stub<E: From<Error>>(
    sequence: &Sequence,
    site: &SiteContext<'_>,
    env: &Environment,
    room: impl FnOnce(Len) -> core::result::Result<CodeAddr, E>,
) -> core::result::Result<Stub, E> {
    Job::new(sequence, site, env)?.stub_in(room)
}

/// The same, where the code is to be a template: it says where its [holes](Stub::holes) are.
///
/// # Errors
/// As [`assemble_stub`].
pub fn assemble_stub_template<E: From<Error>>(
    sequence: &Sequence,
    site: &SiteContext<'_>,
    env: &Environment,
    room: impl FnOnce(Len) -> core::result::Result<CodeAddr, E>,
) -> core::result::Result<Stub, E> {
    let mut job = Job::new(sequence, site, env)?;
    job.names_holes = true;
    job.stub_in(room)
}

/// One sequence at one site.
struct Job<'s, 'a> {
    sequence: &'s Sequence,
    site: &'s SiteContext<'a>,
    env: &'s Environment,
    backend: &'static dyn Backend,
    /// The end of the site.
    end: CodeAddr,
    /// Whether it is said where the sequence's values are. It takes a twentieth of the time.
    names_holes: bool,
}

/// Where a site starts, ends and is returned to must be where instructions can be.
fn check_unit(site: &SiteContext<'_>, unit: u32) -> Result<()> {
    let whole = |what, value: u64| match value % u64::from(unit.max(1)) {
        0 => Ok(()),
        _ => Err(Error::NotWholeInstructions {
            site: SiteName::of(site),
            what,
            value,
            unit,
        }),
    };
    whole("address", site.addr.get())?;
    whole("reserved length", site.shape.reserved().get().into())?;
    site.return_offsets
        .iter()
        .try_for_each(|return_offset| whole("return_offset", u64::from(*return_offset)))
}

/// Encoded operations whose branches have no form yet.
struct Lowered {
    code: EncodedCode,
    labels: Vec<(Label, CodePosition)>,
    declared: Declared,
    /// The positions behind calls.
    returns: Vec<CodePosition>,
    /// The bytes that are vouched for: from, to, and what they write.
    vouched: Vec<(CodePosition, CodePosition, RegSet)>,
    /// Where the call starts that is the last operation.
    final_call: Option<CodePosition>,
}

impl Lowered {
    /// Nothing yet. It is filled where it is: returned, it was copied ten times for a stub, which took 590
    /// instructions of a patch's 21,700.
    #[inline]
    fn new(origin: Origin) -> Self {
        Self {
            code: EncodedCode::new(origin),
            labels: Vec::new(),
            declared: Declared::default(),
            returns: Vec::new(),
            vouched: Vec::new(),
            final_call: None,
        }
    }
}

/// The ranges that are vouched for, of code that starts at `start`.
fn declared_at(
    layout: &Layout<'_>,
    start: CodeAddr,
    vouched: &[(CodePosition, CodePosition, RegSet)],
) -> Vec<Vouched> {
    let ranges = vouched.iter().filter_map(|&(from, to, writes)| {
        let (from, to) = (layout.offset(from), layout.end_offset(to));
        let range = CodeRange::new(start.plus(Len::new(from))?, to.checked_sub(from)?.into())?;
        Some(Vouched { range, writes })
    });
    ranges.collect()
}

impl<'s, 'a> Job<'s, 'a> {
    fn new(sequence: &'s Sequence, site: &'s SiteContext<'a>, env: &'s Environment) -> Result<Self> {
        let backend = backend_of(site.arch);
        let end = site
            .addr
            .get()
            .wrapping_add(u64::from(site.shape.reserved().get()));
        check_unit(site, backend.unit())?;
        let job = Self {
            sequence,
            site,
            env,
            backend,
            end: CodeAddr::new(end),
            names_holes: false,
        };
        if site.shape.kind() == SiteKind::Shadow && job.reaches_end() {
            return Err(Error::ShadowFallsThrough {
                site: SiteName::of(site),
            });
        }
        Ok(job)
    }

    fn assemble(&self) -> Result<Fit> {
        let mut lowered = Lowered::new(Origin::At(self.site.addr));
        self.lower(&mut lowered)?;
        let room = self.room();
        let fill = lowered.final_call.map(|at| Fill {
            at,
            until: room.get(),
        });
        let returns = core::mem::take(&mut lowered.returns);
        let vouched = core::mem::take(&mut lowered.vouched);
        let mut layout = self.layout(&mut lowered, fill);
        let fits = layout.choose_forms().map_err(|e| self.unreachable(e));
        let used = Len::new(layout.len());
        if fits.is_ok() && used <= room {
            let mut code = Vec::with_capacity(self.site.shape.reserved().as_usize());
            layout.write(&mut code).map_err(|e| self.unreachable(e))?;
            let holes = self.holes(&mut layout);
            // A call returns to what restores the registers that it loses.
            let (_, restored) = self.backend.around_return_offset();
            let offsets = returns
                .iter()
                .map(|mark| layout.end_offset(*mark).saturating_sub(restored.len() as u32));
            let return_offsets = offsets
                .filter(|offset| *offset < self.site.shape.reserved().get())
                .collect();
            lowered.declared.vouched = declared_at(&layout, self.site.addr, &vouched);
            layout::pad(
                self.site.arch,
                self.site.return_offsets,
                self.site.shape.reserved(),
                false,
                &mut code,
            );
            return Ok(Fit::InPlace(Assembled {
                code,
                stub: None,
                declared: lowered.declared,
                clobbers: lowered.code.clobbers,
                return_offsets,
                used,
                holes,
            }));
        }
        fits?;
        self.check_room_for_jump(used)?;
        Ok(Fit::OutOfLine {
            stub_len: self.lower_near(&mut Lowered::new(Origin::Near(self.site.addr)))?,
        })
    }

    /// Whether control can get to the end of the site.
    fn reaches_end(&self) -> bool {
        let to_end = |operation: &Operation| match operation {
            Operation::Branch { target, .. } | Operation::Jump(target) => *target == Target::End,
            _ => false,
        };
        self.falls_through() || self.sequence.operations().iter().any(to_end)
    }

    /// Whether control goes on behind the last operation.
    fn falls_through(&self) -> bool {
        match self.sequence.operations().last() {
            Some(Operation::Jump(target)) => *target == Target::End,
            Some(Operation::Return | Operation::Trap) => false,
            _ => true,
        }
    }

    /// The bytes in place that code may use which goes on at the end of the site: those before the
    /// first return offset and what belongs to it.
    fn room(&self) -> Len {
        let before = self.backend.around_return_offset().0.len() as u32;
        match self.site.return_offsets.is_empty() {
            true => self.room_to_leave(),
            false => Len::new(self.room_to_leave().get().saturating_sub(before)),
        }
    }

    /// The bytes in place that a jump away may use: those before the first return offset.
    fn room_to_leave(&self) -> Len {
        let reserved = self.site.shape.reserved();
        let first = self.site.return_offsets.first().copied();
        first.map_or(reserved, |first| Len::new(first).min(reserved))
    }

    /// Where the holes of the code are, and which values are alike, if that is asked for.
    fn holes(&self, layout: &mut Layout<'_>) -> Option<Box<Holes>> {
        if !self.names_holes {
            return None;
        }
        let is_stub = layout.is_stub;
        let holes = layout.holes(|dest| match dest {
            Dest::Addr(addr) => self.target_at(addr).map(Holds::Target),
            // In place, the end of the site is always equally far.
            Dest::End => is_stub.then_some(Holds::End),
            Dest::Label(_) => None,
        });
        let alike = core::mem::take(&mut layout.code.alike);
        let mut holes = Holes { holes, alike };
        self.relate(&mut holes);
        Some(holes.into())
    }

    /// Notes how far the numbers that were encoded are from the values.
    fn relate(&self, Holes { holes, alike }: &mut Holes) {
        let value = |number: u32| {
            let value = self.sequence.outline().values().get(number as usize);
            *value.expect("the values are numbered as in the outline")
        };
        for hole in holes.iter_mut().filter(|hole| hole.part.base != 0) {
            if let Holds::Value(number) = hole.holds {
                hole.part.base = hole.part.base.wrapping_sub(value(number));
            }
        }
        for alike in alike {
            alike.base = alike.base.wrapping_sub(value(alike.number));
        }
    }

    /// The number of the target that is at an address.
    fn target_at(&self, addr: CodeAddr) -> Option<u32> {
        let mut targets = self.sequence.outline().targets().iter();
        let number = targets.position(|target| self.env.address(*target) == Some(addr))?;
        Some(number as u32)
    }

    fn jump_to(&self, stub: CodeAddr) -> Branch {
        Branch {
            at: 0,
            kind: BranchKind::Jump,
            dest: Dest::Addr(stub),
            scratch: None,
            form: BranchForm::Near,
            detail: 0,
            op: 0,
        }
    }

    fn check_room_for_jump(&self, in_place: Len) -> Result<()> {
        let jump = self.jump_to(self.site.addr);
        let jump = Len::new(self.backend.branch_len(&jump, BranchForm::Near));
        let stub_fits = jump <= self.room_to_leave();
        if stub_fits && !self.sequence.is_in_place_only() {
            return Ok(());
        }
        let needed = if self.sequence.is_in_place_only() {
            in_place
        } else {
            in_place.min(jump)
        };
        Err(Error::SequenceTooLong {
            site: SiteName::of(self.site),
            needed,
            available: self.room(),
            reserved: self.site.shape.reserved(),
            stub_would_fit: stub_fits,
        })
    }

    /// Lowers the sequence into what is empty yet.
    fn lower(&self, lowered: &mut Lowered) -> Result<()> {
        let registers = conventions::of(self.site.arch);
        let free = Free::new(self.sequence, self.site, registers);
        let mut resolver = Resolver::new(self.site, registers, self.env, &free, self.sequence);
        resolver.names_values = self.names_holes;
        let last = self.last_operation();
        for (index, operation) in self.sequence.operations().iter().enumerate() {
            resolver.op = index as u32;
            lowered.code.op = index as u32;
            let here = CodePosition::here(&lowered.code);
            let Some(op) = resolver.resolve(operation)? else {
                self.bind(operation, here, lowered, resolver.op)?;
                continue;
            };
            if matches!(op, Op::Jump(Dest::End)) && last == Some(index) && self.falls_through() {
                continue;
            }
            let free = resolver.free();
            self.backend
                .emit(&op, free, &mut lowered.code)
                .map_err(|r| self.refused(r, resolver.op))?;
            if let Operation::Vouched { writes, .. } = operation {
                let range = (here, CodePosition::here(&lowered.code), *writes);
                lowered.vouched.push(range);
                lowered.code.clobbers = lowered.code.clobbers.union(*writes);
            }
            if matches!(op, Op::Call(_)) {
                lowered.returns.push(CodePosition::here(&lowered.code));
                lowered.final_call = (last == Some(index)).then_some(here);
                lowered.code.clobbers = lowered.code.clobbers.union(self.lost(operation));
            }
        }
        if self.falls_through() {
            resolver.fall_through()?;
        }
        lowered.declared = resolver.declared;
        Ok(())
    }

    /// The index of the last operation that is no label.
    fn last_operation(&self) -> Option<usize> {
        self.sequence
            .operations()
            .iter()
            .rposition(|op| !matches!(op, Operation::Bind(_)))
    }

    /// The registers that a call loses.
    fn lost(&self, call: &Operation) -> RegSet {
        let registers = conventions::of(self.site.arch);
        if call.follows_c() {
            registers.lost_in_c_call
        } else {
            registers.lost_in_any_call
        }
    }

    fn bind(&self, operation: &Operation, here: CodePosition, lowered: &mut Lowered, op: u32) -> Result<()> {
        let Operation::Bind(label) = operation else {
            return Ok(());
        };
        if lowered.labels.iter().any(|(bound, _)| bound == label) {
            return Err(Error::LabelBoundTwice {
                site: SiteName::of(self.site),
                op,
                label: label.get(),
            });
        }
        lowered.labels.push((*label, here));
        Ok(())
    }

    fn layout<'l>(&self, lowered: &'l mut Lowered, fill: Option<Fill>) -> Layout<'l> {
        Layout {
            is_stub: false,
            arch: self.site.arch,
            backend: self.backend,
            code: &mut lowered.code,
            labels: &lowered.labels,
            end: self.end,
            fill,
            before: SmallVec::new(),
        }
    }

    /// Lowers the sequence with the jump back.
    fn lower_stub(&self, lowered: &mut Lowered) -> Result<()> {
        self.lower(lowered)?;
        if self.falls_through() {
            lowered.code.branch(BranchKind::Jump, Dest::End, None);
        }
        Ok(())
    }

    /// The stub in the room that it is given.
    fn stub_in<E: From<Error>>(
        &self,
        room: impl FnOnce(Len) -> core::result::Result<CodeAddr, E>,
    ) -> core::result::Result<Stub, E> {
        let mut lowered = Lowered::new(Origin::Near(self.site.addr));
        let at = room(self.lower_near(&mut lowered)?)?;
        Ok(match lowered.code.extra {
            0 => {
                lowered.code.origin = Origin::At(at);
                self.stub_of(&mut lowered, at)
            }
            // It has operands that are reached in another way from another place.
            _ => self.stub(at),
        }?)
    }

    fn stub(&self, at: CodeAddr) -> Result<Stub> {
        let mut lowered = Lowered::new(Origin::At(at));
        self.lower_stub(&mut lowered)?;
        self.stub_of(&mut lowered, at)
    }

    /// The stub of what was lowered, which is of no use afterwards: what the stub needs is taken out.
    fn stub_of(&self, lowered: &mut Lowered, at: CodeAddr) -> Result<Stub> {
        let vouched = core::mem::take(&mut lowered.vouched);
        let declared = core::mem::take(&mut lowered.declared);
        let mut layout = self.layout(lowered, None);
        layout.is_stub = true;
        layout.choose_forms().map_err(|e| self.unreachable(e))?;
        let mut bytes = Vec::with_capacity(layout.len() as usize);
        layout.write(&mut bytes).map_err(|e| self.unreachable(e))?;
        let holes = self.holes(&mut layout);
        let vouched = declared_at(&layout, at, &vouched);
        Ok(Stub {
            code: StubCode { addr: at, bytes },
            declared: Declared { vouched, ..declared },
            clobbers: lowered.code.clobbers,
            holes,
        })
    }

    /// Lowers the sequence for a stub anywhere near the site. Returns how many bytes it takes at
    /// most.
    fn lower_near(&self, lowered: &mut Lowered) -> Result<Len> {
        self.lower_stub(lowered)?;
        let mut layout = self.layout(lowered, None);
        layout.choose_forms().map_err(|e| self.unreachable(e))?;
        let len = layout.len();
        Ok(Len::new(len.saturating_add(lowered.code.extra)))
    }

    fn refused(&self, refusal: EncodingRefusal, op: u32) -> Error {
        let site = SiteName::of(self.site);
        match refusal {
            EncodingRefusal::NoScratch(purpose) => Error::NoScratch { site, op, purpose },
            EncodingRefusal::Unusable(why) => Error::OperandUnusable { site, op, why },
            EncodingRefusal::Immediate { value, width } => Error::ImmediateTooWide {
                site,
                op,
                value,
                width: width.bytes(),
            },
        }
    }

    fn unreachable(&self, why: Unreachable) -> Error {
        let site = SiteName::of(self.site);
        match why {
            Unreachable::Target { op, from, target } => Error::TargetOutOfReach {
                site,
                op,
                from,
                target,
            },
            Unreachable::Label { op, label } => Error::LabelUnbound {
                site,
                op,
                label: label.get(),
            },
        }
    }
}
