//! Reading and acting as an operator: what the command line and the web console have in common.
//!
//! | module | does | reads |
//! |---|---|---|
//! | [`find`] | finds orders by search key, state, cause, workflow and age | what it finds; the whole table only for orders that ended well |
//! | [`pages`] | the same page by page, each with a bound of its own | a bounded part of an index or the table |
//! | [`search`] | says which search keys there are | the present definitions |
//! | [`counts`] | counts orders by state, with a bound | one page of each shard of the indexes |
//! | [`causes`] | counts the orders that need an operator by cause | the attention index |
//! | [`order`], [`timeline`], [`next`] | shows one order, with everything that happened to it and what will | one record |
//! | [`inputs`] | shows what an order's steps ask of their services | the order's details and definition |
//! | [`correction`], [`resolving`] | makes a corrected input of the present one; compares an output with what other steps read of it | nothing |
//! | [`bulk`], [`acts`], [`outcome`] | acts on many orders: dry run, rate, a report of each, stop between two | one record an order, and writes it |
//! | [`campaign`] | one act on many orders that is stored, carried out by the Supervisor, and stops by itself | what it acts on, and a record a batch |
//! | [`downstreams`] | shows and holds downstreams and step types, and says what waits for them | one control record a downstream |
//! | [`status`] | one look at an installation: what is under way, waits, and needs an operator | indexes and control records |
//! | [`versions`] | shows the versions of workflows and removes those that no order needs | the whole table of process records |
//! | [`changes`] | says what differs between two versions | nothing |
//! | [`audit`] | hands over every act that records keep, with who and why | the whole table of process records |
//! | [`address`] | says where a page of the console is, and which one shows what an alert is about | nothing |
//! | [`alert`] | says what an alert is about, in words | nothing |
//! | [`dead_letters`] | lists, shows and replays dead letters | the topic, from a moment on |
//! | [`recent`] | shows the newest alerts and counts the dead letters of late | a bounded part of the two topics |
//! | [`visible`] | shows text of others so that no terminal and no browser obeys it | nothing |
//! | [`topic`] | is the port by which the topics are read | nothing |
//! | [`moving`] | writes everything of an installation into a file, and puts a file into another one | the whole store |
//!
//! [`json`] has the form of all of it for programs: one line a thing, moments in RFC 3339.
//!
//! Single acts on an order or a downstream are those of [`triad_runtime::operator::Operator`]; what
//! is here is around them.
//!
//! Everything is generic over the ports of `triad-runtime`, answers with typed values and fails
//! with typed errors. Values have the JSON form that the command line prints with `--json`, where
//! they have one, through [`json::line`]. Each function says what bounds its work and its memory.
//!
//! Architecture invariant: nothing here prints, reads the environment, or knows of DynamoDB, Kafka,
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
pub mod correction;
pub mod counts;
pub mod dead_letters;
pub mod definition;
pub mod downstreams;
pub mod find;
pub mod inputs;
pub mod json;
mod merge;
pub mod messages;
pub mod moving;
pub mod next;
pub mod order;
pub mod outcome;
mod pace;
pub mod pages;
pub mod recent;
pub mod resolving;
pub mod search;
mod skipped;
pub mod status;
pub mod timeline;
pub mod topic;
pub mod versions;
pub mod visible_text;

pub use pace::{InvalidRate, Rate};
