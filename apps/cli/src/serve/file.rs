//! The configuration of `triad serve`: one file, checked as a whole, of which a variable of the environment
//! takes the place of any setting.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::output::Usage;
use crate::user_files;

/// What `triad serve` runs with. Paths are relative to this file's directory. A time is a text such as
/// `30s` or `7days`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The workflows: a directory, of which every file *.yaml, *.yml and *.json is one, or a list of
    /// files. Changed files are published when they are sound. TRIAD_WORKFLOWS names a directory.
    #[serde(default)]
    pub workflows: Workflows,
    /// The data directory; --data and TRIAD_DATA take its place.
    #[serde(default)]
    pub data: Option<PathBuf>,
    /// Where the HTTP interface listens, address and port; without it on 127.0.0.1:7070. Variable:
    /// TRIAD_HTTP.
    #[serde(default)]
    http: Option<String>,
    /// The file of tokens (`triad token`); without it the HTTP interface listens on loopback addresses
    /// alone. Variable: TRIAD_TOKENS.
    #[serde(default)]
    tokens: Option<PathBuf>,
    /// Certificate and key of the HTTP interface. Variables: TRIAD_TLS_CERTIFICATE, TRIAD_TLS_KEY.
    #[serde(default)]
    tls: Option<Tls>,
    /// The operators' API and pages beside the HTTP interface: true, false, or read-only; without it true.
    /// Without tokens every program on this machine may act. Variable: TRIAD_CONSOLE.
    #[serde(default)]
    console: Option<Mode>,
    /// The header in which an authenticating proxy on this machine says who asks for the operators' pages;
    /// for a loopback address alone. Variable: TRIAD_CONSOLE_USER_HEADER.
    #[serde(default)]
    console_user_header: Option<String>,
    /// Fields of payloads that the operators' API and pages do not show, by their names. Variable:
    /// TRIAD_CONSOLE_HIDDEN.
    #[serde(default)]
    console_hidden: Vec<String>,
    /// Where browsers reach the operators' pages, such as https://triad.example/console/; with it each alert
    /// is a line of the log, too, with the address of the page that shows it. Variable: TRIAD_CONSOLE_URL.
    #[serde(default)]
    console_url: Option<String>,
    /// Where an order's trace is looked at, such as https://jaeger.example/trace/{trace}; with it the page
    /// of an order links there. Variable: TRIAD_CONSOLE_TRACE_URL.
    #[serde(default)]
    console_trace_url: Option<String>,
    /// Whether models may act at /mcp of the HTTP interface, where operators may; without it models are
    /// read-only there. Variable: TRIAD_MCP_ACTS.
    #[serde(default)]
    mcp_acts: Option<bool>,
    /// Where metrics are offered to Prometheus, address and port; without it nowhere. Variable:
    /// TRIAD_METRICS.
    #[serde(default)]
    metrics: Option<String>,
    /// Where the Kafka port listens: an address of loopback, since it has no TLS; without it on
    /// 127.0.0.1:9092. Variable: TRIAD_KAFKA.
    #[serde(default)]
    kafka: Option<String>,
    /// Where the Kafka port also listens with TLS, the address by which clients reach this machine, and port. It needs
    /// `tls`, whose files are read at the start, and `tokens`; without it nowhere. Variable: TRIAD_KAFKA_TLS.
    #[serde(default)]
    kafka_tls: Option<String>,
    /// Partitions of new topics, 1 to 100; without it 4. Variable: TRIAD_PARTITIONS.
    #[serde(default)]
    partitions: Option<u32>,
    /// The remote services by agent, as in TRIAD_AGENTS.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, triad_bootstrap::AgentConfig>")]
    agents: BTreeMap<String, Map<String, Value>>,
    /// Topics beside `status` that orders may name for their statuses, of the form `reply.<app>`.
    /// Variable: TRIAD_REPLY_TOPICS.
    #[serde(default)]
    reply_topics: Vec<String>,
    /// How long finished orders are kept; without it 30 days. Variable: TRIAD_RETENTION.
    #[serde(default)]
    retention: Option<String>,
    /// How long the details of finished orders are kept; without it for ever. Variable:
    /// TRIAD_DETAILS_RETENTION.
    #[serde(default)]
    details_retention: Option<String>,
    /// Most bytes of each partition of a topic; older records are deleted beyond it, but none that a
    /// handler has not done. Without it 64 MiB. Variable: TRIAD_LOG_BYTES.
    #[serde(default)]
    log_bytes: Option<u64>,
    /// How long submitted orders stay in their topics once a handler has done them; without it 1 day.
    /// Statuses, alerts and dead letters have no age. Variable: TRIAD_LOG_RETENTION.
    #[serde(default)]
    log_retention: Option<String>,
    /// Time between two sweeps of the Supervisor; without it 1 s. Variable: TRIAD_SWEEP_EVERY.
    #[serde(default)]
    sweep_every: Option<String>,
    /// How long an order may wait for the Scheduler until the Supervisor announces it again; without it
    /// 10 s. What waited in a process that was killed waits so long. Variable: TRIAD_ANNOUNCE_WITHIN.
    #[serde(default)]
    announce_within: Option<String>,
    /// How long a request may wait for its agent, beside the step's attempt timeout; without it 1 min.
    /// Variable: TRIAD_QUEUE_WITHIN.
    #[serde(default)]
    queue_within: Option<String>,
    /// Most requests that an agent has under way, 1 to 10,000. Variable: TRIAD_AGENT_CONCURRENCY.
    #[serde(default)]
    agent_concurrency: Option<u32>,
    /// Most orders in flight. Variable: TRIAD_MAX_IN_FLIGHT.
    #[serde(default)]
    max_in_flight: Option<u32>,
    /// Most orders in flight by workflow. Variable: TRIAD_MAX_IN_FLIGHT_PER_WORKFLOW.
    #[serde(default)]
    max_in_flight_per_workflow: BTreeMap<String, u32>,
    /// What becomes of orders beyond the caps: `slow` (they wait) or `reject`. Variable: TRIAD_ADMISSION.
    #[serde(default)]
    admission: Option<String>,
    /// How long an order may wait for room before it is rejected. Variable: TRIAD_BACKLOG_WAIT.
    #[serde(default)]
    backlog_wait: Option<String>,
    /// Copies of the data directory, made while orders go on; without it none.
    #[serde(default)]
    backup: Option<Backup>,
    /// Where the spans of orders' traces go, by OTLP over HTTP; without it nowhere.
    #[serde(default)]
    traces: Option<Traces>,
    /// For `triad dev` alone.
    #[serde(default)]
    #[expect(dead_code, reason = "one file may serve both")]
    orders: Option<PathBuf>,
    /// For `triad dev` alone.
    #[serde(default)]
    #[expect(dead_code, reason = "one file may serve both")]
    answers: Option<PathBuf>,
    /// For `triad dev` alone.
    #[serde(default)]
    #[expect(dead_code, reason = "one file may serve both")]
    services: Value,
}

/// Whether operators have an API and pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Mode {
    /// `true`: operators have an API and pages. `false`: they have neither.
    Is(bool),
    /// Operators have what this name says.
    Named(Named),
}

/// A mode that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Named {
    /// Operators are read-only: no act is done.
    ReadOnly,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Is(is) => is.fmt(f),
            Self::Named(Named::ReadOnly) => f.write_str("read-only"),
        }
    }
}

/// Where the workflows are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Workflows {
    /// In a directory.
    In(PathBuf),
    /// In these files.
    Files(Vec<PathBuf>),
}

impl Default for Workflows {
    fn default() -> Self {
        Self::Files(Vec::new())
    }
}

/// The files of TLS, in PEM.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Tls {
    /// The certificate, with those between it and its root.
    certificate: PathBuf,
    /// The certificate's private key, not encrypted.
    key: PathBuf,
}

/// Copies of the data directory, each as `triad backup` makes it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Backup {
    /// A directory for these copies alone, best on another disk; made if it is missing. Each copy is a directory in
    /// it, named by its time. Variable: TRIAD_BACKUP_TO.
    to: PathBuf,
    /// Time between two copies; without it 1 day. Variable: TRIAD_BACKUP_EVERY.
    #[serde(default)]
    every: Option<String>,
    /// How many copies are kept, 1 to 1,000; older ones are deleted. Without it 7. Variable: TRIAD_BACKUP_KEEP.
    #[serde(default)]
    keep: Option<u32>,
}

/// Where the spans of orders' traces go.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Traces {
    /// The URL of a collector, such as http://127.0.0.1:4318; spans are posted to /v1/traces below it.
    /// Variable: OTEL_EXPORTER_OTLP_ENDPOINT.
    endpoint: String,
    /// Headers of every post, such as an API key. Variable: OTEL_EXPORTER_OTLP_HEADERS.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The share of orders that are traced, from 0 to 1, where their submitters have not decided it;
    /// without it 0.01. Variable: OTEL_TRACES_SAMPLER_ARG.
    #[serde(default)]
    sample: Option<f64>,
}

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The rest may hold secrets.
        f.debug_struct("Traces")
            .field("sample", &self.sample)
            .finish_non_exhaustive()
    }
}

impl Traces {
    /// The headers as OpenTelemetry's variable has them.
    fn headers(&self) -> String {
        let headers = self.headers.iter();
        // A comma and what escapes it are escaped.
        let value = |value: &String| value.replace('%', "%25").replace(',', "%2C");
        let headers = headers.map(|(name, said)| format!("{name}={}", value(said)));
        headers.collect::<Vec<_>>().join(",")
    }
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Usage`] with the file, the line and what is wrong there.
    pub fn read(path: &Path) -> Result<Self, Usage> {
        let text = user_files::text(path)?;
        let shown = path.display();
        let mut file: Self =
            serde_saphyr::from_str(&text).map_err(|e| Usage(format!("{shown}: {e}")))?;
        let dir = path.parent().unwrap_or(Path::new(""));
        let place = |path: &mut PathBuf| *path = dir.join(&path);
        match &mut file.workflows {
            Workflows::In(folder) => place(folder),
            Workflows::Files(files) => files.iter_mut().for_each(place),
        }
        file.data.iter_mut().for_each(place);
        file.tokens.iter_mut().for_each(place);
        if let Some(tls) = &mut file.tls {
            place(&mut tls.certificate);
            place(&mut tls.key);
        }
        if let Some(backup) = &mut file.backup {
            place(&mut backup.to);
        }
        Ok(file)
    }

    /// The settings as variables of the environment.
    ///
    /// # Errors
    /// [`Usage`] for an agent whose service only `triad dev` starts.
    pub fn variables(&self) -> Result<BTreeMap<&'static str, String>, Usage> {
        for (name, agent) in &self.agents {
            if agent.contains_key("service") {
                return Err(Usage(format!(
                    "agents: {name}: `service` is started by triad dev alone; say the base_url of the service"
                )));
            }
        }
        let path = |path: &PathBuf| path.display().to_string();
        let count = |n: u32| n.to_string();
        let tls = self.tls.as_ref();
        let traces = self.traces.as_ref();
        let backup = self.backup.as_ref();
        let sample = traces.and_then(|t| t.sample);
        let all = [
            ("TRIAD_HTTP", self.http.clone()),
            ("TRIAD_TOKENS", self.tokens.as_ref().map(path)),
            ("TRIAD_TLS_CERTIFICATE", tls.map(|t| path(&t.certificate))),
            ("TRIAD_TLS_KEY", tls.map(|t| path(&t.key))),
            ("TRIAD_CONSOLE", self.console.map(|mode| mode.to_string())),
            (
                "TRIAD_CONSOLE_USER_HEADER",
                self.console_user_header.clone(),
            ),
            ("TRIAD_CONSOLE_HIDDEN", Some(self.console_hidden.join(","))),
            ("TRIAD_CONSOLE_URL", self.console_url.clone()),
            ("TRIAD_CONSOLE_TRACE_URL", self.console_trace_url.clone()),
            ("TRIAD_MCP_ACTS", self.mcp_acts.map(|acts| acts.to_string())),
            ("TRIAD_METRICS", self.metrics.clone()),
            ("TRIAD_KAFKA", self.kafka.clone()),
            ("TRIAD_KAFKA_TLS", self.kafka_tls.clone()),
            ("TRIAD_PARTITIONS", self.partitions.map(count)),
            ("TRIAD_AGENTS", json(&self.agents, self.agents.is_empty())),
            ("TRIAD_REPLY_TOPICS", Some(self.reply_topics.join(","))),
            ("TRIAD_RETENTION", self.retention.clone()),
            ("TRIAD_DETAILS_RETENTION", self.details_retention.clone()),
            ("TRIAD_LOG_BYTES", self.log_bytes.map(|n| n.to_string())),
            ("TRIAD_LOG_RETENTION", self.log_retention.clone()),
            ("TRIAD_SWEEP_EVERY", self.sweep_every.clone()),
            ("TRIAD_ANNOUNCE_WITHIN", self.announce_within.clone()),
            ("TRIAD_QUEUE_WITHIN", self.queue_within.clone()),
            ("TRIAD_AGENT_CONCURRENCY", self.agent_concurrency.map(count)),
            ("TRIAD_MAX_IN_FLIGHT", self.max_in_flight.map(count)),
            (
                "TRIAD_MAX_IN_FLIGHT_PER_WORKFLOW",
                json(
                    &self.max_in_flight_per_workflow,
                    self.max_in_flight_per_workflow.is_empty(),
                ),
            ),
            ("TRIAD_ADMISSION", self.admission.clone()),
            ("TRIAD_BACKLOG_WAIT", self.backlog_wait.clone()),
            ("TRIAD_BACKUP_TO", backup.map(|b| path(&b.to))),
            ("TRIAD_BACKUP_EVERY", backup.and_then(|b| b.every.clone())),
            ("TRIAD_BACKUP_KEEP", backup.and_then(|b| b.keep).map(count)),
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                traces.map(|t| t.endpoint.clone()),
            ),
            ("OTEL_EXPORTER_OTLP_HEADERS", traces.map(Traces::headers)),
            ("OTEL_TRACES_SAMPLER_ARG", sample.map(|n| n.to_string())),
        ];
        let said = all.into_iter().filter_map(|(name, value)| {
            let value = value.filter(|value| !value.is_empty())?;
            Some((name, value))
        });
        Ok(said.collect())
    }
}

/// A map as JSON text; nothing if it is empty.
fn json(map: &impl serde::Serialize, is_empty: bool) -> Option<String> {
    match is_empty {
        true => None,
        false => serde_json::to_string(map).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BTreeMap<&'static str, String>, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("triad.yaml");
        std::fs::write(&path, text).expect("a file");
        let file = File::read(&path).map_err(|e| e.to_string())?;
        let variables = file.variables().map_err(|e| e.to_string())?;
        let dir = dir.path().display().to_string();
        let named = |value: String| value.replace(&dir, "DIR");
        Ok(variables.into_iter().map(|(k, v)| (k, named(v))).collect())
    }

    #[test]
    fn every_setting_has_its_variable() {
        let text = r#"
workflows: flows
data: state
http: 0.0.0.0:8443
tokens: tokens.json
tls: {certificate: tls/cert.pem, key: tls/key.pem}
console: read-only
console_user_header: x-forwarded-user
console_hidden: [card, iban]
console_url: https://triad.example/console/
console_trace_url: https://jaeger.example/trace/{trace}
mcp_acts: true
metrics: 127.0.0.1:9464
kafka: 127.0.0.1:9093
kafka_tls: 10.0.0.5:9094
partitions: 8
agents: {bank: {base_url: "http://bank.example"}}
reply_topics: [reply.shop, reply.bank]
retention: 7days
details_retention: 1day
log_bytes: 1000000
log_retention: 2h
sweep_every: 2s
announce_within: 8s
queue_within: 50s
agent_concurrency: 9
max_in_flight: 100
max_in_flight_per_workflow: {line: 2}
admission: reject
backlog_wait: 6s
backup: {to: copies, every: 6h, keep: 28}
traces: {endpoint: "http://127.0.0.1:4318", headers: {x-key: "a,b%"}, sample: 0.5}
"#;
        let all = read(text).expect("it is sound");
        let expected = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%2Cb%25"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
            ("TRIAD_ADMISSION", "reject"),
            (
                "TRIAD_AGENTS",
                r#"{"bank":{"base_url":"http://bank.example"}}"#,
            ),
            ("TRIAD_AGENT_CONCURRENCY", "9"),
            ("TRIAD_ANNOUNCE_WITHIN", "8s"),
            ("TRIAD_BACKLOG_WAIT", "6s"),
            ("TRIAD_BACKUP_EVERY", "6h"),
            ("TRIAD_BACKUP_KEEP", "28"),
            ("TRIAD_BACKUP_TO", "DIR/copies"),
            ("TRIAD_CONSOLE", "read-only"),
            ("TRIAD_CONSOLE_HIDDEN", "card,iban"),
            (
                "TRIAD_CONSOLE_TRACE_URL",
                "https://jaeger.example/trace/{trace}",
            ),
            ("TRIAD_CONSOLE_URL", "https://triad.example/console/"),
            ("TRIAD_CONSOLE_USER_HEADER", "x-forwarded-user"),
            ("TRIAD_DETAILS_RETENTION", "1day"),
            ("TRIAD_HTTP", "0.0.0.0:8443"),
            ("TRIAD_KAFKA", "127.0.0.1:9093"),
            ("TRIAD_KAFKA_TLS", "10.0.0.5:9094"),
            ("TRIAD_LOG_BYTES", "1000000"),
            ("TRIAD_LOG_RETENTION", "2h"),
            ("TRIAD_MAX_IN_FLIGHT", "100"),
            ("TRIAD_MAX_IN_FLIGHT_PER_WORKFLOW", r#"{"line":2}"#),
            ("TRIAD_MCP_ACTS", "true"),
            ("TRIAD_METRICS", "127.0.0.1:9464"),
            ("TRIAD_PARTITIONS", "8"),
            ("TRIAD_QUEUE_WITHIN", "50s"),
            ("TRIAD_REPLY_TOPICS", "reply.shop,reply.bank"),
            ("TRIAD_RETENTION", "7days"),
            ("TRIAD_SWEEP_EVERY", "2s"),
            ("TRIAD_TLS_CERTIFICATE", "DIR/tls/cert.pem"),
            ("TRIAD_TLS_KEY", "DIR/tls/key.pem"),
            ("TRIAD_TOKENS", "DIR/tokens.json"),
        ];
        let all: Vec<(&str, &str)> = all.iter().map(|(k, v)| (*k, &**v)).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn a_wrong_file_is_told_with_its_place() {
        let said = read("workflows: flows\nport: 1\n").expect_err("there is no such setting");
        assert!(
            said.contains("triad.yaml") && said.contains("port"),
            "{said}"
        );
        let said = read("agents: {bank: {service: bank}}").expect_err("nobody starts it");
        assert!(said.contains("base_url"), "{said}");
        assert_eq!(read("{}").map(|all| all.len()), Ok(0));
        let off = read("console: false").expect("it is sound");
        assert_eq!(off["TRIAD_CONSOLE"], "false");
        assert!(read("console: maybe").is_err());
    }

    /// The file of a project of `triad dev` is taken as it is.
    #[test]
    fn the_settings_of_dev_are_passed_over() {
        let text = "workflows: [a.yaml]\norders: o.jsonl\nservices: {bank: {command: x}}\n";
        assert_eq!(read(text).map(|all| all.len()), Ok(0));
    }
}
