//! Spans of the Scheduler: one for each handled message.

use triad_core::message::SchedulerMessage;
use triad_core::pass::Snapshot;
use triad_core::received::Incoming;
use triad_core::{OrderId, Timestamp, TraceContext};

use super::{Batch, Input, Scheduler, Work};
use crate::control::ControlStore;
use crate::handled::Handled;
use crate::ports::{Bus, Clock, DefinitionStore, Entropy, StateStore};
use crate::record::InputRecord;
use crate::traces::{Attribute, OpenSpan, SpanEnd, number, of_record, outcome_of, redelivery_code};

/// The span of one record.
pub(super) struct RecordSpan {
    span: OpenSpan,
    what: &'static str,
    attributes: Vec<Attribute>,
    links: Vec<TraceContext>,
}

impl<S, B, C, E> Scheduler<S, B, C, E>
where
    S: StateStore + DefinitionStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// Begins the span of a record; no-op if tracing is off.
    pub(super) fn begin_record_span(
        &self,
        work: &mut Work,
        record: &InputRecord,
        now: Timestamp,
        batch: &mut Batch<'_>,
    ) {
        let traces = &self.settings.traces;
        if !traces.is_on() {
            return;
        }
        let what = match &work.input {
            Input::Message(SchedulerMessage::Accepted(_)) => "claim",
            Input::Message(SchedulerMessage::Wake(_)) => "take-up",
            Input::Message(SchedulerMessage::Reply(_)) => "reply",
            Input::Message(SchedulerMessage::ChildEnded(_)) => "child-ended",
            Input::Message(SchedulerMessage::Child(_)) => "child",
            Input::Incoming(Incoming::Event(_)) => "event",
            Input::Incoming(Incoming::Callback(_)) => "callback",
            Input::Incoming(Incoming::Act(_)) => "act",
        };
        let cause = of_record(record, &work.id);
        work.carried.span = traces.begin(cause, record.work_kind(what), now);
        batch.heard.resize_with(batch.records.len(), || None);
        batch.heard[work.index] = work.carried.span.map(|span| RecordSpan {
            span,
            what,
            attributes: match span.is_sampled() {
                true => message_attributes(&work.input),
                false => Vec::new(),
            },
            links: Vec::new(),
        });
    }

    /// Ends the spans of a wave's records.
    pub(super) fn end_wave_spans(&self, members: &[(usize, OrderId)], batch: &mut Batch<'_>) {
        if batch.heard.is_empty() {
            return;
        }
        let (traces, now) = (&self.settings.traces, self.clock.now());
        for (index, order) in members {
            let Some(heard) = batch.heard[*index].take() else {
                continue;
            };
            let letter = batch.letters.iter().find(|(of, _)| of == index);
            let failure = match (letter, &batch.answers[*index]) {
                (Some((_, cause)), _) => Some(cause.code),
                (None, Handled::Redeliver(why)) => redelivery_code(why),
                (None, Handled::Done) => None,
            };
            let record = &batch.records[*index];
            traces.end(&heard.span, now, failure, || {
                let mut told = traces.handled(heard.what, record, order.as_str());
                told.attributes.extend(heard.attributes);
                SpanEnd {
                    links: heard.links,
                    ..told
                }
            });
        }
    }
}

impl Batch<'_> {
    /// Links the span of a message that wakes an order to the attempts under way in the order.
    pub(super) fn link_attempts(&mut self, index: usize, read: &Snapshot) {
        let Some(Some(heard)) = self.heard.get_mut(index) else {
            return;
        };
        if heard.what == "take-up" {
            heard.links = heard.span.attempts_of(&read.order);
        }
    }
}

/// Attributes of the step that a message names.
fn message_attributes(input: &Input) -> Vec<Attribute> {
    let reply = match input {
        Input::Message(SchedulerMessage::Reply(reply)) => reply,
        Input::Incoming(Incoming::Event(event)) => {
            return vec![("triad.event", event.event.clone().into())];
        }
        Input::Incoming(Incoming::Act(act)) => {
            return vec![("triad.act", act.operation().action.name().into())];
        }
        Input::Incoming(Incoming::Callback(callback)) => {
            return vec![("triad.step", callback.step.clone().into())];
        }
        Input::Message(SchedulerMessage::ChildEnded(ended)) => {
            return vec![
                ("triad.step", ended.parent.step.to_string().into()),
                ("triad.child", ended.child.to_string().into()),
            ];
        }
        Input::Message(
            SchedulerMessage::Accepted(_) | SchedulerMessage::Wake(_) | SchedulerMessage::Child(_),
        ) => {
            return Vec::new();
        }
    };
    let (result, code) = outcome_of(&reply.outcome);
    let mut said: Vec<Attribute> = vec![
        ("triad.step", reply.step.to_string().into()),
        ("triad.direction", reply.direction.to_string().into()),
        ("triad.attempt", number(reply.attempt.0.into()).into()),
        ("triad.result", result.into()),
    ];
    said.extend(code.map(|code| ("triad.failure", code.to_owned().into())));
    said
}
