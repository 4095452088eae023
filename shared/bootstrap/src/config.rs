//! The configuration: one struct, read once; one message has every problem.

use std::collections::BTreeMap;

use triad_core::topics;
use triad_kafka::KafkaConfig;
use triad_operator::address::ConsoleUrl;
use triad_runtime::settings::{AdmissionSettings, Settings};
use triad_workflow::{AgentName, Millis, WorkflowName};

use crate::agents::{self, AgentConfig};
use crate::auth::{AuthConfig, Way};
use crate::reader::{ConfigError, Reader};
use crate::spans::Spans;
use crate::traces::TraceConfig;

/// All settings of an installation. The variable that each is read from is in brackets.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address of Kafka (`TRIAD_BROKERS`, required), what the names of topics, consumer groups and tables begin with
    /// (`TRIAD_PREFIX`; absent: empty), and further settings of librdkafka (`TRIAD_KAFKA_SETTINGS`, a
    /// JSON object of texts; absent: none). Its login is the default until the program sets it from
    /// [`auth`](Self::auth).
    pub kafka: KafkaConfig,
    /// How to log in to Kafka (`TRIAD_KAFKA_AUTH`, `TRIAD_KAFKA_SECRET`, `TRIAD_KAFKA_CA_SECRET`).
    pub auth: AuthConfig,
    /// The `http` or `https` URL of DynamoDB (`TRIAD_DYNAMODB_ENDPOINT`). `None`: that of the AWS account.
    pub dynamodb: Option<String>,
    /// How long finished records are kept, in milliseconds (`TRIAD_RETENTION`; absent: 30 days).
    pub retention: Millis,
    /// How long the details of finished orders are kept, in milliseconds (`TRIAD_DETAILS_RETENTION`). `None`,
    /// the default: for ever.
    pub details_retention: Option<Millis>,
    /// HTTP agents by name (`TRIAD_AGENTS`, a JSON object; absent: none).
    pub agents: BTreeMap<AgentName, AgentConfig>,
    /// Bounds and time spans of the handlers (`TRIAD_SKEW`, `TRIAD_QUEUE_WITHIN`, `TRIAD_ANNOUNCE_WITHIN`,
    /// `TRIAD_REPLY_TOPICS`, `TRIAD_AGENT_CONCURRENCY` from 1 to 10,000, and for admission `TRIAD_MAX_IN_FLIGHT`,
    /// `TRIAD_MAX_IN_FLIGHT_PER_WORKFLOW`, `TRIAD_ADMISSION`, `TRIAD_BACKLOG_WAIT`), the name of this process
    /// ([`instance_name`](crate::instance_name)) and the limits of the agents. Settings without a variable have their
    /// defaults.
    pub settings: Settings,
    /// ARN of the SNS topic that alerts are forwarded to (`TRIAD_ALERTS_SNS_TOPIC`). `None`: they
    /// are not forwarded.
    pub alerts_topic: Option<String>,
    /// Address of the operators' pages, for links in alerts (`TRIAD_CONSOLE_URL`). `None`: alerts have no links.
    pub console_url: Option<ConsoleUrl>,
    /// Whether the event source mapping takes partial batch responses (`TRIAD_BATCH_RESPONSES`:
    /// `partial`, the default, or `whole`).
    pub partial_batch_responses: bool,
    /// Where the spans of traces are sent (OpenTelemetry's variables, such as `OTEL_EXPORTER_OTLP_ENDPOINT`).
    /// `None`: nowhere. Handlers send spans only after [`export_traces`](crate::export_traces) was called.
    pub traces: Option<TraceConfig>,
}

impl Config {
    /// Reads the configuration. `lookup` returns the value of the variable with this name and `None` if it is
    /// not set, as [`environment`](crate::environment) does.
    ///
    /// # Errors
    /// [`ConfigError`] with every setting that is missing, cannot be read or is out of its bounds.
    ///
    /// # Example
    /// ```
    /// use triad_bootstrap::Config;
    /// let lookup = |name: &str| (name == "TRIAD_BROKERS").then(|| "127.0.0.1:9092".to_owned());
    /// let config = Config::read(&lookup);
    /// assert_eq!(config.unwrap().kafka.brokers, "127.0.0.1:9092");
    /// assert!(Config::read(&|_| None).is_err());
    /// ```
    pub fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut r = Reader::new(lookup);
        let brokers = r.text("TRIAD_BROKERS").unwrap_or_else(|| {
            r.problems
                .push("TRIAD_BROKERS: is missing; give host:port[,host:port…]".into());
            String::new()
        });
        let extra: BTreeMap<String, String> =
            r.parsed("TRIAD_KAFKA_SETTINGS", BTreeMap::new(), |t| {
                // serde's text may quote a value, which may be a password.
                serde_json::from_str(t).map_err(|e| {
                    let (line, column) = (e.line(), e.column());
                    format!("is not a JSON object of texts (line {line}, column {column})")
                })
            });
        let dynamodb = r.parsed("TRIAD_DYNAMODB_ENDPOINT", None, |t| {
            if t.starts_with("http://") || t.starts_with("https://") {
                Ok(Some(t.to_owned()))
            } else {
                // Not quoted: a URL may have a password in it.
                Err("is not an http or https URL".to_owned())
            }
        });
        let agents = r.listed("TRIAD_AGENTS", |text| agents::parse(text).map_err(|e| e.0));
        let defaults = Settings::default();
        let spans = Spans::of(&mut r);
        let reply_topics = r.parsed("TRIAD_REPLY_TOPICS", Default::default(), |t| {
            t.split(',')
                .map(str::trim)
                .filter(|t| !t.is_empty())
                .map(|t| match topics::is_reply_topic(t) {
                    true => Ok(t.to_owned()),
                    false => Err(format!("{t:?} is not of the form reply.<app>")),
                })
                .collect()
        });
        let whole = |t: &str| match t {
            "partial" => Ok(true),
            "whole" => Ok(false),
            other => Err(format!("{other:?} is neither partial nor whole")),
        };
        let count = |t: &str| match t.parse::<usize>() {
            Ok(n) if (1..=10_000).contains(&n) => Ok(n),
            _ => Err(format!("{t:?} is not a number from 1 to 10000")),
        };
        let admission = admission(&mut r);
        let auth = auth(&mut r);
        let prefix = r.parsed("TRIAD_PREFIX", String::new(), topics::prefix);
        let alerts_topic = r.parsed("TRIAD_ALERTS_SNS_TOPIC", None, |t| {
            match t.starts_with("arn:") && t.split(':').count() == 6 {
                true => Ok(Some(t.to_owned())),
                false => Err(format!("{t:?} is not the ARN of a topic")),
            }
        });
        let console_url = r.parsed("TRIAD_CONSOLE_URL", None, |t| {
            t.parse::<ConsoleUrl>().map(Some)
        });
        let config = Self {
            kafka: KafkaConfig {
                prefix,
                extra: extra.into_iter().collect(),
                ..KafkaConfig::new(brokers)
            },
            auth,
            dynamodb,
            retention: spans.retention,
            details_retention: spans.details_retention,
            settings: Settings {
                timing: spans.timing,
                instance: crate::instance::name(lookup),
                reply_topics,
                admission,
                downstreams: agents
                    .iter()
                    .map(|(n, a)| (n.clone(), a.limits()))
                    .collect(),
                agent_concurrency: r.parsed(
                    "TRIAD_AGENT_CONCURRENCY",
                    defaults.agent_concurrency,
                    count,
                ),
                ..defaults
            },
            agents,
            alerts_topic,
            console_url,
            partial_batch_responses: r.parsed("TRIAD_BATCH_RESPONSES", true, whole),
            traces: TraceConfig::of(&mut r),
        };
        r.end(config)
    }
}

/// Reads the login to Kafka.
fn auth(r: &mut Reader<'_>) -> AuthConfig {
    let config = AuthConfig {
        way: r.parsed("TRIAD_KAFKA_AUTH", Way::None, str::parse),
        secret: r.text("TRIAD_KAFKA_SECRET"),
        ca_secret: r.text("TRIAD_KAFKA_CA_SECRET"),
    };
    r.problems.extend(config.problems());
    config
}

/// Reads the caps on orders in flight, and the action for orders beyond them.
fn admission(r: &mut Reader<'_>) -> AdmissionSettings {
    let in_flight = r.parsed("TRIAD_MAX_IN_FLIGHT", None, |t| match t.parse::<u32>() {
        Ok(n) if n > 0 => Ok(Some(n)),
        _ => Err(format!("{t:?} is not a number from 1")),
    });
    let per_workflow = r.parsed("TRIAD_MAX_IN_FLIGHT_PER_WORKFLOW", BTreeMap::new(), |t| {
        let caps: BTreeMap<WorkflowName, u32> = serde_json::from_str(t).map_err(|e| {
            format!("is not a JSON object such as {{\"order-fulfilment\": 2000}}: {e}")
        })?;
        match caps.iter().find(|(_, cap)| **cap == 0) {
            Some((name, _)) => Err(format!("{name} has a cap of 0, which lets no order in")),
            None => Ok(caps),
        }
    });
    let rejects = r.parsed("TRIAD_ADMISSION", false, |t| match t {
        "slow" => Ok(false),
        "reject" => Ok(true),
        other => Err(format!("{other:?} is neither slow nor reject")),
    });
    let wait = r.span("TRIAD_BACKLOG_WAIT", Millis(0));
    AdmissionSettings {
        in_flight,
        per_workflow,
        reject_after: rejects.then_some(wait),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each variable with a value that is not the default, and the setting that results from it.
    #[test]
    fn every_setting_arrives_where_it_is_used() {
        let lookup = |name: &str| {
            let value = match name {
                "TRIAD_BROKERS" => "b:9092",
                "TRIAD_KAFKA_SETTINGS" => r#"{"client.id": "x"}"#,
                "TRIAD_DYNAMODB_ENDPOINT" => "http://localhost:8000",
                "TRIAD_PREFIX" => "shop-",
                "TRIAD_SKEW" => "1s",
                "TRIAD_QUEUE_WITHIN" => "7s",
                "TRIAD_ANNOUNCE_WITHIN" => "3s",
                "TRIAD_RETENTION" => "90days",
                "TRIAD_DETAILS_RETENTION" => "9days",
                "TRIAD_REPLY_TOPICS" => "reply.shop, reply.bank",
                "TRIAD_AGENT_CONCURRENCY" => "5",
                "TRIAD_AGENTS" => {
                    r#"{"bank": {"base_url": "http://h", "call_timeout": "4s",
                        "headers": {"x-key": "k"}, "concurrency": 3, "rate_per_second": 8,
                        "breaker": {"open": "9s"}}}"#
                }
                "TRIAD_MAX_IN_FLIGHT" => "100",
                "TRIAD_MAX_IN_FLIGHT_PER_WORKFLOW" => r#"{"line": 2}"#,
                "TRIAD_ADMISSION" => "reject",
                "TRIAD_BACKLOG_WAIT" => "6s",
                "TRIAD_ALERTS_SNS_TOPIC" => "arn:aws:sns:eu-west-1:111122223333:alerts",
                "TRIAD_CONSOLE_URL" => "https://triad.example/console/",
                "TRIAD_BATCH_RESPONSES" => "whole",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let config = Config::read(&lookup).expect("it is sound");
        assert_eq!(config.kafka.brokers, "b:9092");
        assert_eq!(
            config.kafka.extra,
            [("client.id".to_owned(), "x".to_owned())]
        );
        assert_eq!(config.dynamodb.as_deref(), Some("http://localhost:8000"));
        assert_eq!(config.kafka.prefix, "shop-");
        let day = 24 * 3_600_000;
        assert_eq!(config.retention, Millis(90 * day));
        assert_eq!(config.details_retention, Some(Millis(9 * day)));
        assert_eq!(
            config.alerts_topic.as_deref(),
            Some("arn:aws:sns:eu-west-1:111122223333:alerts")
        );
        assert_eq!(config.console_url, "https://triad.example".parse().ok());
        assert!(!config.partial_batch_responses);
        let settings = &config.settings;
        let timing = settings.timing;
        assert_eq!(
            [timing.skew, timing.queue_within, timing.announce_within],
            [Millis(1_000), Millis(7_000), Millis(3_000)]
        );
        let topics: Vec<&str> = settings.reply_topics.iter().map(String::as_str).collect();
        assert_eq!(topics, ["reply.bank", "reply.shop"]);
        assert_eq!(settings.agent_concurrency, 5);
        assert_eq!(settings.admission.in_flight, Some(100));
        let line = WorkflowName::new("line").expect("a name");
        assert_eq!(settings.admission.per_workflow, [(line, 2)].into());
        assert_eq!(settings.admission.reject_after, Some(Millis(6_000)));
        let bank = AgentName::new("bank").expect("a name");
        let limits = &settings.downstreams[&bank];
        assert_eq!(
            (limits.concurrency, limits.rate_per_second),
            (Some(3), Some(8))
        );
        assert_eq!(limits.breaker.open, Millis(9_000));
        let agent = &config.agents[&bank];
        assert_eq!(agent.call_timeout, Some(Millis(4_000)));
        assert_eq!(agent.headers["x-key"], "k");
    }

    #[test]
    fn every_problem_is_in_one_message() {
        let lookup = |name: &str| match name {
            "TRIAD_DYNAMODB_ENDPOINT" => Some("localhost:8000".to_owned()),
            "TRIAD_SKEW" => Some("soon".to_owned()),
            "TRIAD_AGENTS" => Some("{".to_owned()),
            "TRIAD_REPLY_TOPICS" => Some("reply.shop, status".to_owned()),
            "TRIAD_MAX_IN_FLIGHT" => Some("0".to_owned()),
            "TRIAD_MAX_IN_FLIGHT_PER_WORKFLOW" => Some(r#"{"line": 0}"#.to_owned()),
            "TRIAD_KAFKA_AUTH" => Some("scram".to_owned()),
            "TRIAD_CONSOLE_URL" => Some("triad.example".to_owned()),
            _ => None,
        };
        let text = Config::read(&lookup).unwrap_err().to_string();
        for name in [
            "TRIAD_BROKERS",
            "TRIAD_DYNAMODB_ENDPOINT",
            "TRIAD_SKEW",
            "TRIAD_AGENTS",
            "TRIAD_REPLY_TOPICS",
            "TRIAD_KAFKA_SECRET",
            "TRIAD_CONSOLE_URL",
            "TRIAD_MAX_IN_FLIGHT: ",
            "TRIAD_MAX_IN_FLIGHT_PER_WORKFLOW",
            "which lets no order in",
        ] {
            assert!(text.contains(name), "{name} in {text}");
        }
    }
}
