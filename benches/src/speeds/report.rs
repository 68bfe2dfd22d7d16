//! The rows as a table for people and as JSON for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Goal, Speed};
use crate::measure::Figure;
use crate::report::time;

fn figure(figure: &Figure, unit: fn(f64) -> String) -> String {
    let [median, min, max] = [figure.median, figure.min, figure.max].map(unit);
    format!("{median:>10}  {min:>10} to {max:>10}")
}

fn bytes(count: f64) -> String {
    format!("{count:.1} B")
}

fn verdict(speed: &Speed) -> String {
    let missed = if speed.is_missed() { "MISSED" } else { "met" };
    let reached = speed
        .reached()
        .map_or("-".into(), |reached| format!("{reached:.2}"));
    match speed.goal {
        Goal::AtMost(goal) => format!("{reached} times that (goal: {goal} or less: {missed})"),
        Goal::Faster(goal) => format!("{reached} times faster (goal: {goal} or more: {missed})"),
        Goal::Bytes(goal) | Goal::Time(goal) => format!("goal: {goal} or less: {missed}"),
        Goal::Stated | Goal::Counted => "no goal".into(),
        Goal::None => format!("{reached} times that"),
    }
}

/// The table: for each row what it takes, what the other takes, and how that compares.
pub fn table(speeds: &[Speed]) -> String {
    let mut out = format!("{:<72} {:>10}  {:>10}    {:>10}\n", "", "median", "min", "max");
    for speed in speeds {
        let unit = match speed.goal {
            Goal::Bytes(_) | Goal::Stated => bytes,
            Goal::Counted => |count| format!("{count:.1}"),
            _ => time,
        };
        let _ = writeln!(out, "{:<72} {}", speed.what, figure(&speed.ours, unit));
        match &speed.theirs {
            Some((with, Ok(theirs))) => {
                let _ = writeln!(out, "  against {with:<62} {}", figure(theirs, time));
                let _ = writeln!(out, "  {}", verdict(speed));
            }
            Some((with, Err(why))) => _ = writeln!(out, "  against {with}: - {why}"),
            None => _ = writeln!(out, "  {}", verdict(speed)),
        }
    }
    out
}

fn spread(figure: &Figure) -> Value {
    json!({"min": figure.min, "median": figure.median, "p90": figure.p90, "max": figure.max})
}

/// A list of objects: `what`, `ours`, `against` with `theirs` or `cannot`, `reached`, `goal`,
/// `goal_is`, `met`. Times are nanoseconds.
pub fn json(speeds: &[Speed]) -> String {
    let one = |speed: &Speed| {
        let mut object = json!({"what": speed.what, "ours": spread(&speed.ours)});
        match &speed.theirs {
            Some((with, Ok(theirs))) => {
                object["against"] = json!(with);
                object["theirs"] = spread(theirs);
            }
            Some((with, Err(why))) => {
                object["against"] = json!(with);
                object["cannot"] = json!(why);
            }
            None => {}
        }
        if let Some(reached) = speed.reached() {
            object["reached"] = json!(reached);
        }
        let (goal, is) = match speed.goal {
            Goal::AtMost(goal) => (goal, "times, at most"),
            Goal::Faster(goal) => (goal, "times faster, at least"),
            Goal::Bytes(goal) => (goal, "bytes, at most"),
            Goal::Time(goal) => (goal, "nanoseconds, at most"),
            Goal::Stated | Goal::Counted | Goal::None => return object,
        };
        object["goal"] = json!(goal);
        object["goal_is"] = json!(is);
        if speed.reached().is_some() {
            object["met"] = json!(!speed.is_missed());
        }
        object
    };
    let list: Vec<Value> = speeds.iter().map(one).collect();
    format!("{:#}\n", Value::from(list))
}
