//! Inputs of a decision besides the order, the event and the time.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_workflow::{Millis, Workflow};

use crate::ids::Timestamp;

/// Spans that hold for the whole installation, each in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Largest clock difference between any two machines. Agents stop this long before an attempt's
    /// complete-by, and the Supervisor acts this long after it. Default `500ms`.
    pub skew: Millis,
    /// How long a request may wait in its agent's topic. The step's attempt timeout begins only
    /// when the agent takes the request, so complete-by is the time of the request plus both spans.
    /// Default `60s`.
    pub queue_within: Millis,
    /// How long the Supervisor still waits for a reply when it first finds an attempt beyond its
    /// complete-by: the reply may have been sent in time and be unread on the topic `scheduler`.
    /// Default `5s`.
    pub hear_within: Millis,
    /// How long an announced order may wait for a claim before it is announced again. Default
    /// `60s`.
    pub announce_within: Millis,
    /// How long after its end the Supervisor looks at a finished order that is not confirmed, because its
    /// messages may be unsent. Default `30s`.
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
    /// The complete-by of an attempt whose request is made at `now`, and whose agent has
    /// `attempt_timeout` milliseconds from when it takes the request.
    #[must_use]
    pub fn complete_by(&self, attempt_timeout: Millis, now: Timestamp) -> Timestamp {
        now.plus(self.queue_within).plus(attempt_timeout)
    }
}

/// The error of a decision that depends on the order's details when [`Context::details`] is `None`:
/// the caller is to read them and to decide again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeedsDetails;

/// Inputs of a decision besides the order, the event and the time.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The definition that the order runs on.
    pub workflow: &'a Workflow,
    /// The order's details as submitted, without its [amendment](crate::amend); `None` if they have not been read. A
    /// decision that needs them then ends with [`NeedsDetails`] or [`Decision::NeedsDetails`](crate::Decision::NeedsDetails).
    pub details: Option<&'a Value>,
    /// The installation's spans, in milliseconds.
    pub timing: Timing,
}
