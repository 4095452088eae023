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

const NAMESPACE: &str = "Triad/shop";
const MINUTE_MS: u64 = 60_000;
/// Number of simulated worlds; the metrics of each count as one minute.
const WORLDS: u64 = 60;

/// The dimensions of a series, by name.
type Dimensions = BTreeMap<String, String>;

/// One alarm of the module.
#[derive(Debug, Clone)]
struct Alarm {
    namespace: String,
    metric: String,
    dimensions: Dimensions,
    statistic: String,
    period_ms: u64,
    periods: u64,
    datapoints: u64,
    comparison: String,
    threshold: f64,
    is_missing_a_breach: bool,
}

/// The value of `name = value` in a Terraform block that has one setting on each line.
fn said<'a>(block: &'a str, name: &str) -> Option<&'a str> {
    let of = |line: &'a str| {
        line.trim()
            .strip_prefix(name)?
            .trim_start()
            .strip_prefix('=')
    };
    block.lines().find_map(of).map(str::trim)
}

/// The names and texts in `{ name = "text" }`.
fn pairs(map: &str) -> Dimensions {
    let inner = map.trim_matches(['{', '}', ' ']);
    let parts = inner.split(',').filter_map(|part| part.split_once('='));
    parts
        .map(|(name, text)| (name.trim().into(), text.trim().trim_matches('"').into()))
        .collect()
}

/// The value of a number, or of a variable's default.
fn number(said: &str, variables: &str) -> f64 {
    let text = match said.strip_prefix("var.alarms.") {
        None => said,
        Some(name) => {
            let default = self::said(variables, name).expect("the variable is there");
            let default = default
                .strip_prefix("optional(number, ")
                .expect("a default");
            default.trim_end_matches(')')
        }
    };
    text.parse()
        .unwrap_or_else(|_| panic!("{said} is a number"))
}

/// The module's alarms, by resource name.
fn alarms() -> BTreeMap<String, Alarm> {
    let text = include_str!("../../../infra/alarms.tf");
    let variables = include_str!("../../../infra/variables_operations.tf");
    let (locals, resources) = text
        .split_once("resource \"aws_cloudwatch_metric_alarm\" ")
        .expect("there are alarms");
    let blocks = resources.split("resource \"aws_cloudwatch_metric_alarm\" ");
    let mut alarms = BTreeMap::new();
    for block in blocks {
        let name = block.split('"').nth(1).expect("a name");
        let word = |name: &str| said(block, name).unwrap_or_default().trim_matches('"');
        let count = |name: &str| said(block, name).map(|said| number(said, variables) as u64);
        let periods = count("evaluation_periods").expect("so many periods");
        let one = Alarm {
            namespace: match word("namespace") {
                "local.metric_namespace" => NAMESPACE.to_owned(),
                other => other.to_owned(),
            },
            metric: word("metric_name").to_owned(),
            dimensions: said(block, "dimensions").map(pairs).unwrap_or_default(),
            statistic: word("statistic").to_owned(),
            period_ms: count("period").expect("a period") * 1_000,
            periods,
            datapoints: count("datapoints_to_alarm").unwrap_or(periods),
            comparison: word("comparison_operator").to_owned(),
            threshold: number(said(block, "threshold").expect("a threshold"), variables),
            is_missing_a_breach: match word("treat_missing_data") {
                "breaching" => true,
                "notBreaching" => false,
                other => panic!("{name}: missing data is {other}"),
            },
        };
        if name != "occurrence" {
            alarms.insert(name.to_owned(), one);
            continue;
        }
        // A resource with `for_each`: one alarm for each entry of a map.
        for entry in locals
            .split(" = {\n")
            .skip(1)
            .filter(|e| said(e, "metric").is_some())
        {
            let named = locals.split(entry).next().expect("what stands before it");
            let named = named.trim_end_matches(" = {\n").split_whitespace().last();
            let of_entry = Alarm {
                metric: said(entry, "metric")
                    .expect("a metric")
                    .trim_matches('"')
                    .into(),
                dimensions: said(entry, "dimensions").map(pairs).unwrap_or_default(),
                ..one.clone()
            };
            alarms.insert(named.expect("a name").to_owned(), of_entry);
        }
    }
    alarms
}

/// The values of one series: time, value, and number of reports.
type Values = Vec<(u64, f64, f64)>;

/// The metrics that CloudWatch has received, by namespace, name and dimensions.
#[derive(Default)]
struct CloudWatch(BTreeMap<(String, String, Dimensions), Values>);

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

    /// The values of a metric that AWS reports, not Triad.
    fn of_aws(alarm: &Alarm, each_minute: &[f64]) -> Self {
        let series = (
            alarm.namespace.clone(),
            alarm.metric.clone(),
            alarm.dimensions.clone(),
        );
        let minutes = each_minute.iter().zip(0..);
        let values = minutes.map(|(value, minute)| (minute * MINUTE_MS, *value, 1.0));
        Self([(series, values.collect())].into())
    }

    /// The alarm's statistic in the period that begins at `begin`; `None` without values.
    fn statistic(&self, alarm: &Alarm, begin: u64) -> Option<f64> {
        let series = (
            alarm.namespace.clone(),
            alarm.metric.clone(),
            alarm.dimensions.clone(),
        );
        let period = begin..begin + alarm.period_ms;
        let told = self.0.get(&series).into_iter().flatten();
        let told = told.filter(|(at, ..)| period.contains(at));
        match &*alarm.statistic {
            "Sum" => told
                .map(|(_, value, times)| value * times)
                .reduce(|a, b| a + b),
            "Maximum" => told.map(|(_, value, _)| *value).reduce(f64::max),
            other => panic!("a statistic {other}"),
        }
    }

    /// Whether the alarm rings when its last period ends at `end`.
    fn rings(&self, alarm: &Alarm, end: u64) -> bool {
        let begins = (1..=alarm.periods).map(|n| end.checked_sub(n * alarm.period_ms));
        let is_breach = |begin: Option<u64>| {
            let Some(statistic) = begin.and_then(|begin| self.statistic(alarm, begin)) else {
                return alarm.is_missing_a_breach;
            };
            match &*alarm.comparison {
                "GreaterThanThreshold" => statistic > alarm.threshold,
                "GreaterThanOrEqualToThreshold" => statistic >= alarm.threshold,
                "LessThanThreshold" => statistic < alarm.threshold,
                other => panic!("a comparison {other}"),
            }
        };
        let breaches = begins.filter(|begin| is_breach(*begin)).count();
        breaches as u64 >= alarm.datapoints
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
    let of_it = told.0.iter().filter(|((_, name, by), _)| {
        let fits = alarm
            .dimensions
            .iter()
            .all(|(name, value)| by.get(name) == Some(value));
        *name == alarm.metric && fits && by.len() > alarm.dimensions.len()
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
    let names: BTreeSet<_> = alarms.keys().map(String::as_str).collect();
    let tried = OCCURRENCES.into_iter().chain(OF_AWS).chain(OF_SWEEPS);
    assert_eq!(names, tried.collect());
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
/// Alarms on AWS's own metrics.
const OF_AWS: [&str; 3] = ["errors", "lag", "throttles"];
/// Alarms on metrics of sweeps.
const OF_SWEEPS: [&str; 2] = ["overdue", "supervisor_silent"];

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
    let alarm = &alarms()["supervisor_silent"];
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
    let alarm = &alarms()["overdue"];
    let from_third = told_in_minutes(8, |minute| match minute {
        0..3 => on_one_thread(sweep_within(100)),
        // From the fourth minute on, each sweep finds an order that has been due for an hour.
        _ => on_one_thread(sweep_over_a_breach()),
    });
    assert!(!from_third.rings(alarm, 7 * MINUTE_MS), "four minutes");
    assert!(from_third.rings(alarm, 8 * MINUTE_MS), "five");
}

#[test]
fn what_aws_tells_of_functions_rings_at_its_threshold() {
    let alarms = alarms();
    let rings = |name: &str, each_minute: &[f64]| {
        let alarm = &alarms[name];
        CloudWatch::of_aws(alarm, each_minute).rings(alarm, 5 * MINUTE_MS)
    };
    let lag = alarms["lag"].threshold;
    assert!(rings("lag", &[lag + 1.0; 5]));
    assert!(!rings("lag", &[lag; 5]), "as many as allowed");
    assert!(!rings("lag", &[lag + 1.0; 4]), "in four minutes of five");
    for name in ["errors", "throttles"] {
        let enough = alarms[name].threshold;
        assert!(rings(name, &[0.0, enough - 1.0, 1.0]), "{name}, together");
        assert!(!rings(name, &[0.0, enough - 1.0]), "{name}, one less");
    }
}
