//! Coverage of a run: which faults, states, acts, refusals, policies and checked invariants it has reached. What is
//! not reached is not tested, and an invariant that was never checked proves nothing.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};

use foldhash::fast::FixedState;
use triad_core::{Direction, Order, ProcessState, StepState, Work};

/// How often each name was reached in a run.
///
/// Counting happens some hundred times per order. So names are compared by their address, which costs less than
/// comparing text. Counts of equal names at different addresses are added up when they are read.
#[derive(Clone, Default)]
pub struct Coverage(HashMap<SourceName, u64, FixedState>);

/// A name. Two are equal if they are at the same address.
#[derive(Clone, Copy)]
struct SourceName(&'static str);

impl PartialEq for SourceName {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for SourceName {}

impl Hash for SourceName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().hash(state);
    }
}

impl PartialEq for Coverage {
    fn eq(&self, other: &Self) -> bool {
        self.by_name() == other.by_name()
    }
}

impl Eq for Coverage {}

impl fmt::Debug for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.by_name().fmt(f)
    }
}

/// The names that the runs in CI must reach together.
pub const WANTED: &[&str] = &[
    "fault: store throttled",
    "fault: store denied access",
    "fault: transaction conflict",
    "fault: write lost its answer",
    "fault: write retried by the client",
    "fault: write landed late",
    "fault: read a moment old",
    "fault: index row missing",
    "fault: index page empty",
    "fault: index late",
    "fault: expired record deleted",
    "fault: send failed",
    "fault: send not acknowledged",
    "fault: send landed late",
    "fault: message stored twice",
    "fault: end of a child order lost",
    "fault: offset commit lost",
    "fault: port call stalled",
    "fault: store call hung",
    "fault: publish hung",
    "fault: remote call hung",
    "fault: service hangs",
    "fault: producer lost",
    "saw: producer replaced",
    "fault: topic refused",
    "fault: reply of an earlier version",
    "fault: died before an effect",
    "fault: died after an effect",
    "fault: killed",
    "fault: machine died",
    "saw: messages in memory lost with the machine",
    "saw: offset commit lost with the machine",
    "fault: messages not stored with their record",
    "saw: status received stored with its order",
    "saw: statuses stored with their record",
    "saw: end due for a sweep, stored without its status",
    "what-is-stored-with-a-record-is-for-others",
    "saw: order driven on",
    "g1-driven-on-at-the-start",
    "fault: frozen for seconds",
    "fault: frozen for minutes",
    "fault: clock jumped within the skew",
    "fault: clock jumped beyond the skew",
    "fault: partition moved from a live instance",
    "fault: sink down",
    "fault: service down",
    "fault: service down, with Retry-After",
    "fault: service does not accept its callers",
    "fault: service overloaded",
    "fault: remote failed",
    "fault: remote lost its answer",
    "fault: remote answered garbage",
    "fault: remote answered in another shape",
    "fault: remote works on an earlier call",
    "saw: order stopped for the shape of an answer",
    "g5-work-is-not-compensated-for-the-shape-of-an-answer",
    "fault: remote call landed late",
    "fault: remote not reached",
    "fault: remote declined",
    "fault: compensation declined",
    "input: repeated submission",
    "input: conflicting submission",
    "input: details that do not fit",
    "input: two search keys",
    "input: no value for a search key",
    "input: poison order",
    "input: poison scheduler message",
    "input: poison request",
    "input: poison event",
    "input: event",
    "input: act of an application",
    "input: event again",
    "input: event before its order",
    "input: event that no step awaits",
    "input: event with a key",
    "input: event that does not match",
    "saw: event kept",
    "saw: event taken",
    "saw: event did not come",
    "saw: event not used",
    "saw: event failed its step",
    "saw: wait over",
    "saw: decision asked for again",
    "saw: escalated decision",
    "saw: work taken",
    "saw: work asked for again in progress",
    "saw: work compensated before its end",
    "saw: work never finished",
    "saw: no sign of life",
    "saw: finished by a callback",
    "saw: finished by a question",
    "saw: failed by a callback",
    "saw: failed by a question",
    "saw: callback before the answer to its call",
    "saw: question about unknown work",
    "saw: question about work in progress",
    "saw: question about finished work",
    "saw: question about failed work",
    "saw: child order waits for its turn",
    "saw: child order started",
    "saw: another way to do the work of a step",
    "saw: child order in the place of another",
    "saw: child order Processed",
    "saw: child order failed",
    "saw: child order compensated while it ran",
    "saw: child order compensated after its end",
    "saw: child order compensated",
    "saw: child order compensated before it was stored",
    "saw: child order kept",
    "saw: child orders joined",
    "saw: child orders asked for again",
    "saw: ways let go",
    "saw: ways asked again that were let go",
    "saw: order waits for ways that it has let go",
    "ways-are-let-go-in-the-write-that-completes-their-step",
    "work-that-is-done-misses-no-deadline",
    "saw: end of a child order told again",
    "g2-a-child-order-is-known-to-its-parent",
    "g8-a-child-order-tells-its-parent-alone",
    "g10-a-child-order-ends-as-its-parent-does",
    "g10-an-order-in-whose-place-another-is-has-no-effect",
    "input: callback",
    "input: callback again",
    "input: callback with a wrong token",
    "input: heartbeat",
    "input: high lane",
    "input: later version published",
    "saw: alert of the installation",
    "saw: tombstone before its forward call",
    "saw: forward call refused after its compensation",
    "saw: probe while its call is under way",
    "saw: probe says applied",
    "saw: probe says not applied",
    "saw: output beside its record",
    "saw: output read from beside a record",
    "saw: expired record ignored",
    "saw: order set aside",
    "saw: order let in that was set aside",
    "saw: rate granted",
    "saw: calls claimed in the ledger",
    "saw: order rejected",
    "saw: order refused and told",
    "saw: order held back",
    "saw: order waits to be started",
    "silence: not counted",
    "silence: counted, for an agent had taken it",
    "load: burst",
    "load: slow service",
    "load: service away",
    "load: everything stops for an hour",
    "load: instances killed",
    "load: struggling service",
    "load: calls repeated",
    "alone: topic of statuses refused",
    "alone: reply topic refused",
    "alone: topic of alerts refused",
    "alone: topic of dead letters refused",
    "alone: requests of one agent refused",
    "alone: high lane of the Scheduler refused",
    "alone: partition without a leader",
    "alone: service hangs",
    "alone: process can send nothing",
    "alone: writes of one order refused",
    "alone: service refuses one order",
    "alone: service asks one order to wait",
    "alone: control records denied",
    "alone: definition that nobody can read",
    "alone: definition that only newer processes can read",
    "alone: with failing calls",
    "alone: went on meanwhile",
    "campaign: started",
    "campaign: refused, another does the same",
    "campaign: stopped",
    "campaign: resumed",
    "campaign: finished",
    "campaign: over, an operator stopped it",
    "campaign: over, nothing came to an end",
    "campaign: over, its orders failed again",
    "campaign: met an order that it had acted on",
    "a-campaign-that-acted-is-stored",
    "a-campaign-lists-what-it-acted-on-once",
    "a-campaigns-sums-are-those-of-its-batches",
    "an-alert-of-a-campaign-has-its-cause",
    "a-campaign-that-stopped-by-itself-is-told",
    "order: Pending",
    "order: Processing",
    "order: Compensating",
    "order: Processed",
    "order: Compensated",
    "order: Error",
    "order: CompensationFailed",
    "step: waiting",
    "step: skipped",
    "step: running",
    "step: probing",
    "step: deferred",
    "step: failed",
    "step: retry-due",
    "step: delayed",
    "step: parked",
    "step: completed",
    "step: refused",
    "step: ambiguous",
    "step: compensation-due",
    "step: compensating",
    "step: compensation-delayed",
    "step: compensation-deferred",
    "step: compensation-failed",
    "step: not-compensated",
    "step: compensated",
    "incident: attempt abandoned",
    "incident: had been compensated",
    "incident: had completed",
    "incident: attempt failed",
    "incident: compensation failed",
    "incident: compensation began",
    "incident: deferred",
    "incident: in progress",
    "incident: decided",
    "incident: probed",
    "deadline: asked for by an order",
    "deadline: missed, compensated",
    "deadline: missed past the point of no return",
    "progress: step told",
    "policy: retry at once",
    "policy: retry by the Scheduler",
    "policy: retry after a delay",
    "policy: retry after the delay of a code",
    "policy: wait long",
    "policy: compensate",
    "policy: error",
    "policy: retry the compensation",
    "policy: give the compensation up",
    "breaker: closed",
    "breaker: open",
    "breaker: half-open",
    "breaker: forced",
    "breaker: step paused",
    "breaker: its change was told",
    "operator: resubmit",
    "operator: resubmit with another input",
    "operator: cancel",
    "operator: retry-compensation",
    "operator: close",
    "operator: amend",
    "operator: pause",
    "operator: resume",
    "operator: resolve",
    "operator: migrate",
    "operator: dry run",
    "operator: force open",
    "operator: force closed",
    "operator: release",
    "operator: pause a step type",
    "operator: resume a step type",
    "operator: an act failed",
    "refusal: state",
    "refusal: past the pivot",
    "refusal: in doubt",
    "refusal: step",
    "refusal: already",
    "refusal: amended already",
    "refusal: read by a step",
    "refusal: read by a search key",
    "refusal: amended details do not fit",
    "refusal: no amendment",
    "refusal: no such order",
    "refusal: migration",
    "saw: an order started at its moment",
    // Invariants: each must have been checked.
    "a-breakers-event-was-decided",
    "a-call-has-the-details-with-which-its-step-began",
    "a-claim-names-who-made-it",
    "an-amendment-is-one-act",
    "a-downstreams-record-is-readable",
    "a-half-open-breaker-lets-out-few",
    "an-agent-is-silent-after-complete-by",
    "an-order-that-is-set-aside-is-in-every-list",
    "an-open-breaker-makes-no-call",
    "an-effect-is-compensated-where-it-is",
    "an-outage-is-one-change",
    "an-event-with-a-key-reaches-its-order",
    "an-order-does-not-start-before-its-moment",
    "an-order-keeps-its-definition",
    "an-order-that-needs-an-operator-is-kept",
    "concurrency-within-its-limit",
    "g1-hint-not-later-than-the-truth",
    "g1-somebody-looks-within-a-day",
    "g2-applied-once",
    "g2-completed-is-applied",
    "g2-not-applied-unasked",
    "g2-one-effect-of-a-step",
    "g2-what-may-not-be-repeated-is-not",
    "g3-order-of-steps",
    "g3-compensated-in-reverse-at-the-service",
    "g4-one-live-claim",
    "g5-a-taken-attempt-has-used-its-allowance",
    "g5-attempts-within-threshold",
    "g5-calls-within-allowance",
    "g5-calls-within-the-declared-total",
    "g6-alerts-for-bad-ends-alone",
    "g6-an-alert-means-one-thing",
    "g6-an-alert-of-the-installation-has-its-cause",
    "g6-an-alert-once-where-nothing-is-lost",
    "g6-operators-are-told-of-what-is-refused",
    "g6-operators-are-told-once-of-a-definition-that-cannot-be-read",
    "g7-a-dead-letter-has-a-cause",
    "g7-a-letter-goes-before-its-alert",
    "g7-an-alert-for-every-dead-letter",
    "g7-misfits-are-never-stored",
    "g7-misfits-are-told-so",
    "g7-poison-is-dead-lettered",
    "g8-a-sequence-means-one-thing",
    "g8-everything-is-told",
    "g8-no-gap",
    "g8-statuses-are-readable",
    "g8-statuses-are-where-they-are-wanted",
    "g8-the-last-status-is-the-end",
    "g9-a-missed-deadline-is-acted-on",
    "g9-finishes-within-the-bound",
    "g10-compensated-leaves-no-effect",
    "g10-compensated-is-not-in-place",
    "g11-others-go-on",
    "g12-load-alone-fails-nothing",
    "g12-no-more-is-started-than-is-answered-in-time",
    "g12-no-overload-outlives-its-cause",
    "g12-repeated-calls-within-their-budget",
    "g12-started-orders-end-soon",
    "g12-submission-waits-for-the-schedulers",
    "g12-the-older-is-started-first",
    "g12-waiting-is-no-failure",
    "g12-waiting-spends-no-attempt",
    "invariants-of-the-core",
    "past-the-pivot-nothing-is-compensated",
    "rate-granted-within-its-limit",
    "rate-within-its-limit",
    "replies-that-were-sent-in-time-are-awaited",
    "search-finds-exactly-the-orders-with-the-key",
    "search-keys-are-those-of-the-submission",
    "the-cap-on-orders-in-flight-holds",
    "a-named-output-is-stored",
    "a-sale-that-is-done-is-paid",
    "a-wait-lasts-until-its-end",
    "an-event-that-came-in-time-is-not-missed",
    "an-event-was-sent-and-is-had-once",
    "g7-an-event-is-had-or-told",
    "g8-an-act-of-an-application-is-answered",
    "who-decides-may-decide",
    "the-history-is-whole",
    "a-wait-belongs-to-its-step",
    "what-becomes-ready-is-asked-for",
    "the-supervisor-waits-for-complete-by",
    "what-is-paused-is-not-called",
    "what-is-put-off-is-no-failure",
    "what-was-read-of-the-details-is-not-amended",
    "what-refuses-its-caller-fails-no-order",
    "world-every-record-is-readable",
    "world-the-topic-is-there",
];

fn of_order(state: &ProcessState) -> &'static str {
    match state {
        ProcessState::Pending { .. } => "order: Pending",
        ProcessState::Processing(_) => "order: Processing",
        ProcessState::Processed { .. } => "order: Processed",
        ProcessState::Error { .. } => "order: Error",
        ProcessState::Compensating { .. } => "order: Compensating",
        ProcessState::Compensated { .. } => "order: Compensated",
        ProcessState::CompensationFailed { .. } => "order: CompensationFailed",
    }
}

fn of_step(state: &StepState) -> &'static str {
    match state {
        StepState::Waiting => "step: waiting",
        StepState::Skipped => "step: skipped",
        StepState::Acting(Work::Out(out)) if out.direction == Direction::Probe => "step: probing",
        StepState::Acting(Work::Out(_)) => "step: running",
        StepState::Acting(Work::Deferred { .. }) => "step: deferred",
        StepState::Acting(Work::Failed { .. }) => "step: failed",
        StepState::Acting(Work::Due { .. }) => "step: retry-due",
        StepState::Acting(Work::Delayed { .. }) => "step: delayed",
        StepState::Acting(Work::Parked { .. }) => "step: parked",
        StepState::Completed { .. } => "step: completed",
        StepState::Refused { .. } => "step: refused",
        StepState::Ambiguous { .. } => "step: ambiguous",
        StepState::Compensating { work, .. } => match work {
            Work::Due { .. } => "step: compensation-due",
            Work::Delayed { .. } => "step: compensation-delayed",
            Work::Out(_) => "step: compensating",
            Work::Deferred { .. } => "step: compensation-deferred",
            Work::Parked { .. } => "step: compensation-parked",
            Work::Failed { .. } => "step: compensation-failed",
        },
        StepState::NotCompensated { .. } => "step: not-compensated",
        StepState::Compensated { .. } => "step: compensated",
    }
}

impl Coverage {
    /// Adds 1 to the count of this name.
    pub fn reach(&mut self, what: &'static str) {
        self.reach_times(what, 1);
    }

    /// Adds `times` to the count of this name.
    pub(crate) fn reach_times(&mut self, what: &'static str, times: u64) {
        *self.0.entry(SourceName(what)).or_default() += times;
    }

    /// Counts the states of a record's order and steps.
    pub(crate) fn reach_states(&mut self, order: &Order) {
        self.reach(of_order(&order.state));
        for step in &order.steps {
            self.reach(of_step(&step.state));
        }
    }

    /// Adds `n` to the count of this name. Returns false, and counts nothing, if the name is unknown.
    pub fn add_named(&mut self, name: &str, n: u64) -> bool {
        let known = WANTED.iter().chain(EXTRA).find(|w| **w == name);
        if let Some(what) = known {
            self.reach_times(what, n);
        }
        known.is_some()
    }

    /// How often this name was reached; 0 for an unknown name.
    #[must_use]
    pub fn count(&self, what: &str) -> u64 {
        let places = self.0.iter().filter(|(place, _)| place.0 == what);
        places.map(|(_, n)| n).sum()
    }

    /// The names in [`WANTED`] that were not reached.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let reached = self.by_name();
        WANTED
            .iter()
            .copied()
            .filter(|what| !reached.contains_key(what))
            .collect()
    }

    /// Every name that was reached, with its count, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.by_name().into_iter()
    }

    /// The counts of all names that were reached.
    fn by_name(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for (place, n) in self.0.iter().filter(|(_, n)| **n > 0) {
            *counts.entry(place.0).or_default() += n;
        }
        counts
    }
}

/// Names that are counted, but that a short run need not reach.
const EXTRA: &[&str] = &["saw: write to a record that has gone"];
