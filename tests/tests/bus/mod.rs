//! Records, lanes and processes that die of a record: workers and functions over a real broker.

mod deaths;
mod foreign_orders;
mod lanes;
