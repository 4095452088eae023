//! Compilation of steps that wait: for a moment, or for events.

use serde_json::Value;

use crate::details::DetailsSchema;
use crate::model::{AwaitDefinition, EventDefinition, OtherwiseDefinition, TimerDefinition};
use crate::moment::zone;
use crate::variables::Variables;
use crate::workflow::{Await, AwaitedEvent, Decision, Otherwise, Timer};

/// Compiles a wait for a moment.
pub(super) fn timer(written: &TimerDefinition, variables: &Variables<'_>) -> Result<Timer, String> {
    match (&written.until, written.span) {
        (Some(until), _) => Ok(Timer::Until {
            at: Box::new(variables.template(&Value::from(until.as_str()))?),
            zone: zone(written.zone.as_deref())?,
        }),
        (None, Some(span)) => Ok(Timer::For(span)),
        (None, None) => Err("its `wait` has neither `for` nor `until`".to_owned()),
    }
}

/// Compiles a wait for events.
pub(super) fn events(
    written: &AwaitDefinition,
    may_be_compensated: bool,
    variables: &Variables<'_>,
) -> Result<Await, String> {
    let of_event = variables.of_event();
    let events = written.events();
    let events = events
        .iter()
        .map(|written| event(written, variables, &of_event));
    let events: Result<Vec<_>, String> = events.collect();
    Ok(Await {
        events: events?,
        needs_all: !written.all_of.is_empty(),
        is_single: written.event.is_some(),
        fails_when: written
            .fails_when
            .as_deref()
            .map(|condition| of_event.bare(condition))
            .transpose()?,
        decision: written.decision.as_ref().map(|decision| Decision {
            by: decision.by.clone(),
            form: decision.form.as_ref().map(DetailsSchema::new),
            remind: decision.remind,
            escalate: decision
                .escalate
                .as_ref()
                .map(|later| (later.after, later.to.clone())),
        }),
        within: written.within,
        otherwise: match written.otherwise {
            Some(OtherwiseDefinition::Continue) => Otherwise::Continue,
            Some(OtherwiseDefinition::Compensate) => Otherwise::Compensate,
            None if may_be_compensated => Otherwise::Compensate,
            Some(OtherwiseDefinition::Error) | None => Otherwise::Error,
        },
    })
}

fn event(
    written: &EventDefinition,
    variables: &Variables<'_>,
    of_event: &Variables<'_>,
) -> Result<AwaitedEvent, String> {
    Ok(AwaitedEvent {
        event: written.event.clone(),
        matches: written
            .matches
            .as_deref()
            .map(|condition| of_event.bare(condition))
            .transpose()?,
        key: written
            .key
            .as_deref()
            .map(|key| variables.template(&Value::from(key)).map(Box::new))
            .transpose()?,
    })
}
