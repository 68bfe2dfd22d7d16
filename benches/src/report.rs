//! Figures as a table for people and as JSON for programs.

use std::fmt::Write;

use crate::measure::Figure;

/// One comparison, or a time by itself.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was measured.
    pub what: &'static str,
    /// The library's way.
    pub ours: Figure,
    /// What it is compared with.
    pub bare: Option<Bare>,
    /// Whether another thread executed meanwhile.
    pub beside: bool,
}

/// The least that could do the same.
#[derive(Clone, Debug)]
pub struct Bare {
    /// What it is.
    pub what: &'static str,
    /// Its time.
    pub figure: Figure,
    /// The highest ratio of the medians that is good.
    pub goal: Option<f64>,
}

impl Row {
    /// A time by itself.
    pub fn alone(what: &'static str, ours: Figure) -> Self {
        Self {
            what,
            ours,
            bare: None,
            beside: false,
        }
    }

    /// A time alone against the least that could do the same, with the highest ratio that is good.
    pub fn against(
        what: &'static str,
        [ours, figure]: [Figure; 2],
        bare: &'static str,
        goal: Option<f64>,
    ) -> Self {
        let bare = Bare {
            what: bare,
            figure,
            goal,
        };
        Self {
            what,
            ours,
            bare: Some(bare),
            beside: false,
        }
    }

    /// The medians' ratio.
    pub fn ratio(&self) -> Option<f64> {
        self.bare
            .as_ref()
            .map(|bare| self.ours.median / bare.figure.median)
    }

    /// Whether the ratio is as it should be.
    pub fn is_good(&self) -> bool {
        let goal = self.bare.as_ref().and_then(|bare| bare.goal);
        self.ratio().zip(goal).is_none_or(|(ratio, goal)| ratio <= goal)
    }
}

pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns < 10.0 => format!("{ns:.3} ns"),
        ns if ns < 10_000.0 => format!("{ns:.1} ns"),
        ns if ns < 10_000_000.0 => format!("{:.1} us", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}

fn columns(figure: &Figure) -> String {
    format!(
        "{:>10} {:>10} {:>10}",
        time(figure.min),
        time(figure.median),
        time(figure.p90)
    )
}

/// The table.
pub fn table(rows: &[Row]) -> String {
    let mut out = format!("{:<58} {:>10} {:>10} {:>10}\n", "", "min", "median", "p90");
    for row in rows {
        let _ = writeln!(out, "{:<58} {}", row.what, columns(&row.ours));
        let Some((bare, ratio)) = row.bare.as_ref().zip(row.ratio()) else {
            continue;
        };
        let _ = writeln!(out, "  against {:<48} {}", bare.what, columns(&bare.figure));
        let verdict = match bare.goal {
            Some(goal) if ratio <= goal => format!("  (goal: {goal:.2} or less)"),
            Some(goal) => format!("  (MISSED: {goal:.2} or less)"),
            None => String::new(),
        };
        let _ = writeln!(out, "  ratio {ratio:.2}{verdict}");
    }
    out
}

/// The highest ratio of a time with another thread to the time alone that counts as no slower.
const NO_SLOWER: f64 = 1.3;

/// What another thread makes of each time that was taken with and without one.
pub fn beside(rows: &[Row]) -> String {
    let mut out = format!("\nwith another thread against alone (goal: {NO_SLOWER:.2} or less)\n\n");
    for with in rows.iter().filter(|row| row.beside) {
        let alone = rows.iter().find(|row| !row.beside && row.what == with.what);
        if let Some(alone) = alone {
            let ratio = with.ours.median / alone.ours.median;
            // What waits for every core, or is a system call, takes as much longer as the bare one
            // does.
            let bare = ["Immediate", "behind a trap", "ProcMem", "Toggle"]
                .iter()
                .any(|word| with.what.contains(word));
            let waits = bare || with.what.starts_with("invalidate");
            let verdict = match ratio <= NO_SLOWER {
                _ if waits => "",
                true => "met",
                false => "MISSED",
            };
            let _ = writeln!(out, "{:<64} {ratio:.2}  {verdict}", with.what);
        }
    }
    out
}

/// The same as JSON; times are nanoseconds.
pub fn json(rows: &[Row]) -> String {
    let figure = |f: &Figure| {
        format!(
            "{{\"min\": {:.2}, \"median\": {:.2}, \"p90\": {:.2}}}",
            f.min, f.median, f.p90
        )
    };
    let row = |row: &Row| {
        let mut out = format!(
            "  {{\"what\": \"{}\", \"beside\": {}, \"ours\": {}",
            row.what,
            row.beside,
            figure(&row.ours)
        );
        if let Some((bare, ratio)) = row.bare.as_ref().zip(row.ratio()) {
            let _ = write!(
                out,
                ", \"bare\": \"{}\", \"bare_ns\": {}, \"ratio\": {ratio:.4}",
                bare.what,
                figure(&bare.figure)
            );
            if let Some(goal) = bare.goal {
                let _ = write!(out, ", \"goal\": {goal}");
            }
        }
        out + "}"
    };
    let rows: Vec<String> = rows.iter().map(row).collect();
    format!("[\n{}\n]\n", rows.join(",\n"))
}
