//! Operations with operands in terms of the site to operations on places, and what they may do to
//! the site.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use llvm_stackmaps::addr::{CodeAddr, DwarfReg};
use patchpoint_isa::SiteName;
use patchpoint_isa::conventions::Registers;
use patchpoint_isa::registers::register_name;
use patchpoint_isa::{Declared, DeclaredTarget, OnReturn, RegSet, SiteContext, SiteKind};

use super::assemble::Environment;
use super::builder::{Operation, Sequence};
use super::flow::Flow;
use super::operand::{Operand, Source, Target};
use super::scratch::Free;
use crate::error::{Error, Result};
use crate::op::{Bits, Dest, Op, ValueNumber};

/// Resolves the operations of one sequence at one site, in order.
pub(super) struct Resolver<'s, 'a> {
    pub(super) site: &'s SiteContext<'a>,
    pub(super) registers: &'static Registers,
    env: &'s Environment,
    pub(super) free: &'s Free,
    /// The index of the operation that is being resolved.
    pub(super) op: u32,
    pub(super) flow: Flow<'s>,
    pub(super) declared: Declared,
    /// How many values of the sequence have been passed, in the order of its
    /// [`Outline`](super::Outline).
    values: u32,
    /// Whether operands say which values of the sequence they are.
    pub(super) names_values: bool,
}

/// What any call of the sequence loses.
fn ever_lost(sequence: &Sequence, registers: &Registers) -> RegSet {
    let calls = sequence.operations().iter().map(|operation| match operation {
        Operation::Call {
            on_return: OnReturn::FollowsC,
            ..
        } => registers.lost_in_c_call,
        Operation::Call { .. } => registers.lost_in_any_call,
        _ => RegSet::EMPTY,
    });
    calls.fold(RegSet::EMPTY, RegSet::union)
}

/// What any operation of the sequence writes by name, or as the result.
fn ever_written(sequence: &Sequence, free: &Free) -> RegSet {
    let writes = sequence.operations().iter().map(|operation| match operation {
        Operation::Move { dst, .. } | Operation::Add { dst, .. } | Operation::Bits { dst, .. } => match dst {
            Operand::Reg(reg) => RegSet::of(&[*reg]),
            Operand::Temp => free.temp.into_iter().collect(),
            _ => free.results,
        },
        Operation::Vouched { writes, .. } => *writes,
        _ => RegSet::EMPTY,
    });
    writes.fold(RegSet::EMPTY, RegSet::union)
}

impl<'s, 'a> Resolver<'s, 'a> {
    pub(super) fn new(
        site: &'s SiteContext<'a>,
        registers: &'static Registers,
        env: &'s Environment,
        free: &'s Free,
        sequence: &'s Sequence,
    ) -> Self {
        let flow = Flow::new(
            sequence,
            ever_lost(sequence, registers),
            ever_written(sequence, free),
        );
        Self {
            site,
            registers,
            env,
            free,
            op: 0,
            flow,
            declared: Declared {
                targets: Vec::with_capacity(sequence.outline().targets().len()),
                ..Declared::default()
            },
            values: 0,
            names_values: false,
        }
    }

    /// The registers that the current operation may clobber.
    pub(super) fn free(&self) -> RegSet {
        self.free.at(self.op as usize)
    }

    /// The number of the value in a source, if there is one.
    fn number(&mut self, source: &Source) -> Option<ValueNumber> {
        match source {
            Source::Operand(Operand::Imm(_)) | Source::Mem(_) => self.next_number(),
            Source::Part(part) if matches!(part.operand, Operand::Imm(_)) => self.next_number(),
            Source::Operand(_) | Source::Part(_) => None,
        }
    }

    fn next_number(&mut self) -> Option<ValueNumber> {
        if !self.names_values {
            return None;
        }
        let number = ValueNumber::new(self.values);
        self.values = self.values.wrapping_add(1);
        number
    }

    /// The operation with its operands resolved; `None` for labels.
    pub(super) fn resolve<'o>(&mut self, operation: &'o Operation) -> Result<Option<Op<'o>>> {
        Ok(Some(match operation {
            Operation::Branch {
                cond,
                lhs,
                rhs,
                target,
            } => {
                let numbers = [self.number(lhs), self.number(rhs)];
                let (lhs, rhs, width) = self.compared([lhs, rhs], numbers)?;
                Op::Branch {
                    cond: *cond,
                    lhs,
                    rhs,
                    width,
                    dest: self.dest(*target)?,
                }
            }
            Operation::Move { dst, src } => {
                let (size, number) = (self.written_size(*dst), self.number(src));
                let (src, width, extension) = self.extended(src, number, size)?;
                Op::Move {
                    dst: self.written(*dst)?,
                    src,
                    width,
                    extension,
                }
            }
            Operation::Add { dst, src } => {
                let (size, number) = (self.written_size(*dst), self.number(src));
                let (src, width, extension) = self.extended(src, number, size)?;
                self.operand(*dst, None)?;
                Op::AddToReg {
                    dst: self.written(*dst)?,
                    src,
                    width,
                    extension,
                }
            }
            Operation::Bits { dst, what } => {
                if let Bits::Left(64..) | Bits::Right(64..) | Bits::RightSigned(64..) = what {
                    return self.unusable("a shift by more than 63 bits");
                }
                let number = match what {
                    Bits::And(_) => self.next_number(),
                    _ => None,
                };
                self.operand(*dst, None)?;
                Op::Bits {
                    dst: self.written(*dst)?,
                    what: *what,
                    number,
                }
            }
            Operation::Store { to, src } => {
                let numbers = [self.next_number(), self.number(src)];
                let (to, src, width) = self.stored(to, src, numbers)?;
                Op::Store { to, src, width }
            }
            Operation::AddToMem { to, src, atomic } => {
                let numbers = [self.next_number(), self.number(src)];
                let (to, src, width) = self.stored(to, src, numbers)?;
                Op::AddToMem {
                    to,
                    src,
                    width,
                    atomic: *atomic,
                }
            }
            Operation::Jump(target) => {
                let dest = self.dest(*target)?;
                self.flow.leave();
                Op::Jump(dest)
            }
            Operation::Call { addr, on_return } => self.call(*addr, *on_return)?,
            Operation::Return if self.site.shape.kind() == SiteKind::Entry => {
                self.flow.leave();
                Op::Return
            }
            Operation::Return => {
                return Err(Error::ReturnNotAllowed {
                    site: SiteName::of(self.site),
                    op: self.op,
                });
            }
            Operation::Trap => {
                self.flow.leave();
                Op::Trap
            }
            Operation::Raw(bytes) => Op::Raw(bytes),
            Operation::Vouched { bytes, writes } => {
                for reg in writes.iter() {
                    self.written(Operand::Reg(reg))?;
                }
                Op::Raw(bytes)
            }
            Operation::Bind(label) => {
                self.flow.bind(*label, self.op);
                return Ok(None);
            }
        }))
    }

    /// The register of a destination that may be written.
    fn written(&mut self, dst: Operand) -> Result<DwarfReg> {
        let reg = match dst {
            Operand::Result | Operand::FloatResult => self.result(dst)?,
            Operand::Reg(reg) => reg,
            Operand::Temp => self.temp()?,
            _ => return self.unusable("a destination other than the result or a free register"),
        };
        let is_output =
            matches!(dst, Operand::Result | Operand::FloatResult) || self.free.result == Some(reg);
        if is_output {
            self.declared.outputs = self.declared.outputs.with(reg);
        } else if !self.free.writable.contains(reg) {
            return Err(self.overwrites(reg));
        }
        self.flow.write(reg);
        Ok(reg)
    }

    fn dest(&mut self, target: Target) -> Result<Dest> {
        let (exit_stub, role, kept) = match target {
            Target::End => {
                self.check_kept(RegSet::EMPTY)?;
                return Ok(Dest::End);
            }
            Target::Label(label) => {
                self.flow.branch(label);
                return Ok(Dest::Label(label));
            }
            Target::Addr(addr) => (Some(addr.get()), "", RegSet::EMPTY),
            Target::Miss => (self.env.miss, "miss", self.free.arguments),
            Target::Deopt => (self.env.deopt, "deoptimization", RegSet::EMPTY),
        };
        let Some(addr) = exit_stub else {
            return Err(Error::NoExitStub {
                site: SiteName::of(self.site),
                op: self.op,
                role,
            });
        };
        self.check_kept(kept.union(self.free.recorded))?;
        self.declare(addr, OnReturn::Never);
        Ok(Dest::Addr(addr))
    }

    fn overwrites(&self, reg: DwarfReg) -> Error {
        let (site, name) = (SiteName::of(self.site), self.name(reg));
        Error::OverwritesLive {
            site,
            op: self.op,
            reg,
            name,
        }
    }

    pub(super) fn reads_lost(&self, reg: DwarfReg) -> Error {
        let (site, name) = (SiteName::of(self.site), self.name(reg));
        Error::ReadsLost {
            site,
            op: self.op,
            reg,
            name,
        }
    }

    fn name(&self, reg: DwarfReg) -> String {
        match register_name(self.site.arch, reg) {
            Some(name) => name.to_string(),
            None => reg.to_string(),
        }
    }

    /// Control goes on behind the last operation.
    pub(super) fn fall_through(&self) -> Result<()> {
        self.check_kept(RegSet::EMPTY)
    }

    /// Who takes over looks at these registers, and at what the function itself needs.
    fn check_kept(&self, kept: RegSet) -> Result<()> {
        let kept = kept.union(self.free.kept_for_the_function);
        match self.flow.overwritten().intersection(kept).first() {
            Some(reg) => Err(self.reads_lost(reg)),
            None => Ok(()),
        }
    }

    fn declare(&mut self, addr: CodeAddr, on_return: OnReturn) {
        let target = DeclaredTarget { addr, on_return };
        if !self.declared.targets.contains(&target) {
            self.declared.targets.push(target);
        }
    }

    fn call(&mut self, addr: CodeAddr, on_return: OnReturn) -> Result<Op<'static>> {
        let shape = &self.site.shape;
        let allowed = match shape.kind() {
            SiteKind::Patchpoint => true,
            // A callee changes the flags, and has a frame.
            SiteKind::Told => shape.has_free_flags() && shape.has_free_stack(),
            SiteKind::Shadow | SiteKind::Entry | SiteKind::Marked | SiteKind::Call => false,
        };
        if !allowed {
            return Err(Error::CallNotAllowed {
                site: SiteName::of(self.site),
                op: self.op,
            });
        }
        match on_return {
            OnReturn::Never => {
                return self.unusable("a call of something that does not come back: jump there");
            }
            OnReturn::PreservesAll => self.lose_in_call()?,
            OnReturn::FollowsC => self.lose_caller_saved()?,
        }
        self.declare(addr, on_return);
        Ok(Op::Call(addr))
    }

    /// Whether it is a told site at which nothing is free but what was said to be.
    fn is_told_by_registers(&self) -> bool {
        self.site.shape.kind() == SiteKind::Told && !self.is_c()
    }

    /// A target that preserves all registers still costs those that the call itself needs.
    fn lose_in_call(&mut self) -> Result<()> {
        let lost = self.registers.lost_in_any_call;
        let overwritten = match self.is_told_by_registers() {
            true => lost.difference(self.free.writable),
            false => lost.intersection(self.free.needed),
        };
        if let Some(reg) = overwritten.first() {
            return Err(self.overwrites(reg));
        }
        self.flow.call(lost, RegSet::EMPTY);
        Ok(())
    }

    fn lose_caller_saved(&mut self) -> Result<()> {
        let lost = self.registers.lost_in_c_call;
        let overwritten = if self.is_c() {
            lost.intersection(self.free.needed)
        } else if self.is_told_by_registers() {
            lost.difference(self.free.writable).difference(self.free.results)
        } else {
            lost.difference(self.registers.always_free)
                .difference(self.free.results)
        };
        if let Some(reg) = overwritten.first() {
            return Err(self.overwrites(reg));
        }
        self.declared.outputs = self.declared.outputs.union(self.free.results);
        self.flow.call(lost, self.free.results);
        Ok(())
    }
}
