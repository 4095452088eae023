//! One run, from the start of its processes to the report.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use triad_reference_service::{FaultPlan, Faults};

use super::checks::{Guarantee, Verdict};
use super::collect::collect;
use super::installation::{Installation, WORKFLOW, bin_dir};
use super::load::Submission;
use super::options::Options;
use super::progress_lines::print_progress;
use super::quiet::wait_until_quiet;
use super::report::{Report, Times};
use super::submit::submit;
use super::{checks, faults, judge_verdicts, load, outages, progress, schedule, watch as look};

/// Faults of the remote service during the run. A stall lasts longer than a step's deadline, so some calls arrive
/// late.
fn misbehaviour(seed: u64) -> Faults {
    Faults {
        seed,
        default: FaultPlan {
            transient: 0.05,
            garbage: 0.005,
            stall: 0.01,
            stall_ms: 6_000,
            permanent: 0.02,
            compensation_permanent: 0.1,
            latency_ms: 5,
            jitter_ms: 20,
            ..FaultPlan::default()
        },
        ..Faults::default()
    }
}

/// The directory of a run's data.
enum RunDirectory {
    Given(PathBuf),
    Temporary(tempfile::TempDir),
}

impl RunDirectory {
    fn of(options: &Options) -> Result<Self> {
        let Some(dir) = &options.data else {
            let dir = tempfile::Builder::new().prefix("triad-chaos-").tempdir();
            return Ok(Self::Temporary(dir.context("a temporary directory")?));
        };
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        if std::fs::read_dir(dir)?.next().is_some() {
            bail!("{} is not empty", dir.display());
        }
        Ok(Self::Given(std::path::absolute(dir)?))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(dir) => dir,
            Self::Temporary(dir) => dir.path(),
        }
    }

    /// Keeps the directory, and returns its path.
    fn keep(self) -> PathBuf {
        match self {
            Self::Given(dir) => dir,
            Self::Temporary(dir) => dir.keep(),
        }
    }
}

/// The report of a run of either kind.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum AnyReport {
    /// The report of a run with kills and freezes.
    Kills(Box<Report>),
    /// The report of a run with outages.
    Outages(Box<outages::report::Report>),
}

impl AnyReport {
    /// Whether no guarantee was violated.
    #[must_use]
    pub fn is_good(&self) -> bool {
        match self {
            Self::Kills(report) => report.is_good(),
            Self::Outages(report) => report.is_good(),
        }
    }

    fn keep(&mut self, dir: PathBuf) {
        let kept = match self {
            Self::Kills(report) => &mut report.kept,
            Self::Outages(report) => &mut report.kept,
        };
        *kept = Some(dir);
    }
}

impl fmt::Display for AnyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kills(report) => report.fmt(f),
            Self::Outages(report) => report.fmt(f),
        }
    }
}

/// The error of a run that a signal has interrupted.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Carries out a run and checks it. The processes have ended when it returns; if it is dropped, they are killed.
///
/// # Errors
/// If the run failed; data and logs are then kept. Or [`Interrupted`]; then only a directory that the user named is
/// kept.
pub async fn run(options: &Options, interrupted: CancellationToken) -> Result<AnyReport> {
    // Wrong options must be reported before any file is created.
    let load = load::make(options)?;
    let bin = bin_dir(options)?;
    let place = RunDirectory::of(options)?;
    let shown = match options.outages {
        None => in_dir(options, load, &bin, place.path(), &interrupted)
            .await
            .map(|report| AnyReport::Kills(Box::new(report))),
        Some(span) => tokio::select! {
            shown = outages::run::run(options, span, &bin, place.path()) => shown.map(|r| AnyReport::Outages(Box::new(r))),
            // The dropped run kills its processes.
            () = interrupted.cancelled() => Err(Interrupted.into()),
        },
    };
    match shown {
        Ok(mut shown) => {
            if !shown.is_good() || options.data.is_some() {
                shown.keep(place.keep());
            }
            Ok(shown)
        }
        Err(e) if e.is::<Interrupted>() => Err(e),
        Err(e) => {
            let dir = place.keep();
            Err(e.context(format!("data and logs are in {}", dir.display())))
        }
    }
}

async fn in_dir(
    options: &Options,
    load: Vec<Submission>,
    bin: &Path,
    dir: &Path,
    interrupted: &CancellationToken,
) -> Result<Report> {
    let began = Instant::now();
    let faults = misbehaviour(options.seed);
    let installation = tokio::select! {
        started = Installation::start(options, &[WORKFLOW], bin, dir, faults) => Arc::new(started?),
        () = interrupted.cancelled() => return Err(Interrupted.into()),
    };
    let at = &installation.places;
    print_progress(&format!(
        "{} workers, Kafka {}, DynamoDB {}, service {}, in {}",
        options.workers,
        at.brokers,
        at.dynamodb,
        at.service,
        dir.display()
    ));
    let result = tokio::select! {
        result = on(options, &installation, load, began) => result,
        () = interrupted.cancelled() => Err(Interrupted.into()),
    };
    installation.stop().await;
    result
}

/// Carries out the run on a started installation.
async fn on(
    options: &Options,
    installation: &Arc<Installation>,
    load: Vec<Submission>,
    began: Instant,
) -> Result<Report> {
    let orders = options.orders as usize;
    let in_flight = options.in_flight as usize;
    let plan = schedule::plan(
        options.seed,
        options.faults(),
        orders,
        options.workers.into(),
        options.kinds(),
    );
    let brokers = &installation.places.brokers;
    let (count, ended) = watch::channel(0);
    let stop = CancellationToken::new();
    // In a `JoinSet`, so that the task ends when the run is dropped.
    let mut looks = JoinSet::new();
    looks.spawn(look::read_topics(
        installation.clone(),
        options.seed,
        in_flight,
        ended.clone(),
        stop.clone(),
    ));
    let loaded = Instant::now();
    let planned = plan.len();
    let faulty = plan.last().map_or(0, |fault| fault.after);
    let (faults, sent, stopped) = tokio::try_join!(
        faults::carry_out(plan, installation.clone(), ended.clone()),
        submit(brokers, load, in_flight, ended),
        progress::follow(brokers, orders, faulty, options.patience, count),
    )?;
    let under_faults = loaded.elapsed();

    print_progress("no more faults: waiting until everything has finished");
    installation.set_faults(Faults::default()).await?;
    let quiet = Instant::now();
    let mut resolved = wait_until_quiet(installation, options.quiet_within).await?;
    resolved.0.extend(stopped);
    let to_quiet = quiet.elapsed();
    stop.cancel();
    let sightings = looks.join_next().await.context("somebody looked")??;
    let died = installation.dead().await;
    print_progress("reading tables, topics and ledger");
    let evidence = collect(installation, sent, sightings, resolved).await?;
    let mut verdicts = checks::all(&evidence);
    verdicts.push(Verdict {
        guarantee: Guarantee::G1,
        what: "no process ends by itself",
        checked: installation.workers.len() + 3,
        breaches: died,
    });
    verdicts.extend(carried_out(planned, &faults));
    print_progress("judging the history");
    let judged = judge_verdicts::of_run(installation, &evidence).await?;
    verdicts.extend(judge_verdicts::verdicts(&judged));
    verdicts.sort_by_key(|v| v.guarantee);
    let times = Times {
        under_faults,
        to_quiet,
        in_all: began.elapsed(),
    };
    Ok(Report::new(options, &evidence, verdicts, &faults, times).with(judged))
}

/// The check that every planned fault was carried out; `None` for a run without planned faults.
fn carried_out(planned: usize, faults: &faults::FaultCounts) -> Option<Verdict> {
    let came = faults.values().map(|n| *n as usize).sum::<usize>();
    let missing = (came..planned).map(|n| format!("fault {} of {planned} did not come", n + 1));
    (planned > 0).then(|| Verdict {
        guarantee: Guarantee::G1,
        what: "every fault that was planned has come",
        checked: planned,
        breaches: missing.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Kind;

    #[test]
    fn a_planned_fault_that_did_not_come_is_a_breach() {
        let came = faults::FaultCounts::from([(Kind::KillWorker, 2), (Kind::KillStore, 1)]);
        let breaches = |planned| carried_out(planned, &came).map(|v| v.breaches.len());
        assert_eq!(breaches(3), Some(0));
        assert_eq!(breaches(5), Some(2));
        assert_eq!(carried_out(0, &faults::FaultCounts::new()), None);
    }
}
