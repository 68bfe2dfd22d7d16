//! The comparison as a table for people and as JSON for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Entry, Job};
use crate::measure::Figure;

fn nanoseconds(ns: f64) -> String {
    match ns {
        ns if ns < 10_000.0 => format!("{ns:.1} ns"),
        ns if ns < 10_000_000.0 => format!("{:.1} us", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}

/// A block for each job, and a column for each number of threads: the median, how often it is
/// alias's and how often b, and where the fastest and the slowest batch were. Those who cannot do it
/// have a dash and the reason.
pub fn table(entries: &[Entry]) -> String {
    let mut threads: Vec<usize> = entries.iter().map(|entry| entry.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let mut out = String::new();
    for job in Job::ALL {
        let _ = write!(out, "\n{:<18}", format!("{}, per {}", job.name(), job.per()));
        for count in &threads {
            let _ = write!(out, "{:>58}", format!("{count} threads beside"));
        }
        out.push('\n');
        let of_job = |entry: &&Entry| entry.job == job;
        let first = entries
            .iter()
            .filter(of_job)
            .filter(|entry| entry.threads == threads[0]);
        for entry in first {
            let _ = write!(out, "  {:<16}", entry.who);
            for (column, &count) in threads.iter().enumerate() {
                let median = |job, who| find(entries, job, who, count)?.outcome.as_ref().ok();
                let units = [(job, "alias", "x"), (Job::Single, B, "b")];
                let units = units.map(|(job, who, name)| (median(job, who), name));
                if column == 0 || entry.outcome.is_ok() {
                    out.push_str(&cell(find(entries, job, entry.who, count), &units));
                }
            }
            out.push('\n');
        }
    }
    out
}

/// The bare store of 8 bytes, serialized, whose time is the unit.
pub(crate) const B: &str = "limit-store";

fn find<'e>(entries: &'e [Entry], job: Job, who: &str, threads: usize) -> Option<&'e Entry> {
    let same = |entry: &&Entry| (entry.job, entry.who, entry.threads) == (job, who, threads);
    entries.iter().find(same)
}

fn cell(entry: Option<&Entry>, units: &[(Option<&Figure>, &str)]) -> String {
    let figure = match entry.map(|entry| &entry.outcome) {
        Some(Ok(figure)) => figure,
        Some(Err(why)) => return format!("  - {why}"),
        None => return String::new(),
    };
    let times = |(unit, name): &(Option<&Figure>, &str)| match unit {
        Some(unit) => format!("{:>9.2} {name}", figure.median / unit.median),
        None => format!("{:>11}", ""),
    };
    let times: String = units.iter().map(times).collect();
    let spread = format!("{} to {}", nanoseconds(figure.min), nanoseconds(figure.max));
    format!("{:>12} {times} {spread:>24}", nanoseconds(figure.median))
}

/// A list of objects; those who cannot do a job have the reason as `cannot` instead of times.
pub fn json(entries: &[Entry]) -> String {
    let one = |entry: &Entry| {
        let mut object = json!({
            "what": entry.job.name(),
            "who": entry.who,
            "threads": entry.threads,
            "per": entry.job.per(),
        });
        match &entry.outcome {
            Ok(figure) => times(&mut object, figure),
            Err(why) => object["cannot"] = json!(why),
        }
        object
    };
    let list: Vec<Value> = entries.iter().map(one).collect();
    format!("{:#}\n", Value::from(list))
}

fn times(object: &mut Value, figure: &Figure) {
    object["ns_median"] = json!(figure.median);
    object["ns_min"] = json!(figure.min);
    object["ns_max"] = json!(figure.max);
}
