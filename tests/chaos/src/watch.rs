//! Reads process records while they change, and compares each read of a record with the previous one.
//!
//! If a kill of the store lost an acknowledged write, or if a write succeeded without a valid claim, a record's
//! version would decrease, or one version would have two contents.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::time::sleep;
use triad_core::{Order, OrderId};
use triad_runtime::StateStore;
use triad_workflow::Workflow;

use super::checks::claims::of_two_looks;
use super::checks::records::of_record;
use super::installation::Installation;

/// Interval between two reads.
const EVERY: Duration = Duration::from_millis(300);
/// Number of records in one read.
const AT_ONCE: usize = 60;

/// What the reads have found.
#[derive(Debug, Default)]
pub struct Sightings {
    last: HashMap<OrderId, Order>,
    claims: BTreeMap<String, OrderId>,
    /// Number of records read in all.
    pub seen: usize,
    /// Records that violate an invariant.
    pub broken: Vec<String>,
    /// Records that contradict the previous read of the same order.
    pub forked: Vec<String>,
}

impl Sightings {
    /// Adds the result of one read of a record.
    pub fn see(&mut self, order: Order, workflow: &Workflow) {
        self.seen += 1;
        self.broken.extend(of_record(&order, workflow));
        if let Some(before) = self.last.get(&order.id) {
            self.forked.extend(of_two_looks(before, &order));
        }
        if let Some(claim) = order.state.locked_by() {
            let first = self
                .claims
                .entry(claim.0.clone())
                .or_insert(order.id.clone());
            if *first != order.id {
                let seen = format!("claim {claim} is on {first} and on {}", order.id);
                self.forked.push(seen);
            }
        }
        self.last.insert(order.id.clone(), order);
    }
}

/// Reads records, mostly of orders that are likely to be under way, until `stop`.
pub async fn read_topics(
    installation: Arc<Installation>,
    seed: u64,
    in_flight: usize,
    ended: watch::Receiver<usize>,
    stop: tokio_util::sync::CancellationToken,
) -> Sightings {
    // These reads are recorded too, so the judge must explain them by the workers' writes.
    let store = installation.recorded_store().await;
    let mut rng = StdRng::seed_from_u64(seed);
    let mut sightings = Sightings::default();
    while !stop.is_cancelled() {
        let ended = *ended.borrow();
        // Orders are sent in numerical order, so those under way have numbers near the count of ended orders.
        let from = ended.saturating_sub(in_flight);
        let numbers: Vec<usize> = (from..ended + in_flight).collect();
        let amount = AT_ONCE.min(numbers.len());
        let mut wanted: Vec<usize> = numbers.choose_multiple(&mut rng, amount).copied().collect();
        wanted.push(rng.random_range(0..=ended));
        wanted.sort_unstable();
        wanted.dedup();
        let ids = wanted
            .iter()
            .filter_map(|n| OrderId::new(format!("chaos-{n}")).ok());
        let found = store.load(ids.collect()).await;
        // Reads may fail, because the store may be stopped now.
        for order in found.into_iter().flatten().flatten() {
            sightings.see(order, &installation.workflow);
        }
        tokio::select! {
            () = sleep(EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
    sightings
}
