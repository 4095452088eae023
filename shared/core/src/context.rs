//! What a decision may look at beside the order, the event and the time.

use serde_json::Value;
use triad_workflow::{Millis, Workflow};

use crate::ids::Timestamp;

/// Spans that hold for the whole installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Largest clock difference between any two machines: agents stop this much before
    /// complete-by, the Supervisor acts this much after it.
    pub skew: Millis,
    /// How long a request may wait in its agent's topic, beside the step's complete-within, which
    /// begins when the agent takes it. Complete-by is the sum of both after the request was made.
    pub queue_within: Millis,
    /// How long the Supervisor leaves an attempt alone that it has met beyond its complete-by for
    /// the first time: its reply may be on the topic `scheduler`, sent in time and not read yet.
    pub hear_within: Millis,
    /// How long an announced order may wait for a claim before it is announced again.
    pub announce_within: Millis,
    /// How long after it finished an unconfirmed order is looked at by the Supervisor.
    pub confirm_within: Millis,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            skew: Millis(500),
            queue_within: Millis(60_000),
            hear_within: Millis(5_000),
            announce_within: Millis(60_000),
            confirm_within: Millis(30_000),
        }
    }
}

impl Timing {
    /// The complete-by of an attempt whose request is made now, and that its agent is given
    /// `complete_within` for.
    #[must_use]
    pub fn complete_by(&self, complete_within: Millis, now: Timestamp) -> Timestamp {
        now.plus(self.queue_within).plus(complete_within)
    }
}

/// A decision depends on the order's details, and the caller has not read them: it is to read them
/// and ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeedsDetails;

/// The pinned definition, the order's details and the installation's spans.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The definition that the order is pinned to.
    pub workflow: &'a Workflow,
    /// The order's details as submitted; `None` if they have not been read. A decision that needs
    /// them then says so: [`NeedsDetails`].
    pub details: Option<&'a Value>,
    /// The installation's spans.
    pub timing: Timing,
}
