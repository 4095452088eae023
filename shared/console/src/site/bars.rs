//! An order's timeline as bars: a row for the order, one for each step that was begun, and one for operators.

use maud::{Markup, html};
use triad_core::order::{Incident, IncidentKind};
use triad_core::{Direction, Order, StepRecord, StepState, Timestamp, Work};

use super::text;

const LABEL: u64 = 170;
const WIDTH: u64 = 820;
const ROW: usize = 26;
const TICKS: u64 = 4;
/// Narrowest bar that has room for the number of its calls.
const FOR_CALLS: u64 = 30;

/// One bar; a mark where it has no length.
struct Bar {
    from: Timestamp,
    to: Timestamp,
    class: &'static str,
    say: String,
    /// Calls that the service got; 0 where it is no attempt, or nobody has said how many.
    calls: u32,
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
            @let width = to.saturating_sub(from).max(3);
            rect class={ "bar " (bar.class) } x=(from) y=(y + 5) width=(width) height="16" rx="3" {
                title { (bar.say) ", " (text::since(bar.from, bar.to)) }
            }
            @if bar.calls > 1 && width >= FOR_CALLS {
                text class="soft" x=(from + width / 2) y=(y + 17) text-anchor="middle" { (bar.calls) "×" }
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
        calls: 0,
    };
    let mut lines = vec![Line {
        name: "order".to_owned(),
        bars: vec![whole],
    }];
    for record in &order.steps {
        let step = record.step.as_str();
        let of_step = order.incidents.iter();
        let of_step = of_step.filter(|line| line.step.as_ref().is_some_and(|s| s.as_str() == step));
        let mut bars: Vec<Bar> = of_step.clone().filter_map(of_incident).collect();
        let last = of_step.map(|line| line.at).next_back();
        let last = last.filter(|_| order.state.finished_at().is_none());
        bars.extend(of_state(record, last, now));
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
    let calls = line.calls.unwrap_or(0);
    let called = match calls {
        0 => String::new(),
        1 => ", 1 call".to_owned(),
        calls => format!(", {calls} calls"),
    };
    let deferred = match line.what {
        IncidentKind::Deferred => " put off",
        _ => "",
    };
    let kind = match line.direction() {
        Direction::Compensate => "compensation attempt",
        Direction::Forward => "attempt",
        Direction::Probe => "probe",
    };
    Some(Bar {
        from: line.started?,
        to: line.at,
        class,
        say: format!(
            "{kind}{attempt}{deferred}{}{called}",
            failure.unwrap_or_default()
        ),
        calls,
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
        calls: 0,
    })
}

/// What the step's present state tells: its last attempt, or its wait since the `last` line of its timeline.
fn of_state(record: &StepRecord, last: Option<Timestamp>, now: Timestamp) -> Vec<Bar> {
    let bar = |from: Timestamp, to: Timestamp, class, say: String| Bar {
        from,
        to: to.max(from),
        class,
        say,
        calls: 0,
    };
    let mut bars = Vec::new();
    let waits = |since: Option<Timestamp>, what: &str| {
        since.map(|since| bar(since, now, "warn", format!("waits {what}")))
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
            Some(Work::Deferred { .. }) => {
                bars.extend(waits(record.deferred_since, "for its service"))
            }
            Some(Work::Due { .. }) => bars.extend(waits(last, "for its next attempt")),
            None => {}
        },
    }
    bars
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use triad_core::{Attempt, Failure, FailureKind};
    use triad_workflow::{Limits, Workflow};

    use super::*;

    #[test]
    fn attempts_have_their_calls_and_what_waits_is_shown_up_to_now() {
        let definition = json!({"workflow": "w", "steps": [{"id": "a", "agent": "bank",
            "action": "do", "compensation": "none"}]});
        let definition = serde_json::from_value(definition).expect("a definition");
        let workflow = Workflow::compile(definition, &Limits::published()).expect("it is sound");
        let accepted = json!({"order_id": "1", "workflow": format!("w@{}", workflow.hash),
            "submitted_at": 0, "due": 1, "details": {}});
        let accepted = serde_json::from_value(accepted).expect("an order");
        let mut order = Order::new(&accepted, &workflow, Timestamp(0));
        let line = |what, at, calls| Incident {
            step: Some(workflow.steps[0].id.clone()),
            attempt: Some(Attempt(1)),
            started: Some(Timestamp(at - 100)),
            calls,
            ..Incident::new(what, Timestamp(at)).of(&Failure::new(FailureKind::Transient, "x", "y"))
        };
        order.incidents = vec![
            line(IncidentKind::AttemptFailed, 100, Some(3)),
            line(IncidentKind::Deferred, 300, None),
        ];
        order.steps[0].state = StepState::Acting(Work::Due { last: Attempt(1) });
        let svg = of(&order, Timestamp(400)).into_string();
        assert!(
            svg.contains("attempt 1: transient/x: y, 3 calls, 100 ms"),
            "{svg}"
        );
        assert!(svg.contains(">3×</text>"), "{svg}");
        assert!(
            svg.contains("attempt 1 put off: transient/x: y, 100 ms"),
            "{svg}"
        );
        assert!(svg.contains("waits for its next attempt, 100 ms"), "{svg}");
    }
}
