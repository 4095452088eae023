//! Records and lanes: workers and functions with a real broker.

mod foreign_orders;
mod lanes;
