//! The HTTP interface of one machine: applications submit orders and wait for their ends, without a
//! Kafka client.
//!
//! | request | is |
//! |---|---|
//! | `POST /v1/orders` | submits an order, the same JSON as on the topic `orders`; with `application/x-ndjson` an order on each line |
//! | `GET /v1/orders/{id}` | shows an order |
//! | `POST /v1/orders/{id}/events` | sends an event to an order, which the step that waits for it takes |
//! | `POST /v1/orders/{id}/amend` | replaces details of an order that no step has read yet |
//! | `POST /v1/orders/{id}/cancel` | has an order compensated that has not reached its point of no return |
//! | `GET /v1/openapi.json` | the document of this interface |
//! | `GET /healthz`, `GET /readyz` | whether the process is up, and whether it takes orders |
//!
//! `?wait=30s` answers with the order's end if it comes in that time. `?priority=high` submits to the
//! high lane.
//!
//! **Operators** use the same listener, if [`Settings::operators`] is set: [`triad_console`] answers
//! `/v1/operate/…` and `/console/…`. [`Server::for_operators`] has only these paths.
//!
//! **[`Submission`](triad_runtime::submission::Submission) decides about orders**, by the same rules as for
//! those of a topic: which order is a repetition, a conflict, or invalid. Its answer becomes an HTTP status. A
//! refused order becomes no dead letter, because the client has the answer. Concurrent requests are submitted
//! together, so that the store writes them in one transaction; a single request is submitted at once.
//!
//! **Bounds**: connections, waiting orders, bytes of bodies, headers, requests that wait for ends, and the
//! time for each part of a request; see [`Limits`] and [`OrderEndWaiters`].
//!
//! | module | owns |
//! |---|---|
//! | `server` | the listener, its connections, the stop |
//! | `front` | what all paths share, and the paths of operators |
//! | `routes` | the paths of applications |
//! | `service`, `orders`, `batch` | what is done with their requests |
//! | `acts` | what applications do to their orders: paths, requests, answers |
//! | `callbacks` | what services say of work that they have taken: the same |
//! | `forms`, `open_api` | types of requests and answers, and the document that is made from them |
//! | `body`, `access` | reading bodies within bounds, and access control |
//! | `ready` | storage that every order needs |
//! | `queue` | the queue of orders to Submission |
//! | `order_end_waiters` | requests that wait for ends, and their notification |
//! | `problem` | why an order is not taken, as a problem over HTTP |
//! | `tls`, `watched` | files, read again when they change: those of TLS, and of [tokens](triad_console::tokens) |
//!
//! Architecture invariant: this crate decides nothing about an order.

mod access;
mod acts;
mod batch;
mod body;
mod callbacks;
mod forms;
mod front;
mod open_api;
mod order_end_waiters;
mod orders;
mod problem;
mod queue;
mod ready;
mod routes;
mod server;
mod service;
mod settings;
mod tls;
mod watched;

pub use open_api::document;
pub use order_end_waiters::{MAX_WAITING, OrderEndWaiters};
pub use ready::Writable;
pub use server::Server;
pub use settings::{Limits, Settings, StartError};
pub use tls::{TlsError, TlsFiles};
pub use triad_console::tokens::{
    MAX_FILE_BYTES, MAX_NAME_BYTES, MAX_TOKENS, NewToken, Role, TokenError, Tokens, TokensError,
};
