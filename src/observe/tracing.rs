//! Events of `tracing`.

use tracing::field::display;
use tracing::{debug, trace, warn};

use super::names;
use crate::engine::{Changed, Event, Observer};
use crate::error::SiteName;

/// Hands what the engine does to the subscribers of `tracing`, with the target `patchpoint`:
/// changes and modules as debug events, out-of-line code as trace events, what was refused as
/// warnings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tracing;

const TARGET: &str = "patchpoint";

impl Observer for Tracing {
    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Registered { module } => {
                let (functions, sites) = (module.functions().count(), module.sites().count());
                debug!(target: TARGET, module = ?module.id(), functions, sites, live = module.is_live(), "registered");
            }
            Event::Unregistered { module } => debug!(target: TARGET, module = ?module.id(), "unregistered"),
            Event::Placed(placed) => {
                let (at, len) = (placed.range.start().get(), placed.range.len());
                trace!(target: TARGET, name = names::placed(placed).name, at, len, "placed");
            }
            Event::Changed(changed) => told(changed),
            Event::Settled { site } => debug!(target: TARGET, site = display(site.name()), "settled"),
            Event::Preparing { prepared, of } => trace!(target: TARGET, prepared, of, "preparing"),
            Event::Refused(refused) => {
                let site = refused.site.map(|site| display(site.name()));
                let (error, generation) = (refused.error, refused.generation);
                warn!(target: TARGET, site, generation, %error, after_ns = nanos(refused.after), "refused");
            }
            Event::Reclaimed(reclaimed) => {
                let (at, len) = (reclaimed.range.start().get(), reclaimed.range.len());
                let (generation, waited_ns) = (reclaimed.generation, reclaimed.waited.map(nanos));
                trace!(target: TARGET, site = ?reclaimed.site, generation, at, len, waited_ns, "reclaimed");
            }
        }
    }
}

fn told(changed: &Changed<'_>) {
    let site: &SiteName = &changed.site.name();
    debug!(
        target: TARGET,
        %site,
        became = ?changed.became,
        generation = changed.generation,
        sites = changed.sites,
        prepared_ns = nanos(changed.prepared),
        committed_ns = nanos(changed.committed),
        "changed"
    );
}

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
