//! An SVG with two plots of the figures, one above the other.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::offered::Figures;

/// Width and height in pixels.
const SIZE: (u32, u32) = (900, 1000);
const GOODPUT: RGBColor = RGBColor(0, 90, 181);
const HIGH: RGBColor = RGBColor(0, 122, 61);
const STARTED: RGBColor = RGBColor(200, 70, 0);
const IDEAL: RGBColor = RGBColor(120, 120, 120);
const GRID: RGBColor = RGBColor(225, 225, 225);
/// Number of points of the ideal line, which is curved on a logarithmic axis.
const IDEAL_POINTS: u32 = 60;

/// The vertical axis ends at the largest value times this, to leave room for the legend.
const LEGEND_ROOM: f64 = 1.35;
/// The same for a logarithmic vertical axis.
const LEGEND_ROOM_LOG: f64 = 4.0;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Points = Vec<(f64, f64)>;

/// Writes an SVG with two plots against the load, goodput and latency, to `file`, which is overwritten. `best` is the
/// best rate in orders per second; `all` has at least one load.
///
/// # Errors If the file cannot be written.
pub fn write(file: &Path, best: f64, all: &[Figures]) -> Result<()> {
    draw(file, best, all).map_err(|e| anyhow!("{}: {e}", file.display()))
}

fn draw(file: &Path, best: f64, all: &[Figures]) -> Result<()> {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (upper, lower) = root.split_vertically(SIZE.1 / 2);
    let mut loads: Vec<f64> = all.iter().map(|f| f.load).collect();
    loads.sort_by(f64::total_cmp);
    goodput(&upper, &loads, best, all)?;
    latency(&lower, &loads, best, all)?;
    root.present()?;
    Ok(())
}

/// The range of the horizontal axis, with a margin at both ends.
fn span(loads: &[f64]) -> std::ops::Range<f64> {
    let first = loads.first().copied().unwrap_or(1.0);
    let last = loads.last().copied().unwrap_or(1.0);
    first / 1.15..last * 1.15
}

fn goodput(area: &Area, loads: &[f64], best: f64, all: &[Figures]) -> Result<()> {
    let x = span(loads);
    let bend = 1.0_f64.clamp(x.start, x.end);
    let ideal = (0..=IDEAL_POINTS)
        .map(|n| x.start * (bend / x.start).powf(f64::from(n) / f64::from(IDEAL_POINTS)))
        .chain([x.end])
        .map(|load| (load, load.min(1.0) * best));
    let measured = points(all, |f| Some(f.goodput_per_second));
    let top = measured.iter().map(|(_, y)| *y).fold(best, f64::max) * LEGEND_ROOM;
    let mut chart = ChartBuilder::on(area)
        .caption("Goodput against offered load", ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(50)
        .y_label_area_size(75)
        .build_cartesian_2d(
            x.clone().log_scale().with_key_points(loads.to_vec()),
            0.0..top,
        )?;
    chart
        .configure_mesh()
        .x_desc(format!(
            "offered load, as a multiple of the best rate ({best:.0} orders/s)"
        ))
        .y_desc("orders completed per second")
        .x_label_formatter(&|x| format!("{x}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 16))
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    chart
        .draw_series(DashedLineSeries::new(ideal, 6, 4, IDEAL.stroke_width(2)))?
        .label("ideal: all that is offered, up to the best rate")
        .legend(|(x, y)| {
            DashedPathElement::new([(x, y), (x + 20, y)], 6, 4, IDEAL.stroke_width(2))
        });
    chart
        .draw_series(LineSeries::new(
            measured.iter().copied(),
            GOODPUT.stroke_width(2),
        ))?
        .label("goodput")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], GOODPUT.stroke_width(2)));
    chart.draw_series(dots(&measured, GOODPUT))?;
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(IDEAL)
        .label_font(("sans-serif", 14))
        .draw()?;
    Ok(())
}

fn latency(area: &Area, loads: &[f64], best: f64, all: &[Figures]) -> Result<()> {
    let lines = [
        (
            "high orders, from submission",
            HIGH,
            points(all, |f| f.high.p99_ms.map(f64::from)),
        ),
        (
            "normal orders, from their start",
            STARTED,
            points(all, |f| f.started.p99_ms.map(f64::from)),
        ),
    ];
    // The axis begins at a power of ten, at most 100 ms: a logarithmic axis cannot begin at 0.
    let values = || {
        let all = lines.iter().flat_map(|(_, _, points)| points);
        all.map(|(_, y)| y.max(1.0))
    };
    let least = values().fold(100.0, f64::min);
    let low = 10_f64.powf(least.log10().floor());
    let high = values().fold(low, f64::max) * LEGEND_ROOM_LOG;
    let mut chart = ChartBuilder::on(area)
        .caption(
            "99th percentile of latency against offered load",
            ("sans-serif", 22),
        )
        .margin(16)
        .x_label_area_size(50)
        .y_label_area_size(75)
        .build_cartesian_2d(
            span(loads).log_scale().with_key_points(loads.to_vec()),
            (low..high).log_scale().with_key_points(decades(low, high)),
        )?;
    chart
        .configure_mesh()
        .x_desc(format!(
            "offered load, as a multiple of the best rate ({best:.0} orders/s)"
        ))
        .y_desc("milliseconds, of orders that completed")
        .x_label_formatter(&|x| format!("{x}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 16))
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (name, colour, points) in &lines {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        chart.draw_series(dots(points, *colour))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(IDEAL)
        .label_font(("sans-serif", 14))
        .draw()?;
    Ok(())
}

/// 1, 2 and 5 of each decade from `low` to `high`.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let mut marks = Vec::new();
    let mut decade = low;
    while decade <= high {
        marks.extend([decade, 2.0 * decade, 5.0 * decade]);
        decade *= 10.0;
    }
    marks.retain(|mark| *mark <= high);
    marks
}

/// The points of all loads that have this value: load and value, sorted by load.
fn points(all: &[Figures], value: impl Fn(&Figures) -> Option<f64>) -> Points {
    let mut points: Points = all
        .iter()
        .filter_map(|f| Some((f.load, value(f)?)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn dots(points: &[(f64, f64)], colour: RGBColor) -> impl Iterator<Item = Circle<(f64, f64), i32>> {
    points
        .iter()
        .map(move |at| Circle::new(*at, 4, colour.filled()))
}
