//! Writes the evidence of attempts in topics and the ledger as lines of the history for the judge.

use std::collections::BTreeMap;

use triad_reference_service::contract::Kind;

use super::evidence::{AttemptId, Evidence, attempt_of};
use triad_judge::history::{Answer, ClientOperation, Moment, Operation, Sighting, Sign};
use triad_judge::item::attempt;

/// Messages and calls are stamped in whole milliseconds, by the clocks of several processes on one machine. An event
/// may have happened up to this much later than its stamp. A larger value makes the judge accept more, and joins more
/// events into one line.
const SLACK_MS: u64 = 20;
const US: u64 = 1_000;

/// The history's lines: one for each order and span of time, with all evidence of its attempts.
#[must_use]
pub fn lines(e: &Evidence) -> Vec<Operation> {
    let mut seen: BTreeMap<&str, Vec<(u64, Sighting)>> = BTreeMap::new();
    let mut add = |id: AttemptId, at_ms: i64, sign: Sign| {
        // The judge gets no lines of orders without a record; other checks cover those.
        if let (Some((order, _)), Ok(at)) =
            (e.records.get_key_value(&id.order), u64::try_from(at_ms))
        {
            let attempt = attempt(&id.step, id.is_compensation, id.attempt);
            let of_order = seen.entry(order.as_str()).or_default();
            of_order.push((at, Sighting { sign, attempt }));
        }
    };
    for asked in &e.requests {
        add(asked.id.clone(), asked.at_ms, Sign::Request);
    }
    for reply in &e.replies {
        add(reply.id.clone(), reply.at_ms, Sign::Reply);
    }
    let is_effect =
        |kind: Kind| matches!(kind, Kind::Applied | Kind::Compensated | Kind::Tombstoned);
    for call in e.calls.iter().filter(|c| is_effect(c.kind)) {
        add(attempt_of(call), call.at_ms, Sign::Effect);
    }
    let of_order = seen.into_iter();
    of_order
        .flat_map(|(order, all)| spans(order, all))
        .collect()
}

/// Joins events less than the slack apart into one line, so that the lines of an order do not overlap.
fn spans(order: &str, mut all: Vec<(u64, Sighting)>) -> Vec<Operation> {
    all.sort();
    let mut lines: Vec<Operation> = Vec::new();
    let mut until_ms = 0;
    let moment = |at_ms: u64| Moment {
        at_us: at_ms * US,
        event: 0,
    };
    for (at_ms, seen) in all {
        if let Some(line) = lines.last_mut().filter(|_| at_ms < until_ms)
            && let ClientOperation::Seen(together) = &mut line.asked
        {
            together.push(seen);
            line.began = moment(at_ms);
            continue;
        }
        until_ms = at_ms + SLACK_MS;
        lines.push(Operation {
            object: format!("order/{order}"),
            began: moment(at_ms),
            ended: moment(until_ms),
            asked: ClientOperation::Seen(vec![seen]),
            answer: Answer::Done,
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_close_together_is_one_line_that_ends_after_all_of_it() {
        let seen = |step: &str| Sighting {
            sign: Sign::Reply,
            attempt: format!("{step}/do/1"),
        };
        let all = vec![(130, seen("c")), (100, seen("a")), (110, seen("b"))];
        let lines = spans("o", all);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].began.at_us, 110_000);
        assert_eq!(lines[0].ended.at_us, 120_000);
        assert!(lines[1].began > lines[0].ended);
        assert!(matches!(&lines[0].asked, ClientOperation::Seen(s) if s.len() == 2));
    }

    #[test]
    fn requests_replies_and_effects_of_every_order_are_seen() {
        let e = super::super::checks::sample_history::sound();
        let lines = lines(&e);
        let count = |wanted: Sign| {
            let all = lines.iter().filter_map(|l| match &l.asked {
                ClientOperation::Seen(all) => Some(all),
                _ => None,
            });
            all.flatten().filter(|s| s.sign == wanted).count()
        };
        assert_eq!(count(Sign::Request), e.requests.len());
        assert_eq!(count(Sign::Reply), e.replies.len());
        assert!(count(Sign::Effect) > 5);
    }
}
