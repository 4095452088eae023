//! The broker in this process and as a program, with librdkafka, with clients in other languages, and with requests
//! built by hand.

mod authority;
mod client;
mod clients;
mod contract;
mod drill;
mod keeps_contract;
mod kill;
mod local;
mod malformed;
#[expect(dead_code, reason = "shared with the benchmark")]
mod process;
mod restart;
mod secured;
