//! Operators' commands: find orders, act on one or many, hold downstreams, and manage versions of workflows.

pub mod audit;
pub mod bulk;
mod correct;
pub mod downstream;
mod figures;
pub mod list;
pub mod orders;
mod pressure;
pub mod signal;
pub mod status;
pub mod workflows;
