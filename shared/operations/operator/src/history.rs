//! What an installation did in the last hour and day, for plots: a bounded ring in the control store.
//!
//! The process that sweeps calls [`sample`]. Only a store that counts its orders has a history; on DynamoDB the metrics
//! have it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::Timestamp;
use triad_runtime::control::ControlWrite;
use triad_runtime::ports::OperatorStore;
use triad_runtime::{ControlStore, Entropy, StoreError};
use triad_workflow::Millis;

use crate::counts::{LATE, Rate, rate};
use crate::find::is_under_way;

/// The key of the record.
const KEY: &str = "history";
/// The time of a point of the last hour, and most of them.
pub const MINUTE: (Millis, usize) = (Millis(60_000), 60);
/// The time of a point of the last day, and most of them.
pub const QUARTER: (Millis, usize) = (Millis(900_000), 96);

/// The orders of one minute, or of a quarter of an hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The end of the time.
    #[schemars(with = "crate::schema::Moment")]
    pub at: Timestamp,
    /// How many orders were submitted in it.
    pub submitted: u64,
    /// How many orders finished in it, in whatever state.
    pub finished: u64,
    /// How many of these are not Processed.
    pub failed: u64,
    /// The median time from submission to end of the Processed ones, in milliseconds.
    pub p50_ms: Option<u64>,
    /// The time that 99 in 100 of them took at most, in milliseconds.
    pub p99_ms: Option<u64>,
    /// How many orders were under way at its end.
    pub under_way: u64,
}

/// The last hour and the last day, oldest first. A time in which no process ran has no points.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// The last hour, in minutes.
    pub hour: Vec<Point>,
    /// The last day, in quarters of an hour.
    pub day: Vec<Point>,
}

impl History {
    fn is_due(points: &[Point], every: Millis, now: Timestamp) -> bool {
        points.last().is_none_or(|last| now.since(last.at) >= every)
    }

    /// Adds a point, and drops those that are older than the ring is long, and the oldest beyond its length.
    fn push(points: &mut Vec<Point>, (every, most): (Millis, usize), point: Point) {
        let oldest = point.at.minus(Millis(every.0 * most as u64));
        points.retain(|known| known.at > oldest && known.at < point.at);
        points.push(point);
        let surplus = points.len().saturating_sub(most);
        points.drain(..surplus);
    }
}

/// Reads the history; empty if none was written.
///
/// # Errors
/// [`StoreError`] if the store fails, or the record is no history ([`StoreError::Item`]).
pub async fn history(store: &impl ControlStore) -> Result<History, StoreError> {
    Ok(read(store).await?.0)
}

async fn read(store: &impl ControlStore) -> Result<(History, Option<u64>), StoreError> {
    let Some(found) = store.read(KEY.to_owned(), true).await? else {
        return Ok((History::default(), None));
    };
    let bad = |e| StoreError::Item(format!("the control record {KEY}: {e}"));
    let history = serde_json::from_value(found.value).map_err(bad)?;
    Ok((history, Some(found.version)))
}

/// Adds the points that are due at `now`: at most one write a minute, however many processes call it. Nothing is read
/// or written if the store does not count its orders.
///
/// # Errors
/// [`StoreError`] if the store fails.
pub async fn sample<S>(store: &S, entropy: &impl Entropy, now: Timestamp) -> Result<(), StoreError>
where
    S: ControlStore + OperatorStore,
{
    // A store that does not count answers this without a read.
    if store.lately(now).await?.is_none() {
        return Ok(());
    }
    let (mut history, version) = read(store).await?;
    if !History::is_due(&history.hour, MINUTE.0, now) {
        return Ok(());
    }
    let (Some(minute), Some(tally)) = (
        rate(store, MINUTE.0, now).await?,
        store.tally(now.minus(LATE)).await?,
    ) else {
        return Ok(());
    };
    let under_way = tally
        .groups
        .iter()
        .filter(|group| is_under_way(&group.state));
    let under_way = under_way.map(|group| group.orders).sum();
    History::push(&mut history.hour, MINUTE, point(now, &minute, under_way));
    if History::is_due(&history.day, QUARTER.0, now)
        && let Some(quarter) = rate(store, QUARTER.0, now).await?
    {
        History::push(&mut history.day, QUARTER, point(now, &quarter, under_way));
    }
    let value = serde_json::to_value(&history);
    let value = value.map_err(|e| StoreError::Item(format!("the history has no form: {e}")))?;
    let write = ControlWrite {
        key: KEY.to_owned(),
        value,
        expected: version,
        expires: None,
        token: entropy.next_u64(),
    };
    // Another process was faster: its point is as good.
    store.write(write).await.map(|_| ())
}

fn point(at: Timestamp, rate: &Rate, under_way: u64) -> Point {
    let well = rate.finished.get("Processed").copied().unwrap_or(0);
    Point {
        at,
        submitted: rate.submitted,
        finished: rate.all_finished(),
        failed: rate.all_finished() - well,
        p50_ms: rate.p50_ms,
        p99_ms: rate.p99_ms,
        under_way,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: u64) -> Point {
        Point {
            at: Timestamp(minutes * 60_000),
            submitted: minutes,
            finished: 0,
            failed: 0,
            p50_ms: None,
            p99_ms: None,
            under_way: 0,
        }
    }

    #[test]
    fn the_ring_has_an_hour_and_no_more() {
        let mut points = Vec::new();
        for minute in 0..200 {
            History::push(&mut points, MINUTE, at(minute));
        }
        assert_eq!(points.len(), 60);
        assert_eq!((points[0].submitted, points[59].submitted), (140, 199));
        // Nothing ran for two hours.
        History::push(&mut points, MINUTE, at(320));
        assert_eq!(points, [at(320)]);
    }

    #[test]
    fn a_point_is_due_once_a_minute_and_a_clock_that_goes_back_adds_none_twice() {
        let mut points = vec![at(5)];
        assert!(!History::is_due(
            &points,
            MINUTE.0,
            Timestamp(5 * 60_000 + 59_999)
        ));
        assert!(History::is_due(&points, MINUTE.0, Timestamp(6 * 60_000)));
        History::push(&mut points, MINUTE, at(3));
        assert_eq!(points, [at(3)]);
    }
}
