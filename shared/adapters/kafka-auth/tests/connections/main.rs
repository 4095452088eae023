//! Every way to log in to Kafka, by real connections of the client that Triad uses (librdkafka
//! with OpenSSL) to the secured listener of the embedded broker: what gets in, what does not and
//! what a user is then told, and tokens that are renewed.
//!
//! Needs the feature `tls`, which compiles OpenSSL.

#[path = "../../../../engines/broker/tests/broker/authority.rs"]
mod authority;
mod logins;
mod place;
mod refusals;
mod renewal;
