//! The Lambda shell of a function, without business rules.
//!
//! Owns the shape of a Kafka event ([`event`]), the partial batch response ([`response`]), the invocation's deadline
//! and the three entries: [`run`] for Kafka batches, [`run_cron`] for schedules, and [`run_http`] for requests to the
//! function's URL ([`url`]). Architecture invariant: this crate does not interpret records or requests.
//!
//! A complete `main` of a function:
//!
//! ```no_run
//! use triad_lambda::{Invocation, ParsedRecord, RecordOutcome, RunConfig, RunError};
//!
//! # #[derive(Clone)] struct Clients;
//! # async fn connect() -> Result<Clients, String> { Ok(Clients) }
//! # async fn handle(_: Clients, records: Vec<ParsedRecord>, _: Invocation) -> Vec<RecordOutcome> {
//! #     records.iter().map(|_| RecordOutcome::Done).collect()
//! # }
//! #[tokio::main]
//! async fn main() -> Result<(), RunError> {
//!     let clients = triad_lambda::init(connect()).await?;
//!     triad_lambda::run(RunConfig::default(), |records, invocation| {
//!         handle(clients.clone(), records, invocation)
//!     })
//!     .await
//! }
//! ```

mod deadline;
mod error;
pub mod event;
mod init;
pub mod response;
mod run;
pub mod url;

pub use deadline::{Deadline, Invocation, Progress};
pub use error::{FunctionError, RunError};
pub use event::{EventError, MalformedCause, MalformedRecord, ParsedRecord, parse_event};
pub use init::init;
pub use response::{BatchMode, BatchResponse, RecordId};
pub use run::{RecordOutcome, RunConfig, answer_batch, answer_cron, run, run_cron};
pub use url::{NoRequest, answer_http, parse_request, run_http};
