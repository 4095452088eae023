//! Measures functions as deployed: the time from process start to the first response, and resident memory.
//!
//! `measure-functions DIR NAME…` starts `DIR/NAME/bootstrap` under a Runtime API over the embedded engines, and
//! prints a Markdown table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use triad_reference_service::Faults;
use triad_tests::engines::Engines;
use triad_tests::orders::FULFILMENT;
use triad_tests::runtime_api::RuntimeApi;

/// Number of starts of each function.
const STARTS: usize = 20;
/// Number of further invocations after each start.
const MORE: usize = 50;
const PATIENCE: Duration = Duration::from_secs(20);
/// A batch without records, which measures only the Lambda shell and the clients.
const EMPTY: &str = r#"{"eventSource": "aws:kafka", "records": {}}"#;
/// A request to the console's URL without a token, which is answered with a page.
const VISIT: &str =
    r#"{"version": "2.0", "rawPath": "/console/", "requestContext": {"http": {"method": "GET"}}}"#;

struct Figures {
    /// Times to the first response, in milliseconds, sorted.
    cold: Vec<f64>,
    /// Times to later responses, in milliseconds, sorted.
    warm: Vec<f64>,
    /// Largest resident memory, in MB.
    resident: f64,
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().expect("measure-functions DIR NAME…"));
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    let mut variables: BTreeMap<&str, String> =
        engines.variables(&engines.brokers()).into_iter().collect();
    variables.insert(
        "TRIAD_ALERTS_SNS_TOPIC",
        "arn:aws:sns:eu-west-1:111122223333:alerts".to_owned(),
    );
    let digest = "0".repeat(64);
    variables.insert("TRIAD_CONSOLE_TOKENS", format!("nobody {digest} read"));
    variables.insert("TRIAD_CONSOLE_KEY", "-".repeat(32));
    variables.insert("AWS_ACCESS_KEY_ID", "none".to_owned());
    variables.insert("AWS_SECRET_ACCESS_KEY", "none".to_owned());
    variables.insert("TRIAD_LOG", "warn".to_owned());
    println!(
        "| function | binary | Kafka | first response, median | 95 % | later ones | resident |"
    );
    println!("|---|---|---|---|---|---|---|");
    for name in arguments {
        let binary = directory.join(&name).join("bootstrap");
        let event = if name == "console" { VISIT } else { EMPTY };
        let bytes = std::fs::metadata(&binary).map_or(0, |m| m.len());
        for way in ["none", "tls"] {
            variables.insert("TRIAD_KAFKA_AUTH", way.to_owned());
            let figures = measure(&binary, &variables, event).await;
            println!(
                "| {name} | {:.1} MB | {way} | {:.1} ms | {:.1} ms | {:.2} ms | {:.1} MB |",
                bytes as f64 / 1e6,
                at(&figures.cold, 50),
                at(&figures.cold, 95),
                at(&figures.warm, 50),
                figures.resident,
            );
        }
    }
}

async fn measure(
    binary: &Path,
    variables: &BTreeMap<&str, String>,
    event: &'static str,
) -> Figures {
    let mut figures = Figures {
        cold: Vec::new(),
        warm: Vec::new(),
        resident: 0.0,
    };
    for _ in 0..STARTS {
        let api = RuntimeApi::start();
        let began = Instant::now();
        let pairs = variables.iter().map(|(n, v)| (*n, v.as_str()));
        let function = api.spawn(binary, pairs).expect("the function starts");
        api.invoke(event, PATIENCE).await.expect("it answers");
        figures.cold.push(ms(began));
        for _ in 0..MORE {
            let began = Instant::now();
            api.invoke(event, PATIENCE).await.expect("it answers");
            figures.warm.push(ms(began));
        }
        let resident = function.pid().map_or(0.0, resident_mb);
        figures.resident = figures.resident.max(resident);
    }
    figures.cold.sort_by(f64::total_cmp);
    figures.warm.sort_by(f64::total_cmp);
    figures
}

fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

fn at(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100]
}

/// The largest resident memory of a process so far (Linux).
fn resident_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kb = line.and_then(|l| l.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    kb.unwrap_or(0.0) / 1e3
}
