//! Tests of the DynamoDB adapter: its calls against a service with scripted answers, and the store's contracts.

mod calls;
mod contract;
mod support;
mod unprocessed;
