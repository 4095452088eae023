//! An order's timeline as bars: a row for the order, one for each step that was begun, and one for operators.

use maud::{Markup, html};
use triad_core::order::{Incident, IncidentKind};
use triad_core::{Direction, Order, StepRecord, StepState, Timestamp, Work};

use super::text;

const LABEL: u64 = 170;
const WIDTH: u64 = 820;
const ROW: usize = 26;
const TICKS: u64 = 4;

/// One bar; a mark where it has no length.
struct Bar {
    from: Timestamp,
    to: Timestamp,
    class: &'static str,
    say: String,
}

struct Line {
    name: String,
    bars: Vec<Bar>,
}

/// The bars of an order, up to now where it goes on.
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
    }
}

fn anchor(tick: u64) -> &'static str {
    match tick {
        0 => "start",
        TICKS => "end",
        _ => "middle",
    }
}

fn drawn(bar: &Bar, from: u64, to: u64, y: usize) -> Markup {
    html! {
        @if bar.from == bar.to {
            circle class="mark" cx=(from) cy=(y + 13) r="5" { title { (bar.say) } }
        } @else {
            rect class={ "bar " (bar.class) } x=(from) y=(y + 5) width=(to.saturating_sub(from).max(3)) height="16" rx="3" {
                title { (bar.say) ", " (text::since(bar.from, bar.to)) }
            }
        }
    }
}

fn lines(order: &Order, now: Timestamp) -> Vec<Line> {
    let end = order
        .state
        .finished_at()
        .unwrap_or(now)
        .max(order.submitted_at);
    let whole = Bar {
        from: order.submitted_at,
        to: end,
        class: text::class_of(order.state.name()),
        say: format!("the order: {}", order.state.name()),
    };
    let mut lines = vec![Line {
        name: "order".to_owned(),
        bars: vec![whole],
    }];
    for record in &order.steps {
        let step = record.step.as_str();
        let of_step = order.incidents.iter();
        let of_step = of_step.filter(|line| line.step.as_ref().is_some_and(|s| s.as_str() == step));
        let mut bars: Vec<Bar> = of_step.filter_map(of_incident).collect();
        bars.extend(of_state(record, now));
        if !bars.is_empty() {
            lines.push(Line {
                name: step.chars().take(22).collect(),
                bars,
            });
        }
    }
    let acts: Vec<Bar> = order.incidents.iter().filter_map(of_operator).collect();
    if !acts.is_empty() {
        lines.push(Line {
            name: "operators".to_owned(),
            bars: acts,
        });
    }
    lines
}

fn of_incident(line: &Incident) -> Option<Bar> {
    let class = match line.what {
        IncidentKind::AttemptFailed | IncidentKind::CompensationFailed => "bad",
        IncidentKind::Completed => "good",
        IncidentKind::Compensated | IncidentKind::Deferred => "warn",
        IncidentKind::Probed => "busy",
        _ => "none",
    };
    let failure = line.failure.as_ref().map(|f| format!(": {f}"));
    let attempt = line.attempt.map_or_else(String::new, |a| format!(" {a}"));
    let kind = match line.direction() {
        Direction::Compensate => "compensation attempt",
        Direction::Forward => "attempt",
        Direction::Probe => "probe",
    };
    Some(Bar {
        from: line.started?,
        to: line.at,
        class,
        say: format!("{kind}{attempt}{}", failure.unwrap_or_default()),
    })
}

fn of_operator(line: &Incident) -> Option<Bar> {
    let act = line.act.as_ref()?;
    let what = serde_json::to_value(line.what).ok()?;
    let what = what.as_str().unwrap_or_default().to_owned();
    Some(Bar {
        from: line.at,
        to: line.at,
        class: "busy",
        say: format!("{what} by {}: {}", act.by, act.why),
    })
}

/// What the step's present state tells: its last attempt, or its wait.
fn of_state(record: &StepRecord, now: Timestamp) -> Vec<Bar> {
    let bar = |from: Timestamp, to: Timestamp, class, say: String| Bar {
        from,
        to: to.max(from),
        class,
        say,
    };
    let mut bars = Vec::new();
    let waits = |since: Option<Timestamp>| {
        since.map(|since| bar(since, now, "warn", "waits for its service".to_owned()))
    };
    match &record.state {
        StepState::Completed {
            started: Some(started),
            finished,
            attempt,
            ..
        } => bars.push(bar(
            *started,
            *finished,
            "good",
            format!("attempt {attempt}: completed"),
        )),
        StepState::Compensated {
            started: Some(started),
            finished,
            attempt,
        } => {
            let say = format!("compensation attempt {attempt}: compensated");
            bars.push(bar(*started, *finished, "warn", say));
        }
        state => match state.work() {
            Some(Work::Out(out)) => {
                let say = format!("attempt {}: waited for", out.attempt);
                bars.push(bar(out.started, now, "busy", say));
            }
            Some(Work::Failed {
                started, attempt, ..
            }) => {
                let say = format!("attempt {attempt}: failed");
                bars.push(bar(*started, now, "bad", say));
            }
            Some(Work::Deferred { .. }) => bars.extend(waits(record.deferred_since)),
            Some(Work::Due { .. }) | None => {}
        },
    }
    bars
}
