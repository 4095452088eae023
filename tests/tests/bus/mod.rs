//! Records and lanes: workers and functions over a real broker.

mod foreign_orders;
mod lanes;
