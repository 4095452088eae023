//! G7: a record that cannot be handled becomes a dead letter with its cause and an alert, and stops no other record.

use std::collections::{BTreeMap, BTreeSet};

use triad_core::message::AlertKind;
use triad_runtime::dead_letter::LetterId;

use super::{Guarantee, Verdict};
use crate::evidence::Evidence;
use crate::load::Sort;

/// The cause of a dead letter whose record has the id of another order.
const CONFLICT: &str = "conflicting-submission";

pub(super) fn verdicts(e: &Evidence) -> Vec<Verdict> {
    let mut causes: BTreeMap<&LetterId, BTreeSet<&str>> = BTreeMap::new();
    for (id, cause) in &e.letters {
        causes.entry(id).or_default().insert(cause);
    }
    let untakable = || {
        let sorts = [Sort::Poison, Sort::Conflicting];
        e.sent
            .iter()
            .filter(move |s| sorts.contains(&s.submission.sort))
    };
    let wanted: BTreeSet<&LetterId> = untakable().map(|s| &s.place).collect();
    let alerted: BTreeSet<&str> = e
        .alerts
        .iter()
        .filter(|a| a.kind == AlertKind::DeadLetter)
        .map(|a| a.alert_id.as_str())
        .collect();
    vec![
        Verdict::each(
            Guarantee::G7,
            "a record that nobody can take is a dead letter with one cause",
            untakable().filter(|s| s.submission.sort == Sort::Poison),
            |s| {
                let found = causes.get(&s.place);
                let fits = found.is_some_and(|c| c.len() == 1 && !c.contains(""));
                (!fits).then(|| format!("{}: {found:?}", s.place))
            },
        ),
        Verdict::each(
            Guarantee::G7,
            "an order's id with another content is a dead letter, and says so",
            untakable().filter(|s| s.submission.sort == Sort::Conflicting),
            |s| {
                let found = causes.get(&s.place);
                let fits = found.is_some_and(|c| c.iter().eq(&[CONFLICT]));
                (!fits).then(|| format!("{}: {found:?}", s.place))
            },
        ),
        Verdict::each(
            Guarantee::G7,
            "nothing else is a dead letter",
            causes.keys(),
            |id| (!wanted.contains(id)).then(|| format!("{id}: {:?}", causes[id])),
        ),
        Verdict::each(
            Guarantee::G7,
            "a dead letter has an alert",
            causes.keys(),
            |id| {
                let alert = format!("dead-letter/{id}");
                (!alerted.contains(alert.as_str())).then_some(alert)
            },
        ),
        Verdict::each(
            Guarantee::G7,
            "an alert of a dead letter has its letter",
            &alerted,
            |alert| {
                let id = alert.strip_prefix("dead-letter/");
                let letter = id.and_then(|id| id.parse().ok());
                let has = letter.is_some_and(|id: LetterId| causes.contains_key(&id));
                (!has).then(|| (*alert).to_owned())
            },
        ),
        Verdict::each(
            Guarantee::G7,
            "a message that cannot be read is one that was sent so",
            e.unreadable.iter().chain(wanted.iter().copied()),
            |id| (!wanted.contains(id)).then(|| id.to_string()),
        ),
        Verdict::each(
            Guarantee::G7,
            "every input partition was read to its end",
            &e.offsets,
            |offsets| (!offsets.is_at_end()).then(|| format!("{offsets:?}")),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::sample_history::{breached, place, sound};

    #[test]
    fn poison_that_was_dropped_is_seen() {
        let mut e = sound();
        let poison = place(3);
        e.letters.retain(|(id, _)| *id != poison);
        e.alerts
            .retain(|a| a.alert_id != format!("dead-letter/{poison}"));
        assert_eq!(
            breached(&e),
            ["a record that nobody can take is a dead letter with one cause"]
        );
    }

    #[test]
    fn a_letter_without_a_cause_is_seen() {
        let mut e = sound();
        for (_, cause) in &mut e.letters {
            cause.clear();
        }
        assert_eq!(
            breached(&e),
            [
                "a record that nobody can take is a dead letter with one cause",
                "an order's id with another content is a dead letter, and says so"
            ]
        );
    }

    #[test]
    fn a_conflict_that_got_through_is_seen() {
        let mut e = sound();
        let conflict = place(4);
        e.letters.retain(|(id, _)| *id != conflict);
        e.alerts
            .retain(|a| a.alert_id != format!("dead-letter/{conflict}"));
        assert_eq!(
            breached(&e),
            ["an order's id with another content is a dead letter, and says so"]
        );
    }

    #[test]
    fn a_good_order_that_was_dead_lettered_is_seen() {
        let mut e = sound();
        e.letters.push((place(0), "not-an-order".into()));
        assert_eq!(
            breached(&e),
            [
                "nothing else is a dead letter",
                "a dead letter has an alert"
            ]
        );
    }

    #[test]
    fn an_alert_without_its_letter_is_seen() {
        let mut e = sound();
        let mut alert = e.alerts.last().unwrap().clone();
        alert.alert_id = format!("dead-letter/{}", place(77));
        e.alerts.push(alert);
        assert_eq!(breached(&e), ["an alert of a dead letter has its letter"]);
    }

    #[test]
    fn a_message_of_our_own_that_cannot_be_read_is_seen() {
        let mut e = sound();
        e.unreadable.push(place(88));
        assert_eq!(
            breached(&e),
            ["a message that cannot be read is one that was sent so"]
        );
    }

    #[test]
    fn a_blocked_partition_is_seen() {
        let mut e = sound();
        e.offsets[0].committed = Some(1);
        assert_eq!(breached(&e), ["every input partition was read to its end"]);
    }
}
