//! Log lines in CloudWatch's embedded metric format: CloudWatch counts the metrics in the lines that a function
//! prints.
//!
//! The format:
//! <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>.
//! One line has all metrics with the same labels. Each metric is reported with all its labels. Those with alarms are
//! also reported with fewer labels ([`SUMMED`]), because an alarm watches one series. Every series costs money.
//! Counters report the increase since the previous line.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Label, Metadata,
    Recorder, SharedString, Unit,
};
use serde_json::{Map, Value, json};
use triad_runtime::metric;

/// Width of a class of a histogram: a reported value is off by at most 8 %. The format allows 100 different values.
const CLASS: f64 = 1.15;
/// Number of the class of the smallest values, 0.7 ms and less.
const FIRST_CLASS: i32 = -52;
/// Number of the class of the largest values, 725 s and more.
const LAST_CLASS: i32 = 47;

/// Metrics that are reported a second time, for alarms: each with the fewer labels that it has then.
pub const SUMMED: [(&metric::Metric, &[&str]); 5] = [
    (&metric::ORDERS_ENDED, &["state"]),
    (&metric::DEAD_LETTERS, &[]),
    (&metric::BREAKER_OPENINGS, &[]),
    (&metric::MISCONFIGURED, &[]),
    (&metric::INVARIANT_BREACHES, &[]),
];

/// Longest namespace, in bytes.
const MAX_NAMESPACE: usize = 255;

/// Why no metrics can be reported to CloudWatch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddedError {
    /// The namespace, which is given here, is not one that CloudWatch takes: it must have 1 to 255 letters,
    /// digits, blanks and the characters `.`, `-`, `_`, `/`, `#` and `:`.
    #[error(
        "{0:?} is no namespace of CloudWatch: it has 1 to 255 letters, digits, blanks and . - _ / # :"
    )]
    Namespace(String),
    /// The process has another recorder of metrics already.
    #[error("metrics are recorded already")]
    Recorded,
}

/// A recorder that keeps measurements until [`lines`](Self::lines) takes them. Clones share it.
#[derive(Debug, Clone)]
pub struct Embedded {
    namespace: Arc<str>,
    held: Arc<Mutex<HashMap<Key, Measured>>>,
}

#[derive(Debug)]
enum Measured {
    Count(u64),
    Level(f64),
    /// Number of values in each class.
    Classes(BTreeMap<i32, u64>),
}

impl Embedded {
    /// Makes a recorder for this namespace of CloudWatch and installs it as the recorder of the whole
    /// process, which can have only one.
    ///
    /// # Errors
    /// [`EmbeddedError::Namespace`] if CloudWatch does not take the namespace, [`EmbeddedError::Recorded`] if
    /// the process has a recorder already.
    pub fn start(namespace: &str) -> Result<Self, EmbeddedError> {
        let embedded = Self::new(namespace)?;
        metrics::set_global_recorder(embedded.clone()).map_err(|_| EmbeddedError::Recorded)?;
        metric::describe();
        Ok(embedded)
    }

    /// Makes a recorder for this namespace of CloudWatch without installing it: it records only direct calls.
    ///
    /// # Errors
    /// [`EmbeddedError::Namespace`] if CloudWatch does not take the namespace.
    pub fn new(namespace: &str) -> Result<Self, EmbeddedError> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || " .-_/#:".contains(c);
        if !(1..=MAX_NAMESPACE).contains(&namespace.len()) || !namespace.chars().all(is_allowed) {
            return Err(EmbeddedError::Namespace(namespace.to_owned()));
        }
        Ok(Self {
            namespace: namespace.into(),
            held: Arc::default(),
        })
    }

    /// Takes the measurements since the last call, and returns them as log lines (JSON, without line ends): one for
    /// each set of labels, none if nothing was measured. `at` is the present time, in milliseconds since the Unix
    /// epoch.
    #[must_use]
    pub fn lines(&self, at: u64) -> Vec<String> {
        let held = std::mem::take(&mut *self.lock());
        let mut by_labels: BTreeMap<Vec<Label>, Vec<(Key, Measured)>> = BTreeMap::new();
        for (key, value) in held {
            let labels = key.labels().cloned().collect();
            by_labels.entry(labels).or_default().push((key, value));
        }
        let told = by_labels.into_iter();
        told.map(|(labels, mut values)| {
            values.sort_by(|(a, _), (b, _)| a.name().cmp(b.name()));
            self.line(at, &labels, values)
        })
        .collect()
    }

    fn line(&self, at: u64, labels: &[Label], values: Vec<(Key, Measured)>) -> String {
        let names: Vec<&str> = labels.iter().map(Label::key).collect();
        let told = |name: &str| json!({"Name": name, "Unit": unit(name)});
        let told_by = |labels: &[&str], metrics: Vec<Value>| json!({"Namespace": &*self.namespace, "Dimensions": [labels], "Metrics": metrics});
        let all = values.iter().map(|(key, _)| told(key.name())).collect();
        let mut directives = vec![told_by(&names, all)];
        for (key, _) in &values {
            let summed = SUMMED.iter().find(|(metric, _)| metric.name == key.name());
            directives.extend(summed.map(|(metric, by)| told_by(by, vec![told(metric.name)])));
        }
        let about = json!({"Timestamp": at, "CloudWatchMetrics": directives});
        let mut line = Map::new();
        line.insert("_aws".to_owned(), about);
        for label in labels {
            line.insert(label.key().to_owned(), label.value().into());
        }
        for (key, held) in values {
            line.insert(key.name().to_owned(), held.into_json());
        }
        Value::Object(line).to_string()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Measured>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// CloudWatch's name of a metric's unit.
fn unit(name: &str) -> &'static str {
    let metric = metric::ALL.iter().find(|metric| metric.name == name);
    match metric.map(|metric| metric.unit) {
        Some(Unit::Seconds) => "Seconds",
        Some(Unit::Count) => "Count",
        Some(Unit::Bytes) => "Bytes",
        _ => "None",
    }
}

fn class(value: f64) -> i32 {
    if value <= 0.0 {
        return FIRST_CLASS;
    }
    // The conversion saturates, and NaN becomes 0.
    let class = (value.ln() / CLASS.ln()).round() as i32;
    class.clamp(FIRST_CLASS, LAST_CLASS)
}

impl Measured {
    fn into_json(self) -> Value {
        match self {
            Self::Count(count) => count.into(),
            Self::Level(level) => level.into(),
            Self::Classes(classes) => {
                let values: Vec<f64> = classes.keys().map(|class| middle(*class)).collect();
                let counts: Vec<u64> = classes.into_values().collect();
                json!({"Values": values, "Counts": counts})
            }
        }
    }
}

/// The reported value of a class, to a tenth of a millisecond.
fn middle(class: i32) -> f64 {
    (CLASS.powi(class) * 10_000.0).round() / 10_000.0
}

/// One metric with its labels.
struct LabelledMetric {
    of: Embedded,
    key: Key,
}

impl LabelledMetric {
    fn change(&self, new: Measured, change: impl FnOnce(&mut Measured)) {
        change(self.of.lock().entry(self.key.clone()).or_insert(new));
    }
}

impl CounterFn for LabelledMetric {
    fn increment(&self, by: u64) {
        self.change(Measured::Count(0), |held| {
            if let Measured::Count(count) = held {
                *count = count.saturating_add(by);
            }
        });
    }

    fn absolute(&self, value: u64) {
        self.change(Measured::Count(0), |held| *held = Measured::Count(value));
    }
}

impl GaugeFn for LabelledMetric {
    fn increment(&self, by: f64) {
        self.change(Measured::Level(0.0), |held| {
            if let Measured::Level(level) = held {
                *level += by;
            }
        });
    }

    fn decrement(&self, by: f64) {
        GaugeFn::increment(self, -by);
    }

    fn set(&self, to: f64) {
        self.change(Measured::Level(0.0), |held| *held = Measured::Level(to));
    }
}

impl HistogramFn for LabelledMetric {
    fn record(&self, value: f64) {
        self.change(Measured::Classes(BTreeMap::new()), |held| {
            if let Measured::Classes(classes) = held {
                *classes.entry(class(value)).or_default() += 1;
            }
        });
    }
}

impl Recorder for Embedded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(self.labelled(key)))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(self.labelled(key)))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(self.labelled(key)))
    }
}

impl Embedded {
    fn labelled(&self, key: &Key) -> LabelledMetric {
        LabelledMetric {
            of: self.clone(),
            key: key.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(measure: impl FnOnce(&Embedded)) -> Vec<Value> {
        let embedded = Embedded::new("Triad/test").expect("a namespace");
        measure(&embedded);
        let lines = embedded.lines(1_700_000_000_000);
        assert!(embedded.lines(0).is_empty(), "nothing is told twice");
        let read = lines
            .iter()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        read.collect()
    }

    fn key(metric: &metric::Metric, values: &[&'static str]) -> Key {
        let labels = metric.labels.iter().zip(values);
        let labels: Vec<Label> = labels.map(|(n, v)| Label::new(*n, *v)).collect();
        Key::from_parts(metric.name, labels)
    }

    const ANY: Metadata<'static> = Metadata::new("t", metrics::Level::INFO, None);

    #[test]
    fn a_line_holds_what_has_the_same_labels_and_tells_what_alarms_look_at_twice() {
        let lines = told(|to| {
            let ended = key(&metric::ORDERS_ENDED, &["pay", "Error"]);
            to.register_counter(&ended, &ANY).increment(2);
            to.register_counter(&ended, &ANY).increment(1);
            let took = key(&metric::ORDER_DURATION, &["pay", "Error"]);
            for seconds in [2.0, 2.0, 2.05, 90.0] {
                to.register_histogram(&took, &ANY).record(seconds);
            }
        });
        let [line] = &*lines else {
            panic!("one line: {lines:?}")
        };
        assert_eq!(line["triad_orders_ended_total"], 3);
        assert_eq!(
            (&line["workflow"], &line["state"]),
            (&json!("pay"), &json!("Error"))
        );
        let about = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(about["Namespace"], "Triad/test");
        assert_eq!(about["Dimensions"], json!([["workflow", "state"]]));
        assert_eq!(
            about["Metrics"],
            json!([
                {"Name": "triad_order_duration_seconds", "Unit": "Seconds"},
                {"Name": "triad_orders_ended_total", "Unit": "Count"},
            ])
        );
        let summed = &line["_aws"]["CloudWatchMetrics"][1];
        assert_eq!(summed["Dimensions"], json!([["state"]]));
        let ended = json!([{"Name": "triad_orders_ended_total", "Unit": "Count"}]);
        assert_eq!(summed["Metrics"], ended);
        assert_eq!(line["_aws"]["CloudWatchMetrics"][2], Value::Null);
        let classes = &line["triad_order_duration_seconds"];
        assert_eq!(classes["Counts"], json!([3, 1]));
        let values = classes["Values"].as_array().expect("values");
        assert!((1.85..2.2).contains(&values[0].as_f64().expect("a number")));
    }

    #[test]
    fn a_namespace_that_cloudwatch_refuses_is_refused() {
        for bad in ["", "Triad\n", "Triad{}", &"x".repeat(256)] {
            let refused = Embedded::new(bad).map(|_| ());
            assert_eq!(refused, Err(EmbeddedError::Namespace(bad.to_owned())));
        }
    }

    #[test]
    fn a_level_is_told_as_it_was_last_and_what_has_no_labels_once() {
        let lines = told(|to| {
            let due = key(&metric::OLDEST_DUE, &[]);
            to.register_gauge(&due, &ANY).set(9.0);
            to.register_gauge(&due, &ANY).set(4.5);
        });
        assert_eq!(lines[0]["triad_oldest_due_seconds"], 4.5);
        assert_eq!(
            lines[0]["_aws"]["CloudWatchMetrics"][0]["Dimensions"],
            json!([[]])
        );
    }

    #[test]
    fn no_more_values_are_told_than_the_format_takes_and_each_is_near() {
        let mut classes = std::collections::BTreeSet::new();
        for n in 0..200_000 {
            let value = f64::from(n) / 100.0;
            let class = class(value);
            classes.insert(class);
            if (0.001..700.0).contains(&value) {
                let off = (middle(class) - value).abs() / value;
                assert!(off <= 0.08, "{value} is told as {}", middle(class));
            }
        }
        assert!(classes.len() <= 100, "{}", classes.len());
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            assert!((FIRST_CLASS..=LAST_CLASS).contains(&class(odd)), "{odd}");
        }
    }
}
