//! Decisions of the core for every event.

mod amend;
mod at_once;
mod bounds;
mod budget;
mod children;
mod claim;
mod compensation;
mod deadline;
mod deferred;
mod due;
mod golden;
mod history;
mod later;
mod ledger;
mod migrate;
mod operate;
mod parked;
mod pass;
mod pause;
mod progress;
mod repeat;
mod replies;
mod resolve;
mod resubmit;
mod search;
mod silence;
mod span;
mod supervise;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod under_way;
mod unsent;
mod waits;
mod ways;
mod worst_case;
