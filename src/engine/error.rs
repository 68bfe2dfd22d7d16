//! The engine's error, which wraps those of the rooms below it. Each variant is one sentence with
//! the place, what was needed, what was there, and how to mend it; a variant's fields are what its
//! sentence names.

use crate::addr::{CodeAddr, CodeRange, Len, RecordId};
use crate::arch::Arch;
use crate::error::{ErrorKind, Fate, ProviderError, SiteName};
use crate::{image, memory, publish, site, stackmap};

/// The result of everything here that can fail.
pub type Result<T> = core::result::Result<T, Error>;

/// Why something was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "each variant's sentence names its fields, with their units"
)]
pub enum Error {
    /// Memory refuses, or fails.
    #[error(transparent)]
    Memory(memory::Error),
    /// Code cannot be published, or threads not be stopped.
    #[error(transparent)]
    Publish(publish::Error),
    /// A module or a site is refused.
    #[error(transparent)]
    Site(site::Error),
    /// What a compiler wrote about its code cannot be read.
    #[error(transparent)]
    Tables(#[from] stackmap::Error),
    /// The displacement of a field cannot be had.
    #[error(
        "{site}: a field of a cache entry is more than 2 GiB from its object: give a displacement in reach"
    )]
    CacheField { site: Box<SiteName> },
    /// Caches belong to one engine.
    #[error("{site}: these caches are attached to sites of another engine: make caches for each engine")]
    CacheEngine { site: Box<SiteName> },
    /// A sequence cannot be assembled for its site, or its text cannot be read.
    #[error(transparent)]
    Assemble(#[from] patchpoint_asm::Error),
    /// The checker refuses a sequence, an exchange or a call, or does not understand what a site
    /// holds.
    #[error(transparent)]
    Check(#[from] patchpoint_verify::Error),
    /// An object cannot be read, or a graph not linked.
    #[error(transparent)]
    Link(#[from] patchpoint_link::Error),
    /// Code of somebody else's is not taken over.
    #[error(transparent)]
    Adoption(image::AdoptionError),
    /// An implementation of a trait of this crate has failed or refuses: somebody else's, whose
    /// error it is, or that of [`Exits`](super::Exits) which is here, whose error is
    /// [`deopt::Error`](crate::deopt::Error), and made again from this one.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// A thread is inside a site that is to be changed.
    #[error(
        "{site}: thread {thread} {} byte {offset} of it: wait until it has left",
        if *.returns { "may return to" } else { "executes" }
    )]
    ThreadInSite { site: Box<SiteName>, thread: i32, offset: Len, returns: bool },
    /// Threads are to be looked for by a world that does not.
    #[error(
        "this world does not look for threads in sites: use one that stops them by signal, or promise a grace period"
    )]
    WorldDoesNotLook,
    /// Memory whose writing allocates, under a world that stops threads in the middle of anything,
    /// the allocator included.
    #[error(
        "{range} would be written by {strategy}, which allocates, and the engine's world stops threads anywhere: let the \
         engine load the code (Alias), adopt it where ProcMem works, or build the engine with a world that stops threads \
         at places of their own"
    )]
    MemoryAllocates { range: CodeRange, strategy: &'static str },
    /// No call of the function has been recorded.
    #[error("no call of {function:?} is a site: ask for it by name when the code that calls it is loaded")]
    NoCallSite { function: String },
    /// A change was asked for a call site that is for others, or the other way round.
    #[error("{site}: a call site can only be retargeted and restored, and no other site can be retargeted")]
    CallSiteOnly { site: Box<SiteName> },
    /// The engine was given no world.
    #[error(
        "an engine needs a world: say how the runtime's threads are stopped, or promise that there is one thread"
    )]
    NoWorld,
    /// Code of this machine cannot be patched.
    #[error("there is no engine for {host} machines: code is patched on machines of its own architecture")]
    NoHost { host: &'static str },
    /// The module is not registered with this engine.
    #[error("the module is not registered with this engine, or not any more")]
    ModuleForeign,
    /// The original bytes of a site would not keep a return offset.
    #[error(
        "{site}: a return address may point at byte {return_offset} of it, where its original bytes have no nops up to the end: wait for a grace period first, or patch it with a sequence that has"
    )]
    ReturnOffsetLost { site: Box<SiteName>, return_offset: u32 },
    /// No site has that ID.
    #[error(
        "no registered site has ID {id}: LLVM may have merged or removed the call, or its module is not registered"
    )]
    NoSuchSite { id: RecordId },
    /// A change was asked for a site that has been invalidated.
    #[error("{site} has been invalidated, which is for good: compile the function anew")]
    SiteInvalidated { site: Box<SiteName> },
    /// A change other than another redirection was asked for a site that has been redirected.
    #[error("{site} has been redirected: redirect it again, or compile the function anew")]
    SiteRedirected { site: Box<SiteName> },
    /// A function without an entry site was to be redirected.
    #[error("{function} at {addr} has no entry site: give one when its module is registered")]
    NoEntrySite { function: String, addr: CodeAddr },
    /// A function without a site that could be invalidated was to be invalidated.
    #[error(
        "{function} at {addr} has no patchpoint or shadow to invalidate: register those of its records, or give it an entry site \
         and redirect it"
    )]
    NothingToInvalidate { function: String, addr: CodeAddr },
    /// The engine of a module is gone.
    #[error("the engine that this module was registered with is gone: keep a handle of it")]
    EngineGone,
    /// A change was asked for a site that a failed roll-back left in doubt.
    #[error("{site} was left in doubt by a roll-back that failed: do not execute it, unregister its module")]
    SiteLost { site: Box<SiteName> },
    /// The frame at a site cannot be left, and handlers will want to.
    #[error(
        "the frame at {site} cannot be left for its caller: {reason}; or say how the module's frames are found, or that they are not left"
    )]
    SiteNotLeavable { site: Box<SiteName>, reason: String },
    /// A transaction names a site twice.
    #[error("the transaction changes {site} twice: commit the first change before the second")]
    SiteTwice { site: Box<SiteName> },
    /// The site was changed, or its module released, after the transaction was prepared.
    #[error(
        "{site} has been changed, or its module released, since the transaction was prepared: prepare it again"
    )]
    SiteChanged { site: Box<SiteName> },
    /// The bytes of a site are not those that the engine wrote or found.
    #[error("{site} should hold {expected:02x?} and holds {found:02x?}: something else writes there")]
    BytesChanged { site: Box<SiteName>, expected: Vec<u8>, found: Vec<u8> },
    /// A transaction failed, and so did taking it back.
    #[error("{cause}; and taking the transaction back left {} sites in doubt: {sites:?}", sites.len())]
    RollBackFailed { cause: Box<Error>, sites: Vec<(SiteName, Fate)> },
    /// The engine has no handler for what the sequence or the change needs.
    #[error(
        "{site} needs an exit stub to a {role} handler, and the engine has none: give it one when it is built"
    )]
    NoHandler { site: Box<SiteName>, role: &'static str },
    /// The code is for another architecture than the engine.
    #[error("the module is for {found}, the engine runs {host}")]
    ForeignArch { found: Arch, host: Arch },
    /// Code that is to be live may have run, and can be changed neither by one store nor behind a trap.
    #[error(
        "{site} cannot be armed, as its code may have run: register it before it runs, adopted code as `not_yet_run`; \
         or begin it with a nop or jump that one store can exchange"
    )]
    ArmedTooLate { site: Box<SiteName> },
    /// Code that is to be live lies in memory that cannot be written under execution.
    #[error(
        "{site} lies in memory written by {strategy}, which has no atomic store ({why}): let the engine load the code"
    )]
    ArmedMemory { site: Box<SiteName>, strategy: &'static str, why: String },
    /// A sequence that refuses a stub was given to a live site.
    #[error("{site} is live, where sequences are in stubs, and this one refuses to: drop `in_place_only`")]
    LiveInPlace { site: Box<SiteName> },
}

impl Error {
    /// Which of the few kinds of errors this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Memory(why) => why.kind(),
            Self::Publish(why) => why.kind(),
            Self::Site(why) => why.kind(),
            Self::Tables(why) => why.kind().into(),
            Self::Assemble(why) => why.kind().into(),
            Self::Check(why) => why.kind().into(),
            Self::Link(why) => why.kind().into(),
            Self::Adoption(why) => why.kind(),
            Self::Provider(why) => why.kind(),
            Self::WorldDoesNotLook { .. }
            | Self::MemoryAllocates { .. }
            | Self::NoHost { .. }
            | Self::SiteNotLeavable { .. }
            | Self::ForeignArch { .. }
            | Self::ArmedMemory { .. } => ErrorKind::Unsupported,
            Self::NoCallSite { .. }
            | Self::NoSuchSite { .. }
            | Self::NoEntrySite { .. }
            | Self::NothingToInvalidate { .. }
            | Self::NoHandler { .. } => ErrorKind::NotFound,
            Self::CacheField { .. }
            | Self::CacheEngine { .. }
            | Self::CallSiteOnly { .. }
            | Self::NoWorld { .. }
            | Self::SiteRedirected { .. }
            | Self::SiteTwice { .. }
            | Self::ArmedTooLate { .. }
            | Self::LiveInPlace { .. } => ErrorKind::Refused,
            Self::ThreadInSite { .. } | Self::ReturnOffsetLost { .. } => ErrorKind::Busy,
            Self::SiteChanged { .. } | Self::BytesChanged { .. } => ErrorKind::Changed,
            Self::ModuleForeign { .. } | Self::SiteInvalidated { .. } | Self::EngineGone { .. } => {
                ErrorKind::Gone
            }
            Self::SiteLost { .. } | Self::RollBackFailed { .. } => ErrorKind::Broken,
        }
    }

    /// The site that it is about, if it is about one.
    #[must_use]
    pub fn site(&self) -> Option<&SiteName> {
        match self {
            Self::CacheField { site, .. }
            | Self::CacheEngine { site, .. }
            | Self::ThreadInSite { site, .. }
            | Self::CallSiteOnly { site, .. }
            | Self::ReturnOffsetLost { site, .. }
            | Self::SiteInvalidated { site, .. }
            | Self::SiteRedirected { site, .. }
            | Self::SiteLost { site, .. }
            | Self::SiteNotLeavable { site, .. }
            | Self::SiteTwice { site, .. }
            | Self::SiteChanged { site, .. }
            | Self::BytesChanged { site, .. }
            | Self::NoHandler { site, .. }
            | Self::ArmedTooLate { site, .. }
            | Self::ArmedMemory { site, .. }
            | Self::LiveInPlace { site, .. } => Some(site),
            Self::Site(refused) => refused.site(),
            Self::Assemble(refused) => refused.site(),
            Self::Check(refused) => refused.site(),
            Self::RollBackFailed { cause, .. } => cause.site(),
            _ => None,
        }
    }
}

/// An error of memory's, or the one of a link or a provider that it hands on.
impl From<memory::Error> for Error {
    fn from(error: memory::Error) -> Self {
        match error {
            memory::Error::Link(why) => Self::Link(*why),
            memory::Error::Provider(why) => Self::Provider(why),
            own => Self::Memory(own),
        }
    }
}

/// An error of publishing, or the one of memory or of a provider that it hands on.
impl From<publish::Error> for Error {
    fn from(error: publish::Error) -> Self {
        match error {
            publish::Error::Memory(error) => error.into(),
            publish::Error::Provider(why) => Self::Provider(why),
            own => Self::Publish(own),
        }
    }
}

/// An error of a site, or the one of tables, a link, memory or a provider that it hands on.
impl From<site::Error> for Error {
    fn from(error: site::Error) -> Self {
        match error {
            site::Error::Tables(why) => Self::Tables(why),
            site::Error::Link(why) => Self::Link(*why),
            site::Error::Memory(error) => error.into(),
            site::Error::Provider(why) => Self::Provider(why),
            own => Self::Site(own),
        }
    }
}

/// An error of an adoption, or the one of tables that it hands on.
impl From<image::AdoptionError> for Error {
    fn from(error: image::AdoptionError) -> Self {
        match error {
            image::AdoptionError::Tables(why) => Self::Tables(why),
            own => Self::Adoption(own),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::FnOffset;
    use crate::error::testing::names_all_sites;

    /// Whoever asks for an error finds it in one place, whichever room it came through.
    #[test]
    fn what_a_room_hands_on_is_not_wrapped_twice() {
        let forked = memory::Error::EngineForked;
        let through = Error::from(publish::Error::Memory(forked.clone()));
        assert_eq!(through, Error::Memory(forked));
        let why = ProviderError::new(std::io::Error::other("it is cut"));
        let handed = [
            Error::from(memory::Error::from(why.clone())),
            Error::from(publish::Error::from(why.clone())),
            Error::from(publish::Error::Memory(why.clone().into())),
        ];
        assert!(handed.iter().all(|error| *error == Error::Provider(why.clone())));
        let unfinished = patchpoint_link::Error::LinkUnfinished {
            waiting_for: "f".into(),
        };
        let handed = [
            Error::from(memory::Error::from(unfinished.clone())),
            Error::from(site::Error::from(unfinished.clone())),
            Error::from(site::Error::from(memory::Error::from(unfinished.clone()))),
        ];
        assert!(
            handed
                .iter()
                .all(|error| *error == Error::Link(unfinished.clone()))
        );
        assert_eq!(handed[0].kind(), ErrorKind::Busy);
        let forked = memory::Error::EngineForked;
        let through = Error::from(site::Error::from(forked.clone()));
        assert_eq!(through, Error::Memory(forked));
        assert_eq!(Error::from(site::Error::from(why.clone())), Error::Provider(why));
        let unreadable = stackmap::Error::RecordsWithoutFunction { functions: 0 };
        let handed = [
            Error::from(site::Error::from(unreadable.clone())),
            Error::from(image::AdoptionError::from(unreadable.clone())),
        ];
        assert!(
            handed
                .iter()
                .all(|error| *error == Error::Tables(unreadable.clone()))
        );
    }

    /// A kind and a sentence are those of the error that is wrapped.
    #[test]
    fn kinds_and_sentences_are_those_of_what_is_wrapped() {
        let stops = publish::Error::WorldNotStopped { why: "it does not" };
        let wrapped = Error::from(stops.clone());
        assert_eq!(wrapped.kind(), ErrorKind::Busy);
        assert_eq!(
            alloc::string::ToString::to_string(&wrapped),
            "the threads could not be stopped: it does not"
        );
        assert_eq!(Error::EngineGone.kind(), ErrorKind::Gone);
        let name = SiteName {
            kind: None,
            id: RecordId::new(78),
            function: Some("f".into()),
            offset: FnOffset::new(4),
            addr: CodeAddr::new(0x1004),
        };
        let empty = site::Error::SiteEmpty {
            site: Box::new(name.clone()),
        };
        let wrapped = Error::from(empty.clone());
        assert_eq!(wrapped.to_string(), empty.to_string());
        assert_eq!(
            (wrapped.kind(), wrapped.site()),
            (ErrorKind::Refused, Some(&name))
        );
    }

    /// What changes sites returns these by value.
    #[test]
    fn wrapping_takes_no_room() {
        assert_eq!(size_of::<Error>(), size_of::<patchpoint_link::Error>());
    }

    /// The fields are named alike everywhere.
    #[test]
    fn no_error_with_a_site_is_left_out() {
        assert!(names_all_sites(include_str!("error.rs")) > 15);
    }
}
