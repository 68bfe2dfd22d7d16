//! How times and memory grow with the number of sites: both axes logarithmic, so that what is the
//! same for each site is level.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;
use serde_json::Value;

use super::{number, text};

const SIZE: (u32, u32) = (900, 640);
/// Names of lines are below the chart, where no line is, in so many columns and rows of that
/// height.
const COLUMNS: usize = 2;
const ROW: i32 = 18;
const MARGIN: i32 = 8;

/// A line: its name, and for each number of sites how much of it.
struct NamedCurve<'v> {
    what: &'v str,
    points: Vec<(f64, f64)>,
}

fn line(entry: &Value) -> Result<NamedCurve<'_>, String> {
    let points = entry["points"].as_array().ok_or("no points")?;
    let points = points
        .iter()
        .map(|point| Ok((number(point, "sites")?, number(point, "each")?)))
        .collect::<Result<_, String>>()?;
    let what = text(entry, "what")?;
    Ok(NamedCurve { what, points })
}

pub(super) fn draw(to: &Path, entries: &[Value], caption: &str) -> Result<(), Box<dyn Error>> {
    let lines = entries.iter().map(line).collect::<Result<Vec<_>, _>>()?;
    let all = || {
        lines
            .iter()
            .flat_map(|line| &line.points)
            .filter(|(_, each)| *each > 0.0)
    };
    let most = all().fold(1.0, |most: f64, (sites, _)| most.max(*sites));
    let (low, high) = all().fold((f64::MAX, f64::MIN), |(low, high), (_, each)| {
        (low.min(*each), high.max(*each))
    });
    let area = SVGBackend::new(to, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let area = area.titled(
        "How it grows: nanoseconds or bytes, by number of sites",
        ("sans-serif", 18),
    )?;
    let (_, height) = area.dim_in_pixel();
    let rows = lines.len().div_ceil(COLUMNS) as i32;
    let (area, below) = area.split_vertically(height as i32 - rows * ROW - MARGIN);
    let mut chart = ChartBuilder::on(&area)
        .margin(10)
        .margin_right(40)
        .caption(caption, ("sans-serif", 12))
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d(
            (1.0..most).log_scale(),
            ((low / 2.0).max(0.01)..high * 2.0).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc("sites")
        .y_desc("each: ns or bytes")
        .x_label_formatter(&|sites| format!("{sites:.0}"))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (index, line) in lines.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        let points = line.points.iter().copied().filter(|(_, each)| *each > 0.0);
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?;
        name(&below, index, line.what, colour)?;
    }
    below.present()?;
    Ok(())
}

/// Writes a line's name beside a piece of the line.
fn name<B: DrawingBackend>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    index: usize,
    what: &str,
    colour: RGBAColor,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let (width, _) = area.dim_in_pixel();
    let x = 70 + (index % COLUMNS) as i32 * (width as i32 / COLUMNS as i32);
    let y = (index / COLUMNS) as i32 * ROW + ROW / 2;
    area.draw(&PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)))?;
    area.draw(&Text::new(what, (x + 24, y - 6), ("sans-serif", 12)))
}
