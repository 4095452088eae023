//! The checks of a run with outages.

use std::collections::BTreeSet;

use triad_core::ProcessState;
use triad_core::message::AlertKind;

use super::plan::{AFTER, Outage, WITHIN};
use super::run::{Lasted, OrderTimes};
use crate::checks::{Guarantee, Verdict};
use crate::evidence::Evidence;

/// Checks what was recorded, and the evidence, against the guarantee G11.
pub(super) fn verdicts(lasted: &[Lasted], e: &Evidence, died: Vec<String>) -> Vec<Verdict> {
    let g11 = Guarantee::G11;
    let free = || {
        lasted
            .iter()
            .flat_map(|l| l.free.iter().map(move |o| (l, o)))
    };
    let held = || {
        lasted
            .iter()
            .flat_map(|l| l.held.iter().map(move |o| (l, o)))
    };
    let all: Vec<&OrderTimes> = free().chain(held()).map(|(_, order)| order).collect();
    let refused: BTreeSet<&str> = lasted
        .iter()
        .filter(|l| l.outage == Outage::Alerts)
        .flat_map(|l| l.held.iter().map(|o| o.id.as_str()))
        .collect();
    let alerted: BTreeSet<&str> = e
        .alerts
        .iter()
        .filter(|a| a.kind == AlertKind::OrderError)
        .filter_map(|a| a.order_id.as_deref())
        .collect();
    // A check without evidence is a violation, unless its outage was not requested.
    let has_free = lasted.iter().any(|l| l.outage.not_needed_by().is_some());
    let has_alerts = lasted.iter().any(|l| l.outage == Outage::Alerts);
    let verdicts = [
        Verdict::each(
            g11,
            "an order that does not need what is out ends within 20 s while it is out",
            free(),
            |(l, order)| {
                let is_in_time = order.ended.is_some_and(|at| at <= l.over)
                    && order.took(order.sent).is_some_and(|t| t <= WITHIN);
                let took = order.took(order.sent);
                (!is_in_time).then(|| format!("{}, {}: {took:?}", l.outage.name(), order.id))
            },
        ),
        Verdict::each(
            g11,
            "an order that an outage held up ends within 90 s after it",
            held(),
            |(l, order)| {
                let took = order.took(l.over);
                let is_in_time = took.is_some_and(|t| t <= AFTER);
                (!is_in_time).then(|| format!("{}, {}: {took:?}", l.outage.name(), order.id))
            },
        ),
        Verdict::each(
            g11,
            "an outage costs no order its end: each is Processed, or Error where its service declines",
            &all,
            |order| {
                let record = e.records.get(&order.id);
                let is_right = match record.map(|r| &r.state) {
                    Some(ProcessState::Processed { .. }) => !refused.contains(order.id.as_str()),
                    Some(ProcessState::Error { .. }) => refused.contains(order.id.as_str()),
                    _ => false,
                };
                let state = record.map(|r| r.state.name());
                (!is_right).then(|| format!("{}: {state:?}", order.id))
            },
        ),
        Verdict {
            guarantee: g11,
            what: "an outage makes no dead letter",
            checked: all.len(),
            breaches: e.letters.iter().map(|l| format!("{l:?}")).collect(),
        },
        Verdict::each(
            g11,
            "an alert that an outage held up comes after it",
            &refused,
            |order| (!alerted.contains(order)).then(|| (*order).to_owned()),
        ),
        Verdict::each(
            g11,
            "an outage meets work that needs what is out",
            lasted,
            |l| {
                let has_met = match l.outage {
                    // An order's end does not wait for its alert, so no order is held up.
                    Outage::Alerts => !l.held.is_empty(),
                    Outage::Requests | Outage::Service => l.waiting > 0,
                    Outage::Store => l.waiting > 0 && l.denied > 0,
                };
                (!has_met).then(|| format!("{} met nothing", l.outage.name()))
            },
        ),
        Verdict {
            guarantee: Guarantee::G9,
            what: "everything has finished in the end, and no process has ended by itself",
            checked: all.len(),
            breaches: e.unfinished.iter().cloned().chain(died).collect(),
        },
    ];
    let wanted = [has_free, true, true, true, has_alerts, true, true];
    let verdicts = verdicts.into_iter().zip(wanted);
    let wanted = verdicts.filter_map(|(verdict, is_wanted)| is_wanted.then_some(verdict));
    wanted.map(Verdict::or_nothing).collect()
}
