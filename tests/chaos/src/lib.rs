//! The chaos test over real processes: load, faults, and checks of the guarantees.
//!
//! Everything that is started is a separate process, and all evidence is read through public interfaces: tables
//! through the DynamoDB API, topics through a Kafka consumer, the remote service's ledger. The simulated world
//! (`tests/testkit/sim`) reaches far more interleavings; this test reaches the real broker, the real disk and the real
//! kernel.
//!
//! [`load`] and [`schedule`] are generated from a seed before the run. [`installation`] has the processes, [`faults`]
//! kills and freezes them, [`submit`] sends, [`progress`] counts ended orders, [`watch`] reads records while they change,
//! [`quiet`] waits for the end, [`collect`] reads all [`evidence`], [`checks`] judges only that, [`report`] prints.
//! [`outages`] are runs of another kind, over the same processes.
//!
//! Every operation of the workers on the store is recorded; [`judge_history`] adds the evidence of topics and ledger,
//! and [`judge_verdicts`] has the independent judge ([`triad_judge`]) decide on it.

pub mod checks;
mod child_process;
pub mod collect;
pub mod evidence;
pub mod faults;
pub mod installation;
pub mod judge_history;
pub mod judge_verdicts;
pub mod load;
pub mod options;
pub mod outages;
mod ports;
pub mod progress;
pub mod progress_lines;
pub mod quiet;
pub mod report;
pub mod run;
pub mod schedule;
pub mod submit;
pub mod watch;
