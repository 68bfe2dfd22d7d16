//! How the frames of a module's functions are found.

/// By what the frame of a function is told from that of its caller, where frames are left or
/// walked.
///
/// The runtime vouches for what it chooses: that every function of the module keeps its frame so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnwindBy {
    /// By the unwind information that came with the code: functions with the attribute `uwtable`.
    #[default]
    EhFrame,
    /// By frame pointers: functions with the attribute `"frame-pointer"="all"`, which all have
    /// saved their return addresses. On PowerPC64 and SystemZ by the back chain, for which SystemZ
    /// needs the attribute `"backchain"` too. On AArch64 a frame pointer does not tell where the
    /// frame ends: the size in the stack map does, so the frame must be of fixed size.
    FramePointers(Saves),
    /// By the sizes in the stack map: functions with records, with frames of fixed size, which can
    /// be walked and not left. Every function has saved its return address: on x86-64 and PowerPC64
    /// where the conventions say, on AArch64 above the word to which its frame pointer points, on
    /// RISC-V in the highest word of the frame, on SystemZ in the place of r14 in its caller's save
    /// area.
    StackSizes,
    /// By what a [flat](crate::stackmap::flat) stack map tells of each function: its frame
    /// registers are where its caller's registers are, and all that it does not list are untouched,
    /// so that its frame can be left. The frame is found by the base register where that is a frame
    /// pointer with a fixed distance to it (x86-64, RISC-V), and by the stack size otherwise. What
    /// is not listed of return address and frame pointer is where [`StackSizes`](Self::StackSizes)
    /// and [`FramePointers`](Self::FramePointers) look for it. The fork's dialect has no frame
    /// registers: with it, frames can be walked and not left.
    FrameRecords,
}

/// Which registers functions save for their callers, besides the frame pointer and the return
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Saves {
    /// None: they do not use registers that functions preserve. Their frames can be left.
    Nothing,
    /// It is not known which, and where: their frames can be walked, and values of their callers in
    /// such registers are not known.
    Unknown,
}
