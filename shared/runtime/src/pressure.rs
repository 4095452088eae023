//! What is held back, and why, as operators see it: each Scheduler process that holds orders back
//! says so in the control store, a few times a minute. Nothing decides by it.

use serde::{Deserialize, Serialize};
use triad_core::{Priority, Timestamp};
use triad_workflow::{AgentName, Millis};

use crate::control::{ControlStore, ControlWrite};
use crate::ports::{StoreError, Written};

/// Places for the processes' reports: two that have drawn the same take turns in it.
pub const PLACES: u64 = 8;
/// How often a process that holds orders back says so: one write unit each time.
pub const EVERY: Millis = Millis(5_000);
/// A report that is older tells of the past.
pub const HOLDS_FOR: Millis = Millis(20_000);
/// When it may be deleted.
const KEPT: Millis = Millis(3_600_000);

/// How much one downstream bears at present, as one process sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// The downstream; `None` is the Scheduler itself: replies wait to be read.
    pub agent: Option<AgentName>,
    /// The lane.
    pub lane: Priority,
    /// Orders under way that are at it, or will be soon.
    pub under_way: u32,
    /// Most of them.
    pub bound: u32,
    /// How long requests waited of late before an agent took them.
    pub waited: Millis,
    /// Until when it is not to be called; a moment that has passed if it may be.
    pub shut_until: Timestamp,
    /// Orders that wait in this process and need it.
    pub waiting: usize,
    /// When the oldest of them was submitted.
    pub oldest: Option<Timestamp>,
}

/// What one process says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// When.
    pub at: Timestamp,
    /// Of each downstream that is known to it.
    pub downstreams: Vec<Pressure>,
}

fn key(place: u64) -> String {
    format!("pressure/{}", place % PLACES)
}

/// Writes a report into a place, over whatever is there.
///
/// # Errors
/// The store's. Nothing is lost by it: the next report comes soon.
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

/// What all processes say at present, of each downstream and lane together, those with the most
/// orders waiting first.
///
/// # Errors
/// The store's.
pub async fn present<S: ControlStore>(
    control: &S,
    now: Timestamp,
) -> Result<Vec<Pressure>, StoreError> {
    let mut all: Vec<Pressure> = Vec::new();
    for place in 0..PLACES {
        let Some(found) = control.read(key(place), false).await? else {
            continue;
        };
        // A report of another version of this software is none.
        let Ok(report) = serde_json::from_value::<Report>(found.value) else {
            continue;
        };
        if now.since(report.at) <= HOLDS_FOR {
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
