//! The chaos test over real processes: load, faults, and the guarantees held against what is left.
//!
//! Everything that is started is a process of its own, and everything that is checked is read as
//! anybody could read it: tables through the DynamoDB API, topics through a Kafka consumer, the
//! remote service's ledger. The simulated world (`testkit/sim`) reaches far more interleavings;
//! this reaches the real broker, the real disk and the real kernel.
//!
//! [`load`] and [`schedule`] are made from a seed before the run. [`installation`] is the
//! processes, [`faults`] kills and freezes them, [`submit`] sends, [`progress`] counts what has
//! ended, [`watch`] looks at records while they change, [`resolve`] waits for the end, [`collect`]
//! reads it all into [`evidence`], [`checks`] judges that and nothing else, [`report`] prints.
//! [`tell`] says meanwhile what goes on. [`outages`] are runs of another kind, over the same processes.
//!
//! Every operation of the workers on the store is recorded; [`witness`] adds what topics and ledger
//! say, and [`judged`] has the independent judge ([`triad_judge`]) decide on it.

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
