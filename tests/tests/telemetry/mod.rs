//! What is measured, traced and alarmed about.

mod cloudwatch;
mod metrics;
mod traces;
mod traces_deployed;
