//! The calls to DynamoDB, checked against a service with scripted answers.

mod calls;
mod contract;
mod support;
mod unprocessed;
