//! The HTTP front door of one machine: applications submit orders and learn of their ends, without a
//! Kafka client.
//!
//! | request | is |
//! |---|---|
//! | `POST /v1/orders` | submits an order, the same JSON as on the topic `orders`; with `application/x-ndjson` an order on each line |
//! | `GET /v1/orders/{id}` | shows an order |
//! | `GET /v1/openapi.json` | the document of this interface |
//! | `GET /healthz`, `GET /readyz` | whether the process is up, and whether it takes orders |
//!
//! `?wait=30s` answers with the order's end if it comes in that time. `?priority=high` submits to the
//! high lane.
//!
//! **Operators** are answered on the same listener where somebody is there for them, by [`triad_console`]:
//! `/v1/operate/…` and `/console/…`. [`Server::for_operators`] has these paths alone.
//!
//! **Orders are decided by [`Submission`](triad_runtime::submission::Submission)**, by the same rule as
//! those of a topic: what is the same again, what is a conflict, what is invalid. Here its answer
//! becomes a status, and nothing that is refused becomes a dead letter: the client has the answer.
//! Requests that come at the same time are handed over together, so that the store writes them in one
//! transaction; one that is alone goes at once.
//!
//! **What is bounded**: connections, orders that wait, bytes of bodies, headers, requests that wait for
//! ends, and the time for each part of a request; see [`Limits`] and [`OrderEndWaiters`].
//!
//! | module | owns |
//! |---|---|
//! | `server` | the listener, its connections, their end |
//! | `front` | what every server here has, and the requests of operators |
//! | `service`, `orders`, `batch` | one request and its answer |
//! | `target`, `body`, `access` | what a request says, and whether it may |
//! | `ready` | what every order is written to |
//! | `queue` | groups of orders on their way to Submission |
//! | `ends`, `noticing` | who waits for ends, and how they are told |
//! | `answer`, `problem` | what is said, and how |
//! | `tls`, `watched` | files, read again when they change: those of TLS, and of [tokens](triad_console::tokens) |
//!
//! Architecture invariant: nothing here decides about an order.

mod access;
mod answer;
mod batch;
mod body;
mod end_noticing_bus;
mod front;
mod order_end_waiters;
mod orders;
mod problem;
mod queue;
mod ready;
mod server;
mod service;
mod settings;
mod target;
mod tls;
mod watched;

pub use end_noticing_bus::Noticing;
pub use order_end_waiters::{MAX_WAITING, OrderEndWaiters};
pub use ready::Writable;
pub use server::Server;
pub use settings::{Limits, Settings, StartError};
pub use tls::{TlsError, TlsFiles};
pub use triad_console::tokens::{
    MAX_FILE_BYTES, MAX_NAME_BYTES, MAX_TOKENS, NewToken, Role, TokenError, Tokens, TokensError,
};
