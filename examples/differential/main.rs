//! The differential test: random programs give the same results in the plain interpreter and on patched code.
//!
//! A program creates objects, adds fields, changes classes, methods and the global that compiled code takes for granted, and
//! calls functions of the library of [`language`], whose compiled versions stand on inline caches. It is executed by
//! the interpreter alone; by a runtime with one thread, whose sites are patched in place; and by each of several threads
//! of a runtime with live sites, which share its code, caches and assumptions. Every result of every instruction and
//! the heap at the end are compared.
//!
//!     cargo run --release --example differential -- --programs 100000 --threads 2 --seed 1
//!
//! With the feature `remote` and `--remote` in front, another process executes the patched code.
//!
//! One program again: `--programs 1 --seed` and its seed; though what the programs before it left in the caches is not
//! there then. Those that share a runtime with it begin at a multiple of 64 behind the first seed.
#![allow(unsafe_code, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod compare;
#[path = "../elsewhere/mod.rs"]
mod elsewhere;
#[path = "../tiny_language/language/mod.rs"]
mod language;
mod program;
mod random;

use std::process::ExitCode;
use std::time::Instant;

use compare::{Config, Found, Tally, compare};
use elsewhere::Host;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    let set_up = match args.peek().map(String::as_str) {
        Some(elsewhere::AS_EXECUTOR) => {
            let served = elsewhere::serve(&[]);
            return ExitCode::from(u8::from(served.is_err()));
        }
        Some("--remote") => elsewhere::spawn().and_then(|executor| {
            args.next();
            Ok((Host::There(executor), parse(args)?))
        }),
        _ => parse(args).map(|config| (Host::Here, config)),
    };
    let (host, config) = match set_up {
        Ok(set_up) => set_up,
        Err(what) => {
            eprintln!("{what}\nusage: differential [--remote] [--programs N] [--threads T] [--seed X]");
            return ExitCode::from(2);
        }
    };
    let start = Instant::now();
    let mut shown = 0;
    let found = compare(config, &host, |found| {
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

fn report(config: Config, found: &Found) {
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
    number("entries taken back", |tally| tally.retracted);
    number("entries refused", |tally| tally.refused);
    number("assumptions broken", |tally| tally.counts.breaks);
    number("functions given up", |tally| tally.counts.retired);
    number("frames left, invalidated", |tally| tally.counts.left);
    number("frames left, rare case", |tally| tally.counts.gave_up);
    println!("{} differences", found.differences.len());
}

fn row(what: &str, single: &str, shared: &str) {
    println!("{what:<26}{single:>12}{shared:>12}");
}
