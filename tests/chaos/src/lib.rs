//! The chaos test over real processes: load, faults, and checks of the guarantees.
//!
//! All parts of the installation are separate processes, and all evidence is read through public interfaces: tables
//! through the DynamoDB API, topics through a Kafka consumer, the remote service's ledger. The simulated world
//! (`tests/testkit/sim`) reaches far more interleavings; this test reaches the real broker, the real disk and the
//! real
//! kernel.
//!
//! [`load`] and [`schedule`] are generated from a seed before the run. [`installation`] runs the processes,
//! [`faults`]
//! kills and freezes them, [`submit`] sends orders, [`progress`] counts ended orders, [`watch`] reads records while
//! they change,
//! [`quiet`] waits until all work has ended, [`collect`] reads the [`evidence`], [`checks`] examines it, and
//! [`report`] prints the result.
//! [`outages`] is a second kind of run, with the same processes.
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
