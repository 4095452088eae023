//! Compilation of steps that wait: for a moment, or for events.

use chrono_tz::Tz;
use serde_json::Value;

use crate::expr::Expression;
use crate::model::{AwaitDefinition, EventDefinition, OtherwiseDefinition, TimerDefinition};
use crate::template::Template;
use crate::workflow::{Await, AwaitedEvent, Otherwise, Timer};

/// The variables of the condition of an event.
pub(crate) const EVENT_VARIABLES: [&str; 4] = ["order", "details", "steps", "event"];

/// Compiles a wait for a moment.
pub(super) fn timer(written: &TimerDefinition) -> Result<Timer, String> {
    match (&written.until, written.span) {
        (Some(until), _) => Ok(Timer::Until {
            at: Box::new(Template::compiled(&Value::from(until.as_str()))?),
            zone: zone(written.zone.as_deref())?,
        }),
        (None, Some(span)) => Ok(Timer::For(span)),
        (None, None) => Err("its `wait` has neither `for` nor `until`".to_owned()),
    }
}

/// A time zone by its name in the database of the IANA; UTC if there is no name.
pub(crate) fn zone(name: Option<&str>) -> Result<Tz, String> {
    name.map_or(Ok(Tz::UTC), |name| {
        name.parse()
            .map_err(|_| format!("there is no time zone {name:?}"))
    })
}

/// Compiles a wait for events.
pub(super) fn events(written: &AwaitDefinition, may_be_compensated: bool) -> Result<Await, String> {
    let events: Result<Vec<_>, String> = awaited(written).iter().map(event).collect();
    Ok(Await {
        events: events?,
        needs_all: !written.all_of.is_empty(),
        is_single: written.event.is_some(),
        fails_when: written.fails_when.as_deref().map(over_event).transpose()?,
        within: written.within,
        otherwise: match written.otherwise {
            Some(OtherwiseDefinition::Continue) => Otherwise::Continue,
            Some(OtherwiseDefinition::Compensate) => Otherwise::Compensate,
            None if may_be_compensated => Otherwise::Compensate,
            Some(OtherwiseDefinition::Error) | None => Otherwise::Error,
        },
    })
}

/// The events that a step waits for, in one form.
pub(crate) fn awaited(written: &AwaitDefinition) -> Vec<EventDefinition> {
    let single = written.event.as_ref().map(|event| EventDefinition {
        event: event.clone(),
        matches: written.matches.clone(),
    });
    let several = written.first_of.iter().chain(&written.all_of).cloned();
    single.into_iter().chain(several).collect()
}

fn event(written: &EventDefinition) -> Result<AwaitedEvent, String> {
    Ok(AwaitedEvent {
        event: written.event.clone(),
        matches: written.matches.as_deref().map(over_event).transpose()?,
    })
}

fn over_event(written: &str) -> Result<Expression, String> {
    Expression::compiled_over(condition(written), &EVENT_VARIABLES)
}

/// The text of a condition, which an author may write with `${ … }` around it or without.
pub(crate) fn condition(written: &str) -> &str {
    let text = written.trim();
    let inner = text
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    inner.unwrap_or(text).trim()
}
