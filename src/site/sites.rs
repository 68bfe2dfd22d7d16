use core::ops::Deref;
use core::slice;
use std::vec;

use super::Site;

/// The sites of one ID, in order of registration: a list that is made without an allocation where
/// there is one site, which is the usual case.
#[derive(Clone, Debug)]
pub struct Sites(Listed);

#[derive(Clone, Debug)]
enum Listed {
    One(Site),
    Several(Vec<Site>),
}

impl Default for Sites {
    fn default() -> Self {
        Self(Listed::Several(Vec::new()))
    }
}

impl Deref for Sites {
    type Target = [Site];

    #[inline]
    fn deref(&self) -> &[Site] {
        match &self.0 {
            Listed::One(site) => slice::from_ref(site),
            Listed::Several(sites) => sites,
        }
    }
}

impl Sites {
    #[inline]
    pub(super) fn one(site: Site) -> Self {
        Self(Listed::One(site))
    }
}

impl FromIterator<Site> for Sites {
    fn from_iter<I: IntoIterator<Item = Site>>(sites: I) -> Self {
        Self(Listed::Several(sites.into_iter().collect()))
    }
}

impl IntoIterator for Sites {
    type Item = Site;
    type IntoIter = IntoSites;

    #[inline]
    fn into_iter(self) -> IntoSites {
        IntoSites(match self.0 {
            Listed::One(site) => Left::One(Some(site)),
            Listed::Several(sites) => Left::Several(sites.into_iter()),
        })
    }
}

impl<'a> IntoIterator for &'a Sites {
    type Item = &'a Site;
    type IntoIter = slice::Iter<'a, Site>;

    fn into_iter(self) -> slice::Iter<'a, Site> {
        self.iter()
    }
}

/// Iterates over the sites of one ID, and gives them away.
#[derive(Debug, Clone)]
pub struct IntoSites(Left);

#[derive(Debug, Clone)]
enum Left {
    One(Option<Site>),
    Several(vec::IntoIter<Site>),
}

impl Iterator for IntoSites {
    type Item = Site;

    #[inline]
    fn next(&mut self) -> Option<Site> {
        match &mut self.0 {
            Left::One(site) => site.take(),
            Left::Several(sites) => sites.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = match &self.0 {
            Left::One(site) => usize::from(site.is_some()),
            Left::Several(sites) => sites.len(),
        };
        (len, Some(len))
    }
}

impl ExactSizeIterator for IntoSites {}
