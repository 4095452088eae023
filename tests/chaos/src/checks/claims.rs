//! G4: an order has one history. Two valid claims at once, or a write by a Scheduler that has lost its claim, would
//! make two.

use std::collections::{BTreeMap, HashMap};

use triad_core::{Order, Output, StepState, Timestamp};

use super::{Guarantee, Verdict};
use crate::evidence::{AgentReply, AttemptId, Evidence, ReplyContent};

/// The contradictions between two reads of a record, of which `after` is the later one.
#[must_use]
pub fn of_two_looks(before: &Order, after: &Order) -> Vec<String> {
    let mut found = Vec::new();
    let told = |what: &str| {
        let (a, b) = (before.version, after.version);
        format!("{} {what}: version {a}, then {b}", after.id)
    };
    if after.version < before.version {
        found.push(told("went back"));
    }
    if after.version == before.version && after != before {
        found.push(told("has two records of one version"));
    }
    if before.state.is_finished() && after.state != before.state {
        found.push(told("left its end"));
    }
    if after.sequence < before.sequence {
        found.push(told("told less"));
    }
    found
}

pub(super) fn verdicts(e: &Evidence) -> Vec<Verdict> {
    let mut contents: BTreeMap<&AttemptId, Vec<u64>> = BTreeMap::new();
    for asked in &e.requests {
        let known = contents.entry(&asked.id).or_default();
        if !known.contains(&asked.content) {
            known.push(asked.content);
        }
    }
    let mut replies: HashMap<&AttemptId, Vec<&AgentReply>> = HashMap::new();
    for reply in &e.replies {
        replies.entry(&reply.id).or_default().push(reply);
    }
    let ends = e
        .records
        .values()
        .flat_map(|o| o.steps.iter().filter_map(move |s| end_of(o, s)));
    vec![
        Verdict::each(
            Guarantee::G4,
            "an attempt is asked for with one content, however often",
            &contents,
            |(id, contents)| (contents.len() > 1).then(|| format!("{id:?}")),
        ),
        Verdict::each(
            Guarantee::G4,
            "what ended a step is a reply to its own attempt, in time",
            ends,
            |(id, finished, output)| {
                let all = replies.get(&id).map_or(&[][..], Vec::as_slice);
                let by = all.iter().any(|r| {
                    let says =
                        matches!(&r.said, ReplyContent::Done(o) if output.is_none_or(|w| *w == o.clone().into()));
                    says && finished <= r.complete_by
                });
                (!by).then(|| format!("{id:?} at {finished:?}: {all:?}"))
            },
        ),
        Verdict {
            guarantee: Guarantee::G4,
            what: "a record looked at again has gone on from where it was",
            checked: e.sightings.seen,
            breaches: e.sightings.forked.clone(),
        },
    ]
}

/// The attempt that ended a step or its compensation, the time, and the output if it is stored.
fn end_of<'a>(
    order: &Order,
    step: &'a triad_core::StepRecord,
) -> Option<(AttemptId, Timestamp, Option<&'a Output>)> {
    let (is_compensation, attempt, finished, output) = match &step.state {
        StepState::Completed {
            attempt,
            finished,
            output,
            ..
        } => (false, attempt, finished, Some(output)),
        StepState::Compensated {
            attempt, finished, ..
        } => (true, attempt, finished, None),
        _ => return None,
    };
    let id = AttemptId {
        order: order.id.to_string(),
        step: step.step.to_string(),
        is_compensation,
        attempt: attempt.0,
    };
    Some((id, *finished, output))
}

#[cfg(test)]
mod tests {
    use super::super::sample_history::{breached, sound};
    use super::*;
    use triad_core::Version;

    #[test]
    fn an_attempt_with_two_contents_is_seen() {
        let mut e = sound();
        let mut other = e.requests[0].clone();
        other.content += 1;
        e.requests.push(other);
        assert_eq!(
            breached(&e),
            ["an attempt is asked for with one content, however often"]
        );
    }

    #[test]
    fn a_step_that_a_late_reply_completed_is_seen() {
        let mut e = sound();
        let reply = e.replies.iter_mut().find(|r| r.id.step == "pack").unwrap();
        reply.complete_by = Timestamp(1);
        assert_eq!(
            breached(&e),
            ["what ended a step is a reply to its own attempt, in time"]
        );
    }

    #[test]
    fn a_step_that_another_attempts_reply_completed_is_seen() {
        let mut e = sound();
        let reply = e.replies.iter_mut().find(|r| r.id.step == "pack").unwrap();
        reply.id.attempt += 1;
        assert_eq!(
            breached(&e),
            ["what ended a step is a reply to its own attempt, in time"]
        );
    }

    #[test]
    fn a_record_that_went_back_or_forked_is_seen() {
        let e = sound();
        let now = e.records["done"].clone();
        let mut before = now.clone();
        before.version = Version(now.version.0 + 1);
        assert_eq!(of_two_looks(&before, &now).len(), 1);
        before.version = now.version;
        assert!(of_two_looks(&before, &now).is_empty());
        before.run = 1;
        assert_eq!(of_two_looks(&before, &now).len(), 1);
        let mut later = e.records["back"].clone();
        later.version = now.version.next();
        assert_eq!(of_two_looks(&now, &later).len(), 1, "it left its end");
    }

    #[test]
    fn looks_that_do_not_fit_are_in_the_verdict() {
        let mut e = sound();
        let workflow = super::super::sample_history::workflow();
        let mut older = e.records["done"].clone();
        older.version = Version(1);
        e.sightings.see(e.records["done"].clone(), &workflow);
        e.sightings.see(older, &workflow);
        assert_eq!(
            breached(&e),
            ["a record looked at again has gone on from where it was"]
        );
    }
}
