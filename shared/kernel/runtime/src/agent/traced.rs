//! Spans of an agent: one for each handled request, and one for each call.

use triad_core::message::{ReplyOutcome, StepRequest};
use triad_core::{Timestamp, TraceContext};

use super::Agent;
use crate::control::ControlStore;
use crate::handled::Handled;
use crate::ports::{Bus, Clock, Entropy};
use crate::record::InputRecord;
use crate::remote::CallNotes;
use crate::traces::{
    AttributeValue, OpenSpan, SpanEnd, SpanKind, Tracing, WorkKind, number, of_record, outcome_of,
    redelivery_code,
};

/// The trace of the work on a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hop {
    /// The request's own hop; `None` if it belongs to no trace.
    pub(super) trace: Option<TraceContext>,
    /// The span of the work; `None` if tracing is off.
    pub(super) span: Option<OpenSpan>,
}

/// Result of a request, for its span.
#[derive(Debug, Default)]
pub(super) struct RequestResult {
    calls: u32,
    result: Option<&'static str>,
    failure: Option<String>,
    is_failed: bool,
}

impl RequestResult {
    /// The result of a reply; empty unless `is_told`.
    pub(super) fn of(&mut self, calls: u32, outcome: &ReplyOutcome, is_told: bool) {
        if !is_told {
            return;
        }
        let (result, failure) = outcome_of(outcome);
        *self = Self {
            calls,
            result: Some(result),
            failure: failure.map(str::to_owned),
            is_failed: matches!(outcome, ReplyOutcome::Failed { .. }),
        };
    }
}

impl<S: ControlStore, B: Bus, C: Clock, E: Entropy> Agent<S, B, C, E> {
    pub(super) fn tracing(&self) -> Tracing<'_, C> {
        Tracing {
            traces: &self.settings.traces,
            clock: &self.clock,
        }
    }

    /// Begins the work on this request.
    pub(super) fn hop(&self, record: &InputRecord, request: &StepRequest) -> Hop {
        let tracing = self.tracing();
        let begin = || {
            let cause = of_record(record, &request.order_id);
            let now = tracing.now();
            tracing
                .traces
                .begin(cause, record.work_kind("attempt"), now)
        };
        Hop {
            trace: record.trace(),
            span: tracing.traces.is_on().then(begin).flatten(),
        }
    }

    /// Ends the span of a handled request.
    pub(super) fn end_span(
        &self,
        record: &InputRecord,
        request: &StepRequest,
        hop: Hop,
        came: &RequestResult,
        handled: &Handled,
    ) {
        let Some(span) = &hop.span else { return };
        let failure = match handled {
            Handled::Redeliver(why) => redelivery_code(why),
            Handled::Done if came.is_failed => came.failure.as_deref(),
            Handled::Done => None,
        };
        let tracing = self.tracing();
        let traces = tracing.traces;
        traces.end(span, tracing.now(), failure, || {
            let told = traces.handled("attempt", record, request.order_id.as_str());
            let told = of_step(told, request).with("triad.calls", number(came.calls.into()));
            let told = match came.result {
                Some(result) => told.with("triad.result", result),
                None => told,
            };
            match &came.failure {
                Some(code) => told.with("triad.failure", code.clone()),
                None => told,
            }
        });
    }

    /// Begins the call with this number within its request; returns its span and its header `traceparent`.
    pub(super) fn begins_call(
        &self,
        hop: Hop,
        count: u32,
        now: Timestamp,
    ) -> (Option<OpenSpan>, CallNotes, Option<String>) {
        let call = |span: OpenSpan| span.part(WorkKind("call", count.into()), now);
        let open = hop.span.map(call);
        let notes = match open {
            Some(_) => CallNotes::read(),
            None => CallNotes::default(),
        };
        let header = open.map(|open| open.carried()).or(hop.trace);
        (open, notes, header.map(|context| context.to_string()))
    }

    /// Ends the span of a call.
    pub(super) fn end_call_span(
        &self,
        request: &StepRequest,
        count: u32,
        open: Option<OpenSpan>,
        notes: &CallNotes,
        failure: Option<&str>,
    ) {
        let Some(open) = &open else { return };
        let tracing = self.tracing();
        tracing.traces.end(open, tracing.now(), failure, || {
            let notes = notes.take();
            let text = |name| {
                let found = notes.iter().find(|(of, _)| *of == name);
                found.and_then(|(_, value)| match value {
                    AttributeValue::Text(text) => Some(text.as_ref()),
                    AttributeValue::Number(_) => None,
                })
            };
            let name = match (text("http.request.method"), text("url.template")) {
                (Some(method), Some(template)) => format!("{method} {template}"),
                _ => format!("call {}", request.action),
            };
            let mut told = of_step(SpanEnd::new(name, SpanKind::Client), request);
            if count > 1 {
                told = told.with("http.request.resend_count", i64::from(count) - 1);
            }
            told.attributes.extend(notes);
            told
        });
    }
}

/// Adds the order, the step and the attempt.
fn of_step(told: SpanEnd, request: &StepRequest) -> SpanEnd {
    told.with("triad.order.id", request.order_id.to_string())
        .with("triad.step", request.step.to_string())
        .with("triad.direction", request.direction.to_string())
        .with("triad.attempt", number(request.attempt.0.into()))
        .with("triad.agent", request.agent.to_string())
        .with("triad.action", request.action.clone())
}
