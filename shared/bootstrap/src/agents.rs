//! The HTTP agents of the configuration.
//!
//! Headers hold API keys, and so may a URL. Architecture invariant: no value of either is in an error or in the
//! output of `Debug`. serde quotes invalid values, so these settings are checked by hand before serde parses them.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};
use triad_core::breaker::BreakerSettings;
use triad_core::retry_budget::RetryBudgetSettings;
use triad_runtime::settings::DownstreamSettings;
use triad_workflow::service::AnswerMeaning;
use triad_workflow::{AgentName, Millis};

/// One HTTP agent, an entry of the JSON object in `TRIAD_AGENTS`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// Absolute `http` or `https` URL of the service. An action is one path segment below it. It
    /// may hold a user and a password, which are secrets. Exactly one of `base_url`, `lambda`, `sqs` and `sns` is
    /// required.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The Lambda function to call in place of an HTTP service: its name or ARN, with an alias if needed.
    #[serde(default)]
    pub lambda: Option<String>,
    /// The SQS queue that gets a message for each call: its URL.
    #[serde(default)]
    pub sqs: Option<String>,
    /// The SNS topic that gets a message for each call: its ARN.
    #[serde(default)]
    pub sns: Option<String>,
    /// Longest single call, at most 366 days; the step's remaining time may end it sooner. Absent: 10 s.
    #[serde(default)]
    pub call_timeout: Option<Millis>,
    /// Headers of every call, by name; if absent, none. Their values are secrets: they are in no error and no
    /// log.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How the agent shows the service who it is, with secrets by reference; if absent, only by `headers`.
    #[cfg(feature = "http")]
    #[serde(default)]
    pub auth: Option<triad_http::Auth>,
    /// The certificates that the agent presents and trusts; if absent, it presents none and trusts those of the system.
    #[cfg(feature = "http")]
    #[serde(default)]
    pub tls: Option<triad_http::Tls>,
    /// Most calls that one process makes at once, from 1 to 65,535. Absent: no limit of its own.
    #[serde(default)]
    pub concurrency: Option<std::num::NonZeroU16>,
    /// Most calls a second, of all processes together, from 1 to 65,535. Absent: no limit.
    #[serde(default)]
    pub rate_per_second: Option<std::num::NonZeroU16>,
    /// When its circuit breaker opens and closes.
    #[serde(default)]
    pub breaker: BreakerSettings,
    /// Meanings of statuses that this service uses in its own way, such as `refused`, `may-pass` or `in-progress`, by
    /// the status as a text of three digits, from 300 to 599. The description of the service comes first. If absent,
    /// none.
    #[serde(default)]
    pub statuses: BTreeMap<u16, AnswerMeaning>,
    /// The URL at which the service reaches Triad's HTTP API for applications, such as `https://orders.example.com`: calls
    /// for work that may be finished later then name the URL to call back at. Absent: they name only the token.
    #[serde(default)]
    pub callback_url: Option<String>,
    /// How many calls may repeat earlier ones, counted in each process separately.
    #[serde(default)]
    pub retry_budget: RetryBudgetSettings,
}

impl AgentConfig {
    /// An agent of the service at this URL, without headers and limits, and with the default breaker and
    /// retry budget. The URL is checked only when a client is made.
    #[must_use]
    pub fn at(base_url: String) -> Self {
        Self {
            base_url: Some(base_url),
            lambda: None,
            sqs: None,
            sns: None,
            call_timeout: None,
            headers: BTreeMap::new(),
            #[cfg(feature = "http")]
            auth: None,
            #[cfg(feature = "http")]
            tls: None,
            concurrency: None,
            rate_per_second: None,
            breaker: BreakerSettings::default(),
            statuses: BTreeMap::new(),
            callback_url: None,
            retry_budget: RetryBudgetSettings::default(),
        }
    }

    /// Makes the agent call the service at this URL in place of what the settings name.
    pub fn move_to(&mut self, base_url: String) {
        self.base_url = Some(base_url);
        self.lambda = None;
        self.sqs = None;
        self.sns = None;
    }

    /// Whether the agent calls a function, a queue or a topic of AWS.
    #[must_use]
    pub fn is_of_aws(&self) -> bool {
        self.base_url.is_none()
    }

    /// The address for people: the URL without user, password, query and fragment, which may be secrets, or the
    /// function, queue or topic. `(not a URL)` if the text has no `://`.
    #[must_use]
    pub fn address(&self) -> String {
        let of_aws = [
            ("lambda", &self.lambda),
            ("sqs", &self.sqs),
            ("sns", &self.sns),
        ];
        for (kind, name) in of_aws {
            if let Some(name) = name {
                return format!("{kind} {name}");
            }
        }
        let url = self.base_url.as_deref().unwrap_or_default();
        let url = url.split(['?', '#']).next().unwrap_or_default();
        let Some((scheme, rest)) = url.split_once("://") else {
            return "(not a URL)".to_owned();
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = host.rsplit('@').next().unwrap_or_default();
        format!("{scheme}://{host}{path}")
    }

    /// The bounds of this agent's calls, and when its circuit breaker opens and closes.
    #[must_use]
    pub fn limits(&self) -> DownstreamSettings {
        DownstreamSettings {
            breaker: self.breaker,
            retry_budget: self.retry_budget,
            concurrency: self.concurrency.map(|n| usize::from(n.get())),
            rate_per_second: self.rate_per_second.map(|n| u32::from(n.get())),
        }
    }
}

impl fmt::Debug for AgentConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL and headers' values: configurations end up in logs.
        f.debug_struct("AgentConfig")
            .field("call_timeout", &self.call_timeout)
            .field("headers", &self.headers.keys())
            .field("concurrency", &self.concurrency)
            .field("rate_per_second", &self.rate_per_second)
            .field("breaker", &self.breaker)
            .field("statuses", &self.statuses)
            .field("retry_budget", &self.retry_budget)
            .finish_non_exhaustive()
    }
}

/// The error of agents whose settings cannot be used: one line for each problem, with its agent and its setting. No
/// line has a value that may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct AgentErrors(pub Vec<String>);

/// Parses agents in the form of `TRIAD_AGENTS`: a JSON object of agents by name.
///
/// # Errors
/// [`AgentErrors`] with every problem, or with one if the text is not a JSON object.
pub fn parse(text: &str) -> Result<BTreeMap<AgentName, AgentConfig>, AgentErrors> {
    let form = r#"is not a JSON object such as {"payment": {"base_url": "https://…"}}"#;
    let agents = match serde_json::from_str(text) {
        Ok(Value::Object(agents)) => agents,
        Ok(_) => return Err(AgentErrors(vec![form.to_owned()])),
        Err(e) => {
            let (line, column) = (e.line(), e.column());
            let why = format!("{form} (line {line}, column {column})");
            return Err(AgentErrors(vec![why]));
        }
    };
    read(agents)
}

/// Parses agents from a JSON object that has the settings of each agent under its name.
///
/// # Errors
/// [`AgentErrors`] with every problem.
pub fn read(agents: Map<String, Value>) -> Result<BTreeMap<AgentName, AgentConfig>, AgentErrors> {
    let mut read = BTreeMap::new();
    let mut problems = Vec::new();
    for (name, settings) in agents {
        match parse_agent(&name, settings) {
            Ok((name, agent)) => {
                read.insert(name, agent);
            }
            Err(found) => {
                problems.extend(found.into_iter().map(|why| format!("agent {name}: {why}")));
            }
        }
    }
    if problems.is_empty() {
        Ok(read)
    } else {
        Err(AgentErrors(problems))
    }
}

fn parse_agent(name: &str, settings: Value) -> Result<(AgentName, AgentConfig), Vec<String>> {
    let name = AgentName::new(name).map_err(|e| vec![e.to_string()])?;
    let Value::Object(settings) = settings else {
        return Err(vec!["is not an object of settings".to_owned()]);
    };
    let mut problems: Vec<String> = settings
        .iter()
        .filter_map(|(setting, value)| Some(format!("{setting}: {}", problem(setting, value)?)))
        .collect();
    let is_there = |setting: &&str| settings.contains_key(*setting);
    match DESTINATIONS.iter().filter(|s| is_there(s)).count() {
        0 => problems
            .push("base_url: is missing: give it, or lambda, sqs or sns in its place".to_owned()),
        1 => {}
        _ => problems.push("base_url, lambda, sqs, sns: give exactly one of them".to_owned()),
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let agent = AgentConfig::deserialize(Value::Object(settings));
    // Each setting was checked before.
    let agent = agent.map_err(|_| vec!["has settings that cannot be used together".to_owned()])?;
    Ok((name, agent))
}

/// The settings that name what the agent calls.
const DESTINATIONS: [&str; 4] = ["base_url", "lambda", "sqs", "sns"];

/// The problem of one setting, if any.
fn problem(setting: &str, value: &Value) -> Option<String> {
    match (setting, value) {
        (name, Value::String(_)) if DESTINATIONS.contains(&name) => None,
        (name, _) if DESTINATIONS.contains(&name) => Some("is not a text".to_owned()),
        ("headers", Value::Object(headers)) => {
            let (name, _) = headers.iter().find(|(_, value)| !value.is_string())?;
            Some(format!("the value of {name:?} is not a text"))
        }
        ("headers", _) => Some("is not an object of texts".to_owned()),
        // serde's message would quote the value, which may be a secret that was written in place of a reference.
        #[cfg(feature = "http")]
        ("auth", value) => triad_http::Auth::deserialize(value).err().map(|_| {
            "is not one of bearer, basic, header, oauth2 and sigv4; write each secret as { env: NAME }, { file: PATH } or { secret: ARN, field: NAME }"
                .to_owned()
        }),
        #[cfg(feature = "http")]
        ("tls", value) => triad_http::Tls::deserialize(value).err().map(|_| {
            "is not certificate, key and ca; write each as { env: NAME }, { file: PATH } or { secret: ARN, field: NAME }"
                .to_owned()
        }),
        _ => {
            let alone = Map::from_iter([
                ("base_url".to_owned(), Value::String(String::new())),
                (setting.to_owned(), value.clone()),
            ]);
            match AgentConfig::deserialize(Value::Object(alone)) {
                Ok(agent) => agent.breaker.check().err().map(|e| e.to_string()),
                Err(e) => Some(e.to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_agent_and_setting_and_quotes_no_secret() {
        for (text, named) in [
            (
                r#"{"payment": {"base_url": "https://u:hidden@h", "headers": {"x-key": ["hidden"]}}}"#,
                "agent payment: headers: the value of \"x-key\"",
            ),
            (
                r#"{"payment": {"base_url": "https://h", "headers": {"x-key": 4711}}}"#,
                "agent payment: headers: the value of \"x-key\"",
            ),
            (
                r#"{"payment": {"base_url": "https://h", "headers": "hidden"}}"#,
                "agent payment: headers: ",
            ),
            (
                r#"{"payment": {"headers": {"x-key": "hidden"}}}"#,
                "agent payment: base_url: is missing",
            ),
            (
                r#"{"payment": {"base_url": ["hidden"]}}"#,
                "agent payment: base_url: ",
            ),
            (
                r#"{"payment": {"base_url": "https://u:hidden@h", "concurrency": "many"}}"#,
                "agent payment: concurrency: ",
            ),
            (
                r#"{"payment": {"base_url": "https://h", "breaker": {"failure_percent": 430000000}}}"#,
                "agent payment: breaker: failure_percent is not from 1 to 100",
            ),
            (
                r#"{"payment": {"base_url": "https://h", "rate": 4}, "x": {}}"#,
                "agent payment: rate: unknown",
            ),
            #[cfg(feature = "http")]
            (
                r#"{"payment": {"base_url": "https://h", "auth": {"bearer": "hidden"}}}"#,
                "agent payment: auth: is not one of",
            ),
            #[cfg(feature = "http")]
            (
                r#"{"payment": {"base_url": "https://h", "auth": {"bearer": {"secret": "s", "filed": "hidden"}}}}"#,
                "agent payment: auth: is not one of",
            ),
            #[cfg(feature = "http")]
            (
                r#"{"payment": {"base_url": "https://h", "tls": {"ca": "hidden"}}}"#,
                "agent payment: tls: is not certificate",
            ),
            (
                r#"{"payment": {"base_url": "https://u:hidden@h", "sqs": "https://h/1/q"}}"#,
                "agent payment: base_url, lambda, sqs, sns: give exactly one",
            ),
            (
                r#"{"payment": {"lambda": ["hidden"]}}"#,
                "agent payment: lambda: is not a text",
            ),
            (r#"{"payment": "hidden"}"#, "agent payment: "),
            (r#"["hidden"]"#, "is not a JSON object"),
            (
                r#"{"payment": {"headers": {"x-key": hidden"#,
                "line 1, column",
            ),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(named), "{named} in {error}");
            assert!(
                !error.contains("hidden") && !error.contains("4711"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_address_has_host_and_path_and_no_secret() {
        for (url, shown) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            (
                "https://u:hidden@h:1/v1/bank?key=hidden#hidden",
                "https://h:1/v1/bank",
            ),
            ("https://u:p@ss@h/a@b", "https://h/a@b"),
            ("hidden", "(not a URL)"),
        ] {
            assert_eq!(AgentConfig::at(url.to_owned()).address(), shown);
        }
        let agents = parse(r#"{"payment": {"lambda": "charge"}}"#).expect("it is sound");
        let mut agent = agents.into_values().next().expect("an agent");
        assert_eq!(agent.address(), "lambda charge");
        agent.move_to("http://h".to_owned());
        assert_eq!(agent.address(), "http://h");
    }

    #[test]
    fn a_configuration_shows_no_secret() {
        let text = r#"{"payment": {"base_url": "https://u:hidden@h/?key=hidden",
            "headers": {"x-key": "hidden"}, "concurrency": 3, "breaker": {"open": "5s"}}}"#;
        let agents = parse(text).expect("it is a configuration");
        let shown = format!("{agents:?}");
        assert!(
            shown.contains("x-key") && !shown.contains("hidden"),
            "{shown}"
        );
    }
}
