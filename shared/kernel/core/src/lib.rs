//! The decision core: orders, and the decision about every event.
//!
//! The heart is [`decide()`]: an order, an event and the time go in, the order's next version and
//! the effects come out as values. A [`Pass`] is the way from there to a record that is written, sent
//! and confirmed; Scheduler, Supervisor and operators all go it.
//!
//! Architecture invariant: no async, no clock, no random source, no AWS, Kafka or Lambda type.
//! Time, claim ids and definitions are arguments; messages are plain data.

pub mod agent;
pub mod amend;
mod application_act;
pub mod attention;
mod beside;
pub mod breaker;
pub mod budget;
pub mod children;
pub mod context;
pub mod decide;
mod declared;
pub mod doubt;
pub mod downstream;
pub mod due;
pub mod effect;
pub mod event;
pub mod failure;
pub mod history;
pub mod ids;
pub mod illegal;
pub mod input;
pub mod inspect;
pub mod invariants;
pub mod later;
pub mod ledger;
pub mod message;
pub mod migrate;
pub mod needs;
pub mod operate;
pub mod order;
pub mod outbox;
pub mod output;
pub mod pass;
pub mod rate;
pub mod received;
pub mod render;
pub mod retry_budget;
pub mod status;
pub mod step;
pub mod stored;
pub mod submission;
pub mod timeline;
pub mod topics;
pub mod trace;
pub mod window;
pub mod worst_case;

pub use attention::Attention;
pub use context::{Context, NeedsDetails, Timing};
pub use decide::{Decision, Reason, Transition, decide};
pub use effect::Effect;
pub use event::{Event, Overdue, Untaken};
pub use failure::{Failure, FailureKind};
pub use ids::{
    Attempt, CampaignId, ClaimId, Direction, IdempotencyKey, InvalidWorkflowRef, OrderId, Priority,
    Timestamp, Version, WorkflowRef,
};
pub use illegal::Illegal;
pub use later::{Callback, CallbackSecret, CallbackToken, InProgress, Says};
pub use message::{Accepted, Alert, Envelope, Reply, ReplyOutcome, StepRequest, Wake};
pub use operate::{Action, Operation, OperationRefusal};
pub use order::{Claim, OperatorAct, Order, ProcessState};
pub use output::{Output, OutputDigest};
pub use pass::{Pass, Snapshot};
pub use received::ReceivedEvent;
pub use step::{Applied, Doubt, Leg, Out, StepRecord, StepState, Work};
pub use trace::TraceContext;
