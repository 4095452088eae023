//! The heartbeat: one log line a minute, which shows that the process is alive and its work since the last line.
//!
//! Counts are of this process and its present run. They are for people who read the log; alarms use the lines with a
//! `metric`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use triad_runtime::agent::Usage;
use triad_runtime::{Handled, dead_letter};
use triad_workflow::{AgentName, Millis};

use crate::{Function, names};

/// Interval between two lines.
pub(crate) const EVERY: Duration = Duration::from_secs(60);

/// Counts of a process's handlers.
#[derive(Debug, Default)]
pub(crate) struct HandlerCounts {
    handled: AtomicU64,
    redelivered: AtomicU64,
}

/// Counts between two lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beat {
    /// Records that were done, including dead-lettered ones.
    handled: u64,
    /// Redeliveries, without records that only waited for room.
    redelivered: u64,
    /// Dead letters; one that had to be sent again counts again.
    dead_lettered: u64,
}

impl HandlerCounts {
    /// Counts the handlers' results.
    pub(crate) fn note(&self, answers: &[Handled]) {
        for answer in answers {
            match answer {
                Handled::Done => self.handled.fetch_add(1, Ordering::Relaxed),
                Handled::Redeliver(why) if why.is_for_room() => 0,
                Handled::Redeliver(_) => self.redelivered.fetch_add(1, Ordering::Relaxed),
            };
        }
    }

    /// Counts since the last call.
    fn take(&self, letters: &mut u64) -> Beat {
        let made = dead_letter::made();
        let since = made.saturating_sub(std::mem::replace(letters, made));
        Beat {
            handled: self.handled.swap(0, Ordering::Relaxed),
            redelivered: self.redelivered.swap(0, Ordering::Relaxed),
            dead_lettered: since,
        }
    }
}

/// Logs a heartbeat at the end of every minute, until `stop`.
pub(crate) async fn beat(
    counts: Arc<HandlerCounts>,
    stop: CancellationToken,
    mut say: impl FnMut(Beat),
) -> anyhow::Result<()> {
    let mut letters = dead_letter::made();
    let mut timer = tokio::time::interval(EVERY);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick is immediate.
    timer.tick().await;
    loop {
        tokio::select! {
            _ = timer.tick() => say(counts.take(&mut letters)),
            () = stop.cancelled() => return Ok(()),
        }
    }
}

/// Writes a heartbeat into the log.
pub(crate) fn log(functions: &[Function], beat: Beat) {
    let Beat {
        handled,
        redelivered,
        dead_lettered,
    } = beat;
    tracing::info!(
        functions = names(functions),
        handled,
        redelivered,
        dead_lettered,
        "heartbeat: records of the last minute"
    );
}

/// Logs each agent's work at the end of every minute, until `stop`; an agent without calls and deferrals gets no
/// line.
pub(crate) async fn usage(
    usage: impl Fn() -> BTreeMap<AgentName, Usage>,
    stop: CancellationToken,
    mut say: impl FnMut(&AgentName, &Usage),
) -> anyhow::Result<()> {
    let mut before = usage();
    let mut timer = tokio::time::interval(EVERY);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    timer.tick().await;
    loop {
        tokio::select! {
            _ = timer.tick() => {}
            () = stop.cancelled() => return Ok(()),
        }
        let now = usage();
        for (agent, now) in &now {
            let since = before.get(agent).map(|before| now.since(before));
            let is_idle = |u: &Usage| u.calls() + u.deferred + u64::from(u.under_way) == 0;
            if let Some(since) = since.filter(|since| !is_idle(since)) {
                say(agent, &since);
            }
        }
        before = now;
    }
}

/// Logs an agent's work in the last minute.
pub(crate) fn log_usage(agent: &AgentName, usage: &Usage) {
    let millis = |share| usage.took_at_most(share).map(|at| at.0);
    tracing::info!(
        %agent,
        utilisation = format!("{:.2}", usage.utilisation(Millis::from(EVERY))),
        room = usage.room,
        under_way = usage.under_way,
        succeeded = usage.succeeded,
        refused = usage.refused,
        failed = usage.failed,
        unanswered = usage.unanswered,
        deferred = usage.deferred,
        p50_ms = millis(0.5),
        p99_ms = millis(0.99),
        "agent: calls of the last minute"
    );
}

#[cfg(test)]
mod tests {
    use triad_runtime::{InputRecord, Redelivery};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_minute_it_says_what_was_done_since_the_last_one() {
        let counts = Arc::new(HandlerCounts::default());
        let stop = CancellationToken::new();
        let (said, mut beats) = tokio::sync::mpsc::unbounded_channel();
        let say = move |beat| {
            let _ = said.send(beat);
        };
        let beating = tokio::spawn(beat(counts.clone(), stop.clone(), say));
        let quiet = Beat {
            handled: 0,
            redelivered: 0,
            dead_lettered: 0,
        };
        assert_eq!(
            beats.recv().await,
            Some(quiet),
            "a quiet minute has its line"
        );
        counts.note(&[
            Handled::Done,
            Handled::Done,
            Handled::Redeliver(Redelivery::Raced),
            Handled::Redeliver(Redelivery::NoRoom("full".into())),
        ]);
        let cause = dead_letter::Cause::new("tombstone", "no value");
        let now = triad_core::Timestamp(0);
        let _ = dead_letter::dead_letter(&InputRecord::default(), &cause, now);
        let busy = Beat {
            handled: 2,
            redelivered: 1,
            dead_lettered: 1,
        };
        assert_eq!(beats.recv().await, Some(busy));
        stop.cancel();
        assert!(beating.await.expect("no panic").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn every_minute_it_says_what_agents_did_that_were_not_idle() {
        let name = |n: &str| AgentName::new(n).expect("a name");
        let usage = |succeeded| Usage {
            succeeded,
            ..Usage::default()
        };
        // The first agent's count of calls rises by one at each look; the other agent has none.
        let looked = std::sync::atomic::AtomicU64::new(5);
        let all = move || {
            let seen = looked.fetch_add(1, Ordering::Relaxed);
            BTreeMap::from([(name("bank"), usage(seen)), (name("mail"), usage(7))])
        };
        let stop = CancellationToken::new();
        let (said, mut lines) = tokio::sync::mpsc::unbounded_channel();
        let say = move |agent: &AgentName, usage: &Usage| {
            let _ = said.send((agent.to_string(), usage.succeeded));
        };
        let beating = tokio::spawn(super::usage(all, stop.clone(), say));
        for _ in 0..2 {
            assert_eq!(lines.recv().await, Some(("bank".to_owned(), 1)));
        }
        stop.cancel();
        assert!(beating.await.expect("no panic").is_ok());
        assert_eq!(lines.recv().await, None, "of the idle one nothing");
    }
}
