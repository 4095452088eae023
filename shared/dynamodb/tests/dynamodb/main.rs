//! What is asked of DynamoDB, call by call, of a service that answers as it is told to.

mod calls;
mod contract;
mod support;
mod unprocessed;
