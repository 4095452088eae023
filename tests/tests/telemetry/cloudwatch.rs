//! Each CloudWatch alarm of the module must ring for the metrics of its fault, and only for those.
//!
//! CloudWatch itself is not used. Its handling of log lines and alarms is implemented here from its documentation
//! (<https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html>): a series is a namespace,
//! a name and dimensions; each period has a statistic; an alarm rings when enough of its last periods breach.

use std::collections::{BTreeMap, BTreeSet};

use metrics::with_local_recorder;
use serde_json::Value;
use triad_metrics::emf::Embedded;
use triad_runtime::metric;

use crate::telemetry::metrics::{sweep_over_a_breach, sweep_within};

const NAMESPACE: &str = "Triad/triad";
const MINUTE_MS: u64 = 60_000;
/// Number of simulated worlds; the metrics of each count as one minute.
const WORLDS: u64 = 60;

/// The dimensions of a series, by name.
type Dimensions = BTreeMap<String, String>;

/// A series: namespace, name and dimensions.
type Series = (String, String, Dimensions);

/// A metric of an alarm, as `infra/tests/alarms.json` has it.
#[derive(Debug)]
struct Watched {
    namespace: String,
    name: String,
    dimensions: Dimensions,
    statistic: String,
}

impl Watched {
    fn read(from: &Value) -> Self {
        let by = from["dimensions"].as_object().expect("dimensions").iter();
        Self {
            namespace: text(&from["namespace"]),
            name: text(&from["name"]),
            dimensions: by
                .map(|(name, value)| (name.clone(), text(value)))
                .collect(),
            statistic: text(&from["statistic"]),
        }
    }

    fn series(&self) -> Series {
        (
            self.namespace.clone(),
            self.name.clone(),
            self.dimensions.clone(),
        )
    }
}

/// One alarm of the module. Several metrics are added up.
#[derive(Debug)]
struct Alarm {
    metrics: Vec<Watched>,
    period_ms: u64,
    periods: u64,
    datapoints: u64,
    comparison: String,
    threshold: f64,
    without_data: WithoutData,
}

/// How an alarm takes a period without data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WithoutData {
    NoBreach,
    /// The alarm keeps its state.
    Unchanged,
    /// Without data in all periods the alarm has insufficient data, and rings if it had data before.
    Silence,
}

impl Alarm {
    fn read(from: &Value) -> Self {
        let metrics = from["metrics"].as_array().expect("metrics");
        let number = |value: &Value| value.as_u64().expect("a number");
        Self {
            metrics: metrics.iter().map(Watched::read).collect(),
            period_ms: number(&metrics[0]["period"]) * 1_000,
            periods: number(&from["periods"]),
            datapoints: number(&from["datapoints"]),
            comparison: text(&from["comparison"]),
            threshold: from["threshold"].as_f64().expect("a threshold"),
            without_data: match from["missing"].as_str() {
                Some("notBreaching") => WithoutData::NoBreach,
                Some("ignore") => WithoutData::Unchanged,
                Some("missing") => WithoutData::Silence,
                other => panic!("missing data is {other:?}"),
            },
        }
    }

    fn is_of_triad(&self) -> bool {
        self.metrics[0].namespace == NAMESPACE
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// The module's alarms by name, without the prefix of the installation.
fn alarms() -> BTreeMap<String, Alarm> {
    let file = include_str!("../../../infra/tests/alarms.json");
    let mut lines: BTreeMap<String, Value> = serde_json::from_str(file).expect("it is JSON");
    lines.remove("note").expect("the note");
    let alarms = lines
        .iter()
        .map(|(name, line)| (name.clone(), Alarm::read(line)));
    alarms.collect()
}

/// The values of one series: time, value, and number of reports.
type Values = Vec<(u64, f64, f64)>;

/// The metrics that CloudWatch has received, by namespace, name and dimensions.
#[derive(Default)]
struct CloudWatch(BTreeMap<Series, Values>);

impl CloudWatch {
    /// Reads a function's log lines in the embedded metric format.
    fn read(&mut self, lines: &[String]) {
        for line in lines {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            let at = line["_aws"]["Timestamp"].as_u64().expect("a time");
            for told in line["_aws"]["CloudWatchMetrics"]
                .as_array()
                .expect("a list")
            {
                let namespace = told["Namespace"].as_str().expect("a namespace");
                for by in told["Dimensions"].as_array().expect("sets of dimensions") {
                    let by = by.as_array().expect("names").iter();
                    let by = by.map(|name| name.as_str().expect("a name"));
                    let label = |name| line[name].as_str().expect("a label").to_owned();
                    let by: Dimensions = by.map(|name| (name.to_owned(), label(name))).collect();
                    for one in told["Metrics"].as_array().expect("metrics") {
                        let name = one["Name"].as_str().expect("a name");
                        let series = (namespace.to_owned(), name.to_owned(), by.clone());
                        let values = values(&line[name]).into_iter();
                        let values = values.map(|(value, times)| (at, value, times));
                        self.0.entry(series).or_default().extend(values);
                    }
                }
            }
        }
    }

    /// The values of the last metric of an alarm, one for each minute.
    fn of_aws(alarm: &Alarm, each_minute: &[f64]) -> Self {
        let series = alarm.metrics.last().expect("a metric").series();
        let minutes = each_minute.iter().zip(0..);
        let values = minutes.map(|(value, minute)| (minute * MINUTE_MS, *value, 1.0));
        Self([(series, values.collect())].into())
    }

    /// The alarm's statistic in the period that begins at `begin`; `None` without values.
    fn statistic(&self, alarm: &Alarm, begin: u64) -> Option<f64> {
        let period = begin..begin + alarm.period_ms;
        let of = |watched: &Watched| {
            let told = self.0.get(&watched.series()).into_iter().flatten();
            let told = told.filter(|(at, ..)| period.contains(at));
            match &*watched.statistic {
                "Sum" => told
                    .map(|(_, value, times)| value * times)
                    .reduce(|a, b| a + b),
                "Maximum" => told.map(|(_, value, _)| *value).reduce(f64::max),
                other => panic!("a statistic {other}"),
            }
        };
        alarm.metrics.iter().filter_map(of).reduce(|a, b| a + b)
    }

    /// Whether the alarm rings when its last period ends at `end`: it breaches, or is without data after it had some.
    fn rings(&self, alarm: &Alarm, end: u64) -> bool {
        let begins = (1..=alarm.periods).filter_map(|n| end.checked_sub(n * alarm.period_ms));
        let statistics = begins.filter_map(|begin| self.statistic(alarm, begin));
        let statistics: Vec<f64> = statistics.collect();
        if alarm.without_data == WithoutData::Silence && statistics.is_empty() {
            let mut before = self.0.get(&alarm.metrics[0].series()).into_iter().flatten();
            return before.any(|(at, ..)| *at < end);
        }
        let is_breach = |statistic: &&f64| match &*alarm.comparison {
            "GreaterThanThreshold" => **statistic > alarm.threshold,
            "GreaterThanOrEqualToThreshold" => **statistic >= alarm.threshold,
            "LessThanThreshold" => **statistic < alarm.threshold,
            other => panic!("a comparison {other}"),
        };
        statistics.iter().filter(is_breach).count() as u64 >= alarm.datapoints
    }
}

/// The values of a metric in a log line, each with its count.
fn values(told: &Value) -> Vec<(f64, f64)> {
    let numbers = |list: &Value| {
        let list = list.as_array().expect("a list").iter();
        list.map(|n| n.as_f64().expect("a number"))
            .collect::<Vec<_>>()
    };
    match told.as_f64() {
        Some(value) => vec![(value, 1.0)],
        None => numbers(&told["Values"])
            .into_iter()
            .zip(numbers(&told["Counts"]))
            .collect(),
    }
}

/// The metrics that are reported while `work` runs once for each minute.
fn told_in_minutes(minutes: u64, mut work: impl FnMut(u64)) -> CloudWatch {
    let embedded = Embedded::new(NAMESPACE).expect("a namespace");
    metric::describe();
    let mut told = CloudWatch::default();
    for minute in 0..minutes {
        with_local_recorder(&embedded, || work(minute));
        told.read(&embedded.lines(minute * MINUTE_MS));
    }
    told
}

/// How often an event happened in a minute, summed over all labels that the alarm's dimensions do not fix.
fn happened(told: &CloudWatch, alarm: &Alarm, minute: u64) -> f64 {
    let watched = &alarm.metrics[0];
    let of_it = told.0.iter().filter(|((_, name, by), _)| {
        let fits = |(name, value)| by.get(name) == Some(value);
        let fits = watched.dimensions.iter().all(fits);
        *name == watched.name && fits && by.len() > watched.dimensions.len()
    });
    let values = of_it.flat_map(|(_, values)| values);
    let values = values.filter(|(at, ..)| *at == minute * MINUTE_MS);
    values.map(|(_, value, times)| value * times).sum()
}

fn on_one_thread<F: Future>(work: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    runtime.block_on(work)
}

#[test]
fn every_alarm_of_the_module_is_tried_here() {
    let alarms = alarms();
    let of_triad = alarms.iter().filter(|(_, alarm)| alarm.is_of_triad());
    let names = of_triad.map(|(name, _)| name.as_str());
    let names: BTreeSet<_> = names.filter(|name| !name.ends_with("-old")).collect();
    assert_eq!(names, OCCURRENCES.into_iter().chain(OF_SWEEPS).collect());
}

#[test]
fn no_alarm_rings_before_there_is_data() {
    let none = CloudWatch::default();
    for (name, alarm) in alarms() {
        assert!(!none.rings(&alarm, 60 * MINUTE_MS), "{name}");
    }
}

/// Alarms that ring for a single event.
const OCCURRENCES: [&str; 6] = [
    "broken-invariants",
    "dead-letters",
    "error-orders",
    "misconfigured",
    "open-breakers",
    "stuck-compensations",
];
/// Alarms on metrics of sweeps.
const OF_SWEEPS: [&str; 2] = ["overdue-orders", "supervisor-silent"];

#[test]
fn one_event_that_a_handler_tells_of_rings_in_its_minute_and_no_other() {
    let alarms = alarms();
    let worlds = told_in_minutes(WORLDS, |seed| {
        let _ = triad_sim::run(seed, triad_sim::Options::default());
    });
    let breach = told_in_minutes(1, |_| on_one_thread(sweep_over_a_breach()));
    for name in OCCURRENCES {
        let alarm = &alarms[name];
        let (told, minutes) = match name {
            // A violated invariant is a defect of Triad, which no simulated world has, so it is caused here.
            "broken-invariants" => (&breach, 1),
            _ => (&worlds, WORLDS),
        };
        let rings = |minute| told.rings(alarm, (minute + 1) * MINUTE_MS);
        for minute in 0..minutes {
            assert_eq!(
                rings(minute),
                happened(told, alarm, minute) >= 1.0,
                "{name} in {minute}"
            );
        }
        assert!((0..minutes).any(rings), "{name} rings");
        assert!(!rings(minutes), "{name} ends");
    }
}

#[test]
fn a_supervisor_that_does_not_sweep_all_of_the_index_for_five_minutes_rings() {
    let alarm = &alarms()["supervisor-silent"];
    let whole = told_in_minutes(10, |_| on_one_thread(sweep_within(100)));
    assert!(!whole.rings(alarm, 10 * MINUTE_MS));
    // No further metrics are reported after the tenth minute.
    assert!(!whole.rings(alarm, 14 * MINUTE_MS));
    assert!(whole.rings(alarm, 15 * MINUTE_MS));
    let truncated = told_in_minutes(10, |_| on_one_thread(sweep_within(0)));
    assert!(truncated.rings(alarm, 10 * MINUTE_MS), "none was whole");
}

#[test]
fn an_order_that_stays_overdue_for_five_minutes_rings() {
    let alarm = &alarms()["overdue-orders"];
    let from_third = told_in_minutes(8, |minute| match minute {
        0..3 => on_one_thread(sweep_within(100)),
        // From the fourth minute on, each sweep finds an order that has been due for an hour.
        _ => on_one_thread(sweep_over_a_breach()),
    });
    assert!(!from_third.rings(alarm, 7 * MINUTE_MS), "four minutes");
    assert!(from_third.rings(alarm, 8 * MINUTE_MS), "five");
}

#[test]
fn a_record_that_is_older_than_five_minutes_rings() {
    let worlds = told_in_minutes(WORLDS, |seed| {
        let _ = triad_sim::run(seed, triad_sim::Options::default());
    });
    let alarms = alarms();
    let old = alarms.iter().filter(|(name, _)| name.ends_with("-old"));
    let old: Vec<_> = old.collect();
    assert!(old.len() >= 6, "one for each topic: {old:?}");
    for (name, alarm) in old {
        let watched = &alarm.metrics[0];
        let by = &watched.dimensions;
        // The simulated worlds have other agents.
        let is_reported = worlds.0.keys().any(|(_, name, of)| {
            *name == watched.name
                && of["handler"] == by["handler"]
                && (by["handler"] == "agent" || of["topic"] == by["topic"])
        });
        assert!(is_reported, "{name}: a handler reports it");
        let after = |seconds: f64| {
            let told = told_in_minutes(5, |_| {
                let labels = [
                    ("handler", by["handler"].clone()),
                    ("topic", by["topic"].clone()),
                ];
                metrics::histogram!(metric::RECORD_WAIT.name, &labels).record(seconds);
            });
            told.rings(alarm, 5 * MINUTE_MS)
        };
        assert!(after(360.0), "{name}");
        assert!(!after(240.0), "{name}");
    }
}

#[test]
fn what_aws_reports_rings_at_its_threshold() {
    for (name, alarm) in alarms() {
        if alarm.is_of_triad() {
            continue;
        }
        let minutes = alarm.periods * alarm.period_ms / MINUTE_MS;
        let rings = |in_period: f64, periods: u64| {
            // The value comes in the last minute of each period.
            let minute = |n: u64| match (n + 1) * MINUTE_MS % alarm.period_ms {
                0 if n * MINUTE_MS / alarm.period_ms < periods => in_period,
                _ => 0.0,
            };
            let each: Vec<f64> = (0..minutes).map(minute).collect();
            CloudWatch::of_aws(&alarm, &each).rings(&alarm, minutes * MINUTE_MS)
        };
        if alarm.without_data == WithoutData::Silence {
            assert!(!rings(0.0, 0), "{name}: polls that bring nothing");
            let once = CloudWatch::of_aws(&alarm, &[0.0]);
            assert!(!once.rings(&alarm, minutes * MINUTE_MS), "{name}: not yet");
            assert!(
                once.rings(&alarm, (minutes + 1) * MINUTE_MS),
                "{name}: silence"
            );
            continue;
        }
        assert!(rings(alarm.threshold, alarm.datapoints), "{name}");
        assert!(
            !rings(alarm.threshold - 1.0, alarm.periods),
            "{name}, one less"
        );
        assert!(
            !rings(alarm.threshold, alarm.datapoints - 1),
            "{name}, a period less"
        );
    }
}
