//! The split of a patch's latency: a bar for each kind of patch, a part of it for each stage.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;
use serde_json::Value;

use super::text;
use crate::report;

const SIZE: (u32, u32) = (900, 460);
/// One for each stage, told apart by those who see few colours, too.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x33, 0x22, 0x88),
    RGBColor(0x88, 0xcc, 0xee),
    RGBColor(0x44, 0xaa, 0x99),
    RGBColor(0x99, 0x99, 0x33),
    RGBColor(0xdd, 0xcc, 0x77),
    RGBColor(0xcc, 0x66, 0x77),
    RGBColor(0x88, 0x22, 0x55),
    RGBColor(0xbb, 0xbb, 0xbb),
];

pub(super) fn draw(to: &Path, entries: &[Value], caption: &str) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(to, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let small = ("sans-serif", 12);
    area.draw_text(
        "Where the time of one patch goes, share of each stage",
        &("sans-serif", 18).into_text_style(&area),
        (10, 10),
    )?;
    area.draw_text(caption, &small.into_text_style(&area), (10, 34))?;
    let first = entries.first().ok_or("nothing was measured")?;
    let names: Vec<&String> = first["stages"].as_object().ok_or("no stages")?.keys().collect();
    for (at, (name, colour)) in names.iter().zip(COLOURS).enumerate() {
        let left = 10 + at as i32 * 105;
        area.draw(&Rectangle::new([(left, 60), (left + 12, 72)], colour.filled()))?;
        area.draw_text(name, &small.into_text_style(&area), (left + 17, 60))?;
    }
    let (left, width, step) = (10, f64::from(SIZE.0) - 20.0, 70);
    for (at, entry) in entries.iter().enumerate() {
        let top = 95 + at as i32 * step;
        let stages: Vec<f64> = names
            .iter()
            .map(|name| super::number(&entry["stages"], name))
            .collect::<Result<_, _>>()?;
        let all: f64 = stages.iter().sum();
        let title = format!("{}: {}", text(entry, "what")?, report::time(all));
        area.draw_text(&title, &("sans-serif", 14).into_text_style(&area), (left, top))?;
        let mut from = 0.0;
        for (ns, colour) in stages.iter().zip(COLOURS) {
            let part = ns / all.max(1.0) * width;
            let (x, y) = (left + from as i32, top + 20);
            let end = left + (from + part) as i32;
            area.draw(&Rectangle::new([(x, y), (end, y + 24)], colour.filled()))?;
            if part > 60.0 {
                let white = small.into_text_style(&area).color(&WHITE);
                area.draw_text(&report::time(*ns), &white, (x + 4, y + 6))?;
            }
            from += part;
        }
    }
    area.present()?;
    Ok(())
}
