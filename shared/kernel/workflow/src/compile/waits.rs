//! Compilation of steps that wait: for a moment, or for events.

use serde_json::Value;

use crate::expr::Expression;
use crate::model::{AwaitDefinition, EventDefinition, OtherwiseDefinition, TimerDefinition};
use crate::moment::zone;
use crate::template::Template;
use crate::workflow::{Await, AwaitedEvent, Otherwise, Timer};

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

/// Compiles a wait for events.
pub(super) fn events(written: &AwaitDefinition, may_be_compensated: bool) -> Result<Await, String> {
    let events: Result<Vec<_>, String> = written.events().iter().map(event).collect();
    Ok(Await {
        events: events?,
        needs_all: !written.all_of.is_empty(),
        is_single: written.event.is_some(),
        fails_when: written
            .fails_when
            .as_deref()
            .map(Expression::of_event)
            .transpose()?,
        within: written.within,
        otherwise: match written.otherwise {
            Some(OtherwiseDefinition::Continue) => Otherwise::Continue,
            Some(OtherwiseDefinition::Compensate) => Otherwise::Compensate,
            None if may_be_compensated => Otherwise::Compensate,
            Some(OtherwiseDefinition::Error) | None => Otherwise::Error,
        },
    })
}

fn event(written: &EventDefinition) -> Result<AwaitedEvent, String> {
    Ok(AwaitedEvent {
        event: written.event.clone(),
        matches: written
            .matches
            .as_deref()
            .map(Expression::of_event)
            .transpose()?,
    })
}
