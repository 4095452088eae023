//! What every event makes of every order.

mod at_once;
mod bounds;
mod budget;
mod claim;
mod deadline;
mod due;
mod golden;
mod history;
mod ledger;
mod migrate;
mod operate;
mod parked;
mod pass;
mod pause;
mod progress;
mod repeat;
mod replies;
mod resubmit;
mod search;
mod settle;
mod silence;
mod span;
mod supervise;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod under_way;
mod undo;
mod unsent;
mod waits;
mod worst_case;
