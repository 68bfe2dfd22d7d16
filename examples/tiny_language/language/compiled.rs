//! The objects that LLVM compiled, and what it must be told about their sites: see
//! `examples/objects/tiny/README.md`.

use patchpoint::CallShape;
use patchpoint::addr::RecordId;
use patchpoint::site::EntrySpec;

use super::bytecode::{FunctionId, Op};

/// The objects of this machine's architecture.
macro_rules! objects {
    ($($folder:literal if $cfg:meta),* $(,)?) => {
        $(
            #[cfg($cfg)]
            macro_rules! object {
                ($name:literal) => { include_bytes!(concat!("../../objects/tiny/", $folder, "/", $name, ".o")) };
            }
        )*
    };
}
objects! {
    "x86_64" if target_arch = "x86_64",
    "aarch64" if target_arch = "aarch64",
    "powerpc64le" if all(target_arch = "powerpc64", target_endian = "little"),
    "powerpc64" if all(target_arch = "powerpc64", target_endian = "big"),
    "s390x" if target_arch = "s390x",
    "riscv64" if target_arch = "riscv64",
}

/// Bytes that `make.sh` reserves for a patchpoint.
const SITE: u32 = 48;
/// For a shadow, and at a function's entry, where LLVM can.
const SHADOW: u32 = if cfg!(target_arch = "x86_64") { 8 } else { 16 };
const ENTRY: Option<u32> = match cfg!(any(target_arch = "powerpc64", target_arch = "s390x")) {
    true => None,
    false => Some(16),
};

/// What a compiled version takes for granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// That `scale` is 1.
    Hopeful,
    /// Nothing.
    Careful,
}

/// A function as it was compiled.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    pub(crate) name: &'static str,
    pub(crate) version: Version,
    pub(crate) bytes: &'static [u8],
}

impl Object {
    /// The entry of the function, where it has bytes for it.
    pub(crate) fn entry(&self) -> Option<EntrySpec> {
        // No other site has that ID.
        ENTRY.map(|reserved| EntrySpec::new(self.name, u64::MAX - 1, reserved).args(3).result())
    }
}

/// The best version of a function that takes no more for granted than it may; `None` if it has no
/// compiled one.
pub(crate) fn object(function: FunctionId, may_hope: bool) -> Option<Object> {
    let careful = Version::Careful;
    let (name, version, bytes): (_, _, &[u8]) = match function {
        FunctionId::Area => ("area", careful, object!("area")),
        FunctionId::Grow => ("grow", careful, object!("grow")),
        FunctionId::Total if may_hope => ("total", Version::Hopeful, object!("total")),
        FunctionId::Total => ("total", careful, object!("total_careful")),
        FunctionId::Fold => ("fold", careful, object!("fold")),
        FunctionId::Plus => ("plus", careful, object!("plus")),
        FunctionId::Put => ("put", careful, object!("put")),
        FunctionId::Adder => ("adder", careful, object!("adder")),
        _ => return None,
    };
    Some(Object { name, version, bytes })
}

/// What a site is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SitePurpose {
    /// The instruction itself, by an inline cache.
    Operation,
    /// A state in which the code can be left.
    State,
    /// What the code was not compiled for.
    Rare,
}

/// Where a site is in the interpreter's code. Attached to each site, for its handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BytecodePlace {
    pub(crate) function: FunctionId,
    pub(crate) pc: usize,
    pub(crate) kind: SitePurpose,
}

impl BytecodePlace {
    /// What the ID of a record stands for.
    pub(crate) fn of(id: RecordId) -> Option<Self> {
        let id = id.get();
        Some(Self {
            function: FunctionId::from_number(id / 1000)?,
            pc: (id / 10 % 100) as usize,
            kind: *[SitePurpose::Operation, SitePurpose::State, SitePurpose::Rare].get((id % 10) as usize)?,
        })
    }

    /// The instruction there.
    pub(crate) fn op(self) -> Op {
        self.function.code().ops[self.pc]
    }

    /// How the site was compiled.
    pub(crate) fn shape(self) -> Option<CallShape> {
        Some(match (self.kind, self.op()) {
            (SitePurpose::State, _) => CallShape::shadow(SHADOW),
            (SitePurpose::Rare, _) => CallShape::any_reg(SITE),
            (_, Op::Get { .. }) => CallShape::any_reg(SITE).result().args(1),
            (_, Op::Set { .. }) => CallShape::any_reg(SITE).args(2),
            (_, Op::Call { .. }) => CallShape::c(SITE).result().args(3),
            _ => return None,
        })
    }
}
