//! Stubs that the runtime publishes for a site, for sequences of the site to branch to.

use super::exit_stub::ExitStub;
use super::observe::CodeKind;
use super::prepare::Preparation;
use super::state::States;
use super::{Engine, Shared, state};
use crate::addr::CodeAddr;
use crate::arch::SiteKind;
use crate::sequence::Sequence;
use crate::site::Site;
use crate::{Error, Result};

impl Engine {
    /// Puts a sequence into a stub of its own near the site, checked like any other, and returns
    /// its address, which sequences of this site may have as a target. It ends by a jump to the
    /// site's end unless it leaves otherwise, and stays until the module is unregistered.
    ///
    /// # Errors
    /// What the sequence asks for cannot be had at the site; there is no memory; [`site::Error::SiteForeign`](crate::site::Error::SiteForeign),
    /// [`Error::SiteInvalidated`], [`Error::SiteLost`].
    pub fn publish_stub(&self, site: &Site, sequence: &Sequence) -> Result<CodeAddr> {
        let shared = &self.shared;
        shared.check_here()?;
        // protection: call-sites-publish-no-stubs
        if site.shape().kind() == SiteKind::Call {
            return Err(Error::CallSiteOnly { site: site.name() });
        }
        shared.with_states(|states| Ok(publish(shared, states, site, sequence)?))
    }
}

fn publish(shared: &Shared, states: &mut States, site: &Site, sequence: &Sequence) -> Result<CodeAddr> {
    let index = states.index_of(site, || shared.check_registered(site))?;
    let mut preparation = Preparation::new(shared, states, index, site, false, Box::default());
    let placed = state::check_changeable(site, preparation.old.status)
        .and_then(|()| preparation.copy_out_of_line(sequence));
    let (exit_stubs, stub) = (preparation.exit_stubs, preparation.new.stub);
    let published = placed.and_then(|addr| {
        let stub = stub.as_ref().expect("what was copied is in a stub");
        let range = stub.slot.range();
        shared.publisher.publish(&[range], shared.level)?;
        Ok((addr, range))
    });
    let (addr, range) = match published {
        Ok(published) => published,
        Err(error) => {
            shared.release(exit_stubs, stub);
            return Err(error);
        }
    };
    let made = exit_stubs.iter().map(|exit_stub| {
        (
            CodeKind::of(exit_stub),
            exit_stub.range(),
            exit_stub.stack().to_vec(),
        )
    });
    let made: Vec<_> = made.chain([(CodeKind::Published, range, Vec::new())]).collect();
    let of_no_change = |exit_stub: ExitStub| ExitStub {
        generation: 0,
        ..exit_stub
    };
    let lasting = states.lasting_of(site);
    let lasting = lasting.expect("a site whose index was found has a state");
    lasting
        .exit_stubs
        .extend(exit_stubs.into_iter().map(of_no_change));
    if let Some(stub) = stub {
        lasting.publish(stub.slot);
    }
    if shared.observers.any() {
        shared.tell_published(site, &made);
    }
    Ok(addr)
}
