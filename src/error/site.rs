//! Which site an error is about.

use super::{Error, SiteName};

impl Error {
    /// The site that it is about, if it is about one.
    #[must_use]
    pub fn site(&self) -> Option<&SiteName> {
        match self {
            Self::CacheField { site, .. }
            | Self::CacheEngine { site, .. }
            | Self::ThreadInSite { site, .. }
            | Self::RecordOutsideFunction { site, .. }
            | Self::SiteEmpty { site, .. }
            | Self::SiteOutsideFunction { site, .. }
            | Self::SiteOverlapsRecord { site, .. }
            | Self::SitesOverlap { site, .. }
            | Self::RecordOverflowed { site, .. }
            | Self::RegisterNotKept { site, .. }
            | Self::ScalableVectors { site, .. }
            | Self::EntryHasNoRecord { site, .. }
            | Self::BranchIntoSite { site, .. }
            | Self::CallFixed { site, .. }
            | Self::CallSiteOnly { site, .. }
            | Self::TooFewLocations { site, .. }
            | Self::ResultNotRegister { site, .. }
            | Self::SiteUndecodable { site, .. }
            | Self::SiteConvention { site, .. }
            | Self::NotLlvmPatchpoint { site, .. }
            | Self::EntryNotNops { site, .. }
            | Self::EntryNotAtStart { site, .. }
            | Self::ReservedBeyondRecorded { site, .. }
            | Self::ReservedLengthNotTold { site, .. }
            | Self::ReservedLengthAmbiguous { site, .. }
            | Self::ReturnOffsetLost { site, .. }
            | Self::SiteInvalidated { site, .. }
            | Self::SiteRedirected { site, .. }
            | Self::SiteLost { site, .. }
            | Self::SiteNotLeavable { site, .. }
            | Self::SiteDescribed { site, .. }
            | Self::SiteTwice { site, .. }
            | Self::SiteChanged { site, .. }
            | Self::BytesChanged { site, .. }
            | Self::NoHandler { site, .. }
            | Self::SiteForeign { site, .. }
            | Self::NoPatchableJump { site, .. }
            | Self::ArmedTooLate { site, .. }
            | Self::ArmedMemory { site, .. }
            | Self::ShadowNotArmed { site, .. }
            | Self::LiveInPlace { site, .. } => Some(site),
            #[cfg(feature = "std")]
            Self::Assemble(refused) => refused.site(),
            #[cfg(feature = "std")]
            Self::Check(refused) => refused.site(),
            Self::RollBackFailed { cause, .. } => cause.site(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    /// The fields are named alike everywhere.
    #[test]
    fn no_error_with_a_site_is_left_out() {
        let (here, _) = include_str!("site.rs").split_once("mod tests").unwrap();
        let mut named = 0;
        let lines = include_str!("mod.rs").lines();
        for line in lines.filter(|line| line.contains("site: Box<SiteName>")) {
            let (variant, _) = line.trim_start().split_once(' ').unwrap();
            assert!(
                here.contains(&alloc::format!("Self::{variant} {{ site, .. }}")),
                "{line}"
            );
            named += 1;
        }
        assert!(named > 30, "{named}");
    }
}
