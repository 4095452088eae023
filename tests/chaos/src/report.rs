//! The report of a run: a table of the guarantees, and counts of the evidence.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use triad_reference_service::book::LedgerLine;
use triad_reference_service::contract::Cause;

use super::checks::{Guarantee, Verdict};
use super::evidence::{AttemptId, Evidence, ReplyContent, attempt_of};
use super::faults::FaultCounts;
use super::load::Sort;
use super::options::Options;
use super::schedule::Kind;
use triad_judge::verdict::Judged;

/// Most violations of one check that are printed.
const EXAMPLES: usize = 5;
/// Characters at which a printed violation is cut.
const LONGEST: usize = 600;

/// Durations of the parts of a run.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// From the first submission until the last order has ended and the last fault is over.
    pub under_faults: Duration,
    /// From then until all work has ended.
    pub to_quiet: Duration,
    /// The whole run, including start and checks.
    pub in_all: Duration,
}

/// The result of one check.
#[derive(Debug, Clone, Serialize)]
pub struct CheckLine {
    /// The guarantee.
    pub guarantee: Guarantee,
    /// The requirement.
    pub what: &'static str,
    /// Number of things checked.
    pub checked: usize,
    /// Number of violations.
    pub breaches: usize,
    /// Some of the violations.
    pub examples: Vec<String>,
}

impl From<Verdict> for CheckLine {
    fn from(v: Verdict) -> Self {
        Self {
            guarantee: v.guarantee,
            what: v.what,
            checked: v.checked,
            breaches: v.breaches.len(),
            examples: v.breaches.into_iter().take(EXAMPLES).map(cut).collect(),
        }
    }
}

/// The report of a run with kills.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The seed: with the same options it gives the same load and the same schedule.
    pub seed: u64,
    /// Orders submitted.
    pub orders: u32,
    /// Workers.
    pub workers: u8,
    /// The checks, by guarantee.
    pub checks: Vec<CheckLine>,
    /// Faults carried out.
    pub faults: BTreeMap<Kind, u32>,
    /// Orders by their end state.
    pub ends: BTreeMap<&'static str, usize>,
    /// Number of other submissions, by kind.
    pub others: BTreeMap<&'static str, usize>,
    /// Effects of the faults that were counted.
    pub seen: BTreeMap<&'static str, usize>,
    /// Result of the independent judge.
    pub judged: Judged,
    /// Orders that ended per second while the faults lasted.
    pub orders_per_second: f64,
    /// Seconds from the first submission until the last order has ended and the last fault is over.
    pub seconds_under_faults: f64,
    /// Seconds from then until all work had ended.
    pub seconds_to_quiet: f64,
    /// Seconds of the whole run.
    pub seconds: f64,
    /// Directory of data and logs, if they were kept.
    pub kept: Option<PathBuf>,
}

impl Report {
    /// The report of a run from its evidence.
    #[must_use]
    pub fn new(
        options: &Options,
        evidence: &Evidence,
        verdicts: Vec<Verdict>,
        faults: &FaultCounts,
        times: Times,
    ) -> Self {
        let mut ends = BTreeMap::new();
        for order in evidence.records.values() {
            *ends.entry(order.state.name()).or_default() += 1;
        }
        let under_faults = times.under_faults.as_secs_f64();
        Self {
            seed: options.seed,
            orders: options.orders,
            workers: options.workers,
            checks: lines(verdicts, options),
            faults: faults.clone(),
            ends,
            others: others(evidence),
            seen: counts(evidence),
            judged: Judged::default(),
            orders_per_second: tenths(f64::from(options.orders) / under_faults.max(0.001)),
            seconds_under_faults: tenths(under_faults),
            seconds_to_quiet: tenths(times.to_quiet.as_secs_f64()),
            seconds: tenths(times.in_all.as_secs_f64()),
            kept: None,
        }
    }

    /// Adds the result of the judge.
    #[must_use]
    pub fn with(self, judged: Judged) -> Self {
        Self { judged, ..self }
    }

    /// Whether no guarantee was violated and every expected check has examined something.
    #[must_use]
    pub fn is_good(&self) -> bool {
        are_good(&self.checks)
    }
}

/// The verdicts as lines. An expected check that has examined nothing counts as a violation.
fn lines(verdicts: Vec<Verdict>, options: &Options) -> Vec<CheckLine> {
    let or_nothing = |verdict: Verdict| match options.expects(verdict.guarantee) {
        true => verdict.or_nothing(),
        false => verdict,
    };
    verdicts
        .into_iter()
        .map(or_nothing)
        .map(CheckLine::from)
        .collect()
}

/// Whether there are checks and none has found a violation.
pub(super) fn are_good(checks: &[CheckLine]) -> bool {
    !checks.is_empty() && checks.iter().all(|c| c.breaches == 0)
}

/// Rounds to one decimal place.
#[must_use]
pub fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn cut(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn others(e: &Evidence) -> BTreeMap<&'static str, usize> {
    let count = |sort| e.sent.iter().filter(|s| s.submission.sort == sort).count();
    BTreeMap::from([
        ("submitted twice", count(Sort::Repeated)),
        ("same id, other content", count(Sort::Conflicting)),
        ("records nobody can take", count(Sort::Poison)),
    ])
}

/// Counts that show whether the faults hit work in flight.
fn counts(e: &Evidence) -> BTreeMap<&'static str, usize> {
    let cause = |cause: Cause| e.calls.iter().filter(|c| c.cause == Some(cause)).count();
    let repeated = |all: usize, different: usize| all - different.min(all);
    let requests: BTreeSet<_> = e.requests.iter().map(|r| &r.id).collect();
    let statuses: BTreeSet<_> = e
        .statuses
        .iter()
        .map(|(_, s)| (&s.order_id, s.sequence))
        .collect();
    BTreeMap::from([
        ("calls at the service", e.calls.len()),
        (
            "effects applied",
            e.keys.iter().map(|k| k.applied as usize).sum(),
        ),
        (
            "effects compensated",
            e.keys.iter().map(|k| k.compensated as usize).sum(),
        ),
        (
            "compensations before their effect",
            super::checks::effects::tombstones(&e.keys),
        ),
        ("calls stalled", cause(Cause::Stall)),
        ("answers lost", cause(Cause::LostAnswer)),
        (
            "effects refused after their compensation",
            cause(Cause::Compensated),
        ),
        ("calls that landed after their deadline", late(e)),
        (
            "attempts deferred",
            e.replies
                .iter()
                .filter(|r| r.said == ReplyContent::Deferred)
                .count(),
        ),
        (
            "requests sent again",
            repeated(e.requests.len(), requests.len()),
        ),
        (
            "statuses sent again",
            repeated(e.statuses.len(), statuses.len()),
        ),
        (
            "attempts that failed",
            e.records
                .values()
                .flat_map(|o| &o.steps)
                .map(|s| (s.action.failures + s.compensation.failures) as usize)
                .sum(),
        ),
    ])
}

/// Calls that arrived after their attempt's deadline although no injected fault delayed them: the worker was frozen,
/// or had no CPU time. Idempotency keys and tombstones exist for such calls.
fn late(e: &Evidence) -> usize {
    let deadlines: HashMap<&AttemptId, u64> = e
        .requests
        .iter()
        .map(|r| (&r.id, r.complete_by.0))
        .collect();
    let is_late = |call: &&LedgerLine| {
        let deadline = deadlines.get(&attempt_of(call));
        let at = u64::try_from(call.at_ms).unwrap_or(0);
        call.cause != Some(Cause::Stall) && deadline.is_some_and(|by| at > *by)
    };
    e.calls.iter().filter(is_late).count()
}

/// A table without borders; the columns with these numbers are right-aligned.
pub(super) fn table<const N: usize>(header: [&str; N], right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header);
    for column in right {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", checks_table(&self.checks))?;
        let mut counts = table(["What happened", "Times"], &[1]);
        let faults = self
            .faults
            .iter()
            .map(|(kind, n)| (kind.name(), *n as usize));
        let others = self.others.iter().chain(&self.seen);
        let ends = self
            .ends
            .iter()
            .map(|(end, n)| (format!("orders that ended {end}"), *n));
        let judged = [
            ("operations judged", self.judged.operations),
            ("writes among them", self.judged.writes),
            ("refused for their condition", self.judged.refused),
            ("without an answer", self.judged.unanswered),
            ("of no effect, not judged", self.judged.failed),
        ];
        let judged = judged.map(|(what, n)| (format!("the judge: {what}"), n));
        let all = faults
            .map(|(what, n)| (what.to_owned(), n))
            .chain(ends)
            .chain(judged)
            .chain(others.map(|(what, n)| ((*what).to_owned(), *n)));
        for (what, n) in all {
            counts.add_row([what, n.to_string()]);
        }
        writeln!(f, "\n{}", counts.trim_fmt())?;
        writeln!(
            f,
            "\n{} orders, seed {}, {} workers: {} s under faults ({} orders/s), {} s to resolve, {} s in all",
            self.orders,
            self.seed,
            self.workers,
            self.seconds_under_faults,
            self.orders_per_second,
            self.seconds_to_quiet,
            self.seconds
        )?;
        failures(f, &self.checks, self.kept.as_deref())
    }
}

/// The checks as a table, one row each.
pub(super) fn checks_table(all: &[CheckLine]) -> String {
    let mut checks = table(["", "What must be so", "Checked", "Breaches"], &[2, 3]);
    for check in all {
        checks.add_row([
            format!("{:?}", check.guarantee),
            check.what.to_owned(),
            check.checked.to_string(),
            check.breaches.to_string(),
        ]);
    }
    checks.trim_fmt()
}

/// The violations, and where to find more about them.
pub(super) fn failures(
    f: &mut fmt::Formatter<'_>,
    checks: &[CheckLine],
    kept: Option<&Path>,
) -> fmt::Result {
    for check in checks.iter().filter(|c| c.breaches > 0) {
        writeln!(f, "\n{:?}, not so: {}", check.guarantee, check.what)?;
        for example in &check.examples {
            writeln!(f, "  {example}")?;
        }
    }
    let unseen = |c: &&CheckLine| c.checked == 0 && c.breaches == 0;
    for check in checks.iter().filter(unseen) {
        writeln!(f, "\n{:?}, NOT LOOKED AT: {}", check.guarantee, check.what)?;
    }
    match kept {
        Some(dir) => writeln!(f, "\nData and logs are in {}", dir.display()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn report(verdicts: Vec<Verdict>, arguments: &[&str]) -> Report {
        let times = Times {
            under_faults: Duration::from_secs(10),
            to_quiet: Duration::from_secs(1),
            in_all: Duration::from_secs(12),
        };
        let options = Options::parse_from([&["triad-chaos"], arguments].concat());
        let faults = FaultCounts::from([(Kind::KillWorker, 2)]);
        Report::new(
            &options,
            &super::super::checks::sample_history::sound(),
            verdicts,
            &faults,
            times,
        )
    }

    #[test]
    fn a_breach_is_counted_shown_and_makes_the_report_bad() {
        let verdict = |breaches: Vec<String>| Verdict {
            guarantee: Guarantee::G2,
            what: "once",
            checked: 9,
            breaches,
        };
        assert!(report(vec![verdict(Vec::new())], &[]).is_good());
        let bad = report(vec![verdict(vec!["key k: twice".into(); 7])], &[]);
        assert!(!bad.is_good());
        assert_eq!(
            (bad.checks[0].breaches, bad.checks[0].examples.len()),
            (7, EXAMPLES)
        );
        let text = bad.to_string();
        assert!(
            text.contains("key k: twice") && text.contains("worker killed"),
            "{text}"
        );
        assert_eq!(
            serde_json::to_value(&bad).unwrap()["faults"]["kill-worker"],
            2
        );
        assert_eq!(bad.ends["Processed"], 1);
    }

    #[test]
    fn a_check_that_has_looked_at_nothing_makes_the_report_bad_unless_others_were_named() {
        let verdict = |guarantee, checked| Verdict {
            guarantee,
            what: "whatever",
            checked,
            breaches: Vec::new(),
        };
        let both = || vec![verdict(Guarantee::G1, 3), verdict(Guarantee::G6, 0)];
        let unseen = report(both(), &[]);
        assert!(!unseen.is_good());
        assert_eq!(unseen.checks[1].examples, ["nothing was looked at"]);
        let named = report(both(), &["--expect", "g1"]);
        assert!(named.is_good());
        assert!(named.to_string().contains("G6, NOT LOOKED AT: whatever"));
        assert!(!report(both(), &["--expect", "g6"]).is_good());
        assert!(!report(Vec::new(), &[]).is_good(), "no checks at all");
    }
}
