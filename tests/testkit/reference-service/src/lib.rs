//! The reference remote service: honours the contract, keeps a ledger and misbehaves on request.
//!
//! It stands in for the remote services of a demo or a test, and shows what an agent may expect of a real one.
//!
//! # The contract
//!
//! `POST /{service}/{action}` with a JSON body and these headers:
//!
//! | header | |
//! |---|---|
//! | `Idempotency-Key` | required; the same for every attempt of one step in one direction |
//! | `Triad-Direction` | `forward` (the default) or `compensate` |
//! | `Triad-Compensates` | required on a compensation: the forward key whose effect it reverses |
//! | `Triad-Order`, `Triad-Step`, `Triad-Attempt` | optional; for the ledger |
//!
//! 1. The same key with the same request takes effect once, and is answered the same.
//! 2. The same key with another request is refused: 422 `key_reused`.
//! 3. A compensation reverses the effect of the key that it names, once, however often it comes and
//!    under however many keys.
//! 4. A compensation that comes before its forward call leaves a tombstone: the forward call is then
//!    refused without effect, 409 `compensated`. So is a forward call that comes again after its compensation.
//! 5. An error is `{"error": {"code", "message"}}`. 429 and 5xx are transient, perhaps with
//!    `Retry-After`; any other 4xx is permanent and had no effect. A transient answer says
//!    nothing about the effect.
//!
//! # Beside the contract
//!
//! `GET` and `PUT /_faults` read and set [`Faults`]; `GET /_ledger` streams one JSON line a key
//! ([`KeyView`]), `GET /_ledger/summary` the counts ([`Summary`]), `GET /_health` answers 200.
//!
//! A key that the fault settings decline is declined for as long as they do; once they do not
//! any more, a resubmission under the same key takes effect. A refusal is not remembered.
//!
//! ```
//! use triad_reference_service::{Config, ReferenceService};
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let service = ReferenceService::start(Config::default()).await.unwrap();
//! println!("http://{}", service.addr());
//! assert_eq!(service.summary().total.calls, 0);
//! service.shutdown().await;
//! # });
//! ```

mod answers;
pub mod book;
mod call;
pub mod contract;
mod faults;
mod hash;
mod http;
mod ledger_file;
mod service;
mod shared;
mod summary;

pub use answers::{PlayedAnswers, PlayedCall};
pub use call::Direction;
pub use faults::{
    Decision, FaultPlan, Faults, FaultsError, MAX_SERVICE_PLANS, MAX_WAIT_MS, Mishap,
};
pub use http::{MAX_BODY, MAX_KEY, MAX_NAME};
pub use ledger_file::LedgerError;
pub use service::{Config, Handle, ReferenceService, StartError};
pub use shared::MAX_WAITING;
pub use summary::{CallCounts, KeyStatus, KeyView, MAX_EXAMPLES, Summary};
