//! Small plots of the last hour or day, on the overview.

use std::fmt::Write as _;

use maud::{Markup, html};
use triad_core::Timestamp;
use triad_operator::history::{History, MINUTE, Point, QUARTER};
use triad_workflow::Millis;

use super::text;

/// Width and height of the drawing, in its own units.
const SIZE: (f64, f64) = (300.0, 70.0);

/// A line of a plot: its name, its style class, and its value at a point.
type Line = (&'static str, &'static str, fn(&Point) -> Option<u64>);

/// The plots of the last hour, or of the last day; nothing where there is no history.
pub(super) fn all(history: &History, is_day: bool, now: Timestamp) -> Markup {
    if history.hour.is_empty() {
        return super::nothing();
    }
    let (points, (every, most)) = match is_day {
        true => (&history.day, QUARTER),
        false => (&history.hour, MINUTE),
    };
    let from = now.minus(Millis(every.0 * most as u64));
    let points: Vec<&Point> = points.iter().filter(|point| point.at > from).collect();
    let plot = |title, href, is_time, lines: &[Line]| {
        plot(title, href, is_time, lines, (&points, from, now))
    };
    // The first point is taken at the start, before there is anything to see.
    let is_line = points.len() > 1;
    html! {
        h2 id="plots" { @if is_day { "The last day" } @else { "The last hour" } }
        p class="soft" {
            @if is_day { "In quarters of an hour, with the figures of the newest. " a href="/console/#plots" { "The last hour" } }
            @else { "In minutes, with the figures of the newest. " a href="/console/?range=day#plots" { "The last day" } }
        }
        @if is_line {
            ul class="tiles plots" aria-label="Plots" {
                (plot("Orders in and out", "/console/orders", false, &[
                    ("submitted", "busy", |point| Some(point.submitted)),
                    ("finished", "good", |point| Some(point.finished)),
                ]))
                (plot("Failed", "/console/causes", false, &[("failed", "bad", |point| Some(point.failed))]))
                (plot("Time to the end", "/console/orders?state=Processed", true, &[
                    ("p50", "good", |point| point.p50_ms),
                    ("p99", "warn", |point| point.p99_ms),
                ]))
                (plot("Under way", "/console/orders?state=UnderWay", false, &[("under way", "busy", |point| Some(point.under_way))]))
            }
        } @else {
            p class="soft" { "A line is drawn from the second point on." }
        }
    }
}

/// One plot. The newest value of each line stands below it as text, for readers who cannot see the drawing.
fn plot(
    title: &str,
    href: &str,
    is_time: bool,
    lines: &[Line],
    (points, from, now): (&[&Point], Timestamp, Timestamp),
) -> Markup {
    let values = lines
        .iter()
        .flat_map(|(.., value)| points.iter().filter_map(|p| value(p)));
    let highest = values.max().unwrap_or(0);
    let shown = |value: Option<u64>| match value {
        None => "–".to_owned(),
        Some(value) if is_time => text::span(value),
        Some(value) => value.to_string(),
    };
    let newest = |value: fn(&Point) -> Option<u64>| shown(points.last().and_then(|p| value(p)));
    let (width, height) = SIZE;
    html! {
        li {
            a href=(href) { (title) }
            svg class="plot" viewBox={ "0 0 " (width) " " (height) } role="img" aria-label={ (title) ", at most " (shown(Some(highest))) } {
                line class="tick" x1="0" x2=(width) y1=(height - 1.0) y2=(height - 1.0) {}
                @for (_, class, value) in lines {
                    path class={ "line " (class) } d=(path(points, *value, (from, now), highest)) {}
                }
            }
            div class="soft" {
                "most " (shown(Some(highest)))
                @for (name, class, value) in lines {
                    " " span class={ "state " (class) } { (name) " " (newest(*value)) }
                }
            }
        }
    }
}

/// A line as the path of an SVG. A point without a value, or a gap in which nothing ran, breaks it.
fn path(
    points: &[&Point],
    value: fn(&Point) -> Option<u64>,
    (from, now): (Timestamp, Timestamp),
    highest: u64,
) -> String {
    let (width, height) = SIZE;
    let span = now.since(from).0.max(1) as f64;
    let step = points
        .windows(2)
        .map(|two| two[1].at.since(two[0].at).0)
        .min();
    let mut path = String::new();
    let mut before: Option<Timestamp> = None;
    for point in points {
        let Some(value) = value(point) else {
            before = None;
            continue;
        };
        let x = point.at.since(from).0 as f64 / span * width;
        let y = height - 2.0 - value as f64 / highest.max(1) as f64 * (height - 4.0);
        let is_next = before.is_some_and(|at| point.at.since(at).0 <= step.unwrap_or(0) * 3);
        let command = if is_next { 'L' } else { 'M' };
        // Writing to a text cannot fail.
        let _ = write!(path, "{command}{x:.1} {y:.1}");
        before = Some(point.at);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(minute: u64, submitted: u64) -> Point {
        Point {
            at: Timestamp(minute * 60_000),
            submitted,
            finished: 0,
            failed: 0,
            p50_ms: None,
            p99_ms: None,
            under_way: 0,
        }
    }

    #[test]
    fn a_line_goes_through_its_points_and_breaks_where_nothing_ran() {
        let points = [point(10, 0), point(11, 5), point(40, 10), point(60, 10)];
        let points: Vec<&Point> = points.iter().collect();
        let drawn = path(
            &points,
            |p| Some(p.submitted),
            (Timestamp(0), Timestamp(3_600_000)),
            10,
        );
        assert_eq!(drawn, "M50.0 68.0L55.0 35.0M200.0 2.0M300.0 2.0");
        assert_eq!(
            path(&points, |p| p.p50_ms, (Timestamp(0), Timestamp(1)), 0),
            ""
        );
    }

    #[test]
    fn without_a_history_there_is_no_plot_and_with_one_point_no_line() {
        let none = all(&History::default(), false, Timestamp(0));
        assert_eq!(none.into_string(), "");
        let mut history = History {
            hour: vec![point(1, 7)],
            day: Vec::new(),
        };
        let shown = all(&history, false, Timestamp(120_000)).into_string();
        assert!(!shown.contains("<svg") && shown.contains("from the second point"));
        history.hour.push(point(2, 7));
        let shown = all(&history, false, Timestamp(120_000)).into_string();
        assert!(
            shown.contains("submitted 7") && shown.contains("range=day"),
            "{shown}"
        );
        assert!(
            all(&history, true, Timestamp(120_000))
                .into_string()
                .contains("The last day")
        );
    }
}
