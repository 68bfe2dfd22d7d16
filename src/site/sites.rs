use core::ops::Deref;

use smallvec::SmallVec;

use super::Site;

/// The sites of one ID, in order of registration: a list that is made without an allocation where
/// there is one site, which is the usual case.
#[derive(Clone, Debug, Default)]
pub struct Sites(SmallVec<[Site; 1]>);

impl Deref for Sites {
    type Target = [Site];

    #[inline]
    fn deref(&self) -> &[Site] {
        &self.0
    }
}

impl Sites {
    #[inline]
    pub(super) fn one(site: Site) -> Self {
        Self(SmallVec::from([site]))
    }
}

impl FromIterator<Site> for Sites {
    fn from_iter<I: IntoIterator<Item = Site>>(sites: I) -> Self {
        Self(sites.into_iter().collect())
    }
}

impl IntoIterator for Sites {
    type Item = Site;
    type IntoIter = IntoSites;

    #[inline]
    fn into_iter(self) -> IntoSites {
        IntoSites(self.0.into_iter())
    }
}

impl<'a> IntoIterator for &'a Sites {
    type Item = &'a Site;
    type IntoIter = core::slice::Iter<'a, Site>;

    fn into_iter(self) -> core::slice::Iter<'a, Site> {
        self.0.iter()
    }
}

/// Iterates over the sites of one ID, and gives them away.
#[derive(Debug, Clone)]
pub struct IntoSites(smallvec::IntoIter<[Site; 1]>);

impl Iterator for IntoSites {
    type Item = Site;

    #[inline]
    fn next(&mut self) -> Option<Site> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for IntoSites {}
