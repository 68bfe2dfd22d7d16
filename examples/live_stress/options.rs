//! What the command line says, and what was exercised.

use super::stress::{Config, SiteKind, Totals};

/// What the command line says.
pub(crate) fn options(cores: usize) -> Result<Config, String> {
    let mut config = Config {
        seconds: 10.0,
        readers: cores.saturating_sub(1).max(1),
        seed: 1,
        executions: 0,
        disturbed: false,
        sites: Vec::new(),
        settles: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        if option == "--disturbed" {
            config.disturbed = true;
            continue;
        }
        let value = args.next().ok_or(format!("{option} needs a value"))?;
        if option == "--sites" {
            for kind in value.split(',') {
                match kind {
                    "settled" => config.settles = true,
                    "all" => config
                        .sites
                        .extend(SiteKind::ALL.iter().filter(|kind| kind.is_available())),
                    _ => config
                        .sites
                        .push(kind.parse().map_err(|error| format!("--sites: {error}"))?),
                }
            }
            continue;
        }
        let parsed = match option.as_str() {
            "--seconds" => value.parse().map(|seconds| config.seconds = seconds).is_ok(),
            "--readers" => value.parse().map(|readers| config.readers = readers).is_ok(),
            "--executions" => value.parse().map(|least| config.executions = least).is_ok(),
            "--seed" => value.parse().map(|seed| config.seed = seed).is_ok(),
            _ => return Err(format!("{option} is no option")),
        };
        if !parsed {
            return Err(format!("{option}: {value} is no number"));
        }
    }
    if config.sites.is_empty() {
        config.sites.push(SiteKind::Loaded);
    }
    config.sites.sort_by_key(|kind| *kind as usize);
    config.sites.dedup();
    Ok(config)
}

pub(crate) fn print(config: &Config, totals: &Totals) {
    let line = |count: u64, what: &str| println!("{count:>14} {what}");
    line(totals.executions, "executions");
    line(totals.patches(), "patches");
    line(totals.restores(), "restores");
    for kind in &config.sites {
        let of_kind = totals.kind(*kind);
        line(
            of_kind.patches,
            &format!("patches of {kind} sites, {} with calls", of_kind.calls),
        );
        if kind.comes_again() {
            line(
                of_kind.again,
                &format!("modules of {kind} code that had been one before"),
            );
        }
    }
    for (count, what) in [
        (totals.invalidations, "sites invalidated"),
        (totals.deoptimized, "executions through exit stubs"),
        (totals.modules, "modules"),
        (totals.reclaimed, "stubs reclaimed"),
        (totals.closes, "gates closed"),
        (totals.traps, "traps taken at gates"),
        (totals.waits, "waits of a site for a grace period"),
        (totals.opens, "gates opened: sites settled"),
        (totals.signals, "profilers' signals"),
        (totals.behind, "threads found behind a gate"),
        (totals.children, "children, each with all sites"),
        (totals.threads, "threads that came and went"),
        (totals.patches_by_handlers, "patches by handlers"),
        (totals.failures, "failures"),
    ] {
        line(count, what);
    }
}
