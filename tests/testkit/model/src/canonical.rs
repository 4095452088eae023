//! Parts of states that several states share; they are compared and hashed by digest.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use triad_core::message::{SchedulerMessage, StepRequest};
use triad_core::pass::{Pass, Task};
use triad_core::{Direction, Order, StepState, Timestamp, Work};

/// A value with a digest, by which it is compared and hashed. The model checker compares whole states by digests as
/// well, so comparing the values would not be safer.
pub struct Canonical<T>(Arc<(T, u64)>);

impl<T> Canonical<T> {
    fn with_text(value: T, text: &str) -> Self {
        // This hasher has fixed keys, so equal texts have equal digests in every run.
        let mut digest = DefaultHasher::new();
        text.hash(&mut digest);
        Self(Arc::new((value, digest.finish())))
    }
}

impl Canonical<Order> {
    /// A process record. Fields that no decision reads (the timeline, past times of attempts) do not change its
    /// digest.
    #[must_use]
    pub fn order(order: Order) -> Self {
        let text = text(&order);
        Self::with_text(order, &text)
    }
}

/// A record as text without the fields that no decision reads (the timeline, past times of attempts). Records that
/// differ only in those behave alike from then on.
fn text(order: &Order) -> String {
    let mut read = order.clone();
    read.incidents.clear();
    read.dropped = None;
    for step in &mut read.steps {
        for leg in [&mut step.action, &mut step.compensation] {
            (leg.made, leg.unreported, leg.before) = (0, 0, 0);
        }
        forget_times_of_the_past(&mut step.state);
    }
    format!("{read:?}")
}

impl Canonical<Pass> {
    /// A pass that has a write, messages or a confirmation to carry out. Its digest covers its record and its unsent
    /// messages, which determine its next task.
    #[must_use]
    pub fn pass(pass: Pass) -> Self {
        let text = match pass.task() {
            Task::Write { expected, next, .. } => format!("write {expected} {}", text(next)),
            Task::Publish(wave) => {
                let sending = pass
                    .sending()
                    .map(|(order, written)| (text(order), written));
                let values = wave.iter().map(|m| &m.value);
                format!("publish {:?} {sending:?}", values.collect::<Vec<_>>())
            }
            Task::Confirm { expected, next } => format!("confirm {expected} {}", text(next)),
            task => format!("{task:?}"),
        };
        Self::with_text(pass, &text)
    }
}

fn forget_times_of_the_past(state: &mut StepState) {
    match state {
        // The failure is in the line of the timeline that counts it, which is left out.
        StepState::Acting(Work::Failed {
            direction, started, ..
        }) => (*direction, *started) = (Direction::Forward, Timestamp(0)),
        StepState::Compensating {
            work: Work::Failed { started, .. },
            ..
        } => *started = Timestamp(0),
        StepState::Completed {
            started, finished, ..
        } => (*started, *finished) = (None, Timestamp(0)),
        StepState::Compensated {
            applied,
            started,
            finished,
            ..
        } => {
            // Only shown to users; no decision reads it.
            applied.position = None;
            (*started, *finished) = (None, Timestamp(0));
        }
        _ => {}
    }
}

impl Canonical<SchedulerMessage> {
    /// A message of the topic `scheduler`, with the digest of its JSON.
    #[must_use]
    pub fn message(message: SchedulerMessage) -> Self {
        let text = serde_json::to_string(&message).expect("a message is JSON");
        Self::with_text(message, &text)
    }
}

impl Canonical<StepRequest> {
    /// A request to an agent, with the digest of its JSON.
    #[must_use]
    pub fn request(request: StepRequest) -> Self {
        // Left out of the digest: fields for the circuit breaker, which the model's agent does not have.
        let read = StepRequest {
            repeats: false,
            ..request.clone()
        };
        let text = serde_json::to_string(&read).expect("a request is JSON");
        Self::with_text(request, &text)
    }
}

impl<T> Clone for Canonical<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Canonical<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.0
    }
}

impl<T> PartialEq for Canonical<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.1 == other.0.1
    }
}

impl<T> Eq for Canonical<T> {}

impl<T> Hash for Canonical<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.1.hash(state);
    }
}

impl<T> fmt::Debug for Canonical<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0.1)
    }
}
