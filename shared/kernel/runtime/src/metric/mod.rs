//! Metrics: the name, unit and labels of each, and the functions by which handlers report events.
//!
//! A handler reports an event ("a call has ended"), and only this module maps it to metrics. The shell decides where
//! the numbers go: to a Prometheus endpoint, into log lines in the embedded metric format, or nowhere. Nothing is
//! recorded until a shell calls [`describe`].
//!
//! All numbers are of one process, and counters begin at 0 when it starts.

mod events;
mod table;

pub(crate) use events::*;
pub use events::{
    backed_up, backups_failed, begin_agent, begin_workflow, disk, needing, reads,
    write_groups_failed,
};
pub use table::*;

/// Gives the name, unit and help of every metric to the recorder of the process (that of the crate `metrics`), and
/// turns measuring on: before this call no metric is recorded. Call it once, after the recorder is installed; without
/// one the descriptions and all values are lost. It starts at 0 the counters whose label values are all known; see
/// [`begin_agent`] and [`begin_workflow`] for others.
pub fn describe() {
    table::describe_all();
    events::begin();
}
