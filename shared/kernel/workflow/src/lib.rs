//! Workflow definitions: written by teams, checked as a whole, compiled and pinned.
//!
//! A [`Definition`] is the authored data (YAML on disk, canonical JSON once published). A
//! [`Workflow`] is a definition that has passed every check: its steps are in an order in which
//! each comes after all that it depends on, its expressions are compiled, and it carries the
//! content hash by which orders pin it.
//!
//! Architecture invariant: this crate does no IO and reads no clock, and expressions cannot do so either.

pub mod bounds;
pub mod check;
mod compile;
pub mod details;
pub mod duration;
pub mod expr;
pub mod hash;
#[cfg(feature = "load")]
pub mod load;
pub mod model;
pub mod moment;
pub mod names;
pub mod numbers;
mod parts;
mod problem;
pub mod search;
pub mod service;
pub mod template;
#[cfg(feature = "load")]
mod types;
mod variables;
mod warn;
pub mod workflow;

pub use check::{Limits, Problem, TextPosition};
pub use details::{DetailsSchema, SchemaError};
pub use duration::{InvalidSpan, Millis};
pub use expr::{CompileError, EvalError, Expression, MAX_WORK, ReadOf, Scope};
pub use hash::{DefinitionHash, InvalidHash};
pub use model::Definition;
pub use names::{AgentName, InvalidName, SearchName, StepId, WorkflowName};
pub use problem::nearest;
pub use search::{InvalidSearchKey, SearchKey, SearchKeys};
pub use template::Template;
pub use workflow::{
    Above, Alternative, Await, AwaitedEvent, Call, CodePolicy, Compensation, Decision,
    FinishesLater, ForEach, Otherwise, Policy, Poll, Probe, Repeat, Retry, Run, Started, Step,
    StepIndex, StepKind, Timer, Workflow,
};
