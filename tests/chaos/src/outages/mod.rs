//! Outages of one part (G11): while a topic is refused, a service hangs or the store is denied, the orders that do
//! not need it end within a time limit. Afterwards the other orders end correctly too.
//!
//! The processes are those of the run with kills ([`super::installation`]), but none is killed. Outages do not
//! overlap, so each effect has one cause. [`plan`] defines the outages, the orders that each holds up, and the time
//! limits of orders; `follow` records when orders end; [`run`] carries out the outages; `verdict` checks the result.

mod follow;
pub mod plan;
pub mod report;
pub mod run;
mod verdict;
