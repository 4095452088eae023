//! An order's timeline as bars: a row for the order, one for each step that was begun, and one for operators.

use maud::{Markup, html};
use triad_core::{Order, StepRecord, Timestamp};

use super::spans::{self, Kind, Span};
use super::text;

const LABEL: u64 = 170;
const WIDTH: u64 = 820;
const ROW: usize = 26;
const TICKS: u64 = 4;
/// Least width of a bar, in units of the drawing, in which the number of calls is printed.
const FOR_CALLS: u64 = 30;

struct BarRow {
    name: String,
    bars: Vec<Span>,
}

/// The bars of an order; up to now if it is not finished.
pub(super) fn of(order: &Order, now: Timestamp) -> Markup {
    let lines = lines(order, now);
    let all = || lines.iter().flat_map(|line| &line.bars);
    let first = all()
        .map(|bar| bar.from)
        .min()
        .unwrap_or(order.submitted_at);
    let last = all().map(|bar| bar.to).max().unwrap_or(now);
    let span = last.since(first).0.max(1);
    let x = |at: Timestamp| {
        let past = u128::from(at.since(first).0) * u128::from(WIDTH) / u128::from(span);
        LABEL + u64::try_from(past).unwrap_or(WIDTH)
    };
    let height = lines.len() * ROW + 30;
    let label = format!(
        "Timeline of order {} as bars, over {}",
        order.id,
        text::span(span)
    );
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Timeline as bars" {
            svg role="img" aria-label=(label) width=(LABEL + WIDTH + 20) height=(height) viewBox={ "0 0 " (LABEL + WIDTH + 20) " " (height) } {
                @for tick in 0..=TICKS {
                    @let at = LABEL + WIDTH * tick / TICKS;
                    line class="tick" x1=(at) x2=(at) y1="0" y2=(height - 22) {}
                    text class="soft" x=(at) y=(height - 6) text-anchor=(anchor(tick)) { "+" (text::span(span * tick / TICKS)) }
                }
                @for (row, line) in lines.iter().enumerate() {
                    @let y = row * ROW;
                    text x="4" y=(y + 18) { (line.name) }
                    @for bar in &line.bars { (drawn(bar, x(bar.from), x(bar.to), y)) }
                }
            }
        }
        p class="note" { "A high bar is an attempt, with the number of its calls (2×) where it is known to have made several; a low one a wait, dashed while the step was deferred." }
    }
}

fn anchor(tick: u64) -> &'static str {
    match tick {
        0 => "start",
        TICKS => "end",
        _ => "middle",
    }
}

fn drawn(bar: &Span, from: u64, to: u64, y: usize) -> Markup {
    let width = to.saturating_sub(from).max(3);
    let title = html! { title { (bar.say) (calls(bar)) ", " (text::since(bar.from, bar.to)) } };
    let (kind, below, height) = match bar.kind {
        Kind::Whole | Kind::Attempt => ("", 5, 16),
        Kind::Wait => (" wait", 9, 8),
        Kind::Deferred => (" deferred", 9, 8),
        Kind::Act => {
            return html! {
                circle class="mark" cx=(from) cy=(y + 13) r="5" { title { (bar.say) } }
            };
        }
    };
    html! {
        rect class={ "bar " (bar.class) (kind) } x=(from) y=(y + below) width=(width) height=(height) rx="3" { (title) }
        @if let Some(calls @ 2..) = bar.calls && width >= FOR_CALLS {
            text class="soft" x=(from + width / 2) y=(y + 17) text-anchor="middle" { (calls) "×" }
        }
    }
}

fn calls(bar: &Span) -> String {
    match bar.calls {
        None | Some(0) => String::new(),
        Some(1) => ", 1 call".to_owned(),
        Some(calls) => format!(", {calls} calls"),
    }
}

fn lines(order: &Order, now: Timestamp) -> Vec<BarRow> {
    let class = text::class_of(order.state.name());
    let of_step = |record: &StepRecord| BarRow {
        name: record.step.as_str().chars().take(22).collect(),
        bars: spans::of_step(order, record, now),
    };
    let order_itself = BarRow {
        name: "order".to_owned(),
        bars: spans::of_order(order, class, now),
    };
    let operators = BarRow {
        name: "operators".to_owned(),
        bars: spans::of_operators(order),
    };
    let lines = std::iter::once(order_itself).chain(order.steps.iter().map(of_step));
    let lines = lines.chain(std::iter::once(operators));
    lines.filter(|line| !line.bars.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use triad_core::order::IncidentKind;
    use triad_core::{Attempt, StepState, Work};

    use super::*;
    use crate::site::spans::tests::{line, order};

    #[test]
    fn attempts_are_high_with_their_calls_and_waits_are_low() {
        let mut order = order();
        order.incidents = vec![
            line(IncidentKind::AttemptFailed, 1, (0, 100), Some(3)),
            line(IncidentKind::Deferred, 2, (150, 200), None),
        ];
        order.steps[0].state = StepState::Acting(Work::Deferred {
            attempt: Attempt(2),
            until: Timestamp(500),
            deferred_since: Timestamp(200),
        });
        let svg = of(&order, Timestamp(400)).into_string();
        let bar = |class: &str, height: u32, title: &str| {
            svg.split("<rect ").any(|rect| {
                rect.starts_with(&format!("class=\"bar {class}\""))
                    && rect.contains(&format!("height=\"{height}\""))
                    && rect.contains(&format!("<title>{title}</title>"))
            })
        };
        for (class, height, title) in [
            ("bad", 16, "attempt 1: transient/x: y, 3 calls, 100 ms"),
            ("none wait", 8, "waited for its next attempt, 50 ms"),
            ("warn", 16, "attempt 2 deferred: transient/x: y, 50 ms"),
            ("warn deferred", 8, "deferred after attempt 2, 200 ms"),
        ] {
            assert!(bar(class, height, title), "{title}: {svg}");
        }
        assert!(svg.contains(">3×</text>"), "{svg}");
    }
}
