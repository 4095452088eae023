//! Gauge of the orders that need an operator, for an alarm that rings until there are none. Only for stores that
//! count their orders: on others each look would cost read units of a table.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use triad_bootstrap::WholeStore;
use triad_core::{Attention, WorkflowRef};
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock, StoreError, metric};
use triad_workflow::WorkflowName;

/// Interval between two looks.
const EVERY: Duration = Duration::from_secs(5);
/// The counted states.
const STATES: [Attention; 2] = [Attention::Error, Attention::CompensationFailed];

/// Orders by their workflow, one number for each of [`STATES`].
type StateCounts = BTreeMap<WorkflowName, [u64; STATES.len()]>;

/// Sets the gauge periodically, until `stop`. Ends at once if the store does not count its orders.
pub(crate) async fn publish_gauge<S: WholeStore>(
    store: S,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut counts = StateCounts::new();
    let mut timer = tokio::time::interval(EVERY);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = timer.tick() => {}
            () = stop.cancelled() => return Ok(()),
        }
        // Reset to 0, so that a workflow without such orders does not keep its last number.
        counts.values_mut().for_each(|of| *of = [0; STATES.len()]);
        match count(&store, &mut counts).await {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                tracing::warn!(%error, "the orders that need an operator could not be counted");
                continue;
            }
        }
        for (workflow, of) in &counts {
            for (state, orders) in STATES.iter().zip(of) {
                metric::needing(workflow, state.name(), *orders);
            }
        }
    }
}

/// Counts the orders; false if the store does not.
async fn count<S: WholeStore>(store: &S, counts: &mut StateCounts) -> Result<bool, StoreError> {
    let Some(tally) = store.tally(SystemClock.now()).await? else {
        return Ok(false);
    };
    for version in store.versions().await? {
        counts.entry(version.definition.name).or_default();
    }
    for group in tally.groups {
        let at = STATES
            .iter()
            .position(|kind| group.attention == Some(*kind));
        if let (Some(at), Ok(workflow)) = (at, group.workflow.parse::<WorkflowRef>()) {
            counts.entry(workflow.name).or_default()[at] += group.orders;
        }
    }
    Ok(true)
}
