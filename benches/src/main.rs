//! `cargo run --release -p benches -- ratios [--show] [--json FILE]`: what the library costs against the bare calls.

use std::process::ExitCode;

use benches::ratios::{self, Loops};
use benches::{many, report, throughput, times};
use patchpoint::publish::Serializer;

const USAGE: &str = "usage: benches ratios [--show] [--json FILE]";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (mut show, mut json) = (false, None);
    if args.next().as_deref() != Some("ratios") {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    while let Some(arg) = args.next() {
        match (arg.as_str(), &mut json) {
            ("--show", _) => show = true,
            ("--json", json @ None) => *json = args.next(),
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
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
    if let Some(file) = json {
        if let Err(error) = std::fs::write(&file, report::json(&rows)) {
            eprintln!("{file}: {error}");
            return ExitCode::FAILURE;
        }
    }
    if rows.iter().all(report::Row::is_good) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
