//! G8: the statuses of an order come in order, and without gaps when repetitions are removed.

use std::collections::BTreeMap;

use triad_core::message::StatusMessage;
use triad_core::status::Status;
use triad_core::{ProcessState, topics};

use super::{Guarantee, Verdict};
use crate::evidence::Evidence;

/// The status messages of one order.
#[derive(Debug, Default)]
struct OrderStatuses<'a> {
    /// The first occurrence of each status, by sequence from 1.
    first: Vec<&'a StatusMessage>,
    gaps: Vec<u32>,
    differing: Vec<u32>,
    topics: Vec<&'a str>,
}

fn statuses_by_order(statuses: &[(String, StatusMessage)]) -> BTreeMap<&str, OrderStatuses<'_>> {
    let mut all: BTreeMap<&str, OrderStatuses<'_>> = BTreeMap::new();
    // A message about a refused record is not a status of an order, because the record was not stored.
    let is_refusal = |s: &StatusMessage| {
        matches!(s.status, Status::Rejected | Status::Conflict) && s.sequence == 0
    };
    for (topic, status) in statuses.iter().filter(|(_, s)| !is_refusal(s)) {
        let told = all.entry(status.order_id.as_str()).or_default();
        if !told.topics.contains(&topic.as_str()) {
            told.topics.push(topic);
        }
        let next = told.first.len() + 1;
        let sequence = status.sequence as usize;
        if sequence == next {
            told.first.push(status);
        } else if sequence == 0 || sequence > next {
            told.gaps.push(status.sequence);
        } else if told.first[sequence - 1] != status {
            told.differing.push(status.sequence);
        }
    }
    all
}

fn end(state: &ProcessState) -> Option<Status> {
    Some(match state {
        ProcessState::Processed { .. } => Status::Completed,
        ProcessState::Error { .. } => Status::Failed,
        ProcessState::Compensated { .. } => Status::Compensated,
        ProcessState::CompensationFailed { .. } => Status::CompensationFailed,
        _ => return None,
    })
}

pub(super) fn verdicts(e: &Evidence) -> Vec<Verdict> {
    let all = statuses_by_order(&e.statuses);
    vec![
        Verdict::each(
            Guarantee::G8,
            "statuses come in order, without a gap",
            &all,
            |(id, told)| (!told.gaps.is_empty()).then(|| format!("{id}: {told:?}")),
        ),
        Verdict::each(
            Guarantee::G8,
            "a status that comes again is the same",
            &all,
            |(id, told)| (!told.differing.is_empty()).then(|| format!("{id}: {told:?}")),
        ),
        Verdict::each(
            Guarantee::G8,
            "all that a record has written down was told, the end last, in the topic asked for",
            e.records.values(),
            |o| {
                let told = all.get(o.id.as_str());
                let first = told.map_or(&[][..], |t| &t.first);
                let asked = o.reply_topic.as_deref().unwrap_or(topics::STATUS);
                let fits = first.len() == o.sequence as usize
                    && end(&o.state)
                        .is_none_or(|end| first.last().is_some_and(|s| s.status == end))
                    && told.is_some_and(|t| t.topics == [asked]);
                (!fits).then(|| format!("{} at {}: {told:?}", o.id, o.sequence))
            },
        ),
        Verdict::each(
            Guarantee::G8,
            "a status is of an order that has a record",
            all.keys(),
            |id| (!e.records.contains_key(*id)).then(|| (*id).to_owned()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::sample_history::{breached, sound};
    use triad_core::Timestamp;

    const ORDER: &str = "statuses come in order, without a gap";
    const ALL: &str =
        "all that a record has written down was told, the end last, in the topic asked for";

    #[test]
    fn a_gap_is_seen() {
        let mut e = sound();
        e.statuses
            .retain(|(_, s)| !(s.order_id.as_str() == "back" && s.sequence == 2));
        assert_eq!(breached(&e), [ORDER, ALL]);
    }

    #[test]
    fn a_repetition_is_no_gap() {
        let mut e = sound();
        e.statuses.push(e.statuses[0].clone());
        assert_eq!(breached(&e), [""; 0]);
    }

    #[test]
    fn the_wrong_order_is_seen() {
        let mut e = sound();
        e.statuses.swap(0, 1);
        assert_eq!(breached(&e), [ORDER, ALL]);
    }

    #[test]
    fn a_repetition_that_says_something_else_is_seen() {
        let mut e = sound();
        let mut again = e.statuses[0].clone();
        again.1.at = Timestamp(99);
        e.statuses.push(again);
        assert_eq!(breached(&e), ["a status that comes again is the same"]);
    }

    #[test]
    fn an_end_that_was_not_told_is_seen() {
        let mut e = sound();
        let last = e
            .statuses
            .iter()
            .rposition(|(_, s)| s.order_id.as_str() == "done");
        e.statuses.remove(last.unwrap());
        assert_eq!(breached(&e), [ALL]);
    }

    #[test]
    fn a_status_in_another_topic_is_seen() {
        let mut e = sound();
        e.statuses[0].0 = "reply.shop".into();
        assert_eq!(breached(&e), [ALL]);
    }

    #[test]
    fn a_status_of_nobody_is_seen() {
        let mut e = sound();
        let mut status = e.statuses[0].clone();
        status.1.order_id = triad_core::OrderId::new("nobody").unwrap();
        e.statuses.push(status);
        assert_eq!(breached(&e), ["a status is of an order that has a record"]);
    }
}
