//! What the command line says, and what was exercised.

use super::stress::{Config, Totals};

/// What the command line says.
pub(crate) fn options(cores: usize) -> Result<Config, String> {
    let mut config = Config {
        seconds: 10.0,
        readers: cores.saturating_sub(1).max(1),
        seed: 1,
        executions: 0,
        disturbed: false,
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
                    "loaded" => {}
                    "settled" => config.settles = true,
                    _ => return Err(format!("--sites: there are no {kind} sites")),
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
    Ok(config)
}

pub(crate) fn print(totals: &Totals) {
    for (what, count) in [
        ("executions", totals.executions),
        ("patches", totals.patches),
        ("restores", totals.restores),
        ("sites invalidated", totals.invalidations),
        ("executions through exit stubs", totals.deoptimized),
        ("modules", totals.modules),
        ("stubs reclaimed", totals.reclaimed),
        ("gates opened: sites settled", totals.opens),
        ("waits of a site for a grace period", totals.waits),
        ("profilers' signals", totals.signals),
        ("children, each with all sites", totals.children),
        ("threads that came and went", totals.threads),
        ("patches by handlers", totals.patches_by_handlers),
        ("failures", totals.failures),
    ] {
        println!("{count:>14} {what}");
    }
}
