//! G1 and G9: no acknowledged submission is lost, and all work ends.

use std::collections::BTreeSet;

use serde_json::Value;
use triad_core::{Order, invariants};
use triad_workflow::Workflow;

use super::{Guarantee, Verdict};
use crate::evidence::Evidence;
use crate::load::Sort;

/// The core's invariants that a record violates.
#[must_use]
pub fn of_record(order: &Order, workflow: &Workflow) -> Vec<String> {
    let told = |b: invariants::Breach| format!("{}: {}", b.invariant, b.seen);
    let found = invariants::of_record(order, workflow);
    found.into_iter().map(told).collect()
}

pub(super) fn verdicts(e: &Evidence) -> Vec<Verdict> {
    let orders = || e.sent.iter().filter(|s| s.submission.sort == Sort::Order);
    let ids: BTreeSet<&str> = orders()
        .filter_map(|s| s.submission.order.as_deref())
        .collect();
    let ours = || {
        let topics =
            |t: &str| t == triad_core::topics::ORDERS || t == triad_core::topics::ORDERS_HIGH;
        e.sent.iter().filter(move |s| topics(&s.place.topic))
    };
    let places: BTreeSet<_> = ours().map(|s| &s.place).collect();
    vec![
        Verdict::each(
            Guarantee::G1,
            "an acknowledged record is in its topic as it was sent",
            ours(),
            |s| {
                let kept = e.inputs.get(&s.place);
                (kept != Some(&s.submission.raw.value)).then(|| s.place.to_string())
            },
        ),
        Verdict::each(
            Guarantee::G1,
            "a topic of orders holds nothing that was not sent, and nothing twice",
            e.inputs.keys(),
            |place| (!places.contains(place)).then(|| place.to_string()),
        ),
        Verdict::each(
            Guarantee::G1,
            "an acknowledged order has a process record and its details",
            orders(),
            |s| {
                let id = s.submission.order.as_deref()?;
                let value = s.submission.raw.value.as_deref()?;
                let sent: Value = serde_json::from_slice(value).ok()?;
                let is_stored = e.records.contains_key(id);
                (!is_stored || e.details.get(id) != Some(&sent["details"])).then(|| id.to_owned())
            },
        ),
        Verdict::each(
            Guarantee::G1,
            "a process record is of an order that was sent",
            e.records.keys(),
            |id| (!ids.contains(id.as_str())).then(|| id.clone()),
        ),
        Verdict::each(
            Guarantee::G1,
            "an order is in one end state, with its messages confirmed",
            e.records.values(),
            |o| {
                let rests = o.state.is_finished() && o.due.is_none();
                (!rests).then(|| format!("{} is {}, due {:?}", o.id, o.state.name(), o.due))
            },
        ),
        Verdict {
            guarantee: Guarantee::G1,
            what: "a record that was looked at holds the core's invariants",
            checked: e.sightings.seen,
            breaches: e.sightings.broken.clone(),
        },
        Verdict {
            guarantee: Guarantee::G9,
            what: "everything has finished in time",
            checked: e.records.len(),
            breaches: e.unfinished.clone(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::sample_history::{breached, sound};
    use triad_core::{ProcessState, Timestamp};

    #[test]
    fn a_sound_history_has_no_breach_and_every_check_has_looked_at_something() {
        let evidence = sound();
        assert_eq!(breached(&evidence), [""; 0]);
        for verdict in super::super::all(&evidence) {
            assert!(verdict.checked > 0, "{verdict:?}");
        }
    }

    #[test]
    fn a_lost_record_is_seen() {
        let mut e = sound();
        let place = e.sent[0].place.clone();
        e.inputs.remove(&place);
        assert_eq!(
            breached(&e),
            ["an acknowledged record is in its topic as it was sent"]
        );
    }

    #[test]
    fn a_record_that_is_there_twice_is_seen() {
        let mut e = sound();
        let mut place = e.sent[0].place.clone();
        place.offset = 1_000;
        e.inputs
            .insert(place, e.sent[0].submission.raw.value.clone());
        assert_eq!(
            breached(&e),
            ["a topic of orders holds nothing that was not sent, and nothing twice"]
        );
    }

    #[test]
    fn a_lost_order_is_seen() {
        let mut e = sound();
        e.records.remove("done");
        assert!(
            breached(&e).contains(&"an acknowledged order has a process record and its details")
        );
    }

    #[test]
    fn the_content_of_somebody_else_is_seen() {
        let mut e = sound();
        e.details.insert(
            "done".into(),
            serde_json::json!({"customerID": "SOMEBODY ELSE"}),
        );
        assert_eq!(
            breached(&e),
            ["an acknowledged order has a process record and its details"]
        );
    }

    #[test]
    fn an_order_out_of_nowhere_is_seen() {
        let mut e = sound();
        e.sent
            .retain(|s| s.submission.order.as_deref() != Some("stuck"));
        assert!(breached(&e).contains(&"a process record is of an order that was sent"));
    }

    #[test]
    fn an_order_that_goes_on_is_seen() {
        let mut e = sound();
        let order = e.records.get_mut("done").unwrap();
        order.state = ProcessState::Pending { complete_by: None };
        order.due = Some(Timestamp(9));
        assert!(
            breached(&e).contains(&"an order is in one end state, with its messages confirmed")
        );
    }

    #[test]
    fn an_unsound_record_is_seen() {
        let mut e = sound();
        let mut order = e.records["done"].clone();
        order.steps[0].action.failures = 99;
        let workflow = super::super::sample_history::workflow();
        e.sightings.see(order, &workflow);
        assert!(breached(&e).contains(&"a record that was looked at holds the core's invariants"));
    }

    #[test]
    fn what_has_not_finished_in_time_is_seen() {
        let mut e = sound();
        e.unfinished.push("1 order is due".into());
        assert_eq!(breached(&e), ["everything has finished in time"]);
    }
}
