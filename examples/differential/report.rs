//! Runs the test as the command line says, and prints what it found.

use std::process::ExitCode;
use std::time::Instant;

use crate::compare::{Config, Findings, Tally, compare};
use crate::host::Host;

/// Runs, with code of that host. Says how the program ends.
pub(crate) fn run(args: impl Iterator<Item = String>, host: &Host) -> ExitCode {
    let config = match parse(args) {
        Ok(config) => config,
        Err(what) => {
            eprintln!("{what}\nusage: [--programs N] [--threads T] [--seed X]");
            return ExitCode::from(2);
        }
    };
    let start = Instant::now();
    let mut shown = 0;
    let found = compare(config, host, |found| {
        found
            .differences
            .iter()
            .skip(shown)
            .for_each(|one| println!("{one}"));
        shown = found.differences.len();
    });
    match found {
        Ok(found) => {
            report(config, &found);
            println!("{:.1} s", start.elapsed().as_secs_f64());
            ExitCode::from(u8::from(!found.differences.is_empty()))
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Config, String> {
    let mut config = Config {
        programs: 1000,
        threads: 2,
        seed: 1,
    };
    while let Some(option) = args.next() {
        let value = args.next().and_then(|value| value.parse::<u64>().ok());
        let value = value.ok_or_else(|| format!("{option} needs a number"))?;
        match option.as_str() {
            "--programs" => config.programs = value,
            "--threads" => config.threads = value.clamp(1, 1024) as usize,
            "--seed" => config.seed = value,
            _ => return Err(format!("{option} is not known")),
        }
    }
    Ok(config)
}

fn report(config: Config, found: &Findings) {
    println!(
        "{} programs of {} instructions, seeds {} to {}: interpreted, on patched code, and on patched code by {} threads",
        found.programs,
        found.instructions,
        config.seed,
        config.seed + config.programs - 1,
        config.threads,
    );
    row("", "1 thread", &format!("{} threads", config.threads));
    let number = |what: &str, of: fn(&Tally) -> u64| {
        row(
            what,
            &of(&found.single).to_string(),
            &of(&found.shared).to_string(),
        );
    };
    number("functions compiled", |tally| tally.counts.tier_ups);
    number("misses", |tally| tally.misses);
    number("entries installed", |tally| tally.installed);
    number("entries retracted", |tally| tally.retracted);
    number("entries refused", |tally| tally.refused);
    number("entries shared", |tally| tally.shared);
    number("assumptions broken", |tally| tally.counts.breaks);
    number("functions retired", |tally| tally.counts.retired);
    number("frames left, invalidated", |tally| tally.counts.left);
    number("frames left, rare case", |tally| tally.counts.rare_exits);
    println!("{} differences", found.differences.len());
}

fn row(what: &str, single: &str, shared: &str) {
    println!("{what:<26}{single:>12}{shared:>12}");
}
