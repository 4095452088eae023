//! Spans of Submission: the root of an order's trace, or a repeated submission beside it.

use std::collections::BTreeSet;

use triad_core::{Timestamp, TraceContext, render};

use super::submitted::Submitted;
use super::{Admitted, Source, Submission};
use crate::ports::{Bus, Clock, Created, DefinitionStore, StateStore, StoreError};
use crate::record::InputRecord;
use crate::traces::{OpenSpan, SpanEnd, SpanKind, Tracing, redelivery_code};

/// Open spans of a batch, by the positions of their records. Empty if tracing is off.
pub(super) struct Opened {
    began: Timestamp,
    of: Vec<Option<OrderSpan>>,
    /// Positions of orders with messages to send: new orders, and orders that no Scheduler has claimed yet.
    announced: BTreeSet<usize>,
}

#[derive(Clone)]
struct OrderSpan {
    root: OpenSpan,
    order: String,
    workflow: String,
}

impl Opened {
    /// Adds an order that may be stored.
    pub(super) fn admitted(&mut self, order: &Admitted) {
        let accepted = &order.accepted;
        let Some(place) = self.of.get_mut(order.index) else {
            return;
        };
        let trace = accepted
            .traceparent
            .as_deref()
            .and_then(TraceContext::parse);
        let Some(trace) = trace else { return };
        *place = Some(OrderSpan {
            root: OpenSpan::root(trace, &accepted.order_id, self.began),
            order: accepted.order_id.to_string(),
            workflow: accepted.workflow.name.to_string(),
        });
    }

    /// Adds the records with messages to send.
    pub(super) fn announced(&mut self, records: impl Iterator<Item = usize>) {
        if !self.of.is_empty() {
            self.announced.extend(records);
        }
    }

    /// The root span of the order at this position.
    pub(super) fn of(&self, index: usize) -> Option<&OpenSpan> {
        let one = self.of.get(index)?.as_ref()?;
        Some(&one.root)
    }

    /// Records the span of the transaction that should have stored an order.
    pub(super) fn created<C: Clock>(
        &self,
        tracing: &Tracing<'_, C>,
        order: &Admitted,
        began: Timestamp,
        result: &Result<Created, StoreError>,
    ) {
        if let Some(root) = self.of(order.index) {
            let failure = result.as_ref().err();
            tracing.created(root, began, &order.accepted.order_id, failure);
            if let Ok(Created::WithMessages) = result {
                let received = render::received(&order.record());
                tracing.sent(Some(root), None, &received, began, Ok(()));
            }
        }
    }
}

impl<S, B, C> Submission<S, B, C>
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
{
    pub(super) fn tracing(&self) -> Tracing<'_, C> {
        Tracing {
            traces: &self.settings.traces,
            clock: &self.clock,
        }
    }

    /// The open spans of a batch, without orders at first.
    pub(super) fn opened(&self, records: &[InputRecord]) -> Opened {
        let is_on = self.settings.traces.is_on();
        Opened {
            began: self.tracing().now(),
            of: vec![None; if is_on { records.len() } else { 0 }],
            announced: BTreeSet::new(),
        }
    }

    /// Ends the spans of a batch's submissions. A submission without room gets its span when it is let in.
    pub(super) fn end_spans(
        &self,
        source: Source,
        records: &[InputRecord],
        opened: &Opened,
        answers: &[Submitted],
    ) {
        for (index, answer) in answers.iter().enumerate() {
            let Some(Some(one)) = opened.of.get(index) else {
                continue;
            };
            let is_announced = opened.announced.contains(&index);
            let (is_root, failure) = match answer {
                Submitted::Accepted(_) => (true, None),
                // The order was submitted before and no Scheduler has claimed it: the process that stored it may have
                // died first.
                Submitted::Repeated(_) => (is_announced, None),
                Submitted::Refused(refusal) => (false, Some(refusal.code())),
                Submitted::Rejected(_) => (false, Some("too-many-in-flight")),
                Submitted::Later(why) => match redelivery_code(why) {
                    Some(code) => (false, Some(code)),
                    None => continue,
                },
            };
            self.tell_one(source, &records[index], one, is_root, failure);
        }
    }

    fn tell_one(
        &self,
        source: Source,
        record: &InputRecord,
        one: &OrderSpan,
        is_root: bool,
        failure: Option<&str>,
    ) {
        let traces = &self.settings.traces;
        let open = match is_root {
            true => one.root,
            false => OpenSpan::within(
                one.root.context(),
                record.work_kind("submit"),
                one.root.began,
            ),
        };
        traces.end(&open, self.clock.now(), failure, || {
            let told = match source {
                Source::Topic => traces.handled("submit", record, &one.order),
                Source::Caller => SpanEnd::new("submit", SpanKind::Server)
                    .with("triad.order.id", one.order.clone()),
            };
            told.with("triad.workflow", one.workflow.clone())
        });
    }
}
