//! Metrics, traces and alarms.

mod cloudwatch;
mod metrics;
mod traces;
mod traces_deployed;
