//! Timers: until when a step waits.

use serde_json::Value;
use triad_workflow::moment::moment;
use triad_workflow::{EvalError, Template, Timer};

use crate::context::{Context, NeedsDetails};
use crate::ids::Timestamp;
use crate::input;
use crate::order::Order;

/// When a timer that starts now ends, or why its expression names no moment for this order.
pub(super) fn until(
    ctx: &Context<'_>,
    order: &Order,
    timer: &Timer,
    now: Timestamp,
) -> Result<Result<Timestamp, EvalError>, NeedsDetails> {
    let (at, zone) = match timer {
        Timer::For(span) => return Ok(Ok(now.plus(*span))),
        Timer::Until { at, zone } => (at, *zone),
    };
    let text = match at.as_ref() {
        Template::Constant(text) => Ok(text.clone()),
        template => template.render(&input::scope(ctx, order, template.expressions(), None)?),
    };
    Ok(text.and_then(|text| {
        let found = match &text {
            Value::String(text) => moment(text, zone).map_err(|e| e.to_string()),
            other => Err(format!("{other} is no text, and so no moment")),
        };
        found.map(Timestamp).map_err(|reason| EvalError {
            source_text: source(at),
            reason,
        })
    }))
}

/// The one expression of a text; the whole of it if it has several, for any of them may be what is wrong.
pub(super) fn source(template: &Template) -> String {
    match template.expressions()[..] {
        [expression] => expression.source().to_owned(),
        _ => Template::WHOLE.to_owned(),
    }
}
