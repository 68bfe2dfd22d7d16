//! What the example prints.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use patchpoint::arch::Arch;
use patchpoint::arch::registers::register_name;
use patchpoint::deopt::Value;
use patchpoint::site::{Function, Module};
use patchpoint::stackmap::{Location, LocationKind};
use patchpoint::verify::disassemble;

use super::objects::{Object, lookup};

/// Prints as it goes, and counts results that are wrong.
pub(crate) struct Report {
    wrong: usize,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self { wrong: 0 }
    }

    pub(crate) fn title(&self, title: &str) {
        println!(
            "\n━━ {title} {}",
            "━".repeat(96usize.saturating_sub(title.chars().count()))
        );
    }

    pub(crate) fn sites(&self, module: &Module) {
        for site in module.sites() {
            println!("  {site:?}: {} bytes reserved", site.reserved());
            if let Some((record, _)) = site.record() {
                let places: Vec<String> = record.locations().map(place).collect();
                println!("      record: {}", places.join(", "));
            }
        }
    }

    pub(crate) fn text(&self, text: &str) {
        for line in text.lines() {
            println!("  {line}");
        }
    }

    /// The bytes of the function's sites.
    pub(crate) fn bytes(&self, function: &Function) {
        for site in function.sites() {
            println!("  {site:?} now goes to its exit stub");
            for line in disassemble(
                site.module().arch(),
                site.addr(),
                &site.read().unwrap_or_default(),
            ) {
                println!("      {:x}  {}", line.addr.get(), line.text);
            }
        }
    }

    pub(crate) fn lines(&self, title: &str, lines: &[String]) {
        println!("  {title}:");
        for line in lines {
            println!("      {line}");
        }
    }

    /// Calls once and checks the result.
    pub(crate) fn call_once(
        &mut self,
        what: &str,
        objects: &[Object],
        call: &dyn Fn(&[&Object]) -> u64,
        misses: &Mutex<u32>,
    ) {
        let list: Vec<&Object> = objects.iter().collect();
        let before = *misses.lock().unwrap();
        let start = Instant::now();
        let value = call(&list);
        let time = start.elapsed();
        let missed = *misses.lock().unwrap() - before;
        self.check(what, &list, value, missed, time);
    }

    /// Calls, checks the result, and repeats the call for its time where the first has changed
    /// nothing.
    pub(crate) fn call(
        &mut self,
        what: &str,
        objects: &[Object],
        call: &dyn Fn(&[&Object]) -> u64,
        misses: &Mutex<u32>,
    ) {
        self.call_once(what, objects, call, misses);
        let list: Vec<&Object> = objects.iter().collect();
        let times = (0..200).map(|_| {
            let start = Instant::now();
            std::hint::black_box(call(&list));
            start.elapsed()
        });
        let mut times: Vec<Duration> = times.collect();
        times.sort();
        let median = times[times.len() / 2].as_nanos() as f64 / list.len() as f64;
        println!("      and from then on {median:.2} ns a read (median of 200 calls)");
    }

    fn check(&mut self, what: &str, objects: &[&Object], value: u64, missed: u32, time: Duration) {
        let count = objects.len() as u64;
        let expected = objects.iter().map(|object| lookup(object)).sum::<u64>() + count + count / 2;
        let verdict = if value == expected { "right" } else { "WRONG" };
        self.wrong += usize::from(value != expected);
        println!(
            "  {what}: sum_fields returned {value}, which is {verdict}; {missed} misses, {:.1} us",
            time.as_nanos() as f64 / 1000.0
        );
    }

    pub(crate) fn finish(self) -> usize {
        println!(
            "\n{}",
            if self.wrong == 0 {
                "Every result was right."
            } else {
                "Some results were wrong."
            }
        );
        self.wrong
    }
}

/// Live values with their places, a line each.
pub(crate) fn live_values(live: &[(Location, Value)]) -> Vec<String> {
    const NAMES: [&str; 8] = [
        "objects",
        "count",
        "index",
        "sum",
        "&slot",
        "half",
        "large constant",
        "small constant",
    ];
    let line = |(name, (location, value)): (&&str, &(Location, Value))| {
        let shown = match value.f64().filter(|_| *name == "half") {
            Some(number) => format!("{number}"),
            None if *name == "small constant" => format!("{}", value.i64().unwrap_or_default()),
            None => format!("{:#x}", value.u64().unwrap_or_default()),
        };
        format!("{name:<16} {:<14} = {shown}", place(*location))
    };
    NAMES.iter().zip(live).map(line).collect()
}

fn place(location: Location) -> String {
    let register = |reg| {
        let name = Arch::host().and_then(|arch| register_name(arch, reg));
        name.map_or_else(|| format!("{reg}"), |name| name.to_string())
    };
    match location.kind {
        LocationKind::Register { reg, .. } => register(reg),
        LocationKind::Direct { reg, offset } => format!("&[{}{offset:+}]", register(reg)),
        LocationKind::Indirect { reg, offset } => format!("[{}{offset:+}]", register(reg)),
        LocationKind::Constant { value } => format!("#{value}"),
        LocationKind::ConstantIndex { index } => format!("constant {index}"),
    }
}
