//! The settings of `triad serve`: a variable of the environment, else the file, else the default.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use triad_bootstrap::{Config, ConfigError};
use triad_console::{Hidden, TraceUrl};
use triad_core::Timing;
use triad_ingress::TlsFiles;
use triad_sqlite::topics::TopicSettings;
use triad_workflow::{Limits, Millis};

use super::backups::Backups;
use super::file::{File, Workflows};
use crate::console::believed;
use crate::output::Usage;

/// Clock skew: one machine has one clock, so only the time for handling a message counts.
const SKEW: Millis = Millis(20);
/// How long the present version of a workflow is cached: reading it is cheap, a call within the process.
const REFRESH_DEFINITIONS: Millis = Millis(1_000);

/// Default retention of handled records in the log.
const A_DAY: Millis = Millis(24 * 3_600_000);

/// All settings, checked.
pub struct Settings {
    /// The data directory.
    pub data: PathBuf,
    /// The workflow files.
    pub workflows: Workflows,
    /// The HTTP interface.
    pub http: triad_ingress::Settings,
    /// The operators' API and pages; `None`: there are none.
    pub console: Option<triad_console::Settings>,
    /// Whether models may act.
    pub mcp_acts: bool,
    /// Address of the Prometheus endpoint; `None`: there is none.
    pub metrics: Option<SocketAddr>,
    /// Address of the Kafka port.
    pub kafka: SocketAddr,
    /// Address of the Kafka port's listener with TLS; `None`: there is none.
    pub kafka_tls: Option<SocketAddr>,
    /// Partitions of new topics.
    pub partitions: i32,
    /// Most bytes of a partition's log, beside unhandled records.
    pub log_bytes: u64,
    /// Retention of handled records, for the topics that handlers read.
    pub log_retention: Millis,
    /// Interval between two sweeps.
    pub sweep_every: Millis,
    /// The copies of the data directory; `None`: none are made.
    pub backups: Option<Backups>,
    /// Configuration of the handlers.
    pub config: Config,
}

/// Fields that neither the pages nor an application's query of an order shows.
fn hidden(get: &dyn Fn(&str) -> Option<String>) -> Hidden {
    let hidden = get("TRIAD_CONSOLE_HIDDEN").unwrap_or_default();
    Hidden::of(hidden.split(',').map(str::to_owned))
}

/// Whether a proxy in front of the pages has TLS.
fn is_behind_tls(get: &dyn Fn(&str) -> Option<String>) -> bool {
    let url = get("TRIAD_CONSOLE_URL");
    let scheme = url.as_deref().and_then(|url| url.get(..6));
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
}

/// A time between two backups: a second or more.
fn backup_every(text: &str) -> Result<Millis> {
    let every: Millis = text.parse()?;
    anyhow::ensure!(every >= Millis(1_000), "{text:?} is less than a second");
    Ok(every)
}

/// Checks that all topics together have no more partitions than the broker supports.
fn room_for(partitions: u64, config: &Config) -> Result<(), String> {
    let agents: Vec<_> = config.agents.keys().cloned().collect();
    let replies: Vec<String> = config.settings.reply_topics.iter().cloned().collect();
    let topics = triad_core::topics::all(&agents, &replies).len() as u64;
    let most = TopicSettings::default().max_partitions as u64;
    if topics * partitions <= most {
        return Ok(());
    }
    Err(format!(
        "TRIAD_PARTITIONS: {topics} topics of {partitions} partitions are more than {most} in all: at most {}",
        most / topics
    ))
}

/// The settings of the operators' API and pages.
fn console(
    get: &dyn Fn(&str) -> Option<String>,
    http: SocketAddr,
    secure: bool,
) -> Result<Option<triad_console::Settings>, String> {
    let read_only = match get("TRIAD_CONSOLE").as_deref() {
        None | Some("true") => false,
        Some("read-only") => true,
        Some("false") => return Ok(None),
        Some(other) => {
            return Err(format!(
                "TRIAD_CONSOLE: {other:?} is not one of true, false, read-only"
            ));
        }
    };
    let header = get("TRIAD_CONSOLE_USER_HEADER").map(|name| {
        let header = name.parse::<http::HeaderName>();
        header.map_err(|_| format!("{name:?} is not the name of a header"))
    });
    let named = |why: String| format!("TRIAD_CONSOLE_USER_HEADER: {why}");
    let header = header.transpose().map_err(named)?;
    let user_header = believed(header, http).map_err(|Usage(why)| named(why))?;
    let trace_url = get("TRIAD_CONSOLE_TRACE_URL").map(|text| text.parse::<TraceUrl>());
    let trace_url = trace_url
        .transpose()
        .map_err(|e| format!("TRIAD_CONSOLE_TRACE_URL: {e}"))?;
    Ok(Some(triad_console::Settings {
        read_only,
        hidden: hidden(get),
        user_header,
        secure,
        trace_url,
        ..triad_console::Settings::default()
    }))
}

impl Settings {
    /// Reads the settings; `lookup` gives a variable's value by its name.
    ///
    /// # Errors
    /// [`Usage`] or [`ConfigError`] with every setting that is wrong.
    pub fn read(
        file: &File,
        data: Option<PathBuf>,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let said = file.variables()?;
        let get = |name: &str| lookup(name).or_else(|| said.get(name).cloned());
        let mut problems = Vec::new();
        let mut address = |name: &str, default: &str| {
            let text = get(name).unwrap_or_else(|| default.to_owned());
            text.parse::<SocketAddr>().unwrap_or_else(|_| {
                problems.push(format!(
                    "{name}: {text:?} is not an address and a port, such as {default}"
                ));
                SocketAddr::from(([127, 0, 0, 1], 0))
            })
        };
        let http = address("TRIAD_HTTP", "127.0.0.1:7070");
        let kafka = address("TRIAD_KAFKA", "127.0.0.1:9092");
        let metrics = get("TRIAD_METRICS").map(|_| address("TRIAD_METRICS", "127.0.0.1:9464"));
        let kafka_tls =
            get("TRIAD_KAFKA_TLS").map(|_| address("TRIAD_KAFKA_TLS", "192.168.1.5:9094"));
        if !kafka.ip().is_loopback() {
            problems.push(format!(
                "TRIAD_KAFKA: {kafka} can be reached from other machines, and this listener has no TLS: listen on 127.0.0.1, and set TRIAD_KAFKA_TLS for other machines"
            ));
        }
        let mut number = |name: &str, default: u64, range: std::ops::RangeInclusive<u64>| {
            let Some(text) = get(name) else {
                return default;
            };
            let number = text.parse().ok().filter(|n| range.contains(n));
            number.unwrap_or_else(|| {
                let (from, to) = (range.start(), range.end());
                problems.push(format!(
                    "{name}: {text:?} is not a number from {from} to {to}"
                ));
                default
            })
        };
        let partitions = number("TRIAD_PARTITIONS", 4, 1..=100);
        let keep = number("TRIAD_BACKUP_KEEP", 7, 1..=1_000);
        let log_bytes = number("TRIAD_LOG_BYTES", 64 << 20, 1 << 20..=1 << 40);
        let mut span = |name: &str, default: Millis, read: fn(&str) -> anyhow::Result<Millis>| {
            let set = get(name).map_or(Ok(default), |text| read(&text));
            set.unwrap_or_else(|why| {
                problems.push(format!("{name}: {why}"));
                default
            })
        };
        let sweep_every = span(
            "TRIAD_SWEEP_EVERY",
            Millis(1_000),
            triad_worker::sweep_every,
        );
        let log_retention = span("TRIAD_LOG_RETENTION", A_DAY, |text| Ok(text.parse()?));
        let every = span("TRIAD_BACKUP_EVERY", A_DAY, backup_every);
        let backups = match get("TRIAD_BACKUP_TO") {
            Some(to) => Some(Backups {
                to: to.into(),
                every: every.as_duration(),
                keep: usize::try_from(keep).unwrap_or(usize::MAX),
            }),
            None => {
                for name in ["TRIAD_BACKUP_EVERY", "TRIAD_BACKUP_KEEP"] {
                    if get(name).is_some() {
                        problems.push(format!("{name}: it is set without TRIAD_BACKUP_TO"));
                    }
                }
                None
            }
        };
        let tls = match (get("TRIAD_TLS_CERTIFICATE"), get("TRIAD_TLS_KEY")) {
            (Some(certificate), Some(key)) => Some(TlsFiles {
                certificate: certificate.into(),
                key: key.into(),
            }),
            (None, None) => None,
            _ => {
                problems.push(
                    "TRIAD_TLS_CERTIFICATE, TRIAD_TLS_KEY: one is set without the other".into(),
                );
                None
            }
        };
        if kafka_tls.is_some() && (tls.is_none() || get("TRIAD_TOKENS").is_none()) {
            problems.push(
                "TRIAD_KAFKA_TLS: needs TRIAD_TLS_CERTIFICATE, TRIAD_TLS_KEY and TRIAD_TOKENS"
                    .into(),
            );
        }
        let console =
            console(&get, http, tls.is_some() || is_behind_tls(&get)).unwrap_or_else(|why| {
                problems.push(why);
                None
            });
        let mcp_acts = match get("TRIAD_MCP_ACTS").as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                problems.push(format!(
                    "TRIAD_MCP_ACTS: {other:?} is not one of true, false"
                ));
                false
            }
        };
        let for_handlers = |name: &str| match name {
            // Known once the broker listens.
            "TRIAD_BROKERS" => Some(kafka.to_string()),
            "TRIAD_ANNOUNCE_WITHIN" => get(name).or_else(|| Some("10s".to_owned())),
            "TRIAD_SKEW" => get(name).or_else(|| Some(format!("{}ms", SKEW.0))),
            name => get(name),
        };
        let config = Config::read(&for_handlers);
        problems.extend(
            config
                .as_ref()
                .ok()
                .and_then(|c| room_for(partitions, c).err()),
        );
        let mut config = match config {
            Ok(config) if problems.is_empty() => config,
            Ok(_) => return Err(ConfigError(problems).into()),
            Err(ConfigError(more)) => {
                problems.extend(more);
                return Err(ConfigError(problems).into());
            }
        };
        config.settings.refresh_definitions = REFRESH_DEFINITIONS;
        let data = data.or_else(|| lookup("TRIAD_DATA").map(PathBuf::from));
        let data = data.or_else(|| file.data.clone()).ok_or_else(|| {
            Usage("name the directory that keeps everything: --data DIR, TRIAD_DATA, or `data` in the file".into())
        })?;
        let http = triad_ingress::Settings {
            tokens: get("TRIAD_TOKENS").map(PathBuf::from),
            tls,
            timing: config.settings.timing,
            hidden: hidden(&get),
            ..triad_ingress::Settings::on(http)
        };
        Ok(Self {
            data,
            workflows: match lookup("TRIAD_WORKFLOWS") {
                Some(folder) => Workflows::In(folder.into()),
                None => file.workflows.clone(),
            },
            http,
            console,
            mcp_acts,
            metrics,
            kafka,
            kafka_tls,
            partitions: i32::try_from(partitions).unwrap_or(i32::MAX),
            log_bytes,
            log_retention,
            sweep_every,
            backups,
            config,
        })
    }

    /// Limits for workflows: any agent, because it may be served elsewhere.
    pub fn limits(&self) -> Limits {
        let Timing { skew, .. } = self.config.settings.timing;
        Limits { agents: None, skew }
    }
}
