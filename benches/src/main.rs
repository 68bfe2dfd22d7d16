//! What the library costs, against the bare calls and against others.

use std::path::PathBuf;
use std::process::ExitCode;

use benches::draw::Pictures;
use benches::ratios::{self, Loops};
use benches::{caches, compare, many, megamorphic, report, scale, speeds, throughput, times};
use clap::{Parser, Subcommand};
use patchpoint::publish::Serializer;

/// Measurements of patchpoint; figures that matter are ratios within one run.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    what: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// What the library costs against the bare calls; fails if a ratio is worse than its goal.
    Ratios {
        /// Prints the loops that are compared.
        #[arg(long)]
        show: bool,
        /// Writes the figures to a file, too.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Inline caches, exit stubs and invalidation; fails if a ratio is worse than its goal.
    Caches {
        /// Prints the loops that are compared.
        #[arg(long)]
        show: bool,
        /// Writes the figures to a file, too.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// The library beside others that patch code.
    Compare {
        /// Writes the figures to a file, too.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// How many threads execute patched code in the second half.
        #[arg(long, value_name = "N", default_value_t = 1)]
        threads: usize,
    },
    /// What is to be reached, each as a ratio within the run; fails if one is missed.
    Speeds {
        /// Writes the figures to a file, too.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Only these parts: patching, bulk, single, reading, lookups, states, loading.
        #[arg(value_name = "PART")]
        parts: Vec<String>,
    },
    /// Where the time of one patch goes, stage by stage.
    #[cfg(feature = "latency")]
    Latency {
        /// Writes the figures to a file, too.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Code of another process beside code of this one.
    #[cfg(target_os = "linux")]
    Remote {
        /// Writes the figures to a file, too.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// `executor`: be the other process, on the standard input.
        #[arg(value_name = "ROLE", hide = true)]
        role: Option<String>,
    },
    /// Draws what `latency` and `scale` have written: latency.svg and scale.svg.
    Draw {
        /// What `latency --json` wrote.
        #[arg(long, value_name = "FILE")]
        latency: PathBuf,
        /// What `scale --json` wrote.
        #[arg(long, value_name = "FILE")]
        scale: PathBuf,
        /// When it was measured, and on what machine.
        #[arg(long, value_name = "TEXT")]
        caption: String,
        /// Where the pictures go.
        folder: PathBuf,
    },
    /// How times and memory grow from 1 to 1,000,000 sites; fails if one grows faster than n log n.
    Scale {
        /// Writes the figures to a file, too.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let done = match Args::parse().what {
        Benchmark::Ratios { show, json } => ratios(show, json),
        Benchmark::Caches { show, json } => cached(show, json),
        Benchmark::Compare { json, threads } => compared(json, threads),
        Benchmark::Speeds { json, parts } => reached(json, &parts),
        Benchmark::Draw {
            latency,
            scale,
            caption,
            folder,
        } => drawn(Pictures {
            latency,
            scale,
            caption,
            folder,
        }),
        Benchmark::Scale { json } => scaled(json),
        #[cfg(feature = "latency")]
        Benchmark::Latency { json } => split(json),
        #[cfg(target_os = "linux")]
        Benchmark::Remote { json, role } => remote(json, role.as_deref()),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn write(file: Option<PathBuf>, text: &str) -> Result<(), String> {
    match file {
        Some(file) => std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display())),
        None => Ok(()),
    }
}

fn drawn(pictures: Pictures) -> Result<ExitCode, String> {
    pictures.draw().map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn ratios(show: bool, json: Option<PathBuf>) -> Result<ExitCode, String> {
    let loops = Loops::new();
    if show {
        println!("{}", loops.show());
    }
    println!(
        "serialized by {}; the patched site has 32 bytes, of which {} are nops; the one written by hand has none\n",
        Serializer::of_this_machine(),
        loops.padding()
    );
    let mut rows = ratios::all();
    rows.extend(throughput::all());
    rows.extend(times::all());
    print!("{}", report::table(&rows));
    let pairs = [
        (false, "alone"),
        (true, "with another thread executing patched code"),
    ];
    for (busy, how) in pairs {
        let mut table = many::all(busy);
        println!("\nprepared before, then timed one after another, {how}; goals are of the medians' ratio\n");
        print!("{}", report::table(&table));
        for row in &mut table {
            row.beside = busy;
        }
        rows.append(&mut table);
    }
    print!("{}", report::beside(&rows));
    write(json, &report::json(&rows))?;
    match rows.iter().all(report::Row::is_good) {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

fn cached(show: bool, json: Option<PathBuf>) -> Result<ExitCode, String> {
    if show {
        println!("{}\n{}", caches::Hits::new().show(), megamorphic::show());
    }
    let rows = caches::all();
    print!("{}{}", report::table(&rows), caches::losses(&rows));
    write(json, &report::json(&rows))?;
    match rows.iter().all(report::Row::is_good) {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

fn compared(json: Option<PathBuf>, threads: usize) -> Result<ExitCode, String> {
    println!(
        "one job done by each in turn, medians, against alias's (x) and a bare store that is serialized (b), and the \
         range; serialized by {}",
        Serializer::of_this_machine()
    );
    let mut entries = compare::all(0);
    if threads > 0 {
        entries.extend(compare::all(threads));
    }
    print!("{}", compare::table(&entries));
    write(json, &compare::json(&entries))?;
    Ok(ExitCode::SUCCESS)
}

fn reached(json: Option<PathBuf>, parts: &[String]) -> Result<ExitCode, String> {
    println!("serialized by {}", Serializer::of_this_machine());
    let speeds = speeds::all(parts);
    print!("{}", speeds::table(&speeds));
    write(json, &speeds::json(&speeds))?;
    match speeds.iter().any(speeds::Speed::is_missed) {
        false => Ok(ExitCode::SUCCESS),
        true => Ok(ExitCode::FAILURE),
    }
}

fn scaled(json: Option<PathBuf>) -> Result<ExitCode, String> {
    let curves = scale::all();
    print!("{}", scale::table(&curves));
    write(json, &scale::json(&curves))?;
    match curves.iter().all(scale::Curve::is_good) {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

#[cfg(feature = "latency")]
fn split(json: Option<PathBuf>) -> Result<ExitCode, String> {
    let splits = benches::latency::all();
    print!("{}", benches::latency::table(&splits));
    write(json, &benches::latency::json(&splits))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(target_os = "linux")]
fn remote(json: Option<PathBuf>, role: Option<&str>) -> Result<ExitCode, String> {
    if role == Some(benches::remote::AS_EXECUTOR) {
        return benches::remote::execute()
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| error.to_string());
    }
    let rows = benches::remote::all();
    print!("{}", report::table(&rows));
    write(json, &report::json(&rows))?;
    Ok(ExitCode::SUCCESS)
}
