//! The kinds of code whose sites are stressed, and a module of one of them.

use std::fmt;
use std::str::FromStr;

use patchpoint::Result;
use patchpoint::addr::CodeAddr;
use patchpoint::site::{Module, Site};

use super::running::Scheme;

/// A kind of code with sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SiteKind {
    /// LLVM's patchpoints, in an object that the engine loads.
    Loaded,
    /// Nops, calls and jumps of which no stack map tells.
    Told,
    /// The same in five bytes that no one store can change, or in several nops of that kind.
    Unaligned,
    /// LLVM's patchpoints, where another linker has placed them.
    Remapped,
    /// Functions of this program, which run all the time.
    OwnText,
}

impl SiteKind {
    pub(crate) const ALL: [Self; 5] = [
        Self::Loaded,
        Self::Told,
        Self::Unaligned,
        Self::Remapped,
        Self::OwnText,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::Told => "told",
            Self::Unaligned => "unaligned",
            Self::Remapped => "remapped",
            Self::OwnText => "own-text",
        }
    }

    /// Whether there is such code for this machine. The kinds that are written in assembly are for
    /// x86-64; an emulator's list of mappings is not that of the program's pages, which Remap judges.
    pub(crate) const fn is_available(self) -> bool {
        match self {
            Self::Loaded => true,
            Self::Remapped => cfg!(all(target_os = "linux", not(emulated))),
            Self::Told | Self::Unaligned | Self::OwnText => {
                cfg!(all(target_os = "linux", target_arch = "x86_64"))
            }
        }
    }

    /// Whether threads execute the code all the time, also before it is registered and afterwards.
    /// Then it is as it was, while other code is given up, and invalidated.
    pub(crate) const fn is_running(self) -> bool {
        matches!(self, Self::OwnText)
    }

    /// Whether the same memory is registered again by a later generation.
    pub(crate) const fn comes_again(self) -> bool {
        matches!(self, Self::Remapped | Self::OwnText)
    }
}

impl fmt::Display for SiteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SiteKind {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        match Self::ALL.into_iter().find(|kind| kind.name() == name) {
            Some(kind) if kind.is_available() => Ok(kind),
            Some(_) => Err(format!("there are no {name} sites on this machine")),
            None => Err(format!("there are no {name} sites")),
        }
    }
}

/// What is known of a site of the example, beside what the engine knows.
#[derive(Clone, Debug)]
pub(super) struct KnownSite {
    /// The function that it is in.
    pub(super) function: String,
    pub(super) scheme: Scheme,
    pub(super) as_loaded: AsLoaded,
}

/// Where the code of a site is that was there when it was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AsLoaded {
    /// There was none: the site has been armed as other nops.
    Nops,
    /// In a stub, to which the armed site jumps.
    Stub,
    /// In the site, which is not armed: one store cannot change it, or threads may be in it.
    InPlace,
}

/// A module of one kind of code.
pub(super) struct Part {
    pub(super) kind: SiteKind,
    pub(super) module: Module,
    /// In the same order.
    pub(super) sites: Vec<Site>,
    pub(super) known: Vec<KnownSite>,
}

impl Part {
    /// Of sites whose order is that of their IDs.
    pub(super) fn new(kind: SiteKind, module: Module, known: Vec<KnownSite>) -> Self {
        let mut sites: Vec<Site> = module.sites().collect();
        sites.sort_by_key(Site::id);
        assert_eq!(sites.len(), known.len(), "{kind}");
        Self {
            kind,
            module,
            sites,
            known,
        }
    }

    /// Where the functions of the sites are called; the code may run from now on.
    pub(super) fn release(&self) -> Result<Vec<(u64, Scheme)>> {
        self.module.release();
        let entry = |known: &KnownSite| {
            let entry: CodeAddr = self.module.function(&known.function)?.entry()?;
            Ok((entry.get(), known.scheme))
        };
        self.known.iter().map(entry).collect()
    }
}
