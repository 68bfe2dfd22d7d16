//! The checker's refusals. Each is one sentence with the place, what was needed, what was there,
//! and how to mend it; a variant's fields are what its sentence names.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use llvm_stackmaps::addr::{CodeAddr, DwarfReg, Len};
use patchpoint_isa::SiteName;

/// The result of everything here that can fail.
pub type Result<T> = core::result::Result<T, Error>;

/// A number of bytes in words.
fn bytes(number: &impl fmt::Display) -> String {
    match alloc::format!("{number}").as_str() {
        "1" => String::from("1 byte"),
        number => alloc::format!("{number} bytes"),
    }
}

/// Why code, or a change of it, was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "each variant's sentence names its fields, with their units"
)]
pub enum Error {
    /// A patchpoint or shadow comes without its record.
    #[error(
        "{site}: the record is missing, without it no sequence can be checked: register the site with \
         its record"
    )]
    NoRecord { site: Box<SiteName> },
    /// The record names a register that the architecture has not, or that is not known to hold
    /// values.
    #[error(
        "{site}: the record names {register}, which is no register that a value can be in: is the stack \
         map of this architecture?"
    )]
    Register { site: Box<SiteName>, register: DwarfReg },
    /// A sequence declares an output that the site cannot take.
    #[error(
        "{site}: {register} is declared as output, but the site needs its value: only the site's result \
         can be one"
    )]
    Output { site: Box<SiteName>, register: &'static str },
    /// Code that was filled in from a template is not what was asked for.
    #[error(
        "{site}: the sequence that was filled in differs from the one that was checked in more than its values: \
         nothing was written; this is a mistake of the library or damage to its memory, please report it"
    )]
    Filled { site: Box<SiteName> },
    /// The code does not fill the reserved bytes.
    #[error("{site} reserves {}, the code has {have}: pad it with nops, or move code to a stub", bytes(.needed))]
    Length { site: Box<SiteName>, needed: Len, have: u64 },
    /// A stub overlaps the site or another stub, or wraps around the address space.
    #[error(
        "{site}: stub {stub} at {addr} overlaps the site or another stub, or does not fit the address \
         space: place it at another address"
    )]
    Overlap { site: Box<SiteName>, stub: u64, addr: CodeAddr },
    /// Bytes that are no instruction.
    #[error(
        "{at}: no instruction that is known here: every byte of a site and its stubs must decode, also where control \
         never comes, or be vouched for by Sequence::vouched"
    )]
    Undecodable { at: Box<InstructionAt> },
    /// The last instruction does not end with the code.
    #[error("{at}: the instruction is cut off by the end of the code: the last instruction must end with it")]
    CutOff { at: Box<InstructionAt> },
    /// A branch into an instruction, or a call into the site or a stub.
    #[error(
        "{at}: {target} lies in the site or a stub, but is no place that can be branched to from here: \
         jump to an instruction's first byte, call nothing of the sequence itself"
    )]
    BranchInside { at: Box<InstructionAt>, target: CodeAddr },
    /// A branch to an address that is not declared.
    #[error("{at}: branches to {target}, which is not declared: declare it as a target")]
    Undeclared { at: Box<InstructionAt>, target: CodeAddr },
    /// A branch whose destination cannot be determined.
    #[error(
        "{at}: where it goes is not certain: load the address as an immediate into the register on \
         every path, and branch through that"
    )]
    Indirect { at: Box<InstructionAt> },
    /// A call of a target from which control does not come back.
    #[error("{at}: calls {target}, which is declared never to return: jump to it")]
    CallNever { at: Box<InstructionAt>, target: CodeAddr },
    /// A jump to a target that returns, with nothing to return to.
    #[error(
        "{at}: jumps to {target}, which is declared to return, and would do so to the caller of this \
         function: call it"
    )]
    JumpReturns { at: Box<InstructionAt>, target: CodeAddr },
    /// A return where none may be.
    #[error("{at}: only an entry site can return, and without popping arguments: jump to the site's end")]
    Return { at: Box<InstructionAt> },
    /// A stub runs off its end.
    #[error("{at}: control runs off the end of the stub: end it with a jump")]
    StubEnd { at: Box<InstructionAt> },
    /// A shadow's sequence goes on behind the shadow.
    #[error(
        "{at}: control reaches the end of the shadow, whose instructions are overwritten: leave by a \
         jump to an exit stub or another target that never returns"
    )]
    ShadowEnd { at: Box<InstructionAt> },
    /// A write to a register whose value is needed.
    #[error(
        "{at}: writes {register}, whose value is needed after the site or by its record: use the \
         scratch register, or declare the site's result as output"
    )]
    Clobber { at: Box<InstructionAt>, register: &'static str },
    /// A write to flags of arithmetic that somebody may look at.
    #[error(
        "{at}: may change flags of arithmetic, which count as live at a marked site, and at a told one that was not said \
         to have free flags: use instructions that leave them alone, or say `free_flags`"
    )]
    Flags { at: Box<InstructionAt> },
    /// Control leaves for a place that needs a register that may have been written.
    #[error(
        "{at}: leaves with {register} possibly written, whose old value is needed there: leave before \
         writing it"
    )]
    Lost { at: Box<InstructionAt>, register: &'static str },
    /// The stack pointer cannot be followed.
    #[error(
        "{at}: changes the stack pointer by an amount that is not certain: only pushes, pops, and \
         adding or subtracting constants are allowed"
    )]
    StackLost { at: Box<InstructionAt> },
    /// The function's own frame is popped.
    #[error("{at}: pops {by} bytes more than the sequence pushed: they belong to the function")]
    StackPopped { at: Box<InstructionAt>, by: i64 },
    /// Two paths meet with different stack depths.
    #[error(
        "{at}: reached with the stack pointer moved by {depth} bytes from byte {from} and by {other} on \
         another path: make the pushes and pops of the paths agree"
    )]
    StackJoin { at: Box<InstructionAt>, from: u64, depth: i64, other: i64 },
    /// Control leaves with the stack pointer moved.
    #[error("{at}: leaves with the stack pointer moved by {depth} bytes: balance the stack before")]
    StackExit { at: Box<InstructionAt>, depth: i64 },
    /// A C function is called with a misaligned stack.
    #[error(
        "{at}: calls a C function with the stack pointer moved by {depth} bytes: move it by a multiple \
         of {align}"
    )]
    StackAlign { at: Box<InstructionAt>, depth: i64, align: i64 },
    /// A write that may change the red zone, or at an entry the return address.
    #[error(
        "{at}: may write the red zone ({zone} bytes below the stack pointer) or the return address: \
         lower the stack pointer by {zone} bytes before"
    )]
    RedZone { at: Box<InstructionAt>, zone: i64 },
    /// A call from a site of which nobody has said that a callee finds a stack there.
    #[error(
        "{at}: calls, and nobody has said that the stack at this told site is as at a call: say `free_stack` or a convention \
         if it is, or jump to an exit stub"
    )]
    StackNotFree { at: Box<InstructionAt> },
    /// A return offset is not the start of an instruction of the site.
    #[error(
        "{site}: a call may return to byte {return_offset}, where no instruction of the new code starts: wait \
         until no thread is in the call, or use nops there"
    )]
    ReturnOffset { site: Box<SiteName>, return_offset: u32 },
    /// Something other than nops follows a return offset.
    #[error(
        "{at}: a call may return to byte {return_offset} of the site, after which only nops may follow: wait \
         until no thread is in the call, or end the sequence before that byte"
    )]
    ReturnOffsetTail { at: Box<InstructionAt>, return_offset: u32 },
    /// A call may return into a shadow, whose instructions would be overwritten.
    #[error(
        "{site}: a call may return to byte {return_offset} of the site, whose own instructions it needs: wait \
         until no thread is in the call"
    )]
    ShadowReturnOffset { site: Box<SiteName>, return_offset: u32 },
    /// What is to become of a call is not that call with another target.
    #[error("{site}: {what}: this is a defect of the assembler, please report it")]
    Call { site: Box<SiteName>, what: &'static str },
    /// An instruction that no sequence may execute.
    #[error("{at}: {what}")]
    Refused { at: Box<InstructionAt>, what: &'static str },
    /// The bytes of a site before its first patch are no whole instructions.
    #[error(
        "the {} reserved at {addr} are no whole instructions: the one at byte {offset} \
         {what}: check the reserved length and the address", bytes(.reserved))]
    Original { addr: CodeAddr, reserved: u64, offset: u64, what: &'static str },
    /// The bytes of a live site cannot be exchanged under execution.
    #[error(
        "{site} cannot be changed while threads execute it: {what}: leave the nops around the patchable jump as they were armed"
    )]
    Exchange { site: Box<SiteName>, what: &'static str },
}

/// The few kinds that errors have, for callers that treat kinds alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are no code that is known here, or the record is of another architecture.
    Malformed,
    /// A rule is broken.
    Refused,
    /// A mistake of the library, found before anything was written.
    Internal,
}

impl Error {
    /// Which of the few kinds of errors this is.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Register { .. }
            | Self::Undecodable { .. }
            | Self::CutOff { .. }
            | Self::Original { .. } => ErrorKind::Malformed,
            Self::Filled { .. } | Self::Call { .. } => ErrorKind::Internal,
            Self::NoRecord { .. }
            | Self::Output { .. }
            | Self::Length { .. }
            | Self::Overlap { .. }
            | Self::BranchInside { .. }
            | Self::Undeclared { .. }
            | Self::Indirect { .. }
            | Self::CallNever { .. }
            | Self::JumpReturns { .. }
            | Self::Return { .. }
            | Self::StubEnd { .. }
            | Self::ShadowEnd { .. }
            | Self::Clobber { .. }
            | Self::Flags { .. }
            | Self::Lost { .. }
            | Self::StackLost { .. }
            | Self::StackPopped { .. }
            | Self::StackJoin { .. }
            | Self::StackExit { .. }
            | Self::StackAlign { .. }
            | Self::RedZone { .. }
            | Self::StackNotFree { .. }
            | Self::ReturnOffset { .. }
            | Self::ReturnOffsetTail { .. }
            | Self::ShadowReturnOffset { .. }
            | Self::Refused { .. }
            | Self::Exchange { .. } => ErrorKind::Refused,
        }
    }

    /// The site that it is about, if it is about one.
    #[must_use]
    pub const fn site(&self) -> Option<&SiteName> {
        match self {
            Self::NoRecord { site, .. }
            | Self::Register { site, .. }
            | Self::Output { site, .. }
            | Self::Filled { site, .. }
            | Self::Length { site, .. }
            | Self::Overlap { site, .. }
            | Self::ReturnOffset { site, .. }
            | Self::ShadowReturnOffset { site, .. }
            | Self::Call { site, .. }
            | Self::Exchange { site, .. } => Some(site),
            Self::Undecodable { at, .. }
            | Self::CutOff { at, .. }
            | Self::BranchInside { at, .. }
            | Self::Undeclared { at, .. }
            | Self::Indirect { at, .. }
            | Self::CallNever { at, .. }
            | Self::JumpReturns { at, .. }
            | Self::Return { at, .. }
            | Self::StubEnd { at, .. }
            | Self::ShadowEnd { at, .. }
            | Self::Clobber { at, .. }
            | Self::Flags { at, .. }
            | Self::Lost { at, .. }
            | Self::StackLost { at, .. }
            | Self::StackPopped { at, .. }
            | Self::StackJoin { at, .. }
            | Self::StackExit { at, .. }
            | Self::StackAlign { at, .. }
            | Self::RedZone { at, .. }
            | Self::StackNotFree { at, .. }
            | Self::ReturnOffsetTail { at, .. }
            | Self::Refused { at, .. } => Some(&at.site),
            Self::Original { .. } => None,
        }
    }
}

/// One instruction of a checked sequence, in errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionAt {
    /// The site.
    pub site: SiteName,
    /// The stub that the instruction is in, counted from 0; `None` for the site itself.
    pub stub: Option<u32>,
    /// The offset of the instruction in the site or stub, in bytes.
    pub offset: u64,
    /// The address of the instruction.
    pub addr: CodeAddr,
    /// The instruction, in the notation of [`disassemble`](crate::disassemble).
    pub text: String,
}

impl fmt::Display for InstructionAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}` at ", self.site, self.text)?;
        match self.stub {
            None => write!(f, "byte {} of the site", self.offset),
            Some(stub) => write!(f, "byte {} of stub {stub} ({})", self.offset, self.addr),
        }
    }
}
