//! The decision core: what an order is, and what every event makes of it.
//!
//! The heart is [`decide`]: an order, an event and the time go in, the order's next version and
//! the messages to send come out. The Supervisor's [`plan`] is the same function over the
//! records that it found overdue.
//!
//! Architecture invariant: no async, no clock, no random source, no AWS, Kafka or Lambda type.
//! Time, claim ids and definitions are arguments; messages are plain data.

pub mod agent;
pub mod breaker;
pub mod budget;
pub mod context;
pub mod decide;
pub mod downstream;
pub mod due;
pub mod event;
pub mod failure;
pub mod ids;
pub mod invariants;
pub mod ledger;
pub mod message;
pub mod migrate;
pub mod needs;
pub mod operate;
pub mod order;
pub mod outbox;
pub mod plan;
pub mod planted;
pub mod rate;
pub mod retry_budget;
pub mod status;
pub mod step;
pub mod submission;
pub mod timeline;
pub mod topics;
pub mod window;

pub use context::{Context, Timing};
pub use decide::{Decision, Illegal, Reason, decide};
pub use event::{Event, Untaken};
pub use failure::{Failure, FailureKind};
pub use ids::{Attempt, ClaimId, Direction, IdempotencyKey, OrderId, Timestamp, Version};
pub use message::{Accepted, Alert, Envelope, Outcome, Reply, Retry, StepRequest};
pub use operate::{Action, Operation, Refusal};
pub use order::{Act, Claim, Order, Priority, ProcessState, StepRecord, StepState, WorkflowRef};
pub use plan::{Plan, Verdict, plan};
