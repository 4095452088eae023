//! Report of the outages.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::plan::Outage;
use super::run::{Lasted, OrderTimes};
use crate::checks::Verdict;
use crate::options::Options;
use crate::report::{CheckLine, are_good, checks_table, failures, table, tenths};
use triad_judge::verdict::Judged;

/// The figures of one outage.
#[derive(Debug, Clone, Serialize)]
pub struct OutageView {
    /// The outage.
    pub outage: Outage,
    /// How long it lasted, in seconds.
    pub seconds: f64,
    /// Orders that did not need the failed part.
    pub free: usize,
    /// Seconds from sending to end of the slowest of them; `None` if one has not ended.
    pub slowest_free: Option<f64>,
    /// Orders that needed it.
    pub held: usize,
    /// How many of those had not ended at the end of the outage.
    pub waiting: usize,
    /// Seconds from the end of the outage to the end of the last of them; `None` if one has not ended.
    pub last_held: Option<f64>,
}

/// The report of a run with outages.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Number of workers.
    pub workers: u8,
    /// The checks.
    pub checks: Vec<CheckLine>,
    /// The outages.
    pub outages: Vec<OutageView>,
    /// Result of the independent judge.
    pub judged: Judged,
    /// Seconds of the whole run.
    pub seconds: f64,
    /// Directory of data and logs, if they were kept.
    pub kept: Option<PathBuf>,
}

impl Report {
    pub(super) fn new(
        options: &Options,
        lasted: &[Lasted],
        verdicts: Vec<Verdict>,
        judged: Judged,
        took: Duration,
    ) -> Self {
        Self {
            workers: options.workers,
            checks: verdicts.into_iter().map(CheckLine::from).collect(),
            outages: lasted.iter().map(outage_view).collect(),
            judged,
            seconds: tenths(took.as_secs_f64()),
            kept: None,
        }
    }

    /// Whether all checks passed.
    #[must_use]
    pub fn is_good(&self) -> bool {
        are_good(&self.checks)
    }
}

fn outage_view(l: &Lasted) -> OutageView {
    let slowest = |orders: &[OrderTimes], took: &dyn Fn(&OrderTimes) -> Option<Duration>| {
        let all: Option<Vec<Duration>> = orders.iter().map(took).collect();
        let slowest = all?.into_iter().max()?;
        Some(tenths(slowest.as_secs_f64()))
    };
    OutageView {
        outage: l.outage,
        seconds: tenths(l.span.as_secs_f64()),
        free: l.free.len(),
        slowest_free: slowest(&l.free, &|o| o.took(o.sent)),
        held: l.held.len(),
        waiting: l.waiting,
        last_held: slowest(&l.held, &|o| o.took(l.over)),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", checks_table(&self.checks))?;
        let mut outages = table(
            [
                "What was out",
                "s",
                "Orders that did not need it",
                "Slowest, s",
                "Orders that did",
                "Waited for its end",
                "Last ended, s after it",
            ],
            &[1, 2, 3, 4, 5, 6],
        );
        let seconds = |s: Option<f64>| s.map_or("-".to_owned(), |s| s.to_string());
        for o in &self.outages {
            outages.add_row([
                o.outage.name().to_owned(),
                o.seconds.to_string(),
                o.free.to_string(),
                seconds(o.slowest_free),
                o.held.to_string(),
                o.waiting.to_string(),
                seconds(o.last_held),
            ]);
        }
        writeln!(f, "\n{}", outages.trim_fmt())?;
        writeln!(f, "\n{} workers, {} s in all", self.workers, self.seconds)?;
        failures(f, &self.checks, self.kept.as_deref())
    }
}
