//! What a decision may look at beside the order, the event and the time.

use serde_json::Value;
use triad_workflow::{Millis, Workflow};

/// Spans that hold for the whole installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Largest clock difference between any two machines: agents stop this much before
    /// complete-by, the Supervisor acts this much after it.
    pub skew: Millis,
    /// How long an announced order may wait for a claim before it is announced again.
    pub announce_within: Millis,
    /// How long after it finished an unconfirmed order is looked at by the Supervisor.
    pub confirm_within: Millis,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            skew: Millis(500),
            announce_within: Millis(60_000),
            confirm_within: Millis(30_000),
        }
    }
}

/// The pinned definition, the order's details and the installation's spans.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The definition that the order is pinned to.
    pub workflow: &'a Workflow,
    /// The order's details as submitted. The Supervisor, which starts no steps, passes null.
    pub details: &'a Value,
    /// The installation's spans.
    pub timing: Timing,
}
