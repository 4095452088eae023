//! Whether the history of an order is whole: every attempt that was asked for is told of, by the
//! direction and the calls that it had.

use std::collections::BTreeMap;

use triad_core::history::untold;
use triad_core::{Direction, Order, Reply};

use super::book::Asked;

/// What agents reported of an order.
#[derive(Default)]
pub struct Told {
    /// Calls by step, of its compensation or of the action and its probe.
    calls: BTreeMap<(String, bool), u32>,
}

impl Told {
    /// The Scheduler has taken a reply.
    pub fn taken(&mut self, reply: &Reply) {
        let is_compensation = reply.direction == Direction::Compensate;
        let calls = self
            .calls
            .entry((reply.step.to_string(), is_compensation))
            .or_default();
        *calls += reply.calls;
    }

    /// A write was made.
    pub fn is_whole(&self, order: &Order, asked: &[Asked]) {
        for ((step, is_compensation), calls) in &self.calls {
            let found = order.steps.iter().find(|s| s.step.as_str() == step);
            // Another version of the workflow may do without the step.
            let Some(record) = found else { continue };
            let leg = match is_compensation {
                true => record.compensation,
                false => record.action,
            };
            assert!(
                leg.made == *calls || leg.made == 0 && order.run > 0,
                "calls of {step}"
            );
        }
        if order.dropped.is_none() {
            assert_eq!(untold(order), [], "every attempt is told of");
        }
        for line in &order.incidents {
            let (Some(step), Some(first)) = (&line.step, line.attempt) else {
                continue;
            };
            let last = line.through.unwrap_or(first);
            for attempt in first.0..=last.0 {
                let is_told = asked.iter().any(|a| {
                    a.step == step.as_str()
                        && a.attempt.0 == attempt
                        && a.direction == line.direction()
                });
                assert!(is_told, "attempt {attempt} was made as this says: {line:?}");
            }
        }
    }
}
