//! Queries and acts of operators, shared by the command line and the web console.
//!
//! | module | does | reads |
//! |---|---|---|
//! | [`find`] | finds orders by search key, state, cause, workflow and age | what it finds; the whole table only for orders that ended well |
//! | [`pages`] | the same page by page, each page with its own bound | a bounded part of an index or the table |
//! | [`search`] | lists the declared search keys | the present definitions |
//! | [`counts`] | counts orders by state, with a bound | one page of each shard of the indexes |
//! | [`history`] | keeps what came and ended in the last hour and day | what [`counts`] reads, once a minute |
//! | [`causes`] | counts the orders that need an operator by cause | the attention index |
//! | [`order`], [`timeline`], [`next`], [`children`] | shows one order, with its history, its next events and its child orders | one record |
//! | [`inputs`] | shows the calls of an order's steps to their services | the order's details and definition |
//! | [`correction`], [`resolving`] | makes a corrected input of the present one; compares an output with what other steps read of it | nothing |
//! | [`bulk`], [`acts`], [`outcome`] | acts on many orders: dry run, rate, a report of each, stop between two | one record an order, and writes it |
//! | [`campaign`] | one stored act on many orders, which the Supervisor carries out and stops early if it does not help | the orders that it acts on, and a record a batch |
//! | [`downstreams`] | shows and holds downstreams and step types, and the orders that wait for them | one control record a downstream |
//! | [`versions`] | shows the versions of workflows and removes those that no order needs | the whole table of process records |
//! | [`changes`] | lists the differences between two versions | nothing |
//! | [`audit`] | lists every stored act, with its operator and reason | the whole table of process records |
//! | [`address`] | addresses of the console's pages, and the page for an alert | nothing |
//! | [`alert`] | names and texts of alert kinds | nothing |
//! | [`dead_letters`] | lists, shows and replays dead letters | the topic, from a moment on |
//! | [`recent`] | shows the newest alerts and counts recent dead letters | a bounded part of the two topics |
//! | [`visible_text`] | makes text from outside safe to show in a terminal or a browser | nothing |
//! | [`topic`] | the port by which the topics are read | nothing |
//! | [`operations`] | all of it as typed requests with answers, for every way in: roles, hidden fields, bounds, dry runs | what the request reads |
//! | [`moving`] | exports an installation into a file, and imports a file into another one | the whole store |
//!
//! [`json`] has the form of all of it for programs: one line a thing, moments in RFC 3339.
//!
//! [`triad_runtime::operator::Operator`] has the single acts on an order or a downstream; this crate uses them.
//!
//! Everything is generic over the ports of `triad-runtime`, answers with typed values and fails
//! with typed errors. Values have the JSON form that the command line prints with `--json`, where
//! they have one, through [`json::line`]. Each function says what bounds its work and its memory.
//!
//! Architecture invariant: this crate does not print, read the environment, or depend on DynamoDB, Kafka,
//! HTTP or a terminal. Now is an argument, or comes from a [`Clock`](triad_runtime::Clock).

pub mod acts;
pub mod address;
pub mod alert;
mod attention;
pub mod audit;
pub mod bulk;
pub mod campaign;
pub mod causes;
pub mod changes;
pub mod children;
pub mod correction;
pub mod counts;
pub mod dead_letters;
pub mod definition;
pub mod downstreams;
pub mod find;
pub mod history;
pub mod inputs;
pub mod json;
mod merge;
pub mod messages;
pub mod moving;
pub mod next;
pub mod operations;
pub mod order;
pub mod outages;
pub mod outcome;
mod pace;
pub mod pages;
pub mod recent;
pub mod resolving;
mod schema;
pub mod search;
mod skipped;
pub mod timeline;
pub mod topic;
pub mod versions;
pub mod visible_text;

pub use pace::{InvalidRate, Rate};
