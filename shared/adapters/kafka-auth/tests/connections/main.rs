//! Every way to log in to Kafka: librdkafka with OpenSSL, the client that Triad uses, connects to the secured
//! listener of the embedded broker. Tests accepted and refused logins with their messages, and the renewal of tokens.
//!
//! Needs the feature `tls`, which compiles OpenSSL.

#[path = "../../../../engines/kafka-port/tests/broker/authority.rs"]
mod authority;
mod logins;
mod place;
mod refusals;
mod renewal;
