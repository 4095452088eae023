//! Number of orders by state, and recent submissions and completions, for `triad status --watch`.

use std::collections::BTreeMap;

use triad_operator::counts::Rate;
use triad_workflow::Millis;

use crate::output::count;

/// The figures as text: orders by state, rates, and times from submission to end. If the store does not count its
/// orders, the text says which source does.
pub fn lines(orders: Option<&BTreeMap<String, u64>>, rates: Option<&[Rate]>) -> Vec<String> {
    let (Some(orders), Some(rates)) = (orders, rates) else {
        return vec![
            "Orders that have ended well are not counted on DynamoDB: see the metrics triad_orders_accepted_total and triad_orders_ended_total"
                .to_owned(),
        ];
    };
    let all = orders.values().sum();
    let mut lines = vec![format!("Stored       {}", count(all, "order", "orders"))];
    let states = by_state(orders);
    if !states.is_empty() {
        lines.push(format!("By state     {states}"));
    }
    for (rate, within) in rates.iter().zip(["minute", "hour", "day"]) {
        let least = if rate.more { "at least " } else { "" };
        let states = by_state(&rate.finished);
        let finished = match states.is_empty() {
            true => "none finished".to_owned(),
            false => format!("finished: {states}"),
        };
        let took = match (rate.p50_ms, rate.p99_ms) {
            (Some(p50), Some(p99)) => format!(", p50 {}, p99 {}", Millis(p50), Millis(p99)),
            _ => String::new(),
        };
        let (submitted, label) = (rate.submitted, format!("Last {within}"));
        lines.push(format!(
            "{label:<12} {least}{submitted} submitted, {finished}{took}"
        ));
    }
    lines
}

/// The states and the number of orders in each.
fn by_state(orders: &BTreeMap<String, u64>) -> String {
    let states = orders.iter().filter(|(_, orders)| **orders > 0);
    let states: Vec<String> = states.map(|(name, n)| format!("{name} {n}")).collect();
    states.join(", ")
}
