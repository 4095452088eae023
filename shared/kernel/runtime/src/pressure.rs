//! Orders held back, and why, for operators: each Scheduler process that holds orders back writes a report to the
//! control store, a few times a minute. No decision uses the reports.

use serde::{Deserialize, Serialize};
use triad_core::{Priority, Timestamp};
use triad_workflow::{AgentName, Millis};

use crate::control::{ControlStore, ControlWrite};
use crate::ports::{StoreError, Written};

/// Records of the control store that hold the reports: `pressure/0` to `pressure/7`. Each process draws one at its
/// start; processes with the same one overwrite each other's reports.
pub const PLACES: u64 = 8;
/// Least time, in milliseconds, between two reports of one process while it holds orders back; a last report, without
/// any, follows at once when that is over. Each costs a read and a write.
pub const EVERY: Millis = Millis(5_000);
/// Greatest age of a report, in milliseconds; older ones are ignored.
pub const HOLDS_FOR: Millis = Millis(20_000);
/// When the report may be deleted.
const KEPT: Millis = Millis(3_600_000);

/// Capacity of one downstream in one lane, and the orders that wait for it: as one Scheduler process reports it, or
/// summed over all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// The downstream. `None` stands for the Schedulers themselves, where replies wait to be read.
    pub agent: Option<AgentName>,
    /// The lane, normal or high.
    pub lane: Priority,
    /// How many started orders are at the downstream, or will soon need it.
    pub under_way: u32,
    /// Most orders of that kind that may be under way. Once there are as many, further orders are
    /// held back.
    pub bound: u32,
    /// How many milliseconds requests lately waited in the agent's topic before an agent took them.
    pub waited: Millis,
    /// Before this moment no call is to be made. A moment in the past means that calls may be made.
    pub shut_until: Timestamp,
    /// Orders that the process holds back and that need the downstream.
    pub waiting: usize,
    /// When the oldest of the waiting orders was submitted; `None` if none waits.
    pub oldest: Option<Timestamp>,
}

/// One Scheduler process's report on every downstream that it knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// When the report was made, by the clock of its process.
    pub at: Timestamp,
    /// One entry for each downstream and lane that the process knows.
    pub downstreams: Vec<Pressure>,
}

fn key(place: u64) -> String {
    format!("pressure/{}", place % PLACES)
}

/// Writes a report to place `place` modulo [`PLACES`], over whatever is there. It may be deleted an hour
/// after [`Report::at`]. `token` is a random number, unique to this write. [`Written::Conflict`] if
/// another process wrote there at the same moment.
///
/// # Errors
/// [`StoreError`] if the control store cannot be read or written. A lost report does no harm: the next one
/// follows after [`EVERY`].
pub async fn report<S: ControlStore>(
    control: &S,
    place: u64,
    report: &Report,
    token: u64,
) -> Result<Written, StoreError> {
    let standing = control.read(key(place), false).await?;
    let write = ControlWrite {
        key: key(place),
        value: serde_json::to_value(report).map_err(|e| StoreError::Item(e.to_string()))?,
        expected: standing.map(|s| s.version),
        expires: Some(report.at.plus(KEPT)),
        token,
    };
    control.write(write).await
}

/// What the Scheduler processes report at present, the entries with the most waiting orders first. At most
/// [`PLACES`] reports are read, one read each; of processes that share a place only the last report is seen.
///
/// The entries of one downstream and lane are merged: counts are added up; of the others the longest
/// `waited`, the latest `shut_until` and the earliest `oldest` are taken. Left out are reports that are not
/// [near](Timestamp::is_near) `now` by [`HOLDS_FOR`], and those that cannot be read.
///
/// # Errors
/// [`StoreError`] if the control store cannot be read.
pub async fn present<S: ControlStore>(
    control: &S,
    now: Timestamp,
) -> Result<Vec<Pressure>, StoreError> {
    let mut all: Vec<Pressure> = Vec::new();
    for place in 0..PLACES {
        let Some(found) = control.read(key(place), false).await? else {
            continue;
        };
        // A report of another version of Triad is ignored.
        let Ok(report) = serde_json::from_value::<Report>(found.value) else {
            continue;
        };
        if report.at.is_near(now, HOLDS_FOR) {
            report
                .downstreams
                .into_iter()
                .for_each(|p| add(&mut all, p));
        }
    }
    all.sort_by(|a, b| {
        b.waiting
            .cmp(&a.waiting)
            .then_with(|| a.agent.cmp(&b.agent))
    });
    Ok(all)
}

fn add(all: &mut Vec<Pressure>, one: Pressure) {
    let same = all
        .iter_mut()
        .find(|p| p.agent == one.agent && p.lane == one.lane);
    let Some(sum) = same else {
        all.push(one);
        return;
    };
    sum.under_way += one.under_way;
    sum.bound += one.bound;
    sum.waiting += one.waiting;
    sum.waited = sum.waited.max(one.waited);
    sum.shut_until = sum.shut_until.max(one.shut_until);
    sum.oldest = match (sum.oldest, one.oldest) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(waiting: usize, oldest: u64) -> Pressure {
        Pressure {
            agent: Some(AgentName::new("bank").expect("a name")),
            lane: Priority::Normal,
            under_way: 3,
            bound: 5,
            waited: Millis(oldest),
            shut_until: Timestamp(0),
            waiting,
            oldest: Some(Timestamp(oldest)),
        }
    }

    #[test]
    fn what_several_processes_say_of_one_downstream_is_added_up() {
        let mut all = Vec::new();
        add(&mut all, of(2, 70));
        add(&mut all, of(4, 50));
        add(
            &mut all,
            Pressure {
                lane: Priority::High,
                ..of(1, 1)
            },
        );
        assert_eq!(all.len(), 2);
        let sum = &all[0];
        assert_eq!((sum.under_way, sum.bound, sum.waiting), (6, 10, 6));
        assert_eq!((sum.waited, sum.oldest), (Millis(70), Some(Timestamp(50))));
    }
}
