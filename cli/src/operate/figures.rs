//! Figures of a sample of the orders, for `triad status --watch`.

use std::collections::BTreeMap;

use triad_core::Timestamp;
use triad_operator::counts::{SAMPLE, SAMPLE_FOR, Sample, sample};
use triad_runtime::{StateStore, StoreError};
use triad_workflow::Millis;

use crate::output::count;

/// The last sample, and when it was taken.
#[derive(Debug, Default)]
pub struct Figures(Option<(Timestamp, Sample)>);

impl Figures {
    /// The figures at `now`; the last ones if they are not older than [`SAMPLE_FOR`].
    ///
    /// # Errors
    /// [`StoreError`] if the orders cannot be read.
    pub async fn at<S: StateStore>(
        &mut self,
        store: &S,
        now: Timestamp,
    ) -> Result<&Sample, StoreError> {
        let kept = self.0.take();
        let (at, taken) = match kept.filter(|(at, _)| now.since(*at) < SAMPLE_FOR) {
            Some(kept) => kept,
            None => (now, sample(store, SAMPLE, now).await?),
        };
        Ok(&self.0.insert((at, taken)).1)
    }
}

/// The figures in words: orders by state, rates, and times from submission to end.
pub fn lines(sample: &Sample) -> Vec<String> {
    let of = match sample.sampled {
        true => format!("the first {} of the table", sample.looked_at),
        false => format!("{} stored", count(sample.looked_at, "order", "orders")),
    };
    let mut lines = vec![format!("Of {of}")];
    let states = by_state(&sample.states);
    if !states.is_empty() {
        lines.push(format!("By state     {states}"));
    }
    let least = if sample.sampled { "at least " } else { "" };
    for (rate, within) in sample.rates.iter().zip(["minute", "hour", "day"]) {
        let states = by_state(&rate.finished);
        let finished = match states.is_empty() {
            true => "none finished".to_owned(),
            false => format!("finished: {states}"),
        };
        let (submitted, label) = (rate.submitted, format!("Last {within}"));
        lines.push(format!(
            "{label:<12} {least}{submitted} submitted, {finished}"
        ));
    }
    if let (Some(p50), Some(p99)) = (sample.p50_ms, sample.p99_ms) {
        let (p50, p99) = (Millis(p50), Millis(p99));
        lines.push(format!("To the end   p50 {p50}, p99 {p99}"));
    }
    lines
}

/// The states that orders are in, each with their number.
fn by_state(orders: &BTreeMap<&str, u64>) -> String {
    let states = orders.iter().filter(|(_, orders)| **orders > 0);
    let states: Vec<String> = states.map(|(name, n)| format!("{name} {n}")).collect();
    states.join(", ")
}
